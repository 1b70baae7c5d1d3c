//! Watches all worktrees and reports which of them conflict (H8).
//!
//! What must hold:
//!
//! - After a save, only the worktree with the saved file is read again.
//! - A change that the kernel did not report is found at the next full look, a minute later. The interval is longer if
//!   a full look takes seconds.
//! - If the kernel reports nothing at all, every look is a full look.
//! - Each change is written to the log once. A watcher that sees no difference to its last look writes nothing, so a
//!   watcher that is a moment behind does not undo the entries of another. Entries that the log does not accept yet
//!   (see `decide::conflicts` in the core) are sent again some seconds later, from a new look.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jit_core::decide::command::{Command, CommandReply as Decided};
use jit_core::log::state;
use jit_core::model::conflict::{Conflict, MOST_PATHS, Seen, Side};
use jit_core::model::refusal::Code;
use jit_core::model::unit::Clash;
use jit_git::Git;
use jit_os::io_refusal;
use jit_os::watch_trees::Trees;
use jit_store::Outcome;

use crate::api::landing::Picture;
use crate::context::Context;
use crate::landing::radar::{Live, Touched};
use crate::landing::{Repo, notes};
use crate::refusals::refuse;
use crate::units::worktree_locate::real;
use crate::write_path::WriteOptions;

/// After this time everything is read, whatever the kernel reported.
const EVERYTHING: Duration = Duration::from_secs(60);
/// A look is followed by a pause of the same length, but no longer than this.
const MOST_REST: Duration = Duration::from_millis(200);
/// A save is often more than one write: changes within this time belong to it.
const SETTLES: Duration = Duration::from_millis(5);
/// After this number of looks the folder with their objects is recreated.
const LOOKS: usize = 1000;
/// Maximum time to wait for the log. Writing to it is a side task of a look.
const FOR_THE_LOG: Duration = Duration::from_millis(500);
/// Pause before entries that the log did not accept are sent again.
const TELL_AGAIN: Duration = Duration::from_secs(5);
/// Longer paths are cut.
const LONGEST_PATH: usize = 4096;
/// Tree number of the folders that belong to the repository and to no worktree.
const SHARED: usize = usize::MAX;

/// A running watch.
#[derive(Debug)]
pub struct ConflictWatch<'a> {
    cx: &'a Context,
    repo: Repo,
    target: String,
    live: Live,
    looks: usize,
    trees: Trees,
    /// The worktrees that are watched, by their numbers.
    roots: BTreeMap<usize, PathBuf>,
    /// Folders with changes since the last look.
    touched: BTreeMap<usize, BTreeSet<PathBuf>>,
    everything: bool,
    last_full: Instant,
    everything_after: Duration,
    /// If files change all the time, this leaves time for other work on the machine.
    rest_until: Instant,
    /// Whether the affected sessions and the log are notified.
    tells: bool,
    /// The last state that was written to the log.
    noted: Option<Seen>,
    /// Some entries were held back, or may have been: they are sent again at this time.
    tell_again: Option<Instant>,
}

/// Starts a watch. Nothing has been read yet.
pub fn watch_conflicts<'a>(cx: &'a Context, into: Option<&str>) -> Outcome<ConflictWatch<'a>> {
    let repo = crate::landing::service::landing_repo(cx)?;
    let target = crate::landing::service::usual_target(cx, &repo);
    // Two watchers for different targets would overwrite each other's notes in turn.
    let usual = into.is_none_or(|into| target.as_ref().is_ok_and(|usual| usual == into));
    let target = match into {
        Some(into) => into.to_owned(),
        None => target?,
    };
    let trees = Trees::new().map_err(|e| io_refusal("watch", &repo.common, &e))?;
    let mut watch = ConflictWatch {
        cx,
        live: Live::new(&repo)?,
        target,
        looks: 0,
        trees,
        roots: BTreeMap::new(),
        touched: BTreeMap::new(),
        everything: true,
        last_full: Instant::now(),
        everything_after: EVERYTHING,
        rest_until: Instant::now(),
        tells: usual,
        noted: None,
        tell_again: None,
        repo,
    };
    let common = watch.repo.common.clone();
    for (folder, deep) in [
        (common.clone(), false),
        (common.join("refs/heads"), true),
        (common.join("worktrees"), false),
    ] {
        watch.trees.add(SHARED, &folder, deep, &|_| false);
    }
    watch.watch_worktrees()?;
    Ok(watch)
}

/// The unit of each worktree that has one, by its real folder.
pub(crate) fn unit_roots(cx: &Context) -> Outcome<BTreeMap<PathBuf, String>> {
    let view = crate::write_path::view(cx)?;
    let units = state::units(&*view.table).map_err(|e| refuse(Code::Io, e))?;
    Ok(crate::units::worktree_locate::located_all(cx, units)
        .iter()
        .filter(|unit| !unit.is_over())
        .map(|unit| (real(Path::new(&unit.worktree_path)), unit.id.to_string()))
        .collect())
}

impl ConflictWatch<'_> {
    /// Returns the current conflicts, and notifies the sessions that a new conflict affects.
    pub fn look(&mut self) -> Outcome<Picture> {
        self.watch_worktrees()?;
        let full = std::mem::take(&mut self.everything);
        let touched: BTreeMap<PathBuf, BTreeSet<PathBuf>> = std::mem::take(&mut self.touched)
            .into_iter()
            .filter_map(|(number, folders)| Some((self.roots.get(&number)?.clone(), folders)))
            .collect();
        let begun = Instant::now();
        self.looks += 1;
        if self.looks.is_multiple_of(LOOKS) {
            self.live = Live::new(&self.repo)?;
        }
        let units = unit_roots(self.cx)?;
        let picture = self.live.look(
            &self.target,
            |root| units.get(&real(root)).cloned(),
            |root| match touched.get(root) {
                _ if full => Touched::All,
                None => Touched::No,
                Some(folders) => Touched::In(folders.clone()),
            },
        )?;
        if self.tells {
            // The caller asked for the picture. A note that cannot be written does not end the watch.
            let _ = notes::tell(&self.cx.place.control_dir, &picture);
            self.note(&picture);
        }
        self.rest_until = Instant::now() + begun.elapsed().min(MOST_REST);
        if full {
            self.last_full = Instant::now();
            self.everything_after = EVERYTHING.max(begun.elapsed() * 20);
        }
        Ok(picture)
    }

    /// Writes new and resolved conflicts to the log. If the write fails, the next look tries again.
    fn note(&mut self, picture: &Picture) {
        let mut seen = seen(picture);
        let is_due = self.tell_again.is_some_and(|at| Instant::now() >= at);
        if self.noted.as_ref() == Some(&seen) && !is_due {
            return;
        }
        let noted = seen.clone();
        seen.lost = self.lost_targets().unwrap_or_default();
        let command = Command::NoteConflicts(Box::new(seen));
        let options = WriteOptions {
            aside: Some(FOR_THE_LOG),
            project: false,
            ..WriteOptions::default()
        };
        let all_told = match crate::write_path::transact_as(self.cx, None, &command, options) {
            Ok(done) => {
                self.noted = Some(noted);
                matches!(done.reply, Decided::Conflicts(0))
            }
            Err(_) => false,
        };
        self.tell_again = (!all_told).then(|| Instant::now() + TELL_AGAIN);
    }

    /// Other targets for which the log has conflicts, and whose branches are gone.
    fn lost_targets(&self) -> Outcome<Vec<String>> {
        let view = crate::write_path::view(self.cx)?;
        let all = state::conflicts(&*view.table).map_err(|e| refuse(Code::Io, e))?;
        let names: BTreeSet<String> = all.into_iter().map(|one| one.target).collect();
        let mut lost = Vec::new();
        for name in names.into_iter().filter(|name| *name != self.target) {
            if self.repo.tip(&name)?.is_none() {
                lost.push(name);
            }
        }
        Ok(lost)
    }

    /// Returns when something may have changed, or after `interval` if the kernel reports nothing.
    pub fn wait(&mut self, interval: Duration) -> Outcome<()> {
        let common = self.repo.common.clone();
        let failed = |e: std::io::Error| io_refusal("watch", &common, &e);
        loop {
            let mut longest = match self.trees.is_blind() {
                true => interval,
                false => self.everything_after.saturating_sub(self.last_full.elapsed()),
            };
            if let Some(at) = self.tell_again {
                longest = longest.min(at.saturating_duration_since(Instant::now()));
            }
            let mut changes = self.trees.wait(longest).map_err(failed)?;
            if !changes.trees.is_empty() {
                let rest = self.rest_until.saturating_duration_since(Instant::now());
                std::thread::sleep(rest.max(SETTLES));
                let more = self.trees.wait(Duration::ZERO).map_err(failed)?;
                for (tree, folders) in more.trees {
                    changes.trees.entry(tree).or_default().extend(folders);
                }
                changes.anything |= more.anything;
                changes.folders.extend(more.folders);
            }
            self.everything |= changes.anything || self.last_full.elapsed() >= self.everything_after;
            let folders = std::mem::take(&mut changes.folders);
            for (tree, folder) in folders {
                self.watch_folder(tree, &folder);
            }
            let some = !changes.trees.is_empty();
            for (tree, folders) in changes.trees {
                self.touched.entry(tree).or_default().extend(folders);
            }
            let is_due = self.tell_again.is_some_and(|at| Instant::now() >= at);
            if self.everything || some || is_due {
                return Ok(());
            }
        }
    }

    /// Watches a folder that is new in a tree.
    fn watch_folder(&mut self, tree: usize, folder: &Path) {
        if tree == SHARED {
            let deep = folder.starts_with(self.repo.common.join("refs"));
            self.trees.add(tree, folder, deep, &|_| false);
            return;
        }
        let Some(root) = self.roots.get(&tree).cloned() else {
            return;
        };
        let hidden = ignored(&root, folder);
        if !hidden.contains(folder) {
            self.trees
                .add(tree, folder, true, &|path| is_git(path) || hidden.contains(path));
        }
    }

    /// Watches new worktrees, and forgets the removed ones.
    fn watch_worktrees(&mut self) -> Outcome<()> {
        let all = Live::worktrees(&self.repo)?;
        let gone: Vec<usize> = self
            .roots
            .iter()
            .filter(|(_, root)| !all.iter().any(|(there, _)| there == *root))
            .map(|(number, _)| *number)
            .collect();
        for number in gone {
            self.roots.remove(&number);
        }
        for (root, entry) in all {
            if self.roots.values().any(|known| *known == root) {
                continue;
            }
            let number = self.roots.keys().next_back().map_or(0, |last| last + 1);
            let hidden = ignored(&root, &root);
            self.trees
                .add(number, &root, true, &|path| is_git(path) || hidden.contains(path));
            // Its index and its HEAD.
            if entry.git_dir != self.repo.common {
                self.trees.add(number, &entry.git_dir, false, &|_| true);
            }
            self.roots.insert(number, root);
        }
        Ok(())
    }
}

/// The part of a picture that the log records.
fn seen(picture: &Picture) -> Seen {
    let plain = |text: &str| -> String { text.chars().filter(|c| !c.is_control()).take(200).collect() };
    // The name of a file is kept whole, with every character.
    let whole = |path: &str| -> String { path.chars().take(LONGEST_PATH).collect() };
    let side = |name: &str| {
        let found = picture.worktrees.iter().find(|one| one.name == name);
        Side {
            name: plain(name),
            unit: found.and_then(|one| one.unit.clone()),
            worktree_path: found.and_then(|one| one.root.as_deref()).map(plain),
        }
    };
    let mut conflicts: Vec<Conflict> = Vec::with_capacity(picture.conflicts.len());
    for pair in &picture.conflicts {
        let mut paths: Vec<Clash> = pair
            .paths
            .iter()
            .map(|one| Clash {
                path: whole(&one.path),
                kind: plain(&one.kind),
            })
            .collect();
        paths.sort();
        let more_paths = paths.len().saturating_sub(MOST_PATHS);
        paths.truncate(MOST_PATHS);
        let (a, b) = (side(&pair.a), side(&pair.b));
        // The order of two units is normalized: a swap is no change.
        let (a, b) = match b.name != picture.target && b.name < a.name {
            true => (b, a),
            false => (a, b),
        };
        conflicts.push(Conflict {
            target: plain(&picture.target),
            a,
            b,
            paths,
            more_paths,
            told_at: None,
        });
    }
    conflicts.sort_by_key(Conflict::key);
    let unknown = picture.worktrees.iter().filter(|one| one.unknown.is_some());
    Seen {
        target: plain(&picture.target),
        unknown: unknown.map(|one| plain(&one.name)).collect(),
        conflicts,
        lost: Vec::new(),
    }
}

fn is_git(path: &Path) -> bool {
    path.file_name() == Some(OsStr::new(".git"))
}

/// Folders at or below `folder` that git ignores: builds write there, and nothing in them counts.
fn ignored(root: &Path, folder: &Path) -> BTreeSet<PathBuf> {
    let listed = Git::at(root)
        .args(["--no-optional-locks", "--literal-pathspecs"])
        .args([
            "ls-files",
            "-z",
            "--others",
            "--ignored",
            "--exclude-standard",
            "--directory",
            "--",
        ])
        .arg(folder)
        .run();
    // A folder that is not known to be ignored is watched.
    let names = listed.unwrap_or_default();
    names
        .split(|b| *b == 0)
        .filter_map(|name| name.strip_suffix(b"/"))
        .map(|name| root.join(OsStr::from_bytes(name)))
        .collect()
}
