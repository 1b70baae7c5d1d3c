//! Removing a worktree so that no work can be lost with it, and getting the work back (H7).
//!
//! What must hold:
//!
//! - whatever a worktree holds and its target does not is in two places before it is gone from the first: byte for byte
//!   in the trash (the folder itself, renamed), and in objects under `refs/jit/rescue/<id>/`, which git's collection of
//!   garbage respects;
//! - a folder is renamed, and that is written down, before anything in it is deleted;
//! - each step is "make sure that": after a crash anywhere the same command goes on, does nothing twice and loses nothing;
//! - the main worktree, a link, and a folder that is not the unit's own worktree are never touched;
//! - whether work is on the target is read from git (ancestry, patches, trees), never from what somebody said.
//!
//! What counts as work, and stops a removal without `--force`: commits that are not on the target, staged, unstaged and
//! untracked files, changes that git was told not to see, ignored files that `rescue.ignored` names (untracked and ignored
//! ones not where the main worktree has the same), repositories inside with anything unpushed, an unfinished rebase, merge, cherry-pick or bisect.
//! What is kept without asking: commits that only a reflog knows, the commits of a squash, single ignored files, bytes
//! that git's filters would not give back, the files of ignored folders. But folders by whose names tools make them
//! (`target/`, `node_modules/`), and ignored folders of more than 256 MiB or 20,000 files, go along into the trash when the
//! worktree is kept for another reason, and are gone otherwise.
//! Stashes belong to the repository, not to a worktree, and are never touched.
//!
//! Format: `<control>/trash/<id>/` has `manifest.json`, `tree/` (the worktree) and `admin/` (its folder in
//! `.git/worktrees`). The refs of an entry, each only where there is something: `head`, `branch` (commits), `kept` (a
//! commit whose parents are all the others), `index` and `conflicts` (what was staged; three sides of a conflict),
//! `worktree` and `git-dir` (raw bytes), `entry` (the manifest, and what a git tree cannot say). In raw trees the name
//! `.git` is written `.git%jit`, because git refuses it.
//!
//! Limitations: extended attributes and owners survive in the trash but not in the refs, nor a move to another file
//! system. Processes that work in the folder are noticed on Linux only. `git push --mirror` takes the refs along.

pub mod evidence;
pub mod raw;
pub mod restore;
pub mod save;
pub mod site;
pub mod trash;
pub mod walk;

pub use evidence::Evidence;
pub use site::Site;
pub use trash::Manifest;

/// The folder of the trash in the control plane.
pub const TRASH: &str = "trash";
