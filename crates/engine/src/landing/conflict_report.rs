//! Reports merge conflicts that a person must resolve, and sends a conflict back into the unit's worktree.
//!
//! What must hold: the number of times that a conflict is sent back is limited by `merge.max_conflict_rounds`. Each
//! report names the commands that resolve the conflict.

use std::path::Path;

use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::unit::{Clash, Facts, Failure, Unit, UnitInput};
use jit_git::GitError;
use jit_os::shell::shell_word;
use jit_store::Outcome;

use crate::api::landing::MergeMode;
use crate::api::landing::{ConflictReport, UnitReport, Verdict, hunks};
use crate::crash_point::step;
use crate::landing::detect::{Merge, UNRELATED};
use crate::landing::service::{LandingUnit, Rules, Run, TOLD};
use crate::refusals::failed;
use crate::refusals::refuse;

/// Without it git merges no histories without a common commit.
const ALLOW: &str = "--allow-unrelated-histories";

/// T14: records the conflict for a person to decide.
pub(crate) fn escalate(run: &mut Run<'_>, work: &LandingUnit, merge: &Merge, rules: &Rules) -> Outcome<()> {
    let mut report = conflict_report(run, work, merge, rules)?;
    let rounds = work.unit.conflict_rounds;
    let send_back = run.mode == MergeMode::SendBack;
    if send_back && rounds >= rules.merging.max_conflict_rounds {
        let message = format!(
            "conflicts of {} were sent back {rounds} times already, and merge.max_conflict_rounds is {}",
            work.unit.id, rules.merging.max_conflict_rounds
        );
        // The conflict can still be resolved by hand.
        let id = &work.unit.id;
        let refusal = report
            .help
            .iter()
            .take(1)
            .fold(Refusal::new(Code::NotAllowed, message), |refusal, merge| {
                refusal.help(merge)
            });
        return Err(Box::new(
            refusal
                .help(match work.unit.goes_to() == run.target {
                    true => format!("jit finish {id}"),
                    false => merge_command(run, &work.unit, ""),
                })
                .help(format!("jit worktree abandon {id} --reason <why>")),
        ));
    }
    run.begin(work)?;
    step("begun");
    if send_back {
        self::send_back(run, work)?;
        report.message = Some(format!(
            "the conflict is in {}: settle it there, commit, then go on",
            work.unit.worktree_path
        ));
        // The merge has already begun there.
        let id = &work.unit.id;
        report.help = vec![
            merge_command(run, &work.unit, " --continue"),
            format!("jit worktree abandon {id} --reason <why>"),
        ];
    }
    let clashes = report.conflicts.iter().map(|one| Clash {
        path: one.path.clone(),
        kind: one.kind.clone(),
    });
    crate::units::service::advance(
        run.cx,
        &work.unit.id,
        UnitInput::MergeConflictEscalate,
        Facts {
            merge_conflicts: Some(clashes.collect()),
            conflict_rounds: send_back.then_some(rounds + 1),
            error: Some(Failure {
                reason: "merge_conflict".to_owned(),
                message: report.message.clone().unwrap_or_default(),
                exit_code: None,
                output: None,
            }),
            ..Facts::default()
        },
    )?;
    run.reports.push(report);
    Ok(())
}

/// Starts a merge in the unit's worktree that stops at the conflict, in the state that git leaves.
pub(crate) fn send_back(run: &Run<'_>, work: &LandingUnit) -> Outcome<()> {
    let root = Path::new(&work.unit.worktree_path);
    let target = run.repo.require_tip(&run.target)?;
    let joined = crate::landing::squash_base::joined_in(&run.repo, &target, &work.tip)?;
    let unrelated = run.repo.merge_base(&joined, &work.tip)?.is_none();
    let git = run
        .repo
        .in_worktree(root)
        .setting("merge.autoStash", "false")
        .arg("merge")
        .args(unrelated.then_some(ALLOW))
        .args(["--no-ff", "--no-squash", "--no-autostash", "-q", "-m"])
        .arg(format!("Merge {} into {}", run.target, work.unit.branch))
        .arg(joined);
    let git = run.repo.signed(git, run.cx.actor.agent_id.as_str())?;
    let (code, _, said) = git.try_run().map_err(failed)?;
    match code {
        // Exit code 1: stopped at the conflict. Exit code 0: there was no conflict after all.
        Some(0 | 1) => Ok(()),
        _ => Err(refuse(
            Code::Io,
            format!("git could not begin the merge in {}: {said}", root.display()),
        )),
    }
}

pub(crate) fn conflict_report(
    run: &Run<'_>,
    work: &LandingUnit,
    merge: &Merge,
    rules: &Rules,
) -> Outcome<UnitReport> {
    let target = run.repo.require_tip(&run.target)?;
    let joined = crate::landing::squash_base::joined_in(&run.repo, &target, &work.tip)?;
    let base = run.repo.merge_base(&joined, &work.tip)?;
    let mut conflicts = Vec::new();
    for (n, one) in merge.conflicts.iter().enumerate() {
        let path = one.shown();
        let mut told = ConflictReport {
            path: path.clone(),
            kind: one.kind.clone(),
            message: one.message.clone(),
            ours_commits: Vec::new(),
            theirs_commits: Vec::new(),
            hunks: Vec::new(),
            failed_rule: merge.failed_rules.iter().find(|rule| rule.path == path).cloned(),
        };
        if let Some(base) = base.as_ref().filter(|_| n < TOLD) {
            told.ours_commits = touched(run, base, &target, &path).map_err(failed)?;
            told.theirs_commits = touched(run, base, &work.tip, &path).map_err(failed)?;
            let object = format!("{}:{path}", merge.tree);
            let (code, bytes, _) = run
                .repo
                .git()
                .args(["cat-file", "blob", &object])
                .try_run()
                .map_err(failed)?;
            if code == Some(0) && !bytes.contains(&0) {
                told.hunks = hunks(&String::from_utf8_lossy(&bytes));
            }
        }
        conflicts.push(told);
    }
    let id = &work.unit.id;
    let shown = shell_word(&work.unit.worktree_path);
    let mut report = work.report(Verdict::Conflict);
    let unrelated = merge.conflicts.iter().any(|one| one.kind == UNRELATED);
    report.message = Some(match unrelated {
        true => format!("{id} and {} have no commit in common", run.target),
        false => format!(
            "{} of {id} {} not merge with {}",
            match conflicts.len() {
                1 => "1 path".to_owned(),
                many => format!("{many} paths"),
            },
            if conflicts.len() == 1 { "does" } else { "do" },
            run.target
        ),
    });
    if let (Some(message), Some(rule)) = (&mut report.message, merge.failed_rules.first()) {
        message.push_str(&format!(
            "; the command of the rule for {:?} did not settle it: {}",
            rule.path, rule.reason
        ));
    }
    // Given the branch name, git would merge from a base that lies before the squashed commits.
    let onto = match joined == target {
        true => shell_word(&run.target),
        false => joined,
    };
    report.conflicts = conflicts;
    report.code = Some("merge_conflict".into());
    report.help = vec![
        match unrelated {
            true => format!(
                "git -C {shown} merge {ALLOW} {onto} # if they belong together; settle it there, and commit"
            ),
            false => format!("git -C {shown} merge {onto} # settle it there, and commit"),
        },
        merge_command(run, &work.unit, " --continue"),
    ];
    if work.unit.conflict_rounds < rules.merging.max_conflict_rounds {
        report.help.push(merge_command(run, &work.unit, " --send-back"));
    }
    report
        .help
        .push(format!("jit worktree abandon {id} --reason <why>"));
    Ok(report)
}

/// The command that lands a unit on the target of this run.
pub(crate) fn merge_command(run: &Run<'_>, unit: &Unit, flags: &str) -> String {
    let into = match run.target == unit.target {
        true => String::new(),
        false => format!(" --into {}", shell_word(&run.target)),
    };
    format!("jit worktree merge {}{flags}{into}", unit.id)
}

pub(crate) fn touched(run: &Run<'_>, base: &str, tip: &str, path: &str) -> Result<Vec<String>, GitError> {
    let out = run
        .repo
        .git()
        .arg("--literal-pathspecs")
        .args([
            "log",
            "--format=%h %s",
            "-n",
            "5",
            &format!("{base}..{tip}"),
            "--",
            path,
        ])
        .run()?;
    Ok(String::from_utf8_lossy(&out).lines().map(str::to_owned).collect())
}
