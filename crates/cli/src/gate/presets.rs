//! `jit gate presets`: lists the built-in gate presets, and marks those that fit this worktree.

use jit_engine::api::setup::{GatePreset, SetupRequest};
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};
use crate::render::Style;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jit gate define --preset cargo --required-for task")]
pub struct Flags {}

pub fn run(_: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(SetupRequest::GatePresets)
}

pub fn text(presets: &[GatePreset], style: Style) -> String {
    let mut text = String::new();
    for preset in presets {
        let here = if preset.detected {
            "  (fits what is here)"
        } else {
            ""
        };
        text.push_str(&format!("{}{here}\n", style.bold(&preset.name)));
        for gate in &preset.gates {
            let command = gate.command.as_deref().unwrap_or_default();
            text.push_str(&format!("  {:<8} {command}\n", gate.name));
        }
    }
    text
}
