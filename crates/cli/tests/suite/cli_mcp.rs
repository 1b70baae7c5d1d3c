//! `jit mcp` (I4): driven by the SDK's own client, and by lines that no client would send.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use jit_testkit::world::World;
use jit_testkit::world::tools::wait_until;
use rmcp::model::{CallToolRequestParams, ClientCapabilities, ClientConfig, Implementation};
use rmcp::service::{RunningService, ServiceError};
use rmcp::transport::TokioChildProcess;
use rmcp::{RoleClient, ServiceExt as _};
use serde_json::{Value, json};

const JIT: &str = env!("CARGO_BIN_EXE_jit");

/// An agent at the other end of the server.
struct Agent(RunningService<RoleClient, ClientConfig>);

impl Agent {
    async fn start(world: &World, dir: &Path, args: &[&str], id: Option<&str>) -> Self {
        let mut command = world.jit_command(dir);
        command.args(args).arg("mcp");
        if let Some(id) = id {
            command.env("JIT_AGENT_ID", id);
        }
        let transport = TokioChildProcess::new(tokio::process::Command::from(command)).expect("a process");
        let me = ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("Test Client", "1"),
        );
        Self(me.serve(transport).await.expect("a conversation"))
    }

    async fn named(world: &World, id: &str) -> Self {
        Self::start(world, &world.repo(), &[], Some(id)).await
    }

    async fn asked(&self, tool: &str, given: Value) -> Result<(Value, bool), ServiceError> {
        let Value::Object(given) = given else {
            panic!("arguments are an object")
        };
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(given);
        let result = self.0.call_tool(params).await?;
        let told = result.structured_content.expect("structured content");
        let text = serde_json::to_value(&result.content[0]).expect("JSON")["text"].take();
        assert_eq!(text, told.to_string(), "the text says the same, compactly");
        Ok((told, result.is_error == Some(true)))
    }

    async fn ok(&self, tool: &str, given: Value) -> Value {
        let (told, failed) = self.asked(tool, given).await.expect("an answer");
        assert!(!failed, "{tool}: {told}");
        told
    }

    async fn refused(&self, tool: &str, given: Value) -> Value {
        let (told, failed) = self.asked(tool, given).await.expect("an answer");
        assert!(failed, "{tool}: {told}");
        assert!(told["message"].is_string() && told["help"].is_array(), "{told}");
        told
    }

    async fn bye(self) {
        let _ = self.0.cancel().await;
    }
}

fn issue(world: &World, id: &str) {
    let _ = world
        .jit(["issue", "create", &format!("Do {id}"), "--id", id])
        .ok();
}

fn holder(world: &World, id: &str) -> Value {
    world
        .jit(["claim", "status", "--issue", id, "--json"])
        .ok()
        .json()["active"][0]
        .take()
}

#[tokio::test]
async fn i4_an_agent_finds_work_claims_it_reports_and_hands_off() {
    let world = World::with_jit(JIT);
    let one = Agent::named(&world, "agent:one").await;
    let names: Vec<String> = one
        .0
        .list_all_tools()
        .await
        .expect("tools")
        .iter()
        .map(|tool| tool.name.to_string())
        .collect();
    for name in [
        "ready", "claim", "release", "show", "create", "update", "comment", "status",
    ] {
        assert!(names.iter().any(|found| found == name), "{names:?}");
    }
    let made = one
        .ok(
            "create",
            json!({ "title": "Parse dates", "description": "All of them.", "priority": "high", "labels": ["core"] }),
        )
        .await;
    let id = made["id"].as_str().expect("an id").to_owned();
    let later = one
        .ok("create", json!({ "title": "Sort dates", "depends_on": [id] }))
        .await;
    let ready = one.ok("ready", json!({})).await;
    assert_eq!(
        ready["issues"],
        json!([{ "id": id, "title": "Parse dates", "type": "issue", "priority": "high", "labels": ["core"] }])
    );

    let taken = one.ok("claim", json!({ "issue": "next", "ttl": "20m" })).await;
    assert_eq!(
        (&taken["id"], &taken["description"]),
        (&json!(id), &json!("All of them.\n"))
    );
    assert_eq!(taken["claim"]["agent_id"], "agent:one");
    assert_eq!(holder(&world, &id)["ttl_secs"], 1200);
    let again = one.ok("claim", json!({ "issue": id, "ttl": 3600 })).await;
    assert_eq!(
        again["claim"]["token"], taken["claim"]["token"],
        "the same lease, longer"
    );
    assert_eq!(holder(&world, &id)["ttl_secs"], 3600);

    one.ok("comment", json!({ "issue": id, "text": "Half of it works" }))
        .await;
    one.ok(
        "update",
        json!({ "issue": id, "add_labels": ["dates"], "blocked": "no time zone data" }),
    )
    .await;
    let shown = one.ok("show", json!({ "issue": id })).await;
    assert_eq!(shown["labels"], json!(["core", "dates"]));
    assert_eq!(shown["blocked"], "no time zone data");
    assert_eq!(shown["holder"]["agent_id"], "agent:one");
    one.ok("update", json!({ "issue": id, "blocked": "" })).await;

    let status = one.ok("status", json!({})).await;
    assert_eq!(
        (&status["agent_id"], &status["mine"][0]["id"]),
        (&json!("agent:one"), &json!(id))
    );

    let given = one
        .ok("release", json!({ "issue": id, "note": "see branch x" }))
        .await;
    assert_eq!(given["released"], json!([id]));
    let two = Agent::named(&world, "agent:two").await;
    let taken = two.ok("claim", json!({ "issue": "next" })).await;
    assert_eq!(taken["id"], json!(id));
    assert_eq!(taken["comments"][1]["text"], "Handoff: see branch x");
    assert_eq!(taken["comments"][1]["by"], "agent:one");
    two.ok("update", json!({ "issue": id, "state": "done" })).await;
    let next = two.ok("claim", json!({ "issue": "next" })).await;
    assert_eq!(next["id"], later["id"]);
    one.bye().await;
    two.bye().await;
    world.validates();
}

#[tokio::test]
async fn i4_a_refusal_is_an_answer_with_code_and_help() {
    let world = World::with_jit(JIT);
    issue(&world, "A-1");
    let _ = world.jit_as("agent:other", ["claim", "acquire", "A-1"]).ok();
    let agent = Agent::named(&world, "agent:me").await;
    let held = agent.refused("claim", json!({ "issue": "A-1" })).await;
    assert_eq!(
        (&held["code"], &held["holder"]["agent_id"]),
        (&json!("held"), &json!("agent:other"))
    );
    for (tool, given, code) in [
        ("claim", json!({ "issue": "next" }), "nothing_ready"),
        ("show", json!({ "issue": "A-2" }), "not_found"),
        ("release", json!({ "issue": "A-1" }), "not_holder"),
        (
            "release",
            json!({ "issue": "A-1", "note": "mine?" }),
            "not_holder",
        ),
        ("update", json!({ "issue": "A-1", "title": "x" }), "not_holder"),
        ("update", json!({ "issue": "A-1" }), "invalid"),
        ("claim", json!({}), "invalid"),
        ("claim", json!({ "issue": 3 }), "invalid"),
        ("claim", json!({ "issue": "A-1", "ttl": "soon" }), "invalid"),
        ("claim", json!({ "issue": "A-1", "force": true }), "invalid"),
        ("create", json!({ "title": "x", "priority": "urgent" }), "invalid"),
        ("create", json!({ "title": "x", "labels": ["a", ""] }), "invalid"),
        ("create", json!({ "title": "" }), "invalid"),
    ] {
        let told = agent.refused(tool, given.clone()).await;
        assert_eq!(told["code"], code, "{tool} {given}: {told}");
    }
    // Nothing was said about an issue that could not be handed off.
    assert_eq!(
        world.jit(["issue", "show", "A-1", "--json"]).ok().json()["comments"],
        json!([])
    );
    match agent.asked("evict", json!({})).await {
        Err(ServiceError::McpError(error)) => {
            assert_eq!(error.code.0, -32602);
            assert!(error.message.contains("claim, release"), "{error:?}");
        }
        other => panic!("{other:?}"),
    }
    agent.bye().await;
}

#[tokio::test]
async fn i4_without_a_repository_every_call_says_so_and_the_server_stays() {
    let world = World::new(JIT);
    let agent = Agent::start(&world, &world.repo(), &[], None).await;
    let told = agent.refused("ready", json!({})).await;
    assert_eq!(
        (&told["code"], &told["help"]),
        (&json!("not_initialized"), &json!(["jit init"]))
    );
    let _ = world.jit(["init"]).ok();
    assert_eq!(agent.ok("ready", json!({})).await["issues"], json!([]));
    agent.bye().await;
}

#[tokio::test]
async fn a4_an_agent_is_named_by_flag_environment_or_its_program() {
    let world = World::with_jit(JIT);
    let tree = world.worktree("side");
    let flag = Agent::start(
        &world,
        world.root(),
        &["-C", "side", "--agent-id", "agent:flag"],
        Some("agent:env"),
    )
    .await;
    let status = flag.ok("status", json!({})).await;
    assert_eq!(
        (&status["agent_id"], &status["branch"]),
        (&json!("agent:flag"), &json!("side"))
    );
    let environment = Agent::start(&world, &tree, &[], Some("agent:env")).await;
    assert_eq!(environment.ok("status", json!({})).await["agent_id"], "agent:env");
    let (one, two) = (
        Agent::start(&world, &tree, &[], None).await,
        Agent::start(&world, &tree, &[], None).await,
    );
    let name = one.ok("status", json!({})).await["agent_id"].take();
    assert!(
        name.as_str()
            .is_some_and(|name| name.starts_with("agent:mcp-test-client-")),
        "{name}"
    );
    assert_eq!(
        one.ok("status", json!({})).await["agent_id"],
        name,
        "the same all the time"
    );
    assert_ne!(two.ok("status", json!({})).await["agent_id"], name);
    for agent in [flag, environment, one, two] {
        agent.bye().await;
    }
}

#[tokio::test]
async fn b5_a_claim_is_renewed_while_the_agent_is_connected_and_kept_when_it_is_gone() {
    let world = World::with_jit(JIT);
    issue(&world, "A-1");
    issue(&world, "A-2");
    let agent = Agent::named(&world, "agent:me").await;
    agent.ok("claim", json!({ "issue": "A-1", "ttl": "4s" })).await;
    agent.ok("claim", json!({ "issue": "A-2", "ttl": "1h" })).await;
    // Nobody asks for anything meanwhile.
    let renewed = |id: &str| {
        let is = |event: &Value| event["type"] == "claim.renewed" && event["payload"]["issue_id"] == id;
        world.events().iter().any(is)
    };
    wait_until("it was renewed", Duration::from_secs(50), || renewed("A-1"));
    assert!(!renewed("A-2"), "half of its time is not over");
    agent.bye().await;
    assert_eq!(holder(&world, "A-2")["agent_id"], "agent:me");
}

#[tokio::test]
async fn f2_files_are_locked_refused_renewed_and_let_go_of() {
    let world = World::with_jit(JIT);
    let (one, two) = (
        Agent::named(&world, "agent:one").await,
        Agent::named(&world, "agent:two").await,
    );
    let _ = world
        .jit_as("agent:one", ["lock", "acquire", "by-hand", "--ttl", "60s"])
        .ok();
    let locked = one
        .ok("lock", json!({ "paths": ["src/a.rs", "docs/"], "ttl": "6s" }))
        .await;
    assert_eq!(locked["locks"].as_array().map(Vec::len), Some(2), "{locked}");
    let first = locked["locks"][0]["expires_at"]
        .as_str()
        .expect("a time")
        .to_owned();
    let held = two
        .refused("lock", json!({ "paths": ["b.rs", "src/a.rs"] }))
        .await;
    assert_eq!(
        (&held["code"], &held["holders"][0]["agent_id"]),
        (&json!("held"), &json!("agent:one")),
        "{held}"
    );
    let later = || {
        let locks = world.jit(["lock", "list", "--json"]).ok().json()["locks"].take();
        let locks = locks.as_array().cloned().unwrap_or_default();
        locks
            .iter()
            .any(|lock| lock["expires_at"].as_str().is_some_and(|at| at > first.as_str()))
    };
    wait_until("it was renewed", Duration::from_secs(50), later);
    let by_hand = world
        .events()
        .iter()
        .filter(|event| event["type"] == "lock.renewed" && event["payload"]["file"]["pattern"] == "by-hand")
        .count();
    assert_eq!(
        by_hand, 0,
        "what the same agent took elsewhere is not the server's"
    );
    for given in [json!({ "paths": [] }), json!({ "paths": "src" }), json!({})] {
        assert_eq!(one.refused("lock", given).await["code"], "invalid");
    }
    let gone = one.ok("unlock", json!({ "paths": ["src/a.rs"] })).await;
    assert_eq!(gone, json!({ "unlocked": ["src/a.rs"] }));
    two.ok("lock", json!({ "paths": ["src/a.rs"], "shared": true }))
        .await;
    assert_eq!(
        one.ok("unlock", json!({})).await["unlocked"]
            .as_array()
            .map(Vec::len),
        Some(2)
    );
    one.bye().await;
    two.bye().await;
    world.validates();
}

#[tokio::test]
async fn a4_an_agent_in_a_session_is_the_sessions_agent() {
    let world = World::with_jit(JIT);
    let pid = std::process::id().to_string();
    let _ = world
        .jit([
            "session",
            "start",
            "--agent-id",
            "agent:bound",
            "--bind-pid",
            &pid,
        ])
        .ok();
    let agent = Agent::start(&world, &world.repo(), &[], None).await;
    assert_eq!(agent.ok("status", json!({})).await["agent_id"], "agent:bound");
    agent.bye().await;
}

#[tokio::test]
async fn i4_a_store_that_stays_busy_is_an_answer_after_the_time_to_wait() {
    let world = World::with_jit(JIT);
    let agent = Agent::start(&world, &world.repo(), &["--lock-timeout", "1s"], Some("agent:me")).await;
    let lock = std::fs::File::options()
        .read(true)
        .write(true)
        .open(world.control().join("locks/control.lock"));
    let lock = lock.expect("a lock file");
    lock.lock().expect("locked");
    assert_eq!(
        agent.refused("create", json!({ "title": "x" })).await["code"],
        "busy"
    );
    lock.unlock().expect("unlocked");
    agent.ok("create", json!({ "title": "x" })).await;
    agent.bye().await;
}

#[test]
fn i4_two_servers_that_race_for_next_get_different_issues() {
    const EACH: usize = 5;
    let world = World::with_jit(JIT);
    for n in 0..2 * EACH {
        issue(&world, &format!("R-{n}"));
    }
    let race = |name: &'static str| {
        let world = &world;
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let agent = Agent::named(world, name).await;
                let mut taken = Vec::new();
                for _ in 0..EACH {
                    taken.push(agent.ok("claim", json!({ "issue": "next" })).await["id"].to_string());
                }
                agent.bye().await;
                taken
            })
        }
    };
    let mut all = std::thread::scope(|scope| {
        let (one, two) = (scope.spawn(race("agent:one")), scope.spawn(race("agent:two")));
        let mut all = one.join().expect("one");
        all.extend(two.join().expect("two"));
        all
    });
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 2 * EACH, "{all:?}");
    assert_eq!(world.jit(["claim", "next"]).code, 3);
    world.validates();
}

/// The server without a client: lines in, lines out.
struct Raw {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}"#;

impl Raw {
    fn start(world: &World) -> Self {
        let mut command = world.jit_command(&world.repo());
        command
            .arg("mcp")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("a process");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, answers }
    }

    fn greeted(world: &World) -> Self {
        let mut raw = Self::start(world);
        let hello = raw.ask(HELLO);
        assert_eq!(hello["result"]["serverInfo"]["name"], "jit", "{hello}");
        raw.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        raw
    }

    fn send(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("a pipe");
        stdin
            .write_all(line.as_bytes())
            .and_then(|()| stdin.write_all(b"\n"))
            .expect("sent");
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    fn ask(&mut self, line: &str) -> Value {
        self.send(line);
        self.next()
    }

    /// Hangs up. What it said since, and how it ended.
    fn end(mut self) -> (String, Option<i32>, String) {
        drop(self.child.stdin.take());
        let (mut said, mut complained) = (String::new(), String::new());
        self.answers.read_to_string(&mut said).expect("text");
        let mut stderr = self.child.stderr.take().expect("a pipe");
        stderr.read_to_string(&mut complained).expect("text");
        (said, self.child.wait().expect("an end").code(), complained)
    }
}

#[test]
fn i4_lines_that_make_no_sense_are_answered_and_the_conversation_goes_on() {
    let world = World::with_jit(JIT);
    let mut raw = Raw::start(&world);
    // Before the introduction, too.
    assert_eq!(raw.ask("what?")["error"]["code"], -32700);
    raw.send(r#"{"jsonrpc":"2.0","method":"notifications/whatever"}"#);
    assert_eq!(
        raw.ask(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)["id"],
        1
    );
    raw.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    assert_eq!(raw.ask(HELLO)["result"]["serverInfo"]["name"], "jit");
    for (line, code, id) in [
        ("{", -32700, Value::Null),
        ("\u{1}\u{2}", -32700, Value::Null),
        ("[]", -32600, Value::Null),
        ("{\"id\":5}", -32600, json!(5)),
        (r#"{"jsonrpc":"2.0","id":6,"method":"no/such"}"#, -32601, json!(6)),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"no"}}"#,
            -32602,
            json!(7),
        ),
        (
            r#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":3}}"#,
            -32602,
            json!(8),
        ),
        (
            r#"{"jsonrpc":"2.0","id":9,"method":"tools/call"}"#,
            -32602,
            json!(9),
        ),
        (
            r#"{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":"ready","arguments":[]}}"#,
            -32602,
            json!(10),
        ),
    ] {
        let answer = raw.ask(line);
        assert_eq!(
            (&answer["error"]["code"], &answer["id"]),
            (&json!(code), &id),
            "{line}: {answer}"
        );
        assert!(
            answer.get("id").is_some() && answer["jsonrpc"] == "2.0",
            "null is said, not left out: {answer}"
        );
    }
    assert_eq!(
        raw.ask(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#)["id"],
        "p"
    );
    assert_eq!(raw.end(), (String::new(), Some(0), String::new()));
}

#[test]
fn i4_huge_arguments_are_refused_and_the_conversation_goes_on() {
    let world = World::with_jit(JIT);
    let mut raw = Raw::greeted(&world);
    let call = |id: u32, tool: &str, arguments: Value| {
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool, "arguments": arguments } }).to_string()
    };
    let huge = "x".repeat(10 << 20);
    for (id, tool, arguments) in [
        (1, "create", json!({ "title": huge })),
        (2, "create", json!({ "title": "a", "description": huge })),
        (3, "show", json!({ "issue": huge })),
        (4, "ready", json!({ huge.as_str(): 1 })),
        (5, "create", json!({ "title": "a", "labels": [huge] })),
    ] {
        let answer = raw.ask(&call(id, tool, arguments));
        assert_eq!(answer["result"]["isError"], true, "{tool} {id}");
        assert_eq!(
            answer["result"]["structuredContent"]["code"], "invalid",
            "{tool} {id}"
        );
        assert!(answer.to_string().len() < 4000, "{tool} {id}");
    }
    let too_long = raw.ask(&"y".repeat(17 << 20));
    assert_eq!(too_long["error"]["code"], -32600);
    assert_eq!(
        raw.ask(&call(6, "ready", json!({})))["result"]["structuredContent"]["issues"],
        json!([])
    );
    assert_eq!(raw.end().1, Some(0));
}

#[test]
fn i4_calls_in_flight_are_all_answered_even_when_the_client_has_hung_up() {
    let world = World::with_jit(JIT);
    let mut raw = Raw::greeted(&world);
    for id in 1..=4 {
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": "create", "arguments": { "title": format!("Number {id}") } } });
        raw.send(&call.to_string());
    }
    // It stops in the middle of a message.
    raw.child
        .stdin
        .as_mut()
        .expect("a pipe")
        .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":5,")
        .expect("sent");
    let (said, code, _) = raw.end();
    let answers: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    for id in 1..=4 {
        let answer = answers
            .iter()
            .find(|answer| answer["id"] == id)
            .expect("an answer");
        assert_eq!(
            answer["result"]["structuredContent"]["title"],
            format!("Number {id}")
        );
    }
    assert_eq!(code, Some(0));
    assert_eq!(
        world.jit(["issue", "list", "--json"]).ok().json()["issues"]
            .as_array()
            .map(Vec::len),
        Some(4)
    );
}

#[test]
fn i4_a_client_that_says_nothing_and_one_that_kills_the_server_leave_all_in_order() {
    use std::os::unix::process::ExitStatusExt as _;
    let world = World::with_jit(JIT);
    assert_eq!(Raw::start(&world).end(), (String::new(), Some(0), String::new()));
    issue(&world, "A-1");
    let mut raw = Raw::greeted(&world);
    let taken = raw.ask(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"claim","arguments":{"issue":"A-1"}}}"#);
    let pid = rustix::process::Pid::from_child(&raw.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a signal");
    assert_eq!(raw.child.wait().expect("an end").signal(), Some(15));
    let claim = &taken["result"]["structuredContent"]["claim"];
    assert_eq!(holder(&world, "A-1")["lease_id"], claim["lease_id"], "{taken}");
    world.validates();
}

#[test]
fn i4_a_request_id_of_the_environment_is_not_every_calls() {
    let world = World::with_jit(JIT);
    let mut command = world.jit_command(&world.repo());
    command
        .env("JIT_REQUEST_ID", "once")
        .arg("mcp")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("a process");
    let answers = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut raw = Raw { child, answers };
    raw.ask(HELLO);
    for id in 1..=2 {
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": "create", "arguments": { "title": "The same" } } });
        assert_eq!(raw.ask(&call.to_string())["result"]["isError"], false);
    }
    assert_eq!(
        world.jit(["issue", "list", "--json"]).ok().json()["issues"]
            .as_array()
            .map(Vec::len),
        Some(2)
    );
}

#[test]
fn i4_install_writes_each_agents_own_configuration_and_takes_it_back() {
    let world = World::with_jit(JIT);
    let (repo, home) = (world.repo(), world.home());
    for (agent, scope, file, section) in [
        ("claude", "--project", repo.join(".mcp.json"), "mcpServers"),
        ("claude", "--user", home.join(".claude.json"), "mcpServers"),
        (
            "gemini",
            "--project",
            repo.join(".gemini/settings.json"),
            "mcpServers",
        ),
        (
            "gemini",
            "--user",
            home.join(".gemini/settings.json"),
            "mcpServers",
        ),
        ("cursor", "--project", repo.join(".cursor/mcp.json"), "mcpServers"),
        ("cursor", "--user", home.join(".cursor/mcp.json"), "mcpServers"),
        ("vscode", "--project", repo.join(".vscode/mcp.json"), "servers"),
        ("codex", "--user", home.join(".codex/config.toml"), ""),
        ("codex", "--project", repo.join(".codex/config.toml"), ""),
    ] {
        let install = |more: &[&str]| {
            let args = ["mcp", "install", "--json", "--yes", "--agent", agent, scope];
            world.jit(args.iter().chain(more)).ok().json()
        };
        assert_eq!(install(&["--dry-run"])["changed"], true);
        assert!(!file.exists(), "{agent}: only shown");
        let done = install(&[]);
        assert_eq!(
            (&done["changed"], &done["installed"]),
            (&json!(true), &json!(true)),
            "{done}"
        );
        assert_eq!(done["file"], file.to_str().expect("a path"));
        let text = std::fs::read_to_string(&file).expect("a file");
        assert_eq!(text, done["entry"].as_str().expect("text"));
        if section.is_empty() {
            assert!(text.starts_with("[mcp_servers.jit]\n"), "{text}");
        } else {
            let value: Value = serde_json::from_str(&text).expect("JSON");
            let entry = &value[section]["jit"];
            assert_eq!(
                (&entry["command"], &entry["args"]),
                (&json!("jit"), &json!(["mcp"]))
            );
        }
        assert_eq!(install(&[])["changed"], false, "{agent}: twice is once");
        assert_eq!(install(&["--uninstall"])["changed"], true);
        assert!(!file.exists(), "{agent}: nothing else was in it");
        assert_eq!(install(&["--uninstall"])["changed"], false);
    }
}

#[test]
fn i4_install_shows_its_entry_and_nothing_else_of_the_file() {
    let world = World::with_jit(JIT);
    let file = world.home().join(".claude.json");
    let text = "{\n  \"token\": \"secret\",\n  \"mcpServers\": {\n    \"x\": {\"env\": {\"KEY\": \"secret\"}}\n  }\n}\n";
    std::fs::write(&file, text).expect("written");
    // Nobody can be asked here.
    let asked = world
        .jit(["mcp", "install", "--agent", "claude", "--user"])
        .exits(2);
    assert!(asked.stderr.contains("--yes"), "{}", asked.stderr);
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), text);
    let ran = world
        .jit(["mcp", "install", "--agent", "claude", "--user", "--yes"])
        .ok();
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(
        said.contains("\"command\": \"jit\"") && !said.contains("secret"),
        "{said}"
    );
    assert!(ran.stderr.contains("no jit on your PATH"), "{said}");
    assert!(std::fs::read_to_string(&file).expect("a file").contains("secret"));
    let _ = world
        .jit([
            "mcp",
            "install",
            "--agent",
            "claude",
            "--user",
            "--uninstall",
            "--yes",
        ])
        .ok();
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), text);
}

#[test]
fn i4_install_refuses_what_it_cannot_read() {
    let world = World::with_jit(JIT);
    let file = world.repo().join(".mcp.json");
    std::fs::write(&file, "{\n  \"mcpServers\": {,}\n}\n").expect("written");
    let ran = world.jit(["mcp", "install", "--agent", "claude"]).exits(2);
    assert!(
        ran.stderr.contains(".mcp.json") && ran.stderr.contains("line 2, column 18"),
        "{}",
        ran.stderr
    );
    std::fs::write(&file, "{\"mcpServers\":{\"jit\":{\"command\":\"other\"}}}").expect("written");
    let error = world
        .jit(["mcp", "install", "--agent", "claude", "--json"])
        .exits(2)
        .json()["error"]
        .take();
    assert_eq!(error["code"], "exists");
    let _ = world.jit(["mcp", "install", "--agent", "emacs"]).exits(2);
    let _ = world
        .jit(["mcp", "install", "--agent", "claude", "--user", "--project"])
        .exits(2);
    let _ = world.jit(["mcp", "install"]).exits(2);
}
