//! Lock files of activities and the log, kept in step.
//!
//! - A lock file that somebody else wrote is in the log before the next decision about claims.
//! - A file that is expired or not by the protocol is reported, and removed by whoever takes the activity.
//! - Only leases that came from such a file end with its deletion.

use std::io;
use std::time::Duration;

use jit_core::activity::is_from_file;
use jit_core::command::Command;
use jit_core::event::{Action, Event, Stamped};
use jit_core::ids::IssueId;
use jit_core::issue::ACTIVITY;
use jit_core::lease::{Lease, Resource};
use jit_core::refusal::Code;
use jit_core::state;
use jit_core::table::Table;

use super::{App, Kept, refuse};
use crate::activities::{self, Found};
use crate::store::Outcome;
use crate::store::file::io_refusal;

/// What an append is stopped with when a lock file appeared at the last moment.
pub(super) const LOCK_APPEARED: &str = "a lock file appeared";

impl App {
    /// Brings the lock files that others wrote into the log. Returns what should be said about them.
    pub(super) fn honour_lock_files(&self) -> Outcome<Vec<String>> {
        let control = &self.place.control_dir;
        let trouble = |e: io::Error| io_refusal("read", &activities::folder(control), &e);
        let unreadable = |e| refuse(Code::Io, e);
        if !activities::folder(control).is_dir() {
            return Ok(Vec::new());
        }
        let ids = activities::list(control).map_err(trouble)?;
        let view = self.view()?;
        let table = &*view.table;
        let mut warnings = Vec::new();
        let mut there = Vec::new();
        for id in &ids {
            let lease = lease_on(table, id)
                .map_err(unreadable)?
                .filter(|lease| !lease.expired(&view.now));
            if lease.as_ref().is_some_and(|lease| !is_from_file(lease)) {
                continue;
            }
            match activities::read(control, id).map_err(trouble)? {
                Some(Found::Theirs(file)) if file.expires.ms() <= view.now.wall.ms() && lease.is_none() => {
                    warnings.push(format!(
                        "the lock file of {id} by {} has expired: {id} is free",
                        file.holder
                    ));
                }
                Some(Found::Theirs(file)) => {
                    if state::issue(table, id).map_err(unreadable)?.is_none() {
                        warnings.push(format!("there is a lock file for {id}, which is no issue here"));
                    }
                    there.push(file);
                }
                Some(Found::Malformed(why)) => {
                    warnings.push(format!(
                        "the lock file of {id} is not by the protocol ({why}): it counts for nothing"
                    ));
                }
                Some(Found::Ours(_)) | None => {}
            }
        }
        let mut gone = Vec::new();
        for lease in state::leases_from_files(table).map_err(unreadable)? {
            if let Some(id) = lease.resource.issue()
                && lease.parent.is_none()
                && !ids.contains(id)
            {
                gone.push(id.clone());
            }
        }
        let news = |file: &jit_core::command::LockFile| {
            lease_on(table, &file.activity)
                .ok()
                .flatten()
                .is_none_or(|lease| lease.expires_at != file.expires || file.task.is_some())
        };
        there.retain(news);
        if !there.is_empty() || !gone.is_empty() {
            let kept = Kept {
                aside: Some(Duration::MAX),
                ..Kept::default()
            };
            self.transact_as(None, &Command::HonourLocks { there, gone }, kept)?;
        }
        Ok(warnings)
    }

    /// Before an append: the names of activities that are about to be taken, by the protocol that others follow.
    pub(super) fn take_lock_files(&self, events: &[Event]) -> io::Result<()> {
        let control = &self.place.control_dir;
        for pair in events.windows(2) {
            let [
                Event::Acquired { lease, .. },
                Event::Worked {
                    action: Action::ClaimedActivity | Action::RecoveredActivity,
                    activity_id: Some(id),
                    ..
                },
            ] = pair
            else {
                continue;
            };
            if is_from_file(lease) {
                continue;
            }
            while !activities::take(control, id, lease)? {
                match activities::read(control, id)? {
                    Some(Found::Theirs(file)) if file.expires.ms() > crate::os::clock::wall_ms() => {
                        return Err(io::Error::other(LOCK_APPEARED));
                    }
                    // Left by somebody who is gone: an older lease of ours, or expired, or not by the protocol.
                    _ => activities::remove(control, id)?,
                }
            }
        }
        Ok(())
    }

    /// After an append: the lock files of the activities that it touched.
    pub(super) fn mirror_lock_files(&self, lines: &[Stamped], table: &dyn Table) -> io::Result<()> {
        if !activities::folder(&self.place.control_dir).is_dir() {
            return Ok(());
        }
        for line in lines {
            let Some(id) = line.event.lease().and_then(|lease| lease.resource.issue()) else {
                continue;
            };
            let Some(issue) = state::issue(table, id).map_err(io::Error::other)? else {
                continue;
            };
            if issue.kind == ACTIVITY {
                self.mirror(&issue.id, table)?;
            } else if let Some(parent) = &issue.parent
                && state::issue(table, parent)
                    .map_err(io::Error::other)?
                    .is_some_and(|parent| parent.kind == ACTIVITY)
            {
                self.mirror(parent, table)?;
            }
        }
        Ok(())
    }

    fn mirror(&self, activity: &IssueId, table: &dyn Table) -> io::Result<()> {
        let control = &self.place.control_dir;
        match lease_on(table, activity).map_err(io::Error::other)? {
            // The file is its holder's own.
            Some(lease) if is_from_file(&lease) => Ok(()),
            Some(lease) => {
                let inside = state::children(table, &lease.lease_id).map_err(io::Error::other)?;
                let task = inside.iter().max_by_key(|task| task.token);
                activities::write(control, activity, &lease, task)
            }
            None => match activities::read(control, activity)? {
                Some(Found::Theirs(file)) if file.expires.ms() > crate::os::clock::wall_ms() => Ok(()),
                _ => activities::remove(control, activity),
            },
        }
    }
}

fn lease_on(table: &dyn Table, id: &IssueId) -> jit_core::table::Read<Option<Lease>> {
    state::lease_on(table, &Resource::Issue(id.clone()).key())
}
