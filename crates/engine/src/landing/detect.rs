//! Predicts merges (H1). One `git merge-tree --stdin` answers for any number of pairs.
//!
//! What must hold:
//!
//! - The verdict, and the tree of a clean merge, come from git itself: the same engine, with the same settings, that
//!   `git merge` would use.
//! - Attributes, and with them merge drivers, are those of the target (`--attr-source`). So a unit cannot bring its
//!   own.
//! - No working tree and no index is read or written.
//!
//! Format read, for each pair:
//!
//! - a status (1 is clean), and the tree;
//! - entries `<mode> <object> <stage>\t<path>` up to an empty one;
//! - messages `<count> <paths…> <type> <text>` up to an empty one.
//!
//! Every field ends with a zero byte.

use std::collections::{BTreeSet, HashMap};

use jit_git::{Git, GitError};
use jit_store::Outcome;

use super::{Repo, merge_base};
use crate::api::landing::FailedRule;
use crate::issues::lineage;
use crate::refusals::failed;

/// One side of a path that did not merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    pub mode: String,
    pub object: String,
    /// 1: the common ancestor, 2: ours, 3: theirs.
    pub stage: u8,
    pub path: Vec<u8>,
}

/// A path that did not merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub path: Vec<u8>,
    /// `content`, `add/add`, `modify/delete`, `rename/rename`, `rename/delete`, `rename/add`, `directory rename`, `mode`,
    /// `binary`, `submodule`, `file/directory`.
    pub kind: String,
    /// The message of git about it.
    pub message: String,
}

impl Conflict {
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.path).into_owned()
    }
}

/// The result of one merge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Merge {
    pub clean: bool,
    /// Contains conflict markers if the merge is not clean.
    pub tree: String,
    pub stages: Vec<Stage>,
    pub conflicts: Vec<Conflict>,
    /// Rules whose commands did not resolve their conflict.
    pub failed_rules: Vec<FailedRule>,
}

/// The changes of one side.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changed {
    /// Includes the old names of renamed files.
    pub paths: BTreeSet<String>,
    /// A path was renamed or removed: then files that the other side adds may have to follow.
    pub moved: bool,
}

impl Changed {
    /// Returns whether a merge of the two may conflict. In doubt, returns true.
    pub fn may_meet(&self, other: &Self) -> bool {
        if self.moved || other.moved {
            return true;
        }
        let below = |paths: &BTreeSet<String>, folder: &str| {
            let inside = format!("{folder}/");
            paths
                .range(inside.clone()..)
                .next()
                .is_some_and(|path| path.starts_with(&inside))
        };
        self.paths
            .iter()
            .any(|path| other.paths.contains(path) || below(&other.paths, path))
            || other.paths.iter().any(|path| below(&self.paths, path))
    }
}

/// Merges each pair of commits, ours first. `git` decides where it runs and which objects it knows.
pub fn merges(git: Git, attributes: &str, pairs: &[(String, String)]) -> Result<Vec<Merge>, GitError> {
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    let lines: String = pairs.iter().map(|(a, b)| format!("{a} {b}\n")).collect();
    // The merge driver is given both commits, if there is only one pair.
    let heads = match pairs {
        [(ours, theirs)] => format!("{ours} {theirs}"),
        _ => String::new(),
    };
    // Histories without a common commit must not abort the whole batch: such a pair is merged from an empty tree.
    let answer = git
        .env(lineage::HEADS, heads)
        .arg(format!("--attr-source={attributes}"))
        .args([
            "merge-tree",
            "--write-tree",
            "--messages",
            "--allow-unrelated-histories",
            "--stdin",
        ])
        .stdin(lines)
        .run()?;
    let unexpected = || GitError::Answer {
        command: "git merge-tree --stdin".to_owned(),
        what: format!("{} pairs, {} bytes", pairs.len(), answer.len()),
    };
    let mut fields = answer.split(|b| *b == 0);
    let mut found = Vec::with_capacity(pairs.len());
    for _ in pairs {
        found.push(one(&mut fields).ok_or_else(unexpected)?);
    }
    Ok(found)
}

fn one<'a>(fields: &mut impl Iterator<Item = &'a [u8]>) -> Option<Merge> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let clean = match fields.next()? {
        b"1" => true,
        b"0" => false,
        _ => return None,
    };
    let mut merge = Merge {
        clean,
        tree: text(fields.next()?),
        ..Merge::default()
    };
    loop {
        let entry = fields.next()?;
        if entry.is_empty() {
            break;
        }
        let tab = entry.iter().position(|b| *b == b'\t')?;
        let (head, path) = (text(entry.get(..tab)?), entry.get(tab + 1..)?.to_vec());
        let mut words = head.split(' ').map(str::to_owned);
        let (mode, object, stage) = (words.next()?, words.next()?, words.next()?.parse().ok()?);
        merge.stages.push(Stage {
            mode,
            object,
            stage,
            path,
        });
    }
    loop {
        let count = fields.next()?;
        if count.is_empty() {
            break;
        }
        let count: usize = text(count).parse().ok()?;
        let mut paths = Vec::with_capacity(count.min(8));
        for _ in 0..count {
            paths.push(fields.next()?.to_vec());
        }
        let (short, message) = (text(fields.next()?), text(fields.next()?));
        let Some(kind) = kind(&short, &message) else {
            continue;
        };
        let path = paths.into_iter().next().unwrap_or_default();
        let message = message.trim_end().to_owned();
        match merge.conflicts.iter_mut().find(|known| known.path == path) {
            // The more specific kind stays: a binary file has conflicting contents too.
            Some(known) if known.kind == "content" => {
                known.kind = kind;
                known.message = message;
            }
            Some(_) => {}
            None => merge.conflicts.push(Conflict { path, kind, message }),
        }
    }
    if !clean && merge.conflicts.is_empty() {
        let paths: BTreeSet<&Vec<u8>> = merge.stages.iter().map(|stage| &stage.path).collect();
        merge.conflicts = paths
            .into_iter()
            .map(|path| Conflict {
                path: path.clone(),
                kind: "content".to_owned(),
                message: String::new(),
            })
            .collect();
    }
    Some(merge)
}

/// The single name of a kind of conflict; `None` for messages that are only informative.
fn kind(short: &str, message: &str) -> Option<String> {
    let inner = short
        .strip_prefix("CONFLICT")
        .or_else(|| short.strip_prefix("ERROR"))?
        .trim_start()
        .strip_prefix('(')?
        .trim_end_matches(')');
    Some(
        match inner {
            "contents" if message.contains("CONFLICT (add/add)") => "add/add",
            "contents" if message.contains("CONFLICT (submodule)") => "submodule",
            "contents" => "content",
            "distinct modes" => "mode",
            "rename involved in collision" => "rename/add",
            other if other.contains("submodule") => "submodule",
            other if other.contains("directory rename") => "directory rename",
            other => other,
        }
        .to_owned(),
    )
}

/// Lists the changes between the trees of each pair, with one process.
pub fn changed(git: Git, pairs: &[(String, String)]) -> Result<Vec<Changed>, GitError> {
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    let lines: String = pairs.iter().map(|(a, b)| format!("{a} {b}\n")).collect();
    let answer = git
        .args([
            "diff-tree",
            "--stdin",
            "-r",
            "-z",
            "-M",
            "--name-status",
            "--no-ext-diff",
        ])
        .stdin(lines)
        .run()?;
    let unexpected = || GitError::Answer {
        command: "git diff-tree --stdin".to_owned(),
        what: format!("{} pairs, {} bytes", pairs.len(), answer.len()),
    };
    let mut rest: &[u8] = &answer;
    let mut found = Vec::with_capacity(pairs.len());
    for (n, (a, b)) in pairs.iter().enumerate() {
        rest = rest
            .strip_prefix(format!("{a} {b}\n").as_bytes())
            .ok_or_else(unexpected)?;
        let next = pairs.get(n + 1).map(|(a, b)| format!("{a} {b}\n").into_bytes());
        let mut changed = Changed::default();
        while !rest.is_empty() && !next.as_ref().is_some_and(|next| rest.starts_with(next)) {
            let mut field = || {
                let end = rest.iter().position(|b| *b == 0)?;
                let (field, more) = (rest.get(..end)?, rest.get(end + 1..)?);
                rest = more;
                Some(field)
            };
            let status = field().ok_or_else(unexpected)?.first().copied().unwrap_or(b'?');
            let names = if matches!(status, b'R' | b'C') { 2 } else { 1 };
            changed.moved |= matches!(status, b'R' | b'D' | b'T');
            for _ in 0..names {
                let path = field().ok_or_else(unexpected)?;
                changed.paths.insert(String::from_utf8_lossy(path).into_owned());
            }
        }
        found.push(changed);
    }
    Ok(found)
}

impl Repo {
    /// The tree of each revision, in the same order.
    pub fn trees(&self, git: impl Fn() -> Git, revisions: &[String]) -> Outcome<Vec<String>> {
        if revisions.is_empty() {
            return Ok(Vec::new());
        }
        let names = revisions.iter().map(|revision| format!("{revision}^{{tree}}"));
        let out = git().arg("rev-parse").args(names).run().map_err(failed)?;
        Ok(String::from_utf8_lossy(&out).lines().map(str::to_owned).collect())
    }

    /// Finds where each of these commits left the target: the best common ancestor, `None` for unrelated histories.
    ///
    /// One process lists the commits that the target lacks, with their parents. The commits where that list ends
    /// belong to the target. If there is exactly one below a tip, it is the ancestor. Only the remaining tips cost one
    /// git process each.
    pub fn bases(
        &self,
        git: impl Fn() -> Git,
        target: &str,
        tips: &[String],
    ) -> Outcome<Vec<Option<String>>> {
        if tips.is_empty() {
            return Ok(Vec::new());
        }
        let wanted: String = tips.iter().map(|tip| format!("{tip}\n")).collect();
        let out = git()
            .args(["rev-list", "--parents", "--stdin"])
            .stdin(format!("{wanted}^{target}\n"))
            .run()
            .map_err(failed)?;
        let out = String::from_utf8_lossy(&out);
        let mut parents: HashMap<&str, Vec<&str>> = HashMap::new();
        for line in out.lines() {
            let mut words = line.split(' ');
            if let Some(commit) = words.next() {
                parents.insert(commit, words.collect());
            }
        }
        let mut bases = Vec::with_capacity(tips.len());
        for tip in tips {
            let mut ends = BTreeSet::new();
            let mut seen = BTreeSet::new();
            let mut next = vec![tip.as_str()];
            while let Some(commit) = next.pop() {
                match parents.get(commit) {
                    _ if !seen.insert(commit) => {}
                    Some(above) => next.extend(above),
                    None => {
                        ends.insert(commit);
                    }
                }
            }
            let mut ends = ends.into_iter();
            bases.push(match (ends.next(), ends.next()) {
                (None, _) => None,
                (Some(only), None) => Some(only.to_owned()),
                (Some(_), Some(_)) => merge_base(git(), target, tip)?,
            });
        }
        Ok(bases)
    }

    /// Returns what each of these commits changed since it left the target, and where it left.
    pub fn changes(&self, target: &str, tips: &[String]) -> Outcome<Vec<(Option<String>, Changed)>> {
        self.changes_in(|| self.git(), target, tips)
    }

    /// Like [`Repo::changes`], for commits that only this git knows.
    pub fn changes_in(
        &self,
        git: impl Fn() -> Git,
        target: &str,
        tips: &[String],
    ) -> Outcome<Vec<(Option<String>, Changed)>> {
        let bases = self.bases(&git, target, tips)?;
        let known: Vec<String> = bases
            .iter()
            .zip(tips)
            .flat_map(|(base, tip)| [base.clone().unwrap_or_else(|| tip.clone()), tip.clone()])
            .collect();
        let trees = self.trees(&git, &known)?;
        let pairs: Vec<(String, String)> = trees
            .chunks_exact(2)
            .filter_map(|pair| Some((pair.first()?.clone(), pair.get(1)?.clone())))
            .collect();
        let changed = changed(git(), &pairs).map_err(failed)?;
        Ok(bases.into_iter().zip(changed).collect())
    }
}
