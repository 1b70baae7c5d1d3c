//! Entries about jit in the settings of agent programs: hooks and MCP servers.
//!
//! What must hold:
//! - A settings file that is committed in another worktree is not changed. It is reported as kept.
//! - Entries in the user's own settings are only reported, with the command to remove them.

use std::path::{Path, PathBuf};

use jit_agents::hooks::Program;
use jit_agents::hooks::settings::Reach;
use jit_agents::mcp_settings::{InstallScope, McpClient};
use jit_core::model::refusal::Code;
use jit_store::Outcome;

use super::mcp_server::plan;
use super::uninstall::{Removal, Tree};
use crate::hooks::agent::settings::Hooked;

#[derive(Clone, Copy)]
enum Whose {
    Project,
    User,
}

/// An entry about jit in the settings of an agent program.
enum Entry {
    Hook(Program, Hooked),
    Server(McpClient, InstallScope, PathBuf, PathBuf),
}

impl Entry {
    fn file(&self) -> &Path {
        match self {
            Self::Hook(_, hooked) => &hooked.file,
            Self::Server(_, _, _, file) => file,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Hook(..) => "the agent hook",
            Self::Server(..) => "the MCP server",
        }
    }

    /// Returns the command that removes the entry from the user's own settings.
    fn command(&self) -> String {
        match self {
            Self::Hook(program, _) => format!("jit hooks uninstall --agent {program} --user"),
            Self::Server(client, ..) => {
                format!("jit mcp install --agent {} --user --uninstall", client.as_str())
            }
        }
    }

    fn take_back(&self) -> Outcome<()> {
        match self {
            Self::Hook(_, hooked) => hooked.take_out(),
            // The file is read again, because removing a hook may have changed it.
            Self::Server(client, scope, root, _) => plan(*client, *scope, Some(root), false)?.carry_out(),
        }
    }
}

/// Removes the entries in the settings of a tree.
pub(super) fn remove(tree: &Tree<'_>, done: &mut Removal) {
    for entry in find(tree.root, Whose::Project, done) {
        let file = entry.file().to_owned();
        let tracked = tree.tracks(&file);
        if tracked && !tree.here {
            done.keep(
                &file,
                "it is committed in that worktree, and names jit until the change is merged there",
            );
            continue;
        }
        match entry.take_back() {
            Ok(()) => {
                done.report
                    .removed
                    .push(format!("{} in {}", entry.name(), file.display()));
                if tracked {
                    done.commit.push(file.display().to_string());
                }
            }
            Err(refusal) => done.keep(&file, refusal.message),
        }
    }
}

/// Reports the entries in the user's own settings.
pub(super) fn report_users(start: &Path, done: &mut Removal) {
    // Files of the user that cannot be read are not reported.
    for entry in find(start, Whose::User, &mut Removal::default()) {
        let why = format!(
            "{} of yours, for every repository: {}",
            entry.name(),
            entry.command()
        );
        done.keep(entry.file(), why);
    }
}

/// Finds the entries in the settings of all agent programs. Files that cannot be read are reported as kept.
fn find(root: &Path, whose: Whose, done: &mut Removal) -> Vec<Entry> {
    let (reach, scope) = match whose {
        Whose::Project => (Reach::Project, InstallScope::Project),
        Whose::User => (Reach::User, InstallScope::User),
    };
    let mut found = Vec::new();
    for program in Program::ALL {
        match Hooked::find(program, reach, root) {
            Ok(Some(hooked)) => found.push(Entry::Hook(program, hooked)),
            Ok(None) => {}
            Err(refusal) => done.keep(root, refusal.message),
        }
    }
    for client in McpClient::ALL {
        match plan(client, scope, Some(root), false) {
            Ok(plan) if plan.changes_something() => {
                found.push(Entry::Server(client, scope, root.to_owned(), plan.file));
            }
            // An entry with our name that jit did not write is left alone.
            Ok(_) => {}
            Err(refusal) if refusal.code == Code::Exists => {}
            Err(refusal) => done.keep(root, refusal.message),
        }
    }
    found
}
