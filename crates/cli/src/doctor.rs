//! `jit doctor`: runs all checks and shows how to repair each problem.
//!
//! What must hold: the exit code is 6 if a check fails. A warning alone exits with 0.

use jit_engine::doctor::{Status, examine};
use jit_store::Outcome;
use serde_json::json;

use crate::invocation::{Invocation, Output};
use crate::render::clean_line;

#[derive(Debug, clap::Args)]
pub struct Flags {}

pub fn run(_: Flags, call: &Invocation) -> Outcome<Output> {
    let checks = examine(&call.options()?);
    let failed = checks.iter().any(|check| check.status == Status::Fail);
    let shown = call.show(&json!({ "ok": !failed, "checks": checks }), |style| {
        let mut text = String::new();
        for check in &checks {
            let mark = match check.status {
                Status::Ok => style.good("✓"),
                Status::Warn => style.bold("!"),
                Status::Fail => style.bad("✗"),
            };
            text.push_str(&format!(
                "{mark} {:<13} {}\n",
                check.name,
                clean_line(&check.message)
            ));
            if let Some(help) = &check.help {
                text.push_str(&format!("    {}\n", clean_line(help)));
            }
        }
        text
    });
    Ok(shown.exit(if failed { 6 } else { 0 }))
}
