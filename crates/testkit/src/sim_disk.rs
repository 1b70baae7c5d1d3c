//! A disk in memory that behaves as badly as a real disk may.
//!
//! # Model
//!
//! - **Page cache and disk.** Every file has the content that processes see and the content that a power loss leaves.
//!   A write makes pages of 4096 bytes dirty; `sync` makes them and the size durable. Until then each page may be
//!   found old, new, or in any state it had in between, independent of all other pages and of the size.
//! - **Names.** Creating, renaming and removing are kept in a journal of which a power loss leaves some beginning
//!   ([`Names::Prefix`], as journalling file systems do) or, per directory, anything ([`Names::Subset`]). `sync_dir`
//!   makes that directory's operations durable. Syncing a new file keeps its name too, as ext4, xfs and btrfs do,
//!   unless [`Options::sync_keeps_name`] is off.
//! - **Files are inodes**: an open file survives renaming and removal.
//! - **Death.** When a process is stopped at its n-th call, the page cache stays for the next one, and its locks are
//!   released.
//! - **Failed syncs** as on Linux: the pages count as clean afterwards, though they may not be on disk, so a later
//!   sync that succeeds has not saved them. Every process that had the file open gets the error once.
//! - **Locks** belong to an open file, are granted in the order of the requests, and end with their process.
//!
//! # Limitations
//!
//! A rename never forces data to disk (ext4's `auto_da_alloc` does): the store must not rely on it. Directories cannot be
//! renamed. There are no access rights: inject `ACCESS` where they matter.
//!
//! # Processes
//!
//! A clone of a [`SimDisk`] is the same process: it shares call numbers, faults and fate.
//! [`SimDisk::another_process`] sees the same files without those. Call numbers count from the moment of the method call
//! that takes them; the first call is 1.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io};

use jit_store::disk::{Disk, DiskFile, LockGuard, Meta, OpenMode};
use rustix::io::Errno;

use crate::rng::Rng;

const PAGE: usize = 4096;
const SECTOR: usize = 512;
/// Number of states of a dirty page that are kept besides the durable and the present one.
const VERSIONS: usize = 6;
const ROOT: &str = ".";

/// The effect of a power loss on names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Names {
    /// Operations survive in order, up to some point.
    #[default]
    Prefix,
    /// Any of the operations that were not synced survive.
    Subset,
}

/// The behavior of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    pub names: Names,
    /// Syncing a new file makes its name durable as well.
    pub sync_keeps_name: bool,
    /// Pages may be written in part, by sectors of 512 bytes.
    pub torn_pages: bool,
    /// Bytes within a new size that were never written are garbage instead of zeros.
    pub garbage: bool,
    /// A change of a file does not change its time, as when two changes fall into one tick of the kernel.
    pub coarse_times: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            names: Names::Prefix,
            sync_keeps_name: true,
            torn_pages: false,
            garbage: false,
            coarse_times: false,
        }
    }
}

impl Options {
    /// Everything that POSIX allows.
    pub fn harsh() -> Self {
        Self {
            names: Names::Subset,
            sync_keeps_name: false,
            torn_pages: true,
            garbage: true,
            coarse_times: true,
        }
    }
}

/// The operations of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiskCall {
    Open,
    Read,
    Write,
    SetLen,
    Meta,
    Sync,
    Rename,
    Remove,
    List,
    MakeDir,
    SyncDir,
    Lock,
    Unlock,
}

impl DiskCall {
    pub const ALL: [Self; 13] = [
        Self::Open,
        Self::Read,
        Self::Write,
        Self::SetLen,
        Self::Meta,
        Self::Sync,
        Self::Rename,
        Self::Remove,
        Self::List,
        Self::MakeDir,
        Self::SyncDir,
        Self::Lock,
        Self::Unlock,
    ];

    /// Whether the operation can change files or names.
    pub fn changes(self) -> bool {
        matches!(
            self,
            Self::Write | Self::SetLen | Self::Rename | Self::Remove | Self::MakeDir
        )
    }
}

/// One call: its operation, its path, and whether it failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRecord {
    pub kind: DiskCall,
    pub path: String,
    pub failed: bool,
}

/// Every call a process made, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Calls(pub Vec<CallRecord>);

impl Calls {
    pub fn total(&self) -> u64 {
        self.0.len() as u64
    }

    pub fn count(&self, kind: DiskCall) -> u64 {
        self.0.iter().filter(|call| call.kind == kind).count() as u64
    }

    /// The number of calls of this operation on this path.
    pub fn count_on(&self, kind: DiskCall, path: &str) -> u64 {
        let same = self
            .0
            .iter()
            .filter(|call| call.kind == kind && call.path == path);
        same.count() as u64
    }

    pub fn syncs(&self) -> u64 {
        self.count(DiskCall::Sync)
    }

    /// Syncs of files and directories.
    pub fn flushes(&self) -> u64 {
        self.count(DiskCall::Sync) + self.count(DiskCall::SyncDir)
    }

    pub fn writes(&self) -> u64 {
        self.count(DiskCall::Write)
    }

    pub fn reads(&self) -> u64 {
        self.count(DiskCall::Read)
    }

    pub fn opens(&self) -> u64 {
        self.count(DiskCall::Open)
    }

    pub fn renames(&self) -> u64 {
        self.count(DiskCall::Rename)
    }

    pub fn locks(&self) -> u64 {
        self.count(DiskCall::Lock)
    }
}

/// An injected failure.
#[derive(Debug, Clone)]
pub struct Fault {
    errno: Errno,
    nth: u64,
    kind: Option<DiskCall>,
    path: Option<String>,
    lasting: bool,
    changes_only: bool,
    short: Option<usize>,
}

impl Fault {
    /// The `nth` call that matches, counted from 1, fails with `errno`.
    pub fn nth(nth: u64, errno: Errno) -> Self {
        Self {
            errno,
            nth: nth.max(1),
            kind: None,
            path: None,
            lasting: false,
            changes_only: false,
            short: None,
        }
    }

    /// Every call that matches fails.
    pub fn always(errno: Errno) -> Self {
        Self::nth(1, errno).lasting()
    }

    /// Every change fails, and every open for writing.
    pub fn read_only() -> Self {
        Self {
            changes_only: true,
            ..Self::always(Errno::ROFS)
        }
    }

    /// Counts and fails only calls of this kind.
    #[must_use]
    pub fn on(mut self, kind: DiskCall) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Counts and fails only calls on this path.
    #[must_use]
    pub fn at(mut self, path: &str) -> Self {
        self.path = Some(clean(path).to_owned());
        self
    }

    /// All later matching calls fail as well.
    #[must_use]
    pub fn lasting(mut self) -> Self {
        self.lasting = true;
        self
    }

    /// A write first succeeds with this many bytes, and the next write fails, as on a full disk.
    #[must_use]
    pub fn short(mut self, bytes: usize) -> Self {
        self.short = Some(bytes);
        self
    }
}

/// Whether an error is the one that a stopped process gets from every call.
pub fn is_killed(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(|inner| inner.downcast_ref::<Killed>().is_some())
}

#[derive(Debug)]
struct Killed;

impl fmt::Display for Killed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("killed")
    }
}

impl std::error::Error for Killed {}

fn killed() -> io::Error {
    io::Error::other(Killed)
}

/// The data that survives a power loss.
#[derive(Debug)]
enum Survivors<'a> {
    Nothing,
    Everything,
    Any(&'a mut Rng),
}

#[derive(Debug, Default, Clone)]
struct Inode {
    /// The content that processes see.
    content: Vec<u8>,
    /// The content that is known to be on disk.
    durable: Vec<u8>,
    /// The shortest length since then: bytes beyond it were cut off at some time.
    floor: usize,
    /// Pages that a sync will write, each with the states it had since the last one.
    dirty: BTreeMap<usize, Vec<Vec<u8>>>,
    /// Pages whose writing failed: clean for the kernel, on disk or not.
    suspect: BTreeMap<usize, Vec<Vec<u8>>>,
    /// Failed writes so far, and whether the last one was reported to a process.
    failures: u64,
    told: bool,
    changed: i128,
    opens: u64,
}

fn page_of(bytes: &[u8], page: usize) -> Vec<u8> {
    let start = (page * PAGE).min(bytes.len());
    let end = (start + PAGE).min(bytes.len());
    let mut copy = bytes[start..end].to_vec();
    copy.resize(PAGE, 0);
    copy
}

fn put_page(bytes: &mut [u8], page: usize, new: &[u8]) {
    let start = page * PAGE;
    if start < bytes.len() {
        let end = (start + PAGE).min(bytes.len());
        bytes[start..end].copy_from_slice(&new[..end - start]);
    }
}

impl Inode {
    fn settled(content: Vec<u8>, changed: i128) -> Self {
        Self {
            floor: content.len(),
            durable: content.clone(),
            content,
            changed,
            ..Self::default()
        }
    }

    fn touch(&mut self, page: usize) {
        let was = page_of(&self.content, page);
        let states = match self.suspect.remove(&page) {
            Some(states) => self.dirty.entry(page).or_insert(states),
            None => self.dirty.entry(page).or_default(),
        };
        states.push(was);
        if states.len() > VERSIONS {
            // Neighboring states are similar; the oldest and the newest are kept.
            states.remove(VERSIONS / 2);
        }
    }

    fn write(&mut self, buf: &[u8], at: usize) {
        if buf.is_empty() {
            return;
        }
        for page in at / PAGE..(at + buf.len()).div_ceil(PAGE) {
            self.touch(page);
        }
        if self.content.len() < at + buf.len() {
            self.content.resize(at + buf.len(), 0);
        }
        self.content[at..at + buf.len()].copy_from_slice(buf);
    }

    fn set_len(&mut self, len: usize) {
        if len < self.content.len() && !len.is_multiple_of(PAGE) {
            // The kernel zeroes the rest of the last page.
            self.touch(len / PAGE);
        }
        self.content.resize(len, 0);
        self.floor = self.floor.min(len);
        let pages = len.div_ceil(PAGE);
        self.dirty.retain(|page, _| *page < pages);
        self.suspect.retain(|page, _| *page < pages);
    }

    fn sync(&mut self) {
        self.durable.truncate(self.floor);
        self.durable.resize(self.content.len(), 0);
        for page in std::mem::take(&mut self.dirty).into_keys() {
            put_page(&mut self.durable, page, &page_of(&self.content, page));
        }
        self.floor = self.content.len();
    }

    fn fail_sync(&mut self) {
        self.suspect.append(&mut self.dirty);
        self.failures += 1;
    }

    /// Drops clean pages, so that they are read again from the disk.
    fn drop_cache(&mut self) {
        for page in std::mem::take(&mut self.suspect).into_keys() {
            put_page(&mut self.content, page, &page_of(&self.durable, page));
        }
    }

    /// The content after a power loss.
    fn lost_power(&self, keep: &mut Survivors<'_>, options: &Options) -> Vec<u8> {
        let rng = match keep {
            Survivors::Nothing => return self.durable.clone(),
            Survivors::Everything => return self.content.clone(),
            Survivors::Any(rng) => rng,
        };
        let mut found = self.durable.clone();
        let cut = self.floor < self.durable.len();
        let mut last_page = usize::MAX;
        if cut && rng.bool(0.5) {
            // The truncation was lost, and with it everything that was written behind it.
            last_page = self.floor.div_ceil(PAGE);
        } else {
            found.truncate(self.floor);
            let (least, most) = (found.len() as u64, self.content.len() as u64);
            let size = match rng.range(0, 8) {
                0 | 1 => least,
                2..=4 => most,
                5 => (rng.range(least, most + 1) / PAGE as u64 * PAGE as u64).max(least),
                _ => rng.range(least, most + 1),
            };
            let grown_from = found.len();
            found.resize(usize::try_from(size).unwrap_or(grown_from), 0);
            if options.garbage && rng.bool(0.5) {
                // Only whole blocks that were never written: truncation zeroes the end of an old block.
                let from = (grown_from.div_ceil(PAGE) * PAGE).min(found.len());
                rng.fill(&mut found[from..]);
            }
        }
        // Some power losses lose nearly all pages, some hardly any.
        let lost = *rng.choose(&[0.05, 0.5, 0.5, 0.95]);
        for (&page, states) in self.dirty.iter().chain(&self.suspect) {
            if page >= last_page {
                continue;
            }
            let new = page_of(&self.content, page);
            let state = |rng: &mut Rng| -> Option<Vec<u8>> {
                if rng.bool(lost) {
                    None
                } else if rng.bool(0.25) && !states.is_empty() {
                    Some(states[rng.index(states.len())].clone())
                } else {
                    Some(new.clone())
                }
            };
            if options.torn_pages && rng.bool(0.5) {
                let mut mixed = page_of(&found, page);
                for sector in (0..PAGE).step_by(SECTOR) {
                    if let Some(state) = state(rng) {
                        mixed[sector..sector + SECTOR].copy_from_slice(&state[sector..sector + SECTOR]);
                    }
                }
                put_page(&mut found, page, &mixed);
            } else if let Some(state) = state(rng) {
                put_page(&mut found, page, &state);
            }
        }
        found
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TreeEntry {
    Dir,
    File(u64),
}

type Tree = BTreeMap<String, TreeEntry>;

#[derive(Debug, Clone)]
enum NameChange {
    Create {
        path: String,
        node: TreeEntry,
    },
    Rename {
        from: String,
        to: String,
        node: TreeEntry,
    },
    Remove {
        path: String,
        node: TreeEntry,
    },
}

impl NameChange {
    fn paths(&self) -> Vec<&str> {
        match self {
            Self::Create { path, .. } | Self::Remove { path, .. } => vec![path],
            Self::Rename { from, to, .. } => vec![from, to],
        }
    }

    fn touches(&self, dir: &str) -> bool {
        self.paths().into_iter().any(|path| parent(path) == dir)
    }

    fn apply(&self, tree: &mut Tree) {
        match self {
            Self::Create { path, node } => {
                tree.insert(path.clone(), *node);
            }
            Self::Rename { from, to, node } => {
                if tree.get(from) == Some(node) {
                    tree.remove(from);
                }
                tree.insert(to.clone(), *node);
            }
            Self::Remove { path, node } => {
                if tree.get(path) == Some(node) {
                    tree.remove(path);
                }
            }
        }
    }

    fn inode(&self) -> Option<u64> {
        match self {
            Self::Create {
                node: TreeEntry::File(id),
                ..
            }
            | Self::Rename {
                node: TreeEntry::File(id),
                ..
            } => Some(*id),
            _ => None,
        }
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or(ROOT, |(dir, _)| dir)
}

fn clean(path: &str) -> &str {
    match path.strip_prefix("./").unwrap_or(path).trim_end_matches('/') {
        // The port's name for the control directory itself.
        "" => ROOT,
        path => path,
    }
}

#[derive(Debug, Default)]
struct LockQueue {
    holder: Option<Ticket>,
    waiting: VecDeque<Ticket>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticket {
    number: u64,
    process: usize,
}

type Hook = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Process {
    calls: Vec<CallRecord>,
    made: u64,
    /// The call at which the process dies, and how many bytes of a write succeed before.
    stop: Option<(u64, usize)>,
    dead: bool,
    faults: Vec<Fault>,
    /// The error of the write after a short one.
    next_write: Option<Errno>,
    hooks: BTreeMap<u64, Hook>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("made", &self.made)
            .field("dead", &self.dead)
            .finish_non_exhaustive()
    }
}

/// The outcome of a call.
enum CallFate {
    Go,
    /// A write of this many bytes, and then this error; `None` is a short write.
    Cut(usize, Option<io::Error>),
    /// A sync that fails.
    Fail(io::Error),
}

#[derive(Debug, Default)]
struct DiskState {
    options: Options,
    inodes: BTreeMap<u64, Inode>,
    tree: Tree,
    durable_tree: Tree,
    journal: Vec<NameChange>,
    locks: BTreeMap<u64, LockQueue>,
    processes: Vec<Process>,
    capacity: Option<u64>,
    next_inode: u64,
    next_ticket: u64,
    clock: i128,
}

impl DiskState {
    fn tick(&mut self) -> i128 {
        if !self.options.coarse_times {
            self.clock += 1_000;
        }
        self.clock
    }

    fn kill(&mut self, process: usize) {
        self.processes[process].dead = true;
        for lock in self.locks.values_mut() {
            lock.holder.take_if(|ticket| ticket.process == process);
            lock.waiting.retain(|ticket| ticket.process != process);
        }
    }

    fn judge(&mut self, process: usize, kind: DiskCall, path: &str, changes: bool) -> io::Result<CallFate> {
        let who = &mut self.processes[process];
        if who.dead {
            return Err(killed());
        }
        who.made += 1;
        who.calls.push(CallRecord {
            kind,
            path: path.to_owned(),
            failed: false,
        });
        if let Some((at, bytes)) = who.stop
            && who.made >= at
        {
            self.kill(process);
            self.mark_failed(process);
            return if kind == DiskCall::Write && bytes > 0 {
                Ok(CallFate::Cut(bytes, Some(killed())))
            } else {
                Err(killed())
            };
        }
        if kind == DiskCall::Write
            && let Some(errno) = who.next_write.take()
        {
            self.mark_failed(process);
            return Err(errno.into());
        }
        let mut struck = None;
        for fault in &mut who.faults {
            let meant = fault.kind.is_none_or(|k| k == kind)
                && fault.path.as_ref().is_none_or(|p| p == path)
                && (!fault.changes_only || changes);
            if !meant || fault.nth == 0 {
                continue;
            }
            if fault.nth == 1 {
                if !fault.lasting {
                    fault.nth = 0;
                }
                let short = match kind {
                    DiskCall::Write => fault.short.take(),
                    _ => None,
                };
                struck = struck.or(Some((fault.errno, short)));
            } else {
                fault.nth -= 1;
            }
        }
        match struck {
            None => Ok(CallFate::Go),
            Some((errno, Some(bytes))) if bytes > 0 => {
                who.next_write = Some(errno);
                Ok(CallFate::Cut(bytes, None))
            }
            Some((errno, _)) => {
                self.mark_failed(process);
                if kind == DiskCall::Sync {
                    Ok(CallFate::Fail(errno.into()))
                } else {
                    Err(errno.into())
                }
            }
        }
    }

    fn mark_failed(&mut self, process: usize) {
        if let Some(call) = self.processes[process].calls.last_mut() {
            call.failed = true;
        }
    }

    fn node(&self, path: &str) -> Option<TreeEntry> {
        match path {
            ROOT => Some(TreeEntry::Dir),
            _ => self.tree.get(path).copied(),
        }
    }

    fn require_dir(&self, path: &str) -> io::Result<()> {
        match self.node(path) {
            Some(TreeEntry::Dir) => Ok(()),
            Some(TreeEntry::File(_)) => Err(Errno::NOTDIR.into()),
            None => Err(Errno::NOENT.into()),
        }
    }

    fn require_file(&self, path: &str) -> io::Result<u64> {
        match self.node(path) {
            Some(TreeEntry::File(id)) => Ok(id),
            Some(TreeEntry::Dir) => Err(Errno::ISDIR.into()),
            None => Err(Errno::NOENT.into()),
        }
    }

    fn change_names(&mut self, change: NameChange) {
        change.apply(&mut self.tree);
        self.journal.push(change);
    }

    fn open(&mut self, path: &str, create: bool) -> io::Result<u64> {
        self.require_dir(parent(path))?;
        let id = match self.require_file(path) {
            Err(e) if create && e.kind() == io::ErrorKind::NotFound => {
                let id = self.next_inode;
                self.next_inode += 1;
                let changed = self.tick();
                self.inodes.insert(id, Inode::settled(Vec::new(), changed));
                self.change_names(NameChange::Create {
                    path: path.to_owned(),
                    node: TreeEntry::File(id),
                });
                id
            }
            other => other?,
        };
        self.inode(id).opens += 1;
        Ok(id)
    }

    fn inode(&mut self, id: u64) -> &mut Inode {
        self.inodes.entry(id).or_default()
    }

    /// Makes the name changes durable that `chosen` picks, and in prefix mode all before the last of them.
    fn commit(&mut self, chosen: impl Fn(&NameChange) -> bool) {
        match self.options.names {
            Names::Prefix => {
                let end = self.journal.iter().rposition(chosen).map_or(0, |at| at + 1);
                for change in self.journal.drain(..end) {
                    change.apply(&mut self.durable_tree);
                }
            }
            Names::Subset => {
                // Earlier changes of the same names become durable with it: they must not be replayed on top later.
                let mut names = BTreeSet::new();
                let (mut now, mut later) = (VecDeque::new(), VecDeque::new());
                for change in std::mem::take(&mut self.journal).into_iter().rev() {
                    if chosen(&change) || change.paths().into_iter().any(|path| names.contains(path)) {
                        names.extend(change.paths().into_iter().map(str::to_owned));
                        now.push_front(change);
                    } else {
                        later.push_front(change);
                    }
                }
                self.journal = later.into();
                for change in now {
                    change.apply(&mut self.durable_tree);
                }
            }
        }
    }

    /// Syncing a new file makes its name durable, and the folders on the way to it.
    fn commit_name_of(&mut self, id: u64) {
        let created = self.journal.iter().find_map(|change| match change {
            NameChange::Create { path, node } if *node == TreeEntry::File(id) => Some(path.clone()),
            _ => None,
        });
        if let Some(path) = created {
            self.commit(|change| match change {
                NameChange::Create { path: made, node } => match node {
                    TreeEntry::File(made) => *made == id,
                    TreeEntry::Dir => path
                        .strip_prefix(made.as_str())
                        .is_some_and(|rest| rest.starts_with('/')),
                },
                _ => false,
            });
        }
    }

    /// Forgets inodes that no name, journal entry or open file leads to.
    fn collect(&mut self) {
        let mut used: BTreeSet<u64> = self.journal.iter().filter_map(NameChange::inode).collect();
        for node in self.tree.values().chain(self.durable_tree.values()) {
            if let TreeEntry::File(id) = node {
                used.insert(*id);
            }
        }
        self.inodes
            .retain(|id, inode| inode.opens > 0 || used.contains(id));
    }

    fn used_bytes(&self) -> u64 {
        let named: BTreeSet<u64> = self
            .tree
            .values()
            .filter_map(|node| match node {
                TreeEntry::File(id) => Some(*id),
                TreeEntry::Dir => None,
            })
            .collect();
        self.inodes
            .iter()
            .filter(|(id, inode)| inode.opens > 0 || named.contains(id))
            .map(|(_, inode)| inode.content.len() as u64)
            .sum()
    }

    /// The length that a file may reach if it is to grow to `end`.
    fn room(&self, id: u64, end: usize) -> usize {
        let now = self.inodes.get(&id).map_or(0, |inode| inode.content.len());
        match self.capacity {
            Some(capacity) if end > now => {
                let free = usize::try_from(capacity.saturating_sub(self.used_bytes())).unwrap_or(usize::MAX);
                end.min(now.saturating_add(free))
            }
            _ => end,
        }
    }

    fn lost_power(&self, mut keep: Survivors<'_>, options: Options) -> Self {
        let mut tree = self.durable_tree.clone();
        let survives: Vec<bool> = {
            let all = self.journal.len();
            match (&mut keep, options.names) {
                (Survivors::Nothing, _) => vec![false; all],
                (Survivors::Everything, _) => vec![true; all],
                (Survivors::Any(rng), Names::Prefix) => {
                    let kept = match rng.range(0, 4) {
                        0 => 0,
                        1 => all,
                        _ => rng.index(all + 1),
                    };
                    (0..all).map(|n| n < kept).collect()
                }
                (Survivors::Any(rng), Names::Subset) => (0..all).map(|_| rng.bool(0.5)).collect(),
            }
        };
        for (change, survives) in self.journal.iter().zip(survives) {
            if survives {
                change.apply(&mut tree);
            }
        }
        let folders: BTreeSet<String> = tree
            .iter()
            .filter(|(_, node)| **node == TreeEntry::Dir)
            .map(|(path, _)| path.clone())
            .collect();
        tree.retain(|path, _| {
            let mut up = parent(path);
            while up != ROOT {
                if !folders.contains(up) {
                    return false;
                }
                up = parent(up);
            }
            true
        });
        let mut inodes = BTreeMap::new();
        for node in tree.values() {
            if let TreeEntry::File(id) = node
                && let Some(inode) = self.inodes.get(id)
            {
                let content = inode.lost_power(&mut keep, &options);
                inodes.insert(*id, Inode::settled(content, inode.changed));
            }
        }
        Self {
            options,
            inodes,
            durable_tree: tree.clone(),
            tree,
            processes: vec![Process::default()],
            capacity: self.capacity,
            next_inode: self.next_inode,
            clock: self.clock,
            ..Self::default()
        }
    }
}

#[derive(Debug)]
struct SharedDisk {
    state: Mutex<DiskState>,
    lock_moved: Condvar,
}

/// A disk in memory, as one process sees it.
#[derive(Clone)]
pub struct SimDisk {
    world: Arc<SharedDisk>,
    process: usize,
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimDisk(process {})", self.process)
    }
}

impl Default for SimDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl SimDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::with(Options::default())
    }

    pub fn with(options: Options) -> Self {
        Self::of(DiskState {
            options,
            processes: vec![Process::default()],
            next_inode: 2,
            clock: 1_767_441_600_000_000_000,
            ..DiskState::default()
        })
    }

    fn of(state: DiskState) -> Self {
        Self {
            world: Arc::new(SharedDisk {
                state: Mutex::new(state),
                lock_moved: Condvar::new(),
            }),
            process: 0,
        }
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.world.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same disk for another process: alive, with no calls and no faults.
    #[must_use]
    pub fn another_process(&self) -> Self {
        let mut state = self.state();
        state.processes.push(Process::default());
        Self {
            world: Arc::clone(&self.world),
            process: state.processes.len() - 1,
        }
    }

    // Power loss.

    /// The disk after a power loss at this moment: something between the least and the most that may survive. The present
    /// disk does not change, so one moment can be tried in many ways.
    #[must_use]
    pub fn crash(&self, rng: &mut Rng) -> Self {
        let options = self.state().options;
        self.crash_as(options, rng)
    }

    /// Like [`SimDisk::crash`], with other options; names that a sync made durable stay durable.
    #[must_use]
    pub fn crash_as(&self, options: Options, rng: &mut Rng) -> Self {
        Self::of(self.state().lost_power(Survivors::Any(rng), options))
    }

    /// Only synced data survives.
    #[must_use]
    pub fn crash_losing_all(&self) -> Self {
        let state = self.state();
        Self::of(state.lost_power(Survivors::Nothing, state.options))
    }

    /// Everything happened to be on disk already.
    #[must_use]
    pub fn crash_losing_nothing(&self) -> Self {
        let state = self.state();
        Self::of(state.lost_power(Survivors::Everything, state.options))
    }

    /// An independent copy: same page cache, same durable content, no processes and no locks.
    #[must_use]
    pub fn copy(&self) -> Self {
        let state = self.state();
        let inodes = state
            .inodes
            .iter()
            .map(|(id, inode)| {
                let inode = Inode {
                    opens: 0,
                    ..inode.clone()
                };
                (*id, inode)
            })
            .collect();
        Self::of(DiskState {
            options: state.options,
            inodes,
            tree: state.tree.clone(),
            durable_tree: state.durable_tree.clone(),
            journal: state.journal.clone(),
            processes: vec![Process::default()],
            capacity: state.capacity,
            next_inode: state.next_inode,
            clock: state.clock,
            ..DiskState::default()
        })
    }

    // Death of a process.

    /// The `nth` call from now and all later ones do nothing and fail, and its locks are released. Only unlocking succeeds:
    /// the lock is free, and a real unlock does not fail.
    pub fn stop_after(&self, nth: u64) {
        self.stop_mid_write(nth, 0);
    }

    /// Like [`SimDisk::stop_after`], but if that call is a write, its first `bytes` bytes (all but one, if it is shorter) are
    /// written.
    pub fn stop_mid_write(&self, nth: u64, bytes: usize) {
        let mut state = self.state();
        let who = &mut state.processes[self.process];
        who.stop = Some((who.made + nth.max(1), bytes));
    }

    /// Stops the process now.
    pub fn kill(&self) {
        self.state().kill(self.process);
        self.world.lock_moved.notify_all();
    }

    pub fn is_dead(&self) -> bool {
        self.state().processes[self.process].dead
    }

    // Failures.

    /// Calls of this process fail as `fault` says.
    pub fn inject(&self, fault: Fault) {
        self.state().processes[self.process].faults.push(fault);
    }

    /// The next sync of a file fails, and its data may be lost.
    pub fn fail_sync_once(&self) {
        self.inject(Fault::nth(1, Errno::IO).on(DiskCall::Sync));
    }

    /// Removes all faults and stops of this process.
    pub fn heal(&self) {
        let mut state = self.state();
        let who = &mut state.processes[self.process];
        who.faults.clear();
        who.next_write = None;
        who.stop = None;
    }

    /// The kernel fails to write a file in the background; the next sync reports it.
    pub fn fail_writeback(&self, path: &str) {
        let mut state = self.state();
        if let Ok(id) = state.require_file(clean(path)) {
            let inode = state.inode(id);
            inode.fail_sync();
            inode.told = false;
        }
    }

    /// The kernel needs memory: pages that it considers clean are read again from the disk.
    pub fn drop_cache(&self) {
        for inode in self.state().inodes.values_mut() {
            inode.drop_cache();
        }
    }

    /// Limits the total size of all files.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    pub fn used_bytes(&self) -> u64 {
        self.state().used_bytes()
    }

    /// Runs `rival` once, right before the `nth` call of this process from now: a concurrent action.
    pub fn before(&self, nth: u64, rival: impl FnOnce() + Send + 'static) {
        let mut state = self.state();
        let who = &mut state.processes[self.process];
        let at = who.made + nth.max(1);
        who.hooks.insert(at, Box::new(rival));
    }

    // Records of calls.

    /// The calls of this process since the start or the last [`SimDisk::forget_calls`].
    pub fn calls(&self) -> Calls {
        Calls(self.state().processes[self.process].calls.clone())
    }

    pub fn forget_calls(&self) {
        self.state().processes[self.process].calls.clear();
    }

    // Access from outside of the simulation: neither counted nor failing.

    /// The content of a file that processes see.
    pub fn read(&self, path: &str) -> Option<Vec<u8>> {
        let state = self.state();
        let id = state.require_file(clean(path)).ok()?;
        state.inodes.get(&id).map(|inode| inode.content.clone())
    }

    /// The durable content of a file; `None` if its name is not durable.
    pub fn read_durable(&self, path: &str) -> Option<Vec<u8>> {
        let state = self.state();
        match state.durable_tree.get(clean(path)) {
            Some(TreeEntry::File(id)) => state.inodes.get(id).map(|inode| inode.durable.clone()),
            _ => None,
        }
    }

    /// Writes a file durably, replacing its content; creates missing folders.
    pub fn put(&self, path: &str, content: &[u8]) {
        let path = clean(path);
        let mut state = self.state();
        let mut at = 0;
        while let Some(slash) = path[at..].find('/') {
            at += slash;
            state.tree.insert(path[..at].to_owned(), TreeEntry::Dir);
            state.durable_tree.insert(path[..at].to_owned(), TreeEntry::Dir);
            at += 1;
        }
        let changed = state.tick();
        let id = match state.require_file(path) {
            Ok(id) => id,
            Err(_) => {
                state.next_inode += 1;
                state.next_inode - 1
            }
        };
        let old = state.inode(id);
        let inode = Inode {
            opens: old.opens,
            failures: old.failures,
            told: old.told,
            ..Inode::settled(content.to_vec(), changed)
        };
        state.inodes.insert(id, inode);
        state.tree.insert(path.to_owned(), TreeEntry::File(id));
        state.durable_tree.insert(path.to_owned(), TreeEntry::File(id));
        state.journal.retain(|change| change.inode() != Some(id));
    }

    /// Removes a file durably.
    pub fn take(&self, path: &str) -> Option<Vec<u8>> {
        let content = self.read(path);
        let mut state = self.state();
        state.tree.remove(clean(path));
        state.durable_tree.remove(clean(path));
        content
    }

    /// Every file, by path.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.state();
        let files = state.tree.iter().filter_map(|(path, node)| match node {
            TreeEntry::File(id) => Some((path.clone(), state.inodes.get(id)?.content.clone())),
            TreeEntry::Dir => None,
        });
        files.collect()
    }

    /// Syncs everything, names too.
    pub fn settle(&self) {
        let mut state = self.state();
        for inode in state.inodes.values_mut() {
            inode.sync();
        }
        state.commit(|_| true);
    }

    /// The number of waiters for the lock at `path`, and whether it is held.
    pub fn lock_queue(&self, path: &str) -> (usize, bool) {
        let state = self.state();
        let Ok(id) = state.require_file(clean(path)) else {
            return (0, false);
        };
        state
            .locks
            .get(&id)
            .map_or((0, false), |lock| (lock.waiting.len(), lock.holder.is_some()))
    }

    // The start of a call.

    fn begin(
        &self,
        kind: DiskCall,
        path: &str,
        changes: bool,
    ) -> io::Result<(MutexGuard<'_, DiskState>, CallFate)> {
        let mut state = self.state();
        let who = &mut state.processes[self.process];
        let coming = who.made + 1;
        if !who.dead
            && let Some(rival) = who.hooks.remove(&coming)
        {
            drop(state);
            rival();
            state = self.state();
        }
        let was_dead = state.processes[self.process].dead;
        let verdict = state.judge(self.process, kind, path, changes);
        if !was_dead && state.processes[self.process].dead {
            self.world.lock_moved.notify_all();
        }
        Ok((state, verdict?))
    }

    /// For calls that either succeed or have no effect.
    fn whole(&self, kind: DiskCall, path: &str) -> io::Result<MutexGuard<'_, DiskState>> {
        self.whole_as(kind, path, kind.changes())
    }

    fn whole_as(&self, kind: DiskCall, path: &str, changes: bool) -> io::Result<MutexGuard<'_, DiskState>> {
        let (state, verdict) = self.begin(kind, path, changes)?;
        match verdict {
            CallFate::Fail(e) => Err(e),
            CallFate::Go | CallFate::Cut(..) => Ok(state),
        }
    }

    fn file(&self, state: &mut DiskState, inode: u64, path: &str, writable: bool) -> SimFile {
        let found = state.inode(inode);
        // A process that opens the file later gets only failures that were not reported yet.
        let heard = match found.told {
            true => found.failures,
            false => found.failures.saturating_sub(1),
        };
        SimFile {
            disk: self.clone(),
            inode,
            path: path.to_owned(),
            writable,
            heard: Mutex::new(heard),
        }
    }
}

fn meta_of(id: u64, inode: &Inode) -> Meta {
    Meta {
        len: inode.content.len() as u64,
        inode: id,
        changed: inode.changed,
        special: false,
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &str, how: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        let path = clean(path);
        let mut state = self.whole_as(DiskCall::Open, path, how != OpenMode::Read)?;
        let id = state.open(
            path,
            matches!(how, OpenMode::Write | OpenMode::Fresh | OpenMode::Spare),
        )?;
        if matches!(how, OpenMode::Fresh | OpenMode::Spare) {
            let changed = state.tick();
            let inode = state.inode(id);
            inode.set_len(0);
            inode.changed = changed;
        }
        Ok(Box::new(self.file(&mut state, id, path, how != OpenMode::Read)))
    }

    fn meta(&self, path: &str) -> io::Result<Option<Meta>> {
        let path = clean(path);
        let state = self.whole(DiskCall::Meta, path)?;
        Ok(match state.node(path) {
            Some(TreeEntry::File(id)) => state.inodes.get(&id).map(|inode| meta_of(id, inode)),
            Some(TreeEntry::Dir) => Some(Meta::default()),
            None => None,
        })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (clean(from), clean(to));
        let mut state = self.whole(DiskCall::Rename, to)?;
        let id = state.require_file(from)?;
        state.require_dir(parent(to))?;
        if let Some(TreeEntry::Dir) = state.node(to) {
            return Err(Errno::ISDIR.into());
        }
        if from != to {
            let changed = state.tick();
            state.inode(id).changed = changed;
            state.change_names(NameChange::Rename {
                from: from.to_owned(),
                to: to.to_owned(),
                node: TreeEntry::File(id),
            });
        }
        Ok(())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let path = clean(path);
        let mut state = self.whole(DiskCall::Remove, path)?;
        let id = state.require_file(path)?;
        state.change_names(NameChange::Remove {
            path: path.to_owned(),
            node: TreeEntry::File(id),
        });
        Ok(())
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let dir = clean(dir);
        let state = self.whole(DiskCall::List, dir)?;
        match state.require_dir(dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        }
        let files = state.tree.iter().filter(|(_, node)| **node != TreeEntry::Dir);
        let mut names: Vec<String> = files
            .filter(|(path, _)| parent(path) == dir)
            .map(|(path, _)| path.rsplit('/').next().unwrap_or(path).to_owned())
            .collect();
        // Shuffled: callers must not rely on an order.
        names.sort_by_key(|name| {
            name.bytes().fold(7u32, |sum, b| {
                sum.wrapping_mul(31).wrapping_add(b.into()).rotate_left(9)
            })
        });
        Ok(names)
    }

    fn make_dir(&self, dir: &str) -> io::Result<()> {
        let dir = clean(dir);
        let mut state = self.whole(DiskCall::MakeDir, dir)?;
        match state.node(dir) {
            Some(TreeEntry::Dir) => return Ok(()),
            Some(TreeEntry::File(_)) => return Err(Errno::NOTDIR.into()),
            None => {}
        }
        state.require_dir(parent(dir))?;
        state.change_names(NameChange::Create {
            path: dir.to_owned(),
            node: TreeEntry::Dir,
        });
        Ok(())
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        // Here the empty name is the control directory itself.
        let dir = if dir.is_empty() { ROOT } else { clean(dir) };
        let mut state = self.whole(DiskCall::SyncDir, dir)?;
        state.require_dir(dir)?;
        state.commit(|change| change.touches(dir));
        state.collect();
        Ok(())
    }

    fn lock(&self, path: &str, wait: Duration) -> io::Result<Box<dyn LockGuard>> {
        let path = clean(path);
        let until = Instant::now().checked_add(wait);
        let mut state = self.whole_as(DiskCall::Lock, path, true)?;
        let id = state.open(path, true)?;
        let file = self.file(&mut state, id, path, true);
        let ticket = Ticket {
            number: state.next_ticket,
            process: self.process,
        };
        state.next_ticket += 1;
        state.locks.entry(id).or_default().waiting.push_back(ticket);
        let refused = loop {
            if state.processes[self.process].dead {
                break killed();
            }
            let lock = state.locks.entry(id).or_default();
            if lock.holder.is_none() && lock.waiting.front() == Some(&ticket) {
                lock.waiting.pop_front();
                lock.holder = Some(ticket);
                drop(state);
                return Ok(Box::new(SimLock { file, ticket }));
            }
            let left = until.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break io::ErrorKind::TimedOut.into();
            }
            // At most a second at once: the longest durations would overflow.
            let waited = self
                .world
                .lock_moved
                .wait_timeout(state, left.min(Duration::from_secs(1)));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        };
        if let Some(lock) = state.locks.get_mut(&id) {
            lock.waiting.retain(|waiting| *waiting != ticket);
        }
        drop(state);
        // The next in the queue may have become the first.
        self.world.lock_moved.notify_all();
        Err(refused)
    }

    fn show(&self, path: &str) -> PathBuf {
        PathBuf::from("/sim").join(path)
    }
}

struct SimFile {
    disk: SimDisk,
    inode: u64,
    path: String,
    writable: bool,
    /// Write failures that were reported to this open file.
    heard: Mutex<u64>,
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimFile({}, inode {})", self.path, self.inode)
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        let inode = state.inode(self.inode);
        inode.opens = inode.opens.saturating_sub(1);
        if inode.opens == 0 {
            state.collect();
        }
    }
}

impl SimFile {
    fn require_writable(&self) -> io::Result<()> {
        match self.writable {
            true => Ok(()),
            false => Err(Errno::BADF.into()),
        }
    }
}

fn offset(at: u64) -> io::Result<usize> {
    // Larger than any test needs, and still an allocation that succeeds.
    match usize::try_from(at) {
        Ok(at) if at <= 1 << 30 => Ok(at),
        _ => Err(Errno::FBIG.into()),
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        let mut state = self.disk.whole(DiskCall::Read, &self.path)?;
        let content = &state.inode(self.inode).content;
        let start = usize::try_from(at).unwrap_or(usize::MAX).min(content.len());
        let got = buf.len().min(content.len() - start);
        buf[..got].copy_from_slice(&content[start..start + got]);
        Ok(got)
    }

    fn write_at(&self, buf: &[u8], at: u64) -> io::Result<usize> {
        let (mut state, verdict) = self.disk.begin(DiskCall::Write, &self.path, true)?;
        self.require_writable()?;
        let at = offset(at)?;
        let (asked, outcome) = match verdict {
            CallFate::Go => (buf.len(), None),
            CallFate::Cut(bytes, outcome) => {
                let bytes = bytes.min(buf.len().saturating_sub(1));
                if outcome.is_none() && bytes == 0 {
                    // Too short to be cut: the failure comes at once.
                    let failure = state.processes[self.disk.process].next_write.take();
                    (0, failure.map(io::Error::from))
                } else {
                    (bytes, outcome)
                }
            }
            CallFate::Fail(e) => (0, Some(e)),
        };
        let end = state.room(self.inode, at + asked);
        let wrote = end.saturating_sub(at).min(asked);
        let changed = state.tick();
        let inode = state.inode(self.inode);
        inode.write(&buf[..wrote], at);
        inode.changed = changed;
        match outcome {
            Some(e) => Err(e),
            None if wrote == 0 && asked > 0 => {
                state.mark_failed(self.disk.process);
                Err(Errno::NOSPC.into())
            }
            None => Ok(wrote),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.whole(DiskCall::SetLen, &self.path)?;
        self.require_writable()?;
        let len = offset(len)?;
        if state.room(self.inode, len) < len {
            return Err(Errno::NOSPC.into());
        }
        let changed = state.tick();
        let inode = state.inode(self.inode);
        inode.set_len(len);
        inode.changed = changed;
        Ok(())
    }

    fn meta(&self) -> io::Result<Meta> {
        let mut state = self.disk.whole(DiskCall::Meta, &self.path)?;
        Ok(meta_of(self.inode, state.inode(self.inode)))
    }

    fn sync(&self) -> io::Result<()> {
        let (mut state, verdict) = self.disk.begin(DiskCall::Sync, &self.path, false)?;
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let inode = state.inode(self.inode);
        if let CallFate::Fail(e) = verdict {
            inode.fail_sync();
            inode.told = true;
            *heard = inode.failures;
            return Err(e);
        }
        // Dirty pages are written even if an older failure is reported.
        inode.sync();
        let news = *heard != inode.failures;
        *heard = inode.failures;
        inode.told = true;
        if state.options.sync_keeps_name {
            state.commit_name_of(self.inode);
        }
        if news {
            state.mark_failed(self.disk.process);
            return Err(Errno::IO.into());
        }
        Ok(())
    }
}

#[derive(Debug)]
struct SimLock {
    file: SimFile,
    ticket: Ticket,
}

impl SimLock {
    fn let_go(&self) {
        let mut state = self.file.disk.state();
        if let Some(lock) = state.locks.get_mut(&self.file.inode) {
            lock.holder.take_if(|holder| *holder == self.ticket);
        }
        drop(state);
        self.file.disk.world.lock_moved.notify_all();
    }
}

impl LockGuard for SimLock {
    fn file(&self) -> &dyn DiskFile {
        &self.file
    }

    fn release(&mut self) -> io::Result<()> {
        match self.file.disk.whole(DiskCall::Unlock, &self.file.path) {
            Ok(state) => drop(state),
            // The death of the process released it already; the next call reports that.
            Err(e) if is_killed(&e) => return Ok(()),
            Err(e) => return Err(e),
        }
        self.let_go();
        Ok(())
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.let_go();
    }
}

#[cfg(test)]
mod tests;
