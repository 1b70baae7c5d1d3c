//! Lock files of activities, for agents that know files and nothing else (B14).
//!
//! # Format of `<control>/activities/<activity>.lock`
//!
//! One JSON object: `holder`, `holder_type` (`human` or `agent`), `acquired`, `expires`, and while a task of the activity is
//! being worked on `task_id`, `task_acquired`, `task_expires`. Ours also have `lease_id`; that is how they are told from
//! those of others.
//!
//! # Protocol
//!
//! Whoever creates the file exclusively holds the activity until `expires`; deleting it gives it back. `jit` creates its
//! own the same way, before the lease is in the log, so that of a file-only agent and a `jit` command exactly one wins.
//!
//! A lock file of ours that somebody deleted is made again by the next command about claims, and by `jit validate`: the
//! folder's time of change tells that there is something to look for.
//!
//! Everything read here is data from outside: bounded, never followed through a link, never waited for.

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

/// Longest lock file that is read.
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

/// What is under the name of a lock file.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// Written by `jit`, for this lease.
    Ours(LeaseId),
    Theirs(LockFile),
    /// Not a lock file by the protocol, and why.
    Malformed(String),
}

pub fn folder(control_dir: &Path) -> PathBuf {
    control_dir.join("activities")
}

fn path(control_dir: &Path, activity: &IssueId) -> PathBuf {
    folder(control_dir).join(format!("{activity}.lock"))
}

/// The activities that have a lock file.
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

/// What a lock file says; `None` when there is none.
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

/// A holder is an agent id, or a name that its type makes one.
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

/// Takes the name for a lease that is about to be granted. False when there is a file of that name: the caller looks at
/// it and tries again.
pub fn take(control_dir: &Path, activity: &IssueId, lease: &Lease) -> io::Result<bool> {
    make(control_dir, activity, lease, None)
}

/// Makes a lock file that says what the log says, where there is none. False when there is one.
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

/// Makes the lock file say what the log says.
pub fn write(control_dir: &Path, activity: &IssueId, lease: &Lease, task: Option<&Lease>) -> io::Result<()> {
    file::make_dir_like_parent(&folder(control_dir))?;
    changing(control_dir, activity, || {
        set_folder_aside(control_dir, activity)?;
        file::refresh(&path(control_dir, activity), &bytes(lease, task))
    })
}

/// A lock file of others says no longer that the task is worked on. All else in it stays as it is.
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

/// Nobody holds it any more.
pub fn remove(control_dir: &Path, activity: &IssueId) -> io::Result<()> {
    changing(control_dir, activity, || {
        set_folder_aside(control_dir, activity)?;
        match fs::remove_file(path(control_dir, activity)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    })
}

/// A folder under the name of a lock file is nobody's lock, but what is in it may be somebody's: it is moved, not deleted.
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

/// What the nanoseconds of the folder's time of change are while its lock files are those that were left there. Whoever
/// makes or deletes one sets another time, without knowing of this.
const LEFT: u32 = 106_105_116;

/// Whether no lock file was made or deleted since [`leave`].
pub fn is_left(control_dir: &Path) -> bool {
    fs::metadata(folder(control_dir))
        .and_then(|meta| meta.modified())
        .ok()
        .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
        .is_some_and(|at| at.subsec_nanos() == LEFT)
}

/// From now on a change is told from what is there. Called before looking at what is there.
pub fn leave(control_dir: &Path) -> io::Result<()> {
    let secs = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |at| at.as_secs());
    let at = UNIX_EPOCH + Duration::new(secs, LEFT);
    fs::File::open(folder(control_dir))?.set_modified(at)
}

/// A change of ours, which is not one that has to be looked into. Only under the store's lock.
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
        // Where that cannot be noted, the next one looks at everything.
        let _ = leave(control_dir);
        if others()? != before {
            let _ = fs::File::open(folder(control_dir)).and_then(|dir| dir.set_modified(UNIX_EPOCH));
        }
    }
    Ok(done)
}
