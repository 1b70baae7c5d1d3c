//! Units of work: making a worktree ready, and finding a unit again (G2, G3, G16, I6).

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

use super::moved::real;
use super::{App, Kept, refuse, shell_word};
use crate::config::Origin;
use crate::gates::run::{GRACE, Run, run};
use crate::git::run::{Git, GitError, default_branch};
use crate::git::{GitEnv, Place, worktrees};
use crate::os::file;
use crate::request::{Answer, Landing, Reply, UnitView};
use crate::rescue::site::leads_to;
use crate::store::{Outcome, Store as _, View};
use crate::trust::Kind;
use crate::units::{self, PORTS, Words, files, folders, room, submodules};
use crate::worktree::ensure_excluded;
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

/// How long a git that lost its caller may take to finish a worktree.
const MAKING: Duration = Duration::from_secs(10);

/// Git marks a worktree until it is whole.
fn is_in_the_making(place: &Place) -> bool {
    let mark = place.git_dir.as_ref().map(|dir| dir.join("locked"));
    mark.is_some_and(|mark| std::fs::read(mark).is_ok_and(|text| text.trim_ascii() == b"initializing"))
}

/// Something is there that neither is a worktree nor becomes one: the first thing git puts into one is its `.git`.
fn is_no_worktree(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => {
            let filled = std::fs::read_dir(path).is_ok_and(|mut inside| inside.next().is_some());
            filled && path.join(".git").symlink_metadata().is_err()
        }
        Ok(_) => true,
        Err(_) => false,
    }
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
        let all = worktrees::list(common).map_err(|e| refuse(Code::Io, e))?;
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
        let all = worktrees::list(common).map_err(|e| refuse(Code::Io, e))?;
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

    fn require_room(&self, path: &Path) -> Outcome<Option<String>> {
        let io = |e| crate::store::file::io_refusal("look at the disk of", path, &e);
        let disk = room::of(path).map_err(io)?;
        if disk.total == 0 {
            let message = format!("no worktree can be made in {}: no disk is there", path.display());
            return Err(refuse(Code::Invalid, message));
        }
        let index = self.place.git_dir.as_ref().map(|dir| dir.join("index"));
        let needed = match &index {
            Some(index) => room::checkout_size(index).map_err(io)?.unwrap_or(0),
            None => 0,
        };
        let reserve = self.config.min_free_mb() << 20;
        let mb = |bytes: u64| bytes >> 20;
        if disk.free < needed.saturating_add(reserve) {
            let mut refusal = Refusal::new(
                    Code::Io,
                    format!(
                        "there is not enough room for another worktree: {} MB are free, about {} MB are needed and {} MB stay free",
                        mb(disk.free),
                        mb(needed),
                        mb(reserve)
                    ),
                )
                .help("jit rescue prune");
            let spare = mb(disk.free.saturating_sub(needed));
            if spare > 1 {
                refusal = refusal.help(format!("jit config set worktree.min_free_mb {}", spare / 2));
            }
            return Err(Box::new(refusal));
        }
        let used = disk.percent_used();
        Ok((used >= 80).then(|| format!("the disk is {used} % full")))
    }

    /// T1 to T2: the worktree is there and ready, or there is nothing of it.
    pub(super) fn make_unit(&self, asked: &CreateUnit, issue: Option<&Issue>) -> Outcome<Unit> {
        let new = self.plan(asked, issue)?;
        self.require_room(Path::new(&new.worktree_path))?;
        let steps = self.trusted_steps()?;
        let done = self.transact(&Command::CreateUnit(Box::new(new)))?;
        let Decided::Unit(unit) = done.reply else {
            return Err(refuse(Code::Io, "the log has no answer to that request"));
        };
        self.make_ready(*unit, &steps)
    }

    /// A unit of a workflow is there and ready, also if whoever began to make it was killed.
    pub(crate) fn create_for_workflow(
        &self,
        id: &UnitId,
        issue: Option<String>,
        target: &str,
        workflow: &WorkflowId,
    ) -> Outcome<Unit> {
        let _turn = self.unit_turn(id, true)?;
        let view = self.view()?;
        let unreadable = |e| refuse(Code::Io, e);
        let begun = state::unit(&*view.table, id).map_err(unreadable)?;
        if let Some(unit) = begun.filter(|unit| !unit.is_over() && unit.workflow.as_ref() == Some(workflow)) {
            let steps = self.trusted_steps()?;
            return self.make_ready(unit, &steps);
        }
        let found = match &issue {
            Some(issue) => {
                let prefix: IssuePrefix = issue.parse().map_err(|e| refuse(Code::Invalid, format!("{e}")))?;
                Some(self.resolve(&view, &prefix)?)
            }
            None => None,
        };
        drop(view);
        let asked = CreateUnit {
            what: issue.unwrap_or_else(|| id.to_string()),
            workflow: Some(workflow.clone()),
            name: Some(id.clone()),
            target: Some(target.to_owned()),
            ..CreateUnit::default()
        };
        self.make_unit(&asked, found.as_ref())
    }

    fn make_ready(&self, unit: Unit, steps: &[String]) -> Outcome<Unit> {
        if unit.state != Phase::Provisioning {
            return Ok(unit);
        }
        let id = unit.id.clone();
        let begun = Instant::now();
        let place = match self.ensure_worktree(&unit) {
            Ok(place) => place,
            Err(refusal) => {
                self.undo(&unit);
                self.advance(&id, Input::RolledBack, Facts::default())?;
                return Err(refusal);
            }
        };
        match self.provision(&unit, &place, steps) {
            Ok(()) => {
                let facts = Facts {
                    worktree_id: Some(identity_of(&place)?),
                    provisioning_time_ms: u64::try_from(begun.elapsed().as_millis()).ok(),
                    ..Facts::default()
                };
                self.advance(&id, Input::ProvisioningComplete, facts)
            }
            Err(failure) => {
                let refusal = Refusal::new(
                    Code::CheckFailed,
                    format!("{id} is not ready: {}", failure.message),
                )
                .help(format!("jit worktree retry {id}"))
                .help(format!("jit worktree abandon {id} --reason <why>"));
                let facts = Facts {
                    error: Some(failure),
                    ..Facts::default()
                };
                self.advance(&id, Input::ProvisioningFailed, facts)?;
                Err(Box::new(refusal))
            }
        }
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

    /// The commands that make a worktree ready, once the user has approved them.
    fn trusted_steps(&self) -> Outcome<Vec<String>> {
        let steps = self.config.provision_steps().to_vec();
        // What the user wrote into settings of their own needs nobody's approval.
        if steps.is_empty() || !self.comes_with_repository(PROVISION) {
            return Ok(steps);
        }
        let (trust, repository) = (self.approvals()?, self.repository());
        for step in &steps {
            trust.require(&repository, Kind::Provision, PROVISION, step)?;
        }
        Ok(steps)
    }

    /// The turn of whoever makes a unit: refused while somebody does.
    pub(super) fn makers_turn(&self, id: &UnitId) -> Outcome<std::fs::File> {
        self.unit_turn(id, false)?.ok_or_else(|| {
            let message = format!("somebody else is at {id}");
            Box::new(Refusal::new(Code::Busy, message).help(format!("jit worktree status {id}")))
        })
    }

    /// The unit's worktree is there, on its branch, and whole.
    pub(super) fn ensure_worktree(&self, unit: &Unit) -> Outcome<Place> {
        let path = Path::new(&unit.worktree_path);
        let found = || Place::discover(path, &GitEnv::default()).map_err(|e| refuse(Code::Io, e));
        if is_no_worktree(path) || unit.worktree_id.is_some() && path.exists() && leads_to(path).is_none() {
            return Err(self.other_in_place(unit));
        }
        // Whoever was killed while making it may have left a git behind that goes on for a moment.
        let begun = Instant::now();
        while path.symlink_metadata().is_ok() {
            if path.join(".git").is_file() {
                let place = found()?;
                let own = place.common_dir == self.place.common_dir
                    && place.worktree_root.as_deref().map(real) == Some(real(path));
                if own && !is_in_the_making(&place) {
                    return Ok(place);
                }
                if !own && unit.worktree_id.is_some() {
                    return Err(self.other_in_place(unit));
                }
                if !own {
                    break;
                }
            }
            if begun.elapsed() < MAKING {
                std::thread::sleep(Duration::from_millis(50));
                continue;
            }
            // Nobody is at it any more, and nobody ever worked in it.
            let _ = Git::in_git_dir(self.common()?)
                .args(["worktree", "remove", "--force", "--force", "--"])
                .arg(path)
                .run();
            let _ = std::fs::remove_dir(path);
            break;
        }
        if path.symlink_metadata().is_ok() {
            return Err(self.other_in_place(unit));
        }
        let known = worktrees::list(self.common()?).map_err(|e| refuse(Code::Io, e))?;
        let begun_before = |entry: &worktrees::WorktreeEntry| {
            entry.root.as_deref() == Some(path) && entry.branch.as_ref() == Some(&unit.branch)
        };
        if unit.worktree_id.is_some() || known.iter().any(begun_before) {
            self.put_aside_gone(unit)?;
        }
        let parent = path.parent().unwrap_or(path);
        let _room = folders::make(&self.place.control_dir, parent)
            .map_err(|e| crate::store::file::io_refusal("create", parent, &e))?;
        // The branch first, by itself: `worktree add -b` that dies halfway could not be asked again. Nothing is tracked,
        // so nothing is written to the shared configuration, whose lock parallel ones would fight for.
        let common = self.common()?;
        let branch = format!("refs/heads/{}", unit.branch);
        let made = Git::in_git_dir(common)
            .args(["update-ref", "--no-deref", "-m", "branch: made by jit"])
            .args([&branch, &unit.base, ""])
            .run();
        if let Err(e) = made {
            if let Some(goal) = Git::in_git_dir(common).symbolic(&branch).map_err(git)? {
                // What is committed there would go to that one.
                let goal = goal.strip_prefix("refs/heads/").unwrap_or(&goal).to_owned();
                let message = format!("{} is only another name for {goal} by now", unit.branch);
                let away = format!("git symbolic-ref --delete {}", shell_word(&branch));
                return Err(Box::new(Refusal::new(Code::Exists, message).help(away)));
            }
            // It may be there: from an attempt that was killed, or with the work of a unit whose worktree is gone.
            let there = Git::in_git_dir(common).verify(&branch).map_err(git)?;
            if there.is_none_or(|commit| unit.worktree_id.is_none() && commit != unit.base) {
                return Err(git(e));
            }
        }
        Git::in_git_dir(common)
            .args(["worktree", "add", "--quiet", "--"])
            .arg(path)
            .arg(&unit.branch)
            .run()
            .map_err(git)?;
        found()
    }

    /// T1 to T2, where whoever began it was killed. That something stands in the way does not take back what was begun.
    fn go_on_making(&self, unit: Unit) -> Outcome<Unit> {
        let steps = self.trusted_steps()?;
        if is_no_worktree(Path::new(&unit.worktree_path)) {
            return Err(self.other_in_place(&unit));
        }
        self.make_ready(unit, &steps)
    }

    /// Where a unit's worktree was is something else.
    fn other_in_place(&self, unit: &Unit) -> Box<Refusal> {
        let path = &unit.worktree_path;
        let message = format!("{path} is there, and is not the worktree of {}", unit.id);
        let main = self.main_root().unwrap_or_else(|_| self.place.start.clone());
        let repair = format!("git -C {} worktree repair", shell_word(&main.to_string_lossy()));
        let [from, to] = ["", ".aside"].map(|end| shell_word(&format!("{path}{end}")));
        Box::new(
            Refusal::new(Code::Exists, message)
                .help(format!(
                    "where the worktree was moved: {repair} <where it is now>"
                ))
                .help(format!("mv -n {from} {to} && jit worktree retry {}", unit.id)),
        )
    }

    /// Takes back what [`Self::ensure_worktree`] may have begun. Only what is as it was made is removed.
    pub(super) fn undo(&self, unit: &Unit) {
        let Ok(common) = self.common() else { return };
        let path = Path::new(&unit.worktree_path);
        if path.join(".git").is_file() {
            let _ = Git::in_git_dir(common)
                .args(["worktree", "remove", "--force", "--"])
                .arg(path)
                .run();
        } else if path.is_dir() {
            // git made it and did not come to the file that says whose it is: it holds nothing of anybody's.
            let _ = std::fs::remove_dir(path);
        } else {
            // Git may remember one that is gone.
            let _ = self.put_aside_gone(unit);
        }
        let full = format!("refs/heads/{}", unit.branch);
        // Another name for somebody's branch is not what was made here.
        if matches!(Git::in_git_dir(common).symbolic(&full), Ok(None)) {
            let _ = Git::in_git_dir(common)
                .args(["update-ref", "--no-deref", "-d", &full, &unit.base])
                .run();
        }
        self.leave_folder_of(path);
    }

    /// The folder that a worktree lay in goes with the last one.
    pub(super) fn leave_folder_of(&self, worktree: &Path) {
        if let Some(folder) = worktree.parent() {
            folders::leave(&self.place.control_dir, folder);
        }
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

    fn provision(&self, unit: &Unit, place: &Place, steps: &[String]) -> Result<(), Failure> {
        let failed = |message: String| Failure {
            reason: "provisioning".to_owned(),
            message,
            exit_code: None,
            output: None,
        };
        let path = Path::new(&unit.worktree_path);
        let main = self.main_root().map_err(|refusal| failed(refusal.message))?;
        let brought = files::bring(&main, path, &self.config.shared_files()).map_err(failed)?;
        let links: Vec<&str> = brought
            .iter()
            .map(String::as_str)
            .filter(|name| path.join(name).is_symlink())
            .collect();
        let links = files::ignored(&main, &links).map_err(|e| failed(e.to_string()))?;
        if !links.is_empty() {
            // `name/` in .gitignore is for folders alone, and a link is none.
            let common = self.common().map_err(|refusal| failed(refusal.message))?;
            let patterns: Vec<&str> = links.iter().map(String::as_str).collect();
            ensure_excluded(common, &patterns).map_err(|e| failed(e.to_string()))?;
        }
        if self.config.submodules() && path.join(".gitmodules").is_file() {
            let only_known = main.join(".git/modules").is_dir();
            let common = self.common().map_err(|refusal| failed(refusal.message))?;
            if let Err(e) = submodules::check_out(path, &common.join("modules"))
                && only_known
            {
                return Err(failed(format!("the submodules could not be checked out: {e}")));
            }
        }
        let vars: Vec<(OsString, OsString)> = self
            .unit_vars(unit)
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let timeout = Duration::from_secs(self.config.provision_timeout_secs());
        for (n, step) in steps.iter().enumerate() {
            let below = PathBuf::from("units").join(unit.id.as_str());
            let name = below.join(format!("provision-{}.log", n + 1));
            let mut log = self.log_file(&name).map_err(|e| failed(e.to_string()))?;
            let mut once = || {
                run(
                    &Run {
                        command: step,
                        dir: &place.start,
                        timeout,
                        grace: GRACE,
                        vars: &vars,
                    },
                    &mut log,
                )
            };
            let mut ran = once();
            if !ran.passed() {
                ran = once();
            }
            if !ran.passed() {
                let why = ran.reason().unwrap_or_else(|| "it failed".to_owned());
                return Err(Failure {
                    reason: "provisioning".to_owned(),
                    message: format!("{} twice: {why}", shell_word(step)),
                    exit_code: ran.exit_code,
                    output: Some(name.to_string_lossy().into_owned()),
                });
            }
        }
        Ok(())
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
