//! Commit trailers, `jit verify` (C4) and the server's side (C5), with real git.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use jit_testkit::world::{Ran, World};
use serde_json::Value;

const JIT: &str = env!("CARGO_BIN_EXE_jit");

struct Story {
    world: World,
    repo: PathBuf,
}

impl Story {
    fn new() -> Self {
        let world = World::with_jit(JIT);
        let repo = world.repo();
        for id in ["WI-1", "WI-2"] {
            let _ = world.jit(["issue", "create", "One", "--id", id]).ok();
        }
        world.git(&repo, ["add", "."]);
        world.git(&repo, ["commit", "-qm", "issues"]);
        let _ = world.jit(["hooks", "install"]).ok();
        Self { world, repo }
    }

    fn git<A: AsRef<OsStr>>(&self, agent: &str, args: impl IntoIterator<Item = A>) -> Ran {
        self.git_in(agent, &self.repo, args)
    }

    fn git_in<A: AsRef<OsStr>>(&self, agent: &str, dir: &Path, args: impl IntoIterator<Item = A>) -> Ran {
        let mut command = self.world.command("git", dir);
        command.env("JIT_AGENT_ID", agent).args(args);
        self.world.run(command)
    }

    /// With this for an editor: a shell script that gets the file.
    fn edited(&self, agent: &str, editor: &str, args: &[&str]) -> Ran {
        let mut command = self.world.command("git", &self.repo);
        command
            .env("JIT_AGENT_ID", agent)
            .env("GIT_EDITOR", format!("f() {{ {editor}; }}; f"))
            .args(args);
        self.world.run(command)
    }

    fn claim(&self, agent: &str, issue: &str) -> String {
        let lease = self
            .world
            .jit_as(agent, ["claim", "acquire", issue, "--json"])
            .ok()
            .json();
        lease["lease_id"].as_str().expect("a lease").to_owned()
    }

    fn message(&self) -> String {
        self.world
            .git(&self.repo, ["log", "-1", "--format=%B"])
            .trim_end()
            .to_owned()
    }

    /// The values of a trailer of the last commit, as git reads them.
    fn trailers(&self, key: &str) -> Vec<String> {
        let format = format!("--format=%(trailers:key={key},valueonly)");
        let text = self.world.git(&self.repo, ["log", "-1", &format]);
        text.lines()
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect()
    }

    fn verdicts(&self, range: &str, exit: i32) -> Vec<(String, String)> {
        let report = self.world.jit(["verify", range, "--json"]).exits(exit).json();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        report["commits"]
            .as_array()
            .expect("commits")
            .iter()
            .map(|one| (text(&one["verdict"]), text(&one["reason"])))
            .collect()
    }
}

#[test]
fn c4_a_holder_s_commit_names_lease_agent_and_worktree_and_is_verified() {
    let story = Story::new();
    let lease = story.claim("agent:a", "WI-1");
    let _ = story
        .git("agent:a", ["commit", "-q", "--allow-empty", "-m", "work"])
        .ok();
    let wt = story.world.jit(["whoami", "--json"]).ok().json()["worktree_id"]
        .as_str()
        .expect("id")
        .to_owned();
    assert_eq!(
        story.message(),
        format!("work\n\nJIT-Lease: {lease}\nJIT-Agent: agent:a\nJIT-Worktree: {wt}")
    );
    let report = story
        .world
        .jit(["verify", "HEAD~..HEAD", "--require", "--json"])
        .ok()
        .json();
    let one = &report["commits"][0];
    assert_eq!(one["verdict"], "verified", "{report}");
    assert_eq!(
        (&one["lease_id"], &one["agent_id"]),
        (&lease.into(), &"agent:a".into())
    );
    assert!(
        one["reason"].as_str().expect("a reason").contains("WI-1"),
        "{report}"
    );
    assert_eq!(one["commit"].as_str().map(str::len), Some(40));
}

#[test]
fn c4_nothing_changes_for_who_holds_nothing_here() {
    let story = Story::new();
    let message = "subject\n\nbody\n\n\nSigned-off-by: x <x@y>\n";
    fs::write(story.world.root().join("msg"), message).expect("write");
    let linked = story.world.worktree("linked");
    let _ = story
        .world
        .jit_as_in("agent:a", &linked, ["claim", "acquire", "WI-1"])
        .ok();
    let args = [
        "commit",
        "-q",
        "--allow-empty",
        "--cleanup=verbatim",
        "-F",
        "../msg",
    ];
    let _ = story.git("agent:a", args).ok();
    let raw = story.world.git(&story.repo, ["log", "-1", "--format=%B"]);
    assert_eq!(raw, format!("{message}\n"));
    assert_eq!(story.verdicts("HEAD~..HEAD", 0)[0].0, "unknown");
    let _ = story.world.jit(["verify", "HEAD~..HEAD", "--require"]).exits(6);
}

#[test]
fn c4_several_leases_give_several_trailers_beside_those_of_others() {
    let story = Story::new();
    let leases = [story.claim("agent:a", "WI-1"), story.claim("agent:a", "WI-2")];
    let args = [
        "commit",
        "-q",
        "--allow-empty",
        "-s",
        "-m",
        "work",
        "-m",
        "Closes: #1",
    ];
    let _ = story.git("agent:a", args).ok();
    assert_eq!(story.trailers("JIT-Lease"), leases);
    assert_eq!(story.trailers("JIT-Agent"), ["agent:a"]);
    assert_eq!(story.trailers("Signed-off-by").len(), 1, "{}", story.message());
    assert!(
        story.message().starts_with("work\n\nCloses: #1\nSigned-off-by: "),
        "{}",
        story.message()
    );
    assert_eq!(story.verdicts("HEAD~..HEAD", 0)[0].0, "verified");
}

#[test]
fn c4_amending_rebasing_and_picking_keep_one_set_of_trailers_that_is_true() {
    let story = Story::new();
    let first = story.claim("agent:a", "WI-1");
    let _ = story
        .git("agent:a", ["commit", "-q", "--allow-empty", "-m", "work"])
        .ok();
    let before = story.message();
    let _ = story
        .git(
            "agent:a",
            ["commit", "-q", "--amend", "--no-edit", "--allow-empty"],
        )
        .ok();
    assert_eq!(story.message(), before, "amend");
    // Another lease, the same commit made again.
    let _ = story.world.jit_as("agent:a", ["claim", "release", "WI-1"]).ok();
    let second = story.claim("agent:a", "WI-1");
    assert_ne!(first, second);
    let _ = story
        .git(
            "agent:a",
            ["commit", "-q", "--amend", "--no-edit", "--allow-empty"],
        )
        .ok();
    assert_eq!(story.message(), before.replace(&first, &second));
    fs::write(story.repo.join("a"), "a").expect("write");
    story.world.git(&story.repo, ["add", "a"]);
    let _ = story.git("agent:a", ["commit", "-q", "-m", "file"]).ok();
    let file = story.world.git(&story.repo, ["rev-parse", "HEAD"]);
    story
        .world
        .git(&story.repo, ["checkout", "-q", "-b", "side", "HEAD~2"]);
    story
        .world
        .git(&story.repo, ["commit", "-q", "--allow-empty", "-m", "side"]);
    let _ = story.git("agent:a", ["cherry-pick", file.trim()]).ok();
    assert_eq!(story.trailers("JIT-Lease"), [second.as_str()], "cherry-pick");
    story.world.git(&story.repo, ["checkout", "-q", "main"]);
    let _ = story
        .git("agent:a", ["rebase", "-q", "--force-rebase", "HEAD~2"])
        .ok();
    assert_eq!(story.trailers("JIT-Lease"), [second.as_str()], "rebase");
    let _ = story
        .git("agent:a", ["merge", "-q", "--no-ff", "-m", "merge", "side"])
        .ok();
    assert_eq!(story.trailers("JIT-Lease"), [second.as_str()], "merge");
    for (verdict, reason) in story.verdicts("HEAD~3..HEAD", 0) {
        assert!(
            verdict == "verified" || reason.contains("no JIT-Lease"),
            "{verdict}: {reason}"
        );
    }
}

#[test]
fn c4_commits_that_no_hook_was_asked_about_are_found_afterwards() {
    for (how, args) in [
        (
            "amend",
            &["commit", "-q", "--amend", "--no-edit", "--no-verify"][..],
        ),
        ("rebase", &["rebase", "-q", "--force-rebase", "HEAD~"]),
        ("cherry-pick", &["cherry-pick", "work"]),
        ("merge", &["merge", "-q", "--no-ff", "-m", "merge", "work"]),
    ] {
        let story = Story::new();
        let git = |args: &[&str]| story.world.git(&story.repo, args);
        let lease = story.claim("agent:a", "WI-1");
        fs::write(story.repo.join("a"), "a").expect("write");
        git(&["add", "a"]);
        let _ = story.git("agent:a", ["commit", "-q", "-m", "work"]).ok();
        git(&["branch", "work"]);
        if matches!(how, "cherry-pick" | "merge") {
            git(&["reset", "-q", "--hard", "HEAD~"]);
        }
        let _ = story.world.jit_as("agent:a", ["claim", "release", "WI-1"]).ok();
        let now = git(&["log", "-1", "--format=%ct", "work"]);
        let later = now.trim().parse::<i64>().expect("seconds") + 60;
        let mut command = story.world.command("git", &story.repo);
        command
            .env("JIT_AGENT_ID", "agent:b")
            .env("GIT_COMMITTER_DATE", format!("{later} +0000"))
            .args(args);
        let _ = story.world.run(command).ok();
        if how == "merge" {
            assert_eq!(
                story.trailers("JIT-Lease"),
                [""; 0],
                "who holds nothing names nothing"
            );
            let ran = story.world.jit(["verify", "HEAD^1..HEAD", "--require"]);
            let _ = ran.exits(6);
            let _ = story.world.jit(["verify", "HEAD^1..HEAD"]).ok();
            continue;
        }
        assert_eq!(story.trailers("JIT-Lease"), [lease.as_str()], "{how}");
        if how == "rebase" {
            // It is the same work, made when it was made.
            let (verdict, reason) = story.verdicts("HEAD~..HEAD", 0).remove(0);
            assert!(verdict == "verified" && reason.contains("rebased"), "{reason}");
            continue;
        }
        let (verdict, reason) = story.verdicts("HEAD~..HEAD", 6).remove(0);
        assert!(
            verdict == "violated" && reason.contains("given back"),
            "{how}: {verdict}: {reason}"
        );
    }
}

#[test]
fn c4_a_squash_ends_with_one_set_of_trailers() {
    let story = Story::new();
    let lease = story.claim("agent:a", "WI-1");
    for name in ["a", "b"] {
        fs::write(story.repo.join(name), name).expect("write");
        story.world.git(&story.repo, ["add", name]);
        let _ = story.git("agent:a", ["commit", "-q", "-m", name]).ok();
    }
    let mut command = story.world.command("git", &story.repo);
    command
        .env("JIT_AGENT_ID", "agent:a")
        .env("GIT_SEQUENCE_EDITOR", "sed -i 2s/^pick/squash/")
        .env("GIT_EDITOR", "true")
        .args(["rebase", "-q", "-i", "HEAD~2"]);
    let _ = story.world.run(command).ok();
    assert_eq!(
        story.trailers("JIT-Lease"),
        [lease.as_str()],
        "{}",
        story.message()
    );
    assert_eq!(story.trailers("JIT-Agent"), ["agent:a"], "{}", story.message());
    assert_eq!(story.verdicts("HEAD~..HEAD", 0)[0].0, "verified");
}

#[test]
fn c4_an_editor_comments_and_scissors_are_no_hindrance() {
    let story = Story::new();
    let lease = story.claim("agent:a", "WI-1");
    for (n, settings) in [
        &["-c", "commit.verbose=true"][..],
        &["-c", "core.commentChar=;", "-c", "commit.verbose=true"],
        &["-c", "core.commentChar=;"],
        &["-c", "core.commentChar=auto"],
        &["-c", "commit.cleanup=scissors", "-c", "commit.verbose=true"],
        &[],
    ]
    .iter()
    .enumerate()
    {
        fs::write(story.repo.join("a"), format!("JIT-Lease: {n}\n---\n# x\n")).expect("write");
        story.world.git(&story.repo, ["add", "a"]);
        let args = [*settings, &["commit", "-q"]].concat();
        let editor = "{ echo subject; echo; echo body; cat \"$1\"; } > \"$1.new\" && mv \"$1.new\" \"$1\"";
        let ran = story.edited("agent:a", editor, &args);
        assert_eq!(ran.code, 0, "{settings:?}: {}", ran.stderr);
        let message = story.message();
        assert!(
            message.starts_with("subject\n\nbody\n\nJIT-Lease: "),
            "{settings:?}: {message:?}"
        );
        assert_eq!(story.trailers("JIT-Lease"), [lease.as_str()], "{settings:?}");
        assert_eq!(message.lines().count(), 7, "{settings:?}: {message:?}");
        // Again, with everything that is there by now.
        let args = [*settings, &["commit", "-q", "--amend"]].concat();
        let _ = story.edited("agent:a", "true", &args).ok();
        assert_eq!(story.message(), message, "{settings:?}");
    }
}

#[test]
fn c4_a_message_that_nobody_wrote_still_stops_the_commit() {
    let story = Story::new();
    let _ = story.claim("agent:a", "WI-1");
    for settings in [
        &[][..],
        &["-c", "commit.verbose=true"],
        &["-c", "core.commentChar=;"],
    ] {
        fs::write(story.repo.join("a"), "a").expect("write");
        story.world.git(&story.repo, ["add", "a"]);
        let args = [settings, &["commit", "-q"]].concat();
        let ran = story.edited("agent:a", "true", &args).exits(1);
        assert!(
            ran.stderr.contains("Aborting commit"),
            "{settings:?}: {}",
            ran.stderr
        );
    }
    let _ = story.edited("agent:a", "true", &["commit", "-q", "-s"]).exits(1);
}

#[test]
fn c4_what_the_log_contradicts_is_violated() {
    let story = Story::new();
    let lease = story.claim("agent:a", "WI-1");
    let commit = |message: String, date: &str| {
        let mut command = story.world.command("git", &story.repo);
        command
            .env("GIT_COMMITTER_DATE", date)
            .args(["-c", "core.hooksPath=/dev/null"]);
        command.args(["commit", "-q", "--allow-empty"]);
        command.args(["-m", &message]);
        let _ = story.world.run(command).ok();
    };
    let now = story
        .world
        .git(&story.repo, ["log", "-1", "--format=%ct"])
        .trim()
        .parse::<i64>()
        .expect("seconds");
    let trailers = |lease: &str, agent: &str| format!("x\n\nJIT-Lease: {lease}\nJIT-Agent: {agent}\n");
    let at = |secs: i64| format!("{secs} +0000");
    commit(trailers(&lease, "agent:b"), &at(now));
    assert!(
        story.verdicts("HEAD~..HEAD", 6)[0]
            .1
            .contains("agent:a's, not agent:b's")
    );
    commit(trailers(&lease, "agent:a"), &at(now - 3600));
    assert!(
        story.verdicts("HEAD~..HEAD", 6)[0]
            .1
            .contains("before the lease on WI-1 was granted")
    );
    commit(trailers(&lease, "agent:a"), &at(now + 100_000));
    let (verdict, reason) = story.verdicts("HEAD~..HEAD", 6).remove(0);
    assert!(verdict == "violated" && reason.contains("run out"), "{reason}");
    commit(
        trailers(&lease, "agent:a") + "JIT-Worktree: wt:00000000\n",
        &at(now),
    );
    assert!(
        story.verdicts("HEAD~..HEAD", 6)[0]
            .1
            .contains("not in wt:00000000")
    );
    commit(trailers("01ARZ3NDEKTSV4RRFFQ69G5FAV", "agent:a"), &at(now));
    let (verdict, reason) = story.verdicts("HEAD~..HEAD", 0).remove(0);
    assert!(verdict == "unknown" && reason.contains("never had"), "{reason}");
    let _ = story.world.jit_as("agent:a", ["claim", "release", "WI-1"]).ok();
    let _ = story.claim("agent:b", "WI-1");
    commit(trailers(&lease, "agent:a"), &at(now + 60));
    let (verdict, reason) = story.verdicts("HEAD~..HEAD", 6).remove(0);
    assert!(verdict == "violated" && reason.contains("given back"), "{reason}");
    let all = story.verdicts("HEAD", 6);
    assert_eq!(all.len(), 8, "every commit of the range is told");
}

#[test]
fn c4_one_git_process_judges_the_whole_range() {
    if jit_testkit::world::tools::without("strace") {
        return;
    }
    let story = Story::new();
    for n in 0..20 {
        story.world.git(
            &story.repo,
            ["commit", "-q", "--allow-empty", "-m", &n.to_string()],
        );
    }
    let (ran, calls) = story.world.trace("agent:a", ["verify", "HEAD"]);
    let _ = ran.ok();
    let ends = calls.iter().filter(|call| call.name == "exit_group");
    assert_eq!(ends.count(), 2, "jit itself, and git once");
}

#[test]
fn c4_without_a_log_everything_is_unknown_and_bad_ranges_are_refused() {
    let world = World::new(JIT);
    let report = world.jit(["verify", "HEAD", "--json"]).ok().json();
    assert_eq!(report["commits"][0]["verdict"], "unknown");
    let _ = world.jit(["verify", "HEAD", "--require"]).exits(6);
    assert!(!world.repo().join(".git/jit").exists(), "looking makes nothing");
    let _ = world.jit(["verify", "nowhere..HEAD"]).exits(3);
    let _ = world.jit(["verify", "--", "--output=x"]).exits(3);
    assert!(!world.repo().join("x").exists());
}

#[test]
fn c4_a_file_cannot_pass_itself_off_as_a_commit() {
    let story = Story::new();
    fs::write(story.repo.join("\n\n00000000000000000000000000000000"), "x").expect("write");
    story.world.git(&story.repo, ["add", "-A"]);
    story.world.git(&story.repo, ["commit", "-qm", "x"]);
    assert_eq!(story.verdicts("HEAD~..HEAD", 0).len(), 1);
}

#[test]
fn c5_a_server_refuses_what_its_log_contradicts_before_it_takes_the_objects() {
    let world = World::new(JIT);
    // One bare repository with jit in it, a worktree of it, and a clone that pushes.
    world.git(world.root(), ["clone", "-q", "--bare", "repo", "bare.git"]);
    let (bare, tree) = (world.root().join("bare.git"), world.root().join("tree"));
    world.git(&bare, ["worktree", "add", "-q", "-b", "work", "../tree"]);
    let _ = world.jit_in(&tree, ["init"]).ok();
    let _ = world
        .jit_in(&tree, ["issue", "create", "One", "--id", "WI-1"])
        .ok();
    let lease = world
        .jit_as_in("agent:a", &tree, ["claim", "acquire", "WI-1", "--json"])
        .ok()
        .json();
    let lease = lease["lease_id"].as_str().expect("a lease").to_owned();
    let _ = world.jit_in(&bare, ["hooks", "install"]).exits(2);
    let _ = world.jit_in(&bare, ["hooks", "install", "--server"]).ok();
    world.git(world.root(), ["clone", "-q", "bare.git", "clone"]);
    let clone = world.root().join("clone");
    let push = |message: String, branch: &str| {
        world.git(&clone, ["commit", "-q", "--allow-empty", "-m", &message]);
        let mut command = world.command("git", &clone);
        command.args(["push", "-q", "origin", &format!("HEAD:refs/heads/{branch}")]);
        world.run(command)
    };
    let _ = push("no trailers".into(), "plain").ok();
    let _ = push(format!("x\n\nJIT-Lease: {lease}\nJIT-Agent: agent:a\n"), "good").ok();
    let ran = push(format!("x\n\nJIT-Lease: {lease}\nJIT-Agent: agent:b\n"), "bad").exits(1);
    assert!(ran.stderr.contains("agent:a's, not agent:b's"), "{}", ran.stderr);
    let refs = world.git(&bare, ["for-each-ref", "--format=%(refname)"]);
    assert!(refs.contains("good") && !refs.contains("bad"), "{refs}");
    world.git(&clone, ["push", "-q", "origin", ":refs/heads/good"]);
}

#[test]
fn c5_a_server_without_a_log_checks_the_form_of_trailers() {
    let world = World::new(JIT);
    world.git(world.root(), ["init", "-q", "--bare", "bare.git"]);
    let bare = world.root().join("bare.git");
    let before = jit_testkit::world::tools::Folder::read(&bare).expect("bare");
    let _ = world.jit_in(&bare, ["hooks", "install", "--server"]).ok();
    let _ = world.jit_in(&bare, ["hooks", "uninstall"]).ok();
    assert_eq!(
        jit_testkit::world::tools::Folder::read(&bare).expect("bare"),
        before
    );
    let _ = world.jit_in(&bare, ["hooks", "install", "--server"]).ok();
    let repo = world.repo();
    let push = |message: &str| {
        world.git(&repo, ["commit", "-q", "--allow-empty", "-m", message]);
        let mut command = world.command("git", &repo);
        command.args(["push", "-q", "../bare.git", "HEAD:refs/heads/main"]);
        let ran = world.run(command);
        if ran.code != 0 {
            world.git(&repo, ["reset", "-q", "--hard", "HEAD~"]);
        }
        ran
    };
    let _ = push("plain").ok();
    let _ = push("x\n\nJIT-Lease: 01ARZ3NDEKTSV4RRFFQ69G5FAV\nJIT-Agent: agent:a\n").ok();
    assert!(
        push("x\n\nJIT-Lease: nonsense\nJIT-Agent: agent:a\n")
            .exits(1)
            .stderr
            .contains("JIT-Lease")
    );
    assert!(
        push("x\n\nJIT-Lease: 01ARZ3NDEKTSV4RRFFQ69G5FAV\n")
            .exits(1)
            .stderr
            .contains("no JIT-Agent")
    );
    assert!(!bare.join("jit").exists());
}

#[test]
fn c4_a_revision_that_does_not_exist_is_named() {
    let world = World::with_jit(JIT);
    world.git(&world.repo(), ["commit", "-q", "--allow-empty", "-m", "one"]);
    for range in ["nosuch..HEAD", "HEAD...nosuch", "nosuch", "^nosuch"] {
        let ran = world.jit(["verify", range]).exits(3);
        assert!(
            ran.stderr.contains("error: no such revision: nosuch\n"),
            "{}",
            ran.stderr
        );
    }
}
