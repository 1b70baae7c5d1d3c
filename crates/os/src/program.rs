//! Finds executable programs.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Whether a program can be started: an absolute path, or a name in one of the folders of `PATH`. A relative path depends
/// on the working folder: without one, the answer is yes without a check.
pub fn can_be_started(name: &str, folder: Option<&Path>) -> bool {
    let is_one = |path: &Path| is_executable(path) && has_interpreter(path);
    if name.starts_with('/') {
        return is_one(Path::new(name));
    }
    if name.contains('/') {
        return folder.is_none_or(|folder| is_one(&folder.join(name)));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| is_one(&folder.join(name)))
}

/// Whether the program that a `#!` line names exists. True without such a line, and where the file cannot be read.
fn has_interpreter(path: &Path) -> bool {
    use std::io::Read as _;
    let mut begin = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(256).read_to_end(&mut begin));
    let line = begin.split(|b| *b == b'\n').next().unwrap_or_default();
    let Some(line) = line.strip_prefix(b"#!").filter(|_| read.is_ok()) else {
        return true;
    };
    let mut words = line
        .split(|b| b.is_ascii_whitespace())
        .filter(|word| !word.is_empty());
    let named = words.next().map(|word| Path::new(OsStr::from_bytes(word)));
    // A longer one is cut off.
    begin.len() == 256 && words.next().is_none()
        || named.is_none_or(|path| path.is_relative() || is_executable(path))
}

/// Whether `path` is a file with an executable bit.
pub fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g1_a_script_whose_interpreter_is_missing_cannot_be_started() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, content: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).expect("a file");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
        };
        write("good", "#!/bin/sh -e\ntrue\n");
        write("bad", "#! /no/interp\ntrue\n");
        write("plain", "true\n");
        let starts = |name: &str| can_be_started(name, Some(folder.path()));
        assert!(starts("./good") && starts("./plain"));
        assert!(!starts("./bad") && !starts("./missing"));
        assert!(can_be_started("./bad", None), "the folder is not known");
        let absolute = folder.path().join("bad");
        assert!(!can_be_started(absolute.to_str().expect("text"), None));
    }
}
