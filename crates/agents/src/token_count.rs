//! Reads token counts leniently.

use serde::{Deserialize as _, Deserializer};
use serde_json::Value;

/// A token count of any JSON type: negative numbers and non-numbers count as zero.
pub fn count<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Ok(match Value::deserialize(from)? {
        Value::Number(number) => match number.as_u64() {
            Some(count) => count,
            // Saturates if the number is too large.
            None => number.as_f64().map_or(0, |count| count as u64),
        },
        _ => 0,
    })
}
