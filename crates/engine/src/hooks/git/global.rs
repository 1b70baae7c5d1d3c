//! Agents commit no change of global files, because these decide about them (E6). Global files change only on an allowed branch that contains the main branch's tip, so that every worktree gets
//! them (C2). Adding `.jit/` for the first time is allowed on any branch.

use jit_core::model::refusal::{Code, Refusal};
use jit_store::Outcome;

use super::divergence::main_branch;
use super::staged::{self, Staged};
use crate::config::Config;
use crate::context::Context;
use crate::context::calling_agent::asking_agent;
use crate::refusals::refuse;

/// Refuses changes of global files on other branches, by the rules of the target. `changed` are the changes that no
/// merge brought.
pub fn refuse_misplaced(cx: &Context, rules: &Config, changed: &[&Staged]) -> Outcome<()> {
    let (Some(first), Some(git_dir)) = (changed.first(), &cx.place.git_dir) else {
        return Ok(());
    };
    let failed = |e| refuse(Code::Io, e);
    if first.old.is_none() {
        let there = cx.git_in(git_dir).verify("HEAD:.jit").map_err(failed)?;
        if there.is_none() {
            return Ok(());
        }
    }
    let what = first.path.display();
    if let Some(agent) = asking_agent(cx) {
        let message = format!("{what} holds for everybody, and {agent} is an agent: a person commits that");
        let restore = format!("git restore --staged {}", shell(first));
        return Err(Box::new(Refusal::new(Code::NotAllowed, message).help(restore)));
    }
    let main = main_branch(&cx.place, rules)?;
    let allowed: Vec<String> = match (rules.allowed_branches(), &main) {
        ([], Some(main)) => vec![main.name.clone()],
        (named, _) => named.to_vec(),
    };
    let here = cx.branch.clone().unwrap_or_else(|| "a detached HEAD".to_owned());
    // If no branch is known, there is none to protect.
    if !allowed.is_empty() && !allowed.contains(&here) {
        let refusal = Refusal::new(
            Code::NotAllowed,
            format!(
                "{what} holds for everybody and changes only on {}, not on {here}",
                allowed.join(" or ")
            ),
        )
        .help(format!("git restore --staged {}", shell(first)))
        .help(format!("commit it on {}", allowed.join(" or ")));
        return Err(Box::new(refusal));
    }
    let Some((main, tip)) = main.and_then(|main| main.tip.clone().map(|tip| (main, tip))) else {
        return Ok(());
    };
    if !rules.require_main_history() {
        return Ok(());
    }
    let Some(git) = staged::git(&cx.place) else {
        return Ok(());
    };
    if cx.git_in(git_dir).verify("HEAD").map_err(failed)?.is_none()
        || git
            .args(["merge-base", "--is-ancestor", &tip, "HEAD"])
            .test()
            .map_err(failed)?
    {
        return Ok(());
    }
    let mut refusal = Refusal::new(
        Code::NotAllowed,
        format!(
            "{what} holds for everybody, and {here} does not contain the tip of {}",
            main.short()
        ),
    );
    refusal.help = main.help();
    Err(Box::new(refusal))
}

fn shell(staged: &Staged) -> String {
    jit_os::shell::shell_word(&staged.path.to_string_lossy())
}
