//! Attempts: an agent started once in a unit, how it ended, and its handoff to the next.

pub mod accounts;
pub mod dispatch;
pub mod handoff;
pub mod handoff_text;
pub mod outcome;
pub mod retry_settings;
