//! The files that a git command writes.
//!
//! A command that names the files it writes counts as a write of those files. A command that changes the worktree as
//! a whole (it checks out another commit, applies a patch) counts as a write of all of it.

use jit_agents::hooks::shell::Word;

use super::git::GitCall;
use super::{Cwd, Judge, joined};

/// The files that a command writes in the worktree.
enum Written {
    Nothing,
    Paths(Vec<Word>),
    Tree,
}

impl Written {
    /// Returns these files, or the whole tree if no file is named.
    fn of(paths: Vec<Word>) -> Self {
        match paths.is_empty() {
            true => Self::Tree,
            false => Self::Paths(paths),
        }
    }

    fn tree_if(writes: bool) -> Self {
        match writes {
            true => Self::Tree,
            false => Self::Nothing,
        }
    }
}

/// Returns the files and folders outside the worktree's own files that a command is told to write.
fn named_in(call: &GitCall<'_>) -> Vec<Word> {
    let mut out = match call.name {
        "archive" | "index-pack" | "mailsplit" => call.values(&["-o", "--output"]),
        "format-patch" | "bugreport" | "diagnose" => call.values(&["-o", "--output-directory", "--output"]),
        "config" if !call.reads_config() => call.values(&["-f", "--file"]),
        "init" | "clone" => call.values(&["--separate-git-dir"]),
        _ => call.values(&["--output"]),
    };
    let made = match (call.name, call.first()) {
        ("bundle", "create") => call.free(&["--version"]).into_iter().nth(1),
        ("worktree", "add") => call.free(NEW_WORKTREE).into_iter().nth(1),
        ("worktree", "move") => call.free(&[]).into_iter().nth(2),
        ("init" | "init-db", _) => call.free(NEW_REPOSITORY).into_iter().next(),
        ("clone", _) => call.free(NEW_REPOSITORY).into_iter().nth(1),
        ("pack-objects", _) => call.free(&[]).into_iter().next(),
        _ => None,
    };
    // `-` is the standard output.
    out.extend(made.filter(|word| word.text != "-"));
    out
}

fn named_at_top(call: &GitCall<'_>) -> Vec<Word> {
    match call.name {
        "checkout-index" => call.values(&["--prefix"]),
        "read-tree" => call.values(&["--index-output"]),
        "fast-export" => call.values(&["--export-marks"]),
        _ => Vec::new(),
    }
}

/// Options of `git worktree add` with a value.
pub(super) const NEW_WORKTREE: &[&str] = &["-b", "-B", "--reason"];
/// Options of `git init` and `git clone` with a value.
const NEW_REPOSITORY: &[&str] = &[
    "-b",
    "-c",
    "-j",
    "-o",
    "-u",
    "--branch",
    "--bundle-uri",
    "--config",
    "--depth",
    "--filter",
    "--initial-branch",
    "--jobs",
    "--object-format",
    "--origin",
    "--ref-format",
    "--reference",
    "--reference-if-able",
    "--revision",
    "--separate-git-dir",
    "--server-option",
    "--shallow-exclude",
    "--shallow-since",
    "--template",
    "--upload-pack",
];

impl Judge<'_> {
    /// Records the files that git writes. `at` is the folder in which it runs, `tree` the worktree that it changes.
    pub(super) fn files(&mut self, call: &GitCall<'_>, at: &Cwd, tree: &Cwd) {
        for word in named_in(call) {
            self.operand(&word, at);
        }
        // Git reads these relative to the top of the worktree.
        let top = match self.at_home(at) {
            true => Some(self.ground.own.clone()),
            false => at.clone(),
        };
        for word in named_at_top(call) {
            self.operand(&word, &top);
        }
        match self.written(call, tree) {
            Written::Nothing => {}
            Written::Paths(words) => {
                for word in words {
                    self.pathspec(&word, tree);
                }
            }
            // No agent here holds a lock in another repository.
            Written::Tree if self.at_home(tree) => {
                self.whole_tree(&format!("git {} {}", call.name, joined(call.args)));
            }
            Written::Tree => {}
        }
    }

    fn written(&self, call: &GitCall<'_>, at: &Cwd) -> Written {
        let first = call.first();
        let dry = call.has(&["-n", "--dry-run"]);
        match call.name {
            "checkout" => self.checkout(call, at),
            "switch" => {
                let valued = ["-c", "-C", "--create", "--force-create", "--orphan", "--conflict"];
                let begins = call.has(&["-c", "-C", "--create", "--force-create"]);
                Written::tree_if(!begins || !call.free(&valued).is_empty())
            }
            "restore" if call.has(&["-S", "--staged"]) && !call.has(&["-W", "--worktree"]) => {
                Written::Nothing
            }
            "restore" => Written::of(call.free(&["-s", "--source", "--conflict"])),
            "rm" | "mv" | "clean" if dry || call.has(&["--cached"]) => Written::Nothing,
            "rm" | "mv" => Written::of(call.free(&[])),
            "clean" => Written::of(call.free(&["-e", "--exclude"])),
            "reset" => Written::tree_if(call.has(&["--hard", "--merge", "--keep"])),
            "apply" => {
                let looks = call.has(&["--check", "--stat", "--numstat", "--summary", "--cached"]);
                Written::tree_if(!looks || call.has(&["--apply", "--index", "-3", "--3way"]))
            }
            "read-tree" => Written::tree_if(call.has(&["-u", "--reset"])),
            "bisect" => Written::tree_if(!matches!(first, "" | "log" | "view" | "terms")),
            "submodule" => {
                let changes = |word: &Word| matches!(word.text.as_str(), "update" | "add");
                Written::tree_if(call.args.iter().any(changes))
            }
            "sparse-checkout" => Written::tree_if(first != "list"),
            "am" | "merge" | "rebase" | "pull" | "cherry-pick" | "revert" | "checkout-index" => Written::Tree,
            _ => Written::Nothing,
        }
    }

    fn pathspec(&mut self, word: &Word, at: &Cwd) {
        match word.text.strip_prefix(":/") {
            // The path starts at the root of the worktree, wherever the command runs.
            Some("") => self.whole_tree(&word.text),
            Some(below) => self.operand(&word.part(below), &Some(self.ground.own.clone())),
            // `:(glob)`, `:!not`
            None if word.text.starts_with(':') => self.whole_tree(&word.text),
            None => self.operand(word, at),
        }
    }

    /// Tells a branch, a commit and files apart as git does: by the files that exist.
    fn checkout(&self, call: &GitCall<'_>, at: &Cwd) -> Written {
        if let Some(dashes) = call.args.iter().position(|word| word.text == "--") {
            let paths = call.args.get(dashes + 1..).unwrap_or_default();
            if !paths.is_empty() {
                return Written::Paths(paths.to_vec());
            }
        }
        if call.has(&["-p", "--patch", "--pathspec-from-file"]) {
            return Written::Tree;
        }
        let names = ["-b", "-B", "--orphan", "--conflict"];
        let free = call.free(&names);
        let is_file = |word: &Word| {
            word.known
                && self
                    .below(at, &word.text)
                    .is_some_and(|path| path.symlink_metadata().is_ok())
        };
        match free.as_slice() {
            // A new branch at the current commit.
            [] => Written::Nothing,
            [first, ..] if is_file(first) => Written::Paths(free),
            [_] => Written::Tree,
            // A commit, and files of it.
            [_, rest @ ..] if !call.has(&["-b", "-B"]) => Written::Paths(rest.to_vec()),
            _ => Written::Tree,
        }
    }
}
