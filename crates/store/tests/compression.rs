//! Sealed segments are compressed by everyday commands, while others read, write, recover, or are killed.
//!
//! Kills, power losses and faults at every call are in `faults`, `power_loss` and `simulation`, damage to every byte in
//! `damage`: their stores seal and compress too.

use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use jit_core::decide::command::Command;
use jit_core::log::event::Stamped;
use jit_core::model::actor::Actor;
use jit_store::disk::RealDisk;
use jit_store::file::FileStore;
use jit_store::{Outcome, Recovered, Store};
use jit_testkit::store_commands::{acquire, actor, ask, create, events, leases, open};
use jit_testkit::{ManualClock, SimDisk};

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

/// Several sealed segments that are plain, as an earlier program left them.
fn plain_scene() -> (SimDisk, ManualClock) {
    let (disk, clock) = (SimDisk::new(), ManualClock::new());
    let store = open(&disk.another_process(), &clock).with_segment_limit(2_000);
    store.create(&human()).expect("a log");
    for n in 1..8 {
        let issue = format!("WI-{n}");
        ask(&store, &human(), &create(&issue), n).expect("an issue");
        ask(&store, &actor("agent:a", 1), &acquire(&issue, 3_600), n).expect("granted");
    }
    disk.settle();
    assert!(sealed(&disk, ".jsonl").len() >= 3);
    (disk, clock)
}

fn sealed(disk: &SimDisk, end: &str) -> Vec<String> {
    let files = disk.files().into_keys();
    files
        .filter(|path| path.starts_with("events/control-") && path.ends_with(end))
        .collect()
}

/// A store of which every command folds its journal into runs, and compresses a segment.
fn tidy(disk: &SimDisk, clock: &ManualClock) -> FileStore {
    open(&disk.another_process(), clock).with_journal_limit(1)
}

#[test]
fn d1_plain_segments_of_an_earlier_program_are_compressed_one_by_one() {
    let (disk, clock) = plain_scene();
    let (lines, plain) = (events(&tidy(&disk, &clock)), sealed(&disk, ".jsonl"));
    for n in 0..plain.len() {
        assert_eq!(sealed(&disk, ".gz").len(), n);
        ask(
            &tidy(&disk, &clock),
            &human(),
            &create(&format!("X-{n}")),
            100 + n as u128,
        )
        .expect("done");
        assert_eq!(sealed(&disk, ".jsonl").len(), plain.len() - n - 1);
        assert!(events(&tidy(&disk, &clock)).starts_with(&lines));
    }
    let named: Vec<String> = plain.iter().map(|path| format!("{path}.gz")).collect();
    assert_eq!(sealed(&disk, ".gz"), named);
    let report = tidy(&disk, &clock).validate(&human()).expect("a report");
    assert_eq!(report.problems, vec![]);
    assert!(report.bytes < report.text, "{report:?}");
    // And without the state that was folded from them.
    disk.take("state/journal");
    assert_eq!(leases(&tidy(&disk, &clock)).len(), 7);
}

#[test]
fn d1_readers_meet_no_error_while_a_segment_is_compressed() {
    let (disk, clock) = plain_scene();
    let lines = events(&open(&disk, &clock));
    for without_state in [false, true] {
        let counted = disk.copy();
        if without_state {
            counted.take("state/journal");
        }
        let scene = counted.copy();
        try_events(&open(&counted, &clock)).expect("the events");
        open(&counted, &clock).view().expect("a view");
        for moment in 1..=counted.calls().total() {
            let disk = scene.copy();
            let reader = disk.another_process();
            let (rival, time) = (disk.clone(), clock.clone());
            reader.before(moment, move || {
                for n in 0..2 {
                    ask(
                        &tidy(&rival, &time),
                        &human(),
                        &create(&format!("X-{n}")),
                        100 + n,
                    )
                    .expect("done");
                }
            });
            let store = open(&reader, &clock);
            let found = try_events(&store).unwrap_or_else(|e| panic!("before call {moment}: {e:?}"));
            assert!(found.starts_with(&lines), "before call {moment}");
            store
                .view()
                .unwrap_or_else(|e| panic!("before call {moment}: {e:?}"));
        }
    }
}

/// The recovery moves the plain segment away while its compressed form is being written: that must not come back.
#[test]
fn d1_a_recovery_while_a_segment_is_compressed_loses_nothing() {
    let (disk, clock) = plain_scene();
    let last = sealed(&disk, ".jsonl").pop().expect("a segment");
    let mut bytes = disk.read(&last).expect("a segment");
    bytes[40] ^= 1;
    disk.put(&last, &bytes);
    let held = leases(&open(&disk, &clock));
    let counted = disk.copy();
    let store = open(&counted, &clock).with_journal_limit(1);
    ask(&store, &human(), &create("X-1"), 100).expect("done");
    let mut recovered = 0;
    for moment in 1..=counted.calls().total() {
        let disk = disk.copy();
        let writer = disk.another_process();
        let (rival, time) = (disk.clone(), clock.clone());
        writer.before(moment, move || {
            // Refused at once while the writer has the lock.
            let _ = open(&rival.another_process(), &time)
                .waiting(Duration::ZERO)
                .salvage(&human());
        });
        let store = open(&writer, &clock).with_journal_limit(1);
        let _ = ask(&store, &human(), &create("X-1"), 100);
        recovered += usize::from(sealed(&disk, "").is_empty());
        let store = open(&disk.another_process(), &clock);
        store
            .salvage(&human())
            .unwrap_or_else(|e| panic!("before call {moment}: {e:?}"));
        assert_eq!(leases(&store), held, "before call {moment}");
        let report = store.validate(&human()).expect("a report");
        assert_eq!(report.problems, vec![], "before call {moment}");
    }
    assert!(recovered > 3, "{recovered}");
}

#[test]
fn d1_damage_in_a_compressed_segment_is_named_by_line_and_costs_one_member() {
    let (disk, clock) = (SimDisk::new(), ManualClock::new());
    let store = open(&disk.another_process(), &clock).with_segment_limit(1 << 20);
    store.create(&human()).expect("a log");
    for n in 1..70u128 {
        let mut command = create(&format!("WI-{n}"));
        if let Command::CreateIssue(new) = &mut command {
            new.text = Some(format!("{n} ").repeat(6_000));
        }
        ask(&store, &human(), &command, n).expect("an issue");
    }
    ask(
        &tidy(&disk, &clock),
        &actor("agent:a", 1),
        &acquire("WI-1", 3_600),
        100,
    )
    .expect("granted");
    let [path] = &sealed(&disk, "")[..] else {
        panic!("{:?}", sealed(&disk, ""));
    };
    let lines = events(&open(&disk, &clock)).len() as u64;
    let mut bytes = disk.read(path).expect("a segment");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    disk.put(path, &bytes);
    let store = open(&disk.another_process(), &clock);
    let report = store.validate(&human()).expect("a report");
    let message = &report.problems[0].message;
    let line: u64 = message
        .split_once(".jsonl.gz line ")
        .and_then(|(_, rest)| rest.split_once(','))
        .and_then(|(line, _)| line.parse().ok())
        .unwrap_or_else(|| panic!("{message}"));
    assert!(line > 5 && line < lines, "{message}");
    let saved = store.salvage(&human()).expect("salvaged");
    let Recovered::Salvaged {
        backup, lost, issues, ..
    } = saved
    else {
        panic!("{saved:?}");
    };
    assert!(lost > 0 && lost < lines / 2, "{lost} of {lines} lines");
    assert_eq!(issues, 69, "the folded state knew them all");
    let kept = format!("{backup}/{}", path.trim_start_matches("events/"));
    let name = kept.rsplit('/').take(2).collect::<Vec<_>>();
    assert_eq!(disk.read(&format!("{}/{}", name[1], name[0])), Some(bytes));
}

#[test]
fn d1_compressed_segments_are_for_their_owner_only() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o700)).expect("a mode");
    let disk = Arc::new(RealDisk::open(dir.path()).expect("a disk"));
    let store = FileStore::new(disk, Arc::new(ManualClock::new()), Duration::from_secs(5))
        .with_segment_limit(2_000)
        .with_journal_limit(1);
    store.create(&human()).expect("a log");
    for n in 1..12 {
        ask(&store, &human(), &create(&format!("WI-{n}")), n).expect("an issue");
    }
    let mut compressed = 0;
    for entry in std::fs::read_dir(dir.path().join("events")).expect("a folder") {
        let entry = entry.expect("an entry");
        let mode = entry.metadata().expect("facts").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{:?}", entry.file_name());
        compressed += usize::from(entry.path().extension().is_some_and(|end| end == "gz"));
    }
    assert!(compressed > 0);
    assert_eq!(
        events(&store).len(),
        store.view().expect("a view").sequence as usize
    );
}
