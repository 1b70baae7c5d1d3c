//! Answers a request to land a unit that has landed already and is over.
//!
//! What must hold:
//!
//! - A command that was interrupted can be repeated as it was typed. If all of it is done by then, the reply says so
//!   and names the commit by which the unit landed. That commit comes from the log, because the unit's branch and
//!   worktree are gone.
//! - A unit counts as landed only if its target, or the branch that was named instead, contains it now. If the target
//!   no longer exists, another branch is accepted, since the target may have been renamed. A unit's own branch is not
//!   accepted.
//! - A branch of the unit's name with commits that the target lacks is not the work that landed. Such a request is
//!   refused.
//! - An issue that has not been closed since the landing is closed now. An issue that was reopened afterwards stays
//!   open.
//! - Every step that moves the target holds the target's landing lock. A push can be such a step, because it may have
//!   to merge the commits of others first.
//! - For a unit that was abandoned or never created, the only answer is that it is over.

use crate::api::landing::LandingReply;
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
use crate::landing::service::{Run, refused_report, report_of};
use crate::refusals::failed;
use crate::refusals::refuse;

/// Finds the named unit: one that is alive, or one that is over and has landed. Refuses any other.
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

/// Answers a request that names only units that are over.
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
        reply: Reply::Landing(LandingReply::Report(Box::new(report))),
        warnings: run.warnings,
    })
}

/// Returns whether the unit's issue was closed when the unit landed, or later, by any agent.
pub(crate) fn was_closed(cx: &Context, unit: &Unit) -> Outcome<bool> {
    let (mut landed, mut closed, mut is_closed) = (false, false, false);
    cx.store.events(0, &mut |line: Stamped| {
        match &line.event {
            Event::Unit {
                input: UnitInput::MergeSuccess,
                unit: moved,
                // Another process may have read "done" from the landed files before this line was logged.
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

/// Returns whether a unit is over because it landed.
fn has_landed(unit: &Unit) -> bool {
    unit.merge_commit.is_some() && unit.abandoned.is_none()
}

impl Run<'_> {
    /// Reports each unit as landed, or as refused.
    pub(crate) fn tell_of_over(&mut self, units: &[Unit]) -> Outcome<()> {
        for unit in units {
            match self.landed_before(unit) {
                Ok(report) => self.reports.push(report),
                Err(refusal) if self.alone => return Err(refusal),
                Err(refusal) => self
                    .reports
                    .push(refused_report(unit, Verdict::Refused, &refusal)),
            }
        }
        Ok(())
    }

    /// Reports a unit that has landed and for which at most the removal is left. Refused if the target does not
    /// contain it.
    pub(crate) fn landed_before(&mut self, unit: &Unit) -> Outcome<UnitReport> {
        let view = crate::write_path::view(self.cx)?;
        let units = state::units(&*view.table).map_err(|e| refuse(Code::Io, e))?;
        let wanted = self.into.clone().unwrap_or_else(|| unit.goes_to().to_owned());
        // If the log names no commit, the tip of the unit's branch is used.
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
        // If another unit that is alive uses the branch now, its commits do not matter here.
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

    /// Finds a branch that contains a commit and is not a unit's own branch.
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
