//! `jit config`: shows and changes settings.
//!
//! This file has the table of verbs, the JSON form of a setting, and the caveat about rights of agents.

mod get;
mod set;
mod show;

use crate::grammar::{Verb, verb};

pub const VERBS: &[Verb] = &[
    verb!("show", "Every setting", show),
    verb!("get", "One setting", get),
    verb!("set", "Change a setting", set),
];

/// Converts the value of a setting to JSON.
fn value(setting: &jit_engine::config::keys::Value) -> serde_json::Value {
    use jit_engine::config::keys::Value;
    match setting {
        Value::Text(text) => text.clone().into(),
        Value::Word(word) => (*word).into(),
        Value::Int(number) => (*number).into(),
        Value::Dollars(usd) => serde_json::json!(usd),
        Value::Flag(flag) => (*flag).into(),
        Value::List(items) => items.clone().into(),
    }
}

/// Returns a caveat for a right of agents in the repository's own file, because anybody could have written it there.
fn caveat(key: &str, value: &jit_engine::config::keys::Value) -> Option<String> {
    use jit_engine::config::keys::Value;
    let when = match key {
        "agents.may_trust" => "not in the repository's own file: jit config set --user agents.may_trust true",
        "agents.may_pass_gates" | "agents.may_force_evict" => "once it is committed, here and on the target",
        _ => return None,
    };
    (*value == Value::Flag(true)).then(|| format!("this counts for agents {when}"))
}

fn refusal(e: &jit_engine::config::ConfigError) -> Box<jit_core::model::refusal::Refusal> {
    use jit_core::model::refusal::{Code, Refusal};
    Box::new(Refusal::new(Code::Config, e.to_string()).help("jit config show --origin"))
}
