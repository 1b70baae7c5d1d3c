//! `jit config show`: prints every setting, and with `--origin` the place it comes from.

use jit_engine::context::Surroundings;
use jit_store::Outcome;
use serde_json::json;

use crate::invocation::{Invocation, Output};
use crate::render::{clean_line, table};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Tell where each value comes from
    #[arg(long)]
    origin: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let found = Surroundings::find(&call.options()?)?;
    let settings: Vec<_> = found
        .config
        .show()
        .map(|(key, setting)| {
            json!({ "key": key, "value": super::value(&setting.value), "origin": setting.origin.to_string() })
        })
        .collect();
    let shown = call.show(&json!({ "settings": settings }), |_| {
        let rows: Vec<Vec<String>> = found
            .config
            .show()
            .map(|(key, setting)| {
                let mut row = vec![format!("{key} = {}", clean_line(&setting.value.to_string()))];
                if flags.origin {
                    row.push(format!("# {}", clean_line(&setting.origin.to_string())));
                }
                row
            })
            .collect();
        table(&rows)
    });
    Ok(shown.warn(found.whoami.warnings))
}
