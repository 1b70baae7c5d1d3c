//! C7, E7: merging and joining copies of an issue gives the same in every order, and loses nothing.

use jit_core::issue_files::format::{FoundIssue, IssueFolder, files, issue_json, parse};
use jit_core::issue_files::merge::{join, merge, unaware};
use jit_core::issue_files::stamps::{SetLine, Sheet, members, union};
use jit_core::model::ids::IssueId;
use jit_core::model::issue::{Issue, IssueState, Performer, Priority, text_digest};
use jit_core::model::time::Wall;
use proptest::prelude::*;
use serde_json::{Map, Value};

const BEGIN: i64 = 1_800_000_000_000;

fn id() -> IssueId {
    "WI-001".parse().expect("an id")
}

fn at(n: i64) -> Wall {
    Wall::from_ms(BEGIN + n)
}

/// An edit of a copy: a field, its new value, and the time.
#[derive(Debug, Clone)]
struct Act {
    field: usize,
    value: u8,
    at: i64,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = (0..14usize, 0..4u8, 1..6i64).prop_map(|(field, value, at)| Act { field, value, at });
    prop::collection::vec(act, 0..6)
}

fn begin() -> (Issue, Sheet) {
    let issue = Issue {
        id: id(),
        title: "t0".into(),
        kind: "issue".into(),
        state: IssueState::Ready,
        priority: Priority::Normal,
        parent: None,
        labels: Vec::new(),
        depends_on: Vec::new(),
        gates: Vec::new(),
        actor: Performer::Any,
        blocked: None,
        pivot: None,
        created_at: at(0),
        created_by: None,
        updated_at: at(0),
        revision: 1,
        lives_in: None,
        text: None,
    };
    (issue, Sheet::default())
}

fn line(op: &str, value: String, tag: String, n: i64) -> SetLine {
    let agent_id = "agent:a".parse().expect("an agent");
    let at = at(n);
    SetLine {
        op: op.into(),
        value,
        tag,
        agent_id,
        at,
    }
}

/// A copy after these acts. `who` keeps tags of different copies apart.
fn after((mut issue, mut sheet): (Issue, Sheet), who: &str, acts: &[Act]) -> (Issue, Sheet) {
    for (n, act) in acts.iter().enumerate() {
        let (old, was_deleted) = (issue.clone(), sheet.deleted);
        let v = act.value;
        if sheet.deleted && (act.field != 8 || v > 0) {
            // No command changes what was deleted.
            continue;
        }
        let text = (v > 0).then(|| format!("why {v}"));
        match act.field {
            0 | 1 => issue.title = format!("t{v}"),
            2 => issue.kind = format!("kind{v}").into(),
            3 => issue.state = IssueState::ALL[usize::from(v)],
            4 => issue.priority = Priority::ALL[usize::from(v)],
            5 => issue.blocked = text,
            6 => issue.text = text.map(|text| text_digest(text.as_bytes())),
            7 => issue.gates = (0..v).map(|g| format!("g{g}")).collect(),
            8 => sheet.deleted = v > 0,
            9 => {
                let tag = format!("{who}.{n}");
                sheet.labels.push(line("add", format!("l{v}"), tag, act.at));
            }
            10 => {
                let gone = sheet.labels.first().cloned();
                sheet
                    .labels
                    .extend(gone.map(|l| line("remove", l.value, l.tag, act.at)));
            }
            12 | 13 => {
                // Written by a program that knows more fields.
                let name = format!("other{}", act.field);
                match v {
                    0 => sheet.others.remove(&name),
                    v => sheet.others.insert(name, serde_json::json!({ "n": v })),
                };
            }
            _ => sheet
                .deps
                .push(line("add", format!("WI-10{v}"), format!("{who}.{n}"), act.at)),
        }
        sheet.labels = union(&sheet.labels, &[]);
        sheet.deps = union(&sheet.deps, &[]);
        issue.labels = members(&sheet.labels);
        issue.depends_on = members(&sheet.deps)
            .iter()
            .map(|d| d.parse().expect("id"))
            .collect();
        // As a command does it: time goes forward in each copy.
        issue.updated_at = at(act.at).max(Wall::from_ms(old.updated_at.ms() + 1));
        issue.revision += 1;
        sheet.stamp_changes(&old, was_deleted, &issue);
        if act.field >= 12 {
            sheet
                .stamps
                .insert(format!("other{}", act.field), issue.updated_at);
        }
    }
    (issue, sheet)
}

/// Reads the files of a copy.
fn found((issue, sheet): &(Issue, Sheet)) -> FoundIssue {
    let mut folder = IssueFolder::default();
    for (name, content) in files(issue, sheet, &[]) {
        match name {
            "issue.json" => folder.issue = content,
            "labels.or-set.jsonl" => folder.labels = content,
            "deps.or-set.jsonl" => folder.deps = content,
            other => panic!("{other}"),
        }
    }
    let found = parse(&id(), &folder).expect("sound");
    assert!(found.edited.is_empty() && found.problems.is_empty(), "{found:?}");
    assert_eq!(
        (&found.issue, &found.sheet),
        (issue, sheet),
        "files say what was written"
    );
    found
}

fn joined(a: &(Issue, Sheet), b: &(Issue, Sheet)) -> (Issue, Sheet) {
    join((&a.0, &a.1), &found(b), at(99)).unwrap_or_else(|| a.clone())
}

fn fields((issue, sheet): &(Issue, Sheet)) -> Map<String, Value> {
    serde_json::from_slice(&issue_json(issue, sheet)).expect("JSON")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn c7_joining_is_commutative_associative_and_idempotent(base in acts(), a in acts(), b in acts(), c in acts()) {
        let base = after(begin(), "base", &base);
        let [a, b, c] = [("a", a), ("b", b), ("c", c)].map(|(who, acts)| after(base.clone(), who, &acts));
        prop_assert_eq!(joined(&a, &b), joined(&b, &a));
        prop_assert_eq!(joined(&joined(&a, &b), &c), joined(&a, &joined(&b, &c)));
        prop_assert_eq!(joined(&a, &a), a.clone());
        prop_assert_eq!(joined(&joined(&a, &b), &b), joined(&a, &b));
        prop_assert_eq!(joined(&joined(&a, &b), &base), joined(&a, &b), "older copies change nothing");
    }

    #[test]
    fn c7_joining_issues_made_twice_under_one_id(a in acts(), b in acts(), late in 0..3i64, by in 0..3usize) {
        let mut other = begin();
        other.0.created_at = at(late);
        other.0.updated_at = at(late);
        other.0.created_by = [None, Some("human:a"), Some("human:b")][by].map(|by| by.parse().expect("an agent"));
        let (a, b) = (after(begin(), "a", &a), after(other, "b", &b));
        prop_assert_eq!(joined(&a, &b), joined(&b, &a));
        prop_assert_eq!(joined(&joined(&a, &b), &b), joined(&a, &b));
    }

    #[test]
    fn c7_merging_is_symmetric_and_joining_a_side_changes_nothing(base in acts(), a in acts(), b in acts()) {
        let base = after(begin(), "base", &base);
        let (a, b) = (after(base.clone(), "a", &a), after(base.clone(), "b", &b));
        let [fb, fa, ft] = [&base, &a, &b].map(fields);
        let (one, other) = (merge(Some(&fb), &fa, &ft), merge(Some(&fb), &ft, &fa));
        let names = |m: &jit_core::issue_files::merge::Merged| m.conflicts.iter().map(|c| c.field.clone()).collect::<Vec<_>>();
        prop_assert_eq!(names(&one), names(&other));
        for conflict in &one.conflicts {
            let [fa, ft, fb] = [&fa, &ft, &fb].map(|side| side.get(&conflict.field));
            prop_assert!(fa != ft && fa != fb);
            prop_assert!(one.fields.contains_key(&conflict.field), "it is shown");
        }
        if !one.conflicts.is_empty() {
            return Ok(());
        }
        prop_assert_eq!(&one.fields, &other.fields);
        // A change of one side is there.
        // A gate that the other side asked for and took away again was changed there too, and its stamp says when.
        let gate_stamps = |side: &Map<String, Value>| -> Vec<(String, Value)> {
            let all = side.get("stamps").and_then(Value::as_object).into_iter().flatten();
            all.filter(|(name, _)| name.starts_with("gate")).map(|(name, at)| (name.clone(), at.clone())).collect()
        };
        let gates_untouched = gate_stamps(&ft) == gate_stamps(&fb);
        // So was a field that the other side changed and set back.
        let stamp = |side: &Map<String, Value>, name: &str| side.get("stamps").and_then(|all| all.get(name).cloned());
        let one_sided = |name: &str| {
            ft.get(name) == fb.get(name)
                && stamp(&ft, name) == stamp(&fb, name)
                && !matches!(name, "stamps" | "deleted")
                && (name != "gates" || gates_untouched)
        };
        for (name, value) in fa.iter().filter(|(name, _)| one_sided(name)) {
            prop_assert_eq!(one.fields.get(name), Some(value), "{}", name);
        }
        let text = jit_core::issue_files::merge::render(&one);
        let folder = IssueFolder { issue: text.into_bytes(), ..IssueFolder::default() };
        let merged = parse(&id(), &folder).expect("sound");
        prop_assert!(merged.edited.iter().all(|name| *name == "text"), "{:?}", merged.edited);
        prop_assert_eq!(&merged.edited_others, &[""; 0]);
        // A deletion and later changes come to the same in a merge and in a join.
        if !base.1.deleted {
            prop_assert_eq!(merged.sheet.deleted, joined(&a, &b).1.deleted);
        }
        let mut whole = (merged.issue, merged.sheet);
        whole.1.labels = union(&a.1.labels, &b.1.labels);
        whole.1.deps = union(&a.1.deps, &b.1.deps);
        whole.0.labels = members(&whole.1.labels);
        whole.0.depends_on = members(&whole.1.deps).iter().map(|d| d.parse().expect("id")).collect();
        for side in [&a, &b, &base] {
            let found = found(side);
            prop_assert_eq!(join((&whole.0, &whole.1), &found, at(99)), None);
        }
    }

    #[test]
    fn c7_picking_a_commit_takes_nothing_back(base in acts(), main in acts(), first in acts(), second in acts()) {
        // No deletions: what is brought back has its own rules. No two of one moment: one log has none.
        let alive = |acts: Vec<Act>, times: i64, plus: i64| {
            let acts = acts.into_iter().filter(|act| act.field != 8);
            acts.map(|act| Act { at: act.at * times + plus, ..act }).collect::<Vec<_>>()
        };
        let base = after(begin(), "base", &alive(base, 1, 0));
        let main = after(base.clone(), "main", &alive(main, 100, 0));
        let first = after(base, "side", &alive(first, 100, 30));
        let second = after(first.clone(), "later", &alive(second, 100, 60));
        let log = joined(&main, &second);
        // `git cherry-pick` of the second commit onto main, and `git revert` of it: the log knows all of it already.
        for (base, ours, theirs) in [(&first, &main, &second), (&second, &log, &first)] {
            let merged = merge(Some(&fields(base)), &fields(ours), &fields(theirs));
            if !merged.conflicts.is_empty() {
                continue;
            }
            let folder = IssueFolder { issue: jit_core::issue_files::merge::render(&merged).into_bytes(), ..IssueFolder::default() };
            let mut picked = parse(&id(), &folder).expect("sound");
            picked.edited.retain(|name| *name != "text");
            prop_assert_eq!(&picked.edited, &[""; 0]);
            // The text is a file of its own, which is weighed by itself.
            picked.issue.text.clone_from(&log.0.text);
            picked.sheet.stamps.remove("text");
            let after = fields(&join((&log.0, &log.1), &picked, at(99)).unwrap_or_else(|| log.clone()));
            for (name, value) in fields(&log).iter().filter(|(name, _)| !matches!(name.as_str(), "stamps" | "updated_at")) {
                prop_assert_eq!(after.get(name), Some(value), "{}", name);
            }
        }
    }

    #[test]
    fn c7_a_choice_made_in_a_conflict_wins_over_both_sides(a in 1..4u8, b in 1..4u8, first in 1..5i64, second in 1..5i64, pick in 0..3usize) {
        prop_assume!(a != b);
        let base = begin();
        let side = |who, value, at| after(base.clone(), who, &[Act { field: 0, value, at }]);
        let (a, b) = (side("a", a, first), side("b", b, second));
        let merged = merge(Some(&fields(&base)), &fields(&a), &fields(&b));
        prop_assert_eq!(merged.conflicts.len(), 1);
        let chosen = [a.0.title.as_str(), b.0.title.as_str(), "neither"][pick];
        let mut resolved = merged.fields;
        resolved.insert("title".into(), chosen.into());
        let text = serde_json::to_vec_pretty(&resolved).expect("text");
        let folder = IssueFolder { issue: text, ..IssueFolder::default() };
        // Committed before anybody looked, and looked at before it was committed.
        let mut committed = parse(&id(), &folder).expect("sound");
        prop_assert_eq!(&committed.edited, &["title"]);
        let fresh = committed.clone();
        committed.settle_all(at(0));
        for side in [&a, &b] {
            for found in [&fresh, &committed] {
                let title = join((&side.0, &side.1), found, at(0)).map_or(side.0.title.clone(), |(issue, _)| issue.title);
                prop_assert_eq!(&title, chosen);
            }
        }
    }

    #[test]
    fn c7_no_bytes_make_the_parser_panic(issue in ".{0,200}", lines in prop::collection::vec(any::<u8>(), 0..300)) {
        let folder = IssueFolder { issue: issue.into_bytes(), labels: lines.clone(), comments: lines.clone(), deps: lines.clone(), description: Some(lines.clone()) };
        let _ = parse(&id(), &folder);
        let mut sound = IssueFolder { issue: issue_json(&begin().0, &begin().1), ..folder };
        let _ = parse(&id(), &sound).expect("bad lines are passed over");
        // Every beginning of a sound file, and every file with one byte of garbage.
        for (n, byte) in lines.iter().enumerate() {
            let place = n * 7 % sound.issue.len();
            sound.issue[place] = *byte;
            let _ = parse(&id(), &sound);
            let _ = parse(&id(), &IssueFolder { issue: sound.issue[..place].to_vec(), ..IssueFolder::default() });
        }
    }
}

#[test]
fn c7_a_merged_deletion_is_no_earlier_than_a_field_that_jit_does_not_know() {
    let act = |field, value, at| Act { field, value, at };
    let base = begin();
    let a = after(base.clone(), "a", &[act(13, 1, 1), act(8, 1, 2)]);
    let b = after(base.clone(), "b", &[act(0, 0, 1), act(13, 0, 2)]);
    let merged = merge(Some(&fields(&base)), &fields(&a), &fields(&b));
    assert_eq!(merged.conflicts, []);
    let folder = IssueFolder {
        issue: jit_core::issue_files::merge::render(&merged).into_bytes(),
        ..IssueFolder::default()
    };
    let merged = parse(&id(), &folder).expect("sound");
    assert!(merged.sheet.deleted);
    for side in [&a, &b, &base] {
        assert_eq!(join((&merged.issue, &merged.sheet), &found(side), at(99)), None);
    }
}

#[test]
fn c7_an_edit_that_is_later_than_a_deletion_brings_the_issue_back_and_no_other_does() {
    let act = |field, value, at| Act { field, value, at };
    let base = after(begin(), "base", &[act(0, 1, 1)]);
    let gone = after(base.clone(), "a", &[act(8, 1, 10)]);
    for (alive, back) in [
        (base.clone(), false),
        (after(base.clone(), "b", &[act(0, 2, 5)]), false),
        (after(base.clone(), "b", &[act(0, 2, 20)]), true),
        // A label is a change too.
        (after(base.clone(), "b", &[act(9, 2, 20)]), true),
    ] {
        let joined = joined(&gone, &alive);
        assert_eq!(joined.1.deleted, !back, "{joined:?}");
        let merged = merge(Some(&fields(&base)), &fields(&alive), &fields(&gone));
        assert!(merged.conflicts.is_empty(), "{merged:?}");
        assert_eq!(merged.fields.contains_key("deleted"), !back, "{merged:?}");
        // Deleted once more, by somebody who knows.
        let again = after(joined, "c", &[act(8, 1, 30)]);
        for side in [&gone, &alive, &base] {
            assert_eq!(join((&again.0, &again.1), &found(side), at(99)), None);
        }
    }
}

#[test]
fn e7_a_deletion_by_hand_is_an_edit() {
    let mine = after(
        begin(),
        "a",
        &[Act {
            field: 0,
            value: 1,
            at: 10_000_000_000,
        }],
    );
    let mut file = fields(&mine);
    file.insert("deleted".into(), true.into());
    let folder = IssueFolder {
        issue: serde_json::to_vec(&file).expect("text"),
        ..IssueFolder::default()
    };
    let fresh = parse(&id(), &folder).expect("sound");
    assert_eq!(fresh.edited, ["deleted"]);
    let mut committed = fresh.clone();
    committed.settle_all(at(3));
    for edit in [fresh, committed] {
        let (issue, sheet) = join((&mine.0, &mine.1), &edit, at(5)).expect("news");
        assert!(sheet.deleted);
        assert_eq!(join((&issue, &sheet), &found(&mine), at(6)), None);
    }
}

#[test]
fn e7_an_edit_by_hand_wins_over_stamps_from_the_future() {
    let mut future = after(
        begin(),
        "a",
        &[Act {
            field: 0,
            value: 1,
            at: 10_000_000_000,
        }],
    );
    let mut file = fields(&future);
    file.insert("title".into(), "by hand".into());
    let folder = IssueFolder {
        issue: serde_json::to_vec(&file).expect("text"),
        ..IssueFolder::default()
    };
    let edit = parse(&id(), &folder).expect("sound");
    assert_eq!(edit.edited, ["title"]);
    let (issue, sheet) = join((&future.0, &future.1), &edit, at(5)).expect("news");
    assert_eq!(issue.title, "by hand");
    assert!(sheet.stamp(&issue, "title") > future.1.stamp(&future.0, "title"));
    assert!(
        issue.updated_at >= sheet.stamp(&issue, "title"),
        "the next command is later still"
    );
    assert_eq!(join((&issue, &sheet), &found(&future), at(6)), None);
    // Even at the end of all time.
    future.1.stamps.insert("title".into(), Wall::from_ms(i64::MAX));
    let (issue, _) = join((&future.0, &future.1), &edit, at(5)).expect("news");
    assert_eq!(issue.title, "by hand");
}

#[test]
fn e7_a_text_that_was_taken_away_stays_away() {
    let with = after(
        begin(),
        "a",
        &[Act {
            field: 6,
            value: 1,
            at: 1,
        }],
    );
    let without = after(
        with.clone(),
        "a",
        &[Act {
            field: 6,
            value: 0,
            at: 2,
        }],
    );
    assert_eq!(joined(&with, &without).0.text, None);
    assert_eq!(joined(&without, &with).0.text, None);
}

#[test]
fn e7_a_file_without_stamps_is_taken_unless_it_is_older() {
    let mine = begin();
    let mut file = fields(&mine);
    file.remove("stamps");
    file.insert("title".into(), "by another tool".into());
    let read = |file: &Map<String, Value>| {
        let folder = IssueFolder {
            issue: serde_json::to_vec(file).expect("text"),
            ..IssueFolder::default()
        };
        parse(&id(), &folder).expect("sound")
    };
    let (issue, sheet) = join((&mine.0, &mine.1), &read(&file), at(5)).expect("news");
    assert_eq!(issue.title, "by another tool");
    // Again and again, and without anything else in it.
    file.insert("title".into(), "again".into());
    let again = join((&issue, &sheet), &read(&file), at(6)).expect("news");
    assert_eq!(again.0.title, "again");
    let later = after(
        again,
        "a",
        &[Act {
            field: 4,
            value: 1,
            at: 9,
        }],
    );
    file.insert("title".into(), "an old copy".into());
    assert_eq!(join((&later.0, &later.1), &read(&file), at(10)), None);
}

#[test]
fn c7_lines_of_sets_may_be_written_by_hand() {
    let (issue, sheet) = begin();
    let read = |labels: &str| {
        let folder = IssueFolder {
            issue: issue_json(&issue, &sheet),
            labels: labels.into(),
            ..IssueFolder::default()
        };
        let found = parse(&id(), &folder).expect("sound");
        assert!(found.problems.is_empty(), "{:?}", found.problems);
        found.issue.labels
    };
    let (add, remove) = (r#"{"op":"add","value":"x"}"#, r#"{"op":"remove","value":"x"}"#);
    assert_eq!(read(add), ["x"]);
    assert_eq!(read(&format!("{add}\r\n{remove}")), [""; 0]);
    assert_eq!(read(&format!("{add}\n{remove}\n{add}\n")), ["x"]);
}

#[test]
fn d7_a_hundred_thousand_bad_lines_are_told_of_in_a_few() {
    let (issue, sheet) = begin();
    let folder = IssueFolder {
        issue: issue_json(&issue, &sheet),
        labels: b"x\n".repeat(100_000),
        comments: b"{\"id\":1}\n".repeat(100_000),
        ..IssueFolder::default()
    };
    let found = parse(&id(), &folder).expect("sound");
    assert!(
        (2..=200).contains(&found.problems.len()),
        "{}",
        found.problems.len()
    );
    assert_eq!(
        (found.problems[0].file, found.problems[0].line),
        ("labels.or-set.jsonl", 1)
    );
}

#[test]
fn c7_what_sets_say_does_not_depend_on_the_order_of_their_lines() {
    let (issue, sheet) = begin();
    let read = |lines: &[String]| {
        let folder = IssueFolder {
            issue: issue_json(&issue, &sheet),
            labels: lines.join("\n").into(),
            ..IssueFolder::default()
        };
        let found = parse(&id(), &folder).expect("sound");
        assert!(found.problems.is_empty(), "{:?}", found.problems);
        (found.issue.labels, found.sheet.labels)
    };
    let written = |op: &str, tag: &str| {
        let line = line(op, "x".into(), tag.into(), 1);
        serde_json::to_string(&line).expect("JSON")
    };
    let hand = |op: &str| format!(r#"{{"op":"{op}","value":"x"}}"#);
    let first = format!("hand.{}.0", text_digest(b"x"));
    let cases = [
        // A gate that jit added, removed by hand on one side, while the other added and removed it anew.
        (
            vec![
                written("add", "t1"),
                hand("remove"),
                written("remove", "t1"),
                written("add", "t2"),
            ],
            false,
        ),
        (vec![written("add", "t1"), hand("remove"), hand("add")], true),
        (vec![hand("add"), hand("remove")], false),
        (vec![hand("add"), hand("remove"), hand("add")], true),
        // As jit writes down what was added and removed by hand; then it is added once more.
        (vec![written("add", &first), written("remove", &first)], false),
        (
            vec![written("add", &first), written("remove", &first), hand("add")],
            true,
        ),
    ];
    for (lines, is_member) in cases {
        let said = read(&lines);
        assert_eq!(!said.0.is_empty(), is_member, "{lines:?}");
        let mut order: Vec<usize> = (0..lines.len()).collect();
        // Every order, by going round in each beginning.
        for from in 0..lines.len() {
            order.rotate_left(1);
            for turn in from..lines.len() {
                order[from..].rotate_left(1);
                let turned: Vec<String> = order.iter().map(|n| lines[*n].clone()).collect();
                assert_eq!(read(&turned), said, "{turn}: {turned:?}");
            }
            order.reverse();
            let turned: Vec<String> = order.iter().map(|n| lines[*n].clone()).collect();
            assert_eq!(read(&turned), said, "{turned:?}");
        }
    }
}

#[test]
fn c7_of_two_texts_of_one_moment_none_takes_the_other_away() {
    let with = after(
        begin(),
        "a",
        &[Act {
            field: 6,
            value: 1,
            at: 1,
        }],
    );
    let mut without = with.clone();
    without.0.text = None;
    for (a, b) in [(&with, &without), (&without, &with)] {
        assert_eq!(joined(a, b).0.text, with.0.text);
        let merged = merge(None, &fields(a), &fields(b));
        assert_eq!(merged.fields["stamps"]["text"], fields(&with)["stamps"]["text"]);
    }
    // One that says nothing of a text does not take it away either.
    let mut silent = fields(&without);
    silent["stamps"].as_object_mut().expect("stamps").remove("text");
    let merged = merge(Some(&fields(&with)), &silent, &fields(&with));
    assert_eq!(merged.fields["stamps"]["text"], fields(&with)["stamps"]["text"]);
}

#[test]
fn c7_adding_a_gate_takes_no_other_away_and_a_removal_stays() {
    let gates = |copy: &(Issue, Sheet), change: &[(&str, bool)], n: i64| {
        let (mut issue, mut sheet) = copy.clone();
        let old = issue.clone();
        for (gate, asked) in change {
            issue.gates.retain(|one| one != gate);
            if *asked {
                issue.gates.push((*gate).to_owned());
            }
        }
        issue.gates.sort();
        issue.updated_at = at(n);
        sheet.stamp_changes(&old, false, &issue);
        (issue, sheet)
    };
    let mut base = begin();
    base.0.gates = vec!["lint".into()];
    let a = gates(&base, &[("test", true)], 5);
    let b = gates(&base, &[("review", true), ("lint", false)], 3);
    for (a, b) in [(&a, &b), (&b, &a)] {
        assert_eq!(joined(a, b).0.gates, ["review", "test"]);
        let merged = merge(Some(&fields(&base)), &fields(a), &fields(b));
        assert!(merged.conflicts.is_empty());
        assert_eq!(merged.fields["gates"], serde_json::json!(["review", "test"]));
    }
    // By hand: what was there to be seen goes, what another added meanwhile stays.
    let mut file = fields(&base);
    file.insert("gates".into(), serde_json::json!([]));
    let folder = IssueFolder {
        issue: serde_json::to_vec(&file).expect("text"),
        ..IssueFolder::default()
    };
    let edited = parse(&id(), &folder).expect("sound");
    let (issue, _) = join((&a.0, &a.1), &edited, at(9)).expect("news");
    assert_eq!(issue.gates, ["test"]);
}

#[test]
fn c7_two_comments_with_one_id_are_both_kept_in_whatever_order() {
    let (issue, sheet) = begin();
    let comment = |text: &str| {
        format!(
            r#"{{"id":"c1","at":"{}","agent_id":"agent:a","text":"{text}"}}"#,
            at(1)
        )
    };
    let read = |texts: &[&str]| {
        let folder = IssueFolder {
            issue: issue_json(&issue, &sheet),
            comments: texts
                .iter()
                .map(|text| comment(text) + "\n")
                .collect::<String>()
                .into(),
            ..IssueFolder::default()
        };
        parse(&id(), &folder).expect("sound").comments
    };
    let both = read(&["b", "a"]);
    assert_eq!(both.len(), 2);
    assert_eq!(both, read(&["a", "b", "a", "b"]));
    assert!(
        both.iter().any(|one| one.id == "c1" && one.text == "a"),
        "{both:?}"
    );
    assert_eq!(read(&["c", "a", "b"]), read(&["b", "c", "a"]));
}

#[test]
fn e1_a_revision_that_cannot_be_is_told() {
    let mut file = fields(&begin());
    file.insert("revision".into(), u64::MAX.into());
    let folder = IssueFolder {
        issue: serde_json::to_vec_pretty(&file).expect("text"),
        ..IssueFolder::default()
    };
    let found = parse(&id(), &folder).expect("sound");
    assert_eq!(
        (found.issue.revision, found.problems.len()),
        (1, 1),
        "{:?}",
        found.problems
    );
    assert!(found.problems[0].line > 1);
}

#[test]
fn d7_stamps_of_gates_are_no_longer_or_more_than_gates() {
    let read = |names: &[String]| {
        let mut file = fields(&begin());
        let stamps = file.get_mut("stamps").and_then(Value::as_object_mut);
        let stamps = stamps.expect("stamps");
        for name in names {
            stamps.insert(format!("gate:{name}"), format!("{} 00000000", at(1)).into());
        }
        let folder = IssueFolder {
            issue: serde_json::to_vec(&file).expect("text"),
            ..IssueFolder::default()
        };
        parse(&id(), &folder)
    };
    let found = read(&["x".repeat(1 << 20), "test".into(), String::new()]).expect("sound");
    let kept: Vec<&String> = found.sheet.stamps.keys().collect();
    assert_eq!(kept, ["gate:test"]);
    let names = |many: usize| (0..many).map(|n| format!("g{n}")).collect::<Vec<_>>();
    assert!(read(&names(1000)).is_ok());
    assert!(
        read(&names(1001))
            .expect_err("too many")
            .what
            .contains("too many")
    );
}

#[test]
fn c7_an_edit_counts_as_made_when_its_file_was_written() {
    let edited = |from: &(Issue, Sheet), name: &str, value: Value, written: i64| {
        let mut file = fields(from);
        file.insert(name.into(), value);
        let folder = IssueFolder {
            issue: serde_json::to_vec(&file).expect("text"),
            ..IssueFolder::default()
        };
        let found = parse(&id(), &folder).expect("sound");
        FoundIssue {
            written: Some(at(written)),
            ..found
        }
    };
    let change = |(old, sheet): &(Issue, Sheet), title: &str, deleted: bool, n: i64| {
        let (mut issue, mut sheet) = (old.clone(), sheet.clone());
        let was_deleted = sheet.deleted;
        issue.title = title.into();
        issue.updated_at = at(n);
        sheet.deleted = deleted;
        sheet.stamp_changes(old, was_deleted, &issue);
        (issue, sheet)
    };
    let base = begin();
    let later = change(&base, "t5", false, 5);
    let title = |ours: &(Issue, Sheet), found: &FoundIssue| {
        join((&ours.0, &ours.1), found, at(9)).map(|(issue, sheet)| (issue.title.clone(), sheet.deleted))
    };
    let of = |title: &str, deleted: bool| Some((title.to_owned(), deleted));
    // It knew of what it replaced, however old the file says it is.
    assert_eq!(
        title(&later, &edited(&later, "title", "x".into(), 1)),
        of("x", false)
    );
    // It did not: the later of the two counts.
    let (before, after) = (
        edited(&base, "title", "x".into(), 3),
        edited(&base, "title", "x".into(), 7),
    );
    assert_eq!(title(&later, &before), None);
    assert_eq!(title(&later, &after), of("x", false));
    assert_eq!(unaware((&later.0, &later.1), &before), ["title"]);
    // No file was written later than now.
    let (_, sheet) = join(
        (&later.0, &later.1),
        &edited(&base, "title", "x".into(), 99),
        at(9),
    )
    .expect("news");
    assert_eq!(sheet.stamps["title"], at(9));
    // A deletion that came after it stays, and one that it came after does not.
    let gone = change(&base, "t0", true, 5);
    assert_eq!(title(&gone, &before), of("x", true));
    assert_eq!(title(&gone, &after), of("x", false));
    let delete = |written| edited(&base, "deleted", true.into(), written);
    assert!(title(&later, &delete(3)).is_none_or(|(_, deleted)| !deleted));
    assert_eq!(title(&later, &delete(7)), of("t5", true));
}
