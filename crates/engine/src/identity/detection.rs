//! Detects the agent program that this process runs inside of, by the variables that such programs set and by the names
//! of such programs (A4, L3).
//!
//! What must hold:
//!
//! - The variables of this process count, and those with which each process above it was started. So removing a
//!   variable for one command (`env -u`) hides nothing while the shell above still has it.
//! - A process above that is a known agent program counts. So a shell that replaced itself (`exec env -u`) hides nothing
//!   while the agent program runs.
//! - If the processes above cannot be read to the end, this process counts as an agent's.
//! - A variable that names an agent (`JIT_AGENT_ID`) says which agent it is, the nearest first. Else the program gives
//!   the name: `agent:claude`.
//!
//! Limitations: the variables of processes above are read on Linux only, and only those of the same user. A process
//! that left the tree (started again by `cron`, or forked twice and without these variables) is not recognized. Neither is
//! one below an agent program that is not known by name, after `exec` without these variables, nor one in a process
//! namespace of its own.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;

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

/// Programs of agents, by the base name of the program or of the script that runs, and the agent of each. Editors with an
/// agent in them are not here: a person works in their terminals.
const PROGRAMS: &[(&str, &str)] = &[
    ("claude", "claude"),
    ("codex", "codex"),
    ("gemini", "gemini"),
    ("qwen", "qwen"),
    ("cursor-agent", "cursor"),
    ("copilot", "copilot"),
    ("opencode", "opencode"),
    ("amp", "amp"),
    ("auggie", "augment"),
    ("cline", "cline"),
    ("goose", "goose"),
    ("pi", "pi"),
    ("aider", "aider"),
];

/// Programs that run scripts: the script is their first argument.
const INTERPRETERS: &[&str] = &["node", "nodejs", "bun", "deno", "python", "python3"];

/// The variable that names the agent itself.
pub const AGENT_ID: &str = "JIT_AGENT_ID";

/// The name of an agent whose program is not known.
const UNKNOWN: &str = "unknown";

/// An agent program that this process runs inside of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetectedAgent {
    pub name: &'static str,
    /// The mark that identified it.
    pub mark: Mark,
    /// The process above this one that has the mark; `None`: this process.
    pub process: Option<u32>,
    /// The id of the agent: as a variable names it, else by its program.
    pub agent_id: AgentId,
}

/// A mark of a process that belongs to an agent program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Variable(&'static str),
    /// The process is this program.
    Program(&'static str),
    /// Nothing but that the processes above cannot be read.
    Unreadable,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => f.write_str(name),
            Self::Program(name) => write!(f, "the program {name}"),
            Self::Unreadable => f.write_str("processes that cannot be read"),
        }
    }
}

/// Looks up a variable.
type Lookup<'a> = Box<dyn Fn(&str) -> Option<OsString> + 'a>;

/// A process of the chain upwards, with its variables.
struct Link<'a> {
    process: Option<u32>,
    var: Lookup<'a>,
    /// The known program that it is, and the agent of that.
    program: Option<(&'static str, &'static str)>,
}

/// Returns the agent program that started this process, by the variables of this process and by all processes above it.
pub fn detect(var: impl Fn(&str) -> Option<OsString>) -> Option<DetectedAgent> {
    let own = Link {
        process: None,
        var: Box::new(var),
        program: None,
    };
    let read = process::above();
    let above = read.as_deref().unwrap_or_default().iter().map(|one| {
        let found: Environment = process::environment(one.pid).unwrap_or_default();
        Link {
            process: Some(one.pid),
            var: Box::new(move |name| found.get(name)),
            program: known(process::name(one.pid).as_deref(), &process::arguments(one.pid)),
        }
    });
    let found = in_chain(std::iter::once(own).chain(above));
    match read {
        Ok(_) => found,
        Err(_) => found.or_else(|| found_by(UNKNOWN, Mark::Unreadable, None)),
    }
}

/// Returns the known program of a process with this name and these arguments, and the agent of that.
fn known(name: Option<&str>, arguments: &[OsString]) -> Option<(&'static str, &'static str)> {
    let base = |word: &OsString| Path::new(word).file_name().map(OsStr::to_owned);
    let program = arguments.first().and_then(base);
    let script = arguments
        .get(1)
        .filter(|_| {
            INTERPRETERS
                .iter()
                .any(|one| program.as_deref() == Some(OsStr::new(one)))
        })
        .and_then(base);
    let names = [name.map(OsString::from), program, script];
    let is_named = |(known, _): &&(&str, &str)| names.iter().flatten().any(|name| name == *known);
    PROGRAMS.iter().find(is_named).copied()
}

/// Returns the agent program of these variables alone.
pub fn detect_in(var: impl Fn(&str) -> Option<OsString>) -> Option<DetectedAgent> {
    in_chain(std::iter::once(Link {
        process: None,
        var: Box::new(var),
        program: None,
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
                mark: Mark::Variable(AGENT_ID),
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
    let variable = MARKS.iter().find(|(variable, _)| set(variable));
    let variable = variable.map(|(variable, agent)| (Mark::Variable(variable), *agent));
    let program = || {
        link.program
            .map(|(program, agent)| (Mark::Program(program), agent))
    };
    let (mark, name) = variable.or_else(program)?;
    found_by(name, mark, link.process)
}

fn found_by(name: &'static str, mark: Mark, process: Option<u32>) -> Option<DetectedAgent> {
    Some(DetectedAgent {
        name,
        mark,
        process,
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
                program: None,
            }
        });
        in_chain(links).map(|found| match found.mark {
            Mark::Variable(variable) => (found.agent_id.to_string(), variable, found.process),
            other => panic!("{other:?}"),
        })
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
    fn l3_the_program_of_a_process_above_tells_the_agent() {
        let agent = |name: &str, arguments: &[&str]| {
            let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
            known(Some(name), &arguments).map(|(_, agent)| agent)
        };
        assert_eq!(agent("claude", &[]), Some("claude"));
        assert_eq!(agent("node", &["/opt/bin/claude"]), Some("claude"));
        assert_eq!(agent("node", &["node", "/usr/bin/gemini", "-p"]), Some("gemini"));
        assert_eq!(agent("vim", &["vim", "claude"]), None);
        assert_eq!(agent("bash", &["bash", "-c", "claude"]), None);
        assert_eq!(agent("cursor", &["cursor"]), None);
        let chain = [None, Some(("claude", "claude"))].into_iter().zip(0..);
        let links = chain.map(|(program, at)| Link {
            process: (at > 0).then_some(at),
            var: Box::new(|_| None),
            program,
        });
        let found = in_chain(links).expect("an agent");
        assert_eq!(
            (found.agent_id.as_str(), found.mark, found.process),
            ("agent:claude", Mark::Program("claude"), Some(1))
        );
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
