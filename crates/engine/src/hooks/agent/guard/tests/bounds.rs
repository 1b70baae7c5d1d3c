//! Bounds of the guard, and the files that restrain agents (L5).

use super::super::super::ground::tests::land;
use super::super::*;
use super::{STRICT, judged};

#[test]
fn l5_what_exceeds_a_bound_is_refused_in_strict_mode_and_warned_about_otherwise() {
    let (_folder, ground) = land();
    let many = |count: usize, text: &str| text.repeat(count);
    let deep = (0..DEEPEST).fold("true".to_owned(), |inner, _| {
        format!("sh -c '{}'", inner.replace('\'', "'\\''"))
    });
    let warned = Rules {
        most: RuleMode::Warn,
        ..STRICT
    };
    for text in [
        many(shell::LONGEST + 1, "x"),
        many(shell::MOST_WORDS + 1, "x "),
        many(shell::MOST_WORDS, "eval x;"),
        many(MOST_FILES + 1, "x")
            .char_indices()
            .map(|(n, _)| format!(">f{n};"))
            .collect(),
        many(500, "$("),
        deep,
    ] {
        let shown: String = text.chars().take(40).collect();
        let (verdict, _) = judged(&ground, &STRICT, &text);
        assert!(verdict.is_denied(), "{shown}");
        let (verdict, _) = judged(&ground, &warned, &text);
        let said = verdict.text().unwrap_or_default();
        assert!(
            !verdict.is_denied() && said.contains("cannot judge"),
            "{shown}: {said}"
        );
    }
}

/// Each of these kept the guard busy for seconds to minutes, or took all memory.
#[test]
fn l5_no_small_command_line_makes_much_work() {
    let (_folder, ground) = land();
    let nested: String = (1..40).map(|n| format!("v{n}=$v{0}$v{0};", n - 1)).collect();
    let lists = "{a,b}".repeat(4000);
    let gits = "git ".repeat(9_000);
    for text in [
        format!("v0=x;{nested}echo $v39"),
        format!("cat {lists}"),
        format!("{gits} status"),
        "eval ".repeat(9_000),
        "if ".repeat(9_000),
        "x=1 ".repeat(9_000),
        "cat <<E\nE\n".repeat(4_000),
        format!("git {}", "--exec=x ".repeat(9_000)),
    ] {
        let _ = judged(&ground, &STRICT, &text);
    }
    let (verdict, _) = judged(&ground, &STRICT, &format!("v0=x;{nested}echo $v39"));
    assert_eq!(verdict.text(), None);
}

#[test]
fn l5_files_that_restrain_agents_are_refused_whatever_the_rules_of_worktrees() {
    let (folder, mut ground) = land();
    let root = std::fs::canonicalize(folder.path()).expect("a folder");
    let place = jit_git::Place::discover(&ground.own, &jit_git::GitEnv::default()).expect("a place");
    let var = |name: &str| (name == "HOME").then(|| root.join("home").into());
    ground.restrain(&place, var, None);
    let rules = Rules {
        most: RuleMode::Deny,
        outside_worktree: RuleMode::Off,
        stash: RuleMode::Off,
        destructive_git: RuleMode::Off,
    };
    for text in [
        "echo '{}' > .claude/settings.json",
        "echo x > .git",
        "echo x >> ~/.config/jit/config.toml",
        "jit issue export --output ~/.local/share/jit/trust.jsonl",
        "jit graph --output @/main/.git/hooks/pre-commit",
        "jit man --output ~/.config/jit",
        "git checkout HEAD -- .codex/hooks.json",
        "git config -f @/main/.git/config user.name x",
        "git config -f .git/config user.name x",
        "echo x > .Claude/SETTINGS.json",
    ] {
        let (verdict, _) = judged(&ground, &rules, text);
        let said = verdict.text().unwrap_or_default();
        assert!(
            verdict.is_denied() && said.contains("decides what agents may do"),
            "{text}: {said}"
        );
    }
}
