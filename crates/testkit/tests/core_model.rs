//! Decisions against the model: random commands of three agents in two worktrees on a handful of issues, with time
//! passing, wall clocks jumping and machines restarting in between.
//!
//! After each step the answer, the leases and the log's length are what the model says, the indexes agree with the
//! leases, and the log, written out and read back, adds up to the same state.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jit_core::decide::command::{Command, CommandReply, Context, NewIssue, Target};
use jit_core::decide::{Decision, Draft, decide};
use jit_core::log::event::{Event, LoggedRequest, Stamped};
use jit_core::log::stop::Stop;
use jit_core::log::table::{MemoryTable, Overlay, Table};
use jit_core::log::{fold, line, state};
use jit_core::model::actor::Actor;
use jit_core::model::ids::{AgentId, LeaseId, RequestId, WorktreeId};
use jit_core::model::issue::{IssueState, Priority};
use jit_core::model::lease::{Lease, LeaseEnd};
use jit_core::model::policy::Policy;
use jit_core::model::refusal::Code;
use jit_testkit::ManualClock;
use jit_testkit::lease_model::{By, Holder, Model, Outcome, Why};
use jit_testkit::rng::{SEED_VAR, cases, seed_in_env};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

const AGENTS: [&str; 3] = ["agent:a", "human:b", "ci:c"];
const WORKTREES: [Option<&str>; 3] = [Some("wt:00000001"), Some("wt:00000002"), None];
/// Name, type, closed. The last one does not exist.
const ISSUES: [(&str, &str, bool); 6] = [
    ("WI-001", "task", false),
    ("WI-002", "activity", false),
    ("wi-003.x", "bug", false),
    ("WI-004", "task", false),
    ("WI-005", "task", true),
    ("WI-none", "", false),
];

#[derive(Debug, Clone)]
enum Op {
    Acquire {
        who: Caller,
        issue: usize,
        boss: Option<usize>,
        ttl: Option<u64>,
    },
    Renew {
        who: Caller,
        of: Of,
        ttl: Option<u64>,
        if_half_gone: bool,
    },
    Release {
        who: Caller,
        of: Of,
    },
    Transfer {
        who: Caller,
        of: Of,
        to: usize,
        worktree: Option<usize>,
    },
    Evict {
        who: Caller,
        of: Of,
        reason: &'static str,
    },
    Advance(u64),
    JumpWall(i64),
    Reboot(u64),
}

/// Agent and worktree.
type Caller = (usize, usize);

/// Which lease is meant.
#[derive(Debug, Clone)]
enum Of {
    Issue(usize),
    /// One of the leases granted so far, the newest being 0.
    Lease(usize),
    NoLease,
}

fn caller() -> impl Strategy<Value = Caller> {
    (
        0..3usize,
        prop_oneof![4 => Just(0usize), 4 => Just(1), 1 => Just(2)],
    )
}

fn issue() -> impl Strategy<Value = usize> {
    prop_oneof![20 => 0..4usize, 1 => Just(4usize), 1 => Just(5)]
}

fn ttl() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![
        3 => Just(None),
        3 => (1..120u64).prop_map(Some),
        // Few values, so that steps of time fall exactly on deadlines and halves of them.
        4 => prop_oneof![Just(10), Just(20)].prop_map(Some),
        1 => prop_oneof![Just(0), Just(30 * 86_400), Just(30 * 86_400 + 1), Just(u64::MAX / 1000), Just(u64::MAX)]
            .prop_map(Some),
    ]
}

fn of() -> impl Strategy<Value = Of> {
    prop_oneof![
        10 => issue().prop_map(Of::Issue),
        10 => (0..6usize).prop_map(Of::Lease),
        1 => Just(Of::NoLease),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let day = 86_400_000i64;
    prop_oneof![
        8 => (caller(), issue(), proptest::option::weighted(0.3, 0..3usize), ttl())
            .prop_map(|(who, issue, boss, ttl)| Op::Acquire { who, issue, boss, ttl }),
        6 => (caller(), of(), ttl(), any::<bool>())
            .prop_map(|(who, of, ttl, if_half_gone)| Op::Renew { who, of, ttl, if_half_gone }),
        4 => (caller(), of()).prop_map(|(who, of)| Op::Release { who, of }),
        4 => (caller(), of(), 0..3usize, proptest::option::of(0..2usize))
            .prop_map(|(who, of, to, worktree)| Op::Transfer { who, of, to, worktree }),
        2 => (caller(), of(), prop_oneof![5 => Just("gone for lunch"), 1 => Just(" \t")])
            .prop_map(|(who, of, reason)| Op::Evict { who, of, reason }),
        6 => prop_oneof![
            0..90_000u64,
            0..5_000u64,
            Just(5_000),
            Just(10_000),
            Just(4 * 3_600_000),
        ]
        .prop_map(Op::Advance),
        1 => prop_oneof![Just(day), Just(-day), -90_000..90_000i64].prop_map(Op::JumpWall),
        1 => (0..120_000u64).prop_map(Op::Reboot),
    ]
}

struct World {
    clock: ManualClock,
    boots: u32,
    table: MemoryTable,
    log: Vec<u8>,
    replayed: Replayed,
    last: u64,
    sum: u64,
    model: Model,
    /// Every lease id handed out, newest last.
    leases: Vec<String>,
    fresh: u64,
    /// Highest token so far.
    token: u64,
    requests: u64,
    outcomes: BTreeSet<String>,
}

fn agent(n: usize) -> AgentId {
    AGENTS[n].parse().expect("an agent id")
}

fn actor((agent_n, worktree): Caller) -> Actor {
    Actor {
        agent_id: agent(agent_n),
        worktree_id: WORKTREES[worktree].map(|w| w.parse().expect("a worktree id")),
    }
}

type Check = Result<(), String>;

macro_rules! ensure {
    ($ok:expr, $($why:tt)+) => {
        if !$ok { return Err(format!($($why)+)); }
    };
}

fn text<E: std::fmt::Debug>(e: E) -> String {
    format!("{e:?}")
}

impl World {
    fn new(agents_may_evict: bool) -> Result<Self, String> {
        let mut world = Self {
            clock: ManualClock::new(),
            boots: 1,
            table: MemoryTable::default(),
            log: Vec::new(),
            replayed: Replayed::default(),
            last: 0,
            sum: 0,
            model: Model {
                agents_may_evict,
                ..Model::default()
            },
            leases: Vec::new(),
            fresh: 0,
            token: 0,
            requests: 0,
            outcomes: BTreeSet::new(),
        };
        world.boot()?;
        for (name, kind, closed) in &ISSUES[..5] {
            let new = NewIssue {
                ids: vec![name.parse().map_err(text)?],
                chosen: true,
                title: format!("about {name}"),
                kind: (*kind).to_owned(),
                state: if *closed {
                    IssueState::Done
                } else {
                    IssueState::Ready
                },
                priority: Priority::Normal,
                parent: None,
                labels: Vec::new(),
                depends_on: Vec::new(),
                gates: Vec::new(),
                actor: jit_core::model::issue::Performer::Any,
                text: None,
            };
            world.run(&Command::CreateIssue(new), (1, 0))?.map_err(text)?;
            world.model.add_issue(name, kind, *closed);
        }
        world.check()?;
        Ok(world)
    }

    fn fresh_id(&self) -> LeaseId {
        LeaseId::generate(1_767_441_600_000, u128::from(self.fresh))
    }

    /// As the engine does it: the transaction's lines go to the log, its changes to the table.
    fn write(&mut self, lines: &[Stamped]) {
        for line in lines {
            self.sum = line::encode_line(&mut self.log, line, self.last, self.sum);
            self.last = line.sequence;
        }
    }

    /// The first writer after a start of the machine says so.
    fn boot(&mut self) -> Check {
        let now = self.clock.now().map_err(text)?;
        let mut draft = Draft::new(&self.table, self.last, now.wall, actor((1, 0)));
        draft
            .emit(Event::Boot {
                boot: now.boot.clone(),
                ticks: now.ticks,
            })
            .map_err(text)?;
        let (lines, changes) = draft.finish(None).map_err(text)?;
        self.write(&lines);
        self.table.absorb(changes);
        self.model.reboot(&now);
        Ok(())
    }

    fn run(&mut self, command: &Command, who: Caller) -> Result<Result<(CommandReply, bool), Code>, String> {
        let now = self.clock.now().map_err(text)?;
        let cx = Context {
            now: now.clone(),
            actor: actor(who),
            branch: Some("main".into()),
            fresh_lease: self.fresh_id(),
            policy: Policy {
                agents_may_evict: self.model.agents_may_evict,
                ..Policy::default()
            },
        };
        let mut draft = Draft::new(&self.table, self.last, now.wall, cx.actor.clone());
        match decide(&mut draft, command, &cx) {
            Err(Stop::Refused(refusal)) => {
                ensure!(!refusal.message.is_empty(), "a refusal without a sentence");
                Ok(Err(refusal.code))
            }
            Err(Stop::Unreadable(trouble)) => Err(trouble.to_string()),
            Ok(Decision::Already(reply)) => {
                ensure!(draft.events().is_empty(), "changes nothing, but writes events");
                Ok(Ok((reply, false)))
            }
            Ok(Decision::Done) => {
                ensure!(!draft.events().is_empty(), "done without an event");
                let reply = command.reply(draft.events()).ok_or("no reply in the events")?;
                // Every second request gives an id of its own.
                self.requests += 1;
                let request = LoggedRequest {
                    id: match self.requests % 2 {
                        0 => format!("r-{}", self.requests)
                            .parse::<RequestId>()
                            .map_err(text)?,
                        _ => RequestId::make_up(now.wall.ms(), u128::from(self.requests)),
                    },
                    digest: command.digest(&cx.actor),
                };
                let (lines, changes) = draft.finish(Some(&request)).map_err(text)?;
                let total = lines.len() as u32;
                for (n, line) in lines.iter().enumerate() {
                    ensure!(
                        line.sequence == self.last + 1 + n as u64 && line.part == (n as u32 + 1, total),
                        "line {} of {total} is numbered {} {:?}",
                        n + 1,
                        line.sequence,
                        line.part
                    );
                }
                let (first, last) = (self.last + 1, self.last + u64::from(total));
                self.write(&lines);
                self.table.absorb(changes);
                let answered = state::answered(&self.table, &request.id).map_err(text)?;
                if request.id.is_made_up() {
                    ensure!(answered.is_none(), "made-up ids are not remembered");
                } else {
                    let found = answered.map(|a| (a.digest, a.first, a.last));
                    ensure!(
                        found == Some((request.digest, first, last)),
                        "the request is remembered as {found:?} instead of lines {first} to {last}"
                    );
                }
                Ok(Ok((reply, true)))
            }
        }
    }

    /// The lease that `of` means, as text for the model and as a target.
    fn target(&self, of: &Of) -> Result<(Target, Option<String>, &'static str), String> {
        let by_lease =
            |id: String| -> Result<_, String> { Ok((Target::parse(&id).map_err(text)?, Some(id), "")) };
        match of {
            Of::Lease(back) if *back < self.leases.len() => {
                by_lease(self.leases[self.leases.len() - 1 - back].clone())
            }
            Of::Lease(_) | Of::NoLease => by_lease(LeaseId::generate(1, 1).to_string()),
            Of::Issue(n) => {
                let name = ISSUES[*n].0;
                // However it is spelled.
                let target = Target::parse(&name.to_ascii_lowercase()).map_err(text)?;
                Ok((target, None, name))
            }
        }
    }

    fn step(&mut self, op: &Op) -> Check {
        let now = self.clock.now().map_err(text)?;
        fn who_of(who: &Caller) -> (&'static str, Option<&'static str>) {
            (AGENTS[who.0], WORKTREES[who.1])
        }
        self.fresh += 1;
        let fresh = self.fresh_id().to_string();
        let before = (self.table.clone(), self.last);
        let (expected, actual, command) = match op {
            Op::Advance(ms) => {
                self.clock.advance(*ms);
                return self.check();
            }
            Op::JumpWall(ms) => {
                self.clock.jump_wall(*ms);
                return self.check();
            }
            Op::Reboot(down) => {
                self.boots += 1;
                self.clock.reboot(&format!("boot-{}", self.boots), *down);
                self.clock.advance(7);
                self.boot()?;
                return self.check();
            }
            Op::Acquire {
                who,
                issue,
                boss,
                ttl,
            } => {
                let command = Command::Acquire {
                    issue: ISSUES[*issue].0.parse().map_err(text)?,
                    ttl_secs: *ttl,
                    note: None,
                    on_behalf_of: boss.map(agent),
                };
                let boss = boss.map(|n| AGENTS[n]);
                let actual = self.run(&command, *who)?;
                let expected = self
                    .model
                    .acquire(ISSUES[*issue].0, who_of(who), boss, *ttl, &fresh, &now);
                (expected, actual, command)
            }
            Op::Renew {
                who,
                of,
                ttl,
                if_half_gone,
            } => {
                let (target, id, name) = self.target(of)?;
                let command = Command::Renew {
                    target,
                    ttl_secs: *ttl,
                    if_half_gone: *if_half_gone,
                };
                let actual = self.run(&command, *who)?;
                let by = id.as_deref().map_or(By::Issue(name), By::Lease);
                let expected = self.model.renew(by, who_of(who), *ttl, *if_half_gone, &now);
                (expected, actual, command)
            }
            Op::Release { who, of } => {
                let (target, id, name) = self.target(of)?;
                let command = Command::Release { target };
                let actual = self.run(&command, *who)?;
                let by = id.as_deref().map_or(By::Issue(name), By::Lease);
                (self.model.release(by, who_of(who), &now), actual, command)
            }
            Op::Transfer {
                who,
                of,
                to,
                worktree,
            } => {
                let (target, id, name) = self.target(of)?;
                let worktree = worktree.and_then(|n| WORKTREES[n]);
                let command = Command::Transfer {
                    target,
                    to: agent(*to),
                    worktree: worktree.map(|w| w.parse::<WorktreeId>().expect("a worktree id")),
                    branch: None,
                };
                let actual = self.run(&command, *who)?;
                let by = id.as_deref().map_or(By::Issue(name), By::Lease);
                let expected = self
                    .model
                    .transfer(by, who_of(who), AGENTS[*to], worktree, &fresh, &now);
                (expected, actual, command)
            }
            Op::Evict { who, of, reason } => {
                let (target, id, name) = self.target(of)?;
                let command = Command::ForceEvict {
                    target,
                    reason: (*reason).to_owned(),
                };
                let actual = self.run(&command, *who)?;
                let by = id.as_deref().map_or(By::Issue(name), By::Lease);
                (
                    self.model.force_evict(by, who_of(who), reason, &now),
                    actual,
                    command,
                )
            }
        };
        let found = classify(&command, &actual);
        ensure!(
            Some(expected) == found,
            "expected {expected:?}, found {found:?}: {actual:?}"
        );
        self.outcomes.insert(format!("{expected:?}"));
        if !expected.writes() {
            ensure!(
                before == (self.table.clone(), self.last),
                "{expected:?} changed something"
            );
        }
        if let Ok((CommandReply::Lease { lease, .. }, true)) = &actual {
            if matches!(
                expected,
                Outcome::Granted | Outcome::Regranted | Outcome::Transferred
            ) {
                ensure!(
                    lease.token > self.token,
                    "token {} after {}",
                    lease.token,
                    self.token
                );
                self.token = lease.token;
                if !self.leases.contains(&lease.lease_id.to_string()) {
                    self.leases.push(lease.lease_id.to_string());
                }
            }
            let stored = state::lease_on(&self.table, &lease.resource.key()).map_err(text)?;
            ensure!(
                stored.as_ref() == Some(lease),
                "the answer {lease:?} is not what is stored, {stored:?}"
            );
        }
        self.check()
    }

    fn check(&mut self) -> Check {
        ensure!(
            self.last == self.model.lines,
            "the log has {} lines instead of {}",
            self.last,
            self.model.lines
        );
        let now = self.clock.now().map_err(text)?;
        let leases = state::leases(&self.table).map_err(text)?;
        let due = state::expired(&self.table, &now, usize::MAX).map_err(text)?;
        let lapsed = leases.iter().filter(|lease| lease.expired(&now)).count();
        ensure!(due.len() == lapsed, "{} due of {lapsed} lapsed", due.len());
        let live = |name: &&String| self.model.live(name, &now).is_some();
        let live = self.model.issues.keys().filter(live).count();
        ensure!(
            leases.len() - lapsed == live,
            "{live} live, found {}",
            leases.len() - lapsed
        );
        if self.replayed.sequence == self.last {
            // Nothing was written, and the caller has seen that nothing has changed.
            return Ok(());
        }
        for (name, slot) in &self.model.issues {
            let key = format!("issue:{}", name.to_ascii_lowercase());
            let stored = state::lease_on(&self.table, &key).map_err(text)?;
            let seen = stored.as_ref().map(holder);
            ensure!(
                seen == slot.holder,
                "{name} is held by {seen:?} instead of {:?}",
                slot.holder
            );
            let ended = state::ended(&self.table, &key).map_err(text)?.map(|ended| {
                let why = match ended.how {
                    LeaseEnd::Released => Why::Released,
                    LeaseEnd::Expired => Why::Lapsed,
                    LeaseEnd::Evicted => Why::Evicted,
                    LeaseEnd::Transferred => Why::HandedOver,
                };
                (holder(&ended.lease), why)
            });
            ensure!(
                ended == slot.last,
                "{name} was last held by {ended:?} instead of {:?}",
                slot.last
            );
        }
        check_indexes(&self.table, &leases)?;
        self.replay()
    }

    /// The log as it would be read from disk adds up to the state. Each line is read once, as it comes.
    fn replay(&mut self) -> Check {
        let replayed = std::mem::take(&mut self.replayed);
        let mut table = Overlay::new(&replayed.table);
        let (mut sum, mut sequence) = (replayed.sum, replayed.sequence);
        for line in self.log[replayed.read..].split_inclusive(|b| *b == b'\n') {
            let line = line.strip_suffix(b"\n").ok_or("a line without an end")?;
            let decoded = line::decode_line(line)?;
            sequence += 1;
            let found = decoded.stamped.sequence;
            ensure!(found == sequence, "line {sequence} is numbered {found}");
            ensure!(decoded.prev == sum, "the chain breaks at {sequence}");
            let mut again = Vec::new();
            line::encode_line(&mut again, &decoded.stamped, decoded.durable, decoded.prev);
            ensure!(
                again.strip_suffix(b"\n") == Some(line),
                "line {sequence} reads as another"
            );
            sum = decoded.sum;
            fold::apply(&mut table, &decoded.stamped).map_err(text)?;
        }
        let changes = table.changes;
        let mut table = replayed.table;
        table.absorb(changes);
        if table != self.table {
            let keys = table.0.keys().chain(self.table.0.keys());
            let differ: Vec<&String> = keys
                .filter(|key| table.0.get(*key) != self.table.0.get(*key))
                .collect();
            return Err(format!("replaying the log gives other records at {differ:?}"));
        }
        self.replayed = Replayed {
            table,
            read: self.log.len(),
            sum,
            sequence,
        };
        Ok(())
    }
}

/// What a reader of the log has got to.
#[derive(Default)]
struct Replayed {
    table: MemoryTable,
    read: usize,
    sum: u64,
    sequence: u64,
}

fn holder(lease: &Lease) -> Holder {
    Holder {
        lease: lease.lease_id.to_string(),
        agent: lease.agent_id.to_string(),
        worktree: lease.worktree_id.as_ref().map(ToString::to_string),
        boss: lease.on_behalf_of.as_ref().map(ToString::to_string),
        token: lease.token,
        ttl_secs: lease.ttl_secs,
        deadline: lease.deadline,
        expires_at: lease.expires_at,
    }
}

fn classify(command: &Command, answer: &Result<(CommandReply, bool), Code>) -> Option<Outcome> {
    Some(match answer {
        Err(Code::Held) => Outcome::Held,
        Err(Code::NotHolder) => Outcome::NotHolder,
        Err(Code::NotAllowed) => Outcome::NotAllowed,
        Err(Code::NotFound) => Outcome::NotFound,
        Err(Code::Closed) => Outcome::Closed,
        Err(Code::Invalid) => Outcome::Invalid,
        Err(_) => return None,
        Ok((
            CommandReply::Lease {
                existing, regranted, ..
            },
            wrote,
        )) => match (command, existing, regranted, wrote) {
            (Command::Acquire { .. } | Command::Renew { .. }, true, false, false) => Outcome::Existing,
            (Command::Acquire { .. }, false, false, true) => Outcome::Granted,
            (Command::Renew { .. }, false, true, true) => Outcome::Regranted,
            (Command::Renew { .. }, false, false, true) => Outcome::Renewed,
            (Command::Transfer { .. }, false, false, true) => Outcome::Transferred,
            _ => return None,
        },
        Ok((CommandReply::Released(leases), wrote)) if leases.len() == 1 => match wrote {
            true => Outcome::Released,
            false => Outcome::AlreadyReleased,
        },
        Ok((CommandReply::Evicted(leases), true)) if leases.len() == 1 => Outcome::Evicted,
        Ok(_) => return None,
    })
}

/// The indexes say what the leases say: nothing is missing, nothing is left over.
fn check_indexes(table: &MemoryTable, leases: &[Lease]) -> Check {
    let mut expected: BTreeMap<String, String> = BTreeMap::new();
    let mut ids = HashSet::new();
    for lease in leases {
        let (id, resource) = (&lease.lease_id, lease.resource.key());
        ensure!(ids.insert(id.to_string()), "{id} is there twice");
        expected.insert(format!("l/{id}"), resource.clone());
        expected.insert(format!("h/{}/{id}", lease.agent_id.file_name()), resource.clone());
        expected.insert(format!("d/{:016x}/{id}", lease.deadline), resource.clone());
        if let Some(parent) = &lease.parent {
            expected.insert(format!("c/{parent}/{id}"), resource);
        }
    }
    for (key, _) in table.scan("E/", usize::MAX).map_err(text)? {
        let resource = key.trim_start_matches("E/").to_owned();
        let ended = state::ended(table, &resource).map_err(text)?.ok_or("no record")?;
        expected.insert(format!("l/{}", ended.lease.lease_id), resource);
    }
    let mut found = BTreeMap::new();
    for prefix in ["l/", "h/", "d/", "c/"] {
        for (key, value) in table.scan(prefix, usize::MAX).map_err(text)? {
            found.insert(key, String::from_utf8(value).map_err(text)?);
        }
    }
    ensure!(
        found == expected,
        "the indexes are {found:?} instead of {expected:?}"
    );
    let active = state::active_count(table).map_err(text)?;
    ensure!(
        active == leases.len() as u64,
        "{active} leases counted, {} there",
        leases.len()
    );
    for name in AGENTS {
        let of: BTreeSet<String> = state::leases_of(table, &name.parse().map_err(text)?)
            .map_err(text)?
            .iter()
            .map(|lease| lease.lease_id.to_string())
            .collect();
        let own = leases.iter().filter(|lease| lease.agent_id.as_str() == name);
        let own: BTreeSet<String> = own.map(|lease| lease.lease_id.to_string()).collect();
        ensure!(of == own, "{name} holds {own:?}, found {of:?}");
    }
    Ok(())
}

fn run_all(ops: &[Op], agents_may_evict: bool) -> Result<BTreeSet<String>, String> {
    let mut world = World::new(agents_may_evict)?;
    for (n, op) in ops.iter().enumerate() {
        world.step(op).map_err(|why| format!("step {}: {why}", n + 1))?;
    }
    // And once more from the first line, as one who comes later does.
    world.replayed = Replayed::default();
    world.replay()?;
    Ok(world.outcomes)
}

#[test]
fn decisions_are_those_of_the_model() {
    let seed = seed_in_env(SEED_VAR).unwrap_or(jit_testkit::rng::DEFAULT_SEED);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: cases(300),
        max_shrink_iters: 20_000,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let seen = std::cell::RefCell::new(BTreeSet::new());
    let stories = (proptest::collection::vec(op(), 1..60), any::<bool>());
    let result = runner.run(&stories, |(ops, agents_may_evict)| {
        let outcomes = run_all(&ops, agents_may_evict).map_err(TestCaseError::fail)?;
        seen.borrow_mut().extend(outcomes);
        Ok(())
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, (ops, agents_may_evict))) => {
            let story: Vec<String> = (1..)
                .zip(&ops)
                .map(|(n, op): (usize, _)| format!("{n:3} {op:?}"))
                .collect();
            panic!(
                "{why}\nagents_may_evict: {agents_may_evict}\n{}\nto see it again: {SEED_VAR}={seed:#x}",
                story.join("\n")
            );
        }
        Err(other) => panic!("{other}"),
    }
    // A test that never gets to a rule does not test it.
    assert_eq!(seen.borrow().len(), 14, "outcomes seen: {:?}", seen.borrow());
}
