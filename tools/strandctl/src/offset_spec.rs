//! Where a consumer starts: `start`, `end`, `N`, `-N` or `@TIME`.

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A starting point, the same for every partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetSpec {
    /// The log start offset.
    Start,
    /// The high watermark.
    End,
    /// This offset.
    At(i64),
    /// So many offsets before the end.
    Last(i64),
    /// The first record at or after this time, in milliseconds since 1970.
    Time(i64),
}

impl FromStr for OffsetSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text, now_ms())
    }
}

impl OffsetSpec {
    /// Parses a starting point; `now_ms` is what `@-10m` counts from.
    pub fn parse(text: &str, now_ms: i64) -> Result<Self, String> {
        match text {
            "start" | "beginning" | "earliest" => return Ok(Self::Start),
            "end" | "latest" => return Ok(Self::End),
            _ => {}
        }
        if let Some(time) = text.strip_prefix('@') {
            return parse_time(time, now_ms).map(Self::Time);
        }
        if let Some(back) = text.strip_prefix('-') {
            return match back.parse::<i64>() {
                Ok(count) if count > 0 => Ok(Self::Last(count)),
                _ => Err(unknown(text)),
            };
        }
        match text.parse::<i64>() {
            Ok(offset) => Ok(Self::At(offset)),
            Err(_) => Err(unknown(text)),
        }
    }
}

fn unknown(text: &str) -> String {
    format!("`{text}` is none of: start, end, an offset, -N for the last N, @TIME")
}

/// Milliseconds since 1970, a date and time (UTC where no zone is given), or a duration ago.
fn parse_time(text: &str, now_ms: i64) -> Result<i64, String> {
    if let Some(ago) = text.strip_prefix('-') {
        let ago_ms = parse_duration_ms(ago).map_err(|error| format!("`@{text}`: {error}"))?;
        return Ok(now_ms.saturating_sub(ago_ms).max(0));
    }
    parse_moment_ms(text).map_err(|error| format!("`@{text}`: {error}, or a duration ago such as @-10m"))
}

/// A duration as people write it (`1h 30m`) or as ISO 8601 has it (`PT1H30M`), in milliseconds.
pub fn parse_duration_ms(text: &str) -> Result<i64, String> {
    let duration = match text.strip_prefix(['P', 'p']) {
        Some(iso) => {
            iso_duration(iso).ok_or_else(|| format!("`{text}` is no duration such as P1DT2H3M4.5S"))?
        }
        None => humantime::parse_duration(text).map_err(|error| format!("`{text}`: {error}"))?,
    };
    i64::try_from(duration.as_millis()).map_err(|_| format!("`{text}` is too long"))
}

/// What follows the P: days, then behind a T hours, minutes, seconds; each at most once, at least one.
fn iso_duration(text: &str) -> Option<Duration> {
    let (days, time) = match text.split_once(['T', 't']) {
        Some((days, time)) if !time.is_empty() => (days, time),
        Some(_) => return None,
        None => (text, ""),
    };
    let mut total = Duration::ZERO;
    let mut rest = [
        (days, &[('D', 86_400)][..]),
        (time, &[('H', 3_600), ('M', 60), ('S', 1)]),
    ];
    for (text, units) in &mut rest {
        for (unit, seconds) in *units {
            let Some(at) = text.find(|char: char| char.to_ascii_uppercase() == *unit) else {
                continue;
            };
            let number = &text[..at];
            *text = &text[at + 1..];
            // Only seconds have a fraction.
            total = total.checked_add(match *unit {
                'S' => seconds_with_fraction(number)?,
                _ => Duration::from_secs(digits(number)?.checked_mul(*seconds)?),
            })?;
        }
    }
    let is_whole = rest.iter().all(|(text, _)| text.is_empty());
    (is_whole && !text.is_empty()).then_some(total)
}

fn seconds_with_fraction(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let nanos =
        digits(&format!("{fraction:0<9}")).filter(|_| fraction.len() <= 9 && digits(fraction).is_some())?;
    Some(Duration::new(digits(whole)?, u32::try_from(nanos).ok()?))
}

/// Digits alone: no sign.
fn digits(text: &str) -> Option<u64> {
    let all_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    all_digits.then(|| text.parse().ok()).flatten()
}

/// Milliseconds since 1970, or a date and time: UTC where no zone is given.
pub fn parse_moment_ms(text: &str) -> Result<i64, String> {
    if let Ok(timestamp_ms) = text.parse::<i64>() {
        return Ok(timestamp_ms);
    }
    let wrong = || {
        format!(
            "`{text}` is no time: use milliseconds since 1970, or 2026-01-31T12:00:00.000+01:00 (UTC without a zone)"
        )
    };
    // A bare date means its midnight.
    let midnight;
    let (local, ahead_ms) = match zone(text) {
        Some(zone) => zone,
        None if text.len() == "2026-01-31".len() => {
            midnight = format!("{text}T00:00:00Z");
            (midnight.as_str(), 0)
        }
        None => (text, 0),
    };
    let time = humantime::parse_rfc3339_weak(local).map_err(|_| wrong())?;
    Ok(system_time_ms(time).saturating_sub(ahead_ms))
}

/// A time with an offset at its end (`+01:00`, `-0530`): what stands before it, and how far it is ahead of UTC.
fn zone(text: &str) -> Option<(&str, i64)> {
    let (_, time) = text.split_once(['T', ' '])?;
    let sign_at = text.len() - time.len() + time.find(['+', '-'])?;
    let (local, offset) = text.split_at(sign_at);
    let offset: String = offset[1..].chars().filter(|char| *char != ':').collect();
    digits(&offset)?;
    let minutes = match offset.len() {
        2 => digits(&offset)? * 60,
        4 => digits(&offset[..2])? * 60 + digits(&offset[2..])?,
        _ => return None,
    };
    let ahead_ms = i64::try_from(minutes).ok()? * 60_000;
    Some((
        local,
        if text.as_bytes()[sign_at] == b'-' {
            -ahead_ms
        } else {
            ahead_ms
        },
    ))
}

/// The wall clock, in milliseconds since 1970.
pub fn now_ms() -> i64 {
    system_time_ms(SystemTime::now())
}

fn system_time_ms(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<OffsetSpec, String> {
        OffsetSpec::parse(text, 1_000_000)
    }

    #[test]
    fn every_form_is_understood() {
        assert_eq!(parse("start"), Ok(OffsetSpec::Start));
        assert_eq!(parse("end"), Ok(OffsetSpec::End));
        assert_eq!(parse("0"), Ok(OffsetSpec::At(0)));
        assert_eq!(parse("42"), Ok(OffsetSpec::At(42)));
        assert_eq!(parse("-7"), Ok(OffsetSpec::Last(7)));
        assert_eq!(parse("@1700000000000"), Ok(OffsetSpec::Time(1_700_000_000_000)));
        assert_eq!(parse("@1970-01-01T00:00:01Z"), Ok(OffsetSpec::Time(1_000)));
        assert_eq!(parse("@1970-01-01T00:00:01.250Z"), Ok(OffsetSpec::Time(1_250)));
        assert_eq!(parse("@1970-01-01 00:01:00"), Ok(OffsetSpec::Time(60_000)));
        assert_eq!(parse("@1970-01-02"), Ok(OffsetSpec::Time(86_400_000)));
        assert_eq!(parse("@-10m"), Ok(OffsetSpec::Time(400_000)));
    }

    #[test]
    fn durations_are_peoples_or_iso_8601() {
        for (text, right) in [
            ("1h 30m", 5_400_000),
            ("PT1H30M", 5_400_000),
            ("P1D", 86_400_000),
            ("P2DT3H4M5.006S", 183_845_006),
            ("pt0.5s", 500),
            ("PT0S", 0),
        ] {
            assert_eq!(parse_duration_ms(text), Ok(right), "{text}");
        }
        for text in [
            "",
            "P",
            "PT",
            "P1",
            "1D",
            "P1H",
            "PT1D",
            "PT1M1H",
            "PT1H1H",
            "P-1D",
            "PT1.5H",
            "PT.S",
            "PT1S1",
            "PT1.0000000001S",
            "PTé1S",
            "P99999999999999999999D",
            "PT9223372036854775807S",
        ] {
            assert!(parse_duration_ms(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_may_have_a_zone() {
        for (text, right) in [
            ("1970-01-01T01:00:00+01:00", 0),
            ("1970-01-01T00:00:00.250-0530", 19_800_250),
            ("1970-01-01T00:00:00.250", 250),
            ("1970-01-01T02:00:00+02", 0),
            ("1970-01-02", 86_400_000),
        ] {
            assert_eq!(parse_moment_ms(text), Ok(right), "{text}");
        }
        for text in [
            "1970-01-01T00:00:00+1",
            "1970-01-01T00:00:00+01:0x",
            "tomorrow",
            "1970-01-01T00:00+aéb",
        ] {
            assert!(parse_moment_ms(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_offset_is_refused() {
        for text in [
            "",
            "-",
            "-0",
            "--5",
            "first",
            "1.5",
            "@",
            "@yesterday",
            "@-",
            "@-10 parsecs",
            "99999999999999999999",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
