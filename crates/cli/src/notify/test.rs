//! `jit notify test`: sends a test notification in every configured way.
//!
//! What must hold: the exit code is 6 if one of them could not be sent.

use jit_engine::api::Reply;
use jit_engine::api::notify::{Notified, NotifyReply, NotifyRequest};
use jit_store::Outcome;

use super::text::sent_text;
use crate::exit::CHECK_FAILED;
use crate::invocation::{Invocation, Output, unexpected};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  jit config set --user notify.command '[\"notify-send\", \"jit\"]'\n  \
    jit config set --user notify.webhook https://example.org/hook\n  jit notify test"
)]
pub struct Flags {}

pub fn run(_: Flags, call: &Invocation) -> Outcome<Output> {
    let answer = call.send(NotifyRequest::Test)?;
    let Reply::Notify(NotifyReply::Sent(Notified { sent })) = &answer.reply else {
        return Err(unexpected());
    };
    let shown = call.show(&answer.reply.value(), |style| sent_text(sent, style));
    let shown = shown.warn(answer.warnings);
    Ok(match sent.iter().all(|one| one.ok) {
        true => shown,
        false => shown.exit(CHECK_FAILED),
    })
}
