//! Text of sessions.

use crate::render::{Style, clean_line, table};
use jit_core::model::session::SessionStatus;
use jit_core::query::session_and_lock_views::SessionView;
use jit_engine::api::sessions::{PrunedSessions, SessionReply, Sessions};

/// Text of a reply about sessions.
pub fn text(reply: &SessionReply, style: Style) -> String {
    match reply {
        SessionReply::Session(session) => session_text(session, style),
        SessionReply::Sessions(Sessions { sessions }) => sessions_text(sessions, style),
        SessionReply::Pruned(PrunedSessions { pruned }) => format!("Taken off the list: {}\n", pruned.len()),
    }
}

/// Ids of what was written.
pub fn ids(reply: &SessionReply) -> Vec<&str> {
    match reply {
        SessionReply::Session(session) => vec![session.session_id.as_str()],
        SessionReply::Sessions(Sessions { sessions }) => {
            sessions.iter().map(|s| s.session_id.as_str()).collect()
        }
        SessionReply::Pruned(PrunedSessions { pruned }) => pruned.iter().map(|id| id.as_str()).collect(),
    }
}

fn status(status: SessionStatus, style: Style) -> String {
    match status {
        SessionStatus::Active => style.good(status.as_str()),
        SessionStatus::Stale | SessionStatus::Failed => style.bad(status.as_str()),
        SessionStatus::Completed => style.dim(status.as_str()),
    }
}

pub fn sessions_text(sessions: &[SessionView], style: Style) -> String {
    if sessions.is_empty() {
        return "No agent is in a session.\n".into();
    }
    let mut rows = vec![
        [
            "SESSION",
            "AGENT",
            "TYPE",
            "STATUS",
            "WORKTREE",
            "BRANCH",
            "LAST BEAT",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    for session in sessions {
        rows.push(vec![
            session.session_id.to_string(),
            clean_line(session.agent_id.as_str()),
            clean_line(&session.agent_type),
            status(session.status, style),
            session.worktree_path.as_deref().map_or("-".into(), clean_line),
            session.branch.as_deref().map_or("-".into(), clean_line),
            session.last_heartbeat.to_string(),
        ]);
    }
    table(&rows)
}

pub fn session_text(session: &SessionView, style: Style) -> String {
    let mut text = format!(
        "{} of {} ({}), {}\n",
        style.bold(session.session_id.as_str()),
        clean_line(session.agent_id.as_str()),
        clean_line(&session.agent_type),
        status(session.status, style)
    );
    let mut line = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            text.push_str(&format!("  {name} {}\n", clean_line(value)));
        }
    };
    line("worktree", session.worktree_path.as_deref());
    line("branch", session.branch.as_deref());
    line("task", session.task_id.as_deref());
    line("group", session.pr_group.as_deref());
    line("locks", Some(session.lock_scope.as_str()));
    line("since", Some(&session.started_at.to_string()));
    line("last beat", Some(&session.last_heartbeat.to_string()));
    text
}
