//! Notifies people outside of the terminal about events that need them (G13).
//!
//! What must hold:
//!
//! - A notification is sent only if the user's own settings name a receiver (`notify.command`, `notify.webhook`).
//!   Settings that come with a repository have no effect.
//! - Notifications never delay a workflow and never fail it: a thread delivers them, each within its timeout.
//! - Each event is notified once. The ids are in the workflow's folder, so the next coordinator knows them. If a
//!   coordinator is killed during a delivery, the notification may be sent again with the same `id`.
//! - At most `BURST` notifications are sent at once, and then one in each `PACE`. Events in between are combined.
//! - A notification contains no secret ([`jit_agents::redact`]), nor does an argument list ([`deliver`]).
//!
//! Format of a notification, one JSON object: `schema_version`, `id`, `class`, `at`, `repository`, `workflow`,
//! `unit`, `agent`, `title` (one line), `message`, `next` (a command), `more` (how many others it stands for).
//! `workflows/<id>/notified` has one id a line.
//!
//! Limitations: agents that were dispatched by hand have no coordinator, so there are no notifications about them.

pub mod deliver;
pub mod happened;
pub mod service;

use crate::api::Answer;
use crate::api::notify::NotifyRequest;
use crate::context::Context;
use jit_store::Outcome;
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

/// Maximum number of single notifications in a row.
const BURST: u32 = 10;
/// Minimum interval after that.
const PACE: Duration = Duration::from_secs(6);
/// Maximum length of a message in characters.
const MESSAGE: usize = 4_000;
const TITLE: usize = 200;
/// Maximum size of the file of sent ids. A larger file is ignored: no workflow of ours writes that much.
const MOST_TOLD: u64 = 4 << 20;

/// A notification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Notice {
    pub schema_version: u32,
    /// The same id whenever the same event is notified.
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
    /// Number of other notifications that are combined in the message.
    pub more: usize,
}

impl Notice {
    /// Limits the length, and removes secrets.
    #[must_use]
    pub fn presentable(mut self) -> Self {
        let of = Redactor::of_process();
        let fit = |text: &str, most: usize| jit_agents::short(&of.clean(text), most);
        self.title = fit(&self.title.replace('\n', " "), TITLE);
        self.message = fit(&self.message, MESSAGE);
        self
    }
}

/// Sends the notifications of one workflow from a thread.
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
    /// Returns `None` if no receiver is configured.
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

    /// Whether this class is enabled and this id was not sent yet.
    pub(crate) fn wants(&self, class: &str, id: &str) -> bool {
        self.on.iter().any(|on| on == class) && !self.told.contains(id)
    }

    pub(crate) fn tell(&mut self, notice: Notice) {
        if !self.wants(notice.class, &notice.id) {
            return;
        }
        self.told.insert(notice.id.clone());
        if let Some(queue) = &self.queue {
            // If the thread has ended, nothing is sent.
            let _ = queue.send(notice);
        }
    }

    /// Returns the failed deliveries.
    pub(crate) fn troubles(&self) -> Vec<String> {
        self.trouble.try_iter().collect()
    }

    /// Waits for pending notifications, for a limited time.
    pub(crate) fn finish(&mut self) -> Vec<String> {
        self.queue = None;
        self.hurry.store(true, Ordering::Relaxed);
        // Time for the delivery in progress and for the combined rest; each by two ways.
        let until = Instant::now() + self.timeout * 4 + Duration::from_secs(1);
        if let Some(teller) = self.teller.take() {
            while !teller.is_finished() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        self.troubles()
    }
}

/// The thread that sends notifications.
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
        // An id that could not be stored is sent again, with the same id.
        let _ = file::create_like_parent(&self.path);
        let file = file::open_real(&self.path, File::options().append(true));
        let _ = file.and_then(|mut file| file.write_all(lines.as_bytes()));
    }
}

/// Combines several notifications. The first in the order of [`CLASSES`] represents all.
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

/// The rate limit for notifications.
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

    /// Returns the time to wait before the next notification.
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

/// Carries out a request about notifications.
pub(crate) fn handle(cx: &Context, request: NotifyRequest) -> Outcome<Answer> {
    match request {
        NotifyRequest::Test => service::notify_test(cx),
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
        // A quiet hour does not allow more than one burst.
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
