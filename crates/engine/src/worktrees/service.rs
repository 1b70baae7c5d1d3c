//! Creates units and their worktrees, retries them, and shows their status and changes.
//!
//! What must hold:
//!
//! - A new worktree gets a free path outside of every checkout, and a new branch.
//! - An agent that asks again for its own issue gets its existing unit or a refusal, not a second unit.
//! - An interrupted or failed creation is continued when the same agent repeats the command. A lock ensures that only
//!   one process creates a unit at a time.
//! - A retry that is not allowed is refused before anything is created for it.

use crate::api::units::UnitReply;
use crate::api::units::Units;
use std::path::Path;

use jit_agents::runner::attempt::{self, Attempt, Running};
use jit_core::log::state;
use jit_core::model::cost::Usd;
use jit_core::model::ids::{IssuePrefix, UnitId, WorktreeId};
use jit_core::model::issue::Issue;
use jit_core::model::lease::Resource;
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::time::Wall;
use jit_core::model::unit::{self, Facts, NewUnit, Phase, Unit, UnitInput};
use jit_git::Place;
use jit_os::shell::shell_word;
use jit_store::{Outcome, View};

use crate::api::units::AgentProgress;
use crate::api::units::Beginning;
use crate::api::units::CreateUnit;
use crate::api::units::UnitDiff;
use crate::api::units::UnitView;
use crate::api::{Answer, Reply};
use crate::attempts::dispatch::Starting;
use crate::attempts::outcome::failed;
use crate::context::Context;
use crate::refusals::refuse;
use crate::units::confined_path::worktree_path;
use crate::units::service::{advance, common, find_unit, git, home, target_branch};
use crate::units::worktree_state::leads_to;
use crate::units::{self, Words};
use crate::worktree_identity::identity::{self, Need};

/// T12, on request: a just ended attempt of its agent is recorded first.
pub(crate) fn retry_by_hand(cx: &Context, named: Option<&str>) -> Outcome<Answer> {
    let unit = crate::units::service::find_unit(cx, &crate::write_path::view(cx)?, named)?;
    crate::context::calling_agent::require_may_decide(
        cx,
        &crate::write_path::view(cx)?,
        &unit,
        "jit worktree retry",
    )?;
    let _ = crate::attempts::outcome::settle(cx, &unit.id, Starting::Allowed)?;
    crate::worktrees::service::retry_unit(cx, Some(unit.id.as_str()))
}

/// The id of a new unit: as requested, or derived from its issue.
pub(crate) fn unit_id(asked: &CreateUnit, issue: Option<&Issue>) -> Outcome<UnitId> {
    let name = issue.map_or(asked.what.as_str(), |issue| issue.id.as_str());
    match (&asked.name, name.parse::<UnitId>()) {
        (Some(id), _) => Ok(id.clone()),
        (None, Ok(id)) if issue.is_none() => Ok(id),
        _ => UnitId::slug(name).ok_or_else(|| {
            refuse(
                Code::Invalid,
                format!("{name:?} gives no name for a unit: use letters and digits"),
            )
        }),
    }
}

/// Returns the identity of a worktree, and creates it if there is none.
pub(crate) fn identity_of(place: &Place) -> Outcome<WorktreeId> {
    let (identity, _) = identity::load_or_create(place, jiff::Timestamp::now(), Need::Write)
        .map_err(|e| refuse(Code::Io, e))?;
    Ok(identity.worktree_id)
}

/// Refuses a branch name that cannot be used, with help.
pub(crate) fn other_branch(message: String, create: &str, taken: &str) -> Box<Refusal> {
    let template = format!("{}-{{unit}}", taken.replace('/', "-"));
    Box::new(
        Refusal::new(Code::Exists, message)
            .help(format!("{create} --branch <another name>"))
            .help(format!(
                "jit config set worktree.branch {}",
                shell_word(&template)
            )),
    )
}

/// Records how attempts ended, then shows the units as `unit_status` does.
pub(crate) fn settle_units(cx: &Context, named: Option<&str>, all: bool) -> Outcome<Answer> {
    let known = match named {
        Some(_) => vec![find_unit(cx, &crate::write_path::view(cx)?, named)?],
        None => state::units(&*crate::write_path::view(cx)?.table).map_err(|e| refuse(Code::Io, e))?,
    };
    crate::attempts::outcome::settle_all(cx, &known);
    unit_status(cx, named, all)
}

pub(crate) fn unit_status(cx: &Context, named: Option<&str>, all: bool) -> Outcome<Answer> {
    let view = crate::write_path::view(cx)?;
    let reply = match named {
        Some(_) => Reply::Units(UnitReply::Unit(Box::new(crate::worktrees::service::unit_view(
            cx,
            find_unit(cx, &view, named)?,
        )))),
        None => {
            let mut found = state::units(&*view.table).map_err(|e| refuse(Code::Io, e))?;
            found.retain(|unit| all || !unit.is_over());
            found.sort_by_key(|unit| unit.created_at);
            let found = crate::units::worktree_locate::located_all(cx, found);
            Reply::Units(UnitReply::Units(Units {
                units: found
                    .into_iter()
                    .map(|unit| crate::worktrees::service::unit_view(cx, unit))
                    .collect(),
            }))
        }
    };
    crate::write_path::read_answer(cx, &view, reply)
}

pub(crate) fn create_unit(cx: &Context, asked: &CreateUnit) -> Outcome<Answer> {
    let view = crate::write_path::view(cx)?;
    let issue = match asked.what.parse::<IssuePrefix>() {
        Ok(prefix) => match crate::write_path::resolve(&view, &prefix) {
            Ok(issue) => Some(issue),
            Err(refusal) if refusal.code == Code::NotFound => None,
            Err(refusal) => return Err(refusal),
        },
        Err(_) => None,
    };
    if let Some(issue) = &issue
        && let Some(answer) = own_unit(cx, &view, asked, issue)?
    {
        return Ok(answer);
    }
    if let Some(issue) = &issue {
        // The holder of the issue is more important than a conflict of paths, so it is checked first.
        let key = Resource::Issue(issue.id.clone()).key();
        let lease = state::lease_on(&*view.table, &key).map_err(|e| refuse(Code::Io, e))?;
        if let Some(lease) = lease.filter(|lease| !lease.expired(&view.now) && !lease.held_by(&cx.actor)) {
            return Err(Box::new(Refusal::held(&lease, &view.now)));
        }
    }
    let id = unit_id(asked, issue.as_ref())?;
    let _turn = crate::worktrees::provisioning::makers_turn(cx, &id)?;
    // As it is now that no other process creates it.
    let view = crate::write_path::view(cx)?;
    let begun = state::unit(&*view.table, &id).map_err(|e| refuse(Code::Io, e))?;
    let own = begun.filter(|unit| unit.workflow.is_none() && unit.created_by == cx.actor.agent_id);
    let unit = match own {
        // The process that began to create it is gone: otherwise it would hold the lock.
        Some(unit) if unit.state == Phase::Provisioning || was_never_ready(&unit) => complete(cx, unit)?,
        // The process that created it was killed before it could answer.
        Some(unit) if is_of_this_request(cx, &unit) => unit,
        _ => crate::worktrees::provisioning::make_unit(cx, asked, issue.as_ref())?,
    };
    let elsewhere = begun_elsewhere(cx, asked, &unit)?;
    let view = crate::write_path::view(cx)?;
    let mut answer = crate::write_path::read_answer(
        cx,
        &view,
        Reply::Units(UnitReply::Unit(Box::new(UnitView::of(unit)))),
    )?;
    answer.warnings.extend(elsewhere);
    Ok(answer)
}

/// Completes a unit whose creation was interrupted or failed. The caller holds its creation lock.
fn complete(cx: &Context, unit: Unit) -> Outcome<Unit> {
    match was_never_ready(&unit) {
        true => try_again(cx, &unit.id),
        false => crate::worktrees::provisioning::go_on_making(cx, unit),
    }
}

/// Whether its worktree could not be made ready.
fn was_never_ready(unit: &Unit) -> bool {
    unit.state == Phase::Failed && unit.worktree_id.is_none()
}

/// Whether the request that is carried out now created the unit, in a process that was killed.
fn is_of_this_request(cx: &Context, unit: &Unit) -> bool {
    !unit.is_over() && crate::answers::begun(cx).is_some_and(|begun| unit.created_at > begun)
}

/// A warning if the unit does not begin at what is checked out here, and would lack commits of it.
fn begun_elsewhere(cx: &Context, asked: &CreateUnit, unit: &Unit) -> Outcome<Option<String>> {
    if asked.base.is_some() || asked.target.is_some() || cx.branch.as_ref() == Some(&unit.target) {
        return Ok(None);
    }
    // Detached: its commit has no other name.
    let detached = match (&cx.branch, &cx.place.worktree_root) {
        (None, Some(root)) => {
            let commit = cx.git_at(root).args(["rev-parse", "--short", "HEAD"]).run();
            commit
                .ok()
                .map(|commit| String::from_utf8_lossy(commit.trim_ascii()).into_owned())
        }
        _ => None,
    };
    let Some(here) = cx.branch.as_deref().or(detached.as_deref()) else {
        return Ok(None);
    };
    let view = crate::write_path::view(cx)?;
    let units = state::units(&*view.table).map_err(|e| refuse(Code::Io, e))?;
    if units.iter().any(|other| other.branch == here) {
        return Ok(None);
    }
    let tip = match detached {
        Some(_) => here.to_owned(),
        None => format!("refs/heads/{here}"),
    };
    let has = cx
        .git_in(crate::units::service::common(cx)?)
        .args(["merge-base", "--is-ancestor", &tip, &unit.base])
        .try_run()
        .map_err(git)?;
    let word = shell_word(here);
    Ok((has.0 == Some(1)).then(|| {
        format!(
            "{} begins at {}, without the commits of {here}, which is checked out here; to begin there: --base {word}",
            unit.id, unit.target
        )
    }))
}

/// The unit that the caller already has for this issue, from whatever worktree the request comes.
pub(crate) fn own_unit(
    cx: &Context,
    view: &View,
    asked: &CreateUnit,
    issue: &Issue,
) -> Outcome<Option<Answer>> {
    let unreadable = |e| refuse(Code::Io, e);
    let (me, key) = (&cx.actor.agent_id, Resource::Issue(issue.id.clone()).key());
    let lease = state::lease_on(&*view.table, &key).map_err(unreadable)?;
    let holder = lease
        .filter(|lease| !lease.expired(&view.now))
        .map(|lease| lease.agent_id);
    let is_own = |unit: &Unit| {
        !unit.is_over()
            && unit.workflow.is_none()
            && unit.issue_id.as_ref() == Some(&issue.id)
            && holder.as_ref().unwrap_or(&unit.created_by) == me
    };
    let mut all = state::units(&*view.table).map_err(unreadable)?;
    all.retain(is_own);
    let Some(unit) = crate::units::worktree_locate::located_all(cx, all).pop() else {
        return Ok(None);
    };
    let (id, path) = (&unit.id, &unit.worktree_path);
    let refused = |code: Code, message: String, help: String| -> Outcome<Option<Answer>> {
        Err(Box::new(Refusal::new(code, message).help(help)))
    };
    match unit.state {
        Phase::Provisioning | Phase::Failed
            if unit.created_by == *me && (unit.state == Phase::Provisioning || was_never_ready(&unit)) =>
        {
            let _turn = crate::worktrees::provisioning::makers_turn(cx, id)?;
            let unit = complete(cx, crate::units::service::load_unit(cx, id)?)?;
            return crate::write_path::read_answer(
                cx,
                &crate::write_path::view(cx)?,
                Reply::Units(UnitReply::Unit(Box::new(UnitView::of(unit)))),
            )
            .map(Some);
        }
        Phase::Provisioning => {
            let message = format!("{id} is yours, and its worktree is being made, or that was cut short");
            return refused(Code::Exists, message, format!("jit worktree retry {id}"));
        }
        Phase::Cleanup => {
            let message = format!("{id} is being removed, or that was cut short");
            return refused(Code::Exists, message, format!("jit worktree cleanup {id}"));
        }
        _ if leads_to(Path::new(path)).is_none() => {
            let message = format!("you have {} in {id}, and its worktree is not in {path}", issue.id);
            return refused(Code::Exists, message, format!("jit worktree retry {id}"));
        }
        _ => {}
    }
    let cd = format!("cd {}", shell_word(path));
    let plain = CreateUnit {
        what: asked.what.clone(),
        ..CreateUnit::default()
    };
    if *asked != plain && !is_of_this_request(cx, &unit) {
        let message = format!("you have {} already, in {id}: {path}", issue.id);
        return refused(Code::Exists, message, cd);
    }
    let mut told = vec![format!("you have {} already: {cd}", issue.id)];
    if holder.is_none() {
        told.push(format!(
            "nobody holds {0} now: {cd} && jit claim acquire {0}",
            issue.id
        ));
    }
    let mut answer = crate::write_path::read_answer(
        cx,
        view,
        Reply::Units(UnitReply::Unit(Box::new(crate::worktrees::service::unit_view(
            cx, unit,
        )))),
    )?;
    answer.warnings.append(&mut told);
    Ok(Some(answer))
}

/// Returns the branch that a new unit lands on, and the commit that it begins at.
fn beginning(cx: &Context, base: Option<&str>, target: Option<&str>) -> Outcome<Beginning> {
    let common = common(cx)?;
    let target = match target {
        Some(target) => target.to_owned(),
        None => target_branch(cx)?,
    };
    let from = base.unwrap_or(&target);
    let found = cx
        .git_in(common)
        .verify(&format!("{from}^{{commit}}"))
        .map_err(git)?;
    let Some(base) = found else {
        let help = match base {
            Some(_) => "git log --oneline --all",
            None => "git commit --allow-empty -m 'begin'",
        };
        let message = format!("there is no commit {from} to start from");
        return Err(Box::new(Refusal::new(Code::NotFound, message).help(help)));
    };
    Ok(Beginning { target, base })
}

/// Checks what does not depend on the name of a new unit, before anything is created for it.
pub(crate) fn preview_beginning(cx: &Context, base: Option<&str>) -> Outcome<Answer> {
    let found = beginning(cx, base, None)?;
    let _ = crate::worktrees::provisioning::trusted_steps(cx)?;
    let view = crate::write_path::view(cx)?;
    crate::write_path::read_answer(cx, &view, Reply::Units(UnitReply::Beginning(found)))
}

pub(crate) fn plan(cx: &Context, asked: &CreateUnit, issue: Option<&Issue>) -> Outcome<NewUnit> {
    let invalid = |why: String| refuse(Code::Invalid, why);
    let id = unit_id(asked, issue)?;
    let (home, repository) = home(cx)?;
    let words = Words {
        unit: &id,
        repository: &repository,
        issue: issue.map(|issue| issue.id.as_str()),
    };
    let path = match &asked.path {
        Some(path) => units::place(&cx.place.start, &path.as_path().to_string_lossy()),
        None => worktree_path(cx, &home, words)?,
    };
    let branch = match &asked.branch {
        Some(branch) => branch.clone(),
        None => units::fill(cx.config.worktree_branch(), words).map_err(invalid)?,
    };
    require_free(cx, &path, &branch, &asked.what)?;
    let Beginning { target, base } = beginning(cx, asked.base.as_deref(), asked.target.as_deref())?;
    Ok(NewUnit {
        id,
        issue: issue.and_then(|issue| issue.id.as_str().parse().ok()),
        worktree_path: path.to_string_lossy().into_owned(),
        branch,
        target,
        base,
        ttl_secs: asked.ttl_secs,
        workflow: asked.workflow.clone(),
    })
}

/// Requires that the path is free and inside no checkout, and that the branch is new.
pub(crate) fn require_free(cx: &Context, path: &Path, branch: &str, what: &str) -> Outcome<()> {
    let create = format!("jit worktree create {}", shell_word(what));
    if path.symlink_metadata().is_ok() {
        return Err(Box::new(
            Refusal::new(Code::Exists, format!("{} exists already", path.display()))
                .help(format!("{create} --path <another folder>")),
        ));
    }
    let common = common(cx)?;
    let all = crate::worktree_identity::list(common).map_err(|e| refuse(Code::Io, e))?;
    let roots = all.into_iter().filter_map(|entry| entry.root);
    if let Some(around) = roots
        .chain([common.to_owned()])
        .find(|root| path.starts_with(root))
    {
        return Err(Box::new(
            Refusal::new(
                Code::Invalid,
                format!(
                    "{} is inside {}: a worktree is made beside the others, never inside one",
                    path.display(),
                    around.display()
                ),
            )
            .help(format!("{create} --path <a folder beside it>"))
            .help("jit config set worktree.path '../{repo}-worktrees/{unit}'"),
        ));
    }
    // Git fills in `@{-1}`: what it says has to be the same name.
    let valid = cx
        .git_in(common)
        .args(["check-ref-format", "--branch", branch])
        .line();
    if !valid.is_ok_and(|name| name == branch) || branch.starts_with('-') {
        return Err(refuse(
            Code::Invalid,
            format!("{branch:?} cannot be the name of a branch"),
        ));
    }
    // Git stores branches like files: no name can be both a branch and a folder of branches.
    let above = branch.match_indices('/').filter_map(|(at, _)| branch.get(..at));
    for name in above.chain([branch]) {
        let full = format!("refs/heads/{name}");
        if cx.git_in(common).verify(&full).map_err(git)?.is_none() {
            continue;
        }
        let message = match name == branch {
            true => format!("there is a branch {branch} already"),
            false => format!("there is a branch {name}, so git cannot have {branch} beside it"),
        };
        return Err(other_branch(message, &create, name));
    }
    let below = cx
        .git_in(common)
        .args(["for-each-ref", "--count=1", "--format=%(refname:lstrip=2)"])
        .arg(format!("refs/heads/{branch}/"))
        .line()
        .map_err(git)?;
    if !below.is_empty() {
        let message = format!("there is a branch {below}, so git cannot have {branch} beside it");
        return Err(other_branch(message, &create, branch));
    }
    Ok(())
}

/// T12: another attempt. An unfinished provisioning is completed, and a missing worktree is created again.
pub(crate) fn retry_unit(cx: &Context, named: Option<&str>) -> Outcome<Answer> {
    let unit = find_unit(cx, &crate::write_path::view(cx)?, named)?;
    let unit = try_again(cx, &unit.id)?;
    let view = crate::write_path::view(cx)?;
    crate::write_path::read_answer(
        cx,
        &view,
        Reply::Units(UnitReply::Unit(Box::new(UnitView::of(unit)))),
    )
}

pub(crate) fn try_again(cx: &Context, id: &UnitId) -> Outcome<Unit> {
    let mut unit = crate::units::service::load_unit(cx, id)?;
    if unit.state == Phase::Provisioning {
        let _turn = crate::worktrees::provisioning::makers_turn(cx, id)?;
        unit = crate::units::service::load_unit(cx, id)?;
        if unit.state == Phase::Provisioning {
            // The process that began to create it is gone.
            return crate::worktrees::provisioning::go_on_making(cx, unit);
        }
    }
    if unit.state == Phase::Merging {
        let message = format!(
            "{id} is {}: its landing has begun, and comes to its end first",
            unit.state
        );
        return Err(Box::new(
            Refusal::new(Code::BadTransition, message)
                .help(crate::landing::service::land_again(cx, &unit))
                .help(format!("jit worktree status {id}")),
        ));
    }
    let gone = unit.worktree_id.is_some() && Path::new(&unit.worktree_path).symlink_metadata().is_err();
    let displaced = unit.worktree_id.is_some() && !gone && leads_to(Path::new(&unit.worktree_path)).is_none();
    if (gone || displaced) && matches!(unit.state, Phase::Ready | Phase::Completed | Phase::Merged) {
        // The unit has not failed: only its worktree is created again, from its branch.
        let place = crate::worktrees::provisioning::ensure_worktree(cx, &unit)?;
        let facts = Facts {
            worktree_id: Some(identity_of(&place)?),
            worktree_path: Some(unit.worktree_path.clone()),
            ..Facts::default()
        };
        return advance(cx, id, UnitInput::WorktreeMoved, facts);
    }
    let repo = crate::landing::service::landing_repo(cx)?;
    let tip = repo.tip(&unit.branch)?;
    let onto = repo.tip(unit.goes_to())?;
    let may = unit.may_be_retried() || unit.is_mended(tip.as_deref(), onto.as_deref());
    if unit::step(unit.state, UnitInput::RetryDispatch).is_none() || !may {
        // This call refuses, before anything is created.
        return advance(cx, id, UnitInput::RetryDispatch, Facts::default());
    }
    let unready = unit.worktree_id.is_none();
    let steps = if unready {
        crate::worktrees::provisioning::trusted_steps(cx)?
    } else {
        Vec::new()
    };
    let place = crate::worktrees::provisioning::ensure_worktree(cx, &unit)?;
    if unready && let Err(failure) = crate::worktrees::provisioning::provision(cx, &unit, &place, &steps) {
        return Err(Box::new(
            Refusal::new(
                Code::CheckFailed,
                format!("{} is not ready: {}", unit.id, failure.message),
            )
            .help(format!("jit worktree retry {}", unit.id))
            .help(format!("jit worktree abandon {} --reason <why>", unit.id)),
        ));
    }
    let facts = Facts {
        worktree_id: Some(identity_of(&place)?),
        tip,
        onto,
        ..Facts::default()
    };
    advance(cx, &unit.id, UnitInput::RetryDispatch, facts)
}

/// A unit with the progress of its agent, and with facts that are known but not recorded yet.
pub(crate) fn unit_view(cx: &Context, unit: Unit) -> UnitView {
    let mut shown = UnitView::of(unit);
    let unit = &shown.unit;
    if unit.state == Phase::Merged {
        shown.unsettled = crate::landing::service::more_work(cx, unit);
        return shown;
    }
    if unit.worker.is_none() || !matches!(unit.state, Phase::Dispatched | Phase::Running) {
        return shown;
    }
    let folder = crate::units::service::attempt_folder(cx, &unit.id, unit.attempt);
    match attempt::look(&folder) {
        Ok(Attempt::Running(running)) => shown.progress = progress(&folder, &running),
        Ok(Attempt::Ended(exit)) => {
            shown.unsettled = Some(match failed(&exit, &unit.agent) {
                Some(failure) => format!("its agent has ended ({}: {})", failure.reason, failure.message),
                None => "its agent has ended by itself".to_owned(),
            });
        }
        Ok(Attempt::Lost) => shown.unsettled = Some("the process that watched its agent is gone".into()),
        Ok(Attempt::NotStarted) if unit.state == Phase::Running => {
            shown.unsettled = Some("the files of its attempt are gone".into());
        }
        Ok(Attempt::NotStarted) => shown.unsettled = Some("its agent has not been started".into()),
        Ok(Attempt::Starting) | Err(_) => {}
    }
    shown
}

/// Shows the changes of a unit since it left its target, committed or not.
pub(crate) fn unit_diff(cx: &Context, named: Option<&str>) -> Outcome<Answer> {
    let view = crate::write_path::view(cx)?;
    let unit = crate::units::service::find_unit(cx, &view, named)?;
    let failed = crate::refusals::failed;
    let root = Path::new(&unit.worktree_path);
    let git = if root.join(".git").exists() {
        cx.git_at(root).args([
            "diff",
            "--no-ext-diff",
            "--no-color",
            "--merge-base",
            &unit.target,
        ])
    } else {
        let branch = format!("refs/heads/{}", unit.branch);
        let tip = cx
            .git_in(crate::units::service::common(cx)?)
            .verify(&branch)
            .map_err(failed)?;
        let (from, to) = match (&unit.merge_commit, tip) {
            (Some(landed), _) => (
                crate::attempts::handoff::without_it(cx, &unit, landed)?,
                landed.clone(),
            ),
            (None, Some(tip)) => {
                let both = ["merge-base", &unit.target, &tip];
                let met = cx.git_in(crate::units::service::common(cx)?).args(both).line();
                (met.unwrap_or_else(|_| unit.base.clone()), tip)
            }
            (None, None) => {
                let message = format!("the branch of {} is gone, and nothing of it has landed", unit.id);
                return Err(Box::new(
                    Refusal::new(Code::NotFound, message).help("jit rescue list"),
                ));
            }
        };
        cx.git_in(crate::units::service::common(cx)?).args([
            "diff",
            "--no-ext-diff",
            "--no-color",
            &from,
            &to,
        ])
    };
    let diff = String::from_utf8_lossy(&git.run().map_err(failed)?).into_owned();
    let reply = Reply::Units(UnitReply::Diff(UnitDiff {
        unit: unit.id,
        base: unit.base,
        diff,
    }));
    crate::write_path::read_answer(cx, &view, reply)
}

pub(crate) fn progress(folder: &Path, running: &Running) -> Option<AgentProgress> {
    let job = attempt::job(folder).ok()?;
    let now = jit_os::clock::wall_ms();
    let secs = u64::try_from((now - running.started_at).max(0) / 1000).unwrap_or(0);
    let used = running.sum.cost_usd.unwrap_or_default();
    Some(AgentProgress {
        last_action: running
            .last
            .as_ref()
            .map_or_else(String::new, |line| line.said.for_people()),
        last_event_at: running.last.as_ref().map(|line| Wall::from_ms(line.at)),
        turns: running.sum.turns,
        tokens: running.sum.tokens,
        cost_usd: running.sum.cost_usd,
        running_secs: secs,
        remaining_secs: job.timeout_secs.saturating_sub(secs),
        remaining_usd: job.budget.map(|all| Usd(all.0.saturating_sub(used.0))),
        remaining_tokens: job
            .budget_tokens
            .map(|all| all.saturating_sub(running.sum.tokens.total())),
    })
}
