//! Accounts that are refused: nobody is started on them, everybody goes on afterwards, and nothing is done twice (G13).
//! And secrets, which are in none of the files about an agent (G8).
//!
//! The agents are scripts that print what the real programs print when they are refused.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use jit_testkit::world::World;
use serde_json::Value;

use crate::running::{Yard, ms};

/// Claude Code in two-way mode, as far as it matters: its session, and what it was told first. Asked to go on with a
/// session, it is asked what that has used before it is told anything.
const CLAUDE: &str = r#"#!/bin/sh
session=none; resumed=no
for arg in "$@"; do case $arg in
 --session-id=*) session=${arg#*=};;
 --resume=*) session=${arg#*=}; resumed=yes;;
esac; done
echo "$JIT_UNIT $JIT_ATTEMPT $resumed $session" >> "$HOME/starts"
printf '{"type":"system","subtype":"init","session_id":"%s","model":"m"}\n' "$session"
refuse() { # status, words
 printf '{"type":"system","subtype":"api_retry","attempt":1,"max_retries":1,"retry_delay_ms":1,"error_status":%s,"error":"rate_limit","session_id":"%s"}\n' "$1" "$session"
 printf '{"type":"result","subtype":"success","is_error":true,"terminal_reason":"api_error","api_error_status":%s,"result":"%s","session_id":"%s","num_turns":1,"total_cost_usd":0,"usage":{},"modelUsage":{},"permission_denials":[]}\n' "$1" "$2" "$session"
 exit 1
}
work() {
 echo "$JIT_UNIT" >> "$JIT_UNIT.txt"
 git add -A . && git commit -qm "work of $JIT_UNIT" >&2 || exit 9
}
finish() {
 printf '{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","result":"done","session_id":"%s","num_turns":2,"total_cost_usd":0.5,"usage":{},"modelUsage":{},"permission_denials":[]}\n' "$session"
 exit 0
}
"#;

struct Post {
    yard: Yard,
}

impl Post {
    /// Claude Code is a script that goes on with these lines.
    fn new(script: &str) -> Self {
        let post = Self { yard: Yard::new("") };
        let path = post.claude();
        fs::write(&path, format!("{CLAUDE}\n{script}\n")).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
        post
    }

    fn claude(&self) -> PathBuf {
        self.yard.world.home().join("claude")
    }

    fn world(&self) -> &World {
        &self.yard.world
    }

    fn set(&self, key: &str, value: &str) {
        let _ = self.world().jit(["config", "set", "--user", key, value]).ok();
    }

    /// A plan with units of that script, and some of the yard's own agent.
    fn plan(&self, claude: &[&str], command: &[&str]) -> PathBuf {
        let mut text = "workflow_id: flow\nstagger: 0s\nmax_concurrent: 3\nunits:\n".to_owned();
        for (agent, program, units) in [
            ("claude", self.claude(), claude),
            ("command", self.yard.agent(), command),
        ] {
            for unit in units {
                text.push_str(&format!(
                    "  - id: {unit}\n    prompt: do {unit}\n    run:\n      agent: {agent}\n      command: [{:?}]\n      max_retries: 0\n",
                    program.display().to_string()
                ));
            }
        }
        let path = self.world().home().join("plan.yaml");
        fs::write(&path, text).expect("a plan");
        path
    }

    /// Unit, attempt, whether it went on with a session, and which one.
    fn started(&self) -> Vec<(String, String, bool, String)> {
        let text = fs::read_to_string(self.world().home().join("starts")).unwrap_or_default();
        let mut all = Vec::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            // The yard's own agent has three words.
            if let [unit, attempt, resumed, session] = words[..] {
                all.push((unit.into(), attempt.into(), resumed == "yes", session.into()));
            }
        }
        all
    }

    fn events(&self, kind: &str) -> Vec<Value> {
        self.yard.events(kind)
    }

    fn nobody_began_while_parked(&self) {
        self.yard.nobody_began_while_parked();
    }

    fn commits(&self, file: &str) -> usize {
        self.yard.commits(file)
    }
}

/// The first attempts are refused for a second or two; the work that one had done by then is not done again.
#[test]
fn g13_refused_agents_go_on_where_they_were_when_the_time_is_over_and_nothing_is_redone() {
    let post = Post::new(
        r#"case $resumed in
 no) [ "$JIT_UNIT" = a ] && work; refuse 429 "API Error: 429 rate limited, please try again in 1.5s";;
 yes) [ "$JIT_UNIT" = a ] || work; finish;;
esac"#,
    );
    let plan = post.plan(&["a", "b"], &["c"]);
    let ran = post.world().jit(["run".as_ref(), plan.as_os_str()]).ok();
    for unit in ["a", "b", "c"] {
        assert!(
            post.yard.on_main(&format!("{unit}.txt")),
            "{unit}\n{}",
            ran.stdout
        );
        assert_eq!(post.commits(&format!("{unit}.txt")), 1, "{unit}");
    }
    assert!(ran.stdout.contains("account claude"), "{}", ran.stdout);
    let parked = post.events("account.parked");
    assert!(!parked.is_empty());
    for unit in ["a", "b"] {
        let unit = post.yard.unit(unit);
        // max_retries is 0: it went on all the same.
        assert_eq!(unit["retry_count"], 0, "{unit}");
        assert_eq!(unit["limited_since"], Value::Null, "{unit}");
    }
    let started = post.started();
    let first = |unit: &str| started.iter().find(|one| one.0 == unit).expect("started").clone();
    for (unit, attempt, resumed, session) in &started {
        if !attempt.ends_with("/1") {
            assert!(*resumed && *session == first(unit).3, "{started:?}");
        }
    }
    post.nobody_began_while_parked();
    assert!(started.len() <= 4, "{started:?}");
    post.world().validates();
}

/// A 529 without a time.
#[test]
fn g13_without_a_time_it_is_left_alone_for_a_while_that_can_be_set() {
    let post = Post::new(
        r#"case $JIT_ATTEMPT in */1|*/2) refuse 529 "Overloaded";; esac
work; finish"#,
    );
    post.set("dispatch.park_secs", "1");
    let plan = post.plan(&["a"], &[]);
    let _ = post.world().jit(["run".as_ref(), plan.as_os_str()]).ok();
    let parked = post.events("account.parked");
    let pause = |attempt: u32| {
        let of = |event: &&Value| event["payload"]["attempt"] == attempt;
        let last = &parked.iter().rfind(of).expect("parked")["payload"];
        ms(&last["until"]) - ms(&last["last_hit"])
    };
    assert_eq!((pause(1), pause(2)), (1000, 2000), "{parked:?}");
    post.nobody_began_while_parked();
    assert_eq!(post.yard.unit("a")["attempt"], 3);
    assert_eq!(post.yard.unit("a")["retry_count"], 0);
}

#[test]
fn g13_a_parked_account_is_shown_refused_by_hand_lifted_and_forced() {
    let post = Post::new(
        r#"[ -f "$HOME/go" ] || refuse 429 "You have hit your limit, try again in 5 hours"; work; finish"#,
    );
    let world = post.world();
    let program = post.claude().display().to_string();
    let dispatch = |more: &[&str]| {
        let base = [
            "worktree",
            "dispatch",
            "u",
            "--prompt",
            "x",
            "--agent",
            "claude",
            "--wait",
            "--command",
        ];
        let words: Vec<&str> = more
            .iter()
            .copied()
            .chain(base)
            .chain([program.as_str()])
            .collect();
        // Flags before the command line that ends it.
        let (flags, rest) = words.split_at(more.len());
        world.jit(rest[..3].iter().chain(flags).chain(&rest[3..]))
    };
    let _ = world.jit(["worktree", "create", "u"]).ok();
    let _ = dispatch(&[]).exits(6);
    let unit = post.yard.unit("u");
    assert_eq!(unit["error"]["reason"], "rate_limit", "{unit}");
    assert_eq!(unit["account"], "claude", "{unit}");
    let status = world.jit(["status", "--json"]).ok().json();
    assert_eq!(status["parked"][0]["account"], "claude", "{status}");
    assert_eq!(status["parked"][0]["unit"], "u", "{status}");
    assert!(
        world
            .jit(["status"])
            .ok()
            .stdout
            .contains("claude is parked until")
    );
    let refused = dispatch(&["--json"]).exits(4);
    let error = &refused.json()["error"];
    assert_eq!(error["code"], "parked", "{error}");
    assert_eq!(error["details"]["account"], "claude", "{error}");
    assert!(error["help"].to_string().contains("unpark claude"), "{error}");
    assert_eq!(post.yard.unit("u")["retry_count"], 0, "nothing was begun");
    // Before an issue, a claim or a worktree is made for it.
    let command = ["--agent", "claude", "--command", &program];
    let _ = world
        .jit(["start", "Another thing"].iter().chain(&command))
        .exits(4);
    let issues = world.jit(["issue", "list", "--json"]).ok().json();
    assert_eq!(issues["issues"], Value::Array(Vec::new()), "{issues}");
    // Another account of the same agent is another matter.
    fs::write(world.home().join("go"), "").expect("a sign");
    let _ = world.jit(["worktree", "create", "v"]).ok();
    let other = [
        "worktree",
        "dispatch",
        "v",
        "--prompt",
        "x",
        "--account",
        "two",
        "--wait",
    ];
    let _ = world.jit(other.iter().chain(&command)).ok();
    assert_eq!(post.yard.unit("v")["account"], "claude/two");
    // A workflow waits, and says for what.
    let plan = post.plan(&["w"], &[]);
    let mut run = world.jit_command(&world.repo());
    run.arg("run").arg(&plan).stdout(std::process::Stdio::null());
    let mut coordinator = run.spawn().expect("a coordinator");
    let shown = loop {
        let shown = world.jit(["workflow", "status", "flow", "--json"]);
        if shown.code == 0 && !shown.json()["led_by"].is_null() {
            break shown.json();
        }
        std::thread::yield_now();
    };
    assert_eq!(shown["parked"][0]["account"], "claude", "{shown}");
    assert_eq!(post.started().iter().filter(|one| one.0 == "w").count(), 0);
    let _ = dispatch(&["--force"]).ok();
    let lifted = world.jit(["worktree", "unpark", "claude", "--json"]).ok().json();
    assert_eq!(lifted["until"], Value::Null, "{lifted}");
    assert_eq!(coordinator.wait().expect("its end").code(), Some(0));
    assert!(post.yard.on_main("w.txt"));
    let _ = world.jit(["worktree", "unpark", "nobody"]).exits(3);
    let _ = world.jit(["worktree", "unpark", "no body"]).exits(2);
}

/// An agent that waits by itself keeps others from being started meanwhile.
#[test]
fn g13_while_an_agent_waits_for_its_model_nobody_else_is_started_on_its_account() {
    let post = Post::new(
        r#"if [ "$JIT_UNIT" = a ]; then
 printf '{"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"retry_delay_ms":36000000,"error_status":429,"error":"rate_limit","session_id":"%s"}\n' "$session"
 while [ ! -f "$HOME/go" ]; do sleep 0.05; done
fi
work; finish"#,
    );
    let world = post.world();
    let program = post.claude().display().to_string();
    let start = |unit: &str| {
        let _ = world.jit(["worktree", "create", unit]).ok();
        world.jit([
            "worktree",
            "dispatch",
            unit,
            "--prompt",
            "x",
            "--agent",
            "claude",
            "--command",
            &program,
        ])
    };
    let _ = start("a").ok();
    while post.events("account.parked").is_empty() {
        std::thread::yield_now();
    }
    let refused = start("b").exits(4);
    assert!(refused.stderr.contains("rate_limit"), "{}", refused.stderr);
    fs::write(world.home().join("go"), "").expect("a sign");
    let _ = world.jit(["worktree", "unpark", "claude"]).ok();
    let _ = world
        .jit([
            "worktree",
            "dispatch",
            "b",
            "--prompt",
            "x",
            "--wait",
            "--agent",
            "claude",
            "--command",
            &program,
        ])
        .ok();
}

/// Every file below, but what the agent itself was told or wrote.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        match entry.file_type().expect("a type").is_dir() {
            true => files(&entry.path(), found),
            false => found.push(entry.path()),
        }
    }
}

/// G8: a secret of the agent's environment, printed in every way there is, is in no file about it, nor in the log.
#[test]
fn g8_a_planted_secret_is_in_no_file_about_an_agent() {
    let secrets = [
        "hunter2-correct-horse-battery",
        "sk-ant-api03-AbCdEf012345",
        "quo\"ted\\secret\\0815",
    ];
    let yard = Yard::with_script(
        r#"echo "plain $MY_API_KEY"
printf 'in two'; printf ' pieces hunter2-'; sleep 0.05; printf 'correct-horse-battery, and on\n'
printf 'over two hunter2-correct-\nhorse-battery lines\n' >&2
echo '{"kind":"text","text":"'"$MY_API_KEY"'"}'
echo '{"kind":"tool","name":"Bash","detail":"curl -H x-api-key:'"$MY_API_KEY"'"}'
printf '%s\n' '{"kind":"text","text":"quo\"ted\\secret\\0815"}'
printf '%s\n' "$DB_PASSWORD"
printf '%s\n' "$DB_PASSWORD" >&2
echo '{"kind":"denied","name":"'"$MY_API_KEY"'","reason":"sk-ant-api03-AbCdEf012345"}'
echo '{"kind":"started","session_id":"'"$MY_API_KEY"'"}'
awk 'BEGIN { for (n = 0; n < 2050; n++) printf "x"; print "" }' | sed "s/\$/$MY_API_KEY/"
awk 'BEGIN { for (n = 0; n < 1990; n++) printf "y"; print "" }' | sed "s/\$/$MY_API_KEY/"
echo 'not {"kind":"json" sk-ant-api03-AbCdEf012345'
echo '{"kind":"result","verdict":{"is_error":true,"reason":"'"$MY_API_KEY"'","text":"failed with '"$MY_API_KEY"'"}}'
printf 'no line end hunter2-correct-horse-battery' >&2
exit 1"#,
    );
    let plan = yard.plan("", &[("a", &[], "run: {max_retries: 0}")]);
    let mut command = yard.world.jit_command(&yard.world.repo());
    command
        .arg("run")
        .arg(&plan)
        .env("MY_API_KEY", secrets[0])
        .env("DB_PASSWORD", secrets[2]);
    let ran = yard.world.run(command).exits(6);
    let mut found = Vec::new();
    files(&yard.world.control(), &mut found);
    let attempt = yard.world.control().join("units/a/attempt-1");
    for name in ["events.jsonl", "stdout.log", "stderr.log", "exit.json"] {
        let text = fs::read_to_string(attempt.join(name)).expect(name);
        assert!(text.contains("[redacted]"), "{name}: {text}");
    }
    for path in found {
        let bytes = fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).replace('\n', "");
        for secret in secrets {
            let escaped = serde_json::to_string(secret).expect("JSON");
            for form in [secret, escaped.trim_matches('"')] {
                assert!(!text.contains(form), "{} has {form}", path.display());
            }
        }
        // Cut in the middle it is not there either.
        assert!(!text.contains("hunter2-"), "{}", path.display());
    }
    assert!(!ran.stdout.contains("hunter2"), "{}", ran.stdout);
    let message = yard.unit("a")["error"]["message"].to_string();
    assert!(message.contains("failed with [redacted]"), "{message}");
}
