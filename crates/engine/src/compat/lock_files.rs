//! Keeps the lock files of activities and the log consistent.
//!
//! What must hold:
//!
//! - A lock file of another program is in the log before the next decision about claims.
//! - An expired file is reported, and recorded in the log as it was. The next holder of the activity replaces it.
//! - A malformed file is reported. The next holder of the activity removes it.
//! - A file that may still be written, or whose times are in doubt, counts as held and is reported.
//! - If one program deleted its file and another one created its own, the other one is the holder. If the other file is
//!   malformed, the activity is free.
//! - A file is removed only if it still is what was judged: another program may replace it at any moment.
//! - A file of jit that was deleted or overwritten while its lease is active is created again, and that is reported.
//! - A reader compares the files itself, and sees the state that the next writer will record.
//! - Only leases that came from a lock file end when it is deleted.

use std::io;
use std::time::Duration;

use jit_core::decide::activities::lasts_until;
use jit_core::decide::command::{Command, Context as Deciding, LockFile};
use jit_core::decide::{Draft, decide};
use jit_core::log::event::{ChangelogAction, Event, IssueAction, Stamped};
use jit_core::log::state;
use jit_core::log::table::{Overlay, Read, Table, TableChanges};
use jit_core::model::actor::Actor;
use jit_core::model::ids::{AgentId, IssueId, LeaseId};
use jit_core::model::issue::{ACTIVITY, Issue};
use jit_core::model::lease::{Lease, Resource, is_from_file};
use jit_core::model::refusal::{Code, Details, Refusal};
use jit_core::model::time::Wall;
use jit_os::io_refusal;
use jit_store::{Outcome, ReadTable, View};

use crate::compat::lock_file_format as activities;
use crate::compat::lock_file_format::{Found, LockedBy, Mark};
use crate::context::Context;
use crate::refusals::{refuse, stopped};
use crate::write_path::WriteOptions;

/// Differences between the lock files and the log.
#[derive(Debug, Default)]
struct News {
    /// Files of others that are not in the log in their present form.
    there: Vec<LockFile>,
    /// Leases that came from files that were deleted.
    gone: Vec<Lease>,
    warnings: Vec<String>,
}

/// The state that the log will have once it includes the lock files of others.
#[derive(Debug)]
struct Foreseen {
    base: Box<dyn ReadTable>,
    top: TableChanges,
}

impl Table for Foreseen {
    fn get(&self, key: &str) -> Read<Option<Vec<u8>>> {
        match self.top.get(key) {
            Some(change) => Ok(change.clone()),
            None => self.base.get(key),
        }
    }

    fn scan(&self, prefix: &str, limit: usize) -> Read<Vec<(String, Vec<u8>)>> {
        let mut overlay = Overlay::new(&*self.base);
        let under = self.top.range(prefix.to_owned()..);
        let under = under.take_while(|(key, _)| key.starts_with(prefix));
        overlay.changes = under.map(|(key, value)| (key.clone(), value.clone())).collect();
        overlay.scan(prefix, limit)
    }

    fn visit(&self, prefix: &str, each: &mut dyn FnMut(&str, &[u8]) -> Read<()>) -> Read<()> {
        let mut under = self.top.range(prefix.to_owned()..);
        if under.next().is_none_or(|(key, _)| !key.starts_with(prefix)) {
            return self.base.visit(prefix, each);
        }
        for (key, value) in self.scan(prefix, usize::MAX)? {
            each(&key, &value)?;
        }
        Ok(())
    }
}

/// Records the lock files of others in the log. Returns warnings about them.
pub(crate) fn honour_lock_files(cx: &Context) -> Outcome<Vec<String>> {
    let control = &cx.place.control_dir;
    let trouble = |e: io::Error| io_refusal("read", &activities::folder(control), &e);
    if activities::is_quiet(control).map_err(trouble)? {
        return Ok(Vec::new());
    }
    let mut warnings = Vec::new();
    if activities::mark(control).is_none() {
        warnings.extend(make_lock_files_again(cx)?);
    }
    let view = crate::write_path::view_of_log(cx)?;
    let mut news = lock_file_news(cx, &view)?;
    warnings.append(&mut news.warnings);
    // The holder of each file is recorded as the actor.
    let honour = |holder: &AgentId, command: &Command| {
        let actor = Actor {
            agent_id: holder.clone(),
            worktree_id: None,
        };
        let options = WriteOptions {
            aside: Some(Duration::MAX),
            actor: Some(&actor),
            ..WriteOptions::default()
        };
        crate::write_path::transact_as(cx, None, command, options)
    };
    for lease in news.gone {
        let gone = lease.resource.issue().cloned().into_iter().collect();
        let there = Vec::new();
        honour(&lease.agent_id, &Command::HonourLocks { there, gone })?;
    }
    for file in news.there {
        let holder = file.holder.clone();
        let (there, gone) = (vec![file], Vec::new());
        honour(&holder, &Command::HonourLocks { there, gone })?;
    }
    // Without the mark the next command checks again.
    let _ = activities::note_quiet(control);
    Ok(warnings)
}

/// Returns the view including lock files of others that are not in the log yet. Writes nothing.
pub(crate) fn foresee_lock_files(cx: &Context, view: View) -> Outcome<View> {
    let control = &cx.place.control_dir;
    let trouble = |e: io::Error| io_refusal("read", &activities::folder(control), &e);
    if activities::is_quiet(control).map_err(trouble)? {
        return Ok(view);
    }
    let news = lock_file_news(cx, &view)?;
    if news.there.is_empty() && news.gone.is_empty() {
        return Ok(view);
    }
    let gone = news.gone.iter().filter_map(|lease| lease.resource.issue());
    let command = Command::HonourLocks {
        gone: gone.cloned().collect(),
        there: news.there,
    };
    let deciding = Deciding {
        now: view.now.clone(),
        actor: cx.actor.clone(),
        branch: None,
        // Unused: leases from lock files have ids derived from the files.
        fresh_lease: LeaseId::generate(view.now.wall.ms(), 0),
        policy: cx.policy.clone(),
    };
    let mut draft = Draft::new(&*view.table, view.sequence, view.now.wall, cx.actor.clone());
    decide(&mut draft, &command, &deciding).map_err(stopped)?;
    let (_, top) = draft.finish(None).map_err(|e| refuse(Code::Io, e))?;
    Ok(View {
        table: Box::new(Foreseen {
            base: view.table,
            top,
        }),
        ..view
    })
}

fn lock_file_news(cx: &Context, view: &View) -> Outcome<News> {
    let control = &cx.place.control_dir;
    let trouble = |e: io::Error| io_refusal("read", &activities::folder(control), &e);
    let unreadable = |e| refuse(Code::Io, e);
    let ids = activities::list(control).map_err(trouble)?;
    let table = &*view.table;
    let mut news = News::default();
    for id in &ids {
        let lease = lease_on(table, id)
            .map_err(unreadable)?
            .filter(|lease| !lease.expired(&view.now));
        if lease.as_ref().is_some_and(|lease| !is_from_file(lease)) {
            continue;
        }
        match activities::read(control, id, view.now.wall).map_err(trouble)? {
            Some(Found::Theirs(LockedBy { file, .. }))
                if file.expires.ms() <= view.now.wall.ms() && lease.is_none() =>
            {
                news.warnings.push(format!(
                    "the lock file of {id} by {} has expired: {id} is free",
                    file.holder
                ));
                news.there.push(file);
            }
            Some(Found::Theirs(found)) => {
                news.warnings.extend(doubt(cx, id, &found, view.now.wall));
                // The holder writes into its own file.
                if found.is_unnamed() && lease.is_some() {
                    continue;
                }
                let file = found.file;
                if state::issue(table, id).map_err(unreadable)?.is_none() {
                    news.warnings
                        .push(format!("there is a lock file for {id}, which is no issue here"));
                }
                if lease.is_none_or(|lease| {
                    !lasts_until(&lease, file.expires, &cx.policy)
                        || lease.agent_id != file.holder
                        || file.task.is_some()
                }) {
                    news.there.push(file);
                }
            }
            Some(Found::Malformed(why)) => {
                news.warnings.push(format!(
                    "the lock file of {id} is not by the protocol ({why}): it counts for nothing"
                ));
                // The holder's file is not there any more.
                news.gone.extend(lease);
            }
            Some(Found::Ours(_)) | None => {}
        }
    }
    for lease in state::leases_from_files(table).map_err(unreadable)? {
        if let Some(id) = lease.resource.issue()
            && lease.parent.is_none()
            && !ids.contains(id)
        {
            news.gone.push(lease);
        }
    }
    Ok(news)
}

/// A warning about a lock file that counts as held although it may mean something else.
fn doubt(cx: &Context, id: &IssueId, found: &LockedBy, now: Wall) -> Option<String> {
    let why = match &found.doubt {
        Some(why) => why.clone(),
        None if found.file.expires > now.plus_secs(cx.policy.ttl.max_secs) => {
            let LockFile { holder, expires, .. } = &found.file;
            format!(
                "by {holder} expires at {expires}, later than a lease may last: {id} is held while it exists"
            )
        }
        None => return None,
    };
    let file = activities::path(&cx.place.control_dir, id);
    Some(format!(
        "the lock file of {id} {why}; if nobody works on {id}, delete {}",
        file.display()
    ))
}

/// Adds to a refusal because of a lease why its lock file is in doubt, if that was noticed.
pub(crate) fn with_doubt(mut refusal: Box<Refusal>, noticed: &[String]) -> Box<Refusal> {
    let Details::Lease(lease) = &refusal.details else {
        return refusal;
    };
    let id = lease.resource.issue().map_or("", IssueId::as_str);
    let about = format!("the lock file of {id} ");
    if let Some(doubt) = noticed
        .iter()
        .find(|text| is_from_file(lease) && text.starts_with(&about))
    {
        refusal.message = format!("{}: {doubt}", refusal.message);
    }
    refusal
}

/// Compares the lock files with every lease on an activity, and creates those again that were deleted or overwritten.
/// Returns messages about them. The cost grows with the number of leases: for a changed folder, and for `jit
/// validate`.
pub(crate) fn make_lock_files_again(cx: &Context) -> Outcome<Vec<String>> {
    let control = &cx.place.control_dir;
    let trouble = |e: io::Error| io_refusal("write", &activities::folder(control), &e);
    let unreadable = |e| refuse(Code::Io, e);
    let _still = cx.store.hold_still(&cx.actor)?;
    // The mark is set before the check, so that later changes are noticed. If it cannot be set, the next command
    // checks again.
    let _ = activities::set_mark(control, Mark::Own);
    let view = crate::write_path::view_of_log(cx)?;
    let table = &*view.table;
    let mut said = Vec::new();
    for lease in state::claims(table).map_err(unreadable)? {
        let Some(id) = lease.resource.issue() else {
            continue;
        };
        let issue = state::issue(table, id).map_err(unreadable)?;
        if lease.expired(&view.now)
            || is_from_file(&lease)
            || issue.is_none_or(|issue| issue.kind != ACTIVITY)
        {
            continue;
        }
        said.extend(mirror_lease(cx, &lease, &[], table).map_err(trouble)?);
    }
    Ok(said)
}

/// Before an append: creates the lock files of activities that are about to be acquired, by the protocol that others
/// follow. Refused with [`Details::LockFileAppeared`] if another program was faster.
pub(crate) fn take_lock_files(cx: &Context, events: &[Event]) -> Outcome<()> {
    let control = &cx.place.control_dir;
    let trouble = |e: io::Error| io_refusal("write", &control.join("issues"), &e);
    for pair in events.windows(2) {
        let [
            Event::Acquired { lease, .. },
            Event::Worked {
                action: ChangelogAction::ClaimedActivity | ChangelogAction::RecoveredActivity,
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
        while !activities::take(control, id, lease).map_err(trouble)? {
            let now = cx.clock.wall();
            match activities::read(control, id, now).map_err(trouble)? {
                Some(Found::Theirs(found)) if found.file.expires > now => {
                    let mut refusal = trouble(io::Error::other("a lock file appeared"));
                    refusal.details = Details::LockFileAppeared;
                    return Err(refusal);
                }
                // A leftover: an older lease of jit, an expired file, or a malformed one.
                _ => activities::remove_if(control, id, now, |found| is_leftover(found, now))
                    .map_err(trouble)?,
            }
        }
    }
    Ok(())
}

/// Whether a lock file keeps nobody from acquiring the activity.
fn is_leftover(found: &Found, now: Wall) -> bool {
    !matches!(found, Found::Theirs(found) if found.file.expires > now)
}

/// After an append: updates the lock files of the activities that it changed. Returns messages about unexpected
/// files.
pub(crate) fn mirror_lock_files(
    cx: &Context,
    lines: &[Stamped],
    table: &dyn Table,
) -> io::Result<Vec<String>> {
    let mut said = Vec::new();
    for line in lines {
        let event = &line.event;
        let id = match event {
            Event::Issue {
                did: IssueAction::Created,
                ..
            } => None,
            Event::Issue { issue, .. } => Some(&issue.id),
            _ => event.lease().and_then(|lease| lease.resource.issue()),
        };
        let Some(id) = id else { continue };
        let Some(issue) = state::issue_or_tombstone(table, id).map_err(io::Error::other)? else {
            continue;
        };
        if let Event::Released { lease, .. } | Event::ForceEvicted { lease, .. } = event {
            take_out_of_file(cx, lease, &issue)?;
        }
        said.extend(mirror(cx, id, lines, table)?);
        if event.lease().is_some()
            && let Some(parent) = &issue.parent
        {
            said.extend(mirror(cx, parent, lines, table)?);
        }
    }
    Ok(said)
}

/// After the end of a lease that came from a lock file: removes its entry there, because it would be imported again.
fn take_out_of_file(cx: &Context, lease: &Lease, issue: &Issue) -> io::Result<()> {
    let control = &cx.place.control_dir;
    if !is_from_file(lease) {
        return Ok(());
    }
    let now = cx.clock.wall();
    let is_holders =
        |found: &Found| matches!(found, Found::Theirs(found) if found.file.holder == lease.agent_id);
    let read = |id: &IssueId| activities::read(control, id, now);
    if read(&issue.id)?.is_some_and(|found| is_holders(&found)) {
        activities::remove_if(control, &issue.id, now, is_holders)?;
    } else if let Some(parent) = &issue.parent
        && read(parent)?.is_some_and(|found| is_holders(&found))
    {
        activities::drop_task(control, parent, &issue.id)?;
    }
    Ok(())
}

/// Updates the lock file of an issue from its lease. An activity has a lock file while it is held.
fn mirror(cx: &Context, id: &IssueId, lines: &[Stamped], table: &dyn Table) -> io::Result<Option<String>> {
    let control = &cx.place.control_dir;
    let lease = lease_on(table, id).map_err(io::Error::other)?;
    // The holder itself owns this file.
    if lease.as_ref().is_some_and(is_from_file) {
        return Ok(None);
    }
    let issue = state::issue(table, id).map_err(io::Error::other)?;
    let is_activity = issue.is_some_and(|issue| issue.kind == ACTIVITY);
    if let Some(lease) = lease.filter(|_| is_activity) {
        return mirror_lease(cx, &lease, lines, table);
    }
    let now = cx.clock.wall();
    let is_over = |found: &Found| match found {
        Found::Ours(_) => true,
        Found::Theirs(_) | Found::Malformed(_) => is_activity && is_leftover(found, now),
    };
    if activities::read(control, id, now)?.is_some_and(|found| is_over(&found)) {
        activities::remove_if(control, id, now, is_over)?;
    }
    Ok(None)
}

/// Updates the lock file of an activity from its lease. Returns a message about unexpected content, unless these
/// lines explain it.
fn mirror_lease(
    cx: &Context,
    lease: &Lease,
    lines: &[Stamped],
    table: &dyn Table,
) -> io::Result<Option<String>> {
    let control = &cx.place.control_dir;
    let Some(activity) = lease.resource.issue() else {
        return Ok(None);
    };
    let inside = state::children(table, &lease.lease_id).map_err(io::Error::other)?;
    let task = inside.iter().max_by_key(|task| task.token);
    let holder = &lease.agent_id;
    let is_from = |agent: &AgentId| {
        lines.iter().any(|line| match &line.event {
            Event::Transferred {
                lease: to,
                from_agent_id,
                ..
            } => to.resource == lease.resource && from_agent_id == agent,
            _ => false,
        })
    };
    let is_changed = || {
        lines
            .iter()
            .any(|line| matches!(&line.event, Event::Issue { issue, .. } if issue.id == *activity))
    };
    let said = match activities::read(control, activity, cx.clock.wall())? {
        Some(Found::Ours(_)) => None,
        // The holder's own file, from before it renewed the lease with jit.
        Some(Found::Theirs(found)) if found.file.holder == *holder => None,
        // The file of the agent that has just transferred the lease.
        Some(Found::Theirs(found)) if is_from(&found.file.holder) => None,
        None if activities::make(control, activity, lease, task)? => {
            // The issue may have become an activity while it was held.
            if is_changed() {
                return Ok(None);
            }
            let said = format!("the lock file of {activity} was gone while {holder} holds it: made again");
            return Ok(Some(said));
        }
        // Another program created it at this moment.
        None => Some(format!(
            "a lock file of {activity} came up while {holder} holds it: replaced"
        )),
        Some(Found::Theirs(LockedBy { file, .. })) => Some(format!(
            "{} wrote a lock file for {activity} while {holder} holds it: replaced, {} does not have it",
            file.holder, file.holder
        )),
        Some(Found::Malformed(why)) => Some(format!(
            "the lock file of {activity} is not by the protocol ({why}): replaced"
        )),
    };
    activities::write(control, activity, lease, task)?;
    Ok(said)
}

fn lease_on(table: &dyn Table, id: &IssueId) -> jit_core::log::table::Read<Option<Lease>> {
    state::lease_on(table, &Resource::Issue(id.clone()).key())
}
