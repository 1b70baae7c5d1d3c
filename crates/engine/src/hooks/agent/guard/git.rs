//! Git commands: reads their options, and the rules that are about one command each.

use jit_agents::hooks::decision::Objection;
use jit_agents::hooks::shell::Word;

use super::{Cwd, Judge, Scope, Whose, foreign, joined, options};

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

/// One git command with its arguments.
pub(super) struct GitCall<'a> {
    pub name: &'a str,
    pub args: &'a [Word],
}

impl GitCall<'_> {
    pub fn has(&self, flags: &[&str]) -> bool {
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

    pub fn operands(&self) -> Vec<&Word> {
        self.args
            .iter()
            .filter(|word| !word.text.starts_with('-'))
            .collect()
    }

    /// Returns the values of these options: `-o F`, `-oF`, `--output F`, `--output=F`.
    pub fn values(&self, flags: &[&str]) -> Vec<Word> {
        options::values(self.args, flags)
    }

    /// Returns the words that are neither options nor values of these options.
    pub fn free(&self, valued: &[&str]) -> Vec<Word> {
        options::free(self.args, valued)
    }

    /// Returns the word after an option.
    pub fn value_of(&self, flags: &[&str]) -> Option<&Word> {
        let at = self
            .args
            .iter()
            .position(|word| flags.contains(&word.text.as_str()))?;
        self.args.get(at + 1)
    }

    /// Returns the text of the first argument.
    pub fn first(&self) -> &str {
        self.args.first().map_or("", |word| word.text.as_str())
    }

    fn reads_only(&self) -> bool {
        let first = self.first();
        match self.name {
            "stash" => matches!(first, "list" | "show"),
            "worktree" => first == "list",
            "remote" => matches!(first, "" | "-v" | "show" | "get-url"),
            "reflog" => matches!(first, "" | "show" | "exists"),
            "config" => {
                self.has(&["--get", "--get-all", "--list", "-l", "--get-regexp"])
                    || matches!(first, "get" | "list")
            }
            "branch" | "tag" => self.args.iter().all(|word| {
                matches!(
                    word.text.as_str(),
                    "-a" | "-r" | "-v" | "-vv" | "-l" | "--list" | "--show-current" | "--all"
                )
            }),
            name => GIT_READS.contains(&name),
        }
    }
}

impl Judge<'_> {
    pub(super) fn git(&mut self, args: &[Word], scope: &Scope, depth: usize) {
        let mut at = scope.cwd.clone();
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
            match option {
                "-C" | "--git-dir" | "--work-tree" => {
                    let (value, known, next) = match (value, behind.split_first()) {
                        (Some(value), _) => (value, first.known, behind),
                        (None, Some((word, behind))) => (word.text.as_str(), word.known, behind),
                        (None, None) => return,
                    };
                    at = known.then(|| self.below(&at, value)).flatten();
                    rest = next;
                }
                "-c" | "--config-env" => {
                    if let Some(setting) = behind.first() {
                        self.setting(setting, args);
                    }
                    rest = behind.get(1..).unwrap_or_default();
                }
                "--namespace" | "--attr-source" | "--super-prefix" if value.is_none() => {
                    rest = behind.get(1..).unwrap_or_default();
                }
                _ if option.starts_with('-') => rest = behind,
                _ if !first.known => return self.hidden(args),
                name => break GitCall { name, args: behind },
            }
        };
        self.stash(&call);
        self.branches(&call, &at);
        self.config(&call);
        if !call.reads_only()
            && let Some(path) = &at
            && let Some((mode, objection)) = foreign(self.ground, self.rules, path)
        {
            let what = format!("git {} would run there: {}", call.name, objection.what);
            self.verdict.add(mode, Objection::new(what, objection.instead));
        }
        let inner = Scope {
            cwd: at.clone(),
            ..scope.clone()
        };
        self.runs(&call, &inner, depth);
        self.files(&call, &at);
    }

    /// Objects to a git command whose name is not literal.
    fn hidden(&mut self, args: &[Word]) {
        let text: String = joined(args).chars().take(60).collect();
        self.verdict.add(
            self.rules.destructive_git,
            Objection::new(
                format!("jit cannot see which git command `git {text}` is."),
                "Write the command out, without variables.",
            ),
        );
    }

    /// Judges the value of `git -c`.
    fn setting(&mut self, setting: &Word, args: &[Word]) {
        if setting.text.starts_with("alias.") || (!setting.known && setting.text.starts_with('$')) {
            self.opaque(&format!("git {}", joined(args)));
        }
        if is_hooks_path(&setting.text) {
            self.hooks_path();
        }
    }

    /// Judges the commands that git is asked to run.
    fn runs(&mut self, call: &GitCall<'_>, scope: &Scope, depth: usize) {
        let behind = |word: &str| {
            let at = call.args.iter().position(|arg| arg.text == word)?;
            call.args.get(at + 1..)
        };
        let mut lines: Vec<Vec<Word>> = Vec::new();
        match call.name {
            "submodule" => lines.extend(behind("foreach").map(|words| {
                let options = words.iter().take_while(|word| word.text.starts_with('-')).count();
                words.get(options..).unwrap_or_default().to_vec()
            })),
            "bisect" => lines.extend(behind("run").map(<[Word]>::to_vec)),
            "rebase" => lines.extend(call.values(&["-x", "--exec"]).into_iter().map(|word| vec![word])),
            _ => {}
        }
        for words in lines {
            match words.iter().all(|word| word.known) {
                true => self.line(&joined(&words), scope, depth + 1),
                false => self.opaque(&joined(&words)),
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

    fn config(&mut self, call: &GitCall<'_>) {
        if call.name != "config" || call.reads_only() {
            return;
        }
        let operands = call.operands();
        let changes = call.has(&[
            "--unset",
            "--unset-all",
            "--remove-section",
            "--replace-all",
            "--add",
        ]) || matches!(call.first(), "set" | "unset");
        let at = operands.iter().position(|word| is_hooks_path(&word.text));
        let section = operands.iter().any(|word| word.text.eq_ignore_ascii_case("core"));
        let valued = at.is_some_and(|at| operands.len() > at + 1);
        let removed = section && call.has(&["--remove-section", "--rename-section"]);
        if (at.is_some() && changes) || valued || removed {
            self.hooks_path();
        }
    }

    fn hooks_path(&mut self) {
        self.verdict.add(
            self.rules.destructive_git,
            Objection::new(
                "core.hooksPath decides which hooks git runs, for everybody in this repository.",
                "Leave it as it is; jit hooks install sets it up.",
            ),
        );
    }

    /// Adds an objection against what a git command does to others.
    pub(super) fn against(&mut self, what: String, instead: &str) {
        self.verdict
            .add(self.rules.destructive_git, Objection::new(what, instead));
    }

    pub(super) fn at_home(&self, at: &Cwd) -> bool {
        at.as_ref()
            .is_none_or(|path| self.ground.whose(path) == Whose::Own)
    }
}

/// Returns whether this is `core.hooksPath`, alone or with a value.
fn is_hooks_path(setting: &str) -> bool {
    let name = setting.split('=').next().unwrap_or_default();
    name.eq_ignore_ascii_case("core.hookspath")
}
