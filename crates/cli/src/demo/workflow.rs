//! Part of the demo: a coordinator starts agents for a plan. One agent crashes and is retried. The coordinator is killed
//! halfway, the agents continue, and another coordinator does the rest.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use jit_store::Outcome;
use serde::Serialize;

use super::stage::{Stage, failed};
use super::{Stopped, Summary, Teller, trouble};

/// Units of the plan, each with the units that it depends on.
const UNITS: [(&str, &str); 5] = [
    ("soup", ""),
    ("bread", ""),
    ("salad", "soup"),
    ("cake", "bread"),
    ("table", "salad, cake"),
];
/// The unit whose agent crashes at the first attempt.
const CRASHES: &str = "salad";

/// Script of the agents: it commits a file and reports its usage and its result.
const AGENT: &str = r#"#!/bin/sh
cat > /dev/null
echo "$JIT_ATTEMPT" >> "$STARTS"
echo '{"kind":"started"}'
sleep 0.3
[ "$JIT_ATTEMPT" != salad/1 ] || exit 1
echo "as an agent has it" > "$JIT_UNIT.md"
git add "$JIT_UNIT.md" && git commit -q -m "$JIT_UNIT" || exit 9
echo '{"kind":"usage","tokens":{"input":1200,"output":300},"cost_usd":0.02,"turns":3}'
echo '{"kind":"result","verdict":{"is_error":false,"reason":"completed"}}'
"#;

/// The part of the `--json` document about the workflow.
#[derive(Debug, Default, Serialize)]
pub struct Worked {
    units: usize,
    attempts: usize,
    cost_usd: f64,
}

/// Writes the plan and the script of its agents into files.
fn write_plan(stage: &Stage) -> Outcome<()> {
    let agent = stage.root().join("agent.sh");
    let starts = stage.root().join("starts").display().to_string();
    std::fs::write(&agent, AGENT.replace("$STARTS", &starts)).map_err(failed("an agent"))?;
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&agent, mode).map_err(failed("an agent"))?;
    let mut plan = format!(
        "workflow_id: dinner\nmax_concurrent: 3\nstagger: 0s\nrun:\n  agent: command\n  command: [{:?}]\nunits:\n",
        agent.display().to_string()
    );
    for (unit, needs) in UNITS {
        plan.push_str(&format!(
            "  - id: {unit}\n    prompt: Make the {unit}.\n    depends_on: [{needs}]\n"
        ));
    }
    std::fs::write(stage.root().join("plan.yaml"), plan).map_err(failed("a plan"))
}

pub fn show(stage: &Stage, teller: &Teller, summary: &mut Summary) -> Result<(), Stopped> {
    write_plan(stage)?;
    teller.tell(
        "jit",
        &format!(
            "a plan of {} units; `jit run` starts an agent in a worktree for each",
            UNITS.len()
        ),
    )?;
    let plan = stage.root().join("plan.yaml");
    let quick = ("JIT_CONFIG_DISPATCH__BACKOFF_SECS", "0");
    let mut first = stage
        .jit("human:you", &stage.repo())
        .env(quick.0, quick.1)
        .arg("run")
        .arg(&plan)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed("cannot start jit"))?;
    if let Some(out) = first.stdout.take() {
        for line in BufReader::new(out).lines() {
            let line = line.map_err(failed("cannot read"))?;
            if line.contains("RUNNING") {
                break;
            }
        }
    }
    first.kill().map_err(failed("cannot kill it"))?;
    let _ = first.wait();
    teller.tell(
        "jit",
        "the coordinator is killed (SIGKILL); the agents go on without it",
    )?;
    let second = stage
        .jit("human:you", &stage.repo())
        .env(quick.0, quick.1)
        .args(["workflow", "resume", "dinner", "--json"])
        .stdin(Stdio::null())
        .output()
        .map_err(failed("cannot start jit"))?;
    let status: serde_json::Value = serde_json::from_slice(&second.stdout).unwrap_or_default();
    if status.is_null() {
        return Err(trouble(String::from_utf8_lossy(&second.stderr).into_owned()).into());
    }
    let landed = |unit: &&serde_json::Value| unit["merge_status"] == "merged";
    let starts = std::fs::read_to_string(stage.root().join("starts")).unwrap_or_default();
    let mut attempts: Vec<&str> = starts.lines().collect();
    let all = attempts.len();
    attempts.sort_unstable();
    attempts.dedup();
    let units = status["instances"]
        .as_array()
        .map_or(0, |units| units.iter().filter(landed).count());
    let cost = status["cost_usd"].as_f64().unwrap_or(0.0);
    teller.tell(
        "jit",
        &format!(
            "another one does the rest: {units} units landed, {CRASHES} at the second attempt, for ${cost:.2}"
        ),
    )?;
    let once = attempts.len() == all && all == UNITS.len() + 1;
    summary.check(
        "workflow",
        status["status"] == "completed" && units == UNITS.len() && once,
        "the plan was worked off by two coordinators, each attempt of an agent started exactly once",
    );
    summary.workflow = Worked {
        units,
        attempts: all,
        cost_usd: cost,
    };
    Ok(())
}
