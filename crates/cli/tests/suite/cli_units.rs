//! Units of work from the command line: making worktrees (G2, G3, G16), `jit start` (I6).

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::{fs, thread};

use jit_testkit::world::World;
use jit_testkit::world::tools::long;
use serde_json::{Value, json};

const JIT: &str = env!("CARGO_BIN_EXE_jit");

fn world() -> World {
    let world = World::with_jit(JIT);
    let repo = world.repo();
    fs::write(repo.join("a.txt"), "a\n").expect("a file");
    world.git(&repo, ["add", "-A"]);
    world.git(&repo, ["commit", "-q", "-m", "begin"]);
    world
}

fn create(world: &World, args: &[&str]) -> jit_testkit::world::Ran {
    world.jit(["worktree", "create"].iter().chain(args).chain(&["--json"]))
}

fn kinds(world: &World) -> Vec<String> {
    let name = |event: &Value| event["type"].as_str().unwrap_or_default().to_owned();
    world.events().iter().map(name).collect()
}

#[test]
fn g2_a_worktree_beside_the_checkout_on_a_branch_of_its_own() {
    let world = world();
    let unit = create(&world, &["try-it"]).ok().json();
    let path = world.root().join("repo-worktrees/try-it");
    assert_eq!(unit["id"], "try-it");
    assert_eq!(unit["state"], "READY");
    assert_eq!(unit["worktree_path"], path.to_str().expect("text"));
    assert_eq!(unit["branch"], "jit/try-it");
    assert_eq!(unit["target"], "main");
    assert_eq!(unit["merge_status"], "pending");
    for field in [
        "agent",
        "pid",
        "session_id",
        "dispatch_time",
        "cost_usd",
        "error",
        "issue_id",
    ] {
        assert_eq!(unit[field], Value::Null, "{field} is there, and null");
    }
    assert_eq!(
        world.git(&path, ["rev-parse", "--abbrev-ref", "HEAD"]).trim(),
        "jit/try-it"
    );
    assert_eq!(world.git(&path, ["status", "--porcelain"]), "");
    assert_eq!(world.git(&world.repo(), ["status", "--porcelain"]), "");
    // The shared configuration was not written: nothing is tracked.
    assert!(
        !fs::read_to_string(world.repo().join(".git/config"))
            .expect("a file")
            .contains("try-it")
    );
    assert_eq!(
        world.jit_in(&path, ["worktree", "status", "--json"]).ok().json()["units"][0]["id"],
        "try-it"
    );
    assert_eq!(
        world.jit(["worktree", "path", "jit/try-it"]).ok().stdout.trim(),
        path.to_str().expect("text")
    );
    world.validates();
}

#[test]
fn g2_an_issue_is_claimed_and_the_claim_moves_into_the_worktree() {
    let world = world();
    let _ = world.jit(["issue", "create", "Work", "--id", "WORK-1"]).ok();
    let unit = world
        .jit_as("agent:a", ["worktree", "create", "WORK-1", "--json"])
        .ok()
        .json();
    assert_eq!(unit["id"], "work-1");
    assert_eq!(unit["issue_id"], "WORK-1");
    let lease = world.jit(["claim", "list", "--json"]).ok().json()["active"][0].clone();
    assert_eq!(lease["agent_id"], "agent:a");
    assert_eq!(lease["worktree_id"], unit["worktree_id"]);
    assert_eq!(lease["branch"], "jit/work-1");
    // Nobody else gets it, and nothing is left of the attempt.
    let before = kinds(&world);
    let refused = world
        .jit_as("agent:b", ["worktree", "create", "WORK-1", "--json"])
        .exits(4)
        .json();
    assert!(
        matches!(refused["error"]["code"].as_str(), Some("held" | "exists")),
        "{refused}"
    );
    assert_eq!(kinds(&world), before);
}

#[test]
fn g2_bad_places_and_names_are_refused_and_nothing_is_left() {
    let world = world();
    let repo = world.repo();
    fs::create_dir(world.root().join("there")).expect("a folder");
    world.git(&repo, ["branch", "taken"]);
    let listed = || world.git(&repo, ["worktree", "list", "--porcelain"]);
    let (before, events) = (listed(), kinds(&world));
    for (args, code, word) in [
        (&["x", "--path", "inside"][..], 2, "inside"),
        (&["x", "--path", ".git/x"], 2, "inside"),
        (&["x", "--path", "../there"], 2, "exists"),
        (&["x", "--branch", "taken"], 2, "branch"),
        (&["x", "--branch", "bad..name"], 2, "branch"),
        (&["x", "--branch", "--evil"], 2, ""),
        (&["x", "--base", "no-such-rev"], 3, "no-such-rev"),
        (&["///"], 2, ""),
        (&[""], 2, ""),
    ] {
        let ran = create(&world, args).exits(code);
        assert!(ran.stdout.contains(word), "{args:?}: {}", ran.stdout);
    }
    assert_eq!(listed(), before);
    assert_eq!(kinds(&world), events, "a refusal writes nothing");
    let _ = create(&world, &["x"]).ok();
    let again = create(&world, &["x"]).exits(2);
    assert!(again.stdout.contains("exists"), "{}", again.stdout);
}

#[test]
fn g2_when_git_cannot_make_it_everything_is_as_before() {
    let world = world();
    let repo = world.repo();
    // git fails in the middle: a filter says no.
    fs::write(repo.join(".gitattributes"), "b.txt filter=no\n").expect("attributes");
    fs::write(repo.join("b.txt"), "b\n").expect("a file");
    world.git(&repo, ["add", "-A"]);
    world.git(&repo, ["commit", "-q", "-m", "filtered"]);
    for (key, value) in [("smudge", "false"), ("required", "true")] {
        world.git(&repo, ["config", "--global", &format!("filter.no.{key}"), value]);
    }
    let _ = world.jit(["issue", "create", "Work", "--id", "WORK-1"]).ok();
    let ran = world.jit_as("agent:a", ["worktree", "create", "WORK-1", "--json"]);
    assert_ne!(ran.code, 0);
    assert!(!world.root().join("repo-worktrees/work-1").exists());
    assert_eq!(world.git(&repo, ["branch", "--list", "jit/*"]), "");
    assert_eq!(
        world.jit(["claim", "list", "--json"]).ok().json()["active"],
        json!([])
    );
    assert_eq!(
        world.jit(["worktree", "status", "--json"]).ok().json()["units"],
        json!([])
    );
    world.git(&repo, ["config", "--global", "filter.no.smudge", "cat"]);
    let _ = world.jit_as("agent:a", ["worktree", "create", "WORK-1"]).ok();
}

#[test]
fn g3_files_that_git_does_not_bring_are_brought() {
    let world = world();
    let repo = world.repo();
    fs::write(repo.join(".gitignore"), ".env\nnode_modules/\ncache/\n*.local\n").expect("a file");
    fs::write(repo.join(".worktreeinclude"), "*.local\n").expect("a file");
    world.git(&repo, ["add", "-A"]);
    world.git(&repo, ["commit", "-q", "-m", "ignore"]);
    fs::write(repo.join(".env"), "SECRET=1\n").expect("a file");
    fs::write(repo.join("my.local"), "mine\n").expect("a file");
    fs::create_dir_all(repo.join("node_modules/x")).expect("folders");
    fs::write(repo.join("node_modules/x/index.js"), "x").expect("a file");
    fs::create_dir(repo.join("cache")).expect("a folder");
    fs::write(repo.join("cache/big"), "big").expect("a file");
    let _ = world
        .jit([
            "config",
            "set",
            "worktree.files",
            "[\".env\", \"node_modules = symlink\"]",
        ])
        .ok();
    let unit = create(&world, &["u"]).ok().json();
    let path = Path::new(unit["worktree_path"].as_str().expect("a path"));
    assert_eq!(
        fs::read_to_string(path.join(".env")).expect("a file"),
        "SECRET=1\n"
    );
    assert_eq!(
        fs::read_to_string(path.join("my.local")).expect("a file"),
        "mine\n"
    );
    assert!(path.join("node_modules").is_symlink());
    assert!(path.join("node_modules/x/index.js").exists());
    assert!(!path.join("cache").exists());
    // A pattern for folders alone does not mean the link.
    assert_eq!(world.git(path, ["status", "--porcelain"]), "");
}

#[test]
fn g3_a8_steps_run_once_approved_with_their_own_values_and_one_retry() {
    let world = world();
    let script = "test -e tried || { touch tried; exit 1; }; echo $JIT_UNIT $JIT_PORT > made; rm tried";
    let list = serde_json::to_string(&[script]).expect("JSON");
    fs::write(
        world.repo().join(".jit/config.toml"),
        format!("[worktree]\nprovision = {list}\n"),
    )
    .expect("a file");
    let refused = create(&world, &["u"]).exits(5).json();
    assert_eq!(refused["error"]["code"], "not_trusted");
    assert!(!world.root().join("repo-worktrees/u").exists());
    let _ = world.jit(["trust", "--yes"]).ok();
    let first = create(&world, &["u"]).ok().json();
    let second = create(&world, &["v"]).ok().json();
    assert!(first["provisioning_time_ms"].is_u64());
    let made = |unit: &Value| {
        let path = Path::new(unit["worktree_path"].as_str().expect("a path")).join("made");
        fs::read_to_string(path).expect("the step ran")
    };
    assert_eq!(made(&first), "u 20000\n");
    assert_eq!(made(&second), "v 20010\n");
    let env = world.jit(["worktree", "env", "v", "--json"]).ok().json();
    assert_eq!(env["env"]["JIT_PORT"], "20010");
}

#[test]
fn g3_a_step_that_fails_twice_fails_the_unit_and_can_be_tried_again() {
    let world = world();
    let gate = world.root().join("allowed");
    let list = serde_json::to_string(&[format!("test -e '{}'", gate.display())]).expect("JSON");
    fs::write(
        world.repo().join(".jit/config.toml"),
        format!("[worktree]\nprovision = {list}\n"),
    )
    .expect("a file");
    let _ = world.jit(["trust", "--yes"]).ok();
    let _ = create(&world, &["u"]).exits(6);
    let unit = world.jit(["worktree", "status", "u", "--json"]).ok().json();
    assert_eq!(unit["state"], "FAILED");
    assert_eq!(unit["error"]["reason"], "provisioning");
    assert_eq!(unit["error"]["exit_code"], 1);
    fs::write(&gate, "").expect("a file");
    let unit = world.jit(["worktree", "retry", "u", "--json"]).ok().json();
    assert_eq!(unit["state"], "READY");
    assert_eq!(unit["retry_count"], 1);
    assert_eq!(unit["error"], Value::Null);
}

#[test]
fn g16_a_full_disk_is_noticed_before_anything_is_made() {
    let world = world();
    let mut command = world.jit_command(&world.repo());
    command
        .env("JIT_CONFIG_WORKTREE__MIN_FREE_MB", "999999999")
        .args(["worktree", "create", "u", "--json"]);
    let ran = world.run(command).exits(1);
    assert!(ran.stdout.contains("room"), "{}", ran.stdout);
    assert!(!world.root().join("repo-worktrees").exists());
}

#[test]
fn g2_many_at_once_all_succeed() {
    let many = if long() { 30 } else { 8 };
    let world = world();
    thread::scope(|scope| {
        for n in 0..many {
            let world = &world;
            scope.spawn(move || create(world, &[&format!("u{n}")]).ok());
        }
    });
    let units = world.jit(["worktree", "status", "--json"]).ok().json()["units"].take();
    let units = units.as_array().expect("a list");
    assert_eq!(units.len(), many);
    let mut slots: Vec<u64> = units.iter().filter_map(|unit| unit["slot"].as_u64()).collect();
    slots.sort_unstable();
    slots.dedup();
    assert_eq!(slots.len(), many, "no two have the same ports");
    world.validates();
}

#[test]
fn g2_the_folder_of_worktrees_goes_with_the_last_one() {
    let world = world();
    let folder = world.root().join("repo-worktrees");
    let end = |name: &str| {
        let _ = world.jit(["worktree", "abandon", name, "--reason", "tried"]).ok();
    };
    for name in ["u1", "u2"] {
        let _ = create(&world, &[name]).ok();
    }
    end("u1");
    assert!(folder.join("u2").is_dir());
    end("u2");
    assert!(!folder.exists());
    // Not where somebody put something there.
    let _ = create(&world, &["u3"]).ok();
    fs::write(folder.join("notes"), "").expect("a file");
    end("u3");
    fs::remove_file(folder.join("notes")).expect("it is there");
    // Nor one that somebody else made.
    let own = world.root().join("own");
    fs::create_dir(&own).expect("a folder");
    let path = own.join("deep/u5");
    let _ = create(&world, &["u5", "--path", path.to_str().expect("text")]).ok();
    end("u5");
    assert_eq!(fs::read_dir(&own).expect("it is there").count(), 0);
    // Some make worktrees while others remove them.
    thread::scope(|scope| {
        for n in 0..3 {
            let (world, end) = (&world, &end);
            scope.spawn(move || {
                for round in 0..3 {
                    let name = format!("r{n}-{round}");
                    let _ = create(world, &[&name]).ok();
                    end(&name);
                }
            });
        }
    });
    let _ = create(&world, &["u6"]).ok();
    end("u6");
    assert!(!folder.exists());
    world.validates();
}

#[test]
fn g2_worktrees_of_a_submodule_lie_beside_what_it_is_part_of() {
    let world = world();
    let (repo, root) = (world.repo(), world.root());
    world.git(root, ["init", "-q", "-b", "main", "lib"]);
    world.git(&root.join("lib"), ["commit", "-q", "--allow-empty", "-m", "lib"]);
    let lib = root.join("lib").display().to_string();
    let add = ["-c", "protocol.file.allow=always", "submodule", "add", "-q"];
    world.git(&repo, add.iter().copied().chain([lib.as_str(), "vendor/lib"]));
    world.git(&repo, ["commit", "-q", "-m", "a submodule"]);
    let sub = repo.join("vendor/lib");
    let _ = world.jit_in(&sub, ["init"]).ok();
    let unit = world.jit_in(&sub, ["worktree", "create", "u1", "--json"]);
    let unit = unit.ok().json();
    let path = root.join("repo-vendor-lib-worktrees/u1");
    assert_eq!(unit["worktree_path"], path.to_str().expect("text"));
    let status = ["status", "--porcelain", "--ignore-submodules=all"];
    assert_eq!(world.git(&repo, status), "");
    // A repository that only lies in another checkout is nobody's part.
    world.git(&repo, ["init", "-q", "-b", "main", "inner"]);
    let inner = repo.join("inner");
    world.git(&inner, ["commit", "-q", "--allow-empty", "-m", "begin"]);
    let _ = world.jit_in(&inner, ["init"]).ok();
    let unit = world.jit_in(&inner, ["worktree", "create", "u1", "--json"]);
    let path = repo.join("inner-worktrees/u1");
    assert_eq!(unit.ok().json()["worktree_path"], path.to_str().expect("text"));
}

/// Git dies of a worktree that another git is just making, and gives as the reason whatever failed last.
#[test]
fn g2_a_worktree_in_the_making_elsewhere_is_waited_for() {
    let world = world();
    let _ = create(&world, &["first"]).ok();
    let record = world.repo().join(".git/worktrees/first/commondir");
    let said = fs::read_to_string(&record).expect("a file");
    fs::write(&record, "").expect("a file");
    // The other one gets further only after git failed for `worktree add`.
    let bin = world.root().join("bin");
    fs::create_dir(&bin).expect("a folder");
    let script = format!(
        "#!/bin/sh\nPATH=${{PATH#*:}}\ngit \"$@\" && exit 0\ncode=$?\ncase \"$*\" in *'worktree add'*)\n\
         printf '{said}' > '{record}'\n: > '{met}';;\nesac\nexit $code\n",
        said = said.trim_end(),
        record = record.display(),
        met = world.root().join("met").display(),
    );
    fs::write(bin.join("git"), script).expect("a file");
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).expect("a mode");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("PATH"));
    let mut command = world.jit_command(&world.repo());
    command
        .env("PATH", path)
        .args(["worktree", "create", "second", "--json"]);
    assert_eq!(world.run(command).ok().json()["state"], "READY");
    assert!(world.root().join("met").exists(), "git did fail once");
    world.validates();
}

#[test]
fn i6_start_claims_or_makes_the_issue_and_says_what_comes_next() {
    let world = world();
    let ran = world.jit(["start", "Parse some dates"]).ok();
    assert!(
        ran.stdout.contains("cd ") && ran.stdout.contains("jit finish"),
        "{}",
        ran.stdout
    );
    let issues = world.jit(["issue", "list", "--json"]).ok().json();
    assert_eq!(issues["issues"][0]["title"], "Parse some dates");
    assert_eq!(issues["issues"][0]["state"], "in_progress");
    let _ = world.jit(["start", "NOPE-1"]).exits(3);
    let _ = world.jit(["issue", "create", "Work", "--id", "WORK-1"]).ok();
    let unit = world.jit(["start", "WORK-1", "--json"]).ok().json();
    assert_eq!(unit["state"], "READY");
    assert_eq!(unit["issue_id"], "WORK-1");
}

#[test]
fn i6_start_again_leads_to_what_one_has() {
    let world = world();
    let _ = world.jit(["issue", "create", "Work", "--id", "WORK-1"]).ok();
    let made = world.jit(["start", "WORK-1", "--json"]).ok().json();
    let path = made["worktree_path"].as_str().expect("a path").to_owned();
    let before = kinds(&world);
    for dir in [world.repo(), path.clone().into()] {
        let again = world.jit_in(&dir, ["start", "WORK-1", "--json"]).ok();
        for field in ["id", "worktree_path", "branch", "state"] {
            assert_eq!(again.json()[field], made[field], "{field}");
        }
        let told = world.jit_in(&dir, ["start", "WORK-1"]).ok();
        assert!(told.stdout.contains(&format!("cd {path}")), "{}", told.stdout);
        assert!(told.stderr.contains("you have WORK-1 already"), "{}", told.stderr);
    }
    let refused = world
        .jit(["start", "WORK-1", "--base", "HEAD", "--json"])
        .exits(2);
    assert_eq!(refused.json()["error"]["help"][0], format!("cd {path}"));
    assert_eq!(kinds(&world), before, "nothing was done");
    let _ = world.jit_as("agent:b", ["start", "WORK-1"]).exits(4);
    // Whose worktree is gone is told how it comes back.
    fs::remove_dir_all(&path).expect("a folder");
    let refused = world.jit(["start", "WORK-1", "--json"]).exits(2).json();
    let help = refused["error"]["help"][0].clone();
    assert_eq!(help, "jit worktree retry work-1", "{refused}");
    let _ = world.jit(["worktree", "retry", "work-1"]).ok();
    let _ = world.jit(["start", "WORK-1"]).ok();
}

#[test]
fn i6_start_goes_on_where_it_was_killed() {
    let world = world();
    let mark = world.root().join("killed");
    let step = format!(
        "test -e '{0}' || {{ touch '{0}'; kill -9 $PPID; }}",
        mark.display()
    );
    let steps = serde_json::to_string(&[step]).expect("JSON");
    let _ = world
        .jit(["config", "set", "--user", "worktree.provision", &steps])
        .ok();
    let _ = world.jit(["issue", "create", "Work", "--id", "WORK-1"]).ok();
    let _ = world.jit(["start", "WORK-1"]).exits(137);
    let made = world.jit(["start", "WORK-1", "--json"]).ok().json();
    assert_eq!(made["state"], "READY", "{made}");
}

#[test]
fn g1_the_documentation_shows_the_machine_as_it_is() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/worktrees.md");
    let page = fs::read_to_string(page).expect("a page");
    assert!(
        page.contains(&jit_core::model::unit::table()),
        "docs/worktrees.md: the table is not up to date"
    );
    assert!(
        page.contains(&jit_core::model::unit::diagram()),
        "docs/worktrees.md: the picture is not up to date"
    );
}

#[test]
fn g16_what_does_not_fit_together_is_shown_and_settled_on_demand() {
    let world = world();
    let unit = create(&world, &["gone"]).ok().json();
    let path = unit["worktree_path"].as_str().expect("a path");
    let _ = world.worktree("by-hand");
    fs::remove_dir_all(path).expect("gone");
    let shown = world.jit(["worktree", "prune", "--json"]).ok().json();
    let whats: Vec<(&Value, &Value)> = shown["orphans"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| (&one["unit"], &one["settled"]))
        .collect();
    assert_eq!(whats.len(), 2, "{shown}");
    assert_eq!(whats[0], (&json!("gone"), &json!(false)));
    let settled = world.jit(["worktree", "prune", "--settle", "--json"]).ok().json();
    assert_eq!(settled["orphans"][0]["settled"], true);
    assert_eq!(
        world.jit(["worktree", "status", "--json"]).ok().json()["units"],
        json!([])
    );
    assert!(
        world
            .git(&world.repo(), ["branch", "--list", "jit/gone"])
            .contains("jit/gone")
    );
}
