//! Finds the contents of a worktree that are not on its target. Everything is read from git and from the files.
//!
//! What must hold:
//!
//! - Reading changes nothing in the worktree (no index refresh, no hook).
//! - Contents that cannot be read or understood count as work.
//!
//! For commits see `commits`.

mod commits;

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use jit_core::model::glob::Pattern;
use jit_core::model::refusal::Code;
use jit_git::index::Index;
use jit_git::{Git, GitError};
use jit_os::file;
use jit_store::Outcome;

use super::raw::{self, shown, text};
use super::site::Site;
use super::walk::{Walk, What};
use crate::api::rescue::{Kind, Work};
use crate::refusals::refuse;

/// If more files than this differ only by their filters, all are kept without comparison.
const MOST_FILTERED: usize = 200;
/// Maximum length of a file that is compared with its copy elsewhere.
const MOST_COMPARED: u64 = 64 << 20;

/// One entry of the index.
#[derive(Debug, Clone)]
pub struct Indexed {
    pub mode: String,
    pub oid: String,
    pub stage: u8,
    pub path: PathBuf,
    /// Git does not check whether it changed.
    pub hidden: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// Not on the target: removed only with `--force`.
    pub work: Vec<Work>,
    /// Kept without asking.
    pub aside: Vec<Work>,
    pub head: Option<String>,
    pub branch_tip: Option<String>,
    /// Commits and other objects that nothing else would keep alive.
    pub loose: Vec<String>,
    pub index: Vec<Indexed>,
    /// Resolved conflicts in the index: `mode oid stage\tpath`.
    pub undo: Vec<Vec<u8>>,
    /// Ignored as a whole.
    pub ignored_folders: Vec<PathBuf>,
    /// Work in such folders: files, and repositories.
    pub work_inside: Vec<PathBuf>,
}

impl Evidence {
    /// Returns whether the folder contains nothing that is not elsewhere.
    pub fn files_are_safe(&self) -> bool {
        let only_commits = |work: &Work| matches!(work.kind, Kind::Commit | Kind::History);
        self.work.iter().chain(&self.aside).all(only_commits)
    }

    pub fn is_empty(&self) -> bool {
        self.work.is_empty() && self.aside.is_empty() && self.loose.is_empty()
    }
}

struct Look<'a> {
    site: &'a Site,
    walk: &'a Walk,
    admin: &'a Walk,
    out: Evidence,
}

fn failed(e: GitError) -> Box<jit_core::model::refusal::Refusal> {
    crate::refusals::failed(e)
}

/// Names of folders that tools create.
const MADE_AGAIN: &[&str] = &[
    "__pycache__",
    "_build",
    "bin",
    "build",
    "coverage",
    "deps",
    "dist",
    "node_modules",
    "obj",
    "out",
    "target",
    "tmp",
    "venv",
    ".cache",
    ".direnv",
    ".gradle",
    ".mypy_cache",
    ".next",
    ".nuxt",
    ".pytest_cache",
    ".ruff_cache",
    ".terraform",
    ".tox",
    ".turbo",
    ".venv",
];
/// Larger ignored folders are not kept: they are downloaded data, or builds under another name.
const MOST_KEPT: u64 = 256 << 20;
const MOST_FILES: usize = 20_000;

fn is_made_again(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    MADE_AGAIN.contains(&&*name)
}

/// Collects all evidence.
pub fn gather(site: &Site, walk: &Walk, admin: &Walk, ignored: &[String]) -> Outcome<Evidence> {
    let mut look = Look {
        site,
        walk,
        admin,
        out: Evidence::default(),
    };
    if site.admin.is_some() {
        look.in_progress();
        if site.root_is_there {
            // Git looks at all files while their bytes and the commits are examined.
            let (status, hashed) = std::thread::scope(|scope| {
                let status = scope.spawn(|| status_of(site));
                let hashed = look
                    .commits()
                    .and_then(|()| look.index())
                    .and_then(|()| look.hashes());
                (status.join(), hashed)
            });
            let status = status.map_err(|_| refuse(Code::Io, "git status could not be read"))?;
            let (hashed, unstaged) = (hashed?, look.status(&status.map_err(failed)?, ignored)?);
            look.tracked(&hashed, &unstaged)?;
        } else {
            look.commits()?;
            look.index()?;
            look.staged_only()?;
        }
        return look.end();
    }
    look.commits()?;
    if site.root_is_there {
        // Git has forgotten it: nothing can be compared.
        let files = walk.found.iter().filter(|one| one.what != What::Folder);
        look.out.work.extend(files.map(|one| Work {
            kind: Kind::Untracked,
            what: shown(&one.path),
        }));
    }
    look.end()
}

impl Look<'_> {
    fn end(mut self) -> Outcome<Evidence> {
        self.repositories()?;
        let mut out = self.out;
        for list in [&mut out.work, &mut out.aside] {
            list.sort();
            list.dedup();
        }
        Ok(out)
    }

    fn work(&mut self, kind: Kind, what: impl Into<String>) {
        self.out.work.push(Work {
            kind,
            what: what.into(),
        });
    }

    fn aside(&mut self, kind: Kind, what: impl Into<String>) {
        self.out.aside.push(Work {
            kind,
            what: what.into(),
        });
    }

    fn repository(&self) -> Git {
        raw::git(&self.site.common, &self.site.common)
    }

    fn in_progress(&mut self) {
        for (name, what) in [
            ("rebase-merge", "rebase"),
            ("rebase-apply", "rebase"),
            ("MERGE_HEAD", "merge"),
            ("CHERRY_PICK_HEAD", "cherry-pick"),
            ("REVERT_HEAD", "revert"),
            ("sequencer", "cherry-pick"),
            ("BISECT_LOG", "bisect"),
        ] {
            if self.admin.at(Path::new(name)).is_some() {
                self.work(Kind::InProgress, what);
            }
        }
    }

    /// The index as its file has it, `None` if git has to be asked.
    fn index_file(&self) -> Option<Index> {
        let oid = self.out.head.as_ref()?.len() / 2;
        let content = fs::read(self.site.admin.as_ref()?.join("index")).ok()?;
        jit_git::index::parse(&content, oid)
    }

    fn index(&mut self) -> Outcome<()> {
        let known = self.index_file();
        // The index also keeps the sides of resolved conflicts.
        if known.as_ref().is_none_or(|index| index.has_resolved) {
            let undo = self.site.git().args(["ls-files", "-z", "--resolve-undo"]).run();
            for record in records(&undo.map_err(failed)?) {
                self.out.undo.push(record.to_vec());
            }
        }
        if let Some(index) = known {
            let entries = index.entries.into_iter().map(|one| Indexed {
                mode: format!("{:06o}", one.mode),
                oid: one.oid,
                stage: one.stage,
                path: PathBuf::from(OsString::from_vec(one.path)),
                hidden: one.hidden,
            });
            self.out.index.extend(entries);
            return Ok(());
        }
        let listing = self.site.git().args(["ls-files", "-z", "-s", "-v"]).run();
        for record in records(&listing.map_err(failed)?) {
            let Some(tab) = record.iter().position(|b| *b == b'\t') else {
                continue;
            };
            let head = text(record.get(..tab).unwrap_or_default());
            let words: Vec<&str> = head.split_ascii_whitespace().collect();
            if let [tag, mode, oid, stage] = words.as_slice() {
                self.out.index.push(Indexed {
                    hidden: *tag == "S" || tag.bytes().all(|b| b.is_ascii_lowercase()),
                    mode: (*mode).to_owned(),
                    oid: (*oid).to_owned(),
                    stage: stage.parse().unwrap_or(0),
                    path: PathBuf::from(OsStr::from_bytes(record.get(tab + 1..).unwrap_or_default())),
                });
            }
        }
        Ok(())
    }

    /// The folder was deleted or moved: only the index has its files.
    fn staged_only(&mut self) -> Outcome<()> {
        let changed: Vec<PathBuf> = match &self.out.head {
            Some(head) => {
                let diff = self
                    .site
                    .git()
                    .args(["diff-index", "--cached", "-z", "--name-only", "--no-renames"])
                    .args(["--ignore-submodules=none", head, "--"])
                    .run()
                    .map_err(failed)?;
                let path = |record: &[u8]| PathBuf::from(OsStr::from_bytes(record));
                records(&diff).map(path).collect()
            }
            None => self.out.index.iter().map(|one| one.path.clone()).collect(),
        };
        for path in changed {
            self.work(Kind::Staged, shown(&path));
        }
        Ok(())
    }

    /// Reads the output of `git status`. Returns the paths that it reports as changed.
    fn status(&mut self, status: &[u8], ignored: &[String]) -> Outcome<HashSet<PathBuf>> {
        let patterns: Vec<Pattern> = ignored
            .iter()
            .filter_map(|text| Pattern::parse(text).ok())
            .collect();
        let inner = self.walk.repositories();
        let mut changed = HashSet::new();
        for record in records(status) {
            let (Some(marks), Some(name)) = (record.get(..2), record.get(3..)) else {
                continue;
            };
            let path = PathBuf::from(OsStr::from_bytes(name));
            match marks {
                b"!!" => self.ignored(&path, name.ends_with(b"/"), &patterns)?,
                // A repository inside is examined separately.
                b"??" if name.ends_with(b"/") && inner.iter().any(|inner| inner.starts_with(&path)) => {}
                b"??" if self.is_derived(&path) || self.is_in_main(&path) => {}
                b"??" => self.work(Kind::Untracked, shown(&path)),
                [staged, unstaged] => {
                    if *staged != b' ' {
                        self.work(Kind::Staged, shown(&path));
                    }
                    if *unstaged != b' ' {
                        if !self.is_derived(&path) {
                            self.work(Kind::Unstaged, shown(&path));
                        }
                        changed.insert(path);
                    }
                }
                _ => {}
            }
        }
        Ok(changed)
    }

    fn ignored(&mut self, path: &Path, is_folder: bool, patterns: &[Pattern]) -> Outcome<()> {
        let wanted = |path: &Path| {
            let whole = path.to_string_lossy();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            patterns.iter().any(|pattern| {
                pattern.matches(if pattern.as_str().contains('/') {
                    &whole
                } else {
                    &name
                })
            })
        };
        if is_folder {
            for one in self.walk.below(path).filter(|one| one.what == What::File) {
                if wanted(&one.path) && !self.is_in_main(&one.path) {
                    self.out.work.push(Work {
                        kind: Kind::Ignored,
                        what: shown(&one.path),
                    });
                    self.out.work_inside.push(one.path.clone());
                }
            }
            self.out.ignored_folders.push(path.to_owned());
            if !is_made_again(path) {
                self.keep_inside(path);
            }
            return Ok(());
        }
        let is_link = self.walk.at(path).is_some_and(|one| one.what == What::Link);
        if self.is_derived(path) || self.is_in_main(path) {
            return Ok(());
        }
        if wanted(path) {
            self.work(Kind::Ignored, shown(path));
        } else if !is_link {
            self.aside(Kind::Ignored, shown(path));
        }
        Ok(())
    }

    /// A folder that git ignores and that no known tool creates: notes, data, secrets. Its files are kept without
    /// asking, like single ignored files.
    fn keep_inside(&mut self, folder: &Path) {
        let files: Vec<(PathBuf, u64)> = self
            .walk
            .below(folder)
            .filter(|one| one.what == What::File)
            .map(|one| (one.path.clone(), one.size))
            .collect();
        let size = files
            .iter()
            .fold(0_u64, |all, (_, size)| all.saturating_add(*size));
        if size > MOST_KEPT || files.len() > MOST_FILES {
            return;
        }
        for (path, _) in files {
            let below_made = path
                .strip_prefix(folder)
                .is_ok_and(|rest| rest.ancestors().skip(1).any(is_made_again));
            if !below_made && !self.out.work_inside.contains(&path) && !self.is_in_main(&path) {
                self.aside(Kind::Ignored, shown(&path));
                self.out.work_inside.push(path);
            }
        }
    }

    /// Returns whether the main worktree has the same file or link, or is the destination of the link: it was copied
    /// from there.
    fn is_in_main(&self, path: &Path) -> bool {
        let Some(main) = &self.site.main else { return false };
        let (here, there) = (self.site.root.join(path), main.join(path));
        match fs::read_link(&here) {
            Ok(goal) => {
                fs::read_link(&there).is_ok_and(|known| known == goal)
                    || (goal == there && there.symlink_metadata().is_ok())
            }
            Err(_) => same_content(&here, &there),
        }
    }

    /// Returns whether jit wrote the file and would write the same again.
    fn is_derived(&self, path: &Path) -> bool {
        let parts: Vec<&str> = path.iter().filter_map(OsStr::to_str).collect();
        match parts.as_slice() {
            [".jit", "worktree.json"] => true,
            [".jit", "gates", "results", _] => true,
            [".jit", "issues", id, name] => {
                let replica = self.site.control.join("issues").join(id).join(name);
                name.ends_with(".tmp") || same_content(&self.site.root.join(path), &replica)
            }
            _ => false,
        }
    }

    /// The tracked files that are there, with the object ids of their bytes.
    fn hashes(&self) -> Outcome<Vec<(Indexed, String)>> {
        let entries: Vec<Indexed> = self
            .out
            .index
            .iter()
            .filter(|one| one.stage == 0 && one.mode.starts_with("100"))
            .filter(|one| {
                self.walk
                    .at(&one.path)
                    .is_some_and(|found| found.what == What::File)
            })
            .cloned()
            .collect();
        let paths: Vec<&Path> = entries.iter().map(|one| one.path.as_path()).collect();
        let hashes = raw::hashes(&self.site.common, &self.site.root, &paths, false)?;
        Ok(entries.into_iter().zip(hashes).collect())
    }

    /// Finds tracked files whose bytes differ from the index although git's status does not show it.
    fn tracked(&mut self, hashed: &[(Indexed, String)], unstaged: &HashSet<PathBuf>) -> Outcome<()> {
        let differ: Vec<&Indexed> = hashed
            .iter()
            .filter(|(one, hash)| {
                one.oid != *hash && !unstaged.contains(&one.path) && !self.is_derived(&one.path)
            })
            .map(|(one, _)| one)
            .collect();
        let few = differ.len() <= MOST_FILTERED;
        for one in &differ {
            let path = shown(&one.path);
            if one.hidden {
                self.work(Kind::Hidden, path);
            } else if !few || !self.gives_back(one) {
                self.aside(Kind::Raw, path);
            }
        }
        // Paths that should be a link or a submodule, and that git was told not to check.
        let hidden: Vec<PathBuf> = self
            .out
            .index
            .iter()
            .filter(|one| one.hidden && !one.mode.starts_with("100"))
            .map(|one| one.path.clone())
            .collect();
        for path in hidden {
            if self.walk.at(&path).is_some() {
                self.work(Kind::Hidden, shown(&path));
            }
        }
        Ok(())
    }

    /// Returns whether a checkout would write exactly the bytes that are there.
    fn gives_back(&self, one: &Indexed) -> bool {
        let mut option = OsString::from("--path=");
        option.push(&one.path);
        let smudged = self
            .site
            .git()
            .args(["cat-file", "--filters"])
            .arg(option)
            .arg(&one.oid)
            .run();
        match (smudged, fs::read(self.site.root.join(&one.path))) {
            (Ok(smudged), Ok(there)) => smudged == there,
            _ => false,
        }
    }

    /// Examines the repositories inside: their commits must be on a remote of theirs.
    fn repositories(&mut self) -> Outcome<()> {
        let bare = self.walk.bare_repositories();
        for inner in self.walk.repositories() {
            let root = self.site.root.join(&inner);
            if holds_something(&|| quiet(Git::at(&root)), true) {
                self.work(Kind::Repository, shown(&inner));
                self.out.work_inside.push(inner);
            }
        }
        let tracked: HashSet<&Path> = match bare.is_empty() {
            true => HashSet::new(),
            false => self.out.index.iter().map(|one| one.path.as_path()).collect(),
        };
        // A repository whose files are all in the index is content of this one, such as the data of a test. Its changes
        // were found like those of any other file.
        let is_content = |inner: &PathBuf| {
            let mut files = self.walk.below(inner).filter(|one| one.what != What::Folder);
            files.all(|one| tracked.contains(one.path.as_path()))
        };
        let bare: Vec<PathBuf> = bare.into_iter().filter(|inner| !is_content(inner)).collect();
        for inner in bare {
            let root = self.site.root.join(&inner);
            if holds_something(&|| quiet(Git::in_git_dir(&root)), false) {
                self.work(Kind::Repository, shown(&inner));
                self.out.work_inside.push(inner);
            }
        }
        // The git folders of submodules are inside the git folder of the worktree, even if they are not checked out
        // now.
        if let Some(admin) = &self.site.admin {
            let modules = Path::new("modules");
            let heads = self
                .admin
                .below(modules)
                .filter(|one| one.path.file_name() == Some(OsStr::new("HEAD")));
            let folders: Vec<PathBuf> = heads
                .filter_map(|one| one.path.parent().map(Path::to_owned))
                .filter(|folder| self.admin.at(&folder.join("objects")).is_some())
                .collect();
            for folder in folders {
                let git_dir = admin.join(&folder);
                let bare = || quiet(Git::in_git_dir(&git_dir)).setting("core.worktree", &git_dir);
                if holds_something(&bare, false) {
                    self.work(
                        Kind::Repository,
                        shown(folder.strip_prefix(modules).unwrap_or(&folder)),
                    );
                }
            }
        }
        Ok(())
    }
}

/// The answer of git about the files of a worktree.
fn status_of(site: &Site) -> Result<Vec<u8>, GitError> {
    site.git()
        .args(["status", "--porcelain=v1", "-z", "--no-renames"])
        .args(["--untracked-files=all", "--ignored=matching"])
        .arg("--ignore-submodules=none")
        .run()
}

fn quiet(git: Git) -> Git {
    git.arg("--no-optional-locks")
}

/// Returns whether a repository has commits that are on no remote, or files that are in no commit. True if it cannot
/// be read.
fn holds_something(git: &dyn Fn() -> Git, files: bool) -> bool {
    let nothing = |out: Result<Vec<u8>, GitError>| out.is_ok_and(|out| out.is_empty());
    let commits = git().args([
        "rev-list",
        "--max-count=1",
        "--all",
        "--reflog",
        "--not",
        "--remotes",
    ]);
    // A detached HEAD is not among all refs.
    let head_is_safe = match git().verify("HEAD") {
        Ok(Some(head)) => nothing(
            git()
                .args(["rev-list", "--max-count=1", &head, "--not", "--remotes"])
                .run(),
        ),
        Ok(None) => true,
        Err(_) => false,
    };
    let status = git().args([
        "status",
        "--porcelain",
        "--untracked-files=all",
        "--ignore-submodules=none",
    ]);
    !(head_is_safe && nothing(commits.run()) && (!files || nothing(status.run())))
}

fn lines(out: &[u8]) -> impl Iterator<Item = String> {
    out.split(|b| *b == b'\n')
        .filter(|line| !line.is_empty())
        .map(text)
}

fn records(out: &[u8]) -> impl Iterator<Item = &[u8]> {
    out.split(|b| *b == 0).filter(|record| !record.is_empty())
}

fn same_content(a: &Path, b: &Path) -> bool {
    match (
        file::read_real(a, MOST_COMPARED),
        file::read_real(b, MOST_COMPARED),
    ) {
        (Ok(Some(a)), Ok(Some(b))) => a == b,
        _ => false,
    }
}
