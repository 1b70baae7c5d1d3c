//! An issue as a table value: compact, because lists read ten thousand of them.
//!
//! Format: a version byte, then the fields in the order of [`Issue`]. Texts are a length (u32, little endian) and UTF-8;
//! optional ones are preceded by 0 or 1; lists by their length (u32); words of a fixed set are their place in it (u8);
//! times and numbers are 64 bits. Disposable: the log has the truth in JSON.

use crate::ids::{AgentId, IssueId, WorktreeId};
use crate::issue::{Issue, Performer, Priority, State};
use crate::time::Wall;

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

    fn text(&mut self) -> Option<&'a str> {
        let n = self.count()?;
        std::str::from_utf8(self.take(n)?).ok()
    }

    /// The outer `None` is for what cannot be read.
    fn maybe(&mut self) -> Option<Option<&'a str>> {
        match self.byte()? {
            0 => Some(None),
            1 => self.text().map(Some),
            _ => None,
        }
    }

    fn all<T>(&mut self, one: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
        let n = self.count()?;
        (n <= self.0.len()).then_some(())?;
        (0..n).map(|_| one(self.text()?)).collect()
    }

    fn word<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        all.get(usize::from(self.byte()?)).copied()
    }

    fn wall(&mut self) -> Option<Wall> {
        self.number().map(|ms| Wall::from_ms(ms.cast_signed()))
    }
}

pub fn decode(bytes: &[u8]) -> Option<Issue> {
    let mut from = Reader(bytes);
    (from.byte()? == VERSION).then_some(())?;
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let issue = Issue {
        id: IssueId::unpacked(from.text()?),
        title: from.text()?.to_owned(),
        kind: from.text()?.into(),
        state: from.word(State::ALL)?,
        priority: from.word(Priority::ALL)?,
        actor: from.word(Performer::ALL)?,
        parent: from.maybe()?.map(IssueId::unpacked),
        labels: from.all(|text| Some(text.into()))?,
        depends_on: from.all(|text| Some(IssueId::unpacked(text)))?,
        gates: from.all(|text| Some(text.to_owned()))?,
        blocked: owned(from.maybe()?),
        pivot: owned(from.maybe()?),
        created_at: from.wall()?,
        created_by: from.maybe()?.map(AgentId::unpacked),
        updated_at: from.wall()?,
        revision: from.number()?,
        lives_in: from.maybe()?.map(WorktreeId::unpacked),
        text: owned(from.maybe()?),
    };
    from.0.is_empty().then_some(issue)
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
                state: State::ALL[s],
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

        /// Reading many in one sweep and one by one is the same.
        #[test]
        fn e8_issues_by_their_keys(issues in prop::collection::vec(issue(), 0..12), missing in "[a-z][a-z0-9]{3,6}") {
            let mut table = crate::table::Memory::default();
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
                keys.iter().map(|key| crate::state::issue_at(&table, key).expect("readable")).collect();
            let mut found: Vec<Option<Issue>> = vec![None; keys.len()];
            crate::state::visit_issues_at(&table, &keys, &mut |n, issue| found[n] = Some(issue)).expect("readable");
            prop_assert_eq!(found, each);
        }

        #[test]
        fn e8_garbage_is_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }
}
