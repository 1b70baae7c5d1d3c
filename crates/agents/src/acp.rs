//! Any agent that speaks the Agent Client Protocol (ACP), version 1: JSON-RPC over standard input and output, one
//! message per line (G4, G5, F9).
//!
//! What must hold:
//!
//! - a permission request is judged by its content: all its paths (diffs, locations, input) and its command. An edit in
//!   the worktree, except of git's own files, is allowed unless a lock of another agent or the guard objects. A
//!   command, a fetch or a path elsewhere needs a rule, as for Claude Code. A request that does not show its content is
//!   denied;
//! - permission is given once, never permanently: locks could not stop an agent that no longer asks. The option is
//!   chosen by its kind, never by its name;
//! - every request gets an answer, even if it is truncated, of another session or not understood; otherwise the agent
//!   would wait forever;
//! - messages of another session, and answers to requests that jit did not send, are recorded and have no effect. The
//!   same holds for the replay of an earlier conversation while it is loaded;
//! - the model gets the reason of a denial. The protocol has no field for it, so jit sends it in `_meta` of the answer,
//!   which few agents read, and again as a user message after the turn, a few times at most;
//! - before the agent is ended, jit asks it to stop (`session/cancel`), so that its session can be resumed.
//!
//! jit offers neither files nor terminals to the agent. Agents also write with their own tools, so that would prevent
//! nothing that permission requests do not prevent already. And the shim would write wherever the agent tells it to.
//!
//! The message types (`wire`) are our own and have only the fields that matter:
//!
//! - the protocol's Rust SDK is asynchronous and brings seventy crates, for a loop over lines that exists already;
//! - its schema crate alone enables `preserve_order` of `serde_json`, and Cargo then enables it for the whole program,
//!   including the files that hold leases;
//! - its types drop values that do not fit, such as a path in a diff. jit must deny such a request instead.
//!
//! `build/acp-types`, outside of this workspace, checks both sides of shortened recordings against the official types.
//!
//! `listener` is the client that turns messages into [`AgentEvent`](crate::event::AgentEvent)s, `permission`
//! decides requests, `failure` classifies errors, `usage` sums up tokens and cost.
//!
//! Limitations: an agent that does not ask cannot be stopped, and many have a mode in which they do not ask. Tokens
//! within a turn are a lower bound: the size of the conversation. Turns of the model are counted by tool results. If an
//! agent sends no input for a command, the title it shows is judged. The user has to log in. Tested with
//! claude-agent-acp 0.49.0.

mod failure;
mod listener;
mod permission;
#[cfg(test)]
mod tests;
mod usage;
mod wire;

use crate::agent::{Agent, Launch, Stdin, command_of, prompt_of};
use crate::job::Job;
use crate::listener::Listener;

#[derive(Debug, Clone, Copy)]
pub struct Acp;

impl Agent for Acp {
    fn name(&self) -> &'static str {
        "acp"
    }

    fn resumes(&self) -> bool {
        true
    }

    /// The agent chooses the ids of its sessions.
    fn takes_session_ids(&self) -> bool {
        false
    }

    fn tells_end(&self) -> bool {
        true
    }

    fn launch(&self, job: &Job) -> Result<Launch, String> {
        let Some((program, args)) = command_of(job)? else {
            return Err("the agent `acp` needs a program to run, such as `gemini --acp`".to_owned());
        };
        // An unreadable prompt must fail before the agent starts.
        prompt_of(job)?;
        Ok(Launch {
            program,
            args,
            env: Vec::new(),
            stdin: Stdin::Open(wire::initialize()),
        })
    }

    fn listener(&self, job: &Job) -> Box<dyn Listener> {
        Box::new(listener::Client::of(job))
    }
}
