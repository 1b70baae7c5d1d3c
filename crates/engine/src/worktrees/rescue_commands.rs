//! Suggests the commands that bring rescued work back to the target.
//!
//! A rescued worktree is no longer a unit. A new unit that begins at its commits lands them, even if nothing is
//! committed on top.
//!
//! What must hold:
//!
//! - Each suggested command works exactly as it is printed.
//! - Work that cannot land as it is, is named: an unfinished rebase, a repository inside, files that git does not look
//!   at, commits that only a reflog had.

use std::path::Path;

use jit_core::log::state;
use jit_core::model::ids::UnitId;
use jit_core::model::refusal::Code;
use jit_git::Git;
use jit_os::shell::shell_word;
use jit_store::Outcome;

use crate::api::rescue::Restored;
use crate::api::rescue::Stage;
use crate::api::rescue::{Kind, Work};
use crate::context::Context;
use crate::refusals::refuse;
use crate::units::confined_path::worktree_path;
use crate::units::worktree_state::leads_to;
use crate::units::worktree_state::unfinished;
use crate::units::{self, Words};
use crate::worktrees::rescue::Manifest;
use crate::worktrees::rescue::raw::unshown;

/// Maximum number of unit names that are tried.
const MOST: usize = 50;
/// Maximum number of suggestions of each kind.
const FEW: usize = 3;

fn is_open(kind: Kind) -> bool {
    matches!(kind, Kind::Staged | Kind::Unstaged | Kind::Untracked)
}

/// Returns whether a unit could bring this work to the target.
fn can_land(one: &Work) -> bool {
    match one.kind {
        Kind::InProgress => one.what != "bisect",
        kind => is_open(kind) || kind == Kind::Commit,
    }
}

/// Repositories inside a worktree that are not submodules of it: `git add -A` would add each as a commit pointer.
fn nested(root: &Path) -> Vec<String> {
    let listed = Git::at(root)
        .args([
            "--no-optional-locks",
            "ls-files",
            "-z",
            "--others",
            "--exclude-standard",
        ])
        .run()
        .unwrap_or_default();
    let names = listed.split(|b| *b == 0).filter_map(|one| one.strip_suffix(b"/"));
    names
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .filter(|name| root.join(name).join(".git").exists())
        .collect()
}

/// The next commands for an entry in its current state.
pub(crate) fn ways_back(cx: &Context, manifest: &Manifest) -> Outcome<Vec<String>> {
    if matches!(manifest.stage, Stage::Saving | Stage::Removing) {
        return Ok(Vec::new());
    }
    if let Some(path) = manifest.restored_to.as_deref().map(unshown)
        && manifest.stage == Stage::Restored
        && path.join(".git").exists()
    {
        return with_commit(cx, manifest, &path, None);
    }
    let mut ways = vec![format!("jit rescue restore {}", manifest.id)];
    // If the entry has only commits, they need not be checked out first.
    let name = ["branch", "head"]
        .into_iter()
        .find(|name| manifest.refs.contains_key(*name));
    if let Some(name) = name
        && manifest.work.iter().any(|one| one.kind == Kind::Commit)
        && manifest.work.iter().all(|one| one.kind == Kind::Commit)
    {
        ways.extend(new_unit(cx, manifest, &manifest.id.reference(name))?);
    }
    if !manifest.work.iter().any(can_land) {
        ways.extend(kept_history(cx, manifest)?);
    }
    Ok(ways)
}

/// Commits that no branch had: the commands to show them, and to make a branch for each.
fn kept_history(cx: &Context, manifest: &Manifest) -> Outcome<Vec<String>> {
    let kept = manifest.work.iter().chain(&manifest.aside);
    let commits: Vec<&str> = kept
        .filter(|one| one.kind == Kind::History)
        .map(|one| one.what.as_str())
        .collect();
    if commits.is_empty() {
        return Ok(Vec::new());
    }
    let tips = cx
        .git_in(crate::units::service::common(cx)?)
        .args(["merge-base", "--independent"])
        .args(&commits)
        .line()
        .map_err(|e| refuse(Code::Io, e))?;
    let target = shell_word(&manifest.target);
    let mut ways = Vec::new();
    for (n, tip) in tips.lines().take(FEW).enumerate() {
        let name = shell_word(&format!("kept/{}-{}", manifest.unit, n + 1));
        ways.push(format!(
            "git log --oneline {tip} --not {target} # commits that no file shows; a branch for them: git branch {name} {tip}"
        ));
    }
    Ok(ways)
}

/// The commands that land restored work.
pub(crate) fn ways_to_land(cx: &Context, manifest: &Manifest, restored: &Restored) -> Outcome<Vec<String>> {
    with_commit(
        cx,
        manifest,
        Path::new(&restored.path),
        restored.branch.as_deref(),
    )
}

/// The commands that commit the open changes of a restored worktree and land them with a new unit.
fn with_commit(cx: &Context, manifest: &Manifest, path: &Path, branch: Option<&str>) -> Outcome<Vec<String>> {
    let shown = shell_word(&path.to_string_lossy());
    let mut ways = Vec::new();
    let inside = nested(path);
    for name in inside.iter().take(FEW) {
        let inner = shell_word(&path.join(name).to_string_lossy());
        ways.push(format!(
            "git -C {inner} status # a repository of its own: what is in it does not land with the rest"
        ));
    }
    for one in manifest.work.iter().filter(|one| {
        matches!(one.kind, Kind::Ignored | Kind::Hidden | Kind::Raw)
            || one.kind == Kind::Repository && !inside.contains(&one.what)
    }) {
        if ways.len() < inside.len().min(FEW) + FEW {
            let file = shell_word(&path.join(unshown(&one.what)).to_string_lossy());
            let why = match one.kind {
                Kind::Hidden => {
                    "git was told not to look at it (update-index --skip-worktree or --assume-unchanged)"
                }
                Kind::Ignored => "git ignores it",
                Kind::Raw => "its bytes are not those that git has",
                _ => "a repository of its own",
            };
            ways.push(format!("ls -ld {file} # {why}"));
        }
    }
    let begun = leads_to(path).and_then(|git_dir| unfinished(&git_dir));
    if let Some(begun) = &begun {
        let mut how = format!("then git {}", begun.go_on);
        if begun.give_up != begun.go_on {
            how.push_str(&format!("; or git {}", begun.give_up));
        }
        ways.push(format!(
            "git -C {shown} status # a {} is not finished: settle it there, {how}",
            begun.what
        ));
    }
    let own = |what: &str| inside.iter().any(|name| name == what.trim_end_matches('/'));
    if !manifest
        .work
        .iter()
        .any(|one| can_land(one) && !(is_open(one.kind) && own(&one.what)))
    {
        ways.extend(kept_history(cx, manifest)?);
        return Ok(ways);
    }
    if begun.is_none()
        && manifest
            .work
            .iter()
            .any(|one| is_open(one.kind) && !own(&one.what))
    {
        let mut add = format!("git -C {shown} add -A");
        if !inside.is_empty() {
            add.push_str(" -- .");
            for name in &inside {
                add.push(' ');
                add.push_str(&shell_word(&format!(":(exclude,literal){name}")));
            }
        }
        ways.push(format!("{add} && git -C {shown} commit"));
    }
    let base = match branch {
        Some(branch) if begun.is_none() => shell_word(branch),
        _ => format!("\"$(git -C {shown} rev-parse HEAD)\""),
    };
    ways.extend(new_unit(cx, manifest, &base)?);
    Ok(ways)
}

/// The commands that create a unit at `base`, under a free name, and land it. `base` is a word of a command line.
fn new_unit(cx: &Context, manifest: &Manifest, base: &str) -> Outcome<Vec<String>> {
    let view = crate::write_path::view(cx)?;
    let unreadable = |e| refuse(Code::Io, e);
    let units = state::units(&*view.table).map_err(unreadable)?;
    let known = units.iter().find(|unit| unit.id == manifest.unit);
    let issue = match known.and_then(|unit| unit.issue_id.as_ref()) {
        Some(id) => state::issue(&*view.table, id).map_err(unreadable)?,
        None => None,
    };
    // The unit of an issue has the issue's name. This is useful only while the issue is open and has no other unit.
    let of_issue = issue.filter(|issue| {
        !issue.state.is_closed()
            && UnitId::slug(issue.id.as_str()).as_ref() == Some(&manifest.unit)
            && known.is_none_or(|unit| unit.is_over())
    });
    let (home, repository) = crate::units::service::home(cx)?;
    let invalid = |why: String| refuse(Code::Invalid, why);
    for n in 1..MOST {
        let name = match n {
            1 => manifest.unit.clone(),
            n => match format!("{}-{n}", manifest.unit).parse::<UnitId>() {
                Ok(name) => name,
                Err(_) => break,
            },
        };
        let words = Words {
            unit: &name,
            repository: &repository,
            issue: of_issue.as_ref().map(|issue| issue.id.as_str()),
        };
        let Ok(path) = worktree_path(cx, &home, words) else {
            return Ok(Vec::new());
        };
        let branch = units::fill(cx.config.worktree_branch(), words).map_err(invalid)?;
        let taken = units.iter().any(|unit| unit.id == name && !unit.is_over());
        if taken || crate::worktrees::service::require_free(cx, &path, &branch, name.as_str()).is_err() {
            continue;
        }
        let (what, id) = match &of_issue {
            Some(issue) => (issue.id.to_string(), manifest.unit.clone()),
            None => (name.to_string(), name.clone()),
        };
        let mut create = format!("jit worktree create {} --base {base}", shell_word(&what));
        if of_issue.is_some() && n > 1 {
            let path = shell_word(&path.to_string_lossy());
            create.push_str(&format!(" --branch {} --path {path}", shell_word(&branch)));
        }
        return Ok(vec![create, format!("jit finish {id}")]);
    }
    Ok(Vec::new())
}
