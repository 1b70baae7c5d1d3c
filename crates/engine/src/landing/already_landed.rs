//! Units that are over, when somebody asks for their landing once more.
//!
//! What must hold:
//!
//! - a command that was cut off is run again as it was typed, and by then all of it may be done: then it says so, with the
//!   commit by which the unit landed. That is in the log, because its branch and its worktree are gone;
//! - that it has landed is believed only where its target has it now, or the branch that was named instead. Where the target is
//!   gone, another branch will do (it may have been renamed), but none that is a unit's own;
//! - a branch of the unit's name that has more than the target is not what landed: nothing is said to be done about that;
//! - an issue that nobody has closed since the landing is closed now. One that was opened again afterwards stays open;
//! - whatever moves the target, as a push may that has to take in what others pushed, has its turn;
//! - of a unit that was given up, or was never made, there is nothing to say but that it is over.

use std::ops::ControlFlow;

use jit_core::log::event::{Event, Stamped};
use jit_core::log::state;
use jit_core::model::issue::IssueState;
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::unit::{Unit, UnitInput};
use jit_os::shell::shell_word;
use jit_store::{Outcome, View};

use crate::api::landing::{MergeAsk, MergeMode};
use crate::api::landing::{MergeReport, UnitReport, Verdict};
use crate::api::{Answer, Reply};
use crate::context::Context;
use crate::landing::Repo;
use crate::landing::service::{Run, report_of, told};
use crate::refusals::failed;
use crate::refusals::refuse;

/// The unit that is meant: one that lives, else one that has landed and is over.
pub(crate) fn unit_to_land(cx: &Context, view: &View, named: Option<&str>) -> Outcome<Unit> {
    let unit = crate::units::service::find_unit(cx, view, named)?;
    if !unit.is_over() || has_landed(&unit) {
        return Ok(unit);
    }
    let (id, why) = (&unit.id, unit.abandoned.as_deref());
    let message = match why {
        Some(why) => format!("the unit {id} is over: it was given up ({why})"),
        None => format!("the unit {id} is over"),
    };
    Err(Box::new(
        Refusal::new(Code::NotFound, message)
            .help("jit worktree status --all")
            .help("jit rescue list"),
    ))
}

/// Nothing else was asked for than units that are over.
pub(crate) fn only_over(
    cx: &Context,
    repo: Repo,
    target: String,
    ask: &MergeAsk,
    units: &[Unit],
) -> Outcome<Answer> {
    if let Some(into) = &ask.into {
        repo.require_tip(into)?;
    }
    let mut run = Run::new(cx, repo, target, ask);
    run.alone = units.len() == 1;
    run.tell_of_over(units)?;
    let landed = units.iter().find_map(|unit| unit.merge_commit.clone());
    let next = match run.left_to_push().as_slice() {
        [] => Vec::new(),
        left => run.push_in_turn(left),
    };
    let tip = run.repo.tip(&run.target)?;
    let report = MergeReport {
        target_commit: tip.or(landed).unwrap_or_default(),
        target: run.target,
        dry_run: ask.mode == MergeMode::DryRun,
        order: Vec::new(),
        units: run.reports,
        overlap: Vec::new(),
        next,
    };
    Ok(Answer {
        reply: Reply::Merge(Box::new(report)),
        warnings: run.warnings,
    })
}

/// Whether the unit's issue was closed when it had landed, or after that, by whomever.
pub(crate) fn was_closed(cx: &Context, unit: &Unit) -> Outcome<bool> {
    let (mut landed, mut closed, mut is_closed) = (false, false, false);
    cx.store.events(0, &mut |line: Stamped| {
        match &line.event {
            Event::Unit {
                input: UnitInput::MergeSuccess,
                unit: moved,
                // Somebody may have found it done in what landed before this was written down.
            } if moved.id == unit.id => (landed, closed) = (true, is_closed),
            Event::Issue { issue, .. } if Some(&issue.id) == unit.issue_id.as_ref() => {
                is_closed = issue.state.is_closed();
                closed |= landed && is_closed;
            }
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    Ok(closed)
}

/// Whether a unit came to its end by landing.
fn has_landed(unit: &Unit) -> bool {
    unit.merge_commit.is_some() && unit.abandoned.is_none()
}

impl Run<'_> {
    /// Says of each that it has landed.
    pub(crate) fn tell_of_over(&mut self, units: &[Unit]) -> Outcome<()> {
        for unit in units {
            match self.landed_before(unit) {
                Ok(report) => self.reports.push(report),
                Err(refusal) if self.alone => return Err(refusal),
                Err(refusal) => self.reports.push(told(unit, Verdict::Refused, &refusal)),
            }
        }
        Ok(())
    }

    /// What is said of a unit that has landed and of which at most the removal is left. Refused where the target has it not.
    pub(crate) fn landed_before(&mut self, unit: &Unit) -> Outcome<UnitReport> {
        let view = crate::write_path::view(self.cx)?;
        let units = state::units(&*view.table).map_err(|e| refuse(Code::Io, e))?;
        let wanted = self.into.clone().unwrap_or_else(|| unit.goes_to().to_owned());
        // Where the log does not say as what, it is what is on its branch.
        let commit = match &unit.merge_commit {
            Some(commit) => commit.clone(),
            None => self.repo.tip(&unit.branch)?.unwrap_or_default(),
        };
        let known = self.repo.git().verify(&format!("{commit}^{{commit}}"));
        let known = !commit.is_empty() && known.map_err(failed)?.is_some();
        let on = match self.repo.tip(&wanted)? {
            Some(at) => (known && self.repo.has(&at, &commit, None)?).then(|| wanted.clone()),
            None if known && self.into.is_none() => self.branch_with(&commit, &units)?,
            None => None,
        };
        let (id, target) = (&unit.id, unit.goes_to());
        let Some(on) = on else {
            let message = format!("{id} landed on {target} as {commit}, which {wanted} does not have now");
            let mut refusal = Refusal::new(Code::NotFound, message);
            if known {
                refusal = refusal.help(format!("to bring it there, on {wanted}: git merge {commit}"));
            }
            refusal = match (unit.is_over(), known) {
                (true, true) => refusal.help(format!("jit worktree create {id} --base {commit}")),
                (true, false) => refusal,
                (false, _) => refusal.help(format!("to remove it all the same: jit worktree cleanup {id}")),
            };
            return Err(Box::new(refusal.help("jit rescue list")));
        };
        // A living unit that has the branch by now is another matter.
        let is_others = |other: &Unit| !other.is_over() && other.id != unit.id && other.branch == unit.branch;
        if let Some(tip) = self.repo.tip(&unit.branch)?
            && on != unit.branch
            && !units.iter().any(is_others)
        {
            let at = self.repo.require_tip(&on)?;
            if !self.repo.has(&at, &tip, Some(&commit))? {
                let branch = &unit.branch;
                let message = format!(
                    "{id} landed on {target} as {commit}, but {branch} has commits that {on} has not"
                );
                let range = shell_word(&format!("{on}..{branch}"));
                let mut refusal = Refusal::new(Code::NotFound, message).help(format!("git log {range}"));
                if !unit.is_over() {
                    refusal = refusal.help(format!("jit worktree cleanup {id}"));
                }
                return Err(Box::new(refusal));
            }
        }
        let mut report = report_of(unit, Verdict::AlreadyLanded);
        if on != self.target {
            report.message = Some(format!("it is on {on}"));
        }
        report.merge_commit = Some(commit);
        report.issue_done = match (self.mode, &unit.issue_id) {
            (MergeMode::DryRun, Some(id)) => {
                let issue = state::issue(&*view.table, id).map_err(|e| refuse(Code::Io, e))?;
                issue.map(|issue| issue.state == IssueState::Done)
            }
            _ => self.close(&view, unit),
        };
        Ok(report)
    }

    /// A branch that has a commit and is no unit's own.
    fn branch_with(&self, commit: &str, units: &[Unit]) -> Outcome<Option<String>> {
        let found = self
            .repo
            .git()
            .args(["for-each-ref", "--format=%(refname:lstrip=2)", "--contains"])
            .args([commit, "refs/heads"])
            .run()
            .map_err(failed)?;
        let found = String::from_utf8_lossy(&found).into_owned();
        let is_units = |name: &str| units.iter().any(|unit| unit.branch == name);
        Ok(found.lines().find(|name| !is_units(name)).map(str::to_owned))
    }
}
