//! `jit validate`: compares every file with the log, or checks one file by a schema.
//!
//! What must hold:
//! - It changes nothing, except issue files that are behind the log. `--write-missing` also writes issues that no worktree
//!   and no branch has.
//! - Broken settings and a damaged log do not stop it: it reports them.
//! - The exit code is 6 if there is a problem.

use std::path::{Path, PathBuf};

use jit_engine::api::Reply;
use jit_engine::api::doctor::{
    Divergence, DoctorReply, DoctorRequest, IssueProblem, PlanError, PlanErrors, Problem, RegistryError,
    RegistryErrors, Validated,
};
use jit_store::Outcome;

use crate::exit::CHECK_FAILED;
use crate::invocation::{Invocation, Output, unexpected};
use crate::render::{Style, clean_line};

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

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let checked = match (flags.schema, flags.file) {
        (Some(schema), Some(file)) => Some((schema, file)),
        _ => None,
    };
    let request = match &checked {
        _ if flags.divergence => DoctorRequest::Divergence,
        Some((schema, file)) => DoctorRequest::CheckFile {
            schema: schema.clone(),
            file: file.clone().into(),
        },
        None => DoctorRequest::Validate {
            write_missing: flags.write_missing,
        },
    };
    let answer = call.send(request)?;
    let Reply::Doctor(reply) = &answer.reply else {
        return Err(unexpected());
    };
    let ok = match reply {
        DoctorReply::Validated(report) => report.ok,
        DoctorReply::Divergence(report) => report.ok,
        DoctorReply::RegistryErrors(RegistryErrors { errors }) => errors.is_empty(),
        DoctorReply::PlanErrors(PlanErrors { errors }) => errors.is_empty(),
        _ => return Err(unexpected()),
    };
    let shown = call.show(&answer.reply.value(), |style| match (reply, &checked) {
        (DoctorReply::RegistryErrors(RegistryErrors { errors }), Some((schema, file))) => {
            registry_text(errors, schema, file, style)
        }
        (DoctorReply::PlanErrors(PlanErrors { errors }), Some((_, file))) => plan_text(errors, file, style),
        _ => call.text(&answer.reply, style),
    });
    let shown = shown.warn(answer.warnings);
    Ok(shown.exit(if ok { 0 } else { CHECK_FAILED }))
}

pub fn divergence_text(report: &Divergence, style: Style) -> String {
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
}

pub fn text(report: &Validated, style: Style) -> String {
    let mut text = format!(
        "{} lines in {} segments, {} leases, {} issues\n",
        report.lines, report.segments, report.leases, report.issues
    );
    if !report.mended.is_empty() {
        text.push_str(&format!(
            "the files of {} issues were behind the log and have been written anew\n",
            report.mended.len()
        ));
    }
    for note in &report.notes {
        text.push_str(&format!("{} {}\n", style.bold("!"), clean_line(note)));
    }
    for problem in &report.problems {
        let (check, message, help) = match problem {
            Problem::Log(p) => (&p.check, p.message.clone(), &p.help),
            Problem::Config(p) => (&p.check, p.message.clone(), &p.help),
            Problem::Issue(p) => (&p.check, format!("{}{}", p.message, place(p)), &p.help),
        };
        text.push_str(&format!(
            "{} {check}: {}\n    {}\n",
            style.bad("✗"),
            clean_line(&message),
            clean_line(help)
        ));
    }
    if report.ok {
        text.push_str(&format!("{} everything agrees with the log\n", style.good("✓")));
    }
    text
}

/// Returns the place of a problem, unless its message names the file already.
fn place(problem: &IssueProblem) -> String {
    let file = problem.file.as_ref().filter(|_| problem.check != "issue files");
    let Some(file) = file.map(|file| file.as_path().display()) else {
        return String::new();
    };
    match problem.line {
        None => format!(" ({file})"),
        Some(line) => format!(" ({file}:{line})"),
    }
}

fn plan_text(errors: &[PlanError], file: &Path, style: Style) -> String {
    if errors.is_empty() {
        return format!("{} as plan says\n", style.good("✓"));
    }
    let line = |error: &PlanError| format!("{} {}\n", style.bad("✗"), clean_line(&error.shown(file)));
    errors.iter().map(line).collect()
}

fn registry_text(errors: &[RegistryError], schema: &str, file: &Path, style: Style) -> String {
    if errors.is_empty() {
        return format!("{} as {schema} says\n", style.good("✓"));
    }
    let place = clean_line(&file.display().to_string());
    let mut text = String::new();
    for error in errors {
        text.push_str(&format!(
            "{} {place}:{} {}: {}\n    {}\n",
            style.bad("✗"),
            error.line,
            clean_line(&error.path),
            clean_line(&error.problem),
            clean_line(&error.fix)
        ));
    }
    text
}
