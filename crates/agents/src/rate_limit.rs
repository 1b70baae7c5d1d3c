//! Reads from an error message whether a model is rate limited, and until when (G13).
//!
//! What must hold: the message may contain anything. At most `LOOKED_AT` bytes are read. A time is accepted only if it
//! is in the future and at most `LONGEST_MS` away. Text that is not understood yields no time.
//!
//! Understood:
//!
//! - durations: `try again in 1 hour 5 minutes`, `retryDelay: "34s"`, `Retry-After: 120`;
//! - seconds since 1970: `usage limit reached|1700000000`, `resets_at: …`;
//! - timestamps: `2026-11-16T12:00:00Z`, the date of a `Retry-After`;
//! - times of day: `resets 3pm (Europe/Berlin)`, `try again at Nov 17th, 2026 3:05 PM`; without a time zone, that of
//!   the machine;
//! - daily quotas, which end at midnight: UTC, or California time for those of Google.
//!
//! Limitations: English only. A weekday without a date is not understood.

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _, Zoned};

/// Bytes of a message that are read.
const LOOKED_AT: usize = 16 << 10;
/// A later time is not accepted.
const LONGEST_MS: i64 = 31 * 86_400_000;

/// Messages about too many requests or too much usage, in lower case.
const LIMITS: &[&str] = &[
    "429 too many",
    "at capacity",
    "capacity exhausted",
    "high demand",
    "hit your limit",
    "hit your usage limit",
    "limit reached",
    "limit will reset",
    "out of credits",
    "overloaded",
    "quota",
    "rate limit",
    "rate-limit",
    "rate_limit",
    "ratelimit",
    "resource exhausted",
    "resource_exhausted",
    "resourceexhausted",
    "too many requests",
    "usage limit",
];

/// Words before a duration.
const SPANS: &[&str] = &[
    "again in",
    "available in",
    "reset after",
    "reset in",
    "resets after",
    "resets in",
    "resets_in_seconds",
    "retry after",
    "retry in",
    "retry-after",
    "retry_after",
    "retry_delay",
    "retrydelay",
    "wait",
];
/// Words before a number of seconds or milliseconds since 1970.
const MOMENTS: &[&str] = &[
    "|",
    "ratelimit-reset",
    "reset_at",
    "resets_at",
    "retry_at",
    "resetsat",
];
/// Words before a time of day, with or without a date.
const CLOCKS: &[&str] = &[
    "again at",
    "again on",
    "available at",
    "reset at",
    "resets at",
    "resets on",
    "resets",
];
const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];

/// Whether an error message is about a rate limit.
pub fn is_limit(text: &str) -> bool {
    let low = head(text).to_ascii_lowercase();
    LIMITS.iter().any(|words| low.contains(words))
}

/// When the model may be asked again, if the message names a time. Both times are wall clock, milliseconds.
pub fn until(text: &str, now: i64) -> Option<i64> {
    until_in(text, now, &TimeZone::system())
}

/// The same; times of day without a time zone are in `zone`.
fn until_in(text: &str, now: i64, zone: &TimeZone) -> Option<i64> {
    let text = head(text);
    let low = text.to_ascii_lowercase();
    let here = Timestamp::from_millisecond(now).ok()?;
    let near = |at: i64| (at > now && at <= now.saturating_add(LONGEST_MS)).then_some(at);
    let said = after(&low, MOMENTS)
        .find_map(|rest| near(moment(rest)?))
        .or_else(|| after(&low, SPANS).find_map(|rest| near(now.saturating_add(span(rest)?))))
        .or_else(|| http_date(text, &low).and_then(near))
        .or_else(|| stamps(text).find_map(near))
        .or_else(|| after(&low, CLOCKS).find_map(|rest| near(clock(rest, text, &low, here, zone)?)));
    // With a daily quota, a duration only tells how soon the same error can be had again.
    said.max(day(&low, here).and_then(near))
}

fn head(text: &str) -> &str {
    let mut end = text.len().min(LOOKED_AT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The text after each of these words.
fn after<'a>(low: &'a str, words: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    words.iter().flat_map(move |word| {
        low.match_indices(word)
            .map(|(at, found)| low.get(at + found.len()..).unwrap_or_default())
    })
}

fn digits(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    &text[..end]
}

fn letters(text: &str) -> &str {
    let end = text
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    &text[..end]
}

/// Skips the characters between a name and its value.
fn value(text: &str) -> &str {
    text.trim_start_matches([' ', ':', '=', '"', '\'', '\\', '\t'])
}

/// Seconds or milliseconds since 1970.
fn moment(rest: &str) -> Option<i64> {
    let number = digits(value(rest));
    match number.len() {
        10 => number.parse::<i64>().ok()?.checked_mul(1000),
        13 => number.parse().ok(),
        _ => None,
    }
}

/// `1h 2m 3.5s`, `2 days 4 hours`, `about 90 seconds`, `120`, in milliseconds.
fn span(rest: &str) -> Option<i64> {
    let (rest, bare) = match rest.strip_prefix("_ms").or_else(|| rest.strip_prefix("-ms")) {
        Some(rest) => (rest, 1.0),
        None => (rest, 1000.0),
    };
    let mut rest = value(rest);
    for word in ["about ", "approximately ", "another ", "for "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    let mut all = 0.0_f64;
    let mut found = false;
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        rest = rest.strip_prefix("and ").unwrap_or(rest);
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let Ok(number) = rest[..end].trim_end_matches('.').parse::<f64>() else {
            break;
        };
        let unit_at = rest[end..].trim_start_matches(' ');
        let unit = letters(unit_at);
        let ms = match unit {
            "ms" | "millisecond" | "milliseconds" => 1.0,
            "s" | "sec" | "secs" | "second" | "seconds" => 1_000.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60_000.0,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000.0,
            "d" | "day" | "days" => 86_400_000.0,
            "w" | "week" | "weeks" => 604_800_000.0,
            // A number without a unit is in seconds.
            _ if !found
                && !rest[end..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '-' || c == ':') =>
            {
                return bounded(number * bare);
            }
            _ => break,
        };
        all += number * ms;
        found = true;
        rest = &unit_at[unit.len()..];
    }
    found.then_some(all).and_then(bounded)
}

fn bounded(ms: f64) -> Option<i64> {
    (ms.is_finite() && ms > 0.0 && ms <= LONGEST_MS as f64).then(|| ms.ceil() as i64)
}

/// The date of a `Retry-After` header, in HTTP format.
fn http_date(text: &str, low: &str) -> Option<i64> {
    let at = low.find("retry-after")?;
    let date = value(text.get(at + "retry-after".len()..)?);
    let end = date.find("GMT")? + 3;
    let date = date.get(..end).filter(|date| date.len() <= 40)?;
    let parsed = jiff::fmt::rfc2822::DateTimeParser::new()
        .parse_timestamp(date)
        .ok()?;
    Some(parsed.as_millisecond())
}

/// Timestamps such as `2026-11-16T12:00:00Z`.
fn stamps(text: &str) -> impl Iterator<Item = i64> {
    text.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '(' | ')' | ',' | '\\' | '|'))
        .map(|word| word.trim_end_matches(['.', ';']))
        .filter(|word| (19..=40).contains(&word.len()) && word.starts_with("20") && word.contains('T'))
        .filter_map(|word| word.parse::<Timestamp>().ok())
        .map(|at| at.as_millisecond())
}

/// `3pm (Europe/Berlin)`, `nov 17th, 2026 3:05 pm`, `15:30 utc`.
fn clock(rest: &str, text: &str, low: &str, now: Timestamp, zone: &TimeZone) -> Option<i64> {
    let named = zone_of(rest, text, low)?;
    let zone = named.unwrap_or_else(|| zone.clone());
    let here = now.to_zoned(zone.clone());
    let mut rest = rest.trim_start_matches([' ', ':', '∙', '·']);
    for word in ["at ", "on "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    let (date, rest) = match date_of(rest, &here) {
        Some((date, rest)) => (Some(date), rest),
        None => (None, rest),
    };
    let time = time_of(rest)?;
    let at = |date: Date| -> Option<Zoned> { date.to_datetime(time).to_zoned(zone.clone()).ok() };
    let found = match date {
        Some(date) => at(date)?,
        // Today, or tomorrow if that has passed.
        None => match at(here.date())? {
            today if today.timestamp() > now => today,
            _ => at(here.date().checked_add(1.day()).ok()?)?,
        },
    };
    Some(found.timestamp().as_millisecond())
}

/// The time zone after the time: `Some(None)` if there is none, `None` if it is unknown.
fn zone_of(rest: &str, text: &str, low: &str) -> Option<Option<TimeZone>> {
    let from = low.len() - rest.len();
    let near: String = text.get(from..)?.chars().take(60).collect();
    if let Some((_, name)) = near.split_once('(')
        && let Some((name, _)) = name.split_once(')')
        && name.contains('/')
    {
        return TimeZone::get(name.trim()).ok().map(Some);
    }
    let near = near.to_ascii_lowercase();
    let has_utc = near
        .split(|c: char| !c.is_ascii_alphabetic())
        .any(|word| matches!(word, "utc" | "gmt"));
    Some(has_utc.then_some(TimeZone::UTC))
}

/// `nov 17`, `november 17th, 2026`, and the text after it.
fn date_of<'a>(rest: &'a str, here: &Zoned) -> Option<(Date, &'a str)> {
    let word = letters(rest);
    let month = MONTHS
        .iter()
        .position(|name| word.len() >= 3 && word.starts_with(name))?;
    let month = i8::try_from(month + 1).ok()?;
    let rest = rest[word.len()..].trim_start_matches([' ', '.']);
    let number = digits(rest);
    let day: i8 = number.parse().ok()?;
    let rest = &rest[number.len()..];
    let rest = &rest[letters(rest).len()..];
    let rest = rest.trim_start_matches([' ', ',']);
    let year = digits(rest);
    let (year, rest) = match year.len() {
        4 => (Some(year.parse::<i16>().ok()?), &rest[4..]),
        _ => (None, rest),
    };
    let rest = rest.trim_start_matches([' ', ',']);
    let rest = rest.strip_prefix("at ").unwrap_or(rest);
    let date = match year {
        Some(year) => Date::new(year, month, day).ok()?,
        None => {
            let this = Date::new(here.year(), month, day).ok()?;
            // A date without a year that has passed is in the next year.
            match this < here.date() {
                true => Date::new(here.year().checked_add(1)?, month, day).ok()?,
                false => this,
            }
        }
    };
    Some((date, rest))
}

/// `3pm`, `3:05 pm`, `15:30`.
fn time_of(rest: &str) -> Option<Time> {
    let hour = digits(rest);
    let rest = &rest[hour.len()..];
    let mut hour: i8 = hour.parse().ok()?;
    let (minute, rest) = match rest.strip_prefix(':') {
        Some(after) => {
            let number = digits(after);
            (Some(number.parse::<i8>().ok()?), &after[number.len()..])
        }
        None => (None, rest),
    };
    match letters(rest.trim_start_matches(' ')) {
        half @ ("am" | "pm") if (1..=12).contains(&hour) => {
            hour = hour % 12 + if half == "pm" { 12 } else { 0 };
        }
        "am" | "pm" => return None,
        // A number alone could mean anything.
        _ if minute.is_none() => return None,
        _ => {}
    }
    Time::new(hour, minute.unwrap_or(0), 0, 0).ok()
}

/// The end of the day, if the message is about a daily quota.
fn day(low: &str, now: Timestamp) -> Option<i64> {
    let daily = ["per day", "perday", "per_day", "daily limit", "daily quota"];
    if !daily.iter().any(|words| low.contains(words)) {
        return None;
    }
    let google = ["gemini", "google", "generatere", "generativelanguage"];
    let zone = match google.iter().any(|word| low.contains(word)) {
        true => {
            TimeZone::get("America/Los_Angeles").unwrap_or_else(|_| TimeZone::fixed(jiff::tz::offset(-8)))
        }
        false => TimeZone::UTC,
    };
    let tomorrow = now.to_zoned(zone).tomorrow().ok()?.start_of_day().ok()?;
    Some(tomorrow.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Monday, 08:00 UTC: nine in Berlin, midnight in California.
    const NOW: &str = "2026-11-16T08:00:00Z";

    fn now() -> i64 {
        NOW.parse::<Timestamp>().expect("a time").as_millisecond()
    }

    fn at(text: &str) -> i64 {
        text.parse::<Timestamp>().expect(text).as_millisecond()
    }

    #[test]
    fn g13_the_time_in_a_refusal_is_understood() {
        let secs = |n: i64| Some(now() + n * 1000);
        let table: &[(&str, Option<i64>)] = &[
            // Durations.
            ("Rate limit exceeded. Please try again in 20s.", secs(20)),
            (
                "Please try again in 1.5s. Visit https://x to learn more.",
                Some(now() + 1500),
            ),
            (
                "You've hit your usage limit. Try again in 1 hour 5 minutes.",
                secs(3900),
            ),
            ("try again in 2 days 3 hours and 4 minutes", secs(183_840)),
            ("Try again in 6 days 23 hours", secs(601_200)),
            ("quota will reset after 1h2m3s.", secs(3723)),
            ("\"retryDelay\": \"34s\"", secs(34)),
            ("{\\\"retryDelay\\\":\\\"34.074824224s\\\"}", Some(now() + 34_075)),
            ("retryDelay: 34s", secs(34)),
            ("Retry-After: 120", secs(120)),
            ("retry-after-ms: 1500", Some(now() + 1500)),
            ("{\"retry_after\":30}", secs(30)),
            ("resets_in_seconds: 900", secs(900)),
            ("please wait about 90 seconds", secs(90)),
            // Timestamps.
            (
                "Claude AI usage limit reached|1794819600",
                Some(at("2026-11-16T09:00:00Z")),
            ),
            ("limit reached|1794819600000", Some(at("2026-11-16T09:00:00Z"))),
            ("\"resets_at\":1794819600", Some(at("2026-11-16T09:00:00Z"))),
            ("x-ratelimit-reset: 1794819600", Some(at("2026-11-16T09:00:00Z"))),
            (
                "quota resets 2026-11-16T16:00:01Z.",
                Some(at("2026-11-16T16:00:01Z")),
            ),
            (
                "Retry-After: Mon, 16 Nov 2026 08:30:00 GMT",
                Some(at("2026-11-16T08:30:00Z")),
            ),
            // Times of day. The machine's time zone is Berlin.
            (
                "5-hour limit reached ∙ resets 3pm (Europe/Berlin)",
                Some(at("2026-11-16T14:00:00Z")),
            ),
            (
                "You've hit your limit · resets 9:30am (Europe/Berlin)",
                Some(at("2026-11-16T08:30:00Z")),
            ),
            (
                "limit reached, resets 8am (Europe/Berlin)",
                Some(at("2026-11-17T07:00:00Z")),
            ),
            ("limit reached, resets at 3pm", Some(at("2026-11-16T14:00:00Z"))),
            ("resets 12am (Asia/Tokyo)", Some(at("2026-11-16T15:00:00Z"))),
            (
                "resets Nov 20, 3pm (Europe/Berlin)",
                Some(at("2026-11-20T14:00:00Z")),
            ),
            (
                "Try again at Nov 17th, 2026 3:05 PM.",
                Some(at("2026-11-17T14:05:00Z")),
            ),
            ("try again at 15:30 UTC", Some(at("2026-11-16T15:30:00Z"))),
            // A daily quota takes precedence over the duration beside it.
            (
                "Quota exceeded for quota metric 'GenerateRequestsPerDayPerProjectPerModel', retryDelay: 34s",
                Some(at("2026-11-17T08:00:00Z")),
            ),
            ("limit: 50 requests per day", Some(at("2026-11-17T00:00:00Z"))),
            // No time, or one that is not accepted.
            ("exceeded retry limit, last status: 429 Too Many Requests", None),
            ("API Error: Request rejected (429) · mock 429", None),
            ("try again in a while", None),
            ("try again in 0 seconds", None),
            ("try again in -20 seconds", None),
            ("try again in 1..2 seconds", None),
            ("try again in 99999999999999999999999999 days", None),
            ("try again in NaN seconds", None),
            ("limit reached|1", None),
            ("limit reached|-1794819600", None),
            ("limit reached|99999999999999999999", None),
            ("limit reached|1594819600", None),
            ("resets Jan 1, 9999 3pm (Europe/Berlin)", None),
            ("resets 9999-12-31T23:59:59Z", None),
            ("resets 25pm (Europe/Berlin)", None),
            ("resets 3pm (Mars/Olympus)", None),
            ("resets 3", None),
            ("resets Feb 31, 3pm", None),
            ("Retry-After: never GMT", None),
            ("", None),
        ];
        let berlin = TimeZone::get("Europe/Berlin").expect("zones");
        for (text, expected) in table {
            assert_eq!(until_in(text, now(), &berlin), *expected, "{text}");
        }
    }

    #[test]
    fn g13_hostile_words_cost_next_to_nothing_and_name_no_time() {
        for one in ["retry in ", "resets nov ", "|", "9", "try again in 1h", "(", "é"] {
            let text = one.repeat((10 << 20) / one.len());
            let found = until(&text, now());
            assert!(found.is_none_or(|at| at - now() <= LONGEST_MS), "{one}");
        }
        for now in [i64::MIN, -1, 0, i64::MAX] {
            assert!(until("try again in 20s", now).is_none_or(|at| at == now + 20_000));
        }
    }

    /// Error messages of three programs are recognized as rate limits, with the time if there is one.
    #[test]
    fn g13_refusals_as_three_programs_print_them() {
        let lines = [
            (
                r#"{"type":"result","subtype":"success","is_error":true,"result":"Claude AI usage limit reached|1794819600"}"#,
                "/result",
                Some(3_600_000),
            ),
            (
                r#"{"type":"turn.failed","error":{"message":"exceeded retry limit, last status: 429 Too Many Requests"}}"#,
                "/error/message",
                None,
            ),
            (
                r#"{"type":"turn.failed","error":{"message":"You've hit your usage limit. Upgrade to Pro or try again in 1 hour 5 minutes."}}"#,
                "/error/message",
                Some(3_900_000),
            ),
            (
                r#"{"type":"result","status":"error","error":{"type":"RetryableQuotaError","message":"[API Error: You exceeded your current quota. Please retry in 34.5s. (Status: RESOURCE_EXHAUSTED)]"}}"#,
                "/error/message",
                Some(34_500),
            ),
        ];
        for (line, place, ms) in lines {
            let value: serde_json::Value = serde_json::from_str(line).expect(line);
            let text = value.pointer(place).and_then(|text| text.as_str()).expect(place);
            assert!(is_limit(text), "{text}");
            assert_eq!(
                until_in(text, now(), &TimeZone::UTC),
                ms.map(|ms| now() + ms),
                "{text}"
            );
        }
    }

    #[test]
    fn g13_words_about_a_limit_are_known() {
        for text in [
            "Claude AI usage limit reached|1794819600",
            "You've hit your limit · resets 3pm",
            "Too Many Requests",
            "Overloaded",
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota, please check your plan",
            "Selected model is at capacity.",
        ] {
            assert!(is_limit(text), "{text}");
        }
        for text in [
            "",
            "prompt is too long",
            "Reached maximum number of turns (3)",
            "invalid api key",
        ] {
            assert!(!is_limit(text), "{text}");
        }
    }
}
