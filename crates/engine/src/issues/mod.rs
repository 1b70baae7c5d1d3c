//! Issues in files: the shared replica, and their projection into the caller's tree.
//!
//! The log has an issue's fields, sets and comments; the files follow from it. Only long texts are kept in files
//! alone. So they are written and synced before the event that names them.
//!
//! - `<control>/issues/<id>/`: the replica, in the format of [`jit_core::issue_files::format`]. It is written after
//!   each event, under the store's lock, and not synced: after a crash it is rebuilt from the log.
//! - `<control>/issues/<id>/texts/<digest>.md`: every text that the description ever had. Never changed once written.
//!   `<digest>.parts.md` beside it has the digests of the two texts that it was merged from, if it was merged.
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
