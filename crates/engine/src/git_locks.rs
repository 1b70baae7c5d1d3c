//! Finds stale lock files of git, and the holders of the kernel locks of landings. A killed git does not remove its
//! lock file, and git then refuses to run.
//!
//! What must hold:
//! - Each lock file is reported with its age, whether a process has it open, and the next step.
//! - A lock file is removed only if a git that jit started must have left it, and only while no git works in the
//!   repository. A git that waits for an editor has a lock that it does not keep open, so every other
//!   lock file is left to a person. Lock files of an interrupted landing are handled by `checkout_recovery` of the
//!   landing.
//!
//! Limitations: the process that has a file open is found on Linux only; for processes of other users only by root.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jit_os::process;

/// A lock file of git.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    pub path: PathBuf,
    /// Unknown if the clock was set back.
    pub age: Option<Duration>,
    /// Processes that have it open; `None` if that cannot be determined.
    pub open_in: Option<Vec<u32>>,
}

/// The most lock files that are searched for, and the deepest folder, deeper than branch names go.
const MOST: usize = 50;
const DEEPEST: usize = 16;

/// Returns the lock files of a repository and its worktrees.
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
    // In the object store, the locks that a user's commands wait for.
    here(&common.join("objects"), &mut found);
    here(&common.join("objects/info"), &mut found);
    here(&common.join("objects/info/commit-graphs"), &mut found);
    found.sort();
    found.dedup();
    found.truncate(MOST);
    let open = open_files(&found);
    found
        .into_iter()
        // The file may have disappeared meanwhile.
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

/// The clock of file times may be behind the system clock by that much.
const CLOCK_STEP: Duration = Duration::from_millis(100);

/// Removes the lock files of a git that was killed while this process waited for it.
pub(crate) fn remove_after_kill(common: &Path) {
    if let Some(since) = jit_git::run::killed_since() {
        remove_left_over(common, since, |_| true);
    }
}

/// Removes those of the wanted lock files that appeared since then, if no git works in the repository. Waits a moment
/// for processes that a killed git started.
pub(crate) fn remove_left_over(common: &Path, since: SystemTime, wanted: impl Fn(&Path) -> bool) {
    let since = since.checked_sub(CLOCK_STEP).unwrap_or(since);
    for _ in 0..50 {
        let mut left = find(common);
        left.retain(|lock| {
            let modified = lock.path.symlink_metadata().and_then(|meta| meta.modified());
            modified.is_ok_and(|time| time >= since) && wanted(&lock.path)
        });
        if left.is_empty() {
            return;
        }
        if git_works_here(common) == Some(false) {
            for lock in left.iter().filter(|lock| lock.open_in == Some(Vec::new())) {
                let _ = fs::remove_file(&lock.path);
            }
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
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

/// Returns whether a git runs in the repository or in one of its worktrees. `None` if it cannot be determined.
pub(crate) fn git_works_here(common: &Path) -> Option<bool> {
    let trees = crate::worktree_identity::list(common).unwrap_or_default();
    let mut folders: Vec<_> = trees.into_iter().filter_map(|one| one.root).collect();
    folders.push(common.to_owned());
    git_works_in(&folders, &common.join("jit"))
}

/// Returns whether a git runs in or below one of these folders: it may have a lock that it does not keep open.
/// Processes in the control folder are jit's own and have no such locks. `None` if it cannot be determined.
///
/// The same folder may have another name elsewhere, as in a container. So folders are compared by identity, not by
/// name. With other mounts than ours, a part of a folder may be visible without the rest.
#[cfg(target_os = "linux")]
pub(crate) fn git_works_in(folders: &[PathBuf], control: &Path) -> Option<bool> {
    let wanted: Vec<Inode> = folders.iter().filter_map(|one| inode(one).ok()).collect();
    let control = inode(control).ok();
    let mounts = fs::read_link("/proc/self/ns/mnt").ok()?;
    let mut unclear = false;
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let is_process = process.file_name().to_string_lossy().parse::<u32>().is_ok();
        // The name, in parentheses, and the state: a process that has ended but was not waited for does nothing.
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
            // The process has ended.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(_) => unclear = true,
        }
    }
    (!unclear).then_some(false)
}

/// The identity of a folder, whatever its name: the device, and the inode number there.
#[cfg(target_os = "linux")]
type Inode = (u64, u64);

#[cfg(target_os = "linux")]
fn inode(path: &Path) -> std::io::Result<Inode> {
    use std::os::unix::fs::MetadataExt as _;
    let meta = fs::metadata(path)?;
    Ok((meta.dev(), meta.ino()))
}

/// Returns a folder and its parents, as seen by the process that works in it.
#[cfg(target_os = "linux")]
fn above(folder: &Path) -> std::io::Result<Vec<Inode>> {
    let mut at = folder.to_owned();
    let mut all = vec![inode(&at)?];
    // Paths are not deeper than that.
    for _ in 0..4096 {
        at.push("..");
        let next = match inode(&at) {
            // The folder was removed: no git can work in it.
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

/// A process that holds a kernel lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub pid: u32,
    /// The name of the process.
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

/// Returns the kernel locks of landings, with the holders of each.
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

/// Returns the processes that hold a kernel lock on one of these files. A process that only waits has the file open
/// too, and is left out.
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

/// Returns which of these files are open, and in which process. A process whose files we may not see counts as not
/// having them open.
pub(crate) fn open_files(wanted: &[PathBuf]) -> Option<Vec<(u32, PathBuf)>> {
    let all = open_fds(wanted)?;
    Some(all.into_iter().map(|(pid, path, _)| (pid, path)).collect())
}

/// Returns the same with the file descriptor number.
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

/// Not run here: `lsof` would show it.
#[cfg(not(target_os = "linux"))]
fn open_fds(_: &[PathBuf]) -> Option<Vec<(u32, PathBuf, String)>> {
    None
}
