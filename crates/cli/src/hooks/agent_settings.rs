//! `jit hooks install --agent` and `uninstall --agent`: edits the settings of agent programs.
//!
//! What must hold: a file is written only with consent at the terminal, or with `--yes`.

use jit_agents::hooks::Program;
use jit_engine::api::Reply;
use jit_engine::api::hooks::{AgentHookChange, HookReply, HookRequest};
use jit_store::Outcome;
use serde_json::json;

use crate::consent;
use crate::invocation::{Invocation, Output, unexpected};
use crate::render::clean_line;

#[derive(Debug, clap::Args)]
pub struct AgentFlags {
    /// Program whose settings are changed: claude, codex or gemini
    #[arg(long, value_name = "PROGRAM")]
    agent: Option<Program>,
    /// In your own settings instead of the project's
    #[arg(long, requires = "agent")]
    user: bool,
    /// Do not ask
    #[arg(long, short, requires = "agent")]
    yes: bool,
}

impl AgentFlags {
    pub fn program(&self) -> Option<Program> {
        self.agent
    }
}

/// Registers the hook, or removes it.
pub fn change(
    flags: &AgentFlags,
    program: Program,
    dry_run: bool,
    register: bool,
    call: &Invocation,
) -> Outcome<Output> {
    let request = |write, seen| HookRequest::AgentHook {
        program,
        user: flags.user,
        register,
        write,
        seen,
    };
    let mut answer = call.send(request(flags.yes && !dry_run, None))?;
    let planned = changed(&answer.reply)?;
    if planned.changed && !dry_run && !flags.yes {
        consent::ask(&difference(&planned.file, planned), call)?;
        let seen = planned.seen.clone();
        answer = call.send(request(true, Some(seen)))?;
    }
    let done = changed(&answer.reply)?;
    let value = json!({
        "agent": program.as_str(), "file": done.file, "changed": done.changed, "dry_run": dry_run,
        "content": done.after,
    });
    let shown = call.show(&value, |style| {
        let file = clean_line(&done.file);
        match (done.changed, dry_run, register) {
            _ if call.quiet() => String::new(),
            (false, _, true) => format!("The hook is in {file} already.\n"),
            (false, _, false) => format!("There is no hook of jit's in {file}.\n"),
            (true, true, _) => difference(&file, done),
            (true, false, true) => {
                format!(
                    "{} {} asks jit before it acts: {file}\n{}",
                    style.good("✓"),
                    program,
                    next(program, flags.user)
                )
            }
            (true, false, false) => format!("{} the hook is out of {file}\n", style.good("✓")),
        }
    });
    Ok(shown.warn(answer.warnings))
}

fn changed(reply: &Reply) -> Outcome<&AgentHookChange> {
    match reply {
        Reply::Hooks(HookReply::AgentHook(change)) => Ok(change),
        _ => Err(unexpected()),
    }
}

/// Returns the next step that the user has to do by hand.
fn next(program: Program, user: bool) -> &'static str {
    match (program, user) {
        (Program::Codex, _) => "  Codex runs it only after you have approved it there.\n",
        (_, false) => "  Commit that file: other worktrees have the hook once it is in their branch.\n",
        (_, true) => "",
    }
}

/// Returns the lines that are added or removed. A change is one block or a few, always additions or removals.
fn difference(file: &str, change: &AgentHookChange) -> String {
    let (before, after) = (change.before.as_deref(), change.after.as_deref());
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let same = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - same;
    let tail = (old.iter().rev().zip(new.iter().rev())).take(rest);
    let tail = tail.take_while(|(a, b)| a == b).count();
    let mut text = format!("{file}:\n");
    for line in old.get(same..old.len() - tail).unwrap_or_default() {
        text.push_str(&format!("- {line}\n"));
    }
    for line in new.get(same..new.len() - tail).unwrap_or_default() {
        text.push_str(&format!("+ {line}\n"));
    }
    text
}
