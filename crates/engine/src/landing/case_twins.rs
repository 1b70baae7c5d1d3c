//! Finds names that a landing adds and that differ from a present name only in case. A file system that ignores case can
//! check out only one of the two.

use std::collections::{BTreeMap, BTreeSet};

use jit_store::Outcome;

use super::Repo;
use crate::refusals::failed;

/// The pairs that are new between two commits: the added path, and the other one.
pub(crate) fn twins(repo: &Repo, old: &str, new: &str) -> Outcome<BTreeSet<(String, String)>> {
    let added = repo
        .git()
        .args(["diff-tree", "-r", "-z", "--name-only", "--no-renames"])
        .args(["--diff-filter=A", old, new, "--"])
        .run()
        .map_err(failed)?;
    let mut names = Names {
        repo,
        listed: BTreeMap::new(),
    };
    let mut found = BTreeSet::new();
    for path in added.split(|b| *b == 0).filter(|path| !path.is_empty()) {
        let path = String::from_utf8_lossy(path).into_owned();
        let (mut folder, mut seen) = (String::new(), 0);
        for part in path.split('/') {
            let lower = part.to_lowercase();
            let alike = names.in_folder(new, &folder)?.get(&lower);
            let twin = alike.and_then(|alike| alike.iter().find(|other| *other != part).cloned());
            if let Some(other) = twin {
                let before = names.in_folder(old, &folder)?.get(&lower);
                // Both were there: nothing that this landing could tell.
                if !before.is_some_and(|before| before.contains(&other) && before.contains(part)) {
                    found.insert((format!("{folder}{part}"), format!("{folder}{other}")));
                }
            }
            seen += part.len() + 1;
            folder = path.get(..seen).unwrap_or_default().to_owned();
        }
    }
    Ok(found)
}

/// The names in one folder, by their form in lower case.
type Folder = BTreeMap<String, BTreeSet<String>>;

/// The names in the folders of commits, each read once.
struct Names<'a> {
    repo: &'a Repo,
    listed: BTreeMap<(String, String), Folder>,
}

impl Names<'_> {
    /// `folder` is empty, or ends with a slash.
    fn in_folder(&mut self, commit: &str, folder: &str) -> Outcome<&Folder> {
        let key = (commit.to_owned(), folder.to_owned());
        if !self.listed.contains_key(&key) {
            let mut names = Folder::new();
            for name in self.repo.names_in(commit, folder.trim_end_matches('/'))? {
                names.entry(name.to_lowercase()).or_default().insert(name);
            }
            self.listed.insert(key.clone(), names);
        }
        Ok(self.listed.entry(key).or_default())
    }
}
