//! Tests the commit that the target would become (H6), in a separate worktree that no one else uses.
//!
//! What must hold:
//!
//! - Only approved commands run, with exactly the approved text. The code that makes a [`Check`] asks for the approval
//!   first.
//! - Each trial gets a new worktree at `<control>/scratch/land-<target>-<number>`. It is locked against `git worktree
//!   prune` and removed afterwards. No two trials have the same name, so a check that outlived a killed landing cannot
//!   disturb the next trial. The next holder of the target's lock removes leftover trials. A leftover that cannot be
//!   removed, because a process still writes there, is removed by a later holder.
//! - The worktree has every file, even if the checkouts have only some (`git sparse-checkout`).
//! - All output is kept in `<control>/landing/<unit>/<check>.log`.
//!
//! The number of tests is read from the output of cargo test, cargo nextest, pytest, go test -v and jest. The number
//! at the previous landing is in `<control>/landing/counts-<target>.json`. That file is a convenience and may be
//! deleted.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jit_os::{file, mounts, random};
use jit_store::Outcome;
use sha2::{Digest as _, Sha256};

use super::Repo;
use super::candidate::Candidate;
use crate::api::landing::Validation;
use crate::api::trust::Kind;
use crate::crash_point::step;
use crate::gates::Run;
use crate::gates::run::{GRACE, run};
use crate::refusals::{failed, io_failed};
use crate::units::worktree_state::leads_to;

/// A command that must pass before the target moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub kind: Kind,
    pub name: String,
    pub command: String,
    pub timeout: Duration,
    /// The issues that require it, if it is a gate.
    pub issues: Vec<String>,
    /// The unit that it belongs to, if it runs for one unit alone.
    pub unit: Option<String>,
}

/// A candidate that passed all checks.
#[derive(Debug)]
#[must_use]
pub struct Tested {
    pub(super) candidate: Candidate,
    pub validations: Vec<Validation>,
}

#[derive(Debug)]
pub enum Verdict {
    Passed(Tested),
    Failed(Candidate, Vec<Validation>),
}

/// A short name for a branch that can be part of a path.
pub fn digest(branch: &str) -> String {
    let hash = Sha256::digest(format!("refs/heads/{branch}").as_bytes());
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

impl Candidate {
    /// Runs every check on the commit that the target would become. Stops at the first failure.
    pub fn test(self, checks: &[Check], refuse_fewer: bool) -> Outcome<Verdict> {
        if checks.is_empty() {
            return Ok(Verdict::Passed(Tested {
                candidate: self,
                validations: Vec::new(),
            }));
        }
        let repo = self.repo.clone();
        let place = Trial::make(&repo, &digest(&self.branch), self.commit())?;
        step("scratch");
        let before = counts(&repo, &self.branch);
        let mut validations = Vec::new();
        for check in checks {
            let mut found = self.run(check, &place.path);
            found.tests_before = before.get(&check.command).copied();
            let fewer = found
                .tests
                .zip(found.tests_before)
                .filter(|(now, then)| now < then);
            if let Some((now, then)) = fewer
                && refuse_fewer
                && found.passed
            {
                found.passed = false;
                found.reason = Some(format!("{now} tests passed, and {then} at the landing before"));
            }
            let passed = found.passed;
            validations.push(found);
            if !passed {
                return Ok(Verdict::Failed(self, validations));
            }
        }
        step("tested");
        Ok(Verdict::Passed(Tested {
            candidate: self,
            validations,
        }))
    }

    fn run(&self, check: &Check, dir: &Path) -> Validation {
        let last = || self.steps.last().map_or("target", |step| step.unit.as_str());
        let unit = check.unit.as_deref().unwrap_or_else(last);
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '_'
            }
        };
        let name: String = check.name.chars().map(plain).take(80).collect();
        let below = PathBuf::from("landing").join(unit).join(format!("{name}.log"));
        let vars: Vec<(OsString, OsString)> = vec![
            ("JIT_UNIT".into(), unit.into()),
            ("JIT_TARGET".into(), self.branch.clone().into()),
            ("JIT_ISSUE".into(), check.issues.join(" ").into()),
            ("JIT_GATE".into(), check.name.clone().into()),
            // The request id belongs to the landing, not to the commands that the check runs.
            ("JIT_REQUEST_ID".into(), "".into()),
        ];
        let path = self.repo.control.join(&below);
        let mut log = output_file(&path);
        let ran = {
            let mut nowhere = std::io::sink();
            let output: &mut dyn std::io::Write = match &mut log {
                Ok(file) => file,
                Err(_) => &mut nowhere,
            };
            run(
                &Run {
                    command: &check.command,
                    dir,
                    timeout: check.timeout,
                    grace: GRACE,
                    vars: &vars,
                },
                output,
            )
        };
        let all = log.is_ok().then(|| read_some(&path)).flatten();
        Validation {
            kind: check.kind,
            name: check.name.clone(),
            command: check.command.clone(),
            passed: ran.passed(),
            reason: ran.reason(),
            exit_code: ran.exit_code,
            duration_ms: ran.duration_ms,
            tests: passed_tests(&all.unwrap_or_else(|| ran.tail_text())),
            tests_before: None,
            output_file: log.is_ok().then(|| below.to_string_lossy().into_owned()),
            output: ran.tail_text(),
            issues: check.issues.clone(),
        }
    }
}

/// Creates the log file. An existing file is removed, not overwritten: another process may be reading it.
fn output_file(path: &Path) -> std::io::Result<File> {
    let folders: Vec<&Path> = path.ancestors().skip(1).take(2).collect();
    for folder in folders.into_iter().rev() {
        file::make_dir_like_parent(folder)?;
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    file::create_like_parent(path)
}

fn read_some(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    file::open_real(path, File::options().read(true))
        .ok()?
        .take(8 << 20)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Prefix of the folder name of a trial, before the target's [`digest`] and a number.
pub const TRIAL: &str = "land-";

/// A worktree for one trial.
struct Trial<'a> {
    repo: &'a Repo,
    path: PathBuf,
}

impl<'a> Trial<'a> {
    fn make(repo: &'a Repo, name: &str, commit: &str) -> Outcome<Self> {
        discard_trials(repo, name);
        let number = random::u64().map_err(io_failed("use", repo.scratch()))?;
        let path = repo.scratch().join(format!("{TRIAL}{name}-{number:016x}"));
        let trial = Self { repo, path };
        // Even if the main checkout is sparse, the checks must see every file that lands.
        repo.git()
            .setting("core.sparseCheckout", "false")
            .args(["worktree", "add", "-q", "--detach", "--force", "--lock"])
            .args(["--reason", "jit is trying out a landing"])
            .arg(&trial.path)
            .arg(commit)
            .run()
            .map_err(failed)?;
        // Git copies the settings of the main checkout. A check that runs `git switch` there must get every file too.
        let settings = leads_to(&trial.path).map(|git_dir| git_dir.join("config.worktree"));
        if let Some(settings) = settings.filter(|path| path.exists()) {
            repo.git()
                .args(["config", "--file"])
                .arg(settings)
                .args(["--replace-all", "core.sparseCheckout", "false"])
                .run()
                .map_err(failed)?;
        }
        Ok(trial)
    }

    /// Removes what exists of the trial. Only this path: a prune would also drop worktrees of others.
    fn remove(&self) {
        // A folder that a check mounted there also exists elsewhere, so deleting it would delete that too.
        if mounts::first_in(&self.path).is_some() {
            return;
        }
        let _ = self
            .repo
            .git()
            .args(["worktree", "remove", "--force", "--force"])
            .arg(&self.path)
            .try_run();
        let _ = fs::remove_dir_all(&self.path);
        for entry in crate::worktree_identity::list(&self.repo.common).unwrap_or_default() {
            if !entry.is_main && entry.root.as_deref() == Some(&self.path) {
                let _ = fs::remove_dir_all(&entry.git_dir);
            }
        }
    }
}

/// The target's digest in the name of a trial's folder. Older versions used no number.
pub fn trial_target(name: &str) -> Option<&str> {
    name.strip_prefix(TRIAL)?.split('-').next()
}

/// Removes the trials that killed processes left for a target, given by its digest. The caller holds the target's
/// lock.
pub fn discard_trials(repo: &Repo, target: &str) {
    for entry in fs::read_dir(repo.scratch()).into_iter().flatten().flatten() {
        if trial_target(&entry.file_name().to_string_lossy()) == Some(target) {
            let path = entry.path();
            drop(Trial { repo, path });
        }
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        self.remove();
    }
}

fn counts_file(repo: &Repo, branch: &str) -> PathBuf {
    let name = format!("counts-{}.json", digest(branch));
    repo.control.join("landing").join(name)
}

fn counts(repo: &Repo, branch: &str) -> BTreeMap<String, u64> {
    let bytes = file::read_real(&counts_file(repo, branch), 1 << 20)
        .ok()
        .flatten();
    bytes
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}

/// Saves the number of tests for the next landing.
pub(super) fn remember_counts(repo: &Repo, branch: &str, validations: &[Validation]) {
    let mut known = counts(repo, branch);
    let found = validations
        .iter()
        .filter_map(|one| Some((one.command.clone(), one.tests?)));
    known.extend(found);
    let path = counts_file(repo, branch);
    if let Some(folder) = path.parent()
        && file::make_dir_like_parent(folder).is_ok()
        && let Ok(bytes) = serde_json::to_vec(&known)
    {
        let _ = file::replace(&path, &bytes);
    }
}

/// Returns how many tests passed, from the output of the usual test programs. `None` if the output matches none of
/// them.
pub fn passed_tests(output: &str) -> Option<u64> {
    let before = |line: &str, word: &str| -> Option<u64> {
        let at = line.find(word)?;
        let head = line.get(..at)?.trim_end();
        let digits = head.rsplit(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    };
    let mut total: Option<u64> = None;
    let mut go: u64 = 0;
    let mut add = |count: Option<u64>| {
        if let Some(count) = count {
            total = Some(total.unwrap_or(0) + count);
        }
    };
    for line in output.lines() {
        let line = line.trim();
        let pytest = line.starts_with('=') && line.contains(" in ");
        let nextest = line.starts_with("Summary [") && line.contains(" tests run: ");
        if line.starts_with("test result: ") || pytest || nextest {
            add(before(line, " passed"));
        } else if line.starts_with("Tests:") && line.contains(" total") {
            add(before(line, " passed").or(Some(0)));
        } else if line.starts_with("--- PASS:") {
            go += 1;
        }
    }
    total.or((go > 0).then_some(go))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h6_test_counts_are_read_from_what_the_usual_programs_print() {
        for (output, count) in [
            (
                "test result: ok. 7 passed; 0 failed; 1 ignored\ntest result: ok. 5 passed; 0 failed",
                Some(12),
            ),
            (
                "     Summary [   0.095s] 12 tests run: 12 passed, 71 skipped",
                Some(12),
            ),
            ("===== 3 failed, 40 passed, 2 warnings in 0.12s =====", Some(40)),
            (
                "--- PASS: TestA (0.00s)\n    --- PASS: TestA/b (0.00s)\nok  \tx\t0.1s",
                Some(2),
            ),
            ("Tests:       1 failed, 12 passed, 13 total", Some(12)),
            ("all is well, 12 passed the door", None),
            ("", None),
        ] {
            assert_eq!(passed_tests(output), count, "{output}");
        }
    }
}
