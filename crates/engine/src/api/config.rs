//! Requests and replies about settings. They work without a log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::facts::TreeScope::Nothing;
use crate::api::facts::{reads, replies, requests, writes};

requests! {
    /// Settings, and where they come from.
    pub enum ConfigRequest {
        Show => reads(Nothing),
        Get { key: String } => reads(Nothing),
        /// Changes a setting in the repository's file, or with `user` in the user's own file.
        Set { key: String, value: String, user: bool } => writes(Nothing),
    }
}

replies! {
    pub enum ConfigReply {
        Settings(Settings),
        Setting(SettingView),
        Changed(ChangedSetting),
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    pub settings: Vec<SettingView>,
}

/// A setting that holds.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct SettingView {
    pub key: String,
    pub value: serde_json::Value,
    /// The file with its line, the variable, or `default`.
    pub origin: String,
    /// The value as text for people.
    pub text: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ChangedSetting {
    pub key: String,
    pub value: serde_json::Value,
    /// The value as text for people.
    pub text: String,
    pub file: String,
}
