//! Looking again and again at who is in whose way (H8).
//!
//! What must hold:
//!
//! - after a save, only the worktree it was made in is taken again;
//! - a change that the kernel did not tell of is found at the next look at everything, a minute later, or more where that takes seconds;
//! - where the kernel tells nothing, everything is looked at each time;
//! - the log is told of each change, once: whoever finds nothing else than at the last look writes nothing, so that one who
//!   is a moment behind does not take back what another one has told. What the log would not take yet (see `conflict`) is told
//!   again some seconds later, from another look.

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
use crate::write_path::Kept;

/// After so long everything is looked at, whatever was told.
const EVERYTHING: Duration = Duration::from_secs(60);
/// A look is followed by a pause of its own length, but no longer than this.
const MOST_REST: Duration = Duration::from_millis(200);
/// A save is seldom one write: what follows within this time belongs to it.
const SETTLES: Duration = Duration::from_millis(5);
/// After so many looks the folder with their objects is made anew.
const LOOKS: usize = 1000;
/// So long the log is waited for. It is told beside what was asked for.
const FOR_THE_LOG: Duration = Duration::from_millis(500);
/// After so long it is tried again to tell what the log was not told yet.
const TELL_AGAIN: Duration = Duration::from_secs(5);
/// No path is longer.
const LONGEST_PATH: usize = 4096;
/// The number of what belongs to the repository and to no worktree.
const SHARED: usize = usize::MAX;

/// Somebody who watches.
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
    /// Folders in which something changed since the last look.
    touched: BTreeMap<usize, BTreeSet<PathBuf>>,
    everything: bool,
    last_full: Instant,
    everything_after: Duration,
    /// Where files change all the time, looking is not all this machine does.
    rest_until: Instant,
    /// Who is concerned is told.
    tells: bool,
    /// What the log was told last.
    noted: Option<Seen>,
    /// Some of it was held back, or may have been: then it is told again.
    tell_again: Option<Instant>,
}

/// Begins to watch. Nothing has been looked at yet.
pub fn watch_conflicts<'a>(cx: &'a Context, into: Option<&str>) -> Outcome<ConflictWatch<'a>> {
    let repo = crate::landing::service::landing_repo(cx)?;
    let target = crate::landing::service::usual_target(cx, &repo);
    // Two who watch for different targets would tell everybody in turn.
    let usual = into.is_none_or(|into| target.as_ref().is_ok_and(|usual| usual == into));
    let target = match into {
        Some(into) => into.to_owned(),
        None => target?,
    };
    let trees = Trees::new().map_err(|e| io_refusal("watch", &repo.common, &e))?;
    let mut watch = ConflictWatch {
        cx: cx,
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
    /// How it is now. Who is concerned by what is new is told.
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
            // The picture is what was asked for; a note that cannot be written does not end the watching.
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

    /// Writes into the log what is others' way now and was not, and the other way round. What could not be written is tried
    /// again at the next look.
    fn note(&mut self, picture: &Picture) {
        let mut seen = seen(picture);
        let is_due = self.tell_again.is_some_and(|at| Instant::now() >= at);
        if self.noted.as_ref() == Some(&seen) && !is_due {
            return;
        }
        let noted = seen.clone();
        seen.lost = self.lost_targets().unwrap_or_default();
        let command = Command::NoteConflicts(Box::new(seen));
        let kept = Kept {
            aside: Some(FOR_THE_LOG),
            project: false,
            ..Kept::default()
        };
        let all_told = match crate::write_path::transact_as(self.cx, None, &command, kept) {
            Ok(done) => {
                self.noted = Some(noted);
                matches!(done.reply, Decided::Conflicts(0))
            }
            Err(_) => false,
        };
        self.tell_again = (!all_told).then(|| Instant::now() + TELL_AGAIN);
    }

    /// Other targets of which the log has something, and whose branches are gone.
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

    /// Returns when something may have changed; `interval` where the kernel does not tell.
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

    /// A folder that is new in a tree.
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

    /// Watches worktrees that are new.
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

/// What the log is to know of it.
fn seen(picture: &Picture) -> Seen {
    let plain = |text: &str| -> String { text.chars().filter(|c| !c.is_control()).take(200).collect() };
    // Whatever stands in the name of a file, it is that file's name.
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
        // Which of two units comes first is nobody's news.
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

/// Folders at or below `folder` that git ignores: builds write there, and nothing of it counts.
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
    // What is not known to be ignored is watched.
    let names = listed.unwrap_or_default();
    names
        .split(|b| *b == 0)
        .filter_map(|name| name.strip_suffix(b"/"))
        .map(|name| root.join(OsStr::from_bytes(name)))
        .collect()
}
