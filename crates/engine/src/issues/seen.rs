//! Remembers how a tree looked at the last check, so that the next check costs one `stat` for each issue and no read.
//!
//! The file is `jit-seen` in the worktree's own git directory. Format, numbers with the lowest byte first:
//! - the signatures of git's index and of the folder of issues (8 bytes each);
//! - the number of issues (4);
//! - for each issue, in the order of ids: the signatures of its `issue.json` and of its folder with the other files
//!   (8 each), and the end of its id among the ids (4);
//! - all ids, concatenated.
//!
//! A signature is a hash of inode, length and times of the last change. An odd signature of an `issue.json` marks a
//! file that is read again when git has moved, changed or not: its content counts once it is committed. The file is a
//! cache: anything missing or unreadable in it is checked again.
//!
//! Several threads share the check and take a few issues at a time. So a command can prepare its answer meanwhile,
//! and then help: see [`Sweep`].
//!
//! If git has not moved, a list checks `issue.json` alone. Limitation: until git moves, a list does not see an edit
//! in place of another file. It is seen when the issue is next requested by name, or when descriptions are read.

use std::cmp::Ordering;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering as Memory};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::{fs, io};

use jit_core::issue_files::format::{ISSUE, NAMES};
use jit_core::model::ids::IssueId;
use jit_os::file;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, statat};
use xxhash_rust::xxh3::xxh3_64;

/// A change this short before the check may be followed by another change with the same time.
const BLUR_NS: i128 = 20_000_000;
/// No file has this signature: check again.
const UNSURE: u64 = 0;
/// The signature of a missing file.
const MISSING: u64 = 2;
/// Added to the signature of a file that may count once it is committed.
const AWAITED: u64 = 1;
/// Beyond this number of issues several threads check.
const MANY: usize = 1000;
/// The number of issues that a thread takes at a time.
const PART: usize = 100;
const HEAD: usize = 20;
const RECORD: usize = 20;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    index: u64,
    folder: u64,
    /// Sorted by id.
    issues: Vec<One>,
    /// All ids, concatenated.
    ids: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct One {
    issue: u64,
    folder: u64,
    /// The end of its id; it begins at the end of the previous one.
    end: u32,
}

/// Opens the folder for one thread. Each thread opens its own: threads that share one would wait for each other at
/// the kernel's reference count.
fn open(dir: impl AsFd, path: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, path, how, Mode::empty())?)
}

/// Returns the number of cores this process may run on. The standard library's function also reads the limits of the
/// control group, which takes longer than checking a hundred issues.
#[cfg(target_os = "linux")]
fn cores() -> usize {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize)
}

#[cfg(not(target_os = "linux"))]
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn hash(bytes: &[u8]) -> u64 {
    (xxh3_64(bytes) & !AWAITED).max(MISSING + 2)
}

/// Returns the signature of a file and the time of its last change.
fn signature(dir: impl AsFd, path: impl rustix::path::Arg) -> (u64, i128) {
    let Ok(stat) = statat(dir, path, AtFlags::SYMLINK_NOFOLLOW) else {
        return (MISSING, 0);
    };
    let mut bytes = [0; 64];
    let time = |secs: i128, nanos: i128| -> i128 { secs * 1_000_000_000 + nanos };
    let changed = time(stat.st_ctime.into(), stat.st_ctime_nsec.into());
    let numbers: [i128; 4] = [
        stat.st_ino.into(),
        stat.st_size.into(),
        time(stat.st_mtime.into(), stat.st_mtime_nsec.into()),
        changed,
    ];
    for (n, number) in numbers.iter().enumerate() {
        bytes[n * 16..n * 16 + 16].copy_from_slice(&number.to_le_bytes());
    }
    (hash(&bytes), changed)
}

pub fn path(git_dir: &Path) -> PathBuf {
    git_dir.join("jit-seen")
}

/// Git records each move of HEAD here, unless it is configured not to.
const STEPS: &str = "logs/HEAD";

/// Covers the index and the last move: a commit of what was already in the index leaves the index unchanged.
fn index_signature(git_dir: &Path) -> u64 {
    let both = ["index", STEPS].map(|name| signature(CWD, git_dir.join(name)).0.to_le_bytes());
    hash(&both.concat())
}

/// Returns whether git has moved since the last check.
pub fn git_moved(git_dir: &Path) -> bool {
    let mut head = [0; 8];
    let file = file::open_real(&path(git_dir), fs::File::options().read(true));
    let read = file.and_then(|mut file| io::Read::read_exact(&mut file, &mut head));
    read.is_err() || u64::from_le_bytes(head) != index_signature(git_dir)
}

impl Seen {
    pub fn load(git_dir: &Path) -> Self {
        file::read_real(&path(git_dir), 1 << 30)
            .ok()
            .flatten()
            .and_then(|bytes| Self::parse(&bytes))
            .unwrap_or_default()
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let long = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let short = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let many = usize::try_from(short(16)?).ok()?;
        let records = bytes.get(HEAD..HEAD.checked_add(many.checked_mul(RECORD)?)?)?;
        let ids = std::str::from_utf8(&bytes[HEAD + records.len()..]).ok()?;
        let mut issues = Vec::with_capacity(many);
        let mut begin = 0;
        for n in 0..many {
            let at = HEAD + n * RECORD;
            let end = short(at + 16)?;
            ids.get(begin..end as usize)?;
            begin = end as usize;
            issues.push(One {
                issue: long(at)?,
                folder: long(at + 8)?,
                end,
            });
        }
        (begin == ids.len()).then_some(())?;
        Some(Self {
            index: long(0)?,
            folder: long(8)?,
            issues,
            ids: ids.to_owned(),
        })
    }

    pub fn save(&self, git_dir: &Path, permissions: fs::Permissions) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(HEAD + self.issues.len() * RECORD + self.ids.len());
        bytes.extend(self.index.to_le_bytes());
        bytes.extend(self.folder.to_le_bytes());
        bytes.extend(u32::try_from(self.issues.len()).unwrap_or(u32::MAX).to_le_bytes());
        for one in &self.issues {
            bytes.extend(one.issue.to_le_bytes());
            bytes.extend(one.folder.to_le_bytes());
            bytes.extend(one.end.to_le_bytes());
        }
        bytes.extend(self.ids.as_bytes());
        file::refresh_with(&path(git_dir), &bytes, permissions)
    }

    fn id(&self, n: usize) -> &str {
        let begin = n.checked_sub(1).map_or(0, |before| self.issues[before].end);
        &self.ids[begin as usize..self.issues[n].end as usize]
    }

    fn position(&self, id: &IssueId) -> Option<usize> {
        let (mut begin, mut end) = (0, self.issues.len());
        while begin < end {
            let middle = begin.midpoint(end);
            match self.id(middle).cmp(id.as_str()) {
                Ordering::Less => begin = middle + 1,
                Ordering::Equal => return Some(middle),
                Ordering::Greater => end = middle,
            }
        }
        None
    }

    /// Marks an issue to be read again at the next check. Returns whether that is new.
    pub fn forget(&mut self, id: &IssueId) -> bool {
        let n = self.position(id);
        n.is_some_and(|n| std::mem::replace(&mut self.issues[n].issue, UNSURE) != UNSURE)
    }

    /// Marks an issue to be read again when git has moved; at the next check if moves are not recorded. Returns
    /// whether that is new.
    pub fn await_commit(&mut self, git_dir: &Path, id: &IssueId) -> bool {
        if signature(CWD, git_dir.join(STEPS)).0 == MISSING {
            return self.forget(id);
        }
        let Some(n) = self.position(id) else {
            return false;
        };
        let one = &mut self.issues[n];
        let is_news = one.issue != UNSURE && one.issue & AWAITED == 0;
        if is_news {
            one.issue |= AWAITED;
        }
        is_news
    }

    /// Returns the same for the issues that exist now. New issues are marked as unsure.
    fn of_those(&self, ids: &[IssueId]) -> io::Result<Self> {
        let mut names: Vec<&str> = ids.iter().map(IssueId::as_str).collect();
        names.sort_unstable();
        let mut new = Self {
            issues: Vec::with_capacity(names.len()),
            ..Self::default()
        };
        let mut before = 0;
        for name in names {
            while before < self.issues.len() && self.id(before) < name {
                before += 1;
            }
            let known = (before < self.issues.len() && self.id(before) == name).then(|| self.issues[before]);
            new.ids.push_str(name);
            let end = u32::try_from(new.ids.len()).map_err(io::Error::other)?;
            new.issues.push(One {
                issue: known.map_or(UNSURE, |one| one.issue),
                folder: known.map_or(UNSURE, |one| one.folder),
                end,
            });
        }
        Ok(new)
    }
}

/// A running check of a tree.
#[derive(Debug)]
pub struct Sweep {
    shared: Arc<Shared>,
    others: Vec<JoinHandle<Vec<Part>>>,
}

/// Shared by all threads of a check. The other threads are woken first and find the ground themselves: waking them
/// takes as long.
#[derive(Debug)]
struct Shared {
    since: Since,
    git_dir: PathBuf,
    issues: PathBuf,
    depth: Depth,
    /// The wall clock in ns.
    now: i128,
    ground: OnceLock<Result<Ground, (io::ErrorKind, String)>>,
}

/// The state that the tree is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    LastLook,
    /// Everything is checked as if for the first time.
    Ever,
}

#[derive(Debug)]
struct Ground {
    dir: OwnedFd,
    /// The previous state, with the current signatures of git's index and of the folder.
    seen: Seen,
    git_moved: bool,
    /// Whether the folder or the set of issues has changed.
    folder_moved: bool,
    /// The first issue that no thread has taken yet.
    next: AtomicUsize,
}

/// The files of each issue that are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// `issue.json`, and the other files if git has moved.
    Fields,
    /// Every file.
    Texts,
}

/// The result of a check.
#[derive(Debug)]
pub struct Looked {
    /// The issues to read.
    pub changed: Vec<IssueId>,
    /// The state to save once they are read.
    pub seen: Seen,
    /// Whether that differs from the saved state.
    pub is_news: bool,
}

/// The signatures of a range of issues.
#[derive(Debug)]
struct Part {
    range: Range<usize>,
    looks: Vec<(u64, u64)>,
    changed: Vec<usize>,
}

impl Sweep {
    /// Starts to look for changes. `now` is the wall clock in ns.
    pub fn begin(since: Since, git_dir: &Path, issues: &Path, depth: Depth, now: i128) -> Self {
        let shared = Arc::new(Shared {
            since,
            git_dir: git_dir.to_owned(),
            issues: issues.to_owned(),
            depth,
            now,
            ground: OnceLock::new(),
        });
        let known = fs::metadata(path(git_dir)).map_or(0, |meta| meta.len());
        let many = since == Since::LastLook && known > (MANY * RECORD) as u64;
        let threads = if many { cores().clamp(1, 8) - 1 } else { 0 };
        let start = |_| {
            let shared = Arc::clone(&shared);
            let work = move || match shared.ground() {
                Ok(ground) => match open(&ground.dir, ".") {
                    Ok(own) => shared.work(ground, &own),
                    Err(_) => shared.work(ground, &ground.dir),
                },
                Err(_) => Vec::new(),
            };
            // A thread that cannot be started does not help.
            std::thread::Builder::new().spawn(work).ok()
        };
        let others = (0..threads).filter_map(start).collect();
        Self { shared, others }
    }

    /// Returns whether the check takes long enough to do something else meanwhile.
    pub fn is_long(&self) -> bool {
        !self.others.is_empty()
    }

    pub fn finish(self) -> io::Result<Looked> {
        let ground = self.shared.ground()?;
        let mut parts = self.shared.work(ground, &ground.dir);
        let mut is_news = ground.git_moved || ground.folder_moved;
        for other in self.others {
            parts.extend(other.join().unwrap_or_default());
        }
        // No other thread uses it any more.
        let mut seen = match Arc::try_unwrap(self.shared).map(|own| own.ground.into_inner()) {
            Ok(Some(Ok(own))) => own.seen,
            Err(shared) => shared.ground()?.seen.clone(),
            Ok(_) => Seen::default(),
        };
        let mut changed = Vec::new();
        for part in &parts {
            changed.extend(part.changed.iter().filter_map(|&n| seen.id(n).parse().ok()));
        }
        changed.sort_unstable();
        let looked_at: usize = parts.iter().map(|part| part.range.len()).sum();
        if looked_at < seen.issues.len() {
            // Issues that a failed thread had taken stay unsure.
            is_news = true;
            for one in &mut seen.issues {
                (one.issue, one.folder) = (UNSURE, UNSURE);
            }
        }
        for part in parts {
            for (one, look) in seen.issues[part.range].iter_mut().zip(part.looks) {
                is_news |= (one.issue, one.folder) != look;
                (one.issue, one.folder) = look;
            }
        }
        Ok(Looked {
            changed,
            seen,
            is_news,
        })
    }
}

impl Shared {
    /// Returns the ground; the first caller finds it.
    fn ground(&self) -> io::Result<&Ground> {
        let found = self
            .ground
            .get_or_init(|| self.survey().map_err(|e| (e.kind(), e.to_string())));
        found
            .as_ref()
            .map_err(|(kind, why)| io::Error::new(*kind, why.clone()))
    }

    fn survey(&self) -> io::Result<Ground> {
        let before = match self.since {
            Since::LastLook => Seen::load(&self.git_dir),
            Since::Ever => Seen::default(),
        };
        let index = index_signature(&self.git_dir);
        let (mut folder, folder_at) = signature(CWD, &self.issues);
        if folder_at + BLUR_NS > self.now {
            folder = UNSURE;
        }
        let git_moved = index != before.index;
        let mut folder_moved = folder != before.folder;
        let known = if !folder_moved && folder != UNSURE {
            before
        } else {
            let names = super::tree::names(&self.issues)?.0;
            let now = before.of_those(&names)?;
            folder_moved |= now.ids != before.ids;
            now
        };
        Ok(Ground {
            dir: open(CWD, &self.issues)?,
            git_moved,
            folder_moved,
            seen: Seen {
                index,
                folder,
                ..known
            },
            next: AtomicUsize::new(0),
        })
    }

    /// Checks the issues that no other thread has taken, until none is left.
    fn work(&self, ground: &Ground, dir: &OwnedFd) -> Vec<Part> {
        let all = ground.seen.issues.len();
        let mut parts = Vec::new();
        loop {
            let begin = ground.next.fetch_add(PART, Memory::Relaxed);
            if begin >= all {
                return parts;
            }
            let every_file = ground.git_moved || self.depth == Depth::Texts;
            parts.push(ground.look(dir, begin..(begin + PART).min(all), every_file, self.now));
        }
    }
}

impl Ground {
    /// Returns the signature of an issue's folder with all files except `issue.json`, and the time of their last
    /// change.
    fn beside(dir: &OwnedFd, path: &mut String) -> (u64, i128) {
        let length = path.len();
        let (folder, mut last) = signature(dir, path.as_str());
        let mut all = folder.to_le_bytes().to_vec();
        for name in NAMES.into_iter().filter(|name| *name != ISSUE) {
            path.push('/');
            path.push_str(name);
            let (file, changed) = signature(dir, path.as_str());
            path.truncate(length);
            all.extend(file.to_le_bytes());
            last = last.max(changed);
        }
        (hash(&all), last)
    }

    fn look(&self, dir: &OwnedFd, range: Range<usize>, every_file: bool, now: i128) -> Part {
        let mut path = String::new();
        let mut looks = Vec::with_capacity(range.len());
        let mut changed = Vec::new();
        for n in range.clone() {
            let one = &self.seen.issues[n];
            path.clear();
            path.push_str(self.seen.id(n));
            let (folder, folder_at) = if every_file || one.folder == UNSURE {
                Self::beside(dir, &mut path)
            } else {
                (one.folder, 0)
            };
            path.push('/');
            path.push_str(ISSUE);
            let (mut issue, issue_at) = signature(dir, path.as_str());
            if one.issue & AWAITED != 0 && !self.git_moved {
                issue |= AWAITED;
            }
            if one.issue != issue || one.folder != folder {
                changed.push(n);
                issue &= !AWAITED;
            }
            // Too young to distinguish from the next change: read again.
            let young = issue_at.max(folder_at) + BLUR_NS > now;
            looks.push(if young { (UNSURE, UNSURE) } else { (issue, folder) });
        }
        Part {
            range,
            looks,
            changed,
        }
    }
}
