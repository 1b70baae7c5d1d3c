//! `jit gate presets`: lists the built-in gate presets, and marks those that fit this worktree.

use jit_engine::context::Surroundings;
use jit_engine::gates::presets;
use jit_store::Outcome;
use serde_json::{Value, json};

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jit gate define --preset cargo --required-for task")]
pub struct Flags {}

pub fn run(_: Flags, call: &Invocation) -> Outcome<Output> {
    let place = Surroundings::find(&call.options()?)?.place;
    let root = place.worktree_root.as_deref();
    let detected = root.map_or(Vec::new(), presets::detect);
    let gates = |name: &str| presets::preset(name).unwrap_or_default();
    let all: Vec<Value> = presets::names()
        .map(|name| {
            let gates: Vec<Value> = gates(name)
                .iter()
                .map(|(name, gate)| {
                    json!({
                        "name": name,
                        "command": gate.command(),
                        "timeout_secs": gate.timeout().as_secs(),
                        "description": gate.description(),
                    })
                })
                .collect();
            json!({ "name": name, "detected": detected.contains(&name), "gates": gates })
        })
        .collect();
    Ok(call.show(&json!({ "presets": all }), |style| {
        let mut text = String::new();
        for name in presets::names() {
            let here = if detected.contains(&name) {
                "  (fits what is here)"
            } else {
                ""
            };
            text.push_str(&format!("{}{here}\n", style.bold(name)));
            for (name, gate) in gates(name) {
                text.push_str(&format!(
                    "  {:<8} {}\n",
                    name.as_str(),
                    gate.command().unwrap_or_default()
                ));
            }
        }
        text
    }))
}
