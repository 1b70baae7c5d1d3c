//! The conversation with an agent: what it says is understood, written down, added up and answered.

use jit_core::unit::{Tokens, Usd};

use super::event_log::EventLog;
use super::lines::OutputLine;
use super::stdin::StdinWriter;
use crate::ask::Ask;
use crate::event::{AgentEvent, AgentVerdict, Meter};
use crate::listener::{Listener, Reaction};
use crate::text::short;

/// What is kept of a line that was not understood, in characters.
const UNKNOWN: usize = 2000;

/// What an agent has used, and how it says it ended.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AttemptTotals {
    pub tokens: Tokens,
    pub cost_usd: Option<Usd>,
    pub turns: u64,
    pub verdict: Option<AgentVerdict>,
    /// The first session it said it has.
    pub session_id: Option<String>,
    pub meter: Option<Meter>,
}

impl AttemptTotals {
    pub fn add(&mut self, said: &AgentEvent) {
        match said {
            AgentEvent::Usage {
                tokens,
                cost_usd,
                turns,
                meter,
            } => {
                self.meter = meter.or(self.meter);
                self.tokens = *tokens;
                self.cost_usd = cost_usd.or(self.cost_usd);
                self.turns = *turns;
            }
            AgentEvent::Started { session_id, .. } if self.session_id.is_none() => {
                self.session_id.clone_from(session_id);
            }
            AgentEvent::Result { verdict } => self.verdict = Some(verdict.clone()),
            _ => {}
        }
    }
}

pub struct Conversation<'a> {
    pub listener: Box<dyn Listener>,
    pub ask: &'a mut dyn Ask,
    pub events: EventLog,
    pub stdin: StdinWriter,
    pub sum: AttemptTotals,
    /// Results that nobody has taken notice of yet.
    pub results: u32,
    /// It was refused by whoever runs the model, waits, and nobody has taken notice of that yet.
    pub limited: bool,
    deaf: bool,
}

impl<'a> Conversation<'a> {
    pub fn new(
        listener: Box<dyn Listener>,
        ask: &'a mut dyn Ask,
        events: EventLog,
        stdin: StdinWriter,
    ) -> Self {
        Self {
            listener,
            ask,
            events,
            stdin,
            sum: AttemptTotals::default(),
            results: 0,
            limited: false,
            deaf: false,
        }
    }

    pub fn line(&mut self, line: OutputLine<'_>) {
        match line {
            OutputLine::Whole(line) => {
                let mut heard = self.listener.line(line, self.ask);
                for said in std::mem::take(&mut heard.said) {
                    self.say(said);
                }
                self.answer(&heard);
            }
            OutputLine::Cut(head, len) => {
                // What it asked with so many words is answered too, or it would wait.
                let heard = self.listener.line(head, self.ask);
                self.answer(&heard);
                let head = head.get(..UNKNOWN * 4).unwrap_or(head);
                let line = short(&String::from_utf8_lossy(head), UNKNOWN);
                self.say(AgentEvent::Unknown {
                    line: format!("{line} [a line of {len} bytes]"),
                });
            }
        }
    }

    fn answer(&mut self, heard: &Reaction) {
        if !self.stdin.offer(&heard.answer) && !self.deaf {
            self.deaf = true;
            self.events
                .note("it does not read its standard input: answers were dropped");
        }
        if heard.hang_up {
            self.stdin.hang_up();
        }
    }

    /// It is about to be ended. Says whether it was asked to stop in words it understands.
    pub fn ask_to_stop(&mut self) -> bool {
        let words = self.listener.stop();
        !words.is_empty() && self.stdin.offer(&words) && self.stdin.wants().is_some()
    }

    /// Its output has ended.
    pub fn end(&mut self) {
        for said in self.listener.end() {
            self.say(said);
        }
        self.events.flush();
    }

    /// It has ended by itself, and said nothing about it but this.
    pub fn exited(&mut self, code: Option<i32>, stderr: &str) {
        if self.sum.verdict.is_none()
            && let Some(verdict) = self.listener.exited(code, stderr)
        {
            self.say(AgentEvent::Result { verdict });
        }
    }

    fn say(&mut self, mut said: AgentEvent) {
        self.events.redact(&mut said);
        self.sum.add(&said);
        self.limited |= said.is_limited();
        let said = match said {
            AgentEvent::Unknown { line } if line.len() > UNKNOWN => AgentEvent::Unknown {
                line: short(&line, UNKNOWN + 40),
            },
            AgentEvent::Result { .. } => {
                self.results += 1;
                said
            }
            _ => said,
        };
        self.events.say(said);
    }
}
