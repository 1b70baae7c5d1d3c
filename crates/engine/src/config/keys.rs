//! All settings: their names, allowed values and defaults.
//!
//! Invariant: a value exists only after it was checked against its key, whatever file, variable or command line it
//! came from. All of them pass [`Key::from_toml`] or [`Key::from_text`].

use std::fmt;

use jit_agents::hooks::decision::RuleMode as Mode;
use jit_core::landing::path_rules::PathRule;
use jit_core::model::cost::{MICRO, Usd};
use jit_core::model::glob::Pattern;
use jit_core::model::scope::LockScope;
use toml::de::{DeTable, DeValue};

use crate::api::config::SettingValue;
use crate::duration::{self, format_secs};

/// The values that a key accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One of these words.
    Word(&'static [&'static str]),
    /// A length of time in seconds, both ends included.
    Seconds {
        min: u64,
        max: u64,
    },
    Percent,
    /// A number, both ends included.
    Count {
        min: u64,
        max: u64,
    },
    /// An amount of dollars, down to a millionth.
    Dollars,
    Flag,
    /// A list of rules about paths; the first match counts: `docs/** = global`.
    ScopeRules,
    /// A list of agent types, each with an optional scope of its locks: `release-manager = global`.
    AgentTypes,
    /// A text with words in braces.
    Template,
    /// A list of command lines.
    Commands,
    /// A list of words: arguments, tools.
    Words,
    /// A list of files, each with an optional way to provide it: `node_modules = symlink`.
    FileRules,
    /// A list of patterns of paths: `*.env`.
    Patterns,
    /// A list of branch names.
    Branches,
    /// A list of rules about paths that do not merge; the first match counts: `docs/** = union`.
    MergeRules,
    /// A list of tools an agent may use, each with an optional limit: `Bash(git add *)`.
    ToolRules,
    /// A list of model prices: `gpt-5* = 1.25 / 0.125 / 10`.
    Prices,
    /// A list of agent kinds.
    AgentKinds,
    /// A word for an account, or empty.
    Account,
    /// An address that begins with `http://` or `https://`, or empty.
    Url,
    /// A list of some of these words.
    Choices(&'static [&'static str]),
    /// A list of chains of issue types, each from the outermost to the innermost: `epic > story > task`.
    Chains,
}

/// A checked value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Word(&'static str),
    Text(String),
    Int(u64),
    Dollars(Usd),
    Flag(bool),
    List(Vec<String>),
}

impl From<&Value> for SettingValue {
    fn from(value: &Value) -> Self {
        match value {
            Value::Text(text) => Self::Text(text.clone()),
            Value::Word(word) => Self::Text((*word).to_owned()),
            Value::Int(number) => Self::Number(*number),
            Value::Dollars(usd) => Self::Dollars(*usd),
            Value::Flag(flag) => Self::Flag(*flag),
            Value::List(items) => Self::List(items.clone()),
        }
    }
}

/// Formats the value as in a TOML file.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SettingValue::from(self).fmt(f)
    }
}

#[derive(Debug, Clone, Copy)]
enum Default {
    Word(&'static str),
    Int(u64),
    Dollars(u64),
    Flag(bool),
    List(&'static [&'static str]),
    Empty,
}

#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub name: &'static str,
    pub kind: Kind,
    default: Default,
    /// One line of help for people.
    pub help: &'static str,
}

const DAY: u64 = 86_400;
const YEAR: u64 = 365 * DAY;
/// The largest amount of dollars.
const MOST_DOLLARS: u64 = 1_000_000_000;
/// An amount of tokens or turns.
const AMOUNT: Kind = Kind::Count {
    min: 0,
    max: 1_000_000_000_000,
};
/// The agents that can be started.
pub const AGENTS: &[&str] = jit_agents::NAMES;
const LOCK: Kind = Kind::Seconds { min: 1, max: DAY };
const TTL: Kind = Kind::Seconds {
    min: 1,
    max: 10 * YEAR,
};

/// All keys with a fixed name, in the order of their names.
pub const KEYS: &[Key] = &[
    Key {
        name: "agents.kinds",
        kind: Kind::AgentKinds,
        default: Default::Empty,
        help: "kinds of agent ids besides agent, human and ci",
    },
    Key {
        name: "agents.may_force_evict",
        kind: Kind::Flag,
        default: Default::Flag(false),
        help: "whether agents may take leases away from others; counts in the repository's own file once it is committed, on the target too",
    },
    Key {
        name: "agents.may_pass_gates",
        kind: Kind::Flag,
        default: Default::Flag(false),
        help: "whether agents may say by hand that a gate has passed, or need not be passed; counts in the repository's own file once it is committed, on the target too",
    },
    Key {
        name: "agents.may_trust",
        kind: Kind::Flag,
        default: Default::Flag(false),
        help: "whether agents may approve commands; counts only outside the repository's own file",
    },
    Key {
        name: "coordination.default_ttl_secs",
        kind: TTL,
        default: Default::Int(600),
        help: "how long a lease lasts when nothing else says so",
    },
    Key {
        name: "coordination.heartbeat_interval_secs",
        kind: Kind::Seconds { min: 1, max: DAY },
        default: Default::Int(30),
        help: "time between two heartbeats",
    },
    Key {
        name: "coordination.lease_renewal_threshold_pct",
        kind: Kind::Percent,
        default: Default::Int(10),
        help: "warn while less than this part of one's lease is left",
    },
    Key {
        name: "coordination.lock_timeout_secs",
        kind: Kind::Seconds { min: 0, max: DAY },
        default: Default::Int(30),
        help: "how long to wait for the store's lock; 0 does not wait",
    },
    Key {
        name: "coordination.max_ttl_secs",
        kind: TTL,
        default: Default::Int(30 * DAY),
        help: "longest lease anybody may ask for",
    },
    Key {
        name: "dispatch.account",
        kind: Kind::Account,
        default: Default::Word(""),
        help: "which of several accounts of the agent is used, in one word of yours: a limit counts for that one alone",
    },
    Key {
        name: "dispatch.agent",
        kind: Kind::Word(AGENTS),
        default: Default::Word("claude"),
        help: "the agent that is started when nobody says which",
    },
    Key {
        name: "dispatch.alert_percent",
        kind: Kind::Percent,
        default: Default::Int(80),
        help: "the share of a budget at which a warning is given",
    },
    Key {
        name: "dispatch.allow",
        kind: Kind::ToolRules,
        default: Default::List(&[
            "Bash(git add *)",
            "Bash(git commit *)",
            "Bash(git mv *)",
            "Bash(git rm *)",
            "Bash(jit claim *)",
            "Bash(jit issue *)",
            "Bash(jit lock *)",
            "Bash(jit ready *)",
            "Bash(jit status *)",
            "Bash(jit whoami *)",
        ]),
        help: "what dispatched agents may do when they would ask a person; counts only outside the repository's own file",
    },
    Key {
        name: "dispatch.backoff_secs",
        kind: Kind::Seconds { min: 0, max: DAY },
        default: Default::Int(5),
        help: "how long to wait before a first retry; each further one waits twice as long",
    },
    Key {
        name: "dispatch.budget_tokens",
        kind: AMOUNT,
        default: Default::Int(0),
        help: "tokens that a unit may use, all attempts together; 0 for any number",
    },
    Key {
        name: "dispatch.budget_usd",
        kind: Kind::Dollars,
        default: Default::Dollars(10),
        help: "dollars that a unit may cost, all attempts together; 0 for any amount",
    },
    Key {
        name: "dispatch.command",
        kind: Kind::Words,
        default: Default::Empty,
        help: "program and arguments of the agent `command`, or the program of another agent if it is not the usual one",
    },
    Key {
        name: "dispatch.day_budget_tokens",
        kind: AMOUNT,
        default: Default::Int(0),
        help: "tokens that all units of this repository may use in a day; 0 for any number",
    },
    Key {
        name: "dispatch.day_budget_usd",
        kind: Kind::Dollars,
        default: Default::Dollars(0),
        help: "dollars that all units of this repository may cost in a day; 0 for any amount",
    },
    Key {
        name: "dispatch.grace_secs",
        kind: Kind::Seconds { min: 0, max: 600 },
        default: Default::Int(10),
        help: "how long an agent that is to end has to do so by itself",
    },
    Key {
        name: "dispatch.idle_secs",
        kind: Kind::Seconds { min: 1, max: DAY },
        default: Default::Int(900),
        help: "an agent that says nothing and computes nothing for so long is hung",
    },
    Key {
        name: "dispatch.linger_secs",
        kind: Kind::Seconds { min: 0, max: DAY },
        default: Default::Int(30),
        help: "how long an agent may live on after its result",
    },
    Key {
        name: "dispatch.max_concurrent",
        kind: Kind::Count { min: 1, max: 1000 },
        default: Default::Int(3),
        help: "how many agents a workflow runs at the same time",
    },
    Key {
        name: "dispatch.max_retries",
        kind: Kind::Count { min: 0, max: 3 },
        default: Default::Int(2),
        help: "how often a unit that failed is tried again by itself",
    },
    Key {
        name: "dispatch.max_turns",
        kind: AMOUNT,
        default: Default::Int(0),
        help: "turns that an attempt may take; 0 for any number",
    },
    Key {
        name: "dispatch.park_secs",
        kind: Kind::Seconds { min: 1, max: DAY },
        default: Default::Int(60),
        help: "how long an account that was refused is left alone where no time was named; twice as long each time in a row",
    },
    Key {
        name: "dispatch.permission_mode",
        kind: Kind::Template,
        default: Default::Word("acceptEdits"),
        help: "what an agent may do, in its own word",
    },
    Key {
        name: "dispatch.prices",
        kind: Kind::Prices,
        default: Default::Empty,
        help: "what models cost whose agents do not say it, such as \"gpt-5* = 1.25 / 0.125 / 10\": dollars for a million tokens of input / cached input / output",
    },
    Key {
        name: "dispatch.stagger_secs",
        kind: Kind::Seconds { min: 0, max: DAY },
        default: Default::Int(2),
        help: "how long to wait between two starts of a workflow",
    },
    Key {
        name: "dispatch.timeout_secs",
        kind: Kind::Seconds {
            min: 1,
            max: 30 * DAY,
        },
        default: Default::Int(3600),
        help: "how long an attempt may take",
    },
    Key {
        name: "global_operations.allowed_branches",
        kind: Kind::Branches,
        default: Default::Empty,
        help: "branches on which global files may change; none means the default branch",
    },
    Key {
        name: "global_operations.require_main_history",
        kind: Kind::Flag,
        default: Default::Flag(true),
        help: "whether such a branch must contain the main branch's tip",
    },
    Key {
        name: "hooks.destructive_git",
        kind: Kind::Word(Mode::WORDS),
        default: Default::Word("deny"),
        help: "what happens when an agent's git command would take something from another's branch",
    },
    Key {
        name: "hooks.outside_worktree",
        kind: Kind::Word(Mode::WORDS),
        default: Default::Word("deny"),
        help: "what happens when an agent writes into another checkout of the repository",
    },
    Key {
        name: "hooks.pre_push",
        kind: Kind::Word(&["report", "strict", "off"]),
        default: Default::Word("report"),
        help: "what a push of commits does whose lease has ended: say so, refuse, or nothing",
    },
    Key {
        name: "hooks.stash",
        kind: Kind::Word(Mode::WORDS),
        default: Default::Word("deny"),
        help: "what happens when an agent uses the stash that all worktrees share",
    },
    Key {
        name: "locks.global_max_secs",
        kind: LOCK,
        default: Default::Int(300),
        help: "longest that a global file lock can be held with all extensions",
    },
    Key {
        name: "locks.global_ttl_secs",
        kind: LOCK,
        default: Default::Int(120),
        help: "how long a global file lock lasts at first",
    },
    Key {
        name: "locks.preset",
        kind: Kind::Word(&["default", "seed-003"]),
        default: Default::Word("default"),
        help: "built-in rules about where a file lock counts: by what git keeps apart, or by a fixed table of paths",
    },
    Key {
        name: "locks.rules",
        kind: Kind::ScopeRules,
        default: Default::Empty,
        help: "rules before the built-in ones, such as \"docs/** = global\"; the first that matches counts",
    },
    Key {
        name: "locks.worktree_max_secs",
        kind: LOCK,
        default: Default::Int(1800),
        help: "longest that a file lock in a worktree can be held with all extensions",
    },
    Key {
        name: "locks.worktree_ttl_secs",
        kind: LOCK,
        default: Default::Int(900),
        help: "how long a file lock in a worktree lasts at first",
    },
    Key {
        name: "merge.batch",
        kind: Kind::Count { min: 1, max: 64 },
        default: Default::Int(8),
        help: "so many units that merge cleanly are tested and land together; one that fails is found by halving",
    },
    Key {
        name: "merge.fewer_tests",
        kind: Kind::Word(&["report", "refuse"]),
        default: Default::Word("report"),
        help: "what happens when a validation counts fewer tests than at the landing before",
    },
    Key {
        name: "merge.max_conflict_rounds",
        kind: Kind::Count { min: 0, max: 100 },
        default: Default::Int(3),
        help: "how often a conflict is sent back into a unit's worktree",
    },
    Key {
        name: "merge.push",
        kind: Kind::Word(&["never", "target", "branch"]),
        default: Default::Word("never"),
        help: "what is pushed after a landing: nothing, the target, or the unit's branch for a pull request",
    },
    Key {
        name: "merge.resolve",
        kind: Kind::MergeRules,
        default: Default::Empty,
        help: "what is done about paths that do not merge, such as \"docs/** = union\"; the first that matches counts",
    },
    Key {
        name: "merge.strategy",
        kind: Kind::Word(&["auto", "ff", "merge", "squash"]),
        default: Default::Word("auto"),
        help: "how a unit goes to its target; auto moves it forward where that is possible and merges otherwise",
    },
    Key {
        name: "merge.target",
        kind: Kind::Branches,
        default: Default::Empty,
        help: "the branch that units go to: the first of these that exists; none means the default branch",
    },
    Key {
        name: "merge.validate",
        kind: Kind::Commands,
        default: Default::Empty,
        help: "commands that have to pass on what is merged before the target moves",
    },
    Key {
        name: "merge.validate_timeout_secs",
        kind: Kind::Seconds { min: 1, max: DAY },
        default: Default::Int(1800),
        help: "how long each of them may take",
    },
    Key {
        name: "merge.wait_secs",
        kind: Kind::Seconds { min: 0, max: DAY },
        default: Default::Int(3600),
        help: "how long to wait while others land on the same target",
    },
    Key {
        name: "notify.command",
        kind: Kind::Words,
        default: Default::Empty,
        help: "program and arguments that get each notification as JSON on standard input; counts only outside the repository's own file",
    },
    Key {
        name: "notify.on",
        kind: Kind::Choices(crate::config::keys::CLASSES),
        default: Default::List(&["needs_person"]),
        help: "what is notified of",
    },
    Key {
        name: "notify.timeout_secs",
        kind: Kind::Seconds { min: 1, max: 300 },
        default: Default::Int(10),
        help: "how long the delivery of a notification may take",
    },
    Key {
        name: "notify.webhook",
        kind: Kind::Url,
        default: Default::Word(""),
        help: "where notifications are posted to as JSON, with curl; counts only outside the repository's own file",
    },
    Key {
        name: "rescue.ignored",
        kind: Kind::Patterns,
        default: Default::List(&[".env", ".env.*"]),
        help: "ignored files that count as work when a worktree is removed; without a slash, in any folder",
    },
    Key {
        name: "rescue.keep_days",
        kind: Kind::Count { min: 1, max: 3650 },
        default: Default::Int(14),
        help: "how long removed worktrees stay in the trash at least, unless all of it is in refs",
    },
    Key {
        name: "sessions.missed_beats",
        kind: Kind::Count { min: 1, max: 1000 },
        default: Default::Int(3),
        help: "a session whose heart missed this many beats is stale",
    },
    Key {
        name: "sessions.types",
        kind: Kind::AgentTypes,
        default: Default::Empty,
        help: "types of agents besides the built-in ones, such as \"release-manager = global\"",
    },
    Key {
        name: "types.hierarchy",
        kind: Kind::Chains,
        default: Default::List(&["epic > work_item > activity > task"]),
        help: "which types of issues may be part of which, outermost first",
    },
    Key {
        name: "worktree.branch",
        kind: Kind::Template,
        default: Default::Word("jit/{unit}"),
        help: "the branch of a new unit, with {unit}, {issue} and {repo}",
    },
    Key {
        name: "worktree.enforce_leases",
        kind: Kind::Word(&["strict", "strict-explicit", "warn", "off"]),
        default: Default::Word("strict"),
        help: "what happens when an issue is changed without a lease",
    },
    Key {
        name: "worktree.files",
        kind: Kind::FileRules,
        default: Default::List(&[".env", ".env.local"]),
        help: "untracked files a new worktree gets from the main checkout, such as \"node_modules = symlink\"",
    },
    Key {
        name: "worktree.min_free_mb",
        kind: Kind::Count {
            min: 0,
            max: 1_000_000_000,
        },
        default: Default::Int(200),
        help: "so many megabytes stay free on the disk when a worktree is made",
    },
    Key {
        name: "worktree.mode",
        kind: Kind::Word(&["auto", "on", "off"]),
        default: Default::Word("auto"),
        help: "whether worktrees are coordinated",
    },
    Key {
        name: "worktree.path",
        kind: Kind::Template,
        default: Default::Word("../{repo}-worktrees/{unit}"),
        help: "where a new unit's worktree is made, seen from the main checkout; of a submodule, from what it is part of; your own value holds over the repository's, which may only lead to {repo}-… beside the checkout",
    },
    Key {
        name: "worktree.ports_from",
        kind: Kind::Count {
            min: 1024,
            max: 60_000,
        },
        default: Default::Int(20_000),
        help: "the first port that units may use; each has ten for itself",
    },
    Key {
        name: "worktree.provision",
        kind: Kind::Commands,
        default: Default::Empty,
        help: "commands that make a new worktree ready, in order",
    },
    Key {
        name: "worktree.provision_timeout_secs",
        kind: Kind::Seconds { min: 1, max: DAY },
        default: Default::Int(600),
        help: "how long each of these commands may take",
    },
    Key {
        name: "worktree.submodules",
        kind: Kind::Flag,
        default: Default::Flag(true),
        help: "whether submodules are checked out in a new worktree",
    },
];

/// Built-in lease lengths by issue type and holder kind; the type `default` stands for every other one.
pub const TTL_DEFAULTS: &[(&str, &str, u64)] = &[
    ("activity", "agent", 3_600),
    ("activity", "human", 8 * 3_600),
    ("default", "human", 8 * 3_600),
    ("task", "agent", 1_800),
    ("task", "human", 4 * 3_600),
];

/// The table of lease lengths by issue type and holder kind: `coordination.ttl.<type>.<kind>`.
pub const TTL_TABLE: &str = "coordination.ttl";

/// Stands for all keys of [`TTL_TABLE`].
const TTL_KEY: Key = Key {
    name: TTL_TABLE,
    kind: TTL,
    default: Default::Empty,
    help: "how long a lease lasts, by issue type and holder kind",
};

/// Returns the key with this name, `coordination.ttl.<type>.<kind>` included.
pub fn find(name: &str) -> Option<&'static Key> {
    if let Some((issue_type, holder)) = ttl_parts(name) {
        return (is_word(issue_type) && is_word(holder)).then_some(&TTL_KEY);
    }
    KEYS.iter().find(|key| key.name == name)
}

/// Returns issue type and holder kind in the name of a key of the lease table.
pub fn ttl_parts(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(TTL_TABLE)?.strip_prefix('.')?.split_once('.')
}

/// Returns whether there are keys below this name.
pub fn is_section(name: &str) -> bool {
    let below = |key: &str| key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    name == TTL_TABLE
        || name.strip_prefix("coordination.ttl.").is_some_and(is_word)
        || KEYS.iter().any(|key| below(key.name))
}

/// Returns the types of a chain, outermost first.
pub fn chain(text: &str) -> Vec<String> {
    text.split('>').map(|word| word.trim().to_owned()).collect()
}

/// Returns the pattern and the scope of a rule.
pub fn scope_rule(text: &str) -> Result<(Pattern, LockScope), String> {
    let (pattern, scope) = text.rsplit_once('=').ok_or("a rule is <pattern> = <scope>")?;
    let pattern = Pattern::parse(pattern.trim()).map_err(|e| e.to_string())?;
    let scope = scope.trim().parse::<LockScope>().map_err(|e| e.to_string())?;
    Ok((pattern, scope))
}

/// Returns an agent type and the scope of its locks; global is the default.
pub fn agent_type(text: &str) -> Option<(String, LockScope)> {
    let (name, scope) = text.split_once('=').unwrap_or((text, "global"));
    let name = name.trim();
    Some((
        is_word(name).then(|| name.to_owned())?,
        scope.trim().parse().ok()?,
    ))
}

impl Kind {
    fn is_text(self) -> bool {
        matches!(self, Self::Template | Self::Account | Self::Url)
    }

    fn is_list(self) -> bool {
        matches!(
            self,
            Self::Patterns
                | Self::Branches
                | Self::AgentKinds
                | Self::Chains
                | Self::ScopeRules
                | Self::AgentTypes
                | Self::MergeRules
                | Self::ToolRules
                | Self::Prices
                | Self::Commands
                | Self::Words
                | Self::Choices(_)
                | Self::FileRules
        )
    }
}

/// Returns whether a notification can be posted to this address.
fn is_address(text: &str) -> bool {
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
        && text.len() <= 2_000
        && text.bytes().all(|b| b.is_ascii_graphic())
}

/// Returns whether this can be the name of a branch, by git's rules. Such a name is never an option, and never leads out
/// of `refs/heads/`.
fn is_branch(text: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    let is_odd = |c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c);
    text != "@"
        && text.split('/').all(is_part)
        && !text.starts_with('-')
        && !text.ends_with('.')
        && !text.contains("..")
        && !text.contains("@{")
        && !text.chars().any(is_odd)
}

/// Returns whether this is a lower-case word, as types and kinds are.
pub fn is_word(text: &str) -> bool {
    text.bytes().next().is_some_and(|b| b.is_ascii_lowercase())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
}

/// Returns the most similar known name, if one is similar enough.
pub fn nearest(name: &str) -> Option<String> {
    let last = |text: &str| text.rsplit('.').next().unwrap_or(text).to_owned();
    let sections = KEYS.iter().filter_map(|key| Some(key.name.split_once('.')?.0));
    let ttl = TTL_DEFAULTS
        .iter()
        .map(|(issue_type, holder, _)| format!("{TTL_TABLE}.{issue_type}.{holder}"));
    let known = KEYS
        .iter()
        .map(|key| key.name.to_owned())
        .chain(sections.map(str::to_owned))
        .chain([TTL_TABLE.to_owned()])
        .chain(ttl);
    known
        .map(|known| {
            // The right word in the wrong section is the more likely mistake.
            let whole = distance(name, &known);
            let word = distance(&last(name), &last(&known)) + 1;
            (whole.min(word), known)
        })
        .filter(|(far, known)| *far <= 1 + last(known).len() / 4)
        .min()
        .map(|(_, known)| known)
}

/// Counts insertions, deletions, replacements and swaps of neighbors between two texts. Only the first 64 characters
/// are compared.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut next = vec![i];
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (row[j - 1] + change).min(row[j] + 1).min(next[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

/// Parses an amount as people write it, exactly: `10`, `2.50`.
fn dollars(text: &str) -> Option<Usd> {
    let (whole, part) = text.trim().split_once('.').unwrap_or((text.trim(), "0"));
    let plain = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if !plain(whole) || !plain(part) || part.len() > 6 {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?;
    let part = format!("{part:0<6}").parse::<u64>().ok()?;
    let micro = whole.checked_mul(MICRO)?.checked_add(part)?;
    (micro <= MOST_DOLLARS * MICRO).then_some(Usd(micro))
}

/// The reason why a value does not fit its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Misfit {
    /// Another type was expected.
    Type { expected: String, found: &'static str },
    /// The right type, but not an accepted value.
    Value(String),
}

impl Key {
    pub fn default_value(&self) -> Value {
        match self.default {
            Default::Word(word) if self.kind.is_text() => Value::Text(word.to_owned()),
            Default::Word(word) => Value::Word(word),
            Default::Int(number) => Value::Int(number),
            Default::Dollars(number) => Value::Dollars(Usd(number.saturating_mul(MICRO))),
            Default::Flag(flag) => Value::Flag(flag),
            Default::List(items) => Value::List(items.iter().map(|item| (*item).to_owned()).collect()),
            Default::Empty => Value::List(Vec::new()),
        }
    }

    /// Returns the accepted values, for messages.
    pub fn expected(&self) -> String {
        match self.kind {
            Kind::Word(words) => format!("one of {}", words.join(", ")),
            Kind::Seconds { .. } => "seconds or a duration such as \"10m\"".to_owned(),
            Kind::Percent => "a number from 0 to 100".to_owned(),
            Kind::Count { min, max } => format!("a number from {min} to {max}"),
            Kind::Dollars => "US dollars such as 10 or 2.50".to_owned(),
            Kind::Template => "a text such as \"jit/{unit}\"".to_owned(),
            Kind::Account => "a word such as \"work\"".to_owned(),
            Kind::Url => "an address such as \"https://example.org/hook\"".to_owned(),
            Kind::Choices(words) => format!("a list of some of {}", words.join(", ")),
            Kind::Commands => "a list of command lines".to_owned(),
            Kind::Words => "a list of words".to_owned(),
            Kind::FileRules => "a list of files such as \"node_modules = symlink\"".to_owned(),
            Kind::ScopeRules => "a list of rules such as \"docs/** = global\"".to_owned(),
            Kind::AgentTypes => "a list of types such as \"release-manager = global\"".to_owned(),
            Kind::Flag => "true or false".to_owned(),
            Kind::Branches => "a list of branch names".to_owned(),
            Kind::MergeRules => "a list of rules such as \"docs/** = union\"".to_owned(),
            Kind::ToolRules => "a list of tools such as \"Bash(git add *)\"".to_owned(),
            Kind::Prices => "a list of prices such as \"gpt-5* = 1.25 / 0.125 / 10\"".to_owned(),
            Kind::Patterns => "a list of patterns such as \"*.env\"".to_owned(),
            Kind::AgentKinds => "a list of words".to_owned(),
            Kind::Chains => "a list of chains of types such as \"epic > story > task\"".to_owned(),
        }
    }

    /// Returns the value of this key in a TOML document.
    pub fn from_toml(&self, value: &DeValue<'_>) -> Result<Value, Misfit> {
        match (self.kind, value) {
            (Kind::Word(_) | Kind::Seconds { .. }, DeValue::String(text)) => self.scalar(text),
            (kind, DeValue::String(text)) if kind.is_text() => self.scalar(text),
            (Kind::Dollars, DeValue::Float(number)) => self.scalar(&number.as_str().replace('_', "")),
            (
                Kind::Seconds { .. } | Kind::Percent | Kind::Count { .. } | Kind::Dollars,
                DeValue::Integer(number),
            ) => match i128::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => self.scalar(&number.to_string()),
                Err(_) => Err(Misfit::Value("the number is too large".to_owned())),
            },
            (Kind::Flag, DeValue::Boolean(flag)) => Ok(Value::Flag(*flag)),
            (kind, DeValue::Array(items)) if kind.is_list() => {
                let mut list = Vec::new();
                for item in items {
                    match item.get_ref() {
                        DeValue::String(text) => list.push(text.clone().into_owned()),
                        other => return Err(self.type_misfit(other.type_str())),
                    }
                }
                self.list(list)
            }
            (_, other) => Err(self.type_misfit(other.type_str())),
        }
    }

    /// Returns the value of this key as typed on a command line or set in a variable. Lists are separated by commas,
    /// or written as in TOML.
    pub fn from_text(&self, text: &str) -> Result<Value, Misfit> {
        match self.kind {
            Kind::Word(_) | Kind::Seconds { .. } | Kind::Percent | Kind::Count { .. } | Kind::Dollars => {
                self.scalar(text)
            }
            kind if kind.is_text() => self.scalar(text),
            Kind::Flag => match text {
                "true" => Ok(Value::Flag(true)),
                "false" => Ok(Value::Flag(false)),
                _ => Err(self.type_misfit("something else")),
            },
            _ if text.trim_start().starts_with('[') => {
                let document = format!("x = {text}");
                match DeTable::parse(&document) {
                    Ok(table) => match table.get_ref().get("x") {
                        Some(list) if table.get_ref().len() == 1 => self.from_toml(list.get_ref()),
                        _ => Err(self.type_misfit("something else")),
                    },
                    Err(error) => Err(Misfit::Value(error.message().to_owned())),
                }
            }
            _ => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                self.list(items.map(str::to_owned).collect())
            }
        }
    }

    fn type_misfit(&self, found: &'static str) -> Misfit {
        Misfit::Type {
            expected: self.expected(),
            found,
        }
    }

    fn scalar(&self, text: &str) -> Result<Value, Misfit> {
        match self.kind {
            Kind::Word(words) => match words.iter().find(|word| **word == text) {
                Some(word) => Ok(Value::Word(word)),
                None => {
                    let shown: String = text.chars().take(40).collect();
                    Err(Misfit::Value(format!("{shown:?} is not {}", self.expected())))
                }
            },
            Kind::Seconds { min, max } => match duration::parse_secs(text) {
                Err(error) => Err(Misfit::Value(error.to_string())),
                Ok(secs) if secs < min => {
                    Err(Misfit::Value(format!("it must be at least {}", format_secs(min))))
                }
                Ok(secs) if secs > max => {
                    Err(Misfit::Value(format!("it must be at most {}", format_secs(max))))
                }
                Ok(secs) => Ok(Value::Int(secs)),
            },
            Kind::Percent => match text.parse::<u64>() {
                Ok(number) if number <= 100 => Ok(Value::Int(number)),
                _ => Err(Misfit::Value("it must be a number from 0 to 100".to_owned())),
            },
            Kind::Template => {
                if text.is_empty() || text.len() > 300 || text.chars().any(char::is_control) {
                    return Err(Misfit::Value(
                        "it must be a line of 1 to 300 characters".to_owned(),
                    ));
                }
                Ok(Value::Text(text.to_owned()))
            }
            Kind::Dollars => dollars(text).map(Value::Dollars).ok_or_else(|| {
                Misfit::Value(format!(
                    "it must be {}, at most {MOST_DOLLARS}, with six digits after the point at most",
                    self.expected()
                ))
            }),
            Kind::Account if text.is_empty() || jit_core::model::account::is_word(text) => {
                Ok(Value::Text(text.to_owned()))
            }
            Kind::Account => Err(Misfit::Value(
                "it must be a word of at most 39 letters".to_owned(),
            )),
            Kind::Url if text.is_empty() || is_address(text) => Ok(Value::Text(text.to_owned())),
            Kind::Url => Err(Misfit::Value(
                "it must begin with http:// or https:// and hold no blanks".to_owned(),
            )),
            Kind::Count { min, max } => match text.parse::<u64>() {
                Ok(number) if (min..=max).contains(&number) => Ok(Value::Int(number)),
                _ => Err(Misfit::Value(format!("it must be a number from {min} to {max}"))),
            },
            _ => Err(self.type_misfit("string")),
        }
    }

    fn list(&self, items: Vec<String>) -> Result<Value, Misfit> {
        for item in &items {
            let fits = match self.kind {
                Kind::AgentKinds => is_word(item),
                Kind::Choices(words) => words.contains(&item.as_str()),
                Kind::Patterns => Pattern::parse(item).is_ok(),
                Kind::ScopeRules => scope_rule(item).is_ok(),
                Kind::FileRules => crate::config::file_rules::rule(item).is_ok(),
                Kind::Commands | Kind::Words => {
                    !item.trim().is_empty() && item.len() <= 10_000 && !item.contains('\0')
                }
                Kind::AgentTypes => agent_type(item).is_some(),
                Kind::MergeRules => PathRule::parse(item).is_ok(),
                Kind::ToolRules => jit_agents::rules::Rule::parse(item).is_ok(),
                Kind::Prices => jit_agents::price::Price::parse(item).is_ok(),
                Kind::Chains => {
                    let types = chain(item);
                    types.len() > 1 && types.iter().all(|word| is_word(word))
                }
                _ => is_branch(item),
            };
            if !fits {
                let shown: String = item.chars().take(40).collect();
                let what = match self.kind {
                    Kind::Choices(words) => {
                        let words = words.join(", ");
                        return Err(Misfit::Value(format!("{shown:?} is none of {words}")));
                    }
                    Kind::AgentKinds => "a lower-case word such as bot",
                    Kind::Patterns => "a pattern such as *.env",
                    Kind::ScopeRules => "a rule such as docs/** = global",
                    Kind::MergeRules => "a rule such as docs/** = union",
                    Kind::ToolRules => "a tool such as WebFetch or Bash(git add *)",
                    Kind::Prices => "a price such as gpt-5* = 1.25 / 0.125 / 10",
                    Kind::FileRules => "a file such as node_modules = symlink",
                    Kind::Commands => "a command line",
                    Kind::Words => "a word",
                    Kind::AgentTypes => "a type such as release-manager = global",
                    Kind::Chains => "a chain of types such as epic > story > task",
                    _ => "a branch name",
                };
                return Err(Misfit::Value(format!("{shown:?} is not {what}")));
            }
        }
        Ok(Value::List(items))
    }
}

/// The classes of notifications.
pub const CLASSES: &[&str] = &["needs_person", "failed", "budget", "parked", "landed", "finished"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a6_keys_are_sorted_and_their_defaults_fit() {
        assert!(KEYS.is_sorted_by_key(|key| key.name));
        for key in KEYS {
            let text = key.default_value().to_string();
            let document = format!("x = {text}");
            let table = DeTable::parse(&document).expect("a default is TOML");
            let value = table.get_ref().get("x").expect("there").get_ref();
            assert_eq!(key.from_toml(value), Ok(key.default_value()), "{}", key.name);
        }
    }

    #[test]
    fn g9_dollars_may_have_cents_and_the_unit_is_told() {
        let key = KEYS
            .iter()
            .find(|key| key.name == "dispatch.budget_usd")
            .expect("a key");
        for (text, micro, shown) in [
            ("2.50", 2_500_000, "2.5"),
            ("10", 10_000_000, "10"),
            ("0.000001", 1, "0.000001"),
            ("0", 0, "0"),
        ] {
            let value = key.from_text(text).expect(text);
            assert_eq!(value, Value::Dollars(Usd(micro)), "{text}");
            assert_eq!(value.to_string(), shown);
            let document = format!("x = {text}");
            let table = DeTable::parse(&document).expect("TOML");
            let in_file = table.get_ref().get("x").expect("there").get_ref();
            assert_eq!(key.from_toml(in_file), Ok(value), "{text}");
        }
        for text in [
            "-1",
            "$5",
            "5 USD",
            "1e3",
            "nan",
            "",
            ".",
            "1.",
            "0.0000001",
            "1000000001",
            "1,5",
        ] {
            match key.from_text(text) {
                Err(Misfit::Value(why)) => assert!(why.contains("dollars"), "{why}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn l1_a_branch_name_is_no_option_and_leads_nowhere_else() {
        let key = KEYS.iter().find(|key| key.name == "merge.target").expect("a key");
        for name in ["main", "release/1.x", "a-b", "über", "x@y"] {
            assert!(key.from_text(name).is_ok(), "{name}");
        }
        for name in [
            "-f", "--exec=x", "../x", "a/../b", "a//b", "/a", "a/", ".a", "a/.b", "a.lock", "a.", "@",
            "@{-1}", "a b", "a:b", "a~1", "a^", "a*", "a[b", "a\\b",
        ] {
            assert!(key.from_text(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a6_likely_mistakes_are_understood() {
        for (typed, meant) in [
            ("worktree.mod", Some("worktree.mode")),
            ("worktree.enforce_lease", Some("worktree.enforce_leases")),
            ("worktee", Some("worktree")),
            ("coordination.default_ttl", Some("coordination.default_ttl_secs")),
            ("worktree.default_ttl_secs", Some("coordination.default_ttl_secs")),
            ("default_ttl_secs", Some("coordination.default_ttl_secs")),
            ("coordination.tll", Some("coordination.ttl")),
            ("coordination.ttl.task.humna", Some("coordination.ttl.task.human")),
            ("colour.theme", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed).as_deref(), meant, "{typed}");
        }
    }
}
