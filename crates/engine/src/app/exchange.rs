//! Issues from elsewhere, and ours for elsewhere.
//!
//! An import only makes issues that are not here: it changes none, so it can be repeated, also after half of it.

use jit_core::command::Command;
use jit_core::exchange::{self, Brought, Errand, Plan};
use jit_core::refusal::Code;
use jit_core::state;

use super::{App, Kept, refuse};
use crate::request::{Answer, Import, Imported, Reply};
use crate::store::file::io_refusal;
use crate::store::{Outcome, View};

/// So many issues, and about so many bytes, are brought in by one append at most.
const AT_ONCE: usize = 200;
const BYTES_AT_ONCE: usize = 32 << 20;
/// More warnings than these are counted.
const MAX_WARNINGS: usize = 100;

impl App {
    pub(super) fn import(&self, import: &Import) -> Outcome<Answer> {
        let view = self.view()?;
        let errand = Errand {
            source: import.source,
            by: &self.actor.agent_id,
            now: view.now.wall,
        };
        let plan = exchange::plan(&import.parsed, errand, &*view.table).map_err(|e| refuse(Code::Io, e))?;
        let Plan {
            brought,
            skipped,
            problems,
            warnings,
        } = plan;
        let imported = brought.iter().map(|one| one.found.issue.id.clone()).collect();
        let mut said = few(warnings);
        if !import.dry_run {
            let mut left = brought.into_iter().peekable();
            while left.peek().is_some() {
                said.extend(self.bring(&mut left)?);
            }
        }
        let reply = Reply::Imported(Imported {
            imported,
            skipped,
            problems,
            dry_run: import.dry_run,
        });
        let mut answer = self.read_answer(&view, reply)?;
        answer.warnings.extend(said);
        Ok(answer)
    }

    /// One append. Says what was noticed.
    fn bring(&self, left: &mut std::iter::Peekable<std::vec::IntoIter<Brought>>) -> Outcome<Vec<String>> {
        let (mut found, mut texts, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some(one) = left.next_if(|_| found.len() < AT_ONCE && bytes < BYTES_AT_ONCE) {
            let said = one.found.comments.iter().map(|comment| comment.text.len());
            bytes += one.text.as_ref().map_or(0, Vec::len) + said.sum::<usize>();
            texts.extend(one.text);
            found.push(one.found);
        }
        let kept = Kept {
            texts: &texts,
            ..Kept::default()
        };
        // Repeating an import is safe by its ids: it needs no request's.
        let done = self.transact_as(None, &Command::JoinIssues(found), kept)?;
        Ok(done.notices)
    }

    pub(super) fn export(&self) -> Outcome<Answer> {
        let view = self.view()?;
        let (issues, lines, lost) = self.exported(&view)?;
        let mut answer = self.read_answer(&view, Reply::Exported { issues, lines })?;
        answer.warnings.extend(lost);
        Ok(answer)
    }

    /// Every issue, open and closed, a line each, by id; and which descriptions could not be found.
    pub(crate) fn exported(&self, view: &View) -> Outcome<(usize, String, Vec<String>)> {
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
                    let found = self.replica.text(&issue.id, digest);
                    let found = found.map_err(|e| io_refusal("read", &self.replica.folder(&issue.id), &e))?;
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
                // What was deleted is waited for no more.
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
}

fn few(mut warnings: Vec<String>) -> Vec<String> {
    let many = warnings.len();
    if many > MAX_WARNINGS {
        warnings.truncate(MAX_WARNINGS);
        warnings.push(format!("and {} more like these", many - MAX_WARNINGS));
    }
    warnings
}
