//! Lock files of activities, for agents that only know files (B14).
//!
//! # Format of `<control>/activities/<activity>.lock`
//!
//! One JSON object: `holder`, `holder_type` (`human` or `agent`), `acquired`, `expires`. While a task of the activity
//! is being worked on, it also has `task_id`, `task_acquired` and `task_expires`. Files written by jit also have
//! `lease_id`; files of other programs do not.
//!
//! # Protocol
//!
//! The creator of the file (by exclusive creation) holds the activity until `expires`. Deleting the file releases it.
//! `jit` creates its own files the same way, before the lease is in the log. So exactly one of a file-only agent and
//! a `jit` command acquires the activity. A file of jit gets its name together with its content.
//!
//! # Doubtful files
//!
//! A doubtful file counts as held, never as free ([`LockedBy::doubt`] has the reason):
//!
//! | content | meaning |
//! |---|---|
//! | empty or not a lock, written less than 30 seconds ago | its writer is still at work: held by [`UNNAMED_HOLDER`] until 30 seconds after the last write |
//! | the system does not let jit read it | held by [`UNNAMED_HOLDER`] for as long as the file exists |
//! | `expires` without a time zone | the latest time that it can mean: that of UTC-12 |
//! | `expires` after the year 9998, or later than a lease may last | held for as long as the file exists |
//! | a byte order mark before the JSON | ignored |
//!
//! A file that is no lock 30 seconds after its last write is malformed, and is replaced.
//!
//! jit removes a file that it found to be over only if it still is: the file gets another name first and is read again
//! there. Limitation: if jit is killed between both, a file that was created at that moment keeps the other name.
//!
//! If a lock file of jit was deleted, the next command about claims, or `jit validate`, creates it again. The
//! modification time of the folder shows that there is something to check.
//!
//! All content read here comes from outside: reads are bounded, follow no links and never block.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jit_core::decide::command::LockFile;
use jit_core::model::ids::{AgentId, IssueId, LeaseId};
use jit_core::model::lease::{Lease, UNNAMED_HOLDER};
use jit_core::model::time::Wall;
use jit_os::{file, io_refusal};
use jit_store::Outcome;
use serde::{Deserialize, Serialize};

/// Maximum size of a lock file that is read.
const MAX_FILE: u64 = 64 << 10;

/// Time that a program has to write the content of a file that it created.
const WRITING_MS: u64 = 30_000;

/// Some editors and libraries begin a file with it.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A file of jit.
#[derive(Debug, Serialize)]
struct Record {
    holder: String,
    holder_type: String,
    acquired: Wall,
    expires: Wall,
    task_id: Option<IssueId>,
    task_acquired: Option<Wall>,
    task_expires: Option<Wall>,
    lease_id: LeaseId,
}

/// A file of any program, with as few demands as possible.
#[derive(Debug, Deserialize)]
struct FoundRecord {
    holder: String,
    holder_type: Option<String>,
    acquired: Option<String>,
    expires: String,
    task_id: Option<String>,
    task_acquired: Option<String>,
    task_expires: Option<String>,
    lease_id: Option<LeaseId>,
}

/// The content at the path of a lock file.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// Written by `jit`, for this lease.
    Ours(LeaseId),
    Theirs(LockedBy),
    /// Not a valid lock file, and the reason.
    Malformed(String),
}

/// A lock file of another program.
#[derive(Debug, PartialEq, Eq)]
pub struct LockedBy {
    pub file: LockFile,
    /// The reason why the file is not certain to mean what [`Self::file`] says.
    pub doubt: Option<String>,
}

impl LockedBy {
    /// Whether the writer is still at work, so that the file does not name the holder yet.
    pub fn is_unnamed(&self) -> bool {
        self.file.holder.as_str() == UNNAMED_HOLDER
    }
}

pub fn folder(control_dir: &Path) -> PathBuf {
    control_dir.join("activities")
}

/// Creates the folder, so that programs without jit can create their lock files from the beginning. In a new log nothing
/// is to be taken in, so the first claim need not look.
pub fn make_folder(control_dir: &Path, log_is_new: bool) -> Outcome<()> {
    let folder = folder(control_dir);
    file::make_dir_like_parent(&folder).map_err(|e| io_refusal("create", &folder, &e))?;
    if log_is_new
        && set_mark(control_dir, Mark::All).is_ok()
        && !list(control_dir).is_ok_and(|all| all.is_empty())
    {
        remove_mark(control_dir);
    }
    Ok(())
}

pub fn path(control_dir: &Path, activity: &IssueId) -> PathBuf {
    folder(control_dir).join(format!("{activity}.lock"))
}

/// Lists the activities that have a lock file.
pub fn list(control_dir: &Path) -> io::Result<Vec<IssueId>> {
    let entries = match fs::read_dir(folder(control_dir)) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let mut ids = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        ids.extend(
            name.to_str()
                .and_then(|name| name.strip_suffix(".lock"))
                .and_then(|id| id.parse::<IssueId>().ok()),
        );
    }
    ids.sort();
    Ok(ids)
}

/// Reads a lock file; `None` if there is none. `now` decides whether its writer may still be at work.
pub fn read(control_dir: &Path, activity: &IssueId, now: Wall) -> io::Result<Option<Found>> {
    read_at(&path(control_dir, activity), activity, now)
}

fn read_at(path: &Path, activity: &IssueId, now: Wall) -> io::Result<Option<Found>> {
    let bytes = match file::read_real(path, MAX_FILE) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(None),
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => {
            return Ok(Some(Found::Malformed(e.to_string())));
        }
        Err(e) if e.kind() == io::ErrorKind::FileTooLarge => {
            return Ok(Some(unreadable(path, activity, e.to_string(), now)));
        }
        Err(e) => return Ok(Some(held_unread(activity, &e, now))),
    };
    Ok(Some(match understand(activity, &bytes, now) {
        Ok(found) => found,
        Err(why) => unreadable(path, activity, why, now),
    }))
}

/// A file that is no lock: yet, if it was written just now.
fn unreadable(path: &Path, activity: &IssueId, why: String, now: Wall) -> Found {
    let written = path
        .symlink_metadata()
        .map_or(Wall::from_ms(0), |meta| written_at(&meta));
    let expires = written.plus_ms(WRITING_MS);
    if expires <= now {
        return Found::Malformed(why);
    }
    let doubt = format!(
        "was written just now and is not readable yet ({why}): its writer holds {activity} until {expires}"
    );
    held_unnamed(activity, (written.min(now), expires), doubt).unwrap_or(Found::Malformed(why))
}

/// A file that the system does not let jit read.
fn held_unread(activity: &IssueId, error: &io::Error, now: Wall) -> Found {
    let doubt = format!("cannot be read ({error}): {activity} is held while it exists");
    let times = (now, Wall::from_ms(i64::MAX));
    held_unnamed(activity, times, doubt).unwrap_or_else(|| Found::Malformed(error.to_string()))
}

fn held_unnamed(activity: &IssueId, (acquired, expires): (Wall, Wall), doubt: String) -> Option<Found> {
    let file = LockFile {
        activity: activity.clone(),
        holder: UNNAMED_HOLDER.parse().ok()?,
        acquired,
        expires,
        task: None,
    };
    Some(Found::Theirs(LockedBy {
        file,
        doubt: Some(doubt),
    }))
}

/// The time of the last write. Programs may set it, to one in the future too, but not the kernel's own time of that change.
fn written_at(meta: &fs::Metadata) -> Wall {
    let ms = |secs: i64, nanos: i64| secs.saturating_mul(1000).saturating_add(nanos / 1_000_000);
    let (written, changed) = (
        ms(meta.mtime(), meta.mtime_nsec()),
        ms(meta.ctime(), meta.ctime_nsec()),
    );
    Wall::from_ms(written.min(changed))
}

/// Reads the content of a lock file, or says why it is none.
fn understand(activity: &IssueId, bytes: &[u8], now: Wall) -> Result<Found, String> {
    if bytes.is_empty() {
        return Err("it is empty".to_owned());
    }
    let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let record: FoundRecord = serde_json::from_slice(text).map_err(|e| e.to_string())?;
    if let Some(lease) = record.lease_id {
        return Ok(Found::Ours(lease));
    }
    let Some(holder) = agent_named(&record.holder, record.holder_type.as_deref()) else {
        return Err(format!("{:?} cannot be a holder", record.holder));
    };
    let no_time = |text: &str| format!("{text:?} is not a time such as 2026-01-03T12:00:00Z");
    let (expires, doubt) = latest(&record.expires).ok_or_else(|| no_time(&record.expires))?;
    let earlier = |text: &Option<String>| text.as_deref().and_then(earliest).map(|at| at.min(now));
    let task = record.task_id.as_deref().and_then(|id| id.parse().ok());
    let task_expires = record.task_expires.as_deref().and_then(latest);
    Ok(Found::Theirs(LockedBy {
        file: LockFile {
            activity: activity.clone(),
            holder,
            acquired: earlier(&record.acquired).unwrap_or(now.min(expires)),
            expires,
            task: match (task, earlier(&record.task_acquired), task_expires) {
                (Some(task), Some(acquired), Some((expires, _))) => Some((task, acquired, expires)),
                _ => None,
            },
        },
        doubt: doubt.map(|doubt| format!("{doubt}: its writer holds {activity} until {expires}")),
    }))
}

/// The latest time that a text can mean, and why that is in doubt. `None`: it is no time.
fn latest(text: &str) -> Option<(Wall, Option<&'static str>)> {
    let text = text.trim();
    if let Ok(time) = text.parse() {
        return Some((time, None));
    }
    let year = text.trim_start_matches('+').split('-').next().unwrap_or_default();
    if year.len() >= 4
        && year.bytes().all(|b| b.is_ascii_digit())
        && year.parse().is_ok_and(|year: u128| year >= 9999)
    {
        return Some((
            Wall::from_ms(i64::MAX),
            Some("has a time too far in the future to be written here"),
        ));
    }
    let local: jiff::civil::DateTime = text.parse().ok()?;
    let time = jiff::tz::Offset::constant(-12).to_timestamp(local).ok()?;
    Some((
        Wall::from_ms(time.as_millisecond()),
        Some("has a time without a zone, which is read as late as it can mean (UTC-12); write it with Z"),
    ))
}

/// The earliest time that a text can mean: one without a zone is read as UTC.
pub fn earliest(text: &str) -> Option<Wall> {
    let text = text.trim();
    let in_utc = || {
        text.parse()
            .ok()
            .and_then(|local| jiff::tz::Offset::UTC.to_timestamp(local).ok())
    };
    text.parse()
        .ok()
        .or_else(|| in_utc().map(|time| Wall::from_ms(time.as_millisecond())))
}

/// The agent that a file means: an agent id, or a name that becomes one with the type (`human` or `agent`).
pub fn agent_named(name: &str, kind: Option<&str>) -> Option<AgentId> {
    let is_whole = |(word, _)| kind.is_none_or(|kind| kind == word);
    if name.split_once(':').is_some_and(is_whole) {
        return name.parse().ok();
    }
    let is_human = kind.is_some_and(|kind| kind.eq_ignore_ascii_case("human"));
    let kind = if is_human { "human" } else { "agent" };
    format!("{kind}:{name}").parse().ok()
}

fn bytes(lease: &Lease, task: Option<&Lease>) -> Vec<u8> {
    let record = Record {
        holder: lease.agent_id.to_string(),
        holder_type: if lease.agent_id.kind() == "human" {
            "human"
        } else {
            "agent"
        }
        .into(),
        acquired: lease.acquired_at,
        expires: lease.expires_at,
        task_id: task.and_then(|task| task.resource.issue().cloned()),
        task_acquired: task.map(|task| task.acquired_at),
        task_expires: task.map(|task| task.expires_at),
        lease_id: lease.lease_id.clone(),
    };
    let mut bytes = serde_json::to_vec_pretty(&record).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// Creates the lock file for a lease that is about to be granted. Returns false if a file of that name exists: the
/// caller reads it and retries.
pub fn take(control_dir: &Path, activity: &IssueId, lease: &Lease) -> io::Result<bool> {
    make(control_dir, activity, lease, None)
}

/// Creates a lock file that matches the log, if there is none. Returns false if there is one.
pub fn make(control_dir: &Path, activity: &IssueId, lease: &Lease, task: Option<&Lease>) -> io::Result<bool> {
    file::make_dir_like_parent(&folder(control_dir))?;
    changing(control_dir, activity, || {
        file::create_unsynced(&path(control_dir, activity), &bytes(lease, task))
    })
}

/// Rewrites the lock file so that it matches the log.
pub fn write(control_dir: &Path, activity: &IssueId, lease: &Lease, task: Option<&Lease>) -> io::Result<()> {
    file::make_dir_like_parent(&folder(control_dir))?;
    changing(control_dir, activity, || {
        set_folder_aside(control_dir, activity)?;
        file::refresh(&path(control_dir, activity), &bytes(lease, task))
    })
}

/// Removes the task from a lock file of another program. Its other fields stay unchanged.
pub fn drop_task(control_dir: &Path, activity: &IssueId, task: &IssueId) -> io::Result<()> {
    let path = path(control_dir, activity);
    let Some(bytes) = file::read_real(&path, MAX_FILE)? else {
        return Ok(());
    };
    let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes);
    let mut record: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(text)?;
    if record.get("task_id").and_then(|id| id.as_str()) != Some(task.as_str()) {
        return Ok(());
    }
    for name in ["task_id", "task_acquired", "task_expires"] {
        record.remove(name);
    }
    let mut bytes = serde_json::to_vec_pretty(&record)?;
    bytes.push(b'\n');
    changing(control_dir, activity, || file::refresh(&path, &bytes))
}

/// Removes the lock file if `is_over` finds that it counts no more. Another program may replace the file at any moment: it
/// is judged after it got another name, and gets its name back if it counts.
pub fn remove_if(
    control_dir: &Path,
    activity: &IssueId,
    now: Wall,
    is_over: impl Fn(&Found) -> bool,
) -> io::Result<()> {
    changing(control_dir, activity, || {
        set_folder_aside(control_dir, activity)?;
        let name = path(control_dir, activity);
        let aside = folder(control_dir).join(format!("{activity}.over-{:016x}", jit_os::random::u64()?));
        match fs::rename(&name, &aside) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            renamed => renamed?,
        }
        if read_at(&aside, activity, now)?.is_some_and(|found| !is_over(&found)) {
            fs::hard_link(&aside, &name)?;
        }
        fs::remove_file(&aside)
    })
}

/// Moves a folder at the path of a lock file aside. It is no lock, but it may contain files of others, so it is not
/// deleted.
fn set_folder_aside(control_dir: &Path, activity: &IssueId) -> io::Result<()> {
    let path = path(control_dir, activity);
    if !path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        return Ok(());
    }
    let mut n = 1;
    loop {
        let aside = folder(control_dir).join(format!("{activity}.aside-{n}"));
        if aside.symlink_metadata().is_err() {
            return fs::rename(&path, &aside);
        }
        n += 1;
    }
}

/// Marks of the folder, as the nanoseconds of its modification time. A program that creates or deletes a file removes
/// the mark without knowing about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The lock files of jit are all there.
    Own = 106_105_116,
    /// The log also has what the lock files of others say.
    All = 106_105_117,
}

/// The mark of the folder; `None` if a lock file was created or deleted since it was set.
pub fn mark(control_dir: &Path) -> Option<Mark> {
    let modified = fs::metadata(folder(control_dir)).and_then(|meta| meta.modified());
    let nanos = modified.ok()?.duration_since(UNIX_EPOCH).ok()?.subsec_nanos();
    [Mark::Own, Mark::All]
        .into_iter()
        .find(|mark| *mark as u32 == nanos)
}

/// Marks the folder, so that later changes are noticed. Must be called before the lock files are read.
pub fn set_mark(control_dir: &Path, mark: Mark) -> io::Result<()> {
    let secs = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |at| at.as_secs());
    let at = UNIX_EPOCH + Duration::new(secs, mark as u32);
    fs::File::open(folder(control_dir))?.set_modified(at)
}

/// Removes the mark: the next command checks all lock files.
fn remove_mark(control_dir: &Path) {
    let _ = fs::File::open(folder(control_dir)).and_then(|dir| dir.set_modified(UNIX_EPOCH));
}

/// Whether there are no lock files, and the log has that. Without the folder it has.
pub fn is_quiet(control_dir: &Path) -> io::Result<bool> {
    let is_marked = mark(control_dir) == Some(Mark::All) || !folder(control_dir).is_dir();
    Ok(is_marked && list(control_dir)?.is_empty())
}

/// Marks that there are no lock files and the log has that, if so.
pub fn note_quiet(control_dir: &Path) -> io::Result<()> {
    if mark(control_dir) == Some(Mark::Own) && list(control_dir)?.is_empty() {
        set_mark(control_dir, Mark::All)?;
        if !list(control_dir)?.is_empty() {
            remove_mark(control_dir);
        }
    }
    Ok(())
}

/// Performs a change by jit itself, which needs no check later. Only under the store's lock.
fn changing<T>(
    control_dir: &Path,
    activity: &IssueId,
    change: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let others = || -> io::Result<Vec<IssueId>> {
        let mut ids = list(control_dir)?;
        ids.retain(|id| id != activity);
        Ok(ids)
    };
    let before = match mark(control_dir) {
        Some(mark) => Some((mark, others()?)),
        None => None,
    };
    let done = change()?;
    if let Some((mark, before)) = before {
        // If the mark cannot be set, the next command checks all lock files.
        let _ = set_mark(control_dir, mark);
        if others()? != before {
            remove_mark(control_dir);
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wall(text: &str) -> Wall {
        text.parse().expect("a time")
    }

    fn found(content: &[u8]) -> Result<Found, String> {
        let id = "WI-001-A1".parse().expect("an id");
        understand(&id, content, wall("2026-01-24T10:00:00Z"))
    }

    fn locked(content: &[u8]) -> (String, String, bool) {
        match found(content) {
            Ok(Found::Theirs(LockedBy { file, doubt })) => {
                (file.holder.to_string(), file.expires.to_string(), doubt.is_some())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn b14_a_doubtful_time_is_the_latest_that_it_can_mean() {
        for (expires, read_as, in_doubt) in [
            ("2026-01-24T11:00:00Z", "2026-01-24T11:00:00.000Z", false),
            ("2026-01-24T11:00:00+02:00", "2026-01-24T09:00:00.000Z", false),
            ("2026-01-24 11:00:00+00:00", "2026-01-24T11:00:00.000Z", false),
            ("2026-01-24T11:00:00", "2026-01-24T23:00:00.000Z", true),
            ("2026-01-24T11:00:00.123456", "2026-01-24T23:00:00.123Z", true),
            ("2026-01-24 11:00:00", "2026-01-24T23:00:00.000Z", true),
            ("2999-01-01T00:00:00Z", "2999-01-01T00:00:00.000Z", false),
            ("9999-12-31T23:59:59Z", "9998-12-31T23:59:59.999Z", true),
            ("9999-12-31T23:59:59", "9998-12-31T23:59:59.999Z", true),
            ("+275760-09-13T00:00:00.000Z", "9998-12-31T23:59:59.999Z", true),
        ] {
            let file = format!(r#"{{"holder":"x","holder_type":"agent","expires":"{expires}"}}"#);
            let expected = ("agent:x".to_owned(), read_as.to_owned(), in_doubt);
            assert_eq!(locked(file.as_bytes()), expected, "{expires}");
        }
    }

    #[test]
    fn b14_a_byte_order_mark_and_missing_fields_do_not_free_an_activity() {
        let expires = r#""expires":"2026-01-24T11:00:00Z""#;
        for (content, holder) in [
            (
                format!("\u{feff}{{\"holder\":\"x\",\"holder_type\":\"agent\",{expires}}}"),
                "agent:x",
            ),
            (format!("{{\"holder\":\"x\",{expires}}}"), "agent:x"),
            (
                format!("{{\"holder\":\"x\",\"holder_type\":\"robot\",{expires}}}"),
                "agent:x",
            ),
            (
                format!("{{\"holder\":\"Ada L.\",\"holder_type\":\"Human\",{expires}}}"),
                "human:Ada L.",
            ),
            (format!("{{\"holder\":\"ci:nightly\",{expires}}}"), "ci:nightly"),
            (
                format!("{{\"holder\":\"x\",\"task_id\":\"not / an id\",{expires}}}"),
                "agent:x",
            ),
        ] {
            assert_eq!(locked(content.as_bytes()).0, holder, "{content}");
        }
        for content in [
            "",
            " ",
            "{",
            "null",
            r#"{"holder":"x"}"#,
            r#"{"holder":"x","expires":"soon"}"#,
        ] {
            assert!(found(content.as_bytes()).is_err(), "{content}");
        }
    }

    #[test]
    fn b14_an_unreadable_file_is_held_for_thirty_seconds_after_its_last_write() {
        let folder = tempfile::tempdir().expect("a folder");
        let id: IssueId = "WI-001-A1".parse().expect("an id");
        make_folder(folder.path(), false).expect("the folder");
        let path = path(folder.path(), &id);
        let written = wall("2026-01-24T10:00:00Z");
        for content in ["", "{\"holder\":"] {
            fs::write(&path, content).expect("write");
            let at = UNIX_EPOCH + Duration::from_millis(u64::try_from(written.ms()).expect("positive"));
            fs::File::options()
                .write(true)
                .open(&path)
                .and_then(|file| file.set_modified(at))
                .expect("a time");
            let at = |ms| {
                read(folder.path(), &id, written.plus_ms(ms))
                    .expect("read")
                    .expect("a file")
            };
            for ms in [0, 29_999] {
                let Found::Theirs(found) = at(ms) else {
                    panic!("{:?}", at(ms))
                };
                assert!(found.is_unnamed());
                assert_eq!(found.file.expires, written.plus_ms(30_000));
            }
            assert!(matches!(at(30_000), Found::Malformed(_)));
            // The clock of the machine was set back meanwhile.
            let before = read(folder.path(), &id, written.minus_ms(86_400_000)).expect("read");
            assert!(matches!(before, Some(Found::Theirs(_))), "{before:?}");
        }
        // A time that a program chose does not hold the activity longer.
        fs::File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_modified(UNIX_EPOCH + Duration::from_secs(40_000_000_000)))
            .expect("a time");
        let now = written_at(&path.symlink_metadata().expect("the file"));
        let at = |ms| read(folder.path(), &id, now.plus_ms(ms)).expect("read");
        assert!(matches!(at(29_999), Some(Found::Theirs(_))));
        assert!(matches!(at(30_000), Some(Found::Malformed(_))));
    }

    #[test]
    fn b14_a_file_that_another_program_put_there_meanwhile_is_not_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let control = folder.path();
        make_folder(control, false).expect("the folder");
        let id: IssueId = "WI-001-A1".parse().expect("an id");
        let (path, now) = (path(control, &id), wall("2026-01-24T12:00:00Z"));
        let file =
            |holder: &str, at: &str| format!(r#"{{"holder":"{holder}","expires":"2026-01-24T{at}:00:00Z"}}"#);
        let is_over = |found: &Found| matches!(found, Found::Theirs(found) if found.file.expires <= now);
        // The caller judged the first file. When it removes it, the second one is there.
        let second = file("second", "13");
        fs::write(&path, &second).expect("write");
        remove_if(control, &id, now, is_over).expect("left alone");
        assert_eq!(fs::read_to_string(&path).expect("there"), second);
        fs::write(&path, file("first", "11")).expect("write");
        remove_if(control, &id, now, is_over).expect("removed");
        remove_if(control, &id, now, is_over).expect("nothing to remove");
        assert_eq!(
            fs::read_dir(super::folder(control)).expect("the folder").count(),
            0
        );
    }

    #[test]
    fn b14_no_lock_file_is_left_unnoticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let control = folder.path();
        assert!(is_quiet(control).expect("read"), "no folder");
        make_folder(control, false).expect("the folder");
        assert!(!is_quiet(control).expect("read"), "not checked yet");
        set_mark(control, Mark::Own).expect("a mark");
        assert!(
            !is_quiet(control).expect("read"),
            "only the files of jit were checked"
        );
        note_quiet(control).expect("a mark");
        assert!(is_quiet(control).expect("read"));
        let path = path(control, &"WI-001-A1".parse().expect("an id"));
        fs::write(&path, "").expect("write");
        assert!(!is_quiet(control).expect("read"));
        note_quiet(control).expect("nothing to note");
        fs::remove_file(&path).expect("removed");
        assert!(!is_quiet(control).expect("read"), "a file came and went");
    }
}
