//! The [`Ask`] trait: decides whether an agent may use a tool.

use std::path::Path;

use serde_json::value::RawValue;

use crate::text::short;

/// A tool that an agent is about to use.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The agent's own name of the tool.
    pub tool: &'a str,
    /// The tool's input as the agent gave it: JSON.
    pub input: &'a RawValue,
    /// The agent's current directory. A command line may depend on it.
    pub cwd: Option<&'a Path>,
}

/// Decides about the tools an agent wants to use.
pub trait Ask {
    /// Called before each use of a tool, even if the tool was approved already: may return an objection, such as a file
    /// lock of another agent.
    fn may(&mut self, question: &Question<'_>) -> Permission;

    /// Called when the agent would ask its user for approval. No user is present, so the default is to deny.
    fn approve(&mut self, question: &Question<'_>) -> Permission {
        Permission::Deny(format!(
            "jit: nobody is there who could allow {:?}.",
            short(question.tool, 60)
        ))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permission {
    Allow,
    /// Allowed. The model gets this warning.
    Warn(String),
    /// Denied. The model gets this reason.
    Deny(String),
}
