//! Turns the output of Claude Code into events, and answers its requests.
//!
//! What must hold:
//!
//! - every request gets an answer. A request that is truncated or not understood denies the tool, because Claude Code
//!   uses a tool if the answer is an error, and waits if there is no answer;
//! - a denial is reported once, no matter which side denied;
//! - a line that names a session other than the first one has no effect;
//! - if the agent ends without a result while it retries a request to the model, that error is its verdict.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jit_os::clock;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::control;
use super::stream::{
    ApiRetry, Assistant, CanUseTool, ControlRequest, ControlResponse, HookCallback, Init, LineHead, Outcome,
    Part, PermissionDenied, RateLimitEvent, StreamEvent, UsageAnswer, User,
};
use super::usage::ClaudeUsage;
use crate::agent::prompt_of;
use crate::ask::{Ask, Permission, Question};
use crate::event::{AgentEvent, AgentVerdict, Limited};
use crate::job::Job;
use crate::listener::{Listener, Reaction};
use crate::rate_limit;
use crate::text::{short, short_bytes};

/// Maximum characters of a text, of a tool's detail, of a line that was not understood.
const TEXT: usize = 2_000;
const DETAIL: usize = 300;
const UNKNOWN: usize = 500;
/// Maximum number of running tools that are remembered. So many tools without a result mean that something is wrong.
const REMEMBERED: usize = 10_000;
/// Time between two requests for usage, if each of them may use the network.
const PAUSE: Duration = Duration::from_secs(20);
/// Failed logins after which jit ends the agent. The agent itself would try ten times.
const WRONG_KEYS: u32 = 2;
/// Events without information for jit.
const QUIET: &[&str] = &["control_cancel_request", "keep_alive", "tool_progress"];
/// The same for system events.
const QUIET_SYSTEM: &[&str] = &[
    "hook_progress",
    "hook_response",
    "hook_started",
    "session_state_changed",
    "status",
    "thinking_tokens",
];

/// Options that only the two-way stream mode has.
const STREAM_OPTIONS: &[&str] = &["--input-format", "--permission-prompt-tool"];

#[derive(Debug)]
pub struct ClaudeListener {
    /// The prompt, if it is sent only after the usage of a resumed session is known.
    prompt: Option<String>,
    /// The session of this attempt, if known: chosen by jit, or the first one that the agent named.
    session: Option<String>,
    began: bool,
    usage: ClaudeUsage,
    /// The last usage that was reported.
    told: Option<AgentEvent>,
    /// Names of running tools, by id.
    tools: HashMap<String, String>,
    /// Ids of tools whose denial was reported.
    denied: HashSet<String>,
    /// The directory at the last callback before a tool: `can_use_tool` does not contain it.
    cwd: Option<PathBuf>,
    asks: UsageQuestions,
    retrying: Option<ApiRetry>,
    /// When an exhausted subscription is renewed: wall clock, milliseconds.
    resets_at: Option<i64>,
    gave_up: bool,
    ended: bool,
}

/// Our requests for usage.
#[derive(Debug)]
struct UsageQuestions {
    /// Whether the agent answers them.
    can: bool,
    number: u64,
    under_way: bool,
    slow: bool,
    last: Option<Instant>,
}

impl UsageQuestions {
    fn is_time(&self) -> bool {
        let waited = self.last.is_none_or(|last| last.elapsed() >= PAUSE);
        self.can && !self.under_way && (!self.slow || waited)
    }
}

impl ClaudeListener {
    pub fn of(job: &Job) -> Self {
        let two_way = !job.one_shot;
        let waits = two_way && job.resume.is_some();
        Self {
            // The file was readable when the agent was started.
            prompt: waits.then(|| prompt_of(job).unwrap_or_default()),
            session: match &job.resume {
                Some(resume) if !resume.fork => Some(resume.session.clone()),
                _ => job.session.clone(),
            },
            began: false,
            usage: ClaudeUsage::new(job.resume.is_some(), job.cost_before),
            told: None,
            tools: HashMap::new(),
            denied: HashSet::new(),
            cwd: None,
            asks: UsageQuestions {
                can: two_way,
                number: 0,
                under_way: waits,
                slow: false,
                last: None,
            },
            retrying: None,
            resets_at: None,
            gave_up: false,
            ended: false,
        }
    }

    fn event(&mut self, line: &[u8], heard: &mut Reaction, ask: &mut dyn Ask) -> serde_json::Result<()> {
        let head: LineHead<'_> = serde_json::from_slice(line)?;
        if let (Some(own), Some(named)) = (&self.session, head.session_id.as_deref())
            && !named.is_empty()
            && own != named
        {
            heard.said.push(unknown(line));
            return Ok(());
        }
        match (&*head.kind, head.subtype.as_deref().unwrap_or_default()) {
            ("system", "init") => self.init(serde_json::from_slice(line)?, heard),
            ("system", "api_retry") => self.api_retry(serde_json::from_slice(line)?, heard),
            ("system", "permission_denied") => self.permission_denied(serde_json::from_slice(line)?, heard),
            ("system", quiet) if QUIET_SYSTEM.contains(&quiet) => {}
            ("assistant", _) => self.assistant(&serde_json::from_slice(line)?, heard),
            ("user", _) => self.user(&serde_json::from_slice(line)?, heard)?,
            ("stream_event", _) => self.stream_event(&serde_json::from_slice(line)?),
            ("rate_limit_event", _) => self.rate_limit(&serde_json::from_slice(line)?),
            ("result", _) => self.result(serde_json::from_slice(line)?, heard),
            ("control_request", _) => self.asked(&serde_json::from_slice(line)?, heard, ask),
            ("control_response", _) => self.answered(&serde_json::from_slice(line)?, heard),
            (quiet, _) if QUIET.contains(&quiet) => {}
            _ => heard.said.push(unknown(line)),
        }
        Ok(())
    }

    fn init(&mut self, init: Init, heard: &mut Reaction) {
        // It is sent again before each turn.
        if !std::mem::replace(&mut self.began, true) || self.session.is_none() {
            self.session.clone_from(&init.session_id);
            heard.said.push(AgentEvent::Started {
                session_id: init.session_id,
                model: init.model,
            });
        }
    }

    fn api_retry(&mut self, retry: ApiRetry, heard: &mut Reaction) {
        heard.said.push(AgentEvent::Retrying {
            why: short(retry.error.as_deref().unwrap_or("unknown"), 60),
            attempt: retry.attempt,
            delay_ms: retry.retry_delay_ms.clamp(0.0, 1e12) as u64,
        });
        if retry.error_status == Some(401) && retry.attempt >= WRONG_KEYS && self.asks.can && !self.gave_up {
            self.gave_up = true;
            heard.answer.extend(control::interrupt());
            heard.hang_up = true;
        }
        self.retrying = Some(retry);
    }

    fn rate_limit(&mut self, event: &RateLimitEvent) {
        let info = &event.rate_limit_info;
        self.resets_at = match (info.status.as_deref(), info.resets_at) {
            (Some("rejected"), Some(at)) => Some((at * 1e3) as i64),
            _ => None,
        };
    }

    fn permission_denied(&mut self, denied: PermissionDenied, heard: &mut Reaction) {
        self.deny(denied.tool_use_id, &denied.tool_name, &denied.message, heard);
    }

    fn deny(&mut self, id: Option<String>, tool: &str, reason: &str, heard: &mut Reaction) {
        let new = match id {
            Some(id) if self.denied.len() < REMEMBERED => self.denied.insert(id),
            _ => true,
        };
        if new {
            heard.said.push(AgentEvent::Denied {
                name: short(tool, 100),
                reason: short(reason, TEXT),
            });
        }
    }

    fn assistant(&mut self, assistant: &Assistant<'_>, heard: &mut Reaction) {
        let message = &assistant.message;
        for part in &message.content {
            match (&*part.kind, &part.text, &part.name) {
                ("text", Some(text), _) if !text.trim().is_empty() => heard.said.push(AgentEvent::Text {
                    text: short(text.trim(), TEXT),
                }),
                ("tool_use", _, Some(name)) => {
                    if let Some(id) = part.id.clone().filter(|_| self.tools.len() < REMEMBERED) {
                        self.tools.insert(id, name.clone());
                    }
                    heard.said.push(AgentEvent::Tool {
                        name: short(name, 100),
                        detail: part.input.map(telling).unwrap_or_default(),
                    });
                }
                _ => {}
            }
        }
        // Claude Code reports its own errors as messages of a synthetic model; they use no tokens.
        let made_up = message.model.as_deref() == Some("<synthetic>");
        let (Some(id), Some(usage), false) = (&message.id, &message.usage, made_up) else {
            return;
        };
        self.retrying = None;
        let is_main = assistant.parent_tool_use_id.is_none();
        if self.usage.message(id, usage, is_main) && !self.ended {
            match self.asks.can {
                true => self.ask_usage(heard),
                false => self.tell_usage(heard),
            }
        }
    }

    fn user(&mut self, user: &User<'_>, heard: &mut Reaction) -> serde_json::Result<()> {
        if user.is_replay || !user.message.content.get().starts_with('[') {
            return Ok(());
        }
        let parts: Vec<Part<'_>> = serde_json::from_str(user.message.content.get())?;
        for part in parts.iter().filter(|part| part.kind == "tool_result") {
            let id = part.tool_use_id.as_deref().unwrap_or_default();
            let name = self.tools.remove(id).unwrap_or_else(|| "?".to_owned());
            let failed = part.is_error.unwrap_or(false);
            let words = || part.content.map(plain).unwrap_or_default();
            let meta = user
                .tool_result_meta
                .iter()
                .find(|meta| meta.id.as_deref() == Some(id));
            let decision = meta.and_then(|meta| meta.permission_decision.as_ref()?.decision.as_deref());
            if decision == Some("reject") {
                self.deny(Some(id.to_owned()), &name, &words(), heard);
            } else {
                heard.said.push(AgentEvent::ToolDone {
                    name: short(&name, 100),
                    failed,
                    detail: match failed {
                        true => short(&words(), DETAIL),
                        false => String::new(),
                    },
                });
            }
        }
        Ok(())
    }

    fn stream_event(&mut self, event: &StreamEvent) {
        if event.event.kind == "message_delta"
            && let (Some(id), Some(usage)) = (&event.api_message_id, &event.event.usage)
        {
            // The message itself came earlier. Messages of subagents look the same here, and are never new.
            self.usage.message(id, usage, false);
        }
    }

    fn result(&mut self, outcome: Outcome<'_>, heard: &mut Reaction) {
        self.ended = true;
        self.usage.result(&outcome);
        self.tell_usage(heard);
        let mut verdict = verdict(outcome);
        if self.gave_up && verdict.is_error {
            blame(&mut verdict, self.retrying.as_ref());
        }
        self.limit(&mut verdict);
        heard.said.push(AgentEvent::Result { verdict });
        heard.hang_up = true;
    }

    /// Sets the rate limit of a failed attempt, and until when it lasts.
    fn limit(&self, verdict: &mut AgentVerdict) {
        if !verdict.is_error {
            return;
        }
        let now = clock::wall_ms();
        let by_text = rate_limit::is_limit(&verdict.text);
        let by_status = matches!(verdict.api_status, Some(429 | 529));
        let broke = by_status || (verdict.api_status.is_none() && verdict.reason == "api_error");
        let by_word = matches!(verdict.reason.as_str(), "rate_limit" | "overloaded");
        if by_word || by_status || (broke && by_text) || self.resets_at.is_some_and(|at| at > now) {
            let resets_at = self.resets_at.filter(|at| *at > now);
            verdict.limited = Some(Limited {
                until: resets_at.or_else(|| rate_limit::until(&verdict.text, now)),
            });
            verdict.retryable = true;
        }
    }

    fn ask_usage(&mut self, heard: &mut Reaction) {
        if self.asks.is_time() {
            self.asks.number += 1;
            self.asks.under_way = true;
            self.asks.last = Some(Instant::now());
            heard
                .answer
                .extend(control::usage(&format!("usage-{}", self.asks.number)));
        }
    }

    fn tell_usage(&mut self, heard: &mut Reaction) {
        let said = AgentEvent::Usage {
            tokens: self.usage.tokens(),
            cost_usd: self.usage.cost(),
            turns: self.usage.turns(),
            meter: None,
        };
        if self.told.as_ref() != Some(&said) {
            self.told = Some(said.clone());
            heard.said.push(said);
        }
    }

    fn answered(&mut self, answer: &ControlResponse<'_>, heard: &mut Reaction) {
        let answer = &answer.response;
        let failed = answer.subtype.as_deref() != Some("success");
        if failed && answer.request_id == "initialize" {
            let why = short(answer.error.as_deref().unwrap_or("no reason given"), DETAIL);
            heard.said.push(AgentEvent::Note {
                text: format!("claude does not take our questions: {why}"),
            });
        }
        if !answer.request_id.starts_with("usage-") {
            return;
        }
        self.asks.under_way = false;
        let usage = answer.response.filter(|_| !failed);
        match usage.and_then(|usage| serde_json::from_str::<UsageAnswer>(usage.get()).ok()) {
            Some(usage) => {
                self.asks.slow = usage.rate_limits_available;
                match answer.request_id == control::FIRST_USAGE {
                    true => self.usage.began(&usage.session),
                    false => self.usage.totals(&usage.session),
                }
            }
            // An older version without this request: count messages instead.
            None => self.asks.can = false,
        }
        if let Some(prompt) = self.prompt.take() {
            heard.answer.extend(control::told(&prompt));
        } else if !self.ended {
            self.tell_usage(heard);
        }
    }

    fn asked(&mut self, request: &ControlRequest<'_>, heard: &mut Reaction, ask: &mut dyn Ask) {
        #[derive(Deserialize)]
        struct RequestKind {
            subtype: String,
        }
        let (id, body) = (&request.request_id, request.request.get());
        let kind = serde_json::from_str::<RequestKind>(body).map(|kind| kind.subtype);
        match kind.as_deref() {
            Ok("hook_callback") => self.before_tool(id, body, heard, ask),
            Ok("can_use_tool") => self.can_use_tool(id, body, heard, ask),
            _ => heard
                .answer
                .extend(control::refuse(id, "jit does not know this question")),
        }
    }

    fn before_tool(&mut self, id: &str, body: &str, heard: &mut Reaction, ask: &mut dyn Ask) {
        let permission = match serde_json::from_str::<HookCallback<'_>>(body) {
            Ok(call) if call.callback_id.as_deref() == Some(control::BEFORE_TOOL) => {
                let permission = ask.may(&Question {
                    tool: &call.input.tool_name,
                    input: call.input.tool_input,
                    cwd: call.input.cwd.as_deref(),
                });
                if let Permission::Deny(reason) = &permission {
                    self.deny(call.tool_use_id, &call.input.tool_name, reason, heard);
                }
                self.cwd = call.input.cwd;
                permission
            }
            _ => not_judged("it is not described as expected"),
        };
        heard.answer.extend(control::before_tool(id, &permission));
    }

    fn can_use_tool(&mut self, id: &str, body: &str, heard: &mut Reaction, ask: &mut dyn Ask) {
        let call = match serde_json::from_str::<CanUseTool<'_>>(body) {
            Ok(call) => call,
            Err(_) => {
                let no = not_judged("it is not described as expected");
                return heard
                    .answer
                    .extend(control::can_use_tool(id, RawValue::NULL, &no));
            }
        };
        let permission = ask.approve(&Question {
            tool: &call.tool_name,
            input: call.input,
            cwd: self.cwd.as_deref(),
        });
        if let Permission::Deny(reason) = &permission {
            self.deny(call.tool_use_id, &call.tool_name, reason, heard);
        }
        heard
            .answer
            .extend(control::can_use_tool(id, call.input, &permission));
    }
}

impl Listener for ClaudeListener {
    fn line(&mut self, line: &[u8], ask: &mut dyn Ask) -> Reaction {
        let line = line.trim_ascii();
        let mut heard = Reaction::default();
        if line.is_empty() {
            return heard;
        }
        if let Err(error) = self.event(line, &mut heard, ask) {
            heard.said.push(unknown(line));
            if error.is_eof() {
                heard.answer.extend(cut_off(line));
            }
        }
        heard
    }

    fn end(&mut self) -> Vec<AgentEvent> {
        let mut heard = Reaction::default();
        if self.ended {
            return heard.said;
        }
        if self.usage.turns() > 0 {
            self.tell_usage(&mut heard);
        }
        if let Some(retry) = &self.retrying {
            let mut verdict = AgentVerdict {
                is_error: true,
                session_id: self.session.clone(),
                ..AgentVerdict::default()
            };
            blame(&mut verdict, Some(retry));
            self.limit(&mut verdict);
            heard.said.push(AgentEvent::Result { verdict });
        }
        heard.said
    }

    fn exited(&mut self, code: Option<i32>, stderr: &str) -> Option<AgentVerdict> {
        let refuses = |line: &&str| {
            line.to_lowercase().contains("option")
                && STREAM_OPTIONS.iter().any(|option| line.contains(option))
        };
        let line = stderr.lines().find(refuses)?;
        let is_it = !self.began && code.is_some_and(|code| code != 0);
        is_it.then(|| AgentVerdict {
            is_error: true,
            reason: "no_conversation".to_owned(),
            text: format!(
                "it does not take a conversation, and will be started one-shot: {}",
                short(line.trim(), DETAIL)
            ),
            retryable: true,
            ..AgentVerdict::default()
        })
    }
}

/// Sets the model's error as the reason of the failure.
fn blame(verdict: &mut AgentVerdict, retry: Option<&ApiRetry>) {
    let Some(retry) = retry else {
        return;
    };
    verdict.reason = short(retry.error.as_deref().unwrap_or("api_error"), 60);
    verdict.api_status = retry.error_status;
    verdict.retryable = is_passing(retry.error_status);
}

/// Whether an error of the model's API is temporary. Without a status the connection broke.
fn is_passing(status: Option<u16>) -> bool {
    status.is_none_or(|status| matches!(status, 408 | 429 | 500..=599))
}

fn verdict(outcome: Outcome<'_>) -> AgentVerdict {
    let text = match outcome.result {
        Some(text) => text,
        None => outcome.errors.join("\n"),
    };
    let lost = text.starts_with("No conversation found");
    // "Invalid API key · Please run /login", "Not logged in · Please run /login".
    let stranger = outcome.is_error.unwrap_or(true) && text.contains("Please run /login");
    let reason = match outcome.terminal_reason {
        _ if lost => "session_lost".to_owned(),
        _ if stranger => "authentication_failed".to_owned(),
        Some(reason) => reason,
        None => outcome.subtype,
    };
    // A result that is not known to be a success is a failure.
    let is_error = outcome.is_error.unwrap_or(true) || !matches!(&*reason, "completed" | "success");
    let broken =
        matches!(&*reason, "api_error" | "aborted_streaming") || text.to_lowercase().contains("overloaded");
    AgentVerdict {
        is_error,
        retryable: is_error
            && match outcome.api_error_status {
                None => broken,
                status => is_passing(status),
            },
        reason: short(&reason, 60),
        text: short(&text, TEXT),
        session_id: outcome.session_id,
        denials: u32::try_from(outcome.permission_denials.len()).unwrap_or(u32::MAX),
        api_status: outcome.api_error_status,
        limited: None,
    }
}

fn unknown(line: &[u8]) -> AgentEvent {
    AgentEvent::Unknown {
        line: short_bytes(line, UNKNOWN),
    }
}

fn not_judged(why: &str) -> Permission {
    Permission::Deny(format!(
        "jit: this step cannot be judged: {why}. Try it in another way, in smaller steps."
    ))
}

/// The answer to a truncated request.
fn cut_off(line: &[u8]) -> Vec<u8> {
    let head = &line[..line.len().min(4_096)];
    let head = String::from_utf8_lossy(head);
    let id = head
        .split_once("\"request_id\":\"")
        .and_then(|(before, rest)| Some((before, rest.split_once('"')?.0)));
    let Some((before, id)) = id else {
        return Vec::new();
    };
    if !before.contains("\"control_request\"") {
        return Vec::new();
    }
    let no = not_judged("its description is too large");
    match head.contains("\"subtype\":\"can_use_tool\"") {
        true => control::can_use_tool(id, RawValue::NULL, &no),
        false => control::before_tool(id, &no),
    }
}

/// The most telling field of a tool's input, in one line.
fn telling(input: &RawValue) -> String {
    /// In this order.
    #[derive(Deserialize, Default)]
    struct Input {
        file_path: Option<String>,
        notebook_path: Option<String>,
        command: Option<String>,
        url: Option<String>,
        pattern: Option<String>,
        path: Option<String>,
        query: Option<String>,
        skill: Option<String>,
        description: Option<String>,
        prompt: Option<String>,
    }
    let input = serde_json::from_str::<Input>(input.get()).unwrap_or_default();
    let all = [
        input.file_path,
        input.notebook_path,
        input.command,
        input.url,
        input.pattern,
        input.path,
        input.query,
        input.skill,
        input.description,
        input.prompt,
    ];
    let first = all.into_iter().flatten().next().unwrap_or_default();
    short(first.trim().lines().next().unwrap_or_default(), DETAIL)
}

/// The text of a tool's result, which is a string or a list of parts.
fn plain(content: &RawValue) -> String {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Content {
        Text(String),
        Parts(Vec<Words>),
    }
    #[derive(Deserialize)]
    struct Words {
        #[serde(default)]
        text: String,
    }
    match serde_json::from_str(content.get()) {
        Ok(Content::Text(text)) => text,
        Ok(Content::Parts(parts)) => parts
            .into_iter()
            .map(|part| part.text)
            .collect::<Vec<_>>()
            .join("\n"),
        Err(_) => String::new(),
    }
}
