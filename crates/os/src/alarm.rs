//! A timeout for a blocking system call, by SIGALRM.
//!
//! It is cheap: two system calls and no second thread. But a process has one alarm timer and one handler, so it is only
//! for a program that waits in its first thread and uses neither for anything else.

use std::io;
use std::time::Duration;

/// Sends SIGALRM until it is dropped: first after the given time, then repeatedly, because the first signal may arrive
/// just before the system call begins.
#[derive(Debug)]
pub struct Alarm(());

const AGAIN: Duration = Duration::from_millis(20);
/// Three years; some systems refuse more.
const LONGEST: Duration = Duration::from_secs(100_000_000);

#[cfg(unix)]
#[expect(unsafe_code, reason = "signals and timers have no safe interface")]
impl Alarm {
    /// After `wait`, system calls that block this thread fail with `EINTR`.
    pub fn after(wait: Duration) -> io::Result<Self> {
        extern "C" fn wake(_signal: libc::c_int) {}
        // SAFETY: the structures are plain data for which all zeroes is a value, they outlive the calls, and the
        // handler does nothing.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            // Without SA_RESTART: being interrupted is the purpose.
            action.sa_sigaction = wake as *const () as libc::sighandler_t;
            let mut only: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut only);
            libc::sigaddset(&raw mut only, libc::SIGALRM);
            if libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()) != 0
                // The parent process may have blocked the signal.
                || libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const only, std::ptr::null_mut()) != 0
            {
                return Err(io::Error::last_os_error());
            }
        }
        Self::set(wait.clamp(Duration::from_micros(1), LONGEST), AGAIN)?;
        Ok(Self(()))
    }

    fn set(first: Duration, again: Duration) -> io::Result<()> {
        let time = |d: Duration| libc::timeval {
            tv_sec: d.as_secs() as libc::time_t,
            tv_usec: d.subsec_micros() as libc::suseconds_t,
        };
        let timer = libc::itimerval {
            it_value: time(first),
            it_interval: time(again),
        };
        // SAFETY: plain data that outlives the call.
        match unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let _ = Self::set(Duration::ZERO, Duration::ZERO);
    }
}
