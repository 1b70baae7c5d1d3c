//! How long leases last when nobody says so.

use crate::ids::AgentId;
use crate::refusal::{Code, Refusal};

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
