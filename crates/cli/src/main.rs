//! `jit`: the command line and the binary. It lets many agents work in one repository.
//!
//! This crate parses the command line, sends requests to the engine and prints the replies. The engine performs each
//! request. The core makes every decision.

#![cfg_attr(all(target_os = "linux", target_env = "gnu", not(test)), no_main)]

mod block;
mod blocked;
mod changelog;
mod claim;
mod commands;
mod completions;
mod config;
mod conflicts;
mod consent;
mod demo;
mod dep;
mod doctor;
#[cfg(all(target_os = "linux", target_env = "gnu", not(test)))]
mod entry;
mod events;
mod exit;
mod finish;
mod gate;
mod grammar;
mod graph;
mod handoff;
mod heartbeat;
mod hooks;
mod init;
mod invocation;
mod issue;
mod lock;
mod log;
mod man;
mod mcp;
mod merge_driver;
mod migrate;
mod notify;
mod pivot;
mod progress;
mod ready;
mod recover;
mod render;
mod reply_text;
mod rescue;
mod run;
mod run_flags;
mod schema;
mod session;
mod shim;
mod start;
mod status;
mod trust;
mod unblock;
mod uninstall;
mod validate;
mod verify;
mod whoami;
mod workflow;
mod worktree;
mod yaml;

use std::ffi::OsString;

use clap::error::ErrorKind;
use jit_core::model::refusal::{Code, Details, Refusal};
use serde_json::json;

use crate::commands::{Wanted, all_commands, as_value, documented, find, tree};
use crate::grammar::usage;
use crate::invocation::{GlobalArgs, Invocation, Program, invalid};
use crate::render::Style;

/// The parts of the program that know every command, for those that do not.
const PROGRAM: Program = Program {
    grammar: documented,
    text: reply_text::text,
    ids: reply_text::ids,
};

#[global_allocator]
static ALLOCATOR: jit_os::memory::Allocator = jit_os::memory::Allocator;

// Entry point on other systems and in unit tests. On Linux with glibc, `entry.rs` has the entry point.
#[cfg(not(all(target_os = "linux", target_env = "gnu", not(test))))]
fn main() -> std::process::ExitCode {
    run_command(std::env::args_os().collect()).into()
}

/// Parses the words, runs the command, prints its output, and returns the exit code.
fn run_command(args: Vec<OsString>) -> u8 {
    // Programs call this to check whether jit is installed, so it is answered without building a grammar.
    if args.len() == 2 && (args[1] == "--version" || args[1] == "-V") {
        return finish(render::print(concat!("jit ", env!("CARGO_PKG_VERSION"), "\n")), 0);
    }
    let says = |flag: &str| args.iter().skip(1).take_while(|a| *a != "--").any(|a| a == flag);
    let typed = tree(Wanted::Among(&args)).try_get_matches_from(&args);
    let matches = match typed.or_else(|_| tree(Wanted::All).try_get_matches_from(&args)) {
        Ok(matches) => matches,
        Err(e) => match e.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                let version = e.kind() == ErrorKind::DisplayVersion;
                let text = if says("--all") && !version {
                    all_commands()
                } else {
                    e.render().to_string()
                };
                let text = match (says("--json"), version) {
                    (false, _) => text,
                    (true, true) => json_line(&json!({ "version": env!("CARGO_PKG_VERSION") })),
                    (true, false) => json_line(&json!({ "help": text })),
                };
                return finish(render::print(&text), 0);
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand if !says("--json") => {
                render::say(e.render().to_string().trim_end());
                return 2;
            }
            _ => {
                let mut refusal = usage(&e);
                if let Some(joined) = as_value(&args) {
                    // clap suggests to put the value behind `--`, but there it is not the value of the option.
                    refusal.help.retain(|tip| !tip.contains("as a value"));
                    refusal.help.insert(0, joined);
                }
                return fail(&refusal, says("--json"));
            }
        },
    };
    let global = GlobalArgs::of(&matches);
    let json = global.json;
    let Some((verb, below)) = find(&matches) else {
        return fail(&invalid("no such command"), json);
    };
    for dir in &global.dir {
        if let Err(e) = std::env::set_current_dir(dir) {
            let refusal = Refusal::new(Code::NotFound, format!("cannot go to {}: {e}", dir.display()));
            return fail(&refusal, json);
        }
    }
    let call = Invocation {
        style: Style::new(global.color),
        global,
        typed: args,
        program: &PROGRAM,
        wrote: std::cell::Cell::new(false),
    };
    match (verb.run)(below, &call) {
        Ok(output) => {
            call.warn(&output.warnings);
            match render::print(&output.text) {
                Err(e) if call.wrote.get() => unprinted(&e),
                printed => finish(printed, output.exit),
            }
        }
        Err(mut refusal) => {
            call.warn(&refusal.warnings);
            if refusal.code == Code::Unknown {
                refusal.help.insert(0, repeat(&call.typed, &refusal.details));
            }
            fail(&refusal, json)
        }
    }
}

/// Returns the command to run again after an unknown outcome: the same words, with the request id.
fn repeat(typed: &[OsString], details: &Details) -> String {
    let Details::Facts(facts) = details else {
        return String::new();
    };
    let id = facts
        .iter()
        .find(|(name, _)| *name == "request_id")
        .map_or("", |(_, id)| id);
    let quote = |word: &OsString| jit_os::shell::shell_word(&word.to_string_lossy());
    let mut words: Vec<String> = vec!["jit".into()];
    // In front, because behind a `--` it would not be read as an option.
    if !typed
        .iter()
        .any(|word| word.to_string_lossy().starts_with("--request-id"))
    {
        words.push(format!("--request-id {id}"));
    }
    words.extend(typed.iter().skip(1).map(quote));
    words.join(" ")
}

fn json_line(value: &serde_json::Value) -> String {
    render::clean_json(format!("{value}\n"))
}

fn fail(refusal: &Refusal, json: bool) -> u8 {
    if json {
        return finish(
            render::print(&json_line(&exit::failure(refusal))),
            refusal.code.exit(),
        );
    }
    render::say(&format!("error: {}", render::clean(&refusal.message)));
    for line in &refusal.help {
        render::say(&format!("  try: {}", render::clean_line(line)));
    }
    refusal.code.exit()
}

/// Reports that a change was made and its answer could not be printed: the caller does not know it yet.
fn unprinted(e: &std::io::Error) -> u8 {
    render::say(&format!(
        "error: the command was carried out, and its answer could not be written to standard output: {e}"
    ));
    render::say("  try: jit status");
    Code::Unknown.exit()
}

fn finish(printed: std::io::Result<bool>, code: u8) -> u8 {
    match printed {
        Ok(true) => code,
        Ok(false) => exit::BROKEN_PIPE,
        Err(e) => {
            render::say(&format!("error: cannot write to standard output: {e}"));
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i1_the_command_to_repeat_can_be_pasted_and_has_its_request_id() {
        let repeated = |typed: &[&str]| {
            let typed: Vec<OsString> = typed.iter().map(OsString::from).collect();
            repeat(&typed, &Details::Facts(vec![("request_id", "R1".into())]))
        };
        assert_eq!(
            repeated(&["/bin/jit", "issue", "create", "--", "--it's odd"]),
            r"jit --request-id R1 issue create -- '--it'\''s odd'"
        );
        assert_eq!(
            repeated(&["jit", "claim", "acquire", "X", "--request-id=mine"]),
            "jit claim acquire X --request-id=mine"
        );
    }
}
