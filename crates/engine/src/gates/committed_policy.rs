//! The policy that binds agents: gates and rights as they are committed, not only as the tree has them (E6).
//!
//! What must hold:
//!
//! - A file that an agent wrote gives it no right, opens no lease of others and removes no gate. The change counts
//!   once it is committed here and on the target. A gate that is defined differently there does not pass until both
//!   definitions are equal.
//! - The tree alone does not name the target branch. The committed settings name it too, and the log for a unit.
//! - A file can bind more than the committed one: gates that are only in the tree count too.
//! - Git is asked only if an agent wants something that this policy decides; about leases only if the tree is
//!   lenient.
//!
//! Limitations: this is a guard rail, not a security boundary. The settings file in the home folder of the account
//! counts as the user's. A tree that is strict about leases is trusted, even if strict-explicit is committed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
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

/// Whether a path is a file of `.jit/` that holds for everybody (C2): configuration, gates, types. Agents neither commit
/// nor land a change of one, because it would decide about them.
pub(crate) fn is_for_everybody(path: &Path) -> bool {
    let begins = |name: &OsStr, with: &str| name.as_bytes().starts_with(with.as_bytes());
    let parts: Vec<&OsStr> = path.iter().collect();
    match parts.as_slice() {
        [jit, name] if *jit == ".jit" => {
            *name == ".gitattributes" || begins(name, "config.") || begins(name, "type")
        }
        [jit, gates, name] if *jit == ".jit" && *gates == "gates" => begins(name, "registry"),
        _ => false,
    }
}

/// Returns the settings with the gates that issue types require in this worktree. For an agent's action (`by_agent`)
/// it adds the gates of the commits that bind.
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

/// Removes rights from agents that are neither committed nor given by a setting of the user.
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

/// Removes an agent's permission to work without leases, unless it is committed or given by a setting of the user.
pub(crate) fn bind_leases(cx: &mut Context) {
    if !matches!(cx.policy.enforce, Enforce::Warn | Enforce::Off)
        || crate::context::calling_agent::asking_agent(cx).is_none()
    {
        return;
    }
    // If the committed settings cannot be read, nothing is lenient.
    let committed = committed_settings(cx);
    for config in committed.unwrap_or_else(|_| vec![Config::default()]) {
        let said = cx.config.tighten_leases(&config);
        cx.warnings.extend(said);
    }
    cx.policy = cx.config.policy();
}

/// Returns the settings that hold for the caller, and messages about values that do not. For an agent, a value that is
/// neither committed nor the user's loosens nothing.
pub(crate) fn settings_for_caller(cx: &Context) -> (Config, Vec<String>) {
    let (mut config, mut said) = (cx.config.clone(), Vec::new());
    if crate::context::calling_agent::asking_agent(cx).is_none() {
        return (config, said);
    }
    let committed = committed_settings(cx);
    for binding in committed.unwrap_or_else(|_| vec![Config::default()]) {
        said.extend(config.tighten(&binding));
    }
    (config, said)
}

/// Returns, for each commit that binds, the settings with the committed file instead of the tree's.
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

/// Returns the sources of settings. For an agent, what it could have chosen itself loosens nothing.
pub(crate) fn sources(cx: &Context) -> Sources {
    let agent = crate::context::calling_agent::asking_agent(cx);
    Sources::from_process(&cx.place).asked_by(agent.as_ref())
}

/// Returns the settings that judge a commit here: those committed on the default branch, where everybody's come from,
/// else at HEAD. What the commit itself brings, or the tree has, does not judge it. Where none of these commits has
/// `.jit/` yet, the tree's settings do.
pub(crate) fn settings_that_judge(cx: &Context) -> Outcome<Config> {
    let usual = default_branch(&cx.place, None).map_err(failed)?;
    let usual = usual.and_then(|branch| branch.refname);
    let sources = sources(cx);
    for commit in usual.iter().map(String::as_str).chain(["HEAD"]) {
        if blob_at(cx, &format!("{commit}:.jit"))?.is_none() {
            continue;
        }
        // Settings that cannot be read loosen nothing, and must not stop the commit that mends them.
        let found = settings_at(cx, &sources, commit);
        let without = || Config::load(&sources.clone().without_repository());
        return Ok(found.ok().or_else(|| without().ok()).unwrap_or_default());
    }
    Ok(cx.config.clone())
}

/// Returns the different registries of these commits.
fn committed_gates(cx: &Context, commits: &BTreeSet<String>) -> Outcome<Vec<Registry>> {
    let mut blobs = BTreeSet::new();
    for commit in commits {
        blobs.extend(blob_at(cx, &format!("{commit}:{REGISTRY}"))?);
    }
    let read = |blob: &String| Registry::parse(Path::new(REGISTRY), &content(cx, blob)?);
    blobs.iter().map(read).collect()
}

/// Returns the gates that are committed at this worktree's HEAD.
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

/// Returns the commands that bring the binding definitions of these gates into this tree.
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

/// Returns the commits that bind: this worktree's HEAD, the default branch, and the targets. Targets come from the
/// log for a unit, from the tree's settings and from the committed ones. A target need not exist yet. Every branch
/// that the settings name counts, because an agent can change which of them exist.
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
    // The base of the unit's branch names its target, but does not fix the requirements for ever.
    let began = unit.as_ref().map(|unit| unit.base.clone());
    targets.extend(unit.map(|unit| unit.target));
    let sources = Sources {
        env: Vec::new(),
        ..sources(cx)
    };
    for commit in commits.iter().chain(&began) {
        // Settings that cannot be read name no target.
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

/// Returns the object of that name, if there is one.
fn blob_at(cx: &Context, name: &str) -> Outcome<Option<String>> {
    own_git(cx).verify(name).map_err(failed)
}

pub(crate) fn content(cx: &Context, blob: &str) -> Outcome<Vec<u8>> {
    let git = own_git(cx).args(["cat-file", "blob", blob]);
    git.run().map_err(failed)
}

/// Runs git in this worktree's own git folder, for its HEAD.
fn own_git(cx: &Context) -> Git {
    cx.git_in(cx.place.git_dir.as_deref().unwrap_or(&cx.place.start))
}

fn failed(error: GitError) -> Box<jit_core::model::refusal::Refusal> {
    crate::refusals::failed(error)
}
