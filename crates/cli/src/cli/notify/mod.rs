//! `jit notify`: notifications to people outside, by a command or a webhook.

mod test;

use jit_engine::api::notify::Sent;

use super::{Verb, verb};
use crate::render::{Style, clean_line};

pub const VERBS: &[Verb] = &[verb!(
    "test",
    "Send a notification to see whether it arrives",
    test
)];

pub fn sent_text(sent: &[Sent], style: Style) -> String {
    let line = |one: &Sent| match &one.why {
        None => format!("{} {}\n", style.good("sent"), one.way),
        Some(why) => format!("{} {}: {}\n", style.bad("not sent"), one.way, clean_line(why)),
    };
    sent.iter().map(line).collect()
}
