//! `jit gate define`: defines gates from flags, from a preset, or from an export of `jit uninstall`.
//!
//! What must hold: a gate has a command, or it is manual.

use std::path::PathBuf;

use jit_engine::api::gates::{DEFAULT_TIMEOUT_SECS, Draft, Gate, GateName, GateRequest};
use jit_store::Outcome;

use crate::invocation::{Invocation, Output, duration, file_source, invalid};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Kept in .jit/gates/registry.json, which is versioned. A command that you define may run on this \
    machine; others approve it with jit trust. It runs at the top of the worktree with sh -c; JIT_ISSUE and JIT_GATE \
    say what for. Defining a gate again replaces it.\n\n\
    Examples:\n  jit gate define test --command 'cargo test' --timeout 30m --required-for task\n  \
    jit gate define review --manual --description 'somebody else has read it'\n  \
    jit gate define --preset cargo\n  jit gate define --from jit-export-20260101T120000Z.gates.json"
)]
pub struct Flags {
    /// Lower-case letters, digits, '.', '_' and '-'
    #[arg(required_unless_present_any = ["preset", "from"], conflicts_with_all = ["preset", "from"])]
    name: Option<String>,
    /// Command to run: exit 0 passes
    #[arg(long, value_name = "CMD", allow_hyphen_values = true, conflicts_with_all = ["manual", "preset"])]
    command: Option<String>,
    /// It fails when it takes longer [default: 10m]
    #[arg(long, value_name = "D", value_parser = duration)]
    timeout: Option<u64>,
    /// Judge it by hand, with jit gate pass or jit gate fail
    #[arg(long, conflicts_with = "preset")]
    manual: bool,
    /// A type of issues that all have to pass it; may be repeated
    #[arg(long, value_name = "TYPE")]
    required_for: Vec<String>,
    /// Meaning of a pass
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        conflicts_with = "preset"
    )]
    description: Option<String>,
    /// Gates that fit cargo, npm, pytest or go: jit gate presets shows them
    #[arg(long, value_name = "P")]
    preset: Option<String>,
    /// Gates that jit uninstall exported; their commands run after jit trust
    #[arg(long, value_name = "FILE", conflicts_with_all = ["preset", "command", "timeout", "manual", "required_for", "description"])]
    from: Option<PathBuf>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(match (flags.preset, flags.from) {
        (Some(preset), _) => GateRequest::DefinePreset {
            preset,
            timeout_secs: flags.timeout,
            required_for: flags.required_for,
        },
        (None, Some(file)) => GateRequest::DefineExported {
            file: file_source(file)?,
        },
        (None, None) => {
            let draft = Draft {
                command: flags.command,
                manual: flags.manual,
                timeout_secs: flags.timeout.unwrap_or(DEFAULT_TIMEOUT_SECS),
                description: flags.description,
                required_for: flags.required_for,
            };
            let gates = vec![one(&flags.name.unwrap_or_default(), draft)?];
            GateRequest::Define { gates }
        }
    })
}

/// Checks the gate that the flags define.
fn one(name: &str, draft: Draft) -> Outcome<(GateName, Gate)> {
    let name = name.parse().map_err(invalid)?;
    if draft.command.is_none() && !draft.manual {
        return Err(invalid(
            "say what to run (--command) or that somebody has to look (--manual)",
        ));
    }
    Ok((name, draft.try_into().map_err(invalid)?))
}
