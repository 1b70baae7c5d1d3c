//! Programs that git would start because the repository's own settings name them (L2).
//!
//! `jit_git` finds them and withholds them from git. Here the user's approvals decide, like those of other commands
//! (`approvals`).
//!
//! What must hold:
//! - The name of an approval is the full name of the setting, and its text is the exact value.
//! - The merge driver for issues that `jit init` registers needs no approval: this program takes its place, by its
//!   absolute path.

use std::ffi::OsString;
use std::path::Path;

use jit_git::{Approver, LocalProgram, Place};
use jit_os::shell::shell_word;
use jit_store::Outcome;

use crate::api::trust::Kind;
use crate::approvals::approvals;
use crate::refusals::refuse;
use jit_core::model::refusal::Code;

/// The setting with the merge driver for issues.
const OWN_DRIVER: &str = "merge.jit-issue.driver";

/// The end of the command that `jit init` registers, and the whole of it in earlier versions. If no `jit` is found, both
/// sides are kept with conflict markers: git itself would take ours.
pub(crate) const DRIVER_COMMAND: &str = "if command -v jit >/dev/null 2>&1; then jit merge-driver %O %A %B %P; \
    else echo jit is not on PATH, merged line by line: %P >&2; \
    git merge-file --marker-size=%L -L ours -L base -L theirs %A %O %B; fi";
/// The command of the first versions. Both start the `jit` that is on the user's PATH.
pub(crate) const FORMER_COMMAND: &str = "jit merge-driver %O %A %B %P";

/// Lets the user's approvals decide what git may start, in this process.
pub(crate) fn decide_by_approvals() {
    jit_git::set_approver(Approver { is_approved, own });
}

fn is_approved(repository: &Path, name: &str, text: &str) -> bool {
    approvals().is_ok_and(|trust| trust.is_trusted(repository, Kind::Git, name, text))
}

/// The value to use in place of a setting that some version of jit wrote.
fn own(name: &str, text: &str) -> Option<OsString> {
    let is_jits = name == OWN_DRIVER && text.contains("jit") && text.contains(" merge-driver %O %A %B %P");
    if !is_jits {
        return None;
    }
    let program = std::env::current_exe().ok();
    let as_it_is = || {
        [DRIVER_COMMAND, FORMER_COMMAND]
            .contains(&text)
            .then(|| text.into())
    };
    program.and_then(|program| driver(&program)).or_else(as_it_is)
}

/// The command of the merge driver. `None` if this program is not `jit`, as in tests, or was replaced meanwhile.
fn driver(program: &Path) -> Option<OsString> {
    if program.file_name()? != "jit" || !program.is_file() {
        return None;
    }
    let program = shell_word(program.to_str()?).replace('%', "%%");
    Some(format!("{program} merge-driver %O %A %B %P").into())
}

/// The programs of a repository that need an approval, and whether they have it.
pub(crate) fn of(place: &Place) -> Outcome<Vec<(LocalProgram, bool)>> {
    let (Some(git_dir), Some(common)) = (&place.git_dir, &place.common_dir) else {
        return Ok(Vec::new());
    };
    let found = jit_git::programs_of(git_dir, common, place.worktree_root.as_deref());
    let found = found.map_err(|e| refuse(Code::Config, format!("cannot read git's settings: {e}")))?;
    let judged = found.into_iter().filter_map(|one| {
        let needs = jit_git::needs_approval(&one)?;
        Some((one, !needs))
    });
    Ok(judged.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::init::MERGE_DRIVER;

    #[test]
    fn l2_only_jits_own_merge_driver_is_replaced() {
        assert_eq!(OWN_DRIVER, format!("merge.{MERGE_DRIVER}.driver"));
        // The tests are not `jit`: the command stays as it was registered.
        assert_eq!(own(OWN_DRIVER, DRIVER_COMMAND), Some(DRIVER_COMMAND.into()));
        assert_eq!(own(OWN_DRIVER, &format!("evil; {DRIVER_COMMAND}")), None);
        assert_eq!(own("merge.other.driver", DRIVER_COMMAND), None);
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("100% jit's").join("jit");
        assert_eq!(driver(&program), None, "it is not there");
        std::fs::create_dir(program.parent().expect("a folder")).expect("a folder");
        std::fs::write(&program, "").expect("a file");
        let command = driver(&program).expect("a command");
        let command = command.to_str().expect("text");
        assert!(command.ends_with("/jit' merge-driver %O %A %B %P"), "{command}");
        assert!(command.contains("100%% jit"), "{command}");
    }
}
