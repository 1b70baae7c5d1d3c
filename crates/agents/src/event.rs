//! What agents say, in one language. One JSON object a line in `events.jsonl` of an attempt.
//!
//! Format: `{"at":<ms since 1970>,"kind":…}`, see [`AgentEvent`]. Unknown kinds and fields are read past: a newer program may
//! have written them.

use jit_core::unit::{Tokens, Usd};
use serde::{Deserialize, Serialize};

/// Something an agent said, and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventLine {
    /// Wall clock, milliseconds.
    pub at: i64,
    #[serde(flatten)]
    pub said: AgentEvent,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AgentEvent {
    /// It is at work. The first of these makes a unit RUNNING; so does any other word.
    Started {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// Words for people, shortened.
    Text { text: String },
    /// A tool is used: its name, and what is most telling of its input (a path, a command), shortened.
    Tool { name: String, detail: String },
    /// It came back.
    ToolDone {
        name: String,
        failed: bool,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        detail: String,
    },
    /// A tool was refused, by us or by the agent's own rules.
    Denied { name: String, reason: String },
    /// What the attempt has used up to now, all of it, not what was added.
    Usage {
        tokens: Tokens,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<Usd>,
        #[serde(default)]
        turns: u64,
        /// What the agent's own counter shows, where that goes on over sessions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meter: Option<Meter>,
    },
    /// The model did not answer and is asked again.
    Retrying {
        /// `rate_limit`, `overloaded`, `server_error`, `authentication_failed`, `unknown`.
        why: String,
        attempt: u32,
        delay_ms: u64,
    },
    /// It says it has ended. It may live on, hang, or say more.
    Result { verdict: AgentVerdict },
    /// A line that was not understood, shortened.
    Unknown { line: String },
    /// Written by us: a limit was met, a signal sent, a soft stop asked for.
    Note { text: String },
}

impl AgentEvent {
    /// Every text that came from the agent, or is about it.
    pub fn each_text(&mut self, each: &mut dyn FnMut(&mut String)) {
        match self {
            Self::Started { session_id, model } => {
                session_id.iter_mut().for_each(&mut *each);
                model.iter_mut().for_each(each);
            }
            Self::Text { text } | Self::Note { text } => each(text),
            Self::Tool { name, detail } | Self::ToolDone { name, detail, .. } => {
                each(name);
                each(detail);
            }
            Self::Denied { name, reason } => {
                each(name);
                each(reason);
            }
            Self::Retrying { why, .. } => each(why),
            Self::Result { verdict } => {
                each(&mut verdict.reason);
                each(&mut verdict.text);
                verdict.session_id.iter_mut().for_each(each);
            }
            Self::Unknown { line } => each(line),
            Self::Usage { .. } => {}
        }
    }

    /// Whoever runs the model refuses, and the agent waits by itself.
    pub fn is_limited(&self) -> bool {
        matches!(self, Self::Retrying { why, .. } if matches!(why.as_str(), "rate_limit" | "overloaded"))
    }

    /// In a line for people; what came from the agent is data, and may be anything.
    pub fn for_people(&self) -> String {
        match self {
            Self::Started { session_id, model } => {
                let mut words = vec!["at work".to_owned()];
                words.extend(model.iter().cloned());
                words.extend(session_id.iter().map(|id| format!("session {id}")));
                words.join(", ")
            }
            Self::Text { text } => text.clone(),
            Self::Tool { name, detail } => format!("{name} {detail}"),
            Self::ToolDone { name, failed, detail } => {
                let word = if *failed { "failed" } else { "done" };
                format!("{name} {word} {detail}")
            }
            Self::Denied { name, reason } => format!("{name} refused: {reason}"),
            Self::Usage {
                tokens,
                cost_usd,
                turns,
                meter: _,
            } => {
                let cost = cost_usd.map(|usd| format!(", ${:.4}", usd.0 as f64 / 1e6));
                format!(
                    "{turns} turns, {} tokens{}",
                    tokens.total(),
                    cost.unwrap_or_default()
                )
            }
            Self::Retrying {
                why,
                attempt,
                delay_ms,
            } => {
                format!("the model did not answer ({why}), asked again in {delay_ms} ms, the {attempt}. time")
            }
            Self::Result { verdict } => {
                let word = if verdict.is_error { "failed" } else { "ended" };
                format!("{word} ({}) {}", verdict.reason, verdict.text)
            }
            Self::Unknown { line } => line.clone(),
            Self::Note { text } => text.clone(),
        }
    }
}

/// How an agent says it ended.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AgentVerdict {
    pub is_error: bool,
    /// The agent's own word: `completed`, `max_turns`, `budget_exhausted`, `api_error`, …
    pub reason: String,
    /// Its last words, shortened.
    #[serde(default)]
    pub text: String,
    #[serde(default)]
    pub session_id: Option<String>,
    #[serde(default)]
    pub denials: u32,
    /// HTTP status of the model's last refusal.
    #[serde(default)]
    pub api_status: Option<u16>,
    /// Trying again may help: a limit, an overload, a broken line.
    #[serde(default)]
    pub retryable: bool,
    /// Whoever runs the model refuses for now: too many requests, a used up quota, an overload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited: Option<Limited>,
}

/// Nobody is to ask this model now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limited {
    /// Not before then, if it was said when: wall clock, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<i64>,
}

/// Tokens as an agent counts them over a whole session, resumed or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Meter {
    /// With those that were cached.
    pub input: u64,
    #[serde(default)]
    pub cached: u64,
    pub output: u64,
}

impl Meter {
    /// What came after `before`. A counter that shows less than then began anew, so all of it did.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        if self.input < before.input || self.output < before.output {
            return self;
        }
        Self {
            input: self.input - before.input,
            cached: self.cached.saturating_sub(before.cached),
            output: self.output - before.output,
        }
    }

    pub fn tokens(self) -> Tokens {
        Tokens {
            input: self.input,
            output: self.output,
        }
    }
}
