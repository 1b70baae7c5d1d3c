//! The worktrees of a repository, with the one root that git does not record.

use std::path::Path;

use jit_git::DiscoverError;
use jit_git::worktrees::{self, WorktreeEntry, is_its_root};

use super::identity;

/// All worktrees of the repository with this common folder, the main one first.
///
/// In a repository made with `--separate-git-dir` the main work tree is where jit ran last, as its identity says, if the `.git`
/// there leads here. Its root is `None` if jit never ran in it.
pub fn list(common_dir: &Path) -> Result<Vec<WorktreeEntry>, DiscoverError> {
    let mut all = worktrees::list(common_dir)?;
    if let Some(main) = all.first_mut()
        && !main.is_bare
        && main.root.is_none()
    {
        main.root = identity::peek(common_dir)
            .map(|identity| identity.root)
            .filter(|root| is_its_root(root, common_dir));
    }
    Ok(all)
}
