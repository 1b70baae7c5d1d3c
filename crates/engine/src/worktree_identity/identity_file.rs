//! The file with the identity of a worktree, byte for byte.
//!
//! Format: JSON with `schema_version` 1, `worktree_id`, `branch` (checked out when the file was written, or null),
//! `root` and `created_at`. `relocated_at` is set once the worktree was moved. `root_bytes` (hex) is set if the root
//! is not UTF-8; then `root` is only for people.
//!
//! What must hold: every identity that is read has passed all checks, and a root is read back with the same bytes.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jit_core::model::ids::WorktreeId;
use serde::{Deserialize, Serialize};

pub(super) const SCHEMA: u32 = 1;
/// The largest file that is read.
const LARGEST: u64 = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error(
        "there is no worktree here: this is a bare repository or the inside of a git folder; go to a worktree"
    )]
    NoWorktree,
    #[error("cannot read {file:?}: {source}")]
    Read { file: PathBuf, source: io::Error },
    #[error("cannot write {file:?}: {source}")]
    Write { file: PathBuf, source: io::Error },
    #[error("{file:?} was written by a newer jit (schema {version}) and cannot be understood: update jit")]
    Newer { file: PathBuf, version: u32 },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorktreeIdentity {
    pub schema_version: u32,
    pub worktree_id: WorktreeId,
    /// The branch when this was written; `Place::branch` returns the present one.
    pub branch: Option<String>,
    pub root: PathBuf,
    pub created_at: Timestamp,
    pub relocated_at: Option<Timestamp>,
}

/// The JSON object in the file.
#[derive(Serialize, Deserialize)]
struct Wire {
    schema_version: u32,
    worktree_id: WorktreeId,
    branch: Option<String>,
    root: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    root_bytes: Option<String>,
    created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    relocated_at: Option<String>,
}

pub(super) enum Stored {
    Missing,
    Damaged(String),
    Good(WorktreeIdentity),
}

impl WorktreeIdentity {
    pub(super) fn to_json(&self) -> Vec<u8> {
        let bytes = self.root.as_os_str().as_bytes();
        let hex = || bytes.iter().map(|b| format!("{b:02x}")).collect();
        let wire = Wire {
            schema_version: self.schema_version,
            worktree_id: self.worktree_id.clone(),
            branch: self.branch.clone(),
            root: self.root.to_string_lossy().into_owned(),
            root_bytes: self.root.to_str().is_none().then(hex),
            created_at: self.created_at.to_string(),
            relocated_at: self.relocated_at.map(|at| at.to_string()),
        };
        let mut json = serde_json::to_vec_pretty(&wire).unwrap_or_default();
        json.push(b'\n');
        json
    }

    fn from_json(bytes: &[u8]) -> Result<Self, String> {
        let wire: Wire = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let time = |text: &str| text.parse::<Timestamp>().map_err(|error| error.to_string());
        let root = match &wire.root_bytes {
            None => PathBuf::from(wire.root),
            Some(hex) => PathBuf::from(OsString::from_vec(unhex(hex).ok_or("root_bytes is not hex")?)),
        };
        if !root.is_absolute() {
            return Err("the root is not an absolute path".to_owned());
        }
        Ok(Self {
            schema_version: wire.schema_version,
            worktree_id: wire.worktree_id,
            branch: wire.branch,
            root,
            created_at: time(&wire.created_at)?,
            relocated_at: wire.relocated_at.as_deref().map(time).transpose()?,
        })
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect()
}

pub(super) fn load(path: &Path) -> Result<Stored, IdentityError> {
    let bytes = match jit_os::file::read_real(path, LARGEST) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(Stored::Missing),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(Stored::Missing),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::FileTooLarge
            ) =>
        {
            return Ok(Stored::Damaged(error.to_string()));
        }
        Err(source) => {
            let file = path.to_owned();
            return Err(IdentityError::Read { file, source });
        }
    };
    match WorktreeIdentity::from_json(&bytes) {
        Ok(identity) => Ok(Stored::Good(identity)),
        Err(why) => {
            #[derive(Deserialize)]
            struct Version {
                schema_version: u32,
            }
            match serde_json::from_slice::<Version>(&bytes) {
                Ok(Version { schema_version }) if schema_version > SCHEMA => Err(IdentityError::Newer {
                    file: path.to_owned(),
                    version: schema_version,
                }),
                _ => Ok(Stored::Damaged(why)),
            }
        }
    }
}
