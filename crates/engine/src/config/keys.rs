//! Every setting there is: its name, what it may hold, and what it is when nobody says anything.
//!
//! Invariant: a value exists only after it was checked against its key, whichever file, variable or command line it
//! came from; all of them pass [`Key::from_toml`] or [`Key::from_text`].

use std::fmt;

use toml::de::{DeTable, DeValue};

use jit_core::pattern::Pattern;
use jit_core::scope::Scope;

use crate::duration::{self, format_secs};

/// What a key may hold.
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
    Flag,
    /// A list of rules about paths, the first that matches counts: `docs/** = global`.
    ScopeRules,
    /// A list of agent types, each perhaps with the scope of its locks: `release-manager = global`.
    AgentTypes,
    /// A list of patterns of paths: `*.env`.
    Patterns,
    /// A list of branch names.
    Branches,
    /// A list of agent kinds.
    AgentKinds,
    /// A list of chains of issue types, each from the outermost to the innermost: `epic > story > task`.
    Chains,
}

/// A checked value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Word(&'static str),
    Int(u64),
    Flag(bool),
    List(Vec<String>),
}

/// As it would stand in a TOML file.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => write!(f, "\"{word}\""),
            Self::Int(number) => write!(f, "{number}"),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::List(items) => {
                f.write_str("[")?;
                for (n, item) in items.iter().enumerate() {
                    let comma = if n == 0 { "" } else { ", " };
                    write!(f, "{comma}{}", toml_edit::Value::from(item.as_str()))?;
                }
                f.write_str("]")
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Default {
    Word(&'static str),
    Int(u64),
    Flag(bool),
    List(&'static [&'static str]),
    Empty,
}

#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub name: &'static str,
    pub kind: Kind,
    default: Default,
    /// One line for people.
    pub help: &'static str,
}

const DAY: u64 = 86_400;
const YEAR: u64 = 365 * DAY;
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
        help: "whether agents may take leases away from others",
    },
    Key {
        name: "agents.may_pass_gates",
        kind: Kind::Flag,
        default: Default::Flag(false),
        help: "whether agents may say by hand that a gate has passed",
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
        name: "worktree.enforce_leases",
        kind: Kind::Word(&["strict", "strict-explicit", "warn", "off"]),
        default: Default::Word("strict"),
        help: "what happens when an issue is changed without a lease",
    },
    Key {
        name: "worktree.mode",
        kind: Kind::Word(&["auto", "on", "off"]),
        default: Default::Word("auto"),
        help: "whether worktrees are coordinated",
    },
];

/// Built-in leases by issue type and holder kind; the type `default` stands for every other one.
pub const TTL_DEFAULTS: &[(&str, &str, u64)] = &[
    ("activity", "agent", 3_600),
    ("activity", "human", 8 * 3_600),
    ("default", "human", 8 * 3_600),
    ("task", "agent", 1_800),
    ("task", "human", 4 * 3_600),
];

/// Where leases by issue type and holder kind stand: `coordination.ttl.<type>.<kind>`.
pub const TTL_TABLE: &str = "coordination.ttl";

/// Stands for all keys of [`TTL_TABLE`].
const TTL_KEY: Key = Key {
    name: TTL_TABLE,
    kind: TTL,
    default: Default::Empty,
    help: "how long a lease lasts, by issue type and holder kind",
};

/// The key with this name, `coordination.ttl.<type>.<kind>` included.
pub fn find(name: &str) -> Option<&'static Key> {
    if let Some((issue_type, holder)) = ttl_parts(name) {
        return (is_word(issue_type) && is_word(holder)).then_some(&TTL_KEY);
    }
    KEYS.iter().find(|key| key.name == name)
}

/// Issue type and holder kind in the name of a key of the table of leases.
pub fn ttl_parts(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(TTL_TABLE)?.strip_prefix('.')?.split_once('.')
}

/// Whether other keys lie below this name.
pub fn is_section(name: &str) -> bool {
    let below = |key: &str| key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    name == TTL_TABLE
        || name.strip_prefix("coordination.ttl.").is_some_and(is_word)
        || KEYS.iter().any(|key| below(key.name))
}

/// The types of a chain, outermost first.
pub fn chain(text: &str) -> Vec<String> {
    text.split('>').map(|word| word.trim().to_owned()).collect()
}

/// The pattern and the scope of a rule.
pub fn scope_rule(text: &str) -> Result<(Pattern, Scope), String> {
    let (pattern, scope) = text.rsplit_once('=').ok_or("a rule is <pattern> = <scope>")?;
    let pattern = Pattern::parse(pattern.trim()).map_err(|e| e.to_string())?;
    let scope = scope.trim().parse::<Scope>().map_err(|e| e.to_string())?;
    Ok((pattern, scope))
}

/// An agent type and the scope of its locks: global unless said otherwise.
pub fn agent_type(text: &str) -> Option<(String, Scope)> {
    let (name, scope) = text.split_once('=').unwrap_or((text, "global"));
    let name = name.trim();
    Some((
        is_word(name).then(|| name.to_owned())?,
        scope.trim().parse().ok()?,
    ))
}

impl Kind {
    fn is_list(self) -> bool {
        matches!(
            self,
            Self::Patterns
                | Self::Branches
                | Self::AgentKinds
                | Self::Chains
                | Self::ScopeRules
                | Self::AgentTypes
        )
    }
}

/// A lower-case word, as types and kinds are.
pub fn is_word(text: &str) -> bool {
    text.bytes().next().is_some_and(|b| b.is_ascii_lowercase())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
}

/// The known name most like this one, if any is like it.
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
            // The right word in the wrong section is the likelier mistake.
            let whole = distance(name, &known);
            let word = distance(&last(name), &last(&known)) + 1;
            (whole.min(word), known)
        })
        .filter(|(far, known)| *far <= 1 + last(known).len() / 4)
        .min()
        .map(|(_, known)| known)
}

/// Insertions, deletions, replacements and swaps of neighbours between two texts; long texts are not worth it.
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

/// Why a value does not fit its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Misfit {
    /// Another type was expected.
    Type { expected: String, found: &'static str },
    /// The right type, but not a value that may stand here.
    Value(String),
}

impl Key {
    pub fn default_value(&self) -> Value {
        match self.default {
            Default::Word(word) => Value::Word(word),
            Default::Int(number) => Value::Int(number),
            Default::Flag(flag) => Value::Flag(flag),
            Default::List(items) => Value::List(items.iter().map(|item| (*item).to_owned()).collect()),
            Default::Empty => Value::List(Vec::new()),
        }
    }

    /// What the key takes, for people.
    pub fn expected(&self) -> String {
        match self.kind {
            Kind::Word(words) => format!("one of {}", words.join(", ")),
            Kind::Seconds { .. } => "seconds or a duration such as \"10m\"".to_owned(),
            Kind::Percent => "a number from 0 to 100".to_owned(),
            Kind::Count { min, max } => format!("a number from {min} to {max}"),
            Kind::ScopeRules => "a list of rules such as \"docs/** = global\"".to_owned(),
            Kind::AgentTypes => "a list of types such as \"release-manager = global\"".to_owned(),
            Kind::Flag => "true or false".to_owned(),
            Kind::Branches => "a list of branch names".to_owned(),
            Kind::Patterns => "a list of patterns such as \"*.env\"".to_owned(),
            Kind::AgentKinds => "a list of words".to_owned(),
            Kind::Chains => "a list of chains of types such as \"epic > story > task\"".to_owned(),
        }
    }

    /// The value of this key in a TOML document.
    pub fn from_toml(&self, value: &DeValue<'_>) -> Result<Value, Misfit> {
        match (self.kind, value) {
            (Kind::Word(_) | Kind::Seconds { .. }, DeValue::String(text)) => self.scalar(text),
            (Kind::Seconds { .. } | Kind::Percent | Kind::Count { .. }, DeValue::Integer(number)) => {
                match i128::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) => self.scalar(&number.to_string()),
                    Err(_) => Err(Misfit::Value("the number is too large".to_owned())),
                }
            }
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

    /// The value of this key as typed on a command line or set in a variable. Lists are separated by commas, or
    /// written as in TOML.
    pub fn from_text(&self, text: &str) -> Result<Value, Misfit> {
        match self.kind {
            Kind::Word(_) | Kind::Seconds { .. } | Kind::Percent | Kind::Count { .. } => self.scalar(text),
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
                Kind::Patterns => Pattern::parse(item).is_ok(),
                Kind::ScopeRules => scope_rule(item).is_ok(),
                Kind::AgentTypes => agent_type(item).is_some(),
                Kind::Chains => {
                    let types = chain(item);
                    types.len() > 1 && types.iter().all(|word| is_word(word))
                }
                _ => !item.is_empty() && !item.chars().any(|c| c.is_control() || c.is_whitespace()),
            };
            if !fits {
                let shown: String = item.chars().take(40).collect();
                let what = match self.kind {
                    Kind::AgentKinds => "a lower-case word such as bot",
                    Kind::Patterns => "a pattern such as *.env",
                    Kind::ScopeRules => "a rule such as docs/** = global",
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
