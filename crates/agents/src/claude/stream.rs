//! The types of Claude Code's output, as far as jit uses them.
//!
//! Fields may be missing, unknown ones may be present, and their order has no meaning. A field with an unexpected type
//! makes the line one that is not understood, and is never an error.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Enough of a line to recognize its type.
#[derive(Debug, Deserialize)]
pub struct LineHead<'a> {
    #[serde(rename = "type", borrow)]
    pub kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub subtype: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub session_id: Option<Cow<'a, str>>,
}

/// `rate_limit_event`: how much of a subscription is left.
#[derive(Debug, Deserialize)]
pub struct RateLimitEvent {
    pub rate_limit_info: RateLimitInfo,
}

#[derive(Debug, Deserialize)]
pub struct RateLimitInfo {
    pub status: Option<String>,
    /// Seconds since 1970.
    #[serde(rename = "resetsAt")]
    pub resets_at: Option<f64>,
}

/// `system/init`, before each turn.
#[derive(Debug, Deserialize)]
pub struct Init {
    pub session_id: Option<String>,
    pub model: Option<String>,
}

/// `system/api_retry`.
#[derive(Debug, Deserialize)]
pub struct ApiRetry {
    #[serde(default)]
    pub attempt: u32,
    #[serde(default)]
    pub retry_delay_ms: f64,
    pub error_status: Option<u16>,
    pub error: Option<String>,
}

/// `system/permission_denied`.
#[derive(Debug, Deserialize)]
pub struct PermissionDenied {
    #[serde(default)]
    pub tool_name: String,
    pub tool_use_id: Option<String>,
    #[serde(default)]
    pub message: String,
}

/// `assistant`: one part of a message of the model. All parts of a message have the same id.
#[derive(Debug, Deserialize)]
pub struct Assistant<'a> {
    #[serde(borrow)]
    pub message: Message<'a>,
    pub parent_tool_use_id: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Message<'a> {
    pub id: Option<String>,
    pub model: Option<String>,
    #[serde(borrow, default)]
    pub content: Vec<Part<'a>>,
    pub usage: Option<Usage>,
}

/// A part of a message of the model or of a tool.
#[derive(Debug, Deserialize)]
pub struct Part<'a> {
    #[serde(rename = "type")]
    pub kind: String,
    pub id: Option<String>,
    pub name: Option<String>,
    pub text: Option<String>,
    #[serde(borrow)]
    pub input: Option<&'a RawValue>,
    pub tool_use_id: Option<String>,
    #[serde(borrow)]
    pub content: Option<&'a RawValue>,
    pub is_error: Option<bool>,
}

/// `user`: results of tools.
#[derive(Debug, Deserialize)]
pub struct User<'a> {
    #[serde(borrow)]
    pub message: UserMessage<'a>,
    #[serde(default, rename = "isReplay")]
    pub is_replay: bool,
    #[serde(default)]
    pub tool_result_meta: Vec<ResultMeta>,
}

#[derive(Debug, Deserialize)]
pub struct UserMessage<'a> {
    /// A string, or parts.
    #[serde(borrow)]
    pub content: &'a RawValue,
}

#[derive(Debug, Deserialize)]
pub struct ResultMeta {
    pub id: Option<String>,
    pub permission_decision: Option<PermissionDecision>,
}

#[derive(Debug, Deserialize)]
pub struct PermissionDecision {
    pub decision: Option<String>,
}

/// Tokens of one API call.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub struct Usage {
    #[serde(default, deserialize_with = "count")]
    pub input_tokens: u64,
    #[serde(default, deserialize_with = "count")]
    pub cache_creation_input_tokens: u64,
    #[serde(default, deserialize_with = "count")]
    pub cache_read_input_tokens: u64,
    #[serde(default, deserialize_with = "count")]
    pub output_tokens: u64,
}

/// `stream_event`: events of the API, if they were requested.
#[derive(Debug, Deserialize)]
pub struct StreamEvent {
    pub event: ApiEvent,
    pub api_message_id: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct ApiEvent {
    #[serde(rename = "type")]
    pub kind: String,
    pub usage: Option<Usage>,
}

/// The sum of all calls to one model.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelUsage {
    #[serde(default, deserialize_with = "count")]
    pub input_tokens: u64,
    #[serde(default, deserialize_with = "count")]
    pub output_tokens: u64,
    #[serde(default, deserialize_with = "count")]
    pub cache_read_input_tokens: u64,
    #[serde(default, deserialize_with = "count")]
    pub cache_creation_input_tokens: u64,
    #[serde(default, rename = "costUSD")]
    pub cost_usd: f64,
}

pub type ModelUsages = BTreeMap<String, ModelUsage>;

/// `result`.
#[derive(Debug, Deserialize)]
pub struct Outcome<'a> {
    #[serde(default)]
    pub subtype: String,
    /// If it is missing, the result counts as an error.
    pub is_error: Option<bool>,
    pub terminal_reason: Option<String>,
    pub result: Option<String>,
    #[serde(default)]
    pub errors: Vec<String>,
    pub session_id: Option<String>,
    pub api_error_status: Option<u16>,
    #[serde(borrow, default)]
    pub permission_denials: Vec<&'a RawValue>,
    #[serde(default)]
    pub num_turns: u64,
    pub total_cost_usd: Option<f64>,
    pub usage: Option<Usage>,
    #[serde(default, rename = "modelUsage")]
    pub model_usage: ModelUsages,
    pub model_usage_since_last_result: Option<ModelUsages>,
}

/// `control_request`.
#[derive(Debug, Deserialize)]
pub struct ControlRequest<'a> {
    pub request_id: String,
    #[serde(borrow)]
    pub request: &'a RawValue,
}

#[derive(Debug, Deserialize)]
pub struct HookCallback<'a> {
    pub callback_id: Option<String>,
    #[serde(borrow)]
    pub input: HookInput<'a>,
    pub tool_use_id: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct HookInput<'a> {
    pub cwd: Option<PathBuf>,
    pub tool_name: String,
    #[serde(borrow)]
    pub tool_input: &'a RawValue,
}

#[derive(Debug, Deserialize)]
pub struct CanUseTool<'a> {
    pub tool_name: String,
    #[serde(borrow)]
    pub input: &'a RawValue,
    pub tool_use_id: Option<String>,
}

/// `control_response`.
#[derive(Debug, Deserialize)]
pub struct ControlResponse<'a> {
    #[serde(borrow)]
    pub response: Response<'a>,
}

#[derive(Debug, Deserialize)]
pub struct Response<'a> {
    pub subtype: Option<String>,
    #[serde(default)]
    pub request_id: String,
    #[serde(borrow)]
    pub response: Option<&'a RawValue>,
    pub error: Option<String>,
}

/// The answer to `get_usage`.
#[derive(Debug, Deserialize)]
pub struct UsageAnswer {
    pub session: SessionUsage,
    /// Claude Code looked up the rest of a subscription, perhaps over the network.
    #[serde(default)]
    pub rate_limits_available: bool,
}

#[derive(Debug, Deserialize)]
pub struct SessionUsage {
    #[serde(default)]
    pub total_cost_usd: f64,
    #[serde(default)]
    pub model_usage: ModelUsages,
}

/// A token count; `null` counts as zero.
fn count<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Option::<u64>::deserialize(from).map(Option::unwrap_or_default)
}
