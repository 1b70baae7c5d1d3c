//! TODO header

use serde::Serialize;

/// Something that was not removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Left {
    pub path: String,
    pub why: String,
}
