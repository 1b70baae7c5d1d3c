//! Git commands: the damage they do to other agents' work, and the files they write.
//!
//! A command that names the files it writes counts as a write of those files. A command that changes the worktree as
//! a whole (it checks out another commit, applies a patch) counts as a write of all of it.

use jit_agents::hooks::decision::Objection;
use jit_agents::hooks::shell::Word;

use super::super::ground::Whose;
use super::{Cwd, Judge, Scope, foreign, joined};

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
}

/// Returns whether this is `core.hooksPath`, alone or with a value.
fn is_hooks_path(setting: &str) -> bool {
    let name = setting.split('=').next().unwrap_or_default();
    name.eq_ignore_ascii_case("core.hookspath")
}

/// One git command with its arguments.
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

    /// Returns the values of these options: `-o F`, `-oF`, `--output F`, `--output=F`.
    fn values(&self, flags: &[&str]) -> Vec<Word> {
        super::writes::values(self.args, flags)
    }

    /// Returns the words that are neither options nor values of these options.
    fn free(&self, valued: &[&str]) -> Vec<Word> {
        super::writes::free(self.args, valued)
    }

    /// Returns the word after an option.
    fn value_of(&self, flags: &[&str]) -> Option<&Word> {
        let at = self
            .args
            .iter()
            .position(|word| flags.contains(&word.text.as_str()))?;
        self.args.get(at + 1)
    }
}

impl Judge<'_> {
    pub(super) fn git(&mut self, args: &[Word], mut at: Cwd, scope: &Scope, whole: &str, depth: usize) {
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
                    if is_hooks_path(setting) {
                        self.hooks_path();
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
        let inner = Scope {
            cwd: at.clone(),
            ..scope.clone()
        };
        self.runs(&call, &inner, depth);
        self.tree(&call, &at);
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
            "rebase" => {
                for (at, word) in call.args.iter().enumerate() {
                    match word.text.as_str() {
                        "-x" | "--exec" => lines.extend(call.args.get(at + 1).map(|word| vec![word.clone()])),
                        text => lines.extend(text.strip_prefix("--exec=").map(|text| vec![word.part(text)])),
                    }
                }
            }
            _ => {}
        }
        for words in lines {
            match words.iter().all(|word| word.known) {
                true => self.line(&joined(&words), scope, depth + 1),
                false => self.opaque(&joined(&words)),
            }
        }
    }

    /// Records the files that git writes in the worktree.
    fn tree(&mut self, call: &GitCall<'_>, at: &Cwd) {
        let outputs = match call.name {
            "archive" => call.values(&["-o", "--output"]),
            "format-patch" => call.values(&["-o", "--output-directory"]),
            _ => call.values(&["--output"]),
        };
        for word in &outputs {
            self.operand(word, at);
        }
        let paths = match call.name {
            "checkout" => self.checkout(call, at),
            "switch" => {
                let valued = ["-c", "-C", "--create", "--force-create", "--orphan", "--conflict"];
                let begins = call.has(&["-c", "-C", "--create", "--force-create"]);
                match begins && call.free(&valued).is_empty() {
                    true => Written::Nothing,
                    false => Written::Tree,
                }
            }
            "restore" => {
                let index_only = call.has(&["-S", "--staged"]) && !call.has(&["-W", "--worktree"]);
                match index_only {
                    true => Written::Nothing,
                    false => Written::of(call.free(&["-s", "--source", "--conflict"])),
                }
            }
            "rm" | "mv" if call.has(&["--cached", "-n", "--dry-run"]) => Written::Nothing,
            "rm" | "mv" => Written::of(call.free(&[])),
            "clean" if call.has(&["-n", "--dry-run"]) => Written::Nothing,
            "clean" => Written::of(call.free(&["-e", "--exclude"])),
            "reset" if call.has(&["--hard", "--merge", "--keep"]) => Written::Tree,
            "apply" if call.has(&["--apply", "--index", "-3", "--3way"]) => Written::Tree,
            "apply" if call.has(&["--check", "--stat", "--numstat", "--summary", "--cached"]) => {
                Written::Nothing
            }
            "read-tree" if call.has(&["-u", "--reset"]) => Written::Tree,
            "bisect"
                if call
                    .args
                    .first()
                    .is_none_or(|word| matches!(word.text.as_str(), "log" | "view" | "terms")) =>
            {
                Written::Nothing
            }
            "submodule"
                if call
                    .args
                    .iter()
                    .all(|word| word.text != "update" && word.text != "add") =>
            {
                Written::Nothing
            }
            "sparse-checkout" if call.args.first().is_some_and(|word| word.text == "list") => {
                Written::Nothing
            }
            "apply" | "am" | "merge" | "rebase" | "pull" | "cherry-pick" | "revert" | "checkout-index"
            | "bisect" | "submodule" | "sparse-checkout" => Written::Tree,
            _ => Written::Nothing,
        };
        match paths {
            Written::Nothing => {}
            Written::Paths(words) => {
                for word in words {
                    self.pathspec(&word, at);
                }
            }
            Written::Tree => {
                // No agent here holds a lock in another repository.
                let here = at
                    .as_ref()
                    .is_none_or(|path| self.ground.whose(path) == Whose::Own);
                if here {
                    self.whole_tree(&format!("git {} {}", call.name, joined(call.args)));
                }
            }
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

    fn hooks_path(&mut self) {
        self.verdict.add(
            self.rules.destructive_git,
            Objection::new(
                "core.hooksPath decides which hooks git runs, for everybody in this repository.",
                "Leave it as it is; jit hooks install sets it up.",
            ),
        );
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
                // A copy writes its last name only, a forced branch its first name only.
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
                    if let Some((name, why)) = taken(&word.part(to)) {
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
                    if let Some((name, why)) = taken(&word.part(to)) {
                        against(format!("git fetch would overwrite {name}: {why}."), LEAVE);
                    }
                }
            }
            "symbolic-ref" if call.has(&["-d", "--delete"]) || operands.len() > 1 => against(
                format!(
                    "git symbolic-ref {} moves a branch under the files of this worktree.",
                    joined(call.args)
                ),
                "Use git switch, on a branch of your own.",
            ),
            "config" => {
                let changes = call.has(&[
                    "--unset",
                    "--unset-all",
                    "--remove-section",
                    "--replace-all",
                    "--add",
                ]) || matches!(
                    operands.first().map(|word| word.text.as_str()),
                    Some("set" | "unset")
                );
                let at = operands.iter().position(|word| is_hooks_path(&word.text));
                let section = operands.iter().any(|word| word.text.eq_ignore_ascii_case("core"));
                let valued = at.is_some_and(|at| operands.len() > at + 1);
                let removed = section && call.has(&["--remove-section", "--rename-section"]);
                if !reads_only(call) && ((at.is_some() && changes) || valued || removed) {
                    self.hooks_path();
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
