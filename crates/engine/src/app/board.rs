//! Many issues at once: lists, what is ready, what is blocked, how far things have come.
//!
//! A list reads the folded state once; no issue's files are opened.

use std::collections::{HashMap, HashSet};

use jit_core::ids::{IssueId, IssuePrefix};
use jit_core::issue::{ACTIVITY, Issue, Performer, State};
use jit_core::lease::{Lease, Resource};
use jit_core::queue;
use jit_core::refusal::Code;
use jit_core::state;

use super::{App, refuse};
use crate::request::{
    Answer, Counts, IssueFilter, IssueView, Progress, ProgressOf, Reply, Sort, Status, StatusClaim,
    StatusIssue,
};
use crate::store::{Outcome, View};

/// Up to so many issues are looked up one by one; beyond that all are read.
const FEW: usize = 200;

/// Every issue and every lease, at one moment.
pub(super) struct Board {
    pub issues: HashMap<String, Issue>,
    leases: HashMap<String, Lease>,
    settled: Settled,
}

impl Board {
    pub fn load(view: &View) -> Outcome<Self> {
        let unreadable = |e| refuse(Code::Io, e);
        let all = state::issues(&*view.table).map_err(unreadable)?;
        Ok(Self {
            settled: Settled::of(&all),
            issues: all.into_iter().map(|issue| (issue.id.key(), issue)).collect(),
            leases: leases(view)?,
        })
    }

    pub fn lease(&self, issue: &Issue) -> Option<&Lease> {
        self.leases.get(&issue.id.key())
    }

    fn waits_for(&self, view: &View, issue: &Issue) -> Outcome<Vec<IssueId>> {
        self.settled.waits_for(view, issue)
    }
}

/// Which issues are closed, by key. Empty when nothing depends on anything.
struct Settled(HashMap<String, bool>);

impl Settled {
    fn of(issues: &[Issue]) -> Self {
        if issues.iter().all(|issue| issue.depends_on.is_empty()) {
            return Self(HashMap::new());
        }
        Self(
            issues
                .iter()
                .map(|issue| (issue.id.key(), issue.state.is_closed()))
                .collect(),
        )
    }

    /// What an issue waits for. What is unknown counts, unless it was deleted.
    fn waits_for(&self, view: &View, issue: &Issue) -> Outcome<Vec<IssueId>> {
        let mut open = Vec::new();
        for id in &issue.depends_on {
            let key = id.key();
            let settled = match self.0.get(&key) {
                Some(closed) => *closed,
                None => state::was_deleted(&*view.table, &key).map_err(|e| refuse(Code::Io, e))?,
            };
            if !settled {
                open.push(id.clone());
            }
        }
        Ok(open)
    }
}

/// Leases that still count, by the key of their issue.
fn leases(view: &View) -> Outcome<HashMap<String, Lease>> {
    let all = state::leases(&*view.table).map_err(|e| refuse(Code::Io, e))?;
    let live = all.into_iter().filter(|lease| !lease.expired(&view.now));
    Ok(live
        .filter_map(|lease| Some((lease.resource.issue()?.key(), lease)))
        .collect())
}

fn matches(filter: &IssueFilter, parent: Option<&IssueId>, view: &IssueView) -> bool {
    let issue = &view.issue;
    filter.state.is_none_or(|state| issue.state == state)
        && filter
            .label
            .as_ref()
            .is_none_or(|label| issue.labels.contains(label))
        && filter.kind.as_ref().is_none_or(|kind| issue.kind == *kind)
        && parent.is_none_or(|parent| issue.parent.as_ref() == Some(parent))
        && filter
            .assignee
            .as_ref()
            .is_none_or(|agent| view.assignee.as_ref() == Some(agent))
        && filter.actor.is_none_or(|actor| issue.actor == actor)
}

impl App {
    fn parent_of(&self, view: &View, filter: &IssueFilter) -> Outcome<Option<IssueId>> {
        let named = filter.parent.as_ref().map(|text| self.resolve(view, text));
        Ok(named.transpose()?.map(|issue| issue.id))
    }

    /// Issues as they are shown in lists.
    pub(super) fn shown(&self, view: &View, issues: Vec<Issue>) -> Outcome<Vec<IssueView>> {
        let leases = leases(view)?;
        let mut shown = Vec::with_capacity(issues.len());
        for issue in issues {
            let blocked_by = if issue.depends_on.is_empty() || issue.state.is_closed() {
                Vec::new()
            } else {
                queue::open_dependencies(&*view.table, &issue).map_err(|e| refuse(Code::Io, e))?
            };
            let lease = leases.get(&issue.id.key());
            let mut one = IssueView::new(issue, lease, &view.now);
            one.blocked_by = blocked_by;
            shown.push(one);
        }
        Ok(shown)
    }

    pub(super) fn list_issues(
        &self,
        filter: &IssueFilter,
        sort: Sort,
        limit: Option<usize>,
    ) -> Outcome<Answer> {
        let view = self.view()?;
        let parent = self.parent_of(&view, filter)?;
        let all = state::issues(&*view.table).map_err(|e| refuse(Code::Io, e))?;
        let leases = leases(&view)?;
        let settled = Settled::of(&all);
        let mut issues = Vec::with_capacity(all.len());
        for issue in all {
            let lease = if leases.is_empty() {
                None
            } else {
                leases.get(&issue.id.key())
            };
            let shown = IssueView::new(issue, lease, &view.now);
            if matches(filter, parent.as_ref(), &shown) {
                issues.push(shown);
            }
        }
        issues.sort_by(|a, b| {
            let (x, y) = (&a.issue, &b.issue);
            let by = match sort {
                Sort::Created => x.created_at.cmp(&y.created_at),
                Sort::Updated => y.updated_at.cmp(&x.updated_at),
                Sort::Priority => x.priority.cmp(&y.priority).then(x.created_at.cmp(&y.created_at)),
                Sort::Id => std::cmp::Ordering::Equal,
            };
            by.then_with(|| x.id.cmp(&y.id))
        });
        issues.truncate(limit.unwrap_or(usize::MAX));
        for shown in &mut issues {
            if !shown.issue.state.is_closed() && !shown.issue.depends_on.is_empty() {
                shown.blocked_by = settled.waits_for(&view, &shown.issue)?;
            }
        }
        self.read_answer(&view, Reply::Issues { issues })
    }

    /// Open, unblocked, held by nobody anywhere: best first.
    pub(super) fn ready(&self, filter: &IssueFilter, limit: Option<usize>) -> Outcome<Answer> {
        let view = self.view()?;
        let unreadable = |e| refuse(Code::Io, e);
        let table = &*view.table;
        let parent = self.parent_of(&view, filter)?;
        let mut queued = queue::queued(table, usize::MAX).map_err(unreadable)?;
        // Leases that ran out and that nobody has noticed yet are no leases.
        let expired = state::expired(table, &view.now, usize::MAX).map_err(unreadable)?;
        for id in expired.iter().filter_map(|lease| lease.resource.issue()) {
            let rank = queue::rank(table, &id.key()).map_err(unreadable)?;
            queued.extend(rank.map(|rank| (rank, id.key())));
        }
        queued.sort();
        let leases = leases(&view)?;
        let wanted = limit.unwrap_or(usize::MAX);
        // Many are read in one sweep, few one by one.
        let mut all: Option<HashMap<String, Issue>> = None;
        let mut branches = None;
        if wanted.min(queued.len()) > FEW {
            let read = state::issues(table).map_err(unreadable)?;
            all = Some(read.into_iter().map(|issue| (issue.id.key(), issue)).collect());
            branches = Some(state::last_branches(table).map_err(unreadable)?);
        }
        let is_activity = |id: &IssueId| {
            state::issue(table, id)
                .map_err(unreadable)
                .map(|issue| issue.is_some_and(|issue| issue.kind == ACTIVITY))
        };
        let mut issues = Vec::new();
        for (_, key) in queued {
            if issues.len() >= wanted {
                break;
            }
            let found = match &mut all {
                Some(all) => all.remove(&key),
                None => state::issue_at(table, &key).map_err(unreadable)?,
            };
            let Some(issue) = found else { continue };
            if let Some(parent) = issue.parent.as_ref()
                && let Some(lease) = leases.get(&parent.key())
                && !lease.held_by(&self.actor)
                && is_activity(parent)?
            {
                // Inside an activity that somebody else holds.
                continue;
            }
            let shown = IssueView::new(issue, None, &view.now);
            if !matches(filter, parent.as_ref(), &shown) {
                continue;
            }
            issues.push(shown);
        }
        for shown in &mut issues {
            let resource = Resource::Issue(shown.issue.id.clone()).key();
            shown.resume_from = match &mut branches {
                Some(branches) => branches.remove(&resource),
                None => state::last_branch(table, &resource).map_err(unreadable)?,
            };
        }
        self.read_answer(&view, Reply::Issues { issues })
    }

    /// What cannot go on, and why.
    pub(super) fn blocked(&self) -> Outcome<Answer> {
        let view = self.view()?;
        let board = Board::load(&view)?;
        let mut issues = Vec::new();
        for issue in board.issues.values().filter(|issue| !issue.state.is_closed()) {
            let waits_for = board.waits_for(&view, issue)?;
            if issue.blocked.is_some() || !waits_for.is_empty() {
                let mut shown = IssueView::new(issue.clone(), board.lease(issue), &view.now);
                shown.blocked_by = waits_for;
                issues.push(shown);
            }
        }
        issues.sort_by(|a, b| {
            let of = |view: &IssueView| (view.issue.priority, view.issue.created_at);
            of(a).cmp(&of(b)).then_with(|| a.issue.id.cmp(&b.issue.id))
        });
        self.read_answer(&view, Reply::Issues { issues })
    }

    /// Who does what, what can be taken, and what needs a person.
    pub(super) fn status(&self) -> Outcome<Answer> {
        const SHOWN: usize = 5;
        let view = self.view()?;
        let table = &*view.table;
        let unreadable = |e| refuse(Code::Io, e);
        let board = Board::load(&view)?;
        let mut held: Vec<Lease> = board.leases.values().cloned().collect();
        held.sort_by_key(|lease| lease.token);
        let active: Vec<StatusClaim> = self
            .alive(&held, &view)
            .into_iter()
            .zip(&held)
            .map(|(claim, lease)| StatusClaim {
                claim,
                title: lease
                    .resource
                    .issue()
                    .and_then(|id| board.issues.get(&id.key()))
                    .map(|issue| issue.title.clone()),
                mine: lease.held_by(&self.actor),
            })
            .collect();
        let brief = |issue: &Issue, why: Option<String>| StatusIssue {
            id: issue.id.clone(),
            title: issue.title.clone(),
            priority: issue.priority,
            why,
        };
        let mut counts = Counts::default();
        let mut attention: Vec<StatusIssue> = Vec::new();
        for issue in board.issues.values() {
            let leased = board.lease(issue).is_some();
            counts.count(if leased && issue.state.is_offered() {
                State::InProgress
            } else {
                issue.state
            });
            if issue.state.is_closed() {
                continue;
            }
            let waits = !board.waits_for(&view, issue)?.is_empty();
            counts.blocked += usize::from(waits || issue.blocked.is_some());
            if let Some(reason) = &issue.blocked {
                attention.push(brief(issue, Some(format!("blocked: {reason}"))));
            } else if issue.actor == Performer::Human && !leased && !waits && issue.state.is_offered() {
                counts.waiting_for_human += 1;
                attention.push(brief(issue, Some("waiting for a human".into())));
            }
        }
        for claim in active
            .iter()
            .filter(|claim| claim.claim.heartbeat_alive == Some(false))
        {
            if let Some(issue) = claim
                .claim
                .lease
                .issue_id
                .as_ref()
                .and_then(|id| board.issues.get(&id.key()))
            {
                let why = format!(
                    "{} holds it, but its heartbeat has stopped",
                    claim.claim.lease.agent_id
                );
                attention.push(brief(issue, Some(why)));
            }
        }
        attention.sort_by(|a, b| (a.priority, &a.id).cmp(&(b.priority, &b.id)));
        let queued = queue::queued(table, SHOWN).map_err(unreadable)?;
        let ready = queued
            .iter()
            .filter_map(|(_, key)| board.issues.get(key))
            .map(|issue| brief(issue, None))
            .collect();
        let status = Status {
            agent_id: self.actor.agent_id.clone(),
            worktree_id: self.actor.worktree_id.clone(),
            branch: self.branch.clone(),
            sequence: view.sequence,
            counts,
            active,
            ready,
            needs_attention: attention,
            parked: state::accounts(table)
                .map_err(unreadable)?
                .iter()
                .filter_map(|account| account.shown(view.now.wall))
                .collect(),
        };
        self.read_answer(&view, Reply::Status(Box::new(status)))
    }

    pub(super) fn progress(&self, issue: Option<&IssuePrefix>) -> Outcome<Answer> {
        let view = self.view()?;
        let root = issue.map(|text| self.resolve(&view, text)).transpose()?;
        let board = Board::load(&view)?;
        let mut parts: HashMap<String, Vec<&Issue>> = HashMap::new();
        for issue in board.issues.values() {
            if let Some(parent) = &issue.parent {
                parts.entry(parent.key()).or_default().push(issue);
            }
        }
        for of in parts.values_mut() {
            of.sort_by_key(|issue| (issue.created_at, issue.id.clone()));
        }
        let mut tops: Vec<&Issue> = match &root {
            Some(issue) => board.issues.get(&issue.id.key()).into_iter().collect(),
            // A part of something that is not there stands for itself.
            None => board
                .issues
                .values()
                .filter(|issue| {
                    issue
                        .parent
                        .as_ref()
                        .is_none_or(|p| !board.issues.contains_key(&p.key()))
                })
                .collect(),
        };
        tops.sort_by_key(|issue| (issue.created_at, issue.id.clone()));
        let mut seen = HashSet::new();
        let mut issues = Vec::new();
        for top in tops {
            issues.extend(progress_of(&view, &board, &parts, top, &mut seen, 0)?);
        }
        if root.is_none() {
            // A merge may have made some part of each other: they are under no top, and shown all the same.
            let mut rest: Vec<&Issue> = board
                .issues
                .values()
                .filter(|one| !seen.contains(&one.id.key()))
                .collect();
            rest.sort_by_key(|issue| (issue.created_at, issue.id.clone()));
            for one in rest {
                issues.extend(progress_of(&view, &board, &parts, one, &mut seen, 0)?);
            }
        }
        let mut total = Counts::default();
        for one in &issues {
            total.add(&one.counts);
        }
        self.read_answer(&view, Reply::Progress(Progress { total, issues }))
    }
}

/// Deepest nesting that is followed.
const DEEPEST: usize = 64;

fn progress_of(
    view: &View,
    board: &Board,
    parts: &HashMap<String, Vec<&Issue>>,
    issue: &Issue,
    seen: &mut HashSet<String>,
    depth: usize,
) -> Outcome<Option<ProgressOf>> {
    // A merge may have made something a part of itself.
    if depth > DEEPEST || !seen.insert(issue.id.key()) {
        return Ok(None);
    }
    let shown = IssueView::new(issue.clone(), board.lease(issue), &view.now);
    let blocked_by = board.waits_for(view, issue)?;
    let waiting_for_human = issue.actor == Performer::Human
        && shown.lease.is_none()
        && issue.state.is_offered()
        && blocked_by.is_empty();
    let mut inner = Vec::new();
    for part in parts.get(&issue.id.key()).into_iter().flatten() {
        inner.extend(progress_of(view, board, parts, part, seen, depth + 1)?);
    }
    let mut counts = Counts::default();
    if inner.is_empty() {
        counts.count(shown.issue.state);
        counts.blocked +=
            usize::from(!issue.state.is_closed() && (issue.blocked.is_some() || !blocked_by.is_empty()));
        counts.waiting_for_human += usize::from(waiting_for_human);
    }
    for part in &inner {
        counts.add(&part.counts);
    }
    Ok(Some(ProgressOf {
        id: issue.id.clone(),
        title: issue.title.clone(),
        kind: issue.kind.clone(),
        state: shown.issue.state,
        assignee: shown.assignee,
        blocked_by,
        waiting_for_human,
        counts,
        parts: inner,
    }))
}

impl Counts {
    fn count(&mut self, state: State) {
        self.issues += 1;
        match state {
            State::Backlog => self.backlog += 1,
            State::Ready => self.ready += 1,
            State::InProgress => self.in_progress += 1,
            State::Gated => self.gated += 1,
            State::Done => self.done += 1,
            State::Rejected => self.rejected += 1,
        }
        self.weigh();
    }

    fn add(&mut self, other: &Self) {
        self.issues += other.issues;
        self.backlog += other.backlog;
        self.ready += other.ready;
        self.in_progress += other.in_progress;
        self.gated += other.gated;
        self.done += other.done;
        self.rejected += other.rejected;
        self.blocked += other.blocked;
        self.waiting_for_human += other.waiting_for_human;
        self.weigh();
    }

    fn weigh(&mut self) {
        let wanted = self.issues - self.rejected;
        self.percent_done = (self.done * 100)
            .checked_div(wanted)
            .and_then(|p| u8::try_from(p).ok());
    }
}
