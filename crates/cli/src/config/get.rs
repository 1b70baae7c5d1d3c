//! `jit config get`: prints one setting.
//!
//! It warns if the repository's own file grants agents a right that does not count from there alone.

use jit_engine::config::{Origin, Sources};
use jit_engine::context::Surroundings;
use jit_store::Outcome;
use serde_json::json;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Such as coordination.default_ttl_secs
    key: String,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let found = Surroundings::find(&call.options()?)?;
    let setting = found.config.get(&flags.key).map_err(|e| super::refusal(&e))?;
    let value = super::value(&setting.value);
    let shown = json!({ "key": flags.key, "value": value, "origin": setting.origin.to_string() });
    let own = Sources::from_process(&found.place).repository;
    let is_own = matches!(&setting.origin, Origin::File { file, .. } if Some(&**file) == own.as_deref());
    let caveat = super::caveat(&flags.key, &setting.value).filter(|_| is_own);
    let shown = call.show(&shown, |_| match value.as_str() {
        Some(word) => format!("{word}\n"),
        None => format!("{value}\n"),
    });
    Ok(shown.warn(found.whoami.warnings.into_iter().chain(caveat).collect()))
}
