//! Guards the things that worktrees do not protect: other checkouts, the stash that all worktrees share, and branches
//! of other agents (F9).
//!
//! What must hold:
//! - Reading is never refused, wherever it happens.
//! - A command line is judged by everything in it: after `&&`, `|`, `env`, `sh -c`, in brackets, after `cd`.
//! - A command that cannot be read, or that shows only at run time, is judged by its worst case if it names git or
//!   another checkout.
//! - These count as a write of the whole worktree, [`Seen::whole_tree`]: a write whose target shows only at run time,
//!   and a command that changes files it does not name.
//!
//! Each rule has its own mode. The guard returns the files that a command line visibly writes, so that the caller can
//! lock them. A write of the whole worktree acquires no lock. The caller refuses it while another agent holds a lock
//! in that worktree.
//!
//! `git` knows git's commands, `writes` the other programs, `variables` the assignments in the line itself.
//!
//! Limitations: see [`super`]. Places outside every checkout of this repository (`/tmp`, other projects) are not
//! guarded. An unknown name below such a place is assumed to stay there. The guard does not know which branch of an
//! `if` runs, so every assignment counts, wherever it stands.

mod git;
mod variables;
mod writes;

use std::path::{Path, PathBuf};

use jit_agents::hooks::decision::{HookDecision, Objection, RuleMode};
use jit_agents::hooks::shell::{self, Item, Simple, Word};

use self::variables::Variables;
use super::ground::{Ground, Whose};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    pub outside_worktree: RuleMode,
    pub stash: RuleMode,
    pub destructive_git: RuleMode,
}

impl Rules {
    fn strongest(&self) -> RuleMode {
        self.outside_worktree.max(self.stash).max(self.destructive_git)
    }
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
        verdict.add(rules.strongest(), Objection::new(what, "Name the file plainly."));
        return None;
    };
    if let Some(objection) = foreign(ground, &path) {
        verdict.add(rules.outside_worktree, objection);
    }
    Some(path)
}

/// Returns the objection against writing to this path, if there is one.
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

/// The files that a command line visibly writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    pub writes: Vec<PathBuf>,
    /// The part of the command line that may write any file of the worktree, quoted.
    pub whole_tree: Option<String>,
}

/// Judges a command line; returns the files it visibly writes.
pub fn command(
    ground: &Ground,
    rules: &Rules,
    text: &str,
    cwd: &Path,
    verdict: &mut HookDecision,
) -> Vec<PathBuf> {
    judge(ground, rules, text, cwd, verdict).writes
}

/// Judges a command line; returns everything it visibly writes.
pub fn judge(ground: &Ground, rules: &Rules, text: &str, cwd: &Path, verdict: &mut HookDecision) -> Seen {
    let mut judge = Judge {
        ground,
        rules,
        verdict,
        seen: Seen::default(),
    };
    judge.line(text, &Scope::at(cwd), 0);
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
}

/// The state that a command starts with.
#[derive(Debug, Clone)]
struct Scope {
    cwd: Cwd,
    variables: Variables,
}

impl Scope {
    fn at(cwd: &Path) -> Self {
        Self {
            cwd: Some(cwd.to_owned()),
            variables: Variables::default(),
        }
    }
}

/// The working folder of a command; `None` if the text does not show it.
type Cwd = Option<PathBuf>;

/// The variable that names the calling agent to jit.
const AGENT: &str = "JIT_AGENT_ID";
const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh"];
/// Programs that run the program named after their options.
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
/// Builtins that assign values to names.
const DECLARERS: &[&str] = &["export", "declare", "local", "readonly", "typeset"];
const KEYWORDS: &[&str] = &[
    "if", "then", "else", "elif", "do", "while", "until", "!", "{", "}", "coproc", "function",
];
/// Words that run nothing by themselves: they begin or end a construct.
const IDLE: &[&str] = &["case", "fi", "done", "esac", "in", "[[", "["];
impl Judge<'_> {
    fn line(&mut self, text: &str, scope: &Scope, depth: usize) {
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
        let mut scopes = vec![scope.clone()];
        let mut before: Option<Simple> = None;
        for item in items {
            match item {
                Item::Enter => scopes.extend(scopes.last().cloned()),
                Item::Leave => {
                    if scopes.len() > 1 {
                        scopes.pop();
                    }
                }
                Item::Run(simple) => {
                    if let Some(scope) = scopes.last_mut() {
                        self.each(&simple, before.as_ref(), scope, depth);
                    }
                    before = Some(simple);
                }
            }
        }
    }

    /// Judges a command once for each value that a variable in it may have.
    fn each(&mut self, simple: &Simple, before: Option<&Simple>, scope: &mut Scope, depth: usize) {
        for one in scope.variables.choices(simple) {
            let variables = std::mem::replace(&mut scope.variables, one);
            let cwd = scope.cwd.clone();
            let known = |word: &Word| {
                scope
                    .variables
                    .value(word, cwd.as_deref(), self.ground.home.as_deref())
            };
            let mut plain = Simple::of(simple.words.iter().flat_map(known).collect());
            plain.writes = simple.writes.iter().flat_map(known).collect();
            plain.input = simple
                .input
                .as_ref()
                .and_then(|word| known(word).into_iter().next());
            plain.fed = simple.fed;
            let fed_by = before.filter(|_| simple.fed).map(|before| {
                let mut fed_by = before.clone();
                fed_by.words = before.words.iter().flat_map(known).collect();
                fed_by
            });
            scope.variables = variables;
            self.simple(&plain, fed_by.as_ref(), scope, depth);
        }
    }

    fn simple(&mut self, simple: &Simple, before: Option<&Simple>, scope: &mut Scope, depth: usize) {
        for target in &simple.writes {
            self.operand(target, &scope.cwd);
        }
        let mut words = simple.words.clone();
        let whole = joined(&words);
        // Settings of this command only.
        let mut inner = scope.clone();
        let mut git_at = scope.cwd.clone();
        let mut acts_as = None;
        let mut assigned = Vec::new();
        let mut more = false;
        while let Some((first, rest)) = words.split_first() {
            let text = first.text.as_str();
            if let Some((name, value)) = assignment(text) {
                match name {
                    "GIT_DIR" | "GIT_WORK_TREE" if first.known => git_at = self.below(&inner.cwd, value),
                    "GIT_DIR" | "GIT_WORK_TREE" => git_at = None,
                    AGENT => acts_as = Some(first.part(value)),
                    _ => {}
                }
                assigned.push((name.to_owned(), first.known.then(|| value.to_owned())));
            } else if !first.known {
                return self.opaque(&whole);
            } else if matches!(text, "for" | "select") {
                let name = rest.first().map_or("", |word| word.text.as_str());
                let values = rest.get(2..).unwrap_or_default();
                return scope.variables.range(name, values);
            } else if IDLE.contains(&text) {
                return;
            } else if base(text) == "env" {
                match self.env(rest, &mut inner) {
                    Env::Behind(behind) => words = behind,
                    Env::Line(line) => return self.line(&line, &inner, depth + 1),
                    Env::Unknown => return self.opaque(&whole),
                }
                git_at.clone_from(&inner.cwd);
                continue;
            } else if WRAPPERS.contains(&base(text)) {
                more |= base(text) == "xargs";
                words = behind_options(rest).to_vec();
                continue;
            } else if !KEYWORDS.contains(&text) {
                break;
            }
            words = rest.to_vec();
        }
        // xargs appends the words it reads to the words it is given.
        if more {
            words.push(Word::unknown(format!("what {whole} reads")));
        }
        let Some((program, args)) = words.split_first() else {
            for (name, value) in assigned {
                scope.variables.assign(&name, value);
            }
            return;
        };
        if !program.known {
            return self.opaque(&whole);
        }
        match base(&program.text) {
            "cd" | "pushd" => scope.cwd = self.moved(args, &scope.cwd),
            "popd" => scope.cwd = None,
            name if DECLARERS.contains(&name) => scope.variables.declare(args),
            "read" | "mapfile" | "readarray" | "getopts" | "unset" => scope.variables.forget(args),
            "git" => self.git(args, git_at, &inner, &whole, depth),
            "jit" => self.acts_as(args, acts_as, &inner),
            "trap" => match args.iter().find(|word| word.text != "--") {
                Some(action) if action.known => self.line(&action.text, &inner, depth + 1),
                Some(_) => self.opaque(&whole),
                None => {}
            },
            "find" => self.find(args, &inner, depth),
            "eval" => match args.iter().all(|word| word.known) {
                true => self.line(&joined(args), &inner, depth + 1),
                false => self.opaque(&whole),
            },
            shell if SHELLS.contains(&shell) => self.shell(args, simple, before, &inner, &whole, depth),
            "apply_patch" => {}
            name => self.program(name, args, &inner.cwd),
        }
    }

    /// Returns the words that `env` runs, and sets their working folder and variables.
    fn env(&self, words: &[Word], scope: &mut Scope) -> Env {
        let mut rest = words;
        while let Some((first, behind)) = rest.split_first() {
            let text = first.text.as_str();
            let (option, value, behind) = match (text.split_once('='), text.get(..2), behind.split_first()) {
                (Some((option, value)), ..) if option.starts_with("--") => {
                    (option, first.part(value), behind)
                }
                (_, Some(short @ ("-C" | "-S" | "-u")), _) if text.len() > 2 && first.known => {
                    (short, first.part(text.get(2..).unwrap_or_default()), behind)
                }
                (.., Some((next, behind)))
                    if matches!(
                        text,
                        "-C" | "--chdir" | "-S" | "--split-string" | "-u" | "--unset"
                    ) =>
                {
                    (text, next.clone(), behind)
                }
                _ if text.starts_with('-') => (text, Word::plain(""), behind),
                _ => break,
            };
            match option {
                "-C" | "--chdir" if value.known => scope.cwd = self.below(&scope.cwd, &value.text),
                "-C" | "--chdir" => scope.cwd = None,
                "-S" | "--split-string" if value.known && behind.iter().all(|word| word.known) => {
                    return Env::Line(format!("{} {}", value.text, quoted(behind)));
                }
                "-S" | "--split-string" => return Env::Unknown,
                _ => {}
            }
            rest = behind;
        }
        Env::Behind(rest.to_vec())
    }

    fn shell(
        &mut self,
        args: &[Word],
        simple: &Simple,
        before: Option<&Simple>,
        scope: &Scope,
        whole: &str,
        depth: usize,
    ) {
        let short = |text: &str| text.starts_with('-') && !text.starts_with("--");
        let script = args
            .iter()
            .position(|word| short(&word.text) && word.text.contains('c'))
            .and_then(|at| args.get(at + 1..))
            .and_then(|rest| rest.iter().find(|word| !word.text.starts_with('-')));
        // `sh file` does not run its input.
        let file =
            args.iter().any(|word| !word.text.starts_with('-')) && !args.iter().any(|word| word.text == "-s");
        match (script, &simple.input) {
            (Some(script), _) if script.known => self.line(&script.text, scope, depth + 1),
            (Some(_), _) => self.opaque(whole),
            (None, _) if file => self.program("a script", args, &scope.cwd),
            (None, Some(input)) if input.known => self.line(&input.text, scope, depth + 1),
            (None, Some(input)) => self.opaque(&format!("{whole} {}", input.text)),
            (None, None) if simple.fed => match before.map(said) {
                Some(Some(text)) => self.line(&text, scope, depth + 1),
                _ => {
                    let text = before.map(|before| joined(&before.words)).unwrap_or_default();
                    self.opaque(&format!("{text} | {whole}"));
                }
            },
            (None, None) => self.program("a script", args, &scope.cwd),
        }
    }

    /// Objects if an agent calls jit under another agent's id.
    fn acts_as(&mut self, args: &[Word], variable: Option<Word>, scope: &Scope) {
        let Some(own) = self.ground.agent.as_deref() else {
            return;
        };
        let option =
            args.iter()
                .enumerate()
                .find_map(|(at, word)| match word.text.strip_prefix("--agent-id") {
                    Some("") => args.get(at + 1).cloned(),
                    Some(value) => value.strip_prefix('=').map(|value| word.part(value)),
                    None => None,
                });
        let exported = || scope.variables.one(AGENT).map(Word::plain);
        let Some(other) = option.or(variable).or_else(exported) else {
            return;
        };
        // Passing on its own variable is not another id.
        let same = [own, "$JIT_AGENT_ID", "${JIT_AGENT_ID}"].contains(&other.text.as_str());
        if !same {
            let what = format!("You are {own}, and this calls jit as {}.", other.text);
            let instead = "Leave the agent id out: jit knows you.";
            self.verdict
                .add(self.rules.strongest(), Objection::new(what, instead));
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

    /// Records a file that is written.
    fn operand(&mut self, word: &Word, cwd: &Cwd) {
        if !word.known {
            self.named(word, cwd);
            return self.unclear(word, cwd);
        }
        // Every match of a pattern lies below the folder before it.
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
            return self.whole_tree(&word.text);
        };
        if let Some(objection) = foreign(self.ground, &path) {
            self.verdict.add(self.rules.outside_worktree, objection);
        }
        // A lock on the whole worktree would block all other agents for what may be one file.
        match self.ground.own.starts_with(&path) {
            true => self.whole_tree(&word.text),
            false => self.seen.writes.push(path),
        }
    }

    /// Judges a target that shows only at run time.
    fn unclear(&mut self, word: &Word, cwd: &Cwd) {
        let end = word.text.find(['$', '`']).unwrap_or(0);
        let folder = word.text.get(..end).and_then(|text| text.rsplit_once('/'));
        let outside = folder.is_some_and(|(folder, _)| {
            folder.starts_with('/')
                && self.below(cwd, folder).is_some_and(|path| {
                    self.ground.whose(&path) == Whose::Elsewhere && !self.ground.own.starts_with(&path)
                })
        });
        if !outside {
            self.whole_tree(&word.text);
        }
    }

    fn whole_tree(&mut self, by: &str) {
        self.seen.whole_tree.get_or_insert_with(|| by.to_owned());
    }

    /// Judges a word that a program may take as a file and may write.
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

    /// Returns an objection if the text contains another checkout.
    fn mentioned(&self, text: &str) -> Option<Objection> {
        let mut others = self.ground.others.iter();
        // Of nested checkouts the inner one may be our own.
        let without_own = text.replace(&*self.ground.own.to_string_lossy(), "");
        let tree = others.find(|tree| without_own.contains(&*tree.root.to_string_lossy()))?;
        let what = format!("This names {}.", tree.title());
        let instead = format!("Work in your own worktree, {}.", self.ground.own.display());
        Some(Objection::new(what, instead))
    }

    /// Judges commands that show only at run time.
    fn opaque(&mut self, text: &str) {
        self.whole_tree(text);
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

enum Env {
    Behind(Vec<Word>),
    Line(String),
    Unknown,
}

/// Returns the output of a command that only prints, if the text shows it.
fn said(simple: &Simple) -> Option<String> {
    let (program, args) = simple.words.split_first()?;
    match base(&program.text) {
        "echo" | "printf" if args.iter().all(|word| word.known) => {
            let options = args.iter().take_while(|word| word.text.starts_with('-')).count();
            let text = joined(args.get(options..).unwrap_or_default());
            Some(text.replace("\\n", "\n"))
        }
        "cat" if args.is_empty() => simple
            .input
            .as_ref()
            .filter(|word| word.known)
            .map(|word| word.text.clone()),
        _ => None,
    }
}

/// Quotes the words so that a shell reads them again as they are.
fn quoted(words: &[Word]) -> String {
    let quote = |word: &Word| format!("'{}'", word.text.replace('\'', "'\\''"));
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn joined(words: &[Word]) -> String {
    let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    words.join(" ")
}

/// Splits `NAME=value`.
fn assignment(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once('=')?;
    let mut letters = name.bytes();
    let begins = letters
        .next()
        .is_some_and(|b| b == b'_' || b.is_ascii_alphabetic());
    (begins && letters.all(|b| b == b'_' || b.is_ascii_alphanumeric())).then_some((name, value))
}

/// Returns the words after a wrapper's options. An option's value is recognized because it cannot be a program: a
/// number, a duration or a signal.
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
mod tests;
