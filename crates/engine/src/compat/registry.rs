//! Registry files on disk: reading them for a check, and migrating them to the newest version (F8).
//!
//! What must hold: before a file is replaced, its old content is on disk as `<file>.v2.bak`. A reader sees the old
//! file or the new one. A backup is never overwritten; the next one gets a number.
//!
//! Limitations: programs of version 2.0.0 take no lock. A write of such a program between the last check and the
//! replacement is lost; an earlier write is noticed.

use std::io;
use std::path::{Path, PathBuf};

use jit_core::compat::migrate::{self, Migrated};
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::time::Wall;
use jit_os::{clock, file};
use jit_store::Outcome;

/// Maximum size of a registry that is read.
const MOST: u64 = 64 << 20;

/// The result of a migration.
#[derive(Debug)]
pub struct Report {
    pub outcome: Migrated,
    /// Path of the old content, if the file was replaced.
    pub backup: Option<PathBuf>,
}

/// Returns the time for judging registries.
pub fn now() -> Wall {
    Wall::from_ms(clock::wall_ms())
}

pub fn read(path: &Path) -> Outcome<Vec<u8>> {
    match file::read_real(path, MOST) {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err(Box::new(Refusal::new(
            Code::NotFound,
            format!("there is no file {}", path.display()),
        ))),
        Err(e) => Err(failed("read", path, &e)),
    }
}

fn failed(what: &str, path: &Path, e: &io::Error) -> Box<Refusal> {
    Box::new(Refusal::new(
        Code::Io,
        format!("cannot {what} {}: {e}", path.display()),
    ))
}

/// Migrates the file to the newest version; with `dry_run`, only reports the changes.
pub fn migrate(path: &Path, agent_types: &[String], dry_run: bool) -> Outcome<Report> {
    let old = read(path)?;
    let outcome = migrate::migrate(&old, agent_types, now()).map_err(|why| {
        Box::new(Refusal::new(
            Code::Invalid,
            format!("{} cannot be migrated: {why}", path.display()),
        ))
    })?;
    let mut backup = None;
    if let (Some(text), false) = (&outcome.text, dry_run) {
        backup = Some(keep(path, &old)?);
        if read(path)? != old {
            return Err(Box::new(
                Refusal::new(
                    Code::Busy,
                    format!(
                        "somebody else has just written {}; it was left alone",
                        path.display()
                    ),
                )
                .help("run the same command again"),
            ));
        }
        file::replace_here(path, text.as_bytes()).map_err(|e| failed("write", path, &e))?;
    }
    Ok(Report { outcome, backup })
}

/// Writes the backup under the first name that is free or already has this content.
fn keep(path: &Path, content: &[u8]) -> Outcome<PathBuf> {
    let mut number = 0u32;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(".v2.bak");
        if number > 0 {
            name.push(format!(".{number}"));
        }
        let backup = PathBuf::from(name);
        let permissions = path.symlink_metadata().ok().map(|meta| meta.permissions());
        match file::create_with(&backup, content, permissions) {
            Ok(true) => return Ok(backup),
            Ok(false) if file::read_real(&backup, MOST).is_ok_and(|old| old.as_deref() == Some(content)) => {
                return Ok(backup);
            }
            Ok(false) => number += 1,
            Err(e) => return Err(failed("write", &backup, &e)),
        }
    }
}
