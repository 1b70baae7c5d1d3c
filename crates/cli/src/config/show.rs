//! `jit config show`: prints every setting, and with `--origin` the place it comes from.

use jit_engine::api::Reply;
use jit_engine::api::config::{ConfigReply, ConfigRequest, Settings};
use jit_store::Outcome;

use super::text::settings_text;
use crate::invocation::{Invocation, Output, unexpected};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Tell where each value comes from
    #[arg(long)]
    origin: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let answer = call.send(ConfigRequest::Show)?;
    let Reply::Config(ConfigReply::Settings(Settings { settings })) = &answer.reply else {
        return Err(unexpected());
    };
    let shown = call.show(&answer.reply.value(), |_| settings_text(settings, flags.origin));
    Ok(shown.warn(answer.warnings))
}
