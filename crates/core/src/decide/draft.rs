//! Events in the making, and the state as it will be with them.

use crate::decide::command::{CommandReply, Context};
use crate::log::event::{Event, LoggedRequest, Stamped};
use crate::log::table::{Overlay, Read, Table, TableChanges};
use crate::log::{fold, state};
use crate::model::actor::Actor;
use crate::model::ids::LeaseId;
use crate::model::time::Wall;

/// Events in the making, and the state as it will be with them.
#[derive(Debug)]
pub struct Draft<'a> {
    state: Overlay<'a>,
    events: Vec<Event>,
    next: u64,
    at: Wall,
    actor: Actor,
    notices: Vec<String>,
}

impl<'a> Draft<'a> {
    /// `last` is the sequence of the newest line in the log.
    pub fn new(table: &'a dyn Table, last: u64, at: Wall, actor: Actor) -> Self {
        Self {
            state: Overlay::new(table),
            events: Vec::new(),
            next: last + 1,
            at,
            actor,
            notices: Vec::new(),
        }
    }

    pub fn state(&self) -> &dyn Table {
        &self.state
    }

    /// The sequence the next event will have: a grant's fencing token.
    pub fn next_sequence(&self) -> u64 {
        self.next
    }

    pub fn emit(&mut self, mut event: Event) -> Read<()> {
        if let Event::Worked { previous, .. } = &mut event {
            *previous = state::last_worked(&self.state)?;
        }
        let stamped = Stamped {
            sequence: self.next,
            at: self.at,
            actor: self.actor.clone(),
            request: None,
            part: (1, 1),
            event,
        };
        fold::apply(&mut self.state, &stamped)?;
        self.next += 1;
        self.events.push(stamped.event);
        Ok(())
    }

    /// A new id for each lease that one command grants, made from the one that was drawn for it.
    pub fn name_lease(&self, cx: &Context) -> LeaseId {
        let granted = self
            .events
            .iter()
            .filter(|e| matches!(e, Event::Acquired { .. }))
            .count();
        cx.fresh_lease.plus(granted as u64)
    }

    /// Something the caller should know beside the answer.
    pub fn notice(&mut self, text: impl Into<String>) {
        self.notices.push(text.into());
    }

    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Drops what was drafted: the answer needs nothing written.
    pub(crate) fn forget(&mut self) {
        self.next -= self.events.len() as u64;
        self.events.clear();
        self.state.changes.clear();
    }

    /// The transaction's lines and everything they change.
    pub fn finish(self, request: Option<&LoggedRequest>) -> Read<(Vec<Stamped>, TableChanges)> {
        let Self {
            mut state,
            events,
            next,
            at,
            actor,
            notices: _,
        } = self;
        let total = u32::try_from(events.len()).unwrap_or(u32::MAX);
        let first = next - events.len() as u64;
        let mut lines = Vec::with_capacity(events.len());
        for (n, event) in events.into_iter().enumerate() {
            lines.push(Stamped {
                sequence: first + n as u64,
                at,
                actor: actor.clone(),
                request: request.cloned(),
                part: (n as u32 + 1, total),
                event,
            });
        }
        if request.is_some() {
            for line in &lines {
                fold::remember(&mut state, line)?;
            }
        }
        Ok((lines, state.changes))
    }
}

/// The answer to a command that was not refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The draft's events carry it out.
    Done,
    /// It was so already: nothing is to be written.
    Already(CommandReply),
}
