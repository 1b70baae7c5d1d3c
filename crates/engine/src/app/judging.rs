//! What an attempt came to (G7, G8).
//!
//! What must hold: an agent's word is not enough. A unit is COMPLETED when its agent ended without an error, its artifacts
//! are there, its checks passed, nothing outside of its scope or under another's lock was written, and git has its work,
//! all of it committed.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use jit_agents as agents;
use jit_agents::event::AgentVerdict;
use jit_agents::job::{AttemptEnd, Exit, Job};
use jit_agents::redact::Redactor;
use jit_agents::runner::attempt::{self, Attempt};
use jit_core::ids::UnitId;
use jit_core::lease::Actor;
use jit_core::policy::Enforce;
use jit_core::refusal::Code;
use jit_core::time::Wall;
use jit_core::unit::{Artifact, Facts, Failure, Input, Phase, Refused, Unit};
use jit_core::workflow::Workflow;
use jit_core::{coordinate, state};
use jit_git::{Git, GitError};
use jit_os::io_refusal;
use jit_os::shell::shell_word;
use jit_store::Outcome;

use super::App;
use super::dispatch::Starting;
use crate::coordinator;
use crate::gates::run::{GRACE, Run, run};
use crate::hooks::locked;
use crate::refusals::refuse;

/// A shim that was started may take so long to show itself.
const SPAWN_AGAIN: Duration = Duration::from_secs(3);

/// Paths that are named in a message.
const NAMED: usize = 10;

impl App {
    /// What the log says about units at work is what their files say. For everybody who shows or decides something.
    /// Units of workflows that are not over are their coordinator's affair. What cannot be settled now is shown as it was.
    pub(super) fn settle_all(&self, units: &[Unit]) {
        for unit in units {
            let at_work = matches!(unit.state, Phase::Dispatched | Phase::Running);
            if at_work && unit.worker.is_some() && matches!(self.running_workflow(unit), Ok(None)) {
                let _ = self.settle(&unit.id, Starting::Allowed);
            }
        }
    }

    /// The same for one of them, also in a workflow that nobody leads: whoever waits for its end would wait for ever.
    pub fn settle_unless_led(&self, id: &UnitId) -> Outcome<()> {
        let led = self.running_workflow(&self.load_unit(id)?)?;
        match led.is_some_and(|workflow| coordinator::is_led(&self.workflow_folder(&workflow.id))) {
            true => Ok(()),
            false => self.settle(id, Starting::Allowed).map(drop),
        }
    }

    /// The workflow of a unit, if it is not over.
    fn running_workflow(&self, unit: &Unit) -> Outcome<Option<Workflow>> {
        let Some(id) = &unit.workflow else {
            return Ok(None);
        };
        let workflow = state::workflow(&*self.view()?.table, id).map_err(|e| refuse(Code::Io, e))?;
        Ok(workflow.filter(|workflow| !workflow.is_over()))
    }

    /// The same, for one of them. Somebody else who is at it already does it as well.
    pub(crate) fn settle(&self, id: &UnitId, starting: Starting) -> Outcome<Unit> {
        let Some(_turn) = self.unit_turn(id, false)? else {
            return self.load_unit(id);
        };
        self.settle_held(self.load_unit(id)?, starting)
    }

    pub(super) fn settle_held(&self, mut unit: Unit, starting: Starting) -> Outcome<Unit> {
        if unit.worker.is_none() || !matches!(unit.state, Phase::Dispatched | Phase::Running) {
            return Ok(unit);
        }
        let folder = self.attempt_folder(&unit.id, unit.attempt);
        let io = |e: std::io::Error| io_refusal("read", &folder, &e);
        let exit = match attempt::look(&folder).map_err(io)? {
            // There was one, or it would not be RUNNING: its traces are gone.
            Attempt::NotStarted if unit.state == Phase::Running => return self.give_up_attempt(&unit),
            Attempt::NotStarted if starting == Starting::Forbidden || self.is_cancelled(&unit)? => {
                // A shim may be on its way: it finds the attempt closed, or is told to stop.
                return match attempt::bury(&folder) {
                    Ok(_) => self.advance(&unit.id, Input::SpawnFailed, Facts::default()),
                    Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => Ok(unit),
                    Err(e) => Err(io(e)),
                };
            }
            Attempt::NotStarted => {
                // One that was started a moment ago comes to its lock soon.
                if !attempt::spawned_within(&folder, SPAWN_AGAIN) {
                    attempt::spawn(&folder).map_err(io)?;
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
                    unit = self.advance(&unit.id, Input::InstanceRunning, facts)?;
                }
                return Ok(unit);
            }
            Attempt::Lost => attempt::bury(&folder).map_err(io)?,
            Attempt::Ended(exit) => exit,
        };
        let Ok(job) = attempt::job(&folder) else {
            return self.give_up_attempt(&unit);
        };
        if unit.state == Phase::Dispatched && exit.end != AttemptEnd::NotStarted {
            unit = self.advance(&unit.id, Input::InstanceRunning, Facts::default())?;
        }
        let (input, facts) = self.judge_attempt(&unit, &job, &exit, &folder)?;
        // One whose shim was killed had nobody to do that.
        self.let_go_of_files(&Actor {
            agent_id: job.worker.clone(),
            worktree_id: unit.worktree_id.clone(),
        })?;
        self.advance(&unit.id, input, facts)
    }

    /// The files of an attempt are gone, and with them what it came to.
    fn give_up_attempt(&self, unit: &Unit) -> Outcome<Unit> {
        let facts = Facts {
            error: Some(failure(
                "shim_lost",
                "the files of its attempt are gone".to_owned(),
            )),
            ..Facts::default()
        };
        self.advance(&unit.id, Input::InstanceFailed, facts)
    }

    /// Nothing new begins in its workflow.
    fn is_cancelled(&self, unit: &Unit) -> Outcome<bool> {
        let workflow = self.running_workflow(unit)?;
        Ok(workflow.is_some_and(|workflow| workflow.cancelling))
    }

    /// T6, T7 or T8: what an attempt came to.
    pub(super) fn judge_attempt(
        &self,
        unit: &Unit,
        job: &Job,
        exit: &Exit,
        folder: &Path,
    ) -> Outcome<(Input, Facts)> {
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
        let output = folder.strip_prefix(&self.place.control_dir).unwrap_or(folder);
        let failure = match failed(exit, &unit.agent) {
            // Nothing can be asked of git there, and nobody can go on in it.
            _ if !Path::new(&unit.worktree_path).is_dir() => Some(self::failure(
                "worktree_gone",
                format!("its worktree {} is gone", unit.worktree_path),
            )),
            Some(failure) if exit.end == AttemptEnd::Stopped => {
                Some(stopped_for(failure, attempt::stop_reason(folder)))
            }
            Some(failure) => Some(failure),
            None => self.missing(unit, job)?,
        };
        let Some(mut failure) = failure else {
            return Ok((Input::InstanceCompleted, facts));
        };
        if let Cow::Owned(clean) = Redactor::of_process().clean(&failure.message) {
            failure.message = clean;
        }
        failure.exit_code = failure.exit_code.or(exit.exit_code);
        failure
            .output
            .get_or_insert_with(|| output.to_string_lossy().into_owned());
        if failure.reason == coordinate::reason::RATE_LIMIT {
            let until = exit.verdict.as_ref().and_then(|verdict| verdict.limited?.until);
            facts.refused = Some(Refused {
                until: until.map(Wall::from_ms),
                backoff_ms: self.park_ms(),
            });
        }
        let input = match exit.end {
            AttemptEnd::TimedOut | AttemptEnd::Hung => Input::InstanceTimeout,
            _ => Input::InstanceFailed,
        };
        facts.error = Some(failure);
        Ok((input, facts))
    }

    /// What a unit lacks whose agent ended well.
    fn missing(&self, unit: &Unit, job: &Job) -> Outcome<Option<Failure>> {
        if let Some(failure) = self.outside_scope(unit, &job.writes)? {
            return Ok(Some(failure));
        }
        let dir = Path::new(&unit.worktree_path);
        if let Some(failure) = self.marked_conflict(unit)? {
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
            return Ok(Some(failure("artifacts_missing", message)));
        }
        let git = |e| refuse(Code::Io, e);
        let branch = format!("refs/heads/{}", unit.branch);
        let Some(tip) = Git::in_git_dir(self.common()?).verify(&branch).map_err(git)? else {
            return Ok(Some(failure(
                "no_commits",
                format!("its branch {} is gone", unit.branch),
            )));
        };
        if let Err(refusal) = self.require_committed(unit, &tip) {
            return Ok(Some(failure("uncommitted", refusal.message)));
        }
        let range = format!("{}..{tip}", unit.base);
        let commits = Git::at(dir)
            .args(["rev-list", "--count", &range])
            .line()
            .map_err(git)?;
        if commits.trim() == "0" {
            return Ok(Some(failure(
                "no_commits",
                "it ended without a commit".to_owned(),
            )));
        }
        if let Some(failure) = self.wrote_locked(unit, job)? {
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
            let mut log = self.log_file(&name).map_err(|e| io_refusal("write", &name, &e))?;
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

    /// A conflict that was committed with its marks, or with what somebody left of them. What the base had already, or
    /// the target has, is not the unit's. A path whose `conflict-marker-size` is set has other marks, for texts about marks.
    pub(super) fn marked_conflict(&self, unit: &Unit) -> Outcome<Option<Failure>> {
        let common = self.common()?;
        let io = |e: GitError| refuse(Code::Io, e);
        let tip = format!("refs/heads/{}", unit.branch);
        let target = format!("refs/heads/{}", unit.target);
        let looking = [
            "diff",
            "--no-ext-diff",
            "--no-textconv",
            "--name-only",
            "--no-renames",
            "-z",
            MARKED,
        ];
        let between = |ends: &[&str]| Git::in_git_dir(common).args(looking).args(ends).try_run();
        let mut looked = between(&["--merge-base", &target, &tip]).map_err(io)?;
        if looked.0 != Some(0) {
            // They have nothing in common, or the target is not here.
            looked = between(&[&unit.base, &tip]).map_err(io)?;
        }
        let listed = looked.1;
        let changed = listed.split(|byte| *byte == 0);
        let mut paths: BTreeSet<&[u8]> = changed.filter(|path| !path.is_empty()).collect();
        paths.extend(unit.merge_conflicts.iter().map(|clash| clash.path.as_bytes()));
        for path in paths {
            let text = |commit: &str| -> Outcome<Vec<u8>> {
                let mut name = OsString::from(format!("{commit}:"));
                name.push(OsStr::from_bytes(path));
                let blob = Git::in_git_dir(common).args(["cat-file", "blob"]).arg(name);
                Ok(blob.try_run().map_err(io)?.1)
            };
            let now = text(&tip)?;
            if mark_lines(&now).next().is_none() {
                continue;
            }
            let met = Git::in_git_dir(common).args(["merge-base", &target, &tip]);
            let met = met.line().unwrap_or_else(|_| unit.base.clone());
            let (base, other) = (text(&unit.base)?, text(&met)?);
            let before: BTreeSet<&[u8]> = mark_lines(&base)
                .chain(mark_lines(&other))
                .map(|(_, line)| line)
                .collect();
            let own = mark_lines(&now).find(|(_, line)| !before.contains(line));
            let Some((n, _)) = own.filter(|_| !self.has_other_marks(unit, path)) else {
                continue;
            };
            let shown = shell_word(&String::from_utf8_lossy(path));
            let message = format!("{shown} still has marks of its conflict, in line {n}");
            return Ok(Some(failure("conflict_marks", message)));
        }
        Ok(None)
    }

    /// Somebody said that what looks like the marks of a conflict is none in that path.
    fn has_other_marks(&self, unit: &Unit, path: &[u8]) -> bool {
        let said = Git::at(&unit.worktree_path)
            .args(["check-attr", "-z", "conflict-marker-size", "--"])
            .arg(OsStr::from_bytes(path))
            .run();
        let said = said.unwrap_or_default();
        let value = said.split(|byte| *byte == 0).nth(2);
        let value = value.and_then(|value| std::str::from_utf8(value).ok()?.parse::<u32>().ok());
        value.is_some_and(|size| size != 7)
    }

    /// G15: what it committed although somebody else has it locked, for agents that were not held back, or went another way.
    fn wrote_locked(&self, unit: &Unit, job: &Job) -> Outcome<Option<Failure>> {
        if self.config.enforce_leases() != Enforce::Strict {
            return Ok(None);
        }
        let view = self.view()?;
        let worker = Actor {
            agent_id: job.worker.clone(),
            worktree_id: unit.worktree_id.clone(),
        };
        let locks = locked::of_others(&view, &worker)?;
        if locks.is_empty() {
            return Ok(None);
        }
        let mut named: Vec<String> = self
            .changed_paths(unit)?
            .iter()
            .filter_map(|path| Some((path, locked::covering(&locks, Path::new(path))?)))
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
        Ok(Some(failure("locked_files", message)))
    }
}

fn failure(reason: &str, message: String) -> Failure {
    Failure {
        reason: reason.to_owned(),
        message,
        exit_code: None,
        output: None,
    }
}

/// Files in which a line came or went that looks like a mark.
const MARKED: &str = r"-G^(<<<<<<<|\|\|\|\|\|\|\||>>>>>>>) ";

/// The lines that git marks a conflict with, with their numbers. A row of `=` alone is a heading in many texts.
fn mark_lines(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let marks: [&[u8]; 3] = [b"<<<<<<< ", b"||||||| ", b">>>>>>> "];
    let lines = text.split(|byte| *byte == b'\n').enumerate();
    lines
        .filter(move |(_, line)| marks.iter().any(|mark| line.starts_with(mark)))
        .map(|(n, line)| (n + 1, line))
}

/// Why an attempt was stopped, where that decides what comes next.
fn stopped_for(mut failure: Failure, why: Option<String>) -> Failure {
    let Some(why) = why else { return failure };
    match why.as_str() {
        coordinate::WORKFLOW_BUDGET => coordinate::reason::BUDGET.clone_into(&mut failure.reason),
        coordinate::DAY_BUDGET => coordinate::reason::DAY_BUDGET.clone_into(&mut failure.reason),
        why if why.starts_with(coordinate::HANDED_ON) => {
            coordinate::reason::HANDED_ON.clone_into(&mut failure.reason);
        }
        _ => {}
    }
    failure.message = why;
    failure
}

/// Words of agents about their end that are taken over. Any other is only told: it may be anything, and words of ours
/// decide what comes next.
const AGENTS_WORDS: &[&str] = &[
    "api_error",
    "max_turns",
    "session_lost",
    "image_error",
    "aborted_tools",
    "usage",
];

/// It says, or would have to say, that its account was refused.
fn was_limited(verdict: &AgentVerdict) -> bool {
    verdict.is_error
        && (verdict.limited.is_some()
            || matches!(verdict.api_status, Some(429 | 529))
            || (verdict.api_status.is_none()
                && matches!(verdict.reason.as_str(), "rate_limit" | "overloaded")))
}

/// Why an attempt failed, by how it ended alone.
pub(super) fn failed(exit: &Exit, agent: &Option<String>) -> Option<Failure> {
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
    let word = |reason: &str, text: &str| Some(failure(reason, with_last(text.to_owned())));
    // Its time was used up by waiting for the model.
    if matches!(exit.end, AttemptEnd::TimedOut | AttemptEnd::Hung)
        && exit.verdict.as_ref().is_some_and(was_limited)
    {
        return word(
            coordinate::reason::RATE_LIMIT,
            "its time was up while it waited for the model",
        );
    }
    match exit.end {
        AttemptEnd::NotStarted => word("not_started", "the agent could not be started"),
        AttemptEnd::TimedOut => word("timeout", "its time was up"),
        AttemptEnd::Hung => word("hung", "it said nothing and did nothing any more"),
        AttemptEnd::OverBudget => word("budget", "its budget was used up"),
        AttemptEnd::OverTurns => word("max_turns", "it had taken all its turns"),
        AttemptEnd::Stopped => word("stopped", "somebody stopped it"),
        AttemptEnd::ShimLost => word("shim_lost", "the process that watched it was killed"),
        AttemptEnd::Exited | AttemptEnd::Lingered => match &exit.verdict {
            Some(verdict) if verdict.is_error => {
                let reason = match (verdict.api_status, verdict.reason.as_str()) {
                    _ if was_limited(verdict) => coordinate::reason::RATE_LIMIT,
                    // Credentials, names, sizes: the same again would fail the same.
                    (Some(400..=428), _) if !verdict.retryable => coordinate::reason::USAGE,
                    (_, "authentication_failed" | "usage") if !verdict.retryable => coordinate::reason::USAGE,
                    (_, "budget_exhausted") => coordinate::reason::BUDGET,
                    (_, reason) if AGENTS_WORDS.contains(&reason) => reason,
                    _ => "error",
                };
                let text = if verdict.text.is_empty() {
                    format!("it said that it failed: {}", verdict.reason)
                } else {
                    verdict.text.clone()
                };
                Some(failure(reason, text))
            }
            Some(_) => None,
            // What was ended for lingering had given its result, so this is an exit.
            None => match (exit.exit_code, exit.signal) {
                (Some(0), _) if tells_end => word("no_result", "it ended without saying how"),
                (Some(0), _) => None,
                (Some(code), _) if Some(code) == usage => word(
                    coordinate::reason::USAGE,
                    "it was called in a way it does not understand",
                ),
                (Some(code), _) => Some(failure("exit", with_last(format!("it ended with code {code}")))),
                (None, signal) => {
                    let signal = signal.map_or("an unknown signal".to_owned(), |n| format!("signal {n}"));
                    Some(failure("killed", with_last(format!("it was ended by {signal}"))))
                }
            },
        },
    }
}

fn fits(pattern: &str, path: &str) -> bool {
    pattern == path || jit_core::pattern::Pattern::parse(pattern).is_ok_and(|pattern| pattern.matches(path))
}

/// Which of the wanted files are there.
fn found(job: &Job) -> Vec<Artifact> {
    let mut found = Vec::new();
    for wanted in &job.artifacts {
        let plain = job.dir.join(&wanted.path);
        if plain.exists() {
            found.push(wanted.clone());
        } else if wanted.path.contains(['*', '?', '[']) {
            let listed = Git::at(&job.dir)
                .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
                .run()
                .unwrap_or_default();
            let paths = listed
                .split(|b| *b == 0)
                .filter_map(|path| std::str::from_utf8(path).ok());
            found.extend(
                paths
                    .filter(|path| !path.is_empty() && fits(&wanted.path, path))
                    .map(|path| Artifact {
                        path: path.to_owned(),
                        kind: wanted.kind.clone(),
                    }),
            );
        }
    }
    found
}
