//! `jit mcp`: serves the Model Context Protocol on standard input and output.
//!
//! `jit mcp install` adds this server to the configuration of an agent program, or removes it.
//!
//! What must hold: the configuration is written only with consent at the terminal, or with `--yes`.

use std::io::{self, IsTerminal as _};

use jit_agents::mcp_settings::{InstallScope, McpClient};
use jit_engine::api::Reply;
use jit_engine::api::setup::{SetupReply, SetupRequest};
use jit_store::Outcome;
use serde_json::json;

use crate::consent;
use crate::invocation::{Invocation, Output, unexpected};
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
    let client = match flags.agent {
        Program::Claude => McpClient::Claude,
        Program::Codex => McpClient::Codex,
        Program::Gemini => McpClient::Gemini,
        Program::Cursor => McpClient::Cursor,
        Program::VsCode => McpClient::VsCode,
    };
    let scope = match (flags.user, flags.project) {
        (true, _) => Some(InstallScope::User),
        (_, true) => Some(InstallScope::Project),
        _ => None,
    };
    let install = !flags.uninstall;
    let request = |write, seen| SetupRequest::McpServer {
        client,
        scope,
        install,
        write,
        seen,
    };
    let answer = call.send(request(false, None))?;
    let Reply::Setup(SetupReply::McpServer(plan)) = &answer.reply else {
        return Err(unexpected());
    };
    if plan.changed {
        // Shown before anything is written, so that the user sees it even if writing fails.
        let does = if install { "gets" } else { "loses" };
        let change = format!("{} {does}:\n\n{}", clean_line(&plan.file), plan.entry.trim_end());
        if !flags.dry_run && !flags.yes {
            consent::ask(&change, call)?;
        } else if !call.quiet() && !call.json() {
            render::say(&clean(&change));
        }
    }
    let written = plan.changed && !flags.dry_run;
    if written {
        call.send(request(true, Some(plan.seen.clone())))?;
    }
    let value = json!({
        "file": plan.file,
        "entry": plan.entry,
        "installed": if flags.dry_run { install != plan.changed } else { install },
        "changed": plan.changed,
        "dry_run": flags.dry_run,
    });
    let file = clean_line(&plan.file);
    let shown = call.show(&value, |style| match (call.quiet(), written, plan.changed) {
        (true, _, _) => String::new(),
        (_, true, _) => format!("{} {file}\n", style.good("✓")),
        (_, _, true) => "Nothing was written.\n".to_owned(),
        _ if install => format!("{file} has it already.\n"),
        _ => format!("{file} does not have it.\n"),
    });
    Ok(shown.warn(answer.warnings))
}
