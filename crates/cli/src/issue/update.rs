//! `jit issue update`: changes fields of an issue.
//!
//! What must hold: a call without any change is refused.

use jit_core::decide::command::IssueChange;
use jit_core::model::ids::IssuePrefix;
use jit_core::model::issue::{IssueState, Performer, Priority};
use jit_engine::api::issues::IssueRequest;
use jit_store::Outcome;

use super::given;
use crate::invocation::{Invocation, Output, invalid};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "What somebody else holds cannot be changed (exit code 5); descriptions can, by anybody.\n\n\
    Examples:\n  jit issue update WI-001 --state done\n  jit issue update WI-001 --priority high --add-label backend\n  \
    jit issue update WI-001 --description - < notes.md"
)]
pub struct Flags {
    /// Its id, or the beginning of it
    issue: IssuePrefix,
    /// Title: the work to do, in one line
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    title: Option<String>,
    /// backlog, ready, in_progress, gated, done or rejected
    #[arg(long, value_name = "S")]
    state: Option<IssueState>,
    /// critical, high, normal or low
    #[arg(long, value_name = "P")]
    priority: Option<Priority>,
    /// Kind of work
    #[arg(long = "type", value_name = "T")]
    kind: Option<String>,
    /// The issue it is part of; none for no issue
    #[arg(long, value_name = "ISSUE")]
    parent: Option<String>,
    /// Performer: agent, human or any
    #[arg(long, value_name = "WHO")]
    actor: Option<Performer>,
    /// A new label; may be repeated
    #[arg(long, value_name = "L")]
    add_label: Vec<String>,
    /// A label to take off; may be repeated
    #[arg(long, value_name = "L")]
    remove_label: Vec<String>,
    /// An issue that must be done first; may be repeated
    #[arg(long, value_name = "ISSUE")]
    add_dep: Vec<IssuePrefix>,
    /// An issue it need not wait for any more; may be repeated
    #[arg(long, value_name = "ISSUE")]
    remove_dep: Vec<IssuePrefix>,
    /// A gate that must pass; may be repeated
    #[arg(long, value_name = "G")]
    add_gate: Vec<String>,
    /// A gate that need not pass any more; may be repeated
    #[arg(long, value_name = "G")]
    remove_gate: Vec<String>,
    /// The long text; - reads it from standard input, an empty one removes it
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    description: Option<String>,
    /// Only if you hold the issue
    #[arg(long)]
    strict: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let parent = match flags.parent.as_deref() {
        None => None,
        Some("" | "none") => Some(None),
        Some(text) => Some(Some(text.parse::<IssuePrefix>().map_err(invalid)?)),
    };
    let change = IssueChange {
        title: flags.title,
        kind: flags.kind,
        state: flags.state,
        priority: flags.priority,
        parent,
        actor: flags.actor,
        add_labels: flags.add_label,
        remove_labels: flags.remove_label,
        add_deps: flags.add_dep,
        remove_deps: flags.remove_dep,
        add_gates: flags.add_gate,
        remove_gates: flags.remove_gate,
        ..IssueChange::default()
    };
    let description = flags.description.map(given).transpose()?;
    if change == IssueChange::default() && description.is_none() {
        return Err(invalid("say what to change: jit issue update --help"));
    }
    call.ask(IssueRequest::Change {
        issue: flags.issue,
        change: Box::new(change),
        description,
        strict: flags.strict,
    })
}
