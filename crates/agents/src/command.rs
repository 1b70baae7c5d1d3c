//! Any program as an agent (G4).
//!
//! What must hold:
//!
//! - the program gets its arguments unchanged and is never started through a shell. A name with a slash is relative to
//!   the worktree;
//! - the prompt is on its standard input, and in the file named by `JIT_PROMPT_FILE`;
//! - each line it prints is an [`AgentEvent::Text`], or, if it is a JSON object with a `kind` that agents may use, that
//!   [`AgentEvent`]. The only report of its result is `{"kind":"result",…}`;
//! - lines about a session other than its first one are ignored.
//!
//! Limitations: it cannot ask before it uses a tool, so jit cannot deny one. Git hooks and the checks before landing
//! still apply. It has no session.

use jit_core::model::cost::{Tokens, Usd};
use jit_os::clock;
use serde::Deserialize;

use crate::agent::{Agent, Launch, Stdin, command_of, prompt_of};
use crate::ask::Ask;
use crate::event::{AgentEvent, AgentVerdict, Limited};
use crate::job::Job;
use crate::listener::{Listener, Reaction};
use crate::rate_limit;
use crate::text::{short, short_bytes};

/// Characters of a line that are kept.
const LINE: usize = 2_000;
/// Characters of a name.
const NAME: usize = 200;

#[derive(Debug, Clone, Copy)]
pub struct Command;

impl Agent for Command {
    fn name(&self) -> &'static str {
        "command"
    }

    fn launch(&self, job: &Job) -> Result<Launch, String> {
        let Some((program, args)) = command_of(job)? else {
            return Err("the agent `command` needs a program to run".to_owned());
        };
        Ok(Launch {
            program,
            args,
            env: vec![("JIT_PROMPT_FILE".into(), job.prompt_file.clone().into_os_string())],
            stdin: Stdin::Bytes(prompt_of(job)?.into_bytes()),
        })
    }

    fn listener(&self, _: &Job) -> Box<dyn Listener> {
        Box::new(CommandListener::default())
    }
}

#[derive(Debug, Default)]
struct CommandListener {
    /// The first session it reported.
    session: Option<String>,
    /// The usage that it reported last.
    usage: UsageLine,
}

/// A `usage` event. An amount that it does not have is as it was before.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
struct UsageLine {
    tokens: Option<Tokens>,
    cost_usd: Option<Usd>,
    turns: Option<u64>,
}

/// The kinds of events that an agent may report. The shim writes the others.
const KINDS: [&str; 8] = [
    "started",
    "text",
    "tool",
    "tool_done",
    "denied",
    "usage",
    "retrying",
    "result",
];

#[derive(Deserialize)]
struct EventHead {
    kind: String,
}

impl Listener for CommandListener {
    fn line(&mut self, line: &[u8], _: &mut dyn Ask) -> Reaction {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Reaction::default();
        }
        let mut said = self.understand(line);
        if self.is_of_another(&said) {
            said = unknown(line);
        }
        Reaction {
            said: vec![said],
            ..Reaction::default()
        }
    }
}

impl CommandListener {
    fn understand(&mut self, line: &[u8]) -> AgentEvent {
        let text = || AgentEvent::Text {
            text: short_bytes(line, LINE),
        };
        if line.first() != Some(&b'{') {
            return text();
        }
        match serde_json::from_slice::<EventHead>(line) {
            Ok(head) if head.kind == "usage" => self.usage(line),
            Ok(head) if KINDS.contains(&&*head.kind) => {
                serde_json::from_slice(line).map_or_else(|_| unknown(line), shortened)
            }
            _ => text(),
        }
    }

    fn usage(&mut self, line: &[u8]) -> AgentEvent {
        let now = match serde_json::from_slice(line) {
            Ok(UsageLine {
                tokens: None,
                cost_usd: None,
                turns: None,
            })
            | Err(_) => return unknown(line),
            Ok(now) => now,
        };
        let before = self.usage;
        self.usage = UsageLine {
            tokens: now.tokens.or(before.tokens),
            cost_usd: now.cost_usd.or(before.cost_usd),
            turns: now.turns.or(before.turns),
        };
        AgentEvent::Usage {
            tokens: self.usage.tokens.unwrap_or_default(),
            cost_usd: self.usage.cost_usd,
            turns: self.usage.turns.unwrap_or_default(),
            // A program of any kind has no session to count over.
            meter: None,
        }
    }

    /// Whether the event is about a session other than the first. Remembers the first.
    fn is_of_another(&mut self, said: &AgentEvent) -> bool {
        let named = match said {
            AgentEvent::Started { session_id, .. } => session_id,
            AgentEvent::Result { verdict } => &verdict.session_id,
            _ => return false,
        };
        match (&self.session, named) {
            (Some(own), Some(named)) => own != named,
            (None, Some(named)) if matches!(said, AgentEvent::Started { .. }) => {
                self.session = Some(named.clone());
                false
            }
            _ => false,
        }
    }
}

fn unknown(line: &[u8]) -> AgentEvent {
    AgentEvent::Unknown {
        line: short_bytes(line, LINE),
    }
}

fn shortened(said: AgentEvent) -> AgentEvent {
    let cut = |text: Option<String>| text.map(|text| short(&text, NAME));
    match said {
        AgentEvent::Started { session_id, model } => AgentEvent::Started {
            session_id: cut(session_id),
            model: cut(model),
        },
        AgentEvent::Text { text } => AgentEvent::Text {
            text: short(&text, LINE),
        },
        AgentEvent::Tool { name, detail } => AgentEvent::Tool {
            name: short(&name, NAME),
            detail: short(&detail, LINE),
        },
        AgentEvent::ToolDone { name, failed, detail } => AgentEvent::ToolDone {
            name: short(&name, NAME),
            failed,
            detail: short(&detail, LINE),
        },
        AgentEvent::Denied { name, reason } => AgentEvent::Denied {
            name: short(&name, NAME),
            reason: short(&reason, LINE),
        },
        AgentEvent::Retrying {
            why,
            attempt,
            delay_ms,
        } => AgentEvent::Retrying {
            why: short(&why, NAME),
            attempt,
            delay_ms,
        },
        AgentEvent::Result { verdict } => AgentEvent::Result {
            verdict: AgentVerdict {
                reason: short(&verdict.reason, NAME),
                text: short(&verdict.text, LINE),
                session_id: cut(verdict.session_id),
                limited: verdict.limited.or_else(|| {
                    let refused = verdict.is_error && verdict.reason == "rate_limit";
                    refused.then(|| Limited {
                        until: rate_limit::until(&verdict.text, clock::wall_ms()),
                    })
                }),
                ..verdict
            },
        },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::ask::{Permission, Question};
    use crate::catalog::by_name;
    use crate::test_job::job;

    struct Nobody;

    impl Ask for Nobody {
        fn may(&mut self, _: &Question<'_>) -> Permission {
            unreachable!("a command does not ask")
        }
    }

    fn said(line: &[u8]) -> Vec<AgentEvent> {
        let heard = CommandListener::default().line(line, &mut Nobody);
        assert!(heard.answer.is_empty() && !heard.hang_up);
        heard.said
    }

    #[test]
    fn g4_a_line_is_text_and_a_known_object_is_what_it_says() {
        let text = |text: &str| vec![AgentEvent::Text { text: text.into() }];
        assert_eq!(said(b"hello \xff"), text("hello \u{fffd}"));
        assert_eq!(said(b"  \r"), []);
        for line in [
            "{",
            "{}",
            r#"{"kind":"note","text":"x"}"#,
            r#"{"kind":"dance"}"#,
            r#"{"a":1}"#,
            "null",
        ] {
            assert_eq!(said(line.as_bytes()), text(line), "{line}");
        }
        let usage = br#"{"turns":2,"kind":"usage","tokens":{"input":5,"output":7},"cost_usd":0.25,"new":1}"#;
        let [AgentEvent::Usage { tokens, turns: 2, .. }] = &said(usage)[..] else {
            panic!("{:?}", said(usage))
        };
        assert_eq!(tokens.total(), 12);
        let result = br#"{"kind":"result","verdict":{"is_error":true,"reason":"tired"}}"#;
        assert!(matches!(&said(result)[..], [AgentEvent::Result { verdict }] if verdict.is_error));
        // A known kind with an unknown shape is kept as a line.
        for line in [
            r#"{"kind":"usage"}"#,
            r#"{"kind":"usage","tokens":{"input":-1,"output":0},"turns":0}"#,
        ] {
            assert_eq!(said(line.as_bytes()), [AgentEvent::Unknown { line: line.into() }]);
        }
        let long = "x".repeat(100_000);
        assert!(matches!(&said(long.as_bytes())[..], [AgentEvent::Text { text }] if text.len() < 3_000));
    }

    #[test]
    fn g9_a_usage_line_without_tokens_counts_its_dollars() {
        let mut listener = CommandListener::default();
        let mut usage = |line: &str| {
            let mut heard = listener.line(line.as_bytes(), &mut Nobody);
            match heard.said.pop() {
                Some(AgentEvent::Usage {
                    tokens,
                    cost_usd,
                    turns,
                    ..
                }) => (tokens.total(), cost_usd, turns),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(
            usage(r#"{"kind":"usage","cost_usd":0.25}"#),
            (0, Some(Usd(250_000)), 0)
        );
        let all = r#"{"kind":"usage","tokens":{"input":5,"output":7},"cost_usd":0.5,"turns":2}"#;
        assert_eq!(usage(all), (12, Some(Usd(500_000)), 2));
        // A value that is not given again stays as it was.
        assert_eq!(
            usage(r#"{"kind":"usage","cost_usd":0.75}"#),
            (12, Some(Usd(750_000)), 2)
        );
        assert_eq!(
            usage(r#"{"kind":"usage","turns":3}"#),
            (12, Some(Usd(750_000)), 3)
        );
    }

    #[test]
    fn g4_a_program_is_started_with_its_words_as_they_are() {
        let (_folder, mut job) = job("do $(it)");
        let agent = by_name("command").expect("an agent");
        assert!(agent.launch(&job).is_err(), "nothing to run");
        job.command = vec!["bin/run".into(), "$(rm -rf x)".into(), String::new()];
        let launch = agent.launch(&job).expect("a launch");
        assert_eq!(launch.program, job.dir.join("bin/run").into_os_string());
        assert_eq!(launch.args, ["$(rm -rf x)", ""]);
        assert_eq!(launch.stdin, Stdin::Bytes(b"do $(it)".to_vec()));
        assert_eq!(launch.env[0].1, job.prompt_file.clone().into_os_string());
        job.command = vec!["python3".into()];
        assert_eq!(agent.launch(&job).expect("a launch").program, "python3");
        job.prompt_file = "/nowhere/at/all".into();
        assert!(
            agent
                .launch(&job)
                .expect_err("no prompt")
                .contains("/nowhere/at/all")
        );
    }

    #[test]
    fn g4_nobody_to_ask_is_a_no() {
        let input = RawValue::from_string("{}".into()).expect("JSON");
        let question = Question {
            tool: "Fly",
            input: &input,
            cwd: None,
        };
        assert!(matches!(Nobody.approve(&question), Permission::Deny(why) if why.contains("Fly")));
    }
}
