//! Everything that can have happened. What is in the log has happened: these are facts, applied without question.

use crate::ids::{AgentId, LeaseId, RequestId};
use crate::issue::Issue;
use crate::lease::{Actor, Lease};
use crate::time::{BootId, Wall};

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
    },
    /// The deadline had passed and somebody noticed.
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
    /// Everything known before this line is void; what survived follows as `Restored` and `IssueRestored` events.
    LogRecovered {
        lost: u64,
        backup: String,
    },
    /// A lease that survived a recovery, token and all.
    Restored {
        lease: Lease,
    },
    /// An issue as it is after being created, changed or restored.
    IssueCreated {
        issue: Issue,
    },
    IssueRestored {
        issue: Issue,
    },
    /// Written by a newer program. Readable past, but nobody who does not understand it may write after it.
    Unknown {
        kind: String,
    },
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
            Self::Acquired { .. } => "claim.acquired",
            Self::Renewed { .. } => "claim.renewed",
            Self::Released { .. } => "claim.released",
            Self::AutoEvicted { .. } => "claim.auto_evicted",
            Self::ForceEvicted { .. } => "claim.force_evicted",
            Self::Transferred { .. } => "claim.transferred",
            Self::Boot { .. } => "boot",
            Self::SegmentStarted { .. } => "log.segment",
            Self::LogRecovered { .. } => "log.recovered",
            Self::Restored { .. } => "claim.restored",
            Self::IssueCreated { .. } => "issue.created",
            Self::IssueRestored { .. } => "issue.restored",
            Self::Unknown { kind } => kind,
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

/// An event in its place: numbered, dated and signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamped {
    pub sequence: u64,
    pub at: Wall,
    pub actor: Actor,
    /// The request that caused it, and a digest of what was asked.
    pub request: Option<Request>,
    /// Position in its transaction, from 1, and the transaction's length.
    pub part: (u32, u32),
    pub event: Event,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub id: RequestId,
    pub digest: u64,
}
