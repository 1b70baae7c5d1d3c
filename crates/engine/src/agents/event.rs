//! What agents say, in one language. One JSON object a line in `events.jsonl` of an attempt.
//!
//! Format: `{"at":<ms since 1970>,"kind":…}`, see [`Said`]. Unknown kinds and fields are read past: a newer program may
//! have written them.

use serde::{Deserialize, Serialize};

use jit_core::unit::{Tokens, Usd};

/// Something an agent said, and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Wall clock, milliseconds.
    pub at: i64,
    #[serde(flatten)]
    pub said: Said,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Said {
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
    },
    /// The model did not answer and is asked again.
    Retrying {
        /// `rate_limit`, `overloaded`, `server_error`, `authentication_failed`, `unknown`.
        why: String,
        attempt: u32,
        delay_ms: u64,
    },
    /// It says it has ended. It may live on, hang, or say more.
    Result { verdict: Verdict },
    /// A line that was not understood, shortened.
    Unknown { line: String },
    /// Written by us: a limit was met, a signal sent, a soft stop asked for.
    Note { text: String },
}

impl Said {
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
pub struct Verdict {
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
}
