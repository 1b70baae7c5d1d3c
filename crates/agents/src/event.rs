//! Events of an agent, in one format for all agents. `events.jsonl` of an attempt has one JSON object per line.
//!
//! Format: `{"at":<ms since 1970>,"kind":…}`, see [`AgentEvent`]. Readers skip unknown kinds and fields: a newer
//! version may have written them.

use jit_core::model::cost::{Tokens, Usd};
use serde::{Deserialize, Serialize};

/// An event and its time.
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
    /// The agent has started. The first event of any kind moves the unit to RUNNING.
    Started {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// Text for people, shortened.
    Text { text: String },
    /// The agent uses a tool: its name, and the most telling part of its input (a path, a command), shortened.
    Tool { name: String, detail: String },
    /// The tool returned.
    ToolDone {
        name: String,
        failed: bool,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        detail: String,
    },
    /// A tool was denied, by jit or by the agent's own rules.
    Denied { name: String, reason: String },
    /// The total usage of the attempt so far, not the increment.
    Usage {
        tokens: Tokens,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<Usd>,
        #[serde(default)]
        turns: u64,
        /// The agent's own counter, if it continues over several sessions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meter: Option<Meter>,
    },
    /// The model did not answer, and the agent retries.
    Retrying {
        /// `rate_limit`, `overloaded`, `server_error`, `authentication_failed`, `unknown`.
        why: String,
        attempt: u32,
        delay_ms: u64,
    },
    /// The agent reports its result. The process may continue, hang, or report more.
    Result { verdict: AgentVerdict },
    /// A line that was not understood, shortened.
    Unknown { line: String },
    /// Written by the shim: a limit was reached, a signal was sent, a soft stop was requested.
    Note { text: String },
}

impl AgentEvent {
    /// Calls `each` for every text that came from the agent, or is about it.
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

    /// Whether the model provider limits the agent, and the agent waits and retries by itself.
    pub fn is_limited(&self) -> bool {
        matches!(self, Self::Retrying { why, .. } if matches!(why.as_str(), "rate_limit" | "overloaded"))
    }

    /// One line for people. Text from the agent is untrusted and may contain anything.
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

/// The agent's own report of how it ended. It is a claim: the caller checks the result with git.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AgentVerdict {
    pub is_error: bool,
    /// The agent's own word: `completed`, `max_turns`, `budget_exhausted`, `api_error`, …
    pub reason: String,
    /// Its last text, shortened.
    #[serde(default)]
    pub text: String,
    #[serde(default)]
    pub session_id: Option<String>,
    #[serde(default)]
    pub denials: u32,
    /// HTTP status of the model's last error.
    #[serde(default)]
    pub api_status: Option<u16>,
    /// Whether a retry may help: a rate limit, an overload, a broken connection.
    #[serde(default)]
    pub retryable: bool,
    /// Set if the model provider refuses for now: too many requests, an exhausted quota, an overload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited: Option<Limited>,
}

/// A rate limit of the model: wait before the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limited {
    /// The earliest time for the next request, if the provider named one: wall clock, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<i64>,
}

/// Tokens as the agent counts them over a whole session, including resumed ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Meter {
    /// Includes cached tokens.
    pub input: u64,
    #[serde(default)]
    pub cached: u64,
    pub output: u64,
}

impl Meter {
    /// The difference to an earlier reading. A counter that is lower than before was reset: then all of it is new.
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
