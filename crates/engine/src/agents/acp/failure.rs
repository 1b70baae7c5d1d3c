//! Why an agent failed, from an error of JSON-RPC (G8): in the words that decide what comes next.
//!
//! What must hold: a limit or an overload of the model is told from a mistake, whoever says it, so that the one is waited
//! for and the other is not repeated. Only errors are read so, never what the model or a tool said.

use serde_json::Value;

use super::super::event::{Limited, Verdict};
use super::super::{limit, short};
use super::wire::{AUTH_REQUIRED, Failure, INVALID_PARAMS, METHOD_NOT_FOUND};
use crate::os::clock;

const TEXT: usize = 2_000;

/// What an error comes to. `methods` are the ways to log in that the agent has named.
pub fn verdict(failure: &Failure, methods: &[String]) -> Verdict {
    let text = words(failure);
    let code = failure.code.as_i64();
    if code == Some(AUTH_REQUIRED) {
        return Verdict {
            is_error: true,
            reason: "auth_required".to_owned(),
            api_status: Some(401),
            text: short(&log_in(&text, methods), TEXT),
            ..Verdict::default()
        };
    }
    let status = status(&failure.data).or_else(|| guessed(&text));
    let (reason, retryable) = match status {
        Some(429 | 529) => ("rate_limit", true),
        Some(408 | 500..=599) => ("api_error", true),
        Some(_) => ("api_error", false),
        None if matches!(code, Some(INVALID_PARAMS | METHOD_NOT_FOUND)) => ("usage", false),
        None => ("api_error", false),
    };
    let limited = (reason == "rate_limit").then(|| Limited {
        until: limit::until(&text, clock::wall_ms()),
    });
    Verdict {
        is_error: true,
        reason: reason.to_owned(),
        api_status: status,
        retryable,
        limited,
        text: short(&text, TEXT),
        ..Verdict::default()
    }
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

/// The message, and what is told besides.
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

/// The HTTP status in an error's data, or that of the kind it names.
fn status(data: &Value) -> Option<u16> {
    let numbers = ["status", "statusCode", "status_code", "httpStatus", "code"];
    let number = numbers.iter().find_map(|name| data.get(name)?.as_u64());
    let fine = |number: &u64| (400..600).contains(number);
    if let Some(number) = number.filter(fine) {
        return u16::try_from(number).ok();
    }
    let kinds = ["errorKind", "kind", "type", "status", "code"];
    let kind = kinds.iter().find_map(|name| data.get(name)?.as_str());
    if let Some(status) = kind.and_then(named) {
        return Some(status);
    }
    // Errors come wrapped in errors.
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

/// From words for people, where there is nothing else.
fn guessed(text: &str) -> Option<u16> {
    let text = text.to_ascii_lowercase();
    let number = |wanted: &str| {
        text.split(|c: char| !c.is_ascii_alphanumeric())
            .any(|word| word == wanted)
    };
    let any = |wanted: &[&str]| wanted.iter().any(|wanted| text.contains(wanted));
    if number("529") || any(&["overloaded"]) {
        return Some(529);
    }
    if number("429")
        || any(&[
            "rate limit",
            "rate_limit",
            "ratelimit",
            "too many requests",
            "resource_exhausted",
            "quota",
            "usage limit",
        ])
    {
        return Some(429);
    }
    if number("401")
        || any(&[
            "unauthorized",
            "invalid api key",
            "invalid x-api-key",
            "authentication_error",
        ])
    {
        return Some(401);
    }
    // Any other number may be a line or a size.
    if !any(&["status", "api error", "http"]) {
        return None;
    }
    let others = [
        (400, "400"),
        (402, "402"),
        (403, "403"),
        (404, "404"),
        (413, "413"),
    ];
    let servers = [(500, "500"), (502, "502"), (503, "503"), (504, "504")];
    let mut all = others.iter().chain(&servers);
    all.find(|(_, word)| number(word)).map(|(status, _)| *status)
}
