//! Combines the decisions of several rules about one tool call.

use std::fmt;

/// The effect of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleMode {
    Off,
    Warn,
    Deny,
}

impl RuleMode {
    pub const WORDS: &[&str] = &["deny", "warn", "off"];

    pub fn of(word: &str) -> Self {
        match word {
            "off" => Self::Off,
            "warn" => Self::Warn,
            _ => Self::Deny,
        }
    }
}

/// The objection of one rule: what is wrong, and what to do instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objection {
    pub what: String,
    pub instead: String,
}

impl Objection {
    pub fn new(what: impl Into<String>, instead: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            instead: instead.into(),
        }
    }
}

impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.what, self.instead)
    }
}

/// The combined decision. The strictest mode applies; all objections are reported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HookDecision {
    denied: bool,
    objections: Vec<Objection>,
}

impl HookDecision {
    pub fn add(&mut self, mode: RuleMode, objection: Objection) {
        if mode == RuleMode::Off || self.objections.contains(&objection) {
            return;
        }
        self.denied |= mode == RuleMode::Deny;
        self.objections.push(objection);
    }

    pub fn is_denied(&self) -> bool {
        self.denied
    }

    /// The message for the agent. `None` without objections.
    pub fn text(&self) -> Option<String> {
        if self.objections.is_empty() {
            return None;
        }
        let lines: Vec<String> = self.objections.iter().map(ToString::to_string).collect();
        Some(format!("jit: {}", lines.join("\n")))
    }
}
