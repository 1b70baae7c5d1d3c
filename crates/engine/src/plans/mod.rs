//! Plans as files (G13): read from what a person wrote, kept as what is meant.
//!
//! What must hold:
//!
//! - whatever is wrong with a file is told with its line and column, whether it is no YAML or no plan;
//! - reading is bounded: in size, in depth, and in what aliases can make of a few lines;
//! - nothing is guessed: unknown keys, keys that are there twice, merge keys, tags and second documents are refused;
//! - a plan that is kept needs no other file: prompts are in it, and every setting is said;
//! - a kept plan is on disk before its digest is told to anybody, and is read back only if it still has that digest.
//!
//! Format: YAML 1.2, or JSON in a file whose name ends with `.json`. Kept as `workflows/<id>/plan.json` in the control plane.
//!
//! Limitations: of a file that is not YAML, or has a value of the wrong type, only the first flaw is told.

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

/// Largest plan, and largest prompt file.
const MOST: u64 = 4 << 20;
/// Longest prompt, as the core has it for those in the plan itself.
const MOST_PROMPT: u64 = 1 << 20;
/// Deepest nesting. A plan needs six.
const DEEPEST: usize = 32;

/// Agents that a plan can name.
pub const AGENTS: &[&str] = jit_agents::NAMES;

/// Something wrong with a file, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// Such as `units[2].depends_on[0]`; empty where the whole file is meant.
    pub path: String,
    /// Counted from 1.
    pub line: u64,
    pub column: u64,
    pub message: String,
}

impl Flaw {
    /// In one line.
    pub fn shown(&self, file: &Path) -> String {
        let place = format!("{}:{}:{}", file.display(), self.line, self.column);
        match self.path.is_empty() {
            true => format!("{place}: {}", self.message),
            false => format!("{place}: {}: {}", self.path, self.message),
        }
    }
}

/// How strictly files are read.
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
        // Told with its place, by the plan's own check.
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        with_snippet: false,
    }
}

fn is_json(path: &Path) -> bool {
    path.extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("json"))
}

/// A plan from its text. That it makes sense is not looked at yet.
fn parse(text: &str, json: bool) -> Result<Plan, Flaw> {
    if json {
        let mut reader = serde_json::Deserializer::from_str(text);
        let flaw = |e: &serde_json::Error, path: String| {
            // The place is told apart from the sentence.
            let told = e.to_string();
            let message = told
                .rsplit_once(" at line ")
                .map_or(told.as_str(), |(why, _)| why);
            Flaw {
                path: if path == "." { String::new() } else { path },
                line: e.line().max(1) as u64,
                column: e.column().max(1) as u64,
                message: message.to_owned(),
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
        // A library's error may have several lines; one is told.
        let message = message.lines().next().unwrap_or_default().to_owned();
        let (line, column) = at.map_or((1, 1), |at| (at.line().max(1), at.column().max(1)));
        Flaw {
            path: place::Places::of(text).at(line, column),
            line,
            column,
            message,
        }
    })
}

/// A plan from its text, or everything that is wrong with it. `config` holds where the plan says nothing.
pub fn read_text(text: &str, json: bool, config: &Settings, agents: &[&str]) -> Result<Plan, Vec<Flaw>> {
    let plan = parse(text, json).map_err(|flaw| vec![flaw])?;
    let problems = plan.check(config, agents);
    match problems.is_empty() {
        true => Ok(plan),
        false => Err(placed(text, problems)),
    }
}

/// Problems of a plan, each where it is in its text.
fn placed(text: &str, problems: Vec<PlanProblem>) -> Vec<Flaw> {
    let places = place::Places::of(text);
    let mut flaws: Vec<Flaw> = problems
        .into_iter()
        .map(|problem| {
            let (line, column) = places.find(&problem.path);
            Flaw {
                line,
                column,
                path: problem.path,
                message: problem.message,
            }
        })
        .collect();
    flaws.sort_by_key(|flaw| (flaw.line, flaw.column));
    flaws
}

/// The text of a plan's file.
pub fn text_of(path: &Path) -> Outcome<String> {
    // A person names it: a symbolic link is followed.
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

/// Everything that is wrong with a plan's file.
pub fn flaws(path: &Path, config: &Settings, agents: &[&str]) -> Outcome<Vec<Flaw>> {
    let text = text_of(path)?;
    Ok(read_text(&text, is_json(path), config, agents)
        .err()
        .unwrap_or_default())
}

/// The plan in a file, with its prompt files read into it.
pub fn load(path: &Path, config: &Settings, agents: &[&str]) -> Outcome<Plan> {
    load_for(path, config, agents, &|_| Ok(Vec::new()))
}

/// The same, for whoever is about to run it: what it `lacks` here is told as everything else.
pub fn load_for(
    path: &Path,
    config: &Settings,
    agents: &[&str],
    lacks: &dyn Fn(&Plan) -> Outcome<Vec<PlanProblem>>,
) -> Outcome<Plan> {
    let text = text_of(path)?;
    let refused = |flaws: &[Flaw]| {
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
                return Err(refused(&[Flaw {
                    path: at,
                    line,
                    column,
                    message,
                }]));
            }
        }
    }
    Ok(plan)
}

/// What a prompt file says. It lies below the plan's folder, wherever symbolic links lead.
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

/// A plan of issues that can be worked on now, in this order, each by itself.
pub fn from_ready(issues: &[IssueId], max_concurrent: u32, run: Settings) -> Plan {
    let mut units: Vec<PlanUnit> = Vec::with_capacity(issues.len());
    for issue in issues {
        let name = match issue.as_str().parse::<UnitId>() {
            Ok(id) => id.to_string(),
            // What an issue may be called and a branch may not.
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
        target: None,
        max_concurrent,
        stagger: None,
        run,
        budget_usd: None,
        budget_tokens: None,
        units,
    }
}

/// Where a workflow's own files are.
pub fn folder(control: &Path, id: &WorkflowId) -> PathBuf {
    control.join("workflows").join(id.as_str())
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Keeps a resolved plan, on disk, and says its digest. Of a workflow of that name there may be a plan already: the same
/// is fine, another one is refused.
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
        // The folders' own names are to survive as well.
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

/// The plan of a workflow, if it is still the one with that digest.
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
