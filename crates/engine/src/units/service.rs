//! Finds units, reads their environment and moves them along the lifecycle table (G2, G3, G16, I6).

use crate::api::units::UnitEnv;
use crate::api::units::UnitReply;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use jit_core::decide::command::{Command, CommandReply as Decided};
use jit_core::log::state;
use jit_core::model::ids::{IssuePrefix, UnitId};
use jit_core::model::refusal::{Code, Details, Refusal};
use jit_core::model::unit::{Facts, Unit, UnitInput};
use jit_git::GitError;
use jit_git::branches::default_branch;
use jit_os::{file, io_refusal};
use jit_store::{Outcome, View};

use crate::api::{Answer, Reply};
use crate::context::Context;
use crate::refusals::refuse;
use crate::units::worktree_locate::real;
use crate::units::{self, PORTS, files};
use crate::write_path::WriteOptions;

pub(crate) fn git(e: GitError) -> Box<Refusal> {
    crate::refusals::failed(e)
}

pub(crate) fn common(cx: &Context) -> Outcome<&Path> {
    cx.place.common_dir.as_deref().ok_or_else(|| {
        Box::new(Refusal::new(
            Code::NotFound,
            "there are no worktrees without a git repository",
        ))
    })
}

/// Returns the root of the main checkout, beside which linked worktrees are created. Without a main checkout: the git
/// folder itself.
pub(crate) fn main_root(cx: &Context) -> Outcome<PathBuf> {
    let common = common(cx)?;
    let all = crate::worktree_identity::list(common).map_err(|e| refuse(Code::Io, e))?;
    let main = all.into_iter().next().and_then(|entry| entry.root);
    Ok(main.unwrap_or_else(|| common.to_owned()))
}

/// Returns the base folder and the repository name for the template of worktree paths, from the main checkout. If
/// that is a submodule, uses the outermost repository around it: inside it git would show a worktree as untracked.
pub(crate) fn home(cx: &Context) -> Outcome<(PathBuf, String)> {
    let main = main_root(cx)?;
    let mut home = main.clone();
    // Runs git only if a parent folder is a checkout too.
    while home
        .ancestors()
        .skip(1)
        .any(|above| above.join(".git").symlink_metadata().is_ok())
    {
        let git = cx
            .git_at(&home)
            .args(["rev-parse", "--show-superproject-working-tree"]);
        let outer = git.run().unwrap_or_default();
        let outer = Path::new(OsStr::from_bytes(outer.strip_suffix(b"\n").unwrap_or(&outer)));
        if outer.as_os_str().is_empty() || outer == home || !home.starts_with(outer) {
            break;
        }
        home = outer.to_owned();
    }
    let parts = home.file_name().into_iter();
    let parts = parts.chain(main.strip_prefix(&home).into_iter().flatten());
    let parts: Vec<_> = parts.map(OsStr::to_string_lossy).collect();
    let name = match parts.is_empty() {
        true => "repo".to_owned(),
        false => parts.join("-"),
    };
    Ok((home, name))
}

/// Returns the branch that units land on.
pub(crate) fn target_branch(cx: &Context) -> Outcome<String> {
    let configured = cx.config.allowed_branches().first().map(String::as_str);
    let found = default_branch(&cx.place, configured).map_err(git)?;
    found.map(|branch| branch.name).ok_or_else(|| {
        Box::new(
            Refusal::new(Code::NotFound, "there is no branch that work could start from")
                .help("git switch -c main"),
        )
    })
}

/// Finds a unit by name, branch, issue or folder. Without a name: the unit of this worktree. An ended unit is found
/// only if no living unit matches.
pub(crate) fn find_unit(cx: &Context, view: &View, named: Option<&str>) -> Outcome<Unit> {
    let units = state::units(&*view.table).map_err(|e| refuse(Code::Io, e))?;
    let (living, mut over): (Vec<Unit>, Vec<Unit>) = crate::units::worktree_locate::located_all(cx, units)
        .into_iter()
        .partition(|unit| !unit.is_over());
    // If several ended units match an issue, a branch or a folder, the last one is returned.
    over.sort_by_key(|unit| std::cmp::Reverse(unit.created_at));
    let at = |unit: &Unit, path: &Path| real(Path::new(&unit.worktree_path)) == real(path);
    let Some(text) = named else {
        let root = cx.place.worktree_root.as_deref();
        let here = living
            .into_iter()
            .find(|unit| root.is_some_and(|root| at(unit, root)));
        return here.ok_or_else(|| {
            Box::new(
                Refusal::new(
                    Code::NotFound,
                    "this worktree belongs to no unit: say which one is meant",
                )
                .help("jit worktree status"),
            )
        });
    };
    // The issue id may be abbreviated.
    let prefix = text.parse::<IssuePrefix>().ok();
    let issue = prefix.and_then(|prefix| Some(crate::write_path::resolve(view, &prefix).ok()?.id));
    let path = units::place(&cx.place.start, text);
    let among = |units: &[Unit]| {
        let by = |test: &dyn Fn(&Unit) -> bool| units.iter().find(|unit| test(unit)).cloned();
        by(&|unit| unit.id.as_str() == text)
            .or_else(|| by(&|unit| unit.branch == text))
            .or_else(|| by(&|unit| issue.is_some() && unit.issue_id == issue))
            .or_else(|| by(&|unit| at(unit, &path)))
    };
    among(&living).or_else(|| among(&over)).ok_or_else(|| {
        let shown: String = text.chars().take(80).collect();
        let message = format!("no unit has the name, issue, branch or folder {shown:?}");
        let names = living.iter().map(|unit| unit.id.to_string()).collect();
        Box::new(
            Refusal::new(Code::NotFound, message)
                .help("jit worktree status")
                .details(Details::Candidates(names)),
        )
    })
}

/// Finds a unit, and refuses one that has ended.
pub(crate) fn living_unit(cx: &Context, view: &View, named: Option<&str>) -> Outcome<Unit> {
    let unit = find_unit(cx, view, named)?;
    if unit.is_over() {
        return Err(Box::new(
            Refusal::new(Code::NotFound, format!("the unit {} is over", unit.id)).help("jit worktree status"),
        ));
    }
    Ok(unit)
}

/// Moves a unit along its lifecycle table.
pub(crate) fn advance(cx: &Context, id: &UnitId, input: UnitInput, facts: Facts) -> Outcome<Unit> {
    let command = Command::AdvanceUnit {
        unit: id.clone(),
        input,
        facts: Box::new(facts),
    };
    let done = crate::write_path::transact_as(cx, None, &command, WriteOptions::default())?;
    match done.reply {
        Decided::Unit(unit) => Ok(*unit),
        _ => Err(Box::new(Refusal::bug("a unit in the reply of the log"))),
    }
}

/// Returns the environment variables of a unit's commands.
pub(crate) fn unit_vars(cx: &Context, unit: &Unit) -> Vec<(String, String)> {
    let port = units::port(cx.config.ports_from(), unit.slot);
    let mut vars = vec![
        ("JIT_UNIT".to_owned(), unit.id.to_string()),
        ("JIT_WORKTREE".to_owned(), unit.worktree_path.clone()),
        ("JIT_BRANCH".to_owned(), unit.branch.clone()),
        ("JIT_PORT".to_owned(), port.to_string()),
        ("JIT_PORT_LAST".to_owned(), (port + PORTS - 1).to_string()),
        ("JIT_SUFFIX".to_owned(), unit.slot.to_string()),
    ];
    vars.extend(
        unit.issue_id
            .iter()
            .map(|id| ("JIT_ISSUE".to_owned(), id.to_string())),
    );
    vars
}

pub(crate) fn unit_env(cx: &Context, named: Option<&str>) -> Outcome<Answer> {
    let view = crate::write_path::view(cx)?;
    let unit = find_unit(cx, &view, named)?;
    let env = unit_vars(cx, &unit).into_iter().collect();
    crate::write_path::read_answer(cx, &view, Reply::Units(UnitReply::Env(UnitEnv { env })))
}

/// Returns the files that jit may have put into the worktree of a unit.
pub(crate) fn brought(cx: &Context) -> Outcome<files::Brought> {
    Ok(files::Brought::new(&main_root(cx)?, cx.config.shared_files()))
}

/// Returns the folder with the files of an attempt.
pub fn attempt_folder(cx: &Context, unit: &UnitId, attempt: u32) -> PathBuf {
    let units = cx.place.control_dir.join("units");
    units.join(unit.as_str()).join(format!("attempt-{attempt}"))
}

/// Acquires the lock for starting or settling attempts of this unit. `None`: another process holds it.
pub(crate) fn unit_turn(cx: &Context, unit: &UnitId, wait: bool) -> Outcome<Option<std::fs::File>> {
    let units = cx.place.control_dir.join("units");
    let folder = units.join(unit.as_str());
    let path = folder.join("lock");
    let io = |e: std::io::Error| io_refusal("lock", &path, &e);
    for folder in [&units, &folder] {
        file::make_dir_like_parent(folder).map_err(|e| io_refusal("create", folder, &e))?;
    }
    let file = file::open_lock(&path).map_err(io)?;
    if wait {
        file.lock().map_err(io)?;
        return Ok(Some(file));
    }
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(std::fs::TryLockError::WouldBlock) => Ok(None),
        Err(std::fs::TryLockError::Error(e)) => Err(io(e)),
    }
}

pub(crate) fn load_unit(cx: &Context, id: &UnitId) -> Outcome<Unit> {
    let view = crate::write_path::view(cx)?;
    let unit = jit_core::decide::units::require(&*view.table, id).map_err(crate::refusals::stopped)?;
    Ok(crate::units::worktree_locate::located(cx, unit))
}
