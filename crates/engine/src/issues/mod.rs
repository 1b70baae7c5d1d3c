//! Issues in files: the shared replica, and their projection into the caller's tree.
//!
//! The log has an issue's fields, sets and comments; the files follow from it. Only long texts are kept in files
//! alone. So they are written and synced before the event that names them.
//!
//! - `<control>/issues/<id>/`: the replica, in the format of [`jit_core::issue_files::format`]. It is written after
//!   each event, under the store's lock, and not synced: after a crash it is rebuilt from the log.
//! - `<control>/issues/<id>/texts/<digest>.md`: every text that the description ever had. Never changed once written.
//!   `<digest>.parts.md` beside it has the digests of the two texts that it was merged from, if it was merged.
//! - `.jit/issues/<id>/` in each worktree: the projection, written in the worktree where a change was made.

pub mod change;
pub mod exchange;
pub mod graph;
pub mod issue_lists;
pub mod issues_without_files;
pub mod lineage;
pub mod restore;
pub mod seen;
pub mod sync;
pub mod text;
pub mod tree;

use crate::api::Answer;
use crate::api::issues::IssueRequest;
use crate::context::Context;
use crate::write_path::carry_out;
use jit_core::decide::command::Command;
use jit_store::Outcome;

/// Carries out a request about issues.
pub(crate) fn handle(cx: &Context, request: IssueRequest) -> Outcome<Answer> {
    match request {
        IssueRequest::Create(create) => change::create_issue(cx, *create),
        IssueRequest::Change {
            issue,
            change,
            description,
            strict,
        } => change::change_issue(cx, issue, *change, description, strict),
        IssueRequest::RequireGate { issue, gate, strict } => change::require_gate(cx, issue, gate, strict),
        IssueRequest::Restore { issue } => restore::restore_issue(cx, issue),
        IssueRequest::Delete { issue, strict } => carry_out(cx, &Command::DeleteIssue { issue, strict }),
        IssueRequest::Comment { issue, text } => carry_out(cx, &Command::Comment { issue, text }),
        IssueRequest::Show { issue } => change::show_issue(cx, &issue),
        IssueRequest::List { filter, sort, limit } => issue_lists::list_issues(cx, &filter, sort, limit),
        IssueRequest::Search { text, limit } => change::search(cx, &text, limit),
        IssueRequest::Ready { filter, limit } => issue_lists::ready(cx, &filter, limit),
        IssueRequest::Blocked => issue_lists::blocked(cx),
        IssueRequest::Progress { issue } => issue_lists::progress(cx, issue.as_ref()),
        IssueRequest::Graph { issue, closed, drawn } => graph::graph(cx, issue.as_ref(), closed, drawn),
        IssueRequest::DependencyTree { issue } => graph::dep_tree(cx, &issue),
        IssueRequest::Import(import) => exchange::import(cx, &import),
        IssueRequest::Export => exchange::export(cx),
    }
}
