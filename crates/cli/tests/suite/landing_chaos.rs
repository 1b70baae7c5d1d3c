//! Many at once, somebody in between, and processes that are killed (H3, G12).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use jit_testkit::world::tools::long;

use crate::landing::{WHO, Yard};

fn is_in(yard: &Yard, name: &str) -> bool {
    yard.on_main(name).is_some()
}

#[test]
fn h3_ten_that_finish_at_the_same_moment_all_land() {
    let yard = Yard::new();
    yard.configure("[merge]\nvalidate = [\"true\"]");
    let names: Vec<String> = (0..10).map(|n| format!("u{n}")).collect();
    for name in &names {
        yard.done(name, &format!("file-{name}"), "x\n");
    }
    std::thread::scope(|scope| {
        for name in &names {
            let yard = &yard;
            scope.spawn(move || yard.merge(&[name]).ok());
        }
    });
    for name in &names {
        assert!(is_in(&yard, &format!("file-{name}")), "{name}");
        assert_eq!(yard.landings(name), 1, "{name}");
    }
    yard.is_tidy();
    yard.world.validates();
}

#[test]
fn h3_a_person_who_commits_to_the_target_meanwhile_loses_nothing() {
    let yard = Yard::new();
    // Long enough for somebody to come in between: each trial moves the target once, as a person would.
    let script = "n=$(git rev-list --count refs/heads/main); if [ $n -lt 6 ]; then \
        new=$(git -c user.name=p -c user.email=p@example.com commit-tree refs/heads/main^{tree} -p refs/heads/main -m person); \
        git update-ref refs/heads/main $new; fi";
    yard.configure(&format!("[merge]\nvalidate = ['''{script}''']"));
    yard.done("u1", "new", "new\n");
    let before: BTreeSet<String> = commits(&yard);
    let mut command = yard.world.jit_command(&yard.repo());
    command
        .env("JIT_AGENT_ID", WHO)
        .args(["worktree", "merge", "u1", "--json"]);
    let report = yard.world.run(command).ok().json();
    assert_eq!(report["units"][0]["verdict"], "landed", "{report}");
    let after = commits(&yard);
    assert!(before.is_subset(&after));
    let log = yard.world.git(&yard.repo(), ["log", "--format=%s", "main"]);
    assert!(log.lines().filter(|line| *line == "person").count() >= 2, "{log}");
    assert!(is_in(&yard, "new"));
}

fn commits(yard: &Yard) -> BTreeSet<String> {
    let log = yard.world.git(&yard.repo(), ["rev-list", "main"]);
    log.lines().map(str::to_owned).collect()
}

#[test]
fn h3_a_race_with_a_person_loses_neither_side() {
    let yard = Yard::new();
    let names: Vec<String> = (0..5).map(|n| format!("u{n}")).collect();
    for name in &names {
        yard.done(name, &format!("file-{name}"), "x\n");
    }
    let done = AtomicBool::new(false);
    let made = std::thread::scope(|scope| {
        let person = scope.spawn(|| {
            let mut made = Vec::new();
            while !done.load(Ordering::Relaxed) && made.len() < 40 {
                let old = yard.main();
                let args = [
                    "commit-tree",
                    "refs/heads/main^{tree}",
                    "-p",
                    &old,
                    "-m",
                    "person",
                ];
                let new = yard.world.git(&yard.repo(), args).trim().to_owned();
                let mut update = yard.world.command("git", &yard.repo());
                update.args(["update-ref", "refs/heads/main", &new, &old]);
                // The tree may be newer than the parent: then it would take somebody's work back, and is not used.
                let same = yard.rev(&yard.repo(), &format!("{old}^{{tree}}"))
                    == yard.rev(&yard.repo(), &format!("{new}^{{tree}}"));
                if same && yard.world.run(update).code == 0 {
                    made.push(new);
                }
            }
            made
        });
        for name in &names {
            let _ = yard.merge(&[name]).ok();
        }
        done.store(true, Ordering::Relaxed);
        person.join().expect("no panic")
    });
    let all = commits(&yard);
    for commit in &made {
        assert!(all.contains(commit), "a person's commit is lost");
    }
    for name in &names {
        assert!(is_in(&yard, &format!("file-{name}")), "{name}");
    }
}

const STEPS: &[&str] = &[
    "locked",
    "candidate",
    "begun",
    "scratch",
    "tested",
    "moving",
    "moved",
    "recorded",
    "closed",
];

#[test]
fn g12_killed_at_any_step_a_landing_goes_on_and_lands_once() {
    let rounds = if long() { 23 } else { 1 };
    for round in 0..rounds {
        for step in STEPS {
            let checked_out = round % 2 == 1;
            let yard = if checked_out {
                Yard::checked_out()
            } else {
                Yard::new()
            };
            if !checked_out {
                yard.configure("[merge]\nvalidate = [\"test -e new\"]");
            }
            let _ = yard.jit(["issue", "create", "Do it", "--id", "WI-001"]).ok();
            let path = yard.unit_for("u1", Some("WI-001"));
            yard.write(&path, "new", "new\n");
            yard.commit(&path, "work");
            if !checked_out {
                yard.push_to_main("theirs", "theirs\n");
            }
            let mut command = yard.world.jit_command(&yard.repo());
            command.env("JIT_AGENT_ID", WHO).env("JIT_TEST_DIE_AT", step);
            command.args(["worktree", "merge", "u1"]);
            let killed = yard.world.run(command);
            let without_trial = checked_out && matches!(*step, "scratch" | "tested");
            assert_eq!(
                killed.code,
                if without_trial { 0 } else { 137 },
                "{step}: {}",
                killed.stderr
            );
            let _ = yard.merge(&["u1"]).ok();
            assert!(is_in(&yard, "new"), "{step}");
            assert_eq!(yard.landings("u1"), 1, "{step}");
            let merges = yard
                .world
                .git(&yard.repo(), ["rev-list", "--count", "--merges", "main"]);
            assert_eq!(
                merges.trim(),
                if checked_out { "0" } else { "1" },
                "{step}: it landed twice"
            );
            let issue = yard.jit(["issue", "show", "WI-001", "--json"]).ok().json();
            assert_eq!(issue["state"], "done", "{step}");
            assert_eq!(yard.phase("u1")["state"], "MERGED", "{step}");
            let listed = yard.world.git(&yard.repo(), ["worktree", "list", "--porcelain"]);
            let left = matches!(
                *step,
                "scratch" | "tested" | "moving" | "moved" | "recorded" | "closed"
            );
            assert!(!listed.contains("scratch") || left, "{step}: {listed}");
            yard.world.validates();
        }
    }
}
