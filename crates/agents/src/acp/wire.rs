//! The messages of the protocol, as far as jit uses them.
//!
//! Format: JSON-RPC 2.0, one object per line. A request has `id` and `method`, an answer `id` and `result` or `error`,
//! a notification only `method`. Our ids are 1, 2, 3, …; the agent's ids may be any value and are returned unchanged.
//!
//! Fields may be missing, and unknown ones may be present. A field with an unexpected type makes the whole message one
//! that is not understood.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize as Read, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The protocol version that jit speaks.
pub const VERSION: u64 = 1;
/// The id of the first request.
pub const FIRST: u64 = 1;

/// Error codes of JSON-RPC and of the protocol.
pub const METHOD_NOT_FOUND: i64 = -32601;
pub const INVALID_PARAMS: i64 = -32602;
pub const AUTH_REQUIRED: i64 = -32000;

pub const PERMISSION: &str = "session/request_permission";

fn line(value: &impl Serialize) -> Vec<u8> {
    // Cannot fail: all keys are strings.
    let mut bytes = serde_json::to_vec(value).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

pub fn request(id: u64, method: &str, params: &Value) -> Vec<u8> {
    line(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

pub fn initialize() -> Vec<u8> {
    let params = json!({
        "protocolVersion": VERSION,
        "clientCapabilities": { "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false },
        "clientInfo": { "name": "jit", "title": "jit", "version": env!("CARGO_PKG_VERSION") },
    });
    request(FIRST, "initialize", &params)
}

pub fn cancel(session: &str) -> Vec<u8> {
    line(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } }))
}

/// The parameters of `session/prompt`.
pub fn words(session: &str, text: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] })
}

/// The parameters that open a session: directory, MCP servers, and the id of the session to resume.
pub fn place(dir: &Path, servers: &Value, session: Option<&str>) -> Value {
    let mut params = json!({ "cwd": dir, "mcpServers": servers });
    if let Some(session) = session {
        params["sessionId"] = json!(session);
    }
    params
}

#[derive(Serialize)]
struct RpcAnswer<'a> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
}

/// Answers a permission request: with one of its options, or cancelled, and with the reason.
pub fn chosen(id: &RawValue, option: Option<&str>, why: Option<&str>) -> Vec<u8> {
    let mut result = match option {
        Some(option) => json!({ "outcome": { "outcome": "selected", "optionId": option } }),
        None => json!({ "outcome": { "outcome": "cancelled" } }),
    };
    if let Some(why) = why {
        result["_meta"] = json!({ "jit": { "reason": why } });
    }
    line(&RpcAnswer {
        jsonrpc: "2.0",
        id,
        result: Some(result),
        error: None,
    })
}

pub fn refused(id: &RawValue, code: i64, message: &str) -> Vec<u8> {
    line(&RpcAnswer {
        jsonrpc: "2.0",
        id,
        result: None,
        error: Some(json!({ "code": code, "message": message })),
    })
}

/// The envelope of a message.
#[derive(Debug, Read)]
pub struct Message<'a> {
    #[serde(borrow, default, deserialize_with = "there")]
    pub id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "there")]
    pub result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
}

/// `null` counts as present.
fn there<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// The id and method of a request that is truncated or broken.
pub fn beginning(line: &[u8]) -> Option<(Box<RawValue>, String)> {
    #[derive(Default)]
    struct RequestHead {
        id: Option<Box<RawValue>>,
        method: Option<String>,
    }
    struct Into<'a>(&'a mut RequestHead);
    impl<'de> Visitor<'de> for Into<'_> {
        type Value = ();

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a message")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            while let Some(name) = map.next_key::<String>()? {
                match &*name {
                    "id" => self.0.id = Some(map.next_value()?),
                    "method" => self.0.method = Some(map.next_value()?),
                    _ => drop(map.next_value::<IgnoredAny>()?),
                }
            }
            Ok(())
        }
    }
    let mut found = RequestHead::default();
    let mut from = serde_json::Deserializer::from_slice(line);
    // The fields before the error are enough.
    let _ = from.deserialize_map(Into(&mut found));
    Some((found.id?, found.method?))
}

#[derive(Debug, Read)]
#[serde(rename_all = "camelCase")]
pub struct Initialized {
    pub protocol_version: Value,
    #[serde(default)]
    pub agent_capabilities: Capabilities,
    #[serde(default)]
    pub auth_methods: Vec<AuthMethod>,
}

#[derive(Debug, Default, Read)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    #[serde(default)]
    pub load_session: bool,
    #[serde(default)]
    pub session_capabilities: SessionCapabilities,
}

/// A capability is an object if it is offered.
#[derive(Debug, Default, Read)]
pub struct SessionCapabilities {
    #[serde(default)]
    pub resume: Option<IgnoredAny>,
    #[serde(default)]
    pub fork: Option<IgnoredAny>,
}

#[derive(Debug, Read)]
pub struct AuthMethod {
    #[serde(default)]
    pub name: String,
}

/// A session that was created, loaded, resumed or forked. Only new ones have an id.
#[derive(Debug, Default, Read)]
#[serde(rename_all = "camelCase")]
pub struct Opened {
    #[serde(default)]
    pub session_id: Option<String>,
    #[serde(default)]
    pub modes: Option<Modes>,
    #[serde(default)]
    pub models: Option<Models>,
    #[serde(default)]
    pub config_options: Option<Vec<ConfigOption>>,
}

impl Opened {
    /// The option of this category.
    pub fn option(&self, category: &str) -> Option<&ConfigOption> {
        let fits = |option: &&ConfigOption| option.category.as_deref() == Some(category);
        self.config_options.iter().flatten().find(fits)
    }
}

#[derive(Debug, Read)]
#[serde(rename_all = "camelCase")]
pub struct Modes {
    #[serde(default)]
    pub available_modes: Vec<SessionMode>,
}

#[derive(Debug, Read)]
pub struct SessionMode {
    pub id: String,
}

/// No longer in the protocol; some agents still send it.
#[derive(Debug, Read)]
#[serde(rename_all = "camelCase")]
pub struct Models {
    #[serde(default)]
    pub current_model_id: Option<String>,
    #[serde(default)]
    pub available_models: Vec<Model>,
}

#[derive(Debug, Read)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    pub model_id: String,
}

#[derive(Debug, Read)]
#[serde(rename_all = "camelCase")]
pub struct ConfigOption {
    pub id: String,
    #[serde(default)]
    pub category: Option<String>,
    #[serde(default)]
    pub current_value: Value,
    /// Values, or groups of them.
    #[serde(default)]
    pub options: Vec<ConfigValue>,
}

#[derive(Debug, Read)]
pub struct ConfigValue {
    #[serde(default)]
    pub value: Option<String>,
    #[serde(default)]
    pub options: Vec<ConfigValue>,
}

impl ConfigOption {
    pub fn offers(&self, wanted: &str) -> bool {
        fn any(values: &[ConfigValue], wanted: &str) -> bool {
            values
                .iter()
                .any(|one| one.value.as_deref() == Some(wanted) || any(&one.options, wanted))
        }
        any(&self.options, wanted)
    }
}

/// The answer to `session/prompt`.
#[derive(Debug, Read)]
#[serde(rename_all = "camelCase")]
pub struct Prompted {
    pub stop_reason: String,
    #[serde(default)]
    pub usage: Option<TurnUsage>,
    #[serde(default, rename = "_meta")]
    pub meta: Option<Value>,
}

/// Tokens of one turn.
#[derive(Debug, Clone, Copy, Default, Read)]
#[serde(rename_all = "camelCase")]
pub struct TurnUsage {
    #[serde(default, deserialize_with = "count")]
    pub input_tokens: u64,
    #[serde(default, deserialize_with = "count")]
    pub output_tokens: u64,
    #[serde(default, deserialize_with = "count")]
    pub thought_tokens: u64,
    #[serde(default, deserialize_with = "count")]
    pub cached_read_tokens: u64,
    #[serde(default, deserialize_with = "count")]
    pub cached_write_tokens: u64,
}

/// The session that a notification or a request is about.
#[derive(Debug, Read)]
#[serde(rename_all = "camelCase")]
pub struct SessionParams<'a> {
    #[serde(borrow)]
    pub session_id: Cow<'a, str>,
    #[serde(borrow, default)]
    pub update: Option<&'a RawValue>,
}

#[derive(Debug, Read)]
#[serde(rename_all = "camelCase")]
pub struct UpdateHead<'a> {
    #[serde(borrow)]
    pub session_update: Cow<'a, str>,
}

#[derive(Debug, Read)]
#[serde(rename_all = "camelCase")]
pub struct Chunk {
    pub content: Content,
    #[serde(default)]
    pub message_id: Option<String>,
}

#[derive(Debug, Default, Read)]
pub struct Content {
    #[serde(default)]
    pub text: Option<String>,
}

#[derive(Debug, Read)]
pub struct PlanUpdate {
    #[serde(default)]
    pub entries: Vec<PlanEntry>,
}

#[derive(Debug, Read)]
pub struct PlanEntry {
    #[serde(default)]
    pub content: String,
    #[serde(default)]
    pub status: String,
}

#[derive(Debug, Read)]
pub struct UsageUpdate {
    #[serde(default, deserialize_with = "count")]
    pub used: u64,
    #[serde(default)]
    pub cost: Option<Cost>,
}

#[derive(Debug, Read)]
pub struct Cost {
    pub amount: f64,
    pub currency: String,
}

/// `tool_call`, `tool_call_update`, and the tool of a permission request: updates have only the changed fields.
#[derive(Debug, Clone, Read)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    pub tool_call_id: String,
    #[serde(default)]
    pub title: Option<String>,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub kind: Option<String>,
    #[serde(default)]
    pub status: Option<String>,
    #[serde(default)]
    pub content: Option<Vec<ToolContent>>,
    #[serde(default)]
    pub locations: Option<Vec<Location>>,
    #[serde(default)]
    pub raw_input: Option<Value>,
    #[serde(default, rename = "_meta")]
    pub meta: Option<Value>,
}

impl ToolCall {
    /// A tool that is known only by its id.
    pub fn of(id: &str) -> Self {
        Self {
            tool_call_id: id.to_owned(),
            title: None,
            name: None,
            kind: None,
            status: None,
            content: None,
            locations: None,
            raw_input: None,
            meta: None,
        }
    }

    /// Approximate bytes that it occupies besides itself, including its id as a key.
    pub fn weight(&self) -> usize {
        let words = [&self.title, &self.name, &self.kind, &self.status];
        let words: usize = words.iter().filter_map(|word| Some(word.as_ref()?.len())).sum();
        let parts = self.content.iter().flatten().map(|part| match part {
            ToolContent::Content { content } => weight(content),
            ToolContent::Diff { path } => path.as_os_str().len(),
            ToolContent::Terminal {} => 0,
        });
        let places = self.locations.iter().flatten();
        let places = places.map(|one| size_of::<Location>() + one.path.as_os_str().len());
        let values = self.raw_input.iter().chain(&self.meta).map(weight);
        let parts = parts.map(|part| part + size_of::<ToolContent>());
        2 * self.tool_call_id.len() + words + parts.chain(places).chain(values).sum::<usize>()
    }
}

/// Approximate bytes that a value occupies. Numbers of any length occupy the same.
fn weight(value: &Value) -> usize {
    let more = match value {
        Value::String(text) => text.len(),
        Value::Array(all) => all.iter().map(weight).sum(),
        Value::Object(all) => all
            .iter()
            .map(|(name, one)| 2 * size_of::<String>() + name.len() + weight(one))
            .sum(),
        _ => 0,
    };
    size_of::<Value>() + more
}

#[derive(Debug, Clone, Read)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolContent {
    Content {
        #[serde(default)]
        content: Value,
    },
    Diff {
        path: PathBuf,
    },
    Terminal {},
}

#[derive(Debug, Clone, Read)]
pub struct Location {
    pub path: PathBuf,
}

/// `session/request_permission`.
#[derive(Debug, Read)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRequest {
    pub tool_call: ToolCall,
    #[serde(default)]
    pub options: Vec<PermissionOption>,
}

#[derive(Debug, Read)]
#[serde(rename_all = "camelCase")]
pub struct PermissionOption {
    pub option_id: String,
    #[serde(default)]
    pub kind: String,
}

#[derive(Debug, Read)]
pub struct Failure {
    #[serde(default)]
    pub code: Value,
    #[serde(default)]
    pub message: String,
    #[serde(default)]
    pub data: Value,
}

/// A token count; anything else, and negative numbers, count as zero.
fn count<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let value = Value::deserialize(from)?;
    let rounded = || {
        value
            .as_f64()
            .filter(|number| *number > 0.0)
            .map(|number| number as u64)
    };
    Ok(value.as_u64().or_else(rounded).unwrap_or_default())
}
