//! Reads numbers of tokens in what agents print.

use serde::{Deserialize as _, Deserializer};
use serde_json::Value;

/// A number of tokens, whatever stands there: less than none is none.
pub fn count<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Ok(match Value::deserialize(from)? {
        Value::Number(number) => match number.as_u64() {
            Some(count) => count,
            // As large as can be, where it is larger.
            None => number.as_f64().map_or(0, |count| count as u64),
        },
        _ => 0,
    })
}
