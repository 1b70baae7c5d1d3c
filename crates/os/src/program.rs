//! Finds executable programs.

use std::path::Path;

/// Whether a program can be started: an absolute path, or a name in one of the folders of `PATH`. A relative path depends
/// on the working folder, so the answer is yes without a check.
pub fn can_be_started(name: &str) -> bool {
    if name.starts_with('/') {
        return is_executable(Path::new(name));
    }
    if name.contains('/') {
        return true;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| is_executable(&folder.join(name)))
}

/// Whether `path` is a file with an executable bit.
pub fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
