//! Approving the commands that came with this repository (A8).
//!
//! What must hold:
//!
//! - what is approved is what was shown: the registry is not read again in between;
//! - an agent approves nothing, however it asks, unless the user's own settings say so. That is a guard rail: an agent
//!   that can run commands can also run others than `jit`.

use std::path::PathBuf;

use jit_core::refusal::{Code, Refusal};
use jit_core::time::Wall;

use super::App;
use crate::gates::Registry;
use crate::os::clock;
use crate::request::{Answer, Reply};
use crate::store::Outcome;
use crate::trust::{self, How, Kind, Need, Trust};

impl App {
    /// What approvals are given for: the folder that all worktrees share.
    pub(super) fn repository(&self) -> PathBuf {
        let shared = self.place.common_dir.as_ref();
        shared.unwrap_or(&self.place.control_dir).clone()
    }

    pub(super) fn approvals(&self) -> Outcome<Trust> {
        Trust::open(|name| std::env::var_os(name))
    }

    /// Whether whoever acts may approve commands.
    pub(super) fn may_trust(&self) -> bool {
        let own_file = self.place.local_jit.as_ref().map(|jit| jit.join("config.toml"));
        self.asking_agent().is_none() || self.config.may_trust(own_file.as_deref())
    }

    /// A refusal, if whoever acts may not approve commands.
    pub fn require_may_trust(&self) -> Outcome<()> {
        let agent = match self.asking_agent() {
            Some(agent) if !self.may_trust() => agent,
            _ => return Ok(()),
        };
        let message = format!("{agent} is an agent, and agents may not approve commands here");
        Err(Box::new(
            Refusal::new(Code::NotAllowed, message).help("ask a person to run: jit trust"),
        ))
    }

    pub(super) fn commands(&self) -> Outcome<Answer> {
        let registry = Registry::load(self.require_jit()?)?;
        let (trust, repository) = (self.approvals()?, self.repository());
        let others = self
            .commands_of_settings()
            .into_iter()
            .chain(self.merge_commands());
        let commands = trust::needs(&registry, others, |kind, name, text| {
            trust.is_trusted(&repository, kind, name, text)
        });
        Ok(self.plain(Reply::Commands { commands }))
    }

    pub(super) fn trust(&self, mut commands: Vec<Need>) -> Outcome<Answer> {
        self.require_may_trust()?;
        for command in &mut commands {
            self.approve(command.kind, &command.name, &command.text, How::Asked)?;
            command.is_trusted = true;
        }
        Ok(self.plain(Reply::Commands { commands }))
    }

    pub(super) fn approve(&self, kind: Kind, name: &str, text: &str, how: How) -> Outcome<()> {
        let now = Wall::from_ms(clock::wall_ms());
        self.approvals()?
            .approve(&self.repository(), kind, name, text, how, now)
    }

    pub(super) fn revoke(&self) -> Outcome<Answer> {
        let (mut trust, repository) = (self.approvals()?, self.repository());
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
        Ok(self.plain(Reply::Revoked { revoked }))
    }

    /// An answer that has nothing to do with the log.
    pub(super) fn plain(&self, reply: Reply) -> Answer {
        Answer {
            reply,
            warnings: self.warnings.clone(),
        }
    }
}
