//! `jit worktree merge`: lands units on their target, and shows the report.
//!
//! `jit finish` shares `show`.
//!
//! What must hold: the exit code is 6 if a unit did not land, and --quiet does not hide that report.

use jit_engine::api::landing::{
    LandingReply, LandingRequest, MergeAsk, MergeMode, MergeReport, UnitReport, Verdict,
};
use jit_engine::api::{Answer, Reply, Request};
use jit_store::Outcome;

use crate::invocation::{Invocation, Output, unexpected};
use crate::render::{Style, clean, clean_line, clean_path, table};
use crate::trust;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A unit is named by its name, issue, branch or folder; inside its worktree it may be left out. Gates \
    and settings are read from the target, as they are committed there. Exit code 6 when something did not land, 5 \
    (target_dirty) when the target is checked out and git would not move it there.\n\n\
    Examples:\n  jit worktree merge wi-001\n  jit worktree merge --all --dry-run\n  jit worktree merge wi-001 --continue"
)]
pub struct Flags {
    /// Which; several are ordered, and tested together where they merge cleanly
    units: Vec<String>,
    /// Every unit that is ready for it
    #[arg(long, conflicts_with = "units")]
    all: bool,
    /// The branch to merge into, instead of the unit's own target
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,
    /// Only say what would happen
    #[arg(long, conflicts_with_all = ["continue", "send_back"])]
    dry_run: bool,
    /// The conflicts are settled and committed in the unit's worktree: go on
    #[arg(long = "continue", id = "continue", conflicts_with = "send_back")]
    go_on: bool,
    /// Put a conflict into the unit's own worktree, as a merge to be finished there
    #[arg(long)]
    send_back: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let mode = match (flags.dry_run, flags.go_on, flags.send_back) {
        (true, ..) => MergeMode::DryRun,
        (_, true, _) => MergeMode::Continue,
        (_, _, true) => MergeMode::SendBack,
        _ => MergeMode::Land,
    };
    show(
        LandingRequest::Merge(Box::new(MergeAsk {
            units: flags.units,
            all: flags.all,
            into: flags.into,
            mode,
            leave_proposed: flags.all,
        })),
        call,
    )
}

/// Sends the request and shows the report. If only an approval of commands is missing, asks the person at the terminal
/// and retries.
pub fn show(request: impl Into<Request>, call: &Invocation) -> Outcome<Output> {
    let Answer { reply, warnings } = trust::send(request, call)?;
    let Reply::Landing(LandingReply::Report(report)) = &reply else {
        return Err(unexpected());
    };
    let good = report.units.iter().all(|one| one.verdict.is_good());
    let units: Vec<&str> = report.units.iter().map(|one| one.unit.as_str()).collect();
    let shown = match good && !report.dry_run {
        true => call.done(&reply.value(), &units, |style| call.text(&reply, style)),
        // The report of a dry run, and any failure, is the answer. --quiet does not shorten it.
        false => call.show(&reply.value(), |style| call.text(&reply, style)),
    };
    Ok(shown.warn(warnings).exit(if good { 0 } else { 6 }))
}

pub fn report_text(report: &MergeReport, style: Style) -> String {
    if report.units.is_empty() {
        return "Nothing is waiting to be merged.\n".into();
    }
    let mut out = String::new();
    for one in &report.units {
        out.push_str(&unit_text(one, report, style));
    }
    if !report.overlap.is_empty() {
        out.push_str(&format!("\n{}\n", style.bold("Same paths")));
        let rows: Vec<Vec<String>> = report
            .overlap
            .iter()
            .map(|pair| {
                let some: Vec<String> = pair.some.iter().map(|path| clean_path(path)).collect();
                vec![
                    format!("  {} and {}", pair.a, pair.b),
                    pair.paths.to_string(),
                    some.join(", "),
                ]
            })
            .collect();
        out.push_str(&table(&rows));
    }
    for line in &report.next {
        out.push_str(&format!("next: {}\n", clean_line(line)));
    }
    out
}

fn unit_text(one: &UnitReport, report: &MergeReport, style: Style) -> String {
    let short = |commit: &str| commit.get(..10).unwrap_or(commit).to_owned();
    let verdict = if one.verdict.is_good() {
        one.verdict.as_str().to_owned()
    } else {
        style.bad(one.verdict.as_str())
    };
    let mut out = format!("{}  {verdict}", style.bold(&one.unit));
    if matches!(
        one.verdict,
        Verdict::Landed | Verdict::AlreadyLanded | Verdict::Clean
    ) {
        out.push_str(&format!(" on {}", clean_line(&report.target)));
    }
    if let Some(address) = &one.pull_request
        && one.message.is_none()
    {
        out.push_str(&format!(" at {}", clean_line(address)));
    }
    if let Some(commit) = &one.merge_commit {
        out.push_str(&format!(" as {}", short(commit)));
    }
    if let (Some(issue), Some(true)) = (&one.issue_id, one.issue_done) {
        out.push_str(&format!("; {issue} is done"));
    }
    out.push('\n');
    if let Some(message) = &one.message {
        out.push_str(&format!("  {}\n", clean_line(message)));
    }
    for path in &one.settled {
        out.push_str(&format!(
            "  {} settled by {}\n",
            clean_path(&path.path),
            clean_line(&path.by)
        ));
    }
    for conflict in &one.conflicts {
        out.push_str(&format!(
            "  {}  {}\n",
            style.bad(&clean_line(&conflict.kind)),
            clean_path(&conflict.path)
        ));
        if let Some(rule) = &conflict.failed_rule {
            out.push_str(&format!(
                "    the rule's command failed: {}: {}\n",
                clean_line(&rule.command),
                clean_line(&rule.reason)
            ));
            let lines: Vec<String> = clean(&rule.output).lines().map(str::to_owned).collect();
            for line in lines.iter().skip(lines.len().saturating_sub(15)) {
                out.push_str(&format!("      | {line}\n"));
            }
        }
        for (side, commits) in [
            ("target", &conflict.ours_commits),
            ("unit", &conflict.theirs_commits),
        ] {
            for commit in commits {
                out.push_str(&format!(
                    "    {}\n",
                    style.dim(&format!("{side}: {}", clean_line(commit)))
                ));
            }
        }
        for hunk in conflict.hunks.iter().take(3) {
            out.push_str(&format!("    line {}\n", hunk.line));
            for (mark, text) in [("-", &hunk.ours), ("+", &hunk.theirs)] {
                for line in clean(text).lines().take(8) {
                    out.push_str(&format!("      {mark} {line}\n"));
                }
            }
        }
    }
    for check in &one.validation {
        let passed = if check.passed {
            "passed".to_owned()
        } else {
            style.bad("failed")
        };
        let tests = check
            .tests
            .map_or(String::new(), |tests| format!(", {tests} tests"));
        out.push_str(&format!("  {} {passed}{tests}\n", clean_line(&check.name)));
        if !check.passed {
            for line in clean(&check.output)
                .lines()
                .rev()
                .take(15)
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
            {
                out.push_str(&format!("    | {line}\n"));
            }
        }
    }
    for line in &one.help {
        out.push_str(&format!("  try: {}\n", clean_line(line)));
    }
    out
}
