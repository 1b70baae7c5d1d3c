//! Requests and replies about settings. They work without a log.

use std::fmt;

use jit_core::model::cost::Usd;
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
    pub value: SettingValue,
    /// The file with its line, the variable, or `default`.
    pub origin: String,
    pub class: SettingClass,
}

/// The power of a setting's value that comes with a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SettingClass {
    /// It starts nothing and names no place.
    Inert,
    /// It names a path, a file or a branch that cannot leave its place.
    Confined,
    /// It needs the user's approval, or counts only in the user's own file.
    Trusted,
}

impl fmt::Display for SettingClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inert => "inert",
            Self::Confined => "confined",
            Self::Trusted => "trusted",
        })
    }
}

/// The value of a setting. Its text is TOML, as a file of settings has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SettingValue {
    Flag(bool),
    Number(u64),
    Dollars(Usd),
    Text(String),
    List(Vec<String>),
}

impl fmt::Display for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Dollars(usd) => write!(f, "{usd}"),
            Self::Text(text) => write!(f, "{}", toml_edit::Value::from(text.as_str())),
            Self::List(items) => {
                let items: Vec<String> = items
                    .iter()
                    .map(|item| toml_edit::Value::from(item.as_str()).to_string())
                    .collect();
                write!(f, "[{}]", items.join(", "))
            }
        }
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ChangedSetting {
    pub key: String,
    pub value: SettingValue,
    pub file: String,
}
