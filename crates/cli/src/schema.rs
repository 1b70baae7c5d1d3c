//! `jit schema`: prints the JSON schema of a file format, or the names of all schemas.

use jit_engine::api::doctor::DoctorRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without a name: the names there are.\n\nExamples:\n  jit schema agent_lock\n  \
                  jit validate --schema agent_lock --file _state/agent_lock.json"
)]
pub struct Flags {
    /// Which format
    name: Option<String>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(match flags.name {
        Some(name) => DoctorRequest::Schema { name },
        None => DoctorRequest::Schemas,
    })
}

/// Text of one schema: the schema itself.
pub fn text(schema: &serde_json::Value) -> String {
    let text = serde_json::to_string_pretty(schema).unwrap_or_default();
    format!("{text}\n")
}
