//! Finds everything that is wrong with a plan, each with its place.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::account::is_word;
use crate::model::duration::parse_secs;
use crate::model::glob::Pattern;
use crate::model::ids::{IssuePrefix, UnitId, WorkflowId, is_unprintable};
use crate::model::plan::{ACP, COMMAND, MAX_CONCURRENT, MAX_UNITS, Plan, PlanUnit, SCHEMA_VERSION, Settings};
use crate::model::unit::MAX_RETRIES;

/// More dollars than anybody means.
const MAX_USD: f64 = 1e9;
/// Longest prompt, in bytes.
pub const MAX_PROMPT: usize = 1 << 20;
/// More problems than this are not listed: the rest follows from the first.
const MAX_PROBLEMS: usize = 100;

/// Something that keeps a plan from being run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanProblem {
    /// Such as `units[2].depends_on[0]`; empty for the whole plan.
    pub path: String,
    pub message: String,
}

/// Text from the plan, safe and short enough to be shown.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(60).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("{short:?}{more}")
}

#[derive(Default)]
struct ProblemList(Vec<PlanProblem>);

impl ProblemList {
    fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        if self.0.len() < MAX_PROBLEMS {
            self.0.push(PlanProblem {
                path: path.into(),
                message: message.into(),
            });
        }
    }
}

impl Plan {
    /// Everything that is wrong, in the order of the plan. `config` is what holds where the plan says nothing, `agents` are
    /// the names of those that can be started.
    pub fn check(&self, config: &Settings, agents: &[&str]) -> Vec<PlanProblem> {
        let mut found = ProblemList::default();
        if self.schema_version != SCHEMA_VERSION {
            found.add(
                "schema_version",
                format!(
                    "this program reads plans of version {SCHEMA_VERSION}, not {}",
                    self.schema_version
                ),
            );
        }
        if let Some(Err(e)) = self.workflow_id.as_ref().map(|id| id.parse::<WorkflowId>()) {
            found.add("workflow_id", e.to_string());
        }
        project(&mut found, "project_id", self.project_id.as_deref());
        if let Some(target) = self.target.as_ref().filter(|name| !is_branch(name)) {
            found.add("target", format!("{} is not the name of a branch", shown(target)));
        }
        if !(1..=MAX_CONCURRENT).contains(&self.max_concurrent) {
            found.add(
                "max_concurrent",
                format!(
                    "from 1 to {MAX_CONCURRENT} agents can run at the same time, not {}",
                    self.max_concurrent
                ),
            );
        }
        duration(&mut found, "stagger", self.stagger.as_ref(), 0);
        amount(&mut found, "budget_usd", self.budget_usd);
        tokens(&mut found, "budget_tokens", self.budget_tokens);
        settings(&mut found, "run", &self.run, agents);
        match self.units.len() {
            0 => found.add("units", "there is no unit in it"),
            n if n > MAX_UNITS => {
                found.add("units", format!("a plan has at most {MAX_UNITS} units, not {n}"));
                return found.0;
            }
            _ => {}
        }
        self.names(&mut found);
        for (n, unit) in self.units.iter().enumerate() {
            let at = format!("units[{n}]");
            one(&mut found, &at, unit, agents);
            self.agent(&mut found, &at, unit, config);
            self.dependencies(&mut found, &at, unit);
            self.handoffs(&mut found, n, unit);
            writes(&mut found, &at, unit);
        }
        self.circles(&mut found);
        found.0
    }

    fn names(&self, found: &mut ProblemList) {
        let mut names = BTreeMap::new();
        let mut issues = BTreeMap::new();
        for (n, unit) in self.units.iter().enumerate() {
            match unit.id.parse::<UnitId>() {
                Err(e) => found.add(format!("units[{n}].id"), e.to_string()),
                Ok(_) => {
                    if let Some(other) = names.insert(unit.id.to_ascii_lowercase(), n) {
                        found.add(
                            format!("units[{n}].id"),
                            format!("units[{other}] is called {} already", shown(&unit.id)),
                        );
                    }
                }
            }
            let Some(issue) = &unit.issue else { continue };
            match issue.parse::<IssuePrefix>() {
                Err(e) => found.add(format!("units[{n}].issue"), e.to_string()),
                Ok(issue) => {
                    if let Some(other) = issues.insert(issue.key(), n) {
                        found.add(
                            format!("units[{n}].issue"),
                            format!(
                                "units[{other}] works on {} already, and only one can hold it",
                                issue.as_str()
                            ),
                        );
                    }
                }
            }
        }
    }

    fn agent(&self, found: &mut ProblemList, at: &str, unit: &PlanUnit, config: &Settings) {
        let run = self.settings(unit, config);
        let Some(agent) = run.agent.as_deref() else {
            return found.add(
                format!("{at}.run.agent"),
                "no agent is named here, in the plan's run or in the configuration",
            );
        };
        let words = run.command.as_ref().map_or(0, Vec::len);
        // Where the plan can be mended: in the unit, unless it says nothing about it.
        let place = if unit.run.command.is_none() && unit.run.agent.is_none() && self.run.command.is_some() {
            "run.command".to_owned()
        } else {
            format!("{at}.run.command")
        };
        let takes_words = agent == COMMAND || agent == ACP;
        if takes_words && words == 0 {
            found.add(
                place,
                format!("the agent `{agent}` needs a command: the program and its arguments"),
            );
        } else if !takes_words && words > 1 {
            found.add(
                place,
                format!(
                    "only the agents `command` and `acp` have a command with arguments; for {} it is the program alone",
                    shown(agent)
                ),
            );
        }
    }

    fn dependencies(&self, found: &mut ProblemList, at: &str, unit: &PlanUnit) {
        let mut named = BTreeSet::new();
        for (k, name) in unit.depends_on.iter().enumerate() {
            let path = format!("{at}.depends_on[{k}]");
            if !named.insert(name) {
                found.add(path, format!("{} is there twice", shown(name)));
                continue;
            }
            match self.units.iter().find(|other| other.id == *name) {
                None => {
                    let alike = self.units.iter().find(|o| o.id.eq_ignore_ascii_case(name));
                    let hint = alike.map_or(String::new(), |o| format!("; there is {}", shown(&o.id)));
                    found.add(
                        path,
                        format!("no unit of this plan is called {}{hint}", shown(name)),
                    );
                }
                Some(other) if other.phase > unit.phase => found.add(
                    path,
                    format!(
                        "{} is of phase {}, which begins after phase {}",
                        shown(name),
                        other.phase,
                        unit.phase
                    ),
                ),
                Some(_) => {}
            }
        }
    }

    /// Results that are handed over have landed by then.
    fn handoffs(&self, found: &mut ProblemList, n: usize, unit: &PlanUnit) {
        if unit.handoff_from.is_empty() {
            if unit.handoff.is_some() {
                found.add(
                    format!("units[{n}].handoff"),
                    "nothing is handed to it: handoff_from is missing",
                );
            }
            return;
        }
        let before = self.before(n);
        let mut named = BTreeSet::new();
        for (k, name) in unit.handoff_from.iter().enumerate() {
            let path = format!("units[{n}].handoff_from[{k}]");
            if !named.insert(name) {
                found.add(path, format!("{} is there twice", shown(name)));
                continue;
            }
            match self.units.iter().position(|other| other.id == *name) {
                None => found.add(path, format!("no unit of this plan is called {}", shown(name))),
                Some(m) if m == n => found.add(path, "a unit hands nothing to itself"),
                Some(m) if !before.contains(&m) => found.add(
                    path,
                    format!(
                        "{} need not have landed when {} begins: depend on it, or put it into an earlier phase",
                        shown(name),
                        shown(&unit.id)
                    ),
                ),
                Some(_) => {}
            }
        }
    }

    /// Units that wait for each other, shown all the way round. Phases cannot make a circle by themselves.
    fn circles(&self, found: &mut ProblemList) {
        let mut index = BTreeMap::new();
        for (n, unit) in self.units.iter().enumerate() {
            index.entry(unit.id.as_str()).or_insert(n);
        }
        let mut done = vec![false; self.units.len()];
        for start in 0..self.units.len() {
            // The way from the start, each with the next dependency to follow.
            let mut way = vec![(start, 0)];
            let mut on_way = BTreeSet::from([start]);
            while let Some((at, next)) = way.last_mut() {
                let at = *at;
                let dependency = if done[at] {
                    None
                } else {
                    self.units[at].depends_on.get(*next)
                };
                let Some(name) = dependency else {
                    done[at] = true;
                    on_way.remove(&at);
                    way.pop();
                    continue;
                };
                let k = *next;
                *next += 1;
                let Some(&to) = index.get(name.as_str()) else {
                    continue;
                };
                if on_way.contains(&to) {
                    let from = way.iter().position(|(n, _)| *n == to).unwrap_or(0);
                    let names = way[from..].iter().map(|(n, _)| self.units[*n].id.as_str());
                    let circle: Vec<&str> = names.chain([name.as_str()]).collect();
                    found.add(
                        format!("units[{at}].depends_on[{k}]"),
                        format!("units wait for each other in a circle: {}", circle.join(" -> ")),
                    );
                } else if !done[to] {
                    on_way.insert(to);
                    way.push((to, 0));
                }
            }
        }
    }
}

/// The name of a project is one part of a path.
fn project(found: &mut ProblemList, at: &str, id: Option<&str>) {
    if let Some(Err(_)) = id.map(str::parse::<UnitId>) {
        let shown = shown(id.unwrap_or_default());
        found.add(
            at,
            format!("{shown} is not a name of letters, digits, '-', '_' and '.'"),
        );
    }
}

/// Checks a unit by itself.
fn one(found: &mut ProblemList, at: &str, unit: &PlanUnit, agents: &[&str]) {
    project(found, &format!("{at}.project_id"), unit.project_id.as_deref());
    match (&unit.prompt, &unit.prompt_file) {
        (Some(_), Some(_)) => found.add(
            format!("{at}.prompt_file"),
            "there is a prompt already: one of the two",
        ),
        (None, None) if unit.issue.is_none() => found.add(
            at,
            "without an issue it needs a prompt or a prompt_file: its agent would not know what to do",
        ),
        (Some(text), None) if text.trim().is_empty() => {
            found.add(format!("{at}.prompt"), "it is empty");
        }
        (Some(text), None) if text.len() > MAX_PROMPT => {
            found.add(
                format!("{at}.prompt"),
                format!("it is longer than {} KiB", MAX_PROMPT >> 10),
            );
        }
        (None, Some(path)) => {
            if let Err(why) = inside(path) {
                found.add(format!("{at}.prompt_file"), format!("{} {why}", shown(path)));
            }
        }
        _ => {}
    }
    for (k, artifact) in unit.artifacts.iter().enumerate() {
        let path = format!("{at}.artifacts[{k}].path");
        let pattern = inside(&artifact.path).map(|()| Pattern::parse(&artifact.path));
        match pattern {
            Err(why) => found.add(path, format!("{} {why}", shown(&artifact.path))),
            Ok(Err(e)) => found.add(path, e.to_string()),
            Ok(Ok(_)) => {}
        }
        let kind = &artifact.kind;
        if kind.trim().is_empty() || kind.len() > 80 || kind.chars().any(is_unprintable) {
            found.add(
                format!("{at}.artifacts[{k}].type"),
                format!("{} is not a word for a kind of file", shown(kind)),
            );
        }
    }
    for (k, line) in unit.validate.iter().enumerate() {
        if line.trim().is_empty() || line.contains('\0') {
            found.add(format!("{at}.validate[{k}]"), "it is not a command");
        }
    }
    settings(found, &format!("{at}.run"), &unit.run, agents);
}

/// A place in a worktree that a unit may write to.
pub fn pattern(text: &str) -> Result<Pattern, String> {
    inside(text).map_err(|why| format!("{} {why}", shown(text)))?;
    Pattern::parse(text).map_err(|e| e.to_string())
}

/// Where it may write, and that what it is to make lies there.
fn writes(found: &mut ProblemList, at: &str, unit: &PlanUnit) {
    let mut patterns = Vec::new();
    for (k, text) in unit.writes.iter().enumerate() {
        let path = format!("{at}.writes[{k}]");
        match pattern(text) {
            Err(why) => found.add(path, why),
            Ok(pattern) => patterns.push(pattern),
        }
    }
    if patterns.len() < unit.writes.len().max(1) {
        return;
    }
    for (k, artifact) in unit.artifacts.iter().enumerate() {
        let wanted = Pattern::parse(&artifact.path);
        if wanted.is_ok_and(|wanted| !patterns.iter().any(|one| one.overlaps(&wanted))) {
            found.add(
                format!("{at}.artifacts[{k}].path"),
                format!("it may not write {}: see its writes", shown(&artifact.path)),
            );
        }
    }
}

fn settings(found: &mut ProblemList, at: &str, run: &Settings, agents: &[&str]) {
    if let Some(agent) = run.agent.as_deref().filter(|name| !agents.contains(name)) {
        found.add(
            format!("{at}.agent"),
            format!("{} is none of the agents: {}", shown(agent), agents.join(", ")),
        );
    }
    for (k, word) in run.command.iter().flatten().enumerate() {
        if word.contains('\0') || (k == 0 && word.trim().is_empty()) {
            found.add(
                format!("{at}.command[{k}]"),
                format!("{} cannot be started", shown(word)),
            );
        }
    }
    for (name, word) in [("model", &run.model), ("permission_mode", &run.permission_mode)] {
        // The agent's program would take a word like this for an option.
        if let Some(word) = word
            && (word.is_empty() || word.starts_with('-') || word.chars().any(is_unprintable))
        {
            found.add(format!("{at}.{name}"), format!("{} is not a name", shown(word)));
        }
    }
    if let Some(word) = run.account.as_deref().filter(|word| !is_word(word)) {
        found.add(format!("{at}.account"), format!("{} is not a word", shown(word)));
    }
    for (k, tool) in run.allowed_tools.iter().flatten().enumerate() {
        if tool.trim().is_empty() || tool.starts_with('-') || tool.chars().any(is_unprintable) {
            found.add(
                format!("{at}.allowed_tools[{k}]"),
                format!("{} is not a tool", shown(tool)),
            );
        }
    }
    if run.max_turns == Some(0) {
        found.add(format!("{at}.max_turns"), "with no turn nothing can be done");
    }
    amount(found, &format!("{at}.budget_usd"), run.budget_usd);
    tokens(found, &format!("{at}.budget_tokens"), run.budget_tokens);
    duration(found, &format!("{at}.timeout"), run.timeout.as_ref(), 1);
    duration(found, &format!("{at}.idle"), run.idle.as_ref(), 1);
    if run.max_retries.is_some_and(|n| n > MAX_RETRIES) {
        found.add(
            format!("{at}.max_retries"),
            format!("a unit is tried again at most {MAX_RETRIES} times"),
        );
    }
}

fn amount(found: &mut ProblemList, path: &str, dollars: Option<f64>) {
    match dollars {
        // Other than in the configuration, where it stands for no limit: here what has no limit is left out.
        Some(0.0) => found.add(
            path,
            "with no dollar no agent can be started; leave it out for any amount",
        ),
        Some(dollars) if !(0.0..=MAX_USD).contains(&dollars) => {
            found.add(path, format!("{dollars} is not an amount of dollars"));
        }
        _ => {}
    }
}

fn tokens(found: &mut ProblemList, path: &str, tokens: Option<u64>) {
    if tokens == Some(0) {
        found.add(
            path,
            "with no token no agent can be started; leave it out for any number",
        );
    }
}

fn duration(found: &mut ProblemList, path: &str, text: Option<&String>, least: u64) {
    match text.map(|text| parse_secs(text)) {
        Some(Err(e)) => found.add(path, e.to_string()),
        Some(Ok(secs)) if secs < least => found.add(path, "it must be a second at least"),
        _ => {}
    }
}

/// Whether a path stays inside the folder it is seen from, whatever its wildcards stand for.
fn inside(path: &str) -> Result<(), &'static str> {
    if path.trim().is_empty() {
        return Err("is empty");
    }
    if path.starts_with(['/', '~']) {
        return Err("is not relative");
    }
    if path.chars().any(is_unprintable) {
        return Err("has characters that cannot be seen");
    }
    let mut parts = path.split(['/', '\\', '{', '}', ',']);
    if parts.any(|part| part == "..") {
        return Err("leads outside");
    }
    if path.split('/').any(|part| part.eq_ignore_ascii_case(".git")) {
        return Err("is git's own");
    }
    Ok(())
}

/// By the rules of `git check-ref-format --branch`.
fn is_branch(name: &str) -> bool {
    let odd = |c: char| c.is_control() || matches!(c, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\');
    let part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    name.len() <= 200
        && !name.starts_with('-')
        && name != "@"
        && name != "HEAD"
        && !name.ends_with('.')
        && !name.contains("..")
        && !name.contains("@{")
        && !name.contains(odd)
        && name.split('/').all(part)
}

#[cfg(test)]
mod tests;
