//! Issues in files: the shared replica, and their projection into the caller's tree.
//!
//! The log has an issue's fields, sets and comments; the files follow from it. Only long texts are kept in files alone,
//! so these are written, synced, before the event that names them.
//!
//! - `<control>/issues/<id>/`: the replica, in the format of [`jit_core::issue_files::format`]; written after each event, under the
//!   store's lock, and not synced: what a crash leaves behind is made again from the log.
//! - `<control>/issues/<id>/texts/<digest>.md`: every text a description ever was. Never changed once written.
//!   `<digest>.parts.md` beside it: the digests of the two texts that it was merged of, if it was.
//! - `.jit/issues/<id>/` in each worktree: the projection, written in the worktree where a change was made.

pub mod change;
pub mod exchange;
pub mod graph;
pub mod import_files;
pub mod issue_lists;
pub mod issues_without_files;
pub mod lineage;
pub mod restore;
pub mod seen;
pub mod sync;
pub mod text;
pub mod tree;
