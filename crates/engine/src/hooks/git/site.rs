//! Finds the folder in which git looks for hooks.
//!
//! - `core.hooksPath` not set: `hooks/` of the common directory, which all worktrees share.
//! - `core.hooksPath` absolute: that folder, even if other repositories use it too. In a repository without jit our
//!   hooks do nothing.
//! - `core.hooksPath` relative (husky, `.githooks`): git resolves it against the top of each worktree. If the folder
//!   is missing there, git silently runs no hooks; the folder is often generated and ignored. Its scripts are often
//!   versioned, so nothing is written there. Our hooks go to `jit-hooks/` of the common directory, and
//!   `core.hooksPath` is set to it. Each of our hooks first calls the hook that git would have found in that
//!   worktree.
//!
//! Format: `jit-hooks.json` in the common directory records the state to restore: the old setting, and whether we
//! made the folder. It exists only if there is something to restore.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use jit_core::model::refusal::{Code, Refusal};
use jit_git::{Git, Place};
use jit_os::{file, io_refusal};
use jit_store::Outcome;
use serde::{Deserialize, Serialize};

use crate::refusals::refuse;

/// The largest note that is read back, in bytes.
const MAX_NOTE: u64 = 1 << 16;

/// The value of `core.hooksPath`, as git reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub value: PathBuf,
    /// The scope of git's configuration file that sets it: local, worktree, global, system.
    pub scope: String,
}

#[derive(Debug, Clone)]
pub struct Site {
    pub common: PathBuf,
    /// The folder in which git runs: the top of the worktree, or the git directory of a bare one.
    pub start: PathBuf,
    pub setting: Option<Setting>,
    pub note: Note,
}

/// The state to restore on uninstall.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// We made the folder of hooks.
    #[serde(default)]
    pub made_folder: bool,
    /// The old `core.hooksPath`, byte for byte, if we changed it.
    #[serde(default)]
    pub hooks_path: Option<Vec<u8>>,
    /// Whether the repository's own configuration set it.
    #[serde(default)]
    pub was_local: bool,
    /// The folder that an absolute `core.hooksPath` named, byte for byte.
    #[serde(default)]
    pub folder: Option<Vec<u8>>,
}

impl Site {
    pub fn of(place: &Place) -> Outcome<Self> {
        let (Some(common), Some(git_dir)) = (&place.common_dir, &place.git_dir) else {
            return Err(Box::new(
                Refusal::new(
                    Code::NotFound,
                    "hooks belong to git, and there is no git repository here",
                )
                .help("git init"),
            ));
        };
        let start = place.worktree_root.clone().unwrap_or_else(|| git_dir.clone());
        let asked = Git::in_git_dir(git_dir)
            .args([
                "config",
                "--show-scope",
                "-z",
                "--type=path",
                "--get",
                "core.hooksPath",
            ])
            .run();
        let setting = match asked {
            Ok(bytes) => {
                let mut parts = bytes.split(|b| *b == 0);
                let scope = parts
                    .next()
                    .map(|scope| String::from_utf8_lossy(scope).into_owned());
                let value = parts
                    .next()
                    .map(|value| PathBuf::from(OsString::from_vec(value.to_vec())));
                scope
                    .zip(value)
                    .filter(|(_, value)| !value.as_os_str().is_empty())
                    .map(|(scope, value)| Setting { value, scope })
            }
            // The setting is not set.
            Err(e) if e.code() == Some(1) => None,
            Err(e) => return Err(refuse(Code::Io, e)),
        };
        let path = common.join("jit-hooks.json");
        let note = file::read_real(&path, MAX_NOTE).map_err(|e| io_refusal("read", &path, &e))?;
        let note = match note {
            Some(bytes) => serde_json::from_slice(&bytes).map_err(|e| {
                let message = format!("{} cannot be understood: {e}", path.display());
                Box::new(Refusal::new(Code::Invalid, message).help("mend or remove that file"))
            })?,
            None => Note::default(),
        };
        Ok(Self {
            common: common.clone(),
            start,
            setting,
            note,
        })
    }

    /// Returns our own folder, for repositories with a relative `core.hooksPath`.
    pub fn own(&self) -> PathBuf {
        self.common.join("jit-hooks")
    }

    /// Returns whether `core.hooksPath` names our own folder.
    pub fn is_own(&self) -> bool {
        self.setting.as_ref().is_some_and(|set| set.value == self.own())
    }

    /// Returns the relative folder of the user's hooks, if `core.hooksPath` is or was relative.
    pub fn relative(&self) -> Option<PathBuf> {
        match &self.setting {
            Some(_) if self.is_own() => self
                .note
                .hooks_path
                .as_ref()
                .map(|value| PathBuf::from(OsString::from_vec(value.clone()))),
            Some(set) if set.value.is_relative() => Some(set.value.clone()),
            _ => None,
        }
    }

    /// Returns the folder that our hooks belong into.
    pub fn folder(&self) -> PathBuf {
        match &self.setting {
            None => self.common.join("hooks"),
            Some(_) if self.is_own() => self.own(),
            Some(set) if set.value.is_relative() => self.own(),
            Some(set) => set.value.clone(),
        }
    }

    /// Returns the folder in which git looks now.
    pub fn looked_in(&self) -> PathBuf {
        match &self.setting {
            None => self.common.join("hooks"),
            Some(set) => self.start.join(&set.value),
        }
    }

    /// Returns every folder that may contain hooks of ours.
    pub fn folders(&self) -> Vec<PathBuf> {
        let mut all = vec![self.common.join("hooks"), self.own(), self.folder()];
        all.extend(
            self.note
                .folder
                .clone()
                .map(|path| PathBuf::from(OsString::from_vec(path))),
        );
        all.sort();
        all.dedup();
        all
    }

    /// Sets `core.hooksPath` to our own folder and records the old value.
    pub fn point_at_own(&mut self) -> Outcome<()> {
        let Some(set) = self.setting.clone().filter(|_| !self.is_own()) else {
            return Ok(());
        };
        self.require_one_value()?;
        self.note.hooks_path = Some(set.value.as_os_str().as_bytes().to_vec());
        self.note.was_local = set.scope == "local";
        self.save()?;
        let own = self.own();
        Git::in_git_dir(&self.common)
            .args(["config", "--local", "core.hooksPath"])
            .arg(&own)
            .run()
            .map_err(|e| refuse(Code::Io, e))?;
        self.setting = Some(Setting {
            value: own,
            scope: "local".into(),
        });
        Ok(())
    }

    /// Refuses a setting with several values: git replaces a single value only.
    fn require_one_value(&self) -> Outcome<()> {
        let asked = Git::in_git_dir(&self.common)
            .args(["config", "--local", "-z", "--get-all", "core.hooksPath"])
            .run();
        let values = match asked {
            Ok(values) => values,
            Err(e) if e.code() == Some(1) => return Ok(()),
            Err(e) => return Err(refuse(Code::Io, e)),
        };
        let mut values = values.split(|b| *b == 0).filter(|one| !one.is_empty());
        let last = match (values.next(), values.next_back()) {
            (Some(_), Some(last)) => String::from_utf8_lossy(last).into_owned(),
            _ => return Ok(()),
        };
        let message = "core.hooksPath has several values in this repository's configuration, and git uses the last: \
                       leave one";
        let help = format!(
            "git config --local --replace-all core.hooksPath {}",
            jit_os::shell::shell_word(&last)
        );
        Err(Box::new(Refusal::new(Code::Invalid, message).help(help)))
    }

    /// Restores `core.hooksPath`, unless it has been changed since.
    pub fn point_back(&mut self) -> Outcome<bool> {
        let Some(old) = self.note.hooks_path.take() else {
            return Ok(false);
        };
        if !self.is_own() {
            return Ok(false);
        }
        self.require_one_value()?;
        let git = Git::in_git_dir(&self.common).args(["config", "--local"]);
        let git = match self.note.was_local {
            true => git.arg("core.hooksPath").arg(OsString::from_vec(old)),
            false => git.args(["--unset", "core.hooksPath"]),
        };
        git.run().map_err(|e| refuse(Code::Io, e))?;
        Ok(true)
    }

    /// Writes the state to restore. The file is removed if there is nothing to restore.
    pub fn save(&self) -> Outcome<()> {
        let path = self.common.join("jit-hooks.json");
        let failed = |e: std::io::Error| io_refusal("write", &path, &e);
        if self.note == Note::default() {
            return match std::fs::remove_file(&path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(failed(e)),
                _ => Ok(()),
            };
        }
        let bytes = serde_json::to_vec(&self.note).map_err(|e| refuse(Code::Io, e))?;
        file::replace_here(&path, &bytes).map_err(failed)
    }
}
