//! `jit recover`: repairs the store, and salvages what is left of a damaged log.
//!
//! If lines of the log are lost, the store moves all files to a backup. A new log begins with every lease and issue that
//! survived.

use jit_engine::api::doctor::{DoctorRequest, Recovered};
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};
use crate::render::clean_line;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Mends what can be mended. Where lines of the log are lost, all files are moved to a backup and \
    a new log begins with every lease and issue that survived."
)]
pub struct Flags {}

pub fn run(_: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(DoctorRequest::Recover)
}

pub fn text(recovered: &Recovered) -> String {
    match recovered {
        Recovered::Sound { lines, mended, .. } => {
            let mended: String = mended
                .iter()
                .map(|repair| format!("  {}\n", clean_line(repair)))
                .collect();
            format!("The log is sound: {lines} lines.\n{mended}")
        }
        Recovered::Salvaged {
            backup,
            issues,
            leases,
            lost,
            ..
        } => format!(
            "{lost} lines were lost; {leases} leases and {issues} issues survived.\nThe damaged files are kept in {}\n",
            clean_line(backup)
        ),
    }
}
