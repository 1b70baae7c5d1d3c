//! Finds units, git worktrees and folders that do not match (G16), and repairs them on request.
//!
//! What must hold:
//!
//! - Without `settle` no unit changes. Only the leftovers of killed landings are removed.
//! - The branch of a unit whose worktree is gone stays as it is.
//! - A worktree that belongs to no unit is reported and not removed here. The same holds for one whose git folder is
//!   gone, unless its removal had begun.
//! - A unit that another process is creating or landing is skipped.

use crate::api::units::Orphans;
use crate::api::units::UnitReply;
use std::path::Path;

use jit_core::log::state;
use jit_core::model::refusal::Code;
use jit_core::model::unit::{Facts, Phase, Unit, UnitInput};
use jit_store::Outcome;

use crate::api::rescue::Force;
use crate::api::units::Orphan;
use crate::api::{Answer, Reply};
use crate::context::Context;
use crate::git_locks;
use crate::refusals::refuse;
use crate::units::worktree_state::leads_to;
use crate::worktrees::half_made::{self, HalfMade};

/// Compares units, git's worktrees and the disk (G16). With `settle`, interrupted removals are finished, and units
/// whose worktree is gone are ended: their branches stay as they are.
pub(crate) fn prune_units(cx: &Context, settle: bool) -> Outcome<Answer> {
    let view = crate::write_path::view(cx)?;
    let common = crate::units::service::common(cx)?;
    let units = state::units(&*view.table).map_err(|e| refuse(Code::Io, e))?;
    let mut live = crate::units::worktree_locate::located_all(cx, units);
    live.retain(|unit| !unit.is_over());
    // Before git is started for the others: what an interrupted creation left may make git fail.
    live.sort_by_key(|unit| unit.state != Phase::Provisioning);
    let unfinished = half_made::find(common);
    let mut orphans = half_made(cx, &unfinished, &live, settle);
    let repo = crate::landing::service::landing_repo(cx)?;
    crate::landing::service::sweep_scratch(cx, &repo);
    let known = crate::worktree_identity::list(common).map_err(|e| refuse(Code::Io, e))?;
    for unit in &live {
        orphans.extend(check_unit(cx, unit, settle)?);
    }
    for entry in known.into_iter().skip(1) {
        if unfinished.iter().any(|one| one.git_dir == entry.git_dir) {
            continue;
        }
        let Some(root) = entry.root else { continue };
        // This is a trial worktree of a landing.
        let trial = root.starts_with(repo.scratch());
        if trial || live.iter().any(|unit| Path::new(&unit.worktree_path) == root) {
            continue;
        }
        let gone = root.join(".git").symlink_metadata().is_err();
        let what = if gone {
            "git remembers a worktree that is gone: git worktree prune"
        } else {
            "a worktree that no unit has"
        };
        orphans.push(Orphan {
            path: root.to_string_lossy().into_owned(),
            unit: None,
            what: what.to_owned(),
            settled: false,
        });
    }
    crate::write_path::read_answer(cx, &view, Reply::Units(UnitReply::Orphans(Orphans { orphans })))
}

/// Checks one unit, and repairs it with `settle`. `None` if all is well, or while a process is working on it.
fn check_unit(cx: &Context, unit: &Unit, settle: bool) -> Outcome<Option<Orphan>> {
    let path = Path::new(&unit.worktree_path);
    let gone = path.join(".git").symlink_metadata().is_err();
    let orphan = |what: String, settled: bool| Orphan {
        path: unit.worktree_path.clone(),
        unit: Some(unit.id.clone()),
        what,
        settled,
    };
    let (mut what, mut settled) = match unit.state {
        Phase::Cleanup => settle_removal(cx, unit, settle),
        Phase::Provisioning | Phase::Merging => match cut_short(cx, unit, settle) {
            Some(told) => told,
            None => return Ok(None),
        },
        _ if leads_to(path).is_some_and(|git_dir| !git_dir.is_dir()) => {
            return Ok(Some(forgotten(cx, unit)));
        }
        _ if !gone => return Ok(None),
        Phase::Merged => settle_removal(cx, unit, settle),
        _ => {
            let moved = "its worktree is gone; if it was moved: git worktree repair <where it is now>";
            (moved.to_owned(), false)
        }
    };
    if settle && matches!(unit.state, Phase::Ready | Phase::Failed | Phase::Completed) {
        what = "its worktree is gone".to_owned();
        // Only the git folder of the worktree still has its staged files.
        if let Err(refusal) = crate::worktrees::cleanup::put_aside_gone(cx, unit) {
            let why = refusal.message.lines().next().unwrap_or_default().to_owned();
            let what = format!("{what}, and what git has of it cannot be kept: {why}");
            return Ok(Some(orphan(what, false)));
        }
        let facts = Facts {
            abandoned: Some(what.clone()),
            ..Facts::default()
        };
        crate::units::service::advance(cx, &unit.id, UnitInput::Abandon, facts)?;
        crate::units::service::advance(cx, &unit.id, UnitInput::CleanedUp, Facts::default())?;
        settled = true;
    }
    Ok(Some(orphan(what, settled)))
}

/// Reports a worktree whose git folder is gone. Nothing of it is removed automatically.
fn forgotten(cx: &Context, unit: &Unit) -> Orphan {
    let what = match crate::units::worktree_state::require_there(cx, unit, Path::new(&unit.worktree_path)) {
        Err(refusal) => {
            let ways: Vec<&str> = refusal.help.iter().map(String::as_str).collect();
            format!("git has forgotten its worktree: {}", ways.join(", or "))
        }
        Ok(()) => "git has forgotten its worktree".to_owned(),
    };
    Orphan {
        path: unit.worktree_path.clone(),
        unit: Some(unit.id.clone()),
        what,
        settled: false,
    }
}

/// Reports an interrupted creation or landing of a unit. `None` while another process is working on it.
fn cut_short(cx: &Context, unit: &Unit, settle: bool) -> Option<(String, bool)> {
    let id = &unit.id;
    if unit.state == Phase::Merging {
        let busy = crate::landing::service::is_landing(cx, unit.goes_to());
        return (!busy).then(|| {
            (
                format!(
                    "its landing was cut short: {}",
                    crate::landing::service::land_again(cx, unit)
                ),
                false,
            )
        });
    }
    let turn = crate::units::service::unit_turn(cx, id, false).ok().flatten()?;
    let what = "its making was cut short";
    if settle {
        // A git that still runs is left alone.
        let _lock = half_made::try_making_lock(cx, id).ok().flatten()?;
        let _ = half_made::sweep(cx, unit);
    }
    let begun = Path::new(&unit.worktree_path).symlink_metadata().is_ok();
    drop(turn);
    if settle && !begun && crate::worktrees::cleanup::abandon_unit(cx, id, what, Force::No).is_ok() {
        return Some((what.to_owned(), true));
    }
    Some((
        format!("{what}: jit worktree retry {id}, or jit worktree abandon {id} --reason <why>"),
        false,
    ))
}

/// Reports worktrees that git did not finish, and those with damaged files of git. `settle` moves git's folder of one
/// without contents to the trash, unless a git works in the repository.
fn half_made(cx: &Context, found: &[HalfMade], live: &[Unit], settle: bool) -> Vec<Orphan> {
    let common = cx.place.common_dir.as_deref();
    let is_quiet = || common.is_some_and(|common| git_locks::git_works_here(common) == Some(false));
    let mut orphans = Vec::new();
    for one in found {
        let unit = live.iter().find(|unit| one.is_of(unit));
        if unit.is_some_and(|unit| unit.state == Phase::Provisioning) {
            continue;
        }
        let settled =
            settle && one.is_left_over() && is_quiet() && half_made::put_left_over_aside(cx, one).is_ok();
        let path = one.root.as_ref().unwrap_or(&one.git_dir);
        orphans.push(Orphan {
            path: match unit {
                Some(unit) => unit.worktree_path.clone(),
                None => path.to_string_lossy().into_owned(),
            },
            unit: unit.map(|unit| unit.id.clone()),
            what: match settled {
                true => one.in_words(),
                false => format!("{}: {}", one.in_words(), one.repair(unit)),
            },
            settled,
        });
    }
    orphans
}

/// Continues a removal, or reports what blocks it.
fn settle_removal(cx: &Context, unit: &Unit, settle: bool) -> (String, bool) {
    let next = format!("jit worktree cleanup {}", unit.id);
    let begun = match unit.state {
        Phase::Cleanup => "its removal was cut short",
        _ => "it has landed, and its worktree is gone",
    };
    if !settle {
        return (format!("{begun}: {next}"), false);
    }
    match crate::worktrees::cleanup::cleanup_unit(cx, &unit.id, Force::No) {
        Ok(_) => (begun.to_owned(), true),
        Err(refusal) => {
            let why = refusal.message.lines().next().unwrap_or_default();
            (format!("{begun}, and goes on with {next}: {why}"), false)
        }
    }
}
