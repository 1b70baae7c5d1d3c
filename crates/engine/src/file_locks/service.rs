//! Locks on files: acquiring, waiting in the queue, checking, and the registry beside the log (F2 to F6).
//!
//! Waiting: the place in the queue is an event in the log. The waiter holds a kernel lock on `waiting/<ticket>.lock`,
//! which proves that it lives. Each request for files first finds the dead waiters. A waiter sleeps until the log
//! changes or the conflicting lock expires. It then reads without the store's lock, and requests the files only when
//! it is first.

use crate::api::file_locks::FileLockReply;
use crate::api::file_locks::LockChecks;
use crate::api::file_locks::Locks;
use crate::api::file_locks::ReleasedLocks;
use crate::api::path::ApiPath;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jit_core::decide::command::{Command, CommandReply as Decided};
use jit_core::decide::file_locks;
use jit_core::log::event::{Event, Stamped};
use jit_core::log::state;
use jit_core::log::table::Table;
use jit_core::model::actor::Actor;
use jit_core::model::file_lock::{FileTarget, Labels, Queueing, Want, Which};
use jit_core::model::ids::TicketId;
use jit_core::model::lease::Lease;
use jit_core::model::refusal::{Code, Details, Refusal};
use jit_core::model::scope::LockScope;
use jit_core::model::session::Session;
use jit_core::query::session_and_lock_views::{self, LockView};
use jit_os::watch::Watch;
use jit_os::{file, random};
use jit_store::{Done, Outcome, View};

use crate::api::file_locks::LockCheck;
use crate::api::file_locks::{LockPaths, OwnLocks};
use crate::api::{Answer, Reply};
use crate::context::Context;
use crate::file_locks::lock_paths::{Named, Paths};
use crate::refusals::refuse;
use crate::write_path::WriteOptions;

const WAITING: &str = "waiting";
/// The registry for other programs.
pub const LOCKS: &str = "agent_lock.json";

/// A place in the queue. It ends when this value is dropped.
struct Place {
    ticket: TicketId,
    path: PathBuf,
    _held: File,
}

impl Drop for Place {
    fn drop(&mut self) {
        // Other processes open the file only to test the lock; a missing file counts as free.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Returns the session of the caller, if one is known.
pub(crate) fn own_session(cx: &Context, view: &View) -> Outcome<Option<Session>> {
    let mut all = state::sessions(&*view.table).map_err(|e| refuse(Code::Io, e))?;
    all.retain(|session| session.is_active() && session.actor() == cx.actor);
    all.sort_by_key(|session| session.started_at);
    Ok(all.pop())
}

pub(crate) fn wants(cx: &Context, asked: &LockPaths, session: Option<&Session>) -> Outcome<Vec<Want>> {
    let labels = labels(cx, session)?;
    let named = named(cx, &asked.paths, asked.literal)?;
    Ok(named
        .into_iter()
        .map(
            |Named {
                 pattern,
                 outside,
                 scope,
             }| Want {
                pattern,
                outside,
                scope: LockScope::widest(scope, session.map(|session| session.lock_scope), asked.scope),
                shared: asked.shared,
                labels: labels.clone(),
                ttl_secs: asked.ttl_secs,
            },
        )
        .collect())
}

pub(crate) fn named(cx: &Context, paths: &[ApiPath], literal: bool) -> Outcome<Vec<Named>> {
    let known = Paths::new(&cx.place, &cx.config);
    paths
        .iter()
        .map(|path| {
            known
                .name(path.as_path(), literal)
                .map_err(|e| refuse(Code::Invalid, e))
        })
        .collect()
}

/// Returns the fields of the registry for this worktree and session.
fn labels(cx: &Context, session: Option<&Session>) -> Outcome<Labels> {
    Ok(Labels {
        worktree_path: worktree_path(cx),
        agent_type: session.map(|session| session.agent_type.clone()),
        task_id: session.and_then(|session| session.task_id.clone()),
        pr_group: session.and_then(|session| session.pr_group.clone()),
    })
}

/// Returns the path of this worktree relative to the main checkout: `../worktrees/pr-001-auth`.
pub(crate) fn worktree_path(cx: &Context) -> Option<String> {
    let root = cx.place.worktree_root.as_deref()?;
    let common = cx.place.common_dir.as_deref()?;
    let main = common.parent().filter(|_| common.ends_with(".git"));
    Some(match main {
        Some(main) => crate::file_locks::lock_paths::relative(root, main)
            .to_string_lossy()
            .into_owned(),
        None => root.to_string_lossy().into_owned(),
    })
}

pub(crate) fn lock_files(cx: &Context, asked: &LockPaths, wait: Option<Duration>) -> Outcome<Answer> {
    let view = crate::write_path::view(cx)?;
    let wants = wants(cx, asked, own_session(cx, &view)?.as_ref())?;
    let gone = self::gone(cx, &view)?;
    let command = |queueing: Queueing| Command::LockFiles {
        wants: wants.clone(),
        queueing,
    };
    let at_once = Queueing {
        gone,
        ..Queueing::default()
    };
    let Some(wait) = wait else {
        return locked(cx, crate::write_path::transact(cx, &command(at_once))?);
    };
    let until = Instant::now() + wait;
    let place = take_place(cx)?;
    let watch = Watch::on(&cx.place.control_dir.join("events")).map_err(|e| refuse(Code::Io, e))?;
    let first = Queueing {
        enqueue: Some((
            place.ticket.clone(),
            u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        )),
        ..at_once
    };
    let done = crate::write_path::transact(cx, &command(first))?;
    if !matches!(done.reply, Decided::Queued(_)) {
        return locked(cx, done);
    }
    loop {
        let view = crate::write_path::view(cx)?;
        let gone = self::gone(cx, &view)?;
        let (free, soonest) = my_turn(&view, &place.ticket, &gone)?;
        if free {
            let queueing = Queueing {
                ticket: Some(place.ticket.clone()),
                gone,
                ..Queueing::default()
            };
            match crate::write_path::transact_as(cx, None, &command(queueing), WriteOptions::default()) {
                // Another agent acquired the lock since the check, and had the right to.
                Err(refusal) if refusal.code == Code::Held => {}
                other => return locked(cx, other?),
            }
            continue;
        }
        let Some(left) = until.checked_duration_since(Instant::now()) else {
            let left = Command::LeaveQueue {
                ticket: place.ticket.clone(),
            };
            crate::write_path::transact_as(cx, None, &left, WriteOptions::default())?;
            return Err(in_the_way(cx, &view, &wants));
        };
        let nap = soonest.map_or(left, |soonest| left.min(soonest));
        // A waiter in front may die without an event in the log: check at least every two seconds.
        watch
            .wait(nap.min(Duration::from_secs(2)))
            .map_err(|e| refuse(Code::Io, e))?;
    }
}

/// Returns whether no lock conflicts with a ticket, and otherwise when the first conflicting lock expires.
fn my_turn(view: &View, ticket: &TicketId, gone: &[TicketId]) -> Outcome<(bool, Option<Duration>)> {
    let unreadable = |e: jit_core::log::table::Unreadable| refuse(Code::Io, e);
    let table = &*view.table;
    let own = state::tickets(table)
        .map_err(unreadable)?
        .into_iter()
        .find(|own| own.ticket_id == *ticket);
    // The ticket was removed by a reboot or a recovery. A new request gives the right answer.
    let Some(own) = own else {
        return Ok((true, None));
    };
    let mut in_the_way: Vec<Lease> = Vec::new();
    for target in &own.wants {
        in_the_way.extend(file_locks::rivals(table, target, &view.now).map_err(unreadable)?);
    }
    let ahead = file_locks::ahead(table, &own.wants, Some(ticket), gone, &view.now).map_err(unreadable)?;
    let soonest = in_the_way
        .iter()
        .map(|lease| Duration::from_millis(lease.remaining_ms(&view.now) + 1))
        .min();
    Ok((in_the_way.is_empty() && ahead.is_empty(), soonest))
}

fn in_the_way(cx: &Context, view: &View, wants: &[Want]) -> Box<Refusal> {
    let mut locks: Vec<Lease> = Vec::new();
    for want in wants {
        let target = target(cx, want);
        locks.extend(file_locks::rivals(&*view.table, &target, &view.now).unwrap_or_default());
    }
    let who = locks.first().map_or_else(
        || "others who came first".to_owned(),
        |lease| lease.agent_id.to_string(),
    );
    Box::new(
        Refusal::new(
            Code::Held,
            format!("the wait is over, and it is still with {who}"),
        )
        .help("jit lock list")
        .details(Details::Locks(locks)),
    )
}

pub(crate) fn target(cx: &Context, want: &Want) -> FileTarget {
    FileTarget {
        pattern: want.pattern.clone(),
        outside: want.outside,
        scope: want.scope,
        shared: want.shared,
        holder: cx.actor.clone(),
        latest: 0,
        labels: want.labels.clone(),
    }
}

fn take_place(cx: &Context) -> Outcome<Place> {
    let folder = cx.place.control_dir.join(WAITING);
    let make = || -> io::Result<Place> {
        file::make_dir_like_parent(&folder)?;
        let ticket = TicketId::generate(cx.clock.wall().ms(), random::u128()?);
        let path = folder.join(format!("{ticket}.lock"));
        let held = file::create_like_parent(&path)?;
        held.try_lock().map_err(io::Error::other)?;
        Ok(Place {
            ticket,
            path,
            _held: held,
        })
    };
    make().map_err(|e| jit_os::io_refusal("take a place in", &folder, &e))
}

/// Returns the tickets whose owners are dead.
fn gone(cx: &Context, view: &View) -> Outcome<Vec<TicketId>> {
    let tickets = state::tickets(&*view.table).map_err(|e| refuse(Code::Io, e))?;
    let folder = cx.place.control_dir.join(WAITING);
    let mut gone = Vec::new();
    for ticket in tickets {
        let path = folder.join(format!("{}.lock", ticket.ticket_id));
        let dead = match file::open_real(&path, File::options().read(true)) {
            Ok(file) => file.try_lock_shared().is_ok(),
            Err(e) => e.kind() == io::ErrorKind::NotFound,
        };
        if dead {
            gone.push(ticket.ticket_id);
        }
    }
    Ok(gone)
}

fn locked(cx: &Context, done: Done) -> Outcome<Answer> {
    let locks = match &done.reply {
        Decided::Locks(leases) => leases.iter().filter_map(LockView::of).collect(),
        _ => Vec::new(),
    };
    let mut answer = crate::write_path::answer(cx, done);
    answer.reply = Reply::FileLocks(FileLockReply::Locks(Locks { locks }));
    Ok(answer)
}

fn which(cx: &Context, own: &OwnLocks) -> Outcome<Which> {
    Ok(match own {
        OwnLocks::All => Which::All,
        OwnLocks::Leases(leases) => Which::Leases(leases.clone()),
        OwnLocks::Paths(paths) => Which::These(
            named(cx, paths, false)?
                .into_iter()
                .map(|named| (named.pattern, named.outside))
                .collect(),
        ),
    })
}

pub(crate) fn extend_locks(cx: &Context, own: &OwnLocks, ttl_secs: Option<u64>) -> Outcome<Answer> {
    let which = which(cx, own)?;
    locked(
        cx,
        crate::write_path::transact(cx, &Command::ExtendLocks { which, ttl_secs })?,
    )
}

pub(crate) fn release_locks(cx: &Context, own: &OwnLocks) -> Outcome<Answer> {
    let which = which(cx, own)?;
    let_go(cx, &Command::ReleaseLocks { which })
}

/// Releases all file locks of a holder that has ended. Writes nothing if it holds none.
pub fn let_go_of_files(cx: &Context, holder: &Actor) -> Outcome<()> {
    let view = crate::write_path::view(cx)?;
    let held = file_locks::held_by(&*view.table, holder).map_err(|e| refuse(Code::Io, e))?;
    if held.is_empty() {
        return Ok(());
    }
    let command = Command::ReleaseLocks { which: Which::All };
    let options = WriteOptions {
        actor: Some(holder),
        ..WriteOptions::default()
    };
    crate::write_path::transact_as(cx, None, &command, options).map(drop)
}

pub(crate) fn clean_locks(cx: &Context) -> Outcome<Answer> {
    let gone = gone(cx, &crate::write_path::view(cx)?)?;
    let_go(cx, &Command::CleanLocks { gone })
}

pub(crate) fn let_go(cx: &Context, command: &Command) -> Outcome<Answer> {
    let done = crate::write_path::transact(cx, command)?;
    let released = match &done.reply {
        Decided::Released(leases) => leases.iter().filter_map(LockView::of).collect(),
        _ => Vec::new(),
    };
    let mut answer = crate::write_path::answer(cx, done);
    answer.reply = Reply::FileLocks(FileLockReply::Released(ReleasedLocks { released }));
    Ok(answer)
}

pub(crate) fn list_locks(cx: &Context) -> Outcome<Answer> {
    let view = crate::write_path::view(cx)?;
    let mut locks = live_locks(&view)?;
    locks.sort_by(|a, b| (&a.file_path, a.token).cmp(&(&b.file_path, b.token)));
    crate::write_path::read_answer(cx, &view, Reply::FileLocks(FileLockReply::Locks(Locks { locks })))
}

fn live_locks(view: &View) -> Outcome<Vec<LockView>> {
    let all = file_locks::all(&*view.table).map_err(|e| refuse(Code::Io, e))?;
    Ok(all
        .iter()
        .filter(|lease| !lease.expired(&view.now))
        .filter_map(LockView::of)
        .collect())
}

/// Reports whether the caller could lock the paths now, and the conflicting locks.
pub(crate) fn check_locks(cx: &Context, asked: &LockPaths) -> Outcome<Answer> {
    let view = crate::write_path::view(cx)?;
    let unreadable = |e: jit_core::log::table::Unreadable| refuse(Code::Io, e);
    let wants = wants(cx, asked, own_session(cx, &view)?.as_ref())?;
    let gone = gone(cx, &view)?;
    let mut checks = Vec::new();
    for want in &wants {
        let target = target(cx, want);
        let rivals = file_locks::rivals(&*view.table, &target, &view.now).map_err(unreadable)?;
        let waiting = file_locks::ahead(
            &*view.table,
            std::slice::from_ref(&target),
            None,
            &gone,
            &view.now,
        )
        .map_err(unreadable)?;
        let own = file_locks::held_by(&*view.table, &cx.actor).map_err(unreadable)?;
        checks.push(LockCheck {
            file_path: target.path(),
            lock_scope: target.scope,
            available: rivals.is_empty() && waiting.is_empty(),
            mine: own.iter().any(|lease| {
                !lease.expired(&view.now)
                    && lease
                        .resource
                        .file()
                        .is_some_and(|file| file.pattern == target.pattern)
            }),
            waiting: waiting.len(),
            locks: rivals.iter().filter_map(LockView::of).collect(),
        });
    }
    crate::write_path::read_answer(
        cx,
        &view,
        Reply::FileLocks(FileLockReply::Checks(LockChecks { paths: checks })),
    )
}

/// Updates the registry after `lines` were appended, under the store's lock.
pub(crate) fn note_locks(cx: &Context, lines: &[Stamped], table: &dyn Table) -> io::Result<()> {
    let touched = lines.iter().any(|line| {
        matches!(line.event, Event::Boot { .. } | Event::LogRecovered { .. })
            || line
                .event
                .lease()
                .is_some_and(|lease| lease.resource.file().is_some())
    });
    let Some(last) = lines.last().filter(|_| touched) else {
        return Ok(());
    };
    let all = file_locks::all(table).map_err(io::Error::other)?;
    let now = cx
        .store
        .now()
        .map_err(|refusal| io::Error::other(refusal.message))?;
    let content = session_and_lock_views::locks_file(&all, &now, last.sequence);
    file::replace_unsynced(&cx.place.control_dir.join(LOCKS), &content)
}
