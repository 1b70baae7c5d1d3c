//! The trait that turns the output of one running agent into events and answers.

use crate::ask::Ask;
use crate::event::{AgentEvent, AgentVerdict};

/// Understands what one agent says, line by line.
pub trait Listener: Send {
    /// One line of its standard output, without the line end.
    fn line(&mut self, line: &[u8], ask: &mut dyn Ask) -> Reaction;

    /// It is about to be ended: what is said to it before. With nothing to say it is ended at once.
    fn stop(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Its output has ended.
    fn end(&mut self) -> Vec<AgentEvent> {
        Vec::new()
    }

    /// It has ended by itself without a result: what its code and the end of its standard error mean, if that is known.
    fn exited(&mut self, _code: Option<i32>, _stderr: &str) -> Option<AgentVerdict> {
        None
    }
}

/// What came of a line.
#[derive(Debug, Default)]
pub struct Reaction {
    pub said: Vec<AgentEvent>,
    /// What is written to its standard input.
    pub answer: Vec<u8>,
    /// Its standard input is closed after that.
    pub hang_up: bool,
}
