//! Configuration (A6).
//!
//! Layers, each stronger than the one before: built-in defaults, the user's `config.toml`, the repository's
//! `.jit/config.toml`, variables `JIT_CONFIG_<SECTION>__<KEY>` (as in `JIT_CONFIG_WORKTREE__MODE=off`; further levels
//! are separated by `__` too).
//!
//! Invariants:
//! - Every decision reads the same table that [`Config::show`] shows.
//! - An unknown key, a wrong type or a value out of range is an error with file, line and key, or variable.
//! - A key that only the user may set is left out of the repository's file, and `worktree.path` in the user's own file
//!   holds over the repository's ([`classes`]).
//! - The repository's file is read only if neither it nor its folder is a symbolic link.
//! - Nothing that an agent can choose loosens a setting that restrains agents ([`restraints`]).
//! - No lease of the table is longer than `coordination.max_ttl_secs`. A configured longer one is an error; a
//!   built-in longer one is lowered, and shown lowered.
//!
//! Limitations: variables cannot name issue types with upper-case letters or dashes.

pub mod classes;
mod edit;
pub mod file_rules;
pub mod keys;
pub mod restraints;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use jit_agents::hooks::decision::RuleMode as Guard;
use jit_agents::price::Price;
use jit_core::landing::path_rules::MergePolicy;
use jit_core::model::cost::Usd;
use jit_core::model::glob::Pattern;
use jit_core::model::policy::{Enforce, LockPolicy, Policy, TtlPolicy};
use jit_core::model::scope::{LockScope, ScopeRule, ScopeRules};
use jit_git::Place;
use jit_os::account;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::file_rules::How;
use crate::identity::{KINDS, user_folder};
use keys::{KEYS, Key, Misfit, TTL_DEFAULTS, TTL_TABLE, Value};

pub use edit::{set, set_in_repository};

const PREFIX: &str = "JIT_CONFIG_";
/// The largest file of a repository's settings.
const MAX_FILE: u64 = 1 << 20;

/// Returns the key that a variable sets.
fn key_of(variable: &str) -> Option<String> {
    Some(
        variable
            .strip_prefix(PREFIX)?
            .to_ascii_lowercase()
            .replace("__", "."),
    )
}

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Default,
    File {
        file: Arc<Path>,
        line: usize,
        column: usize,
    },
    Env {
        variable: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { file, line, .. } => write!(f, "{}, line {line}", file.display()),
            Self::Env { variable } => write!(f, "variable {variable}"),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {}: {source}", file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}", file.display())]
    Write { file: PathBuf, source: io::Error },
    #[error("{}: {why}", spot(at))]
    Syntax { at: Origin, why: String },
    #[error("{}: there is no key `{key}`{}", spot(at), suggestion(nearest.as_deref()))]
    UnknownKey {
        at: Origin,
        key: String,
        nearest: Option<String>,
    },
    #[error("{}: `{key}` takes {expected}, not {found}", spot(at))]
    WrongType {
        at: Origin,
        key: String,
        expected: String,
        found: String,
    },
    #[error("{}: `{key}`: {why}", spot(at))]
    BadValue { at: Origin, key: String, why: String },
    #[error("there is no key `{key}`{}", suggestion(nearest.as_deref()))]
    NoSuchKey { key: String, nearest: Option<String> },
}

impl ConfigError {
    /// Returns the file to repair, with line and column if they are known.
    pub fn file(&self) -> Option<(&Path, Option<(usize, usize)>)> {
        match self {
            Self::Read { file, .. } | Self::Write { file, .. } => Some((file, None)),
            Self::Syntax { at, .. }
            | Self::UnknownKey { at, .. }
            | Self::WrongType { at, .. }
            | Self::BadValue { at, .. } => match at {
                Origin::File { file, line, column } => Some((file, Some((*line, *column)))),
                Origin::Default | Origin::Env { .. } => None,
            },
            Self::NoSuchKey { .. } => None,
        }
    }
}

/// Returns the location of a mistake.
fn spot(at: &Origin) -> String {
    match at {
        Origin::File { column, .. } => format!("{at}, column {column}"),
        Origin::Default | Origin::Env { .. } => at.to_string(),
    }
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Auto,
    On,
    Off,
}

/// The reaction to a push of commits whose lease has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrePush {
    Report,
    Strict,
    Off,
}

/// The way a unit's commits get to the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Fast-forward if possible, else a merge.
    Auto,
    FastForward,
    Merge,
    Squash,
}

/// The section `[merge]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merging {
    pub strategy: Strategy,
    pub target: Vec<String>,
    pub push: &'static str,
    pub policy: MergePolicy,
    pub validate: Vec<String>,
    pub validate_timeout: Duration,
    pub refuse_fewer_tests: bool,
    pub batch: usize,
    pub max_conflict_rounds: u32,
    pub wait: Duration,
}

/// The section `[dispatch]`. An unlimited amount is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispatching {
    pub agent: String,
    /// Empty if the agent has one account.
    pub account: String,
    pub command: Vec<String>,
    pub permission_mode: String,
    pub max_turns: Option<u32>,
    pub budget: Option<Usd>,
    pub budget_tokens: Option<u64>,
    pub day_budget: Option<Usd>,
    pub day_budget_tokens: Option<u64>,
    pub alert_percent: u64,
    pub timeout_secs: u64,
    pub idle_secs: u64,
    pub linger_secs: u64,
    pub grace_secs: u64,
    pub backoff_secs: u64,
    pub max_concurrent: u32,
    pub max_retries: u32,
    pub stagger_secs: u64,
    pub prices: Vec<Price>,
    pub park_secs: u64,
}

/// The section `[notify]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notifying {
    /// Program and arguments; empty for none.
    pub command: Vec<String>,
    /// Empty for none.
    pub webhook: String,
    pub on: Vec<String>,
    pub timeout: Duration,
}

/// One setting with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub value: Value,
    pub origin: Origin,
}

/// All settings, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    settings: BTreeMap<String, Setting>,
    /// Keys in the repository's file that count only in the user's own.
    left_out: Vec<(String, Origin)>,
}

/// The owner of a file of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    User,
    Repository,
}

/// The sources of the layers, as plain values.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The user's file, where `XDG_CONFIG_HOME` or `HOME` says.
    pub user: Option<PathBuf>,
    /// The user's file in the home folder of the account. No variable can change it.
    pub account: Option<PathBuf>,
    pub repository: Option<PathBuf>,
    pub env: Vec<(OsString, OsString)>,
    /// An agent asks: what it could have chosen itself loosens nothing ([`restraints`]).
    pub restrained: bool,
}

impl Sources {
    /// Returns the real sources for this place.
    pub fn from_process(place: &Place) -> Self {
        let ours = |name: &OsString| name.as_encoded_bytes().starts_with(PREFIX.as_bytes());
        let file = |folder: PathBuf| folder.join("config.toml");
        let home = account::home();
        let by_account = |name: &str| home.clone().map(OsString::from).filter(|_| name == "HOME");
        Self {
            user: user_folder(|name| std::env::var_os(name)).map(file),
            account: user_folder(by_account).map(file),
            repository: place.local_jit.as_ref().map(|local| local.join("config.toml")),
            env: std::env::vars_os().filter(|(name, _)| ours(name)).collect(),
            restrained: false,
        }
    }

    /// Removes the repository's file, for settings that only the user may decide.
    #[must_use]
    pub fn without_repository(self) -> Self {
        Self {
            repository: None,
            ..self
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        let fixed = KEYS.iter().map(|key| (key.name.to_owned(), key.default_value()));
        let ttl = TTL_DEFAULTS.iter().map(|(issue_type, holder, secs)| {
            (format!("{TTL_TABLE}.{issue_type}.{holder}"), Value::Int(*secs))
        });
        let origin = Origin::Default;
        let setting = |(name, value)| {
            (
                name,
                Setting {
                    value,
                    origin: origin.clone(),
                },
            )
        };
        Self {
            settings: fixed.chain(ttl).map(setting).collect(),
            left_out: Vec::new(),
        }
    }
}

impl Config {
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        Self::load_layers(sources, &|config: &mut Self| match &sources.repository {
            Some(file) => config.read_repositorys(file),
            None => Ok(()),
        })
    }

    /// Loads the layers with a committed file instead of the repository's file.
    pub fn load_committed(sources: &Sources, name: &Path, bytes: &[u8]) -> Result<Self, ConfigError> {
        Self::load_layers(sources, &|config: &mut Self| {
            config.read_file(Layer::Repository, name, bytes)
        })
    }

    fn load_layers(
        sources: &Sources,
        repository: &dyn Fn(&mut Self) -> Result<(), ConfigError>,
    ) -> Result<Self, ConfigError> {
        let load = |sources: &Sources| {
            let mut config = Self::default();
            if let Some(file) = &sources.user {
                config.read_users(file)?;
            }
            repository(&mut config)?;
            config.read_variables(sources)
        };
        let mut config = load(sources)?;
        config.restrain_if_asked(sources, &load);
        Ok(config)
    }

    /// The repository's file may come from a clone: no link is followed, and no pipe or device is read.
    fn read_repositorys(&mut self, file: &Path) -> Result<(), ConfigError> {
        let failed = |source| ConfigError::Read {
            file: file.to_owned(),
            source,
        };
        if let Some(folder) = file.parent() {
            jit_os::file::refuse_link(folder).map_err(failed)?;
        }
        match jit_os::file::read_real(file, MAX_FILE) {
            Ok(Some(bytes)) => self.read_file(Layer::Repository, file, &bytes),
            Ok(None) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(()),
            // The error for a link says more.
            Err(error) => Err(failed(jit_os::file::refuse_link(file).err().unwrap_or(error))),
        }
    }

    fn read_users(&mut self, file: &Path) -> Result<(), ConfigError> {
        match jit_git::files::read(file) {
            Ok(bytes) => self.read_file(Layer::User, file, &bytes),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                Ok(())
            }
            Err(source) => {
                let file = file.to_owned();
                Err(ConfigError::Read { file, source })
            }
        }
    }

    fn read_variables(mut self, sources: &Sources) -> Result<Self, ConfigError> {
        for (name, value) in &sources.env {
            self.read_variable(name, value)?;
        }
        self.finish()?;
        Ok(self)
    }

    /// Loads as much as can be read, for commands that report or repair mistakes in the settings.
    pub fn load_despite(sources: &Sources) -> (Self, Option<ConfigError>) {
        let error = match Self::load(sources) {
            Ok(config) => return (config, None),
            Err(error) => error,
        };
        let without = Sources {
            repository: None,
            ..sources.clone()
        };
        (Self::load(&without).unwrap_or_default(), Some(error))
    }

    /// Checks this file alone, on top of the defaults.
    fn check(file: &Path, text: &str) -> Result<(), ConfigError> {
        let mut config = Self::default();
        config.read_file(Layer::User, file, text.as_bytes())?;
        config.finish()
    }

    fn read_file(&mut self, layer: Layer, file: &Path, bytes: &[u8]) -> Result<(), ConfigError> {
        let document = match std::str::from_utf8(bytes) {
            Ok(text) => Document {
                file: file.into(),
                text,
            },
            Err(error) => {
                let (line, column) = position(bytes, error.valid_up_to());
                return Err(ConfigError::Syntax {
                    at: Origin::File {
                        file: file.into(),
                        line,
                        column,
                    },
                    why: "this is not UTF-8".to_owned(),
                });
            }
        };
        match DeTable::parse(document.text) {
            Ok(table) => self.read_table(layer, &document, "", table.get_ref()),
            Err(error) => Err(ConfigError::Syntax {
                at: document.origin(error.span().map_or(0, |span| span.start)),
                why: error.message().to_owned(),
            }),
        }
    }

    fn read_table(
        &mut self,
        layer: Layer,
        document: &Document<'_>,
        prefix: &str,
        table: &DeTable<'_>,
    ) -> Result<(), ConfigError> {
        // In the order of the file, so that the first mistake is reported.
        let mut entries: Vec<(&Spanned<_>, &Spanned<DeValue<'_>>)> = table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        for (name, value) in entries {
            let at = || document.origin(name.span().start);
            let full = if prefix.is_empty() {
                name.get_ref().to_string()
            } else {
                format!("{prefix}.{}", name.get_ref())
            };
            // A dot inside a quoted name is part of the name, and no key has one.
            let key = keys::find(&full).filter(|_| !name.get_ref().contains('.'));
            if let Some(key) = key {
                match key.from_toml(value.get_ref()) {
                    Ok(_) if layer == Layer::Repository && classes::is_users_own(&full) => {
                        self.left_out.push((full, at()));
                    }
                    Ok(_) if layer == Layer::Repository && self.has_users_word(&full) => {}
                    Ok(value) => self.put(full, value, at()),
                    Err(misfit) => return Err(does_not_fit(misfit, full, at())),
                }
            } else if !keys::is_section(&full) || name.get_ref().contains('.') {
                let nearest = keys::nearest(&full);
                let (at, key) = (at(), full);
                return Err(ConfigError::UnknownKey { at, key, nearest });
            } else if let DeValue::Table(inner) = value.get_ref() {
                self.read_table(layer, document, &full, inner)?;
            } else {
                return Err(ConfigError::WrongType {
                    at: at(),
                    key: full,
                    expected: "a table".to_owned(),
                    found: value.get_ref().type_str().to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Whether the user's own file has set this key, and holds over the repository's.
    fn has_users_word(&self, key: &str) -> bool {
        let origin = self.settings.get(key).map(|setting| &setting.origin);
        classes::is_users_first(key) && matches!(origin, Some(Origin::File { .. }))
    }

    fn read_variable(&mut self, name: &OsString, value: &OsString) -> Result<(), ConfigError> {
        let shown = name.to_string_lossy().into_owned();
        let Some(full) = key_of(&shown) else {
            return Ok(());
        };
        let at = Origin::Env { variable: shown };
        let Some(key) = keys::find(&full) else {
            let (nearest, key) = (keys::nearest(&full), full);
            return Err(ConfigError::UnknownKey { at, key, nearest });
        };
        let Some(text) = value.to_str() else {
            let why = "the value is not UTF-8".to_owned();
            return Err(ConfigError::BadValue { at, key: full, why });
        };
        match key.from_text(text) {
            Ok(value) => {
                self.put(full, value, at);
                Ok(())
            }
            Err(misfit) => Err(does_not_fit(misfit, full, at)),
        }
    }

    fn put(&mut self, key: String, value: Value, origin: Origin) {
        self.settings.insert(key, Setting { value, origin });
    }

    /// Checks rules that need all layers.
    fn finish(&mut self) -> Result<(), ConfigError> {
        let max = self.max_ttl_secs();
        let max_origin = self.setting("coordination.max_ttl_secs").origin.clone();
        let kinds = self.agent_kinds().to_vec();
        for (key, setting) in &mut self.settings {
            let ttl = keys::ttl_parts(key);
            if ttl.is_none() && key != "coordination.default_ttl_secs" {
                continue;
            }
            let at = setting.origin.clone();
            if let Some((issue_type, holder)) = ttl
                && !KINDS.contains(&holder)
                && !kinds.iter().any(|kind| kind == holder)
            {
                let guess = format!("{TTL_TABLE}.{issue_type}.{holder}");
                return Err(ConfigError::UnknownKey {
                    at,
                    key: key.clone(),
                    nearest: keys::nearest(&guess),
                });
            }
            let Value::Int(secs) = &mut setting.value else {
                continue;
            };
            if *secs > max && at == Origin::Default {
                *secs = max;
            } else if *secs > max {
                return Err(ConfigError::BadValue {
                    at,
                    key: key.clone(),
                    why: format!("{secs} s is longer than coordination.max_ttl_secs, {max} s ({max_origin})"),
                });
            }
        }
        Ok(())
    }

    /// Returns the keys in the repository's file that do not count there, with their places.
    pub fn left_out(&self) -> &[(String, Origin)] {
        &self.left_out
    }

    /// Returns every key with its value and origin, in the order of the names.
    pub fn show(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.settings.iter().map(|(key, setting)| (key.as_str(), setting))
    }

    pub fn get(&self, key: &str) -> Result<&Setting, ConfigError> {
        self.settings.get(key).ok_or_else(|| ConfigError::NoSuchKey {
            key: key.to_owned(),
            nearest: keys::nearest(key).filter(|near| near != key),
        })
    }

    pub fn origin(&self, key: &str) -> Result<&Origin, ConfigError> {
        self.get(key).map(|setting| &setting.origin)
    }

    pub fn mode(&self) -> Mode {
        match self.word("worktree.mode") {
            "on" => Mode::On,
            "off" => Mode::Off,
            _ => Mode::Auto,
        }
    }

    pub fn enforce_leases(&self) -> Enforce {
        match self.word("worktree.enforce_leases") {
            "strict-explicit" => Enforce::StrictExplicit,
            "warn" => Enforce::Warn,
            "off" => Enforce::Off,
            _ => Enforce::Strict,
        }
    }

    pub fn pre_push(&self) -> PrePush {
        match self.word("hooks.pre_push") {
            "strict" => PrePush::Strict,
            "off" => PrePush::Off,
            _ => PrePush::Report,
        }
    }

    pub fn default_ttl_secs(&self) -> u64 {
        self.int("coordination.default_ttl_secs")
    }

    pub fn max_ttl_secs(&self) -> u64 {
        self.int("coordination.max_ttl_secs")
    }

    pub fn heartbeat_interval_secs(&self) -> u64 {
        self.int("coordination.heartbeat_interval_secs")
    }

    pub fn lease_renewal_threshold_pct(&self) -> u64 {
        self.int("coordination.lease_renewal_threshold_pct")
    }

    pub fn lock_timeout_secs(&self) -> u64 {
        self.int("coordination.lock_timeout_secs")
    }

    /// Returns the default length of a lease: by issue type and holder kind, else by holder kind, else the general
    /// default (B5).
    pub fn ttl_secs(&self, issue_type: Option<&str>, holder_kind: &str) -> u64 {
        let find = |issue_type: &str| match self
            .settings
            .get(&format!("{TTL_TABLE}.{issue_type}.{holder_kind}"))
        {
            Some(Setting {
                value: Value::Int(secs),
                ..
            }) => Some(*secs),
            _ => None,
        };
        issue_type
            .and_then(find)
            .or_else(|| find("default"))
            .unwrap_or_else(|| self.default_ttl_secs())
    }

    /// Returns the same as rules for decisions.
    pub fn ttl_policy(&self) -> TtlPolicy {
        let mut rules = Vec::new();
        for (name, setting) in &self.settings {
            let rest = name
                .strip_prefix(TTL_TABLE)
                .and_then(|rest| rest.strip_prefix('.'));
            if let Some((kind, holder)) = rest.and_then(|rest| rest.rsplit_once('.'))
                && let Value::Int(secs) = setting.value
            {
                let kind = if kind == "default" { "*" } else { kind };
                rules.push((kind.to_owned(), holder.to_owned(), secs));
            }
        }
        // The first match counts, so rules for every type come last.
        rules.sort_by_key(|(kind, ..)| kind == "*");
        TtlPolicy {
            rules,
            default_secs: self.default_ttl_secs(),
            max_secs: self.max_ttl_secs(),
        }
    }

    pub fn require_main_history(&self) -> bool {
        self.flag("global_operations.require_main_history")
    }

    /// Empty means the detected default branch.
    pub fn allowed_branches(&self) -> &[String] {
        self.list("global_operations.allowed_branches")
    }

    /// Returns the patterns of ignored files that count as work.
    pub fn rescue_ignored(&self) -> &[String] {
        self.list("rescue.ignored")
    }

    /// Returns the days for which the trash is kept at least.
    pub fn rescue_keep_days(&self) -> u64 {
        self.int("rescue.keep_days")
    }

    /// Returns the kinds of agent ids besides the built-in ones.
    pub fn agent_kinds(&self) -> &[String] {
        self.list("agents.kinds")
    }

    /// Returns the reaction to an agent's write into another checkout.
    pub fn outside_worktree(&self) -> Guard {
        Guard::of(self.word("hooks.outside_worktree"))
    }

    /// Returns the reaction to an agent's use of the shared stash.
    pub fn stash(&self) -> Guard {
        Guard::of(self.word("hooks.stash"))
    }

    /// Returns the reaction to an agent's git command that would damage another agent's branch.
    pub fn destructive_git(&self) -> Guard {
        Guard::of(self.word("hooks.destructive_git"))
    }

    pub fn may_force_evict(&self) -> bool {
        self.flag("agents.may_force_evict")
    }

    /// Returns whether agents may approve commands. The repository's own file does not count: no part of a repository
    /// may help to approve its other parts.
    pub fn may_trust(&self, repository: Option<&Path>) -> bool {
        let own = match &self.setting("agents.may_trust").origin {
            Origin::File { file, .. } => Some(&**file) == repository,
            Origin::Default | Origin::Env { .. } => false,
        };
        self.flag("agents.may_trust") && !own
    }

    /// Returns the rules for actions of dispatched agents that would otherwise need a person. Use a configuration
    /// without the repository's own file ([`Sources::without_repository`]): a repository may not decide this.
    pub fn dispatch_allow(&self) -> &[String] {
        self.list("dispatch.allow")
    }

    /// Returns the settings that decisions follow. Gates that types require are added elsewhere.
    pub fn policy(&self) -> Policy {
        Policy {
            ttl: self.ttl_policy(),
            enforce: match self.mode() {
                Mode::Off => Enforce::Off,
                Mode::Auto | Mode::On => self.enforce_leases(),
            },
            agents_may_evict: self.may_force_evict(),
            agents_may_pass_gates: self.flag("agents.may_pass_gates"),
            agent_asks: false,
            session: None,
            live_sessions: Vec::new(),
            editor: None,
            gates_for: Vec::new(),
            gates: Vec::new(),
            gates_unknown: false,
            hierarchy: self
                .list("types.hierarchy")
                .iter()
                .map(|text| keys::chain(text))
                .collect(),
            locks: LockPolicy {
                worktree: (
                    self.int("locks.worktree_ttl_secs"),
                    self.int("locks.worktree_max_secs"),
                ),
                global: (
                    self.int("locks.global_ttl_secs"),
                    self.int("locks.global_max_secs"),
                ),
            },
        }
    }

    /// Returns the rules for the scope of locks: own rules first, then the built-in ones.
    pub fn lock_rules(&self) -> ScopeRules {
        let own = self.list("locks.rules").iter();
        let own = own.filter_map(|text| keys::scope_rule(text).ok());
        let own = own.map(|(pattern, scope)| ScopeRule { pattern, scope });
        let mut all = ScopeRules::preset(self.word("locks.preset")).unwrap_or_default();
        all.rules.splice(0..0, own);
        all
    }

    /// Returns the template for the path of a new unit's worktree.
    pub fn worktree_path(&self) -> &str {
        self.text("worktree.path")
    }

    /// Returns the template for the branch of a new unit.
    pub fn worktree_branch(&self) -> &str {
        self.text("worktree.branch")
    }

    pub fn provision_steps(&self) -> &[String] {
        self.list("worktree.provision")
    }

    pub fn provision_timeout_secs(&self) -> u64 {
        self.int("worktree.provision_timeout_secs")
    }

    pub fn min_free_mb(&self) -> u64 {
        self.int("worktree.min_free_mb")
    }

    pub fn ports_from(&self) -> u64 {
        self.int("worktree.ports_from")
    }

    pub fn submodules(&self) -> bool {
        self.flag("worktree.submodules")
    }

    /// Returns the files that a new worktree gets from the main checkout, and how.
    pub fn shared_files(&self) -> Vec<(Pattern, How)> {
        let rules = self.list("worktree.files").iter();
        rules
            .filter_map(|text| crate::config::file_rules::rule(text).ok())
            .collect()
    }

    fn text(&self, key: &'static str) -> &str {
        match &self.setting(key).value {
            Value::Text(text) => text,
            other => unreachable!("{key} holds {other}"),
        }
    }

    /// Returns how units land on their target.
    pub fn merging(&self) -> Merging {
        let size = |key: &'static str| usize::try_from(self.int(key)).unwrap_or(usize::MAX);
        let rules = self.list("merge.resolve");
        Merging {
            strategy: match self.word("merge.strategy") {
                "ff" => Strategy::FastForward,
                "merge" => Strategy::Merge,
                "squash" => Strategy::Squash,
                _ => Strategy::Auto,
            },
            target: self.list("merge.target").to_vec(),
            push: self.word("merge.push"),
            policy: MergePolicy::new(rules.iter().map(String::as_str)),
            validate: self.list("merge.validate").to_vec(),
            validate_timeout: Duration::from_secs(self.int("merge.validate_timeout_secs")),
            refuse_fewer_tests: self.word("merge.fewer_tests") == "refuse",
            batch: size("merge.batch"),
            max_conflict_rounds: u32::try_from(self.int("merge.max_conflict_rounds")).unwrap_or(u32::MAX),
            wait: Duration::from_secs(self.int("merge.wait_secs")),
        }
    }

    /// Returns how agents are started.
    pub fn dispatching(&self) -> Dispatching {
        let amount = |key: &'static str| Some(self.int(key)).filter(|amount| *amount > 0);
        let dollars = |key: &'static str| Some(self.dollars(key)).filter(|usd| usd.0 > 0);
        let small = |key: &'static str| u32::try_from(self.int(key)).unwrap_or(u32::MAX);
        Dispatching {
            agent: self.word("dispatch.agent").to_owned(),
            account: self.text("dispatch.account").to_owned(),
            command: self.list("dispatch.command").to_vec(),
            permission_mode: self.text("dispatch.permission_mode").to_owned(),
            max_turns: amount("dispatch.max_turns").map(|turns| u32::try_from(turns).unwrap_or(u32::MAX)),
            budget: dollars("dispatch.budget_usd"),
            budget_tokens: amount("dispatch.budget_tokens"),
            day_budget: dollars("dispatch.day_budget_usd"),
            day_budget_tokens: amount("dispatch.day_budget_tokens"),
            alert_percent: self.int("dispatch.alert_percent"),
            timeout_secs: self.int("dispatch.timeout_secs"),
            idle_secs: self.int("dispatch.idle_secs"),
            linger_secs: self.int("dispatch.linger_secs"),
            grace_secs: self.int("dispatch.grace_secs"),
            backoff_secs: self.int("dispatch.backoff_secs"),
            max_concurrent: small("dispatch.max_concurrent"),
            max_retries: small("dispatch.max_retries"),
            stagger_secs: self.int("dispatch.stagger_secs"),
            // Checked when they were read.
            prices: self
                .list("dispatch.prices")
                .iter()
                .filter_map(|text| Price::parse(text).ok())
                .collect(),
            park_secs: self.int("dispatch.park_secs"),
        }
    }

    /// Returns the recipients of notifications. They are the user's own: a repository may start no program and post
    /// nothing ([`classes`]).
    pub fn notifying(&self) -> Notifying {
        Notifying {
            command: self.list("notify.command").to_vec(),
            webhook: self.text("notify.webhook").to_owned(),
            on: self.list("notify.on").to_vec(),
            timeout: Duration::from_secs(self.int("notify.timeout_secs")),
        }
    }

    /// Returns the time without a heartbeat after which a session is stale.
    pub fn stale_after_ms(&self) -> i64 {
        let secs = self
            .heartbeat_interval_secs()
            .saturating_mul(self.int("sessions.missed_beats"));
        i64::try_from(secs.saturating_mul(1000)).unwrap_or(i64::MAX)
    }

    /// Returns the types of agents besides the built-in ones, with the scope of their locks.
    pub fn agent_types(&self) -> Vec<(String, LockScope)> {
        let types = self.list("sessions.types").iter();
        types.filter_map(|text| keys::agent_type(text)).collect()
    }

    /// Returns a setting. Every fixed key has one from the start, of the type its key demands.
    fn setting(&self, key: &'static str) -> &Setting {
        match self.settings.get(key) {
            Some(setting) => setting,
            None => unreachable!("{key} has no default"),
        }
    }

    fn word(&self, key: &'static str) -> &'static str {
        match &self.setting(key).value {
            Value::Word(word) => word,
            other => unreachable!("{key} holds {other}"),
        }
    }

    fn int(&self, key: &'static str) -> u64 {
        match &self.setting(key).value {
            Value::Int(number) => *number,
            other => unreachable!("{key} holds {other}"),
        }
    }

    fn dollars(&self, key: &'static str) -> Usd {
        match &self.setting(key).value {
            Value::Dollars(usd) => *usd,
            other => unreachable!("{key} holds {other}"),
        }
    }

    fn flag(&self, key: &'static str) -> bool {
        match &self.setting(key).value {
            Value::Flag(flag) => *flag,
            other => unreachable!("{key} holds {other}"),
        }
    }

    fn list(&self, key: &'static str) -> &[String] {
        match &self.setting(key).value {
            Value::List(items) => items,
            other => unreachable!("{key} holds {other}"),
        }
    }
}

struct Document<'a> {
    file: Arc<Path>,
    text: &'a str,
}

impl Document<'_> {
    fn origin(&self, offset: usize) -> Origin {
        let (line, column) = position(self.text.as_bytes(), offset);
        Origin::File {
            file: self.file.clone(),
            line,
            column,
        }
    }
}

/// Returns line and column of a byte, counted from one.
fn position(text: &[u8], offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let start = before
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |newline| newline + 1);
    let line = 1 + before.iter().filter(|b| **b == b'\n').count();
    let column = 1 + String::from_utf8_lossy(before.get(start..).unwrap_or_default())
        .chars()
        .count();
    (line, column)
}

fn does_not_fit(misfit: Misfit, key: String, at: Origin) -> ConfigError {
    match misfit {
        Misfit::Type { expected, found } => ConfigError::WrongType {
            at,
            key,
            expected,
            found: found.to_owned(),
        },
        Misfit::Value(why) => ConfigError::BadValue { at, key, why },
    }
}

/// Returns the key with this name, or an error that names the nearest one.
fn require_key(name: &str) -> Result<&'static Key, ConfigError> {
    keys::find(name).ok_or_else(|| ConfigError::NoSuchKey {
        key: name.to_owned(),
        nearest: keys::nearest(name),
    })
}
