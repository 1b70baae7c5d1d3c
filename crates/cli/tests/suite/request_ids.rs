//! I1: every command that writes gives its first answer when it is repeated under its request id, and does nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use jit_testkit::world::World;

use crate::landing::JIT;
use crate::unit_life::{commit, create, world};

/// What a request does that is not repeated here, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    (
        "attempts::EndSession",
        "the shim of an agent sends it, without an id",
    ),
    (
        "attempts::KeepAlive",
        "the shim of an agent sends it, without an id",
    ),
    (
        "attempts::StartSession",
        "the shim of an agent sends it, without an id",
    ),
    (
        "attempts::Unpark",
        "needs the limit of an account; it is one transaction",
    ),
    ("claims::Heartbeat", "says that somebody lives now"),
    (
        "claims::Next",
        "claim_next is one transaction, repeated with the races of claims",
    ),
    ("doctor::Migrate", "writes the same file again"),
    ("doctor::Validate", "says how things are now"),
    ("gates::DefineExported", "part of an import"),
    ("gates::DefinePreset", "the same as defining"),
    ("hooks::AgentEvent", "an agent program sends it"),
    ("hooks::MergeFile", "git sends it"),
    ("hooks::Permission", "an agent program sends it"),
    ("hooks::Run", "git sends it"),
    ("notify::Test", "sends a message to somebody"),
    ("sessions::Beat", "says that somebody lives now"),
    ("setup::McpServer", "the same as the hook of an agent"),
    ("setup::Uninstall", "removes the answers"),
    ("trust::Approve", "needs a terminal"),
    ("units::Settle", "notes what happened meanwhile"),
    ("workflows::Cancel", "repeated with the kills of coordinators"),
    ("workflows::Plan", "starts nothing"),
    ("workflows::Reopen", "repeated with the kills of coordinators"),
    ("workflows::Start", "repeated with the kills of coordinators"),
];

/// The requests that write, as their facts in the sources of the API say.
fn writing_requests() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/src/api");
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("the API").flatten() {
        let path: PathBuf = entry.path();
        let noun = path.file_stem().expect("a name").to_string_lossy().into_owned();
        if noun == "stream" || path.extension().is_none_or(|end| end != "rs") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source");
        let mut name = String::new();
        for line in text.lines() {
            let variant = line.strip_prefix("        ").unwrap_or_default();
            if variant.starts_with(|c: char| c.is_ascii_uppercase()) {
                let ident = variant.chars().take_while(char::is_ascii_alphanumeric);
                name = ident.collect();
            }
            if line.contains("=> writes(") {
                found.insert(format!("{noun}::{name}"));
            }
        }
    }
    found
}

/// Repeats commands under a request id, and remembers which requests they were.
struct Repeater {
    world: World,
    done: BTreeSet<String>,
    n: usize,
}

impl Repeater {
    fn twice(&mut self, request: &str, words: &[&str]) -> serde_json::Value {
        self.n += 1;
        let id = format!("request-{}", self.n);
        // An agent's own options come last.
        let own = words
            .iter()
            .position(|word| *word == "--command")
            .unwrap_or(words.len());
        let run = || {
            let global = ["--json", "--request-id", &id];
            self.world
                .jit(words[..own].iter().chain(&global).chain(&words[own..]))
        };
        let first = run().ok();
        let second = run();
        assert_eq!(second.code, 0, "{words:?}: {} {}", second.stdout, second.stderr);
        assert_eq!(second.stdout, first.stdout, "{words:?}");
        self.done.insert(request.to_owned());
        first.json()
    }
}

#[test]
fn heavy_i1_every_command_that_writes_can_be_repeated_under_its_request_id() {
    let world = world();
    let repo = world.repo();
    fs::write(repo.join("beads.jsonl"), "{\"id\":\"b-1\",\"title\":\"B\"}\n").expect("a file");
    let agent = world.root().join("agent.sh");
    fs::write(
        &agent,
        "#!/bin/sh\ncat > /dev/null\nwhile [ -e \"$HOME/wait\" ]; do sleep 0.05; done\n",
    )
    .expect("a script");
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).expect("a mode");
    let agent = agent.to_string_lossy().into_owned();
    let mut all = Repeater {
        world,
        done: BTreeSet::new(),
        n: 0,
    };
    all.twice("setup::Init", &["init"]);
    all.twice("setup::InitWorktree", &["worktree", "init"]);
    all.twice(
        "config::Set",
        &["config", "set", "--user", "worktree.branch", "jit/{unit}"],
    );
    issues(&mut all);
    claims(&mut all);
    units(&mut all);
    agents(&mut all, &agent);
    all.twice(
        "issues::Import",
        &["issue", "import", "beads.jsonl", "--from", "beads"],
    );
    all.twice("hooks::Install", &["hooks", "install"]);
    all.twice("hooks::Uninstall", &["hooks", "uninstall"]);
    all.twice(
        "hooks::AgentHook",
        &["hooks", "install", "--agent", "claude", "--yes"],
    );
    all.twice("trust::Revoke", &["trust", "--revoke"]);
    all.twice("doctor::Recover", &["recover"]);
    all.world.validates();
    let left_out = LEFT_OUT.iter().map(|(name, _)| (*name).to_owned());
    let known: BTreeSet<String> = all.done.iter().cloned().chain(left_out).collect();
    assert_eq!(
        known,
        writing_requests(),
        "the requests that write, and those of this test"
    );
}

fn issues(all: &mut Repeater) {
    all.twice("issues::Create", &["issue", "create", "Work", "--id", "WORK-1"]);
    all.twice("issues::Create", &["issue", "create", "Other"]);
    all.twice("issues::Create", &["issue", "create", "Third", "--id", "WORK-3"]);
    all.twice("issues::Change", &["issue", "update", "WORK-1", "--title", "New"]);
    all.twice("issues::Change", &["dep", "add", "WORK-1", "WORK-3"]);
    all.twice("issues::Change", &["dep", "rm", "WORK-1", "WORK-3"]);
    all.twice("issues::Comment", &["issue", "comment", "WORK-1", "hello"]);
    all.twice("issues::Delete", &["issue", "delete", "WORK-3"]);
    all.twice("issues::Restore", &["issue", "restore", "WORK-3"]);
    all.twice("gates::Define", &["gate", "define", "review", "--manual"]);
    all.twice("gates::Define", &["gate", "define", "tests", "--command", "true"]);
    all.twice("issues::RequireGate", &["gate", "add", "WORK-1", "review"]);
    all.twice("gates::Judge", &["gate", "pass", "WORK-1", "review"]);
    all.twice("issues::RequireGate", &["gate", "add", "WORK-1", "tests"]);
    all.twice("gates::Run", &["gate", "run", "WORK-1", "tests"]);
    all.twice("issues::Change", &["gate", "rm", "WORK-1", "review"]);
    all.twice("gates::Undefine", &["gate", "undefine", "review"]);
}

fn claims(all: &mut Repeater) {
    all.twice("claims::Acquire", &["claim", "acquire", "WORK-1"]);
    all.twice("claims::Renew", &["claim", "renew", "WORK-1"]);
    all.twice(
        "claims::Transfer",
        &["claim", "transfer", "WORK-1", "--to", "agent:x"],
    );
    all.twice(
        "claims::ForceEvict",
        &["claim", "force-evict", "WORK-1", "--reason", "x"],
    );
    all.twice("claims::Acquire", &["claim", "acquire", "WORK-3"]);
    all.twice("claims::Release", &["claim", "release", "WORK-3"]);
    all.twice("sessions::Start", &["session", "start"]);
    all.twice("file_locks::Acquire", &["lock", "acquire", "a.txt"]);
    all.twice("file_locks::Extend", &["lock", "extend", "a.txt"]);
    all.twice("file_locks::Release", &["lock", "release", "a.txt"]);
    all.twice("file_locks::Cleanup", &["lock", "cleanup"]);
    all.twice("sessions::End", &["session", "end"]);
    all.twice("sessions::Prune", &["session", "prune"]);
}

fn units(all: &mut Repeater) {
    let tree = |name: &str| -> PathBuf { all.world.root().join("repo-worktrees").join(name) };
    let (u1, u2, u3) = (tree("u1"), tree("u2"), tree("u3"));
    all.twice("units::Create", &["worktree", "create", "u1"]);
    all.twice("units::Prune", &["worktree", "prune", "--settle"]);
    commit(&all.world, &u1, "one.txt", "one\n");
    all.twice("landing::Merge", &["worktree", "merge", "u1"]);
    all.twice("rescue::Cleanup", &["worktree", "cleanup", "u1"]);
    all.twice("units::Create", &["worktree", "create", "u2"]);
    fs::write(u2.join("loose"), "loose\n").expect("a file");
    let given_up = all.twice("rescue::Abandon", &["worktree", "abandon", "u2", "--reason", "x"]);
    let rescue = given_up["rescue"].as_str().expect("a rescue").to_owned();
    all.twice("rescue::Restore", &["rescue", "restore", &rescue]);
    all.twice("rescue::Prune", &["rescue", "prune", "--older-than", "0s"]);
    all.twice("rescue::Drop", &["rescue", "drop", &rescue, "--yes"]);
    let _ = create(&all.world, &["u3"]);
    commit(&all.world, &u3, "three.txt", "three\n");
    all.twice("units::Finish", &["finish", "u3"]);
    all.twice("units::Create", &["start", "WORK-3"]);
    let begun = all.twice("units::Create", &["start", "Something entirely new"]);
    let listed = all.world.jit(["issue", "list", "--json"]).ok().json();
    let named = |issue: &&serde_json::Value| issue["title"] == "Something entirely new";
    let titles = listed["issues"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(named)
        .count();
    assert_eq!(titles, 1, "{begun}");
}

fn agents(all: &mut Repeater, agent: &str) {
    let wait = all.world.home().join("wait");
    fs::write(&wait, "").expect("a file");
    let _ = create(&all.world, &["u4"]);
    let dispatch = [
        "worktree",
        "dispatch",
        "u4",
        "--agent",
        "command",
        "--prompt",
        "go",
        "--command",
        agent,
    ];
    all.twice("attempts::Dispatch", &dispatch);
    all.twice("attempts::Stop", &["worktree", "stop", "u4", "--reason", "x"]);
    all.twice("units::Retry", &["worktree", "retry", "u4"]);
    let hand = ["handoff", "u4", "--to", "command", "--command", agent];
    all.twice("attempts::Handoff", &hand);
    let _ = all.world.jit(["worktree", "stop", "u4", "--reason", "x"]);
    let _ = fs::remove_file(wait);
}

#[test]
fn i1_a_landing_that_was_refused_is_tried_again_under_its_request_id() {
    let world = World::with_jit(JIT);
    commit(&world, &world.repo(), "a.txt", "a\n");
    let path = create(&world, &["u"]);
    commit(&world, &path, "new.txt", "new\n");
    fs::write(path.join("loose.txt"), "loose\n").expect("a file");
    let merge = ["worktree", "merge", "u", "--json", "--request-id", "one"];
    assert_ne!(world.jit(merge).code, 0, "it has uncommitted work");
    fs::remove_file(path.join("loose.txt")).expect("a file");
    let _ = world.jit(merge).ok();
    assert!(world.repo().join("new.txt").is_file());
}
