//! A conversation through the shim: the agent's input, and agents that do not read it (G4, G8).
#![cfg(target_os = "linux")]

use std::path::Path;

use jit_agents::event::{AgentEvent, AgentVerdict};
use jit_agents::job::{AttemptEnd, Exit, Job};
use jit_agents::runner::{attempt, shim};
use jit_agents::{Agent, Ask, Launch, Listener, Permission, Question, Reaction, Stdin};
use serde_json::json;
use serde_json::value::RawValue;

/// A shell script that gets `first`, and an answer to each line it prints.
struct Script {
    stdin: Stdin,
    answer: Vec<u8>,
}

impl Agent for Script {
    fn name(&self) -> &'static str {
        "script"
    }

    fn launch(&self, job: &Job) -> Result<Launch, String> {
        Ok(Launch {
            program: "sh".into(),
            args: vec!["-c".into(), job.command[0].clone().into()],
            env: vec![("FROM_LAUNCH".into(), "1".into())],
            stdin: self.stdin.clone(),
        })
    }

    fn listener(&self, _job: &Job) -> Box<dyn Listener> {
        Box::new(Answers(self.answer.clone()))
    }
}

struct Answers(Vec<u8>);

impl Listener for Answers {
    fn line(&mut self, line: &[u8], ask: &mut dyn Ask) -> Reaction {
        let text = String::from_utf8_lossy(line).into_owned();
        let hang_up = text == "enough";
        let question = Question {
            tool: &text,
            input: RawValue::NULL,
            cwd: None,
        };
        let allowed = ask.may(&question) == Permission::Allow;
        let mut answer = self.0.clone();
        if !allowed {
            answer = b"no\n".to_vec();
        }
        Reaction {
            said: vec![AgentEvent::Text { text }],
            answer,
            hang_up,
        }
    }

    fn end(&mut self) -> Vec<AgentEvent> {
        let verdict = AgentVerdict {
            reason: "said at the end".into(),
            ..AgentVerdict::default()
        };
        vec![AgentEvent::Result { verdict }]
    }
}

struct AllBut(&'static str);

impl Ask for AllBut {
    fn may(&mut self, question: &Question<'_>) -> Permission {
        match question.tool == self.0 {
            true => Permission::Deny("not that".into()),
            false => Permission::Allow,
        }
    }
}

fn run(folder: &Path, script: &str, stdin: Stdin, answer: &[u8]) -> (Exit, Vec<AgentEvent>) {
    let job = json!({
        "unit": "u", "attempt": 1, "agent": "script", "worker": "agent:a", "dir": folder,
        "command": [script], "vars": [], "session": null,
        "timeout_secs": 120, "idle_secs": 120, "linger_secs": 120, "grace_secs": 1,
    });
    let job: Job = serde_json::from_value(job).expect("a job");
    let folder = folder.join("attempt");
    attempt::prepare(&folder, &job, "prompt").expect("prepared");
    let agent = Script {
        stdin,
        answer: answer.to_vec(),
    };
    let exit = shim::run(&folder, &agent, &mut AllBut("forbidden"), &mut |_| Ok(())).expect("an exit");
    let (lines, _) = attempt::follow(&folder, 0).expect("events");
    (exit, lines.into_iter().map(|line| line.said).collect())
}

/// A single test: a shim waits for all children of its process.
#[test]
fn g4_an_agent_is_told_answered_and_never_waited_for() {
    let folder = || tempfile::tempdir().expect("a folder");
    let text = |text: &str| AgentEvent::Text { text: text.into() };

    // Asks, is answered, is denied, and sees the end of its input after the hang-up.
    let here = folder();
    let script = "read first; echo \"$first\"; read a; echo \"got $a\"; read b; echo forbidden; read c; echo \"got $c\"; \
                  read d; echo enough; cat >/dev/null; exit 4";
    let (exit, said) = run(
        here.path(),
        script,
        Stdin::Open(b"the prompt\n".to_vec()),
        b"yes\n",
    );
    assert_eq!(
        (exit.end, exit.exit_code),
        (AttemptEnd::Exited, Some(4)),
        "{exit:?}"
    );
    for words in ["the prompt", "got yes", "forbidden", "got no", "enough"] {
        assert!(said.contains(&text(words)), "{words}: {said:?}");
    }
    assert_eq!(
        exit.verdict.map(|verdict| verdict.reason).as_deref(),
        Some("said at the end")
    );

    // Gets all of a long prompt, and then the end.
    let here = folder();
    let long = vec![b'p'; 3 << 20];
    let (exit, said) = run(here.path(), "wc -c; echo $FROM_LAUNCH", Stdin::Bytes(long), b"");
    assert_eq!(exit.exit_code, Some(0), "{exit:?}");
    assert!(
        said.contains(&text("3145728")) && said.contains(&text("1")),
        "{said:?}"
    );

    // Never reads, and gets more answers than the pipe and the buffer hold.
    let here = folder();
    let answer = vec![b'a'; 100_000];
    let script = "n=0; while [ $n -lt 40 ]; do echo ask; n=$((n + 1)); done; echo done; exit 2";
    let (exit, said) = run(here.path(), script, Stdin::Open(vec![b'p'; 200_000]), &answer);
    assert_eq!(
        (exit.end, exit.exit_code),
        (AttemptEnd::Exited, Some(2)),
        "{exit:?}"
    );
    let dropped = said
        .iter()
        .filter(|said| matches!(said, AgentEvent::Note { text } if text.contains("dropped")));
    assert_eq!(dropped.count(), 1, "{said:?}");
    assert!(said.contains(&text("done")));

    // Closes its input.
    let here = folder();
    let script = "exec <&-; echo ask; echo ask; exit 0";
    let (exit, _) = run(here.path(), script, Stdin::Open(vec![b'p'; 200_000]), &answer);
    assert_eq!(
        (exit.end, exit.exit_code),
        (AttemptEnd::Exited, Some(0)),
        "{exit:?}"
    );
}
