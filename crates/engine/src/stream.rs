//! The door for everything that a surface follows: one subscription in, items out until one side ends it.
//!
//! What must hold:
//! - The items come in order, and no item is passed twice.
//! - A subscriber that got an item with a position and subscribes again behind it misses nothing.
//! - A subscription writes only if its facts say so.
//!
//! Limitation: the end of a subscriber is noticed when the next item is passed to it.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use jit_agents::event::EventLine;
use jit_agents::runner::attempt;
use jit_core::log::event::Stamped;
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::time::Wall;
use jit_core::model::unit::{Phase, Unit};
use jit_core::query::claim_views::changelog_line;
use jit_os::watch::Watch;
use jit_store::Outcome;

use crate::api::Options;
use crate::api::Reply;
use crate::api::landing::Picture;
use crate::api::stream::{AttemptLine, LoggedEvent, StreamEnd, StreamItem, Subscribe};
use crate::api::units::{UnitReply, UnitRequest, UnitView};
use crate::compat::changelog::entries_of_others;
use crate::context::Context;
use crate::refusals::refuse;
use crate::units::service::{attempt_folder, find_unit, living_unit};

/// Receives the items. `Break` ends the subscription.
pub type Take<'a> = dyn FnMut(StreamItem) -> ControlFlow<()> + 'a;

/// Time after which a follower of the log looks again even if the system reported no change.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);

/// Time between two looks at an attempt.
const ATTEMPT_LOOK: Duration = Duration::from_millis(100);

/// Number of looks at an attempt after which its unit is settled again.
const LOOKS_TO_SETTLE: u32 = 20;

/// Time between two tries to record the end of an attempt.
const SETTLE_AGAIN: Duration = Duration::from_millis(50);

/// Time between two looks at the units.
const UNITS_LOOK: Duration = Duration::from_millis(500);

/// Passes the items of a subscription to `take`, until there are no more or `take` ends it.
pub fn subscribe(options: &Options, subscribe: Subscribe, take: &mut Take<'_>) -> Outcome<StreamEnd> {
    let cx = crate::opening::open(options, subscribe.facts().need())?;
    // A subscription has no end at which it could warn (B11).
    for warning in crate::write_path::soon_over_now(&cx) {
        if take(StreamItem::Warning(warning)).is_break() {
            return Ok(StreamEnd::Stopped);
        }
    }
    let ended = match subscribe {
        Subscribe::Events {
            since,
            kinds,
            after,
            follow,
        } => log(&cx, after, follow, &mut |line| match wanted(&line, since)
            && is_of(line.event.kind(), &kinds)
        {
            true => take(StreamItem::Event(Box::new(LoggedEvent(line)))),
            false => ControlFlow::Continue(()),
        }),
        Subscribe::Changelog { since, after, follow } => changelog(&cx, since, after, follow, take),
        Subscribe::Conflicts { into, interval_secs } => conflicts(
            &cx,
            into.as_deref(),
            Duration::from_secs(interval_secs.max(1)),
            take,
        ),
        Subscribe::AttemptLog {
            unit,
            attempt,
            after,
            follow,
        } => attempt_log(&cx, unit.as_deref(), attempt, after, follow, take),
        Subscribe::AttemptEnd { unit } => attempt_end(&cx, unit.as_deref(), take),
        Subscribe::Units { unit, all, settle } => units(&cx, unit, all, settle, take),
    }?;
    Ok(match ended {
        ControlFlow::Continue(()) => StreamEnd::Complete,
        ControlFlow::Break(()) => StreamEnd::Stopped,
    })
}

fn wanted(line: &Stamped, since: Option<Wall>) -> bool {
    since.is_none_or(|since| line.at >= since)
}

/// Whether a type of event is among these types and groups; without any, every type is.
fn is_of(kind: &str, kinds: &[String]) -> bool {
    let is_in = |group: &String| {
        let rest = kind.strip_prefix(group.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    kinds.is_empty() || kinds.iter().any(is_in)
}

/// Passes the entries of the changelog. From the beginning, the entries that other programs wrote into its file are
/// among them, by their times.
fn changelog(
    cx: &Context,
    since: Option<Wall>,
    mut after: u64,
    follow: bool,
    take: &mut Take<'_>,
) -> Outcome<ControlFlow<()>> {
    let mut theirs = match after {
        0 => entries_of_others(cx)?,
        _ => Vec::new(),
    };
    theirs.retain(|entry| since.is_none_or(|since| entry.timestamp >= since));
    let mut theirs = theirs.into_iter().peekable();
    let mut flow = log(cx, after, false, &mut |line| {
        after = line.sequence;
        let Some(item) = work(&line).filter(|_| wanted(&line, since)) else {
            return ControlFlow::Continue(());
        };
        while let Some(entry) = theirs.next_if(|entry| entry.timestamp <= line.at) {
            take(StreamItem::Work(Box::new(entry)))?;
        }
        take(item)
    })?;
    if flow.is_continue() {
        flow = theirs.try_for_each(|entry| take(StreamItem::Work(Box::new(entry))));
    }
    if flow.is_break() || !follow {
        return Ok(flow);
    }
    log(
        cx,
        after,
        true,
        &mut |line| match work(&line).filter(|_| wanted(&line, since)) {
            Some(item) => take(item),
            None => ControlFlow::Continue(()),
        },
    )
}

/// Returns the entry of the changelog for a line of the log, if it is one.
fn work(line: &Stamped) -> Option<StreamItem> {
    let entry = serde_json::from_slice(&changelog_line(line)?).ok()?;
    Some(StreamItem::Work(Box::new(entry)))
}

/// Passes the lines of the log behind `after`, and with `follow` also later lines.
fn log(
    cx: &Context,
    mut after: u64,
    follow: bool,
    take: &mut dyn FnMut(Stamped) -> ControlFlow<()>,
) -> Outcome<ControlFlow<()>> {
    crate::write_path::view(cx)?;
    let watch = match follow {
        true => {
            let folder = cx.place.control_dir.join("events");
            Some(Watch::on(&folder).map_err(|e| refuse(Code::Invalid, e))?)
        }
        false => None,
    };
    loop {
        let mut flow = ControlFlow::Continue(());
        cx.store.events(after, &mut |line: Stamped| {
            after = line.sequence;
            flow = take(line);
            flow
        })?;
        match &watch {
            Some(watch) if flow.is_continue() => {
                watch.wait(LOOK_AGAIN).map_err(|e| refuse(Code::Invalid, e))?;
            }
            _ => return Ok(flow),
        }
    }
}

/// Passes the conflicts between worktrees, each time they differ from the last ones.
fn conflicts(
    cx: &Context,
    into: Option<&str>,
    interval: Duration,
    take: &mut Take<'_>,
) -> Outcome<ControlFlow<()>> {
    let mut watch = crate::landing::watch::watch_conflicts(cx, into)?;
    let mut shown: Option<Picture> = None;
    loop {
        let picture = watch.look()?;
        if shown.as_ref() != Some(&picture) {
            if take(StreamItem::Conflicts(Box::new(picture.clone()))).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            shown = Some(picture);
        }
        watch.wait(interval)?;
    }
}

fn attempt_log(
    cx: &Context,
    named: Option<&str>,
    attempt: Option<u32>,
    after: u64,
    follow: bool,
    take: &mut Take<'_>,
) -> Outcome<ControlFlow<()>> {
    let folder = crate::attempts::recorded_folder(cx, named, attempt)?;
    lines(&folder, after, follow, &mut || Ok(()), take)
}

/// Passes the recorded lines of an attempt behind the line `after`. With `to_the_end`, also passes new lines until the
/// attempt is over, and calls `now_and_then` about every two seconds.
fn lines(
    folder: &Path,
    after: u64,
    to_the_end: bool,
    now_and_then: &mut dyn FnMut() -> Outcome<()>,
    take: &mut Take<'_>,
) -> Outcome<ControlFlow<()>> {
    let failed = |e: std::io::Error| refuse(Code::Invalid, e);
    let (mut from, mut number) = (0, 0);
    let mut pass = |line: EventLine| {
        number += 1;
        match number > after {
            true => take(StreamItem::AttemptLine(Box::new(AttemptLine { number, line }))),
            false => ControlFlow::Continue(()),
        }
    };
    for round in 1_u32.. {
        // Checked before reading, so that the last lines are not missed.
        let over = !to_the_end || attempt::is_over(folder).map_err(failed)?;
        loop {
            let (lines, next) = attempt::follow(folder, from).map_err(failed)?;
            if next == from {
                break;
            }
            from = next;
            if lines.into_iter().try_for_each(&mut pass).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        if over {
            break;
        }
        std::thread::sleep(ATTEMPT_LOOK);
        if round % LOOKS_TO_SETTLE == 0 {
            now_and_then()?;
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Follows the last attempt of a unit until its outcome is in the log, and passes the unit as the last item.
fn attempt_end(cx: &Context, named: Option<&str>, take: &mut Take<'_>) -> Outcome<ControlFlow<()>> {
    let id = match named {
        Some(_) => find_unit(cx, &crate::write_path::view(cx)?, named)?.id,
        None => living_unit(cx, &crate::write_path::view(cx)?, None)?.id,
    };
    let mut unit = settled(cx, id.as_str())?;
    // Settling can restart a shim that died before it started its agent.
    let mut look = || settled(cx, id.as_str()).map(drop);
    let folder = attempt_folder(cx, &unit.id, unit.attempt);
    if lines(&folder, 0, true, &mut look, take)?.is_break() {
        return Ok(ControlFlow::Break(()));
    }
    // Any process may record the end of the attempt. Another one may be doing it now, so this one retries.
    while is_at_work(&unit) {
        crate::attempts::outcome::settle_unless_led(cx, &unit.id)?;
        unit = settled(cx, id.as_str())?;
        if is_at_work(&unit) {
            std::thread::sleep(SETTLE_AGAIN);
        }
    }
    let view = UnitReply::Unit(Box::new(UnitView::of(unit)));
    Ok(take(StreamItem::Units(Box::new(view))))
}

fn is_at_work(unit: &Unit) -> bool {
    matches!(unit.state, Phase::Dispatched | Phase::Running)
}

fn settled(cx: &Context, id: &str) -> Outcome<Unit> {
    let settle = UnitRequest::Settle {
        unit: Some(id.to_owned()),
        all: true,
    };
    match crate::handle::handle(cx, settle)?.reply {
        Reply::Units(UnitReply::Unit(view)) => Ok(view.unit),
        _ => Err(Box::new(Refusal::bug("a unit in the reply to its name"))),
    }
}

/// Passes the units, each time they differ from the last ones.
fn units(
    cx: &Context,
    unit: Option<String>,
    all: bool,
    settle: bool,
    take: &mut Take<'_>,
) -> Outcome<ControlFlow<()>> {
    let request = match settle {
        true => UnitRequest::Settle { unit, all },
        false => UnitRequest::Status { unit, all },
    };
    let mut shown = None;
    loop {
        let Reply::Units(reply) = crate::handle::handle(cx, request.clone())?.reply else {
            return Err(Box::new(Refusal::bug("units in the reply")));
        };
        let now = serde_json::to_value(&reply).map_err(|e| refuse(Code::Io, e))?;
        if shown.as_ref() != Some(&now) {
            if take(StreamItem::Units(Box::new(reply))).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            shown = Some(now);
        }
        std::thread::sleep(UNITS_LOOK);
    }
}
