//! Units that are over, when somebody asks for their landing once more.
//!
//! What must hold:
//!
//! - a command that was cut off is run again as it was typed, and by then all of it may be done: then it says so, with the
//!   commit by which the unit landed. That is in the log, because its branch and its worktree are gone;
//! - that it has landed is believed only where a branch has that commit now;
//! - an issue that nobody has closed since the landing is closed now. One that was opened again afterwards stays open;
//! - of a unit that was given up, or was never made, there is nothing to say but that it is over.

use std::ops::ControlFlow;

use jit_core::event::{Event, Stamped};

use super::*;
use crate::store::Store as _;

impl App {
    /// The unit that is meant: one that lives, else one that has landed and is over.
    pub(super) fn unit_to_land(&self, view: &View, named: Option<&str>) -> Outcome<Unit> {
        let unit = self.find_unit(view, named)?;
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
    pub(super) fn only_over(
        &self,
        repo: Repo,
        target: String,
        ask: &MergeAsk,
        units: &[Unit],
    ) -> Outcome<Answer> {
        let mut run = Run {
            app: self,
            repo,
            target,
            mode: ask.mode,
            leave_proposed: ask.leave_proposed,
            every: false,
            alone: units.len() == 1,
            reports: Vec::new(),
            warnings: self.warnings.clone(),
            known: RefCell::default(),
        };
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
    pub(super) fn was_closed(&self, unit: &Unit) -> Outcome<bool> {
        let (mut landed, mut closed, mut is_closed) = (false, false, false);
        self.store.events(0, &mut |line: Stamped| {
            match &line.event {
                Event::Unit {
                    input: Input::MergeSuccess,
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
}

/// Whether a unit came to its end by landing.
fn has_landed(unit: &Unit) -> bool {
    unit.merge_commit.is_some() && unit.abandoned.is_none()
}

impl Run<'_> {
    /// Says of each that it has landed.
    pub(super) fn tell_of_over(&mut self, units: &[Unit]) -> Outcome<()> {
        for unit in units {
            match self.landed_before(unit) {
                Ok(report) => self.reports.push(report),
                Err(refusal) if self.alone => return Err(refusal),
                Err(refusal) => self.reports.push(told(unit, Verdict::Refused, &refusal)),
            }
        }
        Ok(())
    }

    fn landed_before(&mut self, unit: &Unit) -> Outcome<UnitReport> {
        let commit = unit.merge_commit.clone().unwrap_or_default();
        let mut report = report_of(unit, Verdict::AlreadyLanded);
        let on = self.branch_with(&commit, &unit.target)?;
        match on {
            Some(branch) if branch == self.target => {}
            Some(branch) => report.message = Some(format!("it is on {branch}")),
            None => {
                let (id, target) = (&unit.id, &unit.target);
                let message =
                    format!("{id} is over: it landed on {target} as {commit}, which no branch has now");
                let mut refusal = Refusal::new(Code::NotFound, message);
                let kept = self.repo.git().verify(&format!("{commit}^{{commit}}"));
                if kept.map_err(failed)?.is_some() {
                    refusal = refusal.help(format!("jit worktree create {id} --base {commit}"));
                }
                return Err(Box::new(refusal.help("jit rescue list")));
            }
        }
        report.merge_commit = Some(commit);
        if let Some(id) = &unit.issue_id {
            let view = self.app.view()?;
            let issue = state::issue(&*view.table, id).map_err(|e| refuse(Code::Io, e))?;
            report.issue_done = match issue.map(|issue| issue.state) {
                Some(state) if !state.is_closed() && self.mode != MergeMode::DryRun => {
                    match self.app.was_closed(unit)? {
                        true => Some(false),
                        false => self.close(&view, unit),
                    }
                }
                state => state.map(|state| state == State::Done),
            };
        }
        Ok(report)
    }

    /// A branch that has a commit, the unit's target before all others.
    fn branch_with(&self, commit: &str, target: &str) -> Outcome<Option<String>> {
        let known = self.repo.git().verify(&format!("{commit}^{{commit}}"));
        if known.map_err(failed)?.is_none() {
            return Ok(None);
        }
        let found = self
            .repo
            .git()
            .args(["for-each-ref", "--format=%(refname:lstrip=2)", "--contains"])
            .args([commit, "refs/heads"])
            .run()
            .map_err(failed)?;
        let found = String::from_utf8_lossy(&found).into_owned();
        let mut names: Vec<&str> = found.lines().collect();
        names.sort_by_key(|name| *name != target);
        Ok(names.first().map(|name| (*name).to_owned()))
    }
}
