//! Keeps the log, the replica and the trees in agreement: changes in a tree are imported, changes in the log are
//! written out.
//!
//! What must hold:
//!
//! - An edit by git or by hand is never overwritten. Unknown content is imported first, or left alone.
//! - Checking a tree in which nothing has changed writes nothing and reads no issue.
//! - A file that cannot be read as an issue blocks no command, and is not overwritten.
//! - A hand edit is dated by its file's write time; a committed edit by its commit. So checking out an old commit
//!   reverts nothing, and neither does an edit that had to wait.
//! - While another agent holds an issue, hand edits of it wait until the lease ends. Changes that git brought do not
//!   wait.
//! - A value that was made from ours in git is later than ours, whatever the commit times are. They count in seconds,
//!   and rewriting commits moves them.
//! - Of two descriptions made from a third, both changes stay.
//! - A description is weighed against the one it would replace. If another process wrote a new one meanwhile, it is
//!   weighed again.
//! - Content that counts only once it is committed is checked again then, although its files do not change.

pub mod dating;
pub mod guarding;
pub mod history;
pub mod projection;
pub mod reverts;
pub mod texts;
pub mod tree_changes;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jit_core::decide::command::{Command, CommandReply as Decided};
use jit_core::issue_files::format::FoundIssue;
use jit_core::log::state;
use jit_core::model::ids::{IssueId, IssuePrefix};
use jit_core::model::policy::Policy;
use jit_core::model::refusal::Code;
use jit_core::query::ready_queue;
use jit_os::{clock, io_refusal};
use jit_store::{Outcome, View};

use crate::api::facts::{Facts, TreeScope};
use crate::context::Context;
use crate::issues::seen::{self, Depth, Since, Sweep};
use crate::issues::tree::{self, Unsound};
use crate::refusals::refuse;
use crate::worktree_identity::identity::file_mode;
use crate::write_path::WriteOptions;
use dating::Standing;
use guarding::is_done_by_hand;
use history::History;

/// The time a command waits for the lock to import a tree. Reading continues without it; the next command imports.
const ASIDE: Duration = Duration::from_millis(500);

/// The time a writer waits for a git that a killed landing left in this checkout. A reader does not wait.
const FOR_GIT: Duration = Duration::from_secs(1);

/// The most issues that one append imports.
const AT_ONCE: usize = 200;

/// The most times an issue is weighed again because another process changes its description meanwhile.
const MOST_TRIES: usize = 5;

/// The reason for checking a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    Reading,
    Writing,
    /// A user or a caller asked for exactly this.
    Asked,
}

impl Why {
    /// Returns how long to wait for the lock.
    fn wait(self) -> Duration {
        match self {
            Self::Reading | Self::Writing => ASIDE,
            Self::Asked => Duration::MAX,
        }
    }
}

/// Issues found in a tree, with the long texts that are new.
#[derive(Default)]
pub(crate) struct TreeChanges {
    found: Vec<FoundIssue>,
    texts: Vec<Vec<u8>>,
    unsound: Vec<(IssueId, Unsound)>,
    /// Lines that were skipped while reading.
    passed_over: Vec<(IssueId, Unsound)>,
    /// Issues that a merge brought back after a deletion, without all of their files.
    brought_back: Vec<FoundIssue>,
    /// Issues with hand edits that no command would have made, or that a later change overrules.
    held_back: Vec<FoundIssue>,
    /// Messages for the user about the imported content.
    said: Vec<String>,
    /// Descriptions that were weighed: they stay in the tree and must be recognized later.
    met: Vec<(IssueId, Vec<u8>)>,
    /// Issues with an old uncommitted copy here: once committed, the copy may be later than ours.
    awaited: Vec<IssueId>,
    /// Issues to read again at the next check.
    again: Vec<IssueId>,
    asked: Asked,
}

/// Git's answers during one check, however many appends it takes.
#[derive(Default)]
pub(crate) struct Asked {
    /// The caller only reads: unclear edits can wait.
    is_reader: bool,
    /// Issue files that differ from the committed ones; git is asked at most once.
    uncommitted: Option<BTreeMap<String, Standing>>,
    /// The number of times git was asked for the time of a commit.
    times: usize,
    /// Changes by commits; git is asked when a copy differs from ours.
    history: History,
    /// The number of issues that a commit reverted.
    taken_back: usize,
}

impl TreeChanges {
    fn put_back(&mut self, found: FoundIssue) {
        let id = &found.issue.id;
        self.said.push(format!(
            "files of {id} that went with its deletion are put back here, as it is there again: git add .jit/issues/{id}"
        ));
        self.brought_back.push(found);
    }
}

/// The result of importing a tree.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    issues: usize,
    /// The number of issues that had to be read.
    looked_at: usize,
    left_alone: Vec<Unsound>,
    /// Issues to read again at the next check, changed or not.
    again: Vec<IssueId>,
    /// Issues to read again when git has moved, changed or not.
    awaited: Vec<IssueId>,
    warnings: Vec<String>,
    /// Messages about content that was not imported unchanged.
    said: Vec<String>,
}

impl Joined {
    /// Combines both, with each message once.
    fn and(mut self, other: Self) -> Self {
        self.issues += other.issues;
        self.looked_at += other.looked_at;
        for (all, more) in [(&mut self.warnings, other.warnings), (&mut self.said, other.said)] {
            all.extend(
                more.into_iter()
                    .filter(|one| !all.contains(one))
                    .collect::<Vec<_>>(),
            );
        }
        self
    }

    fn into_messages(mut self) -> Vec<String> {
        self.warnings.append(&mut self.said);
        self.warnings
    }
}

/// Imports the changes of this tree, as far as a request needs them. A failure is reported and does not stop the
/// request.
///
/// Checking thousands of issues takes longer than listing them. A request that changes nothing is answered by
/// `answer` meanwhile, and that answer is returned if nothing had changed.
pub(crate) fn sync_tree<T>(
    cx: &Context,
    facts: &Facts,
    answer: impl FnOnce() -> T,
) -> (Vec<String>, Option<T>) {
    let wait = match facts.writes && !matches!(facts.tree, TreeScope::Nothing) {
        true => FOR_GIT,
        false => Duration::ZERO,
    };
    let Some((git_dir, issues)) = tree(cx, wait) else {
        return (Vec::new(), None);
    };
    let why = match facts.writes {
        true => Why::Writing,
        false => Why::Reading,
    };
    let mut early = None;
    let outcome = match &facts.tree {
        how @ (TreeScope::All | TreeScope::Texts) => {
            let depth = match how {
                TreeScope::Texts => Depth::Texts,
                _ => Depth::Fields,
            };
            join_seen_and(cx, &git_dir, &issues, depth, why, || {
                if !facts.writes {
                    early = Some(answer());
                }
            })
        }
        TreeScope::IfMoved if seen::git_moved(&git_dir) => {
            join_seen_and(cx, &git_dir, &issues, Depth::Fields, why, || ())
        }
        TreeScope::Named(names) if seen::git_moved(&git_dir) => {
            let all = join_seen_and(cx, &git_dir, &issues, Depth::Fields, why, || ());
            // A sweep reads the changes since the last one, and the last one may have been too early.
            all.and_then(|all| Ok(all.and(join_named(cx, &issues, names, why)?)))
        }
        TreeScope::Nothing | TreeScope::IfMoved => return (Vec::new(), None),
        TreeScope::Named(names) => join_named(cx, &issues, names, why),
    };
    match outcome {
        Ok(joined) if joined.looked_at == 0 => (joined.into_messages(), early),
        Ok(joined) => (joined.into_messages(), None),
        Err(refusal) if refusal.code == Code::NotInitialized => (Vec::new(), None),
        Err(refusal) => {
            let warning = format!(
                "what changed in {} could not be taken notice of: {}",
                issues.display(),
                refusal.message
            );
            (vec![warning], None)
        }
    }
}

/// Imports all changes of this tree, as far as possible now. Returns messages about content that was not imported
/// unchanged.
pub(crate) fn notice_tree(cx: &Context) -> Vec<String> {
    look_at_tree(cx).0
}

/// Imports the changes of this tree if git has moved since the last check. Called before a landing that no request
/// started.
pub(crate) fn sync_if_git_moved(cx: &Context) {
    if let Some((git_dir, issues)) = tree(cx, FOR_GIT)
        && seen::git_moved(&git_dir)
    {
        let _ = join_seen_and(cx, &git_dir, &issues, Depth::Fields, Why::Writing, || ());
    }
}

/// Does the same as `notice_tree`, and also returns the files that were left alone.
pub(crate) fn look_at_tree(cx: &Context) -> (Vec<String>, Vec<Unsound>) {
    let joined = tree(cx, Duration::ZERO)
        .map(|(git_dir, issues)| join_seen_and(cx, &git_dir, &issues, Depth::Texts, Why::Writing, || ()));
    match joined {
        Some(Ok(joined)) => (joined.said, joined.left_alone),
        _ => Default::default(),
    }
}

/// Returns this worktree's git directory and folder of issues, if both exist. `None` while the checkout only tries a
/// landing: an issue is not done before its work has landed.
pub(crate) fn tree(cx: &Context, wait: Duration) -> Option<(PathBuf, PathBuf)> {
    let issues = tree::issues_dir(cx.place.local_jit.as_deref()?)?;
    if !cx.followers.is_checkout_settled(cx, wait) {
        return None;
    }
    let git_dir = cx
        .place
        .git_dir
        .clone()
        .unwrap_or_else(|| cx.place.control_dir.clone());
    Some((git_dir, issues))
}

/// Imports everything that is in this tree and not in the log. Returns the number of new or changed issues, and the
/// files that could not be read.
pub fn join_tree(cx: &Context) -> Outcome<(usize, Vec<String>)> {
    let Some((git_dir, issues)) = tree(cx, FOR_GIT) else {
        return Ok((0, Vec::new()));
    };
    let depth = Depth::Texts;
    let joined = join_since(cx, Since::Ever, (&git_dir, &issues), depth, Why::Asked, || ())?;
    Ok((joined.issues, joined.into_messages()))
}

/// Imports the issues of this tree that the log does not have; returns their number.
pub(crate) fn join_unknown(cx: &Context) -> Outcome<usize> {
    let Some((_, issues)) = tree(cx, Duration::ZERO) else {
        return Ok(0);
    };
    let view = crate::write_path::view(cx)?;
    let (mut ids, _) = tree::names(&issues).map_err(|e| io_refusal("read", &issues, &e))?;
    ids.retain(|id| !state::is_known(&*view.table, id).unwrap_or(false));
    Ok(join_ids_in(cx, view, &issues, &ids, Why::Asked)?.issues)
}

/// Imports the changes since the last check. Runs `meanwhile` during a long check by other threads.
fn join_seen_and(
    cx: &Context,
    git_dir: &Path,
    issues: &Path,
    depth: Depth,
    why: Why,
    meanwhile: impl FnOnce(),
) -> Outcome<Joined> {
    join_since(cx, Since::LastLook, (git_dir, issues), depth, why, meanwhile)
}

fn join_since(
    cx: &Context,
    since: Since,
    (git_dir, issues): (&Path, &Path),
    depth: Depth,
    why: Why,
    meanwhile: impl FnOnce(),
) -> Outcome<Joined> {
    let read = |e: io::Error| io_refusal("read", issues, &e);
    let sweep = Sweep::begin(since, git_dir, issues, depth, clock::wall_ns());
    if sweep.is_long() {
        meanwhile();
    }
    let mut looked = sweep.finish().map_err(read)?;
    let mut joined = join_ids(cx, issues, &looked.changed, why)?;
    joined.looked_at = looked.changed.len();
    for id in &joined.awaited {
        looked.is_news |= looked.seen.await_commit(git_dir, id);
    }
    for id in &joined.again {
        looked.is_news |= looked.seen.forget(id);
    }
    if looked.is_news {
        // A failure to save costs time, not correctness.
        let _ = looked.seen.save(git_dir, file_mode(&cx.place.shared));
    }
    Ok(joined)
}

fn join_named(cx: &Context, issues: &Path, names: &[IssuePrefix], why: Why) -> Outcome<Joined> {
    let view = crate::write_path::view(cx)?;
    let mut ids = Vec::new();
    for name in names {
        match state::resolve(&*view.table, name) {
            Ok(issue) => ids.push(issue.id),
            // The issue may be in the tree alone.
            Err(_) => ids.extend(name.as_str().parse::<IssueId>().ok()),
        }
    }
    join_ids_in(cx, view, issues, &ids, why)
}

fn join_ids(cx: &Context, issues: &Path, ids: &[IssueId], why: Why) -> Outcome<Joined> {
    if ids.is_empty() {
        return Ok(Joined::default());
    }
    join_ids_in(cx, crate::write_path::view(cx)?, issues, ids, why)
}

/// Imports content of these issues' files that is not in the log. `view` must be fresh. Each append uses its own
/// view, and a description that another process changed meanwhile is weighed again.
pub(crate) fn join_ids_in(
    cx: &Context,
    view: View,
    issues: &Path,
    ids: &[IssueId],
    why: Why,
) -> Outcome<Joined> {
    let mut joined = Joined::default();
    let mut asked = Asked {
        is_reader: why == Why::Reading,
        ..Asked::default()
    };
    let mut view = Some(view);
    let mut left = ids.to_vec();
    for _ in 0..MOST_TRIES {
        let mut outdated = Vec::new();
        for some in left.chunks(AT_ONCE) {
            let view = match view.take() {
                Some(view) => view,
                None => crate::write_path::view(cx)?,
            };
            let mut changes = all_tree_changes(cx, &view, issues, some, &mut asked)?;
            let policy = crate::issues::sync::guarding::hold_back(cx, &view, &mut changes)?;
            outdated.extend(bring_in(cx, changes, policy.as_ref(), why, &mut joined)?);
        }
        left = outdated;
        if left.is_empty() {
            break;
        }
    }
    // Other processes keep changing these descriptions: the next check tries again.
    joined.again.append(&mut left);
    Ok(joined)
}

fn all_tree_changes(
    cx: &Context,
    view: &View,
    issues: &Path,
    some: &[IssueId],
    asked: &mut Asked,
) -> Outcome<TreeChanges> {
    let mut changes = TreeChanges {
        asked: std::mem::take(asked),
        ..TreeChanges::default()
    };
    let mut ids = some.to_vec();
    let mut next = 0;
    while let Some(id) = ids.get(next).cloned() {
        crate::issues::sync::tree_changes::find_tree_changes(cx, &*view.table, issues, &id, &mut changes)?;
        // An issue that became done together with its parts is judged with them: they are read too.
        if changes
            .found
            .last()
            .is_some_and(|found| found.issue.id == id && is_done_by_hand(found))
        {
            let parts = ready_queue::open_parts(&*view.table, &id.key()).map_err(|e| refuse(Code::Io, e))?;
            ids.extend(
                parts
                    .into_iter()
                    .filter(|part| !ids.contains(part))
                    .collect::<Vec<_>>(),
            );
        }
        next += 1;
    }
    *asked = std::mem::take(&mut changes.asked);
    Ok(changes)
}

/// Appends the found changes. Returns the issues whose description was changed meanwhile: nothing of those was
/// imported.
fn bring_in(
    cx: &Context,
    mut changes: TreeChanges,
    policy: Option<&Policy>,
    why: Why,
    joined: &mut Joined,
) -> Outcome<Vec<IssueId>> {
    for (what, all) in [
        ("left alone", &changes.unsound),
        ("passed over, the rest counts", &changes.passed_over),
    ] {
        if let Some((_, first)) = all.first() {
            let more = match all.len() {
                1 => String::new(),
                many => format!(" (and {} more)", many - 1),
            };
            joined
                .warnings
                .push(format!("{what}: {first}{more}; jit validate tells all"));
        }
    }
    let unsound = changes.unsound.iter().chain(&changes.passed_over);
    joined.again.extend(unsound.map(|(id, _)| id.clone()));
    let left_alone = std::mem::take(&mut changes.unsound).into_iter();
    joined.left_alone.extend(left_alone.map(|(_, unsound)| unsound));
    joined.again.append(&mut changes.again);
    joined.awaited.append(&mut changes.awaited);
    joined.said.append(&mut changes.said);
    let mut quiet = Vec::new();
    for (found, project) in [
        (changes.found, false),
        (changes.brought_back, true),
        // The tree must not keep content that does not hold.
        (changes.held_back, true),
    ] {
        if found.is_empty() {
            continue;
        }
        let options = WriteOptions {
            texts: &changes.texts,
            met: &changes.met,
            project,
            aside: Some(why.wait()),
            policy,
            ..WriteOptions::default()
        };
        let command = Command::JoinIssues(found);
        let done = crate::write_path::transact_as(cx, None, &command, options)?;
        joined.said.extend(done.notices);
        let Decided::Joined(ids) = done.reply else {
            continue;
        };
        joined.issues += ids.len();
        let Command::JoinIssues(mut found) = command else {
            continue;
        };
        let ids: BTreeSet<&str> = ids.iter().map(IssueId::as_str).collect();
        found.retain(|found| !ids.contains(found.issue.id.as_str()));
        quiet.append(&mut found);
    }
    let outdated = outdated(cx, quiet)?;
    changes.met.retain(|(id, _)| !outdated.contains(id));
    crate::issues::sync::texts::keep_met(cx, changes.met.iter())?;
    Ok(outdated)
}

/// Returns the issues of which nothing was imported because their descriptions had changed.
fn outdated(cx: &Context, quiet: Vec<FoundIssue>) -> Outcome<Vec<IssueId>> {
    if quiet.is_empty() {
        return Ok(Vec::new());
    }
    let unreadable = |e| refuse(Code::Io, e);
    let table = crate::write_path::view(cx)?.table;
    let mut outdated = Vec::new();
    for found in quiet {
        let id = &found.issue.id;
        if let Some(mine) = state::issue_or_tombstone(&*table, id).map_err(unreadable)? {
            let sheet = state::sheet(&*table, id).map_err(unreadable)?;
            if found.is_outdated((&mine, &sheet)) {
                outdated.push(found.issue.id);
            }
        }
    }
    Ok(outdated)
}
