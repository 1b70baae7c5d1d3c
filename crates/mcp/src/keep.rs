//! Leases that were claimed here are renewed at half of their time, while the agent is connected (B5).
//!
//! What must hold:
//! - only what was claimed through this connection is renewed: what the same agent took elsewhere is not ours to keep;
//! - one timer, to the next lease that is due; without leases there is none;
//! - a lease that cannot be kept is let go of, and the agent is told so at its next call;
//! - a renewal that did not move the end (it lives inside another lease) is not tried again and again.
//!
//! Deadlines are counted by the boot clock, which goes on while the machine sleeps.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use jit_core::command::Target;
use jit_core::ids::{IssueId, LeaseId};
use jit_core::refusal::Code;
use jit_core::time::Wall;
use jit_core::wire::LeaseView;
use jit_engine::app::{App, Options};
use jit_engine::os::clock;
use jit_engine::request::{Reply, Request};
use jit_engine::store::Outcome;
use jit_engine::worktree::identity::Need;
use tokio::sync::Notify;

/// After a failure that may pass, in milliseconds.
const AGAIN: u64 = 5_000;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept {
    issue: Option<IssueId>,
    expires_at: Wall,
    /// When to renew it, by the boot clock, in milliseconds.
    due: u64,
}

#[derive(Debug, Default)]
pub struct Keep {
    /// Whom to renew them for; known from the first call on.
    options: OnceLock<Options>,
    leases: Mutex<BTreeMap<LeaseId, Kept>>,
    lost: Mutex<Vec<String>>,
    changed: Notify,
}

fn now() -> u64 {
    clock::boot_ns() / 1_000_000
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Keep {
    pub fn options(&self, make: impl FnOnce() -> Options) -> &Options {
        self.options.get_or_init(make)
    }

    /// From now on this lease is renewed.
    pub fn begin(&self, lease: &LeaseView) {
        let left = u64::try_from(lease.expires_at.ms() - clock::wall_ms()).unwrap_or(0);
        // Whatever the wall clock says, it is not more than was granted.
        let left = left.min(lease.ttl_secs.saturating_mul(1000));
        let kept = Kept {
            issue: lease.issue_id.clone(),
            expires_at: lease.expires_at,
            due: now().saturating_add(left / 2),
        };
        locked(&self.leases).insert(lease.lease_id.clone(), kept);
        self.changed.notify_one();
    }

    /// It was given back, or its issue is closed.
    pub fn end(&self, issue: &IssueId) {
        locked(&self.leases).retain(|_, kept| kept.issue.as_ref() != Some(issue));
        self.changed.notify_one();
    }

    /// What the agent should know and does not yet.
    pub fn news(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.lost))
    }

    fn due(&self, by: u64) -> Vec<(LeaseId, Kept)> {
        let leases = locked(&self.leases);
        let due = leases.iter().filter(|(_, kept)| kept.due <= by);
        due.map(|(id, kept)| (id.clone(), kept.clone())).collect()
    }

    /// Renews what is due.
    pub fn renew(&self) {
        let Some(options) = self.options.get() else { return };
        for (id, kept) in self.due(now()) {
            self.settle(&id, &kept, renew(options, &id));
        }
    }

    fn settle(&self, id: &LeaseId, kept: &Kept, renewed: Outcome<Reply>) {
        let problem = match renewed {
            Ok(Reply::Lease(lease)) => {
                locked(&self.leases).remove(id);
                if lease.expires_at > kept.expires_at {
                    self.begin(&lease);
                }
                return;
            }
            Ok(_) => return,
            Err(refusal) => refusal,
        };
        if matches!(problem.code, Code::Busy | Code::Unknown | Code::Io) {
            let again = now().saturating_add(AGAIN);
            if let Some(kept) = locked(&self.leases).get_mut(id) {
                kept.due = again;
            }
            return;
        }
        locked(&self.leases).remove(id);
        let what = kept.issue.as_ref().map_or("it", IssueId::as_str);
        locked(&self.lost).push(format!(
            "your claim on {what} could not be renewed: {}",
            problem.message
        ));
    }

    /// For as long as the connection lasts.
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

fn renew(options: &Options, lease: &LeaseId) -> Outcome<Reply> {
    let request = Request::Renew {
        target: Target::Lease(lease.clone()),
        ttl_secs: None,
    };
    let app = App::open(options, Need::Write)?;
    app.handle(request).map(|answer| answer.reply)
}

#[cfg(test)]
mod tests {
    use jit_core::refusal::Refusal;

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
            note: None,
            existing: false,
            regranted: false,
        }
    }

    fn only(keep: &Keep) -> (LeaseId, Kept) {
        let mut all = keep.due(u64::MAX);
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    #[test]
    fn b5_a_lease_is_due_at_half_of_its_time() {
        let keep = Keep::default();
        keep.begin(&lease(1000));
        let (_, kept) = only(&keep);
        assert!(
            kept.due <= now() + 500_000 && kept.due > now() + 400_000,
            "{kept:?}"
        );
        assert_eq!(keep.due(now()), []);
    }

    #[test]
    fn b5_what_was_renewed_is_due_again_and_what_could_not_move_is_not() {
        let keep = Keep::default();
        let first = lease(100);
        keep.begin(&first);
        let (id, kept) = only(&keep);
        let longer = LeaseView {
            expires_at: first.expires_at.plus_secs(50),
            ..first.clone()
        };
        keep.settle(&id, &kept, Ok(Reply::Lease(longer.clone())));
        let (id, kept) = only(&keep);
        assert_eq!(kept.expires_at, longer.expires_at);
        keep.settle(&id, &kept, Ok(Reply::Lease(longer)));
        assert_eq!(keep.due(u64::MAX), []);
        assert_eq!(keep.news(), [] as [String; 0]);
    }

    #[test]
    fn b5_a_lost_lease_is_told_once_and_a_busy_store_is_asked_again() {
        let keep = Keep::default();
        keep.begin(&lease(100));
        let (id, kept) = only(&keep);
        keep.settle(&id, &kept, Err(Box::new(Refusal::new(Code::Busy, "busy"))));
        assert_eq!(only(&keep).0, id);
        assert_eq!(keep.news(), [] as [String; 0]);
        keep.settle(&id, &kept, Err(Box::new(Refusal::new(Code::NotHolder, "gone"))));
        assert_eq!(keep.due(u64::MAX), []);
        assert_eq!(keep.news(), ["your claim on X-1 could not be renewed: gone"]);
        assert_eq!(keep.news(), [] as [String; 0]);
    }

    #[test]
    fn b5_what_was_given_back_is_not_renewed() {
        let keep = Keep::default();
        keep.begin(&lease(100));
        keep.end(&"X-1".parse().expect("an id"));
        assert_eq!(keep.due(u64::MAX), []);
    }
}
