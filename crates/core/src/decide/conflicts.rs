//! Decides which changes of conflicts the log records (H8).
//!
//! What must hold:
//!
//! - one event for each change: two units come to conflict, conflict in other paths, or do not conflict any more.
//!   However many watchers report the same, the log records it once;
//! - a new conflict is recorded at once. Other paths are recorded once a minute, and the end not within seconds of the last
//!   record of the same pair: work on a file changes them with each save;
//! - when a target is gone, all of its conflicts end;
//! - a conflict with a worktree that cannot be read just now does not end;
//! - the number of recorded pairs and paths is bounded.

use crate::decide::command::CommandReply;
use crate::decide::draft::{Decision, Draft};
use crate::log::event::Event;
use crate::log::state;
use crate::log::stop::Stop;
use crate::model::conflict::{Conflict, ConflictAction, MOST_PAIRS, Seen};
use crate::model::time::Wall;

/// So long, in milliseconds, nothing is told of other paths of the same two, and nothing of their being out of the way.
const SAME_PAIR: i64 = 60_000;
const FLIPPED: i64 = 5_000;

/// Writes down what is different from what was told before. Where nothing is, says how much is held back for now.
pub fn note(draft: &mut Draft<'_>, seen: &Seen, now: Wall) -> Result<Decision, Stop> {
    let (mut before, others): (Vec<Conflict>, Vec<Conflict>) = state::conflicts(draft.state())?
        .into_iter()
        .partition(|one| one.target == seen.target);
    before.sort_by_key(Conflict::key);
    let known = |one: &Conflict| before.iter().find(|other| other.key() == one.key());
    let mut told = before.len();
    let mut held = 0;
    let lost = others.iter().filter(|one| seen.lost.contains(&one.target));
    let mut news: Vec<(ConflictAction, Conflict)> =
        lost.map(|one| (ConflictAction::Gone, one.plain())).collect();
    for one in &before {
        let is_there = seen.conflicts.iter().any(|other| other.key() == one.key());
        let is_unknown = seen.unknown.iter().any(|name| one.is_about(name));
        if is_there || is_unknown {
            continue;
        }
        if one.was_told_within(FLIPPED, now) {
            held += 1;
        } else {
            told -= 1;
            news.push((ConflictAction::Gone, one.plain()));
        }
    }
    for one in &seen.conflicts {
        match known(one) {
            Some(before) if before.plain() == *one => {}
            Some(before) if before.was_told_within(SAME_PAIR, now) => held += 1,
            Some(_) => news.push((ConflictAction::Found, one.clone())),
            None if told < MOST_PAIRS => {
                told += 1;
                news.push((ConflictAction::Found, one.clone()));
            }
            None => {}
        }
    }
    if news.is_empty() {
        return Ok(Decision::Already(CommandReply::Conflicts(held)));
    }
    for (did, conflict) in news {
        draft.emit(Event::Conflict {
            did,
            conflict: Box::new(conflict),
        })?;
    }
    Ok(Decision::Done)
}
