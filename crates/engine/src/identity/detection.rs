//! Detects the agent program that this process runs inside of, by the variables that such programs set (A4, L3).
//!
//! What must hold:
//!
//! - The variables of this process count, and those with which each process above it was started. So removing a
//!   variable for one command (`env -u`) hides nothing.
//! - A variable that names an agent (`JIT_AGENT_ID`) says which agent it is, the nearest first. Else the program gives
//!   the name: `agent:claude`.
//!
//! Limitations: the variables of processes above are read on Linux only, and only those of the same user. A process
//! that left the tree (started again by `cron`, or forked twice and without these variables) is not recognized.

use std::ffi::OsString;

use jit_core::model::ids::AgentId;
use jit_os::process::{self, Environment};

/// Variables that show that an agent started a process, and the agent that sets each.
const MARKS: &[(&str, &str)] = &[
    ("CLAUDECODE", "claude"),
    ("CLAUDE_CODE_ENTRYPOINT", "claude"),
    ("CODEX_SANDBOX", "codex"),
    ("CODEX_SANDBOX_NETWORK_DISABLED", "codex"),
    ("CODEX_THREAD_ID", "codex"),
    ("CODEX_CI", "codex"),
    ("GEMINI_CLI", "gemini"),
    ("QWEN_CODE", "qwen"),
    ("CURSOR_AGENT", "cursor"),
    ("COPILOT_CLI", "copilot"),
    ("OPENCODE", "opencode"),
    ("OPENCODE_CLIENT", "opencode"),
    ("AMP_CURRENT_THREAD_ID", "amp"),
    ("ANTIGRAVITY_AGENT", "antigravity"),
    ("AUGMENT_AGENT", "augment"),
    ("CLINE_ACTIVE", "cline"),
    ("GOOSE_TERMINAL", "goose"),
    ("PI_CODING_AGENT", "pi"),
    ("TRAE_AI_SHELL_ID", "trae"),
    ("AI_AGENT", UNKNOWN),
];

/// The variable that names the agent itself.
pub const AGENT_ID: &str = "JIT_AGENT_ID";

/// The name of an agent whose program is not known.
const UNKNOWN: &str = "unknown";

/// An agent program that this process runs inside of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetectedAgent {
    pub name: &'static str,
    /// The variable that identified it.
    pub variable: &'static str,
    /// The process above this one that was started with the variable; `None`: this process.
    pub process: Option<u32>,
    /// The id of the agent: as a variable names it, else by its program.
    pub agent_id: AgentId,
}

/// Looks up a variable.
type Lookup<'a> = Box<dyn Fn(&str) -> Option<OsString> + 'a>;

/// A process of the chain upwards, with its variables.
struct Link<'a> {
    process: Option<u32>,
    var: Lookup<'a>,
}

/// Returns the agent program that started this process, by the variables of this process and of all above it.
pub fn detect(var: impl Fn(&str) -> Option<OsString>) -> Option<DetectedAgent> {
    let own = Link {
        process: None,
        var: Box::new(var),
    };
    let above = process::above().unwrap_or_default();
    let above = above.iter().filter_map(|one| {
        let found: Environment = process::environment(one.pid)?;
        Some(Link {
            process: Some(one.pid),
            var: Box::new(move |name| found.get(name)),
        })
    });
    in_chain(std::iter::once(own).chain(above))
}

/// Returns the agent program of these variables alone.
pub fn detect_in(var: impl Fn(&str) -> Option<OsString>) -> Option<DetectedAgent> {
    in_chain(std::iter::once(Link {
        process: None,
        var: Box::new(var),
    }))
}

fn in_chain<'a>(chain: impl Iterator<Item = Link<'a>>) -> Option<DetectedAgent> {
    let mut program: Option<DetectedAgent> = None;
    for link in chain {
        if program.is_none() {
            program = program_of(&link);
        }
        let Some(agent_id) = agent_of(&link) else { continue };
        return Some(match program {
            Some(program) => DetectedAgent { agent_id, ..program },
            None => DetectedAgent {
                name: UNKNOWN,
                variable: AGENT_ID,
                process: link.process,
                agent_id,
            },
        });
    }
    program
}

fn program_of(link: &Link<'_>) -> Option<DetectedAgent> {
    let set = |name: &str| {
        (link.var)(name).is_some_and(|value| !value.is_empty() && value != "0" && value != "false")
    };
    let (variable, name) = MARKS.iter().find(|(variable, _)| set(variable))?;
    Some(DetectedAgent {
        name,
        variable,
        process: link.process,
        agent_id: format!("agent:{name}").parse().ok()?,
    })
}

fn agent_of(link: &Link<'_>) -> Option<AgentId> {
    let id: AgentId = (link.var)(AGENT_ID)?.to_str()?.parse().ok()?;
    (id.kind() == "agent").then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain of processes, each with its variables; the first is this process.
    fn chain(all: &[&[(&str, &str)]]) -> Option<(String, &'static str, Option<u32>)> {
        let links = all.iter().enumerate().map(|(at, vars)| {
            let vars: Vec<(String, OsString)> = vars
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.into()))
                .collect();
            Link {
                process: (at > 0).then_some(at as u32),
                var: Box::new(move |asked| {
                    let found = vars.iter().find(|(name, _)| name == asked);
                    found.map(|(_, value)| value.clone())
                }),
            }
        });
        in_chain(links).map(|found| (found.agent_id.to_string(), found.variable, found.process))
    }

    fn some(
        id: &str,
        variable: &'static str,
        process: Option<u32>,
    ) -> Option<(String, &'static str, Option<u32>)> {
        Some((id.to_owned(), variable, process))
    }

    #[test]
    fn a4_every_known_agent_is_detected() {
        for (variable, name) in MARKS {
            assert_eq!(
                chain(&[&[(variable, "1")]]),
                some(&format!("agent:{name}"), variable, None)
            );
        }
        for unset in [("GEMINI_CLI", ""), ("CLAUDECODE", "0"), ("HOME", "/root")] {
            assert_eq!(chain(&[&[unset]]), None);
        }
    }

    #[test]
    fn l3_a_variable_of_a_process_above_tells_the_agent() {
        let person: &[(&str, &str)] = &[("HOME", "/h"), ("JIT_AGENT_ID", "human:ann")];
        assert_eq!(chain(&[person, person]), None);
        assert_eq!(
            chain(&[person, &[("CLAUDECODE", "1")], person]),
            some("agent:claude", "CLAUDECODE", Some(1))
        );
        // The nearest program, and the nearest id, wherever they are.
        assert_eq!(
            chain(&[
                person,
                &[("GEMINI_CLI", "1")],
                &[("CLAUDECODE", "1"), ("JIT_AGENT_ID", "agent:w")],
                &[("JIT_AGENT_ID", "agent:v")],
            ]),
            some("agent:w", "GEMINI_CLI", Some(1))
        );
        assert_eq!(
            chain(&[person, &[("JIT_AGENT_ID", "agent:w")]]),
            some("agent:w", "JIT_AGENT_ID", Some(1))
        );
        assert_eq!(chain(&[&[("JIT_AGENT_ID", "agent:\u{1b}")]]), None);
    }
}
