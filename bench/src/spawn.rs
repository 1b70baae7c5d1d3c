//! Starting programs and timing them, from before the start to after the end: what a caller waits for.
//!
//! The environment is emptied except for PATH and HOME, and every program is named by its full path, so that the
//! standard library can use `posix_spawn` and all sides of a comparison start in the same way.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// One program with its arguments, ready to be started any number of times.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    args: Vec<OsString>,
    dir: PathBuf,
    home: PathBuf,
    input: Option<PathBuf>,
    /// An exit code that is an answer too.
    also: Option<i32>,
}

impl Program {
    pub fn new(path: &Path, dir: &Path, home: &Path) -> Self {
        Self {
            path: path.into(),
            args: Vec::new(),
            dir: dir.into(),
            home: home.into(),
            input: None,
            also: None,
        }
    }

    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    /// Reads this file as its standard input.
    pub fn input(mut self, file: &Path) -> Self {
        self.input = Some(file.into());
        self
    }

    /// Ending with this code is no failure.
    pub fn may_exit(mut self, code: i32) -> Self {
        self.also = Some(code);
        self
    }

    /// Starts it, to be read from while it runs.
    pub fn start(&self, complaints: &File) -> io::Result<Child> {
        self.command()?
            .stdout(Stdio::piped())
            .stderr(complaints.try_clone()?)
            .spawn()
            .map_err(|e| self.failed(&e.to_string()))
    }

    fn command(&self) -> io::Result<Command> {
        let mut command = Command::new(&self.path);
        command
            .args(&self.args)
            .current_dir(&self.dir)
            .env_clear()
            .env("HOME", &self.home);
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        match &self.input {
            Some(file) => command.stdin(File::open(file)?),
            None => command.stdin(Stdio::null()),
        };
        Ok(command)
    }

    /// Runs it once, untimed, for its effect.
    pub fn run(&self) -> io::Result<()> {
        self.output().map(drop)
    }

    /// Runs it once, untimed, for what it says.
    pub fn output(&self) -> io::Result<Vec<u8>> {
        let out = self
            .command()?
            .output()
            .map_err(|e| self.failed(&e.to_string()))?;
        if out.status.success() {
            return Ok(out.stdout);
        }
        let said = String::from_utf8_lossy(&out.stderr);
        Err(self.failed(&format!("{}: {}", out.status, said.trim())))
    }

    /// Runs it once and tells how long that took. A program that fails has no time: it is an error.
    pub fn time(&self, complaints: &File) -> io::Result<Duration> {
        let mut command = self.command()?;
        command.stdout(Stdio::null()).stderr(complaints.try_clone()?);
        let start = Instant::now();
        let status = command.status();
        let took = start.elapsed();
        match status {
            Ok(s) if s.success() || (self.also.is_some() && s.code() == self.also) => Ok(took),
            Ok(s) => Err(self.failed(&format!(
                "{s}; what it said is in the scratch folder's stderr.txt"
            ))),
            Err(e) => Err(self.failed(&e.to_string())),
        }
    }

    fn failed(&self, why: &str) -> io::Error {
        let args = self.args.join(OsStr::new(" "));
        io::Error::other(format!("{} {}: {why}", self.path.display(), args.display()))
    }
}

/// Times the programs in turn, `rounds` times, so that whatever else the machine does hits all of them alike. A few rounds
/// at the start are not counted.
///
/// The order is drawn anew for each round, always the same way: a fixed order gave the one that came after the largest
/// program 5 % more, from cold caches. Each of `pairs` keeps its order: a release comes after its acquire.
pub fn interleave(
    programs: &[Program],
    pairs: &[(usize, usize)],
    rounds: usize,
    complaints: &File,
) -> io::Result<Vec<Vec<Duration>>> {
    const WARM_UP: usize = 10;
    let mut samples = vec![Vec::with_capacity(rounds); programs.len()];
    let mut order: Vec<usize> = (0..programs.len()).collect();
    let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..rounds + WARM_UP {
        shuffle(&mut order, &mut dice);
        for (first, second) in pairs {
            keep_order(&mut order, *first, *second);
        }
        for &i in &order {
            let took = programs[i].time(complaints)?;
            if round >= WARM_UP {
                samples[i].push(took);
            }
        }
    }
    Ok(samples)
}

fn shuffle(order: &mut [usize], dice: &mut u64) {
    for last in (1..order.len()).rev() {
        // xorshift64: no quality is needed, only that it is the same in each run.
        *dice ^= *dice << 13;
        *dice ^= *dice >> 7;
        *dice ^= *dice << 17;
        order.swap(last, (*dice % (last as u64 + 1)) as usize);
    }
}

fn keep_order(order: &mut [usize], first: usize, second: usize) {
    let at = |what| order.iter().position(|&i| i == what);
    if let (Some(a), Some(b)) = (at(first), at(second))
        && a > b
    {
        order.swap(a, b);
    }
}

/// Where the shell would find a program.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_changes_but_pairs_stay() {
        let (mut order, mut dice) = (vec![0, 1, 2, 3, 4], 1);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..500 {
            shuffle(&mut order, &mut dice);
            keep_order(&mut order, 1, 3);
            let at = |what| order.iter().position(|&i| i == what);
            assert!(at(1) < at(3));
            seen.insert(order.clone());
        }
        assert_eq!(seen.len(), 60, "all of the orders that keep the pair");
    }
}
