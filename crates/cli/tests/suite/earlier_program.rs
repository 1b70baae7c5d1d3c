//! Repositories that an earlier program wrote open with this one, and nothing in them is lost.
//!
//! `tests/fixtures/README.md` lists their contents and how they were made. Each test unpacks them into a folder of its own. The
//! paths in their logs begin with [`MADE_IN`], so most tests open a repository that was moved. Where the machine permits mount
//! namespaces, two tests open it in its original place.
//!
//! What must hold:
//!
//! - this program answers as the earlier one did: every field of a kept answer is there, with the same value. New fields are
//!   allowed. Values that depend on the time, and sentences for people, are not compared;
//! - new writes succeed on top of the old log, and units continue from every state;
//! - no byte of the old log changes.
//!
//! Limitations: the leases of the fixture expire in November 2036, and the machine's clock must not be earlier than the fixture.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use jit_testkit::world::tools::{field, inside_own_mounts, say};
use jit_testkit::world::{Ran, World};
use serde_json::{Value, json};

const JIT: &str = env!("CARGO_BIN_EXE_jit");
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/89fa27b");
/// Where the repositories were when they were packed.
const MADE_IN: &str = "/mnt/jit-fixture";
/// The large repository with its worktrees, and the small ones.
const LARGE: &[&str] = &["home", "repo", "repo-worktrees", "trees"];
const SMALL: &[&str] = &["torn", "recovered", "grown", "plain"];

/// The unpacked fixture.
struct Opened {
    world: World,
    root: PathBuf,
}

impl Opened {
    /// In a temporary folder. Git is told where its worktrees are now, as after any move.
    fn moved() -> Self {
        let opened = Self::unpack(World::new(JIT), None, LARGE);
        let mut paths = Vec::new();
        for folder in ["repo-worktrees", "trees"] {
            let entries = fs::read_dir(opened.root.join(folder)).expect("worktrees");
            paths.extend(entries.map(|entry| entry.expect("an entry").path()));
        }
        let mut git = opened.command("git", &opened.repo());
        git.args(["worktree", "repair"]).args(&paths);
        // The exit code is not 0: the worktree of the landing that was killed cannot be repaired.
        let _ = opened.world.run(git);
        let _ = opened.jit("trust --yes").ok();
        opened
    }

    /// In its original place. `None`: this is not the run that has its own mounts.
    fn in_place(test: &str) -> Option<Self> {
        if Path::new(JIT).starts_with("/mnt") {
            say("left out: the program under test is below /mnt, which this test mounts over");
            return None;
        }
        if !inside_own_mounts(module_path!(), test) {
            return None;
        }
        let world = World::new(JIT);
        let mut mount = world.command("mount", world.root());
        mount.args(["-t", "tmpfs", "none", "/mnt"]);
        let _ = world.run(mount).ok();
        Some(Self::unpack(world, Some(MADE_IN), LARGE))
    }

    fn unpack(world: World, place: Option<&str>, parts: &[&str]) -> Self {
        let root = place.map_or_else(|| world.root().join("moved"), PathBuf::from);
        fs::create_dir(&root).expect("a folder");
        for (name, parts) in [("repositories", parts), ("answers", &["answers"])] {
            let mut tar = world.command("tar", &root);
            tar.args(["-x", "-z", "-p", "--no-same-owner", "-f"]);
            tar.arg(Path::new(FIXTURES).join(format!("{name}.tar.gz")));
            tar.args(parts);
            let _ = world.run(tar).ok();
        }
        // Git hooks and the merge driver find it on the PATH.
        fs::create_dir(root.join("bin")).expect("a folder");
        std::os::unix::fs::symlink(JIT, root.join("bin/jit")).expect("a link");
        Self { world, root }
    }

    fn repo(&self) -> PathBuf {
        self.root.join("repo")
    }

    fn control(&self) -> PathBuf {
        self.root.join("repo/.git/jit")
    }

    fn worktree(&self, unit: &str) -> PathBuf {
        self.root.join("repo-worktrees").join(unit)
    }

    fn command(&self, program: &str, dir: &Path) -> Command {
        let mut path = self.root.join("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut command = self.world.command(program, dir);
        command
            .env("PATH", path)
            .env("HOME", self.root.join("home"))
            .env("XDG_CONFIG_HOME", self.root.join("home/.config"))
            .env("TMPDIR", &self.root);
        command
    }

    /// `jit` with these words, which have no spaces in them.
    fn jit_in(&self, dir: &Path, agent: &str, words: &str) -> Ran {
        let mut command = self.command(JIT, dir);
        command.env("JIT_AGENT_ID", agent).args(words.split_whitespace());
        self.world.run(command)
    }

    fn jit_as(&self, agent: &str, words: &str) -> Ran {
        self.jit_in(&self.repo(), agent, words)
    }

    fn jit(&self, words: &str) -> Ran {
        self.jit_as("human:ann", words)
    }

    /// The answer, with a word in the place of the folder.
    fn json(&self, words: &str) -> Value {
        let ran = self.jit(&format!("{words} --json")).ok();
        serde_json::from_str(&self.without_root(&ran.stdout)).expect("JSON")
    }

    fn git(&self, dir: &Path, words: &str) -> String {
        let mut command = self.command("git", dir);
        command.args(words.split_whitespace());
        self.world.run(command).ok().stdout
    }

    /// The answers of the earlier program, with a placeholder for the folder.
    fn kept(&self, file: &str) -> String {
        let text = fs::read_to_string(self.root.join("answers").join(file)).expect(file);
        self.without_root(&text)
    }

    fn kept_json(&self, file: &str) -> Value {
        serde_json::from_str(&self.kept(file)).expect(file)
    }

    fn without_root(&self, text: &str) -> String {
        let root = self.root.to_str().expect("UTF-8");
        text.replace(root, "[ROOT]").replace(MADE_IN, "[ROOT]")
    }

    fn state(&self, unit: &str) -> Value {
        self.json(&format!("worktree status {unit}"))["state"].clone()
    }

    /// The content of a file on the target.
    fn on_main(&self, name: &str) -> String {
        self.git(&self.repo(), &format!("cat-file blob main:{name}"))
    }

    /// Lands these units together.
    fn land(&self, units: &str) {
        let report = self.json(&format!("worktree merge {units}"));
        let verdicts = field(&report["units"], "verdict");
        assert_eq!(verdicts.len(), units.split_whitespace().count(), "{report}");
        assert!(verdicts.iter().all(|verdict| *verdict == "landed"), "{report}");
    }

    /// Restores what was kept of a unit, into a new folder.
    fn restore(&self, unit: &str) -> PathBuf {
        let rescues = self.json("rescue list")["rescues"].clone();
        let mut rescues = rescues.as_array().expect("rescues").iter();
        let rescue = rescues.find(|rescue| rescue["unit"] == unit).expect(unit);
        let id = rescue["id"].as_str().expect("an id");
        let to = self.root.join(format!("restored-{unit}"));
        let _ = self
            .jit(&format!("rescue restore {id} --to {}", to.display()))
            .ok();
        to
    }

    /// The scripted agents of the fixture fail until this file exists.
    fn let_agents_succeed(&self) {
        fs::write(self.root.join("home/go"), "").expect("a file");
    }

    /// Everything that is derived from the log agrees with it.
    fn validates(&self) {
        let report = self.json("validate");
        assert_eq!(report["ok"], true, "{report}");
    }
}

/// The files of a log as the earlier program left them.
struct OldLog {
    folder: PathBuf,
    files: Vec<(String, Vec<u8>)>,
}

impl OldLog {
    fn of(control: &Path) -> Self {
        let folder = control.join("events");
        let files = log_files(&folder);
        assert!(!files.is_empty(), "a log");
        Self { folder, files }
    }

    /// Each of them is still the beginning of a file of the log. The active file may have been sealed, which renames it, and
    /// sealed files are compressed.
    fn is_unchanged(&self) {
        let now = log_files(&self.folder);
        for (name, bytes) in &self.files {
            // A torn line was never acknowledged.
            let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
            let is_kept = now.iter().any(|(_, file)| file.starts_with(&bytes[..whole]));
            assert!(is_kept, "{name} was changed");
        }
    }
}

fn log_files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a log") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("UTF-8");
        if !name.starts_with("control") {
            continue;
        }
        let bytes = fs::read(entry.path()).expect("a file");
        if name.ends_with(".jsonl") {
            files.push((name, bytes));
        } else if name.ends_with(".jsonl.gz") {
            let mut text = Vec::new();
            let mut reader = flate2::read::MultiGzDecoder::new(&bytes[..]);
            std::io::Read::read_to_end(&mut reader, &mut text).expect("gzip");
            files.push((name, text));
        }
    }
    files
}

/// Collects the differences between kept answers and those of today.
#[derive(Default)]
struct Differences {
    found: Vec<String>,
}

impl Differences {
    /// Every field of `kept`, except those in `free`, is in `now` with the same value.
    fn compare(&mut self, place: &str, kept: &Value, now: &Value, free: &[&str]) {
        match (kept, now) {
            (Value::Object(kept), Value::Object(now)) => {
                for (key, value) in kept.iter().filter(|(key, _)| !free.contains(&key.as_str())) {
                    let place = format!("{place}.{key}");
                    match now.get(key) {
                        Some(now) => self.compare(&place, value, now, free),
                        None => self.found.push(format!("{place} is missing, was {value}")),
                    }
                }
            }
            (Value::Array(kept), Value::Array(now)) => {
                if kept.len() != now.len() {
                    let line = format!("{place} has {} items, had {}", now.len(), kept.len());
                    self.found.push(line);
                }
                for (n, (kept, now)) in kept.iter().zip(now).enumerate() {
                    self.compare(&format!("{place}[{n}]"), kept, now, free);
                }
            }
            _ if kept == now => {}
            _ => self.found.push(format!("{place} is {now}, was {kept}")),
        }
    }

    /// The same for two lists in any order. The field `key` identifies their items.
    fn compare_by(&mut self, place: &str, key: &str, kept: &[Value], now: &[Value], free: &[&str]) {
        for item in kept {
            let place = format!("{place}[{}]", item[key]);
            match now.iter().find(|now| now[key] == item[key]) {
                Some(now) => self.compare(&place, item, now, free),
                None => self.found.push(format!("{place} is missing")),
            }
        }
        for item in now {
            if !kept.iter().any(|kept| kept[key] == item[key]) {
                self.found.push(format!("{place}[{}] is new", item[key]));
            }
        }
    }

    #[track_caller]
    fn are_none(self) {
        let Self { found } = self;
        assert!(
            found.is_empty(),
            "{} differences:\n{}",
            found.len(),
            found.join("\n")
        );
    }
}

/// A list in an answer, of the items that count.
fn list_where(answer: &Value, name: &str, counts: impl Fn(&Value) -> bool) -> Vec<Value> {
    let items = answer[name].as_array().expect(name).iter();
    items.filter(|item| counts(item)).cloned().collect()
}

fn list(answer: &Value, name: &str) -> Vec<Value> {
    list_where(answer, name, |_| true)
}

fn json_lines(text: &str) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).expect("JSON");
    text.lines().map(parse).collect()
}

/// How an answer is compared.
enum By {
    /// As one object.
    Whole,
    /// The list of this name, in order.
    Order(&'static str),
    /// The list of this name, in any order. The second field identifies its items.
    Key(&'static str, &'static str),
}

/// Fields of leases that depend on the time of the question.
const PASSING: &[&str] = &["remaining_secs", "heartbeat_age_secs", "heartbeat_alive"];
/// `jit` records that a unit was moved, and units belong to a project now; the others are sentences for people.
const OF_UNITS: &[&str] = &["updated_at", "project_id", "unsettled", "why"];

/// Answer, command, comparison, and fields that are not compared. A change of an answer that is intended changes its line here,
/// never the fixture.
const ANSWERS: &[(&str, &str, By, &[&str])] = &[
    ("issue-list", "issue list", By::Order("issues"), &[]),
    ("ready", "ready", By::Order("issues"), &[]),
    ("blocked", "blocked", By::Order("issues"), &[]),
    ("dep-tree", "dep tree LATER-1", By::Whole, &[]),
    ("progress", "progress", By::Whole, &[]),
    ("changelog", "changelog", By::Order("entries"), &[]),
    ("gates", "gate list", By::Key("gates", "name"), &[]),
    (
        "gates-READY-1",
        "gate list READY-1",
        By::Key("gates", "name"),
        &[],
    ),
    (
        "gates-GATED-1",
        "gate list GATED-1",
        By::Key("gates", "name"),
        &[],
    ),
    ("gates-DONE-1", "gate list DONE-1", By::Key("gates", "name"), &[]),
    (
        "gates-STORY-1",
        "gate list STORY-1",
        By::Key("gates", "name"),
        &[],
    ),
    ("claims", "claim list", By::Key("active", "lease_id"), PASSING),
    (
        "claim-history",
        "claim history --limit 100000",
        By::Order("records"),
        &[],
    ),
    ("trust", "trust --list", By::Order("commands"), &[]),
    ("hooks", "hooks list", By::Key("hooks", "name"), &[]),
    ("rescues", "rescue list", By::Key("rescues", "id"), &["next"]),
    (
        "workflow-finished",
        "workflow status finished",
        By::Whole,
        OF_UNITS,
    ),
    ("workflow-failed", "workflow status failed", By::Whole, OF_UNITS),
    (
        "workflow-cancelled",
        "workflow status cancelled",
        By::Whole,
        OF_UNITS,
    ),
    (
        "logs-completed",
        "worktree logs completed",
        By::Order("events"),
        &[],
    ),
    ("logs-fails", "worktree logs fails", By::Order("events"), &[]),
    ("logs-gone-on", "worktree logs gone-on", By::Order("events"), &[]),
    ("logs-handed", "worktree logs handed", By::Order("events"), &[]),
    ("log", "log", By::Order("landed"), &[]),
    ("verify", "verify begin..main", By::Order("commits"), &["reason"]),
];

/// Units whose agent has ended and whose end is not in the log. The first look may settle them, or only report it.
const UNSETTLED: &[(&str, [&str; 2])] = &[
    ("ended", ["RUNNING", "COMPLETED"]),
    ("running", ["RUNNING", "FAILED"]),
    ("dispatched", ["DISPATCHED", "FAILED"]),
    ("flow-held", ["RUNNING", "FAILED"]),
];
/// The fields that settling changes.
const SETTLED: &[&str] = &[
    "project_id",
    "state",
    "pid",
    "session_id",
    "start_time",
    "completion_time",
    "duration_ms",
    "cost_usd",
    "tokens",
    "turns",
    "error",
    "last_error",
    "artifacts",
    "updated_at",
    "unsettled",
];

fn compare_events(opened: &Opened, found: &mut Differences) {
    let kept = list(&opened.kept_json("events.json"), "events");
    let mut now = list(&opened.json("events"), "events");
    // Reading may have added the boot of this machine and the new places of worktrees.
    now.truncate(kept.len());
    found.compare("events", &json!(kept), &json!(now), &[]);
}

/// Fields, descriptions and comments of all issues.
fn compare_issues(opened: &Opened, found: &mut Differences) {
    let kept = json_lines(&opened.kept("issues.jsonl"));
    let now = json_lines(&opened.jit("issue export").ok().stdout);
    found.compare_by("issues", "id", &kept, &now, &[]);
    let kept = json!(kept);
    let shown = field(&kept, "id").into_iter().filter_map(|id| {
        let file = format!("issue-show-{id}.json");
        let is_kept = opened.root.join("answers").join(&file).exists();
        is_kept.then_some((id, file))
    });
    for (id, file) in shown {
        let now = opened.json(&format!("issue show {id}"));
        found.compare(id, &opened.kept_json(&file), &now, &[]);
    }
}

fn compare_table(opened: &Opened, found: &mut Differences) {
    for (name, words, by, free) in ANSWERS {
        let (kept, now) = (opened.kept_json(&format!("{name}.json")), opened.json(words));
        match by {
            By::Whole => found.compare(name, &kept, &now, free),
            By::Order(items) => found.compare(name, &kept[*items], &now[*items], free),
            By::Key(items, key) => {
                found.compare_by(name, key, &list(&kept, items), &list(&now, items), free);
            }
        }
    }
    let (kept, now) = (opened.kept_json("status.json"), opened.json("status"));
    found.compare("status", &kept["counts"], &now["counts"], &[]);
}

/// File locks last a day at most, and sessions become stale.
fn compare_locks_and_sessions(opened: &Opened, found: &mut Differences) {
    let claims = opened.json("claim list");
    let time = claims["generated_at"].as_str().expect("a time");
    let lasts = |lock: &Value| lock["expires_at"].as_str().is_some_and(|until| until > time);
    let kept = list_where(&opened.kept_json("locks.json"), "locks", lasts);
    let now = list(&opened.json("lock list"), "locks");
    found.compare_by("locks", "lease_id", &kept, &now, PASSING);

    let stale = |mut session: Value| {
        if session["status"] == "active" {
            session["status"] = json!("stale");
        }
        session
    };
    let sessions = |answer: &Value| list(answer, "sessions").into_iter().map(stale).collect();
    let kept: Vec<Value> = sessions(&opened.kept_json("sessions.json"));
    let now: Vec<Value> = sessions(&opened.json("session list --all"));
    found.compare_by("sessions", "session_id", &kept, &now, &[]);
}

/// Settings that a file has. Defaults may change.
fn compare_settings(opened: &Opened, found: &mut Differences) {
    let is_set = |setting: &Value| setting["origin"] != "default";
    let kept = list_where(&opened.kept_json("config.json"), "settings", is_set);
    let now = list_where(&opened.json("config show --origin"), "settings", is_set);
    found.compare_by("settings", "key", &kept, &now, &[]);
}

/// Worktrees with an identity: the one of the landing that was killed has none.
fn compare_worktrees(opened: &Opened, found: &mut Differences) {
    let has_id = |worktree: &Value| worktree["worktree_id"].is_string();
    let kept = list_where(&opened.kept_json("worktrees.json"), "worktrees", has_id);
    let now = list_where(&opened.json("worktree list"), "worktrees", has_id);
    let free = ["locked", "prunable"];
    found.compare_by("worktrees", "worktree_id", &kept, &now, &free);
}

fn compare_units(opened: &Opened, found: &mut Differences) {
    let open = |unit: &Value| UNSETTLED.iter().find(|(name, _)| unit["id"] == *name);
    let interrupted = "workflow status interrupted";
    for (file, words, name) in [
        ("units.json", "worktree status --all", "units"),
        ("workflow-interrupted.json", interrupted, "instances"),
    ] {
        let (kept, now) = (opened.kept_json(file), opened.json(words));
        for (is_open, free) in [(true, SETTLED), (false, OF_UNITS)] {
            let part = |answer: &Value| list_where(answer, name, |unit| open(unit).is_some() == is_open);
            found.compare_by(file, "id", &part(&kept), &part(&now), free);
        }
        for unit in list(&now, name) {
            let states = open(&unit).map(|(_, states)| states);
            if states.is_some_and(|states| !states.iter().any(|state| unit["state"] == *state)) {
                found.found.push(format!("{} is {}", unit["id"], unit["state"]));
            }
        }
        found.compare(file, &kept, &now, &["units", "instances", "why"]);
    }
}

/// `validate` and `doctor` report no more than they did.
fn compare_checks(opened: &Opened, found: &mut Differences) {
    let (kept, now) = (opened.kept_json("validate.json"), opened.json("validate"));
    // Some of its leases have expired since.
    found.compare("validate", &kept, &now, &["lines", "notes", "leases"]);
    // The fixture has a unit whose creation was interrupted: doctor reports that now.
    let is_intended = |check: &Value| {
        check["name"] == "worktrees" && check["message"].to_string().contains("was interrupted")
    };
    let troubled = |report: &Value| {
        list_where(report, "checks", |check| {
            check["status"] != "ok" && !is_intended(check)
        })
    };
    let (kept, now) = (opened.kept_json("doctor.json"), opened.json("doctor"));
    let free = ["message", "help"];
    found.compare_by("doctor", "name", &troubled(&kept), &troubled(&now), &free);
}

fn answers_are_the_same(opened: &Opened) {
    let log = OldLog::of(&opened.control());
    let read = |name: &str| fs::read(opened.control().join(name)).expect(name);
    let views = ["claims.jsonl", "changelog.log"].map(|name| (name, read(name)));
    let mut found = Differences::default();
    compare_events(opened, &mut found);
    compare_issues(opened, &mut found);
    compare_table(opened, &mut found);
    compare_locks_and_sessions(opened, &mut found);
    compare_settings(opened, &mut found);
    compare_worktrees(opened, &mut found);
    compare_units(opened, &mut found);
    compare_checks(opened, &mut found);
    found.are_none();
    log.is_unchanged();
    for (name, bytes) in views {
        assert!(read(name).starts_with(&bytes), "{name} was changed");
    }
    let view = read("workflows/finished/ORCHESTRATION.yaml");
    assert!(String::from_utf8_lossy(&view).contains("completed"));
}

#[test]
fn a5_a_moved_repository_of_an_earlier_program_gives_the_same_answers() {
    let opened = Opened::moved();
    answers_are_the_same(&opened);
    assert!(!Path::new(MADE_IN).exists(), "nothing was made in the old place");
}

#[test]
#[cfg(target_os = "linux")]
fn d3_a_repository_of_an_earlier_program_gives_the_same_answers_in_its_place() {
    let test = "d3_a_repository_of_an_earlier_program_gives_the_same_answers_in_its_place";
    let Some(opened) = Opened::in_place(test) else {
        return;
    };
    answers_are_the_same(&opened);
    // The units that were cut short are named.
    let orphans = |report: &Value| {
        let orphans = list(report, "orphans").into_iter();
        let mut names: Vec<String> = orphans
            .map(|one| format!("{} {}", one["unit"], one["path"]))
            .collect();
        names.sort();
        names
    };
    let now = opened.json("worktree prune");
    assert_eq!(orphans(&now), orphans(&opened.kept_json("prune.json")));
}

#[test]
fn b2_leases_and_locks_of_an_earlier_program_still_bind() {
    let opened = Opened::moved();
    let log = OldLog::of(&opened.control());
    // A lease belongs to its holder until it is released.
    let refused = opened
        .jit_as("agent:three", "claim acquire LEASE-1 --json")
        .exits(4);
    let lease = refused.json()["error"]["details"]["lease"].clone();
    assert_eq!(lease["agent_id"], "agent:one");
    let _ = opened
        .jit_as("agent:three", "issue update LEASE-1 --title x")
        .exits(5);
    let renewed = opened.jit_as("agent:one", "claim renew LEASE-1 --json").ok();
    assert_eq!(renewed.json()["lease_id"], lease["lease_id"]);
    let _ = opened.jit_as("agent:one", "claim release LEASE-1").ok();
    let taken = opened
        .jit_as("agent:three", "claim acquire LEASE-1 --json")
        .ok()
        .json();
    assert!(taken["token"].as_u64() > lease["token"].as_u64(), "{taken}");
    // The lease on a task ends with the one on its activity, and so does the lock file.
    let lock_file = opened.control().join("activities/WI-001-A1.lock");
    assert!(lock_file.exists());
    let released = opened
        .jit_as("agent:planner", "claim release WI-001-A1 --json")
        .ok();
    assert_eq!(list(&released.json(), "released").len(), 2);
    assert!(!lock_file.exists());
    // A lease that was taken by a lock file ends when the file is deleted.
    let acquire = "claim acquire WI-001-A4";
    let _ = opened.jit_as("agent:three", acquire).exits(4);
    fs::remove_file(opened.control().join("activities/WI-001-A4.lock")).expect("a lock file");
    let _ = opened.jit_as("agent:three", acquire).ok();
    // The ticket of the waiter that was killed blocks no one.
    let acquire = "lock acquire Cargo.lock --scope global";
    let _ = opened.jit_as("agent:one", acquire).ok();
    let _ = opened.jit_as("agent:one", "lock release Cargo.lock").ok();
    let _ = opened.jit_as("agent:three", acquire).ok();
    log.is_unchanged();
    opened.validates();
}

#[test]
fn e2_issues_of_an_earlier_program_accept_changes() {
    let opened = Opened::moved();
    let log = OldLog::of(&opened.control());
    let _ = opened
        .jit("issue create New --id NEW-1 --depends-on READY-1")
        .ok();
    let _ = opened.jit("issue update TEXT-1 --description short").ok();
    let _ = opened.jit("issue comment TEXT-1 later").ok();
    let text = opened.json("issue show TEXT-1");
    assert_eq!(text["description"], "short\n");
    let before = list(&opened.kept_json("issue-show-TEXT-1.json"), "comments");
    let comments = list(&text, "comments");
    assert_eq!(comments[..before.len()], before);
    assert_eq!(comments[before.len()]["text"], "later");
    let _ = opened.jit("issue update READY-1 --state done").ok();
    let ready = opened.json("ready");
    assert!(field(&ready["issues"], "id").contains(&"NEW-1"), "{ready}");
    let refused = opened.jit("issue update GATED-1 --state done --json").exits(6);
    assert_eq!(refused.json()["error"]["code"], "gate_not_passed");
    let _ = opened.jit("issue restore GONE-1").ok();
    assert_eq!(opened.json("issue show GONE-1")["description"], "gone\n");
    // Every version of a description is kept.
    let texts = fs::read_dir(opened.control().join("issues/TEXT-1/texts")).expect("texts");
    let read = |entry: std::io::Result<fs::DirEntry>| fs::read_to_string(entry.expect("an entry").path());
    let texts: Vec<String> = texts.map(|entry| read(entry).expect("a text")).collect();
    for version in 1..=3 {
        let line = format!("Line 400 of the text in its version {version}:");
        assert!(texts.iter().any(|text| text.contains(&line)), "{line}");
    }
    // The git hooks refuse an edit without a lease.
    let file = opened.repo().join(".jit/issues/NO-1/issue.json");
    let text = fs::read_to_string(&file).expect("an issue");
    fs::write(&file, text.replace("\"Rejected\"", "\"Edited\"")).expect("a file");
    opened.git(&opened.repo(), "add .jit/issues/NO-1");
    let mut commit = opened.command("git", &opened.repo());
    commit.args(["commit", "-q", "-m", "edited"]);
    let refused = opened.world.run(commit).exits(1);
    assert!(refused.stderr.contains("NO-1"), "{}", refused.stderr);
    opened.git(&opened.repo(), "restore --staged --worktree .jit/issues/NO-1");
    log.is_unchanged();
    opened.validates();
}

#[test]
fn g10_failed_and_lost_units_of_an_earlier_program_are_retried() {
    let opened = Opened::moved();
    let log = OldLog::of(&opened.control());
    opened.let_agents_succeed();
    // FAILED: the agent runs with the settings of its first attempt.
    let _ = opened.jit("worktree retry fails").ok();
    let _ = opened.jit("worktree dispatch fails --wait").ok();
    let job = fs::read(opened.control().join("units/fails/attempt-2/job.json")).expect("a job");
    let job: Value = serde_json::from_slice(&job).expect("JSON");
    assert_eq!(job["timeout_secs"], 420, "{job}");
    assert_eq!(job["writes"], json!(["*.txt"]), "{job}");
    assert_eq!(opened.state("fails"), "COMPLETED");
    // RUNNING and DISPATCHED, but their shims are gone.
    for unit in ["running", "dispatched"] {
        let status = opened.json(&format!("worktree status {unit}"));
        let _ = opened.jit(&format!("worktree retry {unit}")).ok();
        assert_eq!(opened.state(unit), "READY", "{status}");
    }
    let _ = opened.jit("worktree dispatch running --wait").ok();
    assert_eq!(opened.state("running"), "COMPLETED");
    // READY, with a handoff that the earlier program wrote.
    let _ = opened
        .jit("worktree dispatch waiting --prompt begin --wait --command sh agent.sh")
        .ok();
    let told = fs::read_to_string(opened.root.join("home/told-waiting")).expect("a prompt");
    assert!(told.contains("mind the gap"), "{told}");
    opened.land("fails running waiting");
    assert_eq!(opened.on_main("fails.txt"), "fails, attempt 2\n");
    assert_eq!(opened.on_main("running.txt"), "running, attempt 2\n");
    log.is_unchanged();
    opened.validates();
    assert!(!Path::new(MADE_IN).exists(), "nothing was made in the old place");
}

#[test]
fn h3_completed_units_of_an_earlier_program_land() {
    let opened = Opened::moved();
    let log = OldLog::of(&opened.control());
    // COMPLETED; RUNNING, though its agent has completed; MERGING; MERGED, with nothing new in it.
    assert_eq!(opened.state("landing"), "MERGING");
    // A look may be needed to settle it.
    let _ = opened.state("ended");
    opened.land("completed ended landing");
    assert_eq!(opened.on_main("completed.txt"), "completed, attempt 1\n");
    assert_eq!(opened.on_main("ended.txt"), "ended, attempt 1\n");
    assert_eq!(opened.on_main("landing.txt"), "half way\n");
    let _ = opened.jit("worktree cleanup merged").ok();
    assert!(!opened.worktree("merged").exists());
    // COMPLETED, with an issue.
    let _ = opened.jit("finish unit-3").ok();
    assert_eq!(opened.on_main("unit-3.txt"), "unit-3, attempt 1\n");
    let issue = opened.json("issue show UNIT-3");
    assert_eq!((&issue["state"], &issue["lease"]), (&json!("done"), &Value::Null));
    // FAILED with a conflict, which a person solves.
    let right = opened.worktree("right");
    let mut merge = opened.command("git", &right);
    merge.args(["merge", "-q", "main"]);
    let _ = opened.world.run(merge).exits(1);
    let text = opened.on_main("file.txt");
    let text = text.replace("line 5 of left", "line 5 of both");
    fs::write(right.join("file.txt"), text).expect("a file");
    opened.git(&right, "commit -q -a -m solved");
    opened.land("right");
    assert!(opened.on_main("file.txt").contains("line 5 of both"));
    log.is_unchanged();
    opened.validates();
}

#[test]
#[cfg(target_os = "linux")]
fn g1_units_cut_short_under_an_earlier_program_continue_in_their_place() {
    let test = "g1_units_cut_short_under_an_earlier_program_continue_in_their_place";
    let Some(opened) = Opened::in_place(test) else {
        return;
    };
    let log = OldLog::of(&opened.control());
    opened.let_agents_succeed();
    // PROVISIONING, and FAILED in it.
    for unit in ["half-made", "unmade"] {
        let _ = opened.jit(&format!("worktree retry {unit}")).ok();
        assert_eq!(opened.state(unit), "READY");
        assert!(opened.worktree(unit).join("file.txt").exists());
    }
    // CLEANUP, cut short at three points: the work is kept, and the rest is gone.
    for unit in ["to-clean", "to-drop", "to-forget"] {
        let _ = opened.jit(&format!("worktree cleanup {unit}")).ok();
        assert!(!opened.worktree(unit).exists(), "{unit}");
        let branch = opened.git(&opened.repo(), &format!("branch --list jit/{unit}"));
        assert_eq!(branch, "", "{unit}");
    }
    for unit in ["to-drop", "to-forget"] {
        let to = opened.restore(unit);
        let read = |name: &str| fs::read_to_string(to.join(name)).expect(name);
        assert_eq!(read(&format!("{unit}.txt")), "is kept\n");
        assert_eq!(read("loose.txt"), "loose\n");
    }
    // MERGING: nothing is left of the landing that was killed.
    opened.land("landing");
    assert_eq!(opened.on_main("landing.txt"), "half way\n");
    let left = fs::read_dir(opened.control().join("scratch")).expect("a folder");
    assert_eq!(left.count(), 0);
    log.is_unchanged();
    opened.validates();
}

#[test]
fn g12_a_workflow_interrupted_under_an_earlier_program_is_resumed() {
    let opened = Opened::moved();
    let log = OldLog::of(&opened.control());
    let _ = opened.jit("workflow resume interrupted").ok();
    let status = opened.json("workflow status interrupted");
    assert_eq!(status["status"], "completed", "{status}");
    for (unit, attempt) in [("flow-first", 1), ("flow-held", 2), ("flow-next", 1)] {
        let text = format!("{unit}, attempt {attempt}\n");
        assert_eq!(opened.on_main(&format!("{unit}.txt")), text);
        let log = opened.git(&opened.repo(), &format!("log --format=%h main -- {unit}.txt"));
        assert_eq!(log.lines().count(), 1, "{unit} landed once");
    }
    // The handoffs that the earlier program wrote reach the agent.
    let told = fs::read_to_string(opened.root.join("home/told-flow-next")).expect("a prompt");
    assert!(
        told.contains("before it begins") && told.contains("flow-first"),
        "{told}"
    );
    log.is_unchanged();
    opened.validates();
}

#[test]
fn g10_rescues_of_an_earlier_program_restore_every_file() {
    let opened = Opened::moved();
    let log = OldLog::of(&opened.control());
    let to = opened.restore("given-up");
    for (name, text) in [
        ("kept.txt", "a commit\n"),
        ("staged.txt", "staged\n"),
        ("untracked.txt", "untracked\n"),
        (".env", "SECRET=1\n"),
        ("tool", "#!/bin/sh\n"),
        ("a folder/ünïcode", "in it\n"),
    ] {
        assert_eq!(fs::read_to_string(to.join(name)).expect(name), text);
    }
    let text = fs::read_to_string(to.join("file.txt")).expect("a file");
    assert!(text.ends_with("line 10\nchanged\n"), "{text}");
    assert_eq!(
        fs::read_link(to.join("link")).expect("a link"),
        Path::new("file.txt")
    );
    let tool = fs::metadata(to.join("tool")).expect("a tool");
    assert_eq!(tool.permissions().mode() & 0o111, 0o111);
    let status = opened.git(&to, "status --porcelain");
    let mut status: Vec<&str> = status.lines().filter(|line| !line.contains(".jit/")).collect();
    status.sort_unstable();
    assert_eq!(
        status,
        [
            " M file.txt",
            "?? \"a folder/\"",
            "?? link",
            "?? tool",
            "?? untracked.txt",
            "A  staged.txt"
        ]
    );
    assert_eq!(opened.git(&to, "log -1 --format=%s").trim(), "given-up: kept.txt");
    // The rebase is as unfinished as it was.
    let to = opened.restore("rebasing");
    let status = opened.git(&to, "status");
    assert!(
        status.contains("rebas") && status.contains("both modified:   file.txt"),
        "{status}"
    );
    let text = fs::read_to_string(to.join("file.txt")).expect("a file");
    assert!(text.contains("mine\n") && text.contains("theirs\n"), "{text}");
    log.is_unchanged();
    opened.validates();
}

#[test]
fn g10_rescues_of_an_earlier_program_restore_from_refs_alone() {
    let opened = Opened::moved();
    fs::remove_dir_all(opened.control().join("trash")).expect("a trash");
    let to = opened.restore("given-up");
    for (name, text) in [
        ("kept.txt", "a commit\n"),
        ("untracked.txt", "untracked\n"),
        (".env", "SECRET=1\n"),
    ] {
        assert_eq!(fs::read_to_string(to.join(name)).expect(name), text);
    }
    opened.validates();
}

#[test]
fn d1_torn_recovered_grown_and_plain_logs_of_an_earlier_program_open() {
    let opened = Opened::unpack(World::new(JIT), None, SMALL);
    for name in SMALL {
        let dir = opened.root.join(name);
        let control = match *name {
            "plain" => dir.join(".jit"),
            _ => dir.join(".git/jit"),
        };
        let log = OldLog::of(&control);
        let ask = |words: &str| opened.jit_in(&dir, "human:ann", words);
        let kept = |answer: &str| opened.kept_json(&format!("{name}-{answer}.json"));
        let mut found = Differences::default();
        let report = ask("validate --json").exits(if *name == "torn" { 6 } else { 0 });
        let free = ["lines", "notes", "leases", "message", "help"];
        found.compare("validate", &kept("validate"), &report.json(), &free);
        if *name != "grown" {
            let kept = list(&kept("events"), "events");
            let mut now = list(&ask("events --json").ok().json(), "events");
            now.truncate(kept.len());
            found.compare("events", &json!(kept), &json!(now), &[]);
        }
        let issues = json_lines(&opened.kept(&format!("{name}-issues.jsonl")));
        let now = json_lines(&ask("issue export").ok().stdout);
        found.compare_by("issues", "id", &issues, &now, &[]);
        let now = ask("claim list --json").ok().json();
        found.compare("claims", &kept("claims")["active"], &now["active"], PASSING);
        found.are_none();
        // The log accepts new lines.
        let _ = ask("issue comment ONE-1 later").ok();
        let held = opened
            .jit_in(&dir, "agent:two", "claim acquire ONE-1 --json")
            .exits(4);
        let lease = held.json()["error"]["details"]["lease"].clone();
        assert_eq!(lease["agent_id"], "agent:one");
        let _ = opened.jit_in(&dir, "agent:one", "claim release ONE-1").ok();
        let _ = ask("issue update ONE-1 --state done").ok();
        let ready = ask("ready --json").ok().json();
        assert_eq!(field(&ready["issues"], "id"), ["TWO-2"], "{name}");
        assert_eq!(ask("validate --json").ok().json()["ok"], true, "{name}");
        log.is_unchanged();
    }
    let entries = fs::read_dir(opened.root.join("recovered/.git/jit")).expect("a control plane");
    let mut names = entries.map(|entry| entry.expect("an entry").file_name());
    assert!(
        names.any(|name| name.to_string_lossy().starts_with("backup-")),
        "the backup of the recovery stays"
    );
}
