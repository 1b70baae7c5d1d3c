//! The context of a command: place, configuration, identity, store and policy. Every function of the engine gets a
//! [`Context`].
//!
//! Every command needs a [`Context`], so creating one reads a few small files and normally starts no process. Only for
//! an agent under lenient lease enforcement does git read the committed settings.

pub mod calling_agent;
mod followers;

pub use followers::Followers;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use jit_core::model::actor::Actor;
use jit_core::model::ids::RequestId;
use jit_core::model::policy::Policy;
use jit_core::model::refusal::{Code, Refusal};
use jit_git::config::Shared;
use jit_git::{Git, GitEnv, Place};
use jit_os::{file, io_refusal};
use jit_store::Outcome;

use crate::api::{Answer, Options, Reply};
use crate::config::{Config, ConfigError, Origin, Sources};
use crate::identity::detection::detect;
use crate::identity::{self as agent, AgentEnv, Whoami, process_binding as bound};
use crate::ports::{Clock, GitRunner, Heartbeats, Store, TargetLocks, Texts};
use crate::refusals::{no_place, refuse};

/// Place, configuration and identity, before the store is opened.
#[derive(Debug)]
pub struct Surroundings {
    pub place: Place,
    pub config: Config,
    pub whoami: Whoami,
}

#[derive(Debug)]
pub struct Context {
    /// The options it was opened with.
    pub options: Options,
    pub place: Place,
    pub config: Config,
    pub whoami: Whoami,
    pub actor: Actor,
    pub branch: Option<String>,
    pub store: Arc<dyn Store>,
    /// The clock of this machine. Deadlines of the log are compared with the store's own, [`Store::now`].
    pub clock: Arc<dyn Clock>,
    pub(crate) texts: Arc<dyn Texts>,
    pub(crate) heartbeats: Arc<dyn Heartbeats>,
    pub(crate) target_locks: Arc<dyn TargetLocks>,
    pub(crate) git: Arc<dyn GitRunner>,
    /// Files beside the log that take part in every write.
    pub(crate) followers: &'static dyn Followers,
    pub(crate) request: Option<RequestId>,
    pub(crate) policy: Policy,
    /// Warnings found while opening.
    pub(crate) warnings: Vec<String>,
    /// The reminders of leases that end soon, as they were computed last; `None` until then.
    pub(crate) reminders: Mutex<Option<Vec<String>>>,
}

impl Context {
    /// Git as if started in `dir`.
    pub(crate) fn git_at(&self, dir: impl AsRef<Path>) -> Git {
        Git::by(self.git.clone(), dir)
    }

    /// Git on this git folder, wherever its work tree may be.
    pub(crate) fn git_in(&self, git_dir: impl AsRef<Path>) -> Git {
        Git::in_git_dir_by(self.git.clone(), git_dir)
    }
}

pub fn not_initialized(place: &Place) -> Box<Refusal> {
    let message = if place.has_git() {
        "jit has not been set up in this repository"
    } else {
        "this is neither a git repository nor a folder with .jit/"
    };
    Box::new(Refusal::new(Code::NotInitialized, message).help("jit init"))
}

fn discover(options: &Options) -> Outcome<Place> {
    let dir = options.dir.as_deref().unwrap_or(Path::new("."));
    Place::discover(dir, &GitEnv::from_process()).map_err(no_place)
}

impl Surroundings {
    pub fn find(options: &Options) -> Outcome<Self> {
        Self::at(discover(options)?, options)
    }

    /// For setting up: without git, the folder the command runs in, not one above it.
    pub fn to_set_up(options: &Options) -> Outcome<Self> {
        let place = discover(options)?;
        let other = place.found_above().map(Path::to_owned);
        let mut found = Self::at(place.in_start_folder(), options)?;
        found.whoami.warnings.extend(other.map(|other| {
            format!(
                "{} has a .jit/ too; commands in {} use the one here",
                other.display(),
                found.place.start.display()
            )
        }));
        Ok(found)
    }

    /// For a place that was discovered already with these options.
    pub(crate) fn at(place: Place, options: &Options) -> Outcome<Self> {
        let sources = Sources::from_process(&place);
        let config = Config::load(&sources).map_err(|e| {
            Box::new(Refusal::new(Code::Config, e.to_string()).help("mend it, then: jit doctor"))
        })?;
        Self::around(place, config, &sources, options)
    }

    /// Also works with an invalid configuration: uses its valid part, and returns the error.
    pub fn despite(options: &Options) -> Outcome<(Self, Option<ConfigError>)> {
        let place = discover(options)?;
        let sources = Sources::from_process(&place);
        let (config, error) = Config::load_despite(&sources);
        Ok((Self::around(place, config, &sources, options)?, error))
    }

    fn around(place: Place, config: Config, sources: &Sources, options: &Options) -> Outcome<Self> {
        let mut env = AgentEnv::from_process();
        if options.agent.is_none() && env.agent_id.is_none() {
            env.session = place.control_dirs().find_map(|dir| bound::find(&dir));
        }
        // Looking at the processes above costs some reads, and tells nothing new about an agent.
        if !env.says_agent(options.agent.as_deref()) {
            env.detected = detect(|name| std::env::var_os(name));
        }
        let whoami = agent::resolve(options.agent.as_deref(), &env, config.agent_kinds()).map_err(|e| {
            let code = match e {
                agent::AgentError::NoUser { .. } => Code::Io,
                _ => Code::Invalid,
            };
            refuse(code, e)
        })?;
        let mut found = Self {
            place,
            config,
            whoami,
        };
        if sources.could_loosen() && found.asking_agent().is_some() {
            let said = found.config.restrain(sources);
            found.whoami.warnings.extend(said);
        }
        Ok(found)
    }
}

/// Returns the permissions of the control directory: private, unless git shares the repository.
pub fn control_mode(shared: &Shared) -> u32 {
    match shared {
        Shared::Umask => 0o700,
        Shared::Group => 0o2770,
        Shared::Everybody => 0o2775,
        // Users that may read a file may search its folder.
        Shared::Mode(mode) => 0o2700 | mode | (mode & 0o444) >> 2,
    }
}

/// Creates the control directory if it is missing. Returns whether it was created.
pub fn ensure_control_dir(place: &Place) -> Outcome<bool> {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
    let dir = &place.control_dir;
    // Private from the start; opened to others only afterwards.
    match std::fs::DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => {
            let mode = std::fs::Permissions::from_mode(control_mode(&place.shared));
            std::fs::set_permissions(dir, mode).map_err(|e| io_refusal("set permissions of", dir, &e))?;
            Ok(true)
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(io_refusal("create", dir, &e)),
    }
}

/// Whether a setting comes from the file that is committed with the repository.
pub(crate) fn comes_with_repository(cx: &Context, key: &str) -> bool {
    let own = cx.place.local_jit.as_ref().map(|jit| jit.join("config.toml"));
    match cx.config.origin(key) {
        Ok(Origin::File { file, .. }) => Some(&**file) == own.as_deref(),
        _ => false,
    }
}

/// Creates a new file in the control plane, private or shared like the control plane. An existing file of that name
/// is removed, not overwritten: another process may be reading or writing it.
pub(crate) fn log_file(cx: &Context, below: &Path) -> std::io::Result<std::fs::File> {
    let path = cx.place.control_dir.join(below);
    let folders: Vec<&Path> = path
        .ancestors()
        .skip(1)
        .take_while(|folder| *folder != cx.place.control_dir)
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

impl Surroundings {
    /// Makes an answer that does not depend on the log.
    pub(crate) fn answer(self, reply: impl Into<Reply>) -> Answer {
        Answer {
            reply: reply.into(),
            warnings: self.whoami.warnings,
        }
    }
}

/// Makes an answer that does not depend on the log.
pub(crate) fn plain(cx: &Context, reply: Reply) -> Answer {
    Answer {
        reply,
        warnings: cx.warnings.clone(),
    }
}
