//! From rescued work back to the target: the commands for it, which have to work as they are told.
//!
//! A rescued worktree is no unit any more. A new unit that begins at its commits lands them, also when nothing is committed
//! on top.

use std::path::Path;

use jit_core::ids::UnitId;
use jit_core::refusal::Code;
use jit_core::state;

use super::{App, refuse, shell_word};
use crate::rescue::evidence::Kind;
use crate::rescue::raw::unshown;
use crate::rescue::restore::Restored;
use crate::rescue::{Manifest, Stage};
use crate::store::Outcome;
use crate::units::{self, Words};

/// So many names are tried.
const MOST: usize = 50;

impl App {
    /// What to do with an entry, as it is now.
    pub(super) fn ways_back(&self, manifest: &Manifest) -> Outcome<Vec<String>> {
        if matches!(manifest.stage, Stage::Saving | Stage::Removing) {
            return Ok(Vec::new());
        }
        if let Some(path) = manifest.restored_to.as_deref().map(unshown)
            && manifest.stage == Stage::Restored
            && path.join(".git").exists()
        {
            return self.with_commit(manifest, &path, None);
        }
        let mut ways = vec![format!("jit rescue restore {}", manifest.id)];
        // Where there is nothing but commits, they need not be checked out first.
        let name = ["branch", "head"]
            .into_iter()
            .find(|name| manifest.refs.contains_key(*name));
        if let Some(name) = name
            && manifest.work.iter().any(|one| one.kind == Kind::Commit)
            && manifest.work.iter().all(|one| one.kind == Kind::Commit)
        {
            ways.extend(self.new_unit(manifest, &manifest.id.reference(name))?);
        }
        Ok(ways)
    }

    /// How what was restored comes to the target.
    pub(super) fn ways_to_land(&self, manifest: &Manifest, restored: &Restored) -> Outcome<Vec<String>> {
        self.with_commit(manifest, Path::new(&restored.path), restored.branch.as_deref())
    }

    /// Commits what is not committed in a restored worktree; then a unit.
    fn with_commit(&self, manifest: &Manifest, path: &Path, branch: Option<&str>) -> Outcome<Vec<String>> {
        let shown = shell_word(&path.to_string_lossy());
        let open = |kind: Kind| matches!(kind, Kind::Staged | Kind::Unstaged | Kind::Untracked);
        let mut ways = Vec::new();
        if manifest.work.iter().any(|one| open(one.kind)) {
            ways.push(format!("git -C {shown} add -A && git -C {shown} commit"));
        }
        let base = match branch {
            Some(branch) => shell_word(branch),
            None => format!("\"$(git -C {shown} rev-parse HEAD)\""),
        };
        ways.extend(self.new_unit(manifest, &base)?);
        Ok(ways)
    }

    /// A unit that begins there, under a name that is free, and its landing. `base` is a word of a command line.
    fn new_unit(&self, manifest: &Manifest, base: &str) -> Outcome<Vec<String>> {
        let view = self.view()?;
        let unreadable = |e| refuse(Code::Io, e);
        let units = state::units(&*view.table).map_err(unreadable)?;
        let known = units.iter().find(|unit| unit.id == manifest.unit);
        let issue = match known.and_then(|unit| unit.issue_id.as_ref()) {
            Some(id) => state::issue(&*view.table, id).map_err(unreadable)?,
            None => None,
        };
        // One for an issue has the issue's name: it is of use while that is open, and nobody else is at it.
        let of_issue = issue.filter(|issue| {
            !issue.state.is_closed()
                && UnitId::slug(issue.id.as_str()).as_ref() == Some(&manifest.unit)
                && known.is_none_or(|unit| unit.is_over())
        });
        let main = self.main_root()?;
        let repository = main
            .file_name()
            .map_or("repo".into(), |name| name.to_string_lossy());
        let invalid = |why: String| refuse(Code::Invalid, why);
        for n in 1..MOST {
            let name = match n {
                1 => manifest.unit.clone(),
                n => match format!("{}-{n}", manifest.unit).parse::<UnitId>() {
                    Ok(name) => name,
                    Err(_) => break,
                },
            };
            let words = Words {
                unit: &name,
                repository: &repository,
                issue: of_issue.as_ref().map(|issue| issue.id.as_str()),
            };
            let path = units::place(
                &main,
                &units::fill(self.config.worktree_path(), words).map_err(invalid)?,
            );
            let branch = units::fill(self.config.worktree_branch(), words).map_err(invalid)?;
            let taken = units.iter().any(|unit| unit.id == name && !unit.is_over());
            if taken || self.require_free(&path, &branch, name.as_str()).is_err() {
                continue;
            }
            let (what, id) = match &of_issue {
                Some(issue) => (issue.id.to_string(), manifest.unit.clone()),
                None => (name.to_string(), name.clone()),
            };
            let mut create = format!("jit worktree create {} --base {base}", shell_word(&what));
            if of_issue.is_some() && n > 1 {
                let path = shell_word(&path.to_string_lossy());
                create.push_str(&format!(" --branch {} --path {path}", shell_word(&branch)));
            }
            return Ok(vec![create, format!("jit finish {id}")]);
        }
        Ok(Vec::new())
    }
}
