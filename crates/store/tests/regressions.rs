//! Faults that a review found, each with the smallest history that shows it.

use std::ops::ControlFlow;

use jit_core::decide::command::{Command, IssueChange};
use jit_core::issue_files::format::{IssueFolder, parse};
use jit_core::log::event::{Event, Stamped};
use jit_core::model::actor::Actor;
use jit_core::model::refusal::Code;
use jit_store::file::FileStore;
use jit_store::{Outcome, Store};
use jit_testkit::sim_disk::DiskCall;
use jit_testkit::store_commands::{acquire, actor, ask, ask_as, create, events, leases, open, release};
use jit_testkit::{ManualClock, SimDisk};

const LOG: &str = "events/control.jsonl";

fn human() -> Actor {
    actor("human:h", 1)
}

fn try_events(store: &dyn Store) -> Outcome<Vec<Stamped>> {
    let mut all = Vec::new();
    store.events(0, &mut |line| {
        all.push(line);
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

struct Scene {
    disk: SimDisk,
    clock: ManualClock,
    segment_limit: u64,
}

impl Scene {
    fn new(segment_limit: u64) -> Self {
        let scene = Self {
            disk: SimDisk::new(),
            clock: ManualClock::new(),
            segment_limit,
        };
        scene.store().create(&human()).expect("a log");
        scene
    }

    fn store(&self) -> FileStore {
        self.store_on(&self.disk)
    }

    fn store_on(&self, disk: &SimDisk) -> FileStore {
        open(&disk.another_process(), &self.clock).with_segment_limit(self.segment_limit)
    }

    /// Issues `WI-<n>`, each created under the request `create-<n>` and held by `agent:a`.
    fn claims(&self, numbers: std::ops::Range<u128>) {
        for n in numbers {
            let issue = format!("WI-{n}");
            ask_as(
                &self.store(),
                &human(),
                &create(&issue),
                n,
                &format!("create-{n}"),
            )
            .expect("an issue");
            ask(&self.store(), &actor("agent:a", 1), &acquire(&issue, 3_600), n).expect("granted");
            self.clock.advance(1_000);
        }
    }

    fn segments(&self) -> Vec<String> {
        let files = self.disk.files().into_keys();
        files.filter(|p| p.starts_with("events/control")).collect()
    }
}

/// Several sealed segments and an active one.
fn sealed_scene() -> Scene {
    let scene = Scene::new(2_000);
    scene.claims(1..8);
    assert!(scene.segments().len() >= 3, "{:?}", scene.segments());
    scene
}

#[test]
fn d1_a_segment_whose_first_line_is_damaged_is_not_skipped_by_readers_of_events() {
    let scene = sealed_scene();
    assert!(try_events(&scene.store()).is_ok());
    for path in scene.segments() {
        let disk = scene.disk.copy();
        let mut bytes = disk.read(&path).expect("a segment");
        bytes[40] ^= 1;
        disk.put(&path, &bytes);
        let refused = try_events(&scene.store_on(&disk)).expect_err(&path);
        assert_eq!(refused.code, Code::Damaged, "{path}: {refused:?}");
    }
}

#[test]
fn d1_a_missing_or_foreign_segment_is_not_skipped_by_readers_of_events() {
    let scene = sealed_scene();
    let other = sealed_scene();
    // Another history: same sequences, other checksums.
    for path in scene.segments() {
        if path == LOG {
            continue;
        }
        let disk = scene.disk.copy();
        disk.take(&path);
        let refused = try_events(&scene.store_on(&disk)).expect_err(&path);
        assert_eq!(refused.code, Code::Damaged, "{path}: {refused:?}");
    }
    let foreign = Scene::new(2_000);
    foreign.clock.advance(77_000);
    foreign.claims(1..8);
    let middle = &other.segments()[1];
    if let Some(bytes) = foreign.disk.read(middle) {
        let disk = other.disk.copy();
        disk.put(middle, &bytes);
        let refused = try_events(&other.store_on(&disk)).expect_err("foreign");
        assert_eq!(refused.code, Code::Damaged);
    }
}

#[test]
fn d1_a_last_line_that_was_promised_and_is_garbled_is_not_cut_off_for_readers_of_events() {
    let scene = Scene::new(1 << 20);
    scene.claims(1..4);
    let mut log = scene.disk.read(LOG).expect("a log");
    let at = log.len() - 200;
    log[at] ^= 1;
    scene.disk.put(LOG, &log);
    let refused = try_events(&scene.store()).expect_err("damage");
    assert_eq!(refused.code, Code::Damaged);
}

#[test]
fn b9_a_request_whose_answer_is_lost_is_not_carried_out_again() {
    let scene = sealed_scene();
    let again = |disk: &SimDisk| ask_as(&scene.store_on(disk), &human(), &create("WI-1"), 1, "create-1");
    assert!(again(&scene.disk.copy()).expect("answered before").repeated);
    let disk = scene.disk.copy();
    disk.take(&scene.segments()[0]).expect("the oldest segment");
    let refused = again(&disk).expect_err("its lines are gone");
    assert_eq!(refused.code, Code::Damaged, "{refused:?}");
}

/// A recovery is killed when its new log only waits for its name; the damage is in a sealed segment, so commands go on.
#[test]
fn d1_a_recovery_that_was_killed_does_not_bring_old_holders_back_later() {
    let scene = sealed_scene();
    let sealed = &scene.segments()[0];
    let mut bytes = scene.disk.read(sealed).expect("a segment");
    bytes[40] ^= 1;
    scene.disk.put(sealed, &bytes);
    // What the recovery would have made.
    let made = scene.disk.copy();
    scene.store_on(&made).salvage(&human()).expect("salvaged");
    let next: Vec<u8> = made.read(LOG).expect("a log");
    scene.disk.put("events/next.jsonl", &next);
    ask(&scene.store(), &actor("agent:a", 1), &release("WI-1"), 90).expect("released");
    ask(&scene.store(), &actor("agent:b", 2), &acquire("WI-1", 3_600), 91).expect("granted");
    let held = leases(&scene.store());
    scene.store().salvage(&human()).expect("salvaged");
    assert_eq!(leases(&scene.store()), held);
}

/// Killed twice: the second recovery must not lose what only the first one's new log still says.
#[test]
fn d1_a_recovery_killed_again_and_again_loses_nothing() {
    let scene = sealed_scene();
    let sealed = &scene.segments()[0];
    let mut bytes = scene.disk.read(sealed).expect("a segment");
    bytes[40] ^= 1;
    scene.disk.put(sealed, &bytes);
    let held = leases(&scene.store());
    scene.disk.settle();
    let whole = scene.disk.copy();
    open(&whole, &scene.clock).salvage(&human()).expect("salvaged");
    let calls = whole.calls().total();
    for first in 1..=calls {
        for second in (1..=calls).step_by(3) {
            let disk = scene.disk.copy();
            for k in [first, second] {
                let victim = disk.another_process();
                victim.stop_mid_write(k, 300);
                let _ = open(&victim, &scene.clock).salvage(&human());
            }
            let what = format!("killed at call {first}, then at {second}");
            let store = scene.store_on(&disk);
            store
                .salvage(&human())
                .unwrap_or_else(|e| panic!("{what}: {e:?}"));
            assert_eq!(leases(&store), held, "{what}");
        }
    }
}

/// An event by a newer program at the log's end.
fn with_unknown_event(scene: &Scene) -> Vec<u8> {
    let last = events(&scene.store()).pop().expect("lines");
    let mut log = scene.disk.read(LOG).expect("a log");
    let sum = jit_core::log::line::trailing_sum(&log).expect("a sum");
    let line = Stamped {
        sequence: last.sequence + 1,
        part: (1, 1),
        request: None,
        event: Event::Unknown {
            kind: "issue.teleported".into(),
        },
        ..last
    };
    jit_core::log::line::encode_line(&mut log, &line, last.sequence, sum);
    log
}

#[test]
fn d1_an_older_program_writes_nothing_after_an_event_it_does_not_know() {
    for (segment_limit, reboot, without_state, torn) in [
        (1 << 20, true, false, false),
        (100, false, false, false),
        (1 << 20, false, true, false),
        (1 << 20, false, false, true),
    ] {
        let mut scene = Scene::new(1 << 20);
        scene.claims(1..4);
        let mut log = with_unknown_event(&scene);
        if torn {
            log.extend_from_slice(b"{\"schema_version\":9,\"sequ");
        }
        scene.disk.put(LOG, &log);
        scene.segment_limit = segment_limit;
        if reboot {
            scene.clock.reboot("second", 1_000);
        }
        if without_state {
            scene.disk.take("state/journal");
        }
        let watched = |disk: &SimDisk| {
            let mut files = disk.files();
            files.retain(|path, _| !path.starts_with("locks/"));
            files
        };
        let before = watched(&scene.disk);
        let refused = ask(&scene.store(), &human(), &create("WI-9"), 9).expect_err("newer");
        assert_eq!(refused.code, Code::Newer);
        scene.store().mend_views(&human());
        let refused = scene.store().salvage(&human()).expect_err("newer");
        assert_eq!(refused.code, Code::Newer);
        assert!(
            watched(&scene.disk) == before,
            "{segment_limit} {reboot} {without_state} {torn}"
        );
    }
}

/// A byte in the last line, before its checksum: the journal has the line as it was.
#[test]
fn d1_a_garbled_last_line_is_noticed_before_anything_is_put_after_it() {
    let scene = Scene::new(1 << 20);
    scene.claims(1..4);
    let log = scene.disk.read(LOG).expect("a log");
    let last = log[..log.len() - 1]
        .iter()
        .rposition(|b| *b == b'\n')
        .expect("lines")
        + 1;
    for at in (last..log.len() - 27).step_by(11) {
        let disk = scene.disk.copy();
        let mut bytes = log.clone();
        bytes[at] ^= 1;
        disk.put(LOG, &bytes);
        let store = scene.store_on(&disk);
        ask(&store, &human(), &create("WI-9"), 9).expect("mended");
        let report = store.validate(&human()).expect("a report");
        assert_eq!(report.problems, vec![], "byte {at}");
    }
}

#[test]
fn d1_a_journal_of_absurd_length_is_not_read() {
    let scene = Scene::new(1 << 20);
    scene.claims(1..3);
    let mut journal = scene.disk.read("state/journal").expect("a journal");
    journal.resize((64 << 20) + 1, 0);
    scene.disk.put("state/journal", &journal);
    let held = leases(&scene.store());
    assert_eq!(held.len(), 2);
    let done = ask(&scene.store(), &human(), &create("WI-9"), 9).expect("mended");
    assert!(!done.notices.is_empty(), "it was made anew");
    assert!(scene.disk.read("state/journal").expect("a journal").len() < 1 << 20);
}

/// How many records all runs have together.
fn records(disk: &SimDisk) -> u64 {
    let runs = disk
        .files()
        .into_iter()
        .filter(|(path, _)| path.starts_with("state/run-"));
    runs.map(|(_, bytes)| {
        let at = bytes.len() - 24;
        u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
    })
    .sum()
}

/// Leases that have come and gone leave nothing behind that a later command would have to step over.
#[test]
fn g3_churn_leaves_no_removals_behind() {
    const HELD: u128 = 200;
    let scene = Scene::new(100_000);
    let store = || scene.store().with_journal_limit(4_000);
    let (a, b) = (actor("agent:a", 1), actor("agent:b", 2));
    for n in 0..HELD {
        let issue = format!("HELD-{n}");
        ask(&store(), &human(), &create(&issue), n).expect("an issue");
        ask(&store(), &a, &acquire(&issue, 86_400), n).expect("granted");
    }
    for n in 0..5 {
        ask(&store(), &human(), &create(&format!("WI-{n}")), n).expect("an issue");
    }
    let mut most = 0;
    for n in 0..5_000u128 {
        let issue = format!("WI-{}", n % 5);
        ask(&store(), &b, &acquire(&issue, 600), 1_000 + n).expect("granted");
        scene.clock.advance(7);
        ask(&store(), &b, &release(&issue), 20_000 + n).expect("released");
        if n % 100 == 99 {
            most = most.max(records(&scene.disk));
            scene.disk.forget_calls();
        }
    }
    // Five records for each lease that is held and four for its issue; a few for each that has ended.
    assert!(most < 11 * HELD as u64, "{most} records");
}

const CLAIMS: &str = "claims.jsonl";

fn mentions_claims(notices: &[String]) -> bool {
    notices.iter().any(|n| n.contains("claims.jsonl"))
}

/// Killed between `claims.jsonl` and the journal: the next command goes on from there, without a rebuild.
#[test]
fn d1_a_writer_killed_before_the_journal_costs_the_next_one_nothing() {
    let scene = Scene::new(1 << 20);
    scene.claims(1..4);
    let journal = scene.disk.read("state/journal").expect("a journal");
    let claims = scene.disk.read(CLAIMS).expect("claims").len();
    ask(&scene.store(), &actor("agent:a", 1), &release("WI-1"), 50).expect("released");
    let whole = scene.disk.read(CLAIMS).expect("claims");
    scene.disk.put("state/journal", &journal);
    for len in [claims, claims + 1, whole.len() - 1, whole.len()] {
        let disk = scene.disk.copy();
        disk.put(CLAIMS, &whole[..len]);
        let store = scene.store_on(&disk);
        let done = ask(&store, &actor("agent:b", 2), &acquire("WI-1", 60), 51).expect("granted");
        assert!(!mentions_claims(&done.notices), "{len}: {:?}", done.notices);
        let report = store.validate(&human()).expect("a report");
        assert_eq!(report.problems, vec![], "{len}");
    }
    // Somebody else's bytes are another matter.
    let disk = scene.disk.copy();
    let mut foreign = whole.clone();
    foreign.extend_from_slice(b"{}\n");
    disk.put(CLAIMS, &foreign);
    let store = scene.store_on(&disk);
    let done = ask(&store, &actor("agent:b", 2), &acquire("WI-1", 60), 51).expect("granted");
    assert!(mentions_claims(&done.notices), "{:?}", done.notices);
    assert_eq!(store.validate(&human()).expect("a report").problems, vec![]);
}

#[test]
fn d1_a_copied_claims_file_is_not_made_anew() {
    let scene = Scene::new(1 << 20);
    scene.claims(1..4);
    let same = scene.disk.read(CLAIMS).expect("claims");
    scene.clock.advance(1_000);
    scene.disk.put(CLAIMS, &same);
    let done = ask(&scene.store(), &actor("agent:a", 1), &release("WI-1"), 50).expect("released");
    assert!(!mentions_claims(&done.notices), "{:?}", done.notices);
    assert_eq!(
        scene.store().validate(&human()).expect("a report").problems,
        vec![]
    );
}

/// A scene with more claims than everyday commands look at, and a change in the part about sealed segments.
fn edited_claims() -> Scene {
    let scene = Scene::new(10_000);
    scene.claims(1..80);
    let text = String::from_utf8(scene.disk.read(CLAIMS).expect("claims")).expect("text");
    assert!(text.len() > 20_000);
    scene
        .disk
        .put(CLAIMS, text.replacen("agent:a", "agent:x", 1).as_bytes());
    scene
}

#[test]
fn d1_a_repair_does_not_bless_what_somebody_wrote_into_the_claims() {
    let scene = edited_claims();
    // The log's last line is garbled too: reason enough for a repair.
    let mut log = scene.disk.read(LOG).expect("a log");
    let at = log.len() - 200;
    log[at] ^= 1;
    scene.disk.put(LOG, &log);
    let store = scene.store();
    ask(&store, &human(), &create("LAST-1"), 500).expect("done");
    assert_eq!(store.validate(&human()).expect("a report").problems, vec![]);
}

#[test]
fn d1_what_validate_says_about_healing_is_true() {
    let scene = edited_claims();
    ask(&scene.store(), &human(), &create("LAST-1"), 500).expect("done");
    let problems = scene.store().validate(&human()).expect("a report").problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(
        (problems[0].check, problems[0].help.as_str()),
        ("claims", "jit recover")
    );
    scene.store().salvage(&human()).expect("sound");
    assert_eq!(
        scene.store().validate(&human()).expect("a report").problems,
        vec![]
    );
    // At its end every writer notices.
    let mut claims = scene.disk.read(CLAIMS).expect("claims");
    let at = claims.len() - 50;
    claims[at] ^= 1;
    scene.disk.put(CLAIMS, &claims);
    let problems = scene.store().validate(&human()).expect("a report").problems;
    assert_eq!(problems[0].help, "any jit command that writes mends it");
    ask(&scene.store(), &human(), &create("LAST-2"), 501).expect("done");
    assert_eq!(
        scene.store().validate(&human()).expect("a report").problems,
        vec![]
    );
}

/// What was sealed is not read again at every seal and every start of the machine.
#[test]
fn g3_old_claims_are_not_read_again_after_a_reboot() {
    let scene = Scene::new(100_000);
    ask(&scene.store(), &human(), &create("WI-1"), 1).expect("an issue");
    let a = actor("agent:a", 1);
    for n in 0..6_000 {
        ask(&scene.store(), &a, &acquire("WI-1", 600), 10 + n).expect("granted");
        ask(&scene.store(), &a, &release("WI-1"), 10_000 + n).expect("released");
        scene.disk.forget_calls();
    }
    let len = scene.disk.read(CLAIMS).expect("claims").len();
    assert!(len > 10 << 18, "{len}");
    scene.clock.reboot("second", 1_000);
    let disk = scene.disk.another_process();
    disk.forget_calls();
    let store = open(&disk, &scene.clock);
    ask(&store, &a, &acquire("WI-1", 600), 50_000).expect("granted");
    let reads = disk.calls().count_on(DiskCall::Read, CLAIMS);
    assert!(reads < 10, "{reads} reads");
    assert_eq!(store.validate(&human()).expect("a report").problems, vec![]);
}

#[test]
fn d1_no_line_is_written_that_could_not_be_read() {
    let scene = Scene::new(u64::MAX);
    scene.claims(1..2);
    let before = scene.disk.read(LOG).expect("a log");
    let long = |bytes: usize| {
        let mut command = create("WI-9");
        if let Command::CreateIssue(new) = &mut command {
            new.text = Some("x".repeat(bytes));
        }
        command
    };
    let refused = ask(&scene.store(), &human(), &long(9 << 20), 9).expect_err("too long");
    assert_eq!(refused.code, Code::Invalid, "{refused:?}");
    assert_eq!(scene.disk.read(LOG).expect("a log"), before);
    ask(&scene.store(), &human(), &long(1 << 20), 10).expect("an issue");
    assert!(try_events(&scene.store()).is_ok());
}

#[test]
fn e5_a_circle_that_is_too_long_to_be_followed_is_refused() {
    let scene = Scene::new(u64::MAX);
    let levels = 1_002;
    let read = |n: u32| {
        let json = format!(
            r#"{{"id":"L-{n}","title":"l","created_at":"2026-01-01T00:00:00.000Z","parent":"L-{}"}}"#,
            n + 1
        );
        let folder = IssueFolder {
            issue: json.into_bytes(),
            ..IssueFolder::default()
        };
        parse(&format!("L-{n}").parse().expect("an id"), &folder).expect("sound")
    };
    let found = (0..levels).map(read).collect();
    ask(&scene.store(), &human(), &Command::JoinIssues(found), 1).expect("joined");
    let top = Command::ChangeIssue {
        issue: format!("L-{}", levels - 1).parse().expect("an id"),
        change: Box::new(IssueChange {
            parent: Some(Some("L-0".parse().expect("an id"))),
            ..IssueChange::default()
        }),
        strict: false,
    };
    let refused = ask(&scene.store(), &human(), &top, 2).expect_err("a circle");
    assert_eq!(refused.code, Code::Invalid, "{refused:?}");
}
