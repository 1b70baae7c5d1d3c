//! Adds jit's MCP server to the configuration of an agent program, or removes it (I4).

use std::path::{Path, PathBuf};

use jit_agents::mcp_settings::{self, ConfigEdit, InstallScope, McpClient};
use jit_store::Outcome;

use crate::api::Answer;
use crate::api::Options;
use crate::api::setup::{McpServerChange, SetupReply};
use crate::context::Surroundings;
use crate::hooks::agent::settings::{digest, is_on_path, require_seen};

/// The requested change of one configuration.
pub(super) struct ServerEdit {
    pub client: McpClient,
    pub scope: Option<InstallScope>,
    pub install: bool,
    pub write: bool,
    pub seen: Option<String>,
}

/// Adds the server, or removes it. Without `write`, returns the change and writes nothing.
pub(super) fn change(options: &Options, edit: &ServerEdit) -> Outcome<Answer> {
    let scope = edit.scope.unwrap_or_else(|| edit.client.usual_scope());
    let project = match scope {
        InstallScope::User => None,
        InstallScope::Project => project(options)?,
    };
    let plan = plan(edit.client, scope, project.as_deref(), edit.install)?;
    let seen = digest(plan.before());
    let changed = plan.changes_something();
    if changed && edit.write {
        require_seen(edit.seen.as_deref(), &seen, &plan.file)?;
        plan.carry_out()?;
    }
    let mut warnings = Vec::new();
    if edit.install && !is_on_path() {
        warnings.push("there is no jit on your PATH, where the agent will look for it".to_owned());
    }
    let change = McpServerChange {
        changed,
        entry: plan.entry,
        file: plan.file.display().to_string(),
        seen,
    };
    Ok(Answer {
        reply: SetupReply::McpServer(change).into(),
        warnings,
    })
}

/// Returns the top of the project: of the worktree, or of the folder with `.jit/`.
fn project(options: &Options) -> Outcome<Option<PathBuf>> {
    let place = Surroundings::find(options)?.place;
    let without_git = || place.local_jit.as_deref()?.parent().map(Into::into);
    Ok(place.worktree_root.clone().or_else(without_git))
}

/// Plans the change with the variables of this process.
pub(super) fn plan(
    client: McpClient,
    scope: InstallScope,
    project: Option<&Path>,
    install: bool,
) -> Outcome<ConfigEdit> {
    mcp_settings::plan(client, scope, project, |name| std::env::var_os(name), install)
}
