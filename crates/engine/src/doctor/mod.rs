//! `jit doctor`: checks the installation and names the command that repairs each problem. Changes nothing.

mod repairs;
mod schemas;
pub mod validate;

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use jit_core::issue_files::format::{COMMENTS, ISSUE, LABELS};
use jit_core::log::state;
use jit_core::model::unit::Phase;
use jit_git::version::{self, GitVersion};
use jit_git::{Git, Place};
use jit_os::clock;
use jit_os::shell::shell_word;
use jit_store::Outcome;

use crate::api::Answer;
use crate::api::Options;
use crate::api::doctor::{Check, CheckStatus as Status, Checks, DoctorReply, DoctorRequest};
use crate::api::hooks::HookStatus;
use crate::context::{Context, Surroundings, control_mode};
use crate::duration::format_secs;
use crate::heartbeats as heartbeat;
use crate::init as setup;
use crate::init::Driver;
use crate::worktree_identity::identity;
use crate::worktree_identity::identity::Need;

/// Carries out a request about checks.
pub(crate) fn handle(options: &Options, request: DoctorRequest) -> Outcome<Answer> {
    match request {
        DoctorRequest::Check => {
            let checks = examine(options);
            let ok = !checks.iter().any(|check| check.status == Status::Fail);
            Ok(Answer {
                reply: DoctorReply::Checks(Checks { ok, checks }).into(),
                warnings: Vec::new(),
            })
        }
        DoctorRequest::Validate { write_missing } => repairs::validate(options, write_missing),
        DoctorRequest::Divergence => repairs::divergence(options),
        DoctorRequest::CheckFile { schema, file } => schemas::check_file(options, &schema, file.as_path()),
        DoctorRequest::Schemas => Ok(schemas::all()),
        DoctorRequest::Schema { name } => schemas::schema(options, &name),
        DoctorRequest::Migrate { file, dry_run } => schemas::migrate(options, file.as_path(), dry_run),
        DoctorRequest::Recover => repairs::recover(options),
    }
}

#[derive(Debug, Default)]
struct Findings(Vec<Check>);

impl Findings {
    fn add(&mut self, name: &'static str, status: Status, message: impl ToString, help: Option<&str>) {
        let help = help.map(str::to_owned);
        self.0.push(Check {
            name: name.into(),
            status,
            message: message.to_string(),
            help,
        });
    }

    fn ok(&mut self, name: &'static str, message: impl ToString) {
        self.add(name, Status::Ok, message, None);
    }

    fn warn(&mut self, name: &'static str, message: impl ToString, help: &str) {
        self.add(name, Status::Warn, message, Some(help));
    }

    fn fail(&mut self, name: &'static str, message: impl ToString, help: &str) {
        self.add(name, Status::Fail, message, Some(help));
    }
}

/// A git lock file older than this was most likely left by a killed git.
const STALE_SECS: u64 = 10;
/// Less free space than this is reported.
const LITTLE_SPACE: u64 = 256 << 20;

pub fn examine(options: &Options) -> Vec<Check> {
    let mut found = Findings::default();
    git_version(&mut found);
    clocks(&mut found);
    let (surroundings, broken) = match Surroundings::despite(options) {
        Ok(found) => found,
        Err(refusal) => {
            let help = refusal
                .help
                .first()
                .map_or("mend what the message names", String::as_str);
            found.fail("repository", &refusal.message, help);
            return found.0;
        }
    };
    match broken {
        None => found.ok("config", "every file and variable can be read"),
        Some(error) => found.fail(
            "config",
            error,
            "mend what the message names; the rest is looked at without it",
        ),
    }
    let place = surroundings.place.clone();
    match (&place.common_dir, &place.worktree_root) {
        (Some(common), _) => found.ok("repository", format!("common directory {}", common.display())),
        (None, _) => found.warn("repository", "no git here: .jit/ serves alone", "git init"),
    }
    permissions(&mut found, &place);
    disk_space(&mut found, &place);
    if let Some(common) = &place.common_dir {
        merge_driver(&mut found, &place, common);
        hooks(&mut found, &place);
        git_programs(&mut found, &place);
        git_locks(&mut found, common);
        turns(&mut found, &place.control_dir);
    }
    match crate::opening::within(surroundings, options, Need::Read) {
        Err(refusal) => {
            let help = refusal.help.first().map_or("jit init", String::as_str);
            found.fail("store", &refusal.message, help);
        }
        Ok(cx) => {
            log(&mut found, &cx);
            half_made(&mut found, &cx);
            orphans(&mut found, &cx);
        }
    }
    found.0
}

fn git_version(found: &mut Findings) {
    let help = format!("install git {} or newer and put it on PATH", version::oldest());
    match GitVersion::installed(".") {
        None => found.fail("git", "git cannot be started", &help),
        Some(git) if git.is_supported() => found.ok("git", git.text),
        Some(git) => found.fail(
            "git",
            format!("{} is too old: units cannot be landed with it", git.text),
            &help,
        ),
    }
}

fn clocks(found: &mut Findings) {
    match clock::boot_id() {
        Ok(_) if clock::wall_ms() < 1_700_000_000_000 => found.warn(
            "clock",
            "the wall clock stands before 2023: times shown to people will be wrong, leases are not affected",
            "set the clock",
        ),
        Ok(_) => found.ok("clock", "boot clock and boot id can be read"),
        Err(e) => found.fail("clock", format!("the boot id cannot be read: {e}"), "mount /proc"),
    }
}

fn permissions(found: &mut Findings, place: &Place) {
    let dir = &place.control_dir;
    let Ok(meta) = dir.symlink_metadata() else {
        return found.warn(
            "permissions",
            format!("{} is not there yet", dir.display()),
            "jit init",
        );
    };
    if !meta.is_dir() {
        return found.fail(
            "permissions",
            format!("{} is not a directory", dir.display()),
            "move it away, then: jit init",
        );
    }
    let (mode, wanted) = (
        meta.permissions().mode() & 0o777,
        control_mode(&place.shared) & 0o777,
    );
    if meta.uid() != rustix::process::geteuid().as_raw() && wanted == 0o700 {
        found.warn(
            "permissions",
            format!("{} belongs to another user", dir.display()),
            "for several users: git config core.sharedRepository group, then jit init",
        );
    } else if mode & !wanted & 0o022 != 0 {
        found.fail(
            "permissions",
            format!("{} can be changed by others (mode {mode:03o})", dir.display()),
            &format!("chmod {wanted:o} {}", dir.display()),
        );
    } else if mode & !wanted != 0 {
        found.warn(
            "permissions",
            format!("{} is open to others (mode {mode:03o})", dir.display()),
            &format!("chmod {wanted:o} {}", dir.display()),
        );
    } else {
        found.ok("permissions", format!("{} has mode {mode:03o}", dir.display()));
    }
}

fn disk_space(found: &mut Findings, place: &Place) {
    let dir = if place.control_dir.is_dir() {
        place.control_dir.as_path()
    } else {
        Path::new(".")
    };
    match rustix::fs::statvfs(dir) {
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let read_only = stat.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY);
            if read_only {
                found.fail("disk", "the file system is read-only", "mount it writable");
            } else if free < LITTLE_SPACE {
                found.warn(
                    "disk",
                    format!("only {} MiB are free", free >> 20),
                    "free some space",
                );
            } else {
                found.ok("disk", format!("{} MiB free", free >> 20));
            }
        }
        Err(e) => found.warn("disk", format!("free space cannot be told: {e}"), "df"),
    }
}

/// Checks the merge driver. Git merges issues well only if three conditions hold: `.jit/.gitattributes` (versioned)
/// names the driver, the configuration of this clone (not versioned) defines it, and git finds the program.
fn merge_driver(found: &mut Findings, place: &Place, common: &Path) {
    let named = names_driver(place);
    let own = setup::driver_setting();
    match setup::merge_driver(common) {
        Driver::Current(command) => {
            found.ok("merge driver", "registered");
            if !setup::driver_has_program(&command) && !jit_os::program::can_be_started("jit", None) {
                found.warn(
                    "path",
                    "git will not find the merge driver, and merges issues line by line: there is no jit on PATH",
                    "jit init, or put the folder of jit on PATH",
                );
            }
        }
        Driver::Former => found.warn(
            "merge driver",
            "of an older jit: where git is started without jit on PATH, it takes our side of an issue",
            "jit init",
        ),
        Driver::Other(command) => found.fail(
            "merge driver",
            format!("git merges issue files with another command: {command}"),
            match setup::is_jits(&command) {
                true => "jit init",
                false => &own,
            },
        ),
        Driver::Missing if named == Some(true) => found.fail(
            "merge driver",
            "git does not know in this clone how to merge issue files: two branches that change one issue will conflict",
            "jit init",
        ),
        Driver::Missing => found.warn("merge driver", "not registered in this clone", "jit init"),
    }
    if named == Some(false) {
        let there = place
            .local_jit
            .as_ref()
            .is_some_and(|local| local.join(".gitattributes").symlink_metadata().is_ok());
        let help = if there {
            "move .jit/.gitattributes away, run jit init, and commit it"
        } else {
            "jit init, then commit .jit/.gitattributes"
        };
        found.warn(
            "attributes",
            "git merges issue files as plain text here: .jit/.gitattributes does not name the merge driver",
            help,
        );
    }
}

/// Reports programs of git's settings here that are not started, because the user has not approved them.
fn git_programs(found: &mut Findings, place: &Place) {
    let programs = match crate::git_programs::of(place) {
        Ok(programs) => programs,
        Err(refusal) => return found.fail("git programs", &refusal.message, "mend what the message names"),
    };
    let withheld = programs.into_iter().filter(|(_, is_approved)| !is_approved);
    let mut names: Vec<String> = withheld.map(|(one, _)| one.name).collect();
    names.dedup();
    if !names.is_empty() {
        let message = format!(
            "git's settings of this repository name programs that you have not approved, so jit does not let git start \
             them: {}",
            names.join(", ")
        );
        found.warn("git programs", message, "jit trust");
    }
}

/// Reports git lock files that a killed git left: they block every command. They are not removed here, because only a
/// person knows whether that git is dead.
fn git_locks(found: &mut Findings, common: &Path) {
    let all = crate::git_locks::find(common);
    if all.is_empty() {
        return found.ok("git locks", "no lock file is left");
    }
    // Without this check, a lock file that is not open may still be in use.
    let nobody = crate::git_locks::git_works_here(common) == Some(false);
    for lock in all {
        let secs = lock.age.map(|age| age.as_secs());
        let age = secs.map_or_else(
            || "since a time that the clock has not reached".to_owned(),
            |secs| format!("for {}", format_secs(secs)),
        );
        let (holder, is_open, is_left) = match lock.open_in.as_deref() {
            None => (
                "which process has it open cannot be told here".to_owned(),
                false,
                false,
            ),
            Some([]) if nobody => (
                "no process has it open, and no git is at work here: it is left over".to_owned(),
                false,
                true,
            ),
            Some([]) => ("no process has it open".to_owned(), false, false),
            Some(pids) => {
                let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
                (format!("open in process {}", pids.join(", ")), true, false)
            }
        };
        let message = format!("{} has been there {age}; {holder}", lock.path.display());
        // A running git holds its locks only for moments.
        if is_open || (!is_left && secs.is_some_and(|secs| secs < STALE_SECS)) {
            found.ok("git locks", format!("{message}: somebody is at work"));
            continue;
        }
        let path = shell_word(&lock.path.to_string_lossy());
        found.warn(
            "git locks",
            message,
            &format!("where no git is at work there any more, nor waits for an editor: rm {path}"),
        );
    }
}

/// Reports a landing lock that only programs other than jit hold: a killed landing left them running, and the next
/// landing waits.
fn turns(found: &mut Findings, control: &Path) {
    for (path, holders) in crate::git_locks::turns(control) {
        if holders.is_empty() || holders.iter().any(crate::git_locks::Holder::is_jit) {
            continue;
        }
        let all: Vec<String> = holders.iter().map(ToString::to_string).collect();
        found.warn(
            "landings",
            format!(
                "{} is held by process {}, and by no jit: who lands there waits",
                path.display(),
                all.join(", ")
            ),
            "see what it does, and where it does not end, end it: kill <pid>",
        );
    }
}

/// Reports missing hooks as information, not as a failure: not every user wants them.
fn hooks(found: &mut Findings, place: &Place) {
    let survey = match crate::hooks::git::install::survey(place, place.is_bare()) {
        Ok(survey) => survey,
        Err(refusal) => return found.warn("hooks", &refusal.message, "jit hooks list"),
    };
    let server = if place.is_bare() { " --server" } else { "" };
    let install = format!("jit hooks install{server}");
    let named = |state: HookStatus| {
        let all: Vec<&str> = survey
            .hooks
            .iter()
            .filter(|hook| hook.state == state)
            .map(|hook| &*hook.name)
            .collect();
        (!all.is_empty()).then(|| all.join(", "))
    };
    if survey
        .hooks
        .iter()
        .all(|hook| matches!(hook.state, HookStatus::Missing | HookStatus::Foreign))
    {
        found.warn(
            "hooks",
            "git does not ask jit before commits: no hooks are installed",
            &install,
        );
    } else {
        let mut fine = true;
        for (state, what) in [
            (HookStatus::Missing, "not installed"),
            (HookStatus::Foreign, "replaced by another program"),
            (HookStatus::Shadowed, "installed where git does not look any more"),
            (HookStatus::Edited, "edited, or not executable; left as they are"),
        ] {
            if let Some(names) = named(state) {
                fine = false;
                found.warn("hooks", format!("{what}: {names}"), &install);
            }
        }
        if fine {
            found.ok("hooks", format!("installed in {}", survey.folder));
        }
    }
    for note in survey.notes {
        found.warn("hooks", note, "jit hooks list");
    }
}

/// Whether git would use the driver for an issue of this tree; `None` if git cannot tell.
fn names_driver(place: &Place) -> Option<bool> {
    let (root, local) = (place.worktree_root.as_deref()?, place.local_jit.as_deref()?);
    let inside = local.strip_prefix(root).ok()?;
    let ask = |name: &str, wanted: &str| {
        let path = inside.join("issues/x").join(name);
        let asked = Git::at(root).args(["check-attr", "merge", "--"]).arg(path).line();
        asked
            .ok()
            .map(|line| line.ends_with(&format!(": merge: {wanted}")))
    };
    Some(ask(ISSUE, setup::MERGE_DRIVER)? && ask(LABELS, "union")? && ask(COMMENTS, "union")?)
}

/// Formats a number of bytes in the largest unit of which there is at least one.
fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

fn log(found: &mut Findings, cx: &Context) {
    match cx.store.upkeep().validate(&cx.actor) {
        Ok(report) => {
            let plain = if report.text > report.bytes {
                format!(" ({} uncompressed)", size(report.text))
            } else {
                String::new()
            };
            let text = format!(
                "{} lines, {} leases, {} issues; the history has {}{plain} in {} {}",
                report.lines,
                report.leases,
                report.issues,
                size(report.bytes),
                report.segments,
                if report.segments == 1 { "file" } else { "files" }
            );
            if report.problems.is_empty() {
                found.ok("log", text);
            }
            for problem in report.problems {
                // A damaged log is always a failure, even if the next writer can repair it.
                let status = if problem.heals && problem.check != "log" {
                    Status::Warn
                } else {
                    Status::Fail
                };
                found.add(problem.check, status, problem.message, Some(&problem.help));
            }
        }
        Err(refusal) => {
            let help = refusal.help.first().map_or("jit recover", String::as_str);
            found.fail("log", &refusal.message, help);
        }
    }
}

/// Reports worktrees that git or jit began to make and did not finish, and those with damaged files of git.
fn half_made(found: &mut Findings, cx: &Context) {
    let Some(common) = &cx.place.common_dir else {
        return;
    };
    let view = crate::write_path::view(cx).ok();
    let units = view
        .and_then(|view| state::units(&*view.table).ok())
        .unwrap_or_default();
    for one in crate::worktrees::half_made::find(common) {
        let unit = units.iter().find(|unit| !unit.is_over() && one.is_of(unit));
        // The unit is reported below.
        let is_reported = unit.is_some_and(|unit| unit.state == Phase::Provisioning);
        if is_reported || one.begun && crate::git_locks::git_works_here(common) == Some(true) {
            continue;
        }
        let whose = unit.map_or_else(String::new, |unit| format!("{}: ", unit.id));
        found.warn(
            "worktrees",
            format!("{whose}{}", one.in_words()),
            &one.repair(unit),
        );
    }
    for unit in units.iter().filter(|unit| unit.state == Phase::Provisioning) {
        if crate::worktrees::half_made::is_being_made(cx, &unit.id) {
            continue;
        }
        found.warn(
            "worktrees",
            format!("the creation of {} was interrupted", unit.id),
            &format!("jit worktree retry {}, or: jit worktree prune --settle", unit.id),
        );
    }
}

/// Reports missing worktrees, and leases of missing holders.
fn orphans(found: &mut Findings, cx: &Context) {
    let mut fine = true;
    let mut known = Vec::new();
    if let Some(common) = &cx.place.common_dir {
        for entry in crate::worktree_identity::list(common).unwrap_or_default() {
            if let Some(why) = entry.prunable {
                fine = false;
                let name = entry
                    .root
                    .as_deref()
                    .unwrap_or(&entry.git_dir)
                    .display()
                    .to_string();
                found.warn("worktrees", format!("{name}: {why}"), "git worktree prune");
            } else {
                known.extend(identity::peek(&entry.git_dir).map(|identity| identity.worktree_id));
            }
        }
    }
    let view: Outcome<_> = crate::write_path::view(cx);
    if let Ok(view) = view {
        let leases = state::leases(&*view.table).unwrap_or_default();
        for lease in leases.iter().filter(|lease| !lease.expired(&view.now)) {
            let gone = lease.worktree_id.as_ref().is_some_and(|id| !known.contains(id));
            if gone && cx.place.has_git() {
                fine = false;
                found.warn(
                    "leases",
                    format!(
                        "{} of {} was taken in a worktree that is gone",
                        lease.lease_id, lease.agent_id
                    ),
                    &format!(
                        "wait until {}, or: jit claim force-evict {} --reason <why>",
                        lease.expires_at, lease.lease_id
                    ),
                );
            }
        }
    }
    if let Ok(audit) = crate::doctor::validate::audit(cx, false) {
        if let Some(first) = audit.findings.first() {
            fine = false;
            let more = match audit.findings.len() {
                1 => String::new(),
                many => format!(" (and {} more)", many - 1),
            };
            found.warn("issues", format!("{}{more}", first.message), "jit validate");
        }
        if let Some(first) = audit.missing.first() {
            fine = false;
            found.warn(
                "issues",
                format!(
                    "{} issues are in no worktree and on no branch, {first} among them",
                    audit.missing.len()
                ),
                &format!("jit validate --write-missing, or: jit issue delete {first}"),
            );
        }
    }
    if let Ok(view) = crate::write_path::view(cx) {
        let lost = |issue: &jit_core::model::issue::Issue| {
            !cx.place
                .control_dir
                .join("issues")
                .join(issue.id.as_str())
                .is_dir()
        };
        let missing: Vec<_> = state::issues(&*view.table)
            .unwrap_or_default()
            .into_iter()
            .filter(lost)
            .collect();
        if let Some(first) = missing.first() {
            fine = false;
            found.warn(
                "issues",
                format!(
                    "the files of {} issues are missing from the control plane, {} among them",
                    missing.len(),
                    first.id
                ),
                "their fields are in the log; long texts are in .jit/issues of the worktrees",
            );
        }
    }
    for beat in heartbeat::all(&cx.place.control_dir).unwrap_or_default() {
        if !beat.alive {
            let path = heartbeat::path(&cx.place.control_dir, &beat.heartbeat.agent_id);
            found.ok(
                "heartbeats",
                format!(
                    "{} stopped beating (its file {} may be deleted)",
                    beat.heartbeat.agent_id,
                    path.display()
                ),
            );
        }
    }
    if fine {
        found.ok("orphans", "no worktree and no lease is left behind");
    }
}
