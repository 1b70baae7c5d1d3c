//! Many writes through the command line: the state beside the log stays small and right.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use std::{fs, thread};

use jit_testkit::world::World;
use jit_testkit::world::tools::{field, long, say};

const JIT: &str = env!("CARGO_BIN_EXE_jit");

#[test]
fn heavy_b8_after_many_claims_the_state_is_small_and_right() {
    let pairs = if long() { 5_000 } else { 400 };
    let agents = 4;
    let world = World::with_jit(JIT);
    for n in 0..agents {
        for id in [format!("BUSY-{n}"), format!("KEPT-{n}")] {
            let _ = world
                .jit_as("human:setup", ["issue", "create", "Work", "--id", &id])
                .ok();
        }
    }
    let began = Instant::now();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for n in 0..agents {
            let (world, next) = (&world, &next);
            scope.spawn(move || {
                let agent = format!("agent:busy-{n}");
                let (busy, kept) = (format!("BUSY-{n}"), format!("KEPT-{n}"));
                let _ = world
                    .jit_as(&agent, ["claim", "acquire", &kept, "--ttl", "8h"])
                    .ok();
                while next.fetch_add(1, Ordering::Relaxed) < pairs {
                    let _ = world.jit_as(&agent, ["claim", "acquire", &busy]).ok();
                    let _ = world.jit_as(&agent, ["claim", "release", &busy]).ok();
                }
            });
        }
    });
    let wrote = 2 * pairs + agents;
    let each = began.elapsed() / u32::try_from(wrote).expect("not that many");

    let list = world.jit(["claim", "list", "--json"]).ok().json();
    let held: BTreeSet<&str> = field(&list["active"], "issue_id").into_iter().collect();
    let kept: Vec<String> = (0..agents).map(|n| format!("KEPT-{n}")).collect();
    assert_eq!(held, kept.iter().map(String::as_str).collect(), "{list}");
    let report = world.validates();
    // The two lines that begin a log, the issues, the claims.
    let lines = 2 + 2 * agents + wrote;
    assert_eq!(report["lines"], lines, "{report}");
    assert_eq!(report["leases"], agents);

    let mut runs = 0;
    let mut journal = 0;
    for entry in fs::read_dir(world.control().join("state")).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        let len = entry.metadata().expect("metadata").len();
        if name.starts_with("run-") {
            runs += 1;
        } else if name == "journal" {
            journal = len;
        } else {
            panic!("{name} was left behind");
        }
    }
    say(&format!(
        "{wrote} writes, {each:?} each with {agents} at once; {runs} runs, a journal of {journal} bytes"
    ));
    assert!((1..=8).contains(&runs), "{runs} runs");
    assert!(
        journal < 256 * 1024,
        "a journal of {journal} bytes was never folded"
    );
    let history = world
        .jit(["claim", "history", "--issue", "BUSY-0", "--limit", "4", "--json"])
        .ok()
        .json();
    assert_eq!(history["records"].as_array().map(Vec::len), Some(4));
}
