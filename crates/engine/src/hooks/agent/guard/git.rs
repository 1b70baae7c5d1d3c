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

/// Options of git itself that have a value.
const VALUED: &[&str] = &[
    "-C",
    "--git-dir",
    "--work-tree",
    "-c",
    "--config-env",
    "--namespace",
    "--attr-source",
    "--super-prefix",
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
        let options = self.args.iter().take_while(|word| word.text != "--");
        options.into_iter().any(|word| {
            let name = word.text.split('=').next().unwrap_or_default();
            flags
                .iter()
                .any(|flag| options::is_option(name, flag) || bundled(&word.text, flag))
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
            "config" => self.reads_config(),
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
        let (mut git_dir, mut work_tree) = (scope.git_dir.clone(), scope.work_tree.clone());
        if let Some(setting) = &scope.setting {
            self.sets(&setting.text);
        }
        let mut rest = args;
        // Options of git itself, before the name of the command.
        let call = loop {
            let Some((first, behind)) = rest.split_first() else {
                return;
            };
            let (option, joined) = match first.text.split_once('=') {
                Some((option, value)) if option.starts_with("--") => (option, Some(first.part(value))),
                _ => (first.text.as_str(), None),
            };
            let is_valued = VALUED.contains(&option);
            if !is_valued && option.starts_with('-') {
                rest = behind;
                continue;
            }
            if !is_valued && !first.known {
                return self.hidden(args);
            }
            if !is_valued {
                break GitCall {
                    name: option,
                    args: behind,
                };
            }
            let (value, behind) = match (joined, behind.split_first()) {
                (Some(value), _) => (value, behind),
                (None, Some((word, behind))) => (word.clone(), behind),
                (None, None) => return,
            };
            rest = behind;
            match option {
                "-C" => at = self.named(&at, &value),
                "--git-dir" => git_dir = Some(value),
                "--work-tree" => work_tree = Some(value),
                "-c" | "--config-env" => self.setting(&value),
                _ => {}
            }
        };
        self.stash(&call);
        self.branches(&call, &at);
        self.config(&call);
        // Git reads these two relative to the folder of `-C`.
        let tree = work_tree.map_or_else(|| at.clone(), |word| self.named(&at, &word));
        let git_dir = git_dir.and_then(|word| self.named(&at, &word));
        let mut places = vec![&at, &git_dir];
        places.extend((tree != at).then_some(&tree));
        for path in places.into_iter().flatten().filter(|_| !call.reads_only()) {
            // Git commands are what this worktree's part of git's folder is for.
            if self.ground.whose(path) != Whose::OwnGit
                && let Some((mode, objection)) = foreign(self.ground, self.rules, path)
            {
                let what = format!("git {} would run there: {}", call.name, objection.what);
                self.verdict.add(mode, Objection::new(what, objection.instead));
            }
        }
        let inner = Scope {
            cwd: at.clone(),
            ..scope.clone()
        };
        self.runs(&call, &inner, depth);
        self.files(&call, &at, &tree);
    }

    /// Returns the folder that a word names.
    fn named(&self, at: &Cwd, word: &Word) -> Cwd {
        word.known.then(|| self.below(at, &word.text)).flatten()
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
        if call.name != "stash" || matches!(sub, "list" | "show") {
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

    /// Adds an objection against what a git command does to others.
    pub(super) fn against(&mut self, what: String, instead: &str) {
        self.verdict
            .add(self.rules.destructive_git, Objection::new(what, instead));
    }

    pub(super) fn at_home(&self, at: &Cwd) -> bool {
        at.as_ref()
            .is_none_or(|path| matches!(self.ground.whose(path), Whose::Own | Whose::OwnGit))
    }
}
