//! Ignore patterns that are not committed: `<common>/info/exclude`.
//!
//! Format: one block, from a line that begins with `# >>> jit` to the line `# <<< jit`, with one pattern a line. The
//! first line records the bytes that had to be added around the block, so that removal can undo them.
//!
//! What must hold:
//!
//! - Every byte outside the block belongs to the user and stays unchanged.
//! - Removing right after adding restores the file to the byte. A file or folder that did not exist before is removed
//!   again.
//! - Any number of processes may add patterns at once, and every pattern is in the file afterwards.

use std::io;
use std::path::Path;

use jit_os::file;

const BEGIN: &[u8] = b"# >>> jit";
const TEXT: &str = ": written by jit, which also removes it";
const END: &[u8] = b"# <<< jit\n";

/// Temporary files that a killed process may leave in a tree, until the same file is written again or `jit validate`
/// runs.
pub(crate) const UNFINISHED_PATTERN: &str = "/.jit/**/*.????????????????.tmp";

/// Additions outside the block itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Added {
    /// The newline after the user's last line.
    newline: bool,
    file: bool,
    folder: bool,
}

struct Parts<'a> {
    before: &'a [u8],
    added: Added,
    patterns: Vec<&'a [u8]>,
    after: &'a [u8],
}

/// Makes git ignore these patterns in every worktree of the repository. Returns whether the file changed.
pub fn ensure_excluded(common_dir: &Path, patterns: &[&str]) -> io::Result<bool> {
    let path = common_dir.join("info/exclude");
    let missing = |content: &[u8]| match split(content) {
        Some(parts) => patterns
            .iter()
            .any(|pattern| !parts.patterns.contains(&pattern.as_bytes())),
        None => true,
    };
    if read(&path)?.is_some_and(|content| !missing(&content)) {
        return Ok(false);
    }
    // Locks the common folder, not `info/`: the process that creates `info/` must also be the one that records it.
    let _lock = file::lock_folder(common_dir)?;
    let folder = match std::fs::create_dir(common_dir.join("info")) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(error),
    };
    let old = read(&path)?;
    let content = old.as_deref().unwrap_or_default();
    if old.is_some() && !missing(content) {
        return Ok(false);
    }
    let mut parts = split(content).unwrap_or_else(|| Parts {
        before: content,
        added: Added {
            newline: content.last().is_some_and(|b| *b != b'\n'),
            file: old.is_none(),
            folder,
        },
        patterns: Vec::new(),
        after: &[],
    });
    for pattern in patterns {
        if !parts.patterns.contains(&pattern.as_bytes()) {
            parts.patterns.push(pattern.as_bytes());
        }
    }
    file::replace(&path, &join(&parts))?;
    Ok(true)
}

/// Removes the block. Returns whether there was one.
pub fn remove_excluded(common_dir: &Path) -> io::Result<bool> {
    let path = common_dir.join("info/exclude");
    if read(&path)?.is_none_or(|content| split(&content).is_none()) {
        return Ok(false);
    }
    let _lock = file::lock_folder(common_dir)?;
    let Some(content) = read(&path)? else {
        return Ok(false);
    };
    let Some(parts) = split(&content) else {
        return Ok(false);
    };
    let before = match parts.before {
        // Lines added later need the newline that jit added.
        [line @ .., b'\n'] if parts.added.newline && parts.after.is_empty() => line,
        before => before,
    };
    let rest = [before, parts.after].concat();
    if rest.is_empty() && parts.added.file {
        std::fs::remove_file(&path)?;
        if parts.added.folder {
            // A failure is fine: the folder is not empty any more.
            let _ = std::fs::remove_dir(common_dir.join("info"));
        }
    } else {
        file::replace(&path, &rest)?;
    }
    Ok(true)
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    // The user may keep it elsewhere and link to it.
    match jit_git::files::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let message = format!("{}: {error}", path.display());
            Err(io::Error::new(error.kind(), message))
        }
    }
}

fn split(content: &[u8]) -> Option<Parts<'_>> {
    let mut at = 0;
    let mut lines = content.split_inclusive(|b| *b == b'\n');
    let begin = lines.find(|line| {
        let found = line.starts_with(BEGIN);
        if !found {
            at += line.len();
        }
        found
    })?;
    let has = |word: &[u8]| begin.windows(word.len()).any(|part| part == word);
    let added = Added {
        newline: has(b"[newline]"),
        file: has(b"[file]"),
        folder: has(b"[folder]"),
    };
    let (before, block) = content.split_at_checked(at)?;
    let mut patterns = Vec::new();
    let mut end = begin.len();
    for line in lines {
        end += line.len();
        if line.trim_ascii_end() == END.trim_ascii_end() {
            let after = block.get(end..)?;
            return Some(Parts {
                before,
                added,
                patterns,
                after,
            });
        }
        patterns.push(line.trim_ascii_end());
    }
    // The end of the block was deleted: only its first line is certainly ours.
    Some(Parts {
        before,
        added,
        patterns: Vec::new(),
        after: block.get(begin.len()..)?,
    })
}

fn join(parts: &Parts<'_>) -> Vec<u8> {
    let mut out = parts.before.to_vec();
    if parts.added.newline && out.last().is_some_and(|b| *b != b'\n') {
        out.push(b'\n');
    }
    out.extend_from_slice(BEGIN);
    out.extend_from_slice(TEXT.as_bytes());
    for (flag, word) in [
        (parts.added.newline, " [newline]"),
        (parts.added.file, " [file]"),
        (parts.added.folder, " [folder]"),
    ] {
        if flag {
            out.extend_from_slice(word.as_bytes());
        }
    }
    out.push(b'\n');
    for pattern in &parts.patterns {
        out.extend_from_slice(pattern);
        out.push(b'\n');
    }
    out.extend_from_slice(END);
    out.extend_from_slice(parts.after);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a1_removing_restores_to_the_byte() {
        for before in [
            None,
            Some(&b""[..]),
            Some(b"\n"),
            Some(b"*.o"),
            Some(b"*.o\n\n"),
            Some(b"*.o\r\n# x\r\n"),
            Some(b"caf\xe9\n\xff"),
        ] {
            let folder = tempfile::tempdir().expect("folder");
            let path = folder.path().join("info/exclude");
            if let Some(content) = before {
                std::fs::create_dir(folder.path().join("info")).expect("folder");
                std::fs::write(&path, content).expect("write");
            }
            assert!(ensure_excluded(folder.path(), &["/.jit/worktree.json"]).expect("add"));
            assert!(!ensure_excluded(folder.path(), &["/.jit/worktree.json"]).expect("again"));
            assert!(ensure_excluded(folder.path(), &["/.jit/tmp/"]).expect("another"));
            let content = std::fs::read(&path).expect("read");
            assert!(content.starts_with(before.unwrap_or_default()));
            let text = String::from_utf8_lossy(&content).into_owned();
            assert_eq!(text.matches("# >>> jit").count(), 1, "{text}");
            assert!(text.contains("\n/.jit/worktree.json\n/.jit/tmp/\n"), "{text}");
            assert!(remove_excluded(folder.path()).expect("remove"));
            assert!(!remove_excluded(folder.path()).expect("again"));
            assert_eq!(std::fs::read(&path).ok().as_deref(), before);
            assert_eq!(folder.path().join("info").exists(), before.is_some());
        }
    }

    #[test]
    fn a1_what_the_user_wrote_later_stays() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("info/exclude");
        std::fs::create_dir(folder.path().join("info")).expect("folder");
        std::fs::write(&path, "first").expect("write");
        ensure_excluded(folder.path(), &["/a"]).expect("add");
        let mut content = std::fs::read(&path).expect("read");
        content.extend_from_slice(b"later");
        std::fs::write(&path, &content).expect("write");
        ensure_excluded(folder.path(), &["/b"]).expect("add");
        remove_excluded(folder.path()).expect("remove");
        assert_eq!(std::fs::read(&path).expect("read"), b"first\nlater");

        std::fs::write(&path, "# >>> jit, but its end is gone\nmine\n").expect("write");
        ensure_excluded(folder.path(), &["/b"]).expect("add");
        remove_excluded(folder.path()).expect("remove");
        assert_eq!(std::fs::read(&path).expect("read"), b"mine\n");
    }

    #[test]
    fn a1_many_at_once_lose_nothing() {
        (0..20).for_each(|_| many_at_once());
    }

    fn many_at_once() {
        let folder = tempfile::tempdir().expect("folder");
        std::thread::scope(|scope| {
            for n in 0..16 {
                let path = folder.path();
                scope.spawn(move || ensure_excluded(path, &[&format!("/p{n}")]).expect("add"));
            }
        });
        let text = std::fs::read_to_string(folder.path().join("info/exclude")).expect("read");
        assert!((0..16).all(|n| text.contains(&format!("\n/p{n}\n"))), "{text}");
        remove_excluded(folder.path()).expect("remove");
        assert!(!folder.path().join("info").exists());
    }
}
