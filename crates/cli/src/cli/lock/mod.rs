//! `jit lock`: acquires, checks, extends and releases locks on files.
//!
//! This file has the table of verbs, the flags that name the caller's own locks, and the text of lock replies.

mod acquire;
mod check;
mod cleanup;
mod extend;
mod list;
mod release;

use std::ffi::OsString;

use jit_core::query::session_and_lock_views::LockView;
use jit_engine::api::file_locks::LockCheck;
use jit_engine::api::file_locks::OwnLocks;

use super::{Verb, verb};
use crate::render::{Style, clean_line, table};

pub const VERBS: &[Verb] = &[
    verb!("acquire", "Lock files, folders or patterns: all or none", acquire),
    verb!("check", "Would I get it, and who has it?", check),
    verb!("extend", "Keep them longer", extend),
    verb!("release", "Let go of them", release),
    verb!("list", "Who has locked what", list),
    verb!("cleanup", "Clear away locks that ran out", cleanup),
];

/// Own locks, by path or all of them.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct Own {
    /// As they were locked
    #[arg(value_name = "PATH")]
    paths: Vec<OsString>,
    /// All that you have locked in this worktree
    #[arg(long)]
    all: bool,
}

impl Own {
    fn locks(self) -> OwnLocks {
        if self.all {
            OwnLocks::All
        } else {
            OwnLocks::Paths(self.paths.into_iter().map(Into::into).collect())
        }
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
