//! Rules of landing that need no git: the order of candidates, and the resolution of conflicts by path.

pub mod order;
pub mod path_rules;
