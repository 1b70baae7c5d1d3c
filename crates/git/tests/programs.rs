//! What the repository's own settings can make git start (L2). Each test is a process of its own, so that it can decide
//! what is approved.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use jit_git::run::{Git, GitError};
use jit_git::{Approver, Place, programs_of, set_approver};
use jit_testkit::git_world::GitWorld;

/// A program that leaves a mark when it runs, and passes its input on.
struct Program {
    path: String,
    mark: PathBuf,
}

impl Program {
    fn new(world: &GitWorld) -> Self {
        Self::with(world, "exec cat")
    }

    fn with(world: &GitWorld, then: &str) -> Self {
        let (path, mark) = (world.path("program"), world.path("mark"));
        fs::write(
            &path,
            format!("#!/bin/sh\necho ran >> '{}'\n{then}\n", mark.display()),
        )
        .expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
        let path = path.to_str().expect("text").to_owned();
        Self { path, mark }
    }

    fn ran(&self) -> bool {
        fs::remove_file(&self.mark).is_ok()
    }
}

fn set(world: &GitWorld, dir: &Path, key: &str, value: &str) {
    world.git(dir, ["config", key, value]);
}

/// A commit of a file by the test, without filters that the test is about.
fn commit_file(world: &GitWorld, dir: &Path, name: &str, text: &str) {
    fs::write(dir.join(name), text).expect("a file");
    world.git(dir, ["add", name]);
    world.commit(dir, name);
}

#[track_caller]
fn not_approved<T: std::fmt::Debug>(ran: Result<T, GitError>) -> Vec<String> {
    match ran {
        Err(GitError::NotApproved(programs)) => programs.into_iter().map(|one| one.name).collect(),
        other => panic!("not refused: {other:?}"),
    }
}

fn approve_all() {
    fn own(_: &str, _: &str) -> Option<OsString> {
        None
    }
    set_approver(Approver {
        is_approved: |_, _, _| true,
        own,
    });
}

fn add(dir: &Path) -> Result<Vec<u8>, GitError> {
    Git::at(dir).args(["add", "-A"]).run()
}

#[test]
fn l2_fsmonitor_and_hooks_of_the_repository_never_run() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let program = Program::new(&world);
    let hooks = world.path("hooks");
    fs::create_dir(&hooks).expect("a folder");
    for folder in [&hooks, &repo.join(".git/hooks")] {
        fs::create_dir_all(folder).expect("a folder");
        for hook in [
            "post-index-change",
            "reference-transaction",
            "post-checkout",
            "pre-commit",
        ] {
            fs::copy(&program.path, folder.join(hook)).expect("a hook");
        }
    }
    for hooks_path in [true, false] {
        if hooks_path {
            set(&world, &repo, "core.hooksPath", hooks.to_str().expect("text"));
            set(&world, &repo, "core.fsmonitor", &program.path);
        } else {
            world.git(&repo, ["config", "--unset", "core.hooksPath"]);
        }
        let _ = program.ran();
        fs::write(repo.join("file"), "text\n").expect("a file");
        add(&repo).expect("added");
        Git::at(&repo).args(["status"]).run().expect("status");
        let head = Git::at(&repo).verify("HEAD").expect("asked").expect("a commit");
        let branch = format!("refs/heads/branch-{hooks_path}");
        Git::in_git_dir(repo.join(".git"))
            .args(["update-ref", &branch, &head])
            .run()
            .expect("a branch");
        let tree = world.path(format!("tree-{hooks_path}"));
        Git::in_git_dir(repo.join(".git"))
            .args(["worktree", "add", "-q", "--detach"])
            .arg(&tree)
            .run()
            .expect("a worktree");
        let me = |git: Git| {
            git.setting("user.name", "t")
                .setting("user.email", "t@example.com")
        };
        let commit = me(Git::at(&repo)).args(["commit", "-q", "--allow-empty", "-m", "two"]);
        commit.run().expect("a commit");
        assert!(!program.ran(), "with core.hooksPath: {hooks_path}");
    }
    let hidden = Git::at(&repo).args(["config", "core.fsmonitor"]).line();
    assert_eq!(
        hidden.expect("a value"),
        program.path,
        "settings are shown as they are"
    );
}

#[test]
fn l2_a_local_filter_runs_only_after_its_approval() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let program = Program::new(&world);
    commit_file(
        &world,
        &repo,
        ".gitattributes",
        "*.bin filter=a=b\n*.txt filter=x.y\n",
    );
    commit_file(&world, &repo, "data.bin", "data\n");
    let config = repo.join(".git/config");
    let before = fs::read_to_string(&config).expect("settings");
    let more = world.path("more-settings");
    let one = |section: &str, key: &str| format!("{before}[{section}]\n\t{key} = {}\n", program.path);
    let own = |text: String, name: &str| (text, String::new(), name.to_owned());
    let included = |path: &str| {
        let text = format!("{before}[{path}]\n\tpath = {}\n", more.display());
        let inner = format!("[filter \"a=b\"]\n\tsmudge = cat\n\tclean = {}\n", program.path);
        (text, inner, "filter.a=b.clean".to_owned())
    };
    let cases = [
        own(one("filter \"a=b\"", "clean"), "filter.a=b.clean"),
        own(one("filter \"a=b\"", "process"), "filter.a=b.process"),
        own(one("FILTER \"a=b\"", "Clean"), "filter.a=b.clean"),
        // The old way to write a subsection, and both ways at once.
        own(one("filter.x \"y\"", "clean"), "filter.x.y.clean"),
        own(one("filter.x.y", "clean"), "filter.x.y.clean"),
        included("include"),
        included("includeIf \"onbranch:main\""),
    ];
    for (text, inner, name) in &cases {
        fs::write(&config, text).expect("settings");
        fs::write(&more, inner).expect("settings");
        fs::write(repo.join("data.bin"), "other\n").expect("a file");
        fs::write(repo.join("text.txt"), "other\n").expect("a file");
        let names = not_approved(add(&repo));
        assert!(names.contains(name), "{names:?}");
        let status = Git::at(&repo).args(["status", "--porcelain"]).line();
        assert!(
            status.expect("read without the filter").contains("M data.bin"),
            "{name}"
        );
        assert!(!program.ran(), "{name}");
    }
    // No attribute names it: nothing is refused.
    fs::write(&config, one("filter \"other\"", "clean")).expect("settings");
    add(&repo).expect("not needed");
    fs::write(&config, &cases[0].0).expect("settings");
    fs::write(repo.join("data.bin"), "third\n").expect("a file");
    approve_all();
    add(&repo).expect("approved");
    assert!(program.ran());
}

#[test]
fn l2_a_worktree_is_not_made_without_a_filter_that_it_needs() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let program = Program::new(&world);
    commit_file(&world, &repo, ".gitattributes", "*.bin filter=large\n");
    commit_file(&world, &repo, "data.bin", "data\n");
    set(&world, &repo, "filter.large.smudge", &program.path);
    let tree = world.path("tree");
    let make = || {
        Git::in_git_dir(repo.join(".git"))
            .args(["worktree", "add", "-q", "--detach", "--"])
            .arg(&tree)
            .run()
    };
    assert_eq!(not_approved(make()), ["filter.large.smudge"]);
    assert!(!tree.exists(), "git takes it back");
    assert!(!program.ran());
    let skipped = Git::at(&repo)
        .skipping_filters()
        .args(["checkout-index", "-a", "-f"]);
    skipped.run().expect("the bytes that git has");
    assert!(!program.ran());
    approve_all();
    make().expect("approved");
    assert!(program.ran());
}

#[test]
fn l2_settings_of_one_worktree_are_judged_too() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let program = Program::new(&world);
    set(&world, &repo, "extensions.worktreeConfig", "true");
    world.git(&repo, ["config", "--worktree", "filter.w.clean", &program.path]);
    fs::write(repo.join(".gitattributes"), "* filter=w\n").expect("attributes");
    assert_eq!(not_approved(add(&repo)), ["filter.w.clean"]);
    assert!(!program.ran());
    let place = Place::discover(&repo, &jit_git::GitEnv::default()).expect("a place");
    let git_dir = place.git_dir.as_deref().expect("git");
    let found = programs_of(git_dir, git_dir, Some(&repo)).expect("readable");
    let names: Vec<(&str, &str)> = found
        .iter()
        .map(|one| (one.name.as_str(), one.text.as_str()))
        .collect();
    assert_eq!(names, [("filter.w.clean", program.path.as_str())]);
    assert_eq!(found[0].repository, git_dir);
}

#[test]
fn l2_external_diff_programs_never_run() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let program = Program::new(&world);
    commit_file(&world, &repo, ".gitattributes", "* diff=d\n");
    commit_file(&world, &repo, "file", "one\n");
    commit_file(&world, &repo, "file", "two\n");
    for key in ["diff.external", "diff.d.command", "diff.d.textconv"] {
        set(&world, &repo, key, &program.path);
    }
    approve_all();
    fs::write(repo.join("file"), "three\n").expect("a file");
    for words in [
        &["diff"][..],
        &["diff", "HEAD~1", "HEAD"],
        &["diff-files", "-p"],
        &["diff-index", "-p", "HEAD"],
        &["diff-tree", "-p", "HEAD"],
        &["log", "-p", "-1"],
        &["show", "HEAD"],
    ] {
        let shown = Git::at(&repo).args(words).line().expect("a difference");
        assert!(shown.contains("+t"), "{words:?}: {shown}");
        assert!(!program.ran(), "{words:?}");
    }
}

#[test]
fn l2_a_local_merge_driver_runs_only_after_its_approval() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let program = Program::with(&world, "exit 0");
    commit_file(&world, &repo, ".gitattributes", "file merge=own\n");
    commit_file(&world, &repo, "file", "one\n");
    world.git(&repo, ["checkout", "-q", "-b", "other"]);
    commit_file(&world, &repo, "file", "two\n");
    world.git(&repo, ["checkout", "-q", "main"]);
    commit_file(&world, &repo, "file", "three\n");
    set(&world, &repo, "merge.own.driver", &program.path);
    let merge = || {
        let git = Git::at(&repo).args(["merge-tree", "--write-tree", "--stdin"]);
        git.stdin("main other\n").run()
    };
    assert_eq!(not_approved(merge()), ["merge.own.driver"]);
    assert!(!program.ran());
    approve_all();
    merge().expect("approved");
    assert!(program.ran());
}

#[test]
fn l2_a_local_signing_program_runs_only_after_its_approval() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let program = Program::with(&world, "exit 1");
    for (format, key) in [
        ("openpgp", "gpg.program"),
        ("ssh", "gpg.ssh.program"),
        ("x509", "gpg.x509.program"),
    ] {
        set(&world, &repo, key, &program.path);
        let me = Git::at(&repo)
            .setting("user.name", "t")
            .setting("user.email", "t@example.com");
        let signed = me
            .setting("gpg.format", format)
            .setting("user.signingKey", "/nowhere");
        let names = not_approved(
            signed
                .args(["commit-tree", "-S", "-m", "signed", "HEAD^{tree}"])
                .run(),
        );
        assert!(names.iter().any(|name| name == key), "{names:?}");
        assert!(!program.ran(), "{format}");
    }
    // Unsigned work needs none of them.
    let me = Git::at(&repo)
        .setting("user.name", "t")
        .setting("user.email", "t@example.com");
    me.args(["commit-tree", "-m", "plain", "HEAD^{tree}"])
        .run()
        .expect("a commit");
}

#[test]
fn l2_signing_with_the_users_own_key_works() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let key = world.path("key");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(&key)
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        // Without ssh there is nothing to sign with.
        return;
    }
    set(&world, &repo, "gpg.format", "ssh");
    set(&world, &repo, "user.signingKey", key.to_str().expect("text"));
    let me = Git::at(&repo)
        .setting("user.name", "t")
        .setting("user.email", "t@example.com");
    let commit = me
        .args(["commit-tree", "-S", "-m", "signed", "HEAD^{tree}"])
        .line()
        .expect("signed");
    let text = Git::at(&repo)
        .args(["cat-file", "commit", &commit])
        .line()
        .expect("a commit");
    assert!(text.contains("BEGIN SSH SIGNATURE"), "{text}");
}

#[test]
fn l2_what_reaches_a_server_is_approved_before_git_starts() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let other = world.repo("other");
    let program = Program::with(&world, "exit 1");
    let near = other.to_str().expect("text").to_owned();
    let fetch = |address: &str| Git::at(&repo).args(["fetch", "-q", "--", address, "main"]).run();
    fetch(&near).expect("nothing local is in the way");
    let cases = [
        ("core.sshCommand", program.path.clone()),
        ("core.gitProxy", program.path.clone()),
        ("credential.helper", format!("!{}", program.path)),
        ("credential.https://a=b.example.helper", program.path.clone()),
        ("http.proxy", "http://localhost:1".to_owned()),
        ("remote.origin.uploadpack", program.path.clone()),
        ("remote.origin.url", "helper::somewhere".to_owned()),
        ("url.helper::.insteadOf", "near:".to_owned()),
        ("branch.main.remote", "other-scheme://host/path".to_owned()),
    ];
    for (key, value) in &cases {
        set(&world, &repo, key, value);
        let lower = |text: &str| text.to_lowercase();
        let names = not_approved(fetch("ssh://host.invalid/repo"));
        assert_eq!(
            names.iter().map(|name| lower(name)).collect::<Vec<_>>(),
            [lower(key)]
        );
        let pushed = Git::at(&repo)
            .args(["push", "-q", "--", &near, "HEAD:refs/heads/x"])
            .run();
        not_approved(pushed);
        Git::at(&repo).args(["status"]).run().expect("reaches no server");
        world.git(&repo, ["config", "--unset", key]);
        assert!(!program.ran(), "{key}");
    }
    set(&world, &repo, "core.sshCommand", &program.path);
    set(&world, &repo, "core.fsmonitor", &program.path);
    approve_all();
    fetch("ssh://host.invalid/repo").expect_err("the program fails");
    assert!(program.ran(), "approved");
    set(&world, &repo, "protocol.ext.allow", "always");
    fetch(&format!("ext::{}", program.path)).expect_err("never");
    assert!(!program.ran());
}

#[test]
fn l2_a_partial_clone_does_not_fetch_with_a_program_that_is_not_approved() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    commit_file(&world, &repo, "file", "text\n");
    let blob = String::from_utf8(world.git(&repo, ["rev-parse", "HEAD:file"])).expect("text");
    let blob = blob.trim();
    set(&world, &repo, "uploadpack.allowFilter", "true");
    let (from, to) = (format!("file://{}", repo.display()), world.path("clone"));
    let clone = [
        "clone",
        "-q",
        "--no-checkout",
        "--filter=blob:none",
        &from,
        to.to_str().expect("text"),
    ];
    world.git(&world.top, clone);
    let program = Program::with(&world, "exit 1");
    set(&world, &to, "remote.origin.uploadpack", &program.path);
    let read = || Git::at(&to).args(["cat-file", "blob", blob]).line();
    assert_eq!(not_approved(read()), ["remote.origin.uploadpack"]);
    assert!(!program.ran());
    world.git(&to, ["config", "--unset", "remote.origin.uploadpack"]);
    assert_eq!(read().expect("fetched"), "text");
}

#[test]
fn l2_a_push_runs_the_usual_hooks_and_others_after_their_approval() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let other = world.repo("other");
    let program = Program::with(&world, "exit 0");
    fs::create_dir_all(repo.join(".git/hooks")).expect("a folder");
    fs::copy(&program.path, repo.join(".git/hooks/pre-push")).expect("a hook");
    let push = |name: &str| {
        let goal = format!("HEAD:refs/heads/{name}");
        Git::at(&repo)
            .args(["push", "-q", "--"])
            .arg(&other)
            .arg(goal)
            .run()
    };
    push("one").expect("pushed");
    assert!(program.ran(), "large files are uploaded by this hook");
    let hooks = repo.join(".husky");
    fs::create_dir(&hooks).expect("a folder");
    fs::copy(&program.path, hooks.join("pre-push")).expect("a hook");
    set(&world, &repo, "core.hooksPath", ".husky");
    assert_eq!(not_approved(push("two")), ["core.hookspath"]);
    assert!(!program.ran());
    approve_all();
    push("two").expect("approved");
    assert!(program.ran());
}

/// A repository with a submodule, whose git folder is where git puts it or in the submodule itself.
fn with_submodule(world: &GitWorld, embedded: bool) -> (PathBuf, PathBuf) {
    let (repo, inner) = (world.repo("repo"), world.repo("inner"));
    commit_file(world, &inner, ".gitattributes", "*.bin filter=sub\n");
    commit_file(world, &inner, "data.bin", "data\n");
    let sub = repo.join("sub");
    let (from, to) = (inner.to_str().expect("text"), sub.to_str().expect("text"));
    if embedded {
        world.git(&repo, ["clone", "-q", from, to]);
        world.git(&repo, ["add", "sub"]);
    } else {
        world.git(&repo, ["submodule", "add", "-q", from, "sub"]);
    }
    world.commit(&repo, "a submodule");
    (repo, sub)
}

#[test]
fn l2_the_settings_of_a_submodule_are_judged_too() {
    for embedded in [false, true] {
        let world = GitWorld::new();
        let (repo, sub) = with_submodule(&world, embedded);
        let program = Program::new(&world);
        set(&world, &sub, "filter.sub.clean", &program.path);
        set(&world, &sub, "core.fsmonitor", &program.path);
        for (index, shown) in [("2", true), ("4", true), ("2", false)] {
            world.git(
                &repo,
                ["update-index", "--index-version", index, "--force-write-index"],
            );
            if !shown {
                world.git(&repo, ["update-index", "--split-index"]);
            }
            fs::write(sub.join("data.bin"), format!("{index}{shown}\n")).expect("a file");
            let status = Git::at(&repo)
                .args(["status", "--porcelain", "--ignore-submodules=none"])
                .line()
                .expect("status");
            assert!(status.contains("M sub"), "{status:?}");
            assert!(!program.ran(), "embedded: {embedded}, index {index}");
        }
        assert_eq!(not_approved(add(&sub)), ["filter.sub.clean"]);
        let git_dir = repo.join(".git");
        let found = programs_of(&git_dir, &git_dir, Some(&repo)).expect("readable");
        let whose = if embedded { sub.join(".git") } else { git_dir };
        assert_eq!(found[0].repository, whose);
        assert!(!program.ran());
    }
}

#[test]
fn l2_settings_that_cannot_be_read_as_git_reads_them_stop_a_command() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let config = repo.join(".git/config");
    let before = fs::read_to_string(&config).expect("settings");
    let include = |path: &str| {
        fs::write(&config, format!("{before}[include]\n\tpath = {path}\n")).expect("settings");
    };
    include("%(prefix)/settings");
    assert_eq!(
        not_approved(Git::at(&repo).args(["status"]).run()),
        ["include.path"]
    );
    include(world.top.to_str().expect("text"));
    let folder = Git::at(&repo).args(["status"]).run();
    assert!(matches!(folder, Err(GitError::Settings { .. })), "{folder:?}");
    include("/nowhere/settings");
    Git::at(&repo)
        .args(["status"])
        .run()
        .expect("git passes over a missing file");
}

#[test]
fn l2_a_named_git_folder_of_another_user_is_refused() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let git_dir = repo.join(".git");
    let ask = || Git::in_git_dir(&git_dir).verify("HEAD");
    assert!(ask().expect("ours").is_some());
    let given = Command::new("chown").args(["-R", "65534"]).arg(&git_dir).output();
    if !given.is_ok_and(|given| given.status.success()) {
        // Only root can give a folder away.
        return;
    }
    let refused = ask();
    assert!(matches!(refused, Err(GitError::Owner { .. })), "{refused:?}");
}

/// Runs `jit_git`'s git here, and says whether the program ran.
fn starts_it(program: &Program, dir: &Path, args: &[&str]) -> bool {
    let _ = Git::at(dir).args(args).run();
    program.ran()
}

const STATUS: &[&str] = &["status", "--porcelain", "--ignore-submodules=none"];

#[test]
fn l2_a_blank_is_what_git_takes_for_one() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let program = Program::new(&world);
    commit_file(&world, &repo, ".gitattributes", "*.bin filter=x\n");
    commit_file(&world, &repo, "data.bin", "data\n");
    let config = repo.join(".git/config");
    let before = fs::read_to_string(&config).expect("settings");
    let filter = format!("[filter \"x\"]\n\tclean = {}\n", program.path);
    for name in ["\u{b}evil", "evil\u{c}"] {
        fs::write(repo.join(".git").join(name), &filter).expect("settings");
        fs::write(&config, format!("{before}[include]\n\tpath = {name}\n")).expect("settings");
        fs::write(repo.join("data.bin"), format!("{name}\n")).expect("a file");
        assert_eq!(not_approved(add(&repo)), ["include.path"]);
        assert!(!program.ran(), "{name:?}");
        world.git(&repo, ["add", "-A"]);
        assert!(program.ran(), "git itself runs it: {name:?}");
    }
    // For git a name ends at a NUL byte.
    let hidden = format!("{before}[filter \"x.clean\0\"]\n\ty = {}\n", program.path);
    fs::write(&config, hidden).expect("settings");
    fs::write(repo.join("data.bin"), "third\n").expect("a file");
    assert!(matches!(add(&repo), Err(GitError::Settings { .. })));
    assert!(!program.ran());
}

#[test]
fn l2_includes_beyond_the_limit_are_refused() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let program = Program::new(&world);
    commit_file(&world, &repo, ".gitattributes", "*.bin filter=x\n");
    commit_file(&world, &repo, "data.bin", "data\n");
    let git_dir = repo.join(".git");
    let mut config = fs::read_to_string(git_dir.join("config")).expect("settings");
    // A long way that git does not go comes before the short way.
    config
        .push_str("[includeIf \"onbranch:no-such-branch\"]\n\tpath = step-1\n[include]\n\tpath = step-11\n");
    fs::write(git_dir.join("config"), config).expect("settings");
    for step in 1..11 {
        let text = format!("[include]\n\tpath = step-{}\n", step + 1);
        fs::write(git_dir.join(format!("step-{step}")), text).expect("settings");
    }
    let filter = format!("[filter \"x\"]\n\tclean = {}\n", program.path);
    fs::write(git_dir.join("step-11"), filter).expect("settings");
    fs::write(repo.join("data.bin"), "other\n").expect("a file");
    assert!(matches!(add(&repo), Err(GitError::Settings { .. })));
    assert!(!program.ran());
}

#[test]
fn l2_submodules_in_each_work_tree_are_judged() {
    let world = GitWorld::new();
    let (repo, _) = with_submodule(&world, false);
    let program = Program::new(&world);
    let elsewhere = world.path("elsewhere");
    fs::create_dir(&elsewhere).expect("a folder");
    // A repository where the other work tree has the submodule. Git needs the filter for a file of the same size.
    let other = elsewhere.join("sub");
    world.git(
        &world.top,
        [
            "clone",
            "-q",
            world.path("inner").to_str().expect("text"),
            other.to_str().expect("text"),
        ],
    );
    set(&world, &other, "filter.sub.clean", &program.path);
    fs::write(other.join("data.bin"), "DATA\n").expect("a file");
    set(&world, &repo, "core.worktree", elsewhere.to_str().expect("text"));
    assert!(
        !starts_it(&program, &repo, STATUS),
        "core.worktree of the repository"
    );
    world.git(&repo, STATUS);
    assert!(program.ran(), "git itself runs it");
}

#[test]
fn l2_submodules_of_one_git_folder_at_two_places_are_judged() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let program = Program::new(&world);
    let (one, two) = (world.repo("repo/one"), repo.join("two"));
    let inner = world.repo("repo/one/inner");
    commit_file(&world, &inner, ".gitattributes", "*.bin filter=x\n");
    commit_file(&world, &inner, "data.bin", "data\n");
    set(&world, &inner, "filter.x.clean", &program.path);
    world.git(&one, ["add", "inner"]);
    world.commit(&one, "a submodule");
    fs::create_dir(&two).expect("a folder");
    fs::write(two.join(".git"), "gitdir: ../one/.git\n").expect("a link");
    fs::rename(&inner, two.join("inner")).expect("moved");
    world.git(&repo, ["add", "one", "two"]);
    fs::write(two.join("inner/data.bin"), "DATA\n").expect("a file");
    assert!(!starts_it(&program, &repo, STATUS));
    world.git(&repo, STATUS);
    assert!(program.ran(), "git itself runs it");
}

#[test]
fn l2_submodules_that_are_nested_too_deeply_stop_a_command() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    let program = Program::new(&world);
    let mut outer = repo.clone();
    let mut all = vec![repo.clone()];
    for level in 0..9 {
        let inner = outer.join("sub");
        world.git(&outer, ["init", "-q", "sub"]);
        if level == 8 {
            commit_file(&world, &inner, ".gitattributes", "*.bin filter=x\n");
            commit_file(&world, &inner, "data.bin", "data\n");
            set(&world, &inner, "filter.x.clean", &program.path);
        }
        all.push(inner.clone());
        outer = inner;
    }
    for outer in all.iter().rev().skip(1) {
        world.git(outer, ["add", "sub"]);
        world.commit(outer, "a submodule");
    }
    fs::write(outer.join("data.bin"), "DATA\n").expect("a file");
    let ran = Git::at(&repo).args(STATUS).run();
    assert!(matches!(ran, Err(GitError::Settings { .. })), "{ran:?}");
    assert!(!program.ran());
    Git::at(&all[1]).args(STATUS).run().expect("deep enough");
    assert!(!program.ran());
}

#[test]
fn l2_a_fetch_does_not_continue_into_submodules() {
    let world = GitWorld::new();
    let (repo, _) = with_submodule(&world, false);
    let program = Program::with(&world, "exit 1");
    let clone = world.path("clone");
    let paths = [repo.to_str().expect("text"), clone.to_str().expect("text")];
    let allow = [
        "-c",
        "protocol.file.allow=always",
        "clone",
        "-q",
        "--recurse-submodules",
    ];
    world.git(&world.top, allow.iter().chain(&paths));
    let before = String::from_utf8(world.git(&repo, ["rev-parse", "HEAD~1"])).expect("text");
    // The submodule moves on, and the clone checks out a commit without it.
    commit_file(&world, &world.path("inner"), "more", "more\n");
    world.git(
        &repo.join("sub"),
        ["-c", "protocol.file.allow=always", "pull", "-q"],
    );
    world.git(&repo, ["add", "sub"]);
    world.commit(&repo, "a newer submodule");
    world.git(&clone, ["checkout", "-q", before.trim()]);
    let inside = clone.join(".git/modules/sub");
    set(&world, &inside, "core.sshCommand", &program.path);
    set(&world, &inside, "remote.origin.url", "host:inner");
    let fetch = ["fetch", "-q", "origin"];
    assert!(!starts_it(&program, &clone, &fetch));
    set(&world, &clone, "fetch.recurseSubmodules", "true");
    set(&world, &clone, "submodule.recurse", "true");
    assert!(!starts_it(&program, &clone, &fetch));
}

#[test]
fn l6_a_pipe_in_place_of_a_file_of_git_blocks_nothing() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    for name in [
        "commondir",
        "config.worktree",
        "index",
        "sharedindex.0",
        "HEAD",
        "config",
    ] {
        let file = repo.join(".git").join(name);
        let before = fs::read(&file).ok();
        let _ = fs::remove_file(&file);
        let made = Command::new("mkfifo").arg(&file).status();
        assert!(made.expect("mkfifo").success());
        let status = Git::at(&repo).args(["status"]).run();
        assert!(
            matches!(status, Err(GitError::Settings { .. })),
            "{name}: {status:?}"
        );
        if name != "index" && !name.contains('.') {
            Place::discover(&repo, &jit_git::GitEnv::default()).expect_err(name);
        }
        fs::remove_file(&file).expect("removed");
        if let Some(bytes) = before {
            fs::write(&file, bytes).expect("as before");
        }
    }
    Git::at(&repo).args(["status"]).run().expect("as before");
}

#[test]
fn l2_a_merge_fetches_nothing_into_a_submodule() {
    let world = GitWorld::new();
    let (repo, sub) = (world.repo("repo"), world.repo("repo/sub"));
    let program = Program::with(&world, "exit 1");
    world.git(&repo, ["add", "sub"]);
    world.commit(&repo, "a submodule");
    for (branch, digit) in [("left", "1"), ("right", "2")] {
        world.git(&repo, ["checkout", "-q", "-f", "-b", branch, "main"]);
        let link = format!("160000,{},sub", digit.repeat(40));
        world.git(&repo, ["update-index", "--cacheinfo", &link]);
        world.commit(&repo, branch);
    }
    set(&world, &sub, "extensions.partialClone", "origin");
    set(&world, &sub, "remote.origin.url", "host:sub");
    set(&world, &sub, "core.sshCommand", &program.path);
    let merge = ["merge-tree", "--write-tree", "left", "right"];
    assert!(!starts_it(&program, &repo, &merge));
    let _ = world.try_git(&repo, merge, &[]);
    assert!(program.ran(), "git itself runs it");
}
