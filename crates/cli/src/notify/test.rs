//! `jit notify test`: sends a test notification in every configured way.
//!
//! What must hold: the exit code is 6 if one of them could not be sent.

use jit_engine::api::Reply;
use jit_engine::api::notify::Notified;
use jit_engine::api::notify::NotifyReply;
use jit_engine::api::notify::NotifyRequest;
use jit_engine::worktree_identity::identity::Need;
use jit_store::Outcome;

use super::text::sent_text;
use crate::exit::CHECK_FAILED;
use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  jit config set --user notify.command '[\"notify-send\", \"jit\"]'\n  \
    jit config set --user notify.webhook https://example.org/hook\n  jit notify test"
)]
pub struct Flags {}

pub fn run(_: Flags, call: &Invocation) -> Outcome<Output> {
    let answer = jit_engine::handle::handle(&call.open(Need::Read)?, NotifyRequest::Test)?;
    let failed = matches!(&answer.reply, Reply::Notify(NotifyReply::Sent(Notified { sent })) if sent.iter().any(|one| !one.ok));
    let shown = call.show(&answer.reply.value(), |style| match &answer.reply {
        Reply::Notify(NotifyReply::Sent(Notified { sent })) => sent_text(sent, style),
        _ => String::new(),
    });
    let shown = shown.warn(answer.warnings);
    Ok(match failed {
        true => shown.exit(CHECK_FAILED),
        false => shown,
    })
}
