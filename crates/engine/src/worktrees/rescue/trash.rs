//! The trash: folders that were worktrees, and a manifest for each.
//!
//! Format: `<control>/trash/<id>/manifest.json`, `tree/`, `admin/`. `<name>.part` is an unfinished copy from another
//! file system and may be deleted. A manifest is replaced as a whole, and synced.
//!
//! Stages:
//!
//! - `saving`: nothing has been touched;
//! - `moving`: the refs exist, the folders are being moved;
//! - `kept`: the entry is complete;
//! - `removing`: the contents of the trash are being deleted;
//! - `restored`: the worktree was restored.

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
/// Maximum number of pieces of work that are named; all of them are kept.
const MOST_NAMED: usize = 1000;
/// A younger empty folder may belong to an entry that is being created.
const JUST_MADE: Duration = Duration::from_secs(60);

/// The record of one entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub schema_version: u64,
    pub id: RescueId,
    pub unit: UnitId,
    pub stage: Stage,
    pub created_ms: i64,
    /// The reason why the unit was abandoned, if it was.
    pub reason: Option<String>,
    pub worktree_path: String,
    /// The name of its folder in `.git/worktrees`, as [`raw::shown`] writes it.
    pub admin: Option<String>,
    pub branch: String,
    pub branch_tip: Option<String>,
    pub head: Option<String>,
    /// The ref that HEAD was on. Null if HEAD was detached, and in older entries without this field. With reftables
    /// the file HEAD does not contain it.
    #[serde(default)]
    pub head_ref: Option<String>,
    pub target: String,
    /// Work that was not on the target.
    pub work: Vec<Work>,
    /// Other things that were kept.
    pub aside: Vec<Work>,
    /// The number of all pieces, including those that are not named.
    pub work_count: usize,
    /// Refs without `refs/jit/rescue/<id>/`, and the objects that they name.
    pub refs: BTreeMap<String, String>,
    /// The refs contain everything that the trash contains, except ignored folders.
    pub refs_complete: bool,
    /// The folder contains nothing that must be kept.
    pub disposable: bool,
    pub restored_to: Option<String>,
}

impl Manifest {
    pub fn new(id: RescueId, unit: &Unit, root: &Path) -> Self {
        Self {
            reason: unit.abandoned.clone(),
            branch: unit.branch.clone(),
            target: unit.goes_to().to_owned(),
            ..Self::of_other(id, unit.id.clone(), root)
        }
    }

    /// The record of a worktree that belongs to no unit.
    pub fn of_other(id: RescueId, name: UnitId, root: &Path) -> Self {
        Self {
            schema_version: 1,
            id,
            unit: name,
            stage: Stage::Saving,
            created_ms: clock::wall_ms(),
            reason: None,
            worktree_path: raw::shown(root),
            admin: None,
            branch: String::new(),
            branch_tip: None,
            head: None,
            head_ref: None,
            target: String::new(),
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

    /// Creates an entry for a unit, with a unique name.
    pub fn begin(&self, unit: &Unit, root: &Path) -> Outcome<Manifest> {
        self.begin_as(unit.id.as_str(), |id| Manifest::new(id, unit, root))
    }

    /// Creates an entry with a unique name that begins with this one.
    pub fn begin_as(&self, name: &str, manifest: impl FnOnce(RescueId) -> Manifest) -> Outcome<Manifest> {
        let failed = |path: &Path, e: &io::Error| io_refusal("create", path, e);
        file::make_dir_like_parent(&self.folder).map_err(|e| failed(&self.folder, &e))?;
        let like = self
            .folder
            .symlink_metadata()
            .map_err(|e| failed(&self.folder, &e))?;
        let second = jiff::Timestamp::from_millisecond(clock::wall_ms()).unwrap_or_default();
        let stem = format!("{name}-{}", second.strftime("%Y%m%dT%H%M%SZ"));
        for n in 1..1000 {
            let name = if n == 1 {
                stem.clone()
            } else {
                format!("{stem}-{n}")
            };
            let id: RescueId = name.parse().map_err(|e: String| refuse(Code::Invalid, e))?;
            let folder = self.folder(&id);
            // An interrupted attempt in the same second may have left refs under that name.
            if self.refs_folder(&id).symlink_metadata().is_ok() {
                continue;
            }
            match fs::DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => {
                    let manifest = manifest(id);
                    let made = fs::set_permissions(&folder, like.permissions())
                        .map_err(|e| failed(&folder, &e))
                        .and_then(|()| self.write(&manifest));
                    if let Err(refusal) = made {
                        // The folder contains nothing except the manifest that could not be written.
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
            // A manifest that cannot be parsed is in the refs too.
            Ok(Some(content)) => Ok(serde_json::from_slice(&content).ok()),
            Ok(None) => Ok(None),
            Err(e) => Err(io_refusal("read", &path, &e)),
        }
    }

    /// All entries, oldest first: those in the trash, and those that only refs have.
    pub fn all(&self) -> Outcome<Vec<Manifest>> {
        self.found().map(|(all, _)| all)
    }

    /// The entries that contain something. A killed removal leaves empty ones, which the next removal deletes.
    pub fn filled(&self) -> Outcome<Vec<Manifest>> {
        self.parted().map(|(filled, _)| filled)
    }

    /// The entries that contain something, and the empty ones.
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

    /// Removes empty entry folders that a killed deletion left, unless they were just created.
    pub fn sweep_empty(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let made = entry.metadata().and_then(|meta| meta.modified());
            let age = made.ok().and_then(|time| time.elapsed().ok());
            if age.is_some_and(|age| age > JUST_MADE) {
                let _ = fs::remove_dir(entry.path());
            }
        }
    }

    /// False if no entry has refs, as git's files show.
    fn may_have_refs(&self) -> bool {
        let there = |name: &str| self.common.join(name).symlink_metadata().is_ok();
        if there("reftable") || there(REFS) {
            return true;
        }
        match fs::read(self.common.join("packed-refs")) {
            Ok(packed) => packed.windows(REFS.len()).any(|part| part == REFS.as_bytes()),
            Err(e) => e.kind() != io::ErrorKind::NotFound,
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
        let listing = match self.may_have_refs() {
            true => raw::git(&self.common, &self.common)
                .args(["for-each-ref", "--format=%(refname)", REFS])
                .run()
                .map_err(|e| refuse(Code::Io, e))?,
            false => Vec::new(),
        };
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

    /// Returns whether the work of this unit was restored after a removal.
    pub fn was_restored(&self, unit: &Unit) -> Outcome<bool> {
        let of_unit = |one: &Manifest| one.unit == unit.id && one.created_ms >= unit.created_at.ms();
        let all = self.all()?;
        Ok(all.iter().any(|one| of_unit(one) && one.stage == Stage::Restored))
    }

    /// Settles an attempt that was interrupted while it saved: its refs, if there are any, become an entry of their
    /// own. The caller holds the unit's lock.
    pub fn settle(&self, mut manifest: Manifest) -> Outcome<()> {
        self.unlock_refs(&manifest.id);
        match self.in_refs(&manifest.id)? {
            Some(mut saved) => {
                // A killed git process has created some of the refs, and not the others. Objects that are missing now
                // are still in the worktree.
                let _ = save::complete(&self.common, &saved);
                saved.stage = Stage::Kept;
                self.write(&saved)
            }
            None => self.empty(&mut manifest, true),
        }
    }

    /// The folder of an entry's refs, in a repository that stores refs as files.
    fn refs_folder(&self, id: &RescueId) -> PathBuf {
        self.common.join(REFS).join(id.to_string())
    }

    /// Removes the lock files of a git process that was killed while it wrote the refs of an entry. Only the creator
    /// of the entry writes them, and the caller holds its lock.
    fn unlock_refs(&self, id: &RescueId) {
        let folder = self.refs_folder(id);
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|end| end == "lock") {
                let _ = fs::remove_file(entry.path());
            }
        }
        // Succeeds only if it is empty.
        let _ = fs::remove_dir(&folder);
    }

    /// The manifest that the refs of an entry contain.
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

    /// Finishes an interrupted deletion, if no other process has done so. The caller holds the unit's lock.
    pub fn finish_removal(&self, id: &RescueId) -> Outcome<()> {
        match self.read(id)?.filter(|one| one.stage == Stage::Removing) {
            Some(mut one) => {
                let whole = one.refs.is_empty();
                self.empty(&mut one, whole)
            }
            None => Ok(()),
        }
    }

    /// Returns whether the worktree itself is in the trash.
    pub fn has_tree(&self, id: &RescueId) -> bool {
        self.folder(id).join(TREE).symlink_metadata().is_ok()
    }

    /// The size of an entry in the trash, in bytes.
    pub fn size(&self, id: &RescueId) -> u64 {
        Walk::of(&self.folder(id)).map_or(0, |walk| walk.found.iter().map(|one| one.size).sum())
    }

    /// Ensures that a folder is in the trash under this name. Returns whether it was still in its place.
    pub fn take(&self, id: &RescueId, from: &Path, name: &str) -> Outcome<bool> {
        let to = self.folder(id).join(name);
        let aside = beside(from, id, name);
        // The original of a complete copy: only its deletion was left.
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
                // Another folder has been created there since: it must not be removed.
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

    /// The copy exists: renames the original, compares both once more, and deletes the original.
    fn leave(&self, from: &Path, to: &Path, aside: &Path) -> Outcome<bool> {
        rename_new(from, aside).map_err(|e| io_refusal("move", from, &e.into()))?;
        sync_parent(from);
        self.compare(from, to, aside)
    }

    /// Deletes the renamed original, if the copy is the same.
    fn compare(&self, from: &Path, to: &Path, aside: &Path) -> Outcome<bool> {
        if !same(aside, to)? {
            // It changed while it was copied.
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

    /// Copies a folder to another file system. The copy gets its final name only after it was compared.
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

    /// Deletes the contents of an entry in the trash, and the entry itself if `whole`.
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

/// Renames, and never replaces an existing path.
pub fn rename_new(from: &Path, to: &Path) -> rustix::io::Result<()> {
    use rustix::fs::{CWD, renameat_with};
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // This file system cannot guarantee that: a check before the rename is the next best.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            if to.symlink_metadata().is_ok() {
                return Err(Errno::EXIST);
            }
            rustix::fs::rename(from, to)
        }
        result => result,
    }
}

/// Moves a folder out of the trash. To another file system it goes through `part`, which is beside its destination.
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

/// Deletes a folder that has a complete copy elsewhere. It is renamed first, so that a partly deleted folder is not
/// taken for a complete one.
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

/// The name of an original that was compared with its copy in the trash and can be deleted.
fn surplus(aside: &Path) -> PathBuf {
    appended(aside, ".surplus")
}

fn sync_parent(path: &Path) {
    if let Some(folder) = path.parent() {
        // Both names are the same folder: either one can be found after a crash.
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
}

/// Deletes a folder or a file, even if folders inside are read-only. Refuses if a file system is mounted inside.
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
                    // Read-only files cannot be opened for that; their time is not important.
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

/// Returns whether two folders have the same names, kinds, permissions and bytes. Pipes, sockets and devices are
/// ignored: they are not copied.
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
