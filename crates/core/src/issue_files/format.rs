//! An issue's files: how they are written, and what is made of them when they are read.
//!
//! # Format of an issue's folder, in the replica and in a tree alike
//!
//! - `issue.json`: the fields of which there is one each, pretty-printed, and under `stamps` for each of them when it was
//!   last changed and a check on its value (see [`crate::issue_files::stamps`]).
//!   Fields that this program does not know stand there too, and are kept;
//! - `labels.or-set.jsonl`, `deps.or-set.jsonl`: sets as a log of additions and removals, one JSON object a line;
//! - `comments.jsonl`: one JSON object a line;
//! - `description.md`: the long text, when there is one.
//!
//! Any program or person may have written these files. A bad `issue.json` makes the folder unusable; a bad line elsewhere is
//! reported and passed over. A line of a set may be as short as `{"op":"add","value":"x"}`, for those who write it by hand.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_128;

use crate::issue_files::stamps::{self, FIELDS, GATE, SetLine, Sheet, check, field, is_other};
use crate::issue_files::strict_json;
use crate::model::ids::{AgentId, IssueId};
use crate::model::issue::{
    Comment, Issue, IssueState, MAX_COMMENT, MAX_MEMBERS, MAX_REVISION, MAX_TITLE, Performer, Priority,
    check_gate, check_word, text_digest,
};
use crate::model::json::json_bytes;
use crate::model::time::Wall;

pub const ISSUE: &str = "issue.json";
pub const LABELS: &str = "labels.or-set.jsonl";
pub const DEPS: &str = "deps.or-set.jsonl";
pub const COMMENTS: &str = "comments.jsonl";
pub const DESCRIPTION: &str = "description.md";
/// Every file of an issue's folder.
pub const NAMES: [&str; 5] = [ISSUE, LABELS, DEPS, COMMENTS, DESCRIPTION];

/// Longest description, in bytes.
pub const MAX_DESCRIPTION: u64 = 4 << 20;
/// Most fields of one issue that this program does not know; and their length as JSON, in bytes.
pub const MAX_OTHERS: usize = 100;
pub const MAX_OTHERS_LEN: usize = 64 << 10;
/// A file may have so many times more: branches that were merged have what each of them had.
const MERGED: usize = 10;
/// How deep such a field may nest: in the log it lies deeper still, and has to be read there.
const MAX_OTHERS_DEPTH: usize = 32;
/// Longest issue as JSON with all that its sets and stamps say, in bytes: one line of the log has it whole.
const MAX_ISSUE: usize = 4 << 20;
/// Longest other file, in bytes.
pub const MAX_FILE: u64 = 16 << 20;

/// `issue.json`.
pub fn issue_json(issue: &Issue, sheet: &Sheet) -> Vec<u8> {
    let mut file = Map::new();
    file.insert("schema_version".into(), 1.into());
    file.insert("id".into(), issue.id.as_str().into());
    for name in FIELDS.iter().filter(|name| !matches!(**name, "text" | "deleted")) {
        file.insert((*name).into(), field(issue, sheet.deleted, name));
    }
    if sheet.deleted {
        file.insert("deleted".into(), true.into());
    }
    file.insert("created_at".into(), issue.created_at.to_string().into());
    file.insert(
        "created_by".into(),
        issue
            .created_by
            .as_ref()
            .map_or(Value::Null, |by| by.as_str().into()),
    );
    file.insert("updated_at".into(), issue.updated_at.to_string().into());
    file.insert("revision".into(), issue.revision.into());
    let others = sheet.others.iter().filter(|(name, _)| is_other(name));
    file.extend(others.map(|(name, value)| (name.clone(), value.clone())));
    let mut stamps = Map::new();
    for name in FIELDS {
        let value = field(issue, sheet.deleted, name);
        // A value that never was is not written; one that was removed is.
        let never = value.is_null() || value == Value::Bool(false);
        if matches!(*name, "deleted" | "text") && never && !sheet.stamps.contains_key(*name) {
            continue;
        }
        let mark = match (*name, value.as_str()) {
            ("text", digest) => digest.unwrap_or(NO_TEXT).to_owned(),
            _ => check(&value),
        };
        stamps.insert(
            (*name).into(),
            format!("{} {mark}", sheet.stamp(issue, name)).into(),
        );
    }
    for (name, at) in &sheet.stamps {
        if let Some(gate) = name.strip_prefix(GATE) {
            let asked = issue.gates.iter().any(|one| one == gate);
            stamps.insert(name.clone(), format!("{at} {}", check(&asked.into())).into());
        }
    }
    for name in sheet.other_names() {
        let mark = check(&sheet.other(name));
        stamps.insert(
            name.clone(),
            format!("{} {mark}", sheet.stamp(issue, name)).into(),
        );
    }
    file.insert("stamps".into(), stamps.into());
    render(&file, &|_| None).into_bytes()
}

/// Stands in a stamp for the digest of a text that is no more.
pub(crate) const NO_TEXT: &str = "none";
/// So many problems of one file are told; what is worse is not worth the memory.
const MOST_PROBLEMS: usize = 100;
/// So many lines of one set are read.
pub(crate) const MOST_LINES: usize = 10 * MAX_MEMBERS;

/// Fields of `jit issue show --json` that this file does not have, and the command that changes each.
const ELSEWHERE: &[(&str, &str)] = &[
    ("assignee", "jit claim acquire"),
    ("blocked_by", "jit dep add"),
    ("comments", "jit issue comment"),
    ("depends_on", "jit dep add"),
    ("description", "jit issue update --description"),
    ("labels", "jit issue update --add-label"),
    ("lease", "jit claim acquire"),
    ("lives_in", "leave it out"),
    ("resume_from", "leave it out"),
];

/// Fields in the order they are written; any others stand before the stamps, by name.
const ORDER: &[&str] = &[
    "schema_version",
    "id",
    "title",
    "type",
    "state",
    "priority",
    "parent",
    "actor",
    "blocked",
    "pivot",
    "gates",
    "deleted",
    "created_at",
    "created_by",
    "updated_at",
    "revision",
];

/// The text of a file with these fields. `other` may give a second value for a field: then both are shown, between
/// git's conflict markers.
pub fn render(fields: &Map<String, Value>, other: &dyn Fn(&str) -> Option<Value>) -> String {
    let place = |name: &str| match name {
        "stamps" => ORDER.len() + 1,
        _ => ORDER.iter().position(|o| *o == name).unwrap_or(ORDER.len()),
    };
    let mut names: Vec<&String> = fields.keys().collect();
    names.sort_by(|a, b| (place(a), a).cmp(&(place(b), b)));
    let mut out = String::from("{\n");
    let last = names.len().saturating_sub(1);
    for (n, name) in names.into_iter().enumerate() {
        let comma = if n == last { "" } else { "," };
        let line = |value: &Value| {
            let text = serde_json::to_string_pretty(value)
                .unwrap_or_default()
                .replace('\n', "\n  ");
            format!("  {}: {text}{comma}\n", Value::from(name.as_str()))
        };
        match other(name) {
            None => out.push_str(&line(&fields[name])),
            Some(theirs) => out.push_str(&format!(
                "<<<<<<< ours\n{}=======\n{}>>>>>>> theirs\n",
                line(&fields[name]),
                line(&theirs)
            )),
        }
    }
    out.push_str("}\n");
    out
}

/// The fields outside of the conflict markers of a file, without those inside; `None` when they are no issue either. git hands
/// the result of one merge to another, as the ancestor of both sides.
pub fn agreed(bytes: &[u8]) -> Option<Map<String, Value>> {
    let (mut rest, mut inside, mut open) = (String::new(), Vec::new(), 0_usize);
    for line in std::str::from_utf8(bytes).ok()?.lines() {
        if line.starts_with("<<<<<<<") {
            open += 1;
        } else if line.starts_with(">>>>>>>") {
            open = open.checked_sub(1)?;
        } else if open == 0 {
            rest.push_str(line);
            rest.push('\n');
        } else {
            let name = line
                .trim_start()
                .strip_prefix('"')
                .and_then(|rest| rest.split_once('"'));
            inside.extend(name.map(|(name, _)| name));
        }
    }
    let mut fields = serde_json::from_str::<Map<String, Value>>(&rest).or_else(|_| {
        // The last one may have been inside.
        let rest = rest.trim_end().trim_end_matches('}').trim_end();
        serde_json::from_str(&format!("{}}}", rest.strip_suffix(',').unwrap_or(rest)))
    });
    if let Ok(fields) = &mut fields
        && let Some(stamps) = fields.get_mut("stamps").and_then(Value::as_object_mut)
    {
        stamps.retain(|name, _| !inside.contains(&name.as_str()));
    }
    fields.ok()
}

fn lines<T: serde::Serialize>(all: &[T]) -> Vec<u8> {
    let mut out = Vec::new();
    for one in all {
        out.extend_from_slice(&json_bytes(one));
        out.push(b'\n');
    }
    out
}

/// The files of an issue but its description; empty ones are left out.
pub fn files(issue: &Issue, sheet: &Sheet, comments: &[Comment]) -> Vec<(&'static str, Vec<u8>)> {
    let mut files = vec![(ISSUE, issue_json(issue, sheet))];
    for (name, content) in [
        (LABELS, lines(&sheet.labels)),
        (DEPS, lines(&sheet.deps)),
        (COMMENTS, lines(comments)),
    ] {
        if !content.is_empty() {
            files.push((name, content));
        }
    }
    files
}

/// A problem of a file, and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssueFileProblem {
    pub file: &'static str,
    /// From 1; 0 when it is about the whole file.
    pub line: usize,
    pub what: String,
}

/// An issue's folder as bytes. What is not there is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IssueFolder {
    pub issue: Vec<u8>,
    pub labels: Vec<u8>,
    pub deps: Vec<u8>,
    pub comments: Vec<u8>,
    pub description: Option<Vec<u8>>,
}

/// The content of an issue's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundIssue {
    pub issue: Issue,
    pub sheet: Sheet,
    pub comments: Vec<Comment>,
    /// Fields that are not what was stamped: somebody edited them.
    pub edited: Vec<&'static str>,
    /// The same for fields that this program does not know.
    pub edited_others: Vec<String>,
    /// The same as `edited`, also when it is known when they were edited: nobody checked whether they may be so.
    pub by_hand: Vec<&'static str>,
    /// It was not written by this program, or by one that did not stamp.
    pub unstamped: bool,
    /// When `issue.json` was last written to, where somebody edited it and has not committed that.
    pub written: Option<Wall>,
    /// The same for the description.
    pub text_written: Option<Wall>,
    /// It was saved once more as it was brought in before, and does not count: it is to be written anew.
    pub again: bool,
    /// It is to be made, and nothing that is here is to be changed.
    pub only_new: bool,
    /// The text that the description was when `issue.json` was written.
    pub text_before: Option<String>,
    /// The text of ours that the description was weighed against, if it was, and since when we had that: see
    /// [`FoundIssue::is_outdated`].
    pub beside: Option<(Option<String>, Wall)>,
    /// XXH3 of `issue.json`.
    pub digest: String,
    /// Lines that were passed over.
    pub problems: Vec<IssueFileProblem>,
}

#[derive(Deserialize)]
struct IssueFile {
    #[serde(default)]
    schema_version: Option<u64>,
    id: IssueId,
    title: String,
    #[serde(rename = "type", default = "plain")]
    kind: String,
    #[serde(default = "ready")]
    state: IssueState,
    #[serde(default = "normal")]
    priority: Priority,
    #[serde(default)]
    parent: Option<IssueId>,
    #[serde(default = "any")]
    actor: Performer,
    #[serde(default)]
    blocked: Option<String>,
    #[serde(default)]
    pivot: Option<String>,
    #[serde(default)]
    gates: Vec<String>,
    #[serde(default)]
    deleted: bool,
    created_at: Wall,
    #[serde(default)]
    created_by: Option<AgentId>,
    #[serde(default)]
    updated_at: Option<Wall>,
    #[serde(default = "one")]
    revision: u64,
    #[serde(default)]
    stamps: BTreeMap<String, String>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

impl FoundIssue {
    /// Whether somebody edited this field.
    pub fn is_edited(&self, name: &str) -> bool {
        self.edited.contains(&name) || self.edited_others.iter().any(|other| other == name)
    }

    /// Whether the description was weighed against another text than ours is now: it must be weighed again, or it would win
    /// over what somebody wrote meanwhile.
    pub fn is_outdated(&self, (mine, sheet): (&Issue, &Sheet)) -> bool {
        let is_ours =
            |(text, at): &(Option<String>, Wall)| (text, *at) == (&mine.text, sheet.stamp(mine, "text"));
        !self.beside.as_ref().is_none_or(is_ours)
    }

    /// Whether all of `issue.json` is as it was stamped.
    pub fn is_untouched(&self) -> bool {
        self.edited.is_empty() && self.edited_others.is_empty()
    }

    /// Forgets edits of a file that was read before: only its sets, which are files of their own, and its text may be new.
    pub fn forget_edits(&mut self) {
        self.edited.retain(|name| *name == "text");
        self.edited_others.clear();
        self.by_hand.retain(|name| *name == "text");
    }

    /// Takes out what one of the files says, as if it said what is known. The description stays: it is a file of its own.
    pub fn leave_out(&mut self, file: &str, (known, sheet): (&Issue, &Sheet)) {
        match file {
            LABELS => {
                self.issue.labels.clone_from(&known.labels);
                self.sheet.labels.clone_from(&sheet.labels);
            }
            DEPS => {
                self.issue.depends_on.clone_from(&known.depends_on);
                self.sheet.deps.clone_from(&sheet.deps);
            }
            _ => self.leave_out_fields((known, sheet)),
        }
    }

    fn leave_out_fields(&mut self, (known, sheet): (&Issue, &Sheet)) {
        self.forget_edits();
        let mut text = self.issue.text.take();
        if std::mem::take(&mut self.unstamped) {
            // Nothing tells what it was made of; a file that is not there takes nothing away.
            text = text.or_else(|| known.text.clone());
            if text != known.text {
                self.edited.push("text");
            }
        }
        let text_at = self.sheet.stamp(&self.issue, "text");
        self.issue = Issue {
            text,
            labels: std::mem::take(&mut self.issue.labels),
            depends_on: std::mem::take(&mut self.issue.depends_on),
            ..known.clone()
        };
        self.sheet = Sheet {
            labels: std::mem::take(&mut self.sheet.labels),
            deps: std::mem::take(&mut self.sheet.deps),
            ..sheet.clone()
        };
        self.sheet.stamps.insert("text".to_owned(), text_at);
        self.digest = text_digest(&issue_json(known, sheet));
    }

    /// Whether somebody edited what is in this one of the files. One without stamps does not tell.
    pub fn has_edits_in(&self, file: &str) -> bool {
        match file {
            DESCRIPTION => self.edited.contains(&"text"),
            _ => self.edited.iter().any(|name| *name != "text") || !self.edited_others.is_empty(),
        }
    }

    /// Takes all edits as made then, and in any case after what they replaced.
    pub fn settle_all(&mut self, at: Wall) {
        for file in [ISSUE, DESCRIPTION] {
            self.settle(file, at);
        }
    }

    /// Takes the edits in one of the files as made when it was committed, and in any case after what they replaced.
    pub fn settle(&mut self, file: &str, committed: Wall) {
        let is_text = file == DESCRIPTION;
        let (meant, rest): (Vec<&'static str>, Vec<&'static str>) = std::mem::take(&mut self.edited)
            .into_iter()
            .partition(|name| (*name == "text") == is_text);
        self.edited = rest;
        let others = match is_text {
            true => Vec::new(),
            false => std::mem::take(&mut self.edited_others),
        };
        for name in meant.into_iter().map(str::to_owned).chain(others) {
            let before = self.sheet.stamp(&self.issue, &name);
            let mut at = committed.max(Wall::from_ms(before.ms().saturating_add(1)));
            if name == "deleted" {
                at = at.max(self.issue.updated_at);
            }
            self.sheet.stamps.insert(name, at);
            self.issue.updated_at = self.issue.updated_at.max(at);
        }
    }
}

fn plain() -> String {
    "issue".into()
}

fn ready() -> IssueState {
    IssueState::Ready
}

fn normal() -> Priority {
    Priority::Normal
}

fn any() -> Performer {
    Performer::Any
}

fn one() -> u64 {
    1
}

/// All that is wrong with a folder that is called `id`.
pub fn problems(id: &IssueId, folder: &IssueFolder) -> Vec<IssueFileProblem> {
    let first = match parse(id, folder) {
        Ok(found) => return found.problems,
        Err(problem) => problem,
    };
    // Reports the other problems as well, so that all can be mended at once.
    let mut all = vec![first];
    let at = Wall::from_ms(0);
    set(LABELS, &folder.labels, at, &mut all);
    set(DEPS, &folder.deps, at, &mut all);
    comments(&folder.comments, &mut all);
    all.extend(folder.description.as_deref().and_then(unmerged));
    all
}

/// The line of `issue.json` on which the last field of this name begins, or the first; 0 when there is none.
fn line_of(file: &[u8], name: &str, last: bool) -> usize {
    let key = Value::from(name).to_string();
    let mut found = 0;
    for (n, line) in file.split(|b| *b == b'\n').enumerate() {
        let here = String::from_utf8_lossy(line);
        let mut rest = here.split(&key).skip(1);
        if rest.any(|rest| rest.trim_start().starts_with(':')) {
            found = n + 1;
            if !last {
                break;
            }
        }
    }
    found
}

fn wrong(line: usize, what: impl Into<String>) -> IssueFileProblem {
    IssueFileProblem {
        file: ISSUE,
        line,
        what: what.into(),
    }
}

/// Reads `issue.json` of the folder that is called `id`, and refuses what no issue can be.
fn read_issue_file(id: &IssueId, bytes: &[u8]) -> Result<IssueFile, IssueFileProblem> {
    let at = |name: &str| line_of(bytes, name, false);
    if bytes.is_empty() {
        return Err(wrong(0, "it is missing or empty"));
    }
    let file: IssueFile = serde_json::from_slice(bytes).map_err(|e| {
        let marker = bytes
            .split(|b| *b == b'\n')
            .position(|l| l.starts_with(b"<<<<<<<"));
        match marker {
            Some(n) => wrong(n + 1, "an unresolved conflict of a merge"),
            None => wrong(e.line(), e.to_string()),
        }
    })?;
    if file.schema_version.is_some_and(|version| version > 1) {
        return Err(wrong(at("schema_version"), "a newer jit wrote it"));
    }
    if file.id != *id {
        return Err(wrong(at("id"), format!("it says it is {}", file.id)));
    }
    if file.title.trim().is_empty() || file.title.len() > MAX_TITLE {
        return Err(wrong(
            at("title"),
            format!("the title is empty or longer than {MAX_TITLE} bytes"),
        ));
    }
    check_word(&file.kind).map_err(|why| wrong(at("type"), format!("type: {why}")))?;
    let long = |text: &Option<String>| text.as_ref().is_some_and(|text| text.len() > MAX_COMMENT);
    for (name, is_long) in [
        ("gates", file.gates.len() > MAX_MEMBERS),
        ("blocked", long(&file.blocked)),
        ("pivot", long(&file.pivot)),
    ] {
        if is_long {
            return Err(wrong(at(name), format!("{name} is too long")));
        }
    }
    Ok(file)
}

/// Takes out of `issue.json` what it may not say. Each is a problem, and none keeps the rest from being read.
fn leave_out_bad_values(
    file: &mut IssueFile,
    bytes: &[u8],
    problems: &mut Vec<IssueFileProblem>,
) -> Result<(), IssueFileProblem> {
    let at = |name: &str| line_of(bytes, name, false);
    file.gates.retain(|gate| {
        let bad = check_gate(gate).err();
        problems.extend(bad.map(|why| {
            wrong(
                at("gates"),
                format!("{gate:.100?} is not the name of a gate: {why}"),
            )
        }));
        bad.is_none()
    });
    for (name, command) in ELSEWHERE {
        if file.others.remove(*name).is_some() {
            let what = format!("{name} stands elsewhere, and is not read here: {command}");
            problems.push(wrong(at(name), what));
        }
    }
    check_fields(&file.others, MERGED)
        .map_err(|why| wrong(file.others.keys().map(|name| at(name)).min().unwrap_or(0), why))?;
    strict_json::check(bytes).map_err(|e| wrong(e.line(), e.to_string()))?;
    if file.revision > MAX_REVISION {
        problems.push(wrong(
            at("revision"),
            format!("no issue was changed {} times", file.revision),
        ));
        file.revision = one();
    }
    Ok(())
}

/// The stamps of an `issue.json`, taken apart: the time of each field, and the check on its value.
struct ReadStamps {
    times: BTreeMap<String, Wall>,
    checks: BTreeMap<String, String>,
}

fn read_stamps(
    written: &BTreeMap<String, String>,
    bytes: &[u8],
    problems: &mut Vec<IssueFileProblem>,
) -> ReadStamps {
    let (mut times, mut checks) = (BTreeMap::new(), BTreeMap::new());
    for (name, stamp) in written {
        let parsed = stamp
            .split_once(' ')
            .and_then(|(at, check)| Some((at.parse::<Wall>().ok()?, check)));
        match parsed {
            Some((at, check)) => {
                times.insert(name.clone(), at);
                checks.insert(name.clone(), check.to_owned());
            }
            None if problems.len() < MOST_PROBLEMS => {
                // The stamps are the last thing in the file.
                problems.push(wrong(
                    line_of(bytes, name, true),
                    format!("the stamp of {name:.100} is no time with a check: {stamp:.100?}"),
                ));
            }
            None => {}
        }
    }
    ReadStamps { times, checks }
}

impl ReadStamps {
    /// Fields whose value is not the one that was stamped: edited by hand.
    fn edited(&self, issue: &Issue, deleted: bool, text_before: &Option<String>) -> Vec<&'static str> {
        let matches = |name: &str| match name {
            "text" => issue.text == *text_before,
            _ => self
                .checks
                .get(name)
                .map_or(name == "deleted" && !deleted, |mark| {
                    *mark == check(&field(issue, deleted, name))
                }),
        };
        FIELDS.iter().copied().filter(|name| !matches(name)).collect()
    }

    /// The same for fields that this program does not know, also for those that are gone.
    fn edited_others(&self, others: &BTreeMap<String, Value>) -> Vec<String> {
        let gone = self.times.keys().filter(|name| is_gone(name, others));
        let names = others.keys().chain(gone);
        names
            .filter(|name| {
                let mark = check(others.get(*name).unwrap_or(&Value::Null));
                self.checks.get(*name).is_none_or(|stamped| *stamped != mark)
            })
            .cloned()
            .collect()
    }
}

/// Whether a stamp is of a field that this program does not know and that is not there any more.
fn is_gone(name: &str, others: &BTreeMap<String, Value>) -> bool {
    is_other(name) && !others.contains_key(name)
}

/// The digest of the description. A file that is not there says nothing; nor does an empty one, which is what a loss of power
/// leaves of a new file.
fn read_text(
    folder: &IssueFolder,
    before: &Option<String>,
    problems: &mut Vec<IssueFileProblem>,
) -> Option<String> {
    let text = match folder.description.as_deref() {
        None | Some([]) => return before.clone(),
        Some(text) => Some(text_digest(text)),
    };
    match folder.description.as_deref().and_then(unmerged) {
        Some(problem) if text != *before => {
            problems.push(problem);
            before.clone()
        }
        _ => text,
    }
}

/// Reads a folder that is called `id`.
pub fn parse(id: &IssueId, folder: &IssueFolder) -> Result<FoundIssue, IssueFileProblem> {
    let mut file = read_issue_file(id, &folder.issue)?;
    let mut problems = Vec::new();
    leave_out_bad_values(&mut file, &folder.issue, &mut problems)?;
    let labels = set(LABELS, &folder.labels, file.created_at, &mut problems);
    let deps = set(DEPS, &folder.deps, file.created_at, &mut problems);
    let comments = comments(&folder.comments, &mut problems);
    let mut stamps = read_stamps(&file.stamps, &folder.issue, &mut problems);
    let text_before = stamps.checks.get("text").filter(|mark| *mark != NO_TEXT).cloned();
    let text = read_text(folder, &text_before, &mut problems);
    let others = file.others;
    let issue = Issue {
        id: file.id,
        title: file.title,
        kind: file.kind.into(),
        state: file.state,
        priority: file.priority,
        parent: file.parent,
        labels: stamps::members(&labels),
        depends_on: stamps::members(&deps)
            .iter()
            .filter_map(|id| id.parse().ok())
            .collect(),
        gates: file.gates,
        actor: file.actor,
        blocked: file.blocked,
        pivot: file.pivot,
        created_at: file.created_at,
        created_by: file.created_by,
        // No field was changed later than the issue as a whole.
        updated_at: stamps
            .times
            .values()
            .copied()
            .chain(file.updated_at)
            .fold(file.created_at, Wall::max),
        revision: file.revision,
        lives_in: None,
        text,
    };
    stamps.times.retain(|name, _| match name.strip_prefix(GATE) {
        Some(gate) => check_word(gate).is_ok(),
        None => !is_gone(name, &others) || check_word(name).is_ok(),
    });
    check_stamps(&stamps.times, &others)
        .map_err(|why| wrong(line_of(&folder.issue, "stamps", false), why))?;
    let unstamped = stamps.checks.is_empty();
    let (edited, edited_others) = match unstamped {
        true => (Vec::new(), Vec::new()),
        false => (
            stamps.edited(&issue, file.deleted, &text_before),
            stamps.edited_others(&others),
        ),
    };
    stamps.times.retain(|_, at| *at != issue.created_at);
    Ok(FoundIssue {
        digest: text_digest(&folder.issue),
        issue,
        sheet: Sheet {
            stamps: stamps.times,
            labels,
            deps,
            deleted: file.deleted,
            others,
        },
        comments,
        by_hand: match unstamped {
            true => FIELDS.to_vec(),
            false => edited.clone(),
        },
        edited,
        edited_others,
        unstamped,
        written: None,
        text_written: None,
        again: false,
        only_new: false,
        text_before,
        beside: None,
        problems,
    })
}

/// Whether an issue can be kept, and read again from the files that it is written to. `before` is what was kept so far.
pub fn check_kept(issue: &Issue, sheet: &Sheet, before: Option<&Sheet>) -> Result<(), IssueFileProblem> {
    let wrong = |file: &'static str, what: String| IssueFileProblem { file, line: 0, what };
    for (file, lines) in [(LABELS, &sheet.labels), (DEPS, &sheet.deps)] {
        let many = lines.len();
        if many > MOST_LINES {
            let what =
                format!("with what is known it would have {many} lines: at most {MOST_LINES} are kept");
            return Err(wrong(file, what));
        }
    }
    if issue.gates.len() > MAX_MEMBERS {
        return Err(wrong(ISSUE, format!("an issue has at most {MAX_MEMBERS} gates")));
    }
    check_stamps(&sheet.stamps, &sheet.others).map_err(|why| wrong(ISSUE, why))?;
    // Two merged branches may have more fields together than a single edit may add.
    let is_more = before.is_some_and(|before| sheet.others.len() > before.others.len());
    let times = if is_more { 1 } else { MERGED };
    check_fields(&sheet.others, times).map_err(|why| wrong(ISSUE, why))?;
    let long = json_bytes(issue).len() + json_bytes(sheet).len();
    if long > MAX_ISSUE {
        let what =
            format!("with its labels and dependencies it has {long} bytes: at most {MAX_ISSUE} are kept");
        return Err(wrong(ISSUE, what));
    }
    Ok(())
}

/// Stamps are kept of what is no more, too: of so many gates and other fields at most.
fn check_stamps(stamps: &BTreeMap<String, Wall>, others: &BTreeMap<String, Value>) -> Result<(), String> {
    let gates = stamps.keys().filter(|name| name.starts_with(GATE)).count();
    let gone = |name: &&String| is_other(name) && !others.contains_key(*name);
    if gates > MAX_MEMBERS || stamps.keys().filter(gone).count() > MAX_MEMBERS {
        return Err("too many stamps of gates, or of fields that are not there".into());
    }
    Ok(())
}

/// Whether fields that this program does not know can be kept.
pub fn check_others(others: &BTreeMap<String, Value>) -> Result<(), String> {
    check_fields(others, 1)
}

fn check_fields(others: &BTreeMap<String, Value>, times: usize) -> Result<(), String> {
    let many = others.len();
    if many > MAX_OTHERS * times || json_bytes(others).len() > MAX_OTHERS_LEN * times {
        return Err(format!(
            "{many} fields that this jit does not know: at most {MAX_OTHERS} are kept, of {MAX_OTHERS_LEN} bytes together"
        ));
    }
    for (name, value) in others {
        check_value(value, MAX_OTHERS_DEPTH).map_err(|why| format!("{name}: {why}"))?;
        check_word(name).map_err(|why| format!("the name of a field: {why}"))?;
        if !is_other(name) {
            // Its stamp would be that of something else.
            return Err(format!("{name:?} cannot be the name of a field"));
        }
    }
    Ok(())
}

/// Whether a value can be written down and read again as it is.
fn check_value(value: &Value, deep: usize) -> Result<(), &'static str> {
    let Some(deeper) = deep.checked_sub(1) else {
        return Err("it is nested too deep");
    };
    match value {
        Value::Number(number) if number.is_f64() => {
            strict_json::check_number(number.as_f64().unwrap_or(f64::MAX))
        }
        Value::Array(all) => all.iter().try_for_each(|one| check_value(one, deeper)),
        Value::Object(all) => all.values().try_for_each(|one| check_value(one, deeper)),
        _ => Ok(()),
    }
}

fn each_line(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    bytes
        .split(|b| *b == b'\n')
        .enumerate()
        .map(|(n, line)| (n + 1, line.strip_suffix(b"\r").unwrap_or(line)))
        .filter(|(_, line)| !line.is_empty())
}

/// The line at which git left a conflict in a text.
fn unresolved(text: &[u8]) -> Option<usize> {
    let mut marks = [&b"<<<<<<< "[..], b"=======", b">>>>>>> "].into_iter();
    let mut mark = marks.next()?;
    let mut first = None;
    for (line, text) in each_line(text) {
        if text.starts_with(mark) {
            first = first.or(Some(line));
            match marks.next() {
                Some(next) => mark = next,
                None => return first,
            }
        }
    }
    None
}

fn unmerged(description: &[u8]) -> Option<IssueFileProblem> {
    Some(IssueFileProblem {
        file: DESCRIPTION,
        line: unresolved(description)?,
        what: "an unresolved conflict of a merge".into(),
    })
}

/// A line of a set as somebody may write it by hand.
#[derive(Deserialize)]
struct WrittenLine {
    op: String,
    value: String,
    tag: Option<String>,
    agent_id: Option<AgentId>,
    at: Option<Wall>,
}

impl WrittenLine {
    fn read(file: &str, text: &[u8]) -> Result<Self, String> {
        let written: Self = serde_json::from_slice(text).map_err(|e| e.to_string())?;
        if !matches!(written.op.as_str(), "add" | "remove") {
            return Err(format!("op is {:.100?}, not add or remove", written.op));
        }
        let long = |tag: &String| tag.is_empty() || tag.len() > MAX_TITLE;
        if written.tag.as_ref().is_some_and(long) {
            return Err("the tag is empty or too long".into());
        }
        if file == DEPS {
            written.value.parse::<IssueId>().map_err(|e| e.to_string())?;
        } else {
            check_word(&written.value)?;
        }
        Ok(written)
    }
}

/// The lines of a set. What they say does not depend on their order, which git may change: a removal without a tag takes
/// back one addition, of which those with tags count as one and come first.
fn set(
    file: &'static str,
    bytes: &[u8],
    created_at: Wall,
    problems: &mut Vec<IssueFileProblem>,
) -> Vec<SetLine> {
    let Ok(unnamed) = "human:unnamed".parse::<AgentId>() else {
        return Vec::new();
    };
    let (mut all, mut tagless) = (Vec::new(), Vec::new());
    let told = problems.len();
    for (line, text) in each_line(bytes) {
        if problems.len() >= told + MOST_PROBLEMS {
            break;
        }
        if all.len() + tagless.len() >= MOST_LINES {
            problems.push(IssueFileProblem {
                file,
                line,
                what: "too many lines".into(),
            });
            break;
        }
        match WrittenLine::read(file, text) {
            Ok(written) => {
                let tag = written.tag;
                let line = SetLine {
                    op: written.op,
                    value: written.value,
                    tag: tag.clone().unwrap_or_default(),
                    agent_id: written.agent_id.unwrap_or_else(|| unnamed.clone()),
                    at: written.at.unwrap_or(created_at),
                };
                match tag {
                    Some(_) => all.push(line),
                    None => tagless.push(line),
                }
            }
            Err(what) => problems.push(IssueFileProblem { file, line, what }),
        }
    }
    let tagged = all.len();
    tagless.sort();
    for same in tagless.chunk_by(|a, b| a.value == b.value && a.op == b.op) {
        let Some(SetLine { op, value, .. }) = same.first() else {
            continue;
        };
        // The same in every copy of the file, and another one for each time it is added.
        let name = format!("hand.{}.", text_digest(value.as_bytes()));
        let mine = |line: &&SetLine| line.value == *value;
        let used: BTreeSet<&str> = all[..tagged]
            .iter()
            .filter(mine)
            .filter_map(|line| line.tag.strip_prefix(&name))
            .collect();
        let first = used.len();
        let mut rest = same;
        if op == "remove" {
            let seen: BTreeSet<String> = all[..tagged]
                .iter()
                .filter(mine)
                .filter(|line| line.op == "add")
                .map(|line| line.tag.clone())
                .collect();
            if let (false, Some((one, others))) = (seen.is_empty(), same.split_first()) {
                all.extend(seen.into_iter().map(|tag| SetLine { tag, ..one.clone() }));
                rest = others;
            }
        }
        all.extend(rest.iter().enumerate().map(|(n, line)| SetLine {
            tag: format!("{name}{}", first + n),
            ..line.clone()
        }));
    }
    stamps::union(&all, &[])
}

fn comments(bytes: &[u8], problems: &mut Vec<IssueFileProblem>) -> Vec<Comment> {
    let mut all: BTreeMap<String, Comment> = BTreeMap::new();
    let told = problems.len();
    for (line, text) in each_line(bytes) {
        if problems.len() >= told + MOST_PROBLEMS {
            break;
        }
        let problem = |what: String| IssueFileProblem {
            file: COMMENTS,
            line,
            what,
        };
        match serde_json::from_slice::<Comment>(text) {
            Ok(one) if comment_id_fits(&one.id) && one.text.len() <= MAX_COMMENT => {
                if let Some(there) = all.get(&one.id).filter(|there| **there != one) {
                    let (first, other) = said_first(there, &one);
                    let set_aside = (!says_the_same(first, other)).then(|| set_aside(other));
                    let both = [first.clone()].into_iter().chain(set_aside);
                    for one in both.collect::<Vec<_>>() {
                        all.insert(one.id.clone(), one);
                    }
                } else {
                    all.insert(one.id.clone(), one);
                }
            }
            Ok(_) => problems.push(problem("its id or its text is empty or too long".into())),
            Err(e) => problems.push(problem(e.to_string())),
        }
    }
    let mut all: Vec<Comment> = all.into_values().collect();
    all.sort_by(|a, b| (a.at, &a.id).cmp(&(b.at, &b.id)));
    all
}

/// Two comments with one id, of which somebody edited one: the first of them keeps the id, in whatever order they are met.
pub fn said_first<'a>(a: &'a Comment, b: &'a Comment) -> (&'a Comment, &'a Comment) {
    let rank = |one: &'a Comment| (one.at, &one.text, one.agent_id.as_str());
    match rank(a) <= rank(b) {
        true => (a, b),
        false => (b, a),
    }
}

/// One comment that was brought in twice, where nobody knows when it was made.
pub fn says_the_same(a: &Comment, b: &Comment) -> bool {
    (&a.id, &a.agent_id, &a.text) == (&b.id, &b.agent_id, &b.text)
}

/// The other one, which is not lost: its id follows from what it says, so that it is the same in every copy.
pub fn set_aside(comment: &Comment) -> Comment {
    let Comment {
        id,
        at,
        agent_id,
        text,
    } = comment;
    let what = format!("{id}\0{at}\0{agent_id}\0{text}");
    Comment {
        id: format!("{:032x}", xxh3_128(what.as_bytes())),
        ..comment.clone()
    }
}

/// Comment ids are used as keys: short and plain.
pub fn comment_id_fits(id: &str) -> bool {
    (1..=64).contains(&id.len())
        && id
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.')
}
