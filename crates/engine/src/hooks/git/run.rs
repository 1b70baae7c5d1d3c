//! Entry points for git: runs the hook that git called.

use std::ffi::OsString;
use std::path::Path;

use jit_core::model::issue::text_digest;
use jit_core::model::refusal::{Code, Refusal};
use jit_git::{GitEnv, Place};
use jit_os::file;
use jit_store::Outcome;

use super::{pre_commit, push, rewritten, trailers};
use crate::api::Options;
use crate::hooks::git::{CLIENT, MERGED, SERVER};
use crate::refusals::no_place;
use crate::worktree_identity::identity::Need;

/// The most bytes of merge-driver digests that are kept.
const MOST_MERGED: usize = 64 << 10;

/// Runs the hook, and returns warnings to print while git continues. A refusal stops git; only pre-commit, pre-push and pre-receive refuse.
pub fn run(options: &Options, hook: &str, args: &[OsString], input: &[u8]) -> Outcome<Vec<String>> {
    match hook {
        "pre-commit" | "pre-merge-commit" => pre_commit::check(options),
        "pre-push" => harmless(push::pre_push(options, args, input), |code| {
            code != Code::LeaseRequired
        }),
        "pre-receive" => push::pre_receive(options, input),
        "prepare-commit-msg" => harmless(trailers::prepare(options, args), |_| true),
        "commit-msg" => harmless(
            place(options).and_then(|place| trailers::require_message(&place, args)),
            |_| true,
        ),
        "post-checkout" | "post-merge" => harmless(join(options), |_| true),
        "post-rewrite" => {
            let noted = rewritten::note(options, args, input);
            harmless(noted.and_then(|()| join(options)), |_| true)
        }
        other => {
            let known: Vec<&str> = CLIENT.iter().chain(SERVER).copied().collect();
            let message = format!("jit has no hook {other:?}; it has {}", known.join(", "));
            Err(Box::new(
                Refusal::new(Code::Invalid, message).help("jit hooks list"),
            ))
        }
    }
}

fn place(options: &Options) -> Outcome<Place> {
    let dir = options.dir.as_deref().unwrap_or(Path::new("."));
    Place::discover(dir, &GitEnv::from_process()).map_err(no_place)
}

/// Turns a harmless failure into a warning that does not stop git. In a repository without jit it is silent.
fn harmless(done: Outcome<Vec<String>>, is_harmless: impl Fn(Code) -> bool) -> Outcome<Vec<String>> {
    match done {
        Err(refusal) if refusal.code == Code::NotInitialized => Ok(Vec::new()),
        Err(refusal) if is_harmless(refusal.code) => Ok(vec![refusal.message.clone()]),
        other => other,
    }
}

/// Brings git's changes of this tree into the log.
fn join(options: &Options) -> Outcome<Vec<String>> {
    let place = place(options)?;
    if !place.local_jit.as_deref().is_some_and(Path::is_dir) {
        return Ok(Vec::new());
    }
    let cx = crate::opening::open(options, Need::Read)?;
    let _ = crate::issues::sync::notice_tree(&cx);
    Ok(Vec::new())
}

/// Records the merge driver's result, so that committing it needs no lease. If this fails, the commit needs a lease,
/// no more.
pub fn remember_merged(content: &[u8]) {
    let note = || -> Option<()> {
        let place = Place::discover(Path::new("."), &GitEnv::from_process()).ok()?;
        let path = place.git_dir?.join(MERGED);
        let mut text = file::read_real(&path, 1 << 20).ok()?.unwrap_or_default();
        if text.len() > MOST_MERGED {
            let half = text.len() / 2;
            let line = text.get(half..)?.iter().position(|b| *b == b'\n')?;
            text.drain(..=half + line);
        }
        text.extend_from_slice(text_digest(content).as_bytes());
        text.push(b'\n');
        file::refresh(&path, &text).ok()
    };
    let _ = note();
}
