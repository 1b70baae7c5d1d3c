//! `jit recover`: repairs the store, and salvages what is left of a damaged log.
//!
//! If lines of the log are lost, the store moves all files to a backup. A new log begins with every lease and issue that
//! survived.

use jit_engine::worktree_identity::identity::Need;
use jit_store::Outcome;
use jit_store::Recovered;
use serde_json::json;

use crate::invocation::{Invocation, Output};
use crate::render::clean_line;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Mends what can be mended. Where lines of the log are lost, all files are moved to a backup and \
    a new log begins with every lease and issue that survived."
)]
pub struct Flags {}

pub fn run(_: Flags, call: &Invocation) -> Outcome<Output> {
    let cx = call.open(Need::Write)?;
    let value = match cx.store.upkeep().salvage(&cx.actor)? {
        Recovered::Sound { lines, mut mended } => {
            mended.extend(jit_engine::doctor::validate::sweep_left_overs(&cx)?);
            json!({ "salvaged": false, "lines": lines, "mended": mended })
        }
        Recovered::Salvaged {
            backup,
            lost,
            leases,
            issues,
        } => {
            json!({ "salvaged": true, "backup": backup, "lost": lost, "leases": leases, "issues": issues })
        }
    };
    Ok(call.done(&value, &[], |_| {
        if value["salvaged"] == false {
            let mended: String = value["mended"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|m| format!("  {}\n", clean_line(m.as_str().unwrap_or(""))))
                .collect();
            return format!("The log is sound: {} lines.\n{mended}", value["lines"]);
        }
        format!(
            "{} lines were lost; {} leases and {} issues survived.\nThe damaged files are kept in {}\n",
            value["lost"],
            value["leases"],
            value["issues"],
            clean_line(value["backup"].as_str().unwrap_or(""))
        )
    }))
}
