//! What a tree looked like when it was last looked at, so that looking again costs a `stat` an issue and not a read.
//!
//! Kept in the worktree's own git directory, as `jit-seen`. Format, numbers with the lowest byte first: the signatures of
//! git's index and of the folder of issues (8 bytes each), how many issues follow (4), for each issue, in the order of their
//! ids, the signatures of its `issue.json` and of its folder with the other files (8 each) and where its id ends among the
//! ids (4), and then the ids, one after the other. A signature is a hash of inode, length and times of the last change; an
//! odd one of an `issue.json` is that of a file which is to be read again when git has moved, changed or not: what it says
//! counts when it is committed. It is a cache: whatever is missing or unreadable in it is looked at again.
//!
//! Looking is shared by threads that take a few issues at a time, so that a command can begin with its answer meanwhile
//! and help when it is done: see [`Sweep`].
//!
//! Where git has not moved, a list looks at `issue.json` alone. Limitation: until then, an edit in place of another file is
//! seen when the issue is next asked for by name, or when descriptions are read, not by a list.

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

/// Changes within so much time before looking may be followed by others that leave the same time behind.
const BLUR_NS: i128 = 20_000_000;
/// No file has this one: to be looked at again.
const UNSURE: u64 = 0;
/// The signature of what is not there.
const MISSING: u64 = 2;
/// Added to the signature of what may count once it is committed.
const AWAITED: u64 = 1;
/// Beyond so many issues several threads look.
const MANY: usize = 1000;
/// So many issues are taken at a time.
const PART: usize = 100;
const HEAD: usize = 20;
const RECORD: usize = 20;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    index: u64,
    folder: u64,
    /// By id, in order.
    issues: Vec<One>,
    /// All ids, one after the other.
    ids: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct One {
    issue: u64,
    folder: u64,
    /// Where its id ends; it begins where the one before it ends.
    end: u32,
}

/// A folder to look from. Each thread opens its own: the kernel counts who uses one, and threads that share it wait for
/// each other at that count.
fn open(dir: impl AsFd, path: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, path, how, Mode::empty())?)
}

/// On how many cores this process may run. The standard library's answer reads the limits of the control group as well,
/// which takes longer than looking at a hundred issues.
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

/// The signature of a file and when it was last changed.
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

/// Where git notes each step of what is checked out, unless it was told not to.
const STEPS: &str = "logs/HEAD";

/// The index, and the last step: a commit of what was in the index already leaves that as it was.
fn index_signature(git_dir: &Path) -> u64 {
    let both = ["index", STEPS].map(|name| signature(CWD, git_dir.join(name)).0.to_le_bytes());
    hash(&both.concat())
}

/// Whether git has moved since the tree was looked at.
pub fn git_moved(git_dir: &Path) -> bool {
    let mut head = [0; 8];
    let read = fs::File::open(path(git_dir)).and_then(|mut file| io::Read::read_exact(&mut file, &mut head));
    read.is_err() || u64::from_le_bytes(head) != index_signature(git_dir)
}

impl Seen {
    pub fn load(git_dir: &Path) -> Self {
        fs::read(path(git_dir))
            .ok()
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

    pub fn save(&self, git_dir: &Path) -> io::Result<()> {
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
        file::refresh(&path(git_dir), &bytes)
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

    /// To be read again at the next look. Says whether it would not have been.
    pub fn forget(&mut self, id: &IssueId) -> bool {
        let n = self.position(id);
        n.is_some_and(|n| std::mem::replace(&mut self.issues[n].issue, UNSURE) != UNSURE)
    }

    /// To be read again when git has moved; at the next look, where that cannot be told. Says whether it would not have been.
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

    /// The same for the issues that are there now; what is new is not sure.
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

/// A look at a tree that is going on.
#[derive(Debug)]
pub struct Sweep {
    shared: Arc<Shared>,
    others: Vec<JoinHandle<Vec<Part>>>,
}

/// What all who look have in common. Others are woken first and find the ground themselves: waking them takes as long.
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

/// What is compared with what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    LastLook,
    /// Everything is looked at as if for the first time.
    Ever,
}

#[derive(Debug)]
struct Ground {
    dir: OwnedFd,
    /// As it was, with the signatures of git's index and of the folder as they are.
    seen: Seen,
    git_moved: bool,
    /// Whether the folder has changed, or which issues there are.
    folder_moved: bool,
    /// The first issue nobody has taken yet.
    next: AtomicUsize,
}

/// How much of each issue is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// `issue.json`, and the other files if git has moved.
    Fields,
    /// Every file.
    Texts,
}

/// What came of looking at a tree.
#[derive(Debug)]
pub struct Looked {
    /// Which issues are to be read.
    pub changed: Vec<IssueId>,
    /// What will have been seen once they are.
    pub seen: Seen,
    /// Whether that differs from what was seen before.
    pub is_news: bool,
}

/// What some issues look like.
#[derive(Debug)]
struct Part {
    range: Range<usize>,
    looks: Vec<(u64, u64)>,
    changed: Vec<usize>,
}

impl Sweep {
    /// Begins to look for what has changed. `now` is the wall clock in ns.
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
            // Whoever cannot be started does not help.
            std::thread::Builder::new().spawn(work).ok()
        };
        let others = (0..threads).filter_map(start).collect();
        Self { shared, others }
    }

    /// Whether there is time to do something else meanwhile.
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
        // Nobody else has it any more.
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
            // What a thread that failed has taken stays unsure.
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
    /// Found by whoever asks first.
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

    /// Looks at whatever nobody else looks at, until nothing is left.
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
    /// The signature of an issue's folder with the files in it but `issue.json`, and when the last of them was changed.
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
            // Too young to be told from what comes next: to be read again.
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
