//! `jit schema`: prints the JSON schema of a file format, or the names of all schemas.

use jit_core::compat::{self, SCHEMAS};
use jit_core::model::plan;
use jit_core::model::refusal::{Code, Details, Refusal};
use jit_engine::context::Surroundings;
use jit_store::Outcome;
use serde_json::json;

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
    let Some(name) = flags.name else {
        return Ok(call.show(&json!({ "schemas": names() }), |_| {
            names().iter().map(|name| format!("{name}\n")).collect()
        }));
    };
    let schema = match name.as_str() {
        PLAN => plan::schema(),
        _ => compat::schema(&name, &agent_types(call)).ok_or_else(|| unknown(&name))?,
    };
    Ok(call.show(&schema, |_| {
        let text = serde_json::to_string_pretty(&schema).unwrap_or_default();
        format!("{text}\n")
    }))
}

/// Name of the schema of plans. The other schemas describe registries.
pub const PLAN: &str = "plan";

fn names() -> Vec<&'static str> {
    SCHEMAS.iter().copied().chain([PLAN]).collect()
}

/// Returns the refusal for an unknown schema, with the known names.
pub fn unknown(name: &str) -> Box<Refusal> {
    let known = names().join(", ");
    let shown: String = name.chars().take(40).collect();
    Box::new(
        Refusal::new(
            Code::NotFound,
            format!("there is no schema {shown:?}; there are {known}"),
        )
        .help("jit schema")
        .details(Details::Candidates(
            names().into_iter().map(str::to_owned).collect(),
        )),
    )
}

/// Returns the agent types that the settings add. Without settings there are none.
pub fn agent_types(call: &Invocation) -> Vec<String> {
    let found = call.options().and_then(|options| Surroundings::find(&options));
    let types = found.map(|found| found.config.agent_types()).unwrap_or_default();
    types.into_iter().map(|(name, _)| name).collect()
}
