//! Names of things, parsed once at the edge and trusted afterwards.
//!
//! Invariants (each has a test below):
//! - every id that exists has passed its parser; a value read from a file goes through the same parser;
//! - no id contains a control character, so none can forge a line of a log or a terminal escape;
//! - [`AgentId::file_name`] is one safe path component whatever the agent is called, and two different agents
//!   never share one, not even on a file system that ignores case;
//! - issue ids are compared without regard to case through [`IssueId::key`], and stored as they were first written.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};
use smol_str::{SmolStr, ToSmolStr as _, format_smolstr};

/// Why a text is not an id. The sentence is meant for the person who typed it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {shown} is not valid: {why}")]
pub struct BadId {
    what: &'static str,
    shown: String,
    why: String,
}

impl BadId {
    fn new(what: &'static str, text: &str, why: impl Into<String>) -> Self {
        // Quoted and shortened: the text came from outside and may be anything.
        let mut shown: String = text.chars().take(40).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        Self {
            what,
            shown: format!("{shown:?}"),
            why: why.into(),
        }
    }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, schemars::JsonSchema)]
        #[serde(try_from = "SmolStr")]
        #[schemars(with = "String")]
        pub struct $name(SmolStr);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&self.0)
            }
        }
        impl TryFrom<SmolStr> for $name {
            type Error = BadId;
            fn try_from(text: SmolStr) -> Result<Self, BadId> {
                text.parse()
            }
        }
    };
}

/// One that was an id when it was put away: lists take out ten thousand of them.
macro_rules! unpacked {
    ($($name:ident),+) => { $(
        impl $name {
            pub(crate) fn unpacked(text: &str) -> Self {
                Self(text.into())
            }
        }
    )+ };
}
unpacked!(AgentId, IssueId, WorktreeId);

text_id! {
    /// An agent, a person or a program that acts: `{kind}:{name}`, such as `agent:copilot-1`, `human:alice` or `ci:nightly`.
    AgentId
}
text_id! {
    /// An issue, by the id its author gave (`WI-001-A1`) or by a generated one.
    IssueId
}
text_id! {
    /// A place in a queue: a ULID in its canonical upper-case form.
    TicketId
}
text_id! {
    /// A unit of work: letters, digits, `-`, `_` and `.`, as it can stand in a path and in a branch.
    UnitId
}
text_id! {
    /// A workflow: units that are worked through together. Made like a unit's name.
    WorkflowId
}
text_id! {
    /// An agent's session: `sess-` and eight letters or digits.
    SessionId
}
text_id! {
    /// A lease: a ULID in its canonical upper-case form.
    LeaseId
}
text_id! {
    /// A worktree: `wt:` and eight lower-case hex digits.
    WorktreeId
}
text_id! {
    /// Chosen by the caller (or made up for it) so that repeating a write finds the first attempt's success.
    RequestId
}

/// Longest agent id, in bytes. Long enough for `human:` plus any login name in use.
pub const MAX_AGENT_ID: usize = 128;
/// Longest issue id, in bytes: it is a folder name on every file system.
pub const MAX_ISSUE_ID: usize = 64;
/// Fewest characters of an issue id that may stand for the whole of it.
pub const MIN_PREFIX: usize = 4;

/// Characters that a terminal or a log would act on, or that nobody can see.
pub fn is_unprintable(c: char) -> bool {
    // Besides control characters: line and paragraph separators, and the marks that reorder text on a terminal.
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{200b}'..='\u{200f}')
}

/// Other characters that are not shown at all, or change how others are: soft hyphens, fillers, joiners, variation selectors,
/// annotations, tags. In names and titles they have their uses.
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{00ad}' | '\u{034f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

impl FromStr for AgentId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let bad = |why: &str| Err(BadId::new("agent id", text, why));
        if text.len() > MAX_AGENT_ID {
            return bad(&format!("it is longer than {MAX_AGENT_ID} bytes"));
        }
        let Some((kind, name)) = text.split_once(':') else {
            return bad("it must look like kind:name, for example agent:copilot-1 or human:alice");
        };
        let mut letters = kind.bytes();
        if !letters.next().is_some_and(|b| b.is_ascii_lowercase())
            || !letters.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
        {
            return bad("the part before ':' must be a lower-case word such as agent, human or ci");
        }
        if name.trim().is_empty() {
            return bad("the part after ':' is empty");
        }
        if name.trim() != name {
            return bad("it begins or ends with a space");
        }
        if name.chars().any(is_unprintable) {
            return bad("it contains control or invisible characters");
        }
        Ok(Self(text.into()))
    }
}

impl AgentId {
    /// The part before the colon.
    pub fn kind(&self) -> &str {
        self.0.split_once(':').map_or("", |(kind, _)| kind)
    }

    /// The part after the colon.
    pub fn name(&self) -> &str {
        self.0.split_once(':').map_or("", |(_, name)| name)
    }

    /// One path component that stands for this agent and for no other.
    ///
    /// Lower-case letters, digits, `-` and `_` stay; every other byte becomes `%` and two hex digits, so neither
    /// `/` nor `..` survives and `agent:A` and `agent:a` differ even where the file system ignores case. A name
    /// that grows past 150 bytes is cut and gets a hash of the whole id instead.
    pub fn file_name(&self) -> String {
        let mut out = String::with_capacity(self.0.len() + 8);
        for byte in self.0.bytes() {
            match byte {
                b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => out.push(char::from(byte)),
                _ => out.push_str(&format!("%{byte:02x}")),
            }
        }
        if out.len() > 150 {
            let hash = xxhash_rust::xxh3::xxh3_128(self.0.as_bytes());
            out.truncate(110);
            out.push_str(&format!("~{hash:032x}"));
        }
        out
    }
}

impl FromStr for IssueId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let bad = |why: &str| Err(BadId::new("issue id", text, why));
        if text.is_empty() {
            return bad("it is empty");
        }
        if text.len() > MAX_ISSUE_ID {
            return bad(&format!("it is longer than {MAX_ISSUE_ID} characters"));
        }
        if !text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        {
            return bad("only letters, digits, '-', '_' and '.' are allowed");
        }
        if !text.as_bytes()[0].is_ascii_alphanumeric() {
            return bad("it must begin with a letter or a digit");
        }
        // Lists parse ten thousand of them: the rarer the question, the later.
        let stem = match text.bytes().position(|b| b == b'.') {
            Some(_) if text.ends_with('.') || text.contains("..") => {
                return bad("it must not end with '.' or contain '..'");
            }
            Some(dot) => &text[..dot],
            None => text,
        };
        let begins = |words: &[&str]| {
            words
                .iter()
                .any(|word| stem.get(..3).is_some_and(|head| head.eq_ignore_ascii_case(word)))
        };
        let reserved = match stem.len() {
            3 => begins(&["con", "prn", "aux", "nul"]),
            4 => begins(&["com", "lpt"]) && stem.as_bytes()[3].is_ascii_digit(),
            _ => false,
        };
        if reserved {
            return bad("that name is reserved by some operating systems");
        }
        if text.len() == 26 && ulid::Ulid::from_string(text).is_ok() {
            return bad("it looks like the id of a lease");
        }
        Ok(Self(text.into()))
    }
}

impl IssueId {
    /// The key that ids are compared by: they are unique without regard to case.
    pub fn key(&self) -> String {
        self.0.to_ascii_lowercase()
    }

    /// How its [`Self::key`] compares with another, without making it.
    pub fn cmp_key(&self, key: &str) -> std::cmp::Ordering {
        self.0
            .bytes()
            .map(|byte| byte.to_ascii_lowercase())
            .cmp(key.bytes())
    }

    /// A new id from 64 random bits: ten characters that cannot be taken for a number, a word or each other.
    pub fn generate(entropy: u64) -> Self {
        const FIRST: &[u8] = b"abcdefghjkmnpqrstvwxyz";
        const REST: &[u8] = b"0123456789abcdefghjkmnpqrstvwxyz";
        let mut rest = entropy;
        let mut text = String::with_capacity(10);
        text.push(char::from(FIRST[(rest % FIRST.len() as u64) as usize]));
        rest /= FIRST.len() as u64;
        for _ in 0..9 {
            text.push(char::from(REST[(rest % 32) as usize]));
            rest /= 32;
        }
        Self(text.into())
    }
}

/// Text that names an issue: a whole id or the beginning of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct IssuePrefix(String);

impl TryFrom<String> for IssuePrefix {
    type Error = BadId;
    fn try_from(text: String) -> Result<Self, BadId> {
        text.parse()
    }
}

impl From<IssuePrefix> for String {
    fn from(prefix: IssuePrefix) -> String {
        prefix.0
    }
}

impl FromStr for IssuePrefix {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        if text.is_empty() {
            return Err(BadId::new("issue id", text, "it is empty"));
        }
        if text.len() > MAX_ISSUE_ID
            || !text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        {
            return Err(BadId::new(
                "issue id",
                text,
                "only letters, digits, '-', '_' and '.' are allowed",
            ));
        }
        Ok(Self(text.into()))
    }
}

impl IssuePrefix {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Lower case, as ids are compared.
    pub fn key(&self) -> String {
        self.0.to_ascii_lowercase()
    }

    /// Whether this is long enough to stand for a longer id; shorter ones name only themselves.
    pub fn may_abbreviate(&self) -> bool {
        self.0.len() >= MIN_PREFIX
    }
}

impl FromStr for LeaseId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        match ulid::Ulid::from_string(text) {
            Ok(ulid) => Ok(Self(ulid.to_smolstr())),
            Err(_) => Err(BadId::new("lease id", text, "it must be a ULID of 26 characters")),
        }
    }
}

impl LeaseId {
    /// A ULID from a wall-clock time in milliseconds and 80 random bits.
    pub fn generate(wall_ms: i64, entropy: u128) -> Self {
        let ms = u64::try_from(wall_ms).unwrap_or(0);
        Self(ulid::Ulid::from_parts(ms, entropy).to_smolstr())
    }

    /// The id `n` places on.
    #[must_use]
    pub fn plus(&self, n: u64) -> Self {
        let own = ulid::Ulid::from_string(&self.0).map_or(0, |ulid| ulid.0);
        Self(ulid::Ulid(own.wrapping_add(u128::from(n))).to_smolstr())
    }
}

impl FromStr for TicketId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        match ulid::Ulid::from_string(text) {
            Ok(ulid) => Ok(Self(ulid.to_smolstr())),
            Err(_) => Err(BadId::new("ticket", text, "it must be a ULID of 26 characters")),
        }
    }
}

impl TicketId {
    /// A ULID from a wall-clock time in milliseconds and 80 random bits.
    pub fn generate(wall_ms: i64, entropy: u128) -> Self {
        let ms = u64::try_from(wall_ms).unwrap_or(0);
        Self(ulid::Ulid::from_parts(ms, entropy).to_smolstr())
    }
}

/// A name that can stand in a path and in a branch.
fn require_name(what: &'static str, text: &str) -> Result<(), BadId> {
    const LONGEST: usize = 80;
    let bad = |why: &str| Err(BadId::new(what, text, why));
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if text.is_empty() || text.len() > LONGEST {
        return bad("it must be 1 to 80 characters long");
    }
    if !text.bytes().all(fits) || !text.as_bytes()[0].is_ascii_alphanumeric() {
        return bad("it is made of letters, digits, '-', '_' and '.', and begins with a letter or digit");
    }
    if text.contains("..") || text.ends_with('.') || text.ends_with(".lock") {
        return bad("it cannot be part of a branch's name");
    }
    Ok(())
}

impl FromStr for UnitId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        require_name("unit", text)?;
        Ok(Self(text.into()))
    }
}

impl FromStr for WorkflowId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        require_name("workflow", text)?;
        Ok(Self(text.into()))
    }
}

impl UnitId {
    /// A name made of some text, such as an issue's id or a title.
    pub fn slug(text: &str) -> Option<Self> {
        let mut slug = String::new();
        for c in text.chars() {
            if c.is_ascii_alphanumeric() {
                slug.push(c.to_ascii_lowercase());
            } else if !slug.is_empty() && !slug.ends_with('-') {
                slug.push('-');
            }
            if slug.len() >= 48 {
                break;
            }
        }
        slug.trim_end_matches('-').parse().ok()
    }
}

impl FromStr for SessionId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let rest = text.strip_prefix("sess-").unwrap_or("");
        if rest.len() == 8 && rest.bytes().all(|b| b.is_ascii_alphanumeric()) {
            Ok(Self(text.into()))
        } else {
            Err(BadId::new(
                "session id",
                text,
                "it must be sess- and eight letters or digits, as `jit session list` shows",
            ))
        }
    }
}

impl SessionId {
    pub fn generate(entropy: u128) -> Self {
        const LETTERS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
        let mut rest = entropy;
        let mut text = String::from("sess-");
        for _ in 0..8 {
            text.push(char::from(LETTERS[(rest % 36) as usize]));
            rest /= 36;
        }
        Self(text.into())
    }
}

impl FromStr for WorktreeId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let hex = text.strip_prefix("wt:").unwrap_or("");
        if hex.len() == 8
            && hex
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        {
            Ok(Self(text.into()))
        } else {
            Err(BadId::new(
                "worktree id",
                text,
                "it must be wt: and eight hex digits, as `jit worktree list` shows",
            ))
        }
    }
}

impl RequestId {
    /// For a caller that gave none: it is printed when the outcome is unknown, and found by searching the log.
    pub fn make_up(wall_ms: i64, entropy: u128) -> Self {
        Self(format_smolstr!("auto-{}", LeaseId::generate(wall_ms, entropy)))
    }

    /// Whether it has the form of [`Self::make_up`]. A caller's own id may begin the same way and is an ordinary one.
    pub fn is_made_up(&self) -> bool {
        let ulid = self.0.strip_prefix("auto-");
        ulid.is_some_and(|text| text.parse::<LeaseId>().is_ok_and(|id| id.as_str() == text))
    }
}

impl FromStr for RequestId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let bad = |why: &str| Err(BadId::new("request id", text, why));
        if text.is_empty() {
            return bad("it is empty");
        }
        if text.len() > 128 {
            return bad("it is longer than 128 bytes");
        }
        if text.chars().any(|c| is_unprintable(c) || c.is_whitespace()) {
            return bad("it contains white space or control characters");
        }
        Ok(Self(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a4_agent_ids_that_would_hurt_are_refused() {
        let long = format!("agent:{}", "x".repeat(10_000));
        for text in [
            "",
            "agent",
            "agent:",
            "agent: ",
            ":x",
            "Agent:x",
            "agent:a\nb",
            "agent:\u{1b}[31m",
            &long,
        ] {
            assert!(text.parse::<AgentId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a4_file_names_are_one_component_and_never_shared() {
        let ids = [
            "agent:../../x",
            "agent:..",
            "agent:a/b",
            "agent:A",
            "agent:a",
            "human:Zoë Q",
            "agent:%2f",
            "agent:x:y",
        ];
        let mut seen = std::collections::BTreeSet::new();
        for text in ids {
            let id: AgentId = text.parse().expect(text);
            let name = id.file_name();
            assert!(!name.contains(['/', '.', ':', '\\']), "{text} -> {name}");
            assert!(seen.insert(name.to_lowercase()), "{text} shares its file name");
        }
        let long: AgentId = format!("agent:{}", "Ü".repeat(60)).parse().expect("valid");
        assert!(long.file_name().len() < 200);
    }

    #[test]
    fn b9_only_made_up_request_ids_are_taken_for_such() {
        assert!(RequestId::make_up(1_767_441_600_000, 7).is_made_up());
        for text in [
            "auto-deploy-17",
            "auto-",
            "auto-01ARZ3NDEKTSV4RRFFQ69G5FA",
            "AUTO-x",
        ] {
            let id: RequestId = text.parse().expect(text);
            assert!(!id.is_made_up(), "{text}");
        }
    }

    #[test]
    fn e2_issue_ids_are_folder_names_on_every_system() {
        for good in ["WI-001", "WI-001-A1-T2", "T-015", "ad601a15", "a.b-c_d"] {
            assert!(good.parse::<IssueId>().is_ok(), "{good}");
        }
        let long = "x".repeat(65);
        for bad in [
            "", "..", "../x", ".hidden", "-dash", "a b c d", "abc.", "ab..cd", "nul.txt", "com1", "a/bcd",
            &long,
        ] {
            assert!(bad.parse::<IssueId>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn e2_generated_ids_parse_and_spread() {
        let mut seen = std::collections::BTreeSet::new();
        for n in 0..1000u64 {
            let id = IssueId::generate(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            assert_eq!(id.as_str().parse::<IssueId>().as_ref(), Ok(&id));
            seen.insert(id);
        }
        assert_eq!(seen.len(), 1000);
    }

    #[test]
    fn e2_issues_are_ordered_by_their_keys() {
        let names = [
            "WI-1", "wi-1", "WI-10", "Wi-2", "a", "A.b", "a-b", "Z9", "z8", "a_c",
        ];
        let ids: Vec<IssueId> = names.iter().map(|name| name.parse().expect("an id")).collect();
        for one in &ids {
            for other in &ids {
                assert_eq!(
                    one.cmp_key(&other.key()),
                    one.key().cmp(&other.key()),
                    "{one} {other}"
                );
            }
        }
    }

    #[test]
    fn e2_an_id_that_looks_like_a_lease_is_none() {
        assert!("01ARZ3NDEKTSV4RRFFQ69G5FAV".parse::<IssueId>().is_err());
        assert!("01ARZ3NDEKTSV4RRFFQ69G5FAVX".parse::<IssueId>().is_ok());
    }
}
