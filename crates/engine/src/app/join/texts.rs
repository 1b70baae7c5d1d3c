//! Descriptions: which of two counts, or what they come to together.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use jit_core::event::Event;
use jit_core::issue::{Issue, text_digest};
use jit_core::issue_file::{Folder, Found};
use jit_core::sheet::Sheet;
use jit_core::time::Wall;

use super::dating::was_committed;
use super::{App, Haul};
use crate::issues::text;
use crate::store::Outcome;
use crate::store::file::io_refusal;

impl App {
    /// Decides what the description in a tree says beside the one we have. True when it was merged with ours.
    pub(super) fn weigh_text(
        &self,
        (mine, sheet): (&Issue, &Sheet),
        found: &mut Found,
        folder: &Folder,
        haul: &mut Haul,
    ) -> Outcome<bool> {
        let unreadable = |e: io::Error| io_refusal("read", &self.replica.folder(&mine.id), &e);
        let has = |digest: &str| self.replica.text(&mine.id, digest).map_err(unreadable);
        let Some(theirs) = &folder.description else {
            // The text that is spoken of is not here; unless we have it, nothing is said about it.
            let missing = match &found.issue.text {
                Some(digest) => has(digest)?.is_none(),
                None => false,
            };
            if missing {
                found.issue.text.clone_from(&mine.text);
                let at = sheet.stamp(mine, "text");
                found.sheet.stamps.insert("text".to_owned(), at);
            }
            return Ok(false);
        };
        if !found.edited.contains(&"text") || found.issue.text == mine.text {
            return Ok(false);
        }
        let behind = found.sheet.stamp(&found.issue, "text") < sheet.stamp(mine, "text");
        if behind
            && let Some(digest) = &found.issue.text
            && has(digest)?.is_some()
        {
            // Seen before: whoever was writing an issue here did not come to the end of it.
            found.edited.retain(|name| *name != "text");
            return Ok(false);
        }
        let (before, Some(digest)) = (&found.text_before, &mine.text) else {
            return Ok(false);
        };
        let Some(ours) = has(digest)?.filter(|_| before.as_ref() != Some(digest)) else {
            return Ok(false);
        };
        let keep = |e: io::Error| io_refusal("write", &self.replica.folder(&mine.id), &e);
        let base = before.as_deref().map(has).transpose()?.flatten();
        let merged = base.map(|base| text::merge(&base, &ours, theirs));
        if merged.as_ref().is_none_or(|(_, both)| *both) {
            // They cannot be brought together there: the edit stands, and the other one is kept and told of.
            self.replica
                .keep_texts(&[(&mine.id, ours.as_slice())])
                .map_err(keep)?;
            haul.said.push(format!(
                "the description of {} was changed here and elsewhere, in the same place: what is here counts; the other text is in {}",
                mine.id,
                self.replica.text_path(&mine.id, digest).display()
            ));
        }
        let Some((merged, _)) = merged.filter(|(merged, _)| merged != theirs) else {
            return Ok(false);
        };
        // Theirs stays in the tree, and is to be known when it is met again.
        self.replica
            .keep_texts(&[(&mine.id, theirs.as_slice())])
            .map_err(keep)?;
        found.issue.text = Some(text_digest(&merged));
        haul.texts.push(merged);
        Ok(true)
    }

    /// A description that we have never seen, in a history that has ours as well, was made out of ours: by a merge, or
    /// after it. It counts as later, though it should say that it is older.
    pub(super) fn prefer_text_made_of_ours(
        &self,
        issues: &Path,
        (mine, sheet): (&Issue, &Sheet),
        found: &mut Found,
        folder: &Folder,
        haul: &mut Haul,
    ) -> Outcome<()> {
        let (ours_at, theirs_at) = (sheet.stamp(mine, "text"), found.sheet.stamp(&found.issue, "text"));
        let (Some(ours), Some(theirs)) = (&mine.text, &found.issue.text) else {
            return Ok(());
        };
        if folder.description.is_none()
            || ours == theirs
            || found.edited.contains(&"text")
            || theirs_at > ours_at
        {
            return Ok(());
        }
        let unreadable = |e: io::Error| io_refusal("read", &self.replica.folder(&mine.id), &e);
        let text = |digest: &str| self.replica.text(&mine.id, digest).map_err(unreadable);
        if text(theirs)?.is_none()
            && let Some(ours) = text(ours)?
            && was_committed(issues, &mine.id, ours, ours_at, haul)
        {
            let at = Wall::from_ms(ours_at.ms().saturating_add(1));
            found.sheet.stamps.insert("text".to_owned(), at);
            found.issue.updated_at = found.issue.updated_at.max(at);
        }
        Ok(())
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
