//! A5: a worktree's id is made once, survives what happens to folders, and is never shared by two of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use jiff::Timestamp;
use jit_engine::worktree_identity::identity;
use jit_engine::worktree_identity::identity::{
    IdentityError, Need, Notice, WorktreeIdentity, load_or_create,
};
use jit_git::{GitEnv, Place};

use jit_testkit::git_world::{GitWorld, os};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).expect("in range")
}

fn place(dir: &Path) -> Place {
    Place::discover(dir, &GitEnv::default()).expect("a place")
}

fn load(dir: &Path, second: i64) -> (WorktreeIdentity, Vec<Notice>) {
    load_or_create(&place(dir), at(second), Need::Write).expect("an identity")
}

fn quiet(dir: &Path, second: i64) -> WorktreeIdentity {
    let (identity, notices) = load(dir, second);
    assert_eq!(notices, []);
    identity
}

fn copy_folder(from: &Path, to: &Path) {
    let status = Command::new("cp")
        .arg("-a")
        .arg(from)
        .arg(to)
        .status()
        .expect("cp");
    assert!(status.success());
}

#[test]
fn a5_made_once_and_the_same_ever_after() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    fs::create_dir(repo.join(".jit")).expect("folder");
    let first = quiet(&repo, 0);
    assert_eq!(first.schema_version, 1);
    assert_eq!(first.branch.as_deref(), Some("main"));
    assert_eq!(
        (&first.root, first.created_at, first.relocated_at),
        (&repo, at(0), None)
    );
    assert_eq!(quiet(&repo, 99), first);

    let wt = world.worktree(&repo, "wt", "topic");
    let second = quiet(&wt, 0);
    assert_ne!(second.worktree_id, first.worktree_id);
    assert!(repo.join(".git/worktrees/wt/jit-worktree.json").is_file());
    fs::create_dir(wt.join("sub")).expect("folder");
    assert_eq!(quiet(&wt.join("sub"), 5), second);

    world.git(&wt, ["clean", "-fdxq"]);
    assert_eq!(quiet(&wt, 9), second);
    world.git(&wt, ["checkout", "-q", "-b", "another"]);
    assert_eq!(quiet(&wt, 10), second);
}

#[test]
fn a5_the_view_has_the_fields_of_the_schema_and_git_ignores_it() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let identity = quiet(&repo, 0);
    let view = repo.join(".jit/worktree.json");
    assert!(!view.exists(), "no .jit/ yet, no view");
    fs::create_dir(repo.join(".jit")).expect("folder");
    assert!(identity::ensure_view(&place(&repo), &identity).expect("view"));
    assert!(!identity::ensure_view(&place(&repo), &identity).expect("view"));
    let json: serde_json::Value = serde_json::from_slice(&fs::read(&view).expect("view")).expect("json");
    assert_eq!(json["schema_version"], 1);
    assert_eq!(json["worktree_id"], identity.worktree_id.as_str());
    assert_eq!(json["branch"], "main");
    assert_eq!(json["root"], repo.to_str().expect("utf-8"));
    assert_eq!(json["created_at"], "2027-01-15T08:00:00Z");
    assert_eq!(json.as_object().expect("object").len(), 5);
    assert_eq!(world.git(&repo, ["status", "--porcelain"]), b"");

    // A new worktree whose branch has .jit/ gets its view at first use, ignored there too.
    fs::write(repo.join(".jit/config.toml"), "").expect("write");
    world.git(&repo, ["add", "."]);
    world.commit(&repo, "jit");
    let wt = world.worktree(&repo, "wt", "topic");
    quiet(&wt, 1);
    assert!(wt.join(".jit/worktree.json").is_file());
    assert_eq!(world.git(&wt, ["status", "--porcelain"]), b"");
}

#[test]
fn a5_moved_worktrees_keep_their_id() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let wt = world.worktree(&repo, "wt", "topic");
    let (main, linked) = (quiet(&repo, 0), quiet(&wt, 0));

    let moved = world.path("moved wt");
    world.git(
        &repo,
        [
            "worktree".as_ref(),
            "move".as_ref(),
            wt.as_os_str(),
            moved.as_os_str(),
        ],
    );
    let (now, notices) = load(&moved, 7);
    assert_eq!(now.worktree_id, linked.worktree_id);
    assert_eq!(
        (now.created_at, now.relocated_at, &now.root),
        (at(0), Some(at(7)), &moved)
    );
    assert_eq!(
        notices,
        [Notice::Relocated {
            from: wt,
            to: moved.clone()
        }]
    );
    assert!(notices[0].to_string().contains("moved wt"));
    assert_eq!(quiet(&moved, 8), now);

    let elsewhere = world.path("elsewhere");
    fs::rename(&repo, &elsewhere).expect("move");
    let (now, notices) = load(&elsewhere, 9);
    assert_eq!(now.worktree_id, main.worktree_id);
    assert!(
        matches!(notices.as_slice(), [Notice::Relocated { .. }]),
        "{notices:?}"
    );

    // Another repository now sits where the first one was: still a move.
    world.repo("repo");
    let third = world.path("third");
    fs::rename(&elsewhere, &third).expect("move");
    let other = world.repo("elsewhere");
    quiet(&other, 10);
    let (now, notices) = load(&third, 11);
    assert_eq!(now.worktree_id, main.worktree_id);
    assert!(
        matches!(notices.as_slice(), [Notice::Relocated { .. }]),
        "{notices:?}"
    );
}

#[test]
fn a5_a_copied_repository_gets_its_own_id() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    fs::create_dir(repo.join(".jit")).expect("folder");
    let original = quiet(&repo, 0);
    let copy = world.path("copy");
    copy_folder(&repo, &copy);
    let (mine, notices) = load(&copy, 3);
    assert_ne!(mine.worktree_id, original.worktree_id);
    assert_eq!((mine.created_at, mine.relocated_at), (at(3), None));
    let expected = Notice::Copied {
        from: repo.clone(),
        to: copy.clone(),
        was: original.worktree_id.clone(),
    };
    assert_eq!(notices, [expected]);
    assert_eq!(quiet(&copy, 4), mine);
    assert_eq!(quiet(&repo, 4), original);
}

#[test]
fn a5_a_copied_linked_worktree_gets_its_own_id_though_it_shares_the_git_folder() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let wt = world.worktree(&repo, "wt", "topic");
    let original = quiet(&wt, 0);
    let copy = world.path("copy");
    copy_folder(&wt, &copy);
    let (mine, notices) = load(&copy, 3);
    assert_ne!(mine.worktree_id, original.worktree_id);
    assert!(
        matches!(notices.as_slice(), [Notice::Copied { .. }]),
        "{notices:?}"
    );
    for turn in 4..8 {
        assert_eq!(quiet(&copy, turn), mine);
        assert_eq!(quiet(&wt, turn), original);
    }
    // The original goes; the copy stays who it is.
    fs::remove_dir_all(&wt).expect("remove");
    assert_eq!(quiet(&copy, 9), mine);
}

#[test]
fn a5_variables_do_not_make_another_worktree() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let wt = world.worktree(&repo, "wt", "topic");
    let first = quiet(&wt, 0);
    let sub = wt.join("sub/.jit");
    fs::create_dir_all(&sub).expect("folder");
    let git_dir = Some(repo.join(".git/worktrees/wt").into());
    let other = Some(world.top.clone().into());
    for (what, dir, git_work_tree) in [
        ("a hook that changed its folder", wt.join("sub"), None),
        ("files elsewhere", wt.clone(), other),
    ] {
        let env = GitEnv {
            git_dir: git_dir.clone(),
            git_work_tree,
            ..GitEnv::default()
        };
        let place = Place::discover(&dir, &env).expect("a place");
        assert_ne!(place.worktree_root.as_ref(), Some(&wt), "{what}");
        let (now, notices) = load_or_create(&place, at(1), Need::Write).expect("known");
        assert_eq!((now, notices.as_slice()), (first.clone(), &[][..]), "{what}");
    }
    assert!(!sub.join("worktree.json").exists());
    assert_eq!(quiet(&wt, 2), first);
}

#[test]
fn a5_damaged_files() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    fs::create_dir(repo.join(".jit")).expect("folder");
    let first = quiet(&repo, 0);
    let file = repo.join(".git/jit-worktree.json");
    let sound = fs::read_to_string(&file).expect("read");
    let relative = sound.replace(repo.to_str().expect("utf-8"), "repo");
    let half = sound[..sound.len() / 2].to_owned();
    for damage in [
        "",
        "\0\0\0\0",
        "{}",
        "[]",
        &half,
        &relative,
        &sound.replace("wt:", "xx:"),
    ] {
        fs::write(&file, damage).expect("write");
        let (again, notices) = load(&repo, 5);
        assert_eq!(again, first, "{damage:?}");
        assert_eq!(notices, [Notice::Restored { file: file.clone() }]);
        assert_eq!(quiet(&repo, 6), first);
    }
    // The file gone altogether: git's folder was made anew.
    fs::remove_file(&file).expect("remove");
    assert_eq!(load(&repo, 5).0, first);

    // Nobody knows the id any more.
    fs::write(&file, "rubbish").expect("write");
    fs::write(repo.join(".jit/worktree.json"), "rubbish").expect("write");
    let (other, notices) = load(&repo, 7);
    assert_ne!(other.worktree_id, first.worktree_id);
    assert!(
        matches!(notices.as_slice(), [Notice::Replaced { .. }]),
        "{notices:?}"
    );
    assert_eq!(quiet(&repo, 8), other);

    // A view that speaks of another place is no witness.
    let strange = sound.replace(repo.to_str().expect("utf-8"), "/somewhere/else");
    fs::write(repo.join(".jit/worktree.json"), strange).expect("write");
    fs::write(&file, "rubbish").expect("write");
    assert_ne!(load(&repo, 9).0.worktree_id, first.worktree_id);
}

#[test]
fn a5_a_newer_schema_is_used_but_never_rewritten() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let first = quiet(&repo, 0);
    let file = repo.join(".git/jit-worktree.json");
    let newer = fs::read_to_string(&file)
        .expect("read")
        .replace("\"schema_version\": 1", "\"schema_version\": 2");
    fs::write(&file, &newer).expect("write");
    assert_eq!(quiet(&repo, 1).worktree_id, first.worktree_id);
    let moved = world.path("moved");
    fs::rename(&repo, &moved).expect("move");
    assert!(load_or_create(&place(&moved), at(2), Need::Write).is_err());
    let (seen, _) = load_or_create(&place(&moved), at(2), Need::Read).expect("readable");
    assert_eq!(seen.worktree_id, first.worktree_id);
    let file = moved.join(".git/jit-worktree.json");
    assert_eq!(fs::read_to_string(&file).expect("read"), newer);
    fs::write(&file, "{\"schema_version\":2}").expect("write");
    let error = load_or_create(&place(&moved), at(3), Need::Read).expect_err("not understood");
    assert!(
        matches!(error, IdentityError::Newer { version: 2, .. }),
        "{error}"
    );
}

#[test]
fn a5_roots_that_are_not_utf8_come_back_to_the_byte() {
    let world = GitWorld::new();
    let repo = world.repo(os(b"caf\xe9 \xff"));
    let twin = world.repo(os(b"caf\xe8 \xff"));
    let (first, other) = (quiet(&repo, 0), quiet(&twin, 0));
    assert_eq!(quiet(&repo, 1), first);
    assert_eq!(first.root, repo);
    assert_ne!(first.worktree_id, other.worktree_id);
    let moved = world.path(os(b"m\xfe"));
    fs::rename(&repo, &moved).expect("move");
    let (now, notices) = load(&moved, 2);
    assert_eq!(now.worktree_id, first.worktree_id);
    assert_eq!(
        notices,
        [Notice::Relocated {
            from: repo,
            to: moved
        }]
    );
}

#[test]
fn a5_without_git() {
    let world = GitWorld::new();
    let env = GitEnv {
        git_ceiling_directories: Some(world.top.clone().into()),
        ..GitEnv::default()
    };
    let plain = world.path("plain");
    fs::create_dir(&plain).expect("folder");
    let find = |dir: &Path| Place::discover(dir, &env).expect("a place");
    let (first, notices) = load_or_create(&find(&plain), at(0), Need::Write).expect("made");
    assert_eq!((notices.as_slice(), &first.branch), (&[][..], &None));
    assert!(plain.join(".jit/worktree.json").is_file());
    assert_eq!(
        load_or_create(&find(&plain), at(1), Need::Write).expect("kept").0,
        first
    );

    let copy = world.path("copy");
    copy_folder(&plain, &copy);
    let (mine, notices) = load_or_create(&find(&copy), at(2), Need::Write).expect("made");
    assert_ne!(mine.worktree_id, first.worktree_id);
    assert!(
        matches!(notices.as_slice(), [Notice::Copied { .. }]),
        "{notices:?}"
    );

    // Git comes later: the worktree stays who it was.
    world.git(&plain, ["init", "-q", "-b", "main"]);
    let (now, _) = load_or_create(&find(&plain), at(3), Need::Write).expect("kept");
    assert_eq!(now.worktree_id, first.worktree_id);
    assert!(plain.join(".git/jit-worktree.json").is_file());
}

#[test]
fn a5_no_worktree_no_identity() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let error = load_or_create(&place(&repo.join(".git")), at(0), Need::Read).expect_err("none");
    assert!(matches!(error, IdentityError::NoWorktree));
}

#[test]
fn a5_what_cannot_be_stored_is_still_shown_to_readers_only() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let mut place = place(&repo);
    // Nobody, not even root, creates files here.
    place.git_dir = Some(PathBuf::from("/proc"));
    let (identity, notices) = load_or_create(&place, at(0), Need::Read).expect("shown");
    assert_eq!(identity.root, repo);
    assert!(
        matches!(notices.as_slice(), [Notice::NotStored { .. }]),
        "{notices:?}"
    );
    let error = load_or_create(&place, at(0), Need::Write).expect_err("cannot be kept");
    assert!(matches!(error, IdentityError::Write { .. }), "{error}");
}

/// Not a test of its own: the body of the processes that the next test starts.
#[test]
fn child_that_tells_its_id() {
    let (Some(root), Some(answer)) = (
        std::env::var_os("JIT_TEST_ROOT"),
        std::env::var_os("JIT_TEST_ANSWER"),
    ) else {
        return;
    };
    let now = Timestamp::now();
    let (identity, _) = load_or_create(&place(root.as_ref()), now, Need::Write).expect("an identity");
    fs::write(answer, identity.worktree_id.as_str()).expect("answer");
}

fn race(world: &GitWorld, dir: &Path, name: &str) -> Vec<String> {
    let me = std::env::current_exe().expect("this program");
    let answer = |n: usize| world.path(format!("{name}-{n}"));
    let children: Vec<_> = (0..4)
        .map(|n| {
            Command::new(&me)
                .args(["--exact", "identity::child_that_tells_its_id", "--quiet"])
                .env("JIT_TEST_ROOT", dir)
                .env("JIT_TEST_ANSWER", answer(n))
                .stdout(std::process::Stdio::null())
                .spawn()
                .expect("spawn")
        })
        .collect();
    let barrier = std::sync::Barrier::new(16);
    let mut ids: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16)
            .map(|n| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let place = place(dir);
                    barrier.wait();
                    let (identity, _) = load_or_create(&place, at(n), Need::Write).expect("an identity");
                    identity.worktree_id.to_string()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("thread"))
            .collect()
    });
    for (n, mut child) in children.into_iter().enumerate() {
        assert!(child.wait().expect("wait").success());
        ids.push(fs::read_to_string(answer(n)).expect("answer"));
    }
    ids
}

fn one_id(ids: &[String], what: &str) {
    assert_eq!(ids.len(), 20);
    assert!(ids.iter().all(|id| *id == ids[0]), "{what}: {ids:?}");
}

#[test]
fn a5_many_at_once_agree_on_one_id() {
    for turn in 0..5 {
        let world = GitWorld::new();
        let repo = world.repo("repo");
        fs::create_dir(repo.join(".jit")).expect("folder");
        let ids = race(&world, &repo, "first");
        one_id(&ids, &format!("turn {turn}, first use"));
        assert_eq!(quiet(&repo, 99).worktree_id.as_str(), ids[0]);

        fs::write(repo.join(".git/jit-worktree.json"), "rubbish").expect("write");
        fs::write(repo.join(".jit/worktree.json"), "rubbish").expect("write");
        one_id(&race(&world, &repo, "damaged"), "damaged");

        let copy = world.path("copy");
        copy_folder(&repo, &copy);
        let ids = race(&world, &copy, "copied");
        one_id(&ids, "copied");
        assert_ne!(ids[0], quiet(&repo, 99).worktree_id.as_str());

        let moved = world.path("moved");
        fs::rename(&copy, &moved).expect("move");
        let again = race(&world, &moved, "moved");
        one_id(&again, "moved");
        assert_eq!(again[0], ids[0]);

        let wt = world.worktree(&repo, "wt", "topic");
        one_id(&race(&world, &wt, "linked"), "linked");
        let twin = world.path("twin");
        copy_folder(&wt, &twin);
        one_id(&race(&world, &twin, "twin"), "twin");

        let left: Vec<_> = fs::read_dir(repo.join(".git"))
            .expect("list")
            .map(|item| item.expect("item").file_name())
            .filter(|name| name.to_string_lossy().ends_with(".tmp"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}
