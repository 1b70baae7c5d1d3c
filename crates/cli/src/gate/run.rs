//! `jit gate run`: runs the automatic gates of an issue and records their results.
//!
//! If only an approval is missing and a person is at the terminal, the person is asked, and the request is retried.
//!
//! What must hold: the exit code is 6 if a gate fails, and --quiet does not hide the failure.

use jit_core::model::ids::IssuePrefix;
use jit_engine::api::gates::{GateReply, GateRequest, Status};
use jit_engine::api::setup::{ControlFolder, SetupReply, SetupRequest};
use jit_engine::api::{Answer, Reply};
use jit_store::Outcome;

use super::text::report_text;
use crate::invocation::{Invocation, Output, unexpected};
use crate::trust;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code 6 when a gate fails. Ctrl-C ends what the gate has started. The result counts for the \
    issue, whoever holds it, and remembers the content it was found on.\n\n\
    Examples:\n  jit gate run WI-001\n  jit gate run WI-001 test"
)]
pub struct Flags {
    /// Its id, or the beginning of it
    issue: IssuePrefix,
    /// Only this gate
    gate: Option<String>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let request = GateRequest::Run {
        issue: flags.issue,
        gate: flags.gate,
    };
    let Answer { reply, warnings } = trust::send(request, call)?;
    let Reply::Gates(GateReply::Report(report)) = &reply else {
        return Err(unexpected());
    };
    let failed = report.gates.iter().any(|g| g.result.status == Status::Failed);
    // The text names the file with the whole output of a gate that failed.
    let control = match failed && !call.json() {
        true => call.send(SetupRequest::ControlFolder).ok(),
        false => None,
    };
    let control = control.and_then(|answer| match answer.reply {
        Reply::Setup(SetupReply::ControlFolder(ControlFolder { path })) => Some(path),
        _ => None,
    });
    let shown = call.show(&reply.value(), |style| match call.quiet() && !failed {
        true => String::new(),
        false => report_text(report, control.as_ref().map(AsRef::as_ref), style),
    });
    Ok(shown.warn(warnings).exit(if failed { 6 } else { 0 }))
}
