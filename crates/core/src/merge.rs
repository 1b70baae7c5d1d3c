//! Merging two copies of an issue: for git, given the version both came from, and for the replica, without it.
//!
//! [`merge`] is the merge driver for `issue.json`. Field by field: what only one side changed is taken; what both changed
//! alike is taken once; lists are merged as sets; times and revisions go forward. What both changed differently is a
//! conflict, shown as such and never guessed.
//!
//! [`join`] brings what a tree has into the replica. There the later stamp wins, field by field, sets are joined, and
//! a field that was edited by hand counts as changed now.
//!
//! Both agree wherever there is no conflict, and their result does not depend on the order of merging.

use serde_json::{Map, Value};

use crate::issue::Issue;
use crate::issue_file::{Found, render as render_file};
use crate::sheet::{self, FIELDS, Sheet, check, field};
use crate::time::Wall;

/// A field that both sides changed in different ways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub field: String,
    pub ours: Value,
    pub theirs: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// Where there is a conflict, ours.
    pub fields: Map<String, Value>,
    pub conflicts: Vec<Conflict>,
}

type Fields = Map<String, Value>;

pub fn merge(base: Option<&Fields>, ours: &Fields, theirs: &Fields) -> Merged {
    let mut merged = Merged {
        fields: Map::new(),
        conflicts: Vec::new(),
    };
    let names: std::collections::BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    for name in names.into_iter().filter(|name| *name != "stamps") {
        let (b, o, t) = (
            base.and_then(|base| base.get(name)),
            ours.get(name),
            theirs.get(name),
        );
        let value = if o == t || t == b {
            o.cloned()
        } else if o == b {
            t.cloned()
        } else {
            both_changed(name, b, o, t).unwrap_or_else(|| {
                merged.conflicts.push(Conflict {
                    field: name.clone(),
                    ours: o.cloned().unwrap_or_default(),
                    theirs: t.cloned().unwrap_or_default(),
                });
                o.cloned()
            })
        };
        if let Some(value) = value {
            merged.fields.insert(name.clone(), value);
        }
    }
    let stamps = stamps(ours, theirs, &merged);
    if !stamps.is_empty() {
        merged.fields.insert("stamps".into(), stamps.into());
    }
    merged
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
        _ => {
            let (o, t) = (o.as_array()?, t.as_array()?);
            let empty = Vec::new();
            let b = b.and_then(Value::as_array).unwrap_or(&empty);
            let kept = |v: &Value| !b.contains(v) || (o.contains(v) && t.contains(v));
            let mut all: Vec<Value> = o.iter().chain(t).filter(|v| kept(v)).cloned().collect();
            all.sort_by_key(ToString::to_string);
            all.dedup();
            Some(Some(all.into()))
        }
    }
}

/// The stamps of the values that were taken. One that did not fit its value goes on not fitting: the edit is news to
/// whoever reads the result.
fn stamps(ours: &Fields, theirs: &Fields, merged: &Merged) -> Fields {
    let stamp_of = |side: &Fields, name: &str| -> Option<String> {
        side.get("stamps")?.get(name)?.as_str().map(str::to_owned)
    };
    let mut all = Map::new();
    for name in FIELDS {
        let later = match (stamp_of(ours, name), stamp_of(theirs, name)) {
            (Some(o), Some(t)) => o.max(t),
            (o, t) => match o.or(t) {
                Some(one) => one,
                None => continue,
            },
        };
        let value = |side: &Fields| side.get(*name).cloned().unwrap_or_default();
        let sound = |side: &Fields| {
            stamp_of(side, name).is_none_or(|stamp| {
                stamp
                    .split_once(' ')
                    .is_some_and(|(_, mark)| mark == check(&value(side)))
            })
        };
        let stamp = match later.split_once(' ') {
            Some((at, _)) if *name != "text" && *name != "deleted" && sound(ours) && sound(theirs) => {
                format!("{at} {}", check(&value(&merged.fields)))
            }
            _ => later,
        };
        all.insert((*name).into(), stamp.into());
    }
    all
}

/// The file's text, with git's conflict markers around each field that needs a decision.
pub fn render(merged: &Merged) -> String {
    render_file(&merged.fields, &|name| {
        let conflict = merged.conflicts.iter().find(|conflict| conflict.field == name);
        conflict.map(|conflict| conflict.theirs.clone())
    })
}

/// What comes of two copies of one issue; `None` when ours has it all. `now` is when edits by hand are taken to have
/// happened.
pub fn join(ours: (&Issue, &Sheet), theirs: &Found, now: Wall) -> Option<(Issue, Sheet)> {
    let (mine, my_sheet) = ours;
    let (mut issue, mut sheet) = (mine.clone(), my_sheet.clone());
    let newer =
        |theirs: &Found| (theirs.issue.revision, theirs.issue.updated_at) > (mine.revision, mine.updated_at);
    for name in FIELDS {
        let (o, t) = (
            field(mine, my_sheet.deleted, name),
            field(&theirs.issue, theirs.sheet.deleted, name),
        );
        if o == t {
            continue;
        }
        let o_at = my_sheet.stamp(mine, name);
        let t_at = if theirs.unstamped {
            // Nothing tells when it was changed: a later copy as a whole is a later copy of its fields.
            if newer(theirs) {
                theirs.issue.updated_at.max(o_at)
            } else {
                continue;
            }
        } else if theirs.edited.contains(name) {
            now.max(Wall::from_ms(o_at.ms().saturating_add(1)))
        } else {
            theirs.sheet.stamp(&theirs.issue, name)
        };
        let takes = match t_at.cmp(&o_at) {
            std::cmp::Ordering::Greater => true,
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => theirs.unstamped || t.to_string() > o.to_string(),
        };
        if takes {
            set_field(&mut issue, &mut sheet, name, theirs);
            sheet.stamps.insert((*name).to_owned(), t_at);
        }
    }
    sheet.labels = sheet::union(&my_sheet.labels, &theirs.sheet.labels);
    sheet.deps = sheet::union(&my_sheet.deps, &theirs.sheet.deps);
    issue.labels = sheet::members(&sheet.labels);
    issue.depends_on = sheet::members(&sheet.deps)
        .iter()
        .filter_map(|id| id.parse().ok())
        .collect();
    if issue == *mine && sheet == *my_sheet {
        return None;
    }
    issue.created_at = mine.created_at.min(theirs.issue.created_at);
    // Stamps that were not written out meant the time of creation, which may now be another.
    for name in FIELDS {
        let at = if sheet.stamps.contains_key(*name) {
            continue;
        } else {
            mine.created_at
        };
        if at != issue.created_at {
            sheet.stamps.insert((*name).to_owned(), at);
        }
    }
    if theirs.issue.created_at < mine.created_at {
        issue.created_by = theirs.issue.created_by.clone();
    }
    let edited = FIELDS.iter().any(|name| sheet.stamp(&issue, name) >= now);
    issue.updated_at = mine.updated_at.max(theirs.issue.updated_at);
    issue.revision = mine.revision.max(theirs.issue.revision);
    if edited && !theirs.unstamped {
        issue.updated_at = issue.updated_at.max(now);
        issue.revision += 1;
    }
    Some((issue, sheet))
}

fn set_field(issue: &mut Issue, sheet: &mut Sheet, name: &str, theirs: &Found) {
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
