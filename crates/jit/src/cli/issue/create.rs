use std::io::{self, Read as _};

use jit_core::ids::{IssueId, IssuePrefix};
use jit_core::issue::{Priority, State};
use jit_engine::issues::MAX_DESCRIPTION;
use jit_engine::request::{CreateIssue, Request};
use jit_engine::store::Outcome;
use jit_engine::worktree::identity::Need;

use crate::cli::{Cx, Output, invalid};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  jit issue create \"Fix the login page\"\n  \
    jit issue create \"Write tests\" --id WI-002 --depends-on WI-001 --priority high\n  \
    jit issue create -- \"--strict is ignored\"")]
pub struct Flags {
    /// What is to be done, in one line
    title: String,
    /// An id of your own, such as WI-001; one is made up when not given
    #[arg(long)]
    id: Option<IssueId>,
    /// What kind of work it is
    #[arg(long = "type", value_name = "T", default_value = "issue", value_parser = word)]
    kind: String,
    /// The issue it is part of
    #[arg(long, value_name = "ISSUE")]
    parent: Option<IssuePrefix>,
    /// critical, high, normal or low
    #[arg(long, value_name = "P", default_value = "normal")]
    priority: Priority,
    /// backlog or ready
    #[arg(long, value_name = "S", default_value = "ready")]
    state: State,
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
}

/// A short word without surprises.
fn word(text: &str) -> Result<String, String> {
    let text = text.trim();
    match text {
        "" => Err("it is empty".into()),
        _ if text.len() > 100 => Err("it is longer than 100 bytes".into()),
        _ if text.chars().any(char::is_control) => Err("it contains control characters".into()),
        _ => Ok(text.to_owned()),
    }
}

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    if !matches!(flags.state, State::Backlog | State::Ready) {
        return Err(invalid("a new issue is backlog or ready"));
    }
    let description = match flags.description.as_deref() {
        Some("-") => {
            let mut bytes = Vec::new();
            io::stdin()
                .take(MAX_DESCRIPTION + 1)
                .read_to_end(&mut bytes)
                .map_err(invalid)?;
            Some(String::from_utf8(bytes).map_err(|_| invalid("the description is not UTF-8"))?)
        }
        given => given.map(str::to_owned),
    };
    if description
        .as_ref()
        .is_some_and(|text| text.len() as u64 > MAX_DESCRIPTION)
    {
        return Err(invalid("the description is longer than 4 MiB"));
    }
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
        description,
    };
    cx.ask(Need::Write, Request::CreateIssue(Box::new(create)))
}
