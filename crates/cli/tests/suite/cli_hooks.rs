//! Git hooks (C1, C2, C3): installed, chained, taken out again; and what they let through. Real git everywhere.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use jit_testkit::world::tools::Folder;
use jit_testkit::world::{Ran, World};
use serde_json::Value;

const JIT: &str = env!("CARGO_BIN_EXE_jit");

pub fn git_as<A: AsRef<OsStr>>(
    world: &World,
    agent: &str,
    dir: &Path,
    args: impl IntoIterator<Item = A>,
) -> Ran {
    let mut command = world.command("git", dir);
    command.env("JIT_AGENT_ID", agent).args(args);
    world.run(command)
}

fn script(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("folder");
    fs::write(path, text).expect("write");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("mode");
}

pub fn write(path: PathBuf, text: &str) {
    fs::write(path, text).expect("write");
}

/// With issue WI-1 committed and hooks installed.
pub fn guarded() -> World {
    let world = World::with_jit(JIT);
    let _ = world
        .jit(["issue", "create", "One", "--id", "WI-1", "--label", "x"])
        .ok();
    world.git(&world.repo(), ["add", "."]);
    world.git(&world.repo(), ["commit", "-qm", "issues"]);
    let _ = world.jit(["hooks", "install"]).ok();
    world
}

pub fn issue_json(tree: &Path) -> PathBuf {
    tree.join(".jit/issues/WI-1/issue.json")
}

/// Changes the title by hand.
pub fn edit(tree: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(issue_json(tree)).expect("read");
    assert!(text.contains(from), "{text}");
    write(issue_json(tree), &text.replace(from, to));
}

fn states(world: &World, dir: &Path) -> Vec<(String, String)> {
    let list = world.jit_in(dir, ["hooks", "list", "--json"]).ok().json();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    list["hooks"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|hook| (text(&hook["name"]), text(&hook["state"])))
        .collect()
}

#[test]
fn c1_installing_twice_is_installing_once_and_uninstalling_gives_every_byte_back() {
    let world = World::with_jit(JIT);
    let hooks = world.repo().join(".git/hooks");
    script(&hooks.join("pre-commit"), "#!/bin/sh\necho mine\n");
    fs::set_permissions(hooks.join("pre-commit"), fs::Permissions::from_mode(0o711)).expect("mode");
    symlink("../../scripts/push.sh", hooks.join("pre-push")).expect("link");
    write(hooks.join("post-merge"), "not executable: switched off\n");
    let (before, config) = (
        Folder::read(&hooks).expect("hooks"),
        fs::read(world.repo().join(".git/config")).expect("config"),
    );
    let plan = world.jit(["hooks", "install", "--dry-run", "--json"]).ok().json();
    assert_eq!(plan["changed"], false);
    assert!(plan["steps"].as_array().expect("steps").len() > 6, "{plan}");
    assert_eq!(
        Folder::read(&hooks).expect("hooks"),
        before,
        "a dry run changes nothing"
    );
    let _ = world.jit(["hooks", "install"]).ok();
    let once = Folder::read(&hooks).expect("hooks");
    assert_ne!(once, before);
    let again = world.jit(["hooks", "install", "--json"]).ok().json();
    assert_eq!(again["changed"], false, "{again}");
    assert_eq!(Folder::read(&hooks).expect("hooks"), once);
    for (name, state) in states(&world, &world.repo()) {
        assert_eq!(state, "installed", "{name}");
    }
    let _ = world.jit(["hooks", "uninstall"]).ok();
    assert_eq!(
        Folder::read(&hooks).expect("hooks"),
        before,
        "content, mode and link"
    );
    assert_eq!(
        fs::read(world.repo().join(".git/config")).expect("config"),
        config
    );
    assert!(!world.repo().join(".git/jit-hooks.json").exists());
}

#[test]
fn c1_a_folder_of_hooks_that_was_not_there_is_gone_again() {
    let world = World::with_jit(JIT);
    let hooks = world.repo().join(".git/hooks");
    if hooks.exists() {
        fs::remove_dir_all(&hooks).expect("remove");
    }
    let _ = world.jit(["hooks", "install"]).ok();
    assert!(hooks.join("pre-commit").is_file());
    let _ = world.jit(["hooks", "uninstall"]).ok();
    assert!(!hooks.exists());
}

#[test]
fn c1_hooks_are_one_line_calls_without_a_place_where_jit_is_on_path() {
    let world = World::with_jit(JIT);
    let mut command = world.jit_command(&world.repo());
    let bin = Path::new(JIT).parent().expect("a folder");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("PATH"));
    command.env("PATH", path).args(["hooks", "install"]);
    let _ = world.run(command).ok();
    for (name, _) in states(&world, &world.repo()) {
        let text = fs::read_to_string(world.repo().join(".git/hooks").join(&name)).expect("read");
        assert!(text.contains(&format!("jit hooks run {name} \"$@\"")), "{text}");
        assert!(!text.contains("target/") && !text.contains("jq "), "{text}");
    }
}

#[test]
fn c1_a_missing_program_is_said_and_lets_commits_pass() {
    let world = guarded();
    let repo = world.repo();
    // As if the program had been removed from where it was.
    for (name, _) in states(&world, &repo) {
        let path = repo.join(".git/hooks").join(name);
        let text = fs::read_to_string(&path).expect("read");
        write(path, &text.replace(JIT, "/nowhere/jit"));
    }
    write(repo.join("a"), "a");
    world.git(&repo, ["add", "a"]);
    let ran = git_as(&world, "agent:a", &repo, ["commit", "-qm", "plain"]).ok();
    assert!(
        ran.stderr.contains("jit: the program is not on PATH"),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains("changes .jit/"), "{}", ran.stderr);
    edit(&repo, "One", "Two");
    let ran = git_as(&world, "agent:a", &repo, ["commit", "-qam", "issue"]).ok();
    assert!(ran.stderr.contains("changes .jit/"), "{}", ran.stderr);
}

#[test]
fn c1_an_existing_hook_is_called_first_with_arguments_input_and_exit_code() {
    let world = World::with_jit(JIT);
    let repo = world.repo();
    let log = world.root().join("calls");
    let hooks = repo.join(".git/hooks");
    let shown = log.display();
    for name in ["pre-commit", "prepare-commit-msg", "pre-push", "post-checkout"] {
        script(
            &hooks.join(name),
            &format!(
                "#!/bin/sh\n{{ printf '%s' {name}; for a; do printf ' [%s]' \"$a\"; done; echo; cat; }} >> '{shown}'\nexit ${{FAIL:-0}}\n"
            ),
        );
    }
    let _ = world.jit(["hooks", "install"]).ok();
    world.git(world.root(), ["init", "-q", "--bare", "bare.git"]);
    world.git(&repo, ["remote", "add", "origin", "../bare.git"]);
    world.git(&repo, ["commit", "-q", "--allow-empty", "-m", "x"]);
    world.git(&repo, ["push", "-q", "origin", "main"]);
    world.git(&repo, ["checkout", "-q", "-b", "other"]);
    let calls = fs::read_to_string(&log).expect("calls");
    assert!(calls.starts_with("pre-commit\n"), "{calls}");
    assert!(
        calls.contains("prepare-commit-msg [.git/COMMIT_EDITMSG] [message]\n"),
        "{calls}"
    );
    assert!(
        calls.contains("pre-push [origin] [../bare.git]\nrefs/heads/main "),
        "{calls}"
    );
    assert!(calls.contains("] [1]\n"), "post-checkout has its flag: {calls}");
    let mut command = world.command("git", &repo);
    command
        .env("FAIL", "3")
        .args(["commit", "-q", "--allow-empty", "-m", "y"]);
    let _ = world.run(command).exits(1);
    let mut command = world.command(hooks.join("pre-commit"), &repo);
    command.env("FAIL", "3");
    let _ = world.run(command).exits(3);
}

#[test]
fn c1_a_hook_that_was_edited_after_the_installation_is_kept() {
    let world = World::with_jit(JIT);
    let hook = world.repo().join(".git/hooks/pre-commit");
    script(&hook, "#!/bin/sh\necho first\n");
    let _ = world.jit(["hooks", "install"]).ok();
    let edited = fs::read_to_string(&hook).expect("read") + "echo mine\n";
    write(hook.clone(), &edited);
    let again = world.jit(["hooks", "install", "--json"]).ok().json();
    assert!(
        again["notes"][0].as_str().expect("a note").contains("edited"),
        "{again}"
    );
    let done = world.jit(["hooks", "uninstall", "--json"]).ok().json();
    assert!(
        done["kept"][0]["path"]
            .as_str()
            .expect("path")
            .ends_with("hooks/pre-commit"),
        "{done}"
    );
    assert_eq!(fs::read_to_string(&hook).expect("read"), edited);
    assert!(
        hook.with_file_name("pre-commit.before-jit").exists(),
        "what it calls is there too"
    );
}

#[test]
fn c1_one_installation_serves_every_worktree() {
    let world = guarded();
    let linked = world.worktree("linked");
    edit(&linked, "One", "Two");
    let ran = git_as(&world, "agent:a", &linked, ["commit", "-qam", "edit"]).exits(1);
    assert!(ran.stderr.contains("WI-1"), "{}", ran.stderr);
    for (name, state) in states(&world, &linked) {
        assert_eq!(state, "installed", "{name}");
    }
}

#[test]
fn c1_a_relative_hooks_path_is_left_alone_reached_first_and_put_back() {
    let world = guarded();
    let repo = world.repo();
    let _ = world.jit(["hooks", "uninstall"]).ok();
    let log = world.root().join("calls");
    // Husky's: it finds its own name and its neighbours by $0.
    script(
        &repo.join(".husky/_/h"),
        &format!("echo \"$(basename \"$0\") $*\" >> '{}'\n", log.display()),
    );
    for name in ["pre-commit", "post-commit", "commit-msg"] {
        script(
            &repo.join(".husky/_").join(name),
            "#!/usr/bin/env sh\n. \"$(dirname \"$0\")/h\"\n",
        );
    }
    write(repo.join(".husky/_/.gitignore"), "*");
    world.git(&repo, ["config", "core.hooksPath", ".husky/_"]);
    let linked = world.worktree("linked");
    let before = Folder::read(&repo.join(".husky")).expect("husky");
    let config = fs::read(repo.join(".git/config")).expect("config");
    let done = world.jit(["hooks", "install", "--json"]).ok().json();
    let note = done["notes"][0].as_str().expect("a note");
    assert!(
        note.contains(".husky/_") && note.contains("linked"),
        "it is explained: {note}"
    );
    assert_eq!(Folder::read(&repo.join(".husky")).expect("husky"), before);
    write(repo.join("a"), "a");
    world.git(&repo, ["add", "a"]);
    world.git(&repo, ["commit", "-qm", "x"]);
    let calls = fs::read_to_string(&log).expect("calls");
    assert_eq!(
        calls,
        "pre-commit \ncommit-msg .git/COMMIT_EDITMSG\npost-commit \n"
    );
    // In a worktree without that folder, where git would have run nothing at all.
    for tree in [&repo, &linked] {
        edit(tree, "One", "Two");
        let _ = git_as(&world, "agent:a", tree, ["commit", "-qam", "edit"]).exits(1);
    }
    assert_eq!(
        world.jit(["hooks", "install", "--json"]).ok().json()["changed"],
        false
    );
    let doctor = world.jit(["doctor"]).stdout;
    assert!(doctor.contains("there only jit's hooks run"), "{doctor}");
    let _ = world.jit(["hooks", "uninstall"]).ok();
    assert_eq!(fs::read(repo.join(".git/config")).expect("config"), config);
    assert_eq!(Folder::read(&repo.join(".husky")).expect("husky"), before);
    assert!(!repo.join(".git/jit-hooks").exists() && !repo.join(".git/jit-hooks.json").exists());
}

#[test]
fn c1_an_absolute_hooks_path_is_where_hooks_go_and_other_repositories_do_not_notice() {
    let world = guarded();
    let repo = world.repo();
    let _ = world.jit(["hooks", "uninstall"]).ok();
    let shared = world.root().join("shared hooks");
    script(&shared.join("pre-commit"), "#!/bin/sh\nexit 0\n");
    let before = Folder::read(&shared).expect("hooks");
    let set = |dir: &Path| world.git(dir, ["config", "core.hooksPath", shared.to_str().expect("UTF-8")]);
    set(&repo);
    let _ = world.jit(["hooks", "install"]).ok();
    assert!(shared.join("pre-commit.before-jit").exists());
    edit(&repo, "One", "Two");
    let _ = git_as(&world, "agent:a", &repo, ["commit", "-qam", "edit"]).exits(1);
    world.git(world.root(), ["init", "-q", "plain"]);
    let plain = world.root().join("plain");
    set(&plain);
    let mut command = world.command("git", &plain);
    command.args(["commit", "-q", "--allow-empty", "-m", "x"]);
    assert_eq!(world.run(command).ok().stderr, "");
    assert!(!plain.join(".git/jit").exists());
    let _ = world.jit(["hooks", "uninstall"]).ok();
    assert_eq!(Folder::read(&shared).expect("hooks"), before);
}

#[test]
fn c1_doctor_and_list_tell_of_hooks_that_are_missing_or_shadowed() {
    let world = World::with_jit(JIT);
    assert!(
        world
            .jit(["doctor"])
            .ok()
            .stdout
            .contains("no hooks are installed")
    );
    let _ = world.jit(["hooks", "install"]).ok();
    let fine = world.jit(["doctor"]).ok().stdout;
    assert!(fine.contains("hooks         installed in"), "{fine}");
    fs::remove_file(world.repo().join(".git/hooks/pre-push")).expect("remove");
    let text = world.jit(["doctor"]).ok().stdout;
    assert!(text.contains("not installed: pre-push"), "{text}");
    // As husky does when it is installed again.
    world.git(&world.repo(), ["config", "core.hooksPath", ".husky/_"]);
    let text = world.jit(["doctor"]).ok().stdout;
    assert!(text.contains("where git does not look any more"), "{text}");
    assert!(states(&world, &world.repo()).contains(&("pre-commit".into(), "shadowed".into())));
}

#[test]
fn c1_init_installs_hooks_only_when_asked_and_uninstalling_jit_takes_them_out() {
    let world = World::new(JIT);
    let hooks = world.repo().join(".git/hooks");
    let before = Folder::read(&hooks).ok();
    let said = world.jit(["init"]).ok().stdout;
    assert!(said.contains("jit hooks install"), "{said}");
    assert_eq!(Folder::read(&hooks).ok(), before);
    let _ = world.jit(["init", "--hooks"]).ok();
    assert!(hooks.join("pre-commit").exists());
    let _ = world.jit(["uninstall", "--yes"]).ok();
    assert_eq!(Folder::read(&hooks).ok(), before);
    let other = World::new(JIT);
    let _ = other.jit(["hooks", "install"]).exits(3);
}

#[test]
fn c2_a_foreign_edit_needs_a_lease() {
    let world = guarded();
    let repo = world.repo();
    edit(&repo, "One", "Two");
    let ran = git_as(&world, "agent:a", &repo, ["commit", "-qam", "edit"]).exits(1);
    assert!(ran.stderr.contains("nobody holds WI-1"), "{}", ran.stderr);
    assert!(ran.stderr.contains("jit claim acquire WI-1"), "{}", ran.stderr);
    // That jit has noticed the edit does not make it jit's.
    let _ = world.jit(["issue", "list"]).ok();
    let _ = git_as(&world, "agent:a", &repo, ["commit", "-qam", "edit"]).exits(1);
    let _ = world.jit_as("agent:b", ["claim", "acquire", "WI-1"]).ok();
    let ran = git_as(&world, "agent:a", &repo, ["commit", "-qam", "edit"]).exits(1);
    assert!(ran.stderr.contains("agent:b holds WI-1"), "{}", ran.stderr);
    assert!(ran.stderr.contains("--wait"), "{}", ran.stderr);
    let _ = git_as(&world, "agent:b", &repo, ["commit", "-qam", "edit"]).ok();
}

#[test]
fn c2_a_path_that_differs_only_in_case_is_judged_as_the_guarded_one() {
    let world = guarded();
    let repo = world.repo();
    let text = fs::read_to_string(issue_json(&repo)).expect("an issue");
    world.git(&repo, ["checkout", "-q", "-b", "feature"]);
    for (twin, who, text, said) in [
        (
            ".jit/Issues/WI-1/issue.json",
            "agent:a",
            text.replace("One", "Two"),
            "nobody holds WI-1",
        ),
        (
            ".JIT/issues/WI-1/Issue.json",
            "agent:a",
            text.replace("One", "Two"),
            "nobody holds WI-1",
        ),
        (
            ".JIT/config.toml",
            "human:a",
            "# two\n".to_owned(),
            "only on main, not on feature",
        ),
        (
            ".JIT/config.toml",
            "agent:a",
            "# two\n".to_owned(),
            "a person commits that",
        ),
    ] {
        let path = repo.join(twin);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        write(path, &text);
        world.git(&repo, ["add", "-A"]);
        let ran = git_as(&world, who, &repo, ["commit", "-qm", "twin"]).exits(1);
        assert!(ran.stderr.contains(said), "{twin}: {}", ran.stderr);
        world.git(&repo, ["reset", "-q", "--hard"]);
    }
}

#[test]
fn c2_a_lease_in_another_worktree_is_not_enough() {
    let world = guarded();
    let linked = world.worktree("linked");
    let _ = world
        .jit_as_in("agent:a", &linked, ["claim", "acquire", "WI-1"])
        .ok();
    edit(&world.repo(), "One", "Two");
    let _ = git_as(&world, "agent:a", &world.repo(), ["commit", "-qam", "edit"]).exits(1);
}

#[test]
fn c2_what_jit_wrote_passes_without_a_lease() {
    let world = guarded();
    let repo = world.repo();
    let commit = |what: &str| {
        world.git(&repo, ["add", "-A"]);
        let ran = git_as(&world, "agent:z", &repo, ["commit", "-qm", what]);
        assert_eq!(ran.code, 0, "{what}: {}", ran.stderr);
    };
    let _ = world
        .jit_as("agent:a", ["issue", "create", "New", "--id", "WI-2"])
        .ok();
    commit("create");
    let change = [
        "issue",
        "update",
        "WI-1",
        "--title",
        "Three",
        "--add-label",
        "y",
        "--remove-label",
        "x",
    ];
    let _ = world.jit_as("agent:a", change).ok();
    // Older than what jit has by now.
    world.git(&repo, ["add", "-A"]);
    let _ = world
        .jit_as(
            "agent:a",
            ["issue", "update", "WI-1", "--title", "Four", "--add-label", "z"],
        )
        .ok();
    let _ = git_as(&world, "agent:z", &repo, ["commit", "-qm", "older"]).ok();
    commit("newer");
    let _ = world.jit_as("agent:a", ["dep", "add", "WI-2", "WI-1"]).ok();
    let _ = world.jit_as("agent:a", ["issue", "comment", "WI-1", "hm"]).ok();
    commit("dependency and comment");
    let _ = world
        .jit_as("agent:a", ["issue", "update", "WI-1", "--description", "text"])
        .ok();
    commit("description");
    write(repo.join(".jit/issues/WI-1/description.md"), "edited by hand\n");
    commit("a description needs no lease");
    let _ = world.jit_as("agent:a", ["issue", "delete", "WI-2"]).ok();
    commit("delete");
}

#[test]
fn c2_sets_and_whole_issues_are_not_changed_by_hand_without_a_lease() {
    let world = guarded();
    let repo = world.repo();
    let labels = repo.join(".jit/issues/WI-1/labels.or-set.jsonl");
    let old = fs::read_to_string(&labels).expect("labels");
    for new in [
        old.clone() + "{\"op\":\"add\",\"value\":\"mine\"}\n",
        String::new(),
    ] {
        write(labels.clone(), &new);
        let _ = git_as(&world, "agent:a", &repo, ["commit", "-qam", "labels"]).exits(1);
    }
    write(labels, &old);
    fs::remove_file(issue_json(&repo)).expect("remove");
    let _ = git_as(&world, "agent:a", &repo, ["commit", "-qam", "gone"]).exits(1);
}

#[test]
fn c2_the_index_that_is_committed_is_the_one_that_counts() {
    let world = guarded();
    let repo = world.repo();
    write(repo.join("a"), "a");
    world.git(&repo, ["add", "a"]);
    edit(&repo, "One", "Two");
    // Staged here is only `a`; the edit comes by path, by -a, or not at all.
    let _ = git_as(&world, "agent:a", &repo, ["commit", "-qm", "x", ".jit"]).exits(1);
    let _ = git_as(&world, "agent:a", &repo, ["commit", "-qam", "x"]).exits(1);
    let _ = git_as(&world, "agent:a", &repo, ["commit", "-qm", "x"]).ok();
    let linked = world.worktree("linked");
    edit(&linked, "One", "Two");
    let _ = git_as(&world, "agent:a", &linked, ["commit", "-qam", "x"]).exits(1);
}

#[test]
fn c2_names_of_any_kind_are_no_hindrance() {
    let world = guarded();
    let repo = world.repo();
    for name in [&b"a b"[..], b"a\nb", b"\xff\xfe", b":100644 x", b"-rf", b".jit\n"] {
        fs::write(repo.join(OsStr::from_bytes(name)), "x").expect("write");
    }
    world.git(&repo, ["add", "-A"]);
    let _ = git_as(&world, "agent:a", &repo, ["commit", "-qm", "names"]).ok();
    edit(&repo, "One", "Two");
    fs::write(repo.join(OsStr::from_bytes(b"a\nb")), "y").expect("write");
    let _ = git_as(&world, "agent:a", &repo, ["commit", "-qam", "names"]).exits(1);
}

#[test]
fn c2_a_name_that_is_not_text_is_covered_by_folders_and_stars_and_by_no_other_name() {
    let world = guarded();
    let repo = world.repo();
    fs::create_dir_all(repo.join("src")).expect("a folder");
    let lock = |args: &[&str]| world.jit_as("agent:b", ["lock"].iter().chain(args));
    let commit = |name: &[u8]| {
        fs::write(repo.join("src").join(OsStr::from_bytes(name)), "x").expect("write");
        world.git(&repo, ["add", "-A"]);
        let ran = git_as(&world, "agent:a", &repo, ["commit", "-qm", "bytes"]);
        world.git(&repo, ["reset", "-q", "--hard"]);
        ran.code
    };
    let _ = lock(&["acquire", "src/\u{fffd}.rs"]).ok();
    assert_eq!(commit(b"\xff.rs"), 0, "it only looks the same");
    assert_eq!(commit("\u{fffd}.rs".as_bytes()), 1);
    for pattern in ["src/", "src/*.rs", "src/?.rs"] {
        let _ = lock(&["release", "--all"]).ok();
        let _ = lock(&["acquire", pattern]).ok();
        assert_eq!(commit(b"\xfe.rs"), 1, "{pattern}");
    }
}

#[test]
fn c2_enforcement_follows_the_configuration() {
    let world = guarded();
    let repo = world.repo();
    let mut title = 0;
    let mut commit_as = |who: &str, key: &str, value: &str| {
        title += 1;
        edit(&repo, "\"title\": \"", &format!("\"title\": \"{title}"));
        let mut command = world.command("git", &repo);
        command.env("JIT_AGENT_ID", who).env(key, value);
        command.args(["commit", "-qam", "edit"]);
        world.run(command)
    };
    // Not by a variable of an agent (E6).
    for value in ["warn", "off"] {
        let _ = commit_as("agent:a", "JIT_CONFIG_WORKTREE__ENFORCE_LEASES", value).exits(1);
    }
    let mut commit = |key: &str, value: &str| commit_as("human:a", key, value);
    let ran = commit("JIT_CONFIG_WORKTREE__ENFORCE_LEASES", "warn").ok();
    assert!(
        ran.stderr.contains("warning: .jit/issues/WI-1/issue.json"),
        "{}",
        ran.stderr
    );
    assert_eq!(
        commit("JIT_CONFIG_WORKTREE__ENFORCE_LEASES", "off").ok().stderr,
        ""
    );
    assert_eq!(commit("JIT_CONFIG_WORKTREE__MODE", "off").ok().stderr, "");
    let _ = commit("JIT_CONFIG_WORKTREE__ENFORCE_LEASES", "strict-explicit").exits(1);
}

#[test]
fn c2_a_merge_brings_what_the_other_side_and_the_driver_wrote() {
    let world = World::with_jit(JIT);
    let repo = world.repo();
    world.git(
        &repo,
        [
            "config",
            "merge.jit-issue.driver",
            &format!("{JIT} merge-driver %O %A %B %P"),
        ],
    );
    let _ = world
        .jit(["issue", "create", "One", "--id", "WI-1", "--label", "x"])
        .ok();
    write(repo.join("code"), "base\n");
    world.git(&repo, ["add", "."]);
    world.git(&repo, ["commit", "-qm", "base"]);
    let clone = world.root().join("clone");
    world.git(world.root(), ["clone", "-q", "repo", "clone"]);
    // There, where this log knows nothing of it.
    for args in [
        &[
            "issue",
            "update",
            "WI-1",
            "--priority",
            "high",
            "--add-label",
            "there",
        ][..],
        &["issue", "create", "Else", "--id", "WI-2"],
    ] {
        let _ = world.jit_as_in("agent:there", &clone, args).ok();
    }
    write(clone.join("code"), "there\n");
    world.git(&clone, ["add", "."]);
    world.git(&clone, ["commit", "-qm", "there"]);
    let _ = world
        .jit([
            "issue",
            "update",
            "WI-1",
            "--title",
            "Here",
            "--add-label",
            "here",
        ])
        .ok();
    write(repo.join("code"), "here\n");
    world.git(&repo, ["commit", "-qam", "here"]);
    let _ = world.jit(["hooks", "install"]).ok();
    world.git(&repo, ["fetch", "-q", "../clone", "main:there"]);
    // Both changed `code`, so a person commits the merge.
    let ran = git_as(&world, "agent:a", &repo, ["merge", "-q", "there"]).exits(1);
    assert!(!ran.stdout.contains("conflict in .jit"), "{}", ran.stdout);
    write(repo.join("code"), "both\n");
    let text = fs::read_to_string(issue_json(&repo)).expect("read");
    assert!(text.contains("\"Here\"") && text.contains("\"high\""), "{text}");
    let ran = git_as(&world, "agent:a", &repo, ["commit", "-qam", "merge"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

#[test]
fn c2_an_edit_hidden_in_a_merge_needs_a_lease() {
    let world = guarded();
    let repo = world.repo();
    world.git(&repo, ["checkout", "-q", "-b", "side"]);
    world.git(&repo, ["commit", "-q", "--allow-empty", "-m", "side"]);
    world.git(&repo, ["checkout", "-q", "main"]);
    world.git(&repo, ["merge", "-q", "--no-commit", "--no-ff", "side"]);
    edit(&repo, "One", "Two");
    let _ = git_as(&world, "agent:a", &repo, ["commit", "-qam", "merge"]).exits(1);
}

#[test]
fn c2_global_files_change_only_on_allowed_branches_with_the_main_history() {
    let world = guarded();
    let repo = world.repo();
    let config = repo.join(".jit/config.toml");
    let commit = |text: &str| {
        write(config.clone(), text);
        git_as(&world, "human:me", &repo, ["commit", "-qam", "config"])
    };
    let _ = commit("# one\n").ok();
    world.git(&repo, ["checkout", "-q", "-b", "feature"]);
    let ran = commit("# two\n").exits(1);
    assert!(
        ran.stderr.contains("only on main, not on feature"),
        "{}",
        ran.stderr
    );
    // The settings on the target judge a commit, not those that it brings.
    let allowed = "[global_operations]\nallowed_branches = [\"main\", \"feature\"]\n";
    let _ = commit(allowed).exits(1);
    world.git(&repo, ["checkout", "-q", "-f", "main"]);
    let _ = commit(allowed).ok();
    world.git(&repo, ["checkout", "-q", "feature"]);
    world.git(&repo, ["merge", "-q", "main"]);
    let _ = commit(&format!("{allowed}# three\n")).ok();
    // main goes on without it.
    world.git(&repo, ["checkout", "-q", "main"]);
    world.git(&repo, ["commit", "-q", "--allow-empty", "-m", "on"]);
    world.git(&repo, ["checkout", "-q", "feature"]);
    let ran = commit(&format!("{allowed}# more\n")).exits(1);
    assert!(ran.stderr.contains("git rebase main"), "{}", ran.stderr);
    let free = format!("{allowed}require_main_history = false\n");
    let _ = commit(&free).exits(1);
    world.git(&repo, ["checkout", "-q", "-f", "main"]);
    let _ = commit(&free).ok();
    world.git(&repo, ["checkout", "-q", "feature"]);
    let _ = commit(&format!("{free}# more\n")).ok();
}

#[test]
fn c2_global_files_that_a_merge_brings_pass_on_any_branch() {
    let world = guarded();
    let repo = world.repo();
    write(repo.join("code"), "base\n");
    world.git(&repo, ["add", "."]);
    world.git(&repo, ["commit", "-qm", "base"]);
    world.git(&repo, ["checkout", "-q", "-b", "feature"]);
    write(repo.join("code"), "feature\n");
    world.git(&repo, ["commit", "-qam", "feature"]);
    world.git(&repo, ["checkout", "-q", "main"]);
    write(repo.join("code"), "main\n");
    write(repo.join(".jit/config.toml"), "# decided on main\n");
    world.git(&repo, ["commit", "-qam", "main"]);
    world.git(&repo, ["checkout", "-q", "feature"]);
    let _ = git_as(&world, "agent:a", &repo, ["merge", "-q", "main"]).exits(1);
    write(repo.join("code"), "both\n");
    let _ = git_as(&world, "agent:a", &repo, ["commit", "-qam", "merge"]).ok();
}

#[test]
fn c1_a_worktree_may_be_anywhere() {
    let world = guarded();
    let tree = world.root().join(OsStr::from_bytes(b"w \n\xff'"));
    let words: [&OsStr; 6] = [
        "worktree".as_ref(),
        "add".as_ref(),
        "-q".as_ref(),
        "-b".as_ref(),
        "odd".as_ref(),
        tree.as_ref(),
    ];
    world.git(&world.repo(), words);
    edit(&tree, "One", "Two");
    let _ = git_as(&world, "agent:a", &tree, ["commit", "-qam", "x"]).exits(1);
    let _ = world
        .jit_as_in("agent:a", &tree, ["claim", "acquire", "WI-1"])
        .ok();
    let _ = git_as(&world, "agent:a", &tree, ["commit", "-qam", "x"]).ok();
    let trailer = world.git(
        &tree,
        ["log", "-1", "--format=%(trailers:key=JIT-Agent,valueonly)"],
    );
    assert_eq!(trailer.trim(), "agent:a");
}

#[test]
fn c2_adding_jit_for_the_first_time_is_allowed_anywhere() {
    let world = World::new(JIT);
    let repo = world.repo();
    world.git(&repo, ["checkout", "-q", "-b", "try-jit"]);
    let _ = world.jit(["init", "--hooks"]).ok();
    world.git(&repo, ["add", "."]);
    let _ = git_as(&world, "human:me", &repo, ["commit", "-qm", "jit"]).ok();
    write(repo.join(".jit/gates/registry.json"), "{}\n");
    world.git(&repo, ["add", "."]);
    let _ = git_as(&world, "human:me", &repo, ["commit", "-qm", "gates"]).exits(1);
}

#[test]
fn c2_the_first_commit_of_all_passes() {
    let world = World::new(JIT);
    world.git(world.root(), ["init", "-q", "-b", "trunk", "fresh"]);
    let fresh = world.root().join("fresh");
    let _ = world.jit_in(&fresh, ["init", "--hooks"]).ok();
    let _ = world
        .jit_in(&fresh, ["issue", "create", "One", "--id", "WI-1"])
        .ok();
    world.git(&fresh, ["add", "."]);
    let _ = git_as(&world, "agent:a", &fresh, ["commit", "-qm", "first"]).ok();
}

#[test]
fn c2_a_broken_configuration_stops_only_commits_of_ours() {
    let world = guarded();
    let repo = world.repo();
    write(repo.join(".jit/config.toml"), "[worktree]\nmode = 3\n");
    write(repo.join("a"), "a");
    world.git(&repo, ["add", "a"]);
    let ran = git_as(&world, "agent:a", &repo, ["commit", "-qm", "x"]).ok();
    assert!(ran.stderr.contains("worktree.mode"), "{}", ran.stderr);
    let ran = git_as(&world, "agent:a", &repo, ["commit", "-qam", "x"]).exits(1);
    assert!(ran.stderr.contains("worktree.mode"), "{}", ran.stderr);
}

#[test]
fn c2_a_thousand_files_start_no_process_each() {
    if jit_testkit::world::tools::without("strace") {
        return;
    }
    let world = guarded();
    let repo = world.repo();
    for n in 0..1000 {
        fs::write(repo.join(format!("file {n}")), "x").expect("write");
    }
    world.git(&repo, ["add", "-A"]);
    let (ran, calls) = world.trace("agent:a", ["hooks", "run", "pre-commit"]);
    let _ = ran.ok();
    let ends = calls.iter().filter(|call| call.name == "exit_group");
    assert_eq!(ends.count(), 2, "jit itself, and git once");
}

#[test]
fn e7_what_git_brings_into_a_tree_is_in_the_log_at_once() {
    let world = guarded();
    let repo = world.repo();
    let clone = world.root().join("clone");
    world.git(world.root(), ["clone", "-q", "repo", "clone"]);
    let _ = world
        .jit_as_in("agent:there", &clone, ["issue", "create", "Else", "--id", "WI-7"])
        .ok();
    world.git(&clone, ["add", "."]);
    world.git(&clone, ["commit", "-qm", "there"]);
    world.git(&repo, ["pull", "-q", "--ff-only", "../clone", "main"]);
    let log = fs::read_to_string(world.control().join("events/control.jsonl")).expect("log");
    assert!(log.contains("WI-7"), "post-merge");
    // And never fails git, whatever there is.
    write(repo.join(".jit/config.toml"), "not toml");
    world.git(&repo, ["checkout", "-q", "-b", "side"]);
}

#[test]
fn c3_a_push_tells_of_leases_that_have_ended_and_refuses_when_told_to() {
    let world = guarded();
    let repo = world.repo();
    world.git(world.root(), ["init", "-q", "--bare", "bare.git"]);
    world.git(&repo, ["remote", "add", "origin", "../bare.git"]);
    world.git(&repo, ["push", "-q", "origin", "main"]);
    let _ = world.jit_as("agent:a", ["claim", "acquire", "WI-1"]).ok();
    let _ = git_as(
        &world,
        "agent:a",
        &repo,
        ["commit", "-q", "--allow-empty", "-m", "work"],
    )
    .ok();
    let push = |how: &str| {
        let mut command = world.command("git", &repo);
        command
            .env("JIT_AGENT_ID", "agent:a")
            .env("JIT_CONFIG_HOOKS__PRE_PUSH", how);
        command.args(["push", "-q", "--dry-run", "origin", "main"]);
        world.run(command)
    };
    assert_eq!(push("strict").ok().stderr, "", "while it is held");
    let _ = world.jit_as("agent:a", ["claim", "release", "WI-1"]).ok();
    let said = push("report").ok().stderr;
    assert!(
        said.contains("made by agent:a under lease") && said.contains("WI-1, which has ended"),
        "{said}"
    );
    assert_eq!(push("off").ok().stderr, "");
    let said = push("strict").exits(1).stderr;
    assert!(said.contains("jit claim acquire"), "{said}");
    let _ = world.jit_as("agent:b", ["claim", "acquire", "WI-1"]).ok();
    assert!(push("report").ok().stderr.contains("agent:b holds it"));
    let _ = world.jit_as("agent:b", ["claim", "release", "WI-1"]).ok();
    assert!(
        push("report").ok().stderr.contains("which has ended"),
        "older ones are known too"
    );
    let _ = world.jit_as("agent:a", ["claim", "acquire", "WI-1"]).ok();
    assert_eq!(push("strict").ok().stderr, "", "held again");
    let _ = world
        .jit_as("agent:a", ["config", "set", "hooks.pre_push", "off"])
        .exits(5);
}

#[test]
fn c6_divergence_is_told_with_the_commands_to_run() {
    let world = World::with_jit(JIT);
    let repo = world.repo();
    let check = |dir: &Path, exit: i32| {
        world
            .jit_in(dir, ["validate", "--divergence", "--json"])
            .exits(exit)
            .json()
    };
    assert_eq!(check(&repo, 0)["against"], "main");
    let linked = world.worktree("feature");
    world.git(&linked, ["commit", "-q", "--allow-empty", "-m", "mine"]);
    assert_eq!(check(&linked, 0)["ahead"], 1);
    world.git(&repo, ["commit", "-q", "--allow-empty", "-m", "theirs"]);
    let report = check(&linked, 6);
    assert_eq!((&report["ahead"], &report["behind"]), (&1.into(), &1.into()));
    assert_eq!(report["help"], serde_json::json!(["git rebase main"]));
    world.git(&linked, ["checkout", "-q", "--detach"]);
    assert_eq!(check(&linked, 6)["branch"], Value::Null);
    world.git(&linked, ["rebase", "-q", "main"]);
    let _ = check(&linked, 0);
    // With a remote, what it had when it was last fetched counts.
    world.git(world.root(), ["clone", "-q", "repo", "clone"]);
    let clone = world.root().join("clone");
    let _ = check(&clone, 0);
    world.git(&repo, ["commit", "-q", "--allow-empty", "-m", "more"]);
    world.git(&clone, ["fetch", "-q"]);
    let report = check(&clone, 6);
    assert_eq!(report["against"], "origin/main");
    assert_eq!(
        report["help"],
        serde_json::json!(["git fetch origin", "git rebase origin/main"])
    );
    // Another name, and nothing at all.
    world.git(world.root(), ["init", "-q", "-b", "trunk", "fresh"]);
    let fresh = world.root().join("fresh");
    let _ = check(&fresh, 0);
    world.git(&fresh, ["commit", "-q", "--allow-empty", "-m", "x"]);
    assert_eq!(check(&fresh, 0)["against"], "trunk");
    world.git(&fresh, ["checkout", "-q", "--orphan", "unborn"]);
    let _ = check(&fresh, 0);
    let mut command = world.jit_command(&linked);
    command.env("JIT_CONFIG_GLOBAL_OPERATIONS__ALLOWED_BRANCHES", "[\"release\"]");
    command.args(["validate", "--divergence", "--json"]);
    world.git(&repo, ["branch", "release"]);
    assert_eq!(world.run(command).exits(6).json()["against"], "release");
}
