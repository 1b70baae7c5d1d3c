//! `jit demo`: shows jit at work on a scratch repository, with real processes.
//!
//! The demo has three parts:
//! - Four agents (this program, started again) race for a dozen issues from four worktrees. Some issues depend on others,
//!   and each has to pass a gate. The gate stops one agent. Another agent is killed while it holds a short lease. After the
//!   lease has expired, another agent takes over the work.
//! - Four workers finish at the same moment. Three land. One conflict is left to a person, and the work in its worktree is
//!   rescued.
//! - A coordinator works off a plan: it starts agents, watches them and lands their work. The coordinator is killed, the
//!   agents continue, and another coordinator does the rest.
//!
//! What must hold:
//! - Every step is an ordinary `jit` command in its own process.
//! - At the end, git and the log show that each issue was done exactly once and in the right order.
//! - Whatever ends the demo, the agents end too, because their standard input is closed. A janitor process removes the
//!   folder, unless `--keep` is given.

mod landing;
mod player;
mod stage;
mod workflow;

use std::collections::{BTreeMap, HashSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use jit_core::model::refusal::{Code, Refusal};
use jit_store::Outcome;
use serde::Serialize;
use serde_json::Value;

use crate::exit::BROKEN_PIPE;
use crate::invocation::{Invocation, Output};
use crate::render::{self, Style, clean_line};
use player::{Event, Word};
use stage::{Cast, Report, Stage};

const AGENTS: [&str; 4] = ["ada", "bert", "cleo", "dora"];
/// Name of the agent that is killed.
const DOOMED: &str = "cleo";
/// Seconds of the killed agent's lease. The other agents ask for more time than they need.
const DOOMED_TTL: u64 = 3;
const OTHERS_TTL: u64 = 60;
/// Longest duration of the race. After it, the demo counts as stuck.
const LONGEST: Duration = Duration::from_secs(120);

/// Name of the gate that each agent's work has to pass.
const GATE: &str = "finished";
const GATE_COMMAND: &str = r#"grep -q "^Done" "$JIT_ISSUE.md""#;

/// Dependencies: the first issue waits for the second, counted from 0.
const WAITS: [(usize, usize); 5] = [(4, 0), (4, 1), (8, 4), (10, 8), (11, 2)];

const WORK: [&str; 12] = [
    "Parse dates with time zones",
    "Read the configuration twice",
    "Cache the parsed templates",
    "Say what is wrong with a bad key",
    "Sort the search results",
    "Escape names in the report",
    "Count words in other alphabets",
    "Close files that nobody reads",
    "Retry the download once",
    "Name the tests after the rules",
    "Draw the graph from left to right",
    "Explain the exit codes",
];

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Needs git and a few seconds. Works in a folder of its own that is removed at the end; your \
    repositories and settings are not touched."
)]
pub struct Flags {
    /// Leave the scratch repository there to look at
    #[arg(long)]
    keep: bool,
    /// Internal: what the processes of the demo are started with
    #[arg(long, hide = true, value_name = "ROLE", num_args = 1..)]
    role: Vec<String>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    match flags.role.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => show(flags.keep, call),
        ["agent", ttl] => {
            player::play(ttl);
            Ok(call.show(&(), |_| String::new()))
        }
        ["janitor", folder] => {
            stage::janitor(folder.as_ref());
            Ok(call.show(&(), |_| String::new()))
        }
        _ => Err(crate::invocation::invalid("--role is for the demo itself")),
    }
}

/// The fields of a lease that the demo needs.
#[derive(Debug, Clone, Serialize)]
struct Held {
    agent_id: String,
    issue_id: String,
    lease_id: String,
    token: u64,
    acquired_at: String,
    expires_at: String,
}

#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    ok: bool,
    message: String,
}

/// The document that `--json` prints.
#[derive(Debug, Default, Serialize)]
struct Summary {
    ok: bool,
    agents: usize,
    issues: usize,
    dependencies: usize,
    claims_won: u64,
    stopped_by_gate: u64,
    finished: BTreeMap<String, u64>,
    killed: Option<Held>,
    takeover: Option<Held>,
    /// The answer to the killed agent's old lease, when it is to be renewed after the takeover.
    stale_renew: Option<Value>,
    validate: Option<Value>,
    /// Results of the workers that finished at once.
    landings: landing::Landings,
    /// Result of the plan.
    workflow: workflow::Worked,
    checks: Vec<Check>,
    elapsed_ms: u64,
    /// Folder of the repository, if it was kept.
    kept: Option<String>,
}

impl Summary {
    fn check(&mut self, name: &'static str, ok: bool, message: impl Into<String>) {
        self.checks.push(Check {
            name,
            ok,
            message: message.into(),
        });
    }
}

/// Reason why the demo stopped before its end.
enum Stopped {
    /// The reader has closed standard output.
    NobodyListens,
    Refused(Box<Refusal>),
}

impl From<Box<Refusal>> for Stopped {
    fn from(refusal: Box<Refusal>) -> Self {
        Self::Refused(refusal)
    }
}

fn trouble(message: impl Into<String>) -> Box<Refusal> {
    Box::new(Refusal::new(
        Code::Io,
        format!("the demo could not go on: {}", message.into()),
    ))
}

/// Prints one line for each event, as it happens.
struct Teller {
    began: Instant,
    style: Style,
    json: bool,
    quiet: bool,
}

impl Teller {
    fn tell(&self, who: &str, what: &str) -> Result<(), Stopped> {
        if self.quiet {
            return Ok(());
        }
        let who = format!("{who:<5}");
        let line = format!(
            "{:>6.2}s  {}  {}\n",
            self.began.elapsed().as_secs_f64(),
            self.style.bold(&who),
            clean_line(what)
        );
        if self.json {
            render::say(line.trim_end());
            return Ok(());
        }
        match render::print(&line) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Stopped::NobodyListens),
            Err(e) => Err(trouble(e.to_string()).into()),
        }
    }
}

fn show(keep: bool, call: &Invocation) -> Outcome<Output> {
    let teller = Teller {
        began: Instant::now(),
        style: call.style,
        json: call.json(),
        quiet: call.global.quiet,
    };
    let mut summary = Summary {
        agents: AGENTS.len(),
        issues: WORK.len(),
        dependencies: WAITS.len(),
        ..Summary::default()
    };
    let told = Stage::build(keep).map_err(Stopped::from).and_then(|stage| {
        summary.kept = keep.then(|| stage.root().display().to_string());
        tell(&stage, &teller, &mut summary)
    });
    match told {
        Ok(()) => {}
        Err(Stopped::NobodyListens) => return Ok(call.show(&(), |_| String::new()).exit(BROKEN_PIPE)),
        Err(Stopped::Refused(refusal)) => return Err(refusal),
    }
    summary.elapsed_ms = u64::try_from(teller.began.elapsed().as_millis()).unwrap_or(u64::MAX);
    summary.ok = summary.checks.iter().all(|check| check.ok);
    let code = if summary.ok { 0 } else { 6 };
    Ok(call.show(&summary, |style| text(&summary, style)).exit(code))
}

/// Refuses an agent: the demo defines a gate, and no agent may approve the command of one.
fn require_person(stage: &Stage) -> Outcome<()> {
    let (_, whoami) = stage.jit_as("human:you", &stage.repo(), &["whoami", "--json"])?;
    let Some(agent) = whoami["detected_agent"].as_str() else {
        return Ok(());
    };
    let message =
        format!("the demo defines a gate, which an agent may not approve, and {agent} started this");
    Err(Box::new(
        Refusal::new(Code::NotAllowed, message).help("jit demo, in a terminal of your own"),
    ))
}

fn tell(stage: &Stage, teller: &Teller, summary: &mut Summary) -> Result<(), Stopped> {
    teller.tell(
        "git",
        &format!("a scratch repository in {}", stage.root().display()),
    )?;
    stage.jit_ok(&["init"])?;
    require_person(stage)?;
    let define = [
        "gate",
        "define",
        GATE,
        "--command",
        GATE_COMMAND,
        "--required-for",
        "task",
    ];
    stage.jit_ok(&define)?;
    stage.commit_setup()?;
    teller.tell(
        "jit",
        "init: the shared log is in .git/jit, what is versioned in .jit",
    )?;
    for (n, title) in WORK.iter().enumerate() {
        let id = issue_id(n);
        let waits_for: Vec<String> = WAITS
            .iter()
            .filter(|(one, _)| *one == n)
            .map(|(_, on)| issue_id(*on))
            .collect();
        let mut args = vec!["issue", "create", "--id", &id, "--type", "task"];
        args.extend(waits_for.iter().flat_map(|on| ["--depends-on", on.as_str()]));
        args.extend(["--", title]);
        stage.jit_ok(&args)?;
    }
    teller.tell(
        "jit",
        &format!(
            "{} issues, {} to {}; {} dependencies; each task has to pass the gate {GATE:?}",
            WORK.len(),
            issue_id(0),
            issue_id(WORK.len() - 1),
            WAITS.len()
        ),
    )?;
    let mut cast = Cast::default();
    for name in AGENTS {
        stage.worktree(name)?;
        let ttl = if name == DOOMED { DOOMED_TTL } else { OTHERS_TTL };
        cast.start(stage, name, ttl)?;
    }
    let events = cast.events();
    teller.tell(
        "jit",
        &format!(
            "{} worktrees, and in each an agent: {}",
            AGENTS.len(),
            AGENTS.join(", ")
        ),
    )?;
    race(stage, teller, &mut cast, &events, summary)?;
    drop(cast);
    landing::show(stage, teller, summary)?;
    workflow::show(stage, teller, summary)?;
    judge(stage, summary)
}

fn issue_id(n: usize) -> String {
    format!("DEMO-{:02}", n + 1)
}

fn next(events: &Receiver<Report>, began: Instant) -> Outcome<Report> {
    let left = LONGEST.saturating_sub(began.elapsed());
    events.recv_timeout(left).map_err(|e| match e {
        RecvTimeoutError::Timeout => trouble("an agent has been silent for too long"),
        RecvTimeoutError::Disconnected => trouble("all agents are gone before the work is done"),
    })
}

fn race(
    stage: &Stage,
    teller: &Teller,
    cast: &mut Cast,
    events: &Receiver<Report>,
    summary: &mut Summary,
) -> Result<(), Stopped> {
    // The agents start together, so that they really compete for the first issue.
    for _ in AGENTS {
        match next(events, teller.began)? {
            (_, Event::Ready) => {}
            (who, other) => return Err(trouble(format!("{who} began with {other:?}")).into()),
        }
    }
    teller.tell("jit", "go!")?;
    for name in AGENTS {
        cast.say(name, Word::Go)?;
    }
    let mut alive: Vec<&str> = AGENTS.to_vec();
    // The others pause until the doomed agent has acquired an issue and was killed. So it surely gets one.
    let mut paused: Vec<String> = Vec::new();
    let mut waiting: HashSet<String> = HashSet::new();
    while !alive.is_empty() {
        let (who, event) = next(events, teller.began)?;
        match event {
            Event::Ready => {}
            // The agent retries from time to time. The demo reports only the first wait.
            Event::Waits { .. } if !waiting.insert(who.clone()) => {}
            Event::Waits { held, blocked } => {
                teller.tell(
                    &who,
                    &format!(
                        "finds nothing to take ({held} held, {blocked} waiting for those; exit 3), and waits"
                    ),
                )?;
            }
            Event::Stopped { issue, gate, close } => {
                summary.stopped_by_gate += 1;
                let ok = gate == 6 && close == "gate_not_passed";
                let message =
                    format!("{issue} was not closed while its gate had not passed (exit {gate}, {close})");
                summary.check("gate", ok, message);
                teller.tell(
                    &who,
                    &format!("wants to close {issue} half-done: the gate fails, and jit refuses ({close})"),
                )?;
            }
            Event::Won {
                issue,
                lease_id,
                token,
                acquired_at,
                expires_at,
            } => {
                summary.claims_won += 1;
                let held = Held {
                    agent_id: format!("agent:{who}"),
                    issue_id: issue.clone(),
                    lease_id,
                    token,
                    acquired_at,
                    expires_at,
                };
                if who == DOOMED {
                    teller.tell(
                        &who,
                        &format!("picked {issue} for {DOOMED_TTL}s, token {token}, and works on it"),
                    )?;
                    summary.killed = Some(held);
                    cast.say(&who, Word::Go)?;
                    continue;
                }
                let killed = summary.killed.clone().filter(|killed| killed.issue_id == issue);
                if let Some(killed) = killed {
                    takeover(stage, teller, summary, &who, held, &killed)?;
                } else {
                    teller.tell(&who, &format!("picked {issue}, token {token}"))?;
                }
                if alive.contains(&DOOMED) {
                    paused.push(who);
                } else {
                    cast.say(&who, Word::Go)?;
                }
            }
            Event::HalfWay { issue } => {
                cast.kill(&who)?;
                alive.retain(|name| *name != who);
                teller.tell(&who, &format!("is killed (SIGKILL) in the middle of {issue}"))?;
                still_held(stage, teller, summary, &issue)?;
                for name in paused.drain(..) {
                    cast.say(&name, Word::Go)?;
                }
            }
            Event::Finished { issue, commit } => {
                *summary.finished.entry(format!("agent:{who}")).or_default() += 1;
                teller.tell(
                    &who,
                    &format!("finished {issue} (commit {commit}), its gate passed, it is done"),
                )?;
            }
            Event::Leaves => {
                alive.retain(|name| *name != who);
                teller.tell(&who, "sees that everything is done, and leaves")?;
            }
            Event::Trouble { what } => return Err(trouble(format!("{who}: {what}")).into()),
            Event::Gone if who == DOOMED || !alive.contains(&who.as_str()) => {}
            Event::Gone => return Err(trouble(format!("{who} ended too early")).into()),
        }
    }
    Ok(())
}

/// Checks right after the kill that the issue cannot be acquired: the lease outlives its holder.
fn still_held(stage: &Stage, teller: &Teller, summary: &mut Summary, issue: &str) -> Result<(), Stopped> {
    let (code, answer) = stage.jit_as("human:you", &stage.repo(), &["claim", "acquire", issue, "--json"])?;
    let holder = answer["error"]["details"]["lease"]["agent_id"]
        .as_str()
        .unwrap_or("nobody")
        .to_owned();
    let ok = code == 4 && holder == format!("agent:{DOOMED}");
    summary.check(
        "held_after_kill",
        ok,
        format!("right after the kill {issue} was held by {holder} (exit {code})"),
    );
    teller.tell(
        "you",
        &format!("try to claim {issue}: still held by {DOOMED} until its lease runs out (exit {code})"),
    )
}

/// Tells whether `a` is not before `b`. Allows 100 ms, because the wall clock and the deadline clock may differ.
fn not_before(a: &str, b: &str) -> bool {
    let ms = |text: &str| text.parse::<jiff::Timestamp>().map(|at| at.as_millisecond());
    matches!((ms(a), ms(b)), (Ok(a), Ok(b)) if a + 100 >= b)
}

fn takeover(
    stage: &Stage,
    teller: &Teller,
    summary: &mut Summary,
    who: &str,
    held: Held,
    killed: &Held,
) -> Result<(), Stopped> {
    let issue = &held.issue_id;
    teller.tell(
        who,
        &format!(
            "takes over {issue} after {DOOMED}'s lease ran out, token {} (was {})",
            held.token, killed.token
        ),
    )?;
    summary.check(
        "takeover",
        held.lease_id != killed.lease_id && not_before(&held.acquired_at, &killed.expires_at),
        format!(
            "{issue} went from {DOOMED} to {who} at {}, not before {}",
            held.acquired_at, killed.expires_at
        ),
    );
    summary.check(
        "fencing",
        held.token > killed.token,
        format!("token {} is newer than {}", held.token, killed.token),
    );
    // This is the answer that the killed agent would get if it had only been slow.
    let (code, answer) = stage.jit_as(
        &killed.agent_id,
        &stage.worktree_path(DOOMED),
        &["claim", "renew", &killed.lease_id, "--json"],
    )?;
    let error = answer["error"]["code"].as_str().unwrap_or("none").to_owned();
    summary.check(
        "stale_renew",
        code == 5 && error == "not_holder",
        format!("the old lease could not be renewed (exit {code}, {error})"),
    );
    summary.stale_renew = Some(serde_json::json!({ "exit": code, "code": error }));
    summary.takeover = Some(held);
    teller.tell(
        DOOMED,
        &format!("comes back from the dead and asks for more time: refused (exit {code}, {error})"),
    )
}

/// Checks the outcome with git and the log.
fn judge(stage: &Stage, summary: &mut Summary) -> Result<(), Stopped> {
    let subjects = stage.subjects()?;
    let wrong: Vec<String> = (0..WORK.len())
        .map(issue_id)
        .filter(|id| {
            let done = subjects.iter().filter(|s| {
                s.strip_prefix(id.as_str())
                    .is_some_and(|rest| rest.starts_with(':'))
            });
            done.count() != 1
        })
        .collect();
    summary.check(
        "exactly_once",
        wrong.is_empty(),
        if wrong.is_empty() {
            format!("each of the {} issues was done exactly once", WORK.len())
        } else {
            format!("not done exactly once: {}", wrong.join(", "))
        },
    );
    let total: u64 = summary.finished.values().sum();
    let survivors = !summary.finished.contains_key(&format!("agent:{DOOMED}"));
    summary.check(
        "finishers",
        total == WORK.len() as u64 && survivors,
        format!("{total} finished by those who lived"),
    );
    let (_, events) = stage.jit_as("human:you", &stage.repo(), &["events", "--json"])?;
    let early = out_of_order(&events);
    summary.check(
        "order",
        early.is_empty(),
        if early.is_empty() {
            format!(
                "nothing was begun before what it waits for was done ({} dependencies)",
                WAITS.len()
            )
        } else {
            format!("begun too early: {}", early.join(", "))
        },
    );
    let (_, progress) = stage.jit_as("human:you", &stage.repo(), &["progress", "--json"])?;
    summary.check(
        "progress",
        progress["total"]["percent_done"] == 100,
        format!(
            "jit progress: {}% done, seen from the main worktree",
            progress["total"]["percent_done"]
        ),
    );
    let happened = summary.takeover.is_some();
    summary.check(
        "taken_over",
        happened,
        "the work of the killed agent was taken over",
    );
    let (_, claims) = stage.jit_as("human:you", &stage.repo(), &["claim", "list", "--json"])?;
    let left = claims["active"].as_array().map_or(usize::MAX, Vec::len);
    summary.check("nothing_held", left == 0, "nobody holds anything at the end");
    let (code, validate) = stage.jit_as("human:you", &stage.repo(), &["validate", "--json"])?;
    let lines = validate["lines"].as_u64().unwrap_or(0);
    summary.check(
        "validate",
        code == 0 && validate["ok"] == true,
        format!("jit validate: {lines} lines of the log and every view agree (exit {code})"),
    );
    summary.validate = Some(validate);
    Ok(())
}

/// Returns the issues that were acquired before all their dependencies were done.
fn out_of_order(events: &Value) -> Vec<String> {
    let sequence_of = |kind: &str, id: &str, done: bool| -> Option<u64> {
        let all = events["events"].as_array()?;
        let about = |event: &&Value| {
            let payload = &event["payload"];
            event["type"] == kind
                && (payload["issue_id"] == id || payload["issue"]["id"] == id)
                && (!done || payload["issue"]["state"] == "done")
        };
        all.iter().find(about)?["sequence"].as_u64()
    };
    WAITS
        .iter()
        .filter(|(one, on)| {
            let begun = sequence_of("claim.acquired", &issue_id(*one), false);
            let done = sequence_of("issue.changed", &issue_id(*on), true);
            !matches!((begun, done), (Some(begun), Some(done)) if done < begun)
        })
        .map(|(one, on)| format!("{} before {}", issue_id(*one), issue_id(*on)))
        .collect()
}

fn text(summary: &Summary, style: Style) -> String {
    let mut out = String::from("\n");
    for check in &summary.checks {
        let mark = if check.ok {
            style.good("✓")
        } else {
            style.bad("✗")
        };
        out.push_str(&format!("{mark} {}\n", clean_line(&check.message)));
    }
    let by: Vec<String> = summary
        .finished
        .iter()
        .map(|(who, n)| format!("{} {n}", who.trim_start_matches("agent:")))
        .collect();
    out.push_str(&format!(
        "\n{} claims, {} stopped by the gate, 1 agent killed, {} takeover; finished: {}; {:.1}s\n",
        summary.claims_won,
        summary.stopped_by_gate,
        u8::from(summary.takeover.is_some()),
        by.join(", "),
        Duration::from_millis(summary.elapsed_ms).as_secs_f64(),
    ));
    if let (Some(killed), Some(takeover)) = (&summary.killed, &summary.takeover) {
        out.push_str(&format!(
            "lease {} token {} ({}), then lease {} token {} ({})\n",
            killed.lease_id,
            killed.token,
            killed.agent_id,
            takeover.lease_id,
            takeover.token,
            takeover.agent_id
        ));
    }
    match &summary.kept {
        Some(path) => out.push_str(&format!(
            "kept: {path}/repo (try there: jit status, jit graph, jit claim history)\n"
        )),
        None => out.push_str("the scratch repository is gone; --keep leaves it there\n"),
    }
    out
}
