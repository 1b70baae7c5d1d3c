//! The program without a face: where we are, who we are, and every request carried out.
//!
//! Opening an [`Context`] starts no process and reads a handful of small files: it is on the path of every command.

pub mod calling_agent;

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

use crate::api::{Answer, Listing, Reply, Request};
use crate::config::{Config, ConfigError, Sources};
use crate::identity as agent;
use crate::identity::process_binding as bound;
use crate::identity::{AgentEnv, Whoami};
use crate::issues::replica::Replica;
use crate::refusals::{refuse, stopped};
use crate::worktree_identity::identity;
use crate::worktree_identity::identity::Need;

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
pub(crate) struct Kept<'a> {
    /// Long texts that its events name by their digests.
    pub(crate) texts: &'a [Vec<u8>],
    /// Texts that are known once its events are in the log.
    pub(crate) met: &'a [(IssueId, Vec<u8>)],
    /// Whether the issues it touches are written into this tree.
    pub(crate) project: bool,
    /// How long it waits for the lock, where it is done beside what was asked for and may be left for later.
    pub(crate) aside: Option<Duration>,
    /// What it is decided by, where that is not what the settings say alone.
    pub(crate) policy: Option<&'a Policy>,
    /// Whose lease it is done with, where the caller acts for the holder.
    pub(crate) actor: Option<&'a Actor>,
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
pub struct Context {
    pub place: Place,
    pub config: Config,
    pub whoami: Whoami,
    pub actor: Actor,
    pub branch: Option<String>,
    pub store: FileStore,
    pub(crate) replica: Replica,
    pub(crate) request: Option<RequestId>,
    pub(crate) policy: Policy,
    /// Noticed while opening.
    pub(crate) warnings: Vec<String>,
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

/// For a command that works on the store; `need` tells whether it writes.
pub fn open(options: &Options, need: Need) -> Outcome<Context> {
    within(Surroundings::find(options)?, options, need)
}

pub fn within(surroundings: Surroundings, options: &Options, need: Need) -> Outcome<Context> {
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
    let mut cx = Context {
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
    crate::gates::committed_policy::bind_leases(&mut cx);
    Ok(cx)
}

/// Retries `act` once after making the log, where `.jit/` is there but this machine has no log yet.
fn with_log<T>(cx: &Context, act: &mut dyn FnMut() -> Outcome<T>) -> Outcome<T> {
    match act() {
        Err(refusal)
            if refusal.code == Code::NotInitialized
                && cx.place.local_jit.as_deref().is_some_and(Path::is_dir) =>
        {
            cx.store.create(&cx.actor)?;
            crate::issues::sync::join_tree(cx)?;
            act()
        }
        other => other,
    }
}

pub(crate) fn transact(cx: &Context, command: &Command) -> Outcome<Done> {
    transact_as(cx, cx.request.as_ref(), command, Kept::default())
}

/// `named` is the request id that the caller gave for exactly this command.
pub(crate) fn transact_as(
    cx: &Context,
    named: Option<&RequestId>,
    command: &Command,
    kept: Kept<'_>,
) -> Outcome<Done> {
    let entropy = || random::u128().map_err(|e| refuse(Code::Io, e));
    let wall = jit_os::clock::wall_ms();
    let fresh_lease = LeaseId::generate(wall, entropy()?);
    let request = match named {
        Some(id) => id.clone(),
        None => RequestId::make_up(wall, entropy()?),
    };
    let beside = kept.aside.map(|wait| cx.store.clone().waiting(wait));
    let store = beside.as_ref().unwrap_or(&cx.store);
    let outcome = with_log(cx, &mut || {
        store.transact(&mut Ask {
            command,
            actor: kept.actor.unwrap_or(&cx.actor),
            branch: cx.branch.clone(),
            fresh_lease: fresh_lease.clone(),
            policy: kept.policy.unwrap_or(&cx.policy),
            request: request.clone(),
            repeatable: named.is_some(),
            prepare: &mut |events| {
                crate::issues::sync::texts::keep_texts(cx, events, kept.texts)?;
                crate::compat::lock_files::take_lock_files(cx, events)
            },
            publish: &mut |lines, table| {
                let is_taken = |id: &IssueId| {
                    lines
                        .iter()
                        .any(|line| matches!(&line.event, Event::Issue { issue, .. } if issue.id == *id))
                };
                let met = kept.met.iter().filter(|(id, _)| is_taken(id));
                let refused = crate::issues::sync::texts::keep_met(cx, met).err();
                let mut warnings = crate::issues::sync::projection::publish(cx, lines, table, kept.project);
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

pub fn view(cx: &Context) -> Outcome<View> {
    crate::compat::lock_files::foresee_lock_files(cx, view_of_log(cx)?)
}

/// What the log says, whatever lock files say.
pub(crate) fn view_of_log(cx: &Context) -> Outcome<View> {
    with_log(cx, &mut || cx.store.view())
}

/// Carries out a request, after whatever git or an editor changed in this tree has been taken notice of.
pub fn handle(cx: &Context, request: Request) -> Outcome<Answer> {
    handle_and(cx, request, |_| ()).map(|(answer, ())| answer)
}

/// The same, and what is made of the answer, which may be made while others still look at the tree.
pub fn handle_and<T>(cx: &Context, request: Request, show: impl Fn(&Reply) -> T) -> Outcome<(Answer, T)> {
    let mut shown = None;
    let (mut noticed, early) = crate::issues::sync::take_notice(cx, &request, || {
        let answer = carry(cx, request.clone());
        shown = answer.as_ref().ok().map(|answer| show(&answer.reply));
        answer
    });
    if early.is_none() {
        // What was answered early does not hold any more.
        shown = None;
    }
    if request.claims() {
        noticed.extend(crate::compat::lock_files::honour_lock_files(cx)?);
    }
    let mut answer = match early.unwrap_or_else(|| carry(cx, request.clone())) {
        // Somebody without jit was quicker, by a lock file.
        Err(refusal)
            if refusal.code == Code::Io
                && refusal.message.contains(crate::compat::lock_files::LOCK_APPEARED) =>
        {
            noticed.extend(crate::compat::lock_files::honour_lock_files(cx)?);
            carry(cx, request)
        }
        // Before saying that an issue is not there, what the log does not know is looked at.
        Err(refusal) if refusal.code == Code::NotFound && crate::issues::sync::join_unknown(cx)? > 0 => {
            carry(cx, request)
        }
        other => other,
    }?;
    noticed.append(&mut answer.warnings);
    answer.warnings = noticed;
    let shown = shown.unwrap_or_else(|| show(&answer.reply));
    Ok((answer, shown))
}

fn carry(cx: &Context, request: Request) -> Outcome<Answer> {
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
            crate::claims::acquire(cx, &command, wait_secs.map(Duration::from_secs))
        }
        Request::Renew { target, ttl_secs } => carry_out(
            cx,
            &Command::Renew {
                target,
                ttl_secs,
                if_half_gone: false,
            },
        ),
        Request::Release { target } => carry_out(cx, &Command::Release { target }),
        Request::Transfer { target, to, worktree } => {
            let branch = match &worktree {
                Some(id) => crate::claims::branch_of(cx, id)?,
                None => None,
            };
            carry_out(
                cx,
                &Command::Transfer {
                    target,
                    to,
                    worktree,
                    branch,
                },
            )
        }
        Request::ForceEvict { target, reason } => crate::claims::force_evict(cx, target, reason),
        Request::Claims { issue } => crate::claims::claims(cx, issue.as_ref()),
        Request::History { issue, agent, limit } => {
            crate::claims::history(cx, issue.as_ref(), agent.as_ref(), limit)
        }
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
            crate::issues::change::picked(
                cx,
                crate::claims::acquire(cx, &command, wait_secs.map(Duration::from_secs))?,
            )
        }
        Request::CreateIssue(create) => crate::issues::change::create_issue(cx, *create),
        Request::ChangeIssue {
            issue,
            change,
            description,
            strict,
        } => crate::issues::change::change_issue(cx, issue, *change, description, strict),
        Request::RestoreIssue { issue } => crate::issues::restore::restore_issue(cx, issue),
        Request::DeleteIssue { issue, strict } => carry_out(cx, &Command::DeleteIssue { issue, strict }),
        Request::Comment { issue, text } => carry_out(cx, &Command::Comment { issue, text }),
        Request::ShowIssue { issue } => crate::issues::change::show_issue(cx, &issue),
        Request::ListIssues { filter, sort, limit } => {
            crate::issues::issue_lists::list_issues(cx, &filter, sort, limit)
        }
        Request::Search { text, limit } => crate::issues::change::search(cx, &text, limit),
        Request::Ready { filter, limit } => crate::issues::issue_lists::ready(cx, &filter, limit),
        Request::Blocked => crate::issues::issue_lists::blocked(cx),
        Request::Progress { issue } => crate::issues::issue_lists::progress(cx, issue.as_ref()),
        Request::DefineGates { brought, gates } => crate::gates::service::define_gates(cx, &gates, brought),
        Request::UndefineGate { name } => crate::gates::service::undefine_gate(cx, &name),
        Request::RequireGate { issue, gate, strict } => {
            crate::gates::service::require_gate(cx, issue, gate, strict)
        }
        Request::RunGates { issue, gate } => crate::gates::service::run_gates(cx, &issue, gate.as_deref()),
        Request::JudgeGate {
            issue,
            gate,
            passed,
            note,
        } => crate::gates::service::judge_gate(cx, issue, &gate, passed, note),
        Request::ListGates { issue } => crate::gates::service::list_gates(cx, issue.as_ref()),
        Request::Commands => crate::trust::commands(cx),
        Request::Trust { commands } => crate::trust::trust(cx, commands),
        Request::Revoke => crate::trust::revoke(cx),
        Request::Status => crate::issues::issue_lists::status(cx),
        Request::Graph { issue, closed } => crate::issues::graph::graph(cx, issue.as_ref(), closed),
        Request::DepTree { issue } => crate::issues::graph::dep_tree(cx, &issue),
        Request::Import(import) => crate::issues::exchange::import(cx, &import),
        Request::Export => crate::issues::exchange::export(cx),
        Request::CreateUnit(asked) => crate::units::service::create_unit(cx, &asked),
        Request::UnitStatus { unit, all } => crate::units::service::unit_status(cx, unit.as_deref(), all),
        Request::UnitEnv { unit } => crate::units::service::unit_env(cx, unit.as_deref()),
        Request::Landings { unit, limit } => crate::units::service::landings(cx, unit.as_deref(), limit),
        Request::PruneUnits { settle } => crate::worktrees::orphans::prune_units(cx, settle),
        Request::Dispatch(asked) => crate::attempts::dispatch::dispatch_unit(cx, &asked),
        Request::Handoff(asked) => crate::attempts::handoff::hand_on_unit(cx, &asked),
        Request::StopUnit { unit, reason } => {
            crate::attempts::dispatch::stop_unit(cx, unit.as_deref(), &reason)
        }
        Request::Unpark { account } => crate::attempts::accounts::unpark(cx, account),
        Request::NotifyTest => crate::notify::service::notify_test(cx),
        Request::UnitDiff { unit } => crate::workflows::service::unit_diff(cx, unit.as_deref()),
        Request::Workflows { all } => crate::workflows::service::workflows(cx, all),
        Request::WorkflowStatus { workflow } => {
            crate::workflows::service::workflow_status(cx, workflow.as_deref())
        }
        Request::RetryUnit { unit } => crate::attempts::dispatch::retry_by_hand(cx, unit.as_deref()),
        Request::StartSession(asked) => crate::sessions::start_session(cx, &asked),
        Request::BeatSession { session } => crate::sessions::beat_session(cx, session.as_ref()),
        Request::EndSession { session, status } => crate::sessions::end_session(cx, session.as_ref(), status),
        Request::ListSessions { all } => crate::sessions::list_sessions(cx, all),
        Request::ShowSession { session } => crate::sessions::show_session(cx, session.as_ref()),
        Request::PruneSessions => crate::sessions::prune_sessions(cx),
        Request::LockAcquire { paths, wait_secs } => {
            crate::file_locks::service::lock_files(cx, &paths, wait_secs.map(Duration::from_secs))
        }
        Request::LockCheck { paths } => crate::file_locks::service::check_locks(cx, &paths),
        Request::LockExtend { which, ttl_secs } => {
            crate::file_locks::service::extend_locks(cx, &which, ttl_secs)
        }
        Request::LockRelease { which } => crate::file_locks::service::release_locks(cx, &which),
        Request::LockList => crate::file_locks::service::list_locks(cx),
        Request::LockCleanup => crate::file_locks::service::clean_locks(cx),
        Request::Verify { range } => {
            let verified = crate::hooks::git::verify::range(&cx.place, Some(cx), &range)?;
            let warnings = cx.warnings.clone();
            Ok(Answer {
                reply: Reply::Verified(verified),
                warnings,
            })
        }
        Request::Merge(ask) => crate::landing::service::merge_units(cx, &ask),
        Request::Finish { unit, pr: false } => crate::landing::service::finish_unit(cx, unit.as_deref()),
        Request::Finish { unit, pr: true } => crate::landing::pull_request::propose_unit(cx, unit.as_deref()),
        Request::Conflicts { into, branches } => {
            crate::landing::service::conflicts(cx, into.as_deref(), &branches)
        }
        Request::Rescue(asked) => crate::worktrees::cleanup::rescue(cx, asked),
    }
}

pub(crate) fn carry_out(cx: &Context, command: &Command) -> Outcome<Answer> {
    let done = transact(cx, command)?;
    let past = match &done.reply {
        // The answer of that time could be taken for a grant of today.
        Decided::Lease { lease, .. } if done.repeated && lease.held_by(&cx.actor) => {
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
    let mut answer = answer(cx, done);
    answer.warnings.extend(past);
    Ok(answer)
}

pub(crate) fn answer(cx: &Context, done: Done) -> Answer {
    let views = |leases: &[Lease]| leases.iter().map(LeaseView::of).collect();
    let mut warnings = cx.warnings.clone();
    warnings.extend(done.notices);
    warnings.extend(crate::claims::soon_over(cx, &done.own, &done.now));
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
        Decided::Issue(issue) => Reply::Issue(Box::new(crate::issues::change::described(
            cx, *issue, &done.own, &done.now,
        ))),
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

pub(crate) fn read_answer(cx: &Context, view: &View, reply: Reply) -> Outcome<Answer> {
    let own = state::leases_of(&*view.table, &cx.actor.agent_id).map_err(|e| refuse(Code::Io, e))?;
    let mut warnings = cx.warnings.clone();
    warnings.extend(view.notices.iter().cloned());
    warnings.extend(crate::claims::soon_over(cx, &own, &view.now));
    Ok(Answer { reply, warnings })
}

pub(crate) fn resolve(view: &View, text: &IssuePrefix) -> Outcome<Issue> {
    state::resolve(&*view.table, text).map_err(stopped)
}
