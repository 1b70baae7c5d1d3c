//! Text of locks on files.

use crate::render::{Style, clean_line, table};
use jit_core::query::session_and_lock_views::LockView;
use jit_engine::api::file_locks::LockCheck;
use jit_engine::api::file_locks::{FileLockReply, LockChecks, Locks, ReleasedLocks};

/// Text of a reply about locks on files.
pub fn text(reply: &FileLockReply, style: Style) -> String {
    match reply {
        FileLockReply::Locks(Locks { locks }) => locks_text(locks, "Nothing is locked.", style),
        FileLockReply::Released(ReleasedLocks { released }) => released
            .iter()
            .map(|lock| format!("Released {}\n", style.bold(&clean_line(&lock.file_path))))
            .collect(),
        FileLockReply::Checks(LockChecks { paths }) => checks_text(paths, style),
    }
}

/// Ids of what was written.
pub fn ids(reply: &FileLockReply) -> Vec<&str> {
    match reply {
        FileLockReply::Locks(Locks { locks })
        | FileLockReply::Released(ReleasedLocks { released: locks }) => {
            locks.iter().map(|lock| lock.lease_id.as_str()).collect()
        }
        FileLockReply::Checks(_) => Vec::new(),
    }
}

pub fn locks_text(locks: &[LockView], none: &str, style: Style) -> String {
    if locks.is_empty() {
        return format!("{none}\n");
    }
    let mut rows = vec![
        ["PATH", "TYPE", "SCOPE", "HOLDER", "WORKTREE", "UNTIL"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for lock in locks {
        rows.push(vec![
            style.bold(&clean_line(&lock.file_path)),
            lock.lock_type.as_str().to_owned(),
            lock.lock_scope.to_string(),
            clean_line(lock.agent_id.as_str()),
            lock.worktree_path.as_deref().map_or("-".into(), clean_line),
            lock.expires_at.to_string(),
        ]);
    }
    table(&rows)
}

pub fn checks_text(checks: &[LockCheck], style: Style) -> String {
    let mut out = String::new();
    for check in checks {
        let path = style.bold(&clean_line(&check.file_path));
        if check.available {
            let mine = if check.mine { ", yours already" } else { "" };
            out.push_str(&format!("{path}  free{mine} ({})\n", check.lock_scope));
            continue;
        }
        for lock in &check.locks {
            out.push_str(&format!(
                "{path}  {} by {} until {} ({} on {})\n",
                style.bad("locked"),
                clean_line(lock.agent_id.as_str()),
                lock.expires_at,
                lock.lock_type.as_str(),
                clean_line(&lock.file_path),
            ));
        }
        if check.locks.is_empty() {
            out.push_str(&format!("{path}  free, but {} came first\n", check.waiting));
        }
    }
    out
}
