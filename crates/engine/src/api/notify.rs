//! Reply types about notifications.

use serde::Serialize;

/// The result of one delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sent {
    /// `command` or `webhook`.
    pub way: &'static str,
    pub ok: bool,
    /// Why the delivery failed.
    pub why: Option<String>,
}
