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

pub mod answer;
pub mod ground;
pub mod guard;
pub mod input;
mod run;
pub mod settings;
pub mod shell;
pub mod verdict;

pub use run::{judge, run};

use std::fmt;
use std::str::FromStr;

/// The agent programs whose hooks are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    Claude,
    Codex,
    Gemini,
}

impl Program {
    pub const ALL: [Self; 3] = [Self::Claude, Self::Codex, Self::Gemini];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Program {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|program| program.as_str() == text);
        known.ok_or_else(|| format!("{text:?} is not one of claude, codex, gemini"))
    }
}

/// When a hook is called. The names are Claude Code's; the others have their own for the same moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    BeforeTool,
    AfterTool,
    SessionStart,
    /// The user has said something.
    Prompt,
    Stop,
    SessionEnd,
}

impl Event {
    pub const ALL: [Self; 6] = [
        Self::BeforeTool,
        Self::AfterTool,
        Self::SessionStart,
        Self::Prompt,
        Self::Stop,
        Self::SessionEnd,
    ];

    /// What this program calls it.
    pub fn name(self, program: Program) -> &'static str {
        match (self, program) {
            (Self::BeforeTool, Program::Gemini) => "BeforeTool",
            (Self::AfterTool, Program::Gemini) => "AfterTool",
            (Self::Prompt, Program::Gemini) => "BeforeAgent",
            (Self::Stop, Program::Gemini) => "AfterAgent",
            (Self::BeforeTool, _) => "PreToolUse",
            (Self::AfterTool, _) => "PostToolUse",
            (Self::SessionStart, _) => "SessionStart",
            (Self::Prompt, _) => "UserPromptSubmit",
            (Self::Stop, _) => "Stop",
            (Self::SessionEnd, _) => "SessionEnd",
        }
    }

    pub fn named(name: &str, program: Program) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.name(program) == name)
    }
}
