//! Requests and replies of the checks. They work with a damaged log and with broken settings.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::facts::TreeScope::Nothing;
use crate::api::facts::{reads, replies, requests};

requests! {
    /// Checks and repairs.
    pub enum DoctorRequest {
        /// Runs all checks.
        Check => reads(Nothing),
    }
}

replies! {
    pub enum DoctorReply {
        Checks(Checks),
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Checks {
    /// No check failed.
    pub ok: bool,
    pub checks: Vec<Check>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    Ok,
    /// Works, but should be reported.
    Warn,
    Fail,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    pub name: Cow<'static, str>,
    pub status: CheckStatus,
    pub message: String,
    pub help: Option<String>,
}
