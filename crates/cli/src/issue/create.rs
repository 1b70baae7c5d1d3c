//! `jit issue create`: creates an issue.
//!
//! What must hold: a new issue is `backlog` or `ready`.

use jit_core::model::ids::{IssueId, IssuePrefix};
use jit_core::model::issue::{IssueState, Performer, Priority, check_word};
use jit_engine::api::issues::CreateIssue;
use jit_engine::api::issues::IssueRequest;
use jit_store::Outcome;

use super::given;
use crate::invocation::{Invocation, Output, invalid};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  jit issue create \"Fix the login page\"\n  \
    jit issue create \"Write tests\" --id WI-002 --depends-on WI-001 --priority high\n  \
    jit issue create -- \"--strict is ignored\"\n\nIds of the lock-file protocol imply type and parent: \
    WI-001-A1 is an activity of WI-001, and WI-001-A1-T2 is a task of WI-001-A1.")]
pub struct Flags {
    /// Title: the work to do, in one line
    title: String,
    /// An id of your own, such as WI-001; one is made up when not given
    #[arg(long)]
    id: Option<IssueId>,
    /// Kind of work; without it, the one that the id implies, else issue
    #[arg(long = "type", value_name = "T", value_parser = word)]
    kind: Option<String>,
    /// The issue it is part of; without it, the one that the id implies
    #[arg(long, value_name = "ISSUE")]
    parent: Option<IssuePrefix>,
    /// critical, high, normal or low
    #[arg(long, value_name = "P", default_value = "normal")]
    priority: Priority,
    /// backlog or ready
    #[arg(long, value_name = "S", default_value = "ready")]
    state: IssueState,
    /// A label; may be repeated
    #[arg(long = "label", value_name = "L", value_parser = word)]
    labels: Vec<String>,
    /// An issue that must be done first; may be repeated
    #[arg(long, value_name = "ISSUE")]
    depends_on: Vec<IssuePrefix>,
    /// The long text; - reads it from standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    description: Option<String>,
    /// A gate that must pass; may be repeated
    #[arg(long = "gate", value_name = "G", value_parser = word)]
    gates: Vec<String>,
    /// Performer: agent, human or any
    #[arg(long, value_name = "WHO", default_value = "any")]
    actor: Performer,
}

/// Parses a type, label or gate name with `check_word`: not empty, at most 100 bytes, no control characters.
fn word(text: &str) -> Result<String, String> {
    check_word(text)?;
    Ok(text.trim().to_owned())
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    if !matches!(flags.state, IssueState::Backlog | IssueState::Ready) {
        return Err(invalid("a new issue is backlog or ready"));
    }
    let description = flags.description.map(given).transpose()?;
    let create = CreateIssue {
        id: flags.id,
        title: flags.title,
        kind: flags.kind,
        state: flags.state,
        priority: flags.priority,
        parent: flags.parent,
        labels: flags.labels,
        depends_on: flags.depends_on,
        gates: flags.gates,
        actor: flags.actor,
        description,
    };
    call.ask(IssueRequest::Create(Box::new(create)))
}
