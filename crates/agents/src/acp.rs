//! Any agent that speaks the Agent Client Protocol (ACP), version 1: JSON-RPC over standard input and output, one message a
//! line (G4, G5, F9).
//!
//! What must hold:
//!
//! - what the agent asks leave for is judged by what can be seen of it: every path in it (differences, locations, input)
//!   and every command. An edit in the worktree, but for git's own files, is allowed unless somebody else's lock or the guard is against it; a
//!   command, a fetch or a path elsewhere needs a rule, as for Claude Code. What cannot be seen is refused;
//! - leave is given once, never for good: an agent that need not ask again would not be held back by locks. Of the options
//!   it offers one is chosen by its kind, never by its name;
//! - every request gets an answer, also one that is cut off, of another session or not understood: the agent would wait;
//! - messages of another session, and answers to what was not asked, are kept and change nothing. So is what an agent tells
//!   of an earlier conversation while that is loaded;
//! - the model is told why it was refused. The protocol has no place for that, so it is said in `_meta` of the answer, which
//!   few read, and once more as words of the user when the turn has ended, a few times at most;
//! - before it is ended it is asked to stop (`session/cancel`), so that its session can be gone on with.
//!
//! Files and terminals are not offered to the agent. Writing a file for it would be one more place to check locks, but
//! agents write with tools of their own all the same, so nothing would be held that the questions do not hold already, and
//! the process that watches an agent would write where the agent tells it to.
//!
//! The messages ([`wire`]) are types of our own, the few fields that matter. The protocol's Rust SDK is async all through
//! and brings seventy crates for a loop over lines that is there already; its schema crate alone switches on `preserve_order` of `serde_json`, which Cargo then switches on for the
//! whole program, down to the files that leases are kept in. Its types also leave out what does not fit them, a path in a
//! difference for one; here what does not fit must be refused. `build/acp-types` checks conversations that were
//! shortened from recorded ones, both sides, against the official types, outside of this workspace.
//!
//! [`listener`] makes [`AgentEvent`](crate::event::AgentEvent) of it, [`permission`] says what is asked, [`failure`] why it failed, [`usage`] adds up.
//!
//! Limitations: an agent that does not ask is not held back, and many have a mode in which they do not. Tokens between turns are
//! a lower bound: the size of the conversation. How many turns the model took is counted by what came back from tools. An agent that gives no input of its command
//! is judged by the title it shows. Logging in is a person's affair. Tried with claude-agent-acp 0.49.0.

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

    /// The agent gives its sessions their names.
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
        // What cannot be told later is noticed before it starts.
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
