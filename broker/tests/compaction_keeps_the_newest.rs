//! Compacted topics over TCP: what stays, what goes and when, from every offset; the offsets topic under its groups.

#![allow(clippy::unwrap_used)]

mod support;

use std::time::{Duration, Instant};

use kafka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use kafka_protocol::messages::{DeleteGroupsRequest, DescribeLogDirsRequest};
use strandline_wire::log_details::{CompactionDetails, LogDetails};
use support::batch::{CODECS, decode_all, now_ms};
use support::group::{commit, committed, coordinator, group_id};
use support::http::metrics;
use support::topic::{name, set_config};
use support::{Batch, Broker, Partition, Record};

/// Longer than any cleaning should take.
const PATIENCE: Duration = Duration::from_secs(60);

fn start() -> Broker {
    Broker::start_set(&["log.cleaner.backoff.ms=50"])
}

/// A compacted topic of which each append makes a segment.
fn create(broker: &Broker, topic: &str, configs: &[(&str, &str)]) -> Partition {
    let mut all = vec![
        ("cleanup.policy", "compact"),
        ("segment.ms", "1000"),
        ("min.cleanable.dirty.ratio", "0.01"),
    ];
    all.extend(configs);
    Partition::create(broker, topic, &all)
}

/// Appends records as one batch, later than all before by more than a segment lasts.
fn put(p: &mut Partition, clock: &mut i64, records: &[(&str, Option<&str>)]) -> i64 {
    *clock += 2000;
    p.append(&batch(*clock, records))
}

fn batch(time: i64, records: &[(&str, Option<&str>)]) -> Batch {
    let records = records.iter().map(|(key, value)| {
        let value = value.map(str::as_bytes);
        Record::new(time, Some(key.as_bytes()), value)
    });
    Batch::new(records.collect())
}

fn clock() -> i64 {
    now_ms() - 1_000_000
}

/// Offset, key and value of every record from `offset` on, as `key=value@offset`.
fn content(p: &mut Partition, offset: i64) -> String {
    let mut found = Vec::new();
    let mut next = offset;
    loop {
        let data = p.fetch(next);
        assert_eq!(data.error_code, 0, "fetch at {next}");
        if next >= data.high_watermark {
            return found.join(" ");
        }
        let batches = decode_all(&data.records.unwrap_or_default());
        assert!(
            !batches.is_empty(),
            "nothing at {next} below {}",
            data.high_watermark
        );
        for batch in batches {
            assert!(batch.last_offset() >= next);
            for record in &batch.records {
                let at = batch.base_offset + i64::from(record.offset_delta);
                if at >= next {
                    let text = |bytes: &Option<Vec<u8>>| {
                        let text = bytes.as_deref().map(String::from_utf8_lossy);
                        text.map_or("-".to_owned(), |text| text.into_owned())
                    };
                    found.push(format!("{}={}@{at}", text(&record.key), text(&record.value)));
                }
            }
            next = batch.last_offset() + 1;
        }
    }
}

/// Waits until the partition holds exactly this.
fn becomes(p: &mut Partition, wanted: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = content(p, 0);
        if found == wanted {
            return;
        }
        assert!(Instant::now() < deadline, "{found} did not become {wanted}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What DescribeLogDirs tells of the cleaner's work.
fn told(p: &mut Partition) -> Option<CompactionDetails> {
    let topic = DescribableLogDirTopic::default()
        .with_topic(name(&p.topic))
        .with_partitions(vec![p.index]);
    let request = DescribeLogDirsRequest::default().with_topics(Some(vec![topic]));
    let answer = p.client.call(4, &request);
    let partition = &answer.results[0].topics[0].partitions[0];
    LogDetails::decode(&partition.unknown_tagged_fields)
        .unwrap()
        .compaction
}

#[test]
fn the_newest_of_each_key_stays_where_it_was() {
    let began = now_ms();
    let mut broker = start();
    let mut p = create(&broker, "abc", &[]);
    let mut now = clock();
    put(&mut p, &mut now, &[("A", Some("X"))]);
    put(&mut p, &mut now, &[("B", Some("Y"))]);
    put(&mut p, &mut now, &[("A", Some("Z"))]);
    put(&mut p, &mut now, &[("end", Some("1"))]);
    becomes(&mut p, "B=Y@1 A=Z@2 end=1@3");
    for (offset, wanted) in [
        "B=Y@1 A=Z@2 end=1@3",
        "B=Y@1 A=Z@2 end=1@3",
        "A=Z@2 end=1@3",
        "end=1@3",
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(content(&mut p, offset as i64), wanted);
    }
    assert_eq!(p.list_offset(7, -2).offset, 0, "the start stays");
    assert_eq!(p.end_offset(), 4);
    // The records are there a moment before the cleaning that left them ends.
    let cleaned = loop {
        let told = told(&mut p).unwrap();
        if told.last_cleaned_ms.is_some() {
            break told;
        }
    };
    assert!((began..=now_ms()).contains(&cleaned.last_cleaned_ms.unwrap()));
    assert_eq!(
        (cleaned.cleaned_to, cleaned.dirty_bytes, cleaned.dirty_ratio()),
        (3, 0, 0.0)
    );
    assert!(cleaned.clean_bytes > 0 && !cleaned.is_uncleanable);
    let page = metrics(&broker);
    let sum = |name: &str| -> f64 {
        let of_name = page.iter().filter(|((series, _), _)| series == name);
        of_name.map(|(_, value)| value).sum()
    };
    assert!(sum("strandline_cleaner_cleanings_total") >= 1.0);
    assert!(sum("strandline_cleaner_records_read_total") > sum("strandline_cleaner_records_kept_total"));
    assert_eq!(sum("strandline_cleaner_uncleanable_partitions"), 0.0);
    broker.kill();
    broker.launch();
    let mut p = Partition::find(&broker, "abc", 0);
    assert_eq!(content(&mut p, 0), "B=Y@1 A=Z@2 end=1@3");
    let after = told(&mut p).unwrap();
    assert_eq!(
        (after.cleaned_to, after.last_cleaned_ms),
        (3, None),
        "how far is kept, when is not"
    );
    set_config(&mut p.client, "abc", "cleanup.policy", "delete");
    assert_eq!(told(&mut p), None);
}

/// B33: tombstones kept for ever, dropped too early, or old values resurrected.
#[test]
fn a_tombstone_is_seen_for_its_time_and_nothing_comes_back() {
    let mut broker = start();
    let mut p = create(&broker, "graves", &[("delete.retention.ms", "3000")]);
    let mut now = clock();
    put(&mut p, &mut now, &[("k", Some("1"))]);
    put(&mut p, &mut now, &[("k", None)]);
    let before = Instant::now();
    put(&mut p, &mut now, &[("filler", Some("1"))]);
    becomes(&mut p, "k=-@1 filler=1@2");
    broker.kill();
    broker.launch();
    let mut p = Partition::find(&broker, "graves", 0);
    let mut filled = 1;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = content(&mut p, 0);
        assert!(!found.contains("k=1"), "{found}");
        if !found.contains("k=-") {
            assert!(before.elapsed() >= Duration::from_secs(3), "it went too early");
            break;
        }
        assert!(Instant::now() < deadline, "it stays for ever: {found}");
        filled += 1;
        put(&mut p, &mut now, &[("filler", Some(&filled.to_string()))]);
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// B33: delete.retention.ms taken for retention. It is of tombstones alone, whatever the policy.
#[test]
fn delete_retention_alone_deletes_no_data() {
    let broker = Broker::start_set(&[
        "log.cleaner.backoff.ms=50",
        "log.initial.task.delay.ms=0",
        "log.retention.check.interval.ms=50",
    ]);
    let of_policy_delete = |topic: &str, retention_ms: &str| {
        let configs = [
            ("delete.retention.ms", "0"),
            ("segment.ms", "1000"),
            ("retention.ms", retention_ms),
        ];
        Partition::create(&broker, topic, &configs)
    };
    let mut compacted = create(&broker, "compacted", &[("delete.retention.ms", "0")]);
    let mut plain = of_policy_delete("plain", "-1");
    let mut witness = of_policy_delete("witness", "1");
    let mut now = clock();
    for p in [&mut compacted, &mut plain, &mut witness] {
        for (key, value) in [
            ("a", Some("1")),
            ("b", Some("1")),
            ("t", Some("1")),
            ("t", None),
            ("a", Some("2")),
        ] {
            put(p, &mut now, &[(key, value)]);
        }
        put(p, &mut now, &[("end", Some("1"))]);
    }
    // Retention and the cleaner came by, the cleaner twice: the tombstone went.
    let deadline = Instant::now() + PATIENCE;
    while content(&mut compacted, 0).contains("t=1") {
        assert!(Instant::now() < deadline, "the cleaner never came");
        std::thread::sleep(Duration::from_millis(20));
    }
    put(&mut compacted, &mut now, &[("end", Some("2"))]);
    becomes(&mut compacted, "b=1@1 a=2@4 end=1@5 end=2@6");
    let deadline = Instant::now() + PATIENCE;
    while witness.list_offset(7, -2).offset < 6 {
        assert!(Instant::now() < deadline, "retention never came");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(content(&mut plain, 0), "a=1@0 b=1@1 t=1@2 t=-@3 a=2@4 end=1@5");
    for p in [&mut plain, &mut compacted] {
        assert_eq!(p.list_offset(7, -2).offset, 0);
    }
}

/// B33: compact,delete does both.
#[test]
fn compact_and_delete_does_both() {
    let broker = Broker::start_set(&[
        "log.cleaner.backoff.ms=50",
        "log.initial.task.delay.ms=0",
        "log.retention.check.interval.ms=50",
    ]);
    let mut p = create(
        &broker,
        "both",
        &[
            ("cleanup.policy", "compact,delete"),
            ("retention.ms", "604800000"),
        ],
    );
    let mut now = clock();
    for (key, value) in [("k", "1"), ("k", "2"), ("l", "1"), ("end", "1")] {
        put(&mut p, &mut now, &[(key, Some(value))]);
    }
    becomes(&mut p, "k=2@1 l=1@2 end=1@3");
    assert_eq!(p.list_offset(7, -2).offset, 0);
    // Of now: it stays, and what is older goes.
    now = now_ms();
    put(&mut p, &mut now, &[("new", Some("1"))]);
    set_config(&mut p.client, "both", "retention.ms", "500000");
    let deadline = Instant::now() + PATIENCE;
    while p.list_offset(7, -2).offset < 4 {
        assert!(Instant::now() < deadline, "nothing was deleted");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(content(&mut p, 4), "new=1@4");
}

#[test]
fn lags_are_honoured_and_the_policy_can_change() {
    let broker = start();
    let mut p = create(&broker, "lags", &[("min.compaction.lag.ms", "604800000")]);
    let mut other = Partition::create(
        &broker,
        "plain",
        &[("segment.ms", "1000"), ("min.cleanable.dirty.ratio", "0.01")],
    );
    let mut now = clock();
    for value in ["1", "2", "3"] {
        put(&mut p, &mut now, &[("k", Some(value))]);
        put(&mut other, &mut now, &[("k", Some(value))]);
    }
    let mut third = create(&broker, "third", &[]);
    for value in ["1", "2", "3"] {
        put(&mut third, &mut now, &[("k", Some(value))]);
    }
    // The cleaner came by, and only the third was due.
    becomes(&mut third, "k=2@1 k=3@2");
    assert_eq!(content(&mut p, 0), "k=1@0 k=2@1 k=3@2");
    assert_eq!(content(&mut other, 0), "k=1@0 k=2@1 k=3@2");
    set_config(&mut broker.client(), "lags", "min.compaction.lag.ms", "0");
    becomes(&mut p, "k=2@1 k=3@2");
    set_config(&mut broker.client(), "plain", "cleanup.policy", "compact");
    becomes(&mut other, "k=2@1 k=3@2");
}

/// B07: what survives is identical, whatever the codec; null, empty and data are three things.
#[test]
fn survivors_are_identical_in_every_codec() {
    let broker = start();
    for codec in CODECS {
        let mut p = create(&broker, &format!("codec-{codec:?}"), &[]);
        let mut now = clock();
        let records = [
            ("gone", Some("1")),
            ("", Some("empty key")),
            ("e", Some("")),
            ("n", None),
        ];
        now += 2000;
        p.append(&batch(now, &records).compressed(codec));
        put(&mut p, &mut now, &[("gone", Some("2"))]);
        put(&mut p, &mut now, &[("end", Some("1"))]);
        becomes(&mut p, "=empty key@1 e=@2 n=-@3 gone=2@4 end=1@5");
        put(&mut p, &mut now, &[("gone", Some("3"))]);
        put(&mut p, &mut now, &[("end", Some("2"))]);
        becomes(&mut p, "=empty key@1 e=@2 n=-@3 end=1@5 gone=3@6 end=2@7");
    }
}

/// B20: deleted groups and old offsets came back after compaction of the offsets topic and a restart.
#[test]
fn groups_outlive_the_compaction_of_their_topic() {
    let mut broker = Broker::start_set(&[
        "log.cleaner.backoff.ms=50",
        "offsets.topic.num.partitions=1",
        "group.initial.rebalance.delay.ms=0",
    ]);
    support::topic::create(&mut broker.client(), "t", 2, &[]);
    let mut client = coordinator(&broker, "kept");
    assert_eq!(commit(&mut client, "gone", "t", 0, 5), 0);
    set_config(&mut client, "__consumer_offsets", "segment.ms", "1");
    set_config(
        &mut client,
        "__consumer_offsets",
        "min.cleanable.dirty.ratio",
        "0.01",
    );
    for offset in 1..=40 {
        assert_eq!(commit(&mut client, "kept", "t", 0, offset), 0);
        assert_eq!(commit(&mut client, "kept", "t", 1, offset * 2), 0);
        if offset == 20 {
            let request = DeleteGroupsRequest::default().with_groups_names(vec![group_id("gone")]);
            assert_eq!(client.call(2, &request).results[0].error_code, 0);
        }
    }
    let mut p = Partition::find(&broker, "__consumer_offsets", 0);
    let deadline = Instant::now() + PATIENCE;
    // Of eighty commits a few stay: the newest, and what the segment that appends go to holds.
    while content(&mut p, 0).split(' ').count() > 12 {
        assert!(Instant::now() < deadline, "{}", content(&mut p, 0));
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(commit(&mut client, "filler", "t", 0, 1), 0);
    }
    for restart in 0..2 {
        let mut client = coordinator(&broker, "kept");
        assert_eq!(committed(&mut client, "kept", "t", 0), 40, "restart {restart}");
        assert_eq!(committed(&mut client, "kept", "t", 1), 80);
        assert_eq!(committed(&mut client, "gone", "t", 0), -1);
        broker.kill();
        broker.launch();
    }
}
