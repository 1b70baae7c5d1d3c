//! Keeping the log, the replica and the trees together: what changed in a tree is brought in, what changed in the log is
//! written out.
//!
//! What must hold:
//!
//! - an edit by git or by hand is never written over: what is not known is brought in first, or left alone;
//! - looking at a tree in which nothing has changed writes nothing and reads no issue;
//! - a file that cannot be read as an issue is in nobody's way, and is not written over either;
//! - an edit by hand counts as made when the file was written, and one that is committed as made then: an old commit that is
//!   checked out takes nothing back, nor does an edit that had to wait;
//! - what somebody else holds is changed by nobody's edit before that has ended, but by what git brought;
//! - what was made out of ours in git is later than ours, whatever the times of commits say: they count in seconds, and whoever
//!   writes commits anew moves them;
//! - of two descriptions that were made out of a third, both changes stay;
//! - a description is weighed against the one that it would replace: where somebody wrote another meanwhile, it is weighed again;
//! - what counts only when it is committed is looked at again then, though its files do not change.

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

use crate::api::Request;
use crate::context::Context;
use crate::issues::seen::{self, Depth, Since, Sweep};
use crate::issues::tree::{self, Unsound};
use crate::refusals::refuse;
use crate::write_path::Kept;
use dating::Standing;
use guarding::is_done_by_hand;
use history::History;

/// How long a command waits for the lock to take notice of a tree. Reading goes on without; the next command will see.
const ASIDE: Duration = Duration::from_millis(500);

/// How long whoever writes waits for a git that a killed landing left in this checkout. Who only reads does not.
const FOR_GIT: Duration = Duration::from_secs(1);

/// So many issues are brought in by one append at most.
const AT_ONCE: usize = 200;

/// So often an issue is weighed anew whose description somebody else changes meanwhile.
const MOST_TRIES: usize = 5;

/// What a tree is looked at for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    Reading,
    Writing,
    /// Somebody asked for just that.
    Asked,
}

impl Why {
    /// How long is waited for the lock.
    fn wait(self) -> Duration {
        match self {
            Self::Reading | Self::Writing => ASIDE,
            Self::Asked => Duration::MAX,
        }
    }
}

/// How much of the tree a request should have looked at.
enum Look {
    Nothing,
    /// Only if git has moved.
    IfMoved,
    /// These, by name.
    Named(Vec<IssuePrefix>),
    All,
    /// And their long texts.
    Texts,
}

fn look(request: &Request) -> Look {
    match request {
        Request::Acquire { .. }
        | Request::Next { .. }
        | Request::Claims { .. }
        | Request::History { .. }
        | Request::DefineGates { .. }
        | Request::UndefineGate { .. }
        | Request::ListGates { issue: None }
        | Request::Commands
        | Request::Trust { .. }
        | Request::Revoke
        | Request::Verify { .. }
        | Request::Renew { .. }
        | Request::Release { .. }
        | Request::Transfer { .. }
        | Request::ForceEvict { .. } => Look::IfMoved,
        Request::CreateUnit(asked) => Look::Named(asked.what.parse().into_iter().collect()),
        // They have nothing to do with issues.
        Request::UnitStatus { .. }
        | Request::UnitEnv { .. }
        | Request::RetryUnit { .. }
        | Request::StopUnit { .. }
        | Request::Unpark { .. }
        | Request::NotifyTest
        | Request::UnitDiff { .. }
        | Request::Workflows { .. }
        | Request::WorkflowStatus { .. }
        | Request::Landings { .. }
        | Request::PruneUnits { .. }
        | Request::StartSession(_)
        | Request::BeatSession { .. }
        | Request::EndSession { .. }
        | Request::ListSessions { .. }
        | Request::ShowSession { .. }
        | Request::PruneSessions
        | Request::LockAcquire { .. }
        | Request::LockCheck { .. }
        | Request::LockExtend { .. }
        | Request::LockRelease { .. }
        | Request::LockList
        | Request::LockCleanup
        | Request::Rescue(_)
        | Request::Conflicts { .. } => Look::Nothing,
        Request::Merge(_) | Request::Finish { .. } | Request::Dispatch(_) | Request::Handoff(_) => {
            Look::IfMoved
        }
        Request::CreateIssue(create) => {
            let ids = create.id.iter().filter_map(|id| id.as_str().parse().ok());
            Look::Named(ids.collect())
        }
        Request::RestoreIssue { issue } => Look::Named(issue.as_str().parse().into_iter().collect()),
        Request::ChangeIssue { issue, .. }
        | Request::DeleteIssue { issue, .. }
        | Request::Comment { issue, .. }
        | Request::RequireGate { issue, .. }
        | Request::RunGates { issue, .. }
        | Request::JudgeGate { issue, .. }
        | Request::ListGates { issue: Some(issue) }
        | Request::ShowIssue { issue } => Look::Named(vec![issue.clone()]),
        Request::Search { .. } | Request::Export => Look::Texts,
        Request::ListIssues { .. }
        | Request::Ready { .. }
        | Request::Blocked
        | Request::Progress { .. }
        | Request::Status
        | Request::Graph { .. }
        | Request::DepTree { .. }
        | Request::Import(_) => Look::All,
    }
}

/// Issues as found in a tree, with the long texts that are new.
#[derive(Default)]
pub(crate) struct Haul {
    found: Vec<FoundIssue>,
    texts: Vec<Vec<u8>>,
    unsound: Vec<(IssueId, Unsound)>,
    /// Lines that were passed over in what was read.
    passed_over: Vec<(IssueId, Unsound)>,
    /// Issues that a merge brought back after a deletion, without all of their files.
    brought_back: Vec<FoundIssue>,
    /// Issues that somebody edited by hand as no command would have changed them, or before somebody else did.
    held_back: Vec<FoundIssue>,
    /// What should be known about what was taken.
    said: Vec<String>,
    /// Descriptions that were weighed: they stay in the tree, and are to be known when they are met again.
    met: Vec<(IssueId, Vec<u8>)>,
    /// Issues of which an old copy is here that is not committed: once it is, it may be later than ours.
    awaited: Vec<IssueId>,
    /// Issues that are to be read again at the next look.
    again: Vec<IssueId>,
    asked: Asked,
}

/// What git was asked for in one look, however many appends that takes.
#[derive(Default)]
pub(crate) struct Asked {
    /// Nothing was asked for but to read: what is not clear can wait.
    is_reader: bool,
    /// Files of issues that differ here from what is committed; asked of git at most once.
    uncommitted: Option<BTreeMap<String, Standing>>,
    /// How often git was asked for the time of a commit.
    times: usize,
    /// What commits changed; asked of git where a copy was found that is not what we have.
    history: History,
    /// How many issues a commit took back.
    taken_back: usize,
}

impl Haul {
    fn put_back(&mut self, found: FoundIssue) {
        let id = &found.issue.id;
        self.said.push(format!(
            "files of {id} that went with its deletion are put back here, as it is there again: git add .jit/issues/{id}"
        ));
        self.brought_back.push(found);
    }
}

/// What came of bringing a tree in.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    issues: usize,
    /// How many had to be read to know.
    looked_at: usize,
    left_alone: Vec<Unsound>,
    /// What is to be read again at the next look, changed or not.
    again: Vec<IssueId>,
    /// What is to be read again when git has moved, changed or not.
    awaited: Vec<IssueId>,
    warnings: Vec<String>,
    /// What was not taken as it stands there.
    said: Vec<String>,
}

impl Joined {
    /// Both, with what either says once.
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

    fn told(mut self) -> Vec<String> {
        self.warnings.append(&mut self.said);
        self.warnings
    }
}

/// Takes notice of what changed in this tree, as far as a request needs it. Whatever goes wrong is said and does not
/// stand in the way.
///
/// Looking at thousands of issues takes longer than listing them. A request that changes nothing is answered
/// meanwhile, by `answer`, and that answer is given back if nothing had changed.
pub(crate) fn take_notice<T>(
    cx: &Context,
    request: &Request,
    answer: impl FnOnce() -> T,
) -> (Vec<String>, Option<T>) {
    let look = look(request);
    let wait = match request.writes() && !matches!(look, Look::Nothing) {
        true => FOR_GIT,
        false => Duration::ZERO,
    };
    let Some((git_dir, issues)) = tree(cx, wait) else {
        return (Vec::new(), None);
    };
    let why = match request.writes() {
        true => Why::Writing,
        false => Why::Reading,
    };
    let mut early = None;
    let outcome = match look {
        how @ (Look::All | Look::Texts) => {
            let depth = match how {
                Look::Texts => Depth::Texts,
                _ => Depth::Fields,
            };
            join_seen_and(cx, &git_dir, &issues, depth, why, || {
                if !request.writes() {
                    early = Some(answer());
                }
            })
        }
        Look::IfMoved if seen::git_moved(&git_dir) => {
            join_seen_and(cx, &git_dir, &issues, Depth::Fields, why, || ())
        }
        Look::Named(names) if seen::git_moved(&git_dir) => {
            let all = join_seen_and(cx, &git_dir, &issues, Depth::Fields, why, || ());
            // A sweep reads what has changed since the last one, and that may have been too early.
            all.and_then(|all| Ok(all.and(join_named(cx, &issues, &names, why)?)))
        }
        Look::Nothing | Look::IfMoved => return (Vec::new(), None),
        Look::Named(names) => join_named(cx, &issues, &names, why),
    };
    match outcome {
        Ok(joined) if joined.looked_at == 0 => (joined.told(), early),
        Ok(joined) => (joined.told(), None),
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

/// Takes notice of everything that changed in this tree, as far as that can be done now. Says what was not taken as it
/// stands there.
pub(crate) fn notice_tree(cx: &Context) -> Vec<String> {
    look_at_tree(cx).0
}

/// Imports what changed in this tree if git moved since the last look, before a landing that nobody asked for by a request.
pub(crate) fn sync_if_git_moved(cx: &Context) {
    if let Some((git_dir, issues)) = tree(cx, FOR_GIT)
        && seen::git_moved(&git_dir)
    {
        let _ = join_seen_and(cx, &git_dir, &issues, Depth::Fields, Why::Writing, || ());
    }
}

/// The same, with what was left alone.
pub(crate) fn look_at_tree(cx: &Context) -> (Vec<String>, Vec<Unsound>) {
    let joined = tree(cx, Duration::ZERO)
        .map(|(git_dir, issues)| join_seen_and(cx, &git_dir, &issues, Depth::Texts, Why::Writing, || ()));
    match joined {
        Some(Ok(joined)) => (joined.said, joined.left_alone),
        _ => Default::default(),
    }
}

/// The git directory of this worktree and its folder of issues, if there are such. None where what is there has only been
/// tried: an issue is not done before its work has landed.
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

/// Brings in everything that is in this tree and not in the log. Returns how many issues were new or had changed, and
/// what could not be read.
pub fn join_tree(cx: &Context) -> Outcome<(usize, Vec<String>)> {
    let Some((git_dir, issues)) = tree(cx, FOR_GIT) else {
        return Ok((0, Vec::new()));
    };
    let depth = Depth::Texts;
    let joined = join_since(cx, Since::Ever, (&git_dir, &issues), depth, Why::Asked, || ())?;
    Ok((joined.issues, joined.told()))
}

/// Brings in the issues of this tree that the log has never heard of; says how many.
pub(crate) fn join_unknown(cx: &Context) -> Outcome<usize> {
    let Some((_, issues)) = tree(cx, Duration::ZERO) else {
        return Ok(0);
    };
    let view = crate::write_path::view(cx)?;
    let (mut ids, _) = tree::names(&issues).map_err(|e| io_refusal("read", &issues, &e))?;
    ids.retain(|id| !state::is_known(&*view.table, id).unwrap_or(false));
    Ok(join_ids_in(cx, view, &issues, &ids, Why::Asked)?.issues)
}

/// Brings in what has changed since the last look, and does something else while others look, if that takes long.
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
        // Not being able to remember it costs time, not truth.
        let _ = looked.seen.save(git_dir);
    }
    Ok(joined)
}

fn join_named(cx: &Context, issues: &Path, names: &[IssuePrefix], why: Why) -> Outcome<Joined> {
    let view = crate::write_path::view(cx)?;
    let mut ids = Vec::new();
    for name in names {
        match state::resolve(&*view.table, name) {
            Ok(issue) => ids.push(issue.id),
            // It may be in the tree alone.
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

/// Brings in what is in the files of these issues and not in the log. `view` is fresh; each append has one of its own, and
/// what somebody else described meanwhile is weighed again.
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
            let mut haul = haul_all(cx, &view, issues, some, &mut asked)?;
            let policy = crate::issues::sync::guarding::hold_back(cx, &view, &mut haul)?;
            outdated.extend(bring_in(cx, haul, policy.as_ref(), why, &mut joined)?);
        }
        left = outdated;
        if left.is_empty() {
            break;
        }
    }
    // Whoever describes them all the time is to be waited for.
    joined.again.append(&mut left);
    Ok(joined)
}

fn haul_all(cx: &Context, view: &View, issues: &Path, some: &[IssueId], asked: &mut Asked) -> Outcome<Haul> {
    let mut haul = Haul {
        asked: std::mem::take(asked),
        ..Haul::default()
    };
    let mut ids = some.to_vec();
    let mut next = 0;
    while let Some(id) = ids.get(next).cloned() {
        crate::issues::sync::tree_changes::haul(cx, &*view.table, issues, &id, &mut haul)?;
        // What became done with its parts is no more than that: they are looked at with it.
        if haul
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
    *asked = std::mem::take(&mut haul.asked);
    Ok(haul)
}

/// Returns the issues whose description somebody changed meanwhile: nothing was taken of those.
fn bring_in(
    cx: &Context,
    mut haul: Haul,
    policy: Option<&Policy>,
    why: Why,
    joined: &mut Joined,
) -> Outcome<Vec<IssueId>> {
    for (what, all) in [
        ("left alone", &haul.unsound),
        ("passed over, the rest counts", &haul.passed_over),
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
    let unsound = haul.unsound.iter().chain(&haul.passed_over);
    joined.again.extend(unsound.map(|(id, _)| id.clone()));
    let left_alone = std::mem::take(&mut haul.unsound).into_iter();
    joined.left_alone.extend(left_alone.map(|(_, unsound)| unsound));
    joined.again.append(&mut haul.again);
    joined.awaited.append(&mut haul.awaited);
    joined.said.append(&mut haul.said);
    let mut quiet = Vec::new();
    for (found, project) in [
        (haul.found, false),
        (haul.brought_back, true),
        // The tree must not go on saying what does not hold.
        (haul.held_back, true),
    ] {
        if found.is_empty() {
            continue;
        }
        let kept = Kept {
            texts: &haul.texts,
            met: &haul.met,
            project,
            aside: Some(why.wait()),
            policy,
            ..Kept::default()
        };
        let command = Command::JoinIssues(found);
        let done = crate::write_path::transact_as(cx, None, &command, kept)?;
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
    haul.met.retain(|(id, _)| !outdated.contains(id));
    crate::issues::sync::texts::keep_met(cx, haul.met.iter())?;
    Ok(outdated)
}

/// Those of them of which nothing was taken as their descriptions had changed.
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
