//! The entry point of the engine: one request in, one answer out.
//!
//! What must hold:
//! - Changes by git or an editor in the caller's tree are imported before a request is carried out, as far as it
//!   needs them.
//! - Every answer and every refusal warns the caller about its own leases that expire soon, except where a program reads
//!   it (hooks).
//! - An answer that was prepared before a change was found is discarded.
//! - A write with a request id that was answered before gets the first answer.
//! - `handle` knows a request by its facts only. Every noun has exactly one arm in `dispatch`, which calls the room that
//!   owns it.

use jit_core::model::refusal::{Code, Details};
use jit_store::Outcome;

use crate::answers;
use crate::api::Options;
use crate::api::{Answer, Reply, Request};
use crate::context::{Context, Surroundings};
use crate::worktree_identity::identity::Need;

/// Opens what a request needs, and carries it out.
pub fn ask(options: &Options, request: impl Into<Request>) -> Outcome<Answer> {
    ask_and(options, request.into(), |_| ()).map(|(answer, ())| answer)
}

/// Does the same, and also returns the result of `show`, which may run while other threads still check the tree.
pub fn ask_and<T>(options: &Options, request: Request, show: impl Fn(&Reply) -> T) -> Outcome<(Answer, T)> {
    crate::git_programs::decide_by_approvals();
    let answered = match answers::named(options, &request) {
        None => answer_and(options, request, show),
        Some(named) => named.once(options, &show, || answer_and(options, request, &show)),
    };
    if jit_git::run::killed_since().is_some()
        && let Ok((surroundings, _)) = Surroundings::despite(options)
        && let Some(common) = &surroundings.place.common_dir
    {
        // The same command must succeed the next time.
        crate::git_locks::remove_after_kill(common);
    }
    answered
}

fn answer_and<T>(options: &Options, request: Request, show: impl Fn(&Reply) -> T) -> Outcome<(Answer, T)> {
    let is_for_program = matches!(&request, Request::Hooks(request) if request.answers_a_program());
    let mut answered = match request {
        // These nouns also work without a log, or with a damaged one: they open what there is.
        Request::Setup(request) => crate::init::handle(options, request),
        Request::Config(request) => crate::settings::handle(options, request),
        Request::Hooks(request) => crate::hooks::handle(options, request),
        Request::Doctor(request) => crate::doctor::handle(options, request),
        request => {
            let (cx, request) = open(options, request)?;
            return handle_and(&cx, request, show);
        }
    };
    if !is_for_program {
        remind(options, warnings(&mut answered));
    }
    let answer = answered?;
    let shown = show(&answer.reply);
    Ok((answer, shown))
}

/// The warnings of an answer or a refusal.
fn warnings(answered: &mut Outcome<Answer>) -> &mut Vec<String> {
    match answered {
        Ok(answer) => &mut answer.warnings,
        Err(refusal) => &mut refusal.warnings,
    }
}

/// Adds the warnings about leases that expire soon to those of an answer that was made without a log, if there is one.
fn remind(options: &Options, warnings: &mut Vec<String>) {
    let found = Surroundings::find(options);
    let Some(found) = found
        .ok()
        .filter(|found| found.place.control_dir.join("events").is_dir())
    else {
        return;
    };
    if let Ok(cx) = crate::opening::within(found, options, Need::Read) {
        crate::write_path::remind(&cx, warnings);
    }
}

/// Opens what a request needs.
fn open(options: &Options, request: Request) -> Outcome<(Context, Request)> {
    let facts = request.facts();
    if facts.despite_settings {
        let (surroundings, _broken) = Surroundings::despite(options)?;
        return Ok((
            crate::opening::within(surroundings, options, facts.need())?,
            request,
        ));
    }
    match crate::opening::open(options, facts.need()) {
        Ok(cx) => Ok((cx, request)),
        Err(refusal) => {
            crate::worktrees::removed_worktree::open_instead(options, &request).unwrap_or(Err(refusal))
        }
    }
}

/// Carries out a request, after importing the changes that git or an editor made in this tree.
pub fn handle(cx: &Context, request: impl Into<Request>) -> Outcome<Answer> {
    handle_and(cx, request.into(), |_| ()).map(|(answer, ())| answer)
}

/// Does the same, and also returns the result of `show`, which may run while other threads still check the tree.
pub fn handle_and<T>(cx: &Context, request: Request, show: impl Fn(&Reply) -> T) -> Outcome<(Answer, T)> {
    // Their answers pass `ask`, which reminds too.
    let is_reminded = is_without_log(&request);
    let mut shown = None;
    let mut answered = carry_out(cx, request, &show, &mut shown);
    if !is_reminded {
        crate::write_path::remind(cx, warnings(&mut answered));
    }
    let answer = answered?;
    let shown = shown.unwrap_or_else(|| show(&answer.reply));
    Ok((answer, shown))
}

/// Carries out a request. `shown` is the result of `show` where that ran early, and its answer is still valid.
fn carry_out<T>(
    cx: &Context,
    request: Request,
    show: &impl Fn(&Reply) -> T,
    shown: &mut Option<T>,
) -> Outcome<Answer> {
    let facts = request.facts();
    let (mut noticed, early) = crate::issues::sync::sync_tree(cx, &facts, || {
        let answer = dispatch(cx, request.clone());
        *shown = answer.as_ref().ok().map(|answer| show(&answer.reply));
        answer
    });
    if early.is_none() {
        // The early answer is no longer valid.
        *shown = None;
    }
    if facts.leases {
        noticed.extend(crate::compat::lock_files::honour_lock_files(cx)?);
    }
    let mut answer = match early.unwrap_or_else(|| dispatch(cx, request.clone())) {
        // A program without jit was faster: it created a lock file.
        Err(refusal) if refusal.details == Details::LockFileAppeared => {
            noticed.extend(crate::compat::lock_files::honour_lock_files(cx)?);
            dispatch(cx, request)
        }
        // Before an issue is reported as missing, issues that only the tree has are imported.
        Err(refusal)
            if refusal.code == Code::NotFound && crate::issues::sync::join_unknown(cx).unwrap_or(0) > 0 =>
        {
            dispatch(cx, request)
        }
        other => other,
    }
    .map_err(|refusal| crate::compat::lock_files::with_doubt(refusal, &noticed))?;
    noticed.append(&mut answer.warnings);
    answer.warnings = noticed;
    Ok(answer)
}

/// Whether this noun also works without a log, or with a damaged one.
fn is_without_log(request: &Request) -> bool {
    matches!(
        request,
        Request::Setup(_) | Request::Config(_) | Request::Hooks(_) | Request::Doctor(_)
    )
}

/// Calls the room that the request belongs to.
fn dispatch(cx: &Context, request: Request) -> Outcome<Answer> {
    match request {
        Request::Claims(request) => crate::claims::handle(cx, request),
        Request::Issues(request) => crate::issues::handle(cx, request),
        Request::Gates(request) => crate::gates::handle(cx, request),
        Request::Trust(request) => crate::trust::handle(cx, request),
        Request::Overview(request) => crate::overview::handle(cx, request),
        Request::Units(request) => crate::worktrees::handle(cx, request),
        Request::Attempts(request) => crate::attempts::handle(cx, request),
        Request::Workflows(request) => crate::workflows::handle(cx, request),
        Request::Landing(request) => crate::landing::handle(cx, request),
        Request::Rescue(request) => crate::worktrees::cleanup::rescue(cx, request),
        Request::Sessions(request) => crate::sessions::handle(cx, request),
        Request::FileLocks(request) => crate::file_locks::handle(cx, request),
        Request::Notify(request) => crate::notify::handle(cx, request),
        request @ (Request::Setup(_) | Request::Config(_) | Request::Hooks(_) | Request::Doctor(_)) => {
            // They look at the place anew, because they also work where a context cannot be opened.
            let options = Options {
                dir: Some(cx.place.start.clone()),
                ..cx.options.clone()
            };
            ask(&options, request)
        }
    }
}
