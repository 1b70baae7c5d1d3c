//! The cost of landing and of removing finished work, beside what git needs for the same.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::scratch::{Repo, WHO};
use crate::units;

/// Units that land with one command.
pub const BATCH: usize = 100;
/// A smaller batch, to see whether a unit costs more in a larger one.
pub const FEW: usize = 25;
/// Files of a small repository.
pub const FILES: usize = 50;

/// The processor time of all children that have ended, in ticks of a hundredth of a second.
fn used_by_children() -> io::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name of the program, in parentheses, may contain anything.
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let ticks = |at: usize| words.get(at).and_then(|word| word.parse::<f64>().ok());
    let both = ticks(13).zip(ticks(14)).map(|(user, system)| user + system);
    both.ok_or_else(|| io::Error::other("/proc/self/stat cannot be read"))
}

/// Fills a small repository, with two branches that change a file of their own each.
pub fn fill(repo: &Repo<'_>) -> io::Result<()> {
    for n in 0..FILES {
        let file = repo.dir.join(units::path(n));
        std::fs::create_dir_all(file.parent().unwrap_or(&repo.dir))?;
        std::fs::write(file, units::content(n, "as it was"))?;
    }
    repo.git(&["add", "-A"]).run()?;
    repo.commit("files")?;
    for n in 1..3 {
        repo.git(&["switch", "-q", "-c", &units::branch(n)]).run()?;
        std::fs::write(repo.dir.join(units::path(n)), units::content(n, "changed"))?;
        repo.git(&["add", "-A"]).run()?;
        repo.commit("work")?;
        repo.git(&["switch", "-q", "-"]).run()?;
    }
    Ok(())
}

fn beside(repo: &Repo<'_>, name: &str) -> PathBuf {
    repo.dir.with_file_name(name)
}

/// A unit with one commit that adds a file.
fn unit(repo: &Repo<'_>, name: &str) -> io::Result<()> {
    let folder = beside(repo, name);
    let shown = folder.to_string_lossy();
    repo.jit(&[
        "worktree", "create", name, "--path", &shown, "--branch", name, "--json",
    ])
    .run()?;
    std::fs::write(folder.join(format!("new-{name}")), "new\n")?;
    repo.git(&["-C", &shown, "add", "-A"]).run()?;
    repo.git(&["-C", &shown])
        .args(WHO)
        .args(["commit", "-q", "-m", name])
        .run()
}

/// The processor time of merging this many branches with git, one after the other, and of landing them with one command.
pub fn batch(repo: &Repo<'_>, count: usize) -> io::Result<[f64; 2]> {
    let names: Vec<String> = (0..count).map(|n| format!("of-{count}-{n:03}")).collect();
    for name in &names {
        unit(repo, name)?;
    }
    let plain = format!("plain-{count}");
    let shown = beside(repo, &plain).to_string_lossy().into_owned();
    repo.git(&["worktree", "add", "-q", "-b", &plain, &shown]).run()?;
    let begun = used_by_children()?;
    for name in &names {
        repo.git(&["-C", &shown])
            .args(WHO)
            .args(["merge", "-q", "--no-ff", "--no-edit", name])
            .run()?;
    }
    let git = used_by_children()? - begun;
    repo.git(&["worktree", "remove", "--force", &shown]).run()?;
    let begun = used_by_children()?;
    repo.jit(&["worktree", "merge", "--all", "--json"]).run()?;
    let jit = used_by_children()? - begun;
    let landed = repo
        .git(&["branch", "--list", "--no-merged", "HEAD", "of-*"])
        .output()?;
    if !landed.is_empty() {
        return Err(io::Error::other("not every unit has landed"));
    }
    for name in &names {
        repo.jit(&["worktree", "cleanup", name, "--json"]).run()?;
    }
    Ok([git, jit])
}

/// The removal of a worktree whose work has landed: by git, by git with its branch, and by jit, in turn.
pub fn remove(repo: &Repo<'_>, rounds: usize, complaints: &File) -> io::Result<[Vec<Duration>; 3]> {
    let mut took = [Vec::new(), Vec::new(), Vec::new()];
    // The first round warms up.
    for round in 0..=rounds {
        for turn in 0..2 {
            let name = format!("gone-{}-{round}", (round + turn) % 2);
            unit(repo, &name)?;
            repo.jit(&["worktree", "merge", &name, "--json"]).run()?;
            let shown = beside(repo, &name).to_string_lossy().into_owned();
            if (round + turn) % 2 == 0 {
                let tree = repo.git(&["worktree", "remove", &shown]).time(complaints)?;
                let branch = repo.git(&["branch", "-q", "-d", &name]).time(complaints)?;
                repo.jit(&["worktree", "cleanup", &name, "--json"]).run()?;
                if round > 0 {
                    took[0].push(tree);
                    took[1].push(tree + branch);
                }
            } else {
                let jit = repo.jit(&["worktree", "cleanup", &name, "--json"]);
                let time = jit.time(complaints)?;
                if round > 0 {
                    took[2].push(time);
                }
            }
        }
    }
    Ok(took)
}
