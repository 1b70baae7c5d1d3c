//! How events look in the log, and leases and claims in the files beside it.
//!
//! # Format of a log line
//!
//! One JSON object, one line, fields in this order:
//!
//! ```json
//! {"schema_version":1,"sequence":42,"type":"claim.acquired","timestamp":"…","actor":{"agent_id":"…","worktree_id":"…"},
//!  "payload":{…},"tx":[1,2],"request":{"id":"…","digest":"…"},"durable":40,"prev":"…","sum":"…"}
//! ```
//!
//! - `sequence` has no gaps. `tx` is this line's place in its transaction: a transaction counts only when all its
//!   lines are there. `request` is there when the caller gave a request id.
//! - `durable` is a sequence that was surely on disk when the line was written: a bad line at or below it is damage,
//!   not an unfinished write.
//! - `sum` is XXH3-64 of every byte before `,"sum"`, and `prev` is the `sum` of the line before, so each line can be
//!   checked alone and no line can be left out unnoticed. `sum` comes last so that it can be read from the end.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

use crate::issue_files::stamps::Sheet;
use crate::log::event::{
    ChangelogAction, Event, IssueAction, LoggedRequest, SegmentReason, Stamped, unit_kind,
};
use crate::log::records::{LeaseRecord, decode_ticket, encode_ticket};
use crate::model::account::AccountAction;
use crate::model::actor::Actor;
use crate::model::conflict::ConflictAction;
use crate::model::ids::{IssueId, RequestId, SessionId, TicketId};
use crate::model::issue::{Comment, GateResult, Issue};
use crate::model::json::json_bytes;
use crate::model::session::SessionStatus;
use crate::model::time::{BootId, Wall};
use crate::model::unit::UnitInput;
use crate::model::workflow::WorkflowAction;

pub const SCHEMA_VERSION: u64 = 1;

/// `,"sum":"0123456789abcdef"}`
const SUM_LEN: usize = 26;

#[derive(Serialize, Deserialize)]
struct UnqueuedRecord {
    ticket_id: TicketId,
}

#[derive(Serialize, Deserialize)]
struct SessionEndRecord {
    session_id: SessionId,
    status: SessionStatus,
}

#[derive(Serialize, Deserialize)]
struct PrunedRecord {
    sessions: Vec<SessionId>,
}

#[derive(Serialize, Deserialize)]
struct BootRecord {
    boot_id: BootId,
    ticks: u64,
}

#[derive(Serialize, Deserialize)]
struct SegmentRecord {
    reason: String,
}

#[derive(Serialize, Deserialize)]
struct RecoveredRecord {
    lost: u64,
    backup: String,
}

#[derive(Serialize, Deserialize)]
struct IssueRecord {
    issue: Issue,
    #[serde(default)]
    sheet: Sheet,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct CommentRecord {
    issue_id: IssueId,
    comment: Comment,
}

#[derive(Serialize, Deserialize)]
struct GateRecord {
    issue_id: IssueId,
    gate: String,
    result: GateResult,
}

#[derive(Serialize, Deserialize)]
struct WorkRecord {
    action: ChangelogAction,
    activity_id: Option<IssueId>,
    task_id: Option<IssueId>,
    details: Option<String>,
    #[serde(default)]
    previous: u64,
}

#[derive(Serialize, Deserialize)]
struct RequestRecord {
    id: RequestId,
    digest: String,
}

#[derive(Deserialize)]
struct LineRecord<'a> {
    schema_version: u64,
    sequence: u64,
    #[serde(rename = "type")]
    kind: String,
    timestamp: Wall,
    actor: Actor,
    #[serde(borrow)]
    payload: &'a RawValue,
    tx: (u32, u32),
    request: Option<RequestRecord>,
    /// A unified event has neither of these two.
    durable: Option<u64>,
    prev: Option<String>,
}

fn payload(event: &Event) -> Vec<u8> {
    match event {
        Event::Acquired { lease, regranted } => json_bytes(&LeaseRecord {
            regranted: *regranted,
            ..LeaseRecord::of(lease)
        }),
        Event::Renewed { lease } | Event::Restored { lease } => json_bytes(&LeaseRecord::of(lease)),
        Event::AutoEvicted { lease } => json_bytes(&LeaseRecord {
            reason: Some("expired".into()),
            ..LeaseRecord::of(lease)
        }),
        Event::Released { lease, by, brief } => json_bytes(&LeaseRecord {
            by: Some(by.clone()),
            brief: *brief,
            ..LeaseRecord::of(lease)
        }),
        Event::ForceEvicted { lease, by, reason } => json_bytes(&LeaseRecord {
            by: Some(by.clone()),
            reason: Some(reason.clone()),
            ..LeaseRecord::of(lease)
        }),
        Event::Transferred {
            lease,
            from_lease_id,
            from_agent_id,
        } => json_bytes(&LeaseRecord {
            from_lease_id: Some(from_lease_id.clone()),
            from_agent_id: Some(from_agent_id.clone()),
            ..LeaseRecord::of(lease)
        }),
        Event::Boot { boot, ticks } => json_bytes(&BootRecord {
            boot_id: boot.clone(),
            ticks: *ticks,
        }),
        Event::SegmentStarted { reason } => json_bytes(&SegmentRecord {
            reason: segment_reason(*reason).to_owned(),
        }),
        Event::LogRecovered { lost, backup } => json_bytes(&RecoveredRecord {
            lost: *lost,
            backup: backup.clone(),
        }),
        Event::Issue { did, issue, sheet } => json_bytes(&IssueRecord {
            issue: issue.clone(),
            sheet: sheet.clone(),
            digest: match did {
                IssueAction::Joined { digest } => Some(digest.clone()),
                _ => None,
            },
        }),
        Event::Commented { issue_id, comment } => json_bytes(&CommentRecord {
            issue_id: issue_id.clone(),
            comment: comment.clone(),
        }),
        Event::GateJudged {
            issue_id,
            gate,
            result,
        } => json_bytes(&GateRecord {
            issue_id: issue_id.clone(),
            gate: gate.clone(),
            result: result.clone(),
        }),
        Event::Worked {
            action,
            activity_id,
            task_id,
            details,
            previous,
        } => json_bytes(&WorkRecord {
            action: *action,
            activity_id: activity_id.clone(),
            task_id: task_id.clone(),
            details: details.clone(),
            previous: *previous,
        }),
        Event::Unit { unit, .. } => json_bytes(unit),
        Event::Queued { ticket } => encode_ticket(ticket),
        Event::Unqueued { ticket_id } => json_bytes(&UnqueuedRecord {
            ticket_id: ticket_id.clone(),
        }),
        Event::Workflow { workflow, .. } => json_bytes(workflow),
        Event::Account { account, .. } => json_bytes(account),
        Event::Conflict { conflict, .. } => json_bytes(conflict),
        Event::SessionStarted { session } => json_bytes(session),
        Event::SessionEnded { session_id, status } => json_bytes(&SessionEndRecord {
            session_id: session_id.clone(),
            status: *status,
        }),
        Event::SessionsPruned { sessions } => json_bytes(&PrunedRecord {
            sessions: sessions.clone(),
        }),
        Event::Unknown { .. } => b"{}".to_vec(),
    }
}

fn segment_reason(reason: SegmentReason) -> &'static str {
    match reason {
        SegmentReason::Created => "created",
        SegmentReason::Size => "size",
        SegmentReason::Suspect => "suspect",
        SegmentReason::Recovered => "recovered",
    }
}

/// The operations on a lease: the last part of an event's type.
const LEASE_OPS: [&str; 7] = [
    "acquired",
    "renewed",
    "released",
    "auto_evicted",
    "force_evicted",
    "transferred",
    "restored",
];

fn parse<'a, T: Deserialize<'a>>(payload: &'a str) -> Result<T, String> {
    serde_json::from_str(payload).map_err(|e| e.to_string())
}

fn missing(kind: &str, field: &str) -> String {
    format!("{kind} without {field}")
}

/// The event of a type and its payload. A type that this program does not know is no error.
fn read_event(kind: &str, payload: &str) -> Result<Event, String> {
    let family = kind.split_once('.').map_or(kind, |(family, _)| family);
    let known = match family {
        "claim" | "lock" | "lead" => read_lease_event(kind, payload)?,
        "boot" | "log" => read_log_event(kind, payload)?,
        "issue" | "gate" => read_issue_event(kind, payload)?,
        "session" => read_session_event(kind, payload)?,
        "unit" | "workflow" | "account" | "conflict" | "work" => read_work_event(kind, payload)?,
        _ => None,
    };
    Ok(known.unwrap_or_else(|| Event::Unknown {
        kind: kind.to_owned(),
    }))
}

/// Claims, locks and leadership; and the queue for locks.
fn read_lease_event(kind: &str, payload: &str) -> Result<Option<Event>, String> {
    match kind {
        "lock.queued" => {
            let ticket = decode_ticket(payload.as_bytes())?;
            return Ok(Some(Event::Queued { ticket }));
        }
        "lock.unqueued" => {
            let UnqueuedRecord { ticket_id } = parse(payload)?;
            return Ok(Some(Event::Unqueued { ticket_id }));
        }
        _ => {}
    }
    let op = kind.split_once('.').map(|(_, op)| op);
    let Some(op) = op.filter(|op| LEASE_OPS.contains(op)) else {
        return Ok(None);
    };
    let mut record: LeaseRecord = parse(payload)?;
    let (by, reason) = (record.by.take(), record.reason.take());
    let (from_lease, from_agent) = (record.from_lease_id.take(), record.from_agent_id.take());
    let (regranted, brief) = (record.regranted, record.brief);
    let lease = record.lease()?;
    Ok(Some(match op {
        "acquired" => Event::Acquired { lease, regranted },
        "renewed" => Event::Renewed { lease },
        "released" => Event::Released {
            lease,
            by: by.ok_or_else(|| missing(kind, "by"))?,
            brief,
        },
        "auto_evicted" => Event::AutoEvicted { lease },
        "force_evicted" => Event::ForceEvicted {
            lease,
            by: by.ok_or_else(|| missing(kind, "by"))?,
            reason: reason.ok_or_else(|| missing(kind, "reason"))?,
        },
        "transferred" => Event::Transferred {
            lease,
            from_lease_id: from_lease.ok_or_else(|| missing(kind, "from_lease_id"))?,
            from_agent_id: from_agent.ok_or_else(|| missing(kind, "from_agent_id"))?,
        },
        _ => Event::Restored { lease },
    }))
}

/// Boots, segments and recoveries.
fn read_log_event(kind: &str, payload: &str) -> Result<Option<Event>, String> {
    Ok(Some(match kind {
        "boot" => {
            let record: BootRecord = parse(payload)?;
            Event::Boot {
                boot: record.boot_id,
                ticks: record.ticks,
            }
        }
        "log.segment" => {
            let record: SegmentRecord = parse(payload)?;
            let known = [
                SegmentReason::Created,
                SegmentReason::Size,
                SegmentReason::Suspect,
                SegmentReason::Recovered,
            ];
            match known.into_iter().find(|r| segment_reason(*r) == record.reason) {
                Some(reason) => Event::SegmentStarted { reason },
                None => Event::Unknown {
                    kind: format!("log.segment/{}", record.reason),
                },
            }
        }
        "log.recovered" => {
            let record: RecoveredRecord = parse(payload)?;
            Event::LogRecovered {
                lost: record.lost,
                backup: record.backup,
            }
        }
        _ => return Ok(None),
    }))
}

/// Issues, their comments and their gates.
fn read_issue_event(kind: &str, payload: &str) -> Result<Option<Event>, String> {
    Ok(Some(match kind {
        "issue.created" | "issue.changed" | "issue.deleted" | "issue.joined" | "issue.restored" => {
            let IssueRecord { issue, sheet, digest } = parse(payload)?;
            let did = match kind {
                "issue.created" => IssueAction::Created,
                "issue.changed" => IssueAction::Changed,
                "issue.deleted" => IssueAction::Deleted,
                "issue.joined" => IssueAction::Joined {
                    digest: digest.ok_or_else(|| missing(kind, "digest"))?,
                },
                _ => IssueAction::Restored,
            };
            Event::Issue { did, issue, sheet }
        }
        "issue.commented" => {
            let CommentRecord { issue_id, comment } = parse(payload)?;
            Event::Commented { issue_id, comment }
        }
        "gate.passed" | "gate.failed" => {
            let GateRecord {
                issue_id,
                gate,
                result,
            } = parse(payload)?;
            Event::GateJudged {
                issue_id,
                gate,
                result,
            }
        }
        _ => return Ok(None),
    }))
}

fn read_session_event(kind: &str, payload: &str) -> Result<Option<Event>, String> {
    Ok(Some(match kind {
        "session.started" => Event::SessionStarted {
            session: parse(payload)?,
        },
        "session.ended" => {
            let SessionEndRecord { session_id, status } = parse(payload)?;
            Event::SessionEnded { session_id, status }
        }
        "session.pruned" => {
            let PrunedRecord { sessions } = parse(payload)?;
            Event::SessionsPruned { sessions }
        }
        _ => return Ok(None),
    }))
}

/// Units, workflows, accounts, conflicts and the changelog.
fn read_work_event(kind: &str, payload: &str) -> Result<Option<Event>, String> {
    let workflow = |did| -> Result<Event, String> {
        Ok(Event::Workflow {
            did,
            workflow: parse(payload)?,
        })
    };
    let account = |did| -> Result<Event, String> {
        Ok(Event::Account {
            did,
            account: parse(payload)?,
        })
    };
    let conflict = |did| -> Result<Event, String> {
        Ok(Event::Conflict {
            did,
            conflict: parse(payload)?,
        })
    };
    Ok(Some(match kind {
        "workflow.started" => workflow(WorkflowAction::Started)?,
        "workflow.cancelling" => workflow(WorkflowAction::Cancelling)?,
        "workflow.ended" => workflow(WorkflowAction::Ended)?,
        "workflow.reopened" => workflow(WorkflowAction::Reopened)?,
        "account.parked" => account(AccountAction::Parked)?,
        "account.unparked" => account(AccountAction::Unparked)?,
        "conflict.found" => conflict(ConflictAction::Found)?,
        "conflict.gone" => conflict(ConflictAction::Gone)?,
        _ => {
            if let Some(input) = UnitInput::ALL.iter().find(|input| unit_kind(**input) == kind) {
                let unit = parse(payload)?;
                return Ok(Some(Event::Unit { input: *input, unit }));
            }
            if !ChangelogAction::ALL.iter().any(|action| action.kind() == kind) {
                return Ok(None);
            }
            let WorkRecord {
                action,
                activity_id,
                task_id,
                details,
                previous,
            } = parse(payload)?;
            Event::Worked {
                action,
                activity_id,
                task_id,
                details,
                previous,
            }
        }
    }))
}

/// Appends the line for `stamped` to `out` and returns its checksum, the `prev` of the next line.
pub fn encode_line(out: &mut Vec<u8>, stamped: &Stamped, durable: u64, prev: u64) -> u64 {
    let start = out.len();
    encode_fields(out, stamped);
    out.extend_from_slice(format!(r#","durable":{durable},"prev":"{prev:016x}""#).as_bytes());
    let sum = xxh3_64(&out[start..]);
    out.extend_from_slice(format!(",\"sum\":\"{sum:016x}\"}}\n").as_bytes());
    sum
}

/// Returns the unified event: a line without `durable`, `prev` and `sum`, which only the log needs.
pub fn encode_event(stamped: &Stamped) -> Vec<u8> {
    let mut out = Vec::new();
    encode_fields(&mut out, stamped);
    out.push(b'}');
    out
}

/// Appends a line up to the fields that depend on other lines. The object stays open.
fn encode_fields(out: &mut Vec<u8>, stamped: &Stamped) {
    let text = |v: &str| serde_json::to_string(v).unwrap_or_default();
    out.extend_from_slice(
        format!(
            r#"{{"schema_version":{SCHEMA_VERSION},"sequence":{},"type":{},"timestamp":"{}","actor":"#,
            stamped.sequence,
            text(stamped.event.kind()),
            stamped.at,
        )
        .as_bytes(),
    );
    out.extend_from_slice(&json_bytes(&stamped.actor));
    out.extend_from_slice(b",\"payload\":");
    out.extend_from_slice(&payload(&stamped.event));
    out.extend_from_slice(format!(",\"tx\":[{},{}]", stamped.part.0, stamped.part.1).as_bytes());
    if let Some(request) = &stamped.request {
        out.extend_from_slice(
            format!(
                r#","request":{{"id":{},"digest":"{:016x}"}}"#,
                text(request.id.as_str()),
                request.digest
            )
            .as_bytes(),
        );
    }
}

/// A line that passed its own checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    pub stamped: Stamped,
    pub durable: u64,
    pub prev: u64,
    pub sum: u64,
}

impl LogLine {
    /// Whether the log may begin with this line: nothing comes before it.
    pub fn begins_log(&self) -> bool {
        matches!(
            self.stamped.event,
            Event::SegmentStarted {
                reason: SegmentReason::Created | SegmentReason::Recovered
            }
        )
    }
}

/// The checksum at the end of a line (with or without its newline), unverified.
pub fn trailing_sum(line: &[u8]) -> Option<u64> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let tail = line.len().checked_sub(SUM_LEN).map(|at| &line[at..])?;
    let hex = tail.strip_prefix(b",\"sum\":\"")?.strip_suffix(b"\"}")?;
    parse_hex(std::str::from_utf8(hex).ok()?)
}

fn parse_hex(text: &str) -> Option<u64> {
    let canonical = text.len() == 16
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    canonical.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

/// Reads one line without its newline. The error says what is wrong with it.
pub fn decode_line(line: &[u8]) -> Result<LogLine, String> {
    let sum = trailing_sum(line).ok_or("it does not end in a checksum")?;
    if xxh3_64(&line[..line.len() - SUM_LEN]) != sum {
        return Err("its checksum does not match".into());
    }
    let record: LineRecord<'_> = serde_json::from_slice(line).map_err(|e| e.to_string())?;
    let durable = record.durable.ok_or("missing field `durable`")?;
    let prev = record.prev.as_deref().and_then(parse_hex).ok_or("bad prev")?;
    Ok(LogLine {
        stamped: stamped(record)?,
        durable,
        prev,
        sum,
    })
}

/// Reads a unified event, as `encode_event` writes it.
pub fn decode_event(event: &[u8]) -> Result<Stamped, String> {
    stamped(serde_json::from_slice(event).map_err(|e| e.to_string())?)
}

fn stamped(record: LineRecord<'_>) -> Result<Stamped, String> {
    let event = if record.schema_version == SCHEMA_VERSION {
        read_event(&record.kind, record.payload.get())?
    } else {
        Event::Unknown {
            kind: format!("{} (schema {})", record.kind, record.schema_version),
        }
    };
    let request = record
        .request
        .map(|r| {
            parse_hex(&r.digest)
                .map(|digest| LoggedRequest { id: r.id, digest })
                .ok_or("bad request digest")
        })
        .transpose()?;
    Ok(Stamped {
        sequence: record.sequence,
        at: record.timestamp,
        actor: record.actor,
        request,
        part: record.tx,
        event,
    })
}
