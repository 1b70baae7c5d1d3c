//! `jit init`: creates everything that a repository needs, reports each step, and leaves existing files alone.
//!
//! What must hold:
//! - Nothing is written through a symbolic link that a clone may have brought: `.jit`, and what lies in it.
//! - Without git it means the folder it runs in, even if a folder above has a `.jit/`.

mod agent_entries;
mod mcp_server;
mod uninstall;
mod worktrees;

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jit_core::model::actor::Actor;
use jit_core::model::issue::text_digest;
use jit_core::model::refusal::{Code, Refusal};
use jit_git::branches::{Because, default_branch};
use jit_git::version::{self, GitVersion};
use jit_git::{Git, Place};
use jit_os::clock::SystemClock;
use jit_os::shell::shell_word;
use jit_os::{file, io_refusal};
use jit_store::{OpenOptions, Outcome};

use crate::api::Answer;
use crate::api::Options;
use crate::api::gates::{Gate, GateName};
use crate::api::init::{SetUp, SetUpReport};
use crate::api::setup::{
    BoundAgent, Caller, ControlFolder, GatePreset, GatePresets, PresetGate, SetupReply, SetupRequest,
};
use crate::compat::changelog::DAMAGED;
use crate::compat::lock_file_format;
use crate::context::{Surroundings, control_mode, ensure_control_dir};
use crate::file_locks::service::LOCKS;
use crate::gates::presets;
use crate::git_programs::{DRIVER_COMMAND, FORMER_COMMAND};
use crate::hooks::git::rewritten::REWRITTEN;
use crate::identity::Source;
use crate::refusals::refuse;
use crate::sessions::SESSIONS;

use crate::units::folders::FOLDERS;
use crate::worktree_identity::ensure_excluded;
use crate::worktree_identity::exclude::UNFINISHED_PATTERN;
use crate::worktree_identity::identity;
use crate::worktree_identity::identity::{Need, VIEW_PATTERN};

pub(crate) const CONFIG: &str = "\
# Settings of jit for this repository. Every key with its default: jit config show --origin

[worktree]
# mode = \"auto\"              # auto | on | off
# enforce_leases = \"strict\"  # strict | strict-explicit | warn | off

[coordination]
# default_ttl_secs = 600
# heartbeat_interval_secs = 30
# lease_renewal_threshold_pct = 10

[global_operations]
# require_main_history = true
# allowed_branches = []      # none: the default branch

[hooks]
# pre_push = \"report\"        # report | strict | off: commits whose lease has ended
";

pub(crate) const ATTRIBUTES: &str = "\
# Kept by jit: logs and sets keep the lines of both sides, issues are merged field by field, gates and results gate by gate.
*.jsonl merge=union text eol=lf
*.md text eol=lf
issue.json merge=jit-issue text eol=lf
gates/registry.json merge=jit-issue text eol=lf
gates/results/*.json merge=jit-issue text eol=lf
";

/// Earlier versions: before gates were merged, and before their results were.
pub(crate) const FORMER_ATTRIBUTES: &[&str] = &[
    "\
# Kept by jit: logs and sets keep the lines of both sides, issues are merged field by field, results gate by gate.
*.jsonl merge=union text eol=lf
*.md text eol=lf
issue.json merge=jit-issue text eol=lf
gates/results/*.json merge=jit-issue text eol=lf
",
    "\
# Kept by jit: logs and sets keep the lines of both sides, issues are merged field by field.
*.jsonl merge=union text eol=lf
*.md text eol=lf
issue.json merge=jit-issue text eol=lf
",
];

/// The name of the merge driver in git's configuration.
pub const MERGE_DRIVER: &str = "jit-issue";
pub(crate) const DRIVER_NAME: &str = "jit: issues, field by field";

/// The steps that were done, each in a few words, and warnings.
#[derive(Debug, Default)]
pub struct Done {
    /// There was no log before: everything in the tree is new to it.
    pub log_is_new: bool,
    pub steps: Vec<String>,
    pub warnings: Vec<String>,
}

/// Creates a file unless the name exists.
fn ensure_file(path: &Path, content: &str, done: &mut Done) -> Outcome<()> {
    let made = path
        .parent()
        .map_or(Ok(None), |folder| file::lock_folder(folder).map(Some));
    match made.and_then(|_lock| file::create(path, content.as_bytes())) {
        Ok(true) => {
            done.steps.push(format!("wrote {}", path.display()));
            Ok(())
        }
        Ok(false) => file::refuse_link(path).map_err(|e| io_refusal("write", path, &e)),
        Err(e) => Err(io_refusal("write", path, &e)),
    }
}

fn ensure_dir(path: &Path, done: &mut Done) -> Outcome<()> {
    match fs::create_dir(path) {
        Ok(()) => {
            done.steps.push(format!("made {}", path.display()));
            Ok(())
        }
        // A link may have come with a clone.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            file::ensure_real_dir(path).map_err(|e| io_refusal("create", path, &e))
        }
        Err(e) => Err(io_refusal("create", path, &e)),
    }
}

/// Sets the repository up. Running it again changes nothing and reports that.
pub fn init(found: &Surroundings, lock_timeout: Option<Duration>) -> Outcome<Done> {
    let place = &found.place;
    let mut done = Done::default();
    done.warnings.extend(found.whoami.warnings.iter().cloned());
    require_ours(place)?;
    if ensure_control_dir(place)? {
        done.steps.push(format!("made {}", place.control_dir.display()));
    } else if align_permissions(place)
        .map_err(|e| io_refusal("set permissions of", &place.control_dir, &e))?
    {
        done.steps
            .push(format!("set the permissions of {}", place.control_dir.display()));
    }
    let mut worktree_id = None;
    if let Some(local) = &place.local_jit {
        ensure_dir(local, &mut done)?;
        if let Some(common) = &place.common_dir
            && ensure_excluded(common, &[VIEW_PATTERN, UNFINISHED_PATTERN])
                .map_err(|e| io_refusal("write", common, &e))?
        {
            done.steps.push(format!(
                "excluded {VIEW_PATTERN} in {}",
                common.join("info/exclude").display()
            ));
        }
        let (identity, notices) = identity::load_or_create(place, jiff::Timestamp::now(), Need::Write)
            .map_err(|e| Box::new(Refusal::new(Code::Io, e.to_string())))?;
        done.warnings.extend(notices.iter().map(ToString::to_string));
        identity::ensure_view(place, &identity).map_err(|e| io_refusal("write", local, &e))?;
        worktree_id = Some(identity.worktree_id);
        ensure_file(&local.join("config.toml"), CONFIG, &mut done)?;
        if place.has_git() {
            let path = local.join(".gitattributes");
            ensure_file(&path, ATTRIBUTES, &mut done)?;
            // The file is unchanged since an earlier version wrote it.
            let found = file::read_real(&path, 1 << 16).unwrap_or_default();
            if found.is_some_and(|found| FORMER_ATTRIBUTES.iter().any(|former| found == former.as_bytes())) {
                file::replace_here(&path, ATTRIBUTES.as_bytes())
                    .map_err(|e| io_refusal("write", &path, &e))?;
                done.steps.push(format!("wrote {}", path.display()));
            }
        }
        ensure_dir(&local.join("issues"), &mut done)?;
        ensure_dir(&local.join("gates"), &mut done)?;
    }
    let wait = lock_timeout.unwrap_or(Duration::from_secs(found.config.lock_timeout_secs()));
    let options = OpenOptions {
        lock_wait: wait,
        single_threaded: false,
    };
    let store = jit_store::open(&place.control_dir, Arc::new(SystemClock::default()), options)
        .map_err(|e| io_refusal("open", &place.control_dir, &e))?;
    let actor = Actor {
        agent_id: found.whoami.agent_id.clone(),
        worktree_id,
    };
    if store.create(&actor)? {
        done.log_is_new = true;
        done.steps.push(format!(
            "began the log in {}",
            place.control_dir.join("events").display()
        ));
    }
    lock_file_format::make_folder(&place.control_dir, done.log_is_new)?;
    if let Some(common) = &place.common_dir {
        done.warnings.extend(too_old(common));
        // Git refuses to change its configuration while another process does: one at a time.
        let _turn =
            file::lock_folder(&place.control_dir).map_err(|e| io_refusal("lock", &place.control_dir, &e))?;
        // A failure costs a newline.
        let _ = note_unended(place, common);
        ensure_merge_driver(common, &mut done)?;
        note_default_branch(place, common, &mut done)?;
    }
    Ok(done)
}

/// A warning if the installed git is too old to land units.
fn too_old(common: &Path) -> Option<String> {
    let git = GitVersion::installed(common)?;
    (!git.is_supported()).then(|| {
        format!(
            "{} is too old: units cannot be landed with it; install git {} or newer",
            git.text,
            version::oldest()
        )
    })
}

/// All names that jit itself creates in the control plane, as ARCHITECTURE.md lists them.
const OURS: &[&str] = &[
    "activities",
    "answers",
    LOCKS,
    SESSIONS,
    "bound",
    DAMAGED,
    "changelog.log",
    "claims.index.json",
    "claims.jsonl",
    "events",
    FOLDERS,
    "gates",
    UNENDED,
    "heartbeat",
    "issues",
    "landing",
    "locks",
    "notes",
    REWRITTEN,
    "scratch",
    "state",
    "trash",
    "units",
    "waiting",
    "workflows",
];

/// Returns whether jit itself creates this name in the control plane.
pub(crate) fn is_ours(name: &str) -> bool {
    // A file that is being written, or whose writer was killed.
    let whole = name.strip_suffix(".tmp").and_then(|name| name.rsplit_once('.'));
    let name = whole.map_or(name, |(name, _)| name);
    OURS.contains(&name) || name.starts_with("claims.") || name.starts_with("backup-")
}

/// Gives the control plane the permissions that git's configuration asks for, if it has others. Returns whether it
/// did. Changes only files that jit created.
fn align_permissions(place: &Place) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt as _;
    fn align(path: &Path, mode: u32) -> io::Result<()> {
        let meta = path.symlink_metadata()?;
        let wanted = match (meta.is_dir(), meta.is_file()) {
            (true, _) => mode,
            (_, true) => mode & 0o666,
            _ => return Ok(()),
        };
        if meta.is_dir() {
            for entry in fs::read_dir(path)? {
                align(&entry?.path(), mode)?;
            }
        }
        // Setting the same permissions again would look like an edit to a watcher of the file.
        if meta.permissions().mode() & 0o7777 != wanted {
            fs::set_permissions(path, fs::Permissions::from_mode(wanted))?;
        }
        Ok(())
    }
    let (dir, mode) = (&place.control_dir, control_mode(&place.shared));
    let meta = dir.symlink_metadata()?;
    // Without git the control plane is .jit itself, which holds the versioned files too.
    if !meta.is_dir() || !place.has_git() || meta.permissions().mode() & 0o7777 == mode {
        return Ok(false);
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(is_ours) {
            align(&entry.path(), mode)?;
        }
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(mode))?;
    Ok(true)
}

/// Refuses a JIT_DIR folder that is neither jit's own nor empty: it gets jit's permissions and jit's files.
fn require_ours(place: &Place) -> Outcome<()> {
    let dir = &place.control_dir;
    let foreign = || -> io::Result<Option<std::ffi::OsString>> {
        if !place.has_git() || dir.join("events").is_dir() {
            return Ok(None);
        }
        for entry in fs::read_dir(dir)? {
            let name = entry?.file_name();
            if !name.to_str().is_some_and(is_ours) {
                return Ok(Some(name));
            }
        }
        Ok(None)
    };
    match foreign() {
        Ok(None) => Ok(()),
        Ok(Some(name)) => Err(Box::new(
            Refusal::new(
                Code::Invalid,
                format!("{} is not jit's: it holds {name:?}", dir.display()),
            )
            .help("point JIT_DIR at a folder of its own, or unset it"),
        )),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(()),
        Err(e) => Err(io_refusal("read", dir, &e)),
    }
}

/// The beginning of the merge driver's command: the folder in which `jit init` found this program. An editor that starts
/// git often has a shorter PATH than a shell.
const DRIVER_PATH: &str = "PATH=$PATH:";

/// Returns the command of the merge driver, with the folder of this program.
fn driver_command() -> String {
    let own = std::env::current_exe().ok();
    let folder = own.as_deref().and_then(Path::parent).and_then(Path::to_str);
    match folder.filter(|folder| !folder.contains([':', '\n'])) {
        // Git reads `%` as the beginning of a name.
        Some(folder) => format!(
            "{DRIVER_PATH}{}; {DRIVER_COMMAND}",
            shell_word(folder).replace('%', "%%")
        ),
        None => DRIVER_COMMAND.to_owned(),
    }
}

/// Returns whether this is the present command, with whatever folder.
fn is_current_driver(command: &str) -> bool {
    command == DRIVER_COMMAND || command.starts_with(DRIVER_PATH) && command.ends_with(DRIVER_COMMAND)
}

/// Returns whether the command of the merge driver finds a `jit` in the folder that it names.
pub(crate) fn driver_has_program(command: &str) -> bool {
    let folder = command
        .strip_prefix(DRIVER_PATH)
        .and_then(|rest| rest.strip_suffix(DRIVER_COMMAND))
        .and_then(|rest| rest.strip_suffix("; "));
    let folder = folder.map(|word| word.replace("%%", "%"));
    let known = std::env::current_exe().ok();
    let own = known.as_deref().and_then(Path::parent).and_then(Path::to_str);
    folder.is_some_and(|word| {
        // A quoted folder is only compared with our own.
        let is_own = own.is_some_and(|own| shell_word(own) == word);
        let path = Path::new(if is_own { own.unwrap_or_default() } else { &word });
        path.join("jit").is_file()
    })
}

/// Returns whether some version of jit registered this command.
pub(crate) fn is_jits(command: &str) -> bool {
    is_current_driver(command) || command.split_whitespace().next() == Some("jit")
}

/// Returns the command that registers the merge driver by hand.
pub(crate) fn driver_setting() -> String {
    let command = shell_word(&driver_command());
    format!("git config merge.{MERGE_DRIVER}.driver {command}")
}

/// The file in the control plane with the digest of git's configuration before jit changed it. It exists only if that
/// did not end in a newline. Git adds the newline and does not remove it again.
const UNENDED: &str = "git-config";

fn note_unended(place: &Place, common: &Path) -> io::Result<()> {
    let before = fs::read(common.join("config"))?;
    if !before.is_empty() && !before.ends_with(b"\n") {
        file::refresh(&place.control_dir.join(UNENDED), text_digest(&before).as_bytes())?;
    }
    Ok(())
}

/// Removes jit's settings from git's configuration, and nothing else. Git itself would leave an empty section beside
/// a comment, and remove blank lines. Returns the removed keys.
pub(crate) fn remove_settings(place: &Place, common: &Path) -> io::Result<Vec<String>> {
    let config = common.join("config");
    // If it is a link, its target.
    let config = fs::canonicalize(&config).unwrap_or(config);
    let mut lock = config.clone().into_os_string();
    lock.push(".lock");
    // As git does it, so that no other process writes at the same time.
    let held = fs::File::create_new(&lock)?;
    let change = || -> io::Result<(Vec<String>, bool)> {
        let now = fs::read(&config)?;
        let (mut rest, keys) = without_settings(&now);
        // The newline that git added is removed too, if nothing else differs.
        let before = file::read_real(&place.control_dir.join(UNENDED), 100)?;
        if let (Some(before), Some(unended)) = (before, rest.strip_suffix(b"\n"))
            && text_digest(unended).as_bytes() == before
        {
            rest.pop();
        }
        if rest == now {
            return Ok((keys, false));
        }
        held.set_permissions(fs::metadata(&config)?.permissions())?;
        (&held).write_all(&rest)?;
        held.sync_all()?;
        fs::rename(&lock, &config)?;
        Ok((keys, true))
    };
    let changed = change();
    // Once the lock file has become the configuration, a new lock of that name belongs to another process.
    if !matches!(changed, Ok((_, true))) {
        fs::remove_file(&lock)?;
    }
    changed.map(|(keys, _)| keys)
}

/// A section in which jit sets something.
struct Section {
    name: &'static str,
    /// Its first line, in the remaining text.
    first: std::ops::Range<usize>,
    /// It had a key of jit's.
    has_ours: bool,
    /// It has another key.
    has_more: bool,
}

/// Removes the first line of a section that only jit needed.
fn close(rest: &mut Vec<u8>, section: Option<Section>) {
    if let Some(section) = section.filter(|section| section.has_ours && !section.has_more) {
        rest.drain(section.first);
    }
}

/// Returns the text of a configuration without jit's settings, and the removed keys.
fn without_settings(text: &[u8]) -> (Vec<u8>, Vec<String>) {
    let merge = format!("[merge \"{MERGE_DRIVER}\"]");
    let (mut rest, mut keys) = (Vec::with_capacity(text.len()), Vec::new());
    let mut section: Option<Section> = None;
    let mut goes_on = false;
    for line in text.split_inclusive(|b| *b == b'\n') {
        let said = String::from_utf8_lossy(line);
        let said = said.trim();
        let is_comment = said.starts_with(['#', ';']);
        if goes_on {
            // Part of the previous value.
        } else if said.starts_with('[') {
            close(&mut rest, section);
            let first = rest.len()..rest.len() + line.len();
            let name = match said {
                said if said == merge => Some("merge"),
                said if said.eq_ignore_ascii_case("[jit]") => Some("jit"),
                _ => None,
            };
            section = name.map(|name| Section {
                name,
                first,
                has_ours: false,
                has_more: false,
            });
        } else if let Some(section) = &mut section {
            if let Some(key) = our_key(section.name, said) {
                section.has_ours = true;
                keys.push(key);
                continue;
            }
            section.has_more |= !said.is_empty() && !is_comment;
        }
        goes_on = is_continued(said);
        rest.extend_from_slice(line);
    }
    close(&mut rest, section);
    (rest, keys)
}

/// Returns whether a value continues in the next line: it ends in a backslash that is neither escaped nor in a
/// comment.
fn is_continued(line: &str) -> bool {
    let mut is_quoted = false;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' if rest.next().is_none() => return true,
            '"' => is_quoted = !is_quoted,
            '#' | ';' if !is_quoted => return false,
            _ => {}
        }
    }
    false
}

/// Returns the key that a line of a section sets, if jit sets it.
fn our_key(section: &str, line: &str) -> Option<String> {
    let (name, value) = line.split_once('=')?;
    // Git quotes a value that contains a semicolon.
    let value = value.trim();
    let value = value
        .strip_prefix('"')
        .and_then(|value| value.strip_suffix('"'))
        .unwrap_or(value);
    // Git escapes these two in its file.
    let value = value.replace("\\\"", "\"").replace("\\\\", "\\");
    match (section, name.trim().to_ascii_lowercase().as_str(), value.as_str()) {
        ("jit", "defaultbranch", _) => Some(DEFAULT_BRANCH.to_owned()),
        ("merge", "name", DRIVER_NAME) => Some(format!("merge.{MERGE_DRIVER}.name")),
        ("merge", "driver", command) if command == FORMER_COMMAND || is_current_driver(command) => {
            Some(format!("merge.{MERGE_DRIVER}.driver"))
        }
        _ => None,
    }
}

fn ensure_merge_driver(common: &Path, done: &mut Done) -> Outcome<()> {
    let git = |e: jit_git::GitError| Box::new(Refusal::new(Code::Io, e.to_string()));
    let key = format!("merge.{MERGE_DRIVER}.driver");
    let current = Git::in_git_dir(common)
        .args(["config", "--local", "--get", &key])
        .line()
        .unwrap_or_default();
    let command = driver_command();
    // Another jit that is still there serves as well.
    if current == command || is_current_driver(&current) && driver_has_program(&current) {
        return Ok(());
    }
    if !current.is_empty() && !is_jits(&current) {
        done.warnings.push(format!(
            "git merges issue files with another command, which is left as it is: {current}; to let jit do it: {}",
            driver_setting()
        ));
        return Ok(());
    }
    let name = format!("merge.{MERGE_DRIVER}.name");
    let named = Git::in_git_dir(common)
        .args(["config", "--local", "--get", &name])
        .line();
    if named.unwrap_or_default().is_empty() {
        Git::in_git_dir(common)
            .args(["config", "--local", &name, DRIVER_NAME])
            .run()
            .map_err(git)?;
    }
    Git::in_git_dir(common)
        .args(["config", "--local", &key, &command])
        .run()
        .map_err(git)?;
    done.steps.push(format!(
        "registered the merge driver {MERGE_DRIVER} in git's configuration"
    ));
    Ok(())
}

/// Records the current branch as the default one, permanently, if neither a remote nor a usual name identifies it.
fn note_default_branch(place: &Place, common: &Path, done: &mut Done) -> Outcome<()> {
    let git = |e: jit_git::GitError| Box::new(Refusal::new(Code::Io, e.to_string()));
    let found = default_branch(place, None).map_err(git)?;
    let Some(branch) = found.filter(|branch| branch.because == Because::Current) else {
        return Ok(());
    };
    // A branch with a usual name but without a commit will be found by its name.
    if matches!(branch.name.as_str(), "main" | "master") {
        return Ok(());
    }
    Git::in_git_dir(common)
        .args(["config", "--local", DEFAULT_BRANCH, &branch.name])
        .run()
        .map_err(git)?;
    done.steps
        .push(format!("noted {} as the default branch", branch.name));
    Ok(())
}

/// The key for the default branch in git's configuration.
pub(crate) const DEFAULT_BRANCH: &str = "jit.defaultBranch";

/// The merge driver for issues that git would run here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Driver {
    /// With its command.
    Current(String),
    /// As an older jit registered it: without `jit` on PATH, one side is lost.
    Former,
    /// Another command: of an older jit, or the user's own.
    Other(String),
    Missing,
}

pub fn merge_driver(common: &Path) -> Driver {
    let key = format!("merge.{MERGE_DRIVER}.driver");
    match Git::in_git_dir(common).args(["config", "--get", &key]).line() {
        Ok(line) if is_current_driver(&line) => Driver::Current(line),
        Ok(line) if line == FORMER_COMMAND => Driver::Former,
        Ok(line) if !line.is_empty() => Driver::Other(line),
        _ => Driver::Missing,
    }
}

/// Carries out a request about the set-up, the place or the caller.
pub(crate) fn handle(options: &Options, request: SetupRequest) -> Outcome<Answer> {
    match request {
        SetupRequest::Whoami => whoami(options),
        SetupRequest::Init { hooks } => set_up(options, hooks),
        SetupRequest::Worktree => worktrees::info(options),
        SetupRequest::InitWorktree => worktrees::init(options),
        SetupRequest::Worktrees => worktrees::list(options),
        SetupRequest::McpServer {
            client,
            scope,
            install,
            write,
            seen,
        } => {
            let edit = mcp_server::ServerEdit {
                client,
                scope,
                install,
                write,
                seen,
            };
            mcp_server::change(options, &edit)
        }
        SetupRequest::MayUninstall => uninstall::ask(options),
        SetupRequest::Uninstall { export, purge_tree } => {
            let request = uninstall::Uninstall {
                export: export.map(|path| path.as_path().to_owned()),
                purge_tree,
            };
            uninstall::carry_out(options, &request)
        }
        SetupRequest::GatePresets => gate_presets(options),
        SetupRequest::BoundAgent => bound_agent(options),
        SetupRequest::ControlFolder => {
            let found = Surroundings::find(options)?;
            let path = found.place.control_dir.clone().into();
            Ok(found.answer(SetupReply::ControlFolder(ControlFolder { path })))
        }
    }
}

/// Sets the repository up. If the log is new, issues that are in the tree already are adopted into it.
fn set_up(options: &Options, hooks: bool) -> Outcome<Answer> {
    let found = Surroundings::to_set_up(options)?;
    let mut done = init(&found, options.lock_timeout)?;
    let place = found.place.clone();
    if done.log_is_new {
        let cx = crate::opening::within(found, options, Need::Write)?;
        let (adopted, unsound) = crate::issues::sync::join_tree(&cx)?;
        if adopted > 0 {
            done.steps.push(format!("found {adopted} issues in .jit/issues"));
        }
        done.warnings
            .extend(unsound.into_iter().map(|what| format!("not an issue: {what}")));
    }
    if hooks {
        let installed = crate::hooks::git::install(&place, place.is_bare(), false)?;
        done.steps.extend(installed.steps);
        done.warnings.extend(installed.notes);
    }
    let changed = !done.steps.is_empty();
    let reply = SetUp {
        report: SetUpReport {
            changed,
            control_dir: place.control_dir.to_string_lossy().into_owned(),
            local_dir: place
                .local_jit
                .as_ref()
                .map(|path| path.to_string_lossy().into_owned()),
            steps: done.steps,
        },
        hooks_left: changed && !hooks && place.has_git(),
    };
    Ok(Answer {
        reply: SetupReply::SetUp(reply).into(),
        warnings: done.warnings,
    })
}

fn gate_presets(options: &Options) -> Outcome<Answer> {
    let place = Surroundings::find(options)?.place;
    let root = place.worktree_root.as_deref();
    let detected = root.map_or(Vec::new(), presets::detect);
    let gate = |(name, gate): (GateName, Gate)| PresetGate {
        command: gate.command().map(str::to_owned),
        description: gate.description().map(str::to_owned),
        name: name.to_string(),
        timeout_secs: gate.timeout().as_secs(),
    };
    let presets = presets::names().map(|name| GatePreset {
        detected: detected.contains(&name),
        gates: presets::preset(name)
            .unwrap_or_default()
            .into_iter()
            .map(gate)
            .collect(),
        name: name.to_owned(),
    });
    Ok(Answer {
        reply: SetupReply::GatePresets(GatePresets {
            presets: presets.collect(),
        })
        .into(),
        warnings: Vec::new(),
    })
}

fn bound_agent(options: &Options) -> Outcome<Answer> {
    let found = Surroundings::find(options)?;
    let agent_id = match &found.whoami.source {
        Source::Session(_) => Some(found.whoami.agent_id.clone()),
        _ => None,
    };
    Ok(found.answer(SetupReply::BoundAgent(BoundAgent { agent_id })))
}

fn whoami(options: &Options) -> Outcome<Answer> {
    let found = Surroundings::find(options)?;
    let (identity, notices) =
        identity::for_reader(&found.place, jiff::Timestamp::now()).map_err(|e| refuse(Code::Invalid, e))?;
    let branch = found.place.branch().map_err(|e| refuse(Code::Invalid, e))?;
    let whoami = &found.whoami;
    let caller = Caller {
        root: found
            .place
            .worktree_root
            .as_ref()
            .map(|root| root.to_string_lossy().into_owned()),
        control_dir: found.place.control_dir.to_string_lossy().into_owned(),
        agent_id: whoami.agent_id.clone(),
        kind: whoami.agent_id.kind().to_owned(),
        source: whoami.source.to_string(),
        detected_agent: whoami.detected_agent.as_ref().map(|agent| agent.name.to_owned()),
        detected_by: whoami.detected_agent.as_ref().map(|agent| agent.mark.to_string()),
        detected_in: whoami.detected_agent.as_ref().and_then(|agent| agent.process),
        worktree_id: identity.map(|identity| identity.worktree_id),
        branch,
    };
    let mut answer = found.answer(SetupReply::Caller(caller));
    answer.warnings.extend(notices.iter().map(ToString::to_string));
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a1_every_file_that_is_listed_is_known_as_jits_and_the_other_way_round() {
        let text = include_str!("../../../../ARCHITECTURE.md");
        let (_, files) = text.split_once("\n## Files\n").expect("files");
        let (files, _) = files.split_once("\nIn each worktree").expect("an end");
        let mut listed = Vec::new();
        for row in files.lines().filter(|line| line.starts_with("| `")) {
            let names = row
                .split('|')
                .nth(1)
                .expect("names")
                .split('`')
                .skip(1)
                .step_by(2);
            let first = |name: &str| name.split('/').next().unwrap_or_default().replace('*', "1");
            listed.extend(names.map(first).filter(|name| !name.starts_with("control-")));
        }
        assert!(listed.len() > 20, "{listed:?}");
        for name in &listed {
            assert!(is_ours(name), "{name} is not known");
        }
        for name in OURS {
            assert!(listed.iter().any(|one| one == name), "{name} is not listed");
        }
        assert!(is_ours("agent_lock.json.0123456789abcdef.tmp"));
        assert!(!is_ours("notes.txt") && !is_ours("x.tmp"));
    }
}
