use jit_engine::store::Outcome;
use jit_engine::worktree::identity::Need;
use serde_json::json;

use super::{Cx, Output};
use crate::render::clean_line;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Reads every line of the log and compares everything that is derived from it. Changes nothing."
)]
pub struct Flags {}

pub fn run(_: Flags, cx: &Cx) -> Outcome<Output> {
    let app = cx.app(Need::Read)?;
    app.view().map(drop).or_else(|refusal| match refusal.code {
        // That is what this command is there to describe.
        jit_core::refusal::Code::Damaged => Ok(()),
        _ => Err(refusal),
    })?;
    let report = app.store.validate(&app.actor)?;
    let value = json!({
        "ok": report.problems.is_empty(),
        "lines": report.lines,
        "segments": report.segments,
        "leases": report.leases,
        "issues": report.issues,
        "problems": report.problems.iter().map(|p| json!({
            "check": p.check, "message": p.message, "heals": p.heals, "help": p.help,
        })).collect::<Vec<_>>(),
    });
    let shown = cx.show(&value, |style| {
        let mut text = format!(
            "{} lines in {} segments, {} leases, {} issues\n",
            report.lines, report.segments, report.leases, report.issues
        );
        for problem in &report.problems {
            let message = clean_line(&problem.message);
            text.push_str(&format!(
                "{} {}: {message}\n    {}\n",
                style.bad("✗"),
                problem.check,
                problem.help
            ));
        }
        if report.problems.is_empty() {
            text.push_str(&format!("{} everything agrees with the log\n", style.good("✓")));
        }
        text
    });
    Ok(shown.exit(if report.problems.is_empty() { 0 } else { 6 }))
}
