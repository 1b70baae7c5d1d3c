//! Recovers a checkout in which a fast-forward was interrupted: git was killed, the disk was full, or a file was not
//! writable (H3).
//!
//! What must hold:
//!
//! - The fast-forward is noted before it starts, and before any file is moved aside for it. The note is deleted when
//!   it ends, with success or not. So an interrupted fast-forward is known, and it is undone before the next one is
//!   tried.
//! - A path is put back only if it is as the fast-forward would have made it. In addition no user may have changed it
//!   before, in the file or in the index. Paths that were changed before are noted too. They are not touched, even if
//!   their content is the same.
//! - A file that a user created since, where the fast-forward had removed one, stays. This includes ignored files.
//! - Files that were moved aside come back.
//! - If the branch or the checked-out commit has moved since, nothing else is done.
//! - A lock file that our own git left, killed during the fast-forward, is removed. It counts as ours if it is no
//!   older than the note, no process has it open, and no git process works in that checkout. The last condition is
//!   needed because a commit that waits for an editor has closed its lock. If processes cannot be listed, the lock
//!   file stays.
//!
//! Git writes the files first, then the index, and moves the branch last.
//!
//! Format of a note, `landing/moving-<hash of the branch>`: the checkout, the old commit and the new commit; the paths
//! with changes of a user; an empty one; and in pairs the place of a file and the place where it was moved aside. Each
//! field ends with a zero byte.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use jit_git::Git;
use jit_git::snapshot::Folder;
use jit_os::file;
use jit_store::Outcome;
use xxhash_rust::xxh3::xxh3_64;

use super::trees::{self, NOTHING};
use super::{Repo, obstacles};
use crate::git_locks::{git_works_in, open_files};
use crate::landing::land::Refreshed;
use crate::refusals::{failed, io_failed};

const LINK: &str = "120000";
const SUBMODULE: &str = "160000";
/// A younger lock file may belong to a program that is about to exit.
const LEFT_AFTER: Duration = Duration::from_secs(1);

fn path(control: &Path, branch: &str) -> PathBuf {
    let name = format!("moving-{:016x}", xxh3_64(branch.as_bytes()));
    control.join("landing").join(name)
}

/// Returns whether a fast-forward of this branch is in progress or was interrupted.
pub fn is_noted(control: &Path, branch: &str) -> bool {
    path(control, branch).exists()
}

/// The record of one fast-forward.
#[derive(Debug)]
pub struct Note {
    root: PathBuf,
    old: String,
    new: String,
    /// The paths that the fast-forward would change and that have changes of a user.
    own: HashSet<PathBuf>,
    /// The place of a file, and where it was moved aside, relative to the checkout.
    aside: Vec<(PathBuf, PathBuf)>,
}

impl Note {
    fn bytes(&self) -> Vec<u8> {
        let mut text = Vec::new();
        let mut add = |part: &[u8]| {
            text.extend_from_slice(part);
            text.push(0);
        };
        add(self.root.as_os_str().as_bytes());
        add(self.old.as_bytes());
        add(self.new.as_bytes());
        for one in &self.own {
            add(one.as_os_str().as_bytes());
        }
        add(b"");
        for (place, there) in &self.aside {
            add(place.as_os_str().as_bytes());
            add(there.as_os_str().as_bytes());
        }
        text
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let path = |part: &[u8]| PathBuf::from(OsStr::from_bytes(part));
        let mut parts = text.split(|b| *b == 0);
        let root = path(parts.next()?);
        let commit = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
        let (old, new) = (commit(parts.next()?), commit(parts.next()?));
        let own = parts.by_ref().take_while(|part| !part.is_empty());
        let own = own.map(path).collect();
        let mut aside = Vec::new();
        while let (Some(place), Some(there)) = (parts.next(), parts.next()) {
            aside.push((path(place), path(there)));
        }
        Some(Self {
            root,
            old,
            new,
            own,
            aside,
        })
    }
}

/// Notes a fast-forward before it starts, with the files to be moved aside for it.
pub fn note(
    repo: &Repo,
    branch: &str,
    root: &Path,
    (old, new): (&str, &str),
    aside: Vec<(PathBuf, PathBuf)>,
) -> Outcome<Note> {
    let git_dir = obstacles::git_dir(root)?;
    // A file with only a new modification time has no changes of a user.
    let index = Refreshed::of(repo, root, &git_dir)?;
    let names = |words: &[&str]| index.git(root).args(words).run().map_err(failed);
    let edited = names(&["diff-files", "-z", "--name-only"])?;
    let staged = names(&["diff-index", "--cached", "-z", "--name-only", old, "--"])?;
    let mut own: HashSet<PathBuf> = [edited, staged]
        .iter()
        .flat_map(|listed| listed.split(|b| *b == 0))
        .filter(|path| !path.is_empty())
        .map(|path| PathBuf::from(OsStr::from_bytes(path)))
        .collect();
    for one in changes(root, old, new)? {
        if one.old.is_none() && root.join(&one.path).symlink_metadata().is_ok() {
            own.insert(one.path);
        }
    }
    for (place, _) in &aside {
        own.remove(place);
    }
    let note = Note {
        root: root.to_owned(),
        old: old.to_owned(),
        new: new.to_owned(),
        own,
        aside,
    };
    let path = path(&repo.control, branch);
    file::make_dir_like_parent(&repo.control.join("landing"))
        .and_then(|()| file::replace_unsynced(&path, &note.bytes()))
        .map_err(io_failed("write", &path))?;
    Ok(note)
}

/// Deletes the note: the fast-forward has ended.
pub fn forget(repo: &Repo, branch: &str) {
    let _ = fs::remove_file(path(&repo.control, branch));
}

/// The largest note that is read.
const LARGEST_NOTE: u64 = 1 << 30;

/// Undoes an interrupted fast-forward. The caller holds the landing lock.
pub fn settle(repo: &Repo, branch: &str) -> Outcome<()> {
    let path = path(&repo.control, branch);
    let Ok(Some(text)) = jit_os::file::read_real(&path, LARGEST_NOTE) else {
        return Ok(());
    };
    let done = match Note::parse(&text) {
        Some(note) if note.root.is_dir() => {
            // Git releases the lock on HEAD when the branch has moved.
            let has_moved = repo.tip(branch)?.as_deref() == Some(&note.new);
            let is_ours = has_moved || is_as_before(repo, branch, &note)?;
            if is_ours && let Ok(since) = fs::metadata(&path).and_then(|meta| meta.modified()) {
                for lock in obstacles::locks(repo, branch, &note.root) {
                    take_lock_away(repo, &note.root, &lock, since);
                }
            }
            // While a lock file remains, the note is kept: it dates the fast-forward, so that a later process can
            // remove the lock file.
            let is_free = !is_ours || obstacles::locks(repo, branch, &note.root).is_empty();
            is_free && put_back(repo, branch, &note)?
        }
        _ => true,
    };
    // If the checkout cannot be put back now, the next fast-forward fails and reports it.
    if done {
        forget(repo, branch);
    }
    Ok(())
}

/// Returns whether the branch and the checked-out commit are as they were before the fast-forward.
fn is_as_before(repo: &Repo, branch: &str, note: &Note) -> Outcome<bool> {
    // The user may have switched to another branch while git was stopped. Only the commit counts.
    let head = repo.git_at(&note.root).verify("HEAD^{commit}").map_err(failed)?;
    Ok(head.as_deref() == Some(&note.old) && repo.tip(branch)?.as_deref() == Some(&note.old))
}

/// Removes a lock file that is as old as the fast-forward and that no process uses. The caller holds the landing lock,
/// so none of our own git processes is alive.
fn take_lock_away(repo: &Repo, root: &Path, lock: &Path, since: SystemTime) {
    let is_closed = |path: &Path| open_files(&[path.to_owned()]).is_some_and(|open| open.is_empty());
    let mut folders = vec![root.to_owned(), lock.with_file_name("")];
    if lock.starts_with(repo.common.join("refs")) {
        // A git process in any worktree may have created it, and does not keep it open.
        let all = crate::worktree_identity::list(&repo.common).unwrap_or_default();
        folders.extend(all.into_iter().filter_map(|entry| entry.root));
        folders.push(repo.common.clone());
    }
    let end = Instant::now() + 2 * LEFT_AFTER;
    loop {
        let Ok(meta) = lock.symlink_metadata() else { return };
        let Some(made) = meta
            .modified()
            .ok()
            .filter(|made| meta.is_file() && *made >= since)
        else {
            return;
        };
        let is_left = made.elapsed().is_ok_and(|age| age >= LEFT_AFTER)
            && is_closed(lock)
            && git_works_in(&folders, &repo.control) == Some(false);
        if is_left {
            break;
        }
        if Instant::now() > end {
            return;
        }
        std::thread::sleep(LEFT_AFTER / 10);
    }
    let Ok(folder) = Folder::make(repo.scratch()) else {
        return;
    };
    let aside = folder.path.join("lock");
    if fs::rename(lock, &aside).is_ok() && !is_closed(&aside) {
        // Another process opened it in between: the lock file is restored. If a new lock file has that name by now, it
        // stays.
        let _ = fs::hard_link(&aside, lock);
    }
}

/// Puts a checkout back to its state before a fast-forward. Returns whether that succeeded.
pub fn put_back(repo: &Repo, branch: &str, note: &Note) -> Outcome<bool> {
    let root = &note.root;
    let mut as_before = HashSet::new();
    if is_as_before(repo, branch, note)? {
        if obstacles::lock(root).is_some() {
            return Ok(false);
        }
        match take_back(note)? {
            Some(paths) => as_before = paths,
            None => return Ok(false),
        }
    }
    for (place, there) in &note.aside {
        let whole = root.join(place);
        if as_before.contains(place) || whole.symlink_metadata().is_err() {
            let _ = fs::rename(root.join(there), whole);
        }
    }
    Ok(true)
}

/// Mode and object.
type Entry = (String, String);

struct Change {
    path: PathBuf,
    /// The entry before, if there was one.
    old: Option<Entry>,
    /// The entry after, if there is one.
    new: Option<Entry>,
}

fn changes(root: &Path, old: &str, new: &str) -> Outcome<Vec<Change>> {
    let there = |entry: Entry| (entry.0 != NOTHING).then_some(entry);
    let all = trees::changes(Git::at(root), old, new)?;
    let all = all.into_iter().map(|one| Change {
        path: one.path,
        old: there(one.old),
        new: there(one.new),
    });
    Ok(all.collect())
}

/// The index entry of a path.
#[derive(Debug, PartialEq, Eq)]
enum Staged {
    As(Entry),
    /// The path has a conflict.
    Torn,
}

/// Reads the index, and the paths that are not to be in the checkout (`skip-worktree`).
fn index(root: &Path) -> Outcome<(HashMap<PathBuf, Staged>, HashSet<PathBuf>)> {
    let listed = Git::at(root)
        .args(["ls-files", "-s", "-v", "-z"])
        .run()
        .map_err(failed)?;
    let (mut index, mut hidden) = (HashMap::new(), HashSet::new());
    for line in listed.split(|b| *b == 0) {
        let Some(tab) = line.iter().position(|b| *b == b'\t') else {
            continue;
        };
        let about = String::from_utf8_lossy(&line[..tab]).into_owned();
        let path = PathBuf::from(OsStr::from_bytes(&line[tab + 1..]));
        let words: Vec<&str> = about.split(' ').collect();
        let [tag, mode, object, stage] = words.as_slice() else {
            continue;
        };
        if tag.eq_ignore_ascii_case("s") {
            hidden.insert(path.clone());
        }
        let entry = match *stage {
            "0" => Staged::As(((*mode).to_owned(), (*object).to_owned())),
            _ => Staged::Torn,
        };
        index.insert(path, entry);
    }
    Ok((index, hidden))
}

/// The object ids of these files, in the same order.
fn objects(root: &Path, paths: &[&Path]) -> Outcome<Vec<String>> {
    let git = || Git::at(root).arg("hash-object");
    let breaks = |path: &&Path| path.as_os_str().as_bytes().contains(&b'\n');
    if paths.iter().any(breaks) {
        let one = |path: &&Path| git().arg("--").arg(path).line().map_err(failed);
        return paths.iter().map(one).collect();
    }
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for path in paths {
        names.extend_from_slice(path.as_os_str().as_bytes());
        names.push(b'\n');
    }
    let out = git().arg("--stdin-paths").stdin(names).run().map_err(failed)?;
    Ok(String::from_utf8_lossy(&out).lines().map(str::to_owned).collect())
}

/// The state of a path in the checkout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    /// As it was before the fast-forward.
    Old,
    /// As the fast-forward makes it, or partly written.
    New,
    /// Content of a user.
    Theirs,
    Nothing,
}

/// Returns the state of each of these paths in the checkout.
fn stands(note: &Note, changes: &[Change]) -> Outcome<Vec<Stands>> {
    let root = &note.root;
    let mut found = vec![Stands::Theirs; changes.len()];
    let mut files: Vec<(usize, u32)> = Vec::new();
    for (n, one) in changes.iter().enumerate() {
        match root.join(&one.path).symlink_metadata() {
            Ok(meta) if meta.is_file() => files.push((n, meta.permissions().mode())),
            Ok(meta) if meta.is_symlink() => {
                let to = fs::read_link(root.join(&one.path)).unwrap_or_default();
                let is = |entry: &Option<Entry>| -> Outcome<bool> {
                    let Some((LINK, object)) = entry.as_ref().map(|(mode, object)| (mode.as_str(), object))
                    else {
                        return Ok(false);
                    };
                    let blob = Git::at(root).args(["cat-file", "blob", object]).run();
                    Ok(blob.map_err(failed)? == to.as_os_str().as_bytes())
                };
                if is(&one.old)? {
                    found[n] = Stands::Old;
                } else if is(&one.new)? {
                    found[n] = Stands::New;
                }
            }
            Ok(_) => {}
            Err(_) => found[n] = Stands::Nothing,
        }
    }
    let paths: Vec<&Path> = files.iter().map(|(n, _)| changes[*n].path.as_path()).collect();
    for ((n, mode), object) in files.iter().zip(objects(root, &paths)?) {
        let one = &changes[*n];
        let runs = if mode & 0o100 == 0 { "100644" } else { "100755" };
        // If the fast-forward does not change the mode, it is not compared: not every file system stores it.
        let modes = [&one.old, &one.new].map(|entry| entry.as_ref().map(|(mode, _)| mode.as_str()));
        let is = |entry: &Option<Entry>| {
            entry.as_ref().is_some_and(|(mode, is)| {
                *is == object && mode.starts_with("100") && (modes[0] == modes[1] || mode == runs)
            })
        };
        if is(&one.old) {
            found[*n] = Stands::Old;
        } else if is(&one.new) || is_cut_off(root, &note.new, one)? {
            found[*n] = Stands::New;
        }
    }
    Ok(found)
}

/// Undoes the changes of the files, and of the index if it was written. Returns the paths that are as they were
/// before; `None` if git failed.
fn take_back(note: &Note) -> Outcome<Option<HashSet<PathBuf>>> {
    let root = &note.root;
    let git = || Git::at(root);
    let mut changes = changes(root, &note.old, &note.new)?;
    changes.retain(|one| !note.own.contains(&one.path));
    let (index, hidden) = index(root)?;
    let is_staged = |path: &Path, entry: &Option<Entry>| match (index.get(path), entry) {
        (Some(Staged::As(is)), Some(entry)) => is == entry,
        (None, None) => true,
        _ => false,
    };
    changes.retain(|one| is_staged(&one.path, &one.old) || is_staged(&one.path, &one.new));
    let stands = stands(note, &changes)?;
    let mut as_before = HashSet::new();
    // Entries of the index; removed ones first.
    let (mut gone, mut back) = (Vec::new(), Vec::new());
    let (mut write, mut hide): (Vec<&Path>, Vec<&Path>) = (Vec::new(), Vec::new());
    for (one, stands) in changes.iter().zip(&stands) {
        if one.old.is_none() && *stands == Stands::New && !take_away(root, &one.path) {
            return Ok(None);
        }
    }
    for (one, stands) in changes.iter().zip(&stands) {
        let was_written = !is_staged(&one.path, &one.old);
        let line = |entry: Option<&Entry>| {
            let (mode, object) = match entry {
                Some((mode, object)) => (mode.as_str(), object.clone()),
                None => ("0", "0".repeat(note.old.len())),
            };
            let mut line = format!("{mode} {object} 0\t").into_bytes();
            line.extend_from_slice(one.path.as_os_str().as_bytes());
            line.push(0);
            line
        };
        let Some(old) = &one.old else {
            // A file that the fast-forward added is removed by now, unless a user changed it.
            if was_written && *stands != Stands::Theirs {
                gone.extend(line(None));
            }
            continue;
        };
        if old.0 == SUBMODULE || hidden.contains(&one.path) {
            if was_written {
                back.extend(line(Some(old)));
            }
            if hidden.contains(&one.path) {
                hide.push(&one.path);
            }
            continue;
        }
        let is_free = || {
            let above = one.path.ancestors().skip(1).filter(|one| *one != Path::new(""));
            let is_folder = |one: &Path| match root.join(one).symlink_metadata() {
                Ok(meta) => meta.is_dir(),
                Err(error) => error.kind() == std::io::ErrorKind::NotFound,
            };
            let mut above = above;
            root.join(&one.path).symlink_metadata().is_err() && above.all(is_folder)
        };
        match stands {
            Stands::Old => {}
            Stands::New => write.push(&one.path),
            Stands::Nothing | Stands::Theirs if is_free() => write.push(&one.path),
            Stands::Nothing | Stands::Theirs => continue,
        }
        as_before.insert(one.path.clone());
        if was_written {
            back.extend(line(Some(old)));
        }
    }
    gone.append(&mut back);
    let ends = |paths: &[&Path]| -> Vec<u8> {
        let ended = paths.iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\0"]);
        ended.flatten().copied().collect()
    };
    let steps: [(&[&str], Vec<u8>); 3] = [
        (&["update-index", "-z", "--index-info"], gone),
        (&["update-index", "--skip-worktree", "-z", "--stdin"], ends(&hide)),
        (
            &["checkout-index", "-f", "-u", "-q", "-z", "--stdin"],
            ends(&write),
        ),
    ];
    for (words, input) in steps {
        if input.is_empty() {
            continue;
        }
        let (code, ..) = git().args(words).stdin(input).try_run().map_err(failed)?;
        if code != Some(0) {
            return Ok(None);
        }
    }
    Ok(Some(as_before))
}

/// Removes a file, with the folders that were made for it. Folders that are not empty stay.
fn take_away(root: &Path, path: &Path) -> bool {
    if fs::remove_file(root.join(path)).is_err() {
        return false;
    }
    for above in path.ancestors().skip(1).filter(|one| *one != Path::new("")) {
        if fs::remove_dir(root.join(above)).is_err() {
            break;
        }
    }
    true
}

/// Returns whether a file is the beginning of its new content: git was stopped while it wrote the file.
fn is_cut_off(root: &Path, new: &str, change: &Change) -> Outcome<bool> {
    if !change
        .new
        .as_ref()
        .is_some_and(|(mode, _)| mode.starts_with("100"))
    {
        return Ok(false);
    }
    let path = &change.path;
    let mut revision = std::ffi::OsString::from(new);
    revision.push(":");
    revision.push(path);
    let (code, whole, _) = Git::at(root)
        .args(["cat-file", "--filters"])
        .arg(revision)
        .try_run()
        .map_err(failed)?;
    let path = root.join(path);
    let begun = fs::read(&path).map_err(io_failed("read", &path))?;
    Ok(code == Some(0) && begun.len() < whole.len() && whole.starts_with(&begun))
}
