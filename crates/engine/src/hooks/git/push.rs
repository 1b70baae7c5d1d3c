//! The hooks pre-push and pre-receive.
//!
//! pre-push (C3): reports commits whose lease has ended, one line for each lease. `hooks.pre_push = "strict"` refuses
//! them, `"off"` skips the check. A lease counts as active while its agent holds the same issue again. Commits of an issue
//! that is done always pass: their lease ended with the work.
//!
//! pre-receive (C5): with a log here, refuses commits that contradict it. Without one, refuses trailers that jit
//! cannot have written. Commits without trailers pass: people without jit may push. At that moment the objects are
//! still in git's quarantine, which every call of git here can read.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use jit_core::log::state;
use jit_core::model::ids::{AgentId, LeaseId, WorktreeId};
use jit_core::model::issue::IssueState;
use jit_core::model::refusal::{Code, Refusal};
use jit_git::Git;
use jit_store::Outcome;

use crate::api::Options;
use crate::api::verify::Verdict;
use crate::config::{Mode, PrePush};
use crate::context::{Context, Surroundings};
use crate::hooks::git::verify::{self, Commit, Leases};
use crate::refusals::refuse;
use crate::worktree_identity::identity::Need;

/// The number of commits that one refusal names.
const SHOWN: usize = 10;

/// Splits git's input for hooks into lines of words.
fn rows(input: &[u8]) -> impl Iterator<Item = Vec<String>> {
    let text = String::from_utf8_lossy(input).into_owned();
    let rows: Vec<Vec<String>> = text
        .lines()
        .map(|line| line.split(' ').map(str::to_owned).collect())
        .collect();
    rows.into_iter()
}

fn is_object(hex: &str) -> bool {
    matches!(hex.len(), 40 | 64)
        && hex.bytes().all(|b| b.is_ascii_hexdigit())
        && hex.bytes().any(|b| b != b'0')
}

/// The hook pre-push. Each input line is `<local ref> <local object> <remote ref> <remote object>`; the remote's name
/// is the first argument.
pub fn pre_push(options: &Options, args: &[OsString], input: &[u8]) -> Outcome<Vec<String>> {
    let cx = crate::opening::open(options, Need::Read)?;
    let how = cx.config.pre_push();
    if how == PrePush::Off || cx.config.mode() == Mode::Off || !cx.store.exists()? {
        return Ok(Vec::new());
    }
    let Some(git_dir) = &cx.place.git_dir else {
        return Ok(Vec::new());
    };
    let mut revisions = String::new();
    for row in rows(input) {
        let (local, remote) = (row.get(1), row.get(3));
        if let Some(local) = local.filter(|hex| is_object(hex)) {
            revisions.push_str(&format!("{local}\n"));
            if let Some(remote) = remote.filter(|hex| is_object(hex)) {
                revisions.push_str(&format!("^{remote}\n"));
            }
        }
    }
    if revisions.is_empty() {
        return Ok(Vec::new());
    }
    let remote = args.first().and_then(|name| name.to_str()).unwrap_or("origin");
    let known = format!("--remotes={remote}");
    let git = Git::in_git_dir(git_dir);
    let commits = verify::commits(
        git,
        &["--ignore-missing", "--stdin", "--not", &known],
        Some(revisions.into_bytes()),
    )?;
    let ended = ended(&cx, &commits)?;
    if ended.is_empty() || how == PrePush::Report {
        return Ok(ended);
    }
    let refusal = Refusal::new(Code::LeaseRequired, ended.join("\n"))
        .help("jit claim acquire <issue>, then push again")
        .help("jit config set hooks.pre_push report");
    Err(Box::new(refusal))
}

/// Returns a line for each ended lease that some of the commits name.
fn ended(cx: &Context, commits: &[Commit]) -> Outcome<Vec<String>> {
    let view = crate::write_path::view(cx)?;
    let unreadable = |e| refuse(Code::Io, e);
    let mut by_lease: BTreeMap<&str, Vec<&Commit>> = BTreeMap::new();
    for commit in commits {
        for lease in &commit.leases {
            by_lease.entry(lease).or_default().push(commit);
        }
    }
    let mut lines = Vec::new();
    let mut past: Option<Leases> = None;
    for (lease, commits) in by_lease {
        let Ok(id) = lease.parse::<LeaseId>() else {
            continue;
        };
        let agent = commits.iter().find_map(|commit| commit.agents.first());
        let known = state::resource_of(&*view.table, &id).map_err(unreadable)?;
        let resource = match known {
            Some(resource) => resource,
            // The state has only the last lease on each resource; the log has all of them.
            None => {
                if past.is_none() {
                    past = Some(Leases::load(cx)?);
                }
                match past.as_ref().and_then(|past| past.resource(lease)) {
                    Some(resource) => resource.to_owned(),
                    None => continue,
                }
            }
        };
        let now = state::lease_on(&*view.table, &resource)
            .map_err(unreadable)?
            .filter(|lease| !lease.expired(&view.now));
        if now.as_ref().is_some_and(|now| {
            now.lease_id == id || agent.is_some_and(|agent| agent == now.agent_id.as_str())
        }) {
            continue;
        }
        let issue = state::issue_at(&*view.table, resource.split_once(':').map_or("", |(_, key)| key))
            .map_err(unreadable)?;
        // The lease ended because the work was finished.
        if issue
            .as_ref()
            .is_some_and(|issue| issue.state == IssueState::Done)
        {
            continue;
        }
        let issue = issue.map_or(resource.clone(), |issue| issue.id.to_string());
        let by = agent.map_or("somebody", String::as_str);
        let many = match commits.as_slice() {
            [one] => format!("commit {} was", one.short()),
            [first, rest @ ..] => format!("commit {} and {} more were", first.short(), rest.len()),
            [] => continue,
        };
        let holder = match now {
            Some(now) => format!(", and {} holds it until {}", now.agent_id, now.expires_at),
            None => String::new(),
        };
        lines.push(format!(
            "{many} made by {by} under lease {lease} on {issue}, which has ended{holder}"
        ));
    }
    Ok(lines)
}

/// The hook pre-receive. Each input line is `<old object> <new object> <ref>`.
pub fn pre_receive(options: &Options, input: &[u8]) -> Outcome<Vec<String>> {
    let found = Surroundings::find(options)?;
    let Some(git_dir) = found.place.git_dir.clone() else {
        return Ok(Vec::new());
    };
    let mut revisions = String::new();
    for row in rows(input) {
        // Commits under other refs are judged when they reach a branch.
        let branch = row.get(2).is_some_and(|name| name.starts_with("refs/heads/"));
        if let Some(new) = row.get(1).filter(|hex| branch && is_object(hex)) {
            revisions.push_str(&format!("{new}\n"));
        }
    }
    if revisions.is_empty() {
        return Ok(Vec::new());
    }
    let git = Git::in_git_dir(&git_dir).in_quarantine();
    let commits = verify::commits(
        git,
        &["--stdin", "--not", "--branches"],
        Some(revisions.into_bytes()),
    )?;
    let log = found.place.control_dir.join("events");
    let mut cx = None;
    if Path::is_dir(&log) {
        let opened = crate::opening::within(found, options, Need::Read)?;
        cx = opened.store.exists()?.then_some(opened);
    }
    let leases = cx.as_ref().map(Leases::load).transpose()?;
    let mut bad = Vec::new();
    for commit in &commits {
        let wrong = match malformed(commit) {
            Some(wrong) => Some(wrong),
            None => Some(verify::judge(commit, leases.as_ref(), &|issue| {
                let git = Git::in_git_dir(&git_dir).in_quarantine();
                cx.as_ref()
                    .is_some_and(|cx| verify::wrote(cx, git, &commit.hash, issue))
            }))
            .filter(|judged| judged.verdict == Verdict::Violated)
            .map(|judged| judged.reason),
        };
        bad.extend(wrong.map(|wrong| format!("commit {}: {wrong}", commit.short())));
    }
    if bad.is_empty() {
        return Ok(Vec::new());
    }
    let more = bad.len().saturating_sub(SHOWN);
    bad.truncate(SHOWN);
    if more > 0 {
        bad.push(format!("and {more} commits more"));
    }
    let refusal = Refusal::new(Code::CheckFailed, bad.join("\n"))
        .help("in the repository they come from: jit verify <range>")
        .help("git commit --amend --no-edit, while you hold the issue");
    Err(Box::new(refusal))
}

/// Returns the trailers that jit cannot have written.
fn malformed(commit: &Commit) -> Option<String> {
    let leases = commit
        .leases
        .iter()
        .filter(|text| text.parse::<LeaseId>().is_err());
    let agents = commit
        .agents
        .iter()
        .filter(|text| text.parse::<AgentId>().is_err());
    let worktrees = commit
        .worktrees
        .iter()
        .filter(|text| text.parse::<WorktreeId>().is_err());
    let bad = leases
        .map(|text| (verify::LEASE, text))
        .chain(agents.map(|text| (verify::AGENT, text)))
        .chain(worktrees.map(|text| (verify::WORKTREE, text)))
        .next();
    if let Some((name, text)) = bad {
        return Some(format!("{name} cannot be {text:?}"));
    }
    match (commit.leases.is_empty(), commit.agents.is_empty()) {
        (false, true) => Some(format!("it has {}, but no {}", verify::LEASE, verify::AGENT)),
        (true, false) => Some(format!("it has {}, but no {}", verify::AGENT, verify::LEASE)),
        _ => None,
    }
}
