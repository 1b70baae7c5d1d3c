use jit_engine::app::{Audit, Surroundings};
use jit_engine::hooks::divergence;
use jit_engine::store::Outcome;
use jit_engine::worktree::identity::Need;
use serde_json::json;

use super::{Cx, Output};
use crate::render::clean_line;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Reads every line of the log and every issue file, and compares everything that is derived from the log. \
                  Changes nothing, but for files of issues that are behind the log."
)]
pub struct Flags {
    /// Only check whether this branch contains the tip of the main branch
    #[arg(long)]
    divergence: bool,
}

/// Whether the branch has what everybody has (C6).
fn divergence(cx: &Cx) -> Outcome<Output> {
    let found = Surroundings::find(&cx.options()?)?;
    let report = divergence::divergence(&found.place, &found.config)?;
    let shown = cx.show(&report, |style| {
        let mark = if report.ok {
            style.good("✓")
        } else {
            style.bad("✗")
        };
        let mut text = format!("{mark} {}\n", clean_line(&report.message));
        for command in &report.help {
            text.push_str(&format!("    {}\n", clean_line(command)));
        }
        text
    });
    Ok(shown.exit(if report.ok { 0 } else { 6 }))
}

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    if flags.divergence {
        return divergence(cx);
    }
    let app = cx.app(Need::Read)?;
    app.view().map(drop).or_else(|refusal| match refusal.code {
        // That is what this command is there to describe.
        jit_core::refusal::Code::Damaged => Ok(()),
        _ => Err(refusal),
    })?;
    let report = app.store.validate(&app.actor)?;
    // Where the log is damaged, nothing can be compared with it.
    let sound = !report.problems.iter().any(|p| p.check == "log" && !p.heals);
    let audit = if sound { app.audit()? } else { Audit::default() };
    let ok = report.problems.is_empty() && audit.findings.is_empty();
    let mut problems: Vec<_> = report
        .problems
        .iter()
        .map(|p| json!({ "check": p.check, "message": p.message, "heals": p.heals, "help": p.help }))
        .collect();
    problems.extend(audit.findings.iter().map(|f| {
        json!({
            "check": f.check, "message": f.message, "heals": false, "help": f.help,
            "file": f.file, "line": (f.line > 0).then_some(f.line),
        })
    }));
    let value = json!({
        "ok": ok,
        "lines": report.lines,
        "segments": report.segments,
        "leases": report.leases,
        "issues": report.issues,
        "mended": audit.mended,
        "problems": problems,
    });
    let shown = cx.show(&value, |style| {
        let mut text = format!(
            "{} lines in {} segments, {} leases, {} issues\n",
            report.lines, report.segments, report.leases, report.issues
        );
        if !audit.mended.is_empty() {
            text.push_str(&format!(
                "the files of {} issues were behind the log and have been written anew\n",
                audit.mended.len()
            ));
        }
        let findings = audit.findings.iter().map(|f| {
            let place = f.file.as_ref().filter(|_| f.check != "issue files");
            let place = place.map(|path| format!(" ({}:{})", path.display(), f.line));
            (
                f.check,
                format!("{}{}", f.message, place.unwrap_or_default()),
                &f.help,
            )
        });
        let problems = report
            .problems
            .iter()
            .map(|p| (p.check, p.message.clone(), &p.help));
        for (check, message, help) in problems.chain(findings) {
            text.push_str(&format!(
                "{} {check}: {}\n    {}\n",
                style.bad("✗"),
                clean_line(&message),
                clean_line(help)
            ));
        }
        if ok {
            text.push_str(&format!("{} everything agrees with the log\n", style.good("✓")));
        }
        text
    });
    Ok(shown.exit(if ok { 0 } else { 6 }))
}
