//! Which functions a program enters: what `build/first-functions` makes its list of.
//!
//! `entered <program> [argument]...` runs the program with a breakpoint at the beginning of each of its functions, and
//! prints the name of each that was reached, once. What the program itself prints goes nowhere.
//!
//! The program must not be stripped (names are read with `nm`). Threads count; programs that it starts do not.
#![expect(clippy::print_stdout, reason = "the names are the point of this program")]

use std::io::{self, Write as _};
use std::process::ExitCode;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod tracer {
    use std::collections::BTreeMap;
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::os::unix::fs::FileExt as _;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    /// On x86-64 a byte that stops a program.
    const STOP: u8 = 0xcc;

    struct Function {
        name: String,
        first_byte: u8,
        entered: bool,
    }

    fn functions(program: &str) -> io::Result<BTreeMap<u64, Function>> {
        let listed = Command::new("nm").args(["--defined-only", program]).output()?;
        let mut found = BTreeMap::new();
        for line in String::from_utf8_lossy(&listed.stdout).lines() {
            let mut words = line.split(' ');
            let (Some(at), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            if let ("t" | "T" | "w" | "W" | "i", Ok(at)) = (kind, u64::from_str_radix(at, 16)) {
                let function = Function {
                    name: name.to_owned(),
                    first_byte: 0,
                    entered: false,
                };
                found.insert(at, function);
            }
        }
        match found.is_empty() {
            true => Err(io::Error::other(format!("nm finds no function in {program}"))),
            false => Ok(found),
        }
    }

    fn memory(process: i32) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(format!("/proc/{process}/mem"))
    }

    /// How far from where it was linked the program was loaded.
    fn moved(process: i32, functions: &BTreeMap<u64, Function>) -> io::Result<u64> {
        const ENTRY: u64 = 9;
        let vector = std::fs::read(format!("/proc/{process}/auxv"))?;
        let number = |bytes: &[u8]| bytes.try_into().map(u64::from_ne_bytes).unwrap_or_default();
        let entry = vector.chunks_exact(16).find(|pair| number(&pair[..8]) == ENTRY);
        let linked = functions.iter().find(|(_, function)| function.name == "_start");
        match (entry, linked) {
            (Some(pair), Some((at, _))) => Ok(number(&pair[8..]).wrapping_sub(*at)),
            _ => Err(io::Error::other("it is not known where the program begins")),
        }
    }

    #[expect(unsafe_code, reason = "tracing another process has no safe interface")]
    mod trace {
        use std::io;

        /// For the child: whoever started it traces it.
        pub fn me() -> io::Result<()> {
            // SAFETY: no memory is touched.
            checked(unsafe { libc::ptrace(libc::PTRACE_TRACEME) })
        }

        pub fn watch_children(process: i32) -> io::Result<()> {
            let options = libc::PTRACE_O_TRACECLONE
                | libc::PTRACE_O_TRACEFORK
                | libc::PTRACE_O_TRACEVFORK
                | libc::PTRACE_O_TRACEEXEC
                | libc::PTRACE_O_EXITKILL;
            // SAFETY: a stopped process of ours, and a number.
            checked(unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, process, 0, options) })
        }

        pub fn go_on(process: i32, signal: i32) {
            // SAFETY: a stopped process of ours. One that was killed meanwhile is told by the next wait.
            unsafe { libc::ptrace(libc::PTRACE_CONT, process, 0, signal) };
        }

        pub fn let_go(process: i32) {
            // SAFETY: as above.
            unsafe { libc::ptrace(libc::PTRACE_DETACH, process, 0, 0) };
        }

        /// The next of them that stopped or ended, and its status.
        pub fn wait() -> Option<(i32, i32)> {
            let mut status = 0;
            // SAFETY: a number of our own to write to.
            let process = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) };
            (process > 0).then_some((process, status))
        }

        /// Where a stopped process is; `step` may send it elsewhere.
        pub fn position(process: i32, step: impl FnOnce(u64) -> Option<u64>) -> io::Result<()> {
            let mut registers = std::mem::MaybeUninit::<libc::user_regs_struct>::uninit();
            // SAFETY: the kernel fills the structure, or says that it did not.
            let mut registers = unsafe {
                checked(libc::ptrace(
                    libc::PTRACE_GETREGS,
                    process,
                    0,
                    registers.as_mut_ptr(),
                ))?;
                registers.assume_init()
            };
            if let Some(to) = step(registers.rip) {
                registers.rip = to;
                // SAFETY: a whole structure of our own.
                checked(unsafe { libc::ptrace(libc::PTRACE_SETREGS, process, 0, &raw const registers) })?;
            }
            Ok(())
        }

        fn checked(answer: libc::c_long) -> io::Result<()> {
            match answer {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            }
        }
    }

    #[expect(unsafe_code, reason = "the child asks to be traced between fork and exec")]
    pub fn run(program: &str, args: &[String]) -> io::Result<Vec<String>> {
        let mut functions = functions(program)?;
        let mut command = Command::new(program);
        command.args(args).stdout(Stdio::null());
        // SAFETY: one system call that touches no memory.
        unsafe { command.pre_exec(trace::me) };
        let child = command.spawn()?;
        let process = i32::try_from(child.id()).map_err(io::Error::other)?;
        trace::wait();
        trace::watch_children(process)?;
        let moved = moved(process, &functions)?;
        let image = memory(process)?;
        for (at, function) in &mut functions {
            let at = at.wrapping_add(moved);
            image.read_exact_at(std::slice::from_mut(&mut function.first_byte), at)?;
            image.write_all_at(&[STOP], at)?;
        }
        trace::go_on(process, 0);
        while let Some((one, status)) = trace::wait() {
            if !libc::WIFSTOPPED(status) {
                continue;
            }
            let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
            if event == libc::PTRACE_EVENT_EXEC {
                trace::let_go(one);
                continue;
            }
            let mut signal = if event != 0 || signal == libc::SIGSTOP {
                0
            } else {
                signal
            };
            if signal == libc::SIGTRAP {
                let image = memory(one)?;
                let mut failed = Ok(());
                trace::position(one, |after| {
                    let at = after.wrapping_sub(1);
                    let function = functions.get_mut(&at.wrapping_sub(moved))?;
                    function.entered = true;
                    failed = image.write_all_at(&[function.first_byte], at);
                    signal = 0;
                    Some(at)
                })?;
                failed?;
            }
            trace::go_on(one, signal);
        }
        let entered = functions.into_values().filter(|function| function.entered);
        Ok(entered.map(|function| function.name).collect())
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod tracer {
    pub fn run(_program: &str, _args: &[String]) -> std::io::Result<Vec<String>> {
        Err(std::io::Error::other("this works on x86-64 Linux only"))
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((program, args)) = args.split_first() else {
        let _ = writeln!(io::stderr(), "usage: entered <program> [argument]...");
        return ExitCode::from(2);
    };
    match tracer::run(program, args) {
        Ok(names) => {
            for name in names {
                println!("{name}");
            }
            ExitCode::SUCCESS
        }
        Err(e) => {
            let _ = writeln!(io::stderr(), "error: {e}");
            ExitCode::FAILURE
        }
    }
}
