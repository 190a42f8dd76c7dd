//! Deleting topics while they are written and read: everyone hears of it at once, and nothing comes back
//! (B30: redpanda #264, librdkafka #1582, akhq #49; B37: pebble #864, rocksdb #12403).

mod support;

use std::thread;

use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::{DeleteTopicsRequest, FetchRequest};
use support::topic::{FETCH_VERSION, PRODUCE_VERSION, create, name};
use support::{Batch, Broker, Client, Partition};

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;

fn delete(client: &mut Client, topic: &str) -> i16 {
    let state = DeleteTopicState::default().with_name(Some(name(topic)));
    let request = DeleteTopicsRequest::default()
        .with_topics(vec![state])
        .with_timeout_ms(30_000);
    client.call(6, &request).responses[0].error_code
}

#[test]
fn writers_and_parked_readers_hear_of_it_at_once() {
    let broker = Broker::start_with(&["--shards", "2"]);
    create(&mut broker.client(), "busy", 4, &[]);
    thread::scope(|scope| {
        for index in 0..4 {
            let mut writer = Partition::find(&broker, "busy", index);
            scope.spawn(move || {
                loop {
                    let request = writer.produce_request(-1, Batch::of_values(["v"]).encode());
                    let answer = writer.client.call(PRODUCE_VERSION, &request);
                    let code = answer.responses[0].partition_responses[0].error_code;
                    if code != 0 {
                        assert_eq!(code, UNKNOWN_TOPIC_OR_PARTITION);
                        return;
                    }
                }
            });
            let mut reader = Partition::find(&broker, "busy", index);
            // Nothing comes from so far out: it stays parked.
            let far = reader
                .fetch_request(0)
                .with_max_wait_ms(600_000)
                .with_min_bytes(i32::MAX);
            reader.client.send(FETCH_VERSION, &far).unwrap();
            scope.spawn(move || {
                let (_, answer) = reader.client.receive::<FetchRequest>(FETCH_VERSION).unwrap();
                assert_eq!(
                    answer.responses[0].partitions[0].error_code,
                    UNKNOWN_TOPIC_OR_PARTITION
                );
            });
        }
        let deleters: Vec<_> = (0..2)
            .map(|shard| {
                let mut client = broker.client_of(1000 + shard);
                scope.spawn(move || delete(&mut client, "busy"))
            })
            .collect();
        let mut codes: Vec<i16> = deleters
            .into_iter()
            .map(|deleter| deleter.join().unwrap())
            .collect();
        codes.sort_unstable();
        assert!(
            codes == [0, 0] || codes == [0, UNKNOWN_TOPIC_OR_PARTITION],
            "{codes:?}"
        );
    });
}

#[test]
fn a_recreated_topic_starts_empty_also_after_a_crash() {
    let mut broker = Broker::start();
    for round in 0..20 {
        let mut p = Partition::create(&broker, "again", &[]);
        assert_eq!(p.end_offset(), 0, "round {round}");
        for n in 0..5 {
            assert_eq!(p.append(&Batch::of_values([format!("{round}-{n}")])), n);
        }
        if round % 5 == 4 {
            broker.kill();
            broker.launch();
            let stored = Partition::find(&broker, "again", 0).read_all(0);
            let expected: Vec<_> = (0..5).map(|n| format!("{round}-{n}").into_bytes()).collect();
            assert_eq!(
                stored.into_values().map(|r| r.value.unwrap()).collect::<Vec<_>>(),
                expected
            );
        }
        assert_eq!(delete(&mut broker.client(), "again"), 0);
    }
    assert!(broker.stop().success());
    broker.launch();
    assert!(broker.is_running());
    let logs = broker.data_directory().join("shard-0/logs");
    let left = std::fs::read_dir(&logs)
        .map(|entries| entries.count())
        .unwrap_or_default();
    assert_eq!(
        left,
        0,
        "folders of deleted topics are left in {}",
        logs.display()
    );
}
