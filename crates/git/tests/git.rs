//! The list of worktrees, dirtiness, the default branch, refs and the index, compared with git.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use jit_git::branches::{Because, default_branch};
use jit_git::index::{self, IndexEntry};
use jit_git::run::{Git, GitError, is_dirty};
use jit_git::{GitEnv, Place, WorktreeEntry, refs, worktrees};

use jit_testkit::git_world::{GitWorld, os};

#[derive(Debug, PartialEq, Eq)]
struct Line {
    root: PathBuf,
    head: Option<String>,
    branch: Option<String>,
    locked: Option<String>,
    prunable: Option<String>,
    bare: bool,
}

fn what_git_lists(world: &GitWorld, dir: &Path) -> Vec<Line> {
    let output = world.git(dir, ["worktree", "list", "--porcelain", "-z"]);
    let mut lines: Vec<Line> = Vec::new();
    for field in output.split(|b| *b == 0).filter(|field| !field.is_empty()) {
        let (key, value) = match field.iter().position(|b| *b == b' ') {
            Some(at) => (&field[..at], &field[at + 1..]),
            None => (field, &field[field.len()..]),
        };
        let text = || String::from_utf8(value.to_vec()).expect("text");
        if key == b"worktree" {
            lines.push(Line {
                root: PathBuf::from(os(value)),
                head: None,
                branch: None,
                locked: None,
                prunable: None,
                bare: false,
            });
            continue;
        }
        let line = lines.last_mut().expect("worktree comes first");
        match key {
            b"HEAD" => line.head = Some(text()).filter(|hex| hex.bytes().any(|b| b != b'0')),
            b"branch" => line.branch = text().strip_prefix("refs/heads/").map(str::to_owned),
            b"locked" => line.locked = Some(text()),
            b"prunable" => line.prunable = Some(text()),
            b"bare" => line.bare = true,
            b"detached" => {}
            other => panic!("git says {}", other.escape_ascii()),
        }
    }
    lines
}

fn as_line(entry: WorktreeEntry) -> Line {
    Line {
        // Git shows the git folder where there is no work tree.
        root: entry.root.unwrap_or(entry.git_dir),
        head: entry.head.filter(|_| !entry.is_bare),
        branch: entry.branch.filter(|_| !entry.is_bare),
        locked: entry.locked,
        prunable: entry.prunable.map(str::to_owned),
        bare: entry.is_bare,
    }
}

fn same_list(world: &GitWorld, dir: &Path) -> Vec<WorktreeEntry> {
    let place = Place::discover(dir, &GitEnv::default()).expect("a place");
    let entries = worktrees::list(&place.common_dir.expect("git")).expect("list");
    let lines: Vec<Line> = entries.iter().cloned().map(as_line).collect();
    assert_eq!(lines, what_git_lists(world, dir));
    entries
}

#[test]
fn a7_worktrees_are_listed_as_git_lists_them() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    assert_eq!(same_list(&world, &repo).len(), 1);
    for (name, branch) in [
        (&b"z last"[..], "z"),
        (b"a\nfirst", "a/b"),
        (b"caf\xe9", "c"),
        (b"gone", "d"),
    ] {
        world.worktree(&repo, Path::new("w").join(os(name)), branch);
    }
    let detached = world.worktree(&repo, "w/detached", "e");
    world.git(&detached, ["checkout", "-q", "--detach"]);
    world.commit(&detached, "two");
    let locked = world.worktree(&repo, "w/locked", "f");
    world.git(
        &repo,
        [
            OsStr::new("worktree"),
            "lock".as_ref(),
            "--reason".as_ref(),
            "on a\nstick".as_ref(),
            locked.as_ref(),
        ],
    );
    let both = world.worktree(&repo, "w/locked and gone", "g");
    world.git(&repo, [OsStr::new("worktree"), "lock".as_ref(), both.as_ref()]);
    fs::remove_dir_all(&both).expect("remove");
    fs::remove_dir_all(world.path("w/gone")).expect("remove");

    let entries = same_list(&world, &detached);
    assert_eq!(entries.len(), 8);
    assert!(entries[0].is_main && entries.iter().skip(1).all(|entry| !entry.is_main));

    world.git(&repo, ["pack-refs", "--all"]);
    same_list(&world, &repo);
    world.git(&repo, ["checkout", "-q", "--orphan", "unborn"]);
    assert_eq!(same_list(&world, &repo)[0].head, None);
}

#[test]
fn a7_bare_and_submodule_lists() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let bare = world.path("x.git");
    world.git(
        &world.top,
        [
            OsStr::new("clone"),
            "-q".as_ref(),
            "--bare".as_ref(),
            repo.as_ref(),
            bare.as_ref(),
        ],
    );
    world.worktree(&bare, "wt", "topic");
    assert!(same_list(&world, &bare)[0].is_bare);

    let outer = world.repo("outer");
    world.git(
        &outer,
        [
            OsStr::new("submodule"),
            "--quiet".as_ref(),
            "add".as_ref(),
            repo.as_ref(),
            "lib".as_ref(),
        ],
    );
    let module = outer.join(".git/modules/lib");
    let entries = worktrees::list(&module).expect("list");
    // Better than git, which shows the module's git folder.
    assert_eq!(entries[0].root, Some(outer.join("lib")));
}

#[test]
fn a7_a_broken_worktree_does_not_hide_the_others() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    world.worktree(&repo, "a", "a");
    world.worktree(&repo, "b", "b");
    let folder = repo.join(".git/worktrees");
    fs::write(folder.join("a/HEAD"), "\0\0\0").expect("write");
    fs::create_dir(folder.join("half-made")).expect("folder");
    let entries = worktrees::list(&repo.join(".git")).expect("list");
    let branches: Vec<_> = entries.iter().map(|entry| entry.branch.as_deref()).collect();
    assert_eq!(branches, [Some("main"), None, Some("b")]);
}

#[test]
fn a7_dirtiness() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    assert!(!is_dirty(&repo).expect("status"));
    fs::write(repo.join("new"), "x").expect("write");
    assert!(is_dirty(&repo).expect("status"));
    fs::write(repo.join(".git/info/exclude"), "new\n").expect("write");
    assert!(!is_dirty(&repo).expect("status"));
    let error = is_dirty(&world.top).expect_err("no repository");
    assert!(
        matches!(error, GitError::Failed { .. }) && error.to_string().contains("not a git repository"),
        "{error}"
    );
    assert!(matches!(
        is_dirty(&world.path("missing")),
        Err(GitError::Start { .. })
    ));
}

#[test]
fn c6_default_branch() {
    let world = GitWorld::new();
    let find = |dir: &Path, configured: Option<&str>| {
        let place = Place::discover(dir, &GitEnv::default()).expect("a place");
        let found = default_branch(&place, configured).expect("git answers")?;
        Some((found.name, found.refname, found.because))
    };
    let named = |name: &str, full: Option<&str>, because: Because| {
        Some((name.to_owned(), full.map(str::to_owned), because))
    };

    let young = world.path("young");
    fs::create_dir(&young).expect("folder");
    world.git(&young, ["init", "-q", "-b", "first"]);
    assert_eq!(find(&young, None), named("first", None, Because::Current));

    let repo = world.repo("repo");
    world.git(&repo, ["branch", "develop"]);
    assert_eq!(
        find(&repo, None),
        named("main", Some("refs/heads/main"), Because::Usual)
    );
    assert_eq!(
        find(&repo, Some("develop")),
        named("develop", Some("refs/heads/develop"), Because::Configured)
    );
    assert_eq!(
        find(&repo, Some("absent")),
        named("main", Some("refs/heads/main"), Because::Usual)
    );

    world.git(&repo, ["checkout", "-q", "-b", "trunk"]);
    let clone = world.path("clone");
    world.git(
        &world.top,
        [OsStr::new("clone"), "-q".as_ref(), repo.as_ref(), clone.as_ref()],
    );
    assert_eq!(
        find(&clone, Some("develop")),
        named("trunk", Some("refs/heads/trunk"), Because::RemoteHead)
    );
    world.git(&clone, ["checkout", "-q", "--detach"]);
    world.git(&clone, ["branch", "-D", "-q", "trunk"]);
    assert_eq!(
        find(&clone, None),
        named("trunk", Some("refs/remotes/origin/trunk"), Because::RemoteHead)
    );

    world.git(&repo, ["branch", "-m", "main", "elsewhere"]);
    world.git(&repo, ["checkout", "-q", "--detach"]);
    assert_eq!(find(&repo, None), None);
}

#[test]
fn git_is_started_with_a_clean_environment_and_never_asks() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let line = |args: &[&str]| Git::at(&repo).args(args).line();
    assert_eq!(line(&["config", "gc.auto"]).expect("set"), "0");
    assert_eq!(line(&["var", "GIT_EDITOR"]).expect("set"), ":");
    assert_eq!(
        Git::at(&repo)
            .setting("jit.x", "a b")
            .args(["config", "jit.x"])
            .line()
            .expect("set"),
        "a b"
    );
    let hook = repo.join(".git/hooks/pre-commit");
    fs::create_dir_all(repo.join(".git/hooks")).expect("folder");
    fs::write(&hook, "#!/bin/sh\nexit 1\n").expect("write");
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("mode");
    let commit = || {
        Git::at(&repo)
            .setting("user.name", "t")
            .setting("user.email", "t@example.com")
            .args(["commit", "-q", "--allow-empty", "-m", "two"])
    };
    commit().run().expect("only a push runs hooks");
    let hashed = Git::at(&repo)
        .args(["hash-object", "--stdin"])
        .stdin(vec![b'x'; 1 << 20])
        .line();
    assert_eq!(hashed.expect("hash").len(), 40);
    let error = Git::at(&repo)
        .args(["no-such-thing", "a b"])
        .run()
        .expect_err("unknown");
    assert!(error.to_string().contains("git no-such-thing \"a b\""), "{error}");
    assert_eq!(error.code(), Some(1));
    assert!(
        Git::at(&repo)
            .verify("refs/heads/absent")
            .expect("asks")
            .is_none()
    );
    assert_eq!(
        Git::at(&repo).verify("main").expect("asks").map(|hex| hex.len()),
        Some(40)
    );
}

/// Each entry of an index as git lists it: hidden, mode, id, stage and path.
fn what_git_has_indexed(world: &GitWorld, repo: &Path) -> Vec<IndexEntry> {
    let listed = world.git(repo, ["ls-files", "-z", "-s", "-v"]);
    let records = listed.split(|b| *b == 0).filter(|record| !record.is_empty());
    let entry = |record: &[u8]| {
        let tab = record.iter().position(|b| *b == b'\t').expect("a tab");
        let head = String::from_utf8(record[..tab].to_vec()).expect("text");
        let words: Vec<&str> = head.split(' ').collect();
        IndexEntry {
            hidden: matches!(words[0], "S" | "h" | "s"),
            mode: u32::from_str_radix(words[1], 8).expect("a mode"),
            oid: words[2].to_owned(),
            stage: words[3].parse().expect("a stage"),
            path: record[tab + 1..].to_vec(),
        }
    };
    records.map(entry).collect()
}

#[test]
fn h7_an_index_is_read_as_git_reads_it() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let parsed = || index::parse(&fs::read(repo.join(".git/index")).expect("index"), 20);
    for name in [
        "plain",
        "valid",
        "skipped",
        "folder/with a rather long name",
        "folder/x",
    ] {
        fs::create_dir_all(repo.join("folder")).expect("folder");
        fs::write(repo.join(name), name).expect("file");
    }
    std::os::unix::fs::symlink("plain", repo.join("link")).expect("link");
    world.git(&repo, ["add", "-A"]);
    world.git(&repo, ["commit", "-q", "-m", "files"]);
    world.git(&repo, ["update-index", "--assume-unchanged", "valid"]);
    world.git(&repo, ["update-index", "--skip-worktree", "skipped"]);
    fs::write(repo.join("meant"), "meant").expect("file");
    world.git(&repo, ["add", "-N", "meant"]);
    world.git(&repo, ["switch", "-q", "-c", "other"]);
    fs::write(repo.join("plain"), "theirs").expect("file");
    world.git(&repo, ["commit", "-q", "-m", "theirs", "plain"]);
    world.git(&repo, ["switch", "-q", "main"]);
    fs::write(repo.join("plain"), "ours").expect("file");
    world.git(&repo, ["commit", "-q", "-m", "ours", "plain"]);
    world.git(&repo, ["rm", "-q", "--cached", "meant"]);
    let _ = world.try_git(&repo, ["merge", "-q", "other"], &[]);
    world.git(&repo, ["add", "-N", "meant"]);
    for version in ["2", "3", "4"] {
        world.git(&repo, ["update-index", "--index-version", version]);
        let index = parsed().expect("an index");
        assert_eq!(index.entries, what_git_has_indexed(&world, &repo), "{version}");
        assert!(!index.has_resolved);
    }
    world.git(&repo, ["add", "plain"]);
    assert!(parsed().expect("an index").has_resolved);
    let whole = fs::read(repo.join(".git/index")).expect("index");
    assert_eq!(index::parse(&whole[..whole.len() - 1], 20), None);
    for length in 0..whole.len() {
        let _ = index::parse(&whole[..length], 20);
    }
    // One of several files: only git knows what it means.
    world.git(&repo, ["update-index", "--split-index"]);
    assert_eq!(parsed(), None);
}

#[test]
fn h7_refs_are_read_as_git_reads_them() {
    let world = GitWorld::new();
    let check = |repo: &Path| {
        let common = repo.join(".git");
        world.git(repo, ["branch", "packed/one"]);
        world.git(repo, ["symbolic-ref", "refs/heads/also", "refs/heads/packed/one"]);
        let commit = String::from_utf8(world.git(repo, ["rev-parse", "main"])).expect("text");
        let known = |name: &str| refs::commit_of(&common, name).expect("read");
        for packed in [false, true] {
            if packed {
                world.git(repo, ["pack-refs", "--all"]);
            }
            for name in ["refs/heads/main", "refs/heads/packed/one", "refs/heads/also"] {
                assert_eq!(known(name).as_deref(), Some(commit.trim_end()), "{name}");
            }
            for name in [
                "refs/heads/none",
                "refs/heads/packed",
                "refs/heads/../../HEAD",
                "HEAD",
            ] {
                assert_eq!(known(name), None, "{name}");
            }
            let symbolic = refs::symbolic_in(&common, "refs/heads").expect("read");
            let also = refs::Symbolic {
                name: "refs/heads/also".to_owned(),
                goal: "refs/heads/packed/one".to_owned(),
            };
            assert_eq!(symbolic, [also]);
        }
    };
    check(&world.repo("files"));
    let repo = world.path("table");
    let init = ["init", "-q", "-b", "main", "--ref-format=reftable", "table"];
    if world.try_git(&world.top, init, &[]).status.success() {
        world.git(&repo, ["commit", "-q", "--allow-empty", "-m", "first"]);
        check(&repo);
    }
}
