//! Requests and replies about hooks: git and agents ask jit before they act, and commits are verified afterwards.

use std::borrow::Cow;

use jit_agents::hooks::{HookEvent, Program};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::content::ApiBytes;
use crate::api::facts::TreeScope::Nothing;
use crate::api::facts::{reads, replies, requests, writes};
use crate::api::init::Left;
use crate::api::path::ApiPath;
use crate::api::verify::Verified;

requests! {
    /// Hooks of git and of agents.
    pub enum HookRequest {
        /// Verifies that the commits of a range were made under the leases that they name.
        Verify { range: String } => reads(Nothing),
        /// The state of each git hook.
        List => reads(Nothing),
        /// Installs the git hooks; with `server`, those of a repository that is pushed to.
        Install { server: bool, dry_run: bool } => writes(Nothing).writes_if(!dry_run),
        /// Removes the git hooks. Earlier hooks get their names back.
        Uninstall { dry_run: bool } => writes(Nothing).writes_if(!dry_run),
        /// Git called a hook.
        Run {
            hook: String,
            /// The arguments that git gave to the hook.
            args: Vec<ApiPath>,
            /// The bytes that git wrote to the hook's standard input.
            input: ApiBytes,
        } => writes(Nothing),
        /// Git merges one file of `.jit/`. The result replaces the file of our side.
        MergeFile(merge: Box<MergeFile>) => writes(Nothing),
        /// An agent program called its hook with this document.
        AgentEvent {
            program: Program,
            event: HookEvent,
            input: ApiBytes,
        } => writes(Nothing),
        /// Registers jit's hook in the settings of an agent program, or removes it.
        AgentHook {
            program: Program,
            /// In the user's own settings instead of the project's.
            user: bool,
            register: bool,
            /// Writes the settings. Without it, the reply has the change that would be made.
            write: bool,
            /// Writes only if the settings still have this digest.
            seen: Option<String>,
        } => writes(Nothing).writes_if(*write),
        /// Whether the calling agent may use a tool, for its shim. Files that the tool writes are locked.
        Permission(ask: Box<PermissionAsk>) => writes(Nothing),
    }
}

impl HookRequest {
    /// Whether git or an agent program reads the answer: a warning there could be taken for a part of it.
    pub fn answers_a_program(&self) -> bool {
        match self {
            Self::Run { .. } | Self::MergeFile(_) | Self::AgentEvent { .. } | Self::Permission(_) => true,
            Self::Verify { .. }
            | Self::List
            | Self::Install { .. }
            | Self::Uninstall { .. }
            | Self::AgentHook { .. } => false,
        }
    }
}

replies! {
    pub enum HookReply {
        Verified(Verified),
        Survey(Survey),
        Installed(InstalledHooks),
        Removed(RemovedHooks),
        Ran(HookRan),
        Merged(MergedFile),
        Answer(AgentAnswer),
        AgentHook(AgentHookChange),
        Permission(ToolPermission),
    }
}

/// Returns whether git writes to this hook's standard input.
pub fn has_input(hook: &str) -> bool {
    matches!(hook, "pre-push" | "post-rewrite" | "pre-receive")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HookStatus {
    Installed,
    /// Ours, edited since: left alone.
    Edited,
    /// Another program's hook is in its place.
    Foreign,
    /// Ours exists, but git looks in another folder.
    Shadowed,
    Missing,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HookState {
    pub name: Cow<'static, str>,
    pub state: HookStatus,
    /// The path at which git looks for it.
    pub path: String,
    /// The hook that ours calls first; null if there is none.
    pub calls_first: Option<String>,
}

/// The state of the hooks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Survey {
    pub folder: String,
    pub hooks: Vec<HookState>,
    /// Remarks about the folder for the user.
    pub notes: Vec<String>,
}

#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct InstalledHooks {
    pub folder: String,
    pub dry_run: bool,
    pub changed: bool,
    /// The steps that were done, or would be done in a dry run.
    pub steps: Vec<String>,
    pub notes: Vec<String>,
}

#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RemovedHooks {
    pub dry_run: bool,
    pub steps: Vec<String>,
    pub kept: Vec<Left>,
}

/// A hook ran, and git continues.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct HookRan {
    pub ok: bool,
    pub warnings: Vec<String>,
}

/// A file of `.jit/` that git merges.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MergeFile {
    pub base: ApiPath,
    pub ours: ApiPath,
    pub theirs: ApiPath,
    /// The file's path in the repository.
    pub path: Option<String>,
}

/// The result of merging a file.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct MergedFile {
    /// No conflict is left for a person.
    pub clean: bool,
    /// Fields that both sides changed.
    pub conflicts: Vec<String>,
    /// The number of conflicts with markers, if the file was merged by lines.
    pub marked: Option<i32>,
    /// The reason why the file was merged by lines and not by its content.
    pub refused: Option<RefusedMerge>,
}

/// The reason why a file cannot be merged by its content.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct RefusedMerge {
    pub message: String,
    pub help: Vec<String>,
}

/// The answer to an agent program, in its own format.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct AgentAnswer {
    /// The text to print; empty if there is nothing to report.
    pub text: String,
}

/// A change of the settings of an agent program.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct AgentHookChange {
    pub program: Program,
    pub file: String,
    pub changed: bool,
    /// The content of the file; null if there is none.
    pub before: Option<String>,
    pub after: Option<String>,
    /// The digest of the content before the change; empty if there was no file.
    pub seen: String,
}

/// A tool that an agent is about to use.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PermissionAsk {
    /// The agent's own name of the tool.
    pub tool: String,
    /// The tool's input as the agent gave it: a text of JSON.
    pub input: String,
    /// The agent's current folder.
    pub cwd: Option<ApiPath>,
    /// Rules of the agent's job that allow tools.
    pub allowed: Vec<String>,
    /// The agent would ask its user for approval.
    pub approve: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolPermission {
    Allow,
    /// Allowed. The model gets this warning.
    Warn(String),
    /// Denied. The model gets this reason.
    Deny(String),
}
