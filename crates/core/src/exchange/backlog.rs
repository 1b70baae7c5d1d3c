//! Backlog.md: one Markdown file a task, `backlog/tasks/task-12 - Title.md`, its fields in YAML at the top.
//!
//! Of YAML only what such files hold is read: scalars, quoted or not, and lists, in brackets or one item a line.
//! A field in any other form is a warning.

use std::collections::BTreeMap;

use super::{ForeignIssue, MAX_LIST, Parsed, boundary, priority, time, word, word_of};
use crate::model::issue::IssueState;

/// Longest front matter, in bytes, that is looked at.
const MAX_FRONT: usize = 64 << 10;

/// Fields that have a place of their own.
const TAKEN: &[&str] = &[
    "id",
    "title",
    "status",
    "priority",
    "type",
    "labels",
    "dependencies",
    "parent_task_id",
    "parent",
    "assignee",
    "created_date",
    "updated_date",
    "milestone",
];

/// The issues in these files, given as (name, content).
pub fn backlog<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Parsed {
    let mut parsed = Parsed::default();
    let mut places = Vec::new();
    for (name, bytes) in files {
        let made = match std::str::from_utf8(bytes) {
            Ok(text) => issue(name, text),
            Err(_) => Err("the file is not UTF-8".to_owned()),
        };
        match made {
            Ok(issue) => {
                parsed.issues.push(issue);
                places.push((Some(word(name)), 0));
            }
            Err(what) => parsed.problem(Some(word(name)), 0, what),
        }
    }
    parsed.settled(&places)
}

fn issue(name: &str, text: &str) -> Result<ForeignIssue, String> {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let (front, body) =
        split(&text).ok_or("the file does not begin with front matter between two lines of ---")?;
    let mut warnings = Vec::new();
    let fields = front_matter(front, &mut warnings);
    let one = |field: &str| fields.get(field).and_then(Value::first);
    let many = |field: &str| fields.get(field).map(Value::all).unwrap_or_default();
    let (named_key, named_title) = from_name(name);
    let key = one("id").or(named_key).ok_or("the task has no id")?;
    let title = one("title").or(named_title).ok_or("the task has no title")?;
    let mut issue = ForeignIssue::new(&key, &title);
    if issue.title.is_empty() || issue.key.is_empty() {
        return Err("the task has no title or no id".to_owned());
    }
    // A draft has no say in the order of work yet.
    let draft = issue.key.to_lowercase().starts_with("draft-");
    let status = one("status").unwrap_or_else(|| if draft { "Draft" } else { "To Do" }.to_owned());
    issue.set_status("status", &status);
    if is_archived(name) && !issue.state.is_closed() {
        issue.warn("it is archived, and taken as rejected".to_owned());
        issue.state = IssueState::Rejected;
    } else if draft && issue.state == IssueState::Ready {
        issue.state = IssueState::Backlog;
    }
    if let Some(name) = one("priority") {
        match priority(&name) {
            Some(priority) => issue.priority = priority,
            None => issue.warn(format!("priority {:?} is taken as normal", word(&name))),
        }
    }
    if let Some(kind) = one("type") {
        issue.kind = word(&kind);
    }
    issue.labels = many("labels")
        .iter()
        .map(|label| word_of(label, "a label", &mut warnings))
        .collect();
    warnings.into_iter().for_each(|warning| issue.warn(warning));
    let prefix = issue
        .key
        .trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
        .to_owned();
    let whole = |reference: &String| match reference.starts_with(|c: char| c.is_ascii_digit()) {
        true => word(&format!("{prefix}{reference}")),
        false => word(reference),
    };
    issue.depends_on = many("dependencies").iter().map(whole).collect();
    issue.parent = one("parent_task_id")
        .or_else(|| one("parent"))
        .as_ref()
        .map(whole);
    for name in ["labels", "dependencies", "assignee"] {
        if matches!(fields.get(name), Some(Value::Many(items)) if items.len() > MAX_LIST) {
            issue.warn(format!("only the first {MAX_LIST} of {name} are kept"));
        }
    }
    let assignees = many("assignee");
    issue.assignee = assignees.first().map(|name| word(name.trim_start_matches('@')));
    issue.created_at = moment(&fields, "created_date", &mut issue);
    issue.updated_at = moment(&fields, "updated_date", &mut issue);
    issue.describe(None, &plain(body));
    let mut origin = Vec::new();
    origin.extend(one("milestone").map(|name| format!("Milestone: {}", word(&name))));
    if !assignees.is_empty() {
        origin.push(format!("Assigned to: {}", assignees.join(", ")));
    }
    // Whatever else somebody wrote down.
    for (name, value) in &fields {
        let all = value.all();
        if !TAKEN.contains(name) && !all.is_empty() {
            origin.push(format!("{name}: {}", all.join(", ")));
        }
    }
    issue.describe(None, &origin.join("\n"));
    Ok(issue)
}

fn moment(
    fields: &BTreeMap<&str, Value>,
    field: &str,
    issue: &mut ForeignIssue,
) -> Option<crate::model::time::Wall> {
    let text = fields.get(field).and_then(Value::first)?;
    // `2025-07-26 14:30` has no seconds.
    let found = time(&text).or_else(|| time(&format!("{text}:00")));
    if found.is_none() {
        issue.warn(format!("{field} is not a time: left out"));
    }
    found
}

/// Put aside there without having been done.
fn is_archived(name: &str) -> bool {
    let folders = name.rsplit_once(['/', '\\']).map_or("", |(folders, _)| folders);
    folders.split(['/', '\\']).any(|folder| folder == "archive")
}

/// The id and the title in `task-12 - The-title.md`.
fn from_name(name: &str) -> (Option<String>, Option<String>) {
    let name = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let stem = name.strip_suffix(".md").unwrap_or(name);
    match stem.split_once(" - ") {
        Some((key, title)) => (Some(key.to_owned()), Some(title.replace('-', " "))),
        None => (None, None),
    }
}

/// Front matter and body.
fn split(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("---\n")?;
    let head = &rest[..boundary(rest, MAX_FRONT)];
    if let Some(body) = rest.strip_prefix("---\n") {
        return Some(("", body));
    }
    let end = head
        .find("\n---\n")
        .or_else(|| head.strip_suffix("\n---").map(str::len))?;
    Some((&rest[..end], rest[end..].get(5..).unwrap_or_default()))
}

/// The body without the comments that mark its sections, and without the heading that says it is the description.
fn plain(body: &str) -> String {
    let is_marker = |line: &&str| {
        let line = line.trim();
        line.starts_with("<!--")
            && line.ends_with("-->")
            && (line.contains(":BEGIN") || line.contains(":END"))
    };
    let lines: Vec<&str> = body.lines().filter(|line| !is_marker(line)).collect();
    let text = lines.join("\n");
    let text = text.trim();
    match text.strip_prefix("## Description\n") {
        Some(rest) => rest.trim_start_matches('\n').to_owned(),
        None => text.to_owned(),
    }
}

enum Value {
    One(String),
    Many(Vec<String>),
}

impl Value {
    fn all(&self) -> Vec<String> {
        let all = match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Many(items) => &items[..items.len().min(MAX_LIST)],
        };
        all.iter()
            .filter(|text| !text.trim().is_empty())
            .cloned()
            .collect()
    }

    fn first(&self) -> Option<String> {
        self.all().into_iter().next()
    }
}

fn front_matter<'a>(front: &'a str, warnings: &mut Vec<String>) -> BTreeMap<&'a str, Value> {
    let mut fields = BTreeMap::new();
    let mut lines = front.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let Some((name, rest)) = line.split_once(':').filter(|(name, _)| is_name(name)) else {
            warnings.push(format!(
                "a line of the front matter is not understood: {:?}",
                word(line)
            ));
            continue;
        };
        let rest = rest.trim();
        // Items, or a text that goes on, stand further in; items also right below.
        let mut below = Vec::new();
        let is_below = |next: &&str| {
            next.starts_with([' ', '\t'])
                || next.starts_with("- ")
                || *next == "-"
                || (rest.starts_with('[') && next.starts_with(']'))
        };
        while let Some(next) = lines.next_if(is_below) {
            below.push(next.trim());
        }
        if fields.insert(name, value(rest, &below)).is_some() {
            warnings.push(format!("{name} is there more than once: the last counts"));
        }
    }
    fields
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn value(rest: &str, below: &[&str]) -> Value {
    let is_item = |line: &&&str| line.starts_with("- ") || **line == "-";
    let opens = rest.is_empty() || rest.starts_with('#');
    if opens
        && !below.is_empty()
        && below
            .iter()
            .filter(|line| !line.is_empty())
            .all(|line| is_item(&line))
    {
        return Value::Many(
            below
                .iter()
                .map(|line| scalar(line.trim_start_matches('-').trim()))
                .collect(),
        );
    }
    if let Some(">" | ">-" | ">+" | "|" | "|-" | "|+") = Some(rest) {
        let between = if rest.starts_with('|') { "\n" } else { " " };
        return Value::One(below.join(between));
    }
    let whole = below
        .iter()
        .fold(rest.to_owned(), |text, line| format!("{text} {line}"));
    let whole = whole.trim();
    match whole.strip_prefix('[') {
        Some(inside) => Value::Many(items(inside)),
        None => Value::One(scalar(whole)),
    }
}

/// The items of a list in brackets, up to the bracket that ends it.
fn items(inside: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in inside.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some('"'), '\\') => escaped = true,
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') if inside[start..at].trim().is_empty() => quote = Some(c),
            (None, ',' | ']') => {
                found.push(scalar(inside[start..at].trim()));
                start = at + 1;
                if c == ']' {
                    found.retain(|item| !item.is_empty());
                    return found;
                }
            }
            _ => {}
        }
    }
    // Nothing ends it.
    found.push(scalar(inside[start..].trim()));
    found.retain(|item| !item.is_empty());
    found
}

/// A scalar without its quotes and without the comment behind it.
fn scalar(text: &str) -> String {
    if let Some(inside) = text.strip_prefix('\'') {
        return single(inside);
    }
    if let Some(inside) = text.strip_prefix('"') {
        return double(inside);
    }
    let end = text.find(" #").unwrap_or(text.len());
    match text[..end].trim_end() {
        "~" | "null" => String::new(),
        plain => plain.to_owned(),
    }
}

fn single(inside: &str) -> String {
    let mut out = String::new();
    let mut chars = inside.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\'' && chars.next_if_eq(&'\'').is_none() {
            break;
        }
        out.push(c);
    }
    out
}

fn double(inside: &str) -> String {
    let mut out = String::new();
    let mut chars = inside.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some(digits @ ('x' | 'u' | 'U')) => {
                    let length = match digits {
                        'x' => 2,
                        'u' => 4,
                        _ => 8,
                    };
                    let hex: String = chars.by_ref().take(length).collect();
                    let code = u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32);
                    out.push(code.unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                Some(other) => out.push(other),
                None => {}
            },
            _ => out.push(c),
        }
    }
    out
}
