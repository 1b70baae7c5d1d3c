//! Telling people, outside of the terminal, what needs them (G13).
//!
//! What must hold:
//!
//! - nothing is told to anybody unless the person's own settings say whom (`notify.command`, `notify.webhook`); what comes
//!   with a repository has no say in it;
//! - telling never holds up a workflow and never fails one: it is done beside, each delivery within its time;
//! - each thing is told once. What was told is in the workflow's folder, so a coordinator that follows another knows. One
//!   that is killed in the middle of a delivery may have told it already: then it is told again under the same `id`;
//! - at most [`BURST`] at once and one in [`PACE`] after that; what happens meanwhile is told together;
//! - no secret is in it ([`jit_agents::redact`]), nor in an argument list ([`deliver`]).
//!
//! Format of a notification, one JSON object: `schema_version`, `id`, `class`, `at`, `repository`, `workflow`, `unit`, `agent`,
//! `title` (one line), `message`, `next` (a command), `more` (how many others it stands for). In `workflows/<id>/notified`
//! one id a line.
//!
//! Limitations: agents that were dispatched by hand have no coordinator, so nobody is told of them.

pub mod deliver;
pub mod happened;
pub mod service;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use jit_agents::redact::Redactor;
use jit_core::model::ids::{UnitId, WorkflowId};
use jit_core::model::time::Wall;
use jit_os::file;
use serde::Serialize;

use crate::config::Notifying;
use crate::config::keys::CLASSES;

/// So many are told one by one.
const BURST: u32 = 10;
/// After that, one in this time.
const PACE: Duration = Duration::from_secs(6);
/// Characters of a message.
const MESSAGE: usize = 4_000;
const TITLE: usize = 200;
/// What was told is forgotten from this size on: it would be no workflow of ours.
const MOST_TOLD: u64 = 4 << 20;

/// Something that happened, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Notice {
    pub schema_version: u32,
    /// The same whenever the same thing is told.
    pub id: String,
    pub class: &'static str,
    pub at: Wall,
    pub repository: String,
    pub workflow: Option<WorkflowId>,
    pub unit: Option<UnitId>,
    pub agent: Option<String>,
    pub title: String,
    pub message: String,
    /// The command to run next.
    pub next: String,
    /// Others that happened meanwhile and are in the message.
    pub more: usize,
}

impl Notice {
    /// Bounded, and without secrets.
    #[must_use]
    pub fn presentable(mut self) -> Self {
        let of = Redactor::of_process();
        let fit = |text: &str, most: usize| jit_agents::short(&of.clean(text), most);
        self.title = fit(&self.title.replace('\n', " "), TITLE);
        self.message = fit(&self.message, MESSAGE);
        self
    }
}

/// Tells of one workflow, beside whatever else is done.
#[derive(Debug)]
pub(crate) struct Notifier {
    on: Vec<String>,
    told: BTreeSet<String>,
    queue: Option<mpsc::Sender<Notice>>,
    trouble: mpsc::Receiver<String>,
    teller: Option<JoinHandle<()>>,
    hurry: Arc<AtomicBool>,
    timeout: Duration,
}

impl Notifier {
    /// Nothing where nobody is to be told.
    pub(crate) fn of(set: Notifying, folder: &Path) -> Option<Self> {
        if set.command.is_empty() && set.webhook.is_empty() {
            return None;
        }
        let path = folder.join("notified");
        let told = file::read_real(&path, MOST_TOLD)
            .ok()
            .flatten()
            .unwrap_or_default();
        let told = String::from_utf8_lossy(&told)
            .lines()
            .map(str::to_owned)
            .collect();
        let (queue, inbox) = mpsc::channel();
        let (complain, trouble) = mpsc::channel();
        let hurry = Arc::new(AtomicBool::new(false));
        let (on, timeout) = (set.on.clone(), set.timeout);
        let teller = Teller {
            set,
            path,
            complain,
            hurry: Arc::clone(&hurry),
        };
        let spawned = std::thread::Builder::new()
            .name("notify".to_owned())
            .spawn(move || teller.run(&inbox));
        Some(Self {
            on,
            told,
            queue: Some(queue),
            trouble,
            teller: spawned.ok(),
            hurry,
            timeout,
        })
    }

    /// Whether anybody wants to know this, and does not yet.
    pub(crate) fn wants(&self, class: &str, id: &str) -> bool {
        self.on.iter().any(|on| on == class) && !self.told.contains(id)
    }

    pub(crate) fn tell(&mut self, notice: Notice) {
        if !self.wants(notice.class, &notice.id) {
            return;
        }
        self.told.insert(notice.id.clone());
        if let Some(queue) = &self.queue {
            // Without a teller nobody is told.
            let _ = queue.send(notice);
        }
    }

    /// What could not be delivered.
    pub(crate) fn troubles(&self) -> Vec<String> {
        self.trouble.try_iter().collect()
    }

    /// Waits for what is still to be told, within bounds.
    pub(crate) fn finish(&mut self) -> Vec<String> {
        self.queue = None;
        self.hurry.store(true, Ordering::Relaxed);
        // What is being delivered now, and the rest together; each by two ways.
        let until = Instant::now() + self.timeout * 4 + Duration::from_secs(1);
        if let Some(teller) = self.teller.take() {
            while !teller.is_finished() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        self.troubles()
    }
}

/// The thread that tells.
struct Teller {
    set: Notifying,
    path: PathBuf,
    complain: mpsc::Sender<String>,
    hurry: Arc<AtomicBool>,
}

impl Teller {
    fn run(&self, inbox: &mpsc::Receiver<Notice>) {
        let mut pace = Pace::new(Instant::now());
        let mut last = None;
        while let Ok(first) = inbox.recv() {
            let mut all = vec![first];
            while let Some(wait) = pace.wait(Instant::now()) {
                if self.hurry.load(Ordering::Relaxed) {
                    break;
                }
                match inbox.recv_timeout(wait.min(Duration::from_millis(200))) {
                    Ok(next) => all.push(next),
                    Err(mpsc::RecvTimeoutError::Timeout) => {}
                    Err(mpsc::RecvTimeoutError::Disconnected) => break,
                }
            }
            if all.len() > 1 || self.hurry.load(Ordering::Relaxed) && pace.is_spent() {
                all.extend(inbox.try_iter());
            }
            pace.take(Instant::now());
            let ids: Vec<String> = all.iter().map(|notice| notice.id.clone()).collect();
            let failed: Vec<String> = deliver::all(&self.set, &together(all).presentable())
                .into_iter()
                .filter_map(|sent| Some(format!("{}: {}", sent.way, sent.why?)))
                .collect();
            if !failed.is_empty() && last.as_ref() != Some(&failed) {
                let _ = self.complain.send(format!(
                    "nobody could be told: {} (try: jit notify test)",
                    failed.join("; ")
                ));
                last = Some(failed);
            }
            self.remember(&ids);
        }
    }

    fn remember(&self, ids: &[String]) {
        let mut lines = ids.join("\n");
        lines.push('\n');
        // What is not remembered is told again, under the same id.
        let _ = file::create_like_parent(&self.path);
        let file = File::options().append(true).open(&self.path);
        let _ = file.and_then(|mut file| file.write_all(lines.as_bytes()));
    }
}

/// Several as one: the first in order of [`CLASSES`] speaks for all.
fn together(mut all: Vec<Notice>) -> Notice {
    let weight = |notice: &Notice| CLASSES.iter().position(|class| *class == notice.class);
    all.sort_by_key(weight);
    let lines: Vec<String> = all
        .iter()
        .map(|one| format!("{} ({})", one.title, one.next))
        .collect();
    let more = all.len() - 1;
    let mut first = all.swap_remove(0);
    if more > 0 {
        first.title = format!("{} (and {more} more)", first.title);
        first.message = lines.join("\n");
        first.more = more;
    }
    first
}

/// How often somebody may be told.
#[derive(Debug)]
struct Pace {
    left: u32,
    since: Instant,
}

impl Pace {
    fn new(now: Instant) -> Self {
        Self {
            left: BURST,
            since: now,
        }
    }

    fn refill(&mut self, now: Instant) {
        while self.left < BURST && now >= self.since + PACE {
            self.left += 1;
            self.since += PACE;
        }
        if self.left == BURST {
            self.since = now;
        }
    }

    /// How long to wait before the next one.
    fn wait(&mut self, now: Instant) -> Option<Duration> {
        self.refill(now);
        (self.left == 0).then(|| (self.since + PACE).saturating_duration_since(now))
    }

    fn is_spent(&self) -> bool {
        self.left == 0
    }

    fn take(&mut self, now: Instant) {
        self.refill(now);
        self.left = self.left.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(class: &'static str, n: u32) -> Notice {
        Notice {
            schema_version: 1,
            id: format!("{class}/{n}"),
            class,
            at: Wall::from_ms(0),
            repository: "/r".into(),
            workflow: None,
            unit: None,
            agent: None,
            title: format!("{class} {n}"),
            message: "m".into(),
            next: "jit status".into(),
            more: 0,
        }
    }

    #[test]
    fn g13_notifications_have_a_pace() {
        let start = Instant::now();
        let at = |secs| start + Duration::from_secs(secs);
        let mut pace = Pace::new(start);
        for _ in 0..BURST {
            assert_eq!(pace.wait(start), None);
            pace.take(start);
        }
        assert_eq!(pace.wait(start), Some(PACE));
        assert_eq!(pace.wait(at(2)), Some(PACE - Duration::from_secs(2)));
        assert_eq!(pace.wait(at(6)), None);
        pace.take(at(6));
        assert!(pace.wait(at(6)).is_some());
        // A quiet hour does not save up more than a burst.
        assert_eq!(pace.wait(at(3600)), None);
        for _ in 0..BURST {
            pace.take(at(3600));
        }
        assert!(pace.wait(at(3600)).is_some());
    }

    #[test]
    fn g13_several_are_told_as_one_and_what_needs_a_person_comes_first() {
        let one = together(vec![notice("landed", 1)]);
        assert_eq!(one, notice("landed", 1));
        let all = together(vec![
            notice("landed", 1),
            notice("needs_person", 2),
            notice("failed", 3),
        ]);
        assert_eq!((all.class, all.more), ("needs_person", 2));
        assert!(
            all.message.contains("landed 1") && all.message.contains("failed 3"),
            "{all:?}"
        );
        assert!(all.title.contains("2 more"), "{}", all.title);
    }

    #[test]
    fn g13_a_notification_is_bounded_and_holds_no_secret() {
        let mut long = notice("failed", 1);
        long.title = format!("two\nlines sk-ant-api03-0123456789 {}", "x".repeat(1000));
        long.message = "y".repeat(100_000);
        let shown = long.presentable();
        assert!(
            shown.title.starts_with("two lines [redacted] x"),
            "{}",
            shown.title
        );
        assert!(shown.title.chars().count() <= TITLE + 1 && shown.message.chars().count() <= MESSAGE + 1);
    }
}
