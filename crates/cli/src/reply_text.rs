//! The text of a reply for people, and the ids that `--quiet` prints. Each noun has its own, in its folder.

use jit_engine::api::Reply;
use jit_engine::api::setup::{GatePresets, SetupReply};
use jit_engine::api::worktrees::GitWorktrees;

use crate::render::Style;
use crate::{
    claim, config, doctor, gate, hooks, init, issue, lock, notify, rescue, session, status, trust, uninstall,
    whoami, workflow, worktree,
};

/// Returns a reply as text for people. `done` is the first word about a lease that was granted.
pub fn text(reply: &Reply, done: &str, style: Style) -> String {
    match reply {
        Reply::Claims(reply) => claim::text::text(reply, done, style),
        Reply::Issues(reply) => issue::text::text(reply, style),
        Reply::Gates(reply) => gate::text::text(reply, style),
        Reply::Trust(reply) => trust::text(reply, style),
        Reply::Overview(reply) => status::text(reply, style),
        Reply::Units(reply) => worktree::text::text(reply, style),
        Reply::Attempts(reply) => worktree::text::attempt_text(reply, style),
        Reply::Workflows(reply) => workflow::text::text(reply, style),
        Reply::Landing(reply) => worktree::text::landing_text(reply, style),
        Reply::Rescue(reply) => rescue::text::text(reply, style),
        Reply::Sessions(reply) => session::text::text(reply, style),
        Reply::FileLocks(reply) => lock::text::text(reply, style),
        Reply::Hooks(reply) => hooks::text::text(reply, style),
        Reply::Notify(reply) => notify::text::text(reply, style),
        Reply::Setup(reply) => setup_text(reply, style),
        Reply::Config(reply) => config::text::text(reply),
        Reply::Doctor(reply) => doctor::text(reply, style),
    }
}

/// Text of a reply about the set-up, the place or the caller.
fn setup_text(reply: &SetupReply, style: Style) -> String {
    match reply {
        SetupReply::Caller(caller) => whoami::text(caller, style),
        SetupReply::SetUp(done) => init::text(done, style),
        SetupReply::Worktree(info) => worktree::info::text(info, style),
        SetupReply::Identity(identity) => worktree::init::text(identity, style),
        SetupReply::Worktrees(GitWorktrees { worktrees }) => worktree::list::text(worktrees),
        SetupReply::Uninstalled(done) => uninstall::text(done, style),
        // Their commands ask before they write.
        SetupReply::McpServer(_) | SetupReply::MayUninstall(_) => String::new(),
        // No command shows these alone.
        SetupReply::BoundAgent(_) | SetupReply::ControlFolder(_) => String::new(),
        SetupReply::GatePresets(GatePresets { presets }) => gate::presets::text(presets, style),
    }
}

/// Returns the ids of everything that was written, one a line.
pub fn ids(reply: &Reply) -> String {
    let ids = match reply {
        Reply::Claims(reply) => claim::text::ids(reply),
        Reply::Issues(reply) => issue::text::ids(reply),
        Reply::Units(reply) => worktree::text::ids(reply),
        Reply::Attempts(reply) => worktree::text::attempt_ids(reply),
        Reply::Workflows(reply) => workflow::text::ids(reply),
        Reply::Landing(reply) => worktree::text::landing_ids(reply),
        Reply::Rescue(reply) => rescue::text::ids(reply),
        Reply::Sessions(reply) => session::text::ids(reply),
        Reply::FileLocks(reply) => lock::text::ids(reply),
        Reply::Setup(SetupReply::Identity(identity)) => vec![identity.worktree_id.as_str()],
        Reply::Setup(_)
        | Reply::Gates(_)
        | Reply::Trust(_)
        | Reply::Overview(_)
        | Reply::Hooks(_)
        | Reply::Notify(_)
        | Reply::Config(_)
        | Reply::Doctor(_) => Vec::new(),
    };
    ids.iter().map(|id| format!("{id}\n")).collect()
}
