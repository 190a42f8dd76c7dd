//! Consumers that stop and go on, consumers that are too slow: the backlog is what arithmetic says, and nothing is lost.
//!
//! Groups and a broker that is killed need a broker that keeps something: `tools/clients` runs those.

// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use strandline_bench::cli::{self, Command};
use strandline_bench::report::{RunReport, ScenarioFacts};

fn report(options: &str, output: &Path) -> (RunReport, ScenarioFacts) {
    let report = support::finish(&support::brokers(2), output, options).report;
    let found = report.verification.clone().unwrap();
    assert!(found.passed() && found.received == found.sent, "{found:?}");
    let scenario = report.scenario.clone().unwrap();
    (report, scenario)
}

#[test]
fn a_pause_of_consumers_leaves_a_backlog_that_is_drained() {
    let folder = tempfile::tempdir().unwrap();
    let (report, scenario) = report(
        "--rate 5k --record-size 100 --warm-up 0 --duration 4s --partitions 4 --pause-consumers 1s..2s",
        folder.path(),
    );
    let backlog = scenario.backlog.unwrap();
    // A second of 5,000 records, less what one fetch in flight brought at its end.
    assert!(
        backlog.records_at_resume > 4_000 && backlog.most_records >= backlog.records_at_resume,
        "{backlog:?}"
    );
    assert!(backlog.drain_seconds.unwrap() < 2.0, "{backlog:?}");
    assert!(backlog.drain_records_per_second.unwrap() > 5_000.0, "{backlog:?}");
    let what: Vec<&str> = scenario.events.iter().map(|event| event.what.as_str()).collect();
    assert_eq!(
        what,
        [
            "consumers stop reading",
            "consumers read again",
            "the backlog is drained"
        ]
    );
    assert_eq!(
        (scenario.events[0].at_seconds, scenario.events[1].at_seconds),
        (1.0, 2.0)
    );
    // Who was due first waited longest: a second, and acknowledgements knew nothing of it.
    let end_to_end = report.latency.end_to_end.unwrap();
    assert!(end_to_end.max_ns > 900_000_000, "{end_to_end:?}");
    let paused = &scenario.stretches[1];
    assert_eq!((paused.from_seconds, paused.to_seconds), (1.0, 2.0));
    assert!(paused.end_to_end.unwrap().p50_ns > 300_000_000, "{paused:?}");
    let samples: u64 = scenario
        .stretches
        .iter()
        .map(|one| one.response.unwrap().count)
        .sum();
    assert_eq!(samples, 20_000, "the stretches are the whole");
    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.contains("<figure id=\"backlog-over-time\">") && page.contains("not reading"));
}

#[test]
fn a_slow_consumer_falls_behind_at_its_own_rate() {
    let folder = tempfile::tempdir().unwrap();
    let (_, scenario) = report(
        "--rate 4k --record-size 100 --warm-up 0 --duration 2s --partitions 4 --consumer-rate 1k",
        folder.path(),
    );
    // 8,000 were sent in two seconds and 2,000 may have been read, and the last fetches of both brokers.
    let most = scenario.backlog.unwrap().most_records;
    assert!((5_000..=8_000).contains(&most), "{most}");
}

#[test]
fn scenarios_that_cannot_be_are_refused() {
    for (options, says) in [
        (&["--pause-consumers", "5s..2s"][..], "FROM before TO"),
        (&["--pause-consumers", "1s..2h"], "before its end"),
        (&["--pause-consumers", "1s..2s", "--consumers", "0"], "read along"),
        (&["--consumer-rate", "5", "--no-verify"], "read along"),
        (&["--rebalance-every", "1s"], "--groups"),
        (
            &["--rebalance-every", "0", "--groups", "1", "--group-members", "2"],
            "never and always",
        ),
        (&["--kill-at", "1s", "--broker", "null"], "keeps nothing"),
        (
            &["--kill-at", "11s", "--restart-after", "2s"],
            "before the schedule ends",
        ),
    ] {
        let arguments = ["strandline-bench", "run"].iter().chain(options);
        let Command::Run(args) = cli::parse(arguments).unwrap().command else {
            unreachable!("the command is run")
        };
        let error = args.check().unwrap_err();
        assert!(error.contains(says), "{options:?}: {error}");
    }
    for (options, says) in [
        (&["--pause-consumers", "5s"][..], "FROM..TO"),
        (&["--consumer-rate", "0"], "more than 0"),
        (&["--kill-at", "1s", "-b", "x:1"], "cannot be used with"),
    ] {
        let arguments = ["strandline-bench", "run"].iter().chain(options);
        let error = cli::parse(arguments).unwrap_err().to_string();
        assert!(error.contains(says), "{options:?}: {error}");
    }
}
