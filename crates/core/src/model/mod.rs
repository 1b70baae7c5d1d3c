//! The nouns: ids, times, and the things that events are about. Types and their own rules, no log and no decisions.

pub mod account;
pub mod actor;
pub mod conflict;
pub mod cost;
pub mod duration;
pub mod failure_reason;
pub mod file_lock;
pub mod gitignore;
pub mod glob;
pub mod ids;
pub mod issue;
pub mod json;
pub mod lease;
pub mod plan;
pub mod plan_check;
pub mod policy;
pub mod refusal;
pub mod scope;
pub mod session;
pub mod time;
pub mod unit;
pub mod words;
pub mod workflow;
