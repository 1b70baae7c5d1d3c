//! `jit config`: settings, and where each one comes from.

mod get;
mod set;
mod show;

use super::{Verb, verb};

pub const VERBS: &[Verb] = &[
    verb!("show", "Every setting", show),
    verb!("get", "One setting", get),
    verb!("set", "Change a setting", set),
];

/// As JSON has it.
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

fn refusal(e: &jit_engine::config::ConfigError) -> Box<jit_core::refusal::Refusal> {
    use jit_core::refusal::{Code, Refusal};
    Box::new(Refusal::new(Code::Config, e.to_string()).help("jit config show --origin"))
}
