//! Work that is finished can be pushed and verified (C3, C4): the lease has ended with it, and that is no mistake.

use std::path::PathBuf;

use jit_testkit::world::{Ran, World};

const JIT: &str = env!("CARGO_BIN_EXE_jit");

struct Story {
    world: World,
    repo: PathBuf,
}

impl Story {
    fn new() -> Self {
        let world = World::with_jit(JIT);
        let repo = world.repo();
        let _ = world.jit(["issue", "create", "One", "--id", "WI-1"]).ok();
        world.git(&repo, ["add", "."]);
        world.git(&repo, ["commit", "-qm", "issues"]);
        let _ = world.jit(["hooks", "install"]).ok();
        Self { world, repo }
    }

    fn git(&self, agent: &str, args: &[&str]) -> Ran {
        let mut command = self.world.command("git", &self.repo);
        command.env("JIT_AGENT_ID", agent).args(args);
        self.world.run(command)
    }

    fn commit(&self, agent: &str, file: &str) {
        std::fs::write(self.repo.join(file), file).expect("a file");
        let _ = self.git(agent, &["add", "-A"]).ok();
        let _ = self.git(agent, &["commit", "-q", "-m", file]).ok();
    }

    fn lease(&self) -> String {
        let format = "--format=%(trailers:key=JIT-Lease,valueonly)";
        self.world
            .git(&self.repo, ["log", "-1", format])
            .trim()
            .to_owned()
    }

    fn verdict(&self, range: &str, exit: i32) -> Vec<String> {
        let report = self.world.jit(["verify", range, "--json"]).exits(exit).json();
        let commits = report["commits"].as_array().expect("commits");
        let text = |one: &serde_json::Value| format!("{}: {}", one["verdict"], one["reason"]);
        commits.iter().map(text).collect()
    }
}

#[test]
fn c3_commits_of_an_issue_that_is_done_can_be_pushed() {
    let story = Story::new();
    let world = &story.world;
    world.git(world.root(), ["init", "-q", "--bare", "bare.git"]);
    world.git(&story.repo, ["remote", "add", "origin", "../bare.git"]);
    world.git(&story.repo, ["push", "-q", "origin", "main"]);
    let _ = world.jit_as("agent:a", ["claim", "acquire", "WI-1"]).ok();
    story.commit("agent:a", "work");
    let push = || {
        let mut command = world.command("git", &story.repo);
        command
            .env("JIT_AGENT_ID", "agent:a")
            .env("JIT_CONFIG_HOOKS__PRE_PUSH", "strict")
            .args(["push", "-q", "--dry-run", "origin", "main"]);
        world.run(command)
    };
    let _ = world.jit_as("agent:a", ["claim", "release", "WI-1"]).ok();
    assert!(push().exits(1).stderr.contains("has ended"), "not finished");
    let _ = world.jit_as("agent:a", ["claim", "acquire", "WI-1"]).ok();
    let _ = world
        .jit_as("agent:a", ["issue", "update", "WI-1", "--state", "done"])
        .ok();
    assert_eq!(push().ok().stderr, "");
}

#[test]
fn c4_the_commit_that_records_the_end_of_an_issue_names_its_lease_and_is_verified() {
    let story = Story::new();
    let world = &story.world;
    let lease = world
        .jit_as("agent:a", ["claim", "acquire", "WI-1", "--json"])
        .ok()
        .json();
    let lease = lease["lease_id"].as_str().expect("a lease");
    let _ = world
        .jit_as("agent:a", ["issue", "update", "WI-1", "--state", "done"])
        .ok();
    // Long after the lease ended, and with another file in it.
    std::fs::write(story.repo.join("more"), "more").expect("a file");
    let _ = story.git("agent:a", &["add", "-A"]).ok();
    let now = world.git(&story.repo, ["log", "-1", "--format=%ct"]);
    let later = now.trim().parse::<i64>().expect("seconds") + 600;
    let mut command = world.command("git", &story.repo);
    command
        .env("JIT_AGENT_ID", "agent:a")
        .env("GIT_COMMITTER_DATE", format!("{later} +0000"))
        .args(["commit", "-q", "-m", "WI-1 is done"]);
    let _ = world.run(command).ok();
    assert_eq!(story.lease(), lease);
    let verdict = story.verdict("HEAD~..HEAD", 0).remove(0);
    assert!(verdict.contains("verified"), "{verdict}");
    // What comes after that is not part of it.
    story.commit("agent:a", "something else");
    assert_eq!(story.lease(), "");
    // Somebody else who commits the same names no lease of others.
    let _ = world
        .jit_as("agent:a", ["issue", "create", "Two", "--id", "WI-2"])
        .ok();
    let _ = world.jit_as("agent:a", ["claim", "acquire", "WI-2"]).ok();
    let _ = world
        .jit_as("agent:a", ["issue", "update", "WI-2", "--state", "done"])
        .ok();
    story.commit("agent:b", "of somebody else");
    assert_eq!(story.lease(), "");
}

#[test]
fn c4_a_revert_of_the_commit_that_records_the_end_names_no_lease() {
    let story = Story::new();
    let world = &story.world;
    let _ = world.jit_as("agent:a", ["claim", "acquire", "WI-1"]).ok();
    let _ = world
        .jit_as("agent:a", ["issue", "update", "WI-1", "--state", "done"])
        .ok();
    story.commit("agent:a", "done");
    assert_ne!(story.lease(), "");
    let _ = story.git("agent:a", &["revert", "--no-edit", "HEAD"]).ok();
    assert_eq!(story.lease(), "");
    let verdict = story.verdict("HEAD~..HEAD", 0).remove(0);
    assert!(verdict.contains("unknown"), "{verdict}");
}

#[test]
fn c4_a_rebase_without_changes_leaves_work_verified() {
    let story = Story::new();
    let world = &story.world;
    let _ = world.jit_as("agent:a", ["claim", "acquire", "WI-1"]).ok();
    world.git(&story.repo, ["switch", "-q", "-c", "side"]);
    story.commit("agent:a", "work");
    let _ = world.jit_as("agent:a", ["claim", "release", "WI-1"]).ok();
    world.git(&story.repo, ["switch", "-q", "main"]);
    story.commit("human:b", "main went on");
    world.git(&story.repo, ["switch", "-q", "side"]);
    let now = world.git(&story.repo, ["log", "-1", "--format=%ct"]);
    let at = |secs: i64| format!("{} +0000", now.trim().parse::<i64>().expect("seconds") + secs);
    let rebase = |secs: i64, args: &[&str]| {
        let mut command = world.command("git", &story.repo);
        command
            .env("JIT_AGENT_ID", "human:b")
            .env("GIT_COMMITTER_DATE", at(secs))
            .args(args);
        let _ = world.run(command).ok();
    };
    rebase(600, &["rebase", "-q", "main"]);
    let verdict = story.verdict("main..side", 0).remove(0);
    assert!(
        verdict.contains("verified") && verdict.contains("rebased"),
        "{verdict}"
    );
    // Again, and again.
    rebase(1200, &["rebase", "-q", "--force-rebase", "main"]);
    assert!(story.verdict("main..side", 0)[0].contains("verified"));
    // A commit that is changed is another one.
    std::fs::write(story.repo.join("work"), "changed").expect("a file");
    world.git(&story.repo, ["add", "work"]);
    rebase(1800, &["commit", "-q", "--amend", "--no-edit"]);
    let verdict = story.verdict("main..side", 6).remove(0);
    assert!(
        verdict.contains("violated") && verdict.contains("given back"),
        "{verdict}"
    );
}

#[test]
fn c7_the_merge_driver_is_found_where_the_path_of_an_editor_has_no_jit() {
    let story = Story::new();
    let world = &story.world;
    for (branch, label) in [("one", "a"), ("two", "b")] {
        world.git(&story.repo, ["switch", "-q", "-c", branch, "main"]);
        let _ = world.jit(["issue", "update", "WI-1", "--add-label", label]).ok();
        let priority = if branch == "one" { "high" } else { "low" };
        let file = story.repo.join(".jit/issues/WI-1/issue.json");
        let text = std::fs::read_to_string(&file).expect("an issue");
        assert!(!text.is_empty(), "{priority}");
        world.git(&story.repo, ["add", "-A"]);
        world.git(
            &story.repo,
            ["commit", "-q", "--allow-empty", "--no-verify", "-m", branch],
        );
    }
    // The PATH of the tests has git, and no jit.
    let mut command = world.command("git", &story.repo);
    command.args(["merge", "-q", "--no-verify", "-m", "merge", "one"]);
    let ran = world.run(command).ok();
    assert!(!ran.stderr.contains("line by line"), "{}", ran.stderr);
    let driver = world.git(&story.repo, ["config", "merge.jit-issue.driver"]);
    let folder = std::path::Path::new(JIT).parent().expect("a folder");
    assert!(driver.contains(&*folder.to_string_lossy()), "{driver}");
}
