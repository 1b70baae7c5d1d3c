//! Requests and replies travel as JSON both ways.

use std::sync::Arc;

use jit_agents::hooks::{HookEvent, Program};
use jit_agents::mcp_settings::{InstallScope, McpClient};
use jit_core::decide::command::{IssueChange, Target};
use jit_core::log::event::{Event, SegmentReason, Stamped};
use jit_core::model::actor::Actor;
use jit_core::model::time::Wall;
use serde_json::{Value, json};

use super::*;
use crate::api::claims::Released;
use crate::api::content::FileSource;
use crate::api::doctor::{Problem, Recovered};
use crate::api::facts::TreeScope;
use crate::api::file_locks::{LockPaths, OwnLocks};
use crate::api::issues::{Import, IssueFilter, Sort, Tracker};
use crate::api::rescue::Force;
use crate::api::stream::{LoggedEvent, StreamItem, Subscribe};

fn prefix() -> jit_core::model::ids::IssuePrefix {
    "WI-1".parse().expect("a name")
}

fn file() -> FileSource {
    FileSource {
        path: "-".into(),
        content: Some(b"[]".to_vec().into()),
    }
}

/// Every noun is there at least once, and every kind of field.
fn requests() -> Vec<Request> {
    vec![
        ClaimRequest::Acquire {
            issue: prefix(),
            ttl_secs: Some(60),
            wait_secs: None,
            note: Some("why".into()),
            on_behalf_of: Some("agent:boss".parse().expect("an agent")),
        }
        .into(),
        ClaimRequest::Renew {
            target: Target::parse("WI-1").expect("a target"),
            ttl_secs: None,
        }
        .into(),
        IssueRequest::Change {
            issue: prefix(),
            change: Box::new(IssueChange {
                parent: Some(None),
                blocked: Some(Some("rain".into())),
                ..IssueChange::default()
            }),
            description: None,
            strict: true,
        }
        .into(),
        IssueRequest::List {
            filter: IssueFilter::default(),
            sort: Sort::Priority,
            limit: Some(3),
        }
        .into(),
        IssueRequest::Blocked.into(),
        GateRequest::List { issue: None }.into(),
        TrustRequest::Revoke.into(),
        OverviewRequest::Status.into(),
        UnitRequest::Create(Box::default()).into(),
        UnitRequest::Finish { unit: None, pr: true }.into(),
        AttemptRequest::Dispatch(Box::default()).into(),
        AttemptRequest::KeepAlive {
            unit: "wi-1".parse().expect("a unit"),
            attempt: 2,
            session: None,
        }
        .into(),
        WorkflowRequest::List { all: true }.into(),
        WorkflowRequest::Plan(Box::default()).into(),
        LandingRequest::Conflicts {
            into: None,
            branches: vec!["a".into()],
        }
        .into(),
        RescueRequest::Cleanup {
            unit: None,
            force: Force::Locked,
        }
        .into(),
        SessionRequest::Start(Box::default()).into(),
        FileLockRequest::Acquire {
            paths: LockPaths {
                paths: vec!["src/a.rs".into()],
                ..LockPaths::default()
            },
            wait_secs: Some(1),
        }
        .into(),
        FileLockRequest::Release { which: OwnLocks::All }.into(),
        HookRequest::Verify {
            range: "main..".into(),
        }
        .into(),
        HookRequest::Run {
            hook: "pre-push".into(),
            args: vec!["origin".into()],
            input: b"\xff".to_vec().into(),
        }
        .into(),
        HookRequest::AgentEvent {
            program: Program::Claude,
            event: HookEvent::BeforeTool,
            input: b"{}".to_vec().into(),
        }
        .into(),
        GateRequest::DefineExported { file: file() }.into(),
        IssueRequest::Import(Arc::new(Import {
            from: Tracker::Backlog,
            file: file(),
            dry_run: true,
        }))
        .into(),
        NotifyRequest::Test.into(),
        SetupRequest::McpServer {
            client: McpClient::VsCode,
            scope: Some(InstallScope::User),
            install: true,
            write: false,
            seen: None,
        }
        .into(),
        ConfigRequest::Show.into(),
        DoctorRequest::CheckFile {
            schema: "plan".into(),
            file: "plan.yaml".into(),
        }
        .into(),
    ]
}

#[test]
fn i1_a_request_comes_back_from_json_as_it_was() {
    for request in requests() {
        let text = serde_json::to_string(&request).expect("JSON");
        let back: Request = serde_json::from_str(&text).expect(&text);
        assert_eq!(format!("{back:?}"), format!("{request:?}"), "{text}");
    }
    let asked = json!({ "claims": { "acquire": { "issue": "WI-1" } } });
    let asked: Request = serde_json::from_value(asked).expect("options may be left out");
    assert!(asked.facts().writes && asked.facts().leases);
}

/// An item of a stream says where to go on behind it, and comes back from JSON as it was.
#[test]
fn i1_subscriptions_and_their_items_travel_as_json() {
    let subscribe = Subscribe::Events {
        since: None,
        kinds: vec!["claim".into()],
        after: 7,
        follow: true,
    };
    let text = serde_json::to_string(&subscribe).expect("JSON");
    let back: Subscribe = serde_json::from_str(&text).expect("a subscription");
    assert_eq!(format!("{back:?}"), format!("{subscribe:?}"));
    assert!(!back.facts().writes, "a reader of the log changes nothing");
    let wrong = json!({ "events": { "kinds": [], "after": -1, "follow": true } });
    assert!(serde_json::from_value::<Subscribe>(wrong).is_err());

    let event = LoggedEvent(Stamped {
        sequence: 8,
        at: Wall::from_ms(1_000),
        actor: Actor {
            agent_id: "agent:a".parse().expect("an agent"),
            worktree_id: None,
        },
        request: None,
        part: (1, 1),
        event: Event::SegmentStarted {
            reason: SegmentReason::Created,
        },
    });
    assert!(event.value().get("sum").is_none(), "{}", event.value());
    let item = StreamItem::Event(Box::new(event.clone()));
    assert_eq!(item.position(), Some(8));
    let text = serde_json::to_string(&item).expect("JSON");
    match serde_json::from_str(&text).expect("an item") {
        StreamItem::Event(back) => assert_eq!(*back, event),
        other => panic!("{other:?}"),
    }
    assert!(serde_json::from_value::<StreamItem>(json!({ "event": { "sequence": 8 } })).is_err());
}

#[test]
fn i1_a_request_that_is_wrong_is_refused() {
    for wrong in [
        json!({ "claims": { "acquire": { "issue": "WI-1", "tll_secs": 5 } } }),
        json!({ "claims": { "acquire": { "issue": "not an id" } } }),
        json!({ "claims": { "steal": {} } }),
        json!({ "sheep": "count" }),
        json!({ "units": { "create": { "what": "a", "whta": "b" } } }),
    ] {
        assert!(
            serde_json::from_value::<Request>(wrong.clone()).is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn i1_a_reply_is_tagged_for_programs_and_bare_for_the_command_line() {
    let reply = Reply::from(ClaimReply::Released(Released { released: Vec::new() }));
    assert_eq!(
        serde_json::to_value(&reply).expect("JSON"),
        json!({ "claims": { "released": { "released": [] } } })
    );
    assert_eq!(
        serde_json::to_value(reply.value()).expect("JSON"),
        json!({ "released": [] })
    );
    let text = serde_json::to_string(&reply).expect("JSON");
    let back: Reply = serde_json::from_str(&text).expect("a reply");
    assert_eq!(serde_json::to_string(&back).expect("JSON"), text);
}

#[test]
fn i1_replies_without_a_tag_are_told_by_their_fields() {
    fn back<T: Serialize + serde::de::DeserializeOwned>(value: Value) -> T {
        let read: T = serde_json::from_value(value.clone()).expect("a reply");
        assert_eq!(serde_json::to_value(&read).expect("JSON"), value);
        read
    }
    let mut problem = json!({ "check": "log", "heals": true, "help": "h", "message": "m" });
    assert!(matches!(back(problem.clone()), Problem::Log(_)));
    problem["file"] = Value::Null;
    problem["line"] = json!(3);
    assert!(matches!(back(problem.clone()), Problem::Issue(_)));
    problem["column"] = Value::Null;
    assert!(matches!(back(problem), Problem::Config(_)));
    let sound = json!({ "lines": 3, "mended": [], "salvaged": false });
    assert!(matches!(back(sound), Recovered::Sound { .. }));
    let salvaged = json!({ "backup": "b", "issues": 0, "leases": 0, "lost": 1, "salvaged": true });
    assert!(matches!(back(salvaged), Recovered::Salvaged { .. }));
}

#[test]
fn i1_the_facts_say_what_a_request_needs() {
    let facts = |request: Request| request.facts();
    let show = facts(IssueRequest::Show { issue: prefix() }.into());
    assert!(!show.writes && matches!(&show.tree, TreeScope::Named(names) if names.len() == 1));
    let status = facts(
        UnitRequest::Status {
            unit: None,
            all: false,
        }
        .into(),
    );
    assert!(!status.writes, "a status changes nothing");
    assert!(
        facts(
            UnitRequest::Settle {
                unit: None,
                all: false
            }
            .into()
        )
        .writes
    );
}

/// Both have a schema in which every request that is written above is named.
#[test]
fn i1_requests_and_replies_have_schemas() {
    let schema = serde_json::to_string(&schemars::schema_for!(Request)).expect("JSON");
    for request in requests() {
        let Value::Object(tagged) = serde_json::to_value(&request).expect("JSON") else {
            panic!("{request:?}");
        };
        let noun = tagged.keys().next().expect("a noun");
        assert!(schema.contains(&format!("{noun:?}")), "{noun}");
    }
    let replies = serde_json::to_string(&schemars::schema_for!(Reply)).expect("JSON");
    assert!(replies.contains("\"bytes\"") || schema.contains("\"bytes\""));
}
