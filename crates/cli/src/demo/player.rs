//! A scripted agent of the demo: a process that knows only its worktree and the command line of `jit`.
//!
//! It claims the best ready issue and does the work: a file, a commit and a ref that records it. Then it runs the issue's
//! gates and closes the issue. It ends when everything is done. The agent `ada` is careless once, and the gate stops it.
//!
//! What must hold: the agent ends when its standard input is closed, that is, when the demo ends.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use jit_git::Git;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Reports of an agent, one JSON object a line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The agent has started, and waits for `Word::Go`.
    Ready,
    Won {
        issue: String,
        lease_id: String,
        token: u64,
        acquired_at: String,
        expires_at: String,
    },
    /// No issue can be acquired now. Counts the issues that are held, and those that wait for others.
    Waits {
        held: u64,
        blocked: u64,
    },
    /// A gate failed, so the issue could not be closed.
    Stopped {
        issue: String,
        gate: i32,
        close: String,
    },
    /// Only the agent that is to be killed reports this. Then it does nothing more.
    HalfWay {
        issue: String,
    },
    Finished {
        issue: String,
        commit: String,
    },
    Leaves,
    Trouble {
        what: String,
    },
    /// The agent's output has ended.
    Gone,
}

/// Messages to an agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    Go,
}

/// An agent with a lease shorter than this many seconds is to be killed.
const MEANT_TO_DIE: u64 = 10;
/// Time that `jit claim next` waits for an issue before the agent retries.
const PATIENCE: &str = "2s";

struct Player {
    ttl_secs: u64,
    /// Whether the next piece of work is declared done too early. Reset after one time.
    careless: std::cell::Cell<bool>,
    words: Receiver<Word>,
}

pub fn play(ttl_secs: &str) {
    let (sender, words) = channel();
    // The demo holds the other end of standard input. When the demo has ended, the agent ends too.
    std::thread::spawn(move || {
        for line in io::stdin().lines() {
            let Some(word) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) else {
                break;
            };
            if sender.send(word).is_err() {
                break;
            }
        }
        std::process::exit(1);
    });
    let player = Player {
        ttl_secs: ttl_secs.parse().unwrap_or(60),
        careless: std::cell::Cell::new(std::env::var("JIT_AGENT_ID").is_ok_and(|id| id == "agent:ada")),
        words,
    };
    if let Err(what) = player.work() {
        let _ = report(&Event::Trouble { what });
    }
}

fn report(event: &Event) -> Result<(), String> {
    let mut line = serde_json::to_vec(event).map_err(|e| e.to_string())?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line)
        .and_then(|()| out.flush())
        .map_err(|e| e.to_string())
}

/// Runs `jit` as any agent does, with `--json`. Returns the exit code and the document.
fn jit(args: &[&str]) -> Result<(i32, Value), String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let output = Command::new(program)
        .args(args)
        .arg("--json")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| e.to_string())?;
    let code = output.status.code().unwrap_or(-1);
    let value = serde_json::from_slice(&output.stdout)
        .map_err(|e| format!("jit {} answered no JSON: {e}", args.join(" ")))?;
    Ok((code, value))
}

fn git(args: &[&str]) -> Result<String, String> {
    let out = Git::at(".").args(args).run().map_err(|e| e.to_string())?;
    Ok(String::from_utf8_lossy(&out).trim().to_owned())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Player {
    fn pause(&self) -> Result<(), String> {
        self.words.recv().map(drop).map_err(|e| e.to_string())
    }

    fn work(&self) -> Result<(), String> {
        report(&Event::Ready)?;
        self.pause()?;
        let ttl = format!("{}s", self.ttl_secs);
        let next = ["claim", "next", "--ttl", &ttl];
        loop {
            let (mut code, mut answer) = jit(&next)?;
            if code == 3 {
                let counts = &answer["error"]["details"];
                let (held, blocked) = (
                    counts["held"].as_u64().unwrap_or(0),
                    counts["blocked"].as_u64().unwrap_or(0),
                );
                if held + blocked == 0 {
                    return report(&Event::Leaves);
                }
                // Every remaining issue is held, or waits for one that is. If a holder is dead, its lease will expire.
                report(&Event::Waits { held, blocked })?;
                let patient: Vec<&str> = next.into_iter().chain(["--wait", PATIENCE]).collect();
                (code, answer) = jit(&patient)?;
                if code == 3 {
                    continue;
                }
            }
            if code != 0 {
                return Err(format!("jit claim next: exit {code}: {answer}"));
            }
            self.finish(&answer)?;
        }
    }

    /// Does the work of the leased issue, and closes the issue.
    fn finish(&self, lease: &Value) -> Result<(), String> {
        let id = text(&lease["issue_id"]);
        report(&Event::Won {
            issue: id.clone(),
            lease_id: text(&lease["lease_id"]),
            token: lease["token"].as_u64().unwrap_or(0),
            acquired_at: text(&lease["acquired_at"]),
            expires_at: text(&lease["expires_at"]),
        })?;
        self.pause()?;
        self.do_it(&id)?;
        let commit = git(&["rev-parse", "--short", "HEAD"])?;
        // This fails if another agent did the issue before: git is the second witness.
        git(&["update-ref", &format!("refs/demo/{id}"), "HEAD", ""])
            .map_err(|e| format!("{id} was done twice: {e}"))?;
        // Closing the issue also releases its lease.
        let (code, answer) = jit(&["issue", "update", &id, "--state", "done"])?;
        if code != 0 {
            return Err(format!("jit issue update: exit {code}: {answer}"));
        }
        git(&["add", "-A"])?;
        git(&["commit", "-q", "-m", &format!("state of {id}")])?;
        report(&Event::Finished { issue: id, commit })
    }

    fn do_it(&self, id: &str) -> Result<(), String> {
        let file = format!("{id}.md");
        std::fs::write(&file, format!("# {id}\n\nWork in prog")).map_err(|e| e.to_string())?;
        if self.ttl_secs < MEANT_TO_DIE {
            report(&Event::HalfWay { issue: id.to_owned() })?;
            loop {
                std::thread::park();
            }
        }
        if self.careless.take() {
            let (gate, _) = jit(&["gate", "run", id])?;
            let (_, answer) = jit(&["issue", "update", id, "--state", "done"])?;
            report(&Event::Stopped {
                issue: id.to_owned(),
                gate,
                close: text(&answer["error"]["code"]),
            })?;
        }
        std::fs::write(&file, format!("# {id}\n\nDone.\n")).map_err(|e| e.to_string())?;
        match jit(&["gate", "run", id])? {
            (0, _) => {}
            (code, answer) => return Err(format!("jit gate run: exit {code}: {answer}")),
        }
        git(&["add", "-A"])?;
        git(&["commit", "-q", "-m", &format!("{id}: done")])?;
        Ok(())
    }
}
