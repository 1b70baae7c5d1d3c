//! Time as data: what a decision may know about "now", and how times look outside.
//!
//! Two clocks, never mixed. [`Wall`] is for people and files; it may jump. `ticks` is milliseconds of a clock that
//! only runs forward within one boot of the machine ([`BootId`]); deadlines are compared by it and by nothing else.

use std::fmt;
use std::io;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

/// A wall-clock time in whole milliseconds, written as RFC 3339 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct Wall(i64);

impl Serialize for Wall {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(std::str::from_utf8(&self.digits()).unwrap_or_default())
    }
}

/// The text was not an RFC 3339 time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a time such as 2026-01-03T12:00:00Z")]
pub struct BadTime(String);

impl Wall {
    /// Years 1970 to 9999: what RFC 3339 can say and jiff can hold, so printing never fails.
    const MAX_MS: i64 = 253_370_764_799_999;

    pub fn from_ms(ms: i64) -> Self {
        Self(ms.clamp(0, Self::MAX_MS))
    }

    pub fn ms(self) -> i64 {
        self.0
    }

    pub fn plus_secs(self, secs: u64) -> Self {
        self.plus_ms(secs.saturating_mul(1000))
    }

    pub fn minus_ms(self, ms: u64) -> Self {
        Self::from_ms(self.0.saturating_sub(i64::try_from(ms).unwrap_or(i64::MAX)))
    }

    pub fn plus_ms(self, ms: u64) -> Self {
        Self::from_ms(self.0.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)))
    }
}

/// `2026-01-03T12:00:00.000Z`, as every time is written here.
const SHAPE: &[u8; 24] = b"0000-00-00T00:00:00.000Z";

impl Wall {
    /// Lists have two of these for each issue, so they are written and read without a calendar library: days are counted
    /// in eras of 400 years that begin in March (Howard Hinnant's `civil_from_days`).
    fn digits(self) -> [u8; 24] {
        let (days, ms) = (self.0.div_euclid(86_400_000), self.0.rem_euclid(86_400_000));
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * march_month + 2) / 5 + 1;
        let month = if march_month < 10 {
            march_month + 3
        } else {
            march_month - 9
        };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let mut out = *SHAPE;
        let mut put = |at: usize, width: usize, mut number: i64| {
            for n in (at..at + width).rev() {
                out[n] = b'0' + u8::try_from(number % 10).unwrap_or(0);
                number /= 10;
            }
        };
        put(0, 4, year);
        put(5, 2, month);
        put(8, 2, day);
        put(11, 2, ms / 3_600_000);
        put(14, 2, ms / 60_000 % 60);
        put(17, 2, ms / 1000 % 60);
        put(20, 3, ms % 1000);
        out
    }

    /// A time in exactly the form that is written here; anything else is for the library.
    fn from_digits(text: &[u8]) -> Option<Self> {
        let fits = |(c, shape): (&u8, &u8)| {
            if *shape == b'0' {
                c.is_ascii_digit()
            } else {
                c == shape
            }
        };
        if text.len() != SHAPE.len() || !text.iter().zip(SHAPE).all(fits) {
            return None;
        }
        let number = |from: usize, width: usize| {
            text[from..from + width]
                .iter()
                .fold(0, |n, c| n * 10 + i64::from(c - b'0'))
        };
        let (year, month, day) = (number(0, 4), number(5, 2), number(8, 2));
        let (hour, minute, second, ms) = (number(11, 2), number(14, 2), number(17, 2), number(20, 3));
        let fits =
            (1..=12).contains(&month) && (1..=28).contains(&day) && hour < 24 && minute < 60 && second < 60;
        if !fits || year < 1970 {
            // Short months, leap seconds and times before all of this.
            return None;
        }
        let year = year - i64::from(month <= 2);
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
        let days =
            era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468;
        Some(Self::from_ms(
            ((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000 + ms,
        ))
    }
}

impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(std::str::from_utf8(&self.digits()).unwrap_or_default())
    }
}

impl FromStr for Wall {
    type Err = BadTime;

    fn from_str(text: &str) -> Result<Self, BadTime> {
        if let Some(wall) = Self::from_digits(text.as_bytes()) {
            return Ok(wall);
        }
        let time: jiff::Timestamp = text
            .parse()
            .map_err(|_| BadTime(text.chars().take(40).collect()))?;
        Ok(Self::from_ms(time.as_millisecond()))
    }
}

impl TryFrom<String> for Wall {
    type Error = BadTime;
    fn try_from(text: String) -> Result<Self, BadTime> {
        text.parse()
    }
}

/// One boot of one machine. Ticks of different boots say nothing about each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BootId(pub String);

/// The present moment, as the store's clock tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Now {
    pub wall: Wall,
    pub boot: BootId,
    /// Milliseconds since that boot, sleep included.
    pub ticks: u64,
}

/// The source of the time. The store has one of its own, which decides about deadlines.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time of day together with the boot and its ticks, which deadlines are compared with.
    fn now(&self) -> io::Result<Now>;

    /// The time of day alone. Unlike [`Clock::now`] it never fails.
    fn wall(&self) -> Wall;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_round_trip_and_never_overflow() {
        for ms in [0, 1, 1_700_000_000_123, i64::MAX, i64::MIN] {
            let wall = Wall::from_ms(ms);
            assert_eq!(wall.to_string().parse::<Wall>(), Ok(wall), "{wall}");
        }
        assert!(
            Wall::from_ms(5)
                .plus_secs(u64::MAX)
                .to_string()
                .starts_with("9998")
        );
        assert!("yesterday".parse::<Wall>().is_err());
        assert!("2026-02-30T00:00:00.000Z".parse::<Wall>().is_err());
    }

    #[test]
    fn times_are_those_of_the_library() {
        // Every day of 400 years and more, at odd times of day.
        for day in 0..150_000_i64 {
            let ms = day * 86_400_000 + (day * 7_919_113) % 86_400_000;
            let wall = Wall::from_ms(ms);
            let time = jiff::Timestamp::from_millisecond(ms).expect("in range");
            assert_eq!(wall.to_string(), format!("{time:.3}"));
            assert_eq!(wall.to_string().parse(), Ok(wall));
        }
    }
}
