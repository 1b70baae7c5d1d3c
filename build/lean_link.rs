//! Build script: release binaries that carry the C library in them instead of having it loaded each time they start.
//!
//! By default the loader finds, maps and relocates `libc.so`, `libgcc_s.so` (the unwinder, for backtraces) and `libm.so`
//! whenever a process starts: about 300 µs of the 900 µs that a hello-world program takes. A command that is started
//! thousands of times an hour should not pay that. The C compiler ships all three as archives.
//!
//! A manifest cannot ask for `crt-static` (it would have to hold for procedural macros too), and rustc names the three
//! libraries as shared ones. So their names are given a second meaning: linker scripts called `libc.so`, `libgcc_s.so` and
//! `libm.so`, in a folder that is searched first, that say which archive is meant.
//!
//! The program lies at a fixed address, as those of Go do: a position-independent one writes twelve thousand addresses into
//! itself at each start, and the kernel copies every page it touches so: a tenth of the time of a claim. Stack, heap and
//! mappings are at random addresses as always.
//!
//! Then the order. A command enters about 800 of 14,000 functions, and they lie all over the program: each first touch of
//! a part of it is a page fault, ninety of them in a claim, a third of its time. So the functions that commands of every day
//! enter come first, side by side: `first_functions.txt` has them, as patterns, and `build/first-functions` makes it again.
//! A name in it that is gone does no harm, nor does one that is missing.
//!
//! This is an economy, never a condition. It is tried out by linking and running a small program. Where that does not work
//! (no archive of the C library, as on Fedora without glibc-static; other systems; cross builds) only the unwinder is
//! linked in, and where that does not work either, the script says nothing and the ordinary link is used. Only x86-64
//! Linux with glibc has been run.
//!
//! Limitations: a program linked so cannot load the C library's plug-ins for host and user names safely. `jit` looks up
//! neither.

#![expect(
    clippy::print_stdout,
    reason = "printing is how a build script talks to cargo"
)]

use std::env::{var, var_os};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What stands for each shared library that rustc names: these archives.
const WHOLE: [(&str, &[&str]); 3] = [
    ("libc.so", &["libc.a", "libgcc_eh.a"]),
    ("libgcc_s.so", &["libgcc_eh.a", "libc.a"]),
    ("libm.so", &["libm.a"]),
];
/// The list of functions that come first, from the manifest.
const FIRST: &str = "../../build/first_functions.txt";
const UNWINDER: [(&str, &[&str]); 1] = [("libgcc_s.so", &["libgcc_eh.a"])];

fn main() {
    // Naming anything at all keeps cargo from running the script again for each changed source file.
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    println!("cargo::rerun-if-changed=Cargo.toml");
    let Some(out) = var_os("OUT_DIR").map(PathBuf::from).filter(|_| worth_trying()) else {
        return;
    };
    let linker = var_os("RUSTC_LINKER").unwrap_or_else(|| OsString::from("cc"));
    let args = arguments(&linker, &out.join("whole"), &WHOLE, &["-static", "-no-pie"])
        .or_else(|| arguments(&linker, &out.join("unwinder"), &UNWINDER, &[]))
        .unwrap_or_default();
    for arg in in_order(&linker, &out, &args).unwrap_or_default() {
        println!("cargo::rustc-link-arg-bins={arg}");
    }
    for arg in args {
        println!("cargo::rustc-link-arg-bins={arg}");
    }
}

/// What the linker is told so that the functions of every day come first, if it understands.
fn in_order(linker: &OsStr, out: &Path, args: &[String]) -> Option<Vec<String>> {
    let list = Path::new(&var_os("CARGO_MANIFEST_DIR")?).join(FIRST);
    println!("cargo::rerun-if-changed={}", list.display());
    let names = fs::read_to_string(list).ok()?;
    let sections: String = names
        .lines()
        .filter(|name| !name.is_empty())
        .map(|name| format!("    *(.text.{name})\n"))
        .collect();
    let folder = out.join("order");
    fs::create_dir_all(&folder).ok()?;
    let script = folder.join("first_functions.ld");
    let text = format!("SECTIONS {{ .text.first : {{\n{sections}}} }} INSERT BEFORE .text;\n");
    fs::write(&script, text).ok()?;
    let order = vec![format!("-Wl,-T,{}", script.to_str()?)];
    let all: Vec<String> = order.iter().chain(args).cloned().collect();
    links_and_runs(linker, &folder, &all).then_some(order)
}

fn worth_trying() -> bool {
    let is = |key: &str, value: &str| var(key).is_ok_and(|v| v == value);
    is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("PROFILE", "release")
        && var("HOST").ok() == var("TARGET").ok()
}

/// What the linker is told so that these libraries mean these archives, if that makes a program that runs.
fn arguments(
    linker: &OsStr,
    folder: &Path,
    meanings: &[(&str, &[&str])],
    more: &[&str],
) -> Option<Vec<String>> {
    fs::create_dir_all(folder).ok()?;
    for (library, archives) in meanings {
        let archives: Option<Vec<_>> = archives.iter().map(|name| archive(linker, name)).collect();
        fs::write(
            folder.join(library),
            format!("GROUP ( {} )\n", archives?.join(" ")),
        )
        .ok()?;
    }
    let mut args = vec![format!("-L{}", folder.to_str()?)];
    args.extend(more.iter().map(|&arg| arg.to_owned()));
    links_and_runs(linker, folder, &args).then_some(args)
}

/// Where the compiler has an archive, in the words of a linker script.
fn archive(linker: &OsStr, name: &str) -> Option<String> {
    let answer = Command::new(linker)
        .arg(format!("-print-file-name={name}"))
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let path = String::from_utf8(answer.stdout).ok()?;
    let path = path.trim_end();
    // A compiler that does not have the file answers with its bare name.
    (Path::new(path).is_absolute() && Path::new(path).is_file() && !path.contains('"'))
        .then(|| format!("\"{path}\""))
}

fn links_and_runs(linker: &OsStr, folder: &Path, args: &[String]) -> bool {
    let source = folder.join("trial.rs");
    let program = folder.join("trial");
    let text = "fn main() { let t = std::thread::spawn(|| std::backtrace::Backtrace::force_capture().to_string()); \
                println!(\"{:?} {}\", t.join(), 2f64.powf(std::env::args().count() as f64)); }";
    if fs::write(&source, text).is_err() {
        return false;
    }
    let mut rustc = Command::new(var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc")));
    rustc.arg("--edition=2024").arg(&source).arg("-o").arg(&program);
    let mut setting = OsString::from("linker=");
    setting.push(linker);
    rustc.arg("-C").arg(setting);
    for arg in args {
        rustc.arg("-C").arg(format!("link-arg={arg}"));
    }
    quiet(&mut rustc) && quiet(&mut Command::new(&program))
}

fn quiet(command: &mut Command) -> bool {
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}
