//! Descriptions: decides which of two counts, or merges both.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use jit_core::issue_files::format::{DESCRIPTION, FoundIssue, IssueFolder};
use jit_core::issue_files::stamps::Sheet;
use jit_core::log::event::Event;
use jit_core::model::ids::IssueId;
use jit_core::model::issue::{Issue, text_digest};
use jit_core::model::time::Wall;
use jit_os::io_refusal;
use jit_store::Outcome;

use super::dating::long_ago;
use super::reverts::{is_time_of, just_after, taken_at, versions};
use super::{Context, TreeChanges};
use crate::issues::text;

/// The most texts whose parts are looked up.
const MOST_PARTS: usize = 32;

/// The result of weighing a description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weighed {
    /// The stamp decides.
    ByStamp,
    /// It is the merge of both, and later than both.
    Merged,
    /// It was made from ours and is at least this late, whatever its own stamp is.
    MadeOfOurs(Wall),
}

/// The text that a description was made from.
pub(crate) enum Origin {
    Ours,
    /// This text, from which ours was made too.
    Text(Vec<u8>),
    Unknown,
}

/// Decides how the description in a tree relates to ours.
pub(crate) fn weigh_text(
    cx: &Context,
    issues: &Path,
    (mine, sheet): (&Issue, &Sheet),
    found: &mut FoundIssue,
    folder: &IssueFolder,
    changes: &mut TreeChanges,
) -> Outcome<Weighed> {
    let unreadable = |e: io::Error| io_refusal("read", &cx.texts.folder(&mine.id), &e);
    let has = |digest: &str| cx.texts.read(&mine.id, digest).map_err(unreadable);
    let Some(theirs) = &folder.description else {
        // The named text is missing here. Unless the replica has it, it decides nothing.
        let missing = match &found.issue.text {
            Some(digest) => has(digest)?.is_none(),
            None => false,
        };
        if missing {
            take_ours((mine, sheet), found);
        }
        return Ok(Weighed::ByStamp);
    };
    let (Some(digest), Some(their_digest)) = (mine.text.clone(), found.issue.text.clone()) else {
        return Ok(Weighed::ByStamp);
    };
    let is_edited = found.edited.contains(&"text");
    let (ours_at, theirs_at) = (sheet.stamp(mine, "text"), found.sheet.stamp(&found.issue, "text"));
    let is_of_ours = is_edited && found.text_before.as_ref() == Some(&digest);
    if their_digest == digest
        || is_of_ours
            && (has(&their_digest)?.is_some()
                || crate::issues::sync::dating::is_uncommitted(
                    cx,
                    issues,
                    &mine.id,
                    DESCRIPTION,
                    &mut changes.asked,
                ))
    {
        return Ok(Weighed::ByStamp);
    }
    let Some(ours) = has(&digest)? else {
        return Ok(Weighed::ByStamp);
    };
    let is_seen = (!is_edited || theirs_at < ours_at) && has(&their_digest)?.is_some();
    if is_seen && theirs_at < ours_at {
        // Three possible causes: it was seen before, an interrupted jit did not finish writing, or a commit reverted
        // it.
        found.edited.retain(|name| *name != "text");
        if crate::issues::sync::dating::is_uncommitted(cx, issues, &mine.id, DESCRIPTION, &mut changes.asked)
        {
            changes.awaited.push(mine.id.clone());
        } else if let Some(at) = taken_back(cx, issues, mine, (&digest, &ours, ours_at), changes)?
            && !changes
                .asked
                .history
                .further_on(&cx.place, issues, (&mine.id, DESCRIPTION))
                .contains(&ours)
        {
            return Ok(Weighed::MadeOfOurs(at));
        }
    }
    if is_seen {
        return Ok(Weighed::ByStamp);
    }
    let is_new = is_edited
        && crate::issues::sync::dating::is_uncommitted(cx, issues, &mine.id, DESCRIPTION, &mut changes.asked);
    if !is_new {
        // If others continued from here to a text we know, this is an old text that was never read.
        for text in changes
            .asked
            .history
            .further_on(&cx.place, issues, (&mine.id, DESCRIPTION))
        {
            if text != *theirs && has(&text_digest(&text))?.is_some() {
                take_ours((mine, sheet), found);
                return Ok(Weighed::ByStamp);
            }
        }
    }
    // A second edit in the same worktree: this text was made from ours, which is no merge of two.
    if is_new && mine.lives_in == cx.actor.worktree_id {
        let parts = cx.texts.parts(&mine.id, &digest);
        if parts
            .map_err(|e| io_refusal("read", &cx.texts.folder(&mine.id), &e))?
            .is_empty()
        {
            return Ok(Weighed::ByStamp);
        }
    }
    let origin = match is_new {
        true => Origin::Unknown,
        // It was made from this text, although we returned to that text later.
        false if is_of_ours => Origin::Ours,
        false => origin(cx, issues, mine, (&digest, &ours, ours_at), theirs, changes)?,
    };
    let base = match origin {
        Origin::Ours => return Ok(Weighed::MadeOfOurs(just_after(ours_at))),
        Origin::Text(base) => Some(base),
        // The text that jit wrote there before the edit.
        Origin::Unknown => match found.text_before.as_deref().filter(|_| is_edited) {
            Some(before) => has(before)?,
            None => None,
        },
    };
    // If both changed the same place, an edit counts; else the later one.
    let is_later = is_edited || theirs_at > ours_at;
    let merged = base.map(|base| match is_later {
        true => text::merge(&base, &ours, theirs),
        false => text::merge(&base, theirs, &ours),
    });
    // Theirs counts as known only after it has been imported. Ours is kept because other trees may still refer to it.
    keep_met(cx, [(mine.id.clone(), ours.clone())].iter())?;
    changes.met.push((mine.id.clone(), theirs.clone()));
    if merged.as_ref().is_none_or(|(_, both)| *both) && (is_later || merged.is_some()) {
        // They cannot be merged there: the text that does not count is reported.
        let (which, other) = match is_later {
            true => ("what is here counts", &digest),
            false => ("what is elsewhere counts, being later", &their_digest),
        };
        changes.said.push(format!(
            "the description of {} was changed here and elsewhere, in the same place: {which}; the other text is in {}",
            mine.id,
            cx.texts.text_path(&mine.id, other).display()
        ));
    }
    match merged {
        None => Ok(Weighed::ByStamp),
        Some((merged, _)) if merged == *theirs => Ok(Weighed::MadeOfOurs(just_after(ours_at))),
        Some((merged, _)) if merged == ours => {
            take_ours((mine, sheet), found);
            Ok(Weighed::ByStamp)
        }
        Some((merged, _)) => {
            let both = text_digest(&merged);
            let parts = cx.texts.keep_parts(&mine.id, &both, [&digest, &their_digest]);
            parts.map_err(|e| io_refusal("write", &cx.texts.folder(&mine.id), &e))?;
            found.issue.text = Some(both);
            if !is_edited {
                found.edited.push("text");
            }
            changes.texts.push(merged);
            Ok(Weighed::Merged)
        }
    }
}

/// Returns the text that a committed description was made from. That is ours if ours is in its history, directly or
/// through a merge. Else it is the newest known text in its history, from which ours was made too.
pub(crate) fn origin(
    cx: &Context,
    issues: &Path,
    mine: &Issue,
    (digest, ours, ours_at): (&str, &[u8], Wall),
    theirs: &[u8],
    changes: &mut TreeChanges,
) -> Outcome<Origin> {
    let id = &mine.id;
    let versions = changes
        .asked
        .history
        .contents(issues, (id, DESCRIPTION), long_ago(mine));
    if versions.iter().any(|(at, text)| *at >= ours_at && text == ours) {
        return Ok(Origin::Ours);
    }
    if versions.iter().any(|(at, _)| *at >= ours_at) && has_parts(cx, id, digest, &versions)? {
        return Ok(Origin::Ours);
    }
    for (_, text) in versions {
        let known = cx.texts.read(id, &text_digest(&text));
        let known = known.map_err(|e| io_refusal("read", &cx.texts.folder(id), &e))?;
        if text != theirs && known.is_some() {
            return Ok(Origin::Text(text));
        }
    }
    Ok(Origin::Unknown)
}

/// Returns whether our text is a merge of two, and these versions have both parts. Then the author of a merge there
/// knew as much as we do.
fn has_parts(cx: &Context, id: &IssueId, digest: &str, versions: &[(Wall, Vec<u8>)]) -> Outcome<bool> {
    let mut left = vec![digest.to_owned()];
    // A part may itself be a merge of two.
    for _ in 0..MOST_PARTS {
        let Some(text) = left.pop() else {
            return Ok(true);
        };
        let parts = cx.texts.parts(id, &text);
        let parts = parts.map_err(|e| io_refusal("read", &cx.texts.folder(id), &e))?;
        if parts.is_empty() {
            return Ok(false);
        }
        let has = |part: &String| versions.iter().any(|(_, text)| text_digest(text) == *part);
        left.extend(parts.into_iter().filter(|part| !has(part)));
    }
    Ok(false)
}

/// Returns when the checked-out history replaced our text by an older one, if it did.
fn taken_back(
    cx: &Context,
    issues: &Path,
    mine: &Issue,
    (digest, text, ours_at): (&String, &[u8], Wall),
    changes: &mut TreeChanges,
) -> Outcome<Option<Wall>> {
    // An old branch has no commits since then.
    let about = Wall::from_ms(ours_at.ms().saturating_sub(1_000));
    let history = &mut changes.asked.history;
    let since = history.contents(issues, (&mine.id, DESCRIPTION), about);
    let Some(last) = since.iter().map(|(at, _)| *at).max() else {
        return Ok(None);
    };
    let all = history.contents(issues, (&mine.id, DESCRIPTION), long_ago(mine));
    let stamps = versions(changes, issues, &mine.id, long_ago(mine));
    let mut stamped = stamps
        .iter()
        .filter(|(_, before)| before.text_before.as_ref() == Some(digest))
        .peekable();
    // A hand edit has no stamp. jit may have written the text twice. A reverted text has the commit's time.
    let is_edit = stamped.peek().is_none();
    let is_known = stamped.any(|(_, before)| before.sheet.stamp(&before.issue, "text") == ours_at);
    let mut had = since.iter().filter(|(_, before)| before == text);
    let had_ours = had.any(|(at, _)| is_known || is_time_of(*at, ours_at) || (is_edit && *at >= ours_at));
    let is_taken = had_ours || has_parts(cx, &mine.id, digest, &all)?;
    Ok(is_taken.then(|| taken_at(ours_at, Some(last))))
}

/// Stores texts so that they are recognized later.
pub(crate) fn keep_met<'a>(cx: &Context, met: impl Iterator<Item = &'a (IssueId, Vec<u8>)>) -> Outcome<()> {
    let texts: Vec<(&IssueId, &[u8])> = met.map(|(id, text)| (id, text.as_slice())).collect();
    let Some((id, _)) = texts.first() else {
        return Ok(());
    };
    let kept = cx.texts.keep(&texts);
    kept.map_err(|e| io_refusal("write", &cx.texts.folder(id), &e))
}

/// Makes the long texts durable that an append's events name. Runs before the append.
pub(crate) fn keep_texts(cx: &Context, events: &[Event], texts: &[Vec<u8>]) -> Outcome<()> {
    if texts.is_empty() {
        return Ok(());
    }
    let named: HashMap<String, &[u8]> = texts.iter().map(|text| (text_digest(text), &**text)).collect();
    let wanted = events.iter().filter_map(|event| match event {
        Event::Issue { issue, .. } => Some((&issue.id, *named.get(issue.text.as_ref()?)?)),
        _ => None,
    });
    let kept = cx.texts.keep(&wanted.collect::<Vec<_>>());
    kept.map_err(|e| io_refusal("write", &cx.place.control_dir.join("issues"), &e))
}

/// Removes the text from the found version, so that it changes nothing.
fn take_ours((mine, sheet): (&Issue, &Sheet), found: &mut FoundIssue) {
    found.issue.text.clone_from(&mine.text);
    let at = sheet.stamp(mine, "text");
    found.sheet.stamps.insert("text".to_owned(), at);
    found.edited.retain(|name| *name != "text");
}
