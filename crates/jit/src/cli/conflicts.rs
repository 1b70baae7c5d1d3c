use std::time::Duration;

use jit_engine::landing::report::Picture;
use jit_engine::request::{Answer, Reply, Request};
use jit_engine::store::Outcome;
use jit_engine::worktree::identity::Need;

use super::{Cx, Output, invalid, text};
use crate::exit::BROKEN_PIPE;
use crate::render::{self, Style, clean_line};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Every worktree is taken as it is now, with what is not committed. Nothing is written anywhere. Exit \
    code 0 whatever is found.\n\nExamples:\n  jit conflicts\n  jit conflicts --watch --json"
)]
pub struct Flags {
    /// Go on, and say when the picture changes
    #[arg(long, short)]
    watch: bool,
    /// Time between two looks
    #[arg(long, value_name = "D", value_parser = super::duration, default_value = "2s")]
    interval: u64,
    /// The branch that work goes to
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,
}

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    let app = cx.app(Need::Read)?;
    let look = || -> Outcome<(Box<Picture>, Vec<String>)> {
        let request = Request::Conflicts {
            into: flags.into.clone(),
        };
        let Answer { reply, warnings } = app.handle(request)?;
        match reply {
            Reply::Conflicts(picture) => Ok((picture, warnings)),
            _ => Err(invalid("the engine answered something else")),
        }
    };
    let (mut picture, warnings) = look()?;
    if !flags.watch {
        let reply = Reply::Conflicts(picture);
        return Ok(cx.show(&reply, |style| text(&reply, "", style)).warn(warnings));
    }
    loop {
        let text = if cx.json() {
            cx.json_line(&picture)
        } else {
            picture_text(&picture, cx.style)
        };
        if !matches!(render::print(&text), Ok(true)) {
            return Ok(cx.show(&(), |_| String::new()).exit(BROKEN_PIPE));
        }
        loop {
            std::thread::sleep(Duration::from_secs(flags.interval.max(1)));
            let (now, _) = look()?;
            if now != picture {
                picture = now;
                break;
            }
        }
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
                clean_line(&path.path)
            ));
        }
    }
    out
}
