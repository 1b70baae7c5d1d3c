//! `jit worktree info`: shows the identity and the folders of the current worktree.
//!
//! It does not open the store.

use jit_engine::api::setup::SetupRequest;
use jit_engine::api::worktrees::WorktreeInfo;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};
use crate::render::{Style, clean_line};

#[derive(Debug, clap::Args)]
pub struct Flags {}

pub fn run(_: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(SetupRequest::Worktree)
}

pub fn text(info: &WorktreeInfo, style: Style) -> String {
    let id = info.worktree_id.as_ref().map_or("no worktree", |id| id.as_str());
    let shown = |field: &Option<String>| field.as_deref().map_or("-".to_owned(), clean_line);
    let mut text = format!("{}\n", style.bold(id));
    for (name, field) in [
        ("root", shown(&info.root)),
        ("branch", shown(&info.branch)),
        ("is_worktree", info.is_worktree.to_string()),
        ("common_dir", shown(&info.common_dir)),
        ("shared_jit", clean_line(&info.shared_jit)),
    ] {
        text.push_str(&format!("  {name:<12} {field}\n"));
    }
    text
}
