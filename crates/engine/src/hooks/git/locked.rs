//! Files that somebody else has locked, globally or in this worktree, are not committed (C2).

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use jit_core::file_lock::{self, FileTarget};
use jit_core::lease::{Actor, Lease};
use jit_core::pattern::Pattern;
use jit_core::policy::Enforce;
use jit_core::refusal::{Code, Details, Refusal, left};
use jit_core::scope::Scope;
use jit_store::{Outcome, View};

use super::staged::Staged;
use crate::context::Context;

/// Refuses a commit of paths that somebody else has locked, or says so where the settings ask for no
/// more. Where nobody holds such a lock, no path is looked at.
pub fn refuse_locked_paths(cx: &Context, staged: &[Staged]) -> Outcome<Vec<String>> {
    let enforce = cx.config.enforce_leases();
    if enforce == Enforce::Off {
        return Ok(Vec::new());
    }
    let view = match crate::context::view(cx) {
        Ok(view) => view,
        // Without a log nobody holds anything.
        Err(refusal) if refusal.code == Code::NotInitialized => return Ok(Vec::new()),
        Err(refusal) => return Err(refusal),
    };
    let locks = of_others(&view, &cx.actor)?;
    if locks.is_empty() {
        return Ok(Vec::new());
    }
    for one in staged {
        let Some(lease) = covering(&locks, &one.path) else {
            continue;
        };
        let message = format!(
            "{} is locked by {} for another {}: it is not to be committed now",
            one.path.display(),
            lease.agent_id,
            left(lease.remaining_ms(&view.now)),
        );
        if enforce == Enforce::Warn {
            return Ok(vec![message]);
        }
        return Err(Box::new(
            Refusal::new(Code::NotHolder, message)
                .help("jit lock list")
                .help(format!(
                    "git restore --staged -- {}",
                    jit_os::shell::shell_word(&one.path.to_string_lossy())
                ))
                .details(Details::Locks(vec![lease.clone()])),
        ));
    }
    Ok(Vec::new())
}

/// The locks of others that count where this one works.
pub fn of_others(view: &View, actor: &Actor) -> Outcome<Vec<Lease>> {
    let mut locks =
        file_lock::all(&*view.table).map_err(|e| Box::new(Refusal::new(Code::Io, e.to_string())))?;
    locks.retain(|lease| {
        // One in this worktree counts here, and a global one everywhere.
        let here = lease.worktree_id == actor.worktree_id;
        let counts = |file: &FileTarget| (file.scope == Scope::Global || here) && !file.outside;
        !lease.expired(&view.now)
            && lease.agent_id != actor.agent_id
            && lease.resource.file().is_some_and(counts)
    });
    Ok(locks)
}

/// The lock that covers this path of the tree.
pub fn covering<'a>(locks: &'a [Lease], path: &Path) -> Option<&'a Lease> {
    locks.iter().find(|lease| {
        let covers = |file: &FileTarget| file.pattern.matches(&as_text(path, &file.pattern));
        lease.resource.file().is_some_and(covers)
    })
}

/// A path for a pattern to look at. Each byte that is not text becomes a character that the pattern does not name: folders
/// and stars still cover it, and the name of no other file does.
fn as_text<'a>(path: &'a Path, pattern: &Pattern) -> Cow<'a, str> {
    if let Some(text) = path.to_str() {
        return Cow::Borrowed(text);
    }
    let unnamed = ('\u{f0000}'..='\u{ffffd}').find(|c| !pattern.as_str().contains(*c));
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().filter_map(|_| unnamed));
    }
    Cow::Owned(text)
}
