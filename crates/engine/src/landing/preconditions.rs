//! Checks before a merge: reads the rules of the target, and decides whether a unit may land there.
//!
//! What must hold:
//!
//! - The rules (settings and gates) are those committed on the target, not those of a checkout or of the unit.
//! - A unit does not land while a dependency is open, or while its worktree has uncommitted work. If leases are
//!   enforced, it does not land while another agent holds its issue.
//! - A commit whose rules cannot be read never becomes the target: nothing could land after it.

use std::collections::BTreeSet;
use std::fs;
use std::rc::Rc;

use jit_core::landing::order::OrderCandidate as Place;
use jit_core::log::state;
use jit_core::model::actor::Actor;
use jit_core::model::issue::{GateResult, Issue};
use jit_core::model::lease::Resource;
use jit_core::model::policy::Enforce;
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::unit::{Facts, Failure, Phase, Unit, UnitInput};
use jit_core::query::ready_queue;
use jit_git::snapshot::Folder;
use jit_os::io_refusal;
use jit_os::shell::shell_word;
use jit_store::{Outcome, View};

use crate::api::landing::{MergeMode, UnitReport, Verdict};
use crate::api::trust::Kind;
use crate::config::{Config, Sources};
use crate::gates::Registry;
use crate::landing::land::{landed_as, was_made_on};
use crate::landing::others_work::require_own_commits;
use crate::landing::remote;
use crate::landing::service::{
    Eligibility, LandingUnit, Rules, Run, refused_report, report_of, waits_for_landing,
};
use crate::landing::tested::Check;
use crate::refusals::failed;
use crate::refusals::refuse;
use crate::trust::VALIDATE;
use crate::units::worktree_state::{no_branch, require_committed};

/// Files with rules for landings, below `.jit`.
const RULES: [&str; 2] = ["config.toml", "gates/registry.json"];

impl Run<'_> {
    /// The rules of the target as it is now.
    pub(crate) fn rules(&self) -> Outcome<Rc<Rules>> {
        self.rules_of(&self.repo.require_tip(&self.target)?)
    }

    /// Reads the rules from a commit's own files. They are written to a temporary folder, because the commit may be
    /// checked out nowhere.
    pub(crate) fn rules_of(&self, commit: &str) -> Outcome<Rc<Rules>> {
        if let Some((known, _, rules)) = &*self.known.borrow()
            && known == commit
        {
            return Ok(Rc::clone(rules));
        }
        let listed = self
            .repo
            .git()
            .args(["ls-tree", "-z", "--full-tree", commit, "--"])
            .args(RULES.map(|name| format!(".jit/{name}")))
            .run()
            .map_err(failed)?;
        let same = match &*self.known.borrow() {
            Some((_, known, rules)) if *known == listed => Some(Rc::clone(rules)),
            _ => None,
        };
        if let Some(rules) = same {
            *self.known.borrow_mut() = Some((commit.to_owned(), listed, Rc::clone(&rules)));
            return Ok(rules);
        }
        let folder = Folder::make(self.repo.scratch()).map_err(|e| refuse(Code::Io, e))?;
        let jit = folder.path.join(".jit");
        for name in RULES {
            let object = format!("{commit}:.jit/{name}");
            if self.repo.git().verify(&object).map_err(failed)?.is_none() {
                continue;
            }
            let kind = self.repo.git().args(["cat-file", "-t", &object]).line();
            if kind.map_err(failed)? != "blob" {
                let message = format!(".jit/{name} is not a file on {} (as committed)", self.target);
                return Err(refuse(Code::Config, message));
            }
            let bytes = self
                .repo
                .git()
                .args(["cat-file", "blob", &object])
                .run()
                .map_err(failed)?;
            let path = jit.join(name);
            let parent = path.parent().unwrap_or(&jit);
            fs::create_dir_all(parent).map_err(|e| io_refusal("create", parent, &e))?;
            fs::write(&path, bytes).map_err(|e| io_refusal("write", &path, &e))?;
        }
        let on_target = |message: String| {
            let own = folder.path.display().to_string();
            message.replace(&own, &format!("{} (as committed)", self.target))
        };
        let sources = Sources {
            repository: Some(jit.join("config.toml")),
            ..crate::gates::committed_policy::sources(self.cx)
        };
        let config = Config::load(&sources).map_err(|e| refuse(Code::Config, on_target(e.to_string())))?;
        let registry = Registry::load(&jit).map_err(|mut refusal| {
            refusal.message = on_target(refusal.message);
            refusal
        })?;
        let mut policy = config.policy();
        registry.bind(&mut policy);
        let rules = Rc::new(Rules {
            merging: config.merging(),
            registry,
            policy,
        });
        *self.known.borrow_mut() = Some((commit.to_owned(), listed, Rc::clone(&rules)));
        Ok(rules)
    }

    /// Like [`Run::rules_of`], with help for the case that unreadable rules block every landing.
    pub(crate) fn rules_that_hold(&self, commit: &str) -> Outcome<Rc<Rules>> {
        self.rules_of(commit).map_err(|mut refusal| {
            if refusal.code != Code::Io {
                refusal.help.push(format!(
                    "mend it with a commit on {}, without jit: nothing lands before that",
                    self.target
                ));
            }
            refusal
        })
    }

    /// Requires that the rules of the future target can be read: otherwise nothing could land after it.
    pub(crate) fn require_rules(&self, commit: &str) -> Outcome<()> {
        match self.rules_of(commit) {
            Err(mut refusal) if refusal.code != Code::Io => {
                refusal.code = Code::Config;
                refusal.message = format!(
                    "with this on {} nothing could land there any more: {}",
                    self.target, refusal.message
                );
                refusal.help = vec!["mend it in the unit's worktree and commit".to_owned()];
                Err(refusal)
            }
            read => read.map(|_| ()),
        }
    }

    /// Reads again who holds the unit's issue and which gates it must pass: checks may have taken long.
    pub(crate) fn look_again(&self, work: &LandingUnit) -> Outcome<LandingUnit> {
        self.work(
            &crate::write_path::view(self.cx)?,
            work.unit.clone(),
            work.tip.clone(),
        )
    }

    /// Examines a unit before anything is merged.
    pub(crate) fn eligibility(&mut self, unit: Unit) -> Outcome<Eligibility> {
        let view = crate::write_path::view(self.cx)?;
        let bad = |why: String, help: String| Box::new(Refusal::new(Code::BadTransition, why).help(help));
        let status = format!("jit worktree status {}", unit.id);
        let reason = unit.error.as_ref().map(|error| error.reason.as_str());
        let conflict = unit.state == Phase::Failed && reason == Some("merge_conflict");
        if unit.state == Phase::Cleanup && unit.abandoned.is_none() {
            // The unit has landed, and only its removal is unfinished.
            let mut report = self.landed_before(&unit)?;
            report.help.push(format!("jit worktree cleanup {}", unit.id));
            return Ok(Eligibility::Reported(Box::new(report)));
        }
        let branch_is_gone = || Ok::<_, Box<Refusal>>(self.repo.tip(&unit.branch)?.is_none());
        if unit.state == Phase::Merged && !self.every && unit.merge_commit.is_some() && branch_is_gone()? {
            return Ok(Eligibility::Reported(Box::new(self.landed_before(&unit)?)));
        }
        if unit.state == Phase::Merged && !self.has_more(&unit)? {
            let goes_to = unit.goes_to();
            let moved_on = goes_to != self.target && self.repo.tip(goes_to)?.is_none();
            let tip = self.repo.tip(&unit.branch)?;
            if let (true, Some(tip)) = (moved_on && self.mode != MergeMode::DryRun, tip) {
                return self.record_on_other_target(&view, unit, tip);
            }
            let issue_done = match self.mode {
                MergeMode::DryRun => None,
                _ => self.close(&view, &unit),
            };
            if !self.every
                && let Some(tip) = self.repo.tip(&unit.branch)?
                && let Err(refusal) = require_committed(self.cx, &unit, &tip)
            {
                self.warnings.push(refusal.message);
            }
            return Ok(Eligibility::Reported(Box::new(UnitReport {
                merge_commit: unit.merge_commit.clone(),
                issue_done,
                ..report_of(&unit, Verdict::AlreadyLanded)
            })));
        }
        // Whatever its state: work outside of the unit's scope does not land.
        if matches!(
            unit.state,
            Phase::Ready | Phase::Completed | Phase::Dispatched | Phase::Running | Phase::Merged
        ) && let Some(failure) = crate::units::scope::outside_scope(self.cx, &unit, &unit.writes)?
        {
            let help = format!("jit worktree diff {}", unit.id);
            return Err(Box::new(
                Refusal::new(Code::CheckFailed, format!("{}: {}", unit.id, failure.message)).help(help),
            ));
        }
        if !self.has_no_markers(&unit)?
            && let Some(failure) = crate::units::worktree_state::marked_conflict(self.cx, &unit)?
        {
            let help = format!(
                "git -C {} grep -nE '^(<<<<<<<|[|]{{7}}|>>>>>>>) '",
                shell_word(&unit.worktree_path)
            );
            return Err(Box::new(
                Refusal::new(Code::CheckFailed, format!("{}: {}", unit.id, failure.message)).help(help),
            ));
        }
        if !waits_for_landing(&unit) {
            return Err(match unit.state {
                Phase::Failed => {
                    let message = format!(
                        "{} failed ({}): mend it and try again first",
                        unit.id,
                        reason.unwrap_or("unknown")
                    );
                    let refusal = Refusal::new(Code::BadTransition, message);
                    Box::new(unit.after_failure().iter().fold(refusal, Refusal::help))
                }
                Phase::Provisioning => bad(
                    format!(
                        "the worktree of {} is being made, or that was cut short: there is nothing to merge yet",
                        unit.id
                    ),
                    format!("jit worktree retry {}", unit.id),
                ),
                Phase::Cleanup => bad(
                    format!(
                        "{} was given up, and is being removed, or that was cut short: there is nothing left to merge",
                        unit.id
                    ),
                    format!("jit worktree cleanup {}", unit.id),
                ),
                Phase::Dispatched | Phase::Running => {
                    bad(format!("{} is still being worked on", unit.id), status)
                }
                state => bad(
                    format!("{} is {state}: there is nothing to merge yet", unit.id),
                    status,
                ),
            });
        }
        // A unit whose conflict is resolved may have been refused for another reason.
        let goes_on = conflict
            || unit.state == Phase::Merging
            || unit.state == Phase::Completed && !unit.merge_conflicts.is_empty();
        if self.mode == MergeMode::Continue && !goes_on {
            let why = format!("{} is {} and has no conflict to go on from", unit.id, unit.state);
            return Err(bad(
                why,
                crate::landing::conflict_report::merge_command(self, &unit, ""),
            ));
        }
        let Some(tip) = self.repo.tip(&unit.branch)? else {
            return Err(no_branch(&unit));
        };
        let target = self.repo.require_tip(&self.target)?;
        let base = match self.repo.object(&format!("{}^{{commit}}", unit.base))? {
            Some(base) => base,
            None => self
                .repo
                .merge_base(&target, &tip)?
                .unwrap_or_else(|| tip.clone()),
        };
        let work = self.work(&view, unit, tip)?;
        drop(view);
        let about = (work.tip.as_str(), base.as_str());
        let mut landed = landed_as(&self.repo, &work.unit, about, (&self.target, &target))?;
        let mut is_others = false;
        if landed.is_none()
            && let Some(commit) = crate::landing::squash_base::squashed_with(&self.repo, &target, &work.tip)?
        {
            // Another unit that was built on this one was squashed.
            match was_made_on(&self.repo, &work.unit.branch, about)? {
                true => landed = Some(commit),
                false => is_others = true,
            }
        }
        if landed.is_none()
            && remote::open_for(&self.repo, work.unit.id.as_str()).is_some()
            && self.repo.carries(&target, &work.tip)?
        {
            // Others merged it with their own method: the target contains it up to here.
            landed = Some(target.clone());
        }
        if let Some(commit) = landed {
            if self.mode == MergeMode::DryRun {
                return Ok(Eligibility::Reported(Box::new(UnitReport {
                    merge_commit: Some(commit),
                    ..work.report(Verdict::AlreadyLanded)
                })));
            }
            self.begin(&work)?;
            let done = self.record(&work, &commit, None)?;
            return Ok(Eligibility::Reported(Box::new(UnitReport {
                merge_commit: Some(commit),
                issue_done: done,
                ..work.report(Verdict::AlreadyLanded)
            })));
        }
        if self.mode != MergeMode::DryRun {
            require_own_commits(self, &work, &target)?;
        }
        if let Err(refusal) = require_committed(self.cx, &work.unit, &work.tip) {
            // An interrupted landing left the unit in MERGING: it must not stay there.
            if work.unit.state == Phase::Merging && self.mode != MergeMode::DryRun {
                return Err(self.set_back(&work, &refusal)?);
            }
            return Err(refusal);
        }
        if let Some(refusal) = self.nothing_new(&work, &base, &target, is_others)? {
            let unit = match work.unit.state {
                // An interrupted landing left the unit in MERGING: it must not stay there.
                Phase::Merging if self.mode != MergeMode::DryRun => {
                    let facts = Facts {
                        error: Some(Failure {
                            reason: "no_commits".to_owned(),
                            message: refusal.message.clone(),
                            exit_code: None,
                            output: None,
                        }),
                        ..Facts::default()
                    };
                    crate::units::service::advance(self.cx, &work.unit.id, UnitInput::InstanceFailed, facts)?
                }
                _ => work.unit,
            };
            return Ok(Eligibility::Reported(Box::new(refused_report(
                &unit,
                Verdict::Nothing,
                &refusal,
            ))));
        }
        if !(self.repo.is_plain(&target, &work.tip) && self.scan.has_no_submodules(&work.tip)) {
            crate::landing::submodules::require_reachable_submodules(self, &work, &target)?;
        }
        Ok(Eligibility::Eligible(Box::new(work)))
    }

    /// The changes of the unit are known to have no conflict markers.
    fn has_no_markers(&self, unit: &Unit) -> Outcome<bool> {
        // The cached facts hold for the target of this run, and for paths that did not conflict.
        if unit.target != self.target || !unit.merge_conflicts.is_empty() {
            return Ok(false);
        }
        let tip = self.repo.tip(&unit.branch)?;
        Ok(tip.is_some_and(|tip| self.scan.has_no_markers(&tip)))
    }

    /// The branch on which the unit landed is gone, and this target contains all of it: records this target instead.
    fn record_on_other_target(&mut self, view: &View, unit: Unit, tip: String) -> Outcome<Eligibility> {
        let target = self.repo.require_tip(&self.target)?;
        let mut commit = target.clone();
        for known in unit.merge_commit.iter().chain([&tip]) {
            let is_there = self.repo.git().verify(&format!("{known}^{{commit}}"));
            if is_there.map_err(failed)?.is_some() && self.repo.is_ancestor(known, &target)? {
                commit.clone_from(known);
                break;
            }
        }
        let work = self.work(view, unit, tip)?;
        self.begin(&work)?;
        let issue_done = self.record(&work, &commit, None)?;
        Ok(Eligibility::Reported(Box::new(UnitReport {
            merge_commit: Some(commit),
            issue_done,
            ..work.report(Verdict::AlreadyLanded)
        })))
    }

    /// Returns whether a landed unit has something that its target lacks: later commits, or all of it, if the target
    /// was reset. LandingUnit that was reset away lands again only if the unit is named, not with `--all`.
    fn has_more(&self, unit: &Unit) -> Outcome<bool> {
        let Some(tip) = self.repo.tip(&unit.branch)? else {
            return Ok(false);
        };
        let target = self.repo.require_tip(&self.target)?;
        let landed = unit.merge_commit.as_deref();
        if self.repo.has(&target, &tip, landed)? {
            return Ok(false);
        }
        Ok(match landed {
            Some(landed) if self.every => !self.repo.has(landed, &tip, None)?,
            _ => true,
        })
    }

    /// Explains why there is nothing to land: the target contains all of it, perhaps through another unit, or it
    /// contained it and was reset since.
    fn nothing_new(
        &self,
        work: &LandingUnit,
        base: &str,
        target: &str,
        is_others: bool,
    ) -> Outcome<Option<Refusal>> {
        let id = &work.unit.id;
        let abandon = format!("jit worktree abandon {id} --reason <why>");
        if is_others || self.repo.is_ancestor(&work.tip, target)? {
            let message = format!("{id} has no commits that {} has not", self.target);
            return Ok(Some(Refusal::new(Code::Invalid, message).help(abandon)));
        }
        // Commits of others that the unit began with count only if the target never had them.
        if !self.repo.is_ancestor(&work.tip, base)? || !self.repo.was_on(&self.target, &work.tip)? {
            return Ok(None);
        }
        let message = format!(
            "{id} has no commits of its own, and {} was moved back behind those it began with",
            self.target
        );
        let shown = shell_word(&work.unit.worktree_path);
        let again = format!("git -C {shown} commit --allow-empty -m 'bring it back'");
        Ok(Some(
            Refusal::new(Code::Invalid, message).help(abandon).help(again),
        ))
    }

    pub(crate) fn work(&self, view: &View, unit: Unit, tip: String) -> Outcome<LandingUnit> {
        let unreadable = |e| refuse(Code::Io, e);
        let own = &self.cx.actor;
        let (mut issue, mut lease) = (None, None);
        if let Some(id) = &unit.issue_id {
            issue = state::issue(&*view.table, id).map_err(unreadable)?;
            let key = Resource::Issue(id.clone()).key();
            lease = state::lease_on(&*view.table, &key)
                .map_err(unreadable)?
                .filter(|lease| !lease.expired(&view.now));
        }
        let enforced = !matches!(self.cx.policy.enforce, Enforce::Off | Enforce::Warn);
        let actor = match &lease {
            Some(lease) => {
                let mine = lease.agent_id == own.agent_id || lease.obeys(own);
                if !mine && enforced {
                    let message = format!(
                        "the issue {} of {} is held by {}, so landing it is up to them",
                        unit.issue_id.as_ref().map_or("?", |id| id.as_str()),
                        unit.id,
                        lease.agent_id
                    );
                    let help = format!(
                        "ask {} to run: jit claim transfer {} --to {}",
                        lease.agent_id, lease.lease_id, own.agent_id
                    );
                    return Err(Box::new(Refusal::new(Code::NotHolder, message).help(help)));
                }
                Actor {
                    agent_id: lease.agent_id.clone(),
                    worktree_id: lease.worktree_id.clone(),
                }
            }
            None => own.clone(),
        };
        Ok(LandingUnit {
            unit,
            tip,
            issue,
            lease,
            actor,
        })
    }

    /// Predicts the merge of each unit with the current target, and lists its changes. The landing order is computed
    /// from this.
    pub(crate) fn places(&self, left: &[LandingUnit]) -> Outcome<Vec<Place>> {
        let target = self.repo.require_tip(&self.target)?;
        let tips: Vec<String> = left.iter().map(|work| work.tip.clone()).collect();
        let predicted = self.predictions.borrow_mut().of(&self.repo, &target, &tips)?;
        let view = crate::write_path::view(self.cx)?;
        let mut places = Vec::with_capacity(left.len());
        for (work, predicted) in left.iter().zip(predicted) {
            let waits = match &work.issue {
                Some(issue) => self.waits_in_order(&view, issue)?,
                None => BTreeSet::new(),
            };
            let after = left
                .iter()
                .filter(|other| {
                    other
                        .unit
                        .issue_id
                        .as_ref()
                        .is_some_and(|id| waits.contains(id.as_str()))
                })
                .map(LandingUnit::id);
            places.push(Place {
                id: work.id(),
                after: after.collect(),
                conflicts: predicted.conflicts,
                paths: predicted.changed.paths,
                since_ms: work.unit.created_at.ms(),
            });
        }
        Ok(places)
    }

    /// The issues that land before an issue. Asked once for each: an issue that landed since is not among those left.
    fn waits_in_order(&self, view: &View, issue: &Issue) -> Outcome<BTreeSet<String>> {
        let key = issue.id.to_string();
        if let Some(known) = self.waits.borrow().get(&key) {
            return Ok(known.clone());
        }
        // The parts of an issue land before it too: it is done after its parts.
        let parts = ready_queue::open_parts(&*view.table, &issue.id.key());
        let parts = parts.map_err(|e| refuse(Code::Io, e))?;
        let mut waits = self.waits_for(view, issue)?;
        waits.extend(parts.iter().map(ToString::to_string));
        self.waits.borrow_mut().insert(key, waits.clone());
        Ok(waits)
    }

    /// Every open issue that an issue depends on, directly or indirectly.
    pub(crate) fn waits_for(&self, view: &View, issue: &Issue) -> Outcome<BTreeSet<String>> {
        let unreadable = |e| refuse(Code::Io, e);
        let mut found = BTreeSet::new();
        let mut next = vec![issue.clone()];
        while let Some(one) = next.pop() {
            for id in ready_queue::open_dependencies(&*view.table, &one).map_err(unreadable)? {
                if found.insert(id.to_string()) {
                    next.extend(state::issue(&*view.table, &id).map_err(unreadable)?);
                }
            }
        }
        Ok(found)
    }

    /// Returns a refusal if a dependency of the unit's issue is not done.
    pub(crate) fn require_free(
        &self,
        work: &LandingUnit,
        but: &BTreeSet<String>,
    ) -> Outcome<Option<Box<Refusal>>> {
        let Some(issue) = &work.issue else {
            return Ok(None);
        };
        let view = crate::write_path::view(self.cx)?;
        let mut open = self.waits_for(&view, issue)?;
        open.retain(|id| !but.contains(id));
        if let Some(first) = open.first() {
            let message = format!("{} depends on {first}, which is not done", issue.id);
            let refusal = Refusal::new(Code::CheckFailed, message);
            return Ok(Some(Box::new(refusal.help(format!("jit issue show {first}")))));
        }
        self.landed_elsewhere(&view, issue)
    }

    /// Returns a refusal if the unit of a dependency landed on another branch and the target does not contain it.
    fn landed_elsewhere(&self, view: &View, issue: &Issue) -> Outcome<Option<Box<Refusal>>> {
        if issue.depends_on.is_empty() {
            return Ok(None);
        }
        let target = self.repo.require_tip(&self.target)?;
        let units = state::units(&*view.table).map_err(|e| refuse(Code::Io, e))?;
        for unit in units.iter().filter(|unit| unit.goes_to() != self.target) {
            let own = unit.issue_id.as_ref().filter(|id| issue.depends_on.contains(*id));
            let (Some(id), Some(commit), None) = (own, &unit.merge_commit, &unit.abandoned) else {
                continue;
            };
            // Another unit of the same issue may have landed here.
            let is_here = |other: &Unit| {
                other.issue_id.as_ref() == Some(id)
                    && other.merge_commit.is_some()
                    && other.goes_to() == self.target
            };
            // Use the unit's own commits, not all of the branch on which they landed.
            let names = [
                unit.landing_tip.clone().unwrap_or_default(),
                format!("refs/heads/{}", unit.branch),
                format!("{commit}^2"),
                commit.clone(),
            ];
            let mut work = Vec::new();
            for name in names.iter().filter(|name| !name.is_empty()) {
                work.extend(
                    self.repo
                        .git()
                        .verify(&format!("{name}^{{commit}}"))
                        .map_err(failed)?,
                );
            }
            let Some(tip) = work.first().cloned().filter(|_| !units.iter().any(is_here)) else {
                continue;
            };
            let mut is_there = false;
            for commit in &work {
                is_there = is_there || self.repo.has(&target, commit, None)?;
            }
            if is_there {
                continue;
            }
            let message = format!(
                "{} depends on {id}, which landed on {}, and {} has it not",
                issue.id,
                unit.goes_to(),
                self.target
            );
            let help = match unit.is_over() {
                true => format!("to bring it there, on {}: git merge {tip}", self.target),
                false => format!(
                    "jit worktree merge {} --into {}",
                    unit.id,
                    shell_word(&self.target)
                ),
            };
            return Ok(Some(Box::new(
                Refusal::new(Code::CheckFailed, message).help(help),
            )));
        }
        Ok(None)
    }

    /// The gates that an issue must pass to land: those in the log, and those that the target's copy of the issue has.
    /// The unit may have removed some from its own copy.
    fn gates_of(&self, issue: &Issue, on: &str, rules: &Rules) -> Outcome<BTreeSet<String>> {
        let own = rules.registry.required(&issue.kind, &issue.gates);
        let mut gates: BTreeSet<String> = own.into_iter().map(str::to_owned).collect();
        if let Some(found) = crate::landing::issue_file::issue_in(self, on, &issue.id)? {
            let there = rules.registry.required(&found.kind, &found.gates);
            // A gate that is defined neither in the log nor on the target requires nothing.
            let there = there
                .into_iter()
                .filter(|name| rules.registry.find(name).is_some());
            gates.extend(there.map(str::to_owned));
        }
        Ok(gates)
    }

    /// The gates of the issues and the checks of the target, which is at `on`. Refused if a gate needs a person's
    /// approval and has not passed.
    ///
    /// A gate whose command names the issue or the unit runs once for each. Any other gate runs once for all issues
    /// that have it.
    pub(crate) fn checks(&self, group: &[LandingUnit], on: &str, rules: &Rules) -> Outcome<Vec<Check>> {
        let mut checks: Vec<Check> = Vec::new();
        let view = crate::write_path::view(self.cx)?;
        for work in group {
            let Some(issue) = &work.issue else { continue };
            for name in &self.gates_of(issue, on, rules)? {
                let gate = rules.registry.find(name);
                let automatic = gate.and_then(|gate| Some((gate.command()?, gate.timeout())));
                if let Some((command, timeout)) = automatic {
                    let is_own = ["JIT_ISSUE", "JIT_UNIT"]
                        .iter()
                        .any(|word| command.contains(word));
                    let same = |one: &&mut Check| one.kind == Kind::Gate && one.name == *name;
                    match checks.iter_mut().find(same).filter(|_| !is_own) {
                        Some(check) => check.issues.push(issue.id.to_string()),
                        None => checks.push(Check {
                            kind: Kind::Gate,
                            name: name.clone(),
                            command: command.to_owned(),
                            timeout,
                            issues: vec![issue.id.to_string()],
                            unit: is_own.then(|| work.id()),
                        }),
                    }
                    continue;
                }
                let judged =
                    state::gate_result(&*view.table, &issue.id, name).map_err(|e| refuse(Code::Io, e))?;
                let counts =
                    |judged: &GateResult| judged.passed && rules.policy.is_current(name, judged, false);
                if gate.is_some() && judged.as_ref().is_some_and(counts) {
                    continue;
                }
                let (why, help) = match gate {
                    Some(_) if judged.is_some_and(|judged| judged.passed) => (
                        "has been defined anew since it passed",
                        format!("jit gate pass {} {}", issue.id, shell_word(name)),
                    ),
                    Some(_) => (
                        "has not passed",
                        format!("jit gate pass {} {}", issue.id, shell_word(name)),
                    ),
                    None => ("is not defined there", "jit gate list".to_owned()),
                };
                let message = format!(
                    "{} has to pass the gate {name:?} to land on {}, and it {why}",
                    issue.id, self.target
                );
                return Err(Box::new(Refusal::new(Code::GateNotPassed, message).help(help)));
            }
        }
        checks.extend(
            rules
                .merging
                .validate
                .iter()
                .enumerate()
                .map(|(n, command)| Check {
                    kind: Kind::Validate,
                    name: format!("{VALIDATE}-{}", n + 1),
                    command: command.clone(),
                    timeout: rules.merging.validate_timeout,
                    issues: Vec::new(),
                    unit: None,
                }),
        );
        for check in &checks {
            let name = if check.kind == Kind::Validate {
                VALIDATE
            } else {
                &check.name
            };
            self.require_trusted(check.kind, name, &check.command)?;
        }
        Ok(checks)
    }

    pub(crate) fn require_trusted(&self, kind: Kind, name: &str, text: &str) -> Outcome<()> {
        crate::approvals::approvals()?.require(&crate::approvals::repository(self.cx), kind, name, text)
    }
}
