//! An issue as a table value: compact, because lists read ten thousand of them.
//!
//! Format: a version byte, then the fields in the order of [`Issue`]. Texts are a length (u32, little endian) and UTF-8;
//! optional ones are preceded by 0 or 1; lists by their length (u32); words of a fixed set are their place in it (u8);
//! times and numbers are 64 bits. Disposable: the log has the truth in JSON.

use serde::{Serialize, Serializer};

use crate::model::ids::{AgentId, IssueId, WorktreeId};
use crate::model::issue::{Issue, IssueState, Performer, Priority};
use crate::model::time::Wall;

const VERSION: u8 = 1;

struct Writer(Vec<u8>);

impl Writer {
    fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }

    fn count(&mut self, count: usize) {
        self.0
            .extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
    }

    fn maybe(&mut self, text: Option<&str>) {
        self.0.push(u8::from(text.is_some()));
        if let Some(text) = text {
            self.text(text);
        }
    }

    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn all<'a>(&mut self, texts: impl ExactSizeIterator<Item = &'a str>) {
        self.count(texts.len());
        for text in texts {
            self.text(text);
        }
    }
}

pub fn encode(issue: &Issue) -> Vec<u8> {
    let mut out = Writer(Vec::with_capacity(192));
    out.0.push(VERSION);
    out.text(issue.id.as_str());
    out.text(&issue.title);
    out.text(&issue.kind);
    out.0
        .extend_from_slice(&[issue.state as u8, issue.priority as u8, issue.actor as u8]);
    out.maybe(issue.parent.as_ref().map(|id| id.as_str()));
    out.all(issue.labels.iter().map(|label| label.as_str()));
    out.all(issue.depends_on.iter().map(|id| id.as_str()));
    out.all(issue.gates.iter().map(String::as_str));
    out.maybe(issue.blocked.as_deref());
    out.maybe(issue.pivot.as_deref());
    out.number(issue.created_at.ms().cast_unsigned());
    out.maybe(issue.created_by.as_ref().map(|id| id.as_str()));
    out.number(issue.updated_at.ms().cast_unsigned());
    out.number(issue.revision);
    out.maybe(issue.lives_in.as_ref().map(|id| id.as_str()));
    out.maybe(issue.text.as_deref());
    out.0
}

/// A text where it lies. Whether it is one is seen when it is looked at: the tables have checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    /// Bytes that are no text read as an empty one.
    pub fn as_str(self) -> &'a str {
        self.checked().unwrap_or_default()
    }

    /// For what was an id when it was packed.
    pub fn issue_id(self) -> IssueId {
        IssueId::unpacked(self.as_str())
    }

    fn checked(self) -> Option<&'a str> {
        std::str::from_utf8(self.0).ok()
    }
}

impl AsRef<str> for Text<'_> {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

/// Texts where they lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Texts<'a> {
    many: usize,
    bytes: &'a [u8],
}

impl<'a> Texts<'a> {
    pub fn is_empty(self) -> bool {
        self.many == 0
    }

    pub fn iter(self) -> impl Iterator<Item = Text<'a>> {
        let mut from = Reader(self.bytes);
        (0..self.many).map_while(move |_| from.text())
    }

    fn all<T>(self, one: impl Fn(&str) -> T) -> Option<Vec<T>> {
        self.iter().map(|text| text.checked().map(&one)).collect()
    }
}

impl Serialize for Texts<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter())
    }
}

/// An issue where it lies: what is not looked at costs nothing. As JSON it is what [`Issue`] is, but for the name of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Packed<'a> {
    pub id: Text<'a>,
    pub title: Text<'a>,
    #[serde(rename = "type")]
    pub kind: Text<'a>,
    pub state: IssueState,
    pub priority: Priority,
    pub parent: Option<Text<'a>>,
    pub labels: Texts<'a>,
    pub depends_on: Texts<'a>,
    pub gates: Texts<'a>,
    pub actor: Performer,
    pub blocked: Option<Text<'a>>,
    pub pivot: Option<Text<'a>>,
    pub created_at: Wall,
    pub created_by: Option<Text<'a>>,
    pub updated_at: Wall,
    pub revision: u64,
    pub lives_in: Option<Text<'a>>,
    #[serde(skip)]
    text: Option<Text<'a>>,
    #[serde(skip)]
    bytes: &'a [u8],
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn count(&mut self) -> Option<usize> {
        let bytes = self.take(4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<Text<'a>> {
        let n = self.count()?;
        self.take(n).map(Text)
    }

    /// The outer `None` is for what cannot be read.
    fn maybe(&mut self) -> Option<Option<Text<'a>>> {
        match self.byte()? {
            0 => Some(None),
            1 => self.text().map(Some),
            _ => None,
        }
    }

    fn texts(&mut self) -> Option<Texts<'a>> {
        let many = self.count()?;
        let from = self.0;
        (many <= from.len()).then_some(())?;
        for _ in 0..many {
            self.text()?;
        }
        let bytes = &from[..from.len() - self.0.len()];
        Some(Texts { many, bytes })
    }

    fn word<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        all.get(usize::from(self.byte()?)).copied()
    }

    fn wall(&mut self) -> Option<Wall> {
        self.number().map(|ms| Wall::from_ms(ms.cast_signed()))
    }
}

impl<'a> Packed<'a> {
    /// `None` where it is not an issue from beginning to end.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        (from.byte()? == VERSION).then_some(())?;
        let (id, title, kind) = (from.text()?, from.text()?, from.text()?);
        let (state, priority) = (from.word(IssueState::ALL)?, from.word(Priority::ALL)?);
        let packed = Self {
            id,
            title,
            kind,
            state,
            priority,
            actor: from.word(Performer::ALL)?,
            parent: from.maybe()?,
            labels: from.texts()?,
            depends_on: from.texts()?,
            gates: from.texts()?,
            blocked: from.maybe()?,
            pivot: from.maybe()?,
            created_at: from.wall()?,
            created_by: from.maybe()?,
            updated_at: from.wall()?,
            revision: from.number()?,
            lives_in: from.maybe()?,
            text: from.maybe()?,
            bytes,
        };
        from.0.is_empty().then_some(packed)
    }

    /// As it was packed.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub fn unpack(&self) -> Option<Issue> {
        fn maybe<T>(text: Option<Text<'_>>, one: impl Fn(&str) -> T) -> Option<Option<T>> {
            match text {
                None => Some(None),
                Some(text) => text.checked().map(|text| Some(one(text))),
            }
        }
        Some(Issue {
            id: IssueId::unpacked(self.id.checked()?),
            title: self.title.checked()?.to_owned(),
            kind: self.kind.checked()?.into(),
            state: self.state,
            priority: self.priority,
            actor: self.actor,
            parent: maybe(self.parent, IssueId::unpacked)?,
            labels: self.labels.all(|text| text.into())?,
            depends_on: self.depends_on.all(IssueId::unpacked)?,
            gates: self.gates.all(str::to_owned)?,
            blocked: maybe(self.blocked, str::to_owned)?,
            pivot: maybe(self.pivot, str::to_owned)?,
            created_at: self.created_at,
            created_by: maybe(self.created_by, AgentId::unpacked)?,
            updated_at: self.updated_at,
            revision: self.revision,
            lives_in: maybe(self.lives_in, WorktreeId::unpacked)?,
            text: maybe(self.text, str::to_owned)?,
        })
    }
}

pub fn decode(bytes: &[u8]) -> Option<Issue> {
    Packed::read(bytes)?.unpack()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn issue() -> impl Strategy<Value = Issue> {
        let text = ".{0,40}";
        let ids = prop::collection::vec("[a-zA-Z][a-z0-9]{4,12}", 0..4);
        let parts = (
            "[a-z][a-z0-9]{3,20}",
            text,
            text,
            (0..6_usize, 0..4_usize, 0..3_usize),
            ids.clone(),
            prop::collection::vec(text, 0..4),
            prop::option::of(text),
            (any::<i64>(), any::<u64>(), any::<bool>()),
        );
        parts.prop_map(
            |(id, title, kind, (s, p, a), deps, labels, note, (ms, revision, full))| Issue {
                id: id.parse().expect("an id"),
                title,
                kind: kind.into(),
                state: IssueState::ALL[s],
                priority: Priority::ALL[p],
                actor: Performer::ALL[a],
                parent: full.then(|| "WI-1".parse().expect("an id")),
                depends_on: deps.iter().map(|id| id.parse().expect("an id")).collect(),
                labels: labels.iter().map(Into::into).collect(),
                gates: labels,
                blocked: note.clone(),
                pivot: note.clone(),
                created_at: Wall::from_ms(ms),
                created_by: full.then(|| "human:x".parse().expect("an agent")),
                updated_at: Wall::from_ms(ms.wrapping_add(1)),
                revision,
                lives_in: full.then(|| "wt:0123abcd".parse().expect("a worktree")),
                text: note,
            },
        )
    }

    proptest! {
        #[test]
        fn e8_what_is_packed_is_unpacked(issue in issue()) {
            let bytes = encode(&issue);
            prop_assert_eq!(decode(&bytes), Some(issue));
            for cut in 0..bytes.len() {
                prop_assert_eq!(decode(&bytes[..cut]), None);
            }
        }

        /// A list shows an issue without unpacking it: it says the same.
        #[test]
        fn e8_what_is_packed_is_written_the_same(issue in issue()) {
            let bytes = encode(&issue);
            let packed = Packed::read(&bytes).expect("packed");
            prop_assert_eq!(packed.bytes(), bytes.as_slice());
            let unpacked = Issue { text: None, ..issue };
            prop_assert_eq!(serde_json::to_string(&packed).expect("JSON"), serde_json::to_string(&unpacked).expect("JSON"));
        }

        /// Reading many in one sweep and one by one is the same.
        #[test]
        fn e8_issues_by_their_keys(issues in prop::collection::vec(issue(), 0..12), missing in "[a-z][a-z0-9]{3,6}") {
            let mut table = crate::log::table::MemoryTable::default();
            for issue in &issues {
                table.0.insert(format!("i/{}", issue.id.key()), encode(issue));
            }
            table.0.insert("j/other".to_owned(), Vec::new());
            let mut keys: Vec<String> = issues.iter().map(|issue| issue.id.key()).collect();
            keys.truncate(issues.len() / 2 + 1);
            keys.push(missing);
            keys.sort();
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            let each: Vec<Option<Issue>> =
                keys.iter().map(|key| crate::log::state::issue_at(&table, key).expect("readable")).collect();
            let mut found: Vec<Option<Issue>> = vec![None; keys.len()];
            crate::log::state::visit_issues_at(&table, &keys, &mut |n, issue| found[n] = issue.unpack()).expect("readable");
            prop_assert_eq!(found, each);
        }

        #[test]
        fn e8_garbage_is_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }
}
