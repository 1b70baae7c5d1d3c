//! Every kind of work that can lie about in a worktree.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use jit_core::model::unit::UnitInput;
use jit_testkit::world::World;

use crate::rescuing::write;

/// What brings a new unit to READY.
pub const TO_READY: &[UnitInput] = &[UnitInput::ProvisioningComplete];
pub fn commit(world: &World, dir: &Path, file: &str, content: &str) {
    write(&dir.join(file), content);
    world.git(dir, ["add", "-f", file]);
    world.git(dir, ["commit", "-q", "-m", file]);
}

/// The main worktree takes in a branch.
pub fn land(world: &World, branch: &str) {
    world.git(&world.repo(), ["merge", "-q", "--no-edit", branch]);
}

/// A kind of work: its name, what makes it, and how the refusal calls it (empty: it needs no `--force`).
pub type Make = (&'static str, fn(&World, &Path), &'static str);

pub const KINDS: &[Make] = &[
    (
        "commit",
        |world, dir| commit(world, dir, "new.txt", "committed\n"),
        "commit",
    ),
    (
        "staged",
        |world, dir| {
            write(&dir.join("a.txt"), "staged only\n");
            world.git(dir, ["add", "a.txt"]);
            write(&dir.join("a.txt"), "one\ntwo\nthree\n");
        },
        "staged",
    ),
    (
        "unstaged",
        |_, dir| write(&dir.join("a.txt"), "changed\n"),
        "unstaged",
    ),
    (
        "deleted",
        |_, dir| fs::remove_file(dir.join("b.txt")).expect("a file"),
        "unstaged",
    ),
    (
        "untracked",
        |_, dir| write(&dir.join("deep/er/notes.txt"), "notes\n"),
        "untracked",
    ),
    (
        "odd names",
        |_, dir| {
            for name in [
                &b"with space"[..],
                b"new\nline",
                b"\"quoted\"",
                b"\xff\xfe not utf-8",
                b"-dash",
                b"100%41",
            ] {
                write(&dir.join(OsStr::from_bytes(name)), name);
            }
            write(&dir.join("d".repeat(200)).join("f".repeat(150)), "far down\n");
            std::os::unix::fs::symlink("nowhere/at all", dir.join("link")).expect("a link");
            fs::hard_link(dir.join("-dash"), dir.join("twin")).expect("a second name");
            fs::create_dir(dir.join("empty")).expect("a folder");
            fs::set_permissions(dir.join("with space"), fs::Permissions::from_mode(0o600)).expect("a mode");
            fs::set_permissions(dir.join("twin"), fs::Permissions::from_mode(0o755)).expect("a mode");
        },
        "untracked",
    ),
    (
        "configured",
        |_, dir| write(&dir.join("conf/.env"), "SECRET=1\n"),
        "ignored",
    ),
    (
        "configured in a folder",
        |_, dir| write(&dir.join("out/x/.env.local"), "SECRET=2\n"),
        "ignored",
    ),
    ("ignored", |_, dir| write(&dir.join("today.log"), "a log\n"), ""),
    (
        "in an ignored folder",
        |_, dir| write(&dir.join("private/deep/notes.md"), "nobody else has this\n"),
        "",
    ),
    (
        "line ends",
        |world, dir| {
            commit(world, dir, ".gitattributes", "*.txt text=auto\n");
            write(&dir.join("mixed.txt"), "a\r\nb\nc\r\n");
            world.git(dir, ["add", "mixed.txt"]);
            world.git(dir, ["commit", "-q", "-m", "mixed"]);
            land(world, dir.file_name().and_then(OsStr::to_str).expect("a name"));
        },
        "",
    ),
    (
        "skip-worktree",
        |world, dir| {
            world.git(dir, ["update-index", "--skip-worktree", "a.txt"]);
            write(&dir.join("a.txt"), "nobody looks\n");
        },
        "hidden",
    ),
    (
        "assume-unchanged",
        |world, dir| {
            world.git(dir, ["update-index", "--assume-unchanged", "b.txt"]);
            write(&dir.join("b.txt"), "nobody looks here either\n");
        },
        "hidden",
    ),
    (
        "repository",
        |world, dir| {
            let inner = dir.join("inner");
            world.git(dir, ["init", "-q", "-b", "main", "inner"]);
            commit(world, &inner, "x.txt", "inside, committed\n");
            write(&inner.join("y.txt"), "inside, not committed\n");
        },
        "repository",
    ),
    (
        "ignored repository",
        |world, dir| {
            fs::create_dir(dir.join("out")).expect("a folder");
            world.git(dir, ["init", "-q", "-b", "main", "out/inner"]);
            commit(
                world,
                &dir.join("out/inner"),
                "x.txt",
                "committed where nobody looks\n",
            );
        },
        "repository",
    ),
    ("submodule", submodule, "repository"),
    (
        "rebase",
        |world, dir| {
            commit(world, &world.repo(), "a.txt", "main has it so\n");
            commit(world, dir, "a.txt", "and here it is so\n");
            commit(world, dir, "later.txt", "still to be picked\n");
            let mut rebase = world.command("git", dir);
            rebase.args(["rebase", "main"]);
            assert_ne!(world.run(rebase).code, 0, "a conflict");
            write(&dir.join("a.txt"), "half resolved\n");
        },
        "in progress",
    ),
    (
        "merge",
        |world, dir| {
            commit(world, &world.repo(), "b.txt", "main's b\n");
            commit(world, dir, "b.txt", "another b\n");
            let mut merge = world.command("git", dir);
            merge.args(["merge", "main"]);
            assert_ne!(world.run(merge).code, 0, "a conflict");
        },
        "in progress",
    ),
    (
        "detached",
        |world, dir| {
            world.git(dir, ["checkout", "-q", "--detach"]);
            commit(world, dir, "loose.txt", "on no branch\n");
        },
        "commit",
    ),
    (
        "another branch",
        |world, dir| {
            let name = format!(
                "{}-side",
                dir.file_name().and_then(OsStr::to_str).expect("a name")
            );
            world.git(dir, ["checkout", "-q", "-b", &name]);
            commit(world, dir, "side.txt", "on another branch\n");
        },
        "commit",
    ),
    (
        "worktree refs",
        |world, dir| {
            commit(world, dir, "own.txt", "known to a ref of its own\n");
            world.git(dir, ["update-ref", "refs/worktree/mine", "HEAD"]);
            world.git(dir, ["reset", "-q", "--hard", "HEAD~1"]);
        },
        "",
    ),
    (
        "amended",
        |world, dir| {
            commit(world, dir, "amended.txt", "before it was amended\n");
            world.git(dir, ["reset", "-q", "--hard", "HEAD~1"]);
        },
        "",
    ),
];

fn submodule(world: &World, dir: &Path) {
    let elsewhere = dir.with_extension("lib");
    world.git(
        world.root(),
        [
            OsStr::new("init"),
            "-q".as_ref(),
            "-b".as_ref(),
            "main".as_ref(),
            elsewhere.as_os_str(),
        ],
    );
    commit(world, &elsewhere, "lib.txt", "a library\n");
    let words: [&OsStr; 7] = [
        "-c".as_ref(),
        "protocol.file.allow=always".as_ref(),
        "submodule".as_ref(),
        "add".as_ref(),
        "-q".as_ref(),
        elsewhere.as_os_str(),
        "sub".as_ref(),
    ];
    world.git(dir, words);
    world.git(dir, ["commit", "-q", "-m", "a submodule"]);
    let sub = dir.join("sub");
    commit(
        world,
        &sub,
        "local.txt",
        "committed in the submodule, pushed nowhere\n",
    );
}
