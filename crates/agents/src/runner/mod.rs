//! The shim: one small process for each running agent (G4, G8, G12).
//!
//! `jit shim <folder>` owns the agent: it starts it once, listens to it, keeps its lease and its session alive, ends it when
//! its time or its money is up, and writes down how it ended. Nobody needs to live for it to do so: the coordinator only
//! reads the files of the attempt's folder, `units/<unit>/attempt-<n>/` in the control plane:
//!
//! | file | what |
//! |---|---|
//! | `job.json` | what is to be done ([`crate::job::Job`]); written, synced and never changed, before the unit is DISPATCHED |
//! | `prompt.md` | what the agent is told |
//! | `shim.lock` | locked by the kernel while the shim lives: its only sign of life |
//! | `started` | made exclusively before the agent is started: there is never a second one for an attempt; has the mark |
//! | `process.json` | shim and agent, by pid and start time; renewed when the family changes |
//! | `events.jsonl` | what the agent said ([`crate::event::EventLine`]) |
//! | `stdout.log`, `stderr.log` | what it printed, cut in the middle when it is much |
//! | `stop` | somebody wants it ended: the reason ([`crate::job::Stop`]) |
//! | `shim.log` | what the shim itself has to say, if anything |
//! | `spare` | some room, given back for `exit.json` when the disk is full |
//! | `exit.json` | how it ended ([`crate::job::Exit`]); replaced atomically, written last |
//!
//! The agent gets no `GIT_*` but those that say who the user is and how their git is set up, and of `JIT_*` only settings (`JIT_CONFIG_*`), what the job says, `JIT_UNIT`,
//! `JIT_ATTEMPT=<unit>/<n>`, and `JIT_MARK`, a number nobody else has: by it what was left behind is known.
//!
//! What must hold:
//!
//! - one attempt starts at most one agent, whatever is killed and started again;
//! - after `exit.json` is there, nothing the agent started runs any more;
//! - a shim that is killed is noticed by its lock; whoever notices ends the orphans and writes `exit.json` for it;
//! - whatever the agent prints, memory stays bounded;
//! - what it prints and says is written down without secrets ([`crate::redact`]).

//!
//! Limitations: an agent that has another user end its processes, or leaves its machine, is out of reach. While something
//! cannot be ended the shim goes on trying and writes no exit. Elsewhere than on Linux, see [`jit_os::children`].

pub mod attempt;
mod attempt_files;
pub mod attempt_poll;
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
