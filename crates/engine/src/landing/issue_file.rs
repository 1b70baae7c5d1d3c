//! What a landing says about the unit's issue, in git (E7): whoever has only the commits sees that it is done.
//!
//! What must hold:
//!
//! - where the landed tree has the issue's `issue.json`, it says there what the log will say: done, or how it was closed;
//! - an issue that has open parts is not done by what landed of it;
//! - nothing else in that file changes but the stamps of what somebody edited in it; one in which gates, the type or the state
//!   were edited, or that cannot be read, is left as it is;
//! - an issue that is in nobody's commits is not put there by a landing.

use jit_core::issue_files::format::{self, FoundIssue, ISSUE, IssueFolder};
use jit_core::log::state;
use jit_core::model::ids::IssueId;
use jit_core::model::issue::{Issue, IssueState};
use jit_core::model::refusal::Code;
use jit_core::model::time::Wall;
use jit_core::query::ready_queue;
use jit_os::clock;
use jit_store::Outcome;

use crate::landing::service::{Run, Work};
use crate::landing::trees::Entries;
use crate::refusals::failed;
use crate::refusals::refuse;

impl Run<'_> {
    /// The entries of `tree` by which it says so; none where it does, or cannot.
    pub(crate) fn closing(&self, work: &Work, tree: &str) -> Outcome<Entries> {
        let mut entries = Entries::new();
        let Some(issue) = &work.issue else {
            return Ok(entries);
        };
        let Some((mode, mut found)) = self.found_in(tree, &issue.id)? else {
            return Ok(entries);
        };
        // What somebody may not say by hand stays an edit: written by jit it would be believed.
        let is_guarded = |name: &&str| ["deleted", "gates", "state", "type"].contains(name);
        let may_write = !found.edited.iter().any(is_guarded) && !found.unstamped && found.problems.is_empty();
        if !may_write || is_closed(&found) {
            return Ok(entries);
        }
        let view = crate::write_path::view(self.cx)?;
        let unreadable = |e| refuse(Code::Io, e);
        let open = ready_queue::open_parts(&*view.table, &issue.id.key()).map_err(unreadable)?;
        if !open.is_empty() && !issue.state.is_closed() {
            // It is done after its parts: its own work lands, and that is all.
            return Ok(entries);
        }
        let sheet = state::sheet(&*view.table, &issue.id).map_err(unreadable)?;
        let known = sheet.stamp(issue, "state");
        let (closed, at) = match issue.state.is_closed() {
            true => (issue.state, known),
            false => (IssueState::Done, Wall::from_ms(clock::wall_ms()).max(known)),
        };
        found.issue.state = closed;
        found.edited.push("state");
        found.settle_all(at);
        found.issue.count_change();
        let written = self
            .repo
            .git()
            .args(["hash-object", "-w", "--stdin"])
            .stdin(format::issue_json(&found.issue, &found.sheet))
            .line()
            .map_err(failed)?;
        entries.insert(path_of(&issue.id).into_bytes(), Some((mode, written)));
        Ok(entries)
    }

    /// Whether this tree says that the issue is closed.
    pub(crate) fn says_closed(&self, tree: &str, id: &IssueId) -> Outcome<bool> {
        let found = self.found_in(tree, id)?;
        Ok(found.is_some_and(|(_, found)| is_closed(&found)))
    }

    /// The issue as a tree has it.
    pub(crate) fn issue_in(&self, tree: &str, id: &IssueId) -> Outcome<Option<Issue>> {
        let found = self.found_in(tree, id)?;
        Ok(found.map(|(_, found)| found.issue))
    }

    /// What a tree says about an issue, and the mode of the file that does.
    fn found_in(&self, tree: &str, id: &IssueId) -> Outcome<Option<(String, FoundIssue)>> {
        let listed = self
            .repo
            .git()
            .args(["ls-tree", "-z", "--full-tree", tree, "--", &path_of(id)])
            .run()
            .map_err(failed)?;
        let Some((mode, object)) = file_in(&listed) else {
            return Ok(None);
        };
        let blob = self.repo.git().args(["cat-file", "blob", &object]).run();
        let folder = IssueFolder {
            issue: blob.map_err(failed)?,
            ..IssueFolder::default()
        };
        let found = format::parse(id, &folder).ok();
        Ok(found.map(|found| (mode, found)))
    }
}

fn path_of(id: &IssueId) -> String {
    format!(".jit/issues/{id}/{ISSUE}")
}

fn is_closed(found: &FoundIssue) -> bool {
    found.issue.state.is_closed() || found.sheet.deleted
}

/// Mode and object of the one file that `git ls-tree -z` told of.
fn file_in(listed: &[u8]) -> Option<(String, String)> {
    let line = std::str::from_utf8(listed.strip_suffix(b"\0")?).ok()?;
    let words: Vec<&str> = line.split_once('\t')?.0.split(' ').collect();
    match words.as_slice() {
        [mode @ ("100644" | "100755"), "blob", object] => Some(((*mode).to_owned(), (*object).to_owned())),
        _ => None,
    }
}
