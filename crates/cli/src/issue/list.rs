//! `jit issue list`: lists issues, filtered and sorted.

use jit_core::model::ids::{AgentId, IssuePrefix};
use jit_core::model::issue::{IssueState, Performer};
use jit_engine::api::issues::IssueFilter;
use jit_engine::api::issues::IssueRequest;
use jit_engine::api::issues::Sort;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Only issues in this state
    #[arg(long, value_name = "S")]
    state: Option<IssueState>,
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
    /// Only what is for these: agent, human or any
    #[arg(long, value_name = "WHO")]
    actor: Option<Performer>,
    /// By what they are ordered
    #[arg(long, value_name = "BY", default_value = "created")]
    sort: By,
    /// At most so many
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum By {
    Created,
    Updated,
    Priority,
    Id,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let Flags {
        state,
        label,
        kind,
        parent,
        assignee,
        actor,
        sort,
        limit,
    } = flags;
    let filter = IssueFilter {
        state,
        label,
        kind,
        parent,
        assignee,
        actor,
    };
    let sort = match sort {
        By::Created => Sort::Created,
        By::Updated => Sort::Updated,
        By::Priority => Sort::Priority,
        By::Id => Sort::Id,
    };
    call.ask(IssueRequest::List { filter, sort, limit })
}
