//! What jit says to a coding agent before and after each of its steps (F9).
//!
//! An agent's program starts a hook with a JSON document on its standard input and reads a decision from what the hook
//! prints. [`input`] reads that document, whoever wrote it, into one [`ToolCall`](input::ToolCall); [`guard`] decides
//! about worktrees and git commands, with [`shell`] to read command lines; [`ground`] knows where things are;
//! [`verdict`] puts decisions together; [`answer`] says them the way each program wants; [`settings`] registers the hook.
//!
//! What must hold:
//! - no process is started on the way of a tool call, and nothing is waited for longer than a moment;
//! - what is not understood (broken JSON, missing fields, unknown tools, unreadable command lines) is refused where the
//!   mode is strict, passes with a word where it is `warn`, and passes silently where it is `off`;
//! - a hook never approves: it denies or says nothing, so that the agent's own questions to its user are still asked;
//! - outside of repositories that use jit it says nothing at all, for it may be registered for the whole user.
//!
//! Limitations: a shell command can do what its text does not show (programs, scripts, aliases, variables). The guard
//! reads what stands there; git's own hooks look at what comes of it.

pub mod ground;
pub mod guard;
pub mod permission;
mod run;

pub use run::{judge, run};
