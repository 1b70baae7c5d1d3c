//! Agents: how each agent program is started, what it reports, and the shim that owns a running one (G4, G5, G7).
//!
//! One vocabulary serves all programs: a [`job::Job`] goes in, [`event::AgentEvent`]s and a [`job::Exit`] come out.
//! This crate may neither read nor write the log, issues and leases. The engine decides what to start, passes the facts
//! in, and answers an agent's questions through [`Ask`]. The crate also has the programs' hooks ([`hooks`]), permission
//! rules ([`rules`]), prompts ([`prompt`]), prices ([`price`]) and the redaction of secrets ([`redact`]).
//!
//! Begin with [`agent`] and [`listener`], then [`claude`] as an example, then [`runner`], which starts and watches a
//! process. Modules depend on each other in one direction: event and job, the traits, the agents, [`by_name`]; the runner
//! uses the traits and no agent.
//!
//! What must hold:
//!
//! - an agent is started with a program and arguments, never through a shell: the text of an issue cannot become a
//!   command;
//! - its output becomes [`AgentEvent`](event::AgentEvent)s. Output that is not understood is kept, and is never an error;
//! - cost and tokens are those of this attempt alone, even if the agent sums up over several sessions;
//! - an agent's report of success is a claim ([`AgentVerdict`](event::AgentVerdict)): the engine checks the result with
//!   git.
//!
//! ```
//! use jit_agents::event::AgentEvent;
//! use jit_agents::{Ask, Permission, Question, by_name};
//!
//! struct AllowAll;
//! impl Ask for AllowAll {
//!     fn may(&mut self, _: &Question<'_>) -> Permission {
//!         Permission::Allow
//!     }
//! }
//!
//! let job = serde_json::from_str(
//!     r#"{"unit":"u","attempt":1,"agent":"command","worker":"agent:u-1","dir":"/tmp","vars":[],"session":null,
//!         "timeout_secs":60,"idle_secs":60,"linger_secs":5,"grace_secs":5}"#,
//! )?;
//! let agent = by_name("command").expect("a known agent");
//! let mut listener = agent.listener(&job);
//! let reaction = listener.line(b"3 files changed", &mut AllowAll);
//! assert_eq!(reaction.said, [AgentEvent::Text { text: "3 files changed".into() }]);
//! # Ok::<(), serde_json::Error>(())
//! ```

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
pub mod mcp_settings;
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
pub use catalog::{MODES_WITHOUT_LIMITS, NAMES, by_name};
pub use listener::{Listener, Reaction};
pub use text::{short, short_bytes};
