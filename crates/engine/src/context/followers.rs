//! The port between the write path and the files beside the log.

use std::fmt::Debug;
use std::io;
use std::time::Duration;

use jit_core::log::event::{Event, Stamped};
use jit_core::log::table::Table;
use jit_core::model::ids::IssueId;
use jit_store::{Outcome, View};

use super::Context;

/// Files beside the log. Some follow from it (issue files, registries, the changelog), and some feed it (lock files
/// that other programs write). The write path calls them at fixed points and knows none of them; `wiring` names them
/// all.
pub trait Followers: Debug + Send + Sync {
    /// Called after the log was created because this machine had none: imports the issues of the tree.
    fn log_created(&self, cx: &Context) -> Outcome<()>;

    /// Adds to a view the lock files that are not in the log yet. Writes nothing.
    fn foresee(&self, cx: &Context, view: View) -> Outcome<View>;

    /// Before an append, under the store's lock: makes the files durable that the events refer to. A refusal stops
    /// the append.
    fn prepare(&self, cx: &Context, events: &[Event], texts: &[Vec<u8>]) -> Outcome<()>;

    /// After an append, under the store's lock: updates the files. Returns warnings about files that it could not
    /// write. `known` are texts to remember for issues that the append changed. `project`: write issue files into
    /// this tree.
    fn publish(
        &self,
        cx: &Context,
        lines: &[Stamped],
        table: &dyn Table,
        known: &[(IssueId, Vec<u8>)],
        project: bool,
    ) -> Vec<String>;

    /// After heartbeats without an append, under the store's lock: updates the files that show them.
    fn heartbeats_changed(&self, cx: &Context, view: &View) -> io::Result<()>;

    /// Whether this checkout is as its owner left it: no landing is being tried or half done in it. Waits for a
    /// landing that is about to end, at most `wait`.
    fn is_checkout_settled(&self, cx: &Context, wait: Duration) -> bool;
}
