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

use jit_agents::event::Meter;
use jit_agents::hooks::Program;
use jit_agents::hooks::settings::{self, Reach};
use jit_agents::job::{Job, Resume, Stop};
use jit_agents::prompt::{self, Brief, IssueComment, IssueText, PromptSource};
use jit_agents::runner::attempt::{self, Attempt};
use jit_agents::{self as agents, price};
use jit_core::account::AccountId;
use jit_core::command::{Command, Target};
use jit_core::ids::{AgentId, UnitId};
use jit_core::lease::{Actor, Lease, Resource};
use jit_core::plan::{PlanArtifact, PlanUnit, Settings};
use jit_core::refusal::{Code, Refusal};
use jit_core::state;
use jit_core::unit::{Artifact, Facts, Input, Phase, Unit, Usd};
use jit_os::shell::shell_word;
use jit_os::{file, io_refusal, random};
use jit_store::Outcome;

use super::again::conflict_of;
use super::handoff::Handoffs;
use super::scope::Scope;
use super::{App, Kept};
use crate::config::Dispatching;
use crate::duration::format_secs;
use crate::refusals::refuse;
use crate::request::{Answer, Reply, UnitView};
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

/// How an agent is to be started.
#[derive(Debug, Clone, Default)]
pub struct DispatchAsk {
    /// Unit, issue, branch or path; none means the unit of this worktree.
    pub unit: Option<String>,
    pub run: Settings,
    /// Besides what the issue says.
    pub prompt: Option<String>,
    /// A file with words, or a template instead of the built-in one.
    pub prompt_file: Option<PathBuf>,
    pub again: Again,
    pub artifacts: Vec<Artifact>,
    pub validate: Vec<String>,
    /// Where it may write; as the attempt before, when nothing is said.
    pub writes: Option<Vec<String>>,
    /// What others have for it.
    pub handoffs: Handoffs,
    /// Also on an account that is parked.
    pub force: bool,
}

impl DispatchAsk {
    /// What a plan asks of a unit's agent.
    pub(crate) fn of_plan(id: &UnitId, planned: &PlanUnit) -> Outcome<Self> {
        let name = |name: &String| name.parse::<UnitId>().map_err(|e| refuse(Code::Invalid, e));
        let from: Outcome<Vec<UnitId>> = planned.handoff_from.iter().map(name).collect();
        let artifact = |wanted: &PlanArtifact| Artifact {
            path: wanted.path.clone(),
            kind: wanted.kind.clone(),
        };
        Ok(Self {
            unit: Some(id.to_string()),
            run: planned.run.clone(),
            prompt: planned.prompt.clone(),
            prompt_file: None,
            again: Again::Fresh,
            artifacts: planned.artifacts.iter().map(artifact).collect(),
            validate: planned.validate.clone(),
            writes: Some(planned.writes.clone()),
            handoffs: Handoffs {
                from: from?,
                by: planned.handoff,
                barrier: planned.phase,
            },
            force: false,
        })
    }
}

/// Bytes of the repository's own rules that agents are told.
const RULES_MOST: u64 = 64 << 10;

/// A program and its arguments as they are approved. Word for word: joined, two different ones could read the same.
pub(super) fn words_as_text(words: &[String]) -> String {
    format!("{words:?}")
}

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
            file::make_dir_like_parent(folder).map_err(|e| io_refusal("create", folder, &e))?;
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
            account: Some(set.account).filter(|word| !word.is_empty()),
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
            "dispatch.command" => words_as_text(&set.command),
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
        self.require_not_of_another(&unit)?;
        let (ask, as_before) = self.over_before(&unit, ask)?;
        let unit = self.start_attempt(&unit.id, &ask)?;
        let view = self.view()?;
        let shown = UnitView {
            as_before,
            ..UnitView::of(unit)
        };
        let mut answer = self.read_answer(&view, Reply::Unit(Box::new(shown)))?;
        answer.warnings.extend(self.cautions(&ask.run));
        Ok(answer)
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
                .help(match unit.state {
                    Phase::Provisioning => format!("jit worktree retry {id}"),
                    Phase::Merging => format!("jit worktree merge {id}"),
                    _ => format!("jit worktree status {id}"),
                }),
            ));
        }
        if unit.worktree_id.is_some() {
            self.require_there(&unit, Path::new(&unit.worktree_path))?;
        }
        let account = self.require_open_account(&ask.run, ask.force, Some(id))?;
        let (job, facts) = self.prepare_attempt(&unit, ask, account)?;
        if unit.state == Phase::Failed {
            self.advance(id, Input::RetryDispatch, Facts::default())?;
        }
        let unit = self.advance(id, Input::DispatchInstance, facts)?;
        self.begin_attempt(&unit.id, job.attempt)?;
        Ok(unit)
    }

    /// The shim of an attempt that the log knows is started.
    pub(super) fn begin_attempt(&self, id: &UnitId, attempt: u32) -> Outcome<()> {
        let folder = self.attempt_folder(id, attempt);
        if let Err(e) = attempt::spawn(&folder) {
            self.advance(id, Input::SpawnFailed, Facts::default())?;
            return Err(io_refusal("start the shim for", &folder, &e));
        }
        Ok(())
    }

    /// Everything that an attempt needs is on disk. Until the log knows of it, that means nothing.
    pub(super) fn prepare_attempt(
        &self,
        unit: &Unit,
        ask: &DispatchAsk,
        account: Option<AccountId>,
    ) -> Outcome<(Job, Facts)> {
        let mut job = self.job(unit, ask)?;
        let knows = self.memory(unit, &job);
        let words = match (&job.task, &job.task_file) {
            _ if knows.words => None,
            (Some(text), _) => Some(PromptSource::Text(text.clone())),
            (None, Some(path)) => Some(PromptSource::file(path.clone())),
            (None, None) => None,
        };
        let mut brief = self.brief(unit, job.attempt)?;
        brief.writes.clone_from(&job.writes);
        brief.resumed = knows.task;
        brief.conflict = conflict_of(unit);
        if let (true, Some(issue)) = (knows.task, &mut brief.issue) {
            issue
                .comments
                .retain(|one| unit.dispatch_time.is_none_or(|at| one.at > at));
        }
        let received = self.receive(unit, ask, &mut job, &mut brief)?;
        let prompt = prompt::make(words.as_ref(), &brief).map_err(|e| refuse(Code::Invalid, e))?;
        let folder = self.attempt_folder(&unit.id, job.attempt);
        // What somebody prepared who was killed, or refused, before the log knew of it.
        attempt::discard(&folder).map_err(|e| io_refusal("remove", &folder, &e))?;
        attempt::prepare(&folder, &job, &prompt).map_err(|e| io_refusal("write", &folder, &e))?;
        received
            .put(&folder)
            .map_err(|e| io_refusal("write", &folder, &e))?;
        let facts = Facts {
            agent: Some(job.agent.clone()),
            session_id: job.session.clone(),
            worker: Some(job.worker.clone()),
            writes: Some(job.writes.clone()),
            handoffs: received.news,
            account,
            despite_parked: ask.force,
            ..Facts::default()
        };
        Ok((job, facts))
    }

    pub(super) fn job(&self, unit: &Unit, ask: &DispatchAsk) -> Outcome<Job> {
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
        if matches!(agent.as_str(), "command" | "acp") && command.is_empty() {
            return Err(Box::new(
                Refusal::new(Code::Invalid, "it is not said which command the agent is")
                    .help(format!(
                        "jit worktree dispatch <unit> --agent {agent} --command <program>"
                    ))
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
            Again::Fork if !program.forks() => {
                return Err(Box::new(
                    Refusal::new(Code::Invalid, format!("{agent} cannot fork a session"))
                        .help(format!("jit worktree dispatch {} --resume", unit.id)),
                ));
            }
            Again::Resume | Again::Fork => {
                // A session is its own agent's.
                let own = program.resumes() && unit.agent.as_ref().is_none_or(|last| *last == agent);
                let Some(session) = unit.session_id.clone().filter(|_| own) else {
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
            Some(resume) if !resume.fork => Some(resume.session.clone()),
            _ if !program.takes_session_ids() => None,
            _ => Some(uuid().map_err(|e| refuse(Code::Io, e))?),
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
        let writes = ask.writes.clone().unwrap_or_else(|| unit.writes.clone());
        Scope::of(&writes)?;
        let attempt = unit.attempt + 1;
        let before = resume.as_ref().and(unit.cost_usd);
        let meter = resume
            .as_ref()
            .and_then(|resume| self.meter_of(unit, &resume.session));
        Ok(Job {
            unit: unit.id.clone(),
            attempt,
            prompt_file: self.attempt_folder(&unit.id, attempt).join("prompt.md"),
            cost_before: before,
            meter_before: meter,
            prices: set.prices,
            agent,
            worker,
            dir: PathBuf::from(&unit.worktree_path),
            command,
            vars,
            session,
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
            writes,
            task: ask.prompt.clone(),
            task_file: match &ask.prompt {
                Some(_) => None,
                None => ask.prompt_file.as_ref().map(|path| self.place.start.join(path)),
            },
            asked: ask.run.clone(),
        })
    }

    /// What the counter of this session showed when an attempt last told of it. One that was ended before its time told
    /// nothing: what it used is the next one's, and is not lost.
    fn meter_of(&self, unit: &Unit, session: &str) -> Option<Meter> {
        (1..=unit.attempt)
            .rev()
            .filter_map(|n| match attempt::look(&self.attempt_folder(&unit.id, n)) {
                Ok(Attempt::Ended(exit)) => Some(exit),
                _ => None,
            })
            .filter(|exit| exit.session_id.as_deref() == Some(session))
            .find_map(|exit| exit.meter)
    }

    /// What somebody should know who starts agents in this way: limits that cannot be kept, locks that do not count.
    pub fn cautions(&self, run: &Settings) -> Vec<String> {
        let run = run.over(&self.run_settings());
        let name = run.agent.unwrap_or_default();
        let mut said = Vec::new();
        let Some(agent) = agents::by_name(&name) else {
            return said;
        };
        let prices = self.config.dispatching().prices;
        let price = price::find(&prices, &name, run.model.as_deref());
        if let (Some(budget), false, None) = (run.budget_usd, agent.tells_cost(), price) {
            said.push(format!(
                "{name} does not say what it costs, and dispatch.prices has nothing for {}: a budget of ${budget:.2} cannot be \
                 checked; turns and time bound it",
                shell_word(run.model.as_deref().unwrap_or(&name)),
            ));
        }
        if name == "gemini" && !self.has_hook(Program::Gemini) {
            said.push(
                "file locks do not hold gemini back while it works: jit hooks install --agent gemini --user"
                    .to_owned(),
            );
        }
        said
    }

    /// Whether this agent program asks before it acts, as far as settings here and of this user tell.
    fn has_hook(&self, program: Program) -> bool {
        let root = self.place.worktree_root.as_deref().unwrap_or(&self.place.start);
        [Reach::Project, Reach::User].into_iter().any(|reach| {
            let file = settings::file(program, reach, root, |name| std::env::var_os(name));
            let text = file.and_then(|file| std::fs::read_to_string(file).ok());
            text.is_some_and(|text| settings::has_hook(&text))
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
                    labels: described.issue.labels.iter().map(ToString::to_string).collect(),
                    comments: comments
                        .into_iter()
                        .map(|comment| IssueComment {
                            at: comment.at,
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
            handoff_files: Vec::new(),
            writes: Vec::new(),
            attempt,
            last_failure: unit
                .last_error
                .as_ref()
                .map(|error| format!("{}: {}", error.reason, error.message)),
            resumed: false,
            conflict: None,
        })
    }

    /// T12, as somebody asks for it: an agent that has just ended is seen first.
    pub(super) fn retry_by_hand(&self, named: Option<&str>) -> Outcome<Answer> {
        let unit = self.find_unit(&self.view()?, named)?;
        self.require_not_of_another(&unit)?;
        let _ = self.settle(&unit.id, Starting::Allowed)?;
        self.retry_unit(Some(unit.id.as_str()))
    }

    /// Asks the agent of a unit to end. It is settled when it has.
    pub(super) fn stop_unit(&self, named: Option<&str>, reason: &str) -> Outcome<Answer> {
        let unit = self.living_unit(&self.view()?, named)?;
        self.require_not_of_another(&unit)?;
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
        let unit = jit_core::unit::require(&*view.table, id).map_err(crate::refusals::stopped)?;
        Ok(self.located(unit))
    }
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
