//! Restores a worktree: from the trash, byte for byte, or from the refs if the trash has been emptied.
//!
//! What must hold:
//!
//! - Nothing that exists is overwritten (no path, no branch).
//! - After an interruption the same command continues. Where nothing is left to do, it succeeds.
//! - The refs of the entry stay until they are dropped.
//!
//! From the refs, the worktree is built in a folder `.jit-restore-<id>` beside its place. It gets to its place
//! complete, by a rename. Such a folder with contents is left from an interruption, and is built anew. Files that are
//! replaced in a worktree are written there first too. Otherwise leftovers of a killed process would be committed with
//! the rest. From the rename until the last step is done and recorded, the worktree is locked with a reason
//! (`lock_reason`). The next command recognizes it by that reason.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use jit_core::model::refusal::{Code, Refusal};
use jit_git::Git;
use jit_git::files::plain;
use jit_git::worktrees::WorktreeEntry;
use jit_os::{file, io_refusal};
use jit_store::Outcome;

use super::raw::{self, Extra, shown, text, unshown};
use super::save::EXTRAS;
use super::site::was_linked;
use super::trash::{ADMIN, Manifest, TREE, Trash, discard, forget_copied, put_back, rename_new, same};
use super::walk::Walk;
use crate::api::rescue::Stage;
use crate::api::rescue::{ALREADY, RescueId, Restored};
use crate::crash_point::step;
use crate::refusals::refuse;
use crate::units::folders;
use crate::units::worktree_state::leads_to;

/// The content of the file HEAD if git stores refs in reftables.
const IN_TABLES: &str = "ref: refs/heads/.invalid";

struct Restore<'a> {
    trash: &'a Trash,
    common: &'a Path,
    manifest: Manifest,
    goal: PathBuf,
    branch: String,
}

/// Restores the worktree of an entry, at `to` or in its old place, its branch under `branch` or its own name.
pub fn restore(
    trash: &Trash,
    common: &Path,
    mut manifest: Manifest,
    to: Option<PathBuf>,
    branch: Option<String>,
) -> Outcome<Restored> {
    if matches!(manifest.stage, Stage::Saving | Stage::Removing) {
        let message = format!(
            "{} is {}: there is nothing to restore",
            manifest.id,
            manifest.stage.as_str()
        );
        return Err(Box::new(
            Refusal::new(Code::Invalid, message).help("jit rescue list"),
        ));
    }
    if let Some(branch) = &branch {
        let known = raw::git(common, common)
            .args(["check-ref-format", "--branch", branch])
            .run();
        if known.is_err() {
            return Err(refuse(
                Code::Invalid,
                format!("{branch:?} cannot be the name of a branch"),
            ));
        }
    }
    let branch = branch.unwrap_or_else(|| manifest.branch.clone());
    if let Some((entry, from)) = placed(common, &manifest.id)? {
        let goal = entry.root.unwrap_or_default();
        if to.as_ref().is_none_or(|to| *to == goal) {
            let mut restore = Restore {
                trash,
                common,
                manifest,
                goal,
                branch,
            };
            return restore.settle(&entry.git_dir, from);
        }
        let message = format!("{} has begun to be restored to {}", manifest.id, goal.display());
        let help = format!("jit rescue restore {}", manifest.id);
        return Err(Box::new(Refusal::new(Code::Exists, message).help(help)));
    }
    let folder = trash.folder(&manifest.id);
    let there = |name: &str| folder.join(name).symlink_metadata().is_ok();
    // The tree was moved back already, its git folder was not.
    let begun = manifest.restored_to.as_deref().map(unshown);
    if manifest.stage == Stage::Restored
        && let Some(goal) = begun
            .as_ref()
            .filter(|goal| to.as_ref().is_none_or(|to| to == *goal))
        && is_checked_out(common, goal, &branch)?
    {
        return Ok(Restored {
            id: manifest.id,
            path: shown(goal),
            branch: Some(branch),
            from: ALREADY.into(),
            next: Vec::new(),
        });
    }
    // There may have been no files at all.
    let made = |path: &Path| is_empty(path) && !manifest.refs.contains_key("worktree");
    let half_done = begun
        .clone()
        .filter(|path| !there(TREE) && there(ADMIN) && (was_linked(path, common) || made(path)));
    let original = unshown(&manifest.worktree_path);
    let goal = match &half_done {
        Some(path) => path.clone(),
        None => to.unwrap_or_else(|| original.clone()),
    };
    let half_done = half_done.is_some();
    // A removal that was interrupted after its first half: the tree is still in its place.
    let in_place = manifest.stage == Stage::Moving && !there(TREE) && there(ADMIN) && goal == original;
    if manifest.stage == Stage::Moving
        && !there(TREE)
        && !half_done
        && goal != original
        && original.symlink_metadata().is_ok()
    {
        let message = format!(
            "the removal of {} was cut short: its files are still in {}",
            manifest.unit,
            original.display()
        );
        return Err(Box::new(
            Refusal::new(Code::Exists, message)
                .help(format!("jit rescue restore {}", manifest.id))
                .help(format!("jit worktree cleanup {}", manifest.unit)),
        ));
    }
    // Copied completely to another file system; only the deletion of the original was left.
    let copied = begun.as_ref() == Some(&goal)
        && there(TREE)
        && goal.symlink_metadata().is_ok_and(|meta| meta.is_dir())
        && same(&folder.join(TREE), &goal)?;
    if !half_done && !in_place && !copied && goal.symlink_metadata().is_ok() {
        let message = format!("{} is there already: nothing is overwritten", goal.display());
        let help = format!("jit rescue restore {} --to <another folder>", manifest.id);
        return Err(Box::new(Refusal::new(Code::Exists, message).help(help)));
    }
    let parent = goal.parent().unwrap_or(&goal);
    let _room = folders::make(trash.control(), parent).map_err(|e| io_refusal("create", parent, &e))?;
    discard_half_made(common, &manifest.id, begun.iter().chain([&goal]))?;
    manifest.restored_to = Some(shown(&goal));
    let mut restore = Restore {
        trash,
        common,
        manifest,
        goal,
        branch,
    };
    // Without its files, its git folder is useless if the refs have both.
    let whole = there(TREE) || half_done || in_place || !restore.manifest.refs.contains_key("worktree");
    let restored = match there(ADMIN) && whole {
        true => restore.out_of_trash(),
        false => restore.out_of_refs(),
    };
    if restored.is_err() {
        let _ = discard_half_made(common, &restore.manifest.id, [&restore.goal].into_iter());
    }
    restored
}

/// Whether a worktree in this folder has this branch checked out.
fn is_checked_out(common: &Path, root: &Path, branch: &str) -> Outcome<bool> {
    let all = crate::worktree_identity::list(common).map_err(|e| refuse(Code::Io, e))?;
    let is_it = |entry: &WorktreeEntry| {
        entry.root.as_deref() == Some(root) && entry.branch.as_deref() == Some(branch) && root.is_dir()
    };
    Ok(all.iter().any(is_it))
}

/// The lock reason of a worktree that is in its place and not finished yet.
fn lock_reason(id: &RescueId, from: &str) -> String {
    format!("jit: restoring {id} from {from}")
}

/// Finds the worktree that an earlier command moved to its place and did not finish, and its source.
fn placed(common: &Path, id: &RescueId) -> Outcome<Option<(WorktreeEntry, &'static str)>> {
    let all = crate::worktree_identity::list(common).map_err(|e| refuse(Code::Io, e))?;
    for from in ["trash", "refs"] {
        let reason = lock_reason(id, from);
        let is_it = |entry: &&WorktreeEntry| {
            let there = entry.root.as_ref().is_some_and(|root| root.is_dir());
            there && entry.locked.as_ref() == Some(&reason)
        };
        if let Some(entry) = all.iter().find(is_it) {
            return Ok(Some((entry.clone(), from)));
        }
    }
    Ok(None)
}

/// The folder in which a worktree is built from the refs. The worktree itself is below it under its own name, because
/// git names its git folder after that.
fn making(goal: &Path, id: &RescueId) -> PathBuf {
    goal.with_file_name(format!(".jit-restore-{id}"))
}

/// Deletes what an interrupted command had built from the refs. Only such a command creates anything there.
fn discard_half_made<'a>(
    common: &Path,
    id: &RescueId,
    goals: impl Iterator<Item = &'a PathBuf>,
) -> Outcome<()> {
    let name = format!(".jit-restore-{id}");
    let real = |path: &Path| fs::canonicalize(path).ok();
    let mut folders: Vec<PathBuf> = goals.map(|goal| making(goal, id)).collect();
    for entry in crate::worktree_identity::list(common).map_err(|e| refuse(Code::Io, e))? {
        let root = entry.root.unwrap_or_default();
        let folder = match root.parent().filter(|folder| folder.ends_with(&name)) {
            Some(folder) => folder.to_owned(),
            // It was to be renamed next.
            None => making(&root, id),
        };
        let made = folder.join(root.file_name().unwrap_or_default());
        if leads_to(&made).is_some_and(|home| real(&home) == real(&entry.git_dir))
            || root.starts_with(&folder)
        {
            folders.push(folder);
            discard(&entry.git_dir)?;
        }
    }
    for folder in folders {
        discard(&folder)?;
    }
    Ok(())
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut all| all.next().is_none())
}

impl Restore<'_> {
    fn tip(&self) -> Option<&String> {
        let refs = &self.manifest.refs;
        self.manifest
            .branch_tip
            .as_ref()
            .or_else(|| refs.get("branch"))
            .or_else(|| refs.get("head"))
    }

    /// Ensures that the branch exists and is at its old commit. A branch of another owner is not moved.
    fn ensure_branch(&self, needed: bool) -> Outcome<()> {
        let Some(tip) = self.tip() else { return Ok(()) };
        let name = format!("refs/heads/{}", self.branch);
        let failed = |e| refuse(Code::Io, e);
        let current = raw::git(self.common, self.common).verify(&name).map_err(failed)?;
        let help = format!("jit rescue restore {} --branch <another name>", self.manifest.id);
        match current {
            None => {
                let none = "0".repeat(tip.len());
                raw::git(self.common, self.common)
                    .args(["update-ref", "--no-deref", &name, tip, &none])
                    .run()
                    .map_err(failed)?;
                Ok(())
            }
            Some(current) if current == *tip => {
                let used = crate::worktree_identity::list(self.common).map_err(|e| refuse(Code::Io, e))?;
                let user = used.iter().find(|one| {
                    one.branch.as_ref() == Some(&self.branch) && one.root.as_ref() != Some(&self.goal)
                });
                match user.filter(|_| needed) {
                    None => Ok(()),
                    Some(user) => {
                        let place = user.root.as_deref().unwrap_or(&user.git_dir).display();
                        let message = format!("the branch {} is checked out in {place}", self.branch);
                        Err(Box::new(Refusal::new(Code::Exists, message).help(help)))
                    }
                }
            }
            Some(_) if needed => {
                let message = format!("there is another branch called {} by now", self.branch);
                Err(Box::new(Refusal::new(Code::Exists, message).help(help)))
            }
            Some(_) => Ok(()),
        }
    }

    fn out_of_trash(&mut self) -> Outcome<Restored> {
        let folder = self.trash.folder(&self.manifest.id);
        let (tree, admin) = (folder.join(TREE), folder.join(ADMIN));
        let head = fs::read(admin.join("HEAD")).map_err(|e| io_refusal("read", &admin, &e))?;
        let on = self.require_head(&head)?;
        self.trash.write(&self.manifest)?;
        // The folder was gone before: only the index has its files.
        let gone = tree.symlink_metadata().is_err() && !self.manifest.refs.contains_key("worktree");
        if tree.symlink_metadata().is_ok() {
            match self.goal.symlink_metadata() {
                Ok(_) => forget_copied(&tree)?,
                Err(_) => put_back(&tree, &self.goal, &making(&self.goal, &self.manifest.id))?,
            }
        } else if gone {
            fs::create_dir_all(&self.goal).map_err(|e| io_refusal("create", &self.goal, &e))?;
        }
        // Git may know of it only from here on: git would delete the data of a worktree without a folder.
        let name = self.admin_name()?;
        let home = self.common.join("worktrees").join(&name);
        let write = |path: &Path, content: &[u8]| {
            file::replace_here(path, content).map_err(|e| io_refusal("write", path, &e))
        };
        let mut link = self.goal.join(".git").into_os_string().as_bytes().to_vec();
        link.push(b'\n');
        write(&admin.join("gitdir"), &link)?;
        if let Some(branch) = on.filter(|_| text(&head) != IN_TABLES) {
            write(
                &admin.join("HEAD"),
                format!("ref: refs/heads/{branch}\n").as_bytes(),
            )?;
        }
        write(
            &admin.join("locked"),
            lock_reason(&self.manifest.id, "trash").as_bytes(),
        )?;
        if self.goal.symlink_metadata().is_ok() {
            let content = [b"gitdir: ", home.as_os_str().as_bytes(), b"\n"].concat();
            self.link(&self.goal.join(".git"), &content)?;
        }
        fs::create_dir_all(self.common.join("worktrees")).map_err(|e| io_refusal("create", &home, &e))?;
        put_back(&admin, &home, &making(&home, &self.manifest.id))?;
        step("put_back");
        self.settle(&home, "trash")
    }

    /// Does the last steps, in a worktree that is in its place. Repeating them changes nothing.
    fn settle(&mut self, home: &Path, from: &'static str) -> Outcome<Restored> {
        discard(&making(&self.goal, &self.manifest.id))?;
        if !self.manifest.refs.contains_key("worktree") {
            // The folder may have been gone before: then only the index has its files. The checkout overwrites
            // nothing, and an existing file is no error.
            let files = Git::at(&self.goal).skipping_filters();
            let _ = files.args(["checkout-index", "--all", "--quiet"]).try_run();
        }
        // HEAD may be invalid: it is restored as it was.
        let head = raw::git(home, home).symbolic_head().unwrap_or_default();
        let mut on = head.and_then(|name| name.strip_prefix("refs/heads/").map(str::to_owned));
        if on.as_ref() == Some(&self.manifest.branch) && self.branch != self.manifest.branch {
            // With reftables, HEAD came along with the tables.
            self.ensure_branch(true)?;
            self.set_head(home, &self.branch)?;
            on = Some(self.branch.clone());
        }
        self.mend_submodules(home)?;
        // Recorded first: without the lock, the next command would not recognize it.
        let restored = self.finish(on, from)?;
        step("restored");
        let locked = home.join("locked");
        match fs::remove_file(&locked) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(io_refusal("remove", &locked, &e)),
            _ => {}
        }
        step("unlocked");
        Ok(restored)
    }

    /// Replaces a file that names the place of a git folder, through a folder beside the worktree.
    fn link(&self, path: &Path, content: &[u8]) -> Outcome<()> {
        let folder = making(&self.goal, &self.manifest.id);
        discard(&folder)?;
        let by_way = || -> io::Result<()> {
            fs::create_dir(&folder)?;
            let made = folder.join("link");
            file::replace_here(&made, content)?;
            if let Ok(old) = path.symlink_metadata().map(|meta| meta.permissions()) {
                fs::set_permissions(&made, old)?;
            }
            fs::rename(&made, path)
        };
        // Nothing can be created beside it, or that is another file system.
        let done = by_way().or_else(|_| file::replace_here(path, content));
        discard(&folder)?;
        done.map_err(|e| io_refusal("write", path, &e))
    }

    fn set_head(&self, home: &Path, branch: &str) -> Outcome<()> {
        let full = format!("refs/heads/{branch}");
        let set = raw::git(home, home).args(["symbolic-ref", "HEAD", &full]).run();
        set.map(drop).map_err(|e| refuse(Code::Io, e))
    }

    /// The branch that HEAD was on, if it was on one.
    fn was_on(&self, head: &[u8]) -> Option<String> {
        let head = text(head);
        let full = match head == IN_TABLES {
            false => head.strip_prefix("ref: ").map(str::to_owned),
            true => match &self.manifest.head_ref {
                Some(full) => Some(full.clone()),
                // Not recorded, or detached: the two look the same here, and the reftables have the answer.
                None if self.manifest.head == self.manifest.branch_tip => {
                    Some(format!("refs/heads/{}", self.manifest.branch))
                }
                None => None,
            },
        };
        full?.strip_prefix("refs/heads/").map(str::to_owned)
    }

    /// The branch that HEAD is to be on, which exists then; `None` for a detached HEAD.
    fn require_head(&self, head: &[u8]) -> Outcome<Option<String>> {
        match self.was_on(head) {
            Some(on) if on == self.manifest.branch => {
                self.ensure_branch(true)?;
                Ok(Some(self.branch.clone()))
            }
            other => {
                self.ensure_branch(false)?;
                Ok(other)
            }
        }
    }

    /// A free name in `.git/worktrees`: the old one, if possible.
    fn admin_name(&self) -> Outcome<PathBuf> {
        let old = self.manifest.admin.as_deref().map(unshown);
        let old = old.unwrap_or_else(|| PathBuf::from(self.manifest.unit.as_str()));
        let folder = self.common.join("worktrees");
        for n in 1..1000 {
            let mut name = old.clone().into_os_string();
            if n > 1 {
                name.push(n.to_string());
            }
            if folder.join(&name).symlink_metadata().is_err() {
                return Ok(name.into());
            }
        }
        Err(refuse(Code::Io, "there is no free name in .git/worktrees"))
    }

    fn out_of_refs(&mut self) -> Outcome<Restored> {
        let failed = |e| refuse(Code::Io, e);
        let id = self.manifest.id.clone();
        let refs = self.manifest.refs.clone();
        let raw_tree = refs.contains_key("worktree");
        let Some(head) = self.manifest.head.clone().or_else(|| self.tip().cloned()) else {
            return self.folder_only();
        };
        let on = match refs.contains_key("git-dir") {
            true => {
                let name = format!("{}:HEAD", id.reference("git-dir"));
                let head = raw::git(self.common, self.common)
                    .args(["cat-file", "blob", &name])
                    .run();
                self.require_head(&head.map_err(failed)?)?
            }
            false => {
                self.ensure_branch(true)?;
                Some(self.branch.clone())
            }
        };
        if self.trash.folder(&id).is_dir() {
            self.trash.write(&self.manifest)?;
        }
        let folder = making(&self.goal, &id);
        fs::create_dir(&folder).map_err(|e| io_refusal("create", &folder, &e))?;
        let made = folder.join(self.goal.file_name().unwrap_or(OsStr::new("tree")));
        let mut git = raw::git(self.common, self.common).args(["worktree", "add", "-q", "--detach"]);
        if raw_tree {
            git = git.arg("--no-checkout");
        }
        git.arg(&made).arg(&head).run().map_err(failed)?;
        step("made_again");
        let home = leads_to(&made).ok_or_else(|| refuse(Code::Io, "git made no worktree"))?;
        let tables = home.join("reftable");
        let git_dir = raw_tree && refs.contains_key("git-dir");
        let from_tables = git_dir && tables.is_dir();
        // Before its reflog is restored: this call would add to it.
        if let Some(branch) = on.filter(|_| !from_tables) {
            self.set_head(&home, &branch)?;
        }
        let extras = self.extras()?;
        if raw_tree {
            let files = raw::list(self.common, &id.reference("worktree"))?;
            let files: Vec<raw::Stored> = files
                .into_iter()
                .filter(|one| one.path != Path::new(".git"))
                .collect();
            raw::read_into(
                self.common,
                &made,
                &files,
                extras.get("worktree").map_or(&[], Vec::as_slice),
            )?;
        }
        step("half_read");
        if git_dir {
            let own = ["HEAD", "gitdir", "commondir", "locked"];
            let files = raw::list(self.common, &id.reference("git-dir"))?;
            let files: Vec<raw::Stored> = files
                .into_iter()
                .filter(|one| !own.iter().any(|name| one.path == Path::new(name)))
                .collect();
            if from_tables {
                // HEAD and its reflog are in the reftables that are restored now.
                discard(&tables)?;
            }
            raw::read_into(
                self.common,
                &home,
                &files,
                extras.get("git-dir").map_or(&[], Vec::as_slice),
            )?;
        }
        let write = |path: PathBuf, content: &[&[u8]]| {
            file::replace_here(&path, &content.concat()).map_err(|e| io_refusal("write", &path, &e))
        };
        // Git may have written a relative path here.
        write(
            made.join(".git"),
            &[b"gitdir: ", home.as_os_str().as_bytes(), b"\n"],
        )?;
        write(home.join("locked"), &[lock_reason(&id, "refs").as_bytes()])?;
        let link = self.goal.join(".git");
        write(home.join("gitdir"), &[link.as_os_str().as_bytes(), b"\n"])?;
        step("half_restored");
        rename_new(&made, &self.goal).map_err(|e| io_refusal("move", &made, &e.into()))?;
        let _ = fs::remove_dir(&folder);
        step("placed");
        self.settle(&home, "refs")
    }

    /// Restores the files into a plain folder: there was no commit at all.
    fn folder_only(&mut self) -> Outcome<Restored> {
        if !self.manifest.refs.contains_key("worktree") {
            return Err(refuse(
                Code::NotFound,
                format!("{} has nothing that can be restored", self.manifest.id),
            ));
        }
        let folder = making(&self.goal, &self.manifest.id);
        let made = folder.join("tree");
        fs::create_dir_all(&made).map_err(|e| io_refusal("create", &made, &e))?;
        let files = raw::list(self.common, &self.manifest.id.reference("worktree"))?;
        let files: Vec<raw::Stored> = files
            .into_iter()
            .filter(|one| one.path != Path::new(".git"))
            .collect();
        let extras = self.extras()?;
        raw::read_into(
            self.common,
            &made,
            &files,
            extras.get("worktree").map_or(&[], Vec::as_slice),
        )?;
        rename_new(&made, &self.goal).map_err(|e| io_refusal("move", &made, &e.into()))?;
        let _ = fs::remove_dir(&folder);
        self.finish(None, "refs")
    }

    fn extras(&self) -> Outcome<BTreeMap<String, Vec<Extra>>> {
        let name = format!("{}:{EXTRAS}", self.manifest.id.reference("entry"));
        let content = raw::git(self.common, self.common)
            .args(["cat-file", "blob", &name])
            .run()
            .map_err(|e| refuse(Code::Io, e))?;
        serde_json::from_slice(&content).map_err(|e| refuse(Code::Io, e))
    }

    /// Repairs submodules. Each names its git folder, and the git folder names the submodule: both may have moved.
    fn mend_submodules(&self, home: &Path) -> Outcome<()> {
        let original = unshown(&self.manifest.worktree_path);
        let old_home = self
            .manifest
            .admin
            .as_deref()
            .map(|name| self.common.join("worktrees").join(unshown(name)));
        if original == self.goal && old_home.as_deref() == Some(home) {
            return Ok(());
        }
        for inner in Walk::of(&self.goal)?.repositories() {
            let link = self.goal.join(&inner).join(".git");
            let Ok(Some(content)) = file::read_real(&link, 1 << 16) else {
                continue;
            };
            let Some(goal) = content.strip_prefix(b"gitdir: ") else {
                continue;
            };
            let goal = original
                .join(&inner)
                .join(OsStr::from_bytes(goal.trim_ascii_end()));
            let goal = plain(&goal);
            let Some(rest) = old_home.as_deref().and_then(|old| goal.strip_prefix(old).ok()) else {
                continue;
            };
            let module = home.join(rest);
            raw::git(self.common, self.common)
                .args(["config", "--file"])
                .arg(module.join("config"))
                .arg("core.worktree")
                .arg(self.goal.join(&inner))
                .run()
                .map_err(|e| refuse(Code::Io, e))?;
            // Written last: it shows whether this submodule is still to be repaired.
            let content = [b"gitdir: ", module.as_os_str().as_bytes(), b"\n"].concat();
            self.link(&link, &content)?;
        }
        Ok(())
    }

    fn finish(&mut self, branch: Option<String>, from: &'static str) -> Outcome<Restored> {
        self.manifest.stage = Stage::Restored;
        if self.trash.folder(&self.manifest.id).is_dir() {
            self.trash.write(&self.manifest)?;
        }
        Ok(Restored {
            id: self.manifest.id.clone(),
            path: self.goal.to_string_lossy().into_owned(),
            branch,
            from: from.into(),
            next: Vec::new(),
        })
    }
}
