//! Merges units into their target (H1 to H6), and reports which worktrees conflict (H8).
//!
//! What must hold:
//!
//! - Only one landing runs at a time for each target. Others wait in the kernel's queue, for a bounded time.
//! - Gates, checks and rules are read from the target, so a unit cannot weaken its own. They are read again whenever
//!   the target moved.
//! - A problem of one unit refuses that unit, and no other unit that is tried together with it.
//! - A gate counts as passed for an issue only if it ran for that issue.
//! - A unit is not recorded as begun before everything that can refuse has been asked.
//! - An interrupted landing is found by the next one. Commits that the target contains are recorded, the others are
//!   merged again. Nothing lands twice.
//! - Repeating the same command is no error: it does the remaining steps, and reports the units that have landed.
//! - The unit's issue becomes done when the target contains the unit, in the same run. The landed files say so too.

use crate::api::landing::LandingReply;
use crate::api::landing::Landings;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use jit_core::landing::order;
use jit_core::log::event::{Event, Stamped};
use jit_core::log::state;
use jit_core::model::actor::Actor;
use jit_core::model::ids::UnitId;
use jit_core::model::issue::Issue;
use jit_core::model::lease::Lease;
use jit_core::model::policy::Policy;
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::unit::{Facts, Failure, MANUAL, Phase, Unit, UnitInput};
use jit_git::branches::default_branch;
use jit_git::snapshot::sweep;
use jit_os::io_refusal;
use jit_os::shell::shell_word;
use jit_store::{Outcome, View};

use crate::api::landing::Landing;
use crate::api::landing::{MergeAsk, MergeMode, MergeReport, SettledPath, UnitReport, Verdict};
use crate::api::{Answer, Reply};
use crate::config::{Merging, Strategy};
use crate::context::Context;
use crate::context::calling_agent::{may_decide, require_may_decide};
use crate::crash_point::step;
use crate::gates::Registry;
use crate::landing::candidate::{Coming, Step, UNIT};
use crate::landing::land::{landed_as, tells_of};
use crate::landing::prediction::Predictions;
use crate::landing::radar::{Live, Touched};
use crate::landing::scan::Scan;
use crate::landing::tested::{TRIAL, digest, discard_trials, trial_target};
use crate::landing::{Repo, checkout_recovery as half_way};
use crate::ports::TargetLock;
use crate::refusals::failed;
use crate::refusals::refuse;
use crate::units::service::find_unit;
use crate::units::worktree_locate::real;

/// Maximum number of times that the target may move under a landing before it gives up.
pub(crate) const ROUNDS: usize = 50;
/// Maximum number of conflicts that are reported with their commits and lines.
pub(crate) const TOLD: usize = 20;

/// The rules of the target.
pub(crate) struct Rules {
    pub(crate) merging: Merging,
    pub(crate) registry: Registry,
    pub(crate) policy: Policy,
}

/// A unit that is to land, with what is known about it.
#[derive(Debug, Clone)]
pub(crate) struct LandingUnit {
    pub(crate) unit: Unit,
    pub(crate) tip: String,
    pub(crate) issue: Option<Issue>,
    pub(crate) lease: Option<Lease>,
    /// The actor in whose name its issue is closed.
    pub(crate) actor: Actor,
}

/// The decision about a unit before anything is merged.
pub(crate) enum Eligibility {
    Eligible(Box<LandingUnit>),
    Reported(Box<UnitReport>),
}

impl LandingUnit {
    pub(crate) fn id(&self) -> String {
        self.unit.id.to_string()
    }

    pub(crate) fn report(&self, verdict: Verdict) -> UnitReport {
        report_of(&self.unit, verdict)
    }

    pub(crate) fn coming(&self, target: &str) -> Coming {
        let title = self.issue.as_ref().map(|issue| format!(": {}", issue.title));
        let mut trailers = vec![(UNIT, self.id())];
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

pub(crate) fn report_of(unit: &Unit, verdict: Verdict) -> UnitReport {
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
        pull_request: None,
        code: None,
        message: None,
        help: Vec::new(),
    }
}

pub(crate) fn refused_report(unit: &Unit, verdict: Verdict, refusal: &Refusal) -> UnitReport {
    UnitReport {
        code: Some(refusal.code.as_str().into()),
        message: Some(refusal.message.clone()),
        help: refusal.help.clone(),
        ..report_of(unit, verdict)
    }
}

/// The commit that rules were read at, git's listing of the files they are in, and the rules.
pub(crate) type KnownRules = (String, Vec<u8>, Rc<Rules>);

/// One run of merges, for one target.
pub(crate) struct Run<'a> {
    pub(crate) cx: &'a Context,
    pub(crate) repo: Repo,
    pub(crate) target: String,
    /// The branch that the user named.
    pub(crate) into: Option<String>,
    pub(crate) mode: MergeMode,
    pub(crate) leave_proposed: bool,
    /// All units were requested, not named ones.
    pub(crate) every: bool,
    /// A single unit was requested: its refusal is the answer.
    pub(crate) alone: bool,
    pub(crate) reports: Vec<UnitReport>,
    pub(crate) warnings: Vec<String>,
    /// The rules that were read last.
    pub(crate) known: RefCell<Option<KnownRules>>,
    pub(crate) predictions: RefCell<Predictions>,
    pub(crate) scan: Scan,
    /// The issues that each issue waits for, as they were when this run first asked.
    pub(crate) waits: RefCell<BTreeMap<String, BTreeSet<String>>>,
}

pub(crate) fn landing_repo(cx: &Context) -> Outcome<Repo> {
    let Some(common) = &cx.place.common_dir else {
        return Err(refuse(Code::Invalid, "without git there is nothing to merge"));
    };
    Repo::new(cx.git.clone(), common, &cx.place.control_dir)
        .map_err(|e| io_refusal("use", &cx.place.control_dir, &e))
}

/// Lands the units that the caller asked for. An agent lands its own only.
pub(crate) fn merge_asked(cx: &Context, ask: &MergeAsk) -> Outcome<Answer> {
    merge(cx, ask, true)
}

/// Lands units, whoever the caller is: a step of a workflow that the caller leads, or of recording what has landed.
pub(crate) fn merge_units(cx: &Context, ask: &MergeAsk) -> Outcome<Answer> {
    merge(cx, ask, false)
}

fn merge(cx: &Context, ask: &MergeAsk, as_asked: bool) -> Outcome<Answer> {
    let repo = landing_repo(cx)?;
    let named = ask.into.as_deref();
    let ask = &MergeAsk {
        into: named.map(|into| repo.meant(into)),
        ..ask.clone()
    };
    let view = crate::write_path::view(cx)?;
    let mut over: Vec<Unit> = Vec::new();
    let units = match (ask.all, ask.units.as_slice()) {
        (true, _) => {
            let all = state::units(&*view.table).map_err(|e| refuse(Code::Io, e))?;
            all.into_iter()
                .filter(|unit| match &ask.into {
                    Some(into) => unit.goes_to() == into || Some(unit.goes_to()) == named,
                    // A unit that was sent to another branch does not affect where the others go.
                    None => unit.state == Phase::Merging || unit.landing_on.is_none(),
                })
                // A unit that is to be retried has not been judged yet.
                .filter(|unit| unit.state != Phase::Ready || unit.worker.is_none())
                .filter(waits_for_landing)
                .collect()
        }
        (false, []) => vec![crate::units::service::living_unit(cx, &view, None)?],
        (false, named) => {
            let mut units: Vec<Unit> = Vec::new();
            for text in named {
                let unit = crate::landing::already_landed::unit_to_land(cx, &view, Some(text))?;
                let list = match unit.is_over() {
                    true => &mut over,
                    false => &mut units,
                };
                if !list.iter().any(|known| known.id == unit.id) {
                    list.push(unit);
                }
            }
            units
        }
    };
    let (units, not_own) = match as_asked && ask.mode != MergeMode::DryRun {
        true => own_units(cx, &view, ask, units)?,
        false => (units, None),
    };
    drop(view);
    if let (true, Some(first)) = (units.is_empty(), over.first()) {
        let target = match &ask.into {
            Some(into) => into.clone(),
            None => repo.meant(first.goes_to()),
        };
        return crate::landing::already_landed::only_over(cx, repo, target, ask, &over);
    }
    let target = landing_target(cx, &repo, ask, &units)?;
    let mut run = Run::new(cx, repo, target, ask);
    run.alone = units.len() == 1 && over.is_empty();
    run.warnings.extend(not_own);
    if ask.into.is_none() {
        run.warnings.extend(units.iter().filter_map(sent_before));
    }
    let _turn = match run.mode {
        MergeMode::DryRun => None,
        _ => Some(run.lock_target()?),
    };
    run.tell_of_over(&over)?;
    let asked: Vec<UnitId> = units.into_iter().map(|unit| unit.id).collect();
    let report = run.all(&asked)?;
    let warnings = run.warnings;
    Ok(Answer {
        reply: Reply::Landing(LandingReply::Report(Box::new(report))),
        warnings,
    })
}

/// Returns the units that the caller may land. Refuses if it named another one; leaves others out of all units, with a
/// warning.
fn own_units(
    cx: &Context,
    view: &View,
    ask: &MergeAsk,
    units: Vec<Unit>,
) -> Outcome<(Vec<Unit>, Option<String>)> {
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for unit in units {
        if !ask.all {
            require_may_decide(cx, view, &unit, "jit finish")?;
        }
        match ask.all && !may_decide(cx, view, &unit)? {
            true => others.push(unit.id.to_string()),
            false => own.push(unit),
        }
    }
    let warning = format!(
        "left out, because an agent lands only its own units: {}",
        others.join(", ")
    );
    Ok((own, (!others.is_empty()).then_some(warning)))
}

pub(crate) fn landing_target(cx: &Context, repo: &Repo, ask: &MergeAsk, units: &[Unit]) -> Outcome<String> {
    let targets: BTreeSet<&str> = units.iter().map(Unit::goes_to).collect();
    let meant: BTreeSet<String> = targets.iter().map(|name| repo.meant(name)).collect();
    let target = match (&ask.into, targets.first()) {
        (Some(into), _) => into.clone(),
        (None, Some(_)) if meant.len() == 1 => meant.into_iter().next().unwrap_or_default(),
        (None, Some(_)) => {
            let names: Vec<&str> = targets.into_iter().collect();
            let message = format!("these units have different targets: {}", names.join(", "));
            let mut refusal = Refusal::new(Code::Invalid, message);
            for name in names {
                refusal = refusal.help(match ask.all {
                    true => format!("jit worktree merge --all --into {}", shell_word(name)),
                    false => {
                        let own = units.iter().filter(|unit| unit.goes_to() == name);
                        let own: Vec<&str> = own.map(|unit| unit.id.as_str()).collect();
                        format!("jit worktree merge {}", own.join(" "))
                    }
                });
            }
            return Err(Box::new(refusal));
        }
        (None, None) => repo.meant(&usual_target(cx, repo)?),
    };
    if let Some(unit) = units.iter().find(|unit| unit.branch == target) {
        let message = format!("{target} is the branch of {} itself", unit.id);
        return Err(refuse(Code::Invalid, message));
    }
    if ask.mode != MergeMode::DryRun {
        crate::landing::run::require_begun_for(repo, &target, units)?;
    }
    match repo.require_tip(&target) {
        Err(refusal) if ask.into.is_none() => match has_all(cx, repo, units)? {
            Some(other) => Ok(other),
            None => Err(no_target(cx, repo, refusal, units)),
        },
        found => found.map(|_| target),
    }
}

/// The branch on which a unit landed is gone: returns its own target, or the usual one, if that contains all of it.
fn has_all(cx: &Context, repo: &Repo, units: &[Unit]) -> Outcome<Option<String>> {
    let [unit] = units else { return Ok(None) };
    let (Some(commit), Phase::Merged | Phase::Cleanup) = (&unit.merge_commit, unit.state) else {
        return Ok(None);
    };
    let what = match repo.tip(&unit.branch)? {
        Some(tip) => tip,
        None => commit.clone(),
    };
    let usual = usual_target(cx, repo).ok();
    for name in [Some(unit.target.clone()), usual].into_iter().flatten() {
        let name = repo.meant(&name);
        if name != unit.branch
            && let Some(tip) = repo.tip(&name)?
            && repo.has(&tip, &what, Some(commit))?
        {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// The branch on which the units were to land was renamed or deleted: adds help with another target.
fn no_target(cx: &Context, repo: &Repo, mut refusal: Box<Refusal>, units: &[Unit]) -> Box<Refusal> {
    let ids: Vec<&str> = units.iter().map(|unit| unit.id.as_str()).collect();
    let own = |name: &str| units.iter().any(|unit| unit.branch == name);
    let other = usual_target(cx, repo).ok().filter(|name| {
        let there = repo.tip(name).is_ok_and(|tip| tip.is_some());
        there && !own(name)
    });
    let other = other.map_or_else(|| "<branch>".to_owned(), |name| shell_word(&name));
    let mut help = vec![format!("jit worktree merge {} --into {other}", ids.join(" "))];
    help.append(&mut refusal.help);
    refusal.help = help;
    refusal
}

/// The target if none is named: the configured one, else the default branch.
pub(crate) fn usual_target(cx: &Context, repo: &Repo) -> Outcome<String> {
    for name in cx.config.merging().target {
        if repo.tip(&name)?.is_some() {
            return Ok(name);
        }
    }
    let found = default_branch(&cx.place, None).map_err(failed)?;
    found.map(|branch| branch.name).ok_or_else(|| {
        Box::new(
            Refusal::new(Code::NotFound, "it is not known which branch work goes to")
                .help("jit config set merge.target <branch>"),
        )
    })
}

/// Waits for the landing lock of this target.
fn lock_target_for_landing(cx: &Context, target: &str) -> Outcome<TargetLock> {
    let (key, wait) = (digest(target), cx.config.merging().wait);
    cx.target_locks.lock(&key, wait)?.ok_or_else(|| {
        let holders = match cx.target_locks.holders(&key).as_slice() {
            [] => String::new(),
            all => format!("; its lock is held by process {}", all.join(", ")),
        };
        let message = format!(
            "somebody else has been landing on {target} for {}s{holders}",
            wait.as_secs()
        );
        Box::new(Refusal::new(Code::Busy, message).help(format!(
            "jit config set merge.wait_secs {}",
            wait.as_secs().saturating_mul(2).clamp(60, 86_400)
        )))
    })
}

/// Returns whether a landing on this target is running.
pub(crate) fn is_landing(cx: &Context, target: &str) -> bool {
    let lock = cx.target_locks.lock(&digest(target), Duration::ZERO);
    // Without an answer, assume that somebody is landing.
    !matches!(lock, Ok(Some(_)))
}

/// Returns whether this tree is in a stable state: neither a trial worktree of a landing, nor the checkout of a target
/// in the middle of a fast-forward. An interrupted fast-forward is undone first. A git process that a killed landing
/// left there holds the landing lock until it exits, which is soon. At most `wait` is spent on that.
pub(crate) fn is_settled(cx: &Context, wait: Duration) -> bool {
    let control = &cx.place.control_dir;
    if let Some(root) = &cx.place.worktree_root
        && let (Some(name), Some(folder)) = (root.file_name(), root.parent())
        && name.to_string_lossy().starts_with(TRIAL)
        && real(folder) == real(&control.join("scratch"))
    {
        return false;
    }
    let Some(branch) = &cx.branch else { return true };
    if !half_way::is_noted(control, branch) {
        return true;
    }
    let Ok(repo) = landing_repo(cx) else {
        return false;
    };
    let Ok(Some(_target_lock)) = cx.target_locks.lock(&digest(branch), wait) else {
        return false;
    };
    let _ = half_way::settle(&repo, branch);
    !half_way::is_noted(control, branch)
}

/// Acquires all landing locks. `None` if a landing is running: its lock does not show which unit it lands.
fn no_landings(cx: &Context, target: &str) -> Outcome<Option<Vec<TargetLock>>> {
    let mut keys: BTreeSet<String> = cx.target_locks.known()?.into_iter().collect();
    keys.insert(digest(target));
    let mut locks = Vec::with_capacity(keys.len());
    for key in keys {
        match cx.target_locks.lock(&key, Duration::ZERO)? {
            Some(lock) => locks.push(lock),
            None => return Ok(None),
        }
    }
    Ok(Some(locks))
}

/// Returns the branch that contains a unit whose landing was interrupted. The target may have been renamed since.
pub(crate) fn landed_on(repo: &Repo, unit: &Unit) -> Outcome<Option<String>> {
    let Some(tip) = repo.tip(&unit.branch)? else {
        return Ok(None);
    };
    let base = repo.git().verify(&format!("{}^{{commit}}", unit.base));
    let base = base.map_err(failed)?.unwrap_or_else(|| tip.clone());
    let about = (tip.as_str(), base.as_str());
    let goes_to = unit.goes_to();
    if let Some(target) = repo.tip(goes_to)?
        && landed_as(repo, unit, about, (goes_to, &target))?.is_some()
    {
        return Ok(Some(goes_to.to_owned()));
    }
    let branches = repo
        .git()
        .args(["for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads"])
        .run()
        .map_err(failed)?;
    for branch in String::from_utf8_lossy(&branches).lines() {
        if branch == unit.branch || branch == goes_to {
            continue;
        }
        // Other branches may continue from it, so only a branch whose reflog reports the landing counts.
        let refname = format!("refs/heads/{branch}");
        let log = repo
            .git()
            .args(["reflog", "show", "--format=%gs", &refname, "--"]);
        let (_, log, _) = log.try_run().map_err(failed)?;
        let says_so = String::from_utf8_lossy(&log)
            .lines()
            .any(|line| tells_of(line, &unit.id));
        if says_so
            && let Some(target) = repo.tip(branch)?
            && landed_as(repo, unit, about, (branch, &target))?.is_some()
        {
            return Ok(Some(branch.to_owned()));
        }
    }
    Ok(None)
}

/// The command that resumes an interrupted landing: onto the branch that contains the unit already, or onto another
/// one if the target no longer exists.
pub(crate) fn land_again(cx: &Context, unit: &Unit) -> String {
    let plain = format!("jit worktree merge {}", unit.id);
    let other = || -> Outcome<Option<String>> {
        let repo = landing_repo(cx)?;
        if let Some(branch) = landed_on(&repo, unit)? {
            return Ok(Some(branch));
        }
        match repo.tip(unit.goes_to())? {
            Some(_) => Ok(unit.landing_on.clone()),
            None => usual_target(cx, &repo).map(Some),
        }
    };
    match other() {
        Ok(Some(branch)) if branch != unit.target && branch != unit.branch => {
            format!("{plain} --into {}", shell_word(&branch))
        }
        _ => plain,
    }
}

/// Ends an interrupted landing: as landed if a branch contains the unit, else as failed.
pub(crate) fn end_landing(cx: &Context, unit: Unit) -> Outcome<Unit> {
    if unit.state != Phase::Merging {
        return Ok(unit);
    }
    let id = unit.id.clone();
    let Some(locks) = no_landings(cx, unit.goes_to())? else {
        let message = format!("somebody is landing now, and that may be {id}");
        return Err(Box::new(
            Refusal::new(Code::Busy, message).help("run the command again when it is done"),
        ));
    };
    let unit = crate::units::service::load_unit(cx, &id)?;
    if unit.state != Phase::Merging {
        return Ok(unit);
    }
    let repo = landing_repo(cx)?;
    half_way::settle(&repo, unit.goes_to())?;
    if let Some(branch) = landed_on(&repo, &unit)? {
        drop(locks);
        let _ = merge_units(
            cx,
            &MergeAsk {
                units: vec![id.to_string()],
                all: false,
                into: Some(branch),
                mode: MergeMode::Land,
                leave_proposed: false,
            },
        )?;
        return crate::units::service::load_unit(cx, &id);
    }
    let facts = Facts {
        error: Some(Failure {
            reason: "cut_short".to_owned(),
            message: "its landing was cut short".to_owned(),
            exit_code: None,
            output: None,
        }),
        tip: repo.tip(&unit.branch)?,
        ..Facts::default()
    };
    crate::units::service::advance(cx, &id, UnitInput::InstanceFailed, facts)
}

/// Removes the leftovers of killed landings. Skips each target with a running landing: that landing holds the target's
/// lock.
pub(crate) fn sweep_scratch(cx: &Context, repo: &Repo) {
    sweep(repo.scratch());
    for entry in fs::read_dir(repo.scratch()).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(target) = trial_target(&name) else {
            continue;
        };
        if let Ok(Some(target_lock)) = cx.target_locks.lock(target, Duration::ZERO) {
            discard_trials(&repo.clone().holding(target_lock.shared()), target);
        }
    }
}

/// Reports conflicts between the worktrees as they are now, or between these branches as they are committed.
pub(crate) fn conflicts(cx: &Context, into: Option<&str>, branches: &[String]) -> Outcome<Answer> {
    let repo = landing_repo(cx)?;
    let target = match into {
        Some(into) => into.to_owned(),
        None => usual_target(cx, &repo)?,
    };
    let mut live = Live::new(&repo)?;
    let picture = match branches {
        [] => {
            let units = crate::landing::watch::unit_roots(cx)?;
            live.look(&target, |root| units.get(&real(root)).cloned(), |_| Touched::All)?
        }
        names => {
            let names: BTreeSet<String> = names.iter().cloned().collect();
            live.branches(&target, &names.into_iter().collect::<Vec<_>>())?
        }
    };
    let view = crate::write_path::view(cx)?;
    crate::write_path::read_answer(
        cx,
        &view,
        Reply::Landing(LandingReply::Conflicts(Box::new(picture))),
    )
}

/// Reports the commits of a landed unit that its target does not contain.
pub(crate) fn more_work(cx: &Context, unit: &Unit) -> Option<String> {
    let repo = landing_repo(cx).ok()?;
    let target = repo.tip(unit.goes_to()).ok()??;
    let tip = repo.tip(&unit.branch).ok()??;
    let has = repo.has(&target, &tip, unit.merge_commit.as_deref()).ok()?;
    (!has).then(|| {
        format!(
            "{} has commits that {} has not: jit finish {}",
            unit.branch,
            unit.goes_to(),
            unit.id
        )
    })
}

/// A warning for a unit that lands on the branch where it was sent, not on its target.
pub(crate) fn sent_before(unit: &Unit) -> Option<String> {
    let there = unit.landing_on.as_ref()?;
    Some(format!(
        "{0} goes to {there}, where it was sent; to {1}: jit worktree merge {0} --into {2}",
        unit.id,
        unit.target,
        shell_word(&unit.target)
    ))
}

/// Returns whether a unit in this state can land at all.
pub(crate) fn waits_for_landing(unit: &Unit) -> bool {
    let conflict = unit
        .error
        .as_ref()
        .is_some_and(|error| error.reason == "merge_conflict");
    match unit.state {
        Phase::Ready | Phase::Completed | Phase::Merging | Phase::Merged => true,
        Phase::Dispatched | Phase::Running => unit.agent.as_deref() == Some(MANUAL),
        Phase::Failed => conflict,
        Phase::Idle | Phase::Provisioning | Phase::Cleanup => false,
    }
}

impl<'a> Run<'a> {
    pub(crate) fn new(cx: &'a Context, repo: Repo, target: String, ask: &MergeAsk) -> Self {
        Self {
            cx,
            repo,
            target,
            into: ask.into.clone(),
            mode: ask.mode,
            leave_proposed: ask.leave_proposed,
            every: ask.all,
            alone: false,
            reports: Vec::new(),
            warnings: cx.warnings.clone(),
            known: RefCell::default(),
            predictions: RefCell::default(),
            scan: Scan::default(),
            waits: RefCell::default(),
        }
    }

    /// Acquires the target's landing lock, and repairs what a killed landing left there.
    pub(crate) fn lock_target(&mut self) -> Outcome<TargetLock> {
        sweep_scratch(self.cx, &self.repo);
        let target_lock = lock_target_for_landing(self.cx, &self.target)?;
        self.repo = self.repo.clone().holding(target_lock.shared());
        step("locked");
        // A failure here is reported later, by the step that it blocks.
        let _ = half_way::settle(&self.repo, &self.target);
        crate::landing::submodules::bring_left_submodules(self);
        Ok(target_lock)
    }

    /// Reads from git, once for all of these units, what is asked for each of them later.
    fn look_at_all(&mut self, asked: &[UnitId]) -> Outcome<()> {
        let mut tips = BTreeSet::new();
        for id in asked {
            let unit = crate::units::service::load_unit(self.cx, id)?;
            tips.extend(self.repo.tip(&unit.branch)?);
        }
        let tips: Vec<String> = tips.into_iter().collect();
        let target = self.repo.require_tip(&self.target)?;
        if !tips.is_empty() {
            self.repo.learn(&target, &tips)?;
            self.scan = Scan::of(&self.repo, &target, &tips)?;
        }
        Ok(())
    }

    fn all(&mut self, asked: &[UnitId]) -> Outcome<MergeReport> {
        let mut left: Vec<LandingUnit> = Vec::new();
        self.look_at_all(asked)?;
        for id in asked {
            let unit = crate::units::service::load_unit(self.cx, id)?;
            if self.mode != MergeMode::DryRun {
                // Another command may have begun to land it elsewhere while this one waited for the lock.
                let own = std::slice::from_ref(&unit);
                crate::landing::run::require_begun_for(&self.repo, &self.target, own)?;
            }
            // Another command landed and removed it while this one waited for the lock.
            if unit.is_over() && unit.merge_commit.is_some() && unit.abandoned.is_none() {
                if !self.every {
                    self.tell_of_over(&[unit])?;
                }
                continue;
            }
            match self.eligibility(unit.clone()) {
                Ok(Eligibility::Eligible(work)) => match self.proposed(&work) {
                    Some(report) => self.reports.push(report),
                    None => left.push(*work),
                },
                Ok(Eligibility::Reported(report)) if self.every && report.verdict == Verdict::Nothing => {}
                Ok(Eligibility::Reported(_)) if self.every && unit.state == Phase::Merged => {}
                Ok(Eligibility::Reported(report)) => self.reports.push(*report),
                Err(refusal) if self.alone => return Err(refusal),
                Err(refusal) => self
                    .reports
                    .push(refused_report(&unit, Verdict::Refused, &refusal)),
            }
        }
        let mut order: Vec<String> = Vec::new();
        let mut overlap = None;
        while !left.is_empty() {
            let rules = self.rules_that_hold(&self.repo.require_tip(&self.target)?)?;
            let places = self.places(&left)?;
            overlap.get_or_insert_with(|| order::overlaps(&places));
            let names = order::order(&places, self.cx.clock.wall().ms());
            let clean = |id: &String| places.iter().any(|one| one.id == *id && one.conflicts == 0);
            // Units that merge cleanly land together: each step of the target has its price. Of those that left it at
            // one point only the first can be a step forward.
            let one_by_one = self.mode != MergeMode::Land || rules.merging.strategy == Strategy::FastForward;
            let most = if one_by_one { 1 } else { rules.merging.batch };
            let many = names.iter().take(most).take_while(|id| clean(id)).count().max(1);
            let mut group = Vec::new();
            for id in names.iter().take(many) {
                if let Some(n) = left.iter().position(|work| work.id() == *id) {
                    group.push(left.swap_remove(n));
                }
            }
            order.extend(group.iter().map(LandingUnit::id));
            if self.mode == MergeMode::DryRun {
                for work in &group {
                    let after: BTreeSet<String> = order.iter().cloned().collect();
                    let report = self.rehearse(work, &rules, &after)?;
                    self.reports.push(report);
                }
            } else if let Err(refusal) = self.group(group.clone()) {
                if self.alone {
                    return Err(refusal);
                }
                for work in &group {
                    if !self.reports.iter().any(|one| one.unit == work.id()) {
                        self.reports
                            .push(refused_report(&work.unit, Verdict::Refused, &refusal));
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
        let next = match landed.as_slice() {
            [] => self.push_left(),
            landed => self.push_or_tell(landed),
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
}

pub(crate) fn settled(step: &Step) -> Vec<SettledPath> {
    let one = |(path, by): &(String, String)| SettledPath {
        path: path.clone(),
        by: by.clone(),
    };
    step.settled.iter().map(one).collect()
}

/// Lists the landings, oldest first (I6).
pub(crate) fn landings(cx: &Context, named: Option<&str>, limit: usize) -> Outcome<Answer> {
    let view = crate::write_path::view(cx)?;
    let unit = named.map(|_| find_unit(cx, &view, named)).transpose()?;
    let mut landed = std::collections::VecDeque::new();
    cx.store.events(0, &mut |line: Stamped| {
        if let Event::Unit {
            input: UnitInput::MergeSuccess,
            unit: moved,
        } = &line.event
            && unit.as_ref().is_none_or(|unit| unit.id == moved.id)
        {
            landed.push_back(Landing {
                landed_at: line.at,
                unit: moved.id.clone(),
                issue_id: moved.issue_id.clone(),
                branch: moved.branch.clone(),
                target: moved.goes_to().to_owned(),
                merge_commit: moved.merge_commit.clone(),
                tested: moved.tested.clone(),
                lease_id: moved.lease_id.clone(),
                agent: moved.agent.clone(),
                made_by: moved.created_by.clone(),
                landed_by: line.actor.agent_id.clone(),
                took_ms: line.at.ms().saturating_sub(moved.created_at.ms()),
            });
            if landed.len() > limit {
                landed.pop_front();
            }
        }
        ControlFlow::Continue(())
    })?;
    let landed = landed.into();
    crate::write_path::read_answer(
        cx,
        &view,
        Reply::Landing(LandingReply::History(Landings { landed })),
    )
}
