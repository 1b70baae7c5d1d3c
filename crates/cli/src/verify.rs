//! `jit verify`: compares the trailers of commits with the leases in the log.
//!
//! What must hold: the exit code is 6 for a violated commit, and with `--require` also for an unknown one.

use jit_engine::api::Reply;
use jit_engine::api::hooks::HookReply;
use jit_engine::api::hooks::HookRequest;
use jit_engine::api::verify::{Judged, Verdict, Verified};
use jit_store::Outcome;

use crate::exit::CHECK_FAILED;
use crate::invocation::{Invocation, Output, unexpected};
use crate::render::{Style, clean_line, table};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Compares the trailers of each commit with the log: was that lease held by that agent, in that \
    worktree, when the commit was made (within 2 seconds), and had nobody been granted the same later? verified: yes. \
    violated: no. unknown: it names no lease, or one that this log has never had, or there is no log. Exit code 6 for any \
    that is violated, with --require also for any that is unknown.\n\nExamples:\n  jit verify main..HEAD\n  \
    jit verify origin/main.. --require --json"
)]
pub struct Flags {
    /// As for git log: main..HEAD; a single revision stands for itself and everything before it
    #[arg(value_name = "REV-RANGE")]
    range: String,
    /// Every commit has to be verified
    #[arg(long)]
    require: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let answer = call.send(HookRequest::Verify { range: flags.range })?;
    let Reply::Hooks(HookReply::Verified(verified)) = &answer.reply else {
        return Err(unexpected());
    };
    let failed = verified.any(Verdict::Violated) || flags.require && verified.any(Verdict::Unknown);
    let shown = call.show(verified, |style| text(verified, style));
    Ok(shown
        .warn(answer.warnings)
        .exit(if failed { CHECK_FAILED } else { 0 }))
}

pub fn text(verified: &Verified, style: Style) -> String {
    if verified.commits.is_empty() {
        return "There are no commits in that range.\n".into();
    }
    let row = |one: &Judged| {
        let verdict = match one.verdict {
            Verdict::Verified => style.good("verified"),
            Verdict::Violated => style.bad("violated"),
            Verdict::Unknown => style.dim("unknown"),
        };
        vec![
            one.commit.get(..12).unwrap_or(&one.commit).to_owned(),
            verdict,
            clean_line(&one.reason),
        ]
    };
    table(&verified.commits.iter().map(row).collect::<Vec<_>>())
}
