//! What differs between operating systems. Linux is proven by tests; Apple paths are written from the documentation
//! and are marked where they were not run.

pub mod alarm;
pub mod children;
pub mod clock;
pub mod file;
pub mod interrupt;
pub mod memory;
pub mod mounts;
pub mod process;
pub mod program;
pub mod random;
mod refusal;
pub mod shell;
pub mod watch;
pub mod watch_trees;

pub use refusal::io_refusal;
