//! Gates (E6): what an issue must pass, how that is found out, and what came of it.
//!
//! A gate is a command that is run, or a judgement that somebody gives. `registry` says which there are, `run` runs a
//! command, `results` keeps what came of it together with the tree it was found on. Nothing here asks whether a command
//! may run: that is [`crate::approvals`], and whoever calls `run` asks it first.

pub mod committed_policy;
pub mod export;
pub mod family;
pub mod json;
pub mod output;
pub mod presets;
pub mod registry;
pub mod results;
pub mod run;
pub mod service;

pub use registry::Registry;
pub use results::{Results, Standing};
pub use run::{Run, run};
