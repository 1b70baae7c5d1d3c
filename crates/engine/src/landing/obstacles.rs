//! Finds the files that block a fast-forward in a checkout (H3), moves some of them aside, and suggests commands for
//! the rest.
//!
//! What must hold:
//!
//! - Files of issues that are unchanged since jit wrote them contain no one's work: the log has all of it. They are
//!   moved aside for the fast-forward, and moved back if it fails.
//! - A file that was edited stays, and the fast-forward is refused.
//! - For every other obstacle the refusal names a command that helps with that kind.
//!
//! Format: a file that is moved aside stays in its folder, under the name of a temporary file (`issue.json.<16
//! digits>.tmp`). So the leftovers of a killed process are cleaned up like other temporary files.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use jit_git::Git;
use jit_os::random;
use jit_os::shell::shell_word;
use jit_store::Outcome;

use super::Repo;
use super::trees::Entries;
use crate::refusals::failed;
use crate::units::worktree_state::leads_to;

/// Returns whether a file in a checkout is as jit wrote it. Arguments: the checkout, and the path in it.
pub type IsOurs<'a> = &'a dyn Fn(&Path, &Path) -> bool;

/// Maximum number of paths of each kind in the help.
const FEW: usize = 3;
const ISSUES: &str = ".jit/issues";
/// Each worktree has its own copy of this file, and git ignores it.
const IDENTITY: &str = ".jit/worktree.json";

fn within(root: &Path) -> Git {
    Git::at(root).args(["--no-optional-locks", "--literal-pathspecs"])
}

fn paths(out: &[u8]) -> impl Iterator<Item = PathBuf> {
    out.split(|b| *b == 0)
        .filter(|one| !one.is_empty())
        .map(|one| PathBuf::from(OsStr::from_bytes(one)))
}

/// The paths below `under` that git tracks, with the changes in the index and in the files.
struct Changes {
    tracked: BTreeMap<PathBuf, u8>,
    staged: BTreeSet<PathBuf>,
    changed: BTreeSet<PathBuf>,
    /// Paths that the fast-forward would change.
    coming: BTreeSet<PathBuf>,
}

impl Changes {
    fn of(root: &Path, new: &str, under: &str) -> Outcome<Self> {
        let ask = |words: &[&str]| within(root).args(words).args(["--", under]).run().map_err(failed);
        let mut tracked = BTreeMap::new();
        for one in paths(&ask(&["ls-files", "-z", "-v"])?) {
            if let [tag, b' ', path @ ..] = one.as_os_str().as_bytes() {
                tracked.insert(PathBuf::from(OsStr::from_bytes(path)), *tag);
            }
        }
        Ok(Self {
            tracked,
            staged: paths(&ask(&["diff-index", "-z", "--cached", "--name-only", "HEAD"])?).collect(),
            changed: paths(&ask(&["diff-files", "-z", "--name-only"])?).collect(),
            coming: coming(root, new, under)?,
        })
    }
}

/// The paths below `under` that a fast-forward to `new` would change.
fn coming(root: &Path, new: &str, under: &str) -> Outcome<BTreeSet<PathBuf>> {
    let listed = within(root)
        .args([
            "diff-tree",
            "-r",
            "-z",
            "--no-renames",
            "--name-only",
            "HEAD",
            new,
        ])
        .args(["--", under])
        .run()
        .map_err(failed)?;
    Ok(paths(&listed).collect())
}

/// Lists the files of issues that block the fast-forward to `new` and are as jit wrote them.
pub fn ours(root: &Path, new: &str, is_ours: IsOurs<'_>) -> Outcome<Vec<PathBuf>> {
    if !root.join(ISSUES).is_dir() || coming(root, new, ISSUES)?.is_empty() {
        return Ok(Vec::new());
    }
    let changes = Changes::of(root, new, ISSUES)?;
    let in_the_way = |path: &&PathBuf| {
        let open = !changes.tracked.contains_key(*path) || changes.changed.contains(*path);
        open && !changes.staged.contains(*path)
            && root
                .join(path)
                .symlink_metadata()
                .is_ok_and(|meta| meta.is_file())
    };
    let found = changes.coming.iter().filter(in_the_way);
    Ok(found.filter(|path| is_ours(root, path)).cloned().collect())
}

/// The tree of `new` with these paths as HEAD has them.
pub fn without(repo: &Repo, root: &Path, new: &str, these: &[PathBuf]) -> Outcome<String> {
    let listed = within(root)
        .args(["ls-tree", "-r", "-z", "--full-tree", "HEAD", "--", ISSUES])
        .run()
        .map_err(failed)?;
    let mut entries = Entries::new();
    for path in these {
        let name = path.as_os_str().as_bytes();
        let before = listed.split(|b| *b == 0).find_map(|line| {
            let tab = line.iter().position(|b| *b == b'\t')?;
            let head = String::from_utf8_lossy(line.get(..tab)?).into_owned();
            (line.get(tab + 1..)? == name).then_some(head)
        });
        let words: Vec<&str> = before.as_deref().unwrap_or_default().split(' ').collect();
        let entry = match words.as_slice() {
            [mode, _, object] => Some(((*mode).to_owned(), (*object).to_owned())),
            _ => None,
        };
        entries.insert(name.to_owned(), entry);
    }
    crate::landing::trees::tree_with(repo, new, &entries)
}

/// Files to move aside.
#[derive(Debug, Default)]
pub struct Plan {
    /// For each file: its path and its temporary path, relative to the checkout, and its content.
    files: Vec<(PathBuf, PathBuf, Vec<u8>)>,
}

/// Files that are moved aside. Dropping this moves them back; [`Aside::forget`] deletes them.
#[derive(Debug, Default)]
pub struct Aside {
    /// For each file: its place, and where it is now.
    moved: Vec<(PathBuf, PathBuf)>,
    /// The path of each file, relative to the checkout.
    paths: Vec<PathBuf>,
}

impl Plan {
    /// For each file: its path and its temporary path, relative to the checkout.
    pub fn planned(&self) -> Vec<(PathBuf, PathBuf)> {
        let pair = |(path, there, _): &(PathBuf, PathBuf, Vec<u8>)| (path.clone(), there.clone());
        self.files.iter().map(pair).collect()
    }

    pub fn put(self, root: &Path) -> Aside {
        let mut aside = Aside::default();
        for (path, there, content) in self.files {
            let (whole, there) = (root.join(&path), root.join(there));
            if fs::rename(&whole, &there).is_err() {
                continue;
            }
            let same = fs::read(&there).is_ok_and(|now| now == content);
            let one = Aside {
                moved: vec![(whole, there)],
                paths: vec![path],
            };
            match same {
                true => aside.take(one),
                false => drop(one),
            }
        }
        aside
    }
}

impl Aside {
    pub fn plan(root: &Path, new: &str, is_ours: IsOurs<'_>) -> Outcome<Plan> {
        // The content is read before the files are judged: another process may write to them in between.
        let mut files = Vec::new();
        for path in ours(root, new, &|_, _| true)? {
            let (Ok(content), Ok(number)) = (fs::read(root.join(&path)), random::u128()) else {
                continue;
            };
            let mut there = OsString::from(&path);
            there.push(format!(".{:016x}.tmp", number >> 64));
            files.push((path, PathBuf::from(there), content));
        }
        files.retain(|(path, ..)| is_ours(root, path));
        Ok(Plan { files })
    }

    fn take(&mut self, mut other: Self) {
        self.moved.append(&mut other.moved);
        self.paths.append(&mut other.paths);
    }

    /// The fast-forward succeeded: deletes the files and returns their paths in the checkout. New files are in their
    /// places.
    pub fn forget(mut self) -> Vec<PathBuf> {
        for (_, there) in self.moved.drain(..) {
            let _ = fs::remove_file(there);
        }
        std::mem::take(&mut self.paths)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        for (place, there) in self.moved.drain(..) {
            if place.symlink_metadata().is_err() {
                let _ = fs::rename(there, place);
            }
        }
    }
}

/// The git folder of a checkout. Git is asked only where the files do not tell.
pub fn git_dir(root: &Path) -> Outcome<PathBuf> {
    let own = root.join(".git");
    if own.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        return Ok(own);
    }
    if let Some(found) = leads_to(root).filter(|found| found.is_dir()) {
        return Ok(found);
    }
    let asked = Git::at(root).args(["rev-parse", "--absolute-git-dir"]).line();
    asked.map(PathBuf::from).map_err(failed)
}

/// The index lock of a git process that works there, or was killed while it worked.
pub fn lock(root: &Path) -> Option<PathBuf> {
    let lock = git_dir(root).ok()?.join("index.lock");
    lock.symlink_metadata().is_ok().then_some(lock)
}

/// The existing lock files of a git process that fast-forwards a checkout; the branch lock comes first.
pub fn locks(repo: &Repo, branch: &str, root: &Path) -> Vec<PathBuf> {
    let mut all = vec![repo.common.join(format!("refs/heads/{branch}.lock"))];
    if let Ok(git_dir) = git_dir(root) {
        let names = ["index.lock", "HEAD.lock", "ORIG_HEAD.lock"];
        all.extend(names.map(|name| git_dir.join(name)));
    }
    all.retain(|lock| lock.symlink_metadata().is_ok());
    all
}

/// The lock file that an error message of git names.
pub fn lock_in(said: &str) -> Option<PathBuf> {
    let (_, rest) = said.split_once("Unable to create '")?;
    let (path, _) = rest.split_once("': File exists")?;
    path.ends_with(".lock").then(|| PathBuf::from(path))
}

/// The help for a lock file that a killed git process left.
pub fn help_with_lock(lock: &Path) -> String {
    let lock = shell_word(&lock.to_string_lossy());
    format!("if no git runs there any more: rm {lock}")
}

/// The help for errors of the disk or of permissions. In these cases no changed file blocks the fast-forward.
pub fn help_with_disk(root: &Path, said: &str) -> Option<Vec<String>> {
    let root = shell_word(&root.to_string_lossy());
    let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if says(&["No space left on device", "Disk quota exceeded", "File too large"]) {
        return Some(vec![format!("make room on that disk: df -h {root}")]);
    }
    if says(&["Read-only file system"]) {
        return Some(vec![format!(
            "that file system can only be read; make it writable: df {root}"
        )]);
    }
    says(&["Permission denied", "Operation not permitted"]).then(|| {
        vec![format!(
            "git may not write what it names: who may, says ls -ld {root}; chmod u+w <it and its folder>"
        )]
    })
}

/// The help for a checkout that cannot be fast-forwarded to `new`.
pub fn help(root: &Path, new: &str, is_ours: IsOurs<'_>) -> Vec<String> {
    let git = format!("git -C {}", shell_word(&root.to_string_lossy()));
    let mut help = vec![format!("{git} status")];
    if let Some(lock) = lock(root) {
        help.push(help_with_lock(&lock));
        return help;
    }
    let Ok(changes) = Changes::of(root, new, ".") else {
        return help;
    };
    let mut loose = BTreeSet::new();
    let (mut hidden, mut edited) = (Vec::new(), false);
    for path in &changes.coming {
        match changes.tracked.get(path) {
            None => loose.extend(blocks(root, path).filter(|path| !is_ours(root, path))),
            Some(_) if !root.join(path).exists() => {}
            Some(b'S') => hidden.push(("--no-skip-worktree", path)),
            Some(tag) if tag.is_ascii_lowercase() => hidden.push(("--no-assume-unchanged", path)),
            Some(_) => edited |= changes.changed.contains(path),
        }
        edited |= changes.staged.contains(path);
    }
    for path in loose.iter().take(FEW) {
        if path == Path::new(IDENTITY) {
            let remove = format!("git rm --cached {IDENTITY} && git commit");
            help.push(format!(
                "{IDENTITY} is each worktree's own; in the unit: {remove}"
            ));
            continue;
        }
        let path = root.join(path);
        let [from, to] = ["", ".aside"].map(|end| shell_word(&format!("{}{end}", path.display())));
        help.push(format!("mv -n {from} {to}"));
    }
    for (option, path) in hidden.iter().take(FEW) {
        let path = shell_word(&path.to_string_lossy());
        help.push(format!("{git} update-index {option} -- {path}"));
    }
    if edited || loose.is_empty() {
        help.push(format!("{git} commit -a"));
        help.push(format!("{git} stash -u"));
    }
    help
}

/// Returns the path that blocks a new file: an entry of that name, or a file where a folder is needed.
fn blocks(root: &Path, path: &Path) -> Option<PathBuf> {
    let above = path.ancestors().skip(1).filter(|one| *one != Path::new(""));
    let is_file = |one: &&Path| {
        let meta = root.join(one).symlink_metadata();
        meta.is_ok_and(|meta| !meta.is_dir())
    };
    let found = above.filter(is_file).last();
    let own = root.join(path).symlink_metadata().is_ok().then_some(path);
    found.or(own).map(Path::to_owned)
}
