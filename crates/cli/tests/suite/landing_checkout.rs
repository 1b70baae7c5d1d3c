//! The target is checked out somewhere: it moves only as git allows there (H3).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::landing::{WHO, Yard};
use crate::unit_life::shell;
#[cfg(target_os = "linux")]
use jit_testkit::world::tools::{own_mounts, wait_until};
use serde_json::json;

/// A unit that changes `file` and adds `new`.
fn ready() -> Yard {
    let yard = Yard::checked_out();
    let path = yard.unit("u1");
    yard.write(&path, "file", "landed\n");
    yard.write(&path, "new", "landed\n");
    yard.commit(&path, "work");
    yard
}

#[test]
fn h3_a_clean_checkout_moves_along() {
    let yard = ready();
    let _ = yard.merge(&["u1"]).ok();
    let repo = yard.repo();
    assert_eq!(fs::read_to_string(repo.join("file")).expect("a file"), "landed\n");
    assert_eq!(yard.picture(&repo).1, "");
    assert_eq!(yard.rev(&repo, "HEAD"), yard.main());
}

#[test]
fn h3_changes_elsewhere_survive_and_the_next_commit_keeps_the_landing() {
    let yard = ready();
    let repo = yard.repo();
    yard.write(&repo, "other", "edited\n");
    yard.write(&repo, "staged", "staged\n");
    yard.world.git(&repo, ["add", "staged"]);
    yard.write(&repo, "untracked", "untracked\n");
    let _ = yard.merge(&["u1"]).ok();
    for (name, text) in [
        ("other", "edited\n"),
        ("staged", "staged\n"),
        ("untracked", "untracked\n"),
    ] {
        assert_eq!(fs::read_to_string(repo.join(name)).expect("a file"), text);
    }
    yard.world
        .git(&repo, ["commit", "-q", "-a", "-m", "the user goes on"]);
    assert_eq!(yard.on_main("file").as_deref(), Some("landed\n"));
    assert_eq!(yard.on_main("new").as_deref(), Some("landed\n"));
    assert_eq!(yard.on_main("other").as_deref(), Some("edited\n"));
}

/// What somebody may have left in the way.
type Mess = (&'static str, fn(&Yard, &Path));

const MESSES: &[Mess] = &[
    ("edited", |yard, repo| yard.write(repo, "file", "edited\n")),
    ("staged", |yard, repo| {
        yard.write(repo, "file", "staged\n");
        yard.world.git(repo, ["add", "file"]);
    }),
    ("staged, then back", |yard, repo| {
        let before = fs::read_to_string(repo.join("file")).expect("a file");
        yard.write(repo, "file", "staged\n");
        yard.world.git(repo, ["add", "file"]);
        yard.write(repo, "file", &before);
    }),
    ("staged removal", |yard, repo| {
        yard.world.git(repo, ["rm", "-q", "--cached", "file"]);
    }),
    ("untracked in the way", |yard, repo| {
        yard.write(repo, "new", "untracked\n")
    }),
    ("staged new in the way", |yard, repo| {
        yard.write(repo, "new", "staged\n");
        yard.world.git(repo, ["add", "new"]);
    }),
    ("ignored in the way", |yard, repo| {
        yard.write(repo, "new", "ignored\n");
        let file = repo.join(".git/info/exclude");
        let before = fs::read_to_string(&file).expect("a file");
        fs::write(file, format!("{before}new\n")).expect("a file");
    }),
    ("a folder in the way", |yard, repo| {
        yard.write(repo, "new/inside", "untracked\n")
    }),
    ("an unfinished merge", |yard, repo| {
        yard.world.git(repo, ["branch", "side"]);
        yard.world.git(repo, ["worktree", "add", "-q", "../side", "side"]);
        let side = yard.world.root().join("side");
        yard.write(&side, "sided", "sided\n");
        yard.commit(&side, "side");
        yard.world
            .git(repo, ["merge", "-q", "--no-ff", "--no-commit", "side"]);
    }),
];

#[test]
fn h3_where_git_would_not_move_it_nothing_moves_and_no_byte_changes() {
    for (name, mess) in MESSES {
        let yard = ready();
        let repo = yard.repo();
        mess(&yard, &repo);
        let before = (yard.picture(&repo), yard.main());
        let refused = yard.merge(&["u1"]).exits(5).json();
        assert_eq!(refused["error"]["code"], "target_dirty", "{name}: {refused}");
        assert_eq!((yard.picture(&repo), yard.main()), before, "{name}");
        assert_eq!(yard.phase("u1")["state"], "READY", "{name}: it waits as it was");
        yard.is_tidy();
    }
}

#[test]
fn h3_a_stash_of_the_users_is_not_made_whatever_git_is_set_to() {
    let yard = ready();
    let repo = yard.repo();
    for (key, value) in [
        ("merge.autoStash", "true"),
        ("branch.main.mergeOptions", "--no-ff --squash"),
    ] {
        yard.world.git(&repo, ["config", key, value]);
    }
    yard.write(&repo, "file", "edited\n");
    let before = yard.picture(&repo);
    assert_eq!(
        yard.merge(&["u1"]).exits(5).json()["error"]["code"],
        "target_dirty"
    );
    assert_eq!(yard.picture(&repo), before);
    assert_eq!(yard.world.git(&repo, ["stash", "list"]), "");
    yard.world.git(&repo, ["checkout", "-q", "file"]);
    let _ = yard.merge(&["u1"]).ok();
    assert_eq!(yard.picture(&repo).1, "");
}

#[test]
fn h3_a_branch_that_is_being_rebased_or_bisected_counts_as_checked_out() {
    let yard = ready();
    let repo = yard.repo();
    let first = yard.rev(&repo, "HEAD~1");
    let mut rebase = yard.world.command("git", &repo);
    rebase
        .env("GIT_SEQUENCE_EDITOR", "sed -i 1s/^pick/edit/")
        .args(["rebase", "-q", "-i", &first]);
    assert_eq!(yard.world.run(rebase).code, 0);
    let before = yard.main();
    let refused = yard.merge(&["u1"]).exits(5).json();
    assert_eq!(refused["error"]["code"], "target_dirty");
    assert!(
        refused["error"]["message"]
            .as_str()
            .expect("text")
            .contains("rebased")
    );
    yard.world.git(&repo, ["rebase", "--abort"]);
    yard.world.git(&repo, ["bisect", "start"]);
    yard.world.git(&repo, ["bisect", "bad", "HEAD"]);
    yard.world.git(&repo, ["bisect", "good", &first]);
    yard.world.git(&repo, ["checkout", "-q", "--detach", &first]);
    let refused = yard.merge(&["u1"]).exits(5).json();
    assert!(
        refused["error"]["message"]
            .as_str()
            .expect("text")
            .contains("bisected"),
        "{refused}"
    );
    assert_eq!(yard.main(), before);
    yard.world.git(&repo, ["bisect", "reset"]);
    let _ = yard.merge(&["u1"]).ok();
}

#[test]
fn h3_hooks_of_the_repository_do_not_run() {
    use std::os::unix::fs::PermissionsExt as _;
    let yard = ready();
    let marker = yard.world.root().join("hook-ran");
    for hook in [
        "post-merge",
        "post-checkout",
        "pre-merge-commit",
        "reference-transaction",
        "commit-msg",
    ] {
        let path = yard.repo().join(".git/hooks").join(hook);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, format!("#!/bin/sh\necho {hook} >> {}\n", marker.display())).expect("a hook");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
    }
    let report = yard.merge(&["u1"]).ok().json();
    assert_eq!(report["units"][0]["verdict"], json!("landed"));
    let said = fs::read_to_string(&marker).unwrap_or_default();
    assert_eq!(said, "");
}

#[test]
fn h3_a_branch_that_is_locked_leaves_the_checkout_as_it_was() {
    let yard = ready();
    let repo = yard.repo();
    yard.write(&repo, "other", "edited\n");
    yard.write(&repo, "staged", "staged\n");
    yard.world.git(&repo, ["add", "staged"]);
    yard.write(&repo, "untracked", "untracked\n");
    let before = (yard.picture(&repo), yard.main());
    for lock in ["refs/heads/main.lock", "HEAD.lock"] {
        let lock = repo.join(".git").join(lock);
        fs::write(&lock, "").expect("a lock");
        let refused = yard.merge(&["u1"]).exits(5).json();
        assert_eq!(refused["error"]["code"], "target_dirty", "{refused}");
        assert_eq!((yard.picture(&repo), yard.main()), before, "{}", lock.display());
        fs::remove_file(&lock).expect("a lock");
    }
    assert_eq!(yard.merge(&["u1"]).ok().json()["units"][0]["verdict"], "landed");
    assert_eq!(yard.on_main("new").as_deref(), Some("landed\n"));
    assert_eq!(
        fs::read_to_string(repo.join("other")).expect("a file"),
        "edited\n"
    );
}

#[test]
fn h3_a_branch_counts_as_checked_out_where_the_folder_is_not() {
    let yard = ready();
    let repo = yard.repo();
    yard.world.git(&repo, ["switch", "-q", "--detach"]);
    yard.world
        .git(&repo, ["worktree", "add", "-q", "../second", "main"]);
    let [second, moved] = ["second", "moved"].map(|name| yard.world.root().join(name));
    fs::rename(&second, &moved).expect("moved");
    let before = yard.main();
    let refused = yard.merge(&["u1"]).exits(5).json();
    let help = refused["error"]["help"].to_string();
    assert!(
        help.contains("git worktree repair") && help.contains("git worktree prune"),
        "{refused}"
    );
    assert_eq!(yard.main(), before);
    // Git forgets none that is locked.
    yard.world
        .git(&repo, ["worktree", "lock", second.to_str().expect("UTF-8")]);
    let refused = yard.merge(&["u1"]).exits(5).json();
    let help = refused["error"]["help"].to_string();
    assert!(
        help.contains("git worktree unlock /") && help.contains("second && git worktree prune"),
        "{help}"
    );
    yard.world
        .git(&repo, ["worktree", "unlock", second.to_str().expect("UTF-8")]);
    yard.world
        .git(&repo, ["worktree", "repair", moved.to_str().expect("UTF-8")]);
    let _ = yard.merge(&["u1"]).ok();
    assert_eq!(yard.picture(&moved).1, "", "it moved along");
    assert_eq!(
        fs::read_to_string(moved.join("file")).expect("a file"),
        "landed\n"
    );
}

#[test]
fn h3_a_branch_counts_as_checked_out_under_another_name() {
    let yard = ready();
    let repo = yard.repo();
    yard.world
        .git(&repo, ["symbolic-ref", "refs/heads/trunk", "refs/heads/main"]);
    yard.world
        .git(&repo, ["symbolic-ref", "HEAD", "refs/heads/trunk"]);
    let _ = yard.merge(&["u1"]).ok();
    assert_eq!(yard.picture(&repo).1, "", "the checkout moved along");
    assert_eq!(yard.rev(&repo, "HEAD"), yard.main());
    assert_eq!(fs::read_to_string(repo.join("file")).expect("a file"), "landed\n");
}

/// A unit that brings the files of an issue which jit wrote into the main checkout too.
fn with_issue() -> (Yard, std::path::PathBuf) {
    let yard = Yard::checked_out();
    let words = ["issue", "create", "Do it", "--id", "WI-1", "--label", "here"];
    let _ = yard.jit(words.iter().chain(&["--description", "Long."])).ok();
    let path = yard.unit("u1");
    let _ = yard
        .world
        .jit_as_in("human:test", &path, ["issue", "comment", "WI-1", "seen"])
        .ok();
    let own = Path::new(".jit/issues/WI-1/issue.json");
    assert!(path.join(own).exists() && yard.repo().join(own).exists());
    yard.write(&path, "new", "landed\n");
    yard.commit(&path, "work");
    (yard, path)
}

#[test]
fn h3_files_that_jit_wrote_itself_are_in_no_landings_way() {
    let (yard, path) = with_issue();
    let repo = yard.repo();
    let _ = yard.merge(&["u1"]).ok();
    assert_eq!(yard.on_main("new").as_deref(), Some("landed\n"));
    assert_eq!(yard.world.git(&repo, ["status", "--porcelain"]), "");
    // Nor where git has them already.
    let _ = yard.jit(["issue", "update", "WI-1", "--title", "Here"]).ok();
    assert_ne!(yard.world.git(&repo, ["status", "--porcelain"]), "");
    let words = ["issue", "update", "WI-1", "--title", "There"];
    let _ = yard.world.jit_as_in("human:test", &path, words).ok();
    yard.write(&path, "more", "landed\n");
    yard.commit(&path, "more");
    let _ = yard.merge(&["u1"]).ok();
    assert_eq!(yard.on_main("more").as_deref(), Some("landed\n"));
    assert_eq!(yard.world.git(&repo, ["status", "--porcelain"]), "");
    let issue = yard.jit(["issue", "show", "WI-1", "--json"]).ok().json();
    assert_eq!(issue["title"], "There");
    // What was changed last stays to be seen, wherever that was.
    let words = ["issue", "comment", "WI-1", "more"];
    let _ = yard.world.jit_as_in("human:test", &path, words).ok();
    yard.commit(&path, "a comment");
    let _ = yard.jit(["issue", "update", "WI-1", "--title", "Last"]).ok();
    let _ = yard.merge(&["u1"]).ok();
    let own = repo.join(".jit/issues/WI-1");
    let text = fs::read_to_string(own.join("issue.json")).expect("a file");
    assert!(text.contains("Last"), "{text}");
    assert_eq!(
        fs::read_dir(&own).expect("a folder").count(),
        4,
        "nothing is left"
    );
    yard.is_tidy();
    yard.world.validates();
}

#[test]
fn h3_files_that_jit_wrote_come_back_where_the_landing_fails_and_edited_ones_stay() {
    let (yard, _) = with_issue();
    let repo = yard.repo();
    let folder = repo.join(".jit/issues/WI-1");
    let files = || {
        let mut files: Vec<_> = fs::read_dir(&folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .map(|path| (path.clone(), fs::read(path).expect("a file")))
            .collect();
        files.sort();
        files
    };
    let before = (files(), yard.main());
    let lock = repo.join(".git/refs/heads/main.lock");
    fs::write(&lock, "").expect("a lock");
    let refused = yard.merge(&["u1"]).exits(5).json();
    assert_eq!(refused["error"]["code"], "target_dirty", "{refused}");
    assert_eq!((files(), yard.main()), before);
    fs::remove_file(&lock).expect("a lock");
    let own = folder.join("issue.json");
    let text = fs::read_to_string(&own).expect("a file");
    fs::write(&own, text.replace("Do it", "Do it better")).expect("a file");
    let before = (files(), yard.main());
    let refused = yard.merge(&["u1"]).exits(5).json();
    assert_eq!(refused["error"]["code"], "target_dirty", "{refused}");
    assert_eq!((files(), yard.main()), before);
    fs::write(&own, text).expect("a file");
    let _ = yard.merge(&["u1"]).ok();
}

/// What is told for each of these makes the landing work.
fn helps(messes: &[Mess]) {
    for (name, mess) in messes {
        let yard = ready();
        mess(&yard, &yard.repo());
        let refused = yard.merge(&["u1"]).exits(5).json();
        assert_eq!(refused["error"]["code"], "target_dirty", "{name}: {refused}");
        let help = refused["error"]["help"].as_array().expect("help").clone();
        let told = |start: &str| {
            let mut all = help.iter().filter_map(|one| one.as_str());
            all.find_map(|one| one.find(start).map(|at| one[at..].to_owned()))
        };
        let with = |word: &str| {
            let mut all = help.iter().filter_map(|one| one.as_str());
            all.find(|one| one.contains(word)).map(str::to_owned)
        };
        let lines = match *name {
            "a lock" => vec![told("rm ")],
            "untracked" | "a folder" | "ignored" => vec![told("mv -n ")],
            "skip-worktree" => vec![with("--no-skip-worktree"), with("stash")],
            _ => vec![with("--no-assume-unchanged"), with("stash")],
        };
        for line in lines {
            let line = line.unwrap_or_else(|| panic!("{name}: {refused}"));
            let _ = shell(&yard.world, &line).ok();
        }
        assert_eq!(
            yard.merge(&["u1"]).ok().json()["units"][0]["verdict"],
            "landed",
            "{name}"
        );
    }
}

#[test]
fn h3_for_each_kind_of_file_in_the_way_there_is_a_command_that_helps() {
    helps(&[
        ("untracked", |yard, repo| yard.write(repo, "new", "mine\n")),
        ("a folder", |yard, repo| yard.write(repo, "new/inside", "mine\n")),
        ("ignored", |yard, repo| {
            yard.write(repo, "new", "mine\n");
            let file = repo.join(".git/info/exclude");
            let before = fs::read_to_string(&file).expect("a file");
            fs::write(file, format!("{before}new\n")).expect("a file");
        }),
    ]);
}

#[test]
fn h3_for_hidden_edits_and_locks_in_the_way_there_is_a_command_that_helps() {
    helps(&[
        ("skip-worktree", |yard, repo| {
            yard.world.git(repo, ["update-index", "--skip-worktree", "file"]);
            yard.write(repo, "file", "mine\n");
        }),
        ("assume-unchanged", |yard, repo| {
            yard.world
                .git(repo, ["update-index", "--assume-unchanged", "file"]);
            yard.write(repo, "file", "mine\n");
        }),
        ("a lock", |_, repo| {
            fs::write(repo.join(".git/index.lock"), "").expect("a file");
        }),
    ]);
}

/// A landing during which, right before git steps forward in the checkout, `then` is run there. It finds the commit that
/// git is to step to in `$new`.
fn while_moving(yard: &Yard, then: &str) -> jit_testkit::world::Ran {
    let bin = yard.world.root().join("bin");
    fs::create_dir_all(&bin).expect("a folder");
    let once = yard.world.root().join("once");
    let _ = fs::remove_file(&once);
    let script = format!(
        "#!/bin/sh\nPATH=${{PATH#*:}}\ncase \"$*\" in *--ff-only*)\nif ! [ -e '{once}' ]; then\n: > '{once}'\n\
         for new in \"$@\"; do :; done\n(unset GIT_DIR; cd '{repo}' || exit\n{then}\n) || exit 128\nfi;;\nesac\nexec git \"$@\"\n",
        once = once.display(),
        repo = yard.repo().display(),
    );
    fs::write(bin.join("git"), script).expect("a file");
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).expect("a mode");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("PATH"));
    let mut command = yard.world.jit_command(&yard.repo());
    command
        .env("PATH", path)
        .args(["--agent-id", WHO, "worktree", "merge", "u1", "--json"]);
    let ran = yard.world.run(command);
    assert!(
        once.exists(),
        "git was to step forward: {}{}",
        ran.stdout,
        ran.stderr
    );
    // Where jit was killed, the git that it had started may still have its turn: who only looks does not wait for it.
    let locks = fs::read_dir(yard.world.control().join("locks")).expect("locks");
    for path in locks.map(|entry| entry.expect("an entry").path()) {
        if path.to_string_lossy().contains("/land-") {
            let lock = fs::File::open(&path).expect("a lock");
            let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
            while lock.try_lock().is_err() {
                assert!(std::time::Instant::now() < end, "the git does not end");
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
    }
    ran
}

#[test]
fn h3_a_full_disk_or_a_folder_that_cannot_be_written_is_told_as_that() {
    for (said, told) in [
        ("unable to write file new: No space left on device", "df -h"),
        ("unable to unlink old file: Permission denied", "chmod u+w"),
        (
            "unable to create file new: Read-only file system",
            "can only be read",
        ),
    ] {
        let yard = ready();
        let before = yard.main();
        let ran = while_moving(&yard, &format!("echo 'error: {said}' >&2; exit 1"));
        let refused = ran.exits(5).json();
        assert_eq!(refused["error"]["code"], "target_dirty", "{refused}");
        let help = refused["error"]["help"].to_string();
        assert!(help.contains(told), "{refused}");
        assert!(!help.contains("stash") && !help.contains("commit"), "{refused}");
        assert_eq!(yard.main(), before);
        assert_eq!(yard.picture(&yard.repo()).1, "");
    }
}

#[test]
fn h3_the_main_worktree_of_a_git_folder_that_lies_elsewhere_moves_along() {
    let world = jit_testkit::world::World::with_jit(crate::landing::JIT);
    let (repo, store) = (world.root().join("apart"), world.root().join("stores"));
    fs::create_dir(&store).expect("a folder");
    let option = format!("--separate-git-dir={}", store.join("apart.git").display());
    let at = repo.to_string_lossy().into_owned();
    world.git(world.root(), ["init", "-q", "-b", "main", option.as_str(), &at]);
    fs::write(repo.join("file"), "file\n").expect("a file");
    let _ = world.jit_in(&repo, ["init"]).ok();
    world.git(&repo, ["add", "-A"]);
    world.git(&repo, ["commit", "-q", "-m", "begin"]);
    let unit = world
        .jit_in(&repo, ["worktree", "create", "u1", "--json"])
        .ok()
        .json();
    let path = Path::new(unit["worktree_path"].as_str().expect("a path"));
    assert_eq!(path, world.root().join("apart-worktrees/u1"));
    fs::write(path.join("new"), "new\n").expect("a file");
    world.git(path, ["add", "new"]);
    world.git(path, ["commit", "-q", "-m", "work"]);
    let landed = world
        .jit_in(path, ["worktree", "merge", "u1", "--json"])
        .ok()
        .json();
    assert_eq!(landed["units"][0]["verdict"], "landed", "{landed}");
    assert_eq!(fs::read_to_string(repo.join("new")).expect("a file"), "new\n");
    let _ = world.jit_in(&repo, ["finish", "u1"]).ok();
    assert!(!path.exists());
}

/// What a git leaves that is killed together with the landing: a file half changed, and its lock.
const KILLED: &str = "printf 'landed\\n' > file; : > .git/index.lock; kill -9 $PPID; exit 1";

#[cfg(target_os = "linux")]
#[test]
fn h3_a_lock_that_our_own_killed_git_left_is_not_in_the_way_of_the_next_landing() {
    let yard = ready();
    let repo = yard.repo();
    yard.write(&repo, "untracked", "mine\n");
    let before = yard.main();
    let ran = while_moving(&yard, KILLED);
    assert_ne!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(repo.join(".git/index.lock").exists());
    assert_eq!(yard.main(), before);
    let landed = yard.merge(&["u1"]).ok().json();
    assert_eq!(landed["units"][0]["verdict"], "landed", "{landed}");
    assert!(!repo.join(".git/index.lock").exists());
    assert_eq!(fs::read_to_string(repo.join("file")).expect("a file"), "landed\n");
    assert_eq!(
        fs::read_to_string(repo.join("untracked")).expect("a file"),
        "mine\n"
    );
    assert_eq!(yard.picture(&repo).1, "?? untracked\n");
}

/// A git at work there keeps the next landing from it; the one after that goes on.
#[cfg(target_os = "linux")]
#[test]
fn h3_a_lock_on_head_or_the_branch_is_taken_away_by_a_later_landing() {
    for (name, is_beside) in [
        ("HEAD.lock", false),
        ("refs/heads/main.lock", false),
        // Who moves a branch may stand in any worktree.
        ("refs/heads/main.lock", true),
    ] {
        let yard = ready();
        let repo = yard.repo();
        let lock = repo.join(".git").join(name);
        let place = match is_beside {
            true => yard.world.worktree("beside"),
            false => repo.clone(),
        };
        let killed = format!("printf 'landed\\n' > file; : > .git/{name}; kill -9 $PPID; exit 1");
        let _ = while_moving(&yard, &killed);
        assert!(lock.exists());
        let mut command = yard.world.command("git", &place);
        command
            .args(["hash-object", "--stdin"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null());
        let mut git = command.spawn().expect("starts");
        let refused = yard.merge(&["u1"]).exits(5).json();
        let help = refused["error"]["help"].to_string();
        assert!(help.contains("rm ") && help.contains(name), "{refused}");
        assert!(lock.exists(), "it may be that git's");
        drop(git.stdin.take());
        assert!(git.wait().expect("ends").success());
        let landed = yard.merge(&["u1"]).ok().json();
        assert_eq!(landed["units"][0]["verdict"], "landed", "{landed}");
        assert!(!lock.exists());
        assert_eq!(yard.picture(&repo).1, "");
    }
}

#[test]
fn h3_a_lock_that_may_be_somebody_elses_stays_after_a_killed_landing() {
    // Older than the step; held open by somebody.
    for is_old in [true, false] {
        let yard = ready();
        let repo = yard.repo();
        let lock = repo.join(".git/index.lock");
        let _ = while_moving(&yard, KILLED);
        let held = fs::OpenOptions::new().write(true).open(&lock).expect("a lock");
        let held = match is_old {
            true => {
                let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
                held.set_modified(old).expect("a time");
                None
            }
            false => Some(held),
        };
        let refused = yard.merge(&["u1"]).exits(5).json();
        assert_eq!(refused["error"]["code"], "target_dirty", "{refused}");
        assert!(lock.exists(), "it is somebody's");
        drop(held);
        fs::remove_file(&lock).expect("removes");
        let landed = yard.merge(&["u1"]).ok().json();
        assert_eq!(landed["units"][0]["verdict"], "landed", "{landed}");
    }
}

#[test]
fn h3_what_somebody_takes_off_the_target_meanwhile_does_not_come_back() {
    let yard = ready();
    let repo = yard.repo();
    let before = yard.main();
    yard.write(&repo, "secret", "secret\n");
    yard.commit(&repo, "oops");
    let ran = while_moving(&yard, "git reset -q --hard HEAD~1");
    let _ = ran.ok();
    assert_eq!(yard.on_main("secret"), None);
    assert_eq!(yard.on_main("new").as_deref(), Some("landed\n"));
    assert!(!repo.join("secret").exists());
    assert_eq!(yard.picture(&repo).1, "");
    let log = yard
        .world
        .git(&repo, ["log", "--format=%s", &format!("{before}..main")]);
    assert!(!log.contains("oops"), "{log}");
}

#[test]
fn h3_no_other_branch_moves_when_somebody_switches_meanwhile() {
    let yard = ready();
    let repo = yard.repo();
    let before = yard.main();
    yard.world.git(&repo, ["branch", "same"]);
    let _ = while_moving(&yard, "git checkout -q same").ok();
    assert_eq!(yard.rev(&repo, "same"), before);
    assert_eq!(yard.on_main("new").as_deref(), Some("landed\n"));
    assert_eq!(
        yard.picture(&repo).1,
        "",
        "{}",
        yard.world.git(&repo, ["status", "--short"])
    );
    // Or looks at a commit.
    yard.world.git(&repo, ["checkout", "-q", "main"]);
    let tip = yard.main();
    let path = yard.world.root().join("u1");
    yard.write(&path, "more", "more\n");
    yard.commit(&path, "more");
    let _ = while_moving(&yard, "git checkout -q --detach").ok();
    assert_eq!(yard.rev(&repo, "HEAD"), tip);
    assert_eq!(yard.on_main("more").as_deref(), Some("more\n"));
    assert_eq!(yard.picture(&repo).1, "");
}

/// What git leaves that is stopped while it writes files: one is new, one is begun, one is gone.
/// In a container a checkout may have another name.
#[cfg(target_os = "linux")]
#[test]
fn h3_a_lock_stays_while_a_git_works_where_the_checkout_has_another_name() {
    use std::process::Stdio;
    let Some(mounts) = own_mounts() else { return };
    let yard = ready();
    let lock = yard.repo().join(".git/index.lock");
    let _ = while_moving(&yard, KILLED);
    let mut command = yard.world.command(mounts[0], yard.world.root());
    command
        .args(&mounts[1..])
        .args([
            "sh",
            "-c",
            "mount --bind \"$0\" /mnt && cd /mnt && exec git hash-object --stdin",
        ])
        .arg(yard.repo())
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut git = command.spawn().expect("starts");
    let name = format!("/proc/{}/comm", git.id());
    wait_until("git works there", std::time::Duration::from_secs(20), || {
        fs::read_to_string(&name).is_ok_and(|name| name.trim() == "git")
    });
    let refused = yard.merge(&["u1"]).exits(5).json();
    assert_eq!(refused["error"]["code"], "target_dirty", "{refused}");
    assert!(lock.exists(), "it may be that git's");
    drop(git.stdin.take());
    assert!(git.wait().expect("ends").success());
    let landed = yard.merge(&["u1"]).ok().json();
    assert_eq!(landed["units"][0]["verdict"], "landed", "{landed}");
}

const HALF: &str = "git show $new:file > file; mkdir -p many; git show $new:many/1 > many/1; git show $new:many/2 | \
                    head -c 3 > many/2; rm other";

fn to_be_halved() -> Yard {
    let yard = ready();
    let path = yard.world.root().join("u1");
    for n in 1..=3 {
        yard.write(&path, &format!("many/{n}"), &format!("number {n}\n"));
    }
    yard.write(&path, "other", "changed\n");
    yard.commit(&path, "many");
    yard.write(&yard.repo(), "mine", "mine\n");
    yard
}

#[test]
fn h3_a_step_that_fails_half_way_leaves_the_checkout_as_it_was() {
    let yard = to_be_halved();
    let repo = yard.repo();
    let before = yard.picture(&repo);
    let ran = while_moving(&yard, &format!("{HALF}; exit 1"));
    assert_ne!(ran.code, 0, "{}", ran.stdout);
    assert_eq!(yard.picture(&repo), before);
    let _ = yard.merge(&["u1"]).ok();
    assert_eq!(yard.on_main("many/2").as_deref(), Some("number 2\n"));
}

#[test]
fn h3_a_step_that_is_killed_half_way_is_made_by_the_next_run() {
    let yard = to_be_halved();
    let repo = yard.repo();
    let ran = while_moving(&yard, &format!("{HALF}; kill -9 $PPID; exit 1"));
    assert_eq!(ran.code, 137, "{}", ran.stdout);
    assert!(repo.join("many/1").exists(), "it was stopped half way");
    let report = yard.merge(&["u1"]).ok().json();
    assert_eq!(report["units"][0]["verdict"], "landed", "{report}");
    assert_eq!(yard.picture(&repo).1, "?? mine\n");
    assert_eq!(yard.on_main("other").as_deref(), Some("changed\n"));
    assert_eq!(
        fs::read_to_string(repo.join("many/2")).expect("a file"),
        "number 2\n"
    );
}

#[test]
fn h3_a_file_that_only_looks_changed_is_put_back_after_a_kill() {
    let yard = to_be_halved();
    let repo = yard.repo();
    let file = fs::OpenOptions::new().write(true).open(repo.join("file"));
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    file.expect("a file").set_modified(old).expect("a time");
    let before = yard.picture(&repo);
    let ran = while_moving(&yard, &format!("{HALF}; kill -9 $PPID; exit 1"));
    assert_eq!(ran.code, 137, "{}", ran.stdout);
    let _ = yard.jit(["status"]).ok();
    assert_eq!(yard.picture(&repo), before);
}

#[test]
fn h6_checks_see_every_file_where_the_checkout_has_only_some() {
    let yard = Yard::checked_out();
    let check = r#"test ! -e hidden/bad && test "$(git config core.sparseCheckout)" != true"#;
    yard.configure(&format!("[merge]\nvalidate = ['{check}']"));
    yard.world.git(&yard.repo(), ["reset", "-q", "--hard", "main"]);
    yard.done("u1", "hidden/bad", "bad\n");
    yard.done("u2", "hidden/good", "good\n");
    yard.world
        .git(&yard.repo(), ["sparse-checkout", "set", ".jit", "shown"]);
    let report = yard.merge(&["u1"]).exits(6).json();
    assert_eq!(report["units"][0]["verdict"], "validation_failed", "{report}");
    let _ = yard.merge(&["u2"]).ok();
    assert!(!yard.repo().join("hidden").exists(), "the checkout stays sparse");
}

#[test]
fn h3_what_somebody_has_already_is_theirs_though_it_be_the_same() {
    let yard = ready();
    let repo = yard.repo();
    yard.write(&repo, "file", "landed\n");
    yard.write(&repo, "new", "");
    let before = yard.picture(&repo);
    let _ = yard.merge(&["u1"]).exits(5);
    assert_eq!(yard.picture(&repo), before);
}

/// What git leaves that is stopped after it wrote the index.
const WRITTEN: &str = "old=$(git rev-parse HEAD); git merge -q --ff-only $new; git reset -q --soft $old";

#[test]
fn h3_a_file_that_somebody_made_since_outlives_a_step_that_was_cut_off() {
    let yard = Yard::checked_out();
    let repo = yard.repo();
    yard.write(&repo, "env", "tracked\n");
    yard.commit(&repo, "env");
    let path = yard.unit("u1");
    yard.world.git(&path, ["rm", "-q", "env"]);
    yard.write(&path, ".gitignore", "env\n");
    yard.commit(&path, "env is everybody's own");
    let ran = while_moving(&yard, &format!("{WRITTEN}; kill -9 $PPID; exit 1"));
    assert_eq!(ran.code, 137, "{}", ran.stdout);
    assert!(!repo.join("env").exists(), "it was stopped half way");
    yard.write(&repo, "env", "mine\n");
    // Git would have it removed, so it is in the way.
    let refused = yard.merge(&["u1"]).exits(5).json();
    assert_eq!(refused["error"]["code"], "target_dirty", "{refused}");
    assert_eq!(fs::read_to_string(repo.join("env")).expect("there"), "mine\n");
    fs::rename(repo.join("env"), repo.join(".git/env")).expect("moved");
    let report = yard.merge(&["u1"]).ok().json();
    assert_eq!(report["units"][0]["verdict"], "landed", "{report}");
    assert_eq!(yard.picture(&repo).1, "");
}

#[test]
fn h3_a_step_that_was_cut_off_after_the_index_was_written_is_put_back() {
    let yard = to_be_halved();
    let repo = yard.repo();
    let path = yard.world.root().join("u1");
    std::os::unix::fs::symlink("file", path.join("link")).expect("a link");
    yard.write(&path, "many/with\nbreak", "break\n");
    yard.write(&path, "runs", "runs\n");
    fs::set_permissions(path.join("runs"), fs::Permissions::from_mode(0o755)).expect("a mode");
    yard.commit(&path, "links");
    let before = yard.picture(&repo);
    let ran = while_moving(&yard, &format!("{WRITTEN}; kill -9 $PPID; exit 1"));
    assert_eq!(ran.code, 137, "{}", ran.stdout);
    assert_ne!(yard.picture(&repo), before, "it was stopped half way");
    // Whoever looks first puts it back.
    let _ = yard.jit(["status"]).ok();
    assert_eq!(yard.picture(&repo), before);
    let report = yard.merge(&["u1"]).ok().json();
    assert_eq!(report["units"][0]["verdict"], "landed", "{report}");
    assert_eq!(yard.picture(&repo).1, "?? mine\n");
}

#[test]
fn h3_what_somebody_has_staged_is_theirs_though_it_be_the_same() {
    let yard = ready();
    let repo = yard.repo();
    yard.world.git(&repo, ["checkout", "u1", "--", "file", "new"]);
    let before = (yard.picture(&repo), yard.main());
    // The branch is locked at the last moment.
    let refused = while_moving(&yard, ": > .git/refs/heads/main.lock")
        .exits(5)
        .json();
    assert_eq!(refused["error"]["code"], "target_dirty", "{refused}");
    assert_eq!((yard.picture(&repo), yard.main()), before);
    // Or was so before.
    let refused = yard.merge(&["u1"]).exits(5).json();
    let help = refused["error"]["help"].to_string();
    assert!(help.contains("main.lock"), "{refused}");
    assert_eq!((yard.picture(&repo), yard.main()), before);
    fs::remove_file(repo.join(".git/refs/heads/main.lock")).expect("a lock");
    assert_eq!(yard.merge(&["u1"]).ok().json()["units"][0]["verdict"], "landed");
    assert_eq!(yard.picture(&repo).1, "");
}

#[test]
fn h3_what_somebody_stages_at_the_last_moment_refuses_and_nothing_has_changed() {
    let yard = ready();
    let repo = yard.repo();
    let refused = while_moving(&yard, "echo third > file; git add file")
        .exits(5)
        .json();
    assert_eq!(refused["error"]["code"], "target_dirty", "{refused}");
    let message = refused["error"]["message"].as_str().expect("text");
    assert!(message.contains("nothing has moved"), "{refused}");
    assert_eq!(fs::read_to_string(repo.join("file")).expect("there"), "third\n");
    assert_eq!(yard.picture(&repo).1, "M  file\n");
}

/// A unit of an issue that is committed on main.
fn of_issue() -> Yard {
    let yard = Yard::checked_out();
    let _ = yard.jit(["issue", "create", "Do it", "--id", "WI-1"]).ok();
    yard.commit(&yard.repo(), "the issue");
    let path = yard.unit_for("u1", Some("WI-1"));
    yard.write(&path, "new", "landed\n");
    yard.commit(&path, "work");
    yard
}

fn is_done(yard: &Yard) -> bool {
    yard.jit(["issue", "show", "WI-1", "--json"]).ok().json()["state"] == "done"
}

#[test]
fn e7_an_issue_is_not_done_by_a_step_that_was_cut_off() {
    let yard = of_issue();
    let repo = yard.repo();
    let ran = while_moving(&yard, &format!("{WRITTEN}; kill -9 $PPID; exit 1"));
    assert_eq!(ran.code, 137, "{}", ran.stdout);
    let text = fs::read_to_string(repo.join(".jit/issues/WI-1/issue.json")).expect("there");
    assert!(text.contains("\"done\""), "it was stopped half way: {text}");
    let _ = yard.jit(["status"]).ok();
    assert!(!is_done(&yard));
    let _ = yard.jit(["worktree", "abandon", "u1", "--reason", "no"]).ok();
    assert!(!is_done(&yard));
    assert_eq!(yard.world.git(&repo, ["status", "--porcelain"]), "");
}

#[test]
fn e7_giving_up_a_landing_that_was_cut_off_puts_the_checkout_back() {
    let yard = of_issue();
    let repo = yard.repo();
    let ran = while_moving(&yard, &format!("{WRITTEN}; kill -9 $PPID; exit 1"));
    assert_eq!(ran.code, 137, "{}", ran.stdout);
    let elsewhere = yard.world.worktree("elsewhere");
    let words = ["worktree", "abandon", "u1", "--reason", "no"];
    let _ = yard.world.jit_as_in(WHO, &elsewhere, words).ok();
    assert_eq!(yard.world.git(&repo, ["status", "--porcelain"]), "");
    assert!(!is_done(&yard));
}

#[test]
fn e7_an_issue_is_not_done_by_what_is_only_tried_out() {
    let yard = of_issue();
    yard.world.git(&yard.repo(), ["switch", "-q", "--detach"]);
    yard.configure(&format!(
        "[merge]\nvalidate = [\"{} validate\", \"false\"]",
        crate::landing::JIT
    ));
    let report = yard.merge(&["u1"]).exits(6).json();
    assert_eq!(report["units"][0]["verdict"], "validation_failed", "{report}");
    assert!(!is_done(&yard));
}

#[test]
fn h3_files_of_issues_that_were_put_aside_come_back_after_a_kill() {
    let (yard, path) = with_issue();
    let repo = yard.repo();
    let _ = yard.merge(&["u1"]).ok();
    let words = ["issue", "update", "WI-1", "--title", "There"];
    let _ = yard.world.jit_as_in(WHO, &path, words).ok();
    yard.commit(&path, "more");
    let _ = yard.jit(["issue", "update", "WI-1", "--title", "Here"]).ok();
    let own = repo.join(".jit/issues/WI-1/issue.json");
    let before = fs::read_to_string(&own).expect("there");
    let mut command = yard.world.jit_command(&repo);
    command
        .env("JIT_TEST_DIE_AT", "aside")
        .args(["--agent-id", WHO, "worktree", "merge", "u1"]);
    assert_eq!(yard.world.run(command).code, 137);
    assert!(!own.exists(), "it was put aside");
    let _ = yard.jit(["status"]).ok();
    assert_eq!(fs::read_to_string(&own).expect("there"), before);
    let _ = yard.merge(&["u1"]).ok();
    assert_eq!(
        fs::read_dir(repo.join(".jit/issues/WI-1"))
            .expect("a folder")
            .count(),
        4,
        "nothing is left"
    );
}

/// What is committed as it is in the middle of a cherry-pick has the marks of its conflicts in it: nobody is told to.
#[test]
fn h3_nobody_is_told_to_commit_a_conflict() {
    for how in ["cherry-pick", "revert"] {
        let yard = Yard::checked_out();
        let repo = yard.repo();
        yard.done("u1", "new", "new\n");
        for text in ["one\n", "two\n", "three\n"] {
            yard.write(&repo, "disputed", text);
            yard.commit(&repo, "disputed");
        }
        let mut git = yard.world.command("git", &repo);
        git.args([how, "HEAD~1"]);
        assert_ne!(yard.world.run(git).code, 0, "{how}");
        let before = yard.main();
        let refused = yard.merge(&["u1"]).json();
        let said = refused.to_string();
        assert!(said.contains(&format!("in the middle of a {how}")), "{said}");
        assert!(said.contains(" status") && !said.contains("commit -a"), "{said}");
        assert_eq!(yard.main(), before, "{how}");
    }
}
