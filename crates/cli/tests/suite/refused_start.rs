//! I6, G4: a refused `jit start` or dispatch leaves nothing: no issue, no claim, no worktree, no branch.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use jit_testkit::world::World;

use crate::landing::JIT;
use crate::unit_life::{create, unit, world};

fn issues(world: &World) -> usize {
    let listed = world.jit(["issue", "list", "--json"]).ok().json();
    listed["issues"].as_array().map_or(0, Vec::len)
}

#[test]
fn i6_a_start_with_an_agent_that_cannot_be_started_leaves_nothing() {
    let world = world();
    let _ = world.jit(["issue", "create", "Work", "--id", "WORK-1"]).ok();
    let events = world.events().len();
    for (agent, said) in [
        (&["--agent", "nobody"][..], "there is no agent"),
        (&["--agent", "command", "--command", "/not/there"], "/not/there"),
        (
            &["--agent", "command", "--command", "no-such-program-anywhere"],
            "no-such-program",
        ),
        (&["--agent", "command"], "which command"),
    ] {
        for what in ["WORK-1", "Some new title"] {
            let refused = world.jit(["start", what].iter().chain(agent)).exits(2);
            assert!(refused.stderr.contains(said), "{}", refused.stderr);
        }
    }
    assert_eq!(world.events().len(), events, "nothing was claimed or created");
    assert_eq!(world.git(&world.repo(), ["branch", "--list", "jit/*"]), "");
    assert!(!world.root().join("repo-worktrees").exists());
}

#[test]
fn g4_a_unit_stays_ready_when_its_agent_cannot_be_started() {
    let world = world();
    let _ = create(&world, &["u"]);
    let words = [
        "worktree",
        "dispatch",
        "u",
        "--agent",
        "command",
        "--command",
        "/not/there",
    ];
    let refused = world.jit(words).exits(2);
    assert!(refused.stderr.contains("/not/there"), "{}", refused.stderr);
    let now = unit(&world, "u");
    assert_eq!(now["state"], "READY", "{now}");
    assert_eq!(now["attempt"], 0, "{now}");
}

#[test]
fn g1_a_script_whose_interpreter_is_missing_leaves_the_unit_ready() {
    let world = world();
    let events = world.events().len();
    let write = |path: &std::path::Path| {
        fs::write(path, "#!/no/interp\n").expect("a script");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a mode");
    };
    // With an absolute path, before anything is created.
    let bad = world.root().join("bad");
    write(&bad);
    let command = ["--agent", "command", "--command"];
    let start = ["start", "new thing"].iter().chain(&command);
    let refused = world.jit(start.chain(&[bad.to_str().expect("text")])).exits(2);
    assert!(refused.stderr.contains("could be started"), "{}", refused.stderr);
    assert_eq!(world.events().len(), events, "nothing was claimed or created");
    // With a relative one, which is known once the worktree is there: all is taken back.
    write(&world.repo().join("bad"));
    world.git(&world.repo(), ["add", "bad"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "bad"]);
    let before = issues(&world);
    let start = ["start", "new thing"].iter().chain(&command);
    let _ = world.jit(start.chain(&["./bad"])).exits(2);
    assert_eq!(issues(&world), before);
    let claims = world.jit(["claim", "list", "--json"]).ok().json();
    assert_eq!(claims["active"].as_array().map(Vec::len), Some(0), "{claims}");
    assert_eq!(world.git(&world.repo(), ["branch", "--list", "jit/*"]), "");
    // In a unit that is there already.
    let tree = create(&world, &["u"]);
    write(&tree.join("bad"));
    let dispatch = ["worktree", "dispatch", "u"].iter().chain(&command);
    let _ = world.jit(dispatch.chain(&["./bad"])).exits(2);
    let now = unit(&world, "u");
    assert_eq!(
        (&now["state"], &now["attempt"]),
        (&"READY".into(), &0.into()),
        "{now}"
    );
}

#[test]
fn i6_a_start_that_can_have_no_worktree_creates_no_issue() {
    // Outside of git.
    let world = World::new(JIT);
    let folder = world.root().join("plain");
    fs::create_dir(&folder).expect("a folder");
    let _ = world.jit_in(&folder, ["init"]).ok();
    let refused = world.jit_in(&folder, ["start", "Some new title"]);
    assert_ne!(refused.code, 0, "{}", refused.stdout);
    let listed = world.jit_in(&folder, ["issue", "list", "--json"]).ok().json();
    assert_eq!(listed["issues"].as_array().map(Vec::len), Some(0), "{listed}");
    // Without the commit to begin at.
    let _ = world.jit(["init"]).ok();
    let _ = world
        .jit(["start", "Some new title", "--base", "nowhere"])
        .exits(3);
    assert_eq!(issues(&world), 0);
    // A file is where its worktree would be: found only after the issue has its id.
    fs::write(world.root().join("repo-worktrees"), "mine\n").expect("a file");
    let refused = world.jit(["start", "Some new title"]);
    assert_ne!(refused.code, 0, "{}", refused.stdout);
    assert_eq!(issues(&world), 0, "{}", refused.stderr);
    assert!(
        !refused.stderr.contains("jit worktree create"),
        "{}",
        refused.stderr
    );
    let claims = world.jit(["claim", "list", "--json"]).ok().json();
    assert_eq!(claims["active"].as_array().map(Vec::len), Some(0), "{claims}");
}
