//! The [`Listener`] trait: turns the output of one running agent into events and answers.

use crate::ask::Ask;
use crate::event::{AgentEvent, AgentVerdict};

/// Parses the output of one agent, line by line.
pub trait Listener: Send {
    /// One line of its standard output, without the line end.
    fn line(&mut self, line: &[u8], ask: &mut dyn Ask) -> Reaction;

    /// The agent is about to be stopped: returns the bytes that ask it to stop. If empty, the shim sends a signal at
    /// once.
    fn stop(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// The standard output has ended: returns events that were still pending.
    fn end(&mut self) -> Vec<AgentEvent> {
        Vec::new()
    }

    /// The agent exited by itself without a result: returns a verdict if the exit code and the end of its standard
    /// error have a known meaning.
    fn exited(&mut self, _code: Option<i32>, _stderr: &str) -> Option<AgentVerdict> {
        None
    }
}

/// The result of parsing one line.
#[derive(Debug, Default)]
pub struct Reaction {
    pub said: Vec<AgentEvent>,
    /// Bytes to write to the agent's standard input.
    pub answer: Vec<u8>,
    /// Whether to close the standard input after that.
    pub hang_up: bool,
}
