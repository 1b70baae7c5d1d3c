//! The operating system: files that survive a power loss, clocks, processes, watching folders, random numbers.
//!
//! Every other crate reaches the system through small functions of this one, so that differences between systems stay
//! here. Linux is proven by tests. Code for Apple systems is written from the documentation and marked "not run here".
//!
//! Limits of this crate: it knows neither git, nor the log, nor issues, and it decides nothing. It uses `jit_core` only for
//! the types of time and of refusals.
//!
//! Begin reading with [`mod@file`] (atomic writes), then [`process`] (a process is a pid and its start time) and [`clock`].
//!
//! ```
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("note");
//! // Of several writers exactly one creates the file, and readers never see a part of it.
//! assert!(jit_os::file::create(&path, b"first")?);
//! assert!(!jit_os::file::create(&path, b"second")?);
//! assert_eq!(std::fs::read(&path)?, b"first");
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod account;
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
