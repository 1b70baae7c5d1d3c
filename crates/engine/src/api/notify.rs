//! TODO header

use serde::Serialize;

/// What came of one way to tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sent {
    /// `command` or `webhook`.
    pub way: &'static str,
    pub ok: bool,
    /// Why not.
    pub why: Option<String>,
}
