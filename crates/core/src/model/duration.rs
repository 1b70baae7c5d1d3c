//! Lengths of time as people write them: `600`, `90s`, `10m`, `1h30m`, `2d`.
//!
//! Format: either a whole number of seconds, or one or more `<number><unit>` with units `d`, `h`, `m`, `s`, each at
//! most once and the larger first. ASCII digits only: no sign, fraction, exponent or space.
//! Invariant: what is accepted is at most [`MAX_SECS`], so adding it to any time of this millennium cannot overflow.

use std::fmt::Write as _;
use std::time::Duration;

/// Longest length of time anybody may ask for: a hundred years.
pub const MAX_SECS: u64 = 100 * 365 * 86_400;

/// A duration from a caller: at most [`MAX_SECS`], so that it can be added to any time.
pub fn bounded(secs: u64) -> Duration {
    Duration::from_secs(secs.min(MAX_SECS))
}

const UNITS: [(u8, u64); 4] = [(b'd', 86_400), (b'h', 3_600), (b'm', 60), (b's', 1)];

/// Why a text is not a length of time. The sentence is meant for the person who typed it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadDuration {
    #[error(
        "{0:?} is not a duration: write seconds (600) or units from large to small (90s, 10m, 1h30m, 2d)"
    )]
    Form(String),
    #[error("{0:?} is longer than a hundred years")]
    TooLong(String),
}

/// Seconds in `text`.
pub fn parse_secs(text: &str) -> Result<u64, BadDuration> {
    // The text came from outside and may be anything: an error never repeats all of it.
    let shown = || text.chars().take(40).collect::<String>();
    let bad = || BadDuration::Form(shown());
    let long = || BadDuration::TooLong(shown());

    if text.is_empty() {
        return Err(bad());
    }
    let mut total: u64 = 0;
    let mut rest = text.as_bytes();
    let mut units = UNITS.iter();
    while !rest.is_empty() {
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let (number, after) = rest.split_at(digits);
        if number.is_empty() {
            return Err(bad());
        }
        let (size, after) = match after.split_first() {
            None if number.len() == text.len() => (1, after),
            None => return Err(bad()),
            Some((unit, after)) => match units.find(|(letter, _)| letter == unit) {
                Some((_, size)) => (*size, after),
                None => return Err(bad()),
            },
        };
        let mut count: u64 = 0;
        for digit in number {
            count = count
                .checked_mul(10)
                .and_then(|n| n.checked_add(u64::from(digit - b'0')))
                .ok_or_else(long)?;
        }
        total = count
            .checked_mul(size)
            .and_then(|secs| total.checked_add(secs))
            .filter(|secs| *secs <= MAX_SECS)
            .ok_or_else(long)?;
        rest = after;
    }
    Ok(total)
}

/// The shortest form that [`parse_secs`] reads back as the same number.
pub fn format_secs(secs: u64) -> String {
    let mut rest = secs;
    let mut text = String::new();
    for (letter, size) in UNITS {
        if rest >= size {
            // Writing to a String cannot fail.
            let _ = write!(text, "{}{}", rest / size, char::from(letter));
            rest %= size;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b5_what_people_write() {
        for (text, secs) in [
            ("600", 600),
            ("0", 0),
            ("0s", 0),
            ("90s", 90),
            ("10m", 600),
            ("1h30m", 5_400),
            ("8h", 28_800),
            ("2d", 172_800),
            ("1d1h1m1s", 90_061),
            ("0090s", 90),
            ("36500d", MAX_SECS),
        ] {
            assert_eq!(parse_secs(text), Ok(secs), "{text}");
        }
    }

    #[test]
    fn b5_nonsense_and_overflow_are_refused() {
        for text in [
            "", " ", "5x", "1e9", "-5", "+5", "-1h", "1.5h", "h", "1h30", "30m1h", "1h1h", "1 h", "1h ",
            "٣s", "1H", "ms", "1ms",
        ] {
            assert!(matches!(parse_secs(text), Err(BadDuration::Form(_))), "{text:?}");
        }
        let many = "9".repeat(10_000);
        for text in [
            "9223372036854775808",
            "18446744073709551616",
            "18446744073709551615s",
            "18446744073709551615d",
            "36500d1s",
            "36501d",
            &many,
        ] {
            let error = parse_secs(text).expect_err(text);
            assert!(matches!(error, BadDuration::TooLong(_)), "{text:?}");
            assert!(error.to_string().len() < 200);
        }
    }

    proptest::proptest! {
        #[test]
        fn b5_what_is_shown_can_be_typed(secs in 0..=MAX_SECS) {
            proptest::prop_assert_eq!(parse_secs(&format_secs(secs)), Ok(secs));
        }

        #[test]
        fn b5_no_text_panics(text in "\\PC*") {
            let _ = parse_secs(&text);
        }
    }
}
