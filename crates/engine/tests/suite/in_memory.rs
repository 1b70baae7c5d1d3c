//! The engine without a process, a file or a real clock.
//!
//! Each test works in an empty folder and checks at its end that the folder is still empty. A git that is started fails
//! the test.

use std::io;
use std::path::Path;
use std::process::Output;
use std::sync::Arc;

use jit_core::decide::command::{Command, IssueChange, Target};
use jit_core::model::issue::{IssueState, Performer, Priority};
use jit_core::model::refusal::{Code, Details};
use jit_core::model::session::SessionStatus;
use jit_core::model::unit::NewUnit;
use jit_engine::api::Options;
use jit_engine::api::Request;
use jit_engine::api::claims::ClaimRequest;
use jit_engine::api::file_locks::{FileLockRequest, LockPaths, OwnLocks};
use jit_engine::api::issues::{CreateIssue, IssueFilter, IssueRequest};
use jit_engine::api::landing::LandingRequest;
use jit_engine::api::overview::OverviewRequest;
use jit_engine::api::sessions::SessionRequest;
use jit_engine::api::units::UnitRequest;
use jit_engine::api::workflows::WorkflowRequest;
use jit_engine::context::Context;
use jit_engine::handle::handle;
use jit_engine::memory::MemoryRepository;
use jit_git::{Git, GitRunner};
use jit_testkit::ManualClock;
use jit_testkit::store_commands;
use serde_json::{Value, json};

/// Fails the test if git is started.
#[derive(Debug)]
struct Forbidden;

impl GitRunner for Forbidden {
    fn run(&self, git: &Git) -> io::Result<Output> {
        panic!("git was started with {:?}", git.arguments());
    }
}

struct World {
    folder: tempfile::TempDir,
    clock: ManualClock,
    repository: MemoryRepository,
}

impl World {
    fn new() -> Self {
        let clock = ManualClock::new();
        let repository = MemoryRepository::new(Arc::new(clock.clone())).with_git(Arc::new(Forbidden));
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            clock,
            repository,
        }
    }

    fn place(&self) -> &Path {
        self.folder.path()
    }

    fn enter(&self, agent: &str, worktree: u8, request: Option<&str>) -> Context {
        let options = Options {
            request: request.map(|id| id.parse().expect("a request id")),
            ..Options::default()
        };
        let worktree = format!("wt:{worktree:08x}").parse().expect("a worktree id");
        let agent = agent.parse().expect("an agent id");
        self.repository
            .enter(self.place(), agent, worktree, options)
            .expect("a context")
    }

    /// Two agents in two worktrees.
    fn two(&self) -> (Context, Context) {
        (self.enter("agent:a", 1, None), self.enter("agent:b", 2, None))
    }

    fn advance(&self, secs: u64) {
        self.clock.advance(secs * 1000);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let files = std::fs::read_dir(self.place()).map(Iterator::count);
        if !std::thread::panicking() {
            assert_eq!(files.ok(), Some(0), "a file was written");
        }
    }
}

/// The reply as the command line shows it.
fn ask(cx: &Context, request: impl Into<Request>) -> Value {
    let answer = handle(cx, request).expect("a yes");
    serde_json::to_value(answer.reply.value()).expect("JSON")
}

fn refused(cx: &Context, request: impl Into<Request>) -> Code {
    handle(cx, request).expect_err("a refusal").code
}

fn new_issue(id: &str) -> CreateIssue {
    CreateIssue {
        id: Some(id.parse().expect("an id")),
        title: format!("Title of {id}"),
        kind: Some("task".into()),
        state: IssueState::Ready,
        priority: Priority::Normal,
        parent: None,
        labels: Vec::new(),
        depends_on: Vec::new(),
        gates: Vec::new(),
        actor: Performer::Any,
        description: None,
    }
}

fn create(cx: &Context, id: &str) {
    ask(cx, IssueRequest::Create(Box::new(new_issue(id))));
}

fn prefix(id: &str) -> jit_core::model::ids::IssuePrefix {
    id.parse().expect("a prefix")
}

fn on(id: &str) -> Target {
    Target::Issue(prefix(id))
}

fn acquire(id: &str, secs: u64) -> ClaimRequest {
    ClaimRequest::Acquire {
        issue: prefix(id),
        ttl_secs: Some(secs),
        wait_secs: None,
        note: None,
        on_behalf_of: None,
    }
}

fn next() -> ClaimRequest {
    ClaimRequest::Next {
        label: None,
        kind: None,
        ttl_secs: Some(600),
        wait_secs: None,
    }
}

fn change(id: &str, change: IssueChange) -> IssueRequest {
    IssueRequest::Change {
        issue: prefix(id),
        change: Box::new(change),
        description: None,
        strict: false,
    }
}

fn to(state: IssueState) -> IssueChange {
    IssueChange {
        state: Some(state),
        ..IssueChange::default()
    }
}

fn show(cx: &Context, id: &str) -> Value {
    ask(cx, IssueRequest::Show { issue: prefix(id) })
}

/// The ids of a list.
fn ids(list: &Value) -> Vec<&str> {
    let issues = list["issues"].as_array().expect("a list");
    issues.iter().filter_map(|issue| issue["id"].as_str()).collect()
}

fn ready(cx: &Context) -> Value {
    ask(
        cx,
        IssueRequest::Ready {
            filter: IssueFilter::default(),
            limit: None,
        },
    )
}

#[test]
fn e4_dependencies_decide_what_is_ready() {
    let world = World::new();
    let (a, b) = world.two();
    create(&a, "WI-1");
    let second = CreateIssue {
        depends_on: vec![prefix("WI-1")],
        ..new_issue("WI-2")
    };
    ask(&a, IssueRequest::Create(Box::new(second)));
    assert_eq!(ids(&ready(&b)), ["WI-1"]);
    let circle = IssueChange {
        add_deps: vec![prefix("WI-2")],
        ..IssueChange::default()
    };
    assert_eq!(refused(&b, change("WI-1", circle)), Code::Cycle);
    ask(&a, acquire("WI-1", 600));
    ask(&a, change("WI-1", to(IssueState::Done)));
    assert_eq!(ids(&ready(&b)), ["WI-2"]);
    assert_eq!(show(&b, "WI-1")["state"], "done");
}

#[test]
fn b2_one_of_two_gets_the_issue_and_the_other_learns_the_holder() {
    let world = World::new();
    let (a, b) = world.two();
    create(&a, "WI-1");
    let lease = ask(&a, acquire("WI-1", 600));
    let refusal = handle(&b, acquire("WI-1", 600)).expect_err("held");
    let Details::Lease(held) = &refusal.details else {
        panic!("{refusal:?}");
    };
    assert_eq!((refusal.code, held.agent_id.as_str()), (Code::Held, "agent:a"));
    assert_eq!(json!(held.token), lease["token"]);
    assert_eq!(
        ask(&b, ClaimRequest::List { issue: None })["active"][0]["remaining_secs"],
        600
    );
}

#[test]
fn b3_next_gives_each_caller_another_issue() {
    let world = World::new();
    let (a, b) = world.two();
    create(&a, "WI-1");
    create(&a, "WI-2");
    let (first, second) = (ask(&a, next()), ask(&b, next()));
    assert_ne!(first["issue_id"], second["issue_id"]);
    let third = world.enter("agent:c", 3, None);
    assert_eq!(refused(&third, next()), Code::NothingReady);
}

#[test]
fn b4_only_the_holder_renews_releases_and_transfers() {
    let world = World::new();
    let (a, b) = world.two();
    create(&a, "WI-1");
    ask(&a, acquire("WI-1", 600));
    let renew = || ClaimRequest::Renew {
        target: on("WI-1"),
        ttl_secs: Some(900),
    };
    assert_eq!(refused(&b, renew()), Code::NotHolder);
    assert_eq!(
        refused(&b, ClaimRequest::Release { target: on("WI-1") }),
        Code::NotHolder
    );
    world.advance(60);
    assert_eq!(ask(&a, renew())["ttl_secs"], 900);
    let transfer = ClaimRequest::Transfer {
        target: on("WI-1"),
        to: "agent:b".parse().expect("an agent id"),
        worktree: b.actor.worktree_id.clone(),
    };
    // Another worktree's branch is read from git, and there is none here.
    assert_eq!(refused(&a, transfer), Code::NotFound);
    let transfer = ClaimRequest::Transfer {
        target: on("WI-1"),
        to: "agent:b".parse().expect("an agent id"),
        worktree: None,
    };
    assert_eq!(ask(&a, transfer)["agent_id"], "agent:b");
    assert_eq!(refused(&a, renew()), Code::NotHolder);
    // The lease stays in its worktree. Its holder renews it there, and releases it from anywhere.
    assert_eq!(refused(&b, renew()), Code::NotHolder);
    ask(&b, ClaimRequest::Release { target: on("WI-1") });
    assert_eq!(ids(&ready(&a)), ["WI-1"]);
}

#[test]
fn b6_a_lease_expires_when_its_time_has_passed_whatever_the_wall_clock_says() {
    let world = World::new();
    let (a, b) = world.two();
    create(&a, "WI-1");
    let first = ask(&a, acquire("WI-1", 60));
    world.clock.jump_wall(86_400_000);
    assert_eq!(refused(&b, acquire("WI-1", 60)), Code::Held);
    world.advance(61);
    let second = ask(&b, acquire("WI-1", 60));
    assert!(second["token"].as_u64() > first["token"].as_u64());
    assert_eq!(
        refused(&a, ClaimRequest::Release { target: on("WI-1") }),
        Code::NotHolder
    );
}

#[test]
fn b11_a_holder_is_warned_before_its_lease_expires() {
    let world = World::new();
    let (a, _) = world.two();
    create(&a, "WI-1");
    ask(&a, acquire("WI-1", 600));
    let warnings = || {
        handle(&a, ClaimRequest::List { issue: None })
            .expect("a list")
            .warnings
    };
    assert_eq!(warnings(), [""; 0]);
    world.advance(590);
    let warnings = warnings();
    assert!(
        warnings.iter().any(|said| said.contains("jit claim renew")),
        "{warnings:?}"
    );
}

#[test]
fn b15_an_issue_that_another_agent_holds_takes_comments_only() {
    let world = World::new();
    let (a, b) = world.two();
    create(&a, "WI-1");
    ask(&a, acquire("WI-1", 600));
    assert_eq!(
        refused(&b, change("WI-1", to(IssueState::Rejected))),
        Code::NotHolder
    );
    let comment = IssueRequest::Comment {
        issue: prefix("WI-1"),
        text: "Mind the gap.".into(),
    };
    ask(&b, comment);
    let shown = show(&a, "WI-1");
    assert_eq!(shown["comments"][0]["text"], "Mind the gap.");
    assert_eq!(
        (&shown["state"], &shown["assignee"]),
        (&json!("in_progress"), &json!("agent:a"))
    );
}

#[test]
fn e2_a_long_description_is_kept_under_its_digest() {
    let world = World::new();
    let (a, b) = world.two();
    let long = "A line of it.\n".repeat(10_000);
    let issue = CreateIssue {
        description: Some(long.clone()),
        ..new_issue("WI-1")
    };
    ask(&a, IssueRequest::Create(Box::new(issue)));
    assert_eq!(show(&b, "WI-1")["description"], long.as_str());
    let request = IssueRequest::Change {
        issue: prefix("WI-1"),
        change: Box::default(),
        description: Some("Short.".into()),
        strict: false,
    };
    ask(&b, request);
    assert_eq!(show(&a, "WI-1")["description"], "Short.\n");
    let found = IssueRequest::Search {
        text: "short".into(),
        limit: None,
    };
    assert_eq!(ids(&ask(&a, found)), ["WI-1"]);
}

#[test]
fn e6_an_issue_waits_for_the_judgement_of_its_gate() {
    let world = World::new();
    let a = world.enter("human:a", 1, None);
    create(&a, "WI-1");
    let gate = IssueChange {
        add_gates: vec!["review".into()],
        ..IssueChange::default()
    };
    ask(&a, change("WI-1", gate));
    ask(&a, acquire("WI-1", 600));
    let judge = |passed, n| {
        let command = Command::JudgeGate {
            issue: prefix("WI-1"),
            gate: "review".into(),
            passed,
            manual: true,
            tree: None,
            definition: None,
        };
        store_commands::ask(&*a.store, &a.actor, &command, n).expect("a judgement");
    };
    judge(false, 1);
    assert_eq!(
        refused(&a, change("WI-1", to(IssueState::Done))),
        Code::GateNotPassed
    );
    judge(true, 2);
    ask(&a, change("WI-1", to(IssueState::Done)));
    assert_eq!(show(&a, "WI-1")["state"], "done");
}

#[test]
fn f1_a_session_without_heartbeats_becomes_stale() {
    let world = World::new();
    let (a, b) = world.two();
    let started = ask(&a, SessionRequest::Start(Box::default()));
    let status = |cx: &Context| ask(cx, SessionRequest::List { all: true })["sessions"][0]["status"].clone();
    assert_eq!(status(&b), "active");
    world.advance(7 * 86_400);
    assert_eq!(status(&b), "stale");
    ask(&a, SessionRequest::Beat { session: None });
    assert_eq!(status(&b), "active");
    let end = SessionRequest::End {
        session: None,
        status: SessionStatus::Completed,
    };
    assert_eq!(ask(&a, end)["session_id"], started["session_id"]);
    assert_eq!(ask(&a, SessionRequest::Prune)["pruned"][0], started["session_id"]);
    assert_eq!(
        refused(&a, SessionRequest::Show { session: None }),
        Code::NotFound
    );
}

#[test]
fn f4_two_locks_conflict_if_some_path_is_in_both() {
    let world = World::new();
    // In one worktree, where every scope counts.
    let (a, b) = (world.enter("agent:a", 1, None), world.enter("agent:b", 1, None));
    let paths = |path: &str| LockPaths {
        paths: vec![serde_json::from_value(json!(path)).expect("a path")],
        ttl_secs: Some(600),
        ..LockPaths::default()
    };
    let lock = |path: &str| FileLockRequest::Acquire {
        paths: paths(path),
        wait_secs: None,
    };
    ask(&a, lock("src/**"));
    assert_eq!(refused(&b, lock("src/main.rs")), Code::Held);
    ask(&b, lock("docs/guide.md"));
    let check = FileLockRequest::Check {
        paths: paths("src/lib.rs"),
    };
    assert_eq!(ask(&b, check)["paths"][0]["available"], false);
    let release = FileLockRequest::Release { which: OwnLocks::All };
    assert_eq!(ask(&a, release)["released"].as_array().map(Vec::len), Some(1));
    ask(&b, lock("src/main.rs"));
    world.advance(601);
    assert_eq!(ask(&a, FileLockRequest::List)["locks"], json!([]));
}

#[test]
fn a_repeated_request_gets_its_first_answer() {
    let world = World::new();
    let (a, _) = world.two();
    create(&a, "WI-1");
    create(&a, "WI-2");
    let again = world.enter("agent:a", 1, Some("req-1"));
    let first = ask(&again, acquire("WI-1", 60));
    assert_eq!(ask(&again, acquire("WI-1", 60))["lease_id"], first["lease_id"]);
    assert_eq!(refused(&again, acquire("WI-2", 60)), Code::RequestReused);
    world.advance(61);
    let answer = handle(&again, acquire("WI-1", 60)).expect("the first answer");
    assert!(
        answer
            .warnings
            .iter()
            .any(|said| said.contains("has ended since")),
        "{answer:?}"
    );
}

#[test]
fn units_and_workflows_are_read_from_the_log() {
    let world = World::new();
    let (a, b) = world.two();
    create(&a, "WI-1");
    let unit = NewUnit {
        id: "wi-1".parse().expect("a unit id"),
        issue: Some(prefix("WI-1")),
        branch: "jit/wi-1".into(),
        base: "0".repeat(40),
        target: "main".into(),
        worktree_path: "../wi-1".into(),
        ttl_secs: None,
        workflow: None,
    };
    store_commands::ask(&*a.store, &a.actor, &Command::CreateUnit(Box::new(unit)), 1).expect("a unit");
    let status = UnitRequest::Status {
        unit: Some("wi-1".into()),
        all: false,
    };
    let shown = ask(&b, status);
    assert_eq!(
        (&shown["state"], &shown["issue_id"]),
        (&json!("PROVISIONING"), &json!("WI-1"))
    );
    assert_eq!(
        ask(&b, WorkflowRequest::List { all: true })["workflows"],
        json!([])
    );
    ask(&b, OverviewRequest::Status);
}

#[test]
fn a_request_that_needs_git_is_refused_without_it() {
    let world = World::new();
    let (a, _) = world.two();
    let request = LandingRequest::Conflicts {
        into: None,
        branches: Vec::new(),
    };
    assert_eq!(refused(&a, request), Code::Invalid);
}
