//! `jit mcp`: serves the Model Context Protocol on standard input and output.
//!
//! `jit mcp install` adds this server to the configuration of an agent program, or removes it.
//!
//! What must hold: the configuration is written only with consent at the terminal, or with `--yes`.

use std::io::{self, IsTerminal as _};

use jit_engine::context::Surroundings;
use jit_mcp::install::{self, Agent, InstallScope as Scope};
use jit_store::Outcome;
use serde_json::json;

use crate::consent;
use crate::invocation::{Invocation, Output};
use crate::render::{self, clean, clean_line};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Speaks the Model Context Protocol on standard input and output until the agent hangs up. Agents start \
    it by themselves once they know of it. It acts as --agent-id or JIT_AGENT_ID says, else as an agent named after the \
    program that started it.\n\nExample:\n  jit mcp install --agent claude"
)]
pub struct Flags {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Tell an agent program of this server, in its own configuration
    Install(Install),
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The entry is shown, and written after a yes. What else the file says stays as it is.\n\nExamples:\n  jit mcp install --agent claude\n  \
    jit mcp install --agent codex --user --dry-run\n  jit mcp install --agent cursor --uninstall"
)]
struct Install {
    /// claude, codex, gemini, cursor or vscode
    #[arg(long, value_name = "A")]
    agent: Program,
    /// For everything that you do
    #[arg(long, conflicts_with = "project")]
    user: bool,
    /// For everybody who works on this project
    #[arg(long)]
    project: bool,
    /// Only show what would be written
    #[arg(long)]
    dry_run: bool,
    /// Take it out again
    #[arg(long)]
    uninstall: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Program {
    Claude,
    Codex,
    Gemini,
    Cursor,
    #[value(name = "vscode")]
    VsCode,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    match flags.action {
        Some(Action::Install(flags)) => install(&flags, call),
        None => {
            if io::stdin().is_terminal() {
                render::say(
                    "jit mcp talks to agent programs, not to people. To tell one of it: jit mcp install --agent claude",
                );
            }
            jit_mcp::serve(call.options()?)?;
            Ok(Output {
                text: String::new(),
                warnings: Vec::new(),
                exit: 0,
            })
        }
    }
}

fn install(flags: &Install, call: &Invocation) -> Outcome<Output> {
    let agent = match flags.agent {
        Program::Claude => Agent::Claude,
        Program::Codex => Agent::Codex,
        Program::Gemini => Agent::Gemini,
        Program::Cursor => Agent::Cursor,
        Program::VsCode => Agent::VsCode,
    };
    let scope = match (flags.user, flags.project) {
        (true, _) => Scope::User,
        (_, true) => Scope::Project,
        _ => agent.usual_scope(),
    };
    let project = match scope {
        Scope::User => None,
        Scope::Project => {
            let place = Surroundings::find(&call.options()?)?.place;
            let without_git = || place.local_jit.as_deref()?.parent().map(Into::into);
            place.worktree_root.clone().or_else(without_git)
        }
    };
    let plan = install::plan(
        agent,
        scope,
        project.as_deref(),
        |name| std::env::var_os(name),
        !flags.uninstall,
    )?;
    let file = plan.file.display().to_string();
    let changed = plan.changes_something();
    if changed {
        // Shown before anything is written, so that the user sees it even if writing fails.
        let does = if plan.install { "gets" } else { "loses" };
        let change = format!("{} {does}:\n\n{}", clean_line(&file), plan.entry.trim_end());
        if !flags.dry_run && !flags.yes {
            consent::ask(&change, call)?;
        } else if !call.quiet() && !call.json() {
            render::say(&clean(&change));
        }
    }
    let written = changed && !flags.dry_run;
    if written {
        plan.carry_out()?;
    }
    let value = json!({
        "file": file,
        "entry": plan.entry,
        "installed": if flags.dry_run { plan.install != changed } else { plan.install },
        "changed": changed,
        "dry_run": flags.dry_run,
    });
    let mut warnings = Vec::new();
    if plan.install && !on_path() {
        warnings.push("there is no jit on your PATH, where the agent will look for it".to_owned());
    }
    let shown = call.show(&value, |style| match (call.quiet(), written, changed) {
        (true, _, _) => String::new(),
        (_, true, _) => format!("{} {}\n", style.good("✓"), clean_line(&file)),
        (_, _, true) => "Nothing was written.\n".to_owned(),
        _ => {
            let state = if plan.install {
                "has it already"
            } else {
                "does not have it"
            };
            format!("{} {state}.\n", clean_line(&file))
        }
    });
    Ok(shown.warn(warnings))
}

fn on_path() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join("jit").is_file())
}
