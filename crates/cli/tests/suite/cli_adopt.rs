//! Issues that git brought: a clone knows them from the first command on, and nothing is written over.

use std::fs;

use jit_testkit::world::World;

const JIT: &str = env!("CARGO_BIN_EXE_jit");

fn published() -> (World, std::path::PathBuf) {
    let world = World::with_jit(JIT);
    let made = [
        "issue",
        "create",
        "First",
        "--id",
        "WI-1",
        "--label",
        "x",
        "--description",
        "long text",
    ];
    let _ = world.jit(made).ok();
    let _ = world
        .jit([
            "issue",
            "create",
            "Second",
            "--id",
            "WI-2",
            "--depends-on",
            "WI-1",
        ])
        .ok();
    world.git(&world.repo(), ["add", "-A"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "issues"]);
    let clone = world.root().join("clone");
    world.git(world.root(), ["clone", "-q", "repo", "clone"]);
    (world, clone)
}

#[test]
fn e7_a_clone_knows_the_issues_that_came_with_it() {
    let (world, clone) = published();
    let listed = world.jit_in(&clone, ["issue", "list", "--json"]).ok().json();
    assert_eq!(listed["issues"].as_array().map(Vec::len), Some(2), "{listed}");
    let shown = world
        .jit_in(&clone, ["issue", "show", "WI-1", "--json"])
        .ok()
        .json();
    assert_eq!(shown["description"], "long text\n");
    assert_eq!(shown["labels"][0], "x");
    let second = world
        .jit_in(&clone, ["issue", "show", "WI-2", "--json"])
        .ok()
        .json();
    assert_eq!(second["depends_on"][0], "WI-1");
    let _ = world.jit_in(&clone, ["claim", "acquire", "WI-1"]).ok();
    assert_eq!(world.git(&clone, ["status", "--porcelain"]), "");
}

#[test]
fn e2_what_a_pull_brought_is_not_written_over() {
    let (world, clone) = published();
    let _ = world.jit_in(&clone, ["issue", "list"]).ok();
    let _ = world.jit(["issue", "create", "Third", "--id", "WI-3"]).ok();
    world.git(&world.repo(), ["add", "-A"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "more"]);
    world.git(&clone, ["pull", "-q"]);
    let before = fs::read(clone.join(".jit/issues/WI-3/issue.json")).expect("read");
    let _ = world
        .jit_in(&clone, ["issue", "create", "Other", "--id", "WI-3"])
        .exits(2);
    assert_eq!(
        fs::read(clone.join(".jit/issues/WI-3/issue.json")).expect("read"),
        before
    );
    let _ = world.jit_in(&clone, ["claim", "acquire", "WI-3"]).ok();
}

#[test]
fn e2_a_folder_that_is_not_an_issue_is_named_and_left_alone() {
    let (world, clone) = published();
    fs::write(clone.join(".jit/issues/WI-1/issue.json"), "garbage").expect("write");
    let ran = world.jit_in(&clone, ["init"]).ok();
    assert!(
        ran.stderr.contains("WI-1") && ran.stderr.contains("not an issue"),
        "{}",
        ran.stderr
    );
    let _ = world.jit_in(&clone, ["issue", "show", "WI-2"]).ok();
    let _ = world.jit_in(&clone, ["issue", "show", "WI-1"]).exits(3);
}

/// B4: what restrains agents is not theirs to change.
#[test]
fn b4_agents_do_not_give_themselves_rights() {
    let world = World::with_jit(JIT);
    let set = ["config", "set", "agents.may_force_evict", "true"];
    let mut as_agent = set.to_vec();
    as_agent.extend(["--agent-id", "agent:x"]);
    let refused = world.jit(as_agent).exits(5);
    assert!(refused.stderr.contains("ask a person"), "{}", refused.stderr);
    let _ = world.jit(set).ok();
}

/// A request id finds its answer again, but an old grant is not passed off as a grant of today.
#[test]
fn b2_an_answer_of_the_past_says_so() {
    let world = World::with_jit(JIT);
    let _ = world.jit(["issue", "create", "t", "--id", "WI-1"]).ok();
    let acquire = [
        "claim",
        "acquire",
        "WI-1",
        "--agent-id",
        "agent:a",
        "--request-id",
        "r1",
    ];
    let first = world.jit(acquire).ok();
    let again = world.jit(acquire).ok();
    assert_eq!(
        (again.stdout, again.stderr),
        (first.stdout.clone(), String::new())
    );
    let _ = world
        .jit(["claim", "release", "WI-1", "--agent-id", "agent:a"])
        .ok();
    let _ = world
        .jit(["claim", "acquire", "WI-1", "--agent-id", "agent:b"])
        .ok();
    let past = world.jit(acquire).ok();
    assert_eq!(past.stdout, first.stdout);
    assert!(past.stderr.contains("has ended since"), "{}", past.stderr);
}
