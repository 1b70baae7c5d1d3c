//! The target is checked out somewhere: it moves only as git allows there (H3).

use std::fs;
use std::path::Path;

use crate::landing::Yard;
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
