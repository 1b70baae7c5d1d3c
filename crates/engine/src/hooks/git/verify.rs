//! Checks whether the agent held the lease when the commit was made (C4).
//!
//! Each commit of a range is judged by its trailers and by the log of this repository:
//!
//! - **verified**: every lease it names was held at that time, by the named agent and in the named worktree. No other
//!   agent had been granted the same resource later.
//! - **violated**: the log contradicts the trailers, or the commit changes an issue that another agent held. Content
//!   that jit itself wrote is no violation.
//! - **unknown**: the commit names no lease, or a lease that this log never had (made in another clone, or invented).
//!   Also if its trailers are incomplete, or there is no log here.
//!
//! The time is the committer's date, in whole seconds. [`TOLERANCE_MS`] is allowed on either side: git takes the date
//! when it starts, the log when the event is written. Dates are trusted, as git trusts them. This is an audit of
//! honest programs, not a proof against forgery.
//!
//! Two things may come after the lease: the commit that records that the issue is done, since the lease ends with that;
//! and a rebase that changes nothing in the commit, which counts from when the commit was made first ([`rewritten`]).
//!
//! Cost: one git process for the whole range, one pass over the log.
//!
//! Limitations: a commit that is amended or picked after its lease has ended keeps its trailers and is violated, because
//! it was committed again without a lease. After `jit recover`, leases that had ended are unknown.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;

use jit_core::log::event::{Event, Stamped};
use jit_core::log::state;
use jit_core::model::ids::{AgentId, IssueId, LeaseId, WorktreeId};
use jit_core::model::issue::{Issue, text_digest};
use jit_core::model::lease::{Lease, Resource};
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::time::Wall;
use jit_git::{Git, Place};
use jit_os::random;
use jit_store::Outcome;

use crate::api::verify::{Judged, Verdict, Verified};
use crate::context::Context;
use crate::hooks::git::rewritten;
use crate::refusals::refuse;

pub const LEASE: &str = "JIT-Lease";
pub const AGENT: &str = "JIT-Agent";
pub const WORKTREE: &str = "JIT-Worktree";

/// The largest accepted difference between the clocks of a commit and of the log.
pub const TOLERANCE_MS: i64 = 2_000;

/// A commit as `git log` prints it.
#[derive(Debug, Clone, Default)]
pub struct Commit {
    pub hash: String,
    /// Seconds since 1970.
    pub committed: i64,
    pub leases: Vec<String>,
    pub agents: Vec<String>,
    pub worktrees: Vec<String>,
    pub touches_issues: bool,
    /// Issues whose `issue.json` the commit changes, by the name of their folder.
    pub issues: Vec<String>,
}

impl Commit {
    /// Whether the commit changes the file of this issue.
    fn changes(&self, issue: &str) -> bool {
        self.issues.iter().any(|name| name.eq_ignore_ascii_case(issue))
    }

    /// Returns the first twelve digits of the hash.
    pub fn short(&self) -> &str {
        self.hash.get(..12).unwrap_or(&self.hash)
    }
}

/// Returns the commits that `git log` lists with these arguments, newest first, with one git process.
pub fn commits(git: Git, args: &[&str], input: Option<Vec<u8>>) -> Outcome<Vec<Commit>> {
    // File names can contain anything. Only a random mark safely shows the beginning of a commit.
    let mark = format!("{:032x}", random::u128().map_err(|e| refuse(Code::Io, e))?);
    let format = format!("--format=%x00{mark}%x00%H%x00%ct%x00%(trailers:only=true,unfold=true)%x00");
    let mut git = git
        .setting("log.showSignature", "false")
        .setting("trailer.separators", ":")
        .args(["log", "-z", "--name-only", "--no-renames", "--diff-merges=off"])
        .args([
            "--no-color",
            "--no-notes",
            "--no-ext-diff",
            "--no-relative",
            &format,
        ])
        .args(args);
    if let Some(input) = input {
        git = git.stdin(input);
    }
    let answer = git.run().map_err(|e| {
        let message = format!("git cannot list those commits: {e}");
        Box::new(Refusal::new(Code::NotFound, message).help("jit verify main..HEAD"))
    })?;
    let mut all: Vec<Commit> = Vec::new();
    let mut parts = answer.split(|b| *b == 0);
    while let Some(part) = parts.next() {
        if part == mark.as_bytes() {
            let mut text = || String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
            let mut commit = Commit {
                hash: text(),
                committed: text().parse().unwrap_or(0),
                ..Commit::default()
            };
            for line in text().lines() {
                let Some((key, value)) = line.split_once(':') else {
                    continue;
                };
                let list = match key.trim() {
                    key if key.eq_ignore_ascii_case(LEASE) => &mut commit.leases,
                    key if key.eq_ignore_ascii_case(AGENT) => &mut commit.agents,
                    key if key.eq_ignore_ascii_case(WORKTREE) => &mut commit.worktrees,
                    _ => continue,
                };
                list.push(value.trim().to_owned());
            }
            all.push(commit);
        } else if let Some(commit) = all.last_mut() {
            let path = part.strip_prefix(b"\n").unwrap_or(part);
            if let Some(below) = path.strip_prefix(b".jit/issues/") {
                commit.touches_issues = true;
                let folder = below.strip_suffix(b"/issue.json");
                commit
                    .issues
                    .extend(folder.and_then(|name| String::from_utf8(name.to_vec()).ok()));
            }
        }
    }
    Ok(all)
}

/// A period during which a lease was held.
#[derive(Debug, Clone)]
struct Span {
    from: Wall,
    until: Wall,
    token: u64,
    how: &'static str,
    over: bool,
    /// The issue became done under this lease, or after it with no other in between.
    finished: bool,
}

#[derive(Debug, Clone)]
struct Past {
    agent: AgentId,
    worktree: Option<WorktreeId>,
    resource: String,
    /// The resource's name for messages.
    what: String,
    spans: Vec<Span>,
}

/// Every lease in the history of this log.
#[derive(Debug, Default)]
pub struct Leases {
    by_id: HashMap<String, Past>,
    /// The grants of each resource: token, time, agent, lease.
    grants: HashMap<String, Vec<(u64, Wall, AgentId, LeaseId)>>,
}

impl Leases {
    pub fn load(cx: &Context) -> Outcome<Self> {
        let mut leases = Self::default();
        cx.store.events(0, &mut |line: Stamped| {
            leases.take(&line);
            ControlFlow::Continue(())
        })?;
        Ok(leases)
    }

    fn take(&mut self, line: &Stamped) {
        match &line.event {
            Event::Acquired { lease, .. } => self.grant(lease, line.at),
            Event::Restored { lease } => self.grant(lease, lease.acquired_at),
            Event::Renewed { lease } => match self.last(&lease.lease_id) {
                Some(span) if !span.over => span.until = lease.expires_at,
                _ => self.grant(lease, line.at),
            },
            Event::Transferred {
                lease, from_lease_id, ..
            } => {
                self.end(from_lease_id, line.at, "handed on");
                self.grant(lease, line.at);
            }
            Event::Released { lease, .. } => self.end(&lease.lease_id, line.at, "given back"),
            Event::ForceEvicted { lease, .. } => self.end(&lease.lease_id, line.at, "taken away"),
            Event::AutoEvicted { lease } => {
                let at = lease.expires_at.min(line.at);
                self.end(&lease.lease_id, at, "run out");
            }
            Event::Issue { issue, .. } => self.mark_finished(issue),
            _ => {}
        }
    }

    fn grant(&mut self, lease: &Lease, from: Wall) {
        let resource = lease.resource.key();
        let past = self
            .by_id
            .entry(lease.lease_id.to_string())
            .or_insert_with(|| Past {
                agent: lease.agent_id.clone(),
                worktree: lease.worktree_id.clone(),
                resource: resource.clone(),
                what: lease
                    .resource
                    .issue()
                    .map_or_else(|| resource.clone(), ToString::to_string),
                spans: Vec::new(),
            });
        past.spans.push(Span {
            from,
            until: lease.expires_at,
            token: lease.token,
            how: "run out",
            over: false,
            finished: false,
        });
        self.grants.entry(resource).or_default().push((
            lease.token,
            from,
            lease.agent_id.clone(),
            lease.lease_id.clone(),
        ));
    }

    /// Notes on the last lease of an issue whether the issue is done. An issue that is reopened is not.
    fn mark_finished(&mut self, issue: &Issue) {
        let resource = Resource::Issue(issue.id.clone()).key();
        let last = self.grants.get(&resource).and_then(|all| all.last());
        let Some((_, _, _, id)) = last.cloned() else {
            return;
        };
        if let Some(span) = self.last(&id) {
            span.finished = issue.state.is_closed();
        }
    }

    /// Returns the last lease on an issue if the issue was closed under it: lease, agent and worktree.
    pub fn closed_under(&self, issue: &IssueId) -> Option<(&LeaseId, &AgentId, Option<&WorktreeId>)> {
        let all = self.grants.get(&Resource::Issue(issue.clone()).key())?;
        let (_, _, agent, id) = all.last()?;
        let past = self.by_id.get(id.as_str())?;
        let finished = past.spans.last().is_some_and(|span| span.finished);
        finished.then_some((id, agent, past.worktree.as_ref()))
    }

    /// Returns the resource of a lease.
    pub fn resource(&self, lease: &str) -> Option<&str> {
        self.by_id.get(lease).map(|past| past.resource.as_str())
    }

    fn last(&mut self, id: &LeaseId) -> Option<&mut Span> {
        self.by_id.get_mut(id.as_str())?.spans.last_mut()
    }

    fn end(&mut self, id: &LeaseId, at: Wall, how: &'static str) {
        if let Some(span) = self.last(id).filter(|span| !span.over) {
            span.until = at;
            span.how = how;
            span.over = true;
        }
    }

    /// Returns the holder of a resource when the commit was made, if there surely was one.
    fn holder(&self, resource: &str, commit: &Commit) -> Option<&Past> {
        let first = commit.committed.saturating_mul(1000);
        let last = first.saturating_add(999);
        self.by_id.values().find(|past| {
            past.resource == resource
                && past.spans.iter().any(|span| {
                    span.from.ms().saturating_add(TOLERANCE_MS) <= first
                        && last.saturating_add(TOLERANCE_MS) <= span.until.ms()
                })
        })
    }

    /// Returns the first issue that the commit changes although another agent held it. `jit_wrote` returns whether
    /// jit itself wrote the content: such content may be committed by any agent.
    fn trespass(&self, commit: &Commit, jit_wrote: &dyn Fn(&str) -> bool) -> Option<String> {
        commit.issues.iter().find_map(|name| {
            let resource = format!("issue:{}", name.parse::<IssueId>().ok()?.key());
            let own = |lease: &String| self.resource(lease) == Some(resource.as_str());
            if commit.leases.iter().any(own) {
                return None;
            }
            let past = self.holder(&resource, commit)?;
            if commit.agents.iter().any(|agent| *agent == *past.agent.as_str()) || jit_wrote(name) {
                return None;
            }
            Some(format!(
                "it changes {}, which {} held at that time",
                past.what, past.agent
            ))
        })
    }

    /// Judges a commit by one lease.
    fn judge(&self, lease: &str, commit: &Commit) -> (Verdict, String) {
        use Verdict::{Unknown, Verified, Violated};
        let Some(past) = self.by_id.get(lease) else {
            return (Unknown, "this log has never had that lease".into());
        };
        let what = &past.what;
        if let Some(agent) = commit.agents.iter().find(|agent| **agent != *past.agent.as_str()) {
            let reason = format!("the lease on {what} was {}'s, not {agent}'s", past.agent);
            return (Violated, reason);
        }
        let worktree = past.worktree.as_ref().map(WorktreeId::as_str);
        if let Some(other) = commit.worktrees.iter().find(|id| Some(id.as_str()) != worktree) {
            let place = worktree.unwrap_or("no worktree");
            let reason = format!("the lease on {what} was taken in {place}, not in {other}");
            return (Violated, reason);
        }
        if commit.agents.is_empty() {
            return (Unknown, format!("it names a lease, but no {AGENT}"));
        }
        let first = commit.committed.saturating_mul(1000);
        let last = first.saturating_add(999);
        // The lease ended with the issue, and this commit has the issue's files.
        let records_the_end = |span: &Span| span.finished && commit.changes(what);
        let held = past.spans.iter().find(|span| {
            last.saturating_add(TOLERANCE_MS) >= span.from.ms()
                && (first <= span.until.ms().saturating_add(TOLERANCE_MS) || records_the_end(span))
        });
        let Some(span) = held else {
            let at = Wall::from_ms(first);
            let reason = match past.spans.iter().rfind(|span| span.until.ms() < first) {
                Some(span) => format!(
                    "the lease on {what} had been {} at {}, the commit was made at {at}",
                    span.how, span.until
                ),
                None => format!("the commit was made at {at}, before the lease on {what} was granted"),
            };
            return (Violated, reason);
        };
        let grants = self.grants.get(&past.resource).map_or(&[][..], Vec::as_slice);
        let newer = grants.iter().find(|(token, from, _, id)| {
            *token > span.token && id.as_str() != lease && from.ms().saturating_add(TOLERANCE_MS) < first
        });
        match newer {
            Some((token, from, agent, _)) => (
                Violated,
                format!(
                    "{agent} had been granted {what} since {from} (token {token} after {})",
                    span.token
                ),
            ),
            None => (
                Verified,
                format!("{} held {what}, token {}", past.agent, span.token),
            ),
        }
    }
}

/// Judges one commit. Without a log the verdict is unknown.
pub fn judge(commit: &Commit, leases: Option<&Leases>, jit_wrote: &dyn Fn(&str) -> bool) -> Judged {
    let mut judged = Judged {
        commit: commit.hash.clone(),
        verdict: Verdict::Unknown,
        lease_id: commit.leases.first().cloned(),
        agent_id: commit.agents.first().cloned(),
        reason: if commit.touches_issues {
            format!("it changes issues and has no {LEASE}")
        } else {
            format!("it has no {LEASE}")
        },
    };
    let Some(leases) = leases else {
        if !commit.leases.is_empty() {
            judged.reason = "there is no log here to compare it with".into();
        }
        return judged;
    };
    if let Some(reason) = leases.trespass(commit, jit_wrote) {
        judged.verdict = Verdict::Violated;
        judged.reason = reason;
        return judged;
    }
    if commit.leases.is_empty() {
        return judged;
    }
    let rank = |verdict: Verdict| match verdict {
        Verdict::Violated => 0,
        Verdict::Unknown => 1,
        Verdict::Verified => 2,
    };
    let all = commit
        .leases
        .iter()
        .map(|lease| (lease, leases.judge(lease, commit)));
    if let Some((lease, (verdict, reason))) = all.min_by_key(|(_, (verdict, _))| rank(*verdict)) {
        judged.lease_id = Some(lease.clone());
        judged.verdict = verdict;
        judged.reason = reason;
    }
    judged
}

/// A refusal that names the end of a range that is no commit, if there is one.
fn no_such_revision(git_dir: &Path, range: &str) -> Option<Box<Refusal>> {
    let mut ends = range.split("..").map(|end| end.trim_start_matches(['.', '^']));
    let is_missing = |end: &&str| {
        let commit = format!("{end}^{{commit}}");
        let known =
            Git::in_git_dir(git_dir).args(["rev-parse", "--verify", "-q", "--end-of-options", &commit]);
        !end.is_empty() && known.test().is_ok_and(|known| !known)
    };
    let missing = ends.find(is_missing)?;
    let message = format!("no such revision: {missing}");
    Some(Box::new(
        Refusal::new(Code::NotFound, message).help("jit verify main..HEAD"),
    ))
}

/// Judges every commit of a range, as `git log` understands it. `cx` is `None` if jit is not set up.
pub fn range(place: &Place, cx: Option<&Context>, range: &str) -> Outcome<Verified> {
    let Some(git_dir) = &place.git_dir else {
        return Err(Box::new(
            Refusal::new(Code::NotFound, "there is no git repository here").help("git init"),
        ));
    };
    let commits = commits(Git::in_git_dir(git_dir), &["--end-of-options", range, "--"], None)
        .map_err(|refusal| no_such_revision(git_dir, range).unwrap_or(refusal))?;
    let leases = match cx {
        Some(cx) if cx.store.exists()? => Some(Leases::load(cx)?),
        _ => None,
    };
    let first_made = cx.map(|cx| rewritten::first_made(&cx.place.control_dir));
    let judge_one = |commit: &Commit| {
        let jit_wrote =
            |issue: &str| cx.is_some_and(|cx| wrote(cx, Git::in_git_dir(git_dir), &commit.hash, issue));
        judge(commit, leases.as_ref(), &jit_wrote)
    };
    let commits = commits.iter().map(|commit| {
        let judged = judge_one(commit);
        let earlier = first_made.as_ref().and_then(|made| made.get(&commit.hash));
        let Some(committed) = earlier.filter(|_| judged.verdict == Verdict::Violated) else {
            return judged;
        };
        let before = Commit {
            committed: *committed,
            ..commit.clone()
        };
        match judge_one(&before) {
            again if again.verdict == Verdict::Verified => Judged {
                reason: format!("{}; rebased since, unchanged", again.reason),
                ..again
            },
            _ => judged,
        }
    });
    let commits = commits.collect();
    Ok(Verified { commits })
}

/// Returns whether jit wrote the `issue.json` of an issue in a commit; false if that cannot be read. Called for few
/// commits only.
pub fn wrote(cx: &Context, git: Git, commit: &str, issue: &str) -> bool {
    let name = format!("{commit}:.jit/issues/{issue}/issue.json");
    let blob = git.args(["cat-file", "blob", &name]).run();
    let (Ok(content), Ok(id), Ok(view)) = (blob, issue.parse::<IssueId>(), crate::write_path::view(cx))
    else {
        return false;
    };
    state::wrote_file(&*view.table, &id, &text_digest(&content)).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    const OTHERS: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAW";

    fn agent(name: &str) -> AgentId {
        name.parse().expect("an agent")
    }

    /// A lease from second 100 to 200, and later grants of the same resource to another agent.
    fn leases(later: &[i64]) -> Leases {
        let mut leases = Leases::default();
        let at = |secs: i64| Wall::from_ms(secs * 1000);
        leases.by_id.insert(
            MINE.into(),
            Past {
                agent: agent("agent:a"),
                worktree: None,
                resource: "issue:wi-1".into(),
                what: "WI-1".into(),
                spans: vec![Span {
                    from: at(100),
                    until: at(200),
                    token: 5,
                    how: "run out",
                    over: true,
                    finished: false,
                }],
            },
        );
        let grants = leases.grants.entry("issue:wi-1".into()).or_default();
        grants.push((5, at(100), agent("agent:a"), MINE.parse().expect("a lease")));
        for secs in later {
            let other = OTHERS.parse().expect("a lease");
            grants.push((9, at(*secs), agent("agent:b"), other));
        }
        leases
    }

    fn verdict(leases: &Leases, committed: i64) -> Verdict {
        let commit = Commit {
            committed,
            leases: vec![MINE.into()],
            agents: vec!["agent:a".into()],
            ..Commit::default()
        };
        judge(&commit, Some(leases), &|_| false).verdict
    }

    #[test]
    fn c4_a_commit_belongs_into_the_time_of_its_lease_give_or_take_two_seconds() {
        let leases = leases(&[]);
        for committed in [98, 100, 150, 200, 202] {
            assert_eq!(verdict(&leases, committed), Verdict::Verified, "{committed}");
        }
        for committed in [0, 96, 203, 100_000] {
            assert_eq!(verdict(&leases, committed), Verdict::Violated, "{committed}");
        }
    }

    #[test]
    fn c4_an_older_token_does_not_count_once_there_is_a_newer() {
        // As after the wall clock was set back: by times alone both agents would hold it.
        let leases = leases(&[150]);
        assert_eq!(verdict(&leases, 140), Verdict::Verified);
        assert_eq!(verdict(&leases, 160), Verdict::Violated);
    }
}
