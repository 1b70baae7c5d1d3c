//! Getting a worktree back: from the trash, byte for byte, or from the refs when the trash has been emptied.
//!
//! Invariants: nothing that is there is overwritten (no path, no branch); cut short, the same command goes on; the refs of
//! the entry stay until they are dropped.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use jit_core::refusal::{Code, Refusal};
use serde::Serialize;

use super::RescueId;
use super::raw::{self, Extra, shown, text, unshown};
use super::save::EXTRAS;
use super::site::leads_to;
use super::trash::{ADMIN, Manifest, Stage, TREE, Trash, put_back};
use super::walk::Walk;
use crate::app::refuse;
use crate::git::files::plain;
use crate::git::{Git, worktrees};
use crate::os::file;
use crate::store::Outcome;
use crate::store::file::io_refusal;

/// What was made again.
#[derive(Debug, Clone, Serialize)]
pub struct Restored {
    pub id: RescueId,
    pub path: String,
    /// Null when HEAD is detached there.
    pub branch: Option<String>,
    /// `trash` or `refs`.
    pub from: &'static str,
    /// How it comes to the target.
    pub next: Vec<String>,
}

struct Restore<'a> {
    trash: &'a Trash,
    common: &'a Path,
    manifest: Manifest,
    goal: PathBuf,
    branch: String,
}

/// Makes the worktree of an entry again, at `to` or where it was, its branch under `branch` or its own name.
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
    let folder = trash.folder(&manifest.id);
    let there = |name: &str| folder.join(name).symlink_metadata().is_ok();
    // The tree went back already, its git folder did not.
    let half_done = !there(TREE) && there(ADMIN) && manifest.restored_to.is_some();
    let goal = match (&manifest.restored_to, half_done) {
        (Some(path), true) => unshown(path),
        _ => to.unwrap_or_else(|| unshown(&manifest.worktree_path)),
    };
    let original = unshown(&manifest.worktree_path);
    // A removal that was cut short after its first half: the tree is still in its place.
    let in_place = manifest.stage == Stage::Moving && !there(TREE) && goal == original;
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
    if !half_done && !in_place && goal.symlink_metadata().is_ok() {
        let message = format!("{} is there already: nothing is overwritten", goal.display());
        let help = format!("jit rescue restore {} --to <another folder>", manifest.id);
        return Err(Box::new(Refusal::new(Code::Exists, message).help(help)));
    }
    if let Some(parent) = goal.parent() {
        fs::create_dir_all(parent).map_err(|e| io_refusal("create", parent, &e))?;
    }
    let branch = branch.unwrap_or_else(|| manifest.branch.clone());
    manifest.restored_to = Some(shown(&goal));
    let mut restore = Restore {
        trash,
        common,
        manifest,
        goal,
        branch,
    };
    // Without its files, its git folder is of no use where the refs have both.
    let whole = there(TREE) || half_done || in_place || !restore.manifest.refs.contains_key("worktree");
    match there(ADMIN) && whole {
        true => restore.out_of_trash(),
        false => restore.out_of_refs(),
    }
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

    /// Makes sure that the branch is there and is what it was. Nobody else's is moved.
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
                    .args(["update-ref", &name, tip, &none])
                    .run()
                    .map_err(failed)?;
                Ok(())
            }
            Some(current) if current == *tip => {
                let used = worktrees::list(self.common).map_err(|e| refuse(Code::Io, e))?;
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
        // The folder was gone before: the index has what there is of its files.
        let gone = tree.symlink_metadata().is_err() && !self.manifest.refs.contains_key("worktree");
        if tree.symlink_metadata().is_ok() {
            put_back(&tree, &self.goal)?;
        } else if gone {
            fs::create_dir_all(&self.goal).map_err(|e| io_refusal("create", &self.goal, &e))?;
        }
        // Only now may git know of it: of one without a folder it would delete what it has.
        let name = self.admin_name()?;
        let home = self.common.join("worktrees").join(&name);
        let write = |path: &Path, content: &[u8]| {
            file::replace_here(path, content).map_err(|e| io_refusal("write", path, &e))
        };
        let mut link = self.goal.join(".git").into_os_string().as_bytes().to_vec();
        link.push(b'\n');
        write(&admin.join("gitdir"), &link)?;
        if let Some(branch) = &on {
            write(
                &admin.join("HEAD"),
                format!("ref: refs/heads/{branch}\n").as_bytes(),
            )?;
        }
        if let Err(e) = fs::remove_file(admin.join("locked"))
            && e.kind() != io::ErrorKind::NotFound
        {
            return Err(io_refusal("remove", &admin.join("locked"), &e));
        }
        if self.goal.symlink_metadata().is_ok() {
            let content = [b"gitdir: ", home.as_os_str().as_bytes(), b"\n"].concat();
            write(&self.goal.join(".git"), &content)?;
        }
        fs::create_dir_all(self.common.join("worktrees")).map_err(|e| io_refusal("create", &home, &e))?;
        put_back(&admin, &home)?;
        if gone {
            // It overwrites nothing; that something is there is no mistake.
            let files = Git::at(&self.goal).without_hooks();
            let _ = files.args(["checkout-index", "--all", "--quiet"]).try_run();
        }
        self.mend_submodules(&home)?;
        self.finish(on, "trash")
    }

    /// The branch that HEAD is to be on, which is there then; `None` for a commit.
    fn require_head(&self, head: &[u8]) -> Outcome<Option<String>> {
        let on = text(head).strip_prefix("ref: refs/heads/").map(str::to_owned);
        match on {
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

    /// A name in `.git/worktrees` that nobody has: its old one, if that is free.
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
        let mut git = raw::git(self.common, self.common).args(["worktree", "add", "-q", "--detach"]);
        if raw_tree {
            git = git.arg("--no-checkout");
        }
        git.arg(&self.goal).arg(&head).run().map_err(failed)?;
        let home = leads_to(&self.goal).ok_or_else(|| refuse(Code::Io, "git made no worktree"))?;
        // Before its reflog is put back: this would add to it.
        if let Some(branch) = &on {
            let full = format!("refs/heads/{branch}");
            raw::git(&home, &home)
                .args(["symbolic-ref", "HEAD", &full])
                .run()
                .map_err(failed)?;
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
                &self.goal,
                &files,
                extras.get("worktree").map_or(&[], Vec::as_slice),
            )?;
            let own = ["HEAD", "gitdir", "commondir", "locked"];
            let files = raw::list(self.common, &id.reference("git-dir"))?;
            let files: Vec<raw::Stored> = files
                .into_iter()
                .filter(|one| !own.iter().any(|name| one.path == Path::new(name)))
                .collect();
            raw::read_into(
                self.common,
                &home,
                &files,
                extras.get("git-dir").map_or(&[], Vec::as_slice),
            )?;
        }
        self.mend_submodules(&home)?;
        self.finish(on, "refs")
    }

    /// There was no commit at all: the files in a folder.
    fn folder_only(&mut self) -> Outcome<Restored> {
        if !self.manifest.refs.contains_key("worktree") {
            return Err(refuse(
                Code::NotFound,
                format!("{} has nothing that can be restored", self.manifest.id),
            ));
        }
        fs::create_dir(&self.goal).map_err(|e| io_refusal("create", &self.goal, &e))?;
        let files = raw::list(self.common, &self.manifest.id.reference("worktree"))?;
        let files: Vec<raw::Stored> = files
            .into_iter()
            .filter(|one| one.path != Path::new(".git"))
            .collect();
        let extras = self.extras()?;
        raw::read_into(
            self.common,
            &self.goal,
            &files,
            extras.get("worktree").map_or(&[], Vec::as_slice),
        )?;
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

    /// Submodules say where their git folder is, and that says where they are: both may have moved.
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
            let content = [b"gitdir: ", module.as_os_str().as_bytes(), b"\n"].concat();
            file::replace_here(&link, &content).map_err(|e| io_refusal("write", &link, &e))?;
            raw::git(self.common, self.common)
                .args(["config", "--file"])
                .arg(module.join("config"))
                .arg("core.worktree")
                .arg(self.goal.join(&inner))
                .run()
                .map_err(|e| refuse(Code::Io, e))?;
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
            from,
            next: Vec::new(),
        })
    }
}
