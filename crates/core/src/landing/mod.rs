//! Rules of landing that need no git: the order of candidates, and how conflicts in a path are resolved.

pub mod order;
pub mod path_rules;
