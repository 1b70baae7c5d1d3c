//! Gates of issues (E6): define, run and judge them, and report their state.
//!
//! What must hold:
//!
//! - Nothing runs before every command that would run has been approved (A8). The text that runs is the approved
//!   text.
//! - No lock is held while a gate runs.
//! - The log gets a result first, and only results in the log count. The file in the tree has the details.
//! - The whole output of a run is in `<control>/gates/<issue>/<gate>.log`, from the last start of the gate.

use crate::api::gates::GateReply;
use crate::api::gates::Gates;
use crate::write_path::WriteOptions;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use jit_core::decide::command::Command;
use jit_core::log::event::Event;
use jit_core::log::state;
use jit_core::model::ids::{AgentId, IssueId, IssuePrefix, RequestId};
use jit_core::model::issue::{GateResult as Judged, Issue, IssueState, MAX_COMMENT, text_digest};
use jit_core::model::policy::Policy;
use jit_core::model::refusal::{Code, Details, Refusal};
use jit_git::snapshot::content_tree;
use jit_os::shell::shell_word;
use jit_store::{Outcome, View};

use crate::api::gates::GateReport;
use crate::api::gates::GateStanding;
use crate::api::gates::GateStatus;
use crate::api::gates::GateView;
use crate::api::gates::Judgement;
use crate::api::gates::{Gate, GateName, GateResult, Kind, Status};
use crate::api::{Answer, Reply};
use crate::approvals::{How, Trust};
use crate::context::Context;
use crate::gates::run;
use crate::gates::run::{GRACE, gate_vars};
use crate::gates::{Registry, Results, Run};
use crate::refusals::{listed, refuse};

/// Notices, each one once.
#[derive(Default)]
pub(crate) struct Notes(Vec<String>);

impl Notes {
    fn add(&mut self, note: String) {
        if !self.0.contains(&note) {
            self.0.push(note);
        }
    }
}

/// Returns whether a gate's definition changed, or whether it covers fewer types of issues.
fn is_another(before: &Gate, gate: &Gate) -> bool {
    let now = gate.required_for();
    before.definition() != gate.definition() || before.required_for().iter().any(|kind| !now.contains(kind))
}

/// Returns this worktree's `.jit`, or a refusal.
pub(crate) fn require_jit(cx: &Context) -> Outcome<&Path> {
    cx.place.local_jit.as_deref().ok_or_else(|| {
        let refusal = Refusal::new(Code::Invalid, "gates are defined in a worktree, and this is none");
        Box::new(refusal.help("git worktree list"))
    })
}

/// Returns a warning for each of these gates that is not defined. That is allowed for a while: a definition can come
/// with another branch.
pub(crate) fn undefined(cx: &Context, names: &[String]) -> Vec<String> {
    let Some(jit) = cx.place.local_jit.as_ref().filter(|_| !names.is_empty()) else {
        return Vec::new();
    };
    // An unreadable registry is reported by the commands that need it.
    let registry = Registry::load(jit).unwrap_or_default();
    let unknown = names.iter().filter(|name| registry.find(name).is_none());
    unknown
        .map(|name| {
            format!("the gate {name:?} is not defined yet, and what is not defined cannot be passed: jit gate list")
        })
        .collect()
}

/// Adds help to a refusal if committed gates bind an agent and this tree has others: the commands that bring them
/// here.
pub(crate) fn with_way_to_gates(cx: &Context, mut refusal: Box<Refusal>) -> Box<Refusal> {
    if refusal.code == Code::GateNotPassed
        && let Details::Candidates(names) = &refusal.details
        && let Some(Ok(here)) = cx.place.local_jit.as_deref().map(Registry::load)
        && let Ok(ways) = crate::gates::committed_policy::ways_to_gates(cx, &here, names)
    {
        refusal.help.splice(0..0, ways);
    }
    refusal
}

pub(crate) fn define_gates(cx: &Context, gates: &[(GateName, Gate)], brought: bool) -> Outcome<Answer> {
    let jit = require_jit(cx)?;
    let mut notes = Notes(cx.warnings.clone());
    // The user typed the command: that is the approval. It comes first, because an approved text without a gate does
    // no harm.
    for (name, gate) in gates {
        let Some(text) = gate.command() else { continue };
        if !brought && crate::approvals::may_trust(cx) {
            crate::approvals::approve(
                cx,
                crate::api::trust::Kind::Gate,
                name.as_str(),
                text,
                How::DefinedHere,
            )?;
        }
    }
    let bound = agent_bound_by_gates(cx)?;
    let replaced = Registry::edit(jit, |registry| {
        let mut replaced = Vec::new();
        for (name, gate) in gates {
            if brought && registry.find(name.as_str()).is_some_and(|before| before != gate) {
                let message = format!("there is another {name} here already, which is left as it is");
                let refusal = Refusal::new(Code::Exists, message);
                return Err(Box::new(refusal.help("jit gate list")));
            }
            if let (Some(agent), Some(before)) = (&bound, registry.find(name.as_str()))
                && is_another(before, gate)
            {
                // An agent that could redefine a gate could decide what it takes to pass it.
                let message = format!(
                    "{agent} is an agent, and agents may not define {name} anew, which there is already"
                );
                let refusal = Refusal::new(Code::NotAllowed, message);
                return Err(Box::new(
                    refusal.help("ask a person to run it, or take another name"),
                ));
            }
            let before = registry.define(name.clone(), gate.clone());
            if before.is_some_and(|before| before != *gate) {
                replaced.push(name.to_string());
            }
        }
        Ok(replaced)
    })?;
    if !replaced.is_empty() {
        notes.add(format!("defined anew: {}", replaced.join(", ")));
    }
    let trust = approvals_if_any(&mut notes);
    let view = |(name, gate): &(GateName, Gate)| gate_view(cx, name.as_str(), Some(gate), trust.as_ref());
    let shown: Vec<GateView> = gates.iter().map(view).collect();
    if !crate::approvals::may_trust(cx) && shown.iter().any(|gate| gate.trusted == Some(false)) {
        notes.add(format!(
            "what an agent defines may not run before a person has run jit trust, and {} is one",
            cx.actor.agent_id
        ));
    }
    Ok(Answer {
        reply: Reply::Gates(GateReply::Gates(Gates { gates: shown })),
        warnings: notes.0,
    })
}

/// Returns the calling agent, unless it may decide what it takes to pass a gate.
fn agent_bound_by_gates(cx: &Context) -> Outcome<Option<AgentId>> {
    let Some(agent) = crate::context::calling_agent::asking_agent(cx) else {
        return Ok(None);
    };
    let mut policy = cx.policy.clone();
    crate::gates::committed_policy::bind_rights(cx, &mut policy)?;
    Ok((!policy.agents_may_pass_gates).then_some(agent))
}

/// Deletes a definition. Issues that require the gate still have to pass it and cannot: that is reported.
pub(crate) fn undefine_gate(cx: &Context, name: &str) -> Outcome<Answer> {
    let jit = require_jit(cx)?;
    Registry::load(jit)?.require(name)?;
    if let Some(agent) = agent_bound_by_gates(cx)? {
        let message = format!("{agent} is an agent, and agents may not take {name} away");
        let help = format!("ask a person to run: jit gate undefine {name}");
        return Err(Box::new(Refusal::new(Code::NotAllowed, message).help(help)));
    }
    let left = Registry::edit(jit, |registry| {
        registry.remove(name)?;
        Ok(registry.clone())
    })?;
    let mut notes = Notes(cx.warnings.clone());
    let issues = state::issues(&*crate::write_path::view(cx)?.table).map_err(|e| refuse(Code::Io, e))?;
    let asks = |issue: &&Issue| !issue.state.is_closed() && issue.gates.iter().any(|gate| gate == name);
    let asking: Vec<String> = issues.iter().filter(asks).map(|one| one.id.to_string()).collect();
    if let Some(first) = asking.first() {
        notes.add(format!(
            "what is not defined cannot be passed, and these still ask for it: {}; jit gate rm {first} {name}",
            listed(&asking)
        ));
    }
    let trust = approvals_if_any(&mut notes);
    let gates = left
        .iter()
        .map(|(name, gate)| gate_view(cx, name.as_str(), Some(gate), trust.as_ref()))
        .collect();
    Ok(Answer {
        reply: Reply::Gates(GateReply::Gates(Gates { gates })),
        warnings: notes.0,
    })
}

/// Returns the approvals for display. If they cannot be read, nothing counts as approved.
fn approvals_if_any(notes: &mut Notes) -> Option<Trust> {
    match crate::approvals::approvals() {
        Ok(trust) => Some(trust),
        Err(refusal) => {
            notes.add(format!("nothing counts as approved: {}", refusal.message));
            None
        }
    }
}

fn gate_view(cx: &Context, name: &str, gate: Option<&Gate>, trust: Option<&Trust>) -> GateView {
    let text = gate.and_then(Gate::command);
    let is_trusted = |text: &str| {
        trust.is_some_and(|trust| {
            trust.is_trusted(
                &crate::approvals::repository(cx),
                crate::api::trust::Kind::Gate,
                name,
                text,
            )
        })
    };
    GateView {
        name: name.to_owned(),
        command: text.map(str::to_owned),
        manual: gate.is_some_and(Gate::is_manual),
        timeout_secs: gate.map(|gate| gate.timeout().as_secs()),
        description: gate.and_then(Gate::description).map(str::to_owned),
        required_for: gate.map_or(Vec::new(), |gate| gate.required_for().to_vec()),
        trusted: text.map(is_trusted),
        standing: None,
    }
}

pub(crate) fn list_gates(cx: &Context, text: Option<&IssuePrefix>) -> Outcome<Answer> {
    let registry = Registry::load(require_jit(cx)?)?;
    let mut notes = Notes::default();
    let trust = approvals_if_any(&mut notes);
    let Some(text) = text else {
        let all = registry.iter();
        let gates = all
            .map(|(name, gate)| gate_view(cx, name.as_str(), Some(gate), trust.as_ref()))
            .collect();
        let mut answer = crate::context::plain(cx, Reply::Gates(GateReply::Gates(Gates { gates })));
        answer.warnings.append(&mut notes.0);
        return Ok(answer);
    };
    let view = crate::write_path::view(cx)?;
    let issue = crate::write_path::resolve(&view, text)?;
    let judged = state::gate_results(&*view.table, &issue.id).map_err(|e| refuse(Code::Io, e))?;
    let required = registry.required(&issue.kind, &issue.gates);
    let mut names: Vec<&str> = required.iter().copied().collect();
    names.extend(judged.iter().map(|(name, _)| name.as_str()));
    names.sort_unstable();
    names.dedup();
    let tree = if judged.is_empty() {
        None
    } else {
        tree_now(cx, &mut notes)
    };
    let results = results_if_any(cx, &issue.id, &mut notes);
    let mut gates = Vec::with_capacity(names.len());
    for name in names {
        let gate = registry.find(name);
        let result = judged.iter().find(|(known, _)| known == name);
        let mut shown = gate_view(cx, name, gate, trust.as_ref());
        shown.standing = Some(GateStanding {
            required: required.contains(name),
            ..standing(
                gate,
                result.map(|(_, judged)| judged),
                results.find(name),
                tree.as_deref(),
            )
        });
        gates.push(shown);
    }
    let mut answer =
        crate::write_path::read_answer(cx, &view, Reply::Gates(GateReply::Gates(Gates { gates })))?;
    answer.warnings.append(&mut notes.0);
    Ok(answer)
}

/// Returns the tree's results for an issue's gates. They are untrusted and do not decide.
fn results_if_any(cx: &Context, issue: &IssueId, notes: &mut Notes) -> Results {
    let loaded = require_jit(cx).and_then(|jit| Results::load(jit, issue));
    loaded.unwrap_or_else(|refusal| {
        notes.add(format!("without the details: {}", refusal.message));
        Results::none(issue)
    })
}

fn tree_now(cx: &Context, notes: &mut Notes) -> Option<String> {
    content_tree(&cx.place).unwrap_or_else(|error| {
        notes.add(format!("it is not known which content is here: {error}"));
        None
    })
}

pub(crate) fn run_gates(cx: &Context, text: &IssuePrefix, named: Option<&str>) -> Outcome<Answer> {
    let registry = Registry::load(require_jit(cx)?)?;
    let issue = {
        let view = crate::write_path::view(cx)?;
        crate::write_path::resolve(&view, text)?
    };
    let names: Vec<&str> = match named {
        Some(name) if registry.require(name)?.is_manual() => {
            return Err(judged_by_people(&issue.id, name));
        }
        Some(name) => vec![name],
        None => {
            let required = registry.required(&issue.kind, &issue.gates).into_iter();
            required
                .filter(|name| !registry.find(name).is_some_and(Gate::is_manual))
                .collect()
        }
    };
    require_trusted(cx, &registry, &names)?;
    let mut notes = Notes(cx.warnings.clone());
    let mut gates = Vec::with_capacity(names.len());
    for name in names {
        let defined = registry.iter().find(|(known, _)| known.as_str() == name);
        let runnable = defined.and_then(|(name, gate)| Some((name, gate, gate.command()?)));
        let result = match runnable {
            Some((name, gate, command)) => {
                run_one(cx, &issue.id, (name, command, gate.timeout()), &mut notes)?
            }
            // The log does not get this result: another worktree may define the gate.
            None => GateResult::impossible(
                match name.parse::<GateName>() {
                    Ok(name) => format!("it is not defined here: jit gate define {name} --command …"),
                    Err(bad) => format!("{bad}; jit gate rm {} {}", issue.id, shell_word(name)),
                },
                cx.actor.agent_id.clone(),
                cx.clock.wall(),
            ),
        };
        gates.push(Judgement {
            name: name.to_owned(),
            result,
        });
    }
    report(cx, issue.id, &registry, gates, notes)
}

pub(crate) fn require_trusted(cx: &Context, registry: &Registry, names: &[&str]) -> Outcome<()> {
    let commands: Vec<(&str, &str)> = names
        .iter()
        .filter_map(|name| Some((*name, registry.find(name)?.command()?)))
        .collect();
    if commands.is_empty() {
        return Ok(());
    }
    let (trust, repository) = (crate::approvals::approvals()?, crate::approvals::repository(cx));
    for (name, text) in commands {
        trust.require(&repository, crate::api::trust::Kind::Gate, name, text)?;
    }
    Ok(())
}

/// Returns the request id for running this gate: one command may run many.
fn request_for(cx: &Context, issue: &IssueId, gate: &GateName) -> Outcome<Option<RequestId>> {
    let Some(request) = &cx.request else {
        return Ok(None);
    };
    let name = text_digest(format!("{request}\0{}\0{gate}", issue.key()).as_bytes());
    let request = format!("gate-{name}").parse();
    request.map(Some).map_err(|e| refuse(Code::Invalid, e))
}

/// Returns the result of an earlier run under this request id; `None` if there was none.
fn result_of(
    cx: &Context,
    request: Option<&RequestId>,
    issue: &IssueId,
    (gate, command): (&GateName, &str),
    notes: &mut Notes,
) -> Outcome<Option<GateResult>> {
    let unreadable = |e| refuse(Code::Io, e);
    let Some(request) = request else {
        return Ok(None);
    };
    let Some(answered) =
        state::answered(&*crate::write_path::view(cx)?.table, request).map_err(unreadable)?
    else {
        return Ok(None);
    };
    // Later results do not count here.
    let mut judged = None;
    cx.store.events(answered.first.saturating_sub(1), &mut |line| {
        let is_last = line.sequence >= answered.last;
        if let Event::GateJudged { result, .. } = line.event {
            judged = Some(result);
        }
        match is_last {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    let Some(judged) = judged else {
        return Ok(None);
    };
    // The file may be that of another branch.
    let results = results_if_any(cx, issue, notes);
    let kept = results.find(gate.as_str()).filter(|kept| kept.at == judged.at);
    Ok(Some(match kept {
        Some(kept) => kept.clone(),
        None => GateResult {
            kind: Kind::Automatic,
            command: Some(command.to_owned()),
            reason: (!judged.passed).then(|| "it failed when it was run under this request id".to_owned()),
            ..GateResult::manual(
                match judged.passed {
                    true => Status::Passed,
                    false => Status::Failed,
                },
                None,
                judged.by,
                judged.at,
                judged.tree,
            )
        },
    }))
}

fn run_one(
    cx: &Context,
    issue: &IssueId,
    (name, command, timeout): (&GateName, &str, std::time::Duration),
    notes: &mut Notes,
) -> Outcome<GateResult> {
    let request = request_for(cx, issue, name)?;
    if let Some(result) = result_of(cx, request.as_ref(), issue, (name, command), notes)? {
        return Ok(result);
    }
    let dir = cx.place.worktree_root.as_deref().unwrap_or(&cx.place.start);
    let tree = tree_now(cx, notes);
    let mut vars = gate_vars(issue.as_str(), name.as_str());
    // The request id names this command, not those that the gate runs.
    vars.push(("JIT_REQUEST_ID".into(), "".into()));
    let below = PathBuf::from("gates")
        .join(issue.as_str())
        .join(format!("{name}.log"));
    let mut log = crate::context::log_file(cx, &below).map_err(|error| {
        notes.add(format!(
            "the output of {name} is not kept in {}: {error}",
            below.display()
        ));
    });
    let ran = {
        let mut nowhere = io::sink();
        let output: &mut dyn io::Write = match &mut log {
            Ok(file) => file,
            Err(()) => &mut nowhere,
        };
        let grace = GRACE;
        run(
            &Run {
                command,
                dir,
                timeout,
                grace,
                vars: &vars,
            },
            output,
        )
    };
    if let Some(error) = &ran.output_error {
        notes.add(format!("not all output of {name} could be kept: {error}"));
    }
    if !ran.survivors.is_empty() {
        notes.add(format!(
            "{name} left processes that do not end: {:?}",
            ran.survivors
        ));
    }
    let what = (ran.passed(), Some(command), tree);
    let judged = judge(cx, request.as_ref(), issue, name.as_str(), what, notes)?;
    let mut result = GateResult::automatic(command, &ran, judged.by, judged.at, judged.tree);
    result.output_file = log.is_ok().then(|| below.to_string_lossy().into_owned());
    Ok(keep_result(cx, issue, name, result, notes))
}

/// Appends a judgement to the log: whether the gate passed, by which command (none for a person's judgement), and on
/// which tree. `request` is the request id of exactly this judgement.
pub(crate) fn judge(
    cx: &Context,
    request: Option<&jit_core::model::ids::RequestId>,
    issue: &IssueId,
    gate: &str,
    (passed, by_command, tree): (bool, Option<&str>, Option<String>),
    notes: &mut Notes,
) -> Outcome<Judged> {
    let manual = by_command.is_none();
    let command = Command::JudgeGate {
        issue: issue.as_str().parse().map_err(|e| refuse(Code::Invalid, e))?,
        gate: gate.to_owned(),
        passed,
        manual,
        tree,
        definition: Some(Gate::definition_of(by_command)),
    };
    let mut policy = Policy {
        agent_asks: manual && passed && crate::context::calling_agent::asking_agent(cx).is_some(),
        ..cx.policy.clone()
    };
    if policy.agent_asks {
        crate::gates::committed_policy::bind_rights(cx, &mut policy)?;
    }
    let options = WriteOptions {
        policy: Some(&policy),
        ..WriteOptions::default()
    };
    let answer = crate::write_path::answer(
        cx,
        crate::write_path::transact_as(cx, request, &command, options)?,
    );
    for warning in answer.warnings {
        notes.add(warning);
    }
    match answer.reply {
        Reply::Gates(GateReply::Judged(judged)) => Ok(judged),
        _ => Err(Box::new(Refusal::bug("a gate in the reply of the log"))),
    }
}

/// Keeps the details of a result that is already in the log. A failure is reported and does not stop the command.
/// Returns the kept details.
fn keep_result(
    cx: &Context,
    issue: &IssueId,
    gate: &GateName,
    result: GateResult,
    notes: &mut Notes,
) -> GateResult {
    let kept = require_jit(cx).and_then(|jit| Results::record(jit, issue, gate, result.clone()));
    match kept {
        Ok(kept) => {
            let same = kept.find(gate.as_str()).filter(|kept| kept.is_same(&result));
            same.cloned().unwrap_or(result)
        }
        Err(refusal) => {
            notes.add(format!(
                "the result counts, but its details are lost: {}",
                refusal.message
            ));
            result
        }
    }
}

pub(crate) fn judge_gate(
    cx: &Context,
    text: IssuePrefix,
    name: &str,
    passed: bool,
    note: Option<String>,
) -> Outcome<Answer> {
    let registry = Registry::load(require_jit(cx)?)?;
    let gate = registry.require(name)?;
    let issue = {
        let view = crate::write_path::view(cx)?;
        crate::write_path::resolve(&view, &text)?
    };
    if !gate.is_manual() {
        let message = format!("{name} is judged by running its command, not by hand");
        let run = format!("jit gate run {} {name}", issue.id);
        return Err(Box::new(Refusal::new(Code::Invalid, message).help(run)));
    }
    if note.as_ref().is_some_and(|note| note.len() > MAX_COMMENT) {
        return Err(refuse(Code::Invalid, "the note is longer than 64 KiB"));
    }
    let mut notes = Notes::default();
    let request = cx.request.as_ref();
    let tree = tree_now(cx, &mut notes);
    let judged = judge(cx, request, &issue.id, name, (passed, None, tree), &mut notes)?;
    let status = if judged.passed {
        Status::Passed
    } else {
        Status::Failed
    };
    let result = GateResult::manual(status, note, judged.by, judged.at, judged.tree);
    let name: GateName = name.parse().map_err(|e| refuse(Code::Invalid, e))?;
    let result = keep_result(cx, &issue.id, &name, result, &mut notes);
    let judgement = Judgement {
        name: name.to_string(),
        result,
    };
    report(cx, issue.id, &registry, vec![judgement], notes)
}

/// Returns the results, and the gates that are still missing.
pub(crate) fn report(
    cx: &Context,
    issue_id: IssueId,
    registry: &Registry,
    gates: Vec<Judgement>,
    notes: Notes,
) -> Outcome<Answer> {
    let view = crate::write_path::view(cx)?;
    let unreadable = |e| refuse(Code::Io, e);
    let issue = state::issue(&*view.table, &issue_id).map_err(unreadable)?;
    let missing = match &issue {
        Some(issue) => missing(&view, registry, issue)?,
        None => Vec::new(),
    };
    let is_gated = issue.is_some_and(|issue| issue.state == IssueState::Gated);
    let next = (is_gated && missing.is_empty()).then(|| format!("jit issue update {issue_id} --state done"));
    Ok(Answer {
        reply: Reply::Gates(GateReply::Report(Box::new(GateReport {
            issue_id,
            gates,
            missing,
            next,
        }))),
        warnings: notes.0,
    })
}

fn judged_by_people(issue: &IssueId, gate: &str) -> Box<Refusal> {
    let message = format!("{gate} has no command: somebody has to look and say");
    Box::new(
        Refusal::new(Code::Invalid, message)
            .help(format!("jit gate pass {issue} {gate}"))
            .help(format!("jit gate fail {issue} {gate} --note <why>")),
    )
}

/// Returns the gates that the issue must pass and has not passed, according to the log.
fn missing(view: &View, registry: &Registry, issue: &Issue) -> Outcome<Vec<String>> {
    let mut missing = Vec::new();
    let mut policy = Policy::default();
    registry.bind(&mut policy);
    for name in registry.required(&issue.kind, &issue.gates) {
        let judged = state::gate_result(&*view.table, &issue.id, name).map_err(|e| refuse(Code::Io, e))?;
        if !judged.is_some_and(|judged| judged.passed && policy.is_current(name, &judged, false)) {
            missing.push(name.to_owned());
        }
    }
    Ok(missing)
}

/// Returns the state of a gate: from the log, with the file's details of the same judgement.
fn standing(
    gate: Option<&Gate>,
    judged: Option<&Judged>,
    kept: Option<&GateResult>,
    tree: Option<&str>,
) -> GateStanding {
    let Some(judged) = judged else {
        return GateStanding {
            required: false,
            status: GateStatus::Missing,
            stale: false,
            counts: false,
            at: None,
            by: None,
            note: None,
        };
    };
    let is_same = |kept: &&GateResult| kept.at == judged.at && kept.by == judged.by;
    let kept = kept.filter(is_same);
    let other_tree = tree.is_some() && judged.tree.as_deref() != tree;
    let redefined = match (gate, &judged.definition) {
        (Some(gate), Some(then)) => gate.definition() != *then,
        _ => false,
    };
    let other_gate = redefined
        || gate.is_none_or(|gate| gate.is_manual() != judged.manual)
        || kept.is_some_and(|kept| {
            kept.kind == Kind::Automatic && kept.command.as_deref() != gate.and_then(Gate::command)
        });
    GateStanding {
        required: false,
        status: if judged.passed {
            GateStatus::Passed
        } else {
            GateStatus::Failed
        },
        stale: other_tree || other_gate,
        counts: judged.passed && !redefined,
        at: Some(judged.at),
        by: Some(AgentId::clone(&judged.by)),
        note: kept.and_then(|kept| kept.note.clone()),
    }
}
