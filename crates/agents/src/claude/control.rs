//! What is said both ways beside the conversation: questions, each with a number, and their answers.
//!
//! Format, one JSON object a line:
//!
//! - `{"type":"control_request","request_id":…,"request":{"subtype":…}}`, from us `initialize`, `get_usage`, `interrupt`;
//!   from Claude Code `hook_callback` (a tool is about to be used) and `can_use_tool` (it would ask its user);
//! - `{"type":"control_response","response":{"subtype":"success","request_id":…,"response":{…}}}`, or
//!   `"subtype":"error"` with `error`;
//! - `{"type":"user","message":{"role":"user","content":…}}`: what it is told.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::ask::Permission;
use crate::hooks::{Program, answer};

/// Our name for the call back before a tool.
pub const BEFORE_TOOL: &str = "before-tool";
/// The number of the first question about what was used.
pub const FIRST_USAGE: &str = "usage-0";
/// How long Claude Code waits for our answer about a tool, in seconds. Then it would go on without it.
const PATIENCE: u32 = 300;

fn line(value: &impl Serialize) -> Vec<u8> {
    // Values with texts for keys always are JSON.
    let mut bytes = serde_json::to_vec(value).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

fn request(id: &str, request: &Value) -> Vec<u8> {
    line(&json!({ "type": "control_request", "request_id": id, "request": request }))
}

/// What it finds on its standard input at first. A resumed session is asked for its costs before it is told anything:
/// what comes later is this attempt's.
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

/// What has been used so far. Without the rest of what it could tell, which it would read all transcripts for.
pub fn usage(id: &str) -> Vec<u8> {
    request(id, &json!({ "subtype": "get_usage", "skip_behaviors": true }))
}

pub fn interrupt() -> Vec<u8> {
    request("interrupt", &json!({ "subtype": "interrupt" }))
}

/// The answer about a tool that is to be used: what the installed hook would print.
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

/// The answer to what it would ask its user. An allowed tool gets its input back as it was.
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

/// For a question that is not understood: without any answer it would wait for ever.
pub fn refuse(id: &str, why: &str) -> Vec<u8> {
    line(&json!({
        "type": "control_response",
        "response": { "subtype": "error", "request_id": id, "error": why },
    }))
}
