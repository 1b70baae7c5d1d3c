//! The conversation with an agent: what it says is understood, written down, added up and answered.

use jit_core::unit::{Tokens, Usd};

use super::event_log::Record;
use super::lines::Line;
use super::stdin::Feed;
use crate::ask::Ask;
use crate::event::{Meter, Said, Verdict};
use crate::listener::{Heard, Listener};
use crate::text::short;

/// What is kept of a line that was not understood, in characters.
const UNKNOWN: usize = 2000;

/// What an agent has used, and how it says it ended.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sum {
    pub tokens: Tokens,
    pub cost_usd: Option<Usd>,
    pub turns: u64,
    pub verdict: Option<Verdict>,
    /// The first session it said it has.
    pub session_id: Option<String>,
    pub meter: Option<Meter>,
}

impl Sum {
    pub fn add(&mut self, said: &Said) {
        match said {
            Said::Usage {
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
            Said::Started { session_id, .. } if self.session_id.is_none() => {
                self.session_id.clone_from(session_id);
            }
            Said::Result { verdict } => self.verdict = Some(verdict.clone()),
            _ => {}
        }
    }
}

pub struct Talk<'a> {
    pub listener: Box<dyn Listener>,
    pub ask: &'a mut dyn Ask,
    pub record: Record,
    pub feed: Feed,
    pub sum: Sum,
    /// Results that nobody has taken notice of yet.
    pub results: u32,
    /// It was refused by whoever runs the model, waits, and nobody has taken notice of that yet.
    pub limited: bool,
    deaf: bool,
}

impl<'a> Talk<'a> {
    pub fn new(listener: Box<dyn Listener>, ask: &'a mut dyn Ask, record: Record, feed: Feed) -> Self {
        Self {
            listener,
            ask,
            record,
            feed,
            sum: Sum::default(),
            results: 0,
            limited: false,
            deaf: false,
        }
    }

    pub fn line(&mut self, line: Line<'_>) {
        match line {
            Line::Whole(line) => {
                let mut heard = self.listener.line(line, self.ask);
                for said in std::mem::take(&mut heard.said) {
                    self.say(said);
                }
                self.answer(&heard);
            }
            Line::Cut(head, len) => {
                // What it asked with so many words is answered too, or it would wait.
                let heard = self.listener.line(head, self.ask);
                self.answer(&heard);
                let head = head.get(..UNKNOWN * 4).unwrap_or(head);
                let line = short(&String::from_utf8_lossy(head), UNKNOWN);
                self.say(Said::Unknown {
                    line: format!("{line} [a line of {len} bytes]"),
                });
            }
        }
    }

    fn answer(&mut self, heard: &Heard) {
        if !self.feed.offer(&heard.answer) && !self.deaf {
            self.deaf = true;
            self.record
                .note("it does not read its standard input: answers were dropped");
        }
        if heard.hang_up {
            self.feed.hang_up();
        }
    }

    /// It is about to be ended. Says whether it was asked to stop in words it understands.
    pub fn ask_to_stop(&mut self) -> bool {
        let words = self.listener.stop();
        !words.is_empty() && self.feed.offer(&words) && self.feed.wants().is_some()
    }

    /// Its output has ended.
    pub fn end(&mut self) {
        for said in self.listener.end() {
            self.say(said);
        }
        self.record.flush();
    }

    /// It has ended by itself, and said nothing about it but this.
    pub fn exited(&mut self, code: Option<i32>, stderr: &str) {
        if self.sum.verdict.is_none()
            && let Some(verdict) = self.listener.exited(code, stderr)
        {
            self.say(Said::Result { verdict });
        }
    }

    fn say(&mut self, mut said: Said) {
        self.record.redact(&mut said);
        self.sum.add(&said);
        self.limited |= said.is_limited();
        let said = match said {
            Said::Unknown { line } if line.len() > UNKNOWN => Said::Unknown {
                line: short(&line, UNKNOWN + 40),
            },
            Said::Result { .. } => {
                self.results += 1;
                said
            }
            _ => said,
        };
        self.record.say(said);
    }
}
