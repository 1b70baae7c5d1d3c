//! Conflicts that are none: one side only carries what the other side once had, and has changed since (C7).
//!
//! A command writes an issue as it is, in the tree where it runs, so a branch may have a title that was given on another one. If
//! that one's history has just this title with just this stamp, its own, later, was made out of it.
//!
//! What was never committed, or was amended away, is in nobody's history. There the log tells, where it is the log of both: both
//! were made in one worktree, which stayed on its branch from the one to the other.
//!
//! What must hold: a field that both branches changed stays a conflict; nothing is settled where it is not known which commits
//! are merged. Git tells a merge driver their contents alone: [`HEADS`] does, where `jit` merges, and else what git leaves
//! in the environment of `git merge`, or a rebase that is going on.

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

/// The commits that are merged, ours first. Empty where there are several pairs of them.
pub const HEADS: &str = "JIT_MERGE_HEADS";

/// So many commits of each side are looked at.
const MOST: &str = "500";

/// Settles what is no conflict; `path` is the file's, in the repository.
pub fn settle(merged: &mut Merged, base: Option<&Fields>, ours: &Fields, theirs: &Fields, path: &str) {
    if merged.conflicts.is_empty() {
        return;
    }
    let (our_head, their_heads) = heads();
    let (Some(our_head), here) = (our_head, Path::new(".")) else {
        return;
    };
    // What both have had is nothing that one of them only carries.
    let known_to = |heads: &[String], but: &[String]| -> HashSet<(String, String)> {
        let all = heads.iter().flat_map(|head| stamps(here, head, but, path));
        all.collect()
    };
    let our_heads = [our_head];
    let ours_knows = known_to(&our_heads, &their_heads);
    let theirs_knows = known_to(&their_heads, &our_heads);
    // Who went back to what was before the base has changed it as well.
    let is_later = |name: &str, stamp: &str| {
        let before = base.and_then(|base| time(written_stamp(base, name)?));
        before.is_none_or(|before| time(stamp).is_some_and(|at| at > before))
    };
    // What somebody edited by hand is nobody else's.
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

/// Settles what the log knows to be no conflict.
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
    // Which worktree gave a field the value that has this stamp.
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

/// Whether a worktree had one branch checked out all the time between these two. Where git has not noted it, no.
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
    // `<before> <after> <name> <<address>> <seconds> <zone>`, a tab, and what was done.
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

/// The commits that a `git merge` which started this process brings in: it names them in the environment, also of hooks.
pub fn merging() -> Vec<String> {
    std::env::vars_os()
        .filter_map(|(name, _)| Some(name.to_str()?.strip_prefix("GITHEAD_")?.to_owned()))
        .collect()
}

/// The commit of our side and those of the other, where that is known.
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

/// The stamps that fields of a file have had in a history, and not in those others. Where git does not say, none.
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
