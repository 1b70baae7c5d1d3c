//! Control messages in both directions beside the conversation: requests with an id, and their answers.
//!
//! Format, one JSON object per line:
//!
//! - `{"type":"control_request","request_id":…,"request":{"subtype":…}}`: jit sends `initialize`, `get_usage` and
//!   `interrupt`; Claude Code sends `hook_callback` (before each use of a tool) and `can_use_tool` (it would ask its
//!   user);
//! - `{"type":"control_response","response":{"subtype":"success","request_id":…,"response":{…}}}`, or
//!   `"subtype":"error"` with `error`;
//! - `{"type":"user","message":{"role":"user","content":…}}`: the prompt.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::ask::Permission;
use crate::hooks::{Program, answer};

/// The id of our callback before each use of a tool.
pub const BEFORE_TOOL: &str = "before-tool";
/// The id of the first request for usage.
pub const FIRST_USAGE: &str = "usage-0";
/// Seconds that Claude Code waits for our answer about a tool. After that it continues without it.
const PATIENCE: u32 = 300;

fn line(value: &impl Serialize) -> Vec<u8> {
    // Cannot fail: all keys are strings.
    let mut bytes = serde_json::to_vec(value).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

fn request(id: &str, request: &Value) -> Vec<u8> {
    line(&json!({ "type": "control_request", "request_id": id, "request": request }))
}

/// The first input. A resumed session is asked for its usage before it gets the prompt, so that only later usage counts
/// for this attempt.
pub fn opening(prompt: &str, resumed: bool) -> Vec<u8> {
    let hooks = json!({ "PreToolUse": [{
        "matcher": null, "hookCallbackIds": [BEFORE_TOOL], "timeout": PATIENCE,
    }]});
    let mut bytes = request("initialize", &json!({ "subtype": "initialize", "hooks": hooks }));
    bytes.extend(match resumed {
        true => usage(FIRST_USAGE),
        false => told(prompt),
    });
    bytes
}

pub fn told(prompt: &str) -> Vec<u8> {
    line(&json!({
        "type": "user", "message": { "role": "user", "content": prompt },
        "parent_tool_use_id": null, "session_id": "",
    }))
}

/// Asks for the usage so far. Skips the statistics for which Claude Code would read all transcripts.
pub fn usage(id: &str) -> Vec<u8> {
    request(id, &json!({ "subtype": "get_usage", "skip_behaviors": true }))
}

pub fn interrupt() -> Vec<u8> {
    request("interrupt", &json!({ "subtype": "interrupt" }))
}

/// Answers a callback before a tool: the same document that the installed hook would print.
pub fn before_tool(id: &str, permission: &Permission) -> Vec<u8> {
    answer(
        id,
        &match permission {
            Permission::Allow => json!({}),
            Permission::Warn(text) => answer::warning(Program::Claude, text),
            Permission::Deny(text) => answer::denial(Program::Claude, text),
        },
    )
}

/// Answers a question for the user. An allowed tool gets its input back unchanged.
pub fn can_use_tool(id: &str, input: &RawValue, permission: &Permission) -> Vec<u8> {
    #[derive(Serialize)]
    struct Allow<'a> {
        behavior: &'static str,
        #[serde(rename = "updatedInput")]
        input: &'a RawValue,
    }
    match permission {
        Permission::Allow | Permission::Warn(_) => answer(
            id,
            &Allow {
                behavior: "allow",
                input,
            },
        ),
        Permission::Deny(text) => answer(id, &json!({ "behavior": "deny", "message": text })),
    }
}

fn answer(id: &str, response: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct ControlResponse<'a, T> {
        #[serde(rename = "type")]
        kind: &'static str,
        response: ResponseBody<'a, T>,
    }
    #[derive(Serialize)]
    struct ResponseBody<'a, T> {
        subtype: &'static str,
        request_id: &'a str,
        response: &'a T,
    }
    line(&ControlResponse {
        kind: "control_response",
        response: ResponseBody {
            subtype: "success",
            request_id: id,
            response,
        },
    })
}

/// Answers a request that is not understood. Without an answer Claude Code would wait forever.
pub fn refuse(id: &str, why: &str) -> Vec<u8> {
    line(&json!({
        "type": "control_response",
        "response": { "subtype": "error", "request_id": id, "error": why },
    }))
}
