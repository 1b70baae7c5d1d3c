//! Git hooks: leases are checked and recorded when git commits, pushes and checks out.
//!
//! What must hold:
//! - A hook is a short `sh` script that calls `jit hooks run <hook>` and nothing else of ours (C1). If `jit` is
//!   missing, the hook prints that on stderr and git continues.
//! - No hook of the user is lost. An existing hook is kept and called **first**, with the same arguments, input and
//!   environment. If it fails, git gets its exit code and ours does not run. So a formatter has staged its changes
//!   before our check, and a template is written before trailers are added to it.
//! - Uninstalling restores every byte, mode and link. A hook of ours that a user edited belongs to the user and
//!   stays.
//! - One installation serves every worktree (see [`site`] for `core.hooksPath`).
//! - A commit that touches none of our files passes, whatever state `jit` is in. A hook that only informs never fails
//!   git.
//!
//! | hook | our part |
//! |---|---|
//! | pre-commit, pre-merge-commit | C2, in [`pre_commit`]; global files in [`global`]; locked files in [`locked`] |
//! | prepare-commit-msg | adds trailers, in [`trailers`] (C4) |
//! | commit-msg | empties a message that has only our trailers, so that git gives up as it would have |
//! | pre-push | reports commits whose lease has ended, in [`push`] (C3) |
//! | post-checkout, post-merge, post-rewrite | bring issues of the tree into the log |
//! | post-rewrite | after a rebase: which commits stayed as they were, in [`rewritten`] (C4) |
//! | pre-receive | on a server, in [`push`] (C5) |
//!
//! Limitations: a kept hook runs as `<hook>.before-jit`, so a hook that reads its own name sees that. Git runs no
//! such hook for `rebase`, for `cherry-pick` without conflict, or with `--no-verify`. [`mod@verify`] finds commits
//! made that way. All of this is a guard rail, not a security boundary.
mod case_twins;
pub mod divergence;
pub mod global;
pub mod install;
pub mod locked;
pub mod merge_driver;
pub mod pre_commit;
pub mod push;
pub mod rewritten;
pub mod run;
pub mod script;
pub mod site;
pub mod staged;
pub mod trailers;
pub mod verify;

pub use install::install;

/// The hooks that are installed in a repository people work in.
pub const CLIENT: &[&str] = &[
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "pre-push",
    "post-checkout",
    "post-merge",
    "post-rewrite",
];

/// The hooks of a repository that is pushed to.
pub const SERVER: &[&str] = &["pre-receive"];

/// The file in each git directory with the digests of the merge driver's results there.
pub(crate) const MERGED: &str = "jit-merged";
/// The file in each git directory with the digest of the template that a message began with.
pub(crate) const TEMPLATE: &str = "jit-template";
