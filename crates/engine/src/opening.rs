//! Opens a [`Context`]: finds the place, opens the store, and loads the identity of the worktree.
//!
//! What must hold: a `.jit` that is a symbolic link is refused. Without `.jit/` and without a control plane, opening is
//! refused. Without git, only a `.jit` that was set up counts ([`is_place`]). In a fresh clone with `.jit/`, the control
//! plane is created at first use.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jit_core::model::actor::Actor;
use jit_core::model::refusal::Code;
use jit_core::model::time::Clock;
use jit_git::SystemGit;
use jit_git::discover::is_place;
use jit_os::clock::SystemClock;
use jit_os::{file, io_refusal};
use jit_store::{OpenOptions, Outcome};

use crate::api::Options;
use crate::context::{Context, Surroundings, ensure_control_dir, not_initialized};
use crate::heartbeats::FileHeartbeats;
use crate::refusals::refuse;
use crate::replica::Replica;
use crate::target_locks::FileTargetLocks;
use crate::worktree_identity::identity::{self, Need};

/// Opens the context for a command that uses the store. `need` says whether it writes.
pub fn open(options: &Options, need: Need) -> Outcome<Context> {
    within(Surroundings::find(options)?, options, need)
}

pub fn within(surroundings: Surroundings, options: &Options, need: Need) -> Outcome<Context> {
    crate::git_programs::decide_by_approvals();
    let Surroundings {
        place,
        config,
        whoami,
    } = surroundings;
    if let Some(local) = &place.local_jit {
        // A clone may have brought it.
        file::refuse_link(local).map_err(|e| io_refusal("use", local, &e))?;
    }
    if !place.has_git()
        && place.local_jit.as_ref() == Some(&place.control_dir)
        && !is_place(&place.control_dir)
    {
        return Err(not_initialized(&place));
    }
    let mut warnings = whoami.warnings.clone();
    let wait = options
        .lock_timeout
        .unwrap_or(Duration::from_secs(config.lock_timeout_secs()));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let open_store = || {
        let options = OpenOptions {
            lock_wait: wait,
            single_threaded: options.single_threaded,
        };
        jit_store::open(&place.control_dir, clock.clone(), options)
    };
    let store = match open_store() {
        Ok(store) => store,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            // A fresh clone of a repository that uses jit: the control plane is created at first use.
            if !place.local_jit.as_deref().is_some_and(Path::is_dir) {
                return Err(not_initialized(&place));
            }
            ensure_control_dir(&place)?;
            open_store().map_err(|e| io_refusal("open", &place.control_dir, &e))?
        }
        Err(e) => return Err(io_refusal("open", &place.control_dir, &e)),
    };
    let (worktree_id, branch) = if place.worktree_root.is_some() {
        let (identity, notices) = identity::load_or_create(&place, jiff::Timestamp::now(), need)
            .map_err(|e| refuse(Code::Io, e))?;
        warnings.extend(notices.iter().map(ToString::to_string));
        (
            Some(identity.worktree_id),
            place.branch().map_err(|e| refuse(Code::Io, e))?,
        )
    } else {
        (None, None)
    };
    let policy = config.policy();
    let actor = Actor {
        agent_id: whoami.agent_id.clone(),
        worktree_id,
    };
    let request = options.request.clone();
    let control = place.control_dir.clone();
    let mut cx = Context {
        options: options.clone(),
        place,
        config,
        whoami,
        actor,
        branch,
        store,
        clock,
        texts: Arc::new(Replica::at(&control)),
        heartbeats: Arc::new(FileHeartbeats::at(&control)),
        target_locks: Arc::new(FileTargetLocks::at(&control)),
        git: Arc::new(SystemGit),
        followers: &crate::wiring::Files,
        request,
        policy,
        warnings,
        reminders: Mutex::new(None),
    };
    crate::gates::committed_policy::bind_leases(&mut cx);
    Ok(cx)
}
