//! A seeded simulation: agents in several worktrees, each command a process of its own, on one disk and one clock.
//!
//! Time passes, wall clocks jump by a day, the machine starts anew (with or without a power loss), processes are killed
//! in the middle and asked for again, and some are stopped until their time is over and then go on. Every answer is
//! compared with the model, and in the end the history is judged from the log alone: never two holders of one issue, no
//! lease longer than its TTL, none taken early.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jit_core::log::event::{Event, Stamped};
use jit_core::model::actor::Actor;
use jit_core::model::lease::Lease;
use jit_core::model::refusal::Code;
use jit_core::model::time::Now;
use jit_store::file::FileStore;
use jit_store::{Done, Outcome, Store};
use jit_testkit::lease_model::{Model, Outcome as Says};
use jit_testkit::rng::{Rng, each_seed};
use jit_testkit::sim_disk::{DiskCall, Options};
use jit_testkit::store_commands::{
    acquire, actor, ask, ask_as, create, events, lease_id, lease_in, leases, open, release, renew,
};
use jit_testkit::store_contract::{ModelStep, same_leases, says};
use jit_testkit::{ManualClock, SimDisk};

const ISSUES: [&str; 3] = ["WI-1", "WI-2", "WI-3"];
const AGENTS: [&str; 4] = ["agent:a", "agent:b", "agent:c", "human:h"];
const DAY: i64 = 86_400_000;

struct World {
    disk: SimDisk,
    clock: ManualClock,
    model: Model,
    limits: (u64, u64),
    known: Vec<String>,
    boots: u32,
    anchored: bool,
    /// Lines in the log that have been seen, and when: boot and ticks.
    seen: Vec<(String, u64)>,
    asked: u128,
}

fn human() -> Actor {
    actor("human:h", 1)
}

impl World {
    fn new(rng: &mut Rng) -> Self {
        let options = *rng.choose(&[Options::default(), Options::harsh()]);
        let limits = *rng.choose(&[(3_000, 2_000), (1 << 20, 3_000), (8_000, 1 << 20)]);
        let mut world = Self {
            disk: SimDisk::with(options),
            clock: ManualClock::new(),
            model: Model::default(),
            limits,
            known: Vec::new(),
            boots: 0,
            anchored: true,
            seen: Vec::new(),
            asked: 1_000,
        };
        let store = world.store();
        store.create(&human()).expect("a log");
        for (n, issue) in ISSUES.into_iter().enumerate() {
            ask(&store, &human(), &create(issue), n as u128).expect("an issue");
            world.model.add_issue(issue, "task", false);
        }
        world.note();
        world.model.lines = world.seen.len() as u64;
        world
    }

    fn store(&self) -> FileStore {
        self.store_on(&self.disk.another_process())
    }

    fn store_on(&self, disk: &SimDisk) -> FileStore {
        open(disk, &self.clock)
            .with_segment_limit(self.limits.0)
            .with_journal_limit(self.limits.1)
    }

    /// Lines that are new have been written at this moment. Returns them.
    fn note(&mut self) -> Vec<Stamped> {
        let now = self.clock.now().expect("a clock");
        let lines = events(&self.store());
        let new = lines[self.seen.len()..].to_vec();
        self.seen.resize(lines.len(), (now.boot.0, now.ticks));
        new
    }

    /// What a store writes on its own account.
    fn follow_lines(&mut self, lines: &[Stamped], now: &Now) {
        for line in lines {
            match line.event {
                Event::SegmentStarted { .. } => self.model.lines += 1,
                Event::Boot { .. } => {
                    self.model.reboot(now);
                    self.anchored = true;
                }
                _ => {}
            }
        }
    }

    /// The model follows a command that came to this end.
    fn follow(&mut self, step: &ModelStep, who: &Actor, n: u128, request: &str, outcome: &Outcome<Done>) {
        let now = self.clock.now().expect("a clock");
        let lines = self.note();
        // Who was killed may have written its line; who asked again may have begun a segment after that.
        let mine = |line: &Stamped| line.request.as_ref().is_some_and(|r| r.id.as_str() == request);
        let (before, after) = lines.split_at(lines.iter().position(mine).unwrap_or(lines.len()));
        self.follow_lines(before, &now);
        let fresh = lease_id(n).to_string();
        let expected = step.judge(&mut self.model, who, &fresh, &now);
        assert_eq!(
            says(&step.command(), outcome),
            expected,
            "{step:?} by {who:?}: {outcome:?}"
        );
        if matches!(expected, Says::Granted | Says::Transferred) {
            self.known.push(fresh);
        }
        self.follow_lines(after, &now);
        assert_eq!(self.seen.len() as u64, self.model.lines, "{step:?}");
        same_leases(&leases(&self.store()), &self.model);
    }

    fn pick(&mut self, rng: &mut Rng) -> (ModelStep, Actor, u128, String) {
        self.asked += 1;
        let step = ModelStep::random(rng, &ISSUES, &AGENTS, &self.known);
        let who = actor(AGENTS[rng.index(AGENTS.len())], rng.range(1, 4) as u32);
        (step, who, self.asked, format!("request-{}", self.asked))
    }

    fn undisturbed(&mut self, rng: &mut Rng) {
        let (step, who, n, request) = self.pick(rng);
        let outcome = ask_as(&self.store(), &who, &step.command(), n, &request);
        self.follow(&step, &who, n, &request, &outcome);
    }

    /// Killed in the middle, then asked for again by a process that is left alone.
    fn killed(&mut self, rng: &mut Rng) {
        let (step, who, n, request) = self.pick(rng);
        let victim = self.disk.another_process();
        victim.stop_mid_write(rng.range(1, 40), *rng.choose(&[0, 1, 300, 4_000]));
        let first = ask_as(&self.store_on(&victim), &who, &step.command(), n, &request);
        // Whatever came of it, came of it once; and asking again says what.
        let outcome = match first {
            Err(refusal) if matches!(refusal.code, Code::Io | Code::Unknown) => {
                ask_as(&self.store(), &who, &step.command(), n, &request)
            }
            told => told,
        };
        self.follow(&step, &who, n, &request, &outcome);
    }

    /// Stopped before it got the lock; others act meanwhile, and a long time passes.
    fn stopped(&mut self, rng: &mut Rng) {
        let (step, who, n, request) = self.pick(rng);
        let (rival_step, rival, rival_n, rival_request) = self.pick(rng);
        let pause = rng.range(0, 30_000);
        let heard: Arc<Mutex<Option<Outcome<Done>>>> = Arc::default();
        let process = self.disk.another_process();
        let (clock, store, command) = (self.clock.clone(), self.store(), rival_step.command());
        let (tell, rival_too, request_too) = (Arc::clone(&heard), rival.clone(), rival_request.clone());
        process.before(1, move || {
            clock.advance(pause);
            let outcome = ask_as(&store, &rival_too, &command, rival_n, &request_too);
            *tell.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        });
        let before = self.seen.len();
        let outcome = ask_as(&self.store_on(&process), &who, &step.command(), n, &request);
        let first = heard
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .expect("the rival acted");
        // Two commands at one moment: the model takes them in the order of the lock.
        let now = self.clock.now().expect("a clock");
        let lines = self.note();
        let by_rival = |line: &Stamped| {
            line.request
                .as_ref()
                .is_some_and(|r| r.id.as_str() == rival_request)
        };
        let (first_lines, later) = lines.split_at(lines.iter().rposition(by_rival).map_or(0, |n| n + 1));
        self.follow_lines(first_lines, &now);
        let expected = rival_step.judge(&mut self.model, &rival, lease_id(rival_n).as_str(), &now);
        assert_eq!(says(&rival_step.command(), &first), expected, "{rival_step:?}");
        if matches!(expected, Says::Granted | Says::Transferred) {
            self.known.push(lease_id(rival_n).to_string());
        }
        self.follow_lines(later, &now);
        let expected = step.judge(&mut self.model, &who, lease_id(n).as_str(), &now);
        assert_eq!(
            says(&step.command(), &outcome),
            expected,
            "{step:?} after {rival_step:?}"
        );
        if matches!(expected, Says::Granted | Says::Transferred) {
            self.known.push(lease_id(n).to_string());
        }
        assert_eq!(self.seen.len() as u64, self.model.lines, "from {before}");
    }

    fn restart(&mut self, rng: &mut Rng) {
        self.boots += 1;
        if rng.bool(0.5) {
            // What was acknowledged is durable. What a command wrote on its way to a refusal may be lost: that a
            // segment was begun, or that the machine had been started anew, which the next one will say again.
            let before = events(&self.store());
            self.disk = self.disk.crash(rng);
            let lines = events(&self.store());
            for lost in &before[lines.len().min(before.len())..] {
                let own = matches!(lost.event, Event::Boot { .. } | Event::SegmentStarted { .. });
                assert!(own, "acknowledged and lost: {lost:?}");
                self.seen.pop();
                self.model.lines -= 1;
            }
        }
        self.clock
            .reboot(&format!("boot-{}-of-this", self.boots), rng.range(0, 20_000));
        self.anchored = false;
    }
}

/// What the log says about itself, without the model.
fn judge_history(store: &dyn Store, seen: &[(String, u64)]) {
    let mut held: BTreeMap<String, Lease> = BTreeMap::new();
    let mut tokens: BTreeMap<String, u64> = BTreeMap::new();
    for (line, (boot, ticks)) in events(store).iter().zip(seen) {
        let at = format!("line {} in {boot} at {ticks}", line.sequence);
        if let Event::Boot { ticks, .. } = &line.event {
            for lease in held.values_mut() {
                let left = u64::try_from(lease.expires_at.ms() - line.at.ms()).unwrap_or(0);
                lease.deadline = ticks + left.min(lease.ttl_secs * 1000);
            }
        }
        let Some(lease) = line.event.lease() else { continue };
        let issue = lease.resource.key();
        match &line.event {
            Event::Acquired { .. } => {
                assert!(
                    !held.contains_key(&issue),
                    "{at}: a second holder: {lease:?} beside {:?}",
                    held[&issue]
                );
            }
            Event::AutoEvicted { .. } => {
                let old = held
                    .remove(&issue)
                    .unwrap_or_else(|| panic!("{at}: nobody held it"));
                assert!(old.deadline <= *ticks, "{at}: taken early: {old:?}");
            }
            Event::Released { .. } | Event::ForceEvicted { .. } => {
                held.remove(&issue)
                    .unwrap_or_else(|| panic!("{at}: nobody held it"));
            }
            Event::Transferred { from_lease_id, .. } => {
                let old = held
                    .remove(&issue)
                    .unwrap_or_else(|| panic!("{at}: nobody held it"));
                assert_eq!(old.lease_id, *from_lease_id, "{at}");
                assert!(old.deadline > *ticks, "{at}: given away after its end");
            }
            Event::Renewed { .. } => {
                let old = &held[&issue];
                assert_eq!((&old.lease_id, old.token), (&lease.lease_id, lease.token), "{at}");
                assert!(old.deadline > *ticks, "{at}: renewed after its end");
            }
            _ => {}
        }
        if matches!(
            line.event,
            Event::Acquired { .. } | Event::Renewed { .. } | Event::Transferred { .. }
        ) {
            assert!(
                lease.deadline <= ticks + lease.ttl_secs * 1000,
                "{at}: longer than its TTL: {lease:?}"
            );
            if !matches!(line.event, Event::Renewed { .. }) {
                let last = tokens.insert(issue.clone(), lease.token).unwrap_or(0);
                assert!(
                    lease.token > last && lease.token == line.sequence,
                    "{at}: token {}",
                    lease.token
                );
            }
            held.insert(issue, lease.clone());
        }
    }
}

#[test]
fn b2_agents_worktrees_clocks_and_deaths() {
    each_seed(250, |rng| {
        let mut world = World::new(rng);
        for _ in 0..rng.range(10, 50) {
            match rng.range(0, 20) {
                0..=4 => world.clock.advance(*rng.choose(&[1, 999, 5_000, 10_000, 61_000])),
                5 => world.clock.jump_wall(*rng.choose(&[DAY, -DAY])),
                6 if rng.bool(0.4) => world.restart(rng),
                7..=9 => world.killed(rng),
                // Not in the moment after a start: two commands would share the one boot line.
                10 | 11 if world.anchored => world.stopped(rng),
                _ => world.undisturbed(rng),
            }
        }
        let store = world.store();
        ask(&store, &human(), &create("LAST-1"), 1).expect("the next command works");
        world.note();
        judge_history(&store, &world.seen);
        assert_eq!(store.validate(&human()).expect("a report").problems, vec![]);
    });
}

/// Stopped (as by SIGSTOP) before each call of a renewal or release, past the deadline, while somebody else takes the
/// lease: who comes too late is refused, whoever was in time has been.
#[test]
fn b4_stopped_past_the_deadline_at_every_call() {
    let build = || {
        let (disk, clock) = (SimDisk::new(), ManualClock::new());
        let store = open(&disk.another_process(), &clock);
        store.create(&human()).expect("a log");
        ask(&store, &human(), &create("WI-1"), 1).expect("an issue");
        ask(&store, &actor("agent:a", 1), &acquire("WI-1", 10), 2).expect("granted");
        (disk, clock)
    };
    for command in [renew("WI-1", None), release("WI-1")] {
        let (disk, clock) = build();
        ask(&open(&disk, &clock), &actor("agent:a", 1), &command, 3).expect("done");
        let calls = disk.calls().0;
        let unlocked = calls
            .iter()
            .position(|call| call.kind == DiskCall::Unlock)
            .expect("an unlock") as u64
            + 1;
        let total = calls.len() as u64;
        for k in (1..=1).chain(unlocked + 1..=total) {
            let (disk, clock) = build();
            let process = disk.another_process();
            let (rival_store, rival_clock) = (open(&disk.another_process(), &clock), clock.clone());
            let token = Arc::new(Mutex::new(0));
            let tell = Arc::clone(&token);
            process.before(k, move || {
                rival_clock.advance(20_000);
                let done =
                    ask(&rival_store, &actor("agent:b", 2), &acquire("WI-1", 60), 9).expect("free by now");
                *tell.lock().unwrap_or_else(PoisonError::into_inner) = lease_in(&done).token;
            });
            let outcome = ask(&open(&process, &clock), &actor("agent:a", 1), &command, 3);
            let token = *token.lock().unwrap_or_else(PoisonError::into_inner);
            if k == 1 {
                assert_eq!(outcome.expect_err("too late").code, Code::NotHolder);
            } else {
                assert!(lease_in(&outcome.expect("in time")).token < token, "call {k}");
            }
            let held = leases(&open(&disk, &clock));
            assert_eq!(
                (held["WI-1"].agent_id.as_str(), held["WI-1"].token),
                ("agent:b", token),
                "call {k}"
            );
        }
    }
}
