//! Merging units into their target (H1 to H6), and who is in whose way (H8).
//!
//! What must hold:
//!
//! - one landing at a time for each target: whoever else wants to waits in the kernel's queue, for a bounded time;
//! - gates, checks and rules are read from the target, so a unit cannot weaken its own;
//! - nothing of the unit is written down as begun before everything that can refuse has been asked;
//! - a landing that was cut off anywhere is found again by the next one: what the target has is recorded, what it does not
//!   have is merged again; nothing lands twice;
//! - the unit's issue is done when the target has the unit, in the same run.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use jit_core::command::{Change, Command, Reply as Decided};
use jit_core::ids::UnitId;
use jit_core::issue::{Issue, State};
use jit_core::lease::{Actor, Lease, Resource};
use jit_core::merge_order::{self, Candidate as Place};
use jit_core::policy::{Enforce, Policy};
use jit_core::queue;
use jit_core::refusal::{Code, Refusal};
use jit_core::state;
use jit_core::unit::{Clash, Facts, Failure, Input, Phase, Unit};

use super::{App, Kept, refuse, shell_word};
use crate::config::{Config, Merging, Sources};
use crate::gates::Registry;
use crate::git::run::default_branch;
use crate::git::snapshot::{Folder, without_jit};
use crate::git::{Git, GitError};
use crate::landing::candidate::{Added, Candidate, Coming, Means, Step, rule_name};
use crate::landing::detect::{self, Merge};
use crate::landing::landed::{Move, landed_as, require_movable};
use crate::landing::report::{ConflictReport, MergeReport, SettledPath, UnitReport, Verdict, hunks};
use crate::landing::tested::{Check, Validation, Verdict as Tried, digest};
use crate::landing::{Repo, failed, live, step};
use crate::os::clock;
use crate::request::{Answer, Reply};
use crate::store::disk::{Disk as _, RealDisk};
use crate::store::file::io_refusal;
use crate::store::{Outcome, View};
use crate::trust::Kind;

/// The target may move so often under a landing before it gives up.
const ROUNDS: usize = 50;
/// So many conflicts are told with their commits and lines.
const TOLD: usize = 20;
/// Who works in a unit by hand.
const MANUAL: &str = "manual";
/// The name under which checks of merged work are approved.
pub const VALIDATE: &str = "merge.validate";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeMode {
    Land,
    /// Say what would happen.
    DryRun,
    /// A person settled the conflicts in the unit's worktree.
    Continue,
    /// Put the conflict into the unit's own worktree.
    SendBack,
}

/// What is to be merged.
#[derive(Debug, Clone)]
pub struct MergeAsk {
    /// Unit, issue, branch or path; none means the unit of this worktree.
    pub units: Vec<String>,
    /// Every unit that is ready for it.
    pub all: bool,
    pub into: Option<String>,
    pub mode: MergeMode,
}

/// What holds on the target.
struct Rules {
    merging: Merging,
    registry: Registry,
    policy: Policy,
}

/// A unit on its way, with what is known about it.
#[derive(Debug, Clone)]
struct Work {
    unit: Unit,
    tip: String,
    issue: Option<Issue>,
    lease: Option<Lease>,
    /// Who its issue is closed by.
    actor: Actor,
}

/// What becomes of a unit before anything is merged.
enum Sorted {
    Work(Box<Work>),
    Told(Box<UnitReport>),
}

impl Work {
    fn id(&self) -> String {
        self.unit.id.to_string()
    }

    fn report(&self, verdict: Verdict) -> UnitReport {
        report_of(&self.unit, verdict)
    }

    fn coming(&self, target: &str) -> Coming {
        let title = self.issue.as_ref().map(|issue| format!(": {}", issue.title));
        let mut trailers = vec![("JIT-Unit", self.id())];
        if let Some(lease) = &self.lease {
            trailers.push(("JIT-Lease", lease.lease_id.to_string()));
        }
        trailers.push(("JIT-Agent", self.actor.agent_id.to_string()));
        if let Some(worktree) = &self.unit.worktree_id {
            trailers.push(("JIT-Worktree", worktree.to_string()));
        }
        if let Some(issue) = &self.issue {
            trailers.push(("Issue", issue.id.to_string()));
        }
        Coming {
            unit: self.id(),
            tip: self.tip.clone(),
            title: format!("Land {} on {target}{}", self.unit.id, title.unwrap_or_default()),
            trailers,
        }
    }
}

fn report_of(unit: &Unit, verdict: Verdict) -> UnitReport {
    UnitReport {
        unit: unit.id.to_string(),
        branch: unit.branch.clone(),
        issue_id: unit.issue_id.as_ref().map(ToString::to_string),
        verdict,
        how: None,
        merge_commit: None,
        conflicts: Vec::new(),
        settled: Vec::new(),
        validation: Vec::new(),
        issue_done: None,
        code: None,
        message: None,
        help: Vec::new(),
    }
}

fn told(unit: &Unit, verdict: Verdict, refusal: &Refusal) -> UnitReport {
    UnitReport {
        code: Some(refusal.code.as_str()),
        message: Some(refusal.message.clone()),
        help: refusal.help.clone(),
        ..report_of(unit, verdict)
    }
}

/// One run of merging, for one target.
struct Run<'a> {
    app: &'a App,
    repo: Repo,
    target: String,
    mode: MergeMode,
    reports: Vec<UnitReport>,
    warnings: Vec<String>,
}

impl App {
    fn landing_repo(&self) -> Outcome<Repo> {
        let Some(common) = &self.place.common_dir else {
            return Err(refuse(Code::Invalid, "without git there is nothing to merge"));
        };
        Repo::new(common, &self.place.control_dir).map_err(|e| io_refusal("use", &self.place.control_dir, &e))
    }

    /// The unit that is meant: by its name, its issue, its branch or its folder; without a word that of this worktree.
    pub(super) fn unit_meant(&self, view: &View, text: Option<&str>) -> Outcome<Unit> {
        let units = state::units(&*view.table).map_err(|e| refuse(Code::Io, e))?;
        let mut living: Vec<Unit> = units.into_iter().filter(|unit| !unit.is_over()).collect();
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let at = |unit: &Unit, path: &Path| real(Path::new(&unit.worktree_path)) == real(path);
        let found = match text {
            None => {
                let root = self.place.worktree_root.as_deref();
                living
                    .iter()
                    .position(|unit| root.is_some_and(|root| at(unit, root)))
            }
            Some(text) => {
                let by = |test: &dyn Fn(&Unit) -> bool| living.iter().position(test);
                let issue = || {
                    let id = text
                        .parse()
                        .ok()
                        .and_then(|text| self.resolve(view, &text).ok())?
                        .id;
                    by(&|unit| unit.issue_id.as_ref() == Some(&id))
                };
                by(&|unit| unit.id.as_str() == text)
                    .or_else(|| by(&|unit| unit.branch == text))
                    .or_else(issue)
                    .or_else(|| by(&|unit| at(unit, &self.place.start.join(text))))
            }
        };
        match (found, text) {
            (Some(n), _) => Ok(living.swap_remove(n)),
            (None, Some(text)) => {
                let shown: String = text.chars().take(80).collect();
                let message = format!("no unit has the name, issue, branch or folder {shown:?}");
                Err(Box::new(
                    Refusal::new(Code::NotFound, message).help("jit worktree list"),
                ))
            }
            (None, None) => Err(Box::new(
                Refusal::new(
                    Code::NotFound,
                    "this worktree belongs to no unit: say which one is meant",
                )
                .help("jit worktree list"),
            )),
        }
    }

    pub(super) fn merge_units(&self, ask: &MergeAsk) -> Outcome<Answer> {
        let repo = self.landing_repo()?;
        let view = self.view()?;
        let units = match (ask.all, ask.units.as_slice()) {
            (true, _) => {
                let all = state::units(&*view.table).map_err(|e| refuse(Code::Io, e))?;
                all.into_iter()
                    .filter(|unit| ask.into.as_ref().is_none_or(|into| unit.target == *into))
                    .filter(waits_for_landing)
                    .collect()
            }
            (false, []) => vec![self.unit_meant(&view, None)?],
            (false, named) => {
                let mut units: Vec<Unit> = Vec::new();
                for text in named {
                    let unit = self.unit_meant(&view, Some(text))?;
                    if !units.iter().any(|known| known.id == unit.id) {
                        units.push(unit);
                    }
                }
                units
            }
        };
        drop(view);
        let target = self.landing_target(&repo, ask, &units)?;
        let _turn = match ask.mode {
            MergeMode::DryRun => None,
            _ => Some(self.landing_turn(&target)?),
        };
        step("locked");
        let mut run = Run {
            app: self,
            repo,
            target,
            mode: ask.mode,
            reports: Vec::new(),
            warnings: self.warnings.clone(),
        };
        let asked: Vec<UnitId> = units.into_iter().map(|unit| unit.id).collect();
        let report = run.all(&asked, ask.all)?;
        let warnings = run.warnings;
        Ok(Answer {
            reply: Reply::Merge(Box::new(report)),
            warnings,
        })
    }

    fn landing_target(&self, repo: &Repo, ask: &MergeAsk, units: &[Unit]) -> Outcome<String> {
        let targets: BTreeSet<&str> = units.iter().map(|unit| unit.target.as_str()).collect();
        let target = match (&ask.into, targets.first()) {
            (Some(into), _) => into.clone(),
            (None, Some(first)) if targets.len() == 1 => (*first).to_owned(),
            (None, Some(_)) => {
                let names: Vec<&str> = targets.into_iter().collect();
                let message = format!("these units have different targets: {}", names.join(", "));
                return Err(Box::new(
                    Refusal::new(Code::Invalid, message).help("jit worktree merge --all --into <branch>"),
                ));
            }
            (None, None) => self.usual_target(repo)?,
        };
        if let Some(unit) = units.iter().find(|unit| unit.branch == target) {
            let message = format!("{target} is the branch of {} itself", unit.id);
            return Err(refuse(Code::Invalid, message));
        }
        repo.require_tip(&target)?;
        Ok(target)
    }

    /// Where work goes when nobody says: as configured, else the default branch.
    fn usual_target(&self, repo: &Repo) -> Outcome<String> {
        for name in self.config.merging().target {
            if repo.tip(&name)?.is_some() {
                return Ok(name);
            }
        }
        let found = default_branch(&self.place, None).map_err(failed)?;
        found.map(|branch| branch.name).ok_or_else(|| {
            Box::new(
                Refusal::new(Code::NotFound, "it is not known which branch work goes to")
                    .help("jit config set merge.target <branch>"),
            )
        })
    }

    /// Waits until nobody else lands on this target.
    fn landing_turn(&self, target: &str) -> Outcome<Box<dyn crate::store::disk::LockGuard>> {
        let control = &self.place.control_dir;
        let disk = RealDisk::open(control).map_err(|e| io_refusal("open", control, &e))?;
        let name = format!("locks/land-{}.lock", digest(target));
        disk.make_dir("locks")
            .map_err(|e| io_refusal("use", &control.join("locks"), &e))?;
        let wait = self.config.merging().wait;
        disk.lock(&name, wait).map_err(|e| match e.kind() {
            std::io::ErrorKind::TimedOut => Box::new(
                Refusal::new(
                    Code::Busy,
                    format!(
                        "somebody else has been landing on {target} for {}s",
                        wait.as_secs()
                    ),
                )
                .help("jit config set merge.wait_secs <longer>"),
            ),
            _ => io_refusal("lock", &control.join(&name), &e),
        })
    }

    /// Commands of merging that need to be approved, as this worktree has them.
    pub(super) fn merge_commands(&self) -> Vec<(Kind, String, String)> {
        let merging = self.config.merging();
        let rules = merging
            .policy
            .commands()
            .map(|(pattern, text)| (Kind::Validate, rule_name(pattern), text.to_owned()));
        let checks = merging
            .validate
            .iter()
            .map(|text| (Kind::Validate, VALIDATE.to_owned(), text.clone()));
        rules.chain(checks).collect()
    }

    /// Who would be in whose way.
    pub(super) fn conflicts(&self, into: Option<&str>) -> Outcome<Answer> {
        let repo = self.landing_repo()?;
        let target = match into {
            Some(into) => into.to_owned(),
            None => self.usual_target(&repo)?,
        };
        let view = self.view()?;
        let units = state::units(&*view.table).map_err(|e| refuse(Code::Io, e))?;
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let known: Vec<_> = units
            .iter()
            .filter(|unit| !unit.is_over())
            .map(|unit| (real(Path::new(&unit.worktree_path)), unit.id.to_string()))
            .collect();
        let picture = live::picture(&repo, &target, |root| {
            let root = real(root);
            known
                .iter()
                .find(|(path, _)| *path == root)
                .map(|(_, id)| id.clone())
        })?;
        self.read_answer(&view, Reply::Conflicts(Box::new(picture)))
    }

    /// Lands the unit; what is left of it is removed afterwards.
    pub(super) fn finish_unit(&self, text: Option<&str>) -> Outcome<Answer> {
        let unit = self.unit_meant(&self.view()?, text)?;
        let mut answer = self.merge_units(&MergeAsk {
            units: vec![unit.id.to_string()],
            all: false,
            into: None,
            mode: MergeMode::Land,
        })?;
        if let Reply::Merge(report) = &mut answer.reply
            && report.units.iter().all(|one| one.verdict.is_good())
        {
            let next = self.clean_up_after_landing(&unit);
            report.next.extend(next);
        }
        Ok(answer)
    }

    /// The place where the removal of a landed unit is called. Until then the caller is told how.
    fn clean_up_after_landing(&self, unit: &Unit) -> Option<String> {
        Some(format!("jit worktree cleanup {}", unit.id))
    }

    fn advance_unit(&self, unit: &UnitId, input: Input, facts: Facts) -> Outcome<Unit> {
        let command = Command::AdvanceUnit {
            unit: unit.clone(),
            input,
            facts: Box::new(facts),
        };
        match self.transact_as(None, &command, Kept::default())?.reply {
            Decided::Unit(unit) => Ok(*unit),
            _ => Err(refuse(Code::Io, "the log has no answer to that")),
        }
    }
}

/// Whether a unit can be on its way to the target at all.
fn waits_for_landing(unit: &Unit) -> bool {
    let conflict = unit
        .error
        .as_ref()
        .is_some_and(|error| error.reason == "merge_conflict");
    match unit.state {
        Phase::Ready | Phase::Completed | Phase::Merging => true,
        Phase::Dispatched | Phase::Running => unit.agent.as_deref() == Some(MANUAL),
        Phase::Failed => conflict,
        Phase::Idle | Phase::Provisioning | Phase::Merged | Phase::Cleanup => false,
    }
}

impl Run<'_> {
    fn all(&mut self, asked: &[UnitId], every: bool) -> Outcome<MergeReport> {
        let mut left: Vec<Work> = Vec::new();
        for id in asked {
            let unit = jit_core::unit::require(&*self.app.view()?.table, id).map_err(|stop| match stop {
                jit_core::refusal::Stop::Refused(refusal) => refusal,
                jit_core::refusal::Stop::Unreadable(e) => refuse(Code::Io, e),
            })?;
            match self.sort(unit.clone()) {
                Ok(Sorted::Work(work)) => left.push(*work),
                Ok(Sorted::Told(report)) if every && report.verdict == Verdict::Nothing => {}
                Ok(Sorted::Told(report)) => self.reports.push(*report),
                Err(refusal) if asked.len() == 1 => return Err(refusal),
                Err(refusal) => self.reports.push(told(&unit, Verdict::Refused, &refusal)),
            }
        }
        let mut order: Vec<String> = Vec::new();
        let mut overlap = None;
        while !left.is_empty() {
            let rules = self.rules()?;
            let places = self.places(&left)?;
            overlap.get_or_insert_with(|| merge_order::overlaps(&places));
            let names = merge_order::order(&places, clock::wall_ms());
            let clean = |id: &String| places.iter().any(|one| one.id == *id && one.conflicts == 0);
            // Tried together only what is tried at all, and merges as it is.
            let tried = !rules.merging.validate.is_empty() || left.iter().any(|work| work.issue.is_some());
            let most = if tried && self.mode == MergeMode::Land {
                rules.merging.batch
            } else {
                1
            };
            let many = names.iter().take(most).take_while(|id| clean(id)).count().max(1);
            let mut group = Vec::new();
            for id in names.iter().take(many) {
                if let Some(n) = left.iter().position(|work| work.id() == *id) {
                    group.push(left.swap_remove(n));
                }
            }
            order.extend(group.iter().map(Work::id));
            if self.mode == MergeMode::DryRun {
                for work in &group {
                    let after: BTreeSet<String> = order.iter().cloned().collect();
                    let report = self.rehearse(work, &rules, &after)?;
                    self.reports.push(report);
                }
            } else if let Err(refusal) = self.group(group.clone(), &rules) {
                if asked.len() == 1 {
                    return Err(refusal);
                }
                for work in &group {
                    if !self.reports.iter().any(|one| one.unit == work.id()) {
                        self.reports.push(told(&work.unit, Verdict::Refused, &refusal));
                    }
                }
            }
        }
        let place = |report: &UnitReport| order.iter().position(|id| *id == report.unit);
        self.reports.sort_by_key(place);
        let landed: Vec<String> = self
            .reports
            .iter()
            .filter(|one| one.verdict == Verdict::Landed)
            .map(|one| one.branch.clone())
            .collect();
        let next = if landed.is_empty() {
            Vec::new()
        } else {
            self.push(&landed)?
        };
        Ok(MergeReport {
            target_commit: self.repo.require_tip(&self.target)?,
            target: self.target.clone(),
            dry_run: self.mode == MergeMode::DryRun,
            order,
            units: std::mem::take(&mut self.reports),
            overlap: overlap.unwrap_or_default(),
            next,
        })
    }

    /// What of the target's own files has a say. From a folder of its own: the target may be checked out nowhere.
    fn rules(&self) -> Outcome<Rules> {
        let folder = Folder::make(self.repo.scratch()).map_err(|e| refuse(Code::Io, e))?;
        let jit = folder.path.join(".jit");
        let tip = self.repo.require_tip(&self.target)?;
        for name in ["config.toml", "gates/registry.json"] {
            let object = format!("{tip}:.jit/{name}");
            if self.repo.git().verify(&object).map_err(failed)?.is_none() {
                continue;
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
            ..Sources::from_process(&self.app.place)
        };
        let config = Config::load(&sources).map_err(|e| refuse(Code::Config, on_target(e.to_string())))?;
        let registry = Registry::load(&jit).map_err(|mut refusal| {
            refusal.message = on_target(refusal.message);
            refusal
        })?;
        let mut policy = config.policy();
        for (name, gate) in registry.iter() {
            let kinds = gate.required_for().iter();
            policy
                .gates_for
                .extend(kinds.map(|kind| (kind.clone(), name.to_string())));
        }
        Ok(Rules {
            merging: config.merging(),
            registry,
            policy,
        })
    }

    /// Looks at a unit before anything is merged.
    fn sort(&mut self, unit: Unit) -> Outcome<Sorted> {
        let view = self.app.view()?;
        let bad = |why: String, help: String| Box::new(Refusal::new(Code::BadTransition, why).help(help));
        let status = format!("jit worktree status {}", unit.id);
        let reason = unit.error.as_ref().map(|error| error.reason.as_str());
        let conflict = unit.state == Phase::Failed && reason == Some("merge_conflict");
        if unit.state == Phase::Merged {
            let issue_done = self.close(&view, &unit);
            return Ok(Sorted::Told(Box::new(UnitReport {
                merge_commit: unit.merge_commit.clone(),
                issue_done,
                ..report_of(&unit, Verdict::AlreadyLanded)
            })));
        }
        if !waits_for_landing(&unit) {
            return Err(match unit.state {
                Phase::Failed => bad(
                    format!(
                        "{} failed ({}): mend it and try again first",
                        unit.id,
                        reason.unwrap_or("unknown")
                    ),
                    format!("jit worktree retry {}", unit.id),
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
        if self.mode == MergeMode::Continue && !conflict && unit.state != Phase::Merging {
            let why = format!("{} is {} and has no conflict to go on from", unit.id, unit.state);
            return Err(bad(why, format!("jit worktree merge {}", unit.id)));
        }
        let Some(tip) = self.repo.tip(&unit.branch)? else {
            let message = format!("the branch {} of {} is not there", unit.branch, unit.id);
            return Err(Box::new(Refusal::new(Code::NotFound, message).help(status)));
        };
        let target = self.repo.require_tip(&self.target)?;
        let base = match self
            .repo
            .git()
            .verify(&format!("{}^{{commit}}", unit.base))
            .map_err(failed)?
        {
            Some(base) => base,
            None => self
                .repo
                .merge_base(&target, &tip)?
                .unwrap_or_else(|| tip.clone()),
        };
        let work = self.work(&view, unit, tip)?;
        drop(view);
        let about = (work.unit.branch.as_str(), work.tip.as_str(), base.as_str());
        if let Some(commit) = landed_as(&self.repo, about, &target, work.unit.state == Phase::Merging)? {
            if self.mode == MergeMode::DryRun {
                return Ok(Sorted::Told(Box::new(UnitReport {
                    merge_commit: Some(commit),
                    ..work.report(Verdict::AlreadyLanded)
                })));
            }
            self.begin(&work)?;
            let done = self.record(&work, &commit)?;
            return Ok(Sorted::Told(Box::new(UnitReport {
                merge_commit: Some(commit),
                issue_done: done,
                ..work.report(Verdict::AlreadyLanded)
            })));
        }
        self.require_committed(&work)?;
        if self.repo.is_ancestor(&work.tip, &base)? || self.repo.is_ancestor(&work.tip, &target)? {
            let id = &work.unit.id;
            let refusal = Refusal::new(
                Code::Invalid,
                format!("{id} has no commits that {} has not", self.target),
            )
            .help(format!("jit worktree abandon {id} --reason <why>"));
            return Ok(Sorted::Told(Box::new(told(
                &work.unit,
                Verdict::Nothing,
                &refusal,
            ))));
        }
        Ok(Sorted::Work(Box::new(work)))
    }

    fn work(&self, view: &View, unit: Unit, tip: String) -> Outcome<Work> {
        let unreadable = |e| refuse(Code::Io, e);
        let own = &self.app.actor;
        let (mut issue, mut lease) = (None, None);
        if let Some(id) = &unit.issue_id {
            issue = state::issue(&*view.table, id).map_err(unreadable)?;
            let key = Resource::Issue(id.clone()).key();
            lease = state::lease_on(&*view.table, &key)
                .map_err(unreadable)?
                .filter(|lease| !lease.expired(&view.now));
        }
        let enforced = !matches!(self.app.policy.enforce, Enforce::Off | Enforce::Warn);
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
                    let help = format!("jit claim transfer {} --to {}", lease.lease_id, own.agent_id);
                    return Err(Box::new(Refusal::new(Code::NotHolder, message).help(help)));
                }
                Actor {
                    agent_id: lease.agent_id.clone(),
                    worktree_id: lease.worktree_id.clone(),
                }
            }
            None => own.clone(),
        };
        Ok(Work {
            unit,
            tip,
            issue,
            lease,
            actor,
        })
    }

    /// What is not committed would be left behind.
    fn require_committed(&self, work: &Work) -> Outcome<()> {
        let root = Path::new(&work.unit.worktree_path);
        if !root.is_dir() {
            return Ok(());
        }
        let shown = shell_word(&work.unit.worktree_path);
        let refuse =
            |why: String, help: String| Err(Box::new(Refusal::new(Code::Uncommitted, why).help(help)));
        let git_dir = Git::at(root)
            .args(["rev-parse", "--absolute-git-dir"])
            .line()
            .map_err(failed)?;
        let git_dir = Path::new(&git_dir);
        let unfinished = [
            ("MERGE_HEAD", "merge", "git commit"),
            ("CHERRY_PICK_HEAD", "cherry-pick", "git cherry-pick --continue"),
            ("rebase-merge", "rebase", "git rebase --continue"),
            ("rebase-apply", "rebase", "git rebase --continue"),
        ];
        for (file, what, help) in unfinished {
            if git_dir.join(file).exists() {
                let why = format!("a {what} in the worktree of {} is not finished", work.unit.id);
                return refuse(why, format!("cd {shown}, then: {help}"));
            }
        }
        // What jit itself writes there is in the log.
        let status = Git::at(root)
            .args(["--no-optional-locks", "status", "--porcelain", "-z"])
            .args(["--untracked-files=normal", "--ignore-submodules=none", "--", "."])
            .args([":(top,exclude).jit/issues", ":(top,exclude).jit/gates/results"])
            .run()
            .map_err(failed)?;
        if !status.is_empty() {
            let first = status
                .split(|b| *b == 0)
                .find(|one| !one.is_empty())
                .unwrap_or_default();
            let first = String::from_utf8_lossy(first.get(3..).unwrap_or(first)).into_owned();
            let why = format!(
                "{} has work that is not committed, {first:?} for one",
                work.unit.id
            );
            return refuse(why, format!("git -C {shown} add -A && git -C {shown} commit"));
        }
        let head = Git::at(root).verify("HEAD^{commit}").map_err(failed)?;
        if head.as_deref() != Some(work.tip.as_str()) {
            let why = format!(
                "the worktree of {} is not on its branch {}, and what is committed there would be left behind",
                work.unit.id, work.unit.branch
            );
            let branch = shell_word(&work.unit.branch);
            return refuse(
                why,
                format!("git -C {shown} log {branch}..HEAD; git -C {shown} switch {branch}"),
            );
        }
        Ok(())
    }

    /// How each would merge with the target as it is, and what it changes: what the order is made of.
    fn places(&self, left: &[Work]) -> Outcome<Vec<Place>> {
        let target = self.repo.require_tip(&self.target)?;
        let tips: Vec<String> = left.iter().map(|work| work.tip.clone()).collect();
        let changes = self.repo.changes(&target, &tips)?;
        let pairs: Vec<(String, String)> = tips.iter().map(|tip| (target.clone(), tip.clone())).collect();
        let merges = detect::merges(self.repo.git(), &target, &pairs).map_err(failed)?;
        let view = self.app.view()?;
        let mut places = Vec::with_capacity(left.len());
        for ((work, (_, changed)), merge) in left.iter().zip(changes).zip(merges) {
            let waits = match &work.issue {
                Some(issue) => self.waits_for(&view, issue)?,
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
                .map(Work::id);
            places.push(Place {
                id: work.id(),
                after: after.collect(),
                conflicts: if merge.clean {
                    0
                } else {
                    merge.conflicts.len().max(1)
                },
                paths: changed.paths,
                since_ms: work.unit.created_at.ms(),
            });
        }
        Ok(places)
    }

    /// Everything open that an issue depends on, at whatever distance.
    fn waits_for(&self, view: &View, issue: &Issue) -> Outcome<BTreeSet<String>> {
        let unreadable = |e| refuse(Code::Io, e);
        let mut found = BTreeSet::new();
        let mut next = vec![issue.clone()];
        while let Some(one) = next.pop() {
            for id in queue::open_dependencies(&*view.table, &one).map_err(unreadable)? {
                if found.insert(id.to_string()) {
                    next.extend(state::issue(&*view.table, &id).map_err(unreadable)?);
                }
            }
        }
        Ok(found)
    }

    /// A refusal if something that the unit's issue depends on is not done.
    fn require_free(&self, work: &Work, but: &BTreeSet<String>) -> Outcome<Option<Box<Refusal>>> {
        let Some(issue) = &work.issue else {
            return Ok(None);
        };
        let view = self.app.view()?;
        let mut open = self.waits_for(&view, issue)?;
        open.retain(|id| !but.contains(id));
        Ok(open.first().map(|first| {
            let message = format!("{} depends on {first}, which is not done", issue.id);
            Box::new(Refusal::new(Code::CheckFailed, message).help(format!("jit issue show {first}")))
        }))
    }

    /// Gates of the issue and the checks of the target. Refused where one can only be passed by a person.
    fn checks(&self, group: &[Work], rules: &Rules) -> Outcome<Vec<Check>> {
        let mut checks: Vec<Check> = Vec::new();
        let view = self.app.view()?;
        for work in group {
            let Some(issue) = &work.issue else { continue };
            for name in rules.registry.required(&issue.kind, &issue.gates) {
                let gate = rules.registry.find(name);
                let automatic = gate.and_then(|gate| Some((gate.command()?, gate.timeout())));
                if let Some((command, timeout)) = automatic {
                    if !checks
                        .iter()
                        .any(|one| one.kind == Kind::Gate && one.name == name)
                    {
                        checks.push(Check {
                            kind: Kind::Gate,
                            name: name.to_owned(),
                            command: command.to_owned(),
                            timeout,
                            issue: Some(issue.id.to_string()),
                        });
                    }
                    continue;
                }
                let judged =
                    state::gate_result(&*view.table, &issue.id, name).map_err(|e| refuse(Code::Io, e))?;
                if gate.is_some() && judged.is_some_and(|judged| judged.passed) {
                    continue;
                }
                let (why, help) = match gate {
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
                    issue: None,
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

    fn require_trusted(&self, kind: Kind, name: &str, text: &str) -> Outcome<()> {
        self.app
            .approvals()?
            .require(&self.app.repository(), kind, name, text)
    }

    /// Only says what would happen.
    fn rehearse(&self, work: &Work, rules: &Rules, coming: &BTreeSet<String>) -> Outcome<UnitReport> {
        let agent = self.app.actor.agent_id.to_string();
        let may_run = |kind: Kind, name: &str, text: &str| self.require_trusted(kind, name, text);
        let means = Means {
            strategy: rules.merging.strategy,
            policy: &rules.merging.policy,
            agent: &agent,
            may_run: &may_run,
        };
        let issues: BTreeSet<String> = coming.clone();
        let view = self.app.view()?;
        let units = state::units(&*view.table).map_err(|e| refuse(Code::Io, e))?;
        let but: BTreeSet<String> = units
            .iter()
            .filter(|unit| issues.contains(unit.id.as_str()))
            .filter_map(|unit| unit.issue_id.as_ref().map(ToString::to_string))
            .collect();
        if let Some(refusal) = self.require_free(work, &but)? {
            return Ok(told(&work.unit, Verdict::Waiting, &refusal));
        }
        Ok(
            match Candidate::on(&self.repo, &self.target)?.add(&work.coming(&self.target), &means)? {
                Added::Yes(candidate) => UnitReport {
                    how: candidate.steps.last().map(|step| step.how),
                    settled: candidate.steps.last().map_or_else(Vec::new, settled),
                    ..work.report(Verdict::Clean)
                },
                Added::Nothing(_) => work.report(Verdict::Nothing),
                Added::NotForward(_) => told(&work.unit, Verdict::Refused, &self.not_forward(work)),
                Added::Conflict(_, merge) => self.conflict_report(work, &merge)?,
            },
        )
    }

    fn not_forward(&self, work: &Work) -> Refusal {
        let message = format!(
            "{} has moved on since {} left it, and merge.strategy is ff",
            self.target, work.unit.id
        );
        let shown = shell_word(&work.unit.worktree_path);
        Refusal::new(Code::NotAllowed, message)
            .help(format!("git -C {shown} rebase {}", shell_word(&self.target)))
    }

    /// Lands these together, or finds out which of them cannot.
    fn group(&mut self, mut group: Vec<Work>, rules: &Rules) -> Outcome<()> {
        let agent = self.app.actor.agent_id.to_string();
        for _ in 0..ROUNDS {
            let mut free = Vec::with_capacity(group.len());
            let own: BTreeSet<String> = group
                .iter()
                .filter_map(|work| work.unit.issue_id.as_ref().map(ToString::to_string))
                .collect();
            for work in group {
                match self.require_free(&work, &own)? {
                    Some(refusal) => self.reports.push(told(&work.unit, Verdict::Waiting, &refusal)),
                    None => free.push(work),
                }
            }
            group = free;
            if group.is_empty() {
                return Ok(());
            }
            let mut candidate = Candidate::on(&self.repo, &self.target)?;
            let mut apart = false;
            for work in &group {
                let app = self.app;
                let may_run = |kind: Kind, name: &str, text: &str| {
                    app.approvals()?.require(&app.repository(), kind, name, text)
                };
                let means = Means {
                    strategy: rules.merging.strategy,
                    policy: &rules.merging.policy,
                    agent: &agent,
                    may_run: &may_run,
                };
                match candidate.add(&work.coming(&self.target), &means)? {
                    Added::Yes(more) => candidate = more,
                    // Another one of the group brought it.
                    Added::Nothing(same) => {
                        candidate = same;
                        apart = group.len() > 1;
                    }
                    Added::NotForward(_) if group.len() == 1 => {
                        return Err(Box::new(self.not_forward(work)));
                    }
                    Added::Conflict(_, merge) if group.len() == 1 => {
                        return self.escalate(work, &merge, rules);
                    }
                    Added::NotForward(same) | Added::Conflict(same, _) => {
                        candidate = same;
                        apart = true;
                    }
                }
                if apart {
                    break;
                }
            }
            if apart {
                return self.halves(group, rules);
            }
            step("candidate");
            if candidate.steps.is_empty() {
                // Somebody else brought it meanwhile.
                for work in &group {
                    self.begin(work)?;
                    let issue_done = self.record(work, &work.tip)?;
                    self.reports.push(UnitReport {
                        merge_commit: Some(work.tip.clone()),
                        issue_done,
                        ..work.report(Verdict::AlreadyLanded)
                    });
                }
                return Ok(());
            }
            let checks = self.checks(&group, rules)?;
            require_movable(&self.repo, &self.target, candidate.commit())?;
            for work in &mut group {
                work.unit = self.begin(work)?;
            }
            step("begun");
            let content = self.content(candidate.commit())?;
            let tested = match candidate.test(&checks, rules.merging.refuse_fewer_tests)? {
                Tried::Passed(tested) => tested,
                Tried::Failed(_, _) if group.len() > 1 => return self.halves(group, rules),
                Tried::Failed(_, validations) => {
                    for work in &group {
                        self.judge(work, &validations, content.as_deref());
                        let report = self.fail(work, validations.clone())?;
                        self.reports.push(report);
                    }
                    return Ok(());
                }
            };
            for one in &tested.validations {
                if let Some((now, then)) = one.tests.zip(one.tests_before).filter(|(now, then)| now < then) {
                    self.warnings.push(format!(
                        "{}: {now} tests passed, and {then} at the landing before",
                        one.name
                    ));
                }
            }
            for work in &group {
                self.judge(work, &tested.validations, content.as_deref());
            }
            let names: Vec<String> = group.iter().map(Work::id).collect();
            let landed = match tested.land(&format!("jit: landed {}", names.join(", ")))? {
                Move::Done(landed) => landed,
                Move::Elsewhere => continue,
            };
            for work in &group {
                let Some(step) = landed.steps.iter().find(|step| step.unit == work.id()) else {
                    continue;
                };
                let issue_done = self.record(work, &step.commit)?;
                self.reports.push(UnitReport {
                    how: Some(step.how),
                    merge_commit: Some(step.commit.clone()),
                    settled: settled(step),
                    validation: landed.validations.clone(),
                    issue_done,
                    ..work.report(Verdict::Landed)
                });
            }
            return Ok(());
        }
        let message = format!("{} moved {ROUNDS} times while this was being merged", self.target);
        Err(Box::new(
            Refusal::new(Code::Busy, message).help("the same command again"),
        ))
    }

    /// Together they do not work: the first half, then the other on top of it.
    fn halves(&mut self, mut group: Vec<Work>, rules: &Rules) -> Outcome<()> {
        let second = group.split_off(group.len().div_ceil(2));
        for half in [group, second] {
            if half.is_empty() {
                continue;
            }
            let names: Vec<Work> = half.clone();
            if let Err(refusal) = self.group(half, rules) {
                if refusal.code == Code::TargetDirty || refusal.code == Code::Unknown {
                    return Err(refusal);
                }
                for work in &names {
                    if !self.reports.iter().any(|one| one.unit == work.id()) {
                        self.reports.push(told(&work.unit, Verdict::Refused, &refusal));
                    }
                }
            }
        }
        Ok(())
    }

    /// T4 to T6 where somebody worked by hand, then T9. What has happened already does not happen again.
    fn begin(&self, work: &Work) -> Outcome<Unit> {
        let mut unit = work.unit.clone();
        loop {
            let input = match unit.state {
                Phase::Ready => Input::DispatchInstance,
                Phase::Dispatched => Input::InstanceRunning,
                Phase::Running => Input::InstanceCompleted,
                Phase::Merging | Phase::Merged => return Ok(unit),
                _ => Input::BeginMerge,
            };
            let agent = (input == Input::DispatchInstance).then(|| MANUAL.to_owned());
            let facts = Facts {
                agent,
                ..Facts::default()
            };
            unit = self.app.advance_unit(&unit.id, input, facts)?;
        }
    }

    /// T10, and the issue is done.
    fn record(&mut self, work: &Work, commit: &str) -> Outcome<Option<bool>> {
        // The target has it. This is what "done" rests on.
        let target = self.repo.require_tip(&self.target)?;
        if !self.repo.is_ancestor(commit, &target)? {
            let message = format!(
                "{} does not contain {commit}, where {} landed",
                self.target, work.unit.id
            );
            return Err(refuse(Code::Unknown, message));
        }
        let facts = Facts {
            merge_commit: Some(commit.to_owned()),
            ..Facts::default()
        };
        self.app.advance_unit(&work.unit.id, Input::MergeSuccess, facts)?;
        step("recorded");
        let view = self.app.view()?;
        let done = self.close_as(&view, &work.unit, &work.actor);
        step("closed");
        Ok(done)
    }

    fn close(&mut self, view: &View, unit: &Unit) -> Option<bool> {
        let actor = match self.work(view, unit.clone(), String::new()) {
            Ok(work) => work.actor,
            Err(refusal) => {
                self.warnings.push(refusal.message);
                return Some(false);
            }
        };
        self.close_as(view, unit, &actor)
    }

    /// Whether the unit's issue is done now. The landing stands, whatever comes of this.
    fn close_as(&mut self, view: &View, unit: &Unit, actor: &Actor) -> Option<bool> {
        let id = unit.issue_id.as_ref()?;
        let issue = state::issue(&*view.table, id).ok().flatten()?;
        if issue.state.is_closed() {
            return Some(issue.state == State::Done);
        }
        let change = |state: State| -> Outcome<()> {
            let rules = self.rules()?;
            let command = Command::ChangeIssue {
                issue: id.as_str().parse().map_err(|e| refuse(Code::Invalid, e))?,
                change: Box::new(Change {
                    state: Some(state),
                    ..Change::default()
                }),
                strict: false,
            };
            let kept = Kept {
                policy: Some(&rules.policy),
                actor: Some(actor),
                // Only where the target is: in the unit's own tree it would be work that is not committed.
                project: self.app.branch.as_deref() == Some(self.target.as_str()),
                ..Kept::default()
            };
            self.app.transact_as(None, &command, kept)?;
            Ok(())
        };
        let done = match issue.state {
            State::Backlog => change(State::Ready).and_then(|()| change(State::Done)),
            _ => change(State::Done),
        };
        match done {
            Ok(()) => Some(true),
            Err(refusal) => {
                self.warnings
                    .push(format!("{id} is not done yet: {}", refusal.message));
                Some(false)
            }
        }
    }

    /// Tells the log how the gates of the unit's issue stand.
    fn judge(&mut self, work: &Work, validations: &[Validation], content: Option<&str>) {
        let Some(issue) = &work.issue else { return };
        for one in validations.iter().filter(|one| one.kind == Kind::Gate) {
            let command = match issue.id.as_str().parse() {
                Ok(id) => Command::JudgeGate {
                    issue: id,
                    gate: one.name.clone(),
                    passed: one.passed,
                    manual: false,
                    tree: content.map(str::to_owned),
                },
                Err(_) => continue,
            };
            if let Err(refusal) = self.app.transact_as(None, &command, Kept::default()) {
                self.warnings.push(refusal.message);
            }
        }
    }

    /// The tree of a commit as gates know it, without `.jit`.
    fn content(&self, commit: &str) -> Outcome<Option<String>> {
        let git = || self.repo.git();
        let listing = git()
            .args(["ls-tree", "-z", "--full-tree", commit])
            .run()
            .map_err(failed)?;
        let tree = git()
            .args(["mktree", "-z", "--missing"])
            .stdin(without_jit(&listing))
            .line();
        tree.map(Some).map_err(failed)
    }

    /// T7: it does not work on the target.
    fn fail(&self, work: &Work, validations: Vec<Validation>) -> Outcome<UnitReport> {
        let failed = validations.iter().find(|one| !one.passed);
        let why = failed.and_then(|one| one.reason.clone()).unwrap_or_default();
        let name = failed.map_or("", |one| one.name.as_str());
        let message = format!("merged into {}, it does not pass {name}: {why}", self.target);
        self.app.advance_unit(
            &work.unit.id,
            Input::InstanceFailed,
            Facts {
                error: Some(Failure {
                    reason: "validation".to_owned(),
                    message: message.clone(),
                    exit_code: failed.and_then(|one| one.exit_code),
                    output: failed.and_then(|one| one.output_file.clone()),
                }),
                ..Facts::default()
            },
        )?;
        let mut report = work.report(Verdict::ValidationFailed);
        report.validation = validations;
        report.code = Some(Code::CheckFailed.as_str());
        report.message = Some(message);
        report.help = vec![format!("jit worktree retry {}", work.unit.id)];
        Ok(report)
    }

    /// T14: a person decides.
    fn escalate(&mut self, work: &Work, merge: &Merge, rules: &Rules) -> Outcome<()> {
        let mut report = self.conflict_report(work, merge)?;
        let rounds = work.unit.conflict_rounds;
        let send_back = self.mode == MergeMode::SendBack;
        if send_back && rounds >= rules.merging.max_conflict_rounds {
            let message = format!(
                "conflicts of {} were sent back {rounds} times already, and merge.max_conflict_rounds is {}",
                work.unit.id, rules.merging.max_conflict_rounds
            );
            return Err(Box::new(
                Refusal::new(Code::NotAllowed, message)
                    .help(format!("jit worktree abandon {} --reason <why>", work.unit.id)),
            ));
        }
        self.begin(work)?;
        step("begun");
        if send_back {
            self.send_back(work)?;
            report.message = Some(format!(
                "the conflict is in {}: settle it there, commit, then go on",
                work.unit.worktree_path
            ));
        }
        let clashes = report.conflicts.iter().map(|one| Clash {
            path: one.path.clone(),
            kind: one.kind.clone(),
        });
        self.app.advance_unit(
            &work.unit.id,
            Input::MergeConflictEscalate,
            Facts {
                merge_conflicts: Some(clashes.collect()),
                conflict_rounds: send_back.then_some(rounds + 1),
                error: Some(Failure {
                    reason: "merge_conflict".to_owned(),
                    message: report.message.clone().unwrap_or_default(),
                    exit_code: None,
                    output: None,
                }),
                ..Facts::default()
            },
        )?;
        self.reports.push(report);
        Ok(())
    }

    /// A merge that stops at the conflict, in the worktree of the unit, as git leaves it.
    fn send_back(&self, work: &Work) -> Outcome<()> {
        let root = Path::new(&work.unit.worktree_path);
        let target = self.repo.require_tip(&self.target)?;
        let git = self
            .repo
            .in_worktree(root)
            .setting("merge.autoStash", "false")
            .args(["merge", "--no-ff", "--no-squash", "--no-autostash", "-q", "-m"])
            .arg(format!("Merge {} into {}", self.target, work.unit.branch))
            .arg(&target);
        let git = self.repo.signed(git, self.app.actor.agent_id.as_str())?;
        let (code, _, said) = git.try_run().map_err(failed)?;
        match code {
            // Stopped at the conflict, or after all there was none.
            Some(0 | 1) => Ok(()),
            _ => Err(refuse(
                Code::Io,
                format!("git could not begin the merge in {}: {said}", root.display()),
            )),
        }
    }

    fn conflict_report(&self, work: &Work, merge: &Merge) -> Outcome<UnitReport> {
        let target = self.repo.require_tip(&self.target)?;
        let base = self.repo.merge_base(&target, &work.tip)?;
        let mut conflicts = Vec::new();
        for (n, one) in merge.conflicts.iter().enumerate() {
            let path = one.shown();
            let mut told = ConflictReport {
                path: path.clone(),
                kind: one.kind.clone(),
                message: one.message.clone(),
                ours_commits: Vec::new(),
                theirs_commits: Vec::new(),
                hunks: Vec::new(),
            };
            if let Some(base) = base.as_ref().filter(|_| n < TOLD) {
                told.ours_commits = self.touched(base, &target, &path).map_err(failed)?;
                told.theirs_commits = self.touched(base, &work.tip, &path).map_err(failed)?;
                let object = format!("{}:{path}", merge.tree);
                let (code, bytes, _) = self
                    .repo
                    .git()
                    .args(["cat-file", "blob", &object])
                    .try_run()
                    .map_err(failed)?;
                if code == Some(0) && !bytes.contains(&0) {
                    told.hunks = hunks(&String::from_utf8_lossy(&bytes));
                }
            }
            conflicts.push(told);
        }
        let id = &work.unit.id;
        let shown = shell_word(&work.unit.worktree_path);
        let mut report = work.report(Verdict::Conflict);
        report.message = Some(format!(
            "{} of {id} {} not merge with {}",
            match conflicts.len() {
                1 => "1 path".to_owned(),
                many => format!("{many} paths"),
            },
            if conflicts.len() == 1 { "does" } else { "do" },
            self.target
        ));
        report.conflicts = conflicts;
        report.code = Some("merge_conflict");
        report.help = vec![
            format!(
                "cd {shown} && git merge {}, settle it, commit",
                shell_word(&self.target)
            ),
            format!("jit worktree merge {id} --continue"),
            format!("jit worktree merge {id} --send-back"),
            format!("jit worktree abandon {id} --reason <why>"),
        ];
        Ok(report)
    }

    fn touched(&self, base: &str, tip: &str, path: &str) -> Result<Vec<String>, GitError> {
        let out = self
            .repo
            .git()
            .arg("--literal-pathspecs")
            .args([
                "log",
                "--format=%h %s",
                "-n",
                "5",
                &format!("{base}..{tip}"),
                "--",
                path,
            ])
            .run()?;
        Ok(String::from_utf8_lossy(&out).lines().map(str::to_owned).collect())
    }

    /// What is pushed, or left to be. The landing stands, whatever comes of it.
    fn push(&mut self, branches: &[String]) -> Outcome<Vec<String>> {
        let out = self.repo.git().arg("remote").run().map_err(failed)?;
        let remotes = String::from_utf8_lossy(&out).into_owned();
        let mut remotes = remotes.lines();
        let first = remotes.next().map(str::to_owned);
        let Some(first) = first else {
            return Ok(Vec::new());
        };
        let remote = match remotes.any(|name| name == "origin") {
            true => "origin".to_owned(),
            false => first,
        };
        let which: Vec<String> = match self.rules()?.merging.push {
            "target" => vec![self.target.clone()],
            "branch" => branches.to_vec(),
            _ => return Ok(vec![format!("git push {remote} {}", shell_word(&self.target))]),
        };
        let mut next = Vec::new();
        for branch in which {
            let push = || {
                let name = format!("refs/heads/{branch}:refs/heads/{branch}");
                self.repo.git().args(["push", "-q", &remote, &name]).try_run()
            };
            let (mut code, _, mut said) = push().map_err(failed)?;
            if code != Some(0) {
                // Somebody pushed meanwhile: if what they pushed is here, once more.
                let _ = self.repo.git().args(["fetch", "-q", &remote, &branch]).try_run();
                (code, _, said) = push().map_err(failed)?;
            }
            if code == Some(0) {
                continue;
            }
            self.warnings.push(format!(
                "{branch} could not be pushed to {remote}: {}",
                said.replace('\n', " ")
            ));
            next.push(format!(
                "git fetch {remote} && git push {remote} {}",
                shell_word(&branch)
            ));
        }
        Ok(next)
    }
}

fn settled(step: &Step) -> Vec<SettledPath> {
    let one = |(path, by): &(String, String)| SettledPath {
        path: path.clone(),
        by: by.clone(),
    };
    step.settled.iter().map(one).collect()
}
