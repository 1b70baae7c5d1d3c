//! Issues as files in a tree: their format, the stamps of their fields, and how two versions are merged.
//!
//! Below the log, because events carry stamps.

pub mod format;
pub mod merge;
pub mod stamps;
pub mod strict_json;
pub mod vector;
