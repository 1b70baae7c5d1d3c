//! JSON that is written as it was read: no key comes twice, and no number is rounded.
//!
//! A reader would drop one of two values, or the last digits of a number, in silence. This one refuses them.

use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

/// Beyond this, numbers are not kept to the digit.
const LIMIT: f64 = 9_223_372_036_854_775_808.0;

/// A value that would not be kept as it is written, and its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Inexact {
    line: usize,
    what: String,
}

impl Inexact {
    /// From 1.
    pub fn line(&self) -> usize {
        self.line
    }
}

/// Whether all of this is kept.
pub fn check(bytes: &[u8]) -> Result<(), Inexact> {
    serde_json::from_slice::<Exact>(bytes).map_err(|e| Inexact {
        line: e.line(),
        what: e.to_string(),
    })?;
    for (line, text) in numbers(bytes) {
        if !is_kept(text) {
            let what = format!("{text:.60} at line {line} is not kept to the digit: write it as a text");
            return Err(Inexact { line, what });
        }
    }
    Ok(())
}

/// Whether a number that is no integer of 64 bits is kept to the digit, as far as can be told once it has been read.
pub(crate) fn check_number(number: f64) -> Result<(), &'static str> {
    match number.abs() < LIMIT {
        true => Ok(()),
        false => Err("a number so large is not kept to the digit: write it as a text"),
    }
}

/// The numbers in what is known to be JSON, as they are written, with their lines.
fn numbers(bytes: &[u8]) -> impl Iterator<Item = (usize, &str)> {
    let (mut rest, mut line) = (bytes, 1);
    std::iter::from_fn(move || {
        loop {
            let (first, after) = rest.split_first()?;
            let is_number = |b: &u8| matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
            match first {
                b'"' => {
                    let mut escaped = false;
                    let end = after.iter().position(|b| {
                        let is_end = *b == b'"' && !escaped;
                        escaped = *b == b'\\' && !escaped;
                        is_end
                    });
                    rest = after.get(end? + 1..)?;
                }
                b'0'..=b'9' | b'-' => {
                    let len = rest.iter().position(|b| !is_number(b)).unwrap_or(rest.len());
                    let (text, after) = rest.split_at(len);
                    rest = after;
                    return Some((line, std::str::from_utf8(text).ok()?));
                }
                b => {
                    line += usize::from(*b == b'\n');
                    rest = after;
                }
            }
        }
    })
}

/// Whether a number is the same when it was read and written again, in whatever form.
fn is_kept(text: &str) -> bool {
    let Ok(number) = serde_json::from_str::<Number>(text) else {
        return false;
    };
    let is_small = number.as_f64().is_some_and(|read| check_number(read).is_ok());
    !number.is_f64() || is_small && worth(text) == worth(&number.to_string())
}

/// The value of a number: its sign, its digits without zeros around them, and the power of ten of the last one.
fn worth(text: &str) -> (bool, String, i64) {
    let (sign, text) = match text.strip_prefix('-') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let (digits, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{part}");
    let cut = all.trim_end_matches('0');
    let digits = cut.trim_start_matches('0');
    if digits.is_empty() {
        return (sign, String::new(), 0);
    }
    let len = |text: &str| i64::try_from(text.len()).unwrap_or(i64::MAX);
    let power = power.parse::<i64>().unwrap_or(i64::MAX);
    let power = power
        .saturating_sub(len(part))
        .saturating_add(len(&all) - len(cut));
    (sign, digits.to_owned(), power)
}

struct Exact;

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Exact {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Self, A::Error> {
        while all.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Self, A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = all.next_key::<String>()? {
            if names.contains(&name) {
                return Err(A::Error::custom(format!("{name:.100?} is there twice")));
            }
            all.next_value::<Self>()?;
            names.insert(name);
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c7_what_would_not_be_written_as_it_was_read_is_refused_with_its_line() {
        for good in [
            "{}",
            "[1, -1, 0.5, 18446744073709551615, -9223372036854775808, 9.2e18]",
            r#"{"a": {"b": 1}, "b": {"b": null}, "c": ["x", "x", true]}"#,
            "[1.50, 100e-2, 1E+2, -0, 0.0e-999, 2.5e-3, 120.0, 1.7976e-300, 9007199254740992.0, 0.1]",
            r#"["1e-400", "\"", "\\", "3.14159265358979323846264 \" 1e-400"]"#,
        ] {
            assert!(check(good.as_bytes()).is_ok(), "{good}");
        }
        for (bad, line, why) in [
            ("{\"a\": 1,\n\"a\": 1}", 2, "\"a\" is there twice"),
            (
                "{\"a\": [\n{\"b\": 1,\n\"\\u0062\": 2}]}",
                3,
                "\"b\" is there twice",
            ),
            ("[\n18446744073709551616]", 2, "write it as a text"),
            ("{\"a\": -1e300}", 1, "write it as a text"),
            (
                "[\"\\\"\",\n\n3.14159265358979323846264]",
                3,
                "3.14159265358979323846264 at line 3",
            ),
            ("{\"a\":\n9007199254740993.0}", 2, "write it as a text"),
            ("[1e-400]", 1, "write it as a text"),
            ("[-9223372036854775809]", 1, "write it as a text"),
            ("{", 1, "EOF"),
        ] {
            let error = check(bad.as_bytes()).expect_err(bad);
            assert_eq!(error.line(), line, "{bad}: {error}");
            assert!(error.to_string().contains(why), "{bad}: {error}");
        }
    }
}
