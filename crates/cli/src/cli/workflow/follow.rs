//! Working a workflow off where somebody watches: what happens is printed, and Ctrl-C means what it should.

use std::time::{Duration, Instant};

use jit_core::model::ids::WorkflowId;
use jit_core::model::refusal::Code;
use jit_engine::api::{Reply, Request};
use jit_engine::context::Context;
use jit_engine::coordinator::{Coordinator, Told, Watcher};
use jit_os::interrupt;
use jit_store::Outcome;

use crate::cli::{Cx, Output, invalid, text};
use crate::exit::{CHECK_FAILED, INTERRUPTED};
use crate::render::{self, clean_line};

/// A second Ctrl-C within this time stops the agents.
const SECOND: Duration = Duration::from_secs(3);

/// Between two looks for it.
const LOOK: Duration = Duration::from_millis(50);

struct Screen<'a> {
    cx: &'a Cx,
    id: WorkflowId,
    begun: Instant,
    seen: u32,
    /// When the first Ctrl-C came.
    asked: Option<Instant>,
}

impl Screen<'_> {
    /// After the first Ctrl-C, when nobody leads any more: whether a second one comes in time.
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
    fn told(&mut self, told: &Told) {
        if self.cx.quiet() {
            return;
        }
        let (unit, text) = match told {
            Told::Unit { unit, text } => (Some(unit.as_str()), text),
            Told::All(text) => (None, text),
            Told::Warning(text) => {
                render::say(&format!("warning: {}", render::clean(text)));
                return;
            }
        };
        let secs = self.begun.elapsed().as_secs_f64();
        let line = format!("{secs:>7.1}s  {:<20}  {}", unit.unwrap_or("-"), clean_line(text));
        if self.cx.json() {
            // Standard output is for the one answer at the end.
            render::say(&line);
            return;
        }
        // Nobody reading is no reason to stop.
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

/// Leads the workflow until it has ended, or until Ctrl-C.
pub fn lead(id: &WorkflowId, cx: &Cx, app: &Context) -> Outcome<Output> {
    interrupt::count().map_err(invalid)?;
    let mut options = cx.options()?;
    // Threads beside are the same somebody in the same place; a request id belongs to one command.
    options.request = None;
    options.dir = Some(app.place.start.clone());
    options.agent = Some(app.actor.agent_id.to_string());
    let coordinator = Coordinator::of(app, options.clone(), id)?;
    let mut screen = Screen {
        cx,
        id: id.clone(),
        begun: Instant::now(),
        seen: interrupt::counted(),
        asked: None,
    };
    let mut workflow = coordinator.run(&mut screen)?;
    if !workflow.is_over() && screen.is_asked_again() {
        render::say("stopping the agents; their work is kept");
        jit_engine::workflows::service::ask_to_cancel(app, Some(id.as_str()))?;
        // From now on a further one only means to hurry.
        (screen.seen, screen.asked) = (interrupt::counted(), None);
        workflow = match Coordinator::of(app, options, id) {
            Ok(coordinator) => coordinator.run(&mut screen)?,
            // Somebody took it over meanwhile, and ends it.
            Err(refusal) if refusal.code == Code::Held => {
                jit_engine::plans::lookup::find_workflow(app, Some(id.as_str()))?
            }
            Err(refusal) => return Err(refusal),
        };
    }
    let answer = jit_engine::handle::handle(
        app,
        Request::WorkflowStatus {
            workflow: Some(workflow.id.to_string()),
        },
    )?;
    let failed = match &answer.reply {
        Reply::Workflow(view) => {
            view.workflow.is_over()
                && view.workflow.status != jit_core::model::workflow::WorkflowOutcome::Completed
        }
        _ => false,
    };
    let shown = cx.show(&answer.reply, |style| text(&answer.reply, "", style));
    let shown = shown.warn(answer.warnings);
    Ok(match (failed, workflow.is_over()) {
        (true, _) => shown.exit(CHECK_FAILED),
        (false, true) => shown,
        (false, false) if interrupt::counted() > 0 => shown.exit(INTERRUPTED),
        // What is left waits for a person.
        (false, false) => shown.exit(CHECK_FAILED),
    })
}
