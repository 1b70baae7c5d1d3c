//! `jit conflicts`: shows which worktrees or branches would conflict.
//!
//! What must hold:
//! - Conflicts do not change the exit code. It is 0, or 6 if a worktree could not be examined.
//! - With `--watch`, a picture is printed only when it differs from the last one.

use std::ops::ControlFlow;

use jit_engine::api::Reply;
use jit_engine::api::landing::{LandingReply, LandingRequest, Picture};
use jit_engine::api::stream::{StreamItem, Subscribe};
use jit_store::Outcome;

use crate::exit::CHECK_FAILED;
use crate::invocation::{Invocation, Output, unexpected};
use crate::render::{self, Style, clean_line, clean_path};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Every worktree is taken as it is now, with what is not committed; nothing is written into it. Branches \
    that are named are taken as they are committed. With --watch, each change is written into the log (jit events --type \
    conflict), and agents whose hooks are installed are told once of what concerns their worktree. Exit code 0 whatever is found, 6 if a worktree could not be examined.\n\n\
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
    if flags.watch {
        let conflicts = Subscribe::Conflicts {
            into: flags.into,
            interval_secs: flags.interval,
        };
        return call.follow(conflicts, &mut |item| match item {
            StreamItem::Conflicts(picture) if call.json() => render::pass_on(&call.json_line(&picture)),
            StreamItem::Conflicts(picture) => render::pass_on(&picture_text(&picture, call.style)),
            _ => ControlFlow::Continue(()),
        });
    }
    let answer = call.send(LandingRequest::Conflicts {
        into: flags.into,
        branches: flags.branches,
    })?;
    let Reply::Landing(LandingReply::Conflicts(picture)) = &answer.reply else {
        return Err(unexpected());
    };
    let unknown = picture.worktrees.iter().any(|one| one.unknown.is_some());
    Ok(call
        .show(&answer.reply.value(), |style| call.text(&answer.reply, style))
        .warn(answer.warnings)
        .exit(if unknown { CHECK_FAILED } else { 0 }))
}

pub fn picture_text(picture: &Picture, style: Style) -> String {
    let mut out = String::new();
    for one in picture.worktrees.iter() {
        if let Some(why) = &one.unknown {
            out.push_str(&format!(
                "{} could not be examined: {}\n",
                style.bold(&clean_line(&one.name)),
                clean_line(why)
            ));
        }
    }
    if picture.conflicts.is_empty() {
        out.push_str(&format!(
            "No conflicts: {} worktrees, also with {}.\n",
            picture
                .worktrees
                .iter()
                .filter(|one| one.unknown.is_none())
                .count(),
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
