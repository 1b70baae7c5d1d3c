//! Predicts merges (H1). One `git merge-tree --stdin` answers for any number of pairs.
//!
//! What must hold:
//!
//! - The verdict, and the tree of a clean merge, come from git itself: the same engine, with the same settings, that
//!   `git merge` would use.
//! - Attributes, and with them merge drivers, are those of the target. So a unit cannot bring its own. Git reads them
//!   from the commit (`--attr-source`). Git before 2.41 reads them from a folder with only these files (`attributes`).
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
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use jit_git::{Git, GitError};
use jit_store::Outcome;

use super::attributes::CheckedOut;
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

/// The kind of conflict of two histories without a common commit.
pub const UNRELATED: &str = "unrelated histories";

/// The kind of conflict of a file that each side renamed to another name.
const RENAMED_TWICE: &str = "rename/rename";

/// The git on PATH does not know `--attr-source` (before 2.41).
static IS_OLD_GIT: AtomicBool = AtomicBool::new(false);

/// Merges each pair of commits, ours first, with the attributes of a commit. `git` decides where it runs and which objects
/// it knows. An older git finds the attributes in a folder that is made in `scratch`.
pub fn merges(
    git: &dyn Fn() -> Git,
    scratch: &Path,
    attributes: &str,
    pairs: &[(String, String)],
) -> Outcome<Vec<Merge>> {
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    if !IS_OLD_GIT.load(Ordering::Relaxed) {
        match merged(git().arg(format!("--attr-source={attributes}")), pairs) {
            Err(e) if is_unknown_option(&e) => IS_OLD_GIT.store(true, Ordering::Relaxed),
            merged => return merged.map_err(failed),
        }
    }
    let files = CheckedOut::of(git, attributes, scratch)?;
    merged(files.apply(git()), pairs).map_err(failed)
}

fn is_unknown_option(error: &GitError) -> bool {
    matches!(error, GitError::Failed { stderr, .. } if error.code() == Some(129) && stderr.contains("--attr-source"))
}

fn merged(git: Git, pairs: &[(String, String)]) -> Result<Vec<Merge>, GitError> {
    let lines: String = pairs.iter().map(|(a, b)| format!("{a} {b}\n")).collect();
    // The merge driver is given both commits, if there is only one pair.
    let heads = match pairs {
        [(ours, theirs)] => format!("{ours} {theirs}"),
        _ => String::new(),
    };
    // Histories without a common commit must not abort the whole batch: such a pair is merged from an empty tree.
    let answer = git
        .env(lineage::HEADS, heads)
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
        let mut paths: Vec<Vec<u8>> = Vec::with_capacity(count.min(8));
        for _ in 0..count {
            paths.push(fields.next()?.to_vec());
        }
        let (short, message) = (text(fields.next()?), text(fields.next()?));
        let Some(kind) = kind(&short, &message) else {
            continue;
        };
        // Of a file that each side renamed, the old name and both new ones are told.
        let named = if kind == RENAMED_TWICE { paths.len() } else { 1 };
        paths.resize(paths.len().max(1), Vec::new());
        for path in paths.into_iter().take(named.max(1)) {
            let (kind, message) = (kind.clone(), message.trim_end().to_owned());
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

/// Lists the changes between the commits of each pair, older first, with one process. No commit is the newer one of two
/// pairs.
pub fn changed(git: Git, pairs: &[(String, String)]) -> Result<Vec<Changed>, GitError> {
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    // Git compares the newer commit as if the older one were its only parent.
    let lines: String = pairs.iter().map(|(old, new)| format!("{new} {old}\n")).collect();
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
    let mut found: HashMap<String, Changed> = HashMap::new();
    let mut commit = String::new();
    let mut fields = answer.split(|b| *b == 0).filter(|field| !field.is_empty());
    while let Some(field) = fields.next() {
        let text = String::from_utf8_lossy(field);
        // A status is short; each path follows its status.
        if matches!(field.len(), 40 | 64) {
            // A commit without changes is not printed.
            commit = text.into_owned();
            continue;
        }
        let status = field.first().copied().unwrap_or(b'?');
        let changed = found.entry(commit.clone()).or_default();
        changed.moved |= matches!(status, b'R' | b'D' | b'T');
        let names = if matches!(status, b'R' | b'C') { 2 } else { 1 };
        for path in fields.by_ref().take(names) {
            changed.paths.insert(String::from_utf8_lossy(path).into_owned());
        }
    }
    let of = |(_, new): &(String, String)| found.remove(new).unwrap_or_default();
    Ok(pairs.iter().map(of).collect())
}

impl Repo {
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

    /// Returns what each of these commits changed since it left the target, and where it left. `git` knows the commits.
    pub fn changes_in(
        &self,
        git: impl Fn() -> Git,
        target: &str,
        tips: &[String],
    ) -> Outcome<Vec<(Option<String>, Changed)>> {
        let bases = self.bases(&git, target, tips)?;
        // Without a base nothing counts as changed.
        let pairs: Vec<(String, String)> = bases
            .iter()
            .zip(tips)
            .map(|(base, tip)| (base.clone().unwrap_or_else(|| tip.clone()), tip.clone()))
            .collect();
        let changed = changed(git(), &pairs).map_err(failed)?;
        Ok(bases.into_iter().zip(changed).collect())
    }
}
