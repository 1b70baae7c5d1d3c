//! Plans an import: which issues are new here, the ids they get, and the issues they refer to.
//!
//! What must hold:
//! - planning the same file again finds every issue of it here and brings in nothing;
//! - an issue that is here, or was and has been deleted, is never changed by an import;
//! - no cycle comes about, whatever the file says, also not by way of what is part of what: of dependencies the one that
//!   closes it is left out, and named;
//! - nothing is part of another type than it can be here, and no agent makes something done that has to pass gates.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::{ForeignIssue, ImportProblem, ImportedComment, Parsed, fit_id};
use crate::decide::issues;
use crate::issue_files::format::{FoundIssue, comment_id_fits, issue_json};
use crate::issue_files::stamps::{self, SetLine, Sheet};
use crate::log::state;
use crate::log::table::{Read, Table};
use crate::model::ids::{AgentId, IssueId};
use crate::model::issue::{self, Issue, check_word, text_digest};
use crate::model::policy::Policy;
use crate::model::time::Wall;
use crate::query::graph::{Graph, GraphNode, cycle_through, cycles};

/// Steps that the search for cycles may take. Real files need next to none: only what is in a cycle is searched.
const MAX_STEPS: usize = 5_000_000;

/// An issue that was left out although nothing is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Skipped {
    pub key: String,
    pub why: String,
}

/// An issue to be joined, and its long text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedIssue {
    pub found: FoundIssue,
    pub text: Option<Vec<u8>>,
}

#[derive(Debug, Default)]
pub struct ImportPlan {
    /// Every issue of the file, in its order, by its key there and its id here.
    pub names: Vec<(String, IssueId)>,
    pub brought: Vec<ImportedIssue>,
    pub skipped: Vec<Skipped>,
    pub problems: Vec<ImportProblem>,
    pub warnings: Vec<String>,
}

/// Where issues come from, who brings them, by which rules, and when.
#[derive(Debug, Clone, Copy)]
pub struct Errand<'a> {
    pub source: &'a str,
    pub by: &'a AgentId,
    pub policy: &'a Policy,
    pub now: Wall,
}

/// An issue on its way in, its references not yet settled.
struct Entry<'a> {
    id: IssueId,
    from: &'a ForeignIssue,
    state: issue::IssueState,
    parent: Option<IssueId>,
    depends_on: Vec<IssueId>,
}

pub fn plan(parsed: &Parsed, errand: Errand<'_>, table: &dyn Table) -> Read<ImportPlan> {
    let mut plan = ImportPlan {
        problems: parsed.problems.clone(),
        ..ImportPlan::default()
    };
    let mut named: HashMap<String, IssueId> = HashMap::new();
    let mut entries = Vec::new();
    let mut taken = HashSet::new();
    for from in &parsed.issues {
        let id = name(errand.source, &from.key, &mut taken);
        plan.names.push((from.key.clone(), id.clone()));
        if let Some(here) = state::issue(table, &id)? {
            plan.skipped.push(Skipped::known(&from.key, &here.id));
            named.insert(from.key.to_lowercase(), here.id);
            continue;
        }
        if state::deleted(table, &id)?.is_some() {
            plan.skipped.push(Skipped {
                key: from.key.clone(),
                why: format!("{id} was deleted here"),
            });
            continue;
        }
        named.insert(from.key.to_lowercase(), id.clone());
        entries.push(Entry {
            id,
            from,
            state: from.state,
            parent: None,
            depends_on: Vec::new(),
        });
    }
    for entry in &mut entries {
        plan.warnings
            .extend(entry.from.warnings.iter().map(|w| format!("{}: {w}", entry.id)));
        // Other trackers' are kept in words.
        if let Some(name) = &entry.from.assignee
            && !entry.from.description.contains("Assigned to: ")
        {
            plan.warnings
                .push(format!("{}: {name} had it: nobody has claimed it here", entry.id));
        }
        let words = [
            ("label", &entry.from.labels[..]),
            ("gate", &entry.from.gates),
            ("type", std::slice::from_ref(&entry.from.kind)),
        ];
        for (what, words) in words {
            for word in words.iter().filter(|word| fitted(word) != **word) {
                plan.warnings.push(format!(
                    "{}: the {what} {word:?} is cut at {} bytes",
                    entry.id,
                    issue::MAX_WORD
                ));
            }
        }
        if let Some(until) = entry.from.deferred.filter(|until| *until > errand.now)
            && entry.state == issue::IssueState::Ready
        {
            entry.state = issue::IssueState::Backlog;
            plan.warnings.push(format!(
                "{}: it is deferred until {until}, and taken as backlog",
                entry.id
            ));
        }
        hold_back(entry, errand, &mut plan.warnings);
        refer(entry, &named, table, &mut plan.warnings)?;
    }
    break_parent_cycles(&mut entries, table, &mut plan.warnings)?;
    check_parents(&mut entries, errand.policy, table, &mut plan.warnings)?;
    break_cycles(&mut entries, table, &mut plan.warnings)?;
    plan.brought = entries.iter().map(|entry| brought(entry, errand)).collect();
    Ok(plan)
}

impl Skipped {
    pub fn known(key: &str, id: &IssueId) -> Self {
        Self {
            key: key.to_owned(),
            why: format!("{id} is here already"),
        }
    }
}

/// Its own id if that can be one here; else one that follows from where it comes from, the same each time.
fn name(source: &str, key: &str, taken: &mut HashSet<String>) -> IssueId {
    if let Some(id) = fit_id(key)
        && taken.insert(id.key())
    {
        return id;
    }
    let key = key.to_lowercase();
    let mut attempt = 0_u64;
    loop {
        let id = IssueId::generate(xxh3_64(format!("{source}\0{key}\0{attempt}").as_bytes()));
        if taken.insert(id.key()) {
            return id;
        }
        attempt += 1;
    }
}

/// A new issue has passed no gate here: where the rules for agents apply, it is not done before it has.
fn hold_back(entry: &mut Entry<'_>, errand: Errand<'_>, warnings: &mut Vec<String>) {
    if entry.state != issue::IssueState::Done || !issues::is_bound(errand.policy, errand.by) {
        return;
    }
    let missing = errand
        .policy
        .required_gates(&kind(entry.from), &gates(entry.from));
    if !missing.is_empty() {
        entry.state = issue::IssueState::Gated;
        warnings.push(format!(
            "{}: it was done, and has not passed {} here: it is taken as gated",
            entry.id,
            missing.join(", ")
        ));
    }
}

/// Types that cannot be part of each other here are not, but for those of one type; something open under something closed
/// is told.
fn check_parents(
    entries: &mut [Entry<'_>],
    policy: &Policy,
    table: &dyn Table,
    warnings: &mut Vec<String>,
) -> Read<()> {
    let coming: HashMap<String, (String, issue::IssueState)> = entries
        .iter()
        .map(|entry| (entry.id.key(), (kind(entry.from), entry.state)))
        .collect();
    for entry in entries {
        let Some(whole) = entry.parent.clone() else {
            continue;
        };
        let known = match coming.get(&whole.key()) {
            Some(known) => Some(known.clone()),
            None => state::issue(table, &whole)?.map(|issue| (issue.kind.to_string(), issue.state)),
        };
        let Some((above, its_state)) = known else {
            continue;
        };
        let own = kind(entry.from);
        if !policy.may_be_part_of(&own, &above) {
            // Elsewhere a task may have tasks, and which belong together is not to be lost.
            let what = match own == above {
                true => "kept all the same",
                false => "it is part of nothing",
            };
            entry.parent = entry.parent.take().filter(|_| own == above);
            warnings.push(format!(
                "{}: a {own} cannot be part of {whole}, which is a {above}: {what}",
                entry.id
            ));
        }
        if entry.parent.is_some() && its_state.is_closed() && !entry.state.is_closed() {
            warnings.push(format!(
                "{}: it is open, and part of {whole}, which is {its_state}",
                entry.id
            ));
        }
    }
    Ok(())
}

/// References as ids: to what the file names, or to what is here.
fn refer(
    entry: &mut Entry<'_>,
    named: &HashMap<String, IssueId>,
    table: &dyn Table,
    warnings: &mut Vec<String>,
) -> Read<()> {
    let mut meant = |key: &str, what: &str| -> Read<Option<IssueId>> {
        if let Some(id) = named.get(&key.to_lowercase()) {
            return Ok(Some(id.clone()));
        }
        let here = match fit_id(key) {
            Some(id) => state::issue(table, &id)?.map(|issue| issue.id),
            None => None,
        };
        if here.is_none() {
            warnings.push(format!(
                "{}: {what} {key}, which is neither in the file nor here: left out",
                entry.id
            ));
        }
        Ok(here)
    };
    let parent = match &entry.from.parent {
        Some(key) => meant(key, "is part of")?,
        None => None,
    };
    let mut depends_on: Vec<IssueId> = Vec::new();
    let mut seen = HashSet::from([entry.id.key()]);
    for key in &entry.from.depends_on {
        if let Some(id) = meant(key, "waits for")?
            && seen.insert(id.key())
        {
            depends_on.push(id);
        }
    }
    entry.parent = parent.filter(|parent| parent.key() != entry.id.key());
    entry.depends_on = depends_on;
    Ok(())
}

/// An issue that would be part of itself is part of nothing.
fn break_parent_cycles(entries: &mut [Entry<'_>], table: &dyn Table, warnings: &mut Vec<String>) -> Read<()> {
    let mut above: HashMap<String, String> = state::issues(table)?
        .into_iter()
        .filter_map(|issue| Some((issue.id.key(), issue.parent?.key())))
        .collect();
    for entry in entries.iter() {
        if let Some(parent) = &entry.parent {
            above.insert(entry.id.key(), parent.key());
        }
    }
    // Each issue is walked through once: what lies above what was walked before is known to be sound.
    let mut sound: HashSet<String> = HashSet::new();
    for entry in entries {
        let start = entry.id.key();
        let mut way = Vec::new();
        let mut on_way = HashSet::new();
        let mut at = Some(start.clone());
        while let Some(key) = at.take() {
            if sound.contains(&key) {
                break;
            }
            if !on_way.insert(key.clone()) {
                if key == start {
                    warnings.push(format!(
                        "{} would be part of itself: it is part of nothing",
                        entry.id
                    ));
                    entry.parent = None;
                    above.remove(&start);
                    break;
                }
                // A cycle further up is broken at its own members.
                way.clear();
                break;
            }
            at = above.get(&key).cloned();
            way.push(key);
        }
        sound.extend(way);
    }
    Ok(())
}

fn break_cycles(entries: &mut [Entry<'_>], table: &dyn Table, warnings: &mut Vec<String>) -> Read<()> {
    if entries.iter().all(|entry| entry.depends_on.is_empty()) {
        return Ok(());
    }
    let old = state::issues(table)?;
    let node = |id: &IssueId, depends_on: &[IssueId]| GraphNode {
        id: id.key(),
        title: String::new(),
        state: issue::IssueState::Ready,
        note: None,
        parent: None,
        depends_on: depends_on.iter().map(IssueId::key).collect(),
    };
    // Something is done after its parts, as after what it waits for.
    let mut accepted: HashMap<String, Vec<IssueId>> = HashMap::new();
    let all = old
        .iter()
        .map(|issue| (&issue.id, issue.parent.as_ref(), issue.state))
        .chain(
            entries
                .iter()
                .map(|entry| (&entry.id, entry.parent.as_ref(), entry.state)),
        );
    for (id, whole, state) in all {
        if let Some(whole) = whole.filter(|_| !state.is_closed()) {
            accepted.entry(whole.key()).or_default().push(id.clone());
        }
    }
    for issue in &old {
        let before = accepted.entry(issue.id.key()).or_default();
        before.extend(issue.depends_on.iter().cloned());
    }
    let before = |id: &IssueId| accepted.get(&id.key()).map_or(&[][..], Vec::as_slice);
    let nodes = old.iter().map(|issue| node(&issue.id, before(&issue.id))).chain(
        entries
            .iter()
            .map(|entry| node(&entry.id, &[before(&entry.id), &entry.depends_on].concat())),
    );
    let mut group: HashMap<String, usize> = HashMap::new();
    for (number, members) in cycles(&Graph::new(nodes.collect())).into_iter().enumerate() {
        group.extend(members.into_iter().map(|key| (key, number)));
    }
    if group.is_empty() {
        return Ok(());
    }
    let mut steps = 0;
    for entry in entries {
        let from = entry.id.clone();
        let mine = group.get(&from.key()).copied();
        entry.depends_on.retain(|to| {
            if mine.is_none() || group.get(&to.key()).copied() != mine {
                return true;
            }
            let cycle = cycle_through(&from, to, |id| {
                steps += 1;
                match accepted.get(&id.key()) {
                    Some(next) if steps < MAX_STEPS => next.clone(),
                    _ => Vec::new(),
                }
            });
            if cycle.is_none() && steps < MAX_STEPS {
                accepted.entry(from.key()).or_default().push(to.clone());
                return true;
            }
            let way: Vec<&str> = cycle.iter().flatten().map(IssueId::as_str).collect();
            warnings.push(match way.len() {
                0 => format!("{from}: that it waits for {to} is left out: there are too many cycles"),
                1..=10 => format!(
                    "{from}: that it waits for {to} would close a cycle ({}): left out",
                    way.join(" → ")
                ),
                many => format!(
                    "{from}: that it waits for {to} would close a cycle of {} issues: left out",
                    many - 1
                ),
            });
            false
        });
    }
    Ok(())
}

fn brought(entry: &Entry<'_>, errand: Errand<'_>) -> ImportedIssue {
    let from = entry.from;
    // A time in the future would win every merge until then.
    let past = |at: Option<Wall>| at.map(|at| at.min(errand.now));
    let created_at = past(from.created_at)
        .or(past(from.updated_at))
        .unwrap_or(errand.now);
    let updated_at = past(from.updated_at).unwrap_or(created_at).max(created_at);
    let set = |values: Vec<String>| -> Vec<SetLine> {
        let mut lines = Vec::with_capacity(values.len());
        for value in values {
            let tag = format!(
                "import-{:016x}",
                xxh3_64(format!("{}\0{value}", entry.id).as_bytes())
            );
            lines.push(SetLine {
                op: "add".into(),
                value,
                tag,
                agent_id: errand.by.clone(),
                at: created_at,
            });
        }
        stamps::union(&lines, &[])
    };
    let sheet = Sheet {
        labels: set(words(&from.labels)),
        deps: set(entry.depends_on.iter().map(ToString::to_string).collect()),
        others: from.others.clone(),
        ..Sheet::default()
    };
    let text = long_text(&from.description);
    let issue = Issue {
        id: entry.id.clone(),
        title: from.title.clone(),
        kind: kind(from).into(),
        state: entry.state,
        priority: from.priority,
        parent: entry.parent.clone(),
        labels: stamps::members(&sheet.labels),
        depends_on: stamps::members(&sheet.deps)
            .iter()
            .filter_map(|id| id.parse().ok())
            .collect(),
        gates: gates(from),
        actor: from.actor,
        blocked: from.blocked.clone(),
        pivot: from.pivot.clone(),
        created_at,
        created_by: Some(match &from.created_by {
            Some(name) => agent(name, errand.by),
            None => errand.by.clone(),
        }),
        updated_at,
        revision: 1,
        lives_in: None,
        text: text.as_deref().map(text_digest),
    };
    ImportedIssue {
        found: FoundIssue {
            digest: text_digest(&issue_json(&issue, &sheet)),
            comments: comments(&entry.id, &from.comments, created_at, errand),
            issue,
            sheet,
            edited: Vec::new(),
            edited_others: Vec::new(),
            // The import was asked for by a command.
            by_hand: Vec::new(),
            unstamped: true,
            written: None,
            text_written: None,
            again: false,
            only_new: true,
            text_before: None,
            beside: None,
            problems: Vec::new(),
        },
        text,
    }
}

fn kind(from: &ForeignIssue) -> String {
    let kind = Some(fitted(&from.kind)).filter(|kind| check_word(kind).is_ok());
    kind.unwrap_or_else(|| "issue".to_owned())
}

fn gates(from: &ForeignIssue) -> Vec<String> {
    let mut gates = words(&from.gates);
    gates.dedup();
    gates
}

fn words(words: &[String]) -> Vec<String> {
    let fit = words.iter().map(|word| fitted(word));
    fit.filter(|word| check_word(word).is_ok()).collect()
}

/// As long as a label, gate or type may be.
fn fitted(word: &str) -> String {
    word[..super::boundary(word, issue::MAX_WORD)].trim().to_owned()
}

/// A description as it is kept: it ends in a newline, and an empty one is none.
fn long_text(text: &str) -> Option<Vec<u8>> {
    if text.is_empty() {
        return None;
    }
    let mut text = text.as_bytes().to_vec();
    if !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    Some(text)
}

fn comments(
    id: &IssueId,
    all: &[ImportedComment],
    created_at: Wall,
    errand: Errand<'_>,
) -> Vec<issue::Comment> {
    let mut seen = HashSet::new();
    let mut kept = Vec::with_capacity(all.len());
    for (number, comment) in all.iter().enumerate() {
        let made_up = || {
            let what = format!("{id}\0{number}\0{}\0{}", comment.author, comment.text);
            format!("{:032x}", xxh3_128(what.as_bytes()))
        };
        let own = comment.id.clone().filter(|id| comment_id_fits(id));
        let name = own.filter(|id| !seen.contains(id)).unwrap_or_else(made_up);
        if comment.text.trim().is_empty() || !seen.insert(name.clone()) {
            continue;
        }
        kept.push(issue::Comment {
            id: name,
            at: comment.at.map_or(created_at, |at| at.min(errand.now)),
            agent_id: agent(&comment.author, errand.by),
            text: comment.text.clone(),
        });
    }
    kept
}

/// People of other trackers have names without a kind. `by` stands in where nobody can be named.
fn agent(name: &str, by: &AgentId) -> AgentId {
    let short: String = name.trim().chars().take(30).collect();
    let names = [
        name.to_owned(),
        format!("human:{}", name.trim()),
        format!("human:{}", short.trim()),
    ];
    names
        .iter()
        .chain([&"human:unknown".to_owned()])
        .find_map(|name| name.parse().ok())
        .unwrap_or_else(|| by.clone())
}

/// An issue of ours, to be exported.
pub fn exported(
    issue: &Issue,
    sheet: &Sheet,
    description: Option<String>,
    comments: &[issue::Comment],
    assignee: Option<&AgentId>,
) -> ForeignIssue {
    ForeignIssue {
        key: issue.id.to_string(),
        title: issue.title.clone(),
        kind: issue.kind.to_string(),
        state: issue.state,
        priority: issue.priority,
        labels: issue.labels.iter().map(ToString::to_string).collect(),
        depends_on: issue.depends_on.iter().map(ToString::to_string).collect(),
        parent: issue.parent.as_ref().map(ToString::to_string),
        gates: issue.gates.clone(),
        actor: issue.actor,
        blocked: issue.blocked.clone(),
        pivot: issue.pivot.clone(),
        description: description.unwrap_or_default(),
        comments: comments
            .iter()
            .map(|comment| ImportedComment {
                id: Some(comment.id.clone()),
                author: comment.agent_id.to_string(),
                at: Some(comment.at),
                text: comment.text.clone(),
            })
            .collect(),
        assignee: assignee.map(ToString::to_string),
        created_at: Some(issue.created_at),
        created_by: issue.created_by.as_ref().map(ToString::to_string),
        updated_at: Some(issue.updated_at),
        deferred: None,
        others: sheet.others.clone(),
        warnings: Vec::new(),
    }
}
