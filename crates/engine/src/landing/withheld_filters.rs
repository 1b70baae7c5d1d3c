//! Refuses to move a checkout forward where files need a filter that the user has not approved (L2).
//!
//! Git would fail at the first such file, with some files changed already. So it is asked before: whether an attributes
//! file of the commit names such a filter. Git is asked only if the repository's own settings name one.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use jit_git::LocalProgram;
use jit_git::run::withheld_filters;
use jit_store::Outcome;

use super::Repo;
use crate::refusals::{failed, not_approved};

pub(crate) fn require_filters(repo: &Repo, root: &Path, new: &str) -> Outcome<()> {
    let mut withheld = withheld_filters(root).map_err(failed)?;
    if withheld.is_empty() {
        return Ok(());
    }
    let own = fs::read(repo.common.join("info/attributes")).unwrap_or_default();
    let mut needed = Vec::new();
    while let Some(one) = withheld.pop() {
        let wanted = attribute(&one);
        let is_own = own.windows(wanted.len()).any(|part| part == wanted.as_bytes());
        if is_own || is_named(repo, new, wanted)? {
            needed.push(one);
        }
    }
    match needed.as_slice() {
        [] => Ok(()),
        needed => Err(Box::new(not_approved(needed))),
    }
}

/// The attribute that makes git use a filter.
fn attribute(one: &LocalProgram) -> OsString {
    let mut attribute = OsString::from("filter=");
    attribute.push(one.filter());
    attribute
}

fn is_named(repo: &Repo, commit: &str, attribute: OsString) -> Outcome<bool> {
    let git = repo.git().args(["grep", "-q", "-F", "-e"]).arg(attribute);
    git.args([commit, "--", ":(glob)**/.gitattributes"])
        .test()
        .map_err(failed)
}
