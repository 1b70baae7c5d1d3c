//! Checking and salvaging.
//!
//! - *Checking* (`jit validate`) reads every byte and compares, and changes nothing.
//! - *Salvaging* (`jit recover`) is for damage that neither the log nor the journal can repair. It deletes nothing: all
//!   files go to a backup, and a new segment begins that states the surviving state.

use std::collections::BTreeMap;
use std::io;

use jit_core::log::event::{Event, IssueAction, SegmentReason, Stamped};
use jit_core::log::line::{decode_line, encode_line};
use jit_core::log::table::{MemoryTable, Overlay, Table};
use jit_core::log::{fold, state};
use jit_core::model::actor::Actor;
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::time::Now;
use jit_core::query::claim_views;

use super::FileStore;
use super::lock_file::{LOCK, SUSPECT_AT, Slots};
use super::repair::{FOLD_EVERY, absorb};
use super::segments::{DIRS, Trust};
use crate::compressed;
use crate::disk::{DiskFile, OpenMode, open_if_there};
use crate::folded_state::{self, FoldedState};
use crate::journal::{Ground, Journal, ViewMarks};
use crate::log::{self, ReadRules};
use crate::port::{LogProblem, LogReport, Outcome, Recovered};
use crate::{claim_records, refusals, views};

/// The recovered log, before it replaces an unfinished next segment.
const RECOVERED: &str = "events/recovered.jsonl";

/// The log as [`FileStore::check_log`] read it.
struct CheckedLog {
    memory: MemoryTable,
    /// Its last sequence.
    end: u64,
    /// The length that `claims.jsonl` must have.
    claims_upto: u64,
    /// `claims.jsonl` has exactly the records of the log, up to there.
    claims_fine: bool,
}

fn problem(check: &'static str, message: String, heals: bool) -> LogProblem {
    LogProblem {
        check,
        message,
        heals,
        help: if heals {
            "any jit command that writes mends it".into()
        } else {
            "jit recover".into()
        },
    }
}

impl FileStore {
    /// Compares everything with the log, changing nothing. Takes the store's lock, so that nothing moves meanwhile.
    pub fn validate(&self, actor: &Actor) -> Outcome<LogReport> {
        let _guard = self.lock(actor)?;
        let now = self.now()?;
        let slots = self.slots()?;
        let mut report = LogReport::default();
        let log = self.open_log(OpenMode::Read)?;
        let journal = folded_state::read_journal(&*self.disk)
            .map_err(|e| self.io("read", folded_state::JOURNAL, &e))?;
        let covered = journal
            .as_ref()
            .map_or(0, |journal| journal.header.covers.sequence);
        let rules = Self::rules(slots, &now, covered);
        let checked = match self.check_log(&*log, rules, &mut report) {
            Ok(checked) => checked,
            Err(refusal) if refusal.code == Code::Damaged => {
                let heals = self
                    .picture(&*log, journal.as_ref(), rules)
                    .is_ok_and(|picture| picture.patched);
                report.problems.push(LogProblem {
                    // Everyday commands do not read that far back.
                    help: "jit recover".into(),
                    ..problem("log", refusal.message, heals)
                });
                return Ok(report);
            }
            Err(refusal) => return Err(refusal),
        };
        let memory = &checked.memory;
        let unreadable =
            |e: jit_core::log::table::Unreadable| Box::new(Refusal::new(Code::Io, e.to_string()));
        let leases = state::leases(memory).map_err(unreadable)?;
        report.leases = leases.len() as u64;
        report.issues = state::issues(memory).map_err(unreadable)?.len() as u64;
        self.check_state(memory, journal, checked.end, &mut report);
        let marks = folded_state::read_journal(&*self.disk)
            .ok()
            .flatten()
            .map_or_else(ViewMarks::default, |j| j.marks());
        self.check_views(memory, &marks, &mut report);
        self.check_claims(&checked, &marks, &mut report);
        Ok(report)
    }

    /// Reads every line of the log, folds it, and compares `claims.jsonl` on the way.
    fn check_log(&self, log: &dyn DiskFile, rules: ReadRules, report: &mut LogReport) -> Outcome<CheckedLog> {
        let picture = self.picture(log, None, rules)?;
        if picture.torn > 0 {
            let message = format!("{} bytes of an unfinished write at its end", picture.torn);
            report.problems.push(problem("log", message, true));
        }
        let segments = self.segments(picture.first)?;
        report.segments = segments.len() as u64;
        for segment in &segments {
            let stored = self
                .disk
                .meta(&segment.path)
                .ok()
                .flatten()
                .map_or(0, |meta| meta.len);
            report.bytes += stored;
            report.text += if segment.is_compressed() {
                self.open_sealed(segment)?.size().unwrap_or(stored)
            } else {
                stored
            };
        }
        let oldest = segments.first().map_or(picture.first, |segment| segment.first);
        let mut memory = MemoryTable::default();
        let mut waiting = Vec::new();
        let mut claims_upto =
            views::trusted_claims(&*self.disk, Ground::default(), oldest - 1).map_or(0, |(len, _)| len);
        let mut claims_fine = true;
        let mut records = Vec::new();
        self.replay(None, &picture, rules, &mut |line| {
            report.lines += 1;
            records.extend(claim_views::claims_record(&line.stamped).unwrap_or_default());
            if records.len() > 1 << 18 || line.stamped.sequence == picture.end.sequence {
                claims_fine &= views::claims_say(&*self.disk, claims_upto, &records).unwrap_or(false);
                claims_upto += records.len() as u64;
                records.clear();
            }
            waiting.push(line.stamped);
            if waiting.len() >= FOLD_EVERY {
                absorb(&mut memory, &mut waiting)
            } else {
                Ok(())
            }
        })?;
        absorb(&mut memory, &mut waiting).map_err(|trouble| self.trouble(log::ACTIVE, trouble))?;
        Ok(CheckedLog {
            memory,
            end: picture.end.sequence,
            claims_upto,
            claims_fine,
        })
    }

    fn check_claims(&self, checked: &CheckedLog, marks: &ViewMarks, report: &mut LogReport) {
        let meta = self.disk.meta(views::CLAIMS).ok().flatten();
        let len = meta.map_or(0, |meta| meta.len);
        if checked.claims_fine && len == checked.claims_upto {
            return;
        }
        let message = "claims.jsonl is missing, torn or was changed by somebody else".into();
        let mut found = problem("claims", message, true);
        if !views::claims_will_be_mended(&*self.disk, marks).unwrap_or(false) {
            // Everyday commands look only at its end.
            found.help = "jit recover".into();
        }
        report.problems.push(found);
    }

    fn check_state(&self, memory: &MemoryTable, journal: Option<Journal>, end: u64, report: &mut LogReport) {
        let mut problem = |message: String| {
            report.problems.push(LogProblem {
                check: "state",
                message,
                heals: true,
                help: "jit recover".into(),
            });
        };
        let Some(journal) = journal else {
            return problem("the journal is missing or unreadable".into());
        };
        let position = journal.position();
        let runs = match folded_state::open_runs(&*self.disk, &journal.header, true) {
            Ok(runs) => runs,
            Err(e) => return problem(e.to_string()),
        };
        let folded = FoldedState::from_runs(journal, runs);
        match folded.scan("", usize::MAX) {
            Err(e) => problem(e.to_string()),
            Ok(records) => {
                // Old requests may be missing; the journal may end before the last lines of a killed writer.
                let same = |k: &String| !k.starts_with("q/");
                let on_disk: std::collections::BTreeMap<_, _> =
                    records.into_iter().filter(|(k, _)| same(k)).collect();
                let expected = memory.0.iter().filter(|(k, _)| same(k));
                let differs = !expected.eq(on_disk.iter());
                if differs && position.sequence >= end {
                    problem("the folded state does not say what the log says".into());
                }
            }
        }
    }

    fn check_views(&self, memory: &MemoryTable, marks: &ViewMarks, report: &mut LogReport) {
        let mut problem = |check, message: &str| {
            report.problems.push(LogProblem {
                check,
                message: message.into(),
                heals: true,
                help: "any jit command that writes mends it".into(),
            });
        };
        match views::index_untouched(&*self.disk, marks) {
            Ok(true) => {
                let active = state::active_count(memory).unwrap_or(0);
                if active <= views::EXACT_UPTO && !views::index_says(&*self.disk, memory).unwrap_or(false) {
                    problem("index", "claims.index.json does not say what the log says");
                }
            }
            _ => problem(
                "index",
                "claims.index.json is missing or was changed by somebody else",
            ),
        }
    }

    /// Recovers as much as possible from a damaged log. The old files are moved to a backup, never deleted.
    pub fn salvage(&self, actor: &Actor) -> Outcome<Recovered> {
        for dir in DIRS {
            self.disk.make_dir(dir).map_err(|e| self.io("create", dir, &e))?;
        }
        let guard = self.lock(actor)?;
        let now = self.now()?;
        let slots = self.slots()?;
        let sound = self.repair(&now, slots, "", Trust::No).and_then(|mended| {
            let log = self.open_log(OpenMode::Read)?;
            let rules = Self::rules(slots, &now, 0);
            let picture = self.picture(&*log, None, rules)?;
            let mut lines = 0;
            self.replay(None, &picture, rules, &mut |_| {
                lines += 1;
                Ok(())
            })?;
            // The log is sound, so an unfinished next segment is a leftover.
            match self.disk.remove(log::NEXT) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => Err(self.io("remove", log::NEXT, &e)),
                _ => Ok(Recovered::Sound { lines, mended }),
            }
        });
        match sound {
            Err(refusal) if refusal.code == Code::Damaged => {}
            other => return other,
        }
        let mut records = BTreeMap::new();
        let (memory, last, lost) = self.survivors(&now, slots.synced, &mut records)?;
        state::refuse_newer(&memory).map_err(refusals::from_stop)?;
        // Tokens up to there were granted, even if nothing else is known of them.
        let last = last.max(slots.synced);
        let backup = self.fresh_backup(&now)?;
        let bytes = self.restatement(&memory, last, lost, &backup, &now, actor)?;
        // At any crash in between, either the damaged log is still there to be salvaged again, or all of it is in the
        // backup and the new one only lacks its name.
        let attempt = || -> io::Result<()> {
            claim_records::complete(&*self.disk, records, last, &backup)?;
            // Not in place: the file of an earlier recovery may be all that is left.
            self.write_durably(RECOVERED, &bytes)?;
            self.disk.rename(RECOVERED, log::NEXT)?;
            self.disk.sync_dir("events")?;
            let away = |path: String, name: &str| self.disk.rename(&path, &format!("{backup}/{name}"));
            for dir in ["state", "events"] {
                for name in self.disk.list(dir)? {
                    let path = format!("{dir}/{name}");
                    if path != log::ACTIVE && path != log::NEXT {
                        away(path, &name)?;
                    }
                }
                self.disk.sync_dir(dir)?;
            }
            if self.disk.meta(log::ACTIVE)?.is_some() {
                away(log::ACTIVE.to_owned(), "control.jsonl")?;
            }
            self.disk.sync_dir(&backup)?;
            self.disk.sync_dir("events")?;
            self.disk.rename(log::NEXT, log::ACTIVE)
        };
        attempt().map_err(|e| self.io("set aside", "events", &e))?;
        self.sync_names()?;
        Slots::write(guard.file(), SUSPECT_AT, 0).map_err(|e| self.io("write", LOCK, &e))?;
        self.repair(&now, self.slots()?, "", Trust::No)?;
        let count = |prefix: &str| {
            memory
                .scan(prefix, usize::MAX)
                .map_or(0, |found| found.len() as u64)
        };
        Ok(Recovered::Salvaged {
            backup: self.disk.show(&backup).display().to_string(),
            lost,
            leases: count("L/"),
            issues: count("i/"),
        })
    }

    /// A directory for the old files that has never been used before.
    fn fresh_backup(&self, now: &Now) -> Outcome<String> {
        let name = format!("backup-{}", now.wall.to_string().replace([':', '.'], "-"));
        let attempt = || -> io::Result<String> {
            let mut path = name.clone();
            let mut n = 1;
            while self.disk.meta(&path)?.is_some() {
                n += 1;
                path = format!("{name}-{n}");
            }
            self.disk.make_dir(&path)?;
            self.disk.sync_dir("")?;
            Ok(path)
        };
        attempt().map_err(|e| self.io("create", &name, &e))
    }

    /// The state of all readable lines, the highest sequence, and the number of lost lines. If the folded state is sound,
    /// it is the better source: it includes lines that can no longer be read. `records` gets the claim records of the lines.
    fn survivors(
        &self,
        now: &Now,
        synced: u64,
        records: &mut BTreeMap<u64, Vec<u8>>,
    ) -> Outcome<(MemoryTable, u64, u64)> {
        let mut memory = MemoryTable::default();
        let mut known = 0;
        if let Ok(Some(journal)) = folded_state::read_journal(&*self.disk)
            && let Ok(runs) = folded_state::open_runs(&*self.disk, &journal.header, true)
        {
            let position = journal.position();
            if let Ok(records) = FoldedState::from_runs(journal, runs).scan("", usize::MAX) {
                memory.0 = records.into_iter().collect();
                known = position.sequence;
            }
        }
        let (mut last, mut lost) = (0u64, 0u64);
        let mut waiting = Vec::new();
        let mut paths: Vec<String> = self.sealed()?.into_iter().map(|segment| segment.path).collect();
        paths.extend([log::ACTIVE.to_owned(), log::NEXT.to_owned()]);
        for path in paths {
            let file = open_if_there(&*self.disk, &path).map_err(|e| self.io("open", &path, &e))?;
            let Some(file) = file else {
                continue;
            };
            let mut bytes = self.read_active(&*file)?;
            if path.ends_with(".gz") {
                bytes = compressed::readable(&bytes);
            }
            // The next segment counts if it is complete. Then it is from an earlier, interrupted recovery and has all
            // of the state; an incomplete one has less than the files it was made from. It does not count if the log
            // has grown since.
            if path == log::NEXT {
                let seen = last.max(known).max(synced);
                let first = log::first_if_whole(&bytes).map_err(|e| self.io("read", &path, &e))?;
                if first.is_none_or(|first| first <= seen) {
                    continue;
                }
            }
            for text in bytes.split(|b| *b == b'\n').filter(|text| !text.is_empty()) {
                match decode_line(text) {
                    Ok(line) if line.stamped.sequence > last => {
                        lost += line.stamped.sequence - last - 1;
                        last = line.stamped.sequence;
                        records
                            .extend(claim_views::claims_record(&line.stamped).map(|record| (last, record)));
                        if last > known {
                            waiting.push(line.stamped);
                        }
                    }
                    _ => {}
                }
                if waiting.len() >= FOLD_EVERY {
                    absorb(&mut memory, &mut waiting).map_err(|trouble| self.trouble(&path, trouble))?;
                }
            }
        }
        absorb(&mut memory, &mut waiting).map_err(|trouble| self.trouble(log::ACTIVE, trouble))?;
        let before = memory.clone();
        let mut overlay = Overlay::new(&before);
        if state::anchor(&before)
            .ok()
            .flatten()
            .is_none_or(|anchor| anchor.boot_id != now.boot)
        {
            fold::reanchor(&mut overlay, &now.boot, now.ticks, now.wall)
                .map_err(|e| Box::new(Refusal::new(Code::Io, e.to_string())))?;
        }
        memory.absorb(overlay.changes);
        Ok((memory, last.max(known), lost))
    }

    /// The new first segment: the surviving state as events.
    fn restatement(
        &self,
        memory: &MemoryTable,
        last: u64,
        lost: u64,
        backup: &str,
        now: &Now,
        actor: &Actor,
    ) -> Outcome<Vec<u8>> {
        let unreadable =
            |e: jit_core::log::table::Unreadable| Box::new(Refusal::new(Code::Io, e.to_string()));
        let mut events = vec![
            Event::SegmentStarted {
                reason: SegmentReason::Recovered,
            },
            Event::LogRecovered {
                lost,
                backup: backup.to_owned(),
            },
            Event::Boot {
                boot: now.boot.clone(),
                ticks: now.ticks,
            },
        ];
        restate_issues(memory, &mut events).map_err(unreadable)?;
        for unit in state::units(memory).map_err(unreadable)? {
            events.push(Event::Unit {
                input: jit_core::model::unit::UnitInput::CreateWorktree,
                unit: Box::new(unit),
            });
        }
        for account in state::accounts(memory).map_err(unreadable)? {
            events.push(Event::Account {
                did: jit_core::model::account::AccountAction::Parked,
                account: Box::new(account),
            });
        }
        for session in state::sessions(memory).map_err(unreadable)? {
            events.push(Event::SessionStarted { session });
        }
        let mut leases = state::leases(memory).map_err(unreadable)?;
        leases.sort_by_key(|lease| lease.token);
        events.extend(leases.into_iter().map(|lease| Event::Restored { lease }));
        let total = u32::try_from(events.len()).unwrap_or(u32::MAX);
        let (mut bytes, mut sum) = (Vec::new(), 0);
        for (n, event) in events.into_iter().enumerate() {
            let line = Stamped {
                sequence: last + 1 + n as u64,
                at: now.wall,
                actor: actor.clone(),
                request: None,
                part: (n as u32 + 1, total),
                event,
            };
            sum = encode_line(&mut bytes, &line, 0, sum);
        }
        Ok(bytes)
    }
}

/// Every issue, deleted ones too, with its comments and gate results.
fn restate_issues(
    memory: &MemoryTable,
    events: &mut Vec<Event>,
) -> Result<(), jit_core::log::table::Unreadable> {
    for issue in [state::issues(memory)?, state::tombstones(memory)?].concat() {
        let sheet = state::sheet(memory, &issue.id)?;
        let id = issue.id.clone();
        events.push(Event::Issue {
            did: IssueAction::Restored,
            issue,
            sheet,
        });
        for comment in state::comments(memory, &id)? {
            events.push(Event::Commented {
                issue_id: id.clone(),
                comment,
            });
        }
        for (gate, result) in state::gate_results(memory, &id)? {
            events.push(Event::GateJudged {
                issue_id: id.clone(),
                gate,
                result,
            });
        }
    }
    Ok(())
}
