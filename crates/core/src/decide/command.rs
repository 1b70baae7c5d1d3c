//! Commands, their replies, and the context they are decided in.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::issue_files::format::FoundIssue;
use crate::model::account::{Account, AccountId, Hit};
use crate::model::actor::Actor;
use crate::model::conflict::Seen;
use crate::model::file_lock::{Queueing, Want, Which};
use crate::model::ids::{
    AgentId, IssueId, IssuePrefix, LeaseId, SessionId, TicketId, UnitId, WorkflowId, WorktreeId,
};
use crate::model::issue::{Comment, GateResult, Issue, IssueState, Performer, Priority};
use crate::model::lease::Lease;
use crate::model::policy::Policy;
use crate::model::session::{Session, SessionStatus};
use crate::model::time::{Now, Wall};
use crate::model::unit::{Facts, NewUnit, Unit, UnitInput};
use crate::model::workflow::{NewWorkflow, Workflow, WorkflowOutcome};

/// A lease, named by its own id or by what it is on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum Target {
    Lease(LeaseId),
    Issue(IssuePrefix),
}

impl TryFrom<String> for Target {
    type Error = crate::model::ids::BadId;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<Target> for String {
    fn from(target: Target) -> String {
        target.as_str().to_owned()
    }
}

impl Target {
    /// A ULID is a lease; anything else names an issue.
    pub fn parse(text: &str) -> Result<Self, crate::model::ids::BadId> {
        match text.parse::<LeaseId>() {
            Ok(lease) => Ok(Self::Lease(lease)),
            Err(_) => text.parse().map(Self::Issue),
        }
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Lease(id) => id.as_str(),
            Self::Issue(id) => id.as_str(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Acquire {
        issue: IssuePrefix,
        ttl_secs: Option<u64>,
        note: Option<String>,
        on_behalf_of: Option<AgentId>,
    },
    Renew {
        target: Target,
        ttl_secs: Option<u64>,
        /// Automatic renewals leave a lease alone while more than half of it is left, to keep the log small.
        if_half_gone: bool,
    },
    Release {
        target: Target,
    },
    Transfer {
        target: Target,
        to: AgentId,
        worktree: Option<WorktreeId>,
        branch: Option<String>,
    },
    ForceEvict {
        target: Target,
        reason: String,
    },
    /// Picks the best issue that can be taken, and takes it.
    AcquireNext {
        label: Option<String>,
        kind: Option<String>,
        ttl_secs: Option<u64>,
        on_behalf_of: Option<AgentId>,
    },
    CreateIssue(NewIssue),
    ChangeIssue {
        issue: IssuePrefix,
        change: Box<IssueChange>,
        /// Only if the caller holds it, whatever the settings say.
        strict: bool,
    },
    DeleteIssue {
        issue: IssuePrefix,
        strict: bool,
    },
    /// One that was deleted.
    RestoreIssue {
        issue: IssueId,
    },
    Comment {
        issue: IssuePrefix,
        text: String,
    },
    JudgeGate {
        issue: IssuePrefix,
        gate: String,
        passed: bool,
        manual: bool,
        tree: Option<String>,
        /// The digest of what the gate is.
        definition: Option<String>,
    },
    /// Issues that were found in a tree or in a file from elsewhere: everything new in them is recorded.
    JoinIssues(Vec<FoundIssue>),
    /// Locks on files: all of them or none.
    LockFiles {
        wants: Vec<Want>,
        queueing: Queueing,
    },
    ExtendLocks {
        which: Which,
        ttl_secs: Option<u64>,
    },
    /// For hearts: more time for the caller's locks that have less than half of theirs left, as far as their limits
    /// let them. One that cannot be extended is no reason to leave the others alone.
    KeepLocks,
    ReleaseLocks {
        which: Which,
    },
    LeaveQueue {
        ticket: TicketId,
    },
    CleanLocks {
        /// Tickets whose owners were found dead.
        gone: Vec<TicketId>,
    },
    CreateUnit(Box<NewUnit>),
    AdvanceUnit {
        unit: UnitId,
        input: UnitInput,
        facts: Box<Facts>,
    },
    /// The agent of a unit goes and another one comes.
    ChangeHands {
        unit: UnitId,
        /// How the one that goes ended, if it was at work.
        ended: Box<Facts>,
        begun: Box<Facts>,
    },
    StartWorkflow(Box<NewWorkflow>),
    /// To be the one coordinator of a workflow, or to stay it.
    LeadWorkflow {
        workflow: WorkflowId,
        /// The coordinator that led it before is known to be dead.
        vacant: bool,
    },
    /// Leads it no longer; it can be resumed.
    LeaveWorkflow {
        workflow: WorkflowId,
    },
    CancelWorkflow {
        workflow: WorkflowId,
    },
    EndWorkflow {
        workflow: WorkflowId,
        outcome: WorkflowOutcome,
    },
    /// One that ended before all was done goes on.
    ReopenWorkflow {
        workflow: WorkflowId,
    },
    /// An agent's account was refused.
    ParkAccount(Box<Hit>),
    /// Agents may be started on it again.
    UnparkAccount {
        account: AccountId,
    },
    /// Pairs of units that would conflict now.
    NoteConflicts(Box<Seen>),
    StartSession(Box<Session>),
    EndSession {
        session: SessionId,
        status: SessionStatus,
    },
    PruneSessions {
        sessions: Vec<SessionId>,
    },
    /// Lock files of activities that another program wrote, and those it wrote that are no longer there.
    HonourLocks {
        there: Vec<LockFile>,
        gone: Vec<IssueId>,
    },
}

/// The content of an activity's lock file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockFile {
    pub activity: IssueId,
    pub holder: AgentId,
    pub acquired: Wall,
    pub expires: Wall,
    /// The task that is being worked on, since when and until when.
    pub task: Option<(IssueId, Wall, Wall)>,
}

/// Reads a field that was given, `null` included. A field that was not given is not read.
fn given<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// A change of an issue. `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct IssueChange {
    pub title: Option<String>,
    pub kind: Option<String>,
    pub state: Option<IssueState>,
    pub priority: Option<Priority>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub parent: Option<Option<IssuePrefix>>,
    pub actor: Option<Performer>,
    pub add_labels: Vec<String>,
    pub remove_labels: Vec<String>,
    pub add_deps: Vec<IssuePrefix>,
    pub remove_deps: Vec<IssuePrefix>,
    pub add_gates: Vec<String>,
    pub remove_gates: Vec<String>,
    /// The digest of the new description; `None` inside removes it.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub text: Option<Option<String>>,
    /// The reason, or `None` when nothing stands in the way any more.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Option<String>>,
    pub pivot: Option<Pivot>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pivot {
    Start(String),
    Complete(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewIssue {
    /// As the user gave it, or several made-up ones of which the first free one is taken.
    pub ids: Vec<crate::model::ids::IssueId>,
    pub chosen: bool,
    pub title: String,
    pub kind: String,
    pub state: IssueState,
    pub priority: Priority,
    pub parent: Option<IssuePrefix>,
    pub labels: Vec<String>,
    pub depends_on: Vec<IssuePrefix>,
    pub gates: Vec<String>,
    pub actor: Performer,
    /// The digest of the description.
    pub text: Option<String>,
}

impl Command {
    /// Which command this is, for request ids: repeating a request must mean asking for the same thing.
    pub fn digest(&self, actor: &Actor) -> u64 {
        let asked = match self {
            // The made-up ids differ between two attempts at the same thing.
            Self::CreateIssue(new) if !new.chosen => format!(
                "{:?}",
                NewIssue {
                    ids: Vec::new(),
                    ..new.clone()
                }
            ),
            // The queue and the place of the session are not part of the request.
            Self::LockFiles { wants, .. } => format!("lock {wants:?}"),
            Self::StartSession(session) => format!(
                "session {:?}",
                (&session.agent_type, &session.task_id, &session.pr_group)
            ),
            // An import goes on from what is there when it is asked for again.
            Self::JoinIssues(_) => "join".to_owned(),
            // The log keeps the digest, and it was made when the type was called `Change`.
            Self::ChangeIssue { .. } => {
                format!("{self:?}").replacen("change: IssueChange {", "change: Change {", 1)
            }
            other => format!("{other:?}"),
        };
        xxh3_64(format!("{asked} {actor:?}").as_bytes())
    }
}

/// The reply to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandReply {
    Lease {
        lease: Lease,
        existing: bool,
        regranted: bool,
    },
    Released(Vec<Lease>),
    Evicted(Vec<Lease>),
    Issue(Box<Issue>),
    Deleted(Box<Issue>),
    Commented(Comment),
    Judged(GateResult),
    /// The issues that are new or have changed.
    Joined(Vec<IssueId>),
    Locks(Vec<Lease>),
    /// A place in the queue was taken.
    Queued(TicketId),
    Unit(Box<Unit>),
    Workflow(Box<Workflow>),
    Led(Lease),
    Account(Box<Account>),
    /// So many changes were written down.
    Conflicts(usize),
    Session(Box<Session>),
    SessionEnded(SessionId),
    Pruned(Vec<SessionId>),
}

/// Everything a decision may know besides the state. Time and randomness are arguments.
#[derive(Debug, Clone)]
pub struct Context {
    pub now: Now,
    pub actor: Actor,
    pub branch: Option<String>,
    /// For the lease that may be granted.
    pub fresh_lease: LeaseId,
    pub policy: Policy,
}

impl Context {
    /// Whether the caller holds the lease: its agent, in its worktree, in its session if several of them are at work (B2).
    pub fn holds(&self, lease: &Lease) -> bool {
        lease.held_by(&self.actor) && self.policy.rival_session(lease, &self.actor.agent_id).is_none()
    }

    /// Whether the caller may renew the lease or hand it on, and change what it is on.
    pub fn commands(&self, lease: &Lease) -> bool {
        lease.obeys(&self.actor) && self.policy.rival_session(lease, &self.actor.agent_id).is_none()
    }

    /// Whether the caller may release the lease.
    pub fn may_release(&self, lease: &Lease) -> bool {
        lease.may_be_released_by(&self.actor)
            && self.policy.rival_session(lease, &self.actor.agent_id).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_keeps_its_digest_when_a_type_is_renamed() {
        let command = Command::ChangeIssue {
            issue: "work".parse().expect("a prefix"),
            change: Box::default(),
            strict: false,
        };
        let actor = Actor {
            agent_id: "agent:a".parse().expect("an agent"),
            worktree_id: None,
        };
        let asked = "ChangeIssue { issue: IssuePrefix(\"work\"), change: Change { title: None, kind: None, state: None, \
                     priority: None, parent: None, actor: None, add_labels: [], remove_labels: [], add_deps: [], \
                     remove_deps: [], add_gates: [], remove_gates: [], text: None, blocked: None, pivot: None }, \
                     strict: false }";
        assert_eq!(
            command.digest(&actor),
            xxh3_64(format!("{asked} {actor:?}").as_bytes())
        );
    }
}
