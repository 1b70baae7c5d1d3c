//! `jit changelog`: prints the work entries of the log, and follows them with `--follow`.
//!
//! It shows only `Worked` events. With `--json`, each entry has the fields of a line in `changelog.log`.

use jit_core::log::event::{Event, Stamped};
use jit_core::model::time::Wall;
use jit_core::query::claim_views::changelog_line;
use jit_store::Outcome;
use serde_json::Value;

use crate::events::{Stream, since};
use crate::invocation::{Invocation, Output};
use crate::render::clean_line;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "What was worked on: work items created, activities claimed, recovered and completed, tasks \
    completed, what was blocked and unblocked, scopes that were revised. The same as a file: changelog.log in \
    the control plane."
)]
pub struct Flags {
    /// Go on showing what happens
    #[arg(long, short)]
    follow: bool,
    /// Not before: a time (2026-01-03T12:00:00Z) or so long ago (10m)
    #[arg(long, value_name = "T", value_parser = since)]
    since: Option<Wall>,
}

fn entry(line: &Stamped) -> Value {
    let bytes = changelog_line(line).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

fn for_people(line: &Stamped) -> String {
    let Event::Worked {
        action,
        activity_id,
        task_id,
        details,
        ..
    } = &line.event
    else {
        return String::new();
    };
    let id = task_id.as_ref().or(activity_id.as_ref());
    format!(
        "{}  {:<20} {:<19} {:<14} {}\n",
        line.at,
        clean_line(line.actor.agent_id.as_str()),
        action.as_str(),
        id.map_or("", |id| id.as_str()),
        clean_line(details.as_deref().unwrap_or_default())
    )
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let wanted = |line: &Stamped| {
        matches!(line.event, Event::Worked { .. }) && flags.since.is_none_or(|since| line.at >= since)
    };
    Stream {
        plural: "entries",
        wanted: &wanted,
        value: &entry,
        text: &for_people,
    }
    .show(flags.follow, call)
}
