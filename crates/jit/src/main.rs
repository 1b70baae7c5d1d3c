//! `jit`: many agents, one repository. The face of the program; what it does is in the engine, what it decides in core.

mod cli;
mod exit;
mod render;
mod yaml;

fn main() -> std::process::ExitCode {
    cli::main(std::env::args_os().collect())
}
