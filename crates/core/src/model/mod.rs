//! The nouns: ids, times and the things that the log is about.

pub mod account;
pub mod conflict;
pub mod duration;
pub mod file_lock;
pub mod gitignore;
pub mod glob;
pub mod ids;
pub mod issue;
pub mod lease;
pub mod plan;
pub mod policy;
pub mod refusal;
pub mod scope;
pub mod session;
pub mod time;
pub mod unit;
pub mod workflow;
