//! Keeping the log, the replica and the trees together: what changed in a tree is brought in, what changed in the log is
//! written out.
//!
//! What must hold:
//!
//! - an edit by git or by hand is never written over: what is not known is brought in first, or left alone;
//! - looking at a tree in which nothing has changed writes nothing and reads no issue;
//! - a file that cannot be read as an issue is in nobody's way.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jit_core::command::{Command, Reply as Decided, Target};
use jit_core::event::{Event, Stamped};
use jit_core::ids::{IssueId, IssuePrefix};
use jit_core::issue::{Issue, text_digest};
use jit_core::issue_file::{Found, ISSUE};
use jit_core::refusal::Code;
use jit_core::state;
use jit_core::table::Table;

use super::{App, Kept, refuse};
use crate::issues::replica;
use crate::issues::seen::{self, Seen};
use crate::issues::tree::{self, Unsound};
use crate::os::clock;
use crate::request::Request;
use crate::store::file::io_refusal;
use crate::store::{Outcome, View};

/// How long a command waits for the lock to take notice of a tree. Reading goes on without; the next command will see.
const ASIDE: Duration = Duration::from_millis(500);

/// So many issues are brought in by one append at most.
const AT_ONCE: usize = 1000;

/// How much of the tree a request should have looked at.
enum Look {
    /// Only if git has moved.
    IfMoved,
    /// These, by name.
    Named(Vec<IssuePrefix>),
    All,
}

fn look(request: &Request) -> Look {
    let target = |target: &Target| match target {
        Target::Issue(_) | Target::Lease(_) => Look::IfMoved,
    };
    match request {
        Request::Acquire { .. }
        | Request::Next { .. }
        | Request::Claims { .. }
        | Request::History { .. }
        | Request::DefineGates { .. }
        | Request::ListGates { issue: None }
        | Request::Commands
        | Request::Trust { .. }
        | Request::Revoke => Look::IfMoved,
        Request::Renew { target: t, .. }
        | Request::Release { target: t }
        | Request::Transfer { target: t, .. }
        | Request::ForceEvict { target: t, .. } => target(t),
        Request::CreateIssue(create) => {
            let ids = create.id.iter().filter_map(|id| id.as_str().parse().ok());
            Look::Named(ids.collect())
        }
        Request::ChangeIssue { issue, .. }
        | Request::DeleteIssue { issue, .. }
        | Request::Comment { issue, .. }
        | Request::RequireGate { issue, .. }
        | Request::RunGates { issue, .. }
        | Request::JudgeGate { issue, .. }
        | Request::ListGates { issue: Some(issue) }
        | Request::ShowIssue { issue } => Look::Named(vec![issue.clone()]),
        Request::ListIssues { .. }
        | Request::Search { .. }
        | Request::Ready { .. }
        | Request::Blocked
        | Request::Progress { .. }
        | Request::Status
        | Request::Graph { .. }
        | Request::DepTree { .. }
        | Request::Import(_)
        | Request::Export => Look::All,
    }
}

/// Issues as found in a tree, with the long texts that are new.
#[derive(Default)]
struct Haul {
    found: Vec<Found>,
    texts: Vec<Vec<u8>>,
    unsound: Vec<Unsound>,
}

impl App {
    /// Takes notice of what changed in this tree, as far as a request needs it. Whatever goes wrong is said and does not
    /// stand in the way.
    pub(super) fn take_notice(&self, request: &Request) -> Vec<String> {
        let Some((git_dir, issues)) = self.tree() else {
            return Vec::new();
        };
        let outcome = match look(request) {
            Look::All => self.join_seen(&git_dir, &issues),
            Look::IfMoved | Look::Named(_) if seen::git_moved(&git_dir) => self.join_seen(&git_dir, &issues),
            Look::IfMoved => return Vec::new(),
            Look::Named(names) => self.join_named(&issues, &names),
        };
        match outcome {
            Ok((_, warnings)) => warnings,
            Err(refusal) if refusal.code == Code::NotInitialized => Vec::new(),
            Err(refusal) => vec![format!(
                "what changed in {} could not be taken notice of: {}",
                issues.display(),
                refusal.message
            )],
        }
    }

    /// The git directory of this worktree and its folder of issues, if there are such.
    fn tree(&self) -> Option<(PathBuf, PathBuf)> {
        let issues = tree::issues_dir(self.place.local_jit.as_deref()?)?;
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
        let Some((git_dir, issues)) = self.tree() else {
            return Ok((0, Vec::new()));
        };
        self.join_since(&Seen::default(), &git_dir, &issues, Duration::MAX)
    }

    fn join_seen(&self, git_dir: &Path, issues: &Path) -> Outcome<(usize, Vec<String>)> {
        self.join_since(&Seen::load(git_dir), git_dir, issues, ASIDE)
    }

    fn join_since(
        &self,
        before: &Seen,
        git_dir: &Path,
        issues: &Path,
        wait: Duration,
    ) -> Outcome<(usize, Vec<String>)> {
        let read = |e: io::Error| io_refusal("read", issues, &e);
        let (ids, seen) = before.look(git_dir, issues, clock::wall_ns()).map_err(read)?;
        let (joined, warnings) = self.join_ids(issues, &ids, wait)?;
        if *before != seen {
            // Not being able to remember it costs time, not truth.
            let _ = seen.save(git_dir);
        }
        Ok((joined, warnings))
    }

    fn join_named(&self, issues: &Path, names: &[IssuePrefix]) -> Outcome<(usize, Vec<String>)> {
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

    fn join_ids(&self, issues: &Path, ids: &[IssueId], wait: Duration) -> Outcome<(usize, Vec<String>)> {
        if ids.is_empty() {
            return Ok((0, Vec::new()));
        }
        self.join_ids_in(&self.view()?, issues, ids, wait)
    }

    fn join_ids_in(
        &self,
        view: &View,
        issues: &Path,
        ids: &[IssueId],
        wait: Duration,
    ) -> Outcome<(usize, Vec<String>)> {
        let mut warnings = Vec::new();
        let mut joined = 0;
        for some in ids.chunks(AT_ONCE) {
            let mut haul = Haul::default();
            for id in some {
                self.haul(&*view.table, issues, id, &mut haul)?;
            }
            if let Some(first) = haul.unsound.first() {
                let more = match haul.unsound.len() {
                    1 => String::new(),
                    many => format!(" (and {} more)", many - 1),
                };
                warnings.push(format!("left alone: {first}{more}; jit validate tells all"));
            }
            if haul.found.is_empty() {
                continue;
            }
            let done = {
                let kept = Kept {
                    texts: &haul.texts,
                    project: false,
                    aside: Some(wait),
                    ..Kept::default()
                };
                self.transact_as(None, &Command::JoinIssues(haul.found), kept)?
            };
            if let Decided::Joined(many) = done.reply {
                joined += many;
            }
        }
        Ok((joined, warnings))
    }

    /// Adds what is new about an issue in a tree.
    fn haul(&self, table: &dyn Table, issues: &Path, id: &IssueId, haul: &mut Haul) -> Outcome<()> {
        let unreadable = |e| refuse(Code::Io, e);
        let folder = match tree::load(issues, id) {
            Ok(Some(folder)) => folder,
            Ok(None) => return Ok(()),
            Err(unsound) => {
                haul.unsound.push(unsound);
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
                haul.unsound.push(unsound);
                return Ok(());
            }
        };
        haul.unsound.extend(
            found
                .problems
                .drain(..)
                .map(|problem| tree::place(issues, id, problem)),
        );
        let known = match state::issue(table, id).map_err(unreadable)? {
            None => state::deleted(table, id).map_err(unreadable)?,
            known => known,
        };
        if let Some(mine) = &known {
            let sheet = state::sheet(table, id).map_err(unreadable)?;
            let seen = state::is_known_file(table, id, &found.digest).map_err(unreadable)?;
            let text_edited = found.edited.contains(&"text") && found.issue.text != mine.text;
            let has = |ours: &[jit_core::sheet::SetLine], theirs: &[jit_core::sheet::SetLine]| {
                theirs.iter().all(|line| ours.contains(line))
            };
            let mut all_said = true;
            for comment in &found.comments {
                all_said &= state::has_comment(table, id, &comment.id).map_err(unreadable)?;
            }
            if seen
                && !text_edited
                && all_said
                && has(&sheet.labels, &found.sheet.labels)
                && has(&sheet.deps, &found.sheet.deps)
            {
                return Ok(());
            }
            if text_edited {
                self.merge_text(mine.text.as_deref(), &mut found, &folder.description, haul)?;
            }
        }
        if let Some(text) = &folder.description
            && found.issue.text.as_deref() == Some(&text_digest(text))
        {
            haul.texts.push(text.clone());
        }
        haul.found.push(found);
        Ok(())
    }

    /// Where both a tree and the replica have moved on from one text, what comes of both.
    fn merge_text(
        &self,
        ours: Option<&str>,
        found: &mut Found,
        theirs: &Option<Vec<u8>>,
        haul: &mut Haul,
    ) -> Outcome<()> {
        let id = &found.issue.id;
        let text = |digest: Option<&str>| match digest {
            Some(digest) => self
                .replica
                .text(id, digest)
                .map_err(|e| io_refusal("read", &self.replica.folder(id), &e)),
            None => Ok(None),
        };
        if ours == found.text_before.as_deref() {
            return Ok(());
        }
        let (Some(base), Some(ours), Some(theirs)) =
            (text(found.text_before.as_deref())?, text(ours)?, theirs)
        else {
            return Ok(());
        };
        // Where they cannot be brought together, the edit stands; the other one is kept among the texts.
        if let Ok(merged) = diffy::merge_bytes(&base, &ours, theirs) {
            found.issue.text = Some(text_digest(&merged));
            haul.texts.push(merged);
        }
        Ok(())
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
        if let Err(e) = self.mirror_lock_files(lines, table) {
            warnings.push(format!("the lock files of activities could not be written: {e}"));
        }
        if let Err(e) = self.note_work(lines) {
            warnings.push(format!(
                "the changelog could not be written: {e}; the next entry will mend it"
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

    fn publish_one(&self, table: &dyn Table, id: &IssueId, project: bool) -> io::Result<()> {
        let known = match state::issue(table, id).map_err(io::Error::other)? {
            None => state::deleted(table, id).map_err(io::Error::other)?,
            known => known,
        };
        let Some(issue) = known else { return Ok(()) };
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
        match std::fs::read(tree.join("issues").join(id.as_str()).join(ISSUE)) {
            Ok(there)
                if !state::is_known_file(table, id, &text_digest(&there)).map_err(io::Error::other)? =>
            {
                return Err(io::Error::other(format!(
                    "{ISSUE} in this worktree has been edited and cannot be read, or not yet: jit issue show {id}"
                )));
            }
            _ => {}
        }
        replica::project(tree, id, &files)
    }
}
