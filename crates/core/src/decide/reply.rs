//! The reply to a command, from the events that carried it out.

use crate::decide::command::{Command, CommandReply};
use crate::log::event::Event;
use crate::model::lease::Lease;

impl Command {
    /// The answer, from the events that carried it out: the first time and at every repetition of the request.
    pub fn reply(&self, events: &[Event]) -> Option<CommandReply> {
        // Expired leases of others, cleared away in passing, are not part of the answer.
        let ended = || -> Vec<Lease> {
            let asked = events.iter().filter(|e| !matches!(e, Event::AutoEvicted { .. }));
            asked.filter_map(Event::lease).cloned().collect()
        };
        match self {
            Self::Acquire { .. } | Self::AcquireNext { .. } | Self::Renew { .. } | Self::Transfer { .. } => {
                events.iter().rev().find_map(|event| match event {
                    Event::Acquired { lease, regranted } => Some(CommandReply::Lease {
                        lease: lease.clone(),
                        existing: false,
                        regranted: *regranted,
                    }),
                    // Held already, by an earlier session of the caller that is over.
                    Event::Renewed { lease } if matches!(self, Self::Acquire { .. }) => {
                        Some(CommandReply::Lease {
                            lease: lease.clone(),
                            existing: true,
                            regranted: false,
                        })
                    }
                    Event::Renewed { lease } | Event::Transferred { lease, .. } => {
                        Some(CommandReply::Lease {
                            lease: lease.clone(),
                            existing: false,
                            regranted: false,
                        })
                    }
                    _ => None,
                })
            }
            Self::Release { .. } | Self::HonourLocks { .. } | Self::ReleaseLocks { .. } => {
                Some(CommandReply::Released(ended()))
            }
            Self::LockFiles { .. } | Self::ExtendLocks { .. } | Self::KeepLocks | Self::LeaveQueue { .. } => {
                let queued = events.iter().find_map(|event| match event {
                    Event::Queued { ticket } => Some(ticket.ticket_id.clone()),
                    _ => None,
                });
                Some(match queued {
                    Some(ticket) => CommandReply::Queued(ticket),
                    None => CommandReply::Locks(ended()),
                })
            }
            Self::CleanLocks { .. } => {
                let over = events.iter().filter_map(Event::lease);
                Some(CommandReply::Released(over.cloned().collect()))
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
                    Event::Account { account, .. } => Some(CommandReply::Account(account.clone())),
                    _ => None,
                })
            }
            Self::NoteConflicts(_) => Some(CommandReply::Conflicts(events.len())),
            Self::StartSession(_) => events.iter().find_map(|event| match event {
                Event::SessionStarted { session } => Some(CommandReply::Session(Box::new(session.clone()))),
                _ => None,
            }),
            Self::EndSession { session, .. } => Some(CommandReply::SessionEnded(session.clone())),
            Self::PruneSessions { .. } => events.iter().find_map(|event| match event {
                Event::SessionsPruned { sessions } => Some(CommandReply::Pruned(sessions.clone())),
                _ => None,
            }),
            Self::ForceEvict { .. } => Some(CommandReply::Evicted(ended())),
            Self::CreateIssue(_) | Self::ChangeIssue { .. } | Self::RestoreIssue { .. } => {
                events.iter().rev().find_map(|event| match event {
                    Event::Issue { issue, .. } => Some(CommandReply::Issue(Box::new(issue.clone()))),
                    _ => None,
                })
            }
            Self::DeleteIssue { .. } => events.iter().rev().find_map(|event| match event {
                Event::Issue { issue, .. } => Some(CommandReply::Deleted(Box::new(issue.clone()))),
                _ => None,
            }),
            Self::Comment { .. } => events.iter().rev().find_map(|event| match event {
                Event::Commented { comment, .. } => Some(CommandReply::Commented(comment.clone())),
                _ => None,
            }),
            Self::JudgeGate { .. } => events.iter().rev().find_map(|event| match event {
                Event::GateJudged { result, .. } => Some(CommandReply::Judged(result.clone())),
                _ => None,
            }),
            Self::JoinIssues(_) => Some(CommandReply::Joined(
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
fn unit_reply(events: &[Event]) -> Option<CommandReply> {
    events.iter().rev().find_map(|event| match event {
        Event::Unit { unit, .. } => Some(CommandReply::Unit(unit.clone())),
        _ => None,
    })
}

/// The answer of the commands about workflows.
fn workflow_reply(events: &[Event]) -> Option<CommandReply> {
    let workflow = events.iter().rev().find_map(|event| match event {
        Event::Workflow { workflow, .. } => Some(CommandReply::Workflow(workflow.clone())),
        _ => None,
    });
    let led = || {
        events.iter().rev().find_map(|event| {
            let lease = event.lease()?;
            lease.resource.workflow()?;
            Some(CommandReply::Led(lease.clone()))
        })
    };
    workflow.or_else(led)
}
