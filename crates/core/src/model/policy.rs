//! The settings that decisions follow: permissions, required gates, and the usual and longest time of leases.

use crate::model::ids::{AgentId, SessionId};
use crate::model::issue::GateResult;
use crate::model::lease::Lease;
use crate::model::refusal::{Code, Refusal};
use crate::model::scope::LockScope;

/// The settings that decisions follow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    pub ttl: TtlPolicy,
    pub enforce: Enforce,
    /// Whether agents (and not only people) may evict others.
    pub agents_may_evict: bool,
    /// Whether agents may say by hand that a gate has passed, or that an issue need not pass it.
    pub agents_may_pass_gates: bool,
    /// Whether an agent asks, whatever id it gives.
    pub agent_asks: bool,
    /// The caller's session, where it is known and matters.
    pub session: Option<SessionId>,
    /// Sessions whose process is known to run. Read together with `session`.
    pub live_sessions: Vec<SessionId>,
    /// The agent whose edits by hand they are, where one is at work in the tree that has them.
    pub editor: Option<AgentId>,
    /// Issue type and gate: required of every issue of that type.
    pub gates_for: Vec<(String, String)>,
    /// Gate and digest: what each is now. More than one of a name where it is not the same everywhere that counts.
    pub gates: Vec<(String, String)>,
    /// The gates that types require could not be read.
    pub gates_unknown: bool,
    /// Types from the outermost to the innermost: what may be part of what. Types in none of them are free.
    pub hierarchy: Vec<Vec<String>>,
    pub locks: LockPolicy,
}

impl Policy {
    /// Returns the live session that has this lease of the caller's own agent, if it is another one than the caller's. A
    /// caller whose session is not known counts as the agent itself.
    pub fn rival_session<'a>(&self, lease: &'a Lease, caller: &AgentId) -> Option<&'a SessionId> {
        let holder = lease.session_id.as_ref().filter(|_| lease.agent_id == *caller)?;
        let is_other = self.session.as_ref().is_some_and(|own| own != holder);
        (is_other && self.live_sessions.contains(holder)).then_some(holder)
    }
}

/// How long locks on files last (F5), in seconds: at first, and with all extensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockPolicy {
    pub worktree: (u64, u64),
    pub global: (u64, u64),
}

impl Default for LockPolicy {
    fn default() -> Self {
        Self {
            worktree: (15 * 60, 30 * 60),
            global: (2 * 60, 5 * 60),
        }
    }
}

impl LockPolicy {
    fn of(&self, scope: LockScope) -> (u64, u64) {
        match scope {
            LockScope::Worktree => self.worktree,
            LockScope::Global => self.global,
        }
    }

    /// The longest that a lock may be held.
    pub fn limit(&self, scope: LockScope) -> u64 {
        self.of(scope).1
    }

    /// Seconds for a lock: what was asked for if it is sensible, else what is usual.
    pub fn resolve(&self, asked: Option<u64>, scope: LockScope) -> Result<u64, Refusal> {
        let (usual, limit) = self.of(scope);
        let secs = asked.unwrap_or(usual.min(limit));
        if secs == 0 || secs > limit {
            return Err(Refusal::new(
                Code::Invalid,
                format!(
                    "a {} lock of {secs} seconds is not possible: between 1 and {limit} seconds",
                    scope.as_str()
                ),
            )
            .help("jit config get locks"));
        }
        Ok(secs)
    }
}

/// Whether changing an issue needs a lease on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Enforce {
    /// An issue that another agent holds cannot be changed; a free one is acquired and released on the way.
    #[default]
    Strict,
    /// Only what one holds can be changed.
    StrictExplicit,
    /// Everything can be changed, with a warning.
    Warn,
    Off,
}

impl Policy {
    /// The kind of the caller: an agent's, whatever id the agent gives.
    pub fn kind_of<'a>(&self, caller: &'a AgentId) -> &'a str {
        match self.agent_asks {
            true => "agent",
            false => caller.kind(),
        }
    }

    /// Gates that an issue has to pass, in order.
    pub fn required_gates(&self, kind: &str, own: &[String]) -> Vec<String> {
        let by_type = self
            .gates_for
            .iter()
            .filter(|(of, _)| of == kind)
            .map(|(_, gate)| gate);
        let all: std::collections::BTreeSet<&String> = own.iter().chain(by_type).collect();
        all.into_iter().cloned().collect()
    }

    /// Whether a result is one of the gate as it is now: with another command or of another kind it is another gate. What
    /// is defined nowhere here, and what was judged before definitions were recorded, is taken as it was.
    /// `defined_here`: not what is defined nowhere here.
    pub fn is_current(&self, gate: &str, result: &GateResult, defined_here: bool) -> bool {
        let Some(then) = &result.definition else {
            return true;
        };
        let mut now = self.gates.iter().filter(|(name, _)| name == gate).peekable();
        match now.peek() {
            Some(_) => now.all(|(_, now)| now == then),
            None => !defined_here,
        }
    }

    /// Whether an issue of type `kind` may be part of one of type `whole`. What no hierarchy names may be anywhere.
    pub fn may_be_part_of(&self, kind: &str, whole: &str) -> bool {
        let is_named = self.hierarchy.iter().flatten().any(|named| named == whole);
        !is_named
            || self
                .parents_of(kind)
                .is_none_or(|allowed| allowed.contains(&whole))
    }

    /// The types that an issue of type `kind` may be part of; `None` when any may.
    pub fn parents_of(&self, kind: &str) -> Option<Vec<&str>> {
        let within: Vec<&[String]> = self
            .hierarchy
            .iter()
            .filter_map(|chain| chain.iter().position(|k| k == kind).map(|at| &chain[..at]))
            .collect();
        let named = |kind: &str| self.hierarchy.iter().any(|chain| chain.iter().any(|k| k == kind));
        (!within.is_empty() && named(kind))
            .then(|| within.into_iter().flatten().map(String::as_str).collect())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TtlPolicy {
    /// Issue type, holder kind, seconds. The first match counts; `*` matches every type.
    pub rules: Vec<(String, String, u64)>,
    /// When no rule matches.
    pub default_secs: u64,
    pub max_secs: u64,
}

impl Default for TtlPolicy {
    fn default() -> Self {
        const HOUR: u64 = 3600;
        let rule = |kind: &str, holder: &str, secs| (kind.to_owned(), holder.to_owned(), secs);
        Self {
            rules: vec![
                rule("activity", "human", 8 * HOUR),
                rule("activity", "agent", HOUR),
                rule("task", "human", 4 * HOUR),
                rule("task", "agent", HOUR / 2),
                rule("*", "human", 8 * HOUR),
            ],
            default_secs: 600,
            max_secs: 30 * 24 * HOUR,
        }
    }
}

impl TtlPolicy {
    /// Seconds for a lease on an issue of type `kind`: what was asked for if it is sensible, else by rule.
    pub fn resolve(&self, asked: Option<u64>, kind: &str, holder: &AgentId) -> Result<u64, Refusal> {
        let by_rule = || {
            self.rules
                .iter()
                .find(|(k, h, _)| (k == "*" || k == kind) && h == holder.kind())
                .map_or(self.default_secs, |(_, _, secs)| *secs)
        };
        let secs = asked.unwrap_or_else(by_rule);
        if secs == 0 || secs > self.max_secs {
            return Err(Refusal::new(
                Code::Invalid,
                format!(
                    "a lease of {secs} seconds is not possible: between 1 second and {} days",
                    self.max_secs / 86_400
                ),
            )
            .help("jit claim acquire <issue> --ttl 10m"));
        }
        Ok(secs)
    }
}
