//! By which rules pre-commit judges a commit (C2): those of the target, and for the whole issue.

use std::fs;

use crate::cli_hooks::{edit, git_as, guarded, issue_json, write};

#[test]
fn c2_a_commit_cannot_switch_off_the_check_that_judges_it() {
    let world = guarded();
    let repo = world.repo();
    let commit = |who: &str, settings: &str| {
        edit(&repo, "\"title\": \"", "\"title\": \"x");
        write(repo.join(".jit/config.toml"), settings);
        world.git(&repo, ["add", "-A"]);
        let ran = git_as(&world, who, &repo, ["commit", "-qm", "all at once"]);
        world.git(&repo, ["reset", "-q", "--hard"]);
        ran
    };
    for (who, said) in [
        ("agent:a", "a person commits that"),
        ("human:a", "was not written by jit"),
    ] {
        for settings in [
            "enforce_leases = \"off\"",
            "enforce_leases = \"warn\"",
            "mode = \"off\"",
        ] {
            let ran = commit(who, &format!("[worktree]\n{settings}\n")).exits(1);
            assert!(ran.stderr.contains(said), "{}", ran.stderr);
        }
    }
    // Settings on the target that cannot be read loosen nothing, and can be mended.
    write(repo.join(".jit/config.toml"), "[worktree\n");
    world.git(&repo, ["commit", "-qam", "broken", "--no-verify"]);
    write(repo.join(".jit/config.toml"), "# mended\n");
    let _ = git_as(&world, "human:a", &repo, ["commit", "-qam", "mended"]).ok();
}

#[test]
fn c2_a_first_file_of_an_issue_that_is_held_is_no_new_issue() {
    let world = guarded();
    let repo = world.repo();
    let _ = world.jit_as("agent:b", ["claim", "acquire", "WI-1"]).ok();
    let folder = repo.join(".jit/issues/WI-1");
    let files: Vec<String> = fs::read_dir(&folder)
        .expect("files")
        .map(|one| one.expect("a file").file_name().to_string_lossy().into_owned())
        .collect();
    let first = |name: &str| {
        assert!(!files.contains(&name.to_owned()), "{files:?}");
        write(folder.join(name), "{\"op\":\"add\",\"value\":\"WI-9\"}\n");
        world.git(&repo, ["add", "-A"]);
        let ran = git_as(&world, "agent:a", &repo, ["commit", "-qm", "first"]);
        world.git(&repo, ["reset", "-q", "--hard"]);
        ran
    };
    let ran = first("deps.or-set.jsonl").exits(1);
    assert!(ran.stderr.contains("agent:b holds WI-1"), "{}", ran.stderr);
    // Nor where nobody holds it: the issue is there, and this is a change of it.
    let _ = world.jit_as("agent:b", ["claim", "release", "WI-1"]).ok();
    let ran = first("deps.or-set.jsonl").exits(1);
    assert!(ran.stderr.contains("nobody holds WI-1"), "{}", ran.stderr);
    // Files that jit wrote pass.
    let _ = world
        .jit_as("agent:a", ["issue", "create", "Two", "--id", "WI-2"])
        .ok();
    let _ = world.jit_as("agent:a", ["dep", "add", "WI-1", "WI-2"]).ok();
    world.git(&repo, ["add", "-A"]);
    let _ = git_as(&world, "agent:c", &repo, ["commit", "-qm", "by jit"]).ok();
}

#[test]
fn c2_an_issue_written_by_hand_is_new_unless_somebody_holds_it() {
    let world = guarded();
    let repo = world.repo();
    let text = fs::read_to_string(issue_json(&repo)).expect("read");
    let by_hand = |id: &str| {
        let folder = repo.join(".jit/issues").join(id);
        fs::create_dir_all(&folder).expect("a folder");
        write(folder.join("issue.json"), &text.replace("WI-1", id));
        world.git(&repo, ["add", "-A"]);
        git_as(&world, "agent:a", &repo, ["commit", "-qm", id])
    };
    let _ = by_hand("WI-7").ok();
    // Made in another worktree, so this branch has never seen it.
    let aside = world.worktree("aside");
    let _ = world
        .jit_as_in("agent:b", &aside, ["issue", "create", "Eight", "--id", "WI-8"])
        .ok();
    let _ = world
        .jit_as_in("agent:b", &aside, ["claim", "acquire", "WI-8"])
        .ok();
    let ran = by_hand("WI-8").exits(1);
    assert!(ran.stderr.contains("agent:b holds WI-8"), "{}", ran.stderr);
}

#[test]
fn c2_an_issue_that_differs_from_another_in_case_only_is_refused() {
    let world = guarded();
    let repo = world.repo();
    let text = fs::read_to_string(issue_json(&repo)).expect("read");
    let write_issue = |id: &str| {
        let folder = repo.join(".jit/issues").join(id);
        fs::create_dir_all(&folder).expect("a folder");
        write(folder.join("issue.json"), &text.replace("WI-1", id));
        world.git(&repo, ["add", "-A"]);
    };
    let commit = || {
        let ran = git_as(&world, "human:me", &repo, ["commit", "-qm", "twin"]);
        world.git(&repo, ["reset", "-q", "--hard"]);
        ran
    };
    write_issue("wi-1");
    let ran = commit().exits(1);
    assert!(
        ran.stderr.contains("wi-1 differs from it only in case"),
        "{}",
        ran.stderr
    );
    // Both new, in one commit.
    write_issue("K-001");
    write_issue("k-001");
    let _ = commit().exits(1);
    // One that lives in another worktree.
    let aside = world.worktree("aside");
    let _ = world
        .jit_in(&aside, ["issue", "create", "Elsewhere", "--id", "E-1"])
        .ok();
    write_issue("e-1");
    let _ = commit().exits(1);
    write_issue("K-001");
    let _ = commit().ok();
}
