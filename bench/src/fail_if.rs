//! `--fail-if 'response.p99>10ms'`: a gate for CI. A condition that has no samples to judge fails as well.

use crate::clock::Nanos;
use crate::histogram::{Latencies, Summary};
use crate::units::{format_nanos, parse_duration};

/// A distribution that conditions speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Acknowledgement minus intended time.
    Response,
    /// Acknowledgement minus submission.
    Service,
    /// Submission minus intended time.
    Lag,
    /// Receipt by a consumer minus intended time.
    EndToEnd,
}

impl Metric {
    /// Its name in conditions, reports and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Response => "response",
            Self::Service => "service",
            Self::Lag => "lag",
            Self::EndToEnd => "e2e",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Response, Self::Service, Self::Lag, Self::EndToEnd]
            .into_iter()
            .find(|metric| metric.name() == text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// One condition under which the run fails.
#[derive(Clone, Debug, PartialEq)]
pub struct FailIf {
    /// The distribution.
    pub metric: Metric,
    quantile: f64,
    comparison: Comparison,
    threshold: Nanos,
    text: String,
}

const SYNTAX: &str = "a condition is written [response|service|lag|e2e.]p50|p90|p99|p999|p9999|max, then <, <=, > or >=, then a time: response.p99>10ms";

impl FailIf {
    /// Parses `[METRIC.]PERCENTILE OP VALUE`; the metric defaults to response.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("`{text}`: {what}; {SYNTAX}");
        let at = text.find(['<', '>']).ok_or_else(|| wrong("no comparison"))?;
        let (left, rest) = text.split_at(at);
        let (comparison, value) = match rest.as_bytes() {
            [b'<', b'=', ..] => (Comparison::LessOrEqual, &rest[2..]),
            [b'>', b'=', ..] => (Comparison::GreaterOrEqual, &rest[2..]),
            [b'<', ..] => (Comparison::Less, &rest[1..]),
            _ => (Comparison::Greater, &rest[1..]),
        };
        let (metric, percentile) = match left.trim().split_once('.') {
            Some((metric, percentile)) => (
                Metric::parse(metric).ok_or_else(|| wrong("unknown metric"))?,
                percentile,
            ),
            None => (Metric::Response, left.trim()),
        };
        let quantile = match percentile {
            "p50" => 0.5,
            "p90" => 0.9,
            "p99" => 0.99,
            "p999" => 0.999,
            "p9999" => 0.9999,
            "max" => 1.0,
            _ => return Err(wrong("unknown percentile")),
        };
        let value = value.trim();
        if value.ends_with(|c: char| c.is_ascii_digit()) {
            return Err(wrong("the time has no unit"));
        }
        let threshold = parse_duration(value).map_err(|error| wrong(&error))?.as_nanos() as Nanos;
        Ok(Self {
            metric,
            quantile,
            comparison,
            threshold,
            text: text.trim().to_owned(),
        })
    }

    /// The condition as it was typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it holds for a distribution; `None` without samples.
    pub fn holds(&self, summary: Option<&Summary>) -> Option<bool> {
        let summary = summary?;
        let value = match self.quantile {
            quantile if quantile <= 0.5 => summary.p50_ns,
            quantile if quantile <= 0.9 => summary.p90_ns,
            quantile if quantile <= 0.99 => summary.p99_ns,
            quantile if quantile <= 0.999 => summary.p999_ns,
            quantile if quantile <= 0.9999 => summary.p9999_ns,
            _ => summary.max_ns,
        };
        Some(self.compare(value))
    }

    fn compare(&self, value: Nanos) -> bool {
        match self.comparison {
            Comparison::Less => value < self.threshold,
            Comparison::LessOrEqual => value <= self.threshold,
            Comparison::Greater => value > self.threshold,
            Comparison::GreaterOrEqual => value >= self.threshold,
        }
    }

    /// The sentence to print when the run fails by this condition; `None` when it passes.
    pub fn check(&self, latencies: &Latencies) -> Option<String> {
        let Some(value) = latencies.at(self.quantile) else {
            return Some(format!(
                "--fail-if {}: there are no {} samples to judge",
                self.text,
                self.metric.name()
            ));
        };
        self.compare(value)
            .then(|| format!("--fail-if {}: it is {}", self.text, format_nanos(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metric_defaults_to_response() {
        let condition = FailIf::parse("p99>10ms").unwrap();
        assert_eq!(
            (condition.metric, condition.quantile, condition.threshold),
            (Metric::Response, 0.99, 10_000_000)
        );
        assert_eq!(FailIf::parse("e2e.p9999 >= 1s").unwrap().metric, Metric::EndToEnd);
        assert_eq!(
            FailIf::parse("lag.max<20us").unwrap().comparison,
            Comparison::Less
        );
    }

    #[test]
    fn a_goal_is_looked_up_in_a_summary() {
        let mut latencies = Latencies::default();
        (1..=10_000).for_each(|value| latencies.record_between(0, value * 1000));
        let summary = latencies.summary();
        for (text, holds) in [
            ("p50<6ms", true),
            ("p90<6ms", false),
            ("p99>9ms", true),
            ("p999<=9.9ms", false),
            ("p9999>9.9ms", true),
            ("max<10ms", false),
        ] {
            assert_eq!(
                FailIf::parse(text).unwrap().holds(summary.as_ref()),
                Some(holds),
                "{text}"
            );
        }
        assert_eq!(FailIf::parse("p50<1ms").unwrap().holds(None), None);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, what) in [
            ("p99", "no comparison"),
            ("p98>1ms", "unknown percentile"),
            ("speed.p99>1ms", "unknown metric"),
            ("p99>10", "no unit"),
            ("p99>fast", "not a number"),
        ] {
            assert!(FailIf::parse(text).unwrap_err().contains(what), "{text}");
        }
    }

    #[test]
    fn it_fails_when_the_condition_holds_and_without_samples() {
        let mut latencies = Latencies::default();
        let condition = FailIf::parse("response.p50>1ms").unwrap();
        assert!(
            condition
                .check(&latencies)
                .unwrap()
                .contains("no response samples")
        );
        latencies.record_between(0, 900_000);
        assert_eq!(condition.check(&latencies), None);
        let mut latencies = Latencies::default();
        latencies.record_between(0, 2_000_000);
        assert!(condition.check(&latencies).unwrap().contains("2.00 ms"));
    }
}
