//! Issues of which the log knows more than the files of any worktree (E7): no commit would ever have that.
//!
//! It comes about where somebody was killed between the log and the tree, where a worktree went away with issues that were
//! not committed, and where a file could not be written because of a conflict. `jit validate` tells of them, and writes them
//! out when it is asked to.
//!
//! What must hold:
//!
//! - where one tree has all that the log knows of an issue, it is left alone, also if that is somebody else's tree;
//! - so it is where the tip of a branch has it, of this clone or of a remote as it was last seen: in the tree it would stand
//!   in git's way;
//! - they are written into the main worktree, by whoever validates there; into another one only where there is no main one;
//! - files that cannot be read, or say what the log does not know, are left alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use jit_core::ids::{IssueId, WorktreeId};
use jit_core::issue::Issue;
use jit_core::issue_file::{Folder, Found, ISSUE, MAX_FILE, parse};
use jit_core::refusal::Code;
use jit_core::state;
use jit_core::table::{Read, Table};

use super::{App, refuse};
use crate::git::{Git, worktrees};
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
        self.leave_out_committed(common, table, homeless)
    }

    /// Those of the issues that are at the tip of no branch as the log knows them. Where there are too many to ask for, the
    /// rest is taken to be.
    fn leave_out_committed(
        &self,
        common: &Path,
        table: &dyn Table,
        mut ids: Vec<IssueId>,
    ) -> Outcome<Vec<IssueId>> {
        if ids.is_empty() {
            return Ok(ids);
        }
        let failed = |e| refuse(Code::Io, e);
        let tips = Git::in_git_dir(common)
            .args(["for-each-ref", "--format=%(objectname)", "--sort=-committerdate"])
            .arg(format!("--count={MOST_TIPS}"))
            .args(["refs/heads", "refs/remotes"])
            .run()
            .map_err(failed)?;
        let tips = String::from_utf8_lossy(&tips).into_owned();
        let tips: BTreeSet<&str> = tips.lines().collect();
        ids.truncate(MOST_ASKED / tips.len().max(1));
        let names = |id: &IssueId| {
            let file = format!(".jit/issues/{id}/{ISSUE}\n");
            tips.iter().map(|tip| format!("{tip}:{file}")).collect::<String>()
        };
        let asked: String = ids.iter().map(names).collect();
        let listed = Git::in_git_dir(common)
            .args([
                "cat-file",
                "--batch-check=%(objectname) %(objecttype) %(objectsize)",
            ])
            .stdin(asked)
            .run()
            .map_err(failed)?;
        // Most branches have the same version of a file, which is read once.
        let mut blobs: BTreeMap<String, usize> = BTreeMap::new();
        let listed = String::from_utf8_lossy(&listed).into_owned();
        for (n, line) in listed.lines().enumerate() {
            let mut words = line.split(' ');
            if let (Some(name), Some("blob"), Some(size)) = (words.next(), words.next(), words.next())
                && size.parse().is_ok_and(|size: u64| size <= MAX_FILE)
            {
                blobs.insert(name.to_owned(), n / tips.len().max(1));
            }
        }
        let unreadable = |e| refuse(Code::Io, e);
        let mut safe: BTreeSet<usize> = BTreeSet::new();
        for (blob, n) in &blobs {
            let Some(id) = ids.get(*n).filter(|_| !safe.contains(n)) else {
                continue;
            };
            let content = Git::in_git_dir(common)
                .args(["cat-file", "blob", blob])
                .run()
                .map_err(failed)?;
            let folder = Folder {
                issue: content,
                ..Folder::default()
            };
            let known = state::issue(table, id).map_err(unreadable)?;
            if let (Ok(found), Some(issue)) = (parse(id, &folder), known)
                && found.issue.updated_at >= issue.updated_at
            {
                safe.insert(*n);
            }
        }
        let mut n = 0..;
        ids.retain(|_| n.next().is_some_and(|n| !safe.contains(&n)));
        Ok(ids)
    }
}

/// So many branches are looked at, the newest, and so many files on them.
const MOST_TIPS: usize = 500;
const MOST_ASKED: usize = 20_000;

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
    if !found.problems.is_empty() || !found.is_untouched() {
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
