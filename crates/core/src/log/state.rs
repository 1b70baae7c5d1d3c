//! State is the fold of the log: what each event changes, and how to ask for what is there now.
//!
//! # Keys
//!
//! | key | value |
//! |---|---|
//! | `L/<resource>` | the lease on it; at most one, so no resource can have two holders |
//! | `E/<resource>` | the lease that ended last, and how |
//! | `l/<lease>` | its resource, for leases under `L/` or `E/` |
//! | `h/<agent>/<lease>` | its resource |
//! | `d/<deadline>/<lease>` | its resource, soonest deadline first |
//! | `c/<parent lease>/<lease>` | its resource |
//! | `f/<lease>` | its resource, for leases that stand for lock files of others |
//! | `i/<issue>` | the issue |
//! | `t/<issue>` | the issue, which was deleted |
//! | `s/<issue>` | its sheet: stamps and set histories |
//! | `w/<issue>/<digest>` | an `issue.json` that was here before: nothing when jit wrote it, `in` when it was brought in |
//! | `k/<issue>/<comment>` | the comment |
//! | `g/<issue>/<gate>` | how the gate came out last |
//! | `p/`, `u/`, `v/`, `j/`, `r/` | what can be taken next: see [`crate::log::ready_index`] |
//! | `W/<sequence>` | who waits for locks on files, in order of arrival |
//! | `S/<session>` | an agent's session |
//! | `U/<unit>` | a unit of work |
//! | `F/<workflow>` | a workflow |
//! | `A/<account>` | an account of an agent that was refused, see [`crate::model::account`] |
//! | `C/<hash>` | two that are in each other's way, see [`crate::model::conflict`] |
//! | `D/<date>` | what agents cost on that day (UTC) |
//! | `q/<request>` | which log lines answered it |
//! | `m/boot`, `m/active`, `m/newer` | boot the deadlines belong to; number of leases; an event we did not understand |
//! | `m/worked` | sequence of the last entry of the changelog |

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::issue_files::format;
use crate::issue_files::stamps::Sheet;
use crate::log::packed_issue::{self, Packed};
use crate::log::records::{decode_lease, decode_ticket};
use crate::log::stop::Stop;
use crate::log::table::{Read, Table, Unreadable};
use crate::model::account::{Account, AccountId};
use crate::model::conflict::Conflict;
use crate::model::cost::{Tokens, Usd};
use crate::model::file_lock::Ticket;
use crate::model::ids::{
    AgentId, IssueId, IssuePrefix, LeaseId, MIN_PREFIX, RequestId, SessionId, UnitId, WorkflowId,
};
use crate::model::issue::{Comment, GateResult, Issue, text_digest};
use crate::model::lease::{Lease, LeaseEnd};
use crate::model::refusal::{Code, Details, Refusal};
use crate::model::session::Session;
use crate::model::time::{BootId, Now, Wall};
use crate::model::unit::Unit;
use crate::model::workflow::Workflow;

/// The boot that all deadlines are counted in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    pub boot_id: BootId,
    pub ticks: u64,
}

/// The last lease a resource had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    pub lease: Lease,
    pub how: LeaseEnd,
    pub at: Wall,
}

/// Followed by a newline and the lease.
#[derive(Serialize, Deserialize)]
pub(crate) struct EndedRecord {
    pub how: LeaseEnd,
    pub at: Wall,
}

/// Where the answer to a request is in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    pub digest: u64,
    pub first: u64,
    pub last: u64,
    pub at: Wall,
}

fn parse<T: DeserializeOwned>(key: &str, bytes: &[u8]) -> Read<T> {
    serde_json::from_slice(bytes).map_err(|e| Unreadable(format!("state record {key}: {e}")))
}

fn parse_lease(key: &str, bytes: &[u8]) -> Read<Lease> {
    decode_lease(bytes).map_err(|e| Unreadable(format!("state record {key}: {e}")))
}

pub(crate) fn load<T: DeserializeOwned>(table: &dyn Table, key: &str) -> Read<Option<T>> {
    table.get(key)?.map(|bytes| parse(key, &bytes)).transpose()
}

/// The lease on a resource, expired or not.
pub fn lease_on(table: &dyn Table, resource_key: &str) -> Read<Option<Lease>> {
    let key = format!("L/{resource_key}");
    table
        .get(&key)?
        .map(|bytes| parse_lease(&key, &bytes))
        .transpose()
}

/// The resource a lease is or was on.
pub fn resource_of(table: &dyn Table, lease: &LeaseId) -> Read<Option<String>> {
    Ok(table
        .get(&format!("l/{lease}"))?
        .map(|v| String::from_utf8_lossy(&v).into_owned()))
}

/// Every lease, expired ones included: the caller compares deadlines.
pub fn leases(table: &dyn Table) -> Read<Vec<Lease>> {
    leases_on(table, "")
}

/// Every claim on an issue, expired ones included.
pub fn claims(table: &dyn Table) -> Read<Vec<Lease>> {
    leases_on(table, "issue:")
}

/// Leases on the resources whose keys begin so, expired ones included.
pub fn leases_on(table: &dyn Table, beginning: &str) -> Read<Vec<Lease>> {
    table
        .scan(&format!("L/{beginning}"), usize::MAX)?
        .iter()
        .map(|(key, value)| parse_lease(key, value))
        .collect()
}

/// Tickets of those that wait for locks on files, in order of arrival.
pub fn tickets(table: &dyn Table) -> Read<Vec<Ticket>> {
    table
        .scan("W/", usize::MAX)?
        .iter()
        .map(|(key, value)| decode_ticket(value).map_err(|e| Unreadable(format!("state record {key}: {e}"))))
        .collect()
}

pub fn session(table: &dyn Table, id: &SessionId) -> Read<Option<Session>> {
    load(table, &format!("S/{id}"))
}

/// Every session that was not pruned.
pub fn sessions(table: &dyn Table) -> Read<Vec<Session>> {
    table
        .scan("S/", usize::MAX)?
        .iter()
        .map(|(key, value)| parse(key, value))
        .collect()
}

pub fn unit(table: &dyn Table, id: &UnitId) -> Read<Option<Unit>> {
    load(table, &format!("U/{id}"))
}

/// Every unit there ever was, by name.
pub fn units(table: &dyn Table) -> Read<Vec<Unit>> {
    table
        .scan("U/", usize::MAX)?
        .iter()
        .map(|(key, value)| parse(key, value))
        .collect()
}

/// Costs of agents on a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Costs {
    pub usd: Usd,
    pub tokens: Tokens,
}

/// Costs of agents on the day (UTC) of that moment.
pub fn costs_on(table: &dyn Table, at: Wall) -> Read<Costs> {
    Ok(load(table, &day_key(at))?.unwrap_or_default())
}

pub(crate) fn day_key(at: Wall) -> String {
    // A time is written with its date first.
    format!("D/{}", at.to_string().split('T').next().unwrap_or_default())
}

/// The account of that name, if it was ever refused.
pub fn account(table: &dyn Table, id: &AccountId) -> Read<Option<Account>> {
    load(table, &format!("A/{id}"))
}

/// Every account that was ever refused.
pub fn accounts(table: &dyn Table) -> Read<Vec<Account>> {
    table
        .scan("A/", usize::MAX)?
        .iter()
        .map(|(key, value)| parse(key, value))
        .collect()
}

/// Conflicts between units, as last recorded.
pub fn conflicts(table: &dyn Table) -> Read<Vec<Conflict>> {
    table
        .scan("C/", usize::MAX)?
        .iter()
        .map(|(key, value)| parse(key, value))
        .collect()
}

pub fn workflow(table: &dyn Table, id: &WorkflowId) -> Read<Option<Workflow>> {
    load(table, &format!("F/{id}"))
}

/// Every workflow there ever was, by name.
pub fn workflows(table: &dyn Table) -> Read<Vec<Workflow>> {
    table
        .scan("F/", usize::MAX)?
        .iter()
        .map(|(key, value)| parse(key, value))
        .collect()
}

fn leases_under(table: &dyn Table, prefix: &str) -> Read<Vec<Lease>> {
    let mut found = Vec::new();
    for (_, resource) in table.scan(prefix, usize::MAX)? {
        found.extend(lease_on(table, &String::from_utf8_lossy(&resource))?);
    }
    Ok(found)
}

/// Leases of an agent, in any worktree.
pub fn leases_of(table: &dyn Table, agent: &AgentId) -> Read<Vec<Lease>> {
    leases_under(table, &format!("h/{}/", agent.file_name()))
}

/// Leases inside a lease.
pub fn children(table: &dyn Table, parent: &LeaseId) -> Read<Vec<Lease>> {
    leases_under(table, &format!("c/{parent}/"))
}

/// Leases that stand for lock files of others.
pub fn leases_from_files(table: &dyn Table) -> Read<Vec<Lease>> {
    let mut found = Vec::new();
    for (_, resource) in table.scan("f/", usize::MAX)? {
        found.extend(lease_on(table, &String::from_utf8_lossy(&resource))?);
    }
    Ok(found)
}

/// Up to `limit` leases whose deadline has passed, soonest first.
pub fn expired(table: &dyn Table, now: &Now, limit: usize) -> Read<Vec<Lease>> {
    // Few at first: mostly nothing has passed, and what lives is not to be read.
    let mut asked = limit.min(1);
    loop {
        let records = table.scan("d/", asked)?;
        let mut due = Vec::new();
        for (key, resource) in &records {
            match key.get(2..18).and_then(|hex| u64::from_str_radix(hex, 16).ok()) {
                Some(deadline) if deadline <= now.ticks => due.push(resource),
                Some(_) => break,
                None => return Err(Unreadable(format!("state key {key}"))),
            }
        }
        if due.len() < asked || asked >= limit {
            let mut found = Vec::new();
            for resource in due {
                found.extend(lease_on(table, &String::from_utf8_lossy(resource))?);
            }
            return Ok(found);
        }
        asked = asked.saturating_mul(8).min(limit);
    }
}

pub fn ended(table: &dyn Table, resource_key: &str) -> Read<Option<Ended>> {
    let key = format!("E/{resource_key}");
    let Some(bytes) = table.get(&key)? else {
        return Ok(None);
    };
    let split = bytes.iter().position(|b| *b == b'\n').unwrap_or(bytes.len());
    let EndedRecord { how, at } = parse(&key, &bytes[..split])?;
    let lease = parse_lease(&key, bytes.get(split + 1..).unwrap_or_default())?;
    Ok(Some(Ended { lease, how, at }))
}

/// The branch on which somebody last worked on a resource.
pub fn last_branch(table: &dyn Table, resource_key: &str) -> Read<Option<String>> {
    Ok(match lease_on(table, resource_key)? {
        Some(lease) => lease.branch,
        None => ended(table, resource_key)?.and_then(|ended| ended.lease.branch),
    })
}

/// The same for every resource that somebody ever worked on.
pub fn last_branches(table: &dyn Table) -> Read<std::collections::HashMap<String, String>> {
    let mut all = std::collections::HashMap::new();
    for (key, _) in table.scan("E/", usize::MAX)? {
        let resource = &key[2..];
        if let Some(branch) = last_branch(table, resource)? {
            all.insert(resource.to_owned(), branch);
        }
    }
    for lease in leases(table)? {
        if let Some(branch) = &lease.branch {
            all.insert(lease.resource.key(), branch.clone());
        }
    }
    Ok(all)
}

pub fn anchor(table: &dyn Table) -> Read<Option<Anchor>> {
    load(table, "m/boot")
}

pub fn active_count(table: &dyn Table) -> Read<u64> {
    Ok(load(table, "m/active")?.unwrap_or(0))
}

/// The last entry of the changelog.
pub fn last_worked(table: &dyn Table) -> Read<u64> {
    Ok(load(table, "m/worked")?.unwrap_or(0))
}

/// The kind of an event that this program does not know, if there was one.
pub fn newer(table: &dyn Table) -> Read<Option<String>> {
    load(table, "m/newer")
}

/// Writing is not safe after an event that this program does not know.
pub fn refuse_newer(table: &dyn Table) -> Result<(), Stop> {
    match newer(table)? {
        None => Ok(()),
        Some(kind) => Err(Refusal::new(
            Code::Newer,
            format!(
                "a newer jit wrote an event this one does not know ({kind}): reading is safe, writing is not"
            ),
        )
        .help("install the newest jit")
        .into()),
    }
}

pub fn answered(table: &dyn Table, request: &RequestId) -> Read<Option<Answered>> {
    load(table, &format!("q/{request}"))
}

pub fn issue(table: &dyn Table, id: &IssueId) -> Read<Option<Issue>> {
    issue_at(table, &id.key())
}

pub fn issue_at(table: &dyn Table, key: &str) -> Read<Option<Issue>> {
    load_issue(table, &format!("i/{key}"))
}

fn parse_issue(key: &str, bytes: &[u8]) -> Read<Issue> {
    packed_issue::decode(bytes).ok_or_else(|| not_an_issue(key))
}

fn not_an_issue(key: &str) -> Unreadable {
    Unreadable(format!("state record {key} is not an issue"))
}

fn load_issue(table: &dyn Table, key: &str) -> Read<Option<Issue>> {
    table.get(key)?.map(|bytes| parse_issue(key, &bytes)).transpose()
}

/// An issue that was deleted.
pub fn deleted(table: &dyn Table, id: &IssueId) -> Read<Option<Issue>> {
    load_issue(table, &format!("t/{}", id.key()))
}

/// An issue, though it may have been deleted.
pub fn issue_or_tombstone(table: &dyn Table, id: &IssueId) -> Read<Option<Issue>> {
    match issue(table, id)? {
        None => deleted(table, id),
        known => Ok(known),
    }
}

pub fn was_deleted(table: &dyn Table, key: &str) -> Read<bool> {
    Ok(table.get(&format!("t/{key}"))?.is_some())
}

/// Whether there is or was an issue of that name.
pub fn is_known(table: &dyn Table, id: &IssueId) -> Read<bool> {
    Ok(table.get(&format!("s/{}", id.key()))?.is_some())
}

pub fn sheet(table: &dyn Table, id: &IssueId) -> Read<Sheet> {
    Ok(load(table, &format!("s/{}", id.key()))?.unwrap_or_default())
}

/// Whether an `issue.json` with this digest was written or brought in here before.
pub fn is_known_file(table: &dyn Table, id: &IssueId, digest: &str) -> Read<bool> {
    Ok(table.get(&format!("w/{}/{digest}", id.key()))?.is_some())
}

/// Marks an `issue.json` that jit did not write.
pub(crate) const BROUGHT_IN: &[u8] = b"in";

/// Whether jit itself wrote an `issue.json` with this digest.
pub fn wrote_file(table: &dyn Table, id: &IssueId, digest: &str) -> Read<bool> {
    let found = table.get(&format!("w/{}/{digest}", id.key()))?;
    Ok(found.is_some_and(|mark| mark != BROUGHT_IN))
}

/// Oldest first.
pub fn comments(table: &dyn Table, id: &IssueId) -> Read<Vec<Comment>> {
    let mut all: Vec<Comment> = table
        .scan(&format!("k/{}/", id.key()), usize::MAX)?
        .iter()
        .map(|(key, value)| parse(key, value))
        .collect::<Read<_>>()?;
    all.sort_by(|a, b| (a.at, &a.id).cmp(&(b.at, &b.id)));
    Ok(all)
}

/// Every comment, with the key of its issue.
pub fn all_comments(table: &dyn Table) -> Read<Vec<(String, Comment)>> {
    let mut all = Vec::new();
    for (key, value) in table.scan("k/", usize::MAX)? {
        let id = key[2..].split('/').next().unwrap_or_default().to_owned();
        all.push((id, parse(&key, &value)?));
    }
    Ok(all)
}

pub fn has_comment(table: &dyn Table, id: &IssueId, comment: &str) -> Read<bool> {
    Ok(table.get(&format!("k/{}/{comment}", id.key()))?.is_some())
}

pub fn comment(table: &dyn Table, id: &IssueId, comment: &str) -> Read<Option<Comment>> {
    load(table, &format!("k/{}/{comment}", id.key()))
}

/// Whether everything that a comment says is here: also where another one has its id.
pub fn holds_comment(table: &dyn Table, id: &IssueId, said: &Comment) -> Read<bool> {
    let Some(known) = comment(table, id, &said.id)? else {
        return Ok(false);
    };
    if known == *said {
        return Ok(true);
    }
    let (first, other) = format::said_first(&known, said);
    if format::says_the_same(first, other) {
        return Ok(*first == known);
    }
    Ok(*first == known && has_comment(table, id, &format::set_aside(other).id)?)
}

pub fn gate_result(table: &dyn Table, id: &IssueId, gate: &str) -> Read<Option<GateResult>> {
    let found: Option<Judged> = load(table, &gate_key(id, gate))?;
    Ok(found.map(|judged| judged.result))
}

/// Every gate that was judged for an issue.
pub fn gate_results(table: &dyn Table, id: &IssueId) -> Read<Vec<(String, GateResult)>> {
    table
        .scan(&format!("g/{}/", id.key()), usize::MAX)?
        .iter()
        .map(|(key, value)| parse(key, value).map(|judged: Judged| (judged.gate, judged.result)))
        .collect()
}

/// Names of gates may hold anything, keys may not.
pub(crate) fn gate_key(id: &IssueId, gate: &str) -> String {
    format!("g/{}/{}", id.key(), text_digest(gate.as_bytes()))
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Judged {
    pub gate: String,
    pub result: GateResult,
}

/// Every issue, in the order of their keys.
pub fn issues(table: &dyn Table) -> Read<Vec<Issue>> {
    let mut all = Vec::new();
    table.visit("i/", &mut |key, value| {
        all.push(parse_issue(key, value)?);
        Ok(())
    })?;
    Ok(all)
}

fn packed_issue<'a>(key: &str, bytes: &'a [u8]) -> Read<Packed<'a>> {
    Packed::read(bytes).ok_or_else(|| not_an_issue(key))
}

/// Calls `each` with every issue and its key, in the order of their keys.
pub fn visit_issues(table: &dyn Table, each: &mut dyn FnMut(&str, Packed<'_>)) -> Read<()> {
    table.visit("i/", &mut |key, value| {
        each(&key["i/".len()..], packed_issue(key, value)?);
        Ok(())
    })
}

/// Calls `each` with the issues that have these keys, which are in order, and with which key each has.
pub fn visit_issues_at(
    table: &dyn Table,
    keys: &[&str],
    each: &mut dyn FnMut(usize, Packed<'_>),
) -> Read<()> {
    let mut next = 0;
    table.visit("i/", &mut |key, value| {
        let id = key.get(2..).unwrap_or_default();
        while next < keys.len() && keys[next] < id {
            next += 1;
        }
        while next < keys.len() && keys[next] == id {
            each(next, packed_issue(key, value)?);
            next += 1;
        }
        Ok(())
    })
}

/// Issues that were deleted.
pub fn tombstones(table: &dyn Table) -> Read<Vec<Issue>> {
    table
        .scan("t/", usize::MAX)?
        .iter()
        .map(|(key, value)| parse_issue(key, value))
        .collect()
}

/// The one issue that `text` names: an exact id, else the only one that begins with it.
pub fn resolve(table: &dyn Table, text: &IssuePrefix) -> Result<Issue, Stop> {
    let key = format!("i/{}", text.key());
    if let Some(issue) = load_issue(table, &key)? {
        return Ok(issue);
    }
    if let Some(gone) = load_issue(table, &format!("t/{}", text.key()))? {
        let at = sheet(table, &gone.id)?.stamp(&gone, "deleted");
        let refusal = Refusal::new(Code::NotFound, format!("{} was deleted at {at}", gone.id))
            .help(format!("jit issue restore {}", gone.id))
            .help("jit events --type issue.deleted");
        return Err(refusal.into());
    }
    let not_found = || {
        Refusal::new(Code::NotFound, format!("no issue is called {}", text.as_str()))
            .help("jit issue list")
            .help("jit issue create <title>")
            .details(Details::UnknownIssue)
    };
    if !text.may_abbreviate() {
        let mut refusal = not_found();
        refusal.message.push_str(&format!(
            "; an abbreviation needs at least {MIN_PREFIX} characters"
        ));
        return Err(refusal.into());
    }
    const SHOWN: usize = 10;
    let mut found = table.scan(&key, SHOWN + 1)?;
    match found.len() {
        0 => Err(not_found().into()),
        1 => Ok(parse_issue(&key, &found.remove(0).1)?),
        many => {
            let mut names = Vec::new();
            for (key, value) in found.iter().take(SHOWN) {
                names.push(parse_issue(key, value)?.id.to_string());
            }
            let more = if many > SHOWN { ", …" } else { "" };
            Err(Refusal::new(
                Code::Ambiguous,
                format!(
                    "{} could be {}{more}: give more of the id",
                    text.as_str(),
                    names.join(", ")
                ),
            )
            .details(Details::Candidates(names))
            .into())
        }
    }
}
