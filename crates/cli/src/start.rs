//! `jit start`: claims an issue and creates a worktree for it.
//!
//! A title creates the issue first. With an agent, it is dispatched in the new unit.
//!
//! What must hold: if the agent's account is parked, nothing is created, unless `--force` is given.

use jit_engine::api::attempts::AttemptRequest;
use jit_engine::api::issues::IssueReply;
use jit_engine::api::issues::IssueRequest;
use jit_engine::api::units::UnitEnv;
use jit_engine::api::units::UnitReply;
use jit_engine::api::units::UnitRequest;
use std::process::Command;

use jit_core::model::ids::IssuePrefix;
use jit_core::model::issue::{IssueState, Performer, Priority};
use jit_core::model::refusal::{Code, Refusal};
use jit_engine::api::Reply;
use jit_engine::api::attempts::DispatchAsk;
use jit_engine::api::issues::CreateIssue;
use jit_engine::api::units::CreateUnit;
use jit_engine::worktree_identity::identity::Need;
use jit_os::shell::shell_word;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output, duration, invalid};
use crate::render;
use crate::worktree::dispatch::{RunFlags, announce};
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

/// Returns the id of the issue. A title that is no id creates the issue first.
fn issue(flags: &Flags, call: &Invocation) -> Outcome<String> {
    let cx = call.open(Need::Write)?;
    if let Ok(issue) = flags.what.parse::<IssuePrefix>() {
        match jit_engine::handle::handle(&cx, IssueRequest::Show { issue }) {
            Ok(answer) => {
                if let Reply::Issues(IssueReply::Issue(view)) = answer.reply {
                    return Ok(view.issue.id.to_string());
                }
            }
            Err(refusal) if refusal.code == Code::NotFound => {}
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
    let answer = jit_engine::handle::handle(
        &cx,
        IssueRequest::Create(Box::new(CreateIssue {
            id: None,
            title: flags.what.clone(),
            kind: "task".to_owned(),
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
    match answer.reply {
        Reply::Issues(IssueReply::Issue(view)) => Ok(view.issue.id.to_string()),
        _ => Err(invalid("the issue could not be made")),
    }
}

pub fn run(mut flags: Flags, call: &Invocation) -> Outcome<Output> {
    let settings = std::mem::take(&mut flags.run).settings()?;
    if settings.agent.is_some() {
        // Checked before anything is created for the agent.
        jit_engine::attempts::accounts::require_open_account(
            &call.open(Need::Read)?,
            &settings,
            flags.force,
            None,
        )?;
    }
    let what = issue(&flags, call)?;
    let cx = call.open(Need::Write)?;
    let answer = jit_engine::handle::handle(
        &cx,
        UnitRequest::Create(Box::new(CreateUnit {
            what,
            base: flags.base,
            ttl_secs: flags.ttl,
            ..CreateUnit::default()
        })),
    )?;
    let Reply::Units(UnitReply::Unit(view)) = &answer.reply else {
        return Err(invalid("the unit could not be made"));
    };
    if settings.agent.is_some() {
        let unit = view.unit.id.to_string();
        if !call.json() && !call.quiet() {
            render::say(&announce(
                &settings.over(&jit_engine::attempts::dispatch::run_settings(&cx)),
            ));
            if !flags.detach {
                for caution in jit_engine::attempts::dispatch::cautions(&cx, &settings) {
                    render::say(&format!("note: {}", render::clean_line(&caution)));
                }
            }
        }
        let started = call.ask(AttemptRequest::Dispatch(Box::new(DispatchAsk {
            unit: Some(unit.clone()),
            run: settings,
            prompt: flags.prompt,
            writes: Some(flags.writes).filter(|writes| !writes.is_empty()),
            force: flags.force,
            ..DispatchAsk::default()
        })))?;
        return match flags.detach {
            true => Ok(started.warn(answer.warnings)),
            false => logs::follow_to_the_end(Some(&unit), call),
        };
    }
    if flags.shell && !call.json() {
        let shell = std::env::var_os("SHELL").unwrap_or_else(|| "sh".into());
        let env = jit_engine::handle::handle(
            &cx,
            UnitRequest::Env {
                unit: Some(view.unit.id.to_string()),
            },
        )?;
        let vars = match env.reply {
            Reply::Units(UnitReply::Env(UnitEnv { env })) => env,
            _ => Default::default(),
        };
        let status = Command::new(&shell)
            .current_dir(&view.unit.worktree_path)
            .envs(vars)
            .status();
        status.map_err(|e| invalid(format!("cannot start {}: {e}", shell.to_string_lossy())))?;
    }
    let shown = call.done(&answer.reply.value(), &[view.unit.id.as_str()], |style| {
        format!(
            "{}\nNext:\n  cd {}\n  (work, and commit)\n  jit finish\n",
            worktree::text::unit_text(&view.unit, style),
            shell_word(&view.unit.worktree_path)
        )
    });
    Ok(shown.warn(answer.warnings))
}
