//! A step forward in a checkout that was cut off: killed, out of room, stopped by a file that cannot be written (H3).
//!
//! What must hold:
//!
//! - before the step it is noted, and when it is over, either way, the note is gone; so what was cut off is known, and put
//!   back before the next step is tried;
//! - only what is as the step would have made it is put back, and only where nobody had changed it before the step: what
//!   somebody had is noted too, and not touched, though it be the same;
//! - where somebody has moved the branch since, nothing is done.
//!
//! Git writes the files first, then the index, and moves the branch last.
//!
//! Format of a note, `landing/moving-<hash of the branch>`: the checkout, the commit before and the one to be, and the paths
//! that are somebody's own, each ended by a zero byte.
//!
//! Limitations: links, submodules, and names with a line break in them are left as they are.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::trees::{self, NOTHING};
use super::{Repo, failed, io_failed};
use crate::git::Git;
use crate::os::file;
use crate::store::Outcome;

fn path(repo: &Repo, branch: &str) -> PathBuf {
    let name = format!("moving-{:016x}", xxh3_64(branch.as_bytes()));
    repo.control.join("landing").join(name)
}

/// The step is about to be made. Gives what is somebody's own of what it would change.
pub fn note(repo: &Repo, branch: &str, root: &Path, (old, new): (&str, &str)) -> Outcome<HashSet<PathBuf>> {
    let edited = Git::at(root)
        .args(["--no-optional-locks", "diff-files", "-z", "--name-only"])
        .setting("core.fsmonitor", "false")
        .run()
        .map_err(failed)?;
    let mut own: HashSet<PathBuf> = edited
        .split(|b| *b == 0)
        .filter(|path| !path.is_empty())
        .map(|path| PathBuf::from(OsStr::from_bytes(path)))
        .collect();
    for one in changes(root, old, new)? {
        if one.old.is_none() && root.join(&one.path).symlink_metadata().is_ok() {
            own.insert(one.path);
        }
    }
    let path = path(repo, branch);
    let mut text = Vec::new();
    let parts = [root.as_os_str().as_bytes(), old.as_bytes(), new.as_bytes()];
    for part in parts
        .into_iter()
        .chain(own.iter().map(|path| path.as_os_str().as_bytes()))
    {
        text.extend_from_slice(part);
        text.push(0);
    }
    file::make_dir_like_parent(&repo.control.join("landing"))
        .and_then(|()| file::replace_unsynced(&path, &text))
        .map_err(io_failed("write", &path))?;
    Ok(own)
}

/// The step is over.
pub fn forget(repo: &Repo, branch: &str) {
    let _ = fs::remove_file(path(repo, branch));
}

/// Puts back what a step that was cut off has left. Whoever asks has the turn to land.
pub fn settle(repo: &Repo, branch: &str, root: &Path) -> Outcome<()> {
    let Ok(text) = fs::read(path(repo, branch)) else {
        return Ok(());
    };
    let parts: Vec<&[u8]> = text.split(|b| *b == 0).collect();
    let [place, old, new, own @ ..] = parts.as_slice() else {
        forget(repo, branch);
        return Ok(());
    };
    let own = own
        .iter()
        .map(|path| PathBuf::from(OsStr::from_bytes(path)))
        .collect();
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    if *place == root.as_os_str().as_bytes() && repo.tip(branch)?.as_deref() == Some(&*old) {
        // What cannot be put back is in the way of the next step, which says so.
        let _ = put_back(root, &new, &own)?;
    }
    forget(repo, branch);
    Ok(())
}

/// Puts a checkout back to what its HEAD says, where a step to `new` has changed it. Says whether that could be done.
pub fn put_back(root: &Path, new: &str, own: &HashSet<PathBuf>) -> Outcome<bool> {
    let git = || Git::at(root).without_hooks();
    let Some(old) = git().verify("HEAD^{commit}").map_err(failed)? else {
        return Ok(false);
    };
    if !take_back_files(root, (&old, new), own)? {
        return Ok(false);
    }
    // Where the index was written: a merge of two trees, from the new one to the old one. It changes only what is as the
    // new one has it.
    let (code, ..) = git()
        .args(["read-tree", "-m", "-u", new, &old])
        .try_run()
        .map_err(failed)?;
    Ok(code == Some(0))
}

struct Change {
    path: PathBuf,
    /// Mode and object before, if it was there.
    old: Option<(String, String)>,
    /// The object to be, if it was to be there.
    new: Option<String>,
}

/// What the step changes, as far as it is about plain files.
fn changes(root: &Path, old: &str, new: &str) -> Outcome<Vec<Change>> {
    let plain = |mode: &str| matches!(mode, NOTHING | "100644" | "100755");
    let mut found = Vec::new();
    for one in trees::changes(Git::at(root), old, new)? {
        if plain(&one.old.0) && plain(&one.new.0) && !one.path.as_os_str().as_bytes().contains(&b'\n') {
            found.push(Change {
                path: one.path,
                old: (one.old.0 != NOTHING).then_some(one.old),
                new: (one.new.0 != NOTHING).then_some(one.new.1),
            });
        }
    }
    Ok(found)
}

/// Where the index was not written any more: files that are as `new` has them, or missing where it had none, or cut off.
fn take_back_files(root: &Path, (old, new): (&str, &str), own: &HashSet<PathBuf>) -> Outcome<bool> {
    let git = || Git::at(root).without_hooks().setting("core.fsmonitor", "false");
    let mut changes = changes(root, old, new)?;
    changes.retain(|one| !own.contains(&one.path));
    let staged = git().args(["ls-files", "-s", "-z"]).run().map_err(failed)?;
    let mut index: HashMap<&[u8], (String, String)> = HashMap::new();
    for line in staged.split(|b| *b == 0) {
        if let Some(tab) = line.iter().position(|b| *b == b'\t') {
            let about = String::from_utf8_lossy(&line[..tab]).into_owned();
            let words: Vec<&str> = about.split(' ').collect();
            if let [mode, object, "0"] = words.as_slice() {
                index.insert(&line[tab + 1..], ((*mode).to_owned(), (*object).to_owned()));
            }
        }
    }
    let mut there = Vec::new();
    let mut again: Vec<&Change> = Vec::new();
    for one in &changes {
        if index.get(one.path.as_os_str().as_bytes()) != one.old.as_ref() {
            continue;
        }
        match root.join(&one.path).symlink_metadata() {
            Ok(meta) if meta.is_file() && one.new.is_some() => there.push(one),
            Err(_) if one.old.is_some() => again.push(one),
            _ => {}
        }
    }
    let mut names = Vec::new();
    for one in &there {
        names.extend_from_slice(one.path.as_os_str().as_bytes());
        names.push(b'\n');
    }
    let objects = match there.is_empty() {
        true => Vec::new(),
        false => git()
            .args(["hash-object", "--stdin-paths"])
            .stdin(names)
            .run()
            .map_err(failed)?,
    };
    let objects = String::from_utf8_lossy(&objects).into_owned();
    let mut remove = Vec::new();
    for (one, object) in there.iter().zip(objects.lines()) {
        let is_old = one.old.as_ref().is_some_and(|(_, old)| old == object);
        let is_new = one.new.as_deref() == Some(object);
        if is_old || !(is_new || is_cut_off(root, new, &one.path)?) {
            continue;
        }
        match one.old {
            Some(_) => again.push(one),
            None => remove.push(one),
        }
    }
    for one in &remove {
        let whole = root.join(&one.path);
        if fs::remove_file(&whole).is_err() {
            return Ok(false);
        }
        // Folders that it was made with. Those that hold anything stay.
        for above in one.path.ancestors().skip(1).filter(|one| *one != Path::new("")) {
            if fs::remove_dir(root.join(above)).is_err() {
                break;
            }
        }
    }
    if again.is_empty() {
        return Ok(true);
    }
    let mut names = Vec::new();
    for one in &again {
        names.extend_from_slice(one.path.as_os_str().as_bytes());
        names.push(0);
    }
    let (code, ..) = git()
        .args(["checkout-index", "-f", "-u", "-q", "-z", "--stdin"])
        .stdin(names)
        .try_run()
        .map_err(failed)?;
    Ok(code == Some(0))
}

/// Whether a file is the beginning of what it was to be: git was stopped while it wrote it.
fn is_cut_off(root: &Path, new: &str, path: &Path) -> Outcome<bool> {
    let mut revision = std::ffi::OsString::from(new);
    revision.push(":");
    revision.push(path);
    let (code, whole, _) = Git::at(root)
        .without_hooks()
        .args(["cat-file", "--filters"])
        .arg(revision)
        .try_run()
        .map_err(failed)?;
    let begun = fs::read(root.join(path)).map_err(io_failed("read", path))?;
    Ok(code == Some(0) && begun.len() < whole.len() && whole.starts_with(&begun))
}
