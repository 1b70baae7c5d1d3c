//! The program without a face: where we are, who we are, and every request carried out.
//!
//! Opening an [`App`] starts no process and reads a handful of small files: it is on the path of every command.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jit_core::command::{Command, NewIssue, Reply as Decided};
use jit_core::event::{Event, Stamped};
use jit_core::ids::{AgentId, IssueId, LeaseId, RequestId, WorktreeId};
use jit_core::lease::{Actor, Lease};
use jit_core::policy::TtlPolicy;
use jit_core::refusal::{Code, Details, Refusal, Stop, left};
use jit_core::state;
use jit_core::time::Now;
use jit_core::wire::{self, LeaseView};

use crate::agent::{self, AgentEnv, Whoami};
use crate::config::{Config, Sources};
use crate::git::config::Shared;
use crate::git::{GitEnv, Place, worktrees};
use crate::heartbeat;
use crate::issues::{self, Replica};
use crate::os::clock::SystemClock;
use crate::os::random;
use crate::os::watch::Watch;
use crate::request::{ActiveLease, Answer, Claims, CreateIssue, IssueFilter, IssueView, Reply, Request};
use crate::store::disk::RealDisk;
use crate::store::file::{FileStore, io_refusal};
use crate::store::{Ask, Done, Outcome, Store, View};
use crate::worktree::identity::{self, Need};

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
    ttl: TtlPolicy,
    /// Noticed while opening.
    warnings: Vec<String>,
}

fn refuse(code: Code, message: impl ToString) -> Box<Refusal> {
    Box::new(Refusal::new(code, message.to_string()))
}

/// As a shell reads it back as one word.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
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

impl Surroundings {
    pub fn find(options: &Options) -> Outcome<Self> {
        let dir = options.dir.as_deref().unwrap_or(Path::new("."));
        let place = Place::discover(dir, &GitEnv::from_process()).map_err(|e| refuse(Code::NotFound, e))?;
        let config = Config::load(&Sources::from_process(&place)).map_err(|e| refuse(Code::Config, e))?;
        let whoami = agent::resolve(
            options.agent.as_deref(),
            &AgentEnv::from_process(),
            config.agent_kinds(),
        )
        .map_err(|e| refuse(Code::Invalid, e))?;
        Ok(Self {
            place,
            config,
            whoami,
        })
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
        let ttl = config.ttl_policy();
        let actor = Actor {
            agent_id: whoami.agent_id.clone(),
            worktree_id,
        };
        let request = options.request.clone();
        Ok(Self {
            place,
            config,
            whoami,
            actor,
            branch,
            store,
            replica,
            request,
            ttl,
            warnings,
        })
    }

    /// Retries `act` once after making the log, where `.jit/` is there but this machine has no log yet.
    fn with_log<T>(&self, act: &mut dyn FnMut() -> Outcome<T>) -> Outcome<T> {
        match act() {
            Err(refusal)
                if refusal.code == Code::NotInitialized
                    && self.place.local_jit.as_deref().is_some_and(Path::is_dir) =>
            {
                self.store.create(&self.actor)?;
                self.adopt_tree()?;
                act()
            }
            other => other,
        }
    }

    /// Makes issues known that are in this worktree's tree but not in the log: a clone or a pull brought them. Returns
    /// how many, and what was found there that is not an issue.
    pub fn adopt_tree(&self) -> Outcome<(usize, Vec<String>)> {
        let Some(tree) = &self.place.local_jit else {
            return Ok((0, Vec::new()));
        };
        let view = self.store.view()?;
        let known = |id: &IssueId| state::issue(&*view.table, id).is_ok_and(|issue| issue.is_some());
        let found = issues::tree::read(tree, &known).map_err(|e| io_refusal("read", tree, &e))?;
        if found.issues.is_empty() {
            return Ok((0, found.unsound));
        }
        let command = Command::AdoptIssues(found.issues.iter().map(|(issue, _)| issue.clone()).collect());
        let tag = format!("{:016x}", random::u64().map_err(|e| refuse(Code::Io, e))?);
        let done = self.transact_as(None, &command, &mut |events| {
            for event in events {
                if let Event::IssueCreated { issue } = event
                    && let Some((_, files)) = found.issues.iter().find(|(one, _)| one.id == issue.id)
                {
                    self.replica
                        .add(&issue.id, files, &format!("{tag}-{}", issue.id))?;
                }
            }
            Ok(())
        })?;
        let count = match done.reply {
            Decided::Adopted(count) => count,
            _ => 0,
        };
        Ok((count, found.unsound))
    }

    fn transact(
        &self,
        command: &Command,
        prepare: &mut dyn FnMut(&[Event]) -> io::Result<()>,
    ) -> Outcome<Done> {
        self.transact_as(self.request.as_ref(), command, prepare)
    }

    /// `named` is the request id that the caller gave for exactly this command.
    fn transact_as(
        &self,
        named: Option<&RequestId>,
        command: &Command,
        prepare: &mut dyn FnMut(&[Event]) -> io::Result<()>,
    ) -> Outcome<Done> {
        let entropy = || random::u128().map_err(|e| refuse(Code::Io, e));
        let wall = crate::os::clock::wall_ms();
        let fresh_lease = LeaseId::generate(wall, entropy()?);
        let request = match named {
            Some(id) => id.clone(),
            None => RequestId::make_up(wall, entropy()?),
        };
        let outcome = self.with_log(&mut || {
            self.store.transact(&mut Ask {
                command,
                actor: &self.actor,
                branch: self.branch.clone(),
                fresh_lease: fresh_lease.clone(),
                ttl: &self.ttl,
                agents_may_evict: self.config.may_force_evict(),
                request: request.clone(),
                repeatable: named.is_some(),
                prepare,
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
        self.with_log(&mut || self.store.view())
    }

    /// Warnings about leases that are about to run out (B11).
    fn soon_over(&self, own: &[Lease], now: &Now) -> Vec<String> {
        let pct = self.config.lease_renewal_threshold_pct();
        // Who said who it is on the command line has to say it again.
        let who = match self.whoami.source {
            agent::Source::Flag => format!(" --agent-id {}", shell_word(self.actor.agent_id.as_str())),
            _ => String::new(),
        };
        let mine = own
            .iter()
            .filter(|lease| lease.held_by(&self.actor) && !lease.expired(now));
        mine.filter(|lease| {
            lease.remaining_ms(now) * 100 < lease.ttl_secs.saturating_mul(1000).saturating_mul(pct)
        })
        .map(|lease| {
            format!(
                "your lease on {} ends in {}: jit claim renew {} --ttl {}{who}",
                lease.resource.issue().map_or("it", IssueId::as_str),
                left(lease.remaining_ms(now)),
                lease.lease_id,
                lease.ttl_secs
            )
        })
        .collect()
    }

    /// Carries out a request. What a pull brought and nobody has looked at yet is looked at before saying that an
    /// issue is not there.
    pub fn handle(&self, request: Request) -> Outcome<Answer> {
        match self.carry(request.clone()) {
            Err(refusal) if refusal.code == Code::NotFound && self.adopt_tree()?.0 > 0 => self.carry(request),
            other => other,
        }
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
            Request::ForceEvict { target, reason } => self.carry_out(&Command::ForceEvict { target, reason }),
            Request::Claims { issue } => self.claims(issue.as_ref()),
            Request::History { issue, agent, limit } => self.history(issue.as_ref(), agent.as_ref(), limit),
            Request::CreateIssue(create) => self.create_issue(&create),
            Request::ShowIssue { issue } => self.show_issue(&issue),
            Request::ListIssues { filter, limit } => self.list_issues(&filter, limit),
        }
    }

    fn carry_out(&self, command: &Command) -> Outcome<Answer> {
        let done = self.transact(command, &mut |_| Ok(()))?;
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
            Decided::Adopted(_) => Reply::Issues { issues: Vec::new() },
            Decided::Issue(issue) => {
                let description = self.replica.description(&issue.id).ok().flatten();
                Reply::Issue(Box::new(IssueView::new(*issue, None, &done.now, description)))
            }
        };
        Answer { reply, warnings }
    }

    fn acquire(&self, command: &Command, wait: Option<Duration>) -> Outcome<Answer> {
        let until = Instant::now() + wait.unwrap_or_default();
        match self.carry_out(command) {
            Err(refusal) if refusal.code == Code::Held && wait.is_some() => {}
            other => return other,
        }
        // Watching begins before the next attempt, so that no release can slip in between.
        let watch = Watch::on(&self.place.control_dir.join("events")).map_err(|e| refuse(Code::Io, e))?;
        loop {
            let refused = match self.carry_out(command) {
                Err(refusal) if refusal.code == Code::Held => refusal,
                other => return other,
            };
            let Some(time_left) = until.checked_duration_since(Instant::now()) else {
                return Err(refused);
            };
            let expiry = match &refused.details {
                Details::Lease(lease) => {
                    let ticks = crate::os::clock::boot_ns() / 1_000_000;
                    Duration::from_millis(lease.deadline.saturating_sub(ticks) + 1)
                }
                _ => time_left,
            };
            watch
                .wait(time_left.min(expiry))
                .map_err(|e| refuse(Code::Io, e))?;
        }
    }

    fn branch_of(&self, id: &WorktreeId) -> Outcome<Option<String>> {
        let unknown = || {
            Box::new(
                Refusal::new(Code::NotFound, format!("no worktree of this repository is {id}"))
                    .help("jit worktree list"),
            )
        };
        if self.actor.worktree_id.as_ref() == Some(id) {
            return Ok(self.branch.clone());
        }
        let common = self.place.common_dir.as_deref().ok_or_else(unknown)?;
        let all = worktrees::list(common).map_err(|e| refuse(Code::Io, e))?;
        let named = |entry: &worktrees::WorktreeEntry| {
            identity::peek(&entry.git_dir).is_some_and(|identity| identity.worktree_id == *id)
        };
        all.into_iter()
            .find(named)
            .map(|entry| entry.branch)
            .ok_or_else(unknown)
    }

    fn read_answer(&self, view: &View, reply: Reply) -> Outcome<Answer> {
        let own = state::leases_of(&*view.table, &self.actor.agent_id).map_err(|e| refuse(Code::Io, e))?;
        let mut warnings = self.warnings.clone();
        warnings.extend(view.notices.iter().cloned());
        warnings.extend(self.soon_over(&own, &view.now));
        Ok(Answer { reply, warnings })
    }

    fn resolve(&self, view: &View, text: &jit_core::ids::IssuePrefix) -> Outcome<jit_core::issue::Issue> {
        state::resolve(&*view.table, text).map_err(|stop| match stop {
            Stop::Refused(refusal) => refusal,
            Stop::Unreadable(e) => refuse(Code::Io, e),
        })
    }

    fn claims(&self, issue: Option<&jit_core::ids::IssuePrefix>) -> Outcome<Answer> {
        let view = self.view()?;
        let unreadable = |e| refuse(Code::Io, e);
        let mut leases = match issue {
            Some(text) => {
                let key = jit_core::lease::Resource::Issue(self.resolve(&view, text)?.id).key();
                state::lease_on(&*view.table, &key)
                    .map_err(unreadable)?
                    .into_iter()
                    .collect()
            }
            None => state::leases(&*view.table).map_err(unreadable)?,
        };
        leases.retain(|lease| !lease.expired(&view.now));
        leases.sort_by_key(|lease| lease.token);
        let mut beats = heartbeat::Beats::new(&self.place.control_dir);
        let active = leases
            .iter()
            .map(|lease| {
                let beat = beats.of(&lease.agent_id);
                ActiveLease {
                    lease: LeaseView::of(lease),
                    remaining_secs: lease.remaining_ms(&view.now) / 1000,
                    heartbeat_age_secs: beat.as_ref().map(|beat| beat.age_secs(view.now.wall)),
                    heartbeat_alive: beat.as_ref().map(|beat| beat.alive),
                }
            })
            .collect();
        let sequence = view.sequence;
        let generated_at = view.now.wall;
        let claims = Claims {
            schema_version: 1,
            sequence,
            generated_at,
            active,
        };
        let mut answer = self.read_answer(&view, Reply::Claims(claims))?;
        if !view.views_fine {
            answer.warnings.extend(self.store.mend_views(&self.actor));
        }
        Ok(answer)
    }

    fn history(
        &self,
        issue: Option<&jit_core::ids::IssuePrefix>,
        agent: Option<&AgentId>,
        limit: usize,
    ) -> Outcome<Answer> {
        let view = self.view()?;
        let issue = issue
            .map(|text| self.resolve(&view, text))
            .transpose()?
            .map(|issue| issue.id);
        let mut records = std::collections::VecDeque::new();
        self.store.events(0, &mut |line: Stamped| {
            let about = line.event.lease().is_some_and(|lease| {
                issue.as_ref().is_none_or(|id| lease.resource.issue() == Some(id))
                    && agent.is_none_or(|agent| lease.agent_id == *agent || line.actor.agent_id == *agent)
            });
            if about && let Some(record) = wire::claims_record(&line) {
                records.push_back(serde_json::from_slice(&record).unwrap_or_default());
                if records.len() > limit {
                    records.pop_front();
                }
            }
            ControlFlow::Continue(())
        })?;
        self.read_answer(
            &view,
            Reply::History {
                records: records.into(),
            },
        )
    }

    fn create_issue(&self, create: &CreateIssue) -> Outcome<Answer> {
        if let (Some(id), Some(tree)) = (&create.id, &self.place.local_jit)
            && tree.join("issues").join(id.as_str()).is_dir()
        {
            // A pull may have brought it: then it is there already, and must not be written over.
            self.with_log(&mut || self.store.view().map(drop))?;
            self.adopt_tree()?;
        }
        let random = || random::u64().map_err(|e| refuse(Code::Io, e));
        let (ids, chosen) = match &create.id {
            Some(id) => (vec![id.clone()], true),
            None => (
                (0..8)
                    .map(|_| random().map(IssueId::generate))
                    .collect::<Result<_, _>>()?,
                false,
            ),
        };
        let command = Command::CreateIssue(NewIssue {
            ids,
            chosen,
            title: create.title.clone(),
            kind: create.kind.clone(),
            state: create.state,
            priority: create.priority,
            parent: create.parent.clone(),
            labels: create.labels.clone(),
            depends_on: create.depends_on.clone(),
            gates: create.gates.clone(),
        });
        let tag = format!("{:016x}", random()?);
        let mut written: Option<(IssueId, issues::Files)> = None;
        let by = self.actor.agent_id.clone();
        let outcome = self.transact(&command, &mut |events| {
            for event in events {
                if let Event::IssueCreated { issue } = event {
                    let files = issues::files(issue, create.description.as_deref(), &by, &mut random::u128)?;
                    self.replica.add(&issue.id, &files, &tag)?;
                    written = Some((issue.id.clone(), files));
                }
            }
            Ok(())
        });
        // Where the append failed, the files stay in the replica unseen; whoever uses the id next moves them aside.
        let mut answer = self.answer(outcome?);
        if let (Some((id, files)), Some(tree)) = (&written, &self.place.local_jit)
            && let Err(e) = issues::project(tree, id, files)
        {
            answer.warnings.push(format!(
                "the issue is kept, but its files could not be written to {}: {e}",
                tree.display()
            ));
        }
        Ok(answer)
    }

    fn show_issue(&self, text: &jit_core::ids::IssuePrefix) -> Outcome<Answer> {
        let view = self.view()?;
        let issue = self.resolve(&view, text)?;
        let mut description = self
            .replica
            .description(&issue.id)
            .map_err(|e| io_refusal("read", &self.replica.folder(&issue.id), &e))?;
        if description.is_none() && !self.replica.folder(&issue.id).is_dir() {
            // The replica lost it; the tree may still have it.
            let tree = self.place.local_jit.as_deref().map(Replica::at);
            description = tree.and_then(|tree| tree.description(&issue.id).ok().flatten());
        }
        let key = jit_core::lease::Resource::Issue(issue.id.clone()).key();
        let lease = state::lease_on(&*view.table, &key).map_err(|e| refuse(Code::Io, e))?;
        let shown = IssueView::new(issue, lease.as_ref(), &view.now, description);
        self.read_answer(&view, Reply::Issue(Box::new(shown)))
    }

    fn list_issues(&self, filter: &IssueFilter, limit: Option<usize>) -> Outcome<Answer> {
        let view = self.view()?;
        let unreadable = |e| refuse(Code::Io, e);
        let parent = filter
            .parent
            .as_ref()
            .map(|text| self.resolve(&view, text))
            .transpose()?
            .map(|issue| issue.id);
        let mut held: std::collections::HashMap<String, Lease> = std::collections::HashMap::new();
        for lease in state::leases(&*view.table).map_err(unreadable)? {
            held.insert(lease.resource.key(), lease);
        }
        let all = state::issues(&*view.table).map_err(unreadable)?;
        let mut issues: Vec<IssueView> = all
            .into_iter()
            .map(|issue| {
                let lease = held.get(&format!("issue:{}", issue.id.key()));
                IssueView::new(issue, lease, &view.now, None)
            })
            .filter(|view| {
                filter.state.is_none_or(|state| view.shown_state == state)
                    && filter
                        .label
                        .as_ref()
                        .is_none_or(|label| view.issue.labels.contains(label))
                    && filter.kind.as_ref().is_none_or(|kind| view.issue.kind == *kind)
                    && parent
                        .as_ref()
                        .is_none_or(|parent| view.issue.parent.as_ref() == Some(parent))
                    && filter
                        .assignee
                        .as_ref()
                        .is_none_or(|agent| view.assignee.as_ref() == Some(agent))
            })
            .collect();
        issues.sort_by(|a, b| (a.issue.created_at, &a.issue.id).cmp(&(b.issue.created_at, &b.issue.id)));
        issues.truncate(limit.unwrap_or(usize::MAX));
        self.read_answer(&view, Reply::Issues { issues })
    }

    /// Renews what the agent holds here, where more than half of it is gone. For heartbeats. Returns how many were.
    pub fn renew_own(&self) -> Outcome<usize> {
        let view = self.view()?;
        let own = state::leases_of(&*view.table, &self.actor.agent_id).map_err(|e| refuse(Code::Io, e))?;
        let mut renewed = 0;
        for lease in own.iter().filter(|lease| lease.held_by(&self.actor)) {
            if lease.remaining_ms(&view.now) * 2 > lease.ttl_secs.saturating_mul(1000) {
                continue;
            }
            let command = Command::Renew {
                target: jit_core::command::Target::Lease(lease.lease_id.clone()),
                ttl_secs: None,
                if_half_gone: true,
            };
            // Every beat is a request of its own, whatever the agent's environment says.
            match self.transact_as(None, &command, &mut |_| Ok(())) {
                Ok(_) => renewed += 1,
                // Somebody else has it now: that is for the agent to find out, not for its heart.
                Err(refusal) if refusal.code == Code::NotHolder || refusal.code == Code::NotFound => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(renewed)
    }
}
