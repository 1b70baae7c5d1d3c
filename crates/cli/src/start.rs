//! From the system's `main` to ours.
//!
//! Rust's own start-up reads `/proc/self/maps` to find the main thread's guard page and installs handlers that word
//! the message of a stack overflow: twenty system calls, a tenth of what a claim costs beyond its sync. Where the
//! standard library finds the arguments without it (Linux with glibc), `jit` begins without. What a program must not
//! be without is done here: descriptors 0 to 2 are open, so that no file of ours gets the number of standard output,
//! and a closed pipe is an error, not the end. A stack overflow still ends the process, by the signal itself.

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
    // SAFETY: an array of three, a signal's number, a constant path. Nothing else runs yet.
    unsafe {
        libc::poll(standard.as_mut_ptr(), 3, 0);
        for _ in standard.iter().filter(|fd| fd.revents & libc::POLLNVAL != 0) {
            // The lowest number that is free.
            if libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) < 0 {
                libc::abort();
            }
        }
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
    c_int::from(crate::cli::main(std::env::args_os().collect()))
}
