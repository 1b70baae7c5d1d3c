//! Text output for people: cleaning, emphasis, tables, and the text of common replies.
//!
//! What must hold: text from outside (issues, agents, files) is made harmless for a terminal before it is printed.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _, Write as _};

use jit_core::log::packed_issue::Packed;
use jit_core::model::account::Parked;
use jit_core::model::ids::is_unprintable;
use jit_core::model::issue::Performer;
use jit_core::query::claim_views::LeaseView;
use jit_engine::api::claims::ActiveLease;
use jit_engine::api::issue_list::Listed;
use jit_engine::api::issue_list::Listing;
use jit_engine::api::issues::IssueView;
use jit_engine::api::issues::Progress;
use jit_engine::api::issues::ProgressOf;
use jit_engine::api::overview::Status;
use jit_engine::api::overview::StatusIssue;
use serde_json::Value;

/// Tells whether a text is printable ASCII. Nearly every text is, and needs no cleaning.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Returns a text in which every character that a terminal would act on is shown as an escape. Line breaks and tabs stay.
/// For text from issues, agents or files.
pub fn clean(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(c),
            // Joiners combine letters and emoji. They do not move the cursor.
            '\u{200c}' | '\u{200d}' => out.push(c),
            c if is_unprintable(c) => {
                out.extend(c.escape_unicode());
            }
            c => out.push(c),
        }
    }
    out
}

/// Returns equivalent JSON in which every character that a terminal would act on is an escape. Characters beyond ASCII
/// occur only inside JSON strings, so escaping them keeps the meaning.
pub fn clean_json(text: String) -> String {
    // Control characters below U+007F stand between the strings, or are escapes already.
    let is_raw = |c: char| c >= '\u{7f}' && is_unprintable(c);
    if !text.contains(is_raw) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if !is_raw(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    out
}

/// Cleans a text and puts it on one line.
pub fn clean_line(text: &str) -> String {
    one_line(text).into_owned()
}

/// Cleans a path and puts it on one line. Line breaks and tabs become escapes, so that they differ from blanks.
pub fn clean_path(text: &str) -> String {
    clean(text).replace('\n', "\\n").replace('\t', "\\t")
}

fn one_line(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return text.into();
    }
    clean(text).replace(['\n', '\t'], " ").into()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    Auto,
    Always,
    Never,
}

/// Emphasis. With `Color::Auto` it is on if standard output is a terminal and `NO_COLOR` is unset or empty.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    on: bool,
}

impl Style {
    pub fn new(color: Color) -> Self {
        let on = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) && io::stdout().is_terminal()
            }
        };
        Self { on }
    }

    /// Returns a style without emphasis.
    pub fn plain() -> Self {
        Self { on: false }
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.on {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    pub fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    pub fn good(self, text: &str) -> String {
        self.wrap("32", text)
    }

    pub fn bad(self, text: &str) -> String {
        self.wrap("31", text)
    }
}

/// Writes to standard output. Returns `Ok(false)` if the reader has closed it.
pub fn print(text: &str) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(e),
    }
}

/// Writes a line to standard error, for people. Ignores a failure, because no other channel is left.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Returns the number of characters that a terminal shows. The escape sequences of emphasis count as zero.
fn shown_width(text: &str) -> usize {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().map_or(0, |part| part.chars().count());
    let rest = parts.map(|part| {
        part.split_once('m')
            .map_or(part, |(_, shown)| shown)
            .chars()
            .count()
    });
    first + rest.sum::<usize>()
}

/// Returns the width of a text on a terminal.
fn width(text: &str) -> usize {
    match is_plain(text) {
        true => text.len(),
        false => shown_width(text),
    }
}

/// Formats rows as columns of equal width, two spaces apart.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut widths = vec![0; columns];
    for row in rows {
        for (n, cell) in row.iter().enumerate() {
            widths[n] = widths[n].max(width(cell));
        }
    }
    let mut out = String::new();
    for row in rows {
        let begin = out.len();
        for (n, cell) in row.iter().enumerate() {
            push_cell(&mut out, cell, widths[n] - width(cell));
        }
        out.truncate(begin + out[begin..].trim_end().len());
        out.push('\n');
    }
    out
}

fn push_cell(out: &mut String, text: &str, more: usize) {
    const SPACES: &str = "                                ";
    out.push_str(text);
    let mut room = more + 2;
    while room > 0 {
        let some = room.min(SPACES.len());
        out.push_str(&SPACES[..some]);
        room -= some;
    }
}

/// Names of JSON fields that hold a list of objects. A list of words that belongs to one object is not among them.
const PLURALS: &[&str] = &[
    "active",
    "checks",
    "commands",
    "commits",
    "edges",
    "events",
    "evicted",
    "gates",
    "hooks",
    "imported",
    "issues",
    "kept",
    "nodes",
    "presets",
    "problems",
    "records",
    "released",
    "settings",
    "skipped",
    "units",
    "worktrees",
];

/// Keeps only the named fields: those of the object itself, or those of each object in its lists. A field of the document
/// that is named stays whole. A list stays if a field of its objects is named.
pub fn keep_fields(value: Value, fields: &[String]) -> Value {
    let is_named = |name: &String| fields.contains(name);
    let pick = |value: Value| match value {
        Value::Object(map) => Value::Object(map.into_iter().filter(|(name, _)| is_named(name)).collect()),
        other => other,
    };
    match value {
        // An object with an id is one thing, whatever lists it has. For example, the gates of an issue are words.
        Value::Object(map) if !map.contains_key("id") && map.iter().any(is_list) => {
            let lists = map.iter().filter(|pair| is_list(*pair));
            let mut rows = lists.filter_map(|(_, list)| list.as_array()).flatten();
            let of_rows = fields.iter().any(|field| !map.contains_key(field))
                || rows.any(|row| fields.iter().any(|field| row.get(field).is_some()));
            let keep = |(name, value): (String, Value)| match value {
                value if is_named(&name) => Some((name, value)),
                Value::Array(items) if of_rows && is_plural(&name) => {
                    Some((name, Value::Array(items.into_iter().map(pick).collect())))
                }
                _ => None,
            };
            Value::Object(map.into_iter().filter_map(keep).collect())
        }
        other => pick(other),
    }
}

/// Returns a warning about names that match no field. If all lists are empty, the fields of their objects are unknown, so
/// there is no warning.
pub fn unknown_fields(value: &Value, fields: &[String]) -> Option<String> {
    let Value::Object(map) = value else { return None };
    let mut known: BTreeSet<&str> = BTreeSet::new();
    // An object with an id is one thing, and its lists are ordinary fields.
    let is_thing = map.contains_key("id");
    let lists: Vec<&Vec<Value>> = map
        .iter()
        .filter(|(name, _)| !is_thing && is_plural(name))
        .filter_map(|(_, value)| value.as_array())
        .collect();
    if !lists.is_empty() && lists.iter().all(|list| list.is_empty()) {
        return None;
    }
    known.extend(
        map.iter()
            .filter(|pair| is_thing || !is_list(*pair))
            .map(|(name, _)| name.as_str()),
    );
    for item in lists.into_iter().flatten() {
        known.extend(
            item.as_object()
                .into_iter()
                .flat_map(|item| item.keys().map(String::as_str)),
        );
    }
    let unknown: Vec<&str> = fields
        .iter()
        .map(String::as_str)
        .filter(|name| !known.contains(name) && !map.contains_key(*name))
        .collect();
    if unknown.is_empty() {
        return None;
    }
    let known: Vec<&str> = known.into_iter().collect();
    Some(format!(
        "--fields: there is no {}; known: {}",
        unknown.join(", "),
        known.join(", ")
    ))
}

fn is_plural(name: &str) -> bool {
    PLURALS.contains(&name)
}

/// Tells whether a field is a list of objects, as in `{"issues":[…]}`. An empty list counts too.
fn is_list((name, value): (&String, &Value)) -> bool {
    value.is_array() && is_plural(name)
}

/// Formats a lease. `done` is the first word, unless the lease was held already or granted again.
pub fn lease(lease: &LeaseView, done: &str, style: Style) -> String {
    let what = lease.issue_id.as_ref().map_or("?", |id| id.as_str());
    let how = match (lease.existing, lease.regranted) {
        (true, _) => "Held already:",
        (_, true) => "Granted again:",
        _ => done,
    };
    let place = lease.worktree_id.as_ref().map_or("no worktree", |id| id.as_str());
    let branch = lease
        .branch
        .as_deref()
        .map_or(String::new(), |b| format!(", branch {}", clean_line(b)));
    format!(
        "{how} {} to {} until {}\n  lease {}  token {}  ({place}{branch})\n",
        style.bold(what),
        clean_line(lease.agent_id.as_str()),
        lease.expires_at,
        lease.lease_id,
        lease.token,
    )
}

pub fn claims(active: &[ActiveLease], style: Style) -> String {
    if active.is_empty() {
        return "Nobody holds anything.\n".into();
    }
    let mut rows = vec![
        vec![
            "ISSUE",
            "HOLDER",
            "WORKTREE",
            "BRANCH",
            "LEFT",
            "HEARTBEAT",
            "LEASE",
        ]
        .into_iter()
        .map(str::to_owned)
        .collect::<Vec<_>>(),
    ];
    for one in active {
        let heart = match (one.heartbeat_age_secs, one.heartbeat_alive) {
            (Some(age), Some(true)) => format!("{age}s ago"),
            (Some(_), _) => "dead".to_owned(),
            _ => "-".to_owned(),
        };
        rows.push(vec![
            one.lease
                .issue_id
                .as_ref()
                .map_or("?".to_owned(), ToString::to_string),
            clean_line(one.lease.agent_id.as_str()),
            one.lease
                .worktree_id
                .as_ref()
                .map_or("-".to_owned(), ToString::to_string),
            one.lease.branch.as_deref().map_or("-".to_owned(), clean_line),
            jit_core::model::refusal::left(one.remaining_secs * 1000),
            heart,
            one.lease.lease_id.to_string(),
        ]);
    }
    let text = table(&rows);
    match text.split_once('\n') {
        Some((head, rest)) => format!("{}\n{rest}", style.dim(head)),
        None => text,
    }
}

pub fn issue(view: &IssueView, style: Style) -> String {
    let issue = &view.issue;
    let mut out = format!(
        "{}  {}\n",
        style.bold(issue.id.as_str()),
        clean_line(&issue.title)
    );
    let mut row = |name: &str, value: &str| out.push_str(&format!("  {name:<11} {value}\n"));
    row("state", issue.state.as_str());
    row("type", &clean_line(&issue.kind));
    row("priority", issue.priority.as_str());
    if issue.actor != Performer::Any {
        row("for", issue.actor.as_str());
    }
    if let Some(parent) = &issue.parent {
        row("parent", parent.as_str());
    }
    if !issue.labels.is_empty() {
        row("labels", &clean_line(&issue.labels.join(", ")));
    }
    if !issue.depends_on.is_empty() {
        row("depends on", &names(&issue.depends_on));
    }
    if !view.blocked_by.is_empty() {
        row("waits for", &style.bad(&names(&view.blocked_by)));
    }
    if let Some(reason) = &issue.blocked {
        row("blocked", &style.bad(&clean_line(reason)));
    }
    if let Some(reason) = &issue.pivot {
        row("pivot", &clean_line(reason));
    }
    if !issue.gates.is_empty() {
        row("gates", &clean_line(&issue.gates.join(", ")));
    }
    if let Some(lease) = &view.lease {
        row(
            "held by",
            &format!(
                "{} until {}",
                clean_line(lease.agent_id.as_str()),
                lease.expires_at
            ),
        );
    }
    if let Some(branch) = &view.resume_from {
        row("resume from", &clean_line(branch));
    }
    row("created", &issue.created_at.to_string());
    row(
        "updated",
        &format!("{} (revision {})", issue.updated_at, issue.revision),
    );
    if let Some(text) = &view.description {
        out.push('\n');
        out.push_str(clean(text).trim_end());
        out.push('\n');
    }
    for comment in view.comments.iter().flatten() {
        let head = format!("{}  {}", comment.at, clean_line(comment.agent_id.as_str()));
        out.push_str(&format!("\n{}\n", style.dim(&head)));
        for line in clean(&comment.text).lines() {
            out.push_str(&format!("  {line}\n"));
        }
    }
    out
}

fn names(ids: &[jit_core::model::ids::IssueId]) -> String {
    let names: Vec<&str> = ids.iter().map(|id| id.as_str()).collect();
    names.join(", ")
}

/// Returns short remarks on an issue in a list: blocked, dependencies, waiting for a human, branch to resume from.
fn remark(view: &Listed<'_>) -> String {
    let issue = &view.issue;
    let mut remarks = Vec::new();
    if let Some(reason) = issue.blocked {
        remarks.push(format!("blocked: {}", clean_line(reason.as_str())));
    }
    if !view.blocked_by.is_empty() {
        remarks.push(format!("waits for {}", names(view.blocked_by)));
    }
    if issue.actor == Performer::Human && view.lease.is_none() && !issue.state.is_closed() {
        remarks.push("waiting for a human".to_owned());
    }
    if let Some(branch) = view.resume_from {
        remarks.push(format!("resume from {}", clean_line(branch)));
    }
    if remarks.is_empty() {
        String::new()
    } else {
        format!("  ({})", remarks.join("; "))
    }
}

pub fn issues(views: &Listing, style: Style) -> String {
    if views.is_empty() {
        return "No issues.\n".into();
    }
    // The same layout as `table`, but without a string for each of fifty thousand cells. Only in agent names can the width
    // differ from the length.
    let mut widths = [0; 4];
    for (id, state, priority, agent) in views.outlines() {
        let held = agent.map_or(1, |agent| width(&one_line(agent.as_str())));
        let these = [id, state.as_str().len(), priority.as_str().len(), held];
        for (widest, one) in widths.iter_mut().zip(these) {
            *widest = one.max(*widest);
        }
    }
    let mut out = String::with_capacity(views.size() + views.len() * (widths.iter().sum::<usize>() + 16));
    for view in views.iter() {
        let Packed {
            id,
            state,
            priority,
            title,
            ..
        } = &view.issue;
        for (text, widest) in [id.as_str(), state.as_str(), priority.as_str()]
            .into_iter()
            .zip(widths)
        {
            push_cell(&mut out, text, widest - text.len());
        }
        let holder: Cow<'_, str> = match view.assignee {
            Some(agent) => one_line(agent.as_str()),
            None => "-".into(),
        };
        push_cell(&mut out, &holder, widths[3] - width(&holder));
        out.push_str(&one_line(title.as_str()));
        let remark = remark(&view);
        if !remark.is_empty() {
            out.push_str(&style.dim(&remark));
        }
        out.push('\n');
    }
    out
}

/// Lists parked accounts, one a line. No agent is started on a parked account.
pub fn parked(parked: &[Parked], style: Style) -> String {
    let line = |one: &Parked| {
        let unit = one
            .unit
            .as_ref()
            .map_or(String::new(), |unit| format!(", last {unit}"));
        format!(
            "  {} is parked until {}, refused {}{unit}: {}\n",
            style.bold(one.account.as_str()),
            one.until,
            match one.hits {
                1 => "once".to_owned(),
                hits => format!("{hits} times"),
            },
            clean_line(&one.why)
        )
    };
    parked.iter().map(line).collect()
}

pub fn status(status: &Status, style: Style) -> String {
    let counts = &status.counts;
    let place = status
        .branch
        .as_deref()
        .map_or(String::new(), |branch| format!(" on {}", clean_line(branch)));
    let mut out = format!(
        "You are {}{place}\n{}  {} of {} done, {} in progress, {} blocked\n",
        style.bold(&clean_line(status.agent_id.as_str())),
        bar(counts.percent_done),
        counts.done,
        counts.issues - counts.rejected,
        counts.in_progress,
        counts.blocked
    );
    let issue_rows = |issues: &[StatusIssue]| -> Vec<Vec<String>> {
        issues
            .iter()
            .map(|issue| {
                let why = issue
                    .why
                    .as_deref()
                    .map_or(String::new(), |why| format!("  ({})", clean_line(why)));
                vec![
                    format!("  {}", issue.id),
                    issue.priority.to_string(),
                    clean_line(&issue.title) + &style.dim(&why),
                ]
            })
            .collect()
    };
    if !status.active.is_empty() {
        out.push_str(&format!("\n{}\n", style.bold("At work")));
        let rows: Vec<Vec<String>> = status
            .active
            .iter()
            .map(|one| {
                let lease = &one.claim.lease;
                vec![
                    format!("  {}", lease.issue_id.as_ref().map_or("?", |id| id.as_str())),
                    clean_line(lease.agent_id.as_str()) + if one.mine { " (you)" } else { "" },
                    format!(
                        "{} left",
                        jit_core::model::refusal::left(one.claim.remaining_secs * 1000)
                    ),
                    clean_line(one.title.as_deref().unwrap_or_default()),
                ]
            })
            .collect();
        out.push_str(&table(&rows));
    }
    if !status.needs_attention.is_empty() {
        out.push_str(&format!("\n{}\n", style.bold("Needs a person")));
        out.push_str(&table(&issue_rows(&status.needs_attention)));
    }
    for one in &status.unpushed {
        let commits = match one.commits {
            1 => "1 commit".to_owned(),
            many => format!("{many} commits"),
        };
        let behind = match one.behind {
            0 => String::new(),
            many => format!(", and {many} behind"),
        };
        out.push_str(&format!(
            "\n{} is {commits} ahead of {}{behind}: {}\n",
            style.bold(&clean_line(&one.branch)),
            clean_line(&one.upstream),
            clean_line(&one.command)
        ));
    }
    if !status.parked.is_empty() {
        let title = style.bold("Parked (jit worktree unpark <account>)");
        out.push_str(&format!("\n{title}\n{}", parked(&status.parked, style)));
    }
    if !status.ready.is_empty() {
        out.push_str(&format!("\n{}\n", style.bold("Ready (jit claim next)")));
        out.push_str(&table(&issue_rows(&status.ready)));
    }
    out
}

pub fn progress(progress: &Progress, style: Style) -> String {
    if progress.issues.is_empty() {
        return "No issues.\n".into();
    }
    let mut rows = Vec::new();
    for one in &progress.issues {
        progress_rows(one, 0, style, &mut rows);
    }
    let mut out = table(&rows);
    let total = &progress.total;
    out.push_str(&format!(
        "\n{}  {} of {} done, {} in progress, {} ready, {} blocked, {} waiting for a human\n",
        bar(total.percent_done),
        total.done,
        total.issues - total.rejected,
        total.in_progress,
        total.ready,
        total.blocked,
        total.waiting_for_human
    ));
    out
}

fn progress_rows(one: &ProgressOf, depth: usize, style: Style, rows: &mut Vec<Vec<String>>) {
    let share = if one.parts.is_empty() {
        one.state.to_string()
    } else {
        format!(
            "{} {}/{}",
            bar(one.counts.percent_done),
            one.counts.done,
            one.counts.issues - one.counts.rejected
        )
    };
    let mut remarks = Vec::new();
    remarks.extend(one.assignee.as_ref().map(|agent| clean_line(agent.as_str())));
    if !one.blocked_by.is_empty() {
        remarks.push(format!("waits for {}", names(&one.blocked_by)));
    }
    if one.waiting_for_human {
        remarks.push("waiting for a human".to_owned());
    }
    let remark = if remarks.is_empty() {
        String::new()
    } else {
        format!("  ({})", remarks.join("; "))
    };
    rows.push(vec![
        format!("{}{}", "  ".repeat(depth), one.id),
        share,
        clean_line(&one.title) + &style.dim(&remark),
    ]);
    for part in &one.parts {
        progress_rows(part, depth + 1, style, rows);
    }
}

/// Draws a bar of ten places, one filled for each full tenth, and the percentage.
fn bar(percent: Option<u8>) -> String {
    let percent = percent.unwrap_or(0);
    let full = usize::from(percent / 10).min(10);
    format!("{}{} {percent:>3}%", "█".repeat(full), "░".repeat(10 - full))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn i1_escape_sequences_are_shown_not_obeyed() {
        assert_eq!(
            clean("a\u{1b}[31mb\u{9b}c\u{202e}d\n"),
            "a\\u{1b}[31mb\\u{9b}c\\u{202e}d\n"
        );
        assert_eq!(clean_line("a\nb"), "a b");
    }

    #[test]
    fn i1_columns_stand_below_each_other_with_emphasis_and_without() {
        let rows = |style: Style| {
            let row = |a: &str, b: &str| vec![a.to_owned(), b.to_owned()];
            table(&[
                row("UNIT", "STATE"),
                vec![style.bold("täg"), style.bad("FAILED")],
                row("x", "y"),
            ])
        };
        let plain = rows(Style::plain());
        assert_eq!(plain, "UNIT  STATE\ntäg   FAILED\nx     y\n");
        let styled = rows(Style::new(Color::Always));
        let bare = styled.replace("\u{1b}[1m", "").replace("\u{1b}[31m", "");
        assert_eq!(bare.replace("\u{1b}[0m", ""), plain);
    }

    #[test]
    fn i1_fields_are_kept_of_things_and_of_lists() {
        let fields = ["id".to_owned()];
        assert_eq!(
            keep_fields(json!({"id": 1, "labels": ["x"], "t": 2}), &fields),
            json!({"id": 1})
        );
        assert_eq!(
            keep_fields(json!({"issues": [{"id": 1, "t": 2}], "sequence": 3}), &fields),
            json!({"issues": [{"id": 1}]})
        );
        assert_eq!(
            keep_fields(json!({"issues": []}), &fields),
            json!({"issues": []}),
            "a list without things is still a list"
        );
        assert_eq!(
            keep_fields(json!({"id": 1, "labels": [], "checks": 3}), &fields),
            json!({"id": 1})
        );
        assert_eq!(
            keep_fields(json!({"id": 1, "gates": ["x"], "title": "t"}), &fields),
            json!({"id": 1})
        );
        let document = json!({"nodes": [{"id": 1}], "edges": [{"from": 1}], "cycles": [[1]], "ok": true});
        let keep = |fields: &[&str]| {
            let fields: Vec<String> = fields.iter().map(ToString::to_string).collect();
            keep_fields(document.clone(), &fields)
        };
        assert_eq!(keep(&["ok"]), json!({"ok": true}), "no list was asked for");
        assert_eq!(keep(&["nodes"]), json!({"nodes": [{"id": 1}]}), "whole");
        assert_eq!(
            keep(&["id", "cycles"]),
            json!({"nodes": [{"id": 1}], "edges": [{}], "cycles": [[1]]})
        );
    }
}
