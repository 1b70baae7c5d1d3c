//! Requests that validate and repair the log and the files around it.
//!
//! What must hold:
//! - Validating changes nothing, except issue files that are behind the log. With `write_missing`, it also writes issues
//!   that no worktree and no branch has.
//! - Broken settings and a damaged log do not stop it: it reports them.

use jit_core::model::refusal::Code;
use jit_store::{LogProblem as ProblemOfLog, Outcome, Recovered as OfStore};

use crate::api::Answer;
use crate::api::Options;
use crate::api::doctor::{
    ConfigProblem, DoctorReply, IssueProblem, LogProblem, Problem, Recovered, Validated,
};
use crate::config::ConfigError;
use crate::context::Surroundings;
use crate::doctor::validate::{Audit, Finding, audit, sweep_left_overs};
use crate::hooks::git::divergence;
use crate::worktree_identity::identity::Need;

/// Help for broken settings.
const MEND: &str = "mend what the message names, then: jit validate";

fn plain(reply: DoctorReply) -> Answer {
    Answer {
        reply: reply.into(),
        warnings: Vec::new(),
    }
}

/// Compares every file with the log.
pub(super) fn validate(options: &Options, write_missing: bool) -> Outcome<Answer> {
    // Broken settings are part of the report. No comparison here depends on them.
    let (found, broken) = Surroundings::despite(options)?;
    let cx = crate::opening::within(found, options, Need::Read)?;
    crate::write_path::view(&cx)
        .map(drop)
        .or_else(|refusal| match refusal.code {
            // The report below describes the damage.
            Code::Damaged => Ok(()),
            _ => Err(refusal),
        })?;
    let report = cx.store.upkeep().validate(&cx.actor)?;
    // Nothing can be compared with a damaged log.
    let sound = !report.problems.iter().any(|p| p.check == "log" && !p.heals);
    let audit = if sound {
        audit(&cx, write_missing)?
    } else {
        Audit::default()
    };
    let problems = broken
        .iter()
        .map(of_config)
        .chain(report.problems.into_iter().map(of_log))
        .chain(audit.findings.into_iter().map(of_issue));
    let problems: Vec<Problem> = problems.collect();
    Ok(plain(DoctorReply::Validated(Validated {
        issues: report.issues,
        leases: report.leases,
        lines: report.lines,
        mended: audit.mended,
        notes: audit.notes,
        ok: problems.is_empty(),
        problems,
        segments: report.segments,
    })))
}

fn of_config(error: &ConfigError) -> Problem {
    let (file, at) = error.file().unzip();
    let (line, column) = at.flatten().unzip();
    Problem::Config(ConfigProblem {
        check: "config".into(),
        column,
        file: file.map(|file| file.to_owned().into()),
        heals: false,
        help: MEND.to_owned(),
        line,
        message: error.to_string(),
    })
}

fn of_log(problem: ProblemOfLog) -> Problem {
    Problem::Log(LogProblem {
        check: problem.check.into(),
        heals: problem.heals,
        help: problem.help,
        message: problem.message,
    })
}

fn of_issue(finding: Finding) -> Problem {
    Problem::Issue(IssueProblem {
        check: finding.check.into(),
        file: finding.file.map(Into::into),
        heals: false,
        help: finding.help,
        line: (finding.line > 0).then_some(finding.line),
        message: finding.message,
    })
}

/// Checks whether this branch contains the tip of the main branch (C6).
pub(super) fn divergence(options: &Options) -> Outcome<Answer> {
    let found = Surroundings::find(options)?;
    let report = divergence::divergence(&found.place, &found.config)?;
    Ok(plain(DoctorReply::Divergence(report)))
}

/// Repairs the store. If lines of the log are lost, the store moves all files to a backup, and a new log begins with every
/// lease and issue that survived.
pub(super) fn recover(options: &Options) -> Outcome<Answer> {
    let cx = crate::opening::open(options, Need::Write)?;
    let recovered = match cx.store.upkeep().salvage(&cx.actor)? {
        OfStore::Sound { lines, mut mended } => {
            mended.extend(sweep_left_overs(&cx)?);
            Recovered::Sound {
                lines,
                mended,
                salvaged: false,
            }
        }
        OfStore::Salvaged {
            backup,
            lost,
            leases,
            issues,
        } => Recovered::Salvaged {
            backup,
            issues,
            leases,
            lost,
            salvaged: true,
        },
    };
    Ok(plain(DoctorReply::Recovered(recovered)))
}
