//! A store in memory, for tests and as the plainest reading of the contract.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use jit_core::decide::{Decision, Draft, decide};
use jit_core::log::event::{Event, LoggedRequest, Stamped};
use jit_core::log::stop::Stop;
use jit_core::log::table::{MemoryTable, Overlay};
use jit_core::log::{fold, state};
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::time::Now;

use super::{Ask, Clock, Done, Outcome, Store, View};

#[derive(Debug, Default)]
struct Inner {
    table: MemoryTable,
    log: Vec<Stamped>,
}

/// Clones share one log.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    inner: Arc<Mutex<Inner>>,
}

fn stop(stop: Stop) -> Box<Refusal> {
    match stop {
        Stop::Refused(refusal) => refusal,
        Stop::Unreadable(trouble) => Box::new(Refusal::new(Code::Io, trouble.to_string())),
    }
}

impl MemoryStore {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            inner: Arc::default(),
        }
    }

    fn now(&self) -> Outcome<Now> {
        self.clock
            .now()
            .map_err(|e| Box::new(Refusal::new(Code::Io, format!("the clock cannot be read: {e}"))))
    }

    fn commit(inner: &mut Inner, draft: Draft<'_>, request: Option<&LoggedRequest>) -> Outcome<Vec<Stamped>> {
        let (lines, changes) = draft.finish(request).map_err(|e| stop(e.into()))?;
        inner.table.absorb(changes);
        inner.log.extend(lines.iter().cloned());
        Ok(lines)
    }
}

impl Store for MemoryStore {
    fn transact(&self, ask: &mut Ask<'_>) -> Outcome<Done> {
        let mut inner = self
            .inner
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = self.now()?;
        let anchor = state::anchor(&inner.table).map_err(|e| stop(e.into()))?;
        if anchor.is_none_or(|anchor| anchor.boot_id != now.boot) {
            let table = inner.table.clone();
            let mut draft = Draft::new(&table, inner.log.len() as u64, now.wall, ask.actor.clone());
            draft
                .emit(Event::Boot {
                    boot: now.boot.clone(),
                    ticks: now.ticks,
                })
                .map_err(|e| stop(e.into()))?;
            Self::commit(&mut inner, draft, None)?;
        }
        let request = LoggedRequest {
            id: ask.request.clone(),
            digest: ask.command.digest(ask.actor),
        };
        let earlier: Vec<Stamped> = inner
            .log
            .iter()
            .filter(|line| ask.repeatable && line.request.as_ref().is_some_and(|r| r.id == request.id))
            .cloned()
            .collect();
        let mut notices = Vec::new();
        let (reply, repeated) = if let Some(first) = earlier.first() {
            if first.request.as_ref().is_some_and(|r| r.digest != request.digest) {
                return Err(super::file::request_reused(&request.id));
            }
            let events: Vec<Event> = earlier.into_iter().map(|line| line.event).collect();
            (ask.command.reply(&events), true)
        } else {
            let table = inner.table.clone();
            let mut draft = Draft::new(&table, inner.log.len() as u64, now.wall, ask.actor.clone());
            match decide(&mut draft, ask.command, &ask.context(&now)).map_err(stop)? {
                Decision::Already(reply) => (Some(reply), false),
                Decision::Done => {
                    (ask.prepare)(draft.events())
                        .map_err(|e| Box::new(Refusal::new(Code::Io, e.to_string())))?;
                    notices = draft.take_notices();
                    let lines = Self::commit(&mut inner, draft, Some(&request))?;
                    notices.extend((ask.publish)(&lines, &inner.table));
                    let events: Vec<Event> = lines.into_iter().map(|line| line.event).collect();
                    (ask.command.reply(&events), false)
                }
            }
        };
        let reply =
            reply.ok_or_else(|| Box::new(Refusal::new(Code::Io, "the log has no answer to that request")))?;
        let own = state::leases_of(&inner.table, &ask.actor.agent_id).map_err(|e| stop(e.into()))?;
        Ok(Done {
            reply,
            sequence: inner.log.len() as u64,
            now,
            repeated,
            own,
            notices,
        })
    }

    fn view(&self) -> Outcome<View> {
        let inner = self
            .inner
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = self.now()?;
        let mut table = inner.table.clone();
        let unreadable = |e: jit_core::log::table::Unreadable| stop(e.into());
        if state::anchor(&table)
            .map_err(unreadable)?
            .is_some_and(|anchor| anchor.boot_id != now.boot)
        {
            let before = table.clone();
            let mut overlay = Overlay::new(&before);
            fold::reanchor(&mut overlay, &now.boot, now.ticks, now.wall).map_err(unreadable)?;
            table.absorb(overlay.changes);
        }
        Ok(View {
            table: Box::new(table),
            sequence: inner.log.len() as u64,
            now,
            notices: Vec::new(),
            views_fine: true,
        })
    }

    fn events(&self, after: u64, each: &mut dyn FnMut(Stamped) -> ControlFlow<()>) -> Outcome<()> {
        let log = self
            .inner
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .log
            .clone();
        for line in log.into_iter().filter(|line| line.sequence > after) {
            if each(line).is_break() {
                break;
            }
        }
        Ok(())
    }
}
