//! Events: everything that can have happened. An event in the log is a fact, and is applied without question.

use crate::issue_files::stamps::Sheet;
use crate::model::account::{self, Account};
use crate::model::actor::Actor;
use crate::model::conflict::{self, Conflict};
use crate::model::file_lock::Ticket;
use crate::model::ids::{AgentId, IssueId, LeaseId, RequestId, SessionId, TicketId};
use crate::model::issue::{Comment, GateResult, Issue};
use crate::model::lease::{Lease, Resource};
use crate::model::session::{Session, SessionStatus};
use crate::model::time::{BootId, Wall};
use crate::model::unit::{Unit, UnitInput};
use crate::model::workflow::{Workflow, WorkflowAction};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A lease was granted; `regranted` when an expired one was given back to its holder.
    Acquired {
        lease: Lease,
        regranted: bool,
    },
    /// The lease as it is after the renewal.
    Renewed {
        lease: Lease,
    },
    Released {
        lease: Lease,
        by: AgentId,
        /// It was taken only for the length of one change.
        brief: bool,
    },
    /// The deadline had passed, and a command recorded it.
    AutoEvicted {
        lease: Lease,
    },
    ForceEvicted {
        lease: Lease,
        by: AgentId,
        reason: String,
    },
    /// The new lease, and the one it continues.
    Transferred {
        lease: Lease,
        from_lease_id: LeaseId,
        from_agent_id: AgentId,
    },
    /// The machine was started anew: deadlines are anchored again, to this boot.
    Boot {
        boot: BootId,
        ticks: u64,
    },
    /// The first line of a log segment, and why it was begun.
    SegmentStarted {
        reason: SegmentReason,
    },
    /// Everything known before this line is void; what survived follows as restored leases and issues.
    LogRecovered {
        lost: u64,
        backup: String,
    },
    /// A lease that survived a recovery, token and all.
    Restored {
        lease: Lease,
    },
    /// An issue as it is after what was done to it.
    Issue {
        did: IssueAction,
        issue: Issue,
        sheet: Sheet,
    },
    Commented {
        issue_id: IssueId,
        comment: Comment,
    },
    GateJudged {
        issue_id: IssueId,
        gate: String,
        result: GateResult,
    },
    /// An agent waits for locks on files.
    Queued {
        ticket: Ticket,
    },
    /// It waits no longer: served, gone or given up.
    Unqueued {
        ticket_id: TicketId,
    },
    /// A unit of work as it is after what happened to it.
    Unit {
        input: UnitInput,
        unit: Box<Unit>,
    },
    /// A workflow as it is after what happened to it.
    Workflow {
        did: WorkflowAction,
        workflow: Box<Workflow>,
    },
    /// An account as it is after it was refused, or after somebody lifted that.
    Account {
        did: account::AccountAction,
        account: Box<Account>,
    },
    /// Two units came to conflict, or do not conflict any more.
    Conflict {
        did: conflict::ConflictAction,
        conflict: Box<Conflict>,
    },
    SessionStarted {
        session: Session,
    },
    SessionEnded {
        session_id: SessionId,
        status: SessionStatus,
    },
    /// Sessions that are over are no longer listed.
    SessionsPruned {
        sessions: Vec<SessionId>,
    },
    /// For the changelog: one of its nine actions.
    Worked {
        action: ChangelogAction,
        activity_id: Option<IssueId>,
        task_id: Option<IssueId>,
        details: Option<String>,
        /// Sequence of the entry before, so that a missing one is noticed; 0 for the first.
        previous: u64,
    },
    /// Written by a newer program. Readable past, but nobody who does not understand it may write after it.
    Unknown {
        kind: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IssueAction {
    Created,
    Changed,
    Deleted,
    /// The issue of a tree was joined; the digest is that of the `issue.json` there.
    Joined {
        digest: String,
    },
    /// It survived a recovery.
    Restored,
}

crate::model::words::words! {
    /// An action that the changelog records.
    ChangelogAction, "action", {
        WorkItemCreated = "work_item_created", ClaimedActivity = "claimed_activity", CompletedTask = "completed_task",
        CompletedActivity = "completed_activity", Blocked = "blocked", Unblocked = "unblocked",
        PivotStarted = "pivot_started", PivotCompleted = "pivot_completed", RecoveredActivity = "recovered_activity",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentReason {
    /// The very first segment.
    Created,
    /// The one before had grown large.
    Size,
    /// A sync of the one before had failed.
    Suspect,
    /// `jit recover` wrote it.
    Recovered,
}

impl Event {
    /// The stable name in the log and in `jit events --type`.
    pub fn kind(&self) -> &str {
        match self {
            Self::Acquired { .. }
            | Self::Renewed { .. }
            | Self::Released { .. }
            | Self::AutoEvicted { .. }
            | Self::ForceEvicted { .. }
            | Self::Transferred { .. }
            | Self::Restored { .. } => self.lease_kind(),
            Self::Unit { input, .. } => unit_kind(*input),
            Self::Workflow { did, .. } => match did {
                WorkflowAction::Started => "workflow.started",
                WorkflowAction::Cancelling => "workflow.cancelling",
                WorkflowAction::Ended => "workflow.ended",
                WorkflowAction::Reopened => "workflow.reopened",
            },
            Self::Account { did, .. } => match did {
                account::AccountAction::Parked => "account.parked",
                account::AccountAction::Unparked => "account.unparked",
            },
            Self::Conflict { did, .. } => match did {
                conflict::ConflictAction::Found => "conflict.found",
                conflict::ConflictAction::Gone => "conflict.gone",
            },
            Self::Queued { .. } => "lock.queued",
            Self::Unqueued { .. } => "lock.unqueued",
            Self::SessionStarted { .. } => "session.started",
            Self::SessionEnded { .. } => "session.ended",
            Self::SessionsPruned { .. } => "session.pruned",
            Self::Boot { .. } => "boot",
            Self::SegmentStarted { .. } => "log.segment",
            Self::LogRecovered { .. } => "log.recovered",
            Self::Issue { did, .. } => match did {
                IssueAction::Created => "issue.created",
                IssueAction::Changed => "issue.changed",
                IssueAction::Deleted => "issue.deleted",
                IssueAction::Joined { .. } => "issue.joined",
                IssueAction::Restored => "issue.restored",
            },
            Self::Commented { .. } => "issue.commented",
            Self::GateJudged { result, .. } if result.passed => "gate.passed",
            Self::GateJudged { .. } => "gate.failed",
            Self::Worked { action, .. } => action.kind(),
            Self::Unknown { kind } => kind,
        }
    }

    /// The kind of an event about a lease: a claim on an issue, a lock on files or the leadership of a workflow.
    fn lease_kind(&self) -> &'static str {
        let [claim, lock, lead] = match self {
            Self::Acquired { .. } => ["claim.acquired", "lock.acquired", "lead.acquired"],
            Self::Renewed { .. } => ["claim.renewed", "lock.renewed", "lead.renewed"],
            Self::Released { .. } => ["claim.released", "lock.released", "lead.released"],
            Self::AutoEvicted { .. } => ["claim.auto_evicted", "lock.auto_evicted", "lead.auto_evicted"],
            Self::ForceEvicted { .. } => ["claim.force_evicted", "lock.force_evicted", "lead.force_evicted"],
            Self::Transferred { .. } => ["claim.transferred", "lock.transferred", "lead.transferred"],
            _ => ["claim.restored", "lock.restored", "lead.restored"],
        };
        match self.lease().map(|lease| &lease.resource) {
            Some(Resource::File(_)) => lock,
            Some(Resource::Workflow(_)) => lead,
            Some(Resource::Issue(_)) | None => claim,
        }
    }

    /// The issue this event is about, if it is about one.
    pub fn issue_id(&self) -> Option<&IssueId> {
        match self {
            Self::Issue { issue, .. } => Some(&issue.id),
            Self::Unit { unit, .. } => unit.issue_id.as_ref(),
            Self::Commented { issue_id, .. } | Self::GateJudged { issue_id, .. } => Some(issue_id),
            Self::Worked {
                activity_id, task_id, ..
            } => task_id.as_ref().or(activity_id.as_ref()),
            other => other.lease().and_then(|lease| lease.resource.issue()),
        }
    }

    /// The lease this event is about, if it is about one.
    pub fn lease(&self) -> Option<&Lease> {
        match self {
            Self::Acquired { lease, .. }
            | Self::Renewed { lease }
            | Self::Released { lease, .. }
            | Self::AutoEvicted { lease }
            | Self::ForceEvicted { lease, .. }
            | Self::Transferred { lease, .. }
            | Self::Restored { lease } => Some(lease),
            _ => None,
        }
    }
}

/// The kind of an event about a unit.
pub fn unit_kind(input: UnitInput) -> &'static str {
    match input {
        UnitInput::CreateWorktree => "unit.create_worktree",
        UnitInput::ProvisioningComplete => "unit.provisioning_complete",
        UnitInput::ProvisioningFailed => "unit.provisioning_failed",
        UnitInput::RolledBack => "unit.rolled_back",
        UnitInput::DispatchInstance => "unit.dispatch_instance",
        UnitInput::SpawnFailed => "unit.spawn_failed",
        UnitInput::InstanceRunning => "unit.instance_running",
        UnitInput::InstanceCompleted => "unit.instance_completed",
        UnitInput::InstanceFailed => "unit.instance_failed",
        UnitInput::InstanceTimeout => "unit.instance_timeout",
        UnitInput::BeginMerge => "unit.begin_merge",
        UnitInput::MergeSuccess => "unit.merge_success",
        UnitInput::MergeConflictEscalate => "unit.merge_conflict_escalate",
        UnitInput::BeginCleanup => "unit.begin_cleanup",
        UnitInput::RetryDispatch => "unit.retry_dispatch",
        UnitInput::Abandon => "unit.abandon",
        UnitInput::CleanedUp => "unit.cleaned_up",
        UnitInput::MoreWork => "unit.more_work",
        UnitInput::MergePutOff => "unit.merge_put_off",
        UnitInput::WorktreeMoved => "unit.worktree_moved",
    }
}

impl ChangelogAction {
    /// The kind of its event.
    pub fn kind(self) -> &'static str {
        match self {
            Self::WorkItemCreated => "work.work_item_created",
            Self::ClaimedActivity => "work.claimed_activity",
            Self::CompletedTask => "work.completed_task",
            Self::CompletedActivity => "work.completed_activity",
            Self::Blocked => "work.blocked",
            Self::Unblocked => "work.unblocked",
            Self::PivotStarted => "work.pivot_started",
            Self::PivotCompleted => "work.pivot_completed",
            Self::RecoveredActivity => "work.recovered_activity",
        }
    }
}

/// An event in its place: numbered, dated and signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamped {
    pub sequence: u64,
    pub at: Wall,
    pub actor: Actor,
    /// The request that caused it, and a digest of what was asked.
    pub request: Option<LoggedRequest>,
    /// Position in its transaction, from 1, and the transaction's length.
    pub part: (u32, u32),
    pub event: Event,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedRequest {
    pub id: RequestId,
    pub digest: u64,
}
