//! Short constructors for a [`Refusal`].

use std::io;
use std::path::Path;

use jit_core::log::stop::Stop;
use jit_core::model::refusal::{Code, Refusal};
use jit_git::{DiscoverError, GitError};
use jit_os::shell::shell_word;

pub fn refuse(code: Code, message: impl ToString) -> Box<Refusal> {
    Box::new(Refusal::new(code, message.to_string()))
}

/// Converts a stopped decision into a refusal.
pub fn stopped(stop: Stop) -> Box<Refusal> {
    match stop {
        Stop::Refused(refusal) => refusal,
        Stop::Unreadable(e) => refuse(Code::Io, e),
    }
}

/// Converts a failed discovery. A repository of another user is refused as git refuses it, with git's own remedy.
pub(crate) fn no_place(error: DiscoverError) -> Box<Refusal> {
    let DiscoverError::Owner { repository, .. } = &error else {
        return refuse(Code::NotFound, error);
    };
    let repository = shell_word(&repository.to_string_lossy());
    let remedy = format!("git config --global --add safe.directory {repository}");
    Box::new(Refusal::new(Code::NotAllowed, error.to_string()).help(remedy))
}

/// Returns the first ids of a list, and the number of the others.
pub(crate) fn listed(ids: &[String]) -> String {
    const SHOWN: usize = 10;
    let more = if ids.len() > SHOWN {
        format!(" and {} more", ids.len() - SHOWN)
    } else {
        String::new()
    };
    format!("{}{more}", ids[..ids.len().min(SHOWN)].join(", "))
}

/// A failure of git is an IO error, not a mistake of the caller.
pub(crate) fn failed(error: GitError) -> Box<Refusal> {
    Box::new(Refusal::new(Code::Io, error.to_string()))
}

pub(crate) fn io_failed(what: &str, path: &Path) -> impl Fn(io::Error) -> Box<Refusal> {
    let (what, path) = (what.to_owned(), path.to_owned());
    move |error| jit_os::io_refusal(&what, &path, &error)
}
