//! Lock files that git left behind: a git that was killed does not remove them, and from then on git refuses. And who has the
//! kernel locks of landings.
//!
//! What must hold: each is named with its age, whether a process has it open, and what to do. None is ever removed here: a git
//! that waits for an editor has a lock that it does not keep open, and only a person knows. What a step of ours left is another
//! matter (`landing::half_way`).
//!
//! Limitations: which process has a file open is told on Linux only, and of processes of others only to root.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jit_os::process;

/// A lock file of git's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    pub path: PathBuf,
    /// Not known where the clock was set.
    pub age: Option<Duration>,
    /// Processes that have it open; `None` where that cannot be told.
    pub open_in: Option<Vec<u32>>,
}

/// More is not looked for, nor deeper than names of branches go.
const MOST: usize = 50;
const DEEPEST: usize = 16;

/// The lock files of a repository and its worktrees.
pub fn find(common: &Path) -> Vec<Lock> {
    let mut found = Vec::new();
    let mut folders = vec![common.to_owned()];
    for entry in crate::worktree_identity::list(common).unwrap_or_default() {
        if entry.git_dir != common {
            folders.push(entry.git_dir);
        }
    }
    for folder in folders {
        here(&folder, &mut found);
        for below in ["refs", "logs/refs", "reftable", "rebase-merge"] {
            deep(&folder.join(below), DEEPEST, &mut found);
        }
    }
    // Of the object store, what commands of a user's wait for.
    here(&common.join("objects"), &mut found);
    here(&common.join("objects/info"), &mut found);
    here(&common.join("objects/info/commit-graphs"), &mut found);
    found.sort();
    found.dedup();
    found.truncate(MOST);
    let open = open_files(&found);
    found
        .into_iter()
        // It may have gone while we looked.
        .filter_map(|path| {
            let meta = path.symlink_metadata().ok().filter(fs::Metadata::is_file)?;
            let age = meta.modified().ok().and_then(|time| time.elapsed().ok());
            let open_in = open.as_ref().map(|open| {
                let own = open.iter().filter(|(_, name)| *name == path);
                own.map(|(pid, _)| *pid).collect()
            });
            Some(Lock { path, age, open_in })
        })
        .collect()
}

fn is_lock(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "lock")
}

fn here(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if is_lock(&entry.path()) && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            found.push(entry.path());
        }
    }
}

fn deep(folder: &Path, levels: usize, found: &mut Vec<PathBuf>) {
    here(folder, found);
    if levels == 0 || found.len() > MOST {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            deep(&entry.path(), levels - 1, found);
        }
    }
}

/// Whether a git works in one of these folders, or below: it may have a lock that it does not keep open. Those in the control
/// folder are jit's own, and have no locks of this kind. `None` where that cannot be told.
///
/// The same folder may have another name elsewhere, as in a container: so what counts is which folder it is, not how it is
/// called. Where mounts are others than here, a part of a folder may be there without the rest.
#[cfg(target_os = "linux")]
pub(crate) fn git_works_in(folders: &[PathBuf], control: &Path) -> Option<bool> {
    let wanted: Vec<Inode> = folders.iter().filter_map(|one| inode(one).ok()).collect();
    let control = inode(control).ok();
    let mounts = fs::read_link("/proc/self/ns/mnt").ok()?;
    let mut unclear = false;
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let is_process = process.file_name().to_string_lossy().parse::<u32>().is_ok();
        // The name, in parentheses, and how it is: one that has ended and was not waited for does nothing any more.
        let Some(stat) = is_process
            .then(|| fs::read(process.path().join("stat")).ok())
            .flatten()
        else {
            continue;
        };
        let stat = String::from_utf8_lossy(&stat);
        let Some((name, rest)) = stat.rsplit_once(')') else {
            continue;
        };
        let name = name.split_once('(').map_or("", |(_, name)| name);
        let is_git = name == "git" || name.starts_with("git-");
        if !is_git || rest.starts_with(" Z") || rest.starts_with(" X") {
            continue;
        }
        let own = fs::read_link(process.path().join("ns/mnt"));
        match own.and_then(|own| Ok((own == mounts, above(&process.path().join("cwd"))?))) {
            Ok((_, above)) if above.iter().any(|one| Some(*one) == control) => {}
            Ok((_, above)) if above.iter().any(|one| wanted.contains(one)) => return Some(true),
            Ok((same, above)) => {
                let is_near = |(disk, _): &Inode| wanted.iter().any(|(own, _)| own == disk);
                unclear |= !same && above.first().is_some_and(is_near);
            }
            // It has ended.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(_) => unclear = true,
        }
    }
    (!unclear).then_some(false)
}

/// What a folder is, whatever its name: the disk, and the number there.
#[cfg(target_os = "linux")]
type Inode = (u64, u64);

#[cfg(target_os = "linux")]
fn inode(path: &Path) -> std::io::Result<Inode> {
    use std::os::unix::fs::MetadataExt as _;
    let meta = fs::metadata(path)?;
    Ok((meta.dev(), meta.ino()))
}

/// A folder and those that it is in, as the process sees them whose folder it is.
#[cfg(target_os = "linux")]
fn above(folder: &Path) -> std::io::Result<Vec<Inode>> {
    let mut at = folder.to_owned();
    let mut all = vec![inode(&at)?];
    // Paths are no deeper than that.
    for _ in 0..4096 {
        at.push("..");
        let next = match inode(&at) {
            // It was removed; nothing is left of it to work in.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => break,
            next => next?,
        };
        if all.last() == Some(&next) {
            break;
        }
        all.push(next);
    }
    Ok(all)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn git_works_in(_: &[PathBuf], _: &Path) -> Option<bool> {
    None
}

/// A process that has a kernel lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub pid: u32,
    /// What it is called.
    pub name: String,
    path: PathBuf,
}

impl Holder {
    pub fn is_jit(&self) -> bool {
        self.name == "jit"
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.pid, self.name)
    }
}

/// The kernel locks of landings, with who has each.
pub fn turns(control: &Path) -> Vec<(PathBuf, Vec<Holder>)> {
    let entries = fs::read_dir(control.join("locks"))
        .into_iter()
        .flatten()
        .flatten();
    let paths: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("land-"))
        .map(|entry| entry.path())
        .collect();
    let all = holders(&paths).unwrap_or_default();
    let of = |path: PathBuf| {
        let own = all.iter().filter(|one| one.path == path).cloned().collect();
        (path, own)
    };
    paths.into_iter().map(of).collect()
}

/// Who has a kernel lock on one of these files; who only waits for it has the file open too, and is left out.
pub fn holders(paths: &[PathBuf]) -> Option<Vec<Holder>> {
    let mut all: Vec<Holder> = Vec::new();
    for (pid, path, fd) in open_fds(paths)? {
        let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
        let has = info.lines().any(|line| line.starts_with("lock:"));
        if !has || all.iter().any(|one| one.pid == pid && one.path == path) {
            continue;
        }
        let name = process::name(pid).unwrap_or_default();
        all.push(Holder {
            pid,
            name: name.chars().filter(|c| !c.is_control()).collect(),
            path,
        });
    }
    Some(all)
}

/// Which of these files are open, and in which process. Whose files we may not see counts as not having them open.
pub(crate) fn open_files(wanted: &[PathBuf]) -> Option<Vec<(u32, PathBuf)>> {
    let all = open_fds(wanted)?;
    Some(all.into_iter().map(|(pid, path, _)| (pid, path)).collect())
}

/// The same with the number that the process has it under.
#[cfg(target_os = "linux")]
fn open_fds(wanted: &[PathBuf]) -> Option<Vec<(u32, PathBuf, String)>> {
    if wanted.is_empty() {
        return Some(Vec::new());
    }
    let real: Vec<(PathBuf, &PathBuf)> = wanted
        .iter()
        .filter_map(|path| Some((fs::canonicalize(path).ok()?, path)))
        .collect();
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        for entry in fs::read_dir(process.path().join("fd"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let Ok(open) = fs::read_link(entry.path()) else {
                continue;
            };
            let meant = real.iter().filter(|(real, _)| *real == open);
            let number = || entry.file_name().to_string_lossy().into_owned();
            found.extend(meant.map(|(_, path)| (pid, (*path).clone(), number())));
        }
    }
    Some(found)
}

/// Not run here: `lsof` would tell.
#[cfg(not(target_os = "linux"))]
fn open_fds(_: &[PathBuf]) -> Option<Vec<(u32, PathBuf, String)>> {
    None
}
