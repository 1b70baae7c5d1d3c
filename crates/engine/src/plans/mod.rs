//! Plan files (G13): reads the file of a person, and stores the resolved plan.
//!
//! What must hold:
//!
//! - Every problem of a file is reported with line and column, whether it is invalid YAML or an invalid plan.
//! - Reading is bounded in size, in depth, and in the expansion of aliases.
//! - Nothing is guessed: unknown keys, duplicate keys, merge keys, tags and second documents are refused.
//! - A stored plan needs no other file: it contains all prompts and every setting.
//! - A stored plan is on disk before its digest is given to a caller. It is read back only if it still has that
//!   digest.
//!
//! Format: YAML 1.2, or JSON in a file whose name ends with `.json`. Stored as `workflows/<id>/plan.json` in the
//! control plane.
//!
//! Limitations: for invalid YAML, or a value of the wrong type, only the first problem is reported.

pub mod lookup;
pub mod place;

use std::io;
use std::path::{Path, PathBuf};

use jit_core::model::ids::{IssueId, UnitId, WorkflowId};
use jit_core::model::plan::{Plan, PlanUnit, SCHEMA_VERSION, Settings};
use jit_core::model::plan_check::PlanProblem;
use jit_core::model::refusal::{Code, Details, Refusal};
use jit_os::file;
use jit_os::shell::shell_word;
use jit_store::Outcome;
use serde_saphyr::options::{DuplicateKeyPolicy, MergeKeyPolicy, NonFiniteFloatPolicy};
use sha2::{Digest as _, Sha256};

use crate::api::doctor::PlanError;

/// Maximum size of a plan, and of a prompt file.
const MOST: u64 = 4 << 20;
/// Maximum length of a prompt, the same as in core for prompts inside the plan.
const MOST_PROMPT: u64 = 1 << 20;
/// Maximum nesting. A plan needs six levels.
const DEEPEST: usize = 32;

/// Agents that a plan can use.
pub const AGENTS: &[&str] = jit_agents::NAMES;

/// Returns strict options for reading YAML.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: 1,
            max_depth: DEEPEST,
            max_nodes: 200_000,
            max_events: 400_000,
            max_aliases: 1_000,
            max_anchors: 1_000,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 10_000,
            max_replay_stack_depth: 4,
            max_alias_expansions_per_anchor: 1_000,
        },
        strict_booleans: true,
        reject_unsupported_tags: true,
        // The plan's own check reports it, with its place.
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        with_snippet: false,
    }
}

fn is_json(path: &Path) -> bool {
    path.extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("json"))
}

/// Parses a plan, without checking its content.
fn parse(text: &str, json: bool) -> Result<Plan, PlanError> {
    if json {
        let mut reader = serde_json::Deserializer::from_str(text);
        let flaw = |e: &serde_json::Error, path: String| {
            // The place is reported separately, so it is removed from the message.
            let told = e.to_string();
            let message = told
                .rsplit_once(" at line ")
                .map_or(told.as_str(), |(why, _)| why);
            PlanError {
                path: if path == "." { String::new() } else { path },
                line: e.line().max(1) as u64,
                column: e.column().max(1) as u64,
                problem: message.to_owned(),
            }
        };
        let plan: Plan = serde_path_to_error::deserialize(&mut reader)
            .map_err(|e| flaw(e.inner(), e.path().to_string()))?;
        reader.end().map_err(|e| flaw(&e, String::new()))?;
        return Ok(plan);
    }
    serde_saphyr::from_str_with_options(text, options()).map_err(|e| {
        let at = e.location();
        let told = e.without_snippet().to_string();
        let message = match &at {
            Some(at) => told.replace(&format!(" at line {}, column {}", at.line(), at.column()), ""),
            None => told,
        };
        // An error of the library may have several lines; only the first is reported.
        let message = message.lines().next().unwrap_or_default().to_owned();
        let (line, column) = at.map_or((1, 1), |at| (at.line().max(1), at.column().max(1)));
        PlanError {
            path: place::Places::of(text).at(line, column),
            line,
            column,
            problem: message,
        }
    })
}

/// Parses and checks a plan. Returns all problems if there are any. `config` gives the defaults.
pub fn read_text(text: &str, json: bool, config: &Settings, agents: &[&str]) -> Result<Plan, Vec<PlanError>> {
    let plan = parse(text, json).map_err(|flaw| vec![flaw])?;
    let problems = plan.check(config, agents);
    match problems.is_empty() {
        true => Ok(plan),
        false => Err(placed(text, problems)),
    }
}

/// Adds the place in the text to each problem of a plan.
fn placed(text: &str, problems: Vec<PlanProblem>) -> Vec<PlanError> {
    let places = place::Places::of(text);
    let mut flaws: Vec<PlanError> = problems
        .into_iter()
        .map(|problem| {
            let (line, column) = places.find(&problem.path);
            PlanError {
                line,
                column,
                path: problem.path,
                problem: problem.message,
            }
        })
        .collect();
    flaws.sort_by_key(|flaw| (flaw.line, flaw.column));
    flaws
}

/// Reads the text of a plan file.
pub fn text_of(path: &Path) -> Outcome<String> {
    // The user named the file, so a symbolic link is followed.
    let real = std::fs::canonicalize(path).map_err(|e| failed("read", path, &e))?;
    let bytes = file::read_real(&real, MOST).map_err(|e| failed("read", path, &e))?;
    let bytes = bytes.ok_or_else(|| failed("read", path, &io::ErrorKind::NotFound.into()))?;
    String::from_utf8(bytes).map_err(|e| {
        let line = e.as_bytes()[..e.utf8_error().valid_up_to()]
            .iter()
            .filter(|b| **b == b'\n')
            .count();
        let message = format!("{}:{}: this is not text in UTF-8", path.display(), line + 1);
        Box::new(Refusal::new(Code::Invalid, message))
    })
}

/// Returns all problems of a plan file.
pub fn flaws(path: &Path, config: &Settings, agents: &[&str]) -> Outcome<Vec<PlanError>> {
    let text = text_of(path)?;
    Ok(read_text(&text, is_json(path), config, agents)
        .err()
        .unwrap_or_default())
}

/// Loads the plan of a file, with its prompt files included.
pub fn load(path: &Path, config: &Settings, agents: &[&str]) -> Outcome<Plan> {
    load_for(path, config, agents, &|_| Ok(Vec::new()))
}

/// Loads a plan that is about to run. The problems that `lacks` finds are reported with the others.
pub fn load_for(
    path: &Path,
    config: &Settings,
    agents: &[&str],
    lacks: &dyn Fn(&Plan) -> Outcome<Vec<PlanProblem>>,
) -> Outcome<Plan> {
    let text = text_of(path)?;
    let refused = |flaws: &[PlanError]| {
        let first = flaws.first().map(|flaw| flaw.shown(path)).unwrap_or_default();
        let more = match flaws.len() {
            0 | 1 => String::new(),
            n => format!(" (and {} more)", n - 1),
        };
        let check = format!(
            "jit validate --schema plan --file {}",
            shell_word(&path.to_string_lossy())
        );
        Box::new(
            Refusal::new(Code::Invalid, format!("{first}{more}"))
                .help(check)
                .details(Details::Candidates(
                    flaws.iter().map(|flaw| flaw.shown(path)).collect(),
                )),
        )
    };
    let mut plan = read_text(&text, is_json(path), config, agents).map_err(|flaws| refused(&flaws))?;
    let lacking = lacks(&plan)?;
    if !lacking.is_empty() {
        return Err(refused(&placed(&text, lacking)));
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    for n in 0..plan.units.len() {
        let Some(name) = plan.units[n].prompt_file.take() else {
            continue;
        };
        match prompt(folder, &name) {
            Ok(text) => plan.units[n].prompt = Some(text),
            Err(message) => {
                let at = format!("units[{n}].prompt_file");
                let (line, column) = place::Places::of(&text).find(&at);
                return Err(refused(&[PlanError {
                    path: at,
                    line,
                    column,
                    problem: message,
                }]));
            }
        }
    }
    Ok(plan)
}

/// Reads a prompt file. It must be below the plan's folder, even after following symbolic links.
fn prompt(folder: &Path, name: &str) -> Result<String, String> {
    let cannot = |e: &io::Error| format!("{name:?} cannot be read: {e}");
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    let home = std::fs::canonicalize(folder).map_err(|e| cannot(&e))?;
    let real = std::fs::canonicalize(home.join(name)).map_err(|e| cannot(&e))?;
    if !real.starts_with(&home) {
        return Err(format!("{name:?} leads out of the plan's folder"));
    }
    let bytes = file::read_real(&real, MOST_PROMPT).map_err(|e| cannot(&e))?;
    let text =
        String::from_utf8(bytes.unwrap_or_default()).map_err(|_| format!("{name:?} is not text in UTF-8"))?;
    match text.trim().is_empty() {
        true => Err(format!("{name:?} is empty")),
        false => Ok(text),
    }
}

/// Makes a plan for ready issues, in this order, each independent of the others.
pub fn from_ready(issues: &[IssueId], max_concurrent: u32, run: Settings) -> Plan {
    let mut units: Vec<PlanUnit> = Vec::with_capacity(issues.len());
    for issue in issues {
        let name = match issue.as_str().parse::<UnitId>() {
            Ok(id) => id.to_string(),
            // An issue name can contain characters that a branch name cannot.
            Err(_) => UnitId::slug(issue.as_str()).map_or_else(|| "unit".to_owned(), |id| id.to_string()),
        };
        let taken = |name: &str| units.iter().any(|unit| unit.id.eq_ignore_ascii_case(name));
        let numbered = (2..).map(|n| format!("{name}-{n}"));
        let id = std::iter::once(name.clone())
            .chain(numbered)
            .find(|name| !taken(name));
        units.push(PlanUnit {
            id: id.unwrap_or(name),
            issue: Some(issue.to_string()),
            project_id: None,
            prompt: None,
            prompt_file: None,
            depends_on: Vec::new(),
            phase: 0,
            artifacts: Vec::new(),
            validate: Vec::new(),
            writes: Vec::new(),
            handoff_from: Vec::new(),
            handoff: None,
            run: Settings::default(),
        });
    }
    Plan {
        schema_version: SCHEMA_VERSION,
        workflow_id: None,
        project_id: None,
        target: None,
        max_concurrent,
        stagger: None,
        run,
        budget_usd: None,
        budget_tokens: None,
        units,
    }
}

/// Returns the folder of a workflow's files.
pub fn folder(control: &Path, id: &WorkflowId) -> PathBuf {
    control.join("workflows").join(id.as_str())
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Stores a resolved plan on disk and returns its digest. If the workflow already has a plan, the same plan is
/// accepted and a different one is refused.
pub fn keep(control: &Path, id: &WorkflowId, plan: &Plan) -> Outcome<String> {
    let folder = folder(control, id);
    let goal = folder.join("plan.json");
    let mut bytes = serde_json::to_vec_pretty(plan)
        .map_err(|e| Refusal::new(Code::Invalid, format!("the plan cannot be written down: {e}")))?;
    bytes.push(b'\n');
    let write = || -> io::Result<bool> {
        file::make_dir_like_parent(&control.join("workflows"))?;
        file::make_dir_like_parent(&folder)?;
        let made = file::create(&goal, &bytes)?;
        // The names of the new folders must be durable too.
        file::sync_all(control, &[control.to_owned(), control.join("workflows")])?;
        Ok(made || file::read_real(&goal, u64::MAX)?.as_deref() == Some(&bytes[..]))
    };
    match write() {
        Ok(true) => Ok(digest(&bytes)),
        Ok(false) => Err(Box::new(
            Refusal::new(Code::Exists, format!("there is another plan of a workflow {id}"))
                .help(format!("jit workflow status {id}")),
        )),
        Err(e) => Err(failed("write", &goal, &e)),
    }
}

/// Reads the plan of a workflow, if it still has that digest.
pub fn kept(control: &Path, id: &WorkflowId, expected: &str) -> Outcome<Plan> {
    let path = folder(control, id).join("plan.json");
    let lost = |why: String| {
        Box::new(
            Refusal::new(Code::Damaged, format!("the plan of the workflow {id} {why}"))
                .help(format!("jit workflow cancel {id}")),
        )
    };
    let bytes = file::read_real(&path, u64::MAX).map_err(|e| failed("read", &path, &e))?;
    let bytes = bytes.ok_or_else(|| lost("is gone".to_owned()))?;
    if digest(&bytes) != expected {
        return Err(lost("is not what it was when it began".to_owned()));
    }
    serde_json::from_slice(&bytes).map_err(|e| lost(format!("cannot be read: {e}")))
}

fn failed(what: &str, path: &Path, e: &io::Error) -> Box<Refusal> {
    let code = match e.kind() {
        io::ErrorKind::NotFound => Code::NotFound,
        io::ErrorKind::InvalidInput | io::ErrorKind::FileTooLarge => Code::Invalid,
        _ => Code::Io,
    };
    Box::new(Refusal::new(
        code,
        format!("cannot {what} {}: {e}", path.display()),
    ))
}

#[cfg(test)]
mod tests;
