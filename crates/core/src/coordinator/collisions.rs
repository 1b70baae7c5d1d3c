//! Units of a workflow that would write to the same paths.
//!
//! What must hold:
//!
//! - of two units of a workflow that say that they write to the same place, one begins when the other has landed, has
//!   failed for good or waits for a person: they never run at the same time;
//! - a unit never waits for one that waits itself: the holder of a place goes on without help, so two never wait for each
//!   other;
//! - a unit that does not say where it writes waits for no other here.
//!
//! Limitations: the paths of a unit without `writes` are not known before it changes them, so only those it has changed
//! count.

use super::{AgentStatus, Collision, CoordinatorInput, Occupied, PlanMember, UnitStanding};
use crate::model::glob::Pattern;
use crate::model::unit::Phase;

/// Whether everything that `inner` means is meant by `outer`. No is said too often rather than yes.
fn covers(outer: &Pattern, inner: &Pattern) -> bool {
    if outer == inner || outer.as_str() == "**" {
        return true;
    }
    if !inner.is_glob() && !inner.is_dir() {
        return outer.matches(inner.literal_prefix());
    }
    if outer.is_glob() || !outer.is_dir() {
        return false;
    }
    let folder = outer.literal_prefix().trim_end_matches('/');
    let rest = inner.literal_prefix().strip_prefix(folder);
    rest.is_some_and(|rest| rest.starts_with('/') || (rest.is_empty() && !inner.is_glob()))
}

impl CoordinatorInput<'_> {
    /// Where a unit of the plan says that it writes.
    pub(super) fn scope(&self, n: usize) -> Vec<Pattern> {
        let planned = self.plan.units.get(n);
        let texts = planned.map_or(&[][..], |unit| &unit.writes);
        // A plan was checked before it is run.
        texts
            .iter()
            .filter_map(|text| Pattern::parse(text).ok())
            .collect()
    }

    /// A unit of this workflow with the place it takes.
    pub(super) fn taking(&self, n: usize) -> Occupied {
        let declared = self.scope(n);
        let member = self.members.get(n);
        Occupied {
            by: member.map_or_else(String::new, |member| member.id.to_string()),
            paths: match declared.is_empty() {
                true => member.map_or_else(Vec::new, |member| member.touched.clone()),
                false => declared,
            },
            until: None,
        }
    }

    /// Places that are taken: by what runs, what is on its way to the target, and what will be tried again. What waits for
    /// a person holds nobody up.
    pub(super) fn occupied(&self, standings: &[UnitStanding]) -> Vec<Occupied> {
        if self.plan.units.iter().all(|unit| unit.writes.is_empty()) {
            return Vec::new();
        }
        let holds = |n: &usize| {
            let member: &PlanMember = &self.members[*n];
            let begun = self.own(member).is_some_and(|unit| !unit.is_over());
            let goes_on = matches!(standings.get(*n), Some(UnitStanding::Busy | UnitStanding::Again));
            member.seen == AgentStatus::Running || (begun && goes_on)
        };
        let own = (0..self.members.len()).filter(holds).map(|n| self.taking(n));
        own.chain(self.facts.others.iter().cloned()).collect()
    }

    /// The unit or lock that keeps a unit from beginning.
    pub(super) fn collision(&self, n: usize, taken: &[Occupied]) -> Option<Collision> {
        let scope = self.scope(n);
        let member = self.members.get(n).filter(|_| !scope.is_empty())?;
        let found = |by: &Occupied, path: &Pattern| Collision {
            unit: member.id.clone(),
            with: by.by.clone(),
            path: path.to_string(),
            until: by.until,
        };
        for other in taken.iter().filter(|other| other.by != member.id.as_str()) {
            let meets = |path: &&Pattern| scope.iter().any(|own| own.overlaps(path));
            if let Some(path) = other.paths.iter().find(meets) {
                return Some(found(other, path));
            }
        }
        let worker = self.own(member).and_then(|unit| unit.worker.as_ref());
        let own = |lock: &&Occupied| worker.is_none_or(|worker| lock.by != worker.as_str());
        for lock in self.facts.locks.iter().filter(own) {
            let keeps = |path: &&Pattern| scope.iter().any(|own| covers(path, own));
            if let Some(path) = lock.paths.iter().find(keeps) {
                return Some(found(lock, path));
            }
        }
        None
    }

    /// Which units could begin, were it not for somebody in their way.
    pub fn collisions(&self) -> Vec<Collision> {
        if self.facts.cancelled || self.plan.units.iter().all(|unit| unit.writes.is_empty()) {
            return Vec::new();
        }
        let standings = self.standings();
        let taken = self.occupied(&standings);
        let open = |n: &usize| standings.get(*n) == Some(&UnitStanding::Open);
        let at_rest = |n: &usize| {
            let unit = self.own(&self.members[*n]);
            unit.is_none_or(|unit| unit.is_over() || unit.state == Phase::Ready)
        };
        (0..self.members.len())
            .filter(|n| open(n) && at_rest(n))
            .filter_map(|n| self.collision(n, &taken))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::covers;
    use crate::model::glob::Pattern;

    #[test]
    fn g15_a_lock_covers_what_lies_in_it_and_nothing_else() {
        for (outer, inner, yes) in [
            ("src/", "src/a.rs", true),
            ("src/", "src/**", true),
            ("src/", "src/", true),
            ("src/", "src2/**", false),
            ("src/", "s*/a", false),
            ("src/a.rs", "src/**", false),
            ("src/a.rs", "src/a.rs", true),
            ("src/*.rs", "src/a.rs", true),
            ("src/*.rs", "src/*.rs", true),
            (".", "anything/**", true),
        ] {
            let pattern = |text: &str| Pattern::parse(text).expect("a pattern");
            assert_eq!(covers(&pattern(outer), &pattern(inner)), yes, "{outer} {inner}");
        }
    }
}
