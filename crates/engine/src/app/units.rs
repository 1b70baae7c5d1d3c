//! Units of work: making a worktree ready, and finding a unit again (G2, G3, G16, I6).

mod making;

use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jit_core::command::{Command, Reply as Decided};
use jit_core::event::{Event, Stamped};
use jit_core::ids::{IssuePrefix, UnitId, WorkflowId, WorktreeId};
use jit_core::issue::Issue;
use jit_core::lease::Resource;
use jit_core::refusal::{Code, Details, Refusal};
use jit_core::state;
use jit_core::unit::{self, Facts, Failure, Input, NewUnit, Phase, Unit};
use jit_git::branches::default_branch;
use jit_git::run::{Git, GitError};
use jit_git::{GitEnv, Place};
use jit_os::file;
use jit_os::shell::shell_word;
use jit_store::{Outcome, Store as _, View};

use super::moved::real;
use super::{App, Kept};
use crate::config::Origin;
use crate::gates::run::{GRACE, Run, run};
use crate::refusals::refuse;
use crate::request::{Answer, Landing, Reply, UnitView};
use crate::rescue::site::leads_to;
use crate::trust::Kind;
use crate::units::{self, PORTS, Words, files, folders, room, submodules};
use crate::worktree::identity::{self, Need};

/// What is asked for about a new unit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CreateUnit {
    /// An issue, or a name for a unit without one.
    pub what: String,
    pub base: Option<String>,
    pub path: Option<PathBuf>,
    pub branch: Option<String>,
    pub ttl_secs: Option<u64>,
    /// The workflow that it is made for.
    pub workflow: Option<WorkflowId>,
    /// Its name, where that does not follow from what it is for.
    pub name: Option<UnitId>,
    /// The branch it is to land on, where that is not the usual one.
    pub target: Option<String>,
}

/// The setting with the steps that make a worktree ready.
pub(super) const PROVISION: &str = "worktree.provision";

fn git(e: GitError) -> Box<Refusal> {
    refuse(Code::Io, e)
}

/// What a unit is called: as asked, or as its issue is.
fn unit_id(asked: &CreateUnit, issue: Option<&Issue>) -> Outcome<UnitId> {
    let name = issue.map_or(asked.what.as_str(), |issue| issue.id.as_str());
    match (&asked.name, name.parse::<UnitId>()) {
        (Some(id), _) => Ok(id.clone()),
        (None, Ok(id)) if issue.is_none() => Ok(id),
        _ => UnitId::slug(name).ok_or_else(|| {
            refuse(
                Code::Invalid,
                format!("{name:?} gives no name for a unit: use letters and digits"),
            )
        }),
    }
}

/// The identity of a worktree, which has one from now on.
fn identity_of(place: &Place) -> Outcome<WorktreeId> {
    let (identity, _) = identity::load_or_create(place, jiff::Timestamp::now(), Need::Write)
        .map_err(|e| refuse(Code::Io, e))?;
    Ok(identity.worktree_id)
}

/// A branch that cannot be, with what to do about it.
fn other_branch(message: String, create: &str, taken: &str) -> Box<Refusal> {
    let template = format!("{}-{{unit}}", taken.replace('/', "-"));
    Box::new(
        Refusal::new(Code::Exists, message)
            .help(format!("{create} --branch <another name>"))
            .help(format!(
                "jit config set worktree.branch {}",
                shell_word(&template)
            )),
    )
}

impl App {
    pub(super) fn common(&self) -> Outcome<&Path> {
        self.place.common_dir.as_deref().ok_or_else(|| {
            Box::new(Refusal::new(
                Code::NotFound,
                "there are no worktrees without a git repository",
            ))
        })
    }

    /// The checkout that linked worktrees stand beside; the git folder itself where there is none.
    pub(super) fn main_root(&self) -> Outcome<PathBuf> {
        let common = self.common()?;
        let all = crate::worktree::list(common).map_err(|e| refuse(Code::Io, e))?;
        let main = all.into_iter().next().and_then(|entry| entry.root);
        Ok(main.unwrap_or_else(|| common.to_owned()))
    }

    /// What the template of places counts from, and the name of the repository in it: the main checkout. Where that is a
    /// submodule, the outermost repository around it: in there git would show a worktree as something new.
    pub(super) fn home(&self) -> Outcome<(PathBuf, String)> {
        let main = self.main_root()?;
        let mut home = main.clone();
        // Git is asked only where there is another checkout above.
        while home
            .ancestors()
            .skip(1)
            .any(|above| above.join(".git").symlink_metadata().is_ok())
        {
            let git = Git::at(&home).args(["rev-parse", "--show-superproject-working-tree"]);
            let outer = git.run().unwrap_or_default();
            let outer = Path::new(OsStr::from_bytes(outer.strip_suffix(b"\n").unwrap_or(&outer)));
            if outer.as_os_str().is_empty() || outer == home || !home.starts_with(outer) {
                break;
            }
            home = outer.to_owned();
        }
        let parts = home.file_name().into_iter();
        let parts = parts.chain(main.strip_prefix(&home).into_iter().flatten());
        let parts: Vec<_> = parts.map(OsStr::to_string_lossy).collect();
        let name = match parts.is_empty() {
            true => "repo".to_owned(),
            false => parts.join("-"),
        };
        Ok((home, name))
    }

    /// The branch that units land on.
    pub(super) fn target_branch(&self) -> Outcome<String> {
        let configured = self.config.allowed_branches().first().map(String::as_str);
        let found = default_branch(&self.place, configured).map_err(git)?;
        found.map(|branch| branch.name).ok_or_else(|| {
            Box::new(
                Refusal::new(Code::NotFound, "there is no branch that work could start from")
                    .help("git switch -c main"),
            )
        })
    }

    /// The unit that is meant: by its name, its branch, its issue or its folder; without a word, the one whose worktree
    /// this is. One that is over is meant only when no living one is.
    pub(super) fn find_unit(&self, view: &View, named: Option<&str>) -> Outcome<Unit> {
        let units = state::units(&*view.table).map_err(|e| refuse(Code::Io, e))?;
        let (living, mut over): (Vec<Unit>, Vec<Unit>) = self
            .located_all(units)
            .into_iter()
            .partition(|unit| !unit.is_over());
        // Of several that an issue, a branch or a folder had, the last one is meant.
        over.sort_by_key(|unit| std::cmp::Reverse(unit.created_at));
        let at = |unit: &Unit, path: &Path| real(Path::new(&unit.worktree_path)) == real(path);
        let Some(text) = named else {
            let root = self.place.worktree_root.as_deref();
            let here = living
                .into_iter()
                .find(|unit| root.is_some_and(|root| at(unit, root)));
            return here.ok_or_else(|| {
                Box::new(
                    Refusal::new(
                        Code::NotFound,
                        "this worktree belongs to no unit: say which one is meant",
                    )
                    .help("jit worktree status"),
                )
            });
        };
        // An issue may be abbreviated.
        let prefix = text.parse::<IssuePrefix>().ok();
        let issue = prefix.and_then(|prefix| Some(self.resolve(view, &prefix).ok()?.id));
        let path = units::place(&self.place.start, text);
        let among = |units: &[Unit]| {
            let by = |test: &dyn Fn(&Unit) -> bool| units.iter().find(|unit| test(unit)).cloned();
            by(&|unit| unit.id.as_str() == text)
                .or_else(|| by(&|unit| unit.branch == text))
                .or_else(|| by(&|unit| issue.is_some() && unit.issue_id == issue))
                .or_else(|| by(&|unit| at(unit, &path)))
        };
        among(&living).or_else(|| among(&over)).ok_or_else(|| {
            let shown: String = text.chars().take(80).collect();
            let message = format!("no unit has the name, issue, branch or folder {shown:?}");
            let names = living.iter().map(|unit| unit.id.to_string()).collect();
            Box::new(
                Refusal::new(Code::NotFound, message)
                    .help("jit worktree status")
                    .details(Details::Candidates(names)),
            )
        })
    }

    /// The same, where one that is over is of no use.
    pub(super) fn living_unit(&self, view: &View, named: Option<&str>) -> Outcome<Unit> {
        let unit = self.find_unit(view, named)?;
        if unit.is_over() {
            return Err(Box::new(
                Refusal::new(Code::NotFound, format!("the unit {} is over", unit.id))
                    .help("jit worktree status"),
            ));
        }
        Ok(unit)
    }

    pub(super) fn unit_status(&self, named: Option<&str>, all: bool) -> Outcome<Answer> {
        // What agents did meanwhile is written down first.
        let known = match named {
            Some(_) => vec![self.find_unit(&self.view()?, named)?],
            None => state::units(&*self.view()?.table).map_err(|e| refuse(Code::Io, e))?,
        };
        self.settle_all(&known);
        let view = self.view()?;
        let reply = match named {
            Some(_) => Reply::Unit(Box::new(self.unit_view(self.find_unit(&view, named)?))),
            None => {
                let mut found = state::units(&*view.table).map_err(|e| refuse(Code::Io, e))?;
                found.retain(|unit| all || !unit.is_over());
                found.sort_by_key(|unit| unit.created_at);
                let found = self.located_all(found);
                Reply::Units {
                    units: found.into_iter().map(|unit| self.unit_view(unit)).collect(),
                }
            }
        };
        self.read_answer(&view, reply)
    }

    /// Moves a unit along its table.
    pub(crate) fn advance(&self, id: &UnitId, input: Input, facts: Facts) -> Outcome<Unit> {
        let command = Command::AdvanceUnit {
            unit: id.clone(),
            input,
            facts: Box::new(facts),
        };
        let done = self.transact_as(None, &command, Kept::default())?;
        match done.reply {
            Decided::Unit(unit) => Ok(*unit),
            _ => Err(refuse(Code::Io, "the log has no answer to that")),
        }
    }

    pub(super) fn create_unit(&self, asked: &CreateUnit) -> Outcome<Answer> {
        let view = self.view()?;
        let issue = match asked.what.parse::<IssuePrefix>() {
            Ok(prefix) => match self.resolve(&view, &prefix) {
                Ok(issue) => Some(issue),
                Err(refusal) if refusal.code == Code::NotFound => None,
                Err(refusal) => return Err(refusal),
            },
            Err(_) => None,
        };
        if let Some(issue) = &issue
            && let Some(answer) = self.own_unit(&view, asked, issue)?
        {
            return Ok(answer);
        }
        if let Some(issue) = &issue {
            // Whose it is matters more than where its worktree would be.
            let key = Resource::Issue(issue.id.clone()).key();
            let lease = state::lease_on(&*view.table, &key).map_err(|e| refuse(Code::Io, e))?;
            if let Some(lease) =
                lease.filter(|lease| !lease.expired(&view.now) && !lease.held_by(&self.actor))
            {
                return Err(Box::new(Refusal::held(&lease, &view.now)));
            }
        }
        let id = unit_id(asked, issue.as_ref())?;
        let _turn = self.makers_turn(&id)?;
        let begun = state::unit(&*view.table, &id).map_err(|e| refuse(Code::Io, e))?;
        let unit = match begun {
            // Whoever began to make it is gone: it would hold its turn.
            Some(unit)
                if unit.state == Phase::Provisioning
                    && unit.workflow.is_none()
                    && unit.created_by == self.actor.agent_id =>
            {
                self.go_on_making(unit)?
            }
            _ => self.make_unit(asked, issue.as_ref())?,
        };
        let view = self.view()?;
        self.read_answer(&view, Reply::Unit(Box::new(UnitView::of(unit))))
    }

    /// The unit that whoever asks has for this issue already: it is theirs, wherever they ask from.
    fn own_unit(&self, view: &View, asked: &CreateUnit, issue: &Issue) -> Outcome<Option<Answer>> {
        let unreadable = |e| refuse(Code::Io, e);
        let (me, key) = (&self.actor.agent_id, Resource::Issue(issue.id.clone()).key());
        let lease = state::lease_on(&*view.table, &key).map_err(unreadable)?;
        let holder = lease
            .filter(|lease| !lease.expired(&view.now))
            .map(|lease| lease.agent_id);
        let is_own = |unit: &Unit| {
            !unit.is_over()
                && unit.workflow.is_none()
                && unit.issue_id.as_ref() == Some(&issue.id)
                && holder.as_ref().unwrap_or(&unit.created_by) == me
        };
        let mut all = state::units(&*view.table).map_err(unreadable)?;
        all.retain(is_own);
        let Some(unit) = self.located_all(all).pop() else {
            return Ok(None);
        };
        let (id, path) = (&unit.id, &unit.worktree_path);
        let refused = |code: Code, message: String, help: String| -> Outcome<Option<Answer>> {
            Err(Box::new(Refusal::new(code, message).help(help)))
        };
        match unit.state {
            Phase::Provisioning if unit.created_by == *me => {
                let _turn = self.makers_turn(id)?;
                let unit = self.go_on_making(self.load_unit(id)?)?;
                return self
                    .read_answer(&self.view()?, Reply::Unit(Box::new(UnitView::of(unit))))
                    .map(Some);
            }
            Phase::Provisioning => {
                let message = format!("{id} is yours, and its worktree is being made, or that was cut short");
                return refused(Code::Exists, message, format!("jit worktree retry {id}"));
            }
            Phase::Cleanup => {
                let message = format!("{id} is being removed, or that was cut short");
                return refused(Code::Exists, message, format!("jit worktree cleanup {id}"));
            }
            _ if leads_to(Path::new(path)).is_none() => {
                let message = format!("you have {} in {id}, and its worktree is not in {path}", issue.id);
                return refused(Code::Exists, message, format!("jit worktree retry {id}"));
            }
            _ => {}
        }
        let cd = format!("cd {}", shell_word(path));
        let plain = CreateUnit {
            what: asked.what.clone(),
            ..CreateUnit::default()
        };
        if *asked != plain {
            let message = format!("you have {} already, in {id}: {path}", issue.id);
            return refused(Code::Exists, message, cd);
        }
        let mut told = vec![format!("you have {} already: {cd}", issue.id)];
        if holder.is_none() {
            told.push(format!(
                "nobody holds {0} now: {cd} && jit claim acquire {0}",
                issue.id
            ));
        }
        let mut answer = self.read_answer(view, Reply::Unit(Box::new(self.unit_view(unit))))?;
        answer.warnings.append(&mut told);
        Ok(Some(answer))
    }

    fn plan(&self, asked: &CreateUnit, issue: Option<&Issue>) -> Outcome<NewUnit> {
        let invalid = |why: String| refuse(Code::Invalid, why);
        let id = unit_id(asked, issue)?;
        let (home, repository) = self.home()?;
        let words = Words {
            unit: &id,
            repository: &repository,
            issue: issue.map(|issue| issue.id.as_str()),
        };
        let path = match &asked.path {
            Some(path) => units::place(&self.place.start, &path.to_string_lossy()),
            None => units::place(
                &home,
                &units::fill(self.config.worktree_path(), words).map_err(invalid)?,
            ),
        };
        let branch = match &asked.branch {
            Some(branch) => branch.clone(),
            None => units::fill(self.config.worktree_branch(), words).map_err(invalid)?,
        };
        self.require_free(&path, &branch, &asked.what)?;
        let target = match &asked.target {
            Some(target) => target.clone(),
            None => self.target_branch()?,
        };
        let from = asked.base.as_deref().unwrap_or(&target);
        let base = Git::in_git_dir(self.common()?)
            .verify(&format!("{from}^{{commit}}"))
            .map_err(git)?
            .ok_or_else(|| {
                let help = match &asked.base {
                    Some(_) => "git log --oneline --all",
                    None => "git commit --allow-empty -m 'begin'",
                };
                let message = format!("there is no commit {from} to start from");
                Box::new(Refusal::new(Code::NotFound, message).help(help))
            })?;
        Ok(NewUnit {
            id,
            issue: issue.and_then(|issue| issue.id.as_str().parse().ok()),
            worktree_path: path.to_string_lossy().into_owned(),
            branch,
            target,
            base,
            ttl_secs: asked.ttl_secs,
            workflow: asked.workflow.clone(),
        })
    }

    /// The path is free and lies in no checkout, and the branch is new.
    pub(super) fn require_free(&self, path: &Path, branch: &str, what: &str) -> Outcome<()> {
        let create = format!("jit worktree create {}", shell_word(what));
        if path.symlink_metadata().is_ok() {
            return Err(Box::new(
                Refusal::new(Code::Exists, format!("{} exists already", path.display()))
                    .help(format!("{create} --path <another folder>")),
            ));
        }
        let common = self.common()?;
        let all = crate::worktree::list(common).map_err(|e| refuse(Code::Io, e))?;
        let roots = all.into_iter().filter_map(|entry| entry.root);
        if let Some(around) = roots
            .chain([common.to_owned()])
            .find(|root| path.starts_with(root))
        {
            return Err(Box::new(
                Refusal::new(
                    Code::Invalid,
                    format!(
                        "{} is inside {}: a worktree is made beside the others, never inside one",
                        path.display(),
                        around.display()
                    ),
                )
                .help(format!("{create} --path <a folder beside it>"))
                .help("jit config set worktree.path '../{repo}-worktrees/{unit}'"),
            ));
        }
        let valid = Git::in_git_dir(common)
            .args(["check-ref-format", "--branch", branch])
            .run();
        if valid.is_err() || branch.starts_with('-') {
            return Err(refuse(
                Code::Invalid,
                format!("{branch:?} cannot be the name of a branch"),
            ));
        }
        // Git keeps branches like files: none can be both a name and a folder of names.
        let above = branch.match_indices('/').filter_map(|(at, _)| branch.get(..at));
        for name in above.chain([branch]) {
            let full = format!("refs/heads/{name}");
            if Git::in_git_dir(common).verify(&full).map_err(git)?.is_none() {
                continue;
            }
            let message = match name == branch {
                true => format!("there is a branch {branch} already"),
                false => format!("there is a branch {name}, so git cannot have {branch} beside it"),
            };
            return Err(other_branch(message, &create, name));
        }
        let below = Git::in_git_dir(common)
            .args(["for-each-ref", "--count=1", "--format=%(refname:lstrip=2)"])
            .arg(format!("refs/heads/{branch}/"))
            .line()
            .map_err(git)?;
        if !below.is_empty() {
            let message = format!("there is a branch {below}, so git cannot have {branch} beside it");
            return Err(other_branch(message, &create, branch));
        }
        Ok(())
    }

    /// Whether a setting stands in the file that is committed with the repository.
    pub(super) fn comes_with_repository(&self, key: &str) -> bool {
        let own = self.place.local_jit.as_ref().map(|jit| jit.join("config.toml"));
        match self.config.origin(key) {
            Ok(Origin::File { file, .. }) => Some(&**file) == own.as_deref(),
            _ => false,
        }
    }

    /// Command lines of the settings that came with the repository.
    pub(super) fn commands_of_settings(&self) -> Vec<(Kind, String, String)> {
        if !self.comes_with_repository(PROVISION) {
            return Vec::new();
        }
        let steps = self.config.provision_steps().iter();
        steps
            .map(|step| (Kind::Provision, PROVISION.to_owned(), step.clone()))
            .collect()
    }

    /// What a unit's commands find in their environment.
    pub(super) fn unit_vars(&self, unit: &Unit) -> Vec<(String, String)> {
        let port = units::port(self.config.ports_from(), unit.slot);
        let mut vars = vec![
            ("JIT_UNIT".to_owned(), unit.id.to_string()),
            ("JIT_WORKTREE".to_owned(), unit.worktree_path.clone()),
            ("JIT_BRANCH".to_owned(), unit.branch.clone()),
            ("JIT_PORT".to_owned(), port.to_string()),
            ("JIT_PORT_LAST".to_owned(), (port + PORTS - 1).to_string()),
            ("JIT_SUFFIX".to_owned(), unit.slot.to_string()),
        ];
        vars.extend(
            unit.issue_id
                .iter()
                .map(|id| ("JIT_ISSUE".to_owned(), id.to_string())),
        );
        vars
    }

    pub(super) fn unit_env(&self, named: Option<&str>) -> Outcome<Answer> {
        let view = self.view()?;
        let unit = self.find_unit(&view, named)?;
        let env = self.unit_vars(&unit).into_iter().collect();
        self.read_answer(&view, Reply::Env { env })
    }

    /// What the worktree of a unit may have that jit put there.
    pub(super) fn brought(&self) -> Outcome<files::Brought> {
        Ok(files::Brought::new(
            &self.main_root()?,
            self.config.shared_files(),
        ))
    }

    /// A new file in the control plane, private or shared as that is. One of that name is taken away, not written over:
    /// somebody may be reading it, or still writing it.
    pub(super) fn log_file(&self, below: &Path) -> std::io::Result<std::fs::File> {
        let path = self.place.control_dir.join(below);
        let folders: Vec<&Path> = path
            .ancestors()
            .skip(1)
            .take_while(|folder| *folder != self.place.control_dir)
            .collect();
        for folder in folders.into_iter().rev() {
            file::make_dir_like_parent(folder)?;
        }
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        file::create_like_parent(&path)
    }

    /// T12: another attempt. What was not made ready is made ready now, and a worktree that is gone is made again.
    pub(super) fn retry_unit(&self, named: Option<&str>) -> Outcome<Answer> {
        let unit = self.find_unit(&self.view()?, named)?;
        let unit = self.try_again(&unit.id)?;
        let view = self.view()?;
        self.read_answer(&view, Reply::Unit(Box::new(UnitView::of(unit))))
    }

    pub(crate) fn try_again(&self, id: &UnitId) -> Outcome<Unit> {
        let mut unit = self.load_unit(id)?;
        if unit.state == Phase::Provisioning {
            let _turn = self.makers_turn(id)?;
            unit = self.load_unit(id)?;
            if unit.state == Phase::Provisioning {
                // Whoever began to make it is gone.
                return self.go_on_making(unit);
            }
        }
        if unit.state == Phase::Merging {
            let message = format!(
                "{id} is {}: its landing has begun, and comes to its end first",
                unit.state
            );
            return Err(Box::new(
                Refusal::new(Code::BadTransition, message)
                    .help(self.land_again(&unit))
                    .help(format!("jit worktree status {id}")),
            ));
        }
        let gone = unit.worktree_id.is_some() && Path::new(&unit.worktree_path).symlink_metadata().is_err();
        let displaced =
            unit.worktree_id.is_some() && !gone && leads_to(Path::new(&unit.worktree_path)).is_none();
        if (gone || displaced) && matches!(unit.state, Phase::Ready | Phase::Completed | Phase::Merged) {
            // It has not failed: only its worktree is made again, from its branch.
            let place = self.ensure_worktree(&unit)?;
            let facts = Facts {
                worktree_id: Some(identity_of(&place)?),
                worktree_path: Some(unit.worktree_path.clone()),
                ..Facts::default()
            };
            return self.advance(id, Input::WorktreeMoved, facts);
        }
        let repo = self.landing_repo()?;
        let tip = repo.tip(&unit.branch)?;
        let onto = repo.tip(unit.goes_to())?;
        let may = unit.may_be_retried() || unit.is_mended(tip.as_deref(), onto.as_deref());
        if unit::step(unit.state, Input::RetryDispatch).is_none() || !may {
            // Refused before anything is made for it.
            return self.advance(id, Input::RetryDispatch, Facts::default());
        }
        let unready = unit.worktree_id.is_none();
        let steps = if unready {
            self.trusted_steps()?
        } else {
            Vec::new()
        };
        let place = self.ensure_worktree(&unit)?;
        if unready && let Err(failure) = self.provision(&unit, &place, &steps) {
            return Err(Box::new(
                Refusal::new(
                    Code::CheckFailed,
                    format!("{} is not ready: {}", unit.id, failure.message),
                )
                .help(format!("jit worktree retry {}", unit.id))
                .help(format!("jit worktree abandon {} --reason <why>", unit.id)),
            ));
        }
        let facts = Facts {
            worktree_id: Some(identity_of(&place)?),
            tip,
            onto,
            ..Facts::default()
        };
        self.advance(&unit.id, Input::RetryDispatch, facts)
    }

    /// What landed, oldest first (I6).
    pub(super) fn landings(&self, named: Option<&str>, limit: usize) -> Outcome<Answer> {
        let view = self.view()?;
        let unit = named.map(|_| self.find_unit(&view, named)).transpose()?;
        let mut landed = std::collections::VecDeque::new();
        self.store.events(0, &mut |line: Stamped| {
            if let Event::Unit {
                input: Input::MergeSuccess,
                unit: moved,
            } = &line.event
                && unit.as_ref().is_none_or(|unit| unit.id == moved.id)
            {
                landed.push_back(Landing {
                    landed_at: line.at,
                    unit: moved.id.clone(),
                    issue_id: moved.issue_id.clone(),
                    branch: moved.branch.clone(),
                    target: moved.goes_to().to_owned(),
                    merge_commit: moved.merge_commit.clone(),
                    tested: moved.tested.clone(),
                    lease_id: moved.lease_id.clone(),
                    agent: moved.agent.clone(),
                    made_by: moved.created_by.clone(),
                    landed_by: line.actor.agent_id.clone(),
                    took_ms: line.at.ms().saturating_sub(moved.created_at.ms()),
                });
                if landed.len() > limit {
                    landed.pop_front();
                }
            }
            ControlFlow::Continue(())
        })?;
        let landed = landed.into();
        self.read_answer(&view, Reply::Landings { landed })
    }
}
