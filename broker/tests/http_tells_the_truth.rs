//! `/metrics` and `/health` of a running node.

#![allow(clippy::unwrap_used)]

mod support;

use std::thread;

use support::http::{get, http};
use support::topic::{metadata, set_config};
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

/// A full disk was told of by a line of the log alone: whoever watches the node must see it, and why.
#[test]
fn a_full_disk_is_told_and_the_log_names_what_happens() {
    const STORAGE_ERROR: i16 = 56;
    let mut broker = Broker::start();
    let mut partition = Partition::create(&broker, "t", &[("retention.ms", "5000000")]);
    partition.append(&Batch::of_values(["before"]));
    set_config(&mut broker.client(), "t", "segment.bytes", "2000000");
    broker.kill();
    broker.set(&format!("strandline.disk.free.min.bytes={}", 1_u64 << 60));
    broker.launch();
    let reason = loop {
        let (status, reason) = get(http(&broker), "/health/ready");
        if status.contains("503") && reason.contains("refuses appends") {
            break reason;
        }
        thread::yield_now();
    };
    assert!(
        reason.contains("strandline.disk.free.min.bytes is 1152921504606846976"),
        "{reason}"
    );
    assert!(get(http(&broker), "/health/live").0.contains("200"));
    let mut partition = Partition::find(&broker, "t", 0);
    let answer = partition.produce(&Batch::of_values(["after"]));
    assert_eq!(answer.error_code, STORAGE_ERROR);
    assert_eq!(partition.batches(0).len(), 1, "what is there is read");
    let page = get(http(&broker), "/metrics").1;
    let of = |name: &str| series(&page, &format!("strandline_{name}{{broker=\"1000\"}}"));
    assert_eq!((of("disk_full"), of("appends_refused_total")), (1.0, 1.0));
    assert_eq!((of("damaged_partitions"), of("storage_stopped")), (0.0, 0.0));
    assert!(of("disk_free_bytes") > 0.0);
    let version = env!("CARGO_PKG_VERSION");
    let info = format!("strandline_build_info{{version=\"{version}\",node=\"1\"}}");
    assert_eq!(series(&page, &info), 1.0);
    broker.stop();
    let log = broker.log();
    for line in [
        &format!("starting version=\"{version}\" node=1 cluster="),
        "topic \"t\" created: 1 partitions",
        "configuration of topic \"t\" changed: segment.bytes=\"2000000\"",
        "the disk is full: appends are refused",
        "stopped",
    ] {
        assert!(log.contains(line), "{line} is not in:\n{log}");
    }
}
