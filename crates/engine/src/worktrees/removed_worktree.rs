//! Whoever stands in a folder that was a worktree (G12): which one, and of which repository.
//!
//! What must hold: nothing is guessed. Where the repository is, is known by the link that the folder still has.
//!
//! Limitations: of a folder that is gone altogether nobody knows whose it was. jit removes none that somebody stands in.

use std::path::{Path, PathBuf};

use crate::units::worktree_state::leads_to;

/// A folder that was a worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// What the folder is, or was, called.
    pub folder: PathBuf,
    /// The git folder of its repository.
    pub common: PathBuf,
}

fn is_repository(common: &Path) -> bool {
    common.join("HEAD").exists() && common.join("objects").is_dir()
}

/// Where this process stands, if that was a worktree and is none any more.
pub fn lost() -> Option<Lost> {
    std::env::current_dir().ok()?.ancestors().find_map(forgotten)
}

/// The folder is there, and git's folder of it is gone: its removal was cut off in between.
fn forgotten(folder: &Path) -> Option<Lost> {
    let git_dir = leads_to(folder).filter(|git_dir| !git_dir.exists())?;
    let worktrees = git_dir.parent().filter(|above| above.ends_with("worktrees"))?;
    let common = worktrees.parent().filter(|common| is_repository(common))?;
    Some(Lost {
        folder: folder.to_owned(),
        common: common.to_owned(),
    })
}
