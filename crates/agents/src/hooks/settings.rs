//! Adds jit's hook to the settings of an agent program, and removes it again (F9).
//!
//! What must hold:
//! - nothing else in the file changes: it is edited as text; order, whitespace and unknown keys stay;
//! - adding twice equals adding once. Removing the hook restores the file byte for byte, and deletes the file only if
//!   it was created for the hook;
//! - a file with an unexpected structure stays unchanged.
//!
//! Removing works without notes elsewhere, because whitespace tells who created an object. If an empty object existed
//! before, jit's member follows its bracket directly: `{"hooks": …`. Brackets that jit creates are followed by
//! whitespace. If someone reformats the file in between, removing keeps the new format and drops objects that become
//! empty.
//!
//! Format: all three programs have `{"hooks": {"<event>": [{"matcher": …, "hooks": [{"type": "command", …}]}]}}`.
//!
//! Limitations: a file with comments is not JSON and is refused; the user edits it by hand.

use std::borrow::Cow;
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{HookEvent, Program};

/// The scope of a settings file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// All users of this repository, once the file is committed.
    Project,
    /// This user, in all repositories.
    User,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSettings {
    #[error("it is not plain JSON: {0}")]
    Json(String),
    #[error("{0} in it is not {1}")]
    Shape(String, &'static str),
}

/// The settings file of this program. `None` if there is no home directory.
pub fn file(
    program: Program,
    reach: Reach,
    root: &Path,
    var: impl Fn(&str) -> Option<OsString>,
) -> Option<PathBuf> {
    let (folder, name, variable) = match program {
        Program::Claude => (".claude", "settings.json", Some("CLAUDE_CONFIG_DIR")),
        Program::Codex => (".codex", "hooks.json", Some("CODEX_HOME")),
        Program::Gemini => (".gemini", "settings.json", None),
    };
    let absolute = |name: &str| var(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = match reach {
        Reach::Project => root.join(folder),
        Reach::User => match variable.and_then(absolute) {
            Some(folder) => folder,
            None => absolute("HOME")?.join(folder),
        },
    };
    Some(folder.join(name))
}

/// All files in which agent programs look for hooks and permissions, for a session in `root`.
pub fn restraining(root: &Path, var: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for program in Program::ALL {
        let others: &[&str] = match program {
            Program::Claude => &["settings.local.json"],
            Program::Codex => &["config.toml"],
            Program::Gemini => &["policies"],
        };
        for file in [Reach::Project, Reach::User].map(|reach| file(program, reach, root, &var)) {
            let Some(file) = file else { continue };
            all.extend(others.iter().map(|name| file.with_file_name(name)));
            all.push(file);
        }
    }
    all
}

/// The settings with the hook. `jit` is the command that starts jit.
pub fn with_hook(text: Option<&str>, program: Program, jit: &str) -> Result<String, BadSettings> {
    let others = match text {
        Some(text) => without_hook(text)?,
        None => None,
    };
    let mut text = others.unwrap_or_default();
    for event in HookEvent::ALL {
        let (name, group) = (event.name(program), group(program, event, jit));
        text = match text.is_empty() {
            true => format!(
                "{{\n  {}\n}}\n",
                member("hooks", &json!({ name: [group] }), "\n  ")
            ),
            false => add(&text, name, &group)?,
        };
    }
    Ok(text)
}

/// The settings without the hook. `None` if the file was created for the hook.
pub fn without_hook(text: &str) -> Result<Option<String>, BadSettings> {
    let mut text = text.to_owned();
    loop {
        match without_one(&text)? {
            Removal::Same => return Ok(Some(text)),
            Removal::Text(less) => text = less,
            Removal::Nothing => return Ok(None),
        }
    }
}

/// Whether the settings contain the hook.
pub fn has_hook(text: &str) -> bool {
    without_hook(text).is_ok_and(|without| without.as_deref() != Some(text))
}

/// The settings after one of our commands was removed.
enum Removal {
    /// There was none.
    Same,
    Text(String),
    Nothing,
}

/// The pattern of tools that the hook is called for.
pub fn matcher(program: Program) -> &'static str {
    match program {
        Program::Claude => "Edit|Write|MultiEdit|NotebookEdit|Bash|Monitor|PowerShell",
        Program::Codex => "^(Bash|apply_patch)$",
        Program::Gemini => "^(write_file|replace|edit|run_shell_command)$",
    }
}

/// Whether the hook is called for this tool.
pub fn asks_about(program: Program, tool: &str) -> bool {
    let matcher = matcher(program).trim_start_matches("^(").trim_end_matches(")$");
    matcher.split('|').any(|name| name == tool)
}

fn group(program: Program, event: HookEvent, jit: &str) -> Value {
    let name = event.name(program);
    let secs = match (program, event) {
        // The longest time that Codex allows there.
        (Program::Codex, HookEvent::SessionEnd) => 3,
        _ => 15,
    };
    let timeout = match program {
        Program::Gemini => secs * 1000,
        Program::Claude | Program::Codex => secs,
    };
    let command = format!("{jit} hooks agent {program} {name}");
    let mut handler = json!({ "type": "command", "command": command, "timeout": timeout });
    if program == Program::Gemini {
        handler["name"] = json!("jit");
    }
    let mut group = json!({ "hooks": [handler] });
    if matches!(event, HookEvent::BeforeTool | HookEvent::AfterTool) {
        group["matcher"] = json!(matcher(program));
    }
    group
}

/// Whether a command is one of ours, for any path of jit.
fn is_ours(command: &str) -> bool {
    let Some((program, args)) = command.split_once(" hooks agent ") else {
        return false;
    };
    let program = program.trim_matches(['\'', '"']);
    let known = Program::ALL.iter().any(|known| args.starts_with(known.as_str()));
    known && program.rsplit('/').next() == Some("jit")
}

/// An object or array in a text, with the ranges of its parts.
struct JsonNode {
    open: usize,
    close: usize,
    /// Names (empty in arrays) and ranges of values.
    parts: Vec<(String, Range<usize>)>,
}

/// The members of an object in their order.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    members.push((Cow::Owned(name), value));
                }
                Ok(Members(members))
            }
        }
        from.deserialize_map(Visit)
    }
}

impl JsonNode {
    fn read(text: &str, span: Range<usize>, name: &str) -> Result<Self, BadSettings> {
        let part = text.get(span.clone()).unwrap_or_default();
        let skipped = part.len() - part.trim_start().len();
        let open = span.start + skipped;
        let close = span.start + part.trim_end().len().saturating_sub(1);
        let at = |raw: &RawValue| {
            let begin = raw.get().as_ptr().addr() - text.as_ptr().addr();
            begin..begin + raw.get().len()
        };
        let json = |e: serde_json::Error| BadSettings::Json(e.to_string());
        let parts = match part.trim_start().as_bytes().first() {
            Some(b'{') => {
                let Members(members) = serde_json::from_str(part).map_err(json)?;
                let named = members.into_iter();
                named.map(|(name, raw)| (name.into_owned(), at(raw))).collect()
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(part).map_err(json)?;
                items.into_iter().map(|raw| (String::new(), at(raw))).collect()
            }
            _ => {
                let _: &RawValue = serde_json::from_str(part).map_err(json)?;
                return Err(BadSettings::Shape(name.to_owned(), "an object or a list"));
            }
        };
        Ok(Self { open, close, parts })
    }

    /// Whether no whitespace follows the opening bracket.
    fn is_tight(&self, text: &str) -> bool {
        let behind = text.get(self.open + 1..).and_then(|rest| rest.chars().next());
        behind.is_some_and(|c| !c.is_whitespace())
    }

    fn child(&self, text: &str, name: &str) -> Result<Option<Self>, BadSettings> {
        // If a name occurs twice, the last one applies, in every program that reads JSON.
        let span = self.parts.iter().rfind(|(known, _)| known == name);
        span.map(|(_, span)| Self::read(text, span.clone(), name))
            .transpose()
    }

    /// The text without part `n`.
    fn cut(&self, text: &str, n: usize) -> String {
        let end = |n: usize| self.parts.get(n).map_or(self.close, |(_, span)| span.end);
        let after_blanks = |from: usize, extra: &[char]| {
            let rest = text.get(from..).unwrap_or_default();
            from + rest.len()
                - rest
                    .trim_start_matches(|c: char| c.is_whitespace() || extra.contains(&c))
                    .len()
        };
        let range = match (n, self.parts.len()) {
            (_, 1) => self.open + 1..end(0),
            (0, _) => after_blanks(self.open + 1, &[])..after_blanks(end(0), &[',']),
            (n, _) => end(n - 1)..end(n),
        };
        let mut text = text.to_owned();
        text.replace_range(range, "");
        text
    }

    /// The text with one more part at the end of this object or array. `depth` is its nesting depth in the document.
    fn append(&self, text: &str, name: Option<&str>, value: &Value, depth: usize) -> String {
        let before = |at: usize| text.get(self.open + 1..at).unwrap_or_default();
        let first = self.parts.first().map(|(_, span)| before(span.start));
        // Use the same whitespace as before the first part.
        let blanks = match first {
            Some(first) => first
                .split_once(|c: char| !c.is_whitespace())
                .map_or(first, |(blanks, _)| blanks)
                .to_owned(),
            None => format!("\n{}", "  ".repeat(depth + 1)),
        };
        let item = match name {
            Some(name) => member(name, value, &blanks),
            None => rendered(value, &blanks),
        };
        let mut text = text.to_owned();
        match self.parts.last() {
            Some((_, last)) => text.insert_str(last.end, &format!(",{blanks}{item}")),
            None => text.insert_str(self.open + 1, &item),
        }
        text
    }
}

fn member(name: &str, value: &Value, blanks: &str) -> String {
    format!("{}: {}", json!(name), rendered(value, blanks))
}

/// Indented like the line that this whitespace begins, or on one line; whitespace follows each bracket.
fn rendered(value: &Value, blanks: &str) -> String {
    match blanks.rsplit_once('\n') {
        Some((_, indent)) => {
            let pretty = serde_json::to_string_pretty(value).unwrap_or_default();
            pretty.replace('\n', &format!("\n{indent}"))
        }
        None => on_one_line(value),
    }
}

fn on_one_line(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, value)| format!("{}: {}", json!(name), on_one_line(value)));
            format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(on_one_line).collect();
            format!("[ {} ]", items.join(", "))
        }
        other => other.to_string(),
    }
}

fn object(node: &JsonNode, text: &str, name: &str) -> Result<(), BadSettings> {
    match text.as_bytes().get(node.open) {
        Some(b'{') => Ok(()),
        _ => Err(BadSettings::Shape(name.to_owned(), "an object")),
    }
}

fn list(node: &JsonNode, text: &str, name: &str) -> Result<(), BadSettings> {
    match text.as_bytes().get(node.open) {
        Some(b'[') => Ok(()),
        _ => Err(BadSettings::Shape(name.to_owned(), "a list")),
    }
}

fn add(text: &str, event: &str, group: &Value) -> Result<String, BadSettings> {
    let top = JsonNode::read(text, 0..text.len(), "it")?;
    object(&top, text, "all")?;
    let Some(hooks) = top.child(text, "hooks")? else {
        return Ok(top.append(text, Some("hooks"), &json!({ event: [group] }), 0));
    };
    object(&hooks, text, "hooks")?;
    let Some(groups) = hooks.child(text, event)? else {
        return Ok(hooks.append(text, Some(event), &json!([group]), 1));
    };
    list(&groups, text, event)?;
    Ok(groups.append(text, None, group, 2))
}

/// Removes one of our commands, and all objects of ours that become empty.
fn without_one(text: &str) -> Result<Removal, BadSettings> {
    let top = JsonNode::read(text, 0..text.len(), "it")?;
    object(&top, text, "all")?;
    let Some(hooks_at) = top.parts.iter().rposition(|(name, _)| name == "hooks") else {
        return Ok(Removal::Same);
    };
    let Some(hooks) = top.child(text, "hooks")? else {
        return Ok(Removal::Same);
    };
    object(&hooks, text, "hooks")?;
    for (event_at, (event, span)) in hooks.parts.iter().enumerate() {
        let groups = JsonNode::read(text, span.clone(), event)?;
        for (group_at, (_, span)) in groups.parts.iter().enumerate() {
            let group = JsonNode::read(text, span.clone(), event)?;
            let Some(handlers) = group.child(text, "hooks")? else {
                continue;
            };
            for (handler_at, (_, span)) in handlers.parts.iter().enumerate() {
                let raw = text.get(span.clone()).unwrap_or_default();
                let handler: Value = serde_json::from_str(raw).unwrap_or_default();
                if !handler["command"].as_str().is_some_and(is_ours) {
                    continue;
                }
                // Removes the outermost object of ours that would become empty. After reformatting it is unknown which
                // objects existed before, so all empty ones are removed.
                let as_written = !group.is_tight(text);
                let stays = |node: &JsonNode| node.parts.len() > 1 || (as_written && node.is_tight(text));
                return Ok(match () {
                    () if handlers.parts.len() > 1 => Removal::Text(handlers.cut(text, handler_at)),
                    () if stays(&groups) => Removal::Text(groups.cut(text, group_at)),
                    () if stays(&hooks) => Removal::Text(hooks.cut(text, event_at)),
                    () if stays(&top) => Removal::Text(top.cut(text, hooks_at)),
                    () => Removal::Nothing,
                });
            }
        }
    }
    Ok(Removal::Same)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(before: &str) -> String {
        let mut last = String::new();
        for program in Program::ALL {
            let after = with_hook(Some(before), program, "jit").expect(before);
            let value: Value = serde_json::from_str(&after).expect("JSON");
            for event in HookEvent::ALL {
                let groups = value["hooks"][event.name(program)].as_array().expect("a list");
                let ours: Vec<_> = groups
                    .iter()
                    .filter(|group| group["hooks"][0]["command"].as_str().is_some_and(is_ours))
                    .collect();
                assert_eq!(ours.len(), 1, "{after}");
            }
            let twice = with_hook(Some(&after), program, "/opt/bin/jit").expect("settings");
            let again = with_hook(Some(&twice), program, "jit").expect("settings");
            assert_eq!(again, after, "registering twice is registering once");
            last = without_hook(&after).expect("settings").unwrap_or_default();
            assert_eq!(without_hook(&twice).expect("settings").unwrap_or_default(), last);
        }
        last
    }

    #[test]
    fn f9_settings_are_given_back_to_the_byte() {
        for before in [
            "{\n  \"model\": \"x\",\n  \"z\": {\"b\":1, \"a\": [1,2 ]}\n}\n",
            "{\"a\":1}",
            "{}",
            "{}\n",
            " { }",
            "{\n}\n",
            "{\"hooks\":{}}",
            "{\n  \"hooks\": {\n  }\n}",
            "{\"hooks\": {\"PreToolUse\": [ ], \"BeforeTool\": []}, \"a\": 1}",
            "{\r\n\t\"a\": 1\r\n}",
            "{\"hooks\":{},\"hooks\":{\"a\":[]}}",
            "{\n\t\"hooks\": {\n\t\t\"Stop\": [\n\t\t\t{ \"hooks\": [{\"type\":\"command\",\"command\":\"x\"}] }\n\t\t]\n\t},\n\t\"b\": 2\n}",
            "{\n  \"hooks\": {\n    \"PreToolUse\": [\n      {\n        \"matcher\": \"Bash\",\n        \"hooks\": [{\"command\": \"jit hooks run pre-commit\"}]\n      }\n    ]\n  }\n}\n",
        ] {
            let after = there_and_back(before);
            assert_eq!(after, before);
        }
    }

    #[test]
    fn f9_a_file_that_was_made_for_the_hook_goes_with_it() {
        let made = with_hook(None, Program::Claude, "jit").expect("settings");
        assert!(
            made.starts_with("{\n  \"hooks\": {\n    \"PreToolUse\": [\n") && made.ends_with("\n}\n"),
            "{made}"
        );
        assert_eq!(without_hook(&made), Ok(None));
    }

    #[test]
    fn f9_what_stands_beside_ours_stays() {
        let made = with_hook(None, Program::Claude, "jit").expect("settings");
        let mut value: Value = serde_json::from_str(&made).expect("JSON");
        let handlers = &mut value["hooks"]["PreToolUse"][0]["hooks"];
        let theirs = json!({ "type": "command", "command": "mine" });
        handlers.as_array_mut().expect("a list").push(theirs.clone());
        let left = without_hook(&value.to_string())
            .expect("settings")
            .expect("something");
        let left: Value = serde_json::from_str(&left).expect("JSON");
        assert_eq!(left["hooks"]["PreToolUse"][0]["hooks"], json!([theirs]));
        assert_eq!(left["hooks"].as_object().map(serde_json::Map::len), Some(1));
    }

    #[test]
    fn f9_settings_that_are_something_else_are_refused() {
        for text in [
            "",
            "{",
            "[]",
            "3",
            "// a comment\n{}",
            "{\"hooks\": []}",
            "{\"hooks\": {\"PreToolUse\": {}}}",
            "{\"hooks\": 3}",
        ] {
            assert!(with_hook(Some(text), Program::Claude, "jit").is_err(), "{text}");
        }
    }

    #[test]
    fn f9_each_program_has_its_own_file() {
        let home = |name: &str| (name == "HOME").then(|| OsString::from("/h"));
        let at = |program, reach| file(program, reach, Path::new("/r"), home).expect("a file");
        assert_eq!(
            at(Program::Claude, Reach::Project),
            Path::new("/r/.claude/settings.json")
        );
        assert_eq!(
            at(Program::Claude, Reach::User),
            Path::new("/h/.claude/settings.json")
        );
        assert_eq!(at(Program::Codex, Reach::User), Path::new("/h/.codex/hooks.json"));
        assert_eq!(
            at(Program::Gemini, Reach::Project),
            Path::new("/r/.gemini/settings.json")
        );
        let elsewhere = |name: &str| (name == "CODEX_HOME").then(|| OsString::from("/c"));
        let moved = file(Program::Codex, Reach::User, Path::new("/r"), elsewhere);
        assert_eq!(moved.as_deref(), Some(Path::new("/c/hooks.json")));
    }
}
