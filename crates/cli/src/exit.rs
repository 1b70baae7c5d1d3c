//! Exit codes that commands set, and the JSON form of a failure.
//!
//! A refusal brings its own exit code. The codes here are for commands that end without a refusal.

use jit_core::model::refusal::{Details, Refusal};
use jit_core::query::claim_views::LeaseView;
use jit_core::query::session_and_lock_views::LockView;
use serde_json::{Value, json};

/// The reader closed standard output. Shells report the same code for a process that SIGPIPE ended.
pub const BROKEN_PIPE: u8 = 141;

/// Ctrl-C ended the command early. Shells report the same code for a process that SIGINT ended.
pub const INTERRUPTED: u8 = 130;

/// The command did its work, but the result is not good: for example an agent, a workflow or a notification failed.
pub const CHECK_FAILED: u8 = 6;

/// Returns the documented JSON of a failure.
pub fn failure(refusal: &Refusal) -> Value {
    let details = match &refusal.details {
        Details::None | Details::LockFileAppeared | Details::UnknownIssue => Value::Null,
        Details::Locks(leases) => {
            let locks: Vec<LockView> = leases.iter().filter_map(LockView::of).collect();
            json!({ "locks": locks })
        }
        Details::Lease(lease) => json!({ "lease": LeaseView::of(lease) }),
        Details::Candidates(names) => json!({ "candidates": names }),
        Details::Counts(counts) => counts
            .iter()
            .map(|(name, number)| ((*name).to_owned(), json!(number)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Details::Facts(facts) => facts
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect(),
    };
    json!({ "error": {
        "code": refusal.code.as_str(),
        "message": refusal.message,
        "help": refusal.help,
        "retryable": refusal.code.retryable(),
        "details": details,
    }})
}
