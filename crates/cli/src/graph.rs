//! `jit graph`: draws the dependencies between issues as text, dot, Mermaid or SVG.
//!
//! With `--json` and the text format, the reply itself is printed. Other formats are a string inside the JSON document.

use std::path::PathBuf;

use jit_core::model::ids::IssuePrefix;
use jit_engine::api::issues::{GraphFormat, IssueReply, IssueRequest};
use jit_engine::api::{Answer, Reply};
use jit_store::Outcome;
use serde_json::json;

use crate::invocation::{Invocation, Output};

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Dot,
    Mermaid,
    Svg,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Arrows point from what comes first to what waits for it.\n\nExamples:\n  jit graph\n  \
    jit graph --format svg --output graph.svg\n  jit graph DATE-1 --format dot | dot -Tpng -o graph.png"
)]
pub struct Flags {
    /// Only what this issue waits for and what waits for it
    issue: Option<IssuePrefix>,
    /// How it is drawn
    #[arg(long, value_name = "F", default_value = "text")]
    format: Format,
    /// Into this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Done and rejected issues too
    #[arg(long)]
    all: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    // As JSON and without a file, the default is the graph as data.
    let drawn = match flags.format {
        Format::Text if call.json() && flags.output.is_none() => None,
        Format::Text => Some(GraphFormat::Text),
        Format::Dot => Some(GraphFormat::Dot),
        Format::Mermaid => Some(GraphFormat::Mermaid),
        Format::Svg => Some(GraphFormat::Svg),
    };
    let request = IssueRequest::Graph {
        issue: flags.issue,
        closed: flags.all,
        drawn,
    };
    let Answer { reply, warnings } = call.send(request)?;
    let Reply::Issues(IssueReply::Picture(picture)) = &reply else {
        return Ok(call.show(&reply.value(), |_| String::new()).warn(warnings));
    };
    let Some(file) = flags.output else {
        return Ok(call.show(picture, |_| picture.text.clone()).warn(warnings));
    };
    let file = crate::invocation::write_file(&file, picture.text.as_bytes())?;
    let value = json!({ "format": picture.format, "file": file });
    Ok(call.wrote(&value, &file).warn(warnings))
}
