//! Requests about git worktrees and their identities. They need no store.

use std::collections::HashMap;
use std::path::PathBuf;

use jit_core::log::state;
use jit_core::model::refusal::Code;
use jit_git::run::is_dirty;
use jit_git::{WorktreeEntry, worktrees};
use jit_store::Outcome;

use crate::api::Answer;
use crate::api::Options;
use crate::api::setup::SetupReply;
use crate::api::worktrees::{GitWorktree, GitWorktrees, NewIdentity, WorktreeInfo, WorktreeState};
use crate::context::Surroundings;
use crate::refusals::refuse;
use crate::worktree_identity::identity::{self, Need};

fn invalid(e: impl ToString) -> Box<jit_core::model::refusal::Refusal> {
    refuse(Code::Invalid, e)
}

/// Returns the identity and the folders of the current worktree.
pub(super) fn info(options: &Options) -> Outcome<Answer> {
    let Surroundings { place, .. } = Surroundings::find(options)?;
    let (identity, notices) = identity::for_reader(&place, jiff::Timestamp::now()).map_err(invalid)?;
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.to_string_lossy().into_owned());
    let info = WorktreeInfo {
        branch: place.branch().map_err(invalid)?,
        common_dir: path(&place.common_dir),
        created_at: identity.as_ref().map(|identity| identity.created_at.to_string()),
        git_dir: path(&place.git_dir),
        is_bare: place.is_bare(),
        is_worktree: place.is_worktree(),
        local_jit: path(&place.local_jit),
        relocated_at: identity
            .as_ref()
            .and_then(|identity| identity.relocated_at)
            .map(|at| at.to_string()),
        root: path(&place.worktree_root),
        shared_jit: place.control_dir.to_string_lossy().into_owned(),
        worktree_id: identity.map(|identity| identity.worktree_id),
    };
    Ok(Answer {
        reply: SetupReply::Worktree(info).into(),
        warnings: notices.iter().map(ToString::to_string).collect(),
    })
}

/// Gives the current worktree its identity, unless it has one.
pub(super) fn init(options: &Options) -> Outcome<Answer> {
    let Surroundings { place, .. } = Surroundings::find(options)?;
    let (found, notices) =
        identity::load_or_create(&place, jiff::Timestamp::now(), Need::Write).map_err(invalid)?;
    identity::ensure_view(&place, &found).map_err(invalid)?;
    let identity = NewIdentity {
        branch: found.branch,
        created_at: found.created_at.to_string(),
        root: found.root.to_string_lossy().into_owned(),
        worktree_id: found.worktree_id,
    };
    Ok(Answer {
        reply: SetupReply::Identity(identity).into(),
        warnings: notices.iter().map(ToString::to_string).collect(),
    })
}

/// Lists all git worktrees. If the store can be read, the holders of leases there are listed too.
pub(super) fn list(options: &Options) -> Outcome<Answer> {
    let found = Surroundings::find(options)?;
    let Some(common) = found.place.common_dir.clone() else {
        return Err(invalid(
            "there is no git repository here, so there are no worktrees",
        ));
    };
    let holders = holders(found, options)?;
    let listed = worktrees::list(&common).map_err(invalid)?;
    let worktrees = listed.into_iter().map(|entry| view(entry, &holders));
    Ok(Answer {
        reply: SetupReply::Worktrees(GitWorktrees {
            worktrees: worktrees.collect(),
        })
        .into(),
        warnings: Vec::new(),
    })
}

/// Returns the holders of leases by the id of their worktree, or none if the store cannot be read.
fn holders(found: Surroundings, options: &Options) -> Outcome<HashMap<String, Vec<String>>> {
    let mut holders: HashMap<String, Vec<String>> = HashMap::new();
    let opened = crate::opening::within(found, options, Need::Read);
    let Ok(view) = opened.and_then(|cx| crate::write_path::view(&cx)) else {
        return Ok(holders);
    };
    let mut leases = state::leases(&*view.table).map_err(invalid)?;
    leases.retain(|lease| !lease.expired(&view.now));
    for lease in &leases {
        if let (Some(id), Some(issue)) = (&lease.worktree_id, lease.resource.issue()) {
            let holder = format!("{} ({issue})", lease.agent_id);
            holders.entry(id.to_string()).or_default().push(holder);
        }
    }
    Ok(holders)
}

fn view(entry: WorktreeEntry, holders: &HashMap<String, Vec<String>>) -> GitWorktree {
    let id = identity::peek(&entry.git_dir).map(|identity| identity.worktree_id.to_string());
    let there = entry.root.as_deref().filter(|root| root.is_dir());
    GitWorktree {
        dirty: there.and_then(|root| is_dirty(root).ok()),
        holders: id
            .as_ref()
            .and_then(|id| holders.get(id))
            .cloned()
            .unwrap_or_default(),
        state: match (&entry.prunable, entry.is_bare) {
            (Some(_), _) => WorktreeState::Missing,
            (None, true) => WorktreeState::Bare,
            (None, false) => WorktreeState::Present,
        },
        root: entry
            .root
            .as_ref()
            .map(|root| root.to_string_lossy().into_owned()),
        worktree_id: id,
        branch: entry.branch,
        head: entry.head,
        is_main: entry.is_main,
        locked: entry.locked,
        prunable: entry.prunable.map(str::to_owned),
    }
}
