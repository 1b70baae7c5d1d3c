//! Finds the owner of a path: this session's own worktree, another checkout of the same repository, git's folder, jit's
//! state, or a file that restrains agents.
//!
//! What must hold:
//! - Links, `..` and upper or lower case do not matter. Folders are compared by device and inode. A link counts as
//!   its target, even if the target does not exist yet. A path that equals a guarded one but for case is judged as that
//!   one: the file system may not tell them apart.
//! - Of nested checkouts the innermost counts.
//! - Files that restrain agents count as such wherever they are: jit's own settings and approvals of the user, the
//!   settings of agent programs that register hooks, git's hooks and configuration, the `.git` file of a worktree. The
//!   user's files are those below `HOME` and those below the home folder of the account.
//! - No process is started.
//!
//! Limitations: if a folder on the path changes between this check and the agent's write, the write may go elsewhere.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use jit_agents::hooks::settings;
use jit_git::{DiscoverError, Place};

use crate::identity::{data_folder, user_folder};

/// The longest path that the system accepts, in bytes.
const LONGEST: usize = 4096;
const MOST_LINKS: usize = 40;
/// The most paths that are remembered.
const MOST_KNOWN: usize = 1000;

type Inode = (u64, u64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    pub root: PathBuf,
    pub branch: Option<String>,
    pub is_main: bool,
}

impl Tree {
    /// Returns a name of this checkout for messages.
    pub fn title(&self) -> String {
        let kind = if self.is_main {
            "the main checkout"
        } else {
            "another worktree"
        };
        format!("{kind} {}", self.root.display())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose<'a> {
    Own,
    Other(&'a Tree),
    /// This worktree's part of git's own folder: for git commands, not for tools.
    OwnGit,
    /// Git's own folder, except this worktree's part of it.
    Git,
    /// The folder of jit's log.
    State,
    /// A file that decides what agents may do.
    Restraint,
    Elsewhere,
}

#[derive(Debug, Clone)]
enum Mark {
    Own,
    Other(usize),
    OwnGit,
    Git,
    State,
}

/// A folder whose owner is known.
#[derive(Debug, Clone)]
struct Marked {
    path: PathBuf,
    inode: Inode,
    mark: Mark,
}

/// The folders and branches around a session, with their owners.
#[derive(Debug, Clone)]
pub struct Ground {
    pub own: PathBuf,
    pub own_branch: Option<String>,
    pub others: Vec<Tree>,
    /// Branches in which another agent holds a lease, each with its holder.
    pub held: Vec<(String, String)>,
    pub home: Option<PathBuf>,
    /// The agent id of the session, if known. Calling jit under any other id is an objection.
    pub agent: Option<String>,
    marks: Vec<Marked>,
    /// Files and folders that decide what agents may do, as physical paths.
    restraints: Vec<PathBuf>,
    /// Those of them that exist.
    restraining: Vec<Inode>,
    links: RefCell<Links>,
}

/// The links on the paths of one step. Each is read once: every path that restrains agents is compared with each path
/// of the step.
#[derive(Debug, Clone, Default)]
struct Links(HashMap<PathBuf, Option<PathBuf>>);

impl Links {
    /// Returns the target of a link; `None` if there is no link.
    fn target(&mut self, path: &Path) -> Option<PathBuf> {
        if let Some(known) = self.0.get(path) {
            return known.clone();
        }
        let target = std::fs::read_link(path).ok();
        if self.0.len() < MOST_KNOWN {
            self.0.insert(path.to_owned(), target.clone());
        }
        target
    }

    /// Follows each link, from the root on. What does not exist counts as a file or folder, and so does a link that leads
    /// back to itself.
    fn physical(&mut self, path: &Path) -> PathBuf {
        let here = std::env::current_dir().unwrap_or_default();
        let mut found = PathBuf::new();
        for part in here.join(path).components() {
            self.follow(&mut found, part.as_os_str().into());
        }
        found
    }

    /// Adds a part to a physical path.
    fn follow(&mut self, found: &mut PathBuf, part: PathBuf) {
        let (mut rest, mut links) = (vec![part], MOST_LINKS);
        while let Some(part) = rest.pop() {
            if part == Path::new("..") {
                found.pop();
                continue;
            }
            // The root replaces all before it.
            found.push(part);
            if links > 0
                && let Some(target) = self.target(found)
            {
                links -= 1;
                found.pop();
                let parts = target.components().rev();
                rest.extend(parts.map(|part| PathBuf::from(part.as_os_str())));
            }
        }
    }
}

impl Ground {
    pub fn survey(place: &Place, home: Option<PathBuf>) -> Result<Self, DiscoverError> {
        let own = place.worktree_root.clone().unwrap_or_else(|| place.start.clone());
        let mut ground = Self {
            own_branch: place.branch()?,
            others: Vec::new(),
            held: Vec::new(),
            home,
            agent: None,
            marks: Vec::new(),
            restraints: Vec::new(),
            restraining: Vec::new(),
            links: RefCell::default(),
            own,
        };
        let own = ground.own.clone();
        ground.mark(&own, Mark::Own);
        ground.mark(&place.control_dir, Mark::State);
        let (Some(common), Some(git_dir)) = (&place.common_dir, &place.git_dir) else {
            return Ok(ground);
        };
        // The main worktree's git folder is the common one, except for the folders of the other worktrees.
        if common == git_dir {
            ground.mark(common, Mark::OwnGit);
            ground.mark(&common.join("worktrees"), Mark::Git);
        } else {
            ground.mark(common, Mark::Git);
            ground.mark(git_dir, Mark::OwnGit);
        }
        for entry in crate::worktree_identity::list(common)? {
            let Some(root) = entry.root.filter(|_| entry.git_dir != *git_dir) else {
                continue;
            };
            ground.mark(&root, Mark::Other(ground.others.len()));
            ground.others.push(Tree {
                root,
                branch: entry.branch,
                is_main: entry.is_main,
            });
        }
        Ok(ground)
    }

    /// Adds the files that restrain agents, as these variables of the environment place them, and those in the home
    /// folder of the account, whatever the variables say.
    pub fn restrain(
        &mut self,
        place: &Place,
        var: impl Fn(&str) -> Option<OsString>,
        account: Option<&Path>,
    ) {
        let of_account = |name: &str| account.filter(|_| name == "HOME").map(OsString::from);
        let mut all = self.restraining(var);
        all.extend(self.restraining(of_account));
        if let Some(common) = &place.common_dir {
            all.extend(["config", "hooks"].map(|name| common.join(name)));
        }
        if let Some(own) = place
            .git_dir
            .as_ref()
            .filter(|own| place.common_dir.as_ref() != Some(own))
        {
            all.push(self.own.join(".git"));
            all.extend(["commondir", "gitdir", "config.worktree"].map(|name| own.join(name)));
        }
        let root = Path::new("/");
        self.restraints = all.iter().filter_map(|path| self.physical(path, root)).collect();
        self.restraining = self.restraints.iter().filter_map(|path| inode(path)).collect();
    }

    /// Returns the files of the project and of the user that restrain agents.
    fn restraining(&self, var: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
        let mut all = settings::restraining(&self.own, &var);
        all.extend(user_folder(&var));
        all.extend(data_folder(&var));
        all
    }

    /// Returns whether the path is a file that restrains agents, under this or another name.
    fn restrains(&self, path: &Path) -> bool {
        let is_one = |inode: Inode| self.restraining.contains(&inode);
        self.restraints.iter().any(|one| is_below(path, one)) || inode(path).is_some_and(is_one)
    }

    fn mark(&mut self, folder: &Path, mark: Mark) {
        if let Some(inode) = inode(folder) {
            let path = self.links.borrow_mut().physical(folder);
            self.marks.push(Marked { path, inode, mark });
        }
    }

    /// Returns the mark of exactly this folder. A folder of others is known by another case too.
    fn mark_of(&self, folder: &Path) -> Option<&Mark> {
        let known = inode(folder);
        // Git's folder may be marked twice if JIT_DIR points at it. The later mark is the narrower one.
        let exact = self.marks.iter().rfind(|one| Some(one.inode) == known);
        let is_twin = |one: &&Marked| {
            !matches!(one.mark, Mark::Own) && one.path.as_os_str().eq_ignore_ascii_case(folder.as_os_str())
        };
        exact
            .or_else(|| self.marks.iter().rfind(is_twin))
            .map(|one| &one.mark)
    }

    /// Returns the path with every link followed, as far as it exists. `None`: no system would accept the path.
    pub fn physical(&self, given: &Path, cwd: &Path) -> Option<PathBuf> {
        let given = match (given.strip_prefix("~"), &self.home) {
            (Ok(below), Some(home)) => home.join(below),
            _ => cwd.join(given),
        };
        let bytes = given.as_os_str().as_encoded_bytes();
        let is_path = bytes.len() < LONGEST && !bytes.contains(&0);
        is_path.then(|| self.links.borrow_mut().physical(&given))
    }

    /// Returns the owner of a physical path.
    pub fn whose(&self, path: &Path) -> Whose<'_> {
        if self.restrains(path) {
            return Whose::Restraint;
        }
        match path.ancestors().find_map(|folder| self.mark_of(folder)) {
            Some(Mark::Own) => Whose::Own,
            Some(Mark::OwnGit) => Whose::OwnGit,
            Some(Mark::Git) => Whose::Git,
            Some(Mark::State) => Whose::State,
            Some(Mark::Other(n)) => self.others.get(*n).map_or(Whose::Elsewhere, Whose::Other),
            None => Whose::Elsewhere,
        }
    }

    /// Returns the other user of this branch, if there is one.
    pub fn user_of(&self, branch: &str) -> Option<String> {
        let branch = branch.strip_prefix("refs/heads/").unwrap_or(branch);
        if let Some((_, who)) = self.held.iter().find(|(held, _)| held == branch) {
            return Some(format!("{who} works on it"));
        }
        let tree = self
            .others
            .iter()
            .find(|tree| tree.branch.as_deref() == Some(branch))?;
        Some(format!("it is checked out in {}", tree.title()))
    }
}

/// Whether the path is the base or below it, whatever the case of their letters.
fn is_below(path: &Path, base: &Path) -> bool {
    let mut parts = path.components();
    base.components().all(|one| {
        let part = parts.next();
        part.is_some_and(|part| part.as_os_str().eq_ignore_ascii_case(one.as_os_str()))
    })
}

fn inode(path: &Path) -> Option<Inode> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use std::path::Path;

    use super::{Ground, Place, Whose};
    use jit_git::{Git, GitEnv};

    /// Makes a repository `main` with the linked worktrees `own` (inside of `main`) and `other`.
    pub fn land() -> (tempfile::TempDir, Ground) {
        let folder = tempfile::tempdir().expect("a folder");
        let main = folder.path().join("main");
        fs::create_dir(&main).expect("a folder");
        let git = |words: &[&str]| {
            let git = Git::at(&main).args(words);
            let git = git
                .setting("user.name", "t")
                .setting("user.email", "t@example.com");
            git.run().expect("git runs");
        };
        git(&["init", "-q", "-b", "main", "."]);
        git(&["commit", "-q", "--allow-empty", "-m", "begin"]);
        git(&["worktree", "add", "-q", "-b", "own", "trees/own"]);
        git(&["worktree", "add", "-q", "-b", "other", "../other"]);
        let place = Place::discover(&main.join("trees/own"), &GitEnv::default()).expect("a place");
        let home = folder.path().join("home");
        let ground = Ground::survey(&place, Some(home)).expect("a ground");
        (folder, ground)
    }

    #[test]
    fn f9_a_path_is_whose_folder_it_is_in_whatever_it_looks_like() {
        let (folder, ground) = land();
        let root = fs::canonicalize(folder.path()).expect("a folder");
        let own = root.join("main/trees/own");
        assert_eq!(ground.own, own);
        let title = |given: &str| {
            let given = given.replace('@', &root.to_string_lossy());
            let path = ground.physical(Path::new(&given), &own).expect("a path");
            match ground.whose(&path) {
                Whose::Other(tree) => tree.branch.clone().expect("a branch"),
                whose => format!("{whose:?}"),
            }
        };
        fs::create_dir_all(root.join("main/.git/jit")).expect("a folder");
        symlink(root.join("main"), own.join("link")).expect("a link");
        symlink("../../../nowhere/yet", own.join("dangling")).expect("a link");
        symlink("link/file.txt", own.join("chain")).expect("a link");
        symlink("loop", own.join("loop")).expect("a link");
        for (given, expected) in [
            ("a.txt", "Own"),
            ("sub/new/a.txt", "Own"),
            ("@/main/trees/own/a", "Own"),
            ("@/main/a", "main"),
            ("@/main/trees/a", "main"),
            ("../../a", "main"),
            ("missing/../../../a", "main"),
            ("link/a", "main"),
            ("chain", "main"),
            ("dangling", "Elsewhere"),
            ("loop", "Own"),
            ("loop/../link/a", "main"),
            ("@/other/deep/er/a", "other"),
            ("@/main/.git/config", "Git"),
            ("@/main/.git/worktrees/own/index", "OwnGit"),
            ("@/main/.git/worktrees/own/HEAD", "OwnGit"),
            ("@/main/.GIT/packed-refs", "Git"),
            ("@/main/.git/Worktrees/own/HEAD", "OwnGit"),
            ("@/main/.git/Worktrees/other/HEAD", "Git"),
            ("@/OTHER/a", "other"),
            ("@/main/.git/worktrees/other/index", "Git"),
            ("/tmp/x", "Elsewhere"),
            ("~/x", "Elsewhere"),
            ("/", "Elsewhere"),
        ] {
            assert_eq!(title(given), expected, "{given}");
        }
        let long = "x/".repeat(3000);
        assert_eq!(ground.physical(Path::new(&long), &own), None);
        assert_eq!(ground.physical(Path::new("a\0b"), &own), None);
    }

    #[test]
    fn l5_files_that_restrain_agents_are_known_under_any_name() {
        let (folder, mut ground) = land();
        let root = fs::canonicalize(folder.path()).expect("a folder");
        let own = ground.own.clone();
        let home = root.join("home");
        fs::create_dir_all(home.join(".config/jit")).expect("a folder");
        fs::write(home.join(".config/jit/config.toml"), "").expect("a file");
        fs::create_dir_all(own.join(".claude")).expect("a folder");
        symlink(home.join(".config"), own.join("settings")).expect("a link");
        fs::hard_link(own.join(".git"), own.join("twin")).expect("a link");
        let place = Place::discover(&own, &GitEnv::default()).expect("a place");
        let account = root.join("account");
        let var = |name: &str| (name == "HOME").then(|| home.clone().into());
        ground.restrain(&place, var, Some(&account));
        let whose = |given: &str| {
            let given = given.replace('@', &root.to_string_lossy());
            let path = ground.physical(Path::new(&given), &own).expect("a path");
            format!("{:?}", ground.whose(&path))
        };
        for given in [
            ".git",
            "twin",
            "./.claude/../.claude/settings.json",
            ".claude/settings.local.json",
            ".codex/hooks.json",
            ".codex/config.toml",
            ".gemini/settings.json",
            "settings/jit/config.toml",
            "@/home/.config/jit/new.toml",
            "@/home/.local/share/jit/trust.jsonl",
            "@/home/.claude/settings.json",
            "@/home/.codex/config.toml",
            "@/main/.git/hooks/pre-commit",
            "@/main/.git/config",
            ".GIT",
            ".Claude/Settings.json",
            "@/home/.config/JIT/config.toml",
            "@/account/.config/jit/config.toml",
            "@/account/.local/share/jit/trust.jsonl",
            "@/account/.claude/settings.json",
        ] {
            assert_eq!(whose(given), "Restraint", "{given}");
        }
        for (given, expected) in [
            (".claude/commands/x.md", "Own"),
            (".gitignore", "Own"),
            ("sub/.git", "Own"),
            ("@/home/.claude/CLAUDE.md", "Elsewhere"),
            ("@/home/.config/other/config.toml", "Elsewhere"),
        ] {
            assert_eq!(whose(given), expected, "{given}");
        }
    }

    #[test]
    fn f9_gits_folder_of_the_main_checkout_is_not_for_tools() {
        let (folder, _) = land();
        let root = fs::canonicalize(folder.path()).expect("a folder");
        let main = root.join("main");
        let place = Place::discover(&main, &GitEnv::default()).expect("a place");
        let mut ground = Ground::survey(&place, None).expect("a ground");
        ground.restrain(&place, |_| None, None);
        for (given, expected) in [
            (".git", "OwnGit"),
            (".git/HEAD", "OwnGit"),
            (".git/info/attributes", "OwnGit"),
            (".git/packed-refs", "OwnGit"),
            (".Git/HEAD", "OwnGit"),
            ("x/../.git/HEAD", "OwnGit"),
            (".git/worktrees/own/HEAD", "Git"),
            (".git/config", "Restraint"),
            (".git/hooks", "Restraint"),
            (".gitignore", "Own"),
        ] {
            for given in [Path::new(given).to_owned(), main.join(given)] {
                let path = ground.physical(&given, &main).expect("a path");
                assert_eq!(format!("{:?}", ground.whose(&path)), expected, "{given:?}");
            }
        }
    }

    #[test]
    fn f9_other_spellings_of_a_folder_are_the_same_folder() {
        let (folder, ground) = land();
        // Imitates a file system without case: a second name for the same folder.
        let alias = folder.path().join("MAIN");
        symlink(folder.path().join("main"), &alias).expect("a link");
        let path = ground
            .physical(&alias.join("new.txt"), &ground.own)
            .expect("a path");
        assert!(matches!(ground.whose(&path), Whose::Other(tree) if tree.is_main));
    }
}
