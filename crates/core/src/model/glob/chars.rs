//! Sets of characters, as a class in a glob names them. `/` and NUL are in none.

use std::sync::OnceLock;

/// Sorted ranges that neither touch nor overlap, ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chars(Vec<(char, char)>);

const LAST: char = char::MAX;

impl Chars {
    /// Every character that a part of a path may have.
    pub(super) fn all() -> Self {
        Self::of(vec![('\u{1}', LAST)])
    }

    pub(super) fn of(mut ranges: Vec<(char, char)>) -> Self {
        ranges.sort_unstable();
        let mut joined: Vec<(char, char)> = Vec::with_capacity(ranges.len() + 1);
        for (from, to) in ranges {
            match joined.last_mut() {
                Some(last) if last.1 == LAST || from <= after(last.1) => last.1 = last.1.max(to),
                _ => joined.push((from, to)),
            }
        }
        let mut kept = Vec::with_capacity(joined.len() + 1);
        for (from, to) in joined {
            let from = from.max('\u{1}');
            // Cut out `/`: what is before it, and what is after.
            if from < '/' {
                kept.push((from, to.min('.')));
            }
            if to > '/' {
                kept.push((from.max('0'), to));
            }
        }
        kept.retain(|(from, to)| from <= to);
        Self(kept)
    }

    /// Every other character.
    pub(super) fn others(&self) -> Self {
        let mut out = Vec::with_capacity(self.0.len() + 1);
        let mut next = Some('\u{1}');
        for &(from, to) in &self.0 {
            if let Some(start) = next
                && start < from
            {
                out.push((start, before(from)));
            }
            next = (to < LAST).then(|| after(to));
        }
        if let Some(start) = next {
            out.push((start, LAST));
        }
        Self::of(out)
    }

    pub(super) fn has(&self, c: char) -> bool {
        let at = self.0.partition_point(|&(_, to)| to < c);
        self.0.get(at).is_some_and(|&(from, _)| from <= c)
    }

    /// Some character that both have and that is not a dot.
    pub(super) fn share_other_than_dot(&self, other: &Self) -> bool {
        let (mut i, mut j) = (0, 0);
        while let (Some(a), Some(b)) = (self.0.get(i), other.0.get(j)) {
            let (from, to) = (a.0.max(b.0), a.1.min(b.1));
            if from < to || (from == to && from != '.') {
                return true;
            }
            if a.1 <= b.1 {
                i += 1;
            } else {
                j += 1;
            }
        }
        false
    }

    /// The one character, if it is the only one.
    pub(super) fn only(&self) -> Option<char> {
        match self.0[..] {
            [(from, to)] if from == to => Some(from),
            _ => None,
        }
    }

    /// The one character besides a dot, if there is just one.
    pub(super) fn only_besides_dot(&self) -> Option<char> {
        let mut singles = self.0.iter().map(|&(from, to)| (from == to).then_some(from));
        match (singles.next(), singles.next(), singles.next()) {
            (Some(Some('.')), Some(other), None) | (Some(other), Some(Some('.')), None) => other,
            // Neighbours of the dot share its range.
            _ => match self.0[..] {
                [('-', '.')] => Some('-'),
                _ => None,
            },
        }
    }

    pub(super) fn ranges(&self) -> &[(char, char)] {
        &self.0
    }

    /// With the folded form of every member.
    pub(super) fn folded(&self) -> Self {
        let mut ranges = self.0.clone();
        ranges.extend(cased().iter().filter(|(c, _)| self.has(*c)).map(|&(_, f)| (f, f)));
        Self::of(ranges)
    }
}

fn after(c: char) -> char {
    // The numbers from D800 to DFFF are no characters.
    char::from_u32(u32::from(c) + 1).unwrap_or('\u{e000}')
}

fn before(c: char) -> char {
    char::from_u32(u32::from(c).saturating_sub(1)).unwrap_or('\u{d7ff}')
}

/// One character for all that differ only by case; one that would become several stays.
pub(super) fn fold(c: char) -> char {
    fn single(mut all: impl Iterator<Item = char>, c: char) -> char {
        match (all.next(), all.next()) {
            (Some(one), None) => one,
            _ => c,
        }
    }
    if c.is_ascii() {
        return c.to_ascii_lowercase();
    }
    // Up first: there are capitals with two small forms, such as sigma.
    let upper = single(c.to_uppercase(), c);
    single(upper.to_lowercase(), upper)
}

/// Characters that folding changes, with what they become.
fn cased() -> &'static [(char, char)] {
    static TABLE: OnceLock<Vec<(char, char)>> = OnceLock::new();
    TABLE.get_or_init(|| {
        // No script with case has been placed above the second plane.
        let all = '\u{1}'..='\u{1ffff}';
        all.map(|c| (c, fold(c))).filter(|(c, f)| c != f).collect()
    })
}
