//! A plan: which units a workflow has, and how each is to be worked on (G13).
//!
//! The plan that a person writes (YAML) and the one that is kept with the workflow (JSON) have the same types; their JSON
//! Schema is made from them. What must hold of a plan that is run ([`Plan::check`]):
//!
//! - names are names of units, and no two are the same, not even on a file system that ignores case;
//! - dependencies of a unit are in the plan, in the same phase or an earlier one, and no unit depends on itself;
//! - results that are handed to a unit have landed before it begins, and its artifacts lie where it may write;
//! - amounts are numbers that can be spent, lengths of time can be read, and paths stay inside;
//! - each unit has something to tell its agent, and its agent can be started.
//!
//! Limitations: that an issue, a branch or a program exists is not looked at here; the engine does, before it begins.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::cost::{Usd, usd};

/// The shape of plans this program writes and reads.
pub const SCHEMA_VERSION: u32 = 1;
/// Most units of one plan.
pub const MAX_UNITS: usize = 1000;
/// Most agents at the same time.
pub const MAX_CONCURRENT: u32 = 1000;
/// The agent that is any program: what it is called in a plan.
pub const COMMAND: &str = "command";
/// The agent that is any program of the Agent Client Protocol.
pub const ACP: &str = "acp";

fn version() -> u32 {
    SCHEMA_VERSION
}

fn concurrent() -> u32 {
    3
}

fn is_first(phase: &u32) -> bool {
    *phase == 0
}

/// A workflow to be run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "jit plan")]
pub struct Plan {
    #[serde(default = "version")]
    #[schemars(range(min = 1, max = 1))]
    pub schema_version: u32,
    /// The workflow's name. Made up when it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_id: Option<String>,
    /// The project that its units belong to. Each unit then has a folder for its artifacts below
    /// `projects/<project_id>/orchestration/` on its branch, and its agent is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// The branch that units land on; the default branch when it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// How many agents run at the same time.
    #[serde(default = "concurrent")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_concurrent: u32,
    /// How long to wait between two starts, such as "2s".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stagger: Option<String>,
    /// How agents are run, unless a unit says otherwise.
    #[serde(default)]
    pub run: Settings,
    /// Dollars for the whole workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub budget_usd: Option<f64>,
    /// Tokens for the whole workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub budget_tokens: Option<u64>,
    #[schemars(length(min = 1, max = 1000))]
    pub units: Vec<PlanUnit>,
}

/// How an agent is run. What is missing comes from the plan, then from the configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// `claude`, `acp` for a program that speaks the Agent Client Protocol, or `command` for any other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Which of several accounts of the agent it uses, in one word of yours: a limit counts for that one alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The program and its arguments, for `command` and `acp`; for the others the program alone, where it is not the usual
    /// one. Not a shell's line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tools it may use without being asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// The agent's own word for what it may do, such as `acceptEdits`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    /// Claude Code gives one answer at its end instead of a conversation. Without this, it does so only if its program
    /// refused the conversation in the attempt before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_shot: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_turns: Option<u32>,
    /// Dollars for each unit, all its attempts together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub budget_usd: Option<f64>,
    /// Tokens for each unit, all its attempts together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub budget_tokens: Option<u64>,
    /// How long an attempt may take, such as "1h".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// How long it may say nothing and do nothing before it counts as hung.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<String>,
    /// How often it is tried again after it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 3))]
    pub max_retries: Option<u32>,
}

/// One piece of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanUnit {
    /// Letters, digits, '-', '_' and '.'.
    pub id: String,
    /// The issue it works on: claimed when it begins, done when it has landed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issue: Option<String>,
    /// The project that it belongs to; that of the plan when it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// The prompt of the agent. Without it the issue is the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// A file with what the agent is told, seen from the plan's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_file: Option<String>,
    /// Units that must have landed before it begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// It begins when every unit with a smaller number has landed.
    #[serde(default, skip_serializing_if = "is_first")]
    pub phase: u32,
    /// Files that must be there when it has ended, seen from its worktree. Globs are allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<PlanArtifact>,
    /// Commands that must succeed in its worktree before it counts as completed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub validate: Vec<String>,
    /// Where it may write, seen from its worktree: paths or globs. Anywhere in it, when it is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<String>,
    /// Units whose results its agent is told: those it depends on, or of an earlier phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handoff_from: Vec<String>,
    /// How it is told: in its prompt, by files, or both when it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff: Option<HandoffBy>,
    /// How its agent is run.
    #[serde(default)]
    pub run: Settings,
}

/// How the results of others reach an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HandoffBy {
    Prompt,
    File,
}

/// A file a unit is to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanArtifact {
    /// A path or a glob.
    pub path: String,
    /// The kind of the file, in one word for the record.
    #[serde(rename = "type", default = "file")]
    pub kind: String,
}

fn file() -> String {
    "file".to_owned()
}

impl Settings {
    /// These settings, and where they say nothing, those below. What belongs to one agent (its account, program, model,
    /// tools and mode) is not taken over by another.
    #[must_use]
    pub fn over(&self, below: &Self) -> Self {
        fn first<T: Clone>(a: &Option<T>, b: &Option<T>) -> Option<T> {
            a.clone().or_else(|| b.clone())
        }
        let same = self.agent.is_none() || below.agent.is_none() || self.agent == below.agent;
        let silent = Self::default();
        let own = if same { below } else { &silent };
        Self {
            agent: first(&self.agent, &below.agent),
            account: first(&self.account, &own.account),
            command: first(&self.command, &own.command),
            model: first(&self.model, &own.model),
            allowed_tools: first(&self.allowed_tools, &own.allowed_tools),
            permission_mode: first(&self.permission_mode, &own.permission_mode),
            one_shot: first(&self.one_shot, &own.one_shot),
            max_turns: first(&self.max_turns, &below.max_turns),
            budget_usd: first(&self.budget_usd, &below.budget_usd),
            budget_tokens: first(&self.budget_tokens, &below.budget_tokens),
            timeout: first(&self.timeout, &below.timeout),
            idle: first(&self.idle, &below.idle),
            max_retries: first(&self.max_retries, &below.max_retries),
        }
    }

    pub fn budget(&self) -> Option<Usd> {
        self.budget_usd.map(usd)
    }
}

impl Plan {
    /// How a unit's agent is run: the unit over the plan over the configuration.
    pub fn settings(&self, unit: &PlanUnit, config: &Settings) -> Settings {
        unit.run.over(&self.run.over(config))
    }

    /// The plan with everything said that was left open, so that nobody has to look elsewhere to know what it means.
    #[must_use]
    pub fn resolved(&self, workflow_id: &str, target: &str, config: &Settings) -> Self {
        let mut plan = self.clone();
        for unit in &mut plan.units {
            unit.run = self.settings(unit, config);
            unit.project_id = unit.project_id.take().or_else(|| self.project_id.clone());
        }
        plan.run = Settings::default();
        plan.workflow_id = Some(workflow_id.to_owned());
        plan.target = Some(target.to_owned());
        plan
    }

    /// Indexes of the units that must have landed before this one begins; `None` for one that is not in the plan.
    pub fn needs(&self, index: usize) -> BTreeSet<Option<usize>> {
        let Some(unit) = self.units.get(index) else {
            return BTreeSet::new();
        };
        let of = |name: &String| self.units.iter().position(|other| other.id == *name);
        let earlier = self.units.iter().enumerate();
        let earlier = earlier.filter(|(_, other)| other.phase < unit.phase);
        unit.depends_on
            .iter()
            .map(of)
            .chain(earlier.map(|(n, _)| Some(n)))
            .collect()
    }

    /// Indexes of all units that have landed when this one begins: what it needs, and what that needs.
    pub fn before(&self, index: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut look_at = vec![index];
        while let Some(n) = look_at.pop() {
            let news: Vec<usize> = self.needs(n).into_iter().flatten().collect();
            look_at.extend(news.into_iter().filter(|m| found.insert(*m)));
        }
        found
    }

    pub fn budget(&self) -> Option<Usd> {
        self.budget_usd.map(usd)
    }
}

/// The JSON Schema (draft 7) of plans.
pub fn schema() -> Value {
    let mut settings = schemars::generate::SchemaSettings::draft07();
    settings.inline_subschemas = true;
    settings
        .into_generator()
        .into_root_schema_for::<Plan>()
        .to_value()
}
