//! Judges what git may start for a command (L2): the table of verbs, and the one function that applies it.
//!
//! | verbs | what the repository's own settings name |
//! |---|---|
//! | all | no fsmonitor, no hooks, no check of signatures when showing a log, no `ext::` addresses; external diff programs never run; no fetch, push, checkout or diff continues into submodules |
//! | settings (`config`) | starts nothing: settings are seen as they are |
//! | read (`status`, `diff`, `log`, …) | a filter that is not approved is left out: a file may show as changed |
//! | content (`add`, `checkout`, `worktree`, `merge`, …; any other) | a filter, merge driver or signing program that is not approved makes git fail if it needs it |
//! | fetch (`fetch`, `submodule`) | what reaches a server must be approved before git starts |
//! | push | as fetch; the repository's hooks run, and a folder of hooks outside of the git folder must be approved |
//!
//! What must hold:
//! - Settings of the system, of the user and of the command line stay in force.
//! - An override names exactly the settings that were found, through GIT_CONFIG_COUNT: `-c` cannot name a subsection
//!   with an equals sign in it.
//! - Git itself decides whether a program was needed, by failing to start it. No process is started to
//!   find that out.
//! - A command other than fetch and push may use no protocol, except in a partial clone, which fetches what it lacks. If
//!   what reaches a server is not approved, it may use none there either. So a submodule that no index names, and that
//!   git looks into while it merges, fetches nothing.
//!
//! Limitations: a program that the user installed for all repositories may read the repository's settings by itself
//! (`lfs.*`, for example).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::local_settings::{self, Found, LocalProgram, Site, Unreadable, Use};
use crate::owner::{self, Foreign, Owners};

/// Stands in for a program that is not approved. It cannot be started, and git names it when it tries.
const NOT_APPROVED: &str = "/dev/null/not-approved";
/// The only protocol that git may use where nothing may reach a server: there is none of that name.
const NO_PROTOCOL: &str = "not-approved";

/// Decides which programs may run. Without one, none that a repository names.
#[derive(Debug, Clone, Copy)]
pub struct Approver {
    /// Whether the user approved this setting of this repository: its name and its exact value.
    pub is_approved: fn(repository: &Path, name: &str, text: &str) -> bool,
    /// The value to use in place of one that this program wrote itself.
    pub own: fn(name: &str, text: &str) -> Option<OsString>,
}

static APPROVER: OnceLock<Approver> = OnceLock::new();

/// Sets who decides, once for this process.
pub fn set_approver(approver: Approver) {
    let _ = APPROVER.set(approver);
}

fn is_approved(one: &LocalProgram) -> bool {
    let asked = |approver: &Approver| (approver.is_approved)(&one.repository, &one.name, &one.text);
    one.is_exact && APPROVER.get().is_some_and(asked)
}

fn own(one: &LocalProgram) -> Option<OsString> {
    APPROVER
        .get()
        .and_then(|approver| (approver.own)(&one.name, &one.text))
}

/// The programs that need an approval and have none. `None`: there is an own value for it.
pub fn needs_approval(one: &LocalProgram) -> Option<bool> {
    match own(one) {
        Some(_) => None,
        None => Some(!is_approved(one)),
    }
}

/// The filters of the repository in this folder that git may not start.
pub(crate) fn withheld_filters(dir: &Path) -> Result<Vec<LocalProgram>, Refused> {
    let site = Site::find(dir, None, None).map_err(Refused::Unreadable)?;
    let found = match site {
        Some(site) => local_settings::find(&site, None).map_err(Refused::Unreadable)?,
        None => Found::default(),
    };
    let mut programs = found.programs;
    programs.retain(|one| one.purpose == Use::Filter && needs_approval(one) == Some(true));
    Ok(programs)
}

/// The purpose of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Settings,
    Read,
    Content,
    Fetch,
    Push,
}

/// Verbs that change no content and write none.
const READ: &[&str] = &[
    "cat-file",
    "check-attr",
    "check-ignore",
    "cherry",
    "diff",
    "diff-files",
    "diff-index",
    "diff-tree",
    "for-each-ref",
    "grep",
    "log",
    "ls-files",
    "ls-tree",
    "merge-base",
    "reflog",
    "remote",
    "rev-list",
    "rev-parse",
    "show",
    "show-ref",
    "status",
    "symbolic-ref",
    "update-ref",
    "var",
];

/// Verbs that show differences with external programs, if they are not told otherwise.
const DIFF: &[&str] = &["diff", "diff-files", "diff-index", "diff-tree", "log", "show"];

/// Verbs of `READ` that look into submodules.
const ENTERING: &[&str] = &["diff", "diff-files", "diff-index", "status"];

/// Verbs that write content and look into no submodule: a large index need not be read for them.
const OBJECTS: &[&str] = &[
    "commit-tree",
    "hash-object",
    "merge-file",
    "merge-tree",
    "mktree",
    "write-tree",
];

fn enters_submodules(purpose: Purpose, verb: &str) -> bool {
    match purpose {
        Purpose::Read => ENTERING.contains(&verb),
        _ => !OBJECTS.contains(&verb),
    }
}

fn purpose(verb: &str) -> Purpose {
    match verb {
        "config" | "" => Purpose::Settings,
        "fetch" | "submodule" | "clone" | "ls-remote" | "pull" => Purpose::Fetch,
        "push" => Purpose::Push,
        verb if READ.contains(&verb) => Purpose::Read,
        _ => Purpose::Content,
    }
}

/// Where the verb is among the arguments.
fn verb_at(args: &[OsString]) -> Option<usize> {
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        match arg.as_bytes() {
            b"-c" | b"-C" => at += 2,
            [b'-', ..] => at += 1,
            _ => return Some(at),
        }
    }
    None
}

/// A command that git is to run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AskedCommand<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) args: &'a [OsString],
    /// The index, if it is not the repository's own.
    pub(crate) index: Option<&'a OsStr>,
    /// Whether filters that are not approved are left out, whatever the verb is.
    pub(crate) skips_filters: bool,
}

/// How git is started so that it starts nothing that was not approved.
#[derive(Debug, Clone, Default)]
pub(crate) struct Judged {
    pub(crate) settings: Vec<(OsString, OsString)>,
    /// Whether no protocol may be used.
    is_offline: bool,
    /// Programs that git may not start. It fails if it needs one.
    withheld: Vec<LocalProgram>,
}

/// Git may not be started.
#[derive(Debug)]
pub(crate) enum Refused {
    NotApproved(Vec<LocalProgram>),
    Owner(Foreign),
    Unreadable(Unreadable),
}

/// Judges a command by the settings of the repository that it would use.
pub(crate) fn judge(asked: AskedCommand<'_>) -> Result<Judged, Refused> {
    let verb = verb_at(asked.args).and_then(|at| asked.args.get(at)?.to_str());
    let verb = verb.unwrap_or_default();
    let purpose = purpose(verb);
    let named = |name: &str| {
        let options = asked.args.iter();
        let mut found = options.filter_map(|arg| arg.as_bytes().strip_prefix(name.as_bytes()));
        found
            .next_back()
            .map(|path| PathBuf::from(OsStr::from_bytes(path)))
    };
    let git_dir = named("--git-dir=");
    let site = Site::find(asked.dir, git_dir.as_deref(), named("--work-tree=").as_deref());
    let site = site.map_err(Refused::Unreadable)?;
    if let (Some(site), Some(_), None) = (&site, &git_dir, std::env::var_os("GIT_DIR")) {
        let sudo = std::env::var_os("SUDO_UID");
        let owners = Owners::new(sudo.as_deref());
        owner::check_named(owners, &site.git_dir, &site.common_dir).map_err(Refused::Owner)?;
    }
    if purpose == Purpose::Settings {
        return Ok(Judged::default());
    }
    let Some(site) = site else {
        return Ok(Judged::of(purpose, asked.skips_filters, Found::default()));
    };
    let index = asked.index.map_or(site.git_dir.join("index"), PathBuf::from);
    let index = enters_submodules(purpose, verb).then_some(index.as_path());
    let found = local_settings::find(&site, index).map_err(Refused::Unreadable)?;
    apply(purpose, asked.skips_filters, found)
}

/// The table: turns what was found into overrides or a refusal.
fn apply(purpose: Purpose, skips_filters: bool, mut found: Found) -> Result<Judged, Refused> {
    let is_needed = |one: &LocalProgram| match (one.purpose, purpose) {
        (Use::Include, _) | (Use::Network, Purpose::Fetch | Purpose::Push) => true,
        (Use::Hooks, purpose) => purpose == Purpose::Push,
        _ => false,
    };
    let mut own_values = Vec::new();
    found.programs.retain(|one| match own(one) {
        Some(value) => {
            own_values.push((one.key.clone(), value));
            false
        }
        None => !is_approved(one),
    });
    if found.programs.iter().any(is_needed) {
        found.programs.retain(is_needed);
        return Err(Refused::NotApproved(found.programs));
    }
    let mut judged = Judged::of(purpose, skips_filters, found);
    judged.settings.extend(own_values);
    Ok(judged)
}

impl Judged {
    fn of(purpose: Purpose, skips_filters: bool, found: Found) -> Self {
        let mut judged = Self {
            is_offline: !found.is_partial && !matches!(purpose, Purpose::Fetch | Purpose::Push),
            ..Self::default()
        };
        let fixed = [
            ("core.fsmonitor", "false"),
            // It starts a diff in submodules that are in no index.
            ("diff.submodule", "short"),
            ("fetch.recurseSubmodules", "false"),
            // Threads read the index at places that a table in it names. The search reads it from front to end.
            ("index.threads", "1"),
            ("log.showSignature", "false"),
            ("protocol.ext.allow", "never"),
            ("protocol.fd.allow", "never"),
            ("push.recurseSubmodules", "no"),
            ("submodule.recurse", "false"),
        ];
        for (name, value) in fixed {
            judged.set(name, value);
        }
        if purpose != Purpose::Push {
            judged.set("core.hooksPath", "/dev/null");
        }
        for name in found.never {
            let value = match name.as_bytes() {
                // Git goes on without the refs of other repositories.
                b"core.alternaterefscommand" => "true",
                _ => NOT_APPROVED,
            };
            judged.set(&name, value);
        }
        let skips_filters = skips_filters || purpose == Purpose::Read;
        for one in found.programs {
            judged.withhold(one, skips_filters);
        }
        judged
    }

    fn set(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) {
        self.settings
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
    }

    fn withhold(&mut self, one: LocalProgram, skips_filters: bool) {
        let of_driver = |name: &str| {
            let mut key = one.driver.clone();
            key.push(name);
            key
        };
        let stand_in = stand_in(number_of(&self.withheld, &one));
        match one.purpose {
            Use::Filter => {
                let value = if skips_filters { "" } else { &stand_in };
                for name in [".clean", ".smudge", ".process"] {
                    self.set(of_driver(name), value);
                }
                self.set(of_driver(".required"), (!skips_filters).to_string());
                if skips_filters {
                    return;
                }
            }
            Use::Merge | Use::Sign => self.set(&one.key, stand_in),
            Use::Network => self.is_offline = true,
            Use::Hooks | Use::Include => return,
        }
        self.withheld.push(one);
    }

    /// The variables that carry the overrides, after the `count` settings that are there already.
    pub(crate) fn variables(&self, count: usize) -> Vec<(OsString, OsString)> {
        let mut all = Vec::with_capacity(2 * self.settings.len() + 2);
        if self.is_offline {
            all.push(("GIT_ALLOW_PROTOCOL".into(), NO_PROTOCOL.into()));
        }
        if self.settings.is_empty() {
            return all;
        }
        let total = count + self.settings.len();
        all.push(("GIT_CONFIG_COUNT".into(), total.to_string().into()));
        for (number, (name, value)) in (count..).zip(&self.settings) {
            all.push((format!("GIT_CONFIG_KEY_{number}").into(), name.clone()));
            all.push((format!("GIT_CONFIG_VALUE_{number}").into(), value.clone()));
        }
        all
    }

    /// The programs that git needed and was not given, by its error output.
    pub(crate) fn needed(&self, stderr: &[u8]) -> Option<Vec<LocalProgram>> {
        let has = |what: &str| stderr.windows(what.len()).any(|part| part == what.as_bytes());
        let is_needed = |one: &&LocalProgram| match one.purpose {
            Use::Network => has("fatal: transport '") && has("' not allowed"),
            _ => has(&stand_in(number_of(&self.withheld, one))),
        };
        let needed: Vec<LocalProgram> = self.withheld.iter().filter(is_needed).cloned().collect();
        (!needed.is_empty()).then_some(needed)
    }
}

/// The path in place of a program that is not approved. Its number says which one git tried to start.
fn stand_in(number: usize) -> String {
    format!("{NOT_APPROVED}/{number}/")
}

/// The number of a program: the settings of one filter have the same.
fn number_of(withheld: &[LocalProgram], one: &LocalProgram) -> usize {
    let same = withheld.iter().position(|other| other.driver == one.driver);
    same.unwrap_or(withheld.len())
}

/// The arguments with the options that keep external programs out of differences.
pub(crate) fn without_diff_programs(args: &[OsString]) -> Vec<OsString> {
    let mut args = args.to_vec();
    if let Some(at) = verb_at(&args)
        && args
            .get(at)
            .is_some_and(|verb| DIFF.iter().any(|one| verb == *one))
    {
        args.splice(at + 1..at + 1, ["--no-ext-diff".into(), "--no-textconv".into()]);
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(name: &str, purpose: Use) -> LocalProgram {
        let (driver, _) = name.rsplit_once('.').expect("a full name");
        LocalProgram {
            repository: "/r/.git".into(),
            file: "/r/.git/config".into(),
            name: name.to_owned(),
            text: "evil".to_owned(),
            purpose,
            driver: driver.into(),
            key: name.into(),
            is_exact: true,
        }
    }

    fn applied(purpose: Purpose, programs: &[LocalProgram]) -> Result<Judged, Refused> {
        let programs = programs.to_vec();
        let never = vec!["diff.x.textconv".into()];
        let found = Found {
            programs,
            never,
            is_partial: true,
        };
        apply(purpose, false, found)
    }

    fn value<'a>(judged: &'a Judged, name: &str) -> Option<&'a OsStr> {
        let mut all = judged.settings.iter().rev();
        all.find(|(key, _)| key == name)
            .map(|(_, value)| value.as_os_str())
    }

    #[test]
    fn l2_the_verb_is_found_behind_options() {
        let verb = |words: &[&str]| {
            let args: Vec<OsString> = words.iter().map(OsString::from).collect();
            verb_at(&args).map(|at| args[at].to_string_lossy().into_owned())
        };
        assert_eq!(verb(&["--git-dir=x", "status", "-z"]).as_deref(), Some("status"));
        assert_eq!(verb(&["-c", "a=b", "-C", "x", "push"]).as_deref(), Some("push"));
        assert_eq!(verb(&["--version"]), None);
        assert_eq!(purpose("no-such-verb"), Purpose::Content);
    }

    #[test]
    fn l2_filters_are_left_out_when_reading_and_fail_when_writing() {
        let filter = [program("filter.a=b.clean", Use::Filter)];
        let read = applied(Purpose::Read, &filter).expect("read");
        assert_eq!(value(&read, "filter.a=b.clean"), Some(OsStr::new("")));
        assert_eq!(value(&read, "filter.a=b.required"), Some(OsStr::new("false")));
        assert!(read.needed(NOT_APPROVED.as_bytes()).is_none());
        let content = applied(Purpose::Content, &filter).expect("content");
        for name in ["clean", "smudge", "process"] {
            let name = format!("filter.a=b.{name}");
            assert_eq!(value(&content, &name), Some(OsStr::new(&stand_in(0))), "{name}");
        }
        assert_eq!(value(&content, "filter.a=b.required"), Some(OsStr::new("true")));
        assert!(content.needed(stand_in(0).as_bytes()).is_some());
        assert!(content.needed(b"fatal: something else").is_none());
        assert_eq!(value(&content, "diff.x.textconv"), Some(OsStr::new(NOT_APPROVED)));
    }

    #[test]
    fn l2_a_refusal_names_only_what_git_tried_to_start() {
        let all = [
            program("filter.a.clean", Use::Filter),
            program("filter.a.smudge", Use::Filter),
            program("filter.b.clean", Use::Filter),
            program("merge.c.driver", Use::Merge),
        ];
        let content = applied(Purpose::Content, &all).expect("content");
        let needed = |name: &str| -> Vec<String> {
            let tried = value(&content, name).expect("a stand-in").to_string_lossy();
            let stderr = format!("error: cannot run {tried}: Not a directory");
            let needed = content.needed(stderr.as_bytes()).expect("needed");
            needed.into_iter().map(|one| one.name).collect()
        };
        assert_eq!(needed("filter.a.process"), ["filter.a.clean", "filter.a.smudge"]);
        assert_eq!(needed("filter.b.smudge"), ["filter.b.clean"]);
        assert_eq!(needed("merge.c.driver"), ["merge.c.driver"]);
    }

    #[test]
    fn l2_what_reaches_a_server_needs_an_approval_before_git_starts() {
        let ssh = [program("core.sshcommand", Use::Network)];
        for purpose in [Purpose::Fetch, Purpose::Push] {
            let refused = applied(purpose, &ssh).expect_err("not approved");
            assert!(matches!(refused, Refused::NotApproved(all) if all.len() == 1));
        }
        let read = applied(Purpose::Read, &ssh).expect("reads");
        let variables = read.variables(0);
        let offline = (OsString::from("GIT_ALLOW_PROTOCOL"), OsString::from(NO_PROTOCOL));
        assert!(
            variables.contains(&offline),
            "a partial clone fetches while reading"
        );
        assert!(read.needed(b"fatal: transport 'ssh' not allowed").is_some());
    }

    #[test]
    fn l2_only_a_push_runs_hooks() {
        let hooks = [program("core.hookspath", Use::Hooks)];
        applied(Purpose::Push, &hooks).expect_err("not approved");
        assert_eq!(
            value(&applied(Purpose::Push, &[]).expect("push"), "core.hooksPath"),
            None
        );
        for purpose in [Purpose::Read, Purpose::Content, Purpose::Fetch] {
            let judged = applied(purpose, &hooks).expect("no hooks");
            assert_eq!(value(&judged, "core.hooksPath"), Some(OsStr::new("/dev/null")));
        }
        let include = [program("include.path", Use::Include)];
        applied(Purpose::Read, &include).expect_err("nobody knows what is in it");
    }
}
