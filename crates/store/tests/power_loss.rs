//! Power losses at random moments of random work, on disks that lose, keep, tear and reorder whatever was not synced.
//!
//! Several processes share one disk; some are killed, some syncs fail. The power goes at a random call to the disk,
//! in the midst of a command more often than not. Afterwards everything that was acknowledged is there, once; the state
//! and the views are rebuilt; what had no answer is asked again and then done exactly once; and the work goes on, on
//! what was found, until the power goes again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jit_core::decide::command::Command;
use jit_core::model::actor::Actor;
use jit_core::model::refusal::Code;
use jit_store::file::FileStore;
use jit_store::{Done, Outcome, Store};
use jit_testkit::rng::{Rng, each_seed};
use jit_testkit::sim_disk::{DiskCall, Fault, Names, Options};
use jit_testkit::store_commands::{
    acquire, actor, ask, ask_as, create, events, evict, open, release, renew, transfer,
};
use jit_testkit::{ManualClock, SimDisk};
use rustix::io::Errno;

const ISSUES: [&str; 4] = ["WI-1", "WI-2", "WI-3", "WI-4"];
const AGENTS: [&str; 3] = ["agent:a", "agent:b", "human:h"];

/// What was asked for, and what came of it.
struct Asked {
    who: Actor,
    command: Command,
    answered: Option<String>,
    /// It was answered by something that is in the log, and not because it was so already.
    logged: bool,
}

struct World {
    clock: ManualClock,
    disk: SimDisk,
    limits: (u64, u64),
    asked: BTreeMap<String, Asked>,
    boots: u32,
}

fn digest(done: &Done) -> String {
    format!("{:?}", done.reply)
}

impl World {
    fn store(&self, disk: &SimDisk) -> FileStore {
        open(disk, &self.clock)
            .with_segment_limit(self.limits.0)
            .with_journal_limit(self.limits.1)
    }

    fn command(rng: &mut Rng, n: usize) -> Command {
        let issue = *rng.choose(&ISSUES);
        match rng.range(0, 10) {
            0..=3 => acquire(issue, rng.range(5, 60)),
            4 | 5 => renew(issue, None),
            6 | 7 => release(issue),
            8 if rng.bool(0.5) => transfer(issue, AGENTS[rng.index(3)]),
            8 => evict(issue),
            _ => create(&format!("NEW-{n}")),
        }
    }

    /// Works for a while; returns the disk as the power loss leaves it.
    fn work(&mut self, rng: &mut Rng) -> SimDisk {
        let processes: Vec<SimDisk> = (0..rng.range(2, 5))
            .map(|_| self.disk.another_process())
            .collect();
        let steps = rng.range(1, 25);
        for step in 0..steps {
            self.clock.advance(rng.range(0, 4_000));
            let process = processes[rng.index(processes.len())].clone();
            let n = self.asked.len();
            let (request, command) = (format!("request-{n}"), Self::command(rng, n));
            let who = actor(AGENTS[rng.index(3)], rng.range(1, 3) as u32);
            let last = step + 1 == steps;
            let moment = rng.range(1, 45);
            let lost: Arc<Mutex<Option<SimDisk>>> = Arc::default();
            // A process of its own for a disturbed command: the others must not inherit its end.
            let disturbed = self.disk.another_process();
            let used = match rng.range(0, 12) {
                _ if last => {
                    let (lost, disk, mut rng) = (Arc::clone(&lost), self.disk.clone(), rng.fork());
                    disturbed.before(moment, move || {
                        *lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(disk.crash(&mut rng));
                    });
                    disturbed
                }
                0 => {
                    disturbed.stop_mid_write(moment, *rng.choose(&[0, 1, 50, 4_000]));
                    disturbed
                }
                1 => {
                    disturbed.inject(Fault::nth(rng.range(1, 3), Errno::IO).on(DiskCall::Sync));
                    disturbed
                }
                2 => {
                    disturbed.inject(Fault::nth(moment, *rng.choose(&[Errno::IO, Errno::NOSPC])).short(40));
                    disturbed
                }
                _ => process,
            };
            let outcome = ask_as(&self.store(&used), &who, &command, n as u128, &request);
            let crashed = lost.lock().unwrap_or_else(PoisonError::into_inner).take();
            let mut asked = Asked {
                who,
                command,
                answered: None,
                logged: false,
            };
            match (&outcome, &crashed) {
                // The answer came after the power was gone: nobody heard it.
                (_, Some(_)) => {}
                (Ok(done), None) => {
                    asked.answered = Some(digest(done));
                    asked.logged =
                        Self::in_log(&self.store(&self.disk.another_process())).contains_key(&request);
                }
                (Err(refusal), None) => self.accept(refusal.code, &refusal.message),
            }
            self.asked.insert(request, asked);
            if let Some(disk) = crashed {
                return disk;
            }
        }
        self.disk.crash(rng)
    }

    fn accept(&self, code: Code, message: &str) {
        assert!(
            matches!(
                code,
                Code::Io
                    | Code::Unknown
                    | Code::Held
                    | Code::NotHolder
                    | Code::NotAllowed
                    | Code::NotFound
                    | Code::Invalid
            ),
            "{code:?}: {message}"
        );
    }

    /// How often each request is in the log, as transactions.
    fn in_log(store: &dyn Store) -> BTreeMap<String, usize> {
        let mut found = BTreeMap::new();
        let lines = events(store);
        assert!(lines.iter().zip(1..).all(|(line, n)| line.sequence == n), "a gap");
        for line in lines {
            if let Some(request) = line.request.filter(|_| line.part.0 == 1) {
                *found.entry(request.id.to_string()).or_insert(0) += 1;
            }
        }
        found
    }

    fn check(&mut self, rng: &mut Rng) {
        self.boots += 1;
        self.clock
            .reboot(&format!("boot-{}-here", self.boots), rng.range(0, 5_000));
        if rng.bool(0.3) {
            self.clock.jump_wall(*rng.choose(&[86_400_000, -86_400_000]));
        }
        let store = self.store(&self.disk.another_process());
        let found = Self::in_log(&store);
        for (request, asked) in &self.asked {
            let times = found.get(request).copied().unwrap_or(0);
            assert!(times <= 1, "{request} was done {times} times");
            assert!(
                times == 1 || !asked.logged,
                "{request} was acknowledged and is lost: {:?}",
                asked.answered
            );
        }
        // The next command works without help, and afterwards all is well.
        let marker = format!("MARK-{}", self.boots);
        ask(
            &store,
            &actor("human:h", 1),
            &create(&marker),
            (1 << 40) + u128::from(self.boots),
        )
        .unwrap_or_else(|e| panic!("{e:?}"));
        let report = store.validate(&actor("human:h", 1)).expect("a report");
        assert_eq!(report.problems, vec![]);
        // The journal may have given back what the log had lost.
        let found = Self::in_log(&store);
        // Whoever was not answered asks again; whoever was gets the same answer.
        let requests: Vec<String> = self.asked.keys().cloned().collect();
        for request in requests {
            let times = found.get(&request).copied().unwrap_or(0);
            let Some(asked) = self.asked.get_mut(&request) else {
                continue;
            };
            if times == 0 && rng.bool(0.5) {
                continue;
            }
            let outcome: Outcome<Done> =
                ask_as(&store, &asked.who, &asked.command, rng.next_u128(), &request);
            match (outcome, &asked.answered) {
                (Ok(done), Some(answer)) if times == 1 => {
                    assert!(done.repeated);
                    assert_eq!(digest(&done), *answer);
                }
                (Ok(done), _) => {
                    assert_eq!(done.repeated, times == 1);
                    asked.answered = Some(digest(&done));
                    asked.logged = Self::in_log(&store).contains_key(&request);
                }
                (Err(refusal), _) => {
                    assert_eq!(times, 0, "{refusal:?}");
                    asked.answered = None;
                }
            }
        }
        assert!(Self::in_log(&store).values().all(|times| *times == 1));
    }
}

fn run(options: Options, rng: &mut Rng) {
    let clock = ManualClock::new();
    let disk = SimDisk::with(options);
    let limits = *rng.choose(&[(2_000, 1_500), (6_000, 3_000), (1 << 20, 2_000), (3_000, 1 << 20)]);
    let mut world = World {
        clock,
        disk,
        limits,
        asked: BTreeMap::new(),
        boots: 0,
    };
    let store = world.store(&world.disk.another_process());
    store.create(&actor("human:h", 1)).expect("a log");
    for (n, id) in ISSUES.into_iter().enumerate() {
        ask(&store, &actor("human:h", 1), &create(id), n as u128).expect("an issue");
    }
    for _ in 0..rng.range(1, 4) {
        world.disk = world.work(rng);
        world.check(rng);
    }
}

#[test]
fn d1_on_a_journalling_file_system() {
    each_seed(120, |rng| run(Options::default(), rng));
}

#[test]
fn d1_on_a_file_system_with_torn_pages_and_garbage() {
    let options = Options {
        torn_pages: true,
        garbage: true,
        coarse_times: true,
        ..Options::default()
    };
    each_seed(120, |rng| run(options, rng));
}

#[test]
fn d1_on_the_worst_that_posix_allows() {
    assert_eq!(Options::harsh().names, Names::Subset);
    each_seed(120, |rng| run(Options::harsh(), rng));
}
