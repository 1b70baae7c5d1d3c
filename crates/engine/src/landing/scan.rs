//! Looks through the changes of all waiting units at once, for what only few of them have: conflict markers and
//! submodules.
//!
//! What must hold: a unit counts as free of them only if git has looked at exactly that commit. Any other unit is examined
//! by itself.

use std::collections::{HashMap, HashSet};

use jit_store::Outcome;

use super::Repo;
use crate::refusals::failed;
use crate::units::worktree_state::MARKED;

/// The mode of a submodule in a tree.
const GITLINK: &str = "160000";

/// Properties of the changes of some tips.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    seen: HashSet<String>,
    with_markers: HashSet<String>,
    with_submodules: HashSet<String>,
}

impl Scan {
    /// Looks at the changes of these tips since they left the target.
    pub(crate) fn of(repo: &Repo, target: &str, tips: &[String]) -> Outcome<Self> {
        let mut lines = String::new();
        let mut seen = HashSet::new();
        for tip in tips {
            if let Some(base) = repo.merge_base(target, tip)?
                && seen.insert(tip.clone())
            {
                // Compared as if the base were its only parent.
                lines.push_str(&format!("{tip} {base}\n"));
            }
        }
        if seen.is_empty() {
            return Ok(Self::default());
        }
        let look = |more: &[&str]| {
            repo.git()
                .args(["diff-tree", "--stdin", "-r", "-z", "--raw", "--no-abbrev"])
                .args(["--no-renames", "--no-ext-diff", "--no-textconv"])
                .arg("--ignore-submodules=none")
                .args(more)
                .stdin(lines.clone())
                .run()
                .map_err(failed)
        };
        let with_markers = by_commit(&look(&[MARKED])?).into_keys().collect();
        let modes = by_commit(&look(&[])?);
        let has_submodule = |modes: &Vec<String>| modes.iter().any(|mode| mode == GITLINK);
        let found = modes.into_iter().filter(|(_, modes)| has_submodule(modes));
        Ok(Self {
            seen,
            with_markers,
            with_submodules: found.map(|(tip, _)| tip).collect(),
        })
    }

    /// The changes add and remove no line that looks like a conflict marker.
    pub(crate) fn has_no_markers(&self, tip: &str) -> bool {
        self.seen.contains(tip) && !self.with_markers.contains(tip)
    }

    /// No submodule changes.
    pub(crate) fn has_no_submodules(&self, tip: &str) -> bool {
        self.seen.contains(tip) && !self.with_submodules.contains(tip)
    }
}

/// The modes before and after of the paths that each commit changes, in the output of `git diff-tree --stdin --raw -z`. A
/// commit without such a path does not appear.
fn by_commit(out: &[u8]) -> HashMap<String, Vec<String>> {
    let mut found: HashMap<String, Vec<String>> = HashMap::new();
    let mut commit = String::new();
    let mut fields = out.split(|b| *b == 0).filter(|field| !field.is_empty());
    while let Some(field) = fields.next() {
        let text = String::from_utf8_lossy(field);
        match text.strip_prefix(':') {
            Some(entry) => {
                let modes = entry.split(' ').take(2).map(str::to_owned);
                found.entry(commit.clone()).or_default().extend(modes);
                // Its path.
                fields.next();
            }
            None => commit = text.into_owned(),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h1_a_path_is_not_taken_for_a_commit() {
        let out = b"c1\0:100644 100644 a b M\0c2\0:000000 160000 a b A\0sub\0c3\0:100644 000000 a b D\0:x\0";
        let found = by_commit(out);
        assert_eq!(found["c1"], ["100644", "100644", "000000", "160000"]);
        assert_eq!(found["c3"], ["100644", "000000"]);
        assert_eq!(found.len(), 2);
    }
}
