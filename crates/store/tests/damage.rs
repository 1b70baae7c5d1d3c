//! Damage of every kind: the log cut at every byte, every byte of every file changed, files missing, foreign or wrong.
//!
//! Each time a new process comes along. It repairs, or it refuses and says where; it never panics, and it never says ok
//! while a lease that was promised is gone. What it refuses, a salvage saves.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, Ordering};

use jit_core::log::event::{Event, Stamped};
use jit_core::model::actor::Actor;
use jit_core::model::lease::Lease;
use jit_core::model::refusal::{Code, Details, Refusal};
use jit_store::Recovered;
use jit_store::Store;
use jit_store::file::FileStore;
use jit_testkit::rng::cases;
use jit_testkit::store_commands::{
    acquire, actor, ask, create, events, lease_in, leases, open, release, transfer,
};
use jit_testkit::{ManualClock, SimDisk};

const LOG: &str = "events/control.jsonl";
const LOCK: &str = "locks/control.lock";

struct Scene {
    disk: SimDisk,
    clock: ManualClock,
    /// What was promised.
    held: BTreeMap<String, Lease>,
    lines: Vec<Stamped>,
    sequence: u64,
}

fn human() -> Actor {
    actor("human:h", 1)
}

fn store(disk: &SimDisk, clock: &ManualClock) -> FileStore {
    open(&disk.another_process(), clock)
}

/// About a dozen lines, one transaction of two among them, in one segment or several.
fn scene(segment_limit: u64, journal_limit: u64) -> Scene {
    let (disk, clock) = (SimDisk::new(), ManualClock::new());
    let store = || {
        store(&disk, &clock)
            .with_segment_limit(segment_limit)
            .with_journal_limit(journal_limit)
    };
    store().create(&human()).expect("a log");
    let (a, b) = (actor("agent:a", 1), actor("agent:b", 2));
    let mut n = 0;
    let mut step = |who: &Actor, command| {
        n += 1;
        ask(&store(), who, &command, n).expect("done");
        clock.advance(1_000);
    };
    for id in ["WI-1", "WI-2", "WI-3", "WI-4"] {
        step(&human(), create(id));
    }
    step(&a, acquire("WI-1", 600));
    step(&a, acquire("WI-2", 1));
    // Clears WI-2 away in the same transaction.
    step(&b, acquire("WI-3", 600));
    step(&b, acquire("WI-2", 600));
    step(&b, transfer("WI-3", "agent:a"));
    step(&b, release("WI-2"));
    step(&b, acquire("WI-4", 600));
    disk.settle();
    let held = leases(&store());
    let sequence = store().view().expect("a view").sequence;
    assert_eq!(held.len(), 3);
    let lines = events(&store());
    Scene {
        disk,
        clock,
        held,
        lines,
        sequence,
    }
}

fn small() -> Scene {
    scene(1 << 20, 1 << 20)
}

/// The refusal says where the damage is.
fn names_the_place(refusal: &Refusal) -> bool {
    let facts = match &refusal.details {
        Details::Facts(facts) => facts.clone(),
        _ => Vec::new(),
    };
    let has = |name: &str| facts.iter().any(|(n, _)| *n == name);
    (has("file") && has("line") && has("offset")) || refusal.message.contains("is missing")
}

/// Every line that was promised is there for readers of events, or they are told that the log is damaged.
fn all_lines_or_a_refusal(scene: &Scene, store: &FileStore, what: &str) {
    let mut lines = Vec::new();
    let outcome = store.events(0, &mut |line| {
        lines.push(line);
        ControlFlow::Continue(())
    });
    match outcome {
        Ok(()) => assert!(
            lines.starts_with(&scene.lines),
            "{what}: {} lines instead of {}",
            lines.len(),
            scene.lines.len()
        ),
        Err(refusal) => assert_eq!(refusal.code, Code::Damaged, "{what}: {refusal:?}"),
    }
}

/// What came of it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
enum Fate {
    Fine,
    Refused,
}

/// A new process on a damaged disk: either everything promised is there, or it refuses and a salvage works.
fn judge(scene: &Scene, disk: &SimDisk, what: &str) -> Fate {
    let there = |found: &BTreeMap<String, Lease>| {
        scene
            .held
            .iter()
            .all(|(issue, lease)| found.get(issue) == Some(lease))
    };
    let new = store(disk, &scene.clock);
    // Without the lock file nobody but a writer, who asks the journal, can know that the end is missing.
    if disk.read(LOCK) == scene.disk.read(LOCK) && disk.read(LOG).is_some() {
        all_lines_or_a_refusal(scene, &new, what);
    }
    if in_turn(3)
        && let Ok(view) = new.view()
    {
        let found = jit_core::log::state::leases(&*view.table);
        let found = found.unwrap_or_else(|e| panic!("{what}: {e}"));
        let found = found
            .into_iter()
            .map(|l| (l.resource.issue().expect("an issue").to_string(), l))
            .collect();
        assert!(
            there(&found),
            "{what}: a reader was told something else: {found:?}"
        );
    }
    match ask(&new, &human(), &create("NEXT-1"), 100) {
        Ok(done) => {
            assert!(
                there(&leases(&new)),
                "{what}: promised, and silently gone: {:?}",
                leases(&new)
            );
            assert!(done.sequence > scene.sequence, "{what}");
            all_lines_or_a_refusal(scene, &new, what);
            if !in_turn(7) {
                return Fate::Fine;
            }
            // Mended for good: whoever comes next has nothing to mend.
            let again = ask(&store(disk, &scene.clock), &human(), &create("NEXT-2"), 101);
            let again = again.unwrap_or_else(|e| panic!("{what}: {e:?}"));
            assert!(again.notices.is_empty(), "{what}: {:?}", again.notices);
            let report = new.validate(&human()).unwrap_or_else(|e| panic!("{what}: {e:?}"));
            if report.problems.is_empty() {
                return Fate::Fine;
            }
            // Something that this command had no need to read.
            let beside = |check| check == "log" || check == "state";
            assert!(
                report.problems.iter().all(|p| beside(p.check)),
                "{what}: {:?}",
                report.problems
            );
            if report.problems.iter().any(|p| !p.heals) {
                salvages(scene, disk, what);
                return Fate::Refused;
            }
            let saved = new.salvage(&human()).unwrap_or_else(|e| panic!("{what}: {e:?}"));
            assert!(matches!(saved, Recovered::Sound { .. }), "{what}: {saved:?}");
            let report = new.validate(&human()).unwrap_or_else(|e| panic!("{what}: {e:?}"));
            assert!(report.problems.is_empty(), "{what}: {:?}", report.problems);
            Fate::Fine
        }
        Err(refusal) => {
            assert_eq!(refusal.code, Code::Damaged, "{what}: {refusal:?}");
            assert!(names_the_place(&refusal), "{what}: {refusal:?}");
            if in_turn(7) {
                let report = new.validate(&human());
                let seen = report
                    .as_ref()
                    .map_or(true, |r| r.problems.iter().any(|p| !p.heals));
                assert!(seen, "{what}: validate sees nothing: {report:?}");
            }
            salvages(scene, disk, what);
            Fate::Refused
        }
    }
}

/// Checks that are dear are made for one case in `of`, unless time does not matter.
fn in_turn(of: u32) -> bool {
    static TURN: AtomicU32 = AtomicU32::new(0);
    // Not a plain count: checks that are asked for in a fixed order would share out the turns unfairly.
    let turn = TURN.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b1) >> 8;
    cases(1) > 1 || turn.is_multiple_of(of)
}

fn salvages(scene: &Scene, disk: &SimDisk, what: &str) {
    if !in_turn(23) {
        return;
    }
    let before = disk.files();
    let new = store(disk, &scene.clock);
    let saved = new.salvage(&human()).unwrap_or_else(|e| panic!("{what}: {e:?}"));
    let Recovered::Salvaged { backup, .. } = &saved else {
        panic!("{what}: {saved:?}");
    };
    let backup = backup.strip_prefix("/sim/").expect("a directory of ours");
    let after = disk.files();
    for (path, bytes) in before.iter().filter(|(path, _)| path.starts_with("events/")) {
        let name = path.rsplit('/').next().expect("a name");
        assert_eq!(
            after.get(&format!("{backup}/{name}")),
            Some(bytes),
            "{what}: {path} is not in the backup"
        );
    }
    // Whatever lease is there is one that had been granted, token and all; and tokens go on growing.
    let granted: Vec<(String, u64)> = scene
        .held
        .values()
        .map(|l| (l.lease_id.to_string(), l.token))
        .collect();
    let highest = scene.held.values().map(|l| l.token).max().unwrap_or(0);
    for lease in leases(&new).values() {
        let mut known = granted.iter().filter(|(id, _)| *id == lease.lease_id.to_string());
        if let Some((_, token)) = known.next() {
            assert_eq!(lease.token, *token, "{what}");
        }
    }
    ask(&new, &human(), &create("AFTER-1"), 200).unwrap_or_else(|e| panic!("{what}: {e:?}"));
    let next = ask(&new, &actor("agent:c", 3), &acquire("AFTER-1", 60), 201);
    let next = next.unwrap_or_else(|e| panic!("{what}: {e:?}"));
    assert!(
        lease_in(&next).token > highest,
        "{what}: {} after {highest}",
        lease_in(&next).token
    );
    let report = new.validate(&human()).unwrap_or_else(|e| panic!("{what}: {e:?}"));
    assert!(report.problems.is_empty(), "{what}: {:?}", report.problems);
}

fn without(disk: &SimDisk, prefix: &str) {
    for path in disk.files().into_keys().filter(|path| path.starts_with(prefix)) {
        disk.take(&path);
    }
}

fn tally(fates: &[Fate]) -> (usize, usize) {
    let fine = fates.iter().filter(|fate| **fate == Fate::Fine).count();
    (fine, fates.len() - fine)
}

fn cut_everywhere(scene: &Scene, taken: &str) -> (usize, usize) {
    let log = scene.disk.read(LOG).expect("a log");
    // At every byte; with less to go by, at the ends of lines and some in between.
    let step = if taken.is_empty() || cases(1) > 1 { 1 } else { 7 };
    let fates: Vec<Fate> = (0..log.len())
        .filter(|len| len % step == 0 || log[len - 1] == b'\n')
        .map(|len| {
            let disk = scene.disk.copy();
            disk.put(LOG, &log[..len]);
            if !taken.is_empty() {
                without(&disk, taken);
            }
            judge(
                scene,
                &disk,
                &format!("the log cut at byte {len}, without {taken:?}"),
            )
        })
        .collect();
    tally(&fates)
}

#[test]
fn d1_the_log_cut_at_every_byte() {
    let scene = small();
    let (fine, refused) = cut_everywhere(&scene, "");
    // The journal has nearly all of it.
    assert!(fine > 10 * refused, "{fine} mended, {refused} refused");
}

#[test]
fn d1_the_log_cut_at_every_byte_without_the_state() {
    let (fine, refused) = cut_everywhere(&small(), "state/");
    assert_eq!(fine, 0, "every line had been promised: {refused} refused");
}

#[test]
fn d1_the_log_cut_at_every_byte_without_the_lock_file() {
    let scene = small();
    let (fine, refused) = cut_everywhere(&scene, LOCK);
    assert!(fine > 10 * refused, "{fine} mended, {refused} refused");
}

fn flip_everywhere(scene: &Scene, path: &str) -> (usize, usize) {
    let bytes = scene.disk.read(path).unwrap_or_else(|| panic!("{path} is there"));
    let mut fates = Vec::new();
    for at in 0..bytes.len() {
        let changes: [fn(u8) -> u8; 3] = [|b| b ^ 0x01, |b| b ^ 0x80, |_| b'\n'];
        for (n, change) in changes.into_iter().enumerate() {
            // Each byte in one of the ways (of a large file beside the log some), and in all of them when time does
            // not matter.
            let some = bytes.len() > 4_000 && path != LOG;
            if cases(1) == 1 && (at % 3 != n || (some && at % 8 > 2)) {
                continue;
            }
            let mut changed = bytes.clone();
            changed[at] = change(bytes[at]);
            if changed == bytes {
                continue;
            }
            let disk = scene.disk.copy();
            disk.put(path, &changed);
            let what = format!(
                "{path}: byte {at} is {:#04x} instead of {:#04x}",
                changed[at], bytes[at]
            );
            fates.push(judge(scene, &disk, &what));
        }
    }
    tally(&fates)
}

#[test]
fn d1_every_byte_of_the_log_changed() {
    let scene = small();
    let (fine, refused) = flip_everywhere(&scene, LOG);
    assert!(fine > refused, "{fine} mended, {refused} refused");
}

#[test]
fn d1_every_byte_of_the_journal_changed() {
    let (_, refused) = flip_everywhere(&small(), "state/journal");
    assert_eq!(refused, 0);
}

#[test]
fn d1_every_byte_of_the_runs_changed() {
    let scene = scene(1 << 20, 1_000);
    let runs: Vec<String> = scene
        .disk
        .files()
        .into_keys()
        .filter(|p| p.starts_with("state/run-"))
        .collect();
    assert!(!runs.is_empty());
    for run in runs {
        let (_, refused) = flip_everywhere(&scene, &run);
        assert_eq!(refused, 0, "{run}");
    }
}

#[test]
fn d1_every_byte_of_the_views_changed() {
    let scene = small();
    for view in ["claims.jsonl", "claims.index.json"] {
        let (_, refused) = flip_everywhere(&scene, view);
        assert_eq!(refused, 0, "{view}");
    }
}

#[test]
fn d1_every_byte_of_the_lock_file_changed() {
    for path in [LOCK, "locks/control.meta"] {
        let scene = small();
        if scene.disk.read(path).is_some() {
            let (_, refused) = flip_everywhere(&scene, path);
            assert_eq!(refused, 0, "{path}");
        }
    }
}

/// Sealed segments are not read by everyday commands, but `validate` sees every byte and a salvage saves the rest.
#[test]
fn d1_sealed_segments_changed_or_missing() {
    changed_or_missing(&scene(2_000, 1 << 20), ".jsonl");
}

#[test]
fn d1_compressed_segments_changed_or_missing() {
    changed_or_missing(&scene(2_000, 500), ".jsonl.gz");
}

fn changed_or_missing(scene: &Scene, end: &str) {
    let sealed: Vec<String> = scene
        .disk
        .files()
        .into_keys()
        .filter(|p| p.starts_with("events/control-") && p.ends_with(end))
        .collect();
    assert!(sealed.len() >= 2, "{sealed:?}");
    for path in &sealed {
        let bytes = scene.disk.read(path).expect("a segment");
        for at in (0..=bytes.len()).step_by(if cases(1) > 1 { 1 } else { 31 }) {
            let disk = scene.disk.copy();
            let what = if at == 0 {
                disk.take(path);
                format!("{path} is missing")
            } else {
                let mut changed = bytes.clone();
                changed[at - 1] ^= 1;
                disk.put(path, &changed);
                format!("{path}: byte {}", at - 1)
            };
            let new = store(&disk, &scene.clock);
            let report = new.validate(&human()).unwrap_or_else(|e| panic!("{what}: {e:?}"));
            assert!(
                report.problems.iter().any(|p| !p.heals),
                "{what}: {:?}",
                report.problems
            );
            assert_eq!(leases(&new), scene.held, "{what}: the state is still good");
            // Without the state there is no way around it.
            let blind = disk.copy();
            without(&blind, "state/");
            let refused = ask(&store(&blind, &scene.clock), &human(), &create("X-1"), 9).expect_err("damage");
            assert_eq!(refused.code, Code::Damaged, "{what}");
            salvages(scene, &blind, &what);
            new.salvage(&human()).unwrap_or_else(|e| panic!("{what}: {e:?}"));
            assert_eq!(
                leases(&store(&disk, &scene.clock)),
                scene.held,
                "{what}: the state knew them all"
            );
        }
    }
}

#[test]
fn d1_views_and_state_missing_empty_garbage_or_from_the_future() {
    let scene = small();
    let index = String::from_utf8(scene.disk.read("claims.index.json").expect("an index")).expect("text");
    let future = index.replace("\"schema_version\":1", "\"schema_version\":9");
    let wrong = index.replace("agent:a", "agent:x");
    assert!(future != index && wrong != index && wrong.len() == index.len());
    let contents: [Option<&[u8]>; 6] = [
        None,
        Some(b""),
        Some(b"garbage\n"),
        Some(&[0; 5000]),
        Some(future.as_bytes()),
        Some(wrong.as_bytes()),
    ];
    for path in ["claims.index.json", "claims.jsonl", "state/journal", LOCK] {
        for content in contents {
            let disk = scene.disk.copy();
            match content {
                Some(content) => disk.put(path, content),
                None => drop(disk.take(path)),
            }
            let what = format!(
                "{path} is {:?}",
                content.map(|c| String::from_utf8_lossy(&c[..c.len().min(60)]).into_owned())
            );
            assert_eq!(judge(&scene, &disk, &what), Fate::Fine, "{what}");
            if path != LOCK {
                // And the view is what the log says.
                let found =
                    String::from_utf8(disk.read("claims.index.json").expect("an index")).expect("text");
                assert!(!found.contains("agent:x"), "{what}");
            }
        }
    }
}

#[test]
fn d1_leftovers_of_interrupted_work() {
    let scene = small();
    let log = scene.disk.read(LOG).expect("a log");
    for content in [&b""[..], b"{\"schema_ver", &log[..100], &log] {
        let disk = scene.disk.copy();
        disk.put("events/next.jsonl", content);
        assert_eq!(judge(&scene, &disk, "next.jsonl left over"), Fate::Fine);
    }
    for extra in [
        "state/journal.new",
        "claims.index.json.new",
        "events/torn-x",
        "state/run-0000000000000009-0",
    ] {
        let disk = scene.disk.copy();
        disk.put(extra, b"half");
        assert_eq!(judge(&scene, &disk, extra), Fate::Fine);
    }
    // The log is only there under its working name: a sealing or a creation that was interrupted.
    let disk = scene.disk.copy();
    let log = disk.take(LOG).expect("a log");
    disk.put("events/next.jsonl", &log);
    assert_eq!(judge(&scene, &disk, "only next.jsonl"), Fate::Fine);
}

/// A transaction of several lines of which only some are there never happened.
#[test]
fn d1_a_torn_transaction_is_cut_off() {
    let scene = small();
    scene.clock.advance(3_600_000);
    let before = events(&store(&scene.disk, &scene.clock));
    let whole = scene.disk.copy();
    ask(
        &store(&whole, &scene.clock),
        &actor("agent:c", 3),
        &acquire("WI-2", 60),
        50,
    )
    .expect("granted");
    let (short, long) = (
        scene.disk.read(LOG).expect("a log"),
        whole.read(LOG).expect("a log"),
    );
    assert!(
        long[short.len()..].iter().filter(|b| **b == b'\n').count() >= 3,
        "several lines"
    );
    for len in short.len() + 1..long.len() {
        let disk = scene.disk.copy();
        disk.put(LOG, &long[..len]);
        let new = store(&disk, &scene.clock);
        assert_eq!(events(&new), before, "cut at {len}");
        let done = ask(&new, &human(), &create("NEXT-1"), 100).expect("mended");
        assert_eq!(done.sequence, before.len() as u64 + 1);
        assert!(
            done.notices.iter().any(|n| n.contains("unfinished")),
            "{:?}",
            done.notices
        );
        // What was cut off is kept.
        let torn: Vec<_> = disk
            .files()
            .into_iter()
            .filter(|(p, _)| p.starts_with("events/torn-"))
            .collect();
        assert_eq!(torn.len(), 1);
        assert_eq!(torn[0].1, &long[short.len()..len]);
    }
}

/// A line by a newer program: reading goes on, writing is refused, nothing is cut off.
#[test]
fn d1_a_line_from_the_future_is_not_damage() {
    let scene = small();
    let lines = events(&store(&scene.disk, &scene.clock));
    let last = lines.last().expect("lines").clone();
    let mut log = scene.disk.read(LOG).expect("a log");
    let sum = jit_core::log::line::trailing_sum(&log).expect("a sum");
    let line = jit_core::log::event::Stamped {
        sequence: last.sequence + 1,
        part: (1, 1),
        request: None,
        event: Event::Unknown {
            kind: "issue.teleported".into(),
        },
        ..last
    };
    jit_core::log::line::encode_line(&mut log, &line, last.sequence, sum);
    scene.disk.put(LOG, &log);
    let new = store(&scene.disk, &scene.clock);
    assert_eq!(leases(&new), scene.held);
    let refused = ask(&new, &human(), &create("NEXT-1"), 1).expect_err("a newer program wrote here");
    assert_eq!(refused.code, Code::Newer);
    assert_eq!(scene.disk.read(LOG).expect("a log"), log);
}
