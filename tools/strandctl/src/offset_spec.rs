//! Where a consumer starts: `start`, `end`, `N`, `-N` or `@TIME`.

use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

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
        let ago = humantime::parse_duration(ago).map_err(|error| format!("`@{text}`: {error}"))?;
        let ago_ms = i64::try_from(ago.as_millis()).map_err(|_| format!("`@{text}` lies too far back"))?;
        return Ok(now_ms.saturating_sub(ago_ms).max(0));
    }
    if let Ok(timestamp_ms) = text.parse::<i64>() {
        return Ok(timestamp_ms);
    }
    // A bare date means its midnight.
    let midnight;
    let text = if text.len() == "2026-01-31".len() {
        midnight = format!("{text}T00:00:00Z");
        &midnight
    } else {
        text
    };
    let time = humantime::parse_rfc3339_weak(text).map_err(|_| {
        format!("`@{text}` is no time: use milliseconds since 1970, 2026-01-31T12:00:00Z (UTC), or -10m")
    })?;
    Ok(system_time_ms(time))
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
