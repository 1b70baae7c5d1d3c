//! Who would be in whose way, while the work goes on (H8).
//!
//! Each worktree is taken as it is now, with what is not committed and what is new, and merged with every other one and
//! with the target. What must hold:
//!
//! - nothing is written: not into the worktree or its index (a copy is used, which no program refreshes), not into the
//!   repository (objects go to a folder that is removed afterwards);
//! - a worktree that cannot be read is named, and hides no other.
//!
//! Limitations: `.jit/` counts as far as it is committed. Ignored files do not count. A submodule counts by its commit.

use std::path::Path;

use jit_core::refusal::{Code, Refusal};

use super::detect;
use super::report::{Pair, PairPath, Participant, Picture};
use super::{Repo, failed};
use crate::git::snapshot::{Folder, copy_index, option, quoted};
use crate::git::{Git, WorktreeEntry, worktrees};
use crate::store::Outcome;

/// A worktree as it is now.
struct Taken {
    who: Participant,
    /// A commit of everything in it.
    commit: String,
    base: Option<String>,
    changed: detect::Changed,
}

/// Looks at every worktree. `unit_of` names the unit that a folder belongs to.
pub fn picture(repo: &Repo, target: &str, unit_of: impl Fn(&Path) -> Option<String>) -> Outcome<Picture> {
    let tip = repo.require_tip(target)?;
    let folder = Folder::make(repo.scratch()).map_err(|e| Box::new(Refusal::new(Code::Io, e.to_string())))?;
    let aside = |git: Git| {
        git.env("GIT_OBJECT_DIRECTORY", folder.path.join("objects"))
            .env(
                "GIT_ALTERNATE_OBJECT_DIRECTORIES",
                quoted(&repo.common.join("objects")),
            )
            .setting("core.fsync", "none")
            .setting("core.looseCompression", "0")
    };
    let git = || aside(repo.git());
    let all = worktrees::list(&repo.common).map_err(|e| Box::new(Refusal::new(Code::Io, e.to_string())))?;
    let mut taken: Vec<Taken> = Vec::new();
    let mut shown: Vec<Participant> = Vec::new();
    for (n, entry) in all.iter().enumerate() {
        let Some(root) = entry
            .root
            .as_deref()
            .filter(|root| root.is_dir() && !entry.is_bare)
        else {
            continue;
        };
        // Where landings are tried out.
        if root.starts_with(repo.scratch()) {
            continue;
        }
        let unit = unit_of(root);
        let last = || root.file_name().map(|name| name.to_string_lossy().into_owned());
        let mut who = Participant {
            name: unit
                .clone()
                .or_else(|| entry.branch.clone().filter(|branch| branch != target))
                .or_else(last)
                .unwrap_or_default(),
            unit,
            branch: entry.branch.clone(),
            root: root.to_string_lossy().into_owned(),
            uncommitted: false,
            changed_paths: 0,
            unknown: None,
        };
        match take(entry, root, &folder.path.join(format!("index-{n}")), &aside) {
            Ok(None) => {}
            Ok(Some((commit, uncommitted))) => {
                who.uncommitted = uncommitted;
                taken.push(Taken {
                    who,
                    commit,
                    base: None,
                    changed: detect::Changed::default(),
                });
                continue;
            }
            Err(why) => who.unknown = Some(why),
        }
        shown.push(who);
    }
    let mut known = Vec::new();
    for one in &mut taken {
        let out = git()
            .args(["merge-base", &tip, &one.commit])
            .try_run()
            .map_err(failed)?;
        one.base = (out.0 == Some(0)).then(|| String::from_utf8_lossy(out.1.trim_ascii_end()).into_owned());
        known.push(one.base.clone().unwrap_or_else(|| one.commit.clone()));
        known.push(one.commit.clone());
    }
    let trees = repo.trees(git, &known)?;
    let pairs: Vec<(String, String)> = trees
        .chunks_exact(2)
        .filter_map(|pair| Some((pair.first()?.clone(), pair.get(1)?.clone())))
        .collect();
    for (one, changed) in taken
        .iter_mut()
        .zip(detect::changed(git(), &pairs).map_err(failed)?)
    {
        one.who.changed_paths = changed.paths.len();
        one.changed = changed;
    }
    let mut asked: Vec<(usize, Option<usize>)> = Vec::new();
    for (n, a) in taken.iter().enumerate() {
        if a.changed.paths.is_empty() {
            continue;
        }
        if a.commit != tip && a.base.as_deref() != Some(&tip) {
            asked.push((n, None));
        }
        for (m, b) in taken.iter().enumerate().skip(n + 1) {
            let apart = a.base == b.base && a.base.is_some() && !a.changed.may_meet(&b.changed);
            if !b.changed.paths.is_empty() && !apart {
                asked.push((n, Some(m)));
            }
        }
    }
    let commit = |n: usize| taken.get(n).map_or_else(String::new, |one| one.commit.clone());
    let pairs: Vec<(String, String)> = asked
        .iter()
        .map(|(n, m)| (m.map_or_else(|| tip.clone(), commit), commit(*n)))
        .collect();
    let merges = detect::merges(git(), &tip, &pairs).map_err(failed)?;
    let name = |n: usize| taken.get(n).map_or_else(String::new, |one| one.who.name.clone());
    let mut conflicts = Vec::new();
    for ((n, m), merge) in asked.iter().zip(&merges) {
        if merge.clean {
            continue;
        }
        let paths = merge.conflicts.iter().map(|one| PairPath {
            path: one.shown(),
            kind: one.kind.clone(),
        });
        conflicts.push(Pair {
            a: name(*n),
            b: m.map_or_else(|| target.to_owned(), name),
            paths: paths.collect(),
        });
    }
    shown.extend(taken.into_iter().map(|one| one.who));
    shown.sort_by(|a, b| a.root.cmp(&b.root));
    Ok(Picture {
        target: target.to_owned(),
        worktrees: shown,
        conflicts,
        merges: pairs.len(),
    })
}

/// A commit of everything in a worktree, and whether that is more than its HEAD has. `None` where there is no commit yet.
fn take(
    entry: &WorktreeEntry,
    root: &Path,
    index: &Path,
    aside: &impl Fn(Git) -> Git,
) -> Result<Option<(String, bool)>, String> {
    let Some(head) = &entry.head else {
        return Ok(None);
    };
    copy_index(&entry.git_dir.join("index"), index).map_err(|e| e.to_string())?;
    let git = || {
        aside(
            Git::at(root)
                .arg(option("--git-dir=", &entry.git_dir))
                .arg(option("--work-tree=", root))
                .env("GIT_INDEX_FILE", index)
                .setting("core.fsmonitor", "false")
                .setting("core.splitIndex", "false")
                .setting("core.untrackedCache", "false")
                .setting("core.safecrlf", "false")
                .setting("add.ignoreErrors", "false")
                .setting("advice.addEmbeddedRepo", "false")
                .without_hooks(),
        )
    };
    let said = |e: crate::git::GitError| e.to_string();
    git()
        .args(["add", "-A", "--", ".", ":(top,exclude,literal).jit"])
        .run()
        .map_err(said)?;
    let tree = git().arg("write-tree").line().map_err(said)?;
    let before = git()
        .args(["rev-parse", &format!("{head}^{{tree}}")])
        .line()
        .map_err(said)?;
    if tree == before {
        return Ok(Some((head.clone(), false)));
    }
    let commit = git()
        .env("GIT_AUTHOR_NAME", "jit")
        .env("GIT_AUTHOR_EMAIL", "jit@jit.invalid")
        .env("GIT_COMMITTER_NAME", "jit")
        .env("GIT_COMMITTER_EMAIL", "jit@jit.invalid")
        // The same content is the same commit, whenever it is taken.
        .env("GIT_AUTHOR_DATE", "@0 +0000")
        .env("GIT_COMMITTER_DATE", "@0 +0000")
        .args(["commit-tree", &tree, "-p", head, "-m", "as it is now"])
        .line()
        .map_err(said)?;
    Ok(Some((commit, true)))
}
