//! Issues of which the log knows more than the files of any worktree (E7): no commit would ever have that.
//!
//! It comes about where somebody was killed between the log and the tree, where a worktree went away with issues that were
//! not committed, and where a file could not be written because of a conflict. `jit validate` writes them out.
//!
//! What must hold:
//!
//! - where one tree has all that the log knows of an issue, it is left alone, also if that is somebody else's tree;
//! - they are written into the main worktree, by whoever validates there; into another one only where there is no main one;
//! - files that cannot be read, or say what the log does not know, are left alone.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use jit_core::ids::{IssueId, WorktreeId};
use jit_core::issue::Issue;
use jit_core::issue_file::Found;
use jit_core::refusal::Code;
use jit_core::state;
use jit_core::table::{Read, Table};

use super::{App, refuse};
use crate::git::worktrees;
use crate::issues::tree;
use crate::store::Outcome;
use crate::worktree::identity;

impl App {
    /// The issues among these that no tree has, where this is the tree that should.
    pub(super) fn homeless(&self, table: &dyn Table, issues: &[Issue]) -> Outcome<Vec<IssueId>> {
        let (Some(common), Some(root)) = (&self.place.common_dir, &self.place.worktree_root) else {
            return Ok(Vec::new());
        };
        let all = worktrees::list(common).map_err(|e| refuse(Code::Io, e))?;
        let main = all.first().and_then(|entry| entry.root.as_ref());
        let projects = self
            .place
            .local_jit
            .as_ref()
            .is_some_and(|tree| *tree != self.place.control_dir);
        if !projects || main.is_some_and(|main| main != root) {
            return Ok(Vec::new());
        }
        let mut by_id: HashMap<WorktreeId, usize> = HashMap::new();
        let mut trees: Vec<PathBuf> = Vec::new();
        for entry in all {
            let Some(issues) = entry.root.and_then(|root| tree::issues_dir(&root.join(".jit"))) else {
                continue;
            };
            if let Some(known) = identity::peek(&entry.git_dir) {
                by_id.insert(known.worktree_id, trees.len());
            }
            trees.push(issues);
        }
        let mut homeless = Vec::new();
        for issue in issues {
            let home = issue.lives_in.as_ref().and_then(|id| by_id.get(id)).copied();
            let mut order = home
                .into_iter()
                .chain((0..trees.len()).filter(|n| Some(*n) != home));
            let has = |n: usize| is_in(table, &trees[n], issue);
            let mut found = false;
            while !found && let Some(n) = order.next() {
                found = has(n).map_err(|e| refuse(Code::Io, e))?;
            }
            if !found {
                homeless.push(issue.id.clone());
            }
        }
        Ok(homeless)
    }
}

/// Whether a tree has all that is known of an issue, or something that is to be left alone.
fn is_in(table: &dyn Table, issues: &std::path::Path, issue: &Issue) -> Read<bool> {
    let folder = match tree::load(issues, &issue.id) {
        Ok(Some(folder)) if !folder.issue.is_empty() => folder,
        Ok(_) => return Ok(false),
        Err(_) => return Ok(true),
    };
    let Ok(found) = tree::read(issues, &issue.id, &folder) else {
        return Ok(true);
    };
    if !found.problems.is_empty() || !found.edited.is_empty() {
        return Ok(true);
    }
    let said: BTreeSet<&str> = found.comments.iter().map(|one| one.id.as_str()).collect();
    let comments = state::comments(table, &issue.id)?;
    Ok(says_the_same(&found, issue) && comments.iter().all(|one| said.contains(one.id.as_str())))
}

/// Whether the fields are the same, whenever they were written.
fn says_the_same(found: &Found, issue: &Issue) -> bool {
    let set = |ids: &[IssueId]| ids.iter().map(IssueId::key).collect::<BTreeSet<_>>();
    let labels = |issue: &Issue| issue.labels.iter().cloned().collect::<BTreeSet<_>>();
    let there = &found.issue;
    !found.sheet.deleted
        && there.title == issue.title
        && there.kind == issue.kind
        && there.state == issue.state
        && there.priority == issue.priority
        && there.parent == issue.parent
        && there.actor == issue.actor
        && there.blocked == issue.blocked
        && there.pivot == issue.pivot
        && there.gates == issue.gates
        && there.text == issue.text
        && labels(there) == labels(issue)
        && set(&there.depends_on) == set(&issue.depends_on)
}
