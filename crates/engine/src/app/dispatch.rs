//! Starting an agent in a unit, and noticing how it ended (G4, G6, G7, G8, G10).
//!
//! What must hold:
//!
//! - a unit's attempt is begun and settled by one process at a time, who holds the kernel's lock on `units/<unit>/lock`;
//! - the job is on disk before the log says DISPATCHED; from then on whoever looks makes sure that the shim runs. The shim
//!   makes sure that the agent is started once;
//! - what the log says about an attempt follows from its files alone, so it does not matter who writes it down, or when;
//! - an agent's word is not enough: a unit is COMPLETED when it ended without an error, its artifacts are there, its checks
//!   passed, and git has its work, all of it committed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jit_core::command::{Command, Target};
use jit_core::coordinate;
use jit_core::ids::{AgentId, UnitId};
use jit_core::lease::{Actor, Lease, Resource};
use jit_core::plan::Settings;
use jit_core::refusal::{Code, Refusal};
use jit_core::state;
use jit_core::unit::{Artifact, Facts, Failure, Input, Phase, Unit, Usd};

use super::{App, Kept, refuse, shell_word};
use crate::agents;
use crate::agents::prompt::{self, Brief, Comment, IssueText, Words};
use crate::config::Dispatching;
use crate::duration::format_secs;
use crate::gates::run::{GRACE, Run, run};
use crate::git::Git;
use crate::os::{file, random};
use crate::request::{Answer, Reply, UnitView};
use crate::runner::attempt::{self, Attempt};
use crate::runner::job::{End, Exit, Job, Resume, Stop};
use crate::store::Outcome;
use crate::store::file::io_refusal;
use crate::trust::Kind;

/// How a further attempt begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Again {
    /// With nothing but the prompt.
    #[default]
    Fresh,
    /// With all that the last attempt knew.
    Resume,
    /// The same, and the last attempt's session stays as it is.
    Fork,
}

/// Whether an attempt that was not begun may still be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Starting {
    Allowed,
    Forbidden,
}

/// A shim that was started may take so long to show itself.
const SPAWN_AGAIN: Duration = Duration::from_secs(3);

/// How an agent is to be started.
#[derive(Debug, Clone, Default)]
pub struct DispatchAsk {
    /// Unit, issue, branch or path; none means the unit of this worktree.
    pub unit: Option<String>,
    pub run: Settings,
    /// Besides what the issue says.
    pub prompt: Option<String>,
    /// A template, instead of the built-in one.
    pub prompt_file: Option<PathBuf>,
    pub again: Again,
    pub artifacts: Vec<Artifact>,
    pub validate: Vec<String>,
}

/// Bytes of the repository's own rules that agents are told.
const RULES_MOST: u64 = 64 << 10;

/// The settings that came with the repository and decide what runs, or with which rights.
const RISKY: &[&str] = &["dispatch.command", "dispatch.permission_mode"];

fn duration_secs(text: Option<&String>, usual: u64) -> Outcome<u64> {
    text.map_or(Ok(usual), |text| {
        crate::duration::parse_secs(text).map_err(|e| refuse(Code::Invalid, format!("{text:?}: {e}")))
    })
}

impl App {
    /// Where the files of a unit's attempts are.
    pub fn attempt_folder(&self, unit: &UnitId, attempt: u32) -> PathBuf {
        let units = self.place.control_dir.join("units");
        units.join(unit.as_str()).join(format!("attempt-{attempt}"))
    }

    /// Whoever has it begins or settles attempts of this unit. `None`: somebody else is at it.
    pub(super) fn unit_turn(&self, unit: &UnitId, wait: bool) -> Outcome<Option<std::fs::File>> {
        let units = self.place.control_dir.join("units");
        let folder = units.join(unit.as_str());
        let path = folder.join("lock");
        let io = |e: std::io::Error| io_refusal("lock", &path, &e);
        for folder in [&units, &folder] {
            file::make_dir_like_parent(folder).map_err(io)?;
        }
        let file = file::open_lock(&path).map_err(io)?;
        if wait {
            file.lock().map_err(io)?;
            return Ok(Some(file));
        }
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(e)) => Err(io(e)),
        }
    }

    /// The unit whose worktree this is.
    pub fn unit_here(&self) -> Outcome<UnitId> {
        Ok(self.living_unit(&self.view()?, None)?.id)
    }

    /// How agents are run where nobody says otherwise.
    pub fn run_settings(&self) -> Settings {
        let set = self.config.dispatching();
        let list = |words: Vec<String>| Some(words).filter(|words| !words.is_empty());
        Settings {
            agent: Some(set.agent),
            command: list(set.command),
            model: None,
            // `dispatch.allow` is asked when the agent asks.
            allowed_tools: None,
            permission_mode: Some(set.permission_mode),
            max_turns: set.max_turns,
            budget_usd: set.budget.map(|usd| usd.0 as f64 / 1e6),
            budget_tokens: set.budget_tokens,
            timeout: Some(format_secs(set.timeout_secs)),
            idle: Some(format_secs(set.idle_secs)),
            max_retries: Some(set.max_retries),
        }
    }

    pub(super) fn require_trusted_dispatch(&self) -> Outcome<()> {
        let risky: Vec<(Kind, String, String)> = self.dispatch_commands();
        if risky.is_empty() {
            return Ok(());
        }
        let (trust, repository) = (self.approvals()?, self.repository());
        for (kind, name, text) in &risky {
            trust.require(&repository, *kind, name, text)?;
        }
        Ok(())
    }

    /// Settings about agents that came with the repository and need to be approved.
    pub(super) fn dispatch_commands(&self) -> Vec<(Kind, String, String)> {
        let set = self.config.dispatching();
        let text = |key: &str| match key {
            // Word for word: joined, two different ones could read the same.
            "dispatch.command" => format!("{:?}", set.command),
            _ => set.permission_mode.clone(),
        };
        RISKY
            .iter()
            .filter(|key| self.comes_with_repository(key))
            .map(|key| (Kind::Agent, (*key).to_owned(), text(key)))
            .collect()
    }

    /// T4: one agent is started in the unit.
    pub(super) fn dispatch_unit(&self, ask: &DispatchAsk) -> Outcome<Answer> {
        let unit = self.living_unit(&self.view()?, ask.unit.as_deref())?;
        let unit = self.start_attempt(&unit.id, ask)?;
        let view = self.view()?;
        self.read_answer(&view, Reply::Unit(Box::new(UnitView::of(unit))))
    }

    /// The same, for a coordinator.
    pub(crate) fn start_attempt(&self, id: &UnitId, ask: &DispatchAsk) -> Outcome<Unit> {
        self.require_trusted_dispatch()?;
        let _turn = self.unit_turn(id, true)?;
        let unit = self.settle_held(self.load_unit(id)?, Starting::Allowed)?;
        if unit.worktree_id.is_none() && unit.state == Phase::Failed {
            return Err(Box::new(
                Refusal::new(Code::BadTransition, format!("the worktree of {id} is not ready"))
                    .help(format!("jit worktree retry {id}")),
            ));
        }
        if !matches!(unit.state, Phase::Ready | Phase::Failed) {
            return Err(Box::new(
                Refusal::new(
                    Code::BadTransition,
                    format!(
                        "{id} is {}: an agent is started in a unit that is READY",
                        unit.state
                    ),
                )
                .help(format!("jit worktree status {id}")),
            ));
        }
        let job = self.job(&unit, ask)?;
        let words = match (&ask.prompt, &ask.prompt_file) {
            (Some(text), _) => Some(Words::Text(text.clone())),
            (None, Some(path)) => Some(Words::file(self.place.start.join(path))),
            (None, None) => None,
        };
        let brief = self.brief(&unit, job.attempt)?;
        let prompt = prompt::make(words.as_ref(), &brief).map_err(|e| refuse(Code::Invalid, e))?;
        if unit.state == Phase::Failed {
            self.advance(id, Input::RetryDispatch, Facts::default())?;
        }
        let folder = self.attempt_folder(id, job.attempt);
        // What somebody prepared who was killed, or refused, before the log knew of it.
        attempt::discard(&folder).map_err(|e| io_refusal("remove", &folder, &e))?;
        attempt::prepare(&folder, &job, &prompt).map_err(|e| io_refusal("write", &folder, &e))?;
        let facts = Facts {
            agent: Some(job.agent.clone()),
            session_id: job.session.clone(),
            worker: Some(job.worker.clone()),
            ..Facts::default()
        };
        let unit = self.advance(id, Input::DispatchInstance, facts)?;
        if let Err(e) = attempt::spawn(&folder) {
            self.advance(id, Input::SpawnFailed, Facts::default())?;
            return Err(io_refusal("start the shim for", &folder, &e));
        }
        Ok(unit)
    }

    fn job(&self, unit: &Unit, ask: &DispatchAsk) -> Outcome<Job> {
        let invalid = |why: String| refuse(Code::Invalid, why);
        let set: Dispatching = self.config.dispatching();
        let run = ask.run.over(&self.run_settings());
        let agent = run.agent.clone().unwrap_or_default();
        let Some(program) = agents::by_name(&agent) else {
            return Err(Box::new(
                Refusal::new(Code::Invalid, format!("there is no agent {agent:?}"))
                    .help(format!("choose one of {}", agents::NAMES.join(", "))),
            ));
        };
        let command = run.command.clone().unwrap_or_default();
        if agent == "command" && command.is_empty() {
            return Err(Box::new(
                Refusal::new(Code::Invalid, "it is not said which command the agent is")
                    .help("jit worktree dispatch <unit> --command <program>")
                    .help("jit config set dispatch.command '[\"<program>\"]'"),
            ));
        }
        // What earlier attempts used is gone.
        let budget = run
            .budget()
            .map(|all| Usd(all.0.saturating_sub(unit.cost_usd.unwrap_or_default().0)));
        let budget_tokens = run
            .budget_tokens
            .map(|all| all.saturating_sub(unit.tokens.total()));
        if budget == Some(Usd(0)) || budget_tokens == Some(0) {
            return Err(Box::new(
                Refusal::new(Code::NotAllowed, format!("{} has used up its budget", unit.id))
                    .help(format!("jit worktree dispatch {} --budget <more>", unit.id)),
            ));
        }
        let resume = match ask.again {
            Again::Fresh => None,
            Again::Resume | Again::Fork => {
                let Some(session) = unit.session_id.clone().filter(|_| program.resumes()) else {
                    return Err(invalid(format!(
                        "{} has no session that {agent} could go on with",
                        unit.id
                    )));
                };
                Some(Resume {
                    session,
                    fork: ask.again == Again::Fork,
                })
            }
        };
        let session = match &resume {
            Some(resume) if !resume.fork => resume.session.clone(),
            _ => uuid().map_err(|e| refuse(Code::Io, e))?,
        };
        let worker: AgentId = format!("agent:{agent}-{}", unit.id)
            .parse()
            .map_err(|e| invalid(format!("{e}")))?;
        let mut vars = self.unit_vars(unit);
        vars.push(("JIT_AGENT_ID".to_owned(), worker.to_string()));
        if std::env::var_os("JIT_DIR").is_some() {
            let control = self.place.control_dir.to_string_lossy().into_owned();
            vars.push(("JIT_DIR".to_owned(), control));
        }
        let attempt = unit.attempt + 1;
        let before = resume.as_ref().and(unit.cost_usd);
        Ok(Job {
            unit: unit.id.clone(),
            attempt,
            prompt_file: self.attempt_folder(&unit.id, attempt).join("prompt.md"),
            cost_before: before,
            agent,
            worker,
            dir: PathBuf::from(&unit.worktree_path),
            command,
            vars,
            session: Some(session),
            resume,
            model: run.model.clone(),
            allowed_tools: run.allowed_tools.clone().unwrap_or_default(),
            permission_mode: run.permission_mode.clone(),
            one_shot: false,
            max_turns: run.max_turns,
            budget,
            budget_tokens,
            timeout_secs: duration_secs(run.timeout.as_ref(), set.timeout_secs)?,
            idle_secs: duration_secs(run.idle.as_ref(), set.idle_secs)?,
            linger_secs: set.linger_secs,
            grace_secs: set.grace_secs,
            artifacts: ask.artifacts.clone(),
            validate: ask.validate.clone(),
        })
    }

    /// What is known about the work, for whoever is to do it.
    fn brief(&self, unit: &Unit, attempt: u32) -> Outcome<Brief> {
        let view = self.view()?;
        let unreadable = |e| refuse(Code::Io, e);
        let issue = match &unit.issue_id {
            Some(id) => state::issue(&*view.table, id).map_err(unreadable)?,
            None => None,
        };
        let issue = match issue {
            Some(issue) => {
                let described = self.described(issue, &[], &view.now);
                let comments = state::comments(&*view.table, &described.issue.id).map_err(unreadable)?;
                Some(IssueText {
                    id: described.issue.id.to_string(),
                    title: described.issue.title.clone(),
                    description: described.description.clone().unwrap_or_default(),
                    labels: described.issue.labels.clone(),
                    comments: comments
                        .into_iter()
                        .map(|comment| Comment {
                            author: comment.agent_id.to_string(),
                            text: comment.text,
                        })
                        .collect(),
                })
            }
            None => None,
        };
        let rules = Path::new(&unit.worktree_path).join(".jit/rules.md");
        let rules = file::read_real(&rules, RULES_MOST).ok().flatten();
        Ok(Brief {
            issue,
            unit: unit.id.to_string(),
            branch: unit.branch.clone(),
            target: unit.target.clone(),
            rules: rules.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
            handoffs: Vec::new(),
            attempt,
            last_failure: unit
                .last_error
                .as_ref()
                .map(|error| format!("{}: {}", error.reason, error.message)),
        })
    }

    /// What the log says about units at work is what their files say. For everybody who shows or decides something.
    /// Units of workflows are their coordinator's affair. What cannot be settled now is shown as it was.
    pub(super) fn settle_all(&self, units: &[Unit]) {
        for unit in units {
            let at_work = matches!(unit.state, Phase::Dispatched | Phase::Running);
            if at_work && unit.worker.is_some() && unit.workflow.is_none() {
                let _ = self.settle(&unit.id, Starting::Allowed);
            }
        }
    }

    /// The same, for one of them. Somebody else who is at it already does it as well.
    pub(crate) fn settle(&self, id: &UnitId, starting: Starting) -> Outcome<Unit> {
        let Some(_turn) = self.unit_turn(id, false)? else {
            return self.load_unit(id);
        };
        self.settle_held(self.load_unit(id)?, starting)
    }

    fn settle_held(&self, mut unit: Unit, starting: Starting) -> Outcome<Unit> {
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
        if unit.state == Phase::Dispatched && exit.end != End::NotStarted {
            unit = self.advance(&unit.id, Input::InstanceRunning, Facts::default())?;
        }
        let (input, facts) = self.judge_attempt(&unit, &job, &exit, &folder)?;
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
        let Some(id) = &unit.workflow else {
            return Ok(false);
        };
        let workflow = state::workflow(&*self.view()?.table, id).map_err(|e| refuse(Code::Io, e))?;
        Ok(workflow.is_some_and(|workflow| workflow.cancelling))
    }

    /// T6, T7 or T8: what an attempt came to.
    fn judge_attempt(&self, unit: &Unit, job: &Job, exit: &Exit, folder: &Path) -> Outcome<(Input, Facts)> {
        let mut facts = Facts {
            session_id: exit
                .verdict
                .as_ref()
                .and_then(|verdict| verdict.session_id.clone()),
            spent: exit.cost_usd,
            tokens: exit.tokens,
            turns: exit.turns,
            duration_ms: Some(exit.duration_ms),
            artifacts: Some(found(job)),
            ..Facts::default()
        };
        let output = folder.strip_prefix(&self.place.control_dir).unwrap_or(folder);
        let failure = match failed(exit, &unit.agent) {
            Some(failure) if exit.end == End::Stopped => {
                Some(stopped_for(failure, attempt::stop_reason(folder)))
            }
            Some(failure) => Some(failure),
            None => self.missing(unit, job)?,
        };
        let Some(mut failure) = failure else {
            return Ok((Input::InstanceCompleted, facts));
        };
        failure.exit_code = failure.exit_code.or(exit.exit_code);
        failure
            .output
            .get_or_insert_with(|| output.to_string_lossy().into_owned());
        let input = match exit.end {
            End::TimedOut | End::Hung => Input::InstanceTimeout,
            _ => Input::InstanceFailed,
        };
        facts.error = Some(failure);
        Ok((input, facts))
    }

    /// What a unit lacks whose agent ended well.
    fn missing(&self, unit: &Unit, job: &Job) -> Outcome<Option<Failure>> {
        let dir = Path::new(&unit.worktree_path);
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

    /// Asks the agent of a unit to end. It is settled when it has.
    pub(super) fn stop_unit(&self, named: Option<&str>, reason: &str) -> Outcome<Answer> {
        let unit = self.living_unit(&self.view()?, named)?;
        let unit = self.settle(&unit.id, Starting::Allowed)?;
        if !matches!(unit.state, Phase::Dispatched | Phase::Running) || unit.worker.is_none() {
            return Err(Box::new(
                Refusal::new(
                    Code::BadTransition,
                    format!("no agent runs in {}, it is {}", unit.id, unit.state),
                )
                .help(format!("jit worktree status {}", unit.id)),
            ));
        }
        self.stop_attempt(&unit, reason)?;
        let folder = self.attempt_folder(&unit.id, unit.attempt);
        let longest = attempt::job(&folder).map_or(60, |job| job.grace_secs + 20);
        attempt::wait_for_end(&folder, Duration::from_secs(longest))
            .map_err(|e| io_refusal("watch", &folder, &e))?;
        let unit = self.settle(&unit.id, Starting::Allowed)?;
        let view = self.view()?;
        self.read_answer(&view, Reply::Unit(Box::new(UnitView::of(unit))))
    }

    pub(crate) fn stop_attempt(&self, unit: &Unit, reason: &str) -> Outcome<()> {
        let folder = self.attempt_folder(&unit.id, unit.attempt);
        let stop = Stop {
            by: self.actor.agent_id.to_string(),
            reason: reason.to_owned(),
        };
        attempt::stop(&folder, &stop)
            .map(drop)
            .map_err(|e| io_refusal("write", &folder, &e))
    }

    /// The claim on a unit's issue is kept while nobody works in it.
    pub(crate) fn keep_claim(&self, unit: &Unit) -> Outcome<()> {
        let renew = |lease: &Lease| Command::Renew {
            target: Target::Lease(lease.lease_id.clone()),
            ttl_secs: None,
            if_half_gone: true,
        };
        self.as_holder(unit, &renew)
    }

    /// The claim on a unit's issue is given back, for others to take.
    pub(crate) fn give_back_claim(&self, unit: &Unit) -> Outcome<()> {
        let release = |lease: &Lease| Command::Release {
            target: Target::Lease(lease.lease_id.clone()),
        };
        self.as_holder(unit, &release)
    }

    /// Does something about the claim on a unit's issue as whoever holds it for the unit, if anybody does.
    fn as_holder(&self, unit: &Unit, command: &dyn Fn(&Lease) -> Command) -> Outcome<()> {
        let Some(issue) = &unit.issue_id else {
            return Ok(());
        };
        let view = self.view()?;
        let key = Resource::Issue(issue.clone()).key();
        let lease = state::lease_on(&*view.table, &key).map_err(|e| refuse(Code::Io, e))?;
        let own = |lease: &Lease| {
            lease.agent_id == unit.created_by || unit.worker.as_ref() == Some(&lease.agent_id)
        };
        let Some(lease) = lease.filter(own) else {
            return Ok(());
        };
        let holder = Actor {
            agent_id: lease.agent_id.clone(),
            worktree_id: lease.worktree_id.clone(),
        };
        let command = command(&lease);
        let kept = Kept {
            actor: Some(&holder),
            ..Kept::default()
        };
        self.transact_as(None, &command, kept).map(drop)
    }

    pub(crate) fn load_unit(&self, id: &UnitId) -> Outcome<Unit> {
        let view = self.view()?;
        jit_core::unit::require(&*view.table, id).map_err(super::stopped)
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

/// Why an attempt was stopped, where that decides what comes next.
fn stopped_for(mut failure: Failure, why: Option<String>) -> Failure {
    let Some(why) = why else { return failure };
    match why.as_str() {
        coordinate::WORKFLOW_BUDGET => coordinate::reason::BUDGET.clone_into(&mut failure.reason),
        coordinate::DAY_BUDGET => coordinate::reason::DAY_BUDGET.clone_into(&mut failure.reason),
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
    "rate_limit",
];

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
    let usage = agent
        .as_deref()
        .and_then(agents::by_name)
        .and_then(|agent| agent.usage_code());
    let word = |reason: &str, text: &str| Some(failure(reason, with_last(text.to_owned())));
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
                    (Some(429 | 529), _) => coordinate::reason::RATE_LIMIT,
                    // Credentials, names, sizes: the same again would fail the same.
                    (Some(400..=428), _) if !verdict.retryable => coordinate::reason::USAGE,
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

/// A random UUID, as agents want for the names of their sessions.
fn uuid() -> std::io::Result<String> {
    let bits = random::u128()?;
    let bits = (bits & !(0xf000 << 64) & !(0xc000 << 48)) | (0x4000 << 64) | (0x8000 << 48);
    let hex = format!("{bits:032x}");
    Ok([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g10_sessions_have_random_uuids_of_version_4() {
        let one = uuid().expect("random bits");
        assert_eq!(one.len(), 36);
        assert_eq!(one.as_bytes()[14], b'4', "{one}");
        assert!(matches!(one.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{one}");
        assert_ne!(one, uuid().expect("random bits"));
    }
}
