//! The physical floor: what any program must do that changes a shared log safely, and nothing else.
//!
//! `floor [--sync-inside] <dir>` takes the kernel lock on `<dir>/lock`, appends one line of 450 bytes to `<dir>/log`
//! with one write, lets the lock go, syncs the log and exits. With `--sync-inside` the sync comes before the lock is
//! let go, so that the price of holding a lock across a sync can be seen.
//!
//! It reads nothing, parses nothing and decides nothing. `jit claim acquire` has to do all of that in the time that is
//! left between this program's figure and its limit.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// About the length of one record of the log with a lease in it.
const LINE: usize = 450;

fn append(dir: &Path, sync_inside: bool) -> io::Result<()> {
    let mut line = [b'.'; LINE];
    line[LINE - 1] = b'\n';

    let lock = OpenOptions::new()
        .create(true)
        .append(true)
        .open(dir.join("lock"))?;
    lock.lock()?;
    let mut log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(dir.join("log"))?;
    let written = log.write(&line)?;
    if written != LINE {
        return Err(io::Error::new(io::ErrorKind::WriteZero, "short write"));
    }
    if sync_inside {
        log.sync_data()?;
        lock.unlock()
    } else {
        lock.unlock()?;
        log.sync_data()
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let first = args.next();
    let sync_inside = first.as_deref().is_some_and(|a| a == "--sync-inside");
    let Some(dir) = (if sync_inside { args.next() } else { first }) else {
        return ExitCode::from(2);
    };
    match append(Path::new(&dir), sync_inside) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let _ = writeln!(io::stderr(), "floor: {e}");
            ExitCode::FAILURE
        }
    }
}
