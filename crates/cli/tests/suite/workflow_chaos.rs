//! G12: a coordinator that is killed anywhere is followed by another that goes on, and neither does anything twice.

use std::process::Stdio;
use std::time::Duration;

use jit_testkit::rng::{DEFAULT_SEED, Rng, SEED_VAR, SeedOnPanic, seed_in_env};
use jit_testkit::world::tools::{long, say};

use crate::running::Yard;

#[test]
fn heavy_g12_a_workflow_of_twelve_units_survives_its_coordinators() {
    let kills = if long() { 200 } else { 20 };
    let seed = seed_in_env(SEED_VAR).unwrap_or(DEFAULT_SEED);
    let _shown = SeedOnPanic(seed);
    let mut rng = Rng::new(seed);
    // Some fail once, some twice; all commit in the end.
    let yard = Yard::new(
        "n=${JIT_ATTEMPT##*/}\ncase $JIT_UNIT in *3|*7) [ $n -gt 1 ] || exit 1;; *5) [ $n -gt 2 ] || exit 1;; esac\n\
         sleep 0.$((n % 3))",
    );
    let names: Vec<String> = (0..12).map(|n| format!("u{n}")).collect();
    let needs: Vec<Vec<&str>> = (0..12)
        .map(|n: usize| {
            if n >= 4 {
                vec![names[n - 4].as_str()]
            } else {
                Vec::new()
            }
        })
        .collect();
    let units: Vec<(&str, &[&str], &str)> = (0..12)
        .map(|n| (names[n].as_str(), needs[n].as_slice(), "run: {max_retries: 3}"))
        .collect();
    let plan = yard.plan("max_concurrent: 4", &units);
    let mut killed = 0;
    let mut first = true;
    while killed < kills {
        let mut command = yard.world.jit_command(&yard.world.repo());
        // The plan is given until the log knows the workflow.
        match first {
            true => command.arg("run").arg(&plan),
            false => command.args(["workflow", "resume", "flow"]),
        };
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut coordinator = command.spawn().expect("a coordinator");
        let wait = Duration::from_millis(rng.range(0, 250));
        std::thread::sleep(wait);
        if coordinator
            .try_wait()
            .expect("its state")
            .is_some_and(|status| status.success())
        {
            break;
        }
        let _ = coordinator.kill();
        let _ = coordinator.wait();
        killed += 1;
        let known = yard.world.jit(["workflow", "status", "flow", "--json"]);
        if known.code == 0 {
            first = false;
            let text = yard.orchestration();
            assert!(text.contains("\norchestration:\n"), "{text}");
        }
    }
    let last = match first {
        true => yard.world.jit(["run".as_ref(), plan.as_os_str()]),
        false => yard.world.jit(["workflow", "resume", "flow"]),
    };
    // It may have ended just before.
    assert!(
        last.code == 0 || yard.status()["status"] == "completed",
        "{} {}",
        last.stdout,
        last.stderr
    );
    say(&format!("{killed} coordinators killed"));
    for name in &names {
        assert!(yard.on_main(&format!("{name}.txt")), "{name}");
    }
    let starts = yard.starts();
    assert!(
        starts.values().all(|n| *n == 1),
        "an attempt was started twice: {starts:?}"
    );
    for (name, attempts) in [("u3", 2), ("u7", 2), ("u5", 3), ("u0", 1), ("u11", 1)] {
        let of = starts
            .keys()
            .filter(|key| key.starts_with(&format!("{name}/")))
            .count();
        assert_eq!(of, attempts, "{name}: {starts:?}");
    }
    assert_eq!(yard.survivors(), Vec::<String>::new());
    let log = yard.world.git(&yard.world.repo(), ["log", "--format=%s", "main"]);
    for name in &names {
        let commits = log
            .lines()
            .filter(|line| *line == format!("work of {name}"))
            .count();
        assert_eq!(commits, 1, "{name} landed once\n{log}");
    }
    let left = std::fs::read_dir(yard.world.root().join("repo-worktrees")).map_or(0, |dir| dir.count());
    assert_eq!(left, 0, "no worktree is left");
    yard.world.validates();
}
