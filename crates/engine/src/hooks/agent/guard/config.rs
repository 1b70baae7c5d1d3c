//! Git's settings: they decide which programs git runs, for everybody in the repository. An agent reads them, and sets
//! only harmless ones ([`HARMLESS`]): with `git config`, `git -c`, `--config-env` and `GIT_CONFIG_…` alike.

use jit_agents::hooks::decision::Objection;
use jit_agents::hooks::shell::Word;

use super::git::GitCall;
use super::{Judge, joined, options};

/// Settings that name no program, no file and no address, in lower case. `x.*` stands for all of a section.
const HARMLESS: &[&str] = &[
    "advice.*",
    "color.*",
    "column.ui",
    "commit.gpgsign",
    "commit.verbose",
    "core.abbrev",
    "core.autocrlf",
    "core.quotepath",
    "diff.algorithm",
    "diff.context",
    "diff.renamelimit",
    "diff.renames",
    "gc.auto",
    "init.defaultbranch",
    "log.date",
    "log.decorate",
    "merge.conflictstyle",
    "protocol.version",
    "pull.ff",
    "pull.rebase",
    "push.autosetupremote",
    "push.default",
    "rebase.autosquash",
    "tag.gpgsign",
    "user.email",
    "user.name",
];
/// Variables that have settings, and set none by themselves.
const COUNTS: &[&str] = &["GIT_CONFIG_COUNT", "GIT_CONFIG_NOSYSTEM"];

/// Options of `git config` with a value of their own.
pub(super) const VALUED: &[&str] = &[
    "-f",
    "--file",
    "--blob",
    "--type",
    "--default",
    "--comment",
    "--value",
    "--url",
];
/// Options of `git config` that make it read.
const READS: &[&str] = &[
    "-l",
    "--list",
    "--get",
    "--get-all",
    "--get-regexp",
    "--get-urlmatch",
    "--get-color",
    "--get-colorbool",
];
/// Options of `git config` that neither read nor write.
const PLAIN: &[&str] = &[
    "-f",
    "--file",
    "--global",
    "--local",
    "--system",
    "--worktree",
    "--bool",
    "--int",
    "--bool-or-int",
    "--path",
    "--type",
    "--default",
    "-z",
    "--null",
    "--name-only",
    "--show-origin",
    "--show-scope",
    "--includes",
    "--no-includes",
];
/// Options of `git config` that change one key.
const CHANGES: &[&str] = &[
    "--add",
    "--replace-all",
    "--unset",
    "--unset-all",
    "--all",
    "--append",
];

/// Whether the key, alone or with a value behind `=`, is harmless.
fn is_harmless(setting: &str) -> bool {
    let name = setting.split('=').next().unwrap_or_default().to_ascii_lowercase();
    let section = name.split('.').next().unwrap_or_default();
    HARMLESS.contains(&name.as_str()) || HARMLESS.contains(&format!("{section}.*").as_str())
}

/// Whether this variable gives git no setting, or a harmless one.
pub(super) fn is_harmless_variable(name: &str, value: Word) -> bool {
    match name.strip_prefix("GIT_CONFIG") {
        None => true,
        Some(rest) if rest.starts_with("_KEY_") => value.known && is_harmless(&value.text),
        Some(rest) => rest.starts_with("_VALUE_") || COUNTS.contains(&name),
    }
}

impl GitCall<'_> {
    /// Whether this call of `git config` only reads.
    pub fn reads_config(&self) -> bool {
        let flags = options::flags(self.args, VALUED);
        let is_plain = flags.iter().all(|flag| PLAIN.contains(flag));
        match self.free(VALUED).as_slice() {
            _ if flags.iter().any(|flag| READS.contains(flag)) => true,
            [] => flags.is_empty(),
            [verb, ..] if verb.known && matches!(verb.text.as_str(), "get" | "list") => true,
            // Without a dot it is the name of a subcommand.
            [key] => key.known && key.text.contains('.') && is_plain,
            _ => false,
        }
    }

    /// Whether this call of `git config` sets or removes one harmless key.
    fn sets_harmless(&self) -> bool {
        let flags = options::flags(self.args, VALUED);
        let mut free = self.free(VALUED).into_iter();
        let key = match free.next() {
            Some(verb) if matches!(verb.text.as_str(), "set" | "unset") => free.next(),
            first => first,
        };
        key.is_some_and(|key| key.known && is_harmless(&key.text))
            && flags
                .iter()
                .all(|flag| PLAIN.contains(flag) || CHANGES.contains(flag))
    }
}

impl Judge<'_> {
    pub(super) fn config(&mut self, call: &GitCall<'_>) {
        if call.name == "config" && !call.reads_config() && !call.sets_harmless() {
            self.sets(&format!("git config {}", joined(call.args)));
        }
    }

    /// Judges the value of `git -c` and `git --config-env`.
    pub(super) fn setting(&mut self, setting: &Word) {
        if !(setting.known && is_harmless(&setting.text)) {
            self.sets(&setting.text);
        }
    }

    /// Objects to a setting that is not harmless.
    pub(super) fn sets(&mut self, text: &str) {
        let text: String = text.chars().take(60).collect();
        self.verdict.add(
            self.rules.most,
            Objection::new(
                format!("{text:?} changes a setting of git, and settings decide what git runs."),
                "Leave git's settings as they are; user.name, user.email and a few others are free (docs/agents.md).",
            ),
        );
    }
}
