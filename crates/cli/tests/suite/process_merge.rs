//! Generated histories (C7): random changes on several branches, merged in several orders. And many writers of one
//! store, some of whom are killed (D1).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use jit_testkit::rng::{DEFAULT_SEED, Rng, SEED_VAR, SeedOnPanic, seed_in_env};
use jit_testkit::world::World;
use jit_testkit::world::tools::{long, say};
use serde_json::{Value, json};

use crate::merging::{Tree, world};

/// What was said yes to on the branches.
#[derive(Default, Debug)]
struct Acknowledged {
    comments: BTreeSet<String>,
    labels: BTreeSet<String>,
    deps: BTreeSet<String>,
    /// Which branches set a field, and to what last.
    fields: BTreeMap<&'static str, BTreeMap<usize, String>>,
    /// Parts of the description that were replaced.
    parts: BTreeSet<String>,
}

const PARTS: [&str; 4] = ["first", "middle", "more", "last"];

/// One random change on branch `n`.
fn change(tree: &Tree<'_>, n: usize, step: usize, rng: &mut Rng, said: &mut Acknowledged) {
    let unique = format!("{n}-{step}");
    let mut set = |field: &'static str, value: &str| {
        said.fields.entry(field).or_default().insert(n, value.to_owned());
    };
    match rng.index(11) {
        0 => {
            let title = format!("title {unique}");
            tree.jit(["issue", "update", "WI-001", "--title", &title]);
            set("title", &title);
        }
        1 => {
            let priority = *rng.choose(&["low", "high", "critical"]);
            tree.jit(["issue", "update", "WI-001", "--priority", priority]);
            set("priority", priority);
        }
        2 => {
            let kind = format!("kind{n}");
            tree.jit(["issue", "update", "WI-001", "--type", &kind]);
            set("type", &kind);
        }
        3 => {
            tree.jit(["issue", "update", "WI-001", "--add-label", &unique]);
            said.labels.insert(unique);
        }
        4 => {
            // Another one may have been first.
            let _ = tree.run(["issue", "update", "WI-001", "--remove-label", "old"]);
        }
        5 => {
            let on = *rng.choose(&["WI-002", "WI-003"]);
            tree.jit(["dep", "add", "WI-001", on]);
            said.deps.insert(on.to_owned());
        }
        6 => {
            let text = format!("comment {unique} ü\u{1b}\nof two lines");
            tree.jit(["issue", "comment", "WI-001", &text]);
            said.comments.insert(text);
        }
        7 => {
            let part = PARTS[n % PARTS.len()];
            tree.edit("description.md", |text| {
                text.replace(&format!("{part}\n"), &format!("{part}\n{part}+\n"))
            });
            let _ = tree.show("WI-001");
            said.parts.insert(format!("{part}+"));
        }
        8 => {
            let title = format!("by hand {unique}");
            tree.edit("issue.json", |text| {
                let mut file: Value = serde_json::from_str(&text).expect("JSON");
                file["title"] = json!(title);
                serde_json::to_string_pretty(&file).expect("text") + "\n"
            });
            set("title", &title);
        }
        9 => {
            let label = format!("hand-{unique}");
            tree.edit("labels.or-set.jsonl", |text| {
                format!("{text}{{\"op\":\"add\",\"value\":\"{label}\"}}\n")
            });
            said.labels.insert(label);
        }
        _ => {
            tree.commit();
            let _ = tree.run(["issue", "list"]).ok();
        }
    }
}

/// What a person sees of the issue.
fn seen(tree: &Tree<'_>) -> Value {
    let shown = tree.show("WI-001");
    let mut texts: Vec<_> = shown["comments"]
        .as_array()
        .map(|all| all.iter().map(|c| c["text"].clone()).collect())
        .unwrap_or_default();
    texts.sort_by_key(ToString::to_string);
    let mut of = json!({ "comments": texts });
    for name in [
        "title",
        "type",
        "priority",
        "state",
        "labels",
        "depends_on",
        "description",
        "blocked",
    ] {
        of[name] = shown[name].clone();
    }
    of
}

/// One history; how many orders merged, and how many were tried.
fn history(rng: &mut Rng) -> (usize, usize) {
    let world = world();
    let worktrees = rng.bool(0.4);
    let branches: Vec<Tree<'_>> = (0..rng.range(2, 5))
        .map(|n| match worktrees {
            true => Tree::worktree_of(&world, &format!("b{n}")),
            false => Tree::clone_of(&world, &format!("b{n}")),
        })
        .collect();
    let mut said = Acknowledged::default();
    for step in 0..rng.range(3, 9) {
        // By turns, so that worktrees see each other's doings.
        let n = rng.index(branches.len());
        change(&branches[n], n, step as usize, rng, &mut said);
    }
    for branch in &branches {
        branch.commit();
        let _ = branch.run(["issue", "list"]).ok();
        assert_eq!(branch.status(), "");
    }
    let mut outcomes: Vec<(Vec<usize>, Value)> = Vec::new();
    let orders = 2;
    let mut turns: Vec<usize> = (0..branches.len()).collect();
    rng.shuffle(&mut turns);
    for order in 0..orders {
        turns.reverse();
        let into = Tree::clone_of(&world, &format!("into{order}"));
        let conflict = turns.iter().any(|n| {
            let (code, said) = into.take("merge", &branches[*n]);
            assert!(code == 0 || said.contains("CONFLICT"), "{said}");
            code != 0
        });
        if conflict {
            continue;
        }
        let fresh = Tree::clone_of_tree(&world, &into, &format!("fresh{order}"));
        let outcome = seen(&fresh);
        assert_eq!(
            seen(&into),
            outcome,
            "merged there and cloned from there, {turns:?}"
        );
        let file: Value = serde_json::from_str(&into.read("issue.json")).expect("JSON");
        for name in ["title", "type", "priority", "state"] {
            assert_eq!(
                file[name], outcome[name],
                "{name} in the tree, {turns:?}: {file:#}"
            );
        }
        assert_eq!(into.status() + &fresh.status(), "");
        let _ = fresh.run(["validate"]).ok();
        outcomes.push((turns.clone(), outcome));
    }
    for (turns, outcome) in &outcomes {
        assert_eq!(outcome, &outcomes[0].1, "{turns:?} and {:?}", outcomes[0].0);
        let all = |name: &str| -> BTreeSet<String> {
            let list = outcome[name].as_array().expect("a list");
            list.iter()
                .filter_map(|v| v.as_str())
                .map(str::to_owned)
                .collect()
        };
        assert!(
            all("comments").is_superset(&said.comments),
            "{outcome:#} {said:#?}"
        );
        assert!(all("labels").is_superset(&said.labels), "{outcome:#} {said:#?}");
        assert!(all("depends_on").is_superset(&said.deps), "{outcome:#} {said:#?}");
        for part in &said.parts {
            assert!(
                outcome["description"].to_string().contains(part.as_str()),
                "{outcome:#} {said:#?}"
            );
        }
        for (name, by) in said.fields.iter().filter(|(_, by)| by.len() == 1) {
            let last = by.values().next().expect("one");
            assert_eq!(&outcome[*name], last, "{name}: {said:#?}");
        }
    }
    (outcomes.len(), orders)
}

/// In how many parts the histories run side by side, and how many there are in each.
const PARTS_OF: (u64, u64) = (50, 20);

/// Histories that have found something: a description that was edited twice in one worktree took another's part away.
const FOUND: [u64; 1] = [72];

fn histories(part: u64) {
    let each = match (long(), part) {
        (true, _) => PARTS_OF.1,
        (false, ..8) => 1,
        (false, _) => 0,
    };
    let seeds: Vec<u64> = match seed_in_env(SEED_VAR) {
        Some(seed) if part == 0 => vec![seed],
        Some(_) => Vec::new(),
        None => {
            let found = FOUND.iter().filter(|_| part == 0).copied();
            let all = (0..each).map(|n| part * PARTS_OF.1 + n);
            all.chain(found).map(|n| DEFAULT_SEED + n).collect()
        }
    };
    let (mut merged, mut tried) = (0, 0);
    for seed in &seeds {
        let _says = SeedOnPanic(*seed);
        let (some, of) = history(&mut Rng::new(*seed));
        merged += some;
        tried += of;
    }
    say(&format!(
        "{} histories, {merged} of {tried} orders without conflict",
        seeds.len()
    ));
}

macro_rules! parts {
    ($($name:ident = $part:literal),+ $(,)?) => { $(
        #[test]
        fn $name() {
            histories($part);
        }
    )+ };
}

parts! {
    c7_histories_00 = 0, c7_histories_01 = 1, c7_histories_02 = 2, c7_histories_03 = 3, c7_histories_04 = 4,
    c7_histories_05 = 5, c7_histories_06 = 6, c7_histories_07 = 7, c7_histories_08 = 8, c7_histories_09 = 9,
    c7_histories_10 = 10, c7_histories_11 = 11, c7_histories_12 = 12, c7_histories_13 = 13, c7_histories_14 = 14,
    c7_histories_15 = 15, c7_histories_16 = 16, c7_histories_17 = 17, c7_histories_18 = 18, c7_histories_19 = 19,
    c7_histories_20 = 20, c7_histories_21 = 21, c7_histories_22 = 22, c7_histories_23 = 23, c7_histories_24 = 24,
    c7_histories_25 = 25, c7_histories_26 = 26, c7_histories_27 = 27, c7_histories_28 = 28, c7_histories_29 = 29,
    c7_histories_30 = 30, c7_histories_31 = 31, c7_histories_32 = 32, c7_histories_33 = 33, c7_histories_34 = 34,
    c7_histories_35 = 35, c7_histories_36 = 36, c7_histories_37 = 37, c7_histories_38 = 38, c7_histories_39 = 39,
    c7_histories_40 = 40, c7_histories_41 = 41, c7_histories_42 = 42, c7_histories_43 = 43, c7_histories_44 = 44,
    c7_histories_45 = 45, c7_histories_46 = 46, c7_histories_47 = 47, c7_histories_48 = 48, c7_histories_49 = 49,
}

/// What one writer was told yes about.
#[derive(Default)]
struct Told {
    comments: BTreeSet<String>,
    labels: BTreeSet<String>,
    issues: BTreeSet<String>,
    /// The issue that nobody else writes.
    own: String,
    /// Titles that the writer's own issue may have now.
    titles: Vec<String>,
    killed: usize,
}

/// Runs a command that may be killed at any moment; true when it said yes.
fn dare(
    world: &World,
    tree: &std::path::Path,
    who: usize,
    words: &[&str],
    rng: &mut Rng,
    told: &mut Told,
) -> bool {
    let mut command = world.jit_command(tree);
    command
        .env("JIT_AGENT_ID", format!("agent:w{who}"))
        .args(words)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut child = command.spawn().expect("jit starts");
    if rng.bool(0.3) {
        // Any moment will do: this waits for nothing.
        thread::sleep(Duration::from_micros(rng.range(0, 30_000)));
        // It may have ended by itself.
        let _ = child.kill();
    }
    let status = child.wait().expect("an end");
    told.killed += usize::from(status.code().is_none());
    assert!(matches!(status.code(), Some(0) | None), "{words:?}: {status}");
    status.success()
}

#[test]
fn heavy_d1_twenty_writers_of_issues_some_of_them_killed() {
    let rounds = if long() { 60 } else { 8 };
    let world = world();
    let mut trees = vec![world.repo()];
    for n in 0..7 {
        let tree = world.worktree(&format!("tree{n}"));
        let _ = world.jit_in(&tree, ["worktree", "init"]).ok();
        trees.push(tree);
    }
    let seed = seed_in_env(SEED_VAR).unwrap_or(DEFAULT_SEED);
    let _says = SeedOnPanic(seed);
    let all: Mutex<Vec<Told>> = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for who in 0..20usize {
            let (world, trees, all) = (&world, &trees, &all);
            scope.spawn(move || {
                let mut rng = Rng::new(seed + who as u64);
                let mut told = Told::default();
                let own = format!("OWN-{who:02}");
                let tree = &trees[who % trees.len()];
                let _ = world
                    .jit_as_in(
                        &format!("agent:w{who}"),
                        tree,
                        ["issue", "create", "t", "--id", &own],
                    )
                    .ok();
                told.own.clone_from(&own);
                told.titles.push("t".into());
                for round in 0..rounds {
                    let tree = rng.choose(trees).clone();
                    let unique = format!("{who}-{round}");
                    let mut act =
                        |words: &[&str], told: &mut Told| dare(world, &tree, who, words, &mut rng, told);
                    match round % 4 {
                        0 => {
                            if act(&["issue", "comment", "WI-001", &unique], &mut told) {
                                told.comments.insert(unique);
                            }
                        }
                        1 => {
                            let words = [
                                "issue",
                                "update",
                                "WI-002",
                                "--add-label",
                                &unique,
                                "--lock-timeout",
                                "60",
                            ];
                            if act(&words, &mut told) {
                                told.labels.insert(unique);
                            }
                        }
                        2 => {
                            let id = format!("NEW-{unique}");
                            let words = ["issue", "create", "new", "--id", &id, "--description", &unique];
                            if act(&words, &mut told) {
                                told.issues.insert(id);
                            }
                        }
                        _ => {
                            let yes = act(&["issue", "update", &own, "--title", &unique], &mut told);
                            if yes {
                                told.titles.clear();
                            }
                            told.titles.push(unique);
                        }
                    }
                }
                all.lock().expect("no panic").push(told);
            });
        }
    });
    let all = all.into_inner().expect("no panic");
    let show = |id: &str| world.jit(["issue", "show", id, "--json"]).ok().json();
    let texts = |list: &Value, name: Option<&str>| -> BTreeSet<String> {
        let list = list.as_array().expect("a list").iter();
        list.filter_map(|v| name.map_or(v, |name| &v[name]).as_str())
            .map(str::to_owned)
            .collect()
    };
    let (comments, labels) = (
        texts(&show("WI-001")["comments"], Some("text")),
        texts(&show("WI-002")["labels"], None),
    );
    let listed = world.jit(["issue", "list", "--json"]).ok().json();
    let titles: BTreeMap<String, String> = listed["issues"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|issue| {
            let text = |name: &str| issue[name].as_str().expect("a text").to_owned();
            (text("id"), text("title"))
        })
        .collect();
    let (mut writes, mut killed) = (0, 0);
    for told in &all {
        assert!(comments.is_superset(&told.comments));
        assert!(labels.is_superset(&told.labels));
        assert!(told.issues.iter().all(|id| titles.contains_key(id)));
        assert!(told.titles.contains(&titles[&told.own]), "{:?}", told.titles);
        writes += told.comments.len() + told.labels.len() + told.issues.len();
        killed += told.killed;
    }
    for id in all.iter().flat_map(|told| &told.issues).take(20) {
        let text = show(id)["description"].clone();
        assert_eq!(text, format!("{}\n", id.trim_start_matches("NEW-")));
    }
    // The replica and every tree can be read, and nothing is taken for an edit.
    let first = world.jit(["validate", "--json"]).ok().json();
    let events = world.events().len();
    for tree in &trees {
        let _ = world.jit_in(tree, ["validate"]).ok();
        let list = world.jit_in(tree, ["issue", "list"]).ok();
        assert!(!list.stderr.contains("left alone"), "{}", list.stderr);
    }
    assert_eq!(world.events().len(), events, "nothing looked like an edit");
    say(&format!(
        "{writes} writes acknowledged, {killed} writers killed, {} replicas mended",
        first["mended"].as_array().map_or(0, Vec::len)
    ));
}
