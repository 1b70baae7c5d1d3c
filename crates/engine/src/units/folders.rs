//! The parent folders of worktrees (G2). A folder that jit created is removed together with the last worktree in it.
//!
//! What must hold:
//!
//! - Only folders that jit created are removed, and only by `rmdir`, so only if they are empty.
//! - No folder is removed while a worktree is being created. A creator holds a kernel lock shared; a remover holds it
//!   exclusively, or removes nothing.
//!
//! Format: `<control>/folders/<digest of the path>` contains the path. The kernel lock is on `<control>/folders`. If
//! these files are lost, the folders stay.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use jit_os::file;
use rustix::fs::Access;
use sha2::{Digest as _, Sha256};

/// The folder with the records.
pub const FOLDERS: &str = "folders";

fn note(control: &Path, folder: &Path) -> PathBuf {
    let hash = Sha256::digest(folder.as_os_str().as_bytes());
    let name: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    control.join(FOLDERS).join(name)
}

/// Creates a folder if needed. It is not removed while the returned file is held.
pub fn make(control: &Path, folder: &Path) -> io::Result<File> {
    let notes = control.join(FOLDERS);
    file::make_dir_like_parent(&notes)?;
    let turn = File::open(&notes)?;
    turn.lock_shared()?;
    let missing: Vec<&Path> = folder
        .ancestors()
        .take_while(|folder| folder.symlink_metadata().is_err())
        .collect();
    for one in &missing {
        file::replace_unsynced(&note(control, one), one.as_os_str().as_bytes())?;
    }
    let made = fs::create_dir_all(folder);
    if made.is_err() {
        for one in missing.iter().filter(|one| !one.exists()) {
            let _ = fs::remove_file(note(control, one));
        }
    }
    made?;
    // Without this, git would fail there only after it has begun.
    rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK)?;
    Ok(turn)
}

/// Removes the folder of a removed worktree if it is empty, and the parent folders that were created for it.
pub fn leave(control: &Path, folder: &Path) {
    let Ok(turn) = File::open(control.join(FOLDERS)) else {
        return;
    };
    // Another process creates a worktree (the folder stays) or leaves one (that process removes the folder).
    if turn.try_lock().is_err() {
        return;
    }
    for one in folder.ancestors() {
        let note = note(control, one);
        let gone = |e: io::Error| e.kind() == io::ErrorKind::NotFound;
        if !note.is_file() || !fs::remove_dir(one).map_or_else(gone, |()| true) {
            return;
        }
        let _ = fs::remove_file(&note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g2_a_folder_goes_with_the_last_worktree_if_it_was_made_for_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let control = dir.path().join("control");
        let own = dir.path().join("own");
        for folder in [&control, &own] {
            fs::create_dir(folder).expect("a folder");
        }
        let inner = own.join("a/b");
        let turn = make(&control, &inner).expect("made");
        leave(&control, &inner);
        assert!(inner.is_dir(), "somebody is at it");
        drop(turn);
        fs::write(inner.join("file"), "").expect("a file");
        leave(&control, &inner);
        assert!(inner.is_dir(), "something is in it");
        fs::remove_file(inner.join("file")).expect("removed");
        leave(&control, &inner);
        assert!(!own.join("a").exists());
        assert!(own.is_dir(), "somebody else made it");
        assert_eq!(fs::read_dir(control.join(FOLDERS)).expect("notes").count(), 0);
        // A folder that another program created stays, even under the same name.
        fs::create_dir_all(&inner).expect("a folder");
        drop(make(&control, &inner).expect("it is there"));
        leave(&control, &inner);
        assert!(inner.is_dir());
    }
}
