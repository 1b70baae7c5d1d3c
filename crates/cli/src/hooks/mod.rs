//! `jit hooks`: installs, lists, removes and runs the hooks with which git and agent programs ask jit before they act.

mod agent;
pub mod agent_settings;
mod install;
mod list;
mod run;
mod uninstall;

use crate::grammar::{Shown, Verb, verb};

pub const VERBS: &[Verb] = &[
    verb!(
        "install",
        "Let git, or an agent's program, ask jit before it acts",
        install
    ),
    verb!("uninstall", "Take the hooks out, to the byte", uninstall),
    verb!("list", "How each hook stands", list),
    verb!("run", "Called by git", run, Shown::WithAll),
    verb!("agent", "Called by an agent's program", agent, Shown::WithAll),
];
