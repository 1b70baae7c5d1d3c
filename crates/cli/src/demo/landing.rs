//! Part of the demo: four workers finish at the same moment. Three land. The fourth conflicts with one of them, and its
//! work is rescued.

use std::path::PathBuf;

use jit_store::Outcome;
use serde::Serialize;
use serde_json::Value;

use super::stage::Stage;
use super::{Stopped, Summary, Teller, trouble};

/// Workers and the files they change. Two change the same file, so the later one conflicts.
const WORKERS: [(&str, &str); 4] = [
    ("eve", "menu.md"),
    ("finn", "prices.md"),
    ("gus", "opening-hours.md"),
    ("hal", "opening-hours.md"),
];
/// A file that the later one has not committed.
const NOTE: &str = "note.txt";

/// The part of the `--json` document about landings.
#[derive(Debug, Default, Serialize)]
pub struct Landings {
    landed: Vec<String>,
    escalated: Vec<String>,
    rescued: Option<String>,
}

fn folder(stage: &Stage, name: &str) -> PathBuf {
    stage.root().join("repo-worktrees").join(name)
}

fn agent(name: &str) -> String {
    format!("agent:{name}")
}

pub fn show(stage: &Stage, teller: &Teller, summary: &mut Summary) -> Result<(), Stopped> {
    for (name, file) in WORKERS {
        work(stage, name, file)?;
    }
    teller.tell(
        "jit",
        &format!("{} workers in units of their own finish at once", WORKERS.len()),
    )?;
    let mut landings = Landings::default();
    for (name, ended) in finish_all(stage) {
        let (code, report) = ended?;
        let unit = &report["units"][0];
        match (code, unit["verdict"].as_str()) {
            (0, Some("landed")) => {
                let how = unit["how"].as_str().unwrap_or("?");
                teller.tell(name, &format!("lands on main ({how}), and its worktree is gone"))?;
                landings.landed.push(name.to_owned());
            }
            (6, Some("conflict")) => {
                let path = unit["conflicts"][0]["path"].as_str().unwrap_or("?");
                let kind = unit["conflicts"][0]["kind"].as_str().unwrap_or("?");
                teller.tell(
                    name,
                    &format!("comes too late: {path} ({kind}, exit 6), left to a person"),
                )?;
                landings.escalated.push(name.to_owned());
            }
            (code, verdict) => {
                return Err(trouble(format!("{name} ended with {code}, {verdict:?}")).into());
            }
        }
    }
    if let [late] = &landings.escalated[..] {
        landings.rescued = rescue(stage, late)?;
        teller.tell(
            "you",
            &format!("give {late}'s unit up, and get back all it had, {NOTE} too, which was in no commit"),
        )?;
    }
    summary.check(
        "landed",
        landings.landed.len() == 3 && landings.escalated.len() == 1,
        "of four that finished at once three landed, and the one in the way waited for a person",
    );
    summary.check(
        "rescued",
        landings.rescued.is_some(),
        "what the fourth had was saved before its worktree went, byte for byte",
    );
    summary.landings = landings;
    Ok(())
}

/// Creates a unit with one commit.
fn work(stage: &Stage, name: &str, file: &str) -> Outcome<()> {
    let create = ["worktree", "create", name, "--json"];
    let (code, _) = stage.jit_as(&agent(name), &stage.repo(), &create)?;
    if code != 0 {
        return Err(trouble(format!("no worktree for {name} (exit {code})")));
    }
    stage.commit_file(&folder(stage, name), file, &format!("as {name} has it\n"))
}

/// Runs `jit finish` for all workers at once, each in its own process. Returns the results in the order of `WORKERS`.
fn finish_all(stage: &Stage) -> Vec<(&'static str, Outcome<(i32, Value)>)> {
    std::thread::scope(|scope| {
        let begun: Vec<_> = WORKERS
            .iter()
            .map(|(name, _)| {
                let run = move || stage.jit_as(&agent(name), &stage.repo(), &["finish", name, "--json"]);
                (*name, scope.spawn(run))
            })
            .collect();
        let ended = begun.into_iter().map(|(name, thread)| {
            let result = thread.join();
            (
                name,
                result.unwrap_or_else(|_| Err(trouble("a thread ended badly"))),
            )
        });
        ended.collect()
    })
}

/// Abandons a unit that has uncommitted work, and restores it. Returns the id of the rescue if nothing is missing.
fn rescue(stage: &Stage, name: &str) -> Outcome<Option<String>> {
    let note = folder(stage, name).join(NOTE);
    let text = b"not committed\r\n";
    std::fs::write(&note, text).map_err(|e| trouble(e.to_string()))?;
    let abandon = [
        "worktree", "abandon", name, "--reason", "too late", "--force", "--json",
    ];
    let (_, cleaned) = stage.jit_as("human:you", &stage.repo(), &abandon)?;
    let gone = !note.exists();
    let Some(id) = cleaned["rescue"].as_str() else {
        return Ok(None);
    };
    let (code, _) = stage.jit_as("human:you", &stage.repo(), &["rescue", "restore", id, "--json"])?;
    let back = std::fs::read(&note).is_ok_and(|found| found == text);
    Ok((gone && code == 0 && back).then(|| id.to_owned()))
}
