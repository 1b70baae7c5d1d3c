//! Entry point on Linux with glibc: the C library's `main` calls ours without Rust's start-up code.
//!
//! Rust's start-up code reads `/proc/self/maps` to find the guard page of the main thread. It also installs handlers that
//! print the message of a stack overflow. That costs twenty system calls, a tenth of the cost of a claim without its sync.
//! On Linux with glibc the standard library finds the arguments without this code, so `jit` skips it.
//!
//! What must hold:
//! - Descriptors 0 to 2 are open, so that no file of ours gets the number of standard output.
//! - A closed pipe is an error of the write. It does not end the process.
//! - A stack overflow still ends the process, by the signal itself.

use std::ffi::{c_char, c_int};

#[expect(
    unsafe_code,
    reason = "the symbol that the C library calls, and two system calls that no safe interface offers without start-up"
)]
#[unsafe(no_mangle)]
extern "C" fn main(_count: c_int, _arguments: *const *const c_char) -> c_int {
    let mut standard = [0, 1, 2].map(|fd| libc::pollfd {
        fd,
        events: 0,
        revents: 0,
    });
    // SAFETY: `poll` gets an array of three, `signal` a valid number, `open` a constant path. No other thread runs yet.
    unsafe {
        libc::poll(standard.as_mut_ptr(), 3, 0);
        for _ in standard.iter().filter(|fd| fd.revents & libc::POLLNVAL != 0) {
            // `open` returns the lowest free number, which is one of the closed descriptors.
            if libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) < 0 {
                libc::abort();
            }
        }
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
    c_int::from(crate::run_command(std::env::args_os().collect()))
}
