//! Checks out the submodules of a new worktree.
//!
//! What must hold: a submodule is cloned from the main checkout's copy if its own address cannot be reached. A commit
//! that only that copy has (it was never pushed) is fetched from there. The clone's remote is the submodule's own address
//! in any case.
//!
//! Limitations: works only for submodules that the main checkout has cloned.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use jit_git::run::{Git, GitError};

/// Maximum depth of nested submodules.
const DEEPEST: usize = 8;

/// Checks out the submodules of the worktree at `root`. `kept` is the folder with the main checkout's copies.
pub fn check_out(root: &Path, kept: &Path) -> Result<(), GitError> {
    let update = || {
        Git::at(root)
            // The repository's settings may name a command in place of a checkout.
            .args([
                "submodule",
                "update",
                "--init",
                "--recursive",
                "--checkout",
                "--quiet",
            ])
            .run()
            .map(drop)
    };
    let mut done = update();
    // Nested submodules are known only after the outer one is checked out.
    for _ in 0..DEEPEST {
        if done.is_ok() || !bring(root, kept, DEEPEST) {
            break;
        }
        done = update();
    }
    done
}

/// Fetches missing commits from the copies in `kept`. Returns whether there were any.
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
        // Names and paths must not lead out of their folder.
        let inside = |path: &Path| {
            path.components()
                .all(|part| matches!(part, std::path::Component::Normal(_)))
        };
        let path = Path::new(OsStr::from_bytes(path));
        let (own, copy) = (root.join(path), kept.join(name));
        if !inside(name) || !inside(path) || !copy.is_dir() {
            continue;
        }
        if own.join(".git").symlink_metadata().is_err() {
            brought |= clone(root, name, path, &copy);
        }
        if own.join(".git").symlink_metadata().is_err() {
            continue;
        }
        brought |= fetch(root, path, &copy) || bring(&own, &copy.join("modules"), deep);
    }
    brought
}

/// Clones a submodule from a copy, and gives it its own address as remote. Returns whether that succeeded.
fn clone(root: &Path, name: &Path, path: &Path, copy: &Path) -> bool {
    let mut key = OsString::from("submodule.");
    key.push(name);
    key.push(".url");
    // Its own address is known before another one is used. The user may have configured it.
    let init = Git::at(root)
        .args(["submodule", "--quiet", "init", "--"])
        .arg(path);
    let configured = Git::at(root).args(["config", "--get"]).arg(&key);
    let address = init.run().and_then(|_| configured.line()).ok();
    let cloned = Git::at(root)
        // A name may contain `=`, which an option cannot.
        .env("GIT_CONFIG_COUNT", "2")
        .env("GIT_CONFIG_KEY_0", key)
        .env("GIT_CONFIG_VALUE_0", copy)
        .env("GIT_CONFIG_KEY_1", "protocol.file.allow")
        .env("GIT_CONFIG_VALUE_1", "always")
        .args(["submodule", "update", "--init", "--checkout", "--quiet", "--"])
        .arg(path)
        .run();
    // A commit that no branch of the copy has is fetched later.
    let there = root.join(path).join(".git").symlink_metadata().is_ok();
    let set = |address: String| {
        let own = || Git::at(root.join(path));
        let remote = own().arg("remote").line()?;
        own().args(["remote", "set-url", &remote, &address]).run()
    };
    let is_set = there && address.is_some_and(|address| set(address).is_ok());
    there && (cloned.is_ok() || is_set)
}

/// Fetches the commit to be checked out at `path`, unless it exists. Returns whether it was fetched.
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
        .setting("protocol.version", "2")
        .args(["fetch", "-q", "--no-tags", "--no-recurse-submodules", "--"])
        .arg(copy)
        .arg(commit)
        .run();
    fetched.is_ok()
}
