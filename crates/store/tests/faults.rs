//! The fault loop: every command, killed or failing at its first, second, … last call to the disk.
//!
//! After each single fault a new process must be able to go on without help: what was acknowledged is there exactly
//! once, what was not has happened or not but never twice, and asking again under the same request id tells which.

use jit_core::decide::command::Command;
use jit_core::log::event::Event;
use jit_core::model::actor::Actor;
use jit_core::model::refusal::{Code, Refusal};
use jit_store::file::FileStore;
use jit_store::{Done, Outcome, Store};
use jit_testkit::sim_disk::{DiskCall, Fault, Options};
use jit_testkit::store_commands::{
    acquire, actor, ask, ask_as, create, events, evict, leases, open, release, renew, transfer,
};
use jit_testkit::{ManualClock, SimDisk};
use rustix::io::Errno;

const REQUEST: &str = "the-request";

/// A disk at rest, a clock, and a command that is to be disturbed.
struct Scene {
    name: &'static str,
    disk: SimDisk,
    clock: ManualClock,
    who: Actor,
    command: Command,
    limits: (u64, u64),
}

impl Scene {
    fn store(&self, disk: &SimDisk) -> FileStore {
        open(disk, &self.clock)
            .with_segment_limit(self.limits.0)
            .with_journal_limit(self.limits.1)
    }

    fn run(&self, disk: &SimDisk) -> Outcome<Done> {
        ask_as(&self.store(disk), &self.who, &self.command, 500, REQUEST)
    }

    /// The calls an undisturbed run makes.
    fn calls(&self) -> Vec<(DiskCall, String)> {
        let disk = self.disk.copy();
        self.run(&disk).unwrap_or_else(|e| panic!("{}: {e:?}", self.name));
        let calls = disk.calls().0;
        calls.into_iter().map(|call| (call.kind, call.path)).collect()
    }
}

const LARGE: (u64, u64) = (1 << 20, 1 << 20);

fn human() -> Actor {
    actor("human:h", 1)
}

fn a() -> Actor {
    actor("agent:a", 1)
}

/// Three issues, of which `agent:a` holds two; one of these has lapsed.
fn at_rest() -> (SimDisk, ManualClock) {
    let (disk, clock) = (SimDisk::new(), ManualClock::new());
    let store = open(&disk.another_process(), &clock);
    store.create(&human()).expect("a log");
    for (n, id) in ["WI-1", "WI-2", "WI-3"].into_iter().enumerate() {
        ask_as(&store, &human(), &create(id), n as u128, &format!("create-{id}")).expect("an issue");
    }
    ask(&store, &a(), &acquire("WI-3", 10), 10).expect("granted");
    ask(&store, &a(), &acquire("WI-1", 600), 11).expect("granted");
    clock.advance(20_000);
    disk.settle();
    (disk, clock)
}

fn scene(name: &'static str, who: Actor, command: Command) -> Scene {
    let (disk, clock) = at_rest();
    Scene {
        name,
        disk,
        clock,
        who,
        command,
        limits: LARGE,
    }
}

fn scenes() -> Vec<Scene> {
    let mut scenes = vec![
        scene("acquire", a(), acquire("WI-2", 60)),
        scene("renew", a(), renew("WI-1", None)),
        scene("release", a(), release("WI-1")),
        scene("transfer", a(), transfer("WI-1", "agent:b")),
        scene("evict", human(), evict("WI-1")),
        scene("create", human(), create("WI-4")),
    ];
    let base = scene("sealing", a(), acquire("WI-2", 60));
    scenes.push(Scene {
        limits: (1_000, 1 << 20),
        ..base
    });
    let base = scene("compaction", a(), acquire("WI-2", 60));
    scenes.push(Scene {
        limits: (1 << 20, 100),
        ..base
    });
    let base = scene("sealing and compressing", a(), acquire("WI-2", 60));
    scenes.push(Scene {
        limits: (1_000, 100),
        ..base
    });
    let base = scene("journal rebuilt", a(), acquire("WI-2", 60));
    base.disk.take("state/journal");
    scenes.push(base);
    let base = scene("torn end", a(), acquire("WI-2", 60));
    let mut log = base.disk.read("events/control.jsonl").expect("a log");
    log.extend_from_slice(b"{\"schema_version\":1,\"sequ");
    base.disk.put("events/control.jsonl", &log);
    scenes.push(base);
    let base = scene("after a reboot", a(), acquire("WI-2", 60));
    base.clock.reboot("second", 1_000);
    scenes.push(base);
    scenes
}

/// How often the command of the request has been carried out: its transactions in the log.
fn done_in_log(store: &dyn Store) -> usize {
    let mine = events(store);
    mine.iter()
        .filter(|line| line.request.as_ref().is_some_and(|r| r.id.as_str() == REQUEST) && line.part.0 == 1)
        .count()
}

/// Whatever happened to the first attempt: a new process goes on, and the request is carried out exactly once.
fn recovers(scene: &Scene, disk: &SimDisk, first: &Outcome<Done>, what: &str) {
    let fail = |why: String| -> ! { panic!("{}, {what}: {why}", scene.name) };
    let next = disk.another_process();
    let store = scene.store(&next);
    // Readers work at once.
    if let Err(e) = store.view() {
        fail(format!("view: {e:?}"));
    }
    let before = done_in_log(&store);
    if before > 1 || (first.is_ok() && before != 1) {
        fail(format!("{before} times in the log after {first:?}"));
    }
    // Somebody else's command works without help.
    if let Err(e) = ask(&store, &human(), &create("WI-other"), 900) {
        fail(format!("the next command: {e:?}"));
    }
    match scene.run(&next) {
        Ok(again) => {
            if let Ok(first) = first
                && first.reply != again.reply
            {
                fail(format!("another answer: {first:?} and {again:?}"));
            }
            if again.repeated != (before == 1) {
                fail(format!(
                    "repeated: {}, but it was {before} times in the log",
                    again.repeated
                ));
            }
        }
        Err(e) => fail(format!("asked again: {e:?}")),
    }
    if done_in_log(&store) != 1 {
        fail("not exactly once".into());
    }
    let lines = events(&store);
    if !lines.iter().zip(1..).all(|(line, n)| line.sequence == n) {
        fail("a gap".into());
    }
    let report = store
        .validate(&human())
        .unwrap_or_else(|e| fail(format!("{e:?}")));
    if !report.problems.is_empty() {
        fail(format!("{:?}", report.problems));
    }
    if !leases(&store).contains_key("WI-other") && lines.len() as u64 != report.lines {
        fail("lines".into());
    }
    // And it is durable: the power goes, with all that was not synced.
    let found = disk.crash_losing_all();
    let rebooted = ManualClock::new();
    rebooted.reboot("after-the-power-loss", 60_000);
    let store = open(&found, &rebooted);
    if done_in_log(&store) != 1 {
        fail("an acknowledged command was lost with the power".into());
    }
    if let Err(e) = ask(&store, &human(), &create("WI-last"), 901) {
        fail(format!("after the power loss: {e:?}"));
    }
}

#[test]
fn d1_killed_at_every_call() {
    for scene in scenes() {
        let calls = scene.calls();
        for k in 1..=calls.len() as u64 {
            let (kind, path) = &calls[k as usize - 1];
            let cuts: &[usize] = if *kind == DiskCall::Write {
                &[0, 1, 100, usize::MAX / 2]
            } else {
                &[0]
            };
            for cut in cuts {
                let disk = scene.disk.copy();
                let victim = disk.another_process();
                victim.stop_mid_write(k, *cut);
                let first = scene.run(&victim);
                assert!(victim.is_dead());
                let what = format!("killed at call {k} ({kind:?} {path}), {cut} bytes through");
                recovers(&scene, &disk, &first, &what);
            }
        }
    }
}

fn acceptable(refusal: &Refusal) -> bool {
    matches!(refusal.code, Code::Io | Code::Unknown)
}

#[test]
fn d1_failing_at_every_call() {
    for scene in scenes() {
        let calls = scene.calls();
        for k in 1..=calls.len() as u64 {
            let (kind, path) = &calls[k as usize - 1];
            // What a system can say to such a call.
            let errnos: &[Errno] = match kind {
                DiskCall::Open | DiskCall::Lock | DiskCall::Rename | DiskCall::Remove | DiskCall::MakeDir => {
                    &[Errno::IO, Errno::NOSPC, Errno::ACCESS, Errno::ROFS]
                }
                DiskCall::Write | DiskCall::SetLen => &[Errno::IO, Errno::NOSPC, Errno::ROFS],
                _ => &[Errno::IO],
            };
            for errno in errnos.iter().copied() {
                for short in [None, Some(60)] {
                    if short.is_some() && *kind != DiskCall::Write {
                        continue;
                    }
                    let disk = scene.disk.copy();
                    let victim = disk.another_process();
                    let fault = Fault::nth(k, errno);
                    victim.inject(match short {
                        Some(bytes) => fault.short(bytes),
                        None => fault,
                    });
                    let first = scene.run(&victim);
                    let what = format!("{errno:?} at call {k} ({kind:?} {path}), short {short:?}");
                    if let Err(refusal) = &first {
                        assert!(acceptable(refusal), "{}, {what}: {refusal:?}", scene.name);
                        if refusal.code == Code::Io {
                            assert_eq!(
                                done_in_log(&scene.store(&disk)),
                                0,
                                "{}, {what}: {refusal:?}",
                                scene.name
                            );
                        }
                        if *kind == DiskCall::Sync
                            && path == "events/control.jsonl"
                            && scene.limits == LARGE
                            && scene.name != "journal rebuilt"
                            && scene.name != "after a reboot"
                        {
                            assert_eq!(refusal.code, Code::Unknown, "{}, {what}", scene.name);
                        }
                    }
                    recovers(&scene, &disk, &first, &what);
                }
            }
        }
    }
}

/// Everything fails from the k-th call on: nothing half-done is ever called done.
#[test]
fn d1_failing_for_good_from_every_call_on() {
    for scene in scenes() {
        for k in 1..=scene.calls().len() as u64 {
            for fault in [
                Fault::nth(k, Errno::IO).lasting(),
                Fault::nth(k, Errno::NOSPC).on(DiskCall::Write).lasting(),
            ] {
                let disk = scene.disk.copy();
                let victim = disk.another_process();
                victim.inject(fault);
                let first = scene.run(&victim);
                recovers(&scene, &disk, &first, &format!("for good from call {k}"));
            }
        }
    }
}

/// A sync fails: pages are lost though the kernel takes them for clean. Then nobody may be told yes on top of them.
#[test]
fn d1_nobody_builds_on_a_failed_sync() {
    for scene in scenes() {
        let syncs = scene
            .calls()
            .iter()
            .filter(|(kind, _)| *kind == DiskCall::Sync)
            .count() as u64;
        for nth in 1..=syncs {
            for drop_cache in [false, true] {
                let disk = scene.disk.copy();
                let victim = disk.another_process();
                victim.inject(Fault::nth(nth, Errno::IO).on(DiskCall::Sync));
                let first = scene.run(&victim);
                let what = format!("{}, sync {nth} failed, cache dropped: {drop_cache}", scene.name);
                if let Err(refusal) = &first {
                    assert!(acceptable(refusal), "{what}: {refusal:?}");
                }
                if drop_cache {
                    disk.drop_cache();
                }
                // Others go on, and everything they are told must survive the loss of the rest.
                let mut told = Vec::new();
                for n in 0..3u128 {
                    let id = format!("WI-later-{n}");
                    let store = scene.store(&disk.another_process());
                    match ask(&store, &human(), &create(&id), 700 + n) {
                        Ok(_) => told.push(id),
                        Err(refusal) => panic!("{what}: {refusal:?}"),
                    }
                }
                let found = disk.crash_losing_all();
                let rebooted = ManualClock::new();
                rebooted.reboot("second boot", 1_000);
                let store = open(&found, &rebooted);
                let lines = events(&store);
                for id in &told {
                    let there = |event: &Event| matches!(event, Event::Issue { issue, .. } if issue.id.as_str() == id);
                    assert_eq!(
                        lines.iter().filter(|line| there(&line.event)).count(),
                        1,
                        "{what}: {id} was lost"
                    );
                }
                assert!(first.is_err() || done_in_log(&store) == 1, "{what}");
                let after = ask_as(&store, &scene.who, &scene.command, 500, REQUEST);
                assert!(
                    after.is_ok() || after.as_ref().is_err_and(|e| e.code == Code::NotHolder),
                    "{what}: {after:?}"
                );
                assert!(done_in_log(&store) <= 1, "{what}");
                let report = store.validate(&human()).expect("a report");
                assert_eq!(report.problems, vec![], "{what}");
            }
        }
    }
}

/// Creating the log is killed at every call, on an ordinary and on a bad disk; creating it again works, and what is
/// then acknowledged survives a power loss.
#[test]
fn d1_creation_killed_at_every_call() {
    for options in [Options::default(), Options::harsh()] {
        let clock = ManualClock::new();
        let disk = SimDisk::with(options);
        open(&disk, &clock).create(&human()).expect("a log");
        let calls = disk.calls().total();
        for k in 1..=calls {
            for cut in [0, 200, usize::MAX / 2] {
                for create_again in [true, false] {
                    let disk = SimDisk::with(options);
                    let victim = disk.another_process();
                    victim.stop_mid_write(k, cut);
                    let _ = open(&victim, &clock).create(&human());
                    assert!(victim.is_dead());
                    let store = open(&disk.another_process(), &clock);
                    if create_again {
                        store
                            .create(&human())
                            .unwrap_or_else(|e| panic!("call {k}: {e:?}"));
                    }
                    match ask(&store, &human(), &create("WI-1"), 1) {
                        Ok(_) => {}
                        Err(e) if !create_again && matches!(e.code, Code::NotInitialized | Code::Io) => {
                            continue;
                        }
                        Err(e) => panic!("call {k}, again: {create_again}: {e:?}"),
                    }
                    let found = disk.crash_losing_all();
                    let store = open(&found, &clock);
                    assert_eq!(events(&store).len(), 3, "call {k}, again: {create_again}");
                }
            }
        }
    }
}

/// A salvage that is killed can be done again, and nothing is lost by that.
#[test]
fn d1_salvage_killed_at_every_call() {
    let (disk, clock) = at_rest();
    // A flipped bit in a line that the state no longer needs, and no state.
    let mut log = disk.read("events/control.jsonl").expect("a log");
    let third = log
        .iter()
        .enumerate()
        .filter(|(_, b)| **b == b'\n')
        .nth(1)
        .expect("lines")
        .0;
    log[third + 30] ^= 1;
    disk.put("events/control.jsonl", &log);
    for file in disk.files().into_keys().filter(|file| file.starts_with("state/")) {
        disk.take(&file);
    }
    let refused = ask(
        &open(&disk.another_process(), &clock),
        &human(),
        &create("WI-9"),
        1,
    );
    assert_eq!(refused.expect_err("damage").code, Code::Damaged);
    let whole = disk.copy();
    open(&whole, &clock).salvage(&human()).expect("salvaged");
    let calls = whole.calls().total();
    for k in 1..=calls {
        for power_loss in [false, true] {
            let disk = disk.copy();
            let victim = disk.another_process();
            victim.stop_mid_write(k, 300);
            let killed = open(&victim, &clock).salvage(&human());
            let disk = if power_loss { disk.crash_losing_all() } else { disk };
            let store = open(&disk.another_process(), &clock);
            let done = match ask(&store, &human(), &create("WI-9"), 1) {
                Err(e) if e.code == Code::Damaged => {
                    store
                        .salvage(&human())
                        .unwrap_or_else(|e| panic!("call {k} of {calls}, {power_loss}: {e:?}"));
                    ask(&store, &human(), &create("WI-9"), 1)
                }
                other => other,
            };
            done.unwrap_or_else(|e| panic!("call {k}, {killed:?}: {e:?}"));
            let held = leases(&store);
            assert_eq!(held.len(), 2, "call {k}, power loss {power_loss}: {held:?}");
            assert_eq!(held["WI-1"].token, 7);
            let report = store.validate(&human()).expect("a report");
            assert_eq!(report.problems, vec![], "call {k}");
            let granted = ask(&store, &a(), &acquire("WI-2", 60), 3).expect("granted");
            assert!(granted.own.iter().all(|lease| lease.token <= granted.sequence));
        }
    }
}
