//! A scripted agent of the demo: a process that knows only its worktree and the command line of `jit`.
//!
//! It looks for ready issues, races to claim one, checks under the lease that nobody did it before, does it (a file, a
//! commit, a ref that says so), gives it back, and leaves when everything is done.

use std::collections::HashSet;
use std::io::{self, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use jit_engine::git::Git;
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
    Lost {
        issue: String,
        holder: String,
    },
    Waits {
        issue: String,
        holder: String,
        left: f64,
    },
    /// Only the one that is to be killed says this, and then does nothing more.
    HalfWay {
        issue: String,
    },
    Finished {
        issue: String,
        commit: String,
    },
    FoundDone {
        issue: String,
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
/// How long to wait for a held issue before looking again.
const PATIENCE: &str = "2s";

struct Player {
    ttl_secs: u64,
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

/// Issues whose result is there, on whatever branch.
fn done() -> Result<HashSet<String>, String> {
    let refs = git(&["for-each-ref", "--format=%(refname:lstrip=2)", "refs/demo"])?;
    Ok(refs.lines().map(str::to_owned).collect())
}

impl Player {
    fn pause(&self) -> Result<(), String> {
        self.words.recv().map(drop).map_err(|e| e.to_string())
    }

    fn work(&self) -> Result<(), String> {
        report(&Event::Ready)?;
        self.pause()?;
        loop {
            let (code, list) = jit(&["issue", "list", "--fields", "id,state"])?;
            if code != 0 {
                return Err(format!("jit issue list: exit {code}"));
            }
            let done = done()?;
            let open: Vec<(String, String)> = list["issues"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|issue| (text(&issue["id"]), text(&issue["state"])))
                .filter(|(id, _)| !done.contains(id))
                .collect();
            let Some((first, _)) = open.first() else {
                return report(&Event::Leaves);
            };
            let mut got = false;
            let mut ready = open.iter().filter(|(_, state)| state == "ready").peekable();
            if ready.peek().is_none() {
                // All that is left is in somebody's hands: if that one is dead, its time will run out.
                got = self.attempt(first, true)?;
            }
            for (id, _) in ready {
                if got {
                    break;
                }
                got = self.attempt(id, false)?;
            }
        }
    }

    /// Tries to claim an issue and does it. Says whether it got it.
    fn attempt(&self, id: &str, wait: bool) -> Result<bool, String> {
        let ttl = format!("{}s", self.ttl_secs);
        let acquire = ["claim", "acquire", id, "--ttl", &ttl];
        let (mut code, mut answer) = jit(&acquire)?;
        if code == 4 {
            let lease = &answer["error"]["details"]["lease"];
            let issue = id.to_owned();
            let holder = text(&lease["agent_id"]).replace("agent:", "");
            if !wait {
                report(&Event::Lost { issue, holder })?;
                return Ok(false);
            }
            let left = text(&lease["expires_at"])
                .parse::<jiff::Timestamp>()
                .map_or(0.0, |until| {
                    (until.as_millisecond() - jiff::Timestamp::now().as_millisecond()) as f64 / 1000.0
                });
            report(&Event::Waits { issue, holder, left })?;
            let patient: Vec<&str> = acquire.into_iter().chain(["--wait", PATIENCE]).collect();
            (code, answer) = jit(&patient)?;
            if code == 4 {
                return Ok(false);
            }
        }
        if code != 0 {
            return Err(format!("jit claim acquire {id}: exit {code}: {answer}"));
        }
        let lease_id = text(&answer["lease_id"]);
        if done()?.contains(id) {
            release(&lease_id)?;
            report(&Event::FoundDone { issue: id.to_owned() })?;
            return Ok(true);
        }
        report(&Event::Won {
            issue: id.to_owned(),
            lease_id: lease_id.clone(),
            token: answer["token"].as_u64().unwrap_or(0),
            acquired_at: text(&answer["acquired_at"]),
            expires_at: text(&answer["expires_at"]),
        })?;
        self.pause()?;
        self.do_it(id)?;
        let commit = git(&["rev-parse", "--short", "HEAD"])?;
        // Fails if anybody was there before: git is the second witness.
        git(&["update-ref", &format!("refs/demo/{id}"), "HEAD", ""])
            .map_err(|e| format!("{id} was done twice: {e}"))?;
        release(&lease_id)?;
        report(&Event::Finished {
            issue: id.to_owned(),
            commit,
        })?;
        Ok(true)
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
        std::fs::write(&file, format!("# {id}\n\nDone.\n")).map_err(|e| e.to_string())?;
        git(&["add", &file])?;
        git(&["commit", "-q", "-m", &format!("{id}: done")])?;
        Ok(())
    }
}

fn release(lease_id: &str) -> Result<(), String> {
    match jit(&["claim", "release", lease_id])? {
        (0, _) => Ok(()),
        (code, answer) => Err(format!("jit claim release: exit {code}: {answer}")),
    }
}
