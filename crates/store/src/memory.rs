//! A store in memory: for tests that need no files, and as the shortest reading of the contract.
//!
//! What must hold: it passes the same contract suite as the store in files. It differs in what it is made of: a yes lasts
//! as long as the process, there is one segment, and there are no files beside the log that could need repair.

use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jit_core::decide::{Decision, Draft, decide};
use jit_core::log::event::{Event, LoggedRequest, SegmentReason, Stamped};
use jit_core::log::line::encode_line;
use jit_core::log::table::{MemoryTable, Overlay, Table};
use jit_core::log::{fold, state};
use jit_core::model::actor::Actor;
use jit_core::model::refusal::{Code, Details, Refusal};
use jit_core::model::time::Clock;
use jit_core::model::time::Now;

use crate::port::{
    Ask, Done, LockHolder, LogProblem, LogReport, LogStamp, Outcome, Recovered, Store, Upkeep, View,
    WriteLock,
};
use crate::refusals;

/// The wait for other writers if the caller sets none.
const LOCK_WAIT: Duration = Duration::from_secs(10);

/// The log, once there is one, and the state folded from it.
#[derive(Debug, Default)]
struct Inner {
    table: MemoryTable,
    log: Vec<Stamped>,
}

/// Shared by all handles. `writers` is held for a whole transaction, `inner` only to read or change it: so readers never
/// wait for a writer, and `prepare` and `publish` may read.
#[derive(Debug, Default)]
struct Shared {
    inner: Mutex<Inner>,
    writers: Mutex<Writers>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct Writers {
    locked: bool,
    last: Option<LockHolder>,
}

/// Clones share one log.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    lock_wait: Duration,
    shared: Arc<Shared>,
}

/// The writers' lock; dropping it releases it.
#[derive(Debug)]
struct Guard(Arc<Shared>);

impl Drop for Guard {
    fn drop(&mut self) {
        lock(&self.0.writers).locked = false;
        self.0.released.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unreadable(e: jit_core::log::table::Unreadable) -> Box<Refusal> {
    refusals::from_stop(e.into())
}

impl MemoryStore {
    /// A store without a log: [`Store::create`] makes it.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            lock_wait: LOCK_WAIT,
            shared: Arc::default(),
        }
    }

    /// The same store for a caller that waits at most this long for other writers.
    #[must_use]
    pub fn with_lock_wait(mut self, wait: Duration) -> Self {
        self.lock_wait = wait;
        self
    }

    /// The log and the state, if there is a log.
    fn inner(&self) -> Outcome<MutexGuard<'_, Inner>> {
        let inner = lock(&self.shared.inner);
        if inner.log.is_empty() {
            return Err(refusals::not_initialized());
        }
        Ok(inner)
    }

    /// Acquires the writers' lock.
    fn lock(&self, actor: &Actor, wait: Duration) -> Outcome<Guard> {
        let until = Instant::now() + wait;
        let mut writers = lock(&self.shared.writers);
        while writers.locked {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(busy(wait, writers.last.as_ref()));
            }
            let woken = self.shared.released.wait_timeout(writers, left);
            writers = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        let now = self.now()?;
        writers.locked = true;
        writers.last = Some(LockHolder {
            pid: std::process::id(),
            agent_id: actor.agent_id.to_string(),
            since: now.wall,
            ticks: now.ticks,
        });
        Ok(Guard(self.shared.clone()))
    }

    /// The state to decide on, and the sequence it is at.
    fn snapshot(&self) -> Outcome<(MemoryTable, u64)> {
        let inner = self.inner()?;
        Ok((inner.table.clone(), inner.log.len() as u64))
    }

    /// Appends a transaction.
    fn commit(&self, draft: Draft<'_>, request: Option<&LoggedRequest>) -> Outcome<Vec<Stamped>> {
        let (lines, changes) = draft.finish(request).map_err(unreadable)?;
        for line in &lines {
            let mut bytes = Vec::new();
            encode_line(&mut bytes, line, 0, 0);
            refusals::refuse_long_line(bytes.len())?;
        }
        let mut inner = lock(&self.shared.inner);
        inner.table.absorb(changes);
        inner.log.extend(lines.iter().cloned());
        Ok(lines)
    }

    /// Records a boot that the log does not know yet: deadlines are counted in ticks of a boot.
    fn anchor(&self, now: &Now, actor: &Actor) -> Outcome<()> {
        let (table, sequence) = self.snapshot()?;
        let anchor = state::anchor(&table).map_err(unreadable)?;
        if anchor.is_some_and(|anchor| anchor.boot_id == now.boot) {
            return Ok(());
        }
        let mut draft = Draft::new(&table, sequence, now.wall, actor.clone());
        draft.emit(boot(now)).map_err(unreadable)?;
        self.commit(draft, None).map(drop)
    }

    /// The events that answered a request before; empty if there are none.
    fn earlier(&self, request: &LoggedRequest) -> Outcome<Vec<Event>> {
        let inner = self.inner()?;
        let mut events = Vec::new();
        for line in &inner.log {
            match &line.request {
                Some(before) if before.id == request.id && before.digest != request.digest => {
                    return Err(refusals::request_reused(&request.id));
                }
                Some(before) if before.id == request.id => events.push(line.event.clone()),
                _ => {}
            }
        }
        Ok(events)
    }
}

fn boot(now: &Now) -> Event {
    Event::Boot {
        boot: now.boot.clone(),
        ticks: now.ticks,
    }
}

fn busy(wait: Duration, holder: Option<&LockHolder>) -> Box<Refusal> {
    let mut message = format!("the store's lock was not free within {} s", wait.as_secs_f32());
    let mut facts = Vec::new();
    if let Some(holder) = holder {
        message.push_str(&format!(
            ": held by process {} of {} since {}",
            holder.pid, holder.agent_id, holder.since
        ));
        facts.push(("pid", holder.pid.to_string()));
        facts.push(("agent_id", holder.agent_id.clone()));
        facts.push(("since", holder.since.to_string()));
    }
    Box::new(
        Refusal::new(Code::Busy, message)
            .help("run the command again, or give it more time with --lock-timeout 60s")
            .details(Details::Facts(facts)),
    )
}

impl Store for MemoryStore {
    fn transact(&self, ask: &mut Ask<'_>) -> Outcome<Done> {
        let wait = ask.wait.map_or(self.lock_wait, |wait| wait.min(self.lock_wait));
        self.inner().map(drop)?;
        let _guard = self.lock(ask.actor, wait)?;
        let now = self.now()?;
        self.anchor(&now, ask.actor)?;
        let request = LoggedRequest {
            id: ask.request.clone(),
            digest: ask.command.digest(ask.actor),
        };
        let earlier = if ask.repeatable {
            self.earlier(&request)?
        } else {
            Vec::new()
        };
        let repeated = !earlier.is_empty();
        let mut notices = Vec::new();
        let reply = if repeated {
            ask.command.reply(&earlier)
        } else {
            let (table, sequence) = self.snapshot()?;
            let mut draft = Draft::new(&table, sequence, now.wall, ask.actor.clone());
            let answer = decide(&mut draft, ask.command, &ask.context(&now)).map_err(refusals::from_stop)?;
            notices.extend(draft.take_notices());
            match answer {
                Decision::Already(reply) => Some(reply),
                Decision::Done => {
                    let events = draft.events().to_vec();
                    (ask.prepare)(&events)?;
                    let lines = self.commit(draft, Some(&request))?;
                    let (table, _) = self.snapshot()?;
                    notices.extend((ask.publish)(&lines, &table));
                    ask.command.reply(&events)
                }
            }
        };
        let (table, sequence) = self.snapshot()?;
        Ok(Done {
            reply: reply.ok_or_else(refusals::no_reply)?,
            sequence,
            now,
            repeated,
            own: state::leases_of(&table, &ask.actor.agent_id).map_err(unreadable)?,
            notices,
        })
    }

    fn view(&self) -> Outcome<View> {
        let now = self.now()?;
        let (mut table, sequence) = self.snapshot()?;
        let anchor = state::anchor(&table).map_err(unreadable)?;
        if anchor.is_some_and(|anchor| anchor.boot_id != now.boot) {
            // The first writer of this boot will record it; readers see its effect already.
            let before = table.clone();
            let mut overlay = Overlay::new(&before);
            fold::reanchor(&mut overlay, &now.boot, now.ticks, now.wall).map_err(unreadable)?;
            table.absorb(overlay.changes);
        }
        Ok(View {
            table: Box::new(table),
            sequence,
            now,
            notices: Vec::new(),
            views_fine: true,
        })
    }

    fn events(&self, after: u64, each: &mut dyn FnMut(Stamped) -> ControlFlow<()>) -> Outcome<()> {
        // Copied: `each` may read the store.
        let first = usize::try_from(after).unwrap_or(usize::MAX);
        let log = self.inner()?.log.get(first..).unwrap_or_default().to_vec();
        for line in log {
            if each(line).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn now(&self) -> Outcome<Now> {
        self.clock.now().map_err(|e| refusals::clock_unreadable(&e))
    }

    fn exists(&self) -> Outcome<bool> {
        Ok(!lock(&self.shared.inner).log.is_empty())
    }

    fn create(&self, actor: &Actor) -> Outcome<bool> {
        let _guard = self.lock(actor, self.lock_wait)?;
        if self.exists()? {
            return Ok(false);
        }
        let now = self.now()?;
        let empty = MemoryTable::default();
        let mut draft = Draft::new(&empty, 0, now.wall, actor.clone());
        let reason = SegmentReason::Created;
        draft.emit(Event::SegmentStarted { reason }).map_err(unreadable)?;
        draft.emit(boot(&now)).map_err(unreadable)?;
        self.commit(draft, None)?;
        Ok(true)
    }

    fn hold_still(&self, actor: &Actor) -> Outcome<WriteLock> {
        self.inner().map(drop)?;
        Ok(WriteLock::new(self.lock(actor, self.lock_wait)?))
    }

    fn upkeep(&self) -> &dyn Upkeep {
        self
    }
}

impl Upkeep for MemoryStore {
    fn stamp(&self) -> Option<LogStamp> {
        let len = self.inner().ok()?.log.len() as u64;
        Some(LogStamp {
            len,
            inode: 0,
            changed: 0,
        })
    }

    fn lock_holder(&self) -> Option<LockHolder> {
        lock(&self.shared.writers).last.clone()
    }

    /// There are no files beside this log.
    fn mend_views(&self, _: &Actor) -> Vec<String> {
        Vec::new()
    }

    /// Folds the log again and compares it with the state.
    fn validate(&self, actor: &Actor) -> Outcome<LogReport> {
        self.inner().map(drop)?;
        let _guard = self.lock(actor, self.lock_wait)?;
        let inner = self.inner()?;
        let empty = MemoryTable::default();
        let mut overlay = Overlay::new(&empty);
        for line in &inner.log {
            fold::apply(&mut overlay, line).map_err(unreadable)?;
        }
        let mut folded = MemoryTable::default();
        folded.absorb(overlay.changes);
        let mut report = LogReport {
            lines: inner.log.len() as u64,
            segments: 1,
            bytes: 0,
            text: 0,
            leases: state::leases(&folded).map_err(unreadable)?.len() as u64,
            issues: state::issues(&folded).map_err(unreadable)?.len() as u64,
            problems: Vec::new(),
        };
        let records = |table: &MemoryTable| table.scan("", usize::MAX).map_err(unreadable);
        if records(&folded)? != records(&inner.table)? {
            report.problems.push(LogProblem {
                check: "state",
                message: "the folded state does not say what the log says".into(),
                heals: false,
                help: "jit recover".into(),
            });
        }
        Ok(report)
    }

    /// A log in memory loses no lines.
    fn salvage(&self, actor: &Actor) -> Outcome<Recovered> {
        self.inner().map(drop)?;
        let _guard = self.lock(actor, self.lock_wait)?;
        Ok(Recovered::Sound {
            lines: self.inner()?.log.len() as u64,
            mended: Vec::new(),
        })
    }
}
