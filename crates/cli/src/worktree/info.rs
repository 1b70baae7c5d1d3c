//! `jit worktree info`: shows the identity and the folders of the current worktree.
//!
//! It does not open the store.

use jit_engine::context::Surroundings;
use jit_engine::worktree_identity::identity;
use jit_engine::worktree_identity::identity::Need;
use jit_store::Outcome;
use serde_json::json;

use crate::invocation::{Invocation, Output, invalid};
use crate::render::clean_line;

#[derive(Debug, clap::Args)]
pub struct Flags {}

pub fn run(_: Flags, call: &Invocation) -> Outcome<Output> {
    let Surroundings { place, .. } = Surroundings::find(&call.options()?)?;
    let (identity, notices) = if place.worktree_root.is_some() {
        let (found, notices) =
            identity::load_or_create(&place, jiff::Timestamp::now(), Need::Read).map_err(invalid)?;
        (Some(found), notices)
    } else {
        (None, Vec::new())
    };
    let branch = place.branch().map_err(invalid)?;
    let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|p| p.to_string_lossy().into_owned());
    let value = json!({
        "worktree_id": identity.as_ref().map(|i| &i.worktree_id),
        "root": path(&place.worktree_root),
        "branch": branch,
        "is_worktree": place.is_worktree(),
        "is_bare": place.is_bare(),
        "common_dir": path(&place.common_dir),
        "git_dir": path(&place.git_dir),
        "local_jit": path(&place.local_jit),
        "shared_jit": place.control_dir.to_string_lossy(),
        "created_at": identity.as_ref().map(|i| i.created_at.to_string()),
        "relocated_at": identity.as_ref().and_then(|i| i.relocated_at).map(|t| t.to_string()),
    });
    let shown = call.show(&value, |style| {
        let id = identity
            .as_ref()
            .map_or("no worktree".to_owned(), |i| i.worktree_id.to_string());
        let mut text = format!("{}\n", style.bold(&id));
        for name in ["root", "branch", "is_worktree", "common_dir", "shared_jit"] {
            let field = &value[name];
            let field = match field {
                serde_json::Value::Null => "-".to_owned(),
                field => field.as_str().map_or_else(|| field.to_string(), clean_line),
            };
            text.push_str(&format!("  {name:<12} {field}\n"));
        }
        text
    });
    Ok(shown.warn(notices.iter().map(ToString::to_string).collect()))
}
