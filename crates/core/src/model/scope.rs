//! How far a file lock reaches: this worktree, or all of them (F3).
//!
//! What must hold:
//! - the first rule that matches a path decides; ignored files and what is outside the worktree come after the rules;
//! - a pattern has the widest scope of any path it may match: a glob that reaches into shared state is shared;
//! - the scope used is the widest of what path, session and flag say: no flag makes a shared file private.
//!
//! Limitations: which of the paths of a glob are ignored is not known here. Whoever asks says whether the pattern, or
//! the folder it begins with, is.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::model::glob::Pattern;

/// From the narrower to the wider.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum LockScope {
    /// Each worktree has its own copy: two of them may be changed at once.
    Worktree,
    /// One file for all.
    Global,
}

impl LockScope {
    pub const ALL: &'static [Self] = &[Self::Worktree, Self::Global];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Worktree => "worktree",
            Self::Global => "global",
        }
    }

    /// The scope to use, from that of the path, the session's own and what was asked for.
    pub fn widest(path: Self, session: Option<Self>, flag: Option<Self>) -> Self {
        [session, flag].into_iter().flatten().fold(path, Self::max)
    }
}

impl fmt::Display for LockScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a lock scope is `worktree` or `global`, not {0:?}")]
pub struct BadScope(String);

impl FromStr for LockScope {
    type Err = BadScope;

    fn from_str(text: &str) -> Result<Self, BadScope> {
        let found = Self::ALL.iter().find(|scope| scope.as_str() == text);
        found
            .copied()
            .ok_or_else(|| BadScope(text.chars().take(40).collect()))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopeRule {
    pub pattern: Pattern,
    pub scope: LockScope,
}

impl ScopeRule {
    /// Whether the rule decides about every path of `pattern`. May say no where the answer is yes.
    fn covers(&self, pattern: &Pattern) -> bool {
        if !pattern.is_glob() && !pattern.is_dir() {
            return self.pattern.matches(pattern.literal_prefix());
        }
        let own = self.pattern.as_str();
        if own == "**" {
            return true;
        }
        let folder = self.pattern.literal_prefix();
        let below = |prefix: &str| {
            prefix
                .strip_prefix(folder)
                .is_some_and(|rest| folder.ends_with('/') && !rest.is_empty() || rest.starts_with('/'))
        };
        let whole = !self.pattern.is_glob() && self.pattern.is_dir();
        let all_below = ["**", "**/*"]
            .iter()
            .any(|end| own.strip_suffix(end) == Some(folder) && folder.ends_with('/'));
        let prefix = pattern.literal_prefix();
        // `src/*` begins with `src/`, and so does all it matches.
        (whole && prefix == folder && !pattern.is_glob())
            || ((whole || all_below)
                && (below(prefix) || (pattern.is_glob() && prefix == folder && all_below)))
    }
}

/// The place that a lock is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScopePlace<'a> {
    Inside {
        pattern: &'a Pattern,
        /// Git would ignore it.
        ignored: bool,
    },
    Outside,
}

/// Which paths are shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopeRules {
    pub rules: Vec<ScopeRule>,
    /// Of ignored files that no rule names.
    pub ignored: LockScope,
    /// Of everything else in the worktree.
    pub otherwise: LockScope,
}

/// Names of the sets of rules that come with `jit`.
pub const PRESETS: &[&str] = &["default", "seed-003"];

impl ScopeRules {
    /// The set of this name, one of [`PRESETS`].
    pub fn preset(name: &str) -> Option<Self> {
        use LockScope::{Global, Worktree};
        match name {
            "default" => Some(Self {
                // Issues are files that git merges; whatever else is in `.jit` concerns all worktrees, as does `.git`.
                rules: rules(&[
                    ("_state/**", Global),
                    ("traceability/**", Global),
                    (".claude/**", Global),
                    (".jit/issues/**", Worktree),
                    (".jit/**", Global),
                    (".git/", Global),
                ]),
                ignored: Global,
                otherwise: Worktree,
            }),
            "seed-003" => Some(Self {
                rules: rules(&[
                    ("src/**/*", Worktree),
                    ("tests/**/*", Worktree),
                    ("public/**/*", Worktree),
                    ("_state/**/*", Global),
                    ("traceability/**/*", Global),
                    (".claude/**/*", Global),
                ]),
                // The table knows paths only: an ignored file under `src` is under `src`.
                ignored: Global,
                otherwise: Global,
            }),
            _ => None,
        }
    }

    /// For file systems that do not tell case apart. Ask it about folded patterns.
    #[must_use]
    pub fn folded(mut self) -> Self {
        for rule in &mut self.rules {
            rule.pattern = rule.pattern.folded();
        }
        self
    }

    pub fn scope_of(&self, place: ScopePlace<'_>) -> LockScope {
        let ScopePlace::Inside { pattern, ignored } = place else {
            return LockScope::Global;
        };
        let mut widest = LockScope::Worktree;
        for rule in self.rules.iter().filter(|rule| rule.pattern.overlaps(pattern)) {
            widest = widest.max(rule.scope);
            if rule.covers(pattern) {
                return widest;
            }
        }
        widest.max(if ignored { self.ignored } else { self.otherwise })
    }
}

impl Default for ScopeRules {
    fn default() -> Self {
        Self::preset("default").unwrap_or(Self {
            rules: Vec::new(),
            ignored: LockScope::Global,
            otherwise: LockScope::Global,
        })
    }
}

fn rules(table: &[(&str, LockScope)]) -> Vec<ScopeRule> {
    let rule = |&(text, scope): &(&str, LockScope)| {
        Pattern::parse(text)
            .ok()
            .map(|pattern| ScopeRule { pattern, scope })
    };
    table.iter().filter_map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::LockScope::{Global, Worktree};
    use super::*;

    fn scope(rules: &ScopeRules, text: &str, ignored: bool) -> LockScope {
        let pattern = Pattern::parse(text).expect("a pattern");
        rules.scope_of(ScopePlace::Inside {
            pattern: &pattern,
            ignored,
        })
    }

    #[test]
    fn f3_what_git_isolates_is_the_worktrees_own_and_all_else_is_shared() {
        let rules = ScopeRules::default();
        assert_eq!(rules.rules.len(), 6, "every rule of the preset parses");
        for (text, ignored, expected) in [
            ("src/auth.ts", false, Worktree),
            ("README.md", false, Worktree),
            ("src/", false, Worktree),
            ("src/**/*.ts", false, Worktree),
            ("build/out.js", true, Global),
            ("_state/agent_lock.json", false, Global),
            ("_state/", false, Global),
            ("traceability/a/b.json", false, Global),
            (".claude/settings.json", false, Global),
            (".jit/config.toml", false, Global),
            (".jit/issues/ab12/issue.json", false, Worktree),
            (".jit/issues/ab12/", false, Worktree),
            (".jit/issues/*/issue.json", false, Worktree),
            (".jit/issues/**", false, Worktree),
            (".jit/", false, Global),
            (".jit/*", false, Global),
            (".git/config", false, Global),
            // They reach into what is shared.
            (".", false, Global),
            ("**/*.json", false, Global),
            ("{src,_state}/*", false, Global),
        ] {
            assert_eq!(scope(&rules, text, ignored), expected, "{text}");
        }
        assert_eq!(rules.scope_of(ScopePlace::Outside), Global);
    }

    #[test]
    fn f3_the_preset_of_the_seed_is_its_table() {
        let rules = ScopeRules::preset("seed-003").expect("a preset");
        assert_eq!(rules.rules.len(), 6, "every rule of the preset parses");
        for (text, expected) in [
            ("src/a.ts", Worktree),
            ("src/deep/er/a.ts", Worktree),
            ("src/**/*.ts", Worktree),
            ("tests/a.ts", Worktree),
            ("public/logo.svg", Worktree),
            ("_state/x", Global),
            ("traceability/task_registry.json", Global),
            (".claude/x/y", Global),
            ("package.json", Global),
            ("src", Global),
            ("{src,docs}/x", Global),
        ] {
            assert_eq!(scope(&rules, text, false), expected, "{text}");
        }
        assert_eq!(scope(&rules, "src/generated.ts", true), Worktree);
        assert_eq!(ScopeRules::preset("other"), None);
    }

    #[test]
    fn f3_the_first_rule_that_matches_wins() {
        let mut set = ScopeRules {
            rules: rules(&[("a/b", Worktree), ("a/", Global)]),
            ..ScopeRules::default()
        };
        assert_eq!(scope(&set, "a/b", false), Worktree);
        assert_eq!(scope(&set, "a/c", false), Global);
        set.rules.reverse();
        assert_eq!(scope(&set, "a/b", false), Global);
    }

    #[test]
    fn f3_the_widest_of_path_session_and_flag_is_used() {
        for (path, session, flag, expected) in [
            (Worktree, None, None, Worktree),
            (Worktree, Some(Worktree), Some(Worktree), Worktree),
            (Worktree, Some(Global), None, Global),
            (Worktree, Some(Worktree), Some(Global), Global),
            (Global, Some(Worktree), Some(Worktree), Global),
        ] {
            assert_eq!(LockScope::widest(path, session, flag), expected);
        }
        assert_eq!("global".parse(), Ok(Global));
        assert!("Global".parse::<LockScope>().is_err());
        assert_eq!(serde_json::to_string(&Worktree).expect("JSON"), "\"worktree\"");
    }
}
