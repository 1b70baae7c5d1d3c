//! Classifies a JSON-RPC error of an agent (G8), so that jit knows whether to retry.
//!
//! What must hold: a rate limit or an overload of the model is distinguished from a mistake, for any agent, so that jit
//! waits for the former and does not repeat the latter. Only errors are read, never text of the model or of a tool.
//! [`model_errors`] reads the messages.

use jit_os::clock;
use serde_json::Value;

use super::wire::{AUTH_REQUIRED, Failure, INVALID_PARAMS, METHOD_NOT_FOUND};
use crate::event::AgentVerdict;
use crate::model_errors;
use crate::text::short;

const TEXT: usize = 2_000;

/// The verdict for an error. `methods` are the login methods that the agent named.
pub fn verdict(failure: &Failure, methods: &[String]) -> AgentVerdict {
    let text = words(failure);
    let code = failure.code.as_i64();
    if code == Some(AUTH_REQUIRED) {
        return AgentVerdict {
            is_error: true,
            reason: "auth_required".to_owned(),
            api_status: Some(401),
            text: short(&log_in(&text, methods), TEXT),
            ..AgentVerdict::default()
        };
    }
    let told = status(&failure.data).or_else(|| http(code.and_then(|code| u64::try_from(code).ok())?));
    let mut verdict = model_errors::classify_with_status(&text, told, clock::wall_ms());
    if verdict.reason == "error" && matches!(code, Some(INVALID_PARAMS | METHOD_NOT_FOUND)) {
        verdict.reason = "usage".to_owned();
    }
    verdict
}

/// The number, if it is the HTTP status of an error.
fn http(number: u64) -> Option<u16> {
    u16::try_from(number)
        .ok()
        .filter(|number| (400..600).contains(number))
}

fn log_in(text: &str, methods: &[String]) -> String {
    let ways = match methods {
        [] => String::new(),
        _ => format!(" It offers: {}.", methods.join(", ")),
    };
    format!(
        "The agent wants to be logged in first ({text}). Start its program once yourself and log in, or put its key into the \
         environment that jit is started in, then dispatch again.{ways}"
    )
}

/// The message and its details.
fn words(failure: &Failure) -> String {
    let message = failure.message.trim();
    let more = match &failure.data {
        Value::String(text) => Some(text.as_str()),
        data => ["details", "message", "error"]
            .iter()
            .find_map(|name| data.get(name).and_then(Value::as_str)),
    };
    match (message, more.map(str::trim)) {
        ("", None | Some("")) => "no reason given".to_owned(),
        (message, None | Some("")) => message.to_owned(),
        ("", Some(more)) => more.to_owned(),
        (message, Some(more)) if message.contains(more) => message.to_owned(),
        (message, Some(more)) => format!("{message}: {more}"),
    }
}

/// The HTTP status in an error's data, or the status for the kind that it names.
fn status(data: &Value) -> Option<u16> {
    let numbers = ["status", "statusCode", "status_code", "httpStatus", "code"];
    let number = numbers.iter().find_map(|name| data.get(name)?.as_u64());
    if let Some(status) = number.and_then(http) {
        return Some(status);
    }
    let kinds = ["errorKind", "kind", "type", "status", "code"];
    let kind = kinds.iter().find_map(|name| data.get(name)?.as_str());
    if let Some(status) = kind.and_then(named) {
        return Some(status);
    }
    // Errors may be nested.
    data.get("error")
        .filter(|error| error.is_object())
        .and_then(status)
}

fn named(kind: &str) -> Option<u16> {
    Some(match kind.to_ascii_lowercase().as_str() {
        "rate_limit"
        | "rate_limit_error"
        | "rate_limit_exceeded"
        | "resource_exhausted"
        | "quota_exceeded"
        | "insufficient_quota" => 429,
        "overloaded" | "overloaded_error" => 529,
        "authentication_failed" | "authentication_error" | "unauthenticated" => 401,
        "billing_error" => 402,
        "permission_error" | "permission_denied" => 403,
        "not_found_error" | "model_not_found" => 404,
        "invalid_request" | "invalid_request_error" => 400,
        "server_error" | "api_error" => 500,
        _ => return None,
    })
}
