//! Predicts the merge of each waiting unit with the target, and keeps what stays right when the target moves.
//!
//! What must hold: a prediction is kept only while it must be the same. The target moved by paths that the unit does not
//! touch, no file was renamed or removed on the way, the attributes are the same, and the two part where they did.
//! Everything else is predicted again.

use std::collections::HashMap;

use jit_store::Outcome;

use super::Repo;
use super::detect::{self, Changed};
use crate::refusals::failed;

/// The prediction for one tip.
#[derive(Debug, Clone, Default)]
pub(crate) struct Predicted {
    base: Option<String>,
    pub(crate) changed: Changed,
    /// The number of paths that do not merge.
    pub(crate) conflicts: usize,
    /// A squash on the target did not matter.
    is_plain: bool,
}

/// The predictions of one run.
#[derive(Debug, Default)]
pub(crate) struct Predictions {
    /// The commit of the target that they hold for.
    target: String,
    by_tip: HashMap<String, Predicted>,
}

impl Predictions {
    /// The prediction for each of these tips, in the same order.
    pub(crate) fn of(&mut self, repo: &Repo, target: &str, tips: &[String]) -> Outcome<Vec<Predicted>> {
        if !repo.has_learned(target, tips) {
            repo.learn(target, tips)?;
        }
        self.forget_outdated(repo, target)?;
        let mut new: Vec<String> = tips.to_vec();
        new.retain(|tip| !self.by_tip.contains_key(tip));
        new.sort();
        new.dedup();
        let predicted = predict(repo, target, &new)?;
        self.by_tip.extend(new.into_iter().zip(predicted));
        let known = tips.iter().map(|tip| self.by_tip.get(tip));
        Ok(known.map(|one| one.cloned().unwrap_or_default()).collect())
    }

    /// Forgets what may be different now that the target is elsewhere.
    fn forget_outdated(&mut self, repo: &Repo, target: &str) -> Outcome<()> {
        if self.target == target {
            return Ok(());
        }
        let before = std::mem::replace(&mut self.target, target.to_owned());
        if self.by_tip.is_empty() {
            return Ok(());
        }
        let moved = changed_between(repo, &[(before, target.to_owned())])?;
        let moved = moved.into_iter().next().unwrap_or_default();
        if moved.paths.iter().any(|path| path.ends_with(".gitattributes")) {
            self.by_tip.clear();
            return Ok(());
        }
        let mut kept = HashMap::new();
        for (tip, known) in self.by_tip.drain() {
            if known.is_plain
                && repo.is_plain(target, &tip)
                && !moved.may_meet(&known.changed)
                && repo.merge_base(target, &tip)? == known.base
            {
                kept.insert(tip, known);
            }
        }
        self.by_tip = kept;
        Ok(())
    }
}

fn predict(repo: &Repo, target: &str, tips: &[String]) -> Outcome<Vec<Predicted>> {
    let mut pairs: Vec<(String, String)> = Vec::with_capacity(tips.len());
    let mut bases = Vec::with_capacity(tips.len());
    for tip in tips {
        let ours = crate::landing::squash_base::joined_in(repo, target, tip)?;
        bases.push(repo.merge_base(&ours, tip)?);
        pairs.push((ours, tip.clone()));
    }
    let since: Vec<(String, String)> = bases
        .iter()
        .zip(tips)
        // Without a base nothing counts as changed.
        .map(|(base, tip)| (base.clone().unwrap_or_else(|| tip.clone()), tip.clone()))
        .collect();
    let changed = changed_between(repo, &since)?;
    let merges = detect::merges(&|| repo.git(), repo.scratch(), target, &pairs)?;
    let all = bases.into_iter().zip(changed).zip(merges).zip(pairs);
    Ok(all
        .map(|(((base, changed), merge), (ours, _))| {
            let count = merge.conflicts.len().max(1);
            let conflicts = if merge.clean { 0 } else { count };
            Predicted {
                // Git would merge them from an empty tree.
                conflicts: if base.is_none() { count } else { conflicts },
                is_plain: ours == target,
                base,
                changed,
            }
        })
        .collect())
}

/// The changes between the commits of each pair, with one process.
fn changed_between(repo: &Repo, pairs: &[(String, String)]) -> Outcome<Vec<Changed>> {
    detect::changed(repo.git(), pairs).map_err(failed)
}
