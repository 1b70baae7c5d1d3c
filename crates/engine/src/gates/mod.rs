//! Gates (E6): the checks an issue must pass, how they run, and their results.
//!
//! A gate is a command that jit runs, or a judgement that a person gives. `registry` defines the gates, `run` runs a
//! command, and `results` keeps each result together with the tree it was found on. Nothing here checks whether a
//! command may run. The approvals room does, and every caller of `run` asks it first.

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

use crate::api::Answer;
use crate::api::gates::GateRequest;
use crate::context::Context;
use jit_store::Outcome;

/// Carries out a request about gates.
pub(crate) fn handle(cx: &Context, request: GateRequest) -> Outcome<Answer> {
    match request {
        GateRequest::Define { gates } => service::define_gates(cx, &gates, false),
        GateRequest::DefinePreset {
            preset,
            timeout_secs,
            required_for,
        } => service::define_gates(cx, &presets::with(&preset, timeout_secs, &required_for)?, false),
        GateRequest::DefineExported { file } => {
            let bytes = crate::import_files::file(&file)?;
            let gates = export::GateExport::definitions(file.path.as_path(), &bytes)?;
            service::define_gates(cx, &gates, true)
        }
        GateRequest::Undefine { name } => service::undefine_gate(cx, &name),
        GateRequest::Run { issue, gate } => service::run_gates(cx, &issue, gate.as_deref()),
        GateRequest::Judge {
            issue,
            gate,
            passed,
            note,
        } => service::judge_gate(cx, issue, &gate, passed, note),
        GateRequest::List { issue } => service::list_gates(cx, issue.as_ref()),
    }
}
