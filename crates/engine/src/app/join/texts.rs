//! Descriptions: which of two counts, or what they come to together.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use jit_core::event::Event;
use jit_core::ids::IssueId;
use jit_core::issue::{Issue, text_digest};
use jit_core::issue_file::{DESCRIPTION, Folder, Found};
use jit_core::sheet::Sheet;
use jit_core::time::Wall;

use super::reverts::after_all;
use super::{App, Haul};
use crate::issues::text;
use crate::store::Outcome;
use crate::store::file::io_refusal;

/// In ms.
const DAY: i64 = 86_400_000;

/// What came of weighing a description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weighed {
    /// Its stamp tells.
    ByStamp,
    /// It is what both come to, and later than both.
    Merged,
    /// It was made out of ours, and is as late as this at least, whatever it says itself.
    MadeOfOurs(Wall),
}

/// What a description was made of.
enum Origin {
    /// Of ours, before this.
    Ours(Wall),
    /// This one, which ours was made of as well.
    Text(Vec<u8>),
    Unknown,
}

impl App {
    /// Decides what the description in a tree says beside the one we have.
    pub(super) fn weigh_text(
        &self,
        issues: &Path,
        (mine, sheet): (&Issue, &Sheet),
        found: &mut Found,
        folder: &Folder,
        haul: &mut Haul,
    ) -> Outcome<Weighed> {
        let unreadable = |e: io::Error| io_refusal("read", &self.replica.folder(&mine.id), &e);
        let has = |digest: &str| self.replica.text(&mine.id, digest).map_err(unreadable);
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
        if their_digest == digest || (is_edited && found.text_before.as_ref() == Some(&digest)) {
            return Ok(Weighed::ByStamp);
        }
        let Some(ours) = has(&digest)? else {
            return Ok(Weighed::ByStamp);
        };
        let is_seen = (!is_edited || theirs_at < ours_at) && has(&their_digest)?.is_some();
        if is_seen && theirs_at < ours_at {
            // Seen before; or whoever was writing an issue here did not come to the end of it. Or a commit took it back.
            found.edited.retain(|name| *name != "text");
            let later = made_of(haul, issues, (&mine.id, &ours), ours_at)
                .filter(|_| !self.is_uncommitted(issues, &mine.id, DESCRIPTION, haul));
            return Ok(later.map_or(Weighed::ByStamp, Weighed::MadeOfOurs));
        }
        if is_seen {
            return Ok(Weighed::ByStamp);
        }
        let is_new = is_edited && self.is_uncommitted(issues, &mine.id, DESCRIPTION, haul);
        let origin = match is_new {
            true => Origin::Unknown,
            false => self.origin(issues, mine, (&ours, ours_at), theirs, haul)?,
        };
        let base = match origin {
            Origin::Ours(last) => return Ok(Weighed::MadeOfOurs(last)),
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
        // Theirs stays in the tree, and is to be known when it is met again; ours is what others may still look for.
        self.replica
            .keep_texts(&[(&mine.id, theirs.as_slice()), (&mine.id, ours.as_slice())])
            .map_err(|e| io_refusal("write", &self.replica.folder(&mine.id), &e))?;
        if merged.as_ref().is_none_or(|(_, both)| *both) && (is_later || merged.is_some()) {
            // They cannot be brought together there: the one that does not count is told of.
            let (which, other) = match is_later {
                true => ("what is here counts", &digest),
                false => ("what is elsewhere counts, being later", &their_digest),
            };
            haul.said.push(format!(
                "the description of {} was changed here and elsewhere, in the same place: {which}; the other text is in {}",
                mine.id,
                self.replica.text_path(&mine.id, other).display()
            ));
        }
        match merged {
            None => Ok(Weighed::ByStamp),
            Some((merged, _)) if merged == *theirs => Ok(Weighed::MadeOfOurs(after_all(ours_at, ours_at))),
            Some((merged, _)) if merged == ours => {
                take_ours((mine, sheet), found);
                Ok(Weighed::ByStamp)
            }
            Some((merged, _)) => {
                found.issue.text = Some(text_digest(&merged));
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
    fn origin(
        &self,
        issues: &Path,
        mine: &Issue,
        (ours, ours_at): (&[u8], Wall),
        theirs: &[u8],
        haul: &mut Haul,
    ) -> Outcome<Origin> {
        let id = &mine.id;
        // No text is older than its issue, but a clock may have been set meanwhile.
        let since = Wall::from_ms(mine.created_at.ms().saturating_sub(DAY));
        if let Some(at) = made_of(haul, issues, (id, ours), ours_at) {
            return Ok(Origin::Ours(at));
        }
        for (_, text) in haul.history.contents(issues, (id, DESCRIPTION), since) {
            let known = self.replica.text(id, &text_digest(&text));
            let known = known.map_err(|e| io_refusal("read", &self.replica.folder(id), &e))?;
            if text != theirs && known.is_some() {
                return Ok(Origin::Text(text));
            }
        }
        Ok(Origin::Unknown)
    }

    /// Before an append: the long texts that its events name are made durable.
    pub(in crate::app) fn keep_texts(&self, events: &[Event], texts: &[Vec<u8>]) -> io::Result<()> {
        if texts.is_empty() {
            return Ok(());
        }
        let named: HashMap<String, &[u8]> = texts.iter().map(|text| (text_digest(text), &**text)).collect();
        let wanted = events.iter().filter_map(|event| match event {
            Event::Issue { issue, .. } => Some((&issue.id, *named.get(issue.text.as_ref()?)?)),
            _ => None,
        });
        self.replica.keep_texts(&wanted.collect::<Vec<_>>())
    }
}

/// Whether what is checked out has had this description since then: when it can have become another.
fn made_of(haul: &mut Haul, issues: &Path, (id, text): (&IssueId, &[u8]), since: Wall) -> Option<Wall> {
    let versions = haul.history.contents(issues, (id, DESCRIPTION), since);
    let last = versions.iter().map(|(at, _)| *at).max()?;
    let had = versions.iter().any(|(_, before)| before == text);
    had.then(|| after_all(since, last))
}

/// Nothing is said about the text.
fn take_ours((mine, sheet): (&Issue, &Sheet), found: &mut Found) {
    found.issue.text.clone_from(&mine.text);
    let at = sheet.stamp(mine, "text");
    found.sheet.stamps.insert("text".to_owned(), at);
    found.edited.retain(|name| *name != "text");
}
