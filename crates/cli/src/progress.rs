//! `jit progress`: shows how much of each issue and of all issues is done.
//!
//! With `--yaml` it prints the same document as with `--json`, in YAML.

use jit_core::model::ids::IssuePrefix;
use jit_engine::api::Answer;
use jit_engine::api::issues::IssueRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output, invalid};
use crate::yaml::yaml;

#[derive(Debug, clap::Args)]
#[command(after_help = "What has parts is counted by its parts.")]
pub struct Flags {
    /// Only this issue and its parts
    issue: Option<IssuePrefix>,
    /// The same as --json, in YAML
    #[arg(long)]
    yaml: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let request = IssueRequest::Progress { issue: flags.issue };
    if !flags.yaml {
        return call.ask(request);
    }
    if call.json() {
        return Err(invalid("either --json or --yaml"));
    }
    let Answer { reply, warnings } = call.send(request)?;
    let text = yaml(&call.kept(&reply.value()));
    Ok(call.show(&(), |_| text).warn(warnings))
}
