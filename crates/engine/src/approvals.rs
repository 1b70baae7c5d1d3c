//! Approvals of commands (A8).
//!
//! A command that comes with a repository runs only after this user approved its exact text on this machine.
//! Approvals are in `$XDG_DATA_HOME/jit/trust.jsonl`, or else in `~/.local/share/jit/trust.jsonl`. The file has one
//! JSON object a line: approvals and revocations in order. A name may have several approved texts, because branches
//! differ.
//!
//! What must hold:
//!
//! - An approval is for one repository, one kind, one name and one text. Any other text is not trusted.
//! - The file and its folder belong to the user, are private, and are no symbolic links. Otherwise no command is
//!   trusted and nothing is written.
//! - A line counts only if it is complete. It is added with one write under a kernel lock on the file, which is never
//!   deleted. An incomplete last line is cut before the next one is added.
//! - A damaged line makes every check fail, because it may have been a revocation.
//!
//! Limitations: a repository is identified by its path. The text of a command is approved, not the files that it
//! runs.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use jit_core::model::refusal::{Code, Details, Refusal};
use jit_core::model::time::Wall;
use jit_os::io_refusal;
use jit_store::Outcome;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::api::trust::{Kind, Need, set_apart};
use crate::context::Context;
use crate::identity::data_folder;

/// Maximum length in bytes of a text that can be approved.
pub const MAX_TEXT: usize = 64 << 10;
const MAX_FILE: u64 = 32 << 20;

/// The way of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    #[serde(rename = "jit trust")]
    Asked,
    /// The user defined the command on this machine.
    #[serde(rename = "defined here")]
    DefinedHere,
}

/// An approved text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The git folder that all worktrees share; without git, the control folder.
    pub repository: String,
    pub kind: Kind,
    pub name: String,
    pub sha256: String,
    pub text: String,
    pub approved_at: Wall,
    pub how: How,
}

/// A line of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
enum Line {
    Approve(Approval),
    Revoke {
        repository: String,
        kind: Kind,
        name: String,
        /// Absent means every text of that name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha256: Option<String>,
        revoked_at: Wall,
    },
}

/// The commands that this user approved on this machine.
#[derive(Debug)]
pub struct Trust {
    path: PathBuf,
    approvals: Vec<Approval>,
}

impl Trust {
    /// Reads the approvals from the folder that the environment names. Creates nothing.
    pub fn open(var: impl Fn(&str) -> Option<OsString>) -> Outcome<Self> {
        let Some(folder) = data_folder(var) else {
            let message = "cannot find out which commands are trusted: neither XDG_DATA_HOME nor HOME is set to an \
                           absolute path";
            return Err(Box::new(
                Refusal::new(Code::Config, message).help("set HOME, then run the command again"),
            ));
        };
        let mut trust = Self {
            path: folder.join("trust.jsonl"),
            approvals: Vec::new(),
        };
        trust.reload()?;
        Ok(trust)
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the user approved exactly this text.
    pub fn is_trusted(&self, repository: &Path, kind: Kind, name: &str, text: &str) -> bool {
        let (repository, sha256) = (repository_name(repository), sha256(text));
        self.approvals.iter().any(|one| {
            one.repository == repository && one.kind == kind && one.name == name && one.sha256 == sha256
        })
    }

    /// Refuses with the text in the message, unless the user approved it.
    pub fn require(&self, repository: &Path, kind: Kind, name: &str, text: &str) -> Outcome<()> {
        if self.is_trusted(repository, kind, name, text) {
            return Ok(());
        }
        Err(Box::new(not_trusted(kind, name, text)))
    }

    /// Records that the user approved this text. A second approval writes nothing.
    pub fn approve(
        &mut self,
        repository: &Path,
        kind: Kind,
        name: &str,
        text: &str,
        how: How,
        now: Wall,
    ) -> Outcome<()> {
        if text.len() > MAX_TEXT {
            let message = format!(
                "the command of {} {name} is longer than {MAX_TEXT} bytes",
                kind.as_str()
            );
            return Err(Box::new(Refusal::new(Code::Invalid, message)));
        }
        let approval = Approval {
            repository: repository_name(repository),
            kind,
            name: name.to_owned(),
            sha256: sha256(text),
            text: text.to_owned(),
            approved_at: now,
            how,
        };
        self.change(|trust| {
            let is_there = trust.is_trusted(repository, kind, name, text);
            (!is_there).then_some(Line::Approve(approval))
        })?;
        Ok(())
    }

    /// Revokes the approval of this text, or of every text of that name. Returns how many there were.
    pub fn revoke(
        &mut self,
        repository: &Path,
        kind: Kind,
        name: &str,
        text: Option<&str>,
        now: Wall,
    ) -> Outcome<usize> {
        let line = Line::Revoke {
            repository: repository_name(repository),
            kind,
            name: name.to_owned(),
            sha256: text.map(sha256),
            revoked_at: now,
        };
        let mut count = 0;
        self.change(|trust| {
            let mut left = trust.approvals.clone();
            fold(&mut left, line.clone());
            count = trust.approvals.len() - left.len();
            (count > 0).then_some(line)
        })?;
        Ok(count)
    }

    /// Returns the approvals for a repository, in the order of approval.
    pub fn list(&self, repository: &Path) -> impl Iterator<Item = &Approval> {
        let repository = repository_name(repository);
        self.approvals
            .iter()
            .filter(move |one| one.repository == repository)
    }

    fn reload(&mut self) -> Outcome<()> {
        let opened = self.checked_folder().and_then(|()| open(&self.path, false));
        let mut file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.approvals.clear();
                return Ok(());
            }
            Err(error) => return Err(io_refusal("read", &self.path, &error)),
        };
        self.fold_file(&mut file)?;
        Ok(())
    }

    /// Reads the file again. Returns the end of its last complete line.
    fn fold_file(&mut self, file: &mut File) -> Outcome<u64> {
        let mut bytes = Vec::new();
        let read = file
            .seek(SeekFrom::Start(0))
            .and_then(|_| file.take(MAX_FILE + 1).read_to_end(&mut bytes));
        read.map_err(|error| io_refusal("read", &self.path, &error))?;
        if u64::try_from(bytes.len()).is_ok_and(|len| len > MAX_FILE) {
            let message = format!("{} is larger than {MAX_FILE} bytes", self.path.display());
            return Err(Box::new(
                Refusal::new(Code::Damaged, message).help(start_again(&self.path)),
            ));
        }
        let end = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let mut approvals = Vec::new();
        let lines = bytes
            .get(..end)
            .unwrap_or_default()
            .split_inclusive(|b| *b == b'\n');
        for (index, line) in lines.enumerate() {
            let line = parse(line).map_err(|why| {
                let message = format!("{}, line {}: {why}", self.path.display(), index + 1);
                Box::new(Refusal::new(Code::Damaged, message).help(start_again(&self.path)))
            })?;
            fold(&mut approvals, line);
        }
        self.approvals = approvals;
        Ok(u64::try_from(end).unwrap_or(u64::MAX))
    }

    /// Adds a line that is decided from the content of the file, under its lock.
    fn change(&mut self, line: impl FnOnce(&Self) -> Option<Line>) -> Outcome<()> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error: io::Error| io_refusal("write", &path, &error)
        };
        self.make_folder().map_err(failed(&self.path))?;
        let mut file = open(&self.path, true).map_err(failed(&self.path))?;
        file.lock().map_err(failed(&self.path))?;
        let end = self.fold_file(&mut file)?;
        let Some(line) = line(self) else {
            return Ok(());
        };
        let mut bytes = serde_json::to_vec(&line).map_err(|error| failed(&self.path)(error.into()))?;
        bytes.push(b'\n');
        let write = |file: &mut File| {
            file.set_len(end)?;
            file.seek(SeekFrom::Start(end))?;
            file.write_all(&bytes)?;
            file.sync_all()
        };
        write(&mut file).map_err(failed(&self.path))?;
        fold(&mut self.approvals, line);
        Ok(())
    }

    fn make_folder(&self) -> io::Result<()> {
        let folder = self.folder();
        if let Some(above) = folder.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(above)?;
        }
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => self.checked_folder(),
        }
    }

    fn checked_folder(&self) -> io::Result<()> {
        let meta = fs::symlink_metadata(self.folder())?;
        if !meta.is_dir() {
            return Err(io::Error::other("its folder is a symbolic link or a file"));
        }
        check_owner(&meta, "its folder")
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }
}

fn open(path: &Path, writable: bool) -> io::Result<File> {
    // Opening must not block on a pipe without a writer.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let file = OpenOptions::new()
        .read(true)
        .write(writable)
        .create(writable)
        .mode(0o600)
        .custom_flags(i32::try_from(flags).map_err(io::Error::other)?)
        .open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    check_owner(&meta, "it")?;
    Ok(file)
}

/// Refuses a file or folder that other users own or can write.
fn check_owner(meta: &fs::Metadata, what: &str) -> io::Result<()> {
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other(format!("{what} belongs to another user")));
    }
    if meta.mode() & 0o022 != 0 {
        return Err(io::Error::other(format!(
            "{what} can be written by others (chmod go-w)"
        )));
    }
    Ok(())
}

fn parse(line: &[u8]) -> Result<Line, String> {
    let line: Line = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    match &line {
        Line::Approve(approval) if approval.sha256 != sha256(&approval.text) => {
            Err("the text is not the one that was approved".to_owned())
        }
        _ => Ok(line),
    }
}

fn fold(approvals: &mut Vec<Approval>, line: Line) {
    match line {
        Line::Approve(approval) => approvals.push(approval),
        Line::Revoke {
            repository,
            kind,
            name,
            sha256,
            ..
        } => approvals.retain(|one| {
            one.repository != repository
                || one.kind != kind
                || one.name != name
                || sha256.as_ref().is_some_and(|sha256| one.sha256 != *sha256)
        }),
    }
}

fn start_again(path: &Path) -> String {
    format!("rm {:?}, then approve again: jit trust", path)
}

/// Returns a unique name of a path. A path that is not UTF-8 is written in hex, with a prefix that no path begins
/// with.
fn repository_name(path: &Path) -> String {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    match path.to_str() {
        Some(text) => text.to_owned(),
        None => format!("bytes:{}", hex(path.as_os_str().as_bytes())),
    }
}

fn sha256(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the refusal for an untrusted command. It shows the whole text, because a user must see what they approve.
pub fn not_trusted(kind: Kind, name: &str, text: &str) -> Refusal {
    let message = format!(
        "{} {name} comes with the repository, and you have not approved its command on this machine:{}",
        kind.as_str(),
        set_apart(text)
    );
    Refusal::new(Code::NotTrusted, message)
        .help("jit trust")
        .details(Details::Facts(vec![
            ("kind", kind.as_str().to_owned()),
            ("name", name.to_owned()),
            ("command", text.to_owned()),
            ("sha256", sha256(text)),
        ]))
}

/// Returns the refusal for several untrusted commands. It shows the whole text of each.
pub fn none_trusted(needs: &[Need]) -> Refusal {
    let mut message = "you have not approved these commands on this machine:".to_owned();
    for need in needs {
        let line = format!(
            "\n  {} {}:{}",
            need.kind.as_str(),
            need.name,
            set_apart(&need.text)
        );
        message.push_str(&line);
    }
    let names = needs.iter().map(|need| need.name.clone()).collect();
    Refusal::new(Code::NotTrusted, message).details(Details::Candidates(names))
}

/// Returns the folder that identifies the repository in approvals: the one that all worktrees share.
pub(crate) fn repository(cx: &Context) -> PathBuf {
    let shared = cx.place.common_dir.as_ref();
    shared.unwrap_or(&cx.place.control_dir).clone()
}

pub(crate) fn approvals() -> Outcome<Trust> {
    Trust::open(|name| std::env::var_os(name))
}

/// Whether the caller may approve commands.
pub(crate) fn may_trust(cx: &Context) -> bool {
    let own_file = cx.place.local_jit.as_ref().map(|jit| jit.join("config.toml"));
    crate::context::calling_agent::asking_agent(cx).is_none() || cx.config.may_trust(own_file.as_deref())
}

/// Refuses if the caller may neither approve commands nor revoke approvals.
pub fn require_may_trust(cx: &Context) -> Outcome<()> {
    let agent = match crate::context::calling_agent::asking_agent(cx) {
        Some(agent) if !may_trust(cx) => agent,
        _ => return Ok(()),
    };
    let message =
        format!("{agent} is an agent, and agents may neither approve commands here nor revoke approvals");
    Err(Box::new(
        Refusal::new(Code::NotAllowed, message).help("ask a person to run: jit trust"),
    ))
}

pub(crate) fn approve(cx: &Context, kind: Kind, name: &str, text: &str, how: How) -> Outcome<()> {
    let now = cx.clock.wall();
    approvals()?.approve(&repository(cx), kind, name, text, how, now)
}
