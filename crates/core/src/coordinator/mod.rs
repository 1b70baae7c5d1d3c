//! The next steps of a workflow (G9, G10, G12, G13). Pure: from the state of everything follow the steps to take now.
//!
//! [`CoordinatorInput::next`] remembers nothing: it may be asked again after all of its steps, after some or after none. A step
//! says "make sure that", so taking it twice, or late, changes nothing (the engine looks at the unit first). The policy:
//!
//! 1. **Order.** A unit begins when everything it depends on has landed; its worktree is made from the target that has it.
//!    Of the units that can begin, the first in the plan begins first. Each uses a bounded number of attempts, so the units
//!    behind it get their turn: nothing starves.
//! 2. **Room.** At most `max_concurrent` agents run, and no more worktrees wait for one than there is room. Two starts
//!    are `stagger` apart, and more on an account that was refused ([`crate::model::account`]). No agent is started on an
//!    account that is parked; units of other accounts go on.
//! 3. **Money.** At the cap of the workflow or of the day nothing new is started, and running agents go on. Above the cap and
//!    a margin running agents are stopped, and their work is kept. The next day lifts the cap of the day. The cap of a workflow
//!    stays, so units that have not begun never will. [`alerts`] warns before.
//! 4. **Retries.** A failed unit is retried at most `max_retries` times, later each time, by [`cure`]. A conflict goes
//!    back to the unit's agent at most `max_conflict_rounds` times; after that it waits for a person.
//!    A unit whose account was refused goes on when the account may be used again, as often as it takes and without using up
//!    a retry; after [`LONGEST_PARKED_MS`] it waits for a person.
//! 5. **Final failures.** A unit that failed for good stays as it is, for a person to look at; only a worktree without any work
//!    is removed. Its claim is given back. Units that depend on it are skipped.
//! 6. **Trouble.** A step that failed is tried again, later each time. After [`CoordinatorLimits::max_trouble`] times a
//!    worktree is not made, an agent not started and a failure not retried any more; a landing waits for a person, and
//!    is tried now and then; a worktree that cannot be removed and a claim that cannot be given back are left.
//! 7. **Collisions.** A unit that says where it writes does not begin while another unit works in the same place, or
//!    a lock keeps all of a part of it. It takes no room meanwhile. A unit that does not say where it writes never waits
//!    for this.
//! 8. **Cancelled.** Agents are stopped, landings that have begun are finished, work is kept, and the workflow ends.
//!
//! It is total: whatever the phases and facts are, there is a step, or something named to wait for, or the end.

mod collisions;
mod next_steps;

use std::collections::BTreeMap;

use crate::model::account::{Account, AccountId};
use crate::model::cost::{Tokens, Usd};
use crate::model::failure_reason;
use crate::model::glob::Pattern;
use crate::model::ids::{UnitId, WorkflowId};
use crate::model::plan::Plan;
use crate::model::time::Wall;
use crate::model::unit::Unit;
use crate::model::workflow::WorkflowOutcome;

/// Why an agent is told to end, where it matters afterwards.
pub const WORKFLOW_BUDGET: &str = "the workflow's budget is used up";
pub const DAY_BUDGET: &str = "the day's budget is used up";
/// Followed by who gets it.
pub const HANDED_ON: &str = "it is handed to ";

/// A unit whose account is refused for so long waits for a person.
pub const LONGEST_PARKED_MS: u64 = 86_400_000;

/// Whether the agent of a unit's last attempt runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AgentStatus {
    /// It was never started.
    #[default]
    None,
    Running,
    /// It ended, and it is written down how.
    Ended,
    /// Its shim is gone and recorded no end.
    Lost,
}

/// Kinds of steps for a unit, to remember which of them could not be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepKind {
    Create,
    Dispatch,
    Launch,
    Running,
    Settle,
    Retry,
    Resolve,
    Stop,
    Land,
    Clean,
    Abandon,
    GiveBack,
}

/// A step for a unit that could not be done, in this life of the coordinator. Forgotten when it could. An attempt that
/// went back to READY because nothing could be started is a trouble of [`StepKind::Dispatch`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepTrouble {
    /// So often in a row.
    pub times: u32,
    /// The last time.
    pub at: Wall,
    /// The message of the last failure.
    pub why: String,
}

/// A unit of the plan and all that is known about it.
#[derive(Debug, Clone)]
pub struct PlanMember {
    pub id: UnitId,
    /// The last unit of this name, of whichever workflow.
    pub unit: Option<Unit>,
    pub seen: AgentStatus,
    /// The session of its last attempt can be gone on with.
    pub resumable: bool,
    /// The claim on its issue is held for it.
    pub claimed: bool,
    /// Its agent was told to end.
    pub stopping: bool,
    /// The landing put its conflict into its worktree, and it has not been settled there.
    pub sent_back: bool,
    /// Paths it has changed up to now. Filled for a unit at work that does not say where it writes.
    pub touched: Vec<Pattern>,
    pub troubles: BTreeMap<StepKind, StepTrouble>,
}

/// Paths that somebody is at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occupied {
    /// A unit, or who holds a lock.
    pub by: String,
    pub paths: Vec<Pattern>,
    /// When that ends by itself.
    pub until: Option<Wall>,
}

/// A unit cannot begin because of somebody else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collision {
    pub unit: UnitId,
    /// A unit, or who holds a lock.
    pub with: String,
    /// Where both would write, in the words of the other.
    pub path: String,
    pub until: Option<Wall>,
}

/// Dollars and tokens that were spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spending {
    pub usd: Usd,
    pub tokens: Tokens,
}

/// Dollars and tokens that may be spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cap {
    pub usd: Option<Usd>,
    pub tokens: Option<u64>,
}

impl Cap {
    /// How much of it is used, in percent of the tightest bound; nothing when there is none.
    fn used(&self, spent: &Spending) -> u64 {
        let share = |used: u64, cap: u64| match cap {
            // A cap of nothing is met from the beginning, and passed with the first coin.
            0 => 100 + 1000 * u64::from(used > 0),
            _ => u64::try_from(u128::from(used) * 100 / u128::from(cap)).unwrap_or(u64::MAX),
        };
        let usd = self.usd.map_or(0, |cap| share(spent.usd.0, cap.0));
        let tokens = self.tokens.map_or(0, |cap| share(spent.tokens.total(), cap));
        usd.max(tokens)
    }
}

/// Facts about the workflow besides its units. Running agents are counted in.
#[derive(Debug, Clone)]
pub struct WorkflowFacts {
    pub spent: Spending,
    /// By everybody in this repository, today.
    pub spent_today: Spending,
    /// When tomorrow begins.
    pub day_ends: Wall,
    pub cancelled: bool,
    /// Accounts that were refused, in the whole repository.
    pub accounts: Vec<Account>,
    /// Units at work that are not of this workflow, with where they write.
    pub others: Vec<Occupied>,
    /// Locks on files that keep everybody else out, in every worktree.
    pub locks: Vec<Occupied>,
}

/// The rules of the configuration. Those of the plan are in the plan.
#[derive(Debug, Clone)]
pub struct CoordinatorLimits {
    pub workflow: Cap,
    pub day: Cap,
    /// In percent of a cap.
    pub alert_at: u64,
    /// Running agents are stopped so many percent above a cap.
    pub margin: u64,
    /// Where the plan says nothing.
    pub max_retries: u32,
    /// Rounds of conflicts that are sent back, as the landing counts them.
    pub max_conflict_rounds: u32,
    pub max_trouble: u32,
    pub backoff_ms: u64,
    pub backoff_max_ms: u64,
    /// The seed of the jitter: any number, the same for the whole workflow.
    pub seed: u64,
}

impl Default for CoordinatorLimits {
    fn default() -> Self {
        Self {
            workflow: Cap::default(),
            day: Cap::default(),
            alert_at: 80,
            margin: 10,
            max_retries: 2,
            max_conflict_rounds: 3,
            max_trouble: 4,
            backoff_ms: 5_000,
            backoff_max_ms: 300_000,
            seed: 0,
        }
    }
}

/// The budget that is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purse {
    Workflow,
    Day,
}

/// Money is running out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alert {
    pub of: Purse,
    /// So much of it is used.
    pub percent: u64,
}

/// Something to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextStep {
    /// Its worktree is there (T1, T2).
    Create(UnitId),
    /// READY: an attempt begins (T4).
    Dispatch {
        unit: UnitId,
        resume: bool,
    },
    /// DISPATCHED, and nobody started its agent yet: the one attempt is started.
    Launch(UnitId),
    /// DISPATCHED, and its agent runs (T5).
    Running(UnitId),
    /// Its attempt ended, or whoever watched over it is lost, or it was not started and shall not be: judged and written
    /// down (T6, T7, T8).
    Settle(UnitId),
    /// FAILED: back to READY (T12).
    Retry(UnitId),
    /// FAILED by a conflict: it is tried once more, and a conflict is put into its worktree for its agent (T9, T10, T14).
    SendBack(UnitId),
    /// FAILED by a conflict that is in its worktree: READY for its agent to settle it (T12).
    Resolve(UnitId),
    /// Its agent is to end, its work kept.
    Stop {
        unit: UnitId,
        why: String,
    },
    /// These go to the target, in whatever order merges best (T9, T10, T14).
    Land(Vec<UnitId>),
    /// Its worktree is removed (T11); of one that was given up, what is of worth is kept elsewhere.
    Clean(UnitId),
    /// No agent has worked in it and none will (T13).
    Abandon {
        unit: UnitId,
        why: String,
    },
    /// It will not go on: its issue is free for others.
    GiveBack(UnitId),
    /// Nothing to do before that time, or before one of these happens.
    Wait {
        until: Option<Wall>,
        why: Vec<Awaited>,
    },
    End(WorkflowOutcome),
}

impl NextStep {
    /// The kind under which a failure of this step is remembered.
    pub fn task(&self) -> Option<StepKind> {
        Some(match self {
            Self::Create(_) => StepKind::Create,
            Self::Dispatch { .. } => StepKind::Dispatch,
            Self::Launch(_) => StepKind::Launch,
            Self::Running(_) => StepKind::Running,
            Self::Settle(_) => StepKind::Settle,
            Self::Retry(_) => StepKind::Retry,
            Self::SendBack(_) | Self::Resolve(_) => StepKind::Resolve,
            Self::Stop { .. } => StepKind::Stop,
            Self::Land(_) => StepKind::Land,
            Self::Clean(_) => StepKind::Clean,
            Self::Abandon { .. } => StepKind::Abandon,
            Self::GiveBack(_) => StepKind::GiveBack,
            Self::Wait { .. } | Self::End(_) => return None,
        })
    }
}

/// An event that a workflow waits for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Awaited {
    /// Its agent ends.
    Agent(UnitId),
    /// The time for it to be tried again.
    Again(UnitId),
    /// The time between two starts.
    Stagger,
    /// The account may be used again.
    Parked(AccountId),
    /// Another day.
    Day,
    /// A unit or lock that writes to the same path.
    Collision {
        unit: UnitId,
        with: String,
        path: String,
    },
    /// A person decides: why.
    Person(UnitId, String),
}

/// How a unit of the plan stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitStanding {
    /// Units it depends on have not all landed.
    Blocked,
    /// It can begin.
    Open,
    /// An agent, a landing or a removal is at work on it.
    Busy,
    /// It is to be tried again.
    Again,
    /// It is on the target.
    Landed,
    /// A person decides.
    Stuck(String),
    /// It failed for good.
    Failed(String),
    /// It will never begin, because of that unit.
    Skipped(String),
}

/// The way a failure is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cure {
    /// Tried again, so often.
    Again(u32),
    /// Tried again when the day is over.
    Tomorrow,
    /// Tried again when its account may be used again.
    Parked,
    /// Back to its agent, then to a person.
    Conflict,
    Never,
}

/// The treatment of a failure of that reason.
pub fn cure(reason: &str, max_retries: u32) -> Cure {
    match reason {
        failure_reason::USAGE
        | failure_reason::AUTHENTICATION
        | failure_reason::NOT_STARTED
        | failure_reason::BUDGET
        | failure_reason::STOPPED => Cure::Never,
        failure_reason::DAY_BUDGET => Cure::Tomorrow,
        failure_reason::CONFLICT => Cure::Conflict,
        failure_reason::RATE_LIMIT => Cure::Parked,
        // The next attempt is made in another way.
        failure_reason::NO_CONVERSATION => Cure::Again(max_retries.max(1)),
        failure_reason::ARTIFACTS | failure_reason::OUTSIDE => Cure::Again(max_retries.min(1)),
        _ => Cure::Again(max_retries),
    }
}

/// How long to wait before the next try, after so many: twice as long each time, less up to half of it by chance, so that
/// those who failed together do not come back together.
pub fn backoff_ms(unit: &UnitId, tries: u32, limits: &CoordinatorLimits) -> u64 {
    let doubled = limits.backoff_ms.saturating_mul(1 << tries.min(20));
    let whole = doubled.min(limits.backoff_max_ms);
    let chance = xxhash_rust::xxh3::xxh3_64_with_seed(format!("{unit}#{tries}").as_bytes(), limits.seed);
    whole - chance % (whole / 2 + 1)
}

/// Which money is running out.
pub fn alerts(facts: &WorkflowFacts, limits: &CoordinatorLimits) -> Vec<Alert> {
    let both = [
        (Purse::Workflow, limits.workflow.used(&facts.spent)),
        (Purse::Day, limits.day.used(&facts.spent_today)),
    ];
    let near = both
        .into_iter()
        .filter(|(_, percent)| *percent >= limits.alert_at.max(1));
    near.map(|(of, percent)| Alert { of, percent }).collect()
}

/// Everything that is looked at. `members` are the units of the plan, in its order.
#[derive(Debug, Clone, Copy)]
pub struct CoordinatorInput<'a> {
    pub plan: &'a Plan,
    pub id: &'a WorkflowId,
    pub members: &'a [PlanMember],
    pub facts: &'a WorkflowFacts,
    pub limits: &'a CoordinatorLimits,
    pub now: Wall,
}

#[cfg(test)]
mod tests;
