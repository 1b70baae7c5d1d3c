//! Disks that are full, read-only, closed to us or not what they seem; and who may read what we write.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use jit_testkit::world::tools::{Folder, inside_own_mounts, say, without};
use jit_testkit::world::{Ran, World};
use serde_json::Value;

const JIT: &str = env!("CARGO_BIN_EXE_jit");

fn set_up(world: &World) {
    let _ = world.jit_as("human:setup", ["init"]).ok();
    for id in ["WORK-1", "WORK-2", "HELD-1"] {
        let _ = world
            .jit_as("human:setup", ["issue", "create", "Work", "--id", id])
            .ok();
    }
    let _ = world
        .jit_as("agent:one", ["claim", "acquire", "HELD-1", "--ttl", "1h"])
        .ok();
}

/// A refusal that a person can understand and a program can read.
#[track_caller]
fn refused(ran: &Ran, code: i32) -> String {
    assert_eq!(ran.code, code, "stdout: {}\nstderr: {}", ran.stdout, ran.stderr);
    let error = ran.json()["error"].clone();
    let message = error["message"].as_str().expect("a message").to_owned();
    assert!(message.len() > 10, "{error}");
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    message
}

/// Every write there is, each with what it is called.
const WRITES: &[(&str, &[&str])] = &[
    ("agent:two", &["claim", "acquire", "WORK-1", "--json"]),
    ("agent:one", &["claim", "renew", "HELD-1", "--json"]),
    (
        "agent:one",
        &["claim", "transfer", "HELD-1", "--to", "agent:three", "--json"],
    ),
    (
        "human:boss",
        &["claim", "force-evict", "HELD-1", "--reason", "stuck", "--json"],
    ),
    ("agent:one", &["issue", "create", "New", "--json"]),
    ("agent:one", &["claim", "release", "HELD-1", "--json"]),
];

const READS: &[&[&str]] = &[
    &["claim", "list", "--json"],
    &["claim", "history", "--json"],
    &["issue", "list", "--json"],
    &["issue", "show", "WORK-1", "--json"],
    &["events", "--json"],
    &["whoami", "--json"],
];

/// After trouble is over: everything works, nobody helped.
#[track_caller]
fn works_again(world: &World) {
    let _ = world.jit_as("agent:after", ["claim", "acquire", "WORK-2"]).ok();
    let _ = world.jit_as("agent:after", ["claim", "release", "WORK-2"]).ok();
    let _ = world.jit_as("agent:after", ["issue", "create", "Later"]).ok();
    world.validates();
}

fn mount(words: &[&str]) {
    let status = Command::new("mount").args(words).status().expect("mount");
    assert!(status.success(), "mount {words:?}");
}

/// A small file system of its own, gone with the namespace.
fn small_disk(size: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let options = format!("size={size}");
    mount(&[
        "-t",
        "tmpfs",
        "-o",
        &options,
        "none",
        &folder.path().to_string_lossy(),
    ]);
    folder
}

/// Fills a disk to the last page, then gives back `pages`.
fn fill(path: &Path, pages: u64) {
    let mut file = File::create(path).expect("a file");
    while file.write_all(&[0; 4096]).is_ok() {}
    let len = file.metadata().expect("metadata").len();
    file.set_len((len / 4096 - pages) * 4096).expect("shorter");
}

#[test]
#[cfg(target_os = "linux")]
fn d1_a_full_disk_is_told_and_nothing_is_half_done() {
    if !inside_own_mounts(module_path!(), "d1_a_full_disk_is_told_and_nothing_is_half_done") {
        return;
    }
    let disk = small_disk("4m");
    let world = World::within(JIT, disk.path());
    set_up(&world);
    let start = world.snapshot();
    let filler = world.root().join("filler");
    let (mut told, mut done) = (0, 0);
    for (agent, words) in WRITES {
        for pages in 0..6 {
            world.restore(&start);
            // The log's last page is full, so that every append needs a new one.
            let log = world.control().join("events/control.jsonl");
            if pages % 2 == 0 {
                while fs::metadata(&log).expect("a log").len() % 4096 < 3700 {
                    let _ = world
                        .jit_as("agent:pad", ["claim", "acquire", "WORK-2", "--reason", "padding"])
                        .ok();
                    let _ = world.jit_as("agent:pad", ["claim", "release", "WORK-2"]).ok();
                }
            }
            let before = world.events();
            fill(&filler, pages);
            let ran = world.jit_as(agent, *words);
            for read in READS {
                let _ = world.jit_as("agent:reader", *read).ok();
            }
            let after = world.events();
            if ran.code == 0 {
                done += 1;
                assert!(after.len() > before.len(), "{words:?} was acknowledged");
            } else {
                told += 1;
                let message = refused(&ran, 1);
                assert!(message.to_lowercase().contains("space"), "{message}");
                assert_eq!(after, before, "{words:?} was refused");
            }
            fs::remove_file(&filler).expect("space again");
            works_again(&world);
            if ran.code != 0 {
                let _ = world.jit_as(agent, *words).ok();
            }
        }
    }
    say(&format!(
        "full disk: {told} refused, {done} done in what was left"
    ));
    assert!(told > 0, "the disk was full");
}

#[test]
#[cfg(target_os = "linux")]
fn d1_a_read_only_disk_can_be_read_and_is_told() {
    if !inside_own_mounts(module_path!(), "d1_a_read_only_disk_can_be_read_and_is_told") {
        return;
    }
    let disk = small_disk("8m");
    let world = World::within(JIT, disk.path());
    set_up(&world);
    let place = disk.path().to_string_lossy().into_owned();
    let before = Folder::read(&world.repo()).expect("a repository");
    mount(&["-o", "remount,ro", &place]);
    for (agent, words) in WRITES {
        let message = refused(&world.jit_as(agent, *words), 1);
        assert!(message.to_lowercase().contains("read-only"), "{message}");
    }
    for read in READS {
        let _ = world.jit_as("agent:reader", *read).ok();
    }
    mount(&["-o", "remount,rw", &place]);
    assert!(
        Folder::read(&world.repo()).expect("a repository") == before,
        "nothing was changed"
    );
    works_again(&world);
}

/// `jit` in the hands of somebody else.
fn as_user(world: &World, user: &str, groups: &str, agent: &str, words: &[&str]) -> Ran {
    let way = [
        "setpriv".to_owned(),
        format!("--reuid={user}"),
        format!("--regid={user}"),
        if groups.is_empty() {
            "--clear-groups".to_owned()
        } else {
            format!("--groups={groups}")
        },
    ];
    // Git refuses a repository of another user, and so does jit, unless that user allows it.
    let settings = world.root().join("settings-of-the-other");
    fs::write(&settings, "[safe]\n\tdirectory = *\n").expect("a file");
    chmod(&settings, 0o644);
    let mut command = world.jit_by_way_of(&way, agent, words);
    command.env("GIT_CONFIG_GLOBAL", settings);
    world.run(command)
}

#[test]
fn l2_a_repository_of_another_user_needs_that_users_word() {
    if !may_be_another() {
        return;
    }
    let world = World::new(JIT);
    set_up(&world);
    chmod(world.root(), 0o755);
    chmod(&world.repo(), 0o755);
    let way = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    for words in [&["claim", "list", "--json"][..], &["conflicts", "--json"]] {
        let ran = world.run(world.jit_by_way_of(&way, "agent:other", words));
        let _ = refused(&ran, 5);
        let error = ran.json()["error"].clone();
        assert_eq!(error["code"], "not_allowed");
        let remedy = error["help"][0].as_str().expect("a command");
        assert!(
            remedy.starts_with("git config --global --add safe.directory "),
            "{remedy}"
        );
    }
    let _ = world.jit_as("agent:reader", ["claim", "list", "--json"]).ok();
}

#[test]
fn l2_units_can_be_made_in_a_repository_that_is_allowed() {
    let world = World::new(JIT);
    set_up(&world);
    let repo = world.repo();
    let given = Command::new("chown").args(["-hR", "65534"]).arg(&repo).output();
    if !given.is_ok_and(|output| output.status.success()) {
        say("left out: only root can give a repository away");
        return;
    }
    let settings = world.root().join("allowed");
    fs::write(&settings, format!("[safe]\n\tdirectory = {}\n", repo.display())).expect("a file");
    for (unit, name, value) in [
        ("allowed", "GIT_CONFIG_GLOBAL", settings.as_os_str()),
        ("sudo", "SUDO_UID", "65534".as_ref()),
    ] {
        let words = ["worktree", "create", unit, "--json"];
        let mut command = world.jit_by_way_of(&["env"], "human:root", words);
        command.env(name, value);
        assert_eq!(world.run(command).ok().json()["state"], "READY", "{name}");
    }
}

/// Whether we may act as somebody else.
pub(crate) fn may_be_another() -> bool {
    let may = Command::new("setpriv")
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            JIT,
            "--version",
        ])
        .output()
        .is_ok_and(|output| output.status.success());
    if !may {
        say("left out: only root can act as another user, and the binary must be in reach of that one");
    }
    may
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

#[test]
#[cfg(target_os = "linux")]
fn d1_somebody_without_permission_is_told() {
    if !may_be_another() {
        return;
    }
    let world = World::new(JIT);
    set_up(&world);
    chmod(world.root(), 0o755);
    chmod(&world.repo(), 0o755);
    let before = Folder::read(&world.repo()).expect("a repository");
    for (agent, words) in WRITES {
        let message = refused(&as_user(&world, "65534", "", agent, words), 1);
        assert!(message.to_lowercase().contains("permission denied"), "{message}");
    }
    let message = refused(
        &as_user(&world, "65534", "", "agent:two", &["claim", "list", "--json"]),
        1,
    );
    assert!(message.to_lowercase().contains("permission denied"), "{message}");
    assert!(Folder::read(&world.repo()).expect("a repository") == before);
    works_again(&world);
}

#[test]
fn d1_a_control_plane_that_is_a_link_or_a_file_is_refused() {
    let world = World::new(JIT);
    set_up(&world);
    let control = world.control();
    let aside = world.root().join("aside");
    fs::rename(&control, &aside).expect("moved");
    let content = Folder::read(&aside).expect("a control plane");
    let check = |what: &str| {
        for (agent, words) in WRITES {
            let message = refused(&world.jit_as(agent, *words), 1);
            assert!(message.contains(".git/jit"), "{what}: {message}");
        }
        for read in READS.iter().filter(|words| words[0] != "whoami") {
            let message = refused(&world.jit_as("agent:reader", *read), 1);
            assert!(message.contains(".git/jit"), "{what}: {message}");
        }
        let _ = refused(&world.jit_as("human:setup", ["init", "--json"]), 1);
        assert!(
            Folder::read(&aside).expect("a control plane") == content,
            "{what}: nothing was touched"
        );
    };
    symlink(&aside, &control).expect("a link");
    check("a link");
    fs::remove_file(&control).expect("removed");
    symlink(world.root().join("nowhere"), &control).expect("a link");
    check("a link to nothing");
    assert!(!world.root().join("nowhere").exists());
    fs::remove_file(&control).expect("removed");
    fs::write(&control, "not a folder").expect("a file");
    check("a file");
    assert_eq!(fs::read_to_string(&control).expect("a file"), "not a folder");
    fs::remove_file(&control).expect("removed");
    fs::rename(&aside, &control).expect("moved back");
    works_again(&world);
}

#[test]
fn d1_a_link_in_place_of_a_file_of_ours_is_not_followed() {
    links_are_not_followed(&["locks/control.lock", "events/control.jsonl", "state/journal"]);
}

#[test]
fn d1_a_link_in_place_of_a_folder_of_ours_is_not_followed() {
    links_are_not_followed(&["events", "locks", "state"]);
}

fn links_are_not_followed(names: &[&str]) {
    let world = World::new(JIT);
    set_up(&world);
    let start = world.snapshot();
    let victim = world.root().join("victim");
    for name in names {
        world.restore(&start);
        let path = world.control().join(name);
        let aside = world.root().join("aside");
        fs::rename(&path, &aside).expect("moved");
        for target in [&aside, &victim] {
            symlink(target, &path).expect("a link");
            let is_folder = aside.is_dir();
            let before = is_folder.then(|| Folder::read(&aside).expect("a folder"));
            let bytes = (!is_folder).then(|| fs::read(&aside).expect("a file"));
            let ran = world.jit_as("agent:two", ["claim", "acquire", "WORK-1", "--json"]);
            let what = format!("{name} is a link to {}", target.display());
            if ran.code == 0 {
                // Only what is made anew from the log may be replaced or gone round.
                assert!(name.starts_with("state"), "{what}: {}", ran.stdout);
            } else {
                assert!(matches!(ran.code, 1 | 3), "{what}: {} {}", ran.stdout, ran.stderr);
                let message = refused(&ran, ran.code);
                say(&format!("{what}: {message}"));
            }
            assert!(!victim.exists(), "{what}: nothing was made where it points");
            if let Some(bytes) = bytes {
                assert_eq!(
                    fs::read(&aside).expect("a file"),
                    bytes,
                    "{what}: nothing was written through it"
                );
            }
            if let Some(before) = before {
                assert!(
                    Folder::read(&aside).expect("a folder") == before,
                    "{what}: nothing was written through it"
                );
            }
            if fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_symlink()) {
                fs::remove_file(&path).expect("removed");
            }
        }
        if aside.is_dir() {
            fs::remove_dir_all(&aside).expect("removed");
        } else {
            fs::remove_file(&aside).expect("removed");
        }
    }
    world.restore(&start);
    works_again(&world);
}

#[test]
fn d1_views_that_are_links_are_replaced_or_told_and_never_written_through() {
    let world = World::new(JIT);
    set_up(&world);
    let start = world.snapshot();
    for name in [
        "claims.jsonl",
        "claims.index.json",
        "claims.index.json.new",
        "locks/control.meta",
    ] {
        world.restore(&start);
        let victim = world.root().join("victim");
        fs::write(&victim, "mine").expect("a file");
        let path = world.control().join(name);
        let _ = fs::remove_file(&path);
        symlink(&victim, &path).expect("a link");
        // The log is not concerned: the command is carried out, perhaps with a warning.
        let ran = world.jit_as("agent:two", ["claim", "acquire", "WORK-1", "--json"]);
        assert_eq!(ran.code, 0, "{name}: {} {}", ran.stdout, ran.stderr);
        assert_eq!(
            fs::read_to_string(&victim).expect("a file"),
            "mine",
            "{name} was written through"
        );
        if fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_symlink()) {
            fs::remove_file(&path).expect("removed");
        }
        works_again(&world);
    }
}

/// Does a bit of everything that leaves files behind, with this umask.
fn use_with_umask(world: &World, umask: &str) {
    let script = format!("umask {umask}; exec \"$0\" \"$@\"");
    let run = |agent: &str, words: &[&str]| {
        let way = ["sh", "-c", &script];
        let ran = world.run(world.jit_by_way_of(&way, agent, words));
        assert_eq!(ran.code, 0, "{words:?}: {} {}", ran.stdout, ran.stderr);
    };
    run("human:setup", &["init"]);
    let with_text = [
        "issue",
        "create",
        "A",
        "--id",
        "WORK-1",
        "--label",
        "x",
        "--description",
        "text",
    ];
    run("human:setup", &with_text);
    run("agent:one", &["claim", "acquire", "WORK-1"]);
    run("agent:one", &["heartbeat", "--once"]);
    run("agent:one", &["claim", "release", "WORK-1"]);
    run("human:setup", &["issue", "create", "B", "--id", "WORK-2"]);
    // A torn end, a lost index and lost state: what is made in mending.
    let log = world.control().join("events/control.jsonl");
    let mut file = File::options().append(true).open(log).expect("a log");
    file.write_all(b"{\"torn").expect("written");
    fs::remove_file(world.control().join("claims.index.json")).expect("removed");
    fs::remove_file(world.control().join("state/journal")).expect("removed");
    run("agent:one", &["claim", "acquire", "WORK-1", "--ttl", "1h"]);
    run("agent:one", &["validate"]);
}

fn modes_are(world: &World, file_mode: u32, folder_mode: u32, what: &str) {
    let control = Folder::read(&world.control()).expect("a control plane");
    let wrong: Vec<String> = control
        .modes()
        .filter(|(_, folder, mode)| *mode != if *folder { folder_mode } else { file_mode })
        .map(|(path, _, mode)| format!("{} {mode:o}", path.display()))
        .collect();
    assert!(wrong.is_empty(), "{what}: {wrong:?}");
}

#[test]
fn a3_the_control_plane_is_private_whatever_the_umask() {
    for umask in ["0000", "0022", "0077"] {
        let world = World::new(JIT);
        use_with_umask(&world, umask);
        modes_are(&world, 0o600, 0o700, umask);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a3_a_shared_repository_is_shared_with_its_group() {
    for umask in ["0000", "0022", "0077"] {
        let world = World::new(JIT);
        world.git(&world.repo(), ["config", "core.sharedRepository", "group"]);
        use_with_umask(&world, umask);
        modes_are(&world, 0o660, 0o2770, umask);
    }
    if !may_be_another() {
        return;
    }
    // Another user of the group works in the same repository.
    let (user, group) = ("65534", 54_321);
    let world = World::new(JIT);
    chmod(world.root(), 0o755);
    let repo = world.repo();
    world.git(&repo, ["config", "core.sharedRepository", "group"]);
    world.git(&repo, ["config", "core.bare", "false"]);
    let script = "chgrp -R \"$0\" . && chmod -R g+rwX . && find . -type d -exec chmod g+s {} +";
    let mut command = world.command("sh", &repo);
    command.args(["-c", script, &group.to_string()]);
    let _ = world.run(command).ok();
    // As people do who share a working tree: what git checks out follows the umask.
    use_with_umask(&world, "0002");
    assert_eq!(fs::metadata(world.control()).expect("a folder").gid(), group);
    let groups = group.to_string();
    let other = |words: &[&str]| as_user(&world, user, &groups, "agent:other", words);
    let list = other(&["claim", "list", "--json"]).ok().json();
    assert_eq!(list["active"].as_array().map(Vec::len), Some(1), "{list}");
    let held = other(&["claim", "acquire", "WORK-1", "--json"]);
    let _ = refused(&held, 4);
    let lease: Value = other(&["claim", "acquire", "WORK-2", "--json"]).ok().json();
    assert_eq!(lease["agent_id"], "agent:other");
    let _ = other(&["issue", "create", "From the other", "--id", "OTHER-1"]).ok();
    // And the first one goes on with what the second one wrote.
    let _ = world.jit_as("agent:one", ["claim", "acquire", "OTHER-1"]).ok();
    let _ = world.jit_as("agent:one", ["claim", "release", "WORK-1"]).ok();
    let _ = other(&["claim", "acquire", "WORK-1"]).ok();
    let _ = other(&["claim", "release", "WORK-2"]).ok();
    modes_are(&world, 0o660, 0o2770, "two users");
    world.validates();
}

#[test]
fn a5_the_identity_of_a_shared_worktree_can_be_read_by_its_group() {
    let world = World::new(JIT);
    world.git(&world.repo(), ["config", "core.sharedRepository", "group"]);
    use_with_umask(&world, "0077");
    let identity = fs::metadata(world.repo().join(".git/jit-worktree.json")).expect("an identity");
    assert_eq!(identity.mode() & 0o060, 0o060, "{:o}", identity.mode());
}

#[test]
#[cfg(target_os = "linux")]
fn a3_an_init_killed_in_the_middle_leaves_nothing_open_to_others() {
    if without("strace") {
        return;
    }
    let world = World::new(JIT);
    let script = "umask 0022; exec strace -f -qq -o/dev/null -etrace=chmod -einject=chmod:signal=KILL:when=1 \"$0\" \"$@\"";
    let _ = world.run(world.jit_by_way_of(&["sh", "-c", script], "human:setup", ["init"]));
    use_with_umask(&world, "0022");
    modes_are(&world, 0o600, 0o700, "after a killed init");
}

#[test]
fn a3_init_again_shares_what_was_private() {
    let world = World::new(JIT);
    set_up(&world);
    world.git(&world.repo(), ["config", "core.sharedRepository", "group"]);
    let _ = world.jit_as("human:setup", ["init"]).ok();
    modes_are(&world, 0o660, 0o2770, "after init");
}
