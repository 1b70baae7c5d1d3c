//! FieldVersion vectors: which changes of a field a version of it contains.
//!
//! Two copies of an issue go separate ways: two branches, two clones, a log and a tree. Each field has a vector, which
//! says for every log how many of its events the author of this version knew that changed the field. So two versions
//! compare without a clock, a common ancestor or git's history:
//!
//! | vectors | meaning |
//! |---|---|
//! | one contains the other | the larger one is later |
//! | neither contains the other, same value | no conflict |
//! | neither contains the other, or both are equal, and the values differ | conflict |
//!
//! # Format
//!
//! `<name>:<number>`, joined by commas, sorted by name. A name is one of:
//!
//! - a log id, 16 hex digits: the number is the sequence of that log's last change of the field;
//! - `h` and 16 hex digits, an edit by hand: a hash of the vector beside it, the field and the value, so every clone
//!   names one edit alike. The number is 1. At most [`MOST_EDITS`] of them are kept;
//! - `t`, a stamp of an older program: the number is the time of the change, in milliseconds.
//!
//! # What must hold
//!
//! - A vector that jit writes after a change contains the vectors of all versions that the change replaces.
//! - Dropping an entry may report a conflict that is none. It never makes a version lose.
//! - [`Versions`] keeps the maximal versions of a field: it depends on the set of versions that were taken in, not on
//!   their order.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde_json::Value;
use smol_str::SmolStr;
use xxhash_rust::xxh3::xxh3_64;

use crate::model::time::Wall;

/// The most edits by hand that one vector names.
pub const MOST_EDITS: usize = 8;
/// The most versions of one field that are kept.
pub const MOST_VERSIONS: usize = 8;
/// The most entries of a vector in a file. More do not come from jit.
const MOST_ENTRIES: usize = 1_000;
/// The name of a stamp that is a time.
const TIME: &str = "t";
/// The first letter of an edit by hand.
const EDIT: char = 'h';

/// 64 random bits that name a log: new where a log begins or may have been copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId(pub u64);

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The changes that a version of a field contains.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Vector(BTreeMap<SmolStr, u64>);

impl Vector {
    /// The vector of a stamp that an older program wrote.
    pub fn at(time: Wall) -> Self {
        let ms = u64::try_from(time.ms()).unwrap_or(0);
        Self(BTreeMap::from([(SmolStr::new_static(TIME), ms)]))
    }

    /// The vector of a change by a log, made with these versions known.
    pub fn changed<'a>(known: impl IntoIterator<Item = &'a Self>, log: LogId, sequence: u64) -> Self {
        let mut vector = Self::join(known);
        let entry = vector.0.entry(log.to_string().into()).or_default();
        *entry = sequence.max(*entry);
        vector
    }

    /// The vector of an edit by hand: a field has this value, and beside it stands this vector, which is not of the value.
    pub fn edited(beside: &Self, field: &str, value: &Value) -> Self {
        let text = format!("{beside}\0{field}\0{value}");
        let name = format!("{EDIT}{:016x}", xxh3_64(text.as_bytes()));
        let mut vector = beside.clone();
        vector.limit_edits(MOST_EDITS - 1);
        vector.0.insert(name.into(), 1);
        vector
    }

    /// The least vector that contains all of these, but for edits by hand beyond [`MOST_EDITS`].
    pub fn join<'a>(vectors: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut joined = Self::default();
        for (name, number) in vectors.into_iter().flat_map(|vector| &vector.0) {
            let entry = joined.0.entry(name.clone()).or_default();
            *entry = (*number).max(*entry);
        }
        joined.limit_edits(MOST_EDITS);
        joined
    }

    /// Keeps this many edits by hand, the last by name: every clone keeps the same ones.
    fn limit_edits(&mut self, most: usize) {
        let edits = self.0.keys().filter(|name| name.starts_with(EDIT));
        let excess = edits.clone().count().saturating_sub(most);
        for name in edits.take(excess).cloned().collect::<Vec<_>>() {
            self.0.remove(&name);
        }
    }

    /// Whether this version knew everything that the other one contains.
    pub fn contains(&self, other: &Self) -> bool {
        let has = |(name, number): (&SmolStr, &u64)| self.0.get(name).is_some_and(|ours| ours >= number);
        other.0.iter().all(has)
    }

    /// `None` where neither contains the other.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self.contains(other), other.contains(self)) {
            (true, true) => Some(Ordering::Equal),
            (true, false) => Some(Ordering::Greater),
            (false, true) => Some(Ordering::Less),
            (false, false) => None,
        }
    }
}

impl fmt::Display for Vector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (name, number)) in self.0.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            write!(f, "{comma}{name}:{number}")?;
        }
        Ok(())
    }
}

/// A text that is neither a vector nor the time of an older program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a version vector: {0:.100}")]
pub struct BadVector(String);

impl FromStr for Vector {
    type Err = BadVector;

    fn from_str(text: &str) -> Result<Self, BadVector> {
        let bad = || BadVector(text.to_owned());
        if let Ok(time) = text.parse::<Wall>() {
            return Ok(Self::at(time));
        }
        let mut all = BTreeMap::new();
        for entry in text.split(',') {
            let (name, number) = entry.split_once(':').ok_or_else(bad)?;
            let number = number.parse().map_err(|_| bad())?;
            let is_new = all.insert(SmolStr::new(name), number).is_none();
            if !is_new || !is_name(name) || all.len() > MOST_ENTRIES {
                return Err(bad());
            }
        }
        let vector = Self(all);
        // One spelling, so that equal vectors are equal texts.
        (vector.to_string() == text).then_some(vector).ok_or_else(bad)
    }
}

fn is_name(name: &str) -> bool {
    let hex = name.strip_prefix(EDIT).unwrap_or(name);
    let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    name == TIME || (hex.len() == 16 && hex.bytes().all(is_digit))
}

/// A value of a field, and the changes it contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldVersion {
    pub value: Value,
    pub vector: Vector,
}

impl FieldVersion {
    /// Whether both say the same, or one of them is later. Then there is nothing to settle.
    pub fn agrees_with(&self, other: &Self) -> bool {
        let order = self.vector.compare(&other.vector);
        self.value == other.value || !matches!(order, None | Some(Ordering::Equal))
    }

    /// Which of two versions git's merge takes; `None` where a person has to choose. Of two that say the same without
    /// knowing of each other the stamp stays that is greater as text. The vectors are not joined: the result would claim
    /// to contain changes that its author never saw.
    pub fn merge<'a>(ours: &'a Self, theirs: &'a Self) -> Option<&'a Self> {
        match ours.vector.compare(&theirs.vector) {
            Some(Ordering::Greater) => Some(ours),
            Some(Ordering::Less) => Some(theirs),
            _ if ours.value != theirs.value => None,
            _ => Some(if ours.rank() >= theirs.rank() {
                ours
            } else {
                theirs
            }),
        }
    }

    fn rank(&self) -> String {
        self.vector.to_string()
    }
}

/// The effect of taking in a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It was known, or a known one is later.
    Known,
    /// It was kept. The field may be in conflict now.
    Kept,
    /// There are too many versions in conflict: nothing changed, and the version is not known.
    Full,
}

/// The versions of a field of which none is later than another; the first one is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versions(Vec<FieldVersion>);

impl Versions {
    pub fn new(first: FieldVersion) -> Self {
        Self(vec![first])
    }

    pub fn shown(&self) -> &FieldVersion {
        &self.0[0]
    }

    pub fn all(&self) -> &[FieldVersion] {
        &self.0
    }

    /// The versions that say something else than the shown one.
    pub fn rivals(&self) -> impl Iterator<Item = &FieldVersion> {
        self.0
            .iter()
            .filter(|version| version.value != self.shown().value)
    }

    pub fn take(&mut self, new: FieldVersion) -> Taken {
        let is_known = |ours: &FieldVersion| match ours.vector.compare(&new.vector) {
            Some(Ordering::Greater) => true,
            Some(Ordering::Equal) => ours.value == new.value,
            _ => false,
        };
        if self.0.iter().any(is_known) {
            return Taken::Known;
        }
        let is_earlier = |ours: &FieldVersion| new.vector.compare(&ours.vector) == Some(Ordering::Greater);
        let mut kept: Vec<FieldVersion> = self.0.iter().filter(|ours| !is_earlier(ours)).cloned().collect();
        kept.push(new);
        while kept.len() > MOST_VERSIONS {
            // A version may only give way to one that says the same.
            let gives_way = |one: &FieldVersion| {
                let stays = |other: &FieldVersion| other.value == one.value && other.rank() > one.rank();
                kept.iter().any(stays)
            };
            let Some(least) = kept.iter().skip(1).position(gives_way) else {
                return Taken::Full;
            };
            kept.remove(least + 1);
        }
        self.0 = kept;
        Taken::Kept
    }

    /// Sets the field: the new version is later than all that are known here.
    pub fn change(&mut self, value: Value, log: LogId, sequence: u64) {
        let vector = Vector::changed(self.0.iter().map(|version| &version.vector), log, sequence);
        self.0 = vec![FieldVersion { value, vector }];
    }
}
