//! `jit gate define`: defines gates from flags, from a preset, or from an export of `jit uninstall`.
//!
//! What must hold: a gate has a command, or it is manual.

use jit_engine::api::gates::GateRequest;
use std::path::PathBuf;

use jit_engine::api::gates::{DEFAULT_TIMEOUT_SECS, Draft};
use jit_engine::api::gates::{Gate, GateName};
use jit_engine::gates::export::GateExport;
use jit_engine::gates::presets;
use jit_engine::issues::import_files as read;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output, duration, invalid};

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
    let brought = flags.from.is_some();
    let gates = match (&flags.preset, &flags.from) {
        (Some(preset), _) => of_preset(preset, &flags)?,
        (None, Some(file)) => GateExport::definitions(file, &read::file(file)?)?,
        (None, None) => vec![one(flags)?],
    };
    call.ask(GateRequest::Define { brought, gates })
}

fn one(flags: Flags) -> Outcome<(GateName, Gate)> {
    let name = flags.name.unwrap_or_default().parse().map_err(invalid)?;
    if flags.command.is_none() && !flags.manual {
        return Err(invalid(
            "say what to run (--command) or that somebody has to look (--manual)",
        ));
    }
    let draft = Draft {
        command: flags.command,
        manual: flags.manual,
        timeout_secs: flags.timeout.unwrap_or(DEFAULT_TIMEOUT_SECS),
        description: flags.description,
        required_for: flags.required_for,
    };
    Ok((name, draft.try_into().map_err(invalid)?))
}

fn of_preset(preset: &str, flags: &Flags) -> Outcome<Vec<(GateName, Gate)>> {
    let Some(gates) = presets::preset(preset) else {
        let known: Vec<&str> = presets::names().collect();
        return Err(invalid(format!(
            "there is no preset {preset:?}; there are: {}",
            known.join(", ")
        )));
    };
    let with_flags = |(name, gate): (GateName, Gate)| {
        let draft = Draft {
            command: gate.command().map(str::to_owned),
            manual: gate.is_manual(),
            timeout_secs: flags.timeout.unwrap_or(gate.timeout().as_secs()),
            description: gate.description().map(str::to_owned),
            required_for: flags.required_for.clone(),
        };
        Ok((name, draft.try_into().map_err(invalid)?))
    };
    gates.into_iter().map(with_flags).collect()
}
