//! Reasons of failures that a coordinator tells apart ([`crate::model::unit::Failure::reason`]). Others are failures like any.

/// The command line, the model's name: the same again would fail the same.
pub const USAGE: &str = "usage";
/// The credentials of the agent are missing or were refused.
pub const AUTHENTICATION: &str = "authentication";
/// There is no such program, or it cannot be run.
pub const NOT_STARTED: &str = "not_started";
/// The money of the unit or of the workflow is used up.
pub const BUDGET: &str = "budget";
/// The money of the day is.
pub const DAY_BUDGET: &str = "day_budget";
/// A person or a coordinator stopped it.
pub const STOPPED: &str = "stopped";
/// It was to be handed to another agent, and whoever did that did not come to the end of it.
pub const HANDED_ON: &str = "handed_on";
/// It says it is done, and files are missing.
pub const ARTIFACTS: &str = "artifacts_missing";
/// It does not merge.
pub const CONFLICT: &str = "merge_conflict";
/// It wrote where it may not.
pub const OUTSIDE: &str = "outside_scope";
/// The model was asked too much.
pub const RATE_LIMIT: &str = "rate_limit";
/// The agent's program does not take a conversation: the next attempt is one-shot.
pub const NO_CONVERSATION: &str = "no_conversation";
