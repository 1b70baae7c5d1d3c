//! The tools: at most ten, described in as few words as an agent needs to use them (I4).
//!
//! What must hold:
//! - The whole list costs a model at most 1,500 tokens.
//! - An unknown or ill-typed argument is refused by name.
//! - Lists have few fields, and empty fields of an issue are left out.
//!
//! Format of the schemas: hand-written JSON, to keep it short. The test `i4_the_schemas_say…` compares them with the real
//! arguments.

mod claims;
mod issues;
mod locks;
mod overview;

use jit_core::model::duration::parse_secs;
use jit_core::model::ids::{BadId, IssuePrefix};
use jit_core::model::refusal::{Code, Refusal};
use jit_core::query::claim_views::LeaseView;
use jit_engine::api::Options;
use jit_engine::api::setup::{SetupReply, SetupRequest};
use jit_engine::api::{Reply, Request};
use jit_store::Outcome;
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::lease_keeper::LeaseKeeper;

pub struct Tool {
    pub name: &'static str,
    about: &'static str,
    /// The properties of its arguments, as JSON.
    takes: &'static str,
    needs: &'static [&'static str],
    pub run: fn(&mut ToolCall<'_>, JsonObject) -> Outcome<Value>,
}

static TABLE: &[&Tool] = &[
    &overview::READY,
    &claims::CLAIM,
    &claims::RELEASE,
    &issues::SHOW,
    &issues::CREATE,
    &issues::UPDATE,
    &issues::COMMENT,
    &locks::LOCK,
    &locks::UNLOCK,
    &overview::STATUS,
];

pub fn find(name: &str) -> Option<&'static Tool> {
    TABLE.iter().copied().find(|tool| tool.name == name)
}

pub fn names() -> String {
    let names: Vec<&str> = TABLE.iter().map(|tool| tool.name).collect();
    names.join(", ")
}

pub fn list() -> Vec<rmcp::model::Tool> {
    TABLE.iter().map(|tool| tool.described()).collect()
}

impl Tool {
    fn described(&self) -> rmcp::model::Tool {
        let takes: Value = serde_json::from_str(self.takes).unwrap_or_default();
        let mut schema = JsonObject::new();
        schema.insert("type".into(), "object".into());
        schema.insert("properties".into(), takes);
        if !self.needs.is_empty() {
            schema.insert("required".into(), self.needs.into());
        }
        rmcp::model::Tool::new(self.name, self.about, schema)
    }
}

/// One call of a tool, with its access to the engine.
#[derive(Debug)]
pub struct ToolCall<'a> {
    options: &'a Options,
    keeper: &'a LeaseKeeper,
    pub warnings: Vec<String>,
}

impl<'a> ToolCall<'a> {
    pub fn new(options: &'a Options, keeper: &'a LeaseKeeper) -> Self {
        Self {
            options,
            keeper,
            warnings: Vec::new(),
        }
    }

    /// Opens the repository for each request: settings, branch and identity may have changed since the last one.
    fn ask(&mut self, request: impl Into<Request>) -> Outcome<Reply> {
        let answered = jit_engine::handle::ask(self.options, request);
        let warnings = match &answered {
            Ok(answer) => &answer.warnings,
            Err(refusal) => &refusal.warnings,
        };
        for warning in warnings {
            // Two requests of one call may give the same warning.
            if !self.warnings.contains(warning) {
                self.warnings.push(warning.clone());
            }
        }
        answered.map(|answer| answer.reply)
    }

    fn is_mine(&mut self, lease: &LeaseView) -> Outcome<bool> {
        match self.ask(SetupRequest::Whoami)? {
            Reply::Setup(SetupReply::Caller(me)) => {
                Ok(me.agent_id == lease.agent_id && me.worktree_id == lease.worktree_id)
            }
            other => Err(unexpected(&other)),
        }
    }
}

/// Parses the arguments.
fn read<T: DeserializeOwned>(given: JsonObject) -> Outcome<T> {
    serde_json::from_value(Value::Object(given)).map_err(invalid)
}

fn invalid(why: impl ToString) -> Box<Refusal> {
    Box::new(Refusal::new(Code::Invalid, why.to_string()))
}

/// The engine gave another reply than the request has: a bug.
fn unexpected(reply: &Reply) -> Box<Refusal> {
    let shown: String = format!("{reply:?}").chars().take(80).collect();
    Box::new(Refusal::new(Code::Io, format!("an unexpected answer: {shown}")))
}

/// An issue, by its id or a prefix of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
struct Named(IssuePrefix);

impl TryFrom<String> for Named {
    type Error = BadId;

    fn try_from(text: String) -> Result<Self, BadId> {
        text.parse().map(Self)
    }
}

fn all_named(given: Option<Vec<Named>>) -> Vec<IssuePrefix> {
    given
        .unwrap_or_default()
        .into_iter()
        .map(|named| named.0)
        .collect()
}

/// A length of time: `"30m"`, or seconds.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Length {
    Seconds(u64),
    Text(String),
}

fn seconds(length: Option<Length>) -> Outcome<Option<u64>> {
    match length {
        None => Ok(None),
        Some(Length::Seconds(secs)) => Ok(Some(secs)),
        Some(Length::Text(text)) => parse_secs(&text).map(Some).map_err(invalid),
    }
}

/// Leaves out fields that are null or empty lists.
fn without_blanks(value: Value) -> Value {
    let blank = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    match value {
        Value::Object(fields) => fields.into_iter().filter(|(_, value)| !blank(value)).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed() -> String {
        let list = rmcp::model::ListToolsResult::with_all_items(list());
        serde_json::to_string(&list).expect("JSON")
    }

    /// Words and single signs of punctuation: more than any tokenizer in use makes of such text.
    fn pieces(text: &str) -> usize {
        let mut count = 0;
        let mut in_word = false;
        for c in text.chars() {
            let word = c.is_alphanumeric();
            count += usize::from(!word && !c.is_whitespace()) + usize::from(word && !in_word);
            in_word = word;
        }
        count
    }

    #[test]
    fn i4_the_whole_list_of_tools_is_at_most_1500_tokens() {
        let list = listed();
        assert!(TABLE.len() <= 10);
        assert!(list.len().div_ceil(4) <= 1500, "{} bytes: {list}", list.len());
        assert!(pieces(&list) <= 1500, "{} pieces: {list}", pieces(&list));
    }

    #[test]
    fn i4_descriptions_are_one_line() {
        for tool in TABLE {
            assert!(
                !tool.about.contains('\n') && tool.about.len() <= 160,
                "{}",
                tool.name
            );
        }
    }

    /// A value that the schema of an argument allows.
    fn sample(schema: &Value) -> Value {
        match schema["type"].as_str() {
            Some("string") => schema["enum"].get(0).cloned().unwrap_or("1".into()),
            Some("integer") => 1.into(),
            Some("boolean") => true.into(),
            Some("array") => Value::Array(vec![sample(&schema["items"])]),
            other => panic!("a type the test does not know: {other:?}"),
        }
    }

    #[test]
    fn i4_the_schemas_say_what_the_arguments_are() {
        // Nothing can be done here: the arguments are read before anybody looks for a repository.
        let nowhere = Options {
            dir: Some("/nonexistent".into()),
            ..Options::default()
        };
        let keeper = LeaseKeeper::default();
        let refused = |tool: &Tool, given: JsonObject| {
            let done = (tool.run)(&mut ToolCall::new(&nowhere, &keeper), given);
            done.expect_err("there is no repository")
        };
        for tool in TABLE {
            let takes: JsonObject = serde_json::from_str(tool.takes).expect(tool.name);
            let all: JsonObject = takes
                .iter()
                .map(|(name, schema)| (name.clone(), sample(schema)))
                .collect();
            assert_eq!(
                refused(tool, all.clone()).code,
                Code::NotFound,
                "{}: {all:?}",
                tool.name
            );
            for name in tool.needs {
                let mut fewer = all.clone();
                assert!(fewer.remove(*name).is_some(), "{} {name}", tool.name);
                let why = refused(tool, fewer);
                assert_eq!(why.code, Code::Invalid, "{} {name}: {why:?}", tool.name);
                assert!(why.message.contains(name), "{why:?}");
            }
            for name in takes.keys() {
                let mut odd = all.clone();
                odd.insert(name.clone(), Value::Object(JsonObject::new()));
                assert_eq!(refused(tool, odd).code, Code::Invalid, "{} {name}", tool.name);
            }
            let mut more = all.clone();
            more.insert("surprise".into(), 1.into());
            let why = refused(tool, more);
            assert!(
                why.code == Code::Invalid && why.message.contains("surprise"),
                "{why:?}"
            );
        }
    }
}
