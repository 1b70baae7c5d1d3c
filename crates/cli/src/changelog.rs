//! `jit changelog`: prints the work entries of the log, and follows them with `--follow`.
//!
//! It shows only `Worked` events, and the lines that other programs appended to `changelog.log`. With `--json`, each entry has the fields of a line in `changelog.log`.

use jit_core::model::time::Wall;
use jit_engine::api::stream::{StreamItem, Subscribe, WorkEntry};
use jit_store::Outcome;

use crate::events::{Form, show, since};
use crate::invocation::{Invocation, Output};
use crate::render::clean_line;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "What was worked on: work items created, activities claimed, recovered and completed, tasks \
    completed, what was blocked and unblocked, scopes that were revised. The same as a file: changelog.log in \
    the control plane.\n\nOther programs may append lines to that file. jit keeps them and shows them by their times; \
    they have no sequence."
)]
pub struct Flags {
    /// Go on showing what happens
    #[arg(long, short)]
    follow: bool,
    /// Not before: a time (2026-01-03T12:00:00Z) or so long ago (10m)
    #[arg(long, value_name = "T", value_parser = since)]
    since: Option<Wall>,
}

fn for_people(entry: &WorkEntry) -> String {
    let id = entry.task_id.as_ref().or(entry.activity_id.as_ref());
    format!(
        "{}  {:<20} {:<19} {:<14} {}\n",
        entry.timestamp,
        clean_line(entry.worker.as_str()),
        entry.action,
        id.map_or("", |id| id.as_str()),
        clean_line(entry.details.as_deref().unwrap_or_default())
    )
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let follow = flags.follow;
    let entries = Subscribe::Changelog {
        since: flags.since,
        after: 0,
        follow,
    };
    show(entries, "entries", follow, call, &|item, as_json| match item {
        StreamItem::Work(entry) if as_json => serde_json::to_value(entry).ok().map(Form::Json),
        StreamItem::Work(entry) => Some(Form::Text(for_people(entry))),
        _ => None,
    })
}
