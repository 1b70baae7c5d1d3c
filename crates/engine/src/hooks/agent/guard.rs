//! Guards the things that worktrees do not protect: other checkouts, the stash that all worktrees share, branches of
//! other agents, and the files that restrain agents (F9, L5).
//!
//! What must hold:
//! - The guard judges literal text: git commands, the paths that they write, redirections, and the files that jit's own
//!   commands write. It does not guess what other programs write.
//! - Git and jit count wherever they stand: after `&&`, `|`, `env`, `xargs`, in brackets, after `cd`, in `sh -c`, in
//!   `eval`, in the here-document of a shell.
//! - A part of a git command that is not literal is judged by its worst case.
//! - The work has fixed bounds: [`shell::LONGEST`] bytes, [`shell::MOST_WORDS`] words, `DEEPEST` command lines within
//!   each other, `MOST_FILES` written files. A command line beyond them is an objection of [`Rules::most`].
//! - A redirection whose target is not literal, and a git command that changes files it does not name, count as a write
//!   of the whole worktree: [`Seen::whole_tree`].
//!
//! Each rule has its own mode. The guard returns the files that a command line visibly writes, so that the caller can
//! lock them. A write of the whole worktree acquires no lock. The caller refuses it while another agent holds a lock
//! in that worktree.
//!
//! `git` reads git's commands, `git_files` knows the files that they write, `branches` the refs that they change, `config`
//! the settings; `jit` judges jit's own commands, `options` reads arguments.
//!
//! Limitations: see [`super`]. Variables are not expanded. Places outside every checkout of this repository (`/tmp`,
//! other projects) are not guarded. Words of `echo` and `printf` are text, even if a pipe passes them to a shell whose
//! name is not in `SHELLS`.

mod branches;
mod config;
mod git;
mod git_files;
mod jit;
mod options;

use std::path::{Path, PathBuf};

use jit_agents::hooks::decision::{HookDecision, Objection, RuleMode};
use jit_agents::hooks::shell::{self, Item, Simple, Word};

use super::ground::{Ground, Whose};

/// Maximum number of command lines within each other: `sh -c "sh -c …"`.
const DEEPEST: usize = 8;
/// Maximum number of files that one command line writes.
const MOST_FILES: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// The strictest mode that the configuration allows. It holds for what no other rule is about.
    pub most: RuleMode,
    pub outside_worktree: RuleMode,
    pub stash: RuleMode,
    pub destructive_git: RuleMode,
}

/// Judges a write to `given`; returns the file that would be written.
pub fn write(
    ground: &Ground,
    rules: &Rules,
    given: &Path,
    cwd: &Path,
    verdict: &mut HookDecision,
) -> Option<PathBuf> {
    let Some(path) = ground.physical(given, cwd) else {
        let what = "The path is longer than any file's, or has a NUL in it.";
        verdict.add(rules.most, Objection::new(what, "Name the file plainly."));
        return None;
    };
    if let Some((mode, objection)) = foreign(ground, rules, &path) {
        verdict.add(mode, objection);
    }
    Some(path)
}

/// Returns the objection against writing to this path, if there is one.
fn foreign(ground: &Ground, rules: &Rules, path: &Path) -> Option<(RuleMode, Objection)> {
    let shown = path.display();
    let (mode, what, instead) = match ground.whose(path) {
        Whose::Own | Whose::Elsewhere => return None,
        Whose::Other(tree) => {
            let below = path.strip_prefix(&tree.root).unwrap_or(Path::new(""));
            let instead = format!("Use {} instead.", ground.own.join(below).display());
            let what = format!("{shown} is in {}, not in your worktree.", tree.title());
            (rules.outside_worktree, what, instead)
        }
        Whose::OwnGit => (
            rules.outside_worktree,
            format!("{shown} is in git's own folder, which only git writes."),
            "Use git commands.".to_owned(),
        ),
        Whose::Git => (
            rules.outside_worktree,
            format!("{shown} is in git's own folder, which all worktrees share."),
            "Use git commands in your worktree.".to_owned(),
        ),
        Whose::State => (
            rules.outside_worktree,
            format!("{shown} is jit's own record."),
            "Use jit commands (jit --help).".to_owned(),
        ),
        Whose::Restraint => (
            rules.most,
            format!("{shown} decides what agents may do."),
            "Ask a person to change it.".to_owned(),
        ),
    };
    Some((mode, Objection::new(what, instead)))
}

/// The files that a command line visibly writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    pub writes: Vec<PathBuf>,
    /// The part of the command line that may write any file of the worktree, quoted.
    pub whole_tree: Option<String>,
}

/// Judges a command line; returns everything it visibly writes.
pub fn judge(ground: &Ground, rules: &Rules, text: &str, cwd: &Path, verdict: &mut HookDecision) -> Seen {
    let mut judge = Judge {
        ground,
        rules,
        verdict,
        seen: Seen::default(),
        words: 0,
        ended: false,
    };
    let scope = Scope {
        cwd: Some(cwd.to_owned()),
        agent: None,
        git_dir: None,
        work_tree: None,
        setting: None,
    };
    judge.line(text, &scope, 0);
    let mut seen = judge.seen;
    seen.writes.sort();
    seen.writes.dedup();
    seen
}

struct Judge<'a> {
    ground: &'a Ground,
    rules: &'a Rules,
    verdict: &'a mut HookDecision,
    seen: Seen,
    /// The number of words that were judged, over all command lines within each other.
    words: usize,
    /// A bound was exceeded. Nothing more is judged.
    ended: bool,
}

/// The state that a command starts with.
#[derive(Debug, Clone)]
struct Scope {
    cwd: Cwd,
    /// The value that an earlier command assigned to [`AGENT`].
    agent: Option<Word>,
    /// The values of `GIT_DIR` and `GIT_WORK_TREE`.
    git_dir: Option<Word>,
    work_tree: Option<Word>,
    /// The first assignment that gives git a setting which is not harmless.
    setting: Option<Word>,
}

impl Scope {
    /// Notes an assignment such as `GIT_DIR=x`.
    fn assign(&mut self, word: &Word) {
        let Some((name, value)) = options::assignment(&word.text) else {
            return;
        };
        match name {
            AGENT => self.agent = Some(word.part(value)),
            "GIT_DIR" => self.git_dir = Some(word.part(value)),
            "GIT_WORK_TREE" => self.work_tree = Some(word.part(value)),
            _ if !config::is_harmless_variable(name, word.part(value)) => {
                self.setting.get_or_insert_with(|| word.clone());
            }
            _ => {}
        }
    }
}

/// The working folder of a command; `None` if the text does not show it.
type Cwd = Option<PathBuf>;

/// The variable that names the calling agent to jit.
const AGENT: &str = "JIT_AGENT_ID";
/// Programs that run the command line after `-c`, or their input.
const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "su"];
/// Words before a command.
const KEYWORDS: &[&str] = &[
    "if", "then", "else", "elif", "do", "while", "until", "!", "{", "}", "coproc", "function",
];
/// Commands that run none of their words.
const TEXT: &[&str] = &["echo", "printf", "for", "select", "case", "[[", "["];

impl Judge<'_> {
    fn line(&mut self, text: &str, scope: &Scope, depth: usize) {
        let items = match shell::read(text) {
            Ok(items) if depth < DEEPEST => items,
            Ok(_) => return self.beyond("it is nested too deeply"),
            Err(why) => return self.beyond(&why.to_string()),
        };
        let mut scopes = vec![scope.clone()];
        for item in items {
            match item {
                Item::Enter => scopes.extend(scopes.last().cloned()),
                Item::Leave => {
                    if scopes.len() > 1 {
                        scopes.pop();
                    }
                }
                Item::Run(simple) => {
                    self.words += simple.words.len() + simple.writes.len();
                    if self.words > shell::MOST_WORDS {
                        return self.beyond("it has too many words");
                    }
                    if let Some(scope) = scopes.last_mut() {
                        self.simple(&simple, text, scope, depth);
                    }
                }
            }
            if self.ended {
                return;
            }
        }
    }

    /// Objects to a command line that cannot be judged.
    fn beyond(&mut self, why: &str) {
        self.ended = true;
        let what = format!("jit cannot judge this command line: {why}.");
        let instead = "Write it more plainly, or as several commands.";
        self.verdict.add(self.rules.most, Objection::new(what, instead));
    }

    fn simple(&mut self, simple: &Simple, line: &str, scope: &mut Scope, depth: usize) {
        for target in &simple.writes {
            self.operand(target, &scope.cwd);
        }
        let is_before = |word: &&Word| {
            KEYWORDS.contains(&word.text.as_str()) || options::assignment(&word.text).is_some()
        };
        let before = simple.words.iter().take_while(is_before).count();
        let (assigned, words) = simple.words.split_at(before);
        let Some((program, args)) = words.split_first() else {
            return assigned.iter().for_each(|word| scope.assign(word));
        };
        match base(&program.text) {
            name if TEXT.contains(&name) => return,
            "cd" | "pushd" if program.known => return scope.cwd = self.moved(args, &scope.cwd),
            "popd" => return scope.cwd = None,
            "export" | "declare" | "typeset" | "readonly" => {
                return args.iter().for_each(|word| scope.assign(word));
            }
            _ => {}
        }
        if !program.known && !args.iter().any(|word| word.known && base(&word.text) == "git") {
            self.opaque(&joined(words));
        }
        // `find` runs several commands.
        let end = |word: &Word| matches!(word.text.as_str(), ";" | "+");
        for part in simple.words.split(end) {
            self.part(part, simple, line, scope, depth);
        }
    }

    /// Judges the first command among these words that the guard knows.
    fn part(&mut self, words: &[Word], simple: &Simple, line: &str, scope: &Scope, depth: usize) {
        let mut inner = scope.clone();
        let mut appended = false;
        for (n, word) in words.iter().enumerate() {
            if options::assignment(&word.text).is_some() {
                inner.assign(word);
                continue;
            }
            let mut args = words.get(n + 1..).unwrap_or_default().to_vec();
            let name = if word.known { base(&word.text) } else { "" };
            match name {
                "xargs" => appended = true,
                "git" => {
                    // `find` puts names in place of `{}`, and xargs appends words.
                    let hide = |word: &mut Word| word.known &= !word.text.contains("{}");
                    args.iter_mut().for_each(hide);
                    args.extend(appended.then(|| Word::unknown("what xargs reads")));
                    return self.git(&args, &inner, depth);
                }
                "jit" => return self.jit(&args, &inner),
                "eval" if args.iter().all(|word| word.known) => {
                    return self.line(&joined(&args), &inner, depth + 1);
                }
                "eval" => return self.opaque(&joined(&args)),
                "trap" => match args.iter().find(|word| word.text != "--") {
                    Some(action) if action.known => return self.line(&action.text, &inner, depth + 1),
                    action => return self.opaque(action.map_or("", |word| &word.text)),
                },
                name if SHELLS.contains(&name) => {
                    return self.shell(&args, simple, line, &inner, depth);
                }
                _ => {}
            }
        }
    }

    fn shell(&mut self, args: &[Word], simple: &Simple, line: &str, scope: &Scope, depth: usize) {
        let runs = |word: &Word| {
            word.text.starts_with('-') && !word.text.starts_with("--") && word.text.contains('c')
        };
        let script = args
            .iter()
            .position(runs)
            .and_then(|at| args.get(at + 1..))
            .and_then(|rest| rest.iter().find(|word| !word.text.starts_with('-')));
        // `sh file` does not run its input.
        let file =
            args.iter().any(|word| !word.text.starts_with('-')) && !args.iter().any(|word| word.text == "-s");
        match (script, &simple.input) {
            (Some(script), _) if script.known => self.line(&script.text, scope, depth + 1),
            (Some(script), _) => self.opaque(&script.text),
            (None, _) if file => {}
            (None, Some(input)) if input.known => self.line(&input.text, scope, depth + 1),
            (None, Some(input)) => self.opaque(&input.text),
            (None, None) if simple.fed => self.opaque(line),
            (None, None) => {}
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

    /// Records a file that is written. Of a word that is not literal, or is a pattern, the literal folder before that
    /// counts.
    fn operand(&mut self, word: &Word, cwd: &Cwd) {
        if word.text.starts_with("/dev/") {
            return;
        }
        let pattern = word.text.find(['*', '?', '[']);
        let unknown = match word.known {
            true => None,
            false => Some(word.text.find(['$', '`', '{']).unwrap_or(0)),
        };
        let text = match [pattern, unknown].into_iter().flatten().min() {
            None => &word.text,
            Some(at) => match word.text.get(..at).and_then(|text| text.rsplit_once('/')) {
                Some(("", _)) => "/",
                Some((folder, _)) => folder,
                None => ".",
            },
        };
        if text.is_empty() {
            return;
        }
        let Some(path) = self.below(cwd, text) else {
            return self.whole_tree(&word.text);
        };
        if let Some((mode, objection)) = foreign(self.ground, self.rules, &path) {
            self.verdict.add(mode, objection);
        }
        let elsewhere = self.ground.whose(&path) == Whose::Elsewhere && !self.ground.own.starts_with(&path);
        // A lock on the whole worktree would block all other agents for what may be one file.
        if self.ground.own.starts_with(&path) || (!word.known && !elsewhere) {
            self.whole_tree(&word.text);
        } else if word.known {
            self.seen.writes.push(path);
            if self.seen.writes.len() > MOST_FILES {
                self.beyond("it writes too many files");
            }
        }
    }

    fn whole_tree(&mut self, by: &str) {
        self.seen.whole_tree.get_or_insert_with(|| by.to_owned());
    }

    /// Judges commands that show only at run time, by the words in their text.
    fn opaque(&mut self, text: &str) {
        let has = |word: &str| {
            let plain = |c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_';
            text.split(plain).any(|part| part == word)
        };
        if !has("git") {
            return;
        }
        let unclear = |what: &str| {
            Objection::new(
                format!("jit cannot see what this runs, and it names {what}."),
                "Write the command out, without eval, variables or scripts around it.",
            )
        };
        if has("stash") {
            self.verdict.add(self.rules.stash, unclear("the stash"));
        }
        if RISKY.iter().any(|word| has(word)) {
            let what = "a git command that can reach other branches or settings";
            self.verdict.add(self.rules.destructive_git, unclear(what));
        }
    }
}

/// Git commands that can reach other branches, or change what git runs.
const RISKY: &[&str] = &[
    "branch",
    "config",
    "push",
    "update-ref",
    "worktree",
    "filter-branch",
    "filter-repo",
    "reflog",
];

fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn joined(words: &[Word]) -> String {
    let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests;
