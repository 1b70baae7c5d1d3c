//! Requests and replies about notifications.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::facts::TreeScope::Nothing;
use crate::api::facts::{replies, requests, writes};

requests! {
    /// Notifications.
    pub enum NotifyRequest {
        /// Sends a test notification.
        Test => writes(Nothing).without_identity(),
    }
}

replies! {
    pub enum NotifyReply {
        Sent(Notified),
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Notified {
    pub sent: Vec<Sent>,
}

/// The result of one delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sent {
    /// `command` or `webhook`.
    pub way: Cow<'static, str>,
    pub ok: bool,
    /// Why the delivery failed.
    pub why: Option<String>,
}
