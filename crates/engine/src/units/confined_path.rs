//! The path of a new unit's worktree, from the template `worktree.path` (G2, L1).
//!
//! What must hold:
//!
//! - A template from a repository's own file leads into a folder beside the main checkout that is named after it
//!   (`app-worktrees`), after links are followed, and nowhere else. A worktree holds files of the repository: in
//!   `~/.config/git`, in `node_modules` or on PATH they would be programs.
//! - It never leads below a name that begins with a dot, into another checkout, into a git folder, or into the user's
//!   folders for settings and data.
//! - The default, the user's own settings, variables and `--path` are the user's word: they may name any place.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use jit_core::model::refusal::{Code, Refusal};
use jit_os::shell::shell_word;
use jit_store::Outcome;

use crate::config::Config;
use crate::context::{Context, comes_with_repository};
use crate::refusals::refuse;
use crate::units::{self, Words};

const KEY: &str = "worktree.path";

/// Returns the path of a new unit's worktree. `home` is the folder that the template is relative to.
pub(crate) fn worktree_path(cx: &Context, home: &Path, words: Words<'_>) -> Outcome<PathBuf> {
    let template = cx.config.worktree_path();
    let filled = units::fill(template, words).map_err(|why| refuse(Code::Invalid, why))?;
    let path = units::place(home, &filled);
    if template == Config::default().worktree_path() || !comes_with_repository(cx, KEY) {
        return Ok(path);
    }
    judge(&path, home, words.repository, &users_folders()).map_err(|why| {
        let name = shell_word(words.issue.unwrap_or(words.unit.as_str()));
        let message = format!(
            "{KEY} in this repository's own settings leads to {}: {why}",
            path.display()
        );
        let own = shell_word(Config::default().worktree_path());
        Box::new(
            Refusal::new(Code::NotAllowed, message)
                .help(format!("jit worktree create {name} --path <folder>"))
                .help(format!("jit config set --user {KEY} {own}")),
        )
    })?;
    Ok(path)
}

/// Returns the folders that programs of this user read settings and data from.
fn users_folders() -> Vec<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let named = [
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
        "XDG_CACHE_HOME",
    ];
    let named = named.into_iter().filter_map(set);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<PathBuf> = std::env::split_paths(&paths).collect();
    named
        .chain(on_path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| real(&folder))
        .collect()
}

/// Returns the reason why a repository may not place a worktree at this path.
fn judge(path: &Path, home: &Path, repository: &str, forbidden: &[PathBuf]) -> Result<(), String> {
    let beside = || format!("it may only lead to {repository}-…/ beside the main checkout");
    let around = home.parent().map(real).ok_or_else(beside)?;
    let path = real(path);
    let below = path.strip_prefix(&around).map_err(|_| beside())?;
    let first = below.iter().next().unwrap_or_default();
    let rest = first.as_bytes().strip_prefix(repository.as_bytes());
    if !rest.is_some_and(|rest| matches!(rest, [b'-' | b'.', _, ..])) {
        return Err(beside());
    }
    if let Some(hidden) = below.iter().find(|name| name.as_bytes().starts_with(b".")) {
        return Err(format!("{} begins with a dot", hidden.display()));
    }
    if let Some(folder) = forbidden.iter().find(|folder| path.starts_with(folder)) {
        return Err(format!(
            "programs read settings or are found in {}",
            folder.display()
        ));
    }
    let mut between = path.ancestors().skip(1).take_while(|folder| *folder != around);
    match between.find(|folder| is_gits(folder)) {
        Some(folder) => Err(format!("{} belongs to git already", folder.display())),
        None => Ok(()),
    }
}

/// Returns whether this folder is a checkout, or a git folder.
fn is_gits(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).symlink_metadata().is_ok();
    has(".git") || (has("HEAD") && has("objects") && has("refs"))
}

/// Returns the path with links followed, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let mut missing: Vec<&OsStr> = Vec::new();
    for folder in path.ancestors() {
        // A link that leads nowhere is not missing: something may be made where it leads.
        if folder.symlink_metadata().is_err() {
            missing.extend(folder.file_name());
            continue;
        }
        let Ok(there) = folder.canonicalize() else {
            break;
        };
        return missing.iter().rev().fold(there, |path, name| path.join(name));
    }
    // It leads nowhere that is allowed.
    PathBuf::from("/")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    struct Ground {
        _folder: tempfile::TempDir,
        top: PathBuf,
    }

    impl Ground {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let top = folder.path().canonicalize().expect("physical");
            for name in [
                "app/.git",
                "app-other/.git",
                "app-bare/objects",
                "app-bare/refs",
                "out",
            ] {
                fs::create_dir_all(top.join(name)).expect("a folder");
            }
            fs::write(top.join("app-bare/HEAD"), "ref: refs/heads/main\n").expect("a file");
            Self { _folder: folder, top }
        }

        fn judge(&self, template: &str) -> Result<(), String> {
            let home = self.top.join("app");
            let unit = "u1".parse().expect("a unit");
            let words = Words {
                unit: &unit,
                repository: "app",
                issue: None,
            };
            let filled = units::fill(template, words).expect("a path");
            judge(
                &units::place(&home, &filled),
                &home,
                "app",
                &[self.top.join("app-conf")],
            )
        }
    }

    #[test]
    fn l1_a_repository_places_worktrees_only_beside_its_checkout() {
        let ground = Ground::new();
        for fine in [
            "../{repo}-worktrees/{unit}",
            "../app-{unit}",
            "../app.wt/deep/{unit}",
            "x/../../app-w/{unit}",
        ] {
            assert_eq!(ground.judge(fine), Ok(()), "{fine}");
        }
        for bad in [
            "{unit}/../../../.config/git",
            "../.config/{unit}",
            "../node_modules/{unit}",
            "../bin/{unit}",
            "../{unit}",
            "../app",
            "../app-",
            "../apple/{unit}",
            "../app-w/.git/{unit}",
            "../app-w/.Git",
            "../app-conf/{unit}",
            "../app-other/{unit}",
            "../app-other/src/{unit}",
            "../app-bare/{unit}",
            "../app-w/../../{unit}",
            "/etc/{unit}",
            "/",
            "..",
            "",
        ] {
            assert!(ground.judge(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn l1_links_are_followed_before_a_place_is_judged() {
        let ground = Ground::new();
        symlink(ground.top.join("out"), ground.top.join("app-link")).expect("a link");
        symlink("app-real", ground.top.join("app-short")).expect("a link");
        symlink("/nowhere/at/all", ground.top.join("app-hanging")).expect("a link");
        assert!(ground.judge("../app-link/{unit}").is_err());
        assert!(ground.judge("../app-hanging/{unit}").is_err());
        assert!(
            ground.judge("../app-short/{unit}").is_err(),
            "it leads nowhere yet"
        );
        fs::create_dir(ground.top.join("app-real")).expect("a folder");
        assert_eq!(ground.judge("../app-short/{unit}"), Ok(()));
    }
}
