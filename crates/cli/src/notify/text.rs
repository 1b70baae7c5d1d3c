//! Text of notifications.

use crate::render::{Style, clean_line};
use jit_engine::api::notify::Sent;
use jit_engine::api::notify::{Notified, NotifyReply};

/// Text of a reply about notifications.
pub fn text(reply: &NotifyReply, style: Style) -> String {
    match reply {
        NotifyReply::Sent(Notified { sent }) => sent_text(sent, style),
    }
}

pub fn sent_text(sent: &[Sent], style: Style) -> String {
    let line = |one: &Sent| match &one.why {
        None => format!("{} {}\n", style.good("sent"), one.way),
        Some(why) => format!("{} {}: {}\n", style.bad("not sent"), one.way, clean_line(why)),
    };
    sent.iter().map(line).collect()
}
