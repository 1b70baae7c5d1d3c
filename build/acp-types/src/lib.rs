//! Conversations of the Agent Client Protocol, shortened by hand from recorded ones, read with the official types.
//!
//! The engine has types of its own for these messages (its module `agents::acp` says why), and tests that it says what
//! stands in `crates/agents/tests/streams/acp` word for word. Here each of those lines, of both sides, has to be what the
//! official types take it for; of our own side nothing may be left over that they do not know.

#![cfg(test)]

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use agent_client_protocol_schema::v1;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn read<T: DeserializeOwned>(value: &Value, at: &str) -> T {
    T::deserialize(value).unwrap_or_else(|error| panic!("{at}: {error}: {value}"))
}

/// Reads it, and finds all of it again; the types may add what they take for granted.
fn whole<T: DeserializeOwned + Serialize>(value: &Value, at: &str) {
    let read: T = read(value, at);
    let known = serde_json::to_value(read).expect("JSON");
    assert!(has(&known, value), "{at}: {value} is more than {known}");
}

fn has(all: &Value, part: &Value) -> bool {
    match (all, part) {
        (Value::Object(all), Value::Object(part)) => part
            .iter()
            .all(|(name, value)| all.get(name).is_some_and(|all| has(all, value))),
        (Value::Array(all), Value::Array(part)) => {
            all.len() == part.len() && all.iter().zip(part).all(|(all, part)| has(all, part))
        }
        _ => all == part,
    }
}

fn ours(method: &str, params: &Value, at: &str) {
    match method {
        "initialize" => whole::<v1::InitializeRequest>(params, at),
        "session/new" => whole::<v1::NewSessionRequest>(params, at),
        "session/prompt" => whole::<v1::PromptRequest>(params, at),
        other => panic!("{at}: {other} is not ours"),
    }
}

fn answered(method: &str, result: &Value, at: &str) {
    match method {
        "initialize" => drop(read::<v1::InitializeResponse>(result, at)),
        "session/new" => drop(read::<v1::NewSessionResponse>(result, at)),
        "session/prompt" => drop(read::<v1::PromptResponse>(result, at)),
        other => panic!("{at}: {other} was not asked"),
    }
}

fn theirs(method: &str, params: &Value, at: &str) {
    match method {
        "session/update" => drop(read::<v1::SessionNotification>(params, at)),
        "session/request_permission" => drop(read::<v1::RequestPermissionRequest>(params, at)),
        other => panic!("{at}: {other} is not theirs"),
    }
}

#[test]
fn g5_recorded_conversations_are_of_the_protocol() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/agents/tests/streams/acp");
    let mut lines = 0;
    for file in fs::read_dir(folder).expect("a folder") {
        let path = file.expect("a file").path();
        let mut asked = HashMap::new();
        for (n, line) in fs::read_to_string(&path).expect("text").lines().enumerate() {
            let at = format!("{}:{}", path.display(), n + 1);
            let (side, line) = line.split_at(2);
            let line: Value = serde_json::from_str(line).expect(&at);
            match (side, line["method"].as_str()) {
                ("> ", Some(method)) => {
                    ours(method, &line["params"], &at);
                    asked.insert(line["id"].to_string(), method.to_owned());
                }
                ("> ", None) => whole::<v1::RequestPermissionResponse>(&line["result"], &at),
                (_, Some(method)) => theirs(method, &line["params"], &at),
                (_, None) => answered(&asked[&line["id"].to_string()], &line["result"], &at),
            }
            lines += 1;
        }
    }
    assert!(lines > 30, "{lines}");
}
