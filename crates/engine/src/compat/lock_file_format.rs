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
//! a `jit` command acquires the activity.
//!
//! If a lock file of jit was deleted, the next command about claims, or `jit validate`, creates it again. The
//! modification time of the folder shows that there is something to check.
//!
//! All content read here comes from outside: reads are bounded, follow no links and never block.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jit_core::decide::command::LockFile;
use jit_core::model::ids::{AgentId, IssueId, LeaseId};
use jit_core::model::lease::Lease;
use jit_core::model::time::Wall;
use jit_os::file;
use serde::{Deserialize, Serialize};

/// Maximum size of a lock file that is read.
const MAX_FILE: u64 = 64 << 10;

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    holder: String,
    holder_type: String,
    acquired: Wall,
    expires: Wall,
    task_id: Option<IssueId>,
    task_acquired: Option<Wall>,
    task_expires: Option<Wall>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease_id: Option<LeaseId>,
}

/// The content at the path of a lock file.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// Written by `jit`, for this lease.
    Ours(LeaseId),
    Theirs(LockFile),
    /// Not a valid lock file, and the reason.
    Malformed(String),
}

pub fn folder(control_dir: &Path) -> PathBuf {
    control_dir.join("activities")
}

fn path(control_dir: &Path, activity: &IssueId) -> PathBuf {
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

/// Reads a lock file; `None` if there is none.
pub fn read(control_dir: &Path, activity: &IssueId) -> io::Result<Option<Found>> {
    let bytes = match file::read_real(&path(control_dir, activity), MAX_FILE) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(None),
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::FileTooLarge
            ) =>
        {
            return Ok(Some(Found::Malformed(e.to_string())));
        }
        Err(e) => return Err(e),
    };
    Ok(Some(match serde_json::from_slice::<Record>(&bytes) {
        Err(e) => Found::Malformed(e.to_string()),
        Ok(Record {
            lease_id: Some(lease),
            ..
        }) => Found::Ours(lease),
        Ok(record) => match holder(&record) {
            None => Found::Malformed(format!("{:?} cannot be a holder", record.holder)),
            Some(holder) => Found::Theirs(LockFile {
                activity: activity.clone(),
                holder,
                acquired: record.acquired,
                expires: record.expires,
                task: match (record.task_id, record.task_acquired, record.task_expires) {
                    (Some(task), Some(acquired), Some(expires)) => Some((task, acquired, expires)),
                    _ => None,
                },
            }),
        },
    }))
}

/// The holder is an agent id, or a name that becomes one with the holder type.
fn holder(record: &Record) -> Option<AgentId> {
    if let Some((kind, _)) = record.holder.split_once(':')
        && kind == record.holder_type
    {
        return record.holder.parse().ok();
    }
    let kind = match record.holder_type.as_str() {
        "human" => "human",
        "agent" => "agent",
        _ => return None,
    };
    format!("{kind}:{}", record.holder).parse().ok()
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
        lease_id: Some(lease.lease_id.clone()),
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
        match file::create_like_parent(&path(control_dir, activity)) {
            Ok(mut file) => file.write_all(&bytes(lease, task)).map(|()| true),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(e),
        }
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
    let mut record: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&bytes)?;
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

/// Removes the lock file: the activity has no holder any more.
pub fn remove(control_dir: &Path, activity: &IssueId) -> io::Result<()> {
    changing(control_dir, activity, || {
        set_folder_aside(control_dir, activity)?;
        match fs::remove_file(path(control_dir, activity)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
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

/// The nanoseconds of the folder's modification time that mean: the lock files have not changed since [`leave`]. A
/// program that creates or deletes a file changes that time without knowing about this.
const LEFT: u32 = 106_105_116;

/// Whether no lock file was created or deleted since [`leave`].
pub fn is_left(control_dir: &Path) -> bool {
    fs::metadata(folder(control_dir))
        .and_then(|meta| meta.modified())
        .ok()
        .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
        .is_some_and(|at| at.subsec_nanos() == LEFT)
}

/// Marks the folder, so that later changes are noticed. Must be called before the lock files are read.
pub fn leave(control_dir: &Path) -> io::Result<()> {
    let secs = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |at| at.as_secs());
    let at = UNIX_EPOCH + Duration::new(secs, LEFT);
    fs::File::open(folder(control_dir))?.set_modified(at)
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
    let before = if is_left(control_dir) {
        Some(others()?)
    } else {
        None
    };
    let done = change()?;
    if let Some(before) = before {
        // If the mark cannot be set, the next command checks all lock files.
        let _ = leave(control_dir);
        if others()? != before {
            let _ = fs::File::open(folder(control_dir)).and_then(|dir| dir.set_modified(UNIX_EPOCH));
        }
    }
    Ok(done)
}
