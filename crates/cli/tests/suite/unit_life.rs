//! What happens to units on the way that nobody plans: work after the landing, moved worktrees, work that comes back, kills.

use std::fs;
use std::path::{Path, PathBuf};

use jit_testkit::world::tools::{field, without};
use jit_testkit::world::{Ran, World};
use serde_json::{Value, json};

use crate::landing::{JIT, WHO, Yard};
use crate::running;

pub fn world() -> World {
    let world = World::with_jit(JIT);
    commit(&world, &world.repo(), "a.txt", "a\n");
    world
}

pub fn commit(world: &World, dir: &Path, name: &str, text: &str) {
    fs::write(dir.join(name), text).expect("a file");
    world.git(dir, ["add", name]);
    world.git(dir, ["commit", "-q", "-m", name]);
}

/// A unit that jit made.
pub fn create(world: &World, args: &[&str]) -> PathBuf {
    let words = ["worktree", "create"].iter().chain(args).chain(&["--json"]);
    let unit = world.jit(words).ok().json();
    PathBuf::from(unit["worktree_path"].as_str().expect("a path"))
}

pub fn unit(world: &World, name: &str) -> Value {
    world.jit(["worktree", "status", name, "--json"]).ok().json()
}

pub fn on_main(world: &World, name: &str) -> Option<String> {
    let mut git = world.command("git", &world.repo());
    git.args(["cat-file", "blob", &format!("refs/heads/main:{name}")]);
    let ran = world.run(git);
    (ran.code == 0).then_some(ran.stdout)
}

/// A command as jit told it, in a shell where `jit` is known.
pub fn shell(world: &World, command: &str) -> Ran {
    let mut sh = world.command("sh", &world.repo());
    let own = Path::new(JIT).parent().expect("a folder").display();
    let path = std::env::var("PATH").unwrap_or_default();
    sh.args(["-c", command])
        .env("PATH", format!("{own}:{path}"))
        .env("GIT_EDITOR", "echo back >");
    world.run(sh)
}

pub fn verdicts(report: &Value) -> Vec<&str> {
    field(&report["units"], "verdict")
}

fn count(world: &World, kind: &str) -> usize {
    let events = world.events();
    events.iter().filter(|event| event["type"] == kind).count()
}

#[test]
fn g1_what_is_committed_after_a_landing_lands_by_the_same_command() {
    let yard = Yard::new();
    let _ = yard.jit(["issue", "create", "Do it", "--id", "WI-001"]).ok();
    let path = yard.unit_for("u1", Some("WI-001"));
    yard.write(&path, "first", "first\n");
    yard.commit(&path, "first");
    let before = yard.main();
    assert_eq!(verdicts(&yard.merge(&["u1"]).ok().json()), ["landed"]);
    assert_eq!(
        verdicts(&yard.merge(&["--all"]).ok().json()),
        [""; 0],
        "nothing is new"
    );
    yard.write(&path, "second", "second\n");
    yard.commit(&path, "second");
    let status = || yard.jit(["worktree", "status", "u1", "--json"]).ok().json();
    let now = status()["unsettled"].as_str().unwrap_or_default().to_owned();
    assert!(now.contains("jit finish u1"), "{now}");
    // A look changes nothing.
    assert_eq!(verdicts(&yard.merge(&["u1", "--dry-run"]).ok().json()), ["clean"]);
    assert_eq!(status()["state"], "MERGED");
    let ran = yard.jit(["finish", "u1", "--json"]);
    assert_eq!(verdicts(&ran.ok().json()), ["landed"]);
    assert_eq!(yard.on_main("second").as_deref(), Some("second\n"));
    let issue = yard.jit(["issue", "show", "WI-001", "--json"]).ok().json();
    assert_eq!(issue["state"], "done");
    assert_eq!(yard.landings("u1"), 2);
    assert!(!path.exists(), "it is cleaned up as usual");
    yard.world.validates();
    // All of it, where the target was moved back; but not with everything else.
    let path = yard.done("u2", "third", "third\n");
    assert_eq!(verdicts(&yard.merge(&["u2"]).ok().json()), ["landed"]);
    yard.world
        .git(&yard.repo(), ["update-ref", "refs/heads/main", &before]);
    assert_eq!(verdicts(&yard.merge(&["--all"]).ok().json()), [""; 0]);
    yard.write(&path, "fourth", "fourth\n");
    yard.commit(&path, "fourth");
    assert_eq!(verdicts(&yard.merge(&["--all"]).ok().json()), ["landed"]);
    yard.world
        .git(&yard.repo(), ["update-ref", "refs/heads/main", &before]);
    assert_eq!(verdicts(&yard.merge(&["u2"]).ok().json()), ["landed"]);
    assert_eq!(yard.on_main("third").as_deref(), Some("third\n"));
}

#[test]
fn g1_what_landed_is_known_though_the_target_went_on_with_it() {
    let yard = Yard::new();
    yard.configure("[merge]\nstrategy = \"squash\"");
    let path = yard.done("u1", "file", "one\n");
    assert_eq!(verdicts(&yard.merge(&["u1"]).ok().json()), ["landed"]);
    yard.push_to_main("file", "two, by a person\n");
    let main = yard.main();
    assert_eq!(verdicts(&yard.merge(&["u1"]).ok().json()), ["already_landed"]);
    assert_eq!(yard.main(), main);
    // What is not committed is told.
    yard.write(&path, "loose", "loose\n");
    let ran = yard.jit(["worktree", "merge", "u1"]).ok();
    assert!(ran.stderr.contains("loose"), "{} {}", ran.stdout, ran.stderr);
}

/// A submodule in main and in a unit's worktree; its own repository is where it was cloned from.
pub fn with_submodule(yard: &Yard) -> PathBuf {
    let lib = yard.world.root().join("lib");
    yard.world
        .git(yard.world.root(), ["init", "-q", "-b", "main", "lib"]);
    yard.write(&lib, "lib.txt", "lib\n");
    yard.commit(&lib, "lib");
    let path = lib.display().to_string();
    let repo = yard.repo();
    let allow = ["-c", "protocol.file.allow=always"];
    yard.world.git(&repo, ["switch", "-q", "main"]);
    yard.world.git(
        &repo,
        allow.iter().chain(&["submodule", "add", "-q", &path, "sub"]),
    );
    yard.commit(&repo, "a submodule");
    yard.world.git(&repo, ["switch", "-q", "--detach"]);
    let unit = yard.unit("u1");
    yard.world.git(
        &unit,
        allow.iter().chain(&["submodule", "update", "-q", "--init"]),
    );
    unit
}

#[test]
fn h3_a_submodule_whose_commit_nobody_else_has_does_not_land() {
    let yard = Yard::new();
    let path = with_submodule(&yard);
    let sub = path.join("sub");
    yard.write(&sub, "new.txt", "new\n");
    yard.commit(&sub, "only here");
    yard.commit(&path, "points there");
    let before = yard.main();
    let refused = yard.merge(&["u1"]).exits(6).json();
    assert_eq!(refused["error"]["code"], "check_failed", "{refused}");
    assert_eq!(yard.main(), before);
    assert_eq!(yard.phase("u1")["state"], "READY", "nothing has begun");
    // What is told works.
    let help = refused["error"]["help"][0].as_str().expect("help").to_owned();
    assert!(
        help.contains("push origin HEAD:refs/heads/u1") || help.contains(" push "),
        "{help}"
    );
    // Also when its files are put away.
    yard.world.git(&path, ["submodule", "deinit", "-q", "-f", "sub"]);
    let refused = yard.merge(&["u1"]).exits(6).json();
    assert_eq!(refused["error"]["code"], "check_failed", "{refused}");
    let help = refused["error"]["help"][0].as_str().expect("help").to_owned();
    let _ = shell(&yard.world, &help).ok();
    assert_eq!(verdicts(&yard.merge(&["u1"]).ok().json()), ["landed"]);
    // Where it is not checked out, nobody can tell.
    let path = yard.unit("u2");
    let oid = yard.rev(&yard.repo(), "HEAD");
    let entry = format!("160000,{oid},sub");
    yard.world
        .git(&path, ["update-index", "--add", "--cacheinfo", &entry]);
    yard.world.git(&path, ["commit", "-q", "-m", "somewhere"]);
    let ran = yard.jit(["worktree", "merge", "u2"]).ok();
    assert!(ran.stderr.contains("submodule sub"), "{}", ran.stderr);
}

#[test]
fn g16_a_worktree_that_was_moved_is_found_again() {
    let world = world();
    let old = create(&world, &["u"]);
    commit(&world, &old, "new.txt", "new\n");
    let [first, second, third] = ["first", "second", "third"].map(|name| world.root().join(name));
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    world.git(&world.repo(), ["worktree", "move", &text(&old), &text(&first)]);
    assert_eq!(unit(&world, "u")["worktree_path"], text(&first));
    let orphans = world.jit(["worktree", "prune", "--settle", "--json"]).ok().json();
    assert_eq!(orphans["orphans"], json!([]));
    // By hand, and told to git; then only by hand.
    fs::rename(&first, &second).expect("moved");
    world.git(&world.repo(), ["worktree", "repair", &text(&second)]);
    let found = world.jit(["worktree", "status", &text(&second), "--json"]).ok();
    assert_eq!(found.json()["worktree_path"], text(&second));
    fs::rename(&second, &third).expect("moved");
    let listed = world.jit_in(&third, ["worktree", "status", "--json"]).ok().json();
    assert_eq!(listed["units"][0]["worktree_path"], text(&third));
    assert_eq!(count(&world, "unit.worktree_moved"), 3, "each once");
    // Git does not forget it.
    world.git(&world.repo(), ["worktree", "prune"]);
    let report = world.jit_in(&third, ["finish", "--json"]).ok().json();
    assert_eq!(verdicts(&report), ["landed"]);
    assert_eq!(on_main(&world, "new.txt").as_deref(), Some("new\n"));
    let _ = world.jit(["worktree", "cleanup", "u"]).ok();
    assert!(!third.exists());
    world.validates();
}

#[test]
fn g16_another_worktree_in_the_old_place_is_not_taken_for_it() {
    let world = world();
    let old = create(&world, &["u"]);
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let new = world.root().join("elsewhere");
    world.git(&world.repo(), ["worktree", "move", &text(&old), &text(&new)]);
    world.git(
        &world.repo(),
        ["worktree", "add", "-q", "-b", "other", &text(&old)],
    );
    let _ = world.jit_in(&old, ["worktree", "init"]).ok();
    assert_eq!(unit(&world, "u")["worktree_path"], text(&new));
    let _ = world.jit(["worktree", "abandon", "u", "--reason", "x"]).ok();
    assert!(old.join("a.txt").exists() && !new.exists());
}

#[test]
fn h7_rescued_work_comes_back_and_lands_by_the_commands_that_are_told() {
    let world = world();
    let _ = world.jit(["issue", "create", "Work", "--id", "WORK-1"]).ok();
    for what in ["plain", "WORK-1"] {
        let path = create(&world, &[what]);
        let id = path
            .file_name()
            .expect("a name")
            .to_str()
            .expect("UTF-8")
            .to_owned();
        let [kept, loose] = ["kept", "loose"].map(|name| format!("{id}-{name}"));
        commit(&world, &path, &kept, "kept\n");
        fs::write(path.join(&loose), "loose\n").expect("a file");
        let gone = world
            .jit(["worktree", "abandon", &id, "--reason", "a crash", "--json"])
            .ok()
            .json();
        let rescue = gone["rescue"].as_str().expect("a rescue").to_owned();
        let restored = world.jit(["rescue", "restore", &rescue, "--json"]).ok().json();
        let next = restored["next"].as_array().expect("commands").clone();
        assert_eq!(next.len(), 3, "{restored}");
        let shown = world.jit(["rescue", "show", &rescue, "--json"]).ok().json();
        assert_eq!(shown["next"].as_array().map(Vec::len), Some(3), "{shown}");
        for command in next {
            let command = command.as_str().expect("a command").to_owned();
            let ran = shell(&world, &command);
            assert_eq!(ran.code, 0, "{command}: {} {}", ran.stdout, ran.stderr);
        }
        for (name, text) in [(&kept, "kept\n"), (&loose, "loose\n")] {
            assert_eq!(on_main(&world, name).as_deref(), Some(text));
        }
        assert!(path.join(&kept).exists(), "what was restored stays");
    }
    let issue = world.jit(["issue", "show", "WORK-1", "--json"]).ok().json();
    assert_eq!(issue["state"], "done");
    world.validates();
}

#[test]
fn h7_rescued_commits_land_without_being_restored_first() {
    let world = world();
    let path = create(&world, &["u"]);
    commit(&world, &path, "kept", "kept\n");
    let gone = world
        .jit(["worktree", "abandon", "u", "--reason", "a crash", "--json"])
        .ok()
        .json();
    let rescue = gone["rescue"].as_str().expect("a rescue").to_owned();
    let shown = world.jit(["rescue", "show", &rescue, "--json"]).ok().json();
    let next: Vec<&str> = shown["next"]
        .as_array()
        .expect("commands")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(next[0], format!("jit rescue restore {rescue}"));
    let _ = shell(&world, next[1]).ok();
    // Killed after the target moved: it is known again.
    let mut finish = world.jit_command(&world.repo());
    finish.env("JIT_TEST_DIE_AT", "moved").args(["finish", "u"]);
    let _ = world.run(finish).exits(137);
    assert_eq!(unit(&world, "u")["state"], "MERGING");
    let report = world.jit(["finish", "u", "--json"]).ok().json();
    assert_eq!(verdicts(&report), ["already_landed"]);
    assert_eq!(on_main(&world, "kept").as_deref(), Some("kept\n"));
}

#[test]
fn h3_a_unit_without_work_does_not_bring_back_what_the_target_gave_up() {
    let yard = Yard::new();
    let before = yard.main();
    yard.push_to_main("bad", "bad\n");
    let path = yard.unit("u1");
    yard.world
        .git(&yard.repo(), ["update-ref", "refs/heads/main", &before]);
    let report = yard.merge(&["u1"]).exits(6).json();
    assert_eq!(verdicts(&report), ["nothing"]);
    assert_eq!(yard.main(), before);
    // With work of its own it is somebody's decision.
    yard.write(&path, "good", "good\n");
    yard.commit(&path, "good");
    assert_eq!(verdicts(&yard.merge(&["u1"]).ok().json()), ["landed"]);
}

#[test]
fn g3_what_jit_brought_into_a_worktree_is_in_nobodys_way() {
    let world = world();
    let repo = world.repo();
    // The link is no folder, so this does not ignore it; jit does.
    commit(&world, &repo, ".gitignore", "node_modules/\n");
    fs::write(repo.join(".env"), "SECRET=1\n").expect("a file");
    fs::create_dir_all(repo.join("node_modules/x")).expect("folders");
    fs::create_dir_all(repo.join("conf")).expect("folders");
    fs::write(repo.join("conf/local"), "local\n").expect("a file");
    let files = "[\".env\", \"node_modules = symlink\", \"conf/local\"]";
    let _ = world
        .jit(["config", "set", "--user", "worktree.files", files])
        .ok();
    let path = create(&world, &["u"]);
    commit(&world, &path, "new", "new\n");
    let untracked = world.git(&path, ["status", "--porcelain"]);
    assert_eq!(untracked, "?? .env\n?? conf/\n");
    // Something of the unit's own is work.
    fs::write(path.join("conf/own"), "own\n").expect("a file");
    let refused = world.jit(["finish", "u", "--json"]).exits(5).json();
    assert_eq!(refused["error"]["code"], "uncommitted", "{refused}");
    fs::remove_file(path.join("conf/own")).expect("gone");
    let report = world.jit(["finish", "u", "--json"]).ok().json();
    assert_eq!(verdicts(&report), ["landed"]);
    assert!(!path.exists(), "what main has too is not kept: {report}");
    assert!(repo.join("node_modules/x").is_dir());
    // One that was changed is.
    let path = create(&world, &["v"]);
    commit(&world, &path, "newer", "newer\n");
    fs::write(path.join(".env"), "SECRET=2\n").expect("a file");
    let report = world.jit(["finish", "v", "--json"]).ok().json();
    assert_eq!(verdicts(&report), ["landed"]);
    assert!(path.join(".env").exists());
    let refused = world.jit(["worktree", "cleanup", "v", "--json"]).exits(5).json();
    assert!(refused.to_string().contains("untracked: .env"), "{refused}");
}

/// A removal that a full disk cut short, and what goes on with it when there is room again.
#[cfg(target_os = "linux")]
fn goes_on(again: &[&str]) {
    if without("strace") {
        return;
    }
    let world = world();
    let path = create(&world, &["u"]);
    commit(&world, &path, "new", "new\n");
    let _ = world.jit(["worktree", "merge", "u"]).ok();
    fs::write(path.join("precious"), "precious\n").expect("a file");
    let way = [
        "strace",
        "-f",
        "-qq",
        "-o/dev/null",
        "-etrace=link,linkat,rename",
        "-einject=link,linkat,rename:error=ENOSPC",
    ];
    let words = ["worktree", "cleanup", "u", "--force", "--json"];
    let ran = world.run(world.jit_by_way_of(&way, WHO, words));
    assert_ne!(ran.code, 0, "{ran:?}");
    let help = ran.json()["error"]["help"].to_string();
    assert!(help.contains("jit worktree cleanup u --force"), "{help}");
    assert_eq!(unit(&world, "u")["state"], "CLEANUP");
    assert!(path.join("precious").exists());
    let told = world.jit(["worktree", "prune"]).ok().stdout;
    assert!(told.contains("jit worktree cleanup u"), "{told}");
    let _ = world.jit(again).ok();
    assert_eq!(unit(&world, "u")["state"], "IDLE", "{again:?}");
    assert!(!path.exists(), "{again:?}");
    let kept = world.jit(["rescue", "list", "--json"]).ok().stdout;
    assert!(kept.contains("precious"), "{kept}");
}

#[cfg(target_os = "linux")]
#[test]
fn h7_a_removal_that_a_full_disk_cut_short_goes_on_by_the_same_command() {
    goes_on(&["worktree", "cleanup", "u"]);
}

#[cfg(target_os = "linux")]
#[test]
fn h7_a_removal_that_a_full_disk_cut_short_goes_on_by_giving_the_unit_up() {
    goes_on(&["worktree", "abandon", "u", "--reason", "x"]);
}

#[cfg(target_os = "linux")]
#[test]
fn h7_a_removal_that_a_full_disk_cut_short_goes_on_by_a_prune() {
    goes_on(&["worktree", "prune", "--settle"]);
}

#[test]
fn h3_what_killed_landings_left_is_swept_and_nothing_of_the_living() {
    let yard = Yard::new();
    yard.configure("[merge]\nvalidate = [\"true\"]");
    let scratch = yard.world.control().join("scratch");
    let _ = yard.done("u1", "a", "a\n");
    let mut killed = yard.world.jit_command(&yard.repo());
    killed
        .env("JIT_TEST_DIE_AT", "scratch")
        .args(["worktree", "merge", "u1"]);
    let _ = yard.world.run(killed).exits(137);
    let listed = || yard.world.git(&yard.repo(), ["worktree", "list", "--porcelain"]);
    assert!(listed().contains("scratch"), "{}", listed());
    let folder = |name: &str| {
        let path = scratch.join(name);
        fs::create_dir_all(path.join("objects")).expect("a folder");
        path
    };
    let left = folder("jit-tree-00000000000000aa");
    let used = folder("jit-tree-00000000000000bb");
    let held = fs::File::open(&used).expect("a folder");
    held.lock_shared().expect("a lock");
    let orphans = yard.jit(["worktree", "prune", "--json"]).ok().json();
    assert!(!orphans.to_string().contains("scratch"), "{orphans}");
    assert!(!listed().contains("scratch"), "{}", listed());
    assert!(!left.exists() && used.exists());
    let left = folder("jit-tree-00000000000000cc");
    drop(held);
    assert_eq!(verdicts(&yard.merge(&["u1"]).ok().json()), ["landed"]);
    assert!(!left.exists() && !used.exists());
    yard.is_tidy();
}

#[test]
fn g2_branches_that_cannot_stand_beside_each_other_are_refused_with_what_to_do() {
    let world = world();
    world.git(&world.repo(), ["branch", "jit"]);
    let refused = world.jit(["worktree", "create", "u", "--json"]).exits(2).json();
    let message = refused["error"]["message"].to_string();
    assert!(
        message.contains("branch jit,") && !message.contains("fatal"),
        "{message}"
    );
    let help = refused["error"]["help"].clone();
    assert!(
        help[0].as_str().is_some_and(|text| text.contains("--branch")),
        "{help}"
    );
    let _ = shell(&world, help[1].as_str().expect("a command")).ok();
    let made = world.jit(["worktree", "create", "u", "--json"]).ok().json();
    assert_eq!(made["branch"], "jit-u");
    world.git(&world.repo(), ["branch", "deep/er"]);
    let refused = world
        .jit(["worktree", "create", "v", "--branch", "deep", "--json"])
        .exits(2)
        .json();
    assert!(refused.to_string().contains("deep/er"), "{refused}");
    assert_eq!(
        world.jit(["worktree", "status", "--json"]).ok().json()["units"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

#[test]
fn c1_several_values_of_the_hooks_folder_are_refused_with_what_to_do() {
    let world = world();
    for value in [".husky", ".githooks"] {
        world.git(&world.repo(), ["config", "--add", "core.hooksPath", value]);
    }
    let refused = world.jit(["hooks", "install", "--json"]).exits(2).json();
    let message = refused["error"]["message"].to_string();
    assert!(message.contains("several values"), "{message}");
    let _ = shell(&world, refused["error"]["help"][0].as_str().expect("help")).ok();
    let _ = world.jit(["hooks", "install"]).ok();
}

#[test]
fn g1_a_unit_that_is_over_is_not_made_again_by_a_retry() {
    let world = world();
    let path = create(&world, &["u"]);
    let _ = world.jit(["worktree", "abandon", "u", "--reason", "x"]).ok();
    let refused = world.jit(["worktree", "retry", "u", "--json"]).exits(2).json();
    assert_eq!(refused["error"]["code"], "bad_transition", "{refused}");
    assert!(!path.exists());
    assert_eq!(world.git(&world.repo(), ["branch", "--list", "jit/*"]), "");
}

#[test]
fn g1_what_cannot_be_tried_again_is_not_told_to_be() {
    let yard = Yard::new();
    yard.configure("[merge]\nvalidate = [\"false\"]");
    let _ = yard.done("u1", "a", "a\n");
    for n in 0..4 {
        let report = yard.merge(&["u1"]).exits(6).json();
        let help = report["units"][0]["help"][0].as_str().expect("help").to_owned();
        if n < 3 {
            assert_eq!(help, "jit worktree retry u1");
            let _ = shell(&yard.world, &help).ok();
        } else {
            assert_ne!(help, "jit worktree retry u1");
        }
    }
    let refused = yard.merge(&["u1"]).exits(2).json();
    let help = refused["error"]["help"].to_string();
    assert!(help.contains("jit worktree abandon u1"), "{refused}");
    let again = yard.jit(["worktree", "retry", "u1", "--json"]).exits(5).json();
    assert_eq!(again["error"]["code"], "not_allowed", "{again}");
    // Nobody is kept from mending it by hand.
    let path = yard.world.root().join("u1");
    for name in ["b", "c"] {
        yard.write(&path, name, "mended\n");
        yard.commit(&path, name);
        let _ = yard.jit(["worktree", "retry", "u1"]).ok();
        let report = yard.merge(&["u1"]).exits(6).json();
        assert_eq!(verdicts(&report), ["validation_failed"]);
        let _ = yard.jit(["worktree", "retry", "u1"]).exits(5);
    }
    yard.world.validates();
}

#[test]
fn g2_a_creation_that_was_killed_goes_on() {
    let world = world();
    let mark = world.root().join("killed");
    let step = format!(
        "test -e '{0}' || {{ touch '{0}'; kill -9 $PPID; }}; touch made",
        mark.display()
    );
    let steps = serde_json::to_string(&[step]).expect("JSON");
    let _ = world
        .jit(["config", "set", "--user", "worktree.provision", &steps])
        .ok();
    let _ = world.jit(["worktree", "create", "u"]).exits(137);
    assert_eq!(unit(&world, "u")["state"], "PROVISIONING");
    // Whose it is matters: nobody else goes on with it.
    let _ = world.jit_as("agent:other", ["worktree", "create", "u"]).exits(2);
    let path = create(&world, &["u"]);
    assert_eq!(unit(&world, "u")["state"], "READY");
    assert!(path.join("made").exists() && path.join("a.txt").exists());
    world.validates();
}

#[test]
fn g9_an_agent_has_no_say_about_another_agents_unit() {
    let world = world();
    let _ = world.jit(["issue", "create", "Work", "--id", "WORK-1"]).ok();
    let _ = world.jit_as("agent:a", ["worktree", "create", "WORK-1"]).ok();
    let words = ["worktree", "abandon", "work-1", "--reason", "mine now", "--json"];
    let refused = world.jit_as("agent:b", words).exits(5).json();
    assert_eq!(refused["error"]["code"], "not_holder", "{refused}");
    // An agent program is not even asked who it is.
    let stop = ["worktree", "stop", "work-1", "--json"];
    for words in [&words[..], &stop] {
        let mut jit = world.jit_command(&world.repo());
        jit.env("CLAUDECODE", "1").args(words);
        let refused = world.run(jit).exits(5).json();
        assert_eq!(refused["error"]["code"], "not_holder", "{words:?}: {refused}");
    }
    assert_eq!(unit(&world, "work-1")["state"], "READY");
    let _ = world.jit_as("agent:a", words).ok();
}

#[test]
fn g8_a_worktree_that_is_gone_when_its_agent_ends_is_told() {
    let yard = running::Yard::with_script(
        "cd / && rm -rf \"$JIT_WORKTREE\"\necho '{\"kind\":\"result\",\"verdict\":{\"is_error\":false,\"reason\":\"completed\",\"text\":\"done\"}}'",
    );
    let world = &yard.world;
    let path = create(world, &["u"]);
    let agent = yard.agent().display().to_string();
    let words = ["worktree", "dispatch", "u", "--wait", "--prompt", "go"];
    let ran = world.jit(words.iter().chain(&["--agent", "command", "--command", &agent]));
    assert_eq!(ran.code, 6, "{} {}", ran.stdout, ran.stderr);
    let unit = unit(world, "u");
    assert_eq!(unit["error"]["reason"], "worktree_gone", "{unit}");
    // Another attempt has one again.
    let _ = world.jit(["worktree", "retry", "u"]).ok();
    assert!(path.join(".git").exists());
}

#[test]
fn h3_a_unit_whose_worktree_is_not_there_does_not_land() {
    let world = world();
    let path = create(&world, &["u"]);
    commit(&world, &path, "new.txt", "new\n");
    fs::write(path.join("loose.txt"), "loose\n").expect("a file");
    let moved = world.root().join("moved");
    fs::rename(&path, &moved).expect("moved");
    for words in [
        &["finish", "u", "--json"][..],
        &["worktree", "merge", "u", "--json"],
    ] {
        let refused = world.jit(words).exits(5).json();
        assert_eq!(refused["error"]["code"], "uncommitted", "{refused}");
        let help = refused["error"]["help"].to_string();
        for command in [
            "worktree repair",
            "jit worktree retry u",
            "jit worktree abandon u",
        ] {
            assert!(help.contains(command), "{help}");
        }
    }
    assert_eq!(on_main(&world, "new.txt"), None);
    world.git(
        &world.repo(),
        ["worktree", "repair", moved.to_str().expect("UTF-8")],
    );
    let refused = world.jit(["finish", "u"]).exits(5);
    assert!(refused.stderr.contains("loose.txt"), "{}", refused.stderr);
    commit(&world, &moved, "loose.txt", "loose\n");
    let _ = world.jit(["finish", "u"]).ok();
    assert_eq!(on_main(&world, "loose.txt").as_deref(), Some("loose\n"));
    world.validates();
}

#[test]
fn h7_a_worktree_that_is_gone_is_made_again_and_what_was_staged_is_kept() {
    let world = world();
    for (n, command) in ["retry", "abandon"].into_iter().enumerate() {
        let name = format!("u{n}");
        let path = create(&world, &[&name]);
        commit(&world, &path, &format!("{name}.txt"), "new\n");
        let staged = format!("staged {name}\n");
        fs::write(path.join("staged.txt"), &staged).expect("a file");
        world.git(&path, ["add", "staged.txt"]);
        fs::remove_dir_all(&path).expect("a folder");
        let _ = match command {
            "retry" => world.jit(["worktree", "retry", &name]).ok(),
            _ => world.jit(["worktree", "abandon", &name, "--reason", "x"]).ok(),
        };
        world.git(&world.repo(), ["gc", "-q", "--prune=now"]);
        let list = world.jit(["rescue", "list", "--json"]).ok().json();
        let id = field(&list["rescues"], "id")
            .into_iter()
            .find(|id| id.starts_with(&name))
            .expect("a rescue")
            .to_owned();
        let kept = format!("refs/jit/rescue/{id}/index:staged.txt");
        assert_eq!(world.git(&world.repo(), ["show", &kept]), staged);
        let to = world.root().join(format!("back-{name}"));
        let to = to.to_str().expect("UTF-8");
        let branch = format!("back-{name}");
        let _ = world
            .jit(["rescue", "restore", &id, "--to", to, "--branch", &branch])
            .ok();
        let file = Path::new(to).join("staged.txt");
        assert_eq!(fs::read_to_string(file).expect("a file"), staged);
        let status = world.git(Path::new(to), ["status", "--porcelain"]);
        assert_eq!(status, "A  staged.txt\n");
        if command == "retry" {
            assert_eq!(unit(&world, &name)["state"], "READY");
            let _ = world.jit(["finish", &name]).ok();
            assert_eq!(on_main(&world, "u0.txt").as_deref(), Some("new\n"));
        }
    }
    world.validates();
}
