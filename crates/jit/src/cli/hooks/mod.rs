//! `jit hooks`: where agents ask jit before they act.

mod agent;
mod agent_settings;
mod install;
mod uninstall;

use super::{Shown, Verb, verb};

pub const VERBS: &[Verb] = &[
    verb!(
        "install",
        "Let an agent's program ask jit before it acts",
        install
    ),
    verb!("uninstall", "Take the hooks out", uninstall),
    verb!("agent", "Called by an agent's program", agent, Shown::WithAll),
];
