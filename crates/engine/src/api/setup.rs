//! Requests and replies about setting jit up, and about the place and the caller. They work without a log.

use jit_agents::mcp_settings::{InstallScope, McpClient};
use jit_core::model::ids::{AgentId, WorktreeId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::facts::TreeScope::Nothing;
use crate::api::facts::{reads, replies, requests, writes};
use crate::api::init::{MayUninstall, SetUp, Uninstalled};
use crate::api::path::ApiPath;
use crate::api::worktrees::{GitWorktrees, NewIdentity, WorktreeInfo};

requests! {
    /// The set-up of a repository, the place, and the caller.
    pub enum SetupRequest {
        /// Which agent the caller is taken for, and why.
        Whoami => reads(Nothing),
        /// Sets jit up in the repository; with `hooks`, installs git hooks too.
        Init { hooks: bool } => writes(Nothing),
        /// The identity and the folders of the current worktree.
        Worktree => reads(Nothing),
        /// Gives the current worktree its identity, unless it has one.
        InitWorktree => writes(Nothing),
        /// All git worktrees, with the holders of leases there.
        Worktrees => reads(Nothing),
        /// Adds jit's MCP server to the configuration of an agent program, or removes it.
        McpServer {
            client: McpClient,
            /// The usual place of that program if not given.
            scope: Option<InstallScope>,
            install: bool,
            /// Writes the configuration. Without it, the reply has the change that would be made.
            write: bool,
            /// Writes only if the configuration still has this digest.
            seen: Option<String>,
        } => writes(Nothing).writes_if(*write),
        /// Whether the caller may remove jit now, and from which folder.
        MayUninstall => reads(Nothing),
        /// Exports every issue and removes jit from the repository.
        Uninstall {
            /// The file for the issues; the default is a file beside the control plane.
            export: Option<ApiPath>,
            /// Removes committed files of this worktree too.
            purge_tree: bool,
        } => writes(Nothing),
        /// The built-in presets of gates, and those that fit the current worktree.
        GatePresets => reads(Nothing),
        /// The agent of the session that a process above the caller is bound to.
        BoundAgent => reads(Nothing),
        /// The folder with everything that all worktrees share and git never sees.
        ControlFolder => reads(Nothing),
    }
}

replies! {
    pub enum SetupReply {
        Caller(Caller),
        SetUp(SetUp),
        Worktree(WorktreeInfo),
        Identity(NewIdentity),
        Worktrees(GitWorktrees),
        McpServer(McpServerChange),
        MayUninstall(MayUninstall),
        Uninstalled(Uninstalled),
        GatePresets(GatePresets),
        BoundAgent(BoundAgent),
        ControlFolder(ControlFolder),
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct BoundAgent {
    pub agent_id: Option<AgentId>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ControlFolder {
    pub path: ApiPath,
}

/// The agent that the caller is taken for.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Caller {
    pub agent_id: AgentId,
    pub kind: String,
    pub source: String,
    /// The agent program that the caller runs in.
    pub detected_agent: Option<String>,
    /// The variable that tells it.
    pub detected_by: Option<String>,
    /// The process above the caller that was started with it; absent if the caller itself has it.
    pub detected_in: Option<u32>,
    pub worktree_id: Option<WorktreeId>,
    pub branch: Option<String>,
    /// The folder that the caller's commands are about: the worktree, or without git the folder with `.jit/`.
    pub root: Option<String>,
    /// The folder with the data that all worktrees share.
    pub control_dir: String,
}

/// A change of the configuration of an agent program.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct McpServerChange {
    pub changed: bool,
    /// The entry in the format of that file. The rest of the file may hold secrets.
    pub entry: String,
    pub file: String,
    /// The digest of the content before the change; empty if there was no file.
    pub seen: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct GatePresets {
    pub presets: Vec<GatePreset>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct GatePreset {
    /// It fits the files of the current worktree.
    pub detected: bool,
    pub gates: Vec<PresetGate>,
    pub name: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct PresetGate {
    pub command: Option<String>,
    pub description: Option<String>,
    pub name: String,
    pub timeout_secs: u64,
}
