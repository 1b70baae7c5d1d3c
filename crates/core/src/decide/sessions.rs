//! Decisions about sessions: start, end and prune.
//!
//! Ending a session releases its file locks in the same transaction. Its other leases end by their own rules.

use crate::decide::command::{CommandReply, Context};
use crate::decide::draft::{Decision, Draft};
use crate::decide::file_locks;
use crate::decide::leases::clear_expired;
use crate::log::event::Event;
use crate::log::state;
use crate::log::stop::Stop;
use crate::model::ids::SessionId;
use crate::model::refusal::{Code, Refusal};
use crate::model::session::{Session, SessionStatus};

pub fn start(draft: &mut Draft<'_>, session: &Session) -> Result<Decision, Stop> {
    if state::session(draft.state(), &session.session_id)?.is_some() {
        return Err(Refusal::new(
            Code::Exists,
            format!("there is a session {} already", session.session_id),
        )
        .into());
    }
    draft.emit(Event::SessionStarted {
        session: session.clone(),
    })?;
    Ok(Decision::Done)
}

/// Ends a session and lets go of the file locks that were taken in it.
pub fn end(
    draft: &mut Draft<'_>,
    id: &SessionId,
    status: SessionStatus,
    cx: &Context,
) -> Result<Decision, Stop> {
    let Some(session) = state::session(draft.state(), id)? else {
        return Err(unknown(id).into());
    };
    if !session.is_active() {
        return Ok(Decision::Already(CommandReply::Session(Box::new(session))));
    }
    if session.agent_id != cx.actor.agent_id && cx.policy.kind_of(&cx.actor.agent_id) == "agent" {
        return Err(Refusal::new(
            Code::NotHolder,
            format!("{id} is a session of {}", session.agent_id),
        )
        .help("jit session list")
        .into());
    }
    // Another session of the same agent in the same place may still need them.
    let shared = state::sessions(draft.state())?
        .iter()
        .any(|other| other.session_id != *id && other.is_active() && other.actor() == session.actor());
    if !shared {
        for lease in file_locks::held_by(draft.state(), &session.actor())? {
            draft.emit(Event::Released {
                lease,
                by: cx.actor.agent_id.clone(),
                brief: false,
            })?;
        }
    }
    draft.emit(Event::SessionEnded {
        session_id: id.clone(),
        status,
    })?;
    clear_expired(draft, cx)?;
    Ok(Decision::Done)
}

/// Takes sessions off the list.
pub fn prune(draft: &mut Draft<'_>, ids: &[SessionId]) -> Result<Decision, Stop> {
    let mut known = Vec::new();
    for id in ids {
        if state::session(draft.state(), id)?.is_some() {
            known.push(id.clone());
        }
    }
    if known.is_empty() {
        return Ok(Decision::Already(CommandReply::Pruned(known)));
    }
    draft.emit(Event::SessionsPruned { sessions: known })?;
    Ok(Decision::Done)
}

pub fn unknown(id: &SessionId) -> Refusal {
    Refusal::new(Code::NotFound, format!("no session is called {id}")).help("jit session list")
}
