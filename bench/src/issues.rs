//! Repositories with many issues, to see what their number costs.

use std::fmt::Write as _;
use std::fs;
use std::io;

use crate::scratch::Repo;

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
