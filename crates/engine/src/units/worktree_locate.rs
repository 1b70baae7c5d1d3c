//! Worktrees of units that were moved: found again by what they say of themselves (G16).
//!
//! What must hold:
//!
//! - a unit's worktree is where its folder in `.git/worktrees` says, or where the identity in that folder was last seen, if
//!   the `.git` there leads back to it; the identity has to be the unit's own, so nobody else's folder is taken for it;
//! - the new place is written to the log before anything else is done with it;
//! - where git does not know the new place, it is told: else its next cleaning up would forget the worktree.

use std::path::{Path, PathBuf};

use jit_core::model::refusal::Code;
use jit_core::model::unit::{Facts, Unit, UnitInput, step};
use jit_git::Git;
use jit_store::Outcome;

use crate::context::Context;
use crate::refusals::refuse;
use crate::units::worktree_state::leads_to;
use crate::worktree_identity::identity;

/// A path without links in it, as far as it is there.
pub(crate) fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Whether a unit's worktree is where the log has it. That nothing is known about what is there is no reason to search.
fn is_in_place(unit: &Unit) -> bool {
    leads_to(Path::new(&unit.worktree_path)).is_some_and(|git_dir| {
        identity::peek(&git_dir).is_none_or(|found| Some(&found.worktree_id) == unit.worktree_id.as_ref())
    })
}

/// The unit with the place where its worktree is now. As it was, where that is not known.
pub(crate) fn located(cx: &Context, unit: Unit) -> Unit {
    let followed = step(unit.state, UnitInput::WorktreeMoved).is_some() && unit.worktree_id.is_some();
    if !followed || is_in_place(&unit) {
        return unit;
    }
    match relocate(cx, &unit) {
        Ok(Some(found)) => found,
        Ok(None) | Err(_) => unit,
    }
}

pub(crate) fn located_all(cx: &Context, units: Vec<Unit>) -> Vec<Unit> {
    units.into_iter().map(|unit| located(cx, unit)).collect()
}

/// T0: somebody moved the worktree.
fn relocate(cx: &Context, unit: &Unit) -> Outcome<Option<Unit>> {
    for entry in
        crate::worktree_identity::list(crate::units::service::common(cx)?).map_err(|e| refuse(Code::Io, e))?
    {
        let known = identity::peek(&entry.git_dir).filter(|_| !entry.is_main);
        let Some(known) = known.filter(|known| Some(&known.worktree_id) == unit.worktree_id.as_ref()) else {
            continue;
        };
        let leads_back =
            |root: &&PathBuf| leads_to(root).is_some_and(|goal| real(&goal) == real(&entry.git_dir));
        let Some(root) = [entry.root.as_ref(), Some(&known.root)]
            .into_iter()
            .flatten()
            .find(leads_back)
        else {
            continue;
        };
        if entry.root.as_ref() != Some(root) {
            Git::at(root)
                .args(["worktree", "repair"])
                .run()
                .map_err(|e| refuse(Code::Io, e))?;
        }
        let facts = Facts {
            worktree_path: Some(root.to_string_lossy().into_owned()),
            ..Facts::default()
        };
        return crate::units::service::advance(cx, &unit.id, UnitInput::WorktreeMoved, facts).map(Some);
    }
    Ok(None)
}
