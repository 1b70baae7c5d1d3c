//! Text of rescues.

use crate::render::{Style, clean_line, table};
use jit_engine::api::rescue::ALREADY;
use jit_engine::api::rescue::Cleaned;
use jit_engine::api::rescue::RescueReply;
use jit_engine::api::rescue::RescueView;
use jit_engine::api::rescue::{DroppedRescue, PrunedRescues, Rescues};
use jit_engine::api::rescue::{Stage, Work};

/// Returns the ids for --quiet. A restored worktree is named by its path.
pub fn ids(reply: &RescueReply) -> Vec<&str> {
    match reply {
        RescueReply::Cleaned(done) => vec![done.unit.as_str()],
        RescueReply::List(Rescues { rescues }) => rescues.iter().map(|one| one.id.as_str()).collect(),
        RescueReply::One(one) => vec![one.id.as_str()],
        RescueReply::Restored(done) => vec![&done.path],
        RescueReply::Pruned(PrunedRescues { pruned, .. }) => pruned.iter().map(|id| id.as_str()).collect(),
        RescueReply::Dropped(DroppedRescue { dropped }) => vec![dropped.as_str()],
    }
}

pub fn text(reply: &RescueReply, style: Style) -> String {
    match reply {
        RescueReply::Cleaned(done) => cleaned_text(done, style),
        RescueReply::List(Rescues { rescues }) => list_text(rescues, style),
        RescueReply::One(one) => show_text(one, style),
        RescueReply::Restored(done) => {
            let branch = done.branch.as_deref().map_or("no branch".to_owned(), |name| {
                format!("branch {}", style.bold(&clean_line(name)))
            });
            let path = style.bold(&clean_line(&done.path));
            let restored = match &*done.from {
                ALREADY => format!("{path} was restored already ({branch})\n"),
                _ => format!("Restored {path} ({branch})\n"),
            };
            restored + &next_text(&done.next)
        }
        RescueReply::Pruned(PrunedRescues { pruned, freed_bytes }) => {
            format!("Emptied: {} ({} bytes)\n", pruned.len(), freed_bytes)
        }
        RescueReply::Dropped(DroppedRescue { dropped }) => {
            format!("Dropped {}\n", style.bold(dropped.as_str()))
        }
    }
}

fn cleaned_text(done: &Cleaned, style: Style) -> String {
    let mut out = format!(
        "{} {} is removed: {}\n",
        style.good("✓"),
        style.bold(done.unit.as_str()),
        clean_line(&done.worktree_path)
    );
    if let Some(why) = &done.branch_stays {
        out.push_str(&format!(
            "The branch {} stays: {}\n",
            style.bold(&clean_line(&done.branch)),
            clean_line(why)
        ));
    }
    if let Some(id) = &done.rescue {
        out.push_str(&format!(
            "Kept what is not on the target: {}\n",
            style.bold(id.as_str())
        ));
        out.push_str(&format!("  jit rescue show {id}\n  jit rescue restore {id}\n"));
    }
    out
}

fn list_text(rescues: &[RescueView], style: Style) -> String {
    if rescues.is_empty() {
        return "Nothing was rescued.\n".to_owned();
    }
    let mut rows = vec![
        ["ID", "BRANCH", "HOLDS", "WHERE", "WHEN"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for one in rescues {
        let place = match (one.in_trash, one.refs.is_empty()) {
            _ if one.stage == Stage::Restored => "restored",
            (true, true) => "trash",
            (true, false) => "trash, refs",
            (false, _) => "refs",
        };
        rows.push(vec![
            style.bold(one.id.as_str()),
            clean_line(&one.branch),
            holds(one),
            place.to_owned(),
            one.created_at.to_string(),
        ]);
    }
    table(&rows)
}

/// Returns the first piece of work and the number of the others, such as `untracked notes.txt and 2 more`.
fn holds(one: &RescueView) -> String {
    let first = one.work.iter().chain(&one.aside).next();
    match first {
        None => "-".to_owned(),
        Some(work) if one.work_count > 1 => format!("{} and {} more", line(work), one.work_count - 1),
        Some(work) => line(work),
    }
}

fn line(work: &Work) -> String {
    format!("{} {}", work.kind.as_str(), clean_line(&work.what))
}

fn show_text(one: &RescueView, style: Style) -> String {
    let mut out = format!("{}\n", style.bold(one.id.as_str()));
    let mut field = |name: &str, value: &str| out.push_str(&format!("  {name:<9} {}\n", clean_line(value)));
    field("unit", one.unit.as_str());
    field("when", &one.created_at.to_string());
    field("was in", &one.worktree_path);
    field("branch", &one.branch);
    if let Some(reason) = &one.reason {
        field("reason", reason);
    }
    if let Some(path) = &one.trash_path {
        field("trash", path);
    }
    if let Some(path) = &one.restored_to {
        field("restored", path);
    }
    for (name, oid) in &one.refs {
        field("ref", &format!("{name} {}", oid.get(..12).unwrap_or(oid)));
    }
    for work in one.work.iter().chain(&one.aside) {
        out.push_str(&format!("  {}\n", line(work)));
    }
    out + &next_text(&one.next)
}

fn next_text(next: &[String]) -> String {
    next.iter()
        .map(|command| format!("next: {}\n", clean_line(command)))
        .collect()
}
