//! Decides the permission requests of an agent (F9, G15).
//!
//! What must hold:
//!
//! - everything a step shows is checked, whatever kind the agent assigns to it: a diff is a write and a command is a
//!   command, even in a step that claims to be a read;
//! - a step is denied if it changes something without showing what, or if it is too large to check;
//! - a path is inside if it is below the worktree and no symbolic link leads out of it.
//!
//! The questions use the tool names of Claude Code (`Write`, `Bash`, `Read`, …), for which the rules are written.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::wire::{PermissionOption, ToolCall, ToolContent};
use crate::ask::{Ask, Permission, Question};
use crate::rules::is_inside;
use crate::text::short;

/// Maximum number of files of one step.
const MOST: usize = 200;

/// Input fields that name changed paths.
const PATHS: [&str; 14] = [
    "file_path",
    "filePath",
    "notebook_path",
    "notebookPath",
    "path",
    "abs_path",
    "absolute_path",
    "old_path",
    "new_path",
    "source",
    "destination",
    "source_path",
    "destination_path",
    "target_file",
];

/// A step that the agent asks permission for.
#[derive(Debug)]
pub struct ToolStep<'a> {
    pub call: &'a ToolCall,
    /// The agent's own name of the tool, if known.
    pub tool: Option<&'a str>,
    pub dir: &'a Path,
}

impl ToolStep<'_> {
    /// Decides the step.
    pub fn judge(&self, ask: &mut dyn Ask) -> Permission {
        let mut warnings = Vec::new();
        let questions = match self.questions() {
            Ok(questions) => questions,
            Err(why) => return not_judged(&why),
        };
        for (tool, input, leave) in questions {
            let Ok(raw) = serde_json::value::to_raw_value(&input) else {
                return not_judged("its description is not JSON");
            };
            match self.ask(&tool, &raw, &input, leave, ask) {
                Permission::Allow => {}
                Permission::Warn(text) => warnings.push(text),
                no @ Permission::Deny(_) => return no,
            }
        }
        match warnings.is_empty() {
            true => Permission::Allow,
            false => Permission::Warn(warnings.join("\n")),
        }
    }

    fn ask(&self, tool: &str, raw: &RawValue, input: &Value, leave: Needs, ask: &mut dyn Ask) -> Permission {
        let cwd = self.cwd(input);
        let question = Question {
            tool,
            input: raw,
            cwd: Some(&cwd),
        };
        match leave {
            Needs::Inside => ask.may(&question),
            Needs::ByRule => ask.approve(&question),
        }
    }

    /// The directory in which a command runs.
    fn cwd(&self, input: &Value) -> PathBuf {
        let named = ["cwd", "workdir", "dir_path", "directory"]
            .iter()
            .find_map(|name| input.get(name).and_then(Value::as_str));
        // `join` keeps an absolute path unchanged.
        named.map_or_else(|| self.dir.to_owned(), |named| self.dir.join(named))
    }

    fn questions(&self) -> Result<Vec<(String, Value, Needs)>, String> {
        let kind = self.call.kind.as_deref().unwrap_or("other");
        let input = self.call.raw_input.clone().unwrap_or(Value::Null);
        let mut all = Vec::new();
        let diffs = self.diffs();
        let changes = matches!(kind, "edit" | "delete" | "move");
        if changes || !diffs.is_empty() {
            let mut paths = diffs;
            paths.extend(self.named());
            if paths.is_empty() {
                return Err("it does not say which files it changes".to_owned());
            }
            all.extend(self.about("Write", paths)?);
        }
        let command = self.command()?;
        if let Some(command) = &command {
            let mut asked = json!({ "command": command });
            for name in ["cwd", "workdir", "dir_path", "directory"] {
                if let Some(dir) = input.get(name) {
                    asked["cwd"] = dir.clone();
                }
            }
            all.push(("Bash".to_owned(), asked, Needs::ByRule));
        }
        match kind {
            "edit" | "delete" | "move" => {}
            "execute" if command.is_none() => return Err("it does not say which command it is".to_owned()),
            "execute" | "think" => {}
            "read" => {
                let paths = self.named();
                match paths.is_empty() {
                    true => all.push(("Read".to_owned(), input, Needs::ByRule)),
                    false => all.extend(self.about("Read", paths)?),
                }
            }
            "search" => all.extend(self.about("Grep", self.named())?),
            "fetch" => all.push((self.tool.unwrap_or("WebFetch").to_owned(), input, Needs::ByRule)),
            _ => {
                let name = self.tool.unwrap_or(kind).to_owned();
                all.push((name, input, Needs::ByRule));
            }
        }
        Ok(all)
    }

    /// A question for each path. A path inside needs no rule, but a lock can deny it.
    fn about(&self, tool: &str, paths: BTreeSet<PathBuf>) -> Result<Vec<(String, Value, Needs)>, String> {
        if paths.len() > MOST {
            return Err(format!("it is about more than {MOST} files"));
        }
        let each = |path: PathBuf| {
            let text = path
                .to_str()
                .filter(|text| !text.contains('\0') && !text.is_empty());
            let text = text.ok_or("a path in it is not one")?;
            let leave = match is_inside(self.dir, &path) {
                true => Needs::Inside,
                false => Needs::ByRule,
            };
            Ok((tool.to_owned(), json!({ "file_path": text }), leave))
        };
        paths.into_iter().map(each).collect()
    }

    fn diffs(&self) -> BTreeSet<PathBuf> {
        let parts = self.call.content.iter().flatten();
        parts
            .filter_map(|part| match part {
                ToolContent::Diff { path } => Some(path.clone()),
                _ => None,
            })
            .collect()
    }

    /// The paths in its locations and its input.
    fn named(&self) -> BTreeSet<PathBuf> {
        let places = self.call.locations.iter().flatten().map(|one| one.path.clone());
        let input = self.call.raw_input.as_ref();
        let fields = PATHS.iter().filter_map(|name| input?.get(name)?.as_str());
        // Codex sends a map of changes.
        let changes = input.and_then(|input| input.get("changes")?.as_object());
        let changes = changes.into_iter().flatten().map(|(name, _)| name.as_str());
        places.chain(fields.chain(changes).map(PathBuf::from)).collect()
    }

    /// The command line of the step.
    fn command(&self) -> Result<Option<String>, String> {
        let input = self.call.raw_input.as_ref().filter(|input| !is_empty(input));
        let given = input.and_then(|input| input.get("command").or_else(|| input.get("cmd")));
        match given {
            Some(Value::String(text)) if !text.trim().is_empty() => Ok(Some(text.clone())),
            Some(Value::Array(words)) if !words.is_empty() => {
                let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
                let words = words.ok_or("its command is not made of words")?;
                Ok(Some(line(&words)))
            }
            Some(_) => Err("its command is not one".to_owned()),
            None if self.call.kind.as_deref() != Some("execute") => Ok(None),
            None if input.is_some() => Err("it does not say which command it is".to_owned()),
            // Only the title for people is left.
            None => match self.call.title.as_deref().map(shown) {
                Some(title) if title.ends_with('…') || title.ends_with("...") => {
                    Err("it does not show all of its command".to_owned())
                }
                Some(title) if !title.is_empty() => Ok(Some(title.to_owned())),
                _ => Ok(None),
            },
        }
    }
}

/// The approval that a step needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// None, unless there is an objection.
    Inside,
    ByRule,
}

fn is_empty(input: &Value) -> bool {
    match input {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// A title may be formatted as code.
fn shown(title: &str) -> &str {
    let title = title.trim();
    let inner = title.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
    inner.filter(|inner| !inner.contains('`')).unwrap_or(title)
}

/// A command line for these words. If they only start a shell, it is the shell's command line.
fn line(words: &[&str]) -> String {
    if let [shell, flag, text] = words
        && matches!(
            shell.rsplit('/').next(),
            Some("sh" | "bash" | "zsh" | "dash" | "ash")
        )
        && matches!(*flag, "-c" | "-lc")
    {
        return (*text).to_owned();
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    let quoted = words
        .iter()
        .map(|word| match !word.is_empty() && word.chars().all(plain) {
            true => (*word).to_owned(),
            false => format!("'{}'", word.replace('\'', r"'\''")),
        });
    quoted.collect::<Vec<_>>().join(" ")
}

pub fn not_judged(why: &str) -> Permission {
    Permission::Deny(format!(
        "jit: this step cannot be judged: {}. Try it in another way, in smaller steps.",
        short(why, 200)
    ))
}

/// The option with the kind for this permission, if there is one. Permission is given once, never permanently.
pub fn choose<'a>(options: &'a [PermissionOption], permission: &Permission) -> Option<&'a str> {
    let of = |kind: &str| options.iter().find(|option| option.kind == kind);
    let option = match permission {
        Permission::Allow | Permission::Warn(_) => of("allow_once"),
        Permission::Deny(_) => of("reject_once").or_else(|| of("reject_always")),
    };
    option.map(|option| option.option_id.as_str())
}
