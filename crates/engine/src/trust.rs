//! Approving the commands that came with this repository (A8), and the programs that its git settings name (L2).
//!
//! What must hold:
//!
//! - The approved commands are exactly those that were shown: the registry is not read again in between.
//! - A command that a person writes into the settings here (`jit config set`) is approved by that, like a gate that
//!   they define here. A command that came with the repository is not approved, even in the same file.
//! - An agent can neither approve a command nor revoke an approval, unless the user's own settings allow it. This is a guard rail: an agent
//!   that can run commands can also run programs other than `jit`.

use crate::api::trust::Approver;
use crate::api::trust::Commands;
use crate::api::trust::Revoked;
use crate::api::trust::TrustReply;
use crate::api::trust::TrustRequest;
use jit_core::landing::path_rules::MergePolicy;
use jit_core::model::refusal::Refusal;
use jit_core::model::time::Wall;
use jit_os::clock;
use jit_store::Outcome;

use crate::api::trust::{Kind, Need};
use crate::api::{Answer, Reply};
use crate::approvals::{How, Trust, approvals, approve, none_trusted, repository, require_may_trust};
use crate::config::keys::Value;
use crate::context::{Context, Surroundings, comes_with_repository, plain};
use crate::gates::Registry;
use crate::git_programs;

impl Surroundings {
    /// Approves the commands of a setting that the caller has just written, unless the caller is an agent without
    /// that right.
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

/// Settings from a repository that need approval.
const APPROVED: &[&str] = &[
    "dispatch.command",
    "dispatch.permission_mode",
    "merge.resolve",
    VALIDATE,
    PROVISION,
];

/// Returns whether a value of this setting that came with a repository needs approval.
pub fn asks_for_approval(key: &str) -> bool {
    APPROVED.contains(&key)
}

/// Returns the commands that a setting would run, with the names used for approval.
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

pub(crate) fn commands(cx: &Context) -> Outcome<Answer> {
    let registry = Registry::load(crate::gates::service::require_jit(cx)?)?;
    let (trust, repository) = (approvals()?, repository(cx));
    let others = crate::trust::commands_of_settings(cx)
        .into_iter()
        .chain(crate::trust::merge_commands(cx))
        .chain(crate::trust::dispatch_commands(cx));
    let mut commands = needs(&registry, others, |kind, name, text| {
        trust.is_trusted(&repository, kind, name, text)
    });
    commands.extend(of_git(cx)?);
    Ok(plain(
        cx,
        Reply::Trust(TrustReply::Commands(Commands { commands })),
    ))
}

/// Refuses if a command is not approved.
fn require_trusted(cx: &Context) -> Outcome<Answer> {
    let answer = commands(cx)?;
    let Reply::Trust(TrustReply::Commands(Commands { commands })) = &answer.reply else {
        return Err(Box::new(Refusal::bug("commands in the reply")));
    };
    let open: Vec<Need> = commands.iter().filter(|one| !one.is_trusted).cloned().collect();
    if open.is_empty() {
        return Ok(answer);
    }
    let help = match require_may_trust(cx) {
        Ok(()) => "jit trust --yes",
        Err(_) => "ask a person to run: jit trust",
    };
    Err(Box::new(none_trusted(&open).help(help)))
}

pub(crate) fn trust(cx: &Context, mut commands: Vec<Need>) -> Outcome<Answer> {
    require_may_trust(cx)?;
    for command in &mut commands {
        match command.kind {
            Kind::Git => approve_for_git(cx, command)?,
            kind => approve(cx, kind, &command.name, &command.text, How::Asked)?,
        }
        command.is_trusted = true;
    }
    Ok(plain(
        cx,
        Reply::Trust(TrustReply::Commands(Commands { commands })),
    ))
}

pub(crate) fn revoke(cx: &Context) -> Outcome<Answer> {
    require_may_trust(cx)?;
    let (mut trust, repository) = (approvals()?, repository(cx));
    let mut names: Vec<(Kind, String)> = trust
        .list(&repository)
        .map(|one| (one.kind, one.name.clone()))
        .collect();
    names.sort();
    names.dedup();
    let mut revoked = 0;
    for (kind, name) in names {
        let now = cx.clock.wall();
        revoked += trust.revoke(&repository, kind, &name, None, now)?;
    }
    Ok(plain(cx, Reply::Trust(TrustReply::Revoked(Revoked { revoked }))))
}

/// Returns the programs that git would start because of the repository's own settings.
fn of_git(cx: &Context) -> Outcome<Vec<Need>> {
    let found = git_programs::of(&cx.place)?.into_iter();
    let mut needs: Vec<Need> = found
        .map(|(one, is_trusted)| Need {
            kind: Kind::Git,
            name: one.name,
            text: one.text,
            is_trusted,
        })
        .collect();
    // A submodule may have the same setting as the repository around it.
    needs.sort_by(|a, b| (&a.name, &a.text, a.is_trusted).cmp(&(&b.name, &b.text, b.is_trusted)));
    needs.dedup_by(|a, b| (&a.name, &a.text) == (&b.name, &b.text));
    Ok(needs)
}

/// Approves a setting in each repository here that has it: a submodule may be a repository of its own.
fn approve_for_git(cx: &Context, command: &Need) -> Outcome<()> {
    approve(cx, Kind::Git, &command.name, &command.text, How::Asked)?;
    let (own, mut trust) = (repository(cx), approvals()?);
    for (one, _) in git_programs::of(&cx.place)? {
        if (&one.name, &one.text) == (&command.name, &command.text) && one.repository != own {
            let now = cx.clock.wall();
            trust.approve(&one.repository, Kind::Git, &one.name, &one.text, How::Asked, now)?;
        }
    }
    Ok(())
}

/// Returns all commands of a repository that need approval: its gates, and those that the caller found elsewhere.
pub fn needs(
    registry: &Registry,
    others: impl IntoIterator<Item = (Kind, String, String)>,
    is_trusted: impl Fn(Kind, &str, &str) -> bool,
) -> Vec<Need> {
    let gates = registry.iter().filter_map(|(name, gate)| {
        let text = gate.command()?.to_owned();
        Some((Kind::Gate, name.to_string(), text))
    });
    let mut needs: Vec<Need> = gates
        .chain(others)
        .map(|(kind, name, text)| Need {
            is_trusted: is_trusted(kind, &name, &text),
            kind,
            name,
            text,
        })
        .collect();
    needs.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
    needs
}

/// Returns a program and its arguments as text for approval. Each word is quoted: joined words of two different
/// commands could look the same.
pub(crate) fn words_as_text(words: &[String]) -> String {
    format!("{words:?}")
}

/// Returns the agent settings that came with the repository and need approval.
pub(crate) fn dispatch_commands(cx: &Context) -> Vec<(Kind, String, String)> {
    let set = cx.config.dispatching();
    let text = |key: &str| match key {
        "dispatch.command" => words_as_text(&set.command),
        _ => set.permission_mode.clone(),
    };
    RISKY
        .iter()
        .filter(|key| crate::context::comes_with_repository(cx, key))
        .map(|key| (Kind::Agent, (*key).to_owned(), text(key)))
        .collect()
}

/// The name for the approval of checks of merged work.
pub const VALIDATE: &str = "merge.validate";

/// Returns the merge commands that need approval, as this worktree defines them.
pub(crate) fn merge_commands(cx: &Context) -> Vec<(Kind, String, String)> {
    let merging = cx.config.merging();
    let rules = merging
        .policy
        .commands()
        .map(|(pattern, text)| (Kind::Validate, rule_name(pattern), text.to_owned()));
    let checks = merging
        .validate
        .iter()
        .map(|text| (Kind::Validate, VALIDATE.to_owned(), text.clone()));
    rules.chain(checks).collect()
}

/// Returns the name for the approval of a rule's command.
pub fn rule_name(pattern: &str) -> String {
    format!("merge.resolve {pattern}")
}

/// The setting with the steps that provision a worktree.
pub(crate) const PROVISION: &str = "worktree.provision";

/// Returns the command lines of settings that came with the repository.
pub(crate) fn commands_of_settings(cx: &Context) -> Vec<(Kind, String, String)> {
    if !comes_with_repository(cx, PROVISION) {
        return Vec::new();
    }
    let steps = cx.config.provision_steps().iter();
    steps
        .map(|step| (Kind::Provision, PROVISION.to_owned(), step.clone()))
        .collect()
}

/// Settings that decide which program runs or with which rights. They need approval if they came with the repository.
pub(crate) const RISKY: &[&str] = &["dispatch.command", "dispatch.permission_mode"];

/// Carries out a request about trust.
pub(crate) fn handle(cx: &Context, request: TrustRequest) -> Outcome<Answer> {
    match request {
        TrustRequest::List => commands(cx),
        TrustRequest::Approve { commands } => trust(cx, commands),
        TrustRequest::Revoke => revoke(cx),
        TrustRequest::RequireApprover => {
            require_may_trust(cx)?;
            let agent_id = cx.actor.agent_id.clone();
            Ok(plain(cx, TrustReply::Approver(Approver { agent_id }).into()))
        }
        TrustRequest::RequireTrusted => require_trusted(cx),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::classes::{Class, class, is_users_own};
    use crate::config::keys::KEYS;

    #[test]
    fn l1_every_trusted_setting_is_the_users_own_or_asks_for_approval() {
        for key in KEYS {
            let is_held = is_users_own(key.name) || asks_for_approval(key.name);
            assert_eq!(class(key.name) == Class::Trusted, is_held, "{}", key.name);
            assert!(
                !(is_users_own(key.name) && asks_for_approval(key.name)),
                "{}",
                key.name
            );
        }
        for name in APPROVED {
            let key = KEYS.iter().find(|key| key.name == *name).expect("a key");
            let value = key.from_text("[\"* = command: make\"]").expect("a value");
            assert_eq!(commands_in(name, &value).len(), 1, "{name}");
        }
    }
}
