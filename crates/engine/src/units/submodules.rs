//! The submodules of a new worktree.
//!
//! What must hold: a commit that only the main checkout's copy of a submodule has (nobody pushed it yet) is brought from
//! there. A worktree has copies of its own, which git makes from the submodule's address alone.
//!
//! Limitations: only where the address can be cloned from, and only what the main checkout has cloned.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use jit_git::run::{Git, GitError};

/// So deep submodules inside of each other are looked at.
const DEEPEST: usize = 8;

/// Checks out the submodules of the worktree at `root`. `kept` is where the main checkout has its copies of them.
pub fn check_out(root: &Path, kept: &Path) -> Result<(), GitError> {
    let update = || {
        Git::at(root)
            .args(["submodule", "update", "--init", "--recursive", "--quiet"])
            .run()
            .map(drop)
    };
    let mut done = update();
    // What is inside of one is known only once that is there.
    for _ in 0..DEEPEST {
        if done.is_ok() || !bring(root, kept, DEEPEST) {
            break;
        }
        done = update();
    }
    done
}

/// Fetches the commits that are missing from the copies in `kept`. Whether there were any.
fn bring(root: &Path, kept: &Path, deep: usize) -> bool {
    let listed = Git::at(root)
        .args(["config", "-z", "-f", ".gitmodules"])
        .args(["--get-regexp", r"^submodule\..*\.path$"])
        .run();
    let Some(deep) = deep.checked_sub(1) else {
        return false;
    };
    let mut brought = false;
    for entry in listed.unwrap_or_default().split(|b| *b == 0) {
        let mut halves = entry.splitn(2, |b| *b == b'\n');
        let (Some(key), Some(path)) = (halves.next(), halves.next()) else {
            continue;
        };
        let name = key
            .strip_prefix(b"submodule.")
            .and_then(|rest| rest.strip_suffix(b".path"));
        let Some(name) = name.map(OsStr::from_bytes).map(Path::new) else {
            continue;
        };
        // Neither a name nor a path leads out of its folder.
        let inside = |path: &Path| {
            path.components()
                .all(|part| matches!(part, std::path::Component::Normal(_)))
        };
        let path = Path::new(OsStr::from_bytes(path));
        let (own, copy) = (root.join(path), kept.join(name));
        let cloned = own.join(".git").symlink_metadata().is_ok();
        if !inside(name) || !inside(path) || !cloned || !copy.is_dir() {
            continue;
        }
        brought |= fetch(root, path, &copy) || bring(&own, &copy.join("modules"), deep);
    }
    brought
}

/// Fetches the commit that is to be checked out at `path`, unless it is there. Whether it was fetched.
fn fetch(root: &Path, path: &Path, copy: &Path) -> bool {
    let staged = Git::at(root)
        .args(["--literal-pathspecs", "ls-files", "-s", "-z", "--"])
        .arg(path)
        .run()
        .unwrap_or_default();
    let staged = String::from_utf8_lossy(&staged).into_owned();
    let Some(commit) = staged
        .strip_prefix("160000 ")
        .and_then(|rest| rest.split(' ').next())
    else {
        return false;
    };
    let own = root.join(path);
    let there = || Git::at(&own).verify(&format!("{commit}^{{commit}}"));
    if !matches!(there(), Ok(None)) {
        return false;
    }
    let fetched = Git::at(&own)
        .without_hooks()
        .setting("protocol.version", "2")
        .args(["fetch", "-q", "--no-tags", "--no-recurse-submodules", "--"])
        .arg(copy)
        .arg(commit)
        .run();
    fetched.is_ok()
}
