//! `jit graph`: draws the dependencies between issues as text, dot, Mermaid or SVG.
//!
//! With `--json` and the text format, the reply itself is printed. Other formats are a string inside the JSON document.

use std::path::PathBuf;

use jit_core::model::ids::IssuePrefix;
use jit_core::query::graph;
use jit_engine::api::{Answer, Reply, Request};
use jit_engine::worktree_identity::identity::Need;
use jit_store::Outcome;
use serde_json::json;

use super::{Cx, Output, invalid};

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Dot,
    Mermaid,
    Svg,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Dot => "dot",
            Self::Mermaid => "mermaid",
            Self::Svg => "svg",
        }
    }
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

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    let request = Request::Graph {
        issue: flags.issue,
        closed: flags.all,
    };
    let Answer { reply, warnings } = jit_engine::handle::handle(&cx.app(Need::Read)?, request)?;
    let Reply::Graph(of) = &reply else {
        return Err(invalid("the answer is no graph"));
    };
    let drawn = match flags.format {
        Format::Text if cx.json() && flags.output.is_none() => {
            return Ok(cx.show(&reply, |_| String::new()).warn(warnings));
        }
        Format::Text => graph::text(&of.graph),
        Format::Dot => graph::dot(&of.graph),
        Format::Mermaid => graph::mermaid(&of.graph),
        Format::Svg => graph::svg(&of.graph),
    };
    let format = flags.format.name();
    let Some(file) = flags.output else {
        let value = json!({ "format": format, "text": drawn });
        return Ok(cx.show(&value, |_| drawn).warn(warnings));
    };
    let file = super::write_file(&file, drawn.as_bytes())?;
    let value = json!({ "format": format, "file": file });
    Ok(cx.wrote(&value, &file).warn(warnings))
}
