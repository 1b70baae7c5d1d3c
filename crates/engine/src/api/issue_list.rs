//! Lists of issues. Each issue stays packed, as the state stores it, and is read in place.
//!
//! What must hold: a listed issue shows the same fields as `IssueView` of that issue, in JSON too.
//!
//! Ten thousand `IssueView` values need about a hundred thousand small allocations. Those take longer than reading the
//! issues.

use jit_core::log::packed_issue::{self, Packed};
use jit_core::model::ids::{AgentId, IssueId};
use jit_core::model::issue::{Issue, IssueState, Priority};
use jit_core::model::lease::Lease;
use jit_core::model::time::Now;
use jit_core::query::claim_views::LeaseView;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::issues::{IssueView, shown_state};

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(from = "Vec<IssueView>")]
#[schemars(with = "Vec<IssueView>")]
pub struct Listing {
    packed: Vec<u8>,
    rows: Vec<Row>,
}

/// Small on purpose: all rows are allocated before the first one is shown.
#[derive(Debug)]
struct Row {
    at: usize,
    len: u32,
    id_len: u8,
    state: IssueState,
    priority: Priority,
    /// `None` for most issues.
    beside: Option<Box<Beside>>,
}

/// Facts about an issue that are not its own fields.
#[derive(Debug, Default)]
pub struct Beside {
    pub lease: Option<LeaseView>,
    pub blocked_by: Vec<IssueId>,
    pub resume_from: Option<String>,
}

static NOTHING: Beside = Beside {
    lease: None,
    blocked_by: Vec::new(),
    resume_from: None,
};

/// One issue of a list.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Listed<'a> {
    #[serde(flatten)]
    pub issue: Packed<'a>,
    /// Always null, as in every list.
    description: (),
    pub lease: Option<&'a LeaseView>,
    pub assignee: Option<&'a AgentId>,
    pub blocked_by: &'a [IssueId],
    pub resume_from: Option<&'a str>,
    comments: (),
}

impl<'a> Listed<'a> {
    /// Uses the displayed state: in progress while the issue is leased.
    fn new(mut issue: Packed<'a>, state: IssueState, beside: &'a Beside) -> Self {
        issue.state = state;
        Self {
            issue,
            description: (),
            lease: beside.lease.as_ref(),
            assignee: beside.lease.as_ref().map(|lease| &lease.agent_id),
            blocked_by: &beside.blocked_by,
            resume_from: beside.resume_from.as_deref(),
            comments: (),
        }
    }
}

impl Listing {
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Adds an issue if the filter accepts its displayed state. Returns whether it was added.
    pub fn push(
        &mut self,
        issue: Packed<'_>,
        lease: Option<&Lease>,
        now: &Now,
        is_wanted: impl FnOnce(&Listed<'_>) -> bool,
    ) -> bool {
        let lease = lease.filter(|lease| !lease.expired(now)).map(LeaseView::of);
        let state = shown_state(issue.state, lease.is_some());
        let beside = lease.map(|lease| {
            Box::new(Beside {
                lease: Some(lease),
                ..Beside::default()
            })
        });
        if !is_wanted(&Listed::new(issue, state, beside.as_deref().unwrap_or(&NOTHING))) {
            return false;
        }
        let bytes = issue.bytes();
        self.rows.push(Row {
            at: self.packed.len(),
            len: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            id_len: u8::try_from(issue.id.as_str().len()).unwrap_or(u8::MAX),
            state,
            priority: issue.priority,
            beside,
        });
        self.packed.extend_from_slice(bytes);
        true
    }

    /// Adds an issue that is not packed.
    pub fn push_issue(
        &mut self,
        issue: &Issue,
        lease: Option<&Lease>,
        now: &Now,
        is_wanted: impl FnOnce(&Listed<'_>) -> bool,
    ) -> bool {
        Packed::read(&packed_issue::encode(issue))
            .is_some_and(|packed| self.push(packed, lease, now, is_wanted))
    }

    fn listed<'a>(&'a self, row: &'a Row) -> Option<Listed<'a>> {
        let packed = Packed::read(self.packed.get(row.at..)?.get(..row.len as usize)?)?;
        Some(Listed::new(
            packed,
            row.state,
            row.beside.as_deref().unwrap_or(&NOTHING),
        ))
    }

    pub fn get(&self, n: usize) -> Option<Listed<'_>> {
        self.rows.get(n).and_then(|row| self.listed(row))
    }

    pub fn iter(&self) -> impl Iterator<Item = Listed<'_>> {
        // Every issue was parsed before it was added, so none is skipped here.
        self.rows.iter().filter_map(|row| self.listed(row))
    }

    /// Returns the facts beside the issue's own fields, so that the caller can add to them.
    pub fn beside(&mut self, n: usize) -> &mut Beside {
        self.rows[n].beside.get_or_insert_default()
    }

    /// Returns the data for the column widths of a table, without reading the issues: id length, state, priority and
    /// holder.
    pub fn outlines(&self) -> impl Iterator<Item = (usize, IssueState, Priority, Option<&AgentId>)> {
        self.rows.iter().map(|row| {
            let lease = row.beside.as_ref().and_then(|beside| beside.lease.as_ref());
            (
                row.id_len.into(),
                row.state,
                row.priority,
                lease.map(|lease| &lease.agent_id),
            )
        })
    }

    /// Size of all packed issues in bytes.
    pub fn size(&self) -> usize {
        self.packed.len()
    }

    /// Keeps only the rows at these places, in their order.
    pub fn pick(&mut self, places: &mut [usize]) {
        pick(&mut self.rows, places);
    }
}

/// Keeps only the elements at these places, in their order, without copying the whole list.
fn pick<T>(all: &mut Vec<T>, places: &mut [usize]) {
    for to in 0..places.len() {
        let mut from = places[to];
        // The element of a place that was filled was moved to where the filling element came from.
        while from < to {
            from = places[from];
        }
        // Shortens the chain for a later place that leads here.
        places[to] = from;
        all.swap(to, from);
    }
    all.truncate(places.len());
}

impl From<Vec<IssueView>> for Listing {
    /// Builds a list that another program serialized.
    fn from(views: Vec<IssueView>) -> Self {
        let mut listing = Self::default();
        for view in views {
            let packed = packed_issue::encode(&view.issue);
            let beside = Beside {
                lease: view.lease.map(|lease| *lease),
                blocked_by: view.blocked_by,
                resume_from: view.resume_from,
            };
            listing.rows.push(Row {
                at: listing.packed.len(),
                len: u32::try_from(packed.len()).unwrap_or(u32::MAX),
                id_len: u8::try_from(view.issue.id.as_str().len()).unwrap_or(u8::MAX),
                state: view.issue.state,
                priority: view.issue.priority,
                beside: Some(Box::new(beside)),
            });
            listing.packed.extend_from_slice(&packed);
        }
        listing
    }
}

impl Serialize for Listing {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use jit_core::model::issue::Performer;
    use jit_core::model::time::Wall;
    use proptest::prelude::*;

    use super::*;

    fn issue(n: i64) -> Issue {
        Issue {
            id: format!("ISSUE-{n}").parse().expect("an id"),
            title: format!("Überschrift\n{n}"),
            kind: "task".into(),
            state: [IssueState::Ready, IssueState::Done, IssueState::Backlog][n as usize % 3],
            priority: Priority::ALL[n as usize % 4],
            parent: (n % 2 == 0).then(|| "WI-1".parse().expect("an id")),
            labels: vec!["a".into(), "\"b\"".into()],
            depends_on: vec!["OTHER-1".parse().expect("an id")],
            gates: vec!["tests".into()],
            actor: Performer::Human,
            blocked: (n % 3 == 0).then(|| "rain".into()),
            pivot: None,
            created_at: Wall::from_ms(1_700_000_000_000 - n),
            created_by: Some("human:x".parse().expect("an agent")),
            updated_at: Wall::from_ms(1_700_000_000_123 + n),
            revision: 7,
            lives_in: Some("wt:0123abcd".parse().expect("a worktree")),
            text: Some("0123456789abcdef".into()),
        }
    }

    fn json(value: &impl Serialize) -> String {
        serde_json::to_string(value).expect("JSON")
    }

    /// E7: a list and `issue show` show the same issue alike.
    #[test]
    fn e8_a_listed_issue_says_what_a_view_says() {
        let now = Now {
            wall: Wall::from_ms(1_700_000_000_999),
            boot: jit_core::model::time::BootId("b".into()),
            ticks: 5,
        };
        let mut listing = Listing::default();
        let mut views = Vec::new();
        for n in 0..7 {
            listing.push_issue(&issue(n), None, &now, |_| true);
            let mut view = IssueView::new(issue(n), None, &now);
            if n == 4 {
                view.blocked_by = vec!["OTHER-1".parse().expect("an id")];
                view.resume_from = Some("a-branch".into());
                listing.beside(4).blocked_by = view.blocked_by.clone();
                listing.beside(4).resume_from = view.resume_from.clone();
            }
            views.push(view);
        }
        assert_eq!(json(&listing), json(&views));
        let back: Listing = serde_json::from_str(&json(&listing)).expect("a list");
        assert_eq!(json(&back), json(&views));
        assert!(!listing.push_issue(&issue(9), None, &now, |_| false));
        let outlines: Vec<_> = listing.outlines().collect();
        assert_eq!(outlines[1], (7, IssueState::Done, Priority::ALL[1], None));
        assert_eq!(listing.len(), 7);
        listing.pick(&mut [6, 0, 3]);
        let picked: Vec<&IssueView> = [6, 0, 3].iter().map(|&n: &usize| &views[n]).collect();
        assert_eq!(json(&listing), json(&picked));
    }

    proptest! {
        #[test]
        fn e4_what_is_picked_is_what_was_there(all in prop::collection::vec(any::<u8>(), 0..40), seed in any::<u64>()) {
            let mut places: Vec<usize> = (0..all.len()).collect();
            places.sort_by_key(|&n| (seed ^ (n as u64)).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            places.truncate(seed as usize % (all.len() + 1));
            let wanted: Vec<u8> = places.iter().map(|&n| all[n]).collect();
            let mut picked = all;
            pick(&mut picked, &mut places);
            prop_assert_eq!(picked, wanted);
        }
    }
}
