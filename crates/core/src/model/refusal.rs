//! A refusal is an answer: a stable code, one sentence, and the command to run next.

use crate::model::lease::Lease;
use crate::model::time::Now;

/// Stable names of everything that can go wrong, with the exit code each one has on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// Someone else holds it.
    Held,
    /// The store's lock could not be had in time.
    Busy,
    /// Its agent's account was asked too much and is left alone for a while.
    Parked,
    /// Only its holder may do that.
    NotHolder,
    /// The caller may not do that at all.
    NotAllowed,
    /// It has to be held first.
    LeaseRequired,
    /// The user has not approved that command line on this machine.
    NotTrusted,
    /// Work would be removed that is not on its target.
    WorkLeft,
    /// No such thing.
    NotFound,
    /// There is no work to take now.
    NothingReady,
    /// It would depend on itself.
    Cycle,
    /// It cannot go from the state it is in to that one.
    BadTransition,
    /// A required gate has not passed.
    GateNotPassed,
    /// Parts of the issue are open.
    OpenParts,
    /// The issue is done or rejected.
    Closed,
    /// The text does not name one thing.
    Ambiguous,
    /// A value that cannot be used.
    Invalid,
    /// The command line could not be understood.
    Usage,
    /// There is one of that name already.
    Exists,
    /// The request id was used for something else.
    RequestReused,
    /// It cannot be said whether it was done.
    Unknown,
    /// The log is damaged and `jit recover` is needed.
    Damaged,
    /// A newer program wrote here.
    Newer,
    /// A check did not pass.
    CheckFailed,
    /// Not inside a repository where `jit init` has been run.
    NotInitialized,
    /// The target is checked out somewhere, and git would not move it there: somebody's changes are in the way.
    TargetDirty,
    /// There is work that is not committed.
    Uncommitted,
    /// The configuration cannot be used.
    Config,
    /// The operating system said no.
    Io,
    /// A mistake in this program.
    Bug,
}

impl Code {
    pub const ALL: &'static [Self] = &[
        Self::Held,
        Self::Busy,
        Self::Parked,
        Self::NotHolder,
        Self::NotAllowed,
        Self::LeaseRequired,
        Self::NotTrusted,
        Self::WorkLeft,
        Self::NotFound,
        Self::NothingReady,
        Self::Cycle,
        Self::BadTransition,
        Self::GateNotPassed,
        Self::OpenParts,
        Self::Closed,
        Self::Ambiguous,
        Self::Invalid,
        Self::Usage,
        Self::Exists,
        Self::RequestReused,
        Self::Unknown,
        Self::Damaged,
        Self::Newer,
        Self::CheckFailed,
        Self::NotInitialized,
        Self::TargetDirty,
        Self::Uncommitted,
        Self::Config,
        Self::Io,
        Self::Bug,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Busy => "busy",
            Self::Parked => "parked",
            Self::NotHolder => "not_holder",
            Self::NotAllowed => "not_allowed",
            Self::LeaseRequired => "lease_required",
            Self::NotTrusted => "not_trusted",
            Self::WorkLeft => "work_left",
            Self::NotFound => "not_found",
            Self::NothingReady => "nothing_ready",
            Self::Cycle => "cycle",
            Self::BadTransition => "bad_transition",
            Self::GateNotPassed => "gate_not_passed",
            Self::OpenParts => "open_parts",
            Self::Closed => "closed",
            Self::Ambiguous => "ambiguous",
            Self::Invalid => "invalid",
            Self::Usage => "usage",
            Self::Exists => "exists",
            Self::RequestReused => "request_reused",
            Self::Unknown => "unknown",
            Self::Damaged => "damaged",
            Self::Newer => "newer_format",
            Self::CheckFailed => "check_failed",
            Self::NotInitialized => "not_initialized",
            Self::TargetDirty => "target_dirty",
            Self::Uncommitted => "uncommitted",
            Self::Config => "config",
            Self::Io => "io",
            Self::Bug => "bug",
        }
    }

    pub fn exit(self) -> u8 {
        match self {
            Self::Io | Self::Damaged | Self::Newer | Self::Bug => 1,
            Self::Ambiguous
            | Self::Invalid
            | Self::Usage
            | Self::Exists
            | Self::Cycle
            | Self::BadTransition
            | Self::RequestReused
            | Self::Config => 2,
            Self::NotFound | Self::NothingReady | Self::NotInitialized => 3,
            Self::Held | Self::Busy | Self::Parked => 4,
            Self::NotHolder
            | Self::NotAllowed
            | Self::LeaseRequired
            | Self::NotTrusted
            | Self::TargetDirty
            | Self::Uncommitted
            | Self::WorkLeft
            | Self::Closed => 5,
            Self::CheckFailed | Self::GateNotPassed | Self::OpenParts => 6,
            Self::Unknown => 7,
        }
    }

    /// Whether the same command may succeed later without anything being changed by hand.
    pub fn retryable(self) -> bool {
        matches!(
            self,
            Self::Held | Self::Busy | Self::Parked | Self::NothingReady | Self::Unknown
        )
    }
}

/// Why not, and what now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: Code,
    pub message: String,
    /// Commands to run next.
    pub help: Vec<String>,
    pub details: Details,
    /// Findings beside the request, as an answer has them. They are no part of the refusal.
    pub warnings: Vec<String>,
}

/// Data beyond the sentence, for programs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Details {
    #[default]
    None,
    Lease(Box<Lease>),
    /// Locks on files that stand in the way.
    Locks(Vec<Lease>),
    Candidates(Vec<String>),
    /// Name and value pairs.
    Facts(Vec<(&'static str, String)>),
    /// Name and number pairs; null where there is none.
    Counts(Vec<(&'static str, Option<u64>)>),
    /// A program without jit created a lock file after the state was read. Import it and decide again. A signal inside
    /// the program: it has no data to show.
    LockFileAppeared,
    /// No issue has this name.
    UnknownIssue,
}

impl Refusal {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            help: Vec::new(),
            details: Details::None,
            warnings: Vec::new(),
        }
    }

    /// The refusal after a mistake in this program.
    pub fn bug(expected: &str) -> Self {
        Self::new(Code::Bug, format!("BUG: expected {expected}"))
            .help("report this with the command and its output")
    }

    #[must_use]
    pub fn help(mut self, command: impl Into<String>) -> Self {
        self.help.push(command.into());
        self
    }

    #[must_use]
    pub fn details(mut self, details: Details) -> Self {
        self.details = details;
        self
    }

    /// The refusal of a resource that another agent holds.
    pub fn held(lease: &Lease, now: &Now) -> Self {
        let what = lease.resource.issue().map_or("it", |id| id.as_str());
        Self::new(
            Code::Held,
            format!(
                "{what} is held by {}{} until {} ({} left)",
                lease.agent_id,
                lease
                    .worktree_id
                    .as_ref()
                    .map_or(String::new(), |w| format!(" in {w}")),
                lease.expires_at,
                left(lease.remaining_ms(now)),
            ),
        )
        .help(format!(
            "jit claim acquire {what} --wait {}s",
            lease.remaining_ms(now).div_ceil(1000)
        ))
        .help("jit claim next")
        .details(Details::Lease(Box::new(lease.clone())))
    }
}

/// A duration as a person says it: `2h05m`, `9m30s`, `12s`.
pub fn left(ms: u64) -> String {
    let secs = ms.div_ceil(1000);
    match (secs / 3600, secs / 60 % 60, secs % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m{s:02}s"),
        (h, m, _) => format!("{h}h{m:02}m"),
    }
}

/// An answer, or a refusal.
pub type Outcome<T> = Result<T, Box<Refusal>>;
