//! Builds the commits that the target would become, as a chain of git objects (H3, H4).
//!
//! Each unit is one step of the chain:
//!
//! - It is a fast-forward if the strategy and the history allow it.
//! - Otherwise `git merge-tree` merges it with the step before. Conflicts are resolved by the path rules, where there
//!   is one. The tree becomes a commit whose trailers name the unit.
//! - If the unit's issue is in the tree, the step also marks it as done there. A fast-forward then gets an extra
//!   commit for that.
//!
//! What must hold: no ref points to these commits yet.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::time::Duration;

use jit_core::landing::path_rules::{MARKER, MergePolicy, Resolution, latest_status};
use jit_core::model::refusal::{Code, Refusal};
use jit_git::Git;
use jit_git::snapshot::Folder;
use jit_store::Outcome;

use super::detect::{self, Conflict, Merge, Stage, UNRELATED};
use super::known::Variables;
use super::trees::Entries;
use super::{Repo, messages};
use crate::api::landing::{FailedRule, How};
use crate::api::trust::Kind;
use crate::config::Strategy;
use crate::gates::Run;
use crate::gates::run;
use crate::gates::run::GRACE;
use crate::refusals::{failed, io_failed};
use crate::trust::rule_name;
use crate::units::worktree_state::SQUASHED;

/// A unit that is to land.
#[derive(Debug, Clone)]
pub struct Coming {
    pub unit: String,
    /// The commit that its branch points to.
    pub tip: String,
    /// The first line of the commit's message.
    pub title: String,
    pub trailers: Vec<(&'static str, String)>,
}

#[derive(Debug, Clone)]
pub struct Step {
    pub unit: String,
    pub tip: String,
    pub commit: String,
    pub how: How,
    /// Paths that a rule resolved, and how.
    pub settled: Vec<(String, String)>,
}

/// The commits that the target would become. They are not tested yet.
#[derive(Debug, Clone)]
#[must_use]
pub struct Candidate {
    pub(super) repo: Repo,
    pub branch: String,
    /// The commit of the target when the candidate was started.
    pub old: String,
    pub steps: Vec<Step>,
}

/// The result of adding a unit.
#[derive(Debug)]
pub enum Added {
    Yes(Candidate),
    /// The target contains all of it.
    Nothing(Candidate),
    /// It does not merge.
    Conflict(Candidate, Merge),
    /// It needs a merge, and the strategy allows only fast-forwards.
    NotForward(Candidate),
}

/// Settings and callbacks for making the steps.
pub struct Means<'a> {
    pub strategy: Strategy,
    pub policy: &'a MergePolicy,
    /// Maximum time for the command of a rule.
    pub timeout: Duration,
    /// The author, if git has no identity configured.
    pub agent: &'a str,
    /// Called before the command of a rule runs; refuses a command that is not approved.
    pub may_run: &'a dyn Fn(Kind, &str, &str) -> Outcome<()>,
    /// Extra entries for the tree that lands, beside the merge.
    pub adds: &'a dyn Fn(&str) -> Outcome<Entries>,
}

/// No extra entries.
pub fn nothing(_: &str) -> Outcome<Entries> {
    Ok(Entries::new())
}

impl std::fmt::Debug for Means<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Means")
            .field("strategy", &self.strategy)
            .finish_non_exhaustive()
    }
}

impl Candidate {
    /// Starts with the target as it is now.
    pub fn on(repo: &Repo, branch: &str) -> Outcome<Self> {
        Ok(Self {
            repo: repo.clone(),
            branch: branch.to_owned(),
            old: repo.require_tip(branch)?,
            steps: Vec::new(),
        })
    }

    /// The commit at the end of the chain.
    pub fn commit(&self) -> &str {
        self.steps.last().map_or(&self.old, |step| &step.commit)
    }

    pub fn add(mut self, coming: &Coming, means: &Means<'_>) -> Outcome<Added> {
        let head = self.commit().to_owned();
        let repo = self.repo.clone();
        if repo.is_ancestor(&coming.tip, &head)? {
            return Ok(Added::Nothing(self));
        }
        let forward = repo.is_ancestor(&head, &coming.tip)?;
        let mut settled = Vec::new();
        let (how, tree) = match (means.strategy, forward) {
            (Strategy::Auto | Strategy::FastForward, true) => (How::FastForward, String::new()),
            (Strategy::FastForward, false) => return Ok(Added::NotForward(self)),
            (strategy, _) => {
                let how = match strategy {
                    Strategy::Squash => How::Squash,
                    _ => How::Merge,
                };
                let ours = crate::landing::squash_base::joined_in(&repo, &head, &coming.tip)?;
                if ours != head && repo.is_ancestor(&coming.tip, &ours)? {
                    return Ok(Added::Nothing(self));
                }
                let mut merge = repo.merge(&ours, &coming.tip, &self.old)?;
                if !merge.clean {
                    let rules = Rules {
                        repo: &repo,
                        means,
                        unit: &coming.unit,
                    };
                    match rules.settle(&merge)? {
                        Ok((tree, how)) => {
                            merge.tree = tree;
                            settled = how;
                        }
                        Err((left, failed)) => {
                            merge.conflicts = left;
                            merge.failed_rules = failed;
                            return Ok(Added::Conflict(self, merge));
                        }
                    }
                }
                (how, merge.tree)
            }
        };
        // With the strategy fast-forward the target gets exactly the commits of the unit.
        let adds = match means.strategy {
            Strategy::FastForward => Entries::new(),
            _ => (means.adds)(if how == How::FastForward {
                &coming.tip
            } else {
                &tree
            })?,
        };
        let tree = match (how, adds.is_empty()) {
            (_, true) => tree,
            (How::FastForward, false) => crate::landing::trees::tree_with(&repo, &coming.tip, &adds)?,
            (_, false) => crate::landing::trees::tree_with(&repo, &tree, &adds)?,
        };
        let commit = match how {
            How::FastForward if adds.is_empty() => coming.tip.clone(),
            How::FastForward => {
                let message = message(&coming.title, "", &coming.trailers);
                repo.commit(&tree, std::slice::from_ref(&coming.tip), &message, means.agent)?
            }
            How::Merge | How::Squash => {
                let mut trailers = coming.trailers.clone();
                let mut body = String::new();
                if how == How::Squash {
                    let joined = crate::landing::squash_base::joined_in(&repo, &head, &coming.tip)?;
                    body = messages::squashed(repo.git(), &format!("{joined}..{}", coming.tip))?;
                    trailers.push((SQUASHED, coming.tip.clone()));
                }
                let mut parents = vec![head.clone()];
                if how == How::Merge {
                    parents.push(coming.tip.clone());
                }
                let message = message(&coming.title, &body, &trailers);
                repo.commit(&tree, &parents, &message, means.agent)?
            }
        };
        match how {
            How::FastForward => {
                repo.note_forward(&head, &coming.tip)?;
                if commit != coming.tip {
                    repo.note_made(&commit, std::slice::from_ref(&coming.tip), false);
                }
            }
            How::Merge => repo.note_made(&commit, &[head, coming.tip.clone()], false),
            How::Squash => repo.note_made(&commit, &[head], true),
        }
        self.steps.push(Step {
            unit: coming.unit.clone(),
            tip: coming.tip.clone(),
            commit,
            how,
            settled,
        });
        Ok(Added::Yes(self))
    }
}

/// The trailer that names the unit of a commit.
pub const UNIT: &str = "JIT-Unit";

/// Builds a commit message. Text from issues is data: it must neither end the line nor look like a trailer. The body
/// is indented, and ends with an empty line.
fn message(title: &str, body: &str, trailers: &[(&'static str, String)]) -> String {
    let line = |text: &str| -> String {
        let kept = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        kept.take(200).collect::<String>().trim().to_owned()
    };
    let mut message = line(title);
    message.push_str("\n\n");
    message.push_str(body);
    for (name, value) in trailers {
        message.push_str(&format!("{name}: {}\n", line(value)));
    }
    message
}

impl Repo {
    /// Makes one merge, with the attributes of the target.
    pub fn merge(&self, ours: &str, theirs: &str, target: &str) -> Outcome<Merge> {
        let pair = [(ours.to_owned(), theirs.to_owned())];
        let mut merges = detect::merges(&|| self.git(), self.scratch(), target, &pair)?;
        let mut merge = merges.pop().unwrap_or_default();
        if self.merge_base(ours, theirs)?.is_none() {
            // Git would merge them from an empty tree, which is never wanted by accident.
            merge.clean = false;
            merge.conflicts.insert(
                0,
                Conflict {
                    path: b".".to_vec(),
                    kind: UNRELATED.to_owned(),
                    message: "the two have no commit in common".to_owned(),
                },
            );
        }
        Ok(merge)
    }

    pub fn commit(&self, tree: &str, parents: &[String], message: &str, agent: &str) -> Outcome<String> {
        let git = self.signed(self.git(), agent)?.args(["commit-tree", tree]);
        let git = parents.iter().fold(git, |git, parent| git.args(["-p", parent]));
        git.args(["-F", "-"]).stdin(message).line().map_err(failed)
    }

    /// Sets the author and committer: from the environment or git's settings, else from the agent.
    pub fn signed(&self, git: Git, agent: &str) -> Outcome<Git> {
        let known = self.known.facts().signer.clone();
        let variables = match known.filter(|(known, _)| known == agent) {
            Some((_, variables)) => variables,
            None => {
                let variables = self.signer(agent)?;
                self.known.facts().signer = Some((agent.to_owned(), variables.clone()));
                variables
            }
        };
        let with = |git: Git, (name, value): &(&'static str, OsString)| git.env(name, value);
        Ok(variables.iter().fold(git, with))
    }

    /// The variables that name the author and the committer, where git's settings do not.
    fn signer(&self, agent: &str) -> Outcome<Variables> {
        const NAMES: [&str; 4] = [
            "GIT_AUTHOR_NAME",
            "GIT_AUTHOR_EMAIL",
            "GIT_COMMITTER_NAME",
            "GIT_COMMITTER_EMAIL",
        ];
        let known: Variables = NAMES
            .iter()
            .filter_map(|name| Some((*name, std::env::var_os(name)?)))
            .collect();
        let with = |git: Git| known.iter().fold(git, |git, (name, value)| git.env(name, value));
        for who in ["GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"] {
            let (code, ..) = with(self.git().setting("user.useConfigOnly", "true"))
                .args(["var", who])
                .try_run()
                .map_err(failed)?;
            if code != Some(0) {
                let name: String = agent
                    .chars()
                    .filter(|c| !c.is_control() && !"<>".contains(*c))
                    .collect();
                let word = |c: char| {
                    if c.is_ascii_alphanumeric() || c == '-' {
                        c
                    } else {
                        '.'
                    }
                };
                let email: String = name.chars().map(word).collect();
                let email = format!("{email}@jit.invalid");
                let values = [&name, &email, &name, &email].map(OsString::from);
                return Ok(NAMES.into_iter().zip(values).collect());
            }
        }
        Ok(known)
    }

    pub(super) fn blob(&self, object: &str) -> Outcome<Vec<u8>> {
        self.git()
            .args(["cat-file", "blob", object])
            .run()
            .map_err(failed)
    }
}

/// Resolves conflicts by the path rules.
struct Rules<'a> {
    pub(crate) repo: &'a Repo,
    pub(crate) means: &'a Means<'a>,
    pub(crate) unit: &'a str,
}

/// A tree and how each path was resolved; or the conflicts that are left for a person, and the rules that failed.
type Settled = Result<(String, Vec<(String, String)>), (Vec<Conflict>, Vec<FailedRule>)>;

/// The resolution of a path.
enum Way {
    /// Mode and object; `None` deletes the path.
    Entry(Option<(String, String)>),
    Person,
    /// The command of the rule failed.
    Failed(FailedRule),
}

/// The content that a rule made; `None` if a person must decide; an error if the command failed.
type Content = Result<Option<Vec<u8>>, FailedRule>;

impl Rules<'_> {
    fn settle(&self, merge: &Merge) -> Outcome<Settled> {
        let mut entries: BTreeMap<Vec<u8>, Option<(String, String)>> = BTreeMap::new();
        let (mut left, mut settled, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        for conflict in &merge.conflicts {
            let stages: Vec<&Stage> = merge
                .stages
                .iter()
                .filter(|one| one.path == conflict.path)
                .collect();
            let plain = matches!(
                conflict.kind.as_str(),
                "content" | "add/add" | "binary" | "modify/delete"
            ) && !stages.is_empty()
                && stages.iter().all(|one| one.mode.starts_with("100"));
            let path = std::str::from_utf8(&conflict.path).ok().filter(|_| plain);
            let how = path.map_or(&Resolution::Escalate, |path| self.means.policy.of(path));
            let stage = |n: u8| stages.iter().find(|one| one.stage == n).copied();
            match self.one(conflict, how, stage(1), stage(2), stage(3))? {
                Way::Entry(entry) => {
                    entries.insert(conflict.path.clone(), entry);
                    settled.push((conflict.shown(), how.to_string()));
                }
                Way::Person => left.push(conflict.clone()),
                Way::Failed(rule) => {
                    left.push(conflict.clone());
                    failed.push(rule);
                }
            }
        }
        // A conflicting path that no message names is left for a person.
        for stage in &merge.stages {
            if !entries.contains_key(&stage.path) && !left.iter().any(|one| one.path == stage.path) {
                left.push(Conflict {
                    path: stage.path.clone(),
                    kind: "content".to_owned(),
                    message: String::new(),
                });
            }
        }
        if !left.is_empty() {
            return Ok(Err((left, failed)));
        }
        Ok(Ok((
            crate::landing::trees::tree_with(self.repo, &merge.tree, &entries)?,
            settled,
        )))
    }

    /// Returns the entry that resolves the conflict, or leaves it to a person.
    fn one(
        &self,
        conflict: &Conflict,
        how: &Resolution,
        base: Option<&Stage>,
        ours: Option<&Stage>,
        theirs: Option<&Stage>,
    ) -> Outcome<Way> {
        let side = |stage: Option<&Stage>| stage.map(|one| (one.mode.clone(), one.object.clone()));
        let content = match (how, ours, theirs) {
            (Resolution::Ours, ..) => return Ok(Way::Entry(side(ours))),
            (Resolution::Theirs, ..) => return Ok(Way::Entry(side(theirs))),
            (Resolution::Escalate, ..) => None,
            (_, Some(ours), Some(theirs)) if ours.mode == theirs.mode => {
                let folder = Folder::make(self.repo.scratch())
                    .map_err(|e| Box::new(Refusal::new(Code::Io, e.to_string())))?;
                let is_new = base.is_none();
                let base = match base {
                    Some(base) => self.repo.blob(&base.object)?,
                    None => Vec::new(),
                };
                let sides = [
                    ("base", base),
                    ("ours", self.repo.blob(&ours.object)?),
                    ("theirs", self.repo.blob(&theirs.object)?),
                ];
                for (name, bytes) in &sides {
                    let path = folder.path.join(name);
                    fs::write(&path, bytes).map_err(io_failed("write", &path))?;
                }
                let binary = conflict.kind == "binary";
                match how {
                    Resolution::Union if !binary => self.merge_file(&folder.path, &["--union"])?,
                    Resolution::LatestStatus if !binary => {
                        let size = format!("--marker-size={MARKER}");
                        let marked = self.merge_file(&folder.path, &["--diff3", &size])?;
                        marked
                            .and_then(|bytes| String::from_utf8(bytes).ok())
                            .and_then(|text| latest_status(&text))
                            .map(String::into_bytes)
                    }
                    Resolution::Command(command) => {
                        let has_content = |(name, bytes): &(&str, Vec<u8>)| {
                            !bytes.is_empty() || (*name == "base" && is_new)
                        };
                        let may_be_empty = !sides.iter().all(has_content);
                        match self.command(&folder.path, conflict, command, may_be_empty)? {
                            Ok(content) => content,
                            Err(rule) => return Ok(Way::Failed(rule)),
                        }
                    }
                    _ => None,
                }
            }
            _ => None,
        };
        let (Some(content), Some(ours)) = (content, ours) else {
            return Ok(Way::Person);
        };
        let object = self
            .repo
            .git()
            .args(["hash-object", "-w", "--stdin"])
            .stdin(content)
            .line()
            .map_err(failed)?;
        Ok(Way::Entry(Some((ours.mode.clone(), object))))
    }

    fn merge_file(&self, folder: &Path, options: &[&str]) -> Outcome<Option<Vec<u8>>> {
        let git = self.repo.git().args(["merge-file", "-p", "-q"]).args(options);
        let names = ["ours", "base", "theirs"].map(|name| folder.join(name));
        let (code, out, _) = git.args(names).try_run().map_err(failed)?;
        // The exit code is the number of remaining conflicts. From 128 on it is an error, such as a binary file.
        Ok(code.filter(|code| *code < 128).map(|_| out))
    }

    /// Runs the command of a rule on the sides in a folder. If all sides have content, an empty result is a failure:
    /// the command opened its result file, and did not write it.
    fn command(
        &self,
        folder: &Path,
        conflict: &Conflict,
        command: &str,
        may_be_empty: bool,
    ) -> Outcome<Content> {
        let pattern = self.means.policy.commands().find(|(_, text)| *text == command);
        let name = rule_name(pattern.map_or("", |(pattern, _)| pattern));
        (self.means.may_run)(Kind::Validate, &name, command)?;
        let result = folder.join("result");
        let path_of = |name: &str| OsString::from(folder.join(name));
        let vars = [
            ("JIT_PATH".into(), OsString::from_vec(conflict.path.clone())),
            ("JIT_UNIT".into(), self.unit.into()),
            ("JIT_BASE".into(), path_of("base")),
            ("JIT_OURS".into(), path_of("ours")),
            ("JIT_THEIRS".into(), path_of("theirs")),
            ("JIT_RESULT".into(), result.clone().into()),
            ("JIT_REQUEST_ID".into(), "".into()),
        ];
        let ran = run(
            &Run {
                command,
                dir: folder,
                timeout: self.means.timeout,
                grace: GRACE,
                vars: &vars,
            },
            &mut std::io::sink(),
        );
        let reason = match (ran.reason(), fs::read(&result)) {
            (None, Ok(content)) if may_be_empty || !content.is_empty() => return Ok(Ok(Some(content))),
            (Some(reason), _) => reason,
            (None, Ok(_)) => "it wrote nothing to $JIT_RESULT, and no side is empty".to_owned(),
            (None, Err(e)) if e.kind() == std::io::ErrorKind::NotFound => {
                "it wrote nothing to $JIT_RESULT".to_owned()
            }
            (None, Err(e)) => format!("what it wrote to $JIT_RESULT cannot be read: {e}"),
        };
        Ok(Err(FailedRule {
            path: conflict.shown(),
            command: command.to_owned(),
            reason,
            exit_code: ran.exit_code,
            output: last_of(&ran.tail_text()),
        }))
    }
}

/// Maximum length of the reported output of a rule's command, in characters.
const TAIL: usize = 2000;

/// The end of a text.
fn last_of(text: &str) -> String {
    let skip = text.chars().count().saturating_sub(TAIL);
    text.chars().skip(skip).collect()
}
