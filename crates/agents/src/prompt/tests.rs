use proptest::prelude::*;

use super::*;

fn brief() -> Brief {
    Brief {
        issue: Some(IssueText {
            id: "ROOF-1".into(),
            title: "Mend the roof".into(),
            description: "It leaks.\nBadly.".into(),
            labels: vec!["house".into(), "urgent".into()],
            comments: vec![IssueComment {
                at: Wall::from_ms(0),
                author: "human:ann".into(),
                text: "Mind the cat.".into(),
            }],
        }),
        unit: "roof".into(),
        branch: "jit/roof".into(),
        target: "main".into(),
        rules: Some("Tests first.".into()),
        handoffs: vec![Handoff {
            from: "agent:bob".into(),
            text: "Half is done.".into(),
        }],
        handoff_files: vec![("parser".to_owned(), "/files/handoff.md".to_owned())],
        writes: vec!["src/**".to_owned()],
        attempt: 1,
        ..Brief::default()
    }
}

fn by(template: &str) -> Result<String, BadPrompt> {
    render("t.jinja", template, Some("go".into()), &brief())
}

/// The texts between the marks.
fn between(prompt: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = prompt;
    while let Some((_, after)) = rest.split_once("\nBEGIN ") {
        let (mark, body) = after.split_once('\n').expect("a line");
        let (body, after) = body.split_once(&format!("\nEND {mark}")).expect("an end");
        found.push(body.to_owned());
        rest = after;
    }
    found
}

#[test]
fn g7_the_built_in_template_says_all_there_is() {
    let mut brief = brief();
    let prompt = make(None, &brief).expect("a prompt");
    for part in [
        "ROOF-1: \"Mend the roof\"",
        "Labels: \"house\", \"urgent\"",
        "jit/roof",
        "land on main",
        "Tests first.",
    ] {
        assert!(prompt.contains(part), "{part}: {prompt}");
    }
    assert_eq!(
        between(&prompt),
        ["It leaks.\nBadly.", "Mind the cat.", "Half is done."]
    );
    assert!(
        !prompt.contains("Attempt") && !prompt.contains("\n\n\n"),
        "{prompt}"
    );
    brief.attempt = 2;
    brief.last_failure = Some("tests failed".into());
    let again = make(Some(&PromptSource::Text("Use slate.".into())), &brief).expect("a prompt");
    assert!(
        again.starts_with("Use slate.\n") && again.contains("## Attempt 2"),
        "{again}"
    );
    assert_eq!(between(&again).last().map(String::as_str), Some("tests failed"));
    assert_eq!(
        make(None, &brief).expect("a prompt"),
        make(None, &brief).expect("a prompt")
    );
}

/// G10: an agent that resumes a session has its task already.
#[test]
fn g10_a_resumed_session_is_told_only_what_is_new() {
    let mut brief = Brief {
        attempt: 2,
        resumed: true,
        last_failure: Some("timeout: its time was up".into()),
        ..brief()
    };
    let prompt = make(None, &brief).expect("a prompt");
    for old in [
        "Mend the roof",
        "It leaks.",
        "Tests first.",
        "jit/roof",
        "Attempt",
    ] {
        assert!(!prompt.contains(old), "{old}: {prompt}");
    }
    assert_eq!(
        between(&prompt),
        ["timeout: its time was up", "Mind the cat.", "Half is done."]
    );
    for new in [
        "This session goes on",
        "go on where you were",
        "Commit all",
        "src/**",
    ] {
        assert!(prompt.contains(new), "{new}: {prompt}");
    }
    assert!(!prompt.contains("\n\n\n"), "{prompt}");
    // New text comes first; without text and issue the prompt still says something.
    let more = make(Some(&PromptSource::Text("Use slate.".into())), &brief).expect("a prompt");
    assert!(more.starts_with("Use slate.\n\nThis session goes on"), "{more}");
    brief.issue = None;
    assert!(make(None, &brief).is_ok());
    assert_eq!(
        by("{{ resumed }} {{ conflict is none }}").expect("a prompt"),
        "False True\n"
    );
}

/// G10: a conflict round names its files, and says one thing about merging.
#[test]
fn g10_a_conflict_is_named_and_how_it_is_settled() {
    for resumed in [false, true] {
        for begun in [false, true] {
            let conflict = MergeConflict {
                paths: vec!["src/a b.rs".into(), "x\n## Orders".into()],
                begun,
            };
            let brief = Brief {
                attempt: 2,
                resumed,
                conflict: Some(conflict),
                ..brief()
            };
            let prompt = make(None, &brief).expect("a prompt");
            assert!(prompt.contains("\n- \"src/a b.rs\"\n"), "{prompt}");
            assert!(!prompt.contains("\n## Orders"), "a path is data: {prompt}");
            assert_eq!(prompt.contains("git merge main"), !begun, "{prompt}");
            assert_eq!(prompt.contains("Do not abort it"), begun, "{prompt}");
            assert!(!prompt.contains("\nDo not merge"), "{prompt}");
            assert!(!prompt.contains("\n\n\n"), "{prompt}");
        }
    }
    assert!(
        make(None, &brief())
            .expect("a prompt")
            .contains("\nDo not merge, rebase or push.")
    );
}

#[test]
fn g7_words_alone_are_enough_and_nothing_is_not() {
    let alone = Brief {
        unit: "u".into(),
        attempt: 1,
        ..Brief::default()
    };
    let prompt = make(
        Some(&PromptSource::Text("Say {{ hello }} {% set x %}".into())),
        &alone,
    )
    .expect("a prompt");
    assert!(
        prompt.starts_with("Say {{ hello }} {% set x %}\n"),
        "words are no template: {prompt}"
    );
    for nothing in [None, Some(&PromptSource::Text("  \n".into()))] {
        assert!(matches!(make(nothing, &alone), Err(BadPrompt::Nothing)));
    }
}

#[test]
fn g7_a_file_has_words_or_is_a_template() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a.md"), "Do {{ this }}.").expect("a file");
    std::fs::write(path("a.j2"), "{{ unit }} {{ task is none }}").expect("a file");
    std::fs::write(path("big.md"), "x".repeat(LONGEST_SOURCE + 1)).expect("a file");
    std::fs::write(path("bytes.md"), b"\xff").expect("a file");
    let made = |name: &str| make(Some(&PromptSource::file(path(name))), &brief());
    assert!(made("a.md").expect("a prompt").starts_with("Do {{ this }}."));
    assert_eq!(made("a.j2").expect("a prompt"), "roof True\n");
    assert!(matches!(made("big.md"), Err(BadPrompt::TooLong { .. })));
    for bad in ["bytes.md", "none.md", ""] {
        let error = made(bad).expect_err(bad).to_string();
        assert!(error.contains(&path(bad).display().to_string()), "{error}");
    }
}

#[test]
fn g7_a_mistake_in_a_template_has_a_line() {
    for (template, line, what) in [
        ("a\n{{ isue.title }}", 2, "isue"),
        ("a\n\n{{ issue.titel }}", 3, "titel"),
        ("{% if x", 1, ""),
        ("a\n{% if issue %}", 2, ""),
        ("a\n{{ unit | shout }}", 2, "shout"),
        ("a\n\n{% set x = 1 %}", 3, "set"),
        ("{%- with x = 1 %}{% endwith %}", 1, "with"),
        ("{% include '/etc/passwd' %}", 1, "include"),
        ("{%%}", 1, ""),
        ("\n{{ range(10) }}", 2, "range"),
        ("\n{{ 1 / 0 }}", 2, ""),
        (
            "{% for a in issue.comments %}\n{{ a.nobody }}{% endfor %}",
            2,
            "nobody",
        ),
    ] {
        let error = by(template).expect_err(template);
        let text = error.to_string();
        assert!(
            text.contains(&format!("t.jinja, line {line}: ")),
            "{template}: {text}"
        );
        assert!(text.contains(what), "{template}: {text}");
    }
}

#[test]
fn g7_a_template_is_bounded() {
    let times = |n: usize, part: &str| part.repeat(n);
    let error = by("{{ 'x' * 100000000000 }}").expect_err("too much");
    assert!(matches!(error, BadPrompt::Template { .. }), "{error}");
    let text = format!("{{{{ [{}] | join(task * 10000) }}}}", times(100, "'x',"));
    let error = by(&text).expect_err("too much");
    assert!(matches!(error, BadPrompt::MakesTooMuch { .. }), "{error}");
    let loops = format!(
        "{}x{}",
        times(12, "{% for i in 'aaaaaaaaaaaaaaaa' %}"),
        times(12, "{% endfor %}")
    );
    let lists = loops.replace("'aaaaaaaaaaaaaaaa'", "[1,2,3,4,5,6,7,8]");
    for endless in [loops, lists] {
        assert!(by(&endless).is_err());
    }
    assert!(by(&times(200, "{% if 1 %}")).is_err());
    assert!(by(&format!("{{{{ {}1{} }}}}", times(5000, "("), times(5000, ")"))).is_err());
}

#[test]
fn g7_a_template_gets_the_bare_text_only_when_it_asks() {
    assert_eq!(
        by("{{ issue.title | text }}").expect("a prompt"),
        "Mend the roof\n"
    );
    assert_eq!(by("{{ issue.title }}").expect("a prompt"), "\"Mend the roof\"\n");
    assert_eq!(
        by("{{ issue.title | text | upper }}").expect("a prompt"),
        "MEND THE ROOF\n"
    );
    assert_eq!(
        by("{{ unit | text }} {{ issue.labels | length }}").expect("a prompt"),
        "roof 2\n"
    );
    for around in [
        "{{ issue.description }}",
        "{{ 'x' ~ issue.description }}",
        "{{ [issue.description] | join }}",
    ] {
        assert_eq!(
            between(&format!("\n{}", by(around).expect("a prompt"))),
            ["It leaks.\nBadly."],
            "{around}"
        );
    }
    // Also within something larger.
    let all = by("{{ issue }} {{ handoffs }}").expect("a prompt");
    assert_eq!(
        between(&all),
        ["It leaks.\nBadly.", "Mind the cat.", "Half is done."]
    );
}

#[test]
fn g7_the_template_of_the_documentation_works() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/agents.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let begins = page.find("    {{ task or").expect("the template");
    let template: Vec<&str> = page[begins..]
        .lines()
        .map_while(|line| line.strip_prefix("    "))
        .collect();
    let prompt = by(&template.join("\n")).expect("a prompt");
    assert!(
        prompt.starts_with("go\n") && prompt.contains("jit/roof"),
        "{prompt}"
    );
    assert_eq!(between(&prompt), ["It leaks.\nBadly.", "Half is done."]);
}

proptest! {
    #[test]
    fn g7_no_text_ends_its_own_fence(text in "(?s)(.|BEGIN |END |\n|[0-9a-f]{16}|```|\"|\\{\\{|\r){0,60}", title in "(?s).{0,40}") {
        let mut brief = brief();
        if let Some(issue) = &mut brief.issue {
            issue.description = format!("x{text}");
            issue.title = title.clone();
        }
        let prompt = make(None, &brief).expect("a prompt");
        prop_assert_eq!(&between(&prompt)[0], &cleaned(&format!("x{text}")));
        let line = prompt.lines().find(|line| line.starts_with("ROOF-1: ")).expect("the title");
        let read: String = serde_json::from_str(&line["ROOF-1: ".len()..]).expect("one JSON string");
        prop_assert_eq!(read, cleaned(&title).replace(['\u{2028}', '\u{2029}'], " "));
    }

    #[test]
    fn g7_a_text_that_knows_the_mark_gets_another(text in "(?s).{0,40}", upper: bool) {
        let mut known = text;
        for _ in 0..3 {
            let mark = mark(&known);
            known = format!("{known}\nEND {}\n", if upper { mark.to_uppercase() } else { mark });
        }
        let mark = mark(&known);
        prop_assert!(!known.to_lowercase().contains(&mark));
        let shown = fenced("it", &known);
        prop_assert_eq!(shown.matches(&mark).count(), 3);
    }
}
