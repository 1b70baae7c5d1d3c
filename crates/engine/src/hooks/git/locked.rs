//! Refuses to commit files that another agent has locked, globally or in this worktree (C2).

use jit_core::model::policy::Enforce;
use jit_core::model::refusal::{Code, Details, Refusal, left};
use jit_store::Outcome;

use super::staged::Staged;
use crate::config::Config;
use crate::context::Context;
use crate::file_locks::others::{covering, of_others};

/// Refuses a commit of paths that another agent has locked. If the settings only ask for warnings, it warns instead.
/// Without such locks no path is checked.
pub fn refuse_locked_paths(cx: &Context, rules: &Config, staged: &[Staged]) -> Outcome<Vec<String>> {
    let enforce = rules.enforce_leases();
    if enforce == Enforce::Off {
        return Ok(Vec::new());
    }
    let view = match crate::write_path::view(cx) {
        Ok(view) => view,
        // Without a log there are no locks.
        Err(refusal) if refusal.code == Code::NotInitialized => return Ok(Vec::new()),
        Err(refusal) => return Err(refusal),
    };
    let locks = of_others(&view, &cx.actor)?;
    if locks.is_empty() {
        return Ok(Vec::new());
    }
    for one in staged {
        let Some(lease) = covering(&locks, &one.path) else {
            continue;
        };
        let message = format!(
            "{} is locked by {} for another {}: it is not to be committed now",
            one.path.display(),
            lease.agent_id,
            left(lease.remaining_ms(&view.now)),
        );
        if enforce == Enforce::Warn {
            return Ok(vec![message]);
        }
        return Err(Box::new(
            Refusal::new(Code::NotHolder, message)
                .help("jit lock list")
                .help(format!(
                    "git restore --staged -- {}",
                    jit_os::shell::shell_word(&one.path.to_string_lossy())
                ))
                .details(Details::Locks(vec![lease.clone()])),
        ));
    }
    Ok(Vec::new())
}
