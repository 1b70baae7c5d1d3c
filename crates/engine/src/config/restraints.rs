//! Settings that restrain agents (A6, E6, L3).
//!
//! What must hold:
//!
//! - An agent can set any variable. A variable, or a user's file that `HOME` or `XDG_CONFIG_HOME` names, loosens
//!   nothing for it. The user's settings that count are in the home folder of the account.
//! - The stricter value counts, wherever it comes from.
//!
//! Limitations: the home folder is read from `/etc/passwd` ([`jit_os::account`]). For an account that is not listed
//! there, nothing of the user's file loosens anything for agents.

use std::cmp::Ordering;

use jit_core::model::ids::AgentId;
use jit_core::model::policy::Enforce;

use super::{Config, ConfigError, Origin, Setting, Sources, key_of};

/// The settings that restrain agents, with their values from the loosest on. An unlisted value is stricter than the
/// listed ones; `|` separates values that are equally loose. Without values there is no order: every other value is
/// looser.
const RESTRAINTS: &[(&str, &[&str])] = &[
    ("agents.may_force_evict", &["true"]),
    ("agents.may_pass_gates", &["true"]),
    ("agents.may_trust", &["true"]),
    ("global_operations.allowed_branches", &[]),
    ("global_operations.require_main_history", &["false"]),
    // A report refuses nothing.
    ("hooks.pre_push", &["off|report"]),
    ("worktree.enforce_leases", &["off", "warn", "strict"]),
    ("worktree.mode", &["off"]),
];

/// Compares how strict two settings are. [`Ordering::Less`]: the first one is looser.
fn compare(values: &[&str], one: &Setting, other: &Setting) -> Ordering {
    if values.is_empty() && one.value != other.value {
        return Ordering::Less;
    }
    let strictness = |setting: &Setting| {
        let value = setting.value.to_string();
        let value = value.trim_matches('"');
        let place = values
            .iter()
            .position(|one| one.split('|').any(|one| one == value));
        place.unwrap_or(values.len())
    };
    strictness(one).cmp(&strictness(other))
}

impl Sources {
    /// Returns whether something here that an agent could have chosen may loosen what restrains it.
    pub fn could_loosen(&self) -> bool {
        let restrains = |name: &str| {
            let key = key_of(name);
            RESTRAINTS.iter().any(|(one, _)| key.as_deref() == Some(*one))
        };
        let of_variable = |name: &std::ffi::OsString| name.to_str().is_some_and(restrains);
        // Two files that are both missing say the same.
        let is_there = |file: &std::path::PathBuf| !matches!(file.symlink_metadata(), Err(e) if e.kind() == std::io::ErrorKind::NotFound);
        let mut files = self.user.iter().chain(&self.account);
        let is_other_file = self.user != self.account && files.any(is_there);
        is_other_file || self.env.iter().any(|(name, _)| of_variable(name))
    }

    /// The sources as they count for this caller: `None` for a person.
    #[must_use]
    pub fn asked_by(self, agent: Option<&AgentId>) -> Self {
        Self {
            restrained: agent.is_some(),
            ..self
        }
    }

    /// The sources that no agent can choose.
    fn unchosen(&self) -> Self {
        Self {
            user: self.account.clone(),
            env: Vec::new(),
            restrained: false,
            ..self.clone()
        }
    }
}

impl Config {
    /// Restrains an agent to what it could not choose itself. Returns messages about values that do not count, with
    /// the value that counts instead.
    pub fn restrain(&mut self, sources: &Sources) -> Vec<String> {
        let (base, _) = Self::load_despite(&sources.unchosen());
        self.restrain_to(&base)
    }

    /// As [`Config::restrain`], for the layers that `load` reads.
    pub(super) fn restrain_if_asked(
        &mut self,
        sources: &Sources,
        load: &dyn Fn(&Sources) -> Result<Self, ConfigError>,
    ) {
        if !sources.restrained || !sources.could_loosen() {
            return;
        }
        let unchosen = sources.unchosen();
        // A file of the account that cannot be read loosens nothing.
        let without_user = || {
            load(&Sources {
                user: None,
                ..unchosen.clone()
            })
        };
        let base = load(&unchosen).or_else(|_| without_user());
        self.restrain_to(&base.unwrap_or_default());
    }

    fn restrain_to(&mut self, base: &Self) -> Vec<String> {
        let mut said = Vec::new();
        for (key, values) in RESTRAINTS {
            let (given, base) = (self.setting(key), base.setting(key));
            let order = compare(values, given, base);
            // Of equal values the origin of the base counts: some rights depend on it.
            if order == Ordering::Greater || (order == Ordering::Equal && given.value != base.value) {
                continue;
            }
            let chosen = match &given.origin {
                Origin::Env { variable } => format!("{variable} does not count for agents: "),
                Origin::File { .. } => format!("{} does not count for agents: ", given.origin),
                Origin::Default => "for agents ".to_owned(),
            };
            if order == Ordering::Less {
                said.push(format!("{chosen}{key} is {} ({})", base.value, base.origin));
            }
            let (value, origin) = (base.value.clone(), base.origin.clone());
            self.put((*key).to_owned(), value, origin);
        }
        said
    }

    /// Returns whether a setting gives agents a right, or lets them work without leases.
    pub fn is_loose(&self) -> bool {
        let policy = self.policy();
        let lenient = matches!(policy.enforce, Enforce::Warn | Enforce::Off);
        lenient || policy.agents_may_evict || policy.agents_may_pass_gates
    }

    /// Restrains an agent: the stricter setting about leases counts. Returns messages about values that do not count,
    /// with the value that counts instead.
    pub fn tighten_leases(&mut self, other: &Self) -> Vec<String> {
        self.tighten_below("worktree.", other)
    }

    /// Does the same for every setting that restrains agents.
    pub fn tighten(&mut self, other: &Self) -> Vec<String> {
        self.tighten_below("", other)
    }

    fn tighten_below(&mut self, prefix: &str, other: &Self) -> Vec<String> {
        let mut said = Vec::new();
        for (key, values) in RESTRAINTS.iter().filter(|(key, _)| key.starts_with(prefix)) {
            let (given, counts) = (self.setting(key), other.setting(key));
            if compare(values, given, counts) == Ordering::Less {
                said.push(format!(
                    "{key} = {} ({}) does not count for agents, for it is not committed: it is {} ({})",
                    given.value, given.origin, counts.value, counts.origin
                ));
                self.put((*key).to_owned(), counts.value.clone(), counts.origin.clone());
            }
        }
        said
    }
}
