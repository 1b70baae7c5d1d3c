//! A2: every answer about where we are is compared with git's own, in the same folder with the same environment.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use jit_git::config::Shared;
use jit_git::{DiscoverError, GitEnv, Place};

use jit_testkit::git_world::{GitWorld, os};

fn discover(dir: &Path) -> Place {
    Place::discover(dir, &GitEnv::default()).expect("a place")
}

/// What `git rev-parse <question>` says, as a physical path.
fn ask(world: &GitWorld, dir: &Path, env: &GitEnv, question: &str) -> Option<OsString> {
    let vars: Vec<(&str, &OsStr)> = [
        ("GIT_DIR", &env.git_dir),
        ("GIT_WORK_TREE", &env.git_work_tree),
        ("GIT_COMMON_DIR", &env.git_common_dir),
        ("GIT_CEILING_DIRECTORIES", &env.git_ceiling_directories),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value.as_deref()?)))
    .collect();
    let output = world.try_git(dir, ["rev-parse", question], &vars);
    let mut answer = output.stdout;
    (output.status.success() && answer.pop() == Some(b'\n')).then(|| OsString::from_vec(answer))
}

/// Discovers and demands that git agrees on everything.
fn agree_with(world: &GitWorld, dir: &Path, env: &GitEnv) -> Place {
    let place = Place::discover(dir, env).expect("a place");
    let here = dir.canonicalize().expect("physical");
    let path = |question: &str| {
        let answer = ask(world, dir, env, question)?;
        Some(here.join(answer).canonicalize().expect("git names what exists"))
    };
    assert_eq!(place.git_dir, path("--git-dir"), "git dir from {dir:?}");
    assert_eq!(
        place.common_dir,
        path("--git-common-dir"),
        "common dir from {dir:?}"
    );
    assert_eq!(
        place.worktree_root,
        path("--show-toplevel"),
        "top level from {dir:?}"
    );
    let bare = ask(world, dir, env, "--is-bare-repository");
    assert_eq!(
        place.is_bare(),
        bare.as_deref() == Some(OsStr::new("true")),
        "bare from {dir:?}"
    );
    let linked = place.git_dir != place.common_dir;
    assert_eq!(place.is_worktree(), linked);
    assert_eq!(
        place.local_jit,
        place.worktree_root.as_ref().map(|root| root.join(".jit"))
    );
    assert_eq!(
        Some(&place.control_dir),
        place.common_dir.as_ref().map(|dir| dir.join("jit")).as_ref()
    );
    place
}

fn agree(world: &GitWorld, dir: &Path) -> Place {
    agree_with(world, dir, &GitEnv::default())
}

fn branch(place: &Place) -> Option<String> {
    place.branch().expect("readable HEAD")
}

#[test]
fn a2_main_worktree_subdirectory_and_linked_worktree_share_one_control_plane() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    fs::create_dir_all(repo.join("a/b")).expect("folders");
    let wt = world.worktree(&repo, "wt", "topic/x");
    fs::create_dir_all(wt.join("deep/er")).expect("folders");

    let main = agree(&world, &repo);
    assert!(!main.is_worktree() && !main.is_bare());
    assert_eq!(branch(&main).as_deref(), Some("main"));
    assert_eq!(agree(&world, &repo.join("a/b")).worktree_root, main.worktree_root);

    let linked = agree(&world, &wt);
    assert!(linked.is_worktree());
    assert_eq!(branch(&linked).as_deref(), Some("topic/x"));
    assert_eq!(linked.control_dir, main.control_dir);
    let deep = agree(&world, &wt.join("deep/er"));
    assert_eq!(deep.worktree_root, Some(wt.clone()));
    assert!(deep.is_worktree());

    // A worktree inside the main one is its own, not the main one's.
    let inner = world.worktree(&repo, "repo/.worktrees/inner", "inner");
    assert_eq!(agree(&world, &inner).worktree_root, Some(inner));
}

#[test]
fn a2_detached_head_and_unborn_branch() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    world.git(&repo, ["checkout", "-q", "--detach"]);
    assert_eq!(branch(&agree(&world, &repo)), None);

    let young = world.path("young");
    fs::create_dir(&young).expect("folder");
    world.git(&young, ["init", "-q", "-b", "début/é"]);
    assert_eq!(branch(&agree(&world, &young)).as_deref(), Some("début/é"));
}

#[test]
fn a2_bare_repository_and_its_worktrees() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let bare = world.path("store.git");
    world.git(
        &world.top,
        [
            OsStr::new("clone"),
            "-q".as_ref(),
            "--bare".as_ref(),
            repo.as_ref(),
            bare.as_ref(),
        ],
    );
    let place = agree(&world, &bare);
    assert!(place.is_bare() && !place.is_worktree() && place.local_jit.is_none());
    assert!(agree(&world, &bare.join("objects")).is_bare());

    let wt = world.worktree(&bare, "wt", "topic");
    let linked = agree(&world, &wt);
    assert!(linked.is_worktree() && !linked.is_bare());
    assert_eq!(linked.control_dir, bare.join("jit"));
    agree(&world, &bare.join("worktrees/wt"));

    // The popular layout: a bare repository called `.git` with worktrees beside it.
    let hub = world.path("hub");
    fs::create_dir(&hub).expect("folder");
    let inner = hub.join(".git");
    world.git(
        &hub,
        [
            OsStr::new("clone"),
            "-q".as_ref(),
            "--bare".as_ref(),
            repo.as_ref(),
            inner.as_ref(),
        ],
    );
    assert!(agree(&world, &hub).is_bare());
    let side = world.worktree(&hub, "hub/side", "side");
    assert_eq!(agree(&world, &side).worktree_root, Some(side));
}

#[test]
fn a2_worktree_config_extension() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let wt = world.worktree(&repo, "wt", "topic");
    world.git(&repo, ["config", "extensions.worktreeConfig", "true"]);
    agree(&world, &wt);
    let elsewhere = world.path("elsewhere");
    fs::create_dir(&elsewhere).expect("folder");
    world.git(
        &wt,
        [
            OsStr::new("config"),
            "--worktree".as_ref(),
            "core.worktree".as_ref(),
            elsewhere.as_ref(),
        ],
    );
    agree(&world, &wt);
    assert_eq!(agree(&world, &repo).worktree_root, Some(repo));
}

#[test]
fn a2_submodule_and_a_worktree_of_it() {
    let world = GitWorld::new();
    let library = world.repo("library");
    let repo = world.repo("repo");
    world.git(
        &repo,
        [
            OsStr::new("submodule"),
            "--quiet".as_ref(),
            "add".as_ref(),
            library.as_ref(),
            "deps/lib".as_ref(),
        ],
    );
    let sub = repo.join("deps/lib");
    assert!(sub.join(".git").is_file());
    let place = agree(&world, &sub);
    assert!(!place.is_worktree(), "a submodule is a main worktree of its own");
    assert_eq!(place.common_dir, Some(repo.join(".git/modules/deps/lib")));

    let wt = world.worktree(&sub, "sub-wt", "topic");
    let linked = agree(&world, &wt);
    assert!(linked.is_worktree());
    assert_eq!(linked.control_dir, place.control_dir);
    // Inside the module's git folder core.worktree says where the files are.
    agree(&world, &repo.join(".git/modules/deps/lib"));
}

#[test]
fn a2_separate_git_dir() {
    let world = GitWorld::new();
    let work = world.path("work");
    let store = world.path("stores/x.git");
    fs::create_dir_all(store.parent().expect("parent")).expect("folder");
    let mut option = OsString::from("--separate-git-dir=");
    option.push(&store);
    world.git(
        &world.top,
        [OsStr::new("init"), "-q".as_ref(), &option, work.as_ref()],
    );
    let place = agree(&world, &work);
    assert!(!place.is_worktree());
    assert_eq!(place.common_dir, Some(store));
}

#[test]
fn a2_environment_moves_things() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let wt = world.worktree(&repo, "wt", "topic");
    let other = world.path("other/deep");
    fs::create_dir_all(&other).expect("folder");
    fs::create_dir(repo.join("sub")).expect("folder");
    let main_git = repo.join(".git");
    let wt_git = main_git.join("worktrees/wt");

    let cases: [(&str, &Path, GitEnv); 10] = [
        (
            "absolute GIT_DIR: the current folder is the top",
            &other,
            GitEnv {
                git_dir: Some(main_git.clone().into()),
                ..GitEnv::default()
            },
        ),
        (
            "relative GIT_DIR",
            &repo,
            GitEnv {
                git_dir: Some(".git".into()),
                ..GitEnv::default()
            },
        ),
        (
            "relative GIT_DIR upwards",
            &other,
            GitEnv {
                git_dir: Some("../../repo/.git".into()),
                ..GitEnv::default()
            },
        ),
        (
            "GIT_DIR of a linked worktree",
            &wt,
            GitEnv {
                git_dir: Some(wt_git.clone().into()),
                ..GitEnv::default()
            },
        ),
        (
            "GIT_DIR names a .git file",
            &other,
            GitEnv {
                git_dir: Some(wt.join(".git").into()),
                ..GitEnv::default()
            },
        ),
        (
            "GIT_WORK_TREE alone",
            &repo.join("sub"),
            GitEnv {
                git_work_tree: Some(other.clone().into()),
                ..GitEnv::default()
            },
        ),
        (
            "relative GIT_WORK_TREE",
            &repo.join("sub"),
            GitEnv {
                git_work_tree: Some("..".into()),
                ..GitEnv::default()
            },
        ),
        (
            "both, relative",
            &other,
            GitEnv {
                git_dir: Some("../../repo/.git".into()),
                git_work_tree: Some("..".into()),
                ..GitEnv::default()
            },
        ),
        (
            "GIT_COMMON_DIR, absolute",
            &wt,
            GitEnv {
                git_dir: Some(wt_git.clone().into()),
                git_common_dir: Some(main_git.clone().into()),
                ..GitEnv::default()
            },
        ),
        (
            "GIT_COMMON_DIR, relative",
            &wt,
            GitEnv {
                git_dir: Some(wt_git.into()),
                git_common_dir: Some("../repo/.git".into()),
                ..GitEnv::default()
            },
        ),
    ];
    for (what, dir, env) in cases {
        let place = agree_with(&world, dir, &env);
        assert_eq!(place.common_dir.as_ref(), Some(&main_git), "{what}");
    }

    let nowhere = GitEnv {
        git_dir: Some("nowhere".into()),
        ..GitEnv::default()
    };
    assert_eq!(ask(&world, &repo, &nowhere, "--git-dir"), None);
    let error = Place::discover(&repo, &nowhere).expect_err("no repository");
    assert!(matches!(error, DiscoverError::NotARepository { .. }), "{error}");
}

#[test]
fn a2_core_worktree_and_core_bare() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let files = world.path("files");
    fs::create_dir_all(files.join("sub")).expect("folder");
    let git_dir = GitEnv {
        git_dir: Some(repo.join(".git").into()),
        ..GitEnv::default()
    };

    world.git(&repo, ["config", "core.worktree", "../../files"]);
    assert_eq!(
        agree_with(&world, &files.join("sub"), &git_dir).worktree_root,
        Some(files.clone())
    );
    assert_eq!(agree(&world, &repo).worktree_root, Some(files.clone()));

    world.git(&repo, ["config", "--unset", "core.worktree"]);
    world.git(&repo, ["config", "core.bare", "true"]);
    assert!(agree_with(&world, &files, &git_dir).is_bare());
    assert!(agree(&world, &repo).is_bare());

    fs::write(repo.join(".git/config"), "[core]\n\tbare = perhaps\n").expect("write");
    let error = Place::discover(&repo, &GitEnv::default()).expect_err("damaged");
    assert!(
        error.to_string().contains("config") && error.to_string().contains("line 2"),
        "{error}"
    );
}

#[test]
fn a2_shared_repository_is_known() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let wt = world.worktree(&repo, "wt", "topic");
    assert_eq!(discover(&repo).shared, Shared::Umask);
    world.git(&repo, ["config", "core.sharedRepository", "group"]);
    assert_eq!(discover(&repo).shared, Shared::Group);
    assert_eq!(discover(&wt).shared, Shared::Group);
}

#[test]
fn a2_symbolic_links() {
    let world = GitWorld::new();
    let repo = world.repo("real/repo");
    fs::create_dir(repo.join("sub")).expect("folder");
    let wt = world.worktree(&repo, "real/wt", "topic");
    symlink(world.path("real"), world.path("link")).expect("link");
    symlink(repo.join("sub"), world.path("into-sub")).expect("link");
    assert_eq!(
        agree(&world, &world.path("link/repo")).worktree_root,
        Some(repo.clone())
    );
    assert_eq!(
        agree(&world, &world.path("link/wt")).worktree_root,
        Some(wt.clone())
    );
    assert_eq!(
        agree(&world, &world.path("into-sub")).worktree_root,
        Some(repo.clone())
    );

    // The link file names a path with a symbolic link in it; the control plane is still the same one.
    fs::write(
        wt.join(".git"),
        format!(
            "gitdir: {}\n",
            world.path("link/repo/.git/worktrees/wt").display()
        ),
    )
    .expect("write");
    assert_eq!(agree(&world, &wt).control_dir, repo.join(".git/jit"));

    // `.git` itself may be a link.
    let third = world.path("third");
    fs::create_dir(&third).expect("folder");
    symlink(repo.join(".git"), third.join(".git")).expect("link");
    assert_eq!(agree(&world, &third).control_dir, repo.join(".git/jit"));

    // Also to a file, whose relative path then counts from the link.
    let fourth = world.path("real/fourth");
    fs::create_dir_all(fourth.join("store")).expect("folders");
    fs::write(fourth.join("store/link-file"), "gitdir: ../repo/.git\n").expect("write");
    symlink("store/link-file", fourth.join(".git")).expect("link");
    assert_eq!(agree(&world, &fourth).control_dir, repo.join(".git/jit"));

    // As may HEAD, in repositories from long ago.
    fs::remove_file(repo.join(".git/HEAD")).expect("remove");
    symlink("refs/heads/old", repo.join(".git/HEAD")).expect("link");
    assert_eq!(branch(&agree(&world, &repo)).as_deref(), Some("old"));
}

#[test]
fn a2_paths_with_spaces_newlines_and_other_bytes() {
    for name in [
        &b"with space"[..],
        b"new\nline",
        b"caf\xe9 \xff",
        "日本 \u{202e}x".as_bytes(),
        b"'\"\\$(x)",
        b"-dash",
        b"end\n",
    ] {
        let world = GitWorld::new();
        let repo = world.repo(os(name));
        let sub = repo.join(os(name));
        fs::create_dir(&sub).expect("folder");
        assert_eq!(agree(&world, &sub).worktree_root, Some(repo.clone()));
        let wt = world.worktree(&repo, Path::new("w").join(os(name)), "topic");
        let place = agree(&world, &wt);
        assert_eq!(place.worktree_root, Some(wt));
        assert_eq!(place.control_dir, repo.join(".git/jit"));
    }
}

#[test]
fn a2_relative_link_files() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let wt = world.worktree(&repo, "side/wt", "topic");
    // What git writes with worktree.useRelativePaths.
    fs::write(wt.join(".git"), "gitdir: ../../repo/.git/worktrees/wt\n").expect("write");
    assert_eq!(agree(&world, &wt).control_dir, repo.join(".git/jit"));
    fs::write(
        repo.join(".git/worktrees/wt/gitdir"),
        "../../../../side/wt/.git\n",
    )
    .expect("write");
    let listed = jit_git::worktrees::list(&repo.join(".git")).expect("list");
    assert_eq!(listed[1].root, Some(wt.clone()));
    assert_eq!(listed[1].prunable, None);
    // The shared folder may be named absolutely as well.
    fs::write(
        repo.join(".git/worktrees/wt/commondir"),
        format!("{}\n", repo.join(".git").display()),
    )
    .expect("write");
    agree(&world, &wt);
}

#[test]
fn a2_inside_the_git_folder() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    world.worktree(&repo, "wt", "topic");
    for below in [".git", ".git/refs/heads", ".git/worktrees", ".git/worktrees/wt"] {
        let place = agree(&world, &repo.join(below));
        assert_eq!(place.worktree_root, None, "{below}");
        assert_eq!(place.control_dir, repo.join(".git/jit"), "{below}");
    }
    assert_eq!(
        branch(&discover(&repo.join(".git/worktrees/wt"))).as_deref(),
        Some("topic")
    );
}

#[test]
fn a2_ceilings_stop_the_search() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    fs::create_dir_all(repo.join("a/b/c")).expect("folders");
    symlink(&repo, world.path("link")).expect("link");
    let ceiling = |list: &[PathBuf]| GitEnv {
        git_ceiling_directories: Some(std::env::join_paths(list).expect("no colon")),
        ..GitEnv::default()
    };
    for (list, found) in [
        (vec![repo.join("a")], false),
        (vec![repo.clone()], false),
        (vec![world.path("link/a")], false),
        (vec![PathBuf::new(), world.path("link/a")], true),
        (vec![repo.join("a/b/c")], true),
        (vec![world.top.clone()], true),
        (vec![PathBuf::from("relative")], true),
    ] {
        let env = ceiling(&list);
        let dir = repo.join("a/b/c");
        assert_eq!(
            ask(&world, &dir, &env, "--git-dir").is_some(),
            found,
            "git, {list:?}"
        );
        assert_eq!(
            Place::discover(&dir, &env).expect("a place").has_git(),
            found,
            "{list:?}"
        );
    }
}

/// The folder that `jit init` leaves without git.
fn set_up(folder: &Path) {
    fs::create_dir_all(folder.join(".jit")).expect("folder");
    fs::write(folder.join(".jit/config.toml"), "").expect("file");
}

#[test]
fn a2_no_git_at_all() {
    let world = GitWorld::new();
    let env = GitEnv {
        git_ceiling_directories: Some(world.top.clone().into()),
        ..GitEnv::default()
    };
    let deep = world.path("plain/a/b");
    fs::create_dir_all(&deep).expect("folders");
    let place = Place::discover(&deep, &env).expect("a place");
    assert!(!place.has_git() && !place.is_worktree() && !place.is_bare());
    assert_eq!(place.control_dir, deep.join(".jit"));
    assert_eq!(branch(&place), None);

    set_up(&world.path("plain"));
    let place = Place::discover(&deep, &env).expect("a place");
    assert_eq!(place.worktree_root, Some(world.path("plain")));
    assert_eq!(place.local_jit.as_ref(), Some(&place.control_dir));
    assert_eq!(place.control_dir, world.path("plain/.jit"));

    assert!(matches!(
        Place::discover(&world.path("missing"), &env),
        Err(DiscoverError::Start { .. })
    ));
}

#[test]
fn a2_jit_dir_overrides_the_control_folder_only() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    for (value, control) in [
        ("../shared/x/..".to_owned(), world.path("shared")),
        (world.path("abs").display().to_string(), world.path("abs")),
    ] {
        let env = GitEnv {
            jit_dir: Some(value.into()),
            ..GitEnv::default()
        };
        let place = Place::discover(&repo, &env).expect("a place");
        assert_eq!(place.control_dir, control);
        assert_eq!(place.worktree_root.as_ref(), Some(&repo));
    }
}

#[test]
fn a2_a_git_file_that_leads_nowhere_is_an_error() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let wt = world.worktree(&repo, "wt", "topic");
    fs::rename(&repo, world.path("moved")).expect("move");
    let error = Place::discover(&wt, &GitEnv::default()).expect_err("dangling");
    assert!(matches!(error, DiscoverError::Dangling { .. }), "{error}");
    assert!(error.to_string().contains("worktrees/wt"), "{error}");

    for content in ["", "gitdir:\n", "gitdir: \n", "nonsense", "gitdir: ."] {
        fs::write(wt.join(".git"), content).expect("write");
        assert_eq!(
            ask(&world, &wt, &GitEnv::default(), "--git-dir"),
            None,
            "git, {content:?}"
        );
        assert!(Place::discover(&wt, &GitEnv::default()).is_err(), "{content:?}");
    }
    fs::remove_file(wt.join(".git")).expect("remove");
    symlink("gone", wt.join(".git")).expect("link");
    assert!(matches!(
        Place::discover(&wt, &GitEnv::default()),
        Err(DiscoverError::Dangling { .. })
    ));
}

#[test]
fn a2_a_folder_called_git_that_is_none_is_passed_over() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    fs::create_dir_all(repo.join("a/.git")).expect("folder");
    assert_eq!(agree(&world, &repo.join("a")).worktree_root, Some(repo.clone()));
    fs::write(repo.join("a/.git/HEAD"), "rubbish").expect("write");
    assert_eq!(agree(&world, &repo.join("a")).worktree_root, Some(repo.clone()));
    fs::write(repo.join("a/.git/HEAD"), "ref: refs/heads/x\n").expect("write");
    assert_eq!(agree(&world, &repo.join("a")).worktree_root, Some(repo));
}

#[test]
fn a2_reftable_asks_git_for_the_branch() {
    let world = GitWorld::new();
    let repo = world.path("repo");
    let init = ["init", "-q", "-b", "main", "--ref-format=reftable", "repo"];
    if !world.try_git(&world.top, init, &[]).status.success() {
        return; // This git is older than reftable.
    }
    assert_eq!(branch(&agree(&world, &repo)).as_deref(), Some("main"));
    world.commit(&repo, "one");
    let wt = world.worktree(&repo, "wt", "topic");
    assert_eq!(branch(&agree(&world, &wt)).as_deref(), Some("topic"));
    let listed = jit_git::worktrees::list(&repo.join(".git")).expect("list");
    assert_eq!(listed[1].branch.as_deref(), Some("topic"));
    assert_eq!(listed[0].head, listed[1].head);
    world.git(&wt, ["checkout", "-q", "--detach"]);
    assert_eq!(branch(&agree(&world, &wt)), None);
}

/// The user `nobody`.
const SOMEBODY_ELSE: u32 = 65534;

/// Changes the owner of a folder and all in it. Returns false if this process may not.
fn give_away(path: &Path) -> bool {
    let all = std::process::Command::new("chown")
        .args(["-hR", &SOMEBODY_ELSE.to_string()])
        .arg(path)
        .output()
        .expect("chown");
    all.status.success()
}

#[test]
fn l2_a_repository_of_another_user_is_refused_as_git_refuses_it() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let tree = world.worktree(&repo, "tree", "other");
    let env = GitEnv::default();
    if !give_away(&repo) {
        // Only root can give a repository away.
        return;
    }
    // The work tree of `tree` is ours, its git folder is not.
    for dir in [&repo, &repo.join(".git"), &tree] {
        let found = Place::discover(dir, &env);
        assert!(
            matches!(found, Err(DiscoverError::Owner { .. })),
            "{dir:?}: {found:?}"
        );
        assert_eq!(ask(&world, dir, &env, "--git-dir"), None, "git refuses {dir:?}");
    }
    // GIT_DIR names it: git does not check.
    let explicit = GitEnv {
        git_dir: Some(repo.join(".git").into()),
        ..GitEnv::default()
    };
    agree_with(&world, &repo, &explicit);
    // The user that called sudo.
    let sudo = GitEnv {
        sudo_uid: Some(SOMEBODY_ELSE.to_string().into()),
        ..GitEnv::default()
    };
    Place::discover(&repo, &sudo).expect("the caller of sudo owns it");
    let wrong = GitEnv {
        sudo_uid: Some("1".into()),
        ..GitEnv::default()
    };
    Place::discover(&repo, &wrong).expect_err("somebody else called sudo");
}

#[test]
fn l2_the_repository_cannot_allow_itself() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    world.git(&repo, ["config", "safe.directory", "*"]);
    if !give_away(&repo) {
        // Only root can give a repository away.
        return;
    }
    let found = Place::discover(&repo, &GitEnv::default());
    assert!(matches!(found, Err(DiscoverError::Owner { .. })), "{found:?}");
}

#[test]
fn l2_a_jit_folder_of_another_user_ends_the_search() {
    let world = GitWorld::new();
    let below = world.path("top/shared/mine");
    set_up(&world.path("top"));
    set_up(&world.path("top/shared"));
    fs::create_dir_all(&below).expect("folder");
    assert_eq!(discover(&below).control_dir, world.path("top/shared/.jit"));
    if !give_away(&world.path("top/shared/.jit")) {
        // Only root can give a folder away.
        return;
    }
    assert_eq!(discover(&below).control_dir, below.join(".jit"));
}

#[test]
fn a3_without_git_only_a_folder_that_was_set_up_is_a_place() {
    let world = GitWorld::new();
    let below = world.path("top/middle/below");
    fs::create_dir_all(&below).expect("folder");
    set_up(&world.path("top"));
    // Left over from a reading command of an earlier version.
    fs::create_dir_all(world.path("top/middle/.jit")).expect("folder");
    fs::write(world.path("top/middle/.jit/worktree.json"), "{}").expect("file");
    assert_eq!(discover(&below).control_dir, world.path("top/.jit"));
    // A log without settings is a place too.
    fs::create_dir(world.path("top/middle/.jit/events")).expect("folder");
    assert_eq!(discover(&below).control_dir, world.path("top/middle/.jit"));
}

#[test]
fn a3_without_git_the_search_ends_at_a_folder_of_another_user() {
    let world = GitWorld::new();
    let (theirs, below) = (world.path("top/theirs"), world.path("top/theirs/mine/below"));
    set_up(&world.path("top"));
    fs::create_dir_all(&theirs).expect("folder");
    if !give_away(&theirs) {
        // Only root can give a folder away.
        return;
    }
    fs::create_dir_all(&below).expect("folder");
    assert_eq!(discover(&below).control_dir, below.join(".jit"));
    // Whoever owns all of it is served.
    let sudo = GitEnv {
        sudo_uid: Some(SOMEBODY_ELSE.to_string().into()),
        ..GitEnv::default()
    };
    let found = Place::discover(&below, &sudo).expect("a place");
    assert_eq!(found.control_dir, world.path("top/.jit"));
}

#[test]
fn a3_without_git_a_link_is_no_jit_folder() {
    let world = GitWorld::new();
    let below = world.path("top/below");
    fs::create_dir_all(&below).expect("folder");
    fs::create_dir_all(world.path("elsewhere")).expect("folder");
    symlink(world.path("elsewhere"), world.path("top/.jit")).expect("link");
    let found = discover(&below);
    assert_eq!(found.control_dir, below.join(".jit"));
    assert_eq!(found.found_above(), None);
}

#[test]
fn a3_the_start_folder_is_meant_where_somebody_says_so() {
    let world = GitWorld::new();
    let below = world.path("top/below");
    set_up(&world.path("top"));
    fs::create_dir_all(&below).expect("folder");
    let found = discover(&below);
    assert_eq!(found.found_above(), Some(world.path("top").as_path()));
    let here = found.in_start_folder();
    assert_eq!(here.found_above(), None);
    assert_eq!(here.control_dir, below.join(".jit"));
    assert_eq!(here.worktree_root.as_deref(), Some(below.as_path()));
    // JIT_DIR stays what it is.
    let env = GitEnv {
        jit_dir: Some(world.path("control").into()),
        ..GitEnv::default()
    };
    let here = Place::discover(&below, &env).expect("a place").in_start_folder();
    assert_eq!(here.control_dir, world.path("control"));
    assert_eq!(here.local_jit, Some(below.join(".jit")));
}
