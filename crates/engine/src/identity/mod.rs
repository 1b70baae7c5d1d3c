//! Determines the acting agent (A4).
//!
//! Order:
//! 1. the flag;
//! 2. `JIT_AGENT_ID`;
//! 3. the session of an agent that started this process;
//! 4. inside an agent program ([`detection`]): the agent that its variables name, else `agent:<program>`;
//! 5. `agent.toml` in the user's config folder, which names the person;
//! 6. `human:<OS user>`.
//!
//! Invariants:
//! - An explicit value is used or refused, never silently replaced by a weaker source. The refusal names the source
//!   of the value.
//! - Without an explicit value there is always an answer: a damaged `agent.toml` is a warning.
//! - For variables, empty is the same as unset; an empty flag is a mistake.
pub mod detection;
pub mod process_binding;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use jit_core::model::ids::{AgentId, BadId, SessionId};
use jit_os::process;
use toml::de::{DeTable, DeValue};

use crate::identity::detection::{DetectedAgent, Mark, detect_in};
use crate::identity::process_binding::Bound;

/// Kinds that need no configuration.
pub const KINDS: [&str; 3] = ["agent", "ci", "human"];

/// The source of an identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Flag,
    Environment,
    /// A parent of this process is an agent in that session.
    Session(SessionId),
    /// This process, or one above it, shows that it belongs to an agent program.
    AgentProgram {
        mark: Mark,
        process: Option<u32>,
    },
    AgentFile(PathBuf),
    OsUser,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("--agent-id"),
            Self::Environment => f.write_str("JIT_AGENT_ID"),
            Self::Session(id) => write!(f, "{id}, the session of a process above this one"),
            Self::AgentProgram { mark, process } => match (mark, process) {
                (mark, Some(pid)) => write!(f, "{mark} of process {pid}, above this one"),
                (Mark::Variable(name), None) => write!(f, "{name}, which agent programs set"),
                (mark, None) => mark.fmt(f),
            },
            Self::AgentFile(path) => write!(f, "{}", path.display()),
            Self::OsUser => f.write_str("the operating system's user"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whoami {
    pub agent_id: AgentId,
    pub source: Source,
    pub detected_agent: Option<DetectedAgent>,
    /// Sentences for standard error.
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    #[error("{from}: {bad}")]
    Invalid { from: Source, bad: BadId },
    #[error("{from}: the value is not UTF-8")]
    NotUtf8 { from: Source },
    #[error("cannot tell who runs this command: /etc/passwd cannot be read: {why}; set JIT_AGENT_ID")]
    NoUser { why: String },
    #[error(
        "{from}: the kind of {id} is not known (known: {known}); to allow it, put \
         `kinds = [\"{kind}\"]` under `[agents]` in .jit/config.toml",
        kind = id.kind()
    )]
    UnknownKind {
        from: Source,
        id: AgentId,
        known: String,
    },
}

/// The environment, as plain values.
#[derive(Debug, Clone, Default)]
pub struct AgentEnv {
    pub agent_id: Option<OsString>,
    /// The user's config folder for jit.
    pub config_folder: Option<PathBuf>,
    /// The agent program that this process runs inside of.
    pub detected: Option<DetectedAgent>,
    /// The session that a parent of this process was bound to.
    pub session: Option<Bound>,
    /// `None`: the system is asked, but only if nothing else is known.
    pub os_user: Option<String>,
}

impl AgentEnv {
    /// The variables of this process alone. Those of the processes above it are read by [`detection::detect`].
    pub fn from_process() -> Self {
        Self::from_lookup(|name| std::env::var_os(name))
    }

    /// Returns whether the caller says itself, by flag or variable, that it is an agent.
    pub fn says_agent(&self, flag: Option<&str>) -> bool {
        let said = flag.or_else(|| self.agent_id.as_ref()?.to_str());
        said.is_some_and(|id| id.starts_with("agent:"))
    }

    pub fn from_lookup(var: impl Fn(&str) -> Option<OsString>) -> Self {
        Self {
            agent_id: var("JIT_AGENT_ID").filter(|value| !value.is_empty()),
            config_folder: user_folder(&var),
            detected: detect_in(&var),
            session: None,
            os_user: None,
        }
    }
}

/// Returns the user's config folder for jit: `$XDG_CONFIG_HOME/jit`, else `~/.config/jit`. By the XDG rules a
/// relative value does not count.
pub fn user_folder(var: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| var(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CONFIG_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".config")))
        .map(|folder| folder.join("jit"))
}

/// Returns the acting agent. `extra_kinds` are the kinds that the configuration allows besides [`KINDS`].
pub fn resolve(flag: Option<&str>, env: &AgentEnv, extra_kinds: &[String]) -> Result<Whoami, AgentError> {
    let mut warnings = Vec::new();
    let (agent_id, source) = if let Some(text) = flag {
        (parse(text, Source::Flag, extra_kinds)?, Source::Flag)
    } else if let Some(value) = env.agent_id.as_ref().filter(|value| !value.is_empty()) {
        let from = Source::Environment;
        let Some(text) = value.to_str() else {
            return Err(AgentError::NotUtf8 { from });
        };
        (parse(text, from, extra_kinds)?, Source::Environment)
    } else if let Some(bound) = &env.session {
        (bound.agent_id.clone(), Source::Session(bound.session_id.clone()))
    } else if let Some(found) = &env.detected {
        let source = Source::AgentProgram {
            mark: found.mark,
            process: found.process,
        };
        (found.agent_id.clone(), source)
    } else if let Some(found) = from_file(env, extra_kinds, &mut warnings) {
        found
    } else {
        let user = match &env.os_user {
            Some(user) => user.clone(),
            None => process::user_name().map_err(|e| AgentError::NoUser { why: e.to_string() })?,
        };
        (human(&user), Source::OsUser)
    };
    Ok(Whoami {
        agent_id,
        source,
        detected_agent: env.detected.clone(),
        warnings,
    })
}

fn parse(text: &str, from: Source, extra_kinds: &[String]) -> Result<AgentId, AgentError> {
    let id: AgentId = match text.parse() {
        Ok(id) => id,
        Err(bad) => return Err(AgentError::Invalid { from, bad }),
    };
    let known = || KINDS.into_iter().chain(extra_kinds.iter().map(String::as_str));
    if known().any(|kind| kind == id.kind()) {
        return Ok(id);
    }
    let known = known().collect::<Vec<_>>().join(", ");
    Err(AgentError::UnknownKind { from, id, known })
}

fn from_file(
    env: &AgentEnv,
    extra_kinds: &[String],
    warnings: &mut Vec<String>,
) -> Option<(AgentId, Source)> {
    let path = env.config_folder.as_deref()?.join("agent.toml");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => {
            warnings.push(format!("{} is not used: {error}", path.display()));
            return None;
        }
    };
    match id_in_file(&text, &path, extra_kinds) {
        Ok(id) => Some((id, Source::AgentFile(path))),
        Err(why) => {
            warnings.push(why);
            None
        }
    }
}

fn id_in_file(text: &str, path: &Path, extra_kinds: &[String]) -> Result<AgentId, String> {
    let unused = |why: &str| format!("{} is not used: {why}", path.display());
    let table = DeTable::parse(text).map_err(|error| unused(error.message()))?;
    let id = match table.get_ref().get("agent").map(|agent| agent.get_ref()) {
        Some(DeValue::Table(agent)) => agent.get("id").map(|id| id.get_ref()),
        _ => None,
    };
    match id {
        Some(DeValue::String(id)) => {
            parse(id, Source::AgentFile(path.to_owned()), extra_kinds).map_err(|error| error.to_string())
        }
        _ => Err(unused("it has no text `id` under `[agent]`")),
    }
}

/// Returns `human:<user>`, or `human:uid-<number>` if the user name is not a valid id.
fn human(user: &str) -> AgentId {
    let fallback = || format!("human:uid-{}", rustix::process::getuid().as_raw());
    match format!("human:{user}").parse().or_else(|_| fallback().parse()) {
        Ok(id) => id,
        Err(error) => unreachable!("{error}"),
    }
}

/// Returns `$XDG_DATA_HOME/jit`, else `~/.local/share/jit`. By the XDG rules a relative value does not count.
pub(crate) fn data_folder(var: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| var(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local").join("share")))
        .map(|folder| folder.join("jit"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env() -> AgentEnv {
        AgentEnv {
            os_user: Some("alice".to_owned()),
            ..AgentEnv::default()
        }
    }

    fn with_file(content: &str) -> (tempfile::TempDir, AgentEnv) {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::write(folder.path().join("agent.toml"), content).expect("write");
        let env = AgentEnv {
            config_folder: Some(folder.path().to_owned()),
            ..env()
        };
        (folder, env)
    }

    fn who(flag: Option<&str>, env: &AgentEnv) -> (String, Source) {
        let me = resolve(flag, env, &[]).expect("somebody");
        assert_eq!(me.warnings, [] as [String; 0]);
        (me.agent_id.to_string(), me.source)
    }

    #[test]
    fn a4_the_order() {
        let (folder, mut env) =
            with_file("[agent]\nid = \"agent:file\"\ncreated_at = 2026-01-03T12:00:00Z\n");
        let file = Source::AgentFile(folder.path().join("agent.toml"));
        assert_eq!(who(None, &env), ("agent:file".to_owned(), file));
        env.agent_id = Some("ci:env".into());
        assert_eq!(who(None, &env), ("ci:env".to_owned(), Source::Environment));
        assert_eq!(
            who(Some("human:flag"), &env),
            ("human:flag".to_owned(), Source::Flag)
        );
        env.agent_id = Some(OsString::new());
        env.config_folder = None;
        assert_eq!(who(None, &env), ("human:alice".to_owned(), Source::OsUser));
    }

    #[test]
    fn a4_the_persons_file_does_not_speak_for_an_agent() {
        let (_folder, mut env) = with_file("[agent]\nid = \"human:boss\"\n");
        env.detected = detect_in(|name| (name == "CLAUDECODE").then(|| "1".into()));
        let me = resolve(None, &env, &[]).expect("somebody");
        assert_eq!(me.agent_id.as_str(), "agent:claude");
        assert!(
            matches!(me.source, Source::AgentProgram { .. }),
            "{:?}",
            me.source
        );
        assert_eq!(me.detected_agent.map(|agent| agent.name), Some("claude"));
        // An id that was asked for is used. The rights are the agent's all the same.
        let me = resolve(Some("human:boss"), &env, &[]).expect("somebody");
        assert_eq!(me.agent_id.as_str(), "human:boss");
        assert_eq!(me.detected_agent.map(|agent| agent.name), Some("claude"));
    }

    #[test]
    fn a4_what_was_asked_for_is_used_or_refused() {
        let mut env = env();
        let error = resolve(Some("nonsense"), &env, &[]).expect_err("refused");
        assert!(error.to_string().starts_with("--agent-id: "), "{error}");
        assert!(resolve(Some(""), &env, &[]).is_err());
        env.agent_id = Some("agent:\u{1b}[31m".into());
        let error = resolve(None, &env, &[]).expect_err("refused");
        assert!(error.to_string().starts_with("JIT_AGENT_ID: ") && !error.to_string().contains('\u{1b}'));
        env.agent_id = Some(std::os::unix::ffi::OsStringExt::from_vec(b"agent:\xff".to_vec()));
        assert!(matches!(
            resolve(None, &env, &[]),
            Err(AgentError::NotUtf8 { .. })
        ));
    }

    #[test]
    fn a4_kinds_are_known_or_configured() {
        let error = resolve(Some("bot:x"), &env(), &["robot".to_owned()]).expect_err("refused");
        let text = error.to_string();
        assert!(
            text.contains("agent, ci, human, robot") && text.contains("kinds = [\"bot\"]"),
            "{text}"
        );
        let me = resolve(Some("bot:x"), &env(), &["bot".to_owned()]).expect("allowed");
        assert_eq!(me.agent_id.as_str(), "bot:x");
    }

    #[test]
    fn a4_a_damaged_file_is_a_warning() {
        for content in [
            "",
            "[agent",
            "[agent]\nid = 3",
            "agent = 1",
            "[agent]\nid = \"x\"",
            "[agent]\nid = \"bot:x\"",
        ] {
            let (_folder, env) = with_file(content);
            let me = resolve(None, &env, &[]).expect("never an error");
            assert_eq!(me.agent_id.as_str(), "human:alice", "{content:?}");
            assert_eq!(me.warnings.len(), 1, "{content:?}");
            assert!(me.warnings[0].contains("agent.toml"), "{:?}", me.warnings);
        }
    }

    #[test]
    fn a4_every_user_has_a_name() {
        for user in ["", " ", "a\nb", &"x".repeat(500)] {
            assert!(human(user).as_str().starts_with("human:uid-"), "{user:?}");
        }
        assert_eq!(human("zoë q").as_str(), "human:zoë q");
        let me = resolve(None, &AgentEnv::default(), &[]).expect("somebody");
        assert_eq!(me.source, Source::OsUser);
    }

    #[test]
    fn a4_config_folder() {
        let folder = |xdg: Option<&str>, home: Option<&str>| {
            let (xdg, home) = (xdg.map(OsString::from), home.map(OsString::from));
            user_folder(move |name| match name {
                "XDG_CONFIG_HOME" => xdg.clone(),
                "HOME" => home.clone(),
                _ => None,
            })
        };
        assert_eq!(folder(Some("/x"), Some("/h")), Some(PathBuf::from("/x/jit")));
        assert_eq!(
            folder(Some("rel"), Some("/h")),
            Some(PathBuf::from("/h/.config/jit"))
        );
        assert_eq!(folder(None, Some("/h")), Some(PathBuf::from("/h/.config/jit")));
        assert_eq!(folder(None, None), None);
    }
}
