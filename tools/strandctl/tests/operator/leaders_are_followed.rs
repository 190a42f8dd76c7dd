//! Errors that pass are retried with fresh metadata, and a repeat stores nothing twice.

use crate::support::{Cluster, Fault, strandctl};

#[test]
fn a_produce_to_the_wrong_broker_finds_the_leader() {
    let cluster = Cluster::start(2).with_topic("t", 2);
    cluster.plan(Fault::StaleMetadata(1));
    strandctl(&cluster.bootstrap, &["produce", "t", "-p", "1"], "a\nb\n").succeeded();
    assert_eq!(cluster.end_offset("t", 1), 2);
    let brokers: Vec<_> = cluster
        .state()
        .produced
        .iter()
        .map(|&(broker, _)| broker)
        .collect();
    assert_eq!(brokers, [1, 2]);
}

#[test]
fn a_description_asks_each_leader_what_it_holds() {
    let cluster = Cluster::start(2).with_topic("t", 2);
    for partition in ["0", "1"] {
        strandctl(&cluster.bootstrap, &["produce", "t", "-p", partition], "a\n").succeeded();
    }
    let described = strandctl(&cluster.bootstrap, &["topic", "describe", "t", "--json"], "").succeeded();
    let partitions = &described.json()[0][0]["partitions"];
    let sizes: Vec<i64> = [0, 1]
        .map(|at| partitions[at]["size_bytes"].as_i64().unwrap())
        .to_vec();
    assert!(sizes.iter().all(|size| (60..200).contains(size)), "{sizes:?}");
    assert_eq!(partitions[0]["segments"], 1);
    assert!(partitions[1]["segments"].is_null(), "Kafka does not tell");
    assert_eq!(partitions[1]["end_offset"], 1);
    let shown = strandctl(&cluster.bootstrap, &["topic", "describe", "t"], "").succeeded();
    assert!(
        shown.stdout.contains("BYTES") && shown.stdout.contains("SEGMENTS"),
        "{}",
        shown.stdout
    );
}

#[test]
fn a_description_tells_of_the_cleaner_where_the_broker_does() {
    let cluster = Cluster::start(2).with_topic("compacted", 3).with_topic("t", 1);
    let describe = |arguments: &[&str]| {
        let all = [&["topic", "describe"], arguments].concat();
        strandctl(&cluster.bootstrap, &all, "").succeeded()
    };
    let partitions = describe(&["compacted", "--json"]).json()[0][0]["partitions"].clone();
    assert_eq!(
        partitions[0]["compaction"],
        serde_json::json!({
            "cleaned_to": 3, "dirty_ratio": 0.75, "clean_bytes": 100, "dirty_bytes": 300,
            "last_cleaned": "2023-11-14T22:13:20Z", "uncleanable": false,
        })
    );
    assert!(partitions[1]["compaction"].is_null(), "Kafka does not tell");
    assert_eq!(partitions[2]["compaction"]["uncleanable"], true);
    let shown = describe(&["compacted"]).stdout;
    let table: Vec<&str> = shown
        .lines()
        .skip_while(|line| !line.contains("LAST CLEANED"))
        .skip(1)
        .collect();
    assert_eq!(table.len(), 2, "{shown}");
    assert!(table[0].ends_with("0.750        2023-11-14T22:13:20Z"), "{shown}");
    assert!(table[1].contains("cannot be cleaned"), "{shown}");
    assert!(!describe(&["t"]).stdout.contains("CLEANED"));
}

#[test]
fn a_lost_acknowledgement_stores_no_record_twice() {
    let cluster = Cluster::start(1).with_topic("t", 1);
    cluster.plan(Fault::LostAcknowledgement);
    let run = strandctl(&cluster.bootstrap, &["produce", "t"], "a\nb\nc\n").succeeded();
    assert_eq!(cluster.end_offset("t", 0), 3);
    assert!(
        run.stderr.contains("partition 0: 3 records, last offset 2"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_consumer_follows_a_partition_that_moves() {
    let cluster = Cluster::start(2).with_topic("t", 2);
    strandctl(
        &cluster.bootstrap,
        &["produce", "t", "--null-keys", "round-robin"],
        "a\nb\nc\nd\n",
    )
    .succeeded();
    cluster.plan(Fault::StaleMetadata(2));
    cluster.plan(Fault::FetchMoved);
    let run = strandctl(&cluster.bootstrap, &["consume", "t", "-e"], "").succeeded();
    assert_eq!(run.sorted_lines(), ["a", "b", "c", "d"]);
}

#[test]
fn a_retry_ends_with_the_time_limit_and_keeps_the_cause() {
    let cluster = Cluster::start(1).with_topic("t", 1);
    cluster.state().topics.get_mut("t").unwrap()[0].leader = 9;
    let arguments = ["produce", "t", "-X", "delivery.timeout.ms=50"];
    let run = strandctl(&cluster.bootstrap, &arguments, "a\n");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("LEADER_NOT_AVAILABLE (5)"), "{}", run.stderr);
    assert!(run.stderr.contains("gave up after"), "{}", run.stderr);
    assert!(run.stderr.contains("remedy:"), "{}", run.stderr);
}

#[test]
fn records_deleted_under_a_consumer_are_told_and_passed_over() {
    let cluster = Cluster::start(1).with_topic("t", 1);
    strandctl(&cluster.bootstrap, &["produce", "t"], "a\nb\n").succeeded();
    strandctl(&cluster.bootstrap, &["produce", "t"], "c\n").succeeded();
    cluster.plan(Fault::DeletedBefore(2));
    let run = strandctl(&cluster.bootstrap, &["consume", "t", "-e"], "").succeeded();
    assert_eq!(run.stdout, "c\n");
    assert!(
        run.stderr
            .contains("t-0: offset 0 does not exist, reading on from 2"),
        "{}",
        run.stderr
    );
}
