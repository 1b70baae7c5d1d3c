//! Upkeep of the queue of ready work, with every event, so that picking does not look at every issue.
//!
//! An issue is queued when its state is one of work to be done, it is not marked as blocked, everything it depends on
//! is closed, and no agent has a lease on it. Best is: the more urgent priority, then the longer chain of open issues that
//! wait for it, then the older.
//!
//! # Keys
//!
//! | key | value |
//! |---|---|
//! | `p/<issue>/<dependent>` | nothing: the second depends on the first |
//! | `u/<parent>/<child>` | nothing |
//! | `v/<parent>/<child>` | nothing: the child is open |
//! | `j/<issue>` | how long the chain of open issues is that wait for it, and its rank when it could be queued |
//! | `r/<rank>/<issue>` | nothing: it is queued |
//!
//! Limitation: chains are counted up to `LONGEST`. That bounds what one change can move, even where a merge has made
//! a cycle of dependencies.

use crate::log::state;
use crate::log::table::{Overlay, Read, Table};
use crate::model::ids::IssueId;
use crate::model::issue::Issue;
use crate::model::lease::Resource;

/// Longest chain that is told from shorter ones.
const LONGEST: u32 = 63;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct QueuePlace {
    pub chain: u32,
    pub rank: Option<String>,
}

pub(crate) fn place(table: &dyn Table, key: &str) -> Read<QueuePlace> {
    let Some(bytes) = table.get(&format!("j/{key}"))? else {
        return Ok(QueuePlace::default());
    };
    let text = String::from_utf8_lossy(&bytes);
    let (chain, rank) = text.split_once(' ').unwrap_or((&text, ""));
    Ok(QueuePlace {
        chain: chain.parse().unwrap_or(0),
        rank: (!rank.is_empty()).then(|| rank.to_owned()),
    })
}

pub(crate) fn keys_under(table: &dyn Table, prefix: &str) -> Read<Vec<String>> {
    let found = table.scan(prefix, usize::MAX)?;
    Ok(found
        .into_iter()
        .map(|(key, _)| key[prefix.len()..].to_owned())
        .collect())
}

/// Keys of the issues that depend on this one.
pub fn dependents(table: &dyn Table, key: &str) -> Read<Vec<String>> {
    keys_under(table, &format!("p/{key}/"))
}

/// Whether nothing more is to be done about it. What was deleted stands in nobody's way; what is unknown does.
fn is_settled(table: &dyn Table, key: &str) -> Read<bool> {
    match state::issue_at(table, key)? {
        Some(issue) => Ok(issue.state.is_closed()),
        None => state::was_deleted(table, key),
    }
}

/// Open dependencies of an issue.
pub fn open_dependencies(table: &dyn Table, issue: &Issue) -> Read<Vec<IssueId>> {
    let mut open = Vec::new();
    for id in &issue.depends_on {
        if !is_settled(table, &id.key())? {
            open.push(id.clone());
        }
    }
    Ok(open)
}

fn is_open(issue: Option<&Issue>) -> bool {
    issue.is_some_and(|issue| !issue.state.is_closed())
}

/// After an issue came to be `new` from `old`; `None` is one that is not there.
pub fn moved(table: &mut Overlay<'_>, key: &str, old: Option<&Issue>, new: Option<&Issue>) -> Read<()> {
    let deps = |issue: Option<&Issue>| -> Vec<String> {
        issue.map_or(Vec::new(), |issue| {
            issue.depends_on.iter().map(IssueId::key).collect()
        })
    };
    let (before, after) = (deps(old), deps(new));
    for gone in before.iter().filter(|dep| !after.contains(dep)) {
        table.remove(format!("p/{gone}/{key}"));
    }
    for added in after.iter().filter(|dep| !before.contains(dep)) {
        table.put(format!("p/{added}/{key}"), Vec::new());
    }
    let parent = |issue: Option<&Issue>| issue.and_then(|issue| issue.parent.as_ref().map(IssueId::key));
    let open = |issue: Option<&Issue>| parent(issue.filter(|issue| !issue.state.is_closed()));
    for (kind, was_in, is_in) in [("u", parent(old), parent(new)), ("v", open(old), open(new))] {
        if was_in == is_in {
            continue;
        }
        if let Some(parent) = was_in {
            table.remove(format!("{kind}/{parent}/{key}"));
        }
        if let Some(parent) = is_in {
            table.put(format!("{kind}/{parent}/{key}"), Vec::new());
        }
    }
    let mut todo = vec![key.to_owned()];
    if is_open(old) != is_open(new) || old.is_none() != new.is_none() {
        todo.extend(dependents(table, key)?);
    }
    todo.extend(before.into_iter().filter(|dep| !after.contains(dep)));
    todo.extend(after);
    while let Some(key) = todo.pop() {
        let issue = state::issue_at(table, &key)?;
        let was = place(table, &key)?;
        let is = placed(table, &key, issue.as_ref())?;
        if was == is {
            continue;
        }
        if was.chain != is.chain {
            // The chain behind each of its dependencies is now longer or shorter.
            todo.extend(deps(issue.as_ref()));
        }
        dequeue(table, &key, &was);
        if issue.is_some() {
            let rank = is.rank.as_deref().unwrap_or_default();
            table.put(format!("j/{key}"), format!("{} {rank}", is.chain).into_bytes());
        } else {
            table.remove(format!("j/{key}"));
        }
        if state::lease_on(table, &resource_key(&key))?.is_none() {
            enqueue(table, &key, &is);
        }
    }
    Ok(())
}

fn resource_key(key: &str) -> String {
    // Resource::Issue(id).key(), for an id that is at hand only as a key.
    format!("issue:{key}")
}

/// Where an issue belongs, leases left out of account.
fn placed(table: &dyn Table, key: &str, issue: Option<&Issue>) -> Read<QueuePlace> {
    let Some(issue) = issue.filter(|issue| !issue.state.is_closed()) else {
        return Ok(QueuePlace::default());
    };
    let mut longest = 0;
    for dependent in dependents(table, key)? {
        longest = longest.max(place(table, &dependent)?.chain);
    }
    let chain = (longest + 1).min(LONGEST);
    let offered =
        issue.state.is_offered() && issue.blocked.is_none() && open_dependencies(table, issue)?.is_empty();
    let rank = offered.then(|| {
        let urgency = issue.priority as u8;
        let at = issue.created_at.ms().max(0);
        format!("{urgency}{:02}{at:015}", LONGEST - chain)
    });
    Ok(QueuePlace { chain, rank })
}

fn enqueue(table: &mut Overlay<'_>, key: &str, place: &QueuePlace) {
    if let Some(rank) = &place.rank {
        table.put(format!("r/{rank}/{key}"), Vec::new());
    }
}

fn dequeue(table: &mut Overlay<'_>, key: &str, place: &QueuePlace) {
    if let Some(rank) = &place.rank {
        table.remove(format!("r/{rank}/{key}"));
    }
}

/// Removes an issue that was acquired from the queue.
pub fn taken(table: &mut Overlay<'_>, resource: &Resource) -> Read<()> {
    if let Some(id) = resource.issue() {
        let key = id.key();
        let place = place(table, &key)?;
        dequeue(table, &key, &place);
    }
    Ok(())
}

/// Puts an issue that was released back into the queue.
pub fn returned(table: &mut Overlay<'_>, resource: &Resource) -> Read<()> {
    if let Some(id) = resource.issue() {
        let key = id.key();
        let place = place(table, &key)?;
        enqueue(table, &key, &place);
    }
    Ok(())
}
