//! The shared log and the state folded from it.

pub mod disk;
