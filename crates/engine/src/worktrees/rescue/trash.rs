//! The trash: folders that were worktrees, and what is written down about each.
//!
//! Format: `<control>/trash/<id>/manifest.json`, `tree/`, `admin/`; `<name>.part` is a copy from another file system that is
//! not finished and may be deleted. A manifest is replaced whole, and synced.
//!
//! Stages: `saving` (nothing has been touched), `moving` (refs are there, folders are on their way), `kept`, `removing`
//! (what is in the trash is being deleted), `restored`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jit_core::model::ids::UnitId;
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::unit::Unit;
use jit_os::{clock, file, io_refusal, mounts};
use jit_store::Outcome;
use rustix::fs::RenameFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::save::{self, MANIFEST};
use super::walk::{Walk, What};
use super::{TRASH, raw};
use crate::api::rescue::REFS;
use crate::api::rescue::{RescueId, Stage, Work};
use crate::crash_point::step;
use crate::refusals::refuse;

pub const TREE: &str = "tree";
pub const ADMIN: &str = "admin";
/// Longest manifest that is read.
const MOST: u64 = 64 << 20;
/// So many pieces of work are written down; all of them are kept.
const MOST_NAMED: usize = 1000;
/// A folder without anything in it that is younger may be that of an entry which is being made.
const JUST_MADE: Duration = Duration::from_secs(60);

/// What is known about an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub schema_version: u64,
    pub id: RescueId,
    pub unit: UnitId,
    pub stage: Stage,
    pub created_ms: i64,
    /// Why the unit was given up, if it was.
    pub reason: Option<String>,
    pub worktree_path: String,
    /// The name of its folder in `.git/worktrees`, as [`raw::shown`] writes it.
    pub admin: Option<String>,
    pub branch: String,
    pub branch_tip: Option<String>,
    pub head: Option<String>,
    /// The ref that HEAD was on. Null where it was detached, and in entries of before this was written down: where git keeps
    /// refs in tables, the file HEAD does not tell.
    #[serde(default)]
    pub head_ref: Option<String>,
    pub target: String,
    /// What was not on the target.
    pub work: Vec<Work>,
    /// What was kept besides.
    pub aside: Vec<Work>,
    /// How many there were, also of those that are not named.
    pub work_count: usize,
    /// Refs without `refs/jit/rescue/<id>/`, and what they name.
    pub refs: BTreeMap<String, String>,
    /// The refs hold everything that the trash holds, ignored folders left out.
    pub refs_complete: bool,
    /// There is nothing to be kept in the folder.
    pub disposable: bool,
    pub restored_to: Option<String>,
}

impl Manifest {
    pub fn new(id: RescueId, unit: &Unit, root: &Path) -> Self {
        Self {
            schema_version: 1,
            id,
            unit: unit.id.clone(),
            stage: Stage::Saving,
            created_ms: clock::wall_ms(),
            reason: unit.abandoned.clone(),
            worktree_path: raw::shown(root),
            admin: None,
            branch: unit.branch.clone(),
            branch_tip: None,
            head: None,
            head_ref: None,
            target: unit.goes_to().to_owned(),
            work: Vec::new(),
            aside: Vec::new(),
            work_count: 0,
            refs: BTreeMap::new(),
            refs_complete: false,
            disposable: false,
            restored_to: None,
        }
    }

    pub fn name_work(&mut self, work: &[Work], aside: &[Work]) {
        self.work_count = work.len() + aside.len();
        self.work = work.iter().take(MOST_NAMED).cloned().collect();
        self.aside = aside.iter().take(MOST_NAMED).cloned().collect();
    }

    pub fn age_secs(&self) -> u64 {
        u64::try_from(clock::wall_ms().saturating_sub(self.created_ms) / 1000).unwrap_or(0)
    }
}

/// The trash of one control plane.
#[derive(Debug, Clone)]
pub struct Trash {
    folder: PathBuf,
    common: PathBuf,
}

impl Trash {
    pub fn at(control: &Path, common: &Path) -> Self {
        Self {
            folder: control.join(TRASH),
            common: common.to_owned(),
        }
    }

    pub fn control(&self) -> &Path {
        self.folder.parent().unwrap_or(&self.folder)
    }

    pub fn folder(&self, id: &RescueId) -> PathBuf {
        self.folder.join(id.as_str())
    }

    /// A new entry for a unit, with a name nobody else has.
    pub fn begin(&self, unit: &Unit, root: &Path) -> Outcome<Manifest> {
        let failed = |path: &Path, e: &io::Error| io_refusal("create", path, e);
        file::make_dir_like_parent(&self.folder).map_err(|e| failed(&self.folder, &e))?;
        let like = self
            .folder
            .symlink_metadata()
            .map_err(|e| failed(&self.folder, &e))?;
        let second = jiff::Timestamp::from_millisecond(clock::wall_ms()).unwrap_or_default();
        let stem = format!("{}-{}", unit.id, second.strftime("%Y%m%dT%H%M%SZ"));
        for n in 1..1000 {
            let name = if n == 1 {
                stem.clone()
            } else {
                format!("{stem}-{n}")
            };
            let id: RescueId = name.parse().map_err(|e: String| refuse(Code::Invalid, e))?;
            let folder = self.folder(&id);
            // One that was cut short in this second may have left something under that name.
            if self.refs_folder(&id).symlink_metadata().is_ok() {
                continue;
            }
            match fs::DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => {
                    let manifest = Manifest::new(id, unit, root);
                    let made = fs::set_permissions(&folder, like.permissions())
                        .map_err(|e| failed(&folder, &e))
                        .and_then(|()| self.write(&manifest));
                    if let Err(refusal) = made {
                        // Nothing is in it yet but what could not be written.
                        let _ = fs::remove_dir_all(&folder);
                        return Err(refusal);
                    }
                    return Ok(manifest);
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(failed(&folder, &e)),
            }
        }
        Err(refuse(
            Code::Io,
            format!("there are too many entries called {stem}"),
        ))
    }

    pub fn write(&self, manifest: &Manifest) -> Outcome<()> {
        let path = self.folder(&manifest.id).join(MANIFEST);
        let mut content = serde_json::to_vec_pretty(manifest).map_err(|e| refuse(Code::Io, e))?;
        content.push(b'\n');
        file::replace_here(&path, &content).map_err(|e| io_refusal("write", &path, &e))
    }

    fn read(&self, id: &RescueId) -> Outcome<Option<Manifest>> {
        let path = self.folder(id).join(MANIFEST);
        match file::read_real(&path, MOST) {
            // One that cannot be understood is in the refs too.
            Ok(Some(content)) => Ok(serde_json::from_slice(&content).ok()),
            Ok(None) => Ok(None),
            Err(e) => Err(io_refusal("read", &path, &e)),
        }
    }

    /// All entries, oldest first: those in the trash, and those that only refs tell of.
    pub fn all(&self) -> Outcome<Vec<Manifest>> {
        self.found().map(|(all, _)| all)
    }

    /// Those of them that hold something. A removal that was killed leaves others behind, for the next one to clear away.
    pub fn filled(&self) -> Outcome<Vec<Manifest>> {
        self.parted().map(|(filled, _)| filled)
    }

    /// Those that hold something, and those that do not.
    pub fn parted(&self) -> Outcome<(Vec<Manifest>, Vec<Manifest>)> {
        let (all, in_refs) = self.found()?;
        let is_filled = |one: &Manifest| {
            let more = |entry: fs::DirEntry| entry.file_name() != MANIFEST;
            one.stage == Stage::Restored
                || !one.refs.is_empty()
                || in_refs.contains(&one.id)
                || fs::read_dir(self.folder(&one.id))
                    .map_or(true, |mut all| all.any(|one| one.map_or(true, more)))
        };
        Ok(all.into_iter().partition(is_filled))
    }

    /// Folders of entries that a deletion which was killed left without anything in them go, where they are not just made.
    pub fn sweep_empty(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let made = entry.metadata().and_then(|meta| meta.modified());
            let age = made.ok().and_then(|time| time.elapsed().ok());
            if age.is_some_and(|age| age > JUST_MADE) {
                let _ = fs::remove_dir(entry.path());
            }
        }
    }

    /// All entries, and the names of those that have refs.
    fn found(&self) -> Outcome<(Vec<Manifest>, BTreeSet<RescueId>)> {
        let mut found: BTreeMap<RescueId, Manifest> = BTreeMap::new();
        match fs::read_dir(&self.folder) {
            Ok(entries) => {
                for entry in entries {
                    let entry = entry.map_err(|e| io_refusal("read", &self.folder, &e))?;
                    let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
                    if let Some(manifest) = id.map(|id| self.read(&id)).transpose()?.flatten() {
                        found.insert(manifest.id.clone(), manifest);
                    }
                }
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(io_refusal("read", &self.folder, &e)),
        }
        let listing = raw::git(&self.common, &self.common)
            .args(["for-each-ref", "--format=%(refname)", REFS])
            .run()
            .map_err(|e| refuse(Code::Io, e))?;
        let mut in_refs = BTreeSet::new();
        for line in String::from_utf8_lossy(&listing).lines() {
            let name = line.strip_prefix(REFS).and_then(|rest| rest.strip_prefix('/'));
            let Some((id, kind)) = name.and_then(|name| name.split_once('/')) else {
                continue;
            };
            let Ok(id) = id.parse::<RescueId>() else { continue };
            in_refs.insert(id.clone());
            if kind != "entry" || found.contains_key(&id) {
                continue;
            }
            if let Some(mut manifest) = self.in_refs(&id)? {
                // The refs outlived the folder.
                manifest.stage = Stage::Kept;
                found.insert(id, manifest);
            }
        }
        let mut all: Vec<Manifest> = found.into_values().collect();
        all.sort_by(|a, b| (a.created_ms, &a.id).cmp(&(b.created_ms, &b.id)));
        Ok((all, in_refs))
    }

    /// The entry of that name.
    pub fn require(&self, id: &RescueId) -> Outcome<Manifest> {
        let all = self.all()?;
        all.into_iter().find(|one| one.id == *id).ok_or_else(|| {
            Box::new(
                Refusal::new(Code::NotFound, format!("no rescue is called {id}")).help("jit rescue list"),
            )
        })
    }

    /// The entry that a removal of this unit began and did not finish.
    pub fn unfinished(&self, unit: &UnitId) -> Outcome<Option<Manifest>> {
        let mut all = self.all()?;
        all.retain(|one| one.unit == *unit && matches!(one.stage, Stage::Saving | Stage::Moving));
        Ok(all.pop())
    }

    /// Whether somebody got back what a removal of this unit had taken.
    pub fn was_restored(&self, unit: &Unit) -> Outcome<bool> {
        let of_unit = |one: &Manifest| one.unit == unit.id && one.created_ms >= unit.created_at.ms();
        let all = self.all()?;
        Ok(all.iter().any(|one| of_unit(one) && one.stage == Stage::Restored))
    }

    /// An attempt that was cut short while it saved: its refs, if it came that far, become an entry of their own.
    /// The caller has the unit's turn.
    pub fn settle(&self, mut manifest: Manifest) -> Outcome<()> {
        self.unlock_refs(&manifest.id);
        match self.in_refs(&manifest.id)? {
            Some(mut saved) => {
                // A git that is killed has some of them under their names, and some not. What cannot be had any more is
                // in its worktree still.
                let _ = save::complete(&self.common, &saved);
                saved.stage = Stage::Kept;
                self.write(&saved)
            }
            None => self.empty(&mut manifest, true),
        }
    }

    /// Where the refs of an entry are, in a repository that keeps them as files.
    fn refs_folder(&self, id: &RescueId) -> PathBuf {
        self.common.join(REFS).join(id.to_string())
    }

    /// Removes the locks of a git that was killed while it wrote the refs of an entry. Nobody but who made the entry does
    /// that, and who asks this has its turn.
    fn unlock_refs(&self, id: &RescueId) {
        let folder = self.refs_folder(id);
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|end| end == "lock") {
                let _ = fs::remove_file(entry.path());
            }
        }
        // Only where nothing is in it.
        let _ = fs::remove_dir(&folder);
    }

    /// The manifest that the refs of an entry hold.
    fn in_refs(&self, id: &RescueId) -> Outcome<Option<Manifest>> {
        let name = id.reference("entry");
        let git = || raw::git(&self.common, &self.common);
        if git().verify(&name).map_err(|e| refuse(Code::Io, e))?.is_none() {
            return Ok(None);
        }
        let content = git()
            .args(["cat-file", "blob", &format!("{name}:{MANIFEST}")])
            .run()
            .map_err(|e| refuse(Code::Io, e))?;
        Ok(serde_json::from_slice(&content).ok())
    }

    /// Finishes a deletion that was cut short, if nobody has done so meanwhile. The caller has the unit's turn.
    pub fn finish_removal(&self, id: &RescueId) -> Outcome<()> {
        match self.read(id)?.filter(|one| one.stage == Stage::Removing) {
            Some(mut one) => {
                let whole = one.refs.is_empty();
                self.empty(&mut one, whole)
            }
            None => Ok(()),
        }
    }

    /// Whether the worktree itself is in the trash.
    pub fn has_tree(&self, id: &RescueId) -> bool {
        self.folder(id).join(TREE).symlink_metadata().is_ok()
    }

    /// Bytes in the trash that an entry takes.
    pub fn size(&self, id: &RescueId) -> u64 {
        Walk::of(&self.folder(id)).map_or(0, |walk| walk.found.iter().map(|one| one.size).sum())
    }

    /// Makes sure that a folder is in the trash under this name. Says whether it was still where it belongs.
    pub fn take(&self, id: &RescueId, from: &Path, name: &str) -> Outcome<bool> {
        let to = self.folder(id).join(name);
        let aside = beside(from, id, name);
        // The original of a copy that is whole: only deleting it was left.
        let surplus = surplus(&aside);
        if surplus.symlink_metadata().is_ok() {
            discard(&surplus)?;
            return Ok(true);
        }
        if aside.symlink_metadata().is_ok() {
            return self.compare(from, &to, &aside);
        }
        if from.symlink_metadata().is_err() {
            return Ok(false);
        }
        if to.symlink_metadata().is_ok() {
            if !same(from, &to)? {
                // Something else has come to be there since: it is not ours to remove.
                return Ok(false);
            }
            return self.leave(from, &to, &aside);
        }
        match rename_new(from, &to) {
            Ok(()) => {
                sync_parent(from);
                sync_parent(&to);
                Ok(true)
            }
            Err(Errno::XDEV) => {
                self.copy(from, &to)?;
                self.leave(from, &to, &aside)
            }
            Err(e) => Err(io_refusal("move", from, &e.into())),
        }
    }

    /// The copy is there: the original gets another name, is compared once more, and goes.
    fn leave(&self, from: &Path, to: &Path, aside: &Path) -> Outcome<bool> {
        rename_new(from, aside).map_err(|e| io_refusal("move", from, &e.into()))?;
        sync_parent(from);
        self.compare(from, to, aside)
    }

    /// Deletes the original, which has another name already, if the copy is the same.
    fn compare(&self, from: &Path, to: &Path, aside: &Path) -> Outcome<bool> {
        if !same(aside, to)? {
            // Changed while it was copied.
            rename_new(aside, from).map_err(|e| io_refusal("move", aside, &e.into()))?;
            let stale = appended(to, &format!(".stale-{}", clock::wall_ms()));
            rename_new(to, &stale).map_err(|e| io_refusal("move", to, &e.into()))?;
            return Err(Box::new(
                Refusal::new(
                    Code::Busy,
                    format!("{} changed while it was copied", from.display()),
                )
                .help("run the command again"),
            ));
        }
        let surplus = surplus(aside);
        rename_new(aside, &surplus).map_err(|e| io_refusal("move", aside, &e.into()))?;
        discard(&surplus)?;
        Ok(true)
    }

    /// To another file system: everything, compared afterwards, under its name only when whole.
    fn copy(&self, from: &Path, to: &Path) -> Outcome<()> {
        let part = appended(to, ".part");
        if part.symlink_metadata().is_ok() {
            discard(&part)?;
        }
        let made = copy_tree(from, &part).and_then(|()| match same(from, &part)? {
            true => Ok(()),
            false => Err(refuse(
                Code::Busy,
                format!("{} changed while it was copied", from.display()),
            )),
        });
        if let Err(refusal) = made {
            let _ = discard(&part);
            return Err(refusal);
        }
        rename_new(&part, to).map_err(|e| io_refusal("move", &part, &e.into()))?;
        sync_parent(to);
        Ok(())
    }

    /// Deletes what is in the trash of an entry, and the entry itself if `whole`.
    pub fn empty(&self, manifest: &mut Manifest, whole: bool) -> Outcome<()> {
        let folder = self.folder(&manifest.id);
        if folder.symlink_metadata().is_err() {
            return Ok(());
        }
        manifest.stage = Stage::Removing;
        self.write(manifest)?;
        for entry in fs::read_dir(&folder).map_err(|e| io_refusal("read", &folder, &e))? {
            let entry = entry.map_err(|e| io_refusal("read", &folder, &e))?;
            if entry.file_name() != MANIFEST {
                discard(&entry.path())?;
            }
        }
        step("emptied");
        if whole {
            return discard(&folder);
        }
        manifest.stage = Stage::Kept;
        self.write(manifest)
    }

    /// Deletes the refs of an entry.
    pub fn drop_refs(&self, id: &RescueId) -> Outcome<()> {
        let prefix = format!("{REFS}/{id}/");
        let listing = raw::git(&self.common, &self.common)
            .args(["for-each-ref", "--format=delete %(refname)", &prefix])
            .run()
            .map_err(|e| refuse(Code::Io, e))?;
        if listing.is_empty() {
            return Ok(());
        }
        raw::git(&self.common, &self.common)
            .args(["update-ref", "--no-deref", "--stdin"])
            .stdin(listing)
            .run()
            .map_err(|e| refuse(Code::Io, e))?;
        Ok(())
    }
}

/// Renames, never onto something.
pub fn rename_new(from: &Path, to: &Path) -> rustix::io::Result<()> {
    use rustix::fs::{CWD, renameat_with};
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // A file system that cannot promise that: a look first is the next best.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            if to.symlink_metadata().is_ok() {
                return Err(Errno::EXIST);
            }
            rustix::fs::rename(from, to)
        }
        result => result,
    }
}

/// Moves a folder out of the trash, to another file system if need be: then by way of `part`, beside its goal.
pub fn put_back(from: &Path, to: &Path, part: &Path) -> Outcome<()> {
    match rename_new(from, to) {
        Ok(()) => {
            sync_parent(from);
            sync_parent(to);
            Ok(())
        }
        Err(Errno::XDEV) => {
            discard(part)?;
            copy_tree(from, part)?;
            if !same(from, part)? {
                let message = format!("the copy in {} is not whole", part.display());
                return Err(refuse(Code::Io, message));
            }
            rename_new(part, to).map_err(|e| io_refusal("move", part, &e.into()))?;
            sync_parent(to);
            forget_copied(from)
        }
        Err(e) => Err(io_refusal("move", from, &e.into())),
    }
}

/// Deletes what there is a whole copy of elsewhere. What is left of it half way is not taken for a whole.
pub fn forget_copied(from: &Path) -> Outcome<()> {
    let part = appended(from, ".part");
    discard(&part)?;
    rename_new(from, &part).map_err(|e| io_refusal("move", from, &e.into()))?;
    discard(&part)
}

fn beside(from: &Path, id: &RescueId, name: &str) -> PathBuf {
    from.with_file_name(format!(".jit-trash-{id}-{name}"))
}

fn appended(path: &Path, more: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(more);
    PathBuf::from(name)
}

/// The same, compared and found to be in the trash.
fn surplus(aside: &Path) -> PathBuf {
    appended(aside, ".surplus")
}

fn sync_parent(path: &Path) {
    if let Some(folder) = path.parent() {
        // Both names are the same folder: whichever survives, it is found.
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
}

/// Deletes a folder or a file, also where folders inside may not be written to; not where something is mounted inside.
pub fn discard(path: &Path) -> Outcome<()> {
    let gone = |path: &Path| match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => mounts::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    };
    match gone(path) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path);
            gone(path).map_err(|e| io_refusal("delete", path, &e))
        }
        other => other.map_err(|e| io_refusal("delete", path, &e)),
    }
}

fn open_up(path: &Path) {
    if path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            open_up(&entry.path());
        }
    }
}

fn copy_tree(from: &Path, to: &Path) -> Outcome<()> {
    let walk = Walk::of(from)?;
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |e: io::Error| io_refusal("copy", &path, &e)
    };
    fs::DirBuilder::new().mode(0o700).create(to).map_err(failed(to))?;
    let mut first: BTreeMap<u64, &Path> = BTreeMap::new();
    let mut modes = vec![(to.to_owned(), from.to_owned())];
    let mut folders: Vec<_> = walk.found.iter().filter(|one| one.what == What::Folder).collect();
    folders.sort_by_key(|one| one.path.components().count());
    for one in folders {
        let goal = to.join(&one.path);
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&goal)
            .map_err(failed(&goal))?;
        modes.push((goal, from.join(&one.path)));
    }
    for one in &walk.found {
        let (source, goal) = (from.join(&one.path), to.join(&one.path));
        match one.what {
            What::Folder | What::Special(_) => {}
            What::Link => {
                let link = fs::read_link(&source).map_err(failed(&source))?;
                std::os::unix::fs::symlink(link, &goal).map_err(failed(&goal))?;
            }
            What::File => {
                if let Some(twin) = first.get(&one.inode).filter(|_| one.links > 1) {
                    fs::hard_link(to.join(twin), &goal).map_err(failed(&goal))?;
                    continue;
                }
                first.insert(one.inode, &one.path);
                fs::copy(&source, &goal).map_err(failed(&source))?;
                let meta = source.symlink_metadata().map_err(failed(&source))?;
                let copy = File::open(&goal).map_err(failed(&goal))?;
                if let Ok(time) = meta.modified() {
                    // Read-only files cannot be opened for that; their time is not worth more.
                    let _ = copy.set_modified(time);
                }
                copy.sync_all().map_err(failed(&goal))?;
            }
        }
    }
    for (goal, source) in modes.iter().rev() {
        let meta = source.symlink_metadata().map_err(failed(source))?;
        fs::set_permissions(goal, meta.permissions()).map_err(failed(goal))?;
    }
    Ok(())
}

/// Whether two folders hold the same: names, kinds, permissions, bytes. Pipes and the like count by their absence: they are
/// not copied.
pub fn same(a: &Path, b: &Path) -> Outcome<bool> {
    let plain = |walk: Walk| -> Vec<super::walk::Found> {
        let mut found = walk.found;
        found.retain(|one| !matches!(one.what, What::Special(_)));
        found
    };
    let (left, right) = (plain(Walk::of(a)?), plain(Walk::of(b)?));
    if left.len() != right.len() {
        return Ok(false);
    }
    for (one, other) in left.iter().zip(&right) {
        let alike = one.path == other.path && one.what == other.what;
        if !alike || (one.what != What::Link && one.mode != other.mode) {
            return Ok(false);
        }
        let (one_path, other_path) = (a.join(&one.path), b.join(&other.path));
        let equal = match one.what {
            What::File => {
                one.size == other.size
                    && same_bytes(&one_path, &other_path).map_err(|e| io_refusal("read", &one_path, &e))?
            }
            What::Link => fs::read_link(&one_path).ok() == fs::read_link(&other_path).ok(),
            _ => true,
        };
        if !equal {
            return Ok(false);
        }
    }
    Ok(true)
}

fn same_bytes(a: &Path, b: &Path) -> io::Result<bool> {
    let (mut a, mut b) = (File::open(a)?, File::open(b)?);
    if a.metadata()?.ino() == b.metadata()?.ino() && a.metadata()?.dev() == b.metadata()?.dev() {
        return Ok(true);
    }
    let (mut left, mut right) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let count = a.read(&mut left)?;
        if count == 0 {
            return Ok(b.read(&mut right)? == 0);
        }
        let half = right.get_mut(..count).unwrap_or_default();
        match b.read_exact(half) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(e) => return Err(e),
        }
        if left.get(..count) != Some(&*half) {
            return Ok(false);
        }
    }
}
