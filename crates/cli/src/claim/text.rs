//! Text of leases.

use crate::render::{Style, clean_line, table};
use jit_core::query::claim_views::LeaseView;
use jit_engine::api::claims::ActiveLease;
use jit_engine::api::claims::{ClaimHistory, ClaimReply, Evicted, Released};

/// Text of a reply about claims. `done` is the first word about a lease that was granted.
pub fn text(reply: &ClaimReply, done: &str, style: Style) -> String {
    match reply {
        ClaimReply::Lease(granted) => lease(granted, done, style),
        ClaimReply::Picked(picked) => {
            lease(&picked.lease, done, style) + "\n" + &crate::issue::text::issue(&picked.issue, style)
        }
        ClaimReply::Released(Released { released }) => ended(released, "Released", style),
        ClaimReply::Evicted(Evicted { evicted }) => ended(evicted, "Evicted", style),
        ClaimReply::Active(active) => claims(&active.active, style),
        ClaimReply::Heartbeat(beat) => crate::heartbeat::text(beat),
        // The answer to a heartbeat that begins.
        ClaimReply::Vouched(_) => String::new(),
        ClaimReply::History(ClaimHistory { records }) => records.iter().map(super::history::line).collect(),
    }
}

/// Ids of what was written.
pub fn ids(reply: &ClaimReply) -> Vec<&str> {
    match reply {
        ClaimReply::Lease(lease) => vec![lease.lease_id.as_str()],
        ClaimReply::Picked(picked) => vec![picked.issue.issue.id.as_str(), picked.lease.lease_id.as_str()],
        ClaimReply::Released(Released { released: leases })
        | ClaimReply::Evicted(Evicted { evicted: leases }) => {
            leases.iter().map(|lease| lease.lease_id.as_str()).collect()
        }
        ClaimReply::Heartbeat(_)
        | ClaimReply::Vouched(_)
        | ClaimReply::Active(_)
        | ClaimReply::History(_) => Vec::new(),
    }
}

fn ended(leases: &[LeaseView], done: &str, style: Style) -> String {
    let line = |lease: &LeaseView| {
        let what = lease
            .issue_id
            .as_ref()
            .map_or("a lock on files", |id| id.as_str());
        format!("{done} {} (lease {})\n", style.bold(what), lease.lease_id)
    };
    leases.iter().map(line).collect()
}

/// Formats a lease. `done` is the first word, unless the lease was held already or granted again.
pub fn lease(lease: &LeaseView, done: &str, style: Style) -> String {
    let what = lease.issue_id.as_ref().map_or("?", |id| id.as_str());
    let how = match (lease.existing, lease.regranted) {
        (true, _) => "Held already:",
        (_, true) => "Granted again:",
        _ => done,
    };
    let place = lease.worktree_id.as_ref().map_or("no worktree", |id| id.as_str());
    let branch = lease
        .branch
        .as_deref()
        .map_or(String::new(), |b| format!(", branch {}", clean_line(b)));
    format!(
        "{how} {} to {} until {}\n  lease {}  token {}  ({place}{branch})\n",
        style.bold(what),
        clean_line(lease.agent_id.as_str()),
        lease.expires_at,
        lease.lease_id,
        lease.token,
    )
}

pub fn claims(active: &[ActiveLease], style: Style) -> String {
    if active.is_empty() {
        return "Nobody holds anything.\n".into();
    }
    let mut rows = vec![
        vec![
            "ISSUE",
            "HOLDER",
            "WORKTREE",
            "BRANCH",
            "LEFT",
            "HEARTBEAT",
            "LEASE",
        ]
        .into_iter()
        .map(str::to_owned)
        .collect::<Vec<_>>(),
    ];
    for one in active {
        let heart = match (one.heartbeat_age_secs, one.heartbeat_alive) {
            (Some(age), Some(true)) => format!("{age}s ago"),
            (Some(_), _) => "dead".to_owned(),
            _ => "-".to_owned(),
        };
        rows.push(vec![
            one.lease
                .issue_id
                .as_ref()
                .map_or("?".to_owned(), ToString::to_string),
            clean_line(one.lease.agent_id.as_str()),
            one.lease
                .worktree_id
                .as_ref()
                .map_or("-".to_owned(), ToString::to_string),
            one.lease.branch.as_deref().map_or("-".to_owned(), clean_line),
            jit_core::model::refusal::left(one.remaining_secs * 1000),
            heart,
            one.lease.lease_id.to_string(),
        ]);
    }
    let text = table(&rows);
    match text.split_once('\n') {
        Some((head, rest)) => format!("{}\n{rest}", style.dim(head)),
        None => text,
    }
}
