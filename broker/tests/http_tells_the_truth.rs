//! `/metrics` and `/health` of a running node.

#![allow(clippy::unwrap_used)]

mod support;

use support::http::{get, http};
use support::topic::metadata;
use support::{Batch, Broker, Partition};

/// The value of a series.
fn series(page: &str, series: &str) -> f64 {
    let line = page
        .lines()
        .find(|line| line.rsplit_once(' ').is_some_and(|(name, _)| name == series));
    let line = line.unwrap_or_else(|| panic!("{series} is not in:\n{page}"));
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

#[test]
fn a_ready_node_is_live_and_ready() {
    let broker = Broker::start();
    for path in ["/health/live", "/health/ready"] {
        assert!(get(http(&broker), path).0.contains("200"), "{path}");
    }
    assert!(get(http(&broker), "/nothing").0.contains("404"));
}

#[test]
fn counters_follow_what_happens() {
    let broker = Broker::start_with(&["--shards", "2"]);
    let mut partition = Partition::create(&broker, "counted", &[]);
    for _ in 0..5 {
        partition.append(&Batch::of_values(["value"]));
    }
    let too_late = partition.fetch(99);
    assert_eq!(too_late.error_code, 1);
    let page = get(http(&broker), "/metrics").1;
    assert!(page.ends_with("# EOF\n"));
    let leader = metadata(&mut broker.client(), &["counted"]).topics[0].partitions[0]
        .leader_id
        .0;
    let of = |name: &str, labels: &str| {
        series(
            &page,
            &format!("strandline_{name}{{broker=\"{leader}\"{labels}}}"),
        )
    };
    assert_eq!(of("requests_total", ",api=\"Produce\",code=\"NONE\""), 5.0);
    assert_eq!(
        of("requests_total", ",api=\"Fetch\",code=\"OFFSET_OUT_OF_RANGE\""),
        1.0
    );
    assert!(of("journal_flushes_total", "") >= 1.0);
    assert!(of("produce_phase_seconds_count", ",phase=\"flush\"") >= 5.0);
    assert!(series(&page, "strandline_node_connections") >= 1.0);
}
