//! Each requirement id that a test name cites is explained in the list of requirements.
//!
//! A test name cites ids at its start, after `heavy_` if it has that: `b2_…`, `g8_fm03_…`. The list has one table row
//! for each id: `| B2 | … |`, `| FM-03 | … |`.

use std::collections::{BTreeMap, BTreeSet};

use super::sources::Sources;
use super::syntax::{Kind, Token, tokens};
use super::tree::attribute;

pub const LIST: &str = "docs/requirements.md";

pub fn findings(sources: &Sources) -> Vec<String> {
    let rows = sources
        .text(LIST)
        .unwrap_or_default()
        .lines()
        .filter_map(explained);
    let mut known = BTreeSet::new();
    let mut found = Vec::new();
    for id in rows {
        if !known.insert(id.clone()) {
            found.push(format!("{LIST}: two rows for `{id}`"));
        }
    }
    let mut unknown: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in sources.rust() {
        let all = tokens(sources.text(path).unwrap_or_default());
        for name in tests(&all) {
            for id in cited(name.text).filter(|id| !known.contains(*id)) {
                let place = format!("    {path}:{}: {}", name.line, name.text);
                unknown.entry(id.to_owned()).or_default().push(place);
            }
        }
    }
    for (id, places) in unknown {
        found.push(format!(
            "{LIST} has no row for `{id}`, which these tests cite:\n{}",
            places.join("\n")
        ));
    }
    found
}

/// The id of a row of a table, as test names have it: `FM-03` is `fm03`.
fn explained(line: &str) -> Option<String> {
    let cell = line.trim().strip_prefix('|')?.split('|').next()?;
    let id = cell.trim().replace('-', "").to_lowercase();
    is_id(&id).then_some(id)
}

/// One or two letters, one or two digits.
fn is_id(text: &str) -> bool {
    let letters = text.bytes().take_while(u8::is_ascii_lowercase).count();
    let digits = &text.as_bytes()[letters..];
    (1..=2).contains(&letters) && (1..=2).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit)
}

fn cited(name: &str) -> impl Iterator<Item = &str> {
    let name = name.strip_prefix("heavy_").unwrap_or(name);
    name.split('_').take_while(|word| is_id(word))
}

/// The names of test functions.
fn tests<'t, 'a>(all: &'t [Token<'a>]) -> Vec<&'t Token<'a>> {
    let mut found = Vec::new();
    let (mut at, mut marked) = (0, false);
    while at < all.len() {
        if let Some(attribute) = attribute(&all[at..]) {
            marked |= attribute.marks_a_test();
            at += attribute.length;
            continue;
        }
        if all[at].is("fn")
            && marked
            && let Some(name) = all.get(at + 1).filter(|name| name.kind == Kind::Word)
        {
            found.push(name);
        }
        marked &= ["pub", "async", "unsafe", "const"].contains(&all[at].text);
        at += 1;
    }
    found
}

#[cfg(test)]
mod tests_of_this {
    use super::super::sources::Sources;
    use super::{LIST, findings};

    #[test]
    fn ids_without_a_row_are_reported() {
        let source = "#[test]\nfn a1_b2_works() {}\n#[tokio::test]\n#[ignore]\nasync fn heavy_fm03_c4() {}\n\
                      fn d5_is_no_test() {}\n#[test]\nfn utf8_is_no_id() {}\n#[test] fn plain_e6() {}";
        let check = |list: &str| {
            findings(&Sources::made_up(&[
                ("crates/a/src/lib.rs", source),
                (LIST, list),
            ]))
        };
        let whole = "| id | meaning |\n|---|---|\n| A1 | x |\n| B2 | x |\n| C4 | x |\n| FM-03 | x |";
        assert_eq!(check(whole), [""; 0]);
        let found = check("| A1 | x |\n| FM-03 | x |\n| A1 | y |");
        assert_eq!(
            found,
            [
                "docs/requirements.md: two rows for `a1`",
                "docs/requirements.md has no row for `b2`, which these tests cite:\n    crates/a/src/lib.rs:2: a1_b2_works",
                "docs/requirements.md has no row for `c4`, which these tests cite:\n    crates/a/src/lib.rs:5: heavy_fm03_c4",
            ]
        );
    }
}
