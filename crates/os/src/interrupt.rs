//! Counts Ctrl-C instead of dying from it: a command that follows other processes explains what happens to them first.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// Counts SIGINT and SIGTERM from now on. Blocking system calls fail with `EINTR`.
#[expect(unsafe_code, reason = "signals have no safe interface")]
pub fn count() -> io::Result<()> {
    extern "C" fn note(_signal: libc::c_int) {
        COUNT.fetch_add(1, Ordering::Relaxed);
    }
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: plain data for which all zeroes is a value, outliving the call; the handler only adds to an atomic.
        let done = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = note as *const () as libc::sighandler_t;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut())
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The number of signals since [`count`].
pub fn counted() -> u32 {
    COUNT.load(Ordering::Relaxed)
}
