//! Agents that can be started: how each is called, and what it says, in one language (G4, G5, G7).
//!
//! What must hold:
//!
//! - an agent is started by its program and its arguments, never through a shell: what an issue says cannot become a
//!   command;
//! - what it says becomes [`AgentEvent`]; what is not understood is kept as it came, and is never an error;
//! - costs and tokens are those of this attempt alone, whatever the agent adds up over its sessions;
//! - that an agent ended well is not believed: its [`AgentVerdict`] is what it claims, and git is asked afterwards.

pub mod acp;
pub mod agent;
pub mod ask;
mod catalog;
pub mod claude;
pub mod codex;
pub mod command;
pub mod event;
pub mod gemini;
pub mod hooks;
pub mod job;
pub mod listener;
mod model_errors;
pub mod price;
pub mod prompt;
pub mod rate_limit;
pub mod redact;
pub mod rules;
pub mod runner;
#[cfg(test)]
mod test_job;
mod text;
mod token_count;

pub use agent::{Agent, Launch, Stdin};
pub use ask::{Ask, Permission, Question};
pub use catalog::{NAMES, by_name};
pub use listener::{Listener, Reaction};
pub use text::{short, short_bytes};
