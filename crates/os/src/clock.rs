//! Three clocks, for three purposes.
//!
//! - [`boot_ns`]: nanoseconds since the machine started, counting through suspend and blind to changes of the wall
//!   clock. Deadlines are decided by it. It means something only together with [`boot_id`].
//! - [`boot_id`]: names the current boot of the machine.
//! - [`wall_ms`]: the time of day, for people. It may jump in either direction.
//!
//! Limitations: two machines that share a file system must not compare boot times; a process in its own time
//! namespace sees a shifted boot clock; a virtual machine resumed from a snapshot keeps its boot id. On Apple systems
//! `CLOCK_MONOTONIC` plays the part of the boot clock, because Darwin lets it run during sleep (not run here).

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use jit_core::model::time::{BootId, Clock, Now, Wall};
use rustix::time::{ClockId, clock_gettime};

#[cfg(any(target_os = "linux", target_os = "android"))]
const BOOT_CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const BOOT_CLOCK: ClockId = ClockId::Monotonic;

/// The machine's own clock, for a store that lives on this machine.
#[derive(Debug, Default)]
pub struct SystemClock {
    /// A process does not outlive its boot.
    boot: std::sync::OnceLock<BootId>,
}

impl Clock for SystemClock {
    fn now(&self) -> io::Result<Now> {
        let boot = match self.boot.get() {
            Some(boot) => boot.clone(),
            None => {
                let boot = BootId(boot_id()?);
                self.boot.get_or_init(|| boot).clone()
            }
        };
        Ok(Now {
            wall: Wall::from_ms(wall_ms()),
            boot,
            ticks: boot_ns() / 1_000_000,
        })
    }

    fn wall(&self) -> Wall {
        Wall::from_ms(wall_ms())
    }
}

/// Nanoseconds since the machine started, suspend included.
pub fn boot_ns() -> u64 {
    let now = clock_gettime(BOOT_CLOCK);
    // The clock starts at zero and wraps after 584 years.
    let secs = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    secs.saturating_mul(1_000_000_000).saturating_add(nanos)
}

/// Nanoseconds since 1970 by the wall clock; 0 before.
pub fn wall_ns() -> i128 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| i128::try_from(since.as_nanos()).unwrap_or(0))
}

/// Milliseconds since 1970 by the wall clock; negative before.
pub fn wall_ms() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms),
    }
}

/// Names the current boot of the machine.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn boot_id() -> io::Result<String> {
    let mut text = [0; 64];
    let len = std::io::Read::read(
        &mut std::fs::File::open("/proc/sys/kernel/random/boot_id")?,
        &mut text,
    )?;
    checked_boot_id(&String::from_utf8_lossy(&text[..len]))
}

/// Names the current boot of the machine. Not `kern.boottime`, which moves when the wall clock is set.
///
/// Not run here: written from Darwin's sysctl documentation.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn boot_id() -> io::Result<String> {
    let output = std::process::Command::new("/usr/sbin/sysctl")
        .args(["-n", "kern.bootsessionuuid"])
        .output()?;
    checked_boot_id(&String::from_utf8_lossy(&output.stdout))
}

fn checked_boot_id(text: &str) -> io::Result<String> {
    let id = text.trim();
    let plausible = (8..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    if plausible {
        Ok(id.to_ascii_lowercase())
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("the system's boot id {id:?} is not one"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b6_boot_clock_goes_forward_and_is_the_same_for_every_thread() {
        let before = boot_ns();
        let there = std::thread::spawn(boot_ns).join().expect("thread");
        let after = boot_ns();
        assert!(before > 0 && before <= there && there <= after);
    }

    #[test]
    fn b6_boot_id_is_stable() {
        assert_eq!(boot_id().expect("boot id"), boot_id().expect("boot id"));
        for bad in ["", "\n", "not a boot id", "aa", "zzzzzzzz-zzzz"] {
            assert!(checked_boot_id(bad).is_err(), "{bad:?}");
        }
        assert_eq!(checked_boot_id("ABCD-0123-4\n").expect("good"), "abcd-0123-4");
    }

    #[test]
    fn wall_clock_is_this_century() {
        assert!(wall_ms() > 1_700_000_000_000);
    }
}
