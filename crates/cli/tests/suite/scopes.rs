//! G15: a unit writes only where its plan says, and nobody begins where somebody else is at work.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;

use crate::running::{Yard, until};

#[test]
fn g15_what_is_written_outside_is_named_sent_back_once_and_then_waits_for_a_person() {
    let yard = Yard::new("mkdir -p src && echo $JIT_ATTEMPT > src/other.txt");
    let ran = yard.run("", &[("a", &[], "writes: [a.txt, 'docs/**']"), ("b", &["a"], "")]);
    let ran = ran.exits(6);
    let unit = yard.unit("a");
    assert_eq!(unit["state"], "FAILED", "{unit}");
    assert_eq!(unit["error"]["reason"], "outside_scope", "{unit}");
    let message = unit["error"]["message"].as_str().expect("a message");
    for part in ["a.txt, docs/**", "\"src/other.txt\""] {
        assert!(message.contains(part), "{message}");
    }
    let artifacts = "orchestration/flow/a/phase-0/command-a/";
    assert_eq!(
        unit["writes"],
        serde_json::json!(["a.txt", "docs/**", artifacts]),
        "{unit}"
    );
    assert_eq!(yard.starts().len(), 2, "tried once more: {:?}", yard.starts());
    let told = fs::read_to_string(yard.world.home().join("told")).expect("what it was told");
    assert!(
        told.contains("src/other.txt") && told.contains("You may write only here: a.txt, docs/**, "),
        "{told}"
    );
    assert!(ran.stdout.contains("waits for a person"), "{}", ran.stdout);
    assert!(!yard.on_main("a.txt"), "it did not land");
    let tree = yard.world.root().join("repo-worktrees/a");
    assert!(tree.join("src/other.txt").exists(), "its work is kept");
}

#[test]
fn g15_who_mends_it_lands_and_every_kind_of_change_counts() {
    // The first time something is wrong, another thing in each unit; the second time it is put right.
    let yard = Yard::new(
        r#"n=${JIT_ATTEMPT##*/}
        [ $n -eq 1 ] || { git reset -q --hard main; git clean -fdq; }
        [ $n -ne 1 ] || case $JIT_UNIT in
            a) git mv old.txt a.txt.moved; git commit -qm away; git mv a.txt.moved a.txt; git commit -qm back;;
            b) git rm -q old.txt;;
            c) echo x > old.txt;;
            d) ln -s /etc d.link;;
        esac"#,
    );
    let repo = yard.world.repo();
    fs::write(repo.join("old.txt"), "old\n").expect("a file");
    let _ = yard.world.git(&repo, ["add", "old.txt"]);
    let _ = yard.world.git(&repo, ["commit", "-qm", "old"]);
    let own = |id: &str| format!("writes: [{id}.txt]");
    let (a, b, c, d) = (own("a"), own("b"), own("c"), own("d"));
    let units: &[(&str, &[&str], &str)] = &[("a", &[], &a), ("b", &[], &b), ("c", &[], &c), ("d", &[], &d)];
    let _ = yard.run("max_concurrent: 4", units).ok();
    let starts = yard.starts();
    for unit in ["a", "b", "c", "d"] {
        assert!(yard.on_main(&format!("{unit}.txt")), "{unit}");
        assert!(starts.contains_key(&format!("{unit}/2")), "{unit}: {starts:?}");
    }
    assert_eq!(
        fs::read_to_string(repo.join("old.txt")).expect("the file"),
        "old\n"
    );
}

#[test]
fn g15_what_came_from_the_target_is_not_the_units_doing() {
    let yard = Yard::new("[ $JIT_UNIT != b ] || { git -C . merge -q main -m up 2>&1; } >&2");
    // b begins, and takes over what landed meanwhile.
    let yard_main = yard.world.repo();
    let script = fs::read_to_string(yard.agent()).expect("the script");
    let early = script.replacen(
        "[ $JIT_UNIT != b ]",
        &format!(
            "[ $JIT_UNIT != b ] || {{ git -C {0} commit -q --allow-empty -m x; echo n > {0}/new.txt; git -C {0} add new.txt; \
             git -C {0} commit -qm new; }} >&2\n[ $JIT_UNIT != b ]",
            yard_main.display()
        ),
        1,
    );
    fs::write(yard.agent(), early).expect("a script");
    let _ = yard.run("", &[("b", &[], "writes: [b.txt]")]).ok();
    assert!(yard.on_main("b.txt") && yard.on_main("new.txt"));
}

#[test]
fn g15_two_in_each_others_way_run_one_after_the_other_and_keep_nobody_else() {
    let yard = Yard::new("");
    let home = yard.world.home().display().to_string();
    let script = fs::read_to_string(yard.agent()).expect("the script");
    // Of those two the first waits until the third has begun, whom nobody keeps.
    let work = format!(
        r#"case $JIT_UNIT in
    c) touch {home}/third;;
    *)  mkdir {home}/busy || touch {home}/busy-twice
        n=0; until [ -e {home}/third ] || [ $n = 600 ]; do sleep 0.1; n=$((n + 1)); done
        [ $n -lt 600 ] || touch {home}/kept
        rmdir {home}/busy;;
esac
echo '{{"kind":"started""#
    );
    let script = script.replacen("echo '{\"kind\":\"started\"", &work, 1);
    fs::write(yard.agent(), script).expect("a script");
    let units: &[(&str, &[&str], &str)] = &[
        ("a", &[], "writes: [a.txt, 'b*.txt']"),
        ("b", &[], "writes: [b.txt]"),
        ("c", &[], ""),
    ];
    let ran = yard.run("max_concurrent: 3", units).ok();
    for mark in ["busy-twice", "kept"] {
        assert!(!yard.world.home().join(mark).exists(), "{mark}: {}", ran.stdout);
    }
    for unit in ["a", "b", "c"] {
        assert!(yard.on_main(&format!("{unit}.txt")), "{unit}");
    }
    // Whose worktree is made first is first.
    let told = |why: &str| ran.stdout.matches(why).count();
    let told = told("waits for a, which is at b*.txt") + told("waits for b, which is at b.txt");
    assert_eq!(told, 1, "{}", ran.stdout);
}

#[test]
fn g15_a_lock_of_somebody_else_is_waited_for_and_shown() {
    let yard = Yard::new("");
    let repo = yard.world.repo();
    let _ = yard
        .world
        .jit([
            "--agent-id",
            "human:ann",
            "lock",
            "acquire",
            "a.txt",
            "--scope",
            "global",
        ])
        .ok();
    let plan = yard.plan("", &[("a", &[], "writes: [a.txt]")]);
    let mut command = yard.world.jit_command(&repo);
    command
        .arg("run")
        .arg(&plan)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut coordinator = command.spawn().expect("a coordinator");
    let waits = || {
        let status = yard.world.jit(["workflow", "status", "flow", "--json"]);
        status.code == 0 && status.stdout.contains("waits for human:ann, which is at a.txt")
    };
    until("the reason", waits);
    assert!(yard.starts().is_empty(), "{:?}", yard.starts());
    let _ = yard
        .world
        .jit(["--agent-id", "human:ann", "lock", "release", "a.txt"])
        .ok();
    assert!(coordinator.wait().expect("its end").success());
    assert!(yard.on_main("a.txt"));
}

/// A program that speaks Claude Code's language, asks before it writes, and writes what it may.
fn fake_claude(yard: &Yard) -> PathBuf {
    let answers = yard.world.home().join("answers");
    let script = format!(
        r#"#!/bin/sh
id=$(printf '%s\n' "$@" | sed -n 's/^--session-id=//p')
IFS= read -r init; IFS= read -r told
echo '{{"type":"system","subtype":"init","session_id":"'"$id"'","model":"m"}}'
k=0
ask() {{
    k=$((k+1))
    printf '{{"type":"control_request","request_id":"r-%s","request":{{"subtype":"hook_callback","callback_id":"before-tool","tool_use_id":"t-%s","input":{{"cwd":"%s","hook_event_name":"PreToolUse","tool_name":"%s","tool_input":{{"%s":"%s"}}}}}}}}\n' $k $k "$PWD" "$1" "$2" "$3"
    IFS= read -r answer
    printf '%s\n' "$answer" >> {answers}
}}
ask Write file_path "$PWD/src/a.rs"
ask Edit file_path "$PWD/b.rs"
ask Write file_path "src/../b.rs"
ln -s ../b.rs src.link; mkdir -p src; ln -s ../b.rs src/link
ask Write file_path "$PWD/src/link"
ask Bash command "echo x > b.rs"
ask Bash command "mkdir -p src/deep && echo x > src/deep/c.rs"
ask Write file_path "{main}/b.rs"
rm -f src.link src/link
echo ok > src/a.rs; git add src >&2; git commit -qm work >&2
echo '{{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","result":"done","num_turns":1,"total_cost_usd":0.1,"session_id":"'"$id"'"}}'
cat > /dev/null
"#,
        answers = answers.display(),
        main = yard.world.repo().display(),
    );
    let path = yard.world.home().join("claude-fake");
    fs::write(&path, script).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
    path
}

#[test]
fn g15_an_agent_that_asks_is_refused_what_is_not_its_to_change() {
    let yard = Yard::new("");
    // Whatever the repository says about leases: the scope was set by whoever started it.
    for enforce in ["strict", "off"] {
        let _ = yard
            .world
            .jit(["config", "set", "--user", "worktree.enforce_leases", enforce])
            .ok();
        let _ = fs::remove_file(yard.world.home().join("answers"));
        let unit = format!("u-{enforce}");
        let fake = fake_claude(&yard).display().to_string();
        let _ = yard.world.jit(["worktree", "create", &unit]).ok();
        let ran = yard
            .world
            .jit([
                "worktree",
                "dispatch",
                &unit,
                "--prompt",
                "do it",
                "--writes",
                "src/**",
                "--wait",
                "--agent",
                "claude",
                "--command",
                &fake,
            ])
            .ok();
        let answers = fs::read_to_string(yard.world.home().join("answers")).expect("answers");
        let denied: Vec<bool> = answers
            .lines()
            .map(|line| line.contains("\"deny\"") && line.contains("you may write only src/**"))
            .collect();
        assert_eq!(
            denied,
            [false, true, true, true, true, false, true],
            "{enforce}\n{answers}\n{}",
            ran.stdout
        );
        assert_eq!(yard.unit(&unit)["state"], "COMPLETED", "{}", ran.stdout);
    }
}

#[test]
fn g15_a_scope_that_is_none_is_refused() {
    let yard = Yard::new("");
    let _ = yard.world.jit(["worktree", "create", "u"]).ok();
    let agent = yard.agent().display().to_string();
    for bad in ["../x", "/etc/**", "a[", ".git/config"] {
        let refused = yard.world.jit([
            "worktree",
            "dispatch",
            "u",
            "--prompt",
            "x",
            "--writes",
            bad,
            "--command",
            &agent,
        ]);
        let _ = refused.exits(2);
    }
    let refused = yard.run("", &[("a", &[], "writes: [../x]")]).exits(2);
    assert!(refused.stderr.contains("writes[0]"), "{}", refused.stderr);
    let refused = yard
        .run("", &[("a", &[], "writes: [src/]\nartifacts: [{path: out.md}]")])
        .exits(2);
    assert!(refused.stderr.contains("artifacts[0].path"), "{}", refused.stderr);
}
