//! An agent that says one thing after the other: `speaker <lines> <milliseconds between two> [file]`. Into the file goes the
//! time at which it was started, in nanoseconds since 1970.

use std::io::{self, Write as _};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

fn main() -> io::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut args = std::env::args().skip(1);
    let mut number = || args.next().and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
    let (lines, pause) = (number(), Duration::from_millis(number().into()));
    if let Some(file) = args.next() {
        let written = format!("{file}.new");
        std::fs::write(&written, now.as_nanos().to_string())?;
        std::fs::rename(written, file)?;
    }
    let (mut out, begun) = (io::stdout(), Instant::now());
    for n in 1..=lines {
        // One write, as agents do.
        out.write_all(
            format!("{{\"kind\":\"tool\",\"name\":\"Edit\",\"detail\":\"src/file-{n:05}.rs\"}}\n").as_bytes(),
        )?;
        out.flush()?;
        std::thread::sleep((begun + pause * n).saturating_duration_since(Instant::now()));
    }
    Ok(())
}
