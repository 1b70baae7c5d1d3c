//! The work that an agent does not land (L3, E6): commits of a unit of somebody else, and changes of files that hold for everybody.
//! A person lands both.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use jit_core::log::state;
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::unit::{Phase, Unit};
use jit_store::Outcome;

use crate::context::calling_agent::{asking_agent, is_unit_of};
use crate::gates::committed_policy::is_for_everybody;
use crate::landing::service::{LandingUnit, Run};
use crate::refusals::{failed, refuse};

/// Refuses an agent whose unit has commits that another unit made, that the agent may not land, and that the target has
/// not: because it began there, or because they were merged.
///
/// The commits that a unit made are those on the first-parent line of its branch. So a unit that merged this one does not
/// stop it.
pub(crate) fn require_own_commits(run: &Run<'_>, work: &LandingUnit, target: &str) -> Outcome<()> {
    let Some(agent) = asking_agent(run.cx) else {
        return Ok(());
    };
    let view = crate::write_path::view(run.cx)?;
    let mut others: Vec<(Unit, String)> = Vec::new();
    for unit in state::units(&*view.table).map_err(|e| refuse(Code::Io, e))? {
        let is_living = !unit.is_over() && unit.state != Phase::Cleanup;
        if is_living
            && unit.id != work.unit.id
            && !is_unit_of(run.cx, &view, &unit, &agent)?
            && let Some(tip) = run.repo.tip(&unit.branch)?
        {
            others.push((unit, tip));
        }
    }
    let commits = |options: &[&str], asked: String| -> Outcome<HashSet<String>> {
        let git = run.repo.git().args(["rev-list", "--ignore-missing", "--stdin"]);
        let listed = git.args(options).stdin(asked).run().map_err(failed)?;
        let listed = String::from_utf8_lossy(&listed);
        Ok(listed.lines().map(str::to_owned).collect())
    };
    let tip = &work.tip;
    let not: String = others.iter().map(|(_, tip)| format!("^{tip}\n")).collect();
    let own = commits(&[], format!("{tip}\n^{target}\n"))?;
    if commits(&[], format!("{tip}\n^{target}\n{not}"))?.len() == own.len() {
        // Whatever the number of units, most share nothing.
        return Ok(());
    }
    for (unit, tip) in others {
        let landed = unit.landing_tip.as_ref().filter(|_| unit.state == Phase::Merged);
        let start = landed.unwrap_or(&unit.base);
        let made = commits(&["--first-parent"], format!("{tip}\n^{target}\n^{start}\n"))?;
        if !made.is_disjoint(&own) {
            let (id, other, owner) = (&work.unit.id, &unit.id, &unit.created_by);
            let message = format!(
                "{id} has commits of {other}, a unit of {owner}, that {} has not: an agent lands only its own work",
                run.target
            );
            return Err(Box::new(
                Refusal::new(Code::NotAllowed, message)
                    .help(format!("ask {owner} to run: jit finish {other}"))
                    .help(format!("then: jit finish {id}")),
            ));
        }
    }
    Ok(())
}

/// Refuses an agent whose landing would change files that hold for everybody, such as the settings. To add `.jit/` for
/// the first time is no change of them.
pub(crate) fn require_no_change_for_everybody(
    run: &Run<'_>,
    work: &LandingUnit,
    (old, new): (&str, &str),
) -> Outcome<()> {
    let Some(agent) = asking_agent(run.cx) else {
        return Ok(());
    };
    if run.repo.object(&format!("{old}:.jit"))?.is_none() {
        return Ok(());
    }
    let changed = run
        .repo
        .git()
        .args(["diff-tree", "-r", "-z", "--name-only", "--no-renames", old, new])
        .args(["--", ".jit"])
        .run()
        .map_err(failed)?;
    let mut paths = changed
        .split(|b| *b == 0)
        .map(|path| Path::new(OsStr::from_bytes(path)));
    let Some(path) = paths.find(|path| is_for_everybody(path)) else {
        return Ok(());
    };
    let id = &work.unit.id;
    let message = format!(
        "{id} changes {}, which holds for everybody, and {agent} is an agent: a person lands it",
        path.display()
    );
    Err(Box::new(
        Refusal::new(Code::NotAllowed, message).help(format!("ask a person to run: jit finish {id}")),
    ))
}
