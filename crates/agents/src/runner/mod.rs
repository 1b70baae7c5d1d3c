//! The shim: one small process for each running agent (G4, G8, G12).
//!
//! `jit shim <folder>` owns one agent. It starts the agent once, reads its output, renews its lease and session, ends
//! it when its time or budget is used up, and records how it ended. It needs no other process: the coordinator only
//! reads the files of the attempt's folder, `units/<unit>/attempt-<n>/` in the control plane:
//!
//! | file | content |
//! |---|---|
//! | `job.json` | the task ([`crate::job::Job`]), without secrets of its command line; written and synced before the unit is DISPATCHED, never changed |
//! | `prompt.md` | the prompt of the agent |
//! | `shim.lock` | locked by the kernel while the shim lives: its only sign of life |
//! | `started` | the mark; created exclusively before the agent starts, so that an attempt never has a second agent |
//! | `process.json` | shim and agent, by pid and start time; updated when the process tree changes |
//! | `events.jsonl` | the agent's events ([`crate::event::EventLine`]) |
//! | `stdout.log`, `stderr.log` | the agent's output; the middle is dropped if it is too large |
//! | `stop` | a request to stop the agent, with the reason ([`crate::job::Stop`]) |
//! | `shim.log` | messages of the shim itself, if any |
//! | `spare` | reserved disk space, released for `exit.json` if the disk is full |
//! | `exit.json` | how the attempt ended ([`crate::job::Exit`]); replaced atomically, written last |
//!
//! The environment of the agent:
//!
//! - of `GIT_*` only the variables about the user's identity and the setup of git;
//! - of `JIT_*` only settings (`JIT_CONFIG_*`), the variables of the job, `JIT_UNIT` and `JIT_ATTEMPT=<unit>/<n>`;
//! - `JIT_MARK`, a random number. It identifies processes that the agent left behind.
//!
//! What must hold:
//!
//! - an attempt starts at most one agent, even if processes are killed and restarted;
//! - once `exit.json` exists, no process that the agent started is running;
//! - a killed shim is detected by its lock; the process that detects it ends the orphans and writes `exit.json`;
//! - memory is bounded for any output of the agent;
//! - output and events are written without secrets ([`crate::redact`]).

//!
//! Limitations: the shim cannot end processes that run as another user or on another machine. It keeps trying, and
//! writes no `exit.json` until all processes have ended. For systems other than Linux see [`jit_os::children`].

pub mod attempt;
mod attempt_files;
pub mod attempt_poll;
mod command_secrets;
mod conversation;
mod event_log;
mod limits;
mod lines;
mod output_log;
mod process_tree;
pub mod shim;
mod stdin;

pub use attempt_files::Processes;
pub use conversation::AttemptTotals;
