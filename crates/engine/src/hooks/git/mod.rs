//! Hooks: where other programs ask jit before they act. Those of agents are in [`agent`]; the rest is about git, where
//! leases meet commits.
//!
//! What must hold:
//! - a hook is a short `sh` script that calls `jit hooks run <hook>` and nothing else of ours (C1). A `jit` that is not
//!   there is said on stderr, and git goes on;
//! - nothing of the user's is lost. A hook that was there is kept and called **first**, with the same arguments, input
//!   and environment; if it fails, git gets its exit code and ours is not asked. So a formatter that stages again has
//!   done so before we look, and a template is written before trailers are added to it;
//! - taking hooks away gives back every byte, mode and link; a hook of ours that somebody edited is theirs and stays;
//! - one installation serves every worktree (see [`site`] for `core.hooksPath`);
//! - a commit that touches nothing of ours passes, whatever state `jit` is in; what only informs never fails git.
//!
//! | hook | what ours does |
//! |---|---|
//! | pre-commit, pre-merge-commit | C2, in [`pre_commit`]; global files in [`global`]; locked files in [`locked`] |
//! | prepare-commit-msg | adds trailers, in [`trailers`] (C4) |
//! | commit-msg | a message that is nothing but our trailers is empty, so that git gives up as it would have |
//! | pre-push | tells of commits whose lease has ended, in [`push`] (C3) |
//! | post-checkout, post-merge, post-rewrite | bring issues of the tree into the log |
//! | pre-receive | on a server, in [`push`] (C5) |
//!
//! Limitations: a hook that is kept runs as `<hook>.before-jit`, so one that looks at its own name sees that. Git runs
//! no such hook for `rebase` and for `cherry-pick` without conflict, nor with
//! `--no-verify`: [`verify`] finds what was committed that way. All of this is a guard rail, not a security boundary.
pub mod divergence;
pub mod global;
pub mod install;
pub mod locked;
pub mod pre_commit;
pub mod push;
pub mod run;
pub mod script;
pub mod site;
pub mod staged;
pub mod trailers;
pub mod verify;

pub use install::{Installed, Removed, State, Survey, install, survey, uninstall};
pub use run::{Call, Said, remember_merged, run};
pub use verify::range as verify;

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

/// The file in each git directory with the digests of what the merge driver wrote there.
pub(crate) const MERGED: &str = "jit-merged";
/// The file in each git directory with the digest of a template that a message began with.
pub(crate) const TEMPLATE: &str = "jit-template";
