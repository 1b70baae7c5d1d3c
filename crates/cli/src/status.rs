//! `jit status`: shows the overview: the agents at work, the ready issues, and everything that needs a person.

use crate::render::{Style, clean_line, table};
use jit_core::model::account::Parked;
use jit_engine::api::overview::Status;
use jit_engine::api::overview::StatusIssue;
use jit_engine::api::overview::{OverviewReply, OverviewRequest};

use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {}

pub fn run(_: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(OverviewRequest::Status)
}

/// Text of a reply about the whole repository.
pub fn text(reply: &OverviewReply, style: Style) -> String {
    match reply {
        OverviewReply::Status(all) => status(all, style),
    }
}

/// Lists parked accounts, one a line. No agent is started on a parked account.
pub fn parked(parked: &[Parked], style: Style) -> String {
    let line = |one: &Parked| {
        let unit = one
            .unit
            .as_ref()
            .map_or(String::new(), |unit| format!(", last {unit}"));
        format!(
            "  {} is parked until {}, refused {}{unit}: {}\n",
            style.bold(one.account.as_str()),
            one.until,
            match one.hits {
                1 => "once".to_owned(),
                hits => format!("{hits} times"),
            },
            clean_line(&one.why)
        )
    };
    parked.iter().map(line).collect()
}

pub fn status(status: &Status, style: Style) -> String {
    let counts = &status.counts;
    let place = status
        .branch
        .as_deref()
        .map_or(String::new(), |branch| format!(" on {}", clean_line(branch)));
    let mut out = format!(
        "You are {}{place}\n{}  {} of {} done, {} in progress, {} blocked\n",
        style.bold(&clean_line(status.agent_id.as_str())),
        crate::issue::text::bar(counts.percent_done),
        counts.done,
        counts.issues - counts.rejected,
        counts.in_progress,
        counts.blocked
    );
    let issue_rows = |issues: &[StatusIssue]| -> Vec<Vec<String>> {
        issues
            .iter()
            .map(|issue| {
                let why = issue
                    .why
                    .as_deref()
                    .map_or(String::new(), |why| format!("  ({})", clean_line(why)));
                vec![
                    format!("  {}", issue.id),
                    issue.priority.to_string(),
                    clean_line(&issue.title) + &style.dim(&why),
                ]
            })
            .collect()
    };
    if !status.active.is_empty() {
        out.push_str(&format!("\n{}\n", style.bold("At work")));
        let rows: Vec<Vec<String>> = status
            .active
            .iter()
            .map(|one| {
                let lease = &one.claim.lease;
                vec![
                    format!("  {}", lease.issue_id.as_ref().map_or("?", |id| id.as_str())),
                    clean_line(lease.agent_id.as_str()) + if one.mine { " (you)" } else { "" },
                    format!(
                        "{} left",
                        jit_core::model::refusal::left(one.claim.remaining_secs * 1000)
                    ),
                    clean_line(one.title.as_deref().unwrap_or_default()),
                ]
            })
            .collect();
        out.push_str(&table(&rows));
    }
    if !status.needs_attention.is_empty() {
        out.push_str(&format!("\n{}\n", style.bold("Needs a person")));
        out.push_str(&table(&issue_rows(&status.needs_attention)));
    }
    for one in &status.unpushed {
        let commits = match one.commits {
            1 => "1 commit".to_owned(),
            many => format!("{many} commits"),
        };
        let behind = match one.behind {
            0 => String::new(),
            many => format!(", and {many} behind"),
        };
        out.push_str(&format!(
            "\n{} is {commits} ahead of {}{behind}: {}\n",
            style.bold(&clean_line(&one.branch)),
            clean_line(&one.upstream),
            clean_line(&one.command)
        ));
    }
    if !status.parked.is_empty() {
        let title = style.bold("Parked (jit worktree unpark <account>)");
        out.push_str(&format!("\n{title}\n{}", parked(&status.parked, style)));
    }
    if !status.ready.is_empty() {
        out.push_str(&format!("\n{}\n", style.bold("Ready (jit claim next)")));
        out.push_str(&table(&issue_rows(&status.ready)));
    }
    out
}
