//! What worktrees do not guard by themselves: writes into other checkouts, the stash that all of them share, and git
//! commands that take something from somebody else's branch (F9).
//!
//! What must hold:
//! - reading is never refused, wherever it happens;
//! - a command line is judged by everything that stands in it: behind `&&`, `|`, `env`, `sh -c`, in brackets, after `cd`;
//! - what cannot be read, or only while it runs, counts as what it might do if it names git or another checkout, and as
//!   nothing otherwise.
//!
//! Each rule has a mode of its own. The files that a command line is seen to write are returned, for locks.
//!
//! Limitations: see [`super`]. Places that belong to no checkout of this repository (`/tmp`, other projects) are not
//! guarded here.

use std::path::{Path, PathBuf};

use super::ground::{Ground, Whose};
use super::shell::{self, Item, Simple, Word};
use super::verdict::{Mode, Objection, Verdict};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    pub outside_worktree: Mode,
    pub stash: Mode,
    pub destructive_git: Mode,
}

impl Rules {
    fn strongest(&self) -> Mode {
        self.outside_worktree.max(self.stash).max(self.destructive_git)
    }
}

/// Judges a write to `given`; returns the file that would be written.
pub fn write(
    ground: &Ground,
    rules: &Rules,
    given: &Path,
    cwd: &Path,
    verdict: &mut Verdict,
) -> Option<PathBuf> {
    let Some(path) = ground.physical(given, cwd) else {
        let what = "The path is longer than any file's, or has a NUL in it.";
        verdict.add(rules.strongest(), Objection::new(what, "Name the file plainly."));
        return None;
    };
    if let Some(objection) = foreign(ground, &path) {
        verdict.add(rules.outside_worktree, objection);
    }
    Some(path)
}

/// What is wrong with writing there, if anything is.
fn foreign(ground: &Ground, path: &Path) -> Option<Objection> {
    let shown = path.display();
    match ground.whose(path) {
        Whose::Own | Whose::Elsewhere => None,
        Whose::Other(tree) => {
            let below = path.strip_prefix(&tree.root).unwrap_or(Path::new(""));
            let what = format!("{shown} is in {}, not in your worktree.", tree.title());
            let instead = format!("Use {} instead.", ground.own.join(below).display());
            Some(Objection::new(what, instead))
        }
        Whose::Git => Some(Objection::new(
            format!("{shown} is in git's own folder, which all worktrees share."),
            "Use git commands in your worktree.",
        )),
        Whose::State => Some(Objection::new(
            format!("{shown} is jit's own record."),
            "Use jit commands (jit --help).",
        )),
    }
}

/// Judges a command line; returns the files it is seen to write.
pub fn command(
    ground: &Ground,
    rules: &Rules,
    text: &str,
    cwd: &Path,
    verdict: &mut Verdict,
) -> Vec<PathBuf> {
    let mut judge = Judge {
        ground,
        rules,
        verdict,
        writes: Vec::new(),
    };
    judge.line(text, Some(cwd.to_owned()), 0);
    let mut writes = judge.writes;
    writes.sort();
    writes.dedup();
    writes
}

struct Judge<'a> {
    ground: &'a Ground,
    rules: &'a Rules,
    verdict: &'a mut Verdict,
    writes: Vec<PathBuf>,
}

/// Where a command runs; `None` where the text does not tell.
type Cwd = Option<PathBuf>;

const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh"];
/// Programs that run the program named behind their options.
const WRAPPERS: &[&str] = &[
    "env",
    "command",
    "exec",
    "builtin",
    "nohup",
    "sudo",
    "doas",
    "nice",
    "ionice",
    "timeout",
    "stdbuf",
    "setsid",
    "time",
    "xargs",
    "watch",
    "caffeinate",
];
const KEYWORDS: &[&str] = &[
    "if", "then", "else", "elif", "do", "while", "until", "!", "{", "}", "coproc", "function",
];
/// Begin something that runs nothing by itself, or end something.
const IDLE: &[&str] = &["for", "case", "select", "fi", "done", "esac", "in", "[[", "["];
const READERS: &[&str] = &[
    "cat",
    "less",
    "more",
    "head",
    "tail",
    "grep",
    "egrep",
    "fgrep",
    "rg",
    "ag",
    "ls",
    "ll",
    "tree",
    "stat",
    "wc",
    "diff",
    "cmp",
    "comm",
    "file",
    "du",
    "df",
    "md5sum",
    "sha1sum",
    "sha256sum",
    "cksum",
    "uniq",
    "cut",
    "tr",
    "nl",
    "od",
    "xxd",
    "hexdump",
    "strings",
    "jq",
    "yq",
    "column",
    "paste",
    "fold",
    "echo",
    "printf",
    "test",
    "true",
    "false",
    ":",
    "pwd",
    "which",
    "whereis",
    "type",
    "realpath",
    "readlink",
    "dirname",
    "basename",
    "date",
    "id",
    "whoami",
    "hostname",
    "uname",
    "printenv",
    "export",
    "set",
    "unset",
    "local",
    "declare",
    "read",
    "return",
    "exit",
    "sleep",
    "wait",
    "seq",
    "ps",
    "pgrep",
    "jit",
    "cd",
    "pushd",
    "popd",
    "break",
    "continue",
    "shift",
    "trap",
    "bat",
    "fd",
];
/// Write every file they are given.
const WRITERS: &[&str] = &[
    "touch", "rm", "rmdir", "mkdir", "tee", "truncate", "chmod", "chown", "chgrp", "unlink", "shred",
    "mkfifo", "mv",
];
/// Write the last file they are given.
const COPIERS: &[&str] = &["cp", "ln", "install", "rsync", "scp"];
const GIT_READS: &[&str] = &[
    "status",
    "log",
    "diff",
    "show",
    "blame",
    "annotate",
    "grep",
    "ls-files",
    "ls-tree",
    "ls-remote",
    "rev-parse",
    "rev-list",
    "cat-file",
    "describe",
    "shortlog",
    "for-each-ref",
    "show-ref",
    "name-rev",
    "merge-base",
    "merge-tree",
    "version",
    "help",
    "whatchanged",
    "count-objects",
    "var",
    "check-ignore",
    "check-attr",
    "diff-tree",
    "diff-index",
    "diff-files",
    "range-diff",
    "cherry",
    "show-branch",
    "fetch",
    "archive",
    "fsck",
];

impl Judge<'_> {
    fn line(&mut self, text: &str, cwd: Cwd, depth: usize) {
        let items = match shell::read(text) {
            Ok(items) if depth < 8 => items,
            Ok(_) => return self.opaque(text),
            Err(why) => {
                let what = format!("jit cannot read this command line: {why}.");
                let instead = "Write it more plainly, or as several commands.";
                return self
                    .verdict
                    .add(self.rules.strongest(), Objection::new(what, instead));
            }
        };
        let mut cwds = vec![cwd];
        for item in items {
            match item {
                Item::Enter => cwds.push(cwds.last().cloned().flatten()),
                Item::Leave => {
                    if cwds.len() > 1 {
                        cwds.pop();
                    }
                }
                Item::Run(simple) => {
                    if let Some(cwd) = cwds.last_mut() {
                        self.simple(&simple, cwd, depth);
                    }
                }
            }
        }
    }

    fn simple(&mut self, simple: &Simple, cwd: &mut Cwd, depth: usize) {
        for target in &simple.writes {
            self.operand(target, cwd);
        }
        let mut words = simple.words.as_slice();
        // Where git is told to look by its variables.
        let mut git_at = cwd.clone();
        while let Some((first, rest)) = words.split_first() {
            let text = first.text.as_str();
            if let Some((name, value)) = assignment(text) {
                match name {
                    "GIT_DIR" | "GIT_WORK_TREE" if first.known => git_at = self.below(cwd, value),
                    "GIT_DIR" | "GIT_WORK_TREE" => git_at = None,
                    _ => {}
                }
            } else if !first.known {
                return self.opaque(&joined(words));
            } else if IDLE.contains(&text) {
                return;
            } else if WRAPPERS.contains(&base(text)) {
                words = behind_options(rest);
                continue;
            } else if !KEYWORDS.contains(&text) {
                break;
            }
            words = rest;
        }
        let Some((program, args)) = words.split_first() else {
            return;
        };
        match base(&program.text) {
            "cd" | "pushd" => *cwd = self.moved(args, cwd),
            "git" => self.git(args, git_at, &joined(words), depth),
            "eval" => match args.iter().all(|word| word.known) {
                true => self.line(&joined(args), cwd.clone(), depth + 1),
                false => self.opaque(&joined(words)),
            },
            shell if SHELLS.contains(&shell) => self.shell(args, simple.fed, cwd, &joined(words), depth),
            "apply_patch" => {}
            name => self.program(name, args, cwd),
        }
    }

    fn shell(&mut self, args: &[Word], fed: bool, cwd: &Cwd, whole: &str, depth: usize) {
        let short = |text: &str| text.starts_with('-') && !text.starts_with("--");
        let script = args
            .iter()
            .position(|word| short(&word.text) && word.text.contains('c'))
            .and_then(|at| args.get(at + 1..))
            .and_then(|rest| rest.iter().find(|word| !word.text.starts_with('-')));
        match script {
            Some(script) if script.known => self.line(&script.text, cwd.clone(), depth + 1),
            Some(_) => self.opaque(whole),
            // It reads commands from a pipe or a here-document.
            None if fed => self.opaque(whole),
            None => self.program("a script", args, cwd),
        }
    }

    fn moved(&self, args: &[Word], cwd: &Cwd) -> Cwd {
        match args
            .iter()
            .find(|word| !word.text.starts_with("--") && word.text != "-P")
        {
            None => self.ground.home.clone(),
            Some(word) if word.known && word.text != "-" => self.below(cwd, &word.text),
            Some(_) => None,
        }
    }

    fn below(&self, cwd: &Cwd, given: &str) -> Cwd {
        let given = Path::new(given);
        match cwd {
            Some(cwd) => self.ground.physical(given, cwd),
            None if given.is_absolute() => self.ground.physical(given, Path::new("/")),
            None => None,
        }
    }

    /// A file that is written.
    fn operand(&mut self, word: &Word, cwd: &Cwd) {
        if !word.known {
            return self.named(word, cwd);
        }
        // What a pattern matches lies below the folder in front of it.
        let text = match word.text.find(['*', '?', '[']) {
            Some(at) => word
                .text
                .get(..at)
                .unwrap_or_default()
                .rsplit_once('/')
                .map_or(".", |(to, _)| to),
            None => &word.text,
        };
        if text.starts_with("/dev/") || text.is_empty() {
            return;
        }
        let Some(path) = self.below(cwd, text) else {
            return;
        };
        if let Some(objection) = foreign(self.ground, &path) {
            self.verdict.add(self.rules.outside_worktree, objection);
        }
        self.writes.push(path);
    }

    /// A word that a program may take for a file, and may write.
    fn named(&mut self, word: &Word, cwd: &Cwd) {
        let text = match word.text.split_once('=') {
            Some((option, value)) if option.starts_with('-') => value,
            _ => &word.text,
        };
        let place = match word.known {
            true => self.below(cwd, text).and_then(|path| foreign(self.ground, &path)),
            false => self.mentioned(text),
        };
        if let Some(objection) = place {
            let what = format!(
                "{} jit cannot tell that this command only reads it.",
                objection.what
            );
            self.verdict.add(
                self.rules.outside_worktree,
                Objection::new(what, objection.instead),
            );
        }
    }

    /// Another checkout that this text has in it.
    fn mentioned(&self, text: &str) -> Option<Objection> {
        let mut others = self.ground.others.iter();
        // Of nested checkouts the inner one may be our own.
        let without_own = text.replace(&*self.ground.own.to_string_lossy(), "");
        let tree = others.find(|tree| without_own.contains(&*tree.root.to_string_lossy()))?;
        let what = format!("This names {}.", tree.title());
        let instead = format!("Work in your own worktree, {}.", self.ground.own.display());
        Some(Objection::new(what, instead))
    }

    fn program(&mut self, name: &str, args: &[Word], cwd: &Cwd) {
        let is = |list: &[&str]| list.contains(&name);
        let files = |word: &&Word| !word.text.starts_with('-');
        let in_place = matches!(name, "sed" | "perl" | "ruby")
            && args.iter().any(|word| {
                word.text.starts_with("-i") || word.text.starts_with("--in-place") || word.text == "-pi"
            });
        let finds = name == "find"
            && !args.iter().any(|word| {
                matches!(
                    word.text.as_str(),
                    "-delete" | "-exec" | "-execdir" | "-ok" | "-fprint"
                )
            });
        let reads = is(READERS) || finds || (matches!(name, "sed" | "awk" | "gawk" | "sort") && !in_place);
        if reads {
            return;
        }
        if let Some(path) = cwd
            && let Some(objection) = foreign(self.ground, path)
        {
            let what = format!("{name} would run there: {}", objection.what);
            self.verdict.add(
                self.rules.outside_worktree,
                Objection::new(what, objection.instead),
            );
        }
        if is(WRITERS) {
            let mode = matches!(name, "chmod" | "chown" | "chgrp");
            for word in args.iter().filter(files).skip(usize::from(mode)) {
                self.operand(word, cwd);
            }
        } else if is(COPIERS) {
            if let Some(word) = args.iter().rfind(|word| files(word)) {
                self.operand(word, cwd);
            }
        } else if name == "dd" {
            for word in args {
                if let Some(to) = word.text.strip_prefix("of=") {
                    let (text, known) = (to.to_owned(), word.known);
                    self.operand(&Word { text, known }, cwd);
                }
            }
        } else if in_place {
            // The script comes first, unless it was given by an option.
            let scripted = args
                .iter()
                .any(|word| matches!(word.text.as_str(), "-e" | "-f" | "-pe" | "-ne"));
            for word in args
                .iter()
                .filter(files)
                .skip(1)
                .chain(args.iter().filter(files).take(usize::from(scripted)))
            {
                self.operand(word, cwd);
            }
        } else {
            for word in args {
                self.named(word, cwd);
            }
        }
    }

    /// Commands that only show when they run.
    fn opaque(&mut self, text: &str) {
        let has = |word: &str| {
            let plain = |c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_';
            text.split(plain).any(|part| part == word)
        };
        let instead = "Write the command out, without eval, variables or scripts around it.";
        let unclear = |what: &str| {
            Objection::new(
                format!("jit cannot see what this runs, and it names {what}."),
                instead,
            )
        };
        if has("stash") {
            self.verdict.add(self.rules.stash, unclear("the stash"));
        }
        let risky = [
            "branch",
            "push",
            "update-ref",
            "worktree",
            "filter-branch",
            "filter-repo",
            "reflog",
        ];
        if has("git") && risky.iter().any(|word| has(word)) {
            self.verdict.add(
                self.rules.destructive_git,
                unclear("a git command that can reach other branches"),
            );
        }
        if let Some(objection) = self.mentioned(text) {
            self.verdict.add(self.rules.outside_worktree, objection);
        }
    }
}

/// What git is asked to do.
struct GitCall<'a> {
    name: &'a str,
    args: &'a [Word],
}

impl GitCall<'_> {
    fn has(&self, flags: &[&str]) -> bool {
        let bundled = |text: &str, letter: &str| {
            text.starts_with('-')
                && !text.starts_with("--")
                && letter.len() == 2
                && text.contains(&letter[1..])
        };
        self.args.iter().any(|word| {
            let name = word.text.split('=').next().unwrap_or_default();
            flags
                .iter()
                .any(|flag| *flag == name || bundled(&word.text, flag))
        })
    }

    fn operands(&self) -> Vec<&Word> {
        self.args
            .iter()
            .filter(|word| !word.text.starts_with('-'))
            .collect()
    }

    /// The word behind an option.
    fn value_of(&self, flags: &[&str]) -> Option<&Word> {
        let at = self
            .args
            .iter()
            .position(|word| flags.contains(&word.text.as_str()))?;
        self.args.get(at + 1)
    }
}

impl Judge<'_> {
    fn git(&mut self, args: &[Word], mut at: Cwd, whole: &str, _depth: usize) {
        let mut rest = args;
        // Options of git itself, before the name of the command.
        let call = loop {
            let Some((first, behind)) = rest.split_first() else {
                return;
            };
            let (option, value) = match first.text.split_once('=') {
                Some((option, value)) if option.starts_with("--") => (option, Some(value)),
                _ => (first.text.as_str(), None),
            };
            if !first.known && !first.text.starts_with('-') {
                return self.opaque(whole);
            }
            match option {
                "-C" | "--git-dir" | "--work-tree" => {
                    let (value, known, next) = match (value, behind.split_first()) {
                        (Some(value), _) => (value, first.known, behind),
                        (None, Some((word, behind))) => (word.text.as_str(), word.known, behind),
                        (None, None) => return,
                    };
                    at = match known {
                        true => self.below(&at, value),
                        false => match self.mentioned(value) {
                            Some(_) => return self.opaque(whole),
                            None => None,
                        },
                    };
                    rest = next;
                }
                "-c" | "--config-env" => {
                    let setting = behind.first().map_or("", |word| word.text.as_str());
                    if setting.starts_with("alias.")
                        || behind
                            .first()
                            .is_some_and(|word| !word.known && setting.starts_with('$'))
                    {
                        return self.opaque(whole);
                    }
                    rest = behind.get(1..).unwrap_or_default();
                }
                "--namespace" | "--attr-source" | "--super-prefix" if value.is_none() => {
                    rest = behind.get(1..).unwrap_or_default();
                }
                _ if option.starts_with('-') => rest = behind,
                _ => {
                    break GitCall {
                        name: &first.text,
                        args: behind,
                    };
                }
            }
        };
        self.stash(&call);
        self.destructive(&call, &at);
        if !reads_only(&call)
            && let Some(path) = &at
            && let Some(objection) = foreign(self.ground, path)
        {
            let what = format!("git {} would run there: {}", call.name, objection.what);
            self.verdict.add(
                self.rules.outside_worktree,
                Objection::new(what, objection.instead),
            );
        }
        if matches!(call.name, "rm" | "mv") {
            for word in call.operands() {
                self.operand(word, &at);
            }
        }
    }

    fn stash(&mut self, call: &GitCall<'_>) {
        let sub = call.args.first().map_or("push", |word| word.text.as_str());
        if call.name != "stash" || matches!(sub, "list" | "show" | "create") {
            return;
        }
        self.verdict.add(
            self.rules.stash,
            Objection::new(
                format!("git stash {sub} works on a stash that all worktrees share: somebody else's entry may be on top."),
                "Commit the work on your own branch instead (git commit -m wip); git reset --soft HEAD~1 brings it back.",
            ),
        );
    }

    fn destructive(&mut self, call: &GitCall<'_>, at: &Cwd) {
        let operands = call.operands();
        let mut against = |what: String, instead: &str| {
            self.verdict
                .add(self.rules.destructive_git, Objection::new(what, instead));
        };
        let ground = self.ground;
        let taken = |word: &Word| {
            let name = word
                .text
                .strip_prefix("refs/heads/")
                .unwrap_or(&word.text)
                .to_owned();
            match word.known {
                true => ground.user_of(&name).map(|why| (name, why)),
                false => Some((name, "its name only shows when the command runs".to_owned())),
            }
        };
        const LEAVE: &str = "Leave that branch to whoever works on it.";
        match call.name {
            "branch"
                if call.has(&[
                    "-d", "-D", "--delete", "-m", "-M", "--move", "-C", "-f", "--force",
                ]) =>
            {
                // A copy or a forced branch writes its last or first name only.
                let written: Vec<&&Word> = match () {
                    () if call.has(&["-C"]) => operands.last().into_iter().collect(),
                    () if call.has(&["-f", "--force"])
                        && !call.has(&["-d", "-D", "--delete", "-m", "-M", "--move"]) =>
                    {
                        operands.first().into_iter().collect()
                    }
                    () => operands.iter().collect(),
                };
                for (name, why) in written.into_iter().filter_map(|word| taken(word)) {
                    against(
                        format!("git branch would delete, move or rename {name}: {why}."),
                        LEAVE,
                    );
                }
            }
            "checkout" | "switch" | "worktree" => {
                let name = call.value_of(&["-B", "-C", "--force-create"]);
                if let Some((name, why)) = name.and_then(taken) {
                    against(format!("git {} would move {name}: {why}.", call.name), LEAVE);
                }
                let sub = operands.first().map_or("", |word| word.text.as_str());
                if call.name == "worktree" && matches!(sub, "remove" | "move" | "unlock" | "repair") {
                    for word in operands.iter().skip(1) {
                        let path = self.below(at, &word.text);
                        let Some(Whose::Other(tree)) = path.as_ref().map(|path| ground.whose(path)) else {
                            continue;
                        };
                        self.verdict.add(
                            self.rules.destructive_git,
                            Objection::new(
                                format!("git worktree {sub} would take away {}.", tree.title()),
                                "Leave it to whoever works there; jit worktree list shows who.",
                            ),
                        );
                    }
                }
            }
            "push" => {
                if call.has(&["--mirror", "--prune"]) {
                    against(
                        "git push --mirror and --prune delete everybody's branches there.".to_owned(),
                        "Push your own branch by its name.",
                    );
                }
                let forced = call.has(&["-f", "--force", "--force-with-lease", "--force-if-includes"]);
                let deletes = call.has(&["-d", "--delete"]);
                for word in operands.iter().skip(1) {
                    let (plus, spec) = match word.text.strip_prefix('+') {
                        Some(spec) => (true, spec),
                        None => (false, word.text.as_str()),
                    };
                    let (from, to) = spec.split_once(':').unwrap_or((spec, spec));
                    if !(forced || deletes || plus || from.is_empty()) {
                        continue;
                    }
                    let (text, known) = (to.to_owned(), word.known);
                    if let Some((name, why)) = taken(&Word { text, known }) {
                        against(
                            format!("git push would overwrite or delete {name}: {why}."),
                            LEAVE,
                        );
                    }
                }
                if (forced || deletes) && call.has(&["--all", "--branches"]) {
                    against(
                        "git push --all by force overwrites everybody's branches.".to_owned(),
                        LEAVE,
                    );
                }
            }
            "update-ref" => {
                if call.has(&["--stdin"]) {
                    against(
                        "jit cannot see which refs git update-ref --stdin changes.".to_owned(),
                        "Name the ref on the command line.",
                    );
                }
                if let Some(word) = operands.first() {
                    if word.text.starts_with("refs/jit/") || word.text == "refs/stash" {
                        against(
                            format!("{} is not yours to change.", word.text),
                            "Leave it alone.",
                        );
                    } else if let Some((name, why)) = taken(word) {
                        against(format!("git update-ref would change {name}: {why}."), LEAVE);
                    }
                }
            }
            "fetch" => {
                for word in operands.iter().skip(1) {
                    let spec = word.text.trim_start_matches('+');
                    let forced = spec.len() < word.text.len()
                        || call.has(&["-f", "--force", "-u", "--update-head-ok"]);
                    let Some((_, to)) = spec.split_once(':').filter(|_| forced) else {
                        continue;
                    };
                    let (text, known) = (to.to_owned(), word.known);
                    if let Some((name, why)) = taken(&Word { text, known }) {
                        against(format!("git fetch would overwrite {name}: {why}."), LEAVE);
                    }
                }
            }
            "filter-branch" | "filter-repo" => against(
                format!("git {} rewrites branches that others work on.", call.name),
                "Rebase your own branch instead.",
            ),
            "reflog"
                if operands
                    .first()
                    .is_some_and(|word| matches!(word.text.as_str(), "expire" | "delete")) =>
            {
                against(
                    "git reflog expire and delete take away what others could recover.".to_owned(),
                    "Leave the reflog alone.",
                );
            }
            "prune" => against(
                "git prune deletes objects that others may need.".to_owned(),
                "Leave it to git gc.",
            ),
            "gc" if call.has(&["--prune"]) => against(
                "git gc --prune deletes objects that others may need.".to_owned(),
                "Run git gc without --prune.",
            ),
            _ => {}
        }
    }
}

fn reads_only(call: &GitCall<'_>) -> bool {
    let first = call.args.first().map_or("", |word| word.text.as_str());
    match call.name {
        "stash" => matches!(first, "list" | "show"),
        "worktree" => first == "list",
        "remote" => matches!(first, "" | "-v" | "show" | "get-url"),
        "reflog" => matches!(first, "" | "show" | "exists"),
        "config" => {
            call.has(&["--get", "--get-all", "--list", "-l", "--get-regexp"])
                || matches!(first, "get" | "list")
        }
        "branch" | "tag" => call.args.iter().all(|word| {
            matches!(
                word.text.as_str(),
                "-a" | "-r" | "-v" | "-vv" | "-l" | "--list" | "--show-current" | "--all"
            )
        }),
        name => GIT_READS.contains(&name),
    }
}

fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn joined(words: &[Word]) -> String {
    let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    words.join(" ")
}

/// `NAME=value`.
fn assignment(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once('=')?;
    let mut letters = name.bytes();
    let begins = letters
        .next()
        .is_some_and(|b| b == b'_' || b.is_ascii_alphabetic());
    (begins && letters.all(|b| b == b'_' || b.is_ascii_alphanumeric())).then_some((name, value))
}

/// The words behind a wrapper's options. Values of options are told by being no program: numbers, durations, signals.
fn behind_options(words: &[Word]) -> &[Word] {
    let mut rest = words;
    while let Some((first, behind)) = rest.split_first() {
        let text = first.text.as_str();
        let takes_a_word = matches!(
            text,
            "-u" | "-C" | "-g" | "-I" | "-s" | "-k" | "-L" | "-P" | "-d" | "-a" | "-E"
        );
        let number = text.bytes().next().is_some_and(|b| b.is_ascii_digit());
        if takes_a_word {
            rest = behind.get(1..).unwrap_or_default();
        } else if text.starts_with('-') || number {
            rest = behind;
        } else {
            break;
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::super::ground::tests::land;
    use super::*;

    const STRICT: Rules = Rules {
        outside_worktree: Mode::Deny,
        stash: Mode::Deny,
        destructive_git: Mode::Deny,
    };

    fn judged(ground: &Ground, rules: &Rules, text: &str) -> (Verdict, Vec<PathBuf>) {
        let root = ground
            .own
            .ancestors()
            .nth(3)
            .expect("a folder")
            .to_string_lossy()
            .into_owned();
        let mut verdict = Verdict::default();
        let text = text.replace('@', &root);
        let writes = command(ground, rules, &text, &ground.own, &mut verdict);
        (verdict, writes)
    }

    #[test]
    fn f9_the_shared_stash_is_refused_wherever_it_stands() {
        let (_folder, ground) = land();
        for text in [
            "git stash",
            "git stash push -m x",
            "git  stash\tpop",
            "true && git stash",
            "true; git stash -u",
            "ls | git stash",
            "(git stash)",
            "echo $(git stash)",
            "echo \"`git stash`\"",
            "env X=1 git stash",
            "X=1 Y=2 git stash",
            "git -C . stash",
            "git -c a.b=c --no-pager stash drop",
            "sh -c 'git stash'",
            "bash -lc \"cd . && git stash\"",
            "eval git stash",
            "/usr/bin/git stash",
            "sudo -u me git stash",
            "timeout 5 git stash",
            "nohup nice -n 5 git stash &",
            "if true; then git stash; fi",
            "for f in a b; do git stash; done",
            "f() { git stash; }; f",
            "xargs git stash < x",
            "git \\\n stash",
            "g'i't st\"as\"h",
            "eval \"$X git stash\"",
            "cat <<E | sh\ngit stash\nE\necho git stash | sh -s $X stash",
            "cat <<E\n$(git stash)\nE",
            "git -c alias.s=stash s",
        ] {
            let (verdict, _) = judged(&ground, &STRICT, text);
            assert!(verdict.is_denied(), "{text}: {verdict:?}");
            let said = verdict.text().expect("a reason");
            assert!(said.contains("stash"), "{text}: {said}");
        }
    }

    #[test]
    fn f9_ordinary_work_passes() {
        let (_folder, ground) = land();
        for text in [
            "git stash list",
            "git stash show -p",
            "echo git stash",
            "echo 'a; git stash'",
            "git commit -m 'drop the git stash'",
            "git commit -m \"$(cat <<'EOF'\nDon't git stash; it's shared\nEOF\n)\"",
            "# git stash",
            "git log --grep stash",
            "cat stash.txt && grep -rn 'git stash' .",
            "cargo test && git add -A && git commit -q -m x",
            "git push origin own",
            "git push --force origin own",
            "git push --force-with-lease",
            "git branch -D mine",
            "git branch -m better",
            "git checkout -B mine",
            "git reset --hard HEAD~1",
            "git rebase -i main",
            "git merge main",
            "git fetch origin main:refs/remotes/origin/main",
            "cat @/main/README.md",
            "git -C @/main log --oneline | head",
            "git -C @/main status && git diff main",
            "cd @/main && ls && git log",
            "(cd @/main && ls); touch a",
            "cp @/main/.env .env",
            "diff -r @/main/src src",
            "echo x > /dev/null 2>&1",
            "echo x > /tmp/notes.txt",
            "for f in *.rs; do echo \"$f\"; done",
            "python3 -c 'print(1)'",
            "make -j$(nproc)",
            "",
        ] {
            let (verdict, _) = judged(&ground, &STRICT, text);
            assert_eq!(verdict.text(), None, "{text}");
        }
    }

    #[test]
    fn f9_writes_into_other_checkouts_are_refused_with_the_place_to_write_instead() {
        let (_folder, ground) = land();
        for text in [
            "echo x > @/main/a.txt",
            "echo x >> ../../a.txt",
            "cat <<'E' > @/other/a.txt\nx\nE",
            "tee @/main/a.txt",
            "rm -rf @/other/src",
            "cp a.txt @/main/",
            "mv @/main/a.txt .",
            "sed -i s/a/b/ @/main/a.txt",
            "touch @/main/trees/x",
            "cd @/main && touch a.txt",
            "cd @/main; make",
            "pushd @/other && echo x > a",
            "git -C @/main commit -m x",
            "git --git-dir=@/main/.git --work-tree=@/main add a",
            "GIT_WORK_TREE=@/main git checkout .",
            "cd @/main && git checkout -b x",
            "python3 fix.py @/main/a.txt",
            "cargo build --manifest-path=@/main/Cargo.toml",
            "sh -c 'echo x > @/main/a'",
            "dd if=/dev/zero of=@/main/a",
            "echo x > @/main/$NAME",
            "$TOOL @/main/a",
            "rm @/main/*.txt",
            "echo x > @/main/.git/config",
            "find @/main -name x -delete",
        ] {
            let (verdict, _) = judged(&ground, &STRICT, text);
            assert!(verdict.is_denied(), "{text}");
        }
        let (verdict, _) = judged(&ground, &STRICT, "echo x > @/main/sub/a.txt");
        let said = verdict.text().expect("a reason");
        let instead = ground.own.join("sub/a.txt");
        assert!(
            said.contains("the main checkout") && said.contains(&*instead.to_string_lossy()),
            "{said}"
        );
    }

    #[test]
    fn f9_branches_that_others_work_on_are_left_alone() {
        let (_folder, mut ground) = land();
        ground.held.push(("held".to_owned(), "agent:bob".to_owned()));
        for text in [
            "git branch -D other",
            "git branch -d mine other",
            "git branch -M other mine",
            "git branch -f main HEAD",
            "git branch --delete --force held",
            "git checkout -B main origin/main",
            "git switch -C held",
            "git worktree add -B other ../x",
            "git worktree remove --force @/other",
            "git push --force origin main",
            "git push -f origin HEAD:held",
            "git push origin +HEAD:main",
            "git push origin --delete other",
            "git push origin :refs/heads/other",
            "git push --mirror origin",
            "git push --force origin $BRANCH",
            "git update-ref refs/heads/main HEAD",
            "git update-ref -d refs/heads/other",
            "git update-ref --stdin",
            "git update-ref refs/jit/rescue/x HEAD",
            "git filter-branch --all",
            "git reflog expire --expire=now --all",
            "git gc --prune=now",
            "git fetch . +own:main",
            "eval \"git branch -D $X\"",
        ] {
            let (verdict, _) = judged(&ground, &STRICT, text);
            assert!(verdict.is_denied(), "{text}");
        }
        let (verdict, _) = judged(&ground, &STRICT, "git branch -D held");
        assert!(
            verdict
                .text()
                .expect("a reason")
                .contains("agent:bob works on it")
        );
    }

    #[test]
    fn f9_each_rule_has_a_mode_of_its_own() {
        let (_folder, ground) = land();
        let rules = Rules {
            outside_worktree: Mode::Off,
            stash: Mode::Warn,
            destructive_git: Mode::Deny,
        };
        let (verdict, _) = judged(&ground, &rules, "git stash; echo x > @/main/a");
        assert!(!verdict.is_denied());
        assert!(verdict.text().is_some_and(|text| !text.contains("checkout")));
        let (verdict, _) = judged(&ground, &rules, "git stash; git branch -D main");
        assert!(verdict.is_denied());
        let off = Rules {
            stash: Mode::Off,
            destructive_git: Mode::Off,
            ..rules
        };
        let (verdict, _) = judged(&ground, &off, "git stash; git branch -D main; echo 'open");
        assert_eq!(verdict, Verdict::default());
        let (verdict, _) = judged(&ground, &STRICT, "echo 'open");
        assert!(verdict.is_denied());
    }

    #[test]
    fn f9_the_files_a_command_line_writes_are_seen() {
        let (_folder, ground) = land();
        let text = "echo x > a.txt; cd sub && tee b.txt c.txt; sed -i s/x/y/ d.txt; (rm e.txt); cat f.txt; cp g.txt h.txt";
        let (_, writes) = judged(&ground, &STRICT, text);
        let below: Vec<_> = writes
            .iter()
            .filter_map(|path| path.strip_prefix(&ground.own).ok())
            .collect();
        let expected = [
            "a.txt",
            "sub/b.txt",
            "sub/c.txt",
            "sub/d.txt",
            "sub/e.txt",
            "sub/h.txt",
        ];
        assert_eq!(below, expected.map(Path::new));
    }
}
