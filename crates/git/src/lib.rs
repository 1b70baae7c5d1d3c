//! The git program and its files.
//!
//! Finding the repository, the worktrees and their settings happens on every command, so it reads git's files and starts no
//! process ([`discover`], [`worktrees`], [`config`]). Everything else goes through [`Git`], the only code that starts git.
//!
//! Limits of this crate: it knows nothing of issues, leases or units. It holds no policy, except that jit never waits for a
//! prompt, an editor or a pager of git, and that git starts nothing that the repository's own settings name and the
//! user has not approved.
//!
//! Begin reading with [`Place::discover`], then [`run`].
//!
//! ```
//! use jit_git::{Git, GitEnv, Place};
//!
//! let folder = tempfile::tempdir()?;
//! Git::at(folder.path()).args(["init", "-q", "-b", "main"]).run()?;
//! let place = Place::discover(folder.path(), &GitEnv::default())?;
//! assert!(place.has_git());
//! assert_eq!(place.branch()?.as_deref(), Some("main"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod branches;
pub mod config;
pub mod discover;
pub mod files;
mod git_dir;
mod gitlinks;
pub mod index;
mod judge;
mod local_settings;
pub mod objects;
mod owner;
mod program;
pub mod refs;
pub mod run;
pub mod snapshot;
pub mod version;
pub mod worktrees;

pub use discover::{DiscoverError, GitEnv, Place};
pub use judge::{Approver, needs_approval, set_approver};
pub use local_settings::{LocalProgram, programs_of};
pub use run::{Git, GitError, GitRunner, SystemGit};
pub use worktrees::WorktreeEntry;
