//! Programs that can be started.

use std::path::Path;

/// Whether something of this name can be started: from the root, or from one of the folders of `PATH`. A name that is seen
/// from elsewhere is not looked at, and may.
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

/// Whether something of this name can be started from a folder.
pub fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
