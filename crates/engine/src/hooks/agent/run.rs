//! One call of the hook: from the agent program's document to jit's answer.
//!
//! The agent id comes from `JIT_AGENT_ID` or a session above the agent, else it is `agent:<program>-<its session>`.
//! That is the agent's own name, never the person's. At the start its process is bound to a session, so that `jit` in
//! its shells knows it.
//!
//! The worktree of a session is where it was started, in this order:
//! - a worktree that Claude Code made for itself below `.claude/worktrees/`, if the call comes from there;
//! - the folder that the program names as the project;
//! - the folder noted for its process at the start.
//!
//! The current folder of the agent's shell does not matter.

use crate::api::file_locks::FileLockReply;
use crate::api::file_locks::LockChecks;
use crate::api::issues::IssueReply;
use crate::api::issues::Issues;
use crate::api::sessions::SessionReply;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jit_agents::hooks::decision::{HookDecision as Verdict, Objection, RuleMode as Mode};
use jit_agents::hooks::input::{self, Act, BadInput, ToolCall};
use jit_agents::hooks::{HookEvent as Event, Program, answer};
use jit_core::log::state;
use jit_core::model::ids::AgentId;
use jit_core::model::lease::Lease;
use jit_core::model::policy::Enforce;
use jit_core::model::refusal::{Code, Details, Refusal};
use jit_core::model::session::SessionStatus;
use jit_core::model::time::Wall;
use jit_git::{GitEnv, Place};
use jit_os::clock;
use jit_store::Outcome;

use super::ground::{Ground, Whose};
use super::guard::{self, Rules};
use crate::api::Options;
use crate::api::Reply;
use crate::api::file_locks::LockPaths;
use crate::api::sessions::{BindTo, StartSession};
use crate::config::{Config, Origin, Sources};
use crate::context::{Context, Surroundings};
use crate::heartbeats::{FileHeartbeats, Heartbeats as _};
use crate::identity::Source;
use crate::identity::process_binding as sessions;
use crate::landing::notes;
use crate::units::scope::Scope;
use crate::worktree_identity::identity::Need;

/// The longest wait for the store's lock: the agent is blocked meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);
/// The number of ready issues that are listed at the start.
const NAMED: usize = 3;

/// Returns the text to print; empty if there is nothing to report. Never fails: an error becomes part of the answer.
pub fn run(options: &Options, program: Program, event: Event, stdin: impl Read) -> String {
    let call = input::slurp(stdin).and_then(|bytes| input::parse(program, event, &bytes));
    let start = start(program, event, call.as_ref().ok());
    let Ok(place) = Place::discover(&start, &GitEnv::from_process()) else {
        return String::new();
    };
    if !uses_jit(&place) {
        return String::new();
    }
    let session = call.as_ref().ok().and_then(|call| call.session.clone());
    let hook = Hook::new(options, program, session, start);
    match event {
        Event::BeforeTool => {
            let mut verdict = Verdict::default();
            hook.before_tool(call, &mut verdict);
            answer::before_tool(program, &verdict)
        }
        // The other events only inform. An agent is not blocked because they fail.
        Event::AfterTool => answer::context(program, event, &hook.after_tool().unwrap_or_default()),
        Event::Prompt => answer::context(program, event, &hook.prompt().unwrap_or_default()),
        Event::SessionStart => match hook.session_start() {
            Ok(text) => answer::context(program, event, &text),
            Err(refusal) => answer::context(program, event, &format!("jit: {}", refusal.message)),
        },
        Event::Stop => match hook.stop(call.is_ok_and(|call| call.asked_before)) {
            Ok(Some(reason)) => answer::not_yet(program, &reason),
            _ => String::new(),
        },
        Event::SessionEnd => hook.session_end().unwrap_or_default(),
    }
}

/// Judges `call` before a tool runs, as [`run`] does, for callers that talk to the agent in the same process. `start`
/// is the agent's working folder.
pub fn judge(options: &Options, program: Program, start: &Path, call: Result<ToolCall, BadInput>) -> Verdict {
    let mut verdict = Verdict::default();
    let Ok(place) = Place::discover(start, &GitEnv::from_process()) else {
        return verdict;
    };
    if uses_jit(&place) {
        let session = call.as_ref().ok().and_then(|call| call.session.clone());
        Hook::new(options, program, session, start.to_owned()).before_tool(call, &mut verdict);
    }
    verdict
}

/// Returns whether this is a linked worktree, as units have it.
fn is_linked(place: &Place) -> bool {
    place.git_dir.is_some() && place.git_dir != place.common_dir
}

/// Objects to writes outside the agent's scope in this repository (G15). A command that may change any file is judged
/// by its result, after the agent has ended.
fn within(
    ground: &Ground,
    scope: &Scope,
    files: &[PathBuf],
    runs: bool,
    whole_tree: Option<&str>,
    verdict: &mut Verdict,
) {
    let own = std::fs::canonicalize(&ground.own).unwrap_or_else(|_| ground.own.clone());
    for path in files {
        let allowed = match ground.whose(path) {
            Whose::Elsewhere => true,
            Whose::Other(_) | Whose::Git | Whose::State => false,
            Whose::Own => match path.strip_prefix(&own) {
                // Parts of git's folder that belong to this worktree.
                Err(_) => true,
                Ok(below) => {
                    let below = below.to_string_lossy();
                    // The agent may create a folder that leads to a path it may write.
                    let on_the_way = runs && !path.is_file() && scope.reaches_below(&below);
                    scope.allows(&below) || on_the_way
                }
            },
        };
        if !allowed {
            let what = format!(
                "{} is not yours to change: you may write only {}.",
                path.display(),
                scope.shown()
            );
            let instead = "Do without it, and say in your last message what should be changed there.";
            verdict.add(Mode::Deny, Objection::new(what, instead));
        }
    }
    if let Some(text) = whole_tree {
        let text: String = text.chars().take(60).collect();
        let what = format!(
            "{text:?} may change any file, and you may write only {}.",
            scope.shown()
        );
        let instead =
            "Look at `git status` afterwards: what differs elsewhere when you end is sent back to you.";
        verdict.add(Mode::Warn, Objection::new(what, instead));
    }
}

fn uses_jit(place: &Place) -> bool {
    place.control_dir.is_dir() || place.local_jit.as_deref().is_some_and(Path::is_dir)
}

/// Returns the session's worktree folder, as the module header describes.
fn start(program: Program, event: Event, call: Option<&ToolCall>) -> PathBuf {
    let var = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let project = match program {
        Program::Claude => var("CLAUDE_PROJECT_DIR"),
        Program::Gemini => var("GEMINI_PROJECT_DIR"),
        Program::Codex => None,
    };
    let cwd = call.and_then(|call| call.cwd.clone()).filter(|cwd| cwd.is_dir());
    match (project.filter(|project| project.is_dir()), cwd) {
        (Some(project), Some(cwd)) if !cwd.starts_with(project.join(".claude/worktrees")) => project,
        (Some(_), Some(cwd)) => cwd,
        // The agent's shell may be anywhere by now. The folder where the session began counts.
        (None, cwd)
            if event != Event::SessionStart
                && let Some(home) = sessions::home() =>
        {
            cwd.filter(|cwd| cwd.starts_with(&home)).unwrap_or(home)
        }
        (None, Some(cwd)) => cwd,
        (Some(project), None) => project,
        (None, None) => PathBuf::from("."),
    }
}

struct Hook {
    options: Options,
    program: Program,
    /// The program's own id of its session.
    session: Option<String>,
    start: PathBuf,
}

/// Returns the strongest mode that the settings allow.
fn ceiling(config: &Config) -> Mode {
    match config.policy().enforce {
        Enforce::Off => Mode::Off,
        Enforce::Warn => Mode::Warn,
        Enforce::Strict | Enforce::StrictExplicit => Mode::Deny,
    }
}

fn rules(config: &Config) -> Rules {
    let most = ceiling(config);
    Rules {
        outside_worktree: most.min(config.outside_worktree()),
        stash: most.min(config.stash()),
        destructive_git: most.min(config.destructive_git()),
    }
}

impl Hook {
    fn new(options: &Options, program: Program, session: Option<String>, start: PathBuf) -> Self {
        Self {
            options: Options {
                dir: Some(start.clone()),
                lock_timeout: options.lock_timeout.or(Some(PATIENCE)),
                ..options.clone()
            },
            program,
            session,
            start,
        }
    }

    fn surroundings(&self) -> Outcome<Surroundings> {
        let mut found = Surroundings::find(&self.options)?;
        if matches!(found.whoami.source, Source::AgentFile(_) | Source::OsUser) {
            found.whoami.agent_id = self.own_name();
            found.whoami.source = Source::Flag;
        }
        Ok(found)
    }

    /// Returns `agent:claude-1a2b3c4d`: the same for all calls of one session, also after it is resumed.
    fn own_name(&self) -> AgentId {
        let id = self.session.as_deref().unwrap_or_default();
        // The end of an id differs more than its beginning, which may be a time.
        let letters: Vec<char> = id.chars().filter(char::is_ascii_alphanumeric).collect();
        let end: String = letters.iter().skip(letters.len().saturating_sub(8)).collect();
        let name = match end.is_empty() {
            true => format!("agent:{}", self.program),
            false => format!("agent:{}-{end}", self.program),
        };
        match name.parse() {
            Ok(id) => id,
            Err(error) => unreachable!("{error}"),
        }
    }

    fn cx(&self, need: Need) -> Outcome<Context> {
        crate::opening::within(self.surroundings()?, &self.options, need)
    }

    fn before_tool(&self, call: Result<ToolCall, BadInput>, verdict: &mut Verdict) {
        let found = match self.surroundings() {
            Ok(found) => found,
            Err(refusal) if refusal.code == Code::Config => {
                return self.without_settings(&refusal, call, verdict);
            }
            Err(refusal) => return verdict.add(Mode::Deny, objection(&refusal)),
        };
        let most = ceiling(&found.config);
        // The process that started the agent set the unit's scope. No setting of the repository lifts it.
        let may_be_scoped = is_linked(&found.place);
        if most == Mode::Off && !may_be_scoped {
            return;
        }
        let call = match call {
            Ok(call) => call,
            Err(bad) => {
                let what = format!("This step cannot be judged: {bad}.");
                return verdict.add(most, Objection::new(what, "Try it in another way."));
            }
        };
        if call.act == Act::Harmless {
            return;
        }
        let rules = rules(&found.config);
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let mut ground = match Ground::survey(&found.place, home) {
            Ok(ground) => ground,
            Err(error) => {
                let what = format!("The worktrees of this repository cannot be read: {error}.");
                return verdict.add(most, Objection::new(what, "See `jit doctor`."));
            }
        };
        ground.agent = Some(found.whoami.agent_id.to_string());
        let cwd = call.cwd.clone().unwrap_or_else(|| self.start.clone());
        let mut cx = None;
        let mut whole_tree = None;
        let files = match &call.act {
            Act::Harmless => return,
            Act::Unknown => {
                let tool: String = call.tool.chars().take(60).collect();
                let what = format!("jit does not know what the tool {tool:?} writes.");
                let instead = "Use a tool it knows, or let the hook's matcher leave this one out.";
                return verdict.add(most, Objection::new(what, instead));
            }
            Act::Write(paths) => {
                let judge = |path: &PathBuf| guard::write(&ground, &rules, path, &cwd, verdict);
                paths.iter().filter_map(judge).collect()
            }
            Act::Run(text) => {
                if most != Mode::Off && text.contains("git") {
                    match crate::opening::within(found, &self.options, Need::Write).and_then(|cx| {
                        ground.held = held(&cx)?;
                        Ok(cx)
                    }) {
                        Ok(opened) => cx = Some(opened),
                        Err(refusal) => return verdict.add(most, objection(&refusal)),
                    }
                }
                let seen = guard::judge(&ground, &rules, text, &cwd, verdict);
                whole_tree = seen.whole_tree;
                seen.writes
            }
        };
        if may_be_scoped && (!files.is_empty() || whole_tree.is_some()) {
            let opened = match cx.take() {
                Some(opened) => Ok(opened),
                None => self.cx(Need::Write),
            };
            let scope = opened.and_then(|opened| {
                let scope = crate::units::scope::scope_here(&opened)?;
                cx = Some(opened);
                Ok(scope)
            });
            match scope {
                Ok(None) => {}
                Ok(Some(scope)) => {
                    let runs = matches!(call.act, Act::Run(_));
                    within(&ground, &scope, &files, runs, whole_tree.as_deref(), verdict);
                }
                Err(refusal) => return verdict.add(most, objection(&refusal)),
            }
        }
        if most == Mode::Off {
            return;
        }
        // Files outside of every checkout belong to no agent here.
        let ours = |path: &PathBuf| matches!(ground.whose(path), Whose::Own | Whose::Other(_));
        let files: Vec<OsString> = files
            .into_iter()
            .filter(ours)
            .map(PathBuf::into_os_string)
            .collect();
        if verdict.is_denied() || (files.is_empty() && whole_tree.is_none()) {
            return;
        }
        let cx = match cx {
            Some(cx) => Ok(cx),
            None => self.cx(Need::Write),
        };
        let decided = cx.and_then(|cx| {
            if let Some(by) = whole_tree {
                nobody_elses(&cx, &ground.own, &by)?;
            }
            match files.is_empty() {
                true => Ok(()),
                false => take(&cx, files),
            }
        });
        if let Err(refusal) = decided {
            verdict.add(most, objection(&refusal));
        }
    }

    /// Judges a call while the settings cannot be read. An edit that may repair the settings file passes. All other
    /// steps are refused, because lenient settings cannot be proven. An environment variable is the exception: it
    /// counts whatever the files say.
    fn without_settings(&self, refusal: &Refusal, call: Result<ToolCall, BadInput>, verdict: &mut Verdict) {
        let Ok(place) = Place::discover(&self.start, &GitEnv::from_process()) else {
            return verdict.add(Mode::Deny, objection(refusal));
        };
        let (config, _) = Config::load_despite(&Sources::from_process(&place));
        let said_so = matches!(config.origin("worktree.enforce_leases"), Ok(Origin::Env { .. }));
        let most = match said_so {
            true => ceiling(&config),
            false => Mode::Deny,
        };
        let what = format!("{}.", refusal.message);
        let mending = place.local_jit.as_deref().map(|local| local.join("config.toml"));
        let shown = mending
            .as_deref()
            .unwrap_or(Path::new("it"))
            .display()
            .to_string();
        match call {
            Ok(call) if call.act == Act::Harmless => {}
            Ok(ToolCall {
                act: Act::Write(paths),
                cwd,
                ..
            }) if !paths.is_empty()
                && mending.is_some_and(|file| {
                    paths
                        .iter()
                        .all(|path| is_same(&cwd.as_deref().unwrap_or(&self.start).join(path), &file))
                }) =>
            {
                let instead =
                    "This edit may mend it, and passes without a lock; `jit doctor` tells whether it did.";
                verdict.add(most.min(Mode::Warn), Objection::new(what, instead));
            }
            _ => {
                let instead = format!(
                    "Until that can be read nobody knows what is allowed here, so this step is refused. Mend {shown} first: \
                     an edit of that file passes."
                );
                verdict.add(most, Objection::new(what, instead));
            }
        }
    }

    /// Returns the report about conflicts that appeared while the agent worked (H8).
    fn news(&self, place: &Place, agent: &AgentId) -> String {
        let session = self.session.as_deref().unwrap_or(agent.as_str());
        let root = place.worktree_root.as_deref();
        root.and_then(|root| notes::news(&place.control_dir, root, session))
            .unwrap_or_default()
    }

    fn prompt(&self) -> Outcome<String> {
        let found = self.surroundings()?;
        Ok(self.news(&found.place, &found.whoami.agent_id))
    }

    fn after_tool(&self) -> Outcome<String> {
        let found = self.surroundings()?;
        let news = self.news(&found.place, &found.whoami.agent_id);
        // The report is delivered even if the heartbeat fails.
        let _ = self.beat(found);
        Ok(news)
    }

    fn beat(&self, found: Surroundings) -> Outcome<()> {
        let beat = FileHeartbeats::at(&found.place.control_dir).of(&found.whoami.agent_id);
        let age = beat.map(|beat| beat.age_secs(Wall::from_ms(clock::wall_ms())));
        if age.is_some_and(|age| age < found.config.heartbeat_interval_secs()) {
            return Ok(());
        }
        let cx = crate::opening::within(found, &self.options, Need::Write)?;
        self.at_work(&cx)?;
        crate::leases::renew_own(&cx)?;
        Ok(())
    }

    /// Ensures a session for the agent's process, and writes a heartbeat.
    fn at_work(&self, cx: &Context) -> Outcome<()> {
        if let Ok(answer) = crate::sessions::show_session(cx, None)
            && let Reply::Sessions(SessionReply::Session(session)) = answer.reply
            && session.status != SessionStatus::Completed
        {
            let bound = sessions::all(&cx.place.control_dir).unwrap_or_default();
            if bound.iter().any(|bound| bound.session_id == session.session_id) {
                return crate::sessions::beat_session(cx, Some(&session.session_id)).map(drop);
            }
        }
        let bind = sessions::agent_process(std::process::id()).ok().flatten();
        if let (Some(process), Some(root)) = (bind, cx.place.worktree_root.as_deref()) {
            // Without it the guard uses the current folder of the agent's shell.
            let _ = sessions::settle(process, root);
        }
        crate::sessions::start_session(
            cx,
            &StartSession {
                bind: bind.map(BindTo::Process),
                program: Some(self.program.as_str().to_owned()),
                program_session: self.session.clone(),
                ..StartSession::default()
            },
        )
        .map(drop)
    }

    fn session_start(&self) -> Outcome<String> {
        let cx = self.cx(Need::Write)?;
        self.at_work(&cx)?;
        let root = cx.place.worktree_root.as_deref().unwrap_or(&self.start);
        let branch = cx
            .branch
            .as_deref()
            .map_or(String::new(), |branch| format!(", branch {branch}"));
        let mut lines = vec![format!(
            "jit: you are {} in {}{branch}. Stay in that folder; the files you edit are locked for you.",
            cx.actor.agent_id,
            root.display()
        )];
        for lease in claims(&cx)? {
            let issue = lease.resource.issue().map_or("?", |id| id.as_str());
            lines.push(format!("You hold {issue} until {}.", lease.expires_at));
        }
        crate::issues::sync::notice_tree(&cx);
        let ready = crate::issues::issue_lists::ready(&cx, &Default::default(), Some(NAMED))?;
        if let Reply::Issues(IssueReply::Issues(Issues { issues })) = ready.reply {
            for shown in issues.iter() {
                let (id, title) = (shown.issue.id.as_str(), shown.issue.title.as_str());
                lines.push(format!("Ready: {id} {:?}", short(title)));
            }
        }
        lines.push(
            "`jit claim next` takes the best ready issue; `jit status` shows who does what.".to_owned(),
        );
        let news = self.news(&cx.place, &cx.actor.agent_id);
        lines.extend((!news.is_empty()).then_some(news));
        Ok(lines.join("\n"))
    }

    /// Returns the reason why the agent should not stop yet: it holds work that is in no commit.
    fn stop(&self, asked_before: bool) -> Outcome<Option<String>> {
        let cx = self.cx(Need::Read)?;
        let held = claims(&cx)?;
        let (Some(lease), Some(root)) = (held.first(), cx.place.worktree_root.as_deref()) else {
            return Ok(None);
        };
        if asked_before || !cx.place.has_git() || !jit_git::run::is_dirty(root).unwrap_or(false) {
            return Ok(None);
        }
        let issue = lease.resource.issue().map_or("?", |id| id.as_str());
        Ok(Some(format!(
            "jit: you hold {issue}, and {} has changes that are not committed. Commit them, or say why not; \
             `jit claim release {issue}` if you are done with it.",
            root.display()
        )))
    }

    fn session_end(&self) -> Outcome<String> {
        let cx = self.cx(Need::Write)?;
        let shown = crate::sessions::show_session(&cx, None)?.reply;
        // A session that another program began for this process is left open; that program ends it.
        if let Reply::Sessions(SessionReply::Session(session)) = shown
            && session.program.as_deref() == Some(self.program.as_str())
            && session.program_session == self.session
        {
            crate::sessions::end_session(&cx, Some(&session.session_id), SessionStatus::Completed)?;
        }
        Ok(String::new())
    }
}

/// Returns whether a path leads to exactly this file, which must be a regular file and not a link.
fn is_same(path: &Path, file: &Path) -> bool {
    let plain = file.symlink_metadata().is_ok_and(|meta| meta.is_file());
    plain && matches!((path.canonicalize(), file.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

fn unreadable(e: jit_core::log::table::Unreadable) -> Box<Refusal> {
    Box::new(Refusal::new(Code::Io, e.to_string()))
}

/// Returns the agent's leases on issues here.
fn claims(cx: &Context) -> Outcome<Vec<Lease>> {
    let view = crate::write_path::view(cx)?;
    let mut own = state::leases_of(&*view.table, &cx.actor.agent_id).map_err(unreadable)?;
    own.retain(|lease| {
        lease.held_by(&cx.actor) && lease.resource.issue().is_some() && !lease.expired(&view.now)
    });
    Ok(own)
}

/// Returns the branches in which other agents hold a lease.
fn held(cx: &Context) -> Outcome<Vec<(String, String)>> {
    let view = crate::write_path::view(cx)?;
    let all = state::claims(&*view.table).map_err(unreadable)?;
    let others = all
        .into_iter()
        .filter(|lease| !lease.expired(&view.now) && lease.agent_id != cx.actor.agent_id);
    Ok(others
        .filter_map(|lease| Some((lease.branch.clone()?, lease.agent_id.to_string())))
        .filter(|(branch, _)| Some(branch.as_str()) != cx.branch.as_deref())
        .collect())
}

/// Refuses a write of the whole worktree while another agent holds a lock in it. Acquires no lock itself.
fn nobody_elses(cx: &Context, root: &Path, by: &str) -> Outcome<()> {
    let paths = LockPaths {
        paths: vec![root.to_owned().into()],
        literal: true,
        ..LockPaths::default()
    };
    let Reply::FileLocks(FileLockReply::Checks(LockChecks { paths: checks })) =
        crate::file_locks::service::check_locks(cx, &paths)?.reply
    else {
        return Ok(());
    };
    // A global lock that was acquired in another worktree concerns its own files, not every file of this tree.
    let mut others = checks.iter().flat_map(|check| &check.locks);
    let Some(lock) = others.find(|lock| lock.worktree_id == cx.actor.worktree_id) else {
        return Ok(());
    };
    let message = format!(
        "{:?} may write any file of this worktree, and {} has locked {} in it",
        short(by),
        lock.agent_id,
        lock.file_path
    );
    Err(Box::new(Refusal::new(Code::Held, message).help("jit lock list")))
}

/// Locks these files. If this agent has locked them already, nothing is written.
fn take(cx: &Context, files: Vec<OsString>) -> Outcome<()> {
    let paths = LockPaths {
        paths: files.into_iter().map(Into::into).collect(),
        literal: true,
        ..LockPaths::default()
    };
    if let Reply::FileLocks(FileLockReply::Checks(LockChecks { paths: checks })) =
        crate::file_locks::service::check_locks(cx, &paths)?.reply
        && checks.iter().all(|check| check.mine && check.locks.is_empty())
    {
        return Ok(());
    }
    crate::file_locks::service::lock_files(cx, &paths, None).map(drop)
}

/// Turns a refusal into an objection: holder, deadline, and the next step.
fn objection(refusal: &Refusal) -> Objection {
    let mut what = refusal.message.clone();
    let mut instead = match refusal.help.first() {
        Some(help) => format!("Try: {help}"),
        None => "Tell the user.".to_owned(),
    };
    if let Details::Locks(locks) = &refusal.details
        && let Some(first) = locks.first()
    {
        what.push_str(&format!(", until {}", first.expires_at));
        let path = first
            .resource
            .file()
            .map_or_else(|| "<path>".to_owned(), |file| file.path());
        instead = format!(
            "Work on something else meanwhile, or wait for it: jit lock acquire {} --wait 5m",
            jit_os::shell::shell_word(&path)
        );
    }
    Objection::new(format!("{what}."), instead)
}

/// Returns a title as one line of limited length: other people write titles.
fn short(title: &str) -> String {
    title.chars().filter(|c| !c.is_control()).take(80).collect()
}
