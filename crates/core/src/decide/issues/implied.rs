//! Type and parent that an id in the form of the lock-file protocol implies: `WI-001-A1` is an activity of `WI-001`, and
//! `WI-001-A1-T2` is a task of `WI-001-A1`.
//!
//! What must hold: a type or a parent that was given always counts. An id implies a parent only if that exists and may
//! have such a part.

use crate::decide::command::Context;
use crate::decide::draft::Draft;
use crate::log::state;
use crate::log::stop::Stop;
use crate::model::ids::IssueId;
use crate::model::issue::{ACTIVITY, TASK};

/// Splits an id into the id above it and the type that it implies.
fn parts(id: &str) -> Option<(&str, &'static str)> {
    let (above, last) = id.rsplit_once('-')?;
    let kind = match last.split_at_checked(1)? {
        ("A", number) if is_number(number) && is_work_item(above) => ACTIVITY,
        ("T", number) if is_number(number) && matches!(parts(above), Some((_, ACTIVITY))) => TASK,
        _ => return None,
    };
    Some((above, kind))
}

/// `WI-001`: capital letters, a dash and a number.
fn is_work_item(id: &str) -> bool {
    id.split_once('-').is_some_and(|(word, number)| {
        !word.is_empty() && word.bytes().all(|b| b.is_ascii_uppercase()) && is_number(number)
    })
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// The type of an issue that was created with this id and without a type.
pub fn implied_type(id: &IssueId) -> Option<&'static str> {
    parts(id.as_str()).map(|(_, kind)| kind)
}

/// The parent of an issue that was created with this id and without a parent.
pub(super) fn implied_parent(
    draft: &mut Draft<'_>,
    id: &IssueId,
    kind: &str,
    cx: &Context,
) -> Result<Option<IssueId>, Stop> {
    let Some(above) = parts(id.as_str()).and_then(|(above, _)| above.parse::<IssueId>().ok()) else {
        return Ok(None);
    };
    match state::issue(draft.state(), &above)? {
        Some(parent) if cx.policy.may_be_part_of(kind, &parent.kind) => Ok(Some(parent.id)),
        Some(parent) => {
            draft.notice(format!(
                "{id} has no parent: a {kind} cannot be part of {}, which is a {}",
                parent.id, parent.kind
            ));
            Ok(None)
        }
        None => {
            draft.notice(format!(
                "{id} has no parent: there is no issue {above} yet. Once there is: jit issue update {id} --parent {above}"
            ));
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b13_ids_of_the_protocol_imply_a_type() {
        for (id, implied) in [
            ("WI-001-A1", Some(("WI-001", ACTIVITY))),
            ("WI-001-A1-T2", Some(("WI-001-A1", TASK))),
            ("PROJ-7-A12-T345", Some(("PROJ-7-A12", TASK))),
            ("WI-001", None),
            ("WI-001-T2", None),
            ("WI-001-A1-A2", None),
            ("WI-001-A", None),
            ("WI-001-Ax", None),
            ("X-A1", None),
            ("wi-001-A1", None),
            ("plain", None),
            ("", None),
        ] {
            assert_eq!(parts(id), implied, "{id}");
        }
    }
}
