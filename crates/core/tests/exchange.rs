//! Issues of other trackers become ours, ours survive export and import, and no file can do worse than be refused.

use jit_core::exchange::{
    ForeignIssue, ImportedComment, MAX_DESCRIPTION, MAX_LIST, MAX_PROBLEMS, Parsed, backlog, beads, export,
    fit_id, github, jsonl,
};
use jit_core::model::issue::{IssueState, MAX_TITLE, Performer, Priority};
use jit_core::model::time::Wall;
use proptest::prelude::*;

fn wall(text: &str) -> Option<Wall> {
    Some(text.parse().expect(text))
}

fn find<'a>(parsed: &'a Parsed, key: &str) -> &'a ForeignIssue {
    parsed.issues.iter().find(|issue| issue.key == key).expect(key)
}

const BEADS: &str = r###"{"id":"app-9xk","title":"Login epic","description":"All about logging in.","status":"open","priority":1,"issue_type":"epic","created_at":"2025-12-01T10:00:00.5-08:00","updated_at":"2025-12-02T10:00:00Z"}
{"id":"app-9xk.1","title":"Store sessions","description":"Keep them in the database.","design":"One table.","acceptance_criteria":"- survives a restart","notes":"Ask Kim.","status":"in_progress","priority":0,"issue_type":"feature","assignee":"kim","estimated_minutes":90,"created_at":"2025-12-01T10:00:00Z","updated_at":"2025-12-03T09:30:00Z","labels":["backend","db"],"dependencies":[{"issue_id":"app-9xk.1","depends_on_id":"app-9xk","type":"parent-child","created_at":"2025-12-01T10:00:00Z","created_by":"daemon"},{"issue_id":"app-9xk.1","depends_on_id":"APP-b22","type":"blocks"},{"issue_id":"app-9xk.1","depends_on_id":"app-dead","type":"blocks"},{"issue_id":"app-9xk.1","depends_on_id":"app-7","type":"discovered-from"}],"comments":[{"id":4,"issue_id":"app-9xk.1","author":"lee","text":"How long do they live?","created_at":"2025-12-02T08:00:00Z"}]}

{"id":"app-b22","title":"Choose a database","status":"closed","priority":2,"issue_type":"task","close_reason":"Postgres it is","closed_at":"2025-12-01T12:00:00Z"}
{"id":"app-dead","title":"Old idea","status":"tombstone","priority":2,"issue_type":"bug","deleted_at":"2025-12-17T16:11:17Z","deleted_by":"batch delete","original_type":"bug"}
{"id":"app-c1","title":"Someday","status":"deferred","priority":4,"issue_type":"chore"}
{"id":"app-c2","title":"Waiting","status":"blocked","priority":3,"issue_type":"bug"}
{"id":"app-c3","title":"House rules","status":"quality_check","priority":9,"issue_type":"task"}
<<<<<<< HEAD
{"_type":"memory","key":"x","value":"y"}
"###;

#[test]
fn e2_beads_issues_are_read_with_their_relations() {
    let parsed = beads(BEADS.as_bytes());
    assert_eq!(parsed.issues.len(), 6, "{:?}", parsed.problems);
    let epic = find(&parsed, "app-9xk");
    assert_eq!(
        (epic.kind.as_str(), epic.state, epic.priority),
        ("epic", IssueState::Ready, Priority::High)
    );
    assert_eq!(epic.created_at, wall("2025-12-01T18:00:00.5Z"));
    let sessions = find(&parsed, "app-9xk.1");
    assert_eq!(
        (sessions.state, sessions.priority),
        (IssueState::Ready, Priority::Critical)
    );
    assert_eq!(sessions.parent.as_deref(), Some("app-9xk"));
    assert_eq!(
        sessions.depends_on,
        ["app-b22"],
        "spelled as the issue, without the deleted one"
    );
    assert_eq!(sessions.labels, ["backend", "db"]);
    assert_eq!(sessions.assignee.as_deref(), Some("kim"));
    assert_eq!(
        sessions.description,
        "Keep them in the database.\n\n## Design\n\nOne table.\n\n## Acceptance criteria\n\n- survives a restart\n\n\
         ## Notes\n\nAsk Kim.\n\n## Links\n\n- discovered-from: app-7\n\nAssigned to: kim\nEstimate: 90 minutes"
    );
    let comment = ImportedComment {
        id: None,
        author: "lee".to_owned(),
        at: wall("2025-12-02T08:00:00Z"),
        text: "How long do they live?".to_owned(),
    };
    assert_eq!(sessions.comments, [comment]);
    assert_eq!(
        sessions.warnings,
        ["status \"in_progress\" is taken as ready: nobody has claimed it here"]
    );
    assert_eq!(find(&parsed, "app-b22").state, IssueState::Done);
    assert!(find(&parsed, "app-b22").description.contains("Postgres it is"));
    assert_eq!(
        (find(&parsed, "app-c1").state, find(&parsed, "app-c1").priority),
        (IssueState::Backlog, Priority::Low)
    );
    assert_eq!(find(&parsed, "app-c2").state, IssueState::Ready);
    assert_eq!(
        find(&parsed, "app-c2").blocked.as_deref(),
        Some("blocked in the tracker it was imported from")
    );
    assert_eq!(find(&parsed, "app-c3").warnings.len(), 2);
    let lines: Vec<usize> = parsed.problems.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [9, 10], "{:?}", parsed.problems);
}

const GITHUB: &str = r#"[
  {"number":12,"title":"Crash on empty file","body":"Steps:\r\n1. open it\r\n","state":"OPEN","stateReason":"",
   "labels":[{"id":"L1","name":"bug","description":"Something","color":"d73a4a"},{"name":"priority: high"},{"name":"effort: low"}],
   "assignees":[{"id":"U1","login":"kim","name":"Kim"},{"login":"lee"}],
   "createdAt":"2025-11-01T08:00:00Z","updatedAt":"2025-11-02T08:00:00Z","closedAt":null,
   "milestone":{"number":1,"title":"v1.0","dueOn":null},"url":"https://example.org/o/r/issues/12",
   "comments":[{"id":"C1","author":{"login":"lee"},"authorAssociation":"OWNER","body":"Me too","createdAt":"2025-11-01T09:00:00Z"},
               {"author":null,"body":"gone","createdAt":"0001-01-01T00:00:00Z"}]},
  {"number":13,"title":"Do it in COBOL","body":"","state":"CLOSED","stateReason":"NOT_PLANNED","labels":[{"name":"enhancement"}],"assignees":[]},
  {"number":14,"title":"Say hello","state":"CLOSED","stateReason":"COMPLETED","labels":[{"name":"P0"}]},
  {"title":"No number"},
  7
]"#;

#[test]
fn e2_github_issues_are_read_from_an_array_or_from_lines() {
    let parsed = github(GITHUB.as_bytes());
    assert_eq!(parsed.issues.len(), 3);
    let crash = find(&parsed, "gh-12");
    assert_eq!(
        (crash.kind.as_str(), crash.state, crash.priority),
        ("bug", IssueState::Ready, Priority::High)
    );
    assert_eq!(crash.labels, ["bug", "priority: high", "effort: low"]);
    assert_eq!(crash.assignee.as_deref(), Some("kim"));
    assert_eq!(crash.warnings, [""; 0]);
    assert_eq!(
        crash.description,
        "Steps:\n1. open it\n\nMilestone: v1.0\nFrom: https://example.org/o/r/issues/12\nAssigned to: kim, lee"
    );
    let authors: Vec<&str> = crash
        .comments
        .iter()
        .map(|comment| comment.author.as_str())
        .collect();
    assert_eq!(authors, ["lee", "ghost"]);
    assert_eq!(crash.comments[1].at, None);
    assert_eq!(crash.updated_at, wall("2025-11-02T08:00:00Z"));
    assert_eq!(
        (find(&parsed, "gh-13").state, find(&parsed, "gh-13").kind.as_str()),
        (IssueState::Rejected, "feature")
    );
    assert_eq!(
        (find(&parsed, "gh-14").state, find(&parsed, "gh-14").priority),
        (IssueState::Done, Priority::Critical)
    );
    let lines: Vec<usize> = parsed.problems.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [11, 12], "{:?}", parsed.problems);

    let lines = "{\"number\":1,\"title\":\"One\",\"state\":\"OPEN\"}\n{\"number\":2,\"title\":\"Two\",\"state\":\"CLOSED\"}";
    let parsed = github(lines.as_bytes());
    assert_eq!((parsed.issues.len(), parsed.problems.len()), (2, 0));
}

#[test]
fn e2_an_array_that_was_cut_off_gives_what_is_whole() {
    let half = &GITHUB[..GITHUB.find("Say hello").expect("there")];
    let parsed = github(half.as_bytes());
    assert_eq!(parsed.issues.len(), 2);
    assert_eq!(parsed.problems.len(), 1);
    assert!(
        parsed.problems[0].what.contains("ends early"),
        "{:?}",
        parsed.problems
    );
}

const TASK: &str = "---\n\
id: TASK-12.1\n\
title: 'Fix: the \"login\" page''s # sign'\n\
status: In Progress\n\
assignee: [@kim, \"@lee\"]\n\
reporter: @lee\n\
created_date: '2025-07-26 14:30'\n\
updated_date: 2025-07-27\n\
labels:\n\
\x20 - web-ui\n\
\x20 - \"a, b\"\n\
dependencies: [task-3, 4] # the API\n\
references: []\n\
parent_task_id: task-12\n\
priority: medium\n\
milestone: v1\n\
ordinal: 1000\n\
---\n\
\n\
## Description\n\
\n\
<!-- SECTION:DESCRIPTION:BEGIN -->\n\
It shows a # sign.\n\
<!-- SECTION:DESCRIPTION:END -->\n\
\n\
## Acceptance Criteria\n\
<!-- AC:BEGIN -->\n\
- [x] #1 No sign\n\
<!-- AC:END -->\n";

#[test]
fn e2_backlog_tasks_are_read_from_markdown() {
    let parsed = backlog([
        ("backlog/tasks/task-12.1 - Fix-login.md", TASK.as_bytes()),
        (
            "task-3 - The-API.md",
            b"---\r\nid: task-3\r\ntitle: The API\r\nstatus: Done\r\nassignee:\r\n- '@kim'\r\n---\r\nText"
                .as_slice(),
        ),
        (
            "task-4 - Named-by-its-file.md",
            b"---\nstatus: Pondering\npriority: huge\n---",
        ),
        (
            "drafts/draft-1 - Maybe.md",
            b"---\nid: draft-1\ntitle: >-\n  Maybe one\n  day\nstatus: To Do\n---\n",
        ),
        ("readme.md", b"# Tasks\n"),
        ("broken.md", b"---\ntitle: \xff\xfe\n---\n"),
        ("unended.md", b"---\ntitle: x\n"),
    ]);
    let keys: Vec<&str> = parsed.issues.iter().map(|issue| issue.key.as_str()).collect();
    assert_eq!(keys, ["TASK-12.1", "task-3", "task-4", "draft-1"]);
    let login = &parsed.issues[0];
    assert_eq!(login.title, "Fix: the \"login\" page's # sign");
    assert_eq!(
        (login.state, login.priority),
        (IssueState::Ready, Priority::Normal)
    );
    assert_eq!(login.depends_on, ["task-3", "task-4"]);
    assert_eq!(login.parent.as_deref(), Some("task-12"));
    assert_eq!(login.labels, ["web-ui", "a, b"]);
    assert_eq!(login.assignee.as_deref(), Some("kim"));
    assert_eq!(login.created_at, wall("2025-07-26T14:30:00Z"));
    assert_eq!(login.updated_at, wall("2025-07-27T00:00:00Z"));
    assert_eq!(
        login.description,
        "It shows a # sign.\n\n## Acceptance Criteria\n- [x] #1 No sign\n\nMilestone: v1\nAssigned to: @kim, @lee\n\
         ordinal: 1000\nreporter: @lee"
    );
    assert_eq!(
        (parsed.issues[1].state, parsed.issues[1].assignee.as_deref()),
        (IssueState::Done, Some("kim"))
    );
    assert_eq!(parsed.issues[1].description, "Text\n\nAssigned to: @kim");
    assert_eq!(parsed.issues[2].title, "Named by its file");
    assert_eq!(parsed.issues[2].warnings.len(), 2);
    assert_eq!(
        (parsed.issues[3].title.as_str(), parsed.issues[3].state),
        ("Maybe one day", IssueState::Backlog)
    );
    let files: Vec<&str> = parsed
        .problems
        .iter()
        .filter_map(|problem| problem.file.as_deref())
        .collect();
    assert_eq!(files, ["readme.md", "broken.md", "unended.md"]);
}

#[test]
fn e2_plain_lines_need_a_title_and_nothing_else() {
    let parsed = jsonl(
        b"\xef\xbb\xbf{\"title\":\"Alone\"}\r\n\
          {\"id\":7,\"title\":\"Seven\",\"status\":\"wontfix\",\"priority\":1,\"depends_on\":[\"x\",8],\"parent\":9}\n\
          {\"id\":\"x\",\"title\":\"Held\",\"state\":\"in_progress\",\"labels\":\"none\",\"created_at\":\"soon\"}\n\
          {\"id\":\"y\"}\n[1]\n",
    );
    assert_eq!(parsed.issues.len(), 3, "{:?}", parsed.problems);
    let alone = &parsed.issues[0];
    // Without an id it is called after what it says: another file's first line is another issue.
    let key = |text: &str| jsonl(text.as_bytes()).issues[0].key.clone();
    assert_eq!(alone.key, key("\n{ \"title\": \"Alone\" }"));
    assert_ne!(alone.key, key("{\"title\":\"Another\"}"));
    assert_eq!(
        (alone.kind.as_str(), alone.state, alone.priority),
        ("task", IssueState::Ready, Priority::Normal)
    );
    let seven = find(&parsed, "7");
    assert_eq!(
        (seven.state, seven.priority),
        (IssueState::Rejected, Priority::High)
    );
    assert_eq!(
        (seven.depends_on.join(" "), seven.parent.as_deref()),
        ("x 8".to_owned(), Some("9"))
    );
    assert_eq!(find(&parsed, "x").state, IssueState::InProgress);
    assert_eq!(
        find(&parsed, "x").warnings.len(),
        2,
        "{:?}",
        find(&parsed, "x").warnings
    );
    assert_eq!(parsed.problems.len(), 2);
}

#[test]
fn e2_ids_that_fit_are_kept() {
    for good in ["bd-a3f8.1", "gh-123", "TASK-12", " task-1 "] {
        assert_eq!(fit_id(good).expect(good).as_str(), good.trim());
    }
    for bad in ["", "../etc", "a b", "nul", "-x", "été"] {
        assert_eq!(fit_id(bad), None, "{bad}");
    }
}

#[test]
fn e2_long_texts_are_cut_and_nothing_is_lost_silently() {
    let title = "word ".repeat(300);
    let record = serde_json::json!({
        "id": "a", "title": title, "description": "é".repeat(5 << 20), "labels": vec!["x"; 3000],
        "comments": [{"author": "b", "text": "c".repeat(1 << 20)}],
    });
    let line = record.to_string();
    assert!(line.len() > 10_000_000);
    for parsed in [jsonl(line.as_bytes()), beads(line.as_bytes())] {
        let issue = find(&parsed, "a");
        assert!(
            issue.title.len() <= MAX_TITLE && issue.title.ends_with("word…"),
            "{}",
            issue.title
        );
        assert!(issue.description.starts_with("…word word"));
        assert!(issue.description.len() <= MAX_DESCRIPTION && issue.description.ends_with('é'));
        assert_eq!(issue.labels, ["x"]);
        assert_eq!(issue.warnings.len(), 4, "{:?}", issue.warnings);
        let words = issue.title.matches("word").count() + issue.description.matches("word").count();
        assert_eq!(words, 300);
    }
    let many: Vec<String> = (0..3000).map(|n| format!("l{n}")).collect();
    let parsed = jsonl(
        serde_json::json!({"title": "t", "depends_on": many})
            .to_string()
            .as_bytes(),
    );
    assert_eq!(parsed.issues[0].depends_on.len(), MAX_LIST);
}

#[test]
fn e2_hostile_files_cost_only_their_own_records() {
    let deep = format!(
        "{{\"id\":\"deep\",\"title\":{}1{}}}",
        "[".repeat(1_000_000),
        "]".repeat(1_000_000)
    );
    let extra = format!(
        "{{\"id\":\"extra\",\"title\":\"kept\",\"x\":{}{}}}",
        "[".repeat(1_000_000),
        "]".repeat(1_000_000)
    );
    let fields: String = (0..100_000).map(|n| format!("\"f{n}\":1,")).collect();
    let wide = format!("{{\"id\":\"wide\",\"title\":\"kept\",{fields}\"z\":1}}");
    let long = format!(
        "{{\"id\":\"long\",\"title\":\"kept\",\"description\":\"{}\"}}",
        "x".repeat(40 << 20)
    );
    let mut file = Vec::new();
    for line in [&deep, &extra, &wide, &long] {
        file.extend_from_slice(line.as_bytes());
        file.push(b'\n');
    }
    file.extend_from_slice(b"{\"id\":\"bytes\",\"title\":\"\xff\"}\n");
    file.extend_from_slice(b"{\"id\":\"twice\",\"title\":\"first\",\"title\":\"second\"}\n");
    file.extend_from_slice(b"{\"id\":\"esc\",\"title\":\"a\\u001b[31m\\u202eb\\nc\"}\n");
    file.extend_from_slice(b"{\"id\":\"half\",\"title\":\"\\ud800\"}\n");
    for parsed in [jsonl(&file), beads(&file)] {
        let keys: Vec<&str> = parsed.issues.iter().map(|issue| issue.key.as_str()).collect();
        assert_eq!(keys, ["extra", "wide", "twice", "esc"], "{:?}", parsed.problems);
        assert_eq!(find(&parsed, "twice").title, "second");
        assert_eq!(find(&parsed, "esc").title, "a [31mb c");
        let lines: Vec<usize> = parsed.problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [1, 4, 5, 8]);
    }
    let bad = jsonl("x\n".repeat(100_000).as_bytes());
    assert_eq!(bad.problems.len(), MAX_PROBLEMS);
}

#[test]
fn e2_of_two_records_with_one_id_the_newer_counts() {
    let parsed = jsonl(
        b"{\"id\":\"A\",\"title\":\"new\",\"updated_at\":\"2026-01-02T00:00:00Z\",\"depends_on\":[\"A\",\"b\",\"B\"]}\n\
          {\"id\":\"a\",\"title\":\"old\",\"updated_at\":\"2026-01-01T00:00:00Z\"}\n{\"id\":\"B\",\"title\":\"b\"}\n",
    );
    assert_eq!(parsed.issues.len(), 2);
    assert_eq!(find(&parsed, "A").title, "new");
    assert_eq!(find(&parsed, "A").depends_on, ["B"]);
    assert_eq!(find(&parsed, "A").warnings, ["it waits for itself: left out"]);
    assert_eq!((parsed.problems.len(), parsed.problems[0].line), (1, 2));
}

#[test]
fn e2_what_was_read_from_others_survives_export() {
    for mut issues in [beads(BEADS.as_bytes()).issues, github(GITHUB.as_bytes()).issues] {
        let again = jsonl(export(&issues).expect("export").as_bytes());
        issues.iter_mut().for_each(|issue| issue.warnings.clear());
        assert_eq!(again.issues, issues);
        assert_eq!(again.problems, []);
    }
}

fn any_issue() -> impl Strategy<Value = ForeignIssue> {
    let words = || proptest::collection::vec("[a-z][a-z0-9:-]{0,8}", 0..3);
    let wall = || proptest::option::of((0i64..4_000_000_000_000).prop_map(Wall::from_ms));
    let comment = ("[a-z]{1,8}", wall(), any::<String>());
    (
        "[A-Z][A-Z0-9.-]{0,9}[0-9]",
        "[^\\p{C}\\p{Z}]([^\\p{C}\\p{Z}]| ){0,40}[^\\p{C}\\p{Z}]",
        proptest::sample::select(IssueState::ALL),
        proptest::sample::select(Priority::ALL),
        (words(), words(), proptest::option::of("[a-z]{1,8}")),
        any::<String>(),
        proptest::collection::vec(comment, 0..3),
        (wall(), wall(), proptest::option::of("[a-z]{1,8}")),
    )
        .prop_map(
            |(key, title, state, priority, (labels, gates, parent), description, comments, rest)| {
                let unique = |mut words: Vec<String>| {
                    words.sort();
                    words.dedup();
                    words
                };
                ForeignIssue {
                    key,
                    title,
                    kind: "bug".to_owned(),
                    state,
                    priority,
                    depends_on: gates.first().cloned().into_iter().collect(),
                    labels: unique(labels),
                    gates: unique(gates),
                    parent,
                    actor: Performer::Human,
                    blocked: rest.2.clone(),
                    pivot: None,
                    description,
                    comments: comments
                        .into_iter()
                        .map(|(author, at, text)| ImportedComment {
                            id: Some(format!("c-{}", text.len())),
                            author,
                            at,
                            text,
                        })
                        .collect(),
                    assignee: rest.2,
                    created_at: rest.0,
                    created_by: Some("agent:one".to_owned()),
                    updated_at: rest.1,
                    deferred: None,
                    others: [("severity".to_owned(), serde_json::json!({"n": [1, null]}))].into(),
                    warnings: Vec::new(),
                }
            },
        )
}

proptest! {
    #[test]
    fn e2_export_and_import_give_the_same(issue in any_issue()) {
        let text = export(std::slice::from_ref(&issue)).expect("export");
        prop_assert_eq!(text.lines().count(), 1);
        let parsed = jsonl(text.as_bytes());
        prop_assert_eq!(parsed.issues, vec![issue]);
    }

    #[test]
    fn e2_no_bytes_make_a_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in "[\\[\\]{}\",:0-9a-z \n\\\\'>|#-]{0,120}") {
        for input in [bytes.as_slice(), text.as_bytes()] {
            beads(input);
            github(input);
            jsonl(input);
            let mut file = b"---\n".to_vec();
            file.extend_from_slice(input);
            file.extend_from_slice(b"\n---\n");
            backlog([("task-1 - x.md", input), ("task-2 - y.md", file.as_slice())]);
        }
    }
}

#[test]
fn e2_what_has_no_place_of_its_own_is_kept_in_the_description() {
    let beads = beads(
        br#"{"id":"bd-1","title":"t","description":"d","assignee":"ada","created_by":"bob","external_ref":"gh-9","estimated_minutes":30,"closed_at":"2026-01-02T03:04:05Z","status":"closed"}"#,
    );
    let issue = &beads.issues[0];
    assert_eq!(issue.created_by.as_deref(), Some("bob"));
    assert_eq!(
        issue.description,
        "d\n\nAssigned to: ada\nExternal reference: gh-9\nEstimate: 30 minutes\nClosed: 2026-01-02T03:04:05Z"
    );
    let github = github(
        br#"[{"number":1,"title":"t","body":"d","state":"CLOSED","assignees":[{"login":"a"},{"login":"b"}],"closedAt":"2026-01-02T03:04:05Z"}]"#,
    );
    assert_eq!(
        github.issues[0].description,
        "d\n\nAssigned to: a, b\nClosed: 2026-01-02T03:04:05Z"
    );
    let task = b"---\nid: task-1\ntitle: t\nassignee: ['@a']\nordinal: 1000\nreferences:\n  - a.md\n  - b.md\n---\nd\n";
    let backlog = backlog([("task-1 - t.md", &task[..])]);
    assert_eq!(
        backlog.issues[0].description,
        "d\n\nAssigned to: @a\nordinal: 1000\nreferences: a.md, b.md"
    );
}

#[test]
fn e2_titles_with_joiners_and_tabs_come_back_the_same() {
    let title = "a\tb \u{1f468}\u{200d}\u{1f4bb} \u{645}\u{6cc}\u{200c}\u{62e}\u{648}\u{627}\u{647}\u{645}";
    let line = serde_json::json!({ "id": "WI-1", "title": title, "labels": ["x\u{200d}y"] }).to_string();
    let first = jsonl(line.as_bytes());
    assert_eq!(first.issues[0].title, title);
    assert_eq!(first.issues[0].labels, ["x\u{200d}y"]);
    assert_eq!(first.issues[0].warnings, [""; 0]);
    let again = jsonl(export(&first.issues).expect("JSON").as_bytes());
    assert_eq!(again.issues[0].title, title);
}

#[test]
fn e2_of_a_tombstone_and_a_live_record_the_newer_counts() {
    let lines = r#"{"id":"a-1","title":"back","status":"open","updated_at":"2026-02-02T00:00:00Z"}
{"id":"a-1","title":"back","status":"tombstone","deleted_at":"2026-01-01T00:00:00Z"}
{"id":"a-2","status":"tombstone","deleted_at":"2026-03-03T00:00:00Z"}
{"id":"A-2","title":"gone","status":"open","updated_at":"2026-02-02T00:00:00Z"}
{"id":"a-3","title":"waits","status":"open","dependencies":[{"depends_on_id":"a-1"},{"depends_on_id":"A-2"}]}
"#;
    let parsed = beads(lines.as_bytes());
    let keys: Vec<&str> = parsed.issues.iter().map(|issue| issue.key.as_str()).collect();
    assert_eq!(keys, ["a-1", "a-3"]);
    assert_eq!(find(&parsed, "a-3").depends_on, ["a-1"]);
    let told: Vec<usize> = parsed.problems.iter().map(|problem| problem.line).collect();
    assert_eq!(told, [2, 3], "{:?}", parsed.problems);
}

#[test]
fn e2_fields_that_are_not_known_are_named_and_other_names_understood() {
    let line = r#"{"id":"x-1","title":"t","body":"b","dependencies":["y-1",{"id":"y-2"}],"assignees":[{"login":"ann"},"bob"],"comments":[{"author":"x","body":"one"},{"agent_id":"agent:z","text":"two","at":"never"}],"weight":3,"empty":null,"none":[],"title":"t2"}"#;
    let parsed = jsonl(line.as_bytes());
    let issue = find(&parsed, "x-1");
    assert_eq!((issue.title.as_str(), issue.description.as_str()), ("t2", "b"));
    assert_eq!(issue.depends_on, ["y-1", "y-2"]);
    assert_eq!(issue.assignee.as_deref(), Some("ann, bob"));
    let said: Vec<(&str, &str)> = issue
        .comments
        .iter()
        .map(|comment| (comment.author.as_str(), comment.text.as_str()))
        .collect();
    assert_eq!(said, [("x", "one"), ("agent:z", "two")]);
    assert_eq!(
        issue.warnings,
        [
            "title is there more than once: the last counts",
            "a comment: at is not a time: left out",
            "left out, as nothing here is called so: weight",
        ]
    );
    let parsed = github(
        br#"[{"number":2,"title":"t","author":{"login":"ann"},"parent":{"number":1},"issueType":{"name":"Bug"},"isPinned":true,"closed":false,"id":"I_1"}]"#,
    );
    let issue = find(&parsed, "gh-2");
    assert_eq!(issue.created_by.as_deref(), Some("ann"));
    assert_eq!(issue.parent.as_deref(), Some("gh-1"));
    assert_eq!(issue.kind, "bug");
    assert_eq!(
        issue.warnings,
        ["left out, as nothing here is called so: isPinned"]
    );
    let parsed = beads(
        br#"{"id":"bd-1","title":"t","owner":"o","due_at":"2026-01-02T03:04:05Z","metadata":{"a":1},"content_hash":"x","comment_count":2}"#,
    );
    let issue = find(&parsed, "bd-1");
    assert_eq!(issue.description, "Owner: o\nDue: 2026-01-02T03:04:05Z");
    assert_eq!(
        issue.warnings,
        ["left out, as nothing here is called so: metadata"]
    );
}

#[test]
fn e2_lists_of_front_matter_are_read_to_their_end() {
    let read = |front: &str| {
        let text = format!("---\nid: task-1\ntitle: t\n{front}\n---\n");
        backlog([("task-1 - t.md", text.as_bytes())]).issues.remove(0)
    };
    let issue = read("labels: [\n  a,\n  b\n]\npriority: high");
    assert_eq!(issue.labels, ["a", "b"]);
    assert_eq!(issue.priority, Priority::High);
    assert_eq!(issue.warnings, [""; 0]);
    assert_eq!(read("labels: [a, b").labels, ["a", "b"]);
    let issue = read("labels: [a]\nlabels: [b]");
    assert_eq!(issue.labels, ["b"]);
    assert_eq!(
        issue.warnings,
        ["labels is there more than once: the last counts"]
    );
}

/// E2: what this program does not know is kept to the digit, or left out and told.
#[test]
fn e2_a_number_that_would_be_rounded_is_left_out_and_told() {
    for (number, is_kept) in [("0.5", true), ("1e-400", false), ("9007199254740993.0", false)] {
        let text = format!(r#"{{"id":"A","title":"x","others":{{"ratio":{number}}}}}"#);
        let parsed = jsonl(text.as_bytes());
        let issue = find(&parsed, "A");
        assert_eq!(issue.others.contains_key("ratio"), is_kept, "{number}");
        assert_eq!(issue.warnings.is_empty(), is_kept, "{:?}", issue.warnings);
    }
}
