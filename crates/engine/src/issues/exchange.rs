//! Imports issues from other programs, and exports ours.
//!
//! An import only creates missing issues and changes none. So it can be repeated, even after an interrupted one.

use crate::api::issues::Exported;
use crate::api::issues::IssueReply;
use std::collections::HashSet;

use jit_core::decide::command::{Command, CommandReply as Decided};
use jit_core::exchange::{self, Errand, ImportPlan, ImportedIssue, Parsed, Skipped};
use jit_core::log::state;
use jit_core::model::ids::{IssueId, RequestId};
use jit_core::model::issue::text_digest;
use jit_core::model::policy::Policy;
use jit_core::model::refusal::Code;
use jit_os::io_refusal;
use jit_store::{Done, Outcome, View};

use crate::api::issues::{Import, Imported, Tracker};
use crate::api::{Answer, Reply};
use crate::context::Context;
use crate::import_files::{Files, file, folder};
use crate::issues::sync::notice_tree;
use crate::refusals::refuse;
use crate::write_path::WriteOptions;

/// One append imports at most this many issues, and about this many bytes.
const AT_ONCE: usize = 200;
const BYTES_AT_ONCE: usize = 32 << 20;
/// At most this many warnings are printed; further ones are counted. The answer has them all.
const MAX_WARNINGS: usize = 100;

/// Reads the files of another tracker.
fn parsed(import: &Import) -> Outcome<Parsed> {
    match import.from {
        Tracker::Beads => file(&import.file).map(|bytes| exchange::beads(&bytes)),
        Tracker::Github => file(&import.file).map(|bytes| exchange::github(&bytes)),
        Tracker::Jsonl => file(&import.file).map(|bytes| exchange::jsonl(&bytes)),
        Tracker::Backlog => {
            let Files { files, left_out } = folder(&import.file)?;
            let files = files
                .iter()
                .map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
            let mut parsed = exchange::backlog(files);
            for file in left_out {
                let what = "it is no task, and not in a folder of tasks";
                parsed.problem(Some(file), 0, what);
            }
            Ok(parsed)
        }
    }
}

pub(crate) fn import(cx: &Context, import: &Import) -> Outcome<Answer> {
    let parsed = parsed(import)?;
    let view = crate::write_path::view(cx)?;
    let policy = match crate::context::calling_agent::asking_agent(cx) {
        Some(_) => Policy {
            agent_asks: true,
            ..crate::gates::committed_policy::policy_with_gates(cx, true)?
        },
        None => cx.policy.clone(),
    };
    let errand = Errand {
        source: import.from.as_str(),
        by: &cx.actor.agent_id,
        policy: &policy,
        now: view.now.wall,
    };
    let plan = exchange::plan(&parsed, errand, &*view.table).map_err(|e| refuse(Code::Io, e))?;
    let ImportPlan {
        names,
        brought,
        mut skipped,
        problems,
        warnings,
    } = plan;
    let planned: HashSet<String> = brought.iter().map(|one| one.found.issue.id.key()).collect();
    let mut made = planned.clone();
    let mut said = warnings;
    if !import.dry_run {
        made = HashSet::new();
        let mut batch = 0;
        // The result of earlier batches under the same request, complete or not.
        while let Some(ids) = brought_before(cx, batch)? {
            made.extend(ids);
            batch += 1;
        }
        let mut left = brought.into_iter().peekable();
        while left.peek().is_some() {
            let (ids, notices) = bring(cx, batch, &mut left)?;
            // Only a batch that created an issue is recorded under its request id.
            batch += usize::from(!ids.is_empty());
            made.extend(ids);
            said.extend(notices);
        }
        // The files were written just now. Otherwise the next command would read them all.
        said.extend(notice_tree(cx));
    }
    let (imported, others): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|(_, id)| made.contains(&id.key()));
    let keys: HashSet<&str> = imported.iter().map(|(key, _)| key.as_str()).collect();
    skipped.retain(|one| !keys.contains(one.key.as_str()));
    // These issues were created after the plan was made.
    let late = others.iter().filter(|(_, id)| planned.contains(&id.key()));
    skipped.extend(late.map(|(key, id)| Skipped::known(key, id)));
    let imported = imported.into_iter().map(|(_, id)| id).collect();
    let reply = Reply::Issues(IssueReply::Imported(Imported {
        imported,
        skipped,
        problems,
        warnings: said.clone(),
        dry_run: import.dry_run,
    }));
    let mut answer = crate::write_path::read_answer(cx, &view, reply)?;
    answer.warnings.extend(few(said));
    Ok(answer)
}

/// Returns the request id of one append of an import.
fn request_of(cx: &Context, batch: usize) -> Outcome<Option<RequestId>> {
    let Some(request) = &cx.request else {
        return Ok(None);
    };
    let name = text_digest(format!("{request}\0{batch}").as_bytes());
    let request = format!("import-{name}").parse();
    request.map(Some).map_err(|e| refuse(Code::Invalid, e))
}

/// Returns the issues that an earlier append under this request id created.
fn brought_before(cx: &Context, batch: usize) -> Outcome<Option<Vec<String>>> {
    let Some(request) = request_of(cx, batch)? else {
        return Ok(None);
    };
    let nothing = Command::JoinIssues(Vec::new());
    let done = crate::write_path::transact_as(cx, Some(&request), &nothing, WriteOptions::default())?;
    Ok(done.repeated.then(|| made(&done)))
}

/// Makes one append. Returns the issues it created, and the notices.
fn bring(
    cx: &Context,
    batch: usize,
    left: &mut std::iter::Peekable<std::vec::IntoIter<ImportedIssue>>,
) -> Outcome<(Vec<String>, Vec<String>)> {
    let (mut found, mut texts, mut bytes) = (Vec::new(), Vec::new(), 0);
    while let Some(one) = left.next_if(|_| found.len() < AT_ONCE && bytes < BYTES_AT_ONCE) {
        let said = one.found.comments.iter().map(|comment| comment.text.len());
        bytes += one.text.as_ref().map_or(0, Vec::len) + said.sum::<usize>();
        texts.extend(one.text);
        found.push(one.found);
    }
    let options = WriteOptions {
        texts: &texts,
        ..WriteOptions::default()
    };
    let request = request_of(cx, batch)?;
    let done = crate::write_path::transact_as(cx, request.as_ref(), &Command::JoinIssues(found), options)?;
    Ok((made(&done), done.notices))
}

pub(crate) fn export(cx: &Context) -> Outcome<Answer> {
    let view = crate::write_path::view(cx)?;
    let (issues, lines, lost) = exported(cx, &view)?;
    let mut answer = crate::write_path::read_answer(
        cx,
        &view,
        Reply::Issues(IssueReply::Exported(Exported { issues, lines })),
    )?;
    answer.warnings.extend(lost);
    Ok(answer)
}

/// Returns every issue, open and closed, one line each, by id; and the descriptions that could not be found.
pub(crate) fn exported(cx: &Context, view: &View) -> Outcome<(usize, String, Vec<String>)> {
    let unreadable = |e| refuse(Code::Io, e);
    let mut leases = std::collections::HashMap::new();
    for lease in state::leases(&*view.table).map_err(unreadable)? {
        if let Some(id) = lease.resource.issue().filter(|_| !lease.expired(&view.now)) {
            leases.insert(id.key(), lease.agent_id.clone());
        }
    }
    let mut issues = state::issues(&*view.table).map_err(unreadable)?;
    issues.sort_by_key(|issue| issue.id.key());
    let (mut all, mut lost) = (Vec::with_capacity(issues.len()), Vec::new());
    for mut issue in issues {
        let text = match &issue.text {
            None => None,
            Some(digest) => {
                let found = crate::write_path::text_of(cx, &issue.id, digest);
                let found = found.map_err(|e| io_refusal("read", &cx.texts.folder(&issue.id), &e))?;
                if found.is_none() {
                    lost.push(format!(
                        "the description of {} is missing from the control plane and was not exported",
                        issue.id
                    ));
                }
                found.map(|text| String::from_utf8_lossy(&text).into_owned())
            }
        };
        let comments = state::comments(&*view.table, &issue.id).map_err(unreadable)?;
        let mut waits_for = Vec::with_capacity(issue.depends_on.len());
        for id in std::mem::take(&mut issue.depends_on) {
            // A deleted issue blocks no other issue.
            if !state::was_deleted(&*view.table, &id.key()).map_err(unreadable)? {
                waits_for.push(id);
            }
        }
        issue.depends_on = waits_for;
        let sheet = state::sheet(&*view.table, &issue.id).map_err(unreadable)?;
        all.push(exchange::exported(
            &issue,
            &sheet,
            text,
            &comments,
            leases.get(&issue.id.key()),
        ));
    }
    let lines = exchange::export(&all).map_err(|e| refuse(Code::Io, e))?;
    Ok((all.len(), lines, lost))
}

/// Returns the keys of the issues that an append created.
fn made(done: &Done) -> Vec<String> {
    match &done.reply {
        Decided::Joined(ids) => ids.iter().map(IssueId::key).collect(),
        _ => Vec::new(),
    }
}

fn few(mut warnings: Vec<String>) -> Vec<String> {
    let many = warnings.len();
    if many > MAX_WARNINGS {
        warnings.truncate(MAX_WARNINGS);
        warnings.push(format!("and {} more like these", many - MAX_WARNINGS));
    }
    warnings
}
