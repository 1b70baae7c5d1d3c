//! Secrets in texts, streams and events.

use proptest::prelude::*;

use super::patterns::{KEY_LINES, find};
use super::*;

const VALUE: &str = "hunter2-correct\"horse\\battery";

fn redactor() -> Redactor {
    let env = [
        ("MY_API_KEY", VALUE),
        ("GH_TOKEN", "plain-value-of-a-token"),
        ("DB_PASSWORD", "short"),
        ("KEYBOARD", "qwertzuiop"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/"),
        ("SSH_SECRET", "first line of many\nsecond line of many"),
    ];
    Redactor::of(env.map(|(name, value)| (name.into(), value.into())))
}

#[test]
fn g8_known_values_are_redacted_whole_escaped_wrapped_and_cut() {
    let of = redactor();
    let escaped = serde_json::to_string(VALUE).expect("JSON");
    for (text, clean) in [
        (format!("key={VALUE}."), "key=[redacted]."),
        (format!("{{\"x\":{escaped}}}"), "{\"x\":\"[redacted]\"}"),
        (format!("{VALUE}{VALUE}"), "[redacted][redacted]"),
        ("plain-value-\nof-a-to\r\nken!".into(), "[redacted]!"),
        ("and plain-value-of…".into(), "and [redacted]…"),
        ("x second line of many".into(), "x [redacted]"),
        (
            "short qwertzuiop / plain-value".into(),
            "short qwertzuiop / plain-value",
        ),
    ] {
        assert_eq!(of.clean(&text), clean, "{text}");
    }
}

#[test]
fn g8_what_looks_like_a_secret_is_redacted_and_nothing_else() {
    let of = Redactor::default();
    let table: &[(&str, &str)] = &[
        ("sk-ant-api03-Ab1_x-9zQ8 is it", "[redacted] is it"),
        ("(sk-proj-0123456789abcdefghij)", "([redacted])"),
        ("ghp_0123456789abcdefABCD", "[redacted]"),
        ("gho_0123456789abcdefABCD,x", "[redacted],x"),
        ("github_pat_11ABCDE_0123456789abcdef", "[redacted]"),
        ("glpat-0123456789ab-cdef", "[redacted]"),
        ("id AKIAIOSFODNN7EXAMPLE", "id [redacted]"),
        ("AIzaSyA-0123456789abcdefghijklmnopqrstu", "[redacted]"),
        ("xoxb-123456789012-abcdef", "[redacted]"),
        (
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl-_x",
            "[redacted]",
        ),
        (
            "Authorization: Bearer abc.def-123",
            "Authorization: Bearer [redacted]",
        ),
        (
            "\"authorization\":\"Basic dXNlcjpwYXNz\"",
            "\"authorization\":\"Basic [redacted]\"",
        ),
        ("-H 'x-api-key: 0123456789'", "-H 'x-api-key: [redacted]'"),
        ("bearer 0123456789abcdef", "bearer [redacted]"),
        (
            "https://bob:p4ss@example.org/x",
            "https://[redacted]@example.org/x",
        ),
        (
            "{\"t\":\"one\\nsk-ant-api03-Ab1_x-9zQ8\"}",
            "{\"t\":\"one\\n[redacted]\"}",
        ),
        (
            "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----\nb",
            "a\n[redacted]\nb",
        ),
        // Without its end it reaches as far as a key may.
        ("\"-----BEGIN PRIVATE KEY-----\\nMIIEabc…\"", "\"[redacted]"),
    ];
    for (text, clean) in table {
        assert_eq!(of.clean(text), *clean, "{text}");
        assert_eq!(of.clean(clean), *clean, "twice: {clean}");
    }
    for text in [
        "task-force-of-many-long-words-9",
        "sk-learn",
        "desk-0123456789abcdefghij0123",
        "https://example.org:8080/a@b",
        "mailto:bob@example.org",
        "AKIA",
        "eyJ.x",
        "the authorization of agents",
        "bearer of good news everyone",
        "-----BEGIN PGP PUBLIC KEY BLOCK-----\nmQEN\n-----END PGP PUBLIC KEY BLOCK-----",
        "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
        "--------------------------",
        "",
    ] {
        assert_eq!(of.clean(text), text);
    }
}

fn streamed(of: &Arc<Redactor>, pieces: &[&[u8]]) -> Vec<u8> {
    let mut scrub = StreamRedactor::new(Arc::clone(of));
    let mut out = Vec::new();
    for piece in pieces {
        scrub.take(piece, &mut |bytes| out.extend_from_slice(bytes));
    }
    scrub.end(&mut |bytes| out.extend_from_slice(bytes));
    out
}

fn has(text: &[u8], secret: &str) -> bool {
    find(text, secret.as_bytes()).is_some()
}

#[test]
fn g8_a_stream_is_redacted_however_it_is_cut() {
    let of = Arc::new(redactor());
    let text = format!(
        "one {VALUE} two\nplain-value-of-\na-token three\nghp_0123456789abcdefABCD four\n-----BEGIN PRIVATE KEY-----\n\
         MIIEabc\n-----END PRIVATE KEY-----\nlast plain-value-of-a-token"
    );
    let whole = of.clean(&text).into_owned();
    assert_eq!(whole.matches("[redacted]").count(), 5, "{whole}");
    for size in 1..text.len() {
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
        assert_eq!(String::from_utf8_lossy(&streamed(&of, &pieces)), whole, "{size}");
    }
}

/// A key with lines that do not look like one.
const PGP: &str = "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2.0.22 (GNU/Linux)\n\nlQOYBFYk0TkBCAC7kQ\n=Zx1y\n\
                   -----END PGP PRIVATE KEY BLOCK-----";

#[test]
fn g8_a_key_with_headers_is_redacted_however_the_stream_is_cut() {
    let of = Arc::new(redactor());
    let text = format!("one\n{PGP}\ntwo\n");
    for size in 1..text.len() {
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
        let clean = streamed(&of, &pieces);
        assert_eq!(
            String::from_utf8_lossy(&clean),
            "one\n[redacted]\ntwo\n",
            "{size}"
        );
    }
}

/// The texts of these events after redaction.
fn as_events(lines: &[&str]) -> Vec<String> {
    let mut redactor = EventRedactor::new(Arc::new(redactor()));
    let clean = |line: &&str| {
        let mut said = AgentEvent::Text { text: (*line).into() };
        redactor.clean(&mut said);
        match said {
            AgentEvent::Text { text } => text,
            other => panic!("{other:?}"),
        }
    };
    lines.iter().map(clean).collect()
}

#[test]
fn g8_a_private_key_is_one_secret_over_several_events() {
    let rsa = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIEpAIBAAKCAQEA7\nabc=\n-----END RSA PRIVATE KEY-----";
    for key in [rsa, PGP] {
        let lines: Vec<&str> = ["before"]
            .into_iter()
            .chain(key.lines())
            .chain(["after it", "ok"])
            .collect();
        let clean = as_events(&lines);
        let middle = &clean[1..clean.len() - 2];
        assert!(
            middle.iter().all(|line| line == "[redacted]" || line.is_empty()),
            "{clean:?}"
        );
        assert_eq!(
            (&*clean[0], &*clean[clean.len() - 2], &*clean[clean.len() - 1]),
            ("before", "after it", "ok")
        );
    }
    let [first, second] = &as_events(&[
        "a -----BEGIN PRIVATE KEY-----\nMIIE",
        "abcd\n-----END PRIVATE KEY----- b",
    ])[..] else {
        panic!("two events")
    };
    assert_eq!((&**first, &**second), ("a [redacted]", "[redacted] b"));
    // A key that never ends hides the lines that a key may have, and no others.
    let lines: Vec<&str> = ["-----BEGIN PRIVATE KEY-----"]
        .into_iter()
        .chain(vec!["word"; KEY_LINES])
        .collect();
    let clean = as_events(&lines);
    let hidden = clean.iter().take_while(|line| *line == "[redacted]").count();
    assert_eq!((hidden, clean.len()), (KEY_LINES, KEY_LINES + 1));
    assert_eq!(clean.last().map(String::as_str), Some("word"));
    let text = lines.join("\n");
    assert_eq!(redactor().clean(&text), "[redacted]\nword");
}

#[test]
fn g8_a_private_key_is_redacted_whatever_stands_before_its_lines() {
    let of = Arc::new(redactor());
    let body = "MIIEpAIBAAKCAQEA7Zt0123456789abcdefghijklmnopqrstuvwxyz+/ABCDEFG";
    let key = [
        "-----BEGIN RSA PRIVATE KEY-----",
        body,
        "\u{2026} ?!",
        body,
        "-----END RSA PRIVATE KEY-----",
    ];
    type Framed = fn(usize, &str) -> String;
    let framed: &[(&str, Framed)] = &[
        ("cat -n", |n, line| format!("     {n}\t{line}")),
        ("quoted", |_, line| format!("> {line}")),
        ("colored", |_, line| format!("\u{1b}[32m{line}\u{1b}[0m")),
        ("a diff", |_, line| format!("+{line}\r")),
        ("grep", |n, line| format!("keys/id_rsa:{n}:{line}")),
        ("a token before it", |_, line| format!("sk-ant-a1b2c3d4e5{line}")),
    ];
    for (name, frame) in framed {
        let lines: Vec<String> = key.iter().enumerate().map(|(n, line)| frame(n, line)).collect();
        let lines: Vec<&str> = ["before"]
            .into_iter()
            .chain(lines.iter().map(String::as_str))
            .chain(["after"])
            .collect();
        let text = lines.join("\n");
        let whole = of.clean(&text).into_owned();
        let events = as_events(&lines).join("\n");
        let mut outcomes = vec![whole, events];
        for size in [1, 7, 64, text.len()] {
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            outcomes.push(String::from_utf8_lossy(&streamed(&of, &pieces)).into_owned());
        }
        for clean in outcomes {
            assert!(
                !clean.contains("MIIE") && !clean.contains("?!"),
                "{name}: {clean}"
            );
            assert!(
                clean.starts_with("before\n") && clean.ends_with("\nafter"),
                "{name}: {clean}"
            );
        }
    }
}

#[test]
fn g8_the_value_of_an_option_that_names_a_secret_is_redacted() {
    let of = Redactor::default();
    let clean =
        |words: &[&str]| of.clean_words(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    for option in [
        "--token",
        "--api-key",
        "--apiKey",
        "-password",
        "--client_secret",
        "--PRIVATE-KEY",
    ] {
        assert_eq!(
            clean(&["agent", option, "value", "x"]),
            ["agent", option, "[redacted]", "x"]
        );
        let joined = format!("{option}=value");
        assert_eq!(
            clean(&[&joined, "x"]),
            [format!("{option}=[redacted]"), "x".to_owned()]
        );
    }
    assert_eq!(
        clean(&["env", "API_TOKEN=value", "agent"]),
        ["env", "API_TOKEN=[redacted]", "agent"]
    );
    for words in [
        &["--max-tokens", "4096", "--tokenizer", "x"][..],
        &["--token", "--verbose", "x"],
        &["token", "x"],
        &["--password-file", "/run/x", "--token="],
    ] {
        assert_eq!(clean(words), words);
    }
}

#[test]
fn g8_a_stream_without_ends_stays_bounded_and_loses_nothing() {
    let of = Arc::new(redactor());
    for unit in [
        "x",
        "sk-",
        "eyJ-",
        "sk-ant-a1",
        "eyJ",
        "-----BEGIN PRIVATE KEY-----",
        "plain-value-of",
        "\n",
    ] {
        let mut scrub = StreamRedactor::new(Arc::clone(&of));
        let piece = unit.repeat(10_000 / unit.len());
        let mut out = 0;
        for _ in 0..30 {
            scrub.take(piece.as_bytes(), &mut |bytes| out += bytes.len());
            assert!(scrub.held.len() <= MOST_HELD, "{unit}: {}", scrub.held.len());
        }
        scrub.end(&mut |bytes| out += bytes.len());
        if unit == "x" {
            assert_eq!(out, 30 * piece.len());
        }
    }
}

proptest! {
    /// A planted secret never comes out, for any text around it and any cuts.
    #[test]
    fn g8_a_planted_secret_never_comes_out(
        before in any::<Vec<u8>>(),
        after in any::<Vec<u8>>(),
        cuts in prop::collection::vec(0usize..200, 0..6),
    ) {
        let of = Arc::new(redactor());
        let text = [&before[..], VALUE.as_bytes(), &after[..]].concat();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|n| n.min(text.len())).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in cuts {
            pieces.push(&text[from..cut]);
            from = cut;
        }
        pieces.push(&text[from..]);
        prop_assert!(!has(&streamed(&of, &pieces), VALUE));
        prop_assert!(!has(&of.clean_bytes(&text), VALUE));
    }

    /// Text without secrets stays unchanged.
    #[test]
    fn g8_other_text_stays_as_it_is(words in "[a-z \n{}]{0,300}", cut in 0usize..300) {
        let of = Arc::new(Redactor::default());
        let cut = cut.min(words.len());
        let (a, b) = words.as_bytes().split_at(cut);
        prop_assert_eq!(streamed(&of, &[a, b]), words.as_bytes());
    }
}
