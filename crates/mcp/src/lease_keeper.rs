//! Renews the leases of the connected agent, claims and file locks, at half of their time (B5).
//!
//! What must hold:
//! - Only leases that were acquired through this connection are renewed, not those that the same agent acquired elsewhere.
//! - File locks that are due together are extended together. If one cannot be extended, the others still are.
//! - There is one timer, for the next lease that is due; without leases there is none.
//! - A lease that cannot be renewed is dropped, and the agent gets a warning with its next call.
//! - A renewal that did not move the deadline (the lease is inside another lease) is not repeated.
//!
//! Deadlines are counted by the boot clock, which goes on while the machine sleeps.

use jit_engine::api::claims::ClaimReply;
use jit_engine::api::claims::ClaimRequest;
use jit_engine::api::file_locks::FileLockReply;
use jit_engine::api::file_locks::FileLockRequest;
use jit_engine::api::file_locks::Locks;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use jit_core::decide::command::Target;
use jit_core::model::ids::{IssueId, LeaseId};
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::time::Wall;
use jit_core::query::claim_views::LeaseView;
use jit_core::query::session_and_lock_views::LockView;
use jit_engine::api::Options;
use jit_engine::api::file_locks::OwnLocks;
use jit_engine::api::{Reply, Request};
use jit_os::clock;
use jit_store::Outcome;
use tokio::sync::Notify;

/// The wait after a temporary failure, in milliseconds.
const AGAIN: u64 = 5_000;

#[derive(Debug, Clone, PartialEq, Eq)]
struct KeptLease {
    /// Its resource, for messages.
    what: String,
    is_lock: bool,
    issue: Option<IssueId>,
    expires_at: Wall,
    /// When to renew it, by the boot clock, in milliseconds.
    due: u64,
}

impl KeptLease {
    fn new(what: String, issue: Option<IssueId>, expires_at: Wall) -> Self {
        let left = u64::try_from(expires_at.ms().saturating_sub(clock::wall_ms())).unwrap_or(0);
        Self {
            what,
            is_lock: false,
            issue,
            expires_at,
            due: now().saturating_add(left / 2),
        }
    }
}

#[derive(Debug, Default)]
pub struct LeaseKeeper {
    /// The agent to renew for; known from the first call on.
    options: OnceLock<Options>,
    leases: Mutex<BTreeMap<LeaseId, KeptLease>>,
    lost: Mutex<Vec<String>>,
    changed: Notify,
}

fn now() -> u64 {
    clock::boot_ns() / 1_000_000
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LeaseKeeper {
    pub fn options(&self, make: impl FnOnce() -> Options) -> &Options {
        self.options.get_or_init(make)
    }

    /// Renews this claim from now on.
    pub fn begin(&self, lease: &LeaseView) {
        let what = lease.issue_id.as_ref().map_or("?", IssueId::as_str);
        let kept = KeptLease::new(
            format!("claim on {what}"),
            lease.issue_id.clone(),
            lease.expires_at,
        );
        self.insert(&lease.lease_id, kept);
    }

    /// Renews this lock from now on.
    pub fn begin_lock(&self, lock: &LockView) {
        let kept = KeptLease {
            is_lock: true,
            ..KeptLease::new(format!("lock on {}", lock.file_path), None, lock.expires_at)
        };
        self.insert(&lock.lease_id, kept);
    }

    fn insert(&self, id: &LeaseId, kept: KeptLease) {
        locked(&self.leases).insert(id.clone(), kept);
        self.changed.notify_one();
    }

    /// Stops renewing a lease that was released.
    pub fn end_lease(&self, id: &LeaseId) {
        locked(&self.leases).remove(id);
        self.changed.notify_one();
    }

    /// Stops renewing the lease on an issue that was released or closed.
    pub fn end(&self, issue: &IssueId) {
        locked(&self.leases).retain(|_, kept| kept.issue.as_ref() != Some(issue));
        self.changed.notify_one();
    }

    /// Warnings for the agent since the last call.
    pub fn news(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.lost))
    }

    fn due(&self, by: u64) -> Vec<(LeaseId, KeptLease)> {
        let leases = locked(&self.leases);
        let due = leases.iter().filter(|(_, kept)| kept.due <= by);
        due.map(|(id, kept)| (id.clone(), kept.clone())).collect()
    }

    /// Renews the leases that are due.
    pub fn renew(&self) {
        let Some(options) = self.options.get() else { return };
        let (locks, claims): (Vec<_>, Vec<_>) =
            self.due(now()).into_iter().partition(|(_, kept)| kept.is_lock);
        for (id, kept) in claims {
            let request = ClaimRequest::Renew {
                target: Target::Lease(id.clone()),
                ttl_secs: None,
            };
            self.settle(&id, &kept, ask(options, request));
        }
        if locks.is_empty() {
            return;
        }
        let extend = |locks: &[(LeaseId, KeptLease)]| {
            let leases = locks.iter().map(|(id, _)| id.clone()).collect();
            let which = OwnLocks::Leases(leases);
            ask(
                options,
                FileLockRequest::Extend {
                    which,
                    ttl_secs: None,
                },
            )
        };
        match extend(&locks) {
            Err(refusal) if refusal.code == Code::NotAllowed => {
                for lock in locks.chunks(1) {
                    self.settle_locks(lock, extend(lock));
                }
            }
            other => self.settle_locks(&locks, other),
        }
    }

    /// Releases all file locks, because the client has disconnected and edits no files any more. Claims stay until they
    /// expire.
    pub fn release_locks(&self) {
        let Some(options) = self.options.get() else { return };
        let held: Vec<LeaseId> = locked(&self.leases)
            .iter()
            .filter(|(_, kept)| kept.is_lock)
            .map(|(id, _)| id.clone())
            .collect();
        for id in held {
            // A lease that expired or was evicted needs no release.
            let target = Target::Lease(id);
            let _ = ask(options, ClaimRequest::Release { target });
        }
    }

    fn settle_locks(&self, due: &[(LeaseId, KeptLease)], extended: Outcome<Reply>) {
        let extended = match extended {
            Ok(Reply::FileLocks(FileLockReply::Locks(Locks { locks }))) => locks,
            Ok(_) => return,
            Err(refusal) => {
                for (id, kept) in due {
                    self.settle(id, kept, Err(refusal.clone()));
                }
                return;
            }
        };
        for (id, kept) in due {
            match extended.iter().find(|lock| lock.lease_id == *id) {
                Some(lock) if lock.expires_at > kept.expires_at => self.begin_lock(lock),
                Some(_) => self.end_lease(id),
                None => {
                    let gone = Refusal::new(Code::NotHolder, "it is not yours any more");
                    self.settle(id, kept, Err(Box::new(gone)));
                }
            }
        }
    }

    fn settle(&self, id: &LeaseId, kept: &KeptLease, renewed: Outcome<Reply>) {
        let problem = match renewed {
            Ok(Reply::Claims(ClaimReply::Lease(lease))) => {
                locked(&self.leases).remove(id);
                if lease.expires_at > kept.expires_at {
                    let again = KeptLease::new(kept.what.clone(), kept.issue.clone(), lease.expires_at);
                    self.insert(&lease.lease_id, again);
                }
                return;
            }
            Ok(_) => return,
            Err(refusal) => refusal,
        };
        let over = kept.expires_at.ms() <= clock::wall_ms();
        if matches!(problem.code, Code::Busy | Code::Unknown | Code::Io) && !over {
            let again = now().saturating_add(AGAIN);
            if let Some(kept) = locked(&self.leases).get_mut(id) {
                kept.due = again;
            }
            return;
        }
        locked(&self.leases).remove(id);
        locked(&self.lost).push(format!(
            "your {} could not be renewed: {}",
            kept.what, problem.message
        ));
    }

    /// Renews leases for as long as the connection lasts.
    pub async fn run(self: Arc<Self>) {
        loop {
            let next = locked(&self.leases).values().map(|kept| kept.due).min();
            match next {
                None => self.changed.notified().await,
                Some(due) => {
                    let wait = Duration::from_millis(due.saturating_sub(now()));
                    tokio::select! {
                        () = tokio::time::sleep(wait) => self.renew(),
                        () = self.changed.notified() => {}
                    }
                }
            }
        }
    }
}

fn ask(options: &Options, request: impl Into<Request>) -> Outcome<Reply> {
    jit_engine::handle::ask(options, request).map(|answer| answer.reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(ttl_secs: u64) -> LeaseView {
        let at = Wall::from_ms(clock::wall_ms());
        LeaseView {
            lease_id: LeaseId::generate(clock::wall_ms(), 7),
            issue_id: Some("X-1".parse().expect("an id")),
            agent_id: "agent:a".parse().expect("an id"),
            worktree_id: None,
            branch: None,
            ttl_secs,
            acquired_at: at,
            expires_at: at.plus_secs(ttl_secs),
            token: 1,
            parent: None,
            on_behalf_of: None,
            session_id: None,
            note: None,
            existing: false,
            regranted: false,
        }
    }

    fn only(keeper: &LeaseKeeper) -> (LeaseId, KeptLease) {
        let mut all = keeper.due(u64::MAX);
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    #[test]
    fn b5_a_lease_is_due_at_half_of_its_time() {
        let keeper = LeaseKeeper::default();
        keeper.begin(&lease(1000));
        let (_, kept) = only(&keeper);
        assert!(
            kept.due <= now() + 500_000 && kept.due > now() + 400_000,
            "{kept:?}"
        );
        assert_eq!(keeper.due(now()), []);
    }

    #[test]
    fn b5_what_was_renewed_is_due_again_and_what_could_not_move_is_not() {
        let keeper = LeaseKeeper::default();
        let first = lease(100);
        keeper.begin(&first);
        let (id, kept) = only(&keeper);
        let longer = LeaseView {
            expires_at: first.expires_at.plus_secs(50),
            ..first.clone()
        };
        keeper.settle(&id, &kept, Ok(Reply::Claims(ClaimReply::Lease(longer.clone()))));
        let (id, kept) = only(&keeper);
        assert_eq!(kept.expires_at, longer.expires_at);
        keeper.settle(&id, &kept, Ok(Reply::Claims(ClaimReply::Lease(longer))));
        assert_eq!(keeper.due(u64::MAX), []);
        assert_eq!(keeper.news(), [] as [String; 0]);
    }

    #[test]
    fn b5_a_lost_lease_is_told_once_and_a_busy_store_is_asked_again() {
        let keeper = LeaseKeeper::default();
        keeper.begin(&lease(100));
        let (id, kept) = only(&keeper);
        keeper.settle(&id, &kept, Err(Box::new(Refusal::new(Code::Busy, "busy"))));
        assert_eq!(only(&keeper).0, id);
        assert_eq!(keeper.news(), [] as [String; 0]);
        keeper.settle(&id, &kept, Err(Box::new(Refusal::new(Code::NotHolder, "gone"))));
        assert_eq!(keeper.due(u64::MAX), []);
        assert_eq!(keeper.news(), ["your claim on X-1 could not be renewed: gone"]);
        assert_eq!(keeper.news(), [] as [String; 0]);
    }

    #[test]
    fn b5_what_was_given_back_is_not_renewed() {
        let keeper = LeaseKeeper::default();
        keeper.begin(&lease(100));
        keeper.end(&"X-1".parse().expect("an id"));
        assert_eq!(keeper.due(u64::MAX), []);
    }
}
