//! Turns the output of Gemini CLI into events.
//!
//! Format, one JSON object per line:
//!
//! - `init` with session and model;
//! - `message`, of the user or as a piece of one of the model;
//! - `tool_use`, `tool_result`;
//! - `error` for a problem on the way;
//! - at the end `result` with `status`, `error` and tokens.
//!
//! What must hold:
//!
//! - a line that names a session other than the first one has no effect;
//! - pieces of the model's text become one event;
//! - a turn is one answer of the model: text and tools up to the first tool result;
//! - if it has no access to its model, or does not find its session, the verdict says so in a sentence: Gemini itself
//!   only exits with a code.

use std::collections::{BTreeMap, HashMap};

use jit_os::clock;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::ask::Ask;
use crate::event::{AgentEvent, AgentVerdict, Meter};
use crate::job::Job;
use crate::listener::{Listener, Reaction};
use crate::model_errors;
use crate::price::{self, Price};
use crate::text::{short, short_bytes};
use crate::token_count::count;

/// Maximum characters of a text, of a tool's detail, of a line that was not understood.
const TEXT: usize = 2_000;
const DETAIL: usize = 300;
const UNKNOWN: usize = 500;
/// Maximum number of running tools that are remembered.
const REMEMBERED: usize = 10_000;
/// Maximum bytes of a tool's id that is remembered.
const LONGEST_ID: usize = 200;

/// The known types of lines.
const KINDS: &[&str] = &["init", "message", "tool_use", "tool_result", "error", "result"];

#[derive(Debug)]
pub struct GeminiListener {
    session: Option<String>,
    model: Option<String>,
    prices: Vec<Price>,
    /// Names of running tools, by id.
    tools: HashMap<String, String>,
    /// Text of the model that was not reported yet, and its last text.
    piece: String,
    words: String,
    turns: u64,
    anew: bool,
    denials: u32,
    trouble: Option<String>,
    ended: bool,
}

#[derive(Deserialize)]
struct GeminiEvent<'a> {
    #[serde(rename = "type")]
    kind: String,
    session_id: Option<String>,
    model: Option<String>,
    #[serde(default)]
    role: String,
    #[serde(default)]
    content: String,
    #[serde(default)]
    tool_name: String,
    #[serde(default)]
    tool_id: String,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
    #[serde(default)]
    status: String,
    #[serde(borrow)]
    output: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(default)]
    message: String,
    #[serde(default)]
    severity: String,
    #[serde(borrow)]
    stats: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
struct GeminiError {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    message: String,
}

impl GeminiError {
    fn of(raw: Option<&RawValue>) -> Self {
        raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
            .unwrap_or_default()
    }
}

#[derive(Deserialize, Default)]
struct Stats {
    #[serde(flatten)]
    all: Counts,
    #[serde(default)]
    models: BTreeMap<String, Counts>,
}

#[derive(Deserialize, Default, Clone, Copy)]
struct Counts {
    #[serde(default, deserialize_with = "count")]
    total_tokens: u64,
    #[serde(default, deserialize_with = "count")]
    input_tokens: u64,
    #[serde(default, deserialize_with = "count")]
    output_tokens: u64,
    #[serde(default, deserialize_with = "count")]
    cached: u64,
}

impl Counts {
    fn meter(self) -> Meter {
        Meter {
            input: self.input_tokens,
            cached: self.cached,
            // Thought tokens are only in the total.
            output: self
                .output_tokens
                .max(self.total_tokens.saturating_sub(self.input_tokens)),
        }
    }
}

impl GeminiListener {
    pub fn of(job: &Job) -> Self {
        Self {
            session: None,
            model: job.model.clone(),
            prices: job.prices.clone(),
            tools: HashMap::new(),
            piece: String::new(),
            words: String::new(),
            turns: 0,
            anew: true,
            denials: 0,
            trouble: None,
            ended: false,
        }
    }

    fn event(&mut self, event: &GeminiEvent<'_>, line: &[u8], said: &mut Vec<AgentEvent>) {
        let foreign = match (&self.session, &event.session_id) {
            (Some(own), Some(named)) => own != named,
            _ => false,
        };
        if foreign {
            return said.push(unknown(line));
        }
        let piece = event.kind == "message" && event.role == "assistant";
        // Unknown lines may be between two pieces.
        if !piece && KINDS.contains(&event.kind.as_str()) {
            self.tell_words(said);
        }
        match event.kind.as_str() {
            "init" => self.init(event, said),
            // The prompt, repeated.
            "message" if event.role == "user" => {}
            "message" if piece => {
                self.model_spoke(said);
                if self.piece.len() < TEXT * 4 {
                    self.piece.push_str(&event.content);
                }
            }
            "tool_use" => {
                self.model_spoke(said);
                if self.tools.len() < REMEMBERED && event.tool_id.len() <= LONGEST_ID {
                    self.tools
                        .insert(event.tool_id.clone(), short(&event.tool_name, 100));
                }
                said.push(AgentEvent::Tool {
                    name: short(&event.tool_name, 100),
                    detail: event.parameters.map(telling).unwrap_or_default(),
                });
            }
            "tool_result" => self.tool_result(event, said),
            "error" => {
                if event.severity != "warning" {
                    self.trouble = Some(event.message.clone());
                }
                said.push(AgentEvent::Text {
                    text: short(event.message.trim(), TEXT),
                });
            }
            "result" => self.result(event, said),
            _ => said.push(unknown(line)),
        }
    }

    fn init(&mut self, event: &GeminiEvent<'_>, said: &mut Vec<AgentEvent>) {
        if self.session.is_some() {
            return;
        }
        self.session = event.session_id.as_ref().map(|id| short(id, 100));
        said.push(AgentEvent::Started {
            session_id: self.session.clone(),
            model: event.model.as_ref().map(|model| short(model, 100)),
        });
    }

    fn model_spoke(&mut self, said: &mut Vec<AgentEvent>) {
        self.trouble = None;
        if std::mem::take(&mut self.anew) {
            self.turns += 1;
            said.push(AgentEvent::Usage {
                tokens: Default::default(),
                cost_usd: None,
                turns: self.turns,
                meter: None,
            });
        }
    }

    fn tell_words(&mut self, said: &mut Vec<AgentEvent>) {
        let words = std::mem::take(&mut self.piece);
        if !words.trim().is_empty() {
            self.words = short(words.trim(), TEXT);
            said.push(AgentEvent::Text {
                text: self.words.clone(),
            });
        }
    }

    fn tool_result(&mut self, event: &GeminiEvent<'_>, said: &mut Vec<AgentEvent>) {
        self.anew = true;
        let name = self
            .tools
            .remove(&event.tool_id)
            .unwrap_or_else(|| "?".to_owned());
        let trouble = GeminiError::of(event.error);
        let failed = event.status != "success" || event.error.is_some();
        // Denied by a hook or by its own policy.
        if failed
            && matches!(
                trouble.kind.as_str(),
                "policy_violation" | "execution_denied" | "stop_execution"
            )
        {
            self.denials = self.denials.saturating_add(1);
            return said.push(AgentEvent::Denied {
                name: short(&name, 100),
                reason: short(trouble.message.trim(), TEXT),
            });
        }
        let detail = match (failed, trouble.message.trim()) {
            (false, _) => String::new(),
            (true, "") => {
                let output: Option<String> = event
                    .output
                    .and_then(|output| serde_json::from_str(output.get()).ok());
                short(output.unwrap_or_default().trim(), DETAIL)
            }
            (true, message) => short(message, DETAIL),
        };
        said.push(AgentEvent::ToolDone {
            name: short(&name, 100),
            failed,
            detail,
        });
    }

    fn result(&mut self, event: &GeminiEvent<'_>, said: &mut Vec<AgentEvent>) {
        self.ended = true;
        let stats = event
            .stats
            .and_then(|stats| serde_json::from_str::<Stats>(stats.get()).ok());
        if let Some(stats) = stats {
            said.push(AgentEvent::Usage {
                tokens: stats.all.meter().tokens(),
                cost_usd: self.cost(&stats),
                turns: self.turns,
                meter: None,
            });
        }
        let trouble = GeminiError::of(event.error);
        // A result that is not known to be a success is a failure.
        let verdict = match (event.status.as_str(), event.error) {
            ("success", None) => AgentVerdict {
                reason: "completed".to_owned(),
                text: self.words.clone(),
                session_id: self.session.clone(),
                denials: self.denials,
                ..AgentVerdict::default()
            },
            _ => self.refusal(&trouble.kind, &trouble.message),
        };
        said.push(AgentEvent::Result { verdict });
    }

    /// The cost, if all models it used have a price.
    fn cost(&self, stats: &Stats) -> Option<jit_core::model::cost::Usd> {
        let price = |model: Option<&str>| price::find(&self.prices, "gemini", model);
        if stats.models.is_empty() {
            return price(self.model.as_deref()).map(|price| price.of(stats.all.meter()));
        }
        let mut all = 0_u64;
        for (model, counts) in &stats.models {
            all = all.saturating_add(price(Some(model))?.of(counts.meter()).0);
        }
        Some(jit_core::model::cost::Usd(all).min(price::LARGEST))
    }

    fn refusal(&self, kind: &str, words: &str) -> AgentVerdict {
        let words = match words.trim() {
            "" => self.trouble.as_deref().unwrap_or_default(),
            words => words,
        };
        let mut verdict = model_errors::classify(words, clock::wall_ms());
        let named = match kind {
            "FatalAuthenticationError" => Some("authentication_failed"),
            "FatalTurnLimitedError" => Some("max_turns"),
            _ => None,
        };
        if let Some(named) = named {
            named.clone_into(&mut verdict.reason);
            (verdict.retryable, verdict.limited) = (false, None);
        } else if kind.contains("QuotaError") && verdict.limited.is_none() {
            "rate_limit".clone_into(&mut verdict.reason);
            verdict.retryable = true;
            verdict.limited = Some(Default::default());
        }
        verdict.session_id.clone_from(&self.session);
        verdict.denials = self.denials;
        verdict
    }
}

impl Listener for GeminiListener {
    fn line(&mut self, line: &[u8], _: &mut dyn Ask) -> Reaction {
        let line = line.trim_ascii();
        let mut heard = Reaction::default();
        if !line.is_empty() {
            match serde_json::from_slice::<GeminiEvent<'_>>(line) {
                Ok(event) => self.event(&event, line, &mut heard.said),
                Err(_) => heard.said.push(unknown(line)),
            }
        }
        heard
    }

    fn end(&mut self) -> Vec<AgentEvent> {
        let mut said = Vec::new();
        self.tell_words(&mut said);
        if let (false, Some(words)) = (self.ended, self.trouble.clone()) {
            let verdict = self.refusal("", &words);
            said.push(AgentEvent::Result { verdict });
        }
        said
    }

    fn exited(&mut self, code: Option<i32>, stderr: &str) -> Option<AgentVerdict> {
        let code = code.filter(|code| *code != 0)?;
        let last = || {
            let mut lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
            lines.next_back().unwrap_or_default().to_owned()
        };
        let (reason, retryable, text) = match code {
            41 => (
                "authentication_failed",
                false,
                format!(
                    "gemini is not set up to reach its model: choose how it logs in (run `gemini` once, or \
                     security.auth.selectedType in ~/.gemini/settings.json and GEMINI_API_KEY): {}",
                    last()
                ),
            ),
            42 if stderr.contains("Error resuming session") => {
                let first = stderr
                    .lines()
                    .find(|line| line.starts_with("Error"))
                    .unwrap_or_default();
                ("session_lost", false, first.to_owned())
            }
            42 => (
                "error",
                true,
                format!("gemini did not take what it was told: {}", last()),
            ),
            44 => (
                "usage",
                false,
                format!("gemini's sandbox cannot be used: {}", last()),
            ),
            52 => (
                "usage",
                false,
                format!("gemini's settings cannot be used: {}", last()),
            ),
            53 => ("max_turns", false, last()),
            _ => return Some(self.refusal("", stderr)).filter(|verdict| verdict.reason != "error"),
        };
        Some(AgentVerdict {
            is_error: true,
            reason: reason.to_owned(),
            text: short(&text, TEXT),
            session_id: self.session.clone(),
            retryable,
            ..AgentVerdict::default()
        })
    }
}

/// The most telling field of a tool's input, in one line.
fn telling(input: &RawValue) -> String {
    /// In this order.
    #[derive(Deserialize, Default)]
    struct Input {
        file_path: Option<String>,
        command: Option<String>,
        absolute_path: Option<String>,
        pattern: Option<String>,
        query: Option<String>,
        prompt: Option<String>,
        dir_path: Option<String>,
        path: Option<String>,
    }
    let input = serde_json::from_str::<Input>(input.get()).unwrap_or_default();
    let all = [
        input.file_path,
        input.command,
        input.absolute_path,
        input.pattern,
        input.query,
        input.prompt,
        input.dir_path,
        input.path,
    ];
    let first = all.into_iter().flatten().next().unwrap_or_default();
    short(first.trim().lines().next().unwrap_or_default(), DETAIL)
}

fn unknown(line: &[u8]) -> AgentEvent {
    AgentEvent::Unknown {
        line: short_bytes(line, UNKNOWN),
    }
}
