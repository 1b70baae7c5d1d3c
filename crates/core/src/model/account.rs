//! Accounts of agents: the provider of a model refuses an account, not a unit (G13).
//!
//! An account is an agent's name and perhaps a word beside it, for users with several: `claude`, `claude/work`. The log
//! has a row for each that was ever refused. What must hold:
//!
//! - a refusal parks its account until the time that was named, or for a while that doubles with each refusal in a row;
//!   never longer than [`LONGEST_MS`], whatever was said;
//! - refusals at the same time count once: an attempt that began before an account was parked is no new sign;
//! - starts on an account that was refused are further apart, up to [`WIDEST_MS`], and come together again while it is
//!   quiet: one step for each [`QUIET_MS`] ([`Account::gap_ms`]);
//! - a person can unpark it (`decide/accounts.rs`); the number of its refusals stays known.
//!
//! Limitations: two names for the same credentials are two accounts.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::model::ids::UnitId;
use crate::model::plan::Settings;
use crate::model::refusal::{Code, Details, Refusal};
use crate::model::time::Wall;

/// No account is parked for longer at once.
pub const LONGEST_MS: u64 = 7 * 86_400_000;
/// The longest pause where no time was named.
pub const LONGEST_BACKOFF_MS: u64 = 1_800_000;
/// No two starts are kept further apart.
pub const WIDEST_MS: u64 = 300_000;
/// A step back for each such time without a refusal.
pub const QUIET_MS: u64 = 600_000;
/// Doubling begins with this where the plan keeps starts not apart at all.
const NARROWEST_MS: u64 = 500;
/// Doublings beyond this make no difference.
const MOST_DOUBLINGS: u32 = 20;
/// Characters of what was said that are kept.
const WHY: usize = 300;

/// Longest name, in bytes.
const MAX_NAME: usize = 80;

/// An agent's name, and perhaps a word: `claude`, `claude/work`.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub struct AccountId(String);

/// The text names no account.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an account such as claude or claude/work")]
pub struct BadAccount(String);

/// Whether a word can tell accounts of an agent apart.
pub fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text.len() < MAX_NAME / 2
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

impl FromStr for AccountId {
    type Err = BadAccount;

    fn from_str(text: &str) -> Result<Self, BadAccount> {
        let (agent, word) = text.split_once('/').unwrap_or((text, "x"));
        match is_word(agent) && is_word(word) {
            true => Ok(Self(text.to_owned())),
            false => Err(BadAccount(text.chars().take(MAX_NAME).collect())),
        }
    }
}

impl TryFrom<String> for AccountId {
    type Error = BadAccount;
    fn try_from(text: String) -> Result<Self, BadAccount> {
        text.parse()
    }
}

impl From<AccountId> for String {
    fn from(id: AccountId) -> String {
        id.0
    }
}

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AccountId {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The account that an agent is run with. `None` where no agent is named.
    pub fn of(run: &Settings) -> Option<Self> {
        let agent = run.agent.as_deref()?;
        match run.account.as_deref().filter(|word| !word.is_empty()) {
            Some(word) => format!("{agent}/{word}").parse().ok(),
            None => agent.parse().ok(),
        }
    }
}

/// An event of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccountAction {
    Parked,
    Unparked,
}

/// An account that was refused, as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Account {
    pub id: AccountId,
    /// No agent is started on it before then.
    pub until: Option<Wall>,
    /// The message of the refusal.
    pub why: String,
    /// The time was named by whoever refused.
    pub named: bool,
    /// Refusals, all of them.
    pub hits: u64,
    /// Refusals in a row that count, at the time of the last one: see [`Account::pressure`].
    pub level: u32,
    /// Since when it is parked, or was the last time.
    pub since: Wall,
    pub last_hit: Wall,
    /// The unit that was refused last.
    pub unit: Option<UnitId>,
    pub attempt: u32,
    /// When somebody was last started on it, as far as it was known to be in need of rest.
    #[serde(default)]
    pub last_start: Option<Wall>,
    /// When a person last lifted it.
    #[serde(default)]
    pub lifted_at: Option<Wall>,
}

/// An agent was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    pub account: AccountId,
    /// When it may be asked again, if that was said. May be anything.
    pub until: Option<Wall>,
    pub why: String,
    pub unit: Option<UnitId>,
    pub attempt: u32,
    /// How long to leave it alone after the first refusal, where no time was named.
    pub backoff_ms: u64,
    /// The agent waits by itself and asks again.
    pub waits: bool,
}

/// A parked account as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Parked {
    pub account: AccountId,
    pub until: Wall,
    pub why: String,
    pub hits: u64,
    pub last_hit: Wall,
    pub unit: Option<UnitId>,
}

impl Account {
    /// Until when nobody is started on it, if it is parked now.
    pub fn parked(&self, now: Wall) -> Option<Wall> {
        // A clock that was set back does not park it for longer than it was meant to be.
        self.until
            .filter(|until| *until > now && now >= self.since.minus_ms(LONGEST_MS))
    }

    /// How much it was refused lately: one for each refusal in a row, less one for each quiet while since.
    pub fn pressure(&self, now: Wall) -> u32 {
        // While it is parked nobody asks, so that says nothing.
        let since = self.until.map_or(self.last_hit, |until| until.max(self.last_hit));
        let quiet = u64::try_from(now.ms().saturating_sub(since.ms())).unwrap_or(0) / QUIET_MS;
        self.level
            .saturating_sub(u32::try_from(quiet).unwrap_or(u32::MAX))
    }

    /// How far apart two starts on it are kept, where `usual` is what the plan says.
    pub fn gap_ms(&self, usual: u64, now: Wall) -> u64 {
        match self.pressure(now) {
            0 => usual,
            n => usual
                .max(NARROWEST_MS)
                .saturating_mul(1 << n.min(MOST_DOUBLINGS))
                .min(WIDEST_MS)
                .max(usual),
        }
    }

    pub fn shown(&self, now: Wall) -> Option<Parked> {
        Some(Parked {
            account: self.id.clone(),
            until: self.parked(now)?,
            why: self.why.clone(),
            hits: self.hits,
            last_hit: self.last_hit,
            unit: self.unit.clone(),
        })
    }
}

/// The account after a refusal.
pub fn after(before: Option<&Account>, hit: &Hit, now: Wall) -> Account {
    let parked = before.and_then(|account| account.parked(now));
    let pressure = before.map_or(0, |account| account.pressure(now));
    let same = before.is_some_and(|account| {
        hit.unit.is_some() && account.unit == hit.unit && account.attempt == hit.attempt
    });
    let together = parked.is_some() || same;
    let level = match together {
        true => pressure.max(1),
        false => pressure.saturating_add(1).min(MOST_DOUBLINGS),
    };
    let named = hit
        .until
        .filter(|until| *until > now)
        .map(|until| until.min(now.plus_ms(LONGEST_MS)));
    let backoff = hit
        .backoff_ms
        .max(1)
        .saturating_mul(1 << (level - 1))
        .min(LONGEST_BACKOFF_MS.max(hit.backoff_ms))
        .min(LONGEST_MS);
    // A time that the provider named holds; our own guess does not make it longer.
    let until = match (named, parked) {
        (Some(named), parked) => parked.map_or(named, |until| until.max(named)),
        // It waited by itself, and gave up.
        (None, Some(until)) if same => until.max(now.plus_ms(backoff)),
        (None, Some(until)) => until,
        (None, None) => now.plus_ms(backoff),
    };
    Account {
        id: hit.account.clone(),
        until: Some(until),
        why: hit.why.chars().take(WHY).collect(),
        named: named.is_some() || (parked.is_some() && before.is_some_and(|account| account.named)),
        hits: before.map_or(0, |account| account.hits).saturating_add(1),
        level,
        since: match (parked, before) {
            (Some(_), Some(account)) => account.since,
            _ => now,
        },
        last_hit: now,
        unit: hit.unit.clone(),
        attempt: hit.attempt,
        last_start: before.and_then(|account| account.last_start),
        lifted_at: before.and_then(|account| account.lifted_at),
    }
}

/// The refusal that whoever starts an agent by hand gets.
pub fn refusal(account: &Account, until: Wall, now: Wall, help: String) -> Refusal {
    let left = u64::try_from(until.ms().saturating_sub(now.ms())).unwrap_or(0);
    Refusal::new(
        Code::Parked,
        format!(
            "the account {} is parked until {until} ({} left): {}",
            account.id,
            crate::model::refusal::left(left),
            account.why
        ),
    )
    .details(Details::Facts(vec![
        ("account", account.id.to_string()),
        ("until", until.to_string()),
        ("retry_after_secs", left.div_ceil(1000).to_string()),
    ]))
    .help(help)
    .help(format!("jit worktree unpark {}", account.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wall(secs: i64) -> Wall {
        Wall::from_ms(1_767_441_600_000 + secs * 1000)
    }

    fn hit(unit: &str, until: Option<Wall>) -> Hit {
        Hit {
            account: "claude".parse().expect("an account"),
            until,
            why: "429".into(),
            unit: Some(unit.parse().expect("a unit")),
            attempt: 1,
            backoff_ms: 60_000,
            waits: false,
        }
    }

    /// The attempt after that one.
    fn again(unit: &str, attempt: u32, until: Option<Wall>) -> Hit {
        Hit {
            attempt: attempt + 1,
            ..hit(unit, until)
        }
    }

    #[test]
    fn g13_accounts_have_names_that_can_stand_anywhere() {
        for good in ["claude", "claude/work", "codex/a.b-c_9"] {
            assert_eq!(good.parse::<AccountId>().expect(good).as_str(), good);
        }
        let long = "x".repeat(100);
        for bad in ["", "/", "claude/", "/x", "a/b/c", "a b", "ä", "a\n", &long] {
            assert!(bad.parse::<AccountId>().is_err(), "{bad:?}");
        }
        let mut run = Settings::default();
        assert_eq!(AccountId::of(&run), None);
        run.agent = Some("codex".into());
        assert_eq!(AccountId::of(&run).map(String::from).as_deref(), Some("codex"));
        run.account = Some("two".into());
        assert_eq!(
            AccountId::of(&run).map(String::from).as_deref(),
            Some("codex/two")
        );
    }

    #[test]
    fn g13_a_named_time_counts_and_is_bounded() {
        let parked = after(None, &hit("a", Some(wall(20))), wall(0));
        assert_eq!((parked.until, parked.named), (Some(wall(20)), true));
        assert_eq!(parked.parked(wall(19)), Some(wall(20)));
        assert_eq!(parked.parked(wall(20)), None);
        for hostile in [Wall::from_ms(i64::MAX), wall(400 * 86_400)] {
            let parked = after(None, &hit("a", Some(hostile)), wall(0));
            assert_eq!(parked.until, Some(wall(0).plus_ms(LONGEST_MS)));
        }
        // A time that has passed is no time.
        for past in [Wall::from_ms(i64::MIN), wall(-5), wall(0)] {
            let parked = after(None, &hit("a", Some(past)), wall(0));
            assert_eq!((parked.until, parked.named), (Some(wall(60)), false));
        }
    }

    #[test]
    fn g13_without_a_time_the_pause_doubles_and_those_refused_together_count_once() {
        let mut account = after(None, &hit("a", None), wall(0));
        account = after(Some(&account), &hit("b", None), wall(1));
        account = after(Some(&account), &hit("c", None), wall(2));
        assert_eq!(
            (account.until, account.level, account.hits),
            (Some(wall(60)), 1, 3)
        );
        let mut now = 0;
        for pause in [120, 240, 480, 960, 1800, 1800, 1800] {
            now = account.until.expect("parked").ms() / 1000 - wall(0).ms() / 1000;
            account = after(Some(&account), &again("a", account.attempt, None), wall(now));
            assert_eq!(account.until, Some(wall(now + pause)), "{pause}");
        }
        // After a long quiet time it begins anew.
        account = after(
            Some(&account),
            &again("a", account.attempt, None),
            wall(now + 1_000_000),
        );
        assert_eq!(account.until, Some(wall(now + 1_000_060)));
        assert_eq!(account.hits, 11);
        // A later time that is named makes it longer, an earlier one does not make it shorter.
        let at = now + 1_000_000;
        let longer = after(Some(&account), &hit("b", Some(wall(at + 600))), wall(at + 1));
        assert_eq!(longer.until, Some(wall(at + 600)));
        let same = after(Some(&longer), &hit("c", Some(wall(at + 30))), wall(at + 2));
        assert_eq!((same.until, same.since), (Some(wall(at + 600)), wall(at)));
    }

    #[test]
    fn g13_an_agent_that_waits_by_itself_is_one_refusal() {
        let waits = |until| Hit {
            waits: true,
            ..hit("a", Some(wall(until)))
        };
        let first = after(None, &waits(2), wall(0));
        let second = after(Some(&first), &waits(8), wall(3));
        assert_eq!((second.level, second.until), (1, Some(wall(8))));
        // It gave up: then it is left alone for a while, and that is the same refusal.
        let gave_up = after(Some(&second), &hit("a", None), wall(4));
        assert_eq!((gave_up.level, gave_up.until), (1, Some(wall(64))));
        let other = Hit {
            attempt: 2,
            ..waits(20)
        };
        assert_eq!(after(Some(&second), &other, wall(9)).level, 2);
    }

    #[test]
    fn g13_starts_are_further_apart_after_refusals_and_come_together_again_while_it_is_quiet() {
        let mut account = after(None, &hit("a", Some(wall(1))), wall(0));
        assert_eq!(account.gap_ms(2000, wall(1)), 4000);
        assert_eq!(account.gap_ms(0, wall(1)), 1000);
        for n in 1..40 {
            let next = again("a", account.attempt, Some(wall(2 * n + 1)));
            account = after(Some(&account), &next, wall(2 * n));
            let gap = account.gap_ms(2000, wall(2 * n));
            assert!((4000..=WIDEST_MS).contains(&gap), "{gap}");
            assert!(account.gap_ms(0, wall(2 * n)) <= gap);
        }
        assert_eq!(account.gap_ms(2000, wall(80)), WIDEST_MS);
        // The gap of the plan is never undercut, not even by the bound.
        assert_eq!(account.gap_ms(WIDEST_MS * 3, wall(80)), WIDEST_MS * 3);
        let quiet = i64::try_from(QUIET_MS / 1000).expect("a number");
        let mut last = u64::MAX;
        for n in 0..30 {
            let gap = account.gap_ms(2000, wall(80 + n * quiet));
            assert!(gap <= last, "{n}");
            last = gap;
        }
        assert_eq!(last, 2000);
        // A clock that was set back changes nothing for the worse.
        assert!(account.gap_ms(2000, wall(-100_000)) <= WIDEST_MS);
    }

    #[test]
    fn g13_a_clock_that_was_set_back_far_does_not_park_for_ever() {
        let account = after(None, &hit("a", Some(wall(60))), wall(0));
        assert!(account.parked(wall(-30)).is_some());
        assert!(account.parked(wall(-30 * 86_400)).is_none());
    }
}
