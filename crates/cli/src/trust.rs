//! `jit trust`: shows, approves and revokes commands that came with the repository.
//!
//! Other commands use `ask` when only an approval is missing and a person is at the terminal.
//!
//! What must hold: a command that came with the repository runs only after its exact text was approved on this machine.

use jit_engine::api::trust::Commands;
use jit_engine::api::trust::TrustReply;
use jit_engine::api::trust::TrustRequest;
use std::io::{self, IsTerminal as _};

use jit_core::model::refusal::{Code, Refusal};
use jit_engine::api::Reply;
use jit_engine::api::trust::Need as Command;
use jit_engine::approvals::{none_trusted, set_apart};
use jit_engine::context::Context;
use jit_engine::worktree_identity::identity::Need;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output, invalid};
use crate::render::{self, Style, clean};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Commands that come with a repository run only after you approved their exact text on this \
    machine. Approvals are in ~/.local/share/jit/trust.jsonl. Agents may not approve, unless your own configuration \
    has agents.may_trust = true.\n\nExamples:\n  jit trust\n  jit trust --list"
)]
pub struct Flags {
    /// Only show the commands
    #[arg(long, conflicts_with_all = ["yes", "revoke"])]
    list: bool,
    /// Approve what is shown without asking
    #[arg(long, short)]
    yes: bool,
    /// Take back what was approved for this repository
    #[arg(long, conflicts_with = "yes")]
    revoke: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let cx = call.open(Need::Read)?;
    if flags.revoke {
        let answer = jit_engine::handle::handle(&cx, TrustRequest::Revoke)?;
        return Ok(call
            .show(&answer.reply.value(), |style| {
                crate::reply_text::text(&answer.reply, "", style)
            })
            .warn(answer.warnings));
    }
    let all = commands(&cx)?;
    let open = not_approved(&all);
    let shown = if flags.list || open.is_empty() {
        all
    } else if flags.yes {
        approve(&cx, open)?
    } else if is_terminal() {
        ask(&cx)?
    } else {
        let help = match jit_engine::approvals::require_may_trust(&cx) {
            Ok(()) => "jit trust --yes",
            Err(_) => "ask a person to run: jit trust",
        };
        return Err(Box::new(none_trusted(&open).help(help)));
    };
    let reply = Reply::Trust(TrustReply::Commands(Commands { commands: shown }));
    Ok(match flags.list {
        true => call.show(&reply.value(), |style| crate::reply_text::text(&reply, "", style)),
        false => call.done(&reply.value(), &[], |style| {
            crate::reply_text::text(&reply, "", style)
        }),
    })
}

fn commands(cx: &Context) -> Outcome<Vec<Command>> {
    match jit_engine::handle::handle(cx, TrustRequest::List)?.reply {
        Reply::Trust(TrustReply::Commands(Commands { commands })) => Ok(commands),
        _ => Ok(Vec::new()),
    }
}

fn not_approved(all: &[Command]) -> Vec<Command> {
    all.iter().filter(|one| !one.is_trusted).cloned().collect()
}

fn approve(cx: &Context, commands: Vec<Command>) -> Outcome<Vec<Command>> {
    match jit_engine::handle::handle(cx, TrustRequest::Approve { commands })?.reply {
        Reply::Trust(TrustReply::Commands(Commands { commands })) => Ok(commands),
        _ => Ok(Vec::new()),
    }
}

fn is_terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Tells whether a caller at a terminal can be asked and may approve.
pub fn can_ask(cx: &Context) -> bool {
    is_terminal() && jit_engine::approvals::require_may_trust(cx).is_ok()
}

/// Shows the commands that are not approved and asks. Returns all of them after a yes. A no is a refusal.
pub fn ask(cx: &Context) -> Outcome<Vec<Command>> {
    jit_engine::approvals::require_may_trust(cx)?;
    let open = not_approved(&commands(cx)?);
    render::say("These commands came with the repository:");
    render::say(commands_text(&open, Style::plain()).trim_end());
    render::say("May they run on this machine? [y/N]");
    let mut line = String::new();
    io::stdin().read_line(&mut line).map_err(invalid)?;
    if !matches!(line.trim().to_lowercase().as_str(), "y" | "yes") {
        let message = "nothing was approved, so nothing runs";
        return Err(Box::new(
            Refusal::new(Code::NotTrusted, message).help("jit trust"),
        ));
    }
    approve(cx, open)
}

/// Formats each command with its exact text, made harmless for a terminal.
pub fn commands_text(commands: &[Command], style: Style) -> String {
    if commands.is_empty() {
        return "No commands came with this repository.\n".into();
    }
    let line = |one: &Command| {
        let mark = if one.is_trusted {
            style.good("approved")
        } else {
            style.bad("not approved")
        };
        let (kind, text) = (one.kind.as_str(), clean(&set_apart(&one.text)));
        format!("{kind} {} ({mark}):{text}\n", clean(&one.name))
    };
    commands.iter().map(line).collect()
}

/// Text of a reply about trust.
pub fn text(reply: &TrustReply, style: Style) -> String {
    match reply {
        TrustReply::Commands(Commands { commands }) => commands_text(commands, style),
        TrustReply::Revoked(jit_engine::api::trust::Revoked { revoked }) => {
            format!("Approvals taken back: {revoked}\n")
        }
    }
}
