//! Stores files as git objects, byte for byte: no filter, no line-end conversion and no ignore rule applies.
//!
//! Format: a git tree with the files' own paths. A component `.git` (in any case) gets the suffix `%jit`. A component
//! that already looks like that gets one more suffix. [`Extra`] has what a tree cannot store: permissions, empty
//! folders, hard links, pipes.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use jit_core::model::refusal::Code;
use jit_git::Git;
use jit_git::run::next_content;
use jit_os::io_refusal;
use jit_store::Outcome;
use serde::{Deserialize, Serialize};

use super::walk::{Found, Walk, What};
use crate::refusals::refuse;

const MARK: &[u8] = b"%jit";
/// Contents are read back in portions of about this many bytes.
const HELPING: u64 = 32 << 20;

/// Facts about a path that a git tree does not store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extra {
    /// As [`shown`] writes it.
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub folder: bool,
    /// Another name of this file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_as: Option<String>,
    /// A pipe, a socket or a device, which has no content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub special: Option<String>,
}

/// Writes a path as text that can be parsed back: bytes that are not plain UTF-8, and `%`, become `%XX`.
pub fn shown(path: &Path) -> String {
    let mut out = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '%' || c.is_control() {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    out.push_str(&format!("%{byte:02X}"));
                }
            } else {
                out.push(c);
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Parses a path that [`shown`] wrote.
pub fn unshown(text: &str) -> PathBuf {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut n = 0;
    while let Some(byte) = bytes.get(n) {
        let hex = bytes
            .get(n + 1..n + 3)
            .and_then(|hex| std::str::from_utf8(hex).ok());
        match (byte, hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(value)) => {
                out.push(value);
                n += 3;
            }
            _ => {
                out.push(*byte);
                n += 1;
            }
        }
    }
    PathBuf::from(OsString::from_vec(out))
}

fn is_marked(name: &[u8]) -> bool {
    let Some((head, mut rest)) = name.split_at_checked(4) else {
        return false;
    };
    while let Some(shorter) = rest.strip_prefix(MARK) {
        rest = shorter;
    }
    head.eq_ignore_ascii_case(b".git") && rest.is_empty()
}

/// The path as it is written in a git tree.
fn in_tree(path: &Path) -> Vec<u8> {
    let mut out = Vec::new();
    for name in path.iter().map(OsStr::as_bytes) {
        if !out.is_empty() {
            out.push(b'/');
        }
        out.extend_from_slice(name);
        if is_marked(name) {
            out.extend_from_slice(MARK);
        }
    }
    out
}

/// Parses a path that [`in_tree`] wrote. `None` for a path that could lead outside.
fn from_tree(path: &[u8]) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for name in path.split(|b| *b == b'/') {
        let name = match is_marked(name) {
            true => name.strip_suffix(MARK).unwrap_or(name),
            false => name,
        };
        if name.is_empty() || name == b"." || name == b".." {
            return None;
        }
        out.push(OsStr::from_bytes(name));
    }
    Some(out)
}

/// Git on the objects of the repository, in any folder.
pub fn git(common: &Path, dir: &Path) -> Git {
    let mut option = OsString::from("--git-dir=");
    option.push(common);
    Git::at(dir)
        .arg(option)
        .setting("core.splitIndex", "false")
        .setting("core.protectNTFS", "false")
        .setting("core.protectHFS", "false")
        .env("GIT_AUTHOR_NAME", "jit")
        .env("GIT_AUTHOR_EMAIL", "jit@localhost")
        .env("GIT_COMMITTER_NAME", "jit")
        .env("GIT_COMMITTER_EMAIL", "jit@localhost")
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.trim_ascii()).into_owned()
}

/// The object ids of the raw content of these files, below `root`, in the same order.
pub fn hashes(common: &Path, root: &Path, paths: &[&Path], write: bool) -> Outcome<Vec<String>> {
    let failed = |e| refuse(Code::Io, e);
    // The input has one name per line, and a leading quotation mark starts a quoted name.
    let is_plain = |path: &Path| {
        let bytes = path.as_os_str().as_bytes();
        !bytes.contains(&b'\n') && !bytes.starts_with(b"\"")
    };
    let mut lines = Vec::new();
    for path in paths.iter().filter(|path| is_plain(path)) {
        lines.extend_from_slice(path.as_os_str().as_bytes());
        lines.push(b'\n');
    }
    let write: &[&str] = if write { &["-w"] } else { &[] };
    let mut plain = Vec::new();
    if !lines.is_empty() {
        let out = git(common, root)
            .args(["hash-object", "--no-filters", "--stdin-paths"])
            .args(write)
            .stdin(lines)
            .run()
            .map_err(failed)?;
        plain = out
            .split(|b| *b == b'\n')
            .filter(|line| !line.is_empty())
            .map(text)
            .collect();
    }
    let mut plain = plain.into_iter();
    let mut all = Vec::with_capacity(paths.len());
    for path in paths {
        let hash = match is_plain(path) {
            true => plain
                .next()
                .ok_or_else(|| refuse(Code::Io, "git hash-object left a file out"))?,
            false => {
                let full = root.join(path);
                let content = fs::read(&full).map_err(|e| io_refusal("read", &full, &e))?;
                blob(common, root, content, !write.is_empty())?
            }
        };
        all.push(hash);
    }
    Ok(all)
}

/// The object id of some bytes.
pub fn blob(common: &Path, dir: &Path, content: Vec<u8>, write: bool) -> Outcome<String> {
    let write: &[&str] = if write { &["-w"] } else { &[] };
    git(common, dir)
        .args(["hash-object", "--stdin"])
        .args(write)
        .stdin(content)
        .line()
        .map_err(|e| refuse(Code::Io, e))
}

/// Writes a tree from `mode oid\tpath` records. Objects may be missing if they were missing before.
pub fn tree(common: &Path, scratch: &Path, records: Vec<u8>) -> Outcome<String> {
    let failed = |e| refuse(Code::Io, e);
    let number = jit_os::random::u64().map_err(|e| refuse(Code::Io, e))?;
    let index = scratch.join(format!("index-{number:016x}"));
    let git = || git(common, scratch).env("GIT_INDEX_FILE", &index);
    let made = (|| {
        git()
            .args(["update-index", "-z", "--index-info"])
            .stdin(records)
            .run()?;
        git().args(["write-tree", "--missing-ok"]).line()
    })();
    let _ = fs::remove_file(&index);
    made.map_err(failed)
}

/// Writes a commit with these parents.
pub fn commit(common: &Path, tree: &str, parents: &[String], message: &str) -> Outcome<String> {
    let mut git = git(common, common).args(["commit-tree", tree, "-m", message]);
    for parent in parents {
        git = git.args(["-p", parent]);
    }
    git.line().map_err(|e| refuse(Code::Io, e))
}

/// Writes the result of a walk below `root` as a tree. Returns its id and the facts that a tree cannot store.
pub fn write(
    common: &Path,
    scratch: &Path,
    root: &Path,
    walk: &Walk,
    keep: &dyn Fn(&Found) -> bool,
) -> Outcome<(String, Vec<Extra>)> {
    let wanted: Vec<&Found> = walk.found.iter().filter(|one| keep(one)).collect();
    let files: Vec<&Path> = wanted
        .iter()
        .filter(|one| one.what == What::File)
        .map(|one| one.path.as_path())
        .collect();
    let mut names = hashes(common, root, &files, true)?.into_iter();
    let mut records = Vec::new();
    let mut extras = Vec::new();
    let mut first: HashMap<u64, String> = HashMap::new();
    for (n, one) in wanted.iter().enumerate() {
        let mut extra = Extra {
            path: shown(&one.path),
            ..Extra::default()
        };
        let (mode, usual) = match one.what {
            What::File if one.mode & 0o111 != 0 => ("100755", 0o755),
            What::File => ("100644", 0o644),
            What::Link => ("120000", one.mode),
            What::Folder => ("", 0o755),
            What::Special(kind) => {
                extra.special = Some(kind.to_owned());
                ("", 0o644)
            }
        };
        if one.mode != usual {
            extra.mode = Some(one.mode);
        }
        let hash = match one.what {
            What::File => names.next(),
            What::Link => {
                let full = root.join(&one.path);
                let goal = fs::read_link(&full).map_err(|e| io_refusal("read", &full, &e))?;
                Some(blob(common, root, goal.into_os_string().into_vec(), true)?)
            }
            What::Folder => {
                // Only an empty folder must be recorded.
                extra.folder = wanted
                    .get(n + 1..)
                    .unwrap_or_default()
                    .iter()
                    .take_while(|next| {
                        next.path
                            .as_os_str()
                            .as_bytes()
                            .starts_with(one.path.as_os_str().as_bytes())
                    })
                    .all(|next| !next.path.starts_with(&one.path));
                None
            }
            What::Special(_) => None,
        };
        if one.what == What::File && one.links > 1 {
            match first.get(&one.inode) {
                Some(other) => extra.same_as = Some(other.clone()),
                None => {
                    first.insert(one.inode, extra.path.clone());
                }
            }
        }
        if let Some(hash) = hash {
            records.extend_from_slice(format!("{mode} {hash}\t").as_bytes());
            records.extend_from_slice(&in_tree(&one.path));
            records.push(0);
        }
        if extra
            != (Extra {
                path: extra.path.clone(),
                ..Extra::default()
            })
        {
            extras.push(extra);
        }
    }
    Ok((tree(common, scratch, records)?, extras))
}

/// One file of a raw tree.
#[derive(Debug, Clone)]
pub struct Stored {
    pub path: PathBuf,
    pub mode: String,
    pub oid: String,
    pub size: u64,
}

/// Lists the files of a raw tree.
pub fn list(common: &Path, revision: &str) -> Outcome<Vec<Stored>> {
    let out = git(common, common)
        .args(["ls-tree", "-r", "-z", "-l", "--full-tree", revision])
        .run()
        .map_err(|e| refuse(Code::Io, e))?;
    let mut all = Vec::new();
    for record in out.split(|b| *b == 0).filter(|record| !record.is_empty()) {
        let Some(tab) = record.iter().position(|b| *b == b'\t') else {
            continue;
        };
        let (head, path) = record.split_at(tab);
        let head = text(head);
        let words: Vec<&str> = head.split_ascii_whitespace().collect();
        let ([mode, _, oid, size], Some(path)) = (words.as_slice(), path.get(1..).and_then(from_tree)) else {
            return Err(refuse(
                Code::Io,
                format!("{revision} is not a tree that jit wrote"),
            ));
        };
        all.push(Stored {
            path,
            mode: (*mode).to_owned(),
            oid: (*oid).to_owned(),
            size: size.parse().unwrap_or(0),
        });
    }
    Ok(all)
}

/// Writes files of a raw tree below `root`, which exists and has none of them.
pub fn read_into(common: &Path, root: &Path, files: &[Stored], extras: &[Extra]) -> Outcome<()> {
    let extra: HashMap<PathBuf, &Extra> = extras.iter().map(|one| (unshown(&one.path), one)).collect();
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |e: std::io::Error| io_refusal("write", &path, &e)
    };
    let mut rest = files;
    while !rest.is_empty() {
        let mut bytes = 0;
        let count = rest.iter().take_while(|one| {
            let fits = bytes == 0 || bytes + one.size <= HELPING;
            bytes += one.size.max(1);
            fits
        });
        let (now, later) = rest.split_at(count.count().clamp(1, rest.len()));
        rest = later;
        let ask: String = now.iter().map(|one| format!("{}\n", one.oid)).collect();
        let out = git(common, common)
            .args(["cat-file", "--batch"])
            .stdin(ask)
            .run()
            .map_err(|e| refuse(Code::Io, e))?;
        let mut out = out.as_slice();
        for one in now {
            let content = next_content(&mut out)
                .ok_or_else(|| refuse(Code::Io, format!("{} is not there any more", one.oid)))?;
            let goal = root.join(&one.path);
            if let Some(folder) = goal.parent() {
                fs::create_dir_all(folder).map_err(failed(folder))?;
            }
            let known = extra.get(&one.path);
            let twin = known.and_then(|known| known.same_as.as_deref());
            if one.mode == "120000" {
                std::os::unix::fs::symlink(OsStr::from_bytes(content), &goal).map_err(failed(&goal))?;
                continue;
            }
            if let Some(twin) = twin
                && fs::hard_link(root.join(unshown(twin)), &goal).is_ok()
            {
                continue;
            }
            fs::write(&goal, content).map_err(failed(&goal))?;
            let usual = if one.mode == "100755" { 0o755 } else { 0o644 };
            let mode = known.and_then(|known| known.mode).unwrap_or(usual);
            fs::set_permissions(&goal, fs::Permissions::from_mode(mode)).map_err(failed(&goal))?;
        }
    }
    // Folders last: a read-only folder could not be filled.
    for one in extras.iter().rev().filter(|one| one.special.is_none()) {
        let goal = root.join(unshown(&one.path));
        if one.folder {
            fs::create_dir_all(&goal).map_err(failed(&goal))?;
        }
        if let (Some(mode), true) = (one.mode, goal.symlink_metadata().is_ok_and(|meta| meta.is_dir())) {
            fs::set_permissions(&goal, fs::Permissions::from_mode(mode)).map_err(failed(&goal))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h7_every_path_can_be_written_down_and_read_back() {
        for bytes in [
            &b"a/b"[..],
            b"100%/%41",
            b"new\nline/\xff\xfe",
            b".git/config",
            b"x/.GIT%jit/y",
            b".git%jit%jit",
            b".gitignore",
        ] {
            let path = Path::new(OsStr::from_bytes(bytes));
            assert_eq!(unshown(&shown(path)), path);
            assert_eq!(from_tree(&in_tree(path)).as_deref(), Some(path));
            let parts: Vec<Vec<u8>> = in_tree(path).split(|b| *b == b'/').map(<[u8]>::to_vec).collect();
            assert!(parts.iter().all(|part| !part.eq_ignore_ascii_case(b".git")));
        }
        assert_eq!(from_tree(b"../x"), None);
        assert_eq!(from_tree(b"a//x"), None);
    }
}
