//! Coordinates a workflow in the foreground: prints its progress and handles Ctrl-C.
//!
//! What must hold:
//! - The first Ctrl-C ends the coordinator. The agents continue.
//! - A second Ctrl-C within three seconds cancels the workflow, and its agents are stopped.
//! - A closed standard output does not stop the workflow.
//! - The exit code is 6 if the workflow failed or waits for a person, and 130 after Ctrl-C.

use std::time::{Duration, Instant};

use jit_core::model::ids::WorkflowId;
use jit_core::model::refusal::Code;
use jit_core::model::workflow::{Workflow, WorkflowOutcome};
use jit_engine::api::Reply;
use jit_engine::api::workflows::{WorkflowReply, WorkflowRequest};
use jit_engine::coordinator::{self, Progress, Watcher};
use jit_os::interrupt;
use jit_store::Outcome;

use crate::exit::{CHECK_FAILED, INTERRUPTED};
use crate::invocation::{Invocation, Output, invalid, unexpected};
use crate::render::{self, clean_line};

/// A second Ctrl-C within this time stops the agents.
const SECOND: Duration = Duration::from_secs(3);

/// Time between two checks for the second Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

struct Screen<'a> {
    call: &'a Invocation,
    id: WorkflowId,
    begun: Instant,
    seen: u32,
    /// Time of the first Ctrl-C.
    asked: Option<Instant>,
}

impl Screen<'_> {
    /// Waits for a second Ctrl-C, after the coordinator has ended. Returns whether it came in time.
    fn is_asked_again(&mut self) -> bool {
        let Some(at) = self.asked else { return false };
        while at.elapsed() < SECOND {
            if interrupt::counted() > self.seen {
                return true;
            }
            std::thread::sleep(LOOK);
        }
        false
    }
}

impl Watcher for Screen<'_> {
    fn progress(&mut self, told: &Progress) {
        if self.call.quiet() {
            return;
        }
        let (unit, text) = match told {
            Progress::Unit { unit, text } => (Some(unit.as_str()), text),
            Progress::All(text) => (None, text),
            Progress::Warning(text) => {
                render::say(&format!("warning: {}", render::clean(text)));
                return;
            }
        };
        let secs = self.begun.elapsed().as_secs_f64();
        let line = format!("{secs:>7.1}s  {:<20}  {}", unit.unwrap_or("-"), clean_line(text));
        if self.call.json() {
            // With --json, standard output is for the one answer at the end.
            render::say(&line);
            return;
        }
        // A closed standard output does not stop the workflow.
        let _ = render::print(&format!("{line}\n"));
    }

    fn go_on(&mut self) -> bool {
        let count = interrupt::counted();
        if count > self.seen && self.asked.is_none() {
            self.seen = self.seen.saturating_add(1);
            self.asked = Some(Instant::now());
            render::say(&format!(
                "The agents go on. Come back with `jit workflow resume {0}`, end it with `jit workflow cancel {0}`; Ctrl-C \
                 again within 3 seconds stops them now.",
                self.id
            ));
        }
        self.asked.is_none()
    }

    fn hurry(&mut self) -> bool {
        interrupt::counted() > self.seen
    }
}

/// The request for the state of a workflow.
pub fn status(id: &WorkflowId) -> WorkflowRequest {
    WorkflowRequest::Status {
        workflow: Some(id.to_string()),
    }
}

/// Sends a request about one workflow, and returns the workflow.
pub fn sent(request: WorkflowRequest, call: &Invocation) -> Outcome<Workflow> {
    match call.send(request)?.reply {
        Reply::Workflows(WorkflowReply::Workflow(view)) => Ok(view.workflow),
        Reply::Workflows(WorkflowReply::Changed(workflow)) => Ok(*workflow),
        _ => Err(unexpected()),
    }
}

/// Coordinates the workflow until it is over, waits for a person, or is interrupted by Ctrl-C. Of one that is over, as
/// after a repeated command, only the outcome is shown.
pub fn lead(id: &WorkflowId, call: &Invocation) -> Outcome<Output> {
    interrupt::count().map_err(invalid)?;
    let mut workflow = sent(status(id), call)?;
    if !workflow.is_over() {
        workflow = coordinate(id, call)?;
    }
    let answer = call.send(status(id))?;
    let failed = match &answer.reply {
        Reply::Workflows(WorkflowReply::Workflow(view)) => {
            view.workflow.is_over() && view.workflow.status != WorkflowOutcome::Completed
        }
        _ => false,
    };
    let shown = call.show(&answer.reply.value(), |style| call.text(&answer.reply, style));
    let shown = shown.warn(answer.warnings);
    Ok(match (failed, workflow.is_over()) {
        (true, _) => shown.exit(CHECK_FAILED),
        (false, true) => shown,
        (false, false) if interrupt::counted() > 0 => shown.exit(INTERRUPTED),
        // The remaining units wait for a person.
        (false, false) => shown.exit(CHECK_FAILED),
    })
}

/// Coordinates the workflow, and returns it as it is then.
fn coordinate(id: &WorkflowId, call: &Invocation) -> Outcome<Workflow> {
    let options = call.options()?;
    let mut screen = Screen {
        call,
        id: id.clone(),
        begun: Instant::now(),
        seen: interrupt::counted(),
        asked: None,
    };
    let mut workflow = coordinator::lead(&options, id, &mut screen)?;
    if !workflow.is_over() && screen.is_asked_again() {
        render::say("stopping the agents; their work is kept");
        let cancel = WorkflowRequest::Cancel {
            workflow: Some(id.to_string()),
        };
        call.send_as("cancel", cancel)?;
        // Ctrl-C is counted anew. It can end this coordinator too, but the request to cancel stays in the log.
        (screen.seen, screen.asked) = (interrupt::counted(), None);
        workflow = match coordinator::lead(&options, id, &mut screen) {
            // Another coordinator has taken over the workflow, and ends it.
            Err(refusal) if refusal.code == Code::Held => sent(status(id), call)?,
            other => other?,
        };
    }
    Ok(workflow)
}
