//! Claims and releases issues.
//!
//! The answer to a claim contains the whole issue. The server renews the lease; claiming again with a `ttl` changes its
//! duration. A release may leave a note for the next agent: a comment that begins with `Handoff:`.

use jit_core::decide::command::Target;
use jit_core::model::refusal::{Code, Refusal};
use jit_core::query::claim_views::LeaseView;
use jit_engine::api::Reply;
use jit_engine::api::claims::ClaimReply;
use jit_engine::api::claims::ClaimRequest;
use jit_engine::api::claims::Released;
use jit_engine::api::issues::IssueReply;
use jit_engine::api::issues::IssueRequest;
use jit_store::Outcome;
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Length, Named, Tool, ToolCall, invalid, issues, read, seconds, unexpected};

pub static CLAIM: Tool = Tool {
    name: "claim",
    about: "Take an issue by id, or \"next\" for the best ready one, and read it. Kept while connected; again with ttl \
        to change how long.",
    takes: r#"{"issue":{"type":"string"},"ttl":{"type":"string","description":"such as 30m"},"label":{"type":"string","description":"with next"},"type":{"type":"string","description":"with next"}}"#,
    needs: &["issue"],
    run: claim,
};

pub static RELEASE: Tool = Tool {
    name: "release",
    about: "Give an issue back, with a handoff note for whoever goes on.",
    takes: r#"{"issue":{"type":"string"},"note":{"type":"string"}}"#,
    needs: &["issue"],
    run: release,
};

/// The argument of `claim` for the best ready issue.
const NEXT: &str = "next";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimArgs {
    issue: String,
    ttl: Option<Length>,
    label: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

fn claim(call: &mut ToolCall<'_>, given: JsonObject) -> Outcome<Value> {
    let asked: ClaimArgs = read(given)?;
    let ttl_secs = seconds(asked.ttl)?;
    let request = if asked.issue == NEXT {
        ClaimRequest::Next {
            label: asked.label,
            kind: asked.kind,
            ttl_secs,
            wait_secs: None,
        }
    } else {
        ClaimRequest::Acquire {
            issue: asked.issue.parse().map_err(invalid)?,
            ttl_secs,
            wait_secs: None,
            note: None,
            on_behalf_of: None,
        }
    };
    let mut lease = match call.ask(request)? {
        Reply::Claims(ClaimReply::Lease(lease)) => lease,
        Reply::Claims(ClaimReply::Picked(picked)) => picked.lease,
        other => return Err(unexpected(&other)),
    };
    call.keeper.begin(&lease);
    if lease.existing && ttl_secs.is_some() {
        let target = Target::Lease(lease.lease_id.clone());
        lease = match call.ask(ClaimRequest::Renew { target, ttl_secs })? {
            Reply::Claims(ClaimReply::Lease(lease)) => lease,
            other => return Err(unexpected(&other)),
        };
        call.keeper.begin(&lease);
    }
    let Some(id) = &lease.issue_id else {
        return Ok(json!({ "claim": claimed(&lease) }));
    };
    let issue = id.as_str().parse().map_err(invalid)?;
    // The claim stands, even if the issue cannot be shown.
    let mut told = match call.ask(IssueRequest::Show { issue }) {
        Ok(Reply::Issues(IssueReply::Issue(issue))) => issues::whole(&issue),
        Ok(_) => json!({ "id": id }),
        Err(refusal) => {
            call.warnings.push(refusal.message);
            json!({ "id": id })
        }
    };
    told["claim"] = claimed(&lease);
    Ok(told)
}

fn claimed(lease: &LeaseView) -> Value {
    json!({
        "lease_id": lease.lease_id,
        "agent_id": lease.agent_id,
        "token": lease.token,
        "expires_at": lease.expires_at,
        "existing": lease.existing,
    })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReleaseArgs {
    issue: Named,
    note: Option<String>,
}

fn release(call: &mut ToolCall<'_>, given: JsonObject) -> Outcome<Value> {
    let ReleaseArgs {
        issue: Named(issue),
        note,
    } = read(given)?;
    let note = note.filter(|note| !note.trim().is_empty());
    if let Some(note) = &note {
        // Before the release, so that the next holder always finds the note; and only by the present holder.
        let shown = match call.ask(IssueRequest::Show { issue: issue.clone() })? {
            Reply::Issues(IssueReply::Issue(shown)) => shown,
            other => return Err(unexpected(&other)),
        };
        let own = match shown.lease {
            Some(lease) if call.is_mine(&lease)? => Some(lease),
            _ => None,
        };
        let Some(lease) = own else {
            let message = format!(
                "you do not hold {}, so there is nothing to hand off",
                shown.issue.id
            );
            return Err(Box::new(
                Refusal::new(Code::NotHolder, message).help("jit claim list"),
            ));
        };
        let text = format!("Handoff: {note}");
        let issue = shown.issue.id.as_str().parse().map_err(invalid)?;
        call.ask(IssueRequest::Comment { issue, text })?;
        return given_back(call, Target::Lease(lease.lease_id), true);
    }
    given_back(call, Target::Issue(issue), false)
}

fn given_back(call: &mut ToolCall<'_>, target: Target, noted: bool) -> Outcome<Value> {
    let released = match call.ask(ClaimRequest::Release { target })? {
        Reply::Claims(ClaimReply::Released(Released { released })) => released,
        other => return Err(unexpected(&other)),
    };
    let ids: Vec<_> = released.into_iter().filter_map(|lease| lease.issue_id).collect();
    for id in &ids {
        call.keeper.end(id);
    }
    Ok(json!({ "released": ids, "noted": noted }))
}
