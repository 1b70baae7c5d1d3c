//! Finds worktrees that git began to make and did not finish, and removes what such a git left.
//!
//! What must hold:
//!
//! - A git that makes a worktree for a unit holds the unit's `making` lock until it and its children exit. Nothing is
//!   removed while that lock is held.
//! - Only a worktree that git itself marks as unfinished is removed: no agent ever worked in it.
//! - The `.git` file of a folder is removed last, so an interrupted removal can be repeated.
//! - A folder with files that git did not put there is never removed.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use jit_core::model::ids::UnitId;
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::unit::{Phase, Unit};
use jit_git::files::plain;
use jit_os::shell::shell_word;
use jit_os::{file, io_refusal};
use jit_store::Outcome;

use crate::context::Context;
use crate::git_locks;
use crate::units::service::common;
use crate::units::worktree_locate::real;
use crate::units::worktree_state::leads_to;

/// Maximum time to wait for a git process that a killed jit left running.
const MAKING: Duration = Duration::from_secs(10);

/// The largest of these files of git.
const SMALL: u64 = 1 << 16;

/// A worktree that git did not finish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HalfMade {
    /// Its folder in `.git/worktrees`.
    pub git_dir: PathBuf,
    /// Where its files are, if git came so far.
    pub root: Option<PathBuf>,
    /// The file that git did not write. `None`: all are there, but git did not finish the checkout.
    pub missing: Option<&'static str>,
}

impl HalfMade {
    /// Whether it is the worktree of this unit.
    pub(crate) fn is_of(&self, unit: &Unit) -> bool {
        let path = Path::new(&unit.worktree_path);
        match &self.root {
            Some(root) => root == path || real(root) == real(path),
            // Git names the folder after the worktree.
            None => self.git_dir.file_name() == path.file_name(),
        }
    }

    /// Describes it for people.
    pub(crate) fn in_words(&self) -> String {
        match self.missing {
            None => "git did not finish this worktree".to_owned(),
            Some(name) => format!(
                "git did not finish this worktree: {} has no {name}, and git commands fail",
                self.git_dir.display()
            ),
        }
    }

    /// The command that repairs it.
    pub(crate) fn repair(&self) -> String {
        match (self.missing, &self.root) {
            (None, Some(root)) => format!(
                "git worktree remove --force --force {}",
                shell_word(&root.to_string_lossy())
            ),
            _ => "jit worktree prune --settle".to_owned(),
        }
    }
}

fn content(path: &Path) -> Option<Vec<u8>> {
    let content = file::read_real(path, SMALL).ok().flatten()?;
    (!content.trim_ascii().is_empty()).then_some(content)
}

/// Whether HEAD of a worktree names nothing yet: git writes zeros first.
fn is_unborn(head: &[u8]) -> bool {
    head.trim_ascii().iter().all(|byte| *byte == b'0')
}

fn look(git_dir: PathBuf) -> Option<HalfMade> {
    let read = |name: &str| content(&git_dir.join(name));
    let link = read("gitdir");
    let root = link.as_ref().map(|link| {
        let dot_git = plain(&git_dir.join(OsStr::from_bytes(link.trim_ascii_end())));
        dot_git.parent().map_or_else(|| dot_git.clone(), Path::to_owned)
    });
    let missing = match (&link, read("commondir"), read("HEAD")) {
        (None, ..) => Some("gitdir"),
        (_, None, _) => Some("commondir"),
        (.., None) => Some("HEAD"),
        (.., Some(head)) if is_unborn(&head) => Some("HEAD"),
        _ => None,
    };
    let marked = read("locked").is_some_and(|why| why.trim_ascii() == b"initializing");
    (missing.is_some() || marked).then_some(HalfMade {
        git_dir,
        root,
        missing,
    })
}

/// Returns the unfinished worktrees of a repository. A git that is making one right now is among them.
pub(crate) fn find(common: &Path) -> Vec<HalfMade> {
    let entries = fs::read_dir(common.join("worktrees"))
        .into_iter()
        .flatten()
        .flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut found: Vec<HalfMade> = folders.filter_map(|entry| look(entry.path())).collect();
    found.sort_by(|a, b| a.git_dir.cmp(&b.git_dir));
    found
}

/// Acquires the lock that every git of this unit's creation holds. Waits for a git that still runs.
pub(crate) fn making_lock(cx: &Context, id: &UnitId) -> Outcome<Arc<File>> {
    let begun = Instant::now();
    loop {
        match try_making_lock(cx, id)? {
            Some(lock) => return Ok(Arc::new(lock)),
            None if begun.elapsed() < MAKING => std::thread::sleep(Duration::from_millis(20)),
            None => {
                let message = format!("git is still making the worktree of {id}");
                let help = format!("jit worktree retry {id}");
                return Err(Box::new(Refusal::new(Code::Busy, message).help(help)));
            }
        }
    }
}

/// Acquires the lock of [`making_lock`], or returns `None` while a git holds it.
pub(crate) fn try_making_lock(cx: &Context, id: &UnitId) -> Outcome<Option<File>> {
    let units = cx.place.control_dir.join("units");
    let folder = units.join(id.as_str());
    let path = folder.join("making");
    let failed = |e: io::Error| io_refusal("lock", &path, &e);
    for folder in [&units, &folder] {
        file::make_dir_like_parent(folder).map_err(|e| io_refusal("create", folder, &e))?;
    }
    let lock = file::open_lock(&path).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(lock)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(e)) => Err(failed(e)),
    }
}

/// Whether a process is creating the worktree of this unit now.
pub(crate) fn is_being_made(cx: &Context, id: &UnitId) -> bool {
    let folder = cx.place.control_dir.join("units").join(id.as_str());
    ["lock", "making"]
        .into_iter()
        .any(|name| file::is_locked(&folder.join(name)).unwrap_or(true))
}

/// Removes what a git that is dead left of this unit's worktree. The caller holds the lock of [`making_lock`].
pub(crate) fn sweep(cx: &Context, unit: &Unit) -> Outcome<()> {
    let common = common(cx)?;
    let path = Path::new(&unit.worktree_path);
    let failed = |path: &Path, e: &io::Error| io_refusal("remove", path, e);
    for one in find(common).into_iter().filter(|one| one.is_of(unit)) {
        if leads_to(path).is_some_and(|goal| real(&goal) == real(&one.git_dir)) {
            remove_folder(path).map_err(|e| failed(path, &e))?;
        }
        fs::remove_dir_all(&one.git_dir).map_err(|e| failed(&one.git_dir, &e))?;
    }
    let own = path.file_name().map(|name| common.join("worktrees").join(name));
    let is_cut_off = |own: &PathBuf| {
        let leads_there = leads_to(path).is_some_and(|goal| real(&goal) == real(own));
        leads_there && own.symlink_metadata().is_err()
    };
    if unit.state == Phase::Provisioning && own.is_some_and(|own| is_cut_off(&own)) {
        // Git was killed while it took back what it had made: its record went first.
        remove_folder(path).map_err(|e| failed(path, &e))?;
    }
    if is_bare_beginning(path) {
        let _ = fs::remove_file(path.join(".git"));
        let _ = fs::remove_dir(path);
    }
    // The folder of all worktrees goes with the last one, as git does it.
    let _ = fs::remove_dir(common.join("worktrees"));
    if unit.state == Phase::Provisioning {
        // Only a git of this unit had a reason to lock its branch, and it is dead.
        let _ = fs::remove_file(common.join(format!("refs/heads/{}.lock", unit.branch)));
        let packed = common.join("packed-refs.lock");
        if packed.symlink_metadata().is_ok() {
            let begun = u64::try_from(unit.created_at.ms()).unwrap_or(0);
            let begun = SystemTime::UNIX_EPOCH + Duration::from_millis(begun);
            git_locks::remove_left_over(common, begun, |lock| lock == packed);
        }
    }
    Ok(())
}

/// Removes what is at the path of a worktree that a killed git could not remove completely. The path was free before
/// that git was started.
pub(crate) fn take_back(cx: &Context, unit: &Unit) -> Outcome<()> {
    let _lock = making_lock(cx, &unit.id)?;
    sweep(cx, unit)?;
    git_locks::remove_after_kill(common(cx)?);
    let path = Path::new(&unit.worktree_path);
    let is_folder = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
    let has_git_dir = leads_to(path).is_some_and(|git_dir| git_dir.is_dir());
    if jit_git::run::killed_since().is_some() && is_folder && !has_git_dir {
        remove_folder(path).map_err(|e| io_refusal("remove", path, &e))?;
    }
    Ok(())
}

/// Whether the folder is empty, or has only a `.git` file that git did not write yet.
fn is_bare_beginning(path: &Path) -> bool {
    if !path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        return false;
    }
    let Ok(inside) = fs::read_dir(path) else {
        return false;
    };
    inside.flatten().all(|entry| {
        let is_empty = |meta: fs::Metadata| meta.is_file() && meta.len() == 0;
        entry.file_name() == ".git" && entry.metadata().is_ok_and(is_empty)
    })
}

/// Removes a folder, and its `.git` last.
fn remove_folder(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() == ".git" {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    match fs::remove_file(path.join(".git")) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    fs::remove_dir(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder in `worktrees` as git leaves it after that many steps.
    fn begun(common: &Path, name: &str, steps: usize) -> PathBuf {
        let git_dir = common.join("worktrees").join(name);
        fs::create_dir_all(&git_dir).expect("a folder");
        let files = [
            ("locked", ""),
            ("locked", "initializing"),
            ("gitdir", ""),
            ("gitdir", "/somewhere/unit/.git\n"),
            ("HEAD", ""),
            ("HEAD", "0000000000000000000000000000000000000000\n"),
            ("commondir", ""),
            ("commondir", "../..\n"),
            ("HEAD", "ref: refs/heads/unit\n"),
        ];
        for (file, content) in files.into_iter().take(steps) {
            fs::write(git_dir.join(file), content).expect("a file");
        }
        git_dir
    }

    #[test]
    fn g2_a_worktree_is_half_made_until_git_has_finished_every_step() {
        let folder = tempfile::tempdir().expect("a folder");
        for steps in 0..=9 {
            let git_dir = begun(folder.path(), &format!("unit{steps}"), steps);
            let found = look(git_dir.clone()).expect("half made");
            assert_eq!(found.missing.is_none(), steps == 9, "{steps}: {found:?}");
            assert_eq!(found.root.is_some(), steps >= 4, "{steps}: {found:?}");
        }
        assert_eq!(find(folder.path()).len(), 10);
        let done = begun(folder.path(), "done", 9);
        fs::remove_file(done.join("locked")).expect("a file");
        assert_eq!(look(done.clone()), None);
        fs::write(done.join("locked"), "").expect("a file");
        assert_eq!(look(done.clone()), None, "a worktree that a person locked");
        fs::write(done.join("commondir"), "").expect("a file");
        assert_eq!(look(done).and_then(|one| one.missing), Some("commondir"));
    }

    #[test]
    fn g2_a_folder_with_files_is_no_beginning_of_git() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("unit");
        assert!(!is_bare_beginning(&path));
        fs::create_dir(&path).expect("a folder");
        assert!(is_bare_beginning(&path));
        fs::write(path.join(".git"), "").expect("a file");
        assert!(is_bare_beginning(&path));
        fs::write(path.join("mine"), "").expect("a file");
        assert!(!is_bare_beginning(&path));
        remove_folder(&path).expect("removed");
        assert!(path.symlink_metadata().is_err());
    }
}
