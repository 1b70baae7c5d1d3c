//! `jit`: many agents, one repository. The face of the program; what it does is in the engine, what it decides in core.

#![cfg_attr(all(target_os = "linux", target_env = "gnu", not(test)), no_main)]

mod cli;
mod exit;
mod render;
#[cfg(all(target_os = "linux", target_env = "gnu", not(test)))]
mod start;
mod yaml;

#[global_allocator]
static ALLOCATOR: jit_os::memory::Allocator = jit_os::memory::Allocator;

// Elsewhere, and in unit tests, the ordinary way in.
#[cfg(not(all(target_os = "linux", target_env = "gnu", not(test))))]
fn main() -> std::process::ExitCode {
    cli::main(std::env::args_os().collect()).into()
}
