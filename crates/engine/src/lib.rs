//! What `jit` does to the world: files, git, clocks and processes. It decides nothing and prints nothing.

pub mod store;
