//! Text that looks like a secret: tokens, header values, passwords in URLs, private keys.

use std::ops::Range;

use super::MARK;

/// Maximum length of a private key.
pub(super) const KEY_REACHES: usize = 16 << 10;
/// A token has a digit within this many bytes.
pub(super) const SOON: usize = 256;

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

/// Whether a word begins here. One also begins after an escape, as in `\nsk-…`.
pub(super) fn begins(text: &[u8], at: usize) -> bool {
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
pub(super) const KINDS: [u8; 256] = {
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
pub(super) const FIRST: u8 = 1;
pub(super) const SIGN: u8 = 2;
pub(super) const INNER: u8 = 4;

/// The range of a secret that begins here, at the beginning of a word or at a sign.
pub(super) fn pattern_at(text: &[u8], at: usize) -> Option<Range<usize>> {
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

/// The beginning of the first and of the last line of a key.
const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";
const DASHES: &[u8] = b"-----";

/// The length of `-----BEGIN … PRIVATE KEY …-----` at the beginning of the text.
fn key_head(text: &[u8]) -> Option<usize> {
    let head = text.strip_prefix(BEGIN)?;
    let line = head.get(..head.len().min(60))?;
    let end = find(line, DASHES)?;
    find(line.get(..end)?, b"PRIVATE KEY")?;
    Some(BEGIN.len() + end + DASHES.len())
}

/// The number of bytes up to and including the end line of a key.
fn key_end(text: &[u8]) -> Option<usize> {
    let tail = find(text, END)? + END.len();
    let more = find(text.get(tail..)?, DASHES);
    Some(more.map_or(text.len(), |n| tail + n + DASHES.len()))
}

/// `-----BEGIN … PRIVATE KEY-----` up to and including its end line.
fn private_key(text: &[u8], at: usize) -> Option<Range<usize>> {
    let rest = text.get(at..(at + KEY_REACHES).min(text.len()))?;
    let body = key_head(rest)?;
    if let Some(end) = key_end(rest.get(body..)?) {
        return Some(at..at + body + end);
    }
    // The end line is missing: take everything that looks like a key.
    let also = |b: &u8| b.is_ascii_alphanumeric() || b"+/=\r\n\\ :,-".contains(b);
    let more = rest.get(body..)?.iter().take_while(|b| also(b)).count();
    Some(at..at + body + more)
}

/// Where the text begins a private key that has not ended, if it does.
pub(super) fn open_key(text: &[u8]) -> Option<usize> {
    let from = text.len().saturating_sub(KEY_REACHES);
    let tail = text.get(from..)?;
    let begin = tail.windows(BEGIN.len()).rposition(|part| part == BEGIN)?;
    let rest = tail.get(begin..)?;
    let body = key_head(rest)?;
    match find(rest.get(body..)?, END) {
        Some(_) => None,
        None => Some(from + begin),
    }
}

/// The number of bytes at the beginning of the text that continue a private key, and whether it ends there.
pub(super) fn key_goes_on(text: &[u8]) -> (usize, bool) {
    if let Some(end) = find(text, END)
        && text
            .get(..end)
            .is_some_and(|before| lines_of_key(before) == before.len())
    {
        return (key_end(text).unwrap_or(text.len()), true);
    }
    let bytes = lines_of_key(text);
    (bytes, bytes < text.len())
}

/// The number of bytes in lines at the beginning of the text that a key may have: base 64, or `Name: value`.
fn lines_of_key(text: &[u8]) -> usize {
    let is_of_key = |line: &&[u8]| {
        let line = line.trim_ascii();
        let base64 = |b: &u8| b.is_ascii_alphanumeric() || b"+/=".contains(b);
        let name = find(line, b": ").and_then(|end| line.get(..end)).unwrap_or(b" ");
        line.iter().all(base64) || name.iter().all(|b| b.is_ascii_alphabetic() || *b == b'-')
    };
    text.split_inclusive(|b| *b == b'\n')
        .take_while(is_of_key)
        .map(<[u8]>::len)
        .sum()
}

pub(super) fn find(text: &[u8], sign: &[u8]) -> Option<usize> {
    text.windows(sign.len()).position(|part| part == sign)
}
