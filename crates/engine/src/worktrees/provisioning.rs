//! Creates the worktree of a unit (G2, G3, T1, T2).
//!
//! What must hold:
//!
//! - The worktree exists on its branch and is complete, or nothing of it remains, also if git is killed.
//! - An interrupted creation can be continued. A file, or a folder with contents, that is not the unit's worktree is
//!   never touched.
//! - Provisioning commands that come with the repository run only after the user approved their exact text.
//! - If provisioning fails, the worktree stays and the unit is FAILED, so that it can be retried or abandoned.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jit_core::decide::command::{Command, CommandReply as Decided};
use jit_core::log::state;
use jit_core::model::ids::{IssuePrefix, UnitId, WorkflowId};
use jit_core::model::issue::Issue;
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::unit::{Facts, Failure, Phase, Unit, UnitInput};
use jit_git::{GitEnv, Place, WorktreeEntry};
use jit_os::shell::shell_word;
use jit_store::Outcome;

use crate::api::trust::Kind;
use crate::api::units::CreateUnit;
use crate::context::Context;
use crate::gates::run::{GRACE, Run, run};
use crate::refusals::refuse;
use crate::trust::PROVISION;
use crate::units::service::git;
use crate::units::worktree_locate::real;
use crate::units::worktree_state::leads_to;
use crate::units::{disk_space as room, files, folders, submodules};
use crate::worktree_identity::ensure_excluded;
use crate::worktrees::half_made;
use crate::worktrees::service::identity_of;
use crate::write_path::WriteOptions;

/// Returns whether the path has something that is not a worktree and will not become one: git creates `.git` there
/// first.
fn is_no_worktree(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => {
            let filled = std::fs::read_dir(path).is_ok_and(|mut inside| inside.next().is_some());
            filled && path.join(".git").symlink_metadata().is_err()
        }
        Ok(_) => true,
        Err(_) => false,
    }
}

fn require_room(cx: &Context, path: &Path) -> Outcome<Option<String>> {
    let io = |e| jit_os::io_refusal("look at the disk of", path, &e);
    let disk = room::of(path).map_err(io)?;
    if disk.total == 0 {
        let message = format!("no worktree can be made in {}: no disk is there", path.display());
        return Err(refuse(Code::Invalid, message));
    }
    let index = cx.place.git_dir.as_ref().map(|dir| dir.join("index"));
    let needed = match &index {
        Some(index) => room::checkout_size(index).map_err(io)?.unwrap_or(0),
        None => 0,
    };
    let reserve = cx.config.min_free_mb() << 20;
    let mb = |bytes: u64| bytes >> 20;
    if disk.free < needed.saturating_add(reserve) {
        let mut refusal = Refusal::new(
                Code::Io,
                format!(
                    "there is not enough room for another worktree: {} MB are free, about {} MB are needed and {} MB stay free",
                    mb(disk.free),
                    mb(needed),
                    mb(reserve)
                ),
            )
            .help("jit rescue prune");
        let spare = mb(disk.free.saturating_sub(needed));
        if spare > 1 {
            refusal = refusal.help(format!("jit config set worktree.min_free_mb {}", spare / 2));
        }
        return Err(Box::new(refusal));
    }
    let used = disk.percent_used();
    Ok((used >= 80).then(|| format!("the disk is {used} % full")))
}

/// T1 to T2: creates the worktree and makes it ready. If it cannot be created, nothing of it remains.
pub(crate) fn make_unit(cx: &Context, asked: &CreateUnit, issue: Option<&Issue>) -> Outcome<Unit> {
    let new = crate::worktrees::service::plan(cx, asked, issue)?;
    require_room(cx, Path::new(&new.worktree_path))?;
    let steps = trusted_steps(cx)?;
    // Without the caller's request id: the request has more steps, and its answer is kept when all are done.
    let command = Command::CreateUnit(Box::new(new));
    let done = crate::write_path::transact_as(cx, None, &command, WriteOptions::default())?;
    let Decided::Unit(unit) = done.reply else {
        return Err(Box::new(Refusal::bug("a unit in the reply of the log")));
    };
    make_ready(cx, *unit, &steps)
}

/// Ensures that a unit of a workflow is ready, even if the process that began to create it was killed.
pub(crate) fn create_for_workflow(
    cx: &Context,
    id: &UnitId,
    issue: Option<String>,
    target: &str,
    workflow: &WorkflowId,
) -> Outcome<Unit> {
    let _turn = crate::units::service::unit_turn(cx, id, true)?;
    let view = crate::write_path::view(cx)?;
    let unreadable = |e| refuse(Code::Io, e);
    let begun = state::unit(&*view.table, id).map_err(unreadable)?;
    if let Some(unit) = begun.filter(|unit| !unit.is_over() && unit.workflow.as_ref() == Some(workflow)) {
        let steps = trusted_steps(cx)?;
        return make_ready(cx, unit, &steps);
    }
    let found = match &issue {
        Some(issue) => {
            let prefix: IssuePrefix = issue.parse().map_err(|e| refuse(Code::Invalid, format!("{e}")))?;
            Some(crate::write_path::resolve(&view, &prefix)?)
        }
        None => None,
    };
    drop(view);
    let asked = CreateUnit {
        what: issue.unwrap_or_else(|| id.to_string()),
        workflow: Some(workflow.clone()),
        name: Some(id.clone()),
        target: Some(target.to_owned()),
        ..CreateUnit::default()
    };
    make_unit(cx, &asked, found.as_ref())
}

fn make_ready(cx: &Context, unit: Unit, steps: &[String]) -> Outcome<Unit> {
    if unit.state != Phase::Provisioning {
        return Ok(unit);
    }
    let id = unit.id.clone();
    let begun = Instant::now();
    let place = match ensure_worktree(cx, &unit) {
        Ok(place) => place,
        // A git still runs there: the same command goes on when it has ended.
        Err(refusal) if refusal.code == Code::Busy => return Err(refusal),
        Err(refusal) => {
            undo(cx, &unit)?;
            let facts = Facts {
                error: Some(Failure {
                    reason: "provisioning".to_owned(),
                    message: refusal.message.clone(),
                    exit_code: None,
                    output: None,
                }),
                ..Facts::default()
            };
            crate::units::service::advance(cx, &id, UnitInput::RolledBack, facts)?;
            return Err(refusal);
        }
    };
    match provision(cx, &unit, &place, steps) {
        Ok(()) => {
            let facts = Facts {
                worktree_id: Some(identity_of(&place)?),
                provisioning_time_ms: u64::try_from(begun.elapsed().as_millis()).ok(),
                ..Facts::default()
            };
            crate::units::service::advance(cx, &id, UnitInput::ProvisioningComplete, facts)
        }
        Err(failure) => {
            let refusal = Refusal::new(
                Code::CheckFailed,
                format!("{id} is not ready: {}", failure.message),
            )
            .help(format!("jit worktree retry {id}"))
            .help(format!("jit worktree abandon {id} --reason <why>"));
            let facts = Facts {
                error: Some(failure),
                ..Facts::default()
            };
            crate::units::service::advance(cx, &id, UnitInput::ProvisioningFailed, facts)?;
            Err(Box::new(refusal))
        }
    }
}

/// The commands that prepare a worktree, after the user has approved them.
pub(crate) fn trusted_steps(cx: &Context) -> Outcome<Vec<String>> {
    let steps = cx.config.provision_steps().to_vec();
    // Commands in the user's own settings need no approval.
    if steps.is_empty() || !crate::context::comes_with_repository(cx, PROVISION) {
        return Ok(steps);
    }
    let (trust, repository) = (crate::approvals::approvals()?, crate::approvals::repository(cx));
    for step in &steps {
        trust.require(&repository, Kind::Provision, PROVISION, step)?;
    }
    Ok(steps)
}

/// Acquires the creation lock of a unit. Refused while another process holds it.
pub(crate) fn makers_turn(cx: &Context, id: &UnitId) -> Outcome<std::fs::File> {
    crate::units::service::unit_turn(cx, id, false)?.ok_or_else(|| {
        let message = format!("somebody else is at {id}");
        Box::new(Refusal::new(Code::Busy, message).help(format!("jit worktree status {id}")))
    })
}

/// Ensures that the unit's worktree exists, on its branch, and is complete.
pub(crate) fn ensure_worktree(cx: &Context, unit: &Unit) -> Outcome<Place> {
    let path = Path::new(&unit.worktree_path);
    let found = || Place::discover(path, &GitEnv::elsewhere()).map_err(|e| refuse(Code::Io, e));
    if is_no_worktree(path) || unit.worktree_id.is_some() && path.exists() && leads_to(path).is_none() {
        return Err(other_in_place(cx, unit));
    }
    // A process that was killed here may have left a git process that runs for a moment longer.
    let lock = half_made::making_lock(cx, &unit.id)?;
    half_made::sweep(cx, unit)?;
    if path.join(".git").is_file() {
        let place = found()?;
        let own = place.common_dir == cx.place.common_dir
            && place.worktree_root.as_deref().map(real) == Some(real(path));
        if own {
            return Ok(place);
        }
    }
    if path.symlink_metadata().is_ok() {
        return Err(other_in_place(cx, unit));
    }
    let known = crate::worktree_identity::list(crate::units::service::common(cx)?)
        .map_err(|e| refuse(Code::Io, e))?;
    let begun_before = |entry: &WorktreeEntry| {
        entry.root.as_deref() == Some(path) && entry.branch.as_ref() == Some(&unit.branch)
    };
    if unit.worktree_id.is_some() || known.iter().any(begun_before) {
        crate::worktrees::cleanup::put_aside_gone(cx, unit)?;
    }
    let parent = path.parent().unwrap_or(path);
    let _room = folders::make(&cx.place.control_dir, parent).map_err(|e| no_folder(parent, &e))?;
    make_branch(cx, unit, &lock)?;
    let made = cx
        .git_in(crate::units::service::common(cx)?)
        .args(["worktree", "add", "--quiet", "--"])
        .arg(path)
        .arg(&unit.branch)
        .holding(Some(lock))
        .run();
    if let Err(e) = made {
        half_made::take_back(cx, unit)?;
        return Err(git(e));
    }
    found()
}

/// Refuses a folder for worktrees that cannot be created or written. Only a full disk may have room later.
fn no_folder(folder: &Path, e: &io::Error) -> Box<Refusal> {
    use io::ErrorKind::{AlreadyExists, NotADirectory, PermissionDenied, ReadOnlyFilesystem};
    match e.kind() {
        AlreadyExists | NotADirectory | PermissionDenied | ReadOnlyFilesystem => {
            let message = format!("no worktree can be made in {}: {e}", folder.display());
            Box::new(
                Refusal::new(Code::Invalid, message)
                    .help("jit config set worktree.path '../{repo}-worktrees/{unit}'"),
            )
        }
        _ => jit_os::io_refusal("create", folder, e),
    }
}

/// Ensures that the branch of a unit exists. It is created separately: an interrupted `worktree add -b` could not be
/// repeated. No tracking is set up, so nothing is written to the shared configuration. Parallel calls would compete
/// for its lock.
fn make_branch(cx: &Context, unit: &Unit, lock: &Arc<File>) -> Outcome<()> {
    let common = crate::units::service::common(cx)?;
    let branch = format!("refs/heads/{}", unit.branch);
    let made = cx
        .git_in(common)
        .args(["update-ref", "--no-deref", "-m", "branch: made by jit"])
        .args([&branch, &unit.base, ""])
        .holding(Some(lock.clone()))
        .run();
    let Err(e) = made else {
        return Ok(());
    };
    if let Some(goal) = cx.git_in(common).symbolic(&branch).map_err(git)? {
        // Commits made there would go to the other branch.
        let goal = goal.strip_prefix("refs/heads/").unwrap_or(&goal).to_owned();
        let message = format!("{} is only another name for {goal} by now", unit.branch);
        let away = format!("git symbolic-ref --delete {}", shell_word(&branch));
        return Err(Box::new(Refusal::new(Code::Exists, message).help(away)));
    }
    // The branch may exist: from a killed attempt, or with the work of a unit whose worktree is gone.
    let there = cx.git_in(common).verify(&branch).map_err(git)?;
    match there {
        None => Err(git(e)),
        Some(commit) if unit.worktree_id.is_none() && commit != unit.base => {
            let message = format!("there is a branch {} already, with other commits", unit.branch);
            Err(refuse(Code::Exists, message))
        }
        Some(_) => Ok(()),
    }
}

/// T1 to T2, after the first process was killed. An obstacle at the path does not roll back what was begun.
pub(crate) fn go_on_making(cx: &Context, unit: Unit) -> Outcome<Unit> {
    let steps = trusted_steps(cx)?;
    if is_no_worktree(Path::new(&unit.worktree_path)) {
        return Err(other_in_place(cx, &unit));
    }
    make_ready(cx, unit, &steps)
}

/// Refuses because the path has something that is not the unit's worktree.
fn other_in_place(cx: &Context, unit: &Unit) -> Box<Refusal> {
    let path = &unit.worktree_path;
    let message = format!("{path} is there, and is not the worktree of {}", unit.id);
    let main = crate::units::service::main_root(cx).unwrap_or_else(|_| cx.place.start.clone());
    let repair = format!("git -C {} worktree repair", shell_word(&main.to_string_lossy()));
    let [from, to] = ["", ".aside"].map(|end| shell_word(&format!("{path}{end}")));
    Box::new(
        Refusal::new(Code::Exists, message)
            .help(format!(
                "where the worktree was moved: {repair} <where it is now>"
            ))
            .help(format!("mv -n {from} {to} && jit worktree retry {}", unit.id)),
    )
}

/// Undoes what [`ensure_worktree`] may have begun. Removes only what is unchanged since then.
pub(crate) fn undo(cx: &Context, unit: &Unit) -> Outcome<()> {
    let common = crate::units::service::common(cx)?;
    let path = Path::new(&unit.worktree_path);
    let lock = half_made::making_lock(cx, &unit.id)?;
    let _ = half_made::sweep(cx, unit);
    crate::git_locks::remove_after_kill(common);
    if path.join(".git").is_file() {
        let _ = cx
            .git_in(common)
            .args(["worktree", "remove", "--force", "--"])
            .arg(path)
            .run();
    } else if path.symlink_metadata().is_err() {
        // Git may still list a worktree that is gone.
        let _ = crate::worktrees::cleanup::put_aside_gone(cx, unit);
    }
    let full = format!("refs/heads/{}", unit.branch);
    // A symbolic name for another branch was not created here.
    if matches!(cx.git_in(common).symbolic(&full), Ok(None)) {
        let _ = cx
            .git_in(common)
            .args(["update-ref", "--no-deref", "-d", &full, &unit.base])
            .run();
    }
    drop(lock);
    leave_folder_of(cx, path);
    Ok(())
}

/// Removes the folder that contained a worktree, if this was the last one in it.
pub(crate) fn leave_folder_of(cx: &Context, worktree: &Path) {
    if let Some(folder) = worktree.parent() {
        folders::leave(&cx.place.control_dir, folder);
    }
}

pub(crate) fn provision(cx: &Context, unit: &Unit, place: &Place, steps: &[String]) -> Result<(), Failure> {
    let failed = |message: String| Failure {
        reason: "provisioning".to_owned(),
        message,
        exit_code: None,
        output: None,
    };
    let path = Path::new(&unit.worktree_path);
    let main = crate::units::service::main_root(cx).map_err(|refusal| failed(refusal.message))?;
    let brought = files::bring(&main, path, &cx.config.shared_files()).map_err(failed)?;
    let links: Vec<&str> = brought
        .iter()
        .map(String::as_str)
        .filter(|name| path.join(name).is_symlink())
        .collect();
    let links = files::ignored(&main, &links).map_err(|e| failed(e.to_string()))?;
    if !links.is_empty() {
        // `name/` in .gitignore matches only folders, and a link is not a folder.
        let common = crate::units::service::common(cx).map_err(|refusal| failed(refusal.message))?;
        let patterns: Vec<&str> = links.iter().map(String::as_str).collect();
        ensure_excluded(common, &patterns).map_err(|e| failed(e.to_string()))?;
    }
    if cx.config.submodules() && path.join(".gitmodules").is_file() {
        let only_known = main.join(".git/modules").is_dir();
        let common = crate::units::service::common(cx).map_err(|refusal| failed(refusal.message))?;
        if let Err(e) = submodules::check_out(path, &common.join("modules"))
            && only_known
        {
            return Err(failed(format!("the submodules could not be checked out: {e}")));
        }
    }
    let vars: Vec<(OsString, OsString)> = crate::units::service::unit_vars(cx, unit)
        .into_iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    let timeout = Duration::from_secs(cx.config.provision_timeout_secs());
    for (n, step) in steps.iter().enumerate() {
        let below = PathBuf::from("units").join(unit.id.as_str());
        let name = below.join(format!("provision-{}.log", n + 1));
        let mut log = crate::context::log_file(cx, &name).map_err(|e| failed(e.to_string()))?;
        let mut once = || {
            run(
                &Run {
                    command: step,
                    dir: &place.start,
                    timeout,
                    grace: GRACE,
                    vars: &vars,
                },
                &mut log,
            )
        };
        let mut ran = once();
        if !ran.passed() {
            ran = once();
        }
        if !ran.passed() {
            let why = ran.reason().unwrap_or_else(|| "it failed".to_owned());
            return Err(Failure {
                reason: "provisioning".to_owned(),
                message: format!("{} twice: {why}", shell_word(step)),
                exit_code: ran.exit_code,
                output: Some(name.to_string_lossy().into_owned()),
            });
        }
    }
    Ok(())
}
