//! Facts that one run has learned about its repository, so that git is not asked again for each unit.
//!
//! What must hold: only facts that cannot change are remembered: the parents of a commit, the content of an object, and
//! who commits. Refs are read again each time, by a git process that stays.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jit_git::objects::{Entry, Objects, Trees, entries_of_tree};
use jit_store::Outcome;

use super::Repo;
use super::graph::Graph;
use crate::refusals::failed;
use crate::units::worktree_state::SQUASHED;

/// Name and value of variables.
pub(super) type Variables = Vec<(&'static str, std::ffi::OsString)>;

/// Facts about a repository, shared by all copies of a [`Repo`].
#[derive(Debug, Clone, Default)]
pub(super) struct Known(Arc<Mutex<Facts>>);

#[derive(Debug, Default)]
pub(super) struct Facts {
    objects: Asked<Objects>,
    trees: Asked<Trees>,
    pub(super) graph: Graph,
    /// The variables that name the author and the committer, by the agent.
    pub(super) signer: Option<(String, Variables)>,
}

/// A git process that stays.
#[derive(Debug, Default)]
enum Asked<P> {
    #[default]
    NotYet,
    By(P),
    /// It does not answer: a process for each question does.
    Never,
}

impl<P> Asked<P> {
    /// Asks the process, which is started for the first question. `None` if it cannot answer.
    fn ask<T>(
        &mut self,
        start: impl FnOnce() -> io::Result<P>,
        question: impl FnOnce(&mut P) -> io::Result<T>,
    ) -> Option<T> {
        if let Self::NotYet = self {
            *self = start().map_or(Self::Never, Self::By);
        }
        let Self::By(process) = self else { return None };
        let answer = question(process);
        if answer.is_err() {
            *self = Self::Never;
        }
        answer.ok()
    }
}

impl Known {
    pub(super) fn facts(&self) -> MutexGuard<'_, Facts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Facts {
    fn ask<T>(&mut self, repo: &Repo, question: impl FnOnce(&mut Objects) -> io::Result<T>) -> Option<T> {
        self.objects.ask(|| Objects::start(repo.git()), question)
    }
}

impl Repo {
    /// The object that a revision names.
    pub(super) fn object(&self, name: &str) -> Outcome<Option<String>> {
        let known = self.known.facts().ask(self, |objects| objects.info(name));
        match known {
            Some(Some(object)) => Ok(Some(object.id)),
            // Git says why, where this is more than a missing object.
            Some(None) | None => self.git().verify(name).map_err(failed),
        }
    }

    /// Mode and content of a file in a folder of a tree; `None` if there is no such file.
    pub(super) fn file_in(&self, tree: &str, folder: &str, name: &str) -> Outcome<Option<(String, Vec<u8>)>> {
        let known = self.known.facts().ask(self, |objects| {
            let Some((found, listing)) = objects.content(&format!("{tree}:{folder}"))? else {
                return Ok(None);
            };
            let entries = match found.kind.as_str() {
                "tree" => entries_of_tree(&listing, &found.id),
                _ => Vec::new(),
            };
            let is_meant = |one: &Entry| one.name == name.as_bytes() && is_file(&one.mode);
            let Some(entry) = entries.into_iter().find(is_meant) else {
                return Ok(None);
            };
            let content = objects.content(&entry.id)?;
            let (_, content) = content.ok_or_else(|| io::Error::other("the file is missing"))?;
            Ok(Some((entry.mode, content)))
        });
        match known {
            Some(found) => Ok(found),
            None => self.file_by_process(tree, &format!("{folder}/{name}")),
        }
    }

    /// The names in a folder of a commit; the top for an empty name. Empty if there is no such folder.
    pub(super) fn names_in(&self, commit: &str, folder: &str) -> Outcome<BTreeSet<String>> {
        let tree = match folder {
            "" => format!("{commit}^{{tree}}"),
            folder => format!("{commit}:{folder}"),
        };
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        if let Some(found) = self.known.facts().ask(self, |objects| objects.content(&tree)) {
            let listed = found.filter(|(object, _)| object.kind == "tree");
            let entries = listed.map(|(object, content)| entries_of_tree(&content, &object.id));
            return Ok(entries
                .unwrap_or_default()
                .iter()
                .map(|one| text(&one.name))
                .collect());
        }
        let (_, listed, _) = self
            .git()
            .args(["ls-tree", "-z", "--name-only", &tree])
            .try_run()
            .map_err(failed)?;
        let names = listed.split(|b| *b == 0).filter(|name| !name.is_empty());
        Ok(names.map(text).collect())
    }

    /// The entries of a tree. `None`: they are not known without a further process.
    pub(super) fn entries(&self, tree: &str) -> Option<Vec<Entry>> {
        let found = self.known.facts().ask(self, |objects| objects.content(tree))?;
        let listed = found.filter(|(object, _)| object.kind == "tree");
        listed.map(|(object, content)| entries_of_tree(&content, &object.id))
    }

    /// Writes a tree of these entries. `None`: that takes a further process.
    pub(super) fn write_tree(&self, entries: &[Entry]) -> Option<String> {
        let start = || Trees::start(self.git());
        self.known.facts().trees.ask(start, |trees| trees.write(entries))
    }

    fn file_by_process(&self, tree: &str, path: &str) -> Outcome<Option<(String, Vec<u8>)>> {
        let listed = self
            .git()
            .args(["ls-tree", "-z", "--full-tree", tree, "--", path])
            .run()
            .map_err(failed)?;
        let line = String::from_utf8_lossy(&listed).into_owned();
        let head = line.split_once('\t').map_or("", |(head, _)| head);
        let words: Vec<&str> = head.split(' ').collect();
        match words.as_slice() {
            [mode, "blob", object] if is_file(mode) => {
                let content = self.git().args(["cat-file", "blob", object]).run();
                Ok(Some(((*mode).to_owned(), content.map_err(failed)?)))
            }
            _ => Ok(None),
        }
    }

    /// Reads what these tips have and the target has not, for all of them at once.
    pub(super) fn learn(&self, target: &str, tips: &[String]) -> Outcome<()> {
        let ask: String = tips.iter().map(|tip| format!("{tip}\n")).collect();
        let listed = self
            .git()
            .args(["rev-list", "--parents", "--stdin"])
            .stdin(format!("{ask}^{target}\n"))
            .run()
            .map_err(failed)?;
        let mut graph = Graph::parse(target, tips, &String::from_utf8_lossy(&listed));
        let borders: Vec<String> = graph.borders().into_iter().map(str::to_owned).collect();
        if let Some(oldest) = self.common_to(&borders)?
            && !self.has_squash(&oldest, target)?
        {
            graph.note_unsquashed(target);
        }
        self.known.facts().graph = graph;
        Ok(())
    }

    /// Whether what is known covers this target and these tips.
    pub(super) fn has_learned(&self, target: &str, tips: &[String]) -> bool {
        let facts = self.known.facts();
        facts.graph.knows(target) && tips.iter().all(|tip| facts.graph.knows(tip))
    }

    /// A commit that all of these contain.
    fn common_to(&self, commits: &[String]) -> Outcome<Option<String>> {
        match commits {
            [] => Ok(None),
            [only] => Ok(Some(only.clone())),
            many => {
                let git = self.git().args(["merge-base", "--octopus"]).args(many);
                let (code, out, _) = git.try_run().map_err(failed)?;
                let found = String::from_utf8_lossy(out.trim_ascii_end()).into_owned();
                Ok(Some(found).filter(|found| code == Some(0) && !found.is_empty()))
            }
        }
    }

    /// Whether a commit between these two says that it squashes a unit.
    fn has_squash(&self, old: &str, new: &str) -> Outcome<bool> {
        let said = self
            .git()
            .args(["log", "--first-parent", "--no-show-signature"])
            .arg(format!("--format=%(trailers:key={SQUASHED},valueonly)"))
            .args([&format!("{old}..{new}"), "--"])
            .run()
            .map_err(failed)?;
        Ok(!said.trim_ascii().is_empty())
    }

    /// Notes a commit of the candidate. `head` is the commit before it.
    pub(super) fn note_made(&self, commit: &str, parents: &[String], squashes: bool) {
        let mut facts = self.known.facts();
        facts.graph.grow(commit, parents);
        let head = parents.first();
        if !squashes && head.is_some_and(|head| facts.graph.is_unsquashed(head)) {
            facts.graph.note_unsquashed(commit);
        }
    }

    /// Notes that the candidate went forward from `head` to commits that a unit brought.
    pub(super) fn note_forward(&self, head: &str, tip: &str) -> Outcome<()> {
        if self.known.facts().graph.is_unsquashed(head) && !self.has_squash(head, tip)? {
            self.known.facts().graph.note_unsquashed(tip);
        }
        Ok(())
    }

    /// Whether no squash on the target can matter for this tip, as far as is known.
    pub(super) fn is_plain(&self, target: &str, tip: &str) -> bool {
        self.known.facts().graph.is_plain(target, tip)
    }
}

/// The modes of regular files in a tree.
fn is_file(mode: &str) -> bool {
    matches!(mode, "100644" | "100755")
}
