//! Registers the hook in an agent program's settings, and takes it out again (F9).
//!
//! What must hold:
//! - nothing else in the file changes: it is edited as text, and order, blanks and unknown keys stay;
//! - registering twice is registering once; taking out what was registered gives the file back to the byte (but for
//!   an empty `hooks` of the user's, which goes with ours); a file that has nothing left in it is removed;
//! - a file that is not what it should be is not touched.
//!
//! Format: all three programs have `{"hooks": {"<event>": [{"matcher": …, "hooks": [{"type": "command", …}]}]}}`.
//!
//! Limitations: comments in settings are not JSON; such a file is refused, and is to be edited by hand.

use std::borrow::Cow;
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Event, Program};

/// Whose settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Of everybody who works in this repository, once it is committed.
    Project,
    /// Of this user, in every repository.
    User,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSettings {
    #[error("it is not plain JSON: {0}")]
    Json(String),
    #[error("{0} in it is not {1}")]
    Shape(String, &'static str),
}

/// The file that this program reads; `None` where there is no home.
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

/// The settings with the hook in them; `jit` is how the program is called.
pub fn with_hook(text: Option<&str>, program: Program, jit: &str) -> Result<String, BadSettings> {
    let mut text = without_ours(text.unwrap_or("{}\n"))?;
    for event in Event::ALL {
        text = add(&text, event.name(program), &group(program, event, jit))?;
    }
    Ok(text)
}

/// The settings without the hook; `None` where nothing is left.
pub fn without_hook(text: &str) -> Result<Option<String>, BadSettings> {
    let text = without_ours(text)?;
    let empty = Node::read(&text, 0..text.len(), "it")?.is_empty();
    Ok((!empty).then_some(text))
}

/// Which tools it is called for.
fn matcher(program: Program) -> &'static str {
    match program {
        Program::Claude => "Edit|Write|MultiEdit|NotebookEdit|Bash|Monitor|PowerShell",
        Program::Codex => "^(Bash|apply_patch)$",
        Program::Gemini => "^(write_file|replace|edit|run_shell_command)$",
    }
}

fn group(program: Program, event: Event, jit: &str) -> Value {
    let name = event.name(program);
    let secs = match (program, event) {
        // Codex allows no more there.
        (Program::Codex, Event::SessionEnd) => 3,
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
    if matches!(event, Event::BeforeTool | Event::AfterTool) {
        group["matcher"] = json!(matcher(program));
    }
    group
}

/// Whether a command is one of ours, wherever jit was at that time.
fn is_ours(command: &str) -> bool {
    let Some((program, args)) = command.split_once(" hooks agent ") else {
        return false;
    };
    let program = program.trim_matches(['\'', '"']);
    let known = Program::ALL.iter().any(|known| args.starts_with(known.as_str()));
    known && program.rsplit('/').next() == Some("jit")
}

/// An object or array in a text, with where its parts stand.
struct Node {
    open: usize,
    close: usize,
    /// Names (empty in arrays) and values.
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

impl Node {
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

    fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    fn child(&self, text: &str, name: &str) -> Result<Option<Self>, BadSettings> {
        let span = self.parts.iter().find(|(known, _)| known == name);
        span.map(|(_, span)| Self::read(text, span.clone(), name))
            .transpose()
    }

    /// The text without the part with this number.
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
            (_, 1) => self.open + 1..self.close,
            (0, _) => after_blanks(self.open + 1, &[])..after_blanks(end(0), &[',']),
            (n, _) => end(n - 1)..end(n),
        };
        let mut text = text.to_owned();
        text.replace_range(range, "");
        text
    }

    /// The text with one more part at the end of this object or list, which lies so deep in the document.
    fn append(&self, text: &str, name: Option<&str>, value: &Value, depth: usize) -> String {
        let outer = "  ".repeat(depth);
        let before = |at: usize| text.get(self.open + 1..at).unwrap_or_default();
        let first = self.parts.first().map(|(_, span)| before(span.start));
        // The blanks that stand before the first part are used before ours too.
        let blanks = match first {
            Some(first) => first
                .split_once(|c: char| !c.is_whitespace())
                .map_or(first, |(blanks, _)| blanks)
                .to_owned(),
            None => format!("\n{outer}  "),
        };
        let rendered = match blanks.rsplit_once('\n') {
            Some((_, indent)) => {
                let pretty = serde_json::to_string_pretty(value).unwrap_or_default();
                pretty.replace('\n', &format!("\n{indent}"))
            }
            None => value.to_string(),
        };
        let item = match name {
            Some(name) => format!("{}: {rendered}", json!(name)),
            None => rendered,
        };
        let mut text = text.to_owned();
        match self.parts.last() {
            Some((_, last)) => text.insert_str(last.end, &format!(",{blanks}{item}")),
            None => text.replace_range(self.open + 1..self.close, &format!("{blanks}{item}\n{outer}")),
        }
        text
    }
}

fn object(node: &Node, text: &str, name: &str) -> Result<(), BadSettings> {
    match text.as_bytes().get(node.open) {
        Some(b'{') => Ok(()),
        _ => Err(BadSettings::Shape(name.to_owned(), "an object")),
    }
}

fn list(node: &Node, text: &str, name: &str) -> Result<(), BadSettings> {
    match text.as_bytes().get(node.open) {
        Some(b'[') => Ok(()),
        _ => Err(BadSettings::Shape(name.to_owned(), "a list")),
    }
}

fn add(text: &str, event: &str, group: &Value) -> Result<String, BadSettings> {
    let top = Node::read(text, 0..text.len(), "it")?;
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

fn without_ours(text: &str) -> Result<String, BadSettings> {
    let mut text = text.to_owned();
    while let Some(less) = without_one(&text)? {
        text = less;
    }
    Ok(text)
}

/// Takes one of our commands out, and whatever is empty without it.
fn without_one(text: &str) -> Result<Option<String>, BadSettings> {
    let top = Node::read(text, 0..text.len(), "it")?;
    object(&top, text, "all")?;
    let Some(hooks_at) = top.parts.iter().position(|(name, _)| name == "hooks") else {
        return Ok(None);
    };
    let Some(hooks) = top.child(text, "hooks")? else {
        return Ok(None);
    };
    object(&hooks, text, "hooks")?;
    for (event_at, (event, span)) in hooks.parts.iter().enumerate() {
        let groups = Node::read(text, span.clone(), event)?;
        for (group_at, (_, span)) in groups.parts.iter().enumerate() {
            let group = Node::read(text, span.clone(), event)?;
            let Some(handlers) = group.child(text, "hooks")? else {
                continue;
            };
            for (handler_at, (_, span)) in handlers.parts.iter().enumerate() {
                let raw = text.get(span.clone()).unwrap_or_default();
                let handler: Value = serde_json::from_str(raw).unwrap_or_default();
                if !handler["command"].as_str().is_some_and(is_ours) {
                    continue;
                }
                // The outermost thing that would be left empty goes as a whole.
                let alone = |node: &Node| node.parts.len() == 1;
                return Ok(Some(match () {
                    () if !alone(&handlers) => handlers.cut(text, handler_at),
                    () if !alone(&groups) => groups.cut(text, group_at),
                    () if !alone(&hooks) => hooks.cut(text, event_at),
                    () => top.cut(text, hooks_at),
                }));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(before: &str) -> String {
        let mut last = String::new();
        for program in Program::ALL {
            let after = with_hook(Some(before), program, "jit").expect(before);
            let value: Value = serde_json::from_str(&after).expect("JSON");
            for event in Event::ALL {
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
