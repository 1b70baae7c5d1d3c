//! `jit trust`: shows, approves and revokes commands that came with the repository.
//!
//! Other commands use `send`: it asks the person at the terminal if only an approval is missing.
//!
//! What must hold: a command that came with the repository runs only after its exact text was approved on this machine.

use std::io::{self, IsTerminal as _};

use jit_core::model::refusal::{Code, Refusal};
use jit_engine::api::trust::{Commands, Need as Command, Revoked, TrustReply, TrustRequest, set_apart};
use jit_engine::api::{Answer, Reply, Request};
use jit_store::Outcome;

use crate::invocation::{Invocation, Output, invalid, unexpected};
use crate::render::{self, Style, clean};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Commands that come with a repository run only after you approved their exact text on this \
    machine. So do programs that the repository's own git settings name, such as filters. Approvals \
    are in ~/.local/share/jit/trust.jsonl. Agents may not approve, unless your own configuration \
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
    if flags.revoke {
        let answer = call.send(TrustRequest::Revoke)?;
        return Ok(call
            .show(&answer.reply.value(), |style| call.text(&answer.reply, style))
            .warn(answer.warnings));
    }
    let (all, warnings) = commands(TrustRequest::List, call)?;
    let open = not_approved(&all);
    let shown = if flags.list || open.is_empty() {
        all
    } else if flags.yes {
        commands(TrustRequest::Approve { commands: open }, call)?.0
    } else if is_terminal() {
        ask(call)?
    } else {
        commands(TrustRequest::RequireTrusted, call)?.0
    };
    let reply = Reply::Trust(TrustReply::Commands(Commands { commands: shown }));
    let shown = match flags.list {
        true => call.show(&reply.value(), |style| call.text(&reply, style)),
        false => call.done(&reply.value(), &[], |style| call.text(&reply, style)),
    };
    Ok(shown.warn(warnings))
}

/// Sends a request about commands, and returns them and the warnings.
fn commands(request: TrustRequest, call: &Invocation) -> Outcome<(Vec<Command>, Vec<String>)> {
    // The command may send another request of its own.
    let answer = call.send_as("trust", request)?;
    match answer.reply {
        Reply::Trust(TrustReply::Commands(Commands { commands })) => Ok((commands, answer.warnings)),
        _ => Err(unexpected()),
    }
}

fn not_approved(all: &[Command]) -> Vec<Command> {
    all.iter().filter(|one| !one.is_trusted).cloned().collect()
}

fn is_terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Sends a request that runs commands. If only an approval is missing and the caller at the terminal may approve, asks
/// the caller and sends the request again.
pub fn send(request: impl Into<Request>, call: &Invocation) -> Outcome<Answer> {
    let request = request.into();
    match call.send(request.clone()) {
        Err(refusal) if refusal.code == Code::NotTrusted && can_ask(call) => {
            ask(call)?;
            call.send(request)
        }
        other => other,
    }
}

/// Whether the caller is at a terminal and may approve.
fn can_ask(call: &Invocation) -> bool {
    is_terminal() && call.send(TrustRequest::RequireApprover).is_ok()
}

/// Shows the commands that are not approved and asks. Returns all of them after a yes. A no is a refusal.
fn ask(call: &Invocation) -> Outcome<Vec<Command>> {
    call.send(TrustRequest::RequireApprover)?;
    let open = not_approved(&commands(TrustRequest::List, call)?.0);
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
    Ok(commands(TrustRequest::Approve { commands: open }, call)?.0)
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
        TrustReply::Revoked(Revoked { revoked }) => format!("Approvals taken back: {revoked}\n"),
        TrustReply::Approver(_) => String::new(),
    }
}
