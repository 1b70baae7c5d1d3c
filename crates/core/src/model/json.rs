//! Values as JSON.

use serde::Serialize;

/// Serialising our own types to memory cannot fail: their maps have string keys and no writer is involved.
pub fn json_bytes<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}
