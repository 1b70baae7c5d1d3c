//! Submodules of what is to land: the commit that each points to must be one that others can get.
//!
//! Limitations: what a remote-tracking branch says is believed. Submodules of submodules are not looked at.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use super::*;

/// A submodule that a unit points to another commit.
struct Pointer {
    path: PathBuf,
    commit: String,
}

fn is_checked_out(root: &Path) -> bool {
    root.join(".git").symlink_metadata().is_ok()
}

fn within(root: &Path) -> Git {
    Git::at(root)
        .arg("--no-optional-locks")
        .setting("core.fsmonitor", "false")
        .without_hooks()
}

impl Run<'_> {
    /// Refuses what would land as a pointer to a commit that only the unit's own worktree has.
    pub(super) fn require_reachable_submodules(&mut self, work: &Work, target: &str) -> Outcome<()> {
        let mut pointers = self.pointers(work, target)?;
        if pointers.is_empty() {
            return Ok(());
        }
        let main = self.app.main_root()?;
        pointers.retain(|one| {
            let there = main.join(&one.path);
            // Whoever has the main checkout has it.
            !(is_checked_out(&there)
                && within(&there)
                    .verify(&format!("{}^{{commit}}", one.commit))
                    .is_ok_and(|found| found.is_some()))
        });
        for one in pointers {
            let root = Path::new(&work.unit.worktree_path).join(&one.path);
            let known = is_checked_out(&root)
                && within(&root)
                    .verify(&format!("{}^{{commit}}", one.commit))
                    .map_err(failed)?
                    .is_some();
            let (name, short) = (one.path.display(), one.commit.get(..10).unwrap_or(&one.commit));
            if !known {
                self.warnings.push(format!(
                    "{} points the submodule {name} to {short}, and nobody here can tell whether others have that",
                    work.unit.id
                ));
                continue;
            }
            let left = within(&root)
                .args(["rev-list", "--max-count=1", &one.commit, "--not", "--remotes"])
                .run()
                .map_err(failed)?;
            if left.is_empty() {
                continue;
            }
            let message = format!(
                "{} points the submodule {name} to {short}, which only its own worktree has: nobody else could check it out",
                work.unit.id
            );
            let help = push_command(&root, &one.commit, &work.unit.branch)?;
            return Err(Box::new(Refusal::new(Code::CheckFailed, message).help(help)));
        }
        Ok(())
    }

    /// The submodules whose commit would be another one on the target.
    fn pointers(&self, work: &Work, target: &str) -> Outcome<Vec<Pointer>> {
        let Some(base) = self.repo.merge_base(target, &work.tip)? else {
            return Ok(Vec::new());
        };
        let listed = self
            .repo
            .git()
            .args(["diff-tree", "-r", "-z", "--no-renames", &base, &work.tip])
            .run()
            .map_err(failed)?;
        let mut found = Vec::new();
        let mut records = listed.split(|b| *b == 0);
        while let (Some(head), Some(path)) = (records.next(), records.next()) {
            let head = String::from_utf8_lossy(head);
            if let [_, "160000", _, commit, _] = head.split(' ').collect::<Vec<_>>().as_slice() {
                found.push(Pointer {
                    path: PathBuf::from(OsStr::from_bytes(path)),
                    commit: (*commit).to_owned(),
                });
            }
        }
        Ok(found)
    }
}

/// What makes the commit known to others.
fn push_command(root: &Path, commit: &str, branch: &str) -> Outcome<String> {
    let shown = shell_word(&root.to_string_lossy());
    let remotes = within(root).args(["remote"]).line().map_err(failed)?;
    let remote = match remotes.lines().find(|name| *name == "origin") {
        Some(name) => name,
        None => match remotes.lines().next() {
            Some(name) => name,
            None => return Ok(format!("git -C {shown} remote add origin <address>")),
        },
    };
    let head = within(root).verify("HEAD").map_err(failed)?;
    let what = if head.as_deref() == Some(commit) {
        "HEAD"
    } else {
        commit
    };
    let own = within(root).symbolic_head().map_err(failed)?;
    let goal = own.unwrap_or_else(|| format!("refs/heads/{branch}"));
    let spec = shell_word(&format!("{what}:{goal}"));
    Ok(format!("git -C {shown} push {} {spec}", shell_word(remote)))
}
