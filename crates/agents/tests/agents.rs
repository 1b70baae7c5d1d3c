//! Replays output that a real Claude Code printed, line by line (G5, G7, G9, G10).

use std::fs;
use std::path::{Path, PathBuf};

use jit_agents::event::{AgentEvent, AgentVerdict};
use jit_agents::job::{Job, Resume};
use jit_agents::{Ask, Listener, Permission, Question, Reaction, by_name};
use jit_core::model::cost::{Tokens, Usd};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The id of the recorded session that was resumed.
const SESSION: &str = "588aabf9-7701-443b-8c60-af62c3902d9c";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/claude")
}

fn lines(name: &str) -> Vec<Vec<u8>> {
    let text = fs::read(folder().join(name)).expect(name);
    text.split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(<[u8]>::to_vec)
        .collect()
}

fn job(resumed: bool, one_shot: bool) -> Job {
    Job {
        unit: "u".parse().expect("a unit"),
        attempt: 1,
        agent: "claude".into(),
        worker: "agent:u-1".parse().expect("an agent"),
        dir: "/tree".into(),
        prompt_file: folder().join("happy.jsonl"),
        command: Vec::new(),
        vars: Vec::new(),
        session: None,
        resume: resumed.then(|| Resume {
            session: SESSION.into(),
            fork: false,
        }),
        cost_before: None,
        meter_before: None,
        prices: Vec::new(),
        model: None,
        allowed_tools: Vec::new(),
        permission_mode: None,
        one_shot,
        max_turns: None,
        budget: None,
        budget_tokens: None,
        timeout_secs: 60,
        idle_secs: 60,
        linger_secs: 5,
        grace_secs: 5,
        artifacts: Vec::new(),
        artifact_dir: None,
        validate: Vec::new(),
        writes: Vec::new(),
        task: None,
        task_file: None,
        asked: Default::default(),
    }
}

/// Always gives the same answer, and records the questions.
struct Always {
    permission: Permission,
    asked: Vec<String>,
}

impl Always {
    fn say(permission: Permission) -> Self {
        Self {
            permission,
            asked: Vec::new(),
        }
    }
}

impl Ask for Always {
    fn may(&mut self, question: &Question<'_>) -> Permission {
        let cwd = question.cwd.map(|cwd| cwd.display().to_string());
        self.asked
            .push(format!("may {} {:?} {}", question.tool, cwd, question.input));
        self.permission.clone()
    }

    fn approve(&mut self, question: &Question<'_>) -> Permission {
        let cwd = question.cwd.map(|cwd| cwd.display().to_string());
        self.asked.push(format!("approve {} {cwd:?}", question.tool));
        self.permission.clone()
    }
}

fn listener(job: &Job) -> Box<dyn Listener> {
    by_name("claude").expect("an agent").listener(job)
}

/// All events of a transcript, and all answers.
fn replay(job: &Job, lines: &[Vec<u8>]) -> (Vec<AgentEvent>, String) {
    let mut listener = listener(job);
    let mut ask = Always::say(Permission::Allow);
    let (mut said, mut answers) = (Vec::new(), Vec::new());
    for line in lines {
        let Reaction {
            said: more, answer, ..
        } = listener.line(line, &mut ask);
        said.extend(more);
        answers.extend(answer);
    }
    said.extend(listener.end());
    (said, String::from_utf8(answers).expect("text"))
}

fn verdicts(said: &[AgentEvent]) -> Vec<&AgentVerdict> {
    said.iter()
        .filter_map(|said| match said {
            AgentEvent::Result { verdict } => Some(verdict),
            _ => None,
        })
        .collect()
}

fn used(said: &[AgentEvent]) -> Option<(Tokens, Option<Usd>, u64)> {
    said.iter().rev().find_map(|said| match said {
        AgentEvent::Usage {
            tokens,
            cost_usd,
            turns,
            ..
        } => Some((*tokens, *cost_usd, *turns)),
        _ => None,
    })
}

/// The end of an attempt, as one row of the table.
struct Row {
    file: &'static str,
    /// `None` if it was not reported.
    is_error: Option<bool>,
    reason: &'static str,
    status: Option<u16>,
    retryable: bool,
    denials: usize,
    /// Input, output, millionths of dollars, turns.
    used: Option<(u64, u64, Option<u64>, u64)>,
}

const fn well(file: &'static str, used: (u64, u64, Option<u64>, u64)) -> Row {
    Row {
        file,
        is_error: Some(false),
        reason: "completed",
        status: None,
        retryable: false,
        denials: 0,
        used: Some(used),
    }
}

const fn denied(file: &'static str, used: (u64, u64, Option<u64>, u64)) -> Row {
    Row {
        denials: 1,
        ..well(file, used)
    }
}

const fn failed(file: &'static str, reason: &'static str, used: (u64, u64, Option<u64>, u64)) -> Row {
    Row {
        is_error: Some(true),
        reason,
        ..well(file, used)
    }
}

const fn api(file: &'static str, reason: &'static str, status: u16, retryable: bool) -> Row {
    Row {
        status: Some(status),
        retryable,
        ..failed(file, reason, (0, 0, Some(0), 1))
    }
}

const fn silent(file: &'static str, used: Option<(u64, u64, Option<u64>, u64)>) -> Row {
    Row {
        is_error: None,
        used,
        ..well(file, (0, 0, None, 0))
    }
}

const TABLE: &[Row] = &[
    well("happy.jsonl", (300, 60, Some(2_400), 3)),
    well("one-shot.jsonl", (300, 60, Some(2_400), 3)),
    well("session-first.jsonl", (300, 60, Some(2_400), 3)),
    // Their totals are 4,800 and 7,200, including the sessions they continue.
    well("session-resumed.jsonl", (300, 60, Some(2_400), 3)),
    well("session-forked.jsonl", (300, 60, Some(2_400), 3)),
    well("input-two-turns-partial.jsonl", (200, 40, Some(1_600), 2)),
    well("with-hook-events.jsonl", (300, 60, Some(2_400), 3)),
    well("flaky529-recovers.jsonl", (300, 60, Some(2_400), 3)),
    // Asked twice, paid twice.
    well("midstream-error.jsonl", (300, 22, Some(1_640), 1)),
    well("truncated-stream.jsonl", (300, 22, Some(1_640), 1)),
    denied("acceptEdits-bash-denied.jsonl", (300, 60, Some(2_400), 3)),
    denied("dontAsk-denied.jsonl", (200, 40, Some(1_600), 2)),
    denied("hook-denied.jsonl", (200, 40, Some(1_600), 2)),
    failed("max-turns.jsonl", "max_turns", (300, 60, Some(2_400), 3)),
    failed(
        "budget-exceeded.jsonl",
        "budget_exhausted",
        (200_000, 2_000, Some(840_000), 1),
    ),
    failed("sigint-in-tool.jsonl", "aborted_tools", (100, 20, Some(800), 1)),
    api("err400.jsonl", "api_error", 400, false),
    api("err403.jsonl", "api_error", 403, false),
    api("err404.jsonl", "api_error", 404, false),
    api("err413.jsonl", "image_error", 413, false),
    api("err429-one-retry.jsonl", "api_error", 429, true),
    api("err500-one-retry.jsonl", "api_error", 500, true),
    api("err529-one-retry.jsonl", "api_error", 529, true),
    Row {
        used: None,
        ..api("err401-until-killed.jsonl", "authentication_failed", 401, false)
    },
    silent("sigint-in-api-call.jsonl", None),
    silent("sigkill-in-tool.jsonl", Some((100, 1, None, 1))),
    silent("sigterm-in-tool.jsonl", Some((100, 1, None, 1))),
];

fn job_for(file: &str) -> Job {
    let mut job = job(
        file.contains("resumed") || file.contains("forked"),
        file.contains("one-shot"),
    );
    if let Some(resume) = &mut job.resume {
        resume.fork = file.contains("forked");
    }
    job
}

#[test]
fn g5_how_each_run_of_the_real_program_ended() {
    for row in TABLE {
        let file = row.file;
        let (said, _) = replay(&job_for(file), &lines(file));
        let verdict = verdicts(&said).last().copied().cloned();
        assert_eq!(
            verdict.as_ref().map(|verdict| verdict.is_error),
            row.is_error,
            "{file}: {said:#?}"
        );
        if let Some(verdict) = verdict {
            assert_eq!(verdict.reason, row.reason, "{file}");
            assert_eq!(verdict.api_status, row.status, "{file}");
            assert_eq!(verdict.retryable, row.retryable, "{file}");
            assert_eq!(verdict.denials as usize, row.denials, "{file}");
            assert!(verdict.session_id.is_some(), "{file}");
        }
        let told = said
            .iter()
            .filter(|said| matches!(said, AgentEvent::Denied { .. }));
        assert_eq!(told.count(), row.denials, "{file}: each refusal is told once");
        let expected = row
            .used
            .map(|(input, output, cost, turns)| (Tokens { input, output }, cost.map(Usd), turns));
        assert_eq!(used(&said), expected, "{file}");
        let strange: Vec<_> = said
            .iter()
            .filter(|said| matches!(said, AgentEvent::Unknown { .. }))
            .collect();
        assert!(strange.is_empty(), "{file}: {strange:?}");
        if !file.contains("one-shot") {
            assert!(
                matches!(
                    said.first(),
                    Some(AgentEvent::Started {
                        session_id: Some(_),
                        model: Some(_)
                    })
                ),
                "{file}"
            );
        }
    }
    let rows: std::collections::BTreeSet<_> = TABLE.iter().map(|row| row.file.to_owned()).collect();
    let files = fs::read_dir(folder()).expect("a folder");
    let files = files.map(|file| file.expect("a file").file_name().into_string().expect("a name"));
    assert_eq!(
        files.collect::<std::collections::BTreeSet<_>>(),
        rows,
        "each has a row"
    );
}

#[test]
fn g6_what_it_does_is_seen_as_it_does_it() {
    let (said, _) = replay(&job(false, false), &lines("happy.jsonl"));
    let shown: Vec<String> = said
        .iter()
        .map(|said| match said {
            AgentEvent::Tool { name, detail } => format!("{name} {}", &detail[..9]),
            AgentEvent::ToolDone { name, failed, .. } => format!("{name} {failed}"),
            AgentEvent::Text { text } => text.clone(),
            other => serde_json::to_value(other).expect("JSON")["kind"].to_string(),
        })
        .collect();
    assert_eq!(
        shown,
        [
            "\"started\"",
            "Write hello.txt",
            "Write false",
            "Bash git add -",
            "Bash false",
            "Done: wrote hello.txt and committed it.",
            "\"usage\"",
            "\"result\"",
        ]
    );
    let (said, _) = replay(&job(false, false), &lines("flaky529-recovers.jsonl"));
    let retries = said
        .iter()
        .filter(|said| matches!(said, AgentEvent::Retrying { why, .. } if why == "overloaded"));
    assert_eq!(retries.count(), 2);
}

#[test]
fn g5_wrong_keys_are_not_tried_ten_times() {
    let (_, answers) = replay(&job(false, false), &lines("err401-until-killed.jsonl"));
    assert_eq!(
        answers.matches("\"subtype\":\"interrupt\"").count(),
        1,
        "{answers}"
    );
}

/// Feeds one line.
fn hear(listener: &mut dyn Listener, ask: &mut dyn Ask, line: &Value) -> (Vec<AgentEvent>, Vec<Value>, bool) {
    let heard = listener.line(line.to_string().as_bytes(), ask);
    let answers = heard
        .answer
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let answers = answers.map(|line| serde_json::from_slice(line).expect("JSON"));
    (heard.said, answers.collect(), heard.hang_up)
}

fn hook(tool: &str) -> Value {
    json!({
        "type": "control_request", "request_id": "r-1",
        "request": {
            "subtype": "hook_callback", "callback_id": "before-tool", "tool_use_id": "t-1",
            "input": { "cwd": "/tree/sub", "hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": { "a": 1 } },
        },
    })
}

fn can_use(tool: &str) -> Value {
    json!({
        "type": "control_request", "request_id": "r-2",
        "request": { "subtype": "can_use_tool", "tool_name": tool, "input": { "b": [2] }, "tool_use_id": "t-2" },
    })
}

#[test]
fn g5_questions_are_answered_from_policy_and_refusals_are_told_once() {
    let mut listener = listener(&job(false, false));
    let mut no = Always::say(Permission::Deny("it is locked".into()));
    let (said, answers, _) = hear(&mut *listener, &mut no, &hook("Write"));
    assert_eq!(no.asked, ["may Write Some(\"/tree/sub\") {\"a\":1}"]);
    let expected = json!([{ "type": "control_response", "response": {
        "subtype": "success", "request_id": "r-1",
        "response": { "hookSpecificOutput": {
            "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "it is locked",
        }},
    }}]);
    assert_eq!(json!(answers), expected);
    assert_eq!(
        said,
        [AgentEvent::Denied {
            name: "Write".into(),
            reason: "it is locked".into()
        }]
    );
    let result = json!({ "type": "user", "message": { "content": [
        { "type": "tool_result", "tool_use_id": "t-1", "is_error": true, "content": "it is locked" }] },
        "tool_result_meta": [{ "id": "t-1", "permission_decision": { "decision": "reject" } }] });
    assert_eq!(hear(&mut *listener, &mut no, &result).0, [], "told before");
    let (said, answers, _) = hear(&mut *listener, &mut no, &can_use("WebFetch"));
    assert_eq!(
        answers[0]["response"]["response"],
        json!({ "behavior": "deny", "message": "it is locked" })
    );
    assert_eq!(said.len(), 1);
    // The directory is that of the last question.
    assert_eq!(no.asked[1], "approve WebFetch Some(\"/tree/sub\")");
    let mut yes = Always::say(Permission::Allow);
    let (said, answers, _) = hear(&mut *listener, &mut yes, &hook("Write"));
    assert_eq!((said.len(), &answers[0]["response"]["response"]), (0, &json!({})));
    let (_, answers, _) = hear(&mut *listener, &mut yes, &can_use("WebFetch"));
    let allowed = json!({ "behavior": "allow", "updatedInput": { "b": [2] } });
    assert_eq!(answers[0]["response"]["response"], allowed);
    let mut word = Always::say(Permission::Warn("careful".into()));
    let (_, answers, _) = hear(&mut *listener, &mut word, &hook("Write"));
    let context = &answers[0]["response"]["response"]["hookSpecificOutput"];
    assert_eq!(context["additionalContext"], "careful");
    assert!(context.get("permissionDecision").is_none());
}

#[test]
fn g5_every_question_gets_an_answer_and_what_is_not_understood_is_refused() {
    let mut listener = listener(&job(false, false));
    let mut yes = Always::say(Permission::Allow);
    let odd = |request: Value| json!({ "type": "control_request", "request_id": "r", "request": request });
    for (request, expected) in [
        (json!({ "subtype": "hook_callback" }), "cannot be judged"),
        (
            json!({ "subtype": "hook_callback", "callback_id": "other", "input": { "tool_name": "x", "tool_input": {} } }),
            "cannot be judged",
        ),
        (
            json!({ "subtype": "can_use_tool", "input": {} }),
            "cannot be judged",
        ),
        (json!({ "subtype": "elicitation" }), "does not know"),
        (json!({}), "does not know"),
        (json!(3), "does not know"),
    ] {
        let (_, answers, _) = hear(&mut *listener, &mut yes, &odd(request.clone()));
        let text = answers[0].to_string();
        assert!(answers.len() == 1 && text.contains(expected), "{request}: {text}");
        assert!(!text.contains("allow"), "{request}: {text}");
    }
    // A description that was truncated because the line was too long.
    for whole in [hook("Write"), can_use("Write")] {
        let name = whole["request"]["subtype"].as_str().expect("a name").to_owned();
        let big = json!({ "content": "x".repeat(100_000) }).to_string();
        let id = whole["request_id"].as_str().expect("an id");
        let line = format!(
            r#"{{"type":"control_request","request_id":"{id}","request":{{"subtype":"{name}","tool_name":"Write","input":{big}"#
        );
        let heard = listener.line(line.as_bytes(), &mut yes);
        let text = String::from_utf8(heard.answer).expect("text");
        assert!(
            text.contains(id) && text.contains("too large") && text.contains("deny"),
            "{text}"
        );
        assert!(matches!(&heard.said[..], [AgentEvent::Unknown { line }] if line.len() < 1_000));
    }
    assert_eq!(yes.asked, [] as [&str; 0]);
}

#[test]
fn g9_a_resumed_session_is_asked_where_it_stands_before_it_is_told_anything() {
    let mut job = job(true, false);
    let folder = tempfile::tempdir().expect("a folder");
    job.prompt_file = folder.path().join("prompt.md");
    fs::write(&job.prompt_file, "go on").expect("a prompt");
    let launch = by_name("claude")
        .expect("an agent")
        .launch(&job)
        .expect("a launch");
    let opening = format!("{:?}", launch.stdin);
    assert!(!opening.contains(&format!("{:?}", b"go on")), "{opening}");
    let usage = |id: &str, cost: f64, tokens: u64| {
        json!({ "type": "control_response", "response": { "subtype": "success", "request_id": id, "response": {
            "session": { "total_cost_usd": cost, "model_usage": { "m": { "inputTokens": tokens, "outputTokens": 0 } } },
            "rate_limits_available": false } } })
    };
    let mut listener = listener(&job);
    let mut yes = Always::say(Permission::Allow);
    let (said, answers, _) = hear(&mut *listener, &mut yes, &usage("usage-0", 2.5, 700));
    assert_eq!(said, []);
    assert_eq!(answers[0]["message"]["content"], "go on");
    let message = json!({ "type": "assistant", "message": { "id": "m-1", "model": "m", "content": [],
        "usage": { "input_tokens": 90, "output_tokens": 1 } } });
    let (_, answers, _) = hear(&mut *listener, &mut yes, &message);
    assert_eq!(answers[0]["request"]["subtype"], "get_usage");
    assert_eq!(
        hear(&mut *listener, &mut yes, &message).1,
        [] as [Value; 0],
        "a part of the same message"
    );
    let id = answers[0]["request_id"].as_str().expect("an id").to_owned();
    let (said, _, _) = hear(&mut *listener, &mut yes, &usage(&id, 2.75, 800));
    let expected = AgentEvent::Usage {
        tokens: Tokens {
            input: 100,
            output: 1,
        },
        cost_usd: Some(Usd(250_000)),
        turns: 1,
        meter: None,
    };
    assert_eq!(said, [expected]);
    let result = json!({ "type": "result", "is_error": false, "terminal_reason": "completed", "total_cost_usd": 3.0,
        "modelUsage": { "m": { "inputTokens": 900, "outputTokens": 5 } } });
    let (said, _, hang_up) = hear(&mut *listener, &mut yes, &result);
    assert!(hang_up, "it would wait for more");
    assert_eq!(
        used(&said),
        Some((
            Tokens {
                input: 200,
                output: 5
            },
            Some(Usd(500_000)),
            1
        ))
    );
}

#[test]
fn g9_one_that_does_not_tell_its_totals_is_told_its_task_all_the_same() {
    let mut listener = listener(&job(true, false));
    let mut yes = Always::say(Permission::Allow);
    let no = json!({ "type": "control_response", "response": { "subtype": "error", "request_id": "usage-0", "error": "?" } });
    let (_, answers, _) = hear(&mut *listener, &mut yes, &no);
    assert_eq!(answers[0]["type"], "user");
    let message = json!({ "type": "assistant", "message": { "id": "m-1", "model": "m", "content": [],
        "usage": { "input_tokens": 90, "output_tokens": 1 } } });
    let (said, answers, _) = hear(&mut *listener, &mut yes, &message);
    assert_eq!(answers, [] as [Value; 0]);
    assert_eq!(used(&said), Some((Tokens { input: 90, output: 1 }, None, 1)));
}

#[test]
fn g10_a_lost_session_has_a_name() {
    let line = json!({ "type": "result", "subtype": "error_during_execution", "is_error": true,
        "errors": ["No conversation found with session ID: x"] });
    let (said, _) = replay(&job(true, false), &[line.to_string().into_bytes()]);
    let verdict = verdicts(&said)[0].clone();
    assert_eq!(
        (verdict.reason.as_str(), verdict.retryable),
        ("session_lost", false)
    );
}

#[test]
fn g5_success_is_not_believed_without_its_signs() {
    for (line, is_error) in [
        (json!({ "type": "result", "subtype": "success" }), true),
        (
            json!({ "type": "result", "subtype": "success", "is_error": false }),
            false,
        ),
        (
            json!({ "type": "result", "subtype": "success", "is_error": true, "terminal_reason": "completed" }),
            true,
        ),
        (
            json!({ "type": "result", "subtype": "success", "is_error": false, "terminal_reason": "hook_stopped" }),
            true,
        ),
        (json!({ "type": "result", "is_error": false }), true),
    ] {
        let (said, _) = replay(&job(false, false), &[line.to_string().into_bytes()]);
        assert_eq!(verdicts(&said)[0].is_error, is_error, "{line}");
    }
}

#[test]
fn g5_half_lines_and_garbage_are_kept_and_harm_nothing() {
    for row in TABLE {
        let whole = lines(row.file);
        let mut broken = Vec::new();
        for line in &whole {
            broken.push(line[..line.len() / 2].to_vec());
            broken.push(b"\xff\0garbage".to_vec());
            broken.push(b"{\"type\":\"new_thing\",\"x\":1}".to_vec());
            broken.push(b"[1,2]".to_vec());
            broken.push(line.clone());
        }
        let job = job_for(row.file);
        let (said, _) = replay(&job, &whole);
        let (with, _) = replay(&job, &broken);
        let (strange, rest): (Vec<_>, Vec<_>) = with
            .into_iter()
            .partition(|said| matches!(said, AgentEvent::Unknown { .. }));
        assert_eq!(rest, said, "{}", row.file);
        assert_eq!(strange.len(), 4 * whole.len(), "{}", row.file);
    }
}

#[test]
fn g5_the_order_of_fields_means_nothing() {
    for row in TABLE {
        let whole = lines(row.file);
        let sorted = whole.iter().map(|line| {
            let value: Value = serde_json::from_slice(line).expect("JSON");
            value.to_string().into_bytes()
        });
        let job = job_for(row.file);
        assert_eq!(
            replay(&job, &sorted.collect::<Vec<_>>()).0,
            replay(&job, &whole).0,
            "{}",
            row.file
        );
    }
}

#[test]
fn g4_what_the_documentation_lets_a_program_say_is_understood() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/agents.md");
    let page = fs::read_to_string(page).expect("the page");
    let lines: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("    {\"kind\""))
        .collect();
    assert_eq!(lines.len(), 9);
    let mut listener = by_name("command").expect("an agent").listener(&job(false, false));
    for rest in lines {
        let line = format!("{{\"kind\"{rest}");
        let heard = listener.line(line.as_bytes(), &mut Always::say(Permission::Allow));
        let written: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(
            serde_json::to_value(&heard.said[0]).expect("JSON")["kind"],
            written["kind"],
            "{line}"
        );
    }
}

proptest! {
    #[test]
    fn g5_no_line_is_too_strange(
        file in 0..TABLE.len(),
        line in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        with in prop::collection::vec(any::<u8>(), 0..8),
        drop in 0usize..40,
    ) {
        let file = TABLE[file].file;
        let mut whole = lines(file);
        let line = line.index(whole.len());
        let bytes = &mut whole[line];
        let at = at.index(bytes.len());
        let end = (at + drop).min(bytes.len());
        bytes.splice(at..end, with);
        for line in &whole {
            let mut listener = listener(&job_for(file));
            let heard = listener.line(line, &mut Always::say(Permission::Allow));
            for said in &heard.said {
                let text = serde_json::to_string(said).expect("JSON");
                prop_assert!(text.len() < 20_000);
            }
        }
        let _ = replay(&job_for(file), &whole);
    }
}

/// An exhausted subscription is reported only as text.
#[test]
fn g13_claude_says_until_when_it_is_refused() {
    let soon = jit_os::clock::wall_ms() / 1000 + 3600;
    for (text, status, at) in [
        (
            format!("Claude AI usage limit reached|{soon}"),
            Value::Null,
            Some(soon * 1000),
        ),
        ("API Error: 529 Overloaded".to_owned(), json!(529), None),
        ("API Error: 429 try again in 20s".to_owned(), json!(429), Some(0)),
    ] {
        let result = json!({ "type": "result", "subtype": "success", "is_error": true, "terminal_reason": "api_error",
            "api_error_status": status, "result": text });
        let (said, _) = replay(&job(false, false), &[result.to_string().into_bytes()]);
        let verdicts = verdicts(&said);
        let verdict = verdicts.last().expect("a verdict");
        assert!(verdict.is_error && verdict.retryable, "{verdict:?}");
        match at {
            // Relative to now.
            Some(0) => assert!(
                verdict
                    .limited
                    .and_then(|limited| limited.until)
                    .is_some_and(|at| at > (soon - 3600) * 1000)
            ),
            at => assert_eq!(verdict.limited.and_then(|limited| limited.until), at, "{text}"),
        }
    }
}
