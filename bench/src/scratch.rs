//! A repository to measure in, on the disk that the build lives on, gone afterwards.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::spawn::Program;

/// The settings that name whoever commits.
pub const WHO: [&str; 4] = ["-c", "user.name=bench", "-c", "user.email=bench@example.com"];

/// A folder that is removed with everything in it when the benchmark ends, unless it ends with an error.
#[derive(Debug)]
pub struct Scratch {
    root: PathBuf,
    /// Where the measured programs' stderr goes: a pipe would have to be read while they run.
    pub complaints: File,
    keep: bool,
}

impl Scratch {
    pub fn create(parent: &Path) -> io::Result<Self> {
        let root = parent.join(format!("bench-scratch-{}", std::process::id()));
        fs::create_dir(&root).map_err(|e| io::Error::other(format!("{}: {e}", root.display())))?;
        let complaints = File::options()
            .create(true)
            .append(true)
            .open(root.join("stderr.txt"))?;
        Ok(Self {
            root,
            complaints,
            keep: false,
        })
    }

    pub fn keep(&mut self) {
        self.keep = true;
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn dir(&self, name: &str) -> io::Result<PathBuf> {
        let dir = self.root.join(name);
        fs::create_dir_all(&dir)?;
        Ok(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_dir_all(&self.root);
        }
    }
}

/// The tools under measurement, by full path.
#[derive(Debug)]
pub struct Tools {
    pub jit: PathBuf,
    pub git: PathBuf,
    pub floor: PathBuf,
    pub hello: PathBuf,
    pub read_issues: PathBuf,
    pub speaker: PathBuf,
}

/// A git repository with `jit` in it.
#[derive(Debug)]
pub struct Repo<'a> {
    pub dir: PathBuf,
    home: PathBuf,
    tools: &'a Tools,
}

impl<'a> Repo<'a> {
    pub fn create(scratch: &Scratch, tools: &'a Tools, name: &str) -> io::Result<Self> {
        let repo = Self {
            dir: scratch.dir(name)?,
            home: scratch.dir("home")?,
            tools,
        };
        repo.git(&["init", "-q"]).run()?;
        repo.commit("start")?;
        repo.jit(&["init"]).run()?;
        Ok(repo)
    }

    pub fn commit(&self, message: &str) -> io::Result<()> {
        self.git(&WHO)
            .args(["commit", "-q", "--allow-empty", "-m", message])
            .run()
    }

    pub fn read_issues(&self) -> Program {
        Program::new(&self.tools.read_issues, &self.dir, &self.home).args([".jit/issues"])
    }

    pub fn git(&self, args: &[&str]) -> Program {
        Program::new(&self.tools.git, &self.dir, &self.home).args(args)
    }

    pub fn jit(&self, args: &[&str]) -> Program {
        Program::new(&self.tools.jit, &self.dir, &self.home).args(args)
    }

    pub fn hello(&self) -> Program {
        Program::new(&self.tools.hello, &self.dir, &self.home)
    }

    pub fn floor(&self, flags: &[&str], dir: &Path) -> Program {
        Program::new(&self.tools.floor, &self.dir, &self.home)
            .args(flags)
            .args([dir])
    }

    /// Makes an issue, and gives the pair of commands that take it and give it back.
    pub fn issue(&self, number: usize) -> io::Result<[Program; 2]> {
        let id = format!("BENCH-{number:04}");
        let agent = format!("agent:b{number}");
        self.jit(&[
            "issue",
            "create",
            &format!("benchmark {number}"),
            "--id",
            &id,
            "--json",
        ])
        .run()?;
        Ok(
            ["acquire", "release"]
                .map(|verb| self.jit(&["claim", verb, &id, "--agent-id", &agent, "--json"])),
        )
    }
}

/// Whether a folder lives in memory, where a sync is free and the comparison would say nothing.
#[cfg(target_os = "linux")]
pub fn in_memory(dir: &Path) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;
    rustix::fs::statfs(dir).is_ok_and(|s| [TMPFS, RAMFS].contains(&(s.f_type as u64 & 0xffff_ffff)))
}

/// Not known how to ask here; the folder under `target` is on a disk as a rule.
#[cfg(not(target_os = "linux"))]
pub fn in_memory(_dir: &Path) -> bool {
    false
}
