//! Lists the worktrees of a repository, including the root of the main one that git does not record.

use std::path::Path;

use jit_git::DiscoverError;
use jit_git::worktrees::{self, WorktreeEntry, is_its_root};

use super::identity;

/// Returns all worktrees of the repository with this common folder, the main one first.
///
/// In a repository made with `--separate-git-dir`, git does not record the root of the main worktree. Then the
/// root is where jit ran last, as its identity says, if the `.git` file there points to this folder. It is `None` if
/// jit never ran in it.
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
