//! Refusals that every store gives in the same words.

use std::io;

use jit_core::log::stop::Stop;
use jit_core::model::ids::RequestId;
use jit_core::model::refusal::{Code, Refusal};

use crate::log;

pub fn request_reused(id: &RequestId) -> Box<Refusal> {
    Box::new(
        Refusal::new(
            Code::RequestReused,
            format!("the request id {id} was used for another command"),
        )
        .help("choose a new --request-id, or leave it out"),
    )
}

pub fn not_initialized() -> Box<Refusal> {
    Box::new(
        Refusal::new(Code::NotInitialized, "there is no jit log in this repository yet").help("jit init"),
    )
}

/// For a line of `len` bytes, if that is more than a log takes.
pub fn refuse_long_line(len: usize) -> Result<(), Box<Refusal>> {
    if len <= log::LONGEST {
        return Ok(());
    }
    let message = format!(
        "that is {len} bytes in one line of the log, which has at most {}; nothing was changed",
        log::LONGEST
    );
    Err(Refusal::new(Code::Invalid, message).into())
}

/// A request was carried out, but its events do not add up to a reply.
pub fn no_reply() -> Box<Refusal> {
    Box::new(Refusal::bug("events that add up to a reply"))
}

pub fn clock_unreadable(e: &io::Error) -> Box<Refusal> {
    Box::new(Refusal::new(Code::Io, format!("the clock cannot be read: {e}")))
}

pub fn from_stop(stop: Stop) -> Box<Refusal> {
    match stop {
        Stop::Refused(refusal) => refusal,
        Stop::Unreadable(e) => Box::new(Refusal::new(Code::Io, e.to_string()).help("jit doctor")),
    }
}
