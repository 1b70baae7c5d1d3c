//! Submodules in a checkout of the target go along with what lands there (H3): what they are left behind, the next commit of
//! everything would take back.

use std::path::{Path, PathBuf};

use crate::landing::{WHO, Yard};
use crate::unit_life::{shell, verdicts, with_submodule};

/// A yard with `main` and its submodule checked out, and a unit `u1` whose worktree has the submodule too.
fn yard() -> (Yard, PathBuf) {
    let yard = Yard::new();
    let unit = with_submodule(&yard);
    yard.world.git(&yard.repo(), ["switch", "-q", "main"]);
    // As anybody has it who did not add it.
    yard.world
        .git(&yard.repo().join("sub"), ["switch", "-q", "--detach"]);
    (yard, unit)
}

/// A new commit in the submodule of a worktree, pushed, that the worktree points to.
fn bump(yard: &Yard, dir: &Path, text: &str) -> String {
    let sub = dir.join("sub");
    yard.write(&sub, "lib.txt", text);
    let commit = yard.commit(&sub, text);
    yard.world
        .git(&sub, ["push", "-q", "origin", "HEAD:refs/heads/next"]);
    yard.commit(dir, text);
    yard.world
        .git(&yard.repo().join("sub"), ["fetch", "-q", "origin"]);
    commit
}

fn sub_status(yard: &Yard) -> String {
    yard.world
        .git(&yard.repo(), ["status", "--porcelain", "--", "sub"])
}

#[test]
fn h3_submodules_are_brought_by_the_next_run_where_a_landing_was_killed() {
    let (yard, unit) = yard();
    let wanted = bump(&yard, &unit, "first\n");
    let mut merge = yard.world.jit_command(&yard.repo());
    merge
        .env("JIT_AGENT_ID", WHO)
        .env("JIT_TEST_DIE_AT", "moved")
        .args(["worktree", "merge", "u1"]);
    assert_ne!(yard.world.run(merge).code, 0);
    assert_eq!(sub_status(&yard), " M sub\n");
    assert_eq!(verdicts(&yard.merge(&["u1"]).ok().json()), ["already_landed"]);
    let ours = yard.repo().join("sub");
    assert_eq!(
        (yard.rev(&ours, "HEAD"), sub_status(&yard)),
        (wanted, String::new())
    );
    // It is done once: what somebody does there later is theirs.
    yard.world.git(&ours, ["checkout", "-q", "HEAD~1"]);
    let _ = yard.merge(&["u1"]).ok();
    assert_eq!(sub_status(&yard), " M sub\n");
}

#[test]
fn h3_submodules_follow_what_somebody_else_pushed() {
    let (yard, _) = yard();
    yard.configure("[merge]\npush = \"target\"");
    yard.world
        .git(&yard.repo(), ["reset", "-q", "--hard", "refs/heads/main"]);
    let bare = yard.world.root().join("shared.git");
    let (from, to) = (bare.to_string_lossy(), yard.world.root().join("clone"));
    let allow = ["-c", "protocol.file.allow=always"];
    yard.world.git(
        yard.world.root(),
        ["init", "-q", "--bare", "-b", "main", from.as_ref()],
    );
    yard.world
        .git(&yard.repo(), ["remote", "add", "origin", "../shared.git"]);
    yard.world.git(&yard.repo(), ["push", "-q", "origin", "main"]);
    let path = to.to_string_lossy();
    let clone = [
        "clone",
        "-q",
        "--recurse-submodules",
        from.as_ref(),
        path.as_ref(),
    ];
    yard.world.git(yard.world.root(), allow.iter().chain(&clone));
    let wanted = bump(&yard, &to, "theirs\n");
    yard.world.git(&to, ["push", "-q", "origin", "main"]);
    yard.done("u2", "mine", "mine\n");
    let told = yard.merge(&["u2"]).ok();
    assert_eq!(verdicts(&told.json()), ["landed"], "{}", told.stderr);
    assert_eq!(yard.on_main("mine").as_deref(), Some("mine\n"));
    let ours = yard.repo().join("sub");
    assert_eq!(
        (yard.rev(&ours, "HEAD"), sub_status(&yard)),
        (wanted, String::new())
    );
}

#[test]
fn h3_a_branch_that_somebody_has_in_a_submodule_is_not_left_for_a_landing() {
    let (yard, unit) = yard();
    let ours = yard.repo().join("sub");
    yard.world.git(&ours, ["switch", "-q", "-c", "mywork"]);
    let wanted = bump(&yard, &unit, "first\n");
    let told = yard.jit(["worktree", "merge", "u1"]).ok().stderr;
    assert!(told.contains("the branch mywork is checked out"), "{told}");
    let head = || yard.world.git(&ours, ["symbolic-ref", "HEAD"]);
    assert_eq!(head(), "refs/heads/mywork\n");
    // What is told brings it, and leaves the branch.
    let command = told
        .split("; ")
        .find(|part| part.starts_with("git -C "))
        .expect(&told);
    let _ = shell(&yard.world, command.lines().next().expect("a command")).ok();
    assert_eq!(
        (yard.rev(&ours, "HEAD"), sub_status(&yard)),
        (wanted, String::new())
    );
    assert_eq!(head(), "refs/heads/mywork\n");
}
