//! Removes secrets from text about agents (G8).
//!
//! What must hold:
//!
//! - known secrets are the values of variables in the agent's environment whose names look secret (`*_KEY`, `*TOKEN*`,
//!   `*SECRET*`, `*PASSWORD*`, `*CREDENTIAL*`) and that have at least `SHORTEST` bytes. They are also found if a line
//!   break or the end of a piece of output splits them, if JSON escapes them, and if a text was cut within them;
//! - text that looks like a secret is treated as one: keys and tokens with the prefix of a known issuer, the value after
//!   `Authorization`, the password in a URL, the value after an option such as `--token`;
//! - a private key is one secret: from the line with its `BEGIN` to the line with its `END`, whatever is in between, for at
//!   most `KEY_LINES` lines;
//! - each secret becomes `[redacted]`. Redacted text stays unchanged;
//! - one pass over the bytes, for any input; a stream holds back at most `MOST_HELD` bytes.
//!
//! `patterns` finds text that looks like a secret, `stream` redacts output that arrives in pieces.
//!
//! Limitations: a secret that is encoded, reversed or split over two events is not found, except a private key. Files
//! that the agent itself writes are not redacted.

mod patterns;
mod stream;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use self::patterns::{FIRST, INNER, KINDS, SIGN, SOON, begins, pattern_at, private_keys};
pub use self::stream::{EventRedactor, StreamRedactor};
use crate::event::AgentEvent;

/// Minimum bytes of a known secret. Shorter values are common words.
const SHORTEST: usize = 8;
/// Maximum bytes of a known secret. Longer values are files.
const LONGEST: usize = 16 << 10;
/// Maximum number of known secrets.
const MOST: usize = 500;
/// Maximum bytes that a stream holds back of an unfinished line.
const MOST_HELD: usize = 32 << 10;
/// Minimum bytes of a known secret's beginning that count where a text was cut.
const PART: usize = 6;

/// The text in place of a secret.
pub const REDACTED: &str = "[redacted]";
const MARK: &[u8] = REDACTED.as_bytes();
/// Marks where jit cut a text.
const CUT: &str = "…";

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

/// Ends of the names of options whose value is a secret, in lower case and without `-` and `_`.
const OPTIONS: &[&str] = &[
    "token",
    "password",
    "passwd",
    "passphrase",
    "secret",
    "credential",
    "credentials",
    "apikey",
    "accesskey",
    "privatekey",
    "secretkey",
];

/// Whether the name of an option or of an argument says that its value is a secret.
fn is_secret_option(name: &str) -> bool {
    let letters = name.chars().filter(|c| !matches!(c, '-' | '_'));
    let plain: String = letters.map(|c| c.to_ascii_lowercase()).collect();
    OPTIONS.iter().any(|end| plain.ends_with(end))
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

    /// Replaces the secrets in a command line, also the value in `--token value` and in `--token=value`.
    pub fn clean_words(&self, words: &[String]) -> Vec<String> {
        let mut is_value = false;
        let mut clean_word = |word: &String| {
            let is_option = word.starts_with('-');
            if std::mem::take(&mut is_value) && !is_option && !word.is_empty() {
                return REDACTED.to_owned();
            }
            match word.split_once('=') {
                Some((name, value)) if is_secret_option(name) && !value.is_empty() => {
                    format!("{name}={REDACTED}")
                }
                _ => {
                    is_value = is_option && is_secret_option(word);
                    self.clean(word).into_owned()
                }
            }
        };
        words.iter().map(&mut clean_word).collect()
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
        found.extend(private_keys(text).0);
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
