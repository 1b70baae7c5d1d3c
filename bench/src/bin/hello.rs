//! The smallest Rust program that says something: the yardstick for how fast `jit --version` starts.

use std::io::Write;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(b"hello\n")
}
