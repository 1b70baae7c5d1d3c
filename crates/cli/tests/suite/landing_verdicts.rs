//! What is said about a merge is what git does (H1).

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use jit_engine::landing::{Repo, detect};
use jit_testkit::rng::Rng;
use jit_testkit::world::World;
use jit_testkit::world::tools::long;

use crate::landing::JIT;

/// A name that is no UTF-8.
const LATIN: &[u8] = b"caf\xe9";

/// Changes one of the first three lines.
fn change_line(path: &Path, rng: &mut Rng) {
    let text = fs::read_to_string(path).expect("text");
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines[rng.index(3)] = format!("changed {}", rng.range(0, 3));
    fs::write(path, lines.join(end) + end).expect("a file");
}

/// What the first sides change first, so that each kind of thing is changed by two of them at least.
const FIRST: [u64; 14] = [6, 6, 6, 8, 8, 8, 7, 7, 10, 11, 12, 12, 13, 13];

/// Changes a few things at random, this one first. `subs` are commits of the submodule.
fn mangle(world: &World, dir: &Path, subs: &[String], mut first: Option<u64>, rng: &mut Rng) {
    for _ in 0..rng.range(1, 4) {
        let file = format!("dir{}/f{}", rng.range(0, 2), rng.range(0, 3));
        let path = dir.join(&file);
        let there = path.is_file();
        match first.take().unwrap_or_else(|| rng.range(0, 18)) {
            0 if there => fs::remove_file(&path).expect("gone"),
            1 if there => {
                let to = format!("dir{}/g{}", rng.range(0, 3), rng.range(0, 3));
                let goal = dir.join(&to);
                if !goal.exists() && goal.parent().is_some_and(|parent| !parent.is_file()) {
                    fs::create_dir_all(goal.parent().expect("a folder")).expect("a folder");
                    fs::rename(&path, goal).expect("renamed");
                }
            }
            2 if there => {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
            }
            3 => {
                let new = dir.join(format!("new{}", rng.range(0, 2)));
                if !new.is_dir() {
                    fs::write(new, format!("{}\n", rng.range(0, 3))).expect("a file");
                }
            }
            4 => {
                let (from, to) = (dir.join("dir0"), dir.join("moved"));
                if from.is_dir() && !to.exists() {
                    fs::rename(from, to).expect("renamed");
                }
            }
            5 => {
                let folder = dir.join("new0");
                if !folder.exists() {
                    fs::create_dir(&folder).expect("a folder");
                    fs::write(folder.join("inside"), "x\n").expect("a file");
                }
            }
            6 => fs::write(dir.join("bin"), [0, rng.range(0, 3) as u8]).expect("a file"),
            7 => {
                let link = dir.join("link");
                let _ = fs::remove_file(&link);
                if rng.bool(0.8) {
                    symlink(format!("dir0/f{}", rng.range(0, 3)), link).expect("a link");
                } else {
                    fs::write(link, "a file now\n").expect("a file");
                }
            }
            8 => {
                world.git(&dir.join("sub"), ["checkout", "-q", rng.choose(subs).as_str()]);
            }
            9 => change_line(&dir.join("crlf.txt"), rng),
            10 => {
                // The same lines, ended in another way: every one of them differs for git.
                let dos = dir.join("dos.bat");
                let text = fs::read_to_string(&dos).expect("text");
                fs::write(dos, text.replace("\r\n", "\n")).expect("a file");
            }
            11 => change_line(&dir.join("dos.bat"), rng),
            12 => change_line(&dir.join("list.all"), rng),
            13 => change_line(&dir.join(OsStr::from_bytes(LATIN)), rng),
            _ if there => change_line(&path, rng),
            _ => {}
        }
    }
    world.git(dir, ["add", "-A"]);
    world.git(dir, ["commit", "-q", "--allow-empty", "-m", "change"]);
}

/// A submodule `sub`, and commits of it: the first, two on top of it, and one beside those.
fn submodule(world: &World, dir: &Path) -> Vec<String> {
    let lib = world.root().join("lib");
    world.git(world.root(), ["init", "-q", "-b", "main", "lib"]);
    let commit = |name: &str| -> String {
        world.git(&lib, ["commit", "-q", "--allow-empty", "-m", name]);
        world.git(&lib, ["rev-parse", "HEAD"]).trim().to_owned()
    };
    let mut subs = vec![commit("first"), commit("second"), commit("third")];
    world.git(&lib, ["checkout", "-q", "-b", "beside", &subs[0]]);
    subs.push(commit("beside"));
    let lib = lib.to_str().expect("UTF-8");
    let allow = "protocol.file.allow=always";
    world.git(dir, ["-c", allow, "submodule", "add", "-q", lib, "sub"]);
    world.git(&dir.join("sub"), ["checkout", "-q", &subs[0]]);
    subs
}

#[test]
fn h1_verdicts_trees_and_paths_are_gits_own() {
    // Every pair of so many sides: 276 merges, or 2,016.
    let sides = if long() { 64 } else { 24 };
    let world = World::with_jit(JIT);
    let dir = world.repo();
    for d in 0..2 {
        fs::create_dir(dir.join(format!("dir{d}"))).expect("a folder");
        for f in 0..3 {
            let text: String = (0..12).map(|n| format!("{d}{f} line {n}\n")).collect();
            fs::write(dir.join(format!("dir{d}/f{f}")), text).expect("a file");
        }
    }
    fs::write(dir.join("bin"), [0, 9, 9]).expect("a file");
    symlink("dir0/f0", dir.join("link")).expect("a link");
    let lines = |end: &str| -> String { (0..12).map(|n| format!("line {n}{end}")).collect() };
    fs::write(
        dir.join(".gitattributes"),
        "crlf.txt text eol=crlf\n*.bat -text\n*.all merge=all\n",
    )
    .expect("attributes");
    let driver = "git merge-file -q --union %A %O %B";
    world.git(&dir, ["config", "merge.all.driver", driver]);
    // The user approved it.
    jit_git::set_approver(jit_git::Approver {
        is_approved: |_, _, _| true,
        own: |_, _| None,
    });
    fs::write(dir.join("crlf.txt"), lines("\r\n")).expect("a file");
    fs::write(dir.join("dos.bat"), lines("\r\n")).expect("a file");
    fs::write(dir.join("list.all"), lines("\n")).expect("a file");
    fs::write(dir.join(OsStr::from_bytes(LATIN)), lines("\n")).expect("a file");
    let subs = submodule(&world, &dir);
    world.git(&dir, ["add", "-A"]);
    world.git(&dir, ["commit", "-q", "-m", "base"]);
    let base = world.git(&dir, ["rev-parse", "HEAD"]).trim().to_owned();
    let mut rng = Rng::new(jit_testkit::rng::seed_from_env(jit_testkit::rng::SEED_VAR));
    let (mut pairs, mut expected) = (Vec::new(), Vec::new());
    let made: Vec<String> = (0..sides)
        .map(|side| {
            world.git(&dir, ["checkout", "-q", "--detach", "-f", &base]);
            world.git(&dir.join("sub"), ["checkout", "-q", &subs[0]]);
            mangle(&world, &dir, &subs, FIRST.get(side).copied(), &mut rng);
            world.git(&dir, ["rev-parse", "HEAD"]).trim().to_owned()
        })
        .collect();
    let all = made.iter().enumerate();
    for (ours, theirs) in all.flat_map(|(n, ours)| made.iter().skip(n + 1).map(move |theirs| (ours, theirs)))
    {
        world.git(&dir, ["reset", "-q", "--hard", ours]);
        let mut merge = world.command("git", &dir);
        merge.args(["merge", "-q", "--no-ff", "--no-commit", theirs]);
        let code = world.run(merge).code;
        assert!(matches!(code, 0 | 1), "git merge said {code}");
        let answer = if code == 0 {
            Ok(world.git(&dir, ["write-tree"]).trim().to_owned())
        } else {
            let listed = world.git(&dir, ["ls-files", "-u", "-z"]);
            let mut paths: Vec<String> = listed
                .split('\0')
                .filter_map(|entry| entry.split_once('\t'))
                .map(|(_, path)| path.to_owned())
                .collect();
            paths.dedup();
            Err(paths)
        };
        pairs.push((ours.clone(), theirs.clone()));
        expected.push(answer);
    }
    let repo = Repo::new(
        std::sync::Arc::new(jit_git::SystemGit),
        &dir.join(".git"),
        &world.control(),
    )
    .expect("a repository");
    let found = detect::merges(&|| repo.git(), repo.scratch(), &base, &pairs).expect("merges");
    let since: Vec<(String, String)> = made.iter().map(|side| (base.clone(), side.clone())).collect();
    let changed = detect::changed(repo.git(), &since).expect("what changed");
    let changed: std::collections::HashMap<&String, _> = made.iter().zip(changed).collect();
    let (mut clean, mut apart, mut kinds) = (0, 0, std::collections::BTreeSet::new());
    for ((pair, found), expected) in pairs.iter().zip(&found).zip(&expected) {
        // What is not even tried, because the two cannot meet, is clean for git too.
        if !changed[&pair.0].may_meet(&changed[&pair.1]) {
            apart += 1;
            assert!(expected.is_ok(), "{pair:?}");
        }
        match expected {
            Ok(tree) => {
                clean += 1;
                assert!(found.clean, "{pair:?}: {found:?}");
                assert_eq!(&found.tree, tree, "{pair:?}");
            }
            Err(paths) => {
                assert!(!found.clean, "{pair:?}");
                assert!(!found.conflicts.is_empty(), "{pair:?}");
                let mut stages: Vec<String> = found
                    .stages
                    .iter()
                    .map(|stage| String::from_utf8_lossy(&stage.path).into_owned())
                    .collect();
                stages.dedup();
                // git names the sides of a moved path after what it was called with.
                let plain = |paths: &[String]| -> Vec<String> {
                    paths
                        .iter()
                        .map(|path| path.split('~').next().unwrap_or_default().to_owned())
                        .collect()
                };
                assert_eq!(plain(&stages), plain(paths), "{pair:?}");
                kinds.extend(found.conflicts.iter().map(|one| one.kind.clone()));
            }
        }
    }
    assert!(clean > 0 && clean < expected.len(), "{clean} clean ones");
    assert!(apart > 0, "all of them can meet");
    for kind in ["content", "add/add", "modify/delete", "binary", "submodule"] {
        assert!(kinds.contains(kind), "{kind} never happened: {kinds:?}");
    }
}

#[test]
fn h1_two_that_cannot_meet_merge_cleanly() {
    let one = |paths: &[&str], moved: bool| detect::Changed {
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        moved,
    };
    for (a, b, meet) in [
        (one(&["a"], false), one(&["b"], false), false),
        (one(&["a"], false), one(&["a"], false), true),
        (one(&["a"], false), one(&["a/b"], false), true),
        (one(&["a/b/c"], false), one(&["a"], false), true),
        (one(&["a.x"], false), one(&["a/b"], false), false),
        (one(&["a"], true), one(&["b"], false), true),
    ] {
        assert_eq!(a.may_meet(&b), meet, "{a:?} {b:?}");
        assert_eq!(b.may_meet(&a), meet, "{a:?} {b:?}");
    }
}
