//! `jit issue import`: imports issues from Beads, GitHub, Backlog.md or an export of jit.
//!
//! What must hold:
//! - Issues that exist already are left alone, so an import can be repeated.
//! - The exit code is 6 if there are only problems: no issue was imported, and none existed already.

use std::path::PathBuf;
use std::sync::Arc;

use jit_engine::api::issues::{Import, IssueReply, IssueRequest, Tracker};
use jit_engine::api::{Answer, Reply};
use jit_store::Outcome;

use crate::invocation::{Invocation, Output, file_source, unexpected};
use crate::render::clean_line;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum From {
    Beads,
    Github,
    Backlog,
    Jsonl,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Ids are kept where they can be. What is here already is left alone, so an import can be repeated.\n\n\
    Examples:\n  jit issue import --from beads .beads/issues.jsonl\n  jit issue import --from backlog backlog/\n  \
    gh issue list --state all --limit 1000 --json number,title,body,state,stateReason,author,labels,assignees,milestone,url,\
    comments,createdAt,updatedAt,closedAt | jit issue import --from github -"
)]
pub struct Flags {
    /// Where it comes from
    #[arg(long, value_name = "WHAT")]
    from: From,
    /// The file, a folder of Markdown files for backlog, or - for standard input
    file: PathBuf,
    /// Say what would be imported, and import nothing
    #[arg(long)]
    dry_run: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let import = Import {
        from: match flags.from {
            From::Beads => Tracker::Beads,
            From::Github => Tracker::Github,
            From::Backlog => Tracker::Backlog,
            From::Jsonl => Tracker::Jsonl,
        },
        file: file_source(flags.file)?,
        dry_run: flags.dry_run,
    };
    let Answer { reply, warnings } = call.send(IssueRequest::Import(Arc::new(import)))?;
    let Reply::Issues(IssueReply::Imported(done)) = &reply else {
        return Err(unexpected());
    };
    let all_bad = done.imported.is_empty() && done.skipped.is_empty() && !done.problems.is_empty();
    let shown = call.show(&reply.value(), |style| {
        if call.quiet() {
            return done.imported.iter().map(|id| format!("{id}\n")).collect();
        }
        let mut text = String::new();
        for problem in &done.problems {
            let file = problem.file.as_deref().map(|file| clean_line(file) + ": ");
            let line = match problem.line {
                0 => String::new(),
                line => format!("line {line}: "),
            };
            let what = clean_line(&problem.what);
            let bad = style.bad("left out:");
            text.push_str(&format!("{bad} {}{line}{what}\n", file.unwrap_or_default()));
        }
        let done_to = if done.dry_run { "Would import" } else { "Imported" };
        text.push_str(&format!(
            "{done_to} {}; {} here already; {} left out.\n",
            match done.imported.len() {
                1 => "1 issue".to_owned(),
                many => format!("{many} issues"),
            },
            done.skipped.len(),
            done.problems.len()
        ));
        text
    });
    Ok(shown.warn(warnings).exit(if all_bad { 6 } else { 0 }))
}
