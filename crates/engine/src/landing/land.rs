//! Moves the target from its old commit to the tested commit, or not at all (H3).
//!
//! What must hold:
//!
//! - If the target is checked out nowhere, its ref is compared and set in one step.
//! - If it is checked out, it moves only by `git merge --ff-only` in that worktree. Hooks, stashing and the
//!   overwriting of ignored files are off. Git refuses rather than touch a local change, and then nothing has moved. A
//!   direct change of the ref would make the owner's next commit revert the landing. Git would fast-forward whatever
//!   is checked out by then; our own hook (`GUARD`) stops it if that is not the tested base.
//! - Files of issues that are unchanged since jit wrote them do not block a landing (see [`obstacles`]).
//! - A fast-forward that failed after files had changed is undone.
//! - A branch that is being rebased or bisected in a worktree counts as checked out there: both would move it back.
//!   The same holds for a branch that is checked out under another name (a symbolic ref), and in a worktree whose
//!   folder is missing.
//! - Whether a unit has landed is read from the target's history alone.
//!
//! Limitations: git cannot lock a branch against being checked out. If a user switches to the target, or away from it,
//! between the check and the move, that is not noticed. Symbolic refs are not followed if refs are stored in
//! reftables.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jit_core::model::ids::UnitId;
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::unit::{Phase, Unit};
use jit_git::Git;
use jit_git::snapshot::{Folder, copy_index};
use jit_os::file;
use jit_os::shell::shell_word;
use jit_store::Outcome;

use super::Repo;
use super::candidate::{Step, UNIT};
use super::obstacles::{self, Aside, IsOurs};
use super::tested::{self, Tested};
use crate::crash_point::step;
use crate::landing::checkout_recovery as half_way;
use crate::landing::withheld_filters::require_filters;
use crate::refusals::failed;
use crate::units::worktree_state::SQUASHED;

/// Maximum time to wait for a git process that works in a checkout.
const FOR_GIT: Duration = Duration::from_secs(1);
/// Prefix of the reflog messages of landings.
pub const LANDED: &str = "jit: landed";

/// The target contains the tested commit.
#[derive(Debug)]
#[must_use]
pub struct Landed {
    pub steps: Vec<Step>,
    pub validations: Vec<crate::api::landing::Validation>,
    /// Files of jit that were replaced: the checkout, and the paths in it.
    pub replaced: Option<(PathBuf, Vec<PathBuf>)>,
}

#[derive(Debug)]
pub enum Move {
    Done(Landed),
    /// Another process moved the target: detect and test again.
    Elsewhere,
}

/// How a branch is in use.
#[derive(Debug, PartialEq, Eq)]
enum Use {
    CheckedOut(PathBuf),
    /// In use in a way that allows no safe move; the help ends that use.
    Busy {
        how: String,
        help: Vec<String>,
    },
}

impl Tested {
    pub fn land(self, why: &str, is_ours: IsOurs<'_>) -> Outcome<Move> {
        let candidate = self.candidate;
        let repo = candidate.repo.clone();
        let new = candidate.commit().to_owned();
        let (old, branch) = (candidate.old.clone(), candidate.branch.clone());
        step("moving");
        let mut replaced = None;
        match in_use(&repo, &branch)? {
            None => {
                let refname = format!("refs/heads/{branch}");
                let (code, _, said) = repo
                    .git()
                    .args(["update-ref", "-m", why, &refname, &new, &old])
                    .try_run()
                    .map_err(failed)?;
                if code != Some(0) {
                    return match repo.tip(&branch)? {
                        Some(tip) if tip == old => Err(match obstacles::lock_in(&said) {
                            Some(lock) => locked(&branch, &lock),
                            None => {
                                let message = format!("git could not move {branch}: {said}");
                                Box::new(Refusal::new(Code::Io, message))
                            }
                        }),
                        _ => Ok(Move::Elsewhere),
                    };
                }
            }
            Some(Use::CheckedOut(root)) => {
                require_no_lock(&repo, &branch, &root, &new)?;
                let aside = Aside::plan(&root, &new, is_ours)?;
                let note = half_way::note(&repo, &branch, &root, (&old, &new), aside.planned())?;
                let aside = aside.put(&root);
                step("aside");
                let (code, said) = forward(&repo, &branch, &root, (&old, &new), why)?;
                let tip = repo.tip(&branch)?;
                if tip.as_deref() != Some(&new) {
                    // Git changes the files first and the branch last. The branch may be locked or have moved.
                    let back = code == Some(0) || half_way::put_back(&repo, &branch, &note)?;
                    drop(aside);
                    if !back {
                        return Err(stuck(&branch, &root, &said));
                    }
                    half_way::forget(&repo, &branch);
                    let elsewhere = in_use(&repo, &branch)? != Some(Use::CheckedOut(root.clone()));
                    if elsewhere || tip.as_deref() != Some(&old) {
                        return Ok(Move::Elsewhere);
                    }
                    return Err(dirty(&branch, (&root, &new), &said, code, is_ours));
                }
                half_way::forget(&repo, &branch);
                replaced = Some((root, aside.forget()));
            }
            Some(Use::Busy { how, help }) => return Err(busy(&branch, &how, &help)),
        }
        step("moved");
        tested::remember_counts(&repo, &branch, &self.validations);
        Ok(Move::Done(Landed {
            steps: candidate.steps,
            validations: self.validations,
            replaced,
        }))
    }
}

/// A hook that allows only the target to move, and only from its old commit. Git reports `ORIG_HEAD` before it touches
/// a file.
const GUARD: &str = r#"#!/bin/sh
[ "$1" = prepared ] || exit 0
head='' target=''
while read -r old new ref; do
    case $ref in
        ORIG_HEAD) [ "$new" = "$JIT_LANDING_FROM" ] || exit 1 ;;
        "$JIT_LANDING_REF") [ "$old" = "$JIT_LANDING_FROM" ] || exit 1; target=1 ;;
        HEAD) case $old in *[!0]*) head=1 ;; esac ;;
        refs/heads/*)
            case $old in *[!0]*) [ "$old" = "$JIT_LANDING_FROM" ] || exit 1 ;; esac
            # Only another name of a branch.
            git symbolic-ref -q "$ref" > /dev/null || exit 1 ;;
    esac
done
# An older git names the old commit also where a name follows a branch. HEAD alone is detached.
[ -z "$head" ] || [ -n "$target" ] || exit 1
exit 0
"#;

/// The folder with the guard. It is kept: a program that was just written cannot always be run at once.
fn guard(repo: &Repo) -> Outcome<PathBuf> {
    let folder = repo.control.join("landing").join("guard");
    let path = folder.join("reference-transaction");
    if fs::read(&path).is_ok_and(|there| there == GUARD.as_bytes()) {
        return Ok(folder);
    }
    let make = || -> std::io::Result<()> {
        file::make_dir_like_parent(&repo.control.join("landing"))?;
        file::make_dir_like_parent(&folder)?;
        file::replace_unsynced(&path, GUARD.as_bytes())?;
        // Every user who can read the folder can run it.
        let mode = fs::metadata(&folder)?.permissions().mode() & 0o777;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))
    };
    make().map_err(crate::refusals::io_failed("write", &path))?;
    Ok(folder)
}

/// Fast-forwards a checkout from `old` to `new`. Returns git's exit code and its message.
fn forward(
    repo: &Repo,
    branch: &str,
    root: &Path,
    (old, new): (&str, &str),
    why: &str,
) -> Outcome<(Option<i32>, String)> {
    let hooks = guard(repo)?;
    let (code, _, said) = repo
        .git_at(root)
        .holding(repo.turn())
        .setting("core.hooksPath", hooks)
        .env("JIT_LANDING_FROM", old)
        .env(
            "JIT_LANDING_REF",
            resolved(&repo.common, &format!("refs/heads/{branch}")),
        )
        .env("GIT_REFLOG_ACTION", why)
        .setting("merge.autoStash", "false")
        .args([
            "merge",
            "--ff-only",
            "--no-overwrite-ignore",
            "--no-autostash",
            "--no-squash",
        ])
        .args(["--no-verify-signatures", "--no-stat", "-q", new])
        .try_run()
        .map_err(failed)?;
    Ok((code, said))
}

fn stuck(branch: &str, root: &Path, said: &str) -> Box<Refusal> {
    let shown = shell_word(&root.to_string_lossy());
    let message = format!(
        "{branch} is checked out in {}, and git could not move it forward there: the branch is as it was, but files may have changed: {}",
        root.display(),
        said.replace('\n', " ")
    );
    let left = || obstacles::lock_in(said).map(|lock| vec![obstacles::help_with_lock(&lock)]);
    let help = obstacles::help_with_disk(root, said).or_else(left);
    let refusal = help
        .unwrap_or_default()
        .into_iter()
        .fold(Refusal::new(Code::TargetDirty, message), Refusal::help);
    Box::new(refusal.help(format!("git -C {shown} status")))
}

fn dirty(
    branch: &str,
    (root, new): (&Path, &str),
    said: &str,
    code: Option<i32>,
    is_ours: IsOurs<'_>,
) -> Box<Refusal> {
    let said = if said.is_empty() {
        format!("it ended with {code:?}")
    } else {
        said.replace('\n', " ")
    };
    let refusal = Refusal::new(
        Code::TargetDirty,
        format!(
            "{branch} is checked out in {}, and git would not move it forward there, so nothing has moved: {said}",
            root.display()
        ),
    );
    let left = || obstacles::lock_in(&said).map(|lock| vec![obstacles::help_with_lock(&lock)]);
    let refusal = obstacles::help_with_disk(root, &said)
        .or_else(left)
        .unwrap_or_else(|| obstacles::help(root, new, is_ours))
        .into_iter()
        .fold(refusal, Refusal::help);
    Box::new(refusal.help("then the same command again"))
}

/// Refuses if a lock file exists. With a lock file git fails at once or after it has changed files; then finished and
/// unfinished changes could not be told apart.
fn require_no_lock(repo: &Repo, branch: &str, root: &Path, new: &str) -> Outcome<()> {
    let lock = || obstacles::locks(repo, branch, root).into_iter().next();
    // A git process that works there usually exits soon.
    let end = Instant::now() + FOR_GIT;
    while lock().is_some() && Instant::now() < end {
        std::thread::sleep(FOR_GIT / 50);
    }
    match lock() {
        Some(lock) if lock.ends_with("index.lock") => {
            let said = format!("{} is there", lock.display());
            Err(dirty(branch, (root, new), &said, None, &|_, _| false))
        }
        Some(lock) => Err(locked(branch, &lock)),
        None => Ok(()),
    }
}

fn locked(branch: &str, lock: &Path) -> Box<Refusal> {
    let message = format!(
        "{branch} is locked, so nothing has moved: {} is there",
        lock.display()
    );
    Box::new(
        Refusal::new(Code::TargetDirty, message)
            .help(obstacles::help_with_lock(lock))
            .help("then the same command again"),
    )
}

fn busy(branch: &str, how: &str, help: &[String]) -> Box<Refusal> {
    let message = format!("{branch} is {how}: it cannot be moved before that is over");
    let refusal = Refusal::new(Code::TargetDirty, message);
    Box::new(help.iter().fold(refusal, Refusal::help))
}

/// The unfinished operation in a checkout that must end before a fast-forward: a plain commit would commit its
/// conflict markers.
fn unfinished(root: &Path, git_dir: &Path) -> Outcome<Option<&'static str>> {
    let is_there = |name: &str| git_dir.join(name).exists();
    for (file, what) in [("MERGE_HEAD", "a merge"), ("CHERRY_PICK_HEAD", "a cherry-pick")] {
        if is_there(file) {
            return Ok(Some(what));
        }
    }
    let conflicts = Git::at(root)
        .args(["ls-files", "-u", "-z"])
        .run()
        .map_err(failed)?;
    Ok(match conflicts.as_slice() {
        [] => None,
        _ if is_there("REVERT_HEAD") => Some("a revert"),
        _ if is_there("rebase-apply/applying") => Some("git am"),
        _ => Some("conflicts that nobody has resolved"),
    })
}

/// A copy of a checkout's index in which files with only a new modification time count as unchanged.
pub(super) struct Refreshed {
    folder: Folder,
}

impl Refreshed {
    pub(super) fn of(repo: &Repo, root: &Path, git_dir: &Path) -> Outcome<Self> {
        let folder =
            Folder::make(repo.scratch()).map_err(|e| Box::new(Refusal::new(Code::Io, e.to_string())))?;
        let copy = Self { folder };
        let index = copy.path();
        copy_index(&git_dir.join("index"), &index).map_err(crate::refusals::io_failed("copy", &index))?;
        let _ = copy.git(root).args(["update-index", "-q", "--refresh"]).try_run();
        Ok(copy)
    }

    fn path(&self) -> PathBuf {
        self.folder.path.join("index")
    }

    /// Git in the checkout, with the copied index.
    pub(super) fn git(&self, root: &Path) -> Git {
        Git::at(root)
            .env("GIT_INDEX_FILE", self.path())
            .setting("core.splitIndex", "false")
    }
}

/// Refuses early, as far as the obstacle can be found without changing anything.
pub fn require_movable(repo: &Repo, branch: &str, new: &str, is_ours: IsOurs<'_>) -> Outcome<()> {
    match in_use(repo, branch)? {
        None => Ok(()),
        Some(Use::Busy { how, help }) => Err(busy(branch, &how, &help)),
        Some(Use::CheckedOut(root)) => {
            require_no_lock(repo, branch, &root, new)?;
            half_way::settle(repo, branch)?;
            let git_dir = obstacles::git_dir(&root)?;
            let git_dir = git_dir.as_path();
            if let Some(what) = unfinished(&root, git_dir)? {
                let how = format!("in the middle of {what} in {}", root.display());
                let shown = shell_word(&root.to_string_lossy());
                return Err(busy(branch, &how, &[format!("git -C {shown} status")]));
            }
            require_filters(repo, &root, new)?;
            let index = Refreshed::of(repo, &root, git_dir)?;
            let git = || index.git(&root);
            let ours = obstacles::ours(&root, new, is_ours)?;
            let without = match ours.as_slice() {
                [] => new.to_owned(),
                ours => obstacles::without(repo, &root, new, ours)?,
            };
            let (code, _, said) = git()
                .args(["read-tree", "-n", "-m", "-u", "HEAD", &without])
                .try_run()
                .map_err(failed)?;
            if code != Some(0) {
                return Err(dirty(branch, (&root, new), &said, code, is_ours));
            }
            // The dry run overwrites ignored files; the real fast-forward does not.
            let added = git()
                .args([
                    "diff-tree",
                    "-r",
                    "-z",
                    "--name-only",
                    "--diff-filter=A",
                    "HEAD",
                    &without,
                ])
                .run()
                .map_err(failed)?;
            let there: Vec<u8> = added
                .split_inclusive(|b| *b == 0)
                .filter(|path| {
                    let name = OsStr::from_bytes(path.strip_suffix(b"\0").unwrap_or(path));
                    root.join(name).symlink_metadata().is_ok()
                })
                .flatten()
                .copied()
                .collect();
            if there.is_empty() {
                return Ok(());
            }
            let (code, ignored, _) = git()
                .args(["check-ignore", "-z", "--stdin"])
                .stdin(there)
                .try_run()
                .map_err(failed)?;
            match code {
                Some(0) => {
                    let first = ignored.split(|b| *b == 0).next().unwrap_or_default();
                    let said = format!(
                        "the ignored file {:?} is in the way",
                        String::from_utf8_lossy(first)
                    );
                    Err(dirty(branch, (&root, new), &said, code, is_ours))
                }
                _ => Ok(()),
            }
        }
    }
}

/// Resolves a branch that is a symbolic name for another branch.
fn resolved(common: &Path, refname: &str) -> String {
    let mut name = refname.to_owned();
    // Git also stops after five steps.
    for _ in 0..5 {
        let content = fs::read_to_string(common.join(&name)).unwrap_or_default();
        match content.strip_prefix("ref:") {
            Some(next) => name = next.trim().to_owned(),
            None => break,
        }
    }
    name
}

fn in_use(repo: &Repo, branch: &str) -> Outcome<Option<Use>> {
    let refname = resolved(&repo.common, &format!("refs/heads/{branch}"));
    let all = crate::worktree_identity::list(&repo.common)
        .map_err(|e| Box::new(Refusal::new(Code::Io, e.to_string())))?;
    let is_meant = |name: &str| resolved(&repo.common, &format!("refs/heads/{name}")) == refname;
    let mut found: Option<Use> = None;
    for entry in all {
        let place = || match &entry.root {
            Some(root) => root.display().to_string(),
            None => entry.git_dir.display().to_string(),
        };
        let says = |file: &str| fs::read_to_string(entry.git_dir.join(file)).unwrap_or_default();
        let rebased = ["rebase-merge/head-name", "rebase-apply/head-name"]
            .iter()
            .any(|file| says(file).trim() == refname)
            || says("rebase-merge/update-refs")
                .lines()
                .any(|line| line == refname);
        let bisected = says("BISECT_START");
        let bisected = bisected.trim() == branch || bisected.trim() == refname;
        let checked_out = entry.branch.as_deref().is_some_and(is_meant) && !entry.is_bare;
        let how = match (rebased, bisected, checked_out) {
            (true, ..) => "being rebased",
            (_, true, _) => "being bisected",
            (.., true) => "checked out",
            _ => continue,
        };
        let root = entry.root.clone().filter(|root| root.is_dir());
        if entry.is_main && entry.root.is_none() {
            let how = format!(
                "{how} in the main worktree, and where that is does not stand in {}",
                place()
            );
            let help = vec!["in that worktree: jit worktree info".to_owned()];
            return Ok(Some(Use::Busy { how, help }));
        }
        if entry.prunable.is_some() || root.is_none() {
            // Git would not move it either: the folder may only have been moved.
            let how = format!("{how} in {}, which is not there", place());
            // Git does not prune a locked worktree.
            let unlock = match (&entry.locked, &entry.root) {
                (Some(_), Some(root)) => {
                    format!("git worktree unlock {} && ", shell_word(&root.to_string_lossy()))
                }
                _ => String::new(),
            };
            let help = vec![
                "where it was moved: git worktree repair <where it is now>".to_owned(),
                format!("where it is gone: {unlock}git worktree prune"),
            ];
            return Ok(Some(Use::Busy { how, help }));
        }
        let at = |root: &Path| format!("git -C {}", shell_word(&root.to_string_lossy()));
        if rebased || bisected {
            let git = root.as_deref().map_or("git".to_owned(), at);
            let help = match rebased {
                true => vec![
                    format!("{git} rebase --continue"),
                    format!("{git} rebase --abort"),
                ],
                false => vec![format!("{git} bisect reset")],
            };
            let how = format!("{how} in {}", place());
            return Ok(Some(Use::Busy { how, help }));
        }
        found = match (found, root) {
            (None, root) => root.map(Use::CheckedOut),
            (Some(Use::CheckedOut(first)), Some(second)) => {
                let how = format!(
                    "checked out in two worktrees, {} and {}",
                    first.display(),
                    second.display()
                );
                let help = [&first, &second].map(|root| format!("{} switch --detach", at(root)));
                let help = help.to_vec();
                return Ok(Some(Use::Busy { how, help }));
            }
            (found, _) => found,
        };
    }
    Ok(found)
}

/// Returns whether a reflog line reports that a unit landed.
pub fn tells_of(line: &str, unit: &UnitId) -> bool {
    let names = line.strip_prefix(LANDED).unwrap_or_default();
    names.split([',', ':']).any(|name| name.trim() == unit.as_str())
}

/// Returns whether a commit contains another. False if one of them is missing.
fn contains(repo: &Repo, commit: &str, other: &str) -> Outcome<bool> {
    let git = repo.git().args(["merge-base", "--is-ancestor", other, commit]);
    let (code, ..) = git.try_run().map_err(failed)?;
    Ok(code == Some(0))
}

/// Returns the commit by which a unit landed on its target, if it did.
///
/// A tip that the target contains has landed if a landing was begun with it, or if the target's reflog reports one.
/// Otherwise it counts only if it was made on the unit's branch. A branch that merely followed the target, or was
/// reset to it or to another unit's landing, is contained in the target too.
pub fn landed_as(
    repo: &Repo,
    unit: &Unit,
    (tip, base): (&str, &str),
    (name, target): (&str, &str),
) -> Outcome<Option<String>> {
    // Neither a merge nor a squash can have brought it.
    if repo.is_plain(target, tip) && !repo.is_ancestor(tip, target)? {
        return Ok(None);
    }
    let since = format!("{base}..{target}");
    let named = |key: &str| format!("%x00%(trailers:key={key},valueonly,separator=%x20)");
    let format = format!("--format=%H %P{}{}", named(SQUASHED), named(UNIT));
    let log = repo
        .git()
        .args(["log", &format, "--first-parent", &since, "--"])
        .run()
        .map_err(failed)?;
    for line in String::from_utf8_lossy(&log).lines() {
        let mut fields = line.split('\0');
        let (Some(commits), Some(squashed), Some(units)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let mut commits = commits.split(' ');
        let commit = commits.next().unwrap_or_default();
        let merged = commits.skip(1).any(|parent| parent == tip);
        if !merged && !squashed.split(' ').any(|one| one.trim() == tip) {
            continue;
        }
        // If the commit belongs to another unit's landing, it counts only if the tip is this unit's work.
        let is_others = !units.is_empty() && !units.split(' ').any(|one| one.trim() == unit.id.as_str());
        if !is_others || was_made_on(repo, &unit.branch, (tip, base))? {
            return Ok(Some(commit.to_owned()));
        }
    }
    if !repo.is_ancestor(tip, target)? {
        return Ok(None);
    }
    let begun = unit.state == Phase::Merging;
    let landed = begun && (unit.landing_tip.as_deref() == Some(tip) || is_told(repo, &unit.id, tip, name)?)
        || was_made_on(repo, &unit.branch, (tip, base))?;
    Ok(landed.then(|| tip.to_owned()))
}

/// The moves of a branch from its reflog, newest first: the new commit, and the reason.
fn moves(repo: &Repo, branch: &str) -> Outcome<Vec<(String, String)>> {
    let refname = format!("refs/heads/{branch}");
    let git = repo
        .git()
        .args(["reflog", "show", "--format=%H %gs", &refname, "--"]);
    let (_, log, _) = git.try_run().map_err(failed)?;
    let split = |line: &str| {
        let (to, why) = line.split_once(' ').unwrap_or((line, ""));
        (to.to_owned(), why.to_owned())
    };
    Ok(String::from_utf8_lossy(&log).lines().map(split).collect())
}

/// Returns whether the reflog of a target reports that a unit landed there with this commit.
fn is_told(repo: &Repo, unit: &UnitId, tip: &str, target: &str) -> Outcome<bool> {
    let moves = moves(repo, target)?;
    for (n, (to, why)) in moves.iter().enumerate() {
        // It may have landed with an extra commit of jit on top.
        let brought = match moves.get(n + 1) {
            _ if !tells_of(why, unit) => false,
            Some((from, _)) => contains(repo, to, tip)? && !contains(repo, from, tip)?,
            None => to == tip,
        };
        if brought {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether any commit since `base` was made on a branch, by its reflog. A commit that the branch was only
/// moved to does not count. The result of a rebase does not count after the branch's own commits were dropped.
pub fn was_made_on(repo: &Repo, branch: &str, (tip, base): (&str, &str)) -> Outcome<bool> {
    let listed = |range: &str| -> Outcome<HashSet<String>> {
        // A reflog may name commits that no longer exist.
        let git = repo.git().args(["rev-list", range, "--"]);
        let (_, out, _) = git.try_run().map_err(failed)?;
        Ok(String::from_utf8_lossy(&out).lines().map(str::to_owned).collect())
    };
    let since = listed(&format!("{base}..{tip}"))?;
    let makes = |why: &str| {
        let words = ["commit", "cherry-pick", "revert", "am"];
        let made = words.iter().any(|word| why.starts_with(word)) && !why.ends_with(": fast-forward");
        made || why.contains(": Merge made by ")
    };
    let moves = moves(repo, branch)?;
    let worked = moves.iter().any(|(_, why)| makes(why));
    let is_rebase = |why: &str| worked && why.contains("rebase");
    // A rebase that made new commits does not end at the commit it went onto.
    let remade = |to: &str, why: &str| why.rsplit_once(" onto ").is_some_and(|(_, onto)| onto != to);
    let own: Vec<&str> = moves
        .iter()
        .filter(|(to, why)| makes(why) || is_rebase(why) && remade(to, why))
        .map(|(to, _)| to.as_str())
        .collect();
    if own.iter().any(|to| since.contains(*to)) {
        return Ok(true);
    }
    // A rebase of own work may end at the target itself, if the target contains all of it.
    for (n, (to, why)) in moves.iter().enumerate() {
        let Some((from, _)) = moves.get(n + 1).filter(|_| is_rebase(why) && since.contains(to)) else {
            continue;
        };
        let dropped = listed(&format!("{to}..{from}"))?;
        if own.iter().any(|made| dropped.contains(*made)) && repo.carries(to, from)? {
            return Ok(true);
        }
    }
    Ok(false)
}
