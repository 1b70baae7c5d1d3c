//! `jit uninstall` (A1): everything jit made goes, nothing of value with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jit_testkit::world::World;
use serde_json::Value;

const JIT: &str = env!("CARGO_BIN_EXE_jit");

/// Every file below, with its content.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("folder").flatten() {
            let path = entry.path();
            match entry.file_type().expect("type").is_dir() {
                true => folders.push(path),
                false => {
                    let content = std::fs::read(&path).expect("read");
                    all.insert(path, content);
                }
            }
        }
    }
    all
}

/// What git says about a repository.
fn git_view(world: &World) -> [String; 2] {
    let repo = world.repo();
    [
        world.git(
            &repo,
            ["status", "--porcelain", "--ignored", "--untracked-files=all"],
        ),
        world.git(&repo, ["config", "--list", "--local"]),
    ]
}

fn kept(value: &Value) -> Vec<&str> {
    value["kept"]
        .as_array()
        .expect("kept")
        .iter()
        .filter_map(|left| left["path"].as_str())
        .collect()
}

#[test]
fn a1_init_and_uninstall_leave_the_repository_as_it_was() {
    let world = World::new(JIT);
    let _ = world.git(&world.repo(), ["status"]);
    let (before, tree) = (git_view(&world), files(&world.repo()));
    let _ = world.jit(["init"]).ok();
    assert_ne!(git_view(&world), before);
    let done = world.jit(["uninstall", "--yes", "--json"]).ok().json();
    assert_eq!(done["export"], Value::Null, "there was nothing to export");
    assert_eq!(kept(&done), [""; 0]);
    assert_eq!(git_view(&world), before);
    assert_eq!(files(&world.repo()), tree, "to the byte");
    let _ = world.jit(["issue", "list"]).exits(3);
}

#[test]
fn a1_a_configuration_that_does_not_end_in_a_newline_comes_back_so() {
    let world = World::new(JIT);
    let config = world.repo().join(".git/config");
    let mut before = std::fs::read_to_string(&config).expect("read");
    before.push_str("[user]\n\tname = x");
    std::fs::write(&config, &before).expect("write");
    let read = || std::fs::read_to_string(&config).expect("read");
    let _ = world.jit(["init"]).ok();
    let _ = world.jit(["init"]).ok();
    let _ = world.jit(["uninstall", "--yes"]).ok();
    assert_eq!(read(), before);
    // What somebody set meanwhile stays as git wrote it.
    let _ = world.jit(["init"]).ok();
    world.git(&world.repo(), ["config", "user.email", "x@example.org"]);
    let _ = world.jit(["uninstall", "--yes"]).ok();
    assert_eq!(read(), before + "\n\temail = x@example.org\n");
    assert!(!world.repo().join(".git/config.lock").exists());
}

#[test]
fn a1_gits_configuration_comes_back_to_the_byte_however_it_ends() {
    let endings = [
        "",
        "# a comment",
        "# a comment\n",
        "[user] ; who\n\tname = x\n# after\n",
        "[user]\n\tname = x\n\n\n",
        "[user]\r\n\tname = x\r\n",
        "[user]\n\tname = x",
        "[alias]\n\tx = !echo \\\n[jit]\\\n  done\n",
        "[x]\n\tpath = C:\\\\dir\\\\\n",
        "[x]\n\ty = z # \\\n",
    ];
    let world = World::new(JIT);
    let config = world.repo().join(".git/config");
    let own = std::fs::read_to_string(&config).expect("read");
    for start in [own.as_str(), ""] {
        for ending in endings {
            let before = format!("{start}{ending}");
            std::fs::write(&config, &before).expect("write");
            let mode = std::fs::metadata(&config).expect("a file").permissions();
            let _ = world.jit(["init"]).ok();
            let during = std::fs::read_to_string(&config).expect("read");
            assert!(during.contains("[merge \"jit-issue\"]"), "{during}");
            let _ = world.jit(["uninstall", "--yes"]).ok();
            let after = std::fs::read_to_string(&config).expect("read");
            assert_eq!(after, before, "{ending:?}");
            assert_eq!(std::fs::metadata(&config).expect("a file").permissions(), mode);
        }
    }
    // What somebody put beside it meanwhile stays, and nothing else.
    std::fs::write(&config, &own).expect("write");
    let _ = world.jit(["init"]).ok();
    world.git(&world.repo(), ["config", "merge.jit-issue.recursive", "binary"]);
    let mut text = std::fs::read_to_string(&config).expect("read");
    text.push_str("# mine\n[user]\n\tname = x\n");
    std::fs::write(&config, text).expect("write");
    let _ = world.jit(["uninstall", "--yes"]).ok();
    let after = std::fs::read_to_string(&config).expect("read");
    let left = "[merge \"jit-issue\"]\n\trecursive = binary\n# mine\n[user]\n\tname = x\n";
    assert_eq!(after, format!("{own}{left}"));
    assert!(!config.with_extension("lock").exists());
}

#[test]
fn a1_a_merge_driver_of_an_older_jit_goes_too() {
    let world = World::new(JIT);
    let config = world.repo().join(".git/config");
    let before = std::fs::read(&config).expect("read");
    let _ = world.jit(["init"]).ok();
    let former = "jit merge-driver %O %A %B %P";
    world.git(&world.repo(), ["config", "merge.jit-issue.driver", former]);
    let _ = world.jit(["uninstall", "--yes"]).ok();
    assert_eq!(std::fs::read(&config).expect("read"), before);
}

#[test]
fn a1_a_merge_driver_that_somebody_had_before_is_left_alone() {
    let world = World::new(JIT);
    let config = world.repo().join(".git/config");
    let mut before = std::fs::read_to_string(&config).expect("read");
    before.push_str("[merge \"jit-issue\"]\n\tname = mine\n\tdriver = my-own %A\n");
    std::fs::write(&config, &before).expect("write");
    let ran = world.jit(["init"]).ok();
    assert!(
        ran.stderr.contains("my-own %A") && ran.stderr.contains("git config merge.jit-issue.driver"),
        "{}",
        ran.stderr
    );
    let read = || std::fs::read_to_string(&config).expect("read");
    assert_eq!(read(), before);
    let done = world.jit(["uninstall", "--yes", "--json"]).ok().json();
    assert_eq!(kept(&done).len(), 2, "{done}");
    assert_eq!(read(), before);
}

#[test]
fn a1_issues_are_exported_and_can_be_imported_again() {
    let world = World::new(JIT);
    let before = git_view(&world);
    let linked = world.worktree("linked");
    let _ = world.jit(["init"]).ok();
    let _ = world
        .jit(["issue", "create", "One", "--id", "WI-1", "--description", "long"])
        .ok();
    let _ = world
        .jit([
            "issue",
            "create",
            "Two",
            "--id",
            "WI-2",
            "--depends-on",
            "WI-1",
            "--label",
            "x",
        ])
        .ok();
    let _ = world.jit_in(&linked, ["worktree", "init"]).ok();
    let _ = world.jit_in(&linked, ["issue", "comment", "WI-2", "hm"]).ok();
    // The copy in the linked worktree is older now.
    let _ = world
        .jit(["issue", "update", "WI-2", "--title", "Two and more"])
        .ok();
    let lines = world.jit(["issue", "export"]).ok().stdout;
    let done = world.jit(["uninstall", "--yes", "--json"]).ok().json();
    assert_eq!(kept(&done), [""; 0]);
    let export = PathBuf::from(done["export"].as_str().expect("a file"));
    assert_eq!(export.parent(), Some(&*world.repo().join(".git")));
    assert_eq!(std::fs::read_to_string(&export).expect("export"), lines);
    assert_eq!(git_view(&world), before);
    assert_eq!(world.git(&linked, ["status", "--porcelain", "--ignored"]), "");
    assert!(!linked.join(".jit").exists());
    let names: Vec<PathBuf> = files(&world.repo().join(".git")).into_keys().collect();
    let is_jits = |path: &&PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("jit"))
    };
    let jits: Vec<_> = names.iter().filter(is_jits).collect();
    assert_eq!(jits, [&export], "in no git directory is anything left");
    let _ = world.jit(["init"]).ok();
    let _ = world
        .jit([
            "issue",
            "import",
            "--from",
            "jsonl",
            export.to_str().expect("UTF-8"),
        ])
        .ok();
    assert_eq!(world.jit(["issue", "export"]).ok().stdout, lines);
}

#[test]
fn a1_what_is_committed_or_edited_stays_and_is_named() {
    let world = World::with_jit(JIT);
    let repo = world.repo();
    let _ = world.jit(["issue", "create", "One", "--id", "WI-1"]).ok();
    world.git(&repo, ["add", ".jit"]);
    world.git(&repo, ["commit", "-qm", "issues"]);
    let _ = world
        .jit(["issue", "create", "Two", "--id", "WI-2", "--description", "d"])
        .ok();
    std::fs::write(repo.join(".jit/gates/mine.toml"), "mine").expect("write");
    std::fs::write(repo.join(".jit/issues/WI-2/description.md"), b"not \xff UTF-8").expect("write");
    std::fs::write(repo.join(".git/jit/foreign"), "mine").expect("write");
    std::fs::write(repo.join(".git/jit-notes.txt"), "mine").expect("write");
    world.git(&repo, ["config", "merge.jit-issue.name", "my own"]);
    let done = world
        .jit(["uninstall", "--yes", "--json", "--export", "../out.jsonl"])
        .ok()
        .json();
    let names: Vec<String> = kept(&done).iter().map(|path| world.stable(path)).collect();
    assert_eq!(
        names,
        [
            "[WORLD]/repo/.jit/gates/mine.toml",
            "[WORLD]/repo/.jit/issues/WI-2/description.md",
            "merge.jit-issue.name in git's configuration",
            "[WORLD]/repo/.git/jit/foreign",
        ]
    );
    assert_eq!(
        std::fs::read_to_string(world.root().join("out.jsonl"))
            .expect("export")
            .lines()
            .count(),
        2
    );
    let status = world.git(&repo, ["status", "--porcelain", "--untracked-files=all"]);
    assert_eq!(
        status, "?? .jit/gates/mine.toml\n?? .jit/issues/WI-2/description.md\n",
        "nothing committed is gone"
    );
    assert!(repo.join(".jit/issues/WI-1/issue.json").exists());
    assert_eq!(
        std::fs::read_to_string(repo.join(".git/jit/foreign")).expect("foreign"),
        "mine"
    );
    assert!(repo.join(".git/jit-notes.txt").exists());
}

/// An issue is committed, and was changed after that.
fn changed_since() -> World {
    let world = World::with_jit(JIT);
    let repo = world.repo();
    let _ = world.jit(["issue", "create", "One", "--id", "WI-1"]).ok();
    world.git(&repo, ["add", ".jit"]);
    world.git(&repo, ["commit", "-qm", "issues"]);
    let _ = world.jit(["issue", "update", "WI-1", "--title", "Newer"]).ok();
    world
}

#[test]
fn a1_purge_tree_removes_what_is_committed_but_no_edit() {
    let world = changed_since();
    let repo = world.repo();
    std::fs::write(repo.join(".jit/config.toml"), "# mine\n").expect("write");
    let done = world
        .jit(["uninstall", "--yes", "--purge-tree", "--json"])
        .ok()
        .json();
    assert_eq!(kept(&done).len(), 1, "{done}");
    assert!(kept(&done)[0].ends_with(".jit/config.toml"));
    let left: Vec<PathBuf> = files(&repo.join(".jit")).into_keys().collect();
    assert_eq!(left, [repo.join(".jit/config.toml")]);
    let export = std::fs::read_to_string(done["export"].as_str().expect("a file")).expect("export");
    assert!(export.contains("Newer"), "{export}");
}

#[test]
fn a1_purge_tree_keeps_edits_that_git_was_told_not_to_look_at() {
    let world = World::with_jit(JIT);
    let repo = world.repo();
    std::fs::write(repo.join(".jit/same"), "same\n").expect("write");
    world.git(&repo, ["add", ".jit"]);
    world.git(&repo, ["commit", "-qm", "jit"]);
    world.git(
        &repo,
        ["update-index", "--skip-worktree", ".jit/config.toml", ".jit/same"],
    );
    world.git(
        &repo,
        ["update-index", "--assume-unchanged", ".jit/.gitattributes"],
    );
    for name in ["config.toml", ".gitattributes"] {
        std::fs::write(repo.join(".jit").join(name), "# mine\n").expect("write");
    }
    let done = world
        .jit(["uninstall", "--yes", "--purge-tree", "--json"])
        .ok()
        .json();
    let mut names = kept(&done);
    names.sort_unstable();
    assert_eq!(names.len(), 2, "{done}");
    assert!(names[0].ends_with(".jit/.gitattributes") && names[1].ends_with(".jit/config.toml"));
    for name in ["config.toml", ".gitattributes"] {
        let text = std::fs::read_to_string(repo.join(".jit").join(name)).expect("kept");
        assert_eq!(text, "# mine\n");
    }
    assert!(!repo.join(".jit/same").exists());
}

#[test]
fn a1_what_is_left_changed_in_a_tree_is_named() {
    let world = changed_since();
    let done = world.jit(["uninstall", "--yes", "--json"]).ok().json();
    let names: Vec<String> = kept(&done).iter().map(|path| world.stable(path)).collect();
    assert_eq!(names, ["[WORLD]/repo/.jit/issues/WI-1/issue.json"]);
}

#[test]
fn a1_both_exports_are_written_or_none() {
    let world = World::with_jit(JIT);
    let _ = world.jit(["issue", "create", "One", "--id", "WI-1"]).ok();
    let _ = world.jit(["gate", "define", "review", "--manual"]).ok();
    let (out, gates) = (
        world.root().join("out.jsonl"),
        world.root().join("out.jsonl.gates.json"),
    );
    std::fs::write(&gates, "mine").expect("write");
    let uninstall = ["uninstall", "--yes", "--export", "../out.jsonl"];
    let _ = world.jit(uninstall).exits(2);
    assert!(!out.exists());
    std::fs::remove_file(&gates).expect("remove");
    let _ = world.jit(uninstall).ok();
    assert!(out.exists() && gates.exists());
}

#[test]
fn a1_exported_gates_are_read_back_as_definitions_alone() {
    let world = World::with_jit(JIT);
    let _ = world.jit(["gate", "define", "review", "--manual"]).ok();
    let _ = world.jit(["gate", "define", "lint", "--command", "true"]).ok();
    let defined = world.jit(["gate", "list", "--json"]).ok().json();
    let done = world.jit(["uninstall", "--yes", "--json"]).ok().json();
    let file = done["gates"].as_str().expect("a file");
    let _ = world.jit(["init"]).ok();
    let _ = world.jit(["trust", "--revoke"]).ok();
    let back = world
        .jit(["gate", "define", "--from", file, "--json"])
        .ok()
        .json();
    let names = |value: &Value| {
        value["gates"]
            .as_array()
            .map(|all| all.iter().map(|one| one["name"].clone()).collect::<Vec<_>>())
    };
    assert_eq!(names(&back), names(&defined));
    // Nobody wrote the command here: it asks first (A8).
    assert_eq!(back["gates"][0]["trusted"], false, "{back}");
    let _ = world.jit(["gate", "define", "--from", file]).ok();
    let _ = world.jit(["gate", "define", "lint", "--command", "false"]).ok();
    let refused = world.jit(["gate", "define", "--from", file]).exits(2);
    assert!(refused.stderr.contains("another lint"), "{}", refused.stderr);
}

#[test]
fn a1_refused_while_somebody_holds_something_and_to_agents() {
    let world = World::with_jit(JIT);
    let _ = world.jit(["issue", "create", "One", "--id", "WI-1"]).ok();
    let _ = world
        .jit(["claim", "acquire", "WI-1", "--agent-id", "agent:one"])
        .ok();
    let before = files(&world.repo().join(".jit"));
    let refused = world.jit(["uninstall", "--yes", "--json"]).exits(5).json();
    assert_eq!(refused["error"]["code"], "not_allowed");
    assert!(
        refused["error"]["message"]
            .as_str()
            .is_some_and(|text| text.contains("WI-1 by agent:one")),
        "{refused}"
    );
    let _ = world
        .jit(["claim", "release", "WI-1", "--agent-id", "agent:one"])
        .ok();
    let refused = world
        .jit(["uninstall", "--yes", "--json", "--agent-id", "agent:one"])
        .exits(5)
        .json();
    assert_eq!(refused["error"]["code"], "not_allowed");
    let _ = world
        .jit(["lock", "acquire", "src/a.rs", "--agent-id", "human:me"])
        .ok();
    let refused = world
        .jit(["uninstall", "--json", "--agent-id", "human:me"])
        .exits(5)
        .json();
    let (message, help) = (&refused["error"]["message"], &refused["error"]["help"][0]);
    assert!(
        message
            .as_str()
            .is_some_and(|text| text.contains("src/a.rs by human:me")),
        "{refused}"
    );
    assert_eq!(help, "jit lock release src/a.rs");
    let _ = world
        .jit(["lock", "release", "src/a.rs", "--agent-id", "human:me"])
        .ok();
    let taken = world.root().join("taken");
    std::fs::write(&taken, "mine").expect("write");
    let _ = world
        .jit(["uninstall", "--yes", "--export", taken.to_str().expect("UTF-8")])
        .exits(2);
    assert_eq!(std::fs::read_to_string(&taken).expect("read"), "mine");
    assert_eq!(files(&world.repo().join(".jit")), before);
    let _ = world.jit(["validate"]).ok();
    // Nobody is asked where nobody can answer.
    let _ = world.jit(["uninstall"]).ok();
    assert!(!world.control().exists());
}

#[test]
fn a1_without_git_the_folder_goes() {
    let world = World::new(JIT);
    let plain = world.root().join("plain");
    std::fs::create_dir_all(plain.join(".jit")).expect("folder");
    let _ = world.jit_in(&plain, ["init"]).ok();
    let _ = world
        .jit_in(&plain, ["issue", "create", "One", "--id", "WI-1"])
        .ok();
    let done = world.jit_in(&plain, ["uninstall", "--yes", "--json"]).ok().json();
    assert_eq!(kept(&done), [""; 0]);
    let left: Vec<PathBuf> = files(&plain).into_keys().collect();
    assert_eq!(left, [PathBuf::from(done["export"].as_str().expect("a file"))]);
    assert!(!plain.join(".jit").exists());
}

#[test]
fn a1_gates_are_exported_too_and_nothing_stays_that_git_never_had() {
    let world = World::new(JIT);
    let before = git_view(&world);
    let _ = world.jit(["init"]).ok();
    let _ = world.jit(["issue", "create", "One", "--id", "WI-1"]).ok();
    let _ = world.jit(["gate", "define", "lint", "--command", "true"]).ok();
    let _ = world.jit(["gate", "add", "WI-1", "lint"]).ok();
    let _ = world.jit(["gate", "run", "WI-1"]).ok();
    let was = files(&world.repo().join(".jit/gates"));
    assert_eq!(was.len(), 2);
    let done = world.jit(["uninstall", "--yes", "--json"]).ok().json();
    assert_eq!(kept(&done), [""; 0]);
    assert!(!world.repo().join(".jit").exists());
    assert_eq!(git_view(&world), before);
    let export = std::fs::read(done["gates"].as_str().expect("a file")).expect("read");
    let export: Value = serde_json::from_slice(&export).expect("JSON");
    let there: BTreeMap<PathBuf, Vec<u8>> = export["files"]
        .as_array()
        .expect("files")
        .iter()
        .map(|file| {
            let text = |name: &str| file[name].as_str().expect("text").to_owned();
            (PathBuf::from(text("path")), text("text").into_bytes())
        })
        .collect();
    assert_eq!(there, was);
    // What is committed stays, and what somebody else put there.
    let _ = world.jit(["init"]).ok();
    let _ = world.jit(["gate", "define", "lint", "--command", "true"]).ok();
    world.git(&world.repo(), ["add", "-A"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "gates"]);
    let mine = world.repo().join(".jit/gates/mine.txt");
    std::fs::write(&mine, "mine").expect("write");
    let done = world.jit(["uninstall", "--yes", "--json"]).ok().json();
    assert_eq!(done["gates"], Value::Null, "git has them");
    assert_eq!(kept(&done), [mine.to_str().expect("UTF-8")]);
    assert!(world.repo().join(".jit/gates/registry.json").exists());
}

#[test]
fn a1_without_git_gates_are_exported_too() {
    let world = World::new(JIT);
    let plain = world.root().join("plain");
    std::fs::create_dir_all(plain.join(".jit")).expect("folder");
    let _ = world.jit_in(&plain, ["init"]).ok();
    let _ = world
        .jit_in(&plain, ["gate", "define", "lint", "--command", "true"])
        .ok();
    let done = world.jit_in(&plain, ["uninstall", "--yes", "--json"]).ok().json();
    assert_eq!(kept(&done), [""; 0]);
    assert!(!plain.join(".jit").exists());
    let left: Vec<PathBuf> = files(&plain).into_keys().collect();
    assert_eq!(left, [PathBuf::from(done["gates"].as_str().expect("a file"))]);
}

#[test]
fn a1_what_agents_were_told_in_the_project_goes_and_what_is_the_users_is_named() {
    let world = World::with_jit(JIT);
    let repo = world.repo();
    std::fs::create_dir_all(repo.join(".gemini")).expect("a folder");
    std::fs::write(repo.join(".gemini/settings.json"), "{}").expect("written");
    std::fs::write(repo.join(".mcp.json"), "{\"a\": 1}").expect("written");
    world.git(&repo, ["add", ".mcp.json"]);
    world.git(&repo, ["commit", "-qm", "mine"]);
    let before = files(&repo);
    let linked = world.worktree("linked");
    for program in ["claude", "codex", "gemini"] {
        let _ = world.jit(["hooks", "install", "--yes", "--agent", program]).ok();
        let _ = world.jit(["mcp", "install", "--yes", "--agent", program]).ok();
    }
    let _ = world
        .jit_in(
            &linked,
            ["mcp", "install", "--yes", "--project", "--agent", "cursor"],
        )
        .ok();
    let _ = world
        .jit_in(&linked, ["mcp", "install", "--yes", "--agent", "claude"])
        .ok();
    let _ = world
        .jit(["hooks", "install", "--yes", "--user", "--agent", "claude"])
        .ok();
    let done = world.jit(["uninstall", "--yes", "--json"]).ok().json();
    let whys: Vec<&str> = done["kept"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|left| left["why"].as_str())
        .collect();
    assert_eq!(whys.len(), 3, "{done}");
    assert!(
        whys[0].contains("committed in that worktree") && kept(&done)[0].ends_with("linked/.mcp.json"),
        "{done}"
    );
    assert!(
        whys[1].ends_with("jit hooks uninstall --agent claude --user"),
        "{done}"
    );
    // Codex keeps such entries with its user.
    assert!(
        whys[2].ends_with("jit mcp install --agent codex --user --uninstall"),
        "{done}"
    );
    assert!(!linked.join(".cursor").exists());
    let of_agents = |files: BTreeMap<PathBuf, Vec<u8>>| -> BTreeMap<PathBuf, Vec<u8>> {
        let below =
            |path: &PathBuf| !path.starts_with(repo.join(".git")) && !path.starts_with(repo.join(".jit"));
        files.into_iter().filter(|(path, _)| below(path)).collect()
    };
    assert_eq!(of_agents(files(&repo)), of_agents(before), "to the byte");
    // The commands that were named work without jit's records.
    let _ = world
        .jit(["hooks", "uninstall", "--agent", "claude", "--user", "--yes"])
        .ok();
    let _ = world
        .jit([
            "mcp",
            "install",
            "--agent",
            "codex",
            "--user",
            "--uninstall",
            "--yes",
        ])
        .ok();
    assert!(!world.home().join(".claude").exists() && !world.home().join(".codex").exists());
}

#[test]
fn a1_after_real_use_the_control_plane_goes_whole_and_comes_again() {
    let world = World::with_jit(JIT);
    let _ = world.jit(["issue", "create", "x", "--id", "WI-1"]).ok();
    let _ = world.jit(["session", "start"]).ok();
    let _ = world.jit(["lock", "acquire", "src/a"]).ok();
    let _ = world.jit(["lock", "release", "src/a"]).ok();
    let _ = world.jit(["session", "end"]).ok();
    let control = world.control();
    // What landings, units and workflows leave.
    for name in ["landing", "units", "workflows", "notes", "scratch", "waiting"] {
        std::fs::create_dir_all(control.join(name).join("below")).expect("a folder");
    }
    let done = world.jit(["uninstall", "--yes", "--json"]).ok().json();
    assert!(!control.exists(), "{done}");
    assert!(done["removed"].to_string().contains("jit"), "{done}");
    let _ = world.jit(["init"]).ok();
    // A folder with something else in it is not removed, and that is not said.
    std::fs::write(control.join("mine"), "mine").expect("write");
    let done = world.jit(["uninstall", "--yes", "--json"]).ok().json();
    assert!(kept(&done).iter().any(|path| path.ends_with("/mine")), "{done}");
    let said = done["removed"].as_array().expect("removed");
    let path = control.to_string_lossy();
    assert!(!said.iter().any(|one| one.as_str() == Some(&path)), "{done}");
}

/// A1: the name of an export is made of the time, and there may be one of that second.
#[test]
fn a1_an_export_of_the_same_second_is_not_in_the_way() {
    let world = World::with_jit(JIT);
    let _ = world.jit(["issue", "create", "One", "--id", "AA-1"]).ok();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.expect("after 1970").as_secs();
    for second in now..now + 120 {
        let at = std::process::Command::new("date")
            .args(["-u", "-d", &format!("@{second}"), "+%Y%m%dT%H%M%SZ"])
            .output()
            .expect("a date");
        let at = String::from_utf8(at.stdout).expect("text");
        let name = format!(".git/jit-export-{}.jsonl", at.trim());
        std::fs::write(world.repo().join(name), "earlier").expect("write");
    }
    let done = world.jit(["uninstall", "--yes", "--json"]).ok().json();
    let export = done["export"].as_str().expect("a file");
    assert!(export.ends_with("-2.jsonl"), "{export}");
    let text = std::fs::read_to_string(export).expect("read");
    assert!(text.contains("AA-1"), "{text}");
}

/// A1: what would be removed with jit is no place for an export.
#[test]
fn a1_an_export_is_not_written_where_it_would_be_removed() {
    let world = World::with_jit(JIT);
    let repo = world.repo();
    let _ = world.jit(["issue", "create", "One", "--id", "WI-1"]).ok();
    let _ = world.jit(["gate", "define", "review", "--manual"]).ok();
    std::os::unix::fs::symlink(repo.join(".git/jit/issues"), repo.join("elsewhere")).expect("a link");
    for path in [
        ".git/jit/issues/out.jsonl",
        ".git/jit/backup-x.jsonl",
        ".git/jit/out.jsonl",
        ".git/jit-worktree-x.json",
        // The file with the gates beside it would go.
        ".git/jit-worktree-x",
        "elsewhere/out.jsonl",
    ] {
        let refused = world.jit(["uninstall", "--yes", "--export", path]).exits(2);
        assert!(refused.stderr.contains("would be removed"), "{}", refused.stderr);
        assert!(!repo.join(path).exists(), "{path}");
        let _ = world.jit(["issue", "show", "WI-1"]).ok();
    }
    let _ = world
        .jit(["uninstall", "--yes", "--export", ".git/out.jsonl"])
        .ok();
    assert!(repo.join(".git/out.jsonl").exists());
}

/// A1: without git the control plane is the tree, and what is in no export stays there as well.
#[test]
fn a1_without_git_what_is_not_exported_stays_and_is_named() {
    let world = World::new(JIT);
    let plain = world.root().join("plain");
    std::fs::create_dir_all(plain.join(".jit")).expect("folder");
    let jit = |args: &[&str]| world.jit_in(&plain, args.iter().copied()).ok();
    let _ = jit(&["init"]);
    let _ = jit(&["issue", "create", "One", "--id", "WI-1", "--description", "first"]);
    let _ = jit(&["issue", "update", "WI-1", "--description", "second"]);
    let _ = jit(&["issue", "comment", "WI-1", "hm"]);
    let _ = jit(&["gate", "define", "lint", "--command", "true"]);
    let _ = jit(&["gate", "add", "WI-1", "lint"]);
    let _ = jit(&["gate", "run", "WI-1"]);
    let mine = [
        ".jit/gates/README.md",
        ".jit/gates/WI-1/mine.log",
        ".jit/gates/results/mine.log",
        ".jit/issues/NEW-1/description.md",
        ".jit/issues/NEW-1/issue.json",
        ".jit/issues/NOTES.md",
        ".jit/issues/WI-1/attachment.txt",
        ".jit/issues/WI-1/texts/mine.md",
    ];
    std::fs::create_dir(plain.join(".jit/issues/NEW-1")).expect("folder");
    for path in mine {
        std::fs::write(plain.join(path), "{ mine").expect("write");
    }
    let done = jit(&["uninstall", "--yes", "--json"]).json();
    let names: Vec<String> = kept(&done).iter().map(|path| world.stable(path)).collect();
    assert_eq!(names, mine.map(|path| format!("[WORLD]/plain/{path}")), "{done}");
    let left: Vec<PathBuf> = files(&plain.join(".jit")).into_keys().collect();
    let mut all = mine.map(|path| plain.join(path));
    all.sort();
    assert_eq!(left, all);
    for path in mine {
        assert_eq!(std::fs::read_to_string(plain.join(path)).expect("kept"), "{ mine");
    }
    let export = std::fs::read_to_string(done["export"].as_str().expect("a file")).expect("export");
    assert!(export.contains("second"), "{export}");
}
