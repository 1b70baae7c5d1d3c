//! `jit workflow`: lists, shows, resumes and cancels workflows.
//!
//! This file has the table of verbs and the text of workflows.

mod cancel;
pub mod follow;
mod list;
mod resume;
mod status;
pub mod text;

use crate::grammar::{Verb, verb};

pub const VERBS: &[Verb] = &[
    verb!("list", "Workflows, and how they stand", list),
    verb!("status", "One workflow, with its units", status),
    verb!(
        "resume",
        "Go on with a workflow whose coordinator has ended, or that failed",
        resume
    ),
    verb!(
        "cancel",
        "End a workflow; its agents are stopped, their work is kept",
        cancel
    ),
];
