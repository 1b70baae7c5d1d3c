//! `jit events`: prints the log, and follows it with `--follow`.
//!
//! `Stream` also serves `jit changelog`.

use std::ops::ControlFlow;
use std::time::Duration;

use jit_core::log::event::{Event, Stamped};
use jit_core::log::line;
use jit_core::model::time::Wall;
use jit_engine::worktree_identity::identity::Need;
use jit_os::watch::Watch;
use jit_store::Outcome;
use serde_json::{Value, json};

use crate::exit::BROKEN_PIPE;
use crate::invocation::{Invocation, Output, invalid};
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

/// Returns the unified event: a line of the log without its internal fields `durable`, `prev` and `sum`.
fn unified(line: &Stamped) -> Value {
    let mut bytes = Vec::new();
    line::encode_line(&mut bytes, line, 0, 0);
    let mut value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if let Value::Object(map) = &mut value {
        for internal in ["durable", "prev", "sum"] {
            map.remove(internal);
        }
    }
    value
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
    let wanted = |line: &Stamped| {
        let kind = line.event.kind();
        flags.since.is_none_or(|since| line.at >= since)
            && (flags.kinds.is_empty()
                || flags
                    .kinds
                    .iter()
                    .any(|k| kind == k || kind.strip_prefix(k.as_str()).is_some_and(|r| r.starts_with('.'))))
    };
    Stream {
        plural: "events",
        wanted: &wanted,
        value: &unified,
        text: &line_for_people,
    }
    .show(flags.follow, call)
}

/// Prints lines of the log in one form: the existing lines, or with `follow` also every later one.
pub(super) struct Stream<'a> {
    pub plural: &'static str,
    pub wanted: &'a dyn Fn(&Stamped) -> bool,
    pub value: &'a dyn Fn(&Stamped) -> Value,
    pub text: &'a dyn Fn(&Stamped) -> String,
}

impl Stream<'_> {
    pub fn show(&self, follow: bool, call: &Invocation) -> Outcome<Output> {
        let cx = call.open(Need::Read)?;
        jit_engine::write_path::view(&cx)?;
        if !follow {
            let mut lines = Vec::new();
            cx.store.events(0, &mut |line| {
                if (self.wanted)(&line) {
                    lines.push(line);
                }
                ControlFlow::Continue(())
            })?;
            if call.json() {
                let all: Vec<Value> = lines.iter().map(self.value).collect();
                return Ok(call.show(&json!({ self.plural: all }), |_| String::new()));
            }
            return Ok(call.show(&(), |_| lines.iter().map(self.text).collect()));
        }
        let watch = Watch::on(&cx.place.control_dir.join("events")).map_err(invalid)?;
        let mut after = 0;
        loop {
            let mut open = true;
            cx.store.events(after, &mut |line| {
                after = line.sequence;
                if (self.wanted)(&line) {
                    let text = if call.json() {
                        call.json_line(&(self.value)(&line))
                    } else {
                        (self.text)(&line)
                    };
                    open = matches!(render::print(&text), Ok(true));
                }
                if open {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
            if !open {
                return Ok(call.show(&(), |_| String::new()).exit(BROKEN_PIPE));
            }
            watch.wait(Duration::from_secs(3600)).map_err(invalid)?;
        }
    }
}
