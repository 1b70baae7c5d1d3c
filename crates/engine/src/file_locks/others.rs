//! Finds file locks of other agents that cover a path.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use jit_core::decide::file_locks;
use jit_core::model::actor::Actor;
use jit_core::model::file_lock::FileTarget;
use jit_core::model::glob::Pattern;
use jit_core::model::lease::Lease;
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::scope::LockScope;
use jit_store::{Outcome, View};

/// Returns the active locks of other agents that apply in this worktree.
pub fn of_others(view: &View, actor: &Actor) -> Outcome<Vec<Lease>> {
    let mut locks =
        file_locks::all(&*view.table).map_err(|e| Box::new(Refusal::new(Code::Io, e.to_string())))?;
    locks.retain(|lease| {
        // A worktree lock applies in its worktree, a global lock everywhere.
        let here = lease.worktree_id == actor.worktree_id;
        let counts = |file: &FileTarget| (file.scope == LockScope::Global || here) && !file.outside;
        !lease.expired(&view.now)
            && lease.agent_id != actor.agent_id
            && lease.resource.file().is_some_and(counts)
    });
    Ok(locks)
}

/// Returns the lock that covers this path of the tree.
pub fn covering<'a>(locks: &'a [Lease], path: &Path) -> Option<&'a Lease> {
    locks.iter().find(|lease| {
        let covers = |file: &FileTarget| file.pattern.matches(&as_text(path, &file.pattern));
        lease.resource.file().is_some_and(covers)
    })
}

/// Converts a path into text for matching. Each byte that is not text becomes a character that the pattern does not
/// contain. So folders and wildcards still cover the path, and names of other files do not.
pub(crate) fn as_text<'a>(path: &'a Path, pattern: &Pattern) -> Cow<'a, str> {
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
