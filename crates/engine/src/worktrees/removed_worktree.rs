//! Detects that the current folder was a worktree whose git folder is gone (G12): which worktree, and of which
//! repository.
//!
//! A landing that is asked for there is carried out in that repository, on the unit of the folder.
//!
//! What must hold: nothing is guessed. The repository is known from the link that the folder still has.
//!
//! Limitations: a folder that no longer exists cannot be assigned to a worktree. jit removes no folder in which a
//! process has its current folder.

use std::path::{Path, PathBuf};

use jit_core::model::refusal::{Code, Refusal};
use jit_store::Outcome;

use crate::api::Options;
use crate::api::Request;
use crate::api::landing::LandingRequest;
use crate::api::units::UnitRequest;
use crate::context::Context;
use crate::units::worktree_state::leads_to;

/// A folder that was a worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedWorktree {
    /// The path of the folder.
    pub folder: PathBuf,
    /// The git folder of its repository.
    pub common: PathBuf,
}

fn is_repository(common: &Path) -> bool {
    common.join("HEAD").exists() && common.join("objects").is_dir()
}

/// Returns the caller's folder, or one above it, if that was a worktree and no longer is.
fn removed_worktree(options: &Options) -> Option<RemovedWorktree> {
    let dir = match &options.dir {
        Some(dir) => std::path::absolute(dir).ok()?,
        None => std::env::current_dir().ok()?,
    };
    dir.ancestors().find_map(forgotten)
}

/// Opens what a refused request needs in the repository of the removed worktree that the caller is in. `None` if
/// the request must be asked in an existing worktree.
pub(crate) fn open_instead(options: &Options, request: &Request) -> Option<Outcome<(Context, Request)>> {
    if !matches!(
        request,
        Request::Units(UnitRequest::Finish { .. })
            | Request::Landing(LandingRequest::Merge(_))
            // A landing may have to ask for approval.
            | Request::Trust(_)
    ) {
        return None;
    }
    let Some(lost) = removed_worktree(options) else {
        return std::env::current_dir().is_err().then(|| {
            let refusal = Refusal::new(Code::NotFound, "the folder that you are in is gone");
            Err(Box::new(
                refusal.help("cd <the repository>, then: jit finish <unit>"),
            ))
        });
    };
    let options = Options {
        dir: Some(lost.common.clone()),
        ..options.clone()
    };
    let opened = crate::opening::open(&options, request.facts().need());
    Some(opened.map(|cx| (cx, named(request.clone(), &lost.folder))))
}

/// Names the unit of the removed worktree in a request that names none.
fn named(request: Request, folder: &Path) -> Request {
    let folder = folder.to_string_lossy().into_owned();
    match request {
        Request::Units(UnitRequest::Finish { unit: None, pr }) => {
            let unit = Some(folder);
            UnitRequest::Finish { unit, pr }.into()
        }
        Request::Landing(LandingRequest::Merge(mut ask)) if ask.units.is_empty() && !ask.all => {
            ask.units.push(folder);
            LandingRequest::Merge(ask).into()
        }
        request => request,
    }
}

/// The folder exists, and its git folder is gone: the removal was interrupted in between.
fn forgotten(folder: &Path) -> Option<RemovedWorktree> {
    let git_dir = leads_to(folder).filter(|git_dir| !git_dir.exists())?;
    let worktrees = git_dir.parent().filter(|above| above.ends_with("worktrees"))?;
    let common = worktrees.parent().filter(|common| is_repository(common))?;
    Some(RemovedWorktree {
        folder: folder.to_owned(),
        common: common.to_owned(),
    })
}
