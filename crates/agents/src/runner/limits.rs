//! The limits of an attempt: time, idle time, time after the result, budget and turns. Pure: the caller has the clock.
//!
//! Missing output alone is no sign of a problem: a build may run long without output. An agent is hung if for `idle` it
//! printed nothing and all its processes together used almost no CPU. "Almost no" means up to 1/2000 of the time,
//! because an idle interpreter wakes up now and then.

use std::time::{Duration, Instant};

use jit_core::model::cost::{Tokens, Usd};

use crate::job::{AttemptEnd, Job};

/// The longest wait. A deadline must be representable by the clock.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);
/// One CPU second in this many seconds counts as idle.
const NEXT_TO_NONE: u64 = 2000;

#[derive(Debug)]
pub struct Limits {
    ends_at: Instant,
    idle: Duration,
    linger: Duration,
    /// The time of the last output.
    word_at: Instant,
    /// Since when the agent is known to be idle, and its CPU use at that time.
    idle_since: Option<(Instant, u64)>,
    look_at: Instant,
    result_at: Option<Instant>,
}

pub fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs).min(LONGEST)
}

impl Limits {
    pub fn new(job: &Job, now: Instant) -> Self {
        let idle = secs(job.idle_secs);
        Self {
            ends_at: now + secs(job.timeout_secs),
            idle,
            linger: secs(job.linger_secs),
            word_at: now,
            idle_since: None,
            look_at: now + idle / 4,
            result_at: None,
        }
    }

    /// The agent printed something.
    pub fn word(&mut self, now: Instant) {
        self.word_at = now;
        self.idle_since = None;
    }

    /// The agent reported its result.
    pub fn result(&mut self, now: Instant) {
        self.result_at = Some(now);
    }

    /// When to check again.
    pub fn next(&self) -> Instant {
        match self.result_at {
            Some(at) => self.ends_at.min(at + self.linger),
            None => self.ends_at.min(self.look_at.max(self.word_at + self.idle / 4)),
        }
    }

    /// Whether a time limit has passed.
    pub fn due(&self, now: Instant) -> Option<AttemptEnd> {
        match self.result_at {
            Some(at) if now >= at + self.linger => Some(AttemptEnd::Lingered),
            _ if now >= self.ends_at => Some(AttemptEnd::TimedOut),
            _ => None,
        }
    }

    /// Whether it is time to measure the CPU use.
    pub fn wants_look(&self, now: Instant) -> bool {
        self.result_at.is_none() && now >= self.look_at && now >= self.word_at + self.idle / 4
    }

    /// Takes the total CPU use of its processes in hundredths of a second. Returns whether the agent is hung.
    pub fn look(&mut self, now: Instant, used: u64) -> bool {
        self.look_at = now + self.idle / 4;
        match self.idle_since {
            // The total shrinks if a process exited and was not waited for: something was running.
            Some((since, before)) if used >= before && used - before <= self.allowed() => {
                now >= since + self.idle
            }
            _ => {
                self.idle_since = Some((now, used));
                false
            }
        }
    }

    fn allowed(&self) -> u64 {
        u64::try_from(self.idle.as_millis()).unwrap_or(u64::MAX) / NEXT_TO_NONE / 10
    }
}

/// Whether the budget or the number of turns is exceeded.
pub fn over(job: &Job, tokens: Tokens, cost: Option<Usd>, turns: u64) -> Option<AttemptEnd> {
    let dollars = job
        .budget
        .is_some_and(|most| cost.is_some_and(|cost| cost > most));
    if dollars || job.budget_tokens.is_some_and(|most| tokens.total() > most) {
        return Some(AttemptEnd::OverBudget);
    }
    job.max_turns
        .is_some_and(|most| turns > u64::from(most))
        .then_some(AttemptEnd::OverTurns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        let text = r#"{"unit":"u","attempt":1,"agent":"command","worker":"agent:a","dir":"/","vars":[],
            "session":null,"timeout_secs":1000,"idle_secs":40,"linger_secs":5,"grace_secs":1,
            "budget":1.5,"budget_tokens":100,"max_turns":3}"#;
        serde_json::from_str(text).expect("a job")
    }

    /// Measures whenever the limits ask for it. Returns the second at which the agent counts as hung.
    fn hung_at(limits: &mut Limits, start: Instant, until: u64, used: impl Fn(u64) -> u64) -> Option<u64> {
        (0..until).find(|second| {
            let now = start + Duration::from_secs(*second);
            limits.wants_look(now) && limits.look(now, used(*second))
        })
    }

    #[test]
    fn g6_silent_and_idle_is_hung_and_busy_is_not() {
        let start = Instant::now();
        let hung = hung_at(&mut Limits::new(&job(), start), start, 100, |_| 7);
        assert_eq!(hung, Some(50), "a quarter to begin, then its time");
        assert_eq!(
            hung_at(&mut Limits::new(&job(), start), start, 900, |s| s * 100),
            None
        );
        // An idle interpreter uses a hundredth now and then; more is work.
        assert!(hung_at(&mut Limits::new(&job(), start), start, 900, |s| s / 25).is_some());
        assert_eq!(
            hung_at(&mut Limits::new(&job(), start), start, 900, |s| s / 5),
            None
        );
    }

    #[test]
    fn g6_a_word_begins_the_wait_anew_and_after_the_result_only_dawdling_counts() {
        let start = Instant::now();
        let at = |secs| start + Duration::from_secs(secs);
        let mut limits = Limits::new(&job(), start);
        assert!(!limits.look(at(10), 0));
        limits.word(at(45));
        assert!(!limits.wants_look(at(50)));
        assert!(!limits.look(at(55), 0));
        assert!(!limits.look(at(90), 0));
        assert!(limits.look(at(95), 0));
        limits.result(at(100));
        assert!(!limits.wants_look(at(500)));
        assert_eq!(limits.due(at(104)), None);
        assert_eq!(limits.due(at(105)), Some(AttemptEnd::Lingered));
        assert_eq!(
            Limits::new(&job(), start).due(at(1000)),
            Some(AttemptEnd::TimedOut)
        );
    }

    #[test]
    fn g9_what_is_allowed_may_be_used_and_no_more() {
        let tokens = |n| Tokens { input: n, output: 0 };
        assert_eq!(over(&job(), tokens(100), Some(Usd(1_500_000)), 3), None);
        assert_eq!(
            over(&job(), tokens(0), Some(Usd(1_500_001)), 0),
            Some(AttemptEnd::OverBudget)
        );
        assert_eq!(over(&job(), tokens(101), None, 0), Some(AttemptEnd::OverBudget));
        assert_eq!(over(&job(), tokens(0), None, 4), Some(AttemptEnd::OverTurns));
    }
}
