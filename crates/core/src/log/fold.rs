//! The fold: what each event changes in the state.

use crate::issue_files::format;
use crate::issue_files::stamps::Sheet;
use crate::log::event::{Event, IssueAction, LoggedRequest, Stamped};
use crate::log::records::{decode_ticket, encode_lease, encode_ticket};
use crate::log::state::{
    Anchor, Answered, BROUGHT_IN, Costs, EndedRecord, Judged, account, active_count, costs_on, day_key,
    ended, gate_key, issue_at, lease_on, leases, load, session, unit, wrote_file,
};
use crate::log::table::{Overlay, Read, Table};
use crate::log::{packed_issue, ready_index};
use crate::model::conflict::{self, Conflict};
use crate::model::cost::{Tokens, Usd};
use crate::model::issue::{Issue, text_digest};
use crate::model::json::json_bytes;
use crate::model::lease::{self, Lease, LeaseEnd, Resource};
use crate::model::time::{BootId, Wall};
use crate::model::unit::{Unit, UnitInput};

/// A unit's costs add up over its life: what is more than before belongs to this day.
fn count_costs(table: &mut Overlay<'_>, now: &Unit, at: Wall) -> Read<()> {
    let before = unit(table, &now.id)?.filter(|before| before.created_at == now.created_at);
    let (usd, tokens) = before.map_or_else(Default::default, |unit| (unit.cost_usd, unit.tokens));
    let more = Costs {
        usd: Usd(now
            .cost_usd
            .unwrap_or_default()
            .0
            .saturating_sub(usd.unwrap_or_default().0)),
        tokens: Tokens {
            input: now.tokens.input.saturating_sub(tokens.input),
            output: now.tokens.output.saturating_sub(tokens.output),
        },
    };
    if more != Costs::default() {
        let mut all = costs_on(table, at)?;
        all.usd = Usd(all.usd.0.saturating_add(more.usd.0));
        all.tokens = all.tokens.plus(more.tokens);
        table.put(day_key(at), json_bytes(&all));
    }
    Ok(())
}

/// A start on an account that is known: the next one keeps its distance.
fn note_start(table: &mut Overlay<'_>, now: &Unit, at: Wall) -> Read<()> {
    if let Some(id) = &now.account
        && let Some(mut known) = account(table, id)?
    {
        known.last_start = Some(at);
        table.put(format!("A/{id}"), json_bytes(&known));
    }
    Ok(())
}

fn put_lease(table: &mut Overlay<'_>, lease: &Lease) {
    let resource = lease.resource.key();
    let value = resource.clone().into_bytes();
    let id = &lease.lease_id;
    table.put(format!("l/{id}"), value.clone());
    table.put(format!("h/{}/{id}", lease.agent_id.file_name()), value.clone());
    table.put(format!("d/{:016x}/{id}", lease.deadline), value.clone());
    if let Some(parent) = &lease.parent {
        table.put(format!("c/{parent}/{id}"), value);
    }
    if lease::is_from_file(lease) {
        table.put(format!("f/{id}"), resource.clone().into_bytes());
    }
    table.put(format!("L/{resource}"), encode_lease(lease));
}

fn drop_lease(table: &mut Overlay<'_>, lease: &Lease) {
    let id = &lease.lease_id;
    table.remove(format!("h/{}/{id}", lease.agent_id.file_name()));
    table.remove(format!("d/{:016x}/{id}", lease.deadline));
    if let Some(parent) = &lease.parent {
        table.remove(format!("c/{parent}/{id}"));
    }
    if lease::is_from_file(lease) {
        table.remove(format!("f/{id}"));
    }
    table.remove(format!("L/{}", lease.resource.key()));
}

/// Counts claims: the index lists no other leases.
fn count(table: &mut Overlay<'_>, resource: &Resource, change: i64) -> Read<()> {
    if resource.issue().is_none() {
        return Ok(());
    }
    let active = active_count(table)?.saturating_add_signed(change);
    table.put("m/active".into(), json_bytes(&active));
    Ok(())
}

fn grant(table: &mut Overlay<'_>, lease: &Lease) -> Read<()> {
    if let Some(old) = lease_on(table, &lease.resource.key())? {
        drop_lease(table, &old);
        if old.lease_id != lease.lease_id {
            table.remove(format!("l/{}", old.lease_id));
        }
    } else {
        count(table, &lease.resource, 1)?;
    }
    put_lease(table, lease);
    ready_index::taken(table, &lease.resource)
}

fn end(table: &mut Overlay<'_>, resource: &Resource, how: LeaseEnd, at: Wall) -> Read<()> {
    let key = resource.key();
    let Some(lease) = lease_on(table, &key)? else {
        return Ok(());
    };
    drop_lease(table, &lease);
    count(table, resource, -1)?;
    if resource.file().is_some() {
        // The end of a file lock is never asked for, and the state must not grow with every file that was ever locked.
        table.remove(format!("l/{}", lease.lease_id));
        return Ok(());
    }
    if let Some(before) = ended(table, &key)?
        && before.lease.lease_id != lease.lease_id
    {
        table.remove(format!("l/{}", before.lease.lease_id));
    }
    let mut record = json_bytes(&EndedRecord { how, at });
    record.push(b'\n');
    record.extend_from_slice(&encode_lease(&lease));
    table.put(format!("E/{key}"), record);
    ready_index::returned(table, resource)
}

/// An issue as it is now; one with `deleted` in its sheet is kept apart, as a tombstone.
fn put_issue(table: &mut Overlay<'_>, issue: &Issue, sheet: &Sheet, did: &IssueAction) -> Read<()> {
    let key = issue.id.key();
    let old = issue_at(table, &key)?;
    let (put, gone) = if sheet.deleted { ("t", "i") } else { ("i", "t") };
    table.put(format!("{put}/{key}"), packed_issue::encode(issue));
    table.remove(format!("{gone}/{key}"));
    table.put(format!("s/{key}"), json_bytes(sheet));
    let written = text_digest(&format::issue_json(issue, sheet));
    if let IssueAction::Joined { digest } = did
        && !wrote_file(table, &issue.id, digest)?
    {
        table.put(format!("w/{key}/{digest}"), BROUGHT_IN.to_vec());
    }
    table.put(format!("w/{key}/{written}"), Vec::new());
    let new = (!sheet.deleted).then_some(issue);
    ready_index::moved(table, &key, old.as_ref(), new)
}

/// The deadline a lease gets when the machine was started anew at `ticks` = `wall`: what its expiry time leaves,
/// never more than its whole TTL, so a wall clock that was set back cannot lengthen it by more than that.
pub fn reanchored(lease: &Lease, ticks: u64, wall: Wall) -> u64 {
    let left = u64::try_from(lease.expires_at.ms().saturating_sub(wall.ms())).unwrap_or(0);
    ticks.saturating_add(left.min(lease.ttl_secs.saturating_mul(1000)))
}

/// Brings deadlines to `ticks` of another boot, as the `boot` event at `wall` does.
pub fn reanchor(table: &mut Overlay<'_>, boot: &BootId, ticks: u64, wall: Wall) -> Read<()> {
    for mut lease in leases(table)? {
        drop_lease(table, &lease);
        let old = lease.deadline;
        lease.deadline = reanchored(&lease, ticks, wall);
        if let Resource::File(file) = &mut lease.resource {
            // As much beyond the deadline as before.
            file.latest = lease.deadline.saturating_add(file.latest.saturating_sub(old));
        }
        put_lease(table, &lease);
    }
    // Processes that waited ended with the last boot.
    for (key, _) in table.scan("W/", usize::MAX)? {
        table.remove(key);
    }
    table.put(
        "m/boot".into(),
        json_bytes(&Anchor {
            boot_id: boot.clone(),
            ticks,
        }),
    );
    Ok(())
}

/// Applies one event. An event in the log has happened, so this never refuses.
pub fn apply(table: &mut Overlay<'_>, stamped: &Stamped) -> Read<()> {
    match &stamped.event {
        Event::Acquired { lease, .. } | Event::Renewed { lease } | Event::Restored { lease } => {
            grant(table, lease)?;
        }
        Event::Released {
            lease, brief: true, ..
        } => {
            // The one before it is still the last that worked on it.
            if let Some(lease) = lease_on(table, &lease.resource.key())? {
                drop_lease(table, &lease);
                count(table, &lease.resource, -1)?;
                table.remove(format!("l/{}", lease.lease_id));
                ready_index::returned(table, &lease.resource)?;
            }
        }
        Event::Released { lease, .. } => end(table, &lease.resource, LeaseEnd::Released, stamped.at)?,
        Event::AutoEvicted { lease } => end(table, &lease.resource, LeaseEnd::Expired, stamped.at)?,
        Event::ForceEvicted { lease, .. } => end(table, &lease.resource, LeaseEnd::Evicted, stamped.at)?,
        Event::Transferred { lease, .. } => {
            end(table, &lease.resource, LeaseEnd::Transferred, stamped.at)?;
            grant(table, lease)?;
        }
        Event::Boot { boot, ticks } => reanchor(table, boot, *ticks, stamped.at)?,
        Event::SegmentStarted { .. } => {}
        Event::LogRecovered { .. } => {
            for (key, _) in table.scan("", usize::MAX)? {
                table.remove(key);
            }
        }
        Event::Issue { did, issue, sheet } => put_issue(table, issue, sheet, did)?,
        Event::Commented { issue_id, comment } => {
            table.put(
                format!("k/{}/{}", issue_id.key(), comment.id),
                json_bytes(comment),
            );
        }
        Event::GateJudged {
            issue_id,
            gate,
            result,
        } => {
            let judged = Judged {
                gate: gate.clone(),
                result: result.clone(),
            };
            table.put(gate_key(issue_id, gate), json_bytes(&judged));
        }
        Event::Queued { ticket } => {
            table.put(format!("W/{:016x}", stamped.sequence), encode_ticket(ticket));
        }
        Event::Unqueued { ticket_id } => {
            for (key, value) in table.scan("W/", usize::MAX)? {
                if decode_ticket(&value).is_ok_and(|ticket| ticket.ticket_id == *ticket_id) {
                    table.remove(key);
                }
            }
        }
        Event::Unit { input, unit } => {
            count_costs(table, unit, stamped.at)?;
            if *input == UnitInput::DispatchInstance {
                note_start(table, unit, stamped.at)?;
            }
            table.put(format!("U/{}", unit.id), json_bytes(unit));
        }
        Event::Workflow { workflow, .. } => table.put(format!("F/{}", workflow.id), json_bytes(workflow)),
        Event::Account { account, .. } => table.put(format!("A/{}", account.id), json_bytes(account)),
        Event::Conflict { did, conflict } => match did {
            conflict::ConflictAction::Found => {
                let told = Conflict {
                    told_at: Some(stamped.at),
                    ..(**conflict).clone()
                };
                table.put(conflict.key(), json_bytes(&told));
            }
            conflict::ConflictAction::Gone => table.remove(conflict.key()),
        },
        Event::SessionStarted { session } => {
            table.put(format!("S/{}", session.session_id), json_bytes(session));
        }
        Event::SessionEnded { session_id, status } => {
            if let Some(mut session) = session(table, session_id)? {
                session.status = *status;
                session.ended_at = Some(stamped.at);
                table.put(format!("S/{session_id}"), json_bytes(&session));
            }
        }
        Event::SessionsPruned { sessions } => {
            for id in sessions {
                table.remove(format!("S/{id}"));
            }
        }
        Event::Worked { .. } => table.put("m/worked".into(), json_bytes(&stamped.sequence)),
        Event::Unknown { kind } => table.put("m/newer".into(), json_bytes(kind)),
    }
    remember(table, stamped)
}

/// Notes which lines answer a request, so that its repetition finds them.
pub fn remember(table: &mut Overlay<'_>, stamped: &Stamped) -> Read<()> {
    if let Some(LoggedRequest { id, digest }) = &stamped.request
        && !id.is_made_up()
    {
        let key = format!("q/{id}");
        let first = load::<Answered>(table, &key)?
            .filter(|a| stamped.part.0 > 1 && a.digest == *digest)
            .map_or(stamped.sequence, |a| a.first);
        let answered = Answered {
            digest: *digest,
            first,
            last: stamped.sequence,
            at: stamped.at,
        };
        table.put(key, json_bytes(&answered));
    }
    Ok(())
}
