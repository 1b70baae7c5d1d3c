//! Branches, refs and objects that a git command changes: those of others are left alone.

use jit_agents::hooks::decision::Objection;
use jit_agents::hooks::shell::Word;

use super::super::ground::Whose;
use super::git::GitCall;
use super::git_files::NEW_WORKTREE;
use super::{Cwd, Judge, joined};

const LEAVE: &str = "Leave that branch to whoever works on it.";

impl Judge<'_> {
    pub(super) fn branches(&mut self, call: &GitCall<'_>, at: &Cwd) {
        match call.name {
            "branch" => self.branch(call),
            "checkout" | "switch" | "worktree" => self.moved_branch(call, at),
            "push" => self.push(call),
            "fetch" => self.fetch(call),
            "update-ref" => self.update_ref(call),
            "symbolic-ref" if call.has(&["-d", "--delete"]) || call.operands().len() > 1 => self.against(
                format!(
                    "git symbolic-ref {} moves a branch under the files of this worktree.",
                    joined(call.args)
                ),
                "Use git switch, on a branch of your own.",
            ),
            "fast-import" => self.against(
                "jit cannot see which refs git fast-import changes.".to_owned(),
                "Make commits in your worktree.",
            ),
            "filter-branch" | "filter-repo" => self.against(
                format!("git {} rewrites branches that others work on.", call.name),
                "Rebase your own branch instead.",
            ),
            "reflog" if matches!(call.first(), "expire" | "delete") => self.against(
                "git reflog expire and delete take away what others could recover.".to_owned(),
                "Leave the reflog alone.",
            ),
            "prune" => self.against(
                "git prune deletes objects that others may need.".to_owned(),
                "Leave it to git gc.",
            ),
            "gc" if call.has(&["--prune"]) => self.against(
                "git gc --prune deletes objects that others may need.".to_owned(),
                "Run git gc without --prune.",
            ),
            _ => {}
        }
    }

    /// Returns a branch that somebody else uses, and who. A name that is not literal may be any branch.
    fn taken(&self, word: &Word) -> Option<(String, String)> {
        let name = word.text.strip_prefix("refs/heads/").unwrap_or(&word.text);
        match word.known {
            true => self.ground.user_of(name).map(|why| (name.to_owned(), why)),
            false => Some((
                name.to_owned(),
                "its name only shows when the command runs".to_owned(),
            )),
        }
    }

    fn branch(&mut self, call: &GitCall<'_>) {
        let moves = call.has(&["-d", "-D", "--delete", "-m", "-M", "--move"]);
        let copies = call.has(&["-C"]);
        let forced = call.has(&["-f", "--force"]);
        if !moves && !copies && !forced {
            return;
        }
        let operands = call.operands();
        // A copy writes its last name only, a forced branch its first name only.
        let written: Vec<&&Word> = match () {
            () if copies => operands.last().into_iter().collect(),
            () if forced && !moves => operands.first().into_iter().collect(),
            () => operands.iter().collect(),
        };
        for (name, why) in written
            .into_iter()
            .filter_map(|word| self.taken(word))
            .collect::<Vec<_>>()
        {
            self.against(
                format!("git branch would delete, move or rename {name}: {why}."),
                LEAVE,
            );
        }
    }

    fn moved_branch(&mut self, call: &GitCall<'_>, at: &Cwd) {
        let name = call.value_of(&["-B", "-C", "--force-create"]);
        if let Some((name, why)) = name.and_then(|word| self.taken(word)) {
            self.against(format!("git {} would move {name}: {why}.", call.name), LEAVE);
        }
        if call.name != "worktree" && call.has(&["--ignore-other-worktrees"]) {
            self.against(
                format!("git {} would take a branch from another worktree.", call.name),
                LEAVE,
            );
        }
        if call.name == "worktree" && call.first() == "add" {
            self.new_worktree(call);
        }
        let operands = call.operands();
        let sub = operands.first().map_or("", |word| word.text.as_str());
        if call.name != "worktree" || !matches!(sub, "remove" | "move" | "unlock" | "repair") {
            return;
        }
        let ground = self.ground;
        for word in operands.iter().skip(1) {
            let path = self.below(at, &word.text);
            let Some(Whose::Other(tree)) = path.as_ref().map(|path| ground.whose(path)) else {
                continue;
            };
            let what = format!("git worktree {sub} would take away {}.", tree.title());
            let instead = "Leave it to whoever works there; jit worktree list shows who.";
            self.verdict
                .add(self.rules.destructive_git, Objection::new(what, instead));
        }
    }

    /// `git worktree add --force` checks out a branch that another worktree has, named or after the new folder.
    fn new_worktree(&mut self, call: &GitCall<'_>) {
        let begins = call.has(&["-b", "-B", "-d", "--detach", "--orphan"]);
        if begins || !call.has(&["-f", "--force"]) {
            return;
        }
        let free = call.free(NEW_WORKTREE);
        let Some(name) = free.get(2).cloned().or_else(|| {
            let folder = free.get(1)?;
            Some(folder.part(folder.text.trim_end_matches('/').rsplit('/').next()?))
        }) else {
            return;
        };
        if let Some((name, why)) = self.taken(&name) {
            self.against(
                format!("git worktree add --force would check out {name} twice: {why}."),
                LEAVE,
            );
        }
    }

    fn push(&mut self, call: &GitCall<'_>) {
        if call.has(&["--mirror", "--prune"]) {
            self.against(
                "git push --mirror and --prune delete everybody's branches there.".to_owned(),
                "Push your own branch by its name.",
            );
        }
        let forced = call.has(&["-f", "--force", "--force-with-lease", "--force-if-includes"]);
        let deletes = call.has(&["-d", "--delete"]);
        for word in call.operands().into_iter().skip(1) {
            let (plus, spec) = match word.text.strip_prefix('+') {
                Some(spec) => (true, spec),
                None => (false, word.text.as_str()),
            };
            let (from, to) = spec.split_once(':').unwrap_or((spec, spec));
            if !(forced || deletes || plus || from.is_empty()) {
                continue;
            }
            if let Some((name, why)) = self.taken(&word.part(to)) {
                self.against(
                    format!("git push would overwrite or delete {name}: {why}."),
                    LEAVE,
                );
            }
        }
        if (forced || deletes) && call.has(&["--all", "--branches"]) {
            self.against(
                "git push --all by force overwrites everybody's branches.".to_owned(),
                LEAVE,
            );
        }
    }

    fn fetch(&mut self, call: &GitCall<'_>) {
        let always = call.has(&["-f", "--force", "-u", "--update-head-ok"]);
        for word in call.operands().into_iter().skip(1) {
            let spec = word.text.trim_start_matches('+');
            let forced = always || spec.len() < word.text.len();
            let Some((_, to)) = spec.split_once(':').filter(|_| forced) else {
                continue;
            };
            if let Some((name, why)) = self.taken(&word.part(to)) {
                self.against(format!("git fetch would overwrite {name}: {why}."), LEAVE);
            }
        }
    }

    fn update_ref(&mut self, call: &GitCall<'_>) {
        if call.has(&["--stdin"]) {
            self.against(
                "jit cannot see which refs git update-ref --stdin changes.".to_owned(),
                "Name the ref on the command line.",
            );
        }
        let Some(word) = call.operands().into_iter().next() else {
            return;
        };
        if word.text.starts_with("refs/jit/") || word.text == "refs/stash" {
            self.against(
                format!("{} is not yours to change.", word.text),
                "Leave it alone.",
            );
        } else if let Some((name, why)) = self.taken(word) {
            self.against(format!("git update-ref would change {name}: {why}."), LEAVE);
        }
    }
}
