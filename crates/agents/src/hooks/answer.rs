//! Writes a [`HookDecision`] in the format of each program.
//!
//! Format: all three programs read one JSON document from standard output with exit code 0. Claude Code and Codex share
//! a format; Gemini has its own. No objection means no output. The answer is never `permissionDecision: allow`: that
//! would skip the agent's own question to its user.
//!
//! Limitations: before a tool, Gemini CLI shows a warning only to its user, not to the model.

use serde_json::{Value, json};

use super::{HookEvent, Program};
use crate::hooks::decision::HookDecision;

/// The text to print before exit code 0. Empty if there is nothing to print.
pub fn before_tool(program: Program, verdict: &HookDecision) -> String {
    match (verdict.text(), verdict.is_denied()) {
        (None, _) => String::new(),
        (Some(text), true) => line(&denial(program, &text)),
        (Some(text), false) => line(&warning(program, &text)),
    }
}

/// Denies a tool with this reason.
pub fn denial(program: Program, text: &str) -> Value {
    match program {
        Program::Gemini => json!({ "decision": "deny", "reason": text }),
        Program::Claude | Program::Codex => json!({ "hookSpecificOutput": {
            "hookEventName": HookEvent::BeforeTool.name(program),
            "permissionDecision": "deny", "permissionDecisionReason": text,
        }}),
    }
}

/// Allows a tool with this warning.
pub fn warning(program: Program, text: &str) -> Value {
    match program {
        Program::Gemini => json!({ "systemMessage": text }),
        Program::Claude | Program::Codex => json!({
            "systemMessage": text,
            "hookSpecificOutput": {
                "hookEventName": HookEvent::BeforeTool.name(program), "additionalContext": text,
            },
        }),
    }
}

/// Adds a text to the model's context.
pub fn context(program: Program, event: HookEvent, text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let name = event.name(program);
    line(&json!({ "hookSpecificOutput": { "hookEventName": name, "additionalContext": text } }))
}

/// Asks the agent to continue instead of stopping, with this reason.
pub fn not_yet(program: Program, reason: &str) -> String {
    let decision = match program {
        Program::Gemini => "deny",
        Program::Claude | Program::Codex => "block",
    };
    line(&json!({ "decision": decision, "reason": reason }))
}

fn line(value: &Value) -> String {
    format!("{value}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::decision::{Objection, RuleMode};

    fn verdict(mode: RuleMode) -> HookDecision {
        let mut verdict = HookDecision::default();
        verdict.add(mode, Objection::new("It is locked.", "Wait."));
        verdict
    }

    fn said(program: Program, mode: RuleMode) -> Value {
        serde_json::from_str(&before_tool(program, &verdict(mode))).expect("one JSON document")
    }

    #[test]
    fn f9_a_denial_is_said_the_way_each_program_wants_it() {
        for program in [Program::Claude, Program::Codex] {
            let said = &said(program, RuleMode::Deny)["hookSpecificOutput"];
            assert_eq!(said["hookEventName"], "PreToolUse");
            assert_eq!(said["permissionDecision"], "deny");
            assert_eq!(said["permissionDecisionReason"], "jit: It is locked. Wait.");
        }
        let said = said(Program::Gemini, RuleMode::Deny);
        assert_eq!(said["decision"], "deny");
        assert_eq!(said["reason"], "jit: It is locked. Wait.");
    }

    #[test]
    fn f9_a_warning_neither_denies_nor_approves() {
        for program in Program::ALL {
            let text = before_tool(program, &verdict(RuleMode::Warn));
            assert!(text.contains("It is locked."), "{text}");
            assert!(
                !text.contains("ermissionDecision") && !text.contains("\"decision\""),
                "{text}"
            );
        }
    }

    #[test]
    fn f9_where_there_is_nothing_to_say_nothing_is_said() {
        for program in Program::ALL {
            assert_eq!(before_tool(program, &HookDecision::default()), "");
            assert_eq!(before_tool(program, &verdict(RuleMode::Off)), "");
            assert_eq!(context(program, HookEvent::SessionStart, ""), "");
        }
    }
}
