//! Finds what the settings of a repository would make git start (L2).
//!
//! Read are the repository's own files: `config` of the folder that all worktrees share, `config.worktree`, what these
//! include, and the same of each submodule that is checked out. Settings of the system and of the user are trusted.
//!
//! What must hold:
//! - Every value counts, also one that a later one replaces, and every include counts, whatever its condition says: git
//!   uses the first value of some settings, and conditions may hold in another worktree.
//! - A file that cannot be read as git reads it is an error, never "nothing found". So is what lies beyond a limit.
//! - A work tree that `core.worktree` names counts besides the one that was found.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::config::{BadConfig, Setting, settings};
use crate::files::{is_missing, physical, plain, read, read_head};
use crate::git_dir::{GitFolder, Unusable, common_of, explicit_git_dir, git_folder, probe};
use crate::gitlinks::{Wanted, paths};

/// How deep files may include each other, as in git.
const DEEPEST_INCLUDE: usize = 10;
/// How deep submodules may be nested.
const DEEPEST_SUBMODULE: usize = 8;
/// How many included files and submodules are read.
const MOST: usize = 10_000;

/// The purpose of a program, or the kind of place that a setting leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Converts files between the worktree and git: `filter.<name>.*`.
    Filter,
    Merge,
    Sign,
    /// Reaches a server.
    Network,
    /// The folder with the hooks that a push asks.
    Hooks,
    /// A file that cannot be found as git would find it.
    Include,
}

/// A setting of the repository itself that can make git start a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalProgram {
    /// The git folder that all worktrees of the repository share; for a submodule that of the repository around it.
    pub repository: PathBuf,
    pub file: PathBuf,
    /// The full name of the setting.
    pub name: String,
    pub text: String,
    pub(crate) purpose: Use,
    /// Section and subsection, as git needs them in a name.
    pub(crate) driver: OsString,
    pub(crate) key: OsString,
    /// Whether `text` is exactly the value. Otherwise it cannot be approved.
    pub(crate) is_exact: bool,
}

impl LocalProgram {
    /// The name that an attribute gives a filter; empty for other settings.
    pub fn filter(&self) -> &OsStr {
        let name = self.driver.as_bytes().strip_prefix(b"filter.");
        OsStr::from_bytes(name.unwrap_or_default())
    }
}

/// The programs that the settings of a repository would start.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) programs: Vec<LocalProgram>,
    /// Names of settings that jit never needs.
    pub(crate) never: Vec<OsString>,
    /// Whether one of the repositories is a partial clone.
    pub(crate) is_partial: bool,
}

/// The settings could not be read.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) file: PathBuf,
    pub(crate) why: String,
}

fn unreadable(file: &Path, why: impl ToString) -> Unreadable {
    Unreadable {
        file: file.to_owned(),
        why: why.to_string(),
    }
}

impl From<Unusable> for Unreadable {
    fn from(unusable: Unusable) -> Self {
        let (file, why) = match unusable {
            Unusable::Io { path, source } => (path, source.to_string()),
            Unusable::NotARepository { path } => (path, "it is not a git repository".to_owned()),
            Unusable::BadGitFile { file } | Unusable::Dangling { file, .. } => {
                (file, "it leads to no git repository".to_owned())
            }
        };
        Self { file, why }
    }
}

/// A repository as git finds it.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) git_dir: PathBuf,
    pub(crate) common_dir: PathBuf,
    /// The top of the files, if there are any.
    pub(crate) root: Option<PathBuf>,
}

impl Site {
    /// The repository that git would use in `dir`; `None` where it would find none.
    pub(crate) fn find(
        dir: &Path,
        git_dir: Option<&Path>,
        work_tree: Option<&Path>,
    ) -> Result<Option<Self>, Unreadable> {
        let named = work_tree.map(|path| dir.join(path));
        let site = |found: GitFolder, root: Option<PathBuf>| Self {
            git_dir: found.git_dir,
            common_dir: found.common_dir,
            root: named.clone().or(root),
        };
        if let Some(git_dir) = git_dir {
            let found = usable(explicit_git_dir(&dir.join(git_dir), None).map(Some))?;
            return Ok(found.map(|found| site(found, Some(dir.to_owned()))));
        }
        let Ok(dir) = physical(dir) else {
            return Ok(None);
        };
        for folder in dir.ancestors() {
            if let Some(found) = usable(probe(&folder.join(".git"), None))? {
                return Ok(Some(site(found, Some(folder.to_owned()))));
            }
            if let Some(found) = usable(git_folder(folder, None))? {
                return Ok(Some(site(found, None)));
            }
        }
        Ok(None)
    }
}

/// Git itself refuses a link that leads nowhere.
fn usable(found: Result<Option<GitFolder>, Unusable>) -> Result<Option<GitFolder>, Unreadable> {
    match found {
        Err(Unusable::Io { path, source }) => Err(Unusable::Io { path, source }.into()),
        other => Ok(other.unwrap_or_default()),
    }
}

/// Reads what the settings of a repository would start; with `submodules` also those of each submodule that is checked
/// out. `index` is the index that names them.
pub(crate) fn find(site: &Site, submodules: Option<&Path>) -> Result<Found, Unreadable> {
    let mut search = Search::default();
    search.repository(&site.git_dir, &site.common_dir)?;
    if let Some(index) = submodules {
        search.submodules(index, &site.git_dir, site.root.as_deref(), DEEPEST_SUBMODULE)?;
    }
    Ok(search.found)
}

/// The programs that the settings of a repository and of all its worktrees name, with the submodules of `root`.
pub fn programs_of(git_dir: &Path, common_dir: &Path, root: Option<&Path>) -> io::Result<Vec<LocalProgram>> {
    let mut search = Search::default();
    let mut all = || -> Result<(), Unreadable> {
        search.repository(common_dir, common_dir)?;
        let worktrees = std::fs::read_dir(common_dir.join("worktrees"));
        for entry in worktrees.into_iter().flatten().flatten() {
            search.repository(&entry.path(), common_dir)?;
        }
        search.repository(git_dir, common_dir)?;
        search.submodules(&git_dir.join("index"), git_dir, root, DEEPEST_SUBMODULE)
    };
    all().map_err(|bad| io::Error::other(format!("{}: {}", bad.file.display(), bad.why)))?;
    let mut programs = search.found.programs;
    let key = |one: &LocalProgram| (one.name.clone(), one.text.clone(), one.repository.clone());
    programs.sort_by_key(key);
    programs.dedup_by_key(|one| key(one));
    Ok(programs)
}

#[derive(Default)]
struct Search {
    found: Found,
    /// Included files, each with the repository that includes it, and git folders, each with a work tree.
    seen: HashSet<(PathBuf, PathBuf)>,
    /// Bytes of an object id, as the repository that was read last has them.
    oid: usize,
    /// The work trees that the repository that was read last names.
    worktrees: Vec<PathBuf>,
}

impl Search {
    fn repository(&mut self, git_dir: &Path, common_dir: &Path) -> Result<(), Unreadable> {
        let owner = Owner {
            id: top(common_dir),
            common: common_dir.to_owned(),
        };
        self.oid = 20;
        self.worktrees.clear();
        self.file(&common_dir.join("config"), &owner, 0)?;
        let oid = self.oid;
        self.file(&git_dir.join("config.worktree"), &owner, 0)?;
        // Git reads it from the common file only.
        self.oid = oid;
        Ok(())
    }

    /// Whether this was not read before.
    fn is_new(&mut self, what: &Path, of: &Path) -> Result<bool, Unreadable> {
        let is_new = self.seen.insert((what.to_owned(), of.to_owned()));
        match self.seen.len() > MOST {
            true => Err(unreadable(
                what,
                "there are too many included files or submodules",
            )),
            false => Ok(is_new),
        }
    }

    fn file(&mut self, file: &Path, owner: &Owner, depth: usize) -> Result<(), Unreadable> {
        if depth > 0 && !self.is_new(file, &owner.common)? {
            return Ok(());
        }
        let text = match read(file) {
            Ok(text) => text,
            Err(e) if is_missing(&e) => return Ok(()),
            Err(e) => return Err(unreadable(file, e)),
        };
        if depth > DEEPEST_INCLUDE {
            return Err(unreadable(file, "files include each other too deeply"));
        }
        for setting in settings(&text) {
            let setting = setting.map_err(|e: BadConfig| unreadable(file, e))?;
            self.setting(setting, file, owner, depth)?;
        }
        Ok(())
    }

    fn setting(
        &mut self,
        setting: Setting,
        file: &Path,
        owner: &Owner,
        depth: usize,
    ) -> Result<(), Unreadable> {
        let Some(value) = setting.value.as_deref() else {
            return Ok(());
        };
        let is_include = matches!(setting.section.as_slice(), b"include" | b"includeif");
        let mut purpose = match class(&setting, value, owner) {
            Class::Harmless => None,
            Class::Never => {
                self.found.never.push(full_name(&setting));
                None
            }
            Class::Program(purpose) => Some(purpose),
        };
        if is_include && setting.name == b"path" {
            match included(value, file) {
                Some(path) => return self.file(&path, owner, depth + 1),
                None => purpose = Some(Use::Include),
            }
        }
        match (setting.section.as_slice(), setting.name.as_slice()) {
            (b"extensions", b"partialclone") | (b"remote", b"promisor" | b"partialclonefilter") => {
                self.found.is_partial = true;
            }
            // Git follows no includes for these two.
            (b"extensions", b"objectformat") if depth == 0 => {
                self.oid = if value == b"sha256" { 32 } else { 20 };
            }
            (b"core", b"worktree") if depth == 0 => {
                self.worktrees.push(PathBuf::from(OsStr::from_bytes(value)));
            }
            _ => {}
        }
        if let Some(purpose) = purpose {
            let (driver, key) = (driver(&setting), full_name(&setting));
            let text = std::str::from_utf8(value).map(str::to_owned);
            self.found.programs.push(LocalProgram {
                repository: owner.id.clone(),
                file: file.to_owned(),
                name: key.to_string_lossy().into_owned(),
                is_exact: text.is_ok() && key.to_str().is_some(),
                text: text.unwrap_or_else(|_| String::from_utf8_lossy(value).into_owned()),
                purpose,
                driver,
                key,
            });
        }
        Ok(())
    }

    /// Reads the submodules that are checked out in the repository that was read last.
    fn submodules(
        &mut self,
        index: &Path,
        git_dir: &Path,
        root: Option<&Path>,
        deep: usize,
    ) -> Result<(), Unreadable> {
        let mut roots = std::mem::take(&mut self.worktrees);
        for named in &mut roots {
            *named = git_dir.join(&*named);
        }
        roots.extend(root.map(Path::to_owned));
        if roots.is_empty() {
            return Ok(());
        }
        let links = links(index, git_dir, self.oid)?;
        for sub in roots
            .iter()
            .flat_map(|root| links.iter().map(|link| root.join(link)))
        {
            let Some(found) = usable(probe(&sub.join(".git"), None))? else {
                continue;
            };
            let sub = physical(&sub).map_err(|e| unreadable(&sub, e))?;
            if !self.is_new(&found.git_dir, &sub)? {
                continue;
            }
            let Some(deep) = deep.checked_sub(1) else {
                return Err(unreadable(&sub, "submodules are nested too deeply"));
            };
            self.repository(&found.git_dir, &found.common_dir)?;
            self.submodules(&found.git_dir.join("index"), &found.git_dir, Some(&sub), deep)?;
        }
        Ok(())
    }
}

/// The paths of the submodules in an index. A split index has most entries in other files.
fn links(index: &Path, git_dir: &Path, oid: usize) -> Result<Vec<PathBuf>, Unreadable> {
    let beside = std::fs::read_dir(git_dir).into_iter().flatten().flatten();
    let shared = beside.filter(|entry| entry.file_name().as_bytes().starts_with(b"sharedindex."));
    let mut texts = Vec::new();
    for file in std::iter::once(index.to_owned()).chain(shared.map(|entry| entry.path())) {
        match read(&file) {
            Ok(text) => texts.push((file, text)),
            Err(e) if is_missing(&e) => {}
            Err(e) => return Err(unreadable(&file, e)),
        }
    }
    let all = |wanted: Wanted| -> Result<Vec<PathBuf>, Unreadable> {
        let mut found = Vec::new();
        for (file, text) in &texts {
            let paths = paths(text, oid, wanted).ok_or_else(|| unreadable(file, "the index is damaged"));
            found.extend(paths?);
        }
        Ok(found)
    };
    let links = all(Wanted::Submodules)?;
    // An entry without a name replaces one of a shared index, whose number is known to git only.
    match links.iter().any(|link| link.as_os_str().is_empty()) {
        true => all(Wanted::Every),
        false => Ok(links),
    }
}

/// The repository that a file belongs to.
struct Owner {
    /// The name of the repository in approvals.
    id: PathBuf,
    common: PathBuf,
}

/// The folder that all worktrees of the outermost repository share: git folders of submodules are in its `modules`.
fn top(common_dir: &Path) -> PathBuf {
    let modules = |folder: &&Path| folder.file_name() == Some(OsStr::new("modules"));
    let around = common_dir.ancestors().filter(modules).filter_map(Path::parent);
    let Some(around) = around.filter(|folder| read_head(folder).is_ok()).last() else {
        return common_dir.to_owned();
    };
    common_of(around).map_or_else(|_| around.to_owned(), |(common, _)| common)
}

enum Class {
    Harmless,
    Program(Use),
    Never,
}

/// The kind of program that a setting can start. The order of the arms is that of git's documentation of its settings.
fn class(setting: &Setting, value: &[u8], owner: &Owner) -> Class {
    let below = setting.subsection.as_deref();
    let (section, name) = (setting.section.as_slice(), setting.name.as_slice());
    let program = |is_one: bool, purpose: Use| match is_one {
        true => Class::Program(purpose),
        false => Class::Harmless,
    };
    match (section, below, name) {
        (b"core", None, b"sshcommand" | b"gitproxy") => Class::Program(Use::Network),
        (b"core", None, b"hookspath") => program(!is_usual(value, &owner.common), Use::Hooks),
        (b"core", None, b"alternaterefscommand") => Class::Never,
        (b"credential", _, b"helper") | (b"http", _, b"proxy") => program(!value.is_empty(), Use::Network),
        (b"diff", None, b"external") | (b"diff", Some(_), b"command" | b"textconv") => Class::Never,
        (b"hook", Some(_), b"command") => Class::Never,
        (b"filter", Some(_), b"clean" | b"smudge" | b"process") => program(!value.is_empty(), Use::Filter),
        (b"gpg", _, b"program") | (b"gpg", Some(b"ssh"), b"defaultkeycommand") => Class::Program(Use::Sign),
        (b"merge", Some(_), b"driver") => Class::Program(Use::Merge),
        (b"remote", Some(_), b"uploadpack" | b"receivepack" | b"vcs" | b"proxy") => {
            Class::Program(Use::Network)
        }
        (b"remote", Some(_), b"url" | b"pushurl") | (b"submodule", Some(_), b"url") => {
            program(names_a_helper(value), Use::Network)
        }
        (b"remote", None, b"pushdefault") | (b"branch", Some(_), b"remote" | b"pushremote") => {
            program(names_a_helper(value), Use::Network)
        }
        (b"url", Some(base), b"insteadof" | b"pushinsteadof") => program(names_a_helper(base), Use::Network),
        _ => Class::Harmless,
    }
}

/// Whether git would start a program of its own for an address: `<helper>::…`, or a scheme that git does not know.
fn names_a_helper(address: &[u8]) -> bool {
    let known: [&[u8]; 9] = [
        b"file", b"git", b"http", b"https", b"ssh", b"git+ssh", b"ssh+git", b"ftp", b"ftps",
    ];
    let end = address
        .iter()
        .position(|byte| !byte.is_ascii_alphanumeric() && !b"+-.".contains(byte));
    let Some((scheme, rest)) = end.map(|end| address.split_at(end)) else {
        return false;
    };
    rest.starts_with(b"::") || (rest.starts_with(b"://") && !known.contains(&scheme))
}

/// Whether a folder of hooks is in the git folder itself, as the usual one is, or has none.
fn is_usual(value: &[u8], common: &Path) -> bool {
    let path = Path::new(OsStr::from_bytes(value));
    matches!(value, b"" | b"/dev/null") || (path.is_absolute() && plain(path).starts_with(common))
}

/// The file that an include names. `None` if only git knows where that is.
fn included(value: &[u8], file: &Path) -> Option<PathBuf> {
    // Older gits turn a tab into a space.
    if value.iter().any(|byte| *byte < 0x20) {
        return None;
    }
    let path = Path::new(OsStr::from_bytes(value));
    if let Some(below) = value.strip_prefix(b"~/") {
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty())?;
        return Some(PathBuf::from(home).join(OsStr::from_bytes(below)));
    }
    match value.first() {
        Some(b'~' | b'%') => None,
        _ => Some(file.parent().unwrap_or(Path::new("/")).join(path)),
    }
}

/// Section and subsection.
fn driver(setting: &Setting) -> OsString {
    let mut name = setting.section.clone();
    if let Some(below) = &setting.subsection {
        name.push(b'.');
        name.extend(below);
    }
    OsString::from_vec(name)
}

fn full_name(setting: &Setting) -> OsString {
    let mut name = driver(setting).into_vec();
    name.push(b'.');
    name.extend(&setting.name);
    OsString::from_vec(name)
}
