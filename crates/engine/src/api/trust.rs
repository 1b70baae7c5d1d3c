//! Commands that came with a repository, and whether the user trusts them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::facts::TreeScope::IfMoved;
use crate::api::facts::{reads, replies, requests};

requests! {
    /// Trust in commands. It belongs to the user, not to the worktree: none of these writes to the repository.
    pub enum TrustRequest {
        /// Lists the commands that came with the repository, and whether they are trusted.
        List => reads(IfMoved),
        /// Trusts these commands, exactly as they were shown.
        Approve { commands: Vec<Need> } => reads(IfMoved),
        /// Revokes the trust in all commands of this repository.
        Revoke => reads(IfMoved),
    }
}

replies! {
    pub enum TrustReply {
        Commands(Commands),
        Revoked(Revoked),
    }
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
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gate => "gate",
            Self::Provision => "provision",
            Self::Validate => "validate",
            Self::Agent => "agent",
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
