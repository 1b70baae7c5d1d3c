//! Git processes that stay: one answers questions about objects and refs (`git cat-file --batch-command`), one writes trees
//! (`git mktree --batch`).
//!
//! What must hold:
//! - Each answer is as new as the question: git reads refs and looks for new objects again each time.
//! - The process ends with the value that started it, also if this process is killed: its input ends then.
//!
//! Format read, for each question: `<object> <type> <size>`, or a line that ends in `missing` or `ambiguous`. The content of
//! an object follows that line, and a newline after it.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout};

use crate::run::Git;

/// Type and size of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    pub id: String,
    /// `commit`, `tree`, `blob` or `tag`.
    pub kind: String,
    pub size: usize,
}

/// A git process and the pipes to it.
#[derive(Debug)]
struct Talk {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Talk {
    fn start(git: Git) -> io::Result<Self> {
        let mut child = git.start()?;
        let pipe = || io::Error::other("git has no pipe");
        let output = child.stdout.take().ok_or_else(pipe)?;
        Ok(Self {
            input: child.stdin.take(),
            output: BufReader::new(output),
            child,
        })
    }

    /// Sends this, and reads one line.
    fn ask(&mut self, question: &[u8]) -> io::Result<String> {
        let input = self.input.as_mut();
        let input = input.ok_or_else(|| io::Error::other("git has no pipe"))?;
        input.write_all(question)?;
        let mut line = Vec::new();
        self.output.read_until(b'\n', &mut line)?;
        Ok(String::from_utf8_lossy(line.trim_ascii_end()).into_owned())
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        // The end of its input ends git.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// A git process that writes one tree after the other.
#[derive(Debug)]
pub struct Trees(Talk);

impl Trees {
    /// Starts the process. `git` has the place of the repository and no command yet.
    pub fn start(git: Git) -> io::Result<Self> {
        Talk::start(git.args(["mktree", "-z", "--batch"])).map(Self)
    }

    /// Writes a tree of these entries, in any order, and returns its id.
    pub fn write(&mut self, entries: &[Entry]) -> io::Result<String> {
        let mut lines = Vec::new();
        for one in entries {
            let kind = match one.mode.as_str() {
                TREE => "tree",
                "160000" => "commit",
                _ => "blob",
            };
            lines.extend_from_slice(format!("{} {kind} {}\t", one.mode, one.id).as_bytes());
            lines.extend_from_slice(&one.name);
            lines.push(0);
        }
        // An empty record ends the tree.
        lines.push(0);
        let id = self.0.ask(&lines)?;
        let is_id = matches!(id.len(), 40 | 64) && id.bytes().all(|b| b.is_ascii_hexdigit());
        match is_id {
            true => Ok(id),
            false => Err(io::Error::other(format!("git answered {id:?}"))),
        }
    }
}

/// The mode of a tree, as trees have it.
pub const TREE: &str = "40000";

/// A git process that answers one question after the other.
#[derive(Debug)]
pub struct Objects(Talk);

impl Objects {
    /// Starts the process. `git` has the place of the repository and no command yet.
    pub fn start(git: Git) -> io::Result<Self> {
        Talk::start(git.args(["cat-file", "--batch-command"])).map(Self)
    }

    /// The object that a revision names, such as `refs/heads/main^{commit}` or `<commit>:path`.
    pub fn info(&mut self, name: &str) -> io::Result<Option<Object>> {
        self.ask("info", name)
    }

    /// The object that a revision names, and its content.
    pub fn content(&mut self, name: &str) -> io::Result<Option<(Object, Vec<u8>)>> {
        let Some(object) = self.ask("contents", name)? else {
            return Ok(None);
        };
        let mut content = vec![0; object.size];
        self.0.output.read_exact(&mut content)?;
        self.0.output.read_exact(&mut [0])?;
        Ok(Some((object, content)))
    }

    fn ask(&mut self, what: &str, name: &str) -> io::Result<Option<Object>> {
        if name.is_empty() || name.contains(['\n', '\0']) {
            return Err(io::Error::other("this name cannot be asked for"));
        }
        let line = self.0.ask(format!("{what} {name}\n").as_bytes())?;
        if line.ends_with(" missing") || line.ends_with(" ambiguous") {
            return Ok(None);
        }
        let words: Vec<&str> = line.split(' ').collect();
        let size = |text: &str| text.parse::<usize>().ok();
        match words.as_slice() {
            [id, kind, bytes] if size(bytes).is_some() => Ok(Some(Object {
                id: (*id).to_owned(),
                kind: (*kind).to_owned(),
                size: size(bytes).unwrap_or_default(),
            })),
            _ => Err(io::Error::other(format!("git answered {line:?}"))),
        }
    }
}

/// One entry of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub mode: String,
    pub name: Vec<u8>,
    pub id: String,
}

/// The entries in the content of a tree. `id` is the id of the tree, or of any object of that repository.
///
/// Format read: `<mode> <name>`, a zero byte, and the object's id in bytes.
pub fn entries_of_tree(content: &[u8], id: &str) -> Vec<Entry> {
    let length = id.len() / 2;
    let mut rest = content;
    let next = std::iter::from_fn(|| {
        let end = rest.iter().position(|b| *b == 0)?;
        let (head, object) = (rest.get(..end)?, rest.get(end + 1..end + 1 + length)?);
        rest = rest.get(end + 1 + length..)?;
        let space = head.iter().position(|b| *b == b' ')?;
        Some(Entry {
            mode: String::from_utf8_lossy(head.get(..space)?).into_owned(),
            name: head.get(space + 1..)?.to_owned(),
            id: object.iter().map(|byte| format!("{byte:02x}")).collect(),
        })
    });
    next.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h1_entries_of_a_tree_are_read() {
        let id = "ab".repeat(20);
        let mut tree = Vec::new();
        for (mode, name, byte) in [("100644", "a b", 1_u8), ("40000", "c", 2), ("100755", "a", 3)] {
            tree.extend(format!("{mode} {name}\0").into_bytes());
            tree.extend([byte; 20]);
        }
        let entries = entries_of_tree(&tree, &id);
        let first = Entry {
            mode: "100644".to_owned(),
            name: b"a b".to_vec(),
            id: "01".repeat(20),
        };
        assert_eq!(entries[0], first);
        assert_eq!((entries.len(), entries[2].mode.as_str()), (3, "100755"));
        assert_eq!(entries_of_tree(&tree[..40], &id), [first], "cut off");
        assert_eq!(entries_of_tree(b"", &id), []);
    }

    #[test]
    fn h1_one_process_answers_and_sees_what_is_new() {
        let folder = tempfile::tempdir().expect("a folder");
        let git = || Git::at(folder.path());
        let text = |git: Git| git.line().expect("an answer");
        git()
            .args(["init", "-q", "-b", "main"])
            .run()
            .expect("a repository");
        let mut objects = Objects::start(git()).expect("a process");
        assert_eq!(objects.info("refs/heads/main^{commit}").expect("an answer"), None);
        let blob = text(git().args(["hash-object", "-w", "--stdin"]).stdin("two\nlines\n"));
        let tree = text(git().arg("mktree").stdin(format!("100644 blob {blob}\ta file\n")));
        let commit = git().args([
            "-c",
            "user.name=n",
            "-c",
            "user.email=e",
            "commit-tree",
            &tree,
            "-m",
            "x",
        ]);
        let commit = text(commit);
        git()
            .args(["update-ref", "refs/heads/main", &commit])
            .run()
            .expect("a branch");
        let found = objects
            .info("refs/heads/main^{commit}")
            .expect("an answer")
            .expect("it is there");
        assert_eq!((found.id, found.kind), (commit.clone(), "commit".to_owned()));
        let name = format!("{commit}:a file");
        let (_, content) = objects.content(&name).expect("an answer").expect("it is there");
        assert_eq!(content, b"two\nlines\n");
        assert_eq!(objects.content(&format!("{commit}:no")).expect("an answer"), None);
        let mut trees = Trees::start(git()).expect("a process");
        let one = Entry {
            mode: "100644".to_owned(),
            name: b"a file".to_vec(),
            id: blob,
        };
        assert_eq!(trees.write(std::slice::from_ref(&one)).expect("a tree"), tree);
        let outer = Entry {
            mode: TREE.to_owned(),
            name: b"folder".to_vec(),
            id: tree.clone(),
        };
        let both = trees.write(&[outer, one]).expect("a tree");
        let found = objects.info(&format!("{both}:folder")).expect("an answer");
        assert_eq!(found.expect("it is there").id, tree);
        assert!(objects.info("two\nlines").is_err(), "it would be two questions");
    }
}
