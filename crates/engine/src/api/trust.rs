//! Commands that came with a repository, and whether the user trusts them.

use serde::{Deserialize, Serialize};

/// The purpose of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Need {
    pub kind: Kind,
    pub name: String,
    #[serde(rename = "command")]
    pub text: String,
    #[serde(rename = "trusted")]
    pub is_trusted: bool,
}
