//! Short ways to a [`Refusal`].

use jit_core::refusal::{Code, Refusal, Stop};

pub fn refuse(code: Code, message: impl ToString) -> Box<Refusal> {
    Box::new(Refusal::new(code, message.to_string()))
}

/// Why something was not decided, as a refusal.
pub fn stopped(stop: Stop) -> Box<Refusal> {
    match stop {
        Stop::Refused(refusal) => refusal,
        Stop::Unreadable(e) => refuse(Code::Io, e),
    }
}
