//! Refuses an issue whose id differs from another one's only in case, such as `k-001` beside `K-001` (C2).
//!
//! Ids are unique without regard to case, and some file systems cannot keep both folders.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use jit_core::log::state;
use jit_core::model::ids::IssueId;
use jit_core::model::refusal::{Code, Refusal};
use jit_os::shell::shell_word;
use jit_store::{Outcome, View};

use super::staged;
use crate::context::Context;
use crate::refusals::refuse;

/// Refuses a new issue that has a twin in the commit that is being made, old or new.
pub fn refuse_in_index<'a>(cx: &Context, new: impl Iterator<Item = &'a IssueId>) -> Outcome<()> {
    let new: BTreeMap<String, &IssueId> = new.map(|id| (id.key(), id)).collect();
    let Some(git) = staged::git(&cx.place).filter(|_| !new.is_empty()) else {
        return Ok(());
    };
    let listed = git
        .args(["ls-files", "-z", "--full-name", "--", ":(top).jit/issues"])
        .run()
        .map_err(|e| refuse(Code::Io, e))?;
    let mut seen = BTreeSet::new();
    for path in listed.split(|b| *b == 0) {
        let folder = Path::new(OsStr::from_bytes(path)).iter().nth(2);
        let Some(other) = folder.and_then(OsStr::to_str).filter(|name| seen.insert(*name)) else {
            continue;
        };
        let Ok(other) = other.parse::<IssueId>() else {
            continue;
        };
        if let Some(id) = new.get(&other.key()) {
            require_same(id, &other)?;
        }
    }
    Ok(())
}

/// Refuses a new issue that has a twin in the log, wherever that lives.
pub fn refuse_in_log<'a>(view: &View, new: impl Iterator<Item = &'a IssueId>) -> Outcome<()> {
    for id in new {
        let known = state::issue_or_tombstone(&*view.table, id).map_err(|e| refuse(Code::Io, e))?;
        if let Some(known) = known {
            require_same(id, &known.id)?;
        }
    }
    Ok(())
}

fn require_same(id: &IssueId, other: &IssueId) -> Outcome<()> {
    if id.as_str() == other.as_str() {
        return Ok(());
    }
    let message = format!("there is an issue {other}, and {id} differs from it only in case");
    let folder = shell_word(&format!(".jit/issues/{id}"));
    Err(Box::new(
        Refusal::new(Code::NotAllowed, message)
            .help(format!("git restore --staged {folder}"))
            .help("give the new issue another id"),
    ))
}
