//! Units of work in a real repository, and what can be found again of all that was ever there.

pub mod kinds;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jit_core::decide::command::Command;
use jit_core::model::actor::Actor;
use jit_core::model::unit::{Facts, NewUnit, UnitInput};
use jit_os::clock::SystemClock;
use jit_store::disk::RealDisk;
use jit_store::file::FileStore;
use jit_testkit::store_commands;
use jit_testkit::world::World;

pub const JIT: &str = env!("CARGO_BIN_EXE_jit");

/// What brings a new unit to MERGED.
pub const TO_MERGED: &[UnitInput] = &[
    UnitInput::ProvisioningComplete,
    UnitInput::DispatchInstance,
    UnitInput::InstanceRunning,
    UnitInput::InstanceCompleted,
    UnitInput::BeginMerge,
    UnitInput::MergeSuccess,
];

/// A repository with jit, a few files and their history.
pub fn world() -> World {
    filled(World::with_jit(JIT))
}

pub fn filled(world: World) -> World {
    let repo = world.repo();
    for (name, content) in [
        ("a.txt", "one\ntwo\nthree\n"),
        ("b.txt", "b\n"),
        ("dir/c.txt", "c\n"),
        (".gitignore", "*.log\n*.env\n/out/\n/private/\n"),
    ] {
        let path = repo.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, content).expect("a file");
    }
    world.git(&repo, ["add", "a.txt", "b.txt", "dir", ".gitignore"]);
    world.git(&repo, ["commit", "-q", "-m", "files"]);
    world
}

/// Moves a unit along, by way of the store itself.
pub fn advance(control: &Path, name: &str, inputs: &[UnitInput]) {
    let disk = RealDisk::open(control).expect("a control plane");
    let store = FileStore::new(
        Arc::new(disk),
        Arc::new(SystemClock::default()),
        Duration::from_secs(30),
    );
    for input in inputs {
        let command = Command::AdvanceUnit {
            unit: name.parse().expect("a unit"),
            input: *input,
            facts: Box::new(Facts::default()),
        };
        ask(&store, &command);
    }
}

fn ask(store: &FileStore, command: &Command) {
    let number = jit_os::random::u128().expect("a number");
    let actor = Actor {
        agent_id: "human:tester".parse().expect("an agent"),
        worktree_id: None,
    };
    store_commands::ask(store, &actor, command, number).expect("a yes");
}

/// A unit with its worktree, in the control plane of the world.
pub fn unit(world: &World, name: &str, inputs: &[UnitInput]) -> PathBuf {
    let path = world.worktree(name);
    register(&world.control(), name, &path, inputs);
    path
}

pub fn register(control: &Path, name: &str, path: &Path, inputs: &[UnitInput]) {
    let disk = RealDisk::open(control).expect("a control plane");
    let store = FileStore::new(
        Arc::new(disk),
        Arc::new(SystemClock::default()),
        Duration::from_secs(30),
    );
    let command = Command::CreateUnit(Box::new(NewUnit {
        id: name.parse().expect("a unit"),
        issue: None,
        worktree_path: path.to_str().expect("UTF-8").to_owned(),
        branch: name.to_owned(),
        target: "main".to_owned(),
        base: "HEAD".to_owned(),
        ttl_secs: None,
        workflow: None,
    }));
    ask(&store, &command);
    advance(control, name, inputs);
}

pub fn write(path: &Path, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, content).expect("a file");
}

/// All contents that can be found again: files of folders, and objects that git would keep, of every repository in them.
pub fn recoverable(world: &World) -> BTreeSet<Vec<u8>> {
    // What no ref, reflog or index holds is thrown away here, so that it cannot be found by luck.
    world.git(&world.repo(), ["gc", "-q", "--prune=now"]);
    let mut found = BTreeSet::new();
    let mut folders = vec![world.root().to_owned()];
    while let Some(folder) = folders.pop() {
        let is_git_dir = folder.join("HEAD").is_file() && folder.join("objects").is_dir();
        if is_git_dir {
            objects(world, &folder, &mut found);
        }
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let kind = entry.file_type().expect("a type");
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && !folder.ends_with("home") {
                found.insert(fs::read(entry.path()).expect("a file"));
            }
        }
    }
    // A repository that was kept raw: its objects are files, and those are objects of another one.
    let inner: Vec<Vec<u8>> = found.iter().filter_map(|one| stored(one)).collect();
    found.extend(inner);
    found
}

/// The content of a loose object that git wrote without compressing it: a zlib header, the lengths of one block, then
/// `blob <size>` and the content, then a checksum.
fn stored(file: &[u8]) -> Option<Vec<u8>> {
    let block = file.strip_prefix(b"\x78\x01")?.get(5..)?;
    let end = block.strip_prefix(b"blob ")?.iter().position(|b| *b == 0)?;
    let content = block.get(5 + end + 1..)?;
    content.get(..content.len().checked_sub(4)?).map(<[u8]>::to_vec)
}

fn objects(world: &World, git_dir: &Path, found: &mut BTreeSet<Vec<u8>>) {
    let mut command = world.command("git", git_dir);
    let mut option = std::ffi::OsString::from("--git-dir=");
    option.push(git_dir);
    command
        .arg(option)
        .args(["-c", "core.bare=true", "-c", "core.worktree="])
        .args(["cat-file", "--batch-all-objects", "--unordered", "--batch"]);
    command.env_remove("GIT_DIR");
    let output = command.output().expect("git");
    let mut rest = output.stdout.as_slice();
    while let Some(end) = rest.iter().position(|b| *b == b'\n') {
        let head = String::from_utf8_lossy(&rest[..end]).into_owned();
        let size: usize = head
            .rsplit_once(' ')
            .expect("a size")
            .1
            .parse()
            .expect("a number");
        if head.contains(" blob ") {
            found.insert(rest[end + 1..end + 1 + size].to_vec());
        }
        rest = &rest[end + 2 + size..];
    }
}
