//! Issues as files in a tree: their format, the stamps of their fields, and how two versions are merged.

pub mod format;
pub mod merge;
pub mod stamps;
pub mod strict_json;
