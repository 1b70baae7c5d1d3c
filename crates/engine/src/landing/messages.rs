//! Commit messages that a squash combines into one (H3, H7).
//!
//! What must hold:
//!
//! - The message of the landing's commit contains the message of each squashed commit, unchanged and indented, as
//!   git's own squash does it. Because of the indent no line of theirs can be read as a trailer of jit.
//! - A message that does not fit, or is not text, is left out. Its commit is then kept when the worktree is removed.

use std::collections::HashSet;

use jit_git::Git;
use jit_store::Outcome;

use crate::refusals::failed;

/// Maximum length of all combined messages, in bytes.
const MOST: usize = 256 << 10;
/// Starts the entry of each commit.
const COMMIT: &str = "commit ";

/// Formats the commits of a range, oldest first, each as it appears in the message of a squash.
fn told(git: Git, range: &str) -> Outcome<Vec<String>> {
    let out = git
        .args([
            "log",
            "--topo-order",
            "--reverse",
            "--no-show-signature",
            "--encoding=UTF-8",
        ])
        .args(["--format=%H%x00%an <%ae>%x00%aI%x00%B%x00", range, "--"])
        .run()
        .map_err(failed)?;
    let fields: Vec<&[u8]> = out.split(|b| *b == 0).collect();
    Ok(fields.chunks_exact(4).map(one).collect())
}

/// Formats one commit. Bytes that are not UTF-8 are replaced, so such a message never equals the text of a squash.
fn one(fields: &[&[u8]]) -> String {
    let text = |n: usize| String::from_utf8_lossy(fields.get(n).copied().unwrap_or_default());
    let mut told = format!(
        "{COMMIT}{}\nAuthor: {}\nDate:   {}\n\n",
        text(0).trim(),
        text(1),
        text(2)
    );
    for line in text(3).trim_end().split('\n') {
        match line.is_empty() {
            true => told.push('\n'),
            false => told.push_str(&format!("    {line}\n")),
        }
    }
    told
}

/// The text for the message of a squash of this range, as much of it as fits.
pub fn squashed(git: Git, range: &str) -> Outcome<String> {
    let mut all = String::new();
    for told in told(git, range)? {
        if all.len() + told.len() <= MOST && !told.contains('\u{fffd}') {
            all.push_str(&told);
            all.push('\n');
        }
    }
    Ok(all)
}

/// Returns whether the message of each commit of `gone` is contained in a message of the commits of `there`.
pub fn are_told(git: &dyn Fn() -> Git, gone: &str, there: &str) -> Outcome<bool> {
    let log = git()
        .args([
            "log",
            "--no-show-signature",
            "--encoding=UTF-8",
            "--format=%x00%B",
        ])
        .args([there, "--"])
        .run()
        .map_err(failed)?;
    let log = String::from_utf8_lossy(&log);
    // Each entry ends before the next entry or before the trailers. Both follow an empty line and are not indented.
    let mut known = HashSet::new();
    let lines: Vec<&str> = log.split(['\n', '\0']).collect();
    let starts = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.starts_with(COMMIT));
    for (n, _) in starts {
        let rest = lines.get(n..).unwrap_or_default();
        let blank = rest.iter().position(|line| line.is_empty()).unwrap_or(rest.len());
        let (head, body) = rest.split_at(blank);
        let body = body
            .iter()
            .take_while(|line| line.is_empty() || line.starts_with("    "));
        let told: Vec<&str> = head.iter().chain(body).copied().collect();
        known.insert(told.join("\n").trim_end().to_owned());
    }
    let told = told(git(), gone)?;
    Ok(told
        .iter()
        .all(|one| !one.contains('\u{fffd}') && known.contains(one.trim_end())))
}
