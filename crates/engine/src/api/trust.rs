//! Commands that came with a repository, and whether the user trusts them.

use jit_core::model::ids::{AgentId, is_invisible, is_unprintable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::facts::TreeScope::{IfMoved, Nothing};
use crate::api::facts::{reads, replies, requests, writes};

requests! {
    /// Trust in commands. It belongs to the user, not to the worktree: none of these writes to the log.
    pub enum TrustRequest {
        /// Lists the commands that came with the repository, and whether they are trusted.
        List => reads(IfMoved),
        /// Trusts these commands, exactly as they were shown.
        Approve { commands: Vec<Need> } => writes(IfMoved).without_identity(),
        /// Revokes the trust in all commands of this repository.
        Revoke => writes(IfMoved).without_identity(),
        /// Refuses a caller that may not approve commands.
        RequireApprover => reads(Nothing),
        /// Refuses if a command of this repository is not trusted. The refusal shows each of them.
        RequireTrusted => reads(IfMoved),
    }
}

replies! {
    pub enum TrustReply {
        Commands(Commands),
        Revoked(Revoked),
        Approver(Approver),
    }
}

/// The caller that may approve commands.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Approver {
    pub agent_id: AgentId,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Commands {
    pub commands: Vec<Need>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Revoked {
    pub revoked: usize,
}

/// The purpose of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Gate,
    Provision,
    Validate,
    Agent,
    /// A setting of the repository's own git configuration that makes git start a program.
    Git,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gate => "gate",
            Self::Provision => "provision",
            Self::Validate => "validate",
            Self::Agent => "agent",
            Self::Git => "git",
        }
    }
}

/// A command that must be trusted before it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Need {
    pub kind: Kind,
    pub name: String,
    #[serde(rename = "command")]
    pub text: String,
    #[serde(rename = "trusted")]
    pub is_trusted: bool,
}

/// Formats the text of a command inside a message. The lines of a text cannot look like lines of the message, and
/// invisible characters are escaped. Joiners are escaped even inside emoji, because the exact text is approved.
pub fn set_apart(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c if is_unprintable(c) || is_invisible(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    let text = shown;
    match text.contains('\n') {
        false => format!(" {text}"),
        true => text.split('\n').map(|line| format!("\n    | {line}")).collect(),
    }
}
