//! `jit start`: claims an issue and creates a worktree for it.
//!
//! A title creates the issue first. With an agent, it is dispatched in the new unit.
//!
//! What must hold: a refused command leaves nothing. If the agent is unknown or not installed, its account is parked
//! (without `--force`), or no worktree can be created, no issue is created and nothing is claimed.

use std::process::Command;

use jit_core::model::ids::IssuePrefix;
use jit_core::model::issue::{IssueState, Performer, Priority};
use jit_core::model::plan::Settings;
use jit_core::model::refusal::{Code, Details, Refusal};
use jit_engine::api::attempts::{AgentPreview, AttemptReply, AttemptRequest, DispatchAsk};
use jit_engine::api::issues::{CreateIssue, IssueReply, IssueRequest};
use jit_engine::api::rescue::{Force, RescueRequest};
use jit_engine::api::units::{CreateUnit, UnitEnv, UnitReply, UnitRequest, UnitView};
use jit_engine::api::{Answer, Reply};
use jit_os::shell::shell_word;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output, duration, invalid, unexpected};
use crate::render::{self, clean_line};
use crate::run_flags::{RunFlags, announce};
use crate::worktree::{self, logs};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Claims the issue (and makes it, when it is a title) and a worktree for it. What comes next is \
    printed; with --shell you are in it at once.\n\nExamples:\n  jit start DATE-1\n  jit start \"Parse dates\" --shell\n  jit start DATE-1 --agent claude --budget 2"
)]
pub struct Flags {
    /// An issue, or the title of a new one: two words or more
    #[arg(value_name = "ISSUE|TITLE")]
    what: String,
    /// Where its branch begins; the target branch when not given
    #[arg(long, value_name = "REV")]
    base: Option<String>,
    /// How long the claim lasts
    #[arg(long, value_name = "D", value_parser = duration, allow_hyphen_values = true)]
    ttl: Option<u64>,
    /// Open a shell in the worktree
    #[arg(long)]
    shell: bool,
    /// Text for the agent, in addition to the issue
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// With an agent: where it may write, a path or a glob; may be repeated
    #[arg(long, value_name = "GLOB")]
    writes: Vec<String>,
    #[command(flatten)]
    run: RunFlags,
    /// With an agent: also on an account that is parked
    #[arg(long)]
    force: bool,
    /// With an agent: do not wait for it
    #[arg(long)]
    detach: bool,
}

/// The issue to start.
struct StartedIssue {
    id: String,
    /// It was created for this command.
    is_new: bool,
}

/// Returns the id of the issue. A title that is no id creates the issue first.
fn issue(flags: &Flags, call: &Invocation) -> Outcome<StartedIssue> {
    if let Ok(issue) = flags.what.parse::<IssuePrefix>() {
        match call.send(IssueRequest::Show { issue }) {
            Ok(answer) => {
                if let Reply::Issues(IssueReply::Issue(view)) = answer.reply {
                    let id = view.issue.id.to_string();
                    return Ok(StartedIssue { id, is_new: false });
                }
            }
            Err(refusal) if refusal.details == Details::UnknownIssue => {}
            Err(refusal) => return Err(refusal),
        }
    }
    // A single word is meant as an id. It is refused, because a typing mistake must not create an issue.
    if !flags.what.trim().contains(' ') {
        return Err(Box::new(
            Refusal::new(Code::NotFound, format!("no issue is called {}", flags.what))
                .help("jit ready")
                .help(format!("jit issue create {}", shell_word(&flags.what))),
        ));
    }
    // Checked before the issue is created for the worktree.
    let base = flags.base.clone();
    let _ = call.send(UnitRequest::Beginning { base })?;
    create(&flags.what, call)
}

/// Creates the issue. The command has one request id; each of its requests gets one of its own.
fn create(title: &str, call: &Invocation) -> Outcome<StartedIssue> {
    let is_named = call.options()?.request.is_some();
    let mut part = "issue".to_owned();
    for n in 2.. {
        let created = call.send_as(
            &part,
            IssueRequest::Create(Box::new(CreateIssue {
                id: None,
                title: title.to_owned(),
                kind: Some("task".to_owned()),
                state: IssueState::Ready,
                priority: Priority::Normal,
                parent: None,
                labels: Vec::new(),
                depends_on: Vec::new(),
                gates: Vec::new(),
                actor: Performer::Any,
                description: None,
            })),
        )?;
        let Reply::Issues(IssueReply::Issue(view)) = created.reply else {
            break;
        };
        let id = view.issue.id.to_string();
        let issue = id.parse().map_err(invalid)?;
        match is_named.then(|| call.send(IssueRequest::Show { issue })) {
            // An earlier run created this issue and deleted it when it failed.
            Some(Err(refusal)) if refusal.code == Code::NotFound => part = format!("issue/{n}"),
            _ => return Ok(StartedIssue { id, is_new: true }),
        }
    }
    Err(unexpected())
}

/// Creates the unit. If that is refused, an issue that was created for it goes again.
fn unit(named: StartedIssue, flags: &mut Flags, call: &Invocation) -> Outcome<Answer> {
    let created = call.send(UnitRequest::Create(Box::new(CreateUnit {
        what: named.id.clone(),
        base: flags.base.take(),
        ttl_secs: flags.ttl,
        ..CreateUnit::default()
    })));
    created.map_err(|mut refusal| {
        if named.is_new
            && !matches!(refusal.code, Code::Unknown | Code::Busy | Code::CheckFailed)
            && delete(&named.id, call)
        {
            // Commands with the deleted issue would fail.
            refusal.help.retain(|help| !help.contains(&named.id));
            refusal
                .help
                .push(format!("jit start {}", shell_word(&flags.what)));
        }
        refusal
    })
}

fn delete(issue: &str, call: &Invocation) -> bool {
    issue.parse().is_ok_and(|issue| {
        call.send_unnamed(IssueRequest::Delete { issue, strict: false })
            .is_ok()
    })
}

/// Takes back what was made for an agent that cannot be started: the unit, and the issue.
fn undo(unit: &str, issue: &str, call: &Invocation) {
    let abandon = RescueRequest::Abandon {
        unit: Some(unit.to_owned()),
        reason: "its agent could not be started".to_owned(),
        force: Force::No,
    };
    if call.send_unnamed(abandon).is_ok() {
        delete(issue, call);
    }
}

pub fn run(mut flags: Flags, call: &Invocation) -> Outcome<Output> {
    let settings = std::mem::take(&mut flags.run).settings()?;
    // Checked before anything is created for the agent.
    let preview = match settings.agent {
        Some(_) => Some(preview(&settings, flags.force, call)?),
        None => None,
    };
    let named = issue(&flags, call)?;
    let new_issue = named.is_new.then(|| named.id.clone());
    let answer = unit(named, &mut flags, call)?;
    let Reply::Units(UnitReply::Unit(view)) = &answer.reply else {
        return Err(unexpected());
    };
    if let Some(preview) = preview {
        say_preview(&preview, flags.detach, call);
        let unit = view.unit.id.to_string();
        return dispatch(unit, new_issue, settings, flags, answer.warnings, call);
    }
    if flags.shell && !call.json() {
        shell(view, call)?;
    }
    Ok(next_steps(&answer, view, call))
}

/// Returns the settings of the agent. Refuses a parked account, unless `force` is set.
fn preview(settings: &Settings, force: bool, call: &Invocation) -> Outcome<AgentPreview> {
    let request = AttemptRequest::Preview {
        run: Box::new(settings.clone()),
        force,
    };
    match call.send(request)?.reply {
        Reply::Attempts(AttemptReply::Preview(preview)) => Ok(*preview),
        _ => Err(unexpected()),
    }
}

/// Announces the agent and its limits before money is spent.
fn say_preview(preview: &AgentPreview, detach: bool, call: &Invocation) {
    if call.json() || call.quiet() {
        return;
    }
    render::say(&announce(&preview.settings));
    // A detached agent's cautions are warnings of its dispatch.
    for caution in preview.cautions.iter().filter(|_| !detach) {
        render::say(&format!("note: {}", clean_line(caution)));
    }
}

/// Starts the agent in the new unit, and follows it to its end unless it is detached. If the agent cannot be started, a new
/// issue goes again.
fn dispatch(
    unit: String,
    new_issue: Option<String>,
    run: Settings,
    flags: Flags,
    warnings: Vec<String>,
    call: &Invocation,
) -> Outcome<Output> {
    let started = call.ask_as(
        "agent",
        AttemptRequest::Dispatch(Box::new(DispatchAsk {
            unit: Some(unit.clone()),
            run,
            prompt: flags.prompt,
            writes: Some(flags.writes).filter(|writes| !writes.is_empty()),
            force: flags.force,
            ..DispatchAsk::default()
        })),
    );
    if let (Err(refusal), Some(issue)) = (&started, &new_issue)
        && refusal.code == Code::Invalid
    {
        undo(&unit, issue, call);
    }
    let started = started?;
    match flags.detach {
        true => Ok(started.warn(warnings)),
        false => logs::follow_to_the_end(Some(&unit), call),
    }
}

/// Runs a shell in the worktree of the unit until the person leaves it.
fn shell(view: &UnitView, call: &Invocation) -> Outcome<()> {
    let shell = std::env::var_os("SHELL").unwrap_or_else(|| "sh".into());
    let env = call.send(UnitRequest::Env {
        unit: Some(view.unit.id.to_string()),
    })?;
    let Reply::Units(UnitReply::Env(UnitEnv { env })) = env.reply else {
        return Err(unexpected());
    };
    let status = Command::new(&shell)
        .current_dir(&view.unit.worktree_path)
        .envs(env)
        .status();
    status.map_err(|e| invalid(format!("cannot start {}: {e}", shell.to_string_lossy())))?;
    Ok(())
}

fn next_steps(answer: &Answer, view: &UnitView, call: &Invocation) -> Output {
    let shown = call.done(&answer.reply.value(), &[view.unit.id.as_str()], |style| {
        format!(
            "{}\nNext:\n  cd {}\n  (work, and commit)\n  jit finish\n",
            worktree::text::unit_text(&view.unit, style),
            shell_word(&view.unit.worktree_path)
        )
    });
    shown.warn(answer.warnings.clone())
}
