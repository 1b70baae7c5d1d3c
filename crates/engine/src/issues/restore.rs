//! Restores a deleted issue, also if git brought the deletion.
//!
//! A deletion removes all files of an issue except one. A clone that learns of the issue and of its deletion at once
//! never saw the other files. They are read from the commit before the one that removed them.

use crate::api::issues::IssueReply;
use std::time::Duration;

use jit_core::decide::command::Command;
use jit_core::issue_files::format::{
    COMMENTS, DEPS, DESCRIPTION, FoundIssue, ISSUE, IssueFolder, LABELS, MAX_FILE,
};
use jit_core::log::state;
use jit_core::model::ids::IssueId;
use jit_core::model::issue::text_digest;
use jit_core::model::refusal::Code;
use jit_os::file;
use jit_store::Outcome;

use crate::api::{Answer, Reply};
use crate::context::Context;
use crate::issues::tree;
use crate::refusals::refuse;
use crate::write_path::WriteOptions;

pub(crate) fn restore_issue(cx: &Context, issue: IssueId) -> Outcome<Answer> {
    let had_text = had_text(cx, &issue)?;
    let said = know_what_was_removed(cx, &issue)?;
    let mut answer = crate::write_path::carry_out(cx, &Command::RestoreIssue { issue })?;
    if let Reply::Issues(IssueReply::Issue(shown)) = &answer.reply
        && had_text
        && shown.description.is_none()
        && said.is_none()
    {
        let id = &shown.issue.id;
        answer.warnings.push(format!(
            "{id} had a description, which is neither here nor in git's history, and is not back: it may be where {id} was deleted"
        ));
    }
    answer.warnings.extend(said);
    Ok(answer)
}

/// Returns whether a deleted issue had a description, as far as the log or the rest of the tree shows.
fn had_text(cx: &Context, id: &IssueId) -> Outcome<bool> {
    let view = crate::write_path::view(cx)?;
    let Some(old) = state::deleted(&*view.table, id).map_err(|e| refuse(Code::Io, e))? else {
        return Ok(false);
    };
    let Some(issues) = cx.place.local_jit.as_deref().and_then(tree::issues_dir) else {
        return Ok(old.text.is_some());
    };
    let path = issues.join(old.id.as_str()).join(ISSUE);
    let folder = IssueFolder {
        issue: file::read_real(&path, MAX_FILE)
            .ok()
            .flatten()
            .unwrap_or_default(),
        ..IssueFolder::default()
    };
    let left = tree::read(&issues, &old.id, &folder);
    Ok(old.text.is_some() || left.is_ok_and(|left| left.text_before.is_some()))
}

/// Imports the content that git still has of a deleted issue. Returns a warning about content that may be missing.
fn know_what_was_removed(cx: &Context, id: &IssueId) -> Outcome<Option<String>> {
    let unreadable = |e| refuse(Code::Io, e);
    let view = crate::write_path::view(cx)?;
    let Some(issues) = cx.place.local_jit.as_deref().and_then(tree::issues_dir) else {
        return Ok(None);
    };
    let Some(old) = state::deleted(&*view.table, id).map_err(unreadable)? else {
        return Ok(None);
    };
    let sheet = state::sheet(&*view.table, id).map_err(unreadable)?;
    let git = || cx.git_at(&issues);
    let files = [DESCRIPTION, LABELS, DEPS, COMMENTS];
    let commit = git()
        .args([
            "log",
            "-1",
            "--format=%H",
            "--full-history",
            "--no-renames",
            "--diff-filter=D",
        ])
        .args(["HEAD", "--"])
        .args(files.map(|name| format!("{}/{name}", old.id)))
        .line()
        .unwrap_or_default();
    if commit.is_empty() {
        let knows_nothing = sheet.labels.is_empty() && sheet.deps.is_empty() && old.text.is_none();
        let is_shallow = git().args(["rev-parse", "--is-shallow-repository"]).line();
        return Ok((knows_nothing && is_shallow.is_ok_and(|yes| yes == "true")).then(|| {
            format!(
                "this clone has not all of the history: {id} may have had a description, labels, dependencies or \
                 comments, which are not back; git fetch --unshallow, then jit issue delete {id} and jit issue restore {id}"
            )
        }));
    }
    let content = |name: &str| -> Option<Vec<u8>> {
        let name = format!("{commit}^:./{}/{name}", old.id);
        let bytes = git().args(["cat-file", "blob", &name]).run().ok()?;
        u64::try_from(bytes.len())
            .is_ok_and(|len| len <= MAX_FILE)
            .then_some(bytes)
    };
    let folder = IssueFolder {
        issue: content(ISSUE).unwrap_or_default(),
        description: content(DESCRIPTION).filter(|text| std::str::from_utf8(text).is_ok()),
        labels: content(LABELS).unwrap_or_default(),
        deps: content(DEPS).unwrap_or_default(),
        comments: content(COMMENTS).unwrap_or_default(),
    };
    let found: Result<FoundIssue, _> = tree::read(&issues, &old.id, &folder);
    let mut found = match found {
        Ok(found) if !found.sheet.deleted => found,
        _ => {
            return Ok(Some(format!(
                "what was removed with {id} could not be read from git, and is not back: git show {commit}"
            )));
        }
    };
    found.settle_all(sheet.stamp(&old, "deleted"));
    let texts: Vec<Vec<u8>> = folder
        .description
        .filter(|text| found.issue.text.as_deref() == Some(&text_digest(text)))
        .into_iter()
        .collect();
    let options = WriteOptions {
        texts: &texts,
        project: false,
        aside: Some(Duration::MAX),
        ..WriteOptions::default()
    };
    crate::write_path::transact_as(cx, None, &Command::JoinIssues(vec![found]), options)?;
    Ok(None)
}
