//! Detects that the current folder was a worktree whose git folder is gone (G12): which worktree, and of which
//! repository.
//!
//! What must hold: nothing is guessed. The repository is known from the link that the folder still has.
//!
//! Limitations: a folder that no longer exists cannot be assigned to a worktree. jit removes no folder in which a
//! process has its current folder.

use std::path::{Path, PathBuf};

use crate::units::worktree_state::leads_to;

/// A folder that was a worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedWorktree {
    /// The path of the folder.
    pub folder: PathBuf,
    /// The git folder of its repository.
    pub common: PathBuf,
}

fn is_repository(common: &Path) -> bool {
    common.join("HEAD").exists() && common.join("objects").is_dir()
}

/// Returns the current folder, or one above it, if that was a worktree and no longer is.
pub fn removed_worktree() -> Option<RemovedWorktree> {
    std::env::current_dir().ok()?.ancestors().find_map(forgotten)
}

/// The folder exists, and its git folder is gone: the removal was interrupted in between.
fn forgotten(folder: &Path) -> Option<RemovedWorktree> {
    let git_dir = leads_to(folder).filter(|git_dir| !git_dir.exists())?;
    let worktrees = git_dir.parent().filter(|above| above.ends_with("worktrees"))?;
    let common = worktrees.parent().filter(|common| is_repository(common))?;
    Some(RemovedWorktree {
        folder: folder.to_owned(),
        common: common.to_owned(),
    })
}
