//! A control plane for one answer.
//!
//! Where `.jit/` came with a clone, or stayed after `jit uninstall`, there is no control plane. A command that only shows
//! something makes none: it is answered out of one that is made beside, from the tree, and is gone with the answer. What
//! must hold: nothing is written into the repository, its git directory or its configuration.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::os::random;

#[derive(Debug)]
pub(super) struct Aside(PathBuf);

impl Aside {
    /// A folder of our own that nobody else can enter.
    pub(super) fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("jit-{:032x}", random::u128()?));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // What is left of it is in the way of nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}
