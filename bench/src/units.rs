//! A large repository with branches and worktrees, to measure the cost of merging work.
//!
//! Made with `git fast-import`: [`FILES`] files in folders of a hundred, and [`BRANCHES`] branches that change ten files of
//! their own each; every fifth changes the same line of one file too, so some pairs conflict and most do not.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout};
use std::time::{Duration, Instant};

use crate::scratch::Repo;
use crate::spawn::Program;

pub const FILES: usize = 20_000;
pub const BRANCHES: usize = 50;
pub const WORKTREES: usize = 20;

/// A file of the repository.
pub fn path(n: usize) -> String {
    format!("src/part-{:03}/file-{n:05}.txt", n / 100)
}

pub fn content(n: usize, own: &str) -> String {
    (0..20).fold(format!("{own}\n"), |mut text, line| {
        let _ = writeln!(text, "line {line} of file {n}, as somebody wrote it");
        text
    })
}

pub fn branch(n: usize) -> String {
    format!("work-{n:02}")
}

/// Fills the repository and checks it out.
pub fn fill(repo: &Repo<'_>) -> io::Result<()> {
    let main = String::from_utf8_lossy(&repo.git(&["symbolic-ref", "HEAD"]).output()?)
        .trim()
        .to_owned();
    let mut stream = String::new();
    let begin = |stream: &mut String, name: &str, from: &str| {
        let who = "bench <bench@example.com> 1700000000 +0000";
        let _ = write!(
            stream,
            "commit {name}\ncommitter {who}\ndata 4\nwork\nfrom {from}\n"
        );
    };
    let write = |stream: &mut String, n: usize, own: &str| {
        let text = content(n, own);
        let _ = write!(
            stream,
            "M 100644 inline {}\ndata {}\n{text}\n",
            path(n),
            text.len()
        );
    };
    begin(&mut stream, &main, &format!("{main}^0"));
    for n in 0..FILES {
        write(&mut stream, n, "as it was");
    }
    for n in 0..BRANCHES {
        begin(&mut stream, &format!("refs/heads/{}", branch(n)), &main);
        for own in 0..10 {
            write(&mut stream, 100 + n * 10 + own, &format!("changed by {n}"));
        }
        if n % 5 == 0 {
            write(&mut stream, 0, &format!("also changed by {n}"));
        }
    }
    let file = repo.dir.with_extension("import");
    std::fs::write(&file, stream)?;
    repo.git(&["fast-import", "--quiet"]).input(&file).run()?;
    repo.git(&["reset", "-q", "--hard"]).run()
}

/// Makes worktrees in both ways, in turn, and removes them untimed: `git worktree add` and `jit worktree create`.
pub fn create(repo: &Repo<'_>, rounds: usize, complaints: &File) -> io::Result<[Vec<Duration>; 2]> {
    let mut took = [Vec::new(), Vec::new()];
    // The first round warms up.
    for round in 0..=rounds {
        for turn in 0..2 {
            let which = (round + turn) % 2;
            let name = format!("made-{which}-{round}");
            let folder = repo.dir.with_file_name(&name);
            let shown = folder.to_string_lossy();
            let program = match which {
                0 => repo.git(&["worktree", "add", "-q", "-b", &name, &shown]),
                _ => repo.jit(&["worktree", "create", &name, "--path", &shown, "--json"]),
            };
            let time = program.time(complaints)?;
            if round > 0 {
                took[which].push(time);
            }
            std::fs::remove_dir_all(&folder)?;
            repo.git(&["worktree", "prune"]).run()?;
        }
    }
    repo.jit(&["worktree", "prune", "--json"]).run()?;
    Ok(took)
}

/// All pairs of the branches: one process a pair, and jit's answer to all of them.
pub fn pairs(repo: &Repo<'_>, rounds: usize, complaints: &File) -> io::Result<[Vec<Duration>; 2]> {
    let names: Vec<String> = (0..BRANCHES).map(branch).collect();
    let mut all = vec!["conflicts", "--json"];
    all.extend(names.iter().map(String::as_str));
    let jit = repo.jit(&all);
    let singles: Vec<Program> = names
        .iter()
        .enumerate()
        .flat_map(|(n, a)| names.iter().skip(n + 1).map(move |b| (a, b)))
        // 1 says that they do not merge.
        .map(|(a, b)| repo.git(&["merge-tree", "--write-tree", a, b]).may_exit(1))
        .collect();
    let mut took = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        let mut git = Duration::ZERO;
        for one in &singles {
            git += one.time(complaints)?;
        }
        took[0].push(git);
        for _ in 0..3 {
            took[1].push(jit.time(complaints)?);
        }
    }
    Ok(took)
}

/// `jit conflicts --watch`, and what it says.
struct Watcher {
    process: Child,
    lines: BufReader<ChildStdout>,
}

impl Watcher {
    fn start(repo: &Repo<'_>, complaints: &File) -> io::Result<Self> {
        let mut process = repo.jit(&["conflicts", "--watch", "--json"]).start(complaints)?;
        let lines = process.stdout.take().map(BufReader::new);
        let lines = lines.ok_or_else(|| io::Error::other("the watch has no output"))?;
        Ok(Self { process, lines })
    }

    fn next(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.lines.read_line(&mut line)? {
            0 => Err(io::Error::other("the watch ended")),
            _ => Ok(line),
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// From the end of a save in one of many worktrees to the new picture.
pub fn saves(repo: &Repo<'_>, rounds: usize, complaints: &File) -> io::Result<Vec<Duration>> {
    let folders: Vec<PathBuf> = (0..WORKTREES)
        .map(|n| repo.dir.with_file_name(format!("live-{n:02}")))
        .collect();
    for (n, folder) in folders.iter().enumerate() {
        repo.git(&["worktree", "add", "-q", &folder.to_string_lossy(), &branch(n)])
            .run()?;
    }
    // The main checkout changes what the worktrees will.
    let save = |folder: &Path, own: &str| std::fs::write(folder.join(path(1)), content(1, own));
    save(&repo.dir, "changed in the main checkout")?;
    let mut watcher = Watcher::start(repo, complaints)?;
    watcher.next()?;
    let mut took = Vec::new();
    for round in 0..rounds {
        let folder = &folders[round % folders.len()];
        for (own, conflicts) in [("changed here", true), ("as it was", false)] {
            // People pause between saves, and the watcher pauses after each check.
            std::thread::sleep(Duration::from_millis(300));
            save(folder, own)?;
            let begun = Instant::now();
            let line = watcher.next()?;
            took.push(begun.elapsed());
            if line.contains(&path(1)) != conflicts {
                return Err(io::Error::other(format!("the watch said {line}")));
            }
        }
    }
    drop(watcher);
    for folder in folders {
        std::fs::remove_dir_all(folder)?;
    }
    repo.git(&["worktree", "prune"]).run()?;
    Ok(took)
}
