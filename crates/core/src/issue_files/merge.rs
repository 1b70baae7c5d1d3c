//! Merging two copies of an issue: for git, given the version both came from, and for the replica, without it.
//!
//! [`merge`] is the merge driver for `issue.json`. It goes field by field:
//!
//! - a change of one side is taken, unless the other side set the field back later than that;
//! - the same change of both sides is taken once;
//! - lists are merged as sets; times and revisions go forward;
//! - different changes of both sides are a conflict, shown as such and never guessed.
//!
//! [`join`] brings what a tree has into the replica. There the later stamp wins, field by field, sets are joined, and
//! a field that was edited by hand counts as changed when its file was last written to: later than what the file knew of.
//!
//! Fields that this program does not know are merged like any other, in both.
//!
//! Gates are merged one by one, by the stamp of each, in both: adding one takes no other away.
//!
//! A deletion is about the issue as it was then: the author of a later change did not know of it, and that change brings the
//! issue back, in both. A copy without a later change stays deleted.
//!
//! Neither result depends on the order of merging, and joining one of its sides to the result of a merge changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::issue_files::format::{FoundIssue, NO_TEXT, render as render_file};
use crate::issue_files::stamps::{self, FIELDS, GATE, Sheet, check, field, is_other};
use crate::model::issue::Issue;
use crate::model::time::Wall;

/// A field that both sides changed in different ways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldConflict {
    pub field: String,
    pub ours: Value,
    pub theirs: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// Where there is a conflict, ours.
    pub fields: Map<String, Value>,
    pub conflicts: Vec<FieldConflict>,
}

/// The fields of `issue.json`.
pub type Fields = Map<String, Value>;

impl Merged {
    /// Takes the value of one side where both changed a field; it is later than that of the other.
    pub fn choose(&mut self, name: &str, ours: &Fields, theirs: &Fields, is_ours: bool) {
        self.conflicts.retain(|conflict| conflict.field != name);
        let side = |fields: &Fields| (value(fields, name), FieldStamp::of(fields, name));
        let (o, t) = (side(ours), side(theirs));
        let taken = match is_ours {
            true => &o.0,
            false => &t.0,
        };
        let stamp = stamp(Some(taken), &o, &t);
        match if is_ours { ours } else { theirs }.get(name) {
            Some(value) => self.fields.insert(name.to_owned(), value.clone()),
            None => self.fields.remove(name),
        };
        if let (Some(FieldStamp { at, mark }), Some(Value::Object(stamps))) =
            (stamp, self.fields.get_mut("stamps"))
        {
            stamps.insert(name.to_owned(), format!("{at} {mark}").into());
        }
    }
}

pub fn merge(base: Option<&Fields>, ours: &Fields, theirs: &Fields) -> Merged {
    let mut merged = Merged {
        fields: Map::new(),
        conflicts: Vec::new(),
    };
    let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    for name in names.into_iter().filter(|name| *name != "stamps") {
        let (b, o, t) = (
            base.and_then(|base| base.get(name)),
            ours.get(name),
            theirs.get(name),
        );
        let value = if name == "gates"
            && let (Some(o), Some(t)) = (Gates::written(ours), Gates::written(theirs))
        {
            let (gates, _) = o.joined(&t);
            Some(gates.into())
        } else if o == t {
            o.cloned()
        } else if t == b {
            match set_back_later(name, base, theirs, ours) {
                true => t.cloned(),
                false => o.cloned(),
            }
        } else if o == b {
            match set_back_later(name, base, ours, theirs) {
                true => o.cloned(),
                false => t.cloned(),
            }
        } else if base.is_none() && untouched(theirs, name) && !untouched(ours, name) {
            // Both made the file, but only one of them has changed this since the issue was created.
            o.cloned()
        } else if base.is_none() && untouched(ours, name) && !untouched(theirs, name) {
            t.cloned()
        } else if name == "created_by" {
            // Made twice under one id: the first one counts.
            let made = |side: &'_ Fields| {
                ["created_at", "created_by"].map(|name| side.get(name)?.as_str().map(str::to_owned))
            };
            if made(theirs) < made(ours) { t } else { o }.cloned()
        } else {
            both_changed(name, b, o, t).unwrap_or_else(|| {
                merged.conflicts.push(FieldConflict {
                    field: name.clone(),
                    ours: o.cloned().unwrap_or_default(),
                    theirs: t.cloned().unwrap_or_default(),
                });
                // A value that one side removed has to be shown too.
                Some(o.cloned().unwrap_or_default())
            })
        };
        if let Some(value) = value {
            merged.fields.insert(name.clone(), value);
        }
    }
    let mut stamps = stamps(base, ours, theirs, &merged);
    stamps.extend(gate_stamps(ours, theirs, &merged.fields));
    settle_deletion(ours, theirs, &mut merged, &mut stamps);
    if !stamps.is_empty() {
        merged.fields.insert("stamps".into(), stamps.into());
    }
    merged
}

/// The gates of one side, and when each was last asked for or taken away. One without a stamp is as old as the side's
/// gates are, and gives way to any that has one.
struct Gates<'a> {
    asked: Vec<&'a str>,
    at: Wall,
    single: BTreeMap<&'a str, Wall>,
}

impl<'a> Gates<'a> {
    fn of(issue: &'a Issue, sheet: &'a Sheet) -> Self {
        let single = |(name, at): (&'a String, &Wall)| Some((name.strip_prefix(GATE)?, *at));
        Self {
            asked: issue.gates.iter().map(String::as_str).collect(),
            at: sheet.stamp(issue, "gates"),
            single: sheet.stamps.iter().filter_map(single).collect(),
        }
    }

    /// `None` when somebody edited them, or they were never stamped.
    fn written(side: &'a Fields) -> Option<Self> {
        let gates = side.get("gates")?;
        let stamp = FieldStamp::of(side, "gates").filter(|stamp| stamp.mark == check(gates))?;
        Some(Self {
            asked: gates
                .as_array()?
                .iter()
                .map(Value::as_str)
                .collect::<Option<_>>()?,
            at: stamp.at,
            single: single_stamps(side),
        })
    }

    /// The greater one counts.
    fn rank(&self, gate: &str) -> (Option<Wall>, Wall, bool) {
        let single = self.single.get(gate).copied();
        let at = match single {
            Some(_) => Wall::from_ms(0),
            None => self.at,
        };
        (single, at, self.asked.contains(&gate))
    }

    /// The gates of both sides, and the stamp of each gate that has one.
    fn joined(&self, other: &Self) -> (Vec<String>, BTreeMap<String, Wall>) {
        let of = |side: &Self| {
            side.asked
                .iter()
                .chain(side.single.keys())
                .copied()
                .collect::<Vec<_>>()
        };
        let all: BTreeSet<&str> = of(self).into_iter().chain(of(other)).collect();
        let (mut gates, mut stamps) = (Vec::new(), BTreeMap::new());
        for gate in all {
            let (single, _, asked) = self.rank(gate).max(other.rank(gate));
            if asked {
                gates.push(gate.to_owned());
            }
            stamps.extend(single.map(|at| (format!("{GATE}{gate}"), at)));
        }
        (gates, stamps)
    }
}

fn single_stamps(side: &Fields) -> BTreeMap<&str, Wall> {
    let stamps = side.get("stamps").and_then(Value::as_object);
    let mut all = BTreeMap::new();
    for (name, stamp) in stamps.into_iter().flatten() {
        let at = stamp
            .as_str()
            .and_then(|stamp| stamp.split(' ').next()?.parse().ok());
        if let (Some(gate), Some(at)) = (name.strip_prefix(GATE), at) {
            all.insert(gate, at);
        }
    }
    all
}

/// The stamps of single gates, the later of each: with what came of it.
fn gate_stamps(ours: &Fields, theirs: &Fields, merged: &Fields) -> Fields {
    let mut all = single_stamps(ours);
    for (gate, at) in single_stamps(theirs) {
        let known = all.entry(gate).or_insert(at);
        *known = at.max(*known);
    }
    let gates = merged.get("gates").and_then(Value::as_array);
    let asked = |gate: &str| gates.is_some_and(|gates| gates.iter().any(|one| one == gate));
    all.into_iter()
        .map(|(gate, at)| {
            let mark = check(&asked(gate).into());
            (format!("{GATE}{gate}"), format!("{at} {mark}").into())
        })
        .collect()
}

/// The gates of a side that was edited by hand, beside ours: an edit is as late as `at`. A gate that we know to have been
/// added or removed, and that is not in its stamps, was not there to be edited.
fn edited_gates<'a>(ours: &Gates<'a>, theirs: &'a FoundIssue, at: Wall) -> Gates<'a> {
    let mut edited = Gates::of(&theirs.issue, &theirs.sheet);
    let all: BTreeSet<&str> = ours.asked.iter().chain(&edited.asked).copied().collect();
    for gate in all {
        let (is_ours, is_theirs) = (ours.asked.contains(&gate), edited.asked.contains(&gate));
        let unseen = ours.single.contains_key(gate) && !edited.single.contains_key(gate);
        if is_ours != is_theirs && !unseen {
            edited.single.insert(gate, at);
        }
    }
    // It says nothing about gates that it does not name.
    edited.at = Wall::from_ms(0);
    edited
}

/// Decides between a deletion on one side and what the other side did after it.
fn settle_deletion(ours: &Fields, theirs: &Fields, merged: &mut Merged, stamps: &mut Fields) {
    let is_gone = |side: &Fields| value(side, "deleted") == Value::Bool(true);
    let changed = |side: &Fields| side.get("updated_at")?.as_str()?.parse::<Wall>().ok();
    if !is_gone(&merged.fields) {
        return;
    }
    let sides = [(ours, theirs), (theirs, ours)];
    // One that was made by hand is an edit, which is as late as it can be.
    let deletions = sides.map(|(side, other)| {
        let stamp = FieldStamp::of(side, "deleted").filter(|stamp| stamp.mark == check(&true.into()));
        (is_gone(side).then_some(stamp), other)
    });
    for (deletion, alive) in &deletions {
        if let Some(Some(deletion)) = deletion
            && !is_gone(alive)
            && changed(alive).is_some_and(|at| at > deletion.at)
        {
            let before = FieldStamp::of(alive, "deleted").map_or(deletion.at, |stamp| stamp.at);
            let at = before.max(just_after(deletion.at));
            merged.fields.remove("deleted");
            stamps.insert("deleted".into(), format!("{at} {}", check(&false.into())).into());
            return;
        }
    }
    if deletions
        .iter()
        .all(|(deletion, _)| !matches!(deletion, Some(None)))
    {
        // It stays, and so it is no earlier than anything else here.
        let times = stamps
            .values()
            .filter_map(|stamp| stamp.as_str()?.split(' ').next()?.parse().ok());
        if let Some(at) = times.chain(changed(&merged.fields)).max() {
            stamps.insert("deleted".into(), format!("{at} {}", check(&true.into())).into());
        }
    }
}

/// Whether a side that says the same as the base does so because somebody set it back, later than the other side changed it.
fn set_back_later(name: &str, base: Option<&Fields>, side: &Fields, other: &Fields) -> bool {
    let sound =
        |side: &Fields| FieldStamp::of(side, name).filter(|stamp| stamp.mark == check(&value(side, name)));
    // A field that was not there has no stamp.
    let before = match base {
        Some(base) if value(base, name).is_null() && FieldStamp::of(base, name).is_none() => {
            Some(Wall::from_ms(0))
        }
        base => base.and_then(sound).map(|stamp| stamp.at),
    };
    match (before, sound(side), sound(other)) {
        (Some(before), Some(side), Some(other)) => side.at > before && side.at > other.at,
        _ => false,
    }
}

/// Whether a field is as it was when the issue was created.
fn untouched(side: &Fields, name: &str) -> bool {
    let stamp = side
        .get("stamps")
        .and_then(|stamps| stamps.get(name)?.as_str()?.split(' ').next());
    stamp.is_some() && stamp == side.get("created_at").and_then(Value::as_str)
}

/// `None` when a person has to decide.
fn both_changed(
    name: &str,
    b: Option<&Value>,
    o: Option<&Value>,
    t: Option<&Value>,
) -> Option<Option<Value>> {
    let (o, t) = (o?, t?);
    match name {
        // Both are RFC 3339 in UTC with the same number of digits, so text order is time order.
        "updated_at" => Some(Some(o.as_str()?.max(t.as_str()?).into())),
        "created_at" => Some(Some(o.as_str()?.min(t.as_str()?).into())),
        "revision" => Some(Some(o.as_u64()?.max(t.as_u64()?).into())),
        // A set. What others hold is not known: there a person decides.
        "gates" => {
            let (o, t) = (o.as_array()?, t.as_array()?);
            let empty = Vec::new();
            let b = b.and_then(Value::as_array).unwrap_or(&empty);
            let kept = |v: &Value| !b.contains(v) || (o.contains(v) && t.contains(v));
            let mut all: Vec<Value> = o.iter().chain(t).filter(|v| kept(v)).cloned().collect();
            all.sort_by_key(ToString::to_string);
            all.dedup();
            Some(Some(all.into()))
        }
        _ => None,
    }
}

/// When a field was changed, and the check on its value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct FieldStamp {
    at: Wall,
    mark: String,
}

impl FieldStamp {
    fn of(side: &Fields, name: &str) -> Option<Self> {
        let (at, mark) = side.get("stamps")?.get(name)?.as_str()?.split_once(' ')?;
        let (at, mark) = (at.parse().ok()?, mark.to_owned());
        Some(Self { at, mark })
    }
}

/// The stamp of a field as it is written, where that is of the value that is there.
pub fn written_stamp<'a>(side: &'a Fields, name: &str) -> Option<&'a str> {
    let stamp = FieldStamp::of(side, name).filter(|stamp| stamp.mark == check(&value(side, name)));
    stamp.and_then(|_| side.get("stamps")?.get(name)?.as_str())
}

/// Stands in the place of a check on a value that is still to be chosen, or was chosen by hand: it fits none.
const BY_HAND: &str = "by-hand";

/// The stamps of the values that were taken: later than that of every value that was not, so that whoever joins the
/// result to one of its sides gets the result. An edit by hand stays one.
fn stamps(base: Option<&Fields>, ours: &Fields, theirs: &Fields, merged: &Merged) -> Fields {
    let mut all = Map::new();
    let written = |side: &'_ Fields| -> Vec<String> {
        let stamps = side.get("stamps").and_then(Value::as_object);
        let stamped = stamps.into_iter().flat_map(Map::keys);
        side.keys()
            .chain(stamped)
            .filter(|name| is_other(name))
            .cloned()
            .collect()
    };
    let others: BTreeSet<String> = written(ours).into_iter().chain(written(theirs)).collect();
    for name in FIELDS.iter().copied().chain(others.iter().map(String::as_str)) {
        let (o, t) = (FieldStamp::of(ours, name), FieldStamp::of(theirs, name));
        let stamp = if name == "text" {
            // The text is a file of its own, which git merges.
            let b = base.and_then(|base| FieldStamp::of(base, name));
            match (o, t) {
                // A side without a value does not know of the field.
                (None, one) | (one, None) => one,
                (o, t) if o == t || t == b => o,
                (o, t) if o == b => t,
                (Some(o), Some(t)) => {
                    let rank = |stamp: &FieldStamp| (stamp.at, stamp.mark != NO_TEXT);
                    Some(match (rank(&o), &o) >= (rank(&t), &t) {
                        true => o,
                        false => t,
                    })
                }
            }
        } else {
            let conflict = merged.conflicts.iter().any(|conflict| conflict.field == name);
            let side = |fields: &Fields, stamp| (value(fields, name), stamp);
            let taken = (!conflict).then(|| value(&merged.fields, name));
            let (o, t) = (side(ours, o), side(theirs, t));
            let b = base.map(|base| side(base, FieldStamp::of(base, name)));
            // One that is older than what both came from never saw it (`git cherry-pick`, `git revert`): it stays as old.
            let alone = [(&o, &t), (&t, &o)].into_iter().find(|(one, other)| {
                let is_known = is_sound(one) || **one == (Value::Null, None);
                let is_behind = b.as_ref().is_some_and(|b| *other == b || one.1 < b.1);
                taken.as_ref() == Some(&one.0) && is_known && is_behind
            });
            match alone {
                Some((one, _)) => one.1.clone(),
                None => stamp(taken.as_ref(), &o, &t),
            }
        };
        if let Some(FieldStamp { at, mark }) = stamp {
            all.insert(name.into(), format!("{at} {mark}").into());
        }
    }
    all
}

fn value(fields: &Fields, name: &str) -> Value {
    let absent = || {
        if name == "deleted" {
            false.into()
        } else {
            Value::Null
        }
    };
    fields.get(name).cloned().unwrap_or_else(absent)
}

/// The stamp of `taken`, which is `None` while it is to be chosen.
fn stamp(
    taken: Option<&Value>,
    ours: &(Value, Option<FieldStamp>),
    theirs: &(Value, Option<FieldStamp>),
) -> Option<FieldStamp> {
    let at = ours.1.as_ref().max(theirs.1.as_ref())?.at;
    let by_hand = || FieldStamp {
        at,
        mark: BY_HAND.into(),
    };
    let Some(taken) = taken else {
        return Some(by_hand());
    };
    let here = |side: &(Value, Option<FieldStamp>)| side.0 == *taken;
    let sides = [(ours, theirs), (theirs, ours)];
    let latest = sides.into_iter().find(|(side, other)| {
        let before = other.1.as_ref().is_none_or(|stamp| stamp.at < at);
        here(side) && is_sound(side) && side.1.as_ref().is_some_and(|s| s.at == at) && (here(other) || before)
    });
    if let Some((side, _)) = latest {
        return side.1.clone();
    }
    let from_one = sides.into_iter().any(|(side, _)| here(side) && is_sound(side));
    let from_both = !here(ours) && !here(theirs) && is_sound(ours) && is_sound(theirs);
    Some(if from_one || from_both {
        FieldStamp {
            at: just_after(at),
            mark: check(taken),
        }
    } else {
        by_hand()
    })
}

/// Whether a value is the one that was stamped.
fn is_sound((value, stamp): &(Value, Option<FieldStamp>)) -> bool {
    stamp.as_ref().is_some_and(|stamp| stamp.mark == check(value))
}

fn just_after(at: Wall) -> Wall {
    Wall::from_ms(at.ms().saturating_add(1))
}

/// The file's text, with git's conflict markers around each field that needs a decision.
pub fn render(merged: &Merged) -> String {
    render_file(&merged.fields, &|name| {
        let conflict = merged.conflicts.iter().find(|conflict| conflict.field == name);
        conflict.map(|conflict| conflict.theirs.clone())
    })
}

/// Joins two copies of one issue; `None` when the other has nothing new. `now` is the time of edits by hand where nothing
/// else is known.
pub fn join(ours: (&Issue, &Sheet), theirs: &FoundIssue, now: Wall) -> Option<(Issue, Sheet)> {
    let (mine, my_sheet) = ours;
    let (mut issue, mut sheet) = (mine.clone(), my_sheet.clone());
    let mut stamps = BTreeMap::new();
    let mut by_hand = false;
    for name in FIELDS {
        let (o, t) = (
            field(mine, my_sheet.deleted, name),
            field(&theirs.issue, theirs.sheet.deleted, name),
        );
        let o_at = my_sheet.stamp(mine, name);
        let mut at = o_at;
        if *name == "gates" {
            let by_whom = theirs.unstamped || theirs.by_hand.contains(name);
            let (t_at, edited) = match by_whom {
                true if o == t => (o_at, false),
                true => changed_at(mine, theirs, name, o_at, now),
                false => (theirs.sheet.stamp(&theirs.issue, name), false),
            };
            let ours = Gates::of(mine, my_sheet);
            let (gates, single) = match by_whom {
                true if t_at <= Wall::from_ms(0) => ours.joined(&ours),
                true => ours.joined(&edited_gates(&ours, theirs, t_at)),
                false => ours.joined(&Gates::of(&theirs.issue, &theirs.sheet)),
            };
            if o != t && gates != issue.gates {
                issue.gates = gates;
                by_hand |= edited && theirs.edited.contains(name);
            }
            stamps.extend(single);
            at = o_at.max(t_at);
        } else if o != t {
            let (t_at, edited) = changed_at(mine, theirs, name, o_at, now);
            if t_at > o_at || (t_at == o_at && (edited || rank(&t) > rank(&o))) {
                set_field(&mut issue, &mut sheet, name, theirs);
                by_hand |= theirs.edited.contains(name);
                at = t_at;
            }
        } else if !theirs.unstamped && !theirs.edited.contains(name) {
            at = o_at.max(theirs.sheet.stamp(&theirs.issue, name));
        }
        stamps.insert((*name).to_owned(), at);
    }
    let others = my_sheet.other_names().chain(theirs.sheet.other_names());
    for name in others.collect::<BTreeSet<_>>() {
        let (o, t) = (my_sheet.other(name), theirs.sheet.other(name));
        let o_at = my_sheet.stamp(mine, name);
        let mut at = o_at;
        if o != t {
            let (t_at, edited) = changed_at(mine, theirs, name, o_at, now);
            if t_at > o_at || (t_at == o_at && (edited || rank(&t) > rank(&o))) {
                match theirs.sheet.others.get(name) {
                    Some(value) => sheet.others.insert(name.clone(), value.clone()),
                    None => sheet.others.remove(name),
                };
                by_hand |= theirs.is_edited(name);
                at = t_at;
            }
        } else {
            // Nothing may be said in so many words.
            if let Some(value) = theirs.sheet.others.get(name) {
                sheet.others.entry(name.clone()).or_insert_with(|| value.clone());
            }
            if !theirs.unstamped && !theirs.is_edited(name) {
                at = o_at.max(theirs.sheet.stamp(&theirs.issue, name));
            }
        }
        stamps.insert(name.clone(), at);
    }
    sheet.labels = stamps::union(&my_sheet.labels, &theirs.sheet.labels);
    sheet.deps = stamps::union(&my_sheet.deps, &theirs.sheet.deps);
    issue.labels = stamps::members(&sheet.labels);
    issue.depends_on = stamps::members(&sheet.deps)
        .iter()
        .filter_map(|id| id.parse().ok())
        .collect();
    // Made twice under one id: the first one counts.
    let made = |issue: &Issue| {
        (
            issue.created_at,
            issue.created_by.as_ref().map(ToString::to_string),
        )
    };
    if made(&theirs.issue) < made(mine) {
        issue.created_at = theirs.issue.created_at;
        issue.created_by.clone_from(&theirs.issue.created_by);
    }
    issue.updated_at = stamps
        .values()
        .copied()
        .fold(mine.updated_at.max(theirs.issue.updated_at), Wall::max);
    if sheet.deleted {
        let deleted = stamps.get("deleted").copied().unwrap_or(issue.created_at);
        if issue.updated_at > deleted {
            sheet.deleted = false;
            stamps.insert("deleted".to_owned(), just_after(deleted));
        }
    }
    issue.revision = mine.revision.max(theirs.issue.revision);
    stamps.retain(|_, at| *at != issue.created_at);
    sheet.stamps = stamps;
    if issue == *mine && sheet == *my_sheet {
        return None;
    }
    if by_hand {
        issue.count_change();
    }
    Some((issue, sheet))
}

/// Of two values of one moment the greater one counts, and something more than nothing.
fn rank(value: &Value) -> (bool, String) {
    (!value.is_null(), value.to_string())
}

/// When their value of a field is taken to have been set, and whether it wins though ours is as late.
fn changed_at(mine: &Issue, theirs: &FoundIssue, name: &str, o_at: Wall, now: Wall) -> (Wall, bool) {
    // A deletion by hand deletes every field.
    let last = match name {
        "deleted" => mine.updated_at,
        _ => Wall::from_ms(0),
    };
    if theirs.unstamped {
        // Nothing tells when it was changed: a copy that is not older as a whole has no older fields. What it does not
        // speak of is not gone.
        let silent = match name {
            "text" => theirs.issue.text.is_none(),
            "deleted" => !theirs.sheet.deleted,
            _ => is_other(name) && !theirs.sheet.others.contains_key(name),
        };
        return match silent || is_older(mine, theirs) || !knows(mine, theirs, name, o_at) {
            true => (Wall::from_ms(0), false),
            false => (theirs.issue.updated_at.max(o_at).max(last), true),
        };
    }
    if !theirs.is_edited(name) {
        return (theirs.sheet.stamp(&theirs.issue, name), false);
    }
    let written = match name {
        "text" => theirs.text_written,
        _ => theirs.written,
    };
    let at = written.map_or(now, |at| at.min(now));
    match knows(mine, theirs, name, o_at) {
        true => (at.max(just_after(o_at)).max(last), true),
        false => (at, true),
    }
}

/// Whether a copy without stamps is an older one as a whole.
fn is_older(mine: &Issue, theirs: &FoundIssue) -> bool {
    (theirs.issue.revision, theirs.issue.updated_at) < (mine.revision, mine.updated_at)
}

/// Whether whoever edited a field could see what we have there since `o_at`.
fn knows(mine: &Issue, theirs: &FoundIssue, name: &str, o_at: Wall) -> bool {
    let Some(written) = theirs.written else {
        return true;
    };
    match name {
        // It was merged with ours: with any other it would not have come here (`FoundIssue::is_outdated`).
        "text" => true,
        "deleted" if theirs.unstamped => written >= mine.updated_at,
        "deleted" => theirs.issue.updated_at >= mine.updated_at,
        _ if theirs.unstamped => written >= o_at,
        _ => theirs.sheet.stamp(&theirs.issue, name) >= o_at,
    }
}

/// The fields that somebody edited by hand to something else than we have there.
pub fn edits<'a>((mine, sheet): (&Issue, &Sheet), theirs: &'a FoundIssue) -> Vec<&'a str> {
    let known: &[&str] = match theirs.unstamped {
        true if is_older(mine, theirs) => &[],
        true => FIELDS,
        false => &theirs.edited,
    };
    let others: Vec<&str> = match theirs.unstamped {
        true => theirs.sheet.others.keys().map(String::as_str).collect(),
        false => theirs.edited_others.iter().map(String::as_str).collect(),
    };
    let mut names: Vec<&str> = known.iter().copied().chain(others).collect();
    names.retain(|name| {
        let silent = theirs.unstamped && *name == "deleted" && !theirs.sheet.deleted;
        sheet.value(mine, name) != theirs.sheet.value(&theirs.issue, name) && !silent
    });
    names
}

/// Those of them that were edited without knowing what we have. Gates are merged one by one.
pub fn unaware<'a>((mine, sheet): (&Issue, &Sheet), theirs: &'a FoundIssue) -> Vec<&'a str> {
    let mut names = edits((mine, sheet), theirs);
    names.retain(|name| *name != "gates" && !knows(mine, theirs, name, sheet.stamp(mine, name)));
    names
}

fn set_field(issue: &mut Issue, sheet: &mut Sheet, name: &str, theirs: &FoundIssue) {
    let from = &theirs.issue;
    match name {
        "title" => issue.title.clone_from(&from.title),
        "type" => issue.kind.clone_from(&from.kind),
        "state" => issue.state = from.state,
        "priority" => issue.priority = from.priority,
        "parent" => issue.parent.clone_from(&from.parent),
        "actor" => issue.actor = from.actor,
        "blocked" => issue.blocked.clone_from(&from.blocked),
        "pivot" => issue.pivot.clone_from(&from.pivot),
        "gates" => issue.gates.clone_from(&from.gates),
        "text" => issue.text.clone_from(&from.text),
        "deleted" => sheet.deleted = theirs.sheet.deleted,
        _ => {}
    }
}
