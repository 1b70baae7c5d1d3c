//! `jit events`: prints the log, and follows it with `--follow`.
//!
//! `show` also serves `jit changelog`.

use std::io;
use std::ops::ControlFlow;

use jit_core::log::event::{Event, Stamped};
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::time::Wall;
use jit_engine::api::stream::{StreamEnd, StreamItem, Subscribe};
use jit_store::Outcome;
use serde_json::{Value, json};

use crate::exit::BROKEN_PIPE;
use crate::invocation::{Invocation, Output};
use crate::render::{self, clean_json, clean_line, clean_path};

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

/// Prints items of the log: all of them in one answer, page by page, or with `follow` each one as it occurs. `form` returns
/// an item as JSON or as text.
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
    if call.json() && call.keeps_fields() {
        let mut values = Vec::new();
        call.subscribe(subscribe, &mut |item| {
            if let Some(Form::Json(value)) = form(&item, true) {
                values.push(value);
            }
            ControlFlow::Continue(())
        })?;
        return Ok(call.show(&json!({ plural: values }), |_| String::new()));
    }
    let (head, tail) = match call.json() {
        true => (format!("{{\"{plural}\":["), "]}\n"),
        false => (String::new(), ""),
    };
    let mut comma = "";
    let mut page = Page::of(head);
    let done = call.subscribe(subscribe, &mut |item| match form(&item, call.json()) {
        Some(Form::Json(value)) => {
            page.text.push_str(std::mem::replace(&mut comma, ","));
            page.add(&clean_json(value.to_string()))
        }
        Some(Form::Text(text)) => page.add(&text),
        None => ControlFlow::Continue(()),
    });
    if let (true, Err(refusal)) = (page.is_begun, &done) {
        // The printed part is completed to whole JSON, and the failure is printed after it.
        page.text.push_str(tail);
        let _ = render::print(&page.text);
        return Err(refusal.clone());
    }
    page.end(done?, tail)
}

/// Bytes that are printed at once.
const PAGE: usize = 64 << 10;

/// Prints a long text page by page, so that all of it is never in memory.
struct Page {
    text: String,
    /// A page was printed.
    is_begun: bool,
    failed: Option<io::Error>,
}

impl Page {
    fn of(head: String) -> Self {
        Self {
            text: head,
            is_begun: false,
            failed: None,
        }
    }

    fn add(&mut self, text: &str) -> ControlFlow<()> {
        self.text.push_str(text);
        if self.text.len() < PAGE {
            return ControlFlow::Continue(());
        }
        self.is_begun = true;
        let printed = render::print(&self.text);
        self.text.clear();
        match printed {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(e) => {
                self.failed = Some(e);
                ControlFlow::Break(())
            }
        }
    }

    /// Returns the last page as the output of the command.
    fn end(mut self, end: StreamEnd, tail: &str) -> Outcome<Output> {
        if let Some(e) = self.failed {
            let message = format!("cannot write to standard output: {e}");
            return Err(Box::new(Refusal::new(Code::Io, message)));
        }
        let mut output = Output::nothing();
        match end {
            StreamEnd::Stopped => output = output.exit(BROKEN_PIPE),
            StreamEnd::Complete => {
                self.text.push_str(tail);
                output.text = self.text;
            }
        }
        Ok(output)
    }
}
