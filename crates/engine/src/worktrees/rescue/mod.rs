//! Removes a worktree without losing work, and restores the work (H7).
//!
//! What must hold:
//!
//! - Work that a worktree has and its target lacks is in two places before it leaves the first. It is in the trash
//!   byte for byte (the folder itself, renamed). It is also in objects under `refs/jit/rescue/<id>/`, which git's
//!   garbage collection respects.
//! - A folder is renamed, and that is recorded, before anything in it is deleted.
//! - Each step is written as "ensure that". After a crash the same command continues, repeats nothing and loses
//!   nothing.
//! - The main worktree, a link, and a folder that is not the unit's own worktree are never touched.
//! - Whether work is on the target is read from git (ancestry, patches, trees), never from a statement of an agent.
//!
//! Counts as work, and stops a removal without `--force`:
//!
//! - commits that are not on the target;
//! - staged, unstaged and untracked files;
//! - changes that git was told not to see;
//! - ignored files that `rescue.ignored` names;
//! - repositories inside with anything unpushed;
//! - an unfinished rebase, merge, cherry-pick or bisect.
//!
//! Untracked and ignored files do not count if the main worktree has the same file.
//!
//! Kept without asking:
//!
//! - commits that only a reflog knows, and the commits of a squash;
//! - single ignored files, and the files of ignored folders;
//! - bytes that git's filters would not reproduce.
//!
//! Two kinds of ignored folders are an exception: folders with names that tools use (`target/`, `node_modules/`), and
//! folders of more than 256 MiB or 20,000 files. They move into the trash only if the worktree is kept for another
//! reason. Otherwise they are deleted.
//!
//! Stashes belong to the repository, not to a worktree, and are never touched.
//!
//! Format: `<control>/trash/<id>/` has `manifest.json`, `tree/` (the worktree) and `admin/` (its folder in
//! `.git/worktrees`). An entry has these refs, each only if there is something to keep:
//!
//! - `head`, `branch`: commits;
//! - `kept`: a commit whose parents are all the other commits;
//! - `index`, `conflicts`: the staged files; the three sides of a conflict;
//! - `worktree`, `git-dir`: raw bytes;
//! - `entry`: the manifest, and the facts that a git tree cannot store.
//!
//! In raw trees the name `.git` is written `.git%jit`, because git refuses it.
//!
//! Limitations: extended attributes and owners survive in the trash but not in the refs. They do not survive a move to
//! another file system either. Processes that work in the folder are noticed on Linux only. `git push --mirror` pushes
//! the refs too.

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
