//! Starts an agent in a unit, and records how it ended (G4, G6, G7, G8, G10).
//!
//! What must hold:
//!
//! - One process at a time starts and settles attempts of a unit. It holds the kernel lock on `units/<unit>/lock`.
//! - The job is on disk before the log says DISPATCHED. From then on, every process that reads the unit makes sure
//!   that the shim runs. The shim makes sure that the agent is started once.
//! - The log's statements about an attempt follow from its files alone. So any process may record them, at any time.
//! - A unit is COMPLETED only if its agent ended without an error, its artifacts exist, its checks passed, and all of
//!   its work is committed. The agent's own report is not enough.

use crate::api::units::UnitReply;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jit_agents::event::Meter;
use jit_agents::hooks::Program;
use jit_agents::hooks::settings::{self, Reach};
use jit_agents::job::{Job, Resume, Stop};
use jit_agents::prompt::{self, Brief, IssueComment as Comment, IssueText, PromptSource as Words};
use jit_agents::runner::attempt::{self, Attempt};
use jit_agents::{self as agents, price};
use jit_core::decide::command::{Command, Target};
use jit_core::log::state;
use jit_core::model::account::AccountId;
use jit_core::model::actor::Actor;
use jit_core::model::cost::Usd;
use jit_core::model::failure_reason;
use jit_core::model::ids::{AgentId, UnitId};
use jit_core::model::lease::{Lease, Resource};
use jit_core::model::plan::Settings;
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::unit::{Facts, Failure, Phase, Unit, UnitInput};
use jit_os::shell::shell_word;
use jit_os::{file, io_refusal, program, random};
use jit_store::Outcome;

use crate::api::attempts::{Again, DispatchAsk};
use crate::api::trust::Kind;
use crate::api::units::UnitView;
use crate::api::{Answer, Reply};
use crate::attempts::retry_settings::conflict_of;
use crate::config::{Config, Dispatching, Sources};
use crate::context::Context;
use crate::context::calling_agent::{asking_agent, require_may_decide};
use crate::duration::format_secs;
use crate::refusals::refuse;
use crate::trust::dispatch_commands;
use crate::units::scope::Scope;
use crate::units::service::{attempt_folder, load_unit, unit_turn};
use crate::write_path::WriteOptions;

/// Whether an attempt that has not started may still start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Starting {
    Allowed,
    Forbidden,
}

/// Maximum size in bytes of the repository's own rules in a prompt.
const RULES_MOST: u64 = 64 << 10;

fn duration_secs(text: Option<&String>, usual: u64) -> Outcome<u64> {
    text.map_or(Ok(usual), |text| {
        crate::duration::parse_secs(text).map_err(|e| refuse(Code::Invalid, format!("{text:?}: {e}")))
    })
}

/// Returns the default settings for running agents, from the configuration.
pub fn run_settings(cx: &Context) -> Settings {
    let set = cx.config.dispatching();
    let list = |words: Vec<String>| Some(words).filter(|words| !words.is_empty());
    Settings {
        agent: Some(set.agent),
        account: Some(set.account).filter(|word| !word.is_empty()),
        command: list(set.command),
        model: None,
        // `dispatch.allow` is evaluated when the agent asks for permission.
        allowed_tools: None,
        permission_mode: Some(set.permission_mode),
        one_shot: None,
        max_turns: set.max_turns,
        budget_usd: set.budget.map(|usd| usd.0 as f64 / 1e6),
        budget_tokens: set.budget_tokens,
        timeout: Some(format_secs(set.timeout_secs)),
        idle: Some(format_secs(set.idle_secs)),
        max_retries: Some(set.max_retries),
    }
}

pub(crate) fn require_trusted_dispatch(cx: &Context) -> Outcome<()> {
    let risky: Vec<(Kind, String, String)> = dispatch_commands(cx);
    if risky.is_empty() {
        return Ok(());
    }
    let (trust, repository) = (crate::approvals::approvals()?, crate::approvals::repository(cx));
    for (kind, name, text) in &risky {
        trust.require(&repository, *kind, name, text)?;
    }
    Ok(())
}

/// Refuses an agent that asks for a mode without limits: permissions are bypassed only if a person said so.
pub(crate) fn require_may_bypass(cx: &Context, run: &Settings) -> Outcome<()> {
    let mode = run.permission_mode.as_deref().unwrap_or_default();
    if !agents::MODES_WITHOUT_LIMITS.contains(&mode) {
        return Ok(());
    }
    match asking_agent(cx) {
        None => Ok(()),
        Some(agent) => Err(Box::new(
            Refusal::new(
                Code::NotAllowed,
                format!("{agent} is an agent, and the mode {mode} without limits is for a person to ask for"),
            )
            .help("leave the mode out, or ask a person to start it"),
        )),
    }
}

/// T4: starts one agent in the unit.
pub(crate) fn dispatch_unit(cx: &Context, ask: &DispatchAsk) -> Outcome<Answer> {
    let unit = crate::units::service::living_unit(cx, &crate::write_path::view(cx)?, ask.unit.as_deref())?;
    require_may_decide(cx, &crate::write_path::view(cx)?, &unit, "jit worktree dispatch")?;
    require_may_bypass(cx, &ask.run)?;
    let (ask, as_before) = crate::attempts::retry_settings::over_before(cx, &unit, ask)?;
    let folder = unit.worktree_id.is_some().then(|| Path::new(&unit.worktree_path));
    require_startable(cx, &ask.run, folder)?;
    let unit = start_attempt(cx, &unit.id, &ask)?;
    let view = crate::write_path::view(cx)?;
    let shown = UnitView {
        as_before,
        ..UnitView::of(unit)
    };
    let mut answer =
        crate::write_path::read_answer(cx, &view, Reply::Units(UnitReply::Unit(Box::new(shown))))?;
    answer.warnings.extend(cautions(cx, &ask.run));
    Ok(answer)
}

/// Starts an attempt, for a coordinator.
pub(crate) fn start_attempt(cx: &Context, id: &UnitId, ask: &DispatchAsk) -> Outcome<Unit> {
    require_trusted_dispatch(cx)?;
    let _turn = unit_turn(cx, id, true)?;
    let unit = crate::attempts::outcome::settle_held(cx, load_unit(cx, id)?, Starting::Allowed)?;
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
        crate::units::worktree_state::require_there(cx, &unit, Path::new(&unit.worktree_path))?;
    }
    let account = crate::attempts::accounts::require_open_account(cx, &ask.run, ask.force, Some(id))?;
    let (job, facts) = prepare_attempt(cx, &unit, ask, account)?;
    if unit.state == Phase::Failed {
        crate::units::service::advance(cx, id, UnitInput::RetryDispatch, Facts::default())?;
    }
    let unit = crate::units::service::advance(cx, id, UnitInput::DispatchInstance, facts)?;
    begin_attempt(cx, &unit.id, &job)?;
    Ok(unit)
}

/// Starts the shim of an attempt that is in the log.
pub(crate) fn begin_attempt(cx: &Context, id: &UnitId, job: &Job) -> Outcome<()> {
    let folder = attempt_folder(cx, id, job.attempt);
    if let Err(e) = attempt::spawn(&folder, &job.command) {
        crate::units::service::advance(cx, id, UnitInput::SpawnFailed, Facts::default())?;
        return Err(io_refusal("start the shim for", &folder, &e));
    }
    Ok(())
}

/// Writes all files of an attempt to disk. They have no effect until the attempt is in the log.
pub(crate) fn prepare_attempt(
    cx: &Context,
    unit: &Unit,
    ask: &DispatchAsk,
    account: Option<AccountId>,
) -> Outcome<(Job, Facts)> {
    let mut job = job(cx, unit, ask)?;
    let knows = crate::attempts::retry_settings::memory(cx, unit, &job);
    let words = match (&job.task, &job.task_file) {
        _ if knows.words => None,
        (Some(text), _) => Some(Words::Text(text.clone())),
        (None, Some(path)) => Some(Words::file(path.clone())),
        (None, None) => None,
    };
    let mut brief = brief(cx, unit, job.attempt)?;
    brief.writes.clone_from(&job.writes);
    brief.artifact_dir = job.artifact_dir.clone().filter(|_| ask.project_id.is_some());
    brief.resumed = knows.task;
    brief.conflict = conflict_of(unit);
    if let (true, Some(issue)) = (knows.task, &mut brief.issue) {
        issue
            .comments
            .retain(|one| unit.dispatch_time.is_none_or(|at| one.at > at));
    }
    let received = crate::attempts::handoff::receive(cx, unit, ask, &mut job, &mut brief)?;
    let prompt = prompt::make(words.as_ref(), &brief).map_err(|e| refuse(Code::Invalid, e))?;
    let folder = attempt_folder(cx, &unit.id, job.attempt);
    // Removes files left by a process that was killed or refused before the attempt was in the log.
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

/// Returns the agent that these settings name. Refuses an unknown agent, and one without its command.
fn known_agent(run: &Settings) -> Outcome<Box<dyn agents::Agent>> {
    let agent = run.agent.as_deref().unwrap_or_default();
    let Some(program) = agents::by_name(agent) else {
        return Err(Box::new(
            Refusal::new(Code::Invalid, format!("there is no agent {agent:?}"))
                .help(format!("choose one of {}", agents::NAMES.join(", "))),
        ));
    };
    if run.one_shot == Some(true) && !program.has_one_shot() {
        return Err(Box::new(
            Refusal::new(Code::Invalid, format!("{agent} has no one-shot mode"))
                .help("jit worktree dispatch <unit> --agent claude --one-shot"),
        ));
    }
    if matches!(agent, "command" | "acp") && run.command.as_ref().is_none_or(Vec::is_empty) {
        return Err(Box::new(
            Refusal::new(Code::Invalid, "it is not said which command the agent is")
                .help(format!(
                    "jit worktree dispatch <unit> --agent {agent} --command <program>"
                ))
                .help("jit config set dispatch.command '[\"<program>\"]'"),
        ));
    }
    Ok(program)
}

/// Refuses settings with which no agent could be started, before anything is changed for it. `folder` is the unit's
/// worktree, if there is one already.
pub(crate) fn require_startable(cx: &Context, run: &Settings, folder: Option<&Path>) -> Outcome<()> {
    let _ = known_agent(&run.over(&run_settings(cx)))?;
    match missing_program(cx, run, folder) {
        None => Ok(()),
        Some(program) => Err(Box::new(
            Refusal::new(
                Code::Invalid,
                format!("there is no program {program:?} that could be started"),
            )
            .help("install it, and put it on PATH")
            .help("or name another: --command <program>, or --agent <name>"),
        )),
    }
}

pub(crate) fn job(cx: &Context, unit: &Unit, ask: &DispatchAsk) -> Outcome<Job> {
    let invalid = |why: String| refuse(Code::Invalid, why);
    let set: Dispatching = cx.config.dispatching();
    let run = ask.run.over(&run_settings(cx));
    let agent = run.agent.clone().unwrap_or_default();
    let program = known_agent(&run)?;
    let one_shot = run
        .one_shot
        .unwrap_or_else(|| refuses_conversation(cx, unit, &agent));
    let command = run.command.clone().unwrap_or_default();
    if attempt::had_secrets(&command) {
        let message = format!(
            "the command line of the last attempt of {} had a secret, which was not kept",
            unit.id
        );
        return Err(Box::new(Refusal::new(Code::Invalid, message).help(format!(
            "jit worktree dispatch {} --command <the whole command line>",
            unit.id
        ))));
    }
    // Subtracts the usage of earlier attempts.
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
            // Only the agent that created a session can resume it.
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
    let mut vars = crate::units::service::unit_vars(cx, unit);
    vars.push(("JIT_AGENT_ID".to_owned(), worker.to_string()));
    if std::env::var_os("JIT_DIR").is_some() {
        let control = cx.place.control_dir.to_string_lossy().into_owned();
        vars.push(("JIT_DIR".to_owned(), control));
    }
    let mut writes = ask.writes.clone().unwrap_or_else(|| unit.writes.clone());
    let artifact_dir = artifact_dir(unit, ask, &worker);
    if let Some(folder) = &artifact_dir {
        vars.push(("JIT_ARTIFACT_DIR".to_owned(), folder.clone()));
        let own = format!("{folder}/");
        if !writes.is_empty() && !writes.contains(&own) {
            writes.push(own);
        }
    }
    Scope::of(&writes)?;
    let attempt = unit.attempt + 1;
    let before = resume.as_ref().and(unit.cost_usd);
    let meter = resume
        .as_ref()
        .and_then(|resume| meter_of(cx, unit, &resume.session));
    Ok(Job {
        unit: unit.id.clone(),
        attempt,
        prompt_file: attempt_folder(cx, &unit.id, attempt).join("prompt.md"),
        cost_before: before,
        meter_before: meter,
        prices: set.prices,
        agent: agent.clone(),
        worker,
        dir: PathBuf::from(&unit.worktree_path),
        command,
        vars,
        session,
        resume,
        model: run.model.clone(),
        allowed_tools: allowed_tools(cx, &agent, &run),
        permission_mode: run.permission_mode.clone(),
        one_shot,
        max_turns: run.max_turns,
        budget,
        budget_tokens,
        timeout_secs: duration_secs(run.timeout.as_ref(), set.timeout_secs)?,
        idle_secs: duration_secs(run.idle.as_ref(), set.idle_secs)?,
        linger_secs: set.linger_secs,
        grace_secs: set.grace_secs,
        artifacts: ask.artifacts.clone(),
        artifact_dir,
        validate: ask.validate.clone(),
        writes,
        task: ask.prompt.clone(),
        task_file: match &ask.prompt {
            Some(_) => None,
            None => ask.prompt_file.as_ref().map(|path| cx.place.start.join(path)),
        },
        asked: ask.run.clone(),
    })
}

/// Returns what the agent may use without asking. Gemini asks nobody: it gets the rules of `dispatch.allow` at its start.
/// As for the others, those of the repository's own configuration do not count.
fn allowed_tools(cx: &Context, agent: &str, run: &Settings) -> Vec<String> {
    let mut all = run.allowed_tools.clone().unwrap_or_default();
    if agent == "gemini"
        && let Ok(config) = Config::load(&Sources::from_process(&cx.place).without_repository())
    {
        all.extend(config.dispatch_allow().iter().cloned());
    }
    all
}

/// Returns the folder in which the agent of a unit of a workflow puts its artifacts, as seen from its worktree. No two
/// agents have the same.
fn artifact_dir(unit: &Unit, ask: &DispatchAsk, worker: &AgentId) -> Option<String> {
    let workflow = unit.workflow.as_ref()?;
    let above = match &ask.project_id {
        Some(project) => format!("projects/{project}/orchestration"),
        None => "orchestration".to_owned(),
    };
    let (phase, agent) = (ask.handoffs.barrier, worker.name());
    Some(format!("{above}/{workflow}/{}/phase-{phase}/{agent}", unit.id))
}

/// Whether this agent's program refused a conversation in the last attempt, or was not asked to have one since.
fn refuses_conversation(cx: &Context, unit: &Unit, agent: &str) -> bool {
    let refused = |error: &Failure| error.reason == failure_reason::NO_CONVERSATION;
    let before = crate::attempts::retry_settings::own_job(cx, unit).filter(|job| job.agent == agent);
    let mut errors = unit.error.iter().chain(&unit.last_error);
    before.is_some_and(|job| job.one_shot || errors.any(refused))
}

/// Returns the session's usage counter as the last attempt reported it. An attempt that was killed reported nothing:
/// its usage is counted for the next attempt and is not lost.
fn meter_of(cx: &Context, unit: &Unit, session: &str) -> Option<Meter> {
    (1..=unit.attempt)
        .rev()
        .filter_map(|n| match attempt::look(&attempt_folder(cx, &unit.id, n)) {
            Ok(Attempt::Ended(exit)) => Some(exit),
            _ => None,
        })
        .filter(|exit| exit.session_id.as_deref() == Some(session))
        .find_map(|exit| exit.meter)
}

/// Returns warnings about starting agents with these settings: limits that cannot be enforced, locks that have no
/// effect.
pub fn cautions(cx: &Context, run: &Settings) -> Vec<String> {
    let run = run.over(&run_settings(cx));
    let name = run.agent.unwrap_or_default();
    let mut said = Vec::new();
    let Some(agent) = agents::by_name(&name) else {
        return said;
    };
    let prices = cx.config.dispatching().prices;
    let price = price::find(&prices, &name, run.model.as_deref());
    if let (Some(budget), false, None) = (run.budget_usd, agent.tells_cost(), price) {
        said.push(format!(
            "{name} does not say what it costs, and dispatch.prices has nothing for {}: a budget of ${budget:.2} cannot be \
             checked; turns and time bound it",
            shell_word(run.model.as_deref().unwrap_or(&name)),
        ));
    }
    if name == "gemini" && !has_hook(cx, Program::Gemini) {
        said.push(
            "file locks do not hold gemini back while it works: jit hooks install --agent gemini --user"
                .to_owned(),
        );
    }
    said
}

/// Whether this agent program has our hook, according to the settings of the project and of the user.
fn has_hook(cx: &Context, program: Program) -> bool {
    let root = cx.place.worktree_root.as_deref().unwrap_or(&cx.place.start);
    [Reach::Project, Reach::User].into_iter().any(|reach| {
        let file = settings::file(program, reach, root, |name| std::env::var_os(name));
        let text = file.and_then(|file| std::fs::read_to_string(file).ok());
        text.is_some_and(|text| settings::has_hook(&text))
    })
}

/// Returns the facts about the work, for the prompt of the agent.
pub(crate) fn brief(cx: &Context, unit: &Unit, attempt: u32) -> Outcome<Brief> {
    let view = crate::write_path::view(cx)?;
    let unreadable = |e| refuse(Code::Io, e);
    let issue = match &unit.issue_id {
        Some(id) => state::issue(&*view.table, id).map_err(unreadable)?,
        None => None,
    };
    let issue = match issue {
        Some(issue) => {
            let described = crate::write_path::described(cx, issue, &[], &view.now);
            let comments = state::comments(&*view.table, &described.issue.id).map_err(unreadable)?;
            Some(IssueText {
                id: described.issue.id.to_string(),
                title: described.issue.title.clone(),
                description: described.description.clone().unwrap_or_default(),
                labels: described.issue.labels.iter().map(ToString::to_string).collect(),
                comments: comments
                    .into_iter()
                    .map(|comment| Comment {
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
        artifact_dir: None,
        attempt,
        last_failure: unit
            .last_error
            .as_ref()
            .map(|error| format!("{}: {}", error.reason, error.message)),
        resumed: false,
        conflict: None,
    })
}

/// Asks the agent of a unit to end. The attempt is settled after it has ended.
pub(crate) fn stop_unit(cx: &Context, named: Option<&str>, reason: &str) -> Outcome<Answer> {
    let unit = crate::units::service::living_unit(cx, &crate::write_path::view(cx)?, named)?;
    require_may_decide(cx, &crate::write_path::view(cx)?, &unit, "jit worktree stop")?;
    let unit = crate::attempts::outcome::settle(cx, &unit.id, Starting::Allowed)?;
    if !matches!(unit.state, Phase::Dispatched | Phase::Running) || unit.worker.is_none() {
        return Err(Box::new(
            Refusal::new(
                Code::BadTransition,
                format!("no agent runs in {}, it is {}", unit.id, unit.state),
            )
            .help(format!("jit worktree status {}", unit.id)),
        ));
    }
    stop_attempt(cx, &unit, reason)?;
    let folder = attempt_folder(cx, &unit.id, unit.attempt);
    let longest = attempt::job(&folder).map_or(60, |job| job.grace_secs + 20);
    attempt::wait_for_end(&folder, Duration::from_secs(longest))
        .map_err(|e| io_refusal("watch", &folder, &e))?;
    let unit = crate::attempts::outcome::settle(cx, &unit.id, Starting::Allowed)?;
    let view = crate::write_path::view(cx)?;
    crate::write_path::read_answer(
        cx,
        &view,
        Reply::Units(UnitReply::Unit(Box::new(UnitView::of(unit)))),
    )
}

pub(crate) fn stop_attempt(cx: &Context, unit: &Unit, reason: &str) -> Outcome<()> {
    let folder = attempt_folder(cx, &unit.id, unit.attempt);
    let stop = Stop {
        by: cx.actor.agent_id.to_string(),
        reason: reason.to_owned(),
    };
    attempt::stop(&folder, &stop)
        .map(drop)
        .map_err(|e| io_refusal("write", &folder, &e))
}

/// Renews the claim on a unit's issue while no agent runs in the unit.
pub(crate) fn keep_claim(cx: &Context, unit: &Unit) -> Outcome<()> {
    let renew = |lease: &Lease| Command::Renew {
        target: Target::Lease(lease.lease_id.clone()),
        ttl_secs: None,
        if_half_gone: true,
    };
    as_holder(cx, unit, &renew)
}

/// Releases the claim on a unit's issue, so that others can acquire it.
pub(crate) fn give_back_claim(cx: &Context, unit: &Unit) -> Outcome<()> {
    let release = |lease: &Lease| Command::Release {
        target: Target::Lease(lease.lease_id.clone()),
    };
    as_holder(cx, unit, &release)
}

/// Runs a command on the claim of a unit's issue, as its holder. Does nothing if the unit holds no claim.
fn as_holder(cx: &Context, unit: &Unit, command: &dyn Fn(&Lease) -> Command) -> Outcome<()> {
    let Some(issue) = &unit.issue_id else {
        return Ok(());
    };
    let view = crate::write_path::view(cx)?;
    let key = Resource::Issue(issue.clone()).key();
    let lease = state::lease_on(&*view.table, &key).map_err(|e| refuse(Code::Io, e))?;
    let own =
        |lease: &Lease| lease.agent_id == unit.created_by || unit.worker.as_ref() == Some(&lease.agent_id);
    let Some(lease) = lease.filter(own) else {
        return Ok(());
    };
    let holder = Actor {
        agent_id: lease.agent_id.clone(),
        worktree_id: lease.worktree_id.clone(),
    };
    let command = command(&lease);
    let options = WriteOptions {
        actor: Some(&holder),
        ..WriteOptions::default()
    };
    crate::write_path::transact_as(cx, None, &command, options).map(drop)
}

/// Returns a random UUID, the format that agent programs require for session names.
fn uuid() -> std::io::Result<String> {
    let bits = random::u128()?;
    let bits = (bits & !(0xf000 << 64) & !(0xc000 << 48)) | (0x4000 << 64) | (0x8000 << 48);
    let hex = format!("{bits:032x}");
    Ok([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
}

/// Returns the name of the program for these settings if it cannot be started in this folder.
pub(crate) fn missing_program(cx: &Context, run: &Settings, folder: Option<&Path>) -> Option<String> {
    let run = run.over(&crate::attempts::dispatch::run_settings(cx));
    let named = run.command.as_ref().and_then(|words| words.first().cloned());
    let usual = || {
        agents::by_name(run.agent.as_deref()?)?
            .program()
            .map(str::to_owned)
    };
    named
        .or_else(usual)
        .filter(|program| !program::can_be_started(program, folder))
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
