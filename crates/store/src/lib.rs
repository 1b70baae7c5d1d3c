//! The store: one ordered log of events, shared by everyone who works on the repository, and the state folded from it.
//!
//! [`Store`] is the port. What must hold for every implementation (the contract suite in the test kit checks it):
//!
//! - commands are carried out one after the other, in the order of their sequences;
//! - a yes is durable: whatever is killed or loses power afterwards, the event is there;
//! - a no writes nothing;
//! - when it cannot be told which of the two it was, the answer is `unknown`, and repeating the command with the same
//!   request id finds out;
//! - reading never writes to the log and never waits for a writer.

pub mod disk;
pub mod file;
pub mod folded;
pub mod journal;
pub mod log;
pub mod memory;
pub mod recover;
pub mod run;
pub mod views;

use std::fmt::Debug;
use std::io;
use std::ops::ControlFlow;

use jit_core::decide::command::{Command, CommandReply, Context};
use jit_core::log::event::{Event, Stamped};
use jit_core::log::table::Table;
use jit_core::model::actor::Actor;
use jit_core::model::ids::{LeaseId, RequestId};
use jit_core::model::lease::Lease;
use jit_core::model::policy::Policy;
use jit_core::model::time::Now;

pub use jit_core::model::refusal::Outcome;

pub use jit_core::model::time::Clock;

/// What writes the files that follow from an append, and says what it could not do.
pub type Publish<'a> = dyn FnMut(&[Stamped], &dyn Table) -> Vec<String> + 'a;

/// A command with everything it is decided by, except the time, which is the store's.
pub struct Ask<'a> {
    pub command: &'a Command,
    pub actor: &'a Actor,
    pub branch: Option<String>,
    pub fresh_lease: LeaseId,
    pub policy: &'a Policy,
    pub request: RequestId,
    /// The caller named the request: it may have been carried out before.
    pub repeatable: bool,
    /// Called with the events that are about to be appended, under the store's lock. An error stops the append.
    pub prepare: &'a mut dyn FnMut(&[Event]) -> io::Result<()>,
    /// Called after the append with its lines and the state as it is now, still under the lock: for files that follow
    /// from the log. What could not be done is said, not failed for.
    pub publish: &'a mut Publish<'a>,
}

impl Debug for Ask<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ask")
            .field("command", self.command)
            .field("actor", self.actor)
            .finish_non_exhaustive()
    }
}

impl Ask<'_> {
    fn context(&self, now: &Now) -> Context {
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
    /// The newest sequence in the log when it was given.
    pub sequence: u64,
    pub now: Now,
    /// The request had been carried out before; this is its answer.
    pub repeated: bool,
    /// What the actor holds now, in any worktree.
    pub own: Vec<Lease>,
    /// What was found and repaired on the way, for the user to know.
    pub notices: Vec<String>,
}

/// The state at one moment.
#[derive(Debug)]
pub struct View {
    pub table: Box<dyn ReadTable>,
    pub sequence: u64,
    pub now: Now,
    pub notices: Vec<String>,
    /// Files beside the log are as they were left. False is a reason to look closer, not a fault.
    pub views_fine: bool,
}

/// A table that can be shown in debug output.
pub trait ReadTable: Table + Debug {}
impl<T: Table + Debug> ReadTable for T {}

pub trait Store: Debug {
    fn transact(&self, ask: &mut Ask<'_>) -> Outcome<Done>;

    fn view(&self) -> Outcome<View>;

    /// Events with a sequence above `after`, oldest first, until `each` breaks.
    fn events(&self, after: u64, each: &mut dyn FnMut(Stamped) -> ControlFlow<()>) -> Outcome<()>;
}
