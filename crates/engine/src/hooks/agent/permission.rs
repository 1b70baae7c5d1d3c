//! Answers an agent's permission questions from the policy and the file locks (G5, F9).
//!
//! What must hold:
//!
//! - Before a tool call the answer equals that of the installed hook, word for word. Files are locked as the hook
//!   would lock them. Both go through [`hooks::judge`]. No process is started for a question.
//! - A question that the agent would put to its user is denied with one sentence. The exceptions are `allowed_tools`
//!   of the job and `dispatch.allow` of the configuration. The repository's own configuration cannot allow its agents
//!   anything.
//! - This module bypasses no check. Whether the agent starts in a mode without questions is decided by its job.

use std::path::{Path, PathBuf};

use jit_agents::hooks::{Program, input, settings};
use jit_agents::rules::{self, Rule};
use jit_agents::{Ask, Permission, Question, short};
use jit_core::model::refusal::Code;
use jit_git::{GitEnv, Place};
use jit_store::Outcome;
use serde_json::value::RawValue;

use crate::api::Answer;
use crate::api::Options;
use crate::api::hooks::{HookReply, PermissionAsk, ToolPermission};
use crate::config::{Config, Sources};
use crate::hooks::agent as hooks;
use crate::refusals::refuse;

/// Answers the questions of one running agent.
#[derive(Debug)]
struct Policy {
    options: Options,
    program: Program,
    /// The agent's working folder, from the job.
    dir: PathBuf,
    /// Rules of the job alone, without those of the configuration.
    allowed: Vec<Rule>,
}

/// Answers one question of the agent that asks.
pub(crate) fn answer(options: &Options, ask: &PermissionAsk) -> Outcome<Answer> {
    let input = RawValue::from_string(ask.input.clone()).map_err(|e| refuse(Code::Invalid, e))?;
    let question = Question {
        tool: &ask.tool,
        input: &input,
        cwd: ask.cwd.as_ref().map(AsRef::as_ref),
    };
    let mut policy = Policy::new(options.clone(), &ask.allowed);
    let permission = match ask.approve {
        true => policy.approve(&question),
        false => policy.may(&question),
    };
    let permission = match permission {
        Permission::Allow => ToolPermission::Allow,
        Permission::Warn(text) => ToolPermission::Warn(text),
        Permission::Deny(text) => ToolPermission::Deny(text),
    };
    Ok(Answer {
        reply: HookReply::Permission(permission).into(),
        warnings: Vec::new(),
    })
}

impl Policy {
    fn new(options: Options, allowed: &[String]) -> Self {
        Self {
            dir: options.dir.clone().unwrap_or_else(|| Path::new(".").to_owned()),
            options,
            program: Program::Claude,
            // An entry that does not parse as a rule allows nothing.
            allowed: allowed.iter().filter_map(|rule| Rule::parse(rule).ok()).collect(),
        }
    }

    /// Returns the rules that apply now: those of the job and those of the configuration.
    fn rules(&self) -> Vec<Rule> {
        let mut all = self.allowed.clone();
        if let Ok(place) = Place::discover(&self.dir, &GitEnv::from_process())
            && let Ok(config) = Config::load(&Sources::from_process(&place).without_repository())
        {
            let allow = config.dispatch_allow().iter();
            all.extend(allow.filter_map(|rule| Rule::parse(rule).ok()));
        }
        all
    }
}

impl Ask for Policy {
    fn may(&mut self, question: &Question<'_>) -> Permission {
        if !settings::asks_about(self.program, question.tool) {
            return Permission::Allow;
        }
        let cwd = question.cwd.map(PathBuf::from);
        let call = input::before(self.program, question.tool, question.input.get(), cwd);
        let verdict = hooks::judge(&self.options, self.program, &self.dir, call);
        match (verdict.text(), verdict.is_denied()) {
            (None, _) => Permission::Allow,
            (Some(text), true) => Permission::Deny(text),
            (Some(text), false) => Permission::Warn(text),
        }
    }

    fn approve(&mut self, question: &Question<'_>) -> Permission {
        // The caller may not have asked `may` before.
        if let Permission::Deny(text) = self.may(question) {
            return Permission::Deny(text);
        }
        if rules::allow(&self.rules(), question, &self.dir) {
            return Permission::Allow;
        }
        let tool = short(question.tool, 60);
        Permission::Deny(match question.tool {
            "AskUserQuestion" => {
                "jit: nobody is there to answer. Decide for yourself, and say in your last message \
                                  what you decided and why."
                    .to_owned()
            }
            _ => format!(
                "jit: nobody is there to be asked, and this run may not use {tool} in this way. Do without it; if that \
                 cannot be, end and say in your last message what you need it for."
            ),
        })
    }
}
