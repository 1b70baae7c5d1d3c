//! Determines the outcome of an attempt (G7, G8).
//!
//! What must hold: the agent's own report is not enough. A unit is COMPLETED only if all of this holds:
//!
//! - its agent ended without an error;
//! - its artifacts exist and its checks passed;
//! - it wrote nothing outside its scope or under a lock of another agent;
//! - all of its work is committed.

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use jit_agents as agents;
use jit_agents::event::AgentVerdict as Verdict;
use jit_agents::job::{AttemptEnd as End, Exit, Job};
use jit_agents::redact::Redactor;
use jit_agents::runner::attempt::{self, Attempt};
use jit_core::coordinator;
use jit_core::log::state;
use jit_core::model::actor::Actor;
use jit_core::model::failure_reason;
use jit_core::model::ids::UnitId;
use jit_core::model::policy::Enforce;
use jit_core::model::refusal::Code;
use jit_core::model::time::Wall;
use jit_core::model::unit::{Artifact, Facts, Failure, Phase, Refused, Unit, UnitInput};
use jit_core::model::workflow::Workflow;
use jit_git::Git;
use jit_os::io_refusal;
use jit_os::shell::shell_word;
use jit_store::Outcome;

use super::dispatch::Starting;
use crate::context::Context;
use crate::gates::run::{GRACE, Run, run};
use crate::refusals::refuse;
use crate::units::worktree_state::marked_conflict;

/// A started shim has this long to acquire its lock before it is started again.
const SPAWN_AGAIN: Duration = Duration::from_secs(3);

/// Maximum number of paths named in a message.
const NAMED: usize = 10;

/// Settles all running units, so that the log agrees with the files of their attempts. Units of running workflows are
/// left to their coordinator. A unit that cannot be settled now is shown as it was.
pub(crate) fn settle_all(cx: &Context, units: &[Unit]) {
    for unit in units {
        let at_work = matches!(unit.state, Phase::Dispatched | Phase::Running);
        if at_work && unit.worker.is_some() && matches!(running_workflow(cx, unit), Ok(None)) {
            let _ = settle(cx, &unit.id, Starting::Allowed);
        }
    }
}

/// Settles one unit, even in a workflow without a coordinator: a process that waits for its end would wait forever.
pub fn settle_unless_led(cx: &Context, id: &UnitId) -> Outcome<()> {
    let led = running_workflow(cx, &crate::units::service::load_unit(cx, id)?)?;
    match led.is_some_and(|workflow| {
        crate::plans::lookup::is_led(&crate::plans::lookup::workflow_folder(cx, &workflow.id))
    }) {
        true => Ok(()),
        false => settle(cx, id, Starting::Allowed).map(drop),
    }
}

/// Returns the workflow of a unit if it has not ended.
fn running_workflow(cx: &Context, unit: &Unit) -> Outcome<Option<Workflow>> {
    let Some(id) = &unit.workflow else {
        return Ok(None);
    };
    let workflow =
        state::workflow(&*crate::write_path::view(cx)?.table, id).map_err(|e| refuse(Code::Io, e))?;
    Ok(workflow.filter(|workflow| !workflow.is_over()))
}

/// Settles one unit. If another process is settling it, returns the unit as it is.
pub(crate) fn settle(cx: &Context, id: &UnitId, starting: Starting) -> Outcome<Unit> {
    let Some(_turn) = crate::units::service::unit_turn(cx, id, false)? else {
        return crate::units::service::load_unit(cx, id);
    };
    settle_held(cx, crate::units::service::load_unit(cx, id)?, starting)
}

pub(crate) fn settle_held(cx: &Context, mut unit: Unit, starting: Starting) -> Outcome<Unit> {
    if unit.worker.is_none() || !matches!(unit.state, Phase::Dispatched | Phase::Running) {
        return Ok(unit);
    }
    let folder = crate::units::service::attempt_folder(cx, &unit.id, unit.attempt);
    let io = |e: std::io::Error| io_refusal("read", &folder, &e);
    let exit = match attempt::look(&folder).map_err(io)? {
        // A RUNNING unit had files; they are gone now.
        Attempt::NotStarted if unit.state == Phase::Running => return give_up_attempt(cx, &unit),
        Attempt::NotStarted if starting == Starting::Forbidden || is_cancelled(cx, &unit)? => {
            // A shim may be starting: it finds the attempt closed, or receives the request to stop.
            return match attempt::bury(&folder) {
                Ok(_) => {
                    crate::units::service::advance(cx, &unit.id, UnitInput::SpawnFailed, Facts::default())
                }
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => Ok(unit),
                Err(e) => Err(io(e)),
            };
        }
        Attempt::NotStarted => {
            // A shim that was started a moment ago acquires its lock soon.
            if !attempt::spawned_within(&folder, SPAWN_AGAIN) {
                attempt::spawn(&folder, &[]).map_err(io)?;
            }
            return Ok(unit);
        }
        Attempt::Starting => return Ok(unit),
        Attempt::Running(at_work) => {
            if unit.state == Phase::Dispatched {
                let facts = Facts {
                    pid: at_work.agent.map(|agent| agent.pid),
                    ..Facts::default()
                };
                unit = crate::units::service::advance(cx, &unit.id, UnitInput::InstanceRunning, facts)?;
            }
            return Ok(unit);
        }
        Attempt::Lost => attempt::bury(&folder).map_err(io)?,
        Attempt::Ended(exit) => exit,
    };
    let Ok(job) = attempt::job(&folder) else {
        return give_up_attempt(cx, &unit);
    };
    if unit.state == Phase::Dispatched && exit.end != End::NotStarted {
        unit = crate::units::service::advance(cx, &unit.id, UnitInput::InstanceRunning, Facts::default())?;
    }
    let (input, facts) = judge_attempt(cx, &unit, &job, &exit, &folder)?;
    // A shim that was killed could not release the locks.
    crate::file_locks::service::let_go_of_files(
        cx,
        &Actor {
            agent_id: job.worker.clone(),
            worktree_id: unit.worktree_id.clone(),
        },
    )?;
    crate::units::service::advance(cx, &unit.id, input, facts)
}

/// Fails an attempt whose files are gone: its outcome is lost.
fn give_up_attempt(cx: &Context, unit: &Unit) -> Outcome<Unit> {
    let facts = Facts {
        error: Some(crate::units::worktree_state::failure(
            "shim_lost",
            "the files of its attempt are gone".to_owned(),
        )),
        ..Facts::default()
    };
    crate::units::service::advance(cx, &unit.id, UnitInput::InstanceFailed, facts)
}

/// Whether the workflow of the unit is being cancelled: nothing new starts in it.
fn is_cancelled(cx: &Context, unit: &Unit) -> Outcome<bool> {
    let workflow = running_workflow(cx, unit)?;
    Ok(workflow.is_some_and(|workflow| workflow.cancelling))
}

/// T6, T7 or T8: determines the outcome of an attempt.
pub(crate) fn judge_attempt(
    cx: &Context,
    unit: &Unit,
    job: &Job,
    exit: &Exit,
    folder: &Path,
) -> Outcome<(UnitInput, Facts)> {
    let mut facts = Facts {
        session_id: exit
            .verdict
            .as_ref()
            .and_then(|verdict| verdict.session_id.clone())
            .or_else(|| exit.session_id.clone()),
        spent: exit.cost_usd,
        tokens: exit.tokens,
        turns: exit.turns,
        duration_ms: Some(exit.duration_ms),
        artifacts: Some(found(job)),
        ..Facts::default()
    };
    let output = folder.strip_prefix(&cx.place.control_dir).unwrap_or(folder);
    let failure = match failed(exit, &unit.agent) {
        // Git cannot be run there, and no agent can continue in it.
        _ if !Path::new(&unit.worktree_path).is_dir() => Some(crate::units::worktree_state::failure(
            "worktree_gone",
            format!("its worktree {} is gone", unit.worktree_path),
        )),
        Some(failure) if exit.end == End::Stopped => Some(stopped_for(failure, attempt::stop_reason(folder))),
        Some(failure) => Some(failure),
        None => missing(cx, unit, job)?,
    };
    let Some(mut failure) = failure else {
        return Ok((UnitInput::InstanceCompleted, facts));
    };
    if let Cow::Owned(clean) = Redactor::of_process().clean(&failure.message) {
        failure.message = clean;
    }
    failure.exit_code = failure.exit_code.or(exit.exit_code);
    failure
        .output
        .get_or_insert_with(|| output.to_string_lossy().into_owned());
    if failure.reason == failure_reason::RATE_LIMIT {
        let until = exit.verdict.as_ref().and_then(|verdict| verdict.limited?.until);
        facts.refused = Some(Refused {
            until: until.map(Wall::from_ms),
            backoff_ms: crate::attempts::accounts::park_ms(cx),
        });
    }
    let input = match exit.end {
        End::TimedOut | End::Hung => UnitInput::InstanceTimeout,
        _ => UnitInput::InstanceFailed,
    };
    facts.error = Some(failure);
    Ok((input, facts))
}

/// Returns what a unit still lacks although its agent ended without an error.
fn missing(cx: &Context, unit: &Unit, job: &Job) -> Outcome<Option<Failure>> {
    if let Some(failure) = crate::units::scope::outside_scope(cx, unit, &job.writes)? {
        return Ok(Some(failure));
    }
    let dir = Path::new(&unit.worktree_path);
    if let Some(failure) = marked_conflict(cx, unit)? {
        return Ok(Some(failure));
    }
    let found = found(job);
    let lacking: Vec<&str> = job
        .artifacts
        .iter()
        .filter(|wanted| !found.iter().any(|one| fits(&wanted.path, &one.path)))
        .map(|wanted| wanted.path.as_str())
        .collect();
    if !lacking.is_empty() {
        let message = format!("it ended, and these files are not there: {}", lacking.join(", "));
        return Ok(Some(crate::units::worktree_state::failure(
            "artifacts_missing",
            message,
        )));
    }
    let git = |e| refuse(Code::Io, e);
    let branch = format!("refs/heads/{}", unit.branch);
    let Some(tip) = cx
        .git_in(crate::units::service::common(cx)?)
        .verify(&branch)
        .map_err(git)?
    else {
        return Ok(Some(crate::units::worktree_state::failure(
            "no_commits",
            format!("its branch {} is gone", unit.branch),
        )));
    };
    if let Err(refusal) = crate::units::worktree_state::require_committed(cx, unit, &tip) {
        return Ok(Some(crate::units::worktree_state::failure(
            "uncommitted",
            refusal.message,
        )));
    }
    let range = format!("{}..{tip}", unit.base);
    let commits = cx
        .git_at(dir)
        .args(["rev-list", "--count", &range])
        .line()
        .map_err(git)?;
    if commits.trim() == "0" {
        return Ok(Some(crate::units::worktree_state::failure(
            "no_commits",
            "it ended without a commit".to_owned(),
        )));
    }
    if let Some(failure) = wrote_locked(cx, unit, job)? {
        return Ok(Some(failure));
    }
    let vars: Vec<_> = job
        .vars
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    for (n, command) in job.validate.iter().enumerate() {
        let below = Path::new("units").join(unit.id.as_str());
        let name = below
            .join(format!("attempt-{}", job.attempt))
            .join(format!("validate-{}.log", n + 1));
        let mut log = crate::context::log_file(cx, &name).map_err(|e| io_refusal("write", &name, &e))?;
        let ran = run(
            &Run {
                command,
                dir,
                timeout: Duration::from_secs(job.timeout_secs),
                grace: GRACE,
                vars: &vars,
            },
            &mut log,
        );
        if !ran.passed() {
            let why = ran.reason().unwrap_or_else(|| "it failed".to_owned());
            return Ok(Some(Failure {
                reason: "validation".to_owned(),
                message: format!("{}: {why}", shell_word(command)),
                exit_code: ran.exit_code,
                output: Some(name.to_string_lossy().into_owned()),
            }));
        }
    }
    Ok(None)
}

/// G15: finds committed files that another agent has locked, for agents that were not stopped by a hook or bypassed
/// it.
fn wrote_locked(cx: &Context, unit: &Unit, job: &Job) -> Outcome<Option<Failure>> {
    if cx.config.enforce_leases() != Enforce::Strict {
        return Ok(None);
    }
    let view = crate::write_path::view(cx)?;
    let worker = Actor {
        agent_id: job.worker.clone(),
        worktree_id: unit.worktree_id.clone(),
    };
    let locks = crate::file_locks::others::of_others(&view, &worker)?;
    if locks.is_empty() {
        return Ok(None);
    }
    let mut named: Vec<String> = crate::units::scope::changed_paths(cx, unit)?
        .iter()
        .filter_map(|path| {
            Some((
                path,
                crate::file_locks::others::covering(&locks, Path::new(path))?,
            ))
        })
        .map(|(path, lease)| format!("{} ({})", shell_word(path), lease.agent_id))
        .collect();
    if named.is_empty() {
        return Ok(None);
    }
    let more = named.len().saturating_sub(NAMED);
    named.truncate(NAMED);
    let mut message = format!("it changed files that others have locked: {}", named.join(", "));
    if more > 0 {
        message.push_str(&format!(" and {more} more"));
    }
    Ok(Some(crate::units::worktree_state::failure(
        "locked_files",
        message,
    )))
}

/// Replaces the failure reason by the reason of the stop, if that decides the next step.
fn stopped_for(mut failure: Failure, why: Option<String>) -> Failure {
    let Some(why) = why else { return failure };
    match why.as_str() {
        coordinator::WORKFLOW_BUDGET => failure_reason::BUDGET.clone_into(&mut failure.reason),
        coordinator::DAY_BUDGET => failure_reason::DAY_BUDGET.clone_into(&mut failure.reason),
        why if why.starts_with(coordinator::HANDED_ON) => {
            failure_reason::HANDED_ON.clone_into(&mut failure.reason);
        }
        _ => {}
    }
    failure.message = why;
    failure
}

/// Failure reasons of agents that are adopted as ours. Any other is only shown: it can be any text, and our own
/// reasons decide the next step.
const AGENTS_WORDS: &[&str] = &[
    "api_error",
    "max_turns",
    "session_lost",
    "image_error",
    "aborted_tools",
    "usage",
    failure_reason::NO_CONVERSATION,
];

/// Whether the verdict says, or implies, that the account was refused.
fn was_limited(verdict: &Verdict) -> bool {
    verdict.is_error
        && (verdict.limited.is_some()
            || matches!(verdict.api_status, Some(429 | 529))
            || (verdict.api_status.is_none()
                && matches!(verdict.reason.as_str(), "rate_limit" | "overloaded")))
}

/// Returns why an attempt failed, judged only by how it ended.
pub(crate) fn failed(exit: &Exit, agent: &Option<String>) -> Option<Failure> {
    let last = exit
        .stderr_tail
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty());
    let with_last = |text: String| match last {
        Some(line) => format!("{text}: {}", line.trim()),
        None => text,
    };
    let kind = agent.as_deref().and_then(agents::by_name);
    let usage = kind.as_ref().and_then(|agent| agent.usage_code());
    let tells_end = kind.as_ref().is_some_and(|agent| agent.tells_end());
    let word = |reason: &str, text: &str| {
        Some(crate::units::worktree_state::failure(
            reason,
            with_last(text.to_owned()),
        ))
    };
    // The time was used up by waiting for the model.
    if matches!(exit.end, End::TimedOut | End::Hung) && exit.verdict.as_ref().is_some_and(was_limited) {
        return word(
            failure_reason::RATE_LIMIT,
            "its time was up while it waited for the model",
        );
    }
    match exit.end {
        End::NotStarted => word("not_started", "the agent could not be started"),
        End::TimedOut => word("timeout", "its time was up"),
        End::Hung => word("hung", "it said nothing and did nothing any more"),
        End::OverBudget => word("budget", "its budget was used up"),
        End::OverTurns => word("max_turns", "it had taken all its turns"),
        End::Stopped => word("stopped", "somebody stopped it"),
        End::ShimLost => word("shim_lost", "the process that watched it was killed"),
        End::Exited | End::Lingered => match &exit.verdict {
            Some(verdict) if verdict.is_error => {
                let reason = match (verdict.api_status, verdict.reason.as_str()) {
                    _ if was_limited(verdict) => failure_reason::RATE_LIMIT,
                    // A retry would fail the same way.
                    (Some(401 | 403), _) | (_, "authentication_failed") if !verdict.retryable => {
                        failure_reason::AUTHENTICATION
                    }
                    // Names, sizes.
                    (Some(400..=428), _) | (_, "usage") if !verdict.retryable => failure_reason::USAGE,
                    (_, "budget_exhausted") => failure_reason::BUDGET,
                    (_, reason) if AGENTS_WORDS.contains(&reason) => reason,
                    _ => "error",
                };
                let text = match verdict.text.is_empty() {
                    true => format!("it said that it failed: {}", verdict.reason),
                    false => verdict.text.clone(),
                };
                let text = match reason {
                    failure_reason::AUTHENTICATION => {
                        let program = agent.as_deref().unwrap_or("the agent");
                        format!("{program} is not logged in, or its credentials were refused: {text}")
                    }
                    _ => text,
                };
                Some(crate::units::worktree_state::failure(reason, text))
            }
            Some(_) => None,
            // A process that was ended for lingering had given its result, so this is an exit.
            None => match (exit.exit_code, exit.signal) {
                (Some(0), _) if tells_end => word("no_result", "it ended without saying how"),
                (Some(0), _) => None,
                (Some(code), _) if Some(code) == usage => word(
                    failure_reason::USAGE,
                    "it was called in a way it does not understand",
                ),
                (Some(code), _) => Some(crate::units::worktree_state::failure(
                    "exit",
                    with_last(format!("it ended with code {code}")),
                )),
                (None, signal) => {
                    let signal = signal.map_or("an unknown signal".to_owned(), |n| format!("signal {n}"));
                    Some(crate::units::worktree_state::failure(
                        "killed",
                        with_last(format!("it was ended by {signal}")),
                    ))
                }
            },
        },
    }
}

fn fits(pattern: &str, path: &str) -> bool {
    pattern == path
        || jit_core::model::glob::Pattern::parse(pattern).is_ok_and(|pattern| pattern.matches(path))
}

/// Returns the requested artifacts that exist.
fn found(job: &Job) -> Vec<Artifact> {
    let mut found = Vec::new();
    for wanted in &job.artifacts {
        let plain = job.dir.join(&wanted.path);
        if plain.exists() {
            found.push(wanted.clone());
        } else if wanted.path.contains(['*', '?', '[']) {
            let paths = listed(job, &[])
                .into_iter()
                .filter(|path| fits(&wanted.path, path));
            found.extend(paths.map(|path| Artifact {
                path,
                kind: wanted.kind.clone(),
            }));
        }
    }
    if let Some(folder) = job
        .artifact_dir
        .as_deref()
        .filter(|folder| job.dir.join(folder).is_dir())
    {
        for path in listed(job, &["--", folder]) {
            if !found.iter().any(|known: &Artifact| known.path == path) {
                found.push(Artifact {
                    path,
                    kind: "artifact".to_owned(),
                });
            }
        }
    }
    found
}

/// Returns the files in the worktree of a job that git knows or would know.
fn listed(job: &Job, below: &[&str]) -> Vec<String> {
    let listed = Git::at(&job.dir)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .args(below)
        .run()
        .unwrap_or_default();
    let paths = listed
        .split(|b| *b == 0)
        .filter_map(|path| std::str::from_utf8(path).ok());
    paths.filter(|path| !path.is_empty()).map(str::to_owned).collect()
}
