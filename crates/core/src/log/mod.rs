//! The log: events, the format of a line, and the state that all events add up to.
//!
//! Begin with `event`, then `line` (bytes), `fold` (what an event changes) and `state` (how to look things up). Nothing here
//! decides: an event in the log has happened.

pub mod event;
pub mod fold;
pub mod line;
pub mod packed_issue;
pub mod ready_index;
pub mod records;
pub mod state;
pub mod stop;
pub mod table;
