//! Approving the commands that came with this repository (A8).
//!
//! What must hold:
//!
//! - what is approved is what was shown: the registry is not read again in between;
//! - a command that a person writes into the settings here (`jit config set`) is approved by that, as a gate is that they
//!   define here; what came with the repository is not, though it be in the same file;
//! - an agent approves nothing, however it asks, unless the user's own settings say so. That is a guard rail: an agent
//!   that can run commands can also run others than `jit`.

use std::path::PathBuf;

use jit_core::merge_policy::MergePolicy;
use jit_core::refusal::{Code, Refusal};
use jit_core::time::Wall;
use jit_os::clock;
use jit_store::Outcome;

use crate::api::{Answer, Reply};
use crate::approvals as trust;
use crate::approvals::{How, Kind, Need, Trust};
use crate::attempts::dispatch::words_as_text;
use crate::config::keys::Value;
use crate::context::{Context, Surroundings};
use crate::gates::Registry;
use crate::landing::candidate::rule_name;
use crate::landing::service::VALIDATE;
use crate::units::service::PROVISION;

impl Surroundings {
    /// A setting that whoever asks has written just now: what it would run is approved, unless an agent asks that may not.
    pub fn approve_setting(&self, key: &str, value: &Value) -> Outcome<()> {
        let commands = commands_in(key, value);
        let own_file = self.place.local_jit.as_ref().map(|jit| jit.join("config.toml"));
        let may = self.asking_agent().is_none() || self.config.may_trust(own_file.as_deref());
        if commands.is_empty() || !may {
            return Ok(());
        }
        let shared = self.place.common_dir.as_ref();
        let repository = shared.unwrap_or(&self.place.control_dir);
        let mut trust = Trust::open(|name| std::env::var_os(name))?;
        for (kind, name, text) in commands {
            let now = Wall::from_ms(clock::wall_ms());
            trust.approve(repository, kind, &name, &text, How::DefinedHere, now)?;
        }
        Ok(())
    }
}

/// What a setting would have run, under the names it is asked for by.
fn commands_in(key: &str, value: &Value) -> Vec<(Kind, String, String)> {
    let listed = |kind: Kind, name: &str| match value {
        Value::List(items) => items
            .iter()
            .map(|text| (kind, name.to_owned(), text.clone()))
            .collect(),
        _ => Vec::new(),
    };
    match (key, value) {
        (VALIDATE, _) => listed(Kind::Validate, VALIDATE),
        (PROVISION, _) => listed(Kind::Provision, PROVISION),
        ("merge.resolve", Value::List(rules)) => MergePolicy::new(rules.iter().map(String::as_str))
            .commands()
            .map(|(pattern, text)| (Kind::Validate, rule_name(pattern), text.to_owned()))
            .collect(),
        ("dispatch.command", Value::List(words)) if !words.is_empty() => {
            vec![(Kind::Agent, key.to_owned(), words_as_text(words))]
        }
        ("dispatch.permission_mode", Value::Text(mode)) => {
            vec![(Kind::Agent, key.to_owned(), mode.clone())]
        }
        _ => Vec::new(),
    }
}

/// What approvals are given for: the folder that all worktrees share.
pub(crate) fn repository(cx: &Context) -> PathBuf {
    let shared = cx.place.common_dir.as_ref();
    shared.unwrap_or(&cx.place.control_dir).clone()
}

pub(crate) fn approvals() -> Outcome<Trust> {
    Trust::open(|name| std::env::var_os(name))
}

/// Whether whoever acts may approve commands.
pub(crate) fn may_trust(cx: &Context) -> bool {
    let own_file = cx.place.local_jit.as_ref().map(|jit| jit.join("config.toml"));
    crate::context::calling_agent::asking_agent(cx).is_none() || cx.config.may_trust(own_file.as_deref())
}

/// A refusal, if whoever acts may not approve commands.
pub fn require_may_trust(cx: &Context) -> Outcome<()> {
    let agent = match crate::context::calling_agent::asking_agent(cx) {
        Some(agent) if !may_trust(cx) => agent,
        _ => return Ok(()),
    };
    let message = format!("{agent} is an agent, and agents may not approve commands here");
    Err(Box::new(
        Refusal::new(Code::NotAllowed, message).help("ask a person to run: jit trust"),
    ))
}

pub(crate) fn commands(cx: &Context) -> Outcome<Answer> {
    let registry = Registry::load(crate::gates::service::require_jit(cx)?)?;
    let (trust, repository) = (approvals()?, repository(cx));
    let others = crate::units::service::commands_of_settings(cx)
        .into_iter()
        .chain(crate::landing::service::merge_commands(cx))
        .chain(crate::attempts::dispatch::dispatch_commands(cx));
    let commands = trust::needs(&registry, others, |kind, name, text| {
        trust.is_trusted(&repository, kind, name, text)
    });
    Ok(plain(cx, Reply::Commands { commands }))
}

pub(crate) fn trust(cx: &Context, mut commands: Vec<Need>) -> Outcome<Answer> {
    require_may_trust(cx)?;
    for command in &mut commands {
        approve(cx, command.kind, &command.name, &command.text, How::Asked)?;
        command.is_trusted = true;
    }
    Ok(plain(cx, Reply::Commands { commands }))
}

pub(crate) fn approve(cx: &Context, kind: Kind, name: &str, text: &str, how: How) -> Outcome<()> {
    let now = Wall::from_ms(clock::wall_ms());
    approvals()?.approve(&repository(cx), kind, name, text, how, now)
}

pub(crate) fn revoke(cx: &Context) -> Outcome<Answer> {
    let (mut trust, repository) = (approvals()?, repository(cx));
    let mut names: Vec<(Kind, String)> = trust
        .list(&repository)
        .map(|one| (one.kind, one.name.clone()))
        .collect();
    names.sort();
    names.dedup();
    let mut revoked = 0;
    for (kind, name) in names {
        let now = Wall::from_ms(clock::wall_ms());
        revoked += trust.revoke(&repository, kind, &name, None, now)?;
    }
    Ok(plain(cx, Reply::Revoked { revoked }))
}

/// An answer that has nothing to do with the log.
pub(crate) fn plain(cx: &Context, reply: Reply) -> Answer {
    Answer {
        reply,
        warnings: cx.warnings.clone(),
    }
}
