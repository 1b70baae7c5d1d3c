//! The answers to writes that have a request id and more than one step: asking again under the id gives the first answer.
//!
//! A write of one transaction needs no file: the log has its answer. The requests here create worktrees, start programs
//! or decide by the present state before they write, so they are answered from a file.
//!
//! What must hold:
//!
//! - A request id is used for one request of one agent in one worktree. Another request is refused, as the log refuses it.
//! - Only an answer that was successful is kept. A failed request is carried out again under its id.
//! - A request whose process was killed is carried out again too: `begun` says since when, and its steps go on from
//!   what they find.
//! - The first answer is marked as an answer of the past. Its reader learns the present state of its unit.
//! - Answers may have secrets: only the user who asked can read them, also in a repository that a group shares.
//! - A folder or a file that cannot be used has no answers.
//!
//! Format: `<control>/answers/<digest of agent and id>.json`: a `Record`. A file is deleted after some days.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jit_core::log::state;
use jit_core::model::ids::{AgentId, RequestId};
use jit_core::model::lease::Resource;
use jit_core::model::refusal::{Code, Details};
use jit_core::model::time::Wall;
use jit_core::model::unit::Unit;
use jit_os::file;
use jit_store::{Outcome, request_reused};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::api::attempts::AttemptRequest;
use crate::api::config::ConfigRequest;
use crate::api::doctor::DoctorRequest;
use crate::api::gates::GateRequest;
use crate::api::hooks::HookRequest;
use crate::api::landing::LandingReply;
use crate::api::sessions::SessionRequest;
use crate::api::setup::SetupRequest;
use crate::api::units::{UnitReply, UnitRequest};
use crate::api::{Answer, Options, Reply, Request};
use crate::context::{Context, Surroundings};
use crate::worktree_identity::identity::Need;

const FOLDER: &str = "answers";

/// Its modification time says when old answers were deleted last.
const SWEPT: &str = "swept";

/// The largest file that is read.
const LARGEST: u64 = 64 << 20;

/// Answers are kept for that long.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Old answers are deleted that often.
const SWEEP: Duration = Duration::from_secs(24 * 3600);

/// A request with the id that its caller gave it.
pub(crate) struct NamedRequest {
    id: RequestId,
    /// Digest of the request and its worktree.
    digest: String,
    /// The file of this agent and id.
    path: PathBuf,
    found: Surroundings,
}

/// The content of a file.
#[derive(Serialize, Deserialize)]
struct Record<A = Answer> {
    digest: String,
    begun: Wall,
    /// `None` until the request has succeeded.
    answer: Option<A>,
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
        // It may be a secret, and to set it again changes nothing.
        Request::Config(request) => !matches!(request, ConfigRequest::Set { user: true, .. }),
        Request::Landing(_)
        | Request::Notify(_)
        | Request::Rescue(_)
        | Request::Trust(_)
        | Request::Workflows(_) => true,
    };
    has_steps && request.facts().writes
}

fn hex_digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
        hash.update([0]);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The file with the answer that an agent gets under this id.
fn file_of(control: &Path, agent: &AgentId, id: &RequestId) -> PathBuf {
    let name = hex_digest(&[agent.as_str().as_bytes(), id.to_string().as_bytes()]);
    control.join(FOLDER).join(format!("{name}.json"))
}

fn read(path: &Path) -> Option<Record> {
    serde_json::from_slice(&file::read_real(path, LARGEST).ok()??).ok()
}

/// When the request that is carried out was begun first, by this process or by one that was killed. `None` without an id.
pub(crate) fn begun(cx: &Context) -> Option<Wall> {
    let path = file_of(&cx.place.control_dir, &cx.actor.agent_id, cx.request.as_ref()?);
    Some(read(&path)?.begun)
}

/// Returns the request with its id, if it has one and its answer is kept.
pub(crate) fn named(options: &Options, request: &Request) -> Option<NamedRequest> {
    let id = options.request.clone().filter(|_| is_kept(request))?;
    let (found, _) = Surroundings::despite(options).ok()?;
    let root = found.place.worktree_root.as_deref().unwrap_or(Path::new(""));
    let digest = hex_digest(&[
        root.as_os_str().as_encoded_bytes(),
        &serde_json::to_vec(request).ok()?,
    ]);
    Some(NamedRequest {
        path: file_of(&found.place.control_dir, &found.whoami.agent_id, &id),
        id,
        digest,
        found,
    })
}

impl NamedRequest {
    /// Carries out a request unless it was answered before.
    pub(crate) fn once<T>(
        self,
        options: &Options,
        show: impl Fn(&Reply) -> T,
        carry_out: impl FnOnce() -> Outcome<(Answer, T)>,
    ) -> Outcome<(Answer, T)> {
        let begun = match read(&self.path) {
            Some(record) if record.digest != self.digest => return Err(request_reused(&self.id)),
            Some(Record {
                answer: Some(answer),
                begun,
                ..
            }) => {
                let answer = self.past(options, answer, begun);
                let shown = show(&answer.reply);
                return Ok((answer, shown));
            }
            Some(record) => record.begun,
            None => {
                let begun = Wall::from_ms(jit_os::clock::wall_ms());
                self.write(begun, None);
                begun
            }
        };
        match carry_out() {
            Ok((answer, shown)) if is_final(&answer.reply) => {
                self.write(begun, Some(&answer));
                Ok((answer, shown))
            }
            Err(mut refusal) if refusal.code == Code::Unknown => {
                // The whole request is to be repeated, not the step of it that has no outcome.
                refusal.details = Details::Facts(vec![("request_id", self.id.to_string())]);
                Err(refusal)
            }
            // Another process still works on the same thing, maybe for this very request.
            Err(refusal) if refusal.code == Code::Busy => Err(refusal),
            other => {
                if read(&self.path).is_some_and(|record| record.answer.is_none()) {
                    let _ = fs::remove_file(&self.path);
                }
                other
            }
        }
    }

    /// The first answer, with warnings that it is one of the past.
    fn past(self, options: &Options, mut answer: Answer, begun: Wall) -> Answer {
        answer.warnings.push(format!(
            "this is the answer to the same request of {begun}; nothing was done now"
        ));
        if self.found.place.control_dir.join("events").is_dir()
            && let Ok(cx) = crate::opening::within(self.found, options, Need::Read)
        {
            if let Reply::Units(UnitReply::Unit(view)) = &answer.reply {
                let since = since(&cx, &view.unit);
                answer.warnings.extend(since.unwrap_or_default());
            }
            crate::write_path::remind(&cx, &mut answer.warnings);
        }
        answer
    }

    /// Writes the record. If that fails, the request is carried out again when it is repeated.
    fn write(&self, begun: Wall, answer: Option<&Answer>) {
        let Some(folder) = self.path.parent() else {
            return;
        };
        let record = Record {
            digest: self.digest.clone(),
            begun,
            answer,
        };
        let Ok(bytes) = serde_json::to_vec(&record) else {
            return;
        };
        let put = || file::replace_here_with(&self.path, &bytes, Permissions::from_mode(0o600));
        let _ = file::make_dir_like_parent(folder).and_then(|()| put());
        sweep(folder);
    }
}

/// How a unit of an earlier answer has changed since.
fn since(cx: &Context, then: &Unit) -> Outcome<Vec<String>> {
    let view = crate::write_path::view(cx)?;
    let unreadable = |e| crate::refusals::refuse(Code::Io, e);
    let mut said = Vec::new();
    let now = state::unit(&*view.table, &then.id).map_err(unreadable)?;
    match &now {
        None => said.push(format!("{} is not there any more", then.id)),
        Some(now) if now.state != then.state => said.push(format!("{} is {} now", then.id, now.state)),
        Some(_) => {}
    }
    if let Some(issue) = &then.issue_id {
        let lease =
            state::lease_on(&*view.table, &Resource::Issue(issue.clone()).key()).map_err(unreadable)?;
        match lease.filter(|lease| !lease.expired(&view.now)) {
            // From whatever worktree.
            Some(lease) if lease.agent_id == cx.actor.agent_id => {}
            Some(lease) => said.push(format!("{} holds {issue} now", lease.agent_id)),
            None if now.is_some_and(|now| !now.is_over()) => said.push(format!("nobody holds {issue} now")),
            None => {}
        }
    }
    Ok(said)
}

/// Deletes old answers, unless that was done within the last day.
fn sweep(folder: &Path) {
    let swept = folder.join(SWEPT);
    if !is_older(&swept, SWEEP) {
        return;
    }
    if file::replace_unsynced(&swept, b"").is_err() {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if is_older(&entry.path(), KEPT) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether a file was written longer ago than that, or never.
fn is_older(path: &Path, age: Duration) -> bool {
    let written = path.symlink_metadata().and_then(|meta| meta.modified());
    written.map_or(true, |at| {
        SystemTime::now().duration_since(at).is_ok_and(|is| is > age)
    })
}

/// Whether the request has done its work. A landing that was refused is tried again by the same command.
fn is_final(reply: &Reply) -> bool {
    match reply {
        Reply::Landing(LandingReply::Report(report)) => report.units.iter().all(|one| one.verdict.is_good()),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn age(path: &Path, age: Duration) {
        let file = fs::File::options().write(true).open(path).expect("a file");
        file.set_modified(SystemTime::now() - age).expect("a time");
    }

    #[test]
    fn i1_old_answers_are_deleted_once_a_day() {
        let folder = tempfile::tempdir().expect("a folder");
        let old = folder.path().join("old.json");
        let young = folder.path().join("young.json");
        fs::write(&young, "").expect("a file");
        for is_due in [true, false, true] {
            fs::write(&old, "").expect("a file");
            age(&old, KEPT + SWEEP);
            sweep(folder.path());
            assert_eq!(old.exists(), !is_due);
            if !is_due {
                age(&folder.path().join(SWEPT), SWEEP * 2);
            }
        }
        assert!(young.exists());
    }
}
