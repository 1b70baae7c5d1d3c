//! Text of issues, lists of issues, and their progress.

use crate::render::{Style, clean, clean_line, one_line, push_cell, table, width};
use jit_core::log::packed_issue::Packed;
use jit_core::model::issue::Performer;
use jit_engine::api::issue_list::Listed;
use jit_engine::api::issue_list::Listing;
use jit_engine::api::issues::IssueView;
use jit_engine::api::issues::Progress;
use jit_engine::api::issues::ProgressOf;
use jit_engine::api::issues::{Deleted, Exported, IssueReply, Issues};
use std::borrow::Cow;

/// Text of a reply about issues.
pub fn text(reply: &IssueReply, style: Style) -> String {
    match reply {
        IssueReply::Issue(view) => issue(view, style),
        IssueReply::Issues(Issues { issues: list }) => issues(list, style),
        IssueReply::Deleted(Deleted { deleted }) => format!("Deleted {}\n", style.bold(deleted.as_str())),
        IssueReply::Comment(comment) => format!("Noted: {}\n", comment.id),
        IssueReply::Progress(all) => progress(all, style),
        // Only shown as JSON.
        IssueReply::Graph(_) => String::new(),
        IssueReply::Picture(picture) => picture.text.clone(),
        IssueReply::Tree(tree) => jit_core::query::graph::lines(tree),
        IssueReply::Imported(done) => done.imported.iter().map(|id| format!("{id}\n")).collect(),
        IssueReply::Exported(Exported { lines, .. }) => lines.clone(),
    }
}

/// Ids of what was written.
pub fn ids(reply: &IssueReply) -> Vec<&str> {
    match reply {
        IssueReply::Issue(view) => vec![view.issue.id.as_str()],
        IssueReply::Issues(Issues { issues }) => issues.iter().map(|shown| shown.issue.id.as_str()).collect(),
        IssueReply::Deleted(Deleted { deleted }) => vec![deleted.as_str()],
        IssueReply::Comment(comment) => vec![&comment.id],
        IssueReply::Imported(done) => done.imported.iter().map(|id| id.as_str()).collect(),
        IssueReply::Progress(_)
        | IssueReply::Graph(_)
        | IssueReply::Picture(_)
        | IssueReply::Tree(_)
        | IssueReply::Exported(_) => Vec::new(),
    }
}

pub fn issue(view: &IssueView, style: Style) -> String {
    let issue = &view.issue;
    let mut out = format!(
        "{}  {}\n",
        style.bold(issue.id.as_str()),
        clean_line(&issue.title)
    );
    let mut row = |name: &str, value: &str| out.push_str(&format!("  {name:<11} {value}\n"));
    row("state", issue.state.as_str());
    row("type", &clean_line(&issue.kind));
    row("priority", issue.priority.as_str());
    if issue.actor != Performer::Any {
        row("for", issue.actor.as_str());
    }
    if let Some(parent) = &issue.parent {
        row("parent", parent.as_str());
    }
    if !issue.labels.is_empty() {
        row("labels", &clean_line(&issue.labels.join(", ")));
    }
    if !issue.depends_on.is_empty() {
        row("depends on", &names(&issue.depends_on));
    }
    if !view.blocked_by.is_empty() {
        row("waits for", &style.bad(&names(&view.blocked_by)));
    }
    if let Some(reason) = &issue.blocked {
        row("blocked", &style.bad(&clean_line(reason)));
    }
    if let Some(reason) = &issue.pivot {
        row("pivot", &clean_line(reason));
    }
    if !issue.gates.is_empty() {
        row("gates", &clean_line(&issue.gates.join(", ")));
    }
    if let Some(lease) = &view.lease {
        row(
            "held by",
            &format!(
                "{} until {}",
                clean_line(lease.agent_id.as_str()),
                lease.expires_at
            ),
        );
    }
    if let Some(branch) = &view.resume_from {
        row("resume from", &clean_line(branch));
    }
    row("created", &issue.created_at.to_string());
    row(
        "updated",
        &format!("{} (revision {})", issue.updated_at, issue.revision),
    );
    if let Some(text) = &view.description {
        out.push('\n');
        out.push_str(clean(text).trim_end());
        out.push('\n');
    }
    for comment in view.comments.iter().flatten() {
        let head = format!("{}  {}", comment.at, clean_line(comment.agent_id.as_str()));
        out.push_str(&format!("\n{}\n", style.dim(&head)));
        for line in clean(&comment.text).lines() {
            out.push_str(&format!("  {line}\n"));
        }
    }
    out
}

fn names(ids: &[jit_core::model::ids::IssueId]) -> String {
    let names: Vec<&str> = ids.iter().map(|id| id.as_str()).collect();
    names.join(", ")
}

/// Returns short remarks on an issue in a list: blocked, dependencies, waiting for a human, branch to resume from.
fn remark(view: &Listed<'_>) -> String {
    let issue = &view.issue;
    let mut remarks = Vec::new();
    if let Some(reason) = issue.blocked {
        remarks.push(format!("blocked: {}", clean_line(reason.as_str())));
    }
    if !view.blocked_by.is_empty() {
        remarks.push(format!("waits for {}", names(view.blocked_by)));
    }
    if issue.actor == Performer::Human && view.lease.is_none() && !issue.state.is_closed() {
        remarks.push("waiting for a human".to_owned());
    }
    if let Some(branch) = view.resume_from {
        remarks.push(format!("resume from {}", clean_line(branch)));
    }
    if remarks.is_empty() {
        String::new()
    } else {
        format!("  ({})", remarks.join("; "))
    }
}

pub fn issues(views: &Listing, style: Style) -> String {
    if views.is_empty() {
        return "No issues.\n".into();
    }
    // The same layout as `table`, but without a string for each of fifty thousand cells. Only in agent names can the width
    // differ from the length.
    let mut widths = [0; 4];
    for (id, state, priority, agent) in views.outlines() {
        let held = agent.map_or(1, |agent| width(&one_line(agent.as_str())));
        let these = [id, state.as_str().len(), priority.as_str().len(), held];
        for (widest, one) in widths.iter_mut().zip(these) {
            *widest = one.max(*widest);
        }
    }
    let mut out = String::with_capacity(views.size() + views.len() * (widths.iter().sum::<usize>() + 16));
    for view in views.iter() {
        let Packed {
            id,
            state,
            priority,
            title,
            ..
        } = &view.issue;
        for (text, widest) in [id.as_str(), state.as_str(), priority.as_str()]
            .into_iter()
            .zip(widths)
        {
            push_cell(&mut out, text, widest - text.len());
        }
        let holder: Cow<'_, str> = match view.assignee {
            Some(agent) => one_line(agent.as_str()),
            None => "-".into(),
        };
        push_cell(&mut out, &holder, widths[3] - width(&holder));
        out.push_str(&one_line(title.as_str()));
        let remark = remark(&view);
        if !remark.is_empty() {
            out.push_str(&style.dim(&remark));
        }
        out.push('\n');
    }
    out
}

pub fn progress(progress: &Progress, style: Style) -> String {
    if progress.issues.is_empty() {
        return "No issues.\n".into();
    }
    let mut rows = Vec::new();
    for one in &progress.issues {
        progress_rows(one, 0, style, &mut rows);
    }
    let mut out = table(&rows);
    let total = &progress.total;
    out.push_str(&format!(
        "\n{}  {} of {} done, {} in progress, {} ready, {} blocked, {} waiting for a human\n",
        bar(total.percent_done),
        total.done,
        total.issues - total.rejected,
        total.in_progress,
        total.ready,
        total.blocked,
        total.waiting_for_human
    ));
    out
}

fn progress_rows(one: &ProgressOf, depth: usize, style: Style, rows: &mut Vec<Vec<String>>) {
    let share = if one.parts.is_empty() {
        one.state.to_string()
    } else {
        format!(
            "{} {}/{}",
            bar(one.counts.percent_done),
            one.counts.done,
            one.counts.issues - one.counts.rejected
        )
    };
    let mut remarks = Vec::new();
    remarks.extend(one.assignee.as_ref().map(|agent| clean_line(agent.as_str())));
    if !one.blocked_by.is_empty() {
        remarks.push(format!("waits for {}", names(&one.blocked_by)));
    }
    if one.waiting_for_human {
        remarks.push("waiting for a human".to_owned());
    }
    let remark = if remarks.is_empty() {
        String::new()
    } else {
        format!("  ({})", remarks.join("; "))
    };
    rows.push(vec![
        format!("{}{}", "  ".repeat(depth), one.id),
        share,
        clean_line(&one.title) + &style.dim(&remark),
    ]);
    for part in &one.parts {
        progress_rows(part, depth + 1, style, rows);
    }
}

/// Draws a bar of ten places, one filled for each full tenth, and the percentage.
pub fn bar(percent: Option<u8>) -> String {
    let percent = percent.unwrap_or(0);
    let full = usize::from(percent / 10).min(10);
    format!("{}{} {percent:>3}%", "█".repeat(full), "░".repeat(10 - full))
}
