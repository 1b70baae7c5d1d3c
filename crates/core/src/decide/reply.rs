//! The reply to a command, from the events that carried it out.

use crate::decide::command::{Command, Reply};
use crate::log::event::Event;
use crate::model::lease::Lease;

impl Command {
    /// The answer, from the events that carried it out: the first time and at every repetition of the request.
    pub fn reply(&self, events: &[Event]) -> Option<Reply> {
        // Expired leases of others, cleared away in passing, are not part of the answer.
        let ended = || -> Vec<Lease> {
            let asked = events.iter().filter(|e| !matches!(e, Event::AutoEvicted { .. }));
            asked.filter_map(Event::lease).cloned().collect()
        };
        match self {
            Self::Acquire { .. } | Self::AcquireNext { .. } | Self::Renew { .. } | Self::Transfer { .. } => {
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
            Self::Release { .. } | Self::HonourLocks { .. } | Self::ReleaseLocks { .. } => {
                Some(Reply::Released(ended()))
            }
            Self::LockFiles { .. } | Self::ExtendLocks { .. } | Self::KeepLocks | Self::LeaveQueue { .. } => {
                let queued = events.iter().find_map(|event| match event {
                    Event::Queued { ticket } => Some(ticket.ticket_id.clone()),
                    _ => None,
                });
                Some(match queued {
                    Some(ticket) => Reply::Queued(ticket),
                    None => Reply::Locks(ended()),
                })
            }
            Self::CleanLocks { .. } => {
                let over = events.iter().filter_map(Event::lease);
                Some(Reply::Released(over.cloned().collect()))
            }
            Self::CreateUnit(_) | Self::AdvanceUnit { .. } | Self::ChangeHands { .. } => unit_reply(events),
            Self::StartWorkflow(_)
            | Self::LeadWorkflow { .. }
            | Self::LeaveWorkflow { .. }
            | Self::CancelWorkflow { .. }
            | Self::EndWorkflow { .. }
            | Self::ReopenWorkflow { .. } => workflow_reply(events),
            Self::ParkAccount(_) | Self::UnparkAccount { .. } => {
                events.iter().rev().find_map(|event| match event {
                    Event::Account { account, .. } => Some(Reply::Account(account.clone())),
                    _ => None,
                })
            }
            Self::NoteConflicts(_) => Some(Reply::Conflicts(events.len())),
            Self::StartSession(_) => events.iter().find_map(|event| match event {
                Event::SessionStarted { session } => Some(Reply::Session(Box::new(session.clone()))),
                _ => None,
            }),
            Self::EndSession { session, .. } => Some(Reply::SessionEnded(session.clone())),
            Self::PruneSessions { .. } => events.iter().find_map(|event| match event {
                Event::SessionsPruned { sessions } => Some(Reply::Pruned(sessions.clone())),
                _ => None,
            }),
            Self::ForceEvict { .. } => Some(Reply::Evicted(ended())),
            Self::CreateIssue(_) | Self::ChangeIssue { .. } | Self::RestoreIssue { .. } => {
                events.iter().rev().find_map(|event| match event {
                    Event::Issue { issue, .. } => Some(Reply::Issue(Box::new(issue.clone()))),
                    _ => None,
                })
            }
            Self::DeleteIssue { .. } => events.iter().rev().find_map(|event| match event {
                Event::Issue { issue, .. } => Some(Reply::Deleted(Box::new(issue.clone()))),
                _ => None,
            }),
            Self::Comment { .. } => events.iter().rev().find_map(|event| match event {
                Event::Commented { comment, .. } => Some(Reply::Commented(comment.clone())),
                _ => None,
            }),
            Self::JudgeGate { .. } => events.iter().rev().find_map(|event| match event {
                Event::GateJudged { result, .. } => Some(Reply::Judged(result.clone())),
                _ => None,
            }),
            Self::JoinIssues(_) => Some(Reply::Joined(
                events
                    .iter()
                    .filter_map(|event| match event {
                        Event::Issue { issue, .. } => Some(issue.id.clone()),
                        _ => None,
                    })
                    .collect(),
            )),
        }
    }
}

/// The answer of the commands about units.
fn unit_reply(events: &[Event]) -> Option<Reply> {
    events.iter().rev().find_map(|event| match event {
        Event::Unit { unit, .. } => Some(Reply::Unit(unit.clone())),
        _ => None,
    })
}

/// The answer of the commands about workflows.
fn workflow_reply(events: &[Event]) -> Option<Reply> {
    let workflow = events.iter().rev().find_map(|event| match event {
        Event::Workflow { workflow, .. } => Some(Reply::Workflow(workflow.clone())),
        _ => None,
    });
    let led = || {
        events.iter().rev().find_map(|event| {
            let lease = event.lease()?;
            lease.resource.workflow()?;
            Some(Reply::Led(lease.clone()))
        })
    };
    workflow.or_else(led)
}
