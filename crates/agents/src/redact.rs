//! Removes secrets from text about agents (G8).
//!
//! What must hold:
//!
//! - known secrets are the values of variables in the agent's environment whose names look secret (`*_KEY`, `*TOKEN*`,
//!   `*SECRET*`, `*PASSWORD*`, `*CREDENTIAL*`) and that have at least `SHORTEST` bytes. They are also found if a line
//!   break or the end of a piece of output splits them, if JSON escapes them, and if a text was cut within them;
//! - text that looks like a secret is treated as one: keys and tokens with the prefix of a known issuer, private keys,
//!   the value after `Authorization`, the password in a URL;
//! - each secret becomes `[redacted]`. Redacted text stays unchanged;
//! - one pass over the bytes, for any input; a stream holds back at most `MOST_HELD` bytes.
//!
//! Limitations: a secret that is encoded, reversed or split over two events is not found. Files that the agent itself
//! writes are not redacted.

use std::borrow::Cow;
use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::event::AgentEvent;

/// Minimum bytes of a known secret. Shorter values are common words.
const SHORTEST: usize = 8;
/// Maximum bytes of a known secret. Longer values are files.
const LONGEST: usize = 16 << 10;
/// Maximum number of known secrets.
const MOST: usize = 500;
/// Maximum bytes that a stream holds back of an unfinished line.
const MOST_HELD: usize = 32 << 10;
/// Maximum length of a private key.
const KEY_REACHES: usize = 16 << 10;
/// A token has a digit within this many bytes.
const SOON: usize = 256;
/// Minimum bytes of a known secret's beginning that count where a text was cut.
const PART: usize = 6;

const MARK: &[u8] = b"[redacted]";
/// Marks where jit cut a text.
const CUT: &str = "…";

/// Tokens: prefix, bytes allowed besides letters and digits, minimum length after the prefix.
const TOKENS: &[(&[u8], &[u8], usize)] = &[
    (b"sk-ant-", b"-_", 8),
    (b"sk-", b"-_", 20),
    (b"ghp_", b"", 16),
    (b"gho_", b"", 16),
    (b"ghu_", b"", 16),
    (b"ghs_", b"", 16),
    (b"ghr_", b"", 16),
    (b"github_pat_", b"_", 16),
    (b"glpat-", b"-_", 10),
    (b"AKIA", b"", 16),
    (b"ASIA", b"", 16),
    (b"AIza", b"-_", 30),
    (b"xoxb-", b"-", 10),
    (b"xoxa-", b"-", 10),
    (b"xoxp-", b"-", 10),
    (b"xoxr-", b"-", 10),
    (b"xoxs-", b"-", 10),
    (b"npm_", b"", 30),
    (b"hf_", b"", 30),
    (b"pypi-", b"-_", 30),
];
/// Header names whose value is a secret, in lower case.
const NAMES: &[&[u8]] = &[b"authorization", b"x-api-key", b"x-goog-api-key"];

/// Finds and replaces secrets.
#[derive(Debug, Default)]
pub struct Redactor {
    /// Known secrets, longest first.
    known: Vec<Vec<u8>>,
    /// The first bytes of all known secrets.
    first: Firsts,
}

#[derive(Debug)]
struct Firsts([bool; 256]);

impl Default for Firsts {
    fn default() -> Self {
        Self([false; 256])
    }
}

/// Whether the name of a variable says that its value is a secret.
fn is_secret(name: &[u8]) -> bool {
    let name = name.to_ascii_uppercase();
    let has = |word: &[u8]| name.windows(word.len()).any(|part| part == word);
    name.ends_with(b"_KEY")
        || name == b"APIKEY"
        || [&b"TOKEN"[..], b"SECRET", b"PASSWORD", b"PASSWD", b"CREDENTIAL"]
            .iter()
            .any(|word| has(word))
}

impl Redactor {
    /// Takes the known secrets from this environment.
    pub fn of(env: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut known: Vec<Vec<u8>> = Vec::new();
        for (name, value) in env {
            let value = value.as_bytes();
            if !is_secret(name.as_bytes()) || value.len() > LONGEST || known.len() >= MOST {
                continue;
            }
            // The path of a file with a secret is not secret.
            if value.starts_with(b"/") && Path::new(std::ffi::OsStr::from_bytes(value)).exists() {
                continue;
            }
            let lines = value
                .split(|b| *b == b'\n')
                .filter(|line| line.len() >= 2 * SHORTEST);
            for one in lines.chain([value]) {
                let one = one.trim_ascii();
                if one.len() < SHORTEST {
                    continue;
                }
                let escaped = serde_json::to_string(&String::from_utf8_lossy(one)).unwrap_or_default();
                known.push(one.to_vec());
                known.push(escaped.trim_matches('"').as_bytes().to_vec());
            }
        }
        known.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        known.dedup();
        let mut first = Firsts::default();
        for byte in known.iter().filter_map(|value| value.first()) {
            first.0[usize::from(*byte)] = true;
        }
        Self { known, first }
    }

    /// Takes the known secrets from the environment of this process.
    pub fn of_process() -> &'static Arc<Self> {
        static OWN: OnceLock<Arc<Redactor>> = OnceLock::new();
        OWN.get_or_init(|| Arc::new(Self::of(std::env::vars_os())))
    }

    /// Replaces the secrets in a text.
    pub fn clean<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.clean_bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    pub fn clean_bytes<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let found = self.find(text);
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        Cow::Owned(replaced(text, &found))
    }

    /// Replaces the secrets in an event.
    pub fn clean_said(&self, said: &mut AgentEvent) {
        said.each_text(&mut |text| {
            if let Cow::Owned(clean) = self.clean(text) {
                *text = clean;
            }
        });
    }

    /// The ranges of all secrets, sorted, without overlaps.
    fn find(&self, text: &[u8]) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        let mut at = 0;
        // Most bytes cannot begin a secret, and most that could are within a word.
        let mut within = false;
        while let Some(byte) = text.get(at) {
            let kind = KINDS[usize::from(*byte)];
            let known = match self.first.0[usize::from(*byte)] {
                true => self.known_at(text, at),
                false => None,
            };
            let may = kind & SIGN != 0 || (kind & FIRST != 0 && (!within || begins(text, at)));
            within = kind & INNER != 0;
            let range = match may {
                true => known.or_else(|| pattern_at(text, at)),
                false => known,
            };
            match range {
                Some(range) => {
                    at = range.end.max(at + 1);
                    within = false;
                    found.push(range);
                }
                None => at += 1,
            }
        }
        self.across_lines(text, &mut found);
        self.cut_off(text, &mut found);
        found.sort_by_key(|range| (range.start, range.end));
        let mut merged: Vec<Range<usize>> = Vec::with_capacity(found.len());
        for range in found {
            match merged.last_mut() {
                Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        merged
    }

    fn known_at(&self, text: &[u8], at: usize) -> Option<Range<usize>> {
        let rest = text.get(at..)?;
        let value = self.known.iter().find(|value| rest.starts_with(value))?;
        Some(at..at + value.len())
    }

    /// Finds known secrets that contain line breaks.
    fn across_lines(&self, text: &[u8], found: &mut Vec<Range<usize>>) {
        let is_break = |b: &u8| matches!(b, b'\n' | b'\r');
        if self.known.is_empty() || !text.iter().any(is_break) {
            return;
        }
        for (start, byte) in text.iter().enumerate() {
            if !self.first.0[usize::from(*byte)] {
                continue;
            }
            for value in &self.known {
                if let (matched, Some(end)) = along(text, start, value)
                    && matched == value.len()
                    && end - start > value.len()
                {
                    found.push(start..end);
                    break;
                }
            }
        }
    }

    /// Finds beginnings of known secrets where a text was cut.
    fn cut_off(&self, text: &[u8], found: &mut Vec<Range<usize>>) {
        if self.known.is_empty() {
            return;
        }
        let cut = CUT.as_bytes();
        let first = text.iter().enumerate().filter(|(_, byte)| **byte == cut[0]);
        for (at, _) in first.filter(|(at, _)| text[*at..].starts_with(cut)) {
            for value in &self.known {
                let most = (value.len() - 1).min(at).min(SOON);
                let part = (PART..=most).rev().find(|n| text[..at].ends_with(&value[..*n]));
                if let Some(n) = part {
                    found.push(at - n..at);
                    break;
                }
            }
        }
    }

    /// The start of an unfinished known secret at the end of the text, or the length of the text.
    fn unfinished(&self, text: &[u8]) -> usize {
        let longest = self.known.first().map_or(0, Vec::len);
        // Twice the length, to allow for line breaks.
        let from = text.len().saturating_sub(longest.saturating_mul(2));
        for (start, byte) in text.iter().enumerate().skip(from) {
            if self.first.0[usize::from(*byte)]
                && self.known.iter().any(|value| {
                    let (matched, end) = along(text, start, value);
                    matched < value.len() && matched >= 4 && end.is_none()
                })
            {
                return start;
            }
        }
        text.len()
    }
}

/// Compares `value` with the text at `start`, ignoring line breaks. Returns the number of matching bytes, and where the
/// comparison ended: 0 bytes on a mismatch, and no end if the text ends before the value does.
fn along(text: &[u8], start: usize, value: &[u8]) -> (usize, Option<usize>) {
    let mut matched = 0;
    let mut at = start;
    while matched < value.len() {
        match text.get(at) {
            None => return (matched, None),
            Some(byte) if *byte == value[matched] => matched += 1,
            Some(b'\n' | b'\r') if matched > 0 => {}
            Some(_) => return (0, Some(at)),
        }
        at += 1;
    }
    (matched, Some(at))
}

fn replaced(text: &[u8], found: &[Range<usize>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut from = 0;
    for range in found {
        out.extend_from_slice(text.get(from..range.start).unwrap_or_default());
        out.extend_from_slice(MARK);
        from = range.end;
    }
    out.extend_from_slice(text.get(from..).unwrap_or_default());
    out
}

/// Whether a word begins here. One also begins after an escape, as in `\nsk-…`.
fn begins(text: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|n| text.get(n));
    let escaped = at.checked_sub(2).and_then(|n| text.get(n)) == Some(&b'\\');
    before.is_none_or(|b| {
        !(b.is_ascii_alphanumeric() || *b == b'_') || (escaped && matches!(b, b'n' | b't' | b'r'))
    })
}

/// The number of bytes from here on that are letters, digits or in `also`.
fn run(text: &[u8], at: usize, also: &[u8]) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    rest.iter()
        .position(|b| !b.is_ascii_alphanumeric() && !also.contains(b))
        .unwrap_or(rest.len())
}

/// Flags of each byte: it may begin a token or a name, it is a sign of its own, it occurs within words.
const KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        if b.is_ascii_alphanumeric() || b == b'_' {
            kinds[byte] |= INNER;
        }
        if matches!(
            b,
            b's' | b'g' | b'A' | b'x' | b'X' | b'n' | b'h' | b'p' | b'e' | b'a' | b'b' | b'B'
        ) {
            kinds[byte] |= FIRST;
        }
        if matches!(b, b':' | b'-') {
            kinds[byte] |= SIGN;
        }
        byte += 1;
    }
    kinds
};
const FIRST: u8 = 1;
const SIGN: u8 = 2;
const INNER: u8 = 4;

/// The range of a secret that begins here, at the beginning of a word or at a sign.
fn pattern_at(text: &[u8], at: usize) -> Option<Range<usize>> {
    match text.get(at)? {
        b'e' => jwt(text, at),
        b'a' | b'X' => named(text, at),
        b'b' | b'B' => bearer(text, at),
        b':' => password(text, at),
        b'-' => private_key(text, at),
        _ => token(text, at).or_else(|| named(text, at)),
    }
}

fn token(text: &[u8], at: usize) -> Option<Range<usize>> {
    let rest = text.get(at..)?;
    TOKENS.iter().find_map(|(sign, also, least)| {
        let body = at + rest.starts_with(sign).then_some(sign.len())?;
        // A token has a digit near its beginning, or it is a word.
        let near = text.get(body..(body + SOON).min(text.len()))?;
        let head = run(near, 0, also);
        let has_digit = near.get(..head)?.iter().any(u8::is_ascii_digit);
        (head >= *least && has_digit).then(|| at..body + run(text, body, also))
    })
}

/// A JSON web token: `eyJ….….…`
fn jwt(text: &[u8], at: usize) -> Option<Range<usize>> {
    let within = at.checked_sub(1).is_some_and(|n| text.get(n) == Some(&b'-'));
    if within || !text.get(at..)?.starts_with(b"eyJ") {
        return None;
    }
    let mut end = at + run(text, at, b"-_");
    if end - at < 12 || text.get(end) != Some(&b'.') {
        return None;
    }
    for _ in 0..2 {
        if text.get(end) == Some(&b'.') {
            end += 1 + run(text, end + 1, b"-_");
        }
    }
    Some(at..end)
}

/// The value in `Authorization: Bearer …`.
fn named(text: &[u8], at: usize) -> Option<Range<usize>> {
    let rest = text.get(at..)?;
    let name = NAMES.iter().find(|name| {
        rest.get(..name.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(name))
    })?;
    let mut from = at + name.len();
    let between = |b: &u8| matches!(b, b' ' | b':' | b'=' | b'"' | b'\'' | b'\\');
    let skip = text.get(from..)?.iter().take_while(|b| between(b)).count();
    if skip == 0 || skip > 8 {
        return None;
    }
    from += skip;
    for scheme in [&b"bearer "[..], b"basic ", b"token "] {
        let head = text.get(from..from + scheme.len());
        if head.is_some_and(|head| head.eq_ignore_ascii_case(scheme)) {
            from += scheme.len();
        }
    }
    let rest = text.get(from..)?;
    let count = rest
        .iter()
        .position(|b| b.is_ascii_whitespace() || matches!(b, b'"' | b'\'' | b'\\' | b','))
        .unwrap_or(rest.len());
    (count >= 6 && !rest.starts_with(MARK)).then_some(from..from + count)
}

/// The value in `Bearer …` without a header name.
fn bearer(text: &[u8], at: usize) -> Option<Range<usize>> {
    let word = b"bearer ";
    let head = text.get(at..at + word.len())?;
    if !head.eq_ignore_ascii_case(word) {
        return None;
    }
    let from = at + word.len();
    let count = run(text, from, b"-._~+/=");
    let has_digit = text.get(from..from + count)?.iter().any(u8::is_ascii_digit);
    (count >= 16 && has_digit).then_some(from..from + count)
}

/// `user:password` in `://user:password@`.
fn password(text: &[u8], at: usize) -> Option<Range<usize>> {
    let from = at + text.get(at..)?.starts_with(b"://").then_some(3)?;
    let rest = text.get(from..(from + 512).min(text.len()))?;
    let ends = |b: &u8| {
        b.is_ascii_whitespace() || matches!(b, b'/' | b'"' | b'\'' | b'\\' | b'<' | b'>' | b'?' | b'#')
    };
    let host = rest.iter().position(ends).unwrap_or(rest.len());
    let user = rest.get(..host)?.iter().rposition(|b| *b == b'@')?;
    let named = rest.get(..user)?;
    (named.contains(&b':') && named != MARK).then_some(from..from + user)
}

/// `-----BEGIN … PRIVATE KEY-----` up to and including its end line.
fn private_key(text: &[u8], at: usize) -> Option<Range<usize>> {
    let rest = text.get(at..(at + KEY_REACHES).min(text.len()))?;
    let head = rest.strip_prefix(b"-----BEGIN ")?;
    let sign = b"PRIVATE KEY-----";
    let kind = find(head.get(..head.len().min(60))?, sign)?;
    let body = b"-----BEGIN ".len() + kind + sign.len();
    if let Some(end) = find(rest.get(body..)?, b"-----END ") {
        let tail = body + end + b"-----END ".len();
        let end = find(rest.get(tail..)?, b"-----").map_or(rest.len(), |n| tail + n + 5);
        return Some(at..at + end);
    }
    // The end line is missing: take everything that looks like a key.
    let also = |b: &u8| b.is_ascii_alphanumeric() || b"+/=\r\n\\ :,-".contains(b);
    let more = rest.get(body..)?.iter().take_while(|b| also(b)).count();
    Some(at..at + body + more)
}

fn find(text: &[u8], sign: &[u8]) -> Option<usize> {
    text.windows(sign.len()).position(|part| part == sign)
}

/// Redacts a stream that arrives in pieces of any size.
#[derive(Debug)]
pub struct StreamRedactor {
    of: Arc<Redactor>,
    held: Vec<u8>,
}

impl StreamRedactor {
    pub fn new(of: Arc<Redactor>) -> Self {
        Self { of, held: Vec::new() }
    }

    /// Passes on the bytes that cannot become part of a secret.
    pub fn take(&mut self, bytes: &[u8], out: &mut dyn FnMut(&[u8])) {
        self.held.extend_from_slice(bytes);
        let found = self.of.find(&self.held);
        let len = self.held.len();
        let line = self.held.iter().rposition(|b| *b == b'\n').map_or(0, |n| n + 1);
        // Of an unfinished line, hold back only its end.
        let line = line.max(len.saturating_sub(MOST_HELD / 4));
        let mut from = line.min(self.of.unfinished(&self.held));
        for range in &found {
            // A secret at the end may continue.
            if range.end >= len {
                from = from.min(range.start);
            } else if range.contains(&from) {
                from = range.end;
            }
        }
        from = from.max(len.saturating_sub(MOST_HELD));
        let sure: Vec<Range<usize>> = found.into_iter().filter(|range| range.start < from).collect();
        // A secret longer than the limit is dropped as far as it was seen.
        from = sure.last().map_or(from, |last| last.end.max(from));
        let head = self.held.get(..from).unwrap_or_default();
        if !head.is_empty() {
            match sure.is_empty() {
                true => out(head),
                false => out(&replaced(head, &sure)),
            }
        }
        self.held.drain(..from);
    }

    /// The stream has ended.
    pub fn end(&mut self, out: &mut dyn FnMut(&[u8])) {
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            out(&self.of.clean_bytes(&held));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
            ("\"-----BEGIN PRIVATE KEY-----\\nMIIEabc…\"", "\"[redacted]…\""),
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
}
