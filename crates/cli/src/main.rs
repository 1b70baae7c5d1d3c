//! `jit`: the command line and the binary. It lets many agents work in one repository.
//!
//! This crate parses the command line, sends requests to the engine and prints the replies. The engine performs each
//! request. The core makes every decision.

#![cfg_attr(all(target_os = "linux", target_env = "gnu", not(test)), no_main)]

mod cli;
mod exit;
mod render;
#[cfg(all(target_os = "linux", target_env = "gnu", not(test)))]
mod start;
mod yaml;

#[global_allocator]
static ALLOCATOR: jit_os::memory::Allocator = jit_os::memory::Allocator;

// Entry point on other systems and in unit tests. On Linux with glibc, `start.rs` has the entry point.
#[cfg(not(all(target_os = "linux", target_env = "gnu", not(test))))]
fn main() -> std::process::ExitCode {
    cli::main(std::env::args_os().collect()).into()
}
