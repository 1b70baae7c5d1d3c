//! Shares the result of a landing: pushes the target, or pushes a unit's branch for review.
//!
//! What must hold:
//!
//! - A landing stands even if the push fails. The failure is reported, with the command that remains to be run.
//! - If another person pushed meanwhile, their commits are merged into the target here and tested like a unit. Only a
//!   merge that passed is pushed. No push is forced, and no commit is lost.
//! - A unit that waits for review does not land by itself. It is done when the target contains its changes.

use std::path::Path;

use jit_core::log::state;
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::unit::{Facts, MANUAL, Phase, Unit, UnitInput};
use jit_git::WorktreeEntry;
use jit_os::shell::shell_word;
use jit_store::Outcome;

use crate::api::landing::{MergeMode, UnitReport, Verdict};
use crate::api::trust::Kind;
use crate::config::Strategy;
use crate::crash_point::step;
use crate::landing::candidate::{Added, Candidate, Coming, Means, nothing};
use crate::landing::land::{Move, require_movable};
use crate::landing::remote::{self, Proposal, Pushed, Remote};
use crate::landing::service::{LandingUnit, Rules, Run, refused_report};
use crate::landing::tested::Verdict as Tried;
use crate::refusals::refuse;

/// Maximum number of attempts to push while others push too.
const PUSHES: usize = 5;

/// A target that was not pushed.
struct Left {
    why: String,
    /// Commands to run before the push can succeed.
    first: Vec<String>,
    /// The remote refused the push although its branch has no commit that the target lacks, for example because it is
    /// protected.
    refused: bool,
}

impl Left {
    fn only(why: String) -> Self {
        Self {
            why,
            first: Vec::new(),
            refused: false,
        }
    }
}

fn open_by_hand(branch: &str, target: &str) -> String {
    format!(
        "gh pr create --head={} --base={}",
        shell_word(branch),
        shell_word(target)
    )
}

impl Run<'_> {
    /// Pushes what the settings ask for. Returns the commands that remain to be run.
    pub(crate) fn push(&mut self, branches: &[String]) -> Outcome<Vec<String>> {
        let Some(remote) = self.repo.remote_of(&self.target)? else {
            return Ok(Vec::new());
        };
        let target_by_hand = remote.push_command(&self.target);
        let rules = self.rules()?;
        let mut next = Vec::new();
        let left_out = remote.own_left_out(&self.target);
        match (rules.merging.push, remote.is_asked_at()) {
            ("target", place) if left_out.is_some() || place.is_some() => {
                let told = match (left_out, place) {
                    (Some(spec), _) => format!("leave it out ({spec})"),
                    (None, place) => {
                        let (place, name) = (place.unwrap_or_default(), &remote.name);
                        format!("push it to {place} of {name}, which is no branch")
                    }
                };
                self.warnings.push(format!(
                    "{} has landed here, and was not pushed: git was told to {told}",
                    self.target
                ));
                next.push(target_by_hand);
            }
            ("target", _) => {
                if let Err(left) = self.push_target(&remote)? {
                    self.warnings.push(format!(
                        "{} has landed here, and could not be pushed to {}: {}",
                        self.target,
                        remote.shown(&self.target),
                        left.why
                    ));
                    next.extend(left.first);
                    let asked = match left.refused {
                        true => self.push_for_review(&remote, branches)?,
                        false => Vec::new(),
                    };
                    if asked.is_empty() {
                        next.push(target_by_hand);
                    }
                    next.extend(asked);
                }
            }
            ("branch", _) => {
                for branch in branches {
                    if let Pushed::No(why) = self.repo.push_branch(&remote, branch)? {
                        self.warnings
                            .push(format!("{branch} could not be pushed to {}: {why}", remote.name));
                        next.push(remote.command_for(branch));
                    }
                }
            }
            _ if left_out.is_some() => {}
            _ => next.push(target_by_hand),
        }
        Ok(next)
    }

    /// Pushes earlier landings that were not pushed, for example because that process was killed in between. Commits
    /// that are known to be on the remote are not pushed again.
    pub(crate) fn push_left(&mut self) -> Vec<String> {
        match self.left_to_push().as_slice() {
            [] => Vec::new(),
            left => self.push_or_tell(left),
        }
    }

    /// The branches of units that landed earlier and were not pushed.
    pub(crate) fn left_to_push(&self) -> Vec<String> {
        let before: Vec<(String, String)> = self
            .reports
            .iter()
            .filter(|one| one.verdict == Verdict::AlreadyLanded)
            .filter_map(|one| Some((one.branch.clone(), one.merge_commit.clone()?)))
            .collect();
        if before.is_empty() || self.every || self.mode == MergeMode::DryRun {
            return Vec::new();
        }
        let left = || -> Outcome<Vec<String>> {
            let push = self.rules()?.merging.push;
            let Some(remote) = self.repo.remote_of(&self.target)?.filter(|_| push != "never") else {
                return Ok(Vec::new());
            };
            let mut left = Vec::new();
            for (branch, commit) in &before {
                let there = match push {
                    "target" => self.repo.is_shared(&remote, &remote.branch, commit)?,
                    _ => match self.landed_tip(branch)? {
                        Some(tip) => self.repo.is_shared(&remote, &remote.name_of(branch), &tip)?,
                        None => true,
                    },
                };
                if !there {
                    left.push(branch.clone());
                }
            }
            Ok(left)
        };
        // The request is about the landing, so an error here is ignored.
        left().unwrap_or_default()
    }

    /// The tip of the branch of a landed unit; `None` if the branch is gone or no longer belongs to that unit.
    fn landed_tip(&self, branch: &str) -> Outcome<Option<String>> {
        let told = self.reports.iter().find(|one| one.branch == branch);
        let (Some(told), Some(tip)) = (told, self.repo.tip(branch)?) else {
            return Ok(None);
        };
        let view = crate::write_path::view(self.cx)?;
        let units = state::units(&*view.table).map_err(|e| refuse(Code::Io, e))?;
        let is_others =
            |unit: &Unit| !unit.is_over() && unit.branch == branch && unit.id.as_str() != told.unit;
        let landed = match &told.merge_commit {
            Some(commit) => self.repo.has(commit, &tip, None)?,
            None => false,
        };
        Ok((landed && !units.iter().any(is_others)).then_some(tip))
    }

    /// Acquires the target's landing lock, then pushes. The push may have to merge the commits of others into the
    /// target.
    pub(crate) fn push_in_turn(&mut self, branches: &[String]) -> Vec<String> {
        let free = self.repo.clone();
        let target_lock = match self.lock_target() {
            Ok(target_lock) => target_lock,
            Err(refusal) => {
                self.warnings.push(format!(
                    "{} has landed here, and was not pushed: {}",
                    self.target, refusal.message
                ));
                return refusal.help;
            }
        };
        let next = self.push_or_tell(branches);
        self.repo = free;
        drop(target_lock);
        next
    }

    /// Pushes, and turns a failure into a warning: the landing is reported either way.
    pub(crate) fn push_or_tell(&mut self, branches: &[String]) -> Vec<String> {
        self.push(branches).unwrap_or_else(|refusal| {
            self.warnings.push(format!(
                "{} has landed here, and was not pushed: {}",
                self.target, refusal.message
            ));
            refusal.help
        })
    }

    /// Pushes the branches instead of a target that the remote refused, so that a review of each can be requested.
    fn push_for_review(&mut self, remote: &Remote, branches: &[String]) -> Outcome<Vec<String>> {
        let mut next = Vec::new();
        for branch in branches {
            if self.landed_tip(branch)?.is_some() && self.repo.push_branch(remote, branch)? == Pushed::Yes {
                self.warnings.push(format!(
                    "{branch} was pushed to {} instead: ask for a review of it",
                    remote.name
                ));
                let head = &remote.name_of(branch);
                next.push(
                    remote
                        .compare_page(&remote.branch, head)
                        .unwrap_or_else(|| open_by_hand(head, &remote.branch)),
                );
            }
        }
        Ok(next)
    }

    /// The command that merges the commits of others by hand, where the target is checked out.
    fn pull(&self, remote: &Remote, rules: &Rules) -> Outcome<String> {
        let all = crate::worktree_identity::list(crate::units::service::common(self.cx)?)
            .map_err(|e| refuse(Code::Io, e))?;
        let there = |entry: &WorktreeEntry| entry.branch.as_ref() == Some(&self.target);
        let root = all.into_iter().find(there).and_then(|entry| entry.root);
        let target = shell_word(&self.target);
        let at = match root {
            Some(root) => format!("git -C {}", shell_word(&root.to_string_lossy())),
            None => format!("git switch {target} && git"),
        };
        let way = match rules.merging.strategy {
            Strategy::FastForward => "--rebase",
            _ => "--no-rebase",
        };
        let (name, there) = (shell_word(&remote.name), shell_word(&remote.branch));
        Ok(format!(
            "{at} pull {way} {name} {there} # settle it there, see that it passes, and commit"
        ))
    }

    /// Pushes the target, after merging the commits that others pushed. Returns the reason if it was not pushed.
    fn push_target(&mut self, remote: &Remote) -> Outcome<Result<(), Left>> {
        let mut why = String::new();
        let behind = |run: &Self, why: String, mut first: Vec<String>| -> Outcome<Result<(), Left>> {
            let rules = run.rules()?;
            first.push(run.pull(remote, &rules)?);
            Ok(Err(Left {
                why,
                first,
                refused: false,
            }))
        };
        for _ in 0..PUSHES {
            match self.repo.push_own(remote, &self.target)? {
                Pushed::Yes => return Ok(Ok(())),
                Pushed::No(said) => why = said,
            }
            step("not_pushed");
            let Some(theirs) = self.repo.fetch_branch(remote)? else {
                return Ok(Err(Left::only(why)));
            };
            let tip = self.repo.require_tip(&self.target)?;
            if self.repo.is_ancestor(&theirs, &tip)? {
                // The remote has no commit that is missing here, so the push was refused for another reason.
                return Ok(Err(Left {
                    refused: true,
                    ..Left::only(why)
                }));
            }
            // The commits that were merged before may have changed the rules.
            let rules = self.rules()?;
            match self.take_in(remote, &theirs, &rules) {
                Ok(None) => {}
                Ok(Some(why)) => return behind(self, why, Vec::new()),
                Err(refusal) => return behind(self, refusal.message, refusal.help),
            }
        }
        behind(self, why, Vec::new())
    }

    /// Merges the commits that others pushed into the target, if the checks pass. Returns the reason if they were not
    /// merged.
    fn take_in(&mut self, remote: &Remote, theirs: &str, rules: &Rules) -> Outcome<Option<String>> {
        let agent = self.cx.actor.agent_id.to_string();
        let cx = self.cx;
        let may_run = |kind: Kind, name: &str, text: &str| {
            crate::approvals::approvals()?.require(&crate::approvals::repository(cx), kind, name, text)
        };
        let means = Means {
            // The history of others is not squashed.
            strategy: match rules.merging.strategy {
                Strategy::FastForward => Strategy::FastForward,
                _ => Strategy::Auto,
            },
            policy: &rules.merging.policy,
            timeout: rules.merging.validate_timeout,
            agent: &agent,
            may_run: &may_run,
            adds: &nothing,
        };
        let there = format!("{}/{}", remote.name, remote.branch);
        let coming = Coming {
            unit: "remote".to_owned(),
            tip: theirs.to_owned(),
            title: format!("Merge {there} into {}", self.target),
            trailers: vec![("JIT-Agent", agent.clone())],
        };
        let candidate = match Candidate::on(&self.repo, &self.target)?.add(&coming, &means)? {
            Added::Yes(candidate) => candidate,
            Added::Nothing(_) => return Ok(None),
            Added::NotForward(_) => {
                return Ok(Some(format!("{there} has moved on, and merge.strategy is ff")));
            }
            Added::Conflict(_, merge) => {
                let paths = merge.conflicts.iter().take(5);
                let paths: Vec<String> = paths.map(|one| shell_word(&one.shown())).collect();
                let rule = merge.failed_rules.first().map_or(String::new(), |rule| {
                    format!(
                        " (the command {:?} of a rule failed: {})",
                        rule.command, rule.reason
                    )
                });
                return Ok(Some(format!(
                    "{there} has moved on, and does not merge: {}{rule}",
                    paths.join(", ")
                )));
            }
        };
        let (old, new) = (candidate.old.clone(), candidate.commit().to_owned());
        let checks = self.checks(&[], &candidate.old, rules)?;
        let is_ours =
            |root: &Path, path: &Path| crate::issues::sync::projection::is_projection(cx, root, path);
        self.require_rules(candidate.commit()).map_err(|mut refusal| {
            refusal.help = vec![format!("have it mended on {there} first")];
            refusal
        })?;
        require_movable(&self.repo, &self.target, candidate.commit(), &is_ours)?;
        let tested = match candidate.test(&checks, rules.merging.refuse_fewer_tests)? {
            Tried::Passed(tested) => tested,
            Tried::Failed(_, validations) => {
                let name = validations
                    .iter()
                    .find(|one| !one.passed)
                    .map(|one| one.name.clone());
                return Ok(Some(format!(
                    "merged with {there}, it does not pass {}",
                    name.unwrap_or_default()
                )));
            }
        };
        let bumps = crate::landing::submodules::note_submodules(self, &old, &new)?;
        // If another process moved the target, the next push shows the result.
        if let Move::Done(landed) = tested.land(&format!("jit: merged {there}"), &is_ours)?
            && let Some((root, paths)) = &landed.replaced
        {
            crate::issues::sync::projection::project_again(cx, root, paths);
            crate::landing::submodules::bring_submodules(self, root, bumps);
        }
        crate::landing::submodules::forget_submodules(self);
        Ok(None)
    }

    /// Reports a unit with an open review request as waiting, if this run respects such requests.
    pub(crate) fn proposed(&self, work: &LandingUnit) -> Option<UnitReport> {
        let address = remote::open_for(&self.repo, work.unit.id.as_str()).filter(|_| self.leave_proposed)?;
        let id = &work.unit.id;
        let place = match address.as_str() {
            "" => String::new(),
            address => format!(" at {address}"),
        };
        let refusal = Refusal::new(
            Code::CheckFailed,
            format!(
                "{id} waits for review{place}: {} has not got its changes yet",
                self.target
            ),
        )
        .help(format!(
            "git pull, on {}, once it is merged there; then: jit finish {id}",
            self.target
        ))
        .help(format!("jit worktree merge {id}"));
        Some(UnitReport {
            pull_request: Some(address).filter(|address| !address.is_empty()),
            ..refused_report(&work.unit, Verdict::Waiting, &refusal)
        })
    }

    /// T6: brings the unit to COMPLETED; its work is finished.
    fn complete(&self, work: &LandingUnit) -> Outcome<()> {
        let mut unit = work.unit.clone();
        loop {
            let input = match unit.state {
                Phase::Failed => UnitInput::RetryDispatch,
                Phase::Ready => UnitInput::DispatchInstance,
                Phase::Dispatched => UnitInput::InstanceRunning,
                Phase::Running => UnitInput::InstanceCompleted,
                Phase::Merged => UnitInput::MoreWork,
                _ => return Ok(()),
            };
            let facts = Facts {
                agent: (input == UnitInput::DispatchInstance).then(|| MANUAL.to_owned()),
                ..Facts::default()
            };
            unit = crate::units::service::advance(self.cx, &unit.id, input, facts)?;
        }
    }

    /// Pushes the branch of a unit and requests a review.
    pub(crate) fn propose(&mut self, work: &LandingUnit) -> Outcome<UnitReport> {
        let id = work.unit.id.as_str();
        let (branch, target) = (work.unit.branch.as_str(), self.target.as_str());
        if work.unit.state == Phase::Merging {
            let message = format!("a landing of {id} has begun, and comes to its end first");
            return Err(Box::new(
                Refusal::new(Code::BadTransition, message).help(format!("jit worktree merge {id}")),
            ));
        }
        let remote = self
            .repo
            .remote_of(target)?
            .ok_or_else(|| remote::nowhere(target))?;
        if let Pushed::No(why) = self.repo.push_branch(&remote, branch)? {
            let message = format!("{branch} could not be pushed to {}: {why}", remote.name);
            return Err(Box::new(
                Refusal::new(Code::Io, message).help(remote.command_for(branch)),
            ));
        }
        step("pushed");
        // From here on others merge the unit, even if the next steps are interrupted.
        let before = remote::open_for(&self.repo, id).unwrap_or_default();
        remote::remember(&self.repo, id, &before)?;
        self.complete(work)?;
        let title = match &work.issue {
            Some(issue) => format!("{}: {}", issue.id, issue.title),
            None => id.to_owned(),
        };
        let title: String = title.chars().filter(|c| !c.is_control()).take(200).collect();
        let mut body = String::new();
        if let Some(issue) = &work.issue {
            body.push_str(&format!("Issue: {}\n", issue.id));
        }
        body.push_str(&format!("JIT-Unit: {id}\nJIT-Agent: {}\n", work.actor.agent_id));
        let head = &remote.name_of(branch);
        let proposal = Proposal {
            head,
            base: &remote.base,
            title: &title,
            body: &body,
        };
        let mut report = work.report(Verdict::Proposed);
        let dir = crate::units::service::main_root(self.cx)?;
        match proposal.open(&dir) {
            Ok(address) => {
                remote::remember(&self.repo, id, &address)?;
                report.message = Some(format!("{branch} is pushed; the request is open at {address}"));
                report.pull_request = Some(address);
            }
            Err(why) => {
                report.message = Some(format!("{branch} is pushed; no request was opened: {why}"));
                report.help.push(match remote.compare_page(&remote.base, head) {
                    Some(page) => page,
                    None => format!(
                        "{} --title={}",
                        open_by_hand(head, &remote.base),
                        shell_word(&title)
                    ),
                });
            }
        }
        Ok(report)
    }
}
