//! What `produce` reads from stdin, `consume` prints: keys, headers, nulls and order kept, whatever broker leads.

use crate::support::{Cluster, strandctl};

#[test]
fn lines_of_all_partitions_of_two_brokers_come_back_in_their_order() {
    let cluster = Cluster::start(2).with_topic("orders", 4);
    let input: String = (0..1000)
        .map(|number| format!("key-{}:{number}\n", number % 10))
        .collect();
    let run = strandctl(
        &cluster.bootstrap,
        &["produce", "orders", "-K", ":", "-X", "batch.size=500"],
        &input,
    )
    .succeeded();
    assert!(
        run.stderr.starts_with("produced 1000 records to orders\n"),
        "{}",
        run.stderr
    );
    assert!(
        cluster.state().produced.iter().any(|&(broker, _)| broker == 2),
        "the second broker leads half of them"
    );

    let run = strandctl(
        &cluster.bootstrap,
        &["consume", "orders", "-e", "-f", r"%k %s\n"],
        "",
    )
    .succeeded();
    assert_eq!(run.stdout.lines().count(), 1000);
    for key in 0..10 {
        let key = format!("key-{key} ");
        let numbers: Vec<u32> = run
            .stdout
            .lines()
            .filter_map(|line| line.strip_prefix(&key))
            .map(|number| number.parse().unwrap())
            .collect();
        assert_eq!(numbers.len(), 100);
        assert!(numbers.is_sorted(), "the records of one key keep their order");
    }
}

#[test]
fn keys_headers_and_nulls_survive_every_codec() {
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let cluster = Cluster::start(1).with_topic("t", 1);
        let produce = [
            "produce", "t", "-K", r"\t", "-Z", "-H", "a=1", "-H", "a=", "-H", "b", "-z", codec,
        ];
        strandctl(&cluster.bootstrap, &produce, "k\tv\nonly a value\ntombstone\t\n").succeeded();
        let run = strandctl(&cluster.bootstrap, &["consume", "t", "-e", "--json"], "").succeeded();
        let records = run.json();
        let pairs: Vec<_> = records
            .iter()
            .map(|record| (record["key"].as_str(), record["value"].as_str()))
            .collect();
        assert_eq!(
            pairs,
            [
                (Some("k"), Some("v")),
                (None, Some("only a value")),
                (Some("tombstone"), None)
            ],
            "{codec}"
        );
        let headers = r#"[{"key":"a","value":"1"},{"key":"a","value":""},{"key":"b","value":null}]"#;
        assert_eq!(records[0]["headers"].to_string(), headers);
        assert_eq!(records[2]["offset"], 2);
    }
}

#[test]
fn every_starting_point_is_honoured() {
    let cluster = Cluster::start(1).with_topic("t", 1);
    strandctl(&cluster.bootstrap, &["produce", "t"], "a\nb\nc\nd\n").succeeded();
    let consume = |offset: &str| {
        let run = strandctl(&cluster.bootstrap, &["consume", "t", "-e", "-o", offset], "").succeeded();
        (run.stdout.replace('\n', ""), run.stderr)
    };
    assert_eq!(consume("start").0, "abcd");
    assert_eq!(consume("end").0, "");
    assert_eq!(consume("2").0, "cd");
    assert_eq!(consume("-1").0, "d");
    assert_eq!(consume("-100").0, "abcd");
    let (printed, warned) = consume("9");
    assert_eq!(printed, "");
    assert!(warned.contains("offset 9 does not exist"), "{warned}");
    let run = strandctl(
        &cluster.bootstrap,
        &["consume", "t", "-n", "3", "-o", "1", "-f", "%o,"],
        "",
    )
    .succeeded();
    assert_eq!(run.stdout, "1,2,3,");
}

#[test]
fn a_consumer_without_an_end_waits_for_what_comes() {
    let cluster = Cluster::start(1).with_topic("t", 1);
    let bootstrap = cluster.bootstrap.clone();
    let consumer = std::thread::spawn(move || strandctl(&bootstrap, &["consume", "t", "-n", "2"], ""));
    strandctl(&cluster.bootstrap, &["produce", "t"], "one\n").succeeded();
    strandctl(&cluster.bootstrap, &["produce", "t"], "two\n").succeeded();
    assert_eq!(consumer.join().unwrap().succeeded().stdout, "one\ntwo\n");
}

#[test]
fn brokers_with_older_versions_are_served() {
    let cluster = Cluster::start(1).with_topic("t", 1);
    cluster.state().api_versions_max = 0;
    cluster.state().produce_max = 3;
    strandctl(&cluster.bootstrap, &["produce", "t"], "old\n").succeeded();
    assert_eq!(cluster.state().produced, [(1, 3)]);
    assert_eq!(
        strandctl(&cluster.bootstrap, &["consume", "t", "-e"], "")
            .succeeded()
            .stdout,
        "old\n"
    );
}

#[test]
fn nothing_is_waited_for_without_acknowledgement() {
    let cluster = Cluster::start(1).with_topic("t", 1);
    let run = strandctl(
        &cluster.bootstrap,
        &["produce", "t", "--acks", "0", "--json"],
        "x\n",
    )
    .succeeded();
    assert_eq!(
        run.json()[0]["partitions"][0]["last_offset"],
        serde_json::Value::Null
    );
}
