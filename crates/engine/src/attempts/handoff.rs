//! Hands the work of one agent to another (G14). The module [`crate::attempts::handoff_text`] defines the text of a
//! handoff.
//!
//! What must hold:
//!
//! - Agents never hand anything to each other directly. Only the process that starts the receiving agent delivers a
//!   handoff.
//! - A handoff of a plan is written once, when its receiver is first dispatched, and never changes. A process that
//!   follows a killed one finds the same file. The log records it in the same append as the first attempt that
//!   received it.
//! - An agent receives each handoff once. An attempt that resumes a session receives only new handoffs. An attempt
//!   with a new session knows nothing, and receives all of them.
//! - In a handoff by hand, the old agent has ended before the new one starts. The end of the old one, the claim on
//!   the issue and the start of the new one are one append. No reader ever sees the unit without an agent in between.

use crate::api::attempts::AttemptReply;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jit_agents::job::Job;
use jit_agents::prompt::{Brief, Handoff};
use jit_agents::runner::attempt::{self, Attempt};
use jit_core::decide::command::{Command, CommandReply as Decided};
use jit_core::log::state;
use jit_core::model::cost::Usd;
use jit_core::model::ids::{UnitId, WorkflowId};
use jit_core::model::plan::{HandoffBy, Settings};
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::unit::{Facts, Failure, Handed, MergeStatus, Phase, Unit, UnitInput};
use jit_core::model::workflow::WorkflowOutcome as Ended;
use jit_git::GitError;
use jit_os::{file, io_refusal};
use jit_store::Outcome;

use crate::api::attempts::HandoffView;
use crate::api::attempts::{Again, DispatchAsk, HandAsk, Handoffs};
use crate::api::units::UnitView;
use crate::api::{Answer, Reply};
use crate::attempts::handoff_text::{
    self as handoffs, Artifact, Changed, Check, Digested, Known, LONGEST, LONGEST_ALL, LONGEST_ARTIFACT,
};
use crate::context::Context;
use crate::refusals::refuse;
use crate::write_path::WriteOptions;

/// File name of every handoff.
const FILE: &str = "handoff.md";
/// Folder for handoffs, named as in workflows.
const FOLDER: &str = "cross-pollination";
/// Folder for handoffs to a unit that does not exist yet.
const WAITING: &str = "waiting";
/// Environment variable with the folder of the handoffs that an agent received.
const VARIABLE: &str = "JIT_HANDOFF_DIR";

/// The receiver of a handoff by hand.
#[derive(Debug, PartialEq, Eq)]
enum Receiver {
    /// Another agent in the same worktree.
    Kind,
    Unit(Box<Unit>),
    /// A future unit of a workflow.
    ToCome(UnitId),
}

/// The handoffs of one attempt.
#[derive(Debug, Default)]
pub(crate) struct Received {
    /// Those that are not in the log yet.
    pub news: Vec<Handed>,
    /// The files for the agent: names of folders, and texts.
    files: Vec<(String, String)>,
}

impl Received {
    /// Writes the files into the folder of the attempt, before the attempt is in the log.
    pub(crate) fn put(&self, attempt: &Path) -> std::io::Result<()> {
        let all = attempt.join("handoffs");
        for (name, text) in &self.files {
            file::make_dir_like_parent(&all)?;
            let folder = all.join(name);
            file::make_dir_like_parent(&folder)?;
            file::put_like_parent(&folder.join(FILE), text.as_bytes())?;
        }
        Ok(())
    }
}

fn git(e: GitError) -> Box<Refusal> {
    crate::refusals::failed(e)
}

/// Creates the missing parent folders of a file.
fn make_folders(file: &Path) -> std::io::Result<()> {
    let missing: Vec<&Path> = file.ancestors().skip(1).take_while(|dir| !dir.exists()).collect();
    missing.into_iter().rev().try_for_each(file::make_dir_like_parent)
}

fn below_control(cx: &Context, path: &Path) -> String {
    let below = path.strip_prefix(&cx.place.control_dir).unwrap_or(path);
    below.to_string_lossy().into_owned()
}

/// Writes a handoff unless it exists. An existing file stays, and its text is returned.
fn keep_handoff(path: &Path, text: &str) -> Outcome<String> {
    let io = |e: std::io::Error| io_refusal("write", path, &e);
    make_folders(path).map_err(io)?;
    let folder = path.parent().unwrap_or(path);
    let mode = file::mode_within(folder).map_err(io)?;
    if file::create_with(path, text.as_bytes(), Some(mode)).map_err(io)? {
        return Ok(text.to_owned());
    }
    let there = file::read_real(path, LONGEST as u64)
        .map_err(io)?
        .unwrap_or_default();
    Ok(String::from_utf8_lossy(&there).into_owned())
}

/// Collects everything that an attempt receives: writes missing handoffs, adds them to the brief, and names them in
/// the job.
pub(crate) fn receive(
    cx: &Context,
    unit: &Unit,
    ask: &DispatchAsk,
    job: &mut Job,
    brief: &mut Brief,
) -> Outcome<Received> {
    let mut received = Received::default();
    let mut told: Vec<(Handed, String)> = Vec::new();
    // A resumed session already knows its earlier handoffs.
    if !brief.resumed {
        for known in &unit.handoffs {
            let path = cx.place.control_dir.join(&known.path);
            let text = file::read_real(&path, LONGEST as u64).ok().flatten();
            let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
            // A file that was changed is not the handoff that was recorded.
            if let Some(text) = text.filter(|text| handoffs::digest(text) == known.digest) {
                told.push((known.clone(), text));
            }
        }
    }
    let is_known = |digest: &str| unit.handoffs.iter().any(|known| known.digest == digest);
    for (from, path, text) in coming_in(cx, unit, &ask.handoffs)? {
        let digest = handoffs::digest(&text);
        if is_known(&digest) || told.iter().any(|(one, _)| one.digest == digest) {
            continue;
        }
        let handed = Handed {
            from,
            path: below_control(cx, &path),
            digest,
            bytes: text.len() as u64,
            attempt: job.attempt,
        };
        received.news.push(handed.clone());
        told.push((handed, text));
    }
    let (in_prompt, in_files) = match ask.handoffs.by {
        Some(HandoffBy::Prompt) => (true, false),
        Some(HandoffBy::File) => (false, true),
        None => (true, true),
    };
    let folder = crate::units::service::attempt_folder(cx, &unit.id, job.attempt).join("handoffs");
    let mut room = LONGEST_ALL;
    for (handed, text) in told {
        let from = handed.from.replace([':', '/'], "-");
        let mut name = format!("{from}-to-{}", unit.id);
        if received.files.iter().any(|(other, _)| *other == name) {
            name = format!("{name}-{}", handed.digest.get(..8).unwrap_or_default());
        }
        if in_files {
            let path = folder.join(&name).join(FILE);
            brief
                .handoff_files
                .push((handed.from.clone(), path.to_string_lossy().into_owned()));
            received.files.push((name, text.clone()));
        }
        // A text that is too long for the prompt is only in files, or its end is cut.
        let fits = text.len() <= room;
        room = room.saturating_sub(text.len());
        if in_prompt && (fits || !in_files) {
            brief.handoffs.push(Handoff {
                from: handed.from,
                text,
            });
        }
    }
    if !received.files.is_empty() {
        job.vars
            .push((VARIABLE.to_owned(), folder.to_string_lossy().into_owned()));
    }
    Ok(received)
}

/// Returns the handoffs for a unit: sender, path and text of each.
fn coming_in(cx: &Context, unit: &Unit, asked: &Handoffs) -> Outcome<Vec<(String, PathBuf, String)>> {
    let mut found = Vec::new();
    let longest = LONGEST.min(LONGEST_ALL / asked.from.len().max(1));
    if let Some(workflow) = &unit.workflow {
        for giver in &asked.from {
            let path = handoff_path(cx, workflow, asked.barrier, giver, &unit.id);
            let text = match path.symlink_metadata().is_ok() {
                true => keep_handoff(&path, "")?,
                false => {
                    let giver = crate::units::service::load_unit(cx, giver)?;
                    let known = known_about(cx, &giver, unit.id.to_string(), None)?;
                    keep_handoff(&path, &handoffs::page(&known, longest))?
                }
            };
            found.push((giver.to_string(), path, text));
        }
    }
    // Handoffs by hand, in the order of arrival.
    let inbox = inbox(cx, unit);
    let_in(cx, unit, &inbox)?;
    let mut there: Vec<PathBuf> = std::fs::read_dir(&inbox)
        .map(|dir| dir.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    there.sort_by_key(|path| {
        (
            path.metadata().and_then(|meta| meta.modified()).ok(),
            path.clone(),
        )
    });
    for folder in there {
        let path = folder.join(FILE);
        let Some(bytes) = file::read_real(&path, LONGEST as u64).ok().flatten() else {
            continue;
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let from = file::read_real(&folder.join("from"), 4096).ok().flatten();
        let from = from.map_or_else(
            || "somebody".to_owned(),
            |bytes| String::from_utf8_lossy(&bytes).trim().to_owned(),
        );
        found.push((from, path, text));
    }
    Ok(found)
}

fn handoff_path(cx: &Context, workflow: &WorkflowId, barrier: u32, from: &UnitId, to: &UnitId) -> PathBuf {
    crate::plans::lookup::workflow_folder(cx, workflow)
        .join(FOLDER)
        .join(format!("barrier-{barrier}"))
        .join(format!("{from}-to-{to}"))
        .join(FILE)
}

/// Folder of handoffs by hand to a unit. A later unit of the same name has another folder.
fn inbox(cx: &Context, unit: &Unit) -> PathBuf {
    let units = cx.place.control_dir.join("units").join(unit.id.as_str());
    units.join(FOLDER).join(unit.created_at.ms().to_string())
}

/// Folder of handoffs to the next unit of a name, before that unit exists.
fn waiting_room(cx: &Context, id: &UnitId) -> PathBuf {
    let units = cx.place.control_dir.join("units").join(id.as_str());
    units.join(FOLDER).join(WAITING)
}

/// Moves waiting handoffs into the inbox of the new unit of that name. After a crash the next process completes the
/// move.
fn let_in(cx: &Context, unit: &Unit, inbox: &Path) -> Outcome<()> {
    let room = waiting_room(cx, &unit.id);
    let Ok(waiting) = std::fs::read_dir(&room) else {
        return Ok(());
    };
    let io = |e: std::io::Error| io_refusal("move", &room, &e);
    for entry in waiting.flatten() {
        let to = inbox.join(entry.file_name());
        make_folders(&to).map_err(io)?;
        match std::fs::rename(entry.path(), &to) {
            Ok(()) => {}
            // The same handoff was given to the unit since.
            Err(_) if to.join(FILE).exists() => {
                std::fs::remove_dir_all(entry.path()).map_err(io)?;
            }
            Err(e) => return Err(io(e)),
        }
    }
    Ok(())
}

/// Collects the facts about the work in a unit.
fn known_about(cx: &Context, unit: &Unit, to: String, note: Option<&str>) -> Outcome<Known> {
    let common = crate::units::service::common(cx)?;
    let mut facts = Vec::new();
    if let Some(workflow) = &unit.workflow {
        facts.push(format!("workflow {workflow}"));
    }
    if let Some(issue) = &unit.issue_id {
        facts.push(format!("issue {issue}"));
    }
    let who = unit.worker.as_ref().map(ToString::to_string);
    let who = who
        .or_else(|| unit.agent.clone())
        .unwrap_or_else(|| "nobody".to_owned());
    facts.push(format!(
        "unit {}, worked on by {who}, attempt {}",
        unit.id, unit.attempt
    ));
    // The state of the work: as it landed, or as it is now.
    let commit = match &unit.merge_commit {
        Some(commit) => {
            facts.push(format!("landed as {commit} on {}", unit.goes_to()));
            Some(commit.clone())
        }
        None => {
            let branch = format!("refs/heads/{}", unit.branch);
            let tip = cx.git_in(common).verify(&branch).map_err(git)?;
            let at = tip.as_deref().unwrap_or("nothing");
            facts.push(format!(
                "not landed, {}: branch {} at {at}",
                unit.state, unit.branch
            ));
            tip
        }
    };
    let changed = match &commit {
        Some(commit) => lines_changed(cx, unit, commit)?,
        None => Vec::new(),
    };
    if unit.merge_commit.is_none() {
        let all = crate::units::scope::changed_paths(cx, unit).unwrap_or_default();
        let loose: Vec<&str> = all
            .iter()
            .filter(|path| changed.iter().all(|one| one.path != **path))
            .map(String::as_str)
            .take(20)
            .collect();
        if !loose.is_empty() {
            facts.push(format!("changed and not committed: {}", loose.join(", ")));
        }
    }
    let mut used = Vec::new();
    used.extend(unit.cost_usd.map(|usd| format!("${:.4}", usd.0 as f64 / 1e6)));
    used.push(format!("{} tokens", unit.tokens.total()));
    used.push(format!("{} turns", unit.turns));
    facts.push(format!("used by all its attempts: {}", used.join(", ")));
    if let Some(error) = unit.error.as_ref().or(unit.last_error.as_ref()) {
        facts.push(format!("failed before: {}: {}", error.reason, error.message));
    }
    let folder = crate::units::service::attempt_folder(cx, &unit.id, unit.attempt);
    let job = crate::attempts::retry_settings::own_job(cx, unit);
    let mut checks = Vec::new();
    // A landed unit has passed its checks.
    if let (Some(job), true) = (&job, unit.merge_commit.is_some()) {
        checks.extend(job.validate.iter().map(|command| Check {
            name: command.clone(),
            outcome: "passed".to_owned(),
        }));
    }
    if let Some(issue) = &unit.issue_id {
        let view = crate::write_path::view(cx)?;
        let gates = state::gate_results(&*view.table, issue).map_err(|e| refuse(Code::Io, e))?;
        checks.extend(gates.into_iter().map(|(name, result)| Check {
            name: format!("gate {name}"),
            outcome: match result.passed {
                true => "passed".to_owned(),
                false => "failed".to_owned(),
            },
        }));
    }
    Ok(Known {
        from: unit.id.to_string(),
        to,
        facts,
        artifacts: artifacts_of(cx, unit, commit.as_deref()),
        changed,
        checks,
        said: digested(&folder),
        note: note.map(str::to_owned),
    })
}

/// Returns the state before the unit's work, which ends in that commit.
pub(crate) fn without_it(cx: &Context, unit: &Unit, commit: &str) -> Outcome<String> {
    let about = cx
        .git_in(crate::units::service::common(cx)?)
        .args(["log", "-1", "--format=%P%n%B", commit])
        .run()
        .map_err(git)?;
    let about = String::from_utf8_lossy(&about).into_owned();
    let merged = about.lines().next().is_some_and(|parents| parents.contains(' '));
    let squashed = about.contains(crate::units::worktree_state::SQUASHED);
    Ok(match unit.merge_commit.is_some() && (merged || squashed) {
        true => format!("{commit}^1"),
        // The target had not moved, so it was fast-forwarded to the unit's branch.
        false => unit.base.clone(),
    })
}

/// Returns the changes of a commit, by file.
fn lines_changed(cx: &Context, unit: &Unit, commit: &str) -> Outcome<Vec<Changed>> {
    let common = crate::units::service::common(cx)?;
    let from = without_it(cx, unit, commit)?;
    let listed = cx
        .git_in(common)
        .args([
            "diff-tree",
            "-r",
            "--numstat",
            "--no-renames",
            "-z",
            &from,
            commit,
        ])
        .run()
        .map_err(git)?;
    let one = |line: &[u8]| {
        let line = String::from_utf8_lossy(line).into_owned();
        let mut parts = line.splitn(3, '\t');
        let (came, went) = (parts.next()?.parse().ok(), parts.next()?.parse().ok());
        Some(Changed {
            path: parts.next()?.to_owned(),
            lines: came.zip(went),
        })
    };
    Ok(listed.split(|b| *b == 0).filter_map(one).collect())
}

/// Returns the artifacts of a unit: short texts in full, of the others only the place.
fn artifacts_of(cx: &Context, unit: &Unit, commit: Option<&str>) -> Vec<Artifact> {
    let Ok(common) = crate::units::service::common(cx) else {
        return Vec::new();
    };
    let one = |wanted: &jit_core::model::unit::Artifact| {
        let name = commit.map(|commit| format!("{commit}:{}", wanted.path));
        let size = name
            .as_deref()
            .and_then(|name| cx.git_in(common).args(["cat-file", "-s", name]).run().ok());
        let bytes: Option<u64> = size.and_then(|size| String::from_utf8_lossy(&size).trim().parse().ok());
        let small = bytes.is_some_and(|bytes| bytes <= LONGEST_ARTIFACT);
        let text = name
            .as_deref()
            .filter(|_| small)
            .and_then(|name| cx.git_in(common).args(["cat-file", "blob", name]).run().ok())
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .filter(|text| !text.contains('\0'));
        Artifact {
            path: wanted.path.clone(),
            kind: wanted.kind.clone(),
            commit: commit.filter(|_| bytes.is_some()).map(str::to_owned),
            bytes,
            text,
        }
    };
    unit.artifacts.iter().map(one).collect()
}

/// `jit handoff`.
pub(crate) fn hand_on_unit(cx: &Context, ask: &HandAsk) -> Outcome<Answer> {
    let unit = crate::units::service::find_unit(cx, &crate::write_path::view(cx)?, Some(&ask.unit))?;
    let (to, receiver) = match (&ask.to, &ask.to_unit) {
        (Some(kind), None) => (kind.clone(), Receiver::Kind),
        (None, Some(named)) => {
            match crate::units::service::living_unit(cx, &crate::write_path::view(cx)?, Some(named)) {
                Ok(receiver) => (receiver.id.to_string(), Receiver::Unit(Box::new(receiver))),
                Err(refusal) if refusal.code == Code::NotFound => {
                    let id = to_come(cx, named, refusal)?;
                    (id.to_string(), Receiver::ToCome(id))
                }
                Err(refusal) => return Err(refusal),
            }
        }
        _ => return Err(refuse(Code::Invalid, "say to whom: --to or --to-unit")),
    };
    if receiver != Receiver::Kind && to == unit.id.as_str() {
        return Err(Box::new(
            Refusal::new(Code::Invalid, format!("{} hands nothing to itself", unit.id))
                .help(format!("jit handoff {} --to <kind of agent>", unit.id)),
        ));
    }
    if ask.print {
        let text = page_about(cx, &unit, &to, ask)?;
        return handed(cx, &unit, to, None, text, None);
    }
    crate::context::calling_agent::require_may_decide(
        cx,
        &crate::write_path::view(cx)?,
        &unit,
        "jit handoff",
    )?;
    crate::attempts::dispatch::require_may_bypass(cx, &ask.run)?;
    let (inbox, receiver) = match receiver {
        Receiver::Kind => return hand_to_kind(cx, &unit, ask, to),
        Receiver::Unit(receiver) => (inbox(cx, &receiver), Some(*receiver)),
        Receiver::ToCome(id) => (waiting_room(cx, &id), None),
    };
    let text = page_about(cx, &unit, &to, ask)?;
    let path = give(&inbox, unit.id.as_str(), &text)?;
    handed(cx, &unit, to, Some(path), text, receiver)
}

/// Finds a unit that has not started, in a workflow that runs or can be reopened.
fn to_come(cx: &Context, named: &str, unknown: Box<Refusal>) -> Outcome<UnitId> {
    let view = crate::write_path::view(cx)?;
    let workflows = state::workflows(&*view.table).map_err(|e| refuse(Code::Io, e))?;
    for workflow in workflows.into_iter().filter(|one| one.status != Ended::Completed) {
        let Some(id) = workflow.units.iter().find(|id| id.as_str() == named) else {
            continue;
        };
        let unit = state::unit(&*view.table, id).map_err(|e| refuse(Code::Io, e))?;
        let own = unit.filter(|unit| unit.workflow.as_ref() == Some(&workflow.id));
        // A unit whose creation was undone is created again.
        let ended = |unit: &Unit| unit.merge_status == MergeStatus::Merged || unit.abandoned.is_some();
        if !own.as_ref().is_some_and(ended) {
            return Ok(id.clone());
        }
    }
    if let Ok(id) = named.parse::<UnitId>() {
        return Err(Box::new(
            Refusal::new(
                Code::NotFound,
                format!("{}, and no workflow is to have a unit {id}", unknown.message),
            )
            .help(format!("jit worktree create {id}"))
            .help("jit run <plan>"),
        ));
    }
    Err(unknown)
}

fn page_about(cx: &Context, unit: &Unit, to: &str, ask: &HandAsk) -> Outcome<String> {
    let known = known_about(cx, unit, to.to_owned(), ask.note.as_deref())?;
    Ok(handoffs::page(&known, LONGEST))
}

/// Writes a handoff into the inbox of the receiving unit.
fn give(inbox: &Path, from: &str, text: &str) -> Outcome<PathBuf> {
    let folder = inbox.join(handoffs::digest(text));
    let path = folder.join(FILE);
    let io = |e: std::io::Error| io_refusal("write", &folder, &e);
    make_folders(&path).map_err(io)?;
    // Writes the sender first: without the text it has no effect.
    file::put_like_parent(&folder.join("from"), from.as_bytes()).map_err(io)?;
    keep_handoff(&path, text)?;
    Ok(path)
}

fn handed(
    cx: &Context,
    unit: &Unit,
    to: String,
    path: Option<PathBuf>,
    text: String,
    receiver: Option<Unit>,
) -> Outcome<Answer> {
    let reply = Reply::Attempts(AttemptReply::Handoff(Box::new(HandoffView {
        unit: unit.id.clone(),
        from: unit
            .worker
            .as_ref()
            .map_or_else(|| unit.id.to_string(), ToString::to_string),
        to,
        path: path.map(|path| path.to_string_lossy().into_owned()),
        digest: handoffs::digest(&text),
        bytes: text.len() as u64,
        text,
        receiver: receiver.map(UnitView::of),
    })));
    let view = crate::write_path::view(cx)?;
    crate::write_path::read_answer(cx, &view, reply)
}

/// Hands the work to another kind of agent in the same worktree.
fn hand_to_kind(cx: &Context, unit: &Unit, ask: &HandAsk, to: String) -> Outcome<Answer> {
    crate::attempts::dispatch::require_trusted_dispatch(cx)?;
    let id = &unit.id;
    if crate::context::calling_agent::is_agent_of(cx, id) {
        return Err(Box::new(
            Refusal::new(
                Code::NotAllowed,
                format!("you work in {id}: whoever hands it on ends you, and what you began with it"),
            )
            .help("say in your last message who should go on, and end"),
        ));
    }
    let _turn = crate::units::service::unit_turn(cx, id, true)?;
    let unit = crate::units::service::load_unit(cx, id)?;
    let wrong_state = |unit: &Unit| {
        Box::new(
            Refusal::new(
                Code::BadTransition,
                format!(
                    "{} is {}: there is nothing another agent could go on with",
                    unit.id, unit.state
                ),
            )
            .help(format!("jit worktree status {}", unit.id)),
        )
    };
    let folder = crate::units::service::attempt_folder(cx, id, unit.attempt);
    let before = crate::attempts::retry_settings::own_job(cx, &unit);
    let at_work = matches!(unit.state, Phase::Dispatched | Phase::Running);
    if !at_work && !matches!(unit.state, Phase::Ready | Phase::Failed) || unit.worktree_id.is_none() {
        return Err(wrong_state(&unit));
    }
    let asked = crate::attempts::retry_settings::asked_before(cx, &unit, before.as_ref())?;
    let run = Settings {
        agent: Some(to.clone()),
        ..ask.run.clone()
    };
    let dispatch = DispatchAsk {
        run: run.over(&asked.run),
        // Handoffs to the previous agent are recorded with the unit. The new agent also gets the one written below.
        handoffs: Handoffs::default(),
        again: Again::Fresh,
        ..asked
    };
    // Checks everything that could be refused before the running agent is stopped.
    let mut then = unit.clone();
    if let Ok(Attempt::Running(running)) = attempt::look(&folder) {
        let used = running.sum.cost_usd.unwrap_or_default().0;
        let cost = then.cost_usd.unwrap_or_default().0.saturating_add(used);
        then.cost_usd = Some(Usd(cost)).filter(|usd| usd.0 > 0);
        then.tokens = then.tokens.plus(running.sum.tokens);
    }
    let _ = crate::attempts::dispatch::job(cx, &then, &dispatch)?;
    if let Some(program) = crate::attempts::dispatch::missing_program(cx, &dispatch.run, None) {
        return Err(Box::new(
            Refusal::new(
                Code::Invalid,
                format!("there is no program {program:?} that could be started"),
            )
            .help(format!("jit handoff {id} --to {to} --command <program>")),
        ));
    }
    let account = crate::attempts::accounts::require_open_account(cx, &dispatch.run, false, Some(id))?;
    let mut ended = Facts::default();
    let mut now = unit.clone();
    if at_work {
        let why = format!("{}{to}", jit_core::coordinator::HANDED_ON);
        let Some(facts) = end_for_another(cx, &unit, before.as_ref(), &folder, &why)? else {
            let unit = crate::attempts::outcome::settle_held(
                cx,
                unit,
                crate::attempts::dispatch::Starting::Forbidden,
            )?;
            return Err(wrong_state(&unit));
        };
        let spent = facts.spent.unwrap_or_default().0;
        let cost = now.cost_usd.unwrap_or_default().0.saturating_add(spent);
        now.cost_usd = Some(Usd(cost)).filter(|usd| usd.0 > 0 || unit.cost_usd.is_some());
        now.tokens = now.tokens.plus(facts.tokens);
        now.turns = now.turns.saturating_add(facts.turns);
        ended = facts;
    }
    // The next agent does not see that the previous one failed.
    now.last_error.clone_from(&unit.error);
    if at_work {
        now.state = Phase::Ready;
    }
    let from = now
        .worker
        .as_ref()
        .map_or_else(|| id.to_string(), ToString::to_string);
    let text = page_about(cx, &now, &to, ask)?;
    let path = give(&inbox(cx, &now), &from, &text)?;
    let (job, begun) = crate::attempts::dispatch::prepare_attempt(cx, &now, &dispatch, account)?;
    let command = Command::ChangeHands {
        unit: id.clone(),
        ended: Box::new(ended),
        begun: Box::new(begun),
    };
    let Decided::Unit(unit) =
        crate::write_path::transact_as(cx, None, &command, WriteOptions::default())?.reply
    else {
        return Err(Box::new(Refusal::bug("a handoff in the reply of the log")));
    };
    crate::attempts::dispatch::begin_attempt(cx, id, &job)?;
    handed(cx, &now, to, Some(path), text, Some(*unit))
}

/// Ends the agent of a unit and returns its outcome. `None`: the agent completed its work before it could be stopped.
fn end_for_another(
    cx: &Context,
    unit: &Unit,
    job: Option<&Job>,
    folder: &Path,
    why: &str,
) -> Outcome<Option<Facts>> {
    let io = |e: std::io::Error| io_refusal("watch", folder, &e);
    crate::attempts::dispatch::stop_attempt(cx, unit, why)?;
    let longest = job.map_or(60, |job| job.grace_secs + 20);
    let exit = match attempt::look(folder).map_err(io)? {
        Attempt::NotStarted => attempt::bury(folder).map_err(io)?,
        _ => {
            if !attempt::wait_for_end(folder, Duration::from_secs(longest)).map_err(io)? {
                return Err(Box::new(
                    Refusal::new(Code::Busy, format!("the agent of {} does not end", unit.id))
                        .help(format!("jit worktree stop {}", unit.id)),
                ));
            }
            match attempt::look(folder).map_err(io)? {
                Attempt::Ended(exit) => exit,
                _ => attempt::bury(folder).map_err(io)?,
            }
        }
    };
    let Some(job) = job else {
        return Ok(Some(Facts::default()));
    };
    let (input, mut facts) = crate::attempts::outcome::judge_attempt(cx, unit, job, &exit, folder)?;
    if input == UnitInput::InstanceCompleted {
        return Ok(None);
    }
    facts.error = Some(Failure {
        reason: jit_core::model::failure_reason::STOPPED.to_owned(),
        message: why.to_owned(),
        exit_code: None,
        output: facts.error.and_then(|error| error.output),
    });
    Ok(Some(facts))
}

/// Returns a digest of an attempt's events. Unreadable events are ignored.
fn digested(folder: &Path) -> Digested {
    let mut said = Digested::default();
    let mut from = 0;
    while let Ok((lines, next)) = attempt::follow(folder, from) {
        lines.iter().for_each(|line| said.add(line));
        if next == from {
            break;
        }
        from = next;
    }
    said
}
