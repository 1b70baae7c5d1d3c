//! Short constructors for a [`Refusal`].

use std::io;
use std::path::Path;

use jit_core::log::stop::Stop;
use jit_core::model::refusal::{Code, Details, Refusal};
use jit_git::{DiscoverError, GitError, LocalProgram};
use jit_os::shell::shell_word;

use crate::api::trust::set_apart;

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
    Box::new(not_owned(repository, &error))
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

/// A failure of git is an IO error, not a mistake of the caller. A program that the user has not approved, and a
/// repository of another user, are refused as such.
pub(crate) fn failed(error: GitError) -> Box<Refusal> {
    match &error {
        GitError::NotApproved(programs) => Box::new(not_approved(programs)),
        GitError::Owner { repository, .. } => Box::new(not_owned(repository, &error)),
        _ => refuse(Code::Io, &error),
    }
}

/// Shows each setting with its whole value: a user must see what they approve.
pub(crate) fn not_approved(programs: &[LocalProgram]) -> Refusal {
    let mut shown: Vec<String> = programs
        .iter()
        .map(|one| {
            let file = one.file.display();
            format!("\n  {} (in {file}):{}", one.name, set_apart(&one.text))
        })
        .collect();
    shown.sort();
    shown.dedup();
    let message = format!(
        "git needs programs that the repository's own settings name, and you have not approved them on this \
         machine:{}",
        shown.concat()
    );
    let mut names: Vec<String> = programs.iter().map(|one| one.name.clone()).collect();
    names.sort();
    names.dedup();
    Refusal::new(Code::NotTrusted, message)
        .help("jit trust")
        .details(Details::Candidates(names))
}

fn not_owned(repository: &Path, error: &impl ToString) -> Refusal {
    let repository = shell_word(&repository.to_string_lossy());
    let remedy = format!("git config --global --add safe.directory {repository}");
    Refusal::new(Code::NotAllowed, error.to_string()).help(remedy)
}

pub(crate) fn io_failed(what: &str, path: &Path) -> impl Fn(io::Error) -> Box<Refusal> {
    let (what, path) = (what.to_owned(), path.to_owned());
    move |error| jit_os::io_refusal(&what, &path, &error)
}
