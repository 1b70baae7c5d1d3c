//! Requests about schemas: showing them, checking a file by one, and migrating a registry to the newest one.

use std::path::Path;

use jit_core::compat::check::check;
use jit_core::compat::{self, SCHEMAS};
use jit_core::model::plan::{self, Settings};
use jit_core::model::refusal::{Code, Details, Refusal};
use jit_os::shell::shell_word;
use jit_store::Outcome;

use crate::api::Answer;
use crate::api::Options;
use crate::api::doctor::{
    DoctorReply, EntryNote, EntryProblem, MigratedFile, PlanErrors, RegistryError, RegistryErrors, Schemas,
};
use crate::compat::registry;
use crate::context::Surroundings;
use crate::plans;

/// Name of the schema of plans. The other schemas describe registries.
const PLAN: &str = "plan";

fn plain(reply: DoctorReply) -> Answer {
    Answer {
        reply: reply.into(),
        warnings: Vec::new(),
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    SCHEMAS.iter().copied().chain([PLAN])
}

/// Returns the names of all schemas.
pub(super) fn all() -> Answer {
    let schemas = names().map(Into::into).collect();
    plain(DoctorReply::Schemas(Schemas { schemas }))
}

/// Returns one schema.
pub(super) fn schema(options: &Options, name: &str) -> Outcome<Answer> {
    let schema = match name {
        PLAN => plan::schema(),
        _ => compat::schema(name, &agent_types(options)).ok_or_else(|| unknown(name))?,
    };
    Ok(plain(DoctorReply::Schema(schema)))
}

/// Returns the refusal for an unknown schema, with the known names.
fn unknown(name: &str) -> Box<Refusal> {
    let known: Vec<&str> = names().collect();
    let known = known.join(", ");
    let shown: String = name.chars().take(40).collect();
    Box::new(
        Refusal::new(
            Code::NotFound,
            format!("there is no schema {shown:?}; there are {known}"),
        )
        .help("jit schema")
        .details(Details::Candidates(names().map(str::to_owned).collect())),
    )
}

/// Returns the agent types that the settings add. Without settings there are none.
fn agent_types(options: &Options) -> Vec<String> {
    let found = Surroundings::find(options);
    let types = found.map(|found| found.config.agent_types()).unwrap_or_default();
    types.into_iter().map(|(name, _)| name).collect()
}

/// Checks a file by a schema.
pub(super) fn check_file(options: &Options, name: &str, file: &Path) -> Outcome<Answer> {
    if name == PLAN {
        return check_plan(file);
    }
    if !SCHEMAS.contains(&name) {
        return Err(unknown(name));
    }
    let text = registry::read(file)?;
    let flaws = check(name, &text, &agent_types(options), registry::now()).ok_or_else(|| unknown(name))?;
    let own = format!("jit migrate {}", shell_word(&file.to_string_lossy()));
    let errors = flaws.into_iter().map(|flaw| RegistryError {
        fix: flaw.fix.replace("jit migrate FILE", &own),
        line: flaw.line,
        path: flaw.path,
        problem: flaw.problem,
    });
    Ok(plain(DoctorReply::RegistryErrors(RegistryErrors {
        errors: errors.collect(),
    })))
}

/// Checks whether a plan could run (G13).
fn check_plan(file: &Path) -> Outcome<Answer> {
    // If a plan names no agent, the configuration names one.
    let config = Settings {
        agent: Some("claude".to_owned()),
        ..Settings::default()
    };
    let errors = plans::flaws(file, &config, plans::AGENTS)?;
    Ok(plain(DoctorReply::PlanErrors(PlanErrors { errors })))
}

/// Migrates a registry to the newest version.
pub(super) fn migrate(options: &Options, file: &Path, dry_run: bool) -> Outcome<Answer> {
    let report = registry::migrate(file, &agent_types(options), dry_run)?;
    let done = report.outcome;
    let notes = done
        .notes
        .into_iter()
        .map(|(path, note)| EntryNote { note, path });
    let problems = done
        .problems
        .into_iter()
        .map(|(path, problem)| EntryProblem { path, problem });
    Ok(plain(DoctorReply::Migrated(MigratedFile {
        backup: report.backup.map(Into::into),
        changed: done.text.is_some(),
        dry_run,
        file: file.to_owned().into(),
        migrated: done.migrated,
        notes: notes.collect(),
        problems: problems.collect(),
        untouched: done.untouched,
    })))
}
