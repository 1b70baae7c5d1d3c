//! The state of a unit's worktree in git: whether it exists, whether everything is committed, and which conflicts it
//! has.
//!
//! What must hold: no check here changes anything.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::unit::{Failure, Phase, Unit};
use jit_git::files::plain;
use jit_git::{Git, worktrees};
use jit_os::file;
use jit_os::shell::shell_word;
use jit_store::Outcome;

use crate::context::Context;
use crate::refusals::failed;
use crate::units::worktree_locate::real;

/// The trailer that identifies the commit of a squashed unit.
pub const SQUASHED: &str = "JIT-Squashed";

/// Returns the git folder that the `.git` file of a worktree points to.
pub(crate) fn leads_to(root: &Path) -> Option<PathBuf> {
    let content = file::read_real(&root.join(".git"), 1 << 16).ok().flatten()?;
    let goal = content.strip_prefix(b"gitdir: ")?.trim_ascii_end();
    Some(plain(&root.join(OsStr::from_bytes(goal))))
}

/// An operation that git started in a worktree and that was not finished.
pub(crate) struct Unfinished {
    pub what: &'static str,
    pub go_on: &'static str,
    pub give_up: &'static str,
}

/// Returns the unfinished operation in the worktree with this git folder.
pub(crate) fn unfinished(git_dir: &Path) -> Option<Unfinished> {
    let known = [
        ("MERGE_HEAD", "merge", "commit", "merge --abort"),
        (
            "CHERRY_PICK_HEAD",
            "cherry-pick",
            "cherry-pick --continue",
            "cherry-pick --abort",
        ),
        ("REVERT_HEAD", "revert", "revert --continue", "revert --abort"),
        ("rebase-merge", "rebase", "rebase --continue", "rebase --abort"),
        ("rebase-apply/applying", "am", "am --continue", "am --abort"),
        ("rebase-apply", "rebase", "rebase --continue", "rebase --abort"),
        ("BISECT_LOG", "bisect", "bisect reset", "bisect reset"),
    ];
    known
        .into_iter()
        .find(|(file, ..)| git_dir.join(file).exists())
        .map(|(_, what, go_on, give_up)| Unfinished { what, go_on, give_up })
}

/// Refuses if the worktree cannot be read: its uncommitted work would be unknown.
pub(crate) fn require_there(cx: &Context, unit: &Unit, root: &Path) -> Outcome<()> {
    let main = crate::units::service::main_root(cx)?;
    let repair = format!("git -C {} worktree repair", shell_word(&main.to_string_lossy()));
    let known = leads_to(root);
    if known.as_ref().is_some_and(|git_dir| git_dir.is_dir()) {
        return Ok(());
    }
    let shown = shell_word(&unit.worktree_path);
    let refusal = match known {
        // The repository was moved, or git has pruned the worktree.
        Some(git_dir) => {
            let message = format!(
                "the worktree of {} in {} leads to {}, which is not there: what is not committed there would be left behind",
                unit.id,
                root.display(),
                git_dir.display()
            );
            let folder = crate::units::service::common(cx)?.join("worktrees");
            let help = match git_dir.parent().map(real) == Some(real(&folder)) {
                // No command repairs this: the worktree is created again, and the old one stays beside it.
                true => format!(
                    "mv -n {shown} {} && jit worktree retry {} # then bring over what was not committed",
                    shell_word(&format!("{}.aside", unit.worktree_path)),
                    unit.id
                ),
                false => format!("{repair} {shown}"),
            };
            Refusal::new(Code::Uncommitted, message).help(help)
        }
        None => {
            let message = format!(
                "the worktree of {} is not in {}: what is not committed there would be left behind",
                unit.id,
                root.display()
            );
            Refusal::new(Code::Uncommitted, message)
                .help(format!("where it was moved: {repair} <where it is now>"))
                .help(format!("where it is gone: jit worktree retry {}", unit.id))
        }
    };
    let abandon = format!("jit worktree abandon {} --reason <why>", unit.id);
    Err(Box::new(match unit.state {
        Phase::Merged => refusal,
        _ => refusal.help(abandon),
    }))
}

/// Returns the refusal for a branch that was renamed or deleted, with the commands that restore it.
pub(crate) fn no_branch(unit: &Unit) -> Box<Refusal> {
    let message = format!("the branch {} of {} is not there", unit.branch, unit.id);
    let mut refusal = Refusal::new(Code::NotFound, message);
    let root = Path::new(&unit.worktree_path);
    let git = format!("git -C {}", shell_word(&unit.worktree_path));
    let branch = shell_word(&unit.branch);
    if let Some(git_dir) = leads_to(root).filter(|git_dir| git_dir.is_dir()) {
        let on = Git::at(root).symbolic_head().ok().flatten();
        let head = Git::at(root).verify("HEAD^{commit}").ok().flatten();
        // Git shows no log of a HEAD that points nowhere.
        let log = fs::read_to_string(git_dir.join("logs/HEAD")).unwrap_or_default();
        let moves = log.lines().flat_map(|line| line.split(' ').take(2));
        let last = moves.filter(|commit| commit.bytes().any(|b| b != b'0')).last();
        let other = on.as_deref().and_then(|on| on.strip_prefix("refs/heads/"));
        match (other, head, last) {
            (Some(other), Some(_), _) => {
                refusal = refusal.help(format!(
                    "where it was renamed: {git} branch -m {} {branch}",
                    shell_word(other)
                ));
            }
            (None, Some(_), _) => refusal = refusal.help(format!("{git} switch -c {branch}")),
            (_, None, Some(last)) => {
                refusal = refusal.help(format!("{git} branch {branch} {last}"));
            }
            _ => {}
        }
    }
    Box::new(refusal.help(format!("jit worktree abandon {} --reason <why>", unit.id)))
}

/// Refuses if uncommitted work would be left behind.
pub(crate) fn require_committed(cx: &Context, unit: &Unit, tip: &str) -> Outcome<()> {
    let root = Path::new(&unit.worktree_path);
    require_there(cx, unit, root)?;
    let shown = shell_word(&unit.worktree_path);
    let refuse = |why: String, help: String| Err(Box::new(Refusal::new(Code::Uncommitted, why).help(help)));
    let git_dir = leads_to(root).unwrap_or_else(|| root.join(".git"));
    if let Some(begun) = unfinished(&git_dir) {
        let why = format!("a {} in the worktree of {} is not finished", begun.what, unit.id);
        return refuse(why, format!("cd {shown}, then: git {}", begun.go_on));
    }
    // The files that jit itself writes there are in the log.
    let status = cx
        .git_at(root)
        .args(["--no-optional-locks", "status", "--porcelain", "-z"])
        .args(["--untracked-files=normal", "--ignore-submodules=none", "--", "."])
        .args([":(top,exclude).jit/issues", ":(top,exclude).jit/gates/results"])
        .run()
        .map_err(failed)?;
    let mut left = status.split(|b| *b == 0).filter(|one| !one.is_empty()).peekable();
    let brought = match left.peek() {
        Some(_) => Some(crate::units::service::brought(cx)?),
        None => None,
    };
    let mut first = None;
    for one in left {
        let name = one.get(3..).unwrap_or(one);
        // Files that jit itself put there are not work of the unit.
        let own = one.starts_with(b"??")
            && match &brought {
                Some(brought) => brought.covers(root, name).map_err(failed)?,
                None => false,
            };
        if !own {
            first = Some(String::from_utf8_lossy(name).into_owned());
            break;
        }
    }
    if let Some(first) = first {
        let why = format!("{} has work that is not committed, {first:?} for one", unit.id);
        return refuse(why, format!("git -C {shown} add -A && git -C {shown} commit"));
    }
    // Read from git's files. Where they tell something else, git is asked.
    let common = crate::units::service::common(cx)?;
    if matches!(worktrees::head(common, &git_dir), Ok((_, Some(head))) if head == tip) {
        return Ok(());
    }
    let head = cx.git_at(root).verify("HEAD^{commit}").map_err(failed)?;
    let on = cx.git_at(root).symbolic_head().map_err(failed)?;
    if head.as_deref() != Some(tip) && on.as_deref() == Some(&format!("refs/heads/{}", unit.branch)) {
        // Its branch has moved since.
        let since = cx
            .git_at(root)
            .args(["rev-list", "--count", "HEAD", &format!("^{tip}")])
            .line()
            .map_err(failed)?;
        let (id, branch) = (&unit.id, &unit.branch);
        let why = match since.as_str() {
            "0" => format!("the branch {branch} of {id} was moved back meanwhile"),
            "1" => format!("1 more commit was made on {branch} meanwhile"),
            many => format!("{many} more commits were made on {branch} meanwhile"),
        };
        return Err(Box::new(Refusal::new(Code::Uncommitted, why)));
    }
    if head.as_deref() != Some(tip) {
        let why = format!(
            "the worktree of {} is not on its branch {}, and what is committed there would be left behind",
            unit.id, unit.branch
        );
        let branch = shell_word(&unit.branch);
        let look = format!("git -C {shown} log {branch}..HEAD; git -C {shown} switch {branch}");
        let detached = on.is_none();
        let beyond = match &head {
            Some(head) => cx
                .git_at(root)
                .args(["merge-base", "--is-ancestor", tip, head])
                .test()
                .map_err(failed)?,
            None => false,
        };
        let mut refusal = Refusal::new(Code::Uncommitted, why);
        if detached && beyond {
            refusal = refusal.help(format!(
                "git -C {shown} branch -f {branch} HEAD && git -C {shown} switch {branch}"
            ));
        }
        return Err(Box::new(refusal.help(look)));
    }
    Ok(())
}

/// Finds a conflict that was committed with its markers, or with a part of them. Markers that the base or the target
/// already has do not count for the unit. A path with the attribute `conflict-marker-size` has other markers; texts
/// about markers use it.
pub(crate) fn marked_conflict(cx: &Context, unit: &Unit) -> Outcome<Option<Failure>> {
    let common = crate::units::service::common(cx)?;
    let io = failed;
    let tip = format!("refs/heads/{}", unit.branch);
    let target = format!("refs/heads/{}", unit.target);
    let looking = [
        "diff",
        "--no-ext-diff",
        "--no-textconv",
        "--name-only",
        "--no-renames",
        "-z",
        MARKED,
    ];
    let between = |ends: &[&str]| cx.git_in(common).args(looking).args(ends).try_run();
    let mut looked = between(&["--merge-base", &target, &tip]).map_err(io)?;
    if looked.0 != Some(0) {
        // The branches have no common ancestor, or the target does not exist here.
        looked = between(&[&unit.base, &tip]).map_err(io)?;
    }
    let listed = looked.1;
    let changed = listed.split(|byte| *byte == 0);
    let mut paths: BTreeSet<&[u8]> = changed.filter(|path| !path.is_empty()).collect();
    paths.extend(unit.merge_conflicts.iter().map(|clash| clash.path.as_bytes()));
    for path in paths {
        let text = |commit: &str| -> Outcome<Vec<u8>> {
            let mut name = OsString::from(format!("{commit}:"));
            name.push(OsStr::from_bytes(path));
            let blob = cx.git_in(common).args(["cat-file", "blob"]).arg(name);
            Ok(blob.try_run().map_err(io)?.1)
        };
        let now = text(&tip)?;
        if mark_lines(&now).next().is_none() {
            continue;
        }
        let met = cx.git_in(common).args(["merge-base", &target, &tip]);
        let met = met.line().unwrap_or_else(|_| unit.base.clone());
        let (base, other) = (text(&unit.base)?, text(&met)?);
        let before: BTreeSet<&[u8]> = mark_lines(&base)
            .chain(mark_lines(&other))
            .map(|(_, line)| line)
            .collect();
        let own = mark_lines(&now).find(|(_, line)| !before.contains(line));
        let Some((n, _)) = own.filter(|_| !has_other_marks(unit, path)) else {
            continue;
        };
        let shown = shell_word(&String::from_utf8_lossy(path));
        let message = format!("{shown} still has marks of its conflict, in line {n}");
        return Ok(Some(crate::units::worktree_state::failure(
            "conflict_marks",
            message,
        )));
    }
    Ok(None)
}

/// Whether the attribute of a path says that lines like conflict markers are none.
pub(crate) fn has_other_marks(unit: &Unit, path: &[u8]) -> bool {
    let said = Git::at(&unit.worktree_path)
        .args(["check-attr", "-z", "conflict-marker-size", "--"])
        .arg(OsStr::from_bytes(path))
        .run();
    let said = said.unwrap_or_default();
    let value = said.split(|byte| *byte == 0).nth(2);
    let value = value.and_then(|value| std::str::from_utf8(value).ok()?.parse::<u32>().ok());
    value.is_some_and(|size| size != 7)
}

/// Whether a merge in that worktree is unfinished.
pub(crate) fn is_merging(root: &Path) -> bool {
    let Ok(link) = std::fs::read_to_string(root.join(".git")) else {
        return false;
    };
    let Some(dir) = link.strip_prefix("gitdir: ") else {
        return false;
    };
    root.join(dir.trim_end()).join("MERGE_HEAD").exists()
}

pub(crate) fn failure(reason: &str, message: String) -> Failure {
    Failure {
        reason: reason.to_owned(),
        message,
        exit_code: None,
        output: None,
    }
}

/// Selects files in which a line that looks like a marker was added or removed.
pub(crate) const MARKED: &str = r"-G^(<<<<<<<|\|\|\|\|\|\|\||>>>>>>>) ";

/// Returns the conflict marker lines with their numbers. A row of `=` alone is a heading in many texts.
pub(crate) fn mark_lines(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let marks: [&[u8]; 3] = [b"<<<<<<< ", b"||||||| ", b">>>>>>> "];
    let lines = text.split(|byte| *byte == b'\n').enumerate();
    lines
        .filter(move |(_, line)| marks.iter().any(|mark| line.starts_with(mark)))
        .map(|(n, line)| (n + 1, line))
}
