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
//! - a description that was made out of ours in git is later than ours, whatever the times of commits say: they count in
//!   seconds, and whoever writes commits anew moves them.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use jit_core::command::{Command, Reply as Decided};
use jit_core::event::{Event, Stamped};
use jit_core::ids::{AgentId, IssueId, IssuePrefix, WorktreeId};
use jit_core::issue::{Issue, State, text_digest};
use jit_core::issue_file::{DEPS, DESCRIPTION, Folder, Found, ISSUE, LABELS, NAMES, check_kept};
use jit_core::lease::Resource;
use jit_core::merge;
use jit_core::policy::{Enforce, Policy};
use jit_core::queue;
use jit_core::refusal::Code;
use jit_core::sheet::{SetLine, Sheet};
use jit_core::state;
use jit_core::table::{Read, Table};
use jit_core::time::Wall;
use jit_core::tracker::is_held_back;

use super::{App, Kept, refuse, reverts};
use crate::git::Git;
use crate::issues::seen::{self, Depth, Seen, Sweep};
use crate::issues::tree::{self, Unsound};
use crate::issues::{replica, text};
use crate::os::clock;
use crate::os::memory;
use crate::request::Request;
use crate::store::file::io_refusal;
use crate::store::{Outcome, View};

/// How long a command waits for the lock to take notice of a tree. Reading goes on without; the next command will see.
const ASIDE: Duration = Duration::from_millis(500);

/// How long whoever writes waits for a git that a killed landing left in this checkout. Who only reads does not.
const FOR_GIT: Duration = Duration::from_secs(1);

/// So many issues are brought in by one append at most.
const AT_ONCE: usize = 200;

/// The clock that files are stamped by goes in steps, of so many ms at most.
const FILE_CLOCK: i64 = 10;

/// git is asked so often at most when something was committed; edits beyond that count as older than anything.
const MOST_ASKED: usize = 200;

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
struct Haul {
    found: Vec<Found>,
    texts: Vec<Vec<u8>>,
    unsound: Vec<(IssueId, Unsound)>,
    /// Lines that were passed over in what was read.
    passed_over: Vec<(IssueId, Unsound)>,
    /// Issues that a merge brought back after a deletion, without all of their files.
    brought_back: Vec<Found>,
    /// Issues that somebody edited by hand as no command would have changed them, or before somebody else did.
    held_back: Vec<Found>,
    /// What should be known about what was taken.
    said: Vec<String>,
    /// Files of issues that differ here from what is committed; asked of git at most once.
    uncommitted: Option<BTreeSet<String>>,
    /// How often git was asked for the time of a commit.
    asked: usize,
    /// What commits changed; asked of git where an old copy was found.
    history: reverts::History,
}

/// What came of bringing a tree in.
#[derive(Debug, Default)]
struct Joined {
    issues: usize,
    /// How many had to be read to know.
    looked_at: usize,
    unsound: Vec<IssueId>,
    warnings: Vec<String>,
    /// What was not taken as it stands there.
    said: Vec<String>,
}

impl Joined {
    fn told(mut self) -> Vec<String> {
        self.warnings.append(&mut self.said);
        self.warnings
    }
}

impl App {
    /// Takes notice of what changed in this tree, as far as a request needs it. Whatever goes wrong is said and does not
    /// stand in the way.
    ///
    /// Looking at thousands of issues takes longer than listing them. A request that changes nothing is answered
    /// meanwhile, by `answer`, and that answer is given back if nothing had changed.
    pub(super) fn take_notice<T>(
        &self,
        request: &Request,
        answer: impl FnOnce() -> T,
    ) -> (Vec<String>, Option<T>) {
        let look = look(request);
        let wait = match request.writes() && !matches!(look, Look::Nothing) {
            true => FOR_GIT,
            false => Duration::ZERO,
        };
        let Some((git_dir, issues)) = self.tree(wait) else {
            return (Vec::new(), None);
        };
        let mut early = None;
        let outcome = match look {
            how @ (Look::All | Look::Texts) => {
                let depth = match how {
                    Look::Texts => Depth::Texts,
                    _ => Depth::Fields,
                };
                self.join_seen_and(&git_dir, &issues, depth, || {
                    if !request.writes() {
                        memory::take_room_for_many();
                        early = Some(answer());
                    }
                })
            }
            Look::IfMoved | Look::Named(_) if seen::git_moved(&git_dir) => {
                self.join_seen_and(&git_dir, &issues, Depth::Fields, || ())
            }
            Look::Nothing | Look::IfMoved => return (Vec::new(), None),
            Look::Named(names) => self.join_named(&issues, &names),
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
    pub(crate) fn notice_tree(&self) -> Vec<String> {
        let joined = self
            .tree(Duration::ZERO)
            .map(|(git_dir, issues)| self.join_seen_and(&git_dir, &issues, Depth::Texts, || ()));
        match joined {
            Some(Ok(joined)) => joined.said,
            _ => Vec::new(),
        }
    }

    /// The git directory of this worktree and its folder of issues, if there are such. None where what is there has only been
    /// tried: an issue is not done before its work has landed.
    fn tree(&self, wait: Duration) -> Option<(PathBuf, PathBuf)> {
        let issues = tree::issues_dir(self.place.local_jit.as_deref()?)?;
        if !self.is_settled(wait) {
            return None;
        }
        let git_dir = self
            .place
            .git_dir
            .clone()
            .unwrap_or_else(|| self.place.control_dir.clone());
        Some((git_dir, issues))
    }

    /// Brings in everything that is in this tree and not in the log. Returns how many issues were new or had changed, and
    /// what could not be read.
    pub fn join_tree(&self) -> Outcome<(usize, Vec<String>)> {
        let Some((git_dir, issues)) = self.tree(FOR_GIT) else {
            return Ok((0, Vec::new()));
        };
        let depth = Depth::Texts;
        let joined = self.join_since(Seen::default(), (&git_dir, &issues), depth, Duration::MAX, || ())?;
        Ok((joined.issues, joined.told()))
    }

    /// Brings in the issues of this tree that the log has never heard of; says how many.
    pub(super) fn join_unknown(&self) -> Outcome<usize> {
        let Some((_, issues)) = self.tree(Duration::ZERO) else {
            return Ok(0);
        };
        let view = self.view()?;
        let (mut ids, _) = tree::names(&issues).map_err(|e| io_refusal("read", &issues, &e))?;
        ids.retain(|id| !state::is_known(&*view.table, id).unwrap_or(false));
        Ok(self.join_ids_in(&view, &issues, &ids, Duration::MAX)?.issues)
    }

    /// Brings in what has changed since the last look, and does something else while others look, if that takes long.
    fn join_seen_and(
        &self,
        git_dir: &Path,
        issues: &Path,
        depth: Depth,
        meanwhile: impl FnOnce(),
    ) -> Outcome<Joined> {
        self.join_since(Seen::load(git_dir), (git_dir, issues), depth, ASIDE, meanwhile)
    }

    fn join_since(
        &self,
        before: Seen,
        (git_dir, issues): (&Path, &Path),
        depth: Depth,
        wait: Duration,
        meanwhile: impl FnOnce(),
    ) -> Outcome<Joined> {
        let read = |e: io::Error| io_refusal("read", issues, &e);
        let sweep = Sweep::begin(before, git_dir, issues, depth, clock::wall_ns()).map_err(read)?;
        if sweep.is_long() {
            meanwhile();
        }
        let mut looked = sweep.finish();
        let mut joined = self.join_ids(issues, &looked.changed, wait)?;
        joined.looked_at = looked.changed.len();
        for id in &joined.unsound {
            looked.is_news |= looked.seen.forget(id);
        }
        if looked.is_news {
            // Not being able to remember it costs time, not truth.
            let _ = looked.seen.save(git_dir);
        }
        Ok(joined)
    }

    fn join_named(&self, issues: &Path, names: &[IssuePrefix]) -> Outcome<Joined> {
        let view = self.view()?;
        let mut ids = Vec::new();
        for name in names {
            match state::resolve(&*view.table, name) {
                Ok(issue) => ids.push(issue.id),
                // It may be in the tree alone.
                Err(_) => ids.extend(name.as_str().parse::<IssueId>().ok()),
            }
        }
        self.join_ids_in(&view, issues, &ids, ASIDE)
    }

    fn join_ids(&self, issues: &Path, ids: &[IssueId], wait: Duration) -> Outcome<Joined> {
        if ids.is_empty() {
            return Ok(Joined::default());
        }
        self.join_ids_in(&self.view()?, issues, ids, wait)
    }

    fn join_ids_in(&self, view: &View, issues: &Path, ids: &[IssueId], wait: Duration) -> Outcome<Joined> {
        let mut joined = Joined::default();
        for some in ids.chunks(AT_ONCE) {
            let mut haul = Haul::default();
            let mut ids = some.to_vec();
            let mut next = 0;
            while let Some(id) = ids.get(next).cloned() {
                self.haul(&*view.table, issues, &id, &mut haul)?;
                // What became done with its parts is no more than that: they are looked at with it.
                if haul
                    .found
                    .last()
                    .is_some_and(|found| found.issue.id == id && is_done_by_hand(found))
                {
                    let parts =
                        queue::open_parts(&*view.table, &id.key()).map_err(|e| refuse(Code::Io, e))?;
                    ids.extend(
                        parts
                            .into_iter()
                            .filter(|part| !ids.contains(part))
                            .collect::<Vec<_>>(),
                    );
                }
                next += 1;
            }
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
            joined.unsound.extend(unsound.map(|(id, _)| id.clone()));
            let policy = self.hold_back(view, &mut haul)?;
            joined.said.append(&mut haul.said);
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
                    project,
                    aside: Some(wait),
                    policy: policy.as_ref(),
                    ..Kept::default()
                };
                let done = self.transact_as(None, &Command::JoinIssues(found), kept)?;
                joined.said.extend(done.notices);
                if let Decided::Joined(many) = done.reply {
                    joined.issues += many;
                }
            }
        }
        Ok(joined)
    }

    /// Sets apart what says more than a command could have done (E6). Returns what is to be decided by, where somebody
    /// edited what there are rules about.
    fn hold_back(&self, view: &View, haul: &mut Haul) -> Outcome<Option<Policy>> {
        let touches = |found: &Found| {
            let guarded = ["gates", "parent", "type"];
            guarded.iter().any(|name| found.by_hand.contains(name)) || is_done_by_hand(found)
        };
        let mut all = haul.found.iter().chain(&haul.brought_back).chain(&haul.held_back);
        if !all.any(touches) {
            return Ok(None);
        }
        // Where it cannot be read what is required, nothing becomes done.
        let (agent_asks, editor) = (self.asking_agent().is_some(), self.agent_at_work(view)?);
        let by_agent = agent_asks || editor.is_some();
        let policy = self.policy_with_gates(by_agent).unwrap_or_else(|_| Policy {
            gates_unknown: true,
            agents_may_pass_gates: false,
            ..self.policy.clone()
        });
        let policy = Policy {
            agent_asks,
            editor,
            ..policy
        };
        let now = Wall::from_ms(clock::wall_ms());
        let who = (&policy, &self.actor.agent_id);
        for found in std::mem::take(&mut haul.found) {
            let back = touches(&found)
                && is_held_back(&*view.table, &found, who, now).map_err(|e| refuse(Code::Io, e))?;
            match back {
                true => haul.held_back.push(found),
                false => haul.found.push(found),
            }
        }
        Ok(Some(policy))
    }

    /// An agent that holds something in this worktree, or has a session there that is alive: what was edited in it is its
    /// doing, whoever comes first to take notice.
    fn agent_at_work(&self, view: &View) -> Outcome<Option<AgentId>> {
        let Some(here) = &self.actor.worktree_id else {
            return Ok(None);
        };
        let mine = |agent: &AgentId, place: &Option<WorktreeId>| {
            agent.kind() == "agent" && place.as_ref() == Some(here)
        };
        let leases = state::leases(&*view.table).map_err(|e| refuse(Code::Io, e))?;
        let holder = leases
            .into_iter()
            .find(|lease| mine(&lease.agent_id, &lease.worktree_id) && !lease.expired(&view.now));
        if let Some(lease) = holder {
            return Ok(Some(lease.agent_id));
        }
        let alive = self.sessions_alive(&*view.table)?;
        Ok(alive
            .into_iter()
            .find(|session| mine(&session.agent_id, &session.worktree_id))
            .map(|session| session.agent_id))
    }

    /// Who holds an issue, where that is somebody else in another tree and nobody else may change it (B15).
    fn held_elsewhere(&self, table: &dyn Table, id: &IssueId) -> Outcome<Option<AgentId>> {
        if !matches!(self.policy.enforce, Enforce::Strict | Enforce::StrictExplicit) {
            return Ok(None);
        }
        let lease = state::lease_on(table, &Resource::Issue(id.clone()).key());
        let lease = lease.map_err(|e| refuse(Code::Io, e))?;
        let now = self.store.now()?;
        let elsewhere = lease.filter(|lease| {
            !lease.expired(&now)
                && !lease.obeys(&self.actor)
                && (lease.worktree_id.is_none() || lease.worktree_id != self.actor.worktree_id)
        });
        Ok(elsewhere.map(|lease| lease.agent_id))
    }

    /// Adds what is new about an issue in a tree.
    fn haul(&self, table: &dyn Table, issues: &Path, id: &IssueId, haul: &mut Haul) -> Outcome<()> {
        let unreadable = |e| refuse(Code::Io, e);
        let folder = match tree::load(issues, id) {
            Ok(Some(folder)) => folder,
            Ok(None) => return Ok(()),
            Err(unsound) => {
                haul.unsound.push((id.clone(), unsound));
                return Ok(());
            }
        };
        if folder.issue.is_empty() && state::is_known(table, id).map_err(unreadable)? {
            // Whoever was writing it did not get that far.
            return Ok(());
        }
        let mut found = match tree::read(issues, id, &folder) {
            Ok(found) => found,
            Err(unsound) => {
                haul.unsound.push((id.clone(), unsound));
                return Ok(());
            }
        };
        haul.passed_over.extend(
            found
                .problems
                .drain(..)
                .map(|problem| (id.clone(), tree::place(issues, id, problem))),
        );
        let known = state::issue_or_tombstone(table, id).map_err(unreadable)?;
        let (mut is_back, mut is_overruled) = (false, false);
        if let Some(mine) = &known {
            let sheet = state::sheet(table, id).map_err(unreadable)?;
            let is_seen = state::is_known_file(table, id, &found.digest).map_err(unreadable)?;
            if is_seen {
                found.again = self.is_saved_again(issues, (mine, &sheet), &found, haul);
                found.forget_edits();
            }
            let mut waiting = Vec::new();
            if let Some(holder) = self.held_elsewhere(table, id)? {
                waiting = self.edited_files(issues, (mine, &sheet), &found, is_seen, haul);
                // What no command would have changed waits until it is let go of, and stays in the file.
                for file in &waiting {
                    let path = issues.join(id.as_str()).join(file);
                    let what =
                        format!("edited here, while {holder} holds {id}: it counts when that has ended");
                    haul.unsound.push((id.clone(), Unsound { path, line: 0, what }));
                    found.leave_out(file, (mine, &sheet));
                }
            }
            is_back = waiting.is_empty()
                && !found.sheet.deleted
                && found.sheet.stamps.contains_key("deleted")
                && ((folder.labels.is_empty() && !sheet.labels.is_empty())
                    || (folder.deps.is_empty() && !sheet.deps.is_empty())
                    || (folder.description.is_none() && mine.text.is_some())
                    || (folder.comments.is_empty()
                        && !state::comments(table, id).map_err(unreadable)?.is_empty()));
            let merged = self.weigh_text((mine, &sheet), &mut found, &folder, haul)?;
            let has_text = !found.edited.contains(&"text") || found.issue.text == mine.text;
            let reverted = reverts::told(&mut haul.history, issues, (mine, &sheet), &found);
            haul.said.extend(reverted);
            if has_text && !found.again && has_all_but_text(table, &sheet, &found).map_err(unreadable)? {
                return Ok(());
            }
            if let Some(committed) = self.committed_at(issues, &found, haul) {
                found.settle(committed);
                if merged {
                    found.edited.push("text");
                }
            } else {
                self.date_edits(issues, &mut found, haul);
            }
            self.prefer_text_made_of_ours(issues, (mine, &sheet), &mut found, &folder, haul)?;
            let joined = merge::join((mine, &sheet), &found, Wall::from_ms(clock::wall_ms()));
            if let Some((now, joined)) = &joined
                && let Err(problem) = check_kept(now, joined, Some(&sheet))
            {
                // Both together are too much: what is in the files stays there.
                haul.unsound.push((id.clone(), tree::place(issues, id, problem)));
                return Ok(());
            }
            let (now, joined) = joined.unwrap_or_else(|| (mine.clone(), sheet.clone()));
            // What lost to a deletion would be later than it elsewhere, once somebody commits it.
            let is_edit = found.written.is_some() || found.text_written.is_some();
            let is_lost = sheet.deleted && joined.deleted && is_edit;
            is_overruled = found.again
                || is_lost
                || merge::unaware((mine, &sheet), &found)
                    .into_iter()
                    .any(|name| joined.value(&now, name) != found.sheet.value(&found.issue, name));
        } else {
            if folder.description.is_none() && found.issue.text.take().is_some() {
                // It is not known here, which is not the same as having been taken away at that time.
                found.sheet.stamps.remove("text");
                found.edited.retain(|name| *name != "text");
            }
            let committed = self.committed_at(issues, &found, haul);
            found.settle(committed.unwrap_or_else(|| Wall::from_ms(clock::wall_ms())));
            if let Err(problem) = check_kept(&found.issue, &found.sheet, None) {
                haul.unsound.push((id.clone(), tree::place(issues, id, problem)));
                return Ok(());
            }
        }
        if let Some(text) = &folder.description
            && found.issue.text.as_deref() == Some(&text_digest(text))
        {
            haul.texts.push(text.clone());
        }
        // With a deletion all files but one go, and git has merged that too.
        if is_back {
            haul.brought_back.push(found);
        } else if is_overruled {
            // The file is written anew: what it said is kept, also where it was more than is told.
            self.replica
                .keep_texts(&[(id, folder.issue.as_slice())])
                .map_err(|e| io_refusal("write", &self.replica.folder(id), &e))?;
            if found.again || has_edited_fields(&found) {
                let kept = self.replica.text_path(id, &text_digest(&folder.issue));
                haul.said.push(format!(
                    "the {ISSUE} of {id} as it was edited here is in {}",
                    kept.display()
                ));
            }
            haul.held_back.push(found);
        } else {
            haul.found.push(found);
        }
        Ok(())
    }

    /// The files in which somebody edited here what is the holder's. Comments and the description are everybody's.
    fn edited_files(
        &self,
        issues: &Path,
        (mine, sheet): (&Issue, &Sheet),
        found: &Found,
        is_seen: bool,
        haul: &mut Haul,
    ) -> Vec<&'static str> {
        let is_edit = || {
            let now = Wall::from_ms(clock::wall_ms());
            let joined = merge::join((mine, sheet), found, now);
            joined.is_some_and(|(issue, joined)| {
                (joined.deleted, &joined.others) != (sheet.deleted, &sheet.others)
                    || holders(&issue) != holders(mine)
            })
        };
        let files = [
            (ISSUE, !is_seen && has_edited_fields(found) && is_edit()),
            (LABELS, !has_lines(&sheet.labels, &found.sheet.labels)),
            (DEPS, !has_lines(&sheet.deps, &found.sheet.deps)),
        ];
        files
            .into_iter()
            .filter(|(file, is_new)| *is_new && self.is_uncommitted(issues, &mine.id, file, haul))
            .map(|(file, _)| file)
            .collect()
    }

    /// Whether somebody saved an edit once more that was brought in before, after what counts now: an editor that still had
    /// it, most likely. It is no new edit, and is told of.
    fn is_saved_again(
        &self,
        issues: &Path,
        (mine, sheet): (&Issue, &Sheet),
        found: &Found,
        haul: &mut Haul,
    ) -> bool {
        let id = &mine.id;
        let written = written(issues, id, ISSUE);
        let is_later = |name: &str| written.is_some_and(|at| at > sheet.stamp(mine, name));
        let mut names = merge::edits((mine, sheet), found);
        names.retain(|name| *name != "text" && is_later(name));
        let is_gone =
            sheet.deleted && !found.sheet.deleted && has_edited_fields(found) && is_later("deleted");
        if !is_gone && names.is_empty() || !self.is_uncommitted(issues, id, ISSUE, haul) {
            return false;
        }
        if is_gone {
            haul.said.push(format!(
                "{id} was deleted, and what was saved here once more does not bring it back: jit issue restore {id}"
            ));
            return true;
        }
        for name in names {
            let (counts, edit) = (sheet.value(mine, name), found.sheet.value(&found.issue, name));
            let (counts, edit) = (counts.to_string(), edit.to_string());
            haul.said.push(format!(
                "{name} of {id} was saved here once more as it was before, which is not taken again: \
                 {counts:.100} counts, not {edit:.100}; jit issue show {id}"
            ));
        }
        true
    }

    /// Notes when the files were written in which somebody edited something and has not committed it.
    fn date_edits(&self, issues: &Path, found: &mut Found, haul: &mut Haul) {
        let id = found.issue.id.clone();
        let written = |file: &str| {
            let at = written(issues, &id, file)?.ms();
            Some(Wall::from_ms(at.saturating_add(FILE_CLOCK)))
        };
        if has_edited_fields(found) && self.is_uncommitted(issues, &id, ISSUE, haul) {
            found.written = written(ISSUE);
        }
        if found.edited.contains(&"text") && self.is_uncommitted(issues, &id, DESCRIPTION, haul) {
            found.text_written = written(DESCRIPTION);
        }
    }

    /// Decides what the description in a tree says beside the one we have. True when it was merged with ours.
    fn weigh_text(
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
    fn prefer_text_made_of_ours(
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

    /// When the edits in an issue's files were committed; `None` when they are not, or nobody knows.
    fn committed_at(&self, issues: &Path, found: &Found, haul: &mut Haul) -> Option<Wall> {
        let id = &found.issue.id;
        let mut files = Vec::new();
        if found.edited.contains(&"text") {
            files.push(DESCRIPTION);
        }
        if found.edited.iter().any(|name| *name != "text") || !found.edited_others.is_empty() {
            files.push(ISSUE);
        }
        if files.is_empty()
            || files
                .iter()
                .any(|name| self.is_uncommitted(issues, id, name, haul))
        {
            return None;
        }
        haul.asked += 1;
        if haul.asked > MOST_ASKED {
            return Some(Wall::from_ms(0));
        }
        let secs = Git::at(issues)
            .args(["log", "-1", "--format=%ct", "HEAD", "--"])
            .args(files.iter().map(|name| Path::new(id.as_str()).join(name)))
            .line();
        let secs: i64 = secs.ok()?.parse().ok()?;
        // git counts in seconds: at the end of that one, but not after now.
        let end = secs.saturating_mul(1000).saturating_add(999);
        Some(Wall::from_ms(end.min(clock::wall_ms())))
    }

    /// Whether somebody changed a file of an issue here since the last commit. Where git does not know, so it is.
    fn is_uncommitted(&self, issues: &Path, id: &IssueId, file: &str, haul: &mut Haul) -> bool {
        let ask = || -> Option<BTreeSet<String>> {
            let root = self.place.worktree_root.as_deref()?;
            let inside = issues.strip_prefix(root).ok()?;
            let args = [
                "status",
                "--porcelain",
                "-z",
                "--no-renames",
                "--ignored=matching",
            ];
            let listed = Git::at(root)
                .env("GIT_OPTIONAL_LOCKS", "0")
                .args(args)
                .args(["--untracked-files=all", "--"])
                .arg(inside)
                .run()
                .ok()?;
            let inside = inside.to_str()?;
            let mut paths = BTreeSet::new();
            for entry in listed.split(|b| *b == 0).filter(|entry| entry.len() > 3) {
                let Ok(path) = std::str::from_utf8(entry.get(3..)?) else {
                    continue;
                };
                // A folder further up is listed only where all of it is ignored: then nothing is known.
                let below = path.strip_prefix(inside)?.strip_prefix('/')?;
                paths.insert(below.to_lowercase());
            }
            Some(paths)
        };
        if haul.uncommitted.is_none() {
            haul.uncommitted = ask();
        }
        let folder = format!("{}/", id.as_str().to_lowercase());
        match &haul.uncommitted {
            Some(paths) => paths.contains("") || paths.contains(&folder) || paths.contains(&(folder + file)),
            None => true,
        }
    }

    /// Before an append: the long texts that its events name are made durable.
    pub(super) fn keep_texts(&self, events: &[Event], texts: &[Vec<u8>]) -> io::Result<()> {
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

    /// After an append: the files of the issues it touched, in the replica, and in this tree if `project`.
    pub(super) fn publish(&self, lines: &[Stamped], table: &dyn Table, project: bool) -> Vec<String> {
        let mut warnings = Vec::new();
        match self.mirror_lock_files(lines, table) {
            Ok(said) => warnings.extend(said),
            Err(e) => warnings.push(format!("the lock files of activities could not be written: {e}")),
        }
        if let Err(e) = self.note_work(lines) {
            warnings.push(format!(
                "the changelog could not be written: {e}; the next entry will mend it"
            ));
        }
        if let Err(e) = self
            .note_locks(lines, table)
            .and_then(|()| self.note_sessions(lines, table))
        {
            warnings.push(format!(
                "the registries of sessions and locks could not be written: {e}"
            ));
        }
        let mut ids: Vec<&IssueId> = Vec::new();
        for event in lines.iter().map(|line| &line.event) {
            let (Event::Issue {
                issue: Issue { id, .. },
                ..
            }
            | Event::Commented { issue_id: id, .. }) = event
            else {
                continue;
            };
            if ids.last() != Some(&id) && (ids.len() > 16 || !ids.contains(&id)) {
                ids.push(id);
            }
        }
        for id in ids {
            if let Err(e) = self.publish_one(table, id, project) {
                warnings.push(format!("{id} is kept, but its files could not be written: {e}"));
            }
        }
        warnings
    }

    pub(super) fn publish_one(&self, table: &dyn Table, id: &IssueId, project: bool) -> io::Result<()> {
        let Some(issue) = state::issue_or_tombstone(table, id).map_err(io::Error::other)? else {
            return Ok(());
        };
        let files = self.replica.files(table, &issue)?;
        self.replica.refresh(id, &files)?;
        let Some(tree) = self
            .place
            .local_jit
            .as_deref()
            .filter(|tree| project && *tree != self.place.control_dir)
        else {
            return Ok(());
        };
        self.require_nothing_new(table, tree, &issue)?;
        replica::project(tree, &issue.id, &files)
    }

    /// Whether a file in a checkout is one of an issue's, as jit wrote it: nobody edited it, and the log has all that it says.
    pub(super) fn is_projection(&self, root: &Path, path: &Path) -> bool {
        let Some(id) = issue_of(path) else {
            return false;
        };
        let look = || -> Option<bool> {
            let view = self.view().ok()?;
            let issue = state::issue_or_tombstone(&*view.table, &id).ok()??;
            let tree = root.join(".jit");
            let issues = tree::issues_dir(&tree)?;
            let folder = tree::load(&issues, &id).ok()??;
            let found = tree::read(&issues, &id, &folder).ok()?;
            let known = self.require_nothing_new(&*view.table, &tree, &issue).is_ok();
            Some(found.is_untouched() && !folder.issue.is_empty() && known)
        };
        look().unwrap_or(false)
    }

    /// Writes issues into a checkout once more, whose files were replaced there by what landed. What cannot be written is
    /// written with the issue's next change.
    pub(super) fn project_again(&self, root: &Path, paths: &[PathBuf]) {
        let ids: BTreeSet<String> = paths
            .iter()
            .filter_map(|path| Some(issue_of(path)?.to_string()))
            .collect();
        let tree = root.join(".jit");
        for id in ids.iter().filter_map(|id| id.parse::<IssueId>().ok()) {
            self.project_one_again(&tree, &id);
        }
    }

    fn project_one_again(&self, tree: &Path, id: &IssueId) -> Option<()> {
        let issues = tree::issues_dir(tree)?;
        let found = tree::read(&issues, id, &tree::load(&issues, id).ok()??).ok()?;
        if found.edited.iter().all(|name| *name == "text") && found.edited_others.is_empty() {
            // As jit wrote it for the landing: it is to be known before anything is written over it.
            let ids = std::slice::from_ref(id);
            self.join_ids_in(&self.view().ok()?, &issues, ids, ASIDE).ok()?;
        }
        let view = self.view().ok()?;
        let issue = state::issue_or_tombstone(&*view.table, id).ok()??;
        let comments = state::comments(&*view.table, id).ok()?.len();
        let others = state::sheet(&*view.table, id).ok()?.others;
        let same = says(&found.issue) == says(&issue) && found.sheet.others == others;
        if same && found.comments.len() == comments {
            return None;
        }
        let files = self.replica.files(&*view.table, &issue).ok()?;
        self.require_nothing_new(&*view.table, tree, &issue).ok()?;
        replica::project(tree, id, &files).ok()
    }

    /// Nothing is written over that was not brought in.
    fn require_nothing_new(&self, table: &dyn Table, tree: &Path, issue: &Issue) -> io::Result<()> {
        let Some(issues) = tree::issues_dir(tree) else {
            return Ok(());
        };
        let id = &issue.id;
        let unsound = |unsound: Unsound| io::Error::other(format!("{unsound}; mend or remove it"));
        let Some(folder) = tree::load(&issues, id).map_err(unsound)? else {
            return Ok(());
        };
        if folder.issue.is_empty() {
            return Ok(());
        }
        let mut found = tree::read(&issues, id, &folder).map_err(unsound)?;
        if !found.problems.is_empty() {
            return Err(unsound(tree::place(&issues, id, found.problems.swap_remove(0))));
        }
        let sheet = state::sheet(table, id).map_err(io::Error::other)?;
        let has_text = match &found.issue.text {
            Some(digest) if folder.description.is_some() => {
                self.replica.text(id, digest)?.is_some()
                    || !self.is_uncommitted(&issues, id, DESCRIPTION, &mut Haul::default())
            }
            _ => true,
        };
        if has_text && has_all_but_text(table, &sheet, &found).map_err(io::Error::other)? {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "they have been edited in this worktree meanwhile: jit issue show {id}"
        )))
    }
}

fn is_done_by_hand(found: &Found) -> bool {
    found.by_hand.contains(&"state") && found.issue.state == State::Done
}

/// Whether a file of fields says something that jit did not write.
fn has_edited_fields(found: &Found) -> bool {
    found.unstamped || found.edited.iter().any(|name| *name != "text") || !found.edited_others.is_empty()
}

/// When a file of an issue was last written to.
fn written(issues: &Path, id: &IssueId, file: &str) -> Option<Wall> {
    let meta = issues.join(id.as_str()).join(file).symlink_metadata().ok()?;
    let at = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(Wall::from_ms(i64::try_from(at.as_millis()).ok()?))
}

/// What only the holder of an issue may change in its fields.
fn holders(issue: &Issue) -> Issue {
    Issue {
        text: None,
        labels: Vec::new(),
        depends_on: Vec::new(),
        ..says(issue)
    }
}

/// Whether a set has all these lines.
fn has_lines(ours: &[SetLine], theirs: &[SetLine]) -> bool {
    let ours: BTreeSet<&SetLine> = ours.iter().collect();
    theirs.iter().all(|line| ours.contains(line))
}

/// The issue that a path in a tree is a file of.
fn issue_of(path: &Path) -> Option<IssueId> {
    let mut below = path.strip_prefix(".jit/issues").ok()?.iter();
    match (below.next(), below.next(), below.next()) {
        (Some(id), Some(name), None) if NAMES.iter().any(|known| name == *known) => id.to_str()?.parse().ok(),
        _ => None,
    }
}

/// Whether what is checked out has had this description since then. Where git does not say, it has not.
fn was_committed(issues: &Path, id: &IssueId, text: Vec<u8>, since: Wall, haul: &mut Haul) -> bool {
    haul.asked += 1;
    if haul.asked > MOST_ASKED {
        return false;
    }
    let path = Path::new(id.as_str()).join(DESCRIPTION);
    let ask = || -> Option<bool> {
        let blob = Git::at(issues)
            .args(["hash-object", "--stdin", "--path"])
            .arg(&path)
            .stdin(text)
            .line()
            .ok()?;
        // Times of commits have no fractions.
        let since = format!("--since-as-filter=@{}", since.ms() / 1000);
        let found = Git::at(issues)
            .args(["log", "-1", "--format=%H", "-m", "--full-history", &since])
            .arg(format!("--find-object={blob}"))
            .args(["HEAD", "--"])
            .arg(&path)
            .line()
            .ok()?;
        Some(!found.is_empty())
    };
    ask().unwrap_or(false)
}

/// What an issue says to whoever reads it; not when and where that was last changed.
fn says(issue: &Issue) -> Issue {
    Issue {
        updated_at: Wall::from_ms(0),
        revision: 0,
        lives_in: None,
        ..issue.clone()
    }
}

/// Whether everything a folder says is in the log, but for the long text.
fn has_all_but_text(table: &dyn Table, sheet: &Sheet, found: &Found) -> Read<bool> {
    let id = &found.issue.id;
    if !state::is_known_file(table, id, &found.digest)?
        || !has_lines(&sheet.labels, &found.sheet.labels)
        || !has_lines(&sheet.deps, &found.sheet.deps)
    {
        return Ok(false);
    }
    for comment in &found.comments {
        if !state::holds_comment(table, id, comment)? {
            return Ok(false);
        }
    }
    Ok(true)
}
