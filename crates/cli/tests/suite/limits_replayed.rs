//! Recorded streams of three agents that are refused by whoever runs their model, played back in one workflow (G13): nobody
//! is started on an account while it is parked, everybody goes on with its own session, and nothing is done twice.
//!
//! The streams are those of the contract suite, with another session and a shorter wait in their words.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::running::Yard;

/// An agent, and what it prints when it is refused and when it is done.
struct Replayed {
    agent: &'static str,
    refused: &'static str,
    /// What stands in the recording, and what is played.
    wait: (&'static str, &'static str),
    happy: &'static str,
    /// The session of the recordings.
    sessions: &'static [&'static str],
}

const REPLAYED: &[Replayed] = &[
    Replayed {
        agent: "claude",
        refused: "claude/err429-one-retry.jsonl",
        wait: ("mock 429", "rate limited, try again in 0.5s"),
        happy: "claude/happy.jsonl",
        sessions: &[],
    },
    Replayed {
        agent: "codex",
        refused: "codex/usage-limit.jsonl",
        wait: ("2 hours 30 minutes", "0.6 seconds"),
        happy: "codex/happy.jsonl",
        sessions: &["01a10000-0000-7000-8000-000000000001"],
    },
    Replayed {
        agent: "gemini",
        refused: "gemini/err429.jsonl",
        wait: ("34.5s", "0.7s"),
        happy: "gemini/happy.jsonl",
        sessions: &["22222222-2222-4222-8222-222222222222"],
    },
];

/// Refused the first time, with half of its work committed, if its name ends with 1. The other half is done by who goes on.
const SCRIPT: &str = r#"#!/bin/sh
n=${JIT_ATTEMPT##*/}
for word in "$@"; do echo "$word"; done > "$HOME/args-$JIT_UNIT-$n"
echo "$JIT_UNIT $JIT_ATTEMPT $$" >> "$HOME/starts"
uuid='[0-9a-f]*-[0-9a-f]*-[0-9a-f]*-[0-9a-f]*-[0-9a-f]*'
resumed=$(sed -n "s/^--resume=//p;/^resume\$/,\$s/^\($uuid\)\$/\1/p" "$HOME/args-$JIT_UNIT-$n")
given=$(sed -n 's/^--session-id=//p' "$HOME/args-$JIT_UNIT-$n")
# One that chooses its sessions itself.
own=$(printf '01a10000-0000-7000-8000-%012d' "$(printf %s "$JIT_UNIT" | cksum | cut -d' ' -f1)")
id=${resumed:-${given:-$own}}
echo "$id" > "$HOME/session-$JIT_UNIT-$n"
half() { echo "$1" >> "$JIT_UNIT-$1.txt"; git add -A . && git commit -qm "$1 half of $JIT_UNIT" >&2 || exit 9; }
play() { sed "s/@ID@/$id/g" "$HOME/$1"; }
case $JIT_UNIT-$resumed in
*1-) half first; play REFUSED; exit 1;;
*1-*) [ -f "$JIT_UNIT-first.txt" ] || exit 8; half second; play HAPPY;;
*) half first; half second; play HAPPY;;
esac
"#;

fn transcript(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../agents/tests/transcripts");
    fs::read_to_string(folder.join(name)).expect(name)
}

/// The recording with a session that can be filled in.
fn with_session(text: &str, sessions: &[&str]) -> String {
    let mut own: Vec<String> = sessions.iter().map(|id| (*id).to_owned()).collect();
    for line in text.lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("a line");
        own.extend(value["session_id"].as_str().map(str::to_owned));
    }
    own.iter()
        .fold(text.to_owned(), |text, id| text.replace(id, "@ID@"))
}

fn install(yard: &Yard, one: &Replayed) -> PathBuf {
    let home = yard.world.home();
    let (there, played) = one.wait;
    let refused = transcript(one.refused);
    assert!(refused.contains(there), "{refused}");
    let kept = |what: &str, text: &str| {
        let name = format!("{}-{what}.jsonl", one.agent);
        fs::write(home.join(&name), with_session(text, one.sessions)).expect("a stream");
        name
    };
    let refused = kept("refused", &refused.replace(there, played));
    let happy = kept("happy", &transcript(one.happy));
    let program = home.join(format!("{}-replayed", one.agent));
    let script = SCRIPT.replace("REFUSED", &refused).replace("HAPPY", &happy);
    fs::write(&program, script).expect("a script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("permissions");
    program
}

#[test]
fn g13_replayed_limits_of_three_agents_park_resume_and_redo_nothing() {
    let yard = Yard::new("");
    let mut plan = "workflow_id: flow\nstagger: 0s\nmax_concurrent: 3\nunits:\n".to_owned();
    // With room for three, the second of each agent could begin as soon as the first one is refused.
    for second in [false, true] {
        for one in REPLAYED {
            let program = install(&yard, one);
            let unit = format!("{}{}", one.agent, if second { 2 } else { 1 });
            plan.push_str(&format!(
                "  - id: {unit}\n    prompt: do {unit}\n    run: {{agent: {}, command: [{program:?}], max_retries: 0}}\n",
                one.agent
            ));
        }
    }
    let path = yard.world.home().join("plan.yaml");
    fs::write(&path, plan).expect("a plan");
    let ran = yard.world.jit(["run".as_ref(), path.as_os_str()]).ok();
    yard.nobody_began_while_parked();
    let read = |name: String| fs::read_to_string(yard.world.home().join(&name)).expect(&name);
    let parked = yard.events("account.parked");
    for Replayed { agent, .. } in REPLAYED {
        assert!(
            parked.iter().any(|event| event["payload"]["id"] == *agent),
            "{parked:?}"
        );
        for (unit, attempts) in [(format!("{agent}1"), 2), (format!("{agent}2"), 1)] {
            // Each half once, and what was committed before the refusal is what landed.
            for half in ["first", "second"] {
                let file = format!("{unit}-{half}.txt");
                assert!(yard.on_main(&file), "{file}\n{}", ran.stdout);
                assert_eq!(yard.commits(&file), 1, "{file}");
            }
            let shown = yard.unit(&unit);
            assert_eq!(shown["merge_status"], "merged", "{shown}");
            assert_eq!(shown["retry_count"], 0, "{shown}");
            assert_eq!(shown["attempt"], attempts, "{shown}");
        }
        let session = |n: u32| read(format!("session-{agent}1-{n}"));
        assert_eq!(session(1), session(2), "{agent} goes on with its own session");
        let args = read(format!("args-{agent}1-2"));
        assert!(args.contains(session(1).trim()), "{args}");
        let first = read(format!("args-{agent}1-1"));
        assert!(!first.contains("resume"), "{first}");
    }
    let starts = yard.starts();
    assert_eq!(starts.len(), 9, "{starts:?}");
    assert!(starts.values().all(|count| *count == 1), "{starts:?}");
    yard.world.validates();
}
