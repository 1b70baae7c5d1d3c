//! A reference model of leases: the rules in their simplest form, to compare the store's decisions with.
//!
//! One map from issue to its present lease and its last ended one; no events, no indexes, no table. Written from the
//! rules and not from the code that it checks:
//!
//! - An issue has one holder: an agent in a worktree. A holder that acquires again gets the same lease.
//! - The holder may change its lease; the agent that it is held on behalf of may do so from any worktree.
//! - A lease expires when `deadline <= now.ticks`; the wall clock decides nothing, except at a reboot: then every deadline
//!   becomes now + clamp(expires_at - wall, 0, ttl).
//! - Renewing an expired lease grants it again, with a new token, unless another agent acquired it since.
//! - The token of a grant is its position in the log, so the model counts log lines: one for each grant, renewal,
//!   end and boot, and one for each expiry when a command that writes detects it.
//! - Refusals and answers that change nothing write nothing.

use std::collections::HashMap;

use jit_core::model::time::{Now, Wall};

/// Longest lease, in seconds.
pub const MAX_TTL: u64 = 30 * 24 * 3600;

/// An agent and its worktree.
pub type Who<'a> = (&'a str, Option<&'a str>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub lease: String,
    pub agent: String,
    pub worktree: Option<String>,
    pub boss: Option<String>,
    pub token: u64,
    pub ttl_secs: u64,
    pub deadline: u64,
    pub expires_at: Wall,
}

impl Holder {
    pub fn lapsed(&self, now: &Now) -> bool {
        now.ticks >= self.deadline
    }

    fn is(&self, who: Who<'_>) -> bool {
        (self.agent.as_str(), self.worktree.as_deref()) == who
    }

    fn obeys(&self, who: Who<'_>) -> bool {
        self.is(who) || self.boss.as_deref() == Some(who.0)
    }

    fn may_be_released_by(&self, who: Who<'_>) -> bool {
        self.obeys(who) || self.agent == who.0
    }

    fn start(&mut self, ttl_secs: u64, now: &Now) {
        self.ttl_secs = ttl_secs;
        self.deadline = now.ticks + ttl_secs * 1000;
        self.expires_at = now.wall.plus_secs(ttl_secs);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    Released,
    Lapsed,
    Evicted,
    HandedOver,
}

/// The answer to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    Granted,
    /// The caller held it already, or an automatic renewal came too early.
    Existing,
    Regranted,
    Renewed,
    Transferred,
    Released,
    /// It had expired, so there was nothing to release.
    AlreadyReleased,
    Evicted,
    Held,
    NotHolder,
    NotAllowed,
    NotFound,
    Closed,
    Invalid,
}

impl Outcome {
    /// Whether the command appended to the log.
    pub fn writes(self) -> bool {
        matches!(
            self,
            Self::Granted
                | Self::Regranted
                | Self::Renewed
                | Self::Transferred
                | Self::Released
                | Self::Evicted
        )
    }
}

/// A lease, named by its own id or by its issue.
#[derive(Debug, Clone, Copy)]
pub enum By<'a> {
    Lease(&'a str),
    Issue(&'a str),
}

#[derive(Debug, Clone, Default)]
pub struct Slot {
    /// `task`, `activity`, …
    pub kind: String,
    pub closed: bool,
    pub holder: Option<Holder>,
    /// The last holder, and why its lease ended.
    pub last: Option<(Holder, Why)>,
}

#[derive(Debug, Clone, Default)]
pub struct Model {
    pub issues: HashMap<String, Slot>,
    /// Lines in the log.
    pub lines: u64,
    pub agents_may_evict: bool,
}

/// An issue, its holder, and its last holder.
type Found = (String, Option<Holder>, Option<(Holder, Why)>);

/// The default duration in seconds.
fn default_ttl(kind: &str, agent: &str) -> u64 {
    match (kind, agent.split(':').next()) {
        ("activity", Some("human")) => 8 * 3600,
        ("activity", Some("agent")) => 3600,
        ("task", Some("human")) => 4 * 3600,
        ("task", Some("agent")) => 1800,
        (_, Some("human")) => 8 * 3600,
        _ => 600,
    }
}

fn bad_ttl(secs: u64) -> bool {
    secs == 0 || secs > MAX_TTL
}

impl Model {
    pub fn add_issue(&mut self, id: &str, kind: &str, closed: bool) {
        self.lines += 1;
        let slot = Slot {
            kind: kind.to_owned(),
            closed,
            ..Slot::default()
        };
        self.issues.insert(id.to_owned(), slot);
    }

    /// The holder of an issue, unless its lease expired.
    pub fn live(&self, issue: &str, now: &Now) -> Option<&Holder> {
        let holder = self.issues.get(issue)?.holder.as_ref()?;
        (!holder.lapsed(now)).then_some(holder)
    }

    fn end(&mut self, issue: &str, why: Why) {
        if let Some(slot) = self.issues.get_mut(issue)
            && let Some(holder) = slot.holder.take()
        {
            slot.last = Some((holder, why));
            self.lines += 1;
        }
    }

    /// Records expiries that no command had detected.
    fn note_lapses(&mut self, now: &Now) {
        let lapsed = |slot: &Slot| slot.holder.as_ref().is_some_and(|h| h.lapsed(now));
        let issues: Vec<String> = self
            .issues
            .iter()
            .filter(|(_, slot)| lapsed(slot))
            .map(|(issue, _)| issue.clone())
            .collect();
        for issue in issues {
            self.end(&issue, Why::Lapsed);
        }
    }

    fn grant(&mut self, issue: &str, mut holder: Holder) {
        self.lines += 1;
        holder.token = self.lines;
        if let Some(slot) = self.issues.get_mut(issue) {
            slot.holder = Some(holder);
        }
    }

    /// The lease of a name: a lease id means only that lease, an issue its present one. An expired lease counts as ended,
    /// detected or not.
    fn find(&self, by: By<'_>, now: &Now) -> Result<Found, Outcome> {
        let seen = |slot: &Slot| match &slot.holder {
            Some(holder) if holder.lapsed(now) => (None, Some((holder.clone(), Why::Lapsed))),
            holder => (holder.clone(), slot.last.clone()),
        };
        match by {
            By::Issue(issue) => {
                let (holder, last) = seen(self.issues.get(issue).ok_or(Outcome::NotFound)?);
                Ok((issue.to_owned(), holder, last))
            }
            By::Lease(id) => {
                for (issue, slot) in &self.issues {
                    let (holder, last) = seen(slot);
                    let last = last.filter(|(last, _)| last.lease == id);
                    match &holder {
                        Some(holder) if holder.lease == id => {
                            return Ok((issue.clone(), Some(holder.clone()), None));
                        }
                        // Another agent holds it now.
                        Some(_) if last.is_some() => return Err(Outcome::NotHolder),
                        None if last.is_some() => return Ok((issue.clone(), None, last)),
                        _ => {}
                    }
                }
                Err(Outcome::NotFound)
            }
        }
    }

    pub fn acquire(
        &mut self,
        issue: &str,
        who: Who<'_>,
        boss: Option<&str>,
        ttl_secs: Option<u64>,
        fresh: &str,
        now: &Now,
    ) -> Outcome {
        let Some(slot) = self.issues.get(issue) else {
            return Outcome::NotFound;
        };
        if slot.closed {
            return Outcome::Closed;
        }
        // Acquiring an activity also appends to the changelog.
        let noted = u64::from(slot.kind == "activity");
        let ttl_secs = ttl_secs.unwrap_or_else(|| default_ttl(&slot.kind, who.0));
        if bad_ttl(ttl_secs) {
            return Outcome::Invalid;
        }
        match self.live(issue, now) {
            Some(holder) if holder.is(who) => return Outcome::Existing,
            Some(_) => return Outcome::Held,
            None => {}
        }
        self.note_lapses(now);
        let mut holder = Holder {
            lease: fresh.to_owned(),
            agent: who.0.to_owned(),
            worktree: who.1.map(str::to_owned),
            boss: boss.map(str::to_owned),
            token: 0,
            ttl_secs: 0,
            deadline: 0,
            expires_at: now.wall,
        };
        holder.start(ttl_secs, now);
        self.grant(issue, holder);
        self.lines += noted;
        Outcome::Granted
    }

    pub fn renew(
        &mut self,
        by: By<'_>,
        who: Who<'_>,
        ttl_secs: Option<u64>,
        if_half_gone: bool,
        now: &Now,
    ) -> Outcome {
        let (issue, holder, last) = match self.find(by, now) {
            Ok(found) => found,
            Err(outcome) => return outcome,
        };
        let (mut holder, held) = match (holder, last) {
            (Some(holder), _) if holder.obeys(who) => (holder, true),
            (Some(_), _) => return Outcome::NotHolder,
            (None, Some((last, Why::Lapsed))) if last.obeys(who) => (last, false),
            (None, Some((last, _))) if last.obeys(who) => return Outcome::NotHolder,
            (None, _) => return Outcome::NotFound,
        };
        let new_ttl = ttl_secs.unwrap_or(holder.ttl_secs);
        if bad_ttl(new_ttl) {
            return Outcome::Invalid;
        }
        if held {
            let left = holder.deadline - now.ticks;
            if if_half_gone && left > holder.ttl_secs * 500 {
                return Outcome::Existing;
            }
            holder.start(new_ttl, now);
            self.lines += 1;
            if let Some(slot) = self.issues.get_mut(&issue) {
                slot.holder = Some(holder);
            }
            self.note_lapses(now);
            return Outcome::Renewed;
        }
        // Its own expiry is recorded first, then it is granted again.
        self.end(&issue, Why::Lapsed);
        holder.start(new_ttl, now);
        self.grant(&issue, holder);
        self.note_lapses(now);
        Outcome::Regranted
    }

    pub fn release(&mut self, by: By<'_>, who: Who<'_>, now: &Now) -> Outcome {
        let (issue, holder, last) = match self.find(by, now) {
            Ok(found) => found,
            Err(outcome) => return outcome,
        };
        match (holder, last) {
            (Some(holder), _) if !holder.may_be_released_by(who) => Outcome::NotHolder,
            (Some(_), _) => {
                self.end(&issue, Why::Released);
                self.note_lapses(now);
                Outcome::Released
            }
            (None, Some((last, Why::Lapsed))) if last.may_be_released_by(who) => Outcome::AlreadyReleased,
            _ => Outcome::NotFound,
        }
    }

    pub fn transfer(
        &mut self,
        by: By<'_>,
        who: Who<'_>,
        to: &str,
        worktree: Option<&str>,
        fresh: &str,
        now: &Now,
    ) -> Outcome {
        let (issue, holder) = match self.find(by, now) {
            Ok((issue, Some(holder), _)) => (issue, holder),
            Ok((_, None, _)) => return Outcome::NotFound,
            Err(outcome) => return outcome,
        };
        if !holder.obeys(who) {
            return Outcome::NotHolder;
        }
        let worktree = worktree.map(str::to_owned).or(holder.worktree.clone());
        if holder.agent == to && holder.worktree == worktree {
            return Outcome::Invalid;
        }
        let mut new = Holder {
            lease: fresh.to_owned(),
            agent: to.to_owned(),
            worktree,
            ..holder.clone()
        };
        new.start(holder.ttl_secs, now);
        // One line records both: the end of the old lease and the start of the new one.
        if let Some(slot) = self.issues.get_mut(&issue) {
            slot.holder = None;
            slot.last = Some((holder, Why::HandedOver));
        }
        self.grant(&issue, new);
        self.note_lapses(now);
        Outcome::Transferred
    }

    pub fn force_evict(&mut self, by: By<'_>, who: Who<'_>, reason: &str, now: &Now) -> Outcome {
        if who.0.starts_with("agent:") && !self.agents_may_evict {
            return Outcome::NotAllowed;
        }
        if reason.trim().is_empty() {
            return Outcome::Invalid;
        }
        match self.find(by, now) {
            Ok((issue, Some(_), _)) => {
                self.end(&issue, Why::Evicted);
                self.note_lapses(now);
                Outcome::Evicted
            }
            Ok((_, None, _)) => Outcome::NotFound,
            Err(outcome) => outcome,
        }
    }

    /// The machine was rebooted, and this is the first command since.
    pub fn reboot(&mut self, now: &Now) {
        self.lines += 1;
        for holder in self.issues.values_mut().filter_map(|slot| slot.holder.as_mut()) {
            let left = (holder.expires_at.ms() - now.wall.ms()).max(0) as u64;
            holder.deadline = now.ticks + left.min(holder.ttl_secs * 1000);
        }
    }
}

#[cfg(test)]
mod tests {
    use jit_core::model::time::BootId;

    use super::*;

    fn at(ticks: u64) -> Now {
        Now {
            wall: Wall::from_ms(1_000_000 + ticks as i64),
            boot: BootId("b".into()),
            ticks,
        }
    }

    const A: Who<'static> = ("agent:a", Some("wt:00000001"));
    const B: Who<'static> = ("agent:b", Some("wt:00000001"));

    /// The model is small, but a wrong reference is worse than none.
    #[test]
    fn the_story_of_one_lease() {
        let mut model = Model::default();
        model.add_issue("i", "task", false);
        let issue = By::Issue("i");
        assert_eq!(
            model.acquire("i", A, None, Some(10), "1", &at(0)),
            Outcome::Granted
        );
        assert_eq!(
            model.acquire("i", A, None, Some(10), "2", &at(1)),
            Outcome::Existing
        );
        assert_eq!(model.acquire("i", B, None, None, "2", &at(9_999)), Outcome::Held);
        assert_eq!(model.renew(issue, A, None, true, &at(4_999)), Outcome::Existing);
        assert_eq!(model.renew(issue, A, None, true, &at(5_000)), Outcome::Renewed);
        assert_eq!(model.renew(issue, B, None, false, &at(20_000)), Outcome::NotFound);
        assert_eq!(
            model.renew(issue, A, None, false, &at(20_000)),
            Outcome::Regranted
        );
        // issue, grant, renewal, lapse, grant
        assert_eq!(model.live("i", &at(20_000)).map(|h| h.token), Some(5));
        assert_eq!(
            model.transfer(issue, A, "agent:b", None, "3", &at(20_001)),
            Outcome::Transferred
        );
        assert_eq!(model.release(By::Lease("1"), A, &at(20_002)), Outcome::NotHolder);
        model.reboot(&at(5));
        assert_eq!(
            model.live("i", &at(5)).map(|h| h.deadline),
            Some(10_005),
            "never more than its TTL"
        );
        assert_eq!(
            model.acquire("i", A, None, None, "4", &at(10_005)),
            Outcome::Granted
        );
        assert_eq!(model.live("i", &at(10_005)).map(|h| h.token), Some(9));
        assert_eq!(
            model.force_evict(issue, B, "why", &at(10_006)),
            Outcome::NotAllowed
        );
    }
}
