//! Rules that resolve conflicts in paths (H4).
//!
//! Rules are tried from the first to the last, and the first whose pattern matches counts; where none does, a person
//! decides. The rules of the configuration come before the shipped ones, but one stands before all: a conflict in
//! `ORCHESTRATION.yaml` shows that two programs write what only one may, and no rule hides that.
//!
//! `latest-status` is for trackers kept as text: of two lines that differ in nothing but a status, a check mark, a
//! percentage or a time, the one with the later time stays; lines that both sides added stay all, by time. Whatever else
//! differs is a matter of structure, and a person's.
//!
//! Limitations: only plain files that both sides have are merged by a rule (`ours` and `theirs` also decide about a file
//! that one side removed). Renames, folders in the place of files, links and submodules are a person's.

use std::fmt;

use crate::model::glob::Pattern;

/// The way a conflict in a path is resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// A person decides.
    Escalate,
    /// The lines of both sides.
    Union,
    /// As the target has it.
    Ours,
    /// As the unit has it.
    Theirs,
    LatestStatus,
    /// The output of this command.
    Command(String),
}

impl fmt::Display for Resolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Escalate => f.write_str("escalate"),
            Self::Union => f.write_str("union"),
            Self::Ours => f.write_str("ours"),
            Self::Theirs => f.write_str("theirs"),
            Self::LatestStatus => f.write_str("latest-status"),
            Self::Command(command) => write!(f, "command: {command}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRule {
    pub pattern: Pattern,
    pub how: Resolution,
}

impl PathRule {
    /// `docs/** = union`, `*.lock = command: make lock`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (pattern, how) = text.split_once(" = ").ok_or(
            "a rule is <pattern> = escalate, union, ours, theirs, latest-status or command: <command>",
        )?;
        let pattern = Pattern::parse(pattern.trim()).map_err(|e| e.to_string())?;
        let how = match how.trim() {
            "escalate" => Resolution::Escalate,
            "union" => Resolution::Union,
            "ours" => Resolution::Ours,
            "theirs" => Resolution::Theirs,
            "latest-status" => Resolution::LatestStatus,
            other => match other.strip_prefix("command:").map(str::trim) {
                Some(command) if !command.is_empty() => Resolution::Command(command.to_owned()),
                _ => {
                    let shown: String = other.chars().take(40).collect();
                    return Err(format!(
                        "{shown:?} is none of escalate, union, ours, theirs, latest-status and command: <command>"
                    ));
                }
            },
        };
        Ok(Self { pattern, how })
    }
}

/// Rules that precede every configured one.
const ALWAYS: &[&str] = &["**/ORCHESTRATION.yaml = escalate"];

/// Rules that apply unless the configuration has others.
pub const SHIPPED: &[&str] = &[
    "**/WORKTRACKER.md = latest-status",
    "**/agent-*-*.md = escalate",
    ".context/rules/** = escalate",
    "CLAUDE.md = escalate",
];

/// All rules, in the order in which they are tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergePolicy {
    rules: Vec<PathRule>,
}

impl MergePolicy {
    /// The shipped rules behind these. One that cannot be read is left out: the configuration was checked before.
    pub fn new<'a>(own: impl IntoIterator<Item = &'a str>) -> Self {
        let shipped = SHIPPED.iter().copied();
        let all = ALWAYS.iter().copied().chain(own).chain(shipped);
        Self {
            rules: all.filter_map(|text| PathRule::parse(text).ok()).collect(),
        }
    }

    pub fn of(&self, path: &str) -> &Resolution {
        self.rules
            .iter()
            .find(|rule| rule.pattern.matches(path))
            .map_or(&Resolution::Escalate, |rule| &rule.how)
    }

    /// Commands of rules, with the patterns they are for.
    pub fn commands(&self) -> impl Iterator<Item = (&str, &str)> {
        self.rules.iter().filter_map(|rule| match &rule.how {
            Resolution::Command(command) => Some((rule.pattern.as_str(), command.as_str())),
            _ => None,
        })
    }
}

/// Markers of a conflict are this long, so that no text has them by chance.
pub const MARKER: usize = 41;

/// Settles every conflict in a text that git marked (with the common ancestor, and markers of [`MARKER`] characters).
/// `None` if there is one that has to do with more than a status.
pub fn latest_status(marked: &str) -> Option<String> {
    let is = |line: &str, mark: char| {
        let mut chars = line.chars();
        let marks = chars.by_ref().take(MARKER).filter(|c| *c == mark).count();
        marks == MARKER && chars.next().is_none_or(|c| c == ' ' || c == '\n' || c == '\r')
    };
    let mut out = String::new();
    let mut lines = marked.split_inclusive('\n');
    while let Some(line) = lines.next() {
        if !is(line, '<') {
            out.push_str(line);
            continue;
        }
        let mut side = |end: char| -> Option<Vec<&str>> {
            let mut side = Vec::new();
            loop {
                match lines.next()? {
                    line if is(line, end) => return Some(side),
                    line => side.push(line),
                }
            }
        };
        let (ours, base, theirs) = (side('|')?, side('=')?, side('>')?);
        out.push_str(&settled(&ours, &base, &theirs)?);
    }
    Some(out)
}

fn settled(ours: &[&str], base: &[&str], theirs: &[&str]) -> Option<String> {
    if base.is_empty() {
        // Both added lines: all of them, by time.
        let mut all: Vec<(i64, &str)> = Vec::new();
        for line in ours.iter().chain(theirs) {
            let line = line.trim_end_matches(['\n', '\r']);
            let found = (times(line).last()?.1, line);
            if !all.contains(&found) {
                all.push(found);
            }
        }
        all.sort_by_key(|(time, _)| *time);
        return Some(all.iter().map(|(_, line)| format!("{line}\n")).collect());
    }
    if ours.len() != theirs.len() || ours.len() != base.len() {
        return None;
    }
    let mut out = String::new();
    for ((ours, base), theirs) in ours.iter().zip(base).zip(theirs) {
        let kept = if ours == theirs || theirs == base {
            ours
        } else if ours == base {
            theirs
        } else if skeleton(ours) != skeleton(theirs) || skeleton(ours) != skeleton(base) {
            return None;
        } else {
            match times(ours).last()?.1.cmp(&times(theirs).last()?.1) {
                std::cmp::Ordering::Less => theirs,
                std::cmp::Ordering::Greater => ours,
                std::cmp::Ordering::Equal => return None,
            }
        };
        out.push_str(kept);
    }
    Some(out)
}

const STATUS: &[&str] = &[
    "backlog",
    "blocked",
    "cancelled",
    "closed",
    "complete",
    "completed",
    "done",
    "failed",
    "gated",
    "in-progress",
    "in_progress",
    "merged",
    "merging",
    "open",
    "pending",
    "ready",
    "rejected",
    "running",
    "started",
    "todo",
];

/// The part of a line that is not about status.
fn skeleton(line: &str) -> String {
    let mut plain = String::new();
    let mut at = 0;
    for (range, _) in times(line) {
        plain.push_str(line.get(at..range.start).unwrap_or_default());
        plain.push('@');
        at = range.end;
    }
    plain.push_str(line.get(at..).unwrap_or_default());
    let plain = plain
        .replace("[x]", "[ ]")
        .replace("[X]", "[ ]")
        .replace("[-]", "[ ]");
    let mut out = String::new();
    let mut word = String::new();
    for c in plain.chars().chain(['\0']) {
        if c.is_alphanumeric() || c == '_' || c == '-' {
            word.push(c);
            continue;
        }
        let percent = c == '%' && !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
        if percent || STATUS.contains(&word.to_lowercase().as_str()) {
            out.push('$');
        } else {
            out.push_str(&word);
        }
        word.clear();
        out.push(c);
    }
    out
}

/// The times in a line, earliest first: `2026-02-20`, `2026-02-20 10:00`, `2026-02-20T10:00:00Z`, in milliseconds. A time
/// without a zone counts as UTC. Each with where it stands; those are in the order of the line only if the times are.
fn times(line: &str) -> Vec<(std::ops::Range<usize>, i64)> {
    let bytes = line.as_bytes();
    let digits = |at: usize, count: usize| {
        let range = bytes.get(at..at + count)?;
        range.iter().all(u8::is_ascii_digit).then_some(())
    };
    let is = |at: usize, byte: u8| bytes.get(at) == Some(&byte);
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let date = digits(at, 4).is_some()
            && is(at + 4, b'-')
            && digits(at + 5, 2).is_some()
            && is(at + 7, b'-')
            && digits(at + 8, 2).is_some()
            && !bytes.get(at + 10).is_some_and(u8::is_ascii_digit)
            && (at == 0 || !bytes[at - 1].is_ascii_alphanumeric());
        if !date {
            at += 1;
            continue;
        }
        let start = at;
        at += 10;
        let mut text = line.get(start..at).unwrap_or_default().to_owned();
        let mut zone = "Z".to_owned();
        let clock = (is(at, b'T') || is(at, b' '))
            && digits(at + 1, 2).is_some()
            && is(at + 3, b':')
            && digits(at + 4, 2).is_some();
        if clock {
            text.push('T');
            text.push_str(line.get(at + 1..at + 6).unwrap_or_default());
            at += 6;
            if is(at, b':') && digits(at + 1, 2).is_some() {
                text.push_str(line.get(at..at + 3).unwrap_or_default());
                at += 3;
                if is(at, b'.') {
                    let more = bytes.get(at + 1..).unwrap_or_default();
                    let count = more.iter().take_while(|b| b.is_ascii_digit()).count();
                    text.push_str(line.get(at..at + 1 + count.min(9)).unwrap_or_default());
                    at += 1 + count;
                }
            } else {
                text.push_str(":00");
            }
            if is(at, b'Z') {
                at += 1;
            } else if (is(at, b'+') || is(at, b'-')) && digits(at + 1, 2).is_some() && is(at + 3, b':') {
                zone = line.get(at..at + 6).unwrap_or("Z").to_owned();
                at += 6;
            }
        } else {
            text.push_str("T00:00:00");
        }
        if let Ok(time) = format!("{text}{zone}").parse::<jiff::Timestamp>() {
            found.push((start..at.min(bytes.len()), time.as_millisecond()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(ours: &str, base: &str, theirs: &str) -> String {
        let mark = |c: char| c.to_string().repeat(MARKER);
        format!(
            "head\n{} ours\n{ours}{} base\n{base}{}\n{theirs}{} theirs\ntail\n",
            mark('<'),
            mark('|'),
            mark('='),
            mark('>')
        )
    }

    #[test]
    fn h4_the_first_rule_that_matches_counts_and_orchestration_always_escalates() {
        let policy = MergePolicy::new(["** = ours", "docs/** = union"]);
        assert_eq!(policy.of("a/b"), &Resolution::Ours);
        assert_eq!(policy.of("docs/x"), &Resolution::Ours);
        assert_eq!(policy.of("ORCHESTRATION.yaml"), &Resolution::Escalate);
        assert_eq!(policy.of("w/1/ORCHESTRATION.yaml"), &Resolution::Escalate);
        let shipped = MergePolicy::new([]);
        assert_eq!(shipped.of("WORKTRACKER.md"), &Resolution::LatestStatus);
        assert_eq!(shipped.of("p/WORKTRACKER.md"), &Resolution::LatestStatus);
        for path in [
            "src/a.py",
            "CLAUDE.md",
            ".context/rules/a",
            "Makefile",
            "x/agent-a-1.md",
        ] {
            assert_eq!(shipped.of(path), &Resolution::Escalate, "{path}");
        }
    }

    #[test]
    fn h4_every_shipped_rule_can_be_read_and_bad_ones_say_why() {
        for text in ALWAYS.iter().chain(SHIPPED) {
            assert!(PathRule::parse(text).is_ok(), "{text}");
        }
        let rule = PathRule::parse("*.lock = command: make lock && x = y").expect("a rule");
        assert_eq!(rule.how, Resolution::Command("make lock && x = y".into()));
        for text in ["", "a", "a = b", "a = command:", "a=ours"] {
            assert!(PathRule::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn h4_of_two_statuses_the_later_stays() {
        let text = marked(
            "| A | done | 2026-02-20T10:00:00Z |\n",
            "| A | open | 2026-02-01 |\n",
            "| A | blocked | 2026-02-20 12:00 |\n",
        );
        let expected = "head\n| A | blocked | 2026-02-20 12:00 |\ntail\n";
        assert_eq!(latest_status(&text).as_deref(), Some(expected));
        let text = marked(
            "- [x] A 100% 2026-02-20T10:00:00+02:00\n",
            "- [ ] A 0% 2026-02-01\n",
            "- [ ] A 50% 2026-02-20T09:00:00Z\n",
        );
        assert!(latest_status(&text).is_some_and(|text| text.contains("50%")));
    }

    #[test]
    fn h4_lines_that_both_added_stay_by_time() {
        let text = marked("b 2026-02-02\nc 2026-02-03\n", "", "a 2026-02-01\nc 2026-02-03\n");
        let expected = "head\na 2026-02-01\nb 2026-02-02\nc 2026-02-03\ntail\n";
        assert_eq!(latest_status(&text).as_deref(), Some(expected));
    }

    #[test]
    fn h4_what_is_more_than_a_status_is_a_persons() {
        for (ours, base, theirs) in [
            (
                "A done 2026-02-02\n",
                "A open 2026-02-01\n",
                "B done 2026-02-03\n",
            ),
            ("A done\n", "A open\n", "A blocked\n"),
            (
                "A done 2026-02-02\n",
                "A open 2026-02-01\n",
                "A failed 2026-02-02\n",
            ),
            (
                "A done 2026-02-02\nmore\n",
                "A open 2026-02-01\n",
                "A failed 2026-02-03\n",
            ),
            ("new\n", "", "2026-02-01 new\n"),
            (
                "A done 2026-99-99\n",
                "A open 2026-02-01\n",
                "A done 2026-02-31\n",
            ),
        ] {
            assert_eq!(latest_status(&marked(ours, base, theirs)), None, "{ours}");
        }
        let cut = marked("a\n", "b\n", "c\n");
        assert_eq!(
            latest_status(&cut[..cut.len() / 2]),
            None,
            "an unfinished conflict"
        );
    }
}
