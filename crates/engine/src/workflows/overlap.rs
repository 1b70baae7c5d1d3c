//! Finds paths that running units and file locks occupy, so that a unit of a plan does not start in conflict with
//! them.
//!
//! What must hold: only units of the plan that declare `writes` are compared. A path that cannot be examined now does
//! not block a unit.

use std::collections::BTreeMap;
use std::time::Instant;

use jit_agents::runner::attempt;
use jit_core::coordinator::Occupied;
use jit_core::decide::file_locks;
use jit_core::log::state;
use jit_core::model::glob::Pattern;
use jit_core::model::ids::UnitId;
use jit_core::model::plan::{self, Plan};
use jit_core::model::refusal::Code;
use jit_core::model::scope::LockScope as Place;
use jit_core::model::unit::{Phase, Unit};
use jit_store::Outcome;

use crate::context::Context;
use crate::refusals::refuse;
use crate::units::scope::{LOOK_AGAIN, MOST_TOUCHED, TRACKER, changed_paths};
use crate::workflows::snapshot::Situation;

/// Paths that running units have changed, and when they were examined.
pub(crate) type Touched = BTreeMap<UnitId, (u32, Instant, Vec<Pattern>)>;

/// Collects the occupied paths, if an open unit of the plan declares its writes.
pub(crate) fn look_around(
    cx: &Context,
    at: &mut Situation,
    plan: &Plan,
    touched: &mut Touched,
) -> Outcome<()> {
    let open = |n: usize| {
        let unit = at.members.get(n).and_then(|member| member.unit.as_ref());
        let own = unit.filter(|unit| unit.workflow.as_ref() == Some(&at.workflow.id));
        own.is_none_or(|unit| matches!(unit.state, Phase::Idle | Phase::Ready))
    };
    let wanted = |(n, unit): (usize, &plan::PlanUnit)| !unit.writes.is_empty() && open(n);
    if !plan.units.iter().enumerate().any(wanted) {
        return Ok(());
    }
    let view = crate::write_path::view(cx)?;
    let unreadable = |e| refuse(Code::Io, e);
    let units = state::units(&*view.table).map_err(unreadable)?;
    let at_work = |unit: &&Unit| matches!(unit.state, Phase::Dispatched | Phase::Running);
    for unit in units.iter().filter(at_work) {
        let own = unit.workflow.as_ref() == Some(&at.workflow.id);
        // The end of a unit of another workflow may not be recorded yet: its attempt decides.
        if !own
            && attempt::is_over(&crate::units::service::attempt_folder(cx, &unit.id, unit.attempt))
                .unwrap_or(true)
        {
            continue;
        }
        let paths = match unit.writes.is_empty() {
            // The plan already declares the paths of its own units.
            false if own => continue,
            false => unit
                .writes
                .iter()
                .filter_map(|text| Pattern::parse(text).ok())
                .collect(),
            true => touched_by(cx, unit, touched),
        };
        match at.members.iter_mut().find(|member| own && member.id == unit.id) {
            Some(member) => member.touched = paths,
            None => at.facts.others.push(Occupied {
                by: unit.id.to_string(),
                paths,
                until: None,
            }),
        }
    }
    for lease in file_locks::all(&*view.table).map_err(unreadable)? {
        let Some(lock) = lease.resource.file().filter(|_| !lease.expired(&view.now)) else {
            continue;
        };
        // Locks left by an agent that has ended do not block.
        let left = units
            .iter()
            .filter(|unit| !at_work(unit))
            .any(|unit| unit.worker.as_ref() == Some(&lease.agent_id));
        if lock.scope == Place::Global && !lock.shared && !lock.outside && !left {
            at.facts.locks.push(Occupied {
                by: lease.agent_id.to_string(),
                paths: vec![lock.pattern.clone()],
                until: Some(lease.expires_at),
            });
        }
    }
    Ok(())
}

/// Returns the changed paths of a running unit. Paths that cannot be examined now do not block.
pub(crate) fn touched_by(cx: &Context, unit: &Unit, touched: &mut Touched) -> Vec<Pattern> {
    if let Some((attempt, at, paths)) = touched.get(&unit.id)
        && *attempt == unit.attempt
        && at.elapsed() < LOOK_AGAIN
    {
        return paths.clone();
    }
    let changed = changed_paths(cx, unit).unwrap_or_default();
    let paths: Vec<Pattern> = changed
        .iter()
        .filter(|path| !TRACKER.iter().any(|folder| path.starts_with(folder)))
        .take(MOST_TOUCHED)
        .filter_map(|path| Pattern::literal(path).ok())
        .collect();
    touched.insert(unit.id.clone(), (unit.attempt, Instant::now(), paths.clone()));
    paths
}
