//! Checks the submodules of a unit that is to land: each must point to a commit that others can fetch.
//!
//! If the target is checked out, a landing can change the commit of a submodule there. The landing then updates the
//! submodule's checkout. Otherwise the next `git commit -a` would revert the landing. This is done only if the
//! submodule is at the commit that the target had before, has the new commit, and is on no branch. In all other cases
//! the command is reported. The landing stands in any case.
//!
//! The update is noted before the target moves. If it is interrupted, the next landing does it.
//!
//! Format of a note, `landing/submodules-<digest of the branch>`: the old commit and the new commit, in a line each.
//!
//! A submodule that is no longer checked out (`git submodule deinit`) may still have its git folder, inside the git
//! folder of the worktree.
//!
//! Limitations: remote-tracking branches are trusted. Submodules of submodules are not examined.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use jit_core::model::refusal::{Code, Refusal};
use jit_git::{Git, WorktreeEntry};
use jit_os::shell::shell_word;
use jit_os::{file, io_refusal};
use jit_store::Outcome;

use crate::landing::service::{LandingUnit, Run};
use crate::landing::tested::digest;
use crate::landing::trees;
use crate::refusals::failed;
use crate::refusals::refuse;
use crate::units::worktree_locate::real;
use crate::units::worktree_state::leads_to;
use crate::units::worktree_state::unfinished;

/// A submodule whose commit a unit changes.
pub(crate) struct Pointer {
    path: PathBuf,
    commit: String,
}

/// The place where a submodule's commits are.
enum Known {
    CheckedOut(PathBuf),
    GitFolder(PathBuf),
}

impl Known {
    /// Searches in the worktree `root`, whose git folder is `git_dir`.
    fn find(root: &Path, git_dir: Option<&Path>, path: &Path, name: Option<&str>) -> Option<Self> {
        let root = root.join(path);
        if root.join(".git").symlink_metadata().is_ok() {
            return Some(Self::CheckedOut(root));
        }
        let folder = git_dir?.join("modules").join(name?);
        folder.join("HEAD").is_file().then_some(Self::GitFolder(folder))
    }

    fn git(&self) -> Git {
        let git = match self {
            Self::CheckedOut(root) => Git::at(root),
            // The folder of its files may be gone.
            Self::GitFolder(folder) => Git::in_git_dir(folder).setting("core.worktree", folder),
        };
        git.arg("--no-optional-locks")
    }

    fn has(&self, commit: &str) -> Outcome<bool> {
        let found = self.git().verify(&format!("{commit}^{{commit}}"));
        Ok(found.map_err(failed)?.is_some())
    }

    /// The start of a command line that runs git there.
    fn shown(&self) -> String {
        match self {
            Self::CheckedOut(root) => format!("git -C {}", shell_word(&root.to_string_lossy())),
            Self::GitFolder(folder) => format!(
                "git --git-dir={0} --work-tree={0}",
                shell_word(&folder.to_string_lossy())
            ),
        }
    }
}

/// Refuses a unit that points a submodule to a commit that only the unit's own worktree has.
pub(crate) fn require_reachable_submodules(
    run: &mut Run<'_>,
    work: &LandingUnit,
    target: &str,
) -> Outcome<()> {
    let mut pointers = pointers(run, work, target)?;
    if pointers.is_empty() {
        return Ok(());
    }
    let main = crate::units::service::main_root(run.cx)?;
    let names = names(run, work)?;
    let name_of = |path: &Path| names.get(path).map(String::as_str);
    pointers.retain(|one| {
        let there = Known::find(&main, Some(&run.repo.common), &one.path, name_of(&one.path));
        // The main checkout has the commit, so it is available.
        !there.is_some_and(|there| there.has(&one.commit).unwrap_or(false))
    });
    let own_root = Path::new(&work.unit.worktree_path);
    let own_folder = leads_to(own_root);
    for one in pointers {
        let known = Known::find(own_root, own_folder.as_deref(), &one.path, name_of(&one.path));
        let known = match known {
            Some(known) if known.has(&one.commit)? => Some(known),
            _ => None,
        };
        let (name, short) = (one.path.display(), one.commit.get(..10).unwrap_or(&one.commit));
        let Some(known) = known else {
            run.warnings.push(format!(
                "{} points the submodule {name} to {short}, and nobody here can tell whether others have that",
                work.unit.id
            ));
            continue;
        };
        let left = known
            .git()
            .args(["rev-list", "--max-count=1", &one.commit, "--not", "--remotes"])
            .run()
            .map_err(failed)?;
        if left.is_empty() {
            continue;
        }
        let message = format!(
            "{} points the submodule {name} to {short}, which only its own worktree has: nobody else could check it out",
            work.unit.id
        );
        let help = push_command(&known, &one.commit, &work.unit.branch)?;
        return Err(Box::new(Refusal::new(Code::CheckFailed, message).help(help)));
    }
    Ok(())
}

/// The names of the submodules, by path.
pub(crate) fn names(run: &Run<'_>, work: &LandingUnit) -> Outcome<BTreeMap<PathBuf, String>> {
    let listed = run
        .repo
        .git()
        .args(["config", "-z", "--blob"])
        .arg(format!("{}:.gitmodules", work.tip))
        .args(["--get-regexp", r"^submodule\..*\.path$"])
        .try_run()
        .map_err(failed)?;
    let (_, listed, _) = listed;
    let mut names = BTreeMap::new();
    for record in listed.split(|b| *b == 0) {
        let Some(end) = record.iter().position(|b| *b == b'\n') else {
            continue;
        };
        let (key, path) = record.split_at(end);
        let key = String::from_utf8_lossy(key);
        let name = key
            .strip_prefix("submodule.")
            .and_then(|rest| rest.strip_suffix(".path"));
        // The same rule as in git: a name must not lead out of the folder.
        if let Some(name) = name.filter(|name| !name.split('/').any(|part| part == "..")) {
            let path = OsStr::from_bytes(path.get(1..).unwrap_or_default());
            names.insert(PathBuf::from(path), name.to_owned());
        }
    }
    Ok(names)
}

/// The submodules whose commit would change on the target.
pub(crate) fn pointers(run: &Run<'_>, work: &LandingUnit, target: &str) -> Outcome<Vec<Pointer>> {
    let joined = crate::landing::squash_base::joined_in(&run.repo, target, &work.tip)?;
    let Some(base) = run.repo.merge_base(&joined, &work.tip)? else {
        return Ok(Vec::new());
    };
    let found = trees::changes(run.repo.git(), &base, &work.tip)?.into_iter();
    Ok(found
        .filter(|one| one.new.0 == GITLINK)
        .map(|one| Pointer {
            path: one.path,
            commit: one.new.1,
        })
        .collect())
}

/// The mode of a submodule in a tree.
const GITLINK: &str = "160000";

/// A submodule whose commit a landing changes.
pub(crate) struct Bump {
    path: PathBuf,
    from: String,
    to: String,
}

pub(crate) fn submodules_note(run: &Run<'_>) -> PathBuf {
    let name = format!("submodules-{}", digest(&run.target));
    run.repo.control.join("landing").join(name)
}

/// Writes the note before the target moves. Returns the submodules whose commit changes.
pub(crate) fn note_submodules(run: &Run<'_>, old: &str, new: &str) -> Outcome<Vec<Bump>> {
    let bumps = bumps(run, old, new)?;
    if !bumps.is_empty() {
        let path = submodules_note(run);
        file::make_dir_like_parent(&run.repo.control.join("landing"))
            .and_then(|()| file::replace_unsynced(&path, format!("{old}\n{new}\n").as_bytes()))
            .map_err(|e| io_refusal("write", &path, &e))?;
    }
    Ok(bumps)
}

/// Deletes the note: the submodules are updated, or the failure was reported, or the target has not moved.
pub(crate) fn forget_submodules(run: &Run<'_>) {
    let _ = fs::remove_file(submodules_note(run));
}

/// Updates the submodules that an interrupted landing left. The caller holds the landing lock.
pub(crate) fn bring_left_submodules(run: &mut Run<'_>) {
    let Ok(Some(note)) = jit_os::file::read_real(&submodules_note(run), 1 << 24) else {
        return;
    };
    let note = String::from_utf8_lossy(&note);
    match bring_noted(run, &note) {
        Ok(()) => forget_submodules(run),
        Err(refusal) => run.warnings.push(refusal.message),
    }
}

pub(crate) fn bring_noted(run: &mut Run<'_>, note: &str) -> Outcome<()> {
    let tip = run.repo.require_tip(&run.target)?;
    let mut lines = note.lines();
    if let (Some(old), Some(new)) = (lines.next(), lines.next())
        && run.repo.is_ancestor(new, &tip).unwrap_or(false)
        && let Some(root) = checkout(run)?
    {
        // If the target has moved on since, the submodules follow it.
        let bumps = bumps(run, old, &tip)?;
        bring_submodules(run, &root, bumps);
    }
    Ok(())
}

/// The checkout of the target, if there is one.
pub(crate) fn checkout(run: &Run<'_>) -> Outcome<Option<PathBuf>> {
    let all = crate::worktree_identity::list(&run.repo.common).map_err(|e| refuse(Code::Io, e))?;
    let there = |entry: &WorktreeEntry| {
        entry.branch.as_ref() == Some(&run.target) && entry.prunable.is_none() && !entry.is_bare
    };
    Ok(all.into_iter().find(there).and_then(|entry| entry.root))
}

/// Updates the submodules of a checkout to the commits that its branch has since a landing.
pub(crate) fn bring_submodules(run: &mut Run<'_>, root: &Path, bumps: Vec<Bump>) {
    for bump in bumps {
        let sub = root.join(&bump.path);
        let there = sub.join(".git").symlink_metadata().is_ok();
        // Behind a link the submodule would belong to another checkout.
        if !there || real(&sub) != real(root).join(&bump.path) {
            continue;
        }
        let (why, command) = match bring(&sub, &bump) {
            Ok(None) => continue,
            Ok(Some(Stays { why, command })) => (why, command),
            Err(refusal) => (refusal.message, None),
        };
        let command = command.unwrap_or_else(|| {
            let [root, path] = [root, &bump.path].map(|path| shell_word(&path.to_string_lossy()));
            format!("git -C {root} submodule update -- {path}")
        });
        run.warnings.push(format!(
            "{} points the submodule {} to {}, and {why}: the next commit of everything in {} would take that back; {command}",
            run.target,
            bump.path.display(),
            short(&bump.to),
            root.display(),
        ));
    }
}

pub(crate) fn bumps(run: &Run<'_>, old: &str, new: &str) -> Outcome<Vec<Bump>> {
    let found = trees::changes(run.repo.git(), old, new)?.into_iter();
    Ok(found
        .filter(|one| one.old.0 == GITLINK && one.new.0 == GITLINK)
        .map(|one| Bump {
            path: one.path,
            from: one.old.1,
            to: one.new.1,
        })
        .collect())
}

fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}

/// The reason why a submodule is left as it is, and the command that updates it, if `git submodule update` is not the
/// right one.
struct Stays {
    why: String,
    command: Option<String>,
}

/// Checks out the commit in a submodule without changes; otherwise returns the reason why not.
fn bring(sub: &Path, bump: &Bump) -> Outcome<Option<Stays>> {
    let stays = |why: String| Ok(Some(Stays { why, command: None }));
    let git = || Git::at(sub).setting("submodule.recurse", "false");
    let head = git().verify("HEAD^{commit}").map_err(failed)?;
    if head.as_deref() == Some(&bump.to) {
        return Ok(None);
    }
    if head.as_deref() != Some(&bump.from) {
        let at = head.as_deref().map_or("nothing", short);
        return stays(format!("it is at {at} there"));
    }
    if git()
        .verify(&format!("{}^{{commit}}", bump.to))
        .map_err(failed)?
        .is_none()
    {
        return stays("that commit is not there yet".to_owned());
    }
    let changed = git()
        .args(["--no-optional-locks", "status", "--porcelain", "-z"])
        .args(["--untracked-files=no", "--ignore-submodules=none"])
        .run()
        .map_err(failed)?;
    let git_dir = git()
        .args(["rev-parse", "--absolute-git-dir"])
        .line()
        .map_err(failed)?;
    if !changed.is_empty() || unfinished(Path::new(&git_dir)).is_some() {
        return stays("what is changed in it there is not committed".to_owned());
    }
    if let Some(on) = git().symbolic_head().map_err(failed)? {
        // With a detached HEAD the user's next commit would be on no branch.
        let forward = git().args(["merge-base", "--is-ancestor", &bump.from, &bump.to]);
        let command = forward.test().map_err(failed)?.then(|| {
            let sub = shell_word(&sub.to_string_lossy());
            format!("git -C {sub} merge --ff-only {}", bump.to)
        });
        let on = on.strip_prefix("refs/heads/").unwrap_or(&on);
        let why = format!("the branch {on} is checked out in it there");
        return Ok(Some(Stays { why, command }));
    }
    let (code, _, said) = git()
        .args(["checkout", "-q", "--detach", "--no-overwrite-ignore", &bump.to])
        .try_run()
        .map_err(failed)?;
    match code {
        Some(0) => Ok(None),
        _ => stays(said.replace('\n', " ")),
    }
}

/// The command that pushes the commit.
fn push_command(known: &Known, commit: &str, branch: &str) -> Outcome<String> {
    let shown = known.shown();
    let remotes = known.git().args(["remote"]).line().map_err(failed)?;
    let remote = match remotes.lines().find(|name| *name == "origin") {
        Some(name) => name,
        None => match remotes.lines().next() {
            Some(name) => name,
            None => return Ok(format!("{shown} remote add origin <address>")),
        },
    };
    let head = known.git().verify("HEAD").map_err(failed)?;
    let what = if head.as_deref() == Some(commit) {
        "HEAD"
    } else {
        commit
    };
    let own = known.git().symbolic_head().map_err(failed)?;
    let goal = own.unwrap_or_else(|| format!("refs/heads/{branch}"));
    let spec = shell_word(&format!("{what}:{goal}"));
    Ok(format!("{shown} push {} {spec}", shell_word(remote)))
}
