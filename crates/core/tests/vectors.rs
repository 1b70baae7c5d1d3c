//! C7: version vectors of fields, on generated histories of several clones. A slow judge remembers for every version which
//! changes its author really knew, and which versions each log has read.

use std::collections::BTreeSet;

use jit_core::issue_files::vector::{FieldVersion, LogId, MOST_VERSIONS, Taken, Vector, Versions};
use jit_core::model::time::Wall;
use serde_json::Value;

/// A field in a file: a value, the vector beside it, and whether the check beside it fits.
#[derive(Debug, Clone)]
struct Field {
    value: Value,
    vector: Vector,
    is_sound: bool,
    /// The changes that the vector beside the value was made of.
    knew: BTreeSet<usize>,
}

/// A version, with the truth about it: the changes its author knew, this one included.
#[derive(Debug, Clone)]
struct Truth {
    version: FieldVersion,
    knew: BTreeSet<usize>,
}

#[derive(Debug, Clone)]
struct Clone_ {
    log: LogId,
    sequence: u64,
    versions: Versions,
    /// Every version that this log has read or made.
    read: Vec<Truth>,
}

/// A generator of numbers from a seed: the same ones on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % end
    }
}

#[derive(Debug)]
struct History {
    clones: Vec<Clone_>,
    files: Vec<Field>,
    /// Names the next change in the judge's books.
    changes: usize,
    /// The edits by hand in the judge's books: one that two clones read is one change.
    edits: Vec<(String, usize)>,
}

impl History {
    fn new(clones: usize, dice: &mut Dice) -> Self {
        // Some issues were made by a program that stamped with times.
        let vector = match dice.below(3) {
            0 => Vector::at(Wall::from_ms(1_000)),
            _ => Vector::changed([], LogId(0), 1),
        };
        let version = FieldVersion {
            value: 0.into(),
            vector,
        };
        let first = Truth {
            version: version.clone(),
            knew: BTreeSet::from([0]),
        };
        let clone = |n: usize| Clone_ {
            log: LogId(0x1000 + n as u64),
            sequence: 10,
            versions: Versions::new(version.clone()),
            read: vec![first.clone()],
        };
        let file = Field {
            value: version.value.clone(),
            vector: version.vector.clone(),
            is_sound: true,
            knew: first.knew.clone(),
        };
        Self {
            clones: (0..clones).map(clone).collect(),
            files: vec![file],
            changes: 1,
            edits: Vec::new(),
        }
    }

    fn next_change(&mut self) -> usize {
        self.changes += 1;
        self.changes - 1
    }

    /// The version in a file, as every clone reads it.
    fn version(&mut self, file: usize) -> Truth {
        let field = self.files[file].clone();
        if field.is_sound {
            let version = FieldVersion {
                value: field.value,
                vector: field.vector,
            };
            return Truth {
                version,
                knew: field.knew,
            };
        }
        let vector = Vector::edited(&field.vector, "title", &field.value);
        let name = format!("{} {}", field.vector, field.value);
        let change = match self.edits.iter().find(|(known, _)| *known == name) {
            Some((_, change)) => *change,
            None => {
                let change = self.next_change();
                self.edits.push((name, change));
                change
            }
        };
        let mut knew = field.knew;
        knew.insert(change);
        Truth {
            version: FieldVersion {
                value: field.value,
                vector,
            },
            knew,
        }
    }

    fn read(&mut self, clone: usize, file: usize) {
        let truth = self.version(file);
        let clone = &mut self.clones[clone];
        if clone.versions.take(truth.version.clone()) != Taken::Full {
            clone.read.push(truth);
        }
    }

    fn change(&mut self, clone: usize, value: usize) {
        let change = self.next_change();
        let clone = &mut self.clones[clone];
        clone.sequence += 1 + (value as u64 % 3);
        clone.versions.change(value.into(), clone.log, clone.sequence);
        let mut knew: BTreeSet<usize> = clone.read.iter().flat_map(|truth| truth.knew.clone()).collect();
        knew.insert(change);
        let version = clone.versions.shown().clone();
        clone.read.push(Truth {
            version: version.clone(),
            knew: knew.clone(),
        });
        self.files.push(Field {
            value: version.value,
            vector: version.vector,
            is_sound: true,
            knew,
        });
    }

    fn step(&mut self, dice: &mut Dice) {
        let (clone, file, value) = (
            dice.below(self.clones.len()),
            dice.below(self.files.len()),
            dice.below(4),
        );
        match dice.below(12) {
            0..4 => self.read(clone, file),
            4..7 => self.change(clone, value),
            7..9 => {
                // A person edits a file, of any age, so after a revert too.
                let mut field = self.files[file].clone();
                if field.value != value {
                    field.value = value.into();
                    field.is_sound = false;
                    self.files.push(field);
                }
            }
            9 | 10 => self.merge(file, dice),
            _ => {
                // The control plane is copied, or recovered: it goes on under another id.
                let mut copy = self.clones[clone].clone();
                copy.log = LogId(0x2000 + self.next_change() as u64);
                match dice.below(2) {
                    0 if self.clones.len() < 6 => self.clones.push(copy),
                    _ => self.clones[clone].log = copy.log,
                }
            }
        }
    }

    /// Git merges two files; where they are in conflict, a person chooses one value or another one.
    fn merge(&mut self, file: usize, dice: &mut Dice) {
        let other = dice.below(self.files.len());
        let (ours, theirs) = (self.version(file), self.version(other));
        let taken = FieldVersion::merge(&ours.version, &theirs.version);
        let merged = match taken {
            Some(version) => {
                let knew = if version == &ours.version {
                    &ours.knew
                } else {
                    &theirs.knew
                };
                let (value, vector) = (version.value.clone(), version.vector.clone());
                Field {
                    value,
                    vector,
                    is_sound: true,
                    knew: knew.clone(),
                }
            }
            None => Field {
                value: dice.below(4).into(),
                vector: Vector::join([&ours.version.vector, &theirs.version.vector]),
                is_sound: false,
                knew: ours.knew.union(&theirs.knew).copied().collect(),
            },
        };
        self.files.push(merged);
    }
}

/// The versions of which none is later, found by comparing all with all.
fn maximal(read: &[Truth]) -> BTreeSet<String> {
    let is_later = |a: &FieldVersion, b: &FieldVersion| a.vector != b.vector && a.vector.contains(&b.vector);
    read.iter()
        .filter(|one| !read.iter().any(|other| is_later(&other.version, &one.version)))
        .map(|one| format!("{} {}", one.version.value, one.version.vector))
        .collect()
}

fn kept(versions: &Versions) -> BTreeSet<String> {
    versions
        .all()
        .iter()
        .map(|one| format!("{} {}", one.value, one.vector))
        .collect()
}

/// All of the judge's findings about one history.
fn judge(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) + 1);
    let mut history = History::new(2 + dice.below(3), &mut dice);
    for _ in 0..5 + dice.below(40) {
        history.step(&mut dice);
    }
    for clone in &history.clones {
        let wanted = maximal(&clone.read);
        if wanted.len() <= MOST_VERSIONS {
            assert_eq!(kept(&clone.versions), wanted, "seed {seed}");
        }
        // No version is taken for later than one that its author did not know.
        for one in &clone.read {
            for other in &clone.read {
                let (a, b) = (&one.version, &other.version);
                let is_same = a.value == b.value;
                if a.vector.contains(&b.vector) && !is_same {
                    assert!(
                        other.knew.is_subset(&one.knew),
                        "seed {seed}: {a:?} took {b:?} for known"
                    );
                }
            }
        }
    }
    // Two clones that begin anew and read the same files in other orders know the same.
    let mut orders: Vec<usize> = (0..history.files.len()).collect();
    let first = history.version(0);
    let mut fresh = [0, 1].map(|_| Versions::new(first.version.clone()));
    let mut is_full = false;
    for versions in &mut fresh {
        for n in (1..orders.len()).rev() {
            orders.swap(n, dice.below(n + 1));
        }
        for file in &orders {
            let is_over = versions.all().len() == MOST_VERSIONS;
            is_full |= is_over | (versions.take(history.version(*file).version) == Taken::Full);
        }
    }
    if !is_full {
        assert_eq!(
            kept(&fresh[0]),
            kept(&fresh[1]),
            "seed {seed}: the order of reading decides"
        );
    }
}

#[test]
fn c7_logs_that_read_the_same_versions_keep_the_same_ones() {
    for seed in 0..20_000 {
        judge(seed);
    }
}

#[test]
fn c7_one_after_the_other_is_no_conflict_and_side_by_side_is_one() {
    let (a, b) = (LogId(1), LogId(2));
    let mut first = Versions::new(FieldVersion {
        value: "ready".into(),
        vector: Vector::changed([], a, 1),
    });
    let before = first.clone();
    first.change("done".into(), a, 5);
    let mut second = before.clone();
    second.change("rejected".into(), b, 9);
    assert_eq!(second.take(first.shown().clone()), Taken::Kept);
    assert_eq!(second.shown().value, "rejected", "a log shows its own value");
    assert_eq!(second.rivals().count(), 1);
    assert!(FieldVersion::merge(first.shown(), second.shown()).is_none());
    assert!(!first.shown().agrees_with(second.shown()));
    second.change("done".into(), b, 10);
    assert_eq!(second.rivals().count(), 0);
    assert_eq!(first.take(second.shown().clone()), Taken::Kept);
    assert_eq!(first.all().len(), 1, "the settled version contains both");
}

#[test]
fn c7_too_many_versions_in_conflict_are_refused_not_dropped() {
    let version = |n: u64, value: u64| FieldVersion {
        value: value.into(),
        vector: Vector::changed([], LogId(n), 1),
    };
    let mut versions = Versions::new(version(0, 0));
    for n in 1..MOST_VERSIONS as u64 {
        assert_eq!(versions.take(version(n, n)), Taken::Kept);
    }
    let before = versions.clone();
    assert_eq!(versions.take(version(99, 99)), Taken::Full);
    assert_eq!(versions, before);
    let mut settled = versions.clone();
    settled.change("settled".into(), LogId(0), 2);
    assert_eq!(settled.all().len(), 1);
    for n in 0..MOST_VERSIONS as u64 {
        assert_eq!(settled.take(version(n, n)), Taken::Known, "it was settled");
    }
    // One that says what another one says needs no place of its own.
    assert_eq!(versions.take(version(98, 3)), Taken::Kept);
    assert_eq!(versions.all().len(), MOST_VERSIONS);
}

#[test]
fn c7_vectors_have_one_spelling_and_hostile_ones_are_refused() {
    for good in [
        "t:5",
        "0000000000000001:7",
        "0000000000000001:7,h00000000000000ff:1,t:9",
    ] {
        assert_eq!(
            good.parse::<Vector>().map(|vector| vector.to_string()).as_deref(),
            Ok(good)
        );
    }
    let time: Wall = "2026-01-02T03:04:05.678Z".parse().expect("a time");
    assert_eq!(time.to_string().parse(), Ok(Vector::at(time)));
    let long = "0000000000000001:1,".repeat(100_000);
    for bad in [
        "",
        "x:1",
        "t:-1",
        "t:1,t:1",
        "t:9,0000000000000001:7",
        "1:1",
        "t: 1",
        "t:01",
        "h1:1",
        &long,
    ] {
        assert!(bad.parse::<Vector>().is_err(), "{bad:.40}");
    }
}

#[test]
fn c7_at_most_eight_edits_by_hand_are_named_and_the_newest_is_one_of_them() {
    let mut vector = Vector::changed([], LogId(1), 1);
    for n in 0..50 {
        let before = vector.clone();
        vector = Vector::edited(&vector, "title", &n.into());
        assert_ne!(vector, before);
        assert!(vector.to_string().matches('h').count() <= 8);
        assert!(!before.contains(&vector));
    }
}
