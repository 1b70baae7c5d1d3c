//! The answers to writes that have a request id and more than one step: asking again under the id gives the first answer.
//!
//! A write of one transaction needs no file: the log has its answer. The requests here create worktrees, start programs
//! or decide by the present state before they write, so they are answered from a file.
//!
//! What must hold:
//!
//! - Only an answer that was successful is kept. A failed request may be tried again under its id.
//! - An answer belongs to one request of one agent: a command may send several requests under its id.
//!
//! Format: `<control>/answers/<digest of agent, id and request>.json`: the answer, as it travels. A file is deleted after
//! some days.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use jit_os::{file, io_refusal};
use jit_store::Outcome;
use sha2::{Digest as _, Sha256};

use crate::api::attempts::AttemptRequest;
use crate::api::doctor::DoctorRequest;
use crate::api::gates::GateRequest;
use crate::api::hooks::HookRequest;
use crate::api::landing::LandingReply;
use crate::api::sessions::SessionRequest;
use crate::api::setup::SetupRequest;
use crate::api::units::UnitRequest;
use crate::api::{Answer, Options, Reply, Request};
use crate::context::Surroundings;

const FOLDER: &str = "answers";

/// The largest answer that is kept.
const LARGEST: u64 = 64 << 20;

/// Answers are kept for that long.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// A request with the id that its caller gave it.
pub(crate) struct NamedRequest {
    /// Where its answer is kept.
    path: PathBuf,
}

/// Whether the answer to a request is kept in a file.
fn is_kept(request: &Request) -> bool {
    let has_steps = match request {
        // One transaction each: the log has the answer. A heartbeat is sent again and again.
        Request::Claims(_) | Request::Issues(_) | Request::FileLocks(_) | Request::Overview(_) => false,
        Request::Gates(request) => matches!(request, GateRequest::Undefine { .. }),
        Request::Sessions(request) => !matches!(request, SessionRequest::Beat { .. }),
        // These note what happened meanwhile. The shim of an agent sends them again and again.
        Request::Units(request) => !matches!(request, UnitRequest::Settle { .. }),
        Request::Attempts(request) => !matches!(
            request,
            AttemptRequest::StartSession
                | AttemptRequest::KeepAlive { .. }
                | AttemptRequest::EndSession { .. }
        ),
        // Git and agents send the others, each time anew.
        Request::Hooks(request) => matches!(
            request,
            HookRequest::Install { .. } | HookRequest::Uninstall { .. } | HookRequest::AgentHook { .. }
        ),
        // It removes the folder of the answers.
        Request::Setup(request) => !matches!(request, SetupRequest::Uninstall { .. }),
        // A check says how things are now.
        Request::Doctor(request) => !matches!(request, DoctorRequest::Validate { .. }),
        Request::Config(_)
        | Request::Landing(_)
        | Request::Notify(_)
        | Request::Rescue(_)
        | Request::Trust(_)
        | Request::Workflows(_) => true,
    };
    has_steps && request.facts().writes
}

/// Returns the request with its id, if it has one and its answer is kept.
pub(crate) fn named(options: &Options, request: &Request) -> Option<NamedRequest> {
    let id = options.request.as_ref().filter(|_| is_kept(request))?;
    let (found, _) = Surroundings::despite(options).ok()?;
    let mut hash = Sha256::new();
    hash.update(format!("{}\0{id}\0", found.whoami.agent_id));
    hash.update(serde_json::to_vec(request).ok()?);
    let name: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let folder = found.place.control_dir.join(FOLDER);
    Some(NamedRequest {
        path: folder.join(format!("{name}.json")),
    })
}

impl NamedRequest {
    /// Returns the first answer, if there was one. A file that cannot be understood has none.
    pub(crate) fn first_answer(&self) -> Outcome<Option<Answer>> {
        let bytes = file::read_real(&self.path, LARGEST).map_err(|e| io_refusal("read", &self.path, &e))?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// Keeps the answer. If that fails, the request is carried out again when it is repeated.
    pub(crate) fn keep(&self, answer: &Answer) {
        let (Some(folder), Ok(bytes)) = (self.path.parent(), serde_json::to_vec(answer)) else {
            return;
        };
        if !is_final(&answer.reply) {
            return;
        }
        let put = || file::put_like_parent(&self.path, &bytes);
        let _ = file::make_dir_like_parent(folder).and_then(|()| put());
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let written = entry.metadata().and_then(|meta| meta.modified()).ok();
            let age = written.and_then(|at| at.elapsed().ok());
            if age.is_some_and(|age| age > KEPT) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Whether the request has done its work. A landing that was refused is tried again by the same command.
fn is_final(reply: &Reply) -> bool {
    match reply {
        Reply::Landing(LandingReply::Report(report)) => report.units.iter().all(|one| one.verdict.is_good()),
        _ => true,
    }
}
