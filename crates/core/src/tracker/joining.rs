//! What trees and files from elsewhere say about issues, brought in.

use super::*;

/// What is part of something else that was found comes before it: a whole is done after its parts.
pub(super) fn parts_first(all: &[Found]) -> Vec<&Found> {
    let wholes: BTreeMap<String, &Found> = all.iter().map(|found| (found.issue.id.key(), found)).collect();
    let depth = |found: &Found| {
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
    let mut ordered: Vec<(usize, &Found)> = all.iter().map(|found| (depth(found), found)).collect();
    ordered.sort_by_key(|(depth, _)| std::cmp::Reverse(*depth));
    ordered.into_iter().map(|(_, found)| found).collect()
}

/// Brings in what trees or files from elsewhere have and the log does not.
pub(crate) fn join(draft: &mut Draft<'_>, all: &[Found], cx: &Context) -> Result<Answer, Stop> {
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
                draft.emit(event(Did::Created))?;
                if !said.is_empty() {
                    // What is in the file is known, and may be written over.
                    let digest = found.digest.clone();
                    draft.emit(event(Did::Joined { digest }))?;
                }
                said.into_iter().for_each(|said| draft.notice(said));
            }
            Some(mine) => {
                let my_sheet = state::sheet(draft.state(), id)?;
                let seen = state::is_known_file(draft.state(), id, &found.digest)?;
                // What was seen before tells nothing new but in its sets, which are files of their own, and its text.
                let mut theirs = found.clone();
                if seen {
                    theirs.edited.retain(|name| *name == "text");
                    theirs.edited_others.clear();
                    theirs.by_hand.retain(|name| *name == "text");
                }
                let joined = merge::join((&mine, &my_sheet), &theirs, cx.now.wall);
                let did = Did::Joined {
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
                    None if !seen => draft.emit(Event::Issue {
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
        Answer::Already(Reply::Joined(0))
    } else {
        Answer::Done
    })
}
