//! Checks who owns a repository, by git's own rule (L2).
//!
//! Git refuses a repository of another user, because its configuration can start programs. jit passes `--git-dir` in
//! many places, and git does not check then, so jit checks by itself.
//!
//! What must hold:
//! - The `.git` file, the git folder, the common folder and the work tree belong to this user. For root they may also
//!   belong to the user that called sudo (SUDO_UID).
//! - Stricter than git: a common folder of another user is refused also where the worktree and its git folder are this
//!   user's own, because its configuration counts there too.
//! - Otherwise `safe.directory` has to allow the repository, in the system's, the user's or the command's
//!   configuration. The repository's own configuration never counts.
//! - If GIT_DIR names the repository, git does not check, and neither does jit. A git folder that jit itself names with
//!   `--git-dir` is checked.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;

use crate::program;

/// The users whose repositories this process works in: its own, and the one that called sudo.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owners {
    user: u32,
    sudo: Option<u32>,
}

impl Owners {
    pub(crate) fn new(sudo_uid: Option<&OsStr>) -> Self {
        let user = rustix::process::geteuid();
        let sudo = sudo_uid.filter(|_| user.is_root());
        Self {
            user: user.as_raw(),
            sudo: sudo.and_then(OsStr::to_str).and_then(|uid| uid.parse().ok()),
        }
    }

    /// Whether the file or folder itself, not the target of a link, belongs to one of them.
    pub(crate) fn own(self, path: &Path) -> bool {
        rustix::fs::lstat(path).is_ok_and(|stat| stat.st_uid == self.user || Some(stat.st_uid) == self.sudo)
    }
}

/// A part of a repository that belongs to another user.
#[derive(Debug)]
pub(crate) struct Foreign {
    /// The path that `safe.directory` has to name.
    pub(crate) repository: PathBuf,
    pub(crate) part: PathBuf,
}

/// Refuses a repository of somebody else, unless `safe.directory` allows it. `work_tree` and `git_file` are checked if
/// there are any. Starts git only if an owner is somebody else.
pub(crate) fn check(
    owners: Owners,
    git_file: Option<&Path>,
    work_tree: Option<&Path>,
    git_dir: &Path,
    common_dir: &Path,
) -> Result<(), Foreign> {
    let shared = Some(common_dir).filter(|common| *common != git_dir);
    let mut all = [git_file, work_tree, Some(git_dir), shared].into_iter().flatten();
    let Some(part) = all.find(|path| !owners.own(path)) else {
        return Ok(());
    };
    let named = work_tree.unwrap_or(git_dir);
    let values = safe_directories();
    // A repository that is allowed allows its linked worktrees, as far as they are this user's own.
    let is_linked = part == common_dir && git_dir != common_dir;
    let around = around(common_dir);
    let main = [Some(common_dir), around].into_iter().flatten();
    if is_safe(named, &values) || (is_linked && main.into_iter().any(|name| is_safe(name, &values))) {
        remember([git_dir, common_dir]);
        return Ok(());
    }
    let repository = if is_linked {
        around.unwrap_or(common_dir)
    } else {
        named
    };
    Err(Foreign {
        repository: repository.to_owned(),
        part: part.to_owned(),
    })
}

/// The main worktree of a common folder in its usual place.
fn around(common_dir: &Path) -> Option<&Path> {
    common_dir.parent().filter(|_| common_dir.ends_with(".git"))
}

/// Git folders of others that `safe.directory` allowed, so that git is not asked again for each command.
static ALLOWED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn remember<const N: usize>(folders: [&Path; N]) {
    if let Ok(mut known) = ALLOWED.lock() {
        known.extend(folders.map(Path::to_owned));
    }
}

/// Refuses a git folder of somebody else that `--git-dir` names: git does not check it then. `safe.directory` may name
/// the git folder, the folder that it shares, or the folder around that.
pub(crate) fn check_named(owners: Owners, git_dir: &Path, common_dir: &Path) -> Result<(), Foreign> {
    let mut all = [git_dir, common_dir].into_iter();
    let Some(part) = all.find(|path| !owners.own(path)) else {
        return Ok(());
    };
    let is_known = |known: &Vec<PathBuf>| known.iter().any(|one| one == git_dir || one == common_dir);
    if ALLOWED.lock().is_ok_and(|known| is_known(&known)) {
        return Ok(());
    }
    let around = around(common_dir);
    let values = safe_directories();
    let names = [Some(git_dir), Some(common_dir), around];
    if names.into_iter().flatten().any(|name| is_safe(name, &values)) {
        remember([git_dir]);
        return Ok(());
    }
    Err(Foreign {
        repository: around.unwrap_or(git_dir).to_owned(),
        part: part.to_owned(),
    })
}

/// The values of `safe.directory` that count, in order.
fn safe_directories() -> Vec<OsString> {
    // From the root folder: no repository is discovered there, and its configuration would not count anyway.
    let found = program::command(Path::new("/"))
        .envs(program::callers_settings())
        .args(["config", "-z", "--show-scope", "--get-all", "safe.directory"])
        .stdin(Stdio::null())
        .output();
    let found = found.map(|output| output.stdout).unwrap_or_default();
    let mut parts = found.split(|byte| *byte == 0);
    let mut values = Vec::new();
    while let (Some(scope), Some(value)) = (parts.next(), parts.next()) {
        if matches!(scope, b"system" | b"global" | b"command") {
            values.push(OsStr::from_bytes(value).to_owned());
        }
    }
    values
}

/// Applies the values as git does: an empty one clears those before it, `*` allows everything, and `<folder>/*` allows
/// everything below the folder.
fn is_safe(repository: &Path, values: &[OsString]) -> bool {
    let since = values.iter().rposition(|value| value.is_empty());
    let counting = values.get(since.map_or(0, |at| at + 1)..).unwrap_or_default();
    counting.iter().any(|value| {
        if value == "*" {
            return true;
        }
        let (folder, below) = match value.as_bytes().strip_suffix(b"/*") {
            Some(b"") => (OsStr::new("/"), true),
            Some(folder) => (OsStr::from_bytes(folder), true),
            None => (value.as_os_str(), false),
        };
        match absolute(folder).map(|path| path.canonicalize()) {
            Some(Ok(folder)) if below => repository != folder && repository.starts_with(&folder),
            Some(Ok(folder)) => repository == folder,
            _ => false,
        }
    })
}

/// The folder that a value names; `~/` is the home folder. A relative path allows nothing.
fn absolute(value: &OsStr) -> Option<PathBuf> {
    let path = match value.as_bytes().strip_prefix(b"~/") {
        Some(below) => PathBuf::from(std::env::var_os("HOME")?).join(OsStr::from_bytes(below)),
        None => PathBuf::from(value),
    };
    path.is_absolute().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn safe(repository: &Path, values: &[&str]) -> bool {
        let values: Vec<OsString> = values.iter().map(OsString::from).collect();
        is_safe(repository, &values)
    }

    #[test]
    fn l2_safe_directories_count_as_in_git() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path().canonicalize().expect("physical");
        let repository = top.join("repository");
        std::fs::create_dir(&repository).expect("a folder");
        let (own, all) = (repository.display().to_string(), format!("{}/*", top.display()));
        assert!(!safe(&repository, &[]));
        assert!(safe(&repository, &[&own]));
        assert!(safe(&repository, &[&format!("{own}/")]));
        assert!(safe(&repository, &["*"]));
        assert!(safe(&repository, &["/*"]));
        assert!(safe(&repository, &[&all]));
        assert!(!safe(&repository, &[&top.display().to_string()]));
        assert!(!safe(&repository, &["repository", "."]));
        // An empty value clears those before it.
        assert!(!safe(&repository, &[&own, ""]));
        assert!(safe(&repository, &["", &own]));
    }
}
