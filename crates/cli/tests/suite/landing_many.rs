//! How often git is started: for many units that land with one command (H2), for one that is removed, and for a pair.

use std::fs;
use std::path::{Path, PathBuf};

use crate::landing::{WHO, Yard};

/// A `git` that writes a line for each start, and then is the git of this machine.
struct Counting {
    folder: PathBuf,
    log: PathBuf,
}

impl Counting {
    fn new(yard: &Yard) -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = yard.world.root().join("counting");
        let log = folder.join("log");
        fs::create_dir(&folder).expect("a folder");
        let path = std::env::var_os("PATH").expect("PATH");
        let real = std::env::split_paths(&path)
            .map(|folder| folder.join("git"))
            .find(|git| git.is_file())
            .expect("git");
        let script = format!(
            "#!/bin/sh\necho \"$*\" >> '{}'\nexec '{}' \"$@\"\n",
            log.display(),
            real.display()
        );
        let git = folder.join("git");
        fs::write(&git, script).expect("a file");
        fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).expect("a program");
        Self { folder, log }
    }

    /// Runs `jit` with this git, and returns how often git was started.
    fn count(&self, yard: &Yard, dir: &Path, args: &[&str]) -> usize {
        self.commands(yard, dir, args).len()
    }

    /// Runs `jit` with this git, and returns the command of each git process, sorted.
    fn commands(&self, yard: &Yard, dir: &Path, args: &[&str]) -> Vec<String> {
        fs::write(&self.log, "").expect("a file");
        let own = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(self.folder.clone()).chain(std::env::split_paths(&own));
        let mut command = yard.world.jit_command(dir);
        command
            .env("PATH", std::env::join_paths(path).expect("a path"))
            .env("JIT_AGENT_ID", WHO)
            .args(args);
        let _ = yard.world.run(command).ok();
        let log = fs::read_to_string(&self.log).expect("the log");
        let mut commands: Vec<String> = log.lines().map(verb_of).collect();
        commands.sort();
        commands
    }
}

/// The command in the arguments of git.
fn verb_of(line: &str) -> String {
    let mut words = line.split(' ');
    while let Some(word) = words.next() {
        match word {
            "-c" | "-C" => drop(words.next()),
            word if word.starts_with('-') => {}
            word => return word.to_owned(),
        }
    }
    line.to_owned()
}

/// Units with an issue in the tree, and one new file each.
fn units(yard: &Yard, numbers: std::ops::Range<usize>) {
    let repo = yard.repo();
    yard.world.git(&repo, ["switch", "-q", "main"]);
    for n in numbers.clone() {
        let id = format!("WI-{n:03}");
        let _ = yard.jit(["issue", "create", "One of many", "--id", &id]).ok();
    }
    yard.commit(&repo, "issues");
    yard.world.git(&repo, ["switch", "-q", "--detach"]);
    for n in numbers {
        let name = format!("u{n:03}");
        let path = yard.unit_for(&name, Some(&format!("WI-{n:03}")));
        yard.write(&path, &format!("new-{n:03}"), "new\n");
        yard.commit(&path, &name);
    }
}

#[test]
fn heavy_h2_many_units_land_with_few_git_processes_each() {
    let yard = Yard::new();
    let git = Counting::new(&yard);
    let most = if std::env::var_os("JIT_TEST_LONG").is_some() {
        100
    } else {
        30
    };
    units(&yard, 0..10);
    let few = git.count(&yard, &yard.repo(), &["worktree", "merge", "--all"]);
    units(&yard, 100..100 + most);
    let many = git.count(&yard, &yard.repo(), &["worktree", "merge", "--all"]);
    for n in (0..10).chain(100..100 + most) {
        assert!(yard.on_main(&format!("new-{n:03}")).is_some(), "{n}");
    }
    let log = fs::read_to_string(&git.log).expect("the log");
    assert!(many <= 12 * most, "{many} processes for {most} units:\n{log}");
    // Ten units with one command: what is done once weighs more.
    assert!(many * 10 <= few * most, "{few} for 10, {many} for {most}");
}

#[test]
fn heavy_h2_units_without_issues_land_with_few_git_processes_each() {
    let yard = Yard::new();
    let git = Counting::new(&yard);
    let names: Vec<String> = (0..16).map(|n| format!("plain-{n:02}")).collect();
    for name in &names {
        let _ = yard.done(name, &format!("file-{name}"), "new\n");
    }
    let many = git.count(&yard, &yard.repo(), &["worktree", "merge", "--all"]);
    for name in &names {
        assert!(yard.on_main(&format!("file-{name}")).is_some(), "{name}");
    }
    let log = fs::read_to_string(&git.log).expect("the log");
    assert!(many <= 12 * names.len(), "{many} processes:\n{log}");
}

#[test]
fn h2_what_landed_before_is_seen_by_the_units_that_come_later() {
    let yard = Yard::new();
    yard.configure("[merge]\nbatch = 1\n");
    // Both change one line, a third one changes another file and a fourth removes a file that a fifth changes.
    let _ = yard.done("a", "file", "changed by a\n");
    let _ = yard.done("b", "file", "changed by b\n");
    let _ = yard.done("c", "new", "new\n");
    let report = yard.merge(&["--all"]).exits(6).json();
    let verdict = |unit: &str| {
        let units = report["units"].as_array().expect("units");
        let one = units.iter().find(|one| one["unit"] == unit).expect("told");
        one["verdict"].as_str().expect("a word").to_owned()
    };
    assert_eq!(verdict("c"), "landed", "{report}");
    let both = [verdict("a"), verdict("b")];
    assert!(both.contains(&"landed".to_owned()), "{report}");
    assert!(both.contains(&"conflict".to_owned()), "{report}");
}

#[test]
fn h2_units_that_were_built_on_each_other_land_in_one_run() {
    let yard = Yard::new();
    let first = yard.done("first", "one", "1\n");
    let second = yard.unit("second");
    yard.world.git(&second, ["merge", "-q", "--ff-only", "first"]);
    yard.write(&second, "two", "2\n");
    yard.commit(&second, "two");
    let report = yard.merge(&["--all"]).ok().json();
    assert_eq!(yard.on_main("one").as_deref(), Some("1\n"), "{report}");
    assert_eq!(yard.on_main("two").as_deref(), Some("2\n"), "{report}");
    assert_eq!((yard.landings("first"), yard.landings("second")), (1, 1));
    assert!(first.is_dir());
}

#[test]
fn h7_a_landed_worktree_is_removed_with_few_git_processes() {
    let yard = Yard::new();
    let git = Counting::new(&yard);
    let path = yard.done("has-landed", "file", "new\n");
    let _ = yard.merge(&["has-landed"]).ok();
    let commands = git.commands(&yard, &yard.repo(), &["worktree", "cleanup", "has-landed"]);
    assert_eq!(commands, ["hash-object", "rev-list", "status", "update-ref"]);
    assert!(!path.exists());
}

#[test]
fn h8_a_pair_is_compared_with_few_git_processes() {
    let yard = Yard::new();
    let git = Counting::new(&yard);
    let _ = yard.done("a", "file", "a\n");
    let _ = yard.done("b", "file", "b\n");
    yard.push_to_main("other", "main\n");
    let commands = git.commands(&yard, &yard.repo(), &["conflicts", "a", "b"]);
    // A git before 2.41 finds the attributes in a folder, which takes some more.
    let more = ["cat-file", "ls-tree"];
    let mut needed: Vec<&str> = commands.iter().map(String::as_str).collect();
    needed.retain(|command| !more.contains(command));
    needed.dedup();
    assert_eq!(
        needed,
        ["diff-tree", "log", "merge-tree", "rev-list"],
        "{commands:?}"
    );
}
