//! Notifies the sessions of a worktree that their changes conflict with another worktree (H8).
//!
//! The watching process writes a note for each worktree with a conflict. The hook of an agent that works there shows
//! it.
//!
//! What must hold:
//!
//! - Each session sees each change once: a note has a number, and a session remembers the last number it was shown.
//! - A note contains only current conflicts. A session that starts later sees the conflicts that remain, not the
//!   resolved ones.
//! - Names of files and branches are data. Control characters are left out, or written as escapes in names of files.
//!   Lengths are bounded.
//!
//! Format: `<control>/notes/<digest of the worktree's folder>/note.json`: root, number, conflicts (a line each);
//! `seen-<digest of the session>` beside it: the number that was shown. The folder is deleted when the worktree is
//! gone. All of it may be deleted: then every session sees its note again.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use jit_os::file;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::api::landing::Picture;

/// Maximum number of conflicts in a message, and of paths for each conflict.
const MOST: usize = 8;
/// Maximum length of a note file, in bytes.
const LONGEST: u64 = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    root: PathBuf,
    number: u64,
    conflicts: Vec<String>,
}

fn digest(text: &[u8]) -> String {
    let hash = Sha256::digest(text);
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn folder(control: &Path, root: &Path) -> PathBuf {
    // The digest must not depend on links in the path.
    let root = fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    control.join("notes").join(digest(root.as_os_str().as_bytes()))
}

fn read(folder: &Path) -> Option<Note> {
    let bytes = file::read_real(&folder.join("note.json"), LONGEST).ok()??;
    serde_json::from_slice(&bytes).ok()
}

fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// Like `plain`, for text that is quoted with escapes later: only the length is bounded.
fn bounded(text: &str) -> String {
    text.chars().take(200).collect()
}

/// Writes a note for each worktree whose conflicts have changed.
pub fn tell(control: &Path, picture: &Picture) -> io::Result<()> {
    let notes = control.join("notes");
    let concerned = !picture.conflicts.is_empty();
    if !concerned && !notes.is_dir() {
        return Ok(());
    }
    file::make_dir_like_parent(&notes)?;
    // If two processes watch, only one of them writes a change.
    let _turn = file::lock_folder(&notes)?;
    for one in &picture.worktrees {
        let Some(root) = one.root.as_deref().map(Path::new) else {
            continue;
        };
        // A worktree that cannot be read now keeps its note.
        if one.unknown.is_some() {
            continue;
        }
        let mut conflicts: Vec<String> = Vec::new();
        for pair in &picture.conflicts {
            let other = match (pair.a == one.name, pair.b == one.name) {
                (true, _) => &pair.b,
                (_, true) => &pair.a,
                _ => continue,
            };
            let paths: Vec<String> = pair
                .paths
                .iter()
                .take(MOST)
                .map(|path| format!("{:?} ({})", bounded(&path.path), plain(&path.kind)))
                .collect();
            let more = match pair.paths.len().saturating_sub(MOST) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            conflicts.push(format!("{}: {}{more}", plain(other), paths.join(", ")));
        }
        conflicts.sort();
        let folder = folder(control, root);
        let before = read(&folder);
        if before
            .as_ref()
            .map_or(conflicts.is_empty(), |note| note.conflicts == conflicts)
        {
            continue;
        }
        let note = Note {
            root: root.to_owned(),
            number: before.map_or(1, |note| note.number + 1),
            conflicts,
        };
        file::make_dir_like_parent(&folder)?;
        file::replace_unsynced(&folder.join("note.json"), &serde_json::to_vec(&note)?)?;
    }
    forget(&notes)
}

/// Deletes the notes of worktrees that are gone.
fn forget(notes: &Path) -> io::Result<()> {
    for entry in fs::read_dir(notes)? {
        let folder = entry?.path();
        if read(&folder).is_some_and(|note| !note.root.exists()) {
            fs::remove_dir_all(&folder)?;
        }
    }
    Ok(())
}

/// Returns the news that a session in this worktree has not seen yet, as text, and marks it as seen.
pub fn news(control: &Path, root: &Path, session: &str) -> Option<String> {
    let folder = folder(control, root);
    let note = read(&folder)?;
    let seen_file = folder.join(format!("seen-{}", digest(session.as_bytes())));
    let seen: u64 = file::read_real(&seen_file, 64)
        .ok()
        .flatten()
        .and_then(|bytes| String::from_utf8(bytes).ok()?.trim().parse().ok())
        .unwrap_or(0);
    if seen == note.number {
        return None;
    }
    file::replace_unsynced(&seen_file, format!("{}\n", note.number).as_bytes()).ok()?;
    if note.conflicts.is_empty() {
        return (seen > 0).then(|| "jit: this worktree is in nobody's way any more.".to_owned());
    }
    let mut lines = vec!["jit: what you have changed here would conflict when it is merged:".to_owned()];
    lines.extend(
        note.conflicts
            .iter()
            .take(MOST)
            .map(|line| format!("- with {line}")),
    );
    if note.conflicts.len() > MOST {
        lines.push(format!("- and with {} more", note.conflicts.len() - MOST));
    }
    lines.push(
        "Nothing is broken yet. Keep changes to these files small, or agree with the other side who changes them; \
         `jit conflicts` shows how it is now."
            .to_owned(),
    );
    Some(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::landing::{Pair, PairPath, Participant};

    fn picture(roots: &[&Path], conflicts: &[(&str, &str, &str)]) -> Picture {
        let one = |(n, root): (usize, &&Path)| Participant {
            name: format!("u{n}"),
            unit: None,
            branch: None,
            root: Some(root.to_string_lossy().into_owned()),
            uncommitted: true,
            changed_paths: 1,
            unknown: None,
        };
        let pair = |(a, b, path): &(&str, &str, &str)| Pair {
            a: (*a).to_owned(),
            b: (*b).to_owned(),
            paths: vec![PairPath {
                path: (*path).to_owned(),
                kind: "content".to_owned(),
            }],
        };
        Picture {
            target: "main".to_owned(),
            worktrees: roots.iter().enumerate().map(one).collect(),
            conflicts: conflicts.iter().map(pair).collect(),
            merges: 1,
        }
    }

    #[test]
    fn h8_each_session_is_told_once_of_each_change() {
        let dir = tempfile::tempdir().expect("a folder");
        let (control, a, b) = (
            dir.path().join("control"),
            dir.path().join("a"),
            dir.path().join("b"),
        );
        for folder in [&control, &a, &b] {
            fs::create_dir(folder).expect("a folder");
        }
        let roots = [a.as_path(), b.as_path()];
        let tell = |conflicts: &[(&str, &str, &str)]| {
            super::tell(&control, &picture(&roots, conflicts)).expect("tells");
        };
        tell(&[]);
        assert!(!control.join("notes").exists(), "no news, no file");
        tell(&[("u0", "u1", "x\u{1b}[2J.rs")]);
        for root in roots {
            for session in ["one", "two"] {
                let told = news(&control, root, session).expect("news");
                assert!(
                    told.contains("\"x\\u{1b}[2J.rs\"") && !told.contains('\u{1b}'),
                    "{told}"
                );
                assert_eq!(news(&control, root, session), None, "once");
            }
        }
        tell(&[("u0", "u1", "x\u{1b}[2J.rs")]);
        assert_eq!(news(&control, &a, "one"), None, "the same is not news");
        tell(&[("u0", "main", "y.rs")]);
        assert!(news(&control, &a, "one").is_some_and(|told| told.contains("main")));
        assert!(news(&control, &b, "one").is_some_and(|told| told.contains("nobody's way")));
        assert_eq!(
            news(&control, &b, "late"),
            None,
            "what is over is not told to others"
        );
        fs::remove_dir(&b).expect("removes");
        tell(&[("u0", "main", "y.rs")]);
        assert_eq!(fs::read_dir(control.join("notes")).expect("notes").count(), 1);
    }
}
