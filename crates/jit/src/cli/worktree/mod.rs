//! `jit worktree`: where work happens.

mod abandon;
mod cleanup;
mod create;
mod env;
mod info;
mod init;
mod list;
pub mod merge;
mod path;
mod prune;
mod retry;
mod status;

use jit_core::unit::{Phase, Unit};
use jit_engine::request::UnitView;

use super::{Verb, verb};
use crate::render::{Style, clean_line, table};

pub const VERBS: &[Verb] = &[
    verb!("create", "A worktree and a branch for a piece of work", create),
    verb!("status", "Units of work, and how they stand", status),
    verb!("path", "Where a unit's worktree is", path),
    verb!("env", "What a unit's commands find in their environment", env),
    verb!("retry", "Another attempt at a unit that failed", retry),
    verb!("prune", "What does not fit together", prune),
    verb!("info", "This worktree", info),
    verb!("list", "All worktrees, with who works there", list),
    verb!("merge", "Bring finished units to their target", merge),
    verb!("init", "Give this worktree its identity", init),
    verb!(
        "cleanup",
        "Remove the worktree of a unit that has landed",
        cleanup
    ),
    verb!("abandon", "Give a unit up; its work is kept", abandon),
];

fn phase(phase: Phase, style: Style) -> String {
    match phase {
        Phase::Failed => style.bad(phase.as_str()),
        Phase::Merged | Phase::Completed => style.good(phase.as_str()),
        Phase::Idle => style.dim(phase.as_str()),
        _ => phase.as_str().to_owned(),
    }
}

pub fn units_text(units: &[UnitView], style: Style) -> String {
    if units.is_empty() {
        return "There are no units of work.\n".into();
    }
    let mut rows = vec![
        ["UNIT", "STATE", "ISSUE", "BRANCH", "WORKTREE", "WHY"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for UnitView { unit } in units {
        rows.push(vec![
            style.bold(unit.id.as_str()),
            phase(unit.state, style),
            unit.issue_id.as_ref().map_or("-".into(), ToString::to_string),
            clean_line(&unit.branch),
            clean_line(&unit.worktree_path),
            unit.error
                .as_ref()
                .map_or("-".into(), |error| clean_line(&error.reason)),
        ]);
    }
    table(&rows)
}

pub fn unit_text(unit: &Unit, style: Style) -> String {
    let mut text = format!(
        "{} is {}\n",
        style.bold(unit.id.as_str()),
        phase(unit.state, style)
    );
    let mut line = |name: &str, value: &str| text.push_str(&format!("  {name:<9} {}\n", clean_line(value)));
    line("worktree", &unit.worktree_path);
    line("branch", &format!("{}, to land on {}", unit.branch, unit.target));
    if let Some(issue) = &unit.issue_id {
        line("issue", issue.as_str());
    }
    if let Some(commit) = &unit.merge_commit {
        line("landed", commit);
    }
    for clash in &unit.merge_conflicts {
        line("conflict", &format!("{} ({})", clash.path, clash.kind));
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
