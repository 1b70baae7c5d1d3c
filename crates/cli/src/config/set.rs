//! `jit config set`: changes a setting in the repository's file or in the user's own file.
//!
//! What must hold: agents cannot change the settings that restrain agents. This is a guard rail, not a fence.

use jit_core::model::refusal::{Code, Refusal};
use jit_engine::config::Sources;
use jit_engine::context::Surroundings;
use jit_store::Outcome;
use serde_json::json;

use crate::invocation::{Invocation, Output, invalid};
use crate::render::clean_line;

/// Prefixes of settings that restrain agents.
const GUARDED: &[&str] = &[
    "agents.",
    "dispatch.",
    "global_operations.",
    "hooks.",
    "merge.",
    "notify.",
    "worktree.",
];

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Comments and order of the file are kept; a value that does not fit changes nothing.\n\n\
    Example:\n  jit config set coordination.default_ttl_secs 20m"
)]
pub struct Flags {
    /// Such as coordination.default_ttl_secs
    key: String,
    #[arg(allow_hyphen_values = true)]
    value: String,
    /// In your own configuration instead of the repository's
    #[arg(long)]
    user: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let found = Surroundings::find(&call.options()?)?;
    if GUARDED.iter().any(|guarded| flags.key.starts_with(guarded)) && found.asking_agent().is_some() {
        // A guard rail, not a fence: agents may not change the settings that restrain them.
        let message = format!("{} is not for agents to change", flags.key);
        return Err(Box::new(Refusal::new(Code::NotAllowed, message).help(format!(
            "ask a person to run: jit config set {} {}",
            flags.key, flags.value
        ))));
    }
    let sources = Sources::from_process(&found.place);
    let (file, none) = if flags.user {
        (sources.user, "no home folder is known")
    } else {
        (
            sources.repository,
            "there is no worktree here whose .jit/config.toml could be changed",
        )
    };
    let file = file.ok_or_else(|| invalid(none))?;
    let value = jit_engine::config::set(&file, &flags.key, &flags.value).map_err(|e| super::refusal(&e))?;
    // The setting is written already. If its approval fails now, the user can approve it later.
    let approved = found.approve_setting(&flags.key, &value);
    let shown =
        json!({ "key": flags.key, "value": super::value(&value), "file": file.display().to_string() });
    let shown = call.done(&shown, &[], |_| {
        format!(
            "{} = {value} in {}\n",
            flags.key,
            clean_line(&file.display().to_string())
        )
    });
    let failed = approved.err().map(|refusal| {
        let why = refusal.message;
        format!("it is set, but not approved, so it is not run before: jit trust ({why})")
    });
    let caveat = super::caveat(&flags.key, &value).filter(|_| !flags.user);
    Ok(shown.warn(failed.into_iter().chain(caveat).collect()))
}
