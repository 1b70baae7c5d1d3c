//! Adds jit's MCP server to the configuration of an agent program, and removes it again (I4).
//!
//! What must hold:
//! - The rest of the file is kept byte for byte. Installing twice is the same as installing once.
//! - Uninstalling removes exactly the entry, and the file itself only if it was created for the entry (`json` and `toml`
//!   explain how that is known). If another program reformatted the file in between, the new format stays.
//! - A file that its own program could not read is refused with line and column, and not changed.
//! - An entry called `jit` that does not start jit is refused, not replaced. One that does is kept with all additions of
//!   the user.
//! - Only the entry is shown: the rest of such files may hold secrets.
//! - If the file changes between reading and writing, nothing is written.
//!
//! Limitations: between the last check of the file and its replacement, a change by another program can be lost. Some
//! agent programs rewrite their files while they run.
//!
//! ```
//! use jit_agents::mcp_settings::{InstallScope, McpClient, plan};
//!
//! let project = tempfile::tempdir()?;
//! let no_variables = |_: &str| None;
//! let plan = plan(McpClient::Claude, InstallScope::Project, Some(project.path()), no_variables, true);
//! let edit = plan.expect("a plan");
//! edit.carry_out().expect("written");
//! let written = std::fs::read_to_string(project.path().join(".mcp.json"))?;
//! assert!(written.contains("\"command\": \"jit\""));
//! # Ok::<(), std::io::Error>(())
//! ```

mod json;
mod toml;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use jit_core::model::refusal::{Code, Outcome, Refusal};
use jit_os::file;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of the entry in every configuration.
const NAME: &str = "jit";
/// A larger configuration file is refused.
const MAX_FILE: u64 = 64 << 20;

/// An agent program whose configuration jit can edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum McpClient {
    Claude,
    Codex,
    Gemini,
    Cursor,
    VsCode,
}

/// For all projects of this user, or for all users of this project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InstallScope {
    User,
    Project,
}

impl McpClient {
    pub const ALL: [Self; 5] = [
        Self::Claude,
        Self::Codex,
        Self::Gemini,
        Self::Cursor,
        Self::VsCode,
    ];

    /// Its name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
        }
    }

    /// The usual place of such entries.
    pub fn usual_scope(self) -> InstallScope {
        match self {
            // Codex reads a project's file only after the user has trusted the project.
            Self::Codex => InstallScope::User,
            Self::Claude | Self::Gemini | Self::Cursor | Self::VsCode => InstallScope::Project,
        }
    }

    /// Its configuration file in a project.
    fn in_project(self) -> &'static str {
        match self {
            Self::Claude => ".mcp.json",
            Self::Codex => ".codex/config.toml",
            Self::Gemini => ".gemini/settings.json",
            Self::Cursor => ".cursor/mcp.json",
            Self::VsCode => ".vscode/mcp.json",
        }
    }

    /// Its configuration file for all projects of the user.
    fn of_user(self, var: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        let absolute = |name: &str| var(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || absolute("HOME");
        match self {
            Self::Claude => Some(absolute("CLAUDE_CONFIG_DIR").or_else(home)?.join(".claude.json")),
            Self::Codex => {
                let folder = absolute("CODEX_HOME").or_else(|| Some(home()?.join(".codex")))?;
                Some(folder.join("config.toml"))
            }
            Self::Gemini => Some(home()?.join(".gemini/settings.json")),
            Self::Cursor => Some(home()?.join(".cursor/mcp.json")),
            Self::VsCode if cfg!(target_os = "macos") => {
                Some(home()?.join("Library/Application Support/Code/User/mcp.json"))
            }
            Self::VsCode => {
                let folder = absolute("XDG_CONFIG_HOME").or_else(|| Some(home()?.join(".config")))?;
                Some(folder.join("Code/User/mcp.json"))
            }
        }
    }

    fn form(self) -> Form {
        match self {
            Self::Codex => Form::Toml,
            Self::VsCode => Form::Json {
                section: "servers",
                typed: true,
                comments: true,
            },
            Self::Gemini => Form::Json {
                section: "mcpServers",
                typed: false,
                comments: true,
            },
            Self::Claude => Form::Json {
                section: "mcpServers",
                typed: true,
                comments: false,
            },
            Self::Cursor => Form::Json {
                section: "mcpServers",
                typed: false,
                comments: false,
            },
        }
    }
}

/// The format of a configuration file.
#[derive(Debug, Clone, Copy)]
enum Form {
    Json {
        /// The key under which servers are.
        section: &'static str,
        /// Whether an entry has `"type": "stdio"`.
        typed: bool,
        /// Whether its program allows comments and trailing commas.
        comments: bool,
    },
    Toml,
}

/// A change of a configuration file.
#[derive(Debug, PartialEq, Eq)]
enum Edit {
    /// No change is needed.
    Nothing,
    Write(String),
    /// The file would be empty.
    Delete,
}

/// A configuration could not be edited.
#[derive(Debug, PartialEq, Eq)]
enum EditError {
    /// A syntax error: line and column, from one, and the reason.
    Broken(usize, usize, String),
    /// The entry called `jit` does not start jit.
    Foreign,
}

/// A change of one configuration file that is not written yet.
#[derive(Debug)]
pub struct ConfigEdit {
    pub file: PathBuf,
    /// The entry in the format of that file.
    pub entry: String,
    pub install: bool,
    edit: Edit,
    /// The content of the file when it was read.
    before: Option<Vec<u8>>,
    /// Follow a symbolic link: allowed for the user's own files.
    follow: bool,
}

fn refuse(code: Code, message: impl Into<String>) -> Box<Refusal> {
    Box::new(Refusal::new(code, message))
}

/// Plans the change that adds or removes the entry. Writes nothing yet.
pub fn plan(
    agent: McpClient,
    scope: InstallScope,
    project: Option<&Path>,
    var: impl Fn(&str) -> Option<OsString>,
    install: bool,
) -> Outcome<ConfigEdit> {
    let file = match scope {
        InstallScope::Project => project.map(|root| root.join(agent.in_project())).ok_or_else(|| {
            let refusal = Refusal::new(
                Code::NotFound,
                "there is no project here: no worktree and no .jit/",
            );
            Box::new(refusal.help("jit mcp install --agent <agent> --user"))
        })?,
        InstallScope::User => agent.of_user(var).ok_or_else(|| {
            refuse(
                Code::NotFound,
                "HOME is not set, so there is no configuration of yours",
            )
        })?,
    };
    let follow = scope == InstallScope::User;
    let shown = file.display();
    let before = read(&file, follow).map_err(|e| refuse(Code::Io, format!("cannot read {shown}: {e}")))?;
    let text = match &before {
        Some(bytes) => Some(std::str::from_utf8(bytes).map_err(|e| {
            refuse(
                Code::Invalid,
                format!("{shown} is not UTF-8 (byte {})", e.valid_up_to()),
            )
        })?),
        None => None,
    };
    let form = agent.form();
    let edit = match form {
        Form::Json {
            section,
            typed,
            comments,
        } => json::edit(text, section, typed, comments, install),
        Form::Toml => toml::edit(text, install),
    };
    let edit = edit.map_err(|trouble| match trouble {
        EditError::Broken(line, column, why) => {
            let message = format!("{shown} cannot be read, line {line}, column {column}: {why}");
            Box::new(Refusal::new(Code::Invalid, message).help("mend the file, then run the command again"))
        }
        EditError::Foreign => {
            let message = format!("{shown} has an entry called {NAME} that does not start jit mcp");
            Box::new(Refusal::new(Code::Exists, message).help("rename or remove that entry by hand"))
        }
    })?;
    let entry = match form {
        Form::Json { section, typed, .. } => json::fresh(section, typed),
        Form::Toml => toml::fresh(),
    };
    Ok(ConfigEdit {
        file,
        entry,
        install,
        edit,
        before,
        follow,
    })
}

fn read(file: &Path, follow: bool) -> io::Result<Option<Vec<u8>>> {
    let real = match follow.then(|| std::fs::canonicalize(file)) {
        Some(Ok(real)) => real,
        Some(Err(e)) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => file.to_owned(),
    };
    file::read_real(&real, MAX_FILE)
}

impl ConfigEdit {
    /// The content of the file when it was read.
    pub fn before(&self) -> Option<&[u8]> {
        self.before.as_deref()
    }

    pub fn changes_something(&self) -> bool {
        self.edit != Edit::Nothing
    }

    pub fn carry_out(&self) -> Outcome<()> {
        let shown = self.file.display();
        let failed = |e: io::Error| refuse(Code::Io, format!("cannot write {shown}: {e}"));
        if read(&self.file, self.follow).map_err(failed)? != self.before {
            let message = format!("{shown} has just been changed by another program; nothing was written");
            return Err(Box::new(
                Refusal::new(Code::Busy, message).help("run the command again"),
            ));
        }
        match &self.edit {
            Edit::Nothing => Ok(()),
            Edit::Delete => {
                std::fs::remove_file(&self.file).map_err(failed)?;
                if let Some(folder) = self.file.parent() {
                    // Fails if the folder is not empty.
                    let _ = std::fs::remove_dir(folder);
                }
                Ok(())
            }
            Edit::Write(text) => {
                if let Some(folder) = self.file.parent() {
                    self.make(folder).map_err(failed)?;
                }
                match self.follow {
                    true => file::replace(&self.file, text.as_bytes()),
                    false => file::replace_here(&self.file, text.as_bytes()),
                }
                .map_err(failed)
            }
        }
    }

    fn make(&self, folder: &Path) -> io::Result<()> {
        match self.follow {
            true => std::fs::create_dir_all(folder),
            // In a clone a symbolic link may lead anywhere.
            false => file::ensure_real_dir(folder),
        }
    }
}

/// Whether an entry starts this server.
fn is_ours(command: Option<&str>, first_words: &[&str]) -> bool {
    let program = command.and_then(|command| Path::new(command).file_name());
    program == Some(NAME.as_ref()) && first_words.contains(&"mcp")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(name: &str) -> Option<OsString> {
        (name == "HOME").then(|| "/h".into())
    }

    #[test]
    fn i4_each_agent_has_its_file() {
        let file = |agent: McpClient| agent.of_user(home).expect("a file");
        assert_eq!(file(McpClient::Claude), Path::new("/h/.claude.json"));
        assert_eq!(file(McpClient::Codex), Path::new("/h/.codex/config.toml"));
        assert_eq!(file(McpClient::Gemini), Path::new("/h/.gemini/settings.json"));
        assert_eq!(file(McpClient::Cursor), Path::new("/h/.cursor/mcp.json"));
        assert_eq!(McpClient::Claude.of_user(|_| None), None);
        let moved = |name: &str| (name == "CODEX_HOME").then(|| "/c".into());
        assert_eq!(McpClient::Codex.of_user(moved), Some("/c/config.toml".into()));
    }

    #[test]
    fn i4_a_file_that_changed_meanwhile_is_not_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(".mcp.json");
        let plan = plan(
            McpClient::Claude,
            InstallScope::Project,
            Some(folder.path()),
            home,
            true,
        )
        .expect("a plan");
        std::fs::write(&file, "{}").expect("written");
        assert_eq!(plan.carry_out().expect_err("refused").code, Code::Busy);
        assert_eq!(std::fs::read_to_string(&file).expect("read"), "{}");
    }

    #[test]
    fn i4_a_link_in_a_project_is_not_followed_and_one_of_the_users_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().join("real.json");
        std::fs::write(&real, "{}").expect("written");
        std::os::unix::fs::symlink(&real, folder.path().join(".mcp.json")).expect("a link");
        let refused = plan(
            McpClient::Claude,
            InstallScope::Project,
            Some(folder.path()),
            home,
            true,
        );
        assert_eq!(refused.expect_err("refused").code, Code::Io);
        std::os::unix::fs::symlink(&real, folder.path().join(".claude.json")).expect("a link");
        let at_home = |name: &str| (name == "HOME").then(|| folder.path().into());
        let mine = plan(McpClient::Claude, InstallScope::User, None, at_home, true).expect("a plan");
        mine.carry_out().expect("written");
        assert!(
            std::fs::read_to_string(&real)
                .expect("read")
                .contains("mcpServers")
        );
        let link = folder.path().join(".claude.json");
        assert!(link.symlink_metadata().expect("there").is_symlink());
    }
}
