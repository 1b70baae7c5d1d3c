//! `jit validate`: compares every file with the log, or checks one file by a schema.
//!
//! What must hold:
//! - It changes nothing, except issue files that are behind the log. `--write-missing` also writes issues that no worktree
//!   and no branch has.
//! - Broken settings and a damaged log do not stop it: it reports them.
//! - The exit code is 6 if there is a problem.

use std::path::{Path, PathBuf};

use jit_core::compat::check::check;
use jit_core::model::plan::Settings;
use jit_engine::compat::registry;
use jit_engine::context::Surroundings;
use jit_engine::doctor::validate::Audit;
use jit_engine::hooks::git::divergence;
use jit_engine::plans;
use jit_engine::worktree_identity::identity::Need;
use jit_os::shell::shell_word;
use jit_store::Outcome;
use serde_json::json;

use crate::invocation::{Invocation, Output};
use crate::render::clean_line;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Reads every line of the log and every issue file, and compares everything that is derived from the log. \
                  Changes nothing, but for files of issues that are behind the log.\n\nWith --schema, only that file is read: \
                  jit validate --schema agent_lock --file _state/agent_lock.json"
)]
pub struct Flags {
    /// Check a file by this schema (`jit schema` lists them)
    #[arg(long, value_name = "NAME", requires = "file")]
    schema: Option<String>,
    /// The file to check
    #[arg(long, value_name = "FILE", requires = "schema")]
    file: Option<PathBuf>,
    /// In the main worktree, also write the issues that are in no worktree and on no branch
    #[arg(long, conflicts_with_all = ["schema", "divergence"])]
    write_missing: bool,
    /// Only check whether this branch contains the tip of the main branch
    #[arg(long)]
    divergence: bool,
}

/// Checks whether this branch contains the tip of the main branch (C6).
fn divergence(call: &Invocation) -> Outcome<Output> {
    let found = Surroundings::find(&call.options()?)?;
    let report = divergence::divergence(&found.place, &found.config)?;
    let shown = call.show(&report, |style| {
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

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    if flags.divergence {
        return divergence(call);
    }
    if let (Some(name), Some(file)) = (&flags.schema, &flags.file) {
        return by_schema(name, file, call);
    }
    // Broken settings are part of the report. No comparison here depends on them.
    let options = call.options()?;
    let (found, broken) = Surroundings::despite(&options)?;
    let cx = jit_engine::opening::within(found, &options, Need::Read)?;
    jit_engine::write_path::view(&cx)
        .map(drop)
        .or_else(|refusal| match refusal.code {
            // The report below describes the damage.
            jit_core::model::refusal::Code::Damaged => Ok(()),
            _ => Err(refusal),
        })?;
    let report = cx.store.upkeep().validate(&cx.actor)?;
    // Nothing can be compared with a damaged log.
    let sound = !report.problems.iter().any(|p| p.check == "log" && !p.heals);
    let audit = if sound {
        jit_engine::doctor::validate::audit(&cx, flags.write_missing)?
    } else {
        Audit::default()
    };
    let ok = report.problems.is_empty() && audit.findings.is_empty() && broken.is_none();
    const MEND: &str = "mend what the message names, then: jit validate";
    let mut problems: Vec<_> = Vec::new();
    problems.extend(broken.as_ref().map(|error| {
        let (file, at) = error.file().unzip();
        let (line, column) = at.flatten().unzip();
        json!({
            "check": "config", "message": error.to_string(), "heals": false, "help": MEND,
            "file": file, "line": line, "column": column,
        })
    }));
    let of_log = report
        .problems
        .iter()
        .map(|p| json!({ "check": p.check, "message": p.message, "heals": p.heals, "help": p.help }));
    problems.extend(of_log);
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
        "notes": audit.notes,
        "problems": problems,
    });
    let shown = call.show(&value, |style| {
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
        for note in &audit.notes {
            text.push_str(&format!("{} {}\n", style.bad("!"), clean_line(note)));
        }
        if let Some(error) = &broken {
            let message = clean_line(&error.to_string());
            text.push_str(&format!("{} config: {message}\n    {MEND}\n", style.bad("✗")));
        }
        let findings = audit.findings.iter().map(|f| {
            let place = f.file.as_ref().filter(|_| f.check != "issue files");
            let place = place.map(|path| match f.line {
                0 => format!(" ({})", path.display()),
                line => format!(" ({}:{line})", path.display()),
            });
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

/// Checks whether a plan could run (G13).
fn plan(file: &Path, call: &Invocation) -> Outcome<Output> {
    // If a plan names no agent, the configuration names one.
    let config = Settings {
        agent: Some("claude".to_owned()),
        ..Settings::default()
    };
    let flaws = plans::flaws(file, &config, plans::AGENTS)?;
    let errors: Vec<_> = flaws
        .iter()
        .map(|flaw| json!({ "path": flaw.path, "line": flaw.line, "column": flaw.column, "problem": flaw.message }))
        .collect();
    let shown = call.show(&json!({ "errors": errors }), |style| {
        if flaws.is_empty() {
            return format!("{} as plan says\n", style.good("✓"));
        }
        let line = |flaw: &plans::Flaw| format!("{} {}\n", style.bad("✗"), clean_line(&flaw.shown(file)));
        flaws.iter().map(line).collect()
    });
    Ok(shown.exit(if flaws.is_empty() { 0 } else { 6 }))
}

fn by_schema(name: &str, file: &Path, call: &Invocation) -> Outcome<Output> {
    if name == crate::schema::PLAN {
        return plan(file, call);
    }
    if !jit_core::compat::SCHEMAS.contains(&name) {
        return Err(crate::schema::unknown(name));
    }
    let text = registry::read(file)?;
    let flaws = check(name, &text, &crate::schema::agent_types(call), registry::now())
        .ok_or_else(|| crate::schema::unknown(name))?;
    let own = format!("jit migrate {}", shell_word(&file.to_string_lossy()));
    let errors: Vec<_> = flaws
        .iter()
        .map(|flaw| {
            let fix = flaw.fix.replace("jit migrate FILE", &own);
            json!({ "path": flaw.path, "line": flaw.line, "problem": flaw.problem, "fix": fix })
        })
        .collect();
    let shown = call.show(&json!({ "errors": errors }), |style| {
        if flaws.is_empty() {
            return format!("{} as {name} says\n", style.good("✓"));
        }
        let place = clean_line(&file.display().to_string());
        let mut text = String::new();
        for flaw in &flaws {
            text.push_str(&format!(
                "{} {place}:{} {}: {}\n    {}\n",
                style.bad("✗"),
                flaw.line,
                clean_line(&flaw.path),
                clean_line(&flaw.problem),
                clean_line(&flaw.fix.replace("jit migrate FILE", &own))
            ));
        }
        text
    });
    Ok(shown.exit(if flaws.is_empty() { 0 } else { 6 }))
}
