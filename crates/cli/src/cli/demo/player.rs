//! A scripted agent of the demo: a process that knows only its worktree and the command line of `jit`.
//!
//! It asks for the best ready issue, does it (a file, a commit, a ref that says so), runs the issue's gates, closes it,
//! and leaves when everything is done. The one called `ada` is careless once, and is stopped by the gate.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use jit_git::Git;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What an agent reports, one JSON object a line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Started, and waits for the sign to begin.
    Ready,
    Won {
        issue: String,
        lease_id: String,
        token: u64,
        acquired_at: String,
        expires_at: String,
    },
    /// Nothing can be taken now: so many issues are held, so many wait for others.
    Waits {
        held: u64,
        blocked: u64,
    },
    /// A gate did not pass, and so the issue could not be closed.
    Stopped {
        issue: String,
        gate: i32,
        close: String,
    },
    /// Only the one that is to be killed says this, and then does nothing more.
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
    /// Its output has ended.
    Gone,
}

/// What an agent is told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    Go,
}

/// A lease shorter than this is not meant to see its end.
const MEANT_TO_DIE: u64 = 10;
/// How long to wait for work before looking again.
const PATIENCE: &str = "2s";

struct Player {
    ttl_secs: u64,
    /// Its first piece of work is not finished when it says so.
    careless: std::cell::Cell<bool>,
    words: Receiver<Word>,
}

pub fn play(ttl_secs: &str) {
    let (sender, words) = channel();
    // The demo holds the other end: when it is gone there is nobody to play for.
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

/// `jit`, as any agent calls it.
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
    let out = Git::at(".")
        .args(args)
        .without_hooks()
        .run()
        .map_err(|e| e.to_string())?;
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
                // All that is left is in somebody's hands: if that one is dead, its time will run out.
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

    /// Does what the lease is for, and closes the issue.
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
        // Fails if anybody was there before: git is the second witness.
        git(&["update-ref", &format!("refs/demo/{id}"), "HEAD", ""])
            .map_err(|e| format!("{id} was done twice: {e}"))?;
        // Closing it also gives it back.
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
