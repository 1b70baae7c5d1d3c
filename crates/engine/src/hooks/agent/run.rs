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

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use jit_agents::hooks::decision::{HookDecision as Verdict, Objection, RuleMode as Mode};
use jit_agents::hooks::input::{self, BadInput, ToolCall};
use jit_agents::hooks::{HookEvent as Event, Program, answer};
use jit_core::log::state;
use jit_core::model::ids::AgentId;
use jit_core::model::lease::Lease;
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::session::SessionStatus;
use jit_core::model::time::Wall;
use jit_git::{DiscoverError, GitEnv, Place};
use jit_os::clock;
use jit_store::Outcome;

use crate::api::Options;
use crate::api::Reply;
use crate::api::issues::{IssueReply, Issues};
use crate::api::sessions::{BindTo, SessionReply, StartSession};
use crate::context::{Context, Surroundings};
use crate::heartbeats::{FileHeartbeats, Heartbeats as _};
use crate::identity::process_binding as sessions;
use crate::identity::{Source, detection, detection::Mark};
use crate::landing::notes;
use crate::worktree_identity::identity::Need;

/// The longest wait for the store's lock: the agent is blocked meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time after which the agent gets an answer, whatever jit still does. Reading the document took up to
/// [`READING`](jit_agents::hooks::input::READING) before. Agent programs wait longer for their hooks (`jit_agents::hooks::settings`), and
/// go on without an answer.
const DEADLINE: Duration = Duration::from_secs(6);
/// The stack of the thread that judges: as large as that of a program.
const STACK: usize = 8 << 20;
/// The number of ready issues that are listed at the start.
const NAMED: usize = 3;

/// Returns the text to print; empty if there is nothing to report. Never fails: an error becomes part of the answer.
pub fn run(options: &Options, program: Program, event: Event, input: &[u8]) -> String {
    let (options, input) = (options.clone(), input.to_vec());
    within_deadline(program, event, DEADLINE, move |tell| {
        let call = input::parse(program, event, &input);
        answered(&options, program, event, call, tell)
    })
}

/// Runs `work` on a thread of its own, and answers for it if it does not end in time or fails. `work` tells the mode of
/// objections as soon as it knows it.
fn within_deadline(
    program: Program,
    event: Event,
    deadline: Duration,
    work: impl FnOnce(&dyn Fn(Mode)) -> String + Send + 'static,
) -> String {
    let known = Arc::new(Mutex::new(Mode::Deny));
    let (send, receive) = mpsc::channel();
    let told = Arc::clone(&known);
    let started = std::thread::Builder::new().stack_size(STACK).spawn(move || {
        let tell = |mode| {
            if let Ok(mut known) = told.lock() {
                *known = mode;
            }
        };
        // After the deadline the receiver is gone.
        let _ = send.send(work(&tell));
    });
    let answer = started.ok().and_then(|_| receive.recv_timeout(deadline).ok());
    answer.unwrap_or_else(|| {
        let mode = known.lock().map_or(Mode::Deny, |mode| *mode);
        without_answer(program, event, mode)
    })
}

/// Returns the answer for a step that was not judged.
fn without_answer(program: Program, event: Event, mode: Mode) -> String {
    if event != Event::BeforeTool {
        return String::new();
    }
    let mut verdict = Verdict::default();
    let what = format!("jit could not judge this step within {} s.", DEADLINE.as_secs());
    let instead = "Try it once more, in smaller steps; `jit doctor` may say what is wrong.";
    verdict.add(mode, Objection::new(what, instead));
    answer::before_tool(program, &verdict)
}

fn answered(
    options: &Options,
    program: Program,
    event: Event,
    call: Result<ToolCall, BadInput>,
    tell: &dyn Fn(Mode),
) -> String {
    let start = start(program, event, call.as_ref().ok());
    let mut verdict = Verdict::default();
    let Some(place) = discover(&start, &mut verdict) else {
        return match event {
            Event::BeforeTool => answer::before_tool(program, &verdict),
            _ => String::new(),
        };
    };
    if !uses_jit(&place) {
        return String::new();
    }
    let session = call.as_ref().ok().and_then(|call| call.session.clone());
    let hook = Hook::new(options, program, session, start, place);
    match event {
        Event::BeforeTool => {
            hook.before_tool(call, &mut verdict, tell);
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

/// Finds the repository. The settings of another user's repository do not count, so no step is allowed there.
fn discover(start: &Path, verdict: &mut Verdict) -> Option<Place> {
    match Place::discover(start, &GitEnv::from_process()) {
        Ok(place) => Some(place),
        Err(error @ DiscoverError::Owner { .. }) => {
            verdict.add(
                Mode::Deny,
                super::judging::objection(&crate::refusals::no_place(error)),
            );
            None
        }
        Err(_) => None,
    }
}

/// Judges `call` before a tool runs, as [`run`] does, for callers that talk to the agent in the same process. `start`
/// is the agent's working folder.
pub fn judge(options: &Options, program: Program, start: &Path, call: Result<ToolCall, BadInput>) -> Verdict {
    let mut verdict = Verdict::default();
    let Some(place) = discover(start, &mut verdict) else {
        return verdict;
    };
    if uses_jit(&place) {
        let session = call.as_ref().ok().and_then(|call| call.session.clone());
        let hook = Hook::new(options, program, session, start.to_owned(), place);
        hook.before_tool(call, &mut verdict, &|_| ());
    }
    verdict
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

pub(super) struct Hook {
    pub(super) options: Options,
    program: Program,
    /// The program's own id of its session.
    session: Option<String>,
    pub(super) start: PathBuf,
    /// The place of `start`.
    pub(super) place: Place,
}

impl Hook {
    fn new(
        options: &Options,
        program: Program,
        session: Option<String>,
        start: PathBuf,
        place: Place,
    ) -> Self {
        Self {
            options: Options {
                dir: Some(start.clone()),
                lock_timeout: options.lock_timeout.or(Some(PATIENCE)),
                ..options.clone()
            },
            program,
            session,
            start,
            place,
        }
    }

    pub(super) fn surroundings(&self) -> Outcome<Surroundings> {
        let mut found = Surroundings::at(self.place.clone(), &self.options)?;
        let needs_name = match &found.whoami.source {
            Source::AgentFile(_) | Source::OsUser => true,
            // The program alone does not tell one session from another.
            Source::AgentProgram { mark, .. } => *mark != Mark::Variable(detection::AGENT_ID),
            _ => false,
        };
        if needs_name {
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

    pub(super) fn cx(&self, need: Need) -> Outcome<Context> {
        crate::opening::within(self.surroundings()?, &self.options, need)
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

pub(super) fn unreadable(e: jit_core::log::table::Unreadable) -> Box<Refusal> {
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

/// Returns a title as one line of limited length: other people write titles.
pub(super) fn short(title: &str) -> String {
    title.chars().filter(|c| !c.is_control()).take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l5_a_step_that_is_not_judged_in_time_or_fails_is_answered_for() {
        let (hold, held) = mpsc::channel::<()>();
        let late = within_deadline(Program::Claude, Event::BeforeTool, Duration::ZERO, move |_| {
            let _ = held.recv();
            String::new()
        });
        assert!(
            late.contains("\"deny\"") && late.contains("could not judge"),
            "{late}"
        );
        drop(hold);
        let long = Duration::from_secs(600);
        let failed = within_deadline(Program::Gemini, Event::BeforeTool, long, |tell| {
            tell(Mode::Warn);
            panic!("a bug");
        });
        assert!(
            failed.contains("could not judge") && !failed.contains("deny"),
            "{failed}"
        );
        let fine = within_deadline(Program::Claude, Event::Stop, long, |_| "fine".to_owned());
        assert_eq!(fine, "fine");
        assert_eq!(without_answer(Program::Claude, Event::BeforeTool, Mode::Off), "");
        assert_eq!(without_answer(Program::Claude, Event::Stop, Mode::Deny), "");
    }
}
