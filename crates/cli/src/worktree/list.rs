//! `jit worktree list`: lists all git worktrees, with the holders of leases there.
//!
//! It also works without a log: then it lists the worktrees without holders.

use std::collections::HashMap;

use jit_core::log::state;
use jit_engine::context::Surroundings;
use jit_engine::worktree_identity::identity;
use jit_engine::worktree_identity::identity::Need;
use jit_git::run::is_dirty;
use jit_git::worktrees;
use jit_store::Outcome;
use serde_json::json;

use crate::invocation::{Invocation, Output, invalid};
use crate::render::{clean_line, table};

#[derive(Debug, clap::Args)]
pub struct Flags {}

pub fn run(_: Flags, call: &Invocation) -> Outcome<Output> {
    let options = call.options()?;
    let found = Surroundings::find(&options)?;
    let Some(common) = found.place.common_dir.clone() else {
        return Err(invalid(
            "there is no git repository here, so there are no worktrees",
        ));
    };
    // Leases are shown if the store can be read. The list itself needs no store.
    let mut holders: HashMap<String, Vec<String>> = HashMap::new();
    if let Ok(cx) = jit_engine::opening::within(found, &options, Need::Read)
        && let Ok(view) = jit_engine::write_path::view(&cx)
    {
        for lease in state::leases(&*view.table)
            .map_err(invalid)?
            .iter()
            .filter(|l| !l.expired(&view.now))
        {
            if let (Some(id), Some(issue)) = (&lease.worktree_id, lease.resource.issue()) {
                holders
                    .entry(id.to_string())
                    .or_default()
                    .push(format!("{} ({issue})", lease.agent_id));
            }
        }
    }
    let mut listed = Vec::new();
    for entry in worktrees::list(&common).map_err(invalid)? {
        let id = identity::peek(&entry.git_dir).map(|identity| identity.worktree_id.to_string());
        let there = entry.root.as_deref().filter(|root| root.is_dir());
        let state = match (&entry.prunable, entry.is_bare) {
            (Some(_), _) => "missing",
            (None, true) => "bare",
            (None, false) => "present",
        };
        listed.push(json!({
            "worktree_id": id,
            "root": entry.root.as_ref().map(|root| root.to_string_lossy()),
            "branch": entry.branch,
            "head": entry.head,
            "is_main": entry.is_main,
            "state": state,
            "prunable": entry.prunable,
            "locked": entry.locked,
            "dirty": there.and_then(|root| is_dirty(root).ok()),
            "holders": id.as_ref().and_then(|id| holders.get(id)).cloned().unwrap_or_default(),
        }));
    }
    Ok(call.show(&json!({ "worktrees": listed }), |_| {
        let rows: Vec<Vec<String>> = listed
            .iter()
            .map(|one| {
                let text = |name: &str| one[name].as_str().map_or("-".to_owned(), clean_line);
                let who: Vec<String> = one["holders"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|v| v.as_str().map(clean_line))
                    .collect();
                let dirty = if one["dirty"] == true { "dirty" } else { "clean" };
                let state = if one["state"] == "present" {
                    dirty.to_owned()
                } else {
                    text("state")
                };
                vec![
                    text("worktree_id"),
                    text("branch"),
                    state,
                    text("root"),
                    who.join(", "),
                ]
            })
            .collect();
        table(&rows)
    }))
}
