//! Judges one step of an agent before a tool runs: the worktree, git, the unit's scope and the file locks (F9, G15).
//!
//! What must hold:
//! - A step that cannot be judged is an objection by the configured mode. While the configuration cannot be read, only
//!   an edit that may repair it passes.
//! - The scope of a unit holds whatever the configuration says: the process that started the agent has set it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use jit_agents::hooks::decision::{HookDecision as Verdict, Objection, RuleMode as Mode};
use jit_agents::hooks::input::{Act, BadInput, ToolCall};
use jit_core::log::state;
use jit_core::model::policy::Enforce;
use jit_core::model::refusal::{Code, Details, Refusal};
use jit_git::{DiscoverError, Place};
use jit_os::account;
use jit_store::Outcome;

use super::ground::{Ground, Whose};
use super::guard::{self, Rules, Seen};
use super::run::{Hook, short, unreadable};
use crate::api::Reply;
use crate::api::file_locks::{FileLockReply, LockChecks, LockPaths};
use crate::config::{Config, Origin, Sources};
use crate::context::{Context, Surroundings};
use crate::units::scope::Scope;
use crate::worktree_identity::identity::Need;

/// Returns whether this is a linked worktree, as units have it.
fn is_linked(place: &Place) -> bool {
    place.git_dir.is_some() && place.git_dir != place.common_dir
}

/// Objects to writes outside the agent's scope in this repository (G15). A command that may change any file is judged
/// by its result, after the agent has ended.
fn within(ground: &Ground, scope: &Scope, seen: &Seen, verdict: &mut Verdict) {
    let own = std::fs::canonicalize(&ground.own).unwrap_or_else(|_| ground.own.clone());
    for path in &seen.writes {
        let allowed = match ground.whose(path) {
            Whose::Elsewhere => true,
            Whose::Other(_) | Whose::OwnGit | Whose::Git | Whose::State | Whose::Restraint => false,
            Whose::Own => path
                .strip_prefix(&own)
                .is_ok_and(|below| scope.allows(&below.to_string_lossy())),
        };
        if !allowed {
            let what = format!(
                "{} is not yours to change: you may write only {}.",
                path.display(),
                scope.shown()
            );
            let instead = "Do without it, and say in your last message what should be changed there.";
            verdict.add(Mode::Deny, Objection::new(what, instead));
        }
    }
    if let Some(text) = &seen.whole_tree {
        let text: String = text.chars().take(60).collect();
        let what = format!(
            "{text:?} may change any file, and you may write only {}.",
            scope.shown()
        );
        let instead =
            "Look at `git status` afterwards: what differs elsewhere when you end is sent back to you.";
        verdict.add(Mode::Warn, Objection::new(what, instead));
    }
}

/// Returns the strongest mode that the settings allow.
fn ceiling(config: &Config) -> Mode {
    match config.policy().enforce {
        Enforce::Off => Mode::Off,
        Enforce::Warn => Mode::Warn,
        Enforce::Strict | Enforce::StrictExplicit => Mode::Deny,
    }
}

fn rules(config: &Config) -> Rules {
    let most = ceiling(config);
    Rules {
        most,
        outside_worktree: most.min(config.outside_worktree()),
        stash: most.min(config.stash()),
        destructive_git: most.min(config.destructive_git()),
    }
}

impl Hook {
    /// Judges `call`. `tell` gets the mode of objections as soon as it is known.
    pub(super) fn before_tool(
        &self,
        call: Result<ToolCall, BadInput>,
        verdict: &mut Verdict,
        tell: &dyn Fn(Mode),
    ) {
        let found = match self.surroundings() {
            Ok(found) => found,
            Err(refusal) if refusal.code == Code::Config => {
                return self.without_settings(&refusal, call, verdict);
            }
            Err(refusal) => return verdict.add(Mode::Deny, objection(&refusal)),
        };
        let most = ceiling(&found.config);
        tell(most);
        // The process that started the agent set the unit's scope. No setting of the repository lifts it.
        let may_be_scoped = is_linked(&found.place);
        if most == Mode::Off && !may_be_scoped {
            return;
        }
        let call = match call {
            Ok(call) => call,
            Err(bad) => {
                let what = format!("This step cannot be judged: {bad}.");
                return verdict.add(most, Objection::new(what, "Try it in another way."));
            }
        };
        if call.act == Act::Harmless {
            return;
        }
        let rules = rules(&found.config);
        let ground = match ground(&found) {
            Ok(ground) => ground,
            Err(error) => {
                let what = format!("The worktrees of this repository cannot be read: {error}.");
                return verdict.add(most, Objection::new(what, "See `jit doctor`."));
            }
        };
        let mut step = Step {
            hook: self,
            rules,
            ground,
            verdict,
            found: Some(found),
            cx: None,
            seen: Seen::default(),
        };
        let cwd = call.cwd.clone().unwrap_or_else(|| self.start.clone());
        let decided = step
            .look(&call, &cwd)
            .and_then(|()| match may_be_scoped {
                true => step.keep_to_scope(),
                false => Ok(()),
            })
            .and_then(|()| step.lock());
        if let Err(refusal) = decided {
            verdict.add(most, objection(&refusal));
        }
    }

    /// Judges a call while the settings cannot be read. An edit that may repair the settings file passes. All other
    /// steps are refused, because lenient settings cannot be proven. An environment variable is the exception: it
    /// counts whatever the files say.
    fn without_settings(&self, refusal: &Refusal, call: Result<ToolCall, BadInput>, verdict: &mut Verdict) {
        let place = &self.place;
        let (config, _) = Config::load_despite(&Sources::from_process(place));
        let said_so = matches!(config.origin("worktree.enforce_leases"), Ok(Origin::Env { .. }));
        let most = match said_so {
            true => ceiling(&config),
            false => Mode::Deny,
        };
        let what = format!("{}.", refusal.message);
        let mending = place.local_jit.as_deref().map(|local| local.join("config.toml"));
        let shown = mending
            .as_deref()
            .unwrap_or(Path::new("it"))
            .display()
            .to_string();
        match call {
            Ok(call) if call.act == Act::Harmless => {}
            Ok(ToolCall {
                act: Act::Write(paths),
                cwd,
                ..
            }) if !paths.is_empty()
                && mending.is_some_and(|file| {
                    paths
                        .iter()
                        .all(|path| is_same(&cwd.as_deref().unwrap_or(&self.start).join(path), &file))
                }) =>
            {
                let instead =
                    "This edit may mend it, and passes without a lock; `jit doctor` tells whether it did.";
                verdict.add(most.min(Mode::Warn), Objection::new(what, instead));
            }
            _ => {
                let instead = format!(
                    "Until that can be read nobody knows what is allowed here, so this step is refused. Mend {shown} first: \
                     an edit of that file passes."
                );
                verdict.add(most, Objection::new(what, instead));
            }
        }
    }
}

/// Surveys the folders and branches around a session.
fn ground(found: &Surroundings) -> Result<Ground, DiscoverError> {
    let var = |name: &str| std::env::var_os(name);
    let mut ground = Ground::survey(&found.place, var("HOME").map(PathBuf::from))?;
    ground.restrain(&found.place, var, account::home().as_deref());
    ground.agent = Some(found.whoami.agent_id.to_string());
    Ok(ground)
}

/// One step of an agent that is being judged.
struct Step<'a> {
    hook: &'a Hook,
    rules: Rules,
    ground: Ground,
    verdict: &'a mut Verdict,
    /// The surroundings, until the store is opened.
    found: Option<Surroundings>,
    /// The store, once it was needed.
    cx: Option<Context>,
    seen: Seen,
}

impl Step<'_> {
    /// Finds the files that the step writes, and judges its commands.
    fn look(&mut self, call: &ToolCall, cwd: &Path) -> Outcome<()> {
        let most = self.rules.most;
        match &call.act {
            Act::Harmless => {}
            Act::Unknown => {
                let tool: String = call.tool.chars().take(60).collect();
                let what = format!("jit does not know what the tool {tool:?} writes.");
                let instead = "Use a tool it knows, or let the hook's matcher leave this one out.";
                self.verdict.add(most, Objection::new(what, instead));
            }
            Act::Write(paths) => {
                for path in paths {
                    let written = guard::write(&self.ground, &self.rules, path, cwd, self.verdict);
                    self.seen.writes.extend(written);
                }
            }
            Act::Run(text) => {
                if most != Mode::Off && text.contains("git") {
                    self.ground.held = held(self.open()?)?;
                }
                self.seen = guard::judge(&self.ground, &self.rules, text, cwd, self.verdict);
            }
        }
        Ok(())
    }

    fn writes(&self) -> bool {
        !self.seen.writes.is_empty() || self.seen.whole_tree.is_some()
    }

    fn open(&mut self) -> Outcome<&Context> {
        let cx = match (self.cx.take(), self.found.take()) {
            (Some(cx), _) => cx,
            (None, Some(found)) => crate::opening::within(found, &self.hook.options, Need::Write)?,
            // It failed before.
            (None, None) => self.hook.cx(Need::Write)?,
        };
        Ok(self.cx.insert(cx))
    }

    /// Objects to writes outside the scope of the unit, if there is one.
    fn keep_to_scope(&mut self) -> Outcome<()> {
        if !self.writes() {
            return Ok(());
        }
        let scope = crate::units::scope::scope_here(self.open()?)?;
        if let Some(scope) = scope {
            within(&self.ground, &scope, &self.seen, self.verdict);
        }
        Ok(())
    }

    /// Locks the files, unless the step is denied already.
    fn lock(&mut self) -> Outcome<()> {
        // Files outside of every checkout belong to no agent here.
        let ours = |path: &&PathBuf| matches!(self.ground.whose(path), Whose::Own | Whose::Other(_));
        let files: Vec<OsString> = self.seen.writes.iter().filter(ours).map(OsString::from).collect();
        let whole_tree = self.seen.whole_tree.take();
        if self.rules.most == Mode::Off
            || self.verdict.is_denied()
            || (files.is_empty() && whole_tree.is_none())
        {
            return Ok(());
        }
        let root = self.ground.own.clone();
        let cx = self.open()?;
        if let Some(by) = whole_tree {
            nobody_elses(cx, &root, &by)?;
        }
        match files.is_empty() {
            true => Ok(()),
            false => take(cx, files),
        }
    }
}

/// Returns whether a path leads to exactly this file, which must be a regular file and not a link.
fn is_same(path: &Path, file: &Path) -> bool {
    let plain = file.symlink_metadata().is_ok_and(|meta| meta.is_file());
    plain && matches!((path.canonicalize(), file.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// Returns the branches in which other agents hold a lease.
fn held(cx: &Context) -> Outcome<Vec<(String, String)>> {
    let view = crate::write_path::view(cx)?;
    let all = state::claims(&*view.table).map_err(unreadable)?;
    let others = all
        .into_iter()
        .filter(|lease| !lease.expired(&view.now) && lease.agent_id != cx.actor.agent_id);
    Ok(others
        .filter_map(|lease| Some((lease.branch.clone()?, lease.agent_id.to_string())))
        .filter(|(branch, _)| Some(branch.as_str()) != cx.branch.as_deref())
        .collect())
}

/// Refuses a write of the whole worktree while another agent holds a lock in it. Acquires no lock itself.
fn nobody_elses(cx: &Context, root: &Path, by: &str) -> Outcome<()> {
    let paths = LockPaths {
        paths: vec![root.to_owned().into()],
        literal: true,
        ..LockPaths::default()
    };
    let Reply::FileLocks(FileLockReply::Checks(LockChecks { paths: checks })) =
        crate::file_locks::service::check_locks(cx, &paths)?.reply
    else {
        return Ok(());
    };
    // A global lock that was acquired in another worktree concerns its own files, not every file of this tree.
    let mut others = checks.iter().flat_map(|check| &check.locks);
    let Some(lock) = others.find(|lock| lock.worktree_id == cx.actor.worktree_id) else {
        return Ok(());
    };
    let message = format!(
        "{:?} may write any file of this worktree, and {} has locked {} in it",
        short(by),
        lock.agent_id,
        lock.file_path
    );
    Err(Box::new(Refusal::new(Code::Held, message).help("jit lock list")))
}

/// Locks these files. If this agent has locked them already, nothing is written.
fn take(cx: &Context, files: Vec<OsString>) -> Outcome<()> {
    let paths = LockPaths {
        paths: files.into_iter().map(Into::into).collect(),
        literal: true,
        ..LockPaths::default()
    };
    if let Reply::FileLocks(FileLockReply::Checks(LockChecks { paths: checks })) =
        crate::file_locks::service::check_locks(cx, &paths)?.reply
        && checks.iter().all(|check| check.mine && check.locks.is_empty())
    {
        return Ok(());
    }
    crate::file_locks::service::lock_files(cx, &paths, None).map(drop)
}

/// Turns a refusal into an objection: holder, deadline, and the next step.
pub(super) fn objection(refusal: &Refusal) -> Objection {
    let mut what = refusal.message.clone();
    let mut instead = match refusal.help.first() {
        Some(help) => format!("Try: {help}"),
        None => "Tell the user.".to_owned(),
    };
    if let Details::Locks(locks) = &refusal.details
        && let Some(first) = locks.first()
    {
        what.push_str(&format!(", until {}", first.expires_at));
        let path = first
            .resource
            .file()
            .map_or_else(|| "<path>".to_owned(), |file| file.path());
        instead = format!(
            "Work on something else meanwhile, or wait for it: jit lock acquire {} --wait 5m",
            jit_os::shell::shell_word(&path)
        );
    }
    Objection::new(format!("{what}."), instead)
}
