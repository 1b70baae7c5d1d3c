//! `jit ready`: lists the issues that can be acquired now, best first.

use jit_core::model::ids::IssuePrefix;
use jit_core::model::issue::Performer;
use jit_engine::api::issues::IssueFilter;
use jit_engine::api::issues::IssueRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Open, unblocked, and held by nobody in any worktree. Take the first one: jit claim next\n\n\
    Examples:\n  jit ready --limit 5\n  jit ready --json --fields id,title,priority"
)]
pub struct Flags {
    /// Only issues with this label
    #[arg(long, value_name = "L")]
    label: Option<String>,
    /// Only issues of this type
    #[arg(long = "type", value_name = "T")]
    kind: Option<String>,
    /// Only parts of this issue
    #[arg(long, value_name = "ISSUE")]
    parent: Option<IssuePrefix>,
    /// Only what is for these: agent, human or any
    #[arg(long, value_name = "WHO")]
    actor: Option<Performer>,
    /// At most so many
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let filter = IssueFilter {
        label: flags.label,
        kind: flags.kind,
        parent: flags.parent,
        actor: flags.actor,
        ..IssueFilter::default()
    };
    call.ask(IssueRequest::Ready {
        filter,
        limit: flags.limit,
    })
}
