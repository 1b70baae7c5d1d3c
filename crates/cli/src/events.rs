//! `jit events`: prints the log, and follows it with `--follow`.
//!
//! `show` also serves `jit changelog`.

use std::ops::ControlFlow;

use jit_core::log::event::{Event, Stamped};
use jit_core::model::time::Wall;
use jit_engine::api::stream::{StreamItem, Subscribe};
use jit_store::Outcome;
use serde_json::{Value, json};

use crate::invocation::{Invocation, Output};
use crate::render::{self, clean_line, clean_path};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  jit events --since 1h --type claim\n  jit events --follow --json")]
pub struct Flags {
    /// Go on showing what happens
    #[arg(long, short)]
    follow: bool,
    /// Not before: a time (2026-01-03T12:00:00Z) or so long ago (10m)
    #[arg(long, value_name = "T", value_parser = since)]
    since: Option<Wall>,
    /// Only this type (claim.acquired) or group (claim); may be repeated
    #[arg(long = "type", value_name = "T")]
    kinds: Vec<String>,
}

pub(super) fn since(text: &str) -> Result<Wall, String> {
    if let Ok(wall) = text.parse() {
        return Ok(wall);
    }
    let secs = crate::invocation::duration(text).map_err(|_| "give a time or a duration".to_owned())?;
    let ago = i64::try_from(secs).unwrap_or(i64::MAX).saturating_mul(1000);
    Ok(Wall::from_ms(jit_os::clock::wall_ms().saturating_sub(ago)))
}

fn line_for_people(line: &Stamped) -> String {
    let about = match &line.event {
        Event::Issue { issue, .. } => Some(format!("  {}  {}", issue.id, clean_line(&issue.title))),
        Event::GateJudged { issue_id, gate, .. } => Some(format!("  {issue_id}  {}", clean_line(gate))),
        Event::Conflict { conflict, .. } => {
            let paths: Vec<String> = conflict.paths.iter().map(|one| clean_path(&one.path)).collect();
            let more = match conflict.more_paths {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            Some(format!(
                "  {} and {}: {}{more}",
                clean_line(&conflict.a.name),
                clean_line(&conflict.b.name),
                paths.join(", ")
            ))
        }
        Event::Account { account, .. } => Some(format!("  {}  {}", account.id, clean_line(&account.why))),
        event => event.issue_id().map(|id| format!("  {id}")),
    };
    let about = about.unwrap_or_default();
    format!(
        "{:>6}  {}  {:<20}  {}{about}\n",
        line.sequence,
        line.at,
        clean_line(line.event.kind()),
        clean_line(line.actor.agent_id.as_str())
    )
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let follow = flags.follow;
    let events = Subscribe::Events {
        since: flags.since,
        kinds: flags.kinds,
        after: 0,
        follow,
    };
    show(events, "events", follow, call, &|item, as_json| match item {
        StreamItem::Event(event) if as_json => Some(Form::Json(event.value())),
        StreamItem::Event(event) => Some(Form::Text(line_for_people(&event.0))),
        _ => None,
    })
}

/// An item as it is printed.
pub(super) enum Form {
    Json(Value),
    Text(String),
}

/// Prints items of the log: all of them in one answer, or with `follow` each one as it occurs. `form` returns an item as
/// JSON or as text.
pub(super) fn show(
    subscribe: Subscribe,
    plural: &str,
    follow: bool,
    call: &Invocation,
    form: &dyn Fn(&StreamItem, bool) -> Option<Form>,
) -> Outcome<Output> {
    if follow {
        return call.follow(subscribe, &mut |item| match form(&item, call.json()) {
            Some(Form::Json(value)) => render::pass_on(&call.json_line(&value)),
            Some(Form::Text(text)) => render::pass_on(&text),
            None => ControlFlow::Continue(()),
        });
    }
    let (mut values, mut texts) = (Vec::new(), String::new());
    call.subscribe(subscribe, &mut |item| {
        match form(&item, call.json()) {
            Some(Form::Json(value)) => values.push(value),
            Some(Form::Text(text)) => texts.push_str(&text),
            None => {}
        }
        ControlFlow::Continue(())
    })?;
    Ok(call.show(&json!({ plural: values }), |_| texts))
}
