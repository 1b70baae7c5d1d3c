//! `jit issue export`: writes every issue as one JSON object a line.
//!
//! What must hold:
//! - `--json` needs `--output`, because `--json` prints exactly one document and an export has many.
//! - An existing file is overwritten only with `--force`, whoever calls.

use std::path::PathBuf;

use jit_engine::api::issues::{Exported, IssueReply, IssueRequest};
use jit_engine::api::{Answer, Reply};
use jit_store::Outcome;
use serde_json::json;

use crate::invocation::{Invocation, Output, invalid, unexpected, write_file, write_new_file};
use crate::render::clean_json;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Jsonl,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Every issue, open and closed, with its description and comments: one JSON object a line, by id.\n\
    jit issue import --from jsonl reads it back. With --json it needs --output, for its lines are many documents."
)]
pub struct Flags {
    /// How it is written
    #[arg(long, value_name = "F", default_value = "jsonl")]
    format: Format,
    /// Into this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite FILE if it exists
    #[arg(long, requires = "output")]
    force: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let Format::Jsonl = flags.format;
    if call.json() && flags.output.is_none() {
        return Err(invalid(
            "--json prints one document, an export has one a line: give --output, or leave --json out",
        ));
    }
    let Answer { reply, warnings } = call.send(IssueRequest::Export)?;
    let Reply::Issues(IssueReply::Exported(Exported { issues, lines })) = reply else {
        return Err(unexpected());
    };
    let Some(file) = flags.output else {
        return Ok(call.show(&(), |_| clean_json(lines)).warn(warnings));
    };
    let file = match flags.force {
        true => write_file(&file, lines.as_bytes())?,
        false => write_new_file(&file, lines.as_bytes(), "jit issue export --force")?,
    };
    let value = json!({ "issues": issues, "file": file });
    Ok(call.wrote(&value, &file).warn(warnings))
}
