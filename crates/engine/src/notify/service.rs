//! Notification settings of the user, and the test notification.

use crate::api::notify::Notified;
use crate::api::notify::NotifyReply;
use jit_agents::runner::attempt::{self, Attempt};
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::unit::Unit;
use jit_store::Outcome;

use crate::api::{Answer, Reply};
use crate::config::Notifying;
use crate::config::keys::CLASSES;
use crate::context::Context;
use crate::notify::{Notice, deliver, happened};

/// Returns the section `[notify]`. Values that came with the repository are not in it.
pub(crate) fn notifying(cx: &Context) -> Notifying {
    cx.config.notifying()
}

/// Returns the repository's name for people.
pub(crate) fn repository_name(cx: &Context) -> String {
    happened::repository(&crate::approvals::repository(cx))
}

/// Returns the number of tool calls that its last agent was denied.
pub(crate) fn denials(cx: &Context, unit: &Unit) -> u32 {
    let folder = crate::units::service::attempt_folder(cx, &unit.id, unit.attempt);
    match attempt::look(&folder) {
        Ok(Attempt::Ended(exit)) => exit.verdict.map_or(0, |verdict| verdict.denials),
        _ => 0,
    }
}

/// Sends a test notification.
pub(crate) fn notify_test(cx: &Context) -> Outcome<Answer> {
    let set = notifying(cx);
    if set.command.is_empty() && set.webhook.is_empty() {
        let mut refusal = Refusal::new(
            Code::NotFound,
            "nobody is to be told: neither a command nor a webhook is set",
        )
        .help("jit config set --user notify.command '[\"<program>\"]'")
        .help("jit config set --user notify.webhook https://…");
        let left_out = cx.config.left_out().iter();
        if left_out
            .map(|(key, _)| key.as_str())
            .any(|key| matches!(key, "notify.command" | "notify.webhook"))
        {
            refusal
                .message
                .push_str("; what the repository's own file says does not count");
        }
        return Err(Box::new(refusal));
    }
    let notice = Notice {
        schema_version: 1,
        id: format!("test/{}", cx.clock.wall().ms()),
        class: CLASSES[0],
        at: cx.clock.wall(),
        repository: repository_name(cx),
        workflow: None,
        unit: None,
        agent: None,
        title: "jit can reach you".to_owned(),
        message: "This is a test. Nothing needs you.".to_owned(),
        next: "jit status".to_owned(),
        more: 0,
    };
    let sent = deliver::all(&set, &notice.presentable());
    Ok(crate::context::plain(
        cx,
        Reply::Notify(NotifyReply::Sent(Notified { sent })),
    ))
}
