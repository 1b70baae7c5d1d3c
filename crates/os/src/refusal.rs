//! An error of the operating system as a refusal.

use std::io;

use jit_core::model::refusal::{Code, Refusal};

/// Describes a failed system call: `cannot <what> <path>: <error>`, with the next command.
pub fn io_refusal(what: &str, path: &std::path::Path, e: &io::Error) -> Box<Refusal> {
    if e.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
        let message = format!(
            "cannot {what} {}: there is a symbolic link where jit keeps its own files",
            path.display()
        );
        return Box::new(
            Refusal::new(Code::Io, message).help("put the real file or folder back, or: jit doctor"),
        );
    }
    let refusal = Refusal::new(Code::Io, format!("cannot {what} {}: {e}", path.display()));
    Box::new(match e.kind() {
        io::ErrorKind::StorageFull => refusal.help("free some disk space, then run the command again"),
        io::ErrorKind::PermissionDenied => refusal.help(
            "check who owns the directory; for several users set core.sharedRepository and run jit init",
        ),
        _ => refusal.help("jit doctor"),
    })
}
