//! Both sides of a conversation, line by line. Our side is compared with recorded conversations.

use std::path::Path;

use jit_core::model::cost::{Tokens, Usd};
use serde_json::{Value, json};

use super::listener::Client;
use super::{Acp, wire};
use crate::agent::{Agent as _, Stdin};
use crate::ask::{Ask, Permission, Question};
use crate::event::{AgentEvent, AgentVerdict};
use crate::job::{Job, Resume};
use crate::listener::{Listener, Reaction};

const OURS: &str = "s-1";

/// Allows everything but listed names and texts, and records all questions.
#[derive(Default)]
struct Judge {
    /// Texts that `may` objects to.
    against: Vec<&'static str>,
    /// Texts that `approve` allows.
    rules: Vec<&'static str>,
    asked: Vec<String>,
}

impl Ask for Judge {
    fn may(&mut self, question: &Question<'_>) -> Permission {
        let text = format!("{} {}", question.tool, question.input);
        self.asked.push(format!("may {text}"));
        match self.against.iter().find(|word| text.contains(**word)) {
            Some(word) => Permission::Deny(format!("{word} is locked by agent:bob")),
            None => Permission::Allow,
        }
    }

    fn approve(&mut self, question: &Question<'_>) -> Permission {
        if let no @ Permission::Deny(_) = self.may(question) {
            return no;
        }
        let text = format!("{} {}", question.tool, question.input);
        let cwd = question
            .cwd
            .map(|cwd| cwd.display().to_string())
            .unwrap_or_default();
        self.asked.push(format!("approve {text} in {cwd}"));
        match self.rules.iter().any(|word| text.contains(word)) {
            true => Permission::Allow,
            false => Permission::Deny("nobody is there".to_owned()),
        }
    }
}

struct Talk {
    _folder: tempfile::TempDir,
    job: Job,
    client: Client,
    judge: Judge,
    said: Vec<AgentEvent>,
    sent: Vec<Value>,
    hung_up: bool,
}

impl Talk {
    fn new(change: impl FnOnce(&mut Job)) -> Self {
        let (folder, mut job) = crate::test_job::job("do it");
        job.agent = "acp".into();
        job.command = vec!["agent".into(), "--acp".into()];
        job.dir = folder.path().canonicalize().expect("a path");
        change(&mut job);
        let Stdin::Open(first) = Acp.launch(&job).expect("a launch").stdin else {
            panic!("it is spoken to");
        };
        let first: Value = serde_json::from_slice(&first).expect("JSON");
        assert_eq!(
            (&first["id"], &first["method"]),
            (&json!(1), &json!("initialize"))
        );
        let client = Client::of(&job);
        Self {
            _folder: folder,
            job,
            client,
            judge: Judge::default(),
            said: Vec::new(),
            sent: Vec::new(),
            hung_up: false,
        }
    }

    /// In a session, with a turn in progress.
    fn at_work() -> Self {
        let mut talk = Self::new(|_| {});
        talk.hello(json!({}));
        talk.result(2, json!({ "sessionId": OURS }));
        assert_eq!(talk.sent.last().expect("a prompt")["method"], "session/prompt");
        talk.judge.asked.clear();
        talk
    }

    fn line(&mut self, line: &[u8]) -> Vec<Value> {
        let Reaction {
            said,
            answer,
            hang_up,
        } = self.client.line(line, &mut self.judge);
        self.said.extend(said);
        self.hung_up |= hang_up;
        let lines = answer
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        let sent: Vec<Value> = lines
            .map(|line| serde_json::from_slice(line).expect("JSON"))
            .collect();
        self.sent.extend(sent.clone());
        sent
    }

    fn hear(&mut self, message: Value) -> Vec<Value> {
        self.line(message.to_string().as_bytes())
    }

    fn hello(&mut self, capabilities: Value) -> Vec<Value> {
        self.result(
            1,
            json!({ "protocolVersion": 1, "agentCapabilities": capabilities, "authMethods": [
            { "id": "a", "name": "Log in with Example" }] }),
        )
    }

    fn result(&mut self, id: u64, result: Value) -> Vec<Value> {
        self.hear(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
    }

    fn error(&mut self, id: u64, error: Value) -> Vec<Value> {
        self.hear(json!({ "jsonrpc": "2.0", "id": id, "error": error }))
    }

    fn update(&mut self, update: Value) -> Vec<Value> {
        self.hear(json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": OURS, "update": update } }))
    }

    fn permission(&mut self, call: Value) -> Value {
        let mut answers = self.hear(question(json!(7), OURS, call));
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers.remove(0)
    }

    #[track_caller]
    fn verdict(&self) -> &AgentVerdict {
        let verdicts: Vec<&AgentVerdict> = self
            .said
            .iter()
            .filter_map(|said| match said {
                AgentEvent::Result { verdict } => Some(verdict),
                _ => None,
            })
            .collect();
        assert_eq!(verdicts.len(), 1, "{:?}", self.said);
        verdicts[0]
    }

    fn used(&self) -> (Tokens, Option<Usd>, u64) {
        let last = self.said.iter().rev().find_map(|said| match said {
            AgentEvent::Usage {
                tokens,
                cost_usd,
                turns,
                ..
            } => Some((*tokens, *cost_usd, *turns)),
            _ => None,
        });
        last.expect("usage")
    }
}

fn question(id: Value, session: &str, call: Value) -> Value {
    let mut call = call;
    if call["toolCallId"].is_null() {
        call["toolCallId"] = json!("t");
    }
    json!({ "jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": {
        "sessionId": session, "toolCall": call, "options": [
            // The names are wrong on purpose: only the kinds count.
            { "optionId": "always", "kind": "allow_always", "name": "Reject" },
            { "optionId": "yes", "kind": "allow_once", "name": "No" },
            { "optionId": "no", "kind": "reject_once", "name": "Yes" } ] } })
}

fn chosen(answer: &Value) -> &str {
    match answer["result"]["outcome"]["optionId"].as_str() {
        Some(option) => option,
        None => answer["result"]["outcome"]["outcome"].as_str().unwrap_or("error"),
    }
}

#[test]
fn g4_a_program_is_started_with_its_words_as_they_are_and_not_without_any() {
    let (_folder, mut job) = crate::test_job::job("--help");
    assert!(
        Acp.launch(&job)
            .expect_err("no program")
            .contains("needs a program")
    );
    job.command = vec!["bin/agent".into(), "$(rm -rf x)".into(), "--acp".into()];
    let launch = Acp.launch(&job).expect("a launch");
    assert_eq!(launch.program, job.dir.join("bin/agent").into_os_string());
    assert_eq!(launch.args, ["$(rm -rf x)", "--acp"]);
    assert!(
        !launch.args.iter().any(|arg| arg == "--help"),
        "words are not arguments"
    );
    job.prompt_file = "/nowhere".into();
    assert!(Acp.launch(&job).is_err());
}

#[test]
fn g5_a_session_is_begun_told_what_to_do_and_closed() {
    let mut talk = Talk::new(|_| {});
    let sent = talk.hello(json!({ "loadSession": true }));
    assert_eq!(
        sent,
        [json!({ "jsonrpc": "2.0", "id": 2, "method": "session/new",
            "params": { "cwd": talk.job.dir, "mcpServers": [] } })]
    );
    let sent = talk.result(
        2,
        json!({ "sessionId": OURS, "models": { "currentModelId": "m", "availableModels": [] } }),
    );
    assert_eq!(
        sent,
        [json!({ "jsonrpc": "2.0", "id": 3, "method": "session/prompt",
            "params": { "sessionId": OURS, "prompt": [{ "type": "text", "text": "do it" }] } })]
    );
    assert!(
        matches!(&talk.said[..], [AgentEvent::Started { session_id: Some(id), model: Some(model) }] if id == OURS && model == "m")
    );
    talk.update(
        json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "all " } }),
    );
    talk.update(
        json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "done" } }),
    );
    talk.result(3, json!({ "stopReason": "end_turn" }));
    let verdict = talk.verdict();
    assert_eq!(
        (verdict.is_error, &*verdict.reason, &*verdict.text),
        (false, "completed", "all done")
    );
    assert_eq!(verdict.session_id.as_deref(), Some(OURS));
    assert!(talk.hung_up && talk.client.end().is_empty() && talk.client.stop().is_empty());
}

#[test]
fn g7_each_stop_reason_has_its_verdict() {
    for (reason, expected) in [
        ("max_tokens", "max_tokens"),
        ("max_turn_requests", "max_turns"),
        ("refusal", "refusal"),
        ("cancelled", "cancelled"),
        ("something_new", "something_new"),
    ] {
        let mut talk = Talk::at_work();
        talk.result(3, json!({ "stopReason": reason }));
        assert_eq!(
            (talk.verdict().is_error, &*talk.verdict().reason),
            (true, expected)
        );
    }
    let mut talk = Talk::at_work();
    talk.result(3, json!({ "stopReason": 7 }));
    assert_eq!(talk.verdict().reason, "protocol_error");
    let mut talk = Talk::at_work();
    let said = talk.client.end();
    assert!(
        matches!(&said[..], [AgentEvent::Result { verdict }] if verdict.is_error && verdict.session_id.as_deref() == Some(OURS))
    );
}

#[test]
fn g10_an_earlier_session_is_gone_on_with_as_the_agent_offers() {
    let resumed = |fork| {
        move |job: &mut Job| {
            job.resume = Some(Resume {
                session: "old".into(),
                fork,
            });
            job.cost_before = Some(Usd(2_000));
        }
    };
    for (fork, can, method) in [
        (false, json!({ "loadSession": true }), "session/load"),
        (
            false,
            json!({ "loadSession": true, "sessionCapabilities": { "resume": {} } }),
            "session/resume",
        ),
        (
            true,
            json!({ "loadSession": true, "sessionCapabilities": { "resume": {}, "fork": {} } }),
            "session/fork",
        ),
    ] {
        let mut talk = Talk::new(resumed(fork));
        let sent = talk.hello(can);
        assert_eq!(
            (&sent[0]["method"], &sent[0]["params"]["sessionId"]),
            (&json!(method), &json!("old"))
        );
        // The replay of earlier messages yields no events.
        let old = |update: Value| json!({ "method": "session/update", "params": { "sessionId": "old", "update": update } });
        if method == "session/load" {
            talk.hear(old(json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "old words" } })));
            talk.hear(old(
                json!({ "sessionUpdate": "tool_call", "toolCallId": "x", "title": "old", "kind": "edit" }),
            ));
            assert!(talk.said.is_empty(), "{:?}", talk.said);
        }
        let answer = if fork {
            json!({ "sessionId": "new" })
        } else {
            json!(null)
        };
        let session = if fork { "new" } else { "old" };
        let sent = talk.result(2, answer);
        assert_eq!(
            (&sent[0]["method"], &sent[0]["params"]["sessionId"]),
            (&json!("session/prompt"), &json!(session))
        );
        // The cost of a session includes all its attempts.
        talk.hear(json!({ "method": "session/update", "params": { "sessionId": session, "update":
            { "sessionUpdate": "usage_update", "used": 5, "size": 9, "cost": { "amount": 0.005, "currency": "USD" } } } }));
        assert_eq!(talk.used().1, Some(Usd(3_000)));
    }
    for (fork, can) in [(false, json!({})), (true, json!({ "loadSession": true }))] {
        let mut talk = Talk::new(resumed(fork));
        assert_eq!(talk.hello(can), [] as [Value; 0]);
        assert_eq!(talk.verdict().reason, "session_lost");
    }
    let mut talk = Talk::new(resumed(false));
    talk.hello(json!({ "loadSession": true }));
    talk.error(2, json!({ "code": -32002, "message": "Resource not found: old" }));
    assert_eq!(
        (&*talk.verdict().reason, talk.verdict().retryable),
        ("session_lost", false)
    );
}

#[test]
fn g4_a_mode_and_a_model_are_set_where_they_are_offered_and_else_refused() {
    let wants = |job: &mut Job| {
        job.permission_mode = Some("careful".into());
        job.model = Some("large".into());
    };
    let opened = json!({ "sessionId": OURS,
        "modes": { "currentModeId": "x", "availableModes": [{ "id": "x", "name": "X" }, { "id": "careful", "name": "C" }] },
        "configOptions": [{ "id": "the-model", "name": "Model", "category": "model", "type": "select", "currentValue": "small",
            "options": [{ "group": "g", "name": "G", "options": [{ "value": "large", "name": "L" }] }] }] });
    let mut talk = Talk::new(wants);
    talk.hello(json!({}));
    let sent = talk.result(2, opened.clone());
    assert_eq!(
        (&sent[0]["method"], &sent[0]["params"]["modeId"]),
        (&json!("session/set_mode"), &json!("careful"))
    );
    let sent = talk.result(3, json!({}));
    assert_eq!(sent[0]["method"], "session/set_config_option");
    assert_eq!(
        sent[0]["params"],
        json!({ "sessionId": OURS, "configId": "the-model", "value": "large" })
    );
    assert_eq!(
        talk.result(4, json!({ "configOptions": [] }))[0]["method"],
        "session/prompt"
    );
    for lacks in ["modes", "configOptions"] {
        let mut less = opened.clone();
        less[lacks] = Value::Null;
        let mut talk = Talk::new(wants);
        talk.hello(json!({}));
        assert!(talk.result(2, less).is_empty());
        assert_eq!(talk.verdict().reason, "usage", "{lacks}");
    }
}

#[test]
fn f9_our_server_is_given_to_agents_that_may_use_it() {
    let mut talk = Talk::new(|job| job.vars = vec![("JIT_AGENT_ID".into(), "agent:a".into())]);
    talk.judge.rules = vec!["mcp__jit__"];
    let sent = talk.hello(json!({}));
    let server = &sent[0]["params"]["mcpServers"][0];
    assert_eq!(
        (&server["name"], &server["args"]),
        (&json!("jit"), &json!(["mcp"]))
    );
    assert!(
        server["command"]
            .as_str()
            .is_some_and(|path| Path::new(path).is_absolute())
    );
    assert_eq!(
        server["env"],
        json!([{ "name": "JIT_AGENT_ID", "value": "agent:a" }])
    );
}

#[test]
fn g8_who_wants_to_be_logged_in_and_who_speaks_another_version_is_told_of() {
    let mut talk = Talk::new(|_| {});
    talk.hello(json!({}));
    talk.error(2, json!({ "code": -32000, "message": "Authentication required" }));
    let verdict = talk.verdict();
    assert_eq!((verdict.api_status, verdict.retryable), (Some(401), false));
    assert!(
        verdict.text.contains("log in") && verdict.text.contains("Log in with Example"),
        "{}",
        verdict.text
    );
    for version in [json!(2), json!("1"), json!(0), json!(1.5)] {
        let mut talk = Talk::new(|_| {});
        talk.result(1, json!({ "protocolVersion": version }));
        assert_eq!(talk.verdict().reason, "usage", "{version}");
        assert!(talk.hung_up);
    }
}

#[test]
fn g8_limits_of_the_model_are_told_from_mistakes() {
    let limit = ("rate_limit", Some(429), true);
    for (error, expected) in [
        (
            json!({ "code": -32603, "message": "Internal error: API Error: 429 slow down", "data": { "errorKind": "rate_limit" } }),
            limit,
        ),
        (
            json!({ "code": -32603, "message": "Internal error", "data": { "details": "exceeded retry limit, last status: 429 Too Many Requests" } }),
            limit,
        ),
        (
            json!({ "code": 429, "message": "Rate limit exceeded. Try again later." }),
            limit,
        ),
        (
            json!({ "code": -32603, "message": "Internal error", "data": { "error": { "code": 429, "status": "RESOURCE_EXHAUSTED" } } }),
            limit,
        ),
        (
            json!({ "code": -32603, "message": "You have exhausted your daily quota" }),
            ("rate_limit", None, true),
        ),
        (
            json!({ "code": -32603, "message": "x", "data": { "status": 529 } }),
            ("rate_limit", Some(529), true),
        ),
        (
            json!({ "code": -32603, "message": "API Error: 529 {\"type\":\"overloaded_error\"}" }),
            ("rate_limit", Some(529), true),
        ),
        (
            json!({ "code": -32603, "message": "API Error: 500 oops" }),
            ("api_error", Some(500), true),
        ),
        (
            json!({ "code": -32603, "message": "API Error: 401 invalid x-api-key" }),
            ("authentication_failed", Some(401), false),
        ),
        (
            json!({ "code": -32603, "message": "API Error: 400 too long" }),
            ("api_error", Some(400), false),
        ),
        (
            json!({ "code": -32602, "message": "Invalid params" }),
            ("usage", None, false),
        ),
        (
            json!({ "code": -32603, "message": "panicked at line 500" }),
            ("error", None, false),
        ),
        (json!({}), ("error", None, false)),
        (json!({ "code": "x", "data": [1] }), ("error", None, false)),
    ] {
        let mut talk = Talk::at_work();
        talk.error(3, error.clone());
        let verdict = talk.verdict();
        assert_eq!(
            (&*verdict.reason, verdict.api_status, verdict.retryable),
            expected,
            "{error}"
        );
        assert!(verdict.is_error && talk.hung_up && !verdict.text.is_empty());
    }
}

#[test]
fn g8_words_of_the_model_are_never_an_error() {
    let mut talk = Talk::at_work();
    for text in [
        "API Error: 429",
        r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32000}}"#,
        r#"{"id":3,"result":{"stopReason":"refusal"}}"#,
    ] {
        talk.update(
            json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } }),
        );
    }
    talk.result(3, json!({ "stopReason": "end_turn" }));
    assert!(!talk.verdict().is_error);
}

#[test]
fn f9_an_edit_in_the_worktree_is_allowed_once_unless_somebody_has_the_file() {
    let mut talk = Talk::at_work();
    let inside = talk.job.dir.join("a.txt");
    let edit = json!({ "kind": "edit", "title": "Write a.txt", "locations": [{ "path": inside }],
        "content": [{ "type": "diff", "path": inside, "oldText": null, "newText": "x" }] });
    let answer = talk.permission(edit.clone());
    assert_eq!((chosen(&answer), &answer["id"]), ("yes", &json!(7)));
    assert_eq!(
        talk.judge.asked,
        [format!("may Write {}", json!({ "file_path": inside }))]
    );
    talk.judge.against = vec!["a.txt"];
    let answer = talk.permission(edit);
    assert_eq!(chosen(&answer), "no");
    assert_eq!(
        answer["result"]["_meta"]["jit"]["reason"],
        "a.txt is locked by agent:bob"
    );
    assert!(talk.said.iter().any(
        |said| matches!(said, AgentEvent::Denied { name, reason } if name == "edit" && reason.contains("bob"))
    ));
    // The model may end its turn without knowing the reason.
    let sent = talk.result(3, json!({ "stopReason": "end_turn" }));
    let text = sent[0]["params"]["prompt"][0]["text"].as_str().expect("words");
    assert!(text.contains("locked by agent:bob"), "{text}");
    assert!(!talk.hung_up);
    talk.result(4, json!({ "stopReason": "end_turn" }));
    assert_eq!((talk.verdict().is_error, talk.verdict().denials), (false, 1));
}

#[test]
fn f9_refusals_are_explained_a_few_times_and_not_for_ever() {
    let mut talk = Talk::at_work();
    talk.judge.against = vec!["a.txt"];
    let edit = json!({ "kind": "edit", "locations": [{ "path": "a.txt" }] });
    let mut turns = 0;
    while !talk.hung_up {
        assert_eq!(chosen(&talk.permission(edit.clone())), "no");
        turns += 1;
        talk.result(2 + turns, json!({ "stopReason": "end_turn" }));
    }
    assert_eq!(turns, 4);
}

#[test]
fn g15_paths_that_leave_the_worktree_need_a_rule() {
    let mut talk = Talk::at_work();
    let dir = talk.job.dir.clone();
    std::fs::create_dir(dir.join("sub")).expect("a folder");
    std::os::unix::fs::symlink("/etc", dir.join("out")).expect("a link");
    std::os::unix::fs::symlink("/nowhere/at/all", dir.join("hanging")).expect("a link");
    std::os::unix::fs::symlink("sub", dir.join("within")).expect("a link");
    for kind in ["edit", "delete", "move"] {
        for (path, inside) in [
            ("a.txt", true),
            ("sub/new/deep.txt", true),
            ("within/a.txt", true),
            ("/etc/passwd", false),
            ("../a.txt", false),
            ("sub/../../a.txt", false),
            ("out/passwd", false),
            ("hanging", false),
            ("hanging/below", false),
        ] {
            for path in [path.to_owned(), dir.join(path).display().to_string()] {
                let answer = talk.permission(
                    json!({ "kind": kind, "content": [{ "type": "diff", "path": path, "newText": "" }] }),
                );
                assert_eq!(
                    chosen(&answer),
                    if inside { "yes" } else { "no" },
                    "{kind} {path}"
                );
            }
        }
    }
    // One bad path among good ones.
    let answer =
        talk.permission(json!({ "kind": "edit", "locations": [{ "path": "a" }, { "path": "/etc/x" }] }));
    assert_eq!(chosen(&answer), "no");
    talk.judge.rules = vec!["Write"];
    assert_eq!(
        chosen(&talk.permission(json!({ "kind": "edit", "locations": [{ "path": "/etc/x" }] }))),
        "yes"
    );
}

#[test]
fn f9_all_that_is_seen_of_a_step_counts_whatever_it_is_called() {
    let mut talk = Talk::at_work();
    talk.judge.against = vec!["locked"];
    talk.judge.rules = vec!["git add", "WebFetch", "mcp__jit__status"];
    let cases = [
        (
            json!({ "kind": "read", "content": [{ "type": "diff", "path": "locked", "newText": "" }] }),
            "no",
        ),
        (
            json!({ "kind": "edit", "locations": [{ "path": "a" }], "rawInput": { "file_path": "locked" } }),
            "no",
        ),
        (
            json!({ "kind": "edit", "locations": [{ "path": "a" }], "rawInput": { "changes": { "locked": {} } } }),
            "no",
        ),
        (
            json!({ "kind": "think", "rawInput": { "command": "rm -rf x" } }),
            "no",
        ),
        (json!({ "kind": "think" }), "yes"),
        (json!({ "kind": "edit" }), "no"),
        (json!({ "kind": "edit", "title": "a.txt" }), "no"),
        (
            json!({ "kind": "execute", "title": "git add x", "rawInput": { "command": "rm x" } }),
            "no",
        ),
        (
            json!({ "kind": "execute", "title": "git add x", "rawInput": { "other": 1 } }),
            "no",
        ),
        (json!({ "kind": "execute", "title": "git add x" }), "yes"),
        (json!({ "kind": "execute", "title": "`git add x`" }), "yes"),
        (json!({ "kind": "execute", "title": "git add x…" }), "no"),
        (
            json!({ "kind": "execute", "rawInput": { "command": ["bash", "-lc", "git add x"] } }),
            "yes",
        ),
        (
            json!({ "kind": "execute", "rawInput": { "command": ["git", "add", 1] } }),
            "no",
        ),
        (json!({ "kind": "execute", "rawInput": { "command": 1 } }), "no"),
        (json!({ "kind": "execute" }), "no"),
        (
            json!({ "kind": "fetch", "rawInput": { "url": "https://x" } }),
            "yes",
        ),
        (json!({ "kind": "read", "locations": [{ "path": "a" }] }), "yes"),
        (
            json!({ "kind": "read", "locations": [{ "path": "/etc/shadow" }] }),
            "no",
        ),
        (json!({ "kind": "search" }), "yes"),
        (json!({ "kind": "search", "rawInput": { "path": "/etc" } }), "no"),
        (json!({ "kind": "switch_mode" }), "no"),
        (json!({ "kind": "dance" }), "no"),
        (json!({}), "no"),
        (json!({ "kind": "other", "name": "mcp__jit__status" }), "yes"),
        (
            json!({ "kind": "other", "_meta": { "claudeCode": { "toolName": "mcp__jit__status" } } }),
            "yes",
        ),
        (json!({ "kind": "edit", "locations": [{ "path": "" }] }), "no"),
        (
            json!({ "kind": "edit", "locations": [{ "path": "a\u{0}b" }] }),
            "no",
        ),
    ];
    for (n, (mut call, expected)) in cases.into_iter().enumerate() {
        call["toolCallId"] = json!(format!("t{n}"));
        assert_eq!(chosen(&talk.permission(call.clone())), expected, "{call}");
    }
    let many: Vec<Value> = (0..500).map(|n| json!({ "path": format!("f{n}") })).collect();
    assert_eq!(
        chosen(&talk.permission(json!({ "toolCallId": "many", "kind": "edit", "locations": many }))),
        "no"
    );
    // Words with special characters are quoted.
    talk.judge.rules = vec!["rm"];
    talk.permission(json!({ "toolCallId": "q", "kind": "execute", "rawInput": { "command": ["rm", "a b", "$(x)"], "cwd": "sub" } }));
    let last = talk.judge.asked.last().expect("asked");
    assert!(
        last.contains(r"rm 'a b' '$(x)'") && last.ends_with("/sub"),
        "{last}"
    );
}

#[test]
fn f9_what_was_said_of_a_tool_before_counts_where_the_question_leaves_it_out() {
    let mut talk = Talk::at_work();
    talk.judge.against = vec!["locked"];
    talk.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "title": "Write", "kind": "edit", "locations": [{ "path": "locked" }] }));
    assert_eq!(chosen(&talk.permission(json!({ "toolCallId": "t" }))), "no");
}

#[test]
fn f9_what_does_not_fit_is_refused_and_never_left_out() {
    for call in [
        json!({ "kind": "edit", "locations": [{ "path": "a" }], "content": [{ "type": "diff", "path": 7 }] }),
        json!({ "kind": "edit", "locations": [{ "path": "a" }, { "path": null }] }),
        json!({ "kind": "edit", "locations": [{ "path": "a" }], "content": [{ "type": "patch", "file": "b" }] }),
        json!({ "kind": 3 }),
    ] {
        let mut talk = Talk::at_work();
        assert_eq!(chosen(&talk.permission(call.clone())), "cancelled", "{call}");
    }
}

#[test]
fn f9_leave_is_never_given_for_good() {
    let mut talk = Talk::at_work();
    for (options, expected) in [
        (
            json!([{ "optionId": "always", "kind": "allow_always", "name": "Allow" }]),
            "cancelled",
        ),
        (
            json!([{ "optionId": "always", "kind": "allow_always", "name": "Allow" }, { "optionId": "never", "kind": "reject_always", "name": "x" }]),
            "never",
        ),
        (json!([]), "cancelled"),
        (
            json!([{ "optionId": "allow_once", "kind": "dance", "name": "allow_once" }]),
            "cancelled",
        ),
    ] {
        let mut message = question(
            json!(1),
            OURS,
            json!({ "kind": "edit", "locations": [{ "path": "a" }] }),
        );
        message["params"]["options"] = options.clone();
        let sent = talk.hear(message);
        assert_eq!(chosen(&sent[0]), expected, "{options}");
    }
}

#[test]
fn f9_every_request_gets_an_answer_with_its_own_id() {
    let ids = [
        "null",
        "\"a\\\"b\"",
        "0",
        "-1",
        "123456789012345678901234567890",
        "1.5e300",
        "{\"a\":[1]}",
        "\"\"",
    ];
    for id in ids {
        let mut talk = Talk::at_work();
        let ask = |method: &str, params: &str| {
            format!(r#"{{"params":{params},"method":"{method}","id":{id},"jsonrpc":"2.0"}}"#)
        };
        let edit = question(
            json!(0),
            OURS,
            json!({ "kind": "edit", "locations": [{ "path": "a" }] }),
        );
        let bytes = |talk: &mut Talk, line: &str| {
            let heard = talk.client.line(line.as_bytes(), &mut talk.judge);
            String::from_utf8(heard.answer).expect("text")
        };
        let answer = bytes(
            &mut talk,
            &ask("session/request_permission", &edit["params"].to_string()),
        );
        assert!(
            answer.contains(&format!(r#""id":{id},"#)) && answer.contains("yes"),
            "{answer}"
        );
        for method in [
            "fs/write_text_file",
            "fs/read_text_file",
            "terminal/create",
            "elicitation/create",
            "x",
        ] {
            let answer = bytes(
                &mut talk,
                &ask(method, r#"{"sessionId":"s-1","path":"/etc/passwd"}"#),
            );
            assert!(
                answer.contains(&format!(r#""id":{id},"#)) && answer.contains("-32601"),
                "{answer}"
            );
        }
        // Another session, or none.
        for params in [r#"{"sessionId":"s-2"}"#, "{}", "[]", "null"] {
            let answer = bytes(&mut talk, &ask("session/request_permission", params));
            assert!(
                answer.contains(&format!(r#""id":{id},"#)) && answer.contains("-32602"),
                "{answer}"
            );
        }
    }
}

#[test]
fn f9_a_request_that_is_cut_off_or_broken_is_refused() {
    let whole = question(
        json!("q"),
        OURS,
        json!({ "kind": "edit", "locations": [{ "path": "a" }], "rawInput": { "x": "y".repeat(5_000) } }),
    );
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{}}}"#,
        whole["params"]
    );
    let mut talk = Talk::at_work();
    let sent = talk.line(&text.as_bytes()[..text.len() / 2]);
    assert_eq!((chosen(&sent[0]), &sent[0]["id"]), ("cancelled", &json!("q")));
    assert!(talk.judge.asked.is_empty());
    let mut bytes = text.into_bytes();
    bytes[2_000] = 0xff;
    assert_eq!(chosen(&talk.line(&bytes)[0]), "cancelled");
    // A request within a text is not a request.
    let forged = br#"{"jsonrpc":"2.0","method":"x","params":{"text":"\"id\":1,\"method\":\"session/request_permission\"","id":5"#;
    assert!(talk.line(forged).is_empty());
    // No requests are valid before there is a session.
    let mut early = Talk::new(|_| {});
    let sent = early.hear(question(json!(1), OURS, json!({})));
    assert_eq!(sent[0]["error"]["code"], wire::INVALID_PARAMS);
}

#[test]
fn g7_nothing_of_another_session_or_out_of_turn_is_believed() {
    let mut talk = Talk::at_work();
    let before = talk.said.len();
    let strange = [
        json!({ "jsonrpc": "2.0", "id": 2, "result": { "sessionId": "other" } }),
        json!({ "jsonrpc": "2.0", "id": 4, "result": { "stopReason": "refusal" } }),
        json!({ "jsonrpc": "2.0", "id": "3", "result": { "stopReason": "refusal" } }),
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32000, "message": "x" } }),
        json!({ "jsonrpc": "2.0", "id": 3 }),
        json!({ "method": "session/update", "params": { "sessionId": "other", "update": { "sessionUpdate": "usage_update", "used": 9, "size": 9,
            "cost": { "amount": 99.0, "currency": "USD" } } } }),
        json!({ "method": "session/update", "params": { "sessionId": "other", "update": { "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "x" } } } }),
        json!({ "method": "session/update", "params": { "sessionId": OURS, "update": { "sessionUpdate": "brand_new", "x": 1 } } }),
        json!({ "method": "session/update", "params": { "sessionId": OURS } }),
        json!({ "method": "session/update" }),
        json!({ "method": "brand/new", "params": {} }),
        json!([{ "jsonrpc": "2.0", "id": 3, "result": { "stopReason": "refusal" } }]),
        json!("words"),
        json!(null),
    ];
    for message in &strange {
        assert!(talk.hear(message.clone()).is_empty(), "{message}");
    }
    for garbage in [
        &b"\xff\xfe"[..],
        b"{",
        b"Listening on stdio...",
        b"{\"id\":3,\"result\":",
        b"\x1b[31mred",
    ] {
        assert!(talk.line(garbage).is_empty());
    }
    let new = &talk.said[before..];
    assert_eq!(new.len(), strange.len() + 5, "{new:#?}");
    assert!(
        new.iter().all(|said| matches!(said, AgentEvent::Unknown { .. })),
        "{new:#?}"
    );
    talk.result(3, json!({ "stopReason": "end_turn" }));
    assert!(!talk.verdict().is_error);
    assert_eq!(talk.verdict().session_id.as_deref(), Some(OURS));
    assert_eq!(talk.used().1, None);
    // After the end nothing more is reported.
    talk.result(3, json!({ "stopReason": "refusal" }));
    assert!(!talk.verdict().is_error);
}

#[test]
fn g9_what_was_used_is_never_less_than_nothing_and_grows() {
    let mut talk = Talk::at_work();
    let usage = |used: Value, amount: f64, currency: &str| {
        json!({ "sessionUpdate": "usage_update", "used": used, "size": 10,
        "cost": { "amount": amount, "currency": currency } })
    };
    talk.update(usage(json!(100), 0.25, "USD"));
    assert_eq!(
        talk.used(),
        (
            Tokens {
                input: 100,
                output: 0
            },
            Some(Usd(250_000)),
            0
        )
    );
    talk.update(usage(json!(50), 0.2, "USD"));
    talk.update(usage(json!(-5), -1.0, "USD"));
    talk.update(usage(json!(null), 1e300, "USD"));
    talk.update(usage(json!("x"), 700.0, "JPY"));
    assert_eq!(
        talk.used(),
        (
            Tokens {
                input: 100,
                output: 0
            },
            Some(Usd(250_000)),
            0
        )
    );
    talk.result(3, json!({ "stopReason": "end_turn", "usage": { "inputTokens": 300, "outputTokens": 60, "cachedReadTokens": 5,
        "cachedWriteTokens": null, "totalTokens": 365 } }));
    assert_eq!(
        talk.used().0,
        Tokens {
            input: 305,
            output: 60
        }
    );
    let mut talk = Talk::at_work();
    talk.update(usage(json!(u64::MAX), 0.0, "USD"));
    talk.result(3, json!({ "stopReason": "end_turn", "usage": { "inputTokens": u64::MAX, "outputTokens": 1e30, "cachedReadTokens": u64::MAX } }));
    assert_eq!(talk.used().0.total(), u64::MAX);
    let mut talk = Talk::at_work();
    talk.result(3, json!({ "stopReason": "end_turn", "_meta": { "quota": { "token_count": { "input_tokens": 300, "output_tokens": 60 } } } }));
    assert_eq!(
        talk.used().0,
        Tokens {
            input: 300,
            output: 60
        }
    );
}

#[test]
fn g10_it_is_asked_to_stop_and_its_questions_are_cancelled_then() {
    let mut talk = Talk::at_work();
    let words: Value = serde_json::from_slice(&talk.client.stop()).expect("JSON");
    assert_eq!(
        words,
        json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": OURS } })
    );
    assert_eq!(
        chosen(&talk.permission(json!({ "kind": "edit", "locations": [{ "path": "a" }] }))),
        "cancelled"
    );
    talk.result(3, json!({ "stopReason": "cancelled" }));
    assert_eq!(talk.verdict().reason, "cancelled");
    assert!(talk.hung_up);
    let mut early = Talk::new(|_| {});
    assert!(early.client.stop().is_empty());
}

#[test]
fn g7_recorded_conversations_say_what_they_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/streams/acp");
    for (file, rules, expected) in [
        (
            "claude-agent-acp.jsonl",
            &["git add"][..],
            (
                Tokens {
                    input: 300,
                    output: 60,
                },
                Some(Usd(3_000)),
                3,
            ),
        ),
        (
            "gemini.jsonl",
            &["git add"],
            (
                Tokens {
                    input: 300,
                    output: 60,
                },
                None,
                3,
            ),
        ),
        (
            "codex-acp.jsonl",
            &[],
            (
                Tokens {
                    input: 120,
                    output: 0,
                },
                None,
                1,
            ),
        ),
    ] {
        let text = std::fs::read_to_string(folder.join(file)).expect(file);
        let mut talk = Talk::new(|_| {});
        let text = text.replace("/repo", &talk.job.dir.display().to_string());
        talk.judge.rules = rules.to_vec();
        let mut ours = Vec::new();
        for line in text.lines() {
            match line.split_at(2) {
                ("< ", line) => {
                    talk.line(line.as_bytes());
                }
                ("> ", line) => ours.push(serde_json::from_str::<Value>(line).expect(file)),
                _ => panic!("{file}: {line}"),
            }
        }
        let first: Value = serde_json::from_slice(&wire::initialize()).expect("JSON");
        assert_eq!(
            ours[0]["params"]["clientCapabilities"],
            first["params"]["clientCapabilities"]
        );
        assert_eq!(ours[1..], talk.sent[..], "{file}");
        assert_eq!(
            (talk.verdict().is_error, talk.used()),
            (false, expected),
            "{file}"
        );
        assert!(
            !talk
                .said
                .iter()
                .any(|said| matches!(said, AgentEvent::Unknown { .. })),
            "{file}: {:#?}",
            talk.said
        );
        let done = talk
            .said
            .iter()
            .filter(|said| matches!(said, AgentEvent::ToolDone { failed: false, .. }))
            .count();
        assert_eq!(done, rules.len() * 2, "{file}: {:#?}", talk.said);
    }
}

/// The state of tools that never end is bounded in bytes, not by their number.
#[test]
fn g7_what_is_remembered_about_tools_is_bounded_in_bytes() {
    let mut talk = Talk::at_work();
    let large = "x".repeat(600 << 10);
    // Small as text, large in memory.
    let many: Vec<u8> = vec![0; 60_000];
    for n in 0..40 {
        let input = if n % 2 == 0 {
            json!({ "content": large })
        } else {
            json!(many)
        };
        talk.update(
            json!({ "sessionUpdate": "tool_call", "toolCallId": format!("t{n}"), "kind": "edit", "rawInput": input }),
        );
    }
    let beyond = |said: &&AgentEvent| matches!(said, AgentEvent::Unknown { line } if line.contains("beyond"));
    let beyond = talk.said.iter().filter(beyond).count();
    assert!((30..40).contains(&beyond), "{beyond}");
    // New information replaces the old, and a tool that has ended frees its memory.
    let mut talk = Talk::at_work();
    for n in 0..40 {
        let call = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "one", "rawInput": { "content": large } });
        talk.update(call);
        let id = format!("t{n}");
        for status in ["in_progress", "completed"] {
            talk.update(
                json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "status": status,
                "rawInput": { "content": large } }),
            );
        }
    }
    assert!(
        !talk
            .said
            .iter()
            .any(|said| matches!(said, AgentEvent::Unknown { .. })),
        "{:?}",
        talk.said.len()
    );
    // A request that is too large to keep is denied, and not judged by a part of it.
    let mut talk = Talk::at_work();
    let answer = talk.permission(json!({ "kind": "edit", "rawInput": (0..200_000).collect::<Vec<u32>>() }));
    assert_ne!(chosen(&answer), "yes");
}
