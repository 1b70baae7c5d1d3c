//! The log: events, how a line is written, and the state that all events add up to.

pub mod event;
pub mod fold;
pub mod line;
pub mod packed_issue;
pub mod ready_index;
pub mod records;
pub mod state;
pub mod stop;
pub mod table;
