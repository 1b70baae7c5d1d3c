//! Derives the notifications of a workflow from a snapshot. Every coordinator derives the same ones.

use std::path::Path;

use jit_core::coordinator::{self, Awaited, CoordinatorLimits, NextStep, Purse, UnitStanding};
use jit_core::model::failure_reason;
use jit_core::model::ids::UnitId;
use jit_core::model::plan::Plan;
use jit_core::model::time::Wall;
use jit_core::model::unit::{MergeStatus, Unit};
use jit_core::model::workflow::{Workflow, WorkflowOutcome};

use super::Notice;
use crate::workflows::snapshot::Situation;

/// The repository, plan and limits that the notifications refer to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) repository: &'a str,
    pub(crate) plan: &'a Plan,
    pub(crate) limits: &'a CoordinatorLimits,
}

impl Scene<'_> {
    /// Returns all notifications that apply now, sent or not.
    pub(crate) fn all(&self, at: &Situation, steps: &[NextStep]) -> Vec<Notice> {
        let workflow = &at.workflow;
        let mut all = Vec::new();
        let standings = at.look(self.plan, self.limits).standings();
        for (member, standing) in at.members.iter().zip(&standings) {
            let own = |unit: &&Unit| unit.workflow.as_ref() == Some(&workflow.id);
            let unit = member.unit.as_ref().filter(own);
            match standing {
                UnitStanding::Stuck(why) => all.push(self.person(workflow, &member.id, unit, why, at.now)),
                UnitStanding::Failed(why) if unit.is_some() && !workflow.cancelling => {
                    all.push(self.failed(workflow, &member.id, unit, why, at.now));
                }
                _ => {}
            }
            if let Some(unit) = unit.filter(|unit| unit.merge_status == MergeStatus::Merged) {
                all.push(self.landed(workflow, unit, at.now));
            }
        }
        for step in steps {
            let NextStep::Wait { why, .. } = step else {
                continue;
            };
            for one in why {
                if let Awaited::Person(id, why) = one
                    && all.iter().all(|told| told.unit.as_ref() != Some(id))
                {
                    let unit = at.members.iter().find(|member| member.id == *id);
                    let unit = unit.and_then(|member| member.unit.as_ref());
                    all.push(self.person(workflow, id, unit, why, at.now));
                }
            }
        }
        self.money(at, &mut all);
        for account in &at.facts.accounts {
            let own = |unit: &jit_core::model::plan::PlanUnit| {
                jit_core::model::account::AccountId::of(&unit.run).as_ref() == Some(&account.id)
            };
            if let Some(parked) = account.shown(at.now)
                && self.plan.units.iter().any(own)
            {
                let mut told = self.notice(workflow, "parked", at.now);
                told.id = format!("parked/{}/{}", account.id, account.since);
                told.unit.clone_from(&account.unit);
                told.agent = Some(account.id.to_string());
                told.title = format!("{} is parked until {}", account.id, parked.until);
                told.message.clone_from(&parked.why);
                told.next = format!("jit worktree unpark {}", account.id);
                all.push(told);
            }
        }
        for told in &mut all {
            // The id includes the workflow, so that ids of different workflows differ.
            told.id = format!("{}/{}", workflow.id, told.id);
        }
        all
    }

    /// Returns the notification that the workflow has ended.
    pub(crate) fn finished(&self, workflow: &Workflow) -> Notice {
        let at = workflow.ended_at.unwrap_or(workflow.created_at);
        let mut told = self.notice(workflow, "finished", at);
        // A workflow that was reopened ends a second time.
        told.id = format!("{}/finished/{}", workflow.id, at.ms());
        told.title = match workflow.status {
            WorkflowOutcome::Completed => format!("{}: everything has landed", workflow.id),
            status => format!("{} {}", workflow.id, status.told()),
        };
        told.message = format!("{} units, on {}", workflow.units.len(), workflow.target);
        told
    }

    fn notice(&self, workflow: &Workflow, class: &'static str, at: Wall) -> Notice {
        Notice {
            schema_version: 1,
            id: String::new(),
            class,
            at,
            repository: self.repository.to_owned(),
            workflow: Some(workflow.id.clone()),
            unit: None,
            agent: None,
            title: String::new(),
            message: String::new(),
            next: format!("jit workflow status {}", workflow.id),
            more: 0,
        }
    }

    fn about(
        &self,
        workflow: &Workflow,
        class: &'static str,
        id: &UnitId,
        unit: Option<&Unit>,
        at: Wall,
    ) -> Notice {
        let mut told = self.notice(workflow, class, at);
        told.unit = Some(id.clone());
        told.agent = unit.and_then(|unit| unit.agent.clone());
        // One notification for each attempt, independent of the message.
        let (attempt, rounds, state) = unit.map_or((0, 0, "-"), |unit| {
            (unit.attempt, unit.conflict_rounds, unit.state.as_str())
        });
        told.id = format!("{class}/{id}/{attempt}/{rounds}/{state}");
        told
    }

    fn person(&self, workflow: &Workflow, id: &UnitId, unit: Option<&Unit>, why: &str, at: Wall) -> Notice {
        let mut told = self.about(workflow, "needs_person", id, unit, at);
        let reason = unit
            .and_then(|unit| unit.error.as_ref())
            .map(|e| e.reason.as_str());
        let account = unit.and_then(|unit| unit.account.as_ref());
        (told.title, told.next) = match (reason, account) {
            (Some(failure_reason::CONFLICT), _) => (
                format!("{id} has a conflict"),
                format!("jit worktree status {id}"),
            ),
            (Some(failure_reason::RATE_LIMIT), Some(account)) => (
                format!("{id} waits for {account}"),
                format!("jit worktree unpark {account}"),
            ),
            _ => (format!("{id} waits for you"), format!("jit worktree status {id}")),
        };
        told.message = why.to_owned();
        told
    }

    fn failed(&self, workflow: &Workflow, id: &UnitId, unit: Option<&Unit>, why: &str, at: Wall) -> Notice {
        let mut told = self.about(workflow, "failed", id, unit, at);
        told.title = format!("{id} has failed");
        told.message = why.to_owned();
        told.next = format!("jit worktree logs {id}");
        told
    }

    fn landed(&self, workflow: &Workflow, unit: &Unit, at: Wall) -> Notice {
        let mut told = self.about(workflow, "landed", &unit.id, Some(unit), at);
        // Its worktree may be removed a moment later.
        told.id = format!("landed/{}/{}", unit.id, unit.attempt);
        told.title = format!("{} is on {}", unit.id, unit.goes_to());
        told.message = unit.merge_commit.clone().unwrap_or_default();
        told.next = "jit log".to_owned();
        told
    }

    fn money(&self, at: &Situation, all: &mut Vec<Notice>) {
        let workflow = &at.workflow;
        for alert in coordinator::alerts(&at.facts, self.limits) {
            let (of, key) = match alert.of {
                Purse::Workflow => ("this workflow", "workflow".to_owned()),
                Purse::Day => ("the day", at.facts.day_ends.to_string()),
            };
            let mut told = self.notice(workflow, "budget", at.now);
            let word = if alert.percent >= 100 { "stop" } else { "alert" };
            told.id = format!("budget/{word}/{key}");
            told.title = match alert.percent >= 100 {
                true => format!("{}: the budget of {of} is used up", workflow.id),
                false => format!(
                    "{}: {} % of the budget of {of} is used",
                    workflow.id, alert.percent
                ),
            };
            told.message = match alert.percent >= 100 {
                true => "nothing new is started".to_owned(),
                false => String::new(),
            };
            all.push(told);
        }
    }
}

/// Returns the repository's name for people: the folder of the main checkout, if there is one.
pub(crate) fn repository(common: &Path) -> String {
    let named = match common.file_name().and_then(|name| name.to_str()) {
        Some(".git" | ".jit") => common.parent().unwrap_or(common),
        _ => common,
    };
    named.to_string_lossy().into_owned()
}
