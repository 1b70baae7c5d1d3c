//! A repository in memory: the engine without git, files or processes, for tests.
//!
//! What must hold:
//!
//! - A context that [`MemoryRepository::enter`] made answers as one of a repository does, for everything that is decided
//!   by the log: issues, leases, sessions, locks on files, workflows.
//! - Nothing is written below its place, and git is refused unless [`MemoryRepository::with_git`] gave it a script.
//! - All contexts of one repository see one log, one clock and the same texts.
//!
//! Limitations: see the list in [`ports`](crate::ports). No gate is defined here, because definitions are files of a
//! tree. Waiting for a lease or a lock on files watches files, so it is refused or never woken here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jit_core::log::event::{Event, Stamped};
use jit_core::log::table::Table;
use jit_core::model::actor::Actor;
use jit_core::model::ids::{AgentId, IssueId, WorktreeId};
use jit_core::model::issue::text_digest;
use jit_git::{Git, Place};
use jit_store::memory::MemoryStore;
use jit_store::{Outcome, View};

use crate::api::Options;
use crate::config::Config;
use crate::context::{Context, Followers};
use crate::identity::{Source, Whoami};
use crate::issues::sync::texts::{keep_met, keep_texts};
use crate::ports::{
    Beat, Clock, Files, GitRunner, Heartbeat, Heartbeats, HeldLock, Store, TargetLock, TargetLocks, Texts,
};

/// A repository in memory. Clones share it.
#[derive(Debug, Clone)]
pub struct MemoryRepository {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    texts: Arc<dyn Texts>,
    heartbeats: Arc<dyn Heartbeats>,
    target_locks: Arc<dyn TargetLocks>,
    git: Arc<dyn GitRunner>,
}

impl MemoryRepository {
    /// An empty repository whose time is this clock's.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            store: Arc::new(MemoryStore::new(clock.clone())),
            clock,
            texts: Arc::new(MemoryTexts::default()),
            heartbeats: Arc::new(MemoryHeartbeats::default()),
            target_locks: Arc::new(MemoryTargetLocks::default()),
            git: Arc::new(NoGit),
        }
    }

    /// The same repository, with this in place of git.
    #[must_use]
    pub fn with_git(self, git: Arc<dyn GitRunner>) -> Self {
        Self { git, ..self }
    }

    /// Makes the context of an agent in a worktree. `place` is only a name: nothing is written there.
    pub fn enter(
        &self,
        place: &Path,
        agent: AgentId,
        worktree: WorktreeId,
        options: Options,
    ) -> Outcome<Context> {
        let config = Config::default();
        let actor = Actor {
            agent_id: agent.clone(),
            worktree_id: Some(worktree),
        };
        self.store.create(&actor)?;
        Ok(Context {
            request: options.request.clone(),
            options,
            place: Place::folder(place),
            policy: config.policy(),
            config,
            whoami: Whoami {
                agent_id: agent,
                source: Source::Environment,
                detected_agent: None,
                warnings: Vec::new(),
            },
            actor,
            branch: None,
            store: self.store.clone(),
            clock: self.clock.clone(),
            texts: self.texts.clone(),
            heartbeats: self.heartbeats.clone(),
            target_locks: self.target_locks.clone(),
            git: self.git.clone(),
            followers: &TextsOnly,
            warnings: Vec::new(),
            reminders: Mutex::new(None),
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Refuses to run.
#[derive(Debug)]
struct NoGit;

impl GitRunner for NoGit {
    fn run(&self, _: &Git) -> io::Result<Output> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "a repository in memory has no git",
        ))
    }
}

/// Keeps the long texts that events name, and no files beside the log.
#[derive(Debug)]
struct TextsOnly;

impl Followers for TextsOnly {
    fn log_created(&self, _: &Context) -> Outcome<()> {
        Ok(())
    }

    fn foresee(&self, _: &Context, view: View) -> Outcome<View> {
        Ok(view)
    }

    fn prepare(&self, cx: &Context, events: &[Event], texts: &[Vec<u8>]) -> Outcome<()> {
        keep_texts(cx, events, texts)
    }

    fn publish(
        &self,
        cx: &Context,
        _: &[Stamped],
        _: &dyn Table,
        known: &[(IssueId, Vec<u8>)],
        _: bool,
    ) -> Vec<String> {
        let refused = keep_met(cx, known.iter()).err();
        refused.map(|refusal| refusal.message).into_iter().collect()
    }

    fn heartbeats_changed(&self, _: &Context, _: &View) -> io::Result<()> {
        Ok(())
    }

    fn is_checkout_settled(&self, _: &Context, _: Duration) -> bool {
        true
    }
}

/// Texts and replica in maps, by the id of the issue.
#[derive(Debug, Default)]
struct MemoryTexts {
    texts: Mutex<BTreeMap<(IssueId, String), Vec<u8>>>,
    parts: Mutex<BTreeMap<(IssueId, String), Vec<String>>>,
    replica: Mutex<BTreeMap<IssueId, Files>>,
}

impl Texts for MemoryTexts {
    fn keep(&self, texts: &[(&IssueId, &[u8])]) -> io::Result<()> {
        let new = texts
            .iter()
            .map(|(id, text)| (((*id).clone(), text_digest(text)), text.to_vec()));
        lock(&self.texts).extend(new);
        Ok(())
    }

    fn read(&self, id: &IssueId, digest: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(lock(&self.texts).get(&(id.clone(), digest.to_owned())).cloned())
    }

    fn keep_parts(&self, id: &IssueId, digest: &str, parts: [&str; 2]) -> io::Result<()> {
        let parts = parts.map(str::to_owned).to_vec();
        lock(&self.parts).insert((id.clone(), digest.to_owned()), parts);
        Ok(())
    }

    fn parts(&self, id: &IssueId, digest: &str) -> io::Result<Vec<String>> {
        let parts = lock(&self.parts).get(&(id.clone(), digest.to_owned())).cloned();
        Ok(parts.unwrap_or_default())
    }

    fn refresh(&self, id: &IssueId, files: &[(&'static str, Vec<u8>)]) -> io::Result<()> {
        lock(&self.replica).insert(id.clone(), files.to_vec());
        Ok(())
    }

    fn holds(&self, id: &IssueId, files: &[(&'static str, Vec<u8>)]) -> bool {
        lock(&self.replica)
            .get(id)
            .is_some_and(|there| there.len() == files.len() && there.iter().all(|file| files.contains(file)))
    }

    fn has_left_overs(&self) -> bool {
        false
    }

    fn sweep(&self) -> usize {
        0
    }

    fn folder(&self, id: &IssueId) -> PathBuf {
        Path::new("issues").join(id.as_str())
    }

    fn text_path(&self, id: &IssueId, digest: &str) -> PathBuf {
        self.folder(id).join("texts").join(digest)
    }
}

/// Every process that sent a heartbeat counts as running.
#[derive(Debug, Default)]
struct MemoryHeartbeats(Mutex<BTreeMap<AgentId, Heartbeat>>);

impl Heartbeats for MemoryHeartbeats {
    fn beat(&self, beat: &Heartbeat) -> io::Result<()> {
        lock(&self.0).insert(beat.agent_id.clone(), beat.clone());
        Ok(())
    }

    fn of(&self, agent: &AgentId) -> Option<Beat> {
        let heartbeat = lock(&self.0).get(agent)?.clone();
        Some(Beat {
            heartbeat,
            alive: true,
        })
    }
}

/// The targets that were ever locked, and those that are locked now. Clones share them.
#[derive(Debug, Clone, Default)]
struct MemoryTargetLocks(Arc<TargetTable>);

#[derive(Debug, Default)]
struct TargetTable {
    targets: Mutex<Targets>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct Targets {
    known: BTreeSet<String>,
    locked: BTreeSet<String>,
}

impl TargetLocks for MemoryTargetLocks {
    fn lock(&self, target: &str, wait: Duration) -> Outcome<Option<TargetLock>> {
        let until = Instant::now() + wait;
        let mut targets = lock(&self.0.targets);
        targets.known.insert(target.to_owned());
        while !targets.locked.insert(target.to_owned()) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let woken = self.0.released.wait_timeout(targets, left);
            targets = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(Some(TargetLock::new(MemoryLock {
            table: self.0.clone(),
            target: target.to_owned(),
        })))
    }

    fn known(&self) -> Outcome<Vec<String>> {
        Ok(lock(&self.0.targets).known.iter().cloned().collect())
    }

    fn holders(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

#[derive(Debug)]
struct MemoryLock {
    table: Arc<TargetTable>,
    target: String,
}

impl HeldLock for MemoryLock {
    fn shared(&self) -> Option<File> {
        None
    }

    fn release(&mut self) {
        lock(&self.table.targets).locked.remove(&self.target);
        self.table.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{MemoryTargetLocks, TargetLocks};
    use crate::target_locks::FileTargetLocks;

    #[test]
    fn one_holder_at_a_time_holds_for_both_kinds_of_target_locks() {
        let dir = tempfile::tempdir().expect("a folder");
        let kinds: [&dyn TargetLocks; 2] = [&MemoryTargetLocks::default(), &FileTargetLocks::at(dir.path())];
        for locks in kinds {
            let at_once = |target: &str| locks.lock(target, Duration::ZERO).expect("an answer");
            assert_eq!(locks.known().expect("an answer"), [""; 0], "{locks:?}");
            let held = at_once("a").expect("free");
            assert!(at_once("a").is_none(), "{locks:?}");
            drop(at_once("b").expect("another target"));
            drop(held);
            assert!(at_once("a").is_some(), "{locks:?}");
            let mut known = locks.known().expect("an answer");
            known.sort();
            assert_eq!(known, ["a", "b"], "{locks:?}");
        }
    }
}
