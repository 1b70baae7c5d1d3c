//! Connects the write path with the files beside the log.
//!
//! To add a file that follows from the log, add one line here.

use std::io;
use std::time::Duration;

use jit_core::log::event::{Event, Stamped};
use jit_core::log::table::Table;
use jit_core::model::ids::IssueId;
use jit_core::model::issue::Issue;
use jit_store::{Outcome, View};

use crate::compat::{changelog, lock_file_format, lock_files};
use crate::context::{Context, Followers};
use crate::issues::sync::projection::publish_one;
use crate::issues::sync::{self, texts};
use crate::{file_locks, landing, sessions};

/// The files of this repository, each written by its own room.
#[derive(Debug)]
pub struct Files;

impl Followers for Files {
    fn log_created(&self, cx: &Context) -> Outcome<()> {
        lock_file_format::make_folder(&cx.place.control_dir, false)?;
        sync::join_tree(cx).map(drop)
    }

    fn foresee(&self, cx: &Context, view: View) -> Outcome<View> {
        lock_files::foresee_lock_files(cx, view)
    }

    fn prepare(&self, cx: &Context, events: &[Event], long_texts: &[Vec<u8>]) -> Outcome<()> {
        texts::keep_texts(cx, events, long_texts)?;
        lock_files::take_lock_files(cx, events)
    }

    fn publish(
        &self,
        cx: &Context,
        lines: &[Stamped],
        table: &dyn Table,
        known: &[(IssueId, Vec<u8>)],
        project: bool,
    ) -> Vec<String> {
        let is_changed = |id: &IssueId| {
            lines
                .iter()
                .any(|line| matches!(&line.event, Event::Issue { issue, .. } if issue.id == *id))
        };
        let known = known.iter().filter(|(id, _)| is_changed(id));
        let refused = texts::keep_met(cx, known).err();
        let mut warnings = publish(cx, lines, table, project);
        warnings.extend(refused.map(|refusal| refusal.message));
        warnings
    }

    fn heartbeats_changed(&self, cx: &Context, view: &View) -> io::Result<()> {
        sessions::write_sessions(cx, &*view.table, view.sequence)
    }

    fn is_checkout_settled(&self, cx: &Context, wait: Duration) -> bool {
        landing::service::is_settled(cx, wait)
    }
}

/// After an append: updates the files of the changed issues in the replica, and in this tree if `project`.
fn publish(cx: &Context, lines: &[Stamped], table: &dyn Table, project: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    match lock_files::mirror_lock_files(cx, lines, table) {
        Ok(said) => warnings.extend(said),
        Err(e) => warnings.push(format!("the lock files of activities could not be written: {e}")),
    }
    if let Err(e) = changelog::note_work(cx, lines) {
        warnings.push(format!(
            "the changelog could not be written: {e}; the next entry will mend it"
        ));
    }
    if let Err(e) = file_locks::service::note_locks(cx, lines, table)
        .and_then(|()| sessions::note_sessions(cx, lines, table))
    {
        warnings.push(format!(
            "the registries of sessions and locks could not be written: {e}"
        ));
    }
    let mut ids: Vec<&IssueId> = Vec::new();
    for event in lines.iter().map(|line| &line.event) {
        let (Event::Issue {
            issue: Issue { id, .. },
            ..
        }
        | Event::Commented { issue_id: id, .. }) = event
        else {
            continue;
        };
        if ids.last() != Some(&id) && (ids.len() > 16 || !ids.contains(&id)) {
            ids.push(id);
        }
    }
    for id in ids {
        if let Err(e) = publish_one(cx, table, id, project) {
            warnings.push(format!("{id} is kept, but its files could not be written: {e}"));
        }
    }
    warnings
}
