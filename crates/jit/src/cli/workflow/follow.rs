//! Working a workflow off where somebody watches: what happens is printed, and Ctrl-C means what it should.

use std::time::{Duration, Instant};

use jit_core::ids::WorkflowId;
use jit_engine::app::App;
use jit_engine::coordinator::{Coordinator, Told, Watcher};
use jit_engine::os::interrupt;
use jit_engine::request::{Reply, Request};
use jit_engine::store::Outcome;

use crate::cli::{Cx, Output, invalid, text};
use crate::exit::{CHECK_FAILED, INTERRUPTED};
use crate::render::{self, clean_line};

/// A second Ctrl-C within this time stops the agents.
const SECOND: Duration = Duration::from_secs(3);

struct Screen<'a> {
    cx: &'a Cx,
    app: &'a App,
    id: WorkflowId,
    begun: Instant,
    seen: u32,
    /// When the first Ctrl-C came.
    asked: Option<Instant>,
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
        if count > self.seen {
            let second = count - self.seen > 1 || self.asked.is_some_and(|at| at.elapsed() < SECOND);
            self.seen = count;
            if second {
                render::say("stopping the agents; their work is kept");
                if let Err(refusal) = self.app.ask_to_cancel(Some(self.id.as_str())) {
                    render::say(&format!("error: {}", render::clean(&refusal.message)));
                }
                self.asked = None;
                return true;
            }
            self.asked = Some(Instant::now());
            render::say(&format!(
                "The agents go on. Come back with `jit workflow resume {0}`, end it with `jit workflow cancel {0}`; Ctrl-C \
                 again within 3 seconds stops them now.",
                self.id
            ));
        }
        self.asked.is_none_or(|at| at.elapsed() < SECOND)
    }

    fn hurry(&mut self) -> bool {
        interrupt::counted() > self.seen
    }
}

/// Leads the workflow until it has ended, or until Ctrl-C.
pub fn lead(id: &WorkflowId, cx: &Cx, app: &App) -> Outcome<Output> {
    interrupt::count().map_err(invalid)?;
    let mut options = cx.options()?;
    // Threads beside are the same somebody in the same place; a request id belongs to one command.
    options.request = None;
    options.dir = Some(app.place.start.clone());
    options.agent = Some(app.actor.agent_id.to_string());
    let coordinator = Coordinator::of(app, options, id)?;
    let mut screen = Screen {
        cx,
        app,
        id: id.clone(),
        begun: Instant::now(),
        seen: interrupt::counted(),
        asked: None,
    };
    let workflow = coordinator.run(&mut screen)?;
    let answer = app.handle(Request::WorkflowStatus {
        workflow: Some(workflow.id.to_string()),
    })?;
    let failed = match &answer.reply {
        Reply::Workflow(view) => {
            view.workflow.is_over() && view.workflow.status != jit_core::workflow::Outcome::Completed
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
