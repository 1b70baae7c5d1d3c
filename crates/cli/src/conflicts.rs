//! `jit conflicts`: shows which worktrees or branches would conflict.
//!
//! What must hold:
//! - Conflicts do not change the exit code: it is 0.
//! - With `--watch`, a picture is printed only when it differs from the last one.

use jit_engine::api::landing::LandingRequest;
use std::time::Duration;

use jit_engine::api::Answer;
use jit_engine::api::landing::Picture;
use jit_engine::worktree_identity::identity::Need;
use jit_store::Outcome;

use crate::exit::BROKEN_PIPE;
use crate::invocation::{Invocation, Output};
use crate::render::{self, Style, clean_line, clean_path};
use crate::reply_text::text;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Every worktree is taken as it is now, with what is not committed; nothing is written into it. Branches \
    that are named are taken as they are committed. With --watch, each change is written into the log (jit events --type \
    conflict), and agents whose hooks are installed are told once of what concerns their worktree. Exit code 0 whatever is found.\n\n\
    Examples:\n  jit conflicts\n  jit conflicts --watch --json\n  jit conflicts jit/wi-001 jit/wi-002"
)]
pub struct Flags {
    /// Branches to look at instead of the worktrees
    #[arg(value_name = "BRANCH", conflicts_with = "watch")]
    branches: Vec<String>,
    /// Go on, and say when the picture changes
    #[arg(long, short)]
    watch: bool,
    /// Time between two looks, where the system does not tell what changes
    #[arg(long, value_name = "D", value_parser = crate::invocation::duration, default_value = "2s")]
    interval: u64,
    /// The branch that work goes to
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let cx = call.open(Need::Read)?;
    if !flags.watch {
        let Answer { reply, warnings } = jit_engine::handle::handle(
            &cx,
            LandingRequest::Conflicts {
                into: flags.into,
                branches: flags.branches,
            },
        )?;
        return Ok(call
            .show(&reply.value(), |style| text(&reply, "", style))
            .warn(warnings));
    }
    let mut watch = jit_engine::landing::watch::watch_conflicts(&cx, flags.into.as_deref())?;
    let mut shown: Option<Picture> = None;
    loop {
        let picture = watch.look()?;
        if shown.as_ref() != Some(&picture) {
            let text = if call.json() {
                call.json_line(&picture)
            } else {
                picture_text(&picture, call.style)
            };
            if !matches!(render::print(&text), Ok(true)) {
                return Ok(call.show(&(), |_| String::new()).exit(BROKEN_PIPE));
            }
            shown = Some(picture);
        }
        watch.wait(Duration::from_secs(flags.interval.max(1)))?;
    }
}

pub fn picture_text(picture: &Picture, style: Style) -> String {
    let mut out = String::new();
    for one in picture.worktrees.iter() {
        if let Some(why) = &one.unknown {
            out.push_str(&format!(
                "{}  {}\n",
                style.bold(&clean_line(&one.name)),
                clean_line(why)
            ));
        }
    }
    if picture.conflicts.is_empty() {
        out.push_str(&format!(
            "No conflicts: {} worktrees, also with {}.\n",
            picture.worktrees.len(),
            clean_line(&picture.target)
        ));
    }
    for pair in &picture.conflicts {
        out.push_str(&format!(
            "{} and {}\n",
            style.bold(&clean_line(&pair.a)),
            style.bold(&clean_line(&pair.b))
        ));
        for path in &pair.paths {
            out.push_str(&format!(
                "  {}  {}\n",
                style.bad(&clean_line(&path.kind)),
                clean_path(&path.path)
            ));
        }
    }
    out
}
