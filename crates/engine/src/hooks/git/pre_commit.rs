//! The hook pre-commit: only jit or the holder of an issue changes the issue's files (C2).
//!
//! A staged file of an issue passes in these cases:
//! - Its issue is new: not in HEAD, and held by nobody else.
//! - A merge, cherry-pick or rebase in progress brought it: it is the same as in the other commit.
//! - jit wrote exactly this `issue.json`, by its digest. A command wrote it (in the log) or the merge driver (in
//!   `jit-merged`).
//! - It is a set or the comments file, no line of either side of a merge is lost, and jit or one side has every line.
//! - It is removed together with an issue that was deleted.
//! - It is a description, or comments that only grew: neither needs a lease, here as anywhere.
//!
//! Any other change needs the committer's lease on the issue. `worktree.enforce_leases` decides about a commit
//! without it: strict and strict-explicit refuse, warn warns, off passes. `worktree.mode = "off"` disables the check.
//! A commit is judged by the settings that are committed on its target, never by those that it brings
//! (`settings_that_judge`).
//!
//! An issue whose id differs from another one's only in case (`case_twins`) is refused, unless a merge brought it. Upper
//! or lower case of other names below `.jit/` does not matter: `.JIT/Issues/…` is judged as `.jit/issues/…`.
//!
//! Cost: one call of git for the list. If files of jit changed, a few more for the settings, one for all contents and
//! one read of the state; one for the names of issues if files are new. No process is started per file.
//!
//! Limitation: suppose a command brought a hand edit into the log, and jit then wrote the file again with some other
//! change. From then on the edit counts as written by jit.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use jit_core::issue_files::format::{COMMENTS, DEPS, DESCRIPTION, ISSUE, LABELS, MAX_FILE};
use jit_core::log::state;
use jit_core::log::table::Table;
use jit_core::model::ids::IssueId;
use jit_core::model::issue::text_digest;
use jit_core::model::lease::{Lease, Resource};
use jit_core::model::policy::Enforce;
use jit_core::model::refusal::{Code, Details, Refusal, left};
use jit_git::{GitEnv, Place};
use jit_os::file;
use jit_store::{Outcome, View};

use super::staged::{self, Kind, Staged};
use super::{case_twins, global, locked};
use crate::api::Options;
use crate::config::{Config, Mode};
use crate::context::{Context, Surroundings};
use crate::gates::committed_policy::settings_that_judge;
use crate::hooks::git::MERGED;
use crate::issues::lineage;
use crate::ports::{Files, Texts};
use crate::refusals::{no_place, refuse};
use crate::worktree_identity::identity::Need;

/// The number of issues that one refusal names.
const SHOWN: usize = 5;

/// Checks the staged changes. Returns warnings, or refuses the commit with the reason.
pub fn check(options: &Options) -> Outcome<Vec<String>> {
    let dir = options.dir.as_deref().unwrap_or(Path::new("."));
    let place = Place::discover(dir, &GitEnv::from_process()).map_err(no_place)?;
    if !place.control_dir.is_dir() && !place.local_jit.as_deref().is_some_and(Path::is_dir) {
        // The folder of hooks is shared by many repositories.
        return Ok(Vec::new());
    }
    let staged = staged::all(&place)?;
    let ours: Vec<&Staged> = staged.iter().filter(|one| one.is_ours()).collect();
    if staged.is_empty() {
        return Ok(Vec::new());
    }
    let found = Surroundings::at(place, options);
    let cx = found.and_then(|found| crate::opening::within(found, options, Need::Read));
    let cx = match cx {
        Ok(cx) => cx,
        // A failure of jit must not block a commit that touches none of jit's files.
        Err(refusal) if ours.is_empty() => return Ok(vec![refusal.message.clone()]),
        Err(refusal) => return Err(refusal),
    };
    let rules = match ours.is_empty() {
        true => cx.config.clone(),
        false => settings_that_judge(&cx)?,
    };
    if rules.mode() == Mode::Off {
        return Ok(Vec::new());
    }
    let parents = Parents::of(&cx.place);
    let is_joining = parents.is_joining();
    let judge = || -> Outcome<Vec<String>> {
        let mut warnings = locked::refuse_locked_paths(&cx, &rules, &staged)?;
        if !ours.is_empty() {
            warnings.extend(check_ours(&cx, &rules, &ours, parents)?);
        }
        Ok(warnings)
    };
    let judged = match judge() {
        // A log that cannot be read must not block them either.
        Err(refusal) if ours.is_empty() && refusal.code != Code::NotHolder => {
            Ok(vec![refusal.message.clone()])
        }
        judged => judged,
    };
    judged.map_err(|mut refusal: Box<Refusal>| {
        // In a merge this command would drop one of the two sides.
        refusal
            .help
            .retain(|help| !is_joining || !help.starts_with("git restore --staged"));
        refusal
    })
}

/// A file that needs a closer check.
struct Doubt<'a> {
    staged: &'a Staged,
    /// The path by which the file is judged.
    path: PathBuf,
    id: IssueId,
    name: OsString,
}

/// An issue that was edited by hand, with the first such file.
struct Edited<'a> {
    id: IssueId,
    staged: &'a Staged,
    /// The issue is not in HEAD.
    is_new: bool,
}

impl<'a> Doubt<'a> {
    /// A description needs no lease. Of the new files only those matter that jit reads.
    fn of(staged: &'a Staged, id: IssueId) -> Option<Self> {
        let path = staged.judged_path();
        let name = path.iter().nth(3).unwrap_or_default().to_owned();
        let is_read = [ISSUE, LABELS, DEPS, COMMENTS].iter().any(|one| name == *one);
        let is_doubtful = name != DESCRIPTION && (is_read || staged.old.is_some());
        is_doubtful.then_some(Self {
            staged,
            path,
            id,
            name,
        })
    }

    /// The name of the issue's main file in HEAD.
    fn in_head(&self) -> Vec<u8> {
        let folder: PathBuf = self.path.iter().take(3).collect();
        in_parent("HEAD", &folder.join(ISSUE))
    }
}

fn check_ours(cx: &Context, rules: &Config, ours: &[&Staged], parents: Parents) -> Outcome<Vec<String>> {
    let (mut doubts, mut globals) = (Vec::new(), Vec::new());
    for staged in ours.iter().filter(|one| one.old != one.new) {
        match staged.kind() {
            Kind::Issue(id, _) => doubts.extend(Doubt::of(staged, id)),
            Kind::Global => globals.push(*staged),
            Kind::Other => {}
        }
    }
    if doubts.is_empty() && globals.is_empty() {
        return Ok(Vec::new());
    }
    let blobs = Blobs::load(cx, &doubts, &globals, parents)?;
    let merged = merged(&cx.place);
    let is_merged = |staged: &Staged| merged.contains(&text_digest(blobs.of(staged.new.as_ref())));
    globals.retain(|staged| !blobs.is_parents(staged) && !is_merged(staged));
    global::refuse_misplaced(cx, rules, &globals)?;
    doubts.retain(|doubt| !blobs.is_parents(doubt.staged));
    let new = || doubts.iter().filter(|doubt| doubt.staged.old.is_none());
    case_twins::refuse_in_index(cx, new().map(|doubt| &doubt.id))?;
    if doubts.is_empty() || rules.enforce_leases() == Enforce::Off {
        return Ok(Vec::new());
    }
    let view = crate::write_path::view(cx)?;
    case_twins::refuse_in_log(&view, new().map(|doubt| &doubt.id))?;
    let mut writer = Writer {
        table: &*view.table,
        texts: &*cx.texts,
        merged,
        files: HashMap::new(),
    };
    let mut edited: BTreeMap<String, Edited<'_>> = BTreeMap::new();
    for doubt in &doubts {
        if !edited.contains_key(&doubt.id.key()) && !writer.wrote(doubt, &blobs)? {
            let one = Edited {
                id: doubt.id.clone(),
                staged: doubt.staged,
                is_new: !blobs.is_there(&doubt.in_head()),
            };
            edited.insert(doubt.id.key(), one);
        }
    }
    require_leases(cx, rules, &view, edited.into_values())
}

/// The other commits of a merge, cherry-pick or rebase in progress.
struct Parents {
    /// The whole content of these commits belongs into the new commit.
    merged: Vec<String>,
    /// Only the changes of these commits belong into the new commit.
    picked: Vec<String>,
}

impl Parents {
    fn of(place: &Place) -> Self {
        let named = |name: &str| -> Vec<String> {
            let path = place.git_dir.as_ref().map(|git_dir| git_dir.join(name));
            let text = path.and_then(|path| std::fs::read_to_string(path).ok());
            let lines = text.iter().flat_map(|text| text.lines().map(str::trim));
            lines.filter(|line| is_commit(line)).map(str::to_owned).collect()
        };
        // Git calls the hook for a merge without conflict before `MERGE_HEAD` exists.
        let mut merged = named("MERGE_HEAD");
        merged.extend(lineage::merging().into_iter().filter(|head| is_commit(head)));
        let picked = [named("CHERRY_PICK_HEAD"), named("REBASE_HEAD")].concat();
        Self { merged, picked }
    }

    fn all(&self) -> impl Iterator<Item = &String> {
        self.merged.iter().chain(&self.picked)
    }

    fn is_joining(&self) -> bool {
        self.all().next().is_some()
    }
}

fn is_commit(name: &str) -> bool {
    matches!(name.len(), 40 | 64) && name.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Returns the digests of the merge driver's results in this worktree.
fn merged(place: &Place) -> HashSet<String> {
    let path = place.git_dir.as_ref().map(|git_dir| git_dir.join(MERGED));
    let bytes = path.and_then(|path| file::read_real(&path, MAX_FILE).ok().flatten());
    let text = String::from_utf8_lossy(bytes.as_deref().unwrap_or_default()).into_owned();
    text.lines().map(str::to_owned).collect()
}

/// Contents by the name under which they were requested; `None` if there is no such object.
struct Blobs {
    content: HashMap<Vec<u8>, Option<(String, Vec<u8>)>>,
    parents: Parents,
}

fn in_parent(parent: &str, path: &Path) -> Vec<u8> {
    [parent.as_bytes(), b":", path.as_os_str().as_bytes()].concat()
}

impl Blobs {
    /// Loads all contents that the check needs, in one call of git.
    fn load(cx: &Context, doubts: &[Doubt<'_>], globals: &[&Staged], parents: Parents) -> Outcome<Self> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        let doubted = doubts.iter().map(|doubt| doubt.staged);
        for staged in doubted.chain(globals.iter().copied()) {
            let both = staged.new.iter().chain(&staged.old);
            names.extend(both.map(|hex| hex.clone().into_bytes()));
            names.extend(parents.all().map(|parent| in_parent(parent, &staged.path)));
        }
        names.extend(doubts.iter().map(Doubt::in_head));
        let mut blobs = Self {
            content: HashMap::new(),
            parents,
        };
        let Some(git) = staged::git(&cx.place).filter(|_| !names.is_empty()) else {
            return Ok(blobs);
        };
        let mut input = names.join(&0);
        input.push(0);
        let answer = git
            .args(["cat-file", "--batch", "-z"])
            .stdin(input)
            .run()
            .map_err(|e| refuse(Code::Io, e))?;
        let mut rest = answer.as_slice();
        for name in names {
            blobs.content.insert(name.clone(), next_blob(&name, &mut rest)?);
        }
        Ok(blobs)
    }

    fn is_there(&self, name: &[u8]) -> bool {
        self.content.get(name).is_some_and(Option::is_some)
    }

    fn of(&self, hex: Option<&String>) -> &[u8] {
        let found = hex.and_then(|hex| self.content.get(hex.as_bytes())?.as_ref());
        found.map_or(&[], |(_, content)| content)
    }

    /// Returns the parents' versions of this path.
    fn of_parents<'a>(
        &'a self,
        parents: impl Iterator<Item = &'a String>,
        path: &Path,
    ) -> impl Iterator<Item = Option<&'a (String, Vec<u8>)>> {
        parents.filter_map(|parent| self.content.get(&in_parent(parent, path)).map(Option::as_ref))
    }

    /// Returns whether one of the parents has exactly the staged content.
    fn is_parents(&self, staged: &Staged) -> bool {
        self.of_parents(self.parents.all(), &staged.path)
            .any(|theirs| theirs.map(|(hex, _)| hex) == staged.new.as_ref())
    }

    /// Returns the lines of the parents' versions of this path.
    fn lines_of<'a>(
        &'a self,
        parents: impl Iterator<Item = &'a String>,
        staged: &Staged,
    ) -> HashSet<&'a [u8]> {
        let found = self.of_parents(parents, &staged.path).flatten();
        found.flat_map(|(_, content)| lines(content)).collect()
    }
}

/// Parses one answer of `git cat-file --batch`: a line `<hex> blob <length>`, the content and a newline. For a
/// missing object the answer repeats its name.
fn next_blob(name: &[u8], rest: &mut &[u8]) -> Outcome<Option<(String, Vec<u8>)>> {
    let missing = [name, b" missing\n"].concat();
    if let Some(after) = rest.strip_prefix(missing.as_slice()) {
        *rest = after;
        return Ok(None);
    }
    let odd = || refuse(Code::Io, "git cat-file answered something unexpected");
    let end = rest.iter().position(|b| *b == b'\n').ok_or_else(odd)?;
    let (line, after) = rest.split_at_checked(end).ok_or_else(odd)?;
    let line = String::from_utf8_lossy(line).into_owned();
    let mut words = line.split(' ');
    let (hex, length) = (words.next(), words.nth(1).and_then(|word| word.parse().ok()));
    let (hex, length): (&str, usize) = hex.zip(length).ok_or_else(odd)?;
    let content = after.get(1..=length).ok_or_else(odd)?;
    *rest = after.get(length + 2..).ok_or_else(odd)?;
    Ok(Some((hex.to_owned(), content.to_vec())))
}

/// Knows the contents that jit wrote.
struct Writer<'a> {
    table: &'a dyn Table,
    texts: &'a dyn Texts,
    merged: HashSet<String>,
    /// The files of each issue as they would be written now; `None` for issues that the log does not have.
    files: HashMap<String, Option<Files>>,
}

impl Writer<'_> {
    fn wrote(&mut self, doubt: &Doubt<'_>, blobs: &Blobs) -> Outcome<bool> {
        let unreadable = |e| refuse(Code::Io, e);
        let id = &doubt.id;
        let new = blobs.of(doubt.staged.new.as_ref());
        if doubt.staged.path.iter().count() != 4 {
            return Ok(false);
        }
        let Some(name) = doubt.name.to_str() else {
            return Ok(false);
        };
        if doubt.staged.new.is_none() {
            // A deleted issue loses all files except `issue.json`, which records the deletion.
            return Ok(name != ISSUE && state::was_deleted(self.table, &id.key()).map_err(unreadable)?);
        }
        match name {
            ISSUE => {
                let digest = text_digest(new);
                Ok(self.merged.contains(&digest)
                    || state::wrote_file(self.table, id, &digest).map_err(unreadable)?)
            }
            LABELS | DEPS | COMMENTS => {
                let old = lines(blobs.of(doubt.staged.old.as_ref()));
                let staged = lines(new);
                let merged = blobs.lines_of(blobs.parents.merged.iter(), doubt.staged);
                if !old.is_subset(&staged) || !merged.is_subset(&staged) {
                    return Ok(false);
                }
                if name == COMMENTS {
                    return Ok(true);
                }
                let theirs = blobs.lines_of(blobs.parents.all(), doubt.staged);
                let ours = self.lines_of(id, name)?;
                let known =
                    |line: &&[u8]| old.contains(line) || theirs.contains(line) || ours.contains(*line);
                Ok(staged.iter().all(known))
            }
            _ => Ok(false),
        }
    }

    /// Returns the lines of one of an issue's files as jit has them.
    fn lines_of(&mut self, id: &IssueId, name: &str) -> Outcome<HashSet<Vec<u8>>> {
        if !self.files.contains_key(&id.key()) {
            let issue = state::issue_or_tombstone(self.table, id).map_err(|e| refuse(Code::Io, e))?;
            let files = match issue {
                Some(issue) => Some(
                    self.texts
                        .files(self.table, &issue)
                        .map_err(|e| refuse(Code::Io, e))?,
                ),
                None => None,
            };
            self.files.insert(id.key(), files);
        }
        let files = self.files.get(&id.key()).and_then(Option::as_ref);
        let content = files.and_then(|files| files.iter().find(|(given, _)| *given == name));
        let content = content.map_or(&[][..], |(_, content)| content);
        Ok(lines(content).into_iter().map(<[u8]>::to_vec).collect())
    }
}

fn lines(content: &[u8]) -> HashSet<&[u8]> {
    content
        .split(|b| *b == b'\n')
        .filter(|line| !line.is_empty())
        .collect()
}

/// Refuses edited issues on which the committer holds no lease, or warns about them.
fn require_leases<'a>(
    cx: &Context,
    rules: &Config,
    view: &View,
    edited: impl Iterator<Item = Edited<'a>>,
) -> Outcome<Vec<String>> {
    let warn = rules.enforce_leases() == Enforce::Warn;
    let mut missing = Vec::new();
    let policy = crate::context::calling_agent::with_sessions(cx, &cx.policy);
    let policy = policy.as_ref().unwrap_or(&cx.policy);
    let is_rivals = |lease: &Lease| policy.rival_session(lease, &cx.actor.agent_id).is_some();
    for Edited { id, staged, is_new } in edited {
        let key = Resource::Issue(id.clone()).key();
        let lease = state::lease_on(&*view.table, &key)
            .map_err(|e| refuse(Code::Io, e))?
            .filter(|lease| !lease.expired(&view.now));
        match lease {
            Some(lease) if lease.obeys(&cx.actor) && !is_rivals(&lease) => {}
            None if is_new => {}
            lease => missing.push((id, staged, lease)),
        }
    }
    let sentence = |(id, staged, lease): &(IssueId, &Staged, Option<Lease>)| {
        let who = match lease {
            Some(lease) => format!(
                "{} holds {id}{} until {} ({} left)",
                lease.agent_id,
                lease
                    .worktree_id
                    .as_ref()
                    .map_or(String::new(), |worktree| format!(" in {worktree}")),
                lease.expires_at,
                left(lease.remaining_ms(&view.now))
            ),
            None => format!("nobody holds {id}"),
        };
        format!("{} was not written by jit, and {who}", staged.path.display())
    };
    if warn {
        return Ok(missing.iter().map(sentence).collect());
    }
    let Some((_, first, lease)) = missing.first() else {
        return Ok(Vec::new());
    };
    let mut message: Vec<String> = missing.iter().take(SHOWN).map(sentence).collect();
    if missing.len() > SHOWN {
        message.push(format!("and {} issues more", missing.len() - SHOWN));
    }
    let code = match lease {
        Some(_) => Code::NotHolder,
        None => Code::LeaseRequired,
    };
    let mut refusal = Refusal::new(code, message.join("\n"));
    for (id, _, lease) in missing.iter().take(SHOWN) {
        refusal = refusal.help(match lease {
            Some(lease) => format!(
                "jit claim acquire {id} --wait {}s",
                lease.remaining_ms(&view.now).div_ceil(1000)
            ),
            None => format!("jit claim acquire {id}"),
        });
    }
    refusal = refusal.help(format!(
        "git restore --staged {}",
        jit_os::shell::shell_word(&first.path.to_string_lossy())
    ));
    if let Some(lease) = lease {
        refusal = refusal.details(Details::Lease(Box::new(lease.clone())));
    }
    Err(Box::new(refusal))
}
