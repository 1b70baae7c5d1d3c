//! A clock that stands still until a test moves it.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jit_core::model::time::{BootId, Now, Wall};
use jit_store::Clock;

/// Clones show the same time.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<Mutex<Times>>);

#[derive(Debug)]
struct Times {
    wall_ms: i64,
    boot: String,
    ticks: u64,
    /// Every reading moves the clock by this, for tests that must not see the same moment twice.
    step_ms: u64,
    broken: bool,
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl ManualClock {
    /// 2026-01-03T12:00:00Z, a minute after the boot `boot-1`.
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Times {
            wall_ms: 1_767_441_600_000,
            boot: "boot-1".into(),
            ticks: 60_000,
            step_ms: 0,
            broken: false,
        })))
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets time pass, on both clocks alike.
    pub fn advance(&self, ms: u64) {
        self.times().pass(ms);
    }

    /// Sets the wall clock; no time passes.
    pub fn jump_wall(&self, ms: i64) {
        let mut times = self.times();
        times.wall_ms = times.wall_ms.saturating_add(ms);
    }

    /// Reboots the machine: `down_ms` of wall time later, ticks are counted from zero.
    pub fn reboot(&self, boot: &str, down_ms: u64) {
        let mut times = self.times();
        times.pass(down_ms);
        times.boot = boot.to_owned();
        times.ticks = 0;
    }

    /// From now on every reading moves the clock by `ms`.
    pub fn step(&self, ms: u64) {
        self.times().step_ms = ms;
    }

    /// Makes readings of the clock fail, or succeed again.
    pub fn break_it(&self, broken: bool) {
        self.times().broken = broken;
    }

    pub fn now(&self) -> io::Result<Now> {
        let mut times = self.times();
        if times.broken {
            return Err(io::Error::other("the clock is broken"));
        }
        let step = times.step_ms;
        times.pass(step);
        Ok(Now {
            wall: Wall::from_ms(times.wall_ms),
            boot: BootId(times.boot.clone()),
            ticks: times.ticks,
        })
    }
}

impl Clock for ManualClock {
    fn now(&self) -> io::Result<Now> {
        Self::now(self)
    }

    fn wall(&self) -> Wall {
        let mut times = self.times();
        let step = times.step_ms;
        times.pass(step);
        Wall::from_ms(times.wall_ms)
    }
}

impl Times {
    fn pass(&mut self, ms: u64) {
        self.ticks = self.ticks.saturating_add(ms);
        self.wall_ms = self.wall_ms.saturating_add_unsigned(ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(clock: &ManualClock) -> (i64, String, u64) {
        let now = clock.now().expect("not broken");
        (now.wall.ms(), now.boot.0, now.ticks)
    }

    #[test]
    fn each_movement_moves_what_it_should() {
        let clock = ManualClock::new();
        let other = clock.clone();
        let (wall, boot, ticks) = look(&clock);
        other.advance(5);
        assert_eq!(look(&clock), (wall + 5, boot.clone(), ticks + 5));
        clock.jump_wall(-86_400_000);
        assert_eq!(look(&clock), (wall + 5 - 86_400_000, boot, ticks + 5));
        clock.reboot("next", 30_000);
        assert_eq!(look(&clock), (wall + 30_005 - 86_400_000, "next".into(), 0));
        clock.step(2);
        assert_eq!((look(&clock).2, look(&clock).2), (2, 4));
        clock.break_it(true);
        assert!(clock.now().is_err());
    }
}
