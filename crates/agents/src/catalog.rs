//! The known agents, by name.

use crate::acp::Acp;
use crate::agent::Agent;
use crate::claude::Claude;
use crate::codex::Codex;
use crate::command::Command;
use crate::gemini::Gemini;

/// The names of all agents.
pub const NAMES: &[&str] = &["acp", "claude", "codex", "command", "gemini"];

/// Permission modes in which an agent is held back by nothing.
pub const MODES_WITHOUT_LIMITS: &[&str] = &["bypassPermissions", "danger-full-access", "yolo"];

/// The agent with this name, as written in a job, a plan or a setting.
pub fn by_name(name: &str) -> Option<Box<dyn Agent>> {
    match name {
        "acp" => Some(Box::new(Acp)),
        "claude" => Some(Box::new(Claude)),
        "codex" => Some(Box::new(Codex)),
        "command" => Some(Box::new(Command)),
        "gemini" => Some(Box::new(Gemini)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g4_every_name_is_an_agent_of_that_name() {
        for name in NAMES {
            assert_eq!(by_name(name).map(|agent| agent.name()), Some(*name));
        }
        assert!(by_name("clade").is_none());
    }
}
