//! `jit gate run`: runs the automatic gates of an issue and records their results.
//!
//! If only an approval is missing and a person is at the terminal, the person is asked, and the request is retried.
//!
//! What must hold: the exit code is 6 if a gate fails, and --quiet does not hide the failure.

use jit_core::model::ids::IssuePrefix;
use jit_core::model::refusal::Code;
use jit_engine::api::gates::GateReply;
use jit_engine::api::gates::GateRequest;
use jit_engine::api::gates::Status;
use jit_engine::api::{Answer, Reply};
use jit_engine::worktree_identity::identity::Need;
use jit_store::Outcome;

use super::text::report_text;
use crate::invocation::{Invocation, Output};
use crate::reply_text::text;
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
    let cx = call.open(Need::Write)?;
    let request = GateRequest::Run {
        issue: flags.issue,
        gate: flags.gate,
    };
    let Answer { reply, warnings } = match jit_engine::handle::handle(&cx, request.clone()) {
        Err(refusal) if refusal.code == Code::NotTrusted && trust::can_ask(&cx) => {
            trust::ask(&cx)?;
            jit_engine::handle::handle(&cx, request)
        }
        other => other,
    }?;
    let failed = match &reply {
        Reply::Gates(GateReply::Report(report)) => {
            report.gates.iter().any(|g| g.result.status == Status::Failed)
        }
        _ => false,
    };
    let shown = call.show(&reply.value(), |style| match &reply {
        _ if call.quiet() && !failed => String::new(),
        Reply::Gates(GateReply::Report(report)) => report_text(report, Some(&cx.place.control_dir), style),
        other => text(other, "", style),
    });
    Ok(shown.warn(warnings).exit(if failed { 6 } else { 0 }))
}
