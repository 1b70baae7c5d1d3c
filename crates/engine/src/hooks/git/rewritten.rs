//! Remembers which commits a rebase made again without changing them (C4).
//!
//! A rebase commits the same work anew, perhaps after its lease has ended. Such a commit counts from when it was made
//! first: jit itself advises to rebase.
//!
//! What must hold:
//!
//! - Only a rebase counts, and only a commit whose change is the same as before (`git patch-id`). An amended commit is a
//!   new one.
//! - This is a help for `jit verify`. If the file is lost, such commits are judged by when they were rebased.
//!
//! Format: `<control>/rewritten`, a line `<commit> <seconds since 1970>` for each commit, newest last. The older half is
//! dropped when the file grows too long.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;

use jit_core::model::refusal::Code;
use jit_git::Git;
use jit_os::file;
use jit_store::Outcome;

use crate::api::Options;
use crate::hooks::git::verify;
use crate::refusals::{failed, refuse};
use crate::worktree_identity::identity::Need;

/// The file in the control plane.
pub const REWRITTEN: &str = "rewritten";
/// The most bytes of that file that are kept.
const MOST: usize = 1 << 20;

/// When each commit that a rebase made was made first.
pub fn first_made(control: &Path) -> HashMap<String, i64> {
    let text = file::read_real(&control.join(REWRITTEN), 4 * MOST as u64)
        .ok()
        .flatten();
    let text = String::from_utf8_lossy(&text.unwrap_or_default()).into_owned();
    text.lines()
        .filter_map(|line| {
            let (commit, at) = line.split_once(' ')?;
            Some((commit.to_owned(), at.parse().ok()?))
        })
        .collect()
}

/// The hook post-rewrite. Each input line is `<old commit> <new commit>`; the first argument is the command.
pub fn note(options: &Options, args: &[OsString], input: &[u8]) -> Outcome<()> {
    if args.first().is_none_or(|command| command != "rebase") {
        return Ok(());
    }
    let cx = crate::opening::open(options, Need::Read)?;
    let Some(git_dir) = &cx.place.git_dir else {
        return Ok(());
    };
    let git = || Git::in_git_dir(git_dir);
    let input = String::from_utf8_lossy(input).into_owned();
    let words = |line: &str| {
        let mut words = line.split_ascii_whitespace().map(str::to_owned);
        words.next().zip(words.next())
    };
    let pairs: Vec<(String, String)> = input.lines().filter_map(words).collect();
    let names: String = pairs.iter().map(|(old, new)| format!("{old}\n{new}\n")).collect();
    let commits = verify::commits(
        git(),
        &["--no-walk=unsorted", "--ignore-missing", "--stdin"],
        Some(names.clone().into_bytes()),
    )?;
    let with_lease: HashMap<&str, i64> = commits
        .iter()
        .filter(|commit| !commit.leases.is_empty())
        .map(|commit| (commit.hash.as_str(), commit.committed))
        .collect();
    if with_lease.is_empty() {
        return Ok(());
    }
    let changes = patch_ids(&git, names)?;
    let before = first_made(&cx.place.control_dir);
    let mut lines = String::new();
    for (old, new) in &pairs {
        let same = changes.get(old).is_some_and(|id| changes.get(new) == Some(id));
        let first = before.get(old).or_else(|| with_lease.get(old.as_str()));
        if let Some(at) = first.filter(|_| same) {
            lines.push_str(&format!("{new} {at}\n"));
        }
    }
    append(&cx.place.control_dir, &lines)
}

/// One hash of the changes of each commit. A merge has none.
fn patch_ids(git: &dyn Fn() -> Git, names: String) -> Outcome<HashMap<String, String>> {
    let patches = git()
        .args(["diff-tree", "--stdin", "-p", "--no-ext-diff", "--no-textconv"])
        .args(["--full-index", "--binary", "--root"])
        .stdin(names)
        .run()
        .map_err(failed)?;
    let ids = git()
        .args(["patch-id", "--stable"])
        .stdin(patches)
        .run()
        .map_err(failed)?;
    let ids = String::from_utf8_lossy(&ids).into_owned();
    let pair = |line: &str| {
        let (id, commit) = line.split_once(' ')?;
        Some((commit.to_owned(), id.to_owned()))
    };
    Ok(ids.lines().filter_map(pair).collect())
}

fn append(control: &Path, lines: &str) -> Outcome<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let io = |e: std::io::Error| refuse(Code::Io, e);
    // Two worktrees may be rebased at once.
    let _turn = file::lock_folder(control).map_err(io)?;
    let path = control.join(REWRITTEN);
    let text = file::read_real(&path, 4 * MOST as u64).map_err(io)?;
    let mut text = text.unwrap_or_default();
    text.extend_from_slice(lines.as_bytes());
    if text.len() > MOST {
        let half = text.len() / 2;
        let rest = text.get(half..).unwrap_or_default();
        let end = rest
            .iter()
            .position(|b| *b == b'\n')
            .map_or(0, |end| half + end + 1);
        text.drain(..end);
    }
    file::refresh(&path, &text).map_err(io)
}
