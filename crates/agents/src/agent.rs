//! The trait of an agent program: how it is started, and what it can do.

use std::ffi::OsString;

use crate::job::Job;
use crate::listener::Listener;

/// One kind of agent.
pub trait Agent: Send + Sync {
    /// `claude`, `command`, …
    fn name(&self) -> &'static str;

    /// Whether a session of an earlier attempt can be gone on with.
    fn resumes(&self) -> bool {
        false
    }

    /// The program it is where nobody names one.
    fn program(&self) -> Option<&'static str> {
        None
    }

    /// Whether it says how it ended whenever it ends by itself. Of one that does not, silence is no sign of anything.
    fn tells_end(&self) -> bool {
        false
    }

    /// The exit code by which it says that it was called in a way it does not understand, if it has one: it is not called
    /// that way again. Of any program such a code may mean anything.
    fn usage_code(&self) -> Option<i32> {
        None
    }

    /// Whether such a session can be left as it is, and a new one be begun from it.
    fn forks(&self) -> bool {
        false
    }

    /// Whether a session can have an id before it begins.
    fn takes_session_ids(&self) -> bool {
        true
    }

    /// Whether it says itself what it costs. Where it does not, a price is needed.
    fn tells_cost(&self) -> bool {
        true
    }

    fn launch(&self, job: &Job) -> Result<Launch, String>;

    /// Understands what one running agent says.
    fn listener(&self, job: &Job) -> Box<dyn Listener>;
}

/// How an agent is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    pub program: OsString,
    pub args: Vec<OsString>,
    /// Besides what every agent gets (see [`Job::vars`]).
    pub env: Vec<(OsString, OsString)>,
    pub stdin: Stdin,
}

/// What an agent finds on its standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing.
    Null,
    /// This, and then the end.
    Bytes(Vec<u8>),
    /// This, and then answers to what it says, until [`Reaction::hang_up`].
    Open(Vec<u8>),
}

/// The program and its arguments, of an agent that is whatever program the job names.
pub(crate) fn command_of(job: &Job) -> Result<Option<(OsString, Vec<OsString>)>, String> {
    let Some((program, args)) = job.command.split_first() else {
        return Ok(None);
    };
    if program.is_empty() || job.command.iter().any(|word| word.contains('\0')) {
        return Err(format!("{program:?} cannot be run"));
    }
    let program = match program.contains('/') {
        // Seen from where it will run, not from where we are.
        true => job.dir.join(program).into_os_string(),
        false => OsString::from(program),
    };
    Ok(Some((program, args.iter().map(OsString::from).collect())))
}

/// What the agent is told.
pub(crate) fn prompt_of(job: &Job) -> Result<String, String> {
    let file = &job.prompt_file;
    std::fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}
