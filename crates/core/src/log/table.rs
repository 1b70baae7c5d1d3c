//! State as a sorted table of small records.
//!
//! Everything the log says is folded into keys and values. A command looks up the few records it needs, so its cost
//! does not grow with the number of leases or with history, and any engine that can get, scan and put keys can hold
//! the state: a map in memory, sorted files, or a key-value server.

use std::collections::BTreeMap;

/// The records could not be read: the engine's trouble, not a refusal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub String);

pub type Read<T> = Result<T, Unreadable>;

/// Read access.
pub trait Table {
    fn get(&self, key: &str) -> Read<Option<Vec<u8>>>;
    /// The first `limit` records whose keys begin with `prefix`, in key order.
    fn scan(&self, prefix: &str, limit: usize) -> Read<Vec<(String, Vec<u8>)>>;
    /// Every record whose key begins with `prefix`, in key order, without a copy of any.
    fn visit(&self, prefix: &str, each: &mut dyn FnMut(&str, &[u8]) -> Read<()>) -> Read<()> {
        for (key, value) in self.scan(prefix, usize::MAX)? {
            each(&key, &value)?;
        }
        Ok(())
    }
}

/// A table in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryTable(pub BTreeMap<String, Vec<u8>>);

impl Table for MemoryTable {
    fn get(&self, key: &str) -> Read<Option<Vec<u8>>> {
        Ok(self.0.get(key).cloned())
    }

    fn scan(&self, prefix: &str, limit: usize) -> Read<Vec<(String, Vec<u8>)>> {
        let from = self
            .0
            .range::<str, _>((std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded));
        Ok(from
            .take_while(|(k, _)| k.starts_with(prefix))
            .take(limit)
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect())
    }
}

/// Changes on top of a table; `None` removes.
pub type TableChanges = BTreeMap<String, Option<Vec<u8>>>;

impl MemoryTable {
    pub fn absorb(&mut self, changes: TableChanges) {
        for (key, value) in changes {
            match value {
                Some(value) => self.0.insert(key, value),
                None => self.0.remove(&key),
            };
        }
    }
}

/// A table with changes on top, seen as one.
pub struct Overlay<'a> {
    base: &'a dyn Table,
    pub changes: TableChanges,
}

impl std::fmt::Debug for Overlay<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Overlay")
            .field("changes", &self.changes.len())
            .finish()
    }
}

impl<'a> Overlay<'a> {
    pub fn new(base: &'a dyn Table) -> Self {
        Self {
            base,
            changes: TableChanges::new(),
        }
    }

    pub fn put(&mut self, key: String, value: Vec<u8>) {
        self.changes.insert(key, Some(value));
    }

    pub fn remove(&mut self, key: String) {
        self.changes.insert(key, None);
    }
}

impl Table for Overlay<'_> {
    fn get(&self, key: &str) -> Read<Option<Vec<u8>>> {
        match self.changes.get(key) {
            Some(change) => Ok(change.clone()),
            None => self.base.get(key),
        }
    }

    fn scan(&self, prefix: &str, limit: usize) -> Read<Vec<(String, Vec<u8>)>> {
        // Ask for as many more as could have been removed or replaced on top.
        let from = self
            .changes
            .range::<str, _>((std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded));
        let on_top: Vec<_> = from.take_while(|(k, _)| k.starts_with(prefix)).collect();
        let mut merged: BTreeMap<String, Vec<u8>> = self
            .base
            .scan(prefix, limit.saturating_add(on_top.len()))?
            .into_iter()
            .collect();
        for (key, change) in on_top {
            match change {
                Some(value) => merged.insert(key.clone(), value.clone()),
                None => merged.remove(key),
            };
        }
        Ok(merged.into_iter().take(limit).collect())
    }
}
