//! Turns the output of Codex into events.
//!
//! Format, one JSON object per line:
//!
//! - `thread.started` with its id, `turn.started`;
//! - `item.started`, `item.updated` and `item.completed` with an item: `agent_message`, `command_execution`,
//!   `file_change`, `mcp_tool_call`, `web_search`, `reasoning`, `todo_list`, `error`;
//! - at the end `turn.completed` with tokens or `turn.failed` with a message;
//! - `error` for a problem on the way.
//!
//! What must hold:
//!
//! - a line that names a thread other than the first one has no effect;
//! - a turn is counted as one answer of the model: text and tools up to the first tool result. Tools that the model
//!   called together and that run one after the other count as several turns;
//! - if the agent ends without a result while it tries to reach the model, that error is its verdict.

use std::collections::HashSet;

use jit_os::clock;
use serde::Deserialize;

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

#[derive(Debug)]
pub struct CodexListener {
    thread: Option<String>,
    model: Option<String>,
    price: Option<Price>,
    before: Meter,
    meter: Option<Meter>,
    turns: u64,
    /// The next output of the model starts a new turn.
    anew: bool,
    /// Ids of tools whose use was reported.
    tools: HashSet<String>,
    denials: u32,
    /// Its last text.
    words: String,
    /// The last error, if nothing succeeded after it.
    trouble: Option<String>,
    ended: bool,
}

#[derive(Deserialize)]
struct CodexEvent {
    #[serde(rename = "type")]
    kind: String,
    thread_id: Option<String>,
    item: Option<CodexItem>,
    usage: Option<CodexUsage>,
    message: Option<String>,
    error: Option<Failed>,
}

#[derive(Deserialize)]
struct Failed {
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct CodexItem {
    #[serde(default)]
    id: String,
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    command: String,
    #[serde(default)]
    aggregated_output: String,
    exit_code: Option<i64>,
    #[serde(default)]
    status: String,
    #[serde(default)]
    changes: Vec<FileChange>,
    #[serde(default)]
    server: String,
    #[serde(default)]
    tool: String,
    #[serde(default)]
    query: String,
}

#[derive(Deserialize)]
struct FileChange {
    #[serde(default)]
    path: String,
}

#[derive(Deserialize)]
struct CodexUsage {
    #[serde(default, deserialize_with = "count")]
    input_tokens: u64,
    #[serde(default, deserialize_with = "count")]
    cached_input_tokens: u64,
    #[serde(default, deserialize_with = "count")]
    output_tokens: u64,
}

impl CodexItem {
    /// The name and the most telling field, if the item is a tool.
    fn tool(&self) -> Option<(String, String)> {
        let line = |text: &str| short(text.trim().lines().next().unwrap_or_default(), DETAIL);
        Some(match self.kind.as_str() {
            "command_execution" => ("shell".to_owned(), line(&self.command)),
            "file_change" => {
                let paths: Vec<&str> = self
                    .changes
                    .iter()
                    .map(|change| change.path.as_str())
                    .take(20)
                    .collect();
                ("patch".to_owned(), line(&paths.join(" ")))
            }
            "mcp_tool_call" => (
                short(&format!("{}.{}", self.server, self.tool), 100),
                String::new(),
            ),
            "collab_tool_call" => (short(&self.tool, 100), String::new()),
            "web_search" => ("web_search".to_owned(), line(&self.query)),
            _ => return None,
        })
    }

    fn failed(&self) -> bool {
        matches!(self.status.as_str(), "failed" | "declined") || self.exit_code.is_some_and(|code| code != 0)
    }
}

impl CodexListener {
    pub fn of(job: &Job) -> Self {
        Self {
            thread: None,
            model: job.model.clone(),
            price: price::find(&job.prices, "codex", job.model.as_deref()).cloned(),
            before: job.meter_before.unwrap_or_default(),
            meter: None,
            turns: 0,
            anew: true,
            tools: HashSet::new(),
            denials: 0,
            words: String::new(),
            trouble: None,
            ended: false,
        }
    }

    fn event(&mut self, event: CodexEvent, line: &[u8], said: &mut Vec<AgentEvent>) {
        let foreign = match (&self.thread, &event.thread_id) {
            (Some(own), Some(named)) => own != named,
            _ => false,
        };
        if foreign {
            return said.push(unknown(line));
        }
        match (event.kind.as_str(), event.item, event.usage, event.error) {
            ("thread.started", ..) => self.started(event.thread_id, said),
            ("turn.started", ..) => self.anew = true,
            ("item.started", Some(item), ..) => self.begun(&item, said),
            ("item.completed", Some(item), ..) => self.done(&item, said),
            ("item.updated", ..) => {}
            ("turn.completed", _, usage, _) => self.completed(usage, said),
            ("turn.failed", _, usage, failed) => {
                let words = failed.map(|failed| failed.message).unwrap_or_default();
                self.used(usage, said);
                self.failed(&words, said);
            }
            ("error", ..) => self.troubled(event.message.unwrap_or_default(), said),
            _ => said.push(unknown(line)),
        }
    }

    fn started(&mut self, id: Option<String>, said: &mut Vec<AgentEvent>) {
        if self.thread.is_some() || id.is_none() {
            return;
        }
        self.thread = id.map(|id| short(&id, 100));
        said.push(AgentEvent::Started {
            session_id: self.thread.clone(),
            model: self.model.clone(),
        });
    }

    /// The model sent text or called a tool.
    fn model_spoke(&mut self, said: &mut Vec<AgentEvent>) {
        self.trouble = None;
        if std::mem::take(&mut self.anew) {
            self.turns += 1;
            self.tell_usage(said);
        }
    }

    fn begun(&mut self, item: &CodexItem, said: &mut Vec<AgentEvent>) {
        let Some((name, detail)) = item.tool() else { return };
        self.model_spoke(said);
        if self.tools.len() < REMEMBERED && item.id.len() <= LONGEST_ID {
            self.tools.insert(item.id.clone());
        }
        said.push(AgentEvent::Tool { name, detail });
    }

    fn done(&mut self, item: &CodexItem, said: &mut Vec<AgentEvent>) {
        if let Some((name, detail)) = item.tool() {
            if !self.tools.remove(&item.id) {
                self.model_spoke(said);
                said.push(AgentEvent::Tool {
                    name: name.clone(),
                    detail,
                });
            }
            self.anew = true;
            return match item.status.as_str() {
                "declined" => {
                    self.denials = self.denials.saturating_add(1);
                    said.push(AgentEvent::Denied {
                        name,
                        reason: short(item.aggregated_output.trim(), DETAIL),
                    });
                }
                _ => said.push(AgentEvent::ToolDone {
                    name,
                    failed: item.failed(),
                    detail: match item.failed() {
                        true => short(item.aggregated_output.trim(), DETAIL),
                        false => String::new(),
                    },
                }),
            };
        }
        match item.kind.as_str() {
            "agent_message" | "plan" => {
                self.model_spoke(said);
                self.words = short(item.text.trim(), TEXT);
                said.push(AgentEvent::Text {
                    text: self.words.clone(),
                });
            }
            // A problem that does not end the turn.
            "error" => said.push(AgentEvent::Text {
                text: short(item.message.trim(), TEXT),
            }),
            _ => {}
        }
    }

    fn troubled(&mut self, message: String, said: &mut Vec<AgentEvent>) {
        if let Some((number, why)) = retry(&message) {
            said.push(AgentEvent::Retrying {
                why: model_errors::classify(why, clock::wall_ms()).reason,
                attempt: number,
                delay_ms: 0,
            });
        }
        self.trouble = Some(message);
    }

    fn used(&mut self, usage: Option<CodexUsage>, said: &mut Vec<AgentEvent>) {
        if let Some(usage) = usage {
            self.meter = Some(Meter {
                input: usage.input_tokens,
                cached: usage.cached_input_tokens,
                output: usage.output_tokens,
            });
            self.tell_usage(said);
        }
    }

    fn tell_usage(&self, said: &mut Vec<AgentEvent>) {
        let used = self.meter.map(|meter| meter.since(self.before));
        said.push(AgentEvent::Usage {
            tokens: used.unwrap_or_default().tokens(),
            cost_usd: used.and_then(|used| Some(self.price.as_ref()?.of(used))),
            turns: self.turns,
            meter: self.meter,
        });
    }

    fn completed(&mut self, usage: Option<CodexUsage>, said: &mut Vec<AgentEvent>) {
        self.used(usage, said);
        self.ended = true;
        said.push(AgentEvent::Result {
            verdict: AgentVerdict {
                reason: "completed".to_owned(),
                text: self.words.clone(),
                session_id: self.thread.clone(),
                denials: self.denials,
                ..AgentVerdict::default()
            },
        });
    }

    fn failed(&mut self, words: &str, said: &mut Vec<AgentEvent>) {
        self.ended = true;
        let verdict = self.refusal(words);
        said.push(AgentEvent::Result { verdict });
    }

    fn refusal(&self, words: &str) -> AgentVerdict {
        let words = match words.trim() {
            "" => self.trouble.as_deref().unwrap_or_default(),
            words => words,
        };
        AgentVerdict {
            session_id: self.thread.clone(),
            denials: self.denials,
            ..model_errors::classify(words, clock::wall_ms())
        }
    }
}

impl Listener for CodexListener {
    fn line(&mut self, line: &[u8], _: &mut dyn Ask) -> Reaction {
        let line = line.trim_ascii();
        let mut heard = Reaction::default();
        if !line.is_empty() {
            match serde_json::from_slice::<CodexEvent>(line) {
                Ok(event) => self.event(event, line, &mut heard.said),
                Err(_) => heard.said.push(unknown(line)),
            }
        }
        heard
    }

    fn end(&mut self) -> Vec<AgentEvent> {
        let mut said = Vec::new();
        if let (false, Some(words)) = (self.ended, self.trouble.clone()) {
            self.failed(&words, &mut said);
        }
        said
    }

    fn exited(&mut self, code: Option<i32>, stderr: &str) -> Option<AgentVerdict> {
        if code.is_none_or(|code| code == 0) {
            return None;
        }
        // The lines after the error are a backtrace.
        let words = stderr.lines().find_map(|line| line.strip_prefix("Error: "))?;
        let mut verdict = self.refusal(words);
        if words.contains("no rollout found") {
            "session_lost".clone_into(&mut verdict.reason);
        }
        Some(verdict)
    }
}

/// `Reconnecting... 2/5 (why)`: the number of the attempt, and the rest.
fn retry(message: &str) -> Option<(u32, &str)> {
    let rest = message.strip_prefix("Reconnecting...")?.trim_start();
    let (number, rest) = rest.split_once('/')?;
    Some((number.parse().ok()?, rest))
}

fn unknown(line: &[u8]) -> AgentEvent {
    AgentEvent::Unknown {
        line: short_bytes(line, UNKNOWN),
    }
}
