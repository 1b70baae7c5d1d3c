//! Faults that a review found, each with the smallest history that shows it.

use std::ops::ControlFlow;

use jit_core::event::Stamped;
use jit_core::lease::Actor;
use jit_core::refusal::Code;
use jit_engine::store::file::FileStore;
use jit_engine::store::{Outcome, Store};
use jit_testkit::drive::{acquire, actor, ask, ask_as, create, open};
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
