//! `jit demo` (I5): the story, its summary, and that it leaves nothing behind.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use jit_testkit::world::World;

const JIT: &str = env!("CARGO_BIN_EXE_jit");

fn left_behind(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).expect("the folder").map(|entry| {
        entry
            .expect("an entry")
            .file_name()
            .to_string_lossy()
            .into_owned()
    });
    names.filter(|name| name.starts_with("jit-demo-")).collect()
}

#[test]
fn heavy_i5_demo_tells_the_story_and_every_check_holds() {
    let world = World::new(JIT);
    // Not a repository, a temporary folder with a space, no git identity, and variables that would lead astray.
    let folder = world.root().join("with space");
    std::fs::create_dir(&folder).expect("a folder");
    let mut command = world.jit_command(&folder);
    for name in [
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
    ] {
        command.env_remove(name);
    }
    command
        .env("TMPDIR", &folder)
        .env("GIT_DIR", "/nowhere")
        .env("JIT_DIR", "/nowhere")
        .env("JIT_AGENT_ID", "human:someone")
        .env("JIT_REQUEST_ID", "always-the-same")
        .args(["demo", "--json"]);
    let ran = world.run(command).ok();
    let summary = ran.json();
    assert_eq!(summary["ok"], true, "{summary:#}");
    assert_eq!(summary["issues"], 12);
    assert_eq!(summary["killed"]["agent_id"], "agent:cleo");
    assert_eq!(summary["stale_renew"]["exit"], 5);
    assert_eq!(summary["validate"]["ok"], true);
    assert!(summary["takeover"]["token"].as_u64() > summary["killed"]["token"].as_u64());
    assert!(summary["kept"].is_null());
    let landings = &summary["landings"];
    assert_eq!(landings["landed"].as_array().map(Vec::len), Some(3), "{landings}");
    assert_eq!(landings["escalated"].as_array().map(Vec::len), Some(1));
    assert!(landings["rescued"].is_string());
    let finished: u64 = summary["finished"]
        .as_object()
        .expect("who finished")
        .values()
        .filter_map(serde_json::Value::as_u64)
        .sum();
    assert_eq!(finished, 12);
    assert!(ran.stderr.contains("is killed (SIGKILL)"), "{}", ran.stderr);
    assert_eq!(left_behind(&folder), Vec::<String>::new());
}

#[test]
fn heavy_i5_demo_keep_leaves_a_repository_to_look_at() {
    let world = World::new(JIT);
    let ran = world.jit(["demo", "--keep"]).ok();
    assert!(ran.stdout.contains("takes over"), "{}", ran.stdout);
    assert!(!ran.stdout.contains('\u{1b}'), "colours only on a terminal");
    let names = left_behind(world.root());
    let [name] = &names[..] else {
        panic!("one folder, not {names:?}")
    };
    let repo = world.root().join(name).join("repo");
    let history = world.jit_in(&repo, ["claim", "history", "--json"]).ok().json();
    let ops: Vec<&str> = history["records"]
        .as_array()
        .expect("records")
        .iter()
        .filter_map(|record| record["op"].as_str())
        .collect();
    assert_eq!(ops.iter().filter(|op| **op == "auto-evict").count(), 1, "{ops:?}");
    let _ = world.jit_in(&repo, ["validate"]).ok();
}

#[test]
fn heavy_i5_demo_killed_in_the_middle_leaves_no_folder() {
    let world = World::new(JIT);
    let mut child = world
        .jit_command(world.root())
        .arg("demo")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the demo starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let killed = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("is killed")));
    assert!(killed.is_some(), "the story comes as it happens");
    child.kill().expect("kill");
    child.wait().expect("wait");
    // Its janitor is nobody's child any more: there is nothing to wait on but the folder.
    let until = Instant::now() + Duration::from_secs(30);
    while !left_behind(world.root()).is_empty() {
        assert!(
            Instant::now() < until,
            "still there: {:?}",
            left_behind(world.root())
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn heavy_i5_demo_without_git_says_so_and_a_reader_that_leaves_ends_it() {
    let world = World::new(JIT);
    let mut command = world.jit_command(world.root());
    command.env("PATH", "/nowhere").args(["demo", "--json"]);
    let ran = world.run(command).exits(1);
    let message = ran.json()["error"]["message"].as_str().map(str::to_owned);
    assert!(message.is_some_and(|text| text.contains("git")), "{}", ran.stdout);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = world.jit_command(world.root());
    let output = command
        .arg("demo")
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .expect("it ends");
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(left_behind(world.root()), Vec::<String>::new());
}
