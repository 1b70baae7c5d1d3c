//! The class of each setting: what a value in a repository's own file can do to the user who cloned it (L1).
//!
//! What must hold:
//! - Every key has exactly one class. A new key without one fails a test, and counts as [`Class::Trusted`] until then.
//! - A value that starts a program, or reaches somebody outside, is [`Class::Trusted`]. It needs `jit trust`, or it counts
//!   only in the user's own file ([`is_users_own`]).
//! - A value that names a path, a file or a branch is [`Class::Confined`]: it cannot leave its place.
//! - Everything else is [`Class::Inert`]: at worst work is refused, delayed, or less guarded.

use super::keys::TTL_TABLE;
pub use crate::api::config::SettingClass as Class;
use Class::{Confined, Inert, Trusted};

/// All keys with a fixed name, sorted, and the table of lease lengths.
const CLASS_OF: &[(&str, Class)] = &[
    ("agents.kinds", Inert),
    ("agents.may_force_evict", Inert),
    ("agents.may_pass_gates", Inert),
    ("agents.may_trust", Trusted),
    ("coordination.default_ttl_secs", Inert),
    ("coordination.heartbeat_interval_secs", Inert),
    ("coordination.lease_renewal_threshold_pct", Inert),
    ("coordination.lock_timeout_secs", Inert),
    ("coordination.max_ttl_secs", Inert),
    ("coordination.ttl", Inert),
    ("dispatch.account", Inert),
    ("dispatch.agent", Inert),
    ("dispatch.alert_percent", Inert),
    ("dispatch.allow", Trusted),
    ("dispatch.backoff_secs", Inert),
    ("dispatch.budget_tokens", Inert),
    ("dispatch.budget_usd", Inert),
    ("dispatch.command", Trusted),
    ("dispatch.day_budget_tokens", Inert),
    ("dispatch.day_budget_usd", Inert),
    ("dispatch.grace_secs", Inert),
    ("dispatch.idle_secs", Inert),
    ("dispatch.linger_secs", Inert),
    ("dispatch.max_concurrent", Inert),
    ("dispatch.max_retries", Inert),
    ("dispatch.max_turns", Inert),
    ("dispatch.park_secs", Inert),
    ("dispatch.permission_mode", Trusted),
    ("dispatch.prices", Inert),
    ("dispatch.stagger_secs", Inert),
    ("dispatch.timeout_secs", Inert),
    ("global_operations.allowed_branches", Confined),
    ("global_operations.require_main_history", Inert),
    ("hooks.destructive_git", Inert),
    ("hooks.outside_worktree", Inert),
    ("hooks.pre_push", Inert),
    ("hooks.stash", Inert),
    ("locks.global_max_secs", Inert),
    ("locks.global_ttl_secs", Inert),
    ("locks.preset", Inert),
    ("locks.rules", Inert),
    ("locks.worktree_max_secs", Inert),
    ("locks.worktree_ttl_secs", Inert),
    ("merge.batch", Inert),
    ("merge.fewer_tests", Inert),
    ("merge.max_conflict_rounds", Inert),
    ("merge.push", Inert),
    ("merge.resolve", Trusted),
    ("merge.strategy", Inert),
    ("merge.target", Confined),
    ("merge.validate", Trusted),
    ("merge.validate_timeout_secs", Inert),
    ("merge.wait_secs", Inert),
    ("notify.command", Trusted),
    ("notify.on", Trusted),
    ("notify.timeout_secs", Trusted),
    ("notify.webhook", Trusted),
    ("rescue.ignored", Confined),
    ("rescue.keep_days", Inert),
    ("sessions.missed_beats", Inert),
    ("sessions.types", Inert),
    ("types.hierarchy", Inert),
    ("worktree.branch", Confined),
    ("worktree.enforce_leases", Inert),
    ("worktree.files", Confined),
    ("worktree.min_free_mb", Inert),
    ("worktree.mode", Inert),
    ("worktree.path", Confined),
    ("worktree.ports_from", Inert),
    ("worktree.provision", Trusted),
    ("worktree.provision_timeout_secs", Inert),
    ("worktree.submodules", Inert),
];

/// Keys that count only in the user's own file and in variables. Values in a repository's file are left out.
const USERS_OWN: &[&str] = &[
    "agents.may_trust",
    "dispatch.allow",
    "notify.command",
    "notify.on",
    "notify.timeout_secs",
    "notify.webhook",
];

/// Keys of which the user's own value holds over the repository's: they say where files go on this machine.
const USERS_FIRST: &[&str] = &["worktree.path"];

fn listed(name: &str) -> Option<Class> {
    let below_ttl = name.strip_prefix(TTL_TABLE);
    let name = match below_ttl.is_some_and(|rest| rest.starts_with('.')) {
        true => TTL_TABLE,
        false => name,
    };
    let found = CLASS_OF.binary_search_by_key(&name, |(key, _)| key).ok()?;
    CLASS_OF.get(found).map(|(_, class)| *class)
}

/// Returns the class of a key.
pub fn class(name: &str) -> Class {
    listed(name).unwrap_or(Trusted)
}

/// Returns whether a repository's own file cannot set this key.
pub fn is_users_own(name: &str) -> bool {
    USERS_OWN.contains(&name)
}

/// Returns whether the user's own value of this key holds over the repository's.
pub fn is_users_first(name: &str) -> bool {
    USERS_FIRST.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys::{KEYS, Kind};

    #[test]
    fn l1_every_key_has_a_class() {
        assert!(CLASS_OF.is_sorted_by_key(|(key, _)| key));
        for key in KEYS {
            assert!(listed(key.name).is_some(), "{} has no class", key.name);
        }
        for (name, _) in CLASS_OF {
            let is_key = *name == TTL_TABLE || KEYS.iter().any(|key| key.name == *name);
            assert!(is_key, "there is no key {name}");
        }
        assert_eq!(listed("coordination.ttl.task.agent"), Some(Inert));
        assert_eq!(listed("nonsense"), None);
        assert_eq!(class("nonsense"), Trusted);
    }

    /// The type of a value tells how dangerous it can be at least.
    #[test]
    fn l1_kinds_that_start_programs_are_trusted_and_kinds_that_name_places_confined() {
        for key in KEYS {
            let class = class(key.name);
            let expected = match key.kind {
                Kind::Commands | Kind::Words | Kind::MergeRules | Kind::ToolRules | Kind::Url => {
                    Some(Trusted)
                }
                Kind::Patterns | Kind::FileRules | Kind::Branches => Some(Confined),
                Kind::Template => {
                    assert_ne!(class, Inert, "{}", key.name);
                    None
                }
                _ => None,
            };
            if let Some(expected) = expected {
                assert_eq!(class, expected, "{}", key.name);
            }
        }
    }

    /// The page about settings has a row for each key, as the program knows it.
    #[test]
    fn l1_the_table_in_the_documentation_is_complete() {
        let page = include_str!("../../../../docs/settings.md");
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        let mut expected = Vec::new();
        for key in KEYS {
            let default = key.default_value().to_string().replace('|', "\\|");
            let help = key.help.replace('|', "\\|");
            expected.push(format!(
                "| `{}` | {} | `{default}` | {help} |",
                key.name,
                class(key.name)
            ));
        }
        for row in &expected {
            assert!(
                rows.contains(&row.as_str()),
                "docs/settings.md lacks the row:\n{row}"
            );
        }
        for row in rows.iter().filter(|row| row.matches('|').count() == 5) {
            assert!(
                expected.iter().any(|one| one == row),
                "docs/settings.md has an old row:\n{row}"
            );
        }
    }
}
