//! Numbers with units, as they are typed and as they are printed.
//!
//! Decimal and binary units are different units: `500MB/s` and `500MiB/s` differ by 4.9%, and both are always printed.

use std::fmt;
use std::time::Duration;

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * 1024.0;
const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

/// A rate as typed: of records or of bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantity {
    /// Records a second.
    Records(f64),
    /// Payload bytes a second.
    Bytes(f64),
    /// Records and bytes a second; the lower one holds.
    Both {
        /// Records a second.
        records: f64,
        /// Payload bytes a second.
        bytes: f64,
    },
}

impl Quantity {
    /// Records a second, of `record_bytes` in the mean.
    pub fn records(self, record_bytes: f64) -> f64 {
        match self {
            Self::Records(records) => records,
            Self::Bytes(bytes) => bytes / record_bytes,
            Self::Both { records, bytes } => records.min(bytes / record_bytes),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Records(records) => write!(out, "{} records/s", format_count(records.round() as u64)),
            Self::Bytes(bytes) => out.write_str(&format_byte_rate(*bytes)),
            Self::Both { records, bytes } => write!(
                out,
                "{} records/s and at most {}",
                format_count(records.round() as u64),
                format_byte_rate(*bytes)
            ),
        }
    }
}

/// Splits `1.5MiB` into its number and its unit.
fn split_number(text: &str) -> Result<(f64, &str), String> {
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(text.len());
    let number: f64 = text[..end]
        .replace('_', "")
        .parse()
        .map_err(|_| format!("`{text}` is not a number with a unit"))?;
    Ok((number, text[end..].trim()))
}

/// The bytes that a unit stands for, if it is one of bytes.
fn byte_unit(unit: &str) -> Option<f64> {
    Some(match unit {
        "B" => 1.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "KiB" => KIB,
        "MiB" => MIB,
        "GiB" => GIB,
        _ => return None,
    })
}

/// Parses `10000`, `1k`, `1.5M` (records a second), `500MiB/s`, `500MB/s` (bytes a second), or both: `10k,50MiB/s`.
pub fn parse_quantity(text: &str) -> Result<Quantity, String> {
    if let Some((one, other)) = text.split_once(',') {
        return match (parse_quantity(one)?, parse_quantity(other)?) {
            (Quantity::Records(records), Quantity::Bytes(bytes))
            | (Quantity::Bytes(bytes), Quantity::Records(records)) => Ok(Quantity::Both { records, bytes }),
            _ => Err(format!("`{text}`: both is a rate of records and one of bytes")),
        };
    }
    let (number, unit) = split_number(text.trim())?;
    let unit = unit.strip_suffix("/s").unwrap_or(unit);
    if let Some(bytes) = byte_unit(unit) {
        return Ok(Quantity::Bytes(number * bytes));
    }
    match unit {
        "" => Ok(Quantity::Records(number)),
        "k" | "K" => Ok(Quantity::Records(number * 1e3)),
        "m" | "M" => Ok(Quantity::Records(number * 1e6)),
        _ => Err(format!(
            "`{unit}` in `{text}` is no unit of a rate: use k or M (records), or kB, MB, GB, KiB, MiB, GiB"
        )),
    }
}

/// Parses a size in bytes: `16384`, `16KiB`, `1MB`, `1k` (1024, as Kafka's tools read it).
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    let (number, unit) = split_number(text.trim())?;
    let factor = match unit {
        "" => 1.0,
        "k" | "K" => KIB,
        "m" | "M" => MIB,
        "g" | "G" => GIB,
        other => byte_unit(other).ok_or_else(|| format!("`{other}` in `{text}` is no unit of bytes"))?,
    };
    Ok((number * factor) as usize)
}

/// Parses `500ms`, `30s`, `5m`, `1h`, `20us`; a bare number is in seconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split_number(text.trim())?;
    let seconds = match unit {
        "ns" => number / 1e9,
        "us" | "µs" => number / 1e6,
        "ms" => number / 1e3,
        "" | "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        other => {
            return Err(format!(
                "`{other}` in `{text}` is no unit of time: use us, ms, s, m or h"
            ));
        }
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("`{text}` is out of range"))
}

/// `9.77 MiB/s = 10.24 MB/s`: both units, so that nobody has to guess which was meant.
pub fn format_byte_rate(bytes_per_second: f64) -> String {
    format!(
        "{:.2} MiB/s = {:.2} MB/s",
        bytes_per_second / MIB,
        bytes_per_second / 1e6
    )
}

/// `870.4 MB/s`: where figures stand below each other, in one unit.
pub fn format_megabytes(bytes_per_second: f64) -> String {
    format!("{:.1} MB/s", bytes_per_second / 1e6)
}

/// How long batches linger, in words.
pub fn format_linger(nanos: u64) -> String {
    if nanos == 0 {
        "no linger".to_owned()
    } else {
        format!("linger {}", format_nanos(nanos))
    }
}

/// A latency with three significant digits and a unit that keeps it readable: `164 µs`, `8.90 ms`, `1.20 s`.
pub fn format_nanos(nanos: u64) -> String {
    let value = nanos as f64;
    let (scaled, unit) = match nanos {
        0..1_000 => return format!("{nanos} ns"),
        1_000..1_000_000 => (value / 1e3, "µs"),
        1_000_000..1_000_000_000 => (value / 1e6, "ms"),
        _ => (value / 1e9, "s"),
    };
    let decimals = if scaled < 10.0 {
        2
    } else {
        usize::from(scaled < 100.0)
    };
    format!("{scaled:.decimals$} {unit}")
}

/// `1234567` as `1,234,567`.
pub fn format_count(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_thousand_kibibyte_records_print_both_units() {
        let bytes = Quantity::Records(10_000.0).records(1024.0) * 1024.0;
        assert_eq!(format_byte_rate(bytes), "9.77 MiB/s = 10.24 MB/s");
    }

    #[test]
    fn binary_and_decimal_rates_differ_by_4_9_percent() {
        let binary = parse_quantity("500MiB/s").unwrap().records(1024.0);
        let decimal = parse_quantity("500MB/s").unwrap().records(1024.0);
        assert_eq!(binary, 512_000.0);
        assert!((binary / decimal - 1.048_576).abs() < 1e-9);
    }

    #[test]
    fn quantities() {
        assert_eq!(parse_quantity("1k"), Ok(Quantity::Records(1e3)));
        assert_eq!(parse_quantity("1.5M"), Ok(Quantity::Records(1.5e6)));
        assert_eq!(parse_quantity("10_000"), Ok(Quantity::Records(1e4)));
        let both = parse_quantity("10k,1MiB/s").unwrap();
        assert_eq!((both.records(100.0), both.records(1024.0)), (10_000.0, 1024.0));
        assert!(parse_quantity("10k,5k").is_err());
        assert!(parse_quantity("fast").is_err());
        assert!(parse_quantity("10 parsecs").is_err());
        assert!(parse_quantity("-1").is_err());
    }

    #[test]
    fn durations_and_bytes() {
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("20us"), Ok(Duration::from_micros(20)));
        assert_eq!(parse_duration("5m"), Ok(Duration::from_secs(300)));
        assert!(parse_duration("1 fortnight").is_err());
        assert_eq!(parse_bytes("16KiB"), Ok(16384));
        assert_eq!(parse_bytes("100"), Ok(100));
    }

    #[test]
    fn nanos_keep_their_sub_millisecond_part() {
        assert_eq!(format_nanos(0), "0 ns");
        assert_eq!(format_nanos(164_400), "164 µs");
        assert_eq!(format_nanos(8_904_000), "8.90 ms");
        assert_eq!(format_nanos(1_200_000_000), "1.20 s");
        assert_eq!(format_count(1_234_567), "1,234,567");
        assert_eq!(format_count(12), "12");
    }
}
