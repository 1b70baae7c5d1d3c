//! One invocation of a command: its global options, how it asks the engine, and its output.

use std::cell::Cell;
use std::ffi::OsString;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};
use jit_core::decide::command::IssueChange;
use jit_core::model::ids::IssuePrefix;
use jit_core::model::refusal::{Code, Refusal};
use jit_engine::api::Options;
use jit_engine::api::claims::ClaimRequest;
use jit_engine::api::content::FileSource;
use jit_engine::api::issues::{IssueRequest, MAX_IMPORT_BYTES};
use jit_engine::api::stream::{StreamEnd, StreamItem, Subscribe};
use jit_engine::api::{Answer, Reply, Request};
use jit_engine::stream::Take;
use jit_store::Outcome;

use crate::exit::BROKEN_PIPE;
use crate::render::{self, Color, Style};

/// Global options: every command accepts them.
#[derive(Debug)]
pub struct GlobalArgs {
    pub dir: Vec<PathBuf>,
    pub json: bool,
    pub fields: Vec<String>,
    pub agent_id: Option<String>,
    pub request_id: Option<String>,
    pub lock_timeout: Option<u64>,
    pub quiet: bool,
    pub color: Color,
}

pub type Build = fn(Arg) -> Arg;

/// Definitions of the global options. A table, not a derive, so that only the options that were typed are built.
pub const GLOBAL_ARGS: &[(&str, Build)] = &[
    ("dir", |arg| {
        arg.short('C')
            .value_name("DIR")
            .value_parser(clap::value_parser!(PathBuf))
            .action(ArgAction::Append)
            .help("Run as if started in this folder")
    }),
    ("json", |arg| {
        arg.long("json")
            .action(ArgAction::SetTrue)
            .help("Print exactly one JSON document")
    }),
    ("fields", |arg| {
        arg.long("fields")
            .value_name("A,B")
            .value_delimiter(',')
            .action(ArgAction::Append)
            .help("Keep only these fields of the JSON")
    }),
    ("agent-id", |arg| {
        arg.long("agent-id")
            .value_name("ID")
            .help("Act as this agent, such as agent:copilot-1")
    }),
    ("request-id", |arg| {
        arg.long("request-id")
            .value_name("ID")
            .help("Makes repeating a write safe")
    }),
    ("lock-timeout", |arg| {
        arg.long("lock-timeout")
            .value_name("D")
            .value_parser(duration)
            .allow_hyphen_values(true)
            .help("How long to wait for the store's lock")
    }),
    ("quiet", |arg| {
        arg.short('q')
            .long("quiet")
            .action(ArgAction::SetTrue)
            .help("Say nothing but the answer; of a write, only the id")
    }),
    ("color", |arg| {
        arg.long("color")
            .value_name("WHEN")
            .value_parser(clap::value_parser!(Color))
            .help("Colours: only on a terminal unless told otherwise [default: auto]")
    }),
];

impl GlobalArgs {
    /// Reads the global options. An option that was not typed may be unknown to `matches`. If an option was typed both
    /// before and after the verb, the one after the verb counts.
    pub fn of(matches: &ArgMatches) -> Self {
        fn typed<'a>(matches: &'a ArgMatches, name: &str) -> Option<&'a ArgMatches> {
            let below = matches.subcommand().and_then(|(_, below)| typed(below, name));
            let here = || matches.try_contains_id(name).is_ok_and(|known| known);
            let here = || here() && matches.value_source(name) == Some(ValueSource::CommandLine);
            below.or_else(|| here().then_some(matches))
        }
        fn one<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> Option<T> {
            let matches = typed(matches, name)?;
            matches.try_get_one::<T>(name).ok().flatten().cloned()
        }
        fn many<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> Vec<T> {
            typed(matches, name)
                .and_then(|matches| matches.try_get_many::<T>(name).ok().flatten())
                .map(|all| all.cloned().collect())
                .unwrap_or_default()
        }
        Self {
            dir: many(matches, "dir"),
            json: one(matches, "json").unwrap_or(false),
            fields: many(matches, "fields"),
            agent_id: one(matches, "agent-id"),
            request_id: one(matches, "request-id"),
            lock_timeout: one(matches, "lock-timeout"),
            quiet: one(matches, "quiet").unwrap_or(false),
            color: one(matches, "color").unwrap_or(Color::Auto),
        }
    }
}

/// The invocation of a command: its global options, its style, and the words as typed.
pub struct Invocation {
    pub global: GlobalArgs,
    pub style: Style,
    /// The words as typed, so that the command can be printed again.
    pub typed: Vec<OsString>,
    pub program: &'static Program,
    /// A request that writes was carried out.
    pub wrote: Cell<bool>,
}

/// The parts of the program that know every command. A command reaches them through its invocation, so that it does not
/// depend on all other commands.
pub struct Program {
    /// The whole grammar, for completions and manual pages.
    pub grammar: fn() -> clap::Command,
    /// A reply as text for people. The second argument is the first word about a lease that was granted.
    pub text: fn(&Reply, &str, Style) -> String,
    /// The ids of everything that was written, one a line.
    pub ids: fn(&Reply) -> String,
}

/// The result of a command: text for standard output, warnings, and the exit code.
pub struct Output {
    pub text: String,
    pub warnings: Vec<String>,
    pub exit: u8,
}

impl Output {
    /// Returns an empty output, for a command that has printed everything already.
    pub fn nothing() -> Self {
        Self {
            text: String::new(),
            warnings: Vec::new(),
            exit: 0,
        }
    }

    pub fn exit(mut self, code: u8) -> Self {
        self.exit = code;
        self
    }

    pub fn warn(mut self, warnings: Vec<String>) -> Self {
        self.warnings.extend(warnings);
        self
    }
}

impl Invocation {
    pub fn json(&self) -> bool {
        self.global.json
    }

    pub fn options(&self) -> Outcome<Options> {
        let named = match &self.global.request_id {
            Some(id) => Some(id.clone()),
            None => std::env::var("JIT_REQUEST_ID").ok().filter(|id| !id.is_empty()),
        };
        let request = named.map(|id| id.parse()).transpose().map_err(invalid)?;
        Ok(Options {
            dir: None,
            agent: self.global.agent_id.clone(),
            lock_timeout: self.global.lock_timeout.map(Duration::from_secs),
            request,
            single_threaded: false,
        })
    }

    pub fn quiet(&self) -> bool {
        self.global.quiet
    }

    /// Returns a reply as text for people.
    pub fn text(&self, reply: &Reply, style: Style) -> String {
        (self.program.text)(reply, "", style)
    }

    /// Returns the answer in the requested form: text or JSON.
    pub fn show(&self, value: &impl serde::Serialize, text: impl FnOnce(Style) -> String) -> Output {
        let fields = &self.global.fields;
        let mut warnings = Vec::new();
        let text = if !self.json() {
            text(self.style)
        } else if fields.is_empty() {
            self.json_line(value)
        } else {
            let value = serde_json::to_value(value).unwrap_or_default();
            warnings.extend(render::unknown_fields(&value, fields));
            format!("{}\n", render::keep_fields(value, fields))
        };
        Output {
            text,
            warnings,
            exit: 0,
        }
    }

    /// Returns the answer to a write. With --quiet the text has only the ids, if there are any.
    pub fn done(
        &self,
        value: &impl serde::Serialize,
        ids: &[&str],
        text: impl FnOnce(Style) -> String,
    ) -> Output {
        self.show(value, |style| match self.quiet() {
            true => ids.iter().map(|id| format!("{id}\n")).collect(),
            false => text(style),
        })
    }

    /// Reports the file that was written.
    pub fn wrote(&self, value: &impl serde::Serialize, file: &str) -> Output {
        self.done(value, &[], |_| format!("Wrote {}\n", render::clean_line(file)))
    }

    /// Returns one JSON document on one line.
    pub fn json_line(&self, value: &impl serde::Serialize) -> String {
        let mut line = if self.global.fields.is_empty() {
            serde_json::to_string(value).unwrap_or_default()
        } else {
            self.kept(value).to_string()
        };
        line.push('\n');
        render::clean_json(line)
    }

    /// Whether --fields names the fields to keep.
    pub fn keeps_fields(&self) -> bool {
        !self.global.fields.is_empty()
    }

    /// Returns the value with only the fields that --fields names.
    pub fn kept(&self, value: &impl serde::Serialize) -> serde_json::Value {
        let value = serde_json::to_value(value).unwrap_or_default();
        match self.global.fields.as_slice() {
            [] => value,
            fields => render::keep_fields(value, fields),
        }
    }

    /// Sends one change of an issue to the engine and shows the issue.
    pub fn change(&self, issue: IssuePrefix, change: IssueChange, strict: bool) -> Outcome<Output> {
        self.ask(IssueRequest::Change {
            issue,
            change: Box::new(change),
            description: None,
            strict,
        })
    }

    /// Sends a request to the engine.
    pub fn send(&self, request: impl Into<Request>) -> Outcome<Answer> {
        self.send_with(&self.options()?, request.into())
    }

    /// Sends one of several requests of a command.
    pub fn send_as(&self, part: &str, request: impl Into<Request>) -> Outcome<Answer> {
        self.send_with(&self.options_of(part)?, request.into())
    }

    /// Sends a request that changes nothing when it is repeated, without the request id of the command.
    pub fn send_unnamed(&self, request: impl Into<Request>) -> Outcome<Answer> {
        let options = Options {
            request: None,
            ..self.options()?
        };
        self.send_with(&options, request.into())
    }

    fn send_with(&self, options: &Options, request: Request) -> Outcome<Answer> {
        let writes = request.facts().writes;
        let answer = jit_engine::handle::ask(options, request)?;
        self.wrote.set(self.wrote.get() || writes);
        Ok(answer)
    }

    /// The options of one part of a command. It has a request id only if the command has one.
    fn options_of(&self, part: &str) -> Outcome<Options> {
        let options = self.options()?;
        let own = options.request.as_ref().map(|id| format!("{id}/{part}").parse());
        Ok(Options {
            request: own.transpose().map_err(invalid)?,
            ..options
        })
    }

    /// Prints warnings on standard error, unless --quiet was typed.
    pub fn warn(&self, warnings: &[String]) {
        if !self.quiet() {
            for warning in warnings {
                render::say(&format!("warning: {}", render::clean_line(warning)));
            }
        }
    }

    /// Passes the items of a subscription to `take`, until there are no more or `take` ends it. Warnings are printed.
    pub fn subscribe(&self, subscribe: Subscribe, take: &mut Take<'_>) -> Outcome<StreamEnd> {
        jit_engine::stream::subscribe(&self.options()?, subscribe, &mut |item| match item {
            StreamItem::Warning(warning) => {
                self.warn(&[warning]);
                ControlFlow::Continue(())
            }
            item => take(item),
        })
    }

    /// Does the same for a subscription whose items are printed. The exit code says if nobody reads them any more.
    pub fn follow(&self, subscribe: Subscribe, take: &mut Take<'_>) -> Outcome<Output> {
        Ok(match self.subscribe(subscribe, take)? {
            StreamEnd::Complete => Output::nothing(),
            StreamEnd::Stopped => Output::nothing().exit(BROKEN_PIPE),
        })
    }

    /// Sends a request to the engine and shows the reply.
    pub fn ask(&self, request: impl Into<Request>) -> Outcome<Output> {
        self.ask_with(self.options()?, request.into())
    }

    /// Sends one of several requests of a command, and shows the reply.
    pub fn ask_as(&self, part: &str, request: impl Into<Request>) -> Outcome<Output> {
        self.ask_with(self.options_of(part)?, request.into())
    }

    fn ask_with(&self, options: Options, request: Request) -> Outcome<Output> {
        let writes = request.facts().writes;
        let done = match request {
            Request::Claims(ClaimRequest::Renew { .. }) => "Renewed:",
            Request::Claims(ClaimRequest::Transfer { .. }) => "Handed over:",
            _ => "Granted:",
        };
        let options = Options {
            single_threaded: true,
            ..options
        };
        jit_os::memory::use_large_pages();
        let (Answer { reply, warnings }, shown) = jit_engine::handle::ask_and(&options, request, |reply| {
            self.show(&reply.value(), |style| match writes && self.quiet() {
                true => (self.program.ids)(reply),
                false => (self.program.text)(reply, done, style),
            })
        })?;
        self.wrote.set(self.wrote.get() || writes);
        let output = shown.warn(warnings);
        // Not freed: the process ends with this answer, and freeing a list of ten thousand takes as long as building it.
        std::mem::forget(reply);
        Ok(output)
    }
}

/// Writes a file that the user named, and returns its name. Refuses a symbolic link, because in a clone it may lead
/// anywhere. Only a link to a device or a pipe is followed.
pub fn write_file(path: &std::path::Path, content: &[u8]) -> Outcome<String> {
    let failed = |e: std::io::Error| {
        Box::new(Refusal::new(
            Code::Io,
            format!("cannot write {}: {e}", path.display()),
        ))
    };
    let is_link = path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
    match path.metadata() {
        // A device or a pipe is written in place. Replacing it would put a file there.
        Ok(meta) if !meta.is_file() && !meta.is_dir() => std::fs::write(path, content).map_err(failed)?,
        _ if is_link => {
            return Err(invalid(format!(
                "{} is a symbolic link: name the file itself",
                path.display()
            )));
        }
        _ => jit_os::file::replace_here(path, content).map_err(failed)?,
    }
    Ok(path.display().to_string())
}

/// Like [`write_file`], but refuses a file that exists, and names the command that overwrites it.
pub fn write_new_file(path: &std::path::Path, content: &[u8], overwrite: &str) -> Outcome<String> {
    // A device or a pipe has no content that could be lost.
    let in_place = path
        .metadata()
        .is_ok_and(|meta| !meta.is_file() && !meta.is_dir());
    if in_place {
        return write_file(path, content);
    }
    let shown = path.display();
    match jit_os::file::create(path, content) {
        Ok(true) => Ok(shown.to_string()),
        Ok(false) => Err(Box::new(
            Refusal::new(
                Code::Invalid,
                format!("{shown} exists already, and was not overwritten"),
            )
            .help(format!(
                "{overwrite} --output {}",
                jit_os::shell::shell_word(&shown.to_string())
            )),
        )),
        Err(e) => Err(Box::new(Refusal::new(
            Code::Io,
            format!("cannot write {shown}: {e}"),
        ))),
    }
}

/// Folders of files that this process has open, as `<(…)` passes them.
const OPEN_FILES: [&str; 3] = ["/dev/fd", "/dev/stdin", "/proc/self/fd"];

/// Returns a file for the engine to read. Standard input (`-`) and pipes that this process has open are read here,
/// because only this process has them, and only once.
pub fn file_source(path: PathBuf) -> Outcome<FileSource> {
    let mut source: Option<Box<dyn std::io::Read>> = None;
    if path.as_os_str() == "-" {
        source = Some(Box::new(std::io::stdin().lock()));
    } else if OPEN_FILES.iter().any(|open| path.starts_with(open)) {
        let file = std::fs::File::open(&path);
        source = Some(Box::new(file.map_err(|e| unreadable(&path, &e))?));
    }
    let mut content = None;
    if let Some(source) = source {
        let mut bytes = Vec::new();
        // The engine refuses what is longer than its limit.
        let read = source.take(MAX_IMPORT_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|e| unreadable(&path, &e))?;
        content = Some(bytes.into());
    }
    Ok(FileSource {
        path: path.into(),
        content,
    })
}

fn unreadable(path: &std::path::Path, e: &std::io::Error) -> Box<Refusal> {
    Box::new(Refusal::new(
        Code::Io,
        format!("cannot read {}: {e}", path.display()),
    ))
}

/// Parses a duration such as `600`, `90s` or `1h30m` into seconds.
pub fn duration(text: &str) -> Result<u64, String> {
    jit_core::model::duration::parse_secs(text).map_err(|e| e.to_string())
}

pub fn invalid(why: impl ToString) -> Box<Refusal> {
    Box::new(Refusal::new(Code::Invalid, why.to_string()))
}

/// The engine answered a request with a reply of another kind.
pub fn unexpected() -> Box<Refusal> {
    Box::new(Refusal::bug("another kind of reply from the engine"))
}
