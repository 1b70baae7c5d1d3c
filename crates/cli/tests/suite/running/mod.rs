//! A repository in which scripted agents work: real processes that do what a shell script says.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use jit_core::model::time::Wall;
use jit_testkit::world::{Ran, World};
use serde_json::Value;

pub const JIT: &str = env!("CARGO_BIN_EXE_jit");

/// Waits for something that comes.
pub fn until(what: &str, mut there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !there() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A file that the scripts of a yard and its test tell each other by.
pub fn file(yard: &Yard, name: &str) -> PathBuf {
    yard.world.home().join(name)
}

pub fn touch(yard: &Yard, name: &str) {
    fs::write(file(yard, name), "").expect("a file");
}

/// What every scripted agent does before and after its own lines.
const BEFORE: &str = r#"#!/bin/sh
cat > "$TOLD" 2>/dev/null || cat > /dev/null
echo "$JIT_UNIT $JIT_ATTEMPT $$" >> "$STARTS"
echo '{"kind":"started","session_id":"'"$JIT_UNIT"'-session"}'
"#;
const COMMIT: &str = r#"
echo "$JIT_UNIT" > "$JIT_UNIT.txt"
git add -A . && git commit -qm "work of $JIT_UNIT" >&2 || exit 9
echo '{"kind":"usage","tokens":{"input":100,"output":50},"cost_usd":0.25,"turns":2}'
echo '{"kind":"result","verdict":{"is_error":false,"reason":"completed","text":"done"}}'
"#;

pub struct Yard {
    pub world: World,
}

/// A time of an answer, in milliseconds.
pub fn ms(time: &Value) -> i64 {
    let text = time.as_str().expect("a time");
    text.parse::<Wall>().expect(text).ms()
}

impl Yard {
    /// Agents run `work`, and then commit a file of the unit's name.
    pub fn new(work: &str) -> Self {
        Self::with_script(&format!("{work}\n{COMMIT}"))
    }

    /// Agents run `script`, and nothing else.
    pub fn with_script(script: &str) -> Self {
        let world = World::with_jit(JIT);
        let yard = Self { world };
        let text = BEFORE
            .replace("$STARTS", &yard.starts_file().display().to_string())
            .replace("$TOLD", &yard.world.home().join("told").display().to_string());
        fs::write(yard.agent(), format!("{text}\n{script}\n")).expect("a script");
        fs::set_permissions(yard.agent(), fs::Permissions::from_mode(0o755)).expect("permissions");
        let settings = [
            ("dispatch.backoff_secs", "0"),
            ("dispatch.stagger_secs", "0"),
            ("dispatch.grace_secs", "1"),
        ];
        for (key, value) in settings {
            let _ = yard.world.jit(["config", "set", "--user", key, value]).ok();
        }
        yard
    }

    /// An agent that speaks as Claude Code does and runs `script`. What it was called with is in `args-<unit>-<attempt>` at
    /// home, `$id` is its session, and `say_result <is_error> <rest of the object>` ends it.
    pub fn claude(&self, script: &str) -> PathBuf {
        let head = r#"#!/bin/sh
echo "$JIT_UNIT $JIT_ATTEMPT $$" >> "$STARTS"
n=${JIT_ATTEMPT##*/}
for word in "$@"; do echo "$word"; done > "$HOME/args-$JIT_UNIT-$n"
id=$(sed -n 's/^--\(session-id\|resume\)=//p' "$HOME/args-$JIT_UNIT-$n" | tail -n 1)
say_result() {
  echo '{"type":"result","subtype":"success","is_error":'"$1"',"session_id":"'"$id"'","num_turns":1,"total_cost_usd":0.25,'"$2"'}'
}
commit() { echo "$JIT_UNIT" > "$JIT_UNIT.txt"; git add -A . && git commit -qm "work of $JIT_UNIT" >&2; }
echo '{"type":"system","subtype":"init","session_id":"'"$id"'","model":"scripted"}'
"#;
        let head = head.replace("$STARTS", &self.starts_file().display().to_string());
        let path = self.world.home().join("claude");
        fs::write(&path, format!("{head}\n{script}\n")).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
        path
    }

    pub fn agent(&self) -> PathBuf {
        self.world.home().join("agent")
    }

    fn starts_file(&self) -> PathBuf {
        self.world.home().join("starts")
    }

    /// A plan of these units: name, and what it needs.
    pub fn plan(&self, top: &str, units: &[(&str, &[&str], &str)]) -> PathBuf {
        let mut text = format!(
            "workflow_id: flow\nstagger: 0s\n{top}\nrun:\n  agent: command\n  command: [{:?}]\nunits:\n",
            self.agent().display().to_string()
        );
        for (id, needs, more) in units {
            text.push_str(&format!("  - id: {id}\n    depends_on: [{}]\n", needs.join(", ")));
            if !more.contains("issue:") {
                text.push_str(&format!("    prompt: do {id}\n"));
            }
            for line in more.lines() {
                text.push_str(&format!("    {line}\n"));
            }
        }
        let path = self.world.home().join("plan.yaml");
        fs::write(&path, text).expect("a plan");
        path
    }

    pub fn run(&self, top: &str, units: &[(&str, &[&str], &str)]) -> Ran {
        let plan = self.plan(top, units);
        self.world.jit(["run".as_ref(), plan.as_os_str()])
    }

    /// How often each attempt's agent was started.
    pub fn starts(&self) -> BTreeMap<String, usize> {
        let text = fs::read_to_string(self.starts_file()).unwrap_or_default();
        let mut starts = BTreeMap::new();
        for line in text.lines() {
            let attempt = line.split_whitespace().nth(1).expect("an attempt");
            *starts.entry(attempt.to_owned()).or_insert(0) += 1;
        }
        starts
    }

    /// A coordinator of its own. What it prints goes to the file `told-<name>` at home.
    pub fn coordinator(&self, name: &str, args: &[&str]) -> Child {
        let told = fs::File::create(self.world.home().join(format!("told-{name}"))).expect("a file");
        let mut command = self.world.jit_command(&self.world.repo());
        command.args(args).stdout(told).stderr(Stdio::null());
        command.spawn().expect("a coordinator")
    }

    /// What that coordinator has printed.
    pub fn told(&self, name: &str) -> String {
        fs::read_to_string(self.world.home().join(format!("told-{name}"))).unwrap_or_default()
    }

    pub fn status(&self) -> Value {
        self.world
            .jit(["workflow", "status", "flow", "--json"])
            .ok()
            .json()
    }

    pub fn unit(&self, id: &str) -> Value {
        self.world.jit(["worktree", "status", id, "--json"]).ok().json()
    }

    /// What the log has of one kind.
    pub fn events(&self, kind: &str) -> Vec<Value> {
        let all = self.world.jit(["events", "--type", kind, "--json"]).ok().json();
        all["events"].as_array().expect("events").clone()
    }

    /// By the log, nobody was started on an account while it was parked.
    pub fn nobody_began_while_parked(&self) {
        let all = self.world.jit(["events", "--json"]).ok().json();
        let mut parked: BTreeMap<String, i64> = BTreeMap::new();
        let mut begun = 0;
        for event in all["events"].as_array().expect("events") {
            let payload = &event["payload"];
            match event["type"].as_str() {
                Some("account.parked") => {
                    parked.insert(payload["id"].to_string(), ms(&payload["until"]));
                }
                Some("account.unparked") => {
                    parked.remove(&payload["id"].to_string());
                }
                Some("unit.dispatch_instance") => {
                    begun += 1;
                    let until = parked.get(&payload["account"].to_string());
                    assert!(
                        until.is_none_or(|until| ms(&event["timestamp"]) >= *until),
                        "{event}"
                    );
                }
                _ => {}
            }
        }
        assert!(begun > 0, "{all}");
    }

    /// How many commits on the target are about a file.
    pub fn commits(&self, file: &str) -> usize {
        let main = self.world.repo();
        let log = self.world.git(&main, ["log", "--format=%h", "main", "--", file]);
        log.lines().count()
    }

    pub fn on_main(&self, file: &str) -> bool {
        let listed = self
            .world
            .git(&self.world.repo(), ["ls-tree", "--name-only", "main"]);
        listed.lines().any(|line| line == file)
    }

    /// Processes that an agent of this yard started and that still run.
    pub fn survivors(&self) -> Vec<String> {
        let mark = self.world.root().display().to_string();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").expect("processes").flatten() {
            let Ok(environ) = fs::read(entry.path().join("environ")) else {
                continue;
            };
            let text = String::from_utf8_lossy(&environ);
            if text.contains("JIT_ATTEMPT=") && text.contains(&mark) {
                let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                found.push(format!(
                    "{} {}",
                    entry.path().display(),
                    String::from_utf8_lossy(&command)
                ));
            }
        }
        found
    }

    /// The view that other programs read is whole at any time.
    pub fn orchestration(&self) -> String {
        let path = self.world.control().join("workflows/flow/ORCHESTRATION.yaml");
        fs::read_to_string(path).expect("ORCHESTRATION.yaml")
    }
}
