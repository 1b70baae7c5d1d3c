//! Attempts: an attempt is one agent, started once in a unit. This room starts it, records its outcome and hands its
//! work to the next agent.

pub mod accounts;
pub mod dispatch;
pub mod handoff;
pub mod handoff_text;
pub mod outcome;
pub mod retry_settings;
mod worker;

use std::path::PathBuf;

use crate::api::Answer;
use crate::api::attempts::{AgentPreview, AttemptFolder, AttemptReply, AttemptRequest};
use crate::context::{Context, plain};
use crate::units::service::{attempt_folder, find_unit, living_unit};
use jit_core::model::plan::Settings;
use jit_core::model::refusal::{Code, Refusal};
use jit_store::Outcome;

/// Carries out a request about attempts.
pub(crate) fn handle(cx: &Context, request: AttemptRequest) -> Outcome<Answer> {
    match request {
        AttemptRequest::Dispatch(ask) => dispatch::dispatch_unit(cx, &ask),
        AttemptRequest::Handoff(ask) => handoff::hand_on_unit(cx, &ask),
        AttemptRequest::Stop { unit, reason } => dispatch::stop_unit(cx, unit.as_deref(), &reason),
        AttemptRequest::Unpark { account } => accounts::unpark(cx, account),
        AttemptRequest::Preview { run, force } => preview(cx, &run, force),
        AttemptRequest::Folder { unit, attempt } => {
            let folder = recorded_folder(cx, unit.as_deref(), attempt)?;
            let folder = folder.to_string_lossy().into_owned();
            Ok(plain(cx, AttemptReply::Folder(AttemptFolder { folder }).into()))
        }
        AttemptRequest::StartSession => worker::start_session(cx),
        AttemptRequest::KeepAlive {
            unit,
            attempt,
            session,
        } => worker::keep_alive(cx, &unit, attempt, session.as_ref()),
        AttemptRequest::EndSession { session, well } => worker::end_session(cx, session, well),
    }
}

/// Shows the settings and limits of an agent before it is started.
fn preview(cx: &Context, run: &Settings, force: bool) -> Outcome<Answer> {
    dispatch::require_may_bypass(cx, run)?;
    dispatch::require_startable(cx, run, None)?;
    accounts::require_open_account(cx, run, force, None)?;
    let preview = AgentPreview {
        settings: run.over(&dispatch::run_settings(cx)),
        cautions: dispatch::cautions(cx, run),
    };
    Ok(plain(cx, AttemptReply::Preview(Box::new(preview)).into()))
}

/// Returns the folder of an attempt; without a number, of the last attempt. Refuses if no agent was started.
pub(crate) fn recorded_folder(cx: &Context, named: Option<&str>, attempt: Option<u32>) -> Outcome<PathBuf> {
    let view = crate::write_path::view(cx)?;
    let unit = match named {
        Some(_) => find_unit(cx, &view, named)?,
        None => living_unit(cx, &view, None)?,
    };
    let folder = attempt_folder(cx, &unit.id, attempt.unwrap_or(unit.attempt));
    if !folder.is_dir() {
        return Err(Box::new(
            Refusal::new(Code::NotFound, format!("no agent was started in {}", unit.id))
                .help(format!("jit worktree dispatch {}", unit.id)),
        ));
    }
    Ok(folder)
}
