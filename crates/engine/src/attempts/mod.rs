//! Attempts: an attempt is one agent, started once in a unit. This room starts it, records its outcome and hands its
//! work to the next agent.

pub mod accounts;
pub mod dispatch;
pub mod handoff;
pub mod handoff_text;
pub mod outcome;
pub mod retry_settings;
