//! Time as data: what a decision may know about "now", and how times look outside.
//!
//! Two clocks, never mixed. [`Wall`] is for people and files; it may jump. `ticks` is milliseconds of a clock that
//! only runs forward within one boot of the machine ([`BootId`]); deadlines are compared by it and by nothing else.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A wall-clock time in whole milliseconds, written as RFC 3339 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Wall(i64);

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
        let ms = i64::try_from(secs).unwrap_or(i64::MAX).saturating_mul(1000);
        Self::from_ms(self.0.saturating_add(ms))
    }
}

impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{time:.3}"),
            Err(_) => f.write_str("1970-01-01T00:00:00.000Z"),
        }
    }
}

impl FromStr for Wall {
    type Err = BadTime;

    fn from_str(text: &str) -> Result<Self, BadTime> {
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

impl From<Wall> for String {
    fn from(wall: Wall) -> String {
        wall.to_string()
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
    }
}
