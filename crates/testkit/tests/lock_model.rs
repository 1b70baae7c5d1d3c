//! File locks against what they promise: random requests of five holders for overlapping sets of paths, with waiting,
//! dying, time passing and machines restarting in between (F2, F4, F5, F6).
//!
//! After each step no two live locks collide, by a judgement of collision that looks at every path there is instead of
//! at patterns; whoever was granted something had no live waiter before it that wants some of the same; a refusal wrote
//! nothing; no lock lasts longer than its limit; and the log, written out and read back, adds up to the same state.

use jit_core::decide::command::{Command, CommandReply, Context};
use jit_core::decide::{Decision, Draft, decide, file_locks};
use jit_core::log::event::{Event, Stamped};
use jit_core::log::stop::Stop;
use jit_core::log::table::{MemoryTable, Overlay};
use jit_core::log::{fold, line, state};
use jit_core::model::actor::Actor;
use jit_core::model::file_lock::{FileTarget, Labels, Queueing, Ticket, Want, Which};
use jit_core::model::ids::{LeaseId, TicketId};
use jit_core::model::lease::Lease;
use jit_core::model::policy::Policy;
use jit_core::model::refusal::Code;
use jit_core::model::scope::LockScope;
use jit_core::model::time::{BootId, Now, Wall};
use proptest::prelude::*;

const HOLDERS: [(&str, &str); 5] = [
    ("agent:a", "wt:00000001"),
    ("agent:b", "wt:00000001"),
    ("agent:c", "wt:00000001"),
    ("agent:a", "wt:00000002"),
    ("agent:d", "wt:00000002"),
];
const PATTERNS: [&str; 8] = ["a", "d/", "d/x", "d/*", "**/x", "*", "d/[xy]", "e/x"];
/// All that the patterns can tell apart.
const PATHS: [&str; 8] = ["a", "b", "d", "d/x", "d/y", "d/e/x", "e/x", "x"];

#[derive(Debug, Clone)]
enum Op {
    Take {
        who: usize,
        what: Vec<(usize, bool)>,
        shared: bool,
        wait: Option<u64>,
        ttl: Option<u64>,
    },
    /// The ticket that came n-th asks again.
    Again(usize),
    Release {
        who: usize,
        what: Option<usize>,
    },
    Extend {
        who: usize,
        ttl: Option<u64>,
    },
    /// Somebody's heart beats.
    Beat(usize),
    /// The owner of the n-th ticket dies.
    Die(usize),
    CleanUp,
    Advance(u64),
    Reboot,
}

fn op() -> impl Strategy<Value = Op> {
    let what = proptest::collection::vec((0..PATTERNS.len(), any::<bool>()), 1..4);
    prop_oneof![
        10 => (0..5usize, what, any::<bool>(), proptest::option::of(1_000..400_000u64), proptest::option::of(1..130u64))
            .prop_map(|(who, what, shared, wait, ttl)| Op::Take { who, what, shared, wait, ttl }),
        8 => (0..4usize).prop_map(Op::Again),
        5 => (0..5usize, proptest::option::of(0..PATTERNS.len())).prop_map(|(who, what)| Op::Release { who, what }),
        3 => (0..5usize, proptest::option::of(1..2_000u64)).prop_map(|(who, ttl)| Op::Extend { who, ttl }),
        4 => (0..5usize).prop_map(Op::Beat),
        2 => (0..4usize).prop_map(Op::Die),
        1 => Just(Op::CleanUp),
        4 => prop_oneof![0..60_000u64, Just(120_000), Just(900_000)].prop_map(Op::Advance),
        1 => Just(Op::Reboot),
    ]
}

fn actor(n: usize) -> Actor {
    let (agent, worktree) = HOLDERS[n];
    Actor {
        agent_id: agent.parse().expect("an agent"),
        worktree_id: Some(worktree.parse().expect("a worktree")),
    }
}

struct Bench {
    table: MemoryTable,
    lines: Vec<Stamped>,
    now: Now,
    drawn: u128,
    dead: Vec<TicketId>,
    policy: Policy,
    /// When each lease was granted, in ticks.
    granted: Vec<(LeaseId, u64)>,
}

impl Bench {
    fn new() -> Self {
        Self {
            table: MemoryTable::default(),
            lines: Vec::new(),
            now: Now {
                wall: Wall::from_ms(1_700_000_000_000),
                boot: BootId("one".into()),
                ticks: 1_000,
            },
            drawn: 0,
            dead: Vec::new(),
            policy: Policy::default(),
            granted: Vec::new(),
        }
    }

    fn draw(&mut self) -> u128 {
        self.drawn += 1000;
        self.drawn
    }

    fn tickets(&self) -> Vec<Ticket> {
        state::tickets(&self.table).expect("tickets")
    }

    fn live(&self) -> Vec<Lease> {
        let mut all = file_locks::all(&self.table).expect("locks");
        all.retain(|lease| !lease.expired(&self.now));
        all
    }

    fn ask(&mut self, who: &Actor, command: &Command) -> Result<CommandReply, Code> {
        let fresh = self.draw();
        let cx = Context {
            now: self.now.clone(),
            actor: who.clone(),
            branch: None,
            fresh_lease: LeaseId::generate(self.now.wall.ms(), fresh),
            policy: self.policy.clone(),
        };
        let last = self.lines.len() as u64;
        let mut draft = Draft::new(&self.table, last, self.now.wall, who.clone());
        match decide(&mut draft, command, &cx) {
            Err(Stop::Refused(refusal)) => Err(refusal.code),
            Err(Stop::Unreadable(e)) => panic!("{e}"),
            Ok(Decision::Already(reply)) => {
                assert!(
                    draft.events().is_empty(),
                    "an answer that changes nothing writes nothing"
                );
                Ok(reply)
            }
            Ok(Decision::Done) => {
                let reply = command.reply(draft.events()).expect("an answer");
                let (lines, changes) = draft.finish(None).expect("lines");
                for line in &lines {
                    if let Event::Acquired { lease, .. } = &line.event {
                        self.granted.push((lease.lease_id.clone(), self.now.ticks));
                    }
                }
                self.lines.extend(lines);
                self.table.absorb(changes);
                Ok(reply)
            }
        }
    }

    fn reboot(&mut self) {
        let gone = self.now.ticks;
        self.now.boot = BootId(format!("boot {gone}"));
        self.now.ticks = 500;
        let line = Stamped {
            sequence: self.lines.len() as u64 + 1,
            at: self.now.wall,
            actor: actor(0),
            request: None,
            part: (1, 1),
            event: Event::Boot {
                boot: self.now.boot.clone(),
                ticks: self.now.ticks,
            },
        };
        let mut overlay = Overlay::new(&self.table);
        fold::apply(&mut overlay, &line).expect("applied");
        let changes = overlay.changes;
        self.table.absorb(changes);
        self.lines.push(line);
        self.granted.clear();
    }
}

/// By looking at every path there is.
fn collide(a: &FileTarget, b: &FileTarget) -> bool {
    let both_local = a.scope == LockScope::Worktree && b.scope == LockScope::Worktree;
    let apart = both_local && a.holder.worktree_id != b.holder.worktree_id;
    a.holder != b.holder
        && !(a.shared && b.shared)
        && !apart
        && PATHS
            .iter()
            .any(|path| a.pattern.matches(path) && b.pattern.matches(path))
}

fn wants(what: &[(usize, bool)], shared: bool, ttl: Option<u64>) -> Vec<Want> {
    what.iter()
        .map(|(pattern, global)| Want {
            pattern: PATTERNS[*pattern].parse().expect("a pattern"),
            outside: false,
            scope: if *global {
                LockScope::Global
            } else {
                LockScope::Worktree
            },
            shared,
            labels: Labels::default(),
            ttl_secs: ttl,
        })
        .collect()
}

fn check(bench: &Bench) -> Result<(), TestCaseError> {
    let live = bench.live();
    for (n, one) in live.iter().enumerate() {
        let file = one.resource.file().expect("a file");
        for other in &live[n + 1..] {
            let theirs = other.resource.file().expect("a file");
            prop_assert!(!collide(file, theirs), "{one:?} and {other:?}");
        }
        if let Some((_, since)) = bench.granted.iter().find(|(id, _)| *id == one.lease_id) {
            let limit = bench.policy.locks.limit(file.scope) * 1000;
            prop_assert!(one.deadline <= since + limit, "{one:?} is held too long");
        }
    }
    // Written out and read back it is the same.
    let mut again = MemoryTable::default();
    let mut sum = 0;
    for line in &bench.lines {
        let mut bytes = Vec::new();
        sum = line::encode_line(&mut bytes, line, 0, sum);
        let read =
            line::decode_line(bytes.strip_suffix(b"\n").expect("a line")).map_err(TestCaseError::fail)?;
        prop_assert_eq!(&read.stamped.event, &line.event);
        let mut overlay = Overlay::new(&again);
        fold::apply(&mut overlay, &read.stamped).expect("applied");
        let changes = overlay.changes;
        again.absorb(changes);
    }
    prop_assert_eq!(&again.0, &bench.table.0);
    Ok(())
}

fn run(ops: &[Op]) -> Result<(), TestCaseError> {
    let mut bench = Bench::new();
    for op in ops {
        let before = bench.lines.len();
        match op {
            Op::Take {
                who,
                what,
                shared,
                wait,
                ttl,
            } => {
                let holder = actor(*who);
                let wants = wants(what, *shared, *ttl);
                let ticket = TicketId::generate(0, bench.draw());
                let queue = bench.tickets();
                let command = Command::LockFiles {
                    wants: wants.clone(),
                    queueing: Queueing {
                        ticket: None,
                        enqueue: wait.map(|wait| (ticket.clone(), wait)),
                        gone: bench.dead.clone(),
                    },
                };
                let answer = bench.ask(&holder, &command);
                if let Ok(CommandReply::Locks(locks)) = &answer {
                    for lease in locks {
                        let mine = lease.resource.file().expect("a file");
                        let passed = queue.iter().find(|earlier| {
                            earlier.deadline > bench.now.ticks
                                && !bench.dead.contains(&earlier.ticket_id)
                                && earlier.wants.iter().any(|theirs| collide(theirs, mine))
                        });
                        prop_assert!(passed.is_none(), "{mine:?} overtook {passed:?}");
                    }
                }
                if answer.is_err() {
                    prop_assert_eq!(bench.lines.len(), before, "a refusal wrote something");
                }
            }
            Op::Again(n) => {
                let Some(ticket) = bench.tickets().get(*n).cloned() else {
                    continue;
                };
                if bench.dead.contains(&ticket.ticket_id) {
                    continue;
                }
                let holder = ticket.wants[0].holder.clone();
                let again = |target: &FileTarget| Want {
                    pattern: target.pattern.clone(),
                    outside: target.outside,
                    scope: target.scope,
                    shared: target.shared,
                    labels: Labels::default(),
                    ttl_secs: None,
                };
                let command = Command::LockFiles {
                    wants: ticket.wants.iter().map(again).collect(),
                    queueing: Queueing {
                        ticket: Some(ticket.ticket_id.clone()),
                        enqueue: None,
                        gone: bench.dead.clone(),
                    },
                };
                match bench.ask(&holder, &command) {
                    Ok(_) => prop_assert!(!bench.tickets().iter().any(|t| t.ticket_id == ticket.ticket_id)),
                    Err(code) => prop_assert_eq!(code, Code::Held),
                }
            }
            Op::Release { who, what } => {
                let which = match what {
                    None => Which::All,
                    Some(n) => Which::These(vec![(PATTERNS[*n].parse().expect("a pattern"), false)]),
                };
                let _ = bench.ask(&actor(*who), &Command::ReleaseLocks { which });
            }
            Op::Extend { who, ttl } => {
                let command = Command::ExtendLocks {
                    which: Which::All,
                    ttl_secs: *ttl,
                };
                let _ = bench.ask(&actor(*who), &command);
            }
            Op::Beat(who) => {
                let due = |bench: &Bench| {
                    let mut own = bench.live();
                    own.retain(|lease| {
                        lease.held_by(&actor(*who)) && file_locks::can_be_kept(lease, &bench.now)
                    });
                    own.len()
                };
                let (before, lines, others) = (due(&bench), bench.lines.len(), bench.live().len());
                let kept = bench.ask(&actor(*who), &Command::KeepLocks);
                let Ok(CommandReply::Locks(kept)) = kept else {
                    panic!("a beat is never refused: {kept:?}")
                };
                prop_assert_eq!(kept.len(), before, "all that are due, and no others");
                prop_assert!(
                    before > 0 || bench.lines.len() == lines,
                    "a beat that keeps nothing writes nothing"
                );
                prop_assert_eq!(bench.live().len(), others);
                prop_assert_eq!(due(&bench), 0, "what was kept is not due at once");
            }
            Op::Die(n) => {
                let ticket = bench.tickets().get(*n).map(|ticket| ticket.ticket_id.clone());
                bench.dead.extend(ticket);
            }
            Op::CleanUp => {
                let gone = bench.dead.clone();
                let _ = bench.ask(&actor(0), &Command::CleanLocks { gone });
                let left = file_locks::all(&bench.table).expect("locks");
                prop_assert!(left.iter().all(|lease| !lease.expired(&bench.now)));
            }
            Op::Advance(ms) => {
                bench.now.ticks += ms;
                bench.now.wall = bench.now.wall.plus_ms(*ms);
            }
            Op::Reboot => bench.reboot(),
        }
        check(&bench)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: jit_testkit::rng::cases(200), ..ProptestConfig::default() })]

    #[test]
    fn f4_f6_no_two_holders_nobody_overtaken_whatever_happens(ops in proptest::collection::vec(op(), 1..40)) {
        run(&ops)?;
    }
}
