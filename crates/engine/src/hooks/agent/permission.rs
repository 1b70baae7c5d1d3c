//! What an agent is told when it asks (G5, F9): from policy and file locks.
//!
//! What must hold:
//!
//! - before a tool is used the answer is that of the installed hook, word for word, and files are locked as it would lock
//!   them: both go through [`hooks::judge`]. No process is started for a question;
//! - what the agent would ask its user is denied with a sentence, unless the job's `allowed_tools` or `dispatch.allow` of
//!   the configuration allow it. What comes with a repository cannot allow its agents anything;
//! - nothing is bypassed here: that the agent is started in a mode without questions is the job's business.

use std::path::PathBuf;

use jit_agents::hooks::{Program, input, settings};
use jit_agents::job::Job;
use jit_agents::rules::{self, Rule};
use jit_agents::{Ask, Permission, Question, short};
use jit_git::{GitEnv, Place};

use crate::config::{Config, Sources};
use crate::context::Options;
use crate::hooks::agent as hooks;

/// Answers for one agent at work.
#[derive(Debug)]
pub struct Policy {
    options: Options,
    program: Program,
    /// Where it is at home.
    dir: PathBuf,
    /// Of the job alone.
    allowed: Vec<Rule>,
}

impl Policy {
    pub fn of(job: &Job) -> Self {
        Self {
            options: Options {
                dir: Some(job.dir.clone()),
                agent: Some(job.worker.to_string()),
                ..Options::default()
            },
            program: Program::Claude,
            dir: job.dir.clone(),
            // What is not a rule allows nothing.
            allowed: job
                .allowed_tools
                .iter()
                .filter_map(|rule| Rule::parse(rule).ok())
                .collect(),
        }
    }

    /// The rules that count now.
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
        // Whoever asks here may not have asked the other question before.
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
