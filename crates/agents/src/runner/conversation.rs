//! The conversation with an agent: parses its output, records and sums up its events, and answers it.

use jit_core::model::cost::{Tokens, Usd};

use super::event_log::EventLog;
use super::lines::OutputLine;
use super::stdin::StdinWriter;
use crate::ask::Ask;
use crate::event::{AgentEvent, AgentVerdict, Meter};
use crate::listener::{Listener, Reaction};
use crate::text::short;

/// Characters that are kept of a line that was not understood.
const UNKNOWN: usize = 2000;

/// Total usage of an attempt, and the agent's report of its end.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AttemptTotals {
    pub tokens: Tokens,
    pub cost_usd: Option<Usd>,
    pub turns: u64,
    pub verdict: Option<AgentVerdict>,
    /// The first session id that the agent reported.
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
    /// Results that the shim has not handled yet.
    pub results: u32,
    /// Whether the agent waits because of a rate limit that the shim has not handled yet.
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
                // A question in such a line is answered too, or the agent would wait forever.
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

    /// The agent is about to be stopped. Returns whether it was asked to stop in its own protocol.
    pub fn ask_to_stop(&mut self) -> bool {
        let words = self.listener.stop();
        !words.is_empty() && self.stdin.offer(&words) && self.stdin.wants().is_some()
    }

    /// The output has ended.
    pub fn end(&mut self) {
        for said in self.listener.end() {
            self.say(said);
        }
        self.events.flush();
    }

    /// The agent exited by itself. If it gave no verdict, derives one from the exit code and the standard error.
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
