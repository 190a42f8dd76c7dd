//! Fetch: whole batches, limits that never stall a reader, long polls, epochs, topic ids.

mod support;

use std::thread;
use std::time::{Duration, Instant};

use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::{FetchRequest, FetchResponse};
use support::batch::decode_all;
use support::topic::{FETCH_VERSION, create, name};
use support::{Batch, Broker, Partition};
use uuid::Uuid;

const OFFSET_OUT_OF_RANGE: i16 = 1;
const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const KAFKA_STORAGE_ERROR: i16 = 56;
const FENCED_LEADER_EPOCH: i16 = 74;
const UNKNOWN_LEADER_EPOCH: i16 = 75;
const UNKNOWN_TOPIC_ID: i16 = 100;

fn partition(index: i32, offset: i64, max_bytes: i32) -> FetchPartition {
    FetchPartition::default()
        .with_partition(index)
        .with_fetch_offset(offset)
        .with_current_leader_epoch(-1)
        .with_last_fetched_epoch(-1)
        .with_partition_max_bytes(max_bytes)
}

fn request(topic: &str, partitions: Vec<FetchPartition>) -> FetchRequest {
    let topic = FetchTopic::default()
        .with_topic(name(topic))
        .with_partitions(partitions);
    FetchRequest::default()
        .with_replica_id((-1).into())
        .with_max_wait_ms(0)
        .with_min_bytes(1)
        .with_max_bytes(64 << 20)
        .with_session_epoch(-1)
        .with_topics(vec![topic])
}

fn bytes(answer: &FetchResponse) -> usize {
    let partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
    partitions
        .map(|partition| partition.records.as_ref().map_or(0, bytes::Bytes::len))
        .sum()
}

#[test]
fn a_fetch_from_the_middle_of_a_batch_gives_the_whole_batch() {
    let broker = Broker::start();
    let mut p = Partition::create(&broker, "middle", &[]);
    p.append(&Batch::of_values(["a", "b", "c"]));
    p.append(&Batch::of_values(["d", "e", "f"]));
    for (offset, first) in [(0, 0), (1, 0), (2, 0), (3, 3), (5, 3)] {
        assert_eq!(p.batches(offset)[0].base_offset, first, "at {offset}");
    }
    let at_end = p.fetch(6);
    assert_eq!(
        (
            at_end.error_code,
            at_end.high_watermark,
            at_end.last_stable_offset
        ),
        (0, 6, 6)
    );
    assert!(at_end.records.unwrap_or_default().is_empty());
}

/// B09: redpanda #3409, PR #1532: a batch over the limit was never returned, or limits summed up without bound.
#[test]
fn a_large_batch_passes_every_limit_but_comes_alone() {
    let broker = Broker::start();
    let mut p = Partition::create(&broker, "limits", &[("max.message.bytes", "4000000")]);
    for _ in 0..3 {
        p.append(&Batch::of_values([vec![b'x'; 3_000_000]]));
    }
    for offset in 0..3 {
        let request = request("limits", vec![partition(0, offset, 1)]).with_max_bytes(1);
        let answer = p.client.call(FETCH_VERSION, &request);
        let records = answer.responses[0].partitions[0].records.clone().unwrap();
        let batches = decode_all(&records);
        assert_eq!(batches.len(), 1);
        assert_eq!(batches[0].base_offset, offset);
    }
}

/// B09.
#[test]
fn an_answer_holds_at_most_its_limit_and_one_batch() {
    let broker = Broker::start();
    create(&mut broker.client(), "many", 8, &[]);
    let mut p = Partition::find(&broker, "many", 0);
    for index in 0..8 {
        p.index = index;
        for _ in 0..4 {
            p.append(&Batch::of_values([vec![b'x'; 100_000]]));
        }
    }
    let all = (0..8).map(|index| partition(index, 0, 1 << 20)).collect();
    let answer = p
        .client
        .call(FETCH_VERSION, &request("many", all).with_max_bytes(250_000));
    assert!(
        (100_000..=350_100).contains(&bytes(&answer)),
        "{}",
        bytes(&answer)
    );
    // A partition's own limit holds for all but the first that has data.
    let all = vec![partition(0, 0, 1), partition(1, 0, 1), partition(2, 0, 250_000)];
    let answer = p.client.call(FETCH_VERSION, &request("many", all));
    let counts: Vec<usize> = answer.responses[0]
        .partitions
        .iter()
        .map(|p| decode_all(&p.records.clone().unwrap_or_default()).len())
        .collect();
    assert_eq!(counts, [1, 0, 2]);
}

#[test]
fn a_long_poll_ends_with_the_first_record_and_with_its_wait() {
    let broker = Broker::start();
    let mut reader = Partition::create(&broker, "poll", &[]);
    let mut writer = Partition::find(&broker, "poll", 0);
    let parked = reader.fetch_request(0).with_max_wait_ms(30_000);
    let start = Instant::now();
    reader.client.send(FETCH_VERSION, &parked).unwrap();
    writer.append(&Batch::of_values(["news"]));
    let (_, answer) = reader.client.receive::<FetchRequest>(FETCH_VERSION).unwrap();
    assert!(bytes(&answer) > 0);
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "it waited for its deadline"
    );

    let start = Instant::now();
    let empty = reader
        .client
        .call(FETCH_VERSION, &reader.fetch_request(1).with_max_wait_ms(200));
    assert_eq!(bytes(&empty), 0);
    assert!(start.elapsed() >= Duration::from_millis(200), "it did not wait");
}

#[test]
fn a_long_poll_waits_for_its_minimum() {
    let broker = Broker::start();
    let mut reader = Partition::create(&broker, "minimum", &[]);
    let mut writer = Partition::find(&broker, "minimum", 0);
    let parked = reader
        .fetch_request(0)
        .with_max_wait_ms(60_000)
        .with_min_bytes(3000);
    reader.client.send(FETCH_VERSION, &parked).unwrap();
    for _ in 0..3 {
        writer.append(&Batch::of_values([vec![b'x'; 1000]]));
    }
    let (_, answer) = reader.client.receive::<FetchRequest>(FETCH_VERSION).unwrap();
    assert_eq!(
        decode_all(answer.responses[0].partitions[0].records.as_ref().unwrap()).len(),
        3
    );
}

/// More than the limit is not waited for.
#[test]
fn a_long_poll_ends_at_its_limit_below_its_minimum() {
    let broker = Broker::start_set(&["fetch.max.bytes=5000"]);
    let mut p = Partition::create(&broker, "impossible", &[]);
    for _ in 0..20 {
        p.append(&Batch::of_values([vec![b'x'; 1000]]));
    }
    for (min_bytes, max_bytes) in [(4000, 2000), (10_000, 64 << 20)] {
        let request = p
            .fetch_request(0)
            .with_max_wait_ms(600_000)
            .with_min_bytes(min_bytes)
            .with_max_bytes(max_bytes);
        let found = bytes(&p.client.call(FETCH_VERSION, &request));
        assert!((1000..=6100).contains(&found), "{found}");
    }
}

/// B09: the broker's own bound holds whatever the client asks for.
#[test]
fn an_answer_is_bounded_by_the_broker_too() {
    let broker = Broker::start_set(&["fetch.max.bytes=250000"]);
    let mut p = Partition::create(&broker, "capped", &[]);
    for _ in 0..8 {
        p.append(&Batch::of_values([vec![b'x'; 100_000]]));
    }
    let answer = p.client.call(FETCH_VERSION, &p.fetch_request(0));
    assert!(
        (100_000..=350_100).contains(&bytes(&answer)),
        "{}",
        bytes(&answer)
    );
}

#[test]
fn an_error_ends_a_long_poll_at_once() {
    let broker = Broker::start();
    let mut p = Partition::create(&broker, "errors", &[]);
    let start = Instant::now();
    let wait = |request: FetchRequest| request.with_max_wait_ms(60_000);
    p.append(&Batch::of_values(["a", "b"]));
    for (offset, epoch, code) in [
        (7, -1, OFFSET_OUT_OF_RANGE),
        (-1, -1, OFFSET_OUT_OF_RANGE),
        (0, 1000, UNKNOWN_LEADER_EPOCH),
    ] {
        let request = wait(request(
            "errors",
            vec![partition(0, offset, 1).with_current_leader_epoch(epoch)],
        ));
        let answer = p.client.call(FETCH_VERSION, &request);
        let answer = &answer.responses[0].partitions[0];
        assert_eq!(answer.error_code, code);
        if code == OFFSET_OUT_OF_RANGE {
            assert_eq!((answer.high_watermark, answer.log_start_offset), (2, 0));
        }
    }
    let answer = p
        .client
        .call(FETCH_VERSION, &wait(request("nothing", vec![partition(0, 0, 1)])));
    assert_eq!(
        answer.responses[0].partitions[0].error_code,
        UNKNOWN_TOPIC_OR_PARTITION
    );
    let answer = p
        .client
        .call(FETCH_VERSION, &wait(request("errors", vec![partition(9, 0, 1)])));
    assert_eq!(
        answer.responses[0].partitions[0].error_code,
        UNKNOWN_TOPIC_OR_PARTITION
    );
    assert!(start.elapsed() < Duration::from_secs(50));
}

#[test]
fn an_older_epoch_is_fenced_and_the_leader_named() {
    let mut broker = Broker::start();
    let mut p = Partition::create(&broker, "epochs", &[]);
    p.append(&Batch::of_values(["a"]));
    let old = p.list_offset(7, -1).leader_epoch;
    broker.kill();
    broker.launch();
    let mut p = Partition::find(&broker, "epochs", 0);
    let new = p.list_offset(7, -1).leader_epoch;
    assert!(new > old, "the epoch rises at a restart: {old}, {new}");
    let topic = FetchTopic::default()
        .with_topic_id(p.topic_id)
        .with_partitions(vec![partition(0, 0, 1).with_current_leader_epoch(old)]);
    let request = request("", Vec::new()).with_topics(vec![topic]);
    let answer = p.client.call(16, &request);
    let fenced = &answer.responses[0].partitions[0];
    assert_eq!(fenced.error_code, FENCED_LEADER_EPOCH);
    assert_eq!(
        (
            fenced.current_leader.leader_id.0,
            fenced.current_leader.leader_epoch
        ),
        (1000, new)
    );
    assert_eq!(answer.node_endpoints[0].port, i32::from(broker.address().port()));
    // A client whose last record is of an epoch beyond what the log has is told where they part.
    let ahead = request_by_name(
        "epochs",
        partition(0, 1, 1 << 20).with_last_fetched_epoch(new + 5),
    );
    let answer = p.client.call(FETCH_VERSION, &ahead);
    let answer = &answer.responses[0].partitions[0];
    assert!(answer.error_code == OFFSET_OUT_OF_RANGE || answer.diverging_epoch.end_offset == 1);
    // Also where its offset lies beyond the log's end: that they part is the answer, and no error.
    let beyond = request_by_name("epochs", partition(0, 5, 1 << 20).with_last_fetched_epoch(new));
    let answer = p.client.call(FETCH_VERSION, &beyond);
    let answer = &answer.responses[0].partitions[0];
    assert_eq!((answer.error_code, answer.diverging_epoch.end_offset), (0, 1));
    assert_eq!(answer.diverging_epoch.epoch, new);
}

fn request_by_name(topic: &str, p: FetchPartition) -> FetchRequest {
    request(topic, vec![p])
}

#[test]
fn topics_are_fetched_by_id_in_every_version_that_has_ids() {
    let broker = Broker::start();
    let mut p = Partition::create(&broker, "ids", &[]);
    p.append(&Batch::of_values(["a"]));
    for version in 4..=18 {
        let by_id = version >= 13;
        let topic = |id: Uuid| {
            let topic = FetchTopic::default().with_partitions(vec![partition(0, 0, 1 << 20)]);
            if by_id {
                topic.with_topic_id(id)
            } else {
                topic.with_topic(name("ids"))
            }
        };
        let request = request("", Vec::new()).with_topics(vec![topic(p.topic_id)]);
        let answer = p.client.call(version, &request);
        let data = &answer.responses[0].partitions[0];
        assert_eq!(data.error_code, 0, "version {version}");
        assert_eq!(
            decode_all(data.records.as_ref().unwrap())[0].values(),
            [b"a"],
            "version {version}"
        );
        if by_id {
            let unknown = request.with_topics(vec![topic(Uuid::from_u128(7))]);
            let answer = p.client.call(version, &unknown);
            assert_eq!(answer.responses[0].partitions[0].error_code, UNKNOWN_TOPIC_ID);
        }
    }
}

#[test]
fn read_committed_readers_get_an_empty_list_of_aborted_transactions_and_others_none() {
    let broker = Broker::start();
    let mut p = Partition::create(&broker, "aborted", &[]);
    p.append(&Batch::of_values(["a"]));
    for (isolation, expected) in [(0, None), (1, Some(Vec::new()))] {
        let request = p.fetch_request(0).with_isolation_level(isolation);
        let answer = p.client.call(FETCH_VERSION, &request);
        assert_eq!(answer.responses[0].partitions[0].aborted_transactions, expected);
    }
}

#[test]
fn a_reader_that_leaves_while_parked_is_forgotten_and_others_go_on() {
    let broker = Broker::start();
    let mut writer = Partition::create(&broker, "leavers", &[]);
    for _ in 0..100 {
        let mut reader = Partition::find(&broker, "leavers", 0);
        reader
            .client
            .send(FETCH_VERSION, &reader.fetch_request(0).with_max_wait_ms(600_000))
            .unwrap();
    }
    let mut stays = Partition::find(&broker, "leavers", 0);
    stays
        .client
        .send(FETCH_VERSION, &stays.fetch_request(0).with_max_wait_ms(60_000))
        .unwrap();
    let reading = thread::spawn(move || stays.client.receive::<FetchRequest>(FETCH_VERSION).unwrap().1);
    writer.append(&Batch::of_values(["a"]));
    assert!(bytes(&reading.join().unwrap()) > 0);
}

/// A reader of a damaged log was parked at the damage for ever, or told that its offset was out of range.
#[test]
fn a_damaged_log_is_served_up_to_the_damage_and_says_so_there() {
    let mut broker = Broker::start();
    let mut p = Partition::create(&broker, "damaged", &[]);
    for value in ["whole", "bytes that rot", "behind it"] {
        p.append(&Batch::of_values([value]));
    }
    broker.kill();
    let mut rotten = 0;
    for file in 0..8 {
        let path = broker.data_directory().join(format!("shard-0/journal-{file}"));
        let Ok(mut bytes) = std::fs::read(&path) else {
            continue;
        };
        let value = b"bytes that rot";
        let places: Vec<usize> = (0..bytes.len().saturating_sub(value.len()))
            .filter(|at| bytes[*at] == value[0] && bytes[*at..].starts_with(value))
            .collect();
        for place in &places {
            bytes[*place] ^= 1;
        }
        rotten += places.len();
        if !places.is_empty() {
            std::fs::write(&path, bytes).unwrap();
        }
    }
    assert_eq!(rotten, 1);
    broker.launch();
    let mut p = Partition::find(&broker, "damaged", 0);
    assert_eq!(p.batches(0)[0].values(), [b"whole"]);
    for offset in [1, 2, 3] {
        let fetch = p.fetch_request(offset).with_max_wait_ms(60_000).with_min_bytes(1);
        let answer = p.client.call(FETCH_VERSION, &fetch);
        let data = &answer.responses[0].partitions[0];
        assert_eq!(data.error_code, KAFKA_STORAGE_ERROR, "at {offset}");
    }
}
