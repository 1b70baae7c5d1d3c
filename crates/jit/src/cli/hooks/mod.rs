//! `jit hooks`: what git asks jit before commits and pushes.

mod install;
mod list;
mod run;
mod uninstall;

use super::{Shown, Verb, verb};

pub const VERBS: &[Verb] = &[
    verb!("install", "Let git ask jit before commits and pushes", install),
    verb!("uninstall", "Take the hooks out, to the byte", uninstall),
    verb!("list", "How each hook stands", list),
    verb!("run", "Called by git", run, Shown::WithAll),
];
