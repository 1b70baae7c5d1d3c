//! The questions of a running agent about tools, and the trait that decides them.

use std::path::Path;

use serde_json::value::RawValue;

use crate::text::short;

/// What an agent asks about.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The agent's own name of the tool.
    pub tool: &'a str,
    /// The tool's input, as the agent gave it: JSON.
    pub input: &'a RawValue,
    /// Where the agent stands at this moment, which a command line may depend on.
    pub cwd: Option<&'a Path>,
}

/// Who decides what an agent may do when it asks.
pub trait Ask {
    /// A tool is about to be used, whoever has approved of it: is anything against it?
    fn may(&mut self, question: &Question<'_>) -> Permission;

    /// The agent would ask its user now. Nobody is there.
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
    /// Allowed, with a sentence the model is told.
    Warn(String),
    /// With the sentence the model is told.
    Deny(String),
}
