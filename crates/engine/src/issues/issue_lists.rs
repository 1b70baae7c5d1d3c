//! Lists of many issues: all, ready, blocked, and progress.
//!
//! A list reads the folded state once; it opens no issue's files.

use crate::api::issues::IssueReply;
use crate::api::issues::Issues;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use jit_core::log::packed_issue::{Packed, Text};
use jit_core::log::state;
use jit_core::log::table::Table;
use jit_core::model::actor::Actor;
use jit_core::model::ids::{IssueId, IssuePrefix};
use jit_core::model::issue::{ACTIVITY, Issue, IssueState, Performer};
use jit_core::model::lease::{Lease, Resource};
use jit_core::model::refusal::Code;
use jit_core::query::ready_queue;
use jit_store::{Outcome, View};

use crate::api::issue_list::Listed;
use crate::api::issue_list::Listing;
use crate::api::issues::Counts;
use crate::api::issues::IssueFilter;
use crate::api::issues::IssueView;
use crate::api::issues::Progress;
use crate::api::issues::ProgressOf;
use crate::api::issues::Sort;
use crate::api::{Answer, Reply};
use crate::context::Context;
use crate::refusals::{refuse, stopped};

/// Up to this number of issues is looked up one by one; beyond it all issues are read.
const FEW: usize = 200;

/// Every issue and every lease, at one moment.
pub(crate) struct Board {
    /// Sorted by key.
    pub issues: Vec<Issue>,
    leases: HashMap<String, Lease>,
}

impl Board {
    pub fn load(view: &View) -> Outcome<Self> {
        Ok(Self {
            issues: state::issues(&*view.table).map_err(|e| refuse(Code::Io, e))?,
            leases: leases(view)?,
        })
    }

    pub fn find(&self, id: &IssueId) -> Option<&Issue> {
        self.at(&id.key())
    }

    fn at(&self, key: &str) -> Option<&Issue> {
        let at = self.issues.binary_search_by(|issue| issue.id.cmp_key(key));
        at.ok().map(|at| &self.issues[at])
    }

    pub fn lease(&self, issue: &Issue) -> Option<&Lease> {
        lease_on(&self.leases, &issue.id)
    }

    fn waits_for(&self, view: &View, issue: &Issue) -> Outcome<Vec<IssueId>> {
        let ids = issue.depends_on.iter().cloned();
        waits_for(view, ids, |key| self.at(key).map(|issue| issue.state.is_closed()))
    }
}

pub(crate) fn lease_on<'a>(leases: &'a HashMap<String, Lease>, id: &IssueId) -> Option<&'a Lease> {
    if leases.is_empty() {
        return None;
    }
    leases.get(&id.key())
}

/// The closed flag of every issue, for the issues that wait for it.
#[derive(Default)]
pub(crate) struct Closed {
    /// All keys, concatenated.
    keys: String,
    /// The end of each key, and whether its issue is closed.
    ends: Vec<(usize, bool)>,
}

impl Closed {
    /// Must be called in the order of the issues' keys.
    pub(crate) fn note(&mut self, key: &str, state: IssueState) {
        self.keys.push_str(key);
        self.ends.push((self.keys.len(), state.is_closed()));
    }

    fn key(&self, n: usize) -> &str {
        let begin = n.checked_sub(1).map_or(0, |before| self.ends[before].0);
        &self.keys[begin..self.ends[n].0]
    }

    /// Returns `None` if the issue is not known.
    pub(crate) fn is_closed(&self, key: &str) -> Option<bool> {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.key(middle).cmp(key) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Some(self.ends[middle].1),
            }
        }
        None
    }
}

/// Returns the issues of these that are still open. An unknown issue counts as open, unless it was deleted.
pub(crate) fn waits_for<T: AsRef<str>>(
    view: &View,
    ids: impl Iterator<Item = T>,
    is_closed: impl Fn(&str) -> Option<bool>,
) -> Outcome<Vec<T>> {
    let mut open = Vec::new();
    let mut key = String::new();
    for id in ids {
        key.clear();
        key.push_str(id.as_ref());
        key.make_ascii_lowercase();
        let settled = match is_closed(&key) {
            Some(closed) => closed,
            None => state::was_deleted(&*view.table, &key).map_err(|e| refuse(Code::Io, e))?,
        };
        if !settled {
            open.push(id);
        }
    }
    Ok(open)
}

/// Returns the leases that have not expired, by the key of their issue.
pub(crate) fn leases(view: &View) -> Outcome<HashMap<String, Lease>> {
    let all = state::leases(&*view.table).map_err(|e| refuse(Code::Io, e))?;
    let live = all.into_iter().filter(|lease| !lease.expired(&view.now));
    Ok(live
        .filter_map(|lease| Some((lease.resource.issue()?.key(), lease)))
        .collect())
}

/// Claims of other agents that conflict with a claim of the caller, even if the issue itself is free.
pub(crate) struct Rivals<'a> {
    table: &'a dyn Table,
    /// Keys of the issues that others hold.
    held: HashSet<&'a str>,
    /// Keys of the issues of which others hold a part.
    worked_on: HashSet<String>,
}

impl<'a> Rivals<'a> {
    pub(crate) fn of(
        actor: &Actor,
        table: &'a dyn Table,
        leases: &'a HashMap<String, Lease>,
    ) -> Outcome<Self> {
        let mut rivals = Self {
            table,
            held: HashSet::new(),
            worked_on: HashSet::new(),
        };
        for (key, _) in leases.iter().filter(|(_, lease)| !lease.held_by(actor)) {
            rivals.held.insert(key);
            let part = state::issue_at(table, key).map_err(|e| refuse(Code::Io, e))?;
            rivals
                .worked_on
                .extend(part.and_then(|part| part.parent).map(|id| id.key()));
        }
        Ok(rivals)
    }

    /// Returns whether another agent holds a part of this activity, or the activity that this issue is part of. Such
    /// an issue is not listed as ready, and `claim next` does not acquire it.
    pub(crate) fn stand_in_the_way(&self, key: &str, kind: &str, parent: Option<&str>) -> Outcome<bool> {
        if kind == ACTIVITY && self.worked_on.contains(key) {
            return Ok(true);
        }
        let above = parent.map(str::to_ascii_lowercase);
        match above.filter(|above| self.held.contains(above.as_str())) {
            Some(above) => {
                let above = state::issue_at(self.table, &above).map_err(|e| refuse(Code::Io, e))?;
                Ok(above.is_some_and(|issue| issue.kind == ACTIVITY))
            }
            None => Ok(false),
        }
    }
}

fn matches(filter: &IssueFilter, parent: Option<&IssueId>, shown: &Listed<'_>) -> bool {
    let issue = &shown.issue;
    filter.state.is_none_or(|state| issue.state == state)
        && filter
            .label
            .as_ref()
            .is_none_or(|label| issue.labels.iter().any(|own| own.as_str() == label))
        && filter
            .kind
            .as_ref()
            .is_none_or(|kind| issue.kind.as_str() == kind)
        && parent.is_none_or(|parent| issue.parent.is_some_and(|own| own.as_str() == parent.as_str()))
        && filter
            .assignee
            .as_ref()
            .is_none_or(|agent| shown.assignee == Some(agent))
        && filter.actor.is_none_or(|actor| issue.actor == actor)
}

fn parent_of(view: &View, filter: &IssueFilter) -> Outcome<Option<IssueId>> {
    let named = filter
        .parent
        .as_ref()
        .map(|text| crate::write_path::resolve(view, text));
    Ok(named.transpose()?.map(|issue| issue.id))
}

/// Returns the issues in the form that lists show.
pub(crate) fn shown(view: &View, issues: Vec<Issue>) -> Outcome<Listing> {
    let leases = leases(view)?;
    let mut shown = Listing::default();
    for issue in issues {
        shown.push_issue(&issue, lease_on(&leases, &issue.id), &view.now, |_| true);
        if issue.depends_on.is_empty() || issue.state.is_closed() {
            continue;
        }
        let waits = ready_queue::open_dependencies(&*view.table, &issue).map_err(|e| refuse(Code::Io, e))?;
        shown.beside(shown.len() - 1).blocked_by = waits;
    }
    Ok(shown)
}

pub(crate) fn list_issues(
    cx: &Context,
    filter: &IssueFilter,
    sort: Sort,
    limit: Option<usize>,
) -> Outcome<Answer> {
    let view = crate::write_path::view(cx)?;
    let parent = parent_of(&view, filter)?;
    let leases = leases(&view)?;
    let mut closed = Closed::default();
    let mut issues = Listing::default();
    // The sort key, and the position with a bit that marks issues that may have to wait.
    let mut order = Vec::new();
    let each = &mut |key: &str, issue: Packed<'_>| {
        closed.note(key, issue.state);
        let is_wanted = |shown: &Listed<'_>| matches(filter, parent.as_ref(), shown);
        if issues.push(issue, leases.get(key), &view.now, is_wanted) {
            // Times are less than 2^48 ms.
            let by = match sort {
                Sort::Created => issue.created_at.ms(),
                Sort::Updated => -issue.updated_at.ms(),
                Sort::Priority => (i64::from(issue.priority as u8) << 48) + issue.created_at.ms(),
                Sort::Id => 0,
            };
            let may_wait = !issue.state.is_closed() && !issue.depends_on.is_empty();
            order.push((by, ((order.len() as u64) << 1) | u64::from(may_wait)));
        }
    };
    state::visit_issues(&*view.table, each).map_err(|e| refuse(Code::Io, e))?;
    // Issues arrive in the order of their ids, regardless of case. Equal sort keys keep that order.
    order.sort_unstable();
    order.truncate(limit.unwrap_or(usize::MAX));
    let mut places: Vec<usize> = order.iter().map(|(_, place)| (place >> 1) as usize).collect();
    issues.pick(&mut places);
    for (n, _) in order.iter().enumerate().filter(|(_, (_, place))| place & 1 == 1) {
        let Some(shown) = issues.get(n) else {
            continue;
        };
        let waits = waits_for(&view, shown.issue.depends_on.iter(), |key| closed.is_closed(key))?;
        if !waits.is_empty() {
            let ids = waits.into_iter().map(Text::issue_id).collect();
            issues.beside(n).blocked_by = ids;
        }
    }
    crate::write_path::read_answer(cx, &view, Reply::Issues(IssueReply::Issues(Issues { issues })))
}

/// Returns the issues that are open, unblocked and held by no agent: best first.
pub(crate) fn ready(cx: &Context, filter: &IssueFilter, limit: Option<usize>) -> Outcome<Answer> {
    let view = crate::write_path::view(cx)?;
    let unreadable = |e| refuse(Code::Io, e);
    let table = &*view.table;
    let parent = parent_of(&view, filter)?;
    let mut queued = ready_queue::queued(table, usize::MAX).map_err(unreadable)?;
    // A lease that has expired but is not recorded as ended counts as no lease.
    let expired = state::expired(table, &view.now, usize::MAX).map_err(unreadable)?;
    for id in expired.iter().filter_map(|lease| lease.resource.issue()) {
        let rank = ready_queue::rank(table, &id.key()).map_err(unreadable)?;
        queued.extend(rank.map(|rank| (rank.into(), id.key().into())));
    }
    queued.sort();
    let leases = leases(&view)?;
    let wanted = limit.unwrap_or(usize::MAX);
    let rivals = Rivals::of(&cx.actor, table, &leases)?;
    // An issue whose work is done in its parts is not listed.
    let is_whole = |key: &str| -> Outcome<bool> {
        match state::issue_at(table, key).map_err(unreadable)? {
            Some(issue) => ready_queue::is_container(table, &issue).map_err(stopped),
            None => Ok(false),
        }
    };
    let mut issues = Listing::default();
    // Many issues are read in one pass, few one by one.
    if wanted.min(queued.len()) > FEW {
        let mut by_key: Vec<usize> = (0..queued.len()).collect();
        by_key.sort_unstable_by_key(|&n| queued[n].1.as_str());
        let keys: Vec<&str> = by_key.iter().map(|&n| queued[n].1.as_str()).collect();
        let mut found = Vec::with_capacity(keys.len());
        state::visit_issues_at(table, &keys, &mut |n, issue| {
            let is_wanted = |shown: &Listed<'_>| matches(filter, parent.as_ref(), shown);
            if issues.push(issue, None, &view.now, is_wanted) {
                found.push(by_key[n]);
            }
        })
        .map_err(unreadable)?;
        let wholes = ready_queue::wholes(table).map_err(unreadable)?;
        let mut offered = Vec::with_capacity(found.len());
        for (n, place) in found.iter().enumerate() {
            let key = queued[*place].1.as_str();
            let free = match issues.get(n).filter(|_| !leases.is_empty()) {
                Some(shown) => {
                    let (kind, parent) = (shown.issue.kind, shown.issue.parent);
                    !rivals.stand_in_the_way(key, kind.as_str(), parent.as_ref().map(|id| id.as_str()))?
                }
                None => true,
            };
            let whole = wholes.contains(key) && is_whole(key)?;
            if free && !whole {
                offered.push(n);
            }
        }
        offered.sort_unstable_by_key(|&n| found[n]);
        offered.truncate(wanted);
        issues.pick(&mut offered);
        let mut branches = state::last_branches(table).map_err(unreadable)?;
        for n in 0..issues.len() {
            if branches.is_empty() {
                break;
            }
            let id = issues.get(n).map(|shown| shown.issue.id.issue_id());
            let branch = id.and_then(|id| branches.remove(&Resource::Issue(id).key()));
            if branch.is_some() {
                issues.beside(n).resume_from = branch;
            }
        }
    } else {
        for (_, key) in &queued {
            if issues.len() >= wanted {
                break;
            }
            let Some(issue) = state::issue_at(table, key).map_err(unreadable)? else {
                continue;
            };
            let above = issue.parent.as_ref().map(IssueId::as_str);
            if ready_queue::is_container(table, &issue).map_err(stopped)?
                || rivals.stand_in_the_way(key, &issue.kind, above)?
            {
                continue;
            }
            let is_wanted = |shown: &Listed<'_>| matches(filter, parent.as_ref(), shown);
            if issues.push_issue(&issue, None, &view.now, is_wanted) {
                let resource = Resource::Issue(issue.id).key();
                let branch = state::last_branch(table, &resource).map_err(unreadable)?;
                issues.beside(issues.len() - 1).resume_from = branch;
            }
        }
    }
    crate::write_path::read_answer(cx, &view, Reply::Issues(IssueReply::Issues(Issues { issues })))
}

/// Returns the issues that are blocked, with their reasons.
pub(crate) fn blocked(cx: &Context) -> Outcome<Answer> {
    let view = crate::write_path::view(cx)?;
    let board = Board::load(&view)?;
    let mut issues = Listing::default();
    let mut open: Vec<&Issue> = board
        .issues
        .iter()
        .filter(|issue| !issue.state.is_closed())
        .collect();
    open.sort_by(|a, b| (a.priority, a.created_at, &a.id).cmp(&(b.priority, b.created_at, &b.id)));
    for issue in open {
        let waits_for = board.waits_for(&view, issue)?;
        if issue.blocked.is_some() || !waits_for.is_empty() {
            issues.push_issue(issue, board.lease(issue), &view.now, |_| true);
            issues.beside(issues.len() - 1).blocked_by = waits_for;
        }
    }
    crate::write_path::read_answer(cx, &view, Reply::Issues(IssueReply::Issues(Issues { issues })))
}

pub(crate) fn progress(cx: &Context, issue: Option<&IssuePrefix>) -> Outcome<Answer> {
    let view = crate::write_path::view(cx)?;
    let root = issue
        .map(|text| crate::write_path::resolve(&view, text))
        .transpose()?;
    let board = Board::load(&view)?;
    let mut parts: HashMap<String, Vec<&Issue>> = HashMap::new();
    for issue in &board.issues {
        if let Some(parent) = &issue.parent {
            parts.entry(parent.key()).or_default().push(issue);
        }
    }
    for of in parts.values_mut() {
        of.sort_by_key(|issue| (issue.created_at, issue.id.clone()));
    }
    let mut tops: Vec<&Issue> = match &root {
        Some(issue) => board.find(&issue.id).into_iter().collect(),
        // A part of a missing issue counts as a top issue.
        None => board
            .issues
            .iter()
            .filter(|issue| {
                issue
                    .parent
                    .as_ref()
                    .is_none_or(|parent| board.find(parent).is_none())
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
        // A merge may have made issues parts of each other. They are under no top issue, but are shown too.
        let mut rest: Vec<&Issue> = board
            .issues
            .iter()
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
    crate::write_path::read_answer(
        cx,
        &view,
        Reply::Issues(IssueReply::Progress(Progress { total, issues })),
    )
}

/// The deepest nesting that is followed.
const DEEPEST: usize = 64;

fn progress_of(
    view: &View,
    board: &Board,
    parts: &HashMap<String, Vec<&Issue>>,
    issue: &Issue,
    seen: &mut HashSet<String>,
    depth: usize,
) -> Outcome<Option<ProgressOf>> {
    // A merge may have made an issue a part of itself.
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
        kind: issue.kind.to_string(),
        state: shown.issue.state,
        assignee: shown.assignee,
        blocked_by,
        waiting_for_human,
        counts,
        parts: inner,
    }))
}

impl Counts {
    pub(crate) fn count(&mut self, state: IssueState) {
        self.issues += 1;
        match state {
            IssueState::Backlog => self.backlog += 1,
            IssueState::Ready => self.ready += 1,
            IssueState::InProgress => self.in_progress += 1,
            IssueState::Gated => self.gated += 1,
            IssueState::Done => self.done += 1,
            IssueState::Rejected => self.rejected += 1,
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
