//! Clocks that lie, processes that stand still, and machines that start again: a lease keeps its length.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::process::{Child, Command};
use std::time::Duration;
use std::{fs, thread};

use jit_testkit::world::World;
use jit_testkit::world::tools::{OTHER_BOOT, own_mounts, say, wait_until, without};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const JIT: &str = env!("CARGO_BIN_EXE_jit");
const DAY: i64 = 24 * 3600;
const PATIENCE: Duration = Duration::from_secs(30);

fn world_with(issues: &[&str]) -> World {
    let world = World::with_jit(JIT);
    for id in issues {
        let _ = world
            .jit_as("human:setup", ["issue", "create", "Work", "--id", id])
            .ok();
    }
    world
}

/// Adds what makes a program believe that it is another time.
fn fake(command: &mut Command, library: &str, offset: &str) {
    command
        .env("LD_PRELOAD", library)
        .env("FAKETIME", offset)
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .env("DONT_FAKE_MONOTONIC", "1")
        .env("NO_FAKE_STAT", "1");
}

/// Where libfaketime is, as the program that comes with it says.
fn library(world: &World) -> String {
    let mut command = world.command("faketime", world.root());
    command.args(["-f", "+0s", "sh", "-c", "echo \"$LD_PRELOAD\""]);
    let text = world.run(command).ok().stdout;
    let library = text.trim().to_owned();
    assert!(!library.is_empty(), "faketime names its library");
    library
}

/// `jit` in a process whose wall clock is off.
fn at(world: &World, library: &str, offset: &str, agent: &str, words: &[&str]) -> jit_testkit::world::Ran {
    let mut command = world.jit_command(&world.repo());
    command.env("JIT_AGENT_ID", agent).args(words);
    fake(&mut command, library, offset);
    world.run(command)
}

fn seconds(time: &Value) -> i64 {
    // RFC 3339 in UTC; days since 1970 by the usual formula.
    let text = time.as_str().expect("a time");
    let number = |from: usize, to: usize| text[from..to].parse::<i64>().expect("a number");
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    let (y, m) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (m * 306 + 5) / 10 + day - 1 - 719_468;
    days * DAY + number(11, 13) * 3600 + number(14, 16) * 60 + number(17, 19)
}

/// The lease on `issue` as everybody sees it, if there is one.
fn lease_on(world: &World, issue: &str) -> Option<Value> {
    let list = world
        .jit(["claim", "status", "--issue", issue, "--json"])
        .ok()
        .json();
    list["active"]
        .as_array()
        .and_then(|leases| leases.first())
        .cloned()
}

fn remaining(world: &World, issue: &str) -> u64 {
    let lease = lease_on(world, issue).expect("it is held");
    lease["remaining_secs"].as_u64().expect("a number")
}

fn wait_for_expiry(world: &World, issue: &str) {
    wait_until("the lease is over", PATIENCE, || lease_on(world, issue).is_none());
}

#[test]
#[cfg(target_os = "linux")]
fn b6_a_wall_clock_a_day_off_steals_and_lengthens_nothing() {
    if without("faketime") {
        return;
    }
    let world = world_with(&["REAL-1", "FAKE-1", "SHORT-1"]);
    let library = library(&world);
    let _ = world
        .jit_as("agent:real", ["claim", "acquire", "REAL-1", "--ttl", "600"])
        .ok();
    for (offset, sign) in [("+1d", 1), ("-1d", -1)] {
        // The clock is really off in that process.
        let list = at(
            &world,
            &library,
            offset,
            "agent:fake",
            &["claim", "list", "--json"],
        )
        .ok();
        let here = world.jit(["claim", "list", "--json"]).ok().json();
        let drift = seconds(&list.json()["generated_at"]) - seconds(&here["generated_at"]);
        assert!((drift - sign * DAY).abs() < 120, "{offset}: off by {drift} s");

        let seen = &list.json()["active"][0];
        let left = seen["remaining_secs"].as_u64().expect("a number");
        assert!((500..=600).contains(&left), "{offset}: {seen}");
        let taken = at(
            &world,
            &library,
            offset,
            "agent:fake",
            &["claim", "acquire", "REAL-1", "--json"],
        );
        assert_eq!(taken.exits(4).json()["error"]["code"], "held");

        // Its own leases are as long as they should be, for everybody.
        let words = ["claim", "acquire", "FAKE-1", "--ttl", "300", "--json"];
        let _ = at(&world, &library, offset, "agent:fake", &words).ok();
        assert!((200..=300).contains(&remaining(&world, "FAKE-1")), "{offset}");
        let refused = world.jit_as("agent:real", ["claim", "acquire", "FAKE-1", "--json"]);
        assert_eq!(refused.exits(4).json()["error"]["code"], "held");
        let words = ["claim", "renew", "FAKE-1", "--ttl", "400", "--json"];
        let _ = at(&world, &library, offset, "agent:fake", &words).ok();
        assert!((300..=400).contains(&remaining(&world, "FAKE-1")), "{offset}");
        // Renewed where the clock is right, it does not keep what the wrong one said.
        let _ = world
            .jit_as("agent:fake", ["claim", "renew", "FAKE-1", "--ttl", "350"])
            .ok();
        assert!((250..=350).contains(&remaining(&world, "FAKE-1")), "{offset}");
        let _ = at(
            &world,
            &library,
            offset,
            "agent:fake",
            &["claim", "release", "FAKE-1"],
        )
        .ok();

        // A lease of one second is over after one second, whatever the clock said when it was given.
        let words = ["claim", "acquire", "SHORT-1", "--ttl", "1", "--json"];
        let _ = at(&world, &library, offset, "agent:fake", &words).ok();
        wait_for_expiry(&world, "SHORT-1");
        let _ = world
            .jit_as("agent:real", ["claim", "acquire", "SHORT-1", "--ttl", "60"])
            .ok();
        let _ = world.jit_as("agent:real", ["claim", "release", "SHORT-1"]).ok();

        // The real one can renew what it holds, and with a wrong clock, too; it gets no more than it asked for.
        let words = ["claim", "renew", "REAL-1", "--ttl", "600"];
        let _ = at(&world, &library, offset, "agent:real", &words).ok();
        assert!((500..=600).contains(&remaining(&world, "REAL-1")), "{offset}");
    }
    world.validates();
}

/// A process of ours that is ended with the test.
struct Ours(Child);

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a pid");
    kill_process(pid, signal).expect("it is ours");
}

#[test]
fn b12_a_heart_that_stood_still_past_the_deadline_steals_nothing() {
    let world = world_with(&["WORK-1"]);
    let grant = world.jit_as(
        "agent:slow",
        ["claim", "acquire", "WORK-1", "--ttl", "2", "--json"],
    );
    let old = grant.ok().json();
    let mut command = world.jit_command(&world.repo());
    command
        .env("JIT_AGENT_ID", "agent:slow")
        .args(["heartbeat", "--interval", "1"]);
    let mut heart = Ours(command.spawn().expect("a heartbeat"));
    let renewals = || {
        let events = world.events();
        events
            .iter()
            .filter(|event| event["type"] == "claim.renewed")
            .count()
    };
    wait_until("the heart renews the lease", PATIENCE, || renewals() > 0);
    let beating = lease_on(&world, "WORK-1").expect("the heart keeps it");
    assert_eq!(beating["lease_id"], old["lease_id"]);

    signal(heart.0.id(), Signal::STOP);
    wait_for_expiry(&world, "WORK-1");
    let taken = world.jit_as(
        "agent:quick",
        ["claim", "acquire", "WORK-1", "--ttl", "1h", "--json"],
    );
    let new = taken.ok().json();
    assert!(
        new["token"].as_u64() > beating["token"].as_u64(),
        "{new} after {beating}"
    );
    let renewed = renewals();
    signal(heart.0.id(), Signal::CONT);
    // The heart beats on; a beat is seen by its file.
    let beat = || fs::read_dir(world.control().join("heartbeat")).map_or(0, Iterator::count);
    assert!(beat() >= 1);
    let stamp = |world: &World| {
        let mut times = BTreeSet::new();
        for entry in fs::read_dir(world.control().join("heartbeat")).expect("a folder") {
            times.insert(fs::read_to_string(entry.expect("an entry").path()).unwrap_or_default());
        }
        times
    };
    let before = stamp(&world);
    wait_until("the heart beats again", PATIENCE, || {
        stamp(&world) != before || heart.0.try_wait().is_ok_and(|status| status.is_some())
    });
    let lease = old["lease_id"].as_str().expect("an id");
    for name in [lease, "WORK-1"] {
        for verb in ["renew", "release"] {
            let refused = world.jit_as("agent:slow", ["claim", verb, name, "--json"]);
            assert_eq!(
                refused.exits(5).json()["error"]["code"],
                "not_holder",
                "{verb} {name}"
            );
        }
    }
    assert_eq!(renewals(), renewed, "nothing was renewed");
    let held = lease_on(&world, "WORK-1").expect("it is held");
    assert_eq!(held["lease_id"], new["lease_id"]);
    world.validates();
}

/// The last call before the store's lock is taken: its name, and the how-many-eth of that name it is.
#[cfg(target_os = "linux")]
fn call_before_lock(world: &World) -> (String, usize) {
    let (ran, calls) = world.trace("agent:slow", ["claim", "renew", "WORK-1", "--json"]);
    let _ = ran.exits(3);
    let lock = calls
        .iter()
        .position(|call| call.line.contains("locks/control.lock"));
    let call = &calls[lock.expect("the lock is opened") - 1];
    (call.name.clone(), call.nth)
}

/// `jit` under strace, stopped after the n-th call of that name.
#[cfg(target_os = "linux")]
struct Stopped {
    strace: Ours,
    jit: u32,
}

#[cfg(target_os = "linux")]
impl Stopped {
    fn after(world: &World, call: &str, nth: usize, agent: &str, words: &[&str]) -> Self {
        let trace = world.root().join("stopped");
        let _ = fs::remove_file(&trace);
        let way: [OsString; 6] = [
            "strace".into(),
            "-f".into(),
            "-o".into(),
            trace.clone().into(),
            format!("-etrace={call}").into(),
            format!("-einject={call}:signal=STOP:when={nth}").into(),
        ];
        let mut command = world.jit_by_way_of(&way, agent, words);
        command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let strace = Ours(command.spawn().expect("strace"));
        wait_until("it stands still", PATIENCE, || {
            fs::read_to_string(&trace).is_ok_and(|text| text.contains("stopped by SIGSTOP"))
        });
        let text = fs::read_to_string(&trace).expect("a trace");
        let jit = text
            .split_whitespace()
            .next()
            .and_then(|pid| pid.parse().ok())
            .expect("a pid");
        Self { strace, jit }
    }

    /// Lets it go on, and waits for its end.
    fn go_on(mut self) -> (i32, Value) {
        signal(self.jit, Signal::CONT);
        let mut out = String::new();
        let stdout = self.strace.0.stdout.as_mut().expect("a pipe");
        std::io::Read::read_to_string(stdout, &mut out).expect("text");
        let code = self.strace.0.wait().expect("an end").code().unwrap_or(-1);
        (code, serde_json::from_str(&out).expect("one JSON document"))
    }
}

#[test]
#[cfg(target_os = "linux")]
fn b4_a_client_that_stood_still_past_its_deadline_is_refused_or_granted_anew() {
    if without("strace") {
        return;
    }
    let world = world_with(&["WORK-1"]);
    let short = ["claim", "acquire", "WORK-1", "--ttl", "1", "--json"];
    let (call, nth) = call_before_lock(&world);

    // It stood still, and somebody else came: renew and release are refused.
    for verb in ["renew", "release"] {
        let old = world.jit_as("agent:slow", short).ok().json();
        let lease = old["lease_id"].as_str().expect("an id");
        let stopped = Stopped::after(
            &world,
            &call,
            nth,
            "agent:slow",
            &["claim", verb, lease, "--json"],
        );
        wait_for_expiry(&world, "WORK-1");
        let taken = world.jit_as("agent:quick", ["claim", "acquire", "WORK-1", "--json"]);
        let new = taken.ok().json();
        let (code, answer) = stopped.go_on();
        assert_eq!(
            (code, &answer["error"]["code"]),
            (5, &"not_holder".into()),
            "{verb}"
        );
        assert!(new["token"].as_u64() > old["token"].as_u64());
        assert_eq!(
            lease_on(&world, "WORK-1").expect("held")["lease_id"],
            new["lease_id"]
        );
        let _ = world.jit_as("agent:quick", ["claim", "release", "WORK-1"]).ok();
    }

    // It stood still, and nobody came: renewing is a new grant with a new token.
    let old = world.jit_as("agent:slow", short).ok().json();
    let lease = old["lease_id"].as_str().expect("an id");
    let words = ["claim", "renew", lease, "--ttl", "60", "--json"];
    let stopped = Stopped::after(&world, &call, nth, "agent:slow", &words);
    wait_for_expiry(&world, "WORK-1");
    let (code, answer) = stopped.go_on();
    assert_eq!(code, 0, "{answer}");
    assert_eq!(answer["regranted"], true, "{answer}");
    assert!(answer["token"].as_u64() > old["token"].as_u64(), "{answer}");
    assert_eq!(
        lease_on(&world, "WORK-1").expect("held")["token"],
        answer["token"]
    );
    let _ = world.jit_as("agent:slow", ["claim", "release", "WORK-1"]).ok();

    // It stands still with the lock in its hand: others are told that the store is busy, and it gets what it asked for
    // when it goes on.
    let words = ["claim", "acquire", "WORK-1", "--ttl", "60", "--json"];
    let stopped = Stopped::after(&world, "flock", 1, "agent:slow", &words);
    let quick = ["claim", "acquire", "WORK-1", "--json", "--lock-timeout", "0"];
    let busy = world.jit_as("agent:quick", quick).exits(4).json();
    assert_eq!(busy["error"]["code"], "busy", "{busy}");
    assert!(lease_on(&world, "WORK-1").is_none(), "readers see what is there");
    let (code, answer) = stopped.go_on();
    assert_eq!(code, 0, "{answer}");
    let held = world.jit_as("agent:quick", quick).exits(4).json();
    assert_eq!(held["error"]["code"], "held", "{held}");
    world.validates();
}

fn boots(world: &World) -> usize {
    let events = world.events();
    events.iter().filter(|event| event["type"] == "boot").count()
}

#[test]
#[cfg(target_os = "linux")]
fn b6_a_reboot_anchors_deadlines_once_and_leaves_leases_their_time() {
    let Some(mounts) = own_mounts() else { return };
    let world = world_with(&["LONG-1", "OVER-1", "FREE-1", "FREE-2", "FREE-3", "FREE-4"]);
    let _ = world
        .jit_as("agent:one", ["claim", "acquire", "LONG-1", "--ttl", "600"])
        .ok();
    let _ = world
        .jit_as("agent:one", ["claim", "acquire", "OVER-1", "--ttl", "1"])
        .ok();
    wait_for_expiry(&world, "OVER-1");
    let before = boots(&world);
    assert_eq!(before, 1, "the log begins with one");
    let left = remaining(&world, "LONG-1");

    let way = world.after_reboot(&mounts, OTHER_BOOT);
    let rebooted = |agent: &str, words: &[&str]| world.run(world.jit_by_way_of(&way, agent, words));
    // Readers see it already, and write nothing.
    let list = rebooted("agent:two", &["claim", "list", "--json"]).ok().json();
    assert_eq!(list["active"].as_array().map(Vec::len), Some(1), "{list}");
    let seen = list["active"][0]["remaining_secs"].as_u64().expect("a number");
    assert!(seen <= left && seen + 60 > left, "{seen} s after {left} s");
    assert_eq!(
        boots(&world),
        before,
        "reading does not write, and this boot is still the old one"
    );

    let refused = rebooted("agent:two", &["claim", "acquire", "LONG-1", "--json"]);
    assert_eq!(refused.exits(4).json()["error"]["code"], "held");
    let granted = rebooted(
        "agent:two",
        &["claim", "acquire", "OVER-1", "--ttl", "600", "--json"],
    );
    assert_eq!(granted.ok().json()["agent_id"], "agent:two");
    // Many at once in the new boot: one record of it is enough.
    thread::scope(|scope| {
        for n in 1..=4 {
            let rebooted = &rebooted;
            scope.spawn(move || {
                let issue = format!("FREE-{n}");
                let _ = rebooted(&format!("agent:many-{n}"), &["claim", "acquire", &issue]).ok();
            });
        }
    });
    let events = rebooted("agent:two", &["events", "--type", "boot", "--json"])
        .ok()
        .json();
    let ids: Vec<_> = events["events"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|event| {
            event["payload"]["boot_id"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
        .collect();
    assert_eq!(ids.len(), before + 1, "{ids:?}");
    assert_eq!(ids.last().map(String::as_str), Some(OTHER_BOOT));
    let list = rebooted("agent:two", &["claim", "list", "--json"]).ok().json();
    let long = list["active"]
        .as_array()
        .and_then(|all| all.iter().find(|lease| lease["issue_id"] == "LONG-1"));
    let long = long.expect("still held");
    let now = long["remaining_secs"].as_u64().expect("a number");
    assert!(now <= seen && now + 60 > seen, "{now} s after {seen} s");
    // Its holder goes on as if nothing had happened.
    let _ = rebooted("agent:one", &["claim", "renew", "LONG-1", "--ttl", "700"]).ok();
    let _ = rebooted("agent:one", &["claim", "release", "LONG-1"]).ok();
    let _ = rebooted("agent:two", &["validate"]).ok();
}

#[test]
#[cfg(target_os = "linux")]
fn b6_a_clock_set_back_before_a_reboot_lengthens_no_lease() {
    let Some(mounts) = own_mounts() else { return };
    if without("faketime") {
        return;
    }
    for (offset, stays) in [("-1d", true), ("+1d", false)] {
        let world = world_with(&["WORK-1"]);
        let library = library(&world);
        let _ = world
            .jit_as("agent:one", ["claim", "acquire", "WORK-1", "--ttl", "600"])
            .ok();
        let way = world.after_reboot(&mounts, OTHER_BOOT);
        let rebooted = |agent: &str, words: &[&str]| {
            let mut command = world.jit_by_way_of(&way, agent, words);
            fake(&mut command, &library, offset);
            world.run(command)
        };
        let check = || {
            let list = rebooted("agent:two", &["claim", "list", "--json"]).ok().json();
            match list["active"].as_array().and_then(|leases| leases.first()) {
                Some(lease) if stays => {
                    let left = lease["remaining_secs"].as_u64().expect("a number");
                    assert!((1..=600).contains(&left), "{offset}: {lease}");
                }
                None if !stays => {}
                other => panic!("{offset}: {other:?}"),
            }
        };
        check();
        let ran = rebooted(
            "agent:two",
            &["claim", "acquire", "WORK-1", "--ttl", "600", "--json"],
        );
        let _ = ran.exits(if stays { 4 } else { 0 });
        // The first writer of the boot may be one that is refused: then the next one says it.
        let _ = rebooted("human:setup", &["issue", "create", "More"]).ok();
        if stays {
            check();
        }
        let _ = rebooted("agent:two", &["validate"]).ok();
        say(&format!("clock {offset} over a reboot: as it should be"));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn d3_a_reader_that_stood_still_while_a_segment_was_left_sees_no_gap() {
    if without("strace") {
        return;
    }
    let world = world_with(&["WORK-1", "WORK-2"]);
    // It stands still when it has seen which segments there are.
    let stopped = Stopped::after(&world, "getdents64", 2, "agent:reader", &["events", "--json"]);
    let way = [
        "strace",
        "-f",
        "-qq",
        "-o/dev/null",
        "-etrace=fdatasync",
        "-einject=fdatasync:error=EIO",
    ];
    let words = ["claim", "acquire", "WORK-1", "--json"];
    let _ = world.run(world.jit_by_way_of(&way, "agent:one", words)).exits(7);
    // Leaves the segment whose sync has failed.
    let _ = world.jit_as("agent:two", ["claim", "acquire", "WORK-2"]).ok();
    let (code, seen) = stopped.go_on();
    assert_eq!(code, 0, "{seen}");
    for (n, event) in seen["events"].as_array().expect("a list").iter().enumerate() {
        assert_eq!(event["sequence"], n as u64 + 1, "gapless");
    }
}
