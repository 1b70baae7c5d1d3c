//! Text that looks like a secret: tokens, header values, passwords in URLs, private keys.

use std::ops::Range;

use super::MARK;

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
        if b == b':' {
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
/// Maximum bytes between the beginning of such a line and its last dashes.
const NAME: usize = 60;
/// Maximum lines of a private key, the first and the last one included. All of them are hidden, whatever they look
/// like: programs put line numbers, colors or signs of quotation before them.
pub(super) const KEY_LINES: usize = 200;

/// The position of the first `-----BEGIN … PRIVATE KEY …-----`, and of the text behind it.
pub(super) fn key_begin(text: &[u8]) -> Option<(usize, usize)> {
    let mut at = 0;
    loop {
        let begin = at + find(text.get(at..)?, BEGIN)?;
        let body = begin + BEGIN.len();
        let name = text.get(body..)?;
        let name = name.get(..NAME.min(name.len()))?;
        let line = name.split(|b| *b == b'\n').next()?;
        if let Some(end) = find(line, DASHES)
            && find(line.get(..end)?, b"PRIVATE KEY").is_some()
        {
            return Some((begin, body + end + DASHES.len()));
        }
        at = body;
    }
}

/// The bytes at the beginning of the text that still belong to a private key: up to and including the last dashes of
/// its end line, or the first `lines` lines. `None`: the key goes on. `is_all`: no text follows this.
pub(super) fn key_end(text: &[u8], lines: usize, is_all: bool) -> Option<usize> {
    let mut breaks = text.iter().enumerate().filter(|(_, b)| **b == b'\n');
    let limit = breaks.nth(lines.saturating_sub(1)).map(|(at, _)| at);
    let within = text.get(..limit.unwrap_or(text.len()))?;
    let Some(end) = find(within, END) else {
        return limit;
    };
    let body = end + END.len();
    let name = within.get(body..)?;
    let name = name.get(..NAME.min(name.len()))?;
    let line = name.iter().position(|b| *b == b'\n');
    match (find(name.get(..line.unwrap_or(name.len()))?, DASHES), line) {
        (Some(dashes), _) => Some(body + dashes + DASHES.len()),
        (None, Some(line)) => Some(body + line),
        (None, None) if name.len() == NAME || limit.is_some() => Some(body),
        (None, None) => is_all.then_some(text.len()),
    }
}

pub(super) fn line_breaks(text: &[u8]) -> usize {
    text.iter().filter(|b| **b == b'\n').count()
}

/// The bytes of an unfinished key that may be part of its end line, at the end of the text.
pub(super) fn undecided(text: &[u8]) -> usize {
    match find(text, END) {
        Some(end) => text.len() - end,
        None => text.len().min(END.len() - 1),
    }
}

/// The ranges of all private keys, and the number of lines that the last one may still have, if it does not end in
/// the text.
pub(super) fn private_keys(text: &[u8]) -> (Vec<Range<usize>>, Option<usize>) {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some((begin, body)) = text.get(at..).and_then(key_begin) {
        let rest = text.get(at + body..).unwrap_or_default();
        let Some(end) = key_end(rest, KEY_LINES, true) else {
            found.push(at + begin..text.len());
            return (found, Some(KEY_LINES - line_breaks(rest)));
        };
        found.push(at + begin..at + body + end);
        at += body + end;
    }
    (found, None)
}

pub(super) fn find(text: &[u8], sign: &[u8]) -> Option<usize> {
    text.windows(sign.len()).position(|part| part == sign)
}
