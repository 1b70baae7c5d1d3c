//! What binds agents: gates and rights as they are committed, and not only as the tree has them (E6).
//!
//! What must hold:
//!
//! - what an agent wrote into a file gives it no right, opens no lease of others and takes no gate away before it is committed
//!   where it stands and on the target; a gate that is defined differently there has not passed before it is the same everywhere;
//! - which branch is the target is not for the tree alone to say: what is committed names it too, and the log for a unit;
//! - a file can bind more than what is committed: gates that are only in the tree count as well;
//! - git is asked only where an agent wants something that this decides, and about leases only where the tree is lenient.
//!
//! Limitations: as everywhere, this is a guard rail. The user's own file of settings counts as the user's. A tree that is
//! strict about leases is taken at its word, though strict-explicit be committed.

use std::collections::BTreeSet;
use std::path::Path;

use jit_core::model::policy::{Enforce, Policy};
use jit_core::model::refusal::Code;
use jit_git::branches::default_branch;
use jit_git::{Git, GitError};
use jit_os::shell::shell_word;
use jit_store::Outcome;

use crate::config::{Config, Sources};
use crate::context::Context;
use crate::gates::Registry;
use crate::refusals::refuse;

const CONFIG: &str = ".jit/config.toml";
const REGISTRY: &str = ".jit/gates/registry.json";

/// The settings, with the gates that types of issues require in this worktree; for what an agent does (`by_agent`),
/// also those that they require where it is committed.
pub(crate) fn policy_with_gates(cx: &Context, by_agent: bool) -> Outcome<Policy> {
    let mut policy = cx.policy.clone();
    if let Some(jit) = &cx.place.local_jit {
        Registry::load(jit)?.bind(&mut policy);
    }
    if by_agent {
        for registry in committed_gates(cx, &commits_that_bind(cx)?)? {
            registry.bind(&mut policy);
        }
        bind_rights(cx, &mut policy)?;
    }
    Ok(policy)
}

/// Takes the rights away from agents that are not committed, and that no setting of the user gives.
pub(crate) fn bind_rights(cx: &Context, policy: &mut Policy) -> Outcome<()> {
    if !policy.agents_may_pass_gates && !policy.agents_may_evict {
        return Ok(());
    }
    for config in committed_settings(cx)? {
        let given = config.policy();
        policy.agents_may_pass_gates &= given.agents_may_pass_gates;
        policy.agents_may_evict &= given.agents_may_evict;
    }
    Ok(())
}

/// Takes from an agent what leave to do without leases is not committed, and no setting of the user gives.
pub(crate) fn bind_leases(cx: &mut Context) {
    if !matches!(cx.policy.enforce, Enforce::Warn | Enforce::Off)
        || crate::context::calling_agent::asking_agent(cx).is_none()
    {
        return;
    }
    // Where it cannot be read what is committed, nothing is lenient.
    let committed = committed_settings(cx);
    for config in committed.unwrap_or_else(|_| vec![Config::default()]) {
        let said = cx.config.tighten_leases(&config);
        cx.warnings.extend(said);
    }
    cx.policy = cx.config.policy();
}

/// The settings with what is committed in the place of the tree's file, for each commit that binds.
fn committed_settings(cx: &Context) -> Outcome<Vec<Config>> {
    let sources = sources(cx);
    let commits = commits_that_bind(cx)?;
    let found = commits.iter().map(|commit| settings_at(cx, &sources, commit));
    let mut all: Vec<Config> = found.collect::<Outcome<_>>()?;
    if commits.is_empty() {
        all.push(Config::load(&sources.without_repository()).map_err(|e| refuse(Code::Config, e))?);
    }
    Ok(all)
}

fn settings_at(cx: &Context, sources: &Sources, commit: &str) -> Outcome<Config> {
    let name = format!("{commit}:{CONFIG}");
    let config = match blob_at(cx, &name)? {
        Some(blob) => Config::load_committed(sources, Path::new(&name), &content(cx, &blob)?),
        None => Config::load(&sources.clone().without_repository()),
    };
    config.map_err(|e| refuse(Code::Config, e))
}

/// What settings are read from: for an agent, without variables about what restrains it.
pub(crate) fn sources(cx: &Context) -> Sources {
    let sources = Sources::from_process(&cx.place);
    match crate::context::calling_agent::asking_agent(cx) {
        Some(_) => sources.without_restraints(),
        None => sources,
    }
}

/// The different registries that these commits have.
fn committed_gates(cx: &Context, commits: &BTreeSet<String>) -> Outcome<Vec<Registry>> {
    let mut blobs = BTreeSet::new();
    for commit in commits {
        blobs.extend(blob_at(cx, &format!("{commit}:{REGISTRY}"))?);
    }
    let read = |blob: &String| Registry::parse(Path::new(REGISTRY), &content(cx, blob)?);
    blobs.iter().map(read).collect()
}

/// The gates that are committed where this worktree stands.
pub(crate) fn gates_of_head(cx: &Context) -> Outcome<Registry> {
    if cx.place.git_dir.is_none() {
        return Ok(Registry::default());
    }
    gates_at(cx, "HEAD")
}

fn gates_at(cx: &Context, commit: &str) -> Outcome<Registry> {
    let found = committed_gates(cx, &BTreeSet::from([commit.to_owned()]))?;
    Ok(found.into_iter().next().unwrap_or_default())
}

/// What brings these gates into this tree as they are where they bind.
pub(crate) fn ways_to_gates(cx: &Context, here: &Registry, names: &[String]) -> Outcome<Vec<String>> {
    let head = gates_of_head(cx)?;
    let differs = |a: &Registry, b: &Registry| {
        let mut defined = names.iter().filter(|name| a.find(name).is_some());
        defined.any(|name| a.find(name) != b.find(name))
    };
    let mut ways = Vec::new();
    if differs(&head, here) {
        ways.push(format!(
            "git restore {REGISTRY}: what is committed counts for agents"
        ));
    }
    for commit in commits_that_bind(cx)? {
        if differs(&gates_at(cx, &commit)?, &head) {
            let branch = commit.strip_prefix("refs/heads/").unwrap_or(&commit);
            ways.push(format!(
                "git merge {}: the gates that are there count for agents",
                shell_word(branch)
            ));
        }
    }
    Ok(ways)
}

/// Where this worktree stands, and where work goes to: by the log for a unit, by the tree's settings, by those that are
/// committed, and whatever they say. None of them need be there yet. Of branches that settings name each one counts:
/// which of them exist is for an agent to change.
fn commits_that_bind(cx: &Context) -> Outcome<BTreeSet<String>> {
    if cx.place.git_dir.is_none() {
        return Ok(BTreeSet::new());
    }
    let usual = default_branch(&cx.place, None).map_err(failed)?;
    let mut commits = BTreeSet::from(["HEAD".to_owned()]);
    commits.extend(usual.and_then(|branch| branch.refname));
    let mut targets = cx.config.merging().target;
    let view = cx.store.view().ok();
    let unit = view.and_then(|view| crate::units::service::find_unit(cx, &view, None).ok());
    // Where its branch began says where it goes to, but not for ever what is required.
    let began = unit.as_ref().map(|unit| unit.base.clone());
    targets.extend(unit.map(|unit| unit.target));
    let sources = Sources {
        env: Vec::new(),
        ..sources(cx)
    };
    for commit in commits.iter().chain(&began) {
        // What cannot be read names nothing.
        if let Ok(config) = settings_at(cx, &sources, commit) {
            targets.extend(config.merging().target);
        }
    }
    targets.sort();
    targets.dedup();
    for name in targets {
        let name = format!("refs/heads/{name}");
        if blob_at(cx, &name)?.is_some() {
            commits.insert(name);
        }
    }
    Ok(commits)
}

/// The object of that name, if there is one.
fn blob_at(cx: &Context, name: &str) -> Outcome<Option<String>> {
    own_git(cx).verify(name).map_err(failed)
}

pub(crate) fn content(cx: &Context, blob: &str) -> Outcome<Vec<u8>> {
    let git = own_git(cx).args(["cat-file", "blob", blob]);
    git.run().map_err(failed)
}

/// On this worktree's own git folder, whose HEAD it is.
fn own_git(cx: &Context) -> Git {
    Git::in_git_dir(cx.place.git_dir.as_deref().unwrap_or(&cx.place.start))
}

fn failed(error: GitError) -> Box<jit_core::model::refusal::Refusal> {
    refuse(Code::Io, error)
}
