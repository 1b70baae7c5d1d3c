//! Descriptions: which of two counts, or what they come to together.

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
use super::{Context, Haul};
use crate::issues::text;

/// Of so many texts it is looked up what they were made of.
const MOST_PARTS: usize = 32;

/// What came of weighing a description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weighed {
    /// Its stamp tells.
    ByStamp,
    /// It is what both come to, and later than both.
    Merged,
    /// It was made out of ours, and is as late as this at least, whatever it says itself.
    MadeOfOurs(Wall),
}

/// What a description was made of.
pub(crate) enum Origin {
    Ours,
    /// This one, which ours was made of as well.
    Text(Vec<u8>),
    Unknown,
}

/// Decides what the description in a tree says beside the one we have.
pub(crate) fn weigh_text(
    cx: &Context,
    issues: &Path,
    (mine, sheet): (&Issue, &Sheet),
    found: &mut FoundIssue,
    folder: &IssueFolder,
    haul: &mut Haul,
) -> Outcome<Weighed> {
    let unreadable = |e: io::Error| io_refusal("read", &cx.replica.folder(&mine.id), &e);
    let has = |digest: &str| cx.replica.text(&mine.id, digest).map_err(unreadable);
    let Some(theirs) = &folder.description else {
        // The text that is spoken of is not here; unless we have it, nothing is said about it.
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
                    &mut haul.asked,
                ))
    {
        return Ok(Weighed::ByStamp);
    }
    let Some(ours) = has(&digest)? else {
        return Ok(Weighed::ByStamp);
    };
    let is_seen = (!is_edited || theirs_at < ours_at) && has(&their_digest)?.is_some();
    if is_seen && theirs_at < ours_at {
        // Seen before; or whoever was writing an issue here did not come to the end of it. Or a commit took it back.
        found.edited.retain(|name| *name != "text");
        if crate::issues::sync::dating::is_uncommitted(cx, issues, &mine.id, DESCRIPTION, &mut haul.asked) {
            haul.awaited.push(mine.id.clone());
        } else if let Some(at) = taken_back(cx, issues, mine, (&digest, &ours, ours_at), haul)?
            && !haul
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
        && crate::issues::sync::dating::is_uncommitted(cx, issues, &mine.id, DESCRIPTION, &mut haul.asked);
    if !is_new {
        // Where others have gone on from here to what we know, it is an old text that was never looked at.
        for text in haul
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
    // Edited once more where it was edited before: what is there was made of ours, which is no merge of two.
    if is_new && mine.lives_in == cx.actor.worktree_id {
        let parts = cx.replica.parts(&mine.id, &digest);
        if parts
            .map_err(|e| io_refusal("read", &cx.replica.folder(&mine.id), &e))?
            .is_empty()
        {
            return Ok(Weighed::ByStamp);
        }
    }
    let origin = match is_new {
        true => Origin::Unknown,
        // It was made of this text, though we came back to that later.
        false if is_of_ours => Origin::Ours,
        false => origin(cx, issues, mine, (&digest, &ours, ours_at), theirs, haul)?,
    };
    let base = match origin {
        Origin::Ours => return Ok(Weighed::MadeOfOurs(just_after(ours_at))),
        Origin::Text(base) => Some(base),
        // What jit wrote there before somebody edited it.
        Origin::Unknown => match found.text_before.as_deref().filter(|_| is_edited) {
            Some(before) => has(before)?,
            None => None,
        },
    };
    // Where both changed the same place, an edit counts, and else the later one.
    let is_later = is_edited || theirs_at > ours_at;
    let merged = base.map(|base| match is_later {
        true => text::merge(&base, &ours, theirs),
        false => text::merge(&base, theirs, &ours),
    });
    // Theirs is known when it has been taken, not before; ours is what others may still look for.
    keep_met(cx, [(mine.id.clone(), ours.clone())].iter())?;
    haul.met.push((mine.id.clone(), theirs.clone()));
    if merged.as_ref().is_none_or(|(_, both)| *both) && (is_later || merged.is_some()) {
        // They cannot be brought together there: the one that does not count is told of.
        let (which, other) = match is_later {
            true => ("what is here counts", &digest),
            false => ("what is elsewhere counts, being later", &their_digest),
        };
        haul.said.push(format!(
            "the description of {} was changed here and elsewhere, in the same place: {which}; the other text is in {}",
            mine.id,
            cx.replica.text_path(&mine.id, other).display()
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
            let parts = cx.replica.keep_parts(&mine.id, &both, [&digest, &their_digest]);
            parts.map_err(|e| io_refusal("write", &cx.replica.folder(&mine.id), &e))?;
            found.issue.text = Some(both);
            if !is_edited {
                found.edited.push("text");
            }
            haul.texts.push(merged);
            Ok(Weighed::Merged)
        }
    }
}

/// What a description that is committed was made of: of ours, if that is in its history, by a merge or before it; else of the
/// newest in its history that we know, which ours was made of too.
pub(crate) fn origin(
    cx: &Context,
    issues: &Path,
    mine: &Issue,
    (digest, ours, ours_at): (&str, &[u8], Wall),
    theirs: &[u8],
    haul: &mut Haul,
) -> Outcome<Origin> {
    let id = &mine.id;
    let versions = haul
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
        let known = cx.replica.text(id, &text_digest(&text));
        let known = known.map_err(|e| io_refusal("read", &cx.replica.folder(id), &e))?;
        if text != theirs && known.is_some() {
            return Ok(Origin::Text(text));
        }
    }
    Ok(Origin::Unknown)
}

/// Whether we made our text of two, and these have both: whoever wrote what came of them there, in a merge, knew as much.
fn has_parts(cx: &Context, id: &IssueId, digest: &str, versions: &[(Wall, Vec<u8>)]) -> Outcome<bool> {
    let mut left = vec![digest.to_owned()];
    // A part may have been made of two itself.
    for _ in 0..MOST_PARTS {
        let Some(text) = left.pop() else {
            return Ok(true);
        };
        let parts = cx.replica.parts(id, &text);
        let parts = parts.map_err(|e| io_refusal("read", &cx.replica.folder(id), &e))?;
        if parts.is_empty() {
            return Ok(false);
        }
        let has = |part: &String| versions.iter().any(|(_, text)| text_digest(text) == *part);
        left.extend(parts.into_iter().filter(|part| !has(part)));
    }
    Ok(false)
}

/// When what is checked out had our text, and came to have an older one, if it did.
fn taken_back(
    cx: &Context,
    issues: &Path,
    mine: &Issue,
    (digest, text, ours_at): (&String, &[u8], Wall),
    haul: &mut Haul,
) -> Outcome<Option<Wall>> {
    // On an old branch there is nothing since then.
    let about = Wall::from_ms(ours_at.ms().saturating_sub(1_000));
    let history = &mut haul.asked.history;
    let since = history.contents(issues, (&mine.id, DESCRIPTION), about);
    let Some(last) = since.iter().map(|(at, _)| *at).max() else {
        return Ok(None);
    };
    let all = history.contents(issues, (&mine.id, DESCRIPTION), long_ago(mine));
    let stamps = versions(haul, issues, &mine.id, long_ago(mine));
    let mut stamped = stamps
        .iter()
        .filter(|(_, before)| before.text_before.as_ref() == Some(digest))
        .peekable();
    // An edit by hand has no stamp. What jit wrote may have been the text twice; what was taken back has the commit's time.
    let is_edit = stamped.peek().is_none();
    let is_known = stamped.any(|(_, before)| before.sheet.stamp(&before.issue, "text") == ours_at);
    let mut had = since.iter().filter(|(_, before)| before == text);
    let had_ours = had.any(|(at, _)| is_known || is_time_of(*at, ours_at) || (is_edit && *at >= ours_at));
    let is_taken = had_ours || has_parts(cx, &mine.id, digest, &all)?;
    Ok(is_taken.then(|| taken_at(ours_at, Some(last))))
}

/// Texts that are to be known when they are met again.
pub(crate) fn keep_met<'a>(cx: &Context, met: impl Iterator<Item = &'a (IssueId, Vec<u8>)>) -> Outcome<()> {
    let texts: Vec<(&IssueId, &[u8])> = met.map(|(id, text)| (id, text.as_slice())).collect();
    let Some((id, _)) = texts.first() else {
        return Ok(());
    };
    let kept = cx.replica.keep_texts(&texts);
    kept.map_err(|e| io_refusal("write", &cx.replica.folder(id), &e))
}

/// Before an append: the long texts that its events name are made durable.
pub(crate) fn keep_texts(cx: &Context, events: &[Event], texts: &[Vec<u8>]) -> io::Result<()> {
    if texts.is_empty() {
        return Ok(());
    }
    let named: HashMap<String, &[u8]> = texts.iter().map(|text| (text_digest(text), &**text)).collect();
    let wanted = events.iter().filter_map(|event| match event {
        Event::Issue { issue, .. } => Some((&issue.id, *named.get(issue.text.as_ref()?)?)),
        _ => None,
    });
    cx.replica.keep_texts(&wanted.collect::<Vec<_>>())
}

/// Nothing is said about the text.
fn take_ours((mine, sheet): (&Issue, &Sheet), found: &mut FoundIssue) {
    found.issue.text.clone_from(&mine.text);
    let at = sheet.stamp(mine, "text");
    found.sheet.stamps.insert("text".to_owned(), at);
    found.edited.retain(|name| *name != "text");
}
