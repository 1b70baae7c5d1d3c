//! Classifies a failure of the model from an error message, for agents that report only a message.
//!
//! What must hold: the message may contain anything, because it quotes the model provider. It decides the kind of
//! failure; no message makes an attempt a success. [`rate_limit`] reads times.
//!
//! Limitations: English only.

use crate::event::{AgentVerdict, Limited};
use crate::rate_limit;
use crate::text::short;

/// Characters of the message that are kept.
const TEXT: usize = 2_000;
/// Characters of the message that are read.
const LOOKED_AT: usize = 16_000;
/// Messages about missing or wrong credentials.
const STRANGER: &[&str] = &[
    "unauthorized",
    "unauthenticated",
    "authentication",
    "not logged in",
    "please log in",
    "invalid auth method",
    "set an auth method",
    "api key not valid",
    "invalid api key",
    "incorrect api key",
    "invalid x-api-key",
    "permission_denied",
    "access token",
];
/// Messages about problems that pass by themselves.
const BROKEN: &[&str] = &[
    "stream disconnected",
    "stream closed",
    "connection",
    "timed out",
    "timeout",
    "error sending request",
    "fetch failed",
    "econnre",
    "enotfound",
    "socket hang up",
];

/// The verdict for a failure with this message. `now` is the wall clock, in milliseconds.
pub fn classify(text: &str, now: i64) -> AgentVerdict {
    classify_with_status(text, None, now)
}

/// The same, if the agent reports the HTTP status beside the message.
pub fn classify_with_status(text: &str, told: Option<u16>, now: i64) -> AgentVerdict {
    let head: String = text.chars().take(LOOKED_AT).collect();
    let low = head.to_lowercase();
    let status = told.or_else(|| status(&low));
    let says = |words: &[&str]| words.iter().any(|word| low.contains(word));
    let limited = match status {
        Some(429 | 529) => true,
        Some(400..=499) => false,
        _ => rate_limit::is_limit(&head),
    };
    let stranger = matches!(status, Some(401 | 403)) || (status.is_none() && says(STRANGER));
    let passes = match status {
        Some(status) => matches!(status, 408 | 429 | 500..=599),
        None => says(BROKEN),
    };
    AgentVerdict {
        is_error: true,
        reason: match (limited, stranger, status) {
            (true, ..) => "rate_limit",
            (_, true, _) => "authentication_failed",
            (_, _, Some(_)) => "api_error",
            _ if passes => "api_error",
            _ => "error",
        }
        .to_owned(),
        text: short(text.trim(), TEXT),
        api_status: status,
        retryable: limited || (passes && !stranger),
        limited: limited.then(|| Limited {
            until: rate_limit::until(&head, now),
        }),
        ..AgentVerdict::default()
    }
}

/// The HTTP status in a message.
fn status(low: &str) -> Option<u16> {
    for word in ["status", "code", "http", "api error"] {
        let mut rest = low;
        while let Some((_, after)) = rest.split_once(word) {
            rest = after;
            let after = after.trim_start_matches("\"");
            let after = after.strip_prefix(" code").unwrap_or(after);
            let number = after.trim_start_matches([':', '=', ' ', '(', '/', '"']);
            let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
            if let ("4" | "5", Ok(status)) = (digits.get(..1).unwrap_or_default(), digits.parse::<u16>())
                && (400..600).contains(&status)
            {
                return Some(status);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_794_816_000_000;

    #[test]
    fn g8_words_about_a_refusal_have_one_meaning() {
        for (text, reason, status, retryable) in [
            (
                "exceeded retry limit, last status: 429 Too Many Requests",
                "rate_limit",
                Some(429),
                true,
            ),
            (
                "unexpected status 401 Unauthorized: no, url: http://x/v1/responses",
                "authentication_failed",
                Some(401),
                false,
            ),
            (
                "unexpected status 400 Bad Request: {\"error\":{}}",
                "api_error",
                Some(400),
                false,
            ),
            (
                "We’re currently experiencing high demand, which may cause temporary errors.",
                "rate_limit",
                None,
                true,
            ),
            (
                "Selected model is at capacity. Please try a different model.",
                "rate_limit",
                None,
                true,
            ),
            (
                "stream disconnected before completion: stream closed before response.completed",
                "api_error",
                None,
                true,
            ),
            (
                "[API Error: You exceeded your current quota (Status: RESOURCE_EXHAUSTED)]",
                "rate_limit",
                None,
                true,
            ),
            (
                "{\"error\":{\"code\":529,\"message\":\"x\"}}",
                "rate_limit",
                Some(529),
                true,
            ),
            ("{\"error\":{\"code\": 503}}", "api_error", Some(503), true),
            (
                "Please set an Auth method in your settings",
                "authentication_failed",
                None,
                false,
            ),
            ("You've hit your usage limit.", "rate_limit", None, true),
            ("API Error: 500 oops", "api_error", Some(500), true),
            (
                "API Error: 401 invalid x-api-key",
                "authentication_failed",
                Some(401),
                false,
            ),
            ("panicked at line 500", "error", None, false),
            ("it is a Tuesday", "error", None, false),
            ("", "error", None, false),
            ("exit status 1, code 7, http 200", "error", None, false),
        ] {
            let verdict = classify(text, NOW);
            assert!(verdict.is_error);
            assert_eq!(
                (verdict.reason.as_str(), verdict.api_status, verdict.retryable),
                (reason, status, retryable),
                "{text}"
            );
            assert_eq!(verdict.limited.is_some(), reason == "rate_limit", "{text}");
        }
    }

    #[test]
    fn g8_a_limit_says_until_when() {
        for (text, ms) in [
            ("usage limit: try again in 5 minutes.", Some(300_000)),
            (
                "usage limit. Try again in 1 day 2 hours and 3 minutes",
                Some(93_780_000),
            ),
            ("quota: Please retry in 12.5s.", Some(12_500)),
            ("quota will reset after 1h2m3s.", Some(3_723_000)),
            ("429 quota {\"retryDelay\":\"34s\"}", Some(34_000)),
            ("quota, try again in 20ms", Some(20)),
            ("rate limit, wait 90 seconds", Some(90_000)),
            ("limit reached|1794816060", Some(60_000)),
            ("limit reached|1", None),
            ("quota resets 2026-11-16T16:00:01Z.", Some(28_801_000)),
            ("quota resets 2036-11-16T16:00:01Z", None),
            ("usage limit, try again in a while", None),
            ("usage limit, try again in 99999999999999999999999 days", None),
            ("usage limit, try again in 0 seconds", None),
            ("usage limit, try again in 1..2 seconds", None),
        ] {
            let limited = classify(text, NOW).limited.expect(text);
            assert_eq!(limited.until.map(|at| at - NOW), ms, "{text}");
        }
    }
}
