//! Joins issues that were found in trees and files from elsewhere to those of the log.

use std::collections::BTreeMap;

use crate::decide::command::{CommandReply, Context};
use crate::decide::draft::{Decision, Draft};
use crate::decide::issues::done_rules::hold_back;
use crate::issue_files::format::{FoundIssue, said_first, says_the_same, set_aside};
use crate::issue_files::merge;
use crate::issue_files::stamps::Sheet;
use crate::log::event::{Event, IssueAction};
use crate::log::state;
use crate::log::stop::Stop;
use crate::model::issue::{Comment, Issue};

/// Orders found issues so that parts come before their parent: a parent is done after its parts.
pub(super) fn parts_first(all: &[FoundIssue]) -> Vec<&FoundIssue> {
    let wholes: BTreeMap<String, &FoundIssue> =
        all.iter().map(|found| (found.issue.id.key(), found)).collect();
    let depth = |found: &FoundIssue| {
        let mut above = found.issue.parent.as_ref();
        let mut depth = 0;
        while let Some(whole) = above.and_then(|id| wholes.get(&id.key())) {
            depth += 1;
            if depth > wholes.len() {
                // In a circle nothing comes first.
                return 0;
            }
            above = whole.issue.parent.as_ref();
        }
        depth
    };
    let mut ordered: Vec<(usize, &FoundIssue)> = all.iter().map(|found| (depth(found), found)).collect();
    ordered.sort_by_key(|(depth, _)| std::cmp::Reverse(*depth));
    ordered.into_iter().map(|(_, found)| found).collect()
}

/// Messages about edits by hand whose author did not know of a change elsewhere: the later of the two counts. A change that
/// was made in the same tree needs no message.
fn overruled(
    (mine, my_sheet): (&Issue, &Sheet),
    theirs: &FoundIssue,
    (now, sheet): (&Issue, &Sheet),
    from_here: bool,
) -> Vec<String> {
    let id = &mine.id;
    let mut said = Vec::new();
    for name in merge::unaware((mine, my_sheet), theirs) {
        let (before, edit) = (
            my_sheet.value(mine, name),
            theirs.sheet.value(&theirs.issue, name),
        );
        let (before, edit) = (before.to_string(), edit.to_string());
        let counts = sheet.value(now, name).to_string();
        if name == "deleted" && counts != edit {
            said.push(format!(
                "{id} was changed elsewhere after it was deleted here by hand: it stays"
            ));
        } else if counts != edit {
            said.push(format!(
                "{name} of {id} was changed elsewhere after it was edited here: {counts:.100} counts, not {edit:.100}"
            ));
        } else if !from_here {
            said.push(format!(
                "{name} of {id} was changed elsewhere before it was edited here: {edit:.100} counts, not {before:.100}"
            ));
        }
    }
    let is_edit = theirs.edited.iter().any(|name| *name != "deleted") || !theirs.edited_others.is_empty();
    if my_sheet.deleted && sheet.deleted && is_edit {
        said.push(format!(
            "{id} was deleted after it was edited here, and stays so: jit issue restore {id}"
        ));
    }
    said
}

/// Brings in what trees or files from elsewhere have and the log does not; but for what was weighed against a description
/// that is not ours any more.
pub(crate) fn join(draft: &mut Draft<'_>, all: &[FoundIssue], cx: &Context) -> Result<Decision, Stop> {
    let who = (&cx.policy, &cx.actor.agent_id);
    for found in parts_first(all) {
        let id = &found.issue.id;
        let known = state::issue_or_tombstone(draft.state(), id)?;
        let here = |mut issue: Issue| {
            issue.lives_in = cx.actor.worktree_id.clone().or(issue.lives_in);
            issue
        };
        match known {
            None => {
                let (mut issue, mut sheet) = (found.issue.clone(), found.sheet.clone());
                let said = hold_back(draft.state(), None, (&mut issue, &mut sheet), found, who)?;
                let event = |did| Event::Issue {
                    did,
                    issue: here(issue.clone()),
                    sheet: sheet.clone(),
                };
                draft.emit(event(IssueAction::Created))?;
                if !said.is_empty() {
                    // The content of the file is known, and may be overwritten.
                    let digest = found.digest.clone();
                    draft.emit(event(IssueAction::Joined { digest }))?;
                }
                said.into_iter().for_each(|said| draft.notice(said));
            }
            // Another command created it meanwhile.
            Some(_) if found.only_new => continue,
            Some(mine) => {
                let my_sheet = state::sheet(draft.state(), id)?;
                if found.is_outdated((&mine, &my_sheet)) {
                    continue;
                }
                let seen = state::is_known_file(draft.state(), id, &found.digest)?;
                let mut theirs = found.clone();
                if seen {
                    theirs.forget_edits();
                }
                let joined = merge::join((&mine, &my_sheet), &theirs, cx.now.wall);
                let from_here = mine.lives_in.is_some() && mine.lives_in == cx.actor.worktree_id;
                let now = joined
                    .as_ref()
                    .map_or((&mine, &my_sheet), |(issue, sheet)| (issue, sheet));
                let said = overruled((&mine, &my_sheet), &theirs, now, from_here);
                said.into_iter().for_each(|said| draft.notice(said));
                let did = IssueAction::Joined {
                    digest: found.digest.clone(),
                };
                match joined {
                    Some((mut issue, mut sheet)) => {
                        let taken = (&mut issue, &mut sheet);
                        let said = hold_back(draft.state(), Some(&mine), taken, &theirs, who)?;
                        said.into_iter().for_each(|said| draft.notice(said));
                        draft.emit(Event::Issue {
                            did,
                            issue: here(issue),
                            sheet,
                        })?;
                    }
                    None if !seen || found.again => draft.emit(Event::Issue {
                        did,
                        issue: mine,
                        sheet: my_sheet,
                    })?,
                    None => {}
                }
            }
        }
        for comment in &found.comments {
            if state::holds_comment(draft.state(), id, comment)? {
                continue;
            }
            let said = |comment: &Comment| Event::Commented {
                issue_id: id.clone(),
                comment: comment.clone(),
            };
            match state::comment(draft.state(), id, &comment.id)? {
                None => draft.emit(said(comment))?,
                Some(known) if says_the_same(&known, comment) => draft.emit(said(comment))?,
                Some(known) => {
                    // Both are kept, and every copy gives the id to the same one.
                    let (first, other) = said_first(&known, comment);
                    if *first != known {
                        draft.emit(said(first))?;
                    }
                    draft.emit(said(&set_aside(other)))?;
                    draft.notice(format!(
                        "comment {} of {id} says something else than before: both are kept",
                        comment.id
                    ));
                }
            }
        }
    }
    Ok(if draft.events().is_empty() {
        Decision::Already(CommandReply::Joined(Vec::new()))
    } else {
        Decision::Done
    })
}
