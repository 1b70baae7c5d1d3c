//! The queue of ready work: issues that can be taken now, best first, and the parts and dependents of an issue.
//!
//! [`crate::log::ready_index`] says how it is ordered, and keeps it.

use std::collections::HashSet;

use smol_str::SmolStr;

pub use crate::log::ready_index::{dependents, open_dependencies};

use crate::log::ready_index::{keys_under, place};
use crate::log::state;
use crate::log::stop::Stop;
use crate::log::table::{Read, Table};
use crate::model::ids::IssueId;
use crate::model::issue::{ACTIVITY, Issue};

/// Keys of the issues that are parts of this one.
pub fn parts(table: &dyn Table, key: &str) -> Read<Vec<String>> {
    keys_under(table, &format!("u/{key}/"))
}

/// The parts of it that are neither done nor rejected. What it is itself a part of, by a circle that a merge or an edit has
/// made, does not count: each would wait for the other.
pub fn open_parts(table: &dyn Table, key: &str) -> Read<Vec<IssueId>> {
    let mut open = Vec::new();
    for part in parts(table, key)? {
        let part = state::issue_at(table, &part)?;
        open.extend(part.filter(|part| !part.state.is_closed()).map(|part| part.id));
    }
    if open.is_empty() {
        return Ok(open);
    }
    let mut above: Vec<String> = Vec::new();
    let mut next = state::issue_at(table, key)?.and_then(|issue| issue.parent);
    while let Some(whole) = next
        .take()
        .map(|id| id.key())
        .filter(|whole| !above.contains(whole))
    {
        next = state::issue_at(table, &whole)?.and_then(|issue| issue.parent);
        above.push(whole);
    }
    open.retain(|part| !above.contains(&part.key()));
    Ok(open)
}

/// Whether something is to be done about a part of it.
pub fn has_open_parts(table: &dyn Table, key: &str) -> Read<bool> {
    Ok(!table.scan(&format!("v/{key}/"), 1)?.is_empty())
}

/// Keys of the issues that have open parts.
pub fn wholes(table: &dyn Table) -> Read<HashSet<String>> {
    let mut keys = HashSet::new();
    table.visit("v/", &mut |key, _| {
        let whole = key.strip_prefix("v/").and_then(|rest| rest.split_once('/'));
        if let Some((whole, _)) = whole
            && !keys.contains(whole)
        {
            keys.insert(whole.to_owned());
        }
        Ok(())
    })?;
    Ok(keys)
}

/// The rank of an issue that would be queued if nobody held it.
pub fn rank(table: &dyn Table, key: &str) -> Read<Option<String>> {
    Ok(place(table, key)?.rank)
}

/// The first `limit` keys in the queue, best first, each with its rank.
pub fn queued(table: &dyn Table, limit: usize) -> Read<Vec<(SmolStr, SmolStr)>> {
    let split = |key: &str| -> Option<(SmolStr, SmolStr)> {
        let (rank, key) = key.strip_prefix("r/")?.split_once('/')?;
        Some((rank.into(), key.into()))
    };
    if limit < usize::MAX {
        let found = table.scan("r/", limit)?;
        return Ok(found.iter().filter_map(|(key, _)| split(key)).collect());
    }
    let mut found = Vec::new();
    table.visit("r/", &mut |key, _| {
        found.extend(split(key));
        Ok(())
    })?;
    Ok(found)
}

/// Whether the work is in its parts. An activity is taken as a whole.
pub fn is_container(table: &dyn Table, issue: &Issue) -> Result<bool, Stop> {
    if issue.kind == ACTIVITY {
        return Ok(false);
    }
    Ok(has_open_parts(table, &issue.id.key())?)
}
