//! The port: every verb that a caller may ask of a store, on one page.
//!
//! - [`Store`] is for every command: change the state, read it, follow the log.
//! - [`Upkeep`] is for the few commands that look after the log itself: `jit validate`, `jit recover`, `jit doctor`.
//!   [`Store::upkeep`] leads to it, so that a caller keeps one object.
//!
//! Both traits are object safe. A caller keeps an `Arc<dyn Store>` and does not know which store it is.
//!
//! What must hold for every implementation (the contract suite in the test kit checks it):
//!
//! - Commands are carried out one after the other, in the order of their sequences.
//! - A yes is durable: a crash or a power loss afterwards does not lose the event.
//! - A no writes nothing.
//! - If the store cannot tell which of the two it was, it refuses with `unknown`. Repeating the command with the same
//!   request id gives the answer.
//! - Reading never writes to the log and never waits for a writer. It also works in `prepare` and `publish`.
//! - Before [`Store::create`] every verb but `now`, `exists` and `create` is refused with `not_initialized`.

use std::fmt::Debug;
use std::ops::ControlFlow;
use std::time::Duration;

use jit_core::decide::command::{Command, CommandReply, Context};
use jit_core::log::event::{Event, Stamped};
use jit_core::log::table::Table;
use jit_core::model::actor::Actor;
use jit_core::model::ids::{LeaseId, RequestId};
use jit_core::model::lease::Lease;
use jit_core::model::policy::Policy;
use jit_core::model::time::{Now, Wall};
use serde::{Deserialize, Serialize};

pub use jit_core::model::refusal::Outcome;

/// An ordered log of events and the state folded from it.
pub trait Store: Debug + Send + Sync {
    /// Decides a command and appends its events. Waits for other writers, at most as long as `ask.wait` allows.
    fn transact(&self, ask: &mut Ask<'_>) -> Outcome<Done>;

    /// Reads the state.
    fn view(&self) -> Outcome<View>;

    /// Reads events with a sequence above `after`, oldest first, until `each` breaks.
    fn events(&self, after: u64, each: &mut dyn FnMut(Stamped) -> ControlFlow<()>) -> Outcome<()>;

    /// Reads the clock that the store compares deadlines with.
    fn now(&self) -> Outcome<Now>;

    /// Whether there is a log.
    fn exists(&self) -> Outcome<bool>;

    /// Makes the log unless there is one. Returns whether it made one.
    fn create(&self, actor: &Actor) -> Outcome<bool>;

    /// Stops all writers until the returned lock is dropped. Readers go on.
    ///
    /// The lock is not reentrant: [`Store::transact`] in the same process is refused with `busy` meanwhile.
    fn hold_still(&self, actor: &Actor) -> Outcome<WriteLock>;

    /// The verbs that look after the log itself.
    fn upkeep(&self) -> &dyn Upkeep;
}

/// Care for the log and the files beside it.
pub trait Upkeep: Debug {
    /// A stamp that differs as soon as a line was appended. `None` if the store cannot tell: then assume a change.
    fn stamp(&self) -> Option<LogStamp>;

    /// The process that acquired the writers' lock last. It may have released the lock since.
    fn lock_holder(&self) -> Option<LockHolder>;

    /// Repairs files beside the log if no writer is at work, for a reader that found them changed
    /// ([`View::views_fine`]). Never waits. Returns a line for each repair.
    fn mend_views(&self, actor: &Actor) -> Vec<String>;

    /// The claim records from before sequence `before`, oldest first, that only a view still has since the log was
    /// recovered.
    fn earlier_claims(&self, _before: u64) -> Outcome<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    /// Compares every line, the folded state and the files beside the log. Changes nothing. Stops writers meanwhile.
    fn validate(&self, actor: &Actor) -> Outcome<LogReport>;

    /// Repairs the log. If lines are lost, begins a new log with the surviving state and keeps the old files in a backup.
    fn salvage(&self, actor: &Actor) -> Outcome<Recovered>;
}

/// A command with everything that decides it, except the time: the store reads its own clock.
pub struct Ask<'a> {
    pub command: &'a Command,
    pub actor: &'a Actor,
    pub branch: Option<String>,
    pub fresh_lease: LeaseId,
    pub policy: &'a Policy,
    pub request: RequestId,
    /// The caller named the request: it may have been carried out before.
    pub repeatable: bool,
    /// Wait at most this long for other writers, then refuse with `busy`. Never longer than the store's own limit, which
    /// holds for `None`.
    pub wait: Option<Duration>,
    /// Called under the store's lock with the events that are about to be appended. A refusal stops the append, and is
    /// the store's answer as it stands.
    pub prepare: &'a mut dyn FnMut(&[Event]) -> Outcome<()>,
    /// Called after the append, still under the lock, to write files that follow from the log. The append stands even if
    /// it fails.
    pub publish: &'a mut Publish<'a>,
}

/// Writes the files that follow from an append: gets the appended lines and the state after them, returns a warning for
/// each file that it could not write.
pub type Publish<'a> = dyn FnMut(&[Stamped], &dyn Table) -> Vec<String> + 'a;

impl Debug for Ask<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ask")
            .field("command", self.command)
            .field("actor", self.actor)
            .finish_non_exhaustive()
    }
}

impl Ask<'_> {
    pub(crate) fn context(&self, now: &Now) -> Context {
        Context {
            now: now.clone(),
            actor: self.actor.clone(),
            branch: self.branch.clone(),
            fresh_lease: self.fresh_lease.clone(),
            policy: self.policy.clone(),
        }
    }
}

/// A yes.
#[derive(Debug)]
pub struct Done {
    pub reply: CommandReply,
    /// The newest sequence in the log when the answer was given.
    pub sequence: u64,
    pub now: Now,
    /// The request had been carried out before; this is its answer.
    pub repeated: bool,
    /// The actor's leases after the command, in every worktree.
    pub own: Vec<Lease>,
    /// Repairs that were made on the way, for the user to know.
    pub notices: Vec<String>,
}

/// The state at one moment.
#[derive(Debug)]
pub struct View {
    pub table: Box<dyn ReadTable>,
    pub sequence: u64,
    pub now: Now,
    pub notices: Vec<String>,
    /// The files beside the log are as the store left them. If not, [`Upkeep::mend_views`] compares and repairs them.
    pub views_fine: bool,
}

/// A table that can be shown in debug output.
pub trait ReadTable: Table + Debug {}
impl<T: Table + Debug> ReadTable for T {}

/// The writers' lock of a store. Dropping it lets other writers go on.
#[must_use = "dropping the lock lets writers go on"]
#[derive(Debug)]
pub struct WriteLock {
    _held: Box<dyn Debug>,
}

impl WriteLock {
    /// `held` releases the lock when it is dropped.
    pub(crate) fn new(held: impl Debug + 'static) -> Self {
        Self {
            _held: Box::new(held),
        }
    }
}

/// Compares two moments of a log: equal stamps mean that nothing was appended in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogStamp {
    pub(crate) len: u64,
    pub(crate) inode: u64,
    pub(crate) changed: i128,
}

/// A process that acquired the writers' lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockHolder {
    pub pid: u32,
    pub agent_id: String,
    pub since: Wall,
    pub ticks: u64,
}

/// The findings of [`Upkeep::validate`].
#[derive(Debug, Default)]
pub struct LogReport {
    pub lines: u64,
    pub segments: u64,
    /// Size of the files of all segments.
    pub bytes: u64,
    /// The number of bytes if no segment were compressed.
    pub text: u64,
    pub leases: u64,
    pub issues: u64,
    pub problems: Vec<LogProblem>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogProblem {
    pub check: &'static str,
    pub message: String,
    /// No data is lost: the next command that meets the problem repairs it.
    pub heals: bool,
    pub help: String,
}

/// The result of [`Upkeep::salvage`].
#[derive(Debug)]
pub enum Recovered {
    /// The log was sound; `mended` lists the repairs beside it.
    Sound { lines: u64, mended: Vec<String> },
    /// Lines were lost. A new log begins with the surviving state.
    Salvaged {
        backup: String,
        lost: u64,
        leases: u64,
        issues: u64,
    },
}
