//! The program without a face: where we are, who we are, and every request carried out.
//!
//! Opening an [`App`] starts no process and reads a handful of small files: it is on the path of every command.

mod accounts;
mod activities;
mod again;
mod asker;
mod audit;
mod board;
mod changelog;
mod claims;
mod committed;
mod dispatch;
mod exchange;
mod gates;
mod graph;
mod handoff;
mod homeless;
mod join;
mod judging;
mod landing;
mod locks;
mod lost;
mod moved;
mod notify;
mod prune;
mod rescue;
mod restore;
mod scope;
mod sessions;
mod situation;
mod tracker;
mod trust;
mod uninstall;
mod units;
mod way_back;
mod workflows;

pub use audit::{Audit, Finding};

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jit_core::command::{Command, Reply as Decided};
use jit_core::event::Event;
use jit_core::ids::{IssueId, IssuePrefix, LeaseId, RequestId};
use jit_core::issue::Issue;
use jit_core::lease::{Actor, Lease};
use jit_core::policy::Policy;
use jit_core::refusal::{Code, Details, Refusal};
use jit_core::roster::LockView;
use jit_core::state;
use jit_core::wire::LeaseView;
use jit_git::config::Shared;
use jit_git::{GitEnv, Place};
use jit_os::clock::SystemClock;
use jit_os::{io_refusal, random};
use jit_store::disk::RealDisk;
use jit_store::file::FileStore;
use jit_store::{Ask, Done, Outcome, Store, View};

use crate::agent::{self, AgentEnv, Whoami};
use crate::config::{Config, ConfigError, Sources};
use crate::issues::replica::Replica;
use crate::refusals::{refuse, stopped};
use crate::request::{Answer, Listing, Reply, Request};
use crate::sessions as bound;
use crate::worktree::identity::{self, Need};

pub(crate) use dispatch::Starting;
pub use dispatch::{Again, DispatchAsk};
pub use handoff::{HandAsk, Handoffs};
pub use landing::{ConflictWatch, MergeAsk, MergeMode};
pub use locks::{LOCKS, LockPaths, OwnLocks};
pub use lost::{Lost, lost};
pub(crate) use scope::{Scope, Touched};
pub use sessions::{SESSIONS, StartSession};
pub(crate) use situation::{Sight, Situation, Troubles};
pub use uninstall::{Left, Tree, Uninstall, Uninstalled};
pub use units::CreateUnit;
pub(crate) use workflows::in_the_way;

/// How the program was called.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub dir: Option<PathBuf>,
    pub agent: Option<String>,
    pub lock_timeout: Option<Duration>,
    pub request: Option<RequestId>,
}

/// Where we are, before anything is opened there.
#[derive(Debug)]
pub struct Surroundings {
    pub place: Place,
    pub config: Config,
    pub whoami: Whoami,
}

/// What a command keeps in files.
#[derive(Debug, Clone, Copy)]
struct Kept<'a> {
    /// Long texts that its events name by their digests.
    texts: &'a [Vec<u8>],
    /// Texts that are known once its events are in the log.
    met: &'a [(IssueId, Vec<u8>)],
    /// Whether the issues it touches are written into this tree.
    project: bool,
    /// How long it waits for the lock, where it is done beside what was asked for and may be left for later.
    aside: Option<Duration>,
    /// What it is decided by, where that is not what the settings say alone.
    policy: Option<&'a Policy>,
    /// Whose lease it is done with, where the caller acts for the holder.
    actor: Option<&'a Actor>,
}

impl Default for Kept<'_> {
    fn default() -> Self {
        Self {
            texts: &[],
            met: &[],
            project: true,
            aside: None,
            policy: None,
            actor: None,
        }
    }
}

#[derive(Debug)]
pub struct App {
    pub place: Place,
    pub config: Config,
    pub whoami: Whoami,
    pub actor: Actor,
    pub branch: Option<String>,
    pub store: FileStore,
    replica: Replica,
    request: Option<RequestId>,
    policy: Policy,
    /// Noticed while opening.
    warnings: Vec<String>,
}

pub fn not_initialized(place: &Place) -> Box<Refusal> {
    let message = if place.has_git() {
        "jit has not been set up in this repository"
    } else {
        "this is neither a git repository nor a folder with .jit/"
    };
    Box::new(Refusal::new(Code::NotInitialized, message).help("jit init"))
}

impl Surroundings {
    pub fn find(options: &Options) -> Outcome<Self> {
        let dir = options.dir.as_deref().unwrap_or(Path::new("."));
        let place = Place::discover(dir, &GitEnv::from_process()).map_err(|e| refuse(Code::NotFound, e))?;
        let sources = Sources::from_process(&place);
        let config = Config::load(&sources).map_err(|e| {
            Box::new(Refusal::new(Code::Config, e.to_string()).help("mend it, then: jit doctor"))
        })?;
        Self::around(place, config, &sources, options)
    }

    /// Also where the configuration cannot be used: with what of it can, and what is wrong.
    pub fn despite(options: &Options) -> Outcome<(Self, Option<ConfigError>)> {
        let dir = options.dir.as_deref().unwrap_or(Path::new("."));
        let place = Place::discover(dir, &GitEnv::from_process()).map_err(|e| refuse(Code::NotFound, e))?;
        let sources = Sources::from_process(&place);
        let (config, error) = Config::load_despite(&sources);
        Ok((Self::around(place, config, &sources, options)?, error))
    }

    fn around(place: Place, config: Config, sources: &Sources, options: &Options) -> Outcome<Self> {
        let mut env = AgentEnv::from_process();
        if options.agent.is_none() && env.agent_id.is_none() {
            env.session = bound::find(&place.control_dir);
        }
        let whoami = agent::resolve(options.agent.as_deref(), &env, config.agent_kinds())
            .map_err(|e| refuse(Code::Invalid, e))?;
        let mut found = Self {
            place,
            config,
            whoami,
        };
        if found.config.has_restraint_of_variable() && found.asking_agent().is_some() {
            let said = found.config.restrain(sources);
            found.whoami.warnings.extend(said);
        }
        Ok(found)
    }
}

/// Permissions of the control directory: private, unless git was told to share the repository.
pub fn control_mode(shared: &Shared) -> u32 {
    match shared {
        Shared::Umask => 0o700,
        Shared::Group => 0o2770,
        Shared::Everybody => 0o2775,
        // Whoever may read a file may search its folder.
        Shared::Mode(mode) => 0o2700 | mode | (mode & 0o444) >> 2,
    }
}

/// Makes the control directory if it is not there. Says whether it did.
pub fn ensure_control_dir(place: &Place) -> Outcome<bool> {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
    let dir = &place.control_dir;
    // Private from the first moment on; opened to others only afterwards.
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

impl App {
    /// For a command that works on the store; `need` tells whether it writes.
    pub fn open(options: &Options, need: Need) -> Outcome<Self> {
        Self::within(Surroundings::find(options)?, options, need)
    }

    pub fn within(surroundings: Surroundings, options: &Options, need: Need) -> Outcome<Self> {
        let Surroundings {
            place,
            config,
            whoami,
        } = surroundings;
        let mut warnings = whoami.warnings.clone();
        let disk = match RealDisk::open(&place.control_dir) {
            Ok(disk) => disk,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                // A fresh clone of a repository that uses jit: the shared plane is made at first use.
                if !place.local_jit.as_deref().is_some_and(Path::is_dir) {
                    return Err(not_initialized(&place));
                }
                ensure_control_dir(&place)?;
                RealDisk::open(&place.control_dir).map_err(|e| io_refusal("open", &place.control_dir, &e))?
            }
            Err(e) => return Err(io_refusal("open", &place.control_dir, &e)),
        };
        let wait = options
            .lock_timeout
            .unwrap_or(Duration::from_secs(config.lock_timeout_secs()));
        let store = FileStore::new(Arc::new(disk), Arc::new(SystemClock::default()), wait);
        let (worktree_id, branch) = if place.worktree_root.is_some() {
            let (identity, notices) = identity::load_or_create(&place, jiff::Timestamp::now(), need)
                .map_err(|e| refuse(Code::Io, e))?;
            warnings.extend(notices.iter().map(ToString::to_string));
            (
                Some(identity.worktree_id),
                place.branch().map_err(|e| refuse(Code::Io, e))?,
            )
        } else {
            (None, None)
        };
        let replica = Replica::at(&place.control_dir);
        let policy = config.policy();
        let actor = Actor {
            agent_id: whoami.agent_id.clone(),
            worktree_id,
        };
        let request = options.request.clone();
        let mut app = Self {
            place,
            config,
            whoami,
            actor,
            branch,
            store,
            replica,
            request,
            policy,
            warnings,
        };
        app.bind_leases();
        Ok(app)
    }

    /// Retries `act` once after making the log, where `.jit/` is there but this machine has no log yet.
    fn with_log<T>(&self, act: &mut dyn FnMut() -> Outcome<T>) -> Outcome<T> {
        match act() {
            Err(refusal)
                if refusal.code == Code::NotInitialized
                    && self.place.local_jit.as_deref().is_some_and(Path::is_dir) =>
            {
                self.store.create(&self.actor)?;
                self.join_tree()?;
                act()
            }
            other => other,
        }
    }

    fn transact(&self, command: &Command) -> Outcome<Done> {
        self.transact_as(self.request.as_ref(), command, Kept::default())
    }

    /// `named` is the request id that the caller gave for exactly this command.
    fn transact_as(&self, named: Option<&RequestId>, command: &Command, kept: Kept<'_>) -> Outcome<Done> {
        let entropy = || random::u128().map_err(|e| refuse(Code::Io, e));
        let wall = jit_os::clock::wall_ms();
        let fresh_lease = LeaseId::generate(wall, entropy()?);
        let request = match named {
            Some(id) => id.clone(),
            None => RequestId::make_up(wall, entropy()?),
        };
        let beside = kept.aside.map(|wait| self.store.clone().waiting(wait));
        let store = beside.as_ref().unwrap_or(&self.store);
        let outcome = self.with_log(&mut || {
            store.transact(&mut Ask {
                command,
                actor: kept.actor.unwrap_or(&self.actor),
                branch: self.branch.clone(),
                fresh_lease: fresh_lease.clone(),
                policy: kept.policy.unwrap_or(&self.policy),
                request: request.clone(),
                repeatable: named.is_some(),
                wait: None,
                prepare: &mut |events| {
                    self.keep_texts(events, kept.texts)?;
                    self.take_lock_files(events)
                },
                publish: &mut |lines, table| {
                    let is_taken = |id: &IssueId| {
                        lines
                            .iter()
                            .any(|line| matches!(&line.event, Event::Issue { issue, .. } if issue.id == *id))
                    };
                    let met = kept.met.iter().filter(|(id, _)| is_taken(id));
                    let refused = self.keep_met(met).err();
                    let mut warnings = self.publish(lines, table, kept.project);
                    warnings.extend(refused.map(|refusal| refusal.message));
                    warnings
                },
            })
        });
        outcome.map_err(|mut refusal| {
            if refusal.code == Code::Unknown {
                refusal.details = Details::Facts(vec![("request_id", request.to_string())]);
            }
            refusal
        })
    }

    pub fn view(&self) -> Outcome<View> {
        self.foresee_lock_files(self.view_of_log()?)
    }

    /// What the log says, whatever lock files say.
    fn view_of_log(&self) -> Outcome<View> {
        self.with_log(&mut || self.store.view())
    }

    /// Carries out a request, after whatever git or an editor changed in this tree has been taken notice of.
    pub fn handle(&self, request: Request) -> Outcome<Answer> {
        self.handle_and(request, |_| ()).map(|(answer, ())| answer)
    }

    /// The same, and what is made of the answer, which may be made while others still look at the tree.
    pub fn handle_and<T>(&self, request: Request, show: impl Fn(&Reply) -> T) -> Outcome<(Answer, T)> {
        let mut shown = None;
        let (mut noticed, early) = self.take_notice(&request, || {
            let answer = self.carry(request.clone());
            shown = answer.as_ref().ok().map(|answer| show(&answer.reply));
            answer
        });
        if early.is_none() {
            // What was answered early does not hold any more.
            shown = None;
        }
        if request.claims() {
            noticed.extend(self.honour_lock_files()?);
        }
        let mut answer = match early.unwrap_or_else(|| self.carry(request.clone())) {
            // Somebody without jit was quicker, by a lock file.
            Err(refusal)
                if refusal.code == Code::Io && refusal.message.contains(activities::LOCK_APPEARED) =>
            {
                noticed.extend(self.honour_lock_files()?);
                self.carry(request)
            }
            // Before saying that an issue is not there, what the log does not know is looked at.
            Err(refusal) if refusal.code == Code::NotFound && self.join_unknown()? > 0 => self.carry(request),
            other => other,
        }?;
        noticed.append(&mut answer.warnings);
        answer.warnings = noticed;
        let shown = shown.unwrap_or_else(|| show(&answer.reply));
        Ok((answer, shown))
    }

    fn carry(&self, request: Request) -> Outcome<Answer> {
        match request {
            Request::Acquire {
                issue,
                ttl_secs,
                wait_secs,
                note,
                on_behalf_of,
            } => {
                let command = Command::Acquire {
                    issue,
                    ttl_secs,
                    note,
                    on_behalf_of,
                };
                self.acquire(&command, wait_secs.map(Duration::from_secs))
            }
            Request::Renew { target, ttl_secs } => self.carry_out(&Command::Renew {
                target,
                ttl_secs,
                if_half_gone: false,
            }),
            Request::Release { target } => self.carry_out(&Command::Release { target }),
            Request::Transfer { target, to, worktree } => {
                let branch = match &worktree {
                    Some(id) => self.branch_of(id)?,
                    None => None,
                };
                self.carry_out(&Command::Transfer {
                    target,
                    to,
                    worktree,
                    branch,
                })
            }
            Request::ForceEvict { target, reason } => self.force_evict(target, reason),
            Request::Claims { issue } => self.claims(issue.as_ref()),
            Request::History { issue, agent, limit } => self.history(issue.as_ref(), agent.as_ref(), limit),
            Request::Next {
                label,
                kind,
                ttl_secs,
                wait_secs,
            } => {
                let command = Command::AcquireNext {
                    label,
                    kind,
                    ttl_secs,
                    on_behalf_of: None,
                };
                self.picked(self.acquire(&command, wait_secs.map(Duration::from_secs))?)
            }
            Request::CreateIssue(create) => self.create_issue(*create),
            Request::ChangeIssue {
                issue,
                change,
                description,
                strict,
            } => self.change_issue(issue, *change, description, strict),
            Request::RestoreIssue { issue } => self.restore_issue(issue),
            Request::DeleteIssue { issue, strict } => self.carry_out(&Command::DeleteIssue { issue, strict }),
            Request::Comment { issue, text } => self.carry_out(&Command::Comment { issue, text }),
            Request::ShowIssue { issue } => self.show_issue(&issue),
            Request::ListIssues { filter, sort, limit } => self.list_issues(&filter, sort, limit),
            Request::Search { text, limit } => self.search(&text, limit),
            Request::Ready { filter, limit } => self.ready(&filter, limit),
            Request::Blocked => self.blocked(),
            Request::Progress { issue } => self.progress(issue.as_ref()),
            Request::DefineGates { brought, gates } => self.define_gates(&gates, brought),
            Request::UndefineGate { name } => self.undefine_gate(&name),
            Request::RequireGate { issue, gate, strict } => self.require_gate(issue, gate, strict),
            Request::RunGates { issue, gate } => self.run_gates(&issue, gate.as_deref()),
            Request::JudgeGate {
                issue,
                gate,
                passed,
                note,
            } => self.judge_gate(issue, &gate, passed, note),
            Request::ListGates { issue } => self.list_gates(issue.as_ref()),
            Request::Commands => self.commands(),
            Request::Trust { commands } => self.trust(commands),
            Request::Revoke => self.revoke(),
            Request::Status => self.status(),
            Request::Graph { issue, closed } => self.graph(issue.as_ref(), closed),
            Request::DepTree { issue } => self.dep_tree(&issue),
            Request::Import(import) => self.import(&import),
            Request::Export => self.export(),
            Request::CreateUnit(asked) => self.create_unit(&asked),
            Request::UnitStatus { unit, all } => self.unit_status(unit.as_deref(), all),
            Request::UnitEnv { unit } => self.unit_env(unit.as_deref()),
            Request::Landings { unit, limit } => self.landings(unit.as_deref(), limit),
            Request::PruneUnits { settle } => self.prune_units(settle),
            Request::Dispatch(asked) => self.dispatch_unit(&asked),
            Request::Handoff(asked) => self.hand_on_unit(&asked),
            Request::StopUnit { unit, reason } => self.stop_unit(unit.as_deref(), &reason),
            Request::Unpark { account } => self.unpark(account),
            Request::NotifyTest => self.notify_test(),
            Request::UnitDiff { unit } => self.unit_diff(unit.as_deref()),
            Request::Workflows { all } => self.workflows(all),
            Request::WorkflowStatus { workflow } => self.workflow_status(workflow.as_deref()),
            Request::RetryUnit { unit } => self.retry_by_hand(unit.as_deref()),
            Request::StartSession(asked) => self.start_session(&asked),
            Request::BeatSession { session } => self.beat_session(session.as_ref()),
            Request::EndSession { session, status } => self.end_session(session.as_ref(), status),
            Request::ListSessions { all } => self.list_sessions(all),
            Request::ShowSession { session } => self.show_session(session.as_ref()),
            Request::PruneSessions => self.prune_sessions(),
            Request::LockAcquire { paths, wait_secs } => {
                self.lock_files(&paths, wait_secs.map(Duration::from_secs))
            }
            Request::LockCheck { paths } => self.check_locks(&paths),
            Request::LockExtend { which, ttl_secs } => self.extend_locks(&which, ttl_secs),
            Request::LockRelease { which } => self.release_locks(&which),
            Request::LockList => self.list_locks(),
            Request::LockCleanup => self.clean_locks(),
            Request::Verify { range } => {
                let verified = crate::hooks::verify(&self.place, Some(self), &range)?;
                let warnings = self.warnings.clone();
                Ok(Answer {
                    reply: Reply::Verified(verified),
                    warnings,
                })
            }
            Request::Merge(ask) => self.merge_units(&ask),
            Request::Finish { unit, pr: false } => self.finish_unit(unit.as_deref()),
            Request::Finish { unit, pr: true } => self.propose_unit(unit.as_deref()),
            Request::Conflicts { into, branches } => self.conflicts(into.as_deref(), &branches),
            Request::Rescue(asked) => self.rescue(asked),
        }
    }

    fn carry_out(&self, command: &Command) -> Outcome<Answer> {
        let done = self.transact(command)?;
        let past = match &done.reply {
            // The answer of that time could be taken for a grant of today.
            Decided::Lease { lease, .. } if done.repeated && lease.held_by(&self.actor) => {
                let current = done
                    .own
                    .iter()
                    .any(|own| own.token == lease.token && !own.expired(&done.now));
                (!current).then(|| {
                    format!(
                        "this is the answer to a request of the past: lease {} has ended since",
                        lease.lease_id
                    )
                })
            }
            _ => None,
        };
        let mut answer = self.answer(done);
        answer.warnings.extend(past);
        Ok(answer)
    }

    fn answer(&self, done: Done) -> Answer {
        let views = |leases: &[Lease]| leases.iter().map(LeaseView::of).collect();
        let mut warnings = self.warnings.clone();
        warnings.extend(done.notices);
        warnings.extend(self.soon_over(&done.own, &done.now));
        let reply = match done.reply {
            Decided::Lease {
                lease,
                existing,
                regranted,
            } => Reply::Lease(LeaseView {
                existing,
                regranted,
                ..LeaseView::of(&lease)
            }),
            Decided::Released(leases) => Reply::Released {
                released: views(&leases),
            },
            Decided::Evicted(leases) => {
                for lease in &leases {
                    warnings.push(format!("{} lost its lease {}", lease.agent_id, lease.lease_id));
                }
                Reply::Evicted {
                    evicted: views(&leases),
                }
            }
            Decided::Joined(_) => Reply::Issues {
                issues: Listing::default(),
            },
            Decided::Issue(issue) => Reply::Issue(Box::new(self.described(*issue, &done.own, &done.now))),
            Decided::Deleted(issue) => Reply::Deleted { deleted: issue.id },
            Decided::Commented(comment) => Reply::Comment(comment),
            Decided::Judged(result) => Reply::Judged(result),
            Decided::Locks(leases) => Reply::Locks {
                locks: leases.iter().filter_map(LockView::of).collect(),
            },
            // Asked for by handlers that know more, and answer themselves.
            Decided::Unit(_)
            | Decided::Workflow(_)
            | Decided::Led(_)
            | Decided::Account(_)
            | Decided::Conflicts(_)
            | Decided::Queued(_)
            | Decided::Session(_)
            | Decided::SessionEnded(_)
            | Decided::Pruned(_) => Reply::Pruned { pruned: Vec::new() },
        };
        Answer { reply, warnings }
    }

    fn read_answer(&self, view: &View, reply: Reply) -> Outcome<Answer> {
        let own = state::leases_of(&*view.table, &self.actor.agent_id).map_err(|e| refuse(Code::Io, e))?;
        let mut warnings = self.warnings.clone();
        warnings.extend(view.notices.iter().cloned());
        warnings.extend(self.soon_over(&own, &view.now));
        Ok(Answer { reply, warnings })
    }

    fn resolve(&self, view: &View, text: &IssuePrefix) -> Outcome<Issue> {
        state::resolve(&*view.table, text).map_err(stopped)
    }
}
