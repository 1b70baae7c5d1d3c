//! Repositories with many issues, to see what their number costs.

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use crate::scratch::{Repo, Scratch};
use crate::spawn::{self, Program};

/// Fills a repository with issues as a team would have them: some done, labels, texts, every third waiting for another.
/// They are imported and committed, so the tree is what a clone of it would be.
pub fn fill(repo: &Repo<'_>, many: usize) -> io::Result<()> {
    let mut lines = String::new();
    for n in 0..many {
        let state = ["ready", "ready", "ready", "backlog", "done"][n % 5];
        let priority = ["normal", "high", "normal", "low"][n % 4];
        let depends = if n % 3 == 0 && n > 20 {
            format!("\"ISSUE-{:06}\"", n - 1 - (n * 7) % 20)
        } else {
            String::new()
        };
        let _ = writeln!(
            lines,
            r#"{{"id":"ISSUE-{n:06}","title":"Issue number {n} about something that takes a while to say","type":"task","state":"{state}","priority":"{priority}","labels":["part-{}","area-{}"],"depends_on":[{depends}],"description":"What is to be done about {n}.\n\nIn more words.\n"}}"#,
            n % 7,
            n % 11
        );
    }
    let file = repo.dir.with_extension("jsonl");
    fs::write(&file, lines)?;
    let file = file.to_string_lossy().into_owned();
    repo.jit(&[
        "issue", "import", "--from", "jsonl", &file, "--json", "--fields", "problems",
    ])
    .run()?;
    repo.git(&["add", "-A"]).run()?;
    repo.commit("issues")?;
    // Whatever the first look at a tree costs is not what is measured.
    repo.jit(&["issue", "list", "--json"]).run()
}

/// Another tracker that keeps its issues as files in the repository, with as many of them: the program that lists what is
/// to be done. `None` where it is not installed.
///
/// Backlog.md, set up as is best for it: no remotes, no look at other branches.
pub fn peer(repo: &Repo<'_>, scratch: &Scratch, many: usize) -> io::Result<Option<Program>> {
    let Some(backlog) = spawn::on_path("backlog") else {
        return Ok(None);
    };
    let dir = scratch.dir("peer")?;
    let home = scratch.dir("peer-home")?;
    let start = |program: &Path, args: &[&str]| Program::new(program, &dir, &home).args(args);
    repo.git(&["init", "-q", &dir.to_string_lossy()]).run()?;
    start(
        &backlog,
        &["init", "peer", "--defaults", "--integration-mode", "none"],
    )
    .run()?;
    for (key, value) in [("remoteOperations", "false"), ("checkActiveBranches", "false")] {
        start(&backlog, &["config", "set", key, value]).run()?;
    }
    for n in 1..=many {
        let depends = if n % 3 == 0 && n > 20 {
            format!("\n  - TASK-{}", n - 1 - (n * 7) % 20)
        } else {
            " []".to_owned()
        };
        let status = ["To Do", "To Do", "To Do", "In Progress", "Done"][n % 5];
        let text = format!(
            "---\nid: TASK-{n}\ntitle: Issue number {n} about something that takes a while to say\nstatus: {status}\nassignee: []\n\
             created_date: '2026-01-01 00:00'\nlabels:\n  - part-{}\n  - area-{}\ndependencies:{depends}\npriority: medium\nordinal: {n}\n---\n\n\
             ## Description\n\nWhat is to be done about {n}.\n\nIn more words.\n",
            n % 7,
            n % 11
        );
        fs::write(dir.join(format!("backlog/tasks/task-{n} - Issue.md")), text)?;
    }
    let list = start(&backlog, &["task", "list", "--plain", "-s", "To Do"]);
    // Now and then it ends before all that it says is read.
    for _ in 0..5 {
        let answer = list.output()?;
        if answer.split(|b| *b == b'\n').count() >= many / 2 {
            return Ok(Some(list));
        }
    }
    Ok(None)
}
