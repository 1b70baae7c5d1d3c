//! `jit doctor`: runs all checks and shows how to repair each problem.
//!
//! What must hold: the exit code is 6 if a check fails. A warning alone exits with 0.

use jit_engine::api::Reply;
use jit_engine::api::doctor::{CheckStatus, Checks, DoctorReply, DoctorRequest, Schemas};
use jit_store::Outcome;

use crate::exit::CHECK_FAILED;
use crate::invocation::{Invocation, Output, unexpected};
use crate::render::{Style, clean_line};
use crate::{migrate, recover, schema, validate};

#[derive(Debug, clap::Args)]
pub struct Flags {}

pub fn run(_: Flags, call: &Invocation) -> Outcome<Output> {
    let answer = call.send(DoctorRequest::Check)?;
    let Reply::Doctor(DoctorReply::Checks(checks)) = &answer.reply else {
        return Err(unexpected());
    };
    let shown = call.show(checks, |style| checks_text(checks, style));
    let exit = if checks.ok { 0 } else { CHECK_FAILED };
    Ok(shown.exit(exit).warn(answer.warnings))
}

/// Text of a reply about checks.
pub fn text(reply: &DoctorReply, style: Style) -> String {
    match reply {
        DoctorReply::Checks(checks) => checks_text(checks, style),
        DoctorReply::Validated(report) => validate::text(report, style),
        DoctorReply::Divergence(report) => validate::divergence_text(report, style),
        DoctorReply::Schemas(Schemas { schemas }) => schemas.iter().map(|name| format!("{name}\n")).collect(),
        DoctorReply::Schema(schema) => schema::text(schema),
        DoctorReply::Migrated(done) => migrate::text(done, style),
        DoctorReply::Recovered(recovered) => recover::text(recovered),
        // The text of these names the file and the schema of the request.
        DoctorReply::RegistryErrors(_) | DoctorReply::PlanErrors(_) => String::new(),
    }
}

fn checks_text(checks: &Checks, style: Style) -> String {
    let mut text = String::new();
    for check in &checks.checks {
        let mark = match check.status {
            CheckStatus::Ok => style.good("✓"),
            CheckStatus::Warn => style.bold("!"),
            CheckStatus::Fail => style.bad("✗"),
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
}
