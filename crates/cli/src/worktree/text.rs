//! Text of units, and of the agents in them.

use jit_core::model::duration::format_secs;
use jit_core::model::unit::{MergeStatus, Phase, Unit};
use jit_engine::api::attempts::{AttemptFolder, AttemptReply, HandoffView};
use jit_engine::api::landing::{LandingReply, Landings};
use jit_engine::api::units::{
    AgentProgress, Beginning, Orphan, Orphans, UnitEnv, UnitReply, UnitView, Units, in_a_word,
};

use crate::render::{Style, clean, clean_line, clean_path, table};
use crate::run_flags::{announce, money};

/// Text of a reply about units.
pub fn text(reply: &UnitReply, style: Style) -> String {
    match reply {
        UnitReply::Unit(view) => view_text(view, style),
        UnitReply::Units(Units { units }) => units_text(units, style),
        UnitReply::Beginning(Beginning { target, base }) => format!("{} at {base}\n", clean_line(target)),
        UnitReply::Env(UnitEnv { env }) => env
            .iter()
            .map(|(name, value)| format!("{name}={value}\n"))
            .collect(),
        UnitReply::Diff(diff) => clean(&diff.diff),
        UnitReply::Orphans(Orphans { orphans }) if orphans.is_empty() => "Everything fits together.\n".into(),
        UnitReply::Orphans(Orphans { orphans }) => orphans.iter().map(orphan_text).collect(),
    }
}

/// Ids of what was written.
pub fn ids(reply: &UnitReply) -> Vec<&str> {
    match reply {
        UnitReply::Unit(view) => vec![view.unit.id.as_str()],
        UnitReply::Units(Units { units }) => units.iter().map(|view| view.unit.id.as_str()).collect(),
        UnitReply::Beginning(_) | UnitReply::Env(_) | UnitReply::Diff(_) | UnitReply::Orphans(_) => {
            Vec::new()
        }
    }
}

/// Text of a reply about agents in units.
pub fn attempt_text(reply: &AttemptReply, style: Style) -> String {
    match reply {
        AttemptReply::Handoff(view) => handoff_text(view, style),
        AttemptReply::Account(account) => format!(
            "Agents are started on {} again\n",
            style.bold(account.id.as_str())
        ),
        AttemptReply::Preview(preview) => format!("{}\n", announce(&preview.settings)),
        AttemptReply::Folder(AttemptFolder { folder }) => format!("{folder}\n"),
        AttemptReply::KeptAlive(kept) => format!("Renewed: {}\n", kept.renewed),
        AttemptReply::SessionEnded(_) => String::new(),
    }
}

/// Ids of what was written.
pub fn attempt_ids(reply: &AttemptReply) -> Vec<&str> {
    match reply {
        AttemptReply::Handoff(view) => vec![view.unit.as_str()],
        AttemptReply::Account(account) => vec![account.id.as_str()],
        AttemptReply::Preview(_)
        | AttemptReply::Folder(_)
        | AttemptReply::KeptAlive(_)
        | AttemptReply::SessionEnded(_) => Vec::new(),
    }
}

/// Text of a handoff, and of the unit that receives it.
fn handoff_text(view: &HandoffView, style: Style) -> String {
    let path = view.path.as_deref().map(clean);
    let receiver = match (&view.receiver, &path) {
        (Some(receiver), _) => receiver,
        (None, Some(path)) => {
            return format!(
                "{} has not begun: its first agent is told about {}\n{path}\n",
                view.to, view.unit
            );
        }
        (None, None) => return clean(&view.text),
    };
    let to = match receiver.unit.id == view.unit {
        true => format!("{} goes on in {}", view.to, view.unit),
        false => format!("the next agent of {} is told about {}", view.to, view.unit),
    };
    let path = path.unwrap_or_default();
    format!("{to}\n{path}\n{}", view_text(receiver, style))
}

/// Text of a reply about landing.
pub fn landing_text(reply: &LandingReply, style: Style) -> String {
    match reply {
        LandingReply::Report(report) => super::merge::report_text(report, style),
        LandingReply::Conflicts(picture) => crate::conflicts::picture_text(picture, style),
        LandingReply::History(Landings { landed }) => crate::log::text(landed),
    }
}

/// Ids of what was written.
pub fn landing_ids(reply: &LandingReply) -> Vec<&str> {
    match reply {
        LandingReply::Report(report) => report.units.iter().map(|one| one.unit.as_str()).collect(),
        LandingReply::Conflicts(_) | LandingReply::History(_) => Vec::new(),
    }
}

fn orphan_text(one: &Orphan) -> String {
    let done = if one.settled { " (ended)" } else { "" };
    format!("{}: {}{done}\n", clean_line(&one.path), clean_line(&one.what))
}

/// Returns the state of a unit, or its outcome if it is over.
fn phase(unit: &Unit, style: Style) -> String {
    let word = in_a_word(unit);
    match unit.state {
        Phase::Failed => style.bad(&word),
        Phase::Merged | Phase::Completed => style.good(&word),
        Phase::Idle if unit.merge_status == MergeStatus::Merged => style.good(&word),
        Phase::Idle => style.dim(&word),
        _ => word,
    }
}

pub fn units_text(units: &[UnitView], style: Style) -> String {
    if units.is_empty() {
        return "There are no units of work.\n".into();
    }
    // Only running agents have limits left to show.
    let at_work = units.iter().any(|view| view.progress.is_some());
    let mut titles = vec!["UNIT", "STATE", "ISSUE", "AGENT", "COST"];
    if at_work {
        titles.extend(["TURNS", "TOKENS", "LEFT"]);
    }
    titles.extend(["BRANCH", "NOW"]);
    let mut rows = vec![titles.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for view in units {
        let UnitView { unit, progress, .. } = view;
        let mut row = vec![
            style.bold(unit.id.as_str()),
            phase(unit, style),
            unit.issue_id.as_ref().map_or("-".into(), ToString::to_string),
            clean_line(unit.agent.as_deref().unwrap_or("-")),
            cost(unit, progress.as_ref()),
        ];
        if at_work {
            let now = progress.as_ref();
            let turns = unit.turns.saturating_add(now.map_or(0, |now| now.turns));
            let tokens = now.map_or(unit.tokens, |now| unit.tokens.plus(now.tokens));
            row.extend([turns.to_string(), tokens.total().to_string()]);
            row.push(now.map_or("-".into(), |now| left(now, 60)));
        }
        row.extend([clean_line(&unit.branch), now(view)]);
        rows.push(row);
    }
    table(&rows)
}

/// Returns the time, money and tokens that an agent has left. As long as more than `step` seconds are left, the time is
/// rounded down to a multiple of `step`.
fn left(progress: &AgentProgress, step: u64) -> String {
    let secs = match progress.remaining_secs {
        secs if secs > step => secs - secs % step,
        secs => secs,
    };
    let mut left = vec![format_secs(secs)];
    left.extend(progress.remaining_usd.map(|usd| money(usd.0)));
    left.extend(progress.remaining_tokens.map(|tokens| format!("{tokens} tokens")));
    left.join(", ")
}

/// Returns the cost until now, including the running attempt.
fn cost(unit: &Unit, progress: Option<&AgentProgress>) -> String {
    let running = progress
        .and_then(|progress| progress.cost_usd)
        .unwrap_or_default();
    match (unit.cost_usd, progress) {
        (None, None) => "-".into(),
        (before, _) => money(before.unwrap_or_default().0.saturating_add(running.0)),
    }
}

/// Returns the last known action or error, in at most 60 characters.
fn now(view: &UnitView) -> String {
    let last = match (&view.progress, &view.unsettled, &view.unit.error) {
        (Some(progress), ..) => &progress.last_action,
        (None, Some(known), _) => known,
        (None, None, Some(error)) => &error.reason,
        (None, None, None) => return "-".into(),
    };
    clean_line(last).chars().take(60).collect()
}

pub fn view_text(view: &UnitView, style: Style) -> String {
    let mut text = unit_text(&view.unit, style);
    if let Some(known) = &view.unsettled {
        text.push_str(&format!("  {:<9} {}\n", "now", clean_line(known)));
        if let Some(workflow) = view
            .unit
            .workflow
            .as_ref()
            .filter(|_| view.unit.state != Phase::Merged)
        {
            text.push_str(&format!("  {:<9} jit workflow resume {workflow}\n", "next"));
        }
    }
    if let Some(taken) = super::dispatch::as_before(view) {
        text.push_str(&format!("  {}\n", clean_line(&taken)));
    }
    if let Some(progress) = &view.progress {
        let mut line =
            |name: &str, value: String| text.push_str(&format!("  {name:<9} {}\n", clean_line(&value)));
        line("now", progress.last_action.clone());
        let tokens = progress.tokens.total();
        line(
            "used",
            format!(
                "{} turns, {tokens} tokens, {}",
                progress.turns,
                cost(&view.unit, Some(progress))
            ),
        );
        line("left", left(progress, 1));
    }
    text
}

pub fn unit_text(unit: &Unit, style: Style) -> String {
    let mut text = format!("{} is {}\n", style.bold(unit.id.as_str()), phase(unit, style));
    let mut line = |name: &str, value: &str| text.push_str(&format!("  {name:<9} {}\n", clean_line(value)));
    line("worktree", &unit.worktree_path);
    line(
        "branch",
        &format!("{}, to land on {}", unit.branch, unit.goes_to()),
    );
    if let Some(issue) = &unit.issue_id {
        line("issue", issue.as_str());
    }
    if let Some(agent) = &unit.agent {
        let session = unit.session_id.as_ref().map(|id| format!(", session {id}"));
        line(
            "agent",
            &format!("{agent}, attempt {}{}", unit.attempt, session.unwrap_or_default()),
        );
    }
    if unit.cost_usd.is_some() || unit.tokens.total() > 0 {
        let usd = money(unit.cost_usd.unwrap_or_default().0);
        line(
            "cost",
            &format!("{usd}, {} tokens, {} turns", unit.tokens.total(), unit.turns),
        );
    }
    if let Some(commit) = &unit.merge_commit {
        line("landed", commit);
    }
    for clash in &unit.merge_conflicts {
        line(
            "conflict",
            &format!("{} ({})", clean_path(&clash.path), clash.kind),
        );
    }
    if let Some(error) = &unit.error {
        line("failed", &format!("{}: {}", error.reason, error.message));
        if let Some(output) = &error.output {
            line("output", output);
        }
    }
    if let Some(why) = &unit.abandoned {
        line("abandoned", why);
    }
    text
}
