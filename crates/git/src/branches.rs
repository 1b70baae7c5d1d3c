//! The default branch of a repository: the one that work starts from and returns to.
//!
//! What must hold: the answer does not depend on the branch that is checked out, except as the last resort.

use std::path::Path;

use crate::config::RepoConfig;
use crate::discover::Place;
use crate::refs;
use crate::run::{Git, GitError};

/// The branch that work starts from and returns to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultBranch {
    /// Without `refs/heads/`.
    pub name: String,
    /// The ref to read it from: the local branch, else the remote one, `None` while it has no commit.
    pub refname: Option<String>,
    pub because: Because,
}

/// The reason why a branch is the default one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Because {
    RemoteHead,
    Configured,
    /// `jit init` recorded it, because nothing else named the default branch.
    Noted,
    Usual,
    Current,
}

/// The default branch that `jit init` recorded.
fn noted_default(common: &Path) -> Option<String> {
    let text = crate::files::read(&common.join("config")).ok()?;
    let mut settings = RepoConfig::default();
    settings.read(&text).ok()?;
    settings.default_branch?.into_string().ok()
}

/// The default branch. The first of these that exists:
///
/// 1. the branch that the HEAD of the remote names (of `origin`, or of the only remote);
/// 2. the `configured` one;
/// 3. the one that `jit init` recorded;
/// 4. `main`, then `master`;
/// 5. the branch that is checked out, even without a commit.
///
/// `None` if HEAD is detached and there is no other candidate.
pub fn default_branch(place: &Place, configured: Option<&str>) -> Result<Option<DefaultBranch>, GitError> {
    let Some(git_dir) = &place.git_dir else {
        return Ok(None);
    };
    let common = place.common_dir.as_deref().unwrap_or(git_dir);
    let exists = |name: &str| Ok::<bool, GitError>(refs::commit_of(common, name)?.is_some());
    let symbolic = refs::symbolic_in(common, "refs/remotes")?;
    let mut remote_heads = Vec::new();
    for one in &symbolic {
        let remote = one.name.strip_prefix("refs/remotes/");
        // Git does not list a name that leads nowhere.
        if let Some(remote) = remote.and_then(|name| name.strip_suffix("/HEAD"))
            && exists(&one.name)?
        {
            remote_heads.push(remote);
        }
    }
    let remote = match remote_heads.as_slice() {
        heads if heads.contains(&"origin") => Some("origin"),
        [only] => Some(*only),
        _ => None,
    };
    let found = |name: &str, because: Because| -> Result<DefaultBranch, GitError> {
        let local = format!("refs/heads/{name}");
        let remote = format!("refs/remotes/{}/{name}", remote.unwrap_or("origin"));
        let refname = match (exists(&local)?, exists(&remote)?) {
            (true, _) => Some(local),
            (false, true) => Some(remote),
            (false, false) => None,
        };
        Ok(DefaultBranch {
            name: name.to_owned(),
            refname,
            because,
        })
    };
    if let Some(remote) = remote {
        let head = format!("refs/remotes/{remote}/HEAD");
        let prefix = format!("refs/remotes/{remote}/");
        let name = symbolic
            .iter()
            .find(|one| one.name == head)
            .and_then(|one| one.goal.strip_prefix(&prefix));
        if let Some(name) = name {
            return found(name, Because::RemoteHead).map(Some);
        }
    }
    let noted = place.common_dir.as_deref().and_then(noted_default);
    let candidates = configured
        .map(|name| (name, Because::Configured))
        .into_iter()
        .chain(noted.as_deref().map(|name| (name, Because::Noted)))
        .chain([("main", Because::Usual), ("master", Because::Usual)]);
    for (name, because) in candidates {
        let branch = found(name, because)?;
        if branch.refname.is_some() {
            return Ok(Some(branch));
        }
    }
    let current = Git::in_git_dir(git_dir).symbolic_head()?;
    match current
        .as_deref()
        .and_then(|name| name.strip_prefix("refs/heads/"))
    {
        Some(name) => found(name, Because::Current).map(Some),
        None => Ok(None),
    }
}
