//! `jit issue`: creates, shows, changes, imports and exports issues.
//!
//! This file has the table of verbs, and reads texts from standard input.

mod comment;
mod create;
mod delete;
mod export;
mod import;
mod list;
mod restore;
mod search;
mod show;
pub mod text;
mod update;

use std::io::{self, Read as _};

use jit_core::issue_files::format::MAX_DESCRIPTION;
use jit_store::Outcome;

use crate::grammar::{Verb, verb};
use crate::invocation::invalid;

pub const VERBS: &[Verb] = &[
    verb!("create", "Write down what is to be done", create),
    verb!("show", "Everything about one issue", show),
    verb!("list", "All issues, or some", list),
    verb!("update", "Change an issue", update),
    verb!("comment", "Say something about it", comment),
    verb!("search", "Find words in issues", search),
    verb!("delete", "Remove it", delete),
    verb!("restore", "Bring back what was deleted", restore),
    verb!("import", "Take over issues from elsewhere", import),
    verb!("export", "Every issue as lines of JSON", export),
];

/// Returns a text from the command line, or from standard input if it is `-`. Reads one byte more than the limit at most.
fn given(text: String) -> Outcome<String> {
    if text != "-" {
        return Ok(text);
    }
    let mut bytes = Vec::new();
    io::stdin()
        .take(MAX_DESCRIPTION + 1)
        .read_to_end(&mut bytes)
        .map_err(invalid)?;
    String::from_utf8(bytes).map_err(|_| invalid("the text is not UTF-8"))
}
