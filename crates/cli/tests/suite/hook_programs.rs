//! Git hooks beside those of other programs, with the programs themselves (C1): husky, lefthook and pre-commit, from
//! `build/agents`.

use std::fs;
use std::path::{Path, PathBuf};

use jit_testkit::agent_cli::tool;
use jit_testkit::world::tools::Folder;
use jit_testkit::world::{Ran, World};

const JIT: &str = env!("CARGO_BIN_EXE_jit");

/// Runs a program with itself, jit and git on the path.
fn run(world: &World, dir: &Path, program: &Path, args: &[&str]) -> Ran {
    let folders = [program.parent(), Path::new(JIT).parent()];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = folders.into_iter().flatten().map(Path::to_owned);
    let path = std::env::join_paths(folders.chain(std::env::split_paths(&path))).expect("a path");
    let mut command = world.command(program, dir);
    command.env("PATH", path).args(args);
    world.run(command)
}

/// A repository with an issue that nobody may edit by hand.
fn guarded() -> (World, PathBuf) {
    let world = World::with_jit(JIT);
    let repo = world.repo();
    let _ = world.jit(["issue", "create", "One", "--id", "WI-1"]).ok();
    world.git(&repo, ["add", "."]);
    world.git(&repo, ["commit", "-qm", "issues"]);
    (world, repo)
}

/// A commit of a new file, which passes, and one of an issue edited by hand, which does not.
fn commits(world: &World, repo: &Path, program: &Path, round: &str) {
    let git = |args: &[&str]| {
        let mut command = world.command("git", repo);
        let folder = program.parent().expect("a folder");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
        command
            .env("PATH", std::env::join_paths(folders).expect("a path"))
            .env("JIT_AGENT_ID", "agent:a")
            .args(args);
        world.run(command)
    };
    fs::write(repo.join(round), "x").expect("written");
    let _ = git(&["add", round]).ok();
    let _ = git(&["commit", "-qm", round]).ok();
    let issue = repo.join(".jit/issues/WI-1/issue.json");
    let text = fs::read_to_string(&issue).expect("an issue");
    fs::write(&issue, text.replace("One", "Two")).expect("written");
    let _ = git(&["commit", "-qam", "by hand"]).exits(1);
    fs::write(&issue, text).expect("written");
    let _ = git(&["reset", "-q", "--hard"]).ok();
}

fn calls(world: &World) -> usize {
    let log = fs::read_to_string(world.root().join("calls")).unwrap_or_default();
    log.lines().count()
}

#[test]
fn c1_husky_runs_first_and_is_left_to_the_byte() {
    let Some(husky) = tool("husky") else { return };
    let (world, repo) = guarded();
    let _ = run(&world, &repo, &husky, &[]).ok();
    assert_eq!(world.git(&repo, ["config", "core.hooksPath"]).trim(), ".husky/_");
    fs::write(repo.join(".husky/pre-commit"), "echo husky >> ../calls\n").expect("written");
    let folder = Folder::read(&repo.join(".husky")).expect("a folder");
    let config = fs::read(repo.join(".git/config")).expect("a configuration");
    let _ = world.jit(["hooks", "install"]).ok();
    commits(&world, &repo, &husky, "first");
    assert_eq!(calls(&world), 2, "husky was asked each time");
    // Installed anew, as its `prepare` script does with every npm install, it hides jit's hooks: that is said and mended.
    let _ = run(&world, &repo, &husky, &[]).ok();
    let doctor = world.jit(["doctor"]).stdout;
    assert!(doctor.contains("core.hooksPath is .husky/_ now"), "{doctor}");
    let _ = world.jit(["hooks", "install"]).ok();
    commits(&world, &repo, &husky, "second");
    assert_eq!(calls(&world), 4);
    let _ = world.jit(["hooks", "uninstall"]).ok();
    assert_eq!(fs::read(repo.join(".git/config")).expect("read"), config);
    assert_eq!(Folder::read(&repo.join(".husky")).expect("a folder"), folder);
}

#[test]
fn c1_lefthook_runs_first_and_is_left_to_the_byte() {
    let Some(lefthook) = tool("lefthook") else {
        return;
    };
    let (world, repo) = guarded();
    let jobs = "pre-commit:\n  jobs:\n    - run: echo lefthook >> ../calls\n";
    fs::write(repo.join("lefthook.yml"), jobs).expect("written");
    world.git(&repo, ["add", "lefthook.yml"]);
    world.git(&repo, ["commit", "-qm", "lefthook"]);
    let _ = run(&world, &repo, &lefthook, &["install"]).ok();
    let before = Folder::read(&repo.join(".git/hooks")).expect("a folder");
    let config = fs::read(repo.join(".git/config")).expect("a configuration");
    let _ = world.jit(["hooks", "install"]).ok();
    commits(&world, &repo, &lefthook, "first");
    assert_eq!(calls(&world), 2, "lefthook was asked each time");
    let _ = world.jit(["hooks", "uninstall"]).ok();
    assert_eq!(Folder::read(&repo.join(".git/hooks")).expect("a folder"), before);
    assert_eq!(fs::read(repo.join(".git/config")).expect("read"), config);
    // Installed over jit's, it hides that one hook: that is said, and nothing of anybody's is removed.
    let _ = world.jit(["hooks", "install"]).ok();
    let _ = run(&world, &repo, &lefthook, &["install", "--force"]).ok();
    let list = world.jit(["hooks", "list", "--json"]).ok().json();
    assert_eq!(list["hooks"][0]["name"], "pre-commit");
    assert_eq!(list["hooks"][0]["state"], "foreign", "{list}");
}

#[test]
fn c1_pre_commit_runs_first_and_is_left_to_the_byte() {
    let Some(pre_commit) = tool("pre-commit") else {
        return;
    };
    let (world, repo) = guarded();
    let hooks = "repos:\n- repo: local\n  hooks:\n  - id: count\n    name: count\n    language: system\n    \
                 entry: sh -c 'echo pre-commit >> ../calls'\n    pass_filenames: false\n    always_run: true\n";
    fs::write(repo.join(".pre-commit-config.yaml"), hooks).expect("written");
    world.git(&repo, ["add", ".pre-commit-config.yaml"]);
    world.git(&repo, ["commit", "-qm", "pre-commit"]);
    let _ = run(&world, &repo, &pre_commit, &["install"]).ok();
    let before = Folder::read(&repo.join(".git/hooks")).expect("a folder");
    let config = fs::read(repo.join(".git/config")).expect("a configuration");
    let _ = world.jit(["hooks", "install"]).ok();
    commits(&world, &repo, &pre_commit, "first");
    assert_eq!(calls(&world), 2, "pre-commit was asked each time");
    let _ = world.jit(["hooks", "uninstall"]).ok();
    assert_eq!(Folder::read(&repo.join(".git/hooks")).expect("a folder"), before);
    assert_eq!(fs::read(repo.join(".git/config")).expect("read"), config);
}
