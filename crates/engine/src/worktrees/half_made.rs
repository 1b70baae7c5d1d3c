//! Finds worktrees that git began to make and did not finish, and removes what such a git left. Finds worktrees with
//! damaged files of git, and names their repair.
//!
//! What must hold:
//!
//! - A git that makes a worktree for a unit holds the unit's `making` lock until it and its children exit. Nothing is
//!   removed while that lock is held.
//! - A worktree is half made only if git marks it as unfinished, or if it has neither HEAD nor index. A file that
//!   cannot be read is not missing.
//! - A folder with contents is removed only while its own unit is PROVISIONING: no agent ever worked in it. All other
//!   commands refuse and name the repair.
//! - All files that git did not mark as unfinished move to the trash.
//! - The `.git` file of a folder is removed last, so an interrupted removal can be repeated.

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

use crate::api::rescue::{RescueId, Stage};
use crate::context::Context;
use crate::git_locks;
use crate::refusals::refuse;
use crate::units::service::common;
use crate::units::worktree_locate::real;
use crate::units::worktree_state::leads_to;
use crate::worktrees::rescue::raw::shown;
use crate::worktrees::rescue::trash::{ADMIN, Manifest, TREE, Trash};

/// Maximum time to wait for a git process that a killed jit left running.
const MAKING: Duration = Duration::from_secs(10);

/// The largest of these files of git.
const SMALL: u64 = 1 << 16;

/// A worktree that git did not finish, or whose files of git are damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HalfMade {
    /// Its folder in `.git/worktrees`.
    pub git_dir: PathBuf,
    /// Where its files are, as far as git's folder says.
    pub root: Option<PathBuf>,
    /// The file of git that does not exist or is empty.
    pub missing: Option<&'static str>,
    /// Git marks it as unfinished, or it has neither HEAD nor index. Otherwise somebody may have worked in it.
    pub begun: bool,
    /// It has neither HEAD nor index.
    bare: bool,
}

impl HalfMade {
    /// Whether it is the worktree of this unit.
    pub(crate) fn is_of(&self, unit: &Unit) -> bool {
        let path = Path::new(&unit.worktree_path);
        match &self.root {
            Some(root) => root == path || real(root) == real(path),
            None if leads_to(path).is_some_and(|goal| real(&goal) == real(&self.git_dir)) => true,
            // Git names the folder after the worktree. Other worktrees may have the same name.
            None => {
                unit.state == Phase::Provisioning && self.bare && self.git_dir.file_name() == path.file_name()
            }
        }
    }

    /// Whether it is only what a killed git left: there is no work in it. A complete one may be on a disk that is away.
    pub(crate) fn is_left_over(&self) -> bool {
        let has_work = match &self.root {
            Some(root) => has_contents(root),
            None => !self.bare,
        };
        self.begun && self.missing.is_some() && !has_work
    }

    /// Describes it for people.
    pub(crate) fn in_words(&self) -> String {
        let effect = match self.missing {
            None => return "git did not finish this worktree".to_owned(),
            Some("commondir") => "git commands fail in the whole repository",
            Some("gitdir") => "git does not list it",
            Some(_) => "git commands fail in it",
        };
        let name = self.missing.unwrap_or_default();
        let what = match self.begun {
            true => "git did not finish this worktree",
            false => "git's files of this worktree are damaged",
        };
        format!("{what}: {} has no {name}, and {effect}", self.git_dir.display())
    }

    /// The command that repairs it. It removes no work. `unit` is the unit whose worktree it is.
    pub(crate) fn repair(&self, unit: Option<&Unit>) -> String {
        if self.is_left_over() {
            return "jit worktree prune --settle".to_owned();
        }
        let write = |line: &str, name: &str| {
            let file = path_word(&self.git_dir.join(name));
            format!("printf '%s\\n' {} > {file}", shell_word(line))
        };
        let own = unit.map(|unit| PathBuf::from(&unit.worktree_path));
        let root = self.root.clone().or(own).map(|root| path_word(&root));
        let root = root.unwrap_or_else(|| "<where it is>".to_owned());
        match self.missing {
            None => format!("git worktree unlock {root}"),
            Some("gitdir") => format!("git worktree repair {root}"),
            Some("commondir") => write("../..", "commondir"),
            Some(name) => match unit {
                Some(unit) => write(&format!("ref: refs/heads/{}", unit.branch), name),
                None => {
                    let last = last_commit(&self.git_dir);
                    write(
                        &last.unwrap_or_else(|| "ref: refs/heads/<its branch>".to_owned()),
                        name,
                    )
                }
            },
        }
    }

    /// Returns the refusal of a command that needs this worktree of a unit.
    pub(crate) fn refusal(&self, unit: &Unit) -> Box<Refusal> {
        let message = format!(
            "the worktree of {} in {} stays as it is: {}",
            unit.id,
            unit.worktree_path,
            self.in_words()
        );
        Box::new(Refusal::new(Code::Invalid, message).help(self.repair(Some(unit))))
    }
}

/// The commit that HEAD of a worktree was at last, from its reflog.
fn last_commit(git_dir: &Path) -> Option<String> {
    let log = file::read_real(&git_dir.join("logs/HEAD"), 1 << 26)
        .ok()
        .flatten()?;
    let log = String::from_utf8_lossy(&log);
    let line = log.lines().last()?;
    let commit = line.split(' ').nth(1)?;
    let is_commit = commit.len() >= 40 && commit.bytes().all(|b| b.is_ascii_hexdigit());
    is_commit.then(|| commit.to_owned())
}

/// A path as one word of a shell command, also if it is not UTF-8.
fn path_word(path: &Path) -> String {
    match path.to_str() {
        Some(path) => shell_word(path),
        None => {
            let bytes = path.as_os_str().as_bytes();
            let escaped: String = bytes.iter().map(|byte| format!("\\{byte:03o}")).collect();
            format!("\"$(printf '{escaped}')\"")
        }
    }
}

/// Whether a path certainly does not exist. Any other failure may hide something.
fn is_absent(path: &Path) -> bool {
    matches!(path.symlink_metadata(), Err(e) if e.kind() == io::ErrorKind::NotFound)
}

/// Whether there may be anything except a folder with git's `.git` file.
fn has_contents(root: &Path) -> bool {
    if is_absent(root) {
        return false;
    }
    let is_link_of_git = |entry: fs::DirEntry| {
        entry.file_name() == ".git" && entry.file_type().is_ok_and(|kind| kind.is_file())
    };
    match fs::read_dir(root) {
        Ok(mut inside) => !inside.all(|entry| entry.is_ok_and(is_link_of_git)),
        Err(_) => true,
    }
}

/// Whether a file of git certainly has nothing in it. A link, and a file that cannot be read, may have something.
fn is_missing(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(meta) if meta.is_file() => {
            let content = file::read_real(path, SMALL);
            // Git writes zeros to HEAD first.
            let says_nothing = |content: &[u8]| content.trim_ascii().iter().all(|byte| *byte == b'0');
            matches!(content, Ok(Some(content)) if says_nothing(&content))
        }
        Ok(_) => false,
        Err(e) => e.kind() == io::ErrorKind::NotFound,
    }
}

/// Looks at a folder in `.git/worktrees`. `None` if it is complete.
pub(crate) fn look(git_dir: PathBuf) -> Option<HalfMade> {
    let read = |name: &str| file::read_real(&git_dir.join(name), SMALL).ok().flatten();
    let link = read("gitdir").filter(|link| !link.trim_ascii().is_empty());
    let root = link.map(|link| {
        let dot_git = plain(&git_dir.join(OsStr::from_bytes(link.trim_ascii_end())));
        dot_git.parent().map_or_else(|| dot_git.clone(), Path::to_owned)
    });
    let files = ["gitdir", "commondir", "HEAD"];
    let missing = files.into_iter().find(|name| is_missing(&git_dir.join(name)));
    let bare = ["HEAD", "index"]
        .into_iter()
        .all(|name| is_absent(&git_dir.join(name)));
    let marked = read("locked").is_some_and(|why| why.trim_ascii() == b"initializing");
    let begun = marked || bare;
    (missing.is_some() || begun).then_some(HalfMade {
        git_dir,
        root,
        missing,
        begun,
        bare,
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
    sweep_as(cx, unit, unit.state == Phase::Provisioning)
}

/// `unused`: the unit has had no worktree here yet. Otherwise only a worktree without contents is removed.
fn sweep_as(cx: &Context, unit: &Unit, unused: bool) -> Outcome<()> {
    let common = common(cx)?;
    let path = Path::new(&unit.worktree_path);
    let failed = |path: &Path, e: &io::Error| io_refusal("remove", path, e);
    for one in find(common).into_iter().filter(|one| one.is_of(unit)) {
        if !unused && !one.is_left_over() {
            return Err(one.refusal(unit));
        }
        let folder = leads_to(path)
            .filter(|goal| real(goal) == real(&one.git_dir))
            .map(|_| path);
        if !unused || !one.begun {
            put_aside(cx, &one.git_dir, folder, &unit.id, |id| {
                Manifest::new(id, unit, path)
            })?;
            continue;
        }
        if let Some(folder) = folder {
            remove_folder(folder).map_err(|e| failed(folder, &e))?;
        }
        fs::remove_dir_all(&one.git_dir).map_err(|e| failed(&one.git_dir, &e))?;
    }
    let goal = leads_to(path).filter(|goal| goal.parent().map(real) == Some(real(&common.join("worktrees"))));
    if let Some(goal) = goal.filter(|goal| unit.state == Phase::Provisioning && is_absent(goal)) {
        // Git was killed while it took back what it had made: its record went first.
        put_aside(cx, &goal, Some(path), &unit.id, |id| {
            Manifest::new(id, unit, path)
        })?;
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

/// Moves git's folder of a worktree to the trash, and then the folder with its files. `name` is for the entry.
fn put_aside(
    cx: &Context,
    git_dir: &Path,
    root: Option<&Path>,
    name: &UnitId,
    manifest: impl FnOnce(RescueId) -> Manifest,
) -> Outcome<()> {
    let trash = Trash::at(&cx.place.control_dir, common(cx)?);
    let manifest = trash.begin_as(name.as_str(), |id| Manifest {
        stage: Stage::Kept,
        admin: git_dir.file_name().map(|name| shown(Path::new(name))),
        ..manifest(id)
    })?;
    trash.take(&manifest.id, git_dir, ADMIN)?;
    if let Some(root) = root {
        trash.take(&manifest.id, root, TREE)?;
    }
    Ok(())
}

/// Moves what a killed git left of a worktree to the trash.
pub(crate) fn put_left_over_aside(cx: &Context, one: &HalfMade) -> Outcome<()> {
    let name = one.git_dir.file_name().and_then(OsStr::to_str);
    let name = name.and_then(|name| name.parse().ok());
    let name = name.map_or_else(|| "worktree".parse(), Ok);
    let name: UnitId = name.map_err(|e| refuse(Code::Io, format!("{e}")))?;
    let root = one.root.as_deref().unwrap_or(&one.git_dir);
    put_aside(cx, &one.git_dir, None, &name, |id| {
        Manifest::of_other(id, name.clone(), root)
    })
}

/// Removes what is at the path of a worktree that a killed git could not remove completely. The path was free before
/// that git was started.
pub(crate) fn take_back(cx: &Context, unit: &Unit) -> Outcome<()> {
    let _lock = making_lock(cx, &unit.id)?;
    sweep_as(cx, unit, true)?;
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
        let damaged = look(done).expect("damaged");
        assert_eq!((damaged.missing, damaged.begun), (Some("commondir"), false));
    }

    #[test]
    fn h7_a_file_that_cannot_be_read_is_not_missing() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::os::unix::fs::symlink("refs/heads/unit", &link).expect("a link");
        assert!(!is_missing(&link) && !is_absent(&link));
        assert!(is_missing(&file) && is_absent(&file));
        fs::write(&file, "").expect("a file");
        assert!(is_missing(&file) && !is_absent(&file));
        // No folder: neither name can be looked up.
        assert!(!is_missing(&file.join("HEAD")) && !is_absent(&file.join("HEAD")));
        assert!(has_contents(&file.join("unit")));
    }

    #[test]
    fn h7_a_folder_that_is_not_utf_8_is_named_exactly() {
        let path = Path::new(OsStr::from_bytes(b"/tmp/\xff it's"));
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &format!("printf %s {}", path_word(path))]);
        let said = shell.output().expect("a shell");
        assert_eq!(said.stdout, path.as_os_str().as_bytes());
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
