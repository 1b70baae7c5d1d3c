//! Issues from other trackers, and ours for others. The caller reads and writes the files.
//!
//! Invariants (tests in `tests/exchange.rs`):
//! - one bad record is a [`ImportProblem`] and costs no other record; nothing makes a parser fail as a whole or panic;
//! - everything is bounded before it is kept: what is cut or left out is said in `warnings`;
//! - what an issue is here but was not there, or the other way round, is said in `warnings`, or kept in words;
//! - issues refer to each other by `key`, the id they had where they come from, spelled as its issue spells it;
//! - what [`export`] writes, [`jsonl`] reads back unchanged.

mod backlog;
mod beads;
mod github;
mod jsonl;
mod plan;
mod record;

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::model::ids::{IssueId, is_unprintable};
use crate::model::issue::{self, IssueState, MAX_TITLE, Performer, Priority};
use crate::model::time::Wall;

pub use backlog::backlog;
pub use beads::beads;
pub use github::github;
pub use jsonl::{export, jsonl};
pub use plan::{Errand, ImportPlan, ImportedIssue, Skipped, exported, plan};

/// Longest description, in bytes: with a newline at its end it is still one of ours.
pub const MAX_DESCRIPTION: usize = (4 << 20) - 2;
/// Longest comment, in bytes, and most of them for one issue that is not ours.
pub const MAX_COMMENT: usize = issue::MAX_COMMENT;
pub const MAX_COMMENTS: usize = 1000;
/// Most labels, gates or dependencies of one issue.
pub const MAX_LIST: usize = 1000;
/// Why an issue cannot go on that another tracker calls blocked.
const BLOCKED_THERE: &str = "blocked in the tracker it was imported from";

/// Longest key, label, gate, type or name of a person, in bytes.
pub const MAX_WORD: usize = 200;

/// Most problems that are listed.
pub const MAX_PROBLEMS: usize = 1000;

/// An issue that is not in the repository yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ForeignIssue {
    /// Its id where it comes from.
    pub key: String,
    pub title: String,
    pub kind: String,
    pub state: IssueState,
    pub priority: Priority,
    pub labels: Vec<String>,
    pub depends_on: Vec<String>,
    pub parent: Option<String>,
    pub gates: Vec<String>,
    pub actor: Performer,
    /// Why it cannot go on, and why its scope is being revised: words of ours alone.
    pub blocked: Option<String>,
    pub pivot: Option<String>,
    pub description: String,
    pub comments: Vec<ImportedComment>,
    pub assignee: Option<String>,
    pub created_at: Option<Wall>,
    pub created_by: Option<String>,
    pub updated_at: Option<Wall>,
    /// The work is not to begin before.
    pub deferred: Option<Wall>,
    /// Fields of `issue.json` that this program does not know; of ours alone.
    pub others: BTreeMap<String, serde_json::Value>,
    /// Values that could not be imported as they were.
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ImportedComment {
    /// Where it had one that can be kept.
    pub id: Option<String>,
    pub author: String,
    pub at: Option<Wall>,
    pub text: String,
}

/// A record that was left out, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ImportProblem {
    /// For formats of one file an issue.
    pub file: Option<String>,
    /// From 1; 0 if it is about the whole file.
    pub line: usize,
    pub what: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Parsed {
    pub issues: Vec<ForeignIssue>,
    pub problems: Vec<ImportProblem>,
}

/// The foreign id as one of ours, if it can be one. If not, the caller makes one up.
pub fn fit_id(key: &str) -> Option<IssueId> {
    key.trim().parse().ok()
}

impl ForeignIssue {
    fn new(key: &str, title: &str) -> Self {
        let mut issue = Self {
            key: word(key),
            title: String::new(),
            kind: "task".to_owned(),
            state: IssueState::Ready,
            priority: Priority::Normal,
            labels: Vec::new(),
            depends_on: Vec::new(),
            parent: None,
            gates: Vec::new(),
            actor: Performer::Any,
            blocked: None,
            pivot: None,
            description: String::new(),
            comments: Vec::new(),
            assignee: None,
            created_at: None,
            created_by: None,
            updated_at: None,
            deferred: None,
            others: BTreeMap::new(),
            warnings: Vec::new(),
        };
        issue.set_title(title);
        issue
    }

    /// The part that does not fit into the title begins the description.
    fn set_title(&mut self, title: &str) {
        const MORE: &str = "…";
        let whole = title;
        let title = plain_line(title, '\t');
        if title != whole.trim() {
            self.warn("the title is made one line of plain text".to_owned());
        }
        if title.len() <= MAX_TITLE {
            self.title = title;
            return;
        }
        let whole = boundary(&title, MAX_TITLE - MORE.len());
        let split = title[..whole]
            .rfind(' ')
            .filter(|&at| at > MAX_TITLE / 2)
            .unwrap_or(whole);
        self.title = format!("{}{MORE}", title[..split].trim_end());
        self.description = format!("{MORE}{}", title[split..].trim_start());
        self.warn(format!(
            "the title is longer than {MAX_TITLE} bytes: the rest begins the description"
        ));
    }

    /// Takes over what another tracker calls the state, under the name of `field`.
    fn set_status(&mut self, field: &str, status: &str) {
        let known = state(status);
        self.state = known.unwrap_or(IssueState::Ready);
        let shown = word(status);
        match plain(status).as_str() {
            "blocked" => self.blocked = Some(BLOCKED_THERE.to_owned()),
            "inprogress" | "doing" | "started" | "hooked" | "pinned" | "inreview" | "review" => {
                self.warn(format!(
                    "{field} {shown:?} is taken as ready: nobody has claimed it here"
                ));
            }
            _ if known.is_none() => self.warn(format!("{field} {shown:?} is taken as ready")),
            _ => {}
        }
    }

    /// Adds to the description, under a heading if there is one.
    fn describe(&mut self, heading: Option<&str>, text: &str) {
        let text = text.trim_end();
        if text.trim_start().is_empty() {
            return;
        }
        if !self.description.is_empty() {
            self.description.push_str("\n\n");
        }
        if let Some(heading) = heading {
            self.description.push_str(&format!("## {heading}\n\n"));
        }
        self.description.push_str(text);
        if cut(&mut self.description, MAX_DESCRIPTION) {
            self.warn(format!("the description is cut at {MAX_DESCRIPTION} bytes"));
        }
    }

    /// Adds what has no place of its own here as lines at the end of the description, so that it is not lost.
    fn also(&mut self, said: impl IntoIterator<Item = (&'static str, Option<String>)>) {
        let lines: Vec<String> = said
            .into_iter()
            .filter_map(|(name, text)| Some(format!("{name}: {}", text.filter(|text| !text.is_empty())?)))
            .collect();
        self.describe(None, &lines.join("\n"));
    }

    fn comment(&mut self, author: &str, at: Option<Wall>, text: &str) {
        let mut text = text.to_owned();
        if cut(&mut text, MAX_COMMENT) {
            self.warn(format!("a comment is cut at {MAX_COMMENT} bytes"));
        }
        self.comments.push(ImportedComment {
            id: None,
            author: word(author),
            at,
            text,
        });
    }

    fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) && self.warnings.len() < 100 {
            self.warnings.push(warning);
        }
    }
}

impl Parsed {
    /// Adds one, unless there are too many.
    pub fn problem(&mut self, file: Option<String>, line: usize, what: impl Into<String>) {
        let what = match self.problems.len() {
            MAX_PROBLEMS.. => return,
            n if n + 1 == MAX_PROBLEMS => "there are more problems than are listed".to_owned(),
            _ => what.into(),
        };
        self.problems.push(ImportProblem { file, line, what });
    }

    /// Once all records are read: one issue for each key (of two the newer, of two as new the later), and references
    /// spelled as the issues they mean. `places` says for each issue in which file and on which line it is.
    fn settled(mut self, places: &[(Option<String>, usize)]) -> Self {
        let mut places = places.iter();
        let mut at: HashMap<String, usize> = HashMap::new();
        let mut kept: Vec<ForeignIssue> = Vec::with_capacity(self.issues.len());
        for issue in std::mem::take(&mut self.issues) {
            let (file, line) = places.next().cloned().unwrap_or_default();
            match at.get(&issue.key.to_lowercase()) {
                None => {
                    at.insert(issue.key.to_lowercase(), kept.len());
                    kept.push(issue);
                }
                Some(&place) => {
                    self.problem(
                        file,
                        line,
                        format!("{} occurs more than once: the newest is kept", issue.key),
                    );
                    if issue.updated_at >= kept[place].updated_at {
                        kept[place] = issue;
                    }
                }
            }
        }
        let names: Vec<String> = kept.iter().map(|issue| issue.key.clone()).collect();
        let spelled = |key: &String| at.get(&key.to_lowercase()).map_or(key, |&n| &names[n]).clone();
        for issue in &mut kept {
            let mut seen = HashSet::from([issue.key.clone()]);
            issue.depends_on = issue.depends_on.iter().map(spelled).collect();
            if issue.depends_on.contains(&issue.key) {
                issue.warn("it waits for itself: left out".to_owned());
            }
            issue.depends_on.retain(|key| seen.insert(key.clone()));
            issue.parent = issue.parent.as_ref().map(spelled);
            if issue.parent.as_ref() == Some(&issue.key) {
                issue.warn("it would be part of itself: it is part of nothing".to_owned());
                issue.parent = None;
            }
        }
        self.issues = kept;
        self
    }
}

/// Cuts at a whole character. Says whether there was anything to cut.
fn cut(text: &mut String, max: usize) -> bool {
    let long = text.len() > max;
    text.truncate(boundary(text, max));
    long
}

/// The last place at or before `max` where a character begins.
fn boundary(text: &str, max: usize) -> usize {
    let mut at = max.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Without what a terminal acts on. Ends of lines and tabs become spaces.
fn one_line(text: &str) -> String {
    plain_line(text, ' ')
}

/// The same, with something else for tabs.
fn plain_line(text: &str, tab: char) -> String {
    let shown = text.chars().filter_map(|c| match c {
        '\t' => Some(tab),
        // They hold letters and emoji together, and move nothing.
        '\u{200c}' | '\u{200d}' => Some(c),
        _ if c.is_control() || c == '\u{2028}' || c == '\u{2029}' => Some(' '),
        _ if is_unprintable(c) => None,
        _ => Some(c),
    });
    shown.collect::<String>().trim().to_owned()
}

/// A key, label or name: one line of bounded length.
fn word(text: &str) -> String {
    let mut word = one_line(&text[..boundary(text, 4 * MAX_WORD)]);
    cut(&mut word, MAX_WORD);
    word
}

/// The same, and a warning where something is lost by it.
fn word_of(text: &str, what: &str, warnings: &mut Vec<String>) -> String {
    let word = word(text);
    if word != text.trim() {
        warnings.push(format!("{what} is made one short line of plain text: {word:?}"));
    }
    word
}

/// A time as trackers write it. What has no zone is taken as UTC.
fn time(text: &str) -> Option<Wall> {
    let text = text.trim();
    if let Ok(wall) = text.parse() {
        return Some(wall);
    }
    let civil = match text.parse::<jiff::civil::DateTime>() {
        Ok(civil) => civil,
        Err(_) => text.parse::<jiff::civil::Date>().ok()?.at(0, 0, 0, 0),
    };
    let zoned = jiff::tz::Offset::UTC.to_timestamp(civil).ok()?;
    Some(Wall::from_ms(zoned.as_millisecond()))
}

/// A state's name without what is written differently everywhere.
fn plain(name: &str) -> String {
    let letters: String = name.chars().filter(|c| c.is_alphanumeric()).take(40).collect();
    letters.to_lowercase()
}

/// The state that another tracker's word stands for. `None`: a word of its own.
fn state(name: &str) -> Option<IssueState> {
    Some(match plain(name).as_str() {
        "backlog" | "deferred" | "draft" | "icebox" | "later" => IssueState::Backlog,
        // No agent holds a claim on it here, even if it was in progress there; and blocked is no state here.
        "open" | "ready" | "todo" | "new" | "inprogress" | "doing" | "started" | "blocked" | "hooked"
        | "pinned" | "reopened" | "inreview" | "review" => IssueState::Ready,
        "gated" => IssueState::Gated,
        "closed" | "done" | "complete" | "completed" | "resolved" | "fixed" => IssueState::Done,
        "rejected" | "notplanned" | "wontfix" | "wontdo" | "cancelled" | "canceled" | "duplicate"
        | "invalid" | "archived" => IssueState::Rejected,
        _ => return None,
    })
}

/// The priority that another tracker's word stands for.
fn priority(name: &str) -> Option<Priority> {
    Some(match name.trim().to_lowercase().as_str() {
        "0" | "p0" | "critical" | "urgent" | "highest" | "blocker" => Priority::Critical,
        "1" | "p1" | "high" => Priority::High,
        "2" | "p2" | "normal" | "medium" => Priority::Normal,
        "3" | "4" | "p3" | "p4" | "low" | "lowest" => Priority::Low,
        _ => return None,
    })
}
