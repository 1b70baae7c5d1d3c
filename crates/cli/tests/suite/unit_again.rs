//! Units that go on after something: a squash, a kill, a folder that is gone, a branch that is.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use jit_testkit::world::tools::field;

use crate::landing::{WHO, Yard};
use crate::unit_life::{commit, create, on_main, shell, unit, verdicts, with_submodule, world};
use crate::{rescuing, running};

/// A landing that squashes, of a unit that changed the first line of `file`.
fn squashed() -> (Yard, std::path::PathBuf) {
    let yard = Yard::new();
    yard.configure("[merge]\nstrategy = \"squash\"");
    let path = yard.unit("u1");
    let text = fs::read_to_string(path.join("file")).expect("a file");
    yard.write(&path, "file", &text.replace("line 1\n", "first\n"));
    yard.write(&path, "new", "new\n");
    yard.commit(&path, "work");
    assert_eq!(verdicts(&yard.merge(&["u1"]).ok().json()), ["landed"]);
    (yard, path)
}

#[test]
fn h3_what_takes_squashed_work_back_lands() {
    let (yard, path) = squashed();
    yard.push_to_main("theirs", "theirs\n");
    yard.world.git(&path, ["revert", "--no-edit", "HEAD"]);
    let status = yard.jit(["worktree", "status", "u1", "--json"]).ok().json();
    assert!(status["unsettled"].to_string().contains("jit finish"), "{status}");
    // Nor is it thrown away unasked.
    let refused = yard.jit(["worktree", "cleanup", "u1", "--json"]).exits(5).json();
    assert_eq!(refused["error"]["code"], "work_left", "{refused}");
    assert_eq!(verdicts(&yard.merge(&["u1"]).ok().json()), ["landed"]);
    assert_eq!(yard.on_main("new"), None);
    assert_eq!(yard.on_main("theirs").as_deref(), Some("theirs\n"));
    assert!(
        yard.on_main("file")
            .is_some_and(|text| text.starts_with("line 1\n"))
    );
    assert_eq!(verdicts(&yard.merge(&["u1"]).ok().json()), ["already_landed"]);
    // And what takes that back, in one commit with something else.
    yard.world.git(&path, ["revert", "--no-edit", "HEAD"]);
    yard.write(&path, "more", "more\n");
    yard.commit(&path, "more");
    assert_eq!(verdicts(&yard.merge(&["--all"]).ok().json()), ["landed"]);
    assert_eq!(yard.on_main("new").as_deref(), Some("new\n"));
    assert_eq!(yard.on_main("more").as_deref(), Some("more\n"));
    assert_eq!(yard.landings("u1"), 3);
    yard.world.validates();
}

#[test]
fn h3_squashed_work_that_is_changed_once_more_is_no_conflict_with_itself() {
    let (yard, path) = squashed();
    let text = fs::read_to_string(path.join("file")).expect("a file");
    yard.write(&path, "file", &text.replace("first\n", "better\n"));
    yard.commit(&path, "better");
    assert_eq!(verdicts(&yard.merge(&["u1", "--dry-run"]).ok().json()), ["clean"]);
    let picture = yard.jit(["conflicts", "--json"]).ok().json();
    assert_eq!(picture["conflicts"], serde_json::json!([]), "{picture}");
    // One that was built on top of it does not meet it either.
    let above = yard.world.root().join("above");
    let words = ["worktree", "create", "above", "--base", "u1", "--path"];
    let _ = yard.jit(words.iter().copied().chain(above.to_str())).ok();
    yard.write(&above, "file", &text.replace("first\n", "best\n"));
    yard.commit(&above, "best");
    let report = yard.merge(&["u1", "above"]).ok().json();
    assert_eq!(verdicts(&report), ["landed", "landed"], "{report}");
    assert!(
        yard.on_main("file")
            .is_some_and(|text| text.starts_with("best\n"))
    );
    // A conflict with somebody else is one, and can be settled as it is told.
    yard.write(&path, "new", "mine\n");
    yard.commit(&path, "mine");
    yard.push_to_main("new", "theirs\n");
    let report = yard.merge(&["u1"]).exits(6).json();
    let clashes = field(&report["units"][0]["conflicts"], "path");
    assert_eq!(clashes, ["new"], "{report}");
    let help = report["units"][0]["help"][0].as_str().expect("help").to_owned();
    let _ = shell(&yard.world, &help);
    assert_eq!(
        yard.world.git(&path, ["diff", "--name-only", "--diff-filter=U"]),
        "new\n"
    );
    yard.write(&path, "new", "both\n");
    yard.commit(&path, "settled");
    let report = yard.merge(&["u1", "--continue"]).ok().json();
    assert_eq!(verdicts(&report), ["landed"]);
    assert_eq!(yard.on_main("new").as_deref(), Some("both\n"));
    assert!(
        yard.on_main("file")
            .is_some_and(|text| text.starts_with("best\n"))
    );
}

#[test]
fn h3_a_unit_has_landed_with_the_squashed_one_that_was_built_on_it() {
    let yard = Yard::new();
    yard.configure("[merge]\nstrategy = \"squash\"");
    let parent = yard.unit("p");
    yard.write(&parent, "bad", "bad\n");
    yard.write(&parent, "good", "good\n");
    yard.commit(&parent, "both");
    let make = |name: &str| {
        let path = yard.world.root().join(name);
        let words = ["worktree", "create", name, "--base", "p", "--path"];
        let _ = yard.jit(words.iter().copied().chain(path.to_str())).ok();
        path
    };
    let (child, other) = (make("c"), make("d"));
    yard.world.git(&child, ["rm", "-q", "bad"]);
    yard.commit(&child, "not bad");
    yard.write(&other, "good", "better\n");
    yard.commit(&other, "better");
    // What others write there is no name, or the name of nothing.
    let repo = yard.repo();
    yard.world.git(&repo, ["switch", "-q", "main"]);
    for name in ["--all", "HEAD", &"12".repeat(20)] {
        let message = format!("other\n\nJIT-Squashed: {name}");
        yard.world
            .git(&repo, ["commit", "-q", "--allow-empty", "-m", &message]);
    }
    yard.world.git(&repo, ["switch", "-q", "--detach"]);
    assert_eq!(verdicts(&yard.merge(&["c"]).ok().json()), ["landed"]);
    let with = yard.main();
    for words in [&["p", "--dry-run"][..], &["p"], &["p"]] {
        let report = yard.merge(words).ok().json();
        assert_eq!(verdicts(&report), ["already_landed"], "{report}");
        assert_eq!(report["units"][0]["merge_commit"], with.as_str(), "{report}");
    }
    assert_eq!(yard.main(), with);
    assert_eq!(yard.on_main("bad"), None, "it was removed");
    // Nothing of it is left that would have to be kept.
    let cleaned = yard.jit(["worktree", "cleanup", "p", "--json"]).ok().json();
    assert_eq!(cleaned["state"], "IDLE", "{cleaned}");
    // Another one that goes on from it brings only its own.
    assert_eq!(verdicts(&yard.merge(&["d"]).ok().json()), ["landed"]);
    assert_eq!(yard.on_main("bad"), None);
    assert_eq!(yard.on_main("good").as_deref(), Some("better\n"));
    yard.world.validates();
}

/// Anybody can write that something was squashed.
#[test]
fn h7_work_is_not_on_the_target_because_a_message_says_so() {
    let yard = Yard::new();
    let path = yard.unit_for("u1", None);
    yard.write(&path, "mine", "mine\n");
    yard.commit(&path, "mine");
    let tip = yard.world.git(&path, ["rev-parse", "HEAD"]);
    let repo = yard.world.repo();
    let message = format!("other\n\nJIT-Squashed: {}", tip.trim());
    yard.world
        .git(&repo, ["commit", "-q", "--allow-empty", "-m", &message]);
    let done = yard
        .jit(["worktree", "abandon", "u1", "--reason", "no use", "--json"])
        .ok()
        .json();
    let rescue = done["rescue"].as_str().expect("it was kept").to_owned();
    let shown = yard.jit(["rescue", "show", &rescue, "--json"]).ok().json();
    assert!(
        field(&shown["work"], "kind").contains(&"commit"),
        "it counts as work: {shown}"
    );
}

/// A unit whose maker was killed while its worktree was made ready.
fn half_made(world: &jit_testkit::world::World, name: &str) {
    let mark = world.root().join(format!("killed-{name}"));
    let step = format!(
        "test -e '{0}' || {{ touch '{0}'; kill -9 $PPID; }}; touch made",
        mark.display()
    );
    let steps = serde_json::to_string(&[step]).expect("JSON");
    let _ = world
        .jit(["config", "set", "--user", "worktree.provision", &steps])
        .ok();
    let _ = world.jit(["worktree", "create", name]).exits(137);
    assert_eq!(unit(world, name)["state"], "PROVISIONING");
}

#[test]
fn g2_a_unit_whose_making_was_killed_can_be_given_up_or_tried_again() {
    let world = world();
    half_made(&world, "u");
    let refused = world.jit(["finish", "u", "--json"]).exits(2).json();
    assert_eq!(refused["error"]["help"][0], "jit worktree retry u", "{refused}");
    let refused = world.jit(["worktree", "cleanup", "u", "--json"]).exits(2).json();
    assert_eq!(refused["error"]["help"][0], "jit worktree retry u", "{refused}");
    let told = world.jit(["worktree", "prune"]).ok().stdout;
    assert!(told.contains("jit worktree retry u"), "{told}");
    let _ = world.jit(["worktree", "retry", "u"]).ok();
    assert_eq!(unit(&world, "u")["state"], "READY");
    half_made(&world, "v");
    let path = unit(&world, "v")["worktree_path"]
        .as_str()
        .expect("a path")
        .to_owned();
    fs::write(Path::new(&path).join("loose"), "loose\n").expect("a file");
    let _ = world.jit(["worktree", "abandon", "v", "--reason", "x"]).ok();
    assert_eq!(unit(&world, "v")["state"], "IDLE");
    assert!(!Path::new(&path).exists());
    let kept = world.jit(["rescue", "list", "--json"]).ok().stdout;
    assert!(kept.contains("loose"), "{kept}");
    // Something else is where it was begun.
    half_made(&world, "x");
    let path = unit(&world, "x")["worktree_path"]
        .as_str()
        .expect("a path")
        .to_owned();
    fs::remove_dir_all(&path).expect("a folder");
    fs::write(&path, "mine\n").expect("a file");
    let refused = world.jit(["worktree", "retry", "x", "--json"]);
    let refused = refused.exits(2).json();
    assert_eq!(refused["error"]["code"], "exists", "{refused}");
    let help = refused["error"]["help"][1].as_str().expect("help").to_owned();
    let _ = shell(&world, &help).ok();
    assert_eq!(unit(&world, "x")["state"], "READY");
    // Nothing is there of it at all.
    half_made(&world, "w");
    let path = unit(&world, "w")["worktree_path"]
        .as_str()
        .expect("a path")
        .to_owned();
    fs::remove_dir_all(&path).expect("a folder");
    let _ = world.jit(["worktree", "prune", "--settle"]).ok();
    assert_eq!(unit(&world, "w")["state"], "IDLE");
    let listed = world.git(&world.repo(), ["worktree", "list", "--porcelain"]);
    assert!(!listed.contains(&path), "{listed}");
    assert_eq!(world.git(&world.repo(), ["branch", "--list", "jit/w"]), "");
    world.validates();
}

#[test]
fn g1_a_unit_whose_landing_was_killed_says_how_it_goes_on() {
    let yard = Yard::new();
    let _ = yard.done("u1", "a", "a\n");
    let mut killed = yard.world.jit_command(&yard.repo());
    killed
        .env("JIT_TEST_DIE_AT", "begun")
        .args(["worktree", "merge", "u1"]);
    let _ = yard.world.run(killed).exits(137);
    for words in [
        &["worktree", "retry", "u1", "--json"][..],
        &["worktree", "cleanup", "u1", "--json"],
    ] {
        let refused = yard.jit(words).exits(2).json();
        assert_eq!(refused["error"]["help"][0], "jit worktree merge u1", "{refused}");
    }
    let told = yard.jit(["worktree", "prune"]).ok().stdout;
    assert!(told.contains("jit worktree merge u1"), "{told}");
    assert_eq!(verdicts(&yard.merge(&["u1"]).ok().json()), ["landed"]);
}

/// A landing of a unit that was killed there; then its target got another name.
fn killed_and_renamed(step: &str) -> Yard {
    let yard = Yard::new();
    let _ = yard.done("u1", "a", "a\n");
    let mut killed = yard.world.jit_command(&yard.repo());
    killed
        .env("JIT_AGENT_ID", WHO)
        .env("JIT_TEST_DIE_AT", step)
        .args(["worktree", "merge", "u1"]);
    let _ = yard.world.run(killed).exits(137);
    assert_eq!(yard.phase("u1")["state"], "MERGING");
    yard.world.git(&yard.repo(), ["branch", "-m", "main", "trunk"]);
    yard
}

#[test]
fn g1_a_killed_landing_goes_on_where_its_target_has_another_name() {
    let yard = killed_and_renamed("begun");
    yard.world.git(&yard.repo(), ["switch", "-q", "trunk"]);
    for words in [
        &["finish", "u1", "--json"][..],
        &["worktree", "merge", "u1", "--json"],
    ] {
        let refused = yard.jit(words).exits(3).json();
        let help = refused["error"]["help"][0].as_str().expect("help");
        assert!(help.starts_with("jit worktree merge u1 --into "), "{refused}");
    }
    let report = yard.merge(&["u1", "--into", "trunk"]).ok().json();
    assert_eq!(verdicts(&report), ["landed"]);
    assert_eq!(yard.world.git(&yard.repo(), ["show", "trunk:a"]), "a\n");
    // Nor is what landed there work that nobody has.
    let _ = yard.jit(["worktree", "cleanup", "u1"]).ok();
    assert_eq!(yard.phase("u1")["state"], "IDLE");
}

#[test]
fn g1_a_killed_landing_can_be_given_up_unless_it_has_landed() {
    let give_up = ["worktree", "abandon", "u1", "--reason", "no use", "--json"];
    let yard = killed_and_renamed("begun");
    // Somebody lands, and who can tell what.
    let locks = yard.world.control().join("locks");
    let lock = fs::read_dir(&locks)
        .expect("locks")
        .map(|entry| entry.expect("a lock").path())
        .find(|path| path.to_string_lossy().contains("/land-"))
        .expect("the lock of its target");
    let lock = fs::File::open(lock).expect("a lock");
    lock.lock().expect("locked");
    let refused = yard.jit(give_up).exits(4).json();
    assert_eq!(refused["error"]["code"], "busy", "{refused}");
    assert_eq!(yard.phase("u1")["state"], "MERGING");
    drop(lock);
    let done = yard.jit(give_up).ok().json();
    assert!(done["rescue"].is_string(), "its commit is kept: {done}");
    assert_eq!(yard.phase("u1")["state"], "IDLE");
    // This one had come to its target before.
    let yard = killed_and_renamed("moved");
    let refused = yard.jit(give_up).exits(2).json();
    assert_eq!(
        refused["error"]["help"][0], "jit worktree cleanup u1",
        "{refused}"
    );
    assert_eq!(yard.phase("u1")["state"], "MERGED");
    assert_eq!(yard.landings("u1"), 1);
    yard.world.validates();
}

#[test]
fn g1_what_is_mended_on_the_target_may_be_tried_again() {
    let yard = Yard::new();
    yard.configure("[merge]\nvalidate = [\"test -e mended\"]");
    let _ = yard.done("u1", "a", "a\n");
    for _ in 0..3 {
        let _ = yard.merge(&["u1"]).exits(6);
        let _ = yard.jit(["worktree", "retry", "u1"]).ok();
    }
    let report = yard.merge(&["u1"]).exits(6).json();
    let help = report["units"][0]["help"].to_string();
    assert!(help.contains("there or on main"), "{report}");
    let refused = yard.jit(["worktree", "retry", "u1", "--json"]).exits(5).json();
    let message = refused["error"]["message"].to_string();
    assert!(message.contains("or on main since"), "{refused}");
    yard.push_to_main("mended", "mended\n");
    let _ = yard.jit(["worktree", "retry", "u1"]).ok();
    assert_eq!(verdicts(&yard.merge(&["u1"]).ok().json()), ["landed"]);
    yard.world.validates();
}

#[test]
fn h3_a_checkout_of_the_target_gets_the_submodules_commit_too() {
    let yard = Yard::new();
    let path = with_submodule(&yard);
    let repo = yard.repo();
    yard.world.git(&repo, ["switch", "-q", "main"]);
    let (ours, theirs) = (repo.join("sub"), path.join("sub"));
    let bump = |text: &str| {
        yard.write(&theirs, "lib.txt", text);
        let commit = yard.commit(&theirs, text);
        yard.world
            .git(&theirs, ["push", "-q", "origin", "HEAD:refs/heads/next"]);
        yard.commit(&path, text);
        commit
    };
    let land = || yard.jit(["worktree", "merge", "u1"]).ok().stderr;
    let status = || yard.world.git(&repo, ["status", "--porcelain", "--", "sub"]);
    let fetch = || yard.world.git(&ours, ["fetch", "-q", "origin"]);
    // The commit is not there yet.
    let first = bump("first\n");
    let told = land();
    let command = told
        .split("; ")
        .find(|part| part.starts_with("git -C "))
        .expect(&told);
    fetch();
    let _ = shell(&yard.world, command.lines().next().expect("a command")).ok();
    assert_eq!((yard.rev(&ours, "HEAD"), status()), (first, String::new()));
    // It is.
    let second = bump("second\n");
    fetch();
    let told = land();
    assert!(!told.contains("submodule"), "{told}");
    assert_eq!(
        (yard.rev(&ours, "HEAD"), status()),
        (second.clone(), String::new())
    );
    // Somebody works there.
    bump("third\n");
    fetch();
    yard.write(&ours, "lib.txt", "mine\n");
    let told = land();
    assert!(told.contains("submodule update -- sub"), "{told}");
    assert_eq!(yard.rev(&ours, "HEAD"), second);
    assert_eq!(
        fs::read_to_string(ours.join("lib.txt")).ok().as_deref(),
        Some("mine\n")
    );
}

#[test]
fn g4_no_agent_is_started_where_the_worktree_is_gone() {
    let yard = running::Yard::with_script("true");
    let world = &yard.world;
    let path = create(world, &["u"]);
    fs::remove_dir_all(&path).expect("a folder");
    let agent = yard.agent().display().to_string();
    let words = [
        "worktree", "dispatch", "u", "--json", "--prompt", "go", "--agent", "command",
    ];
    let refused = world.jit(words.iter().chain(&["--command", &agent]));
    let refused = refused.exits(5).json();
    let help = refused["error"]["help"].to_string();
    assert!(help.contains("jit worktree retry u"), "{refused}");
    let now = unit(world, "u");
    assert_eq!((&now["state"], &now["attempt"]), (&"READY".into(), &0.into()));
}

#[test]
fn h3_commits_beside_the_branch_and_branches_that_are_gone_are_told_with_what_helps() {
    let yard = Yard::new();
    let path = yard.done("u1", "a", "a\n");
    // Committed on no branch.
    yard.world.git(&path, ["switch", "-q", "--detach"]);
    yard.write(&path, "b", "b\n");
    yard.commit(&path, "beside");
    let next = |code: i32| {
        let refused = yard.merge(&["u1"]).exits(code).json();
        refused["error"]["help"][0].as_str().expect("help").to_owned()
    };
    let help = next(5);
    assert!(help.contains(" branch -f u1 "), "{help}");
    let _ = shell(&yard.world, &help).ok();
    // Renamed, and deleted under the worktree.
    yard.world.git(&path, ["branch", "-m", "u1", "other"]);
    let help = next(3);
    let command = help
        .split_once(": ")
        .map_or(help.as_str(), |(_, command)| command);
    let _ = shell(&yard.world, command).ok();
    yard.world.git(&path, ["update-ref", "-d", "refs/heads/u1"]);
    let _ = shell(&yard.world, &next(3)).ok();
    assert_eq!(verdicts(&yard.merge(&["u1"]).ok().json()), ["landed"]);
    assert_eq!(yard.on_main("b").as_deref(), Some("b\n"));
}

#[test]
fn h5_what_cannot_be_sent_back_is_not_told_to_be() {
    let yard = Yard::new();
    yard.configure("[merge]\nmax_conflict_rounds = 0");
    let _ = yard.done("u1", "file", "mine\n");
    yard.push_to_main("file", "theirs\n");
    let report = yard.merge(&["u1"]).exits(6).json();
    let help = report["units"][0]["help"].to_string();
    assert!(
        !help.contains("--send-back") && help.contains("--continue"),
        "{help}"
    );
}

#[test]
fn g16_a_folder_in_the_place_of_a_worktree_stays_and_is_told() {
    let world = world();
    let path = create(&world, &["u"]);
    commit(&world, &path, "new.txt", "new\n");
    let elsewhere = world.root().join("elsewhere");
    fs::rename(&path, &elsewhere).expect("moved");
    // Nobody has heard of the new place.
    fs::create_dir_all(path.join("mine")).expect("a folder");
    let refused = world.jit(["worktree", "retry", "u", "--json"]).exits(2).json();
    let message = refused["error"]["message"].to_string();
    assert!(message.contains("not the worktree of u"), "{refused}");
    let help = refused["error"]["help"][1].as_str().expect("help").to_owned();
    let _ = shell(&world, &help).ok();
    let _ = world.jit(["finish", "u"]).ok();
    assert_eq!(on_main(&world, "new.txt").as_deref(), Some("new\n"));
    assert!(path.with_extension("aside").join("mine").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn g2_a_place_without_a_disk_is_not_a_full_one() {
    let world = world();
    let words = ["worktree", "create", "u", "--path", "/proc/u", "--json"];
    let refused = world.jit(words).exits(2).json();
    assert_eq!(refused["error"]["code"], "invalid", "{refused}");
}

#[test]
fn g16_a_worktree_that_is_gone_is_forgotten_by_git_and_what_was_staged_is_kept() {
    let world = world();
    let path = create(&world, &["u"]);
    fs::write(path.join("staged.txt"), "staged\n").expect("a file");
    world.git(&path, ["add", "staged.txt"]);
    fs::remove_dir_all(&path).expect("a folder");
    let _ = world.jit(["worktree", "prune", "--settle"]).ok();
    assert_eq!(unit(&world, "u")["state"], "IDLE");
    let listed = world.git(&world.repo(), ["worktree", "list", "--porcelain"]);
    assert!(!listed.contains(path.to_str().expect("UTF-8")), "{listed}");
    let list = world.jit(["rescue", "list", "--json"]).ok().json();
    let id = field(&list["rescues"], "id")[0].to_owned();
    let kept = format!("refs/jit/rescue/{id}/index:staged.txt");
    assert_eq!(world.git(&world.repo(), ["show", &kept]), "staged\n");
    let orphans = world.jit(["worktree", "prune", "--json"]).ok().json();
    assert_eq!(orphans["orphans"], serde_json::json!([]));
}

#[test]
fn h7_worktrees_are_removed_side_by_side() {
    let yard = Yard::new();
    for n in 0..6 {
        let _ = yard.done(&format!("u{n}"), &format!("f{n}"), "x\n");
    }
    let _ = yard.merge(&["u0", "u1", "u2"]).ok();
    let removals = (0..6).map(|n| {
        let mut jit = yard.world.jit_command(&yard.repo());
        let name = format!("u{n}");
        jit.env("JIT_AGENT_ID", WHO);
        match n {
            0..3 => jit.args(["worktree", "cleanup", &name]),
            _ => jit.args(["worktree", "abandon", &name, "--reason", "x"]),
        };
        jit.stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        jit.spawn().expect("a process")
    });
    let removals: Vec<_> = removals.collect();
    for one in removals {
        let ended = one.wait_with_output().expect("an end");
        assert!(
            ended.status.success(),
            "{}",
            String::from_utf8_lossy(&ended.stderr)
        );
    }
    for n in 0..6 {
        assert_eq!(yard.phase(&format!("u{n}"))["state"], "IDLE");
        assert!(!yard.world.root().join(format!("u{n}")).exists());
    }
    yard.world.validates();
}

#[test]
fn h7_a_unit_whose_removal_was_killed_says_how_it_goes_on() {
    let world = rescuing::world();
    let _ = rescuing::unit(&world, "u1", rescuing::TO_MERGED);
    let control = world.repo().join(".git/jit");
    rescuing::advance(&control, "u1", &[jit_core::model::unit::UnitInput::BeginCleanup]);
    let report = world.jit(["worktree", "merge", "u1", "--json"]).ok().json();
    assert_eq!(report["units"][0]["verdict"], "already_landed", "{report}");
    assert_eq!(
        report["units"][0]["help"][0], "jit worktree cleanup u1",
        "{report}"
    );
    let _ = world.jit(["worktree", "cleanup", "u1"]).ok();
}

#[test]
fn g16_a_worktree_that_git_has_forgotten_is_told_and_comes_back() {
    let world = world();
    let path = create(&world, &["u"]);
    commit(&world, &path, "new.txt", "new\n");
    fs::write(path.join("loose.txt"), "loose\n").expect("a file");
    fs::remove_dir_all(world.repo().join(".git/worktrees/u")).expect("git's folder");
    let told = world.jit(["worktree", "prune"]).ok().stdout;
    assert!(told.contains("git has forgotten"), "{told}");
    let settled = world.jit(["worktree", "prune", "--settle", "--json"]).ok();
    assert_eq!(settled.json()["orphans"][0]["settled"], false);
    assert!(path.join("loose.txt").exists(), "nothing of it is removed");
    let refused = world.jit(["finish", "u", "--json"]).exits(5).json();
    let help = refused["error"]["help"][0].as_str().expect("help").to_owned();
    assert!(told.contains(&help), "{told}{help}");
    let _ = shell(&world, &help).ok();
    let report = world.jit(["finish", "u", "--json"]).ok().json();
    assert_eq!(verdicts(&report), ["landed"]);
    assert_eq!(on_main(&world, "new.txt").as_deref(), Some("new\n"));
    let aside = path.with_file_name("u.aside");
    assert!(aside.join("loose.txt").exists(), "what was not committed is kept");
}

#[test]
fn g16_a_folder_that_was_left_before_it_was_locked_is_swept() {
    let world = world();
    let scratch = world.repo().join(".git/jit/scratch");
    let [old, young] = ["jit-new-tree-0", "jit-new-tree-1"].map(|name| scratch.join(name));
    for folder in [&old, &young] {
        fs::create_dir_all(folder).expect("a folder");
    }
    let then = std::time::SystemTime::now() - std::time::Duration::from_secs(120);
    let opened = fs::File::open(&old).expect("a folder");
    opened.set_modified(then).expect("a time");
    drop(opened);
    let _ = world.jit(["worktree", "prune"]).ok();
    assert!(!old.exists() && young.exists());
}

/// Whoever was killed while git wrote the refs of an entry leaves locks that nobody holds.
#[test]
fn h7_locks_that_a_killed_removal_left_are_in_no_way() {
    let world = world();
    let path = create(&world, &["u"]);
    fs::write(path.join("loose.txt"), "loose\n").expect("a file");
    let bin = world.root().join("bin");
    fs::create_dir_all(&bin).expect("a folder");
    let git = world.repo().join(".git");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *'update-ref -z --stdin'*)\n\
         for id in $(ls '{0}/jit/trash'); do mkdir -p '{0}/refs/jit/rescue/'$id; : > '{0}/refs/jit/rescue/'$id/entry.lock; done\n\
         kill -9 $PPID;;\nesac\nPATH=${{PATH#*:}} exec git \"$@\"\n",
        git.display()
    );
    fs::write(bin.join("git"), script).expect("a script");
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).expect("a mode");
    let words = ["worktree", "abandon", "u", "--reason", "x"];
    let mut killed = world.jit_command(&world.repo());
    let old = std::env::var("PATH").unwrap_or_default();
    killed.env("PATH", format!("{}:{old}", bin.display())).args(words);
    let _ = world.run(killed).exits(137);
    let locks = || {
        let mut find = world.command("find", &git.join("refs"));
        find.args([".", "-name", "*.lock"]);
        world.run(find).ok().stdout
    };
    assert!(locks().contains("entry.lock"), "{}", locks());
    let _ = world.jit(words).ok();
    assert_eq!(locks(), "");
    let kept = world.jit(["rescue", "list", "--json"]).ok().stdout;
    assert!(kept.contains("loose.txt"), "{kept}");
    world.validates();
}

/// Nobody has pushed it yet, and the target names it all the same.
#[test]
fn g2_a_submodules_commit_that_only_the_main_checkout_has_is_brought() {
    let yard = Yard::checked_out();
    let (world, repo) = (&yard.world, yard.repo());
    // Only by a file of this world's own: what git is told to be everybody's settings is not its to write.
    let settings = world.root().join("settings");
    fs::write(&settings, "[protocol \"file\"]\n\tallow = always\n").expect("a file");
    let allow = ["-c", "protocol.file.allow=always", "submodule"];
    let lib = world.root().join("lib");
    for (name, inner) in [("inner", None), ("lib", Some("inner"))] {
        world.git(world.root(), ["init", "-q", "-b", "main", name]);
        let dir = world.root().join(name);
        yard.write(&dir, "lib.txt", "lib\n");
        if let Some(inner) = inner {
            let from = world.root().join(inner).display().to_string();
            world.git(&dir, allow.iter().chain(&["add", "-q", &from, "deep"]));
        }
        yard.commit(&dir, "lib");
    }
    let from = lib.display().to_string();
    world.git(&repo, allow.iter().chain(&["add", "-q", &from, "sub"]));
    world.git(
        &repo,
        allow.iter().chain(&["update", "-q", "--init", "--recursive"]),
    );
    for (dir, name) in [("sub/deep", "deep.txt"), ("sub", "new.txt")] {
        yard.write(&repo.join(dir), name, "new\n");
        yard.commit(&repo.join(dir), "only here");
    }
    yard.commit(&repo, "names it");
    let mut create = world.jit_command(&repo);
    create
        .env("GIT_CONFIG_GLOBAL", &settings)
        .args(["worktree", "create", "u1", "--json"]);
    let made = world.run(create).ok().json();
    let path = Path::new(made["worktree_path"].as_str().expect("a path"));
    assert!(path.join("sub/new.txt").exists() && path.join("sub/deep/deep.txt").exists());
    assert_eq!(world.git(path, ["status", "--porcelain"]), "");
}
