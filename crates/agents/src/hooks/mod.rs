//! Hooks of agent programs: the documents they send before and after each tool call, and the answers they read (F9).
//!
//! [`input`] reads a document of any program into one [`ToolCall`](input::ToolCall); [`shell`] reads command lines;
//! [`decision`] combines the decisions of several rules; [`answer`] writes a decision in each program's format;
//! [`settings`] registers the hook.

pub mod answer;
pub mod decision;
pub mod input;
pub mod settings;
pub mod shell;

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The agent programs whose hooks are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
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

/// When a hook is called. The names are those of Claude Code; other programs have their own names for the same events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookEvent {
    BeforeTool,
    AfterTool,
    SessionStart,
    /// The user has sent a prompt.
    Prompt,
    Stop,
    SessionEnd,
}

impl HookEvent {
    pub const ALL: [Self; 6] = [
        Self::BeforeTool,
        Self::AfterTool,
        Self::SessionStart,
        Self::Prompt,
        Self::Stop,
        Self::SessionEnd,
    ];

    /// This program's name of the event.
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
