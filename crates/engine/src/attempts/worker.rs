//! A running agent in the log: its shim keeps its session and its leases alive, and ends its session.
//!
//! What must hold: the leases are renewed before anything else that can fail, except for the heartbeat.

use jit_agents::event::{AgentEvent, EventLine};
use jit_agents::runner::attempt::{self, Attempt};
use jit_core::model::ids::{SessionId, UnitId};
use jit_core::model::session::SessionStatus;
use jit_core::model::time::Wall;
use jit_store::Outcome;

use crate::api::Answer;
use crate::api::attempts::{AttemptReply, EndedSession, KeptAlive};
use crate::api::sessions::StartSession;
use crate::context::{Context, plain};
use crate::units::service::attempt_folder;

pub(crate) fn start_session(cx: &Context) -> Outcome<Answer> {
    crate::sessions::start_session(cx, &StartSession::default())
}

/// Records a heartbeat of the session and renews the agent's leases. Parks the account in the log if a limit refused the
/// agent and the agent waits for its retry.
pub(crate) fn keep_alive(
    cx: &Context,
    unit: &UnitId,
    attempt: u32,
    session: Option<&SessionId>,
) -> Outcome<Answer> {
    if let Some(session) = session {
        crate::sessions::beat_session(cx, Some(session))?;
    }
    let renewed = crate::leases::renew_own(cx)?;
    if let Ok(Attempt::Running(running)) = attempt::look(&attempt_folder(cx, unit, attempt))
        && let Some(EventLine {
            at,
            said: said @ AgentEvent::Retrying { delay_ms, .. },
        }) = running.last
        && said.is_limited()
    {
        let until = Wall::from_ms(at).plus_ms(delay_ms);
        super::accounts::park_while_it_waits(cx, unit, attempt, until, &said.for_people())?;
    }
    let kept = KeptAlive {
        renewed: renewed as u64,
    };
    Ok(plain(cx, AttemptReply::KeptAlive(kept).into()))
}

/// Releases the agent's file locks and ends its session. If this request never comes, the session becomes stale, because
/// its heartbeats stop.
pub(crate) fn end_session(cx: &Context, session: Option<SessionId>, well: bool) -> Outcome<Answer> {
    crate::file_locks::service::let_go_of_files(cx, &cx.actor)?;
    if let Some(session) = &session {
        let status = match well {
            true => SessionStatus::Completed,
            false => SessionStatus::Failed,
        };
        crate::sessions::end_session(cx, Some(session), status)?;
    }
    let ended = EndedSession { session };
    Ok(plain(cx, AttemptReply::SessionEnded(ended).into()))
}
