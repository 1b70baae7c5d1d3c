//! Parses the hook input of any agent program into one [`ToolCall`].
//!
//! What must hold:
//! - a document that is broken, truncated, too large, or lacks a field that its event needs is an error that says so;
//! - large values (the content of a file) are skipped, not copied: 10 MB take as long as reading them;
//! - the name of the tool decides which input fields are files that it writes; an unknown tool is [`Act::Unknown`].
//!
//! Format: JSON with `session_id`, `cwd`, `hook_event_name`, `tool_name`, `tool_input`, `stop_hook_active`. Claude Code
//! sends absolute paths, Gemini CLI also relative ones. Codex sends patches as text.

use std::borrow::Cow;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::{HookEvent, Program};

/// Maximum bytes of a document.
pub const LARGEST: u64 = 64 << 20;

/// The effect of a tool, as far as its input shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Writes these files, named as in the input.
    Write(Vec<PathBuf>),
    /// Runs this command line.
    Run(String),
    /// Changes no files of the repository.
    Harmless,
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    pub event: HookEvent,
    /// The agent program's own id of its session.
    pub session: Option<String>,
    /// The agent's current directory, or the directory that the command names.
    pub cwd: Option<PathBuf>,
    pub tool: String,
    pub act: Act,
    /// The agent continues because a hook asked it to. Asking again would never end.
    pub asked_before: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum BadInput {
    #[error("the description of the step is larger than {} MB", LARGEST >> 20)]
    TooLarge,
    #[error("the description of the step is not the JSON of a hook: {0}")]
    Json(String),
    #[error("the description of the step has no {0}")]
    Missing(&'static str),
    #[error("the hook was called for {called}, and the description is of {described}")]
    OtherEvent { called: String, described: String },
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow, default)]
    session_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    cwd: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    hook_event_name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_input: Option<&'a RawValue>,
    #[serde(default)]
    stop_hook_active: Option<bool>,
}

/// The fields of a tool's input that name files and commands. All others are skipped.
#[derive(Deserialize, Default)]
struct ToolInput<'a> {
    #[serde(borrow, default)]
    file_path: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    notebook_path: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    command: Option<Cow<'a, str>>,
    /// Gemini's directory of a command.
    #[serde(borrow, default, alias = "directory")]
    dir_path: Option<Cow<'a, str>>,
}

/// The time in which an agent program passes its document. With the time for judging it, the answer comes within 10
/// seconds.
pub const READING: Duration = Duration::from_secs(4);

/// Reads one document, up to the limit. Returns as soon as it is complete: the program may keep its end of the pipe open.
/// Input that is no document is returned as far as it was read.
pub fn read(from: impl Read) -> io::Result<Vec<u8>> {
    let mut copied = Copied {
        from: from.take(LARGEST + 1),
        bytes: Vec::new(),
        at: 0,
    };
    let mut document = serde_json::Deserializer::from_reader(&mut copied);
    match IgnoredAny::deserialize(&mut document) {
        Err(error) if error.is_io() => Err(error.into()),
        // `parse` says why it is none.
        _ => Ok(copied.bytes),
    }
}

/// Keeps everything that was read.
struct Copied<R> {
    from: R,
    bytes: Vec<u8>,
    /// The bytes that were passed on.
    at: usize,
}

impl<R: Read> Read for Copied<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.bytes.len() {
            let mut piece = [0; 16 << 10];
            let count = self.from.read(&mut piece)?;
            self.bytes
                .extend_from_slice(piece.get(..count).unwrap_or_default());
        }
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let count = rest.len().min(into.len());
        if let (Some(into), Some(rest)) = (into.get_mut(..count), rest.get(..count)) {
            into.copy_from_slice(rest);
        }
        self.at += count;
        Ok(count)
    }
}

pub fn parse(program: Program, event: HookEvent, bytes: &[u8]) -> Result<ToolCall, BadInput> {
    if bytes.len() as u64 > LARGEST {
        return Err(BadInput::TooLarge);
    }
    let document: Document<'_> =
        serde_json::from_slice(bytes).map_err(|error| BadInput::Json(error.to_string()))?;
    if let Some(described) = document.hook_event_name.as_deref()
        && described != event.name(program)
    {
        let shown: String = described.chars().take(40).collect();
        return Err(BadInput::OtherEvent {
            called: event.name(program).to_owned(),
            described: format!("{shown:?}"),
        });
    }
    let mut call = ToolCall {
        event,
        session: document
            .session_id
            .map(Cow::into_owned)
            .filter(|id| !id.is_empty()),
        cwd: document.cwd.map(|path| PathBuf::from(&*path)),
        tool: document.tool_name.map(Cow::into_owned).unwrap_or_default(),
        act: Act::Harmless,
        asked_before: document.stop_hook_active.unwrap_or(false),
    };
    if !matches!(event, HookEvent::BeforeTool | HookEvent::AfterTool) {
        return Ok(call);
    }
    if call.tool.is_empty() {
        return Err(BadInput::Missing("tool_name"));
    }
    let raw = document.tool_input.map(RawValue::get);
    (call.act, call.cwd) = act(program, &call.tool, raw, call.cwd.take())?;
    Ok(call)
}

/// A tool call that did not arrive as a hook document. `input` is the tool's input as JSON.
pub fn before(program: Program, tool: &str, input: &str, cwd: Option<PathBuf>) -> Result<ToolCall, BadInput> {
    let (act, cwd) = act(program, tool, Some(input), cwd)?;
    Ok(ToolCall {
        event: HookEvent::BeforeTool,
        session: None,
        cwd,
        tool: tool.to_owned(),
        act,
        asked_before: false,
    })
}

fn act(
    program: Program,
    tool: &str,
    raw: Option<&str>,
    cwd: Option<PathBuf>,
) -> Result<(Act, Option<PathBuf>), BadInput> {
    let wanted = match (program, tool) {
        (Program::Claude, "Edit" | "Write" | "MultiEdit") => "file_path",
        (Program::Gemini, "write_file" | "replace" | "edit") => "file_path",
        (Program::Claude, "NotebookEdit") => "notebook_path",
        (Program::Claude, "Bash" | "Monitor" | "PowerShell") => "command",
        (Program::Codex, "Bash" | "apply_patch") => "command",
        (Program::Gemini, "run_shell_command") => "command",
        _ if harmless(program, tool) => return Ok((Act::Harmless, cwd)),
        _ => return Ok((Act::Unknown, cwd)),
    };
    let raw = raw.ok_or(BadInput::Missing("tool_input"))?;
    let input: ToolInput<'_> =
        serde_json::from_str(raw).map_err(|error| BadInput::Json(error.to_string()))?;
    let filled = |value: Option<Cow<'_, str>>, name| match value {
        Some(text) if !text.is_empty() => Ok(text.into_owned()),
        _ => Err(BadInput::Missing(name)),
    };
    let act = match (wanted, tool) {
        ("file_path", _) => Act::Write(vec![filled(input.file_path, wanted)?.into()]),
        ("notebook_path", _) => Act::Write(vec![filled(input.notebook_path, wanted)?.into()]),
        (_, "apply_patch") => match patched(&filled(input.command, wanted)?) {
            files if files.is_empty() => Act::Unknown,
            files => Act::Write(files),
        },
        _ => Act::Run(filled(input.command, wanted)?),
    };
    let cwd = match (cwd, input.dir_path) {
        (Some(cwd), Some(below)) => Some(cwd.join(&*below)),
        (cwd, _) => cwd,
    };
    Ok((act, cwd))
}

/// The files of a patch in Codex's own format.
pub fn patched(patch: &str) -> Vec<PathBuf> {
    const HEADS: [&str; 4] = [
        "*** Add File: ",
        "*** Update File: ",
        "*** Delete File: ",
        "*** Move to: ",
    ];
    let named = |line: &str| {
        HEADS
            .iter()
            .find_map(|head| line.strip_prefix(head).map(str::to_owned))
    };
    let files = patch.lines().filter_map(|line| named(line.trim()));
    files.map(|name| Path::new(name.trim()).to_owned()).collect()
}

/// Tools that change no files of the repository, or only through other tools.
fn harmless(program: Program, tool: &str) -> bool {
    match program {
        Program::Claude => matches!(
            tool,
            "Read"
                | "Glob"
                | "Grep"
                | "LS"
                | "WebFetch"
                | "WebSearch"
                | "TodoWrite"
                | "Task"
                | "Agent"
                | "AskUserQuestion"
                | "EnterPlanMode"
                | "ExitPlanMode"
                | "EnterWorktree"
                | "ExitWorktree"
                | "Skill"
                | "ToolSearch"
                | "TaskStop"
                | "ListAgents"
                | "SendMessage"
        ),
        Program::Codex => matches!(tool, "view_image" | "update_plan" | "web_search"),
        Program::Gemini => matches!(
            tool,
            "read_file"
                | "read_many_files"
                | "list_directory"
                | "glob"
                | "search_file_content"
                | "grep_search"
                | "google_web_search"
                | "web_fetch"
                | "write_todos"
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(program: Program, document: &Value) -> Result<ToolCall, BadInput> {
        parse(program, HookEvent::BeforeTool, document.to_string().as_bytes())
    }

    fn write(path: &str) -> Act {
        Act::Write(vec![path.into()])
    }

    #[test]
    fn f9_each_programs_tools_become_one_thing() {
        let patch = "*** Begin Patch\n*** Update File: a b.txt\n@@\n-x\n*** Move to: c.txt\n*** End Patch\n";
        let both = Act::Write(vec!["a b.txt".into(), "c.txt".into()]);
        for (program, tool, input, act) in [
            (
                Program::Claude,
                "Edit",
                json!({ "file_path": "/r/a", "old_string": "x" }),
                write("/r/a"),
            ),
            (
                Program::Claude,
                "Write",
                json!({ "file_path": "/r/a", "content": "x" }),
                write("/r/a"),
            ),
            (
                Program::Claude,
                "NotebookEdit",
                json!({ "notebook_path": "/r/n.ipynb" }),
                write("/r/n.ipynb"),
            ),
            (
                Program::Claude,
                "Bash",
                json!({ "command": "ls" }),
                Act::Run("ls".into()),
            ),
            (
                Program::Claude,
                "Read",
                json!({ "file_path": "/r/a" }),
                Act::Harmless,
            ),
            (Program::Claude, "mcp__x__y", json!({}), Act::Unknown),
            (
                Program::Codex,
                "Bash",
                json!({ "command": "ls" }),
                Act::Run("ls".into()),
            ),
            (Program::Codex, "apply_patch", json!({ "command": patch }), both),
            (
                Program::Codex,
                "apply_patch",
                json!({ "command": "what" }),
                Act::Unknown,
            ),
            (
                Program::Gemini,
                "write_file",
                json!({ "file_path": "a", "content": "x" }),
                write("a"),
            ),
            (
                Program::Gemini,
                "replace",
                json!({ "file_path": "a" }),
                write("a"),
            ),
            (
                Program::Gemini,
                "run_shell_command",
                json!({ "command": "ls" }),
                Act::Run("ls".into()),
            ),
        ] {
            let event = HookEvent::BeforeTool.name(program);
            let document = json!({
                "session_id": "s", "cwd": "/r", "hook_event_name": event, "tool_name": tool, "tool_input": input,
            });
            let call = read(program, &document).expect(tool);
            assert_eq!(call.act, act, "{tool}");
            assert_eq!(call.session.as_deref(), Some("s"));
        }
        let document = json!({
            "cwd": "/r", "tool_name": "run_shell_command", "tool_input": { "command": "ls", "dir_path": "sub" },
        });
        let call = read(Program::Gemini, &document).expect("a call");
        assert_eq!(call.cwd.as_deref(), Some(Path::new("/r/sub")));
    }

    #[test]
    fn f9_what_lacks_something_is_an_error_that_says_what() {
        for (document, what) in [
            (json!({}), "tool_name"),
            (json!({ "tool_name": "" }), "tool_name"),
            (json!({ "tool_name": "Edit" }), "tool_input"),
            (json!({ "tool_name": "Edit", "tool_input": {} }), "file_path"),
            (
                json!({ "tool_name": "Edit", "tool_input": { "file_path": "" } }),
                "file_path",
            ),
            (
                json!({ "tool_name": "Bash", "tool_input": { "file_path": "x" } }),
                "command",
            ),
            (json!({ "tool_name": "Bash", "tool_input": [] }), "command"),
            (
                json!({ "tool_name": "Edit", "tool_input": { "file_path": 3 } }),
                "JSON",
            ),
            (json!({ "tool_name": 3 }), "JSON"),
            (json!([]), "tool_name"),
            (
                json!({ "tool_name": "Edit", "hook_event_name": "Stop" }),
                "PreToolUse",
            ),
        ] {
            let error = read(Program::Claude, &document).expect_err("refused").to_string();
            assert!(error.contains(what), "{document}: {error}");
        }
        for bytes in [
            &b""[..],
            b"{",
            b"\xff\xfe",
            b"null",
            b"{\"tool_name\":\"Edit\",\"tool_name\":\"Read\"}",
        ] {
            assert!(
                parse(Program::Claude, HookEvent::BeforeTool, bytes).is_err(),
                "{bytes:?}"
            );
        }
        let deep = "[".repeat(100_000);
        assert!(parse(Program::Claude, HookEvent::BeforeTool, deep.as_bytes()).is_err());
    }

    #[test]
    fn f9_ten_megabytes_are_read_and_more_than_the_limit_is_not() {
        let content = "x\n".repeat(5 << 20);
        let input = json!({ "content": content, "file_path": "/r/a\nb" });
        let call = read(
            Program::Claude,
            &json!({ "tool_name": "Write", "tool_input": input }),
        );
        assert_eq!(call.expect("a call").act, write("/r/a\nb"));
        let bytes = super::read(io::repeat(b' ')).expect("bytes");
        let call = parse(Program::Claude, HookEvent::BeforeTool, &bytes);
        assert!(matches!(call, Err(BadInput::TooLarge)));
    }

    /// A pipe whose other end stays open after this text: another read would wait forever.
    struct Open<'a>(&'a [u8]);

    impl Read for Open<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            assert!(!self.0.is_empty(), "nothing more will come");
            // A piece at a time.
            self.0.read(into.get_mut(..7).expect("a large buffer"))
        }
    }

    #[test]
    fn l5_a_document_is_read_without_the_end_of_the_input() {
        let document =
            json!({ "tool_name": "Bash", "tool_input": { "command": "echo '}' \"{\"" } }).to_string();
        assert_eq!(
            super::read(Open(document.as_bytes())).expect("bytes"),
            document.as_bytes()
        );
        for broken in ["{\"tool_name\": nothing", "}", "[1, 2"] {
            let bytes = super::read(broken.as_bytes()).expect("bytes");
            assert_eq!(bytes, broken.as_bytes());
            assert!(
                parse(Program::Claude, HookEvent::BeforeTool, &bytes).is_err(),
                "{broken}"
            );
        }
    }

    #[test]
    fn f9_other_moments_need_no_tool() {
        let document = json!({ "session_id": "s", "stop_hook_active": true });
        let call = parse(Program::Codex, HookEvent::Stop, document.to_string().as_bytes()).expect("a call");
        assert!(call.asked_before);
        assert_eq!(call.act, Act::Harmless);
    }
}
