//! Settles conflicts that are not real: one side only carries a value that the other side once had and has changed
//! since (C7).
//!
//! A command writes an issue as it is, into the tree where it runs. So a branch may carry a title that was set on
//! another branch. If the other branch's history has this title with this stamp, its own later title was made from
//! it.
//!
//! A value that was never committed, or was amended away, is in no history. Then the log decides, if it is the log of
//! both sides: one worktree made both values, and it stayed on its branch from the one to the other.
//!
//! What must hold:
//! - A field that both branches changed stays a conflict.
//! - Nothing is settled if the merged commits are not known. Git passes only file contents to a merge driver. The
//!   commits come from [`HEADS`] if `jit` merges, else from git's environment of `git merge`, or from a rebase in
//!   progress.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use jit_core::issue_files::merge::{Fields, Merged, written_stamp};
use jit_core::log::event::{Event, IssueAction, Stamped};
use jit_core::model::ids::WorktreeId;
use jit_core::model::time::Wall;
use jit_git::Git;
use jit_git::run::contents;
use serde_json::Value;

use crate::context::Context;
use crate::worktree_identity::identity;

/// The variable with the merged commits, ours first. Empty if there are several pairs of them.
pub const HEADS: &str = "JIT_MERGE_HEADS";

/// The number of commits that are read of each side.
const MOST: &str = "500";

/// Settles conflicts that are not real; `path` is the file's path in the repository.
pub fn settle(merged: &mut Merged, base: Option<&Fields>, ours: &Fields, theirs: &Fields, path: &str) {
    if merged.conflicts.is_empty() {
        return;
    }
    let (our_head, their_heads) = heads();
    let (Some(our_head), here) = (our_head, Path::new(".")) else {
        return;
    };
    // A stamp in both histories does not show that one side only carries it.
    let known_to = |heads: &[String], but: &[String]| -> HashSet<(String, String)> {
        let all = heads.iter().flat_map(|head| stamps(here, head, but, path));
        all.collect()
    };
    let our_heads = [our_head];
    let ours_knows = known_to(&our_heads, &their_heads);
    let theirs_knows = known_to(&their_heads, &our_heads);
    // A side that went back to a state before the base has changed the field too.
    let is_later = |name: &str, stamp: &str| {
        let before = base.and_then(|base| time(written_stamp(base, name)?));
        before.is_none_or(|before| time(stamp).is_some_and(|at| at > before))
    };
    // A field edited by hand has no stamp, so it cannot be in the other history.
    let stamp = |side: &Fields, name: &str| written_stamp(side, name).map(str::to_owned);
    for name in merged
        .conflicts
        .iter()
        .map(|one| one.field.clone())
        .collect::<Vec<_>>()
    {
        let (Some(o), Some(t)) = (stamp(ours, &name), stamp(theirs, &name)) else {
            continue;
        };
        let is_ours = is_later(&name, &t) && ours_knows.contains(&(name.clone(), t));
        let is_theirs = is_later(&name, &o) && theirs_knows.contains(&(name.clone(), o));
        if is_ours != is_theirs {
            merged.choose(&name, ours, theirs, is_ours);
        }
    }
}

fn time(stamp: &str) -> Option<Wall> {
    stamp.split(' ').next().and_then(|at| at.parse().ok())
}

/// Settles conflicts that are not real according to the log.
pub fn settle_by_log(merged: &mut Merged, ours: &Fields, theirs: &Fields, cx: &Context) {
    let Some(id) = ours
        .get("id")
        .and_then(Value::as_str)
        .map(str::to_ascii_lowercase)
    else {
        return;
    };
    let mut wanted = Vec::new();
    for name in merged.conflicts.iter().map(|one| one.field.clone()) {
        let at = |side| written_stamp(side, &name).and_then(time);
        if let (Some(o), Some(t)) = (at(ours), at(theirs)) {
            wanted.push((name, o, t));
        }
    }
    if wanted.is_empty() {
        return;
    }
    // The worktree that gave a field the value with this stamp.
    let mut makers: HashMap<(String, Wall), Option<WorktreeId>> = HashMap::new();
    let read = cx.store.events(0, &mut |line: Stamped| {
        let Event::Issue { did, issue, sheet } = &line.event else {
            return ControlFlow::Continue(());
        };
        if issue.id.key() == id && matches!(did, IssueAction::Created | IssueAction::Changed) {
            for (name, at) in &sheet.stamps {
                if *at == issue.updated_at {
                    makers.insert((name.clone(), *at), line.actor.worktree_id.clone());
                }
            }
        }
        ControlFlow::Continue(())
    });
    let Some(common) = cx.place.common_dir.as_deref().filter(|_| read.is_ok()) else {
        return;
    };
    for (name, o, t) in wanted {
        let maker = |at: Wall| makers.get(&(name.clone(), at)).cloned().flatten();
        if o != t
            && let (Some(one), Some(other)) = (maker(o), maker(t))
            && one == other
            && stayed_on_its_branch(common, &one, o.min(t), o.max(t))
        {
            merged.choose(&name, ours, theirs, o > t);
        }
    }
}

/// Returns whether a worktree had one branch checked out for the whole time between these two. False if git has not
/// recorded it.
fn stayed_on_its_branch(common: &Path, id: &WorktreeId, from: Wall, to: Wall) -> bool {
    let linked = fs::read_dir(common.join("worktrees")).into_iter().flatten();
    let mut git_dirs = linked
        .filter_map(|entry| Some(entry.ok()?.path()))
        .chain([common.to_owned()]);
    let own = |git_dir: &PathBuf| identity::peek(git_dir).is_some_and(|own| own.worktree_id == *id);
    let Some(log) = git_dirs
        .find(own)
        .and_then(|git_dir| fs::read(git_dir.join("logs/HEAD")).ok())
    else {
        return false;
    };
    // `<before> <after> <name> <<address>> <seconds> <zone>`, a tab, and the action.
    let mut began_before = false;
    for line in String::from_utf8_lossy(&log).lines() {
        let Some((who, what)) = line.split_once('\t') else {
            continue;
        };
        let Some(seconds) = who
            .split_whitespace()
            .nth_back(1)
            .and_then(|at| at.parse::<i64>().ok())
        else {
            return false;
        };
        began_before |= seconds <= from.ms() / 1000;
        let moves = what.starts_with("checkout:") || what.starts_with("rebase");
        if moves && (from.ms() / 1000..=to.ms() / 1000).contains(&seconds) {
            return false;
        }
    }
    began_before
}

/// Returns the commits that a surrounding `git merge` brings in. Git names them in the environment, also of hooks.
pub fn merging() -> Vec<String> {
    std::env::vars_os()
        .filter_map(|(name, _)| Some(name.to_str()?.strip_prefix("GITHEAD_")?.to_owned()))
        .collect()
}

/// Returns the commit of our side and those of the other, if known.
fn heads() -> (Option<String>, Vec<String>) {
    if let Some(told) = std::env::var_os(HEADS) {
        let told = told.to_string_lossy().into_owned();
        let mut words = told.split_whitespace().map(str::to_owned);
        return (words.next(), words.collect());
    }
    let merging = merging();
    let rebasing = || {
        let folder = Git::at(Path::new("."))
            .args(["rev-parse", "--git-path", "rebase-merge"])
            .line();
        folder.is_ok_and(|folder| Path::new(&folder).is_dir())
    };
    match !merging.is_empty() || rebasing() {
        true => (Some("HEAD".to_owned()), merging),
        false => (None, Vec::new()),
    }
}

/// Returns the stamps that a file's fields had in one history and not in the others. Empty if git gives no answer.
fn stamps(here: &Path, head: &str, but: &[String], path: &str) -> Vec<(String, String)> {
    let listed = Git::at(here)
        .args(["log", "--format=", "--raw", "--no-abbrev", "--no-renames"])
        .args(["--diff-merges=separate", "--full-history", "-n", MOST, head])
        .args(but.iter().map(|other| format!("^{other}")))
        .args(["--", &format!(":(top,literal){path}")])
        .run();
    let listed = String::from_utf8_lossy(&listed.unwrap_or_default()).into_owned();
    // `:100644 100644 <before> <after> M`, then a tab and the path.
    let blobs: HashSet<&str> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().nth(3))
        .filter(|blob| blob.bytes().any(|b| b != b'0'))
        .collect();
    let mut all = Vec::new();
    for content in contents(here, blobs.into_iter().map(str::to_owned)) {
        let file: Option<Fields> = serde_json::from_slice(&content).ok();
        let stamps = file.and_then(|mut file| file.remove("stamps"));
        let stamps = stamps.and_then(|stamps| match stamps {
            Value::Object(stamps) => Some(stamps),
            _ => None,
        });
        for (name, stamp) in stamps.into_iter().flatten() {
            all.extend(stamp.as_str().map(|stamp| (name, stamp.to_owned())));
        }
    }
    all
}
