//! Locates worktrees of units that were moved, by the identity they carry (G16).
//!
//! What must hold:
//!
//! - A unit's worktree is where its folder in `.git/worktrees` says. Otherwise it is where the identity in that
//!   folder was last seen, if the `.git` file there points back to it. The identity must be the unit's own, so no
//!   other folder is mistaken for it.
//! - The new path is in the log before anything else is done with it.
//! - If git does not know the new path, git's records are repaired. Otherwise its next prune would drop the worktree.

use std::path::{Path, PathBuf};

use jit_core::model::refusal::Code;
use jit_core::model::unit::{Facts, Unit, UnitInput, step};
use jit_store::Outcome;

use crate::context::Context;
use crate::refusals::refuse;
use crate::units::worktree_state::leads_to;
use crate::worktree_identity::identity;

/// Returns a path without symbolic links, as far as it exists.
pub(crate) fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Whether a unit's worktree is where the log says. A worktree without a readable identity counts as in place.
fn is_in_place(unit: &Unit) -> bool {
    leads_to(Path::new(&unit.worktree_path)).is_some_and(|git_dir| {
        identity::peek(&git_dir).is_none_or(|found| Some(&found.worktree_id) == unit.worktree_id.as_ref())
    })
}

/// Returns the unit with the current path of its worktree, or unchanged if that is not known.
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

/// T0: records that the worktree was moved.
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
            cx.git_at(root)
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
