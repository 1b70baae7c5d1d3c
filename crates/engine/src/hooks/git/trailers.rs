//! Trailers that name the leases under which a commit was made (C4): one `JIT-Lease` for each lease the committer
//! holds in this worktree, one `JIT-Agent`, one `JIT-Worktree`. A commit that records that an issue is done names the
//! lease that ended with that. No other commit names a lease that has ended.
//!
//! What must hold:
//! - A committer without a lease here gets no trailers: the message stays as it is, to the byte.
//! - Trailers describe the commit that is being made. An amend, rebase or cherry-pick by a holder replaces the
//!   trailers of the earlier commit. Repeating it changes nothing.
//! - `git interpret-trailers` decides the position, so comments, sign-offs and other trailers keep their places. The
//!   part below the scissors of `commit.verbose` is not read.
//! - If anything fails, the commit continues without trailers, and a warning is printed.
//!
//! Limitation: `trailer.<name>.command` of the user's configuration runs, as with every `interpret-trailers`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::Path;

use jit_core::issue_files::format::{ISSUE, agreed};
use jit_core::log::state;
use jit_core::model::ids::{AgentId, LeaseId, WorktreeId};
use jit_core::model::issue::{IssueState, text_digest};
use jit_core::model::refusal::Code;
use jit_git::{Git, Place};
use jit_os::{file, io_refusal};
use jit_store::Outcome;

use crate::api::Options;
use crate::config::Mode;
use crate::context::Context;
use crate::hooks::git::staged::{self, Kind};
use crate::hooks::git::verify::{AGENT, LEASE, Leases, WORKTREE};
use crate::refusals::refuse;
use crate::worktree_identity::identity::Need;

const SCISSORS: &[u8] = b" ------------------------ >8 ------------------------";
/// The comment characters from which git chooses if it may choose.
const CHOICES: &[u8] = b"#;@!$%^&|:";

/// The hook prepare-commit-msg: adds the trailers.
pub fn prepare(options: &Options, args: &[OsString]) -> Outcome<Vec<String>> {
    let Some(path) = args.first().map(Path::new) else {
        return Ok(Vec::new());
    };
    let cx = crate::opening::open(options, Need::Read)?;
    if cx.config.mode() == Mode::Off || !cx.store.exists()? {
        return Ok(Vec::new());
    }
    let view = crate::write_path::view(&cx)?;
    let mut own = state::leases_of(&*view.table, &cx.actor.agent_id).map_err(|e| refuse(Code::Io, e))?;
    // Only claims on issues. Other leases say nothing about the work.
    own.retain(|lease| lease.resource.issue().is_some());
    own.retain(|lease| lease.held_by(&cx.actor) && !lease.expired(&view.now));
    own.sort_by_key(|lease| lease.token);
    let mut named: Vec<LeaseId> = own.into_iter().map(|lease| lease.lease_id).collect();
    for lease in finished_with(&cx)? {
        if !named.contains(&lease) {
            named.push(lease);
        }
    }
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let mut wanted: Vec<String> = named.iter().map(|lease| format!("{LEASE}: {lease}")).collect();
    wanted.push(format!("{AGENT}: {}", cx.actor.agent_id));
    wanted.extend(cx.actor.worktree_id.iter().map(|id| format!("{WORKTREE}: {id}")));
    let message = std::fs::read(path).map_err(|e| io_refusal("read", path, &e))?;
    note_template(&cx.place, args, &message);
    if let Some(message) = with_trailers(&cx.place, &message, &wanted)? {
        file::replace(path, &message).map_err(|e| io_refusal("write", path, &e))?;
    }
    Ok(Vec::new())
}

/// The leases that ended because the committer closed an issue here, where this commit records that: it belongs to that
/// work.
fn finished_with(cx: &Context) -> Outcome<Vec<LeaseId>> {
    let view = crate::write_path::view(cx)?;
    let mut closed = BTreeSet::new();
    for one in staged::all(&cx.place)? {
        let Kind::Issue(id, name) = one.kind() else {
            continue;
        };
        if name != ISSUE {
            continue;
        }
        let found = state::issue(&*view.table, &id).map_err(|e| refuse(Code::Io, e))?;
        if let Some(issue) = found.filter(|issue| issue.state.is_closed())
            && says_closed(&cx.place, one.new.as_deref())
            && !says_closed(&cx.place, one.old.as_deref())
        {
            closed.insert(issue.id);
        }
    }
    drop(view);
    if closed.is_empty() {
        return Ok(Vec::new());
    }
    let leases = Leases::load(cx)?;
    let own = |(_, agent, worktree): &(&LeaseId, &AgentId, Option<&WorktreeId>)| {
        **agent == cx.actor.agent_id && *worktree == cx.actor.worktree_id.as_ref()
    };
    let under = closed.iter().filter_map(|issue| leases.closed_under(issue));
    Ok(under.filter(own).map(|(lease, ..)| lease.clone()).collect())
}

/// Whether this version of an `issue.json` has a state in which nothing more is to be done.
fn says_closed(place: &Place, blob: Option<&str>) -> bool {
    let content = staged::git(place).zip(blob).and_then(|(git, blob)| {
        let content = git.args(["cat-file", "blob", blob]).run().ok()?;
        agreed(&content)
    });
    let state = content.as_ref().and_then(|fields| fields.get("state")?.as_str());
    state.is_some_and(|state| state.parse().is_ok_and(IssueState::is_closed))
}

/// The hook commit-msg: a message that has only our trailers counts as empty.
pub fn require_message(place: &Place, args: &[OsString]) -> Outcome<Vec<String>> {
    let Some(path) = args.first().map(Path::new) else {
        return Ok(Vec::new());
    };
    let message = std::fs::read(path).map_err(|e| io_refusal("read", path, &e))?;
    let (head, _) = split(&message);
    if !head.lines().any(is_ours) {
        return Ok(Vec::new());
    }
    let written = head.written(&head.comment(place));
    let untouched = template(place).and_then(|path| std::fs::read_to_string(path).ok());
    if written.is_empty() || untouched.is_some_and(|digest| digest == text_digest(&written)) {
        std::fs::write(path, b"").map_err(|e: io::Error| io_refusal("write", path, &e))?;
    }
    Ok(Vec::new())
}

/// Returns the path of the file with the digest of the message's template.
fn template(place: &Place) -> Option<std::path::PathBuf> {
    place
        .git_dir
        .as_ref()
        .map(|git_dir| git_dir.join(crate::hooks::git::TEMPLATE))
}

/// Stores the digest of a template: with our trailers in it, git can no longer see that the user wrote nothing.
fn note_template(place: &Place, args: &[OsString], message: &[u8]) {
    let Some(path) = template(place) else { return };
    if args.get(1).is_some_and(|source| source == "template") {
        let (head, _) = split(message);
        let digest = text_digest(&head.written(&head.comment(place)));
        let _ = file::refresh(&path, digest.as_bytes());
    } else {
        let _ = std::fs::remove_file(&path);
    }
}

/// The part of a message that counts.
struct Head<'a> {
    text: &'a [u8],
    /// The comment prefix, as the scissors line shows it.
    shown: Option<&'a [u8]>,
}

/// Splits a message into the part that counts and the rest from the scissors on.
fn split(message: &[u8]) -> (Head<'_>, &[u8]) {
    let mut at = 0;
    for line in message.split_inclusive(|b| *b == b'\n') {
        let bare = line.strip_suffix(b"\n").unwrap_or(line);
        if let Some(comment) = bare.strip_suffix(SCISSORS)
            && !comment.is_empty()
            && comment.len() <= 8
        {
            let (text, rest) = message.split_at(at);
            let shown = Some(comment);
            return (Head { text, shown }, rest);
        }
        at += line.len();
    }
    let head = Head {
        text: message,
        shown: None,
    };
    (head, &[])
}

impl Head<'_> {
    fn lines(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.text.split(|b| *b == b'\n')
    }

    /// Returns the lines that a person wrote: not blank, not a comment, not a trailer that programs add.
    fn written(&self, comment: &[u8]) -> Vec<u8> {
        let is_text = |line: &&[u8]| {
            !line.trim_ascii().is_empty()
                && !line.starts_with(comment)
                && !line.starts_with(b"Signed-off-by: ")
                && !is_ours(line)
        };
        self.lines().filter(is_text).collect::<Vec<_>>().join(&b'\n')
    }

    /// Returns the comment prefix of this message.
    fn comment(&self, place: &Place) -> Vec<u8> {
        if let Some(shown) = self.shown {
            return shown.to_vec();
        }
        let set = place.git_dir.as_ref().and_then(|git_dir| {
            let git = Git::in_git_dir(git_dir).with_callers_settings();
            let all = git
                .args(["config", "--get-regexp", "-z", "^core\\.comment(char|string)$"])
                .run()
                .ok()?;
            let last = all.split(|b| *b == 0).rfind(|one| !one.is_empty())?;
            let value = last.iter().position(|b| *b == b'\n')?;
            last.get(value + 1..).map(<[u8]>::to_vec)
        });
        match set {
            Some(set) if set == b"auto" => {
                let last = self.lines().rfind(|line| !line.is_empty()).unwrap_or_default();
                match last.first().filter(|first| CHOICES.contains(first)) {
                    Some(first) => vec![*first],
                    None => b"#".to_vec(),
                }
            }
            Some(set) if !set.is_empty() => set,
            _ => b"#".to_vec(),
        }
    }
}

/// Returns whether jit wrote this trailer line.
fn is_ours(line: &[u8]) -> bool {
    let Some((key, value)) = std::str::from_utf8(line)
        .ok()
        .and_then(|line| line.split_once(": "))
    else {
        return false;
    };
    match key {
        LEASE => value.trim_end().parse::<LeaseId>().is_ok(),
        AGENT => value.trim_end().parse::<AgentId>().is_ok(),
        WORKTREE => value.trim_end().parse::<WorktreeId>().is_ok(),
        _ => false,
    }
}

/// Returns the text without our trailers in its last paragraph, and those trailers.
fn without_ours(text: &[u8], comment: &[u8]) -> (Vec<u8>, Vec<String>) {
    let lines: Vec<&[u8]> = text.split_inclusive(|b| *b == b'\n').collect();
    let is_blank = |line: &[u8]| line.trim_ascii().is_empty();
    let is_comment = |line: &[u8]| line.starts_with(comment);
    let end = lines
        .iter()
        .rposition(|line| !is_blank(line) && !is_comment(line))
        .map_or(0, |last| last + 1);
    let begin = lines[..end]
        .iter()
        .rposition(|line| is_blank(line))
        .map_or(0, |blank| blank + 1);
    let (mut kept, mut ours) = (Vec::with_capacity(text.len()), Vec::new());
    for (n, line) in lines.iter().enumerate() {
        let bare = line.strip_suffix(b"\n").unwrap_or(line);
        if (begin..end).contains(&n) && is_ours(bare) {
            ours.push(String::from_utf8_lossy(bare.trim_ascii_end()).into_owned());
        } else {
            kept.extend_from_slice(line);
        }
    }
    (kept, ours)
}

/// Returns the message with these trailers; `None` if it has exactly them already.
fn with_trailers(place: &Place, message: &[u8], wanted: &[String]) -> Outcome<Option<Vec<u8>>> {
    let (head, rest) = split(message);
    let comment = head.comment(place);
    let (kept, ours) = without_ours(head.text, &comment);
    if ours == wanted {
        return Ok(None);
    }
    if place.git_dir.is_none() {
        return Ok(None);
    }
    // The message is still empty: leave a free line for the subject.
    let is_text = |line: &[u8]| !line.trim_ascii().is_empty() && !line.starts_with(&comment);
    let untouched = !kept.split(|b| *b == b'\n').any(is_text);
    let input = if untouched {
        let body: Vec<u8> = kept
            .iter()
            .copied()
            .skip_while(|b| b.is_ascii_whitespace())
            .collect();
        let mut out = format!("\n\n{}\n", wanted.join("\n")).into_bytes();
        if !body.is_empty() {
            out.push(b'\n');
        }
        return Ok(Some([out.as_slice(), &body, rest].concat()));
    } else {
        kept
    };
    let comment = String::from_utf8_lossy(&comment).into_owned();
    // Outside of the repository: its own settings can name commands for trailers.
    let mut git = Git::at("/")
        .setting("trailer.separators", ":")
        .setting("core.commentChar", &comment)
        .args(["interpret-trailers", "--no-divider", "--where", "end"])
        .args(["--if-exists", "add", "--if-missing", "add"]);
    for trailer in wanted {
        git = git.arg("--trailer").arg(trailer);
    }
    let mut out = git.stdin(input).run().map_err(|e| refuse(Code::Io, e))?;
    out.extend_from_slice(rest);
    Ok(Some(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str =
        "JIT-Lease: 01ARZ3NDEKTSV4RRFFQ69G5FAV\nJIT-Agent: agent:a\nJIT-Worktree: wt:0123abcd\n";

    #[test]
    fn c4_only_our_trailers_at_the_end_are_taken_for_ours() {
        let text = format!("Fix\n\nJIT-Lease: see above\n\nSigned-off-by: x\n{OURS}\n# comment\n#\n");
        let (kept, ours) = without_ours(text.as_bytes(), b"#");
        assert_eq!(ours.join("\n") + "\n", OURS);
        assert_eq!(
            String::from_utf8_lossy(&kept),
            "Fix\n\nJIT-Lease: see above\n\nSigned-off-by: x\n\n# comment\n#\n"
        );
        let body = format!("Fix\n\n{OURS}\nmore text\n");
        assert_eq!(without_ours(body.as_bytes(), b"#").1, [""; 0]);
    }

    #[test]
    fn c4_what_is_below_the_scissors_is_not_looked_at() {
        let text = b"Fix\n; x\n; ------------------------ >8 ------------------------\ndiff\n";
        let (head, rest) = split(text);
        assert_eq!(head.text, b"Fix\n; x\n");
        assert_eq!(head.shown, Some(&b";"[..]));
        assert!(rest.ends_with(b"diff\n"));
    }
}
