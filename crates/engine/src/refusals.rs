//! Short ways to a [`Refusal`].

use std::io;
use std::path::Path;

use jit_core::log::stop::Stop;
use jit_core::model::refusal::{Code, Refusal};
use jit_git::GitError;

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

/// The first few of many.
pub(crate) fn listed(ids: &[String]) -> String {
    const SHOWN: usize = 10;
    let more = if ids.len() > SHOWN {
        format!(" and {} more", ids.len() - SHOWN)
    } else {
        String::new()
    };
    format!("{}{more}", ids[..ids.len().min(SHOWN)].join(", "))
}

/// What git could not do is not the caller's mistake.
pub(crate) fn failed(error: GitError) -> Box<Refusal> {
    Box::new(Refusal::new(Code::Io, error.to_string()))
}

pub(crate) fn io_failed(what: &str, path: &Path) -> impl Fn(io::Error) -> Box<Refusal> {
    let (what, path) = (what.to_owned(), path.to_owned());
    move |error| jit_os::io_refusal(&what, &path, &error)
}
