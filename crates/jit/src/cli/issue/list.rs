use jit_core::ids::{AgentId, IssuePrefix};
use jit_core::issue::State;
use jit_engine::request::{IssueFilter, Request};
use jit_engine::store::Outcome;
use jit_engine::worktree::identity::Need;

use crate::cli::{Cx, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Only issues in this state
    #[arg(long, value_name = "S")]
    state: Option<State>,
    /// Only issues with this label
    #[arg(long, value_name = "L")]
    label: Option<String>,
    /// Only issues of this type
    #[arg(long = "type", value_name = "T")]
    kind: Option<String>,
    /// Only parts of this issue
    #[arg(long, value_name = "ISSUE")]
    parent: Option<IssuePrefix>,
    /// Only what this agent holds
    #[arg(long, value_name = "AGENT")]
    assignee: Option<AgentId>,
    /// At most so many
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    let Flags {
        state,
        label,
        kind,
        parent,
        assignee,
        limit,
    } = flags;
    let filter = IssueFilter {
        state,
        label,
        kind,
        parent,
        assignee,
    };
    cx.ask(Need::Read, Request::ListIssues { filter, limit })
}
