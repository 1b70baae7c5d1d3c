//! The commits of a worktree: which of them the target has, and which objects nothing else would keep alive.
//!
//! What must hold:
//!
//! - A commit is on the target if the target contains it, or its patch. It is also on the target if merging it into
//!   the target (or into the commit that landed the unit) would change nothing.
//! - Such commits are kept anyway, except those that jit itself squashed. For that exception the log must name the
//!   commit by which the unit landed, and that commit must name the squashed tip and be on the target. It must also
//!   have the content of every file of the squashed commits, and the message of each of them.
//! - Content that a rule resolved differently, or that a later commit reverted, is nowhere on the target. It is kept.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use jit_git::objects::Objects;
use jit_git::{refs, worktrees};
use jit_os::file;
use jit_store::Outcome;

use crate::api::rescue::Kind;
use crate::landing::{messages, squash_base as squashed};
use crate::units::worktree_state::SQUASHED;
use crate::worktrees::rescue::evidence::{Look, failed, lines};
use crate::worktrees::rescue::raw::text;
use crate::worktrees::rescue::walk::What;

impl Look<'_> {
    pub(super) fn commits(&mut self) -> Outcome<()> {
        if self.are_all_on_target()? {
            return Ok(());
        }
        let site = self.site;
        // One process for all questions, in the worktree's own git folder: it has a HEAD of its own.
        let mut objects = Objects::start(site.git()).ok();
        let mut object = |name: &str| -> Outcome<Option<String>> {
            let known = objects.as_mut().and_then(|objects| objects.info(name).ok());
            match known.flatten() {
                Some(found) => Ok(Some(found.id)),
                None => site.git().verify(name).map_err(failed),
            }
        };
        self.out.branch_tip = object(&format!("refs/heads/{}^{{commit}}", site.branch))?;
        if site.admin.is_some() {
            self.out.head = object("HEAD^{commit}")?;
        }
        let mut target = object(&format!("refs/heads/{}^{{commit}}", site.target))?;
        if target.is_none() {
            target = self.renamed_target()?;
        }
        let tips: BTreeSet<String> = [&self.out.branch_tip, &self.out.head]
            .into_iter()
            .flatten()
            .cloned()
            .collect();
        let named = self.sorted(objects, self.named(&tips))?;
        let mut squashed = None;
        let mut not = Vec::new();
        if let Some(target) = &target {
            not.push(format!("^{target}"));
        }
        for tip in &tips {
            let git = self.repository().args(["rev-list", "--max-count=1000", tip]);
            let missing = git.args(&not).run().map_err(failed)?;
            let missing: Vec<String> = lines(&missing).collect();
            if missing.is_empty() {
                continue;
            }
            let landed = match &target {
                Some(target) => self.has_landed(target, tip)?,
                None => false,
            };
            if let (true, Some(target)) = (landed, &target)
                && self.was_squashed(target, tip)?
            {
                squashed = Some(tip.clone());
                continue;
            }
            for commit in missing {
                match landed {
                    true => self.aside(Kind::History, commit),
                    false => self.work(Kind::Commit, commit),
                }
            }
        }
        self.loose(&tips, named, squashed.as_deref())
    }

    /// Returns whether the target has the branch, HEAD, and all that git's files about the worktree name: then they live
    /// as long as the target. The usual case, for which one git process is enough. In doubt, returns false.
    fn are_all_on_target(&mut self) -> Outcome<bool> {
        let site = self.site;
        let tip =
            |branch: &str| refs::commit_of(&site.common, &format!("refs/heads/{branch}")).map_err(failed);
        let (Some(branch), Some(target)) = (tip(&site.branch)?, tip(&site.target)?) else {
            return Ok(false);
        };
        let mut tips = BTreeSet::from([branch.clone()]);
        let mut head = None;
        if let Some(admin) = &site.admin {
            let Ok((_, Some(commit))) = worktrees::head(&site.common, admin) else {
                return Ok(false);
            };
            tips.insert(commit.clone());
            head = Some(commit);
        }
        if site.branch == site.target {
            return Ok(false);
        }
        // Git fails on a name that is no commit here.
        let named = self.named(&tips);
        let ask: String = named.iter().map(|name| format!("{name}^0\n")).collect();
        let left = self
            .repository()
            .args(["rev-list", "--max-count=1", "--stdin"])
            .stdin(format!("{ask}^{target}\n"));
        let (code, left, _) = left.try_run().map_err(failed)?;
        let all = code == Some(0) && left.is_empty();
        if all {
            (self.out.branch_tip, self.out.head) = (Some(branch), head);
        }
        Ok(all)
    }

    /// Returns whether jit squashed exactly this commit into the one by which the unit landed. In addition the target
    /// must have that one, and only commits and trees may be lost. In doubt, returns false.
    fn was_squashed(&self, target: &str, tip: &str) -> Outcome<bool> {
        let Some(landed) = &self.site.merge_commit else {
            return Ok(false);
        };
        let known = self.repository().verify(&format!("{landed}^{{commit}}"));
        if known.map_err(failed)?.as_ref() != Some(landed) || !self.contains(target, landed)? {
            return Ok(false);
        }
        let format = format!("--format=%(trailers:key={SQUASHED},valueonly,separator=%x20)");
        let named = self
            .repository()
            .args([
                "log",
                "--max-count=1",
                "--no-show-signature",
                &format,
                landed,
                "--",
            ])
            .line()
            .map_err(failed)?;
        // The messages of the commits are worth as much as their changes.
        let gone = format!("{landed}..{tip}");
        let there = format!("{tip}..{landed}");
        Ok(named.trim() == tip
            && !self.has_content_besides(landed, tip)?
            && messages::are_told(&|| self.repository(), &gone, &there)?)
    }

    /// Returns whether the commits that `tip` has and `landed` lacks contain a file, or name a submodule's commit,
    /// that `landed` lacks. Git marks only the trees where two histories part as known, so each side is listed without
    /// the other.
    fn has_content_besides(&self, landed: &str, tip: &str) -> Outcome<bool> {
        let objects = |of: &str, but: &str| -> Outcome<BTreeSet<String>> {
            let git = self.repository().args(["rev-list", "--objects", of]);
            let listed = git.arg(format!("^{but}")).run().map_err(failed)?;
            let name = |line: String| line.split(' ').next().map(str::to_owned);
            Ok(lines(&listed).filter_map(name).collect())
        };
        let known = objects(landed, tip)?;
        let gone = objects(tip, landed)?;
        let ask: String = gone.difference(&known).map(|name| format!("{name}\n")).collect();
        let kinds = self
            .repository()
            .args(["cat-file", "--batch-check=%(objecttype)"])
            .stdin(ask)
            .run()
            .map_err(failed)?;
        if !lines(&kinds).all(|kind| matches!(kind.as_str(), "commit" | "tree")) {
            return Ok(true);
        }
        // Commits of submodules are no objects of this repository.
        let changes = self
            .repository()
            .args(["log", "--format=", "--raw", "-m", "--no-abbrev", "--no-renames"])
            .args(["--ignore-submodules=none", "--no-show-signature", "--root", "-r"])
            .args([&format!("{landed}..{tip}"), "--"])
            .run()
            .map_err(failed)?;
        let there = self.repository().args(["ls-tree", "-r", "--full-tree", landed]);
        let there = there.run().map_err(failed)?;
        let there: HashSet<String> = lines(&there)
            .filter_map(|line| {
                Some(
                    line.strip_prefix("160000 commit ")?
                        .split('\t')
                        .next()?
                        .to_owned(),
                )
            })
            .collect();
        // `:<mode before> <mode> <name before> <name> …`
        let names = |line: String| {
            let mut words = line.split(' ').skip(1);
            let is_submodule = words.next() == Some("160000");
            words.nth(1).filter(|_| is_submodule).map(str::to_owned)
        };
        Ok(lines(&changes)
            .filter_map(names)
            .any(|name| !there.contains(&name)))
    }

    /// The target was renamed, or the unit landed elsewhere: finds another branch that contains the landed commit.
    fn renamed_target(&self) -> Outcome<Option<String>> {
        let Some(commit) = &self.site.merge_commit else {
            return Ok(None);
        };
        let known = self.repository().verify(&format!("{commit}^{{commit}}"));
        let Some(commit) = known.map_err(failed)? else {
            return Ok(None);
        };
        let found = self
            .repository()
            .args(["for-each-ref", "--format=%(objectname) %(refname)", "--contains"])
            .args([&commit, "refs/heads"])
            .run()
            .map_err(failed)?;
        let own = format!("refs/heads/{}", self.site.branch);
        Ok(lines(&found)
            .filter_map(|line| {
                line.split_once(' ')
                    .map(|(tip, name)| (tip.to_owned(), name.to_owned()))
            })
            .find(|(_, name)| *name != own)
            .map(|(tip, _)| tip))
    }

    /// Returns whether the changes of a commit are on the target, though the commit itself is not.
    fn has_landed(&self, target: &str, tip: &str) -> Outcome<bool> {
        // The commit by which it landed, if the target contains it.
        let mut merged = None;
        if let Some(commit) = &self.site.merge_commit {
            let commit = self.repository().verify(&format!("{commit}^{{commit}}"));
            merged = commit.map_err(failed)?;
        }
        if let Some(commit) = &merged
            && !self.contains(target, commit)?
        {
            merged = None;
        }
        let joined = |onto: &str| match &merged {
            Some(merged) => squashed::joined_by(&|| self.repository(), merged, onto, tip),
            None => Ok(onto.to_owned()),
        };
        let target = &joined(target)?;
        if self.contains(target, tip)? {
            return Ok(true);
        }
        let range = format!("{target}..{tip}");
        let merges = self
            .repository()
            .args(["rev-list", "--max-count=1", "--min-parents=2", &range])
            .run()
            .map_err(failed)?;
        if merges.is_empty() {
            let marks = self.repository().args(["cherry", target, tip]).run();
            let marks = marks.map_err(failed)?;
            if !marks.is_empty() && lines(&marks).all(|line| line.starts_with('-')) {
                return Ok(true);
            }
        }
        let mut onto = vec![target.to_owned()];
        if let Some(merged) = &merged {
            onto.push(joined(merged)?);
        }
        for onto in onto {
            let tree = self
                .repository()
                .verify(&format!("{onto}^{{tree}}"))
                .map_err(failed)?;
            // A conflict means no.
            let merged = self
                .repository()
                .args(["merge-tree", "--write-tree", &onto, tip])
                .line();
            if tree.is_some() && merged.ok() == tree {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn contains(&self, onto: &str, commit: &str) -> Outcome<bool> {
        let git = self
            .repository()
            .args(["merge-base", "--is-ancestor", commit, onto]);
        git.test().map_err(failed)
    }

    /// Collects the objects that are named in git's files about this worktree.
    fn named(&self, tips: &BTreeSet<String>) -> BTreeSet<String> {
        let site = self.site;
        let mut named: BTreeSet<String> = tips.clone();
        let has_reftable = site.common.join("reftable").is_dir();
        if let Some(admin) = &site.admin {
            for one in self.admin.found.iter().filter(|one| one.what == What::File) {
                let skipped = one.path.starts_with("modules") || one.path == Path::new("index");
                if !skipped && let Ok(Some(content)) = file::read_real(&admin.join(&one.path), 256 << 20) {
                    names_in(&content, &mut named);
                }
            }
            if self.admin.at(Path::new("reftable")).is_some() {
                let log = site.git().args(["reflog", "show", "--format=%H", "HEAD"]);
                names_in(&log.run().unwrap_or_default(), &mut named);
                let refs = site
                    .git()
                    .args(["for-each-ref", "--include-root-refs"])
                    .arg("--format=%(objectname) %(refname)");
                // The other refs belong to all worktrees.
                let own = |name: &str| {
                    let folders = ["refs/worktree/", "refs/bisect/", "refs/rewritten/"];
                    !name.starts_with("refs/") || folders.iter().any(|one| name.starts_with(one))
                };
                for line in lines(&refs.run().unwrap_or_default()) {
                    if let Some((commit, _)) = line.split_once(' ').filter(|(_, name)| own(name)) {
                        named.insert(commit.to_owned());
                    }
                }
            }
        }
        if has_reftable {
            let log = self.repository().args(["reflog", "show", "--format=%H"]);
            let log = log.arg(format!("refs/heads/{}", site.branch)).arg("--").run();
            names_in(&log.unwrap_or_default(), &mut named);
        }
        let log = site.common.join("logs/refs/heads").join(&site.branch);
        if let Ok(Some(content)) = file::read_real(&log, 256 << 20) {
            names_in(&content, &mut named);
        }
        named
    }

    /// Tells commits from other objects. Leaves out what does not exist.
    fn sorted(&self, objects: Option<Objects>, names: BTreeSet<String>) -> Outcome<Named> {
        let mut sorted = Named::default();
        let mut take = |name: &str, kind: &str| match kind {
            "commit" => {
                sorted.commits.insert(name.to_owned());
            }
            "tree" | "blob" => sorted.others.push(name.to_owned()),
            _ => {}
        };
        if let Some(mut objects) = objects {
            let asked = names.iter().map(|name| objects.info(name));
            if let Ok(found) = asked.collect::<std::io::Result<Vec<_>>>() {
                for object in found.into_iter().flatten() {
                    take(&object.id, &object.kind);
                }
                return Ok(sorted);
            }
        }
        let ask: String = names.iter().map(|name| format!("{name}\n")).collect();
        let kinds = self
            .repository()
            .args(["cat-file", "--batch-check=%(objectname) %(objecttype)"])
            .stdin(ask)
            .run()
            .map_err(failed)?;
        for line in lines(&kinds) {
            if let Some((name, kind)) = line.split_once(' ') {
                take(name, kind);
            }
        }
        Ok(sorted)
    }

    /// Finds the named objects that no branch, tag or remote keeps alive. Squashed commits are on the target.
    fn loose(&mut self, tips: &BTreeSet<String>, named: Named, squashed: Option<&str>) -> Outcome<()> {
        let site = self.site;
        let Named { commits, others } = named;
        self.out.loose.extend(others);
        if commits.is_empty() {
            return Ok(());
        }
        let ask: String = commits.iter().map(|name| format!("{name}\n")).collect();
        // Git before 2.42 takes no options from its input.
        let alive = self
            .repository()
            .args(["rev-list", "--stdin", "--not"])
            .arg(format!("--exclude={}", site.branch))
            .args(["--branches", "--tags", "--remotes"])
            .args(squashed)
            .stdin(ask)
            .run();
        let dying: HashSet<String> = match alive {
            Ok(out) => lines(&out).collect(),
            // Some history is broken: everything is kept.
            Err(_) => commits.iter().cloned().collect(),
        };
        for commit in commits.into_iter().filter(|name| dying.contains(name)) {
            if !tips.contains(&commit) {
                self.aside(Kind::History, &commit);
            }
            self.out.loose.push(commit);
        }
        Ok(())
    }
}

/// The objects that git's files about a worktree name.
#[derive(Debug, Default)]
struct Named {
    commits: BTreeSet<String>,
    /// Trees and blobs.
    others: Vec<String>,
}

/// Collects every full object name in a text.
fn names_in(content: &[u8], names: &mut BTreeSet<String>) {
    for word in content.split(|b| !b.is_ascii_alphanumeric()) {
        let is_name = matches!(word.len(), 40 | 64)
            && word
                .iter()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(b))
            && word.iter().any(|b| *b != b'0');
        if is_name {
            names.insert(text(word));
        }
    }
}
