//! `jit completions`: prints a completion script for bash, zsh or fish.
//!
//! The script is generated from the whole grammar, without the commands that programs call.

use clap_complete::Shell;
use jit_store::Outcome;
use serde_json::json;

use crate::invocation::{Invocation, Output};

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum For {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  jit completions bash > ~/.local/share/bash-completion/completions/jit\n  \
    jit completions zsh > \"${fpath[1]}/_jit\"\n  jit completions fish > ~/.config/fish/completions/jit.fish"
)]
pub struct Flags {
    /// For which shell
    shell: For,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let shell = match flags.shell {
        For::Bash => Shell::Bash,
        For::Zsh => Shell::Zsh,
        For::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut (call.program.grammar)(), "jit", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let value = json!({ "shell": shell.to_string(), "script": script });
    Ok(call.show(&value, |_| script))
}
