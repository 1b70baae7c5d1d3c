//! A repository with units of work in it, ready to be merged.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jit_core::decide::command::Command;
use jit_core::model::actor::Actor;
use jit_core::model::ids::{LeaseId, RequestId, UnitId};
use jit_core::model::policy::Policy;
use jit_core::model::unit::{Facts, NewUnit, UnitInput};
use jit_os::clock::{SystemClock, wall_ms};
use jit_os::random;
use jit_store::disk::RealDisk;
use jit_store::file::FileStore;
use jit_store::{Ask, Store as _};
use jit_testkit::world::{Ran, World};
use serde_json::Value;

pub const JIT: &str = env!("CARGO_BIN_EXE_jit");
/// Who made the units.
pub const WHO: &str = "human:test";

pub struct Yard {
    pub world: World,
}

/// Whether an event is about this unit.
fn is_of(event: &Value, unit: &str) -> bool {
    let kind = event["type"].as_str().unwrap_or_default();
    kind.starts_with("unit.") && event["payload"]["id"] == unit
}

impl Yard {
    /// A repository with a file of ten lines and everything of jit's committed. Nobody has `main` checked out, unless
    /// the test wants that: then nothing stands between a landing and the target.
    pub fn new() -> Self {
        let yard = Self::checked_out();
        yard.world.git(&yard.repo(), ["switch", "-q", "--detach"]);
        yard
    }

    /// The same with `main` checked out in the main worktree.
    pub fn checked_out() -> Self {
        let world = World::with_jit(JIT);
        let yard = Self { world };
        let lines: String = (1..=10).map(|n| format!("line {n}\n")).collect();
        yard.write(&yard.repo(), "file", &lines);
        yard.write(&yard.repo(), "other", "other\n");
        yard.commit(&yard.repo(), "files");
        yard
    }

    pub fn repo(&self) -> PathBuf {
        self.world.repo()
    }

    pub fn write(&self, dir: &Path, name: &str, text: &str) {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    pub fn commit(&self, dir: &Path, message: &str) -> String {
        self.world.git(dir, ["add", "-A"]);
        self.world.git(dir, ["commit", "-q", "-m", message]);
        self.rev(dir, "HEAD")
    }

    pub fn rev(&self, dir: &Path, revision: &str) -> String {
        self.world.git(dir, ["rev-parse", revision]).trim().to_owned()
    }

    pub fn main(&self) -> String {
        self.rev(&self.repo(), "refs/heads/main")
    }

    /// What a file is on the target; `None` if it is not there.
    pub fn on_main(&self, name: &str) -> Option<String> {
        let mut command = self.world.command("git", &self.repo());
        command.args(["cat-file", "blob", &format!("refs/heads/main:{name}")]);
        let ran = self.world.run(command);
        (ran.code == 0).then_some(ran.stdout)
    }

    /// Puts a commit onto `main` as somebody without jit would, in a worktree of their own.
    pub fn push_to_main(&self, name: &str, text: &str) -> String {
        let dir = self.world.root().join("person");
        if !dir.exists() {
            let path = dir.to_string_lossy().into_owned();
            self.world
                .git(&self.repo(), ["worktree", "add", "-q", "--detach", &path, "main"]);
        }
        self.world
            .git(&dir, ["checkout", "-q", "--detach", "refs/heads/main"]);
        self.write(&dir, name, text);
        let new = self.commit(&dir, &format!("by a person: {name}"));
        self.world.git(&dir, ["update-ref", "refs/heads/main", &new]);
        new
    }

    /// A unit with a worktree of its own, from `main`.
    pub fn unit(&self, name: &str) -> PathBuf {
        self.unit_for(name, None)
    }

    pub fn unit_for(&self, name: &str, issue: Option<&str>) -> PathBuf {
        let path = self.world.root().join(name);
        let text = path.to_string_lossy().into_owned();
        let base = self.main();
        self.world
            .git(&self.repo(), ["worktree", "add", "-q", "-b", name, &text, "main"]);
        let identity = self
            .world
            .jit_as_in(WHO, &path, ["worktree", "init", "--json"])
            .ok()
            .json();
        let id: UnitId = name.parse().expect("a name");
        self.transact(&Command::CreateUnit(Box::new(NewUnit {
            id: id.clone(),
            issue: issue.map(|issue| issue.parse().expect("an issue")),
            worktree_path: text,
            branch: name.to_owned(),
            target: "main".to_owned(),
            base,
            ttl_secs: Some(3600),
            workflow: None,
        })));
        self.transact(&Command::AdvanceUnit {
            unit: id,
            input: UnitInput::ProvisioningComplete,
            facts: Box::new(Facts {
                worktree_id: Some(
                    identity["worktree_id"]
                        .as_str()
                        .expect("an id")
                        .parse()
                        .expect("an id"),
                ),
                ..Facts::default()
            }),
        });
        path
    }

    /// A unit that changed one file and committed it.
    pub fn done(&self, name: &str, file: &str, text: &str) -> PathBuf {
        let path = self.unit(name);
        self.write(&path, file, text);
        self.commit(&path, &format!("{name}: {file}"));
        path
    }

    /// What the log is told by commands that another part of the program gives.
    pub fn transact(&self, command: &Command) {
        let disk = RealDisk::open(&self.world.control()).expect("a control plane");
        let store = FileStore::new(
            Arc::new(disk),
            Arc::new(SystemClock::default()),
            Duration::from_secs(60),
        );
        let wall = wall_ms();
        let fresh = random::u128().expect("random bytes");
        store
            .transact(&mut Ask {
                command,
                actor: &Actor {
                    agent_id: WHO.parse().expect("an agent"),
                    worktree_id: None,
                },
                branch: None,
                fresh_lease: LeaseId::generate(wall, fresh),
                policy: &Policy::default(),
                request: RequestId::make_up(wall, fresh ^ 1),
                repeatable: false,
                wait: None,
                prepare: &mut |_| Ok(()),
                publish: &mut |_, _| Vec::new(),
            })
            .expect("a yes");
    }

    pub fn jit<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Ran {
        self.world.jit_as_in(WHO, &self.repo(), args)
    }

    /// `jit worktree merge … --json`.
    pub fn merge(&self, args: &[&str]) -> Ran {
        let mut all = vec!["worktree", "merge", "--json"];
        all.extend(args);
        self.jit(all)
    }

    /// The newest state of a unit, as the log has it.
    pub fn phase(&self, unit: &str) -> Value {
        let events = self.world.events();
        let ours = events.iter().rev().find(|event| is_of(event, unit));
        ours.map_or(Value::Null, |event| event["payload"].clone())
    }

    /// How often a unit was recorded as merged.
    pub fn landings(&self, unit: &str) -> usize {
        let events = self.world.events();
        let merged = |event: &&Value| is_of(event, unit) && event["payload"]["state"] == "MERGED";
        events.iter().filter(merged).count()
    }

    /// A gate or check that is committed on `main`, approved by whoever runs the tests.
    pub fn configure(&self, config: &str) {
        let dir = self.world.root().join("settings");
        let path = dir.to_string_lossy().into_owned();
        self.world
            .git(&self.repo(), ["worktree", "add", "-q", "--detach", &path, "main"]);
        let file = dir.join(".jit/config.toml");
        let before = fs::read_to_string(&file).unwrap_or_default();
        fs::write(&file, format!("{before}\n{config}\n")).expect("a file");
        let new = self.commit(&dir, "settings");
        self.world.git(&dir, ["update-ref", "refs/heads/main", &new]);
        let _ = self.world.jit_as_in(WHO, &dir, ["trust", "--yes"]).ok();
        self.world
            .git(&self.repo(), ["worktree", "remove", "--force", &path]);
    }

    /// Approves what these settings would run, though no commit has them.
    pub fn configure_trust(&self, config: &str) {
        let dir = self.world.root().join("approved");
        let path = dir.to_string_lossy().into_owned();
        self.world
            .git(&self.repo(), ["worktree", "add", "-q", "--detach", &path, "main"]);
        fs::write(dir.join(".jit/config.toml"), config).expect("a file");
        let _ = self.world.jit_as_in(WHO, &dir, ["trust", "--yes"]).ok();
        self.world
            .git(&self.repo(), ["worktree", "remove", "--force", &path]);
    }

    /// Everything of a worktree that its owner can see: files and what git says about them.
    pub fn picture(&self, dir: &Path) -> (Vec<(String, Vec<u8>)>, String) {
        fn walk(root: &Path, dir: &Path, out: &mut Vec<(String, Vec<u8>)>) {
            for entry in fs::read_dir(dir).expect("a folder") {
                let path = entry.expect("an entry").path();
                let name = path
                    .strip_prefix(root)
                    .expect("inside")
                    .to_string_lossy()
                    .into_owned();
                if name == ".git" || name.starts_with(".jit") {
                    continue;
                }
                if path.is_dir() {
                    walk(root, &path, out);
                } else {
                    out.push((name, fs::read(&path).expect("a file")));
                }
            }
        }
        let mut files = Vec::new();
        walk(dir, dir, &mut files);
        files.sort();
        let status = self.world.git(
            dir,
            ["--no-optional-locks", "status", "--porcelain", "--", ":!.jit"],
        );
        (files, status)
    }

    /// Nothing of a trial is left.
    pub fn is_tidy(&self) {
        let listed = self.world.git(&self.repo(), ["worktree", "list", "--porcelain"]);
        assert!(!listed.contains("scratch"), "{listed}");
        let left: Vec<_> = fs::read_dir(self.world.control().join("scratch"))
            .map(|all| all.filter_map(Result::ok).map(|entry| entry.path()).collect())
            .unwrap_or_default();
        assert!(left.is_empty(), "{left:?}");
    }
}
