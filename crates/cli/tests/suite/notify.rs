//! Telling people elsewhere: by a program, by an address, each thing once (G13).

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::thread::JoinHandle;

use serde_json::Value;

use crate::running::Yard;

/// A program that keeps what it is given, one a line, in the world's home.
fn told_by_command(yard: &Yard, classes: &str) -> PathBuf {
    let program = yard.world.home().join("tell");
    let kept = yard.world.home().join("told-of");
    let text = format!(
        "#!/bin/sh\n[ \"$#\" = 2 ] && [ \"$2\" = '$(x) y' ] || exit 7\ncat >> {}\n",
        kept.display()
    );
    fs::write(&program, text).expect("a script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("permissions");
    let list = format!("[{:?}, \"--as\", \"$(x) y\"]", program.display().to_string());
    let _ = yard
        .world
        .jit(["config", "set", "--user", "notify.command", &list])
        .ok();
    let _ = yard
        .world
        .jit(["config", "set", "--user", "notify.on", classes])
        .ok();
    kept
}

fn told(kept: &PathBuf) -> Vec<Value> {
    let text = fs::read_to_string(kept).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect()
}

fn classes(all: &[Value]) -> Vec<String> {
    let mut all: Vec<String> = all.iter().map(|one| one["class"].to_string()).collect();
    all.sort();
    all
}

#[test]
fn g13_nothing_is_told_unless_somebody_is_to_be_told() {
    let yard = Yard::new("");
    let refused = yard.world.jit(["notify", "test", "--json"]).exits(3);
    assert_eq!(refused.json()["error"]["code"], "not_found");
    // What comes with the repository starts nothing.
    let list = "[\"touch\", \"pwned\"]";
    let _ = yard.world.jit(["config", "set", "notify.command", list]).ok();
    let refused = yard.world.jit(["notify", "test"]).exits(3);
    assert!(refused.stderr.contains("does not count"), "{}", refused.stderr);
    let _ = yard.run("", &[("a", &[], "")]).ok();
    assert!(!yard.world.repo().join("pwned").exists());
    for (key, bad) in [
        ("notify.webhook", "file:///etc/passwd"),
        ("notify.webhook", "https://a b"),
        ("notify.on", "everything"),
    ] {
        let _ = yard.world.jit(["config", "set", "--user", key, bad]).exits(2);
    }
}

#[test]
fn g13_a_program_is_told_what_happened_and_what_to_do_next() {
    let yard = Yard::new("[ $JIT_UNIT != bad ] || { echo no token sk-ant-api03-0123456789 >&2; exit 1; }");
    let kept = told_by_command(&yard, "needs_person,failed,budget,landed,finished");
    let tested = yard.world.jit(["notify", "test"]).ok();
    assert!(tested.stdout.contains("sent command"), "{}", tested.stdout);
    assert_eq!(told(&kept).len(), 1);
    fs::remove_file(&kept).expect("a file");
    let units: &[(&str, &[&str], &str)] = &[("a", &[], ""), ("bad", &[], "run: {max_retries: 0}")];
    let _ = yard.run("budget_usd: 0.3", units).exits(6);
    let all = told(&kept);
    assert_eq!(
        classes(&all),
        ["\"budget\"", "\"failed\"", "\"finished\"", "\"landed\""],
        "{all:#?}"
    );
    let failed = all.iter().find(|one| one["class"] == "failed").expect("failed");
    assert_eq!(failed["unit"], "bad");
    assert_eq!(failed["workflow"], "flow");
    assert_eq!(failed["agent"], "command");
    assert_eq!(failed["next"], "jit worktree logs bad");
    assert_eq!(failed["repository"], yard.world.repo().display().to_string());
    assert!(failed["message"].to_string().contains("[redacted]"), "{failed}");
}

/// A conflict that nobody settles: told once, also when the coordinator ends and another comes.
#[test]
fn g13_what_needs_a_person_is_told_once_however_often_somebody_looks() {
    let yard = Yard::with_script(
        "echo \"$JIT_UNIT\" > shared.txt\ngit add -A . && git commit -qm \"work of $JIT_UNIT\" >&2 || exit 9",
    );
    let main = yard.world.repo();
    fs::write(main.join("shared.txt"), "as it was\n").expect("a file");
    let _ = yard.world.git(&main, ["add", "shared.txt"]);
    let _ = yard.world.git(&main, ["commit", "-qm", "shared"]);
    fs::write(main.join("shared.txt"), "somebody is at it\n").expect("a file");
    let kept = told_by_command(&yard, "needs_person");
    let _ = yard.run("", &[("a", &[], "")]).exits(6);
    let first = told(&kept);
    assert_eq!(classes(&first), ["\"needs_person\""], "{first:#?}");
    assert_eq!(first[0]["unit"], "a");
    let _ = yard.world.jit(["workflow", "resume", "flow"]).exits(6);
    assert_eq!(told(&kept), first);
    // What is not remembered is told again, by the same name.
    fs::remove_file(yard.world.control().join("workflows/flow/notified")).expect("a file");
    let _ = yard.world.jit(["workflow", "resume", "flow"]).exits(6);
    let again = told(&kept);
    assert_eq!(again.len(), 2, "{again:#?}");
    assert_eq!(again[0]["id"], again[1]["id"]);
}

#[test]
fn g13_a_program_that_fails_or_hangs_does_not_hold_up_a_workflow() {
    let yard = Yard::new("");
    let _ = told_by_command(&yard, "landed,finished");
    let list = "[\"sh\", \"-c\", \"echo broken >&2; sleep 600 & wait\"]";
    let _ = yard
        .world
        .jit(["config", "set", "--user", "notify.command", list])
        .ok();
    let _ = yard
        .world
        .jit(["config", "set", "--user", "notify.timeout_secs", "1"])
        .ok();
    let ran = yard.run("", &[("a", &[], "")]).ok();
    assert!(yard.on_main("a.txt"));
    assert!(ran.stderr.contains("nobody could be told"), "{}", ran.stderr);
    let tested = yard.world.jit(["notify", "test", "--json"]).exits(6);
    assert_eq!(tested.json()["sent"][0]["ok"], false);
}

/// Answers one request with these bytes, and gives what was asked.
fn server(answer: &'static str) -> (u16, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody");
        let mut asked = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let count = stream.read(&mut piece).expect("bytes");
            asked.extend_from_slice(&piece[..count]);
            let text = String::from_utf8_lossy(&asked).into_owned();
            let Some((head, body)) = text.split_once("\r\n\r\n") else {
                continue;
            };
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase()
                    .strip_prefix("content-length: ")?
                    .parse::<usize>()
                    .ok()
            });
            if count == 0 || length.is_some_and(|length| body.len() >= length) {
                break;
            }
        }
        stream.write_all(answer.as_bytes()).expect("answered");
        String::from_utf8_lossy(&asked).into_owned()
    });
    (port, served)
}

#[test]
fn g13_an_address_is_posted_to_and_a_redirect_is_not_followed() {
    let yard = Yard::new("");
    if std::process::Command::new("curl")
        .arg("--version")
        .output()
        .is_err()
    {
        // A machine without curl: that much can be said.
        let _ = yard
            .world
            .jit(["config", "set", "--user", "notify.webhook", "http://127.0.0.1:9/"])
            .ok();
        let tested = yard.world.jit(["notify", "test"]).exits(6);
        assert!(tested.stdout.contains("curl"), "{}", tested.stdout);
        return;
    }
    let (port, served) = server("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    let address = format!("http://127.0.0.1:{port}/hook?secret=1");
    let _ = yard
        .world
        .jit(["config", "set", "--user", "notify.webhook", &address])
        .ok();
    let _ = yard.world.jit(["notify", "test"]).ok();
    let asked = served.join().expect("a request");
    assert!(asked.starts_with("POST /hook?secret=1 HTTP/1.1"), "{asked}");
    let (_, body) = asked.split_once("\r\n\r\n").expect("a body");
    let body: Value = serde_json::from_str(body).expect(body);
    assert_eq!(body["class"], "needs_person", "{body}");
    assert_eq!(body["next"], "jit status", "{body}");
    let to = "HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let (port, served) = server(to);
    let address = format!("http://127.0.0.1:{port}/");
    let _ = yard
        .world
        .jit(["config", "set", "--user", "notify.webhook", &address])
        .ok();
    let _ = yard.world.jit(["notify", "test"]);
    let _ = served.join().expect("one request and no more");
}

#[test]
fn g13_a_coordinator_that_follows_a_killed_one_tells_nothing_twice() {
    let yard = Yard::new(
        "case $JIT_ATTEMPT in */1) echo '{\"kind\":\"result\",\"verdict\":{\"is_error\":true,\"reason\":\"rate_limit\"}}'; exit 1;; esac",
    );
    let kept = told_by_command(&yard, "parked,landed,finished");
    let _ = yard
        .world
        .jit(["config", "set", "--user", "dispatch.park_secs", "1h"])
        .ok();
    let plan = yard.plan("", &[("a", &[], "")]);
    let spawn = |args: &[&std::ffi::OsStr]| {
        let mut command = yard.world.jit_command(&yard.world.repo());
        command.args(args).stdout(std::process::Stdio::null());
        command.spawn().expect("a coordinator")
    };
    let mut first = spawn(&["run".as_ref(), plan.as_os_str()]);
    let remembered = yard.world.control().join("workflows/flow/notified");
    while fs::read(&remembered).unwrap_or_default().is_empty() {
        std::thread::yield_now();
    }
    first.kill().expect("killed");
    let _ = first.wait();
    let mut second = spawn(&["workflow".as_ref(), "resume".as_ref(), "flow".as_ref()]);
    let leads = || {
        let all = yard
            .world
            .jit(["events", "--type", "lead.acquired", "--json"])
            .ok();
        all.json()["events"].as_array().map_or(0, Vec::len)
    };
    while leads() < 2 {
        std::thread::yield_now();
    }
    let _ = yard.world.jit(["worktree", "unpark", "command"]).ok();
    assert_eq!(second.wait().expect("its end").code(), Some(0));
    let all = told(&kept);
    assert_eq!(
        classes(&all),
        ["\"finished\"", "\"landed\"", "\"parked\""],
        "{all:#?}"
    );
}
