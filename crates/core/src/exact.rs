//! JSON that is written as it was read: no key comes twice, and no number is rounded.
//!
//! What a reader would pass over in silence, one of two values or the last digits of a number, is refused instead.

use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Beyond this, numbers are not kept to the digit.
const LIMIT: f64 = 9_223_372_036_854_775_808.0;

/// Whether all of this is kept. The error has the line.
pub fn check(bytes: &[u8]) -> serde_json::Result<()> {
    serde_json::from_slice::<Exact>(bytes).map(drop)
}

/// Whether a number that is no integer of 64 bits is kept to the digit.
pub(crate) fn check_number(number: f64) -> Result<(), &'static str> {
    match number.abs() < LIMIT {
        true => Ok(()),
        false => Err("a number so large is not kept to the digit: write it as a text"),
    }
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

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self, E> {
        check_number(number).map(|()| self).map_err(E::custom)
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
            ("{", 1, "EOF"),
        ] {
            let error = check(bad.as_bytes()).expect_err(bad);
            assert_eq!(error.line(), line, "{bad}: {error}");
            assert!(error.to_string().contains(why), "{bad}: {error}");
        }
    }
}
