//! What can be asked for, and what comes back.

use xxhash_rust::xxh3::xxh3_64;

use crate::event::Event;
use crate::ids::{AgentId, IssuePrefix, LeaseId, WorktreeId};
use crate::issue::{Issue, Priority, State};
use crate::lease::{Actor, Lease};
use crate::policy::TtlPolicy;
use crate::time::Now;

/// A lease, named by its own id or by what it is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Lease(LeaseId),
    Issue(IssuePrefix),
}

impl Target {
    /// A ULID is a lease; anything else names an issue.
    pub fn parse(text: &str) -> Result<Self, crate::ids::BadId> {
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
    CreateIssue(NewIssue),
    /// Issues that a tree brought and the log does not know yet; those it does know are left alone.
    AdoptIssues(Vec<Issue>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewIssue {
    /// As the user gave it, or several made-up ones of which the first free one is taken.
    pub ids: Vec<crate::ids::IssueId>,
    pub chosen: bool,
    pub title: String,
    pub kind: String,
    pub state: State,
    pub priority: Priority,
    pub parent: Option<IssuePrefix>,
    pub labels: Vec<String>,
    pub depends_on: Vec<IssuePrefix>,
    pub gates: Vec<String>,
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
            other => format!("{other:?}"),
        };
        xxh3_64(format!("{asked} {actor:?}").as_bytes())
    }

    /// The answer, from the events that carried it out: the first time and at every repetition of the request.
    pub fn reply(&self, events: &[Event]) -> Option<Reply> {
        // Expired leases of others, cleared away in passing, are not part of the answer.
        let ended = || -> Vec<Lease> {
            let asked = events.iter().filter(|e| !matches!(e, Event::AutoEvicted { .. }));
            asked.filter_map(Event::lease).cloned().collect()
        };
        match self {
            Self::Acquire { .. } | Self::Renew { .. } | Self::Transfer { .. } => {
                events.iter().rev().find_map(|event| match event {
                    Event::Acquired { lease, regranted } => Some(Reply::Lease {
                        lease: lease.clone(),
                        existing: false,
                        regranted: *regranted,
                    }),
                    Event::Renewed { lease } | Event::Transferred { lease, .. } => Some(Reply::Lease {
                        lease: lease.clone(),
                        existing: false,
                        regranted: false,
                    }),
                    _ => None,
                })
            }
            Self::Release { .. } => Some(Reply::Released(ended())),
            Self::ForceEvict { .. } => Some(Reply::Evicted(ended())),
            Self::AdoptIssues(_) => Some(Reply::Adopted(
                events
                    .iter()
                    .filter(|event| matches!(event, Event::IssueCreated { .. }))
                    .count(),
            )),
            Self::CreateIssue(_) => events.iter().find_map(|event| match event {
                Event::IssueCreated { issue } => Some(Reply::Issue(Box::new(issue.clone()))),
                _ => None,
            }),
        }
    }
}

/// What a command answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Lease {
        lease: Lease,
        existing: bool,
        regranted: bool,
    },
    Released(Vec<Lease>),
    Evicted(Vec<Lease>),
    Issue(Box<Issue>),
    /// So many issues are new to the log.
    Adopted(usize),
}

/// Everything a decision may know besides the state. Time and randomness are arguments.
#[derive(Debug, Clone)]
pub struct Context {
    pub now: Now,
    pub actor: Actor,
    pub branch: Option<String>,
    /// For the lease that may be granted.
    pub fresh_lease: LeaseId,
    pub ttl: TtlPolicy,
    /// Whether agents (and not only people) may evict others.
    pub agents_may_evict: bool,
}
