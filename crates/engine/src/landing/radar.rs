//! Predicts which worktrees will conflict, while the work is still in progress (H8).
//!
//! Each worktree is captured as it is now, with uncommitted and new files. It is merged with every other worktree and
//! with the target.
//!
//! What must hold:
//!
//! - Nothing is written. The worktree and its index stay untouched: a copy of the index is used, which no other
//!   program refreshes. The repository stays untouched: objects go to a folder that is removed afterwards.
//! - A worktree that cannot be read is named. It does not hide any other.
//! - After a save only the folder of the saved file is compared with the index.
//! - A repeated look costs only what changed. An untouched worktree is not captured again. Two commits that were
//!   merged once are not merged again while the target stays.
//!
//! Limitations: `.jit/` counts only as far as it is committed. Ignored files do not count. A submodule counts by its
//! commit.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jit_core::model::refusal::{Code, Refusal};
use jit_git::snapshot::{Folder, SnapshotError, copy_index, option, quoted};
use jit_git::{Git, WorktreeEntry, refs};
use jit_store::Outcome;

use super::Repo;
use super::detect::{self, Changed, UNRELATED};
use super::large_files::LargeFiles;
use crate::api::landing::{Pair, PairPath, Participant, Picture};
use crate::landing::squash_base as squashed;
use crate::refusals::refuse;

/// One side of a merge.
#[derive(Debug, Clone)]
struct Side {
    who: Participant,
    /// A commit of everything in the worktree.
    commit: String,
}

/// The part of a worktree that may have changed since the last look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Touched {
    No,
    /// Only directly in these folders.
    In(BTreeSet<PathBuf>),
    All,
}

/// A worktree as it was at the last look.
#[derive(Debug, Clone)]
struct Taken {
    head: String,
    head_tree: String,
    /// The captured tree, and a commit of it.
    tree: String,
    commit: String,
    uncommitted: bool,
    /// The copy of its index, with everything in it, and the stamp of the index itself at that time.
    index: PathBuf,
    index_was: Option<Stamp>,
    large: LargeFiles,
}

/// Modification time, length and inode: a different stamp means different content.
type Stamp = (SystemTime, u64, u64);

fn stamp(path: &Path) -> Option<Stamp> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len(), meta.ino()))
}

/// With more changed folders than this, the whole worktree is compared.
const FOLDERS: usize = 50;

/// The changes of a commit since it left the target, and where it left.
type Since = (Option<String>, Changed);

/// Captures and compares worktrees, and remembers the results for the next look.
#[derive(Debug)]
pub struct Live {
    repo: Repo,
    /// Objects for uncommitted files, which may be large.
    folder: Folder,
    /// Objects for the results of merges.
    results: Folder,
    taken: HashMap<PathBuf, Taken>,
    /// The number of the last index copy.
    indexes: usize,
    /// The fields below hold for this commit of the target.
    tip: String,
    /// The recent history of the target contains a squash.
    squashes: Option<bool>,
    since: HashMap<String, Since>,
    /// The conflicting paths, by the two commits.
    merged: HashMap<(String, String), Vec<PairPath>>,
}

impl Live {
    pub fn new(repo: &Repo) -> Outcome<Self> {
        let failed = |e: SnapshotError| Box::new(Refusal::new(Code::Io, e.to_string()));
        Ok(Self {
            repo: repo.clone(),
            folder: Folder::make(repo.scratch()).map_err(failed)?,
            results: Folder::in_memory(repo.scratch()).map_err(failed)?,
            taken: HashMap::new(),
            indexes: 0,
            tip: String::new(),
            squashes: None,
            since: HashMap::new(),
            merged: HashMap::new(),
        })
    }

    /// Git that writes new objects to a folder that is removed with this value.
    fn aside(&self, git: Git) -> Git {
        let known = quoted(&self.repo.common.join("objects"));
        beside(git, &self.folder.path.join("objects"), known)
    }

    /// Like [`Self::aside`], but the results of merges go to another folder.
    fn merging(&self, git: Git) -> Git {
        let mut known = quoted(&self.folder.path.join("objects"));
        known.push(":");
        known.push(quoted(&self.repo.common.join("objects")));
        beside(git, &self.results.path.join("objects"), known)
    }

    /// The worktrees that a look covers.
    pub fn worktrees(repo: &Repo) -> Outcome<Vec<(PathBuf, WorktreeEntry)>> {
        let all = crate::worktree_identity::list(&repo.common)
            .map_err(|e| Box::new(Refusal::new(Code::Io, e.to_string())))?;
        let there = all.into_iter().filter_map(|entry| {
            let root = entry
                .root
                .clone()
                .filter(|root| root.is_dir() && !entry.is_bare)?;
            // Trial worktrees of landings are left out.
            (!root.starts_with(repo.scratch())).then_some((root, entry))
        });
        Ok(there.collect())
    }

    /// Looks at every worktree. `unit_of` names the unit of a folder. `touched` returns what may have changed in it
    /// since the last look.
    pub fn look(
        &mut self,
        target: &str,
        unit_of: impl Fn(&Path) -> Option<String>,
        touched: impl Fn(&Path) -> Touched,
    ) -> Outcome<Picture> {
        let (mut sides, mut unknown, mut taken) = (Vec::new(), Vec::new(), HashMap::new());
        for (root, entry) in Self::worktrees(&self.repo)? {
            let unit = unit_of(&root);
            let last = || root.file_name().map(|name| name.to_string_lossy().into_owned());
            let mut who = Participant {
                name: unit
                    .clone()
                    .or_else(|| entry.branch.clone().filter(|branch| branch != target))
                    .or_else(last)
                    .unwrap_or_default(),
                unit,
                branch: entry.branch.clone(),
                root: Some(root.to_string_lossy().into_owned()),
                uncommitted: false,
                changed_paths: 0,
                unknown: None,
            };
            let before = self.taken.remove(&root);
            match self.take(&entry, &root, before, touched(&root)) {
                Ok(Some(now)) => {
                    who.uncommitted = now.uncommitted;
                    sides.push(Side {
                        who,
                        commit: now.commit.clone(),
                    });
                    taken.insert(root, now);
                }
                Ok(None) => unknown.push(who),
                Err(why) => {
                    who.unknown = Some(why);
                    unknown.push(who);
                }
            }
        }
        self.taken = taken;
        let mut picture = self.compare(target, sides)?;
        picture.worktrees.append(&mut unknown);
        picture.worktrees.sort_by(|a, b| a.root.cmp(&b.root));
        Ok(picture)
    }

    /// Compares branches, as they are committed.
    pub fn branches(&mut self, target: &str, names: &[String]) -> Outcome<Picture> {
        let commits: Vec<String> = names
            .iter()
            .map(|name| self.tip_now(name))
            .collect::<Outcome<_>>()?;
        let sides = names.iter().zip(commits).map(|(name, commit)| Side {
            who: Participant {
                name: name.clone(),
                unit: None,
                branch: Some(name.clone()),
                root: None,
                uncommitted: false,
                changed_paths: 0,
                unknown: None,
            },
            commit,
        });
        self.compare(target, sides.collect())
    }

    /// The commit of a branch, as its file has it now.
    fn tip_now(&self, branch: &str) -> Outcome<String> {
        match refs::commit_of(&self.repo.common, &format!("refs/heads/{branch}")) {
            Ok(Some(commit)) => Ok(commit),
            // Git says why.
            _ => self.repo.require_tip(branch),
        }
    }

    /// Merges all pairs, and each side with the target.
    fn compare(&mut self, target: &str, mut sides: Vec<Side>) -> Outcome<Picture> {
        let tip = self.tip_now(target)?;
        if tip != self.tip {
            self.since.clear();
            self.merged.clear();
            self.squashes = None;
            self.tip = tip.clone();
        }
        // Two processes of git that need nothing of each other.
        let (repo, squashes) = (self.repo.clone(), self.squashes);
        let squashes = std::thread::scope(|scope| {
            let asked = scope.spawn(|| squashes.map_or_else(|| squashed::squashes(&repo, &tip), Ok));
            self.learn(&sides)?;
            let known = asked.join();
            known.unwrap_or_else(|_| Err(refuse(Code::Io, "the history of the target could not be read")))
        })?;
        self.squashes = Some(squashes);
        let since: Vec<Since> = sides
            .iter()
            .map(|side| self.since.get(&side.commit).cloned().unwrap_or_default())
            .collect();
        let mut asked: Vec<(usize, Option<usize>)> = Vec::new();
        let mut unrelated: Vec<usize> = Vec::new();
        for (n, (side, (base, changed))) in sides.iter_mut().zip(&since).enumerate() {
            side.who.changed_paths = changed.paths.len();
            if base.is_none() {
                // A landing refuses it. A worktree that is no unit has perhaps a history of its own on purpose.
                if side.who.unit.is_some() || side.who.root.is_none() {
                    unrelated.push(n);
                }
                continue;
            }
            if changed.paths.is_empty() {
                continue;
            }
            if side.commit != tip && base.as_deref() != Some(&tip) {
                asked.push((n, None));
            }
            for (m, (other_base, other)) in since.iter().enumerate().skip(n + 1) {
                let apart = base == other_base && base.is_some() && !changed.may_meet(other);
                if !other.paths.is_empty() && !apart {
                    asked.push((n, Some(m)));
                }
            }
        }
        let commit = |n: usize| sides.get(n).map_or_else(String::new, |one| one.commit.clone());
        let pairs: Vec<(String, String)> = asked
            .iter()
            .map(|(n, m)| (m.map_or_else(|| tip.clone(), commit), commit(*n)))
            .collect();
        let wanted: HashSet<&(String, String)> = pairs.iter().collect();
        self.merged.retain(|pair, _| wanted.contains(pair));
        let new: Vec<(String, String)> = pairs
            .iter()
            .filter(|pair| !self.merged.contains_key(pair))
            .cloned()
            .collect();
        let mut exact = new.clone();
        let merging = || self.merging(self.repo.git());
        for (ours, theirs) in exact.iter_mut().filter(|(ours, _)| squashes && *ours == tip) {
            *ours = squashed::joined(&merging, ours, theirs)?;
        }
        let merges = detect::merges(&merging, self.repo.scratch(), &tip, &exact)?;
        for (pair, merge) in new.iter().zip(merges) {
            let paths = merge
                .conflicts
                .iter()
                .filter(|_| !merge.clean)
                .map(|one| PairPath {
                    path: one.shown(),
                    kind: one.kind.clone(),
                });
            self.merged.insert(pair.clone(), paths.collect());
        }
        let name = |n: usize| sides.get(n).map_or_else(String::new, |one| one.who.name.clone());
        let of_unrelated = |n: usize| Pair {
            a: name(n),
            b: target.to_owned(),
            paths: vec![PairPath {
                path: ".".to_owned(),
                kind: UNRELATED.to_owned(),
            }],
        };
        let mut conflicts: Vec<Pair> = unrelated.into_iter().map(of_unrelated).collect();
        for ((n, m), pair) in asked.iter().zip(&pairs) {
            let Some(paths) = self.merged.get(pair).filter(|paths| !paths.is_empty()) else {
                continue;
            };
            conflicts.push(Pair {
                a: name(*n),
                b: m.map_or_else(|| target.to_owned(), name),
                paths: paths.clone(),
            });
        }
        Ok(Picture {
            target: target.to_owned(),
            worktrees: sides.into_iter().map(|side| side.who).collect(),
            conflicts,
            merges: pairs.len(),
        })
    }

    /// Reads the changes of these sides, as far as they are not known.
    fn learn(&mut self, sides: &[Side]) -> Outcome<()> {
        self.since
            .retain(|commit, _| sides.iter().any(|side| side.commit == *commit));
        let mut new: Vec<String> = sides
            .iter()
            .map(|side| side.commit.clone())
            .filter(|commit| !self.since.contains_key(commit))
            .collect();
        new.sort();
        new.dedup();
        let git = || self.aside(self.repo.git());
        let changes = self.repo.changes_in(git, &self.tip, &new)?;
        self.since.extend(new.into_iter().zip(changes));
        Ok(())
    }

    /// Captures a worktree as it is now. `None` if it has no commit yet.
    fn take(
        &mut self,
        entry: &WorktreeEntry,
        root: &Path,
        before: Option<Taken>,
        touched: Touched,
    ) -> Result<Option<Taken>, String> {
        let Some(head) = &entry.head else {
            return Ok(None);
        };
        let own_index = entry.git_dir.join("index");
        let mut before = before;
        if let Some(known) = before.take_if(|known| known.head == *head) {
            match touched {
                Touched::No => return Ok(Some(known)),
                Touched::In(folders) if folders.len() <= FOLDERS && known.index_was == stamp(&own_index) => {
                    let where_to = folders.iter().map(|folder| pathspec(root, folder));
                    let specs: Option<Vec<OsString>> = where_to.collect();
                    // If a part cannot be captured, the whole worktree is.
                    if let Some(specs) = specs
                        && let Ok(now) = self.commit(entry, root, &known, &specs)
                    {
                        return Ok(Some(now));
                    }
                    before = Some(known);
                }
                Touched::In(_) | Touched::All => before = Some(known),
            }
        }
        if let Some(old) = &before {
            let _ = std::fs::remove_file(&old.index);
        }
        self.indexes += 1;
        let index = self.folder.path.join(format!("index-{}", self.indexes));
        let index_was = stamp(&own_index);
        copy_index(&own_index, &index).map_err(|e| e.to_string())?;
        let large = before.as_ref().map(|old| old.large.clone());
        let head_tree = match before {
            Some(old) if old.head == *head => old.head_tree,
            _ => {
                let tree = self.repo.object(&format!("{head}^{{tree}}"));
                let tree = tree.map_err(|refusal| refusal.message)?;
                tree.ok_or_else(|| format!("there is no commit {head}"))?
            }
        };
        let begun = Taken {
            head: head.clone(),
            tree: head_tree.clone(),
            head_tree,
            commit: head.clone(),
            uncommitted: false,
            index,
            index_was,
            large: large.unwrap_or_default(),
        };
        let git = || self.with_index(entry, root, &begun);
        let mut specs = vec![OsString::from(".")];
        specs.extend(begun.large.put(&git, root));
        let mut now = self.commit(entry, root, &begun, &specs)?;
        now.large = match now.uncommitted {
            true => LargeFiles::of(git(), root, &now.head_tree, &now.tree).unwrap_or_default(),
            false => LargeFiles::default(),
        };
        Ok(Some(now))
    }

    /// Git in a worktree, with the copy of its index.
    fn with_index(&self, entry: &WorktreeEntry, root: &Path, taken: &Taken) -> Git {
        self.aside(
            Git::at(root)
                .arg(option("--git-dir=", &entry.git_dir))
                .arg(option("--work-tree=", root))
                .env("GIT_INDEX_FILE", &taken.index)
                .setting("core.splitIndex", "false")
                .setting("core.untrackedCache", "false")
                .setting("core.safecrlf", "false")
                .setting("index.skipHash", "true")
                .setting("add.ignoreErrors", "false")
                .setting("advice.addEmbeddedRepo", "false"),
        )
    }

    /// Updates the copy of the index from the files, and makes a commit of it.
    fn commit(
        &self,
        entry: &WorktreeEntry,
        root: &Path,
        taken: &Taken,
        specs: &[OsString],
    ) -> Result<Taken, String> {
        let git = || self.with_index(entry, root, taken);
        let said = |e: jit_git::GitError| e.to_string();
        git()
            .args(["add", "-A", "--"])
            .args(specs)
            .arg(":(top,exclude,literal).jit")
            .run()
            .map_err(said)?;
        let tree = git().arg("write-tree").line().map_err(said)?;
        let uncommitted = tree != taken.head_tree;
        let commit = match uncommitted {
            false => taken.head.clone(),
            true => git()
                .env("GIT_AUTHOR_NAME", "jit")
                .env("GIT_AUTHOR_EMAIL", "jit@jit.invalid")
                .env("GIT_COMMITTER_NAME", "jit")
                .env("GIT_COMMITTER_EMAIL", "jit@jit.invalid")
                // The same content gives the same commit id at any time.
                .env("GIT_AUTHOR_DATE", "@0 +0000")
                .env("GIT_COMMITTER_DATE", "@0 +0000")
                .args(["commit-tree", &tree, "-p", &taken.head, "-m", "as it is now"])
                .line()
                .map_err(said)?,
        };
        Ok(Taken {
            tree,
            commit,
            uncommitted,
            ..taken.clone()
        })
    }
}

fn beside(git: Git, objects: &Path, known: OsString) -> Git {
    git.env("GIT_OBJECT_DIRECTORY", objects)
        .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", known)
        .setting("core.fsync", "none")
        .setting("core.looseCompression", "0")
}

/// The pathspec that limits git to one folder. `None` for a folder outside of the root, such as git's own folder, and
/// for the root itself, which contains everything.
fn pathspec(root: &Path, folder: &Path) -> Option<OsString> {
    let below = folder
        .strip_prefix(root)
        .ok()
        .filter(|below| !below.as_os_str().is_empty())?;
    // A folder that is gone cannot be named.
    folder.is_dir().then(|| {
        let mut spec = OsString::from(":(top,literal)");
        spec.push(below);
        spec
    })
}
