//! Exit codes and words: 1 with name, code, the broker's text and a remedy; 2 for wrong usage; nothing destructive unasked.

use std::io::Write;
use std::net::TcpListener;

use serde_json::json;

use crate::support::{Cluster, strandctl};

#[test]
fn topics_are_created_listed_configured_described_and_deleted() {
    let cluster = Cluster::start(2);
    let ctl = |arguments: &[&str]| strandctl(&cluster.bootstrap, arguments, "");
    let run = ctl(&["topic", "create", "a", "b", "--partitions", "3"]).succeeded();
    assert!(
        run.stdout
            .contains("created topic a (3 partitions, replication factor 1)"),
        "{}",
        run.stdout
    );
    assert_eq!(
        ctl(&["topic", "list", "--json"]).succeeded().json()[0][1]["topic"],
        "b"
    );
    ctl(&["topic", "config", "set", "a", "retention.ms=5", "segment.bytes=9"]).succeeded();
    ctl(&["topic", "config", "unset", "a", "segment.bytes"]).succeeded();
    let unset = ctl(&["topic", "config", "unset", "a", "retention.ms", "segment.bytes"]);
    assert_eq!(unset.code, 1);
    assert!(
        unset
            .stderr
            .contains("INVALID_CONFIG (40): 'segment.bytes' is not set on it"),
        "{}",
        unset.stderr
    );
    let shown = ctl(&["topic", "config", "show", "a", "--json"])
        .succeeded()
        .json();
    assert_eq!(shown[0].as_array().unwrap().len(), 1);
    assert_eq!(shown[0][0]["value"], "5");
    let described = ctl(&["topic", "describe", "a", "--json"]).succeeded().json();
    assert_eq!(described[0][0]["partitions"][1]["leader"], 2);
    assert_eq!(described[0][0]["configs"]["retention.ms"], "5");
    assert_eq!(
        ctl(&["cluster", "describe", "--json"]).succeeded().json()[0]["brokers"][1]["leaders"],
        2
    );
    let own = ctl(&["topic", "delete", "a", "__consumer_offsets", "--yes"]);
    assert_eq!(own.code, 2);
    assert!(own.stderr.contains("--internal"), "{}", own.stderr);
    assert_eq!(cluster.state().topics.len(), 2, "nothing was deleted");
    ctl(&["topic", "delete", "a", "b", "--yes"]).succeeded();
    assert!(cluster.state().topics.is_empty());
}

#[test]
fn a_refusal_has_name_code_text_and_remedy() {
    let cluster = Cluster::start(1).with_topic("t", 1);
    let run = strandctl(&cluster.bootstrap, &["topic", "create", "t"], "");
    assert_eq!(run.code, 1);
    assert!(
        run.stderr
            .contains("topic t: TOPIC_ALREADY_EXISTS (36): it is there already"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("remedy: "), "{}", run.stderr);
    let run = strandctl(&cluster.bootstrap, &["topic", "create", "t", "--json"], "");
    let error: serde_json::Value = serde_json::from_str(&run.stderr).unwrap();
    assert_eq!(error["error"]["code"], 36);
    strandctl(
        &cluster.bootstrap,
        &["topic", "create", "t", "--if-not-exists"],
        "",
    )
    .succeeded();
}

#[test]
fn of_several_each_failure_is_told() {
    let cluster = Cluster::start(1).with_topic("here", 1);
    let run = strandctl(
        &cluster.bootstrap,
        &["topic", "delete", "x", "here", "y", "-y"],
        "",
    );
    assert_eq!(run.code, 1);
    assert_eq!(run.stdout, "deleted topic here\n");
    assert!(
        run.stderr.contains("topic x: ") && run.stderr.contains("topic y: "),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("2 of 3 failed"), "{}", run.stderr);
}

#[test]
fn a_deletion_without_a_terminal_needs_yes() {
    let cluster = Cluster::start(1).with_topic("t", 1);
    let run = strandctl(&cluster.bootstrap, &["topic", "delete", "t"], "y\n");
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("--yes"), "{}", run.stderr);
    assert!(cluster.state().topics.contains_key("t"));
}

#[test]
fn wrong_usage_exits_with_2_before_anything_is_asked() {
    // Nobody listens there: that the exit code is 2 shows that nobody was asked.
    let nobody = "127.0.0.1:1";
    for arguments in [
        &["topic", "create"][..],
        &["topic", "create", "t", "--partitions", "0"],
        &["topic", "create", "t", "--config", "novalue"],
        &["consume", "t", "-o", "sometime"],
        &["consume", "t", "-f", "%q"],
        &["consume", "t", "-f", "%s", "--json"],
        &["produce", "t", "-z", "rar"],
        &["produce", "t", "--acks", "3"],
        &["produce", "t", "-K", ""],
        &["topic", "list", "-X", "security.protocol=SASL_SSL"],
        &["topic", "list", "-X", "no.such.property=1"],
        &["topic", "list", "--command-config", "/nonexistent"],
        &["group", "list", "--state", "sleepy"],
        &["group", "list", "--type", "rare"],
        &["group", "describe", "--members", "--state"],
        &["group", "delete", "g"],
        &["group", "reset-offsets", "g", "--to-earliest"],
        &["group", "reset-offsets", "g", "--topic", "t"],
        &["group", "reset-offsets", "g", "--topic", "t:x", "--to-earliest"],
        &["group", "reset-offsets", "g", "--topic", "t:-1", "--to-earliest"],
        &[
            "group",
            "reset-offsets",
            "g",
            "--topic",
            "t",
            "--all-topics",
            "--to-earliest",
        ],
        &[
            "group",
            "reset-offsets",
            "g",
            "--all-topics",
            "--to-earliest",
            "--to-latest",
        ],
        &[
            "group",
            "reset-offsets",
            "g",
            "--all-topics",
            "--by-duration",
            "soon",
        ],
        &[
            "group",
            "reset-offsets",
            "g",
            "--all-topics",
            "--to-datetime",
            "yesterday",
        ],
        &["group", "reset-offsets", "g", "--from-file", "/nonexistent"],
        &["group", "reset-offsets", "g", "--from-file", "-", "--to-earliest"],
        &["group", "reset-offsets", "g", "--from-file", "-", "--topic", "t"],
        &[
            "group",
            "reset-offsets",
            "g",
            "--all-topics",
            "--to-earliest",
            "--export",
            "--json",
        ],
        &["nonsense"],
    ] {
        let run = strandctl(nobody, arguments, "");
        assert_eq!(run.code, 2, "{arguments:?}: {}", run.stderr);
        assert_eq!(run.stdout, "");
    }
}

#[test]
fn an_unknown_topic_is_named() {
    let cluster = Cluster::start(1);
    for arguments in [&["consume", "nosuch", "-e"][..], &["topic", "describe", "nosuch"]] {
        let run = strandctl(&cluster.bootstrap, arguments, "");
        assert_eq!(run.code, 1);
        assert!(
            run.stderr
                .contains("topic nosuch: UNKNOWN_TOPIC_OR_PARTITION (3)"),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn no_broker_is_told_at_once_with_a_remedy() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let run = strandctl(&address, &["topic", "list"], "");
    assert_eq!(run.code, 1);
    assert!(
        run.stderr.contains(&format!("cannot connect to {address}")),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr.contains("STRANDCTL_BOOTSTRAP_SERVER"),
        "{}",
        run.stderr
    );
}

#[test]
fn what_is_no_broker_costs_no_memory() {
    for garbage in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        &[0xff; 16],
        &[0, 0, 0, 5, 1, 2, 3, 4, 5],
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(garbage).unwrap();
        });
        let run = strandctl(&address, &["topic", "list"], "");
        assert_eq!(run.code, 1, "{}", run.stderr);
        let is_http = garbage.starts_with(b"HTTP");
        assert_eq!(run.stderr.contains("answers in HTTP"), is_http, "{}", run.stderr);
        server.join().unwrap();
    }
}

#[test]
fn topics_grow_and_records_are_deleted() {
    let cluster = Cluster::start(2).with_topic("t", 2);
    let ctl = |arguments: &[&str]| strandctl(&cluster.bootstrap, arguments, "");
    let grown = ctl(&["topic", "add-partitions", "t", "--partitions", "3"]).succeeded();
    assert_eq!(grown.stdout, "topic t has 3 partitions now\n");
    assert_eq!(cluster.state().topics["t"].len(), 3);
    let again = ctl(&["topic", "add-partitions", "t", "--partitions", "3"]);
    assert_eq!(again.code, 1);
    assert!(
        again.stderr.contains("INVALID_PARTITIONS (37): it has as many"),
        "{}",
        again.stderr
    );

    for partition in ["0", "1"] {
        for value in ["a\n", "b\n", "c\n"] {
            strandctl(&cluster.bootstrap, &["produce", "t", "-p", partition], value).succeeded();
        }
    }
    let unasked = ctl(&["topic", "delete-records", "t", "--before", "1"]);
    assert_eq!(unasked.code, 2, "there is nobody to ask");
    let starts = |cluster: &Cluster| -> Vec<i64> {
        cluster.state().topics["t"]
            .iter()
            .map(|partition| partition.start)
            .collect()
    };
    assert_eq!(starts(&cluster), [0, 0, 0]);
    let cut = ctl(&[
        "topic",
        "delete-records",
        "t",
        "--before",
        "1",
        "-p",
        "1",
        "--yes",
        "--json",
    ])
    .succeeded();
    assert_eq!(
        cut.json()[0],
        json!({"topic": "t", "partition": 1, "start_offset": 1})
    );
    assert_eq!(starts(&cluster), [0, 1, 0]);
    ctl(&["topic", "delete-records", "t", "--before", "-1", "--yes"]).succeeded();
    assert_eq!(starts(&cluster), [2, 2, 0], "all but the last one");
    ctl(&["topic", "delete-records", "t", "--before", "end", "--yes"]).succeeded();
    assert_eq!(starts(&cluster), [3, 3, 0]);
    let beyond = ctl(&[
        "topic",
        "delete-records",
        "t",
        "--before",
        "9",
        "-p",
        "0",
        "--yes",
    ]);
    assert_eq!(beyond.code, 1);
    assert!(
        beyond.stderr.contains("t-0: OFFSET_OUT_OF_RANGE (1)"),
        "{}",
        beyond.stderr
    );
    assert_eq!(
        ctl(&["topic", "delete-records", "t", "--before", "1", "-p", "7", "-y"]).code,
        2
    );
}

#[test]
fn brokers_are_configured_one_by_one_and_all_at_once() {
    let cluster = Cluster::start(2);
    let ctl = |arguments: &[&str]| {
        strandctl(
            &cluster.bootstrap,
            &[&["broker", "config"], arguments].concat(),
            "",
        )
    };
    assert_eq!(
        ctl(&["show"]).succeeded().stdout,
        "nothing is set on all brokers (--all shows what holds for it)\n"
    );
    ctl(&["set", "log.retention.ms=5", "num.partitions.x=1"]).succeeded();
    ctl(&["set", "--broker", "2", "log.retention.ms=7"]).succeeded();
    assert_eq!(cluster.state().configs[""]["log.retention.ms"], "5");
    assert_eq!(cluster.state().configs["2"]["log.retention.ms"], "7");
    let shown = ctl(&["show", "--broker", "2", "--json"]).succeeded().json();
    assert_eq!(
        (&shown[0][0]["value"], &shown[0][0]["source"]),
        (&json!("7"), &json!("DYNAMIC_BROKER_CONFIG"))
    );
    ctl(&["unset", "log.retention.ms"]).succeeded();
    assert!(!cluster.state().configs[""].contains_key("log.retention.ms"));
    let unset = ctl(&["unset", "log.retention.ms"]);
    assert_eq!(unset.code, 1);
    assert!(
        unset.stderr.contains("all brokers: INVALID_CONFIG (40)"),
        "{}",
        unset.stderr
    );
    let nobody = ctl(&["show", "--broker", "9"]);
    assert!(
        nobody.stderr.contains("broker 9: BROKER_NOT_AVAILABLE (8)"),
        "{}",
        nobody.stderr
    );
}

#[test]
fn wrong_usage_is_json_to_whoever_asks_for_json() {
    let cluster = Cluster::start(1);
    for arguments in [
        &["topic", "create", "--json"][..],
        &["no-such-verb", "--json"],
        &["consume", "t", "--format", "%s", "--json"],
    ] {
        let run = strandctl(&cluster.bootstrap, arguments, "");
        assert_eq!(run.code, 2, "{arguments:?}");
        let told: serde_json::Value = serde_json::from_str(&run.stderr).unwrap();
        assert!(
            told["error"]["message"]
                .as_str()
                .is_some_and(|text| !text.is_empty()),
            "{told}"
        );
        assert!(run.stdout.is_empty());
    }
    let help = strandctl(&cluster.bootstrap, &["topic", "--help", "--json"], "").succeeded();
    assert!(help.stdout.contains("Usage: strandctl topic"), "{}", help.stdout);
}

/// It waited for a minute without a word.
#[test]
fn a_broken_disk_is_told_at_once_and_not_waited_for() {
    let cluster = Cluster::start(1).with_topic("t", 1);
    strandctl(&cluster.bootstrap, &["produce", "t"], "a\n").succeeded();
    cluster.state().broken_disk = true;
    let run = strandctl(&cluster.bootstrap, &["consume", "t", "-e"], "");
    assert_eq!(run.code, 1);
    let mut lines = run.stderr.lines();
    assert_eq!(
        lines.next(),
        Some("strandctl: retrying: t-0: KAFKA_STORAGE_ERROR (56)")
    );
    let last = lines.next().unwrap_or_default();
    let gave_up = last.strip_prefix("strandctl: t-0: KAFKA_STORAGE_ERROR (56) (gave up after ");
    let seconds = gave_up.and_then(|rest| rest.strip_suffix(" s)"));
    assert!(
        seconds.is_some_and(|seconds| seconds.parse::<u64>().unwrap() <= 5),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr.contains("remedy: look at the broker's log"),
        "{}",
        run.stderr
    );
}
