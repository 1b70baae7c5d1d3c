//! The git program with a clean environment.
//!
//! What must hold:
//! - Variables by which a running git tells its children where they are (GIT_DIR, GIT_INDEX_FILE and the like, which
//!   hooks inherit) do not reach a git started here. Only those in `KEPT` do: they hold a user's settings.
//! - Git never waits for a person: no prompt, no editor, no pager, no program that asks for a password.
//! - Git's messages are in English.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

/// Variables that hold a user's settings: configuration files, how to reach a server.
const KEPT: &[&str] = &[
    "GIT_ALLOW_PROTOCOL",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_EXEC_PATH",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "GIT_SSL_NO_VERIFY",
    "GIT_PROXY_COMMAND",
];

/// Whether a variable holds the identity or the git settings of the user. An agent that commits for them needs these.
pub fn is_users_own(name: &OsStr) -> bool {
    let who = [
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
    ];
    who.iter().chain(KEPT).any(|kept| name == *kept)
}

/// Git as if started in `dir`, still without arguments.
pub(crate) fn command(dir: &Path) -> Command {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.as_bytes().starts_with(b"GIT_") && !KEPT.iter().any(|kept| name == *kept) {
            command.env_remove(name);
        }
    }
    command
        .env("LC_ALL", "C")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_ASKPASS", "")
        .env("GIT_EDITOR", ":")
        .env("GIT_SEQUENCE_EDITOR", ":")
        .env("GIT_PAGER", "cat")
        .env("GIT_MERGE_AUTOEDIT", "no")
        .env("GCM_INTERACTIVE", "never")
        .current_dir(dir);
    command
}

/// The variables with the settings that the caller of a hook passed with `git -c`.
pub(crate) fn callers_settings() -> impl Iterator<Item = (OsString, OsString)> {
    let own = ["GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT"];
    std::env::vars_os().filter(move |(name, _)| {
        let bytes = name.as_bytes();
        own.iter().any(|own| name == *own)
            || bytes.starts_with(b"GIT_CONFIG_KEY_")
            || bytes.starts_with(b"GIT_CONFIG_VALUE_")
    })
}
