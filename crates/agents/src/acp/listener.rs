//! The client side of the protocol: sends one request after the other, and handles the agent's messages meanwhile.
//!
//! `initialize` → `session/new`, `session/resume`, `session/load` or `session/fork` → mode and model, if the job names
//! them → `session/prompt`, repeated if there are denials to explain → end of input.

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::failure;
use super::permission::{self, ToolStep};
use super::usage::AcpUsage;
use super::wire::{self, Chunk, Failure, Initialized, Message, Opened, Prompted, ToolCall, UpdateHead};
use crate::agent::prompt_of;
use crate::ask::{Ask, Permission, Question};
use crate::event::{AgentEvent, AgentVerdict};
use crate::job::{Job, Resume};
use crate::listener::{Listener, Reaction};
use crate::text::{short, short_bytes};

/// Maximum characters of a text, of a tool's detail, of a name, of a line that was not understood.
const TEXT: usize = 2_000;
const DETAIL: usize = 300;
const NAME: usize = 100;
const UNKNOWN: usize = 500;
/// Maximum characters of a session id. A longer one could not be stored.
const SESSION: usize = 200;
/// Maximum bytes of the state of running tools.
const REMEMBERED: usize = 4 << 20;
/// How often denials are explained, and how many at once.
const EXPLANATIONS: u32 = 3;
const REASONS: usize = 8;
/// Updates without information for jit.
const QUIET: &[&str] = &[
    "agent_thought_chunk",
    "available_commands_update",
    "config_option_update",
    "current_mode_update",
    "session_info_update",
    "user_message_chunk",
];
/// A tool of jit's MCP server. The agent gets the server if it may use this tool.
const OWN_TOOL: &str = "mcp__jit__status";

/// The answer that the client waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    Hello,
    Session,
    Setting,
    Turn,
    Nothing,
}

#[derive(Debug)]
pub struct Client {
    prompt: String,
    dir: PathBuf,
    /// `JIT_*` for jit's MCP server, if the agent gets it.
    vars: Vec<(String, String)>,
    resume: Option<Resume>,
    mode: Option<String>,
    model: Option<String>,
    awaited: Awaited,
    /// The id of the last request.
    number: u64,
    /// Settings that are still to be sent: method and parameters.
    settings: Vec<(&'static str, Value)>,
    /// Login methods.
    methods: Vec<String>,
    session: Option<String>,
    tools: HashMap<String, Tool>,
    /// Their size in bytes.
    remembered: usize,
    /// Text that may continue in the next message.
    text: String,
    message: Option<String>,
    last_text: String,
    /// Denials whose reason the model does not know yet.
    unexplained: Vec<String>,
    explanations: u32,
    denials: u32,
    usage: AcpUsage,
    told: Option<AgentEvent>,
    stopping: bool,
}

/// A running tool.
#[derive(Debug)]
struct Tool {
    call: ToolCall,
    /// Bytes.
    weight: usize,
    told: bool,
    denied: bool,
}

impl Client {
    pub fn of(job: &Job) -> Self {
        Self {
            // The file was readable when the agent was started.
            prompt: prompt_of(job).unwrap_or_default(),
            dir: job.dir.clone(),
            vars: job.vars.clone(),
            resume: job.resume.clone(),
            // `acceptEdits` stands for the default mode, which each agent names differently.
            mode: job.permission_mode.clone().filter(|mode| mode != "acceptEdits"),
            model: job.model.clone(),
            awaited: Awaited::Hello,
            number: wire::FIRST,
            settings: Vec::new(),
            methods: Vec::new(),
            session: None,
            tools: HashMap::new(),
            remembered: 0,
            text: String::new(),
            message: None,
            last_text: String::new(),
            unexplained: Vec::new(),
            explanations: 0,
            denials: 0,
            usage: AcpUsage::new(job.resume.is_some(), job.cost_before),
            told: None,
            stopping: false,
        }
    }

    fn message(&mut self, line: &[u8], heard: &mut Reaction, ask: &mut dyn Ask) -> serde_json::Result<()> {
        let message: Message<'_> = serde_json::from_slice(line)?;
        match (&message.method, message.id) {
            (Some(method), Some(id)) => self.asked(method, id, message.params, line, heard, ask)?,
            (Some(method), None) => self.notified(method, message.params, line, heard)?,
            (None, Some(id)) if self.awaited != Awaited::Nothing && id.get() == self.number.to_string() => {
                match (message.error, message.result) {
                    (Some(error), _) => self.refused(serde_json::from_str(error.get())?, heard),
                    (None, Some(result)) => self.answered(result, heard, ask),
                    (None, None) => heard.said.push(unknown(line)),
                }
            }
            _ => heard.said.push(unknown(line)),
        }
        Ok(())
    }

    fn send(&mut self, awaited: Awaited, method: &str, params: &Value, heard: &mut Reaction) {
        self.number += 1;
        self.awaited = awaited;
        heard.answer.extend(wire::request(self.number, method, params));
    }

    // --- answers to our requests ---

    fn answered(&mut self, result: &RawValue, heard: &mut Reaction, ask: &mut dyn Ask) {
        let awaited = std::mem::replace(&mut self.awaited, Awaited::Nothing);
        let read = match awaited {
            Awaited::Hello => serde_json::from_str(result.get()).map(|hello| self.hello(hello, heard, ask)),
            // `null` if the agent has nothing to report.
            Awaited::Session => serde_json::from_str::<Option<Opened>>(result.get())
                .map(|opened| self.opened(opened.unwrap_or_default(), heard)),
            Awaited::Setting => {
                self.go_on(heard);
                Ok(())
            }
            Awaited::Turn => serde_json::from_str(result.get()).map(|answer| self.turn_ended(&answer, heard)),
            Awaited::Nothing => Ok(()),
        };
        if let Err(error) = read {
            let text = format!("its answer is not one of the protocol: {error}");
            self.fail("protocol_error", &text, heard);
        }
    }

    fn hello(&mut self, hello: Initialized, heard: &mut Reaction, ask: &mut dyn Ask) {
        self.methods = hello
            .auth_methods
            .iter()
            .take(20)
            .map(|method| short(&method.name, NAME))
            .filter(|name| !name.is_empty())
            .collect();
        if hello.protocol_version != json!(wire::VERSION) {
            let text = format!(
                "it speaks version {} of the Agent Client Protocol, and jit speaks {}",
                short(&hello.protocol_version.to_string(), NAME),
                wire::VERSION
            );
            return self.fail("usage", &text, heard);
        }
        let servers = self.servers(ask);
        let can = &hello.agent_capabilities;
        let Some(resume) = &self.resume else {
            let params = wire::place(&self.dir, &servers, None);
            return self.send(Awaited::Session, "session/new", &params, heard);
        };
        let sessions = &can.session_capabilities;
        let method = match (resume.fork, &sessions.fork, &sessions.resume, can.load_session) {
            (true, Some(_), ..) => "session/fork",
            (false, _, Some(_), _) => "session/resume",
            (false, _, None, true) => "session/load",
            _ => {
                let word = if resume.fork { "fork" } else { "go on with" };
                let text = format!("this agent offers no way to {word} a session");
                return self.fail("session_lost", &text, heard);
            }
        };
        let params = wire::place(&self.dir, &servers, Some(&resume.session));
        self.send(Awaited::Session, method, &params, heard);
    }

    /// jit's MCP server, if the agent may use it. The protocol requires every agent to be able to start one.
    fn servers(&self, ask: &mut dyn Ask) -> Value {
        let question = Question {
            tool: OWN_TOOL,
            input: RawValue::NULL,
            cwd: Some(&self.dir),
        };
        let allowed = !matches!(ask.approve(&question), Permission::Deny(_));
        match std::env::current_exe() {
            Ok(program) if allowed => {
                let vars = self.vars.iter();
                let env: Vec<Value> = vars
                    .map(|(name, value)| json!({ "name": name, "value": value }))
                    .collect();
                json!([{ "name": "jit", "command": program, "args": ["mcp"], "env": env }])
            }
            _ => json!([]),
        }
    }

    fn opened(&mut self, opened: Opened, heard: &mut Reaction) {
        let known = self.resume.as_ref().filter(|resume| !resume.fork);
        let id = match known {
            Some(resume) => Some(resume.session.clone()),
            None => opened.session_id.clone(),
        };
        let fine =
            |id: &String| !id.is_empty() && id.chars().count() <= SESSION && !id.contains(char::is_control);
        let Some(session) = id.filter(fine) else {
            return self.fail(
                "protocol_error",
                "it gave its session no name that can be kept",
                heard,
            );
        };
        self.session = Some(session.clone());
        let current = opened
            .models
            .as_ref()
            .and_then(|all| all.current_model_id.clone());
        let current = current.or_else(|| {
            opened
                .option("model")
                .and_then(|one| Some(one.current_value.as_str()?.to_owned()))
        });
        heard.said.push(AgentEvent::Started {
            session_id: Some(session.clone()),
            model: self.model.clone().or(current).map(|model| short(&model, NAME)),
        });
        if let Err(text) = self
            .choose_mode(&session, &opened)
            .and_then(|()| self.choose_model(&session, &opened))
        {
            return self.fail("usage", &text, heard);
        }
        self.settings.reverse();
        self.go_on(heard);
    }

    /// Adds the setting for the mode that the job names. Fails if the agent does not offer it.
    fn choose_mode(&mut self, session: &str, opened: &Opened) -> Result<(), String> {
        let Some(mode) = self.mode.take() else {
            return Ok(());
        };
        let modes = opened.modes.iter().flat_map(|modes| &modes.available_modes);
        let offered = modes.map(|mode| &mode.id).any(|id| *id == mode);
        let setting = match opened.option("mode").filter(|option| option.offers(&mode)) {
            _ if offered => (
                "session/set_mode",
                json!({ "sessionId": session, "modeId": mode }),
            ),
            Some(option) => set_option(session, option, &mode),
            None => return Err(format!("it has no mode {:?}", short(&mode, NAME))),
        };
        self.settings.push(setting);
        Ok(())
    }

    /// The same for the model.
    fn choose_model(&mut self, session: &str, opened: &Opened) -> Result<(), String> {
        let Some(model) = self.model.take() else {
            return Ok(());
        };
        let models = opened.models.iter().flat_map(|models| &models.available_models);
        let offered = models.map(|model| &model.model_id).any(|id| *id == model);
        let setting = match opened.option("model").filter(|option| option.offers(&model)) {
            Some(option) => set_option(session, option, &model),
            None if offered => (
                "session/set_model",
                json!({ "sessionId": session, "modelId": model }),
            ),
            None => return Err(format!("it has no model {:?}", short(&model, NAME))),
        };
        self.settings.push(setting);
        Ok(())
    }

    /// Sends the next setting, or the prompt.
    fn go_on(&mut self, heard: &mut Reaction) {
        if let Some((method, params)) = self.settings.pop() {
            return self.send(Awaited::Setting, method, &params, heard);
        }
        let prompt = std::mem::take(&mut self.prompt);
        self.say(&prompt, heard);
    }

    fn say(&mut self, text: &str, heard: &mut Reaction) {
        let session = self.session.clone().unwrap_or_default();
        self.send(
            Awaited::Turn,
            "session/prompt",
            &wire::words(&session, text),
            heard,
        );
    }

    fn turn_ended(&mut self, answer: &Prompted, heard: &mut Reaction) {
        self.flush(heard);
        self.usage.turn_ended(answer);
        self.tell_usage(heard);
        let by_itself = matches!(&*answer.stop_reason, "end_turn" | "cancelled") && !self.stopping;
        if by_itself && !self.unexplained.is_empty() && self.explanations < EXPLANATIONS {
            self.explanations += 1;
            let reasons = std::mem::take(&mut self.unexplained).join("\n- ");
            let text = format!(
                "Steps of yours were refused, and your program may not have told you why:\n- {reasons}\n\
                 Go on with your task as far as it can be done without them. If nothing is left to do, say so and end."
            );
            return self.say(&text, heard);
        }
        let (is_error, reason) = match &*answer.stop_reason {
            "end_turn" => (false, "completed"),
            "max_turn_requests" => (true, "max_turns"),
            other => (true, other),
        };
        let verdict = AgentVerdict {
            is_error,
            reason: short(reason, 60),
            text: std::mem::take(&mut self.last_text),
            ..AgentVerdict::default()
        };
        self.over(verdict, heard);
    }

    fn refused(&mut self, failure: Failure, heard: &mut Reaction) {
        let awaited = std::mem::replace(&mut self.awaited, Awaited::Nothing);
        self.flush(heard);
        let mut verdict = failure::verdict(&failure, &self.methods);
        // Unless the model was not available.
        let lost = awaited == Awaited::Session
            && self.resume.is_some()
            && matches!(verdict.reason.as_str(), "error" | "usage");
        if lost {
            verdict.reason = "session_lost".to_owned();
            verdict.retryable = false;
        }
        self.over(verdict, heard);
    }

    fn fail(&mut self, reason: &str, text: &str, heard: &mut Reaction) {
        let verdict = AgentVerdict {
            is_error: true,
            reason: reason.to_owned(),
            text: short(text, TEXT),
            ..AgentVerdict::default()
        };
        self.over(verdict, heard);
    }

    /// Reports the end. The agent exits when its input is closed.
    fn over(&mut self, verdict: AgentVerdict, heard: &mut Reaction) {
        self.awaited = Awaited::Nothing;
        heard.said.push(AgentEvent::Result {
            verdict: AgentVerdict {
                session_id: self.session.clone(),
                denials: self.denials,
                ..verdict
            },
        });
        heard.hang_up = true;
        self.stopping = true;
    }

    // --- requests of the agent ---

    fn asked(
        &mut self,
        method: &str,
        id: &RawValue,
        params: Option<&RawValue>,
        line: &[u8],
        heard: &mut Reaction,
        ask: &mut dyn Ask,
    ) -> serde_json::Result<()> {
        if method != wire::PERMISSION {
            heard.said.push(unknown(line));
            let text = format!("jit does not offer {:?}", short(method, NAME));
            heard
                .answer
                .extend(wire::refused(id, wire::METHOD_NOT_FOUND, &text));
            return Ok(());
        }
        let params = params.unwrap_or(RawValue::NULL).get();
        let whose = serde_json::from_str::<wire::SessionParams<'_>>(params);
        if !whose.is_ok_and(|whose| self.is_ours(&whose.session_id)) {
            heard.said.push(unknown(line));
            let text = "jit knows no such session";
            heard.answer.extend(wire::refused(id, wire::INVALID_PARAMS, text));
            return Ok(());
        }
        if self.stopping || self.awaited != Awaited::Turn {
            heard.answer.extend(wire::chosen(id, None, None));
            return Ok(());
        }
        self.flush(heard);
        match serde_json::from_str(params) {
            Ok(request) => self.permission(id, request, heard, ask),
            Err(_) => {
                heard.said.push(unknown(line));
                self.not_judged(id, "it is not described as expected", heard);
            }
        }
        Ok(())
    }

    fn permission(
        &mut self,
        id: &RawValue,
        request: wire::PermissionRequest,
        heard: &mut Reaction,
        ask: &mut dyn Ask,
    ) {
        self.usage.speaks();
        let key = request.tool_call.tool_call_id.clone();
        self.merge(request.tool_call, heard);
        let Some(tool) = self.tools.get_mut(&key) else {
            return self.not_judged(id, "too many tools are in use", heard);
        };
        tell(tool, heard);
        let name = shown_name(&tool.call);
        let step = ToolStep {
            call: &tool.call,
            tool: own_name(&tool.call),
            dir: &self.dir,
        };
        let mut permission = step.judge(ask);
        let mut option = permission::choose(&request.options, &permission);
        if option.is_none() && !matches!(permission, Permission::Deny(_)) {
            permission = permission::not_judged("it can be allowed for good only, and not once");
            option = permission::choose(&request.options, &permission);
        }
        match &permission {
            Permission::Allow => heard.answer.extend(wire::chosen(id, option, None)),
            Permission::Warn(text) => {
                heard.said.push(AgentEvent::Note {
                    text: short(text, TEXT),
                });
                heard.answer.extend(wire::chosen(id, option, Some(text)));
            }
            Permission::Deny(reason) => {
                tool.denied = true;
                let detail = detail(&tool.call);
                self.deny(&name, &detail, reason, heard);
                heard.answer.extend(wire::chosen(id, option, Some(reason)));
            }
        }
    }

    fn not_judged(&mut self, id: &RawValue, why: &str, heard: &mut Reaction) {
        if let Permission::Deny(reason) = permission::not_judged(why) {
            self.deny("a tool", "", &reason, heard);
            heard.answer.extend(wire::chosen(id, None, Some(&reason)));
        }
    }

    fn deny(&mut self, name: &str, detail: &str, reason: &str, heard: &mut Reaction) {
        self.denials = self.denials.saturating_add(1);
        heard.said.push(AgentEvent::Denied {
            name: name.to_owned(),
            reason: short(reason, TEXT),
        });
        let line = format!("{name} {detail}: {}", short(reason, 600));
        if self.unexplained.len() < REASONS && !self.unexplained.contains(&line) {
            self.unexplained.push(line);
        }
    }

    // --- notifications of the agent ---

    fn is_ours(&self, session: &str) -> bool {
        self.session.as_deref() == Some(session)
    }

    fn notified(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        line: &[u8],
        heard: &mut Reaction,
    ) -> serde_json::Result<()> {
        let whose = params.map(|params| serde_json::from_str::<wire::SessionParams<'_>>(params.get()));
        let (
            "session/update",
            Some(Ok(wire::SessionParams {
                session_id,
                update: Some(update),
            })),
        ) = (method, whose)
        else {
            heard.said.push(unknown(line));
            return Ok(());
        };
        let head: UpdateHead<'_> = serde_json::from_str(update.get())?;
        if self.is_ours(&session_id) {
            return self.update(&head.session_update, update.get(), line, heard);
        }
        // While a session is loaded, the agent repeats its earlier messages.
        let resumed = self
            .resume
            .as_ref()
            .is_some_and(|resume| resume.session == session_id);
        if resumed && self.awaited == Awaited::Session {
            if head.session_update == "usage_update"
                && let Some(cost) = serde_json::from_str::<wire::UsageUpdate>(update.get())?.cost
            {
                self.usage.began(&cost);
            }
            return Ok(());
        }
        heard.said.push(unknown(line));
        Ok(())
    }

    fn update(
        &mut self,
        kind: &str,
        update: &str,
        line: &[u8],
        heard: &mut Reaction,
    ) -> serde_json::Result<()> {
        match kind {
            "agent_message_chunk" => self.chunk(serde_json::from_str(update)?, heard),
            "agent_thought_chunk" => self.usage.speaks(),
            "tool_call" | "tool_call_update" => {
                let call: ToolCall = serde_json::from_str(update)?;
                self.flush(heard);
                self.tool(kind == "tool_call", call, heard);
            }
            "plan" => {
                self.flush(heard);
                plan(&serde_json::from_str(update)?, heard);
            }
            "usage_update" => {
                let usage: wire::UsageUpdate = serde_json::from_str(update)?;
                self.usage.context(usage.used);
                if let Some(cost) = &usage.cost {
                    self.usage.cost(cost);
                }
                self.tell_usage(heard);
            }
            quiet if QUIET.contains(&quiet) => {}
            _ => heard.said.push(unknown(line)),
        }
        Ok(())
    }

    fn chunk(&mut self, chunk: Chunk, heard: &mut Reaction) {
        let Some(text) = chunk.content.text.filter(|text| !text.is_empty()) else {
            return;
        };
        self.usage.speaks();
        if self.message != chunk.message_id {
            self.flush(heard);
            self.message = chunk.message_id;
        }
        // Events are shortened anyway.
        let room = (TEXT * 4).saturating_sub(self.text.len());
        self.text
            .push_str(&short_bytes(text.as_bytes(), room.min(TEXT + 1)));
    }

    /// Reports the text so far as one event.
    fn flush(&mut self, heard: &mut Reaction) {
        let text = std::mem::take(&mut self.text);
        if !text.trim().is_empty() {
            let text = short(text.trim(), TEXT);
            self.last_text.clone_from(&text);
            heard.said.push(AgentEvent::Text { text });
        }
    }

    fn tool(&mut self, new: bool, call: ToolCall, heard: &mut Reaction) {
        let key = call.tool_call_id.clone();
        if !self.tools.contains_key(&key) {
            self.usage.speaks();
        }
        let status = call.status.clone();
        let words = call
            .content
            .as_ref()
            .map(|content| plain(content))
            .unwrap_or_default();
        self.merge(call, heard);
        let Some(tool) = self.tools.get_mut(&key) else {
            return;
        };
        let ended = matches!(status.as_deref(), Some("completed" | "failed"));
        // Some agents announce a tool first, and send its input later.
        if !new || ended || !detail(&tool.call).is_empty() {
            tell(tool, heard);
        }
        if !ended {
            return;
        }
        let failed = status.as_deref() == Some("failed");
        if !tool.denied {
            heard.said.push(AgentEvent::ToolDone {
                name: shown_name(&tool.call),
                failed,
                detail: match failed {
                    true => short(words.trim(), DETAIL),
                    false => String::new(),
                },
            });
        }
        self.forget(&key);
        self.usage.listens();
        self.tell_usage(heard);
    }

    /// Merges new information about a tool into what is known.
    fn merge(&mut self, call: ToolCall, heard: &mut Reaction) {
        let key = call.tool_call_id.clone();
        let tool = self.tools.entry(key.clone()).or_insert_with(|| Tool {
            call: ToolCall::of(&key),
            weight: 0,
            told: false,
            denied: false,
        });
        let known = &mut tool.call;
        known.title = call.title.or(known.title.take());
        known.name = call.name.or(known.name.take());
        known.kind = call.kind.or(known.kind.take());
        known.content = call.content.or(known.content.take());
        known.locations = call.locations.or(known.locations.take());
        known.raw_input = call.raw_input.or(known.raw_input.take());
        known.meta = call.meta.or(known.meta.take());
        let before = std::mem::replace(&mut tool.weight, size_of::<Tool>() + known.weight());
        self.remembered = self.remembered.saturating_sub(before).saturating_add(tool.weight);
        // A tool that is only partly known cannot be judged: forget all of it.
        if self.remembered > REMEMBERED {
            self.forget(&key);
            heard.said.push(AgentEvent::Unknown {
                line: format!("a tool beyond {} MB of them", REMEMBERED >> 20),
            });
        }
    }

    fn forget(&mut self, key: &str) {
        if let Some(tool) = self.tools.remove(key) {
            self.remembered = self.remembered.saturating_sub(tool.weight);
        }
    }

    fn tell_usage(&mut self, heard: &mut Reaction) {
        let said = AgentEvent::Usage {
            tokens: self.usage.tokens(),
            cost_usd: self.usage.usd(),
            turns: self.usage.turns(),
            meter: None,
        };
        if self.told.as_ref() != Some(&said) {
            self.told = Some(said.clone());
            heard.said.push(said);
        }
    }
}

impl Listener for Client {
    fn line(&mut self, line: &[u8], ask: &mut dyn Ask) -> Reaction {
        let line = line.trim_ascii();
        let mut heard = Reaction::default();
        if line.is_empty() {
            return heard;
        }
        if self.message(line, &mut heard, ask).is_err() {
            heard.said.push(unknown(line));
            match wire::beginning(line) {
                Some((id, method)) if method == wire::PERMISSION && self.awaited == Awaited::Turn => {
                    self.not_judged(&id, "its description is too large, or broken", &mut heard);
                }
                Some((id, _)) => {
                    let text = "jit could not read this";
                    heard
                        .answer
                        .extend(wire::refused(&id, wire::INVALID_PARAMS, text));
                }
                None => {}
            }
        }
        heard
    }

    fn stop(&mut self) -> Vec<u8> {
        let under_way = self.awaited == Awaited::Turn && !self.stopping;
        self.stopping = true;
        match &self.session {
            Some(session) if under_way => wire::cancel(session),
            _ => Vec::new(),
        }
    }

    fn end(&mut self) -> Vec<AgentEvent> {
        let mut heard = Reaction::default();
        if self.awaited != Awaited::Nothing {
            self.flush(&mut heard);
            let text = match self.awaited {
                Awaited::Hello => "it ended without a word of the Agent Client Protocol",
                _ => "it ended before it had answered",
            };
            self.fail("cut_off", text, &mut heard);
        }
        heard.said
    }
}

/// The method and parameters that set an option of a session.
fn set_option(session: &str, option: &wire::ConfigOption, value: &str) -> (&'static str, Value) {
    let params = json!({ "sessionId": session, "configId": option.id, "value": value });
    ("session/set_config_option", params)
}

fn unknown(line: &[u8]) -> AgentEvent {
    AgentEvent::Unknown {
        line: short_bytes(line, UNKNOWN),
    }
}

/// Reports the use of a tool once.
fn tell(tool: &mut Tool, heard: &mut Reaction) {
    if !std::mem::replace(&mut tool.told, true) {
        heard.said.push(AgentEvent::Tool {
            name: shown_name(&tool.call),
            detail: detail(&tool.call),
        });
    }
}

/// The agent's own name of a tool. Claude sends it in a field of its own.
fn own_name(call: &ToolCall) -> Option<&str> {
    let meta = call.meta.as_ref();
    let claude = meta.and_then(|meta| meta.get("claudeCode")?.get("toolName")?.as_str());
    claude.or(call.name.as_deref()).filter(|name| !name.is_empty())
}

fn shown_name(call: &ToolCall) -> String {
    let name = own_name(call).or(call.kind.as_deref()).unwrap_or("a tool");
    short(name, NAME)
}

/// The object of the tool: paths, a command, or the title for people.
fn detail(call: &ToolCall) -> String {
    let places: Vec<String> = call
        .locations
        .iter()
        .flatten()
        .take(5)
        .map(|one| one.path.display().to_string())
        .collect();
    let command = call
        .raw_input
        .as_ref()
        .and_then(|input| input.get("command")?.as_str());
    let title = call
        .title
        .as_deref()
        .filter(|title| own_name(call) != Some(*title) && *title != "Terminal");
    let text = match places.is_empty() {
        false => places.join(" "),
        true => command.or(title).unwrap_or_default().to_owned(),
    };
    short(text.trim().lines().next().unwrap_or_default(), DETAIL)
}

/// Reports the progress of the agent's plan.
fn plan(plan: &wire::PlanUpdate, heard: &mut Reaction) {
    let done = plan
        .entries
        .iter()
        .filter(|entry| entry.status == "completed")
        .count();
    let now = plan.entries.iter().find(|entry| entry.status != "completed");
    let now = now
        .map(|entry| short(entry.content.trim(), DETAIL))
        .unwrap_or_default();
    heard.said.push(AgentEvent::Tool {
        name: "plan".to_owned(),
        detail: format!("{done} of {} done; {now}", plan.entries.len()),
    });
}

/// The text of a tool's result.
fn plain(content: &[wire::ToolContent]) -> String {
    let texts = content.iter().filter_map(|part| match part {
        wire::ToolContent::Content { content } => content.get("text")?.as_str(),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
