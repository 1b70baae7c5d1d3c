//! Build script: release binaries start faster when `libgcc_s.so` is not one of the libraries they load.
//!
//! Rust's standard library needs the unwinder for backtraces, and by default takes it from a shared library that the
//! loader must find, map and relocate each time a process starts: about 150 µs of the 900 µs that a hello-world program
//! takes. A command that is started thousands of times an hour should not pay that. The compiler ships the same unwinder
//! as an archive, `libgcc_eh.a`; given to the linker first, it leaves nothing for the shared library to provide, and
//! `--as-needed`, which rustc passes anyway, drops it.
//!
//! This is an economy, never a condition. It is tried out by linking a small program, and where that does not work
//! (other systems, cross builds, no such archive) the script says nothing and the ordinary link is used. Only x86-64
//! Linux with glibc has been run.

#![expect(
    clippy::print_stdout,
    reason = "printing is how a build script talks to cargo"
)]

use std::env::var;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const LIB: &str = "static:-bundle=gcc_eh";

fn main() {
    // Naming anything at all keeps cargo from running the script again for each changed source file.
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    println!("cargo::rerun-if-changed=Cargo.toml");
    if let Some(folder) = archive_folder() {
        println!("cargo::rustc-link-search=native={}", folder.display());
        println!("cargo::rustc-link-lib={LIB}");
    }
}

/// The folder of `libgcc_eh.a`, if this build can use it.
fn archive_folder() -> Option<PathBuf> {
    let is = |key: &str, value: &str| var(key).is_ok_and(|v| v == value);
    let here = is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("PROFILE", "release")
        && var("HOST").ok() == var("TARGET").ok();
    if !here {
        return None;
    }
    let linker = std::env::var_os("RUSTC_LINKER").unwrap_or_else(|| OsString::from("cc"));
    let answer = Command::new(&linker)
        .arg("-print-file-name=libgcc_eh.a")
        .stderr(Stdio::null())
        .output()
        .ok()?;
    // A compiler that does not have the file answers with its bare name.
    let archive = PathBuf::from(String::from_utf8(answer.stdout).ok()?.trim_end());
    let folder = archive
        .parent()
        .filter(|_| archive.is_absolute() && archive.is_file())?;
    links(&linker, folder).then(|| folder.to_owned())
}

fn links(linker: &OsString, folder: &Path) -> bool {
    let Some(out) = std::env::var_os("OUT_DIR").map(PathBuf::from) else {
        return false;
    };
    let source = out.join("trial.rs");
    let program = out.join("trial");
    if fs::write(
        &source,
        "fn main() { println!(\"{}\", std::backtrace::Backtrace::force_capture()); }",
    )
    .is_err()
    {
        return false;
    }
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc")));
    rustc.arg("--edition=2024").arg(&source).arg("-o").arg(&program);
    rustc.arg("-C").arg({
        let mut setting = OsString::from("linker=");
        setting.push(linker);
        setting
    });
    rustc.arg("-l").arg(LIB).arg("-L").arg({
        let mut search = OsString::from("native=");
        search.push(folder);
        search
    });
    quiet(&mut rustc) && quiet(&mut Command::new(&program))
}

fn quiet(command: &mut Command) -> bool {
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}
