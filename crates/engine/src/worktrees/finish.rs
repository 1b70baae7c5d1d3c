//! Finishes a unit: lands it and removes its worktree (`jit finish`), or pushes its branch for review.
//!
//! What must hold:
//!
//! - The landing stands even if the worktree cannot be removed. The reason is a warning, with the command that remains
//!   to be run.
//! - A worktree is not removed while the caller's current folder is inside it.
//! - A proposed unit does not land here. If others have merged it already, it is finished instead.

use crate::api::landing::LandingReply;
use jit_core::model::unit::Unit;
use jit_os::shell::shell_word;
use jit_store::Outcome;

use crate::api::landing::{MergeAsk, MergeMode, MergeReport, UnitReport, Verdict};
use crate::api::rescue::Force;
use crate::api::{Answer, Reply};
use crate::context::Context;
use crate::context::calling_agent::require_may_decide;
use crate::landing::obstacles;
use crate::landing::service::{Eligibility, Run, merge_asked, sent_before};

/// Lands the unit, then removes its worktree and branch.
pub(crate) fn finish_unit(cx: &Context, text: Option<&str>) -> Outcome<Answer> {
    let unit = crate::landing::already_landed::unit_to_land(cx, &crate::write_path::view(cx)?, text)?;
    let mut answer = merge_asked(
        cx,
        &MergeAsk {
            units: vec![unit.id.to_string()],
            all: false,
            into: None,
            mode: MergeMode::Land,
            leave_proposed: true,
        },
    )?;
    if let Reply::Landing(LandingReply::Report(report)) = &mut answer.reply
        && report.units.iter().all(|one| one.verdict.is_good())
        && !crate::units::service::load_unit(cx, &unit.id)?.is_over()
    {
        // An interrupted removal is finished below, so its help is no longer needed.
        report.units.iter_mut().for_each(|one| one.help.clear());
        if let Err((why, next)) = clean_up_after_landing(cx, &unit) {
            answer.warnings.push(why);
            report.next.extend(next);
        }
    }
    let now = crate::units::service::load_unit(cx, &unit.id)?;
    if let Some(told) = sent_before(&unit).filter(|_| now.is_over()) {
        // Nothing is left that could land on another branch.
        answer.warnings.retain(|one| *one != told);
        answer.warnings.push(format!(
            "{} went to {}, where it was sent, and not to {}",
            now.id,
            now.goes_to(),
            now.target
        ));
    }
    Ok(answer)
}

/// Removes the worktree of a landed unit. An obstacle, such as the caller's shell inside the folder, is reported: the
/// landing stands in any case.
pub(crate) fn clean_up_after_landing(cx: &Context, unit: &Unit) -> Result<(), (String, Vec<String>)> {
    let later = format!("jit worktree cleanup {}", unit.id);
    // The caller's current folder would no longer exist.
    let inside = cx.place.start.starts_with(&unit.worktree_path);
    if inside {
        let main =
            crate::units::service::main_root(cx).map_or(String::new(), |root| root.display().to_string());
        return Err((
            "the worktree stays as long as you are in it".to_owned(),
            vec![format!("cd {} && {later}", shell_word(&main))],
        ));
    }
    let mut cleaned = crate::worktrees::cleanup::cleanup_unit(cx, &unit.id, Force::No);
    if cleaned.is_err() && jit_git::run::killed_since().is_some() {
        // A git was killed, and nothing else is wrong: the removal goes on where it was.
        if let Some(common) = &cx.place.common_dir {
            crate::git_locks::remove_after_kill(common);
        }
        cleaned = crate::worktrees::cleanup::cleanup_unit(cx, &unit.id, Force::No);
    }
    match cleaned {
        Ok(_) => Ok(()),
        Err(refusal) => {
            let lock = obstacles::lock_in(&refusal.message);
            let first = lock.map(|lock| obstacles::help_with_lock(&lock));
            Err((refusal.message, first.into_iter().chain([later]).collect()))
        }
    }
}

/// Pushes a unit's branch for others to merge. Nothing lands here. A unit that they have merged already is finished.
pub(crate) fn propose_unit(cx: &Context, text: Option<&str>) -> Outcome<Answer> {
    let unit = crate::landing::already_landed::unit_to_land(cx, &crate::write_path::view(cx)?, text)?;
    if unit.is_over() {
        return crate::worktrees::finish::finish_unit(cx, text);
    }
    require_may_decide(cx, &crate::write_path::view(cx)?, &unit, "jit finish")?;
    let repo = crate::landing::service::landing_repo(cx)?;
    let ask = MergeAsk {
        units: Vec::new(),
        all: false,
        into: None,
        mode: MergeMode::Land,
        leave_proposed: false,
    };
    let target = crate::landing::service::landing_target(cx, &repo, &ask, std::slice::from_ref(&unit))?;
    let mut run = Run::new(cx, repo, target, &ask);
    run.alone = true;
    let target_lock = run.lock_target()?;
    let report = match run.eligibility(unit.clone())? {
        Eligibility::Reported(report) if report.verdict == Verdict::AlreadyLanded => UnitReport {
            help: Vec::new(),
            ..*report
        },
        Eligibility::Reported(report) => *report,
        Eligibility::Eligible(work) => run.propose(&work)?,
    };
    let landed = report.verdict == Verdict::AlreadyLanded;
    let mut next = Vec::new();
    if report.verdict == Verdict::Proposed {
        next.push(format!(
            "git pull, on {}, once it is merged there; then: jit finish {}",
            run.target, unit.id
        ));
    }
    drop(target_lock);
    let mut warnings = std::mem::take(&mut run.warnings);
    if landed && let Err((why, later)) = crate::worktrees::finish::clean_up_after_landing(cx, &unit) {
        warnings.push(why);
        next.extend(later);
    }
    Ok(Answer {
        reply: Reply::Landing(LandingReply::Report(Box::new(MergeReport {
            target_commit: run.repo.require_tip(&run.target)?,
            target: run.target,
            dry_run: false,
            order: Vec::new(),
            units: vec![report],
            overlap: Vec::new(),
            next,
        }))),
        warnings,
    })
}
