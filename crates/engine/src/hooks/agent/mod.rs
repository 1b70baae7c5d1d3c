//! Hooks of coding agents: jit's decision before each step of an agent, and its information after it (F9).
//!
//! An agent program starts a hook with a JSON document on its standard input and reads a decision from the hook's
//! output. `jit_agents::hooks` reads that document (`input`) and command lines (`shell`), combines decisions
//! (`decision`), writes them in each program's format (`answer`) and registers the hook (`settings`). [`guard`]
//! decides about worktrees and git commands. [`ground`] finds the worktree that owns a path. `judging` puts them together
//! with scopes and file locks.
//!
//! What must hold:
//! - A tool call starts no process, and every wait is short. The answer comes before the agent program stops waiting,
//!   whatever the input (L5).
//! - Input that cannot be understood (broken JSON, missing fields, unknown tools, unreadable command lines) depends
//!   on the mode: strict refuses it, `warn` passes it with a warning, `off` passes it silently.
//! - A hook never approves. It denies or prints nothing, so the agent's own questions to its user are still asked.
//! - Outside of repositories that use jit the hook prints nothing: it may be registered for the whole user.
//!
//! Limitations: a shell command can do more than its text shows (programs, scripts, aliases, variables). The guard
//! reads the text only. Git's own hooks check the result.

pub mod ground;
pub mod guard;
mod judging;
pub mod permission;
mod run;
pub mod settings;

pub use run::{judge, run};
