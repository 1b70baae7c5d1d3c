//! The real Claude Code in two-way mode, driven by its adapter and answered from policy and locks (G5, G9, G10).
//!
//! The driver is what a shim does in its simplest form. It is this same binary, started in the world of the test: what it
//! reads of its surroundings is the world's, not the machine's.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use jit_agents::event::{AgentEvent, AgentVerdict};
use jit_agents::job::{Job, Resume};
use jit_agents::{Ask, Permission, Question, Stdin, by_name};
use jit_engine::api::hooks::{HookReply, HookRequest, PermissionAsk, ToolPermission};
use jit_engine::api::{Options, Reply};
use jit_testkit::agent_cli::{Agent, Bench};
use jit_testkit::scripted_model::{ModelApi, ModelTurn};
use jit_testkit::world::World;
use serde_json::{Value, json};

const ONE: &str = "11111111-1111-4111-8111-111111111111";
const TWO: &str = "22222222-2222-4222-8222-222222222222";
/// Where the driver finds its job and leaves what was said.
const FOLDER: &str = "JIT_TEST_FOLDER";

/// Answers the agent's questions through the API, as the shim does.
struct Questions<'a>(&'a Job);

impl Questions<'_> {
    fn ask(&self, question: &Question<'_>, approve: bool) -> Permission {
        let options = Options {
            dir: Some(self.0.dir.clone()),
            agent: Some(self.0.worker.to_string()),
            ..Options::default()
        };
        let ask = PermissionAsk {
            tool: question.tool.to_owned(),
            input: question.input.get().to_owned(),
            cwd: question.cwd.map(|cwd| cwd.to_owned().into()),
            allowed: self.0.allowed_tools.clone(),
            approve,
        };
        let answer = jit_engine::handle::ask(&options, HookRequest::Permission(Box::new(ask)));
        match answer.expect("an answer").reply {
            Reply::Hooks(HookReply::Permission(ToolPermission::Allow)) => Permission::Allow,
            Reply::Hooks(HookReply::Permission(ToolPermission::Warn(text))) => Permission::Warn(text),
            Reply::Hooks(HookReply::Permission(ToolPermission::Deny(text))) => Permission::Deny(text),
            other => panic!("{other:?}"),
        }
    }
}

impl Ask for Questions<'_> {
    fn may(&mut self, question: &Question<'_>) -> Permission {
        self.ask(question, false)
    }

    fn approve(&mut self, question: &Question<'_>) -> Permission {
        self.ask(question, true)
    }
}

/// Runs one job to its end.
#[test]
#[ignore = "started by the other tests of this file"]
fn driver() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("a folder"));
    let job = fs::read(folder.join("job.json")).expect("a job");
    let job: Job = serde_json::from_slice(&job).expect("a job");
    let agent = by_name(&job.agent).expect("an agent");
    let launch = agent.launch(&job).expect("a launch");
    let mut command = Command::new(&launch.program);
    command
        .args(&launch.args)
        .envs(launch.env)
        .envs(job.vars.iter().cloned())
        .current_dir(&job.dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().expect("the agent starts");
    let mut stdin = child.stdin.take();
    let (first, stays) = match launch.stdin {
        Stdin::Null => (Vec::new(), false),
        Stdin::Bytes(bytes) => (bytes, false),
        Stdin::Open(bytes) => (bytes, true),
    };
    if let Some(to) = &mut stdin {
        // One that does not want to hear has ended.
        let _ = to.write_all(&first);
    }
    if !stays {
        stdin = None;
    }
    let mut listener = agent.listener(&job);
    let mut ask = Questions(&job);
    let mut said = Vec::new();
    for line in BufReader::new(child.stdout.take().expect("a pipe")).split(b'\n') {
        let heard = listener.line(&line.expect("a line"), &mut ask);
        said.extend(heard.said);
        if let Some(to) = &mut stdin {
            let _ = to.write_all(&heard.answer);
        }
        if heard.hang_up {
            stdin = None;
        }
    }
    said.extend(listener.end());
    let status = child.wait().expect("an end");
    let kept = json!({ "code": status.code(), "said": said });
    fs::write(folder.join("said.json"), kept.to_string()).expect("kept");
}

struct Driven {
    code: i64,
    said: Vec<AgentEvent>,
    stderr: String,
}

impl Driven {
    #[track_caller]
    fn verdict(&self) -> &AgentVerdict {
        let last = self.said.iter().rev().find_map(|said| match said {
            AgentEvent::Result { verdict } => Some(verdict),
            _ => None,
        });
        last.unwrap_or_else(|| panic!("no verdict: {:#?} {}", self.said, self.stderr))
    }

    /// Each time it was told: tokens, millionths of dollars, turns.
    fn used(&self) -> Vec<(u64, Option<u64>, u64)> {
        let used = self.said.iter().filter_map(|said| match said {
            AgentEvent::Usage {
                tokens,
                cost_usd,
                turns,
                ..
            } => Some((tokens.total(), cost_usd.map(|cost| cost.0), *turns)),
            _ => None,
        });
        used.collect()
    }

    fn denied(&self) -> Vec<&str> {
        let denied = self.said.iter().filter_map(|said| match said {
            AgentEvent::Denied { reason, .. } => Some(reason.as_str()),
            _ => None,
        });
        denied.collect()
    }

    fn session(&self) -> Option<&str> {
        self.said.iter().find_map(|said| match said {
            AgentEvent::Started { session_id, .. } => session_id.as_deref(),
            _ => None,
        })
    }
}

fn world() -> World {
    World::with_jit(env!("CARGO_BIN_EXE_jit"))
}

fn job(bench: &Bench, world: &World, dir: &Path) -> Job {
    Job {
        unit: "u".parse().expect("a unit"),
        attempt: 1,
        agent: "claude".into(),
        worker: "agent:driven".parse().expect("an agent"),
        dir: dir.to_owned(),
        prompt_file: PathBuf::new(),
        command: vec![bench.wrapper(world).display().to_string()],
        vars: vec![("JIT_AGENT_ID".into(), "agent:driven".into())],
        session: Some(ONE.into()),
        resume: None,
        cost_before: None,
        meter_before: None,
        prices: Vec::new(),
        model: None,
        allowed_tools: Vec::new(),
        permission_mode: None,
        one_shot: false,
        max_turns: Some(30),
        budget: None,
        budget_tokens: None,
        timeout_secs: 120,
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

fn drive(bench: &Bench, world: &World, model: &ModelApi, mut job: Job, prompt: &str) -> Driven {
    let folder = tempfile::tempdir().expect("a folder");
    job.prompt_file = folder.path().join("prompt.md");
    fs::write(&job.prompt_file, prompt).expect("a prompt");
    let text = serde_json::to_vec(&job).expect("JSON");
    fs::write(folder.path().join("job.json"), text).expect("a job");
    let mut command = world.command(std::env::current_exe().expect("this test"), &job.dir);
    command
        .args(["--exact", "agents_driven::driver", "--ignored", "--nocapture"])
        .env(FOLDER, folder.path());
    let ran = bench.run_beside(world, command, model);
    assert_eq!(ran.code, 0, "{ran:?}");
    let kept = fs::read(folder.path().join("said.json")).expect("what was said");
    let mut kept: Value = serde_json::from_slice(&kept).expect("JSON");
    Driven {
        code: kept["code"].as_i64().expect("an exit code"),
        said: serde_json::from_value(kept["said"].take()).expect("events"),
        stderr: ran.stderr,
    }
}

fn write(path: &Path, content: &str) -> ModelTurn {
    ModelTurn::tool("Write", json!({ "file_path": path, "content": content }))
}

#[test]
fn g5_it_writes_a_file_and_commits_without_any_permission_being_bypassed() {
    let Some(bench) = Bench::of(Agent::Claude) else {
        return;
    };
    let world = world();
    let tree = world.worktree("agent");
    let model = bench.model(vec![
        write(&tree.join("hello.txt"), "hello\n"),
        ModelTurn::bash("git add hello.txt && git commit -q -m 'by the agent'"),
        ModelTurn::bash("curl http://example.com"),
        ModelTurn::tool("WebFetch", json!({ "url": "http://example.com/", "prompt": "x" })),
        ModelTurn::text("finished"),
    ]);
    let driven = drive(
        &bench,
        &world,
        &model,
        job(&bench, &world, &tree),
        "do the work 4711",
    );
    let verdict = driven.verdict();
    assert_eq!((driven.code, verdict.is_error), (0, false), "{:?}", driven.said);
    assert_eq!((verdict.reason.as_str(), verdict.denials), ("completed", 2));
    assert_eq!(driven.session(), Some(ONE));
    assert!(model.read().contains("do the work 4711"));
    let shown = world.git(&tree, ["show", "--format=%s", "HEAD", "--", "hello.txt"]);
    assert!(
        shown.contains("by the agent") && shown.contains("+hello"),
        "{shown}"
    );
    let told = model.told();
    for n in [2, 3] {
        assert!(told[n].contains("nobody is there to be asked"), "{told:?}");
    }
    assert_eq!(driven.denied().len(), 2, "{:?}", driven.said);
    // What it wrote is locked for it, as by the installed hook.
    let locks = world.jit(["lock", "list", "--json"]).ok().json();
    assert_eq!(locks["locks"][0]["file_path"], "hello.txt", "{locks}");
    assert_eq!(locks["locks"][0]["agent_id"], "agent:driven", "{locks}");
    // Costs are known while it works, and only grow.
    let used = driven.used();
    assert!(used.len() >= 3 && used.is_sorted(), "{used:?}");
    assert_eq!(
        used.last().map(|(tokens, _, turns)| (*tokens, *turns)),
        Some((600, 5)),
        "{used:?}"
    );
    assert!(used.iter().all(|(_, cost, _)| cost.is_some()), "{used:?}");
}

#[test]
fn g5_a_locked_file_is_denied_in_every_mode_and_the_model_is_told_the_sentence() {
    let Some(bench) = Bench::of(Agent::Claude) else {
        return;
    };
    let world = world();
    let tree = world.worktree("agent");
    let _ = world
        .jit_as_in("agent:bob", &tree, ["lock", "acquire", "locked.txt"])
        .ok();
    let model = bench.model(vec![
        write(&tree.join("locked.txt"), "mine now\n"),
        ModelTurn::bash("echo mine > locked.txt"),
        write(&tree.join("free.txt"), "fine\n"),
        ModelTurn::text("finished"),
    ]);
    let mut job = job(&bench, &world, &tree);
    job.permission_mode = Some("bypassPermissions".into());
    let driven = drive(&bench, &world, &model, job, "do it");
    let told = model.told();
    for told in &told[..2] {
        assert!(told.contains("locked by agent:bob"), "{told}");
    }
    assert!(told[0].contains("jit lock acquire locked.txt --wait"), "{told:?}");
    assert!(!tree.join("locked.txt").exists());
    assert_eq!(
        fs::read_to_string(tree.join("free.txt")).expect("a file"),
        "fine\n"
    );
    assert_eq!(
        (driven.verdict().denials, driven.denied().len()),
        (2, 2),
        "{:?}",
        driven.said
    );
}

#[test]
fn g9_g10_a_resumed_or_forked_session_costs_only_what_it_adds() {
    let Some(bench) = Bench::of(Agent::Claude) else {
        return;
    };
    let world = world();
    let tree = world.worktree("agent");
    let steps = |n: usize| -> Vec<ModelTurn> { (0..n).map(|_| ModelTurn::text("more")).collect() };
    let model = bench.model(steps(9));
    let first = drive(
        &bench,
        &world,
        &model,
        job(&bench, &world, &tree),
        "remember 4711",
    );
    let (tokens, cost, turns) = *first.used().last().expect("used");
    assert_eq!((tokens, turns), (120, 1));
    let cost = cost.expect("a cost");
    assert!(cost > 0);
    let mut again = job(&bench, &world, &tree);
    again.attempt = 2;
    again.resume = Some(Resume {
        session: ONE.into(),
        fork: false,
    });
    let second = drive(&bench, &world, &model, again.clone(), "go on");
    assert_eq!(second.session(), Some(ONE));
    assert_eq!(
        second.used().last(),
        Some(&(120, Some(cost), 1)),
        "{:?}",
        second.said
    );
    let longest = model
        .asked()
        .into_iter()
        .max_by_key(|asked| asked.to_string().len());
    let longest = longest.expect("asked").to_string();
    assert!(
        longest.contains("remember 4711") && longest.contains("go on"),
        "it is the same conversation"
    );
    again.session = Some(TWO.into());
    again.resume = Some(Resume {
        session: ONE.into(),
        fork: true,
    });
    let forked = drive(&bench, &world, &model, again.clone(), "another way");
    assert_eq!(forked.session(), Some(TWO));
    assert_eq!(
        forked.used().last(),
        Some(&(120, Some(cost), 1)),
        "{:?}",
        forked.said
    );
    // One answer at the end: the difference to what is remembered.
    again.one_shot = true;
    again.resume = Some(Resume {
        session: TWO.into(),
        fork: false,
    });
    again.cost_before = Some(jit_core::model::cost::Usd(3 * cost));
    let last = drive(&bench, &world, &model, again.clone(), "and again");
    assert_eq!(last.used().last(), Some(&(120, Some(cost), 1)), "{:?}", last.said);
    // A session that is nowhere.
    again.one_shot = false;
    again.resume = Some(Resume {
        session: "33333333-3333-4333-8333-333333333333".into(),
        fork: false,
    });
    let lost = drive(&bench, &world, &model, again, "go on");
    assert_eq!(
        (lost.verdict().reason.as_str(), lost.verdict().retryable),
        ("session_lost", false)
    );
}

#[test]
fn g9_it_is_stopped_by_its_budget_and_by_its_turns() {
    let Some(bench) = Bench::of(Agent::Claude) else {
        return;
    };
    let world = world();
    let tree = world.worktree("agent");
    let script: Vec<ModelTurn> = (0..12).map(|n| ModelTurn::bash(&format!("echo {n}"))).collect();
    let model = bench.model(script);
    let mut poor = job(&bench, &world, &tree);
    poor.budget = Some(jit_core::model::cost::Usd(1_500));
    let driven = drive(&bench, &world, &model, poor, "do it");
    let verdict = driven.verdict();
    assert_eq!(
        (verdict.is_error, verdict.reason.as_str(), verdict.retryable),
        (true, "budget_exhausted", false)
    );
    let spent = driven
        .used()
        .last()
        .and_then(|(_, cost, _)| *cost)
        .expect("a cost");
    assert!((1_500..6_000).contains(&spent), "{spent}");
    let mut short = job(&bench, &world, &tree);
    short.session = Some(TWO.into());
    short.max_turns = Some(2);
    let driven = drive(&bench, &world, &model, short, "do it");
    let verdict = driven.verdict();
    assert_eq!(
        (verdict.is_error, verdict.reason.as_str(), verdict.retryable),
        (true, "max_turns", false)
    );
    assert_eq!(driven.used().last().map(|(_, _, turns)| *turns), Some(2));
}

#[test]
fn g5_one_answer_at_the_end_is_the_fallback() {
    let Some(bench) = Bench::of(Agent::Claude) else {
        return;
    };
    let world = world();
    let tree = world.worktree("agent");
    let model = bench.model(vec![
        write(&tree.join("hello.txt"), "hello\n"),
        ModelTurn::bash("curl http://example.com"),
        ModelTurn::text("finished"),
    ]);
    let mut job = job(&bench, &world, &tree);
    job.one_shot = true;
    let driven = drive(&bench, &world, &model, job, "--help");
    let verdict = driven.verdict();
    assert_eq!(
        (verdict.is_error, verdict.denials, verdict.text.as_str()),
        (false, 1, "finished")
    );
    assert_eq!(verdict.session_id.as_deref(), Some(ONE));
    assert_eq!(
        fs::read_to_string(tree.join("hello.txt")).expect("a file"),
        "hello\n"
    );
    assert_eq!(
        driven.used().last().map(|(tokens, _, turns)| (*tokens, *turns)),
        Some((360, 3))
    );
}

#[test]
fn g10_what_passes_is_told_from_what_does_not() {
    let Some(bench) = Bench::of(Agent::Claude) else {
        return;
    };
    let world = world();
    let tree = world.worktree("agent");
    for (status, retryable) in [(401, false), (400, false), (429, true), (529, true)] {
        let model = bench.refusing_model(status);
        let mut job = job(&bench, &world, &tree);
        job.session = Some(format!("{status}00000-1111-4111-8111-111111111111"));
        if status == 401 {
            job.vars.push(("CLAUDE_CODE_MAX_RETRIES".into(), "10".into()));
        }
        let driven = drive(&bench, &world, &model, job, "do it");
        let verdict = driven.verdict();
        assert!(verdict.is_error, "{status}: {:?}", driven.said);
        assert_eq!(verdict.api_status, Some(status), "{:?}", driven.said);
        assert_eq!(verdict.retryable, retryable, "{status}: {:?}", driven.said);
        let tries = driven
            .said
            .iter()
            .filter(|said| matches!(said, AgentEvent::Retrying { .. }));
        assert!(tries.count() < 5, "{status}: {:?}", driven.said);
    }
}
