use std::sync::OnceLock;

use proptest::prelude::*;

use super::*;

fn pattern(text: &str) -> Pattern {
    Pattern::parse(text).unwrap_or_else(|why| panic!("{why}"))
}

fn why_not(text: &str) -> String {
    Pattern::parse(text).expect_err(text).why().to_owned()
}

/// A piece of a pattern that a test writes: the same language, built apart from the parser.
#[derive(Debug, Clone)]
enum Bit {
    Char(char),
    One,
    Class(bool, Vec<char>),
    Star,
    Stars,
    Either(Vec<Vec<Bit>>),
}

fn written(bits: &[Bit]) -> String {
    let one = |bit: &Bit| match bit {
        Bit::Char(c) if matches!(c, '*' | '?' | '[' | '{' | '}' | ',' | '\\') => format!("\\{c}"),
        Bit::Char(c) => c.to_string(),
        Bit::One => "?".to_owned(),
        Bit::Class(not, all) => {
            format!(
                "[{}{}]",
                if *not { "!" } else { "" },
                all.iter().collect::<String>()
            )
        }
        Bit::Star => "*".to_owned(),
        Bit::Stars => "**".to_owned(),
        Bit::Either(all) => {
            let all: Vec<String> = all.iter().map(|bits| written(bits)).collect();
            format!("{{{}}}", all.join(","))
        }
    };
    bits.iter().map(one).collect()
}

/// By trying everything. `then` is asked about what is left at the end.
fn naive(bits: &[Bit], fresh: bool, path: &[char], then: &dyn Fn(&[char]) -> bool) -> bool {
    let Some((first, more)) = bits.split_first() else {
        return then(path);
    };
    let is_slash = matches!(first, Bit::Char('/'));
    let go = |path: &[char]| naive(more, is_slash, path, then);
    let one = |yes: bool| yes && go(&path[1..]);
    match first {
        Bit::Char(c) => one(path.first() == Some(c)),
        Bit::One => one(path.first().is_some_and(|c| *c != '/')),
        Bit::Class(not, all) => one(path.first().is_some_and(|c| *c != '/' && all.contains(c) != *not)),
        Bit::Star => (0..=path.len()).any(|n| !path[..n].contains(&'/') && go(&path[n..])),
        Bit::Stars => {
            // `**/` at the beginning of a part may also be nothing at all.
            let skip = fresh && matches!(more.first(), Some(Bit::Char('/')));
            (skip && naive(&more[1..], true, path, then)) || (0..=path.len()).any(|n| go(&path[n..]))
        }
        Bit::Either(all) => all.iter().any(|bits| naive(bits, fresh, path, &go)),
    }
}

fn naive_matches(bits: &[Bit], dir: bool, path: &str) -> bool {
    let chars: Vec<char> = path.chars().collect();
    let ends = |rest: &[char]| rest.is_empty() || (dir && rest[0] == '/');
    is_named(path) && naive(bits, true, &chars, &ends)
}

fn is_named(path: &str) -> bool {
    path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// Every path of up to seven characters of a small alphabet.
fn short_paths() -> &'static [String] {
    static ALL: OnceLock<Vec<String>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = vec![String::new()];
        let mut last = all.clone();
        for _ in 0..7 {
            last = last
                .iter()
                .flat_map(|path| ['a', 'b', '.', '/'].map(|c| format!("{path}{c}")))
                .collect();
            all.extend(last.iter().filter(|path| is_named(path)).cloned());
        }
        all.retain(|path| is_named(path));
        all
    })
}

fn bit() -> impl Strategy<Value = Bit> {
    prop_oneof![
        6 => prop::sample::select(vec!['a', 'b', '.']).prop_map(Bit::Char),
        4 => Just(Bit::Char('/')),
        1 => Just(Bit::One),
        3 => Just(Bit::Star),
        3 => Just(Bit::Stars),
        1 => (any::<bool>(), prop::sample::subsequence(vec!['a', '.'], 1..=2)).prop_map(|(not, all)| Bit::Class(not, all)),
    ]
}

/// Adjacent stars are one token to the parser, whatever was meant: leave such texts out.
fn bits(len: usize, inner: usize) -> impl Strategy<Value = (Vec<Bit>, bool)> {
    let either = prop::collection::vec(prop::collection::vec(bit(), 0..=inner), 2..=3).prop_map(Bit::Either);
    let each = prop_oneof![6 => bit(), 1 => either];
    (prop::collection::vec(each, 1..=len), any::<bool>()).prop_filter("stars side by side", |(bits, _)| {
        !written(bits).contains("***") && Pattern::parse(&written(bits)).is_ok() && !stars_meet(bits)
    })
}

fn stars_meet(bits: &[Bit]) -> bool {
    let star = |bit: &Bit| matches!(bit, Bit::Star | Bit::Stars);
    bits.windows(2).any(|two| star(&two[0]) && star(&two[1]))
        || bits.iter().any(|bit| match bit {
            Bit::Either(all) => all.iter().any(|bits| stars_meet(bits)),
            _ => false,
        })
}

fn with_slash(bits: &[Bit], dir: bool) -> String {
    format!("{}{}", written(bits), if dir { "/" } else { "" })
}

/// The text is used as it is: no part of it is left out, and it ends as it was meant.
fn as_written(bits: &[Bit], dir: bool) -> Option<Pattern> {
    let text = with_slash(bits, dir);
    let pattern = Pattern::parse(&text).ok()?;
    let clean = text != "."
        && !text.starts_with("./")
        && !text.contains("//")
        && !text.contains("/./")
        && !text.ends_with("/.")
        && !text.ends_with("/./");
    (clean && (dir || !text.ends_with('/')) && !(dir && text.ends_with("**/"))).then_some(pattern)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn f4_matching_agrees_with_trying_everything((bits, dir) in bits(6, 2)) {
        let Some(pattern) = as_written(&bits, dir) else { return Ok(()) };
        for path in short_paths().iter().step_by(3) {
            prop_assert_eq!(pattern.matches(path), naive_matches(&bits, dir, path), "{} on {}", pattern, path);
        }
    }

    #[test]
    fn f4_two_patterns_overlap_when_some_path_is_in_both(a in bits(3, 1), b in bits(3, 1)) {
        let (Ok(a), Ok(b)) = (Pattern::parse(&with_slash(&a.0, a.1)), Pattern::parse(&with_slash(&b.0, b.1))) else {
            return Ok(());
        };
        let shared = short_paths().iter().find(|path| a.matches(path) && b.matches(path));
        prop_assert_eq!(a.overlaps(&b), shared.is_some(), "{} and {}: {:?}", a, b, shared);
        prop_assert_eq!(b.overlaps(&a), shared.is_some());
        prop_assert!(a.overlaps(&a));
    }

    #[test]
    fn f4_every_match_begins_with_the_literal_prefix_and_no_longer_one((bits, dir) in bits(4, 1)) {
        let Ok(pattern) = Pattern::parse(&with_slash(&bits, dir)) else { return Ok(()) };
        let mut matching = short_paths().iter().filter(|path| pattern.matches(path));
        let Some(first) = matching.next() else { return Ok(()) };
        let common = matching.fold(first.as_str(), |common, path| {
            let same = common.bytes().zip(path.bytes()).take_while(|(x, y)| x == y).count();
            &common[..same]
        });
        prop_assert!(common.starts_with(pattern.literal_prefix()), "{}: {:?}", pattern, pattern.literal_prefix());
        // A class has members that the alphabet of the short paths has not.
        if !pattern.as_str().contains('[') && !pattern.as_str().contains('?') {
            prop_assert_eq!(common, pattern.literal_prefix(), "{}", pattern);
        }
    }

    #[test]
    fn f2_the_canonical_text_is_the_same_pattern((bits, dir) in bits(8, 3)) {
        let Ok(once) = Pattern::parse(&with_slash(&bits, dir)) else { return Ok(()) };
        let again = pattern(once.as_str());
        prop_assert_eq!(once.as_str(), again.as_str());
        prop_assert_eq!(once.is_dir(), again.is_dir());
        prop_assert_eq!(once.is_glob(), again.is_glob());
        prop_assert_eq!(once.literal_prefix(), again.literal_prefix());
        for path in short_paths().iter().step_by(11) {
            prop_assert_eq!(once.matches(path), again.matches(path), "{} on {}", again, path);
        }
    }

    #[test]
    fn f2_any_text_is_a_pattern_or_is_refused(text in "\\PC{0,40}|[a*?{},\\[\\]!\\\\/.-]{0,24}") {
        if let Ok(once) = Pattern::parse(&text) {
            prop_assert_eq!(pattern(once.as_str()), once);
        }
    }

    #[test]
    fn f2_a_literal_path_matches_itself_alone(path in "[a*?{},\\[\\]!\\\\.-]{1,6}(/[a*?{},\\[\\]!\\\\.-]{1,6}){0,2}") {
        prop_assume!(is_named(&path));
        let literal = Pattern::literal(&path).expect("a path");
        prop_assert!(literal.matches(&path) && !literal.is_glob());
        prop_assert_eq!(literal.literal_prefix(), path.as_str());
        prop_assert_eq!(pattern(literal.as_str()), literal);
    }

    #[test]
    fn f4_a_folded_pattern_matches_every_folded_path((bits, dir) in bits(5, 2), capitals in any::<u32>()) {
        let text: String = with_slash(&bits, dir).chars().enumerate()
            .map(|(at, c)| if capitals >> (at % 32) & 1 == 1 { c.to_ascii_uppercase() } else { c }).collect();
        let Ok(mixed) = Pattern::parse(&text) else { return Ok(()) };
        let folded = mixed.folded();
        for path in short_paths().iter().step_by(7) {
            let upper = path.to_ascii_uppercase();
            if mixed.matches(path) || mixed.matches(&upper) {
                prop_assert!(folded.matches(&fold(&upper)), "{mixed} -> {folded} on {upper}");
            }
        }
    }
}

#[test]
fn f2_files_directories_and_globs_match_what_they_say() {
    for (text, yes, no) in [
        (
            "src/a.ts",
            &["src/a.ts"][..],
            &["src/a.tsx", "src", "src/a.ts/b", "a/src/a.ts"][..],
        ),
        ("src/", &["src", "src/a", "src/a/b"], &["srcs", "a/src"]),
        ("src/*.ts", &["src/a.ts", "src/.ts"], &["src/a/b.ts", "src/a.js"]),
        ("src/**", &["src/a", "src/a/b"], &["src", "srcs/a"]),
        (
            "src/**/*.ts",
            &["src/a.ts", "src/a/b/c.ts"],
            &["src/a.js", "a.ts"],
        ),
        ("**/test", &["test", "a/test", "a/b/test"], &["atest", "test/a"]),
        ("a**z", &["az", "a/b/z", "abz"], &["a/b"]),
        (
            "{src,tests}/**/{a,b}.[ch]",
            &["src/a.c", "tests/x/b.h"],
            &["src/c.c", "src/a.x"],
        ),
        ("?", &["a", "é", "語"], &["ab", "a/b"]),
        ("[!a-c]", &["d", "é"], &["a", "c", "/"]),
        ("[]a]", &["]", "a"], &["b"]),
        ("[a-]", &["-", "a"], &["b"]),
        (r"\*[*]\[", &["**["], &["a*["]),
        (".", &["a", "a/b", ".env"], &["", ".", "..", "a/", "/a", "a//b"]),
        ("*", &[".env", "a"], &["a/b"]),
        ("*/", &["a", "a/b/c"], &[]),
        ("docs//./x/", &["docs/x", "docs/x/y"], &["docs"]),
    ] {
        let pattern = pattern(text);
        for path in yes {
            assert!(pattern.matches(path), "{text} must match {path}");
        }
        for path in no {
            assert!(!pattern.matches(path), "{text} must not match {path}");
        }
    }
}

#[test]
fn f2_one_set_of_paths_has_one_text() {
    for (written, canonical) in [
        ("./src//a.ts", "src/a.ts"),
        ("src/./", "src/"),
        (".", "**"),
        ("./", "**"),
        ("**/", "**"),
        ("**/**", "**"),
        (r"a\b", "ab"),
        ("a[*]b", r"a\*b"),
        ("[!/]", "?"),
        ("a/**/**/b", "a/**/b"),
        ("a/**/./b", "a/**/b"),
        ("a/**/", "a/**"),
    ] {
        assert_eq!(pattern(written).as_str(), canonical, "{written}");
    }
}

#[test]
fn f2_what_cannot_be_a_path_is_refused_with_the_reason() {
    for (text, word) in [
        ("", "empty"),
        ("/etc/passwd", "relative"),
        ("../x", "'..'"),
        ("a/../b", "'..'"),
        ("a\0b", "NUL"),
        ("a[b", "not closed"),
        ("a{b", "not closed"),
        ("{a}", "one alternative"),
        ("a\\", "escapes nothing"),
        ("[z-a]", "wrong way"),
        ("{a/,b}", "begin or end"),
        ("[/]", "no path can match"),
        ("[.]", "no path can match"),
        ("{.,..}/{.,..}", "no path can match"),
    ] {
        assert!(why_not(text).contains(word), "{text:?}: {}", why_not(text));
    }
}

#[test]
fn f2_the_kind_of_a_pattern_is_known() {
    let kinds = |text: &str| (pattern(text).is_glob(), pattern(text).is_dir());
    assert_eq!(kinds("src/a.ts"), (false, false));
    assert_eq!(kinds("src/"), (false, true));
    assert_eq!(kinds("src/*"), (true, false));
    assert_eq!(kinds("src/*/"), (true, true));
    assert_eq!(kinds("."), (true, true));
}

#[test]
fn f4_patterns_that_share_a_path_overlap_and_others_do_not() {
    for (a, b, expected) in [
        ("src/", "src/a.ts", true),
        ("src/", "src", true),
        ("src/", "srcs/", false),
        ("src/a/", "src/", true),
        ("src/*.ts", "src/a*", true),
        ("src/*.ts", "src/*.js", false),
        ("src/**/a", "**/b", false),
        ("src/**/a/**", "**/b", true),
        ("[a-m]*", "[n-z]*", false),
        ("{a,b}/**", "{c,b}/x", true),
        (".", "x", true),
        ("*", "a/b", false),
        ("*/", "a/b", true),
        // They would meet only in texts that are no paths.
        ("[.b]", "[.c]", false),
        ("a/*", "{a/b,c}*", true),
    ] {
        assert_eq!(pattern(a).overlaps(&pattern(b)), expected, "{a} and {b}");
        assert_eq!(pattern(b).overlaps(&pattern(a)), expected, "{b} and {a}");
    }
}

#[test]
fn f4_case_is_folded_where_the_file_system_does() {
    for (text, path) in [
        ("SRC/Main.ts", "src/main.TS"),
        ("Ä*", "äx"),
        ("ΟΔΟΣ", "οδος"),
        ("[A-C]x", "bX"),
        ("[!a]", "A"),
    ] {
        assert!(pattern(text).folded().matches(&fold(path)), "{text} on {path}");
    }
    assert!(!pattern("a").overlaps(&pattern("A")));
    assert!(pattern("a").folded().overlaps(&pattern("A").folded()));
    assert_eq!(pattern(".").folded(), pattern("."));
}

#[test]
fn f4_hostile_patterns_are_refused_or_answered_in_few_steps() {
    let long = |unit: &str, n: usize| unit.repeat(n);
    for (text, word) in [
        (long("a", 100_000), "longer"),
        (long("*a", 1000), "more than 32 stars"),
        (long("a/", 400) + "*", "at most 512 bytes"),
        (format!("{}a,b{}", long("{", 9), long("}", 9)), "deep"),
        (format!("{{{}b}}", long("a,", 64)), "more than 64 alternatives"),
    ] {
        assert!(why_not(&text).contains(word), "{}", why_not(&text));
    }
    assert!(pattern(&long("*", 1000)).matches("a/b"));
    // The worst that fits: everything can follow everything.
    let stars = long("*", 1) + &long("a*", 30) + &long("a", 440);
    let other = long("b", 1) + &long("*a", 31) + &long("a", 400);
    let braces = long("{a,*b}", 20) + "c";
    let classes = format!("**{}", long("[a-z]", 90));
    let all = [&stars, &other, &braces, &classes].map(|text| pattern(text));
    for a in &all {
        for b in &all {
            let (_, steps) = a.overlaps_counted(b);
            assert!(steps < 1_500_000, "{a} and {b}: {steps} steps");
        }
    }
}
