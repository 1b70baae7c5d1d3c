//! Merges two descriptions that came from one.
//!
//! What must hold: a change by only one side is in the result. If both sides changed the same place, one of them
//! counts there, and only there.
//!
//! Limitation: the time to compare is the length of both texts times their difference. If more than `MOST` lines lie
//! between the first and the last difference, nothing is merged and one of them counts.

use diffy::{ConflictStyle, IncompleteHunkStyle, MergeOptions};

/// Longer than any line of marks that a person writes.
const MARKER: usize = 61;

/// The most lines of one text that are compared.
const MOST: usize = 4000;

/// Returns the number of lines that all have in common, from the first on.
fn common<'a>(sides: [impl Iterator<Item = &'a &'a [u8]>; 3]) -> usize {
    let [base, ours, theirs] = sides;
    base.zip(ours)
        .zip(theirs)
        .take_while(|((base, ours), theirs)| base == ours && ours == theirs)
        .count()
}

/// Returns both changes together, and whether both changed the same place. `theirs` counts in such a place.
pub fn merge(base: &[u8], ours: &[u8], theirs: &[u8]) -> (Vec<u8>, bool) {
    let marks = [b'<', b'=', b'>'].map(|mark| vec![mark; MARKER]);
    let is_mark = |line: &[u8], mark: &[u8]| line.starts_with(mark);
    let written = [base, ours, theirs]
        .into_iter()
        .flat_map(|text| text.split(|b| *b == b'\n'));
    let mut lines = written.filter(|line| marks.iter().any(|mark| is_mark(line, mark)));
    if lines.next().is_some() {
        return (theirs.to_owned(), true);
    }
    let sides = [base, ours, theirs].map(|text| text.split_inclusive(|b| *b == b'\n').collect::<Vec<_>>());
    let before = common(sides.each_ref().map(|side| side.iter()));
    let rest = sides.each_ref().map(|side| &side[before..]);
    let after = common(rest.map(|side| side.iter().rev()));
    let rest = rest.map(|side| &side[..side.len() - after]);
    if rest.iter().any(|side| side.len() > MOST) {
        return (theirs.to_owned(), true);
    }
    // The whole texts: if a line occurs more than once, the part cut off may lie between two changes.
    let merged = MergeOptions::new()
        .set_conflict_style(ConflictStyle::Merge)
        .set_conflict_marker_length(MARKER)
        .set_incomplete_hunk_style(IncompleteHunkStyle::Git)
        .merge_bytes(base, ours, theirs);
    let marked = match merged {
        Ok(merged) => return (merged, false),
        Err(marked) => marked,
    };
    let [begin, middle, end] = &marks;
    let mut taken = Vec::with_capacity(marked.len());
    let mut is_ours = false;
    for line in marked.split_inclusive(|b| *b == b'\n') {
        if is_mark(line, begin) {
            is_ours = true;
        } else if is_mark(line, middle) {
            is_ours = false;
        } else if !is_ours && !is_mark(line, end) {
            taken.extend_from_slice(line);
        }
    }
    (taken, true)
}

#[cfg(test)]
mod tests {
    use super::merge;

    fn merged(base: &str, ours: &str, theirs: &str) -> (String, bool) {
        let (text, both) = merge(base.as_bytes(), ours.as_bytes(), theirs.as_bytes());
        (String::from_utf8(text).expect("text"), both)
    }

    #[test]
    fn c7_what_one_side_changed_survives_a_conflict_elsewhere() {
        let base = "one\n\ntwo\n\nthree\n";
        let ours = "one\nmore\n\ntwo\n2a\n\nthree\n";
        let theirs = "one\n\ntwo\n2a\n2b\n\nthree\nend\n";
        assert_eq!(
            merged(base, ours, theirs),
            ("one\nmore\n\ntwo\n2a\n2b\n\nthree\nend\n".into(), true)
        );
        assert_eq!(merged(base, ours, base), (ours.into(), false));
        assert_eq!(merged(base, base, theirs), (theirs.into(), false));
        // Repeated lines are between the changes.
        assert_eq!(
            merged(
                "# Title\n\nend\n",
                "# Title\nsubtitle\n\nend\n",
                "# Title\n\npara\n\nend\n"
            ),
            ("# Title\nsubtitle\n\npara\n\nend\n".into(), false)
        );
        // Without a final newline, and with text that looks like our marks.
        assert!(merged("a", "b", "c").1);
        assert!(merged("a", "b", "c").0.starts_with('c'));
        let mark = "=".repeat(80);
        assert_eq!(merged("a\n", "b\n", &mark), (mark.clone(), true));
    }

    #[test]
    fn c7_only_what_differs_is_compared_and_not_too_much_of_it() {
        let numbered = |from: usize, to: usize, word: &str| -> String {
            (from..to).map(|n| format!("{word} {n}\n")).collect()
        };
        // Very long texts: one changed line on each side.
        let base = numbered(0, 100_000, "line");
        let ours = base.replace("line 50000\n", "ours\n");
        let theirs = base.replace("line 50100\n", "theirs\n");
        let both = ours.replace("line 50100\n", "theirs\n");
        assert_eq!(merged(&base, &ours, &theirs), (both, false));
        // Nothing in common: no merge is tried.
        let [a, b, c] = ["a", "b", "c"].map(|word| numbered(0, 20_000, word));
        assert_eq!(merged(&a, &b, &c), (c, true));
        // Common lines at both ends belong to neither side twice.
        assert_eq!(
            merged("a\na\n", "a\nb\na\n", "a\na\nc\n"),
            ("a\nb\na\nc\n".into(), false)
        );
    }
}
