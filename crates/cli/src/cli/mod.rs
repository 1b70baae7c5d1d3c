//! The command line: the table of nouns and verbs, the global options, and the steps around each command.
//!
//! Each verb is a file of its own with its flags and its request. `main` parses the words, runs the verb, prints its
//! output and returns the exit code. Only the commands and options that were typed are built, because clap's tree of all
//! commands takes longer to build than a claim takes.
//!
//! What must hold: if the shortened grammar parses the words, the whole grammar parses them with the same meaning.

mod block;
mod blocked;
mod changelog;
mod claim;
mod completions;
mod config;
mod conflicts;
mod consent;
mod demo;
mod dep;
mod doctor;
mod events;
mod finish;
mod gate;
mod graph;
mod handoff;
mod heartbeat;
mod hooks;
mod init;
mod issue;
mod lock;
mod log;
mod man;
mod mcp;
mod merge_driver;
mod migrate;
mod notify;
mod pivot;
mod progress;
mod ready;
mod recover;
mod rescue;
mod run;
mod schema;
mod session;
mod shim;
mod start;
mod status;
mod trust;
mod unblock;
mod uninstall;
mod validate;
mod verify;
mod whoami;
mod workflow;
mod worktree;

use jit_engine::api::attempts::AttemptReply;
use jit_engine::api::claims::ClaimHistory;
use jit_engine::api::claims::ClaimReply;
use jit_engine::api::claims::ClaimRequest;
use jit_engine::api::claims::Evicted;
use jit_engine::api::claims::Released;
use jit_engine::api::file_locks::FileLockReply;
use jit_engine::api::file_locks::LockChecks;
use jit_engine::api::file_locks::Locks;
use jit_engine::api::file_locks::ReleasedLocks;
use jit_engine::api::gates::GateReply;
use jit_engine::api::gates::Gates;
use jit_engine::api::hooks::HookReply;
use jit_engine::api::issues::Deleted;
use jit_engine::api::issues::Exported;
use jit_engine::api::issues::IssueReply;
use jit_engine::api::issues::IssueRequest;
use jit_engine::api::issues::Issues;
use jit_engine::api::landing::LandingReply;
use jit_engine::api::landing::Landings;
use jit_engine::api::notify::Notified;
use jit_engine::api::notify::NotifyReply;
use jit_engine::api::overview::OverviewReply;
use jit_engine::api::sessions::PrunedSessions;
use jit_engine::api::sessions::SessionReply;
use jit_engine::api::sessions::Sessions;
use jit_engine::api::trust::Commands;
use jit_engine::api::trust::Revoked;
use jit_engine::api::trust::TrustReply;
use jit_engine::api::units::Orphans;
use jit_engine::api::units::UnitEnv;
use jit_engine::api::units::UnitReply;
use jit_engine::api::units::Units;
use jit_engine::api::workflows::WorkflowReply;
use jit_engine::api::workflows::Workflows;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use jit_core::decide::command::IssueChange;
use jit_core::model::ids::IssuePrefix;
use jit_core::model::refusal::{Code, Details, Refusal};
use jit_engine::api::{Answer, Reply, Request};
use jit_engine::context::{Context, Options};
use jit_engine::worktree_identity::identity::Need;
use jit_store::Outcome;
use serde_json::json;

use crate::exit;
use crate::render::{self, Color, Style};

/// A command: its name, its one-line description, its flags, and the function that runs it.
pub struct Verb {
    name: &'static str,
    about: &'static str,
    flags: fn(Command) -> Command,
    run: fn(&ArgMatches, &Cx) -> Outcome<Output>,
    /// Tells which help lists the command: `jit --help`, only `jit --help --all`, or none.
    shown: Shown,
}

#[derive(PartialEq, Eq, Clone, Copy)]
enum Shown {
    Everyday,
    WithAll,
    Never,
}

enum Entry {
    Noun(&'static str, &'static str, Shown, &'static [Verb]),
    Verb(Verb),
}

/// Builds a `Verb` from a module that has `Flags` and `run`: `verb!("acquire", "about", acquire)`.
macro_rules! verb {
    ($name:literal, $about:literal, $module:ident) => {
        verb!($name, $about, $module, $crate::cli::Shown::Everyday)
    };
    ($name:literal, $about:literal, $module:ident, $shown:expr) => {
        $crate::cli::Verb {
            name: $name,
            about: $about,
            flags: <$module::Flags as clap::Args>::augment_args,
            run: |matches, cx| {
                let flags = <$module::Flags as clap::FromArgMatches>::from_arg_matches(matches)
                    .map_err(|e| $crate::cli::usage(&e))?;
                $module::run(flags, cx)
            },
            shown: $shown,
        }
    };
}
use verb;

const TABLE: &[Entry] = &[
    Entry::Verb(verb!("init", "Set up jit in this repository", init)),
    Entry::Noun("issue", "Work to be done", Shown::Everyday, issue::VERBS),
    Entry::Verb(verb!("status", "Who does what, and what needs you", status)),
    Entry::Verb(verb!("ready", "What can be taken now, best first", ready)),
    Entry::Verb(verb!(
        "blocked",
        "What cannot go on, and why",
        blocked,
        Shown::WithAll
    )),
    Entry::Noun(
        "claim",
        "Take, keep and give back issues",
        Shown::Everyday,
        claim::VERBS,
    ),
    Entry::Noun("dep", "What waits for what", Shown::Everyday, dep::VERBS),
    Entry::Noun(
        "gate",
        "What an issue must pass to be done",
        Shown::Everyday,
        gate::VERBS,
    ),
    Entry::Verb(verb!(
        "graph",
        "What waits for what, as text or as a picture",
        graph,
        Shown::WithAll
    )),
    Entry::Verb(verb!("progress", "How far everything has come", progress)),
    Entry::Verb(verb!(
        "block",
        "Say why an issue cannot go on",
        block,
        Shown::WithAll
    )),
    Entry::Verb(verb!(
        "unblock",
        "Nothing stands in its way any more",
        unblock,
        Shown::WithAll
    )),
    Entry::Verb(verb!(
        "changelog",
        "What was worked on",
        changelog,
        Shown::WithAll
    )),
    Entry::Noun(
        "pivot",
        "Its scope is being revised",
        Shown::WithAll,
        pivot::VERBS,
    ),
    Entry::Verb(verb!(
        "trust",
        "Approve commands that came with the repository",
        trust,
        Shown::WithAll
    )),
    Entry::Verb(verb!("start", "Claim an issue and get a worktree for it", start)),
    Entry::Verb(verb!(
        "run",
        "Agents for a plan, or for everything that is ready",
        run
    )),
    Entry::Verb(verb!(
        "handoff",
        "Let another agent go on, and tell it what there is",
        handoff,
        Shown::WithAll
    )),
    Entry::Noun(
        "workflow",
        "Plans that are being worked off",
        Shown::WithAll,
        workflow::VERBS,
    ),
    Entry::Noun(
        "notify",
        "Who is told of what happens",
        Shown::WithAll,
        notify::VERBS,
    ),
    Entry::Verb(verb!(
        "log",
        "What landed when, and from whom",
        log,
        Shown::WithAll
    )),
    Entry::Noun("lock", "Locks on files", Shown::Everyday, lock::VERBS),
    Entry::Noun("session", "Agents at work", Shown::WithAll, session::VERBS),
    Entry::Noun("worktree", "Where work happens", Shown::Everyday, worktree::VERBS),
    Entry::Noun(
        "rescue",
        "Work of worktrees that are gone",
        Shown::WithAll,
        rescue::VERBS,
    ),
    Entry::Verb(verb!(
        "finish",
        "Land the work of a unit, and mark its issue as done",
        finish
    )),
    Entry::Verb(verb!(
        "conflicts",
        "Which worktrees would be in each other's way",
        conflicts,
        Shown::WithAll
    )),
    Entry::Verb(verb!(
        "whoami",
        "Which agent jit takes you for, and why",
        whoami,
        Shown::WithAll
    )),
    Entry::Verb(verb!(
        "events",
        "Everything that happened, in order",
        events,
        Shown::WithAll
    )),
    Entry::Verb(verb!("doctor", "Check everything and say how to mend it", doctor)),
    Entry::Verb(verb!("demo", "The whole story on a scratch repository", demo)),
    Entry::Noun(
        "config",
        "Settings and where they come from",
        Shown::Everyday,
        config::VERBS,
    ),
    Entry::Noun(
        "hooks",
        "Where git and agents ask jit before they act",
        Shown::WithAll,
        hooks::VERBS,
    ),
    Entry::Verb(verb!(
        "mcp",
        "Serve an agent by the Model Context Protocol",
        mcp,
        Shown::WithAll
    )),
    Entry::Verb(verb!(
        "heartbeat",
        "Sign of life that also keeps leases alive",
        heartbeat,
        Shown::WithAll
    )),
    Entry::Verb(verb!(
        "verify",
        "Were commits made under the leases they name?",
        verify,
        Shown::WithAll
    )),
    Entry::Verb(verb!(
        "validate",
        "Compare every file with the log",
        validate,
        Shown::WithAll
    )),
    Entry::Verb(verb!(
        "schema",
        "The formats of files that other programs read",
        schema,
        Shown::WithAll
    )),
    Entry::Verb(verb!(
        "migrate",
        "Bring a registry of an older version to the newest",
        migrate,
        Shown::WithAll
    )),
    Entry::Verb(verb!(
        "recover",
        "Save what can be saved from a damaged log",
        recover,
        Shown::WithAll
    )),
    Entry::Verb(verb!(
        "uninstall",
        "Remove jit from this repository, after an export",
        uninstall,
        Shown::WithAll
    )),
    Entry::Verb(verb!(
        "completions",
        "A script that completes commands in a shell",
        completions,
        Shown::WithAll
    )),
    Entry::Verb(verb!("man", "Manual pages", man, Shown::WithAll)),
    Entry::Verb(verb!(
        "merge-driver",
        "Called by git to merge issue files",
        merge_driver,
        Shown::Never
    )),
    Entry::Verb(verb!(
        "shim",
        "Called by jit to own one running agent",
        shim,
        Shown::Never
    )),
];

/// Global options: every command accepts them.
#[derive(Debug)]
struct Everywhere {
    dir: Vec<PathBuf>,
    json: bool,
    fields: Vec<String>,
    agent_id: Option<String>,
    request_id: Option<String>,
    lock_timeout: Option<u64>,
    quiet: bool,
    color: Color,
}

type Build = fn(Arg) -> Arg;

/// Definitions of the global options. A table, not a derive, so that only the options that were typed are built.
const EVERYWHERE: &[(&str, Build)] = &[
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

impl Everywhere {
    /// Reads the global options. An option that was not typed may be unknown to `matches`. If an option was typed both
    /// before and after the verb, the one after the verb counts.
    fn of(matches: &ArgMatches) -> Self {
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
pub struct Cx {
    everywhere: Everywhere,
    pub style: Style,
    /// The words as typed, so that the command can be printed again.
    typed: Vec<OsString>,
}

/// The result of a command: text for standard output, warnings, and the exit code.
pub struct Output {
    text: String,
    warnings: Vec<String>,
    exit: u8,
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

impl Cx {
    pub fn json(&self) -> bool {
        self.everywhere.json
    }

    pub fn options(&self) -> Outcome<Options> {
        let named = match &self.everywhere.request_id {
            Some(id) => Some(id.clone()),
            None => std::env::var("JIT_REQUEST_ID").ok().filter(|id| !id.is_empty()),
        };
        let request = named.map(|id| id.parse()).transpose().map_err(invalid)?;
        Ok(Options {
            dir: None,
            agent: self.everywhere.agent_id.clone(),
            lock_timeout: self.everywhere.lock_timeout.map(Duration::from_secs),
            request,
            single_threaded: false,
        })
    }

    pub fn app(&self, need: Need) -> Outcome<Context> {
        jit_engine::opening::open(&self.options()?, need)
    }

    /// Opens the context like `app`. If the current folder was a worktree and is none any more, opens its repository
    /// instead and also returns the folder's name.
    pub fn app_or_lost(&self, need: Need) -> Outcome<(Context, Option<String>)> {
        let options = self.options()?;
        match (
            jit_engine::opening::open(&options, need),
            jit_engine::worktrees::removed_worktree::lost(),
        ) {
            (Err(_), Some(lost)) => {
                let app = jit_engine::opening::open(
                    &Options {
                        dir: Some(lost.common),
                        ..options
                    },
                    need,
                )?;
                Ok((app, Some(lost.folder.to_string_lossy().into_owned())))
            }
            (Err(_), None) if std::env::current_dir().is_err() => {
                let refusal = Refusal::new(Code::NotFound, "the folder that you are in is gone");
                Err(Box::new(
                    refusal.help("cd <the repository>, then: jit finish <unit>"),
                ))
            }
            (app, _) => Ok((app?, None)),
        }
    }

    pub fn quiet(&self) -> bool {
        self.everywhere.quiet
    }

    /// Returns the answer in the requested form: text or JSON.
    pub fn show(&self, value: &impl serde::Serialize, text: impl FnOnce(Style) -> String) -> Output {
        let fields = &self.everywhere.fields;
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
        let mut line = if self.everywhere.fields.is_empty() {
            serde_json::to_string(value).unwrap_or_default()
        } else {
            self.kept(value).to_string()
        };
        line.push('\n');
        render::clean_json(line)
    }

    /// Returns the value with only the fields that --fields names.
    pub fn kept(&self, value: &impl serde::Serialize) -> serde_json::Value {
        let value = serde_json::to_value(value).unwrap_or_default();
        match self.everywhere.fields.as_slice() {
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

    /// Sends a request to the engine and shows the reply.
    pub fn ask(&self, request: impl Into<Request>) -> Outcome<Output> {
        let request = request.into();
        let facts = request.facts();
        let writes = facts.writes;
        let done = match request {
            Request::Claims(ClaimRequest::Renew { .. }) => "Renewed:",
            Request::Claims(ClaimRequest::Transfer { .. }) => "Handed over:",
            _ => "Granted:",
        };
        let options = Options {
            single_threaded: true,
            ..self.options()?
        };
        let app = jit_engine::opening::open(&options, facts.need())?;
        jit_os::memory::use_large_pages();
        let (Answer { reply, warnings }, shown) = jit_engine::handle::handle_and(&app, request, |reply| {
            self.show(&reply.value(), |style| match writes && self.quiet() {
                true => ids(reply),
                false => text(reply, done, style),
            })
        })?;
        let output = shown.warn(warnings);
        // Not freed: the process ends with this answer, and freeing a list of ten thousand takes as long as building it.
        std::mem::forget(reply);
        Ok(output)
    }
}

/// Returns the ids of everything that was written, one a line.
fn ids(reply: &Reply) -> String {
    let ids: Vec<&str> = match reply {
        Reply::Claims(ClaimReply::Lease(lease)) => vec![lease.lease_id.as_str()],
        Reply::Claims(ClaimReply::Picked(picked)) => {
            vec![picked.issue.issue.id.as_str(), picked.lease.lease_id.as_str()]
        }
        Reply::Claims(ClaimReply::Released(Released { released: leases }))
        | Reply::Claims(ClaimReply::Evicted(Evicted { evicted: leases })) => {
            leases.iter().map(|lease| lease.lease_id.as_str()).collect()
        }
        Reply::Issues(IssueReply::Issue(issue)) => vec![issue.issue.id.as_str()],
        Reply::Issues(IssueReply::Issues(Issues { issues })) => {
            issues.iter().map(|shown| shown.issue.id.as_str()).collect()
        }
        Reply::Issues(IssueReply::Deleted(Deleted { deleted })) => vec![deleted.as_str()],
        Reply::Issues(IssueReply::Comment(comment)) => vec![&comment.id],
        Reply::Issues(IssueReply::Imported(done)) => done.imported.iter().map(|id| id.as_str()).collect(),
        Reply::Attempts(AttemptReply::Handoff(view)) => vec![view.unit.as_str()],
        Reply::Units(UnitReply::Unit(view)) => vec![view.unit.id.as_str()],
        Reply::Units(UnitReply::Units(Units { units })) => {
            units.iter().map(|view| view.unit.id.as_str()).collect()
        }
        Reply::Sessions(SessionReply::Session(session)) => vec![session.session_id.as_str()],
        Reply::Sessions(SessionReply::Sessions(Sessions { sessions })) => {
            sessions.iter().map(|s| s.session_id.as_str()).collect()
        }
        Reply::Sessions(SessionReply::Pruned(PrunedSessions { pruned })) => {
            pruned.iter().map(|id| id.as_str()).collect()
        }
        Reply::FileLocks(FileLockReply::Locks(Locks { locks }))
        | Reply::FileLocks(FileLockReply::Released(ReleasedLocks { released: locks })) => {
            locks.iter().map(|lock| lock.lease_id.as_str()).collect()
        }
        Reply::Attempts(AttemptReply::Account(account)) => vec![account.id.as_str()],
        Reply::Workflows(WorkflowReply::Workflow(view)) => vec![view.workflow.id.as_str()],
        Reply::Workflows(WorkflowReply::Workflows(Workflows { workflows })) => {
            workflows.iter().map(|view| view.workflow.id.as_str()).collect()
        }
        Reply::Landing(LandingReply::Report(report)) => {
            report.units.iter().map(|one| one.unit.as_str()).collect()
        }
        Reply::Rescue(reply) => rescue::ids(reply),
        Reply::Claims(ClaimReply::Active(_))
        | Reply::Landing(LandingReply::Conflicts(_))
        | Reply::Claims(ClaimReply::History(_))
        | Reply::Gates(GateReply::Judged(_))
        | Reply::Issues(IssueReply::Progress(_))
        | Reply::Overview(OverviewReply::Status(_))
        | Reply::Gates(GateReply::Gates(_))
        | Reply::Gates(GateReply::Report(_))
        | Reply::Trust(TrustReply::Commands(_))
        | Reply::Trust(TrustReply::Revoked(_))
        | Reply::Issues(IssueReply::Graph(_))
        | Reply::Issues(IssueReply::Picture(_))
        | Reply::Issues(IssueReply::Tree(_))
        | Reply::FileLocks(FileLockReply::Checks(_))
        | Reply::Units(UnitReply::Env(_))
        | Reply::Units(UnitReply::Diff(_))
        | Reply::Notify(NotifyReply::Sent(_))
        | Reply::Landing(LandingReply::History(_))
        | Reply::Units(UnitReply::Orphans(_))
        | Reply::Hooks(HookReply::Verified(_))
        | Reply::Issues(IssueReply::Exported(_)) => Vec::new(),
    };
    ids.iter().map(|id| format!("{id}\n")).collect()
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

/// Returns the whole grammar, for completions and manual pages. It hides only the commands that programs call.
fn documented() -> Command {
    let mut root = tree(Wanted::All);
    for entry in TABLE {
        let (name, shown) = match entry {
            Entry::Verb(verb) => (verb.name, verb.shown),
            Entry::Noun(name, _, shown, _) => (*name, *shown),
        };
        root = root.mut_subcommand(name, |command| command.hide(shown == Shown::Never));
    }
    root
}

fn text(reply: &Reply, done: &str, style: Style) -> String {
    match reply {
        Reply::Claims(ClaimReply::Lease(lease)) => render::lease(lease, done, style),
        Reply::Claims(ClaimReply::Released(Released { released: leases }))
        | Reply::Claims(ClaimReply::Evicted(Evicted { evicted: leases })) => {
            let done = if matches!(reply, Reply::Claims(ClaimReply::Released(_))) {
                "Released"
            } else {
                "Evicted"
            };
            let line = |lease: &jit_core::query::claim_views::LeaseView| {
                let what = lease
                    .issue_id
                    .as_ref()
                    .map_or("a lock on files", |id| id.as_str());
                format!("{done} {} (lease {})\n", style.bold(what), lease.lease_id)
            };
            leases.iter().map(line).collect()
        }
        Reply::Claims(ClaimReply::Active(claims)) => render::claims(&claims.active, style),
        Reply::Claims(ClaimReply::History(ClaimHistory { records })) => {
            records.iter().map(claim::history::line).collect()
        }
        Reply::Claims(ClaimReply::Picked(picked)) => {
            render::lease(&picked.lease, done, style) + "\n" + &render::issue(&picked.issue, style)
        }
        Reply::Issues(IssueReply::Issue(issue)) => render::issue(issue, style),
        Reply::Issues(IssueReply::Issues(Issues { issues })) => render::issues(issues, style),
        Reply::Issues(IssueReply::Deleted(Deleted { deleted })) => {
            format!("Deleted {}\n", style.bold(deleted.as_str()))
        }
        Reply::Issues(IssueReply::Comment(comment)) => format!("Noted: {}\n", comment.id),
        Reply::Gates(GateReply::Judged(result)) => {
            format!("{}\n", if result.passed { "passed" } else { "failed" })
        }
        Reply::Issues(IssueReply::Progress(progress)) => render::progress(progress, style),
        Reply::Overview(OverviewReply::Status(status)) => render::status(status, style),
        Reply::Gates(GateReply::Gates(Gates { gates })) => gate::gates_text(gates, style),
        Reply::Gates(GateReply::Report(report)) => gate::report_text(report, None, style),
        Reply::Trust(TrustReply::Commands(Commands { commands })) => trust::commands_text(commands, style),
        Reply::Trust(TrustReply::Revoked(Revoked { revoked })) => {
            format!("Approvals taken back: {revoked}\n")
        }
        // Only shown as JSON.
        Reply::Issues(IssueReply::Graph(_)) => String::new(),
        Reply::Issues(IssueReply::Picture(picture)) => picture.text.clone(),
        Reply::Issues(IssueReply::Tree(tree)) => jit_core::query::graph::lines(tree),
        Reply::Issues(IssueReply::Imported(_)) => ids(reply),
        Reply::Attempts(AttemptReply::Handoff(view)) => handoff::view_text(view, style),
        Reply::Units(UnitReply::Unit(view)) => worktree::view_text(view, style),
        Reply::Units(UnitReply::Units(Units { units })) => worktree::units_text(units, style),
        Reply::Units(UnitReply::Diff(diff)) => render::clean(&diff.diff),
        Reply::Attempts(AttemptReply::Account(account)) => format!(
            "Agents are started on {} again\n",
            style.bold(account.id.as_str())
        ),
        Reply::Notify(NotifyReply::Sent(Notified { sent })) => notify::sent_text(sent, style),
        Reply::Workflows(WorkflowReply::Workflow(view)) => workflow::workflow_text(view, style),
        Reply::Workflows(WorkflowReply::Workflows(Workflows { workflows })) => {
            workflow::workflows_text(workflows, style)
        }
        Reply::Units(UnitReply::Env(UnitEnv { env })) => env
            .iter()
            .map(|(name, value)| format!("{name}={value}\n"))
            .collect(),
        Reply::Landing(LandingReply::History(Landings { landed })) => log::text(landed),
        Reply::Units(UnitReply::Orphans(Orphans { orphans })) if orphans.is_empty() => {
            "Everything fits together.\n".into()
        }
        Reply::Units(UnitReply::Orphans(Orphans { orphans })) => orphans
            .iter()
            .map(|one| {
                let done = if one.settled { " (ended)" } else { "" };
                let what = render::clean_line(&one.what);
                format!("{}: {what}{done}\n", render::clean_line(&one.path))
            })
            .collect(),
        Reply::Sessions(SessionReply::Session(session)) => session::session_text(session, style),
        Reply::Sessions(SessionReply::Sessions(Sessions { sessions })) => {
            session::sessions_text(sessions, style)
        }
        Reply::Sessions(SessionReply::Pruned(PrunedSessions { pruned })) => {
            format!("Taken off the list: {}\n", pruned.len())
        }
        Reply::FileLocks(FileLockReply::Locks(Locks { locks })) => {
            lock::locks_text(locks, "Nothing is locked.", style)
        }
        Reply::FileLocks(FileLockReply::Released(ReleasedLocks { released })) => released
            .iter()
            .map(|lock| format!("Released {}\n", style.bold(&render::clean_line(&lock.file_path))))
            .collect(),
        Reply::FileLocks(FileLockReply::Checks(LockChecks { paths })) => lock::checks_text(paths, style),
        Reply::Hooks(HookReply::Verified(verified)) => verify::text(verified, style),
        Reply::Rescue(reply) => rescue::text(reply, style),
        Reply::Issues(IssueReply::Exported(Exported { lines, .. })) => lines.clone(),
        Reply::Landing(LandingReply::Report(report)) => worktree::merge::report_text(report, style),
        Reply::Landing(LandingReply::Conflicts(picture)) => conflicts::picture_text(picture, style),
    }
}

/// Parses a duration such as `600`, `90s` or `1h30m` into seconds.
pub fn duration(text: &str) -> Result<u64, String> {
    jit_engine::duration::parse_secs(text).map_err(|e| e.to_string())
}

pub fn invalid(why: impl ToString) -> Box<Refusal> {
    Box::new(Refusal::new(Code::Invalid, why.to_string()))
}

/// Turns an error of clap into a refusal.
fn usage(e: &clap::Error) -> Box<Refusal> {
    let text = e.render().to_string();
    let mut lines = text.lines();
    let message = lines
        .next()
        .unwrap_or_default()
        .trim_start_matches("error: ")
        .to_owned();
    let rest: Vec<&str> = lines.map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut message = message;
    let mut help = Vec::new();
    for line in rest {
        if let Some(usage) = line.strip_prefix("Usage: ") {
            help.push(usage.to_owned());
        } else if let Some(tip) = line.strip_prefix("tip: ") {
            help.push(tip.to_owned());
        } else if !line.starts_with("For more information") {
            message.push(' ');
            message.push_str(line);
        }
    }
    let mut refusal = Refusal::new(Code::Usage, message);
    refusal.help = help;
    Box::new(refusal)
}

/// Returns a hint for a value that looks like an option. It applies if joining an option and the next word with `=` makes
/// the command line valid.
fn as_value(args: &[OsString]) -> Option<String> {
    (1..args.len()).find_map(|n| {
        let (option, value) = (args[n - 1].to_str()?, args[n].to_str()?);
        if !option.starts_with("--") || option.contains('=') || !value.starts_with('-') || value == "--" {
            return None;
        }
        let joined = format!("{option}={value}");
        let mut words = args.to_vec();
        words.splice(n - 1..=n, [OsString::from(&joined)]);
        let parsed = tree(Wanted::All).try_get_matches_from(words);
        parsed.is_ok().then(|| {
            let shown = jit_os::shell::shell_word(&joined);
            format!("to pass {value:?} as the value of {option}, use {shown}")
        })
    })
}

/// The part of the grammar to build. Building all of it takes longer than a claim takes.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    All,
    /// Only the commands and options that these words could name. If this part parses the words, the whole grammar parses
    /// them with the same meaning. Help, mistakes and the suggestions after a mistake need the whole grammar.
    Among(&'a [OsString]),
}

impl Wanted<'_> {
    fn command(self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Among(words) => words.iter().any(|word| word == name),
        }
    }

    /// Tells whether to build `--help` and `--version`. Each command has its own copy, and few calls use them.
    fn help(self) -> bool {
        self.option("help") || self.option("version")
    }

    fn option(self, name: &str) -> bool {
        let Self::Among(words) = self else { return true };
        // Several short options may share one word.
        let short = match name {
            "dir" => b'C',
            "quiet" => b'q',
            "help" => b'h',
            "version" => b'V',
            _ => 0,
        };
        words
            .iter()
            .map(|word| word.as_encoded_bytes())
            .any(|word| match word {
                [b'-', b'-', long @ ..] => long.starts_with(name.as_bytes()),
                [b'-', letters @ ..] => letters.contains(&short),
                _ => false,
            })
    }
}

fn tree(wanted: Wanted<'_>) -> Command {
    let help = wanted.help();
    let mut root = Command::new("jit")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Many agents, one repository: work is never lost and never given to two")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_flag(!help)
        .disable_version_flag(!help)
        .disable_help_subcommand(true);
    if wanted.option("all") {
        let all = Arg::new("all").long("all").action(ArgAction::SetTrue);
        root = root.arg(all.help("With --help: show every command"));
    }
    root = everywhere(root.next_help_heading("Everywhere"), wanted);
    let name_of = |entry: &Entry| match entry {
        Entry::Verb(verb) => verb.name,
        Entry::Noun(name, ..) => name,
    };
    for entry in TABLE.iter().filter(|entry| wanted.command(name_of(entry))) {
        root = root.subcommand(match entry {
            Entry::Verb(verb) => verb_command(verb, wanted),
            Entry::Noun(name, about, shown, verbs) => {
                let mut noun = Command::new(*name)
                    .about(*about)
                    .hide(*shown != Shown::Everyday)
                    .subcommand_required(true)
                    .arg_required_else_help(true)
                    .disable_help_flag(!help)
                    .disable_help_subcommand(true);
                for verb in verbs.iter().filter(|verb| wanted.command(verb.name)) {
                    noun = noun.subcommand(verb_command(verb, wanted));
                }
                noun
            }
        });
    }
    root
}

fn verb_command(verb: &Verb, wanted: Wanted<'_>) -> Command {
    let command = Command::new(verb.name)
        .about(verb.about)
        .disable_help_flag(!wanted.help())
        .hide(verb.shown != Shown::Everyday)
        .defer(verb.flags);
    match wanted {
        Wanted::All => command,
        Wanted::Among(_) => everywhere(command, wanted),
    }
}

/// Adds the global options. In the whole grammar clap passes them on to every subcommand, which takes long. The shortened
/// grammar has them only where they are usually typed: at the beginning and at the end.
fn everywhere(mut command: Command, wanted: Wanted<'_>) -> Command {
    let all = matches!(wanted, Wanted::All);
    for (name, build) in EVERYWHERE.iter().filter(|(name, _)| wanted.option(name)) {
        command = command.arg(build(Arg::new(*name)).global(all));
    }
    command
}

fn all_commands() -> String {
    let mut rows = Vec::new();
    for entry in TABLE {
        match entry {
            Entry::Verb(verb) if verb.shown != Shown::Never => {
                rows.push(vec![format!("  jit {}", verb.name), verb.about.to_owned()]);
            }
            Entry::Verb(_) => {}
            Entry::Noun(noun, _, _, verbs) => {
                for verb in *verbs {
                    rows.push(vec![format!("  jit {noun} {}", verb.name), verb.about.to_owned()]);
                }
            }
        }
    }
    format!("Every command (each has --help):\n\n{}", render::table(&rows))
}

fn find(matches: &ArgMatches) -> Option<(&'static Verb, &ArgMatches)> {
    let (name, below) = matches.subcommand()?;
    TABLE.iter().find_map(|entry| match entry {
        Entry::Verb(verb) if verb.name == name => Some((verb, below)),
        Entry::Noun(noun, _, _, verbs) if *noun == name => {
            let (name, below) = below.subcommand()?;
            verbs
                .iter()
                .find(|verb| verb.name == name)
                .map(|verb| (verb, below))
        }
        _ => None,
    })
}

pub fn main(args: Vec<OsString>) -> u8 {
    // Programs call this to check whether jit is installed, so it is answered without building a grammar.
    if args.len() == 2 && (args[1] == "--version" || args[1] == "-V") {
        return finish(render::print(concat!("jit ", env!("CARGO_PKG_VERSION"), "\n")), 0);
    }
    let says = |flag: &str| args.iter().skip(1).take_while(|a| *a != "--").any(|a| a == flag);
    let typed = tree(Wanted::Among(&args)).try_get_matches_from(&args);
    let matches = match typed.or_else(|_| tree(Wanted::All).try_get_matches_from(&args)) {
        Ok(matches) => matches,
        Err(e) => match e.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                let version = e.kind() == ErrorKind::DisplayVersion;
                let text = if says("--all") && !version {
                    all_commands()
                } else {
                    e.render().to_string()
                };
                let text = match (says("--json"), version) {
                    (false, _) => text,
                    (true, true) => json_line(&json!({ "version": env!("CARGO_PKG_VERSION") })),
                    (true, false) => json_line(&json!({ "help": text })),
                };
                return finish(render::print(&text), 0);
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand if !says("--json") => {
                render::say(e.render().to_string().trim_end());
                return 2;
            }
            _ => {
                let mut refusal = usage(&e);
                if let Some(joined) = as_value(&args) {
                    // clap suggests to put the value behind `--`, but there it is not the value of the option.
                    refusal.help.retain(|tip| !tip.contains("as a value"));
                    refusal.help.insert(0, joined);
                }
                return fail(&refusal, says("--json"));
            }
        },
    };
    let everywhere = Everywhere::of(&matches);
    let json = everywhere.json;
    let Some((verb, below)) = find(&matches) else {
        return fail(&invalid("no such command"), json);
    };
    for dir in &everywhere.dir {
        if let Err(e) = std::env::set_current_dir(dir) {
            let refusal = Refusal::new(Code::NotFound, format!("cannot go to {}: {e}", dir.display()));
            return fail(&refusal, json);
        }
    }
    let cx = Cx {
        style: Style::new(everywhere.color),
        everywhere,
        typed: args,
    };
    match (verb.run)(below, &cx) {
        Ok(output) => {
            if !cx.everywhere.quiet {
                for warning in &output.warnings {
                    render::say(&format!("warning: {}", render::clean_line(warning)));
                }
            }
            finish(render::print(&output.text), output.exit)
        }
        Err(mut refusal) => {
            if refusal.code == Code::Unknown {
                refusal.help.insert(0, repeat(&cx.typed, &refusal.details));
            }
            fail(&refusal, json)
        }
    }
}

/// Returns the command to run again after an unknown outcome: the same words, with the request id.
fn repeat(typed: &[OsString], details: &Details) -> String {
    let Details::Facts(facts) = details else {
        return String::new();
    };
    let id = facts
        .iter()
        .find(|(name, _)| *name == "request_id")
        .map_or("", |(_, id)| id);
    let quote = |word: &OsString| jit_os::shell::shell_word(&word.to_string_lossy());
    let mut words: Vec<String> = vec!["jit".into()];
    // In front, because behind a `--` it would not be read as an option.
    if !typed
        .iter()
        .any(|word| word.to_string_lossy().starts_with("--request-id"))
    {
        words.push(format!("--request-id {id}"));
    }
    words.extend(typed.iter().skip(1).map(quote));
    words.join(" ")
}

fn json_line(value: &serde_json::Value) -> String {
    render::clean_json(format!("{value}\n"))
}

fn fail(refusal: &Refusal, json: bool) -> u8 {
    if json {
        return finish(
            render::print(&json_line(&exit::failure(refusal))),
            refusal.code.exit(),
        );
    }
    render::say(&format!("error: {}", render::clean(&refusal.message)));
    for line in &refusal.help {
        render::say(&format!("  try: {}", render::clean_line(line)));
    }
    refusal.code.exit()
}

fn finish(printed: std::io::Result<bool>, code: u8) -> u8 {
    match printed {
        Ok(true) => code,
        Ok(false) => exit::BROKEN_PIPE,
        Err(e) => {
            render::say(&format!("error: cannot write to standard output: {e}"));
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i1_the_command_to_repeat_can_be_pasted_and_has_its_request_id() {
        let repeated = |typed: &[&str]| {
            let typed: Vec<OsString> = typed.iter().map(OsString::from).collect();
            repeat(&typed, &Details::Facts(vec![("request_id", "R1".into())]))
        };
        assert_eq!(
            repeated(&["/bin/jit", "issue", "create", "--", "--it's odd"]),
            r"jit --request-id R1 issue create -- '--it'\''s odd'"
        );
        assert_eq!(
            repeated(&["jit", "claim", "acquire", "X", "--request-id=mine"]),
            "jit claim acquire X --request-id=mine"
        );
    }

    #[test]
    fn i1_the_shortened_grammar_means_what_the_whole_one_means() {
        for line in [
            "jit claim acquire X",
            "jit --json claim acquire X --agent-id agent:a",
            "jit -C a -C b claim release X -C c --quiet",
            "jit --agent-id agent:a claim acquire X --agent-id agent:b --fields a,b --fields c",
            "jit -qC a whoami --color never --lock-timeout 5s",
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let meant = |wanted| {
                let matches = tree(wanted).try_get_matches_from(&words).expect(line);
                format!("{:?}", Everywhere::of(&matches))
            };
            assert_eq!(meant(Wanted::Among(&words)), meant(Wanted::All), "{line}");
        }
    }

    #[test]
    fn i1_the_tree_of_commands_is_sound() {
        let mut all = tree(Wanted::All);
        all.build();
        all.debug_assert();
    }
}
