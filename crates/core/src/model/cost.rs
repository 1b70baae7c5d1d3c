//! Costs of agents: dollars and tokens.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Millionths in a dollar.
pub const MICRO: u64 = 1_000_000;

/// Dollars, to the millionth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, schemars::JsonSchema)]
#[schemars(with = "f64")]
pub struct Usd(pub u64);

/// The number of dollars, with as many digits as it needs.
impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 % MICRO {
            0 => write!(f, "{}", self.0 / MICRO),
            rest => {
                let digits = format!("{rest:06}");
                write!(f, "{}.{}", self.0 / MICRO, digits.trim_end_matches('0'))
            }
        }
    }
}

impl Serialize for Usd {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(self.0 as f64 / 1e6)
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let dollars = f64::deserialize(from)?;
        if dollars.is_finite() && (0.0..1e12).contains(&dollars) {
            Ok(Self((dollars * 1e6).round() as u64))
        } else {
            Err(serde::de::Error::custom("an amount of dollars is not negative"))
        }
    }
}

/// Tokens that went through a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Tokens {
    // A program that reports only one of the two still reports something.
    #[serde(default)]
    pub input: u64,
    #[serde(default)]
    pub output: u64,
}

impl Tokens {
    pub fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
        }
    }
}

/// Dollars as they are counted here. What makes no sense is nothing.
pub fn usd(dollars: f64) -> Usd {
    // Conversions to whole numbers stop at the ends and make nothing of NaN.
    Usd((dollars * 1e6).round() as u64)
}
